//! How transactions become rows in the target, in a safe order.
//!
//! A [`Replicat`] reads a trail and writes to a [`Session`](database::Session).
//!
//! # What holds
//! - The position is saved in the same target transaction as the rows; after a restart, transactions that the row shows as
//!   applied are left out.
//! - A source transaction is never split over target transactions. Small ones share one ([`Grouping`]); a large one is
//!   streamed in chunks into one of its own, so that memory is bounded whatever its size.
//! - A row that the target does not take stops the group with its name, its place and what to do; everything before it is
//!   applied and durable, nothing behind it is.
//! - Changes that the initial copy of their table holds already are left out, by CSN; before the copy is finished nothing is
//!   applied.
//! - A failure that may pass is rolled back and tried again from the checkpoint row: there is no other way back.
//!
//! Start reading at [`Replicat::step`].

mod any;
mod checkpoint_table;
pub mod conflict;
mod conflict_counts;
mod copies;
mod definition;
mod error;
pub mod error_queue;
mod failure;
mod grouping;
mod handling;
mod heartbeat;
mod judge;
mod lag;
mod mapping;
mod parallel;
mod plans;
mod replicat;
#[cfg(test)]
mod sample_rows;
pub mod schedule;
mod start;
mod statistics;
mod thread_marks;
mod watermark;

pub use any::AnyReplicat;
pub use checkpoint_table::{Applied, RowError};
pub use conflict_counts::{ConflictCount, ConflictNotice, MethodCounts};
pub use error::{Error, RejectedChange};
pub use grouping::{Command, GroupLimits, Grouping, OutOfPlace};
pub use handling::{Discard, HandlingError};
pub use heartbeat::HeartbeatTarget;
pub use judge::ParkedNotice;
pub use lag::LagHistogram;
pub use mapping::{MappingError, plan};
pub use parallel::{AtWork, ConnectApplier, Crew, ParallelReplicat, ParallelSetup, SideBySide};
pub use replicat::{Pace, Progress, Replicat, ReplicatSetup, Step};
pub use start::{StartFrom, StartOptions, WrongCsn};
pub use watermark::Watermarks;
