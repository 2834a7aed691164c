//! An Extract, put together.

use super::heartbeat::Beating;
use super::log_kept::Watching;
use super::{Run, STEP_WAIT, host, machine};
use crate::{failure, wire};
use capture::{Extract, ExtractSetup, LongTransactions, Pace, PartitionError, PartitionedTables, Selection, Step};
use database::{Database, HeartbeatJob, HeartbeatState, SourceRequest, TableSelection};
use parameter::{EncryptParameter, ExtractParameters, TrailByteOrder, UpdateRecordFormat};
use process::{CheckpointBody, CheckpointFile, Code, Failure, TrailPlace, Wallet, WriteCheckpoint, clock};
use std::sync::Arc;
use trail::cipher::{Algorithm, MasterKeys};
use trail::format::bytes::Order;
use trail::storage::Directory;
use trail::{Cover, Format, Producer, RecoveryMode, SourceIdentity, UpdateImages, Writer, WriterOptions};

impl Run {
    /// Captures until told to stop, from the last checkpoint on.
    pub(super) fn extract(&mut self) -> Result<(), Box<Failure>> {
        let parameters = parameter::parse_extract(&self.parameters, &self.parameter_file)
            .map_err(|error| Failure::new(Code::ParameterWrong, error.to_string()))?;
        self.check_group(&parameters.group)?;
        self.plan_purge(parameters.purge.as_ref(), parameters.trails.first().map_or("", String::as_str))?;
        let mut extract = self.open_extract(&parameters)?;
        self.resets_bounded = false;
        let long = &parameters.long;
        // A failure that is tried again is no reason to tell the same once more.
        self.long.get_or_insert_with(|| LongTransactions::new(long.after, long.every));
        let _beating = self.beat(&parameters);
        let _watching = self.watch_log(&parameters);
        while !self.shutdown.is_requested() {
            let stepped = match extract.step(STEP_WAIT) {
                Ok(Step::Worked | Step::Idle) => {
                    self.retry.succeeded();
                    Ok(())
                }
                Ok(Step::Retry { cause }) => self.before_retry(&cause),
                Err(error) => Err(of_source(&error, &parameters)),
            };
            self.purge_if_due(extract.progress().trail.sequence);
            self.look_for_ended(&extract, &parameters);
            self.look_for_long(&extract, &parameters);
            self.forget_ended(&mut extract);
            let stepped = stepped.and_then(|()| self.answer_extract(&mut extract, &parameters));
            if stepped.is_err() {
                self.journal.statistics(extract.statistics());
                return stepped;
            }
        }
        let statistics = extract.statistics().clone();
        let stopped = extract.stop();
        self.journal.statistics(&statistics);
        if stopped.is_ok() {
            self.purge();
        }
        stopped.map(|_| ()).map_err(|error| of_source(&error, &parameters))
    }

    /// What the operator wants laid over the data of the trail.
    fn cover(&self, parameters: &ExtractParameters) -> Cover {
        let algorithm = |encrypt| match encrypt {
            EncryptParameter::Aes128 => Algorithm::Aes128,
            EncryptParameter::Aes192 => Algorithm::Aes192,
            EncryptParameter::Aes256 => Algorithm::Aes256,
        };
        let keys: Arc<dyn MasterKeys> = Arc::new(Wallet::of(&self.home));
        let encryption = parameters.encrypt.map(|encrypt| (algorithm(encrypt), keys));
        Cover { encryption, is_compressed: parameters.compress }
    }

    /// Lets the jobs of the source's heartbeat tables run.
    fn beat(&self, parameters: &ExtractParameters) -> Option<Beating> {
        const JOBS: &[HeartbeatJob] = &[HeartbeatJob::Stamp, HeartbeatJob::Purge];
        let database = wire::open(self.home.path(), parameters.source.reveal()).ok()?;
        self.heartbeats_of(parameters, &*database)?;
        Some(Beating::start(database, JOBS, None, self.journal.clone()))
    }

    /// The source's heartbeat tables, as far as this group captures them.
    fn heartbeats_of(&self, parameters: &ExtractParameters, database: &dyn Database) -> Option<HeartbeatState> {
        let state = self.heartbeat_state(database)?;
        if parameters.format.object_definitions == Some(false) {
            let text = "the source has heartbeat tables; a trail without definitions can't hold heartbeats, so none are written";
            self.journal.say(Code::Notice, text);
            return None;
        }
        Some(state)
    }

