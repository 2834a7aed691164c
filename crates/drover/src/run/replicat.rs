//! A Replicat, put together.

use super::conflicts::{ConflictDesk, divergence_lines};
use super::discard_file::DiscardFile;
use super::heartbeat::Beating;
use super::mode::Sharing;
use super::source_names::SourceNames;
use super::{Run, STEP_WAIT, source_definitions};
use crate::{failure, wire};
use apply::schedule::Parallelism;
use apply::{
    AnyReplicat, Crew, GroupLimits, HeartbeatTarget, Pace, ParallelReplicat, ParallelSetup, Replicat, ReplicatSetup,
    Step,
};
use change::TableName;
use database::{CheckpointRow, ForeignKeyPolicy, HeartbeatJob, HeartbeatTable, SessionRequest, TriggerPolicy};
use parameter::ReplicatParameters;
use process::{CheckpointFile, Code, Failure, ReplicatCheckpoint, StopStatus, TrailPlace, Wallet, clock};
use std::sync::Arc;
use std::time::Duration;
use trail::storage::{Directory, Storage};

/// How often the checkpoint file follows the checkpoint table's row, which moves with every commit. INFO reads the file.
const CHECKPOINT_FILE_PACE: Duration = Duration::from_secs(1);

impl Run {
    /// Applies until told to stop, from the checkpoint row on.
    pub(super) fn replicat(&mut self) -> Result<(), Box<Failure>> {
        let parameters = parameter::parse_replicat(&self.parameters, &self.parameter_file)
            .map_err(|error| Failure::new(Code::ParameterWrong, error.to_string()))?;
        self.check_group(&parameters.group)?;
        let checkpoint = self.checkpoint_file()?;
        let body = checkpoint.latest().replicat().expect("the file is a Replicat's").clone();
        let table = body.checkpoint_table.clone();
        self.plan_purge(parameters.purge.as_ref(), &body.trail)?;
        let Some(mut replicat) = self.open_replicat(&parameters, checkpoint, &body)? else {
            self.note_end(StopStatus::Graceful);
            return Ok(());
        };
        let _beating = self.receive_heartbeats(&parameters, &mut replicat);
        let mut desk = ConflictDesk::open(&parameters.conflict_hook, self.home.path(), &self.journal);
        while !self.is_over(&replicat) {
            let stepped = match replicat.step(STEP_WAIT) {
                Ok(Step::Worked | Step::Idle) => {
                    self.retry.succeeded();
                    Ok(())
                }
                Ok(Step::Retry { cause }) => self.before_retry(&cause),
                Err(error) => Err(of_target(&error, &parameters, &table)),
            };
            self.take_conflicts(&mut replicat, &mut desk);
            self.purge_if_due(replicat.progress().position.sequence);
            self.answer_replicat(&replicat, &body.trail, &desk);
            if let Err(failure) = &stepped {
                self.tell_stop(&mut desk, failure);
                // Another attempt leaves out the same transactions.
                self.start = replicat.start_options();
                self.say_conflicts(&replicat);
                self.say_side_by_side(&replicat);
                self.journal.statistics(replicat.statistics());
                return stepped;
            }
        }
        let is_at_once = self.commands.is_at_once;
        if !is_at_once {
            replicat.finish();
        }
        self.take_conflicts(&mut replicat, &mut desk);
        self.say_conflicts(&replicat);
        self.say_side_by_side(&replicat);
        let statistics = replicat.statistics().clone();
        let stopped = if is_at_once { replicat.stop_at_once() } else { replicat.stop() };
        self.journal.statistics(&statistics);
        if stopped.is_ok() {
            self.purge();
        }
        stopped.map(|_| ()).map_err(|error| of_target(&error, &parameters, &table))
    }

    /// Whether the run has come to its end: it was told to stop, or has done all that it was for.
    fn is_over(&self, replicat: &AnyReplicat) -> bool {
        self.shutdown.is_requested() || (self.synchronizes && replicat.is_synchronized())
    }

