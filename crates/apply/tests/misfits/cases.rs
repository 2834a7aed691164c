//! What each rule does. The name of the module says who applies.

use apply::conflict::ConflictKind;
use apply::schedule::Parallelism;
use apply::{
    AnyReplicat, ConflictCount, Crew, Discard, Error, GroupLimits, Pace, ParallelReplicat, ParallelSetup, Replicat,
    ReplicatSetup, Step,
};
use change::{
    CaseRule, Change, Column, Commit, Csn, LogicalType, Operation, OperationKind, RecordAddress, Row, TableDefinition,
    TableName, Timestamp, TransactionId, Value,
};
use database::memory::{MemoryDatabase, MemoryOptions};
use database::{CheckpointRow, Database, ForeignKeyPolicy, Outcome, SessionRequest, TriggerPolicy};
use process::{
    Checkpoint, CheckpointBody, CheckpointFile, Counts, FilterReason, GroupKind, GroupName, ReplicatCheckpoint,
    StopStatus,
};
use std::io;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use trail::storage::{Forgetful, Storage};
use trail::{Position, TrailName, Writer, WriterOptions};

const GROUP_KEY: i64 = 4 * CheckpointRow::KEY_STEP;

/// Whether several sessions apply.
fn is_parallel() -> bool {
    module_path!().ends_with("by_several_sessions")
}

pub(super) fn name(table: &str) -> TableName {
    TableName::new("main", table)
}

pub(super) fn table(table: &str) -> Arc<TableDefinition> {
    let columns = vec![
        Column::new("id", LogicalType::Integer, "integer").with_key(0),
        Column { nullable: false, ..Column::new("v", LogicalType::Text, "text") },
        Column::new("n", LogicalType::Integer, "integer"),
    ];
    Arc::new(TableDefinition { name: name(table), columns: columns.into() })
}

/// Values between commas; `~` is untold.
pub(super) fn row(text: &str) -> Row {
    Row::from_values(text.split(',').map(|value| match value {
        "~" => Value::Unchanged,
        "NULL" => Value::Null,
        text => Value::Bytes(text.as_bytes()),
    }))
}

pub(super) fn insert(new: &str) -> Operation {
    Operation::Insert { new: row(new) }
}

pub(super) fn update(old: &str, new: &str) -> Operation {
    Operation::Update { old: Some(row(old)), new: row(new) }
}

pub(super) fn delete(old: &str) -> Operation {
    Operation::Delete { old: row(old) }
}

#[derive(Clone, Default)]
struct Kept(Arc<Mutex<String>>, Arc<Mutex<bool>>);

impl Discard for Kept {
    fn append(&mut self, text: &str) -> io::Result<()> {
        if *self.1.lock().unwrap() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.0.lock().unwrap().push_str(text);
        Ok(())
    }
}

pub(super) struct Stage {
    storage: Arc<dyn Storage>,
    writer: Writer,
    pub(super) target: MemoryDatabase,
    kept: Kept,
    clock: Arc<AtomicI64>,
    parameters: String,
    number: u32,
    pub(super) limits: GroupLimits,
    /// How many sessions apply, and the seed of their turns.
    pub(super) appliers: Option<(usize, u64)>,
}

