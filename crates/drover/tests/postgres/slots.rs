//! Whatever happens to the slot, an Extract that would miss changes does not start, and says why.

use super::stage::{Cluster, ClusterOptions, Stage, shared};
use crate::stage::eventually;

const TABLE: &str = "CREATE TABLE t (id int PRIMARY KEY, a text)";

/// A stage whose groups have moved something, and have stopped.
fn used() -> Stage<'static> {
    let stage = Stage::new(TABLE);
    stage.source.run("INSERT INTO t VALUES (1, 'before')");
    stage.replicate();
    stage
}

impl Stage<'_> {
    fn slot(&self) -> String {
        let database = &self.source.database;
        self.source.run(&format!("SELECT slot_name FROM pg_replication_slots WHERE database = '{database}'"))
    }

    /// Asserts that the Extract ends with a message that holds these words and tells what to do.
    #[track_caller]
    fn assert_extract_refuses(&self, words: &[&str]) {
        let message = self.extract().fails();
        for word in words.iter().chain(&["next step"]) {
            assert!(message.contains(word), "{word:?} is not in: {message}");
        }
        let info = self.console("INFO EXTRACT e1");
        assert!(info.contains("ABENDED"), "{info}");
    }
}

#[test]
fn a_slot_that_is_gone_is_named() {
    let stage = used();
    let slot = stage.slot();
    stage.source.run(&format!("INSERT INTO t VALUES (2, 'lost'); SELECT pg_drop_replication_slot('{slot}')"));
    stage.assert_extract_refuses(&["E1", &slot, "is gone", "compare source and target"]);
}

#[test]
fn a_slot_that_was_made_anew_is_refused() {
    let stage = used();
    let slot = stage.slot();
    stage.source.run(&format!("SELECT pg_drop_replication_slot('{slot}')"));
    stage.source.run("INSERT INTO t VALUES (2, 'lost')");
    stage.source.run(&format!("SELECT pg_create_logical_replication_slot('{slot}', 'pgoutput')"));
    stage.assert_extract_refuses(&[&slot, "past our position", "changes between are lost"]);
}

#[test]
fn a_slot_that_somebody_has_moved_on_is_refused() {
    let stage = used();
    let slot = stage.slot();
    stage.source.run("INSERT INTO t VALUES (2, 'lost')");
    stage.source.run(&format!("SELECT pg_replication_slot_advance('{slot}', pg_current_wal_lsn())"));
    stage.assert_extract_refuses(&[&slot, "past our position"]);
}

#[test]
fn a_publication_that_is_gone_or_made_anew_is_refused() {
    let stage = used();
    stage.source.run("DROP PUBLICATION drover_e1");
    stage.assert_extract_refuses(&["drover_e1", "is gone"]);
    stage.source.run("CREATE PUBLICATION drover_e1 FOR ALL TABLES");
    stage.assert_extract_refuses(&["another registration", "add the group anew"]);
}

#[test]
fn a_publication_that_is_dropped_under_a_running_extract_stops_it() {
    let stage = Stage::new(TABLE);
    let (extract, replicat) = (stage.extract(), stage.replicat());
    stage.wait_for_signal(&[&extract, &replicat]);
    stage.source.run("DROP PUBLICATION drover_e1");
    stage.source.run("INSERT INTO t VALUES (1, 'unseen')");
    let message = extract.fails();
    assert!(message.contains("drover_e1"), "{message}");
}

#[test]
fn another_server_under_the_same_address_is_refused() {
    let stage = used();
    stage.extract_parameters("TABLE *.*;");
    let text = stage.text("dirprm/e1.prm").replace(&stage.source.url(), &stage.target.url());
    stage.parameters("e1", &text);
    stage.assert_extract_refuses(&["not registered"]);
}

