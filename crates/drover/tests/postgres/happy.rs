//! What an ordinary day is made of.

use super::stage::Stage;

#[test]
fn inserts_updates_and_deletes_arrive() {
    let stage = Stage::new("CREATE TABLE item (id int PRIMARY KEY, name text NOT NULL, price numeric(10,2))");
    stage.source.run("INSERT INTO item SELECT n, 'item ' || n, n FROM generate_series(1, 3000) AS n");
    stage.source.run("UPDATE item SET price = price * 2 WHERE id % 3 = 0; DELETE FROM item WHERE id % 7 = 0");
    stage.source.run("UPDATE item SET id = id + 100000 WHERE id % 5 = 0");
    stage.replicate();
    assert_eq!(stage.assert_equal(), 2573);
    assert_eq!(stage.target.run("SELECT count(*) FROM item WHERE id > 100000"), "515");
    let info = stage.console("INFO ALL");
    assert!(info.contains("STOPPED"), "{info}");
}
