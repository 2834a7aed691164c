//! The error queue: transactions that the target did not take, parked in the target itself until somebody has put them right.
//!
//! A transaction is parked whole: all its calls with old, new and current values, where it came from, and the error. It is written in
//! the same target transaction as the position, so that it is either in the queue or still to come. What it touches is kept with
//! it, so that later transactions can be held back behind it, and so that many are executed in an order in which none overtakes
//! another on which it depends.
//!
//! The conflict log stands beside it. What was settled is noted in the transaction that settled it; what was not, after the
//! rollback.

mod execute;
mod held;
mod image;
mod parked;
mod tombstone;
mod writer;

pub use execute::{ExecuteError, ExecutedCall, Execution, Executor, Outcome as ExecuteOutcome};
pub(crate) use held::Held;
pub use image::ImageError;
pub use parked::{ParkedCall, ParkedTransaction, QueueReader};
pub(crate) use tombstone::key_of;
pub(crate) use writer::{Author, Call, ConflictNote, Parking, QueueWriter};
