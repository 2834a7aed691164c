//! Two databases that both write, with versions and tombstones: the later version stays, also against a delete.

use super::stage::{Side, Stage};
use super::two_way::{Site, TABLE, TwoWay, endures};
use crate::stage::{drover, eventually};
use rusqlite::Connection;

const LATEST: &str = "VERSIONCOLS (version), RESOLVECONFLICT (INSERTROWEXISTS, (DEFAULT, LATEST)), \
                      RESOLVECONFLICT (UPDATEROWEXISTS, (DEFAULT, LATEST)), \
                      RESOLVECONFLICT (UPDATEROWMISSING, (DEFAULT, LATEST)), \
                      RESOLVECONFLICT (DELETEROWEXISTS, (DEFAULT, LATEST)), \
                      RESOLVECONFLICT (DELETEROWMISSING, (DEFAULT, LATEST))";

/// The triggers of one site as the guide makes them; `clock` stands for its time.
fn versions(side: &Side<'_>, site: u8, clock: &str) {
    side.run(
        "ALTER TABLE item REPLICA IDENTITY FULL; ALTER TABLE item ALTER a SET STORAGE EXTERNAL, ALTER b SET STORAGE EXTERNAL",
    );
    side.run(&format!(
        "CREATE TRIGGER version BEFORE INSERT OR UPDATE ON item FOR EACH ROW EXECUTE FUNCTION drover.set_version('version', {site}, 'id'); \
         CREATE TRIGGER tombstone AFTER DELETE ON item FOR EACH ROW EXECUTE FUNCTION drover.leave_tombstone('version', 'id')"
    ));
    let body = side.run("SELECT pg_get_functiondef('drover.set_version'::regproc)");
    side.run(&body.replace("clock_timestamp()", clock));
}

fn two_way<'a>(stage: &'a Stage<'_>, clocks: [&str; 2]) -> TwoWay<'a> {
    let two_way = TwoWay::with_rules([Site::Postgres(&stage.source), Site::Postgres(&stage.target)], LATEST);
    versions(&stage.source, 1, clocks[0]);
    versions(&stage.target, 2, clocks[1]);
    two_way
}

#[test]
fn sites_with_versions_and_tombstones_end_equal_whatever_is_killed() {
    let stage = Stage::bare(TABLE);
    let urls = [stage.source.url(), stage.target.url()];
    // The clock of one is an hour ahead.
    endures(two_way(&stage, ["clock_timestamp() + interval '1 hour'", "clock_timestamp()"]), 21);
    let compared = drover().args(["compare", &urls[0], &urls[1], "--tables", "public.item"]).output().expect("it runs");
    assert!(compared.status.success(), "{}", String::from_utf8_lossy(&compared.stdout));
}

#[test]
fn a_postgresql_and_a_sqlite_site_with_tombstones_end_equal_whatever_is_killed() {
    let stage = Stage::bare(TABLE);
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("west.db");
    let sqlite = Connection::open(&path).expect("a database");
    sqlite
        .execute_batch("CREATE TABLE item (id INTEGER PRIMARY KEY, a TEXT, b TEXT, version INTEGER NOT NULL) STRICT")
        .expect("a table");
    // Before its table is captured: a change of the schema would put that in doubt.
    sqlite
        .execute_batch(
            "CREATE TRIGGER tombstone AFTER DELETE ON item BEGIN
               INSERT INTO drover_tombstone VALUES ('main', 'item', CAST(OLD.id AS TEXT), CAST(OLD.version AS TEXT), NULL,
                                                    strftime('%Y-%m-%d %H:%M:%f', 'now'))
               ON CONFLICT (sname, oname, key_values) DO UPDATE SET version = excluded.version, site = NULL;
             END",
        )
        .expect("a trigger");
    drop(sqlite);
    let two_way = TwoWay::with_rules([Site::Postgres(&stage.source), Site::Sqlite(path)], LATEST);
    versions(&stage.source, 1, "clock_timestamp()");
    endures(two_way, 22);
}

/// A change of its schema puts a captured SQLite table in doubt, and all of it is sent again behind a truncation.
#[test]
fn a_sqlite_table_that_is_sent_again_removes_no_row_of_the_other_site() {
    let stage = Stage::bare(TABLE);
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("west.db");
    let sqlite = Connection::open(&path).expect("a database");
    sqlite
        .execute_batch("CREATE TABLE item (id INTEGER PRIMARY KEY, a TEXT, b TEXT, version INTEGER NOT NULL) STRICT")
        .expect("a table");
    let options = format!("{LATEST}, RESOLVECONFLICT (TRUNCATE, (DEFAULT, IGNORE))");
    let mut two_way = TwoWay::with_rules([Site::Postgres(&stage.source), Site::Sqlite(path)], &options);
    versions(&stage.source, 1, "clock_timestamp()");
    stage.source.run("INSERT INTO item VALUES (1, 'a', 'b', 0)");
    two_way.settle();
    // West does not hear of this row, nor of the update, before its table is sent again.
    two_way.kill(2);
    stage.source.run("INSERT INTO item VALUES (3, 'unseen', 'b', 0); UPDATE item SET a = 'newer' WHERE id = 1");
    sqlite.execute_batch("CREATE TRIGGER audit AFTER UPDATE ON item BEGIN SELECT 1; END").expect("a trigger");
    sqlite.execute_batch("INSERT INTO item VALUES (2, 'west', 'b', 2)").expect("a row");
    eventually("the table was sent again", || {
        stage.source.holds("SELECT FROM drover.conflict WHERE conflict_type = 'TRUNCATE'").then_some(())
    });
    two_way.start(2);
    let rows = two_way.settle();
    for row in ["1 newer", "2 west", "3 unseen"] {
        assert!(rows.iter().any(|found| found.starts_with(row)), "{row}: {rows:?}");
    }
    two_way.stop();
}

