//! What is told about a conflict.

use change::Row;
use std::fmt;

/// What kind of conflict it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ConflictKind {
    /// An insert found a row with its key.
    InsertRowExists,
    /// An update found a row that is not as it left it.
    UpdateRowExists,
    /// An update found no row.
    UpdateRowMissing,
    /// A delete found a row that is not as it left it.
    DeleteRowExists,
    /// A delete found no row.
    DeleteRowMissing,
    /// A unique constraint was violated.
    Uniqueness,
    /// An insert brings a row back that was deleted.
    InsertAfterDelete,
    /// A truncation would remove rows that its site may not have seen.
    Truncate,
}

impl ConflictKind {
    /// All kinds, in the order in which reports list them.
    pub const ALL: [ConflictKind; 8] = [
        ConflictKind::InsertRowExists,
        ConflictKind::UpdateRowExists,
        ConflictKind::UpdateRowMissing,
        ConflictKind::DeleteRowExists,
        ConflictKind::DeleteRowMissing,
        ConflictKind::Uniqueness,
        ConflictKind::InsertAfterDelete,
        ConflictKind::Truncate,
    ];
}

/// Writes the name that RESOLVECONFLICT has for it, where it has one.
impl fmt::Display for ConflictKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(match self {
            ConflictKind::InsertRowExists => "INSERTROWEXISTS",
            ConflictKind::UpdateRowExists => "UPDATEROWEXISTS",
            ConflictKind::UpdateRowMissing => "UPDATEROWMISSING",
            ConflictKind::DeleteRowExists => "DELETEROWEXISTS",
            ConflictKind::DeleteRowMissing => "DELETEROWMISSING",
            ConflictKind::Uniqueness => "UNIQUENESS",
            ConflictKind::InsertAfterDelete => "INSERTAFTERDELETE",
            ConflictKind::Truncate => "TRUNCATE",
        })
    }
}

/// What became of a conflict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Resolution {
    /// The change was taken.
    Taken,
    /// The row was kept.
    Kept,
    /// A new value was made of both.
    Merged,
    /// The change was dropped and goes to the discard file.
    Discarded,
    /// No method decided.
    Unresolved,
}

impl fmt::Display for Resolution {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(match self {
            Resolution::Taken => "taken",
            Resolution::Kept => "kept",
            Resolution::Merged => "merged",
            Resolution::Discarded => "discarded",
            Resolution::Unresolved => "unresolved",
        })
    }
}

/// One conflict, for the conflict log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConflictEntry {
    /// What kind.
    pub kind: ConflictKind,
    /// The column group or constraint; empty for the table.
    pub reference: String,
    /// Methods that were asked, in order, with their numbers.
    pub tried: Vec<(i32, &'static str)>,
    /// What came of it; the last of `tried` decided, unless nothing did.
    pub resolution: Resolution,
    /// Why a function ended the chain, if one did.
    pub failure: Option<String>,
    /// The row as the change's site had it before, as far as the change tells.
    pub old: Option<Row>,
    /// The row that the change makes.
    pub new: Option<Row>,
    /// The row that was found.
    pub current: Option<Row>,
}

impl ConflictEntry {
    /// The method that decided: its number and name.
    pub fn decided_by(&self) -> Option<(i32, &'static str)> {
        match self.resolution {
            Resolution::Unresolved => None,
            _ => self.tried.last().copied(),
        }
    }
}
