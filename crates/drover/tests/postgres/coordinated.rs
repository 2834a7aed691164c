//! Threads of a coordinated group, transactions that are applied before earlier ones, and one that is split.

use super::parallel::{ROWS, SCHEMA, kills, pgbench};
use super::stage::{Pair, Side, Stage};
use crate::stage::eventually;
use db_postgres::wire::{Config, Connection};

/// Keeps everybody else from writing to a row of the target.
fn hold(side: &Side<'_>, row: &str) -> Connection {
    let mut connection = Connection::connect(&Config::parse(&side.url()).expect("a URL")).expect("a connection");
    connection.simple_query("BEGIN").expect("a transaction");
    connection.simple_query(&format!("SELECT FROM {row} FOR UPDATE")).expect("the row");
    connection
}

/// Ends the sessions of a Replicat that was killed, which would go on with what they were sent when the lock is gone.
fn end_sessions(side: &Side<'_>) {
    let others = "FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND datname = current_database() \
                  AND application_name = 'drover' AND query NOT LIKE '%FOR UPDATE%'";
    side.run(&format!("SELECT pg_terminate_backend(pid) {others}"));
    eventually("the sessions of a killed process end", || {
        (side.run(&format!("SELECT count(*) {others}")) == "0").then_some(())
    });
}

const APART: &str = "SELECT max(log_csn) > max(log_cmplt_csn) FROM checkpoints";

/// Updates rows one by one at the source, the first of which is held at the target, kills the Replicat when all others are
/// applied, and leaves it so.
fn kill_with_one_transaction_missing(stage: &Stage<'_>) {
    stage.replicate();
    // All of it is in the trail before anybody waits for the row: the reader of the trail is one of the appliers.
    let extract = stage.extract();
    (1..=20).for_each(|id| _ = stage.source.run(&format!("UPDATE t SET n = n + 1 WHERE id = {id}")));
    let end = stage.source.run("SELECT pg_current_wal_lsn()");
    let database = &stage.source.database;
    eventually("the trail holds all of it", || {
        let confirmed = format!(
            "SELECT FROM pg_replication_slots WHERE database = '{database}' AND confirmed_flush_lsn >= '{end}'"
        );
        stage.source.holds(&confirmed).then_some(())
    });
    let holding = hold(&stage.target, "public.t WHERE id = 1");
    let replicat = stage.replicat();
    eventually("the others are applied", || {
        stage.target.holds("SELECT FROM public.t WHERE id > 15 AND n = 1").then_some(())
    });
    replicat.kill();
    end_sessions(&stage.target);
    drop(holding);
    assert_eq!(stage.target.run("SELECT n FROM t WHERE id = 1"), "0");
    extract.stop();
}

const TABLE: &str = "CREATE TABLE t (id int PRIMARY KEY, n int)";
const TWENTY: &str = "INSERT INTO t SELECT n, 0 FROM generate_series(1, 20) AS n";

#[test]
fn rules_may_change_after_a_crash_when_all_appliers_were_brought_to_one_place() {
    let stage = Stage::bare(TABLE);
    [&stage.source, &stage.target].into_iter().for_each(|side| _ = side.run(TWENTY));
    let rules = |more: &str| format!("GROUPTRANSOPS 1\nMAP *.*, TARGET *.*;{more}");
    stage.replicat_parameters(&rules(""));
    stage.add_groups();
    kill_with_one_transaction_missing(&stage);
    assert_eq!(stage.target.run(APART), "t");
    stage.replicat_parameters(&rules("\nMAPEXCLUDE public.nothing"));
    let message = stage.replicat().fails();
    assert!(message.contains("DRV-00651") && message.contains("SYNCHRONIZE REPLICAT"), "{message}");
    let message = stage.console_refuses("SYNCHRONIZE REPLICAT r1");
    assert!(message.contains("DRV-00651"), "with the new rules nobody knows what is missing: {message}");
    stage.replicat_parameters(&rules(""));
    let told = stage.console("SYNCHRONIZE REPLICAT r1");
    assert!(told.contains("REPLICAT R1 synchronized: all appliers are at trail position"), "{told}");
    assert_eq!(stage.target.run("SELECT n FROM t WHERE id = 1"), "1", "what was missing");
    assert_eq!(stage.target.run(APART), "f");
    stage.replicat_parameters(&rules("\nMAPEXCLUDE public.nothing"));
    stage.source.run("UPDATE t SET n = n + 1");
    stage.replicate();
    stage.assert_equal();
    let again = stage.console("SYNCHRONIZE REPLICAT r1; SYNCHRONIZE REPLICAT r1");
    assert_eq!(again.matches("synchronized").count(), 2, "nothing to do is no error: {again}");
}

