//! Operations on rows.

use crate::{RecordAddress, Row, TableDefinition};
use std::fmt;
use std::sync::Arc;

/// What happened to a row or to a whole table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A row came into being.
    Insert {
        /// The whole new row.
        new: Row,
    },
    /// A row changed.
    Update {
        /// What the source told of the row before: the whole row, its key, or nothing (then the key did not change).
        old: Option<Row>,
        /// The row afterwards; values that did not travel are unchanged.
        new: Row,
    },
    /// A row went away.
    Delete {
        /// The whole row, or its key.
        old: Row,
    },
    /// All rows of the table went away at once. A statement that names several tables is one change for each of them, one
    /// behind the other and with the same options.
    Truncate(TruncateOptions),
}

/// What a TRUNCATE was told besides its tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TruncateOptions {
    /// CASCADE. The tables that it reached, as far as they are captured, are changes of their own.
    pub cascade: bool,
    /// RESTART IDENTITY: sequences that belong to the table's columns start anew.
    pub restart_identity: bool,
}

impl Operation {
    /// A truncation without options.
    pub const fn truncate() -> Operation {
        Operation::Truncate(TruncateOptions { cascade: false, restart_identity: false })
    }

    /// Which of the four it is.
    pub fn kind(&self) -> OperationKind {
        match self {
            Operation::Insert { .. } => OperationKind::Insert,
            Operation::Update { .. } => OperationKind::Update,
            Operation::Delete { .. } => OperationKind::Delete,
            Operation::Truncate(_) => OperationKind::Truncate,
        }
    }

    /// Bytes of all values of both images.
    pub fn value_bytes(&self) -> usize {
        match self {
            Operation::Insert { new } => new.value_bytes(),
            Operation::Update { old, new } => old.as_ref().map_or(0, Row::value_bytes) + new.value_bytes(),
            Operation::Delete { old } => old.value_bytes(),
            Operation::Truncate(_) => 0,
        }
    }
}

/// The kinds of [`Operation`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum OperationKind {
    /// See [`Operation::Insert`].
    Insert,
    /// See [`Operation::Update`].
    Update,
    /// See [`Operation::Delete`].
    Delete,
    /// See [`Operation::Truncate`].
    Truncate,
}

impl OperationKind {
    /// All kinds, in the order in which reports list them.
    pub const ALL: [OperationKind; 4] =
        [OperationKind::Insert, OperationKind::Update, OperationKind::Delete, OperationKind::Truncate];
}

impl fmt::Display for OperationKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(match self {
            OperationKind::Insert => "insert",
            OperationKind::Update => "update",
            OperationKind::Delete => "delete",
            OperationKind::Truncate => "truncate",
        })
    }
}

/// One operation, with the definition it was written under and its place in the source's log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The shape of the table when the change was made.
    pub table: Arc<TableDefinition>,
    /// What happened.
    pub operation: Operation,
    /// Where the source's log holds it.
    pub address: RecordAddress,
}
