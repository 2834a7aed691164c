//! What is told of conflicts: counters, commands of the console, and a command of the operator's.

use crate::stage::{EXTRACT, REPLICAT, Running, SET_UP, Stage, eventually, number};
use std::time::{Duration, Instant};

const SCHEMA: &str =
    "CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT NOT NULL, n INTEGER, w INTEGER, CHECK (n < 500)) STRICT;
                      CREATE TABLE done (id INTEGER PRIMARY KEY) STRICT;";
const RULES: &str = "REPERROR (CONSTRAINT, TRANSQUEUE)
    MAP main.t, TARGET main.t, COMPARECOLS (ON UPDATE ALL, ON DELETE ALL),
      RESOLVECONFLICT (UPDATEROWEXISTS, (d, USEDELTA, COLS (n)), (DEFAULT, USEMAX (w)));
    MAP main.done, TARGET main.done;";

/// A Replicat with rules, `hook` in front of them, and an error queue.
fn stage(hook: &str) -> (Stage, String) {
    let stage = Stage::bare(&SCHEMA.replace(", CHECK (n < 500)", ""));
    stage.target().execute_batch(&format!("DROP TABLE t; DROP TABLE done; {SCHEMA}")).expect("tables");
    stage.parameters("e1", EXTRACT);
    stage.parameters("r1", &REPLICAT.replace("MAP main.*, TARGET main.*;", &format!("{hook}\n{RULES}")));
    let told = stage.console(SET_UP);
    stage.console("DBLOGIN SOURCEDB sqlite:../target.db; ADD ERRORQUEUE");
    (stage, told)
}

/// Makes `conflicts` conflicts over two columns each and one transaction that is parked, and waits until all is applied.
fn conflict(stage: &Stage, conflicts: i64, running: &[&Running]) {
    let (source, target) = (stage.source(), stage.target());
    let rows = (1..=conflicts).map(|id| format!("INSERT INTO t VALUES ({id}, 'a', 10, 1);")).collect::<String>();
    source.execute_batch(&rows).expect("rows");
    eventually("the rows arrive", || {
        running.iter().for_each(|group| group.assert_running());
        (number(&target, "SELECT count(*) FROM t") == conflicts).then_some(())
    });
    target.execute_batch("UPDATE t SET v = 'b', n = 20, w = 2").expect("changes of the target's own");
    let wait = |what: &str, sql: &str, count: i64| {
        eventually(what, || {
            running.iter().for_each(|group| group.assert_running());
            (number(&target, sql) == count).then_some(())
        });
    };
    // One after another: neighbouring transactions of SQLite may be told as one, which would be parked as a whole.
    source.execute_batch("UPDATE t SET v = 'c', n = 15, w = 3").expect("changes");
    wait("the conflicts are settled", "SELECT count(*) FROM drover_conflict", 2 * conflicts);
    source.execute_batch("INSERT INTO t VALUES (1000, 'refused', 600, 1)").expect("a row");
    wait("a transaction is parked", "SELECT count(*) FROM drover_deferror", 1);
    source.execute_batch("INSERT INTO done VALUES (1)").expect("the signal");
    wait("the last transaction arrives", "SELECT count(*) FROM done", 1);
}

/// A script of the shell that the hook runs; the hook itself is run without one.
fn script(stage: &Stage, text: &str) -> String {
    use std::os::unix::fs::PermissionsExt;
    let path = stage.home().join("hook.sh");
    std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).expect("a script");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("its rights");
    path.display().to_string()
}

