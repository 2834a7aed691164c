//! What the tests of this crate share: a source whose history is known, a trail that it writes, and a judge.

#![allow(dead_code, reason = "each test file uses a part")]

use change::{
    Change, Column, Commit, Csn, LogicalType, Operation, RecordAddress, Row, TableDefinition, TableName, Timestamp,
    TransactionId, Value,
};
use fastrand::Rng;
use process::{
    Checkpoint, CheckpointBody, CheckpointFile, ExtractCheckpoint, GroupKind, GroupName, ReadCheckpoint, StopStatus,
    TrailInput, WriteCheckpoint,
};
use std::sync::Arc;
use trail::copy::CopyOptions;
use trail::storage::Forgetful;
use trail::{Cover, Error, Producer, Reader, Record, SourceIdentity, Start, TrailName, Writer, WriterOptions};

pub fn source_name() -> TrailName {
    TrailName::parse("aa").expect("two letters")
}

pub fn target_name() -> TrailName {
    TrailName::parse("bb").expect("two letters")
}

pub fn now() -> Timestamp {
    Timestamp::from_unix_micros(1_700_000_000_000_000)
}

/// A committed transaction.
#[derive(Clone, Debug, PartialEq)]
pub struct Transaction {
    pub commit: Commit,
    pub changes: Vec<Change>,
}

/// Everything that the source ever commits.
pub fn history(random: &mut Rng, transactions: u64) -> Vec<Transaction> {
    let tables: Vec<Arc<TableDefinition>> = (0..4).map(|number| table(&format!("t{number}"))).collect();
    (1..=transactions)
        .map(|number| {
            let commit = Commit {
                csn: Csn::new(format!("{number:020}")),
                transaction: TransactionId::new(format!("{number}.1")),
                time: Timestamp::from_unix_micros(1_600_000_000_000_000 + number as i64),
            };
            let length = if random.u8(..20) == 0 { random.usize(20..80) } else { random.usize(1..5) };
            let changes = (0..length).map(|index| insert(random.choice(&tables).expect("some"), number, index, random));
            Transaction { commit, changes: changes.collect() }
        })
        .collect()
}

fn table(name: &str) -> Arc<TableDefinition> {
    let column = |name: &str| Column::new(name, LogicalType::Text, "TEXT");
    let columns = vec![column("k").with_key(0), column("v")];
    Arc::new(TableDefinition { name: TableName::new("main", name), columns: columns.into() })
}

fn insert(table: &Arc<TableDefinition>, number: u64, index: usize, random: &mut Rng) -> Change {
    let length = if random.u8(..60) == 0 { 70_000 } else { random.usize(..60) };
    let (key, value) = (format!("{number}/{index}"), "x".repeat(length));
    let new = Row::from_values([Value::Bytes(key.as_bytes()), Value::Bytes(value.as_bytes())]);
    let address = RecordAddress { position: number, offset: index as u32 };
    Change { table: Arc::clone(table), operation: Operation::Insert { new }, address }
}

/// The process that writes the source trail: it may be killed at any moment, and goes on after what the trail holds.
pub struct Source {
    pub disk: Forgetful,
    writer: Option<Writer>,
    /// Changes of the transaction under way that were appended.
    under_way: usize,
    next: usize,
}

impl Source {
    pub fn new(seed: u64) -> Source {
        Source { disk: Forgetful::new(seed), writer: None, under_way: 0, next: 0 }
    }

    /// Dies, and takes what it had not written with it.
    pub fn kill(&mut self) {
        self.writer = None;
    }

