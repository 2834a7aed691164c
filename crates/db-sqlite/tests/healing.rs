//! Tables altered, renamed, dropped, rebuilt: capture notices at once and heals, or stops by name.

use crate::stage::{Choice, Follower, GROUP, Stage, Stream, count, request, rows};
use change::OperationKind;
use database::ErrorClass;
use std::sync::Arc;

const ITEM: &str = "CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT, price)";
const ROWS: &str = "INSERT INTO item VALUES (1, 'a', 10), (2, 'b', 20), (3, 'c', 30)";

/// A source with three rows that the target has, too.
fn started() -> (Stage, Stream, Follower) {
    let stage = Stage::new(ITEM);
    let mut follower = Follower::new(ITEM);
    let mut stream = stage.stream();
    stage.write(ROWS);
    follower.apply(&stream.drain());
    (stage, stream, follower)
}

#[track_caller]
fn assert_equal(stage: &Stage, follower: &Follower, table: &str) {
    assert_eq!(rows(&follower.file.user(), table), rows(&stage.user, table), "{table}");
}

#[test]
fn a_table_that_is_dropped_and_made_again_is_sent_as_a_whole() {
    let (stage, mut stream, mut follower) = started();
    stage.write("UPDATE item SET price = 11 WHERE id = 1");
    stage.write(&format!("DROP TABLE item; {ITEM}; INSERT INTO item VALUES (7, 'new', 1)"));
    stage.write("UPDATE item SET price = 2");
    follower.apply(&stream.drain());
    assert_equal(&stage, &follower, "item");
    assert!(stream.notices.iter().any(|text| text.contains("main.item")), "{:?}", stream.notices);
    stage.write("INSERT INTO item VALUES (8, 'next', 1); DELETE FROM item WHERE id = 7");
    assert_eq!(stream.drain().len(), 2, "the new table is captured like the old one");
}

#[test]
fn a_rebuild_in_twelve_steps_heals() {
    let (stage, mut stream, mut follower) = started();
    stage.write(
        "PRAGMA foreign_keys = OFF;
         BEGIN;
         CREATE TABLE new_item (id INTEGER PRIMARY KEY, name TEXT NOT NULL DEFAULT '', price);
         INSERT INTO new_item SELECT * FROM item;
         DROP TABLE item;
         ALTER TABLE new_item RENAME TO item;
         COMMIT;
         INSERT INTO item VALUES (4, 'd', 40);
         DELETE FROM item WHERE id = 1;",
    );
    follower.apply(&stream.drain());
    assert_equal(&stage, &follower, "item");
}

/// Tools that rebuild a table put its triggers back, ours among them.
#[test]
fn a_rebuild_that_puts_our_triggers_back_heals_too() {
    for vacuum in ["", "VACUUM;"] {
        let (stage, mut stream, mut follower) = started();
        let mut statement =
            stage.user.prepare("SELECT sql FROM sqlite_schema WHERE type = 'trigger' ORDER BY rowid").expect("a query");
        let triggers: Vec<String> =
            statement.query_map([], |row| row.get(0)).expect("triggers").map(|sql| sql.expect("a text")).collect();
        drop(statement);
        stage.write(&format!(
            "BEGIN;
             CREATE TABLE new_item (id INTEGER PRIMARY KEY, name TEXT, price CHECK (price > 0));
             INSERT INTO new_item SELECT id, upper(name), price + 1 FROM item WHERE id <> 2;
             DROP TABLE item;
             ALTER TABLE new_item RENAME TO item;
             {};
             COMMIT;
             {vacuum}",
            triggers.join(";")
        ));
        follower.apply(&stream.drain());
        assert_equal(&stage, &follower, "item");
        stage.write("DELETE FROM item WHERE id = 3");
        assert_eq!(stream.told(), ["delete item [i3 tC i31]"]);
    }
}