impl Stage {
    /// A trail, and a target with tables `t` and `u` and an exceptions table `refused`.
    pub(super) fn new(parameters: &str) -> Stage {
        let storage: Arc<dyn Storage> = Arc::new(Forgetful::new(1));
        let options = WriterOptions::new(TrailName::parse("aa").unwrap(), 1 << 20, Arc::new(Timestamp::default));
        let writer = Writer::open(Arc::clone(&storage), options).unwrap();
        let target = MemoryDatabase::new(MemoryOptions { lock_wait: Duration::ZERO, ..MemoryOptions::new("target") });
        target.create_table((*table("t")).clone(), &[]).unwrap();
        target.create_table((*table("u")).clone(), &[]).unwrap();
        let column = |name: &str| Column::new(name, LogicalType::Text, "text");
        let columns = ["id", "v", "n", "what", "code", "text", "csn"].map(column).to_vec();
        target.create_table(TableDefinition { name: name("refused"), columns: columns.into() }, &[]).unwrap();
        target.create_checkpoint_table(&name("ckpt")).unwrap();
        let time = Timestamp::default();
        let row = CheckpointRow {
            group_name: "R1".to_owned(),
            group_key: GROUP_KEY,
            sequence: 0,
            rba: 0,
            audit_time: None,
            created: time,
            updated: time,
            directory: String::new(),
            log_bsn: None,
            log_csn: None,
            log_complete_csn: None,
            log_complete_transactions: Vec::new(),
            version: CheckpointRow::VERSION,
        };
        target.insert_checkpoint(&name("ckpt"), &row).unwrap();
        let body = CheckpointBody::Replicat(ReplicatCheckpoint {
            trail: "./dirdat/aa".to_owned(),
            checkpoint_table: name("ckpt"),
            group_key: GROUP_KEY,
            startup: Position::default(),
            current: Position::default(),
            applied: None,
            mode: Default::default(),
        });
        let first = Checkpoint { created: time, started: None, updated: time, stop_status: StopStatus::Graceful, body };
        let group = GroupName::parse("R1").unwrap();
        CheckpointFile::create(Arc::clone(&storage), GroupKind::Replicat, &group, &first).unwrap();
        let parameters = format!("REPLICAT r1\nTARGETDB memory:target\n{parameters}\n");
        Stage {
            storage,
            writer,
            target,
            kept: Kept::default(),
            clock: Arc::default(),
            parameters,
            number: 0,
            limits: GroupLimits::with_operations(1000),
            appliers: is_parallel().then_some((4, 7)),
        }
    }

    /// Rows that stand in the target.
    pub(super) fn given(self, table: &str, rows: &[&str]) -> Stage {
        for values in rows {
            self.target.write(|transaction| transaction.insert(&name(table), row(values))).unwrap();
        }
        self
    }

    /// A transaction of the source; each operation with its table.
    pub(super) fn transaction(&mut self, operations: &[(&str, Operation)]) {
        self.number += 1;
        let number = self.number;
        let time = Timestamp::from_unix_micros(i64::from(number));
        let transaction = TransactionId::new(format!("t{number}"));
        self.writer.begin(&Commit { csn: Csn::new(format!("{number:04}")), transaction, time }).unwrap();
        for (name, operation) in operations {
            let address = RecordAddress::default();
            let change = Change { table: table(name), operation: operation.clone(), address };
            self.writer.append(&change).unwrap();
        }
        self.writer.commit().unwrap();
        self.writer.sync().unwrap();
    }

