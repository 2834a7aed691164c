//! A Pump in one home: SQLite, Extract, trail, Pump, trail, Replicat, SQLite.

use crate::stage::{Running, Stage, eventually, number, rows};
use std::time::Duration;

const TABLES: &str = "CREATE TABLE t (id INTEGER PRIMARY KEY, a, b); CREATE TABLE u (id INTEGER PRIMARY KEY, a)";

/// Commands that put Pump P1 between Extract E1 and Replicat R1.
const SET_UP: &str = "\
    DBLOGIN SOURCEDB sqlite:../source.db
    ADD EXTRACT e1, TRANLOG, BEGIN NOW
    ADD EXTTRAIL ./dirdat/aa, EXTRACT e1
    ADD EXTRACT p1, EXTTRAILSOURCE ./dirdat/aa
    ADD EXTTRAIL ./dirdat/bb, EXTRACT p1, MEGABYTES 1
    DBLOGIN SOURCEDB sqlite:../target.db
    ADD CHECKPOINTTABLE main.checkpoints
    ADD REPLICAT r1, EXTTRAIL ./dirdat/bb, CHECKPOINTTABLE main.checkpoints";

fn stage(parameters: &str) -> Stage {
    let stage = Stage::bare(TABLES);
    stage.parameters("p1", parameters);
    stage.console(SET_UP);
    stage
}

fn wait_until_equal(stage: &Stage, tables: &[&str], running: &mut [&Running]) {
    let (source, target) = (stage.source(), stage.target());
    eventually("the target holds what the source holds", || {
        running.iter_mut().for_each(|group| group.assert_running());
        tables.iter().all(|table| rows(&source, table) == rows(&target, table)).then_some(())
    });
}

#[test]
fn rows_come_through_a_pump_and_every_place_of_it_is_shown() {
    let stage = stage("EXTRACT p1\nPASSTHRU\nEXTTRAIL ./dirdat/bb\n");
    let info = stage.console("INFO EXTRACT p1");
    for told in ["Status STOPPED", "File ./dirdat/aa000000000", "First Record  RBA 0", "./dirdat/bb", "EXTTRAIL"] {
        assert!(info.contains(told), "{told}: {info}");
    }
    stage.source().execute_batch("INSERT INTO t VALUES (1, 'a', 2.5), (2, x'00ff', NULL)").expect("an insert");
    let (extract, pump, replicat) = (stage.extract(), stage.start("extract", "p1"), stage.replicat());
    wait_until_equal(&stage, &["t", "u"], &mut [&extract, &pump, &replicat]);
    let change = "UPDATE t SET a = 'b' WHERE id = 1; DELETE FROM t WHERE id = 2; INSERT INTO u VALUES (7, 'u')";
    stage.source().execute_batch(change).expect("changes");
    wait_until_equal(&stage, &["t", "u"], &mut [&extract, &pump, &replicat]);
    [extract, pump, replicat].into_iter().for_each(|group| drop(group.stop()));
    let info = stage.console("INFO EXTRACT p1");
    for told in ["Status STOPPED", "Last written          CSN "] {
        assert!(info.contains(told), "{told}: {info}");
    }
    assert!(stage.console("INFO EXTRACT p1, SHOWCH").contains("Extract Trail: ./dirdat/aa"));
    let report = stage.text("dirrpt/P1.rpt");
    for told in ["main.t", "insert", "Total", "EXTRACT P1 stopped"] {
        assert!(report.contains(told), "{told}: {report}");
    }
    assert!(!report.contains("Filtered because"), "{report}");
    // The copy tells where it has been.
    let dump = crate::stage::logdump(&stage.home().join("dirdat/bb000000000"));
    assert!(dump.contains(":P1") && dump.contains(":E1"), "{dump}");
    stage.console("DELETE EXTRACT p1");
    assert!(!stage.console("INFO ALL").contains("P1"));
}

