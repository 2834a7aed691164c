//! What the in-memory engine does beyond what every database must do: it fails on demand, and always in the same way.

use change::{CaseRule, Column, LogPosition, LogicalType, Operation, Row, TableDefinition, TableName, Value};
use database::memory::{Durability, MemoryDatabase, MemoryOptions, MemoryTransaction};
use database::{
    ApplyError, CheckpointRow, ColumnPair, Database, ErrorClass, ForeignKeyPolicy, LogEvent, LogSource, Session,
    SessionRequest, SourceRequest, TablePlan, TableSelection, TriggerPolicy, Write,
};
use std::sync::Arc;
use std::time::Duration;

struct Everything;

impl TableSelection for Everything {
    fn selects(&self, table: &TableName) -> bool {
        table.table != "ignored"
    }

    fn required(&self) -> Vec<TableName> {
        Vec::new()
    }

    fn key_columns(&self, _table: &TableName) -> Option<Vec<String>> {
        None
    }
}

fn item() -> TableName {
    TableName::new("main", "item")
}

fn definition(name: &str) -> TableDefinition {
    let columns = vec![
        Column::new("id", LogicalType::Integer, "integer").with_key(0),
        Column::new("name", LogicalType::Text, "text"),
    ];
    TableDefinition { name: TableName::new("main", name), columns: columns.into() }
}

fn database(options: MemoryOptions) -> MemoryDatabase {
    let database = MemoryDatabase::new(options);
    database.create_table(definition("item"), &[]).expect("created");
    database
}

fn row(id: usize) -> Row {
    Row::from_values([Value::Bytes(id.to_string().as_bytes()), Value::Bytes(b"name")])
}

fn insert(database: &MemoryDatabase, id: usize) -> Result<(), ApplyError> {
    database.write(|transaction| transaction.insert(&item(), row(id))).map(|_| ())
}

fn class(result: Result<(), ApplyError>) -> ErrorClass {
    match result.expect_err("the call fails") {
        ApplyError::Failed(error) => error.class(),
        ApplyError::Rejected(rejection) => panic!("rejected: {}", rejection.outcome),
    }
}

fn source(database: &MemoryDatabase, start: &LogPosition) -> Box<dyn LogSource> {
    let request = SourceRequest { group: "E1".to_owned(), start: start.clone(), tables: Arc::new(Everything) };
    database.open_source(request).expect("opened")
}

fn read(source: &mut dyn LogSource) -> Vec<LogEvent> {
    let mut events = Vec::new();
    source.read(&mut events, Duration::ZERO).expect("read");
    events
}

fn checkpoints() -> TableName {
    TableName::new("main", "checkpoints")
}

fn session(database: &MemoryDatabase) -> Box<dyn Session> {
    let request = SessionRequest {
        group: "R1".to_owned(),
        group_key: 1,
        checkpoint_table: checkpoints(),
        triggers: TriggerPolicy::Suppress,
        foreign_keys: ForeignKeyPolicy::Ignore,
    };
    database.open_session(request).expect("opened")
}

fn checkpoint(rba: u64) -> CheckpointRow {
    CheckpointRow {
        group_name: "R1".to_owned(),
        group_key: 1,
        sequence: 0,
        rba,
        audit_time: None,
        created: Default::default(),
        updated: Default::default(),
        directory: String::new(),
        log_bsn: None,
        log_csn: None,
        log_complete_csn: None,
        log_complete_transactions: Vec::new(),
        version: CheckpointRow::VERSION,
    }
}

fn plan() -> Arc<TablePlan> {
    let columns = [0, 1].map(|column| ColumnPair { source: column, target: column });
    Arc::new(TablePlan {
        source: Arc::new(definition("item")),
        target: definition("item"),
        columns: columns.to_vec(),
        key: columns[..1].to_vec(),
        on_duplicate: database::OnDuplicate::Refuse,
    })
}

/// Applies row `id` with checkpoint `id` in one transaction.
fn apply(session: &mut dyn Session, id: usize) -> Result<(), ApplyError> {
    let plan = plan();
    let operation = Operation::Insert { new: row(id) };
    session.begin()?;
    session.apply(&[Write { plan: &plan, operation: &operation }])?;
    session.save_checkpoint(&checkpoint(id as u64))?;
    session.commit()
}

#[test]
fn every_call_after_the_chosen_one_fails_until_the_restart() {
    for calls in 1..=6 {
        let database = database(MemoryOptions::new("m"));
        database.fail_after(calls, 1);
        let results: Vec<_> = (1..=8).map(|_| database.tables().is_ok()).collect();
        let expected: Vec<_> = (1..=8).map(|call| call < calls).collect();
        assert_eq!(results, expected);
        assert_eq!(database.tables().expect_err("down").class(), ErrorClass::ConnectionLost);
        assert_eq!(class(insert(&database, 1)), ErrorClass::ConnectionLost, "users are locked out too");
        database.restart();
        assert!(database.tables().is_ok());
        insert(&database, 1).expect("inserted");
    }
}

