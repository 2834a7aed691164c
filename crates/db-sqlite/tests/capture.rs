//! Every change arrives, once, in order, as it was stored.

use crate::stage::{Follower, Stage, rows};

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
