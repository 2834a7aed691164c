//! Heartbeat tables, views, functions and jobs in PostgreSQL.
//!
//! The server has no scheduler: the rows of `gg_heartbeat_job` say what is due. A process of ours does it; where none runs
//! at that server, somebody else's may call `gg_hb_job_run()` as often as he likes.

use crate::catalog::OUR_COMMENT;
use crate::name::literal;
use crate::wire::{Config, Connection, Error as WireError};
use change::{TableName, Timestamp};
use database::{
    Error, ErrorClass, HEARTBEAT_OBJECTS, HeartbeatColumn, HeartbeatJob, HeartbeatKind, HeartbeatOptions,
    HeartbeatState, HeartbeatTable, Heartbeats, JobState, LagExpression, SEED_COLUMNS, WAY_COLUMN, heartbeat_columns,
    history_columns, lag_columns, lag_history_columns,
};

/// The schema that holds everything.
const SCHEMA: &str = "public";

/// The time now, UTC, without a zone.
const NOW: &str = "(clock_timestamp() AT TIME ZONE 'UTC')::timestamp(6)";

/// Least FREQUENCY, as outside schedulers call the function once a minute.
const FREQUENCY_LEAST: u32 = 60;

const DAY: u32 = 86_400;

/// Functions: name, what it returns, body. Each does its work whoever calls it.
const FUNCTIONS: [(&str, &str); 3] = [
    (
        "gg_update_hb_tab",
        "UPDATE public.gg_heartbeat_seed SET heartbeat_timestamp = clock_timestamp() AT TIME ZONE 'UTC'; \
         UPDATE public.gg_heartbeat SET heartbeat_timestamp = clock_timestamp() AT TIME ZONE 'UTC';",
    ),
    (
        "gg_purge_hb_tab",
        "DELETE FROM public.gg_heartbeat_history WHERE heartbeat_received_ts < (clock_timestamp() AT TIME ZONE 'UTC') - \
         (SELECT retention_time FROM public.gg_heartbeat_job WHERE job_name = 'GG_PURGE_HEARTBEATS') * interval '1 day';",
    ),
    (
        "gg_hb_job_run",
        "IF public.gg_hb_job_take('GG_UPDATE_HEARTBEATS') THEN PERFORM public.gg_update_hb_tab(); END IF; \
         IF public.gg_hb_job_take('GG_PURGE_HEARTBEATS') THEN PERFORM public.gg_purge_hb_tab(); END IF;",
    ),
];

/// Whether a job is due; it then counts as begun. Of several who ask at once one is told yes: the others wait for its row and
/// find the next run in it.
const TAKE: &str = "CREATE OR REPLACE FUNCTION public.gg_hb_job_take(name varchar) RETURNS boolean LANGUAGE plpgsql \
    SET search_path = pg_catalog, pg_temp AS $$ DECLARE now timestamp := clock_timestamp() AT TIME ZONE 'UTC'; BEGIN \
    UPDATE public.gg_heartbeat_job SET last_start_date = now, next_run_date = CASE \
      WHEN next_run_date + repeat_interval * interval '1 second' > now THEN next_run_date + repeat_interval * interval '1 second' \
      ELSE now + repeat_interval * interval '1 second' END \
    WHERE job_name = name AND next_run_date <= now AND repeat_interval > 0 AND job_queue_processes > 0; \
    RETURN FOUND; END $$";

pub(crate) struct PostgresHeartbeats {
    config: Config,
    connection: Connection,
}

impl PostgresHeartbeats {
    pub(crate) fn open(config: &Config) -> Result<PostgresHeartbeats, Error> {
        Ok(PostgresHeartbeats { config: config.clone(), connection: Connection::connect(config)? })
    }

    fn failed(&self, what: &str, error: WireError) -> Error {
        error.during(format!("can't {what} in {}", self.config))
    }

    /// Runs `change` in one transaction.
    fn change<T>(
        &mut self,
        what: &str,
        change: impl FnOnce(&mut Connection) -> Result<T, WireError>,
    ) -> Result<T, Error> {
        let run = || {
            self.connection.run("BEGIN; SET LOCAL lock_timeout = '5s'; SET LOCAL client_min_messages = warning")?;
            let changed = change(&mut self.connection)?;
            self.connection.run("COMMIT")?;
            Ok(changed)
        };
        let result = run();
        if result.is_err() && self.connection.is_in_transaction() {
            // The first error is the one to tell.
            let _ = self.connection.run("ROLLBACK");
        }
        result.map_err(|error| self.failed(what, error))
    }
}

