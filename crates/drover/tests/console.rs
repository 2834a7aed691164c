//! The console: help, mistakes, and what INFO shows.

use crate::stage::{SET_UP, Stage, drover, eventually, number};
use change::Timestamp;
use process::{Checkpoint, CheckpointBody, CheckpointFile, GroupKind, GroupName};
use std::sync::Arc;

const SCHEMA: &str = "CREATE TABLE t (id INTEGER PRIMARY KEY, a)";

#[test]
fn help_on_the_command_line_names_every_part_and_gives_examples() {
    let output = drover().arg("--help").output().expect("the binary runs");
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    for word in ["init", "extract", "replicat", "logdump", "demo", "--home", "-c", "Examples:", "Exit status"] {
        assert!(text.contains(word), "{word} is not in\n{text}");
    }
    assert!(!text.contains("demo-writer"), "{text}");
    for part in ["init", "extract", "replicat", "logdump", "demo"] {
        let output = drover().args([part, "--help"]).output().expect("the binary runs");
        assert!(output.status.success() && !output.stdout.is_empty(), "{part}");
    }
}

#[test]
fn wrong_usage_has_exit_status_2() {
    let stage = Stage::bare(SCHEMA);
    for arguments in
        [vec!["nosuch"], vec!["extract"], vec!["--nosuch"], vec!["demo", "--rows", "x"], vec!["-c", "INFO ALL"]]
    {
        let output = drover().args(&arguments).output().expect("the binary runs");
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {output:?}");
        assert!(!output.stderr.is_empty());
    }
    let output = stage.try_console("INFO ALL; ADD EXTRCT e1");
    assert_eq!(output.status.code(), Some(2));
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(message.contains("^^^^^^") && message.contains("did you mean EXTRACT?"), "{message}");
    assert!(message.contains("no command was run") && output.stdout.is_empty(), "{output:?}");
}

#[test]
fn console_help_lists_all_commands_and_explains_one() {
    let stage = Stage::bare(SCHEMA);
    let list = stage.console("HELP");
    for command in ["DBLOGIN", "ADD EXTRACT", "ADD EXTTRAIL", "ADD REPLICAT", "INFO ALL", "DELETE CHECKPOINTTABLE"] {
        assert!(list.contains(command), "{command} is not in\n{list}");
    }
    let explained = stage.console("help add exttrail");
    assert!(explained.contains("[, MEGABYTES n]") && explained.contains("500 by default"), "{explained}");
    assert!(stage.console("HELP INFO").contains("INFO REPLICAT group"));
    assert!(stage.console_refuses("HELP ADD EXTRAKT").contains("did you mean ADD EXTRACT?"));
}

#[test]
fn commands_come_from_standard_input_too_and_the_home_from_the_environment() {
    let stage = Stage::bare(SCHEMA);
    let script = stage.path().join("script");
    std::fs::write(
        &script,
        "-- set up\nDBLOGIN SOURCEDB &\n  sqlite:../source.db\nADD EXTRACT e1, TRANLOG, BEGIN NOW;\ninfo all\n",
    )
    .expect("a file");
    let input = std::fs::File::open(&script).expect("the file");
    let output = drover().env("DROVER_HOME", stage.home()).stdin(input).output().expect("the binary runs");
    assert!(output.status.success(), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("E1"), "{output:?}");
}

#[test]
fn a_command_that_fails_stops_the_rest_and_says_what_was_done() {
    let stage = Stage::bare(SCHEMA);
    let message = stage.console_refuses(
        "DBLOGIN SOURCEDB sqlite:../source.db; ADD EXTRACT e1, TRANLOG, BEGIN NOW; ADD EXTTRAIL ./dirdat/aa, EXTRACT e9; INFO ALL",
    );
    assert!(message.contains("ADD EXTTRAIL ./dirdat/aa, EXTRACT e9") && message.contains("E9"), "{message}");
    assert!(message.contains("2 of 4 commands were done before, 1 were not run"), "{message}");
    assert!(stage.console("INFO ALL").contains("E1"));
    let refused = stage.console_refuses("ADD EXTRACT e2, TRANLOG, BEGIN NOW");
    assert!(refused.contains("DBLOGIN"), "{refused}");
    let refused = stage.console_refuses("DBLOGIN SOURCEDB sqlite:../nosuch.db");
    assert!(refused.contains("nosuch.db"), "{refused}");
    let refused = stage.console_refuses("DBLOGIN SOURCEDB oracle://scott:tiger@host/x");
    assert!(refused.contains("sqlite:") && !refused.contains("tiger"), "{refused}");
    assert!(!stage.event_log().contains("tiger"), "{}", stage.event_log());
}

