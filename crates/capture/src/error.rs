//! Why an Extract stops.

use crate::Gap;
use change::{Csn, LogPosition, TableName, TransactionId};
use database::ErrorClass;
use trail::Position;

/// An Extract that can't go on. Nothing is lost: the source was told to forget only what trail and checkpoint hold.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The source failed.
    #[error("could not {action} the source at {position}")]
    Source {
        /// What was tried, such as `read`.
        action: &'static str,
        /// The place in the source's log that had been reached.
        position: LogPosition,
        /// The database's answer.
        source: database::Error,
    },
    /// The trail failed.
    #[error("could not {action} trail {trail} at {position}")]
    Trail {
        /// What was tried, such as `sync`.
        action: &'static str,
        /// The trail, as the operator names it.
        trail: String,
        /// The end of the trail.
        position: Position,
        /// Why not.
        source: Box<trail::Error>,
    },
    /// The checkpoint file failed.
    #[error("could not use the checkpoint file at source position {position}")]
    Checkpoint {
        /// The place in the source's log that had been reached.
        position: LogPosition,
        /// Why not.
        source: Box<process::CheckpointError>,
    },
    /// The checkpoint names a transaction as written that the trail does not hold.
    #[error(
        "trail {trail} does not hold transaction {transaction} (CSN {csn}), the last one by the checkpoint; its last one is {found}"
    )]
    TrailBehind {
        /// The trail, as the operator names it.
        trail: String,
        /// CSN in the checkpoint.
        csn: Csn,
        /// Transaction in the checkpoint.
        transaction: TransactionId,
        /// What the trail ends with, or that it holds none.
        found: String,
    },
    /// The source does not replay what the trail ends with.
    #[error("trail {trail} and the source do not belong together at {position}")]
    Gap {
        /// The trail, as the operator names it.
        trail: String,
        /// The place in the source's log that had been reached.
        position: LogPosition,
        /// What came.
        source: Gap,
    },
    /// The source broke its own promise: a bug, or a damaged log.
    #[error("the source's log is out of order at {position}: {what}")]
    OutOfOrder {
        /// The place in the source's log that had been reached.
        position: LogPosition,
        /// What came.
        what: String,
    },
    /// Some partitions of a table were truncated, and only a truncation of the whole table can be told.
    #[error(
        "{partition} was truncated at {position} alone: {table} has rows in {left} as well, so that this can't be told"
    )]
    PartitionTruncated {
        /// The place in the source's log that had been reached.
        position: LogPosition,
        /// The first partition that was truncated.
        partition: Box<TableName>,
        /// The table that it belongs to.
        table: Box<TableName>,
        /// A partition that was not truncated.
        left: Box<TableName>,
    },
    /// A statement that the rules want in the trail can't be put there.
    #[error("could not carry {title} at {position}: {reason}")]
    Untold {
        /// The place in the source's log that had been reached.
        position: LogPosition,
        /// Which statement.
        title: String,
        /// Why not.
        reason: String,
    },
    /// The checkpoint file is not one of an Extract with one trail.
    #[error("the checkpoint can't be used: {reason}")]
    Unusable {
        /// What is wrong with it.
        reason: String,
    },
    /// Counters that do not balance: a change was lost inside the process.
    #[error("the counters do not balance at {position}: {detail}")]
    Unbalanced {
        /// The place in the source's log that had been reached.
        position: LogPosition,
        /// The counters.
        detail: String,
    },
}

impl Error {
    /// What the operator can do about it.
    pub fn next_step(&self) -> &str {
        match self {
            Error::Source { source, .. } => source.next_step().unwrap_or(match source.class() {
                ErrorClass::Full => "make room on the source's disk, then start the group again",
                ErrorClass::Denied => "give the source's user the missing right, then start the group again",
                _ => "look at the cause, mend it, and start the group again",
            }),
            Error::Trail { source, .. } => source.next_step(),
            Error::Checkpoint { source, .. } => source.next_step(),
            Error::TrailBehind { .. } => {
                "restore the trail's files; if they are lost, delete the group, add it anew and compare the tables"
            }
            Error::Gap { .. } => {
                "if TABLE statements were taken away since the last run, start once with them; if the source was restored or the group \
                 altered, delete the group, add it anew and compare the tables"
            }
            Error::Untold { .. } => {
                "do at the target what the statement did, leave the statement out by an EXCLUDE of DDL, and start the group again"
            }
            Error::OutOfOrder { .. } | Error::Unbalanced { .. } => "report this as a bug, and compare the tables",
            Error::PartitionTruncated { .. } => {
                "delete the rows at the target, then take the PARTITION statements of the table out, delete the group and add it anew; or \
                 delete rows with DELETE in place of TRUNCATE"
            }
            Error::Unusable { .. } => "add the trail with ADD EXTTRAIL, then start the group again",
        }
    }
}
