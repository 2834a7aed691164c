//! Reading committed changes from a database's own log.

use crate::{Error, TableSelection};
use change::{Change, Commit, LogPosition, ObjectChange};
use std::sync::Arc;
use std::time::Duration;

/// What a log source tells, in the source's commit order.
#[derive(Debug)]
pub enum LogEvent {
    /// A committed transaction starts.
    Begin(Commit),
    /// A change of the transaction that has started.
    Change(Change),
    /// What the transaction that has started did to an object of the database, at its place among the changes. Told only where
    /// the [selection](TableSelection) asks for it.
    Object(Box<ObjectChange>),
    /// The transaction is complete; reading goes on at `next`.
    Commit {
        /// Where to read on after a restart, once the transaction is safe.
        next: LogPosition,
    },
    /// Nothing of ours was committed up to `next`, so the source may forget up to there.
    Idle {
        /// Where to read on after a restart.
        next: LogPosition,
    },
    /// Something that the operator should find in the report, such as a table that joined or went away.
    Notice(String),
}

/// What a source is opened for.
#[derive(Clone)]
pub struct SourceRequest {
    /// The Extract's name.
    pub group: String,
    /// Where to read on.
    pub start: LogPosition,
    /// Which tables.
    pub tables: Arc<dyn TableSelection>,
}

/// A stream of committed changes.
///
/// # Guarantees
/// - Transactions come in commit order, each between one [`LogEvent::Begin`] and one [`LogEvent::Commit`], changes in
///   the order in which they were made, none twice and none left out.
/// - After a restart at a position that an earlier [`LogEvent::Commit`] named, the stream goes on with the very next
///   transaction.
/// - Transactions that our own apply made are left out.
/// - Memory is bounded: a transaction of any size arrives in batches.
pub trait LogSource: Send {
    /// Appends the next events to `events`, waiting at most `wait` for the first one. A batch may end in the middle of a
    /// transaction. No event within `wait` is no error.
    ///
    /// # Errors
    /// Any [`Error`]; after one that is not transient the source must be opened anew.
    fn read(&mut self, events: &mut Vec<LogEvent>, wait: Duration) -> Result<(), Error>;

    /// Asks the source to go on right behind `commit`, the last transaction that our trail holds in full. Called at most
    /// once, before the first [`read`](LogSource::read).
    ///
    /// Returns `true` when the next transaction will be the one after it. Returns `false` when the source replays from its
    /// start position, transaction by transaction as before, and the caller leaves out what the trail holds. A source that
    /// may merge neighbouring transactions must be able to do the former: it can't know where it merged them before.
    ///
    /// # Errors
    /// [`ErrorClass::Mismatch`](crate::ErrorClass::Mismatch) when the database does not hold that transaction.
    fn resume_after(&mut self, commit: &Commit) -> Result<bool, Error> {
        let _ = commit;
        Ok(false)
    }

    /// Tells the source which transaction was written last. It lies before the start position, and between the two there was
    /// nothing to tell. Called at most once, before the first [`read`](LogSource::read), and not with
    /// [`resume_after`](LogSource::resume_after).
    ///
    /// A database that may be put back to an earlier state without a trace verifies, now or while it reads, that it still
    /// holds that transaction. What has come between the two since, in another life of the database, it tells.
    ///
    /// # Errors
    /// [`ErrorClass::Mismatch`](crate::ErrorClass::Mismatch) when the database does not hold that transaction.
    fn verify_written(&mut self, commit: &Commit) -> Result<(), Error> {
        let _ = commit;
        Ok(())
    }

    /// Tells the database that it may forget everything before `position`.
    ///
    /// Call it only with positions that are durable in our trail and in our checkpoint. It must not block for long: a
    /// database that is busy is asked again by a later call.
    ///
    /// # Errors
    /// Any [`Error`].
    fn release(&mut self, position: &LogPosition) -> Result<(), Error>;
}
