//! The two processes of the simulated world: how they start, and what they may die of.

use super::recorder::Recorder;
use apply::schedule::Parallelism;
use apply::{AnyReplicat, Crew, GroupLimits, ParallelReplicat, ParallelSetup, Replicat, ReplicatSetup};
use capture::{Extract, ExtractSetup};
use change::{TableName, Timestamp};
use database::memory::MemoryDatabase;
use database::{
    CheckpointRow, Database, ErrorClass, ForeignKeyPolicy, SessionRequest, SourceRequest, TableSelection, TriggerPolicy,
};
use fastrand::Rng;
use parameter::MapPlan;
use process::{
    Checkpoint, CheckpointBody, CheckpointError, CheckpointFile, ExtractCheckpoint, GroupKind, GroupName,
    ReadCheckpoint, ReplicatCheckpoint, StopStatus, WriteCheckpoint,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;
use trail::storage::{Forgetful, Storage};
use trail::{Position, TrailName, Writer, WriterOptions};

/// The group key of the only Replicat.
const GROUP_KEY: i64 = 4 * CheckpointRow::KEY_STEP;

/// A clock that moves only when it is told to.
#[derive(Clone)]
pub(super) struct SimulatedClock(Arc<AtomicI64>);

impl SimulatedClock {
    pub(super) fn new() -> SimulatedClock {
        SimulatedClock(Arc::new(AtomicI64::new(1_767_225_600_000_000)))
    }

    pub(super) fn advance(&self, micros: i64) {
        self.0.fetch_add(micros, Ordering::Relaxed);
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_unix_micros(self.0.load(Ordering::Relaxed))
    }

    fn reader(&self) -> Arc<dyn Fn() -> Timestamp + Send + Sync> {
        let clock = self.clone();
        Arc::new(move || clock.now())
    }
}

/// What both groups are made of, at every start anew.
pub(super) struct Plan {
    pub(super) source: MemoryDatabase,
    pub(super) target: MemoryDatabase,
    pub(super) tables: Arc<dyn TableSelection>,
    pub(super) rules: MapPlan,
    pub(super) limits: GroupLimits,
    pub(super) file_bytes_max: u64,
    pub(super) clock: SimulatedClock,
    pub(super) recorder: Recorder,
    pub(super) notices: Arc<std::sync::Mutex<Vec<String>>>,
    /// For a Replicat with several appliers: the seed of its turns.
    pub(super) turns: Option<Rng>,
    /// Of a coordinated group: its threads.
    pub(super) threads: Option<u32>,
    /// Whether large transactions are split.
    pub(super) splits: bool,
}

/// Why a group did not start or go on.
#[derive(Debug)]
pub(super) enum Ended {
    /// Of something that the world did to it.
    Killed(String),
    /// Of something that must not happen.
    Wrong(String),
}

fn extract_name() -> GroupName {
    GroupName::parse("E1").expect("a group name")
}

fn replicat_name() -> GroupName {
    GroupName::parse("R1").expect("a group name")
}

pub(super) fn trail_name() -> TrailName {
    TrailName::parse("aa").expect("a trail name")
}

fn checkpoint_table() -> TableName {
    TableName::new("main", "drover_checkpoint")
}

impl Plan {
    /// What ADD EXTRACT, ADD EXTTRAIL, ADD CHECKPOINTTABLE and ADD REPLICAT do.
    pub(super) fn add_groups(&self, disk: &Forgetful) {
        let storage: Arc<dyn Storage> = Arc::new(disk.clone());
        let position = self.source.register_capture("E1", &*self.tables).expect("a source that can be captured");
        let created = self.clock.now();
        let start = ReadCheckpoint { position, time: None };
        let checkpoint =
            |body| Checkpoint { created, started: None, updated: created, stop_status: StopStatus::Graceful, body };
        let extract = checkpoint(CheckpointBody::Extract(ExtractCheckpoint {
            startup: start.clone(),
            recovery: start.clone(),
            current: start,
            written: None,
            trails: vec![WriteCheckpoint {
                name: "./dirdat/aa".to_owned(),
                megabytes: 1,
                position: None,
                is_remote: false,
            }],
            log_file_bytes: None,
            input: None,
            streams: Vec::new(),
            bounded: None,
            left_out: Vec::new(),
        }));
        CheckpointFile::create(Arc::clone(&storage), GroupKind::Extract, &extract_name(), &extract)
            .expect("a new checkpoint file");
        self.target.create_checkpoint_table(&checkpoint_table()).expect("a new checkpoint table");
        let row = CheckpointRow {
            group_name: "R1".to_owned(),
            group_key: GROUP_KEY,
            sequence: 0,
            rba: 0,
            audit_time: None,
            created,
            updated: created,
            directory: "/home".to_owned(),
            log_bsn: None,
            log_csn: None,
            log_complete_csn: None,
            log_complete_transactions: Vec::new(),
            version: CheckpointRow::VERSION,
        };
        self.target.insert_checkpoint(&checkpoint_table(), &row).expect("a new row");
        let replicat = checkpoint(CheckpointBody::Replicat(ReplicatCheckpoint {
            trail: "./dirdat/aa".to_owned(),
            checkpoint_table: checkpoint_table(),
            group_key: GROUP_KEY,
            startup: Position::default(),
            current: Position::default(),
            applied: None,
            mode: Default::default(),
        }));
        CheckpointFile::create(Arc::clone(&storage), GroupKind::Replicat, &replicat_name(), &replicat)
            .expect("a new checkpoint file");
        storage.sync_directory().expect("a disk that works");
    }

    pub(super) fn start_extract(&self, disk: &Forgetful) -> Result<Extract, Ended> {
        let storage: Arc<dyn Storage> = Arc::new(disk.clone());
        let checkpoint = CheckpointFile::open(Arc::clone(&storage), GroupKind::Extract, &extract_name())
            .map_err(|error| checkpoint_ended(&error))?;
        let body = checkpoint.latest().extract().expect("the checkpoint of an Extract");
        let request = SourceRequest {
            group: "E1".to_owned(),
            start: body.recovery.position.clone(),
            tables: Arc::clone(&self.tables),
        };
        let source = self.source.open_source(request).map_err(|error| database_ended(&error))?;
        let options = WriterOptions {
            expected: body.trails[0].position,
            ..WriterOptions::new(trail_name(), self.file_bytes_max, self.clock.reader())
        };
        let writer = Writer::open(storage, options).map_err(|error| trail_ended(&error))?;
        let setup = ExtractSetup {
            source: source.into(),
            tables: Arc::clone(&self.tables),
            definitions: Vec::new(),
            writer,
            checkpoint,
            clock: self.clock.reader(),
            notice: self.notice(),
            pace: capture::Pace::default(),
        };
        Extract::new(setup).map_err(|error| extract_ended(&error))
    }

    pub(super) fn start_replicat(&mut self, disk: &Forgetful) -> Result<AnyReplicat, Ended> {
        let storage: Arc<dyn Storage> = Arc::new(disk.clone());
        let checkpoint = CheckpointFile::open(Arc::clone(&storage), GroupKind::Replicat, &replicat_name())
            .map_err(|error| checkpoint_ended(&error))?;
        let (target, recorder) = (self.target.clone(), self.recorder.clone());
        let (applier_target, applier_recorder) = (target.clone(), recorder.clone());
        let request = SessionRequest {
            group: "R1".to_owned(),
            group_key: GROUP_KEY,
            checkpoint_table: checkpoint_table(),
            triggers: TriggerPolicy::Suppress,
            foreign_keys: ForeignKeyPolicy::Ignore,
        };
        let applier_request = request.clone();
        let setup = ReplicatSetup {
            group: "R1".to_owned(),
            storage,
            trail: trail_name(),
            keys: None,
            definitions: Vec::new(),
            connect: Box::new(move || Ok(recorder.record(target.open_session(request.clone())?))),
            rules: self.rules.clone(),
            limits: self.limits,
            checkpoint,
            directory: "/home".to_owned(),
            clock: self.clock.reader(),
            notice: self.notice(),
            pace: apply::Pace { patience: Duration::from_millis(300), ..apply::Pace::default() },
            start: apply::StartOptions::default(),
        };
        let Some(turns) = &mut self.turns else {
            let replicat = Replicat::new(setup).map_err(|error| replicat_ended(&error))?;
            return Ok(AnyReplicat::Classic(Box::new(replicat)));
        };
        // The number of appliers may be another one at each start.
        let (least, most) = (turns.usize(1..4), turns.usize(1..6));
        let parallelism = if turns.bool() { Parallelism::fixed(most) } else { Parallelism::between(least, most) };
        let (look_ahead, serial) = (*turns.choice([1, 4, 30, 10_000].iter()).expect("a choice"), turns.u8(..) < 30);
        let splits = self.splits && turns.u8(..) < 200;
        let split = splits.then(|| *turns.choice([2, 5, 30].iter()).expect("a choice"));
        let threads = self.threads;
        let serial = serial && threads.is_none();
        let mut random = turns.fork();
        let setup = ParallelSetup {
            common: setup,
            connect_applier: Box::new(move |number| {
                let group_key = CheckpointRow::applier_key(applier_request.group_key, number);
                let name = threads.map(|_| CheckpointRow::thread_name("R1", number));
                let group = name.unwrap_or_else(|| "R1".to_owned());
                let request = SessionRequest { group, group_key, ..applier_request.clone() };
                Ok(applier_recorder.record(applier_target.open_session(request)?))
            }),
            parallelism,
            look_ahead,
            serial,
            split,
            threads,
            synchronizes: false,
            map_hash: "rules".to_owned(),
            crew: Crew::Turns(Box::new(move |number| random.usize(..number))),
        };
        let replicat = ParallelReplicat::new(setup).map_err(|error| replicat_ended(&error))?;
        Ok(AnyReplicat::Parallel(Box::new(replicat)))
    }

    fn notice(&self) -> Box<dyn FnMut(&str) + Send> {
        let notices = Arc::clone(&self.notices);
        Box::new(move |line| notices.lock().expect("nobody panics with it").push(line.to_owned()))
    }
}

/// The chain of an error's causes in one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

fn database_ended(error: &database::Error) -> Ended {
    match error.class() {
        ErrorClass::ConnectionLost | ErrorClass::Transient => Ended::Killed(chain(error)),
        _ => Ended::Wrong(chain(error)),
    }
}

fn trail_ended(error: &trail::Error) -> Ended {
    match error {
        trail::Error::Io { .. } | trail::Error::Full { .. } | trail::Error::Poisoned { .. } => {
            Ended::Killed(chain(error))
        }
        _ => Ended::Wrong(chain(error)),
    }
}

fn checkpoint_ended(error: &CheckpointError) -> Ended {
    match error {
        CheckpointError::Io { .. } | CheckpointError::Full { .. } | CheckpointError::Poisoned { .. } => {
            Ended::Killed(chain(error))
        }
        _ => Ended::Wrong(chain(error)),
    }
}

pub(super) fn extract_ended(error: &capture::Error) -> Ended {
    let cause = match error {
        capture::Error::Source { source, .. } => database_ended(source),
        capture::Error::Trail { source, .. } => trail_ended(source),
        capture::Error::Checkpoint { source, .. } => checkpoint_ended(source),
        _ => Ended::Wrong(String::new()),
    };
    with_chain(cause, error)
}

pub(super) fn replicat_ended(error: &apply::Error) -> Ended {
    let cause = match error {
        apply::Error::Trail { source, .. } => trail_ended(source),
        apply::Error::Target { source, .. } => database_ended(source),
        apply::Error::CheckpointFile(source) => checkpoint_ended(source),
        _ => Ended::Wrong(String::new()),
    };
    with_chain(cause, error)
}

fn with_chain(ended: Ended, error: &dyn std::error::Error) -> Ended {
    match ended {
        Ended::Killed(_) => Ended::Killed(chain(error)),
        Ended::Wrong(_) => Ended::Wrong(chain(error)),
    }
}