/// Both orders of hearing of each other, and both sites.
#[test]
fn an_update_wins_over_a_delete_that_did_not_know_it_at_both_sites_whichever_was_first() {
    let stage = Stage::bare(TABLE);
    let mut two_way = two_way(&stage, ["clock_timestamp()", "clock_timestamp()"]);
    let (update, delete) = ("UPDATE item SET b = 'new' WHERE id = 1", "DELETE FROM item WHERE id = 1");
    let again = "DELETE FROM item WHERE id = 1; INSERT INTO item VALUES (1, 'again', 'again', 0)";
    for (number, (at_east, at_west)) in (1..).zip([
        (update, delete),
        (delete, update),
        (update, delete),
        (delete, update),
        (again, update),
        (update, again),
    ]) {
        let of =
            |statement: &str| statement.replace("= 1", &format!("= {number}")).replace("(1,", &format!("({number},"));
        stage.source.run(&format!("INSERT INTO item VALUES ({number}, repeat('a', 20000), 'b', 0)"));
        two_way.settle();
        two_way.cut();
        stage.source.run(&of(at_east));
        stage.target.run(&of(at_west));
        two_way.join_one_after_the_other(if number % 4 <= 2 { 1 } else { 0 });
        let rows = two_way.settle();
        let row = rows.iter().find(|row| row.starts_with(&format!("{number} ")));
        let row = row.unwrap_or_else(|| panic!("row {number} lives: {at_east}, {at_west}"));
        if number <= 4 {
            assert!(row.contains("aaaa new"), "the update stays, with the large value that it did not change");
        }
    }
    two_way.stop();
}

/// A delete of what the other has changed again after it, and a change that came before a delete: deleted rows stay deleted.
#[test]
fn a_change_that_a_delete_knew_brings_no_row_back() {
    let stage = Stage::bare(TABLE);
    let mut two_way = two_way(&stage, ["clock_timestamp()", "clock_timestamp()"]);
    stage.source.run("INSERT INTO item VALUES (1, 'a', 'b', 0), (2, 'a', 'b', 0)");
    two_way.settle();
    two_way.cut();
    // West writes first; east, whose version is later, then deletes.
    stage.target.run("UPDATE item SET a = 'west'");
    stage.source.run("UPDATE item SET a = 'east'; DELETE FROM item WHERE id = 1");
    two_way.join();
    let rows = two_way.settle();
    assert_eq!(rows.iter().filter(|row| row.starts_with("1 ")).count(), 0, "{rows:?}");
    assert!(rows.iter().any(|row| row.starts_with("2 east")), "{rows:?}");
    two_way.stop();
}

/// Versions that are equal but for the site: a clock that stands still at both.
#[test]
fn equal_times_are_decided_by_the_site_at_both_sites() {
    let stage = Stage::bare(TABLE);
    let still = "timestamptz '2031-01-01 00:00:00+00'";
    let mut two_way = two_way(&stage, [still, still]);
    stage.source.run("INSERT INTO item VALUES (1, 'a', 'b', 0), (2, 'a', 'b', 0), (3, 'a', 'b', 0)");
    two_way.settle();
    two_way.cut();
    for (side, word) in [(&stage.source, "east"), (&stage.target, "west")] {
        side.run(&format!("UPDATE item SET a = '{word}' WHERE id < 3; UPDATE item SET b = '{word}' WHERE id = 1"));
    }
    stage.source.run("DELETE FROM item WHERE id = 3");
    stage.target.run("UPDATE item SET a = 'west' WHERE id = 3");
    let versions = |side: &Side<'_>| side.run("SELECT version / 10 FROM item WHERE id < 3 ORDER BY id");
    assert_eq!(versions(&stage.source), versions(&stage.target), "the times are equal");
    two_way.join();
    let rows = two_way.settle();
    let told: Vec<String> =
        rows.iter().take(3).map(|row| row.split(' ').take(3).collect::<Vec<_>>().join(" ")).collect();
    assert_eq!(told, ["1 west west", "2 west b", "3 west b"], "{rows:?}");
    two_way.stop();
}
