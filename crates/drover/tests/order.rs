//! Every change arrives exactly once and in commit order.

use crate::stage::{DEADLINE, EXTRACT, REPLICAT, SET_UP, Stage, eventually};
use rusqlite::{Connection, params};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// Transactions that each writer commits.
const TRANSACTIONS: u64 = 1_500;

/// Every transaction changes an item and says so in `history`, which has no unique column: a change that came twice would
/// stand there twice, and rows get their rowids in the order in which they arrive.
fn write(database: &Path, writer: i64, committed: &AtomicU64) {
    let mut connection = Connection::open(database).expect("the source opens");
    connection.busy_timeout(DEADLINE).expect("a busy timeout");
    let mut random = fastrand::Rng::with_seed(writer as u64);
    let mut counter: i64 = 0;
    for _ in 0..TRANSACTIONS {
        let transaction =
            connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate).expect("begin");
        for _ in 0..random.u32(1..5) {
            counter += 1;
            let item = random.u32(0..50);
            let upsert = "INSERT INTO item VALUES (?1, 1) ON CONFLICT DO UPDATE SET changes = changes + 1";
            transaction.prepare_cached(upsert).expect("sql").execute([item]).expect("an upsert");
            let note = "INSERT INTO history VALUES (?1, ?2, ?3)";
            transaction.prepare_cached(note).expect("sql").execute(params![writer, counter, item]).expect("an insert");
        }
        transaction.commit().expect("a commit");
        committed.fetch_add(1, Ordering::Relaxed);
    }
}

fn history(connection: &Connection) -> Vec<(i64, i64, i64)> {
    let mut statement = connection.prepare("SELECT * FROM history ORDER BY rowid").expect("sql");
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).expect("rows");
    rows.collect::<Result<_, _>>().expect("rows")
}

#[test]
fn a_history_arrives_exactly_once_and_in_order_while_both_groups_are_killed() {
    let stage = Stage::bare(
        "CREATE TABLE item (id INTEGER PRIMARY KEY, changes INTEGER); CREATE TABLE history (writer, counter, item)",
    );
    // The key that the operator names is not one that a database would check.
    let key = "KEYCOLS (writer, counter);";
    stage.parameters("e1", &EXTRACT.replace("main.*;", &format!("main.item;\nTABLE main.history, {key}")));
    stage.parameters("r1", REPLICAT);
    stage.console(SET_UP);
    let committed = AtomicU64::new(0);
    let source = stage.path().join("source.db");
    std::thread::scope(|scope| {
        let writers = [1, 2].map(|writer| {
            let (source, committed) = (&source, &committed);
            scope.spawn(move || write(source, writer, committed))
        });
        let (mut extract, mut replicat) = (stage.extract(), stage.replicat());
        // A kill every so many commits: each hits at another place of the work.
        for round in 1..=12 {
            let due = round * 2 * TRANSACTIONS / 14;
            eventually("the writers go on", || (committed.load(Ordering::Relaxed) >= due).then_some(()));
            extract.assert_running();
            replicat.assert_running();
            if round % 2 == 0 {
                extract.kill();
                extract = stage.extract();
            } else {
                replicat.kill();
                replicat = stage.replicat();
            }
        }
        writers.into_iter().for_each(|writer| writer.join().expect("the writer ends well"));
        stage.wait_until_equal(&["history", "item"], &extract, &replicat);
        extract.stop();
        replicat.stop();
    });
    let (expected, found) = (history(&stage.source()), history(&stage.target()));
    assert_eq!(expected.len(), found.len());
    assert!(expected == found, "rows arrive in commit order");
    for writer in [1, 2] {
        let counters: Vec<i64> = found.iter().filter(|row| row.0 == writer).map(|row| row.1).collect();
        assert_eq!(counters, (1..=counters.len() as i64).collect::<Vec<_>>());
    }
}
