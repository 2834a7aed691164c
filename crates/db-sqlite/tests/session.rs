//! Applying rows: policies for triggers and foreign keys, loop prevention, classes of values.

use crate::stage::{Choice, File, GROUP, Stage, Stream, checkpoint_row, plan, rows, session_request};
use change::{Operation, Row, TableName, Value};
use database::{ApplyError, ErrorClass, ForeignKeyPolicy, Outcome, Session, TriggerPolicy, Write};
use std::sync::Arc;

const AUDITED: &str = "
CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT, price);
CREATE TABLE audit (n INTEGER PRIMARY KEY, what);
CREATE TRIGGER item_audit AFTER INSERT ON item BEGIN INSERT INTO audit (what) VALUES (NEW.name); END;";

fn insert(values: &[&[u8]]) -> Operation {
    Operation::Insert { new: row(values) }
}

fn row(values: &[&[u8]]) -> Row {
    Row::from_values(values.iter().map(|bytes| if bytes.is_empty() { Value::Null } else { Value::Bytes(bytes) }))
}

fn apply(session: &mut dyn Session, table: &str, operations: &[Operation]) -> Result<(), ApplyError> {
    let definition = session.table(&TableName::new("main", table)).expect("the catalog").expect("the table");
    let plan = plan(session, &Arc::new(definition));
    let writes: Vec<Write<'_>> = operations.iter().map(|operation| Write { plan: &plan, operation }).collect();
    session.apply(&writes)
}

#[test]
fn triggers_of_the_target_run_only_where_they_are_asked_to() {
    for (policy, audited) in [(TriggerPolicy::Suppress, 0), (TriggerPolicy::Fire, 1)] {
        let file = File::create(AUDITED);
        let mut session =
            file.database().open_session(session_request(policy, ForeignKeyPolicy::Ignore)).expect("a session");
        session.begin().expect("a transaction");
        apply(&mut *session, "item", &[insert(&[b"i1", b"ta", b""])]).expect("a row");
        session.commit().expect("a commit");
        assert_eq!(rows(&file.user(), "audit").len(), audited, "{policy:?}");
    }
}

#[test]
fn what_a_session_writes_is_not_captured_and_what_users_write_beside_it_is() {
    for policy in [TriggerPolicy::Suppress, TriggerPolicy::Fire] {
        let stage = Stage::new(AUDITED);
        let mut stream = stage.stream();
        let mut session =
            stage.database.open_session(session_request(policy, ForeignKeyPolicy::Ignore)).expect("a session");
        stage.write("INSERT INTO item VALUES (1, 'before', 0)");
        session.begin().expect("a transaction");
        apply(&mut *session, "item", &[insert(&[b"i2", b"tours", b""]), insert(&[b"i3", b"tours", b""])])
            .expect("rows");
        session.commit().expect("a commit");
        stage.write("INSERT INTO item VALUES (4, 'after', 0)");
        let told: Vec<String> = stream.told().into_iter().filter(|text| text.contains(" item ")).collect();
        assert_eq!(told, ["insert item [i1 tbefore i0]", "insert item [i4 tafter i0]"], "{policy:?}");
    }
}

#[test]
fn a_row_that_a_session_removes_is_not_taken_for_a_replaced_one() {
    let stage = Stage::new("CREATE TABLE item (id INTEGER PRIMARY KEY, name UNIQUE, price)");
    let mut stream = stage.stream();
    stage.write("INSERT INTO item VALUES (1, 'a', 0); INSERT OR IGNORE INTO item VALUES (2, 'a', 0)");
    let mut session = stage
        .database
        .open_session(session_request(TriggerPolicy::Suppress, ForeignKeyPolicy::Ignore))
        .expect("a session");
    session.begin().expect("a transaction");
    apply(&mut *session, "item", &[Operation::Delete { old: row(&[b"i1", b"ta", b"i0"]) }]).expect("a deletion");
    session.commit().expect("a commit");
    stage.write("INSERT INTO item VALUES (3, 'c', 0)");
    assert_eq!(stream.told(), ["insert item [i1 ta i0]", "insert item [i3 tc i0]"]);
}

