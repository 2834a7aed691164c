//! `drover trail`: what it shows of a real trail, and that the SQL it writes does what it says.

use crate::stage::{Stage, drover, rows};
use std::path::PathBuf;
use std::process::Output;

const SCHEMA: &str = "CREATE TABLE t (id INTEGER PRIMARY KEY, a, b); CREATE TABLE loose (k INTEGER PRIMARY KEY, a, b)";

fn tool(stage: &Stage, words: &[&str]) -> Output {
    let mut command = drover();
    command.arg("trail").arg(words[0]).arg(trail(stage)).args(&words[1..]);
    command.output().expect("the binary runs")
}

fn trail(stage: &Stage) -> PathBuf {
    stage.home().join("dirdat/aa")
}

fn text(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Values that SQL has to quote with care, and a key that changes.
const TRANSACTIONS: [&str; 4] = [
    "BEGIN; INSERT INTO t VALUES (1, 'it''s', x'00ff'), (2, NULL, 1.5), (3, char(10) || 'é;--', -9e999);
     INSERT INTO loose VALUES (1, 'same', 1), (2, 'same', 1), (3, 'same', 1); COMMIT",
    "BEGIN; UPDATE t SET a = 'other', b = NULL WHERE id = 1; DELETE FROM t WHERE id = 2;
     UPDATE t SET id = 33 WHERE id = 3; INSERT INTO t VALUES (4, 9223372036854775807, '');
     DELETE FROM loose WHERE k = 2; UPDATE loose SET b = 2 WHERE k = 3; COMMIT",
    "INSERT INTO t VALUES (5, 'after', 0)",
    "INSERT INTO loose VALUES (7, NULL, 'end')",
];

fn written() -> Stage {
    let stage = Stage::new(SCHEMA);
    // One after the other: SQLite does not tell neighbouring transactions apart.
    for transaction in TRANSACTIONS {
        stage.source().execute_batch(transaction).expect("a transaction");
        stage.replicate(&["t", "loose"]);
    }
    stage
}

/// The identifier of the transaction that holds this text, as show prints it.
fn transaction_with(shown: &str, what: &str) -> String {
    let (before, _) = shown.split_once(what).unwrap_or_else(|| panic!("{what} is not in {shown}"));
    let (_, line) = before.rsplit_once("transaction ").expect("a transaction");
    line.split_once(',').expect("a comma").0.to_owned()
}

#[test]
fn a_transaction_that_is_reversed_was_never_there() {
    let stage = written();
    let shown = text(&tool(&stage, &["show"]));
    let undo = text(&tool(&stage, &["undo", "--transaction", &transaction_with(&shown, "'other'")]));
    let before = rusqlite::Connection::open_in_memory().expect("a database");
    before.execute_batch(SCHEMA).expect("tables");
    for transaction in [TRANSACTIONS[0], TRANSACTIONS[2], TRANSACTIONS[3]] {
        before.execute_batch(transaction).expect("a transaction");
    }
    let target = stage.target();
    target.execute_batch(&undo).unwrap_or_else(|error| panic!("{error}: {undo}"));
    assert_eq!(rows(&target, "t"), rows(&before, "t"), "{undo}");
    assert_eq!(rows(&target, "loose"), rows(&before, "loose"), "{undo}");
    let refused = tool(&stage, &["undo", "--transaction", "nobody"]);
    let error = String::from_utf8_lossy(&refused.stderr);
    assert!(refused.status.code() == Some(1) && error.contains("DRV-00932") && refused.stdout.is_empty(), "{error}");
}

#[test]
fn exported_sql_makes_the_same_rows_in_an_empty_database() {
    let stage = written();
    let sql = text(&tool(&stage, &["export", "--format", "sql"]));
    let copy = rusqlite::Connection::open_in_memory().expect("a database");
    copy.execute_batch(SCHEMA).expect("tables");
    copy.execute_batch(&sql).unwrap_or_else(|error| panic!("{error}: {sql}"));
    for table in ["t", "loose"] {
        assert_eq!(rows(&copy, table), rows(&stage.target(), table), "{table}: {sql}");
    }
}

#[test]
fn every_tool_reads_what_an_extract_wrote() {
    let stage = written();
    let shown = text(&tool(&stage, &["show"]));
    assert!(shown.contains("INSERT main.t  id=1, a='it''s', b=x'00ff'"), "{shown}");
    assert!(shown.contains("UPDATE main.t  id=1: a='it''s' -> 'other', b=x'00ff' -> NULL"), "{shown}");
    assert!(!shown.contains('\u{1b}'), "colours are for terminals");
    assert!(text(&tool(&stage, &["show", "--color", "always"])).contains("\u{1b}[32mINSERT"));
    let found = text(&tool(&stage, &["grep", "--key", "5", "--table", "main.t"]));
    assert_eq!(found.lines().count(), 1, "{found}");
    assert_eq!(text(&tool(&stage, &["grep", "--column", "a=same", "--count"])), "5\n");
    let test = "@GETENV ('GGHEADER', 'OPTYPE') = DELETE";
    assert_eq!(text(&tool(&stage, &["grep", "--where", test, "--count"])), "2\n");
    assert_eq!(tool(&stage, &["grep", "--value", "nowhere"]).status.code(), Some(1), "as grep does");
    let stat = text(&tool(&stage, &["stat"]));
    let line = stat.lines().find(|line| line.starts_with("main.t ")).expect("a table");
    assert_eq!(line.split_whitespace().skip(1).take(3).collect::<Vec<_>>(), ["5", "2", "1"], "{stat}");
    assert!(text(&tool(&stage, &["verify"])).contains("0 problems"));
    for line in text(&tool(&stage, &["export", "--format", "json"])).lines() {
        let json: serde_json::Value = serde_json::from_str(line).expect("is JSON");
        assert!(json["operation"].is_string(), "{line}");
    }
    let csv = text(&tool(&stage, &["export", "--format", "csv", "--table", "main.loose"]));
    assert!(csv.starts_with("position,csn,transaction,time,operation,k,a,b\n"), "{csv}");
}

#[test]
fn what_is_written_from_now_on_is_followed() {
    use std::io::{BufRead, BufReader};
    let stage = written();
    let mut command = drover();
    command.args(["trail", "show", "--follow", "--all", "--table", "main.t"]).arg(trail(&stage));
    let mut child = command.stdout(std::process::Stdio::piped()).spawn().expect("the binary runs");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines().map(|line| line.expect("text"));
    assert!(lines.any(|line| line.contains("a='after'")), "what is there already");
    let extract = stage.extract();
    stage.source().execute_batch("INSERT INTO t VALUES (6, 'new', 0)").expect("a row");
    assert!(lines.any(|line| line.contains("id=6, a='new'")), "what came meanwhile");
    extract.stop();
    child.kill().expect("is stopped");
    child.wait().expect("ends");
}

fn guide(name: &str) {
    let guide = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guides").join(name);
    let guide = std::fs::read_to_string(guide).expect("the guide");
    let (_, example) = guide.split_once("\n## A complete example\n").expect("the guide has an example");
    let (example, _) = example.split_once("\n## ").expect("another part follows");
    crate::readme::run(example);
}

#[test]
fn the_steps_of_the_logdump_guide_work_as_written() {
    guide("logdump.md");
}

#[test]
fn the_steps_of_the_trail_tools_guide_work_as_written() {
    guide("trail-tools.md");
}