    /// Warns while the source keeps too much log for the group.
    fn watch_log(&self, parameters: &ExtractParameters) -> Option<Watching> {
        let database = wire::open(self.home.path(), parameters.source.reveal()).ok()?;
        Watching::start(database, self.group.to_string(), parameters.log_kept, self.journal.clone())
    }

    /// Keeps how large the files of the source's log are, for who looks at the checkpoints without asking the source.
    fn note_log_files(&mut self, checkpoint: &mut CheckpointFile, database: &dyn Database) -> Result<(), Box<Failure>> {
        let mut latest = checkpoint.latest().clone();
        let CheckpointBody::Extract(body) = &mut latest.body else { return Ok(()) };
        // A source that can't be asked says so when it is opened.
        let asked = database.log_file_bytes().ok().flatten();
        self.log_file_bytes = asked.or(body.log_file_bytes);
        if self.log_file_bytes == body.log_file_bytes {
            return Ok(());
        }
        body.log_file_bytes = self.log_file_bytes;
        checkpoint.save(&latest).map_err(|error| Box::new(Failure::from(&error)))
    }

    fn open_extract(&mut self, parameters: &ExtractParameters) -> Result<Extract, Box<Failure>> {
        let mut checkpoint = self.checkpoint_file()?;
        let trail = self.trail_of(parameters, &checkpoint)?;
        let database = wire::open(self.home.path(), parameters.source.reveal())
            .map_err(|error| failure::of_database(&error).with_object(parameters.source.to_string()))?;
        self.note_log_files(&mut checkpoint, &*database)?;
        let body = checkpoint.latest().extract().expect("the file is an Extract's");
        let asked = [(parameters.definitions.is_some(), "DDL"), (!parameters.sequences.is_empty(), "SEQUENCE")];
        if let Some((_, name)) = asked.into_iter().find(|(is_asked, _)| *is_asked && !database.tells_objects()) {
            let what = format!("{name} has no effect: {} tells of changes of rows only", parameters.source);
            let failure = Failure::new(Code::ParameterWrong, what).with_object(self.parameter_file.clone());
            return Err(Box::new(failure.with_next_step(format!("take {name} out of the parameter file"))));
        }
        let refused = |error: database::Error| {
            failure::of_database(&error)
                .with_object(parameters.source.to_string())
                .with_position(format!("source position {}", body.recovery.position))
        };
        let heartbeats = self.heartbeats_of(parameters, &*database);
        let (case, schema) = (database.case_rule(), database.default_schema());
        let selection = Selection::new(&parameters.tables, case, &schema)
            .with_sequences(&parameters.sequences, case, &schema)
            .with_definitions(parameters.definitions.is_some())
            .with_heartbeats(heartbeats.is_some());
        let tables: Arc<dyn TableSelection> = Arc::new(selection);
        let partitions = match parameters.partitions.is_empty() {
            true => None,
            false => {
                let plan = parameters.partitions.plan(case, &schema);
                let partitions = PartitionedTables::new(Arc::clone(&database), plan, Arc::clone(&tables));
                Some(partitions.map_err(|error| match error {
                    PartitionError::Database(error) => refused(error).into(),
                    error => Box::new(of_partitions(&error).with_object(self.parameter_file.clone())),
                })?)
            }
        };
        let published: Arc<dyn TableSelection> = match &partitions {
            Some(partitions) => Arc::clone(partitions) as Arc<dyn TableSelection>,
            None => Arc::clone(&tables),
        };
        let request =
            SourceRequest { group: self.group.to_string(), start: body.recovery.position.clone(), tables: published };
        let left_out = body.left_out.iter().map(|told| told.transaction.clone()).collect();
        let source = self.open_source(parameters, &*database, request, left_out)?;
        let definitions = database.tables().map_err(refused)?;
        let identity = database.identity().map_err(refused)?;
        let origin = database.origin().map_err(refused)?;
        let place = TrailPlace::parse(self.home.path(), &trail.name).map_err(|error| Failure::from(&error))?;
        let options = WriterOptions {
            trail: if parameters.format.six_digits { place.name.with_six_digits() } else { place.name },
            display_name: trail.name.clone(),
            file_bytes_max: u64::from(trail.megabytes) * 1_000_000,
            producer: Producer {
                group: self.group.to_string(),
                host: host(),
                version: env!("CARGO_PKG_VERSION").to_owned(),
                machine: machine(),
            },
            source: SourceIdentity {
                product: identity.product,
                version: identity.version,
                name: identity.name,
                instance: origin.instance,
                unique_name: origin.unique_name,
                locale: origin.locale,
                time_zone: origin.time_zone,
                charset: trail::format::charset::number_of(&origin.character_set),
                case_rule: database.case_rule(),
                client_version: format!("Drover {}", env!("CARGO_PKG_VERSION")),
            },
            clock: Arc::new(clock::now),
            expected: trail.position,
            format: format_of(&trail.name, &parameters.format)?,
            history: Vec::new(),
            cover: self.cover(parameters),
        };
        let writer =
            Writer::open(Arc::new(Directory::new(&place.directory)), options).map_err(|error| Failure::from(&error))?;
        let setup = ExtractSetup {
            source,
            tables,
            definitions,
            writer,
            checkpoint,
            clock: Arc::new(clock::now),
            notice: self.journal.notice(),
            pace: Pace::default(),
        };
        let mut extract = Extract::new(setup).map_err(|error| of_source(&error, parameters))?;
        if let Some(partitions) = partitions {
            extract.set_partitions(partitions);
        }
        if let Some(rules) = &parameters.definitions {
            extract.set_definitions(rules.plan(case, &schema));
        }
        if let Some(state) = heartbeats {
            extract.capture_heartbeats(self.group.as_str(), &state.schema);
        }
        Ok(extract)
    }

