//! SQL that `drover trail` writes, run on a real server.

use super::stage::Stage;
use crate::stage::drover;

const SCHEMA: &str =
    "CREATE TABLE t (id int PRIMARY KEY, a text, n numeric(10,2), j json, b bytea, at timestamptz, ok boolean);
                      ALTER TABLE t REPLICA IDENTITY FULL;
                      CREATE TABLE blind (id int PRIMARY KEY, a text)";

const SUM: &str = "SELECT string_agg(t::text, ';' ORDER BY id) FROM t";

fn tool(stage: &Stage, words: &[&str]) -> std::process::Output {
    let mut command = drover();
    command.arg("trail").arg(words[0]).arg(stage.home().join("dirdat/aa")).args(&words[1..]);
    command.output().expect("the binary runs")
}

#[test]
fn transactions_are_reversed_and_changes_done_again_in_postgresql() {
    let stage = Stage::new(SCHEMA);
    stage.source.run(
        "INSERT INTO t VALUES (1, 'it''s \\ é', 1.50, '{\"a\": 1}', '\\x00ff', '2024-02-29 12:00:00+02', true),
         (2, NULL, NULL, NULL, '', NULL, NULL), (3, '', 'NaN', '[]', NULL, 'infinity', false)",
    );
    let before = stage.source.run(SUM);
    stage.source.run(
        "BEGIN; UPDATE t SET a = 'other', n = 2, j = '{}', b = NULL, at = now(), ok = NULL WHERE id = 1;
         DELETE FROM t WHERE id = 3; UPDATE t SET id = 22 WHERE id = 2; INSERT INTO t VALUES (4); COMMIT",
    );
    stage.source.run("INSERT INTO blind VALUES (1, 'x')");
    stage.source.run("UPDATE blind SET a = 'unknown before'");
    stage.replicate();
    stage.assert_equal();
    let after = stage.target.run(SUM);
    let shown = tool(&stage, &["show"]);
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    let transaction = |what: &str| {
        let (before, _) = shown.split_once(what).unwrap_or_else(|| panic!("{what}: {shown}"));
        let (_, line) = before.rsplit_once("transaction ").expect("a transaction");
        line.split_once(',').expect("a comma").0.to_owned()
    };
    let undo = tool(&stage, &["undo", "--transaction", &transaction("'other'")]);
    assert!(undo.status.success(), "{undo:?}");
    stage.target.run(&String::from_utf8_lossy(&undo.stdout));
    assert_eq!(stage.target.run(SUM), before);

    let undo = tool(&stage, &["undo", "--transaction", &transaction("unknown before")]);
    let error = String::from_utf8_lossy(&undo.stderr);
    assert!(!undo.status.success() && error.contains("public.blind") && error.contains("ALLCOLS"), "{error}");

    stage.target.run("TRUNCATE t");
    let sql = tool(&stage, &["export", "--format", "sql", "--table", "public.t"]);
    assert!(sql.status.success(), "{sql:?}");
    stage.target.run(&String::from_utf8_lossy(&sql.stdout));
    assert_eq!(stage.target.run(SUM), after);
}