#[test]
fn a_repair_for_one_group_does_not_hide_a_rebuild_from_another() {
    let schema = format!("{ITEM}; CREATE TABLE other (id INTEGER PRIMARY KEY, name TEXT, price)");
    let only = |table: &str| Arc::new(Choice { only: Some(vec![table.to_owned()]), ..Choice::default() });
    let stage = Stage::choosing(&schema, only("item"));
    let mut stream = stage.stream();
    let start = stage.database.register_capture("E2", &*only("other")).expect("a second group");
    stage.write("INSERT INTO other VALUES (1, 'a', 1)");
    let mut statement = stage
        .user
        .prepare("SELECT sql FROM sqlite_schema WHERE type = 'trigger' AND tbl_name = 'other' ORDER BY rowid")
        .expect("a query");
    let triggers: Vec<String> =
        statement.query_map([], |row| row.get(0)).expect("triggers").map(|sql| sql.expect("a text")).collect();
    drop(statement);
    stage.write(&format!(
        "CREATE TABLE new_other (id INTEGER PRIMARY KEY, name TEXT, price); INSERT INTO new_other VALUES (7, 'b', 2);
         DROP TABLE other; ALTER TABLE new_other RENAME TO other; {};
         DROP TABLE item; {ITEM};",
        triggers.join(";")
    ));
    stream.drain();
    let request = database::SourceRequest { group: "E2".to_owned(), ..request(&start, only("other")) };
    let mut second = Stream::over(stage.database.open_source(request).expect("a source"));
    let mut follower = Follower::new(&schema);
    follower.apply(&second.drain());
    assert_equal(&stage, &follower, "other");
    assert!(stream.notices.iter().all(|text| !text.contains("other")), "{:?}", stream.notices);
}

#[test]
fn tables_that_swap_names_heal_under_their_new_names() {
    let stage = Stage::new(&format!("{ITEM}; CREATE TABLE other (id INTEGER PRIMARY KEY, name TEXT, price)"));
    let mut follower = Follower::new(&format!("{ITEM}; CREATE TABLE other (id INTEGER PRIMARY KEY, name TEXT, price)"));
    let mut stream = stage.stream();
    stage.write(ROWS);
    follower.apply(&stream.drain());
    stage.write("INSERT INTO item VALUES (4, 'd', 40)");
    stage.write("ALTER TABLE item RENAME TO swap; ALTER TABLE other RENAME TO item; ALTER TABLE swap RENAME TO other");
    stage.write("INSERT INTO item VALUES (9, 'new', 1); INSERT INTO other VALUES (10, 'old', 2)");
    follower.apply(&stream.drain());
    assert_equal(&stage, &follower, "item");
    assert_equal(&stage, &follower, "other");
    stage.write("DELETE FROM other WHERE id = 1; DELETE FROM item");
    assert_eq!(stream.told(), ["delete other [i1 ta i10]", "delete item [i9 tnew i1]"]);
}

#[test]
fn a_table_that_is_renamed_goes_on_under_its_new_name() {
    let (stage, mut stream, mut follower) = started();
    follower
        .file
        .user()
        .execute_batch("CREATE TABLE article (id INTEGER PRIMARY KEY, name TEXT, price)")
        .expect("a table");
    stage.write("ALTER TABLE item RENAME TO article; INSERT INTO article VALUES (4, 'd', 40)");
    follower.apply(&stream.drain());
    assert_equal(&stage, &follower, "article");
    assert!(stream.notices.iter().any(|text| text.contains("main.item went away")), "{:?}", stream.notices);
    stage.write("DELETE FROM article WHERE id = 1");
    assert_eq!(stream.told(), ["delete article [i1 ta i10]"]);
}

#[test]
fn triggers_that_a_user_drops_are_put_back_and_nothing_is_lost() {
    for part in ["insert", "update", "delete"] {
        let (stage, mut stream, mut follower) = started();
        stage.write("UPDATE item SET name = 'before' WHERE id = 3");
        stage.write(&format!("DROP TRIGGER drover_1_{part}"));
        stage.write(
            "INSERT INTO item VALUES (5, 'unseen', 0); UPDATE item SET name = 'x'; DELETE FROM item WHERE id = 1",
        );
        follower.apply(&stream.drain());
        assert_equal(&stage, &follower, "item");
        stage.write("DELETE FROM item WHERE id = 5; INSERT INTO item VALUES (6, 'seen', 1); UPDATE item SET name = 'y' WHERE id = 2");
        let changes = stream.drain();
        assert_eq!(changes.len(), 3);
        follower.apply(&changes);
        assert_equal(&stage, &follower, "item");
    }
}

