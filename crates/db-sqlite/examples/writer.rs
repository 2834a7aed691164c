//! The workload of `cargo x bench sqlite`: an application that writes, and an observer at the target.
//!
//! ```text
//! writer version
//! writer prepare DATABASE ROWS
//! writer shadow DATABASE
//! writer warm SOURCE TARGET
//! writer write DATABASE insert|update|delete ROWS ROWS_PER_TRANSACTION
//! writer await DATABASE insert=ROWS|update|delete
//! writer pace SOURCE TARGET ROWS_PER_TRANSACTION TRANSACTIONS_PER_SECOND SECONDS
//! writer compare SOURCE TARGET
//! ```
//!
//! Each writes one line of JSON. It speaks plain SQL and knows nothing of Drover, so that it measures and compares what
//! an application would see.

use rusqlite::{Connection, params};
use std::error::Error;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

type Outcome<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

/// How long anything is waited for before the benchmark gives up.
const WAIT_MAX: Duration = Duration::from_secs(600);

/// A row that no workload touches: it shows that the whole way from source to target is open.
const SENTINEL: i64 = -1;

/// The value that the last update of a workload leaves in column `k`.
const LAST: i64 = -1;

fn main() -> Outcome {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["version"] => println!("{{\"version\": \"{}\"}}", rusqlite::version()),
        ["prepare", database, rows] => prepare(database, rows.parse()?)?,
        ["shadow", database] => shadow(database)?,
        ["warm", source, target] => warm(source, target)?,
        ["write", database, operation, rows, rows_per_transaction] => {
            write(database, operation, rows.parse()?, rows_per_transaction.parse()?)?;
        }
        ["await", database, operation] => wait_for(database, operation)?,
        ["pace", source, target, rows_per_transaction, rate, seconds] => {
            pace(source, target, rows_per_transaction.parse()?, rate.parse()?, seconds.parse()?)?;
        }
        ["compare", source, target] => compare(source, target)?,
        _ => return Err("usage: see the first lines of examples/writer.rs".into()),
    }
    Ok(())
}

fn open(database: &str) -> Outcome<Connection> {
    let connection = Connection::open(database)?;
    connection.busy_timeout(WAIT_MAX)?;
    connection.execute_batch("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA cache_size = -200000;")?;
    Ok(connection)
}

fn insert(connection: &Connection, id: i64) -> rusqlite::Result<usize> {
    let text = format!("{:032x}", id.wrapping_mul(2_654_435_761));
    connection.prepare_cached("INSERT INTO item VALUES (?, ?, ?, ?, ?)")?.execute(params![
        id,
        id % 1000,
        text,
        "2026-01-01T00:00:00.123456Z",
        id as f64 * 0.01
    ])
}

fn prepare(database: &str, rows: i64) -> Outcome {
    let connection = open(database)?;
    connection.execute_batch(
        "CREATE TABLE item (id INTEGER PRIMARY KEY, k INTEGER, a TEXT, ts TEXT, amount REAL); BEGIN IMMEDIATE;",
    )?;
    for id in 1..=rows {
        insert(&connection, id)?;
    }
    connection.execute_batch("COMMIT")?;
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
    Ok(())
}

/// Installs the least that could be called capture: one table of typed columns, one trigger for each operation. Nothing is
/// known here of replaced rows, of tables that change shape, or of more tables than this one.
fn shadow(database: &str) -> Outcome {
    let values = |row: &str| ["id", "k", "a", "ts", "amount"].map(|column| format!("{row}.{column}")).join(", ");
    open(database)?.execute_batch(&format!(
        "CREATE TABLE shadow (seq INTEGER PRIMARY KEY, op TEXT,
             o0 INTEGER, o1 INTEGER, o2 TEXT, o3 TEXT, o4 REAL, n0 INTEGER, n1 INTEGER, n2 TEXT, n3 TEXT, n4 REAL);
         CREATE TRIGGER shadow_insert AFTER INSERT ON item BEGIN
             INSERT INTO shadow (op, n0, n1, n2, n3, n4) VALUES ('i', {new}); END;
         CREATE TRIGGER shadow_update AFTER UPDATE ON item BEGIN
             INSERT INTO shadow (op, o0, o1, o2, o3, o4, n0, n1, n2, n3, n4) VALUES ('u', {old}, {new}); END;
         CREATE TRIGGER shadow_delete AFTER DELETE ON item BEGIN
             INSERT INTO shadow (op, o0, o1, o2, o3, o4) VALUES ('d', {old}); END;",
        new = values("NEW"),
        old = values("OLD"),
    ))?;
    Ok(())
}

