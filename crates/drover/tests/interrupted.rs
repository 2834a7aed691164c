//! ADD and DELETE that are killed half-way can be given again and undone.

use crate::stage::{Running, SET_UP, Stage, drover, query};
use std::time::Duration;

const SCHEMA: &str = "CREATE TABLE t (id INTEGER PRIMARY KEY, a)";

fn objects(stage: &Stage) -> Vec<Vec<Vec<String>>> {
    let all = "SELECT type, name FROM sqlite_schema WHERE name NOT LIKE 'sqlite_%'";
    ["source.db", "target.db"].map(|database| query(&stage.open(database), all)).to_vec()
}

/// Starts a console and kills it after a random time.
fn kill_console(stage: &Stage, commands: &str, random: &mut fastrand::Rng) {
    let mut command = drover();
    command.arg("--home").arg(stage.home()).args(["-c", commands]);
    let console = Running::start(command);
    // The moment of the kill is the test's input.
    std::thread::sleep(Duration::from_micros(random.u64(0..40_000)));
    console.kill();
}

/// Gives each command until it is done, however far an earlier, killed one had come.
fn give_again(stage: &Stage, commands: &str) {
    let mut login = "";
    for command in commands.lines().map(str::trim) {
        if command.starts_with("DBLOGIN") {
            login = command;
            continue;
        }
        let output = stage.try_console(&format!("{login}; {command}"));
        let message = String::from_utf8_lossy(&output.stderr);
        // A console that was killed had perhaps done it.
        let done =
            ["exists already", "has a writer", "no checkpoint file", "no Extract of this home", "no checkpoint table"];
        assert!(output.status.success() || done.iter().any(|text| message.contains(text)), "{command}: {message}");
    }
}

const TEAR_DOWN: &str = "\
    DBLOGIN SOURCEDB sqlite:../source.db
    DELETE EXTTRAIL ./dirdat/aa
    DELETE EXTRACT e1
    DBLOGIN SOURCEDB sqlite:../target.db
    DELETE REPLICAT r1
    DELETE CHECKPOINTTABLE main.checkpoints !";

#[test]
fn commands_that_were_killed_at_any_moment_can_be_given_again() {
    let seed = std::env::var("DROVER_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| fastrand::u64(..1_000_000));
    println!("DROVER_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let stage = Stage::bare(SCHEMA);
    let before = objects(&stage);
    for _ in 0..25 {
        kill_console(&stage, SET_UP, &mut random);
        give_again(&stage, SET_UP);
        let info = stage.console("INFO ALL");
        assert!(info.contains("E1") && info.contains("R1"), "{info}");
        kill_console(&stage, TEAR_DOWN, &mut random);
        give_again(&stage, TEAR_DOWN);
        assert_eq!(objects(&stage), before);
        let info = stage.console("INFO ALL");
        assert!(!info.contains("E1") && !info.contains("R1"), "{info}");
    }
    kill_console(&stage, SET_UP, &mut random);
    give_again(&stage, SET_UP);
    stage.source().execute_batch("INSERT INTO t VALUES (1, 'x')").expect("an insert");
    stage.replicate(&["t"]);
}

#[test]
fn an_add_that_was_killed_after_it_changed_the_database_is_repeated_and_undone() {
    for undo in [false, true] {
        let stage = Stage::bare(SCHEMA);
        let before = objects(&stage);
        // The state between registering capture and creating the checkpoint file.
        stage.console(SET_UP);
        let chk = stage.home().join("dirchk");
        for (file, note) in [("E1.cpe", "E1.cpe-unfinished"), ("R1.cpr", "R1.cpr-unfinished")] {
            std::fs::remove_file(chk.join(file)).expect("the checkpoint file is there");
            let key = crate::stage::number(&stage.target(), "SELECT group_key FROM checkpoints");
            let text =
                format!("{{\"deleting\": false, \"checkpoint_table\": \"main.checkpoints\", \"group_key\": {key}}}");
            std::fs::write(chk.join(note), text).expect("a note");
        }
        if undo {
            stage.console(
                "DBLOGIN SOURCEDB sqlite:../source.db; DELETE EXTRACT e1
                 DBLOGIN SOURCEDB sqlite:../target.db; DELETE REPLICAT r1; DELETE CHECKPOINTTABLE main.checkpoints !",
            );
            assert_eq!(objects(&stage), before);
        } else {
            stage.console(
                "DBLOGIN SOURCEDB sqlite:../source.db; ADD EXTRACT e1, TRANLOG, BEGIN NOW
                 ADD EXTTRAIL ./dirdat/aa, EXTRACT e1
                 DBLOGIN SOURCEDB sqlite:../target.db
                 ADD REPLICAT r1, EXTTRAIL ./dirdat/aa, CHECKPOINTTABLE main.checkpoints",
            );
            stage.source().execute_batch("INSERT INTO t VALUES (1, 'x')").expect("an insert");
            stage.replicate(&["t"]);
        }
    }
}