#[test]
fn what_is_missed_while_nobody_reads_is_healed_at_the_start() {
    let (stage, stream, mut follower) = started();
    let next = stream.next.clone().expect("a position");
    drop(stream);
    stage
        .write("DROP TRIGGER drover_1_update; UPDATE item SET price = price + 1; INSERT INTO item VALUES (4, 'd', 40)");
    let mut stream = Stream::open(&*stage.database, &next, Arc::clone(&stage.tables));
    follower.apply(&stream.drain());
    assert_equal(&stage, &follower, "item");
}

#[test]
fn a_new_table_joins_with_the_rows_it_had() {
    let (stage, mut stream, mut follower) = started();
    let table = "CREATE TABLE fresh (k TEXT PRIMARY KEY, v) WITHOUT ROWID";
    follower.file.user().execute_batch(table).expect("a table");
    stage.write(&format!("{table}; INSERT INTO fresh VALUES ('early', 1), ('b', 2)"));
    follower.apply(&stream.drain());
    assert_equal(&stage, &follower, "fresh");
    stage.write("UPDATE fresh SET v = 3 WHERE k = 'early'");
    assert_eq!(stream.told(), ["update fresh [tearly i1] -> [tearly i3]"]);
}

#[test]
fn a_column_that_is_added_travels() {
    let (stage, mut stream, mut follower) = started();
    stage.write("INSERT INTO item VALUES (4, 'd', 40)");
    stage.write("ALTER TABLE item ADD COLUMN color TEXT DEFAULT 'red'");
    stage.write("INSERT INTO item VALUES (5, 'e', 50, 'blue')");
    follower.file.user().execute_batch("ALTER TABLE item ADD COLUMN color TEXT DEFAULT 'red'").expect("a column");
    follower.apply(&stream.drain());
    assert_equal(&stage, &follower, "item");
    stage.write("UPDATE item SET color = 'green' WHERE id = 1");
    assert_eq!(stream.told(), ["update item [i1 ta i10 tred] -> [i1 ta i10 tgreen]"]);
}

#[test]
fn columns_that_are_renamed_or_dropped_heal() {
    let (stage, mut stream, _) = started();
    stage.write("ALTER TABLE item RENAME COLUMN price TO cost");
    stage.write("INSERT INTO item VALUES (4, 'd', 40)");
    let changes = stream.drain();
    assert_eq!(count(&changes, OperationKind::Truncate), 1);
    assert_eq!(count(&changes, OperationKind::Insert), 4);
    assert!(changes.iter().all(|change| change.table.column("cost").is_some()));
    // SQLite refuses to drop a column that a trigger reads, ours among them.
    assert!(stage.user.execute_batch("ALTER TABLE item DROP COLUMN cost").is_err());
    stage.write("DROP TRIGGER drover_2_insert; DROP TRIGGER drover_2_update; DROP TRIGGER drover_2_delete");
    stage.write("DROP TRIGGER drover_2_insert_before; DROP TRIGGER drover_2_insert_replaced");
    stage.write("DROP TRIGGER drover_2_update_before; DROP TRIGGER drover_2_update_replaced");
    stage.write("ALTER TABLE item DROP COLUMN cost; DELETE FROM item WHERE id = 1");
    let changes = stream.drain();
    assert_eq!(count(&changes, OperationKind::Truncate), 1);
    assert_eq!(count(&changes, OperationKind::Insert), 3);
}

#[test]
fn a_new_unique_index_is_looked_at_from_then_on() {
    let (stage, mut stream, mut follower) = started();
    stage.write("CREATE UNIQUE INDEX item_name ON item (name)");
    assert_eq!(stream.told().len(), 0, "nothing was written, so nothing is sent again");
    stage.write("INSERT OR REPLACE INTO item VALUES (9, 'a', 0)");
    assert_eq!(stream.told(), ["delete item [i1 ta i10]", "insert item [i9 ta i0]"]);
    // Rows replaced before we could look were not seen.
    stage.write("CREATE UNIQUE INDEX item_price ON item (price); INSERT OR REPLACE INTO item VALUES (12, 'z', 20)");
    let changes = stream.drain();
    assert_eq!(count(&changes, OperationKind::Truncate), 1);
    follower.apply(&changes);
    assert_equal(&stage, &follower, "item");
}

