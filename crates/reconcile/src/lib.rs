//! Whether two databases hold the same rows.
//!
//! [`compare`](compare()) asks each side for hashes that the database computes over its own rows, and for single rows only
//! where these differ. What is decided is decided by brains without a database: `pairing` says which tables belong
//! together, `merge` which rows do.
//!
//! Start reading at [`compare`](compare()); the protocol with the databases is [`database::compare`].

mod compare;
mod error;
mod merge;
mod pairing;
mod report;
mod selection;
mod stream;

pub use compare::{CompareOptions, compare};
pub use error::{Error, Side};
pub use report::{Comparison, KeyValue, RowDifference, RowVerdict, TableComparison, TableVerdict};
pub use selection::{Selection, SelectionRequest};
