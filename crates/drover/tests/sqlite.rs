//! What SQLite does differently from other databases.

use crate::stage::{Running, SET_UP, Stage, eventually, number, query};

#[test]
fn a_key_that_changes_twice_and_then_goes_away_is_followed() {
    let stage =
        Stage::new("CREATE TABLE t (id INTEGER PRIMARY KEY, a); CREATE TABLE w (k TEXT PRIMARY KEY, a) WITHOUT ROWID;");
    let source = stage.source();
    source
        .execute_batch(
            "
            INSERT INTO t VALUES (1, 'moves'), (2, 'stays'); INSERT INTO w VALUES ('a', 1), ('b', 2);
            UPDATE t SET id = 10 WHERE id = 1; UPDATE t SET id = 20, a = 'moved' WHERE id = 10;
            UPDATE w SET k = 'c' WHERE k = 'a'; UPDATE w SET k = 'd' WHERE k = 'c';
            ",
        )
        .expect("changes");
    stage.replicate(&["t", "w"]);
    source
        .execute_batch(
            "
            DELETE FROM t WHERE id = 20; DELETE FROM w WHERE k = 'd';
            BEGIN; UPDATE t SET id = 3 WHERE id = 2; INSERT INTO t VALUES (2, 'new'); UPDATE t SET id = 4 WHERE id = 3; COMMIT;
            BEGIN; INSERT INTO w VALUES ('x', 1), ('y', 2); UPDATE w SET k = 'z' WHERE k = 'x';
            UPDATE w SET k = 'x' WHERE k = 'y'; UPDATE w SET k = 'y' WHERE k = 'z'; COMMIT;
            ",
        )
        .expect("changes");
    stage.replicate(&["t", "w"]);
    assert_eq!(number(&stage.target(), "SELECT count(*) FROM t"), 2);
    assert_eq!(number(&stage.target(), "SELECT a FROM w WHERE k = 'y'"), 1);
}

#[test]
fn rows_that_insert_or_replace_evicts_go_away_at_the_target() {
    let stage = Stage::new(
        "
        CREATE TABLE t (id INTEGER PRIMARY KEY, email TEXT UNIQUE, phone TEXT UNIQUE, a);
        CREATE TABLE w (k TEXT PRIMARY KEY, email TEXT UNIQUE, a) WITHOUT ROWID;
        ",
    );
    let source = stage.source();
    source
        .execute_batch(
            "
            INSERT INTO t VALUES (1, 'one', '1', 'by key'), (2, 'two', '2', 'by email'), (3, 'three', '3', 'by phone');
            INSERT INTO w VALUES ('1', 'one', 'by key'), ('2', 'two', 'by email');
            -- Evicts three rows at once: one by its key and two through other unique indexes.
            REPLACE INTO t VALUES (1, 'two', '3', 'the only one');
            REPLACE INTO w VALUES ('1', 'two', 'the only one');
            INSERT INTO t VALUES (5, 'five', '5', 'five'), (6, 'six', '6', 'six');
            UPDATE OR REPLACE t SET email = 'six' WHERE id = 5;
            INSERT INTO t VALUES (5, 'x', 'x', 'x') ON CONFLICT (id) DO UPDATE SET a = 'upserted';
            INSERT OR IGNORE INTO t VALUES (5, 'y', 'y', 'ignored');
            ",
        )
        .expect("changes");
    assert_eq!(number(&source, "SELECT count(*) FROM t"), 2);
    stage.replicate(&["t", "w"]);
    stage.assert_equal(&["t", "w"]);
}

