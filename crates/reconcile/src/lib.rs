//! Whether two databases hold the same rows, and how they come to.
//!
//! # Compare
//! [`compare`](compare()) asks each side for hashes that the database computes over its own rows, and for single rows only
//! where these differ. What is decided is decided by brains without a database: `pairing` says which tables belong
//! together, `merge` which rows do.
//!
//! The protocol with the databases is [`database::compare`].
//!
//! # Copy
//! [`copy`](copy()) fills a target from snapshots of the source, table by table, so that changes can go on from there. The
//! protocol is [`database::snapshot`].

mod compare;
mod copy;
mod error;
mod merge;
mod pairing;
mod report;
mod selection;
mod stream;

pub use compare::{CompareOptions, compare};
pub use copy::{CopyJob, CopyOutcome, CopyProgress, CopySetup, ProgressReport, copy};
pub use error::{Error, Side};
pub use report::{Comparison, KeyValue, RowDifference, RowVerdict, TableComparison, TableVerdict};
pub use selection::{Selection, SelectionRequest};
