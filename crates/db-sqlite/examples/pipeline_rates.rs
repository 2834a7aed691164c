//! How fast changes are read and applied: rows per second of reading the change table into changes, and of applying them.
//!
//! `cargo run --release -p db-sqlite --example pipeline_rates [ROWS]`

use change::{Change, TableDefinition, TableName};
use database::{
    ColumnPair, Database, ForeignKeyPolicy, LogEvent, LogSource, Session, SessionRequest, SourceRequest, TablePlan,
    TableSelection, TriggerPolicy, Write,
};
use rusqlite::Connection;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

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

fn create(path: &Path) -> Result<Arc<dyn Database>, Box<dyn std::error::Error>> {
    let connection = Connection::open(path)?;
    connection.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(()))?;
    connection
        .execute_batch("CREATE TABLE t (id INTEGER PRIMARY KEY, k INTEGER, a TEXT, ts TEXT, amt REAL, b BLOB)")?;
    Ok(db_sqlite::open(&format!("sqlite:{}", path.display()))?)
}

fn plan(
    session: &mut dyn Session,
    source: &Arc<TableDefinition>,
) -> Result<Arc<TablePlan>, Box<dyn std::error::Error>> {
    let target = session.table(&source.name)?.ok_or("the target table is there")?;
    let pair = |index| ColumnPair { source: index, target: index };
    let columns = (0..target.columns.len()).map(pair).collect();
    let key = source.key().into_iter().map(pair).collect();
    Ok(Arc::new(TablePlan {
        source: Arc::clone(source),
        target,
        columns,
        key,
        on_duplicate: database::OnDuplicate::Refuse,
    }))
}

fn drain(source: &mut dyn LogSource) -> Result<Vec<Change>, database::Error> {
    let mut changes = Vec::new();
    loop {
        let mut events = Vec::new();
        source.read(&mut events, Duration::ZERO)?;
        if events.is_empty() {
            return Ok(changes);
        }
        changes.extend(events.into_iter().filter_map(|event| match event {
            LogEvent::Change(change) => Some(change),
            _ => None,
        }));
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let rows: i64 = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(200_000);
    let directory = tempfile::tempdir()?;
    let (from, to) = (directory.path().join("from.db"), directory.path().join("to.db"));
    let (source, target) = (create(&from)?, create(&to)?);
    let start = source.register_capture("E1", &Everything)?;
    let request = SourceRequest { group: "E1".to_owned(), start, tables: Arc::new(Everything) };
    let mut stream = source.open_source(request)?;
    let mut session = target.open_session(SessionRequest {
        group: "R1".to_owned(),
        group_key: 0,
        checkpoint_table: TableName::new("main", "checkpoint"),
        triggers: TriggerPolicy::Suppress,
        foreign_keys: ForeignKeyPolicy::Ignore,
    })?;
    let user = Connection::open(&from)?;
    let numbers = format!("WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < {rows})");
    let statements = [
        format!(
            "{numbers} INSERT INTO t SELECT i, i % 1000, printf('%032x', i * 2654435761), '2026-01-01T00:00:00Z', i * 0.01, x'0011223344' FROM n"
        ),
        "UPDATE t SET k = k + 1, a = 'changed ' || id".to_owned(),
        "DELETE FROM t".to_owned(),
    ];
    println!("rows per second: read / applied in transactions of 1000");
    for (name, sql) in ["insert", "update", "delete"].iter().zip(&statements) {
        user.execute_batch(sql)?;
        let begun = Instant::now();
        let changes = drain(&mut *stream)?;
        let read = changes.len() as f64 / begun.elapsed().as_secs_f64();
        let table = &changes.first().ok_or("there are changes")?.table;
        let plan = plan(&mut *session, table)?;
        let begun = Instant::now();
        for batch in changes.chunks(1000) {
            session.begin()?;
            let writes: Vec<Write<'_>> =
                batch.iter().map(|change| Write { plan: &plan, operation: &change.operation }).collect();
            session.apply(&writes).map_err(|error| format!("{error:?}"))?;
            session.commit().map_err(|error| format!("{error:?}"))?;
        }
        let applied = changes.len() as f64 / begun.elapsed().as_secs_f64();
        println!("{name:<7} {read:>10.0} / {applied:>10.0}");
    }
    Ok(())
}
