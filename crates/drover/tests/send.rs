//! Asking running groups: SEND, STOP, STATUS, LAG and STATS.

use crate::showch::value;
use crate::stage::{Stage, eventually, number};

const SCHEMA: &str = "CREATE TABLE t (id INTEGER PRIMARY KEY, a TEXT)";

/// The value behind a label of an answer.
#[track_caller]
fn told<'a>(answer: &'a str, label: &str) -> &'a str {
    let line = answer.lines().find_map(|line| line.trim().strip_prefix(label)?.strip_prefix(':'));
    line.unwrap_or_else(|| panic!("{label} is not in {answer}")).trim()
}

/// Waits until both groups have nothing more to do.
fn wait_for_end(stage: &Stage) {
    for group in ["EXTRACT e1", "REPLICAT r1"] {
        eventually("the group is at its end", || {
            let output = stage.try_console(&format!("SEND {group}, LOGEND"));
            String::from_utf8_lossy(&output.stdout).contains("YES.").then_some(())
        });
    }
}

#[test]
fn running_groups_tell_where_they_stand_and_what_they_have_done() {
    let stage = Stage::new(SCHEMA);
    let (extract, replicat) = (stage.extract(), stage.replicat());
    stage
        .source()
        .execute_batch("INSERT INTO t VALUES (1, 'a'), (2, 'b'); UPDATE t SET a = 'c' WHERE id = 1")
        .expect("rows");
    stage.wait_until_equal(&["t"], &extract, &replicat);
    wait_for_end(&stage);

    let status = stage.console("SEND EXTRACT e1, STATUS");
    assert!(status.contains(&format!("EXTRACT E1 (PID {})", extract.id())), "{status}");
    assert_eq!(told(&status, "Current status"), "Recovery complete: At EOF");
    // The trail's bytes: what is written ends where the file ends.
    let last = stage.trail_files().pop().expect("a trail file");
    assert_eq!(told(&status, "RBA"), std::fs::metadata(&last).expect("a file").len().to_string());
    assert_eq!(
        told(&status, "Sequence #"),
        last.to_string_lossy()[last.to_string_lossy().len() - 9..].parse::<u32>().expect("a number").to_string()
    );
    // The checkpoint comes to the same place.
    eventually("the checkpoint names the place", || {
        let shown = stage.console("INFO EXTRACT e1, SHOWCH");
        let current = value(&shown, "Current Checkpoint (position", "Change #");
        (current == told(&status, "Change #")).then_some(())
    });
    let status = stage.console("SEND REPLICAT r1, STATUS");
    assert!(status.contains(&format!("REPLICAT R1 (PID {})", replicat.id())), "{status}");
    assert_eq!(told(&status, "Current status"), "At EOF");
    assert_eq!(told(&status, "RBA"), std::fs::metadata(&last).expect("a file").len().to_string());

    for command in ["LAG EXTRACT e1", "SEND EXTRACT e1, GETLAG", "LAG REPLICAT r1", "SEND REPLICAT r1, GETLAG"] {
        let lag = stage.console(command);
        assert!(lag.contains("Last record lag 0 seconds.") && lag.contains("At EOF"), "{command}: {lag}");
    }

    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    for (group, verb) in [("EXTRACT e1", "Extracting"), ("REPLICAT r1", "Replicating")] {
        let shown: Vec<String> = stage.console(&format!("STATS {group}, TOTAL")).lines().map(words).collect();
        for line in [
            &format!("{verb} from main.t:"),
            "Total inserts 2.00",
            "Total updates 1.00",
            "Total deletes 0.00",
            "Total operations 3.00",
            "End of Statistics.",
        ] {
            assert!(shown.contains(&line.to_owned()), "{group}: {line} is not in {shown:?}");
        }
    }
    stage.console("STATS EXTRACT e1, RESET");
    stage.source().execute_batch("DELETE FROM t WHERE id = 2").expect("a row");
    stage.wait_until_equal(&["t"], &extract, &replicat);
    wait_for_end(&stage);
    let latest: Vec<String> = stage.console("STATS EXTRACT e1, LATEST, TABLE main.*").lines().map(words).collect();
    assert!(latest.contains(&"Total operations 1.00".to_owned()), "{latest:?}");
    let total: Vec<String> = stage.console("STATS EXTRACT e1, TOTAL, TOTALSONLY *").lines().map(words).collect();
    assert!(total.contains(&"Total operations 4.00".to_owned()), "{total:?}");

    stage.console("SEND EXTRACT e1, REPORT");
    assert!(stage.text("dirrpt/E1.rpt").contains("Run Time Statistics"));
    assert!(!stage.text("dirrpt/R1.rpt").contains("Run Time Statistics"));
    extract.stop();
    replicat.stop();
}

