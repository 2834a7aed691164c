//! Appending transactions to a trail.

use crate::storage::Storage;
use crate::{Error, Position, TrailName};
use change::{Change, Commit, Timestamp};
use std::sync::Arc;

/// The process that writes a trail, for the header of each file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Producer {
    /// Group name, such as `E1`.
    pub group: String,
    /// Host name.
    pub host: String,
    /// Version of the program.
    pub version: String,
}

/// The database that the changes come from, for the header of each file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceIdentity {
    /// Product name, such as `SQLite`.
    pub product: String,
    /// Product version.
    pub version: String,
    /// Name of the database.
    pub name: String,
}

/// What a [`Writer`] needs to know.
#[derive(Clone)]
pub struct WriterOptions {
    /// The trail.
    pub trail: TrailName,
    /// The trail's name as the operator wrote it, such as `./dirdat/aa`.
    pub display_name: String,
    /// A file that would grow over this many bytes is followed by a new one. A single row may exceed it.
    pub file_bytes_max: u64,
    /// Who writes.
    pub producer: Producer,
    /// What is replicated.
    pub source: SourceIdentity,
    /// The time now, for file headers and records that belong to no transaction.
    pub clock: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    /// The write checkpoint: the trail must hold at least this much.
    pub expected: Option<Position>,
}

/// The one process that appends to a trail.
pub struct Writer {}

impl Writer {
    /// Opens the trail.
    pub fn open(storage: Arc<dyn Storage>, options: WriterOptions) -> Result<Writer, Error> {
        let _ = (storage, options);
        unimplemented!()
    }

    /// Identity of the last complete transaction that the trail holds.
    pub fn last_commit(&self) -> Option<&Commit> {
        unimplemented!()
    }

    /// Starts a transaction.
    pub fn begin(&mut self, commit: &Commit) -> Result<(), Error> {
        let _ = commit;
        unimplemented!()
    }

    /// Appends a change to the open transaction.
    pub fn append(&mut self, change: &Change) -> Result<(), Error> {
        let _ = change;
        unimplemented!()
    }

    /// Ends the open transaction. One without a change writes nothing.
    pub fn commit(&mut self) -> Result<Position, Error> {
        unimplemented!()
    }

    /// Gives the open transaction up: readers drop what they have seen of it.
    pub fn abandon(&mut self) -> Result<(), Error> {
        unimplemented!()
    }

    /// Makes everything durable, then lets readers go there.
    pub fn sync(&mut self) -> Result<Position, Error> {
        unimplemented!()
    }

    /// End of what was appended.
    pub fn position(&self) -> Position {
        unimplemented!()
    }

    /// Syncs, completes the file's header, and lets go of the trail.
    pub fn close(self) -> Result<Position, Error> {
        unimplemented!()
    }
}