    /// Lets the group apply heartbeats where its target has tables for them, and the job run that purges them.
    fn receive_heartbeats(&self, parameters: &ReplicatParameters, replicat: &mut AnyReplicat) -> Option<Beating> {
        const JOBS: &[HeartbeatJob] = &[HeartbeatJob::Purge];
        let database = wire::open(self.home.path(), parameters.target.reveal()).ok()?;
        let state = self.heartbeat_state(&*database);
        let nowhere = |table: HeartbeatTable| TableName::new("", table.name());
        replicat.set_heartbeats(HeartbeatTarget {
            group: self.group.to_string(),
            database: state.as_ref().map(|state| state.database.clone()),
            heartbeats: state.as_ref().map_or_else(|| nowhere(HeartbeatTable::Arrived), |state| state.arrived.clone()),
            history: state.as_ref().map_or_else(|| nowhere(HeartbeatTable::History), |state| state.history.clone()),
        });
        state?;
        Some(Beating::start(database, JOBS, Some(self.group.to_string()), self.journal.clone()))
    }

    /// Conflicts since the start, one line per table and kind.
    fn say_conflicts(&self, replicat: &AnyReplicat) {
        for ((table, kind), count) in replicat.conflicts() {
            let methods = replicat.methods_text(&table, kind);
            let (resolved, failed) = (count.resolved, count.failed);
            let line = format!("{kind} conflicts of {table}: {resolved} resolved, {failed} failed{methods}");
            self.journal.say(Code::Notice, line);
        }
    }

    /// How many appliers there was work for, for a Replicat that has several.
    fn say_side_by_side(&self, replicat: &AnyReplicat) {
        if let Some(side_by_side) = replicat.side_by_side().filter(|told| told.tally.groups > 0) {
            self.journal.say(Code::Notice, side_by_side.to_string());
        }
    }

