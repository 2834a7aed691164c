//! What a database's log tells, and what it keeps for us.

use change::TableName;
use std::fmt;

/// How the log identifies the row that an update or delete means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RowIdentity {
    /// By the primary key.
    Key,
    /// By a unique index of this name.
    Index(String),
    /// By all columns.
    AllColumns,
    /// Not at all: updates and deletes can't be captured.
    Nothing,
}

/// Writes what operators call it: `key`, `index NAME`, `all columns`, `nothing`.
impl fmt::Display for RowIdentity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RowIdentity::Key => formatter.pad("key"),
            RowIdentity::Index(name) => formatter.pad(&format!("index {name}")),
            RowIdentity::AllColumns => formatter.pad("all columns"),
            RowIdentity::Nothing => formatter.pad("nothing"),
        }
    }
}

/// How much of a table's old rows the log tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowLogging {
    /// The table.
    pub table: TableName,
    /// What is told.
    pub identity: RowIdentity,
}

/// Whether a log can still be read from where a group stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogState {
    /// It is kept as usual.
    Reserved,
    /// More is kept than the database would keep for itself.
    Extended,
    /// It is past what the database promises to keep: the next removal of old log may take it away.
    Unreserved,
    /// It is gone.
    Lost,
}

/// The log that a database keeps because a group has not read it, or has not confirmed it yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogKept {
    /// Where what is kept begins: the start of the oldest transaction that is open, or before it. The front part of a position,
    /// without what tells one history from another. `None` when nothing is kept any more.
    pub from: Option<String>,
    /// What keeps it, such as a slot, by name.
    pub holder: String,
    /// Whether somebody reads from it now.
    pub is_active: bool,
    /// Bytes from the oldest place that is kept for the group to the end of the log.
    pub bytes: u64,
    /// Whether it is still there.
    pub state: LogState,
    /// What the database itself calls that.
    pub state_name: String,
    /// Most bytes that the database keeps; `None` without a limit.
    pub limit: Option<u64>,
    /// Bytes that may still be written before the log is in danger; `None` without a limit.
    pub left: Option<u64>,
}