fn lower(name: &str) -> String {
    name.to_lowercase()
}

/// Names of tables and views of ours that are there, in lower case.
fn present(connection: &mut Connection) -> Result<Vec<String>, WireError> {
    let sql = "SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
               WHERE n.nspname = 'public' AND c.relkind IN ('r', 'p', 'v') AND c.relname LIKE 'gg\\_%' ORDER BY c.relname";
    let rows = connection.query(sql, &[])?;
    let names = rows.iter().filter_map(|row| row.text(0).map(str::to_owned));
    Ok(names.filter(|name| HEARTBEAT_OBJECTS.iter().any(|known| lower(known) == *name)).collect())
}

fn is_there(present: &[String], name: &str) -> bool {
    present.contains(&lower(name))
}

fn tables() -> [(&'static str, Vec<HeartbeatColumn>, &'static str); 3] {
    [
        (HEARTBEAT_OBJECTS[0], SEED_COLUMNS.to_vec(), ", PRIMARY KEY (local_database)"),
        (HEARTBEAT_OBJECTS[1], heartbeat_columns(), ", PRIMARY KEY (way_key)"),
        (HEARTBEAT_OBJECTS[2], history_columns(), ""),
    ]
}

fn column_text(column: &HeartbeatColumn) -> String {
    let kind = match column.kind {
        HeartbeatKind::Text(width) => format!("varchar({width})"),
        HeartbeatKind::Instant => "timestamp(6)".to_owned(),
    };
    format!("{} {kind}{}", lower(column.name), if column.required { " NOT NULL" } else { "" })
}

fn expression(expression: LagExpression) -> String {
    let seconds = |later: &str, earlier: &str| format!("extract(epoch FROM {later} - {earlier})");
    match expression {
        LagExpression::Column(name) => lower(name),
        LagExpression::Now => NOW.to_owned(),
        LagExpression::Since(earlier) => seconds(NOW, &lower(earlier)),
        LagExpression::Between(later, earlier) => seconds(&lower(later), &lower(earlier)),
        LagExpression::Way(direction) => {
            let direction = lower(direction);
            let parts = ["extract", "routing_path", "replicat"].map(|part| format!("{direction}_{part}"));
            format!("nullif(concat_ws(' ==> ', {}), '')", parts.join(", "))
        }
    }
}

