//! Checkpoints and homes to test with.

use change::{Commit, Csn, LogPosition, TableName, Timestamp, TransactionId};
use process::{
    Checkpoint, CheckpointBody, ExtractCheckpoint, GroupName, Home, ReadCheckpoint, ReplicatCheckpoint, StopStatus,
    WriteCheckpoint,
};
use trail::Position;

pub fn time(unix_micros: i64) -> Timestamp {
    Timestamp::from_unix_micros(unix_micros)
}

pub fn group(name: &str) -> GroupName {
    GroupName::parse(name).expect("a group name")
}

pub fn commit(csn: &str, transaction: &str, unix_micros: i64) -> Commit {
    Commit { csn: Csn::new(csn), transaction: TransactionId::new(transaction), time: time(unix_micros) }
}

/// An Extract's checkpoint that differs from every other number's.
pub fn extract(number: u64) -> Checkpoint {
    let place = |position: u64| ReadCheckpoint { position: LogPosition::new(format!("{position:020}")), time: None };
    let body = ExtractCheckpoint {
        startup: place(0),
        recovery: place(number),
        current: place(number + 1),
        written: Some(commit(&format!("{number:020}"), "t", 5)),
        trails: vec![WriteCheckpoint {
            name: "./dirdat/aa".to_owned(),
            megabytes: 500,
            position: Some(Position::new(3, number)),
            is_remote: number % 2 == 1,
        }],
        streams: Vec::new(),
        bounded: None,
        left_out: Vec::new(),
        log_file_bytes: None,
        input: None,
    };
    Checkpoint {
        created: time(1),
        started: Some(time(2)),
        updated: time(number as i64),
        stop_status: StopStatus::Active,
        body: CheckpointBody::Extract(body),
    }
}

/// The number of a checkpoint that [`extract`] made.
pub fn number(checkpoint: &Checkpoint) -> u64 {
    checkpoint.updated.unix_micros as u64
}

pub fn replicat() -> Checkpoint {
    let body = ReplicatCheckpoint {
        trail: "./dirdat/aa".to_owned(),
        checkpoint_table: TableName::new("main", "checkpoint"),
        group_key: 42,
        startup: Position::default(),
        current: Position::default(),
        applied: None,
        mode: Default::default(),
    };
    Checkpoint {
        created: time(1),
        started: None,
        updated: time(1),
        stop_status: StopStatus::Active,
        body: CheckpointBody::Replicat(body),
    }
}

/// A home in a directory that goes away with the first value.
pub fn home() -> (tempfile::TempDir, Home) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let home = Home::create(directory.path().join("home")).expect("a home");
    (directory, home)
}
