//! Trails out of trails: records go from one to another as the bytes that they are.
//!
//! A [`CopyReader`] hands out whole records in batches, a [`CopyWriter`] appends them to another trail. Neither decodes a row,
//! but for tables that the rules sign ([`CopyRules::signs`]), so data that is encrypted stays so and needs no key, and the
//! format of the input is that of the output. What lies between the two, memory or a network, is of no concern here.
//!
//! The definitions that records refer to by number come with each file of the input; a file of the output holds those of one
//! file of the input, under the same numbers. So a file of the output ends wherever one of the input does, and may end
//! earlier.

mod reader;
mod rules;
mod signing;
mod tally;
mod writer;

pub use reader::{CopyReader, CopyStart};
pub use rules::{CopiedRecord, CopyEverything, CopyRules, Signed};
pub use tally::{TableTally, Tally};
pub use writer::{CopyOptions, CopyWriter};

use crate::Position;
use bytes::Bytes;
use change::Commit;

/// What a [`CopyReader`] hands out and a [`CopyWriter`] takes.
#[derive(Clone, Debug, PartialEq)]
pub struct CopyBatch {
    /// Where in the input it starts.
    pub start: Position,
    /// Where in the input it ends.
    pub end: Position,
    /// What it holds.
    pub content: CopyContent,
    /// The end of the last transaction in it.
    pub boundary: Option<Boundary>,
    /// Changes in it.
    pub changes: u64,
}

/// What a batch holds.
#[derive(Clone, Debug, PartialEq)]
pub enum CopyContent {
    /// The records that follow are of this file of the input.
    File {
        /// Its header record.
        header: Bytes,
        /// The records before `start` that define what others refer to by number.
        definitions: Bytes,
    },
    /// Whole records, one after another; none when the rules leave out all of them.
    Records(Vec<Bytes>),
}

/// The end of a transaction in the input: from here a copy may go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Boundary {
    /// Where the record after it starts.
    pub position: Position,
    /// The transaction.
    pub commit: Commit,
}