/// Sends the sentinel there and away again.
fn warm(source: &str, target: &str) -> Outcome {
    let (source, target) = (open(source)?, open(target)?);
    let is_there = "SELECT EXISTS (SELECT 1 FROM item WHERE id = -1)";
    insert(&source, SENTINEL)?;
    observe(&target, Duration::from_millis(1), |target| target.query_row(is_there, [], |row| row.get(0)))?;
    source.execute("DELETE FROM item WHERE id = ?", [SENTINEL])?;
    let is_gone = format!("SELECT NOT {}", &is_there["SELECT ".len()..]);
    observe(&target, Duration::from_millis(1), |target| target.query_row(&is_gone, [], |row| row.get(0)))
}

/// Asks `is_done` whenever somebody else has written to the database, until it says yes.
fn observe(
    connection: &Connection,
    pause: Duration,
    mut is_done: impl FnMut(&Connection) -> rusqlite::Result<bool>,
) -> Outcome {
    let mut version = connection.prepare("PRAGMA data_version")?;
    let (mut seen, deadline) = (None, Instant::now() + WAIT_MAX);
    while Instant::now() < deadline {
        let now: i64 = version.query_row([], |row| row.get(0))?;
        if seen != Some(now) {
            seen = Some(now);
            if is_done(connection)? {
                return Ok(());
            }
        }
        std::thread::sleep(pause);
    }
    Err("the target did not get there in ten minutes".into())
}

fn write(database: &str, operation: &str, rows: i64, rows_per_transaction: i64) -> Outcome {
    let connection = open(database)?;
    let (begun_at, begun, cpu) = (unix_seconds()?, Instant::now(), cpu_seconds()?);
    let mut next = 1;
    while next <= rows {
        connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        for number in next..=rows.min(next + rows_per_transaction - 1) {
            let changed = match operation {
                "insert" => insert(&connection, number)?,
                "update" => {
                    let k = if number == rows { LAST } else { number % 777 };
                    let text = format!("{:032x}", number * 40_503);
                    let mut update = connection.prepare_cached("UPDATE item SET k = ?, a = ? WHERE id = ?")?;
                    update.execute(params![k, text, number])?
                }
                "delete" => connection.prepare_cached("DELETE FROM item WHERE id = ?")?.execute([number])?,
                _ => return Err(format!("there is no operation {operation:?}").into()),
            };
            if changed != 1 {
                return Err(format!("{operation} number {number} changed {changed} rows").into());
            }
        }
        connection.prepare_cached("COMMIT")?.execute([])?;
        next += rows_per_transaction;
    }
    println!(
        "{{\"rows\": {rows}, \"seconds\": {:.6}, \"cpu_seconds\": {:.2}, \"begun_unix_seconds\": {begun_at:.6}}}",
        begun.elapsed().as_secs_f64(),
        cpu_seconds()? - cpu
    );
    Ok(())
}