#[test]
fn after_a_refusal_the_group_can_be_added_anew() {
    let stage = used();
    stage.source.run(&format!("SELECT pg_drop_replication_slot('{}')", stage.slot()));
    stage.source.run("INSERT INTO t VALUES (2, 'lost')");
    stage.assert_extract_refuses(&["is gone"]);
    // What the message says: delete, copy what is missing, add anew.
    let (source, target) = (stage.source.url(), stage.target.url());
    stage.console(&format!(
        "DBLOGIN SOURCEDB '{source}'; DELETE EXTRACT e1 !; DBLOGIN SOURCEDB '{target}'; DELETE REPLICAT r1 !; \
         DELETE CHECKPOINTTABLE public.checkpoints !"
    ));
    stage.target.run("INSERT INTO t VALUES (2, 'lost')");
    for file in std::fs::read_dir(stage.home().join("dirdat")).expect("dirdat") {
        std::fs::remove_file(file.expect("a file").path()).expect("it can be removed");
    }
    stage.add_groups();
    stage.source.run("UPDATE t SET a = 'after'");
    stage.replicate();
    stage.assert_equal();
    assert_eq!(stage.source.run("SELECT count(*) FROM pg_publication"), "1");
}

#[test]
fn a_slot_that_the_server_has_invalidated_under_a_frozen_extract_is_refused() {
    let settings =
        [("max_slot_wal_keep_size", "1MB"), ("min_wal_size", "32MB"), ("max_wal_size", "32MB"), ("fsync", "off")];
    let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    let source = Cluster::start(&ClusterOptions { settings, ..ClusterOptions::default() });
    let stage = Stage::on(&source, &shared().target, TABLE);
    stage.add_groups();
    let (extract, replicat) = (stage.extract(), stage.replicat());
    stage.source.run("INSERT INTO t VALUES (1, 'before')");
    stage.wait_for_signal(&[&extract, &replicat]);
    extract.signal(rustix::process::Signal::STOP);
    // In another database: a walsender that can't send its last words keeps the server from ending it.
    source.psql("postgres", "CREATE TABLE noise (a text)");
    eventually("the slot is lost", || {
        source.psql("postgres", "INSERT INTO noise SELECT repeat('x', 1000) FROM generate_series(2, 20000) AS n");
        source.psql("postgres", "SELECT pg_switch_wal()");
        source.psql("postgres", "CHECKPOINT");
        (stage.source.run("SELECT wal_status FROM pg_replication_slots") == "lost").then_some(())
    });
    extract.signal(rustix::process::Signal::CONT);
    let message = extract.fails();
    assert!(message.contains(&stage.slot()), "{message}");
    stage.assert_extract_refuses(&["was invalidated by the server", "max_slot_wal_keep_size"]);
    replicat.stop();
}

/// Clusters of a test's own.
fn own_cluster() -> Cluster {
    let settings = vec![("fsync".to_owned(), "off".to_owned())];
    Cluster::start(&ClusterOptions { settings, ..ClusterOptions::default() })
}

/// A stage on `source` whose groups have moved something, and have stopped.
fn used_on(source: &Cluster) -> Stage<'_> {
    let stage = Stage::on(source, &shared().target, TABLE);
    stage.add_groups();
    stage.source.run("INSERT INTO t VALUES (1, 'before')");
    stage.replicate();
    stage
}

#[test]
fn a_standby_server_is_refused_and_so_is_the_new_timeline_after_its_promotion() {
    let source = own_cluster();
    let stage = used_on(&source);
    let options =
        ClusterOptions { settings: vec![("fsync".to_owned(), "off".to_owned())], ..ClusterOptions::default() };
    let standby = Cluster::standby(&source, &options);
    let text = stage.text("dirprm/e1.prm").replace(&stage.source.url(), &standby.url(&stage.source.database));
    stage.parameters("e1", &text);
    stage.assert_extract_refuses(&["standby server", "connect to the primary"]);
    source.stop("fast");
    standby.promote();
    // Slots do not come along, and the history is another one.
    stage.assert_extract_refuses(&["timeline", "promoted or restored", "compare source and target"]);
    // Somebody who makes the slot anew does not make the changes between come back.
    let slot = format!(
        "drover_e1_{}",
        standby.psql(&stage.source.database, "SELECT oid FROM pg_database WHERE datname = current_database()")
    );
    standby.psql(&stage.source.database, &format!("SELECT pg_create_logical_replication_slot('{slot}', 'pgoutput')"));
    stage.assert_extract_refuses(&["timeline", "promoted or restored", "compare source and target"]);
}

