//! Prepared transactions that are read when they are prepared: TRANLOGOPTIONS TWOPHASE.

use super::stage::Stage;
use super::streaming::{assert_streamed, connect, fill, stream_everything};
use crate::stage::eventually;
use db_postgres::wire::Connection;
use std::time::Duration;

fn two_phase(schema: &str) -> Stage<'static> {
    let stage = Stage::bare(schema);
    stream_everything(&stage.source);
    stage.extract_parameters("TRANLOGOPTIONS TWOPHASE\nTABLE *.*;");
    stage.add_groups();
    stage
}

/// Names of the files that keep prepared transactions.
fn kept(stage: &Stage<'_>) -> Vec<String> {
    let files = std::fs::read_dir(stage.home().join("dirbr")).expect("dirbr").flatten();
    let names = files.map(|file| file.file_name().to_string_lossy().into_owned());
    let mut names: Vec<String> = names.filter(|name| name.ends_with(".prepared") || name.ends_with(".ended")).collect();
    names.sort();
    names
}

impl Stage<'_> {
    fn prepare(&self, user: &mut Connection, name: &str) {
        user.run(&format!("PREPARE TRANSACTION '{}_{name}'", self.source.database)).expect("a preparation");
    }

    fn end(&self, how: &str, name: &str) {
        self.source.run(&format!("{how} PREPARED '{}_{name}'", self.source.database));
    }

    /// Whether the server was told that it may forget what is before `lsn`.
    fn is_confirmed(&self, lsn: &str) -> bool {
        self.source.holds(&format!(
            "SELECT FROM pg_replication_slots WHERE database = '{}' AND confirmed_flush_lsn >= '{lsn}' AND two_phase",
            self.source.database
        ))
    }
}

#[test]
fn nothing_behind_a_preparation_is_confirmed_before_its_rows_are_durable() {
    let stage = two_phase("CREATE TABLE t (id int PRIMARY KEY, a text); CREATE TABLE u (id int PRIMARY KEY, a text)");
    let (extract, replicat) = (stage.extract(), stage.replicat());
    let mut user = connect(&stage.source);
    // Small ones, which come in one piece, and large ones, which the server streams before they are prepared.
    for (name, table, first, rows) in
        [("small", "u", 1, 3), ("large", "t", 1, 3_000), ("given_up", "t", 10_001, 3_000), ("small_too", "u", 101, 3)]
    {
        user.run("BEGIN").expect("a transaction");
        fill(&mut user, table, first, rows);
        user.run("SAVEPOINT s").expect("a savepoint");
        fill(&mut user, table, first + 50_000, rows);
        user.run("ROLLBACK TO s").expect("a rollback");
        stage.prepare(&mut user, name);
    }
    let end = stage.source.run("SELECT pg_current_wal_lsn()");
    fill(&mut user, "u", 1_001, 5);
    assert_streamed(&stage.source, 2);
    eventually("the server was told that it may forget the preparations", || {
        extract.assert_running();
        stage.is_confirmed(&end).then_some(())
    });
    assert_eq!(kept(&stage).len(), 4, "what it may forget is kept here");
    stage.wait_for_signal(&[&extract, &replicat]);
    assert_eq!(stage.target.run("SELECT (SELECT count(*) FROM t), (SELECT count(*) FROM u)"), "0|5");

    extract.kill();
    let extract = stage.extract();
    let shown = eventually("they are open still", || {
        let output = stage.try_ask("SEND EXTRACT e1, SHOWTRANS");
        (output.matches("Status:               Prepared").count() == 4).then_some(output)
    });
    assert!(shown.contains("Items:                3000") && shown.contains("Items:                3\n"), "{shown}");
    stage.end("COMMIT", "large");
    extract.kill();
    stage.end("ROLLBACK", "given_up");
    stage.end("COMMIT", "small");
    let extract = stage.extract();
    eventually("what was committed is at the target", || {
        extract.assert_running();
        replicat.assert_running();
        let sql = "SELECT WHERE (SELECT count(*) FROM t) = 3000 AND (SELECT count(*) FROM u) = 8";
        stage.target.holds(sql).then_some(())
    });
    stage.end("ROLLBACK", "small_too");
    stage.wait_for_signal(&[&extract, &replicat]);
    eventually("nothing is kept any more", || kept(&stage).is_empty().then_some(()));
    extract.stop();
    replicat.stop();
    assert!(stage.assert_equal() > 3_000);
}

