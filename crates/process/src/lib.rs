//! What a running group is, whatever it does.
//!
//! A *group* is one named Extract or Replicat, an OS process of its own that works in a [`Home`]. This crate holds what is
//! true of every group: its files and lock, its [`CheckpointFile`], its status, report and statistics, and what becomes of
//! a failure.
//!
//! # What holds
//! - A checkpoint that [`CheckpointFile::save`] has returned for survives a crash; a crash during the call leaves that
//!   checkpoint or the one before.
//! - Nothing here creates a checkpoint that an ADD command should have created: a lost one is never mistaken for a new
//!   group.
//! - A group is RUNNING exactly while an OS lock is held, so that the status is true even after `kill -9`.
//! - Every failure has a code, and every code has a page in `docs/messages`.
//!
//! The clock is read in one place, [`clock::now`]; everything else is told the time.
//!
//! Start reading at [`Home`] and [`Checkpoint`].

pub mod channel;
mod checkpoint;
pub mod clock;
mod code;
mod event_log;
mod failure;
mod group;
pub mod heartbeat;
mod home;
mod journal;
mod lock;
mod message;
mod purge;
mod report;
mod retry;
mod shutdown;
mod statistics;
mod statistics_parts;
mod status;
mod trail_place;
mod wallet;

pub use checkpoint::{
    BoundedCheckpoint, Checkpoint, CheckpointBody, CheckpointError, CheckpointFile, CheckpointRecord,
    ExtractCheckpoint, LeftOutTransaction, ReadCheckpoint, ReplicatCheckpoint, ReplicatMode, StopStatus,
    StreamCheckpoint, TrailInput, WriteCheckpoint,
};
pub use code::{Code, Level, message_reference};
pub use event_log::EventLog;
pub use failure::{Action, Failure};
pub use group::{GroupKind, GroupName, GroupNameError};
pub use home::{Home, HomeError};
pub use journal::Journal;
pub use lock::{GroupLock, Holder, HomeLock, LockError};
pub use message::Message;
pub use purge::{Purge, PurgeSchedule, Purged, trail_reader_groups, trail_readers};
pub use report::{Report, ReportHeader};
pub use retry::Retry;
pub use shutdown::Shutdown;
pub use statistics::{Counts, FilterReason, Statistics, TableIndex};
pub use statistics_parts::StatisticsParts;
pub use status::{GroupStatus, status};
pub use trail_place::TrailPlace;
pub use wallet::{KeyStatus, KeyVersion, MASTER_KEY_NAME, Wallet, WalletError};
