//! A Replicat between a trail and a target in memory.

use apply::{Error, GroupLimits, Pace, Replicat, ReplicatSetup, StartFrom, StartOptions, Step};
use change::{
    CaseRule, Change, Column, Commit, Csn, LogicalType, Operation, OperationKind, RecordAddress, Row, TableDefinition,
    TableName, Timestamp, TransactionId, Value,
};
use database::memory::{MemoryDatabase, MemoryOptions, Reference};
use database::snapshot::CopyRow;
use database::{
    ApplyError, CheckpointRow, CheckpointSet, Database, ErrorClass, ForeignKeyPolicy, Outcome, Session, SessionRequest,
    TriggerPolicy, Write,
};
use process::{
    Checkpoint, CheckpointBody, CheckpointFile, FilterReason, GroupKind, GroupName, ReplicatCheckpoint, StopStatus,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};
use std::time::Duration;
use trail::storage::{Forgetful, Storage};
use trail::{Position, TrailName, Writer, WriterOptions};

const GROUP_KEY: i64 = 7;

fn name(table: &str) -> TableName {
    TableName::new("main", table)
}

fn table(table: &str) -> Arc<TableDefinition> {
    let column = |name: &str| Column::new(name, LogicalType::Text, "text");
    let columns = vec![column("id").with_key(0), column("value")];
    Arc::new(TableDefinition { name: name(table), columns: columns.into() })
}

fn row(id: &str, value: &str) -> Row {
    Row::from_values([Value::Bytes(id.as_bytes()), Value::Bytes(value.as_bytes())])
}

fn insert(id: &str, value: &str) -> Operation {
    Operation::Insert { new: row(id, value) }
}

fn commit(number: u32) -> Commit {
    let time = Timestamp::from_unix_micros(i64::from(number));
    Commit { csn: Csn::new(format!("{number:04}")), transaction: TransactionId::new(format!("t{number}")), time }
}

struct Stage {
    storage: Arc<dyn Storage>,
    trail: TrailName,
    writer: Writer,
    target: MemoryDatabase,
    /// How many of the next calls that load the checkpoint row find the target busy.
    busy_loads: Arc<AtomicU32>,
    clock: Arc<AtomicI64>,
    /// Initial copies that the target tells of.
    copies: Vec<CopyRow>,
    start: StartOptions,
}

/// A session whose target is sometimes too busy to tell the checkpoint row.
struct Busy {
    session: Box<dyn Session>,
    busy_loads: Arc<AtomicU32>,
    copies: Vec<CopyRow>,
}

impl Session for Busy {
    fn table(&mut self, name: &TableName) -> Result<Option<TableDefinition>, database::Error> {
        self.session.table(name)
    }

    fn order(&mut self, name: &TableName) -> Result<database::TableOrder, database::Error> {
        self.session.order(name)
    }

    fn begin(&mut self) -> Result<(), database::Error> {
        self.session.begin()
    }

