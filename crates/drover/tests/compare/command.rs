//! Exit status, text and refusals of the command.

use super::{comparison, drover_compare};
use rusqlite::Connection;
use std::path::Path;
use tempfile::TempDir;

fn database(folder: &TempDir, name: &str, sql: &str) -> String {
    let path = folder.path().join(name);
    Connection::open(&path).expect("a file").execute_batch(sql).expect("the content");
    url(&path)
}

fn url(path: &Path) -> String {
    format!("sqlite:{}", path.display())
}

fn text(arguments: &[&str]) -> (String, String, i32) {
    let output = drover_compare(arguments);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr), output.status.code().expect("an exit status"))
}

#[test]
fn equal_databases_end_with_status_0_and_different_ones_with_1() {
    let folder = tempfile::tempdir().expect("a folder");
    let source = database(&folder, "a", "CREATE TABLE t(id INTEGER PRIMARY KEY, v); INSERT INTO t VALUES (1, 'x');");
    let target = database(&folder, "b", "CREATE TABLE t(id INTEGER PRIMARY KEY, v); INSERT INTO t VALUES (1, 'x');");
    let (output, _, status) = text(&[&source, &target]);
    assert_eq!(output, format!("source {source}\ntarget {target}\n\nmain.t: equal, 1 row\n\nequal: 1 table\n"));
    assert_eq!(status, 0);
    database(&folder, "b", "UPDATE t SET v = 'y'; INSERT INTO t VALUES (2, 'z'); CREATE TABLE u(a);");
    let (output, _, status) = text(&[&source, &target]);
    assert_eq!(
        output,
        format!(
            "source {source}\ntarget {target}\n\n\
             main.t: DIFFERENT, 1 row extra at target; 1 row different (1 row at source, 2 rows at target)\n  \
             different          id = 1\n  \
             extra at target    id = 2\n\
             main.u: extra at target\n\n\
             DIFFERENT: 2 of 2 tables\n"
        )
    );
    assert_eq!(status, 1);
    let (output, _, status) = text(&[&source, &target, "--rows", "1", "--tables", "t"]);
    assert!(output.contains("and 1 row more") && !output.contains("main.u"), "{output}");
    assert_eq!(status, 1);
    assert_eq!(text(&[&source, &target, "--exclude", "t", "--exclude", "u"]).2, 2);
}

#[test]
fn what_gives_no_verdict_ends_with_status_2_and_says_what_to_do() {
    let folder = tempfile::tempdir().expect("a folder");
    let source = database(&folder, "a", "CREATE TABLE t(id INTEGER PRIMARY KEY);");
    let gone = url(&folder.path().join("gone"));
    for (arguments, told) in [
        (vec![source.as_str(), &gone], "does not exist"),
        (vec![source.as_str(), "oracle://scott:tiger@h/d"], "names no database product"),
        (vec![source.as_str(), &source, "--tables", "x"], "--tables x: no table of that name"),
        (vec![source.as_str(), &source, "--map", "a.*", "b"], "--map a.* b"),
        (vec![source.as_str()], "TARGET_URL"),
    ] {
        let (output, error, status) = text(&arguments);
        assert_eq!(status, 2, "{arguments:?}");
        assert!(error.contains(told), "{arguments:?}: {error}");
        assert!(!error.contains("tiger") && !output.contains("equal"), "{error}");
    }
    std::fs::write(folder.path().join("noise"), vec![7; 4096]).expect("a file");
    assert_eq!(text(&[&source, &url(&folder.path().join("noise"))]).2, 2);
}

#[test]
fn what_belongs_to_drover_or_to_a_module_is_not_compared() {
    let folder = tempfile::tempdir().expect("a folder");
    let source =
        database(&folder, "a", "CREATE TABLE t(id INTEGER PRIMARY KEY); CREATE VIRTUAL TABLE v USING fts5(x);");
    let target = database(&folder, "b", "CREATE TABLE t(id INTEGER PRIMARY KEY); CREATE VIEW w AS SELECT 1;");
    let (comparison, status) = comparison(&[&source, &target]);
    assert_eq!(status, 0, "{comparison}");
    assert_eq!(comparison["left_out"], serde_json::json!(["source main.v (a virtual table)"]));
}

#[test]
fn mapped_tables_meet_under_other_names() {
    let folder = tempfile::tempdir().expect("a folder");
    let content = "(id INTEGER PRIMARY KEY); INSERT INTO";
    let source = database(&folder, "a", &format!("CREATE TABLE t{content} t VALUES (1); CREATE TABLE u(a);"));
    let target = database(&folder, "b", &format!("CREATE TABLE copy_T{content} copy_t VALUES (1); CREATE TABLE z(a);"));
    let (comparison, status) = comparison(&[&source, &target, "--map", "T", "copy_t"]);
    assert_eq!(status, 0, "{comparison}");
    assert_eq!(comparison["tables"][0]["source"], "main.t");
    assert_eq!(comparison["tables"][0]["target"], "main.copy_T");
    assert_eq!(comparison["tables"].as_array().expect("tables").len(), 1);
}