fn view_text(view: &str, table: &str, columns: &[(&'static str, LagExpression)]) -> String {
    let columns: Vec<String> =
        columns.iter().map(|(name, shown)| format!("{} AS {}", expression(*shown), lower(name))).collect();
    format!("CREATE VIEW {SCHEMA}.{} AS SELECT {} FROM {SCHEMA}.{}", lower(view), columns.join(", "), lower(table))
}

fn known_columns(connection: &mut Connection, table: &str) -> Result<Vec<String>, WireError> {
    let sql = "SELECT a.attname FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid \
               JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = 'public' AND c.relname::text = $1 \
               AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum";
    let rows = connection.query(sql, &[Some(&lower(table))])?;
    Ok(rows.iter().filter_map(|row| row.text(0).map(str::to_owned)).collect())
}

/// Creates what is not there; returns a line for each.
fn create_missing(connection: &mut Connection, present: &[String]) -> Result<Vec<String>, WireError> {
    let mut made = Vec::new();
    for (name, columns, key) in tables() {
        let table = lower(name);
        if is_there(present, name) {
            let known = known_columns(connection, name)?;
            for column in columns.iter().filter(|column| !is_there(&known, column.name)) {
                // A column that is added has no value for the rows that are there.
                let text = column_text(&HeartbeatColumn { required: false, ..*column });
                connection.run(&format!("ALTER TABLE {SCHEMA}.{table} ADD COLUMN {text}"))?;
                made.push(format!("column {} added to {name}", column.name));
            }
            continue;
        }
        let texts: Vec<String> = columns.iter().map(column_text).collect();
        connection.run(&format!("CREATE TABLE {SCHEMA}.{table} ({}{key})", texts.join(", ")))?;
        for column in columns.iter().filter(|column| column.kind == HeartbeatKind::Text(4000)) {
            // A value that is kept elsewhere is not told with a stamp.
            let column = lower(column.name);
            connection.run(&format!("ALTER TABLE {SCHEMA}.{table} ALTER COLUMN {column} SET STORAGE MAIN"))?;
        }
        made.push(format!("table {name} created"));
        if name == HEARTBEAT_OBJECTS[2] {
            connection.run(&format!(
                "CREATE INDEX gg_heartbeat_history_received ON {SCHEMA}.{table} (heartbeat_received_ts); \
                 COMMENT ON TABLE {SCHEMA}.{table} IS '{OUR_COMMENT}heartbeats: history of what has arrived'"
            ))?;
        }
    }
    if !is_there(present, HEARTBEAT_OBJECTS[3]) {
        connection.run(&format!(
            "CREATE TABLE {SCHEMA}.gg_heartbeat_job (job_name varchar(64) PRIMARY KEY, repeat_interval integer NOT NULL, \
             retention_time integer, job_queue_processes integer NOT NULL DEFAULT 1, start_date timestamp(6), \
             last_start_date timestamp(6), next_run_date timestamp(6)); \
             COMMENT ON TABLE {SCHEMA}.gg_heartbeat_job IS '{OUR_COMMENT}heartbeats: what is done every so often'"
        ))?;
        made.push(format!("table {} created", HEARTBEAT_OBJECTS[3]));
    }
    let views = [
        (HEARTBEAT_OBJECTS[4], HEARTBEAT_OBJECTS[1], lag_columns()),
        (HEARTBEAT_OBJECTS[5], HEARTBEAT_OBJECTS[2], lag_history_columns()),
    ];
    for (view, table, columns) in views {
        let known = known_columns(connection, view)?;
        if known.iter().eq(columns.iter().map(|(name, _)| lower(name)).collect::<Vec<_>>().iter()) {
            continue;
        }
        connection.run(&format!("DROP VIEW IF EXISTS {SCHEMA}.{}", lower(view)))?;
        connection.run(&view_text(view, table, &columns))?;
        made.push(format!("view {view} created"));
    }
    let is_new = connection.query_one("SELECT to_regproc('public.gg_hb_job_run') IS NULL", &[])?;
    connection.run(TAKE)?;
    for (name, body) in FUNCTIONS {
        connection.run(&format!(
            "CREATE OR REPLACE FUNCTION {SCHEMA}.{name}() RETURNS void LANGUAGE plpgsql \
             SET search_path = pg_catalog, pg_temp AS $$ BEGIN {body} END $$"
        ))?;
        if is_new.as_ref().is_some_and(|row| row.flag(0)) {
            made.push(format!("function {} created", name.to_uppercase()));
        }
    }
    Ok(made)
}

/// Puts the rows of jobs in order.
fn set_jobs(connection: &mut Connection, options: &HeartbeatOptions) -> Result<Vec<String>, WireError> {
    let mut made = Vec::new();
    let rows = [
        (HeartbeatJob::Stamp, options.frequency, !options.target_only),
        (HeartbeatJob::Purge, options.purge_frequency * DAY, true),
    ];
    for (job, interval, is_wanted) in rows {
        let name = literal(job.name());
        if !is_wanted {
            connection.run(&format!("DELETE FROM {SCHEMA}.gg_heartbeat_job WHERE job_name = {name}"))?;
            continue;
        }
        let retention = if job == HeartbeatJob::Purge { options.retention.to_string() } else { "NULL".to_owned() };
        let next = if interval > 0 { NOW } else { "NULL" };
        let inserted = connection.run(&format!(
            "INSERT INTO {SCHEMA}.gg_heartbeat_job (job_name, repeat_interval, retention_time, start_date, next_run_date) \
             VALUES ({name}, {interval}, {retention}, {NOW}, {next}) ON CONFLICT (job_name) DO NOTHING"
        ))?;
        if inserted > 0 {
            made.push(format!("job {job} created"));
            continue;
        }
        connection.run(&format!(
            "UPDATE {SCHEMA}.gg_heartbeat_job SET retention_time = {retention}, repeat_interval = {interval}, next_run_date = \
             CASE WHEN {interval} = 0 THEN NULL WHEN repeat_interval <> {interval} THEN {NOW} ELSE next_run_date END \
             WHERE job_name = {name}"
        ))?;
    }
    Ok(made)
}

const MICROS: &str = "(extract(epoch FROM @) * 1000000)::bigint";

fn micros(column: &str) -> String {
    MICROS.replace('@', column)
}

fn read_state(connection: &mut Connection) -> Result<Option<HeartbeatState>, WireError> {
    let present = present(connection)?;
    if !is_there(&present, HEARTBEAT_OBJECTS[0]) && !is_there(&present, HEARTBEAT_OBJECTS[3]) {
        return Ok(None);
    }
    let mut missing: Vec<String> =
        HEARTBEAT_OBJECTS.iter().filter(|name| !is_there(&present, name)).map(|name| (*name).to_owned()).collect();
    for (table, columns, _) in tables() {
        let known = known_columns(connection, table)?;
        let absent = columns.iter().filter(|column| !known.is_empty() && !is_there(&known, column.name));
        missing.extend(absent.map(|column| format!("{table}.{}", column.name)));
    }
    let database = if is_there(&present, HEARTBEAT_OBJECTS[0]) {
        let row = connection.query_one("SELECT local_database FROM public.gg_heartbeat_seed LIMIT 1", &[])?;
        row.and_then(|row| row.text(0).map(str::to_owned))
    } else {
        None
    };
    let mut options = HeartbeatOptions { target_only: true, ..HeartbeatOptions::default() };
    let mut jobs = Vec::new();
    if is_there(&present, HEARTBEAT_OBJECTS[3]) {
        let sql = format!(
            "SELECT job_name, repeat_interval, retention_time, job_queue_processes, {}, {}, {} \
             FROM public.gg_heartbeat_job ORDER BY job_name DESC",
            micros("start_date"),
            micros("last_start_date"),
            micros("next_run_date")
        );
        for row in connection.query(&sql, &[])? {
            let job =
                [HeartbeatJob::Stamp, HeartbeatJob::Purge].into_iter().find(|job| row.text(0) == Some(job.name()));
            let Some(job) = job else { continue };
            let interval: u32 = row.parse(1)?;
            match job {
                HeartbeatJob::Stamp => (options.frequency, options.target_only) = (interval, false),
                HeartbeatJob::Purge => {
                    options.purge_frequency = interval / DAY;
                    if row.text(2).is_some() {
                        options.retention = row.parse(2)?;
                    }
                }
            }
            let time = |column: usize| {
                let time = row.text(column).map(|_| row.parse(column).map(Timestamp::from_unix_micros));
                time.transpose()
            };
            jobs.push(JobState { job, start: time(4)?, last: time(5)?, next: time(6)?, workers_max: row.parse(3)? });
        }
    }
    let now = connection.query_one(&format!("SELECT {}", micros(NOW)), &[])?;
    let now = now.ok_or(WireError::Protocol("a query for one row gave none"))?.parse(0)?;
    Ok(Some(HeartbeatState {
        database: database.unwrap_or_default(),
        schema: SCHEMA.to_owned(),
        arrived: TableName::new(SCHEMA, lower(HEARTBEAT_OBJECTS[1])),
        history: TableName::new(SCHEMA, lower(HEARTBEAT_OBJECTS[2])),
        options,
        jobs,
        missing,
        now: Timestamp::from_unix_micros(now),
    }))
}

/// Puts this database's row into an empty seed.
const POPULATE: &str = "INSERT INTO public.gg_heartbeat_seed (local_database, heartbeat_timestamp) \
    SELECT current_database(), clock_timestamp() AT TIME ZONE 'UTC' \
    WHERE NOT EXISTS (SELECT FROM public.gg_heartbeat_seed) RETURNING local_database";

impl Heartbeats for PostgresHeartbeats {
    fn inspect(&mut self) -> Result<Option<HeartbeatState>, Error> {
        let state = read_state(&mut self.connection);
        state.map_err(|error| self.failed("look at the heartbeat tables", error))
    }

    fn frequency_least(&self) -> u32 {
        FREQUENCY_LEAST
    }

    fn create(&mut self, options: &HeartbeatOptions) -> Result<Vec<String>, Error> {
        let taken = present(&mut self.connection).map_err(|error| self.failed("look at heartbeats", error))?;
        if let Some(name) = taken.first() {
            let what = format!("can't add heartbeat tables to {}: {SCHEMA}.{name} exists already", self.config);
            return Err(Error::new(ErrorClass::Permanent, what)
                .with_next_step("use it, or DELETE HEARTBEATTABLE first; INFO HEARTBEATTABLE shows what there is"));
        }
        self.change("add heartbeat tables", |connection| {
            let mut made = create_missing(connection, &[])?;
            made.extend(set_jobs(connection, options)?);
            let row = connection.query_one(POPULATE, &[])?;
            let name = row.and_then(|row| row.text(0).map(str::to_owned)).unwrap_or_default();
            made.push(format!("table {} populated with {name}", HEARTBEAT_OBJECTS[0]));
            Ok(made)
        })
    }

    fn alter(&mut self, options: &HeartbeatOptions) -> Result<(), Error> {
        self.change("alter heartbeat tables", |connection| set_jobs(connection, options)).map(drop)
    }

    fn upgrade(&mut self) -> Result<Vec<String>, Error> {
        let options = self.inspect()?.map_or_else(HeartbeatOptions::default, |state| {
            // Without its row a job was never chosen; without the table nobody could choose.
            let is_lost = state.missing.iter().any(|name| name == HEARTBEAT_OBJECTS[3]);
            if is_lost { HeartbeatOptions::default() } else { state.options }
        });
        self.change("upgrade heartbeat tables", |connection| {
            let present = present(connection)?;
            let mut made = create_missing(connection, &present)?;
            made.extend(set_jobs(connection, &options)?);
            connection.query_one(POPULATE, &[])?;
            Ok(made)
        })
    }

    fn remove(&mut self) -> Result<Vec<String>, Error> {
        self.change("delete heartbeat tables", |connection| {
            let present = present(connection)?;
            let mut gone = Vec::new();
            for (name, _) in FUNCTIONS.iter().rev() {
                connection.run(&format!("DROP FUNCTION IF EXISTS {SCHEMA}.{name}()"))?;
                gone.push(format!("function {} dropped", name.to_uppercase()));
            }
            connection.run("DROP FUNCTION IF EXISTS public.gg_hb_job_take(varchar)")?;
            for name in HEARTBEAT_OBJECTS.iter().rev().filter(|name| is_there(&present, name)) {
                let kind = if name.starts_with("GG_LAG") { "VIEW" } else { "TABLE" };
                connection.run(&format!("DROP {kind} {SCHEMA}.{}", lower(name)))?;
                gone.push(format!("{} {name} dropped", kind.to_lowercase()));
            }
            Ok(gone)
        })
    }

    fn remove_entries(&mut self, group: &str) -> Result<u64, Error> {
        self.change("delete heartbeat entries", |connection| {
            let group = literal(group);
            let listed = |path: &str| format!("{group} = ANY (string_to_array(replace({path}, ':', ','), ','))");
            connection.run(&format!(
                "DELETE FROM public.gg_heartbeat WHERE {group} IN (incoming_extract, incoming_replicat, outgoing_extract, \
                 outgoing_replicat) OR {} OR {}",
                listed("incoming_routing_path"),
                listed("outgoing_routing_path")
            ))
        })
    }

    fn run_due(&mut self, jobs: &[HeartbeatJob]) -> Result<Vec<HeartbeatJob>, Error> {
        let mut ran = Vec::new();
        for job in jobs {
            let work = match job {
                HeartbeatJob::Stamp => "gg_update_hb_tab",
                HeartbeatJob::Purge => "gg_purge_hb_tab",
            };
            let what = format!("run job {job}");
            // Looking writes nothing.
            let due = format!(
                "SELECT FROM public.gg_heartbeat_job WHERE job_name = $1 AND next_run_date <= {NOW} \
                 AND repeat_interval > 0 AND job_queue_processes > 0"
            );
            let is_due = self.connection.query_one(&due, &[Some(job.name())]);
            if is_due.map_err(|error| self.failed(&what, error))?.is_none() {
                continue;
            }
            let sql = format!("SELECT public.gg_hb_job_take({})", literal(job.name()));
            let has_run = self.change(&what, |connection| {
                let is_taken = connection.query_one(&sql, &[])?.is_some_and(|row| row.flag(0));
                if is_taken {
                    connection.run(&format!("SELECT public.{work}()"))?;
                }
                Ok(is_taken)
            })?;
            if has_run {
                ran.push(*job);
            }
        }
        Ok(ran)
    }

    fn rows(&mut self, table: HeartbeatTable, columns: &[&str]) -> Result<Vec<Vec<Option<String>>>, Error> {
        let list: Vec<String> = columns.iter().map(|column| format!("{}::text", lower(column))).collect();
        let order = match table {
            HeartbeatTable::History | HeartbeatTable::LagHistory => "heartbeat_received_ts".to_owned(),
            HeartbeatTable::Arrived => lower(WAY_COLUMN),
            HeartbeatTable::Lag => "local_database, remote_database, incoming_path, outgoing_path".to_owned(),
        };
        let sql = format!("SELECT {} FROM {SCHEMA}.{} ORDER BY {order}", list.join(", "), lower(table.name()));
        let rows = self.connection.query(&sql, &[]);
        let rows = rows.map_err(|error| self.failed(&format!("read {}", table.name()), error))?;
        let values = |place, row: &crate::wire::TextRow| row.text(place).map(str::to_owned);
        Ok(rows.iter().map(|row| (0..columns.len()).map(|place| values(place, row)).collect()).collect())
    }
}
