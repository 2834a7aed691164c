//! A PostgreSQL database and a SQLite database, held against each other by what their values say.

use super::{comparison, drover_compare};
use crate::server::{Cluster, ClusterOptions};
use rusqlite::Connection;

const POSTGRES: &str = "CREATE TABLE item (id int PRIMARY KEY, name text, price numeric(10,2), weight float8, is_new boolean, \
                        picture bytea, made timestamp, note text); \
                        CREATE TABLE pair (a text, b bigint, v text, PRIMARY KEY (a, b))";
const SQLITE: &str = "CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT, price NUMERIC, weight REAL, is_new BOOLEAN, \
                      picture BLOB, made TEXT, note TEXT); \
                      CREATE TABLE pair (a TEXT, b INTEGER, v TEXT, PRIMARY KEY (a, b)) WITHOUT ROWID";
/// The same rows, as each product writes them.
const POSTGRES_ROWS: &str = "INSERT INTO item VALUES \
    (1, 'lamp', 12.50, 0.1, true, '\\x00ff', '2024-02-29 12:00:00.5', NULL), \
    (2, 'it''s', 5, 1e300, false, '\\x', '2024-01-01 00:00:00', ''), \
    (3, 'ключ', NULL, 'Infinity', NULL, NULL, NULL, E'a\\tb\\nc\\\\d'), \
    (4, '007', 99999999.99, -0.5, true, NULL, NULL, '007'); \
    INSERT INTO pair VALUES ('x', 9223372036854775807, 'v'), ('x,y', -1, NULL)";
const SQLITE_ROWS: &str = "INSERT INTO item VALUES \
    (1, 'lamp', 12.5, 0.1, 1, x'00ff', '2024-02-29 12:00:00.5', NULL), \
    (2, 'it''s', 5, 1e300, 0, x'', '2024-01-01 00:00:00', ''), \
    (3, 'ключ', NULL, 9e999, NULL, NULL, NULL, 'a' || char(9) || 'b' || char(10) || 'c\\d'), \
    (4, '007', 99999999.99, -0.5, 1, NULL, NULL, '007'); \
    INSERT INTO pair VALUES ('x', 9223372036854775807, 'v'), ('x,y', -1, NULL)";

#[test]
fn a_row_of_two_products_is_the_same_when_its_values_say_the_same() {
    let cluster = Cluster::start(&ClusterOptions::default());
    cluster.psql("postgres", "CREATE DATABASE shop");
    cluster.psql("shop", &format!("{POSTGRES}; {POSTGRES_ROWS}"));
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("branch.db");
    let sqlite = Connection::open(&path).expect("a database");
    sqlite.execute_batch(&format!("{SQLITE}; {SQLITE_ROWS}")).expect("rows");
    let urls = [cluster.url("shop"), format!("sqlite:{}", path.display())];
    for [source, target] in [[&urls[0], &urls[1]], [&urls[1], &urls[0]]] {
        let (told, status) = comparison(&[source, target]);
        assert_eq!(status, 0, "{told}");
        // Any one value that is another one is found, and the row with it.
        for (change, id) in [
            ("name = 'Lamp'", 1),
            ("price = 12.51", 1),
            ("price = NULL", 2),
            ("weight = 0.1000000000000001", 1),
            ("is_new = 0", 1),
            ("is_new = NULL", 2),
            ("picture = x'00fe'", 1),
            ("picture = NULL", 2),
            ("made = '2024-02-29 12:00:00.6'", 1),
            ("note = ''", 1),
            ("note = NULL", 2),
            ("note = '7'", 4),
        ] {
            sqlite
                .execute_batch(&format!("BEGIN; UPDATE item SET {change} WHERE id = {id}; COMMIT"))
                .expect("a change");
            let (told, status) = comparison(&[source, target]);
            assert_eq!(status, 1, "{change}");
            let item = told["tables"].as_array().expect("tables").iter().find(|table| table["different"] == 1);
            assert_eq!(
                item.map(|item| item["rows"][0]["key"][0]["value"].clone()),
                Some(id.to_string().into()),
                "{change}: {told}"
            );
            sqlite.execute_batch("DELETE FROM item; DELETE FROM pair").expect("none");
            sqlite.execute_batch(SQLITE_ROWS).expect("the rows again");
        }
    }
    // A plan, and mending at once, of either side.
    let spoil = "UPDATE item SET name = 'o''r', picture = x'01', is_new = 0 WHERE id = 1; DELETE FROM item WHERE id = 2; \
                 INSERT INTO item VALUES (9, 'extra', 1, 1, 1, NULL, NULL, NULL)";
    sqlite.execute_batch(spoil).expect("differences");
    let plan = folder.path().join("plan.sql");
    let output = drover_compare(&[&urls[0], &urls[1], "--repair", &plan.display().to_string()]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let text = std::fs::read_to_string(&plan).expect("a plan");
    assert!(text.contains("-- main.item: 1 deleted, 1 updated, 1 inserted"), "{text}");
    sqlite.execute_batch(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    assert_eq!(comparison(&[&urls[0], &urls[1]]).1, 0, "{text}");
    sqlite.execute_batch(spoil).expect("differences");
    let output = drover_compare(&[&urls[0], &urls[1], "--apply", "source", "--settle", "0"]);
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && told.contains("3 rows mended"), "{told}");
    assert_eq!(
        cluster.psql("shop", "SELECT string_agg(id || name || coalesce(is_new::text, '-'), ',' ORDER BY id) FROM item"),
        "1o'rfalse,3ключ-,4007true,9extratrue"
    );
    assert_eq!(cluster.psql("shop", "SELECT encode(picture, 'hex') FROM item WHERE id = 1"), "01");
}