/// Adds the groups, the Replicat as a coordinated one.
fn add_coordinated(stage: &Stage<'_>, threads: u32) {
    let commands =
        stage.set_up().replace("ADD REPLICAT r1,", &format!("ADD REPLICAT r1, COORDINATED, MAXTHREADS {threads},"));
    stage.console(&commands);
}

#[test]
fn threads_go_on_from_their_own_rows_after_a_crash_and_from_one_place_after_a_stop() {
    let stage = Stage::bare(TABLE);
    [&stage.source, &stage.target].into_iter().for_each(|side| _ = side.run(TWENTY));
    let rules =
        "GROUPTRANSOPS 1\nMAP public.t, TARGET public.t, THREADRANGE (1-3);\nMAP public.signal, TARGET public.signal;";
    stage.replicat_parameters(rules);
    add_coordinated(&stage, 3);
    kill_with_one_transaction_missing(&stage);
    let rows = "SELECT group_name, log_csn IS NOT DISTINCT FROM log_cmplt_csn, coalesce(log_cmplt_xids, '') NOT LIKE '%,%' FROM checkpoints \
                WHERE group_name <> 'R1' ORDER BY 1";
    assert_eq!(stage.target.run(rows), "R1001|t|t\nR1002|t|t\nR1003|t|t", "each is at one transaction");
    assert_ne!(stage.target.run("SELECT count(DISTINCT log_csn) FROM checkpoints"), "1");
    stage.replicat_parameters(&rules.replace("1-3", "1-2"));
    let message = stage.replicat().fails();
    assert!(message.contains("DRV-00651"), "other threads would have other rows: {message}");
    stage.replicat_parameters(rules);
    let login = format!("DBLOGIN SOURCEDB '{}'", stage.target.url());
    let info = stage.console(&format!("{login}; INFO REPLICAT r1"));
    assert!(info.contains("COORDINATED, MAXTHREADS 3") && info.contains("R1003"), "{info}");
    assert!(stage.console(&format!("{login}; INFO REPLICAT r1, SHOWCH")).contains("R1001"));
    assert!(stage.console("INFO REPLICAT r1").contains("DBLOGIN to the target shows where each of them is"));
    stage.replicate();
    stage.assert_equal();
    assert_eq!(stage.target.run("SELECT count(*), count(DISTINCT (seqno, rba, log_csn)) FROM checkpoints"), "4|1");
    stage.replicat_parameters(&rules.replace("1-3", "1-2"));
    stage.source.run("UPDATE t SET n = n + 1");
    stage.replicate();
    stage.assert_equal();
    kill_again_and_synchronize(&stage);
}

fn kill_again_and_synchronize(stage: &Stage<'_>) {
    stage.source.run("UPDATE t SET n = 0");
    stage.replicate();
    kill_with_one_transaction_missing(stage);
    let told = stage.console("SYNCHRONIZE REPLICAT r1");
    assert!(told.contains("all threads are at trail position"), "{told}");
    assert_eq!(stage.target.run("SELECT n FROM t WHERE id = 1"), "1", "what was missing");
    assert_eq!(stage.target.run("SELECT count(DISTINCT (seqno, rba, log_csn)) FROM checkpoints"), "1");
    stage.replicate();
    stage.assert_equal();
    stage.console(&format!("DBLOGIN SOURCEDB '{}'; DELETE REPLICAT r1", stage.target.url()));
    assert_eq!(stage.target.run("SELECT count(*) FROM checkpoints"), "0", "threads' rows go with their group");
}