    fn apply(&mut self, writes: &[Write<'_>]) -> Result<(), ApplyError> {
        self.session.apply(writes)
    }

    fn attempt(&mut self, write: &Write<'_>) -> Result<(), ApplyError> {
        self.session.attempt(write)
    }

    fn find(&mut self, plan: &Arc<database::TablePlan>, image: &Row) -> Result<Option<Row>, database::Error> {
        self.session.find(plan, image)
    }

    fn load_checkpoint(&mut self) -> Result<Option<CheckpointRow>, database::Error> {
        let is_busy = self.busy_loads.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        if is_busy.is_ok() {
            return Err(database::Error::new(ErrorClass::Transient, "the target is busy"));
        }
        self.session.load_checkpoint()
    }

    fn load_checkpoints(&mut self) -> Result<Option<CheckpointSet>, database::Error> {
        self.session.load_checkpoints()
    }

    fn replace_checkpoints(&mut self, set: &CheckpointSet) -> Result<(), database::Error> {
        self.session.replace_checkpoints(set)
    }

    fn save_checkpoint(&mut self, row: &CheckpointRow) -> Result<(), database::Error> {
        self.session.save_checkpoint(row)
    }

    fn load_copies(&mut self) -> Result<Vec<CopyRow>, database::Error> {
        Ok(self.copies.clone())
    }

    fn commit(&mut self) -> Result<(), ApplyError> {
        self.session.commit()
    }

    fn rollback(&mut self) -> Result<(), database::Error> {
        self.session.rollback()
    }
}

impl Stage {
    /// A trail, a target with table `t`, and an added Replicat.
    fn new() -> Stage {
        let storage: Arc<dyn Storage> = Arc::new(Forgetful::new(1));
        let trail = TrailName::parse("aa").unwrap();
        let options = WriterOptions::new(trail, 1 << 20, Arc::new(Timestamp::default));
        let writer = Writer::open(Arc::clone(&storage), options).unwrap();
        let target = MemoryDatabase::new(MemoryOptions { lock_wait: Duration::ZERO, ..MemoryOptions::new("target") });
        target.create_table((*table("t")).clone(), &[]).unwrap();
        target.create_checkpoint_table(&name("ckpt")).unwrap();
        let row = CheckpointRow {
            group_name: "R1".to_owned(),
            group_key: GROUP_KEY,
            sequence: 0,
            rba: 0,
            audit_time: None,
            created: Timestamp::default(),
            updated: Timestamp::default(),
            directory: String::new(),
            log_bsn: None,
            log_csn: None,
            log_complete_csn: None,
            log_complete_transactions: Vec::new(),
            version: CheckpointRow::VERSION,
        };
        target.insert_checkpoint(&name("ckpt"), &row).unwrap();
        let stage = Stage {
            storage,
            trail,
            writer,
            target,
            busy_loads: Arc::default(),
            clock: Arc::default(),
            copies: Vec::new(),
            start: StartOptions::default(),
        };
        stage.add_replicat(GROUP_KEY);
        stage
    }

    fn add_replicat(&self, group_key: i64) {
        let body = CheckpointBody::Replicat(ReplicatCheckpoint {
            trail: "./dirdat/aa".to_owned(),
            checkpoint_table: name("ckpt"),
            group_key,
            startup: Position::default(),
            current: Position::default(),
            applied: None,
            mode: Default::default(),
        });
        let time = Timestamp::default();
        let first = Checkpoint { created: time, started: None, updated: time, stop_status: StopStatus::Graceful, body };
        let group = GroupName::parse("R1").unwrap();
        CheckpointFile::delete(&*self.storage, GroupKind::Replicat, &group).unwrap();
        CheckpointFile::create(Arc::clone(&self.storage), GroupKind::Replicat, &group, &first).unwrap();
    }

    fn write(&mut self, number: u32, table: &Arc<TableDefinition>, operations: &[Operation]) {
        self.writer.begin(&commit(number)).unwrap();
        for operation in operations {
            let address = RecordAddress::default();
            let change = Change { table: Arc::clone(table), operation: operation.clone(), address };
            self.writer.append(&change).unwrap();
        }
        self.writer.commit().unwrap();
        self.writer.sync().unwrap();
    }

    fn start(&self, limits: GroupLimits) -> Result<Replicat, Error> {
        self.start_with(limits, ForeignKeyPolicy::Ignore)
    }

    fn start_checked(&self, limits: GroupLimits) -> Result<Replicat, Error> {
        self.start_with(limits, ForeignKeyPolicy::Check)
    }

    fn start_with(&self, limits: GroupLimits, foreign_keys: ForeignKeyPolicy) -> Result<Replicat, Error> {
        let text = "REPLICAT r1\nTARGETDB memory:target\nMAP main.*, TARGET main.*;\nMAPEXCLUDE main.excluded;\n";
        let parameters = parameter::parse_replicat(text, "r1.prm").unwrap_or_else(|wrong| panic!("{wrong}"));
        let clock = Arc::clone(&self.clock);
        let (target, busy_loads) = (self.target.clone(), Arc::clone(&self.busy_loads));
        let copies = self.copies.clone();
        let group = GroupName::parse("R1").unwrap();
        let checkpoint = CheckpointFile::open(Arc::clone(&self.storage), GroupKind::Replicat, &group).unwrap();
        let request = SessionRequest {
            group: "R1".to_owned(),
            group_key: checkpoint.latest().replicat().unwrap().group_key,
            checkpoint_table: name("ckpt"),
            triggers: TriggerPolicy::Suppress,
            foreign_keys,
        };
        Replicat::new(ReplicatSetup {
            group: "R1".to_owned(),
            storage: Arc::clone(&self.storage),
            trail: self.trail,
            keys: None,
            definitions: Vec::new(),
            connect: Box::new(move || {
                let session = target.open_session(request.clone())?;
                let busy_loads = Arc::clone(&busy_loads);
                Ok(Box::new(Busy { session, busy_loads, copies: copies.clone() }) as Box<dyn Session>)
            }),
            rules: parameters.map.plan(CaseRule::Sensitive, "main", CaseRule::Sensitive, "main"),
            limits,
            checkpoint,
            directory: "/home".to_owned(),
            clock: Arc::new(move || Timestamp::from_unix_micros(clock.load(Ordering::Relaxed))),
            notice: Box::new(|_| {}),
            pace: Pace { position: Duration::ZERO, ..Pace::default() },
            start: self.start.clone(),
        })
    }

