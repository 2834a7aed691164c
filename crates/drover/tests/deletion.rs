//! What was added can be deleted, and leaves the databases as they were.

use crate::stage::{SET_UP, Stage, query};

const SCHEMA: &str = "CREATE TABLE t (id INTEGER PRIMARY KEY, a)";

fn objects(stage: &Stage, database: &str) -> Vec<Vec<String>> {
    query(&stage.open(database), "SELECT type, name FROM sqlite_schema WHERE name NOT LIKE 'sqlite_%'")
}

#[test]
fn deleting_everything_leaves_both_databases_as_they_were_and_the_groups_can_be_added_again() {
    let stage = Stage::bare(SCHEMA);
    let (source, target) = (objects(&stage, "source.db"), objects(&stage, "target.db"));
    for round in 1..=2 {
        stage.console(SET_UP);
        assert_ne!(objects(&stage, "source.db"), source);
        stage.source().execute("INSERT INTO t VALUES (?1, 'x')", [round]).expect("an insert");
        stage.replicate(&["t"]);
        stage.console(
            "DBLOGIN SOURCEDB sqlite:../source.db; DELETE EXTTRAIL ./dirdat/aa; DELETE EXTRACT e1
             DBLOGIN SOURCEDB sqlite:../target.db; DELETE REPLICAT r1; DELETE CHECKPOINTTABLE main.checkpoints !",
        );
        assert_eq!(objects(&stage, "source.db"), source);
        assert_eq!(objects(&stage, "target.db"), target);
        let info = stage.console("INFO ALL");
        assert!(!info.contains("E1") && !info.contains("R1"), "{info}");
        // Trail files stay when a group goes; the next group of that name wants a trail of its own.
        assert!(!stage.trail_files().is_empty());
        let refused = stage.console_refuses(SET_UP);
        assert!(refused.contains("aa000000000"), "{refused}");
        stage.console("DBLOGIN SOURCEDB sqlite:../source.db; DELETE EXTRACT e1");
        for entry in std::fs::read_dir(stage.home().join("dirdat")).expect("dirdat") {
            std::fs::remove_file(entry.expect("an entry").path()).expect("the file is there");
        }
    }
}

#[test]
fn what_is_in_use_is_not_deleted() {
    let stage = Stage::new(SCHEMA);
    let login = "DBLOGIN SOURCEDB sqlite:../target.db; ";
    let message = stage.console_refuses(&format!("{login}DELETE CHECKPOINTTABLE main.checkpoints !"));
    assert!(message.contains("R1"), "{message}");
    stage.console(&format!("{login}DELETE REPLICAT r1"));
    let message = stage.console_refuses(&format!("{login}DELETE CHECKPOINTTABLE main.checkpoints"));
    assert!(message.contains('!'), "{message}");
    stage.console(&format!("{login}DELETE CHECKPOINTTABLE main.checkpoints !"));
    let message = stage.console_refuses(&format!("{login}DELETE CHECKPOINTTABLE main.checkpoints !"));
    assert!(message.contains("checkpoints"), "{message}");
    for command in [
        "DELETE EXTRACT e7",
        "DELETE REPLICAT r7",
        "DELETE EXTTRAIL ./dirdat/zz",
        "INFO EXTRACT e7",
        "INFO REPLICAT r7",
    ] {
        let message = stage.console_refuses(&format!("{login}{command}"));
        assert!(message.contains("E7") || message.contains("R7") || message.contains("zz"), "{command}: {message}");
    }
}

#[test]
fn a_login_to_the_wrong_database_deletes_nothing() {
    let stage = Stage::new(SCHEMA);
    let message = stage.console_refuses("DBLOGIN SOURCEDB sqlite:../target.db; DELETE EXTRACT e1");
    assert!(message.contains("E1") && message.contains("next step"), "{message}");
    let message = stage.console_refuses("DBLOGIN SOURCEDB sqlite:../source.db; DELETE REPLICAT r1");
    assert!(message.contains("checkpoints") && message.contains("next step"), "{message}");
    stage.source().execute_batch("INSERT INTO t VALUES (1, 'x')").expect("an insert");
    stage.replicate(&["t"]);
}

#[test]
fn an_extract_of_another_home_is_not_taken_over_and_a_replicat_of_the_same_name_is_another_one() {
    let stage = Stage::new(SCHEMA);
    let other = stage.path().join("other");
    let console = |commands: &str| {
        crate::stage::drover().arg("--home").arg(&other).args(["-c", commands]).output().expect("the binary runs")
    };
    assert!(crate::stage::drover().arg("init").arg(&other).output().expect("the binary runs").status.success());
    for _ in 0..2 {
        let refused = console("DBLOGIN SOURCEDB sqlite:../source.db; ADD EXTRACT e1, TRANLOG, BEGIN NOW");
        assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    }
    let login = "DBLOGIN SOURCEDB sqlite:../target.db";
    let added = console(&format!("{login}; ADD REPLICAT r1, EXTTRAIL ./dirdat/aa, CHECKPOINTTABLE main.checkpoints"));
    assert!(added.status.success(), "{added:?}");
    stage.source().execute_batch("INSERT INTO t VALUES (1, 'x')").expect("an insert");
    stage.replicate(&["t"]);
    // The home whose checkpoint file is lost takes its own row away and leaves the other one alone.
    std::fs::remove_file(other.join("dirchk/R1.cpr")).expect("the checkpoint file is there");
    let deleted = console(&format!("{login}; DELETE REPLICAT r1, CHECKPOINTTABLE main.checkpoints !"));
    assert!(deleted.status.success(), "{deleted:?}");
    assert_eq!(crate::stage::number(&stage.target(), "SELECT count(*) FROM checkpoints"), 1);
    stage.source().execute_batch("INSERT INTO t VALUES (2, 'y')").expect("an insert");
    stage.replicate(&["t"]);
}

#[test]
fn deleting_without_a_database_needs_force_and_says_what_stays() {
    let stage = Stage::new(SCHEMA);
    let message = stage.console_refuses("DELETE EXTRACT e1");
    assert!(message.contains("DBLOGIN"), "{message}");
    let done = stage.console("DELETE EXTRACT e1 !; DELETE REPLICAT r1 !");
    assert!(done.contains("E1") && done.contains("source"), "{done}");
    // What stayed in the source can still be taken away.
    stage.console("DBLOGIN SOURCEDB sqlite:../source.db; DELETE EXTRACT e1 !");
    assert_eq!(objects(&stage, "source.db"), query(&stage.source(), "SELECT 'table', 't'"));
}
