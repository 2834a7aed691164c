//! Old trail files go when nobody needs them any more, and not before.

use crate::stage::{DEADLINE, EXTRACT, REPLICAT, SET_UP, Stage, eventually, number};
use std::time::Instant;

const SCHEMA: &str = "CREATE TABLE t (id INTEGER PRIMARY KEY, a TEXT)";

/// Files of one megabyte, so that a test fills many of them.
fn stage() -> Stage {
    let stage = Stage::bare(SCHEMA);
    stage.console(&SET_UP.replace("EXTRACT e1\n    DBLOGIN", "EXTRACT e1, MEGABYTES 1\n    DBLOGIN"));
    stage
}

/// Adds Replicat R2, which applies the same trail to another database.
fn add_second_reader(stage: &Stage) {
    stage.create_database("other.db", SCHEMA);
    stage.parameters("r2", &REPLICAT.replace("r1", "r2").replace("target.db", "other.db"));
    stage.console(
        "DBLOGIN SOURCEDB sqlite:../other.db; ADD CHECKPOINTTABLE main.checkpoints; \
         ADD REPLICAT r2, EXTTRAIL ./dirdat/aa, CHECKPOINTTABLE main.checkpoints",
    );
}

/// Writes `count` transactions of about 100 kB each.
fn write(stage: &Stage, count: u32) {
    let source = stage.source();
    for _ in 0..count {
        source.execute("INSERT INTO t (a) VALUES (hex(randomblob(50000)))", []).expect("an insert");
    }
}

/// Numbers of the trail's files, which must be without a hole.
fn numbers(stage: &Stage) -> Vec<u32> {
    let name = |path: &std::path::PathBuf| path.file_name().expect("a name").to_string_lossy()[2..].to_owned();
    let numbers: Vec<u32> = stage.trail_files().iter().map(|path| name(path).parse().expect("a number")).collect();
    assert!(numbers.windows(2).all(|pair| pair[1] == pair[0] + 1), "a hole: {numbers:?}");
    numbers
}

fn purging(parameters: &str, statement: &str) -> String {
    let (first, rest) = parameters.split_once('\n').expect("two lines");
    format!("{first}\n{statement}\n{rest}")
}

#[test]
fn a_replicat_removes_what_it_has_left_behind() {
    let stage = stage();
    stage.parameters("r1", &purging(REPLICAT, "PURGEOLDEXTRACTS"));
    write(&stage, 60);
    stage.replicate(&["t"]);
    let files = numbers(&stage);
    assert!(files.len() <= 2 && files[0] >= 4, "{files:?}");
    let report = stage.text("dirrpt/R1.rpt");
    assert!(report.contains("DRV-00810") && report.contains("files of trail ./dirdat/aa removed"), "{report}");
    // Both groups go on from what is left.
    write(&stage, 5);
    stage.replicate(&["t"]);
    stage.assert_equal(&["t"]);
}

#[test]
fn what_a_reader_that_is_offline_needs_stays() {
    let stage = stage();
    add_second_reader(&stage);
    stage.parameters("e1", &purging(EXTRACT, "PURGEOLDEXTRACTS ./dirdat/aa, USECHECKPOINTS"));
    stage.parameters("r1", &purging(REPLICAT, "PURGEOLDEXTRACTS"));
    for _ in 0..3 {
        write(&stage, 20);
        stage.replicate(&["t"]);
        assert_eq!(numbers(&stage)[0], 0, "R2 has read nothing");
    }
    let files = numbers(&stage).len();
    assert!(files >= 6, "{files}");
    // R2 comes back, and nothing is missing.
    let second = stage.start("replicat", "r2");
    let (source, other) = (stage.source(), stage.open("other.db"));
    eventually("R2 has caught up", || {
        second.assert_running();
        (number(&other, "SELECT count(*) FROM t") == number(&source, "SELECT count(*) FROM t")).then_some(())
    });
    second.stop();
    assert_eq!(crate::stage::rows(&source, "t"), crate::stage::rows(&other, "t"));
    // Now the Extract may remove it.
    write(&stage, 1);
    stage.replicate(&["t"]);
    assert!(numbers(&stage)[0] > 0);
}

