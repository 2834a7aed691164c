//! Positions, restarts, release, waiting, and other people's locks.

use crate::stage::{Choice, File, Follower, GROUP, Stage, Stream, describe, request, rows};
use change::{Commit, Csn, LogPosition, Timestamp, TransactionId};
use database::{ErrorClass, LogEvent, SourceRequest};
use rusqlite::Connection;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::{Duration, Instant};

const ITEM: &str = "CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT, price)";

fn insert_many(rows: usize, price: &str) -> String {
    format!(
        "WITH RECURSIVE n(value) AS (VALUES (1) UNION ALL SELECT value + 1 FROM n WHERE value < {rows})
         INSERT INTO item SELECT value, 'x', {price} FROM n"
    )
}

fn changes_kept(user: &Connection) -> i64 {
    user.query_row("SELECT count(*) FROM drover_change", [], |row| row.get(0)).expect("a count")
}

#[test]
fn a_replay_goes_on_right_behind_the_last_transaction_of_the_trail() {
    let stage = Stage::new(ITEM);
    let mut stream = stage.stream();
    stage.write("INSERT INTO item VALUES (1, 'a', 0)");
    stream.drain();
    stage.write("INSERT INTO item VALUES (2, 'b', 0)");
    stream.drain();
    let last = stream.last().clone();
    drop(stream);
    stage.write("INSERT INTO item VALUES (3, 'c', 0)");
    // The checkpoint was never written: the start is the old one, and what came is merged otherwise now.
    let mut stream = stage.stream();
    assert!(stream.source.resume_after(&last).expect("the database holds it"));
    assert_eq!(stream.told(), ["insert item [i3 tc i0]"]);
}

#[test]
fn a_trail_that_is_ahead_of_the_database_is_a_mismatch() {
    let stage = Stage::new(ITEM);
    stage.write("INSERT INTO item VALUES (1, 'a', 0)");
    let mut stream = stage.stream();
    let lost = Commit {
        csn: Csn::new(format!("{:020}", 999)),
        transaction: TransactionId::new("998"),
        time: Timestamp::default(),
    };
    assert_eq!(stream.source.resume_after(&lost).expect_err("not there").class(), ErrorClass::Mismatch);
}

#[test]
fn a_copy_that_went_another_way_is_a_mismatch() {
    let stage = Stage::new(ITEM);
    let mut stream = stage.stream();
    stage.write("INSERT INTO item VALUES (1, 'a', 0)");
    stream.drain();
    let copy = stage.file.directory.path().join("copy.db");
    stage.user.execute("VACUUM INTO ?1", [copy.display().to_string()]).expect("a copy");
    stage.write("INSERT INTO item VALUES (2, 'here', 0)");
    stream.drain();
    let position = stream.next.clone().expect("a position");
    let elsewhere = Connection::open(&copy).expect("the copy");
    let database = db_sqlite::open(&format!("sqlite:{}", copy.display())).expect("the copy");
    let open = || database.open_source(request(&position, Arc::clone(&stage.tables))).map(|_| ());
    assert_eq!(open().expect_err("the copy is too short").class(), ErrorClass::Mismatch);
    elsewhere.execute_batch("INSERT INTO item VALUES (2, 'there', 0)").expect("another history");
    assert_eq!(open().expect_err("the copy has another change there").class(), ErrorClass::Mismatch);
}

#[test]
fn a_database_that_is_replaced_under_an_open_source_is_noticed() {
    let stage = Stage::new(ITEM);
    let mut stream = stage.stream();
    stage.write("INSERT INTO item VALUES (1, 'a', 0)");
    stream.drain();
    let copy = stage.file.directory.path().join("copy.db");
    stage.user.execute("VACUUM INTO ?1", [copy.display().to_string()]).expect("a copy");
    std::fs::rename(&copy, &stage.file.path).expect("the copy takes the database's place");
    assert_eq!(stream.try_drain().expect_err("replaced").class(), ErrorClass::ConnectionLost);
}

#[test]
fn a_change_that_somebody_removed_is_noticed() {
    let stage = Stage::new(ITEM);
    let mut stream = stage.stream();
    stage.write("INSERT INTO item VALUES (1, 'a', 0), (2, 'b', 0), (3, 'c', 0)");
    stage.write("DELETE FROM drover_change WHERE seq = 3");
    assert_eq!(stream.try_drain().expect_err("a gap").class(), ErrorClass::Mismatch);
}