#[test]
fn a_server_that_was_restored_from_a_copy_of_its_files_is_refused_before_and_after_new_work() {
    let source = own_cluster();
    let stage = used_on(&source);
    source.stop("fast");
    source.back_up();
    source.start_again();
    stage.source.run("INSERT INTO t VALUES (2, 'lost by the restore')");
    stage.replicate();
    source.stop("fast");
    source.restore();
    source.start_again();
    stage.assert_extract_refuses(&["before our position", "restored to an earlier state"]);
    // The log grows past our position with other transactions.
    stage.source.run("CREATE TABLE noise (a int PRIMARY KEY, b text)");
    stage.source.run("INSERT INTO noise SELECT g, repeat('x', 1000) FROM generate_series(1, 3000) AS g");
    stage.source.run("INSERT INTO t VALUES (3, 'another life')");
    // A start that was refused has told the server nothing by which the next one could be deceived.
    for _ in 0..3 {
        stage.assert_extract_refuses(&["does not hold transaction", "with which our trail ends"]);
    }
}

#[test]
fn a_server_that_was_restored_to_a_state_behind_our_last_transaction_tells_what_it_has_done_since() {
    let source = own_cluster();
    let stage = used_on(&source);
    source.stop("fast");
    source.back_up();
    source.start_again();
    // Other work, with which our position goes on, but not our trail.
    let work = || {
        source.psql("postgres", "DROP TABLE IF EXISTS noise; CREATE TABLE noise (a text)");
        source.psql("postgres", "INSERT INTO noise SELECT repeat('x', 1000) FROM generate_series(1, 3000)");
    };
    work();
    let end = stage.source.run("SELECT pg_current_wal_lsn()");
    let extract = stage.extract();
    eventually("our position has gone past the other work", || {
        let sql = format!("SELECT confirmed_flush_lsn >= '{end}' FROM pg_replication_slots");
        (stage.source.run(&sql) == "t").then_some(())
    });
    extract.stop();
    source.stop("fast");
    source.restore();
    source.start_again();
    stage.source.run("INSERT INTO t VALUES (2, 'another life')");
    work();
    work();
    stage.source.run("INSERT INTO t VALUES (3, 'behind our position')");
    let info = stage.console("INFO EXTRACT e1, SHOWCH");
    stage.replicate();
    stage.assert_equal();
    let rows = stage.target.run("SELECT string_agg(id::text, ' ' ORDER BY id) FROM t");
    assert_eq!(rows, "1 2 3", "{info}");
    stage.replicate();
    stage.assert_equal();
}

#[test]
fn log_that_is_kept_is_shown_and_warned_of_before_it_fills_the_disk() {
    let stage = used();
    let slot = stage.slot();
    let login = format!("DBLOGIN SOURCEDB '{}'", stage.source.url());
    stage.source.run("INSERT INTO t SELECT g, repeat('x', 1000) FROM generate_series(2, 5000) AS g");
    let info = stage.console(&format!("{login}; INFO EXTRACT e1"));
    assert!(info.contains(&format!("{slot}, not being read")) && info.contains("wal_status reserved"), "{info}");
    let kept = stage.source.run(
        "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn) > 4000000 FROM pg_replication_slots \
         WHERE database = current_database()",
    );
    assert_eq!(kept, "t");
    let shown = info.lines().find(|line| line.starts_with("Log kept")).expect("a line").to_owned();
    let megabytes: f64 = shown.split_whitespace().nth(2).and_then(|text| text.parse().ok()).expect("a number");
    assert!(megabytes > 4.0 && shown.contains(" MB "), "{shown}");
    // Without a login the rest is shown.
    assert!(!stage.console("INFO EXTRACT e1").contains("Log kept"));
    for (levels, code) in [("WARNLOGKEPT 1M, CRITICAL 1G", "DRV-00430"), ("WARNLOGKEPT 1K, CRITICAL 1M", "DRV-00431")] {
        stage.extract_parameters(&format!("{levels}\nTABLE *.*;"));
        let extract = stage.extract();
        eventually("the report warns", || {
            let report = stage.text("dirrpt/E1.rpt");
            report.lines().any(|line| line.contains(code) && line.contains(&slot)).then_some(())
        });
        assert!(stage.text("drover.log").contains(code), "the event log has it, too");
        extract.stop();
        // What was captured is confirmed: fill again.
        stage.source.run("UPDATE t SET a = repeat('y', 1000)");
    }
}