#[test]
fn counts_of_conflicts_and_parked_transactions_are_those_of_the_target_and_the_hook_is_told_of_each() {
    let (stage, _) = stage("CONFLICTHOOK ./hook.sh by $HOME");
    script(&stage, "printf '%s|%s|' \"$1\" \"$2\" >> told.txt; cat >> told.txt");
    let (extract, replicat) = (stage.extract(), stage.replicat());
    conflict(&stage, 3, &[&extract, &replicat]);
    let target = stage.target();
    // Plain SQL of the target.
    for (sql, expected) in [
        (
            "SELECT count(*) FROM drover_represolution_statistics WHERE method_name = 'USEDELTA' AND resolution = 'merged'",
            3,
        ),
        ("SELECT count(*) FROM drover_represolution_statistics WHERE method_name = 'USEMAX' AND oname = 't'", 3),
        ("SELECT count(DISTINCT primary_key_value) FROM drover_conflict WHERE conflict_type = 'UPDATEROWEXISTS'", 3),
        ("SELECT errcount FROM drover_deferrcount WHERE destination = 'R1'", 1),
        ("SELECT count(*) FROM drover_defcall", 1),
    ] {
        assert_eq!(number(&target, sql), expected, "{sql}");
    }
    let counts = "UPDATEROWEXISTS of main.t: 3 resolved, 0 failed (USEDELTA 3, USEMAX 3)";
    for command in ["STATS REPLICAT r1", "SEND REPLICAT r1, STATUS", "STATS REPLICAT r1, TOTAL"] {
        let told = stage.console(command);
        assert!(told.contains(&format!("Conflicts: {counts}")), "{command}: {told}");
        assert!(told.contains("Error queue: 1 transactions parked since the start"), "{command}: {told}");
    }
    let info = stage.console("INFO REPLICAT r1");
    assert!(
        info.contains(&format!("Conflicts             {counts}")) && info.contains("Error queue           1 "),
        "{info}"
    );
    eventually("the hook has been told", || {
        let told = std::fs::read_to_string(stage.home().join("told.txt")).unwrap_or_default();
        (told.lines().count() == 4).then_some(())
    });
    extract.stop();
    replicat.stop();
    let told = stage.text("told.txt");
    let events: Vec<serde_json::Value> = told
        .lines()
        .map(|line| {
            let json = line.strip_prefix("by|$HOME|").unwrap_or_else(|| panic!("arguments: {line}"));
            serde_json::from_str(json).expect("one JSON object a line")
        })
        .collect();
    let parked: Vec<_> = events.iter().filter(|event| event["event"] == "parked").collect();
    assert_eq!(parked.len(), 1, "{told}");
    let id =
        stage.target().query_row("SELECT deferred_tran_id FROM drover_deferror", [], |row| row.get::<_, String>(0));
    assert_eq!(parked[0]["deferred_tran_id"], id.expect("an id"));
    for event in events.iter().filter(|event| event["event"] == "conflict") {
        assert_eq!((&event["group"], &event["table"]), (&"R1".into(), &"main.t".into()));
        assert_eq!((&event["conflict_type"], &event["settled"]), (&"UPDATEROWEXISTS".into(), &true.into()));
        assert_eq!(event["methods"].as_array().map(Vec::len), Some(2), "{event}");
        assert!(!told.contains("\"c\""), "values of rows stay in the database");
    }
    // The report says the same.
    let report = stage.text("dirrpt/R1.rpt");
    let line = "UPDATEROWEXISTS conflicts of main.t: 3 resolved, 0 failed (USEDELTA 3, USEMAX 3)";
    assert!(report.contains(line) && report.contains("Filtered because in the error queue: 1"), "{report}");
}

#[test]
fn a_hook_that_hangs_or_fails_holds_nothing_up() {
    for (text, told) in
        [("sleep 60", "took too long and was ended"), ("exit 3", "failed: exit status: 3"), ("", "could not be run")]
    {
        let (stage, _) = stage("CONFLICTHOOK ./hook.sh");
        if !text.is_empty() {
            script(&stage, text);
        }
        let (extract, replicat) = (stage.extract(), stage.replicat());
        let begin = Instant::now();
        conflict(&stage, 20, &[&extract, &replicat]);
        assert!(begin.elapsed() < Duration::from_secs(9), "no row has waited for the hook");
        extract.stop();
        let begin = Instant::now();
        replicat.stop();
        assert!(begin.elapsed() < Duration::from_secs(8), "{text}: nor has the stop");
        let log = stage.event_log();
        assert_eq!(log.matches(&format!("CONFLICTHOOK ./hook.sh {told}")).count(), 1, "{log}");
        assert!(log.contains("DRV-00910"), "{log}");
        // Apply is right all the same.
        assert_eq!(number(&stage.target(), "SELECT count(*) FROM t WHERE v = 'c' AND n = 25"), 20);
    }
}

#[test]
fn methods_that_leave_sites_different_are_named_when_the_group_is_added_and_when_it_starts() {
    for (sites, number) in [("", 2), ("CONFLICTSITES 3", 3), ("CONFLICTSITES 1", 1)] {
        let (stage, told) = stage(sites);
        let warning = format!("USEMAX of UPDATEROWEXISTS DEFAULT may leave {number} sites different");
        assert_eq!(told.contains("WARNING DRV-00903"), number > 1, "{told}");
        assert_eq!(told.contains(&warning), number > 1, "{told}");
        // A method that adds up leaves any number of sites equal.
        assert!(!told.contains("USEDELTA"), "{told}");
        let (extract, replicat) = (stage.extract(), stage.replicat());
        conflict(&stage, 1, &[&extract, &replicat]);
        extract.stop();
        replicat.stop();
        assert_eq!(stage.text("dirrpt/R1.rpt").contains(&warning), number > 1);
    }
    let stage = Stage::bare(SCHEMA);
    for (wrong, what) in [("CONFLICTSITES 0", "no number of sites"), ("CONFLICTHOOK", "the command is missing")] {
        stage.parameters("r1", &format!("{REPLICAT}{wrong}\n"));
        stage.console(SET_UP);
        let ended = stage.replicat().wait();
        assert!(!ended.status.success() && ended.stderr.contains(what), "{}", ended.stderr);
        stage.console("DBLOGIN SOURCEDB sqlite:../source.db; DELETE EXTRACT e1; DBLOGIN SOURCEDB sqlite:../target.db; DELETE REPLICAT r1; DELETE CHECKPOINTTABLE main.checkpoints !");
    }
}
