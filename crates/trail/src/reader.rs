//! Reading transactions from a trail.

use crate::format::header::FileHeader;
use crate::storage::Storage;
use crate::{Error, Position, TrailName};
use change::{Change, Commit, Csn, TableDefinition, TransactionId};
use std::sync::Arc;
use std::time::Duration;

/// Where a [`Reader`] starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Start {
    /// At the first file that there is.
    Beginning,
    /// Where an earlier reader stopped.
    At {
        /// The position it had reached.
        position: Position,
        /// The last transaction it had dealt with, which must be the one that the trail holds before `position`.
        after: Option<(Csn, TransactionId)>,
    },
}

/// Where a change stands in its transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TransactionPlace {
    /// More changes follow.
    First,
    /// Changes came before and more follow.
    Middle,
    /// The transaction is complete.
    Last,
    /// The only change of its transaction.
    Only,
}

impl TransactionPlace {
    /// Whether a transaction starts here.
    pub fn starts(self) -> bool {
        matches!(self, TransactionPlace::First | TransactionPlace::Only)
    }

    /// Whether the transaction is complete after this change.
    pub fn ends(self) -> bool {
        matches!(self, TransactionPlace::Last | TransactionPlace::Only)
    }
}

/// One record and its place.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Where it starts.
    pub position: Position,
    /// Where it ends, and the next one in the file starts.
    pub next: Position,
    /// What it says.
    pub record: Record,
}

/// What a record says.
#[derive(Clone, Debug, PartialEq)]
pub enum Record {
    /// A file starts.
    Header(Arc<FileHeader>),
    /// The shape of a table, before its first use in a file.
    Definition(Arc<TableDefinition>),
    /// A change of a committed transaction.
    Change {
        /// Where it stands in the transaction.
        place: TransactionPlace,
        /// The transaction.
        commit: Commit,
        /// The change.
        change: Change,
    },
    /// The writer started again.
    Restart {
        /// A transaction was left open: what was read of it must be dropped, it comes again from its first change.
        abend: bool,
    },
    /// A record that says nothing about rows.
    Other {
        /// Its operation number.
        operation: u8,
    },
}

/// One reader of a trail.
pub struct Reader {}

impl Reader {
    /// Opens the trail for reading.
    pub fn open(storage: Arc<dyn Storage>, trail: TrailName, start: Start) -> Result<Reader, Error> {
        let _ = (storage, trail, start);
        unimplemented!()
    }

    /// The next record, or `None` when the reader has caught up with the published safe position.
    #[expect(clippy::should_implement_trait, reason = "an error and the end of what is published are different things")]
    pub fn next(&mut self) -> Result<Option<Entry>, Error> {
        unimplemented!()
    }

    /// Waits until there is more to read, at most `timeout`. Returns whether there is; may return `false` early.
    pub fn wait(&mut self, timeout: Duration) -> Result<bool, Error> {
        let _ = timeout;
        unimplemented!()
    }

    /// Where the next record will be looked for.
    pub fn position(&self) -> Position {
        unimplemented!()
    }
}
