//! Transactions that the server streams before they commit.

use super::stage::{Side, Stage};
use crate::stage::{Running, drover, eventually};
use db_postgres::wire::{Config, Connection};
use std::time::Duration;

/// The server streams everything that is larger than this.
pub fn stream_everything(side: &Side<'_>) {
    side.run(&format!("ALTER DATABASE {} SET logical_decoding_work_mem = '64kB'", side.database));
}

pub fn streaming(schema: &str) -> Stage<'static> {
    let stage = Stage::bare(schema);
    stream_everything(&stage.source);
    stage.add_groups();
    stage
}

pub fn connect(side: &Side<'_>) -> Connection {
    let mut connection = Connection::connect(&Config::parse(&side.url()).expect("a URL")).expect("a server");
    connection.run("SET search_path = public, pg_catalog").expect("a setting");
    connection
}

/// Asserts that the server has streamed so many transactions at least, aborted ones included.
pub fn assert_streamed(side: &Side<'_>, at_least: u32) {
    let sql = format!(
        "SELECT FROM pg_stat_replication_slots s JOIN pg_replication_slots r USING (slot_name) \
         WHERE r.database = '{}' AND s.stream_txns >= {at_least}",
        side.database
    );
    eventually("the server has streamed", || side.holds(&sql).then_some(()));
}

pub fn fill(connection: &mut Connection, table: &str, first: u32, rows: u32) {
    let last = first + rows - 1;
    connection
        .run(&format!(
            "INSERT INTO {table} SELECT n, repeat(md5(n::text), 3) FROM generate_series({first}, {last}) AS n"
        ))
        .expect("an insert");
}

