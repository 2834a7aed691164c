//! How changes rest on disk, and come back after a crash.
//!
//! A *trail* is a numbered run of files in one directory: `aa000000000`, `aa000000001`, and so on. One process appends
//! committed transactions to it, any number of others read them, each at its own pace. The layout follows the
//! GoldenGate trail as far as it is publicly known and is written down byte by byte in `docs/formats/trail.md`.
//!
//! # What holds
//! - A reader never passes the *safe position* that the writer publishes after its sync, so that nobody downstream acts on
//!   a change that a power failure could still take back.
//! - Every record carries a checksum and its length at both ends. A torn tail is cut at the next start; damage anywhere else
//!   is an error that names the file and the byte.
//! - A transaction that a crash left without its end is announced by a restart marker, and is never completed by records
//!   that follow.
//!
//! The crate knows bytes. It opens no database, no socket, and reads no clock: time comes in through
//! [`WriterOptions::clock`].
//!
//! Start reading at [`Writer`] and [`Reader`]; all access to disk goes through [`storage`].

pub mod cipher;
pub mod copy;
mod cover;
pub mod definitions_file;
mod error;
pub mod format;
mod needed_keys;
pub mod purge;
mod reader;
mod recovery;
mod safe;
mod scan;
mod sequence;
pub mod storage;
mod writer;

pub use cover::{Cover, Stuck, Uncovered, Uncoverer};
pub use error::{Damage, Error};
pub use format::layout::{Format, RecoveryMode, UpdateImages, level_of_release};
pub use format::partition::PartitionName;
pub use format::user_token::UserToken;
pub use needed_keys::{NeededKey, keys_of_files};
pub use reader::{Entry, FileReader, Reader, Record, Start, TransactionPlace};
pub use safe::published;
pub use sequence::{Position, TrailName};
pub use writer::{ChangeDetails, Machine, Producer, SourceIdentity, Synced, Writer, WriterOptions};