    /// The trail that parameter file and checkpoint agree on, letter for letter: a second name for it would leave a write
    /// checkpoint behind that never moves.
    fn trail_of(
        &self,
        parameters: &ExtractParameters,
        checkpoint: &CheckpointFile,
    ) -> Result<WriteCheckpoint, Box<Failure>> {
        let body = checkpoint.latest().extract().expect("the file is an Extract's");
        let named = parameters.trails.first().map(String::as_str).unwrap_or_default();
        if let Some(trail) = body.trails.iter().find(|trail| trail.name == named) {
            return Ok(trail.clone());
        }
        let known: Vec<&str> = body.trails.iter().map(|trail| trail.name.as_str()).collect();
        let what = match known[..] {
            [] => format!("EXTRACT {} has no trail {named}", self.group),
            _ => format!("EXTRACT {} has no trail {named}, it has {}", self.group, known.join(", ")),
        };
        let keyword = TrailPlace::parse(self.home.path(), named).map_or("EXTTRAIL", |place| place.keyword());
        let next_step = format!(
            "ADD {keyword} {named}, EXTRACT {}, or give the trail's name in the parameter file letter for letter",
            self.group
        );
        let failure = Failure::new(Code::ParameterWrong, what).with_object(self.parameter_file.clone());
        Err(Box::new(failure.with_next_step(next_step)))
    }
}

/// The format that the parameter file asks for.
fn format_of(trail: &str, asked: &parameter::TrailFormat) -> Result<Format, Box<Failure>> {
    let level = asked.release.map(|(major, minor)| {
        trail::level_of_release(major, minor).ok_or_else(|| {
            let what = format!("the format of release {major}.{minor} is not known, only those of 10.0 to 21.x");
            Box::new(Failure::new(Code::TrailFormatWrong, what).with_object(trail))
        })
    });
    let native = if cfg!(target_endian = "big") { Order::Big } else { Order::Little };
    Ok(Format {
        level: level.transpose()?,
        order: asked.byte_order.map(|order| match order {
            TrailByteOrder::Big => Order::Big,
            TrailByteOrder::Little => Order::Little,
            TrailByteOrder::Native => native,
        }),
        has_definitions: asked.object_definitions,
        updates: asked.updates.map(|format| match format {
            UpdateRecordFormat::Compact => UpdateImages::Compact,
            UpdateRecordFormat::Full => UpdateImages::Full,
        }),
        recovery: asked.overwrite.map(|overwrite| match overwrite {
            true => RecoveryMode::Overwrite,
            false => RecoveryMode::Append,
        }),
    })
}

/// The failure of PARTITION statements that can't be followed.
pub(crate) fn of_partitions(error: &PartitionError) -> Failure {
    let code = match error {
        PartitionError::Untold { .. } => Code::PartitionUntold,
        PartitionError::Unfit { .. } | PartitionError::Database(_) => Code::PartitionUnfit,
    };
    Failure::new(code, error.to_string())
}

/// The failure of an Extract; one that is about the source as a whole names it.
pub(super) fn of_source(error: &capture::Error, parameters: &ExtractParameters) -> Box<Failure> {
    let failure = Failure::from(error);
    Box::new(match error {
        capture::Error::Source { .. } => failure.with_object(parameters.source.to_string()),
        _ => failure,
    })
}
