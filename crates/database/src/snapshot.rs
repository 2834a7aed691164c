//! The initial copy: rows as they stood at one moment of the source's history, written to a target table by table.
//!
//! Rows travel as bytes in a notation that source and target share; nobody between them reads the values.

use crate::Error;
use change::{Csn, TableDefinition, TableName, Timestamp};
use std::fmt;
use std::ops::ControlFlow;

/// A table whose changes a group captures, with its size.
#[derive(Clone, Debug)]
pub struct CapturedTable {
    /// Its shape, under the name that changes carry.
    pub definition: TableDefinition,
    /// About how many rows it has.
    pub rows: u64,
    /// About how many bytes it takes.
    pub bytes: u64,
}

/// A database that rows are copied from.
pub trait CopySource: Send + Sync {
    /// How rows are written as bytes. A target of the same notation takes them as they are.
    fn copy_notation(&self) -> &str;

    /// The tables whose changes capture of `group` holds already, in name order. Every later change of theirs comes in the
    /// group's stream.
    ///
    /// # Errors
    /// [`ErrorClass::Missing`](crate::ErrorClass::Missing) when the group is not registered.
    fn captured_tables(&self, group: &str) -> Result<Vec<CapturedTable>, Error>;

    /// Opens a snapshot with so many readers, all of which see the same moment.
    fn open_snapshot(&self, readers: usize) -> Result<Snapshot, Error>;
}

/// One moment of a source.
pub struct Snapshot {
    /// Its place in commit order: transactions with this or a lower CSN are in it whole, all others are not in it at all.
    pub csn: Csn,
    /// Connections that see it.
    pub readers: Vec<Box<dyn SnapshotReader>>,
}

/// Takes bytes of rows as they come, cut anywhere; breaking ends the reading.
pub type TakeBytes<'a> = dyn FnMut(&[u8]) -> ControlFlow<()> + 'a;

/// A connection that sees a snapshot.
pub trait SnapshotReader: Send {
    /// Gives all rows of a table, with the values of `columns` in this order, to `take`.
    ///
    /// # Errors
    /// Any [`Error`]. After one, or after `take` has broken off, the reader can't be used any more.
    fn read(&mut self, table: &TableName, columns: &[String], take: &mut TakeBytes<'_>) -> Result<(), Error>;
}

/// What the target knows of one source table's initial copy for one Replicat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyRow {
    /// Source table.
    pub source: TableName,
    /// The snapshot that its rows stem from, once they are copied: changes with this or a lower CSN are in them already.
    pub csn: Option<Csn>,
    /// Rows copied.
    pub rows: u64,
    /// Bytes copied.
    pub bytes: u64,
    /// When the copy was committed.
    pub finished: Option<Timestamp>,
}

/// Which Replicat a copy is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyRequest {
    /// The Replicat's name.
    pub group: String,
    /// Its key in the checkpoint table.
    pub group_key: i64,
    /// Its checkpoint table, beside which the table of copies lies.
    pub checkpoint_table: TableName,
}

/// A database that rows are copied to.
pub trait CopyTarget: Send + Sync {
    /// How rows are read from bytes.
    fn copy_notation(&self) -> &str;

    /// Adds a row for each of these source tables that has none, and returns the rows of all tables of the request's
    /// Replicat, in name order.
    fn register_copies(&self, request: &CopyRequest, sources: &[TableName]) -> Result<Vec<CopyRow>, Error>;

    /// Opens a connection that writes copies.
    fn open_writer(&self, request: &CopyRequest) -> Result<Box<dyn CopyWriter>, Error>;
}

/// A target table and the columns that are written, in the order in which their values come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyDestination {
    /// Target table.
    pub table: TableName,
    /// Its columns.
    pub columns: Vec<String>,
}

/// Gives the bytes of all rows for the destination with this number to the function.
pub type Fill<'a> = dyn FnMut(usize, &mut TakeBytes<'_>) -> Result<(), Error> + 'a;

/// Why a table was not copied.
#[derive(Debug)]
pub enum CopyError {
    /// The source failed.
    Source(Error),
    /// The target failed.
    Target(Error),
}

impl CopyError {
    /// The failure itself.
    pub fn into_error(self) -> Error {
        match self {
            CopyError::Source(error) | CopyError::Target(error) => error,
        }
    }
}

impl fmt::Display for CopyError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CopyError::Source(error) | CopyError::Target(error) => error.fmt(formatter),
        }
    }
}

/// A connection that writes copies.
///
/// # Guarantees
/// Rows of all destinations and the table's [`CopyRow`] become durable together or not at all. Neither triggers nor foreign
/// keys run. The transaction carries the mark by which our own capture of the same database leaves it out.
pub trait CopyWriter: Send {
    /// Copies the table `source` to its destinations, in one transaction with its row. `row` makes the row from the number of
    /// bytes of all destinations and of rows of the first.
    ///
    /// # Errors
    /// A destination that holds rows is refused, and so is a table whose row is gone or says that it was copied before.
    /// After an error of class [`ConnectionLost`](crate::ErrorClass::ConnectionLost) the copy may have been committed.
    fn copy(
        &mut self,
        source: &TableName,
        destinations: &[CopyDestination],
        fill: &mut Fill<'_>,
        row: &mut dyn FnMut(u64, u64) -> CopyRow,
    ) -> Result<CopyRow, CopyError>;
}
