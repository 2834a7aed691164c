//! Heartbeat tables: what a database keeps of heartbeats, stamps and purges.
//!
//! A database stamps its seed, and the rows that have arrived from others, every so often; capture takes the stamps along.
//! Where a product has no scheduler, the jobs that stamp and purge are rows of a table, and our processes run what is due.
//!
//! The names are fixed, so that views and health checks that were written for them keep working.

use crate::Error;
use change::{TableName, Timestamp};
use std::fmt;

/// Names of all that an installation makes, without a schema.
pub const HEARTBEAT_OBJECTS: [&str; 6] =
    ["GG_HEARTBEAT_SEED", "GG_HEARTBEAT", "GG_HEARTBEAT_HISTORY", "GG_HEARTBEAT_JOB", "GG_LAG", "GG_LAG_HISTORY"];

/// Whether `table`, whatever its schema, has a name that belongs to a heartbeat installation. Such tables are nobody's data.
pub fn is_heartbeat_object(table: &TableName) -> bool {
    HEARTBEAT_OBJECTS.iter().any(|name| table.table.eq_ignore_ascii_case(name))
}

/// Whether `table` is one of the two whose changes are captured: the seed, and what has arrived from others.
pub fn is_stamped_table(table: &TableName) -> bool {
    HEARTBEAT_OBJECTS[..2].iter().any(|name| table.table.eq_ignore_ascii_case(name))
}

/// What a column of a heartbeat table holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeartbeatKind {
    /// Text of at most so many characters.
    Text(u16),
    /// An instant in UTC, without a zone, in microseconds.
    Instant,
}

/// A column of a heartbeat table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeartbeatColumn {
    /// Name in upper case.
    pub name: &'static str,
    /// What it holds.
    pub kind: HeartbeatKind,
    /// Whether it refuses NULL.
    pub required: bool,
}

const fn text(name: &'static str, width: u16) -> HeartbeatColumn {
    HeartbeatColumn { name, kind: HeartbeatKind::Text(width), required: false }
}

const fn instant(name: &'static str) -> HeartbeatColumn {
    HeartbeatColumn { name, kind: HeartbeatKind::Instant, required: false }
}

const fn needed(column: HeartbeatColumn) -> HeartbeatColumn {
    HeartbeatColumn { required: true, ..column }
}

/// The column that tells a row of GG_HEARTBEAT from all others: both ways of a heartbeat as one short text. Ways are too long
/// for an index, and NULL in them is a value like any other.
pub const WAY_COLUMN: &str = "WAY_KEY";

/// Columns of GG_HEARTBEAT_SEED. Its key is the first.
pub const SEED_COLUMNS: [HeartbeatColumn; 5] = [
    needed(text("LOCAL_DATABASE", 512)),
    instant("HEARTBEAT_TIMESTAMP"),
    text("OUTGOING_EXTRACT", 128),
    text("OUTGOING_ROUTING_PATH", 4000),
    text("OUTGOING_REPLICAT", 128),
];

/// Columns of both directions.
const DIRECTIONS: [HeartbeatColumn; 22] = [
    text("INCOMING_EXTRACT", 128),
    text("INCOMING_ROUTING_PATH", 4000),
    text("INCOMING_REPLICAT", 128),
    instant("INCOMING_HEARTBEAT_TS"),
    instant("INCOMING_EXTRACT_TS"),
    instant("INCOMING_ROUTING_TS"),
    instant("INCOMING_REPLICAT_TS"),
    text("INCOMING_REPLICAT_LW_CSN", 128),
    text("INCOMING_EXTRACT_HEARTBEAT_CSN", 128),
    text("INCOMING_EXTRACT_RESTART_CSN", 128),
    instant("INCOMING_EXTRACT_RESTART_TS"),
    text("OUTGOING_EXTRACT", 128),
    text("OUTGOING_ROUTING_PATH", 4000),
    text("OUTGOING_REPLICAT", 128),
    instant("OUTGOING_HEARTBEAT_TS"),
    instant("OUTGOING_EXTRACT_TS"),
    instant("OUTGOING_ROUTING_TS"),
    instant("OUTGOING_REPLICAT_TS"),
    text("OUTGOING_REPLICAT_LW_CSN", 128),
    text("OUTGOING_EXTRACT_HEARTBEAT_CSN", 128),
    text("OUTGOING_EXTRACT_RESTART_CSN", 128),
    instant("OUTGOING_EXTRACT_RESTART_TS"),
];

/// Columns of GG_HEARTBEAT: those of the reference, then ours, [`WAY_COLUMN`] being the key.
pub fn heartbeat_columns() -> Vec<HeartbeatColumn> {
    let mut columns =
        vec![needed(text("LOCAL_DATABASE", 512)), instant("HEARTBEAT_TIMESTAMP"), needed(text("REMOTE_DATABASE", 512))];
    columns.extend(DIRECTIONS);
    columns.extend([instant("HEARTBEAT_RECEIVED_TS"), needed(text(WAY_COLUMN, 64))]);
    columns
}