#[test]
fn interleaved_transactions_with_savepoints_end_equal_whatever_is_killed_in_their_middle() {
    let seed = std::env::var("DROVER_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| fastrand::u64(..1_000_000));
    println!("DROVER_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let stage =
        streaming("CREATE TABLE t (id int PRIMARY KEY, a text); CREATE TABLE small (id int PRIMARY KEY, a text)");
    let mut extract = stage.extract();
    let replicat = stage.replicat();
    let mut users: Vec<Connection> = (0..4).map(|_| connect(&stage.source)).collect();
    let mut next = 1;
    for round in 0..3 {
        for user in &mut users {
            user.run("BEGIN").expect("a transaction");
        }
        for step in 0..12 {
            for user in &mut users {
                user.run("SAVEPOINT outer_one").expect("a savepoint");
                fill(user, "t", next, 400);
                user.run("SAVEPOINT inner_one").expect("a savepoint");
                fill(user, "t", next + 400, 400);
                match random.u8(0..4) {
                    0 => user.run("ROLLBACK TO inner_one"),
                    1 => user.run("ROLLBACK TO outer_one"),
                    2 => user.run("RELEASE inner_one"),
                    _ => user.run(&format!("UPDATE t SET a = 'changed' WHERE id % 7 = 0 AND id >= {next}")),
                }
                .expect("a savepoint");
                next += 800;
            }
            let id = round * 100 + step;
            stage.source.run(&format!("INSERT INTO small VALUES ({id}, 'beside'); UPDATE small SET a = a || {id}"));
            if random.u8(0..3) == 0 {
                // The moment of a kill is the test's input.
                std::thread::sleep(Duration::from_millis(random.u64(0..200)));
                extract.kill();
                extract = stage.extract();
            }
        }
        for (place, user) in users.iter_mut().enumerate() {
            let end = if place == round as usize { "ROLLBACK" } else { "COMMIT" };
            user.run(end).expect("an end");
        }
    }
    stage.wait_for_signal(&[&extract, &replicat]);
    assert_streamed(&stage.source, 12);
    extract.stop();
    replicat.stop();
    assert!(stage.assert_equal() > 5_000);
}

#[test]
fn what_was_applied_is_not_captured_although_the_server_streams_it() {
    let stage = streaming("CREATE TABLE t (id int PRIMARY KEY, a text)");
    stream_everything(&stage.target);
    // An Extract at the target.
    let (source, target) = (stage.source.url(), stage.target.url());
    stage.parameters("e2", &format!("EXTRACT e2\nSOURCEDB {target}\nEXTTRAIL ./dirdat/bb\nTABLE public.t;\n"));
    stage.console(&format!(
        "DBLOGIN SOURCEDB '{target}'\nADD EXTRACT e2, TRANLOG, BEGIN NOW\nADD EXTTRAIL ./dirdat/bb, EXTRACT e2"
    ));
    assert!(!source.is_empty());
    let mut command = drover();
    command.args(["extract", "e2", "--home"]).arg(stage.home());
    let (extract, replicat, back) = (stage.extract(), stage.replicat(), Running::start(command));
    fill(&mut connect(&stage.source), "t", 1, 5_000);
    stage.wait_for_signal(&[&extract, &replicat, &back]);
    // A large transaction of the target's own users is captured.
    fill(&mut connect(&stage.target), "t", 10_001, 5_000);
    let end = stage.target.run("SELECT pg_current_wal_lsn()");
    eventually("the Extract at the target has read everything", || {
        back.assert_running();
        let sql = format!(
            "SELECT FROM pg_replication_slots WHERE database = '{}' AND confirmed_flush_lsn >= '{end}'",
            stage.target.database
        );
        stage.target.holds(&sql).then_some(())
    });
    assert_streamed(&stage.target, 2);
    extract.stop();
    replicat.stop();
    back.stop();
    stage.target.run(&format!(
        "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = '{}'",
        stage.target.database
    ));
    let text = crate::stage::logdump(&stage.home().join("dirdat/bb000000000"));
    let inserts = text.lines().filter(|line| line.contains(" Insert ")).count();
    assert_eq!(inserts, 5_000, "what was applied is left out");
}

#[test]
fn shapes_of_a_table_count_from_their_commit_and_vanish_with_their_rollback() {
    let stage = streaming("CREATE TABLE t (id int PRIMARY KEY, a text); CREATE TABLE u (id int PRIMARY KEY, a text)");
    let (extract, replicat) = (stage.extract(), stage.replicat());
    let mut user = connect(&stage.source);
    // A column that comes and goes inside a savepoint, with enough rows to be streamed under both shapes.
    user.run("BEGIN").expect("a transaction");
    fill(&mut user, "t", 1, 2_000);
    user.run("SAVEPOINT s; ALTER TABLE t ADD COLUMN b int DEFAULT 7").expect("an alteration");
    user.run("INSERT INTO t SELECT n, 'wide', n FROM generate_series(10001, 13000) AS n").expect("an insert");
    // Somebody else meanwhile.
    fill(&mut connect(&stage.source), "u", 1, 2_000);
    user.run("ROLLBACK TO s").expect("a rollback");
    fill(&mut user, "t", 5_001, 2_000);
    user.run("COMMIT").expect("a commit");
    fill(&mut user, "t", 20_001, 2_000);
    // A whole transaction that takes the key away, and is rolled back.
    user.run("BEGIN; ALTER TABLE u DROP CONSTRAINT u_pkey").expect("an alteration");
    fill(&mut user, "u", 50_001, 3_000);
    user.run("ROLLBACK").expect("a rollback");
    fill(&mut user, "u", 60_001, 2_000);
    stage.wait_for_signal(&[&extract, &replicat]);
    assert_streamed(&stage.source, 5);
    // One that commits.
    stage.target.run("ALTER TABLE t ADD COLUMN c int");
    user.run("BEGIN; ALTER TABLE t ADD COLUMN c int").expect("an alteration");
    user.run("INSERT INTO t SELECT n, 'wide', n FROM generate_series(30001, 33000) AS n; COMMIT").expect("an insert");
    user.run("UPDATE t SET c = 5 WHERE id < 100").expect("an update");
    // A Replicat that knew the target's old shape looks at it anew when it starts.
    replicat.kill();
    let replicat = stage.replicat();
    stage.wait_for_signal(&[&extract, &replicat]);
    extract.stop();
    replicat.stop();
    assert!(stage.assert_equal() > 10_000);
}

#[test]
fn a_key_that_is_taken_away_for_good_stops_the_extract_by_name() {
    let stage = streaming("CREATE TABLE t (id int PRIMARY KEY, a text)");
    let extract = stage.extract();
    let mut user = connect(&stage.source);
    user.run("BEGIN; ALTER TABLE t DROP CONSTRAINT t_pkey").expect("an alteration");
    fill(&mut user, "t", 1, 3_000);
    assert_streamed(&stage.source, 1);
    extract.assert_running();
    user.run("COMMIT").expect("a commit");
    let message = extract.fails();
    assert!(message.contains("public.t") && message.contains("key"), "{message}");
}

#[test]
fn a_prepared_transaction_arrives_when_it_is_committed_and_holds_nothing_up() {
    let stage = streaming("CREATE TABLE t (id int PRIMARY KEY, a text); CREATE TABLE u (id int PRIMARY KEY, a text)");
    let (mut extract, replicat) = (stage.extract(), stage.replicat());
    let mut user = connect(&stage.source);
    for (name, first) in [("kept", 1), ("given_up", 10_001)] {
        user.run("BEGIN").expect("a transaction");
        fill(&mut user, "t", first, 3_000);
        user.run(&format!("PREPARE TRANSACTION '{}_{name}'", stage.source.database)).expect("a preparation");
    }
    assert_streamed(&stage.source, 2);
    fill(&mut user, "u", 1, 10);
    stage.wait_for_signal(&[&extract, &replicat]);
    assert_eq!(stage.target.run("SELECT (SELECT count(*) FROM t), (SELECT count(*) FROM u)"), "0|10");
    extract.kill();
    extract = stage.extract();
    user.run(&format!("COMMIT PREPARED '{}_kept'", stage.source.database)).expect("a commit");
    user.run(&format!("ROLLBACK PREPARED '{}_given_up'", stage.source.database)).expect("a rollback");
    stage.wait_for_signal(&[&extract, &replicat]);
    extract.stop();
    replicat.stop();
    stage.assert_equal();
    assert_eq!(stage.target.run("SELECT count(*) FROM t"), "3000");
}

/// The most memory that a process has had, in bytes.
fn peak(running: &Running) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", running.id())).expect("a process");
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).expect("a peak");
    line.split_whitespace().nth(1).and_then(|kib| kib.parse::<u64>().ok()).expect("a number") * 1024
}

