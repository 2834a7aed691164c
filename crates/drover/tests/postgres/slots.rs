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
