//! Every change arrives, once, in order, as it was stored.

use crate::stage::{Choice, File, Follower, GROUP, Stage, rows};
use database::ErrorClass;

const ITEM: &str = "CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT, data)";

#[test]
fn inserts_updates_and_deletes_arrive_with_both_images() {
    let stage = Stage::new(ITEM);
    let mut stream = stage.stream();
    stage.write("INSERT INTO item VALUES (1, 'a', x'00ff'), (2, NULL, 2.5)");
    stage.write("UPDATE item SET name = 'b' WHERE id = 1; DELETE FROM item WHERE id = 2");
    assert_eq!(
        stream.told(),
        [
            "insert item [i1 ta b\0\u{fffd}]",
            "insert item [i2 NULL r2.5]",
            "update item [i1 ta b\0\u{fffd}] -> [i1 tb b\0\u{fffd}]",
            "delete item [i2 NULL r2.5]",
        ]
    );
}

#[test]
fn a_key_that_moves_twice_and_goes_away_is_followed() {
    let stage = Stage::new(ITEM);
    let mut follower = Follower::new(ITEM);
    let mut stream = stage.stream();
    stage.write("INSERT INTO item VALUES (1, 'a', 1), (2, 'b', 2)");
    stage.write("UPDATE item SET id = 11 WHERE id = 1; UPDATE item SET id = 12 WHERE id = 11");
    stage.write("BEGIN; UPDATE item SET id = 13 WHERE id = 12; UPDATE item SET id = 1 WHERE id = 13; DELETE FROM item WHERE id = 1; COMMIT");
    follower.apply(&stream.drain());
    assert_eq!(rows(&follower.file.user(), "item"), rows(&stage.user, "item"));
    assert_eq!(rows(&stage.user, "item").len(), 1);
}

#[test]
fn what_is_rolled_back_is_not_told() {
    let stage = Stage::new(ITEM);
    let mut stream = stage.stream();
    stage.write("BEGIN; INSERT INTO item VALUES (1, 'a', 1); ROLLBACK");
    stage.write("BEGIN; INSERT INTO item VALUES (2, 'a', 1); SAVEPOINT s; INSERT INTO item VALUES (3, 'a', 1); ROLLBACK TO s; COMMIT");
    let failing = "INSERT INTO item SELECT value, 'x', NULL FROM json_each('[4, 5, 2]')";
    assert!(stage.user.execute_batch(failing).is_err(), "2 is there already");
    assert_eq!(stream.told(), ["insert item [i2 ta i1]"]);
}

#[test]
fn a_table_without_key_is_refused_unless_columns_are_named_or_it_is_excluded() {
    let schema = "CREATE TABLE loose (a, b); CREATE TABLE item (id INTEGER PRIMARY KEY)";
    let file = File::create(schema);
    let error = file.database().register_capture(GROUP, &*Choice::all()).expect_err("no key");
    assert_eq!(error.class(), ErrorClass::Unsupported);
    assert!(error.to_string().contains("main.loose"), "{error}");
    file.database().register_capture("E2", &*Choice::except("LOOSE")).expect("it is excluded");

    let stage = Stage::choosing(schema, Choice::with_key("loose", &["A"]));
    let mut follower = Follower::new(schema);
    let mut stream = stage.stream();
    stage.write(
        "INSERT INTO loose VALUES (1, 'x'), (1, 'y'), (NULL, 'z'), (NULL, 'z'); UPDATE loose SET b = 'w' WHERE b = 'y'",
    );
    stage.write("DELETE FROM loose WHERE rowid = 3");
    let changes = stream.drain();
    assert_eq!(changes[0].table.key(), [0]);
    follower.apply(&changes);
    assert_eq!(rows(&follower.file.user(), "loose"), rows(&stage.user, "loose"));
}

#[test]
fn names_that_attack_are_only_names() {
    let schema = "CREATE TABLE \"x\"\"; DROP TABLE y; --\" (\"sel\"\"ect\" INTEGER PRIMARY KEY, \"NEW.a\" UNIQUE, \"ключ '\" TEXT);
                  CREATE TABLE y (id INTEGER PRIMARY KEY)";
    let stage = Stage::new(schema);
    let mut follower = Follower::new(schema);
    let mut stream = stage.stream();
    let name = "\"x\"\"; DROP TABLE y; --\"";
    stage.write(&format!("INSERT INTO {name} VALUES (1, 'a', 'b'), (2, 'c', 'd')"));
    stage.write(&format!("REPLACE INTO {name} VALUES (1, 'c', 'e'); UPDATE {name} SET \"ключ '\" = 'f'"));
    follower.apply(&stream.drain());
    assert_eq!(rows(&follower.file.user(), "x\"; DROP TABLE y; --"), rows(&stage.user, "x\"; DROP TABLE y; --"));
    assert_eq!(rows(&stage.user, "y").len(), 0);
}

#[test]
fn rows_that_foreign_keys_remove_or_change_are_told() {
    let schema = "CREATE TABLE parent (id INTEGER PRIMARY KEY);
                  CREATE TABLE child (id INTEGER PRIMARY KEY, p REFERENCES parent (id) ON DELETE CASCADE ON UPDATE SET NULL)";
    let stage = Stage::new(schema);
    let mut follower = Follower::new(schema);
    let mut stream = stage.stream();
    stage
        .write("PRAGMA foreign_keys = ON; INSERT INTO parent VALUES (1), (2); INSERT INTO child VALUES (1, 1), (2, 2)");
    stage.write("DELETE FROM parent WHERE id = 1; UPDATE parent SET id = 3; REPLACE INTO parent VALUES (3)");
    let changes = stream.drain();
    assert_eq!(changes.len(), 4 + 2 + 2 + 2);
    follower.apply(&changes);
    for table in ["parent", "child"] {
        assert_eq!(rows(&follower.file.user(), table), rows(&stage.user, table));
    }
}
