//! Reports: counts that balance and that plain SQL confirms.

use crate::stage::{Stage, number};
use std::collections::BTreeMap;

const SCHEMA: &str = "
    CREATE TABLE t (id INTEGER PRIMARY KEY, a); CREATE TABLE u (k TEXT PRIMARY KEY, a) WITHOUT ROWID;
    -- Counts what the application does, independently of Drover.
    CREATE TABLE done (operation, n, PRIMARY KEY (operation));
    CREATE TRIGGER done_i AFTER INSERT ON t BEGIN
        INSERT INTO done VALUES ('insert', 1) ON CONFLICT DO UPDATE SET n = n + 1; END;
    CREATE TRIGGER done_u AFTER UPDATE ON t BEGIN
        INSERT INTO done VALUES ('update', 1) ON CONFLICT DO UPDATE SET n = n + 1; END;
    CREATE TRIGGER done_d AFTER DELETE ON t BEGIN
        INSERT INTO done VALUES ('delete', 1) ON CONFLICT DO UPDATE SET n = n + 1; END;";

/// Read, written and filtered of each table and operation, from a report's last statistics.
fn counts(report: &str) -> BTreeMap<(String, String), [i64; 3]> {
    let (_, statistics) = report.rsplit_once("Run Time Statistics").expect("statistics");
    let mut counts = BTreeMap::new();
    let mut table = String::new();
    for line in statistics.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let is_operation = |word: &str| ["insert", "update", "delete", "truncate"].contains(&word);
        let (operation, numbers) = match words[..] {
            [name, operation, ref numbers @ ..] if is_operation(operation) => {
                table = name.to_owned();
                (operation, numbers)
            }
            [operation, ref numbers @ ..] if is_operation(operation) => (operation, numbers),
            _ => continue,
        };
        let numbers: Vec<i64> = numbers.iter().filter_map(|number| number.parse().ok()).collect();
        counts.insert((table.clone(), operation.to_owned()), numbers.try_into().expect("three numbers"));
    }
    counts
}

#[test]
fn counts_balance_and_are_those_of_plain_sql() {
    let stage = Stage::new(SCHEMA);
    stage.parameters(
        "r1",
        "REPLICAT r1\nTARGETDB sqlite:../target.db\nMAPEXCLUDE main.u;\nMAP main.*, TARGET main.*;\n",
    );
    let source = stage.source();
    source
        .execute_batch(
            "
            WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 500)
            INSERT INTO t SELECT i, 'row' FROM n;
            UPDATE t SET a = 'changed' WHERE id % 3 = 0; DELETE FROM t WHERE id % 7 = 0;
            UPDATE t SET id = id + 1000 WHERE id % 5 = 0;
            INSERT INTO u VALUES ('not', 'mapped'), ('at', 'all'); DELETE FROM u WHERE k = 'at';
            ",
        )
        .expect("changes");
    stage.replicate(&["t", "done"]);
    let (captured, applied) = (counts(&stage.text("dirrpt/E1.rpt")), counts(&stage.text("dirrpt/R1.rpt")));
    for operation in ["insert", "update", "delete"] {
        let expected = number(&source, &format!("SELECT n FROM done WHERE operation = '{operation}'"));
        let key = ("main.t".to_owned(), operation.to_owned());
        assert_eq!(captured[&key], [expected, expected, 0], "{operation}");
        assert_eq!(applied[&key], [expected, expected, 0], "{operation}");
    }
    let key = |operation: &str| ("main.u".to_owned(), operation.to_owned());
    assert_eq!(captured[&key("insert")], [2, 2, 0]);
    assert_eq!(applied[&key("insert")], [2, 0, 2]);
    assert_eq!(applied[&key("delete")], [1, 0, 1]);
    for [read, written, filtered] in captured.values().chain(applied.values()) {
        assert_eq!(*read, written + filtered);
    }
}

#[test]
fn a_report_shows_what_runs_where_and_with_which_parameters_and_older_ones_are_kept() {
    let stage = Stage::new("CREATE TABLE t (id INTEGER PRIMARY KEY, a)");
    stage.parameters("e1", &format!("-- the first run\n{}", crate::stage::EXTRACT));
    stage.source().execute_batch("INSERT INTO t VALUES (1, 'x')").expect("an insert");
    stage.replicate(&["t"]);
    let report = stage.text("dirrpt/E1.rpt");
    let home = stage.home().canonicalize().expect("the home");
    for text in [
        "Drover Extract",
        env!("CARGO_PKG_VERSION"),
        "EXTRACT E1",
        &home.display().to_string(),
        "Running with the following parameters",
        "-- the first run",
        "TABLE main.*;",
        "main.t",
        "Run Time Statistics",
    ] {
        assert!(report.contains(text), "{text} is not in\n{report}");
    }
    stage.parameters("e1", crate::stage::EXTRACT);
    stage.replicate(&["t"]);
    assert!(!stage.text("dirrpt/E1.rpt").contains("-- the first run"));
    assert_eq!(stage.text("dirrpt/E1-0.rpt"), report);
    let log = stage.event_log();
    for text in ["DRV-00001  Drover Extract, e1.prm:  EXTRACT E1 started", "REPLICAT R1 stopped"] {
        assert!(log.contains(text), "{text} is not in\n{log}");
    }
}
