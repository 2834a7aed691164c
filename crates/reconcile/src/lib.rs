//! Whether two databases hold the same rows, and how they come to.
//!
//! # Compare
//! [`compare`](compare()) asks each side for hashes that the database computes over its own rows, and for single rows only
//! where these differ. What is decided is decided by brains without a database: `pairing` says which tables belong
//! together, `merge` which rows do.
//!
//! The protocol with the databases is [`database::compare`].
//!
//! # Differences, and rectifying them
//! [`differences`](differences()) writes the rows that only one of two sites has into two tables of the user's;
//! [`rectify`](rectify()) makes one site equal to the other as they say.
//!
//! # Copy
//! [`copy`](copy()) fills a target from snapshots of the source, table by table, so that changes can go on from there. The
//! protocol is [`database::snapshot`].

mod compare;
mod copy;
mod differences;
mod error;
mod merge;
mod missing_tables;
mod pairing;
mod rectify;
mod report;
mod selection;
mod stream;
mod translated;

pub use compare::{CompareOptions, compare};
pub use copy::{CopyJob, CopyOutcome, CopyProgress, CopySetup, ProgressReport, copy};
pub use differences::{DifferencesOptions, DifferencesSites, FoundDifferences, SharedTableRequest, differences};
pub use error::{Error, Side};
pub use rectify::{OpenSide, Rectified, RectifySites, rectify};
pub use report::{Comparison, KeyValue, RowDifference, RowVerdict, TableComparison, TableVerdict};
pub use selection::{Selection, SelectionRequest};
pub use translated::translated;
