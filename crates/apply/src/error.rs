//! Why a Replicat stops.

use crate::{MappingError, RowError, WrongCsn};
use change::{Csn, OperationKind, TableName, TransactionId};
use database::{ErrorClass, Outcome};
use std::fmt;
use trail::{Position, TransactionPlace};

/// A Replicat that can't go on. Everything before the named position is applied and durable; nothing behind it is.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The trail can't be read.
    #[error("could not read the trail after position {position}")]
    Trail {
        /// The last position that was read.
        position: Position,
        /// Why not.
        source: Box<trail::Error>,
    },
    /// A change stands where no change can stand: the trail is damaged.
    #[error("the change at {position} can't be the {place:?} of its transaction")]
    OutOfPlace {
        /// Where it stands.
        position: Position,
        /// The place it claims.
        place: TransactionPlace,
    },
    /// The trail holds something that is no change of a row.
    #[error("the {what} at {position} can't be applied")]
    Inapplicable {
        /// What it is.
        what: &'static str,
        /// Where it stands.
        position: Position,
    },
    /// The target did not take a statement that defines objects.
    #[error("could not run {title} at {position}, CSN {csn}: {detail}")]
    Definition {
        /// Where it stands.
        position: Position,
        /// The source transaction's place in commit order.
        csn: Csn,
        /// Which statement.
        title: String,
        /// The database's words.
        detail: String,
        /// The database's code.
        code: String,
    },
    /// A sequence can't be moved forward.
    #[error("could not move a sequence at {position}")]
    Sequence {
        /// Where it stands.
        position: Position,
        /// The database's answer.
        source: database::Error,
    },
    /// The target did not do what it was asked for, and repeating would not help.
    #[error("could not {action} after trail position {position}")]
    Target {
        /// What was tried, such as `commit`.
        action: &'static str,
        /// The last position that is applied.
        position: Position,
        /// The database's answer.
        source: database::Error,
    },
    /// The target did not take a row.
    #[error("could not apply the {}", .0)]
    Rejected(Box<RejectedChange>),
    /// A table can't be mapped.
    #[error("could not map the change at {position}")]
    Mapping {
        /// Where the first change of the table stands.
        position: Position,
        /// Which table, and why.
        source: Box<MappingError>,
    },
    /// Options of a MAP do not fit its tables.
    #[error("could not use the options of a MAP, for the change at {position}")]
    Handling {
        /// Where the first change of the table stands.
        position: Position,
        /// Which option, and why.
        source: crate::HandlingError,
    },
    /// What is dropped can't be kept in the discard file.
    #[error("could not write to the discard file after {position}")]
    Discard {
        /// The last position that is applied.
        position: Position,
        /// Why not.
        source: std::io::Error,
    },
    /// REPERROR parks transactions, or VERSIONCOLS keeps the versions of deleted rows, and the target has no error queue.
    #[error(
        "the target has no error queue, and a rule of the group, REPERROR with TRANSQUEUE or VERSIONCOLS, writes into its tables"
    )]
    NoErrorQueue,
    /// The error queue did not take a transaction.
    #[error("could not write to the error queue after {position}")]
    ErrorQueue {
        /// The last position that is applied.
        position: Position,
        /// Why not.
        source: database::Error,
    },
    /// The checkpoint table has no row of the group.
    #[error("the checkpoint table has no row of group {group} with key {group_key}, so its position is not known")]
    NoRow {
        /// The group.
        group: String,
        /// GROUP_KEY in the checkpoint file.
        group_key: i64,
    },
    /// The checkpoint row can't be used.
    #[error("could not start from the checkpoint row")]
    Row(#[from] RowError),
    /// ATCSN or AFTERCSN names no CSN of the trail.
    #[error("CSN {} can't be compared with those of the trail, such as {}", .0.given, .0.example)]
    StartCsn(Box<WrongCsn>),
    /// Changes of a table can't be applied before its rows are there.
    #[error("the initial copy of {table} is not finished")]
    CopyUnfinished {
        /// The source table.
        table: TableName,
    },
    /// The checkpoint file is not a Replicat's.
    #[error("the checkpoint can't be used: {reason}")]
    Unusable {
        /// What is wrong with it.
        reason: String,
    },
    /// The checkpoint file can't be read or written.
    #[error("could not use the checkpoint file")]
    CheckpointFile(#[source] Box<process::CheckpointError>),
    /// Counters that do not balance: a change was lost inside the process.
    #[error("the counters do not balance at {position}: {detail}")]
    Unbalanced {
        /// The position reached.
        position: Position,
        /// The counters.
        detail: String,
    },
}

/// A change that the target did not take, without its values.
#[derive(Debug)]
pub struct RejectedChange {
    /// The change; `None` when the target refused at commit and did not say which one.
    pub operation: Option<OperationKind>,
    /// The source table, when the change is known.
    pub source_table: Option<TableName>,
    /// The target table, when the change is known.
    pub target: Option<TableName>,
    /// Names of the columns by which the row is found.
    pub key_columns: Vec<String>,
    /// What kind of refusal.
    pub outcome: Outcome,
    /// The database's words about the constraint or column.
    pub detail: String,
    /// Where the change, or the transaction's last change, stands in the trail.
    pub position: Position,
    /// The source transaction's place in commit order.
    pub csn: Csn,
    /// The source transaction.
    pub transaction: TransactionId,
}

impl fmt::Display for RejectedChange {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.operation, &self.source_table, &self.target) {
            (Some(operation), Some(source), Some(target)) => {
                write!(formatter, "{operation} of {source} to {target} (key {})", self.key_columns.join(", "))?;
            }
            _ => write!(formatter, "commit of a transaction")?,
        }
        let RejectedChange { outcome, detail, position, csn, transaction, .. } = self;
        write!(formatter, " at trail position {position}, CSN {csn}, transaction {transaction}: {outcome}")?;
        if detail.is_empty() { Ok(()) } else { write!(formatter, " ({detail})") }
    }
}