/// Waits until the last row of a workload is visible. Apply keeps commit order, so all others are there then.
fn wait_for(database: &str, operation: &str) -> Outcome {
    let is_done = match operation.split_once('=') {
        Some(("insert", rows)) => {
            format!("SELECT coalesce(max(id), 0) >= {} FROM item", rows.parse::<i64>()?)
        }
        None if operation == "update" => format!("SELECT k = {LAST} FROM item ORDER BY id DESC LIMIT 1"),
        None if operation == "delete" => "SELECT NOT EXISTS (SELECT 1 FROM item)".to_owned(),
        _ => return Err(format!("there is no operation {operation:?}").into()),
    };
    observe(&open(database)?, Duration::from_millis(1), |target| target.query_row(&is_done, [], |row| row.get(0)))?;
    println!("{{\"seen_unix_seconds\": {:.6}}}", unix_seconds()?);
    Ok(())
}

/// Writes at a steady rate and measures, per transaction, from the return of its commit to its sight at the target.
fn pace(source: &str, target: &str, rows_per_transaction: i64, rate: u32, seconds: u32) -> Outcome {
    let (connection, target) = (open(source)?, open(target)?);
    let transactions = i64::from(rate) * i64::from(seconds);
    let begun = Instant::now();
    let application = std::thread::spawn(move || -> Outcome<Vec<Instant>> {
        let mut committed = Vec::new();
        for transaction in 0..transactions {
            let due = begun + Duration::from_secs_f64(transaction as f64 / f64::from(rate));
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
            for row in 1..=rows_per_transaction {
                insert(&connection, transaction * rows_per_transaction + row)?;
            }
            connection.prepare_cached("COMMIT")?.execute([])?;
            committed.push(Instant::now());
        }
        Ok(committed)
    });
    let mut visible = Vec::new();
    observe(&target, Duration::from_micros(100), |target| {
        let last: i64 =
            target.prepare_cached("SELECT coalesce(max(id), 0) FROM item")?.query_row([], |row| row.get(0))?;
        visible.resize((last / rows_per_transaction) as usize, Instant::now());
        Ok(last >= transactions * rows_per_transaction)
    })?;
    let committed = application.join().map_err(|_| "the writing thread panicked")??;
    let mut lags: Vec<f64> = std::iter::zip(&committed, &visible)
        .map(|(committed, visible)| visible.saturating_duration_since(*committed).as_secs_f64() * 1000.0)
        .collect();
    lags.sort_by(f64::total_cmp);
    let percentile = |share: f64| lags[((lags.len() - 1) as f64 * share).round() as usize];
    println!(
        "{{\"p50_ms\": {:.3}, \"p95_ms\": {:.3}, \"p99_ms\": {:.3}, \"max_ms\": {:.3}, \"seconds\": {:.3}}}",
        percentile(0.50),
        percentile(0.95),
        percentile(0.99),
        percentile(1.0),
        committed.last().map_or(0.0, |last| last.duration_since(begun).as_secs_f64())
    );
    Ok(())
}

fn compare(source: &str, target: &str) -> Outcome {
    let connection = open(source)?;
    connection.execute("ATTACH ? AS target", [target])?;
    let differences: i64 = connection.query_row(
        "SELECT (SELECT count(*) FROM (SELECT * FROM main.item EXCEPT SELECT * FROM target.item))
              + (SELECT count(*) FROM (SELECT * FROM target.item EXCEPT SELECT * FROM main.item))",
        [],
        |row| row.get(0),
    )?;
    println!("{{\"differences\": {differences}}}");
    if differences == 0 { Ok(()) } else { Err(format!("{differences} rows differ").into()) }
}

#[expect(clippy::disallowed_methods, reason = "commit and sight are measured by two processes of one machine")]
fn unix_seconds() -> Outcome<f64> {
    Ok(SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs_f64())
}

/// CPU seconds of this process: user and system time are fields 14 and 15, in ticks of 1/100 s.
fn cpu_seconds() -> Outcome<f64> {
    let text = std::fs::read_to_string("/proc/self/stat")?;
    let after_name = text.rsplit_once(')').ok_or("/proc/self/stat has no process name")?.1;
    let ticks: u64 = after_name.split_whitespace().skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    Ok(ticks as f64 / 100.0)
}