/// Columns of GG_HEARTBEAT_HISTORY.
pub fn history_columns() -> Vec<HeartbeatColumn> {
    let mut columns = vec![
        needed(text("LOCAL_DATABASE", 512)),
        instant("HEARTBEAT_RECEIVED_TS"),
        needed(text("REMOTE_DATABASE", 512)),
    ];
    columns.extend(DIRECTIONS);
    columns
}

/// What a column of a lag view shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LagExpression {
    /// A column of the table.
    Column(&'static str),
    /// The time now, UTC.
    Now,
    /// Seconds from a column to now.
    Since(&'static str),
    /// Seconds to the first column from the second.
    Between(&'static str, &'static str),
    /// The way of the direction with this prefix, as `EXTRACT ==> ROUTING ==> REPLICAT`.
    Way(&'static str),
}

use LagExpression::{Between, Column, Now, Since, Way};

/// Columns that came with restart positions; the reference has them behind the others.
const RESTART: [(&str, LagExpression); 5] = [
    ("REMOTE_EXTRACT_RESTART_CSN", Column("INCOMING_EXTRACT_RESTART_CSN")),
    ("REMOTE_EXTRACT_RESTART_CSN_TIME", Column("INCOMING_EXTRACT_RESTART_TS")),
    ("REMOTE_DB_OLDEST_OPEN_TXN_AGE", Since("INCOMING_EXTRACT_RESTART_TS")),
    ("LOCAL_REPLICAT_LWM_CSN", Column("INCOMING_REPLICAT_LW_CSN")),
    ("REMOTE_DATABASE_DB_UNIQUE_NAME", Column("REMOTE_DATABASE")),
];

/// Columns of the view GG_LAG over GG_HEARTBEAT. Of the outgoing direction the last thing that comes back is when the remote
/// Replicat read the heartbeat, so OUTGOING_LAG ends there.
pub fn lag_columns() -> Vec<(&'static str, LagExpression)> {
    let mut columns = vec![
        ("LOCAL_DATABASE", Column("LOCAL_DATABASE")),
        ("CURRENT_LOCAL_TS", Now),
        ("REMOTE_DATABASE", Column("REMOTE_DATABASE")),
        ("INCOMING_HEARTBEAT_AGE", Since("INCOMING_HEARTBEAT_TS")),
        ("INCOMING_PATH", Way("INCOMING")),
        ("INCOMING_LAG", Between("HEARTBEAT_RECEIVED_TS", "INCOMING_HEARTBEAT_TS")),
        ("OUTGOING_HEARTBEAT_AGE", Since("OUTGOING_HEARTBEAT_TS")),
        ("OUTGOING_PATH", Way("OUTGOING")),
        ("OUTGOING_LAG", Between("OUTGOING_REPLICAT_TS", "OUTGOING_HEARTBEAT_TS")),
    ];
    columns.extend(RESTART);
    columns
}

/// Columns of the view GG_LAG_HISTORY over GG_HEARTBEAT_HISTORY. Ages are those at the moment of arrival.
pub fn lag_history_columns() -> Vec<(&'static str, LagExpression)> {
    let mut columns = vec![
        ("LOCAL_DATABASE", Column("LOCAL_DATABASE")),
        ("HEARTBEAT_RECEIVED_TS", Column("HEARTBEAT_RECEIVED_TS")),
        ("REMOTE_DATABASE", Column("REMOTE_DATABASE")),
        ("INCOMING_HEARTBEAT_AGE", Between("HEARTBEAT_RECEIVED_TS", "INCOMING_HEARTBEAT_TS")),
        ("INCOMING_PATH", Way("INCOMING")),
        ("INCOMING_LAG", Between("HEARTBEAT_RECEIVED_TS", "INCOMING_HEARTBEAT_TS")),
        ("OUTGOING_HEARTBEAT_AGE", Between("HEARTBEAT_RECEIVED_TS", "OUTGOING_HEARTBEAT_TS")),
        ("OUTGOING_PATH", Way("OUTGOING")),
        ("OUTGOING_LAG", Between("OUTGOING_REPLICAT_TS", "OUTGOING_HEARTBEAT_TS")),
    ];
    columns.extend(RESTART.map(|(name, expression)| match expression {
        Since(column) => (name, Between("HEARTBEAT_RECEIVED_TS", column)),
        other => (name, other),
    }));
    columns
}

/// What the operator chooses for heartbeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeartbeatOptions {
    /// FREQUENCY: seconds between two stamps; 0 pauses.
    pub frequency: u32,
    /// RETENTION_TIME: days that history is kept.
    pub retention: u32,
    /// PURGE_FREQUENCY: days between two purges.
    pub purge_frequency: u32,
    /// TARGETONLY: heartbeats arrive and none are sent.
    pub target_only: bool,
}

impl Default for HeartbeatOptions {
    fn default() -> HeartbeatOptions {
        HeartbeatOptions { frequency: 60, retention: 30, purge_frequency: 1, target_only: false }
    }
}

/// What is done every so often.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HeartbeatJob {
    /// Stamps the seed and all rows that have arrived.
    Stamp,
    /// Removes old history.
    Purge,
}