#[test]
fn a_transaction_of_any_size_takes_little_memory() {
    let rows = std::env::var("DROVER_ROWS").ok().and_then(|rows| rows.parse().ok()).unwrap_or(300_000_u32);
    let stage = Stage::bare("CREATE TABLE t (id int PRIMARY KEY, a text)");
    stream_everything(&stage.source);
    stage.extract_parameters("CACHEMGR CACHESIZE 16MB\nTABLE public.*;");
    stage.add_groups();
    let extract = stage.extract();
    let mut user = connect(&stage.source);
    user.run("BEGIN").expect("a transaction");
    fill(&mut user, "t", 1, rows);
    eventually("the store has spilled", || {
        extract.assert_running();
        let files = std::fs::read_dir(stage.home().join("dirtmp")).expect("dirtmp");
        let is_spill = |file: &std::fs::DirEntry| file.path().extension().is_some_and(|extension| extension == "spill");
        files.flatten().any(|file| is_spill(&file)).then_some(())
    });
    user.run("COMMIT").expect("a commit");
    let end = stage.source.run("SELECT pg_current_wal_lsn()");
    eventually("the Extract has read everything", || {
        extract.assert_running();
        let sql = format!(
            "SELECT FROM pg_replication_slots WHERE database = '{}' AND confirmed_flush_lsn >= '{end}'",
            stage.source.database
        );
        stage.source.holds(&sql).then_some(())
    });
    let peak = peak(&extract);
    println!("{rows} rows: {} MB at most", peak >> 20);
    assert!(peak < 128 << 20, "{} MB", peak >> 20);
    extract.stop();
    assert!(stage.text("dirrpt/E1.rpt").contains(&rows.to_string()));
    let left = std::fs::read_dir(stage.home().join("dirtmp")).expect("dirtmp").count();
    assert_eq!(left, 0, "spill files go with their transactions");
}
