//! Groups that the console starts, and what GLOBALS names.

use crate::stage::{EXTRACT, REPLICAT, SET_UP, Stage, eventually, rows};
use rustix::process::{Pid, Signal, kill_process};

const SCHEMA: &str = "CREATE TABLE t (id INTEGER PRIMARY KEY, a)";

/// The process that START tells of.
fn process(told: &str) -> Pid {
    let (_, id) = told.trim().rsplit_once("process id ").expect("a process id");
    Pid::from_raw(id.trim_end_matches('.').parse().expect("a number")).expect("a process id")
}

/// The last transaction in the trail, as INFO shows it.
fn written(stage: &Stage) -> String {
    let info = stage.console("INFO EXTRACT e1");
    info.lines().find(|line| line.starts_with("Last written")).expect("the line").to_owned()
}

fn stop(stage: &Stage, process: Pid, line: &str) {
    kill_process(process, Signal::TERM).expect("the process is there");
    eventually("the group is stopped", || {
        let all = stage.console("INFO ALL");
        all.lines().any(|shown| shown.starts_with(line) && shown.contains("STOPPED")).then_some(())
    });
}

#[test]
fn the_console_starts_groups_that_outlive_it_with_options_for_one_run() {
    let stage = Stage::new(SCHEMA);
    let told = stage.console("START EXTRACT e1");
    assert!(told.starts_with("EXTRACT E1 started, process id "), "{told}");
    let extract = process(&told);
    assert!(stage.console("INFO EXTRACT e1").contains("Status RUNNING"));
    let refused = stage.console_refuses("START EXTRACT e1");
    assert!(refused.contains("DRV-00202") && refused.contains("already running"), "{refused}");
    for id in 1..=3 {
        // Each in a transaction of its own, also in the trail.
        let before = written(&stage);
        stage.source().execute("INSERT INTO t VALUES (?1, 'x')", [id]).expect("inserted");
        eventually("the trail holds it", || (written(&stage) != before).then_some(()));
    }
    let replicat = process(&stage.console("START REPLICAT r1, SKIPTRANSACTION, FILTERDUPTRANSACTIONS"));
    eventually("the later ones are applied", || {
        rows(&stage.target(), "t").iter().any(|row| row[0].contains('3')).then_some(())
    });
    assert_eq!(rows(&stage.target(), "t").len(), 2);
    stop(&stage, replicat, "REPLICAT");
    stop(&stage, extract, "EXTRACT");
    assert!(stage.text("dirout/R1.out").contains("REPLICAT R1 stopped"));
    let refused = stage.console_refuses("START REPLICAT nosuch");
    assert!(refused.contains("DRV-00301"), "{refused}");
    let refused = stage.console_refuses("START REPLICAT r1, ATCSN 1, AFTERCSN 2");
    assert!(refused.contains("REPLICAT R1 did not start") && refused.contains("AFTERCSN comes after"), "{refused}");
}

#[test]
fn globals_names_the_checkpoint_table_of_commands_that_name_none() {
    let stage = Stage::bare(SCHEMA);
    stage.parameters("e1", EXTRACT);
    stage.parameters("r1", REPLICAT);
    let login = "DBLOGIN SOURCEDB sqlite:../target.db";
    let refused = stage.console_refuses(&format!("{login}; ADD CHECKPOINTTABLE"));
    assert!(refused.contains("no checkpoint table is named") && refused.contains("GLOBALS"), "{refused}");
    std::fs::write(stage.home().join("GLOBALS"), "CHECKPOINTTABLE main.progress\n").expect("written");
    let commands =
        SET_UP.replace("CHECKPOINTTABLE main.checkpoints", "CHECKPOINTTABLE").replace(", CHECKPOINTTABLE", "");
    let told = stage.console(&commands);
    assert!(told.contains("CHECKPOINTTABLE main.progress created"), "{told}");
    let told =
        stage.console(&format!("{login}; INFO CHECKPOINTTABLE; CLEANUP CHECKPOINTTABLE; UPGRADE CHECKPOINTTABLE"));
    assert!(told.contains("Checkpoint table main.progress exists") && told.contains("R1"), "{told}");
    assert!(stage.console("INFO REPLICAT r1").contains("main.progress"));
    let refused = stage.console_refuses(&format!("{login}; ADD REPLICAT r2, EXTTRAIL ./dirdat/aa, NODBCHECKPOINT"));
    assert!(refused.contains("NODBCHECKPOINT is refused"), "{refused}");
    stage.console(&format!("{login}; DELETE REPLICAT r1; DELETE CHECKPOINTTABLE !"));
    std::fs::write(stage.home().join("GLOBALS"), "GGSCHEMA ogg\n").expect("written");
    let refused = stage.console_refuses(&format!("{login}; INFO CHECKPOINTTABLE"));
    assert!(refused.contains("GLOBALS:1:1") && refused.contains("unknown parameter"), "{refused}");
}