impl HeartbeatJob {
    /// The name in JOB_NAME.
    pub fn name(self) -> &'static str {
        match self {
            HeartbeatJob::Stamp => "GG_UPDATE_HEARTBEATS",
            HeartbeatJob::Purge => "GG_PURGE_HEARTBEATS",
        }
    }
}

impl fmt::Display for HeartbeatJob {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

/// A job as its row tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobState {
    /// Which one.
    pub job: HeartbeatJob,
    /// START_DATE: when it was made.
    pub start: Option<Timestamp>,
    /// LAST_START_DATE.
    pub last: Option<Timestamp>,
    /// NEXT_RUN_DATE; `None` while it is paused.
    pub next: Option<Timestamp>,
    /// JOB_QUEUE_PROCESSES: how many of our processes may run it; none of them when it is 0.
    pub workers_max: u32,
}

/// What is known of an installation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeartbeatState {
    /// LOCAL_DATABASE: how the database calls itself in heartbeats.
    pub database: String,
    /// Where the tables are.
    pub schema: String,
    /// GG_HEARTBEAT, as the database writes it.
    pub arrived: TableName,
    /// GG_HEARTBEAT_HISTORY, as the database writes it.
    pub history: TableName,
    /// What was chosen.
    pub options: HeartbeatOptions,
    /// The jobs that there are.
    pub jobs: Vec<JobState>,
    /// Objects, and columns as `TABLE.COLUMN`, that ought to be there and are not.
    pub missing: Vec<String>,
    /// The time now by the database's clock.
    pub now: Timestamp,
}

/// A table or view of an installation that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeartbeatTable {
    /// GG_HEARTBEAT.
    Arrived,
    /// GG_HEARTBEAT_HISTORY.
    History,
    /// GG_LAG.
    Lag,
    /// GG_LAG_HISTORY.
    LagHistory,
}

impl HeartbeatTable {
    /// The name, without a schema.
    pub fn name(self) -> &'static str {
        match self {
            HeartbeatTable::Arrived => "GG_HEARTBEAT",
            HeartbeatTable::History => "GG_HEARTBEAT_HISTORY",
            HeartbeatTable::Lag => "GG_LAG",
            HeartbeatTable::LagHistory => "GG_LAG_HISTORY",
        }
    }
}

/// The heartbeat tables of a database, over a connection of its own.
pub trait Heartbeats: Send {
    /// What there is; `None` when heartbeats are not installed.
    fn inspect(&mut self) -> Result<Option<HeartbeatState>, Error>;

    /// The least FREQUENCY above 0 that the product allows.
    fn frequency_least(&self) -> u32;

    /// Creates everything and puts a row into the seed. Returns a line for each object.
    ///
    /// # Errors
    /// [`ErrorClass::Permanent`](crate::ErrorClass::Permanent) when one of the names is taken.
    fn create(&mut self, options: &HeartbeatOptions) -> Result<Vec<String>, Error>;

    /// Changes what was chosen: a job that is paused has no next run, one that is resumed or told another frequency runs at
    /// once.
    fn alter(&mut self, options: &HeartbeatOptions) -> Result<(), Error>;

    /// Adds what an installation of an earlier version lacks. Returns a line for each object.
    fn upgrade(&mut self) -> Result<Vec<String>, Error>;

    /// Removes everything. Returns a line for each object.
    fn remove(&mut self) -> Result<Vec<String>, Error>;

    /// Removes the rows of GG_HEARTBEAT that name `group` on their way. Returns how many.
    fn remove_entries(&mut self, group: &str) -> Result<u64, Error>;

    /// Runs those of `jobs` that are due, each in a transaction of its own, and returns them. However many ask at once, each
    /// job runs once.
    fn run_due(&mut self, jobs: &[HeartbeatJob]) -> Result<Vec<HeartbeatJob>, Error>;

    /// The rows of a table or view, oldest heartbeat first; of each the columns that are asked for, as text.
    fn rows(&mut self, table: HeartbeatTable, columns: &[&str]) -> Result<Vec<Vec<Option<String>>>, Error>;
}
