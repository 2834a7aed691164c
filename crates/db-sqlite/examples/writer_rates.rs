//! What capture costs a writer: rows per second with nothing, with a shadow table of typed columns filled by plain triggers
//! (a yardstick), and with Drover's capture. WAL, synchronous=NORMAL, 6 columns.
//!
//! `cargo run --release -p db-sqlite --example writer_rates [REPEATS]`; the best of the repeats counts.

use change::TableName;
use database::TableSelection;
use rusqlite::{Connection, params};
use std::path::Path;
use std::time::Instant;

struct Everything;

impl TableSelection for Everything {
    fn selects(&self, _: &TableName) -> bool {
        true
    }

    fn required(&self) -> Vec<TableName> {
        Vec::new()
    }

    fn key_columns(&self, _: &TableName) -> Option<Vec<String>> {
        None
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Capture {
    None,
    Shadow,
    Drover,
}

const SHADOW: &str = "
CREATE TABLE chg (seq INTEGER PRIMARY KEY, op, o0, o1, o2, o3, o4, o5, n0, n1, n2, n3, n4, n5);
CREATE TRIGGER ti AFTER INSERT ON t BEGIN
    INSERT INTO chg (op, n0, n1, n2, n3, n4, n5) VALUES ('I', NEW.id, NEW.k, NEW.a, NEW.ts, NEW.amt, NEW.b); END;
CREATE TRIGGER tu AFTER UPDATE ON t BEGIN
    INSERT INTO chg (op, o0, o1, o2, o3, o4, o5, n0, n1, n2, n3, n4, n5) VALUES
    ('U', OLD.id, OLD.k, OLD.a, OLD.ts, OLD.amt, OLD.b, NEW.id, NEW.k, NEW.a, NEW.ts, NEW.amt, NEW.b); END;
CREATE TRIGGER td AFTER DELETE ON t BEGIN
    INSERT INTO chg (op, o0, o1, o2, o3, o4, o5) VALUES ('D', OLD.id, OLD.k, OLD.a, OLD.ts, OLD.amt, OLD.b); END;";

fn open(path: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open(path)?;
    connection.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(()))?;
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    Ok(connection)
}

/// Rows per second of inserting, updating and deleting `rows` rows.
fn rates(capture: Capture, rows: i64, per_transaction: i64) -> Result<[f64; 3], Box<dyn std::error::Error>> {
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("data.db");
    let connection = open(&path)?;
    connection
        .execute_batch("CREATE TABLE t (id INTEGER PRIMARY KEY, k INTEGER, a TEXT, ts TEXT, amt REAL, b BLOB)")?;
    match capture {
        Capture::None => {}
        Capture::Shadow => connection.execute_batch(SHADOW)?,
        Capture::Drover => {
            db_sqlite::open(&format!("sqlite:{}", path.display()))?.register_capture("E1", &Everything)?;
        }
    }
    let statements = [
        "INSERT INTO t VALUES (?1, ?1 % 1000, ?2, '2026-01-01T00:00:00.123456Z', ?1 * 0.01, x'00112233445566778899')",
        "UPDATE t SET k = ?1 % 777, a = ?2 WHERE id = ?1",
        "DELETE FROM t WHERE id = ?1 AND ?2 <> ''",
    ];
    let mut rates = [0.0; 3];
    for (place, sql) in statements.iter().enumerate() {
        let start = Instant::now();
        let mut next = 0;
        while next < rows {
            connection.prepare_cached("BEGIN")?.execute([])?;
            for id in next..(next + per_transaction).min(rows) {
                connection.prepare_cached(sql)?.execute(params![id, format!("{:032x}", id * 2_654_435_761)])?;
            }
            connection.prepare_cached("COMMIT")?.execute([])?;
            next += per_transaction;
        }
        rates[place] = rows as f64 / start.elapsed().as_secs_f64();
    }
    Ok(rates)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let repeats: usize = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(3);
    println!("rows per second: insert / update / delete");
    for (rows, per_transaction) in [(10_000, 1), (40_000, 10), (200_000, 1000)] {
        let mut best = [[0.0f64; 3]; 3];
        for _ in 0..repeats {
            for (place, capture) in [Capture::None, Capture::Shadow, Capture::Drover].into_iter().enumerate() {
                let found = rates(capture, rows, per_transaction)?;
                for operation in 0..3 {
                    best[place][operation] = best[place][operation].max(found[operation]);
                }
            }
        }
        println!("{per_transaction} rows per transaction");
        for (place, name) in ["none", "shadow", "drover"].into_iter().enumerate() {
            let text: Vec<String> = (0..3)
                .map(|operation| {
                    let rate = best[place][operation];
                    format!("{:>8.0} ({:.2})", rate, rate / best[0][operation])
                })
                .collect();
            println!("  {name:<7} {}", text.join(" / "));
        }
    }
    Ok(())
}