#[test]
fn what_is_released_by_all_groups_is_purged_and_the_rest_is_kept() {
    let stage = Stage::new(ITEM);
    let second_start = stage.database.register_capture("E2", &*stage.tables).expect("a second group");
    let mut stream = stage.stream();
    let second = SourceRequest { group: "E2".to_owned(), ..request(&second_start, Arc::clone(&stage.tables)) };
    let mut second = Stream::over(stage.database.open_source(second).expect("a source"));
    stage.write(&insert_many(30000, "NULL"));
    assert_eq!((stream.drain().len(), second.drain().len()), (30_000, 30_000));
    let next = stream.next.clone().expect("a position");
    stream.source.release(&next).expect("a release");
    assert!(changes_kept(&stage.user) >= 30_000, "the second group has not released anything");
    let deadline = Instant::now() + Duration::from_secs(20);
    let next = second.next.clone().expect("a position");
    second.source.release(&next).expect("a release");
    while changes_kept(&stage.user) > 1 {
        assert!(Instant::now() < deadline, "{} are kept", changes_kept(&stage.user));
        second.source.read(&mut Vec::new(), Duration::from_millis(50)).expect("housekeeping");
        stream.source.read(&mut Vec::new(), Duration::from_millis(50)).expect("housekeeping");
    }
    // The row at the released position stays, so a restart there is possible, and numbers go on.
    let mut again =
        Stream::open(&*stage.database, &stream.next.clone().expect("a position"), Arc::clone(&stage.tables));
    stage.write("DELETE FROM item WHERE id = 1");
    assert_eq!(again.told(), ["delete item [i1 tx NULL]"]);
}

#[test]
fn a_release_waits_for_no_writer() {
    let stage = Stage::new(ITEM);
    let mut stream = stage.stream();
    stage.write(&insert_many(25000, "NULL"));
    stream.drain();
    let next = stream.next.clone().expect("a position");
    stage.write("BEGIN IMMEDIATE");
    stream.source.release(&next).expect("no error");
    stage.write("COMMIT");
    assert!(changes_kept(&stage.user) > 25_000, "nothing could be removed");
    stream.source.release(&next).expect("no error");
}

#[test]
fn a_commit_wakes_a_reader() {
    let stage = Stage::new(ITEM);
    let mut stream = stage.stream();
    stream.drain();
    let (ready, wait) = mpsc::channel();
    let reader = std::thread::spawn(move || {
        ready.send(()).expect("a listener");
        let mut events = Vec::new();
        stream.source.read(&mut events, Duration::from_secs(60)).expect("reading");
        events
    });
    wait.recv().expect("a reader");
    stage.write("INSERT INTO item VALUES (1, 'a', 0)");
    let events = reader.join().expect("a reader");
    assert!(events.iter().any(|event| matches!(event, LogEvent::Change(_))), "{events:?}");
}

/// Q07, with conditions in place of 30 seconds.
#[test]
fn a_writer_that_holds_its_lock_is_waited_for_and_nothing_is_lost() {
    for (journal, lock) in [("WAL", "IMMEDIATE"), ("DELETE", "IMMEDIATE"), ("DELETE", "EXCLUSIVE")] {
        let file = File::create(ITEM);
        let user = file.user();
        user.query_row(&format!("PRAGMA journal_mode = {journal}"), [], |_| Ok(())).expect("a journal mode");
        let database = file.database();
        let start = database.register_capture(GROUP, &*Choice::all()).expect("capture");
        let mut stream = Stream::open(&*database, &start, Choice::all());
        user.execute_batch("INSERT INTO item VALUES (1, 'before', 0)").expect("a row");
        user.execute_batch(&format!("BEGIN {lock}; INSERT INTO item VALUES (2, 'held', 0)")).expect("the lock");
        let mut told: Vec<String> = Vec::new();
        for _ in 0..3 {
            let mut events = Vec::new();
            stream.source.read(&mut events, Duration::from_millis(10)).expect("a lock is no error");
            told.extend(events.iter().filter_map(|event| match event {
                LogEvent::Change(change) => Some(describe(change)),
                _ => None,
            }));
        }
        user.execute_batch("COMMIT; INSERT INTO item VALUES (3, 'after', 0)").expect("the lock is given up");
        let mut stream = Stream::over(stream.source);
        told.extend(stream.told());
        let wanted = ["insert item [i1 tbefore i0]", "insert item [i2 theld i0]", "insert item [i3 tafter i0]"];
        assert_eq!(told, wanted, "{journal} {lock}");
    }
}

