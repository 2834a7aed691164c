//! `drover logdump`, fed with scripts.

use crate::stage::{Stage, drover};
use std::io::Write;
use std::path::Path;
use std::process::{Output, Stdio};

/// Runs a script in a directory.
pub fn script(directory: &Path, commands: &str) -> Output {
    let mut command = drover();
    command.arg("logdump").current_dir(directory).env("TZ", "UTC");
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary runs");
    let mut input = child.stdin.take().expect("a pipe");
    input.write_all(commands.as_bytes()).expect("it listens");
    drop(input);
    child.wait_with_output().expect("it ends")
}

#[test]
fn a_script_reads_a_trail_and_tells_whether_all_of_it_was_done() {
    let stage = Stage::new("CREATE TABLE t (id INTEGER PRIMARY KEY, a TEXT)");
    let rows = "INSERT INTO t VALUES (1, 'one'), (2, 'two'); UPDATE t SET a = 'three' WHERE id = 2; DELETE FROM t WHERE id = 1";
    stage.source().execute_batch(rows).expect("rows");
    stage.replicate(&["t"]);
    let directory = stage.home().join("dirdat");
    let told = script(&directory, "OPEN aa000000000\nCOUNT, DETAIL\n-- a remark\n\nFILTER INC RECTYPE Insert; N 99\n");
    assert!(told.status.success(), "{told:?}");
    let text = String::from_utf8_lossy(&told.stdout);
    assert!(text.contains(&format!("{}/aa000000000 has ", directory.display())), "{text}");
    for line in ["Delete                       1", "Insert                       2"] {
        assert!(text.lines().any(|shown| shown == line), "{line}\n{text}");
    }
    assert_eq!(text.matches("Name: main.t  (TDR Index: 1)").count(), 2, "the filter holds: {text}");

    let told = script(&directory, "OPEN nothing\nOPEN aa000000000\nEXIT\nNEXT");
    assert_eq!(told.status.code(), Some(1), "{told:?}");
    let (text, error) = (String::from_utf8_lossy(&told.stdout), String::from_utf8_lossy(&told.stderr));
    assert!(text.ends_with("aa000000000\n") && error.contains("nothing: No such file"), "{text}{error}");
}
