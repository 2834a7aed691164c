//! Heartbeat tables, views and jobs in SQLite.
//!
//! SQLite has no scheduler and no procedures: the rows of GG_HEARTBEAT_JOB say what is due, and a process of ours does it.
//! Instants are text, `YYYY-MM-DD HH:MM:SS.ffffff` in UTC, which sorts as time does. The database's own clock tells
//! thousandths.

use crate::catalog;
use crate::connect::{COMMAND_PATIENCE, connect};
use crate::error::failed;
use crate::name::same;
use crate::trigger;
use change::{TableName, Timestamp};
use database::{
    Error, ErrorClass, HEARTBEAT_OBJECTS, HeartbeatColumn, HeartbeatJob, HeartbeatKind, HeartbeatOptions,
    HeartbeatState, HeartbeatTable, Heartbeats, JobState, LagExpression, SEED_COLUMNS, WAY_COLUMN, heartbeat_columns,
    history_columns, lag_columns, lag_history_columns,
};
use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, params};
use std::path::Path;

/// The time now.
const NOW: &str = "strftime('%Y-%m-%d %H:%M:%f', 'now') || '000'";

const JOBS: &str = "CREATE TABLE main.GG_HEARTBEAT_JOB (JOB_NAME TEXT NOT NULL PRIMARY KEY, REPEAT_INTERVAL INTEGER NOT NULL, \
                    RETENTION_TIME INTEGER, JOB_QUEUE_PROCESSES INTEGER NOT NULL DEFAULT 1, START_DATE TEXT, \
                    LAST_START_DATE TEXT, NEXT_RUN_DATE TEXT)";

const DAY: u32 = 86_400;

pub(crate) struct SqliteHeartbeats {
    connection: Connection,
    /// How the database calls itself.
    name: String,
}

impl SqliteHeartbeats {
    pub(crate) fn open(path: &Path) -> Result<SqliteHeartbeats, Error> {
        let name = path.file_name().map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into());
        Ok(SqliteHeartbeats { connection: connect(path, COMMAND_PATIENCE)?, name })
    }

    /// Runs `change` in one write transaction, which capture does not take for somebody else's change of the schema.
    fn change<T>(
        &mut self,
        what: &str,
        change: impl FnOnce(&Transaction<'_>, &str) -> rusqlite::Result<T>,
    ) -> Result<T, Error> {
        let failed = |cause| failed(format!("could not {what}"), cause);
        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
        let before = catalog::schema_version(&transaction)?;
        let changed = change(&transaction, &self.name).map_err(failed)?;
        trigger::note_own_change(&transaction, before)?;
        transaction.commit().map_err(failed)?;
        Ok(changed)
    }
}

/// Names of objects of ours that are there, as they are written there.
fn present(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    let mut statement =
        connection.prepare("SELECT name FROM main.sqlite_schema WHERE type IN ('table', 'view') ORDER BY name")?;
    let names = statement.query_map([], |row| row.get::<_, String>(0))?.collect::<rusqlite::Result<Vec<_>>>()?;
    let is_ours = |name: &String| HEARTBEAT_OBJECTS.iter().any(|known| same(known, name));
    Ok(names.into_iter().filter(is_ours).collect())
}

fn is_there(present: &[String], name: &str) -> bool {
    present.iter().any(|known| same(known, name))
}

fn tables() -> [(&'static str, Vec<HeartbeatColumn>, &'static str); 3] {
    [
        (HEARTBEAT_OBJECTS[0], SEED_COLUMNS.to_vec(), ", PRIMARY KEY (LOCAL_DATABASE)"),
        (HEARTBEAT_OBJECTS[1], heartbeat_columns(), ", PRIMARY KEY (WAY_KEY)"),
        (HEARTBEAT_OBJECTS[2], history_columns(), ""),
    ]
}

fn column_text(column: &HeartbeatColumn) -> String {
    let kind = match column.kind {
        HeartbeatKind::Text(width) => format!("VARCHAR({width})"),
        HeartbeatKind::Instant => "TEXT".to_owned(),
    };
    format!("{} {kind}{}", column.name, if column.required { " NOT NULL" } else { "" })
}

