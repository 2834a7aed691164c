//! Bounded Recovery: a restart reads at most two intervals of log, however long a transaction is open.
//!
//! At each BR checkpoint, every BRINTERVAL, transactions that are older than one interval are written into files. After a
//! restart these come from their files, and the log is read from the oldest transaction on that was younger then. A
//! transaction that is a second short of one interval at one checkpoint is nearly two intervals old at the next: that is
//! why twice the interval of log has to be kept.
//!
//! - [`Schedule`] decides, and touches neither clock nor disk.
//! - [`Bounded`] does what it decides on a [`Storage`].
//!
//! # What holds
//! - A BR checkpoint counts only when the trail and the Extract's checkpoint have come as far: what committed before it is in
//!   the trail.
//! - The files of the checkpoint before are removed only when the next one is durable. A crash at any place leaves one that is
//!   whole, or the one before.
//! - A file that is damaged or missing loses nothing: the log is then read from the oldest open transaction on, and the
//!   operator is told.
//!
//! Start reading at [`Schedule::plan`].

mod bytes;
mod command;
mod manifest;
pub(crate) mod object;
mod schedule;
mod storage;

pub use command::answer;
pub use schedule::{Plan, Schedule, Seen};
pub(crate) use storage::Restored;
pub use storage::{
    Bounded, BoundedOptions, BoundedStatus, INTERVAL_DEFAULT, INTERVAL_MAX, INTERVAL_MIN, mark_of, status,
};

#[expect(unused_imports, reason = "named in the documentation")]
use trail::storage::Storage;