    /// Puts the Replicat together; `None` when told to stop before its trail exists.
    fn open_replicat(
        &self,
        parameters: &ReplicatParameters,
        checkpoint: CheckpointFile,
        body: &ReplicatCheckpoint,
    ) -> Result<Option<AnyReplicat>, Box<Failure>> {
        if parameters.decrypt {
            Wallet::of(&self.home).check().map_err(|error| Failure::from(&error))?;
        }
        let place = TrailPlace::parse(self.home.path(), &body.trail).map_err(|error| Failure::from(&error))?;
        let database = wire::open(self.home.path(), parameters.target.reveal())
            .map_err(|error| failure::of_database(&error).with_object(parameters.target.to_string()))?;
        let table = &body.checkpoint_table;
        let state = database
            .inspect_checkpoint_table(table)
            .map_err(|error| failure::of_database(&error).with_object(parameters.target.to_string()))?;
        let refused = |code, what| Box::new(Failure::new(code, what).with_object(parameters.target.to_string()));
        let is_old = state.as_ref().is_some_and(|state| !state.missing.is_empty());
        match state {
            None => {
                let what = format!("the target has no checkpoint table {table}");
                return Err(refused(Code::CheckpointTableMissing, what));
            }
            Some(state) if !state.faults.is_empty() => {
                let what = format!("checkpoint table {table} was changed: {}", state.faults.join("; "));
                return Err(refused(Code::CheckpointTableAltered, what));
            }
            Some(_) => {}
        }
        let request = SessionRequest {
            group: self.group.to_string(),
            group_key: body.group_key,
            checkpoint_table: table.clone(),
            triggers: if parameters.fire_triggers { TriggerPolicy::Fire } else { TriggerPolicy::Suppress },
            foreign_keys: if parameters.check_foreign_keys {
                ForeignKeyPolicy::Check
            } else {
                ForeignKeyPolicy::Ignore
            },
        };
        let storage: Arc<dyn Storage> = Arc::new(Directory::new(&place.directory));
        let source = SourceNames::of_trail(Arc::clone(&storage), place.name, STEP_WAIT, &self.shutdown)?;
        let Some(source) = source else { return Ok(None) };
        let (case, schema) = (database.case_rule(), database.default_schema());
        // An earlier version made the table: it has no place for what several appliers do.
        let sharing = self.sharing(parameters, &*database, &request, body, is_old)?;
        let (parallelism, threads) = match sharing {
            Sharing::One => (None, None),
            Sharing::Appliers(parallelism) => (Some(parallelism), None),
            Sharing::Threads(threads) => (Some(Parallelism::fixed(threads as usize)), Some(threads)),
        };
        let sessions = parallelism.map_or(0, |parallelism| parallelism.maximum() as u32);
        let missing = database.marks_missing(&request.group, request.group_key, sessions);
        if let Some(missing) = missing.map_err(|error| failure::of_database(&error))? {
            let text =
                format!("transactions are marked by messages only where there is no replication origin: {missing}");
            self.journal.say(Code::OriginsShort, text);
        }
        let (applier_database, applier_request) = (Arc::clone(&database), request.clone());
        let setup = ReplicatSetup {
            group: self.group.to_string(),
            storage,
            trail: place.name,
            keys: Some(Arc::new(Wallet::of(&self.home))),
            definitions: source_definitions::read(&self.home, &parameters.source_definitions)?,
            connect: Box::new(move || database.open_session(request.clone())),
            rules: parameters.map.plan(source.case, source.schema, case, &schema),
            limits: GroupLimits::with_operations(parameters.group_transactions),
            checkpoint,
            directory: self.home.path().display().to_string(),
            clock: Arc::new(clock::now),
            notice: self.journal.notice(),
            pace: Pace { checkpoint_file: CHECKPOINT_FILE_PACE, ..Pace::default() },
            start: self.start.clone(),
        };
        for line in divergence_lines(&setup.rules, parameters.conflict_sites) {
            self.journal.say(Code::ConflictMethodDiverges, line);
        }
        let replicat = match parallelism {
            None => Replicat::new(setup).map(|replicat| AnyReplicat::Classic(Box::new(replicat))),
            Some(parallelism) => {
                let setup = ParallelSetup {
                    common: setup,
                    connect_applier: Box::new(move |number| {
                        let group_key = CheckpointRow::applier_key(applier_request.group_key, number);
                        let thread = threads.map(|_| CheckpointRow::thread_name(&applier_request.group, number));
                        let group = thread.unwrap_or_else(|| applier_request.group.clone());
                        applier_database.open_session(SessionRequest { group, group_key, ..applier_request.clone() })
                    }),
                    parallelism,
                    look_ahead: parameters.apply.look_ahead as usize,
                    serial: parameters.apply.commit_serialization,
                    split: parameters.apply.split_operations.map(u64::from),
                    threads,
                    synchronizes: self.synchronizes,
                    map_hash: parameters.map.fingerprint(),
                    crew: Crew::Threads,
                };
                ParallelReplicat::new(setup).map(|replicat| AnyReplicat::Parallel(Box::new(replicat)))
            }
        };
        let mut replicat = replicat.map_err(|error| of_target(&error, parameters, table))?;
        let discard_file = DiscardFile::open(&self.home, &self.group, &parameters.discard_file)?;
        replicat.set_discard_file(Box::new(discard_file));
        // Names are the source's.
        replicat.set_definitions(parameters.definitions.plan(source.case, source.schema));
        Ok(Some(replicat))
    }
}

/// The failure of a Replicat; one that is about the target as a whole names it.
fn of_target(error: &apply::Error, parameters: &ReplicatParameters, table: &TableName) -> Box<Failure> {
    let failure = Failure::from(error);
    Box::new(match error {
        apply::Error::Target { .. } => failure.with_object(parameters.target.to_string()),
        apply::Error::NoRow { .. } | apply::Error::Row(_) => {
            failure.with_object(format!("checkpoint table {table} in {}", parameters.target))
        }
        _ => failure,
    })
}