#[test]
fn without_checkpoints_a_reader_is_cut_off_and_named() {
    let stage = stage();
    stage.parameters("e1", &purging(EXTRACT, "PURGEOLDEXTRACTS NOUSECHECKPOINTS, MINKEEPFILES 2"));
    let extract = stage.extract();
    for files in 1..=4 {
        // A file holds ten of them. What is written at once may be one transaction in the trail, and would stay whole.
        write(&stage, 11);
        eventually("the trail goes on to another file", || {
            extract.assert_running();
            (numbers(&stage).last() >= Some(&files)).then_some(())
        });
    }
    extract.stop();
    let report = stage.text("dirrpt/E1.rpt");
    assert_eq!(numbers(&stage).len(), 2, "{report}");
    assert!(report.contains("DRV-00811") && report.contains("REPLICAT R1 needs files"), "{report}");
    // It says so, and does not go on as if nothing had been there.
    let message = stage.replicat().fails();
    assert!(message.contains("aa000000000") && number(&stage.target(), "SELECT count(*) FROM t") == 0, "{message}");
}

#[test]
fn kills_in_the_middle_of_it_leave_no_hole_and_the_disk_stays_bounded() {
    let stage = stage();
    stage.parameters("e1", &purging(EXTRACT, "PURGEOLDEXTRACTS"));
    stage.parameters("r1", &purging(REPLICAT, "PURGEOLDEXTRACTS, FREQUENCYMINUTES 1"));
    let mut most = 0;
    for round in 0..6 {
        write(&stage, 20);
        let (extract, replicat) = (stage.extract(), stage.replicat());
        stage.wait_until_equal(&["t"], &extract, &replicat);
        // Kills hit a purge at another place each time: it begins two seconds after a new file, or with a stop.
        let start = Instant::now();
        let pause = std::time::Duration::from_millis(300 * round);
        eventually("some time passes", || (start.elapsed() >= pause || start.elapsed() > DEADLINE).then_some(()));
        extract.kill();
        if round % 2 == 0 {
            replicat.kill();
        } else {
            replicat.stop();
        }
        most = most.max(numbers(&stage).len());
    }
    stage.replicate(&["t"]);
    stage.assert_equal(&["t"]);
    let last = *numbers(&stage).last().expect("a file");
    assert!(last >= 12 && most <= 9, "{last} files in all, {most} at once");
}

#[test]
fn a_trail_that_is_in_use_is_purged_only_by_force() {
    let stage = stage();
    write(&stage, 12);
    stage.replicate(&["t"]);
    let message = stage.console_refuses("PURGE EXTTRAIL ./dirdat/aa");
    assert!(message.contains("used by EXTRACT E1") && message.contains("DELETE EXTTRAIL"), "{message}");
    stage.console("DELETE EXTTRAIL ./dirdat/aa");
    let message = stage.console_refuses("PURGE EXTTRAIL ./dirdat/aa");
    assert!(message.contains("REPLICAT R1"), "{message}");
    let files = numbers(&stage).len();
    let told = stage.console("PURGE EXTTRAIL ./dirdat/aa !");
    assert!(told.contains(&format!("{files} files removed")), "{told}");
    assert_eq!(stage.trail_files().len(), 0);
    assert!(!stage.home().join("dirdat/aa.safe").exists());
}

#[test]
fn a_trail_that_is_written_is_not_purged_even_by_force() {
    let stage = stage();
    let extract = stage.extract();
    write(&stage, 1);
    eventually("the trail has a file", || stage.trail_files().first().cloned());
    let message = stage.console_refuses("PURGE EXTTRAIL ./dirdat/aa !");
    assert!(message.contains("E1"), "{message}");
    assert!(!stage.trail_files().is_empty());
    extract.stop();
}

#[test]
fn a_trail_that_is_read_at_this_moment_is_not_purged_even_by_force() {
    let stage = stage();
    write(&stage, 3);
    let extract = stage.extract();
    let replicat = stage.replicat();
    stage.wait_until_equal(&["t"], &extract, &replicat);
    extract.stop();
    stage.console("DELETE EXTTRAIL ./dirdat/aa");
    let message = stage.console_refuses("PURGE EXTTRAIL ./dirdat/aa !");
    assert!(message.contains("R1"), "{message}");
    assert!(!stage.trail_files().is_empty());
    replicat.stop();
    stage.console("PURGE EXTTRAIL ./dirdat/aa !");
    assert_eq!(stage.trail_files().len(), 0);
}

#[test]
fn only_its_own_trail_may_a_group_purge() {
    let stage = stage();
    stage.parameters("e1", &purging(EXTRACT, "PURGEOLDEXTRACTS ./dirdat/ab"));
    let message = stage.extract().fails();
    assert!(message.contains("DRV-00101") && message.contains("./dirdat/ab"), "{message}");
}