#[test]
fn a_session_that_dies_leaves_no_mark_behind() {
    let stage = Stage::new(AUDITED);
    let mut stream = stage.stream();
    let mut session =
        stage.database.open_session(session_request(TriggerPolicy::Fire, ForeignKeyPolicy::Ignore)).expect("a session");
    session.begin().expect("a transaction");
    apply(&mut *session, "item", &[insert(&[b"i2", b"tours", b""])]).expect("a row");
    drop(session);
    stage.write("INSERT INTO item VALUES (4, 'after', 0)");
    assert_eq!(stream.told()[0], "insert item [i4 tafter i0]");
}

#[test]
fn foreign_keys_and_their_actions_follow_the_policy() {
    let schema = "CREATE TABLE parent (id INTEGER PRIMARY KEY);
                  CREATE TABLE child (id INTEGER PRIMARY KEY, p REFERENCES parent (id) ON DELETE CASCADE);
                  INSERT INTO parent VALUES (1); INSERT INTO child VALUES (1, 1)";
    let file = File::create(schema);
    let open =
        |policy| file.database().open_session(session_request(TriggerPolicy::Suppress, policy)).expect("a session");
    let mut session = open(ForeignKeyPolicy::Ignore);
    session.begin().expect("a transaction");
    apply(&mut *session, "parent", &[Operation::Delete { old: row(&[b"i1"]) }]).expect("a deletion");
    apply(&mut *session, "child", &[insert(&[b"i2", b"i77"])]).expect("an orphan");
    session.commit().expect("a commit");
    assert_eq!(rows(&file.user(), "child").len(), 2, "no cascade");

    let mut session = open(ForeignKeyPolicy::Check);
    session.begin().expect("a transaction");
    apply(&mut *session, "child", &[insert(&[b"i3", b"i5"])]).expect("a child before its parent");
    apply(&mut *session, "parent", &[insert(&[b"i5"])]).expect("the parent");
    session.commit().expect("the parent came in time");
    session.begin().expect("a transaction");
    apply(&mut *session, "child", &[insert(&[b"i4", b"i6"]), insert(&[b"i9", b"i5"])]).expect("not checked yet");
    let Err(ApplyError::Rejected(refused)) = session.commit() else { panic!("an orphan was committed") };
    assert_eq!((refused.outcome, refused.index), (Outcome::ForeignKey, 2));
    session.rollback().expect("a rollback");
}

#[test]
fn rows_alike_are_touched_one_at_a_time() {
    let file = File::create(
        "CREATE TABLE t (k, a, b TEXT COLLATE NOCASE); INSERT INTO t VALUES (NULL, 1, 'x'), (NULL, 1.0, 'x'), (NULL, 1, 'X'), (NULL, 1, 'x')",
    );
    let mut session = file
        .database()
        .open_session(session_request(TriggerPolicy::Suppress, ForeignKeyPolicy::Ignore))
        .expect("a session");
    session.begin().expect("a transaction");
    apply(
        &mut *session,
        "t",
        &[
            Operation::Delete { old: row(&[b"", b"i1", b"tx"]) },
            Operation::Update { old: Some(row(&[b"", b"i1", b"tx"])), new: row(&[b"", b"i2", b"tx"]) },
        ],
    )
    .expect("two of them");
    session.commit().expect("a commit");
    let left = rows(&file.user(), "t");
    assert_eq!(left.len(), 3);
    assert!(
        left.iter().any(|row| row.contains("Integer(2)")) && left.iter().any(|row| row.contains("Real(1.0)")),
        "{left:?}"
    );
}

#[test]
fn keys_are_found_by_index() {
    let file = File::create(
        "CREATE TABLE a (id INTEGER PRIMARY KEY, v); CREATE TABLE b (k TEXT, j, v, PRIMARY KEY (k, j)); CREATE TABLE c (k TEXT PRIMARY KEY, v) WITHOUT ROWID",
    );
    let user = file.user();
    for (sql, wanted) in [
        ("UPDATE a SET v = 1 WHERE id IS ?", "SEARCH a USING INTEGER PRIMARY KEY"),
        ("DELETE FROM b WHERE k IS ? AND j IS ?", "SEARCH b USING INDEX"),
        ("UPDATE c SET v = 1 WHERE k IS ?", "SEARCH c USING PRIMARY KEY"),
        (
            "UPDATE b SET v = 1 WHERE (rowid) = (SELECT rowid FROM b WHERE k IS ? AND v IS ? LIMIT 1)",
            "SEARCH b USING INTEGER PRIMARY KEY",
        ),
        ("DELETE FROM c WHERE (k) = (SELECT k FROM c WHERE v IS ? LIMIT 1)", "SEARCH c USING PRIMARY KEY"),
    ] {
        let mut statement = user.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).expect("a plan");
        let places = vec![rusqlite::types::Value::Null; statement.parameter_count()];
        let steps: Vec<String> = statement
            .query_map(rusqlite::params_from_iter(places), |row| row.get(3))
            .expect("steps")
            .map(|step| step.expect("a step"))
            .collect();
        assert!(steps[0].starts_with(wanted), "{sql}: {steps:?}");
    }
}