#[test]
fn what_the_parameter_file_says_must_fit_the_mode_that_the_group_was_added_in() {
    let stage = Stage::bare(TABLE);
    let add =
        |name: &str, mode: &str| stage.set_up().replace("ADD REPLICAT r1,", &format!("ADD REPLICAT {name},{mode}"));
    for (name, mode, message) in [
        ("longer", " COORDINATED,", "at most 5 characters"),
        ("r1", " PARALLEL, COORDINATED,", "exclude each other"),
        ("r1", " MAXTHREADS 4,", "MAXTHREADS is for COORDINATED"),
    ] {
        let told = stage.console_refuses(&add(name, mode));
        assert!(told.contains(message), "{told}");
        stage.console(&format!(
            "DBLOGIN SOURCEDB '{}'; DELETE EXTTRAIL ./dirdat/aa; DELETE EXTRACT e1",
            stage.source.url()
        ));
        stage.console(&format!("DBLOGIN SOURCEDB '{}'; DELETE CHECKPOINTTABLE checkpoints !", stage.target.url()));
    }
    stage.console(&add("r1", " COORDINATED, MAXTHREADS 3,"));
    stage.extract().stop();
    let map = "MAP public.t, TARGET public.t";
    for (text, message) in [
        (format!("{map}, THREADRANGE (2-4);"), "a MAP names thread 4"),
        (format!("APPLY_PARALLELISM 2\n{map};"), "APPLY_PARALLELISM has no effect"),
        (format!("DBOPTIONS NOSUPPRESSTRIGGERS\n{map};"), "NOSUPPRESSTRIGGERS needs one session"),
    ] {
        stage.replicat_parameters(&text);
        let told = stage.replicat().fails();
        assert!(told.contains("DRV-00850") && told.contains(message), "{told}");
    }
    let target = stage.target.url();
    stage.console(&format!("DBLOGIN SOURCEDB '{target}'; DELETE REPLICAT r1"));
    stage.console(&format!(
        "DBLOGIN SOURCEDB '{target}'; ADD REPLICAT r1, PARALLEL, EXTTRAIL ./dirdat/aa, CHECKPOINTTABLE checkpoints"
    ));
    for (text, message) in [
        (format!("{map}, THREAD (1);"), "THREAD in a MAP"),
        (format!("APPLY_PARALLELISM CLASSIC\n{map};"), "CLASSIC contradicts it"),
    ] {
        stage.replicat_parameters(&text);
        let told = stage.replicat().fails();
        assert!(told.contains("DRV-00850") && told.contains(message), "{told}");
    }
}

