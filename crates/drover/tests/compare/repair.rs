//! `drover compare --repair`: after the plan was run, both databases are equal.

use super::{comparison, drover_compare};
use crate::server::{Cluster, ClusterOptions};
use rusqlite::Connection;

#[test]
fn a_plan_makes_sqlite_tables_equal() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).display().to_string();
    let schema =
        "CREATE TABLE t (a, \"b \"\"c\" INTEGER, v, d AS (a || 'x'), PRIMARY KEY (a, \"b \"\"c\")) WITHOUT ROWID;
                  CREATE TABLE u (id INTEGER PRIMARY KEY, v UNIQUE);";
    let open = |name: &str, rows: &str| {
        let connection = Connection::open(path(name)).expect("a database");
        connection.execute_batch(&format!("{schema}{rows}")).expect("rows");
        connection
    };
    open(
        "source.db",
        "INSERT INTO t VALUES ('it''s', 1, 0.1), (2, 2, x'00ff'), (3, 3, NULL), (x'01', 4, 'a' || char(0) || 'b'), ('e', 5, -1e999);
         INSERT INTO u VALUES (1, 'x'), (2, 'y');",
    );
    let target = open(
        "target.db",
        "INSERT INTO t VALUES ('it''s', 1, 0.2), (2, 2, '00ff'), (9, 9, 'extra'), ('e', 5, 'other');
         INSERT INTO u VALUES (7, 'x'), (2, 'z');",
    );
    let plan = path("plan.sql");
    let urls = [format!("sqlite:{}", path("source.db")), format!("sqlite:{}", path("target.db"))];
    let output = drover_compare(&[&urls[0], &urls[1], "--repair", &plan]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let text = std::fs::read_to_string(&plan).expect("a plan");
    assert!(text.contains("-- main.t: 1 deleted, 3 updated, 2 inserted"), "{text}");
    target.execute_batch(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    assert_eq!(comparison(&[&urls[0], &urls[1]]).1, 0, "{text}");
}

#[test]
fn a_plan_makes_postgres_tables_equal() {
    let cluster = Cluster::start(&ClusterOptions::default());
    let schema = "CREATE SCHEMA \"S\"; CREATE TABLE \"S\".t (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, v text, b bytea, \
                  n numeric, j jsonb, a text[], g int GENERATED ALWAYS AS (id * 2) STORED)";
    let rows = |values: &str| format!("{schema}; INSERT INTO \"S\".t OVERRIDING SYSTEM VALUE VALUES {values}");
    for (name, values) in [
        (
            "repair_source",
            "(1, E'it''s \\\\ \\n', '\\x00ff', 1.50, '{\"k\": [1]}', '{a,NULL}'), (2, NULL, NULL, 'NaN', NULL, NULL), (3, '', '', 0, '[]', '{}')",
        ),
        (
            "repair_target",
            "(1, 'other', NULL, 1.5, NULL, NULL), (2, NULL, NULL, 'NaN', NULL, NULL), (9, 'extra', NULL, NULL, NULL, NULL)",
        ),
    ] {
        cluster.psql("postgres", &format!("CREATE DATABASE {name}"));
        cluster.psql(name, &rows(values));
    }
    let (source, target) = (cluster.url("repair_source"), cluster.url("repair_target"));
    let folder = tempfile::tempdir().expect("a folder");
    let plan = folder.path().join("plan.sql").display().to_string();
    let output = drover_compare(&[&source, &target, "--repair", &plan]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let text = std::fs::read_to_string(&plan).expect("a plan");
    assert!(text.contains("-- S.t: 1 deleted, 1 updated, 1 inserted"), "{text}");
    cluster.psql("repair_target", &text);
    assert_eq!(comparison(&[&source, &target]).1, 0, "{text}");
}