#[test]
fn what_exists_is_not_added_again() {
    let stage = Stage::new(SCHEMA);
    for (login, command, words) in [
        ("source", "ADD EXTRACT e1, TRANLOG, BEGIN NOW", "E1"),
        ("source", "ADD EXTTRAIL ./dirdat/aa, EXTRACT e1", "./dirdat/aa"),
        ("target", "ADD CHECKPOINTTABLE main.checkpoints", "checkpoints"),
        ("target", "ADD REPLICAT r1, EXTTRAIL ./dirdat/aa, CHECKPOINTTABLE main.checkpoints", "R1"),
        ("target", "ADD REPLICAT r2, EXTTRAIL ./dirdat/aa, CHECKPOINTTABLE main.nosuch", "nosuch"),
    ] {
        let message = stage.console_refuses(&format!("DBLOGIN SOURCEDB sqlite:../{login}.db; {command}"));
        assert!(message.contains(words), "{command}: {message}");
    }
    // One trail has one writer.
    stage.console("DBLOGIN SOURCEDB sqlite:../source.db; ADD EXTRACT e2, TRANLOG, BEGIN NOW");
    let message = stage.console_refuses("ADD EXTTRAIL ./dirdat/aa, EXTRACT e2");
    assert!(message.contains("E1"), "{message}");
    // What is left of a trail tells how far it is synced; a new one would be measured by it.
    std::fs::write(stage.home().join("dirdat/zz.safe"), "left").expect("writes");
    let message = stage.console_refuses("ADD EXTTRAIL ./dirdat/zz, EXTRACT e2");
    assert!(message.contains("zz.safe"), "{message}");
}

/// The line of INFO ALL about a group, as words.
fn info_all(stage: &Stage, group: &str) -> Vec<String> {
    let text = stage.console("INFO ALL");
    let line = text.lines().find(|line| line.split_whitespace().nth(2) == Some(group));
    line.unwrap_or_else(|| panic!("{group} is not in\n{text}")).split_whitespace().map(str::to_owned).collect()
}

#[test]
fn info_shows_true_states_through_start_kill_and_stop() {
    let stage = Stage::new(SCHEMA);
    let header = stage.console("INFO ALL");
    let header: Vec<&str> = header.lines().find(|line| !line.is_empty()).expect("a line").split_whitespace().collect();
    assert_eq!(header.join(" "), "Program Status Group Lag at Chkpt Time Since Chkpt");
    assert_eq!(info_all(&stage, "E1")[..3], ["EXTRACT", "STOPPED", "E1"]);
    assert_eq!(info_all(&stage, "R1")[..3], ["REPLICAT", "STOPPED", "R1"]);
    let (extract, replicat) = (stage.extract(), stage.replicat());
    stage.source().execute_batch("INSERT INTO t VALUES (1, 'x')").expect("an insert");
    stage.wait_until_equal(&["t"], &extract, &replicat);
    assert_eq!(info_all(&stage, "E1")[1], "RUNNING");
    assert_eq!(info_all(&stage, "R1")[1], "RUNNING");
    let shown = stage.console("INFO EXTRACT e1");
    assert!(shown.contains("Status RUNNING"), "{shown}");
    assert!(
        shown.lines().any(|line| line.split_whitespace().eq(["Process", "ID", &extract.id().to_string()])),
        "{shown}"
    );
    extract.kill();
    replicat.kill();
    assert_eq!(info_all(&stage, "E1")[1], "ABENDED");
    assert_eq!(info_all(&stage, "R1")[1], "ABENDED");
    assert!(!stage.console("INFO EXTRACT e1").contains("Process ID"));
    let (extract, replicat) = (stage.extract(), stage.replicat());
    stage.source().execute_batch("INSERT INTO t VALUES (2, 'y')").expect("an insert");
    stage.wait_until_equal(&["t"], &extract, &replicat);
    extract.stop();
    replicat.stop();
    assert_eq!(info_all(&stage, "E1")[1], "STOPPED");
    assert_eq!(info_all(&stage, "R1")[1], "STOPPED");
}

#[test]
fn info_numbers_are_those_of_the_files_and_of_the_checkpoint_table() {
    let stage = Stage::new(SCHEMA);
    let source = stage.source();
    source.execute_batch("INSERT INTO t VALUES (1, 'x'), (2, 'y')").expect("an insert");
    stage.replicate(&["t"]);
    let last = stage.trail_files().pop().expect("a trail file");
    let length = last.metadata().expect("the file").len();
    let sequence: u32 = last.file_name().expect("a name").to_string_lossy()[2..].parse().expect("a number");
    let extract = stage.console("INFO EXTRACT e1");
    let trail_line = extract.lines().find(|line| line.trim_start().starts_with("./dirdat/aa"));
    let words: Vec<&str> = trail_line.unwrap_or_else(|| panic!("{extract}")).split_whitespace().collect();
    assert_eq!(words, ["./dirdat/aa", &sequence.to_string(), &length.to_string(), "500", "EXTTRAIL"], "{extract}");
    let replicat = stage.console("INFO REPLICAT r1");
    let target = stage.target();
    let (seqno, rba) =
        (number(&target, "SELECT seqno FROM checkpoints"), number(&target, "SELECT rba FROM checkpoints"));
    assert!(replicat.contains(&format!("File ./dirdat/aa{seqno:09}")), "{replicat}");
    assert!(replicat.contains(&format!("RBA {rba}")), "{replicat}");
    assert!(replicat.contains("main.checkpoints"), "{replicat}");
    let exists = stage.console("DBLOGIN SOURCEDB sqlite:../target.db; INFO CHECKPOINTTABLE main.checkpoints");
    assert!(exists.contains("main.checkpoints exists"), "{exists}");
    let absent = stage.console("DBLOGIN SOURCEDB sqlite:../source.db; INFO CHECKPOINTTABLE checkpoints");
    assert!(absent.contains("main.checkpoints does not exist"), "{absent}");
}