#[test]
fn a_trail_goes_on_in_a_new_file_when_it_is_told_to() {
    let stage = Stage::new(SCHEMA);
    let (extract, replicat) = (stage.extract(), stage.replicat());
    for round in 1..=3 {
        stage.source().execute("INSERT INTO t VALUES (?1, 'a')", [round]).expect("a row");
        stage.wait_until_equal(&["t"], &extract, &replicat);
        wait_for_end(&stage);
        let before = stage.trail_files().len();
        let answer = stage.console("SEND EXTRACT e1, ROLLOVER");
        assert!(answer.contains(&format!("goes on in file {before:09}")), "{answer}");
        assert_eq!(stage.trail_files().len(), before + 1);
    }
    stage.source().execute("INSERT INTO t VALUES (10, 'a')", []).expect("a row");
    stage.wait_until_equal(&["t"], &extract, &replicat);
    let shown = stage.console("SEND REPLICAT r1, STATUS");
    assert_eq!(told(&shown, "Sequence #"), "3");
    // Once more after a kill: the write checkpoint holds the new file.
    stage.console("SEND EXTRACT e1, ROLLOVER");
    extract.kill();
    let extract = stage.extract();
    stage.source().execute("INSERT INTO t VALUES (11, 'a')", []).expect("a row");
    stage.wait_until_equal(&["t"], &extract, &replicat);
    extract.stop();
    replicat.stop();
}

#[test]
fn stop_returns_when_the_group_has_ended() {
    let stage = Stage::new(SCHEMA);
    let (extract, replicat) = (stage.extract(), stage.replicat());
    stage.source().execute("INSERT INTO t VALUES (1, 'a')", []).expect("a row");
    stage.wait_until_equal(&["t"], &extract, &replicat);
    assert!(
        stage.console("STATUS EXTRACT e1; STATUS REPLICAT r1").contains("EXTRACT E1: RUNNING\nREPLICAT R1: RUNNING")
    );
    let answer = stage.console("STOP EXTRACT e1; STATUS EXTRACT e1");
    assert!(answer.contains("EXTRACT E1 stopped.\nEXTRACT E1: STOPPED"), "{answer}");
    assert_eq!(extract.wait().status.code(), Some(0));
    let answer = stage.console("STOP REPLICAT r1 !; STATUS REPLICAT r1");
    assert!(answer.contains("REPLICAT R1 stopped.\nREPLICAT R1: STOPPED"), "{answer}");
    assert_eq!(replicat.wait().status.code(), Some(0));
    assert!(stage.console("STOP EXTRACT e1").contains("already stopped"));
    for (file, status) in [("EXTRACT e1", "G"), ("REPLICAT r1", "G")] {
        let shown = stage.console(&format!("INFO {file}, SHOWCH"));
        assert!(shown.contains(&format!("Stop Status = {status}")), "{shown}");
    }
    assert_eq!(std::fs::read_dir(stage.home().join("dirtmp")).expect("dirtmp").count(), 0, "the sockets are gone");
    assert_eq!(number(&stage.target(), "SELECT count(*) FROM t"), 1);
    // By SEND, too, and after a kill, which leaves its socket behind.
    let extract = stage.extract();
    eventually("it answers", || stage.try_console("SEND EXTRACT e1, STATUS").status.success().then_some(()));
    extract.kill();
    let message = stage.console_refuses("SEND EXTRACT e1, STATUS");
    assert!(message.contains("DRV-00774") && message.contains("EXTRACT E1 is not running"), "{message}");
    assert!(stage.console("INFO EXTRACT e1, SHOWCH").contains("Stop Status = A"));
    let extract = stage.extract();
    eventually("it answers", || stage.try_console("SEND EXTRACT e1, STATUS").status.success().then_some(()));
    assert!(stage.console("SEND EXTRACT e1, FORCESTOP").contains("Request processed."));
    assert_eq!(extract.wait().status.code(), Some(0));
}