#[test]
fn constraints_are_told_by_name_and_without_values() {
    let file = File::create(
        "CREATE TABLE t (id INTEGER PRIMARY KEY, u UNIQUE, n NOT NULL, c CONSTRAINT positive CHECK (c > 0)); INSERT INTO t VALUES (1, 'secret', 1, 1);
         CREATE TABLE s (id INTEGER PRIMARY KEY, n INTEGER) STRICT;
         CREATE TABLE g (id INTEGER PRIMARY KEY); CREATE TRIGGER g_no BEFORE INSERT ON g BEGIN SELECT RAISE(ABORT, 'secret'); END",
    );
    let mut session = file
        .database()
        .open_session(session_request(TriggerPolicy::Fire, ForeignKeyPolicy::Ignore))
        .expect("a session");
    let mut refused = |table: &str, operation: Operation, outcome: Outcome, named: &str| {
        session.begin().expect("a transaction");
        let Err(ApplyError::Rejected(rejection)) = apply(&mut *session, table, &[operation]) else {
            panic!("{named} was not refused")
        };
        assert_eq!(rejection.outcome, outcome, "{}", rejection.detail);
        assert!(rejection.detail.contains(named) && !rejection.detail.contains("secret"), "{}", rejection.detail);
        session.rollback().expect("a rollback");
    };
    refused("t", insert(&[b"i1", b"tx", b"i1", b"i1"]), Outcome::Duplicate, "t.id");
    refused("t", insert(&[b"i2", b"tsecret", b"i1", b"i1"]), Outcome::Duplicate, "t.u");
    refused("t", insert(&[b"i2", b"tx", b"", b"i1"]), Outcome::Constraint, "t.n");
    refused("t", insert(&[b"i2", b"tx", b"i1", b"i-1"]), Outcome::Constraint, "positive");
    refused("t", insert(&[b"tsecret", b"tx", b"i1", b"i1"]), Outcome::Value, "mismatch");
    refused("s", insert(&[b"1", b"secret"]), Outcome::Value, "s.n");
    refused("g", insert(&[b"i1"]), Outcome::Constraint, "trigger");
    refused("t", Operation::Delete { old: row(&[b"i9", b"tx", b"i1", b"i1"]) }, Outcome::Missing, "main.t");
}

#[test]
fn a_session_waits_for_a_writer_in_slices_and_then_goes_on() {
    let file = File::create("CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT, price)");
    let mut session = file
        .database()
        .open_session(session_request(TriggerPolicy::Suppress, ForeignKeyPolicy::Ignore))
        .expect("a session");
    let user = file.user();
    user.execute_batch("BEGIN IMMEDIATE; INSERT INTO item VALUES (1, 'held', 0)").expect("the lock");
    assert_eq!(session.begin().expect_err("locked").class(), ErrorClass::Transient);
    user.execute_batch("COMMIT").expect("the lock is given up");
    session.begin().expect("a transaction");
    session.rollback().expect("a rollback");
}

#[test]
fn generated_columns_are_left_to_the_target() {
    let schema = "CREATE TABLE made (id INTEGER PRIMARY KEY, v, twice AS (v * 2), thrice AS (v * 3) STORED)";
    let stage = Stage::new(schema);
    let mut follower = crate::stage::Follower::new(schema);
    let mut stream = stage.stream();
    stage.write("INSERT INTO made (id, v) VALUES (1, 5); UPDATE made SET v = 6");
    let changes = stream.drain();
    assert_eq!(crate::stage::describe(&changes[0]), "insert made [i1 i5 i10 i15]");
    follower.apply(&changes);
    assert_eq!(rows(&follower.file.user(), "made"), rows(&stage.user, "made"));
}