#[test]
fn foreign_key_actions_arrive_as_the_changes_that_they_made() {
    let stage = Stage::new(
        "
        CREATE TABLE parent (id INTEGER PRIMARY KEY, a);
        CREATE TABLE child (id INTEGER PRIMARY KEY, parent REFERENCES parent ON UPDATE CASCADE ON DELETE CASCADE);
        CREATE TABLE guest (id INTEGER PRIMARY KEY, parent REFERENCES parent ON UPDATE CASCADE ON DELETE SET NULL);
        ",
    );
    stage
        .source()
        .execute_batch(
            "
            INSERT INTO parent VALUES (1, 'stays'), (2, 'goes'), (3, 'moves');
            INSERT INTO child VALUES (1, 1), (2, 2), (3, 2), (4, 3); INSERT INTO guest VALUES (1, 2), (2, 3);
            DELETE FROM parent WHERE id = 2; UPDATE parent SET id = 30 WHERE id = 3;
            ",
        )
        .expect("changes");
    let tables = ["parent", "child", "guest"];
    stage.replicate(&tables);
    assert_eq!(
        query(&stage.target(), "SELECT group_concat(parent, ' ') FROM (SELECT parent FROM child ORDER BY id)"),
        [["text \"1 30\"".to_owned()]]
    );
}

#[test]
fn a_table_that_is_altered_rebuilt_or_made_anew_is_captured_on() {
    let stage = Stage::new("CREATE TABLE t (id INTEGER PRIMARY KEY, a TEXT)");
    let (source, target) = (stage.source(), stage.target());
    source.execute_batch("INSERT INTO t VALUES (1, 'before')").expect("an insert");
    let (extract, replicat) = (stage.extract(), stage.replicat());
    stage.wait_until_equal(&["t"], &extract, &replicat);

    let altered = "ALTER TABLE t ADD COLUMN b TEXT DEFAULT 'new'";
    target.execute_batch(altered).expect("the target is altered");
    source.execute_batch(altered).expect("the source is altered");
    source
        .execute_batch("INSERT INTO t VALUES (2, 'altered', 'b'); UPDATE t SET b = 'c' WHERE id = 1")
        .expect("changes");
    stage.wait_until_equal(&["t"], &extract, &replicat);

    // The rebuild that SQLite's documentation recommends for changes that ALTER TABLE does not know.
    let rebuild = "
        BEGIN; CREATE TABLE t_new (id INTEGER PRIMARY KEY, b TEXT, a TEXT); INSERT INTO t_new SELECT id, b, a FROM t;
        DROP TABLE t; ALTER TABLE t_new RENAME TO t; COMMIT;";
    target.execute_batch(rebuild).expect("the target is rebuilt");
    source.execute_batch(rebuild).expect("the source is rebuilt");
    captured(&stage, "t", &extract);
    source.execute_batch("INSERT INTO t VALUES (3, 'b', 'rebuilt'); DELETE FROM t WHERE id = 1").expect("changes");
    stage.wait_until_equal(&["t"], &extract, &replicat);
    extract.stop();
    replicat.stop();
}

#[test]
fn a_table_that_is_renamed_dropped_or_made_again_is_captured_on_under_its_name() {
    let stage = Stage::new("CREATE TABLE t (id INTEGER PRIMARY KEY, a); CREATE TABLE gone (id INTEGER PRIMARY KEY, a)");
    let (source, target) = (stage.source(), stage.target());
    let (extract, replicat) = (stage.extract(), stage.replicat());
    source.execute_batch("INSERT INTO t VALUES (1, 'x'), (2, 'y'); INSERT INTO gone VALUES (1, 'x')").expect("inserts");
    stage.wait_until_equal(&["t", "gone"], &extract, &replicat);

    // At the target the table has its new name already, with the rows that were there before.
    target.execute_batch("CREATE TABLE u (id INTEGER PRIMARY KEY, a); INSERT INTO u SELECT * FROM t").expect("a table");
    source.execute_batch("ALTER TABLE t RENAME TO u").expect("a rename");
    captured(&stage, "u", &extract);
    source.execute_batch("UPDATE u SET a = 'renamed' WHERE id = 1; INSERT INTO u VALUES (3, 'z')").expect("changes");
    stage.wait_until_equal(&["u"], &extract, &replicat);

    source.execute_batch("INSERT INTO gone VALUES (2, 'the last one'); DROP TABLE gone").expect("a drop");
    eventually("the last row of the dropped table arrives", || {
        extract.assert_running();
        replicat.assert_running();
        (number(&target, "SELECT count(*) FROM gone") == 2).then_some(())
    });
    let anew = "CREATE TABLE gone (b TEXT PRIMARY KEY, c REAL, d) WITHOUT ROWID";
    target.execute_batch(&format!("DROP TABLE gone; {anew}")).expect("the target's table is made anew");
    source.execute_batch(anew).expect("a table");
    captured(&stage, "gone", &extract);
    source.execute_batch("INSERT INTO gone VALUES ('k', 1.5, x'00'); UPDATE gone SET b = 'l'").expect("changes");
    stage.wait_until_equal(&["u", "gone"], &extract, &replicat);
    extract.stop();
    replicat.stop();
}

