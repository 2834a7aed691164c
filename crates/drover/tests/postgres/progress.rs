//! Positions that move when they should and not before.

use super::stage::Stage;
use crate::stage::eventually;
use rustix::process::{Pid, Signal, kill_process};
use std::time::Duration;

/// A size of a test, which the environment may raise.
fn number(name: &str, otherwise: u32) -> u32 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

#[test]
fn an_idle_table_in_a_busy_server_holds_no_log_back() {
    let stage = Stage::bare("CREATE TABLE other (a text)");
    stage.extract_parameters("TABLE public.signal;");
    stage.add_groups();
    let (extract, replicat) = (stage.extract(), stage.replicat());
    stage.wait_for_signal(&[&extract, &replicat]);
    let before = stage.source.run("SELECT pg_current_wal_lsn()");
    // In the same database and in another one.
    stage.source.cluster.psql("postgres", "CREATE TABLE elsewhere (a text)");
    for _ in 0..number("DROVER_ROUNDS", 4) {
        let sql = "SELECT repeat(md5(n::text), 30) FROM generate_series(1, 12000) AS n";
        stage.source.run(&format!("INSERT INTO other {sql}"));
        stage.source.cluster.psql("postgres", &format!("INSERT INTO elsewhere {sql}"));
    }
    stage.source.cluster.psql("postgres", "DROP TABLE elsewhere");
    let written: f64 =
        stage.source.run(&format!("SELECT pg_current_wal_lsn() - '{before}'")).parse().expect("a number of bytes");
    assert!(written > 80e6, "{written}");
    eventually("the slot has moved past the log of others", || {
        extract.assert_running();
        // The server moves restart_lsn at what it logs of running transactions.
        stage.source.run("CHECKPOINT");
        let held = format!(
            "SELECT pg_current_wal_lsn() - restart_lsn < 16e6 AND pg_current_wal_lsn() - confirmed_flush_lsn < 16e6 \
             FROM pg_replication_slots WHERE database = '{}'",
            stage.source.database
        );
        (stage.source.run(&held) == "t").then_some(())
    });
    stage.wait_for_signal(&[&extract, &replicat]);
    extract.stop();
    replicat.stop();
}

#[test]
fn one_transaction_with_many_rows_at_one_place_arrives_once_whatever_dies_in_its_middle() {
    let seed = std::env::var("DROVER_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| fastrand::u64(..1_000_000));
    println!("DROVER_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let stage = Stage::new("CREATE TABLE t (id int PRIMARY KEY, a text); CREATE TABLE u (id int PRIMARY KEY, a text)");
    for round in 0..5 {
        let first = round * 10_000 + 1;
        stage.source.run(&format!("COPY t (id) FROM PROGRAM 'seq {first} {}'", first + 9_999));
        stage
            .source
            .run(&format!("INSERT INTO u SELECT id, repeat('x', id % 50) FROM t WHERE id >= {first} AND id % 10 = 0"));
        for _ in 0..number("DROVER_KILLS", 5) {
            let (extract, replicat) = (stage.extract(), stage.replicat());
            // The moment of a kill is the test's input.
            std::thread::sleep(Duration::from_millis(random.u64(0..300)));
            extract.assert_running();
            replicat.assert_running();
            extract.kill();
            replicat.kill();
        }
    }
    stage.replicate();
    assert!(stage.assert_equal() > 55_000);
}

#[test]
fn a_frozen_target_loses_nothing_that_the_source_was_told_to_forget() {
    let stage = Stage::new("CREATE TABLE t (id int PRIMARY KEY, a text)");
    let (extract, replicat) = (stage.extract(), stage.replicat());
    stage.source.run("INSERT INTO t VALUES (0, 'before')");
    stage.wait_for_signal(&[&extract, &replicat]);
    let backends = stage.target.run(
        "SELECT pid FROM pg_stat_activity WHERE application_name = 'drover' AND datname = current_database() AND pid <> pg_backend_pid()",
    );
    let backends: Vec<Pid> =
        backends.lines().filter_map(|line| Pid::from_raw(line.parse().expect("a process id"))).collect();
    assert!(!backends.is_empty());
    backends.iter().for_each(|backend| kill_process(*backend, Signal::STOP).expect("the server's process is there"));
    for n in 1..200 {
        stage.source.run(&format!("INSERT INTO t VALUES ({n}, 'while the target is frozen')"));
    }
    let end = stage.source.run("SELECT pg_current_wal_lsn()");
    eventually("the source may forget all of it", || {
        extract.assert_running();
        let confirmed = format!(
            "SELECT confirmed_flush_lsn >= '{end}' FROM pg_replication_slots WHERE database = '{}'",
            stage.source.database
        );
        (stage.source.run(&confirmed) == "t").then_some(())
    });
    assert_eq!(stage.target.run("SELECT count(*) FROM t"), "1");
    extract.kill();
    replicat.kill();
    let (extract, replicat) = (stage.extract(), stage.replicat());
    backends.iter().for_each(|backend| kill_process(*backend, Signal::CONT).expect("the server's process is there"));
    stage.wait_for_signal(&[&extract, &replicat]);
    extract.stop();
    replicat.stop();
    assert!(stage.assert_equal() >= 200);
}

#[test]
fn groups_over_databases_where_nothing_happens_stop_at_once_and_start_again() {
    let stage = Stage::new("");
    for _ in 0..3 {
        let (extract, replicat) = (stage.extract(), stage.replicat());
        eventually("both run", || {
            let info = stage.console("INFO ALL");
            (info.matches("RUNNING").count() == 2).then_some(())
        });
        extract.stop();
        replicat.stop();
    }
    stage.replicate();
    stage.assert_equal();
}

#[test]
fn transactions_that_are_rolled_back_in_whole_or_in_part_leave_what_was_committed() {
    let stage = Stage::new("CREATE TABLE t (id int PRIMARY KEY, a text)");
    stage.source.script(
        "BEGIN; INSERT INTO t SELECT n, 'rolled back' FROM generate_series(1, 2000) AS n; ROLLBACK;
         BEGIN; INSERT INTO t VALUES (1, 'a'); SAVEPOINT s; INSERT INTO t VALUES (2, 'gone'); ROLLBACK TO s; INSERT INTO t VALUES (2, 'b'); COMMIT;
         DO $$ BEGIN FOR n IN 10..60 LOOP BEGIN INSERT INTO t VALUES (n, 'x'); IF n % 2 = 0 THEN RAISE 'no'; END IF; EXCEPTION WHEN raise_exception THEN NULL; END; END LOOP; END $$;",
    );
    stage.replicate();
    stage.assert_equal();
    assert_eq!(stage.target.run("SELECT count(*) FROM t"), "27");
}