    /// Does one thing of the history; returns whether all of it is synced.
    pub fn step(&mut self, history: &[Transaction], random: &mut Rng) -> Result<bool, Error> {
        let writer = match &mut self.writer {
            Some(writer) => writer,
            None => {
                let writer = Writer::open(Arc::new(self.disk.clone()), options(random))?;
                self.under_way = 0;
                self.next = writer.last_commit().map_or(0, |last| {
                    1 + history.iter().position(|transaction| transaction.commit == *last).expect("is one of them")
                });
                self.writer.insert(writer)
            }
        };
        let Some(transaction) = history.get(self.next) else {
            writer.sync()?;
            return Ok(true);
        };
        if self.under_way == 0 {
            writer.begin(&transaction.commit)?;
        }
        for _ in 0..random.usize(1..10) {
            match transaction.changes.get(self.under_way) {
                Some(change) => writer.append(change)?,
                None => {
                    writer.commit()?;
                    (self.under_way, self.next) = (0, self.next + 1);
                    if random.u8(..3) > 0 {
                        writer.sync()?;
                    }
                    return Ok(false);
                }
            }
            self.under_way += 1;
        }
        if random.bool() {
            writer.sync()?;
        }
        Ok(false)
    }
}

fn options(random: &mut Rng) -> WriterOptions {
    WriterOptions {
        producer: Producer { group: "E1".to_owned(), host: "here".to_owned(), ..Producer::default() },
        source: SourceIdentity { product: "Model".to_owned(), ..SourceIdentity::default() },
        cover: Cover { encryption: None, is_compressed: random.bool() },
        ..WriterOptions::new(source_name(), *random.choice(&[2_000, 20_000, 1_000_000]).expect("some"), Arc::new(now))
    }
}

pub fn copy_options(random: &mut Rng) -> CopyOptions {
    CopyOptions {
        trail: target_name(),
        display_name: "./dirdat/bb".to_owned(),
        file_bytes_max: *random.choice(&[2_000, 20_000, 1_000_000]).expect("some"),
        producer: Producer { group: "P1".to_owned(), host: "there".to_owned(), ..Producer::default() },
        clock: Arc::new(now),
        expected: None,
    }
}

/// The checkpoint file that ADD EXTRACT and ADD EXTTRAIL make.
pub fn create_checkpoint(disk: &Forgetful) {
    let place = ReadCheckpoint { position: change::LogPosition::new("000000000:0"), time: None };
    let body = CheckpointBody::Extract(ExtractCheckpoint {
        startup: place.clone(),
        recovery: place.clone(),
        current: place,
        written: None,
        trails: vec![WriteCheckpoint {
            name: "./dirdat/bb".to_owned(),
            megabytes: 1,
            position: None,
            is_remote: false,
        }],
        streams: Vec::new(),
        bounded: None,
        left_out: Vec::new(),
        log_file_bytes: None,
        input: Some(Box::new(TrailInput { trail: "./dirdat/aa".to_owned(), after: None, is_repositioned: false })),
    });
    let first = Checkpoint { created: now(), started: None, updated: now(), stop_status: StopStatus::Active, body };
    CheckpointFile::create(Arc::new(disk.clone()), GroupKind::Extract, &group(), &first).expect("creates");
}

pub fn group() -> GroupName {
    GroupName::parse("P1").expect("a name")
}

/// All complete transactions that a trail holds, decoded; a transaction that comes anew inside another one is an error.
pub fn transactions(disk: &Forgetful, trail: TrailName) -> Result<Vec<Transaction>, String> {
    let reader = Reader::open(Arc::new(disk.clone()), trail, Start::Beginning);
    let mut reader = reader.map_err(|error| error.to_string())?;
    let (mut complete, mut open) = (Vec::new(), None::<Transaction>);
    while let Some(entry) = reader.next().map_err(|error| format!("{error}: {error:?}"))? {
        match entry.record {
            Record::Change { place, commit, change, .. } => {
                let transaction = open.get_or_insert_with(|| Transaction { commit, changes: Vec::new() });
                transaction.changes.push(change);
                if place.ends() {
                    complete.extend(open.take());
                }
            }
            Record::Restart { .. } => open = None,
            _ => {}
        }
    }
    Ok(complete)
}

/// Fails unless the trail holds each transaction of the history once, in its order.
pub fn judge(disk: &Forgetful, history: &[Transaction], context: &str) {
    let found = transactions(disk, target_name()).unwrap_or_else(|error| panic!("{context}: {error}"));
    let names = |list: &[Transaction]| list.iter().map(|each| each.commit.transaction.to_string()).collect::<Vec<_>>();
    assert_eq!(names(&found), names(history), "{context}");
    assert!(found == history, "{context}: the changes differ");
}