#[test]
fn a_long_transaction_comes_in_batches_and_a_heal_too() {
    let stage = Stage::new(ITEM);
    let mut stream = stage.stream();
    stage.write(&insert_many(5000, "zeroblob(1000)"));
    let mut events = Vec::new();
    stream.source.read(&mut events, Duration::ZERO).expect("reading");
    assert!(events.len() < 2_000, "{} events at once", events.len());
    let mut follower = Follower::new(ITEM);
    let mut stream = stage.stream();
    follower.apply(&stream.drain());
    stage.write("DROP TRIGGER drover_1_insert; INSERT INTO item VALUES (-9223372036854775808, 'least', 1), (9223372036854775807, 'most', 1)");
    let mut events = Vec::new();
    stream.source.read(&mut events, Duration::ZERO).expect("reading");
    assert!(events.len() < 2_000, "{} events at once", events.len());
    let mut stream = stage.stream();
    stage.write("DELETE FROM item WHERE id = 77");
    follower.apply(&stream.drain());
    assert_eq!(rows(&follower.file.user(), "item"), rows(&stage.user, "item"));
}

/// The log must be synced before anything is told. A journal that can't be synced stands in for a disk that fails.
#[cfg(target_os = "linux")]
#[test]
fn what_could_not_be_synced_is_not_told() {
    let stage = Stage::new(ITEM);
    let mut stream = stage.stream();
    stage.write("INSERT INTO item VALUES (1, 'a', 0)");
    stream.drain();
    let journal = stage.file.directory.path().join("data.db-journal");
    std::os::unix::fs::symlink("/proc/self/cmdline", &journal).expect("a link");
    stage.write("INSERT INTO item VALUES (2, 'b', 0)");
    for _ in 0..2 {
        let mut events: Vec<LogEvent> = Vec::new();
        assert!(stream.source.read(&mut events, Duration::ZERO).is_err());
        assert!(events.is_empty(), "{events:?}");
    }
    std::fs::remove_file(&journal).expect("the link");
    assert_eq!(stream.told(), ["insert item [i2 tb i0]"]);
}

#[test]
fn a_file_that_is_missing_or_no_database_is_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let missing = directory.path().join("missing.db");
    let error = db_sqlite::open(&format!("sqlite:{}", missing.display())).err().expect("refused");
    assert_eq!(error.class(), ErrorClass::Missing);
    assert!(error.next_step().is_some() && !missing.exists());
    let text = directory.path().join("text.db");
    std::fs::write(&text, "this is no database, only text that is long enough to be looked at as a header of one")
        .expect("a file");
    let database = db_sqlite::open(&format!("sqlite:{}", text.display())).expect("a file");
    assert_eq!(database.tables().expect_err("no database").class(), ErrorClass::Corrupt);
    assert!(db_sqlite::open("postgres://host/x").is_err());
}

#[test]
fn nothing_is_left_behind_when_the_last_group_goes() {
    let stage = Stage::new(ITEM);
    stage.database.register_capture("E2", &*stage.tables).expect("a second group");
    stage.database.unregister_capture(GROUP).expect("removal");
    let objects = |user: &Connection| -> i64 {
        user.query_row(
            "SELECT count(*) FROM sqlite_schema WHERE name LIKE 'drover%' OR sql LIKE '%drover%'",
            [],
            |row| row.get(0),
        )
        .expect("a count")
    };
    assert!(objects(&stage.user) > 0, "the second group still captures");
    stage.database.unregister_capture("E2").expect("removal");
    assert_eq!(objects(&stage.user), 0);
    stage.write("INSERT INTO item VALUES (1, 'a', 0)");
}

#[test]
fn an_old_position_after_a_release_is_refused() {
    let stage = Stage::new(ITEM);
    let mut stream = stage.stream();
    stage.write(&insert_many(25000, "NULL"));
    stream.drain();
    let next: LogPosition = stream.next.clone().expect("a position");
    stream.source.release(&next).expect("a release");
    let refused = stage.database.open_source(request(&stage.start, Arc::clone(&stage.tables)));
    assert_eq!(refused.err().expect("refused").class(), ErrorClass::Mismatch);
}