#[test]
fn a_commit_that_fails_has_happened_wholly_or_not_at_all_as_the_seed_says() {
    let run = |seed| {
        let database = database(MemoryOptions::new("m"));
        database.create_checkpoint_table(&checkpoints()).expect("created");
        database.insert_checkpoint(&checkpoints(), &checkpoint(0)).expect("inserted");
        let mut open = session(&database);
        // The fourth call is the commit.
        database.fail_after(4, seed);
        assert_eq!(class(apply(&mut *open, 7)), ErrorClass::ConnectionLost);
        database.restart();
        assert_eq!(open.begin().expect_err("dead").class(), ErrorClass::ConnectionLost);
        let rba = session(&database).load_checkpoint().expect("loaded").expect("there").rba;
        let rows = database.rows(&item());
        assert_eq!(rows.len() as u64 * 7, rba, "row and checkpoint agree");
        rba
    };
    let outcomes: Vec<_> = (0..32).map(run).collect();
    assert!(outcomes.contains(&0) && outcomes.contains(&7), "both happen: {outcomes:?}");
    assert_eq!(outcomes, (0..32).map(run).collect::<Vec<_>>(), "the seed decides");
}

#[test]
fn a_failure_before_the_commit_loses_the_transaction() {
    for calls in 1..4 {
        let database = database(MemoryOptions::new("m"));
        database.create_checkpoint_table(&checkpoints()).expect("created");
        database.insert_checkpoint(&checkpoints(), &checkpoint(0)).expect("inserted");
        let mut open = session(&database);
        database.fail_after(calls, 0);
        assert_eq!(class(apply(&mut *open, 7)), ErrorClass::ConnectionLost);
        database.restart();
        assert_eq!(database.rows(&item()), []);
        assert_eq!(session(&database).load_checkpoint().expect("loaded"), Some(checkpoint(0)));
    }
}

#[test]
fn relaxed_durability_loses_the_newest_transactions_with_their_checkpoints() {
    let mut kept = std::collections::BTreeSet::new();
    for seed in 0..64 {
        let relaxed = MemoryOptions { durability: Durability::Relaxed, seed, ..MemoryOptions::new("m") };
        let database = database(relaxed);
        database.create_checkpoint_table(&checkpoints()).expect("created");
        database.insert_checkpoint(&checkpoints(), &checkpoint(0)).expect("inserted");
        let mut open = session(&database);
        (1..=5).for_each(|id| apply(&mut *open, id).expect("applied"));
        database.crash();
        let rows = database.rows(&item());
        assert_eq!(rows, (1..=rows.len()).map(row).collect::<Vec<_>>(), "a prefix is kept");
        let rba = session(&database).load_checkpoint().expect("loaded").expect("there").rba;
        assert_eq!(rba, rows.len() as u64, "row and checkpoint agree");
        kept.insert(rows.len());
    }
    assert_eq!(kept.into_iter().collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5]);
}

#[test]
fn what_a_source_has_told_is_never_lost() {
    for seed in 0..32 {
        let relaxed = MemoryOptions { durability: Durability::Relaxed, seed, ..MemoryOptions::new("m") };
        let database = database(relaxed);
        let start = database.register_capture("E1", &Everything).expect("registered");
        (0..5).for_each(|id| insert(&database, id).expect("inserted"));
        let events = read(&mut *source(&database, &start));
        let Some(LogEvent::Commit { next }) = events.last() else { panic!("five transactions are told: {events:?}") };
        insert(&database, 5).expect("inserted");
        database.crash();
        assert!(database.rows(&item()).len() >= 5);
        let lost = database.rows(&item()).len() == 5;
        let again = read(&mut *source(&database, next));
        assert_eq!(again.len(), if lost { 0 } else { 3 }, "begin, change, commit of what is left");
    }
}

#[test]
fn an_idle_table_in_a_busy_database_holds_nothing_back() {
    let database = database(MemoryOptions { batch_events: 3, ..MemoryOptions::new("m") });
    database.create_table(definition("ignored"), &[]).expect("created");
    let start = database.register_capture("E1", &Everything).expect("registered");
    let mut source = source(&database, &start);
    for id in 0..100 {
        database.write(|transaction| transaction.insert(&TableName::new("main", "ignored"), row(id))).expect("written");
    }
    assert_eq!(database.log_transactions(), 100);
    let events = read(&mut *source);
    let [LogEvent::Idle { next }] = &events[..] else { panic!("the source says that it moved: {events:?}") };
    source.release(next).expect("released");
    assert_eq!(database.log_transactions(), 0);
    insert(&database, 1).expect("inserted");
    assert_eq!(read(&mut *source).len(), 3);
}

