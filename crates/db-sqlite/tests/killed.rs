//! Processes that are killed while they write: what is left is whole.
//!
//! The processes are this test binary, started again for one of the ignored tests below.

use crate::stage::{Choice, File, Follower, GROUP, Stream, checkpoint_row, plan, rows, session_request};
use change::{Operation, Row, TableName, Value};
use database::{ForeignKeyPolicy, LogEvent, TriggerPolicy, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

const ITEM: &str = "CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT UNIQUE, price)";
const PATH: &str = "DROVER_TEST_DATABASE";

fn start(role: &str, path: &Path) -> Child {
    Command::new(std::env::current_exe().expect("this program"))
        .args(["--ignored", "--exact", role])
        .env(PATH, path)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("a process")
}

fn path() -> std::path::PathBuf {
    std::env::var_os(PATH).expect("started by another test").into()
}

/// Kills the process once `enough` says so.
fn kill_when(mut child: Child, mut enough: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !enough() {
        assert!(Instant::now() < deadline, "the process did nothing");
        assert!(child.try_wait().expect("a process").is_none(), "the process ended by itself");
    }
    child.kill().expect("a process to kill");
    child.wait().expect("a dead process");
}

#[test]
#[ignore = "a process of a_writer_that_is_killed_leaves_whole_transactions"]
fn writer() {
    let user = crate::stage::connect(&path());
    let mut random = fastrand::Rng::new();
    loop {
        user.execute_batch("BEGIN IMMEDIATE").expect("a transaction");
        for _ in 0..20 {
            let (id, name) = (random.u32(0..50), random.u32(0..50));
            let sql = match random.u8(0..4) {
                0 => format!("DELETE FROM item WHERE id = {id}"),
                1 => format!("UPDATE OR REPLACE item SET name = 'n{name}' WHERE id = {id}"),
                _ => format!("REPLACE INTO item VALUES ({id}, 'n{name}', randomblob(100))"),
            };
            user.execute_batch(&sql).expect("a statement");
        }
        user.execute_batch("COMMIT").expect("a commit");
    }
}

#[test]
fn a_writer_that_is_killed_leaves_whole_transactions() {
    let file = File::create(ITEM);
    let database = file.database();
    let start_position = database.register_capture(GROUP, &*Choice::all()).expect("capture");
    let mut stream = Stream::open(&*database, &start_position, Choice::all());
    let mut follower = Follower::new(ITEM);
    for round in 0..5 {
        let writer = start("killed::writer", &file.path);
        let mut seen = 0;
        let mut wanted = 50 + round * 37;
        let mut changes = Vec::new();
        kill_when(writer, || {
            changes.extend(stream.drain());
            seen = changes.len();
            wanted = wanted.max(50);
            seen > wanted
        });
        changes.extend(stream.drain());
        follower.apply(&changes);
        assert_eq!(rows(&follower.file.user(), "item"), rows(&file.user(), "item"), "round {round}");
        let check: String = file.user().query_row("PRAGMA integrity_check", [], |row| row.get(0)).expect("a check");
        assert_eq!(check, "ok");
    }
}

#[test]
#[ignore = "a process of a_session_that_is_killed_leaves_rows_and_checkpoint_together"]
fn session() {
    let database = db_sqlite::open(&format!("sqlite:{}", path().display())).expect("the database");
    let request = session_request(TriggerPolicy::Fire, ForeignKeyPolicy::Ignore);
    let mut session = database.open_session(request).expect("a session");
    let definition = session.table(&TableName::new("main", "item")).expect("the catalog").expect("the table");
    let plan = plan(&mut *session, &Arc::new(definition));
    let first = session.load_checkpoint().expect("the table").expect("the row").sequence + 1;
    for sequence in first.. {
        session.begin().expect("a transaction");
        for part in 0..10 {
            let id = format!("i{}", sequence * 10 + part);
            let values = [Value::Bytes(id.as_bytes()), Value::Null, Value::Null];
            let operation = Operation::Insert { new: Row::from_values(values) };
            session.apply(&[Write { plan: &plan, operation: &operation }]).expect("a row");
        }
        session.save_checkpoint(&checkpoint_row(sequence)).expect("the row is there");
        session.commit().expect("a commit");
    }
}

#[test]
fn a_session_that_is_killed_leaves_rows_and_checkpoint_together() {
    let file = File::create(ITEM);
    let database = file.database();
    let table = TableName::new("main", "checkpoint");
    database.create_checkpoint_table(&table).expect("a checkpoint table");
    database.insert_checkpoint(&table, &checkpoint_row(0)).expect("a row");
    // The target is captured, too: the marks of a session that died must not hide anything.
    let start_position = database.register_capture(GROUP, &*Choice::all()).expect("capture");
    let mut source = database.open_source(crate::stage::request(&start_position, Choice::all())).expect("a source");
    let user = file.user();
    let sequence = || -> i64 { user.query_row("SELECT SEQNO FROM checkpoint", [], |row| row.get(0)).expect("the row") };
    for round in 0..5 {
        let before = sequence();
        kill_when(start("killed::session", &file.path), || sequence() > before + 3);
        let rows: i64 = user.query_row("SELECT count(*) FROM item", [], |row| row.get(0)).expect("a count");
        assert_eq!(rows, sequence() * 10, "round {round}");
    }
    user.execute_batch("INSERT INTO item VALUES (-1, 'by a user', 0)").expect("a row");
    let mut told = 0;
    loop {
        let mut events = Vec::new();
        source.read(&mut events, Duration::ZERO).expect("reading");
        if events.is_empty() {
            break;
        }
        told += events.iter().filter(|event| matches!(event, LogEvent::Change(_))).count();
    }
    assert_eq!(told, 1, "only what the user wrote is told");
}