#[test]
fn what_can_not_be_asked_is_refused_by_its_word() {
    let stage = Stage::new(SCHEMA);
    for (command, words) in [
        ("SEND EXTRACT e1, STATUS", &["DRV-00774", "not running"][..]),
        ("LAG REPLICAT r1", &["DRV-00774", "REPLICAT R1 is not running"]),
        ("SEND EXTRACT e9, STATUS", &["DRV-00301", "E9"]),
        ("SEND EXTRACT e1", &["SEND EXTRACT E1 what?", "HELP SEND EXTRACT"]),
        ("SEND EXTRACT e1, STATUS, LOGEND", &["one thing at a time", "STATUS and LOGEND"]),
        ("SEND EXTRACT e1, STATUS, COUNT 3", &["COUNT belongs to SHOWTRANS"]),
        ("SEND EXTRACT e1, BR", &["BRCHECKPOINT {IMMEDIATE | IN n | AT date time}"]),
        ("SEND EXTRACT e1, SHOWTRANS, DURATION soon", &["soon is not a time"]),
        ("SEND EXTRACT e1, SKIPTRANS 5", &["not skipped without being asked twice"]),
    ] {
        let message = stage.console_refuses(command);
        for word in words {
            assert!(message.contains(word), "{command}: {word} is not in {message}");
        }
    }
    // A source that tells committed work only.
    let extract = stage.extract();
    let ask = |what: &str| stage.console(&format!("SEND EXTRACT e1, {what}"));
    eventually("it answers", || stage.try_console("SEND EXTRACT e1, STATUS").status.success().then_some(()));
    assert!(ask("SHOWTRANS").contains("No transactions found."));
    assert!(ask("BR BRSTATUS").contains("nothing to do, this source tells committed transactions only"));
    for (what, words) in [
        ("SKIPTRANS 5 !", "transaction 5 is not open at the source"),
        ("FORCETRANS 5", "not forced without being asked twice"),
        ("FORCETRANS 5 !", "nothing is kept of transaction 5"),
        ("BR BRCHECKPOINT IMMEDIATE", "nothing is persisted"),
    ] {
        let message = stage.console_refuses(&format!("SEND EXTRACT e1, {what}"));
        assert!(message.contains(words), "{what}: {message}");
    }
    assert!(stage.event_log().contains("DRV-00773"), "what was refused is in the event log");
    extract.stop();
}

#[test]
fn a_group_that_waits_to_try_again_says_why_and_can_be_stopped() {
    let stage = Stage::new(SCHEMA);
    let holder = stage.target();
    holder.execute_batch("BEGIN IMMEDIATE").expect("a lock");
    let replicat = stage.replicat();
    let extract = stage.extract();
    stage.source().execute("INSERT INTO t VALUES (1, 'a')", []).expect("a row");
    eventually("the group tells why it waits", || {
        replicat.assert_running();
        let output = stage.try_console("SEND REPLICAT r1, STATUS");
        String::from_utf8_lossy(&output.stdout).contains("Waiting to try again: DRV-00602").then_some(())
    });
    stage.console("STOP REPLICAT r1");
    assert_eq!(replicat.wait().status.code(), Some(0));
    extract.stop();
    holder.execute_batch("ROLLBACK").expect("an end");
}
