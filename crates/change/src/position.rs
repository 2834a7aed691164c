//! Places in a source's history.

use std::fmt;
use std::sync::Arc;

/// A place in a source's log from which reading can go on, in the source's own notation.
///
/// Positions of one source compare as the source orders them: sources write them with fixed width.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LogPosition(Arc<str>);

impl LogPosition {
    /// A position from the source's notation.
    pub fn new(text: impl Into<Arc<str>>) -> LogPosition {
        LogPosition(text.into())
    }

    /// The source's notation.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for LogPosition {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(&self.0)
    }
}

/// Where one record stands in the source's log: the numbers that a trail's record header shows as AuditPos and
/// AuditRBA.
///
/// PostgreSQL: (record LSN, 0). MariaDB/MySQL: (binlog file number, offset). SQLite: (change number, 0).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RecordAddress {
    /// AuditPos.
    pub position: u64,
    /// AuditRBA.
    pub offset: u32,
}