#[test]
fn a_replicat_waits_for_a_trail_that_is_not_there_yet() {
    let stage = Stage::new(SCHEMA);
    let replicat = stage.replicat();
    eventually("it runs", || (info_all(&stage, "R1")[1] == "RUNNING").then_some(()));
    replicat.stop();
    assert_eq!(info_all(&stage, "R1")[1], "STOPPED");
    let replicat = stage.replicat();
    eventually("it runs", || (info_all(&stage, "R1")[1] == "RUNNING").then_some(()));
    let extract = stage.extract();
    stage.source().execute_batch("INSERT INTO t VALUES (1, 'x')").expect("an insert");
    stage.wait_until_equal(&["t"], &extract, &replicat);
    extract.stop();
    replicat.stop();
}

/// Changes the last checkpoint of a stopped group.
fn change_checkpoint(stage: &Stage, kind: GroupKind, group: &str, change: impl FnOnce(&mut Checkpoint)) {
    let storage = Arc::new(trail::storage::Directory::new(stage.home().join("dirchk")));
    let group = GroupName::parse(group).expect("a name");
    let mut file = CheckpointFile::open(storage, kind, &group).expect("the checkpoint file");
    let mut checkpoint = file.latest().clone();
    change(&mut checkpoint);
    file.save(&checkpoint).expect("it can be saved");
}

#[test]
fn lag_at_the_checkpoint_is_the_age_of_what_it_covers() {
    let stage = Stage::new(SCHEMA);
    stage.source().execute_batch("INSERT INTO t VALUES (1, 'x')").expect("an insert");
    stage.replicate(&["t"]);
    let age = |time: Timestamp, seconds: i64| Timestamp::from_unix_micros(time.unix_micros - seconds * 1_000_000);
    change_checkpoint(&stage, GroupKind::Extract, "E1", |checkpoint| {
        let time = age(checkpoint.updated, 3_725);
        let CheckpointBody::Extract(body) = &mut checkpoint.body else { panic!("an Extract's") };
        body.current.time = Some(time);
    });
    assert_eq!(info_all(&stage, "E1")[3], "01:02:05");
    // The Replicat has not reached the end of its trail.
    let extract = stage.extract();
    stage.source().execute_batch("INSERT INTO t VALUES (2, 'captured')").expect("an insert");
    eventually("the row is in the trail", || stage.trail_shows("captured").then_some(()));
    extract.stop();
    change_checkpoint(&stage, GroupKind::Replicat, "R1", |checkpoint| {
        let time = age(checkpoint.updated, 400_000);
        let CheckpointBody::Replicat(body) = &mut checkpoint.body else { panic!("a Replicat's") };
        body.applied.as_mut().expect("a transaction was applied").time = time;
    });
    assert_eq!(info_all(&stage, "R1")[3], "111:06:40");
    assert!(stage.console("INFO REPLICAT r1").contains("111:06:40 (updated "));
}

#[test]
fn groups_that_have_nothing_to_do_do_not_lag() {
    let stage = Stage::new(SCHEMA);
    let (extract, replicat) = (stage.extract(), stage.replicat());
    stage.source().execute_batch("INSERT INTO t VALUES (1, 'x')").expect("an insert");
    stage.wait_until_equal(&["t"], &extract, &replicat);
    // Time must pass for a lag to be seen; nothing is waited for here.
    std::thread::sleep(std::time::Duration::from_millis(2100));
    extract.stop();
    replicat.stop();
    for group in ["E1", "R1"] {
        let shown = info_all(&stage, group);
        assert!(["00:00:00", "00:00:01"].contains(&&*shown[3]), "{shown:?}");
    }
}

#[test]
fn every_command_is_in_the_event_log() {
    let stage = Stage::new(SCHEMA);
    let log = stage.event_log();
    for command in SET_UP.lines().map(str::trim) {
        assert!(log.contains(command), "{command} is not in\n{log}");
    }
}

#[test]
fn a_trail_is_shown_and_other_files_are_refused() {
    let stage = Stage::new(SCHEMA);
    stage.source().execute_batch("INSERT INTO t VALUES (1, 'a value to be found')").expect("an insert");
    stage.replicate(&["t"]);
    let output = drover().args(["trail", "show"]).arg(&stage.trail_files()[0]).output().expect("the binary runs");
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("a value to be found") && text.contains("main.t"), "{text}");
    for file in ["dirprm/e1.prm", "dirdat/aa000000099", "dirdat"] {
        let output = drover().args(["trail", "show"]).arg(stage.home().join(file)).output().expect("the binary runs");
        assert_eq!(output.status.code(), Some(1), "{file}: {output:?}");
        assert!(
            String::from_utf8_lossy(&output.stderr).contains(file.rsplit('/').next().expect("a name")),
            "{output:?}"
        );
    }
}
