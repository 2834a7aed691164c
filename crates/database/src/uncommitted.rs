//! Reading a log that tells transactions while they are still open.

use crate::{Error, LogEvent};
use change::{Change, Commit, Csn, LogPosition, ObjectChange, Timestamp, TransactionId};
use std::time::Duration;

/// How a source that tells uncommitted work goes on after a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replay {
    /// From any position it tells what stands behind that position in the log, and nothing else. Who wants to see a
    /// transaction whole starts where it starts. Every batch of events ends with [`OpenEvent::Reached`], and every change has
    /// a chunk of its own, with its position.
    FromPosition,
    /// From the position behind a commit it tells every transaction that committed later, whole and from its start: the
    /// database remembers for us where that was.
    WholeTransactions,
}

/// What a log tells, in the order in which it was written.
#[derive(Debug)]
pub enum OpenEvent {
    /// A transaction starts, or is told again from its start: what was told of it before is void. Its changes follow.
    Start {
        /// The source's name for it.
        transaction: TransactionId,
        /// Where its first record stands.
        position: LogPosition,
        /// When it started, by the source's clock, as far as the log tells.
        time: Option<Timestamp>,
    },
    /// The changes that follow belong to this transaction, which was started before.
    Chunk {
        /// The source's name for it.
        transaction: TransactionId,
        /// Where the first record of the chunk stands.
        position: LogPosition,
    },
    /// A change of the transaction that was started or gone on with last.
    Change {
        /// The part of the transaction (subtransaction, savepoint) that it is made in. Numbers of parts are never used twice
        /// in a transaction.
        part: u32,
        /// The change.
        change: Change,
    },
    /// What the transaction that was started or gone on with last did to an object of the database.
    Object {
        /// The part of the transaction that did it, as with changes.
        part: u32,
        /// What it did.
        object: Box<ObjectChange>,
    },
    /// A part was rolled back. Parts inside it, which were not told before, are told on their own. A part that made no change
    /// may be told, too.
    AbortPart {
        /// The source's name for the transaction.
        transaction: TransactionId,
        /// The part.
        part: u32,
        /// Where the record stands.
        position: LogPosition,
    },
    /// The transaction is prepared for two-phase commit; it stays open.
    Prepare {
        /// The source's name for it.
        transaction: TransactionId,
        /// The user's name for it.
        name: String,
        /// Where the record stands.
        position: LogPosition,
    },
    /// The transaction was rolled back. It need not have been started.
    Abort {
        /// The source's name for it.
        transaction: TransactionId,
        /// Where the record stands.
        position: LogPosition,
    },
    /// The transaction is committed. It need not have been started: then nothing in it was ours.
    Commit {
        /// Its identity, with the name under which it was told.
        commit: Commit,
        /// Where the record stands.
        position: LogPosition,
        /// Where the log goes on.
        next: LogPosition,
    },
    /// Everything before `next` was told. What is open stays open.
    Reached {
        /// Where the log goes on.
        next: LogPosition,
    },
    /// A transaction that is told when it has committed, as a [`LogSource`](crate::LogSource) does; only sources that replay
    /// [whole transactions](Replay::WholeTransactions) mix both ways. Between its begin and its end comes nothing else.
    Committed(LogEvent),
}

/// A log that tells changes before it is known whether they commit.
///
/// # Guarantees
/// - Commits come in commit order, and every change of a transaction before its commit, in the order in which the changes were
///   made.
/// - After a restart it tells what [`Replay`] promises.
/// - Transactions that our own apply made are left out: at the latest, they are told as aborted.
/// - Where positions are told they never go back.
pub trait OpenLogSource: Send {
    /// How it goes on after a restart.
    fn replay(&self) -> Replay;

    /// Appends the next events to `events`, waiting at most `wait` for the first one. No event within `wait` is no error.
    ///
    /// # Errors
    /// As [`LogSource::read`](crate::LogSource::read).
    fn read(&mut self, events: &mut Vec<OpenEvent>, wait: Duration) -> Result<(), Error>;

    /// As [`LogSource::resume_after`](crate::LogSource::resume_after).
    ///
    /// # Errors
    /// As there.
    fn resume_after(&mut self, commit: &Commit) -> Result<bool, Error> {
        let _ = commit;
        Ok(false)
    }

    /// As [`LogSource::verify_written`](crate::LogSource::verify_written).
    ///
    /// # Errors
    /// As there.
    fn verify_written(&mut self, commit: &Commit) -> Result<(), Error> {
        let _ = commit;
        Ok(())
    }

    /// Tells the database that it may forget everything before `position`.
    ///
    /// # Errors
    /// As [`LogSource::release`](crate::LogSource::release).
    fn release(&mut self, position: &LogPosition) -> Result<(), Error>;

    /// Whether it tells the changes of a prepared transaction once: when it is prepared, and not again when it ends. Who reads keeps
    /// them, durably, before anything is released that lies behind the preparation.
    fn tells_prepared_once(&self) -> bool {
        false
    }

    /// A place in commit order behind `written` and behind everything that was told so far, and before everything that will be;
    /// `None` where there is none now.
    fn place_between(&self, written: Option<&Csn>) -> Option<Csn> {
        let _ = written;
        None
    }

    /// Whether `position` was told by this log in its present life: what was kept under another registration, or for another
    /// database, is void.
    fn knows(&self, position: &LogPosition) -> bool {
        let _ = position;
        true
    }

    /// The time of the oldest record that the log still holds, where the source can tell.
    fn kept_since(&self) -> Option<Timestamp> {
        None
    }
}