    pub(super) fn start(&self) -> AnyReplicat {
        let parameters =
            parameter::parse_replicat(&self.parameters, "r1.prm").unwrap_or_else(|wrong| panic!("{wrong}"));
        let group = GroupName::parse("R1").unwrap();
        let checkpoint = CheckpointFile::open(Arc::clone(&self.storage), GroupKind::Replicat, &group).unwrap();
        let request = SessionRequest {
            group: "R1".to_owned(),
            group_key: GROUP_KEY,
            checkpoint_table: name("ckpt"),
            triggers: TriggerPolicy::Suppress,
            foreign_keys: ForeignKeyPolicy::Ignore,
        };
        let (target, clock) = (self.target.clone(), Arc::clone(&self.clock));
        let (applier_target, applier_request) = (target.clone(), request.clone());
        let setup = ReplicatSetup {
            keys: None,
            group: "R1".to_owned(),
            storage: Arc::clone(&self.storage),
            trail: TrailName::parse("aa").unwrap(),
            definitions: Vec::new(),
            connect: Box::new(move || target.open_session(request.clone())),
            rules: parameters.map.plan(CaseRule::Sensitive, "main", CaseRule::Sensitive, "main"),
            limits: self.limits,
            checkpoint,
            directory: "/home".to_owned(),
            clock: Arc::new(move || Timestamp::from_unix_micros(clock.load(Ordering::Relaxed))),
            notice: Box::new(|_| {}),
            pace: Pace { position: Duration::ZERO, ..Pace::default() },
            start: apply::StartOptions::default(),
        };
        let mut replicat = if let Some((appliers, seed)) = self.appliers {
            let mut random = fastrand::Rng::with_seed(seed);
            let setup = ParallelSetup {
                common: setup,
                connect_applier: Box::new(move |number| {
                    let group_key = CheckpointRow::applier_key(GROUP_KEY, number);
                    applier_target.open_session(SessionRequest { group_key, ..applier_request.clone() })
                }),
                parallelism: Parallelism::fixed(appliers),
                look_ahead: 10_000,
                serial: false,
                split: None,
                threads: None,
                synchronizes: false,
                map_hash: "rules".to_owned(),
                crew: Crew::Turns(Box::new(move |number| random.usize(..number))),
            };
            AnyReplicat::Parallel(Box::new(ParallelReplicat::new(setup).unwrap()))
        } else {
            AnyReplicat::Classic(Box::new(Replicat::new(setup).unwrap()))
        };
        replicat.set_discard_file(Box::new(self.kept.clone()));
        replicat
    }

    /// Applies everything.
    fn run(&self) -> Result<AnyReplicat, Error> {
        let mut replicat = self.start();
        while !matches!(replicat.step(Duration::ZERO)?, Step::Idle) {}
        assert!(replicat.statistics().balanced(), "{}", replicat.statistics().render("Applied"));
        Ok(replicat)
    }

    pub(super) fn rows(&self, table: &str) -> Vec<Row> {
        self.target.rows(&name(table))
    }

    #[track_caller]
    fn assert_rows(&self, table: &str, expected: &[&str]) {
        assert_eq!(self.rows(table), expected.iter().map(|text| row(text)).collect::<Vec<_>>());
    }

    pub(super) fn discarded(&self) -> String {
        self.kept.0.lock().unwrap().clone()
    }
}

fn counts(replicat: &AnyReplicat, table: &str, kind: OperationKind) -> Counts {
    replicat.statistics().counts(&name(table), kind)
}

const ALL: &str = "MAP main.*, TARGET main.*;";

/// A transaction before, one in which the middle row is a duplicate, and one after.
fn with_a_duplicate(parameters: &str) -> Stage {
    let mut stage = Stage::new(parameters).given("t", &["2,mine,0"]);
    stage.transaction(&[("t", insert("1,a,0"))]);
    stage.transaction(&[("t", insert("3,a,0")), ("t", insert("2,a,0")), ("u", insert("3,a,0"))]);
    stage.transaction(&[("t", insert("4,a,0"))]);
    stage
}

#[test]
fn without_rules_the_group_stops_before_the_transaction() {
    let stage = with_a_duplicate(ALL);
    let error = stage.run().err().expect("the row exists");
    assert!(matches!(&error, Error::Rejected(rejected) if rejected.outcome == Outcome::Duplicate), "{error}");
    stage.assert_rows("t", &["1,a,0", "2,mine,0"]);
    stage.assert_rows("u", &[]);
}

#[test]
fn abend_stops_before_the_transaction_although_other_errors_are_passed_over() {
    let stage = with_a_duplicate(&format!("REPERROR (DEFAULT, IGNORE)\nREPERROR (DUPLICATE, ABEND)\n{ALL}"));
    let error = stage.run().err().expect("the row exists");
    let Error::Rejected(rejected) = &error else { panic!("{error}") };
    assert_eq!((rejected.outcome, &rejected.target), (Outcome::Duplicate, &Some(name("t"))));
    stage.assert_rows("t", &["1,a,0", "2,mine,0"]);
    stage.assert_rows("u", &[]);
}