/// Waits until capture has seen a table that is new or has changed.
fn captured(stage: &Stage, table: &str, extract: &Running) {
    let triggers = format!("SELECT count(*) FROM sqlite_schema WHERE type = 'trigger' AND lower(tbl_name) = '{table}'");
    eventually("the table is captured", || {
        extract.assert_running();
        (number(&stage.source(), &triggers) > 0).then_some(())
    });
}

#[test]
fn a_lock_that_an_application_holds_for_long_is_waited_for() {
    let stage = Stage::new("CREATE TABLE t (id INTEGER PRIMARY KEY, a)");
    let (extract, replicat) = (stage.extract(), stage.replicat());
    let source = stage.source();
    source.execute_batch("INSERT INTO t VALUES (1, 'before')").expect("an insert");
    stage.wait_until_equal(&["t"], &extract, &replicat);
    // Six seconds are longer than the lock wait that most programs have.
    for database in [stage.source(), stage.target()] {
        database.execute_batch("BEGIN IMMEDIATE; INSERT INTO t VALUES (100, 'never committed')").expect("a lock");
        let start = std::time::Instant::now();
        while start.elapsed() < std::time::Duration::from_secs(6) {
            extract.assert_running();
            replicat.assert_running();
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
        database.execute_batch("ROLLBACK").expect("a rollback");
        source.execute_batch("INSERT INTO t (a) VALUES ('after')").expect("an insert");
        stage.wait_until_equal(&["t"], &extract, &replicat);
    }
    extract.stop();
    replicat.stop();
}

#[test]
fn a_database_with_a_rollback_journal_is_captured_or_refused_by_name() {
    let stage = Stage::bare("CREATE TABLE t (id INTEGER PRIMARY KEY, a)");
    stage.source().pragma_update(None, "journal_mode", "delete").expect("a rollback journal");
    let added = stage.try_console(crate::stage::SET_UP);
    if added.status.success() {
        let (extract, replicat) = (stage.extract(), stage.replicat());
        stage.source().execute_batch("INSERT INTO t VALUES (1, 'x')").expect("an insert");
        stage.wait_until_equal(&["t"], &extract, &replicat);
    } else {
        let message = String::from_utf8_lossy(&added.stderr);
        assert!(message.contains("source.db") && message.contains("WAL"), "{message}");
    }
}

#[test]
fn the_trails_header_says_how_the_database_keeps_texts_and_names() {
    let stage = Stage::bare("");
    std::fs::remove_file(stage.path().join("source.db")).expect("the file goes");
    let source = rusqlite::Connection::open(stage.path().join("source.db")).expect("a new database");
    source.execute_batch("PRAGMA encoding = 'UTF-16le'; CREATE TABLE t (a INTEGER PRIMARY KEY)").expect("a table");
    stage.target().execute_batch("CREATE TABLE t (a INTEGER PRIMARY KEY)").expect("a table");
    stage.console(SET_UP);
    source.execute("INSERT INTO t VALUES (1)", []).expect("a row");
    stage.replicate(&["t"]);
    let file = std::fs::read(stage.home().join("dirdat/aa000000000")).expect("a trail file");
    let holds = |bytes: &[u8]| file.windows(bytes.len()).any(|window| window == bytes);
    // UTF-16LE is set 3, of the database and of its national texts; case does not count.
    assert!(holds(&[0x33, 0, 4, 0, 3, 0, 0, 0, 0x34, 0]) && holds(&[0x3B, 0, 4, 0, 3, 0, 0, 0, 0x3C, 0]));
    assert!(holds(&[&[0x3C, 0, 16, 0][..], &[0; 16]].concat()), "the case rules");
}