#[test]
fn a_coordinated_group_ends_equal_with_each_keys_history_in_order_whatever_is_killed() {
    let seed = std::env::var("DROVER_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| fastrand::u64(..1_000_000));
    println!("DROVER_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let pair = Pair::start(&[("max_replication_slots", "30"), ("max_connections", "60")]);
    let stage = Stage::on(&pair.source, &pair.target, SCHEMA);
    [&stage.source, &stage.target].into_iter().for_each(|side| _ = side.run(ROWS));
    stage.target.run("ALTER TABLE history ADD arrival bigserial");
    // Rows that lean on each other are on one thread; keys of chain move between threads.
    let maps = [
        ("seat", "THREAD (1)"),
        ("named", "THREAD (2)"),
        ("parent", "THREAD (3)"),
        ("child", "THREAD (3)"),
        ("tree", "THREAD (4)"),
        ("chain", "THREADRANGE (1-6)"),
        ("hot", "THREADRANGE (3-6)"),
        ("history", "THREADRANGE (3-6, id)"),
        ("signal", "COORDINATED"),
    ];
    let maps = maps.map(|(table, option)| format!("MAP public.{table}, TARGET public.{table}, {option};\n")).concat();
    stage.replicat_parameters(&format!("GROUPTRANSOPS 4\n{maps}"));
    add_coordinated(&stage, 6);
    let mut work = pgbench(&stage.source, seed);
    let (extract, mut replicat) = (stage.extract(), stage.replicat());
    for _ in 0..kills() {
        // The moment of a kill is the test's input.
        std::thread::sleep(std::time::Duration::from_millis(random.u64(50..1500)));
        extract.assert_running();
        replicat.assert_running();
        if random.u8(..) < 60 {
            stage.target.cluster.stop("immediate");
            stage.target.cluster.start_again();
            continue;
        }
        replicat.kill();
        replicat = stage.replicat();
    }
    work.kill().expect("pgbench can be ended");
    work.wait().expect("pgbench ends");
    stage.wait_for_signal(&[&extract, &replicat]);
    extract.stop();
    replicat.stop();
    stage.assert_equal_but(&["public.history"]);
    stage.assert_history_in_order();
    let rows = stage.target.run("SELECT count(*), count(DISTINCT (seqno, rba, log_csn)) FROM checkpoints");
    assert_eq!(rows, "7|1", "the group's and six threads', all at one place");
}

#[test]
fn sessions_for_which_the_target_has_no_origin_are_told_of_before_they_apply() {
    let pair = Pair::start(&[("max_replication_slots", "3")]);
    let stage = Stage::on(&pair.source, &pair.target, TABLE);
    stage.replicat_parameters("APPLY_PARALLELISM 4\nMAP *.*, TARGET *.*;");
    stage.add_groups();
    stage.source.run(TWENTY);
    stage.replicate();
    stage.assert_equal();
    let report = stage.text("dirrpt/R1.rpt");
    assert!(report.contains("DRV-00851") && report.contains("max_replication_slots is 3"), "{report}");
}

#[test]
fn a_split_transaction_that_is_killed_in_its_middle_is_applied_once() {
    let stage = Stage::bare(TABLE);
    let rows = "INSERT INTO t SELECT n, 0 FROM generate_series(1, 3000) AS n";
    [&stage.source, &stage.target].into_iter().for_each(|side| _ = side.run(rows));
    let rules = |split: &str| format!("{split}MAP *.*, TARGET *.*;");
    stage.replicat_parameters(&rules("SPLIT_TRANS_RECS 100\n"));
    stage.add_groups();
    for split in ["SPLIT_TRANS_RECS 100\n", "SPLIT_TRANS_RECS 170\n", ""] {
        let (extract, replicat) = (stage.extract(), stage.replicat());
        stage.wait_for_signal(&[&extract, &replicat]);
        let holding = hold(&stage.target, "public.t WHERE id = 2000");
        stage.source.run("UPDATE t SET n = n + 1");
        eventually("other pieces are applied", || {
            stage.target.holds("SELECT FROM public.t HAVING count(*) FILTER (WHERE n = (SELECT max(n) FROM public.t)) BETWEEN 1000 AND 2999").then_some(())
        });
        replicat.kill();
        end_sessions(&stage.target);
        drop(holding);
        extract.stop();
        // The rest may be cut in another way, or not at all.
        stage.replicat_parameters(&rules(split));
        stage.replicate();
        stage.assert_equal();
        stage.replicat_parameters(&rules("SPLIT_TRANS_RECS 100\n"));
    }
    assert_eq!(stage.target.run("SELECT min(n), max(n) FROM t"), "3|3");
    // Pieces are for those who ask for them.
    stage.replicat_parameters(&rules(""));
    let (extract, replicat) = (stage.extract(), stage.replicat());
    stage.wait_for_signal(&[&extract, &replicat]);
    let holding = hold(&stage.target, "public.t WHERE id = 2000");
    stage.source.run("UPDATE t SET n = n + 1; INSERT INTO t SELECT n, 0 FROM generate_series(3001, 20000) AS n");
    let behind = stage.source.run("SELECT pg_current_wal_lsn()");
    eventually("the transaction waits for the row", || {
        let waits = "SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
        stage.target.holds(waits).then_some(())
    });
    assert_eq!(stage.target.run("SELECT count(*) FROM t WHERE n <> 3"), "0", "nothing of it is seen, up to {behind}");
    drop(holding);
    stage.wait_for_signal(&[&extract, &replicat]);
    extract.stop();
    replicat.stop();
    assert!(stage.assert_equal() >= 20_000, "{behind}");
}