impl From<WrongCsn> for Error {
    fn from(wrong: WrongCsn) -> Error {
        Error::StartCsn(Box::new(wrong))
    }
}

impl Error {
    /// What the operator can do about it.
    pub fn next_step(&self) -> String {
        match self {
            Error::Trail { source, .. } => source.next_step().to_owned(),
            Error::OutOfPlace { .. } => {
                "look at the trail with `drover logdump`, and restore the file from a copy if it is damaged".to_owned()
            }
            Error::Definition { code, .. } => {
                let ignore = match code.as_str() {
                    "" => String::new(),
                    code => format!(", or let DDLERROR {code} IGNORE pass over it"),
                };
                format!("mend what is in the way and start the group again: it goes on with this statement{ignore}")
            }
            Error::Sequence { source, .. } => source.next_step().unwrap_or(
                "create the sequence at the target, or take it out of the Extract's SEQUENCE statement, then start the group again",
            ).to_owned(),
            Error::Inapplicable { .. } => {
                "do at the target what it stands for, then alter the group to start behind it".to_owned()
            }
            Error::Target { source, .. } => source.next_step().map_or_else(
                || {
                    match source.class() {
                        ErrorClass::Full => "make room on the target's disk, then start the group again",
                        ErrorClass::Denied => "give the target's user the missing right, then start the group again",
                        _ => "look at the cause, mend it, and start the group again",
                    }
                    .to_owned()
                },
                str::to_owned,
            ),
            Error::Rejected(rejected) => {
                let cause = match rejected.outcome {
                    Outcome::Missing => "find out who removed the row from the target and put it back",
                    Outcome::Duplicate => "find out who wrote the row into the target and remove it",
                    Outcome::ForeignKey | Outcome::Constraint => "compare the constraints of both tables",
                    Outcome::Value => "compare the column's type in both tables",
                };
                format!("{cause}, then start the group again: it goes on with this transaction")
            }
            Error::Mapping { source, .. } => source.next_step().to_owned(),
            Error::Handling { .. } => "correct the option in the parameter file, then start the group again".to_owned(),
            Error::Discard { .. } => {
                "make room, or give a larger MEGABYTES to DISCARDFILE, then start the group again: nothing is lost".to_owned()
            }
            Error::NoErrorQueue => {
                "create it with ADD ERRORQUEUE after DBLOGIN to the target, then start the group again".to_owned()
            }
            Error::ErrorQueue { source, .. } => source
                .next_step()
                .map_or_else(|| "look at the cause, mend it, and start the group again".to_owned(), str::to_owned),
            Error::NoRow { .. } => {
                "find out who removed the row; the position in the checkpoint file is older or equal. \
                 Put the row back, or delete the group, add it anew and compare the tables"
                    .to_owned()
            }
            Error::Row(RowError::Version { .. }) => "run the group with the newer version".to_owned(),
            Error::Row(RowError::Altered { .. }) => {
                "undo the alteration of the row; INFO REPLICAT with SHOWCH 10 shows where the group stood".to_owned()
            }
            Error::Row(RowError::ApplierGone { .. }) => "put the row back; without it nobody knows what this applier has \
                 applied, so else delete the group, add it anew and compare the tables"
                .to_owned(),
            Error::Row(RowError::RulesChanged { .. }) => {
                "put the old MAP statements back, bring the group to one point with SYNCHRONIZE REPLICAT, then change them"
                    .to_owned()
            }
            Error::StartCsn(_) => "give the CSN with all its digits".to_owned(),
            Error::CopyUnfinished { .. } => {
                "finish the initial copy with drover copy, then start the group again".to_owned()
            }
            Error::CheckpointFile(source) => source.next_step().to_owned(),
            Error::Unusable { .. } => "put the group's own checkpoint file back, then start the group again".to_owned(),
            Error::Unbalanced { .. } => "report this as a bug, and compare the tables".to_owned(),
        }
    }
}