#[test]
fn checkpoint_tables_are_never_captured() {
    let stage = Stage::new("CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT, price)");
    let mut stream = stage.stream();
    let table = TableName::new("main", "checkpoint");
    stage.database.create_checkpoint_table(&table).expect("a checkpoint table");
    stage.database.insert_checkpoint(&table, &checkpoint_row(1)).expect("a row");
    stage.write("INSERT INTO item VALUES (1, 'a', 0)");
    assert_eq!(stream.told(), ["insert item [i1 ta i0]"]);
    assert!(stream.notices.is_empty(), "{:?}", stream.notices);
    assert!(Stream::open(&*stage.database, &stage.start, Choice::all()).told().len() == 1);
    assert_eq!(GROUP, "E1");
}

/// A target with a checkpoint row at 1, and an open session on it that knows the row.
fn target_with_row() -> (File, Box<dyn Session>) {
    let file = File::create("CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT, price)");
    let table = TableName::new("main", "checkpoint");
    file.database().create_checkpoint_table(&table).expect("a checkpoint table");
    file.database().insert_checkpoint(&table, &checkpoint_row(1)).expect("a row");
    let mut session = file
        .database()
        .open_session(session_request(TriggerPolicy::Suppress, ForeignKeyPolicy::Ignore))
        .expect("a session");
    assert_eq!(session.load_checkpoint().expect("reads").map(|row| row.sequence), Some(1));
    (file, session)
}

/// Commits a row of `item` and the position `sequence`.
fn commit(session: &mut dyn Session, id: &[u8], sequence: u32) {
    session.begin().expect("a transaction");
    apply(session, "item", &[insert(&[id, b"ta", b""])]).expect("a row");
    session.save_checkpoint(&checkpoint_row(sequence)).expect("saves");
    session.commit().expect("a commit");
}

#[test]
fn a_target_that_was_put_back_is_noticed_before_anything_is_written() {
    let (file, mut session) = target_with_row();
    commit(&mut *session, b"i1", 2);
    // Rolled back, so the row still stands where the transaction before left it.
    session.begin().expect("a transaction");
    session.save_checkpoint(&checkpoint_row(3)).expect("saves");
    session.rollback().expect("rolls back");
    commit(&mut *session, b"i2", 4);
    file.user().execute_batch("DELETE FROM item; UPDATE checkpoint SET SEQNO = 1").expect("what a restore does");
    let error = session.begin().expect_err("the row went back");
    assert_eq!(error.class(), ErrorClass::ConnectionLost, "{error}");
    assert!(error.to_string().contains("R1") && error.to_string().contains("restored"), "{error}");
    // Who reads the row again may go on from it.
    assert_eq!(session.load_checkpoint().expect("reads").map(|row| row.sequence), Some(1));
    commit(&mut *session, b"i1", 2);
    assert_eq!(rows(&file.user(), "item").len(), 1);
}

#[test]
fn two_sessions_that_share_a_row_do_not_write_the_same_change_twice() {
    let (file, mut first) = target_with_row();
    let mut second = file
        .database()
        .open_session(session_request(TriggerPolicy::Suppress, ForeignKeyPolicy::Ignore))
        .expect("a session");
    second.load_checkpoint().expect("reads");
    commit(&mut *first, b"i1", 2);
    assert_eq!(second.begin().expect_err("the row went on").class(), ErrorClass::ConnectionLost);
    commit(&mut *first, b"i2", 3);
}

#[cfg(unix)]
#[test]
fn a_file_that_takes_the_name_of_the_target_is_noticed() {
    let (file, mut session) = target_with_row();
    commit(&mut *session, b"i1", 2);
    let copy = file.path.with_extension("copy");
    file.user().execute("VACUUM INTO ?1", [copy.to_str().expect("a path")]).expect("a copy");
    std::fs::rename(&copy, &file.path).expect("takes the name");
    let error = session.begin().expect_err("another file");
    assert_eq!(error.class(), ErrorClass::ConnectionLost, "{error}");
    std::fs::remove_file(&file.path).expect("removes");
    assert_eq!(session.begin().expect_err("no file").class(), ErrorClass::Missing);
}
