//! Which committed transactions go into the trail.
//!
//! An [`Extract`] reads a [`LogSource`](database::LogSource) and appends what the operator's TABLE statements choose to a
//! [`Writer`](trail::Writer).
//!
//! # What holds
//! - The source is told that it may forget only what is synced in the trail *and* named by a durable checkpoint.
//! - After a crash the source replays from the checkpoint; [`Restart`] leaves out what the trail holds, so that each
//!   transaction is in it once.
//! - Memory holds one batch of events, whatever the size of a transaction.
//!
//! Start reading at [`Extract::step`].

pub mod bounded;
mod describe;
mod error;
mod extract;
mod failure;
mod filter;
mod heartbeat;
mod left_out;
mod log_kept;
mod long;
pub mod open;
mod partition;
mod reading;
mod restart;
mod selection;
pub mod transactions;

pub use error::Error;
pub use extract::{Extract, ExtractSetup, Force, LeaveOut, Pace, Phase, Progress, Step};
pub use filter::Filter;
pub use log_kept::{LogKeptLevel, LogKeptLimits, LogKeptWatch};
pub use long::LongTransactions;
pub use partition::{PartitionError, PartitionedTables};
pub use reading::Reading;
pub use restart::{Gap, Restart, Verdict};
pub use selection::Selection;