#[test]
fn prepared_transactions_come_once_and_whole_through_any_kills() {
    let seed = std::env::var("DROVER_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| fastrand::u64(..1_000_000));
    println!("DROVER_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let stage = two_phase("CREATE TABLE t (id int PRIMARY KEY, a text)");
    let (mut extract, replicat) = (stage.extract(), stage.replicat());
    let mut user = connect(&stage.source);
    let mut open: Vec<String> = Vec::new();
    for round in 0..24_u32 {
        let name = format!("p{round}");
        user.run("BEGIN").expect("a transaction");
        fill(&mut user, "t", round * 10_000 + 1, if random.bool() { 2_000 } else { 5 });
        stage.prepare(&mut user, &name);
        open.push(name);
        fill(&mut user, "t", round * 10_000 + 9_001, 3);
        while open.len() > usize::from(random.u8(0..4)) {
            let name = open.swap_remove(random.usize(..open.len()));
            stage.end(if random.u8(0..3) == 0 { "ROLLBACK" } else { "COMMIT" }, &name);
        }
        if random.u8(0..2) == 0 {
            // The moment of a kill is the test's input.
            std::thread::sleep(Duration::from_millis(random.u64(0..300)));
            extract.kill();
            extract = stage.extract();
        }
    }
    open.iter().for_each(|name| stage.end("COMMIT", name));
    stage.wait_for_signal(&[&extract, &replicat]);
    extract.stop();
    replicat.stop();
    stage.assert_equal();
    assert_eq!(kept(&stage), Vec::<String>::new());
}

#[test]
fn a_prepared_transaction_that_is_damaged_here_stops_the_extract_by_name() {
    let stage = two_phase("CREATE TABLE t (id int PRIMARY KEY, a text)");
    let extract = stage.extract();
    let mut user = connect(&stage.source);
    user.run("BEGIN").expect("a transaction");
    fill(&mut user, "t", 1, 5);
    stage.prepare(&mut user, "held");
    let end = stage.source.run("SELECT pg_current_wal_lsn()");
    fill(&mut user, "t", 101, 5);
    eventually("the preparation is confirmed", || stage.is_confirmed(&end).then_some(()));
    extract.stop();
    let file = stage.home().join("dirbr").join(kept(&stage).pop().expect("a file"));
    let sound = std::fs::read(&file).expect("a file");
    let mut damaged = sound.clone();
    damaged[sound.len() / 2] ^= 1;
    std::fs::write(&file, &damaged).expect("a file");
    let message = stage.extract().fails();
    assert!(message.contains("DRV-00332") && message.contains("prepared transaction"), "{message}");
    // Without TWOPHASE the slot is read as before: the server would not tell it.
    std::fs::write(&file, &sound).expect("a file");
    stage.extract_parameters("TABLE *.*;");
    let (extract, replicat) = (stage.extract(), stage.replicat());
    stage.end("COMMIT", "held");
    stage.wait_for_signal(&[&extract, &replicat]);
    extract.stop();
    replicat.stop();
    assert!(stage.text("dirrpt/E1.rpt").contains("prepared transactions are told when they are prepared"));
    assert_eq!(stage.assert_equal(), 11);
}

#[test]
fn what_was_prepared_before_two_phase_comes_and_what_is_kept_nowhere_stops_the_extract() {
    let stage = two_phase("CREATE TABLE t (id int PRIMARY KEY, a text)");
    stage.extract_parameters("TABLE *.*;");
    let (extract, replicat) = (stage.extract(), stage.replicat());
    let mut user = connect(&stage.source);
    for (name, first) in [("early", 1), ("early_large", 10_001)] {
        user.run("BEGIN").expect("a transaction");
        fill(&mut user, "t", first, if first == 1 { 5 } else { 2_000 });
        stage.prepare(&mut user, name);
    }
    fill(&mut user, "t", 101, 5);
    stage.wait_for_signal(&[&extract, &replicat]);
    extract.stop();

    stage.extract_parameters("TRANLOGOPTIONS TWOPHASE\nTABLE *.*;");
    let extract = stage.extract();
    stage.end("COMMIT", "early");
    stage.wait_for_signal(&[&extract, &replicat]);
    extract.kill();
    stage.end("COMMIT", "early_large");
    let extract = stage.extract();
    stage.wait_for_signal(&[&extract, &replicat]);
    eventually("both are at the target", || {
        replicat.assert_running();
        stage.target.holds("SELECT FROM t HAVING count(*) = 2010").then_some(())
    });

    user.run("BEGIN").expect("a transaction");
    fill(&mut user, "t", 201, 5);
    stage.prepare(&mut user, "missing");
    let end = stage.source.run("SELECT pg_current_wal_lsn()");
    fill(&mut user, "t", 301, 5);
    eventually("the preparation is confirmed", || stage.is_confirmed(&end).then_some(()));
    extract.stop();
    let file = kept(&stage).into_iter().find(|name| name.ends_with(".prepared")).expect("a file");
    std::fs::remove_file(stage.home().join("dirbr").join(file)).expect("a file");
    stage.end("COMMIT", "missing");
    let message = stage.extract().fails();
    assert!(message.contains("DRV-00332") && message.contains("nothing is kept of it here"), "{message}");
}
