//! Tables of very many columns.

use super::stage::Stage;

/// What the server allows in one table.
const COLUMNS: u32 = 1_600;

#[test]
fn a_table_of_as_many_columns_as_a_server_allows_arrives_whole() {
    let columns: Vec<String> = (2..=COLUMNS).map(|number| format!("c{number} int")).collect();
    let stage = Stage::new(&format!("CREATE TABLE t (id int PRIMARY KEY, {})", columns.join(", ")));
    let values: Vec<String> = (2..=COLUMNS).map(|number| number.to_string()).collect();
    stage.source.script(&format!(
        "INSERT INTO t VALUES (1, {}); INSERT INTO t (id, c{COLUMNS}) VALUES (2, 7); INSERT INTO t (id) VALUES (3); \
         UPDATE t SET c800 = -1 WHERE id < 3; UPDATE t SET id = 4, c2 = NULL WHERE id = 1; DELETE FROM t WHERE id = 3",
        values.join(", ")
    ));
    stage.replicate();
    assert_eq!(
        stage.target.run(&format!("SELECT id, c2, c3, c800, c{COLUMNS} FROM t ORDER BY id")),
        "2|||-1|7\n4||3|-1|1600"
    );
    assert_eq!(stage.assert_equal(), 2 + 1);
}