    fn rows(&self) -> Vec<Row> {
        self.target.rows(&name("t"))
    }
}

/// Steps until there is nothing to do.
fn drain(replicat: &mut Replicat) -> Result<(), Error> {
    while !matches!(replicat.step(Duration::ZERO)?, Step::Idle) {}
    Ok(())
}

fn usual() -> GroupLimits {
    GroupLimits::with_operations(1000)
}

#[test]
fn transactions_that_the_trail_holds_twice_are_applied_once() {
    let mut stage = Stage::new();
    for number in [1, 2, 3, 2, 3, 4] {
        stage.write(number, &table("t"), &[insert(&number.to_string(), "a")]);
    }
    let mut replicat = stage.start(usual()).unwrap();
    drain(&mut replicat).unwrap();
    assert_eq!(stage.rows(), ["1", "2", "3", "4"].map(|id| row(id, "a")));
    let counts = replicat.statistics().counts(&name("t"), OperationKind::Insert);
    assert_eq!((counts.read, counts.written, counts.filtered(FilterReason::AlreadyDone)), (6, 4, 2));

    // Also when they come after a stop, and the trail goes on with new ones.
    replicat.stop().unwrap();
    for number in [3, 4, 5] {
        stage.write(number, &table("t"), &[insert(&number.to_string(), "a")]);
    }
    let mut replicat = stage.start(usual()).unwrap();
    drain(&mut replicat).unwrap();
    assert_eq!(stage.rows().len(), 5);
    replicat.stop().unwrap();
    stage.write(6, &table("t"), &[insert("6", "a")]);
    let mut replicat = stage.start(usual()).unwrap();
    drain(&mut replicat).unwrap();
    assert_eq!(stage.rows().len(), 6);
}

#[test]
fn changes_that_the_initial_copy_holds_are_left_out() {
    let mut stage = Stage::new();
    stage.target.create_table((*table("u")).clone(), &[]).unwrap();
    // The copy of t was made after transaction 2; u was not copied.
    stage.target.write(|transaction| transaction.insert(&name("t"), row("1", "b"))).unwrap();
    let copy = |csn: Option<Csn>| CopyRow { source: name("t"), csn, rows: 1, bytes: 9, finished: None };
    let update = |value: &str| Operation::Update { old: Some(row("1", "a")), new: row("1", value) };
    stage.write(1, &table("u"), &[insert("1", "a")]);
    let there_and_back = [insert("2", "a"), Operation::Delete { old: row("2", "a") }];
    stage.write(2, &table("t"), &[&[insert("1", "a"), update("b")][..], &there_and_back].concat());
    stage.copies = vec![copy(None)];
    let error = stage.start(usual()).err().expect("the copy is not finished");
    assert!(matches!(&error, Error::CopyUnfinished { table } if *table == name("t")), "{error}");

    stage.copies = vec![copy(Some(commit(2).csn))];
    stage.write(3, &table("t"), &[update("c"), insert("3", "a")]);
    stage.write(4, &table("u"), &[insert("2", "a")]);
    let mut replicat = stage.start(usual()).unwrap();
    drain(&mut replicat).unwrap();
    assert_eq!(stage.rows(), [row("1", "c"), row("3", "a")]);
    assert_eq!(stage.target.rows(&name("u")).len(), 2);
    let counts = replicat.statistics().counts(&name("t"), OperationKind::Insert);
    assert_eq!((counts.read, counts.written, counts.filtered(FilterReason::Copied)), (3, 1, 2));
}

#[test]
fn a_row_that_the_target_does_not_take_stops_the_group() {
    let mut stage = Stage::new();
    let update = |id: &str| Operation::Update { old: Some(row(id, "a")), new: row(id, "b") };
    stage.write(1, &table("t"), &[insert("1", "a")]);
    stage.write(2, &table("t"), &[insert("2", "a")]);
    stage.write(3, &table("t"), &[insert("3", "a"), update("missing"), insert("4", "a")]);
    stage.write(4, &table("t"), &[insert("5", "a")]);
    let mut replicat = stage.start(usual()).unwrap();
    let error = drain(&mut replicat).expect_err("the row is missing");
    let Error::Rejected(rejected) = &error else { panic!("{error}") };
    assert_eq!(rejected.operation, Some(OperationKind::Update));
    assert_eq!(rejected.target, Some(name("t")));
    assert_eq!(rejected.key_columns, ["id"]);
    assert_eq!(rejected.outcome, Outcome::Missing);
    assert_eq!((&rejected.csn, &rejected.transaction), (&commit(3).csn, &commit(3).transaction));
    let text = error.to_string();
    for part in
        ["update of main.t to main.t (key id)", &rejected.position.to_string(), "CSN 0003", "the row is missing"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains("missing'") && !text.contains("\"missing\""), "no values: {text}");

    // Everything before the transaction is applied, nothing of it and behind it is.
    assert_eq!(stage.rows(), [row("1", "a"), row("2", "a")]);

    // Once the row is put right, the group goes on with that transaction.
    stage.target.write(|transaction| transaction.insert(&name("t"), row("missing", "a"))).unwrap();
    let mut replicat = stage.start(usual()).unwrap();
    drain(&mut replicat).unwrap();
    assert_eq!(stage.rows().len(), 6);
}

#[test]
fn a_refused_row_in_a_transaction_that_is_streamed_leaves_nothing_of_it() {
    let mut stage = Stage::new();
    let mut operations: Vec<Operation> = (0..50).map(|id| insert(&format!("{id:03}"), "a")).collect();
    operations.push(insert("007", "a"));
    stage.write(1, &table("t"), &[insert("first", "a")]);
    stage.write(2, &table("t"), &operations);
    let limits = GroupLimits { chunk_operations: 10, ..usual() };
    let mut replicat = stage.start(limits).unwrap();
    let error = drain(&mut replicat).expect_err("a row twice");
    let Error::Rejected(rejected) = &error else { panic!("{error}") };
    assert_eq!((rejected.outcome, &rejected.csn), (Outcome::Duplicate, &commit(2).csn));
    assert_eq!(stage.rows(), [row("first", "a")]);
    assert!(replicat.progress().buffered_changes_peak <= 20);
}

#[test]
fn a_trail_that_does_not_go_on_inside_a_transaction_does_not_keep_the_target_locked() {
    let mut stage = Stage::new();
    stage.write(1, &table("t"), &[insert("first", "a")]);
    let append = |stage: &mut Stage, ids: std::ops::Range<u32>| {
        for id in ids {
            let operation = insert(&format!("{id:03}"), "a");
            stage.writer.append(&Change { table: table("t"), operation, address: RecordAddress::default() }).unwrap();
        }
        stage.writer.sync().unwrap();
    };
    let is_locked = |stage: &Stage| stage.target.write(|_| Ok(())).is_err();
    let mut replicat = stage.start(GroupLimits { chunk_operations: 10, ..usual() }).unwrap();
    stage.writer.begin(&commit(2)).unwrap();
    append(&mut stage, 0..50);
    for round in 0..2 {
        drain(&mut replicat).unwrap();
        assert!(is_locked(&stage), "the rest may come at any moment");
        stage.clock.fetch_add(10_000_000, Ordering::Relaxed);
        drain(&mut replicat).unwrap();
        assert!(!is_locked(&stage));
        stage.clock.fetch_add(3_600_000_000, Ordering::Relaxed);
        drain(&mut replicat).unwrap();
        assert!(!is_locked(&stage), "nothing is tried again before the trail goes on");
        assert_eq!(stage.rows(), [row("first", "a")]);
        append(&mut stage, 50 + round..51 + round);
    }
    stage.writer.commit().unwrap();
    stage.writer.sync().unwrap();
    drain(&mut replicat).unwrap();
    assert_eq!(stage.rows().len(), 53);
    let total = replicat.statistics().total();
    assert_eq!((total.read, total.written), (53, 53));
    assert!(!is_locked(&stage));
}

#[test]
fn changes_without_a_target_are_counted_and_the_position_passes_them() {
    let mut stage = Stage::new();
    stage.write(1, &table("excluded"), &[insert("1", "a"), insert("2", "a")]);
    let mut replicat = stage.start(usual()).unwrap();
    drain(&mut replicat).unwrap();
    let counts = replicat.statistics().counts(&name("excluded"), OperationKind::Insert);
    assert_eq!((counts.read, counts.filtered(FilterReason::Excluded)), (2, 2));
    assert_eq!(replicat.progress().position, stage.writer.position());
    replicat.stop().unwrap();
    assert_eq!(stage.start(usual()).unwrap().progress().position, stage.writer.position());
}

#[test]
fn a_table_that_the_target_does_not_have_is_refused_by_name() {
    let mut stage = Stage::new();
    stage.write(1, &table("t"), &[insert("1", "a")]);
    stage.write(2, &table("other"), &[insert("1", "a")]);
    let mut replicat = stage.start(usual()).unwrap();
    let error = drain(&mut replicat).expect_err("no such table");
    let source = std::error::Error::source(&error).map(ToString::to_string);
    assert_eq!(source.as_deref(), Some("cannot map main.other to main.other: there is no such table at the target"));
    // What came before it is applied.
    assert_eq!(stage.rows(), [row("1", "a")]);
}

#[test]
fn rows_that_stand_far_apart_in_the_trail_do_not_keep_all_of_it_in_memory() {
    let mut stage = Stage::new();
    let long = "x".repeat(50_000);
    for number in 1..=100 {
        let id = format!("{number:03}");
        stage.write(2 * number, &table("excluded"), &[insert(&id, &long), insert(&id, &long)]);
        stage.write(2 * number + 1, &table("t"), &[insert(&id, "a")]);
    }
    let mut replicat = stage.start(GroupLimits { chunk_bytes: 1 << 20, ..usual() }).unwrap();
    drain(&mut replicat).unwrap();
    assert_eq!(stage.rows().len(), 100);
    let peak = replicat.progress().buffered_changes_peak;
    assert!((10..20).contains(&peak), "each row keeps 64 KiB of the trail, so a chunk of 1 MiB has 16: {peak}");
}

#[test]
fn everything_before_a_damage_of_the_trail_is_applied() {
    let mut stage = Stage::new();
    let name = stage.trail.file(0);
    let mut ends = vec![0];
    for number in 1..=6 {
        stage.write(number, &table("t"), &[insert(&number.to_string(), "a")]);
        ends.push(stage.writer.position().rba);
    }
    stage.storage.open(&name).unwrap().write_at(&[0xFF], ends[4] - 30).unwrap();
    for _ in 0..2 {
        let mut replicat = stage.start(usual()).unwrap();
        let error = drain(&mut replicat).expect_err("the trail is damaged");
        let Error::Trail { position, .. } = error else { panic!("{error}") };
        assert_eq!(position.rba, ends[3]);
        assert_eq!(stage.rows(), ["1", "2", "3"].map(|id| row(id, "a")));
    }
}

#[test]
fn a_row_that_is_refused_before_a_damage_of_the_trail_is_told_first() {
    let mut stage = Stage::new();
    for (number, id) in [(1, "1"), (2, "2"), (3, "1"), (4, "4")] {
        stage.write(number, &table("t"), &[insert(id, "a")]);
    }
    let end = stage.writer.position().rba;
    stage.storage.open(&stage.trail.file(0)).unwrap().write_at(&[0xFF], end - 30).unwrap();
    let mut replicat = stage.start(usual()).unwrap();
    let error = drain(&mut replicat).expect_err("a row twice");
    assert!(matches!(&error, Error::Rejected(rejected) if rejected.csn == commit(3).csn), "{error}");
    assert_eq!(stage.rows(), ["1", "2"].map(|id| row(id, "a")));
}

#[test]
fn a_lost_checkpoint_row_or_one_of_another_group_is_never_mistaken_for_a_new_group() {
    let stage = Stage::new();
    stage.add_replicat(GROUP_KEY + 1);
    let refused = stage.start(usual()).err().expect("a refusal");
    assert!(matches!(refused, Error::NoRow { .. }), "{refused}");
    stage.add_replicat(GROUP_KEY);
    stage.target.delete_checkpoint(&name("ckpt"), "R1", GROUP_KEY).unwrap();
    let refused = stage.start(usual()).err().expect("a refusal");
    assert!(matches!(refused, Error::NoRow { .. }), "{refused}");
}

#[test]
fn a_target_that_goes_away_is_asked_again_and_nothing_is_lost() {
    let mut stage = Stage::new();
    let mut replicat = stage.start(GroupLimits::with_operations(1)).unwrap();
    for number in 1..40 {
        stage.write(number, &table("t"), &[insert(&format!("{number:02}"), "a")]);
        stage.target.fail_after(u64::from(number % 7) + 1, u64::from(number));
        while !matches!(replicat.step(Duration::ZERO).unwrap(), Step::Retry { .. } | Step::Idle) {}
        stage.target.restart();
    }
    drain(&mut replicat).unwrap();
    assert_eq!(stage.rows().len(), 39);
    assert_eq!(replicat.progress().transactions, 39);
    assert_eq!(replicat.lag().count(), 39);
}

#[test]
fn a_commit_without_an_answer_is_not_believed_before_the_checkpoint_row_is_read() {
    let mut outcomes = [0, 0];
    for seed in 0..16 {
        let mut stage = Stage::new();
        let mut replicat = stage.start(GroupLimits::with_operations(1)).unwrap();
        stage.write(1, &table("t"), &[insert("1", "a")]);
        // The calls: the table, begin, apply, the checkpoint row, and the commit, which goes either way.
        stage.target.fail_after(5, seed);
        assert!(matches!(replicat.step(Duration::ZERO).unwrap(), Step::Retry { .. }));
        stage.target.restart();
        outcomes[stage.rows().len()] += 1;
        stage.busy_loads.store(3, Ordering::Relaxed);
        while !matches!(replicat.step(Duration::ZERO).unwrap(), Step::Idle) {}
        assert_eq!(stage.busy_loads.load(Ordering::Relaxed), 0, "seed {seed}");
        assert_eq!(stage.rows(), [row("1", "a")], "seed {seed}");
        assert_eq!(replicat.statistics().total().written, 1, "seed {seed}");
    }
    assert!(outcomes.iter().all(|times| *times > 0), "both happen: {outcomes:?}");
}

#[test]
fn a_refusal_at_commit_names_the_transaction() {
    let mut stage = Stage::new();
    stage.target.create_table((*table("parent")).clone(), &[]).unwrap();
    stage.target.create_reference(Reference {
        table: name("t"),
        columns: vec![1],
        parent: name("parent"),
        parent_columns: vec![0],
    });
    stage.write(1, &table("parent"), &[insert("p", "x")]);
    stage.write(2, &table("t"), &[insert("1", "p")]);
    stage.write(3, &table("t"), &[insert("2", "nobody")]);
    let mut replicat = stage.start_checked(usual()).unwrap();
    let error = drain(&mut replicat).expect_err("no such parent");
    let Error::Rejected(rejected) = &error else { panic!("{error}") };
    assert_eq!((rejected.outcome, rejected.operation), (Outcome::ForeignKey, None));
    assert_eq!(rejected.transaction, commit(3).transaction);
    assert_eq!(stage.rows(), [row("1", "p")]);
}

/// The rows that a Replicat applies which starts with `start`, over a trail of five transactions of which it has applied none.
fn started(start: StartOptions) -> (Stage, Vec<Row>) {
    let mut stage = Stage::new();
    for number in 1..=5 {
        stage.write(number, &table("t"), &[insert(&number.to_string(), "a")]);
    }
    stage.start = start;
    let mut replicat = stage.start(usual()).unwrap();
    drain(&mut replicat).unwrap();
    let left_out = 5 - stage.rows().len() as u64;
    let counts = replicat.statistics().counts(&name("t"), OperationKind::Insert);
    assert_eq!((counts.read, counts.filtered(FilterReason::Skipped)), (5, left_out));
    replicat.stop().unwrap();
    // The next start, without options, goes on behind all of them.
    stage.start = StartOptions::default();
    let mut replicat = stage.start(usual()).unwrap();
    drain(&mut replicat).unwrap();
    assert_eq!(replicat.progress().transactions, 0);
    replicat.stop().unwrap();
    let rows = stage.rows();
    (stage, rows)
}

#[test]
fn a_start_at_or_after_a_csn_leaves_out_what_is_before_it() {
    let from = |from| started(StartOptions { from, ..StartOptions::default() }).1;
    assert_eq!(from(StartFrom::AtCsn(commit(3).csn)), ["3", "4", "5"].map(|id| row(id, "a")));
    assert_eq!(from(StartFrom::AfterCsn(commit(3).csn)), ["4", "5"].map(|id| row(id, "a")));
    assert_eq!(from(StartFrom::SkipTransaction(None)), ["2", "3", "4", "5"].map(|id| row(id, "a")));
}

#[test]
fn a_csn_that_is_none_of_the_trails_stops_the_start() {
    let mut stage = Stage::new();
    stage.write(1, &table("t"), &[insert("1", "a")]);
    let from = StartFrom::AtCsn(Csn::new("1"));
    stage.start = StartOptions { from, ..StartOptions::default() };
    let error = drain(&mut stage.start(usual()).unwrap()).unwrap_err();
    assert!(matches!(error, Error::StartCsn(_)), "{error}");
    assert_eq!(stage.rows(), []);
}

#[test]
fn a_transaction_is_skipped_once_though_the_target_is_lost_meanwhile() {
    let mut stage = Stage::new();
    for number in 1..=3 {
        stage.write(number, &table("t"), &[insert(&number.to_string(), "a")]);
    }
    stage.start = StartOptions { from: StartFrom::SkipTransaction(None), ..StartOptions::default() };
    let mut replicat = stage.start(usual()).unwrap();
    stage.target.crash();
    let mut retries = 0;
    loop {
        match replicat.step(Duration::ZERO).unwrap() {
            Step::Idle => break,
            Step::Retry { .. } => retries += 1,
            Step::Worked => {}
        }
    }
    assert!(retries > 0, "the target was lost");
    assert_eq!(stage.rows(), ["2", "3"].map(|id| row(id, "a")));
    let (csn, transaction) = (commit(1).csn, commit(1).transaction);
    assert_eq!(replicat.start_options().from, StartFrom::SkipTransaction(Some((csn, transaction))));
}

#[test]
fn without_the_duplicate_filter_what_the_trail_holds_again_is_applied_again() {
    let mut stage = Stage::new();
    stage.write(1, &table("t"), &[insert("1", "a")]);
    stage.write(2, &table("t"), &[insert("2", "a")]);
    let mut replicat = stage.start(usual()).unwrap();
    drain(&mut replicat).unwrap();
    replicat.stop().unwrap();
    // The target loses a row, and an Extract that was put back writes its transaction again.
    let mut session = stage.target.open_session(SessionRequest {
        group: "other".to_owned(),
        group_key: 1,
        checkpoint_table: name("ckpt"),
        triggers: TriggerPolicy::Suppress,
        foreign_keys: ForeignKeyPolicy::Ignore,
    });
    let session = session.as_mut().unwrap();
    let plan = apply::plan(&table("t"), session.table(&name("t")).unwrap().unwrap(), None).unwrap();
    session.begin().unwrap();
    let operation = Operation::Delete { old: row("1", "a") };
    session.apply(&[database::Write { plan: &Arc::new(plan), operation: &operation }]).unwrap();
    session.commit().unwrap();
    stage.write(1, &table("t"), &[insert("1", "a")]);
    let mut replicat = stage.start(usual()).unwrap();
    drain(&mut replicat).unwrap();
    assert_eq!(stage.rows(), [row("2", "a")], "the filter leaves it out");
    replicat.stop().unwrap();
    stage.write(1, &table("t"), &[insert("1", "a")]);
    stage.start = StartOptions { filter_duplicates: false, ..StartOptions::default() };
    let mut replicat = stage.start(usual()).unwrap();
    drain(&mut replicat).unwrap();
    assert_eq!(stage.rows(), [row("1", "a"), row("2", "a")]);
    replicat.stop().unwrap();
    // Back where the watermark is now.
    stage.start = StartOptions::default();
    stage.write(3, &table("t"), &[insert("3", "a")]);
    drain(&mut stage.start(usual()).unwrap()).unwrap();
    assert_eq!(stage.rows(), ["1", "2", "3"].map(|id| row(id, "a")));
}