fn expression(expression: LagExpression) -> String {
    let seconds = |later: &str, earlier: &str| {
        // Seconds and millionths by themselves: SQLite's own dates round to thousandths.
        let whole = |text: &str| format!("CAST(strftime('%s', substr({text}, 1, 19)) AS INTEGER)");
        let part = |text: &str| format!("CAST(substr({text} || '000000', 21, 6) AS INTEGER)");
        // Whole millionths first, so that nothing but the last division rounds.
        format!("(({} - {}) * 1000000 + {} - {}) / 1000000.0", whole(later), whole(earlier), part(later), part(earlier))
    };
    match expression {
        LagExpression::Column(name) => name.to_owned(),
        LagExpression::Now => NOW.to_owned(),
        LagExpression::Since(earlier) => seconds(&format!("({NOW})"), earlier),
        LagExpression::Between(later, earlier) => seconds(later, earlier),
        LagExpression::Way(direction) => {
            let parts = ["EXTRACT", "ROUTING_PATH", "REPLICAT"]
                .map(|part| format!("coalesce(' ==> ' || {direction}_{part}, '')"));
            format!("nullif(substr({}, 6), '')", parts.join(" || "))
        }
    }
}

fn view_text(view: &str, table: &str, columns: &[(&'static str, LagExpression)]) -> String {
    let columns: Vec<String> =
        columns.iter().map(|(name, shown)| format!("{} AS {name}", expression(*shown))).collect();
    format!("CREATE VIEW main.{view} AS SELECT {} FROM {table}", columns.join(", "))
}

/// Creates what is not there; returns a line for each.
fn create_missing(transaction: &Transaction<'_>, present: &[String]) -> rusqlite::Result<Vec<String>> {
    let mut made = Vec::new();
    for (name, columns, key) in tables() {
        if is_there(present, name) {
            let mut statement = transaction.prepare("SELECT name FROM pragma_table_info(?1, 'main')")?;
            let known: Vec<String> = statement.query_map([name], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
            for column in columns.iter().filter(|column| !is_there(&known, column.name)) {
                // A column that is added has no value for the rows that are there.
                let text = column_text(&HeartbeatColumn { required: false, ..*column });
                transaction.execute_batch(&format!("ALTER TABLE main.{name} ADD COLUMN {text}"))?;
                made.push(format!("column {} added to {name}", column.name));
            }
            continue;
        }
        let columns: Vec<String> = columns.iter().map(column_text).collect();
        transaction.execute_batch(&format!("CREATE TABLE main.{name} ({}{key})", columns.join(", ")))?;
        made.push(format!("table {name} created"));
        if name == HEARTBEAT_OBJECTS[2] {
            transaction.execute_batch(
                "CREATE INDEX main.GG_HEARTBEAT_HISTORY_RECEIVED ON GG_HEARTBEAT_HISTORY (HEARTBEAT_RECEIVED_TS)",
            )?;
        }
    }
    if !is_there(present, HEARTBEAT_OBJECTS[3]) {
        transaction.execute_batch(JOBS)?;
        made.push(format!("table {} created", HEARTBEAT_OBJECTS[3]));
    }
    let views = [
        (HEARTBEAT_OBJECTS[4], HEARTBEAT_OBJECTS[1], lag_columns()),
        (HEARTBEAT_OBJECTS[5], HEARTBEAT_OBJECTS[2], lag_history_columns()),
    ];
    for (view, table, columns) in views {
        let wanted = view_text(view, table, &columns);
        let sql = "SELECT sql FROM main.sqlite_schema WHERE type = 'view' AND name = ?1 COLLATE NOCASE";
        let found: Option<String> = transaction.query_row(sql, [view], |row| row.get(0)).optional()?;
        // The database keeps the text, without the schema's name.
        if found.is_some_and(|found| found == wanted.replace("main.", "")) {
            continue;
        }
        transaction.execute_batch(&format!("DROP VIEW IF EXISTS main.{view}; {wanted}"))?;
        made.push(format!("view {view} created"));
    }
    Ok(made)
}

/// Puts the rows of jobs in order.
fn set_jobs(transaction: &Transaction<'_>, options: &HeartbeatOptions) -> rusqlite::Result<Vec<String>> {
    let mut made = Vec::new();
    let rows = [
        (HeartbeatJob::Stamp, options.frequency, !options.target_only),
        (HeartbeatJob::Purge, options.purge_frequency * DAY, true),
    ];
    for (job, interval, is_wanted) in rows {
        let name = job.name();
        if !is_wanted {
            transaction.execute("DELETE FROM main.GG_HEARTBEAT_JOB WHERE JOB_NAME = ?1", [name])?;
            continue;
        }
        let retention = (job == HeartbeatJob::Purge).then_some(options.retention);
        let sql = format!(
            "INSERT INTO main.GG_HEARTBEAT_JOB (JOB_NAME, REPEAT_INTERVAL, RETENTION_TIME, START_DATE, NEXT_RUN_DATE) \
             SELECT ?1, ?2, ?3, {NOW}, CASE WHEN ?2 > 0 THEN {NOW} END \
             WHERE NOT EXISTS (SELECT 1 FROM main.GG_HEARTBEAT_JOB WHERE JOB_NAME = ?1)"
        );
        if transaction.execute(&sql, params![name, interval, retention])? > 0 {
            made.push(format!("job {name} created"));
            continue;
        }
        let sql = format!(
            "UPDATE main.GG_HEARTBEAT_JOB SET RETENTION_TIME = ?3, \
             NEXT_RUN_DATE = CASE WHEN ?2 = 0 THEN NULL WHEN REPEAT_INTERVAL <> ?2 THEN {NOW} ELSE NEXT_RUN_DATE END, \
             REPEAT_INTERVAL = ?2 WHERE JOB_NAME = ?1"
        );
        transaction.execute(&sql, params![name, interval, retention])?;
    }
    Ok(made)
}

/// The instant that a text of ours tells.
fn instant(connection: &Connection, text: Option<&str>) -> rusqlite::Result<Option<Timestamp>> {
    let Some(text) = text else { return Ok(None) };
    let sql = "SELECT CAST(strftime('%s', substr(?1, 1, 19)) AS INTEGER) * 1000000 \
               + CAST(substr(?1 || '000000', 21, 6) AS INTEGER)";
    let micros: Option<i64> = connection.query_row(sql, [text], |row| row.get(0))?;
    Ok(micros.map(Timestamp::from_unix_micros))
}

fn read_state(connection: &Connection) -> rusqlite::Result<Option<HeartbeatState>> {
    let present = present(connection)?;
    if !is_there(&present, HEARTBEAT_OBJECTS[0]) && !is_there(&present, HEARTBEAT_OBJECTS[3]) {
        return Ok(None);
    }
    let mut missing: Vec<String> =
        HEARTBEAT_OBJECTS.iter().filter(|name| !is_there(&present, name)).map(|name| (*name).to_owned()).collect();
    for (table, columns, _) in tables() {
        let mut statement = connection.prepare("SELECT name FROM pragma_table_info(?1, 'main')")?;
        let known: Vec<String> = statement.query_map([table], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
        let absent = columns.iter().filter(|column| !known.is_empty() && !is_there(&known, column.name));
        missing.extend(absent.map(|column| format!("{table}.{}", column.name)));
    }
    let database = if is_there(&present, HEARTBEAT_OBJECTS[0]) {
        let sql = "SELECT LOCAL_DATABASE FROM main.GG_HEARTBEAT_SEED LIMIT 1";
        connection.query_row(sql, [], |row| row.get(0)).optional()?
    } else {
        None
    };
    let mut options = HeartbeatOptions { target_only: true, ..HeartbeatOptions::default() };
    let mut jobs = Vec::new();
    if is_there(&present, HEARTBEAT_OBJECTS[3]) {
        let mut statement = connection.prepare(
            "SELECT JOB_NAME, REPEAT_INTERVAL, RETENTION_TIME, JOB_QUEUE_PROCESSES, START_DATE, LAST_START_DATE, \
             NEXT_RUN_DATE FROM main.GG_HEARTBEAT_JOB ORDER BY JOB_NAME DESC",
        )?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let name: String = row.get(0)?;
            let job = [HeartbeatJob::Stamp, HeartbeatJob::Purge].into_iter().find(|job| job.name() == name);
            let Some(job) = job else { continue };
            let interval: u32 = row.get(1)?;
            match job {
                HeartbeatJob::Stamp => (options.frequency, options.target_only) = (interval, false),
                HeartbeatJob::Purge => {
                    options.purge_frequency = interval / DAY;
                    options.retention = row.get::<_, Option<u32>>(2)?.unwrap_or(options.retention);
                }
            }
            let time = |column| instant(connection, row.get::<_, Option<String>>(column)?.as_deref());
            jobs.push(JobState { job, start: time(4)?, last: time(5)?, next: time(6)?, workers_max: row.get(3)? });
        }
    }
    let now: String = connection.query_row(&format!("SELECT {NOW}"), [], |row| row.get(0))?;
    Ok(Some(HeartbeatState {
        database: database.unwrap_or_default(),
        schema: catalog::SCHEMA.to_owned(),
        arrived: TableName::new(catalog::SCHEMA, HEARTBEAT_OBJECTS[1]),
        history: TableName::new(catalog::SCHEMA, HEARTBEAT_OBJECTS[2]),
        options,
        jobs,
        missing,
        now: instant(connection, Some(&now))?.unwrap_or_default(),
    }))
}

fn stamp(transaction: &Transaction<'_>) -> rusqlite::Result<()> {
    transaction.execute_batch(&format!(
        "UPDATE main.GG_HEARTBEAT_SEED SET HEARTBEAT_TIMESTAMP = {NOW}; UPDATE main.GG_HEARTBEAT SET HEARTBEAT_TIMESTAMP = {NOW}"
    ))
}

fn purge(transaction: &Transaction<'_>) -> rusqlite::Result<()> {
    transaction.execute_batch(
        "DELETE FROM main.GG_HEARTBEAT_HISTORY WHERE HEARTBEAT_RECEIVED_TS < (SELECT strftime('%Y-%m-%d %H:%M:%f', 'now', \
         '-' || RETENTION_TIME || ' days') FROM main.GG_HEARTBEAT_JOB WHERE JOB_NAME = 'GG_PURGE_HEARTBEATS')",
    )
}

impl Heartbeats for SqliteHeartbeats {
    fn inspect(&mut self) -> Result<Option<HeartbeatState>, Error> {
        let snapshot = self.connection.transaction().map_err(|cause| failed("could not look at heartbeats", cause))?;
        read_state(&snapshot).map_err(|cause| failed("could not look at the heartbeat tables", cause))
    }

    fn frequency_least(&self) -> u32 {
        1
    }

    fn create(&mut self, options: &HeartbeatOptions) -> Result<Vec<String>, Error> {
        let taken = present(&self.connection).map_err(|cause| failed("could not look at heartbeats", cause))?;
        if let Some(name) = taken.first() {
            let what = format!("could not add heartbeat tables: main.{name} exists already");
            return Err(Error::new(ErrorClass::Permanent, what)
                .with_next_step("use it, or DELETE HEARTBEATTABLE first; INFO HEARTBEATTABLE shows what there is"));
        }
        self.change("add heartbeat tables", |transaction, name| {
            let mut made = create_missing(transaction, &[])?;
            made.extend(set_jobs(transaction, options)?);
            let sql =
                format!("INSERT INTO main.GG_HEARTBEAT_SEED (LOCAL_DATABASE, HEARTBEAT_TIMESTAMP) VALUES (?1, {NOW})");
            transaction.execute(&sql, [name])?;
            made.push(format!("table {} populated with {name}", HEARTBEAT_OBJECTS[0]));
            Ok(made)
        })
    }

    fn alter(&mut self, options: &HeartbeatOptions) -> Result<(), Error> {
        self.change("alter heartbeat tables", |transaction, _| set_jobs(transaction, options)).map(drop)
    }

    fn upgrade(&mut self) -> Result<Vec<String>, Error> {
        let state = self.inspect()?;
        let options = state.map_or_else(HeartbeatOptions::default, |state| {
            // Without its row a job was never chosen; without the table nobody could choose.
            let is_lost = state.missing.iter().any(|name| name == HEARTBEAT_OBJECTS[3]);
            if is_lost { HeartbeatOptions::default() } else { state.options }
        });
        self.change("upgrade heartbeat tables", |transaction, name| {
            let present = present(transaction)?;
            let mut made = create_missing(transaction, &present)?;
            made.extend(set_jobs(transaction, &options)?);
            let sql = format!(
                "INSERT INTO main.GG_HEARTBEAT_SEED (LOCAL_DATABASE, HEARTBEAT_TIMESTAMP) SELECT ?1, {NOW} \
                 WHERE NOT EXISTS (SELECT 1 FROM main.GG_HEARTBEAT_SEED)"
            );
            transaction.execute(&sql, [name])?;
            Ok(made)
        })
    }

    fn remove(&mut self) -> Result<Vec<String>, Error> {
        self.change("delete heartbeat tables", |transaction, _| {
            let present = present(transaction)?;
            let mut gone = Vec::new();
            for name in HEARTBEAT_OBJECTS.iter().rev().filter(|name| is_there(&present, name)) {
                let kind = if name.starts_with("GG_LAG") { "VIEW" } else { "TABLE" };
                transaction.execute_batch(&format!("DROP {kind} main.{name}"))?;
                gone.push(format!("{} {name} dropped", kind.to_lowercase()));
            }
            Ok(gone)
        })
    }

    fn remove_entries(&mut self, group: &str) -> Result<u64, Error> {
        self.change("delete heartbeat entries", |transaction, _| {
            let list = |path: &str| format!("',' || replace({path}, ':', ',') || ',' LIKE '%,' || ?1 || ',%'");
            let sql = format!(
                "DELETE FROM main.GG_HEARTBEAT WHERE ?1 IN (INCOMING_EXTRACT, INCOMING_REPLICAT, OUTGOING_EXTRACT, \
                 OUTGOING_REPLICAT) OR {} OR {}",
                list("INCOMING_ROUTING_PATH"),
                list("OUTGOING_ROUTING_PATH")
            );
            transaction.execute(&sql, [group])
        })
        .map(|count| count as u64)
    }

    fn run_due(&mut self, jobs: &[HeartbeatJob]) -> Result<Vec<HeartbeatJob>, Error> {
        let due =
            format!("JOB_NAME = ?1 AND NEXT_RUN_DATE <= {NOW} AND REPEAT_INTERVAL > 0 AND JOB_QUEUE_PROCESSES > 0");
        let mut ran = Vec::new();
        for job in jobs {
            let what = |cause| failed(format!("could not run job {job}"), cause);
            // Looking takes no lock of a writer.
            let sql = format!("SELECT 1 FROM main.GG_HEARTBEAT_JOB WHERE {due}");
            let is_due = self.connection.prepare_cached(&sql).and_then(|mut statement| statement.exists([job.name()]));
            if !is_due.map_err(what)? {
                continue;
            }
            let transaction =
                self.connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(what)?;
            let run = || -> rusqlite::Result<bool> {
                let next = "strftime('%Y-%m-%d %H:%M:%f', substr(NEXT_RUN_DATE, 1, 23), '+' || REPEAT_INTERVAL || ' seconds') || '000'";
                let anew = "strftime('%Y-%m-%d %H:%M:%f', 'now', '+' || REPEAT_INTERVAL || ' seconds') || '000'";
                let sql = format!(
                    "UPDATE main.GG_HEARTBEAT_JOB SET LAST_START_DATE = {NOW}, \
                     NEXT_RUN_DATE = CASE WHEN {next} > {NOW} THEN {next} ELSE {anew} END WHERE {due}"
                );
                if transaction.execute(&sql, [job.name()])? == 0 {
                    return Ok(false);
                }
                match job {
                    HeartbeatJob::Stamp => stamp(&transaction)?,
                    HeartbeatJob::Purge => purge(&transaction)?,
                }
                Ok(true)
            };
            if run().map_err(what)? {
                ran.push(*job);
            }
            transaction.commit().map_err(what)?;
        }
        Ok(ran)
    }

    fn rows(&mut self, table: HeartbeatTable, columns: &[&str]) -> Result<Vec<Vec<Option<String>>>, Error> {
        let read = || -> rusqlite::Result<Vec<Vec<Option<String>>>> {
            let list: Vec<String> = columns.iter().map(|column| format!("CAST({column} AS TEXT)")).collect();
            let order = match table {
                HeartbeatTable::History | HeartbeatTable::LagHistory => "HEARTBEAT_RECEIVED_TS",
                HeartbeatTable::Arrived => WAY_COLUMN,
                HeartbeatTable::Lag => "LOCAL_DATABASE, REMOTE_DATABASE, INCOMING_PATH, OUTGOING_PATH",
            };
            let sql = format!("SELECT {} FROM main.{} ORDER BY {order}", list.join(", "), table.name());
            let mut statement = self.connection.prepare(&sql)?;
            let read_row = |row: &rusqlite::Row<'_>| (0..columns.len()).map(|place| row.get(place)).collect();
            statement.query_map([], read_row)?.collect()
        };
        read().map_err(|cause| failed(format!("could not read main.{}", table.name()), cause))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::literal;

    #[test]
    fn seconds_between_two_instants_are_exact_to_the_millionth() {
        let connection = Connection::open_in_memory().expect("a database");
        let between = |later: &str, earlier: &str| -> Option<f64> {
            let shown = expression(LagExpression::Between("later", "earlier"));
            let sql =
                format!("SELECT {shown} FROM (SELECT {} AS later, {} AS earlier)", literal(later), literal(earlier));
            connection.query_row(&sql, [], |row| row.get(0)).expect("a number")
        };
        assert_eq!(between("2024-03-01 00:00:00.000001", "2024-02-29 23:59:59.999999"), Some(0.000002));
        assert_eq!(between("2024-03-01 00:00:00.999999", "2024-03-01 00:00:01.000000"), Some(-0.000001));
        assert_eq!(between("2024-03-01 00:00:00.999900", "2024-03-01 00:00:00.000000"), Some(0.9999));
    }
}