#[test]
fn changes_of_the_schema_that_do_not_concern_capture_change_nothing() {
    let (stage, mut stream, _) = started();
    let changes = [
        "CREATE INDEX item_price ON item (price)",
        "CREATE VIEW cheap AS SELECT * FROM item WHERE price < 15",
        "ANALYZE",
        "VACUUM",
        "REINDEX",
        "CREATE TEMP TABLE mine (x)",
        "DROP INDEX item_price",
    ];
    for change in changes {
        stage.write("INSERT INTO item VALUES (4, 'd', 40)");
        stage.write(change);
        stage.write("DELETE FROM item WHERE id = 4");
        assert_eq!(stream.told(), ["insert item [i4 td i40]", "delete item [i4 td i40]"], "{change}");
    }
    stage.write(&changes.join(";").replace("CREATE VIEW cheap", "CREATE VIEW cheaper").replace("mine", "yours"));
    stage.write("INSERT INTO item VALUES (4, 'd', 40)");
    stream.drain();
    assert_eq!(
        stream.notices.iter().filter(|text| text.contains("sent again")).count(),
        1,
        "several changes at once may hide one"
    );
    stream.notices.retain(|text| text.ends_with("is a view") && !text.contains("cheaper"));
    assert_eq!(stream.notices, ["table main.cheap is not captured: it is a view"]);
}

#[test]
fn a_unique_index_that_comes_and_goes_while_nobody_looks_hides_nothing() {
    let (stage, mut stream, mut follower) = started();
    stage.write("CREATE UNIQUE INDEX briefly ON item (name); REPLACE INTO item VALUES (9, 'a', 0); DROP INDEX briefly");
    follower.apply(&stream.drain());
    assert_equal(&stage, &follower, "item");
    // The same while the group is stopped.
    let next = stream.next.clone().expect("a position");
    drop(stream);
    stage.write("CREATE UNIQUE INDEX briefly ON item (name); REPLACE INTO item VALUES (8, 'b', 0); DROP INDEX briefly");
    let mut stream = Stream::open(&*stage.database, &next, Arc::clone(&stage.tables));
    follower.apply(&stream.drain());
    assert_equal(&stage, &follower, "item");
    stage.write("DELETE FROM item WHERE id = 8");
    assert_eq!(stream.drain().len(), 1);
}

#[test]
fn two_groups_that_doubt_do_not_keep_each_other_doubting() {
    let (stage, mut stream, _) = started();
    let second_start = stage.database.register_capture("E2", &*stage.tables).expect("a second group");
    let request =
        database::SourceRequest { group: "E2".to_owned(), ..request(&second_start, Arc::clone(&stage.tables)) };
    let mut second = Stream::over(stage.database.open_source(request).expect("a source"));
    stage.write(
        "UPDATE item SET price = 5; CREATE TABLE x (id INTEGER PRIMARY KEY); DROP TABLE x; UPDATE item SET price = 6",
    );
    let mut truncations = 0;
    for round in 0..10 {
        stage.write(&format!("UPDATE item SET price = {round}"));
        truncations += count(&stream.drain(), OperationKind::Truncate);
        stage.write(&format!("UPDATE item SET price = -{round}"));
        truncations += count(&second.drain(), OperationKind::Truncate);
    }
    assert!(truncations <= 4, "{truncations} times sent as a whole");
}

#[test]
fn a_users_trigger_is_told_after_its_cause_even_when_it_is_newer() {
    let (stage, mut stream, mut follower) = started();
    let trigger = "CREATE TRIGGER item_price AFTER INSERT ON item WHEN NEW.price IS NULL BEGIN
                   UPDATE item SET price = 99 WHERE id = NEW.id; END";
    stage.write(trigger);
    stage.write("INSERT INTO item VALUES (4, 'd', NULL)");
    // Here the triggers were still in the wrong order, so the table came as a whole.
    follower.apply(&stream.drain());
    assert_equal(&stage, &follower, "item");
    stage.write("INSERT INTO item VALUES (5, 'e', NULL)");
    assert_eq!(stream.told(), ["insert item [i5 te NULL]", "update item [i5 te NULL] -> [i5 te i99]"]);
}

