//! kill -9 of anything at any moment.

use crate::stage::{Running, Stage, drover, eventually, number};
use std::path::PathBuf;
use std::time::Duration;

/// Processes that are killed.
const KILLS: u32 = 100;

const TABLES: [&str; 4] = ["customer", "purchase", "purchase_line", "writer_log"];

/// The demo's workload, whose writers note their progress in their own transactions.
fn writer(stage: &Stage, number: u32, seed: u64) -> Running {
    let mut command = drover();
    command.arg("demo-writer").arg(format!("--database={}", stage.path().join("source.db").display()));
    // More than the test lets them write; the pace leaves room for two groups on a small machine.
    command.args([format!("--writer={number}"), "--rows=100000000".into(), "--pace=1500".into()]);
    command.arg(format!("--seed={seed}")).stdin(std::process::Stdio::piped());
    Running::start(command)
}

/// The workload's tables, as `drover demo` makes them.
fn schema() -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src/demo/schema.sql");
    std::fs::read_to_string(path).expect("the demo's schema")
}

#[test]
fn a_hundred_kills_of_extract_replicat_and_writers_under_load_end_equal() {
    let seed = std::env::var("DROVER_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| fastrand::u64(..1_000_000));
    println!("DROVER_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let stage = Stage::new(&schema());
    let mut writers = [0, 1].map(|number| Some(writer(&stage, number, seed)));
    let (mut extract, mut replicat) = (stage.extract(), stage.replicat());
    for _ in 0..KILLS {
        // The moment of a kill is the test's input: from before a process has started up to the middle of its work.
        std::thread::sleep(Duration::from_millis(random.u64(0..400)));
        writers.iter().flatten().for_each(Running::assert_running);
        extract.assert_running();
        replicat.assert_running();
        match random.u32(0..10) {
            0..4 => {
                extract.kill();
                extract = stage.extract();
            }
            4..8 => {
                replicat.kill();
                replicat = stage.replicat();
            }
            victim => {
                let victim = (victim - 8) as usize;
                writers[victim].take().expect("the writer runs").kill();
                writers[victim] = Some(writer(&stage, victim as u32, seed));
            }
        }
    }
    writers.into_iter().flatten().for_each(Running::kill);
    let written = number(&stage.source(), "SELECT sum(changes) FROM writer_log");
    assert!(written > 10_000, "the writers were busy: {written}");
    stage.wait_until_equal(&TABLES, &extract, &replicat);
    extract.stop();
    replicat.stop();
    stage.assert_equal(&TABLES);
}

#[test]
fn a_reader_that_was_frozen_while_the_source_went_on_catches_up_after_both_groups_are_killed() {
    let stage = Stage::new("CREATE TABLE t (id INTEGER PRIMARY KEY, a)");
    let (extract, replicat) = (stage.extract(), stage.replicat());
    let source = stage.source();
    source.execute_batch("INSERT INTO t VALUES (1, 'before')").expect("an insert");
    stage.wait_until_equal(&["t"], &extract, &replicat);
    // The target side stands still while changes come in and are acknowledged to the source.
    replicat.signal(rustix::process::Signal::STOP);
    for id in 2..500 {
        source.execute("INSERT INTO t VALUES (?1, 'while frozen')", [id]).expect("an insert");
    }
    eventually("the Extract has passed all of it on", || {
        extract.assert_running();
        let info = stage.console("INFO EXTRACT e1");
        let bytes: u64 = stage.trail_files().iter().map(|file| file.metadata().expect("the file").len()).sum();
        (bytes > 20_000 && info.contains("RUNNING")).then_some(())
    });
    extract.kill();
    replicat.kill();
    source.execute_batch("INSERT INTO t VALUES (1000, 'after')").expect("an insert");
    stage.replicate(&["t"]);
}

#[test]
fn a_second_sigterm_and_a_kill_right_after_a_clean_stop_do_no_harm() {
    let stage = Stage::new("CREATE TABLE t (id INTEGER PRIMARY KEY, a)");
    let source = stage.source();
    for round in 0..10 {
        for id in 0..20 {
            source.execute("INSERT INTO t VALUES (?1, 'x')", [round * 100 + id]).expect("an insert");
        }
        let (extract, replicat) = (stage.extract(), stage.replicat());
        extract.signal(rustix::process::Signal::TERM);
        replicat.signal(rustix::process::Signal::TERM);
        if round % 2 == 0 {
            extract.kill();
            replicat.kill();
        } else {
            extract.wait();
            replicat.wait();
        }
    }
    stage.replicate(&["t"]);
}