#[test]
fn discard_keeps_the_row_in_the_discard_file_and_goes_on() {
    let stage = with_a_duplicate(&format!("REPERROR (DUPLICATE, DISCARD)\n{ALL}"));
    let replicat = stage.run().unwrap();
    stage.assert_rows("t", &["1,a,0", "2,mine,0", "3,a,0", "4,a,0"]);
    stage.assert_rows("u", &["3,a,0"]);
    let counts = counts(&replicat, "t", OperationKind::Insert);
    assert_eq!((counts.read, counts.written, counts.filtered(FilterReason::Discarded)), (4, 3, 1));
    let text = stage.discarded();
    assert!(text.starts_with("insert of main.t to main.t at trail position 000000000:"), "{text}");
    for part in
        [", CSN 0002, transaction t2, committed 1970-01-01", "error DUPLICATE", "id = '2'", "v = 'a'", "n = '0'"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert_eq!(text.matches("insert of").count(), 1);
}

#[test]
fn a_discard_file_that_takes_nothing_stops_the_group_and_nothing_is_lost() {
    let stage = with_a_duplicate(&format!("REPERROR (DUPLICATE, DISCARD)\n{ALL}"));
    *stage.kept.1.lock().unwrap() = true;
    let error = stage.run().err().expect("the file is full");
    assert!(matches!(error, Error::Discard { .. }), "{error}");
    stage.assert_rows("t", &["1,a,0", "2,mine,0"]);
    *stage.kept.1.lock().unwrap() = false;
    stage.run().unwrap();
    stage.assert_rows("t", &["1,a,0", "2,mine,0", "3,a,0", "4,a,0"]);
    assert_eq!(stage.discarded().matches("insert of").count(), 1);
}

#[test]
fn ignore_drops_the_row_and_counts_it() {
    let stage = with_a_duplicate("MAP main.*, TARGET main.*, REPERROR (DUPLICATE, IGNORE);");
    let replicat = stage.run().unwrap();
    stage.assert_rows("t", &["1,a,0", "2,mine,0", "3,a,0", "4,a,0"]);
    assert_eq!(counts(&replicat, "t", OperationKind::Insert).filtered(FilterReason::Ignored), 1);
    assert_eq!(stage.discarded(), "");
}

pub(super) const EXCEPTIONS: &str = "MAPEXCEPTION (TARGET main.refused, INSERTALLRECORDS, COLMAP (USEDEFAULTS, what = @GETENV ('LASTERR', \
                          'OPTYPE'), code = @GETENV ('LASTERR', 'DBERRNUM'), text = @GETENV ('LASTERR', 'DBERRMSG'), csn = \
                          @GETENV ('TRANSACTION', 'CSN')))";

#[test]
fn exceptions_keep_the_row_with_its_error() {
    let parameters = format!("REPERROR (DEFAULT, EXCEPTION)\nMAP main.*, TARGET main.*, {EXCEPTIONS};");
    let mut stage = with_a_duplicate(&parameters);
    stage.transaction(&[("t", update("9,a,0", "9,b,1")), ("t", delete("8,x,~"))]);
    let replicat = stage.run().unwrap();
    stage.assert_rows("t", &["1,a,0", "2,mine,0", "3,a,0", "4,a,0"]);
    let refused = stage.rows("refused");
    let text =
        |row: &Row, column: usize| String::from_utf8(row.value(column).bytes().unwrap_or(b"-").to_vec()).unwrap();
    let seen: Vec<String> =
        refused.iter().map(|row| [0, 1, 2, 3, 4, 6].map(|column| text(row, column)).join(" ")).collect();
    assert_eq!(seen, ["2 a 0 INSERT DUPLICATE 0002", "9 b 1 UPDATE MISSING 0004", "8 x - DELETE MISSING 0004"]);
    assert!(text(&refused[0], 5).contains("unique key"), "{refused:?}");
    assert_eq!(replicat.statistics().total().filtered(FilterReason::Exception), 3);
}

#[test]
fn a_statement_of_its_own_may_take_the_exceptions_of_one_table() {
    let parameters = "REPERROR (DEFAULT, EXCEPTION)\nREPERROR (DEFAULT2, DISCARD)\n\
                      MAP main.t, TARGET main.t;\nMAP main.t, TARGET main.refused, EXCEPTIONSONLY, INSERTALLRECORDS;\n\
                      MAP main.u, TARGET main.u;";
    let mut stage = with_a_duplicate(parameters);
    stage.transaction(&[("u", delete("8,x,0"))]);
    stage.run().unwrap();
    assert_eq!(stage.rows("refused").len(), 1);
    assert_eq!(stage.discarded().matches("delete of main.u").count(), 1, "DEFAULT2 is for the table without a mapping");
}

#[test]
fn transdiscard_keeps_every_row_of_the_transaction_and_none_of_another() {
    let stage = with_a_duplicate(&format!("REPERROR (DUPLICATE, TRANSDISCARD)\n{ALL}"));
    let replicat = stage.run().unwrap();
    stage.assert_rows("t", &["1,a,0", "2,mine,0", "4,a,0"]);
    stage.assert_rows("u", &[]);
    let total = replicat.statistics().total();
    assert_eq!((total.read, total.written, total.filtered(FilterReason::Discarded)), (5, 2, 3));
    assert_eq!(stage.discarded().matches("insert of").count(), 3);
}

#[test]
fn transexception_sends_every_row_of_the_transaction_through_its_mapping() {
    let parameters = format!("REPERROR (DUPLICATE, TRANSEXCEPTION)\nMAP main.*, TARGET main.*, {EXCEPTIONS};");
    let stage = with_a_duplicate(&parameters);
    let replicat = stage.run().unwrap();
    stage.assert_rows("t", &["1,a,0", "2,mine,0", "4,a,0"]);
    stage.assert_rows("u", &[]);
    assert_eq!(stage.rows("refused").len(), 3);
    assert_eq!(replicat.statistics().total().filtered(FilterReason::Exception), 3);
}

#[test]
fn retryop_and_transabort_give_up_after_their_number_of_retries() {
    for response in ["RETRYOP MAXRETRIES 3", "TRANSABORT MAXRETRIES 3"] {
        let stage = with_a_duplicate(&format!("REPERROR (DUPLICATE, {response})\n{ALL}"));
        let mut replicat = stage.start();
        let mut retries = 0;
        let error = loop {
            match replicat.step(Duration::ZERO) {
                Ok(Step::Retry { .. }) => retries += 1,
                Ok(Step::Idle) => panic!("{response}: the row does not fit"),
                Ok(Step::Worked) => {}
                Err(error) => break error,
            }
        };
        assert!(matches!(error, Error::Rejected(_)), "{error}");
        assert_eq!(retries, if response.starts_with("TRANS") { 3 } else { 0 });
        stage.assert_rows("t", &["1,a,0", "2,mine,0"]);
    }
}

#[test]
fn transabort_succeeds_when_the_cause_goes_away_and_waits_its_delay() {
    let stage = with_a_duplicate(&format!("REPERROR (DUPLICATE, TRANSABORT MAXRETRIES 3 DELAYSECS 5)\n{ALL}"));
    let mut replicat = stage.start();
    while !matches!(replicat.step(Duration::ZERO).unwrap(), Step::Retry { .. }) {}
    stage.target.write(|transaction| transaction.delete(&name("t"), &row("2,mine,0"))).unwrap();
    assert!(matches!(replicat.step(Duration::ZERO).unwrap(), Step::Idle), "it waits");
    stage.assert_rows("t", &["1,a,0"]);
    stage.clock.store(5_000_000, Ordering::Relaxed);
    while !matches!(replicat.step(Duration::ZERO).unwrap(), Step::Idle) {}
    stage.assert_rows("t", &["1,a,0", "2,a,0", "3,a,0", "4,a,0"]);
}

#[test]
fn collisions_are_handled_where_they_are_asked_for() {
    let mut stage = Stage::new(&format!("HANDLECOLLISIONS\n{ALL}")).given("t", &["1,old,0", "2,old,0", "6,old,0"]);
    stage.transaction(&[
        ("t", insert("1,new,1")),
        ("t", update("7,a,0", "7,b,0")),
        ("t", delete("8,a,0")),
        ("t", update("9,a,0", "10,b,0")),
        ("t", update("2,old,0", "6,moved,2")),
    ]);
    let replicat = stage.run().unwrap();
    stage.assert_rows("t", &["1,new,1", "10,b,0", "6,moved,2"]);
    let total = replicat.statistics().total();
    assert_eq!((total.read, total.written, total.filtered(FilterReason::Collision)), (5, 3, 2));
}

#[test]
fn operations_are_turned_into_others() {
    for (parameters, given, operations, expected) in [
        ("INSERTUPDATES", vec![], vec![update("1,a,0", "1,b,~")], vec!["1,b,0"]),
        ("INSERTDELETES", vec![], vec![delete("1,a,0")], vec!["1,a,0"]),
        ("UPDATEINSERTS", vec!["1,old,5"], vec![insert("1,new,6")], vec!["1,new,6"]),
        ("UPDATEDELETES", vec!["1,a,0"], vec![delete("1,a,0")], vec!["1,a,0"]),
        ("INSERTMISSINGUPDATES", vec![], vec![update("1,a,0", "1,b,~")], vec!["1,b,0"]),
        ("OVERRIDEDUPS", vec!["1,old,5"], vec![insert("1,new,6")], vec!["1,new,6"]),
    ] {
        let mut stage = Stage::new(&format!("{parameters}\n{ALL}")).given("t", &given);
        operations.iter().for_each(|operation| stage.transaction(&[("t", operation.clone())]));
        let replicat = stage.run().unwrap_or_else(|error| panic!("{parameters}: {error}"));
        assert_eq!(stage.rows("t"), expected.iter().map(|text| row(text)).collect::<Vec<_>>(), "{parameters}");
        assert_eq!(replicat.statistics().total().written, operations.len() as u64, "{parameters}");
        // The same without the setting is refused.
        let mut plain = Stage::new(ALL).given("t", &given);
        operations.iter().for_each(|operation| plain.transaction(&[("t", operation.clone())]));
        let as_it_is = plain.run().map(|_| plain.rows("t"));
        assert_ne!(as_it_is.ok(), Some(stage.rows("t")), "{parameters} has an effect");
    }
}

#[test]
fn a_table_may_keep_the_history_of_all_operations() {
    let mut stage = Stage::new("MAP main.t, TARGET main.refused, INSERTALLRECORDS, KEYCOLS (id);");
    stage.transaction(&[("t", insert("1,a,0")), ("t", update("1,a,0", "1,b,~")), ("t", delete("1,b,0"))]);
    stage.run().unwrap();
    let seen: Vec<String> = stage.rows("refused").iter().map(|row| format!("{row:?}")).collect();
    assert_eq!(seen.len(), 3, "{seen:?}");
    assert!(seen[1].contains("\"b\", \"0\""), "{seen:?}");
}

#[test]
fn updates_that_set_nothing_are_passed_over_when_allowed() {
    let mut stage = Stage::new(&format!("ALLOWNOOPUPDATES\n{ALL}"));
    stage.transaction(&[("t", update("1,a,0", "1,a,0"))]);
    let replicat = stage.run().unwrap();
    assert_eq!(replicat.statistics().total().filtered(FilterReason::NothingToSet), 1);
}

const RESOLVE: &str = "MAP main.t, TARGET main.t, COMPARECOLS (ON UPDATE ALL, ON DELETE ALL), \
                       RESOLVECONFLICT (UPDATEROWEXISTS, (DEFAULT, USEMAX (n))), \
                       RESOLVECONFLICT (INSERTROWEXISTS, (DEFAULT, USEMAX (n))), \
                       RESOLVECONFLICT (UPDATEROWMISSING, (DEFAULT, OVERWRITE)), \
                       RESOLVECONFLICT (DELETEROWEXISTS, (DEFAULT, IGNORE)), \
                       RESOLVECONFLICT (DELETEROWMISSING, (DEFAULT, DISCARD));";

#[test]
fn conflicts_are_settled_as_the_map_says() {
    let given = ["1,mine,5", "2,mine,5", "3,mine,5", "4,a,1", "5,mine,5"];
    let mut stage = Stage::new(RESOLVE).given("t", &given);
    stage.transaction(&[
        ("t", update("1,a,1", "1,theirs,9")),
        ("t", update("2,a,1", "2,theirs,3")),
        ("t", insert("3,theirs,9")),
        ("t", update("4,a,1", "4,theirs,0")),
        ("t", delete("5,a,1")),
        ("t", delete("6,a,1")),
        ("t", update("7,a,1", "7,b,~")),
    ]);
    let replicat = stage.run().unwrap();
    stage.assert_rows("t", &["1,theirs,9", "2,mine,5", "3,theirs,9", "4,theirs,0", "5,mine,5", "7,b,1"]);
    let of = |kind| replicat.conflicts().get(&(name("t"), kind)).copied().unwrap_or_default();
    let resolved = |resolved| ConflictCount { resolved, failed: 0 };
    assert_eq!(of(ConflictKind::UpdateRowExists), resolved(2));
    assert_eq!(of(ConflictKind::InsertRowExists), resolved(1));
    assert_eq!(of(ConflictKind::UpdateRowMissing), resolved(1));
    assert_eq!(of(ConflictKind::DeleteRowExists), resolved(1));
    assert_eq!(of(ConflictKind::DeleteRowMissing), resolved(1));
    let total = replicat.statistics().total();
    assert_eq!(
        (total.written, total.filtered(FilterReason::Conflict), total.filtered(FilterReason::Discarded)),
        (4, 2, 1)
    );
    assert_eq!(stage.discarded().matches("delete of main.t").count(), 1);
}

#[test]
fn a_conflict_that_nothing_settles_is_an_error_for_reperror() {
    let compare = "MAP main.t, TARGET main.t, COMPARECOLS (ON UPDATE ALL)";
    let mut stage = Stage::new(&format!("{compare};")).given("t", &["1,mine,5"]);
    stage.transaction(&[("t", update("1,a,1", "1,theirs,9"))]);
    let error = stage.run().err().expect("nothing settles it");
    assert!(matches!(&error, Error::Rejected(rejected) if rejected.outcome == Outcome::Missing), "{error}");
    let mut stage = Stage::new(&format!("{compare}, REPERROR (MISSING, DISCARD);")).given("t", &["1,mine,5"]);
    stage.transaction(&[("t", update("1,a,1", "1,theirs,9"))]);
    let replicat = stage.run().unwrap();
    stage.assert_rows("t", &["1,mine,5"]);
    assert!(stage.discarded().contains("UPDATEROWEXISTS"), "{}", stage.discarded());
    let failed = ConflictCount { resolved: 0, failed: 1 };
    assert_eq!(replicat.conflicts()[&(name("t"), ConflictKind::UpdateRowExists)], failed);
}

#[test]
fn a_truncation_under_rules_for_conflicts_is_refused_or_settled() {
    let rules = |more: &str| {
        format!(
            "MAP main.t, TARGET main.t, COMPARECOLS (ON UPDATE ALL), RESOLVECONFLICT (INSERTROWEXISTS, (DEFAULT, USEMAX (n))){more};\n\
             MAP main.u, TARGET main.u;"
        )
    };
    // As a table is sent again.
    let sent_again = [("t", Operation::truncate()), ("t", insert("1,a,9")), ("t", insert("2,a,1"))];
    let given = ["1,mine,1", "2,mine,5", "3,mine,1"];
    for (more, expected, discarded) in [
        (", RESOLVECONFLICT (TRUNCATE, (DEFAULT, OVERWRITE))", &["1,a,9", "2,a,1"][..], 0),
        (", RESOLVECONFLICT (TRUNCATE, (DEFAULT, IGNORE))", &["1,a,9", "2,mine,5", "3,mine,1"], 0),
        (", RESOLVECONFLICT (TRUNCATE, (DEFAULT, DISCARD))", &["1,a,9", "2,mine,5", "3,mine,1"], 1),
        (", REPERROR (CONSTRAINT, TRANSDISCARD)", &given, 3),
    ] {
        let mut stage = Stage::new(&rules(more)).given("t", &given).given("u", &["1,a,0"]);
        stage.transaction(&sent_again);
        stage.transaction(&[("u", Operation::truncate())]);
        let replicat = stage.run().unwrap_or_else(|error| panic!("{more}: {error}"));
        stage.assert_rows("t", expected);
        // A table without rules for conflicts has no rows of others.
        stage.assert_rows("u", &[]);
        assert_eq!(stage.discarded().matches("of main.t").count(), discarded, "{more}");
        assert!(replicat.conflicts().contains_key(&(name("t"), ConflictKind::Truncate)), "{more}");
    }
    let mut stage = Stage::new(&rules("")).given("t", &given);
    stage.transaction(&sent_again);
    let error = stage.run().err().expect("nobody has said what to do");
    assert!(matches!(&error, Error::Rejected(rejected) if rejected.detail.contains("TRUNCATE")), "{error}");
    stage.assert_rows("t", &given);
}

/// Columns in no group, without a DEFAULT: the shadow group, which has no methods.
#[test]
fn a_conflict_in_columns_of_no_group_is_an_error_while_groups_that_are_settled_are() {
    let rules = "REPERROR (MISSING, DISCARD)\nMAP main.t, TARGET main.t, COMPARECOLS (ON UPDATE ALL), \
                 RESOLVECONFLICT (UPDATEROWEXISTS, (number, USEMAX (n), COLS (n)));";
    let mut stage = Stage::new(rules).given("t", &["1,mine,5", "2,a,1"]);
    stage.transaction(&[("t", update("1,a,1", "1,theirs,9")), ("t", update("2,a,1", "2,b,9"))]);
    let replicat = stage.run().unwrap();
    stage.assert_rows("t", &["1,mine,5", "2,b,9"]);
    assert_eq!(stage.discarded().matches("UPDATEROWEXISTS").count(), 1, "{}", stage.discarded());
    let failed = ConflictCount { resolved: 0, failed: 1 };
    assert_eq!(replicat.conflicts()[&(name("t"), ConflictKind::UpdateRowExists)], failed);
}

#[test]
fn a_column_or_type_that_does_not_fit_is_refused_by_name() {
    for (option, expected) in [
        ("COMPARECOLS (ON UPDATE KEYINCLUDING (missing))", "missing"),
        ("COMPARECOLS (ON UPDATE ALL), RESOLVECONFLICT (UPDATEROWEXISTS, (DEFAULT, USEMAX (v)))", "v"),
        (
            "COMPARECOLS (ON UPDATE ALL), RESOLVECONFLICT (UPDATEROWEXISTS, (d, USEDELTA, COLS (v)), (DEFAULT, IGNORE))",
            "v",
        ),
    ] {
        let mut stage = Stage::new(&format!("MAP main.t, TARGET main.t, {option};"));
        stage.transaction(&[("t", insert("1,a,0"))]);
        let error = stage.run().err().expect("the option does not fit");
        let Error::Handling { source, .. } = &error else { panic!("{error}") };
        assert!(source.to_string().contains(expected), "{source}");
    }
}