#[test]
fn a_pump_sends_the_tables_that_its_rules_select_and_counts_the_rest() {
    let stage = stage("EXTRACT p1\nEXTTRAIL ./dirdat/bb\nTABLE main.*;\nTABLEEXCLUDE main.U;\n");
    let (extract, pump, replicat) = (stage.extract(), stage.start("extract", "p1"), stage.replicat());
    let both = "BEGIN; INSERT INTO u VALUES (1, 'u'); INSERT INTO t VALUES (1, 'a', 'b'); INSERT INTO u VALUES (2, 'u'); COMMIT";
    stage.source().execute_batch(both).expect("a transaction");
    wait_until_equal(&stage, &["t"], &mut [&extract, &pump, &replicat]);
    stage.source().execute_batch("INSERT INTO u VALUES (3, 'u'); INSERT INTO t VALUES (2, 'a', 'b')").expect("two");
    wait_until_equal(&stage, &["t"], &mut [&extract, &pump, &replicat]);
    [extract, pump, replicat].into_iter().for_each(|group| drop(group.stop()));
    assert_eq!(number(&stage.target(), "SELECT count(*) FROM u"), 0);
    let report = stage.text("dirrpt/P1.rpt");
    assert!(report.contains("Filtered because not mapped: 3"), "{report}");
}

#[test]
fn kills_of_a_pump_and_its_neighbours_under_load_end_equal() {
    let seed = std::env::var("DROVER_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| fastrand::u64(..1_000_000));
    println!("DROVER_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let stage = stage("EXTRACT p1\nPASSTHRU\nEXTTRAIL ./dirdat/bb\n");
    let source = stage.source();
    let groups = [("extract", "e1"), ("extract", "p1"), ("replicat", "r1")];
    let mut running = groups.map(|(part, group)| Some(stage.start(part, group)));
    for round in 0..40 {
        for id in 0..random.u32(1..120) {
            let id = round * 1000 + id;
            source.execute("INSERT INTO t VALUES (?1, 'x', ?1)", [id]).expect("an insert");
        }
        source.execute_batch("UPDATE t SET b = b + 1 WHERE id % 7 = 0").expect("an update");
        // The moment of a kill is the test's input.
        std::thread::sleep(Duration::from_millis(random.u64(0..60)));
        let victim = if random.bool() { 1 } else { random.usize(..3) };
        running[victim].take().expect("runs").kill();
        let (part, group) = groups[victim];
        running[victim] = Some(stage.start(part, group));
    }
    let mut running: Vec<Running> = running.into_iter().flatten().collect();
    wait_until_equal(&stage, &["t"], &mut running.iter().collect::<Vec<_>>());
    running.drain(..).for_each(|group| drop(group.stop()));
    stage.assert_equal(&["t"]);
}

#[test]
fn what_makes_no_sense_of_a_pump_is_refused() {
    let stage = stage("EXTRACT p1\nPASSTHRU\nEXTTRAIL ./dirdat/cc\n");
    let ended = stage.start("extract", "p1").wait();
    assert!(!ended.status.success());
    let report = stage.text("dirrpt/P1.rpt");
    assert!(report.contains("has no trail ./dirdat/cc, it has ./dirdat/bb"), "{report}");
    let refused =
        stage.console_refuses("ADD EXTRACT p2, EXTTRAILSOURCE ./dirdat/cc; ADD EXTTRAIL ./dirdat/cc, EXTRACT p2");
    assert!(refused.contains("EXTRACT P2 reads trail ./dirdat/cc"), "{refused}");
    let refused = stage.console_refuses("PURGE EXTTRAIL ./dirdat/aa");
    assert!(refused.contains("is used by EXTRACT E1"), "{refused}");
}

#[test]
fn a_trail_is_not_purged_before_its_pump_has_read_it() {
    let stage = stage("EXTRACT p1\nPASSTHRU\nEXTTRAIL ./dirdat/bb\n");
    let refused = stage.console_refuses("DELETE EXTTRAIL ./dirdat/aa; PURGE EXTTRAIL ./dirdat/aa");
    assert!(refused.contains("is read by EXTRACT P1"), "{refused}");
}