#[test]
fn the_log_is_kept_for_the_slowest_group_only() {
    let database = database(MemoryOptions::new("m"));
    insert(&database, 0).expect("inserted");
    assert_eq!(database.log_transactions(), 0, "nobody reads it");
    let start = database.register_capture("E1", &Everything).expect("registered");
    insert(&database, 1).expect("inserted");
    database.register_capture("E2", &Everything).expect("registered");
    insert(&database, 2).expect("inserted");
    assert_eq!(database.log_transactions(), 2);
    let mut source = source(&database, &start);
    let events = read(&mut *source);
    let Some(LogEvent::Commit { next }) = events.last() else { panic!("told: {events:?}") };
    source.release(next).expect("released");
    assert_eq!(database.log_transactions(), 1, "E2 needs the last one");
    database.unregister_capture("E2").expect("unregistered");
    assert_eq!(database.log_transactions(), 0);
}

#[test]
fn a_batch_splits_a_transaction() {
    let database = database(MemoryOptions { batch_events: 10, ..MemoryOptions::new("m") });
    let start = database.register_capture("E1", &Everything).expect("registered");
    let many = |transaction: &mut MemoryTransaction| (0..95).try_for_each(|id| transaction.insert(&item(), row(id)));
    database.write(many).expect("written");
    let mut source = source(&database, &start);
    let mut reads = 0;
    let mut events = Vec::new();
    while !matches!(events.last(), Some(LogEvent::Commit { .. })) {
        let before = events.len();
        source.read(&mut events, Duration::ZERO).expect("read");
        assert!((1..=11).contains(&(events.len() - before)));
        reads += 1;
    }
    assert_eq!(events.len(), 97);
    assert!(reads >= 9);
}

#[test]
fn a_waiting_source_wakes_when_a_user_commits() {
    let database = database(MemoryOptions::new("m"));
    let start = database.register_capture("E1", &Everything).expect("registered");
    let mut source = source(&database, &start);
    let reader = std::thread::spawn(move || {
        let mut events = Vec::new();
        // Far longer than the test may take: only the commit can end the wait.
        source.read(&mut events, Duration::from_secs(3600)).expect("read");
        events.len()
    });
    insert(&database, 1).expect("inserted");
    assert_eq!(reader.join().expect("joined"), 3);
}

#[test]
fn a_second_transaction_waits_or_is_told_to_come_again() {
    let database = database(MemoryOptions { lock_wait: Duration::ZERO, ..MemoryOptions::new("m") });
    let mut open = session(&database);
    open.begin().expect("begun");
    assert_eq!(class(insert(&database, 1)), ErrorClass::Transient);
    open.rollback().expect("rolled back");
    insert(&database, 1).expect("inserted");
}

#[test]
fn a_change_keeps_the_shape_it_was_made_under() {
    let database = database(MemoryOptions::new("m"));
    let start = database.register_capture("E1", &Everything).expect("registered");
    insert(&database, 1).expect("inserted");
    database.add_column(&item(), Column::new("later", LogicalType::Text, "text")).expect("added");
    let wide = Row::from_values([Value::Bytes(b"2"), Value::Null, Value::Bytes(b"x")]);
    database.write(|transaction| transaction.insert(&item(), wide.clone())).expect("written");
    let events = read(&mut *source(&database, &start));
    let widths: Vec<_> = events
        .iter()
        .filter_map(|event| if let LogEvent::Change(change) = event { Some(change.table.columns.len()) } else { None })
        .collect();
    assert_eq!(widths, [2, 3]);
    let old = Row::from_values([Value::Bytes(b"1"), Value::Bytes(b"name"), Value::Null]);
    assert_eq!(database.rows(&item()), [old, wide]);
}

#[test]
fn names_are_found_in_any_case_where_the_rule_says_so() {
    let other = TableName::new("MAIN", "Item");
    let found = |case_rule| {
        let database = database(MemoryOptions { case_rule, ..MemoryOptions::new("m") });
        session(&database).table(&other).expect("asked").map(|table| table.name)
    };
    assert_eq!(found(CaseRule::Insensitive), Some(item()));
    assert_eq!(found(CaseRule::Sensitive), None);
}

#[test]
fn a_user_who_panics_leaves_the_database_usable() {
    let database = database(MemoryOptions::new("m"));
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _ = database.write(|transaction| {
            transaction.insert(&item(), row(1))?;
            panic!("a test fails here");
        });
    }));
    assert!(panicked.is_err());
    assert_eq!(database.rows(&item()), []);
    insert(&database, 1).expect("inserted");
}