#[test]
fn a_required_table_that_goes_away_stops_capture_by_name() {
    let stage = Stage::choosing(ITEM, Choice::requiring("item"));
    let mut stream = stage.stream();
    stage.write("DROP TABLE item");
    let error = stream.try_drain().expect_err("nothing to capture");
    assert_eq!(error.class(), ErrorClass::Missing);
    assert!(error.to_string().contains("main.item"), "{error}");
    let next = stage.start.clone();
    let refused = stage.database.open_source(request(&next, Arc::clone(&stage.tables)));
    assert_eq!(refused.err().expect("refused").class(), ErrorClass::Missing);
}

#[test]
fn a_table_of_a_wildcard_that_goes_away_is_told_once() {
    let (stage, mut stream, _) = started();
    stage.write("CREATE TABLE stay (id INTEGER PRIMARY KEY)");
    stream.drain();
    stage.write("DELETE FROM item WHERE id = 1; DROP TABLE item; INSERT INTO stay VALUES (1)");
    assert_eq!(stream.told(), ["delete item [i1 ta i10]", "insert stay [i1]"]);
    stage.write("INSERT INTO stay VALUES (2)");
    stream.drain();
    let told = stream.notices.iter().filter(|text| text.contains("main.item went away")).count();
    assert_eq!(told, 1, "{:?}", stream.notices);
}

#[test]
fn a_table_that_loses_its_key_stops_capture_by_name() {
    let (stage, mut stream, _) = started();
    stage.write("DROP TABLE item; CREATE TABLE item (id INTEGER, name TEXT, price)");
    let error = stream.try_drain().expect_err("no key");
    assert_eq!(error.class(), ErrorClass::Unsupported);
    assert!(error.to_string().contains("main.item"), "{error}");
    assert!(error.next_step().is_some_and(|step| step.contains("KEYCOLS")));
}

#[test]
fn what_has_no_rows_of_its_own_is_skipped_by_wildcards_and_refused_by_name() {
    let schema = "CREATE TABLE item (id INTEGER PRIMARY KEY); CREATE VIEW seen AS SELECT * FROM item;
                  CREATE VIRTUAL TABLE words USING fts5 (body);";
    let stage = Stage::new(schema);
    let mut stream = stage.stream();
    stage.write("INSERT INTO words VALUES ('hello'); INSERT INTO item VALUES (1)");
    assert_eq!(stream.told(), ["insert item [i1]"]);
    assert_eq!(stream.notices.len(), 2, "{:?}", stream.notices);
    for name in ["seen", "words", "words_content"] {
        let error = stage.database.register_capture("E2", &*Choice::requiring(name)).expect_err("refused");
        assert_eq!(error.class(), ErrorClass::Unsupported);
        assert!(error.to_string().contains(name), "{error}");
    }
}

#[test]
fn a_group_that_was_away_is_told_of_what_another_one_healed() {
    let (stage, mut stream, mut follower) = started();
    let second_start = stage.database.register_capture("E2", &*stage.tables).expect("a second group");
    stage.write("INSERT INTO item VALUES (4, 'd', 40)");
    stage.write("DROP TRIGGER drover_1_update; UPDATE item SET name = 'unseen'");
    stream.drain();
    stage.write("INSERT INTO item VALUES (5, 'e', 50)");
    stream.drain();
    let request =
        database::SourceRequest { group: "E2".to_owned(), ..request(&second_start, Arc::clone(&stage.tables)) };
    let mut second = Stream::over(stage.database.open_source(request).expect("a source"));
    follower.apply(&second.drain());
    assert_equal(&stage, &follower, "item");
    assert_eq!(GROUP, "E1");
}

#[test]
fn capture_that_a_user_removed_is_named() {
    let (stage, mut stream, _) = started();
    stage.write("DROP TABLE drover_change");
    let error = stream.try_drain().expect_err("no change table");
    assert_eq!(error.class(), ErrorClass::Missing, "{error:?}");
}

#[test]
fn a_database_without_tables_can_be_registered_and_its_first_table_joins() {
    let stage = Stage::new("");
    let mut follower = Follower::new(ITEM);
    let mut stream = stage.stream();
    stage.write(ITEM);
    stage.write(ROWS);
    follower.apply(&stream.drain());
    stage.write("UPDATE item SET price = 11 WHERE id = 1; INSERT OR REPLACE INTO item VALUES (2, 'z', 1)");
    follower.apply(&stream.drain());
    assert_equal(&stage, &follower, "item");
}
