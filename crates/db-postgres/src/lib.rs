//! How PostgreSQL does it: capture, snapshot, session, catalog and types, in the same doors as the other houses.
//!
//! # Why a client of our own
//! Capture needs replication mode with CopyBoth, and apply needs pipelines with one Sync per batch. The existing clients
//! have one or the other, and none has both over blocking sockets. [`wire`] is small because `postgres-protocol` encodes
//! messages and does SCRAM.
//!
//! Start reading at [`open`]; below it, at [`wire::Connection`] and [`pgoutput`].

mod catalog;
mod checkpoint;
mod compare;
mod definition;
mod engine;
mod error_queue;
mod heartbeat;
mod name;
mod open_work;
pub mod pgoutput;
mod remote;
mod row_logging;
mod session;
mod snapshot;
mod source;
pub mod wire;

pub use checkpoint::checkpoint_script;
pub use compare::open_comparison;
pub use engine::open;
pub use snapshot::{open_copy_source, open_copy_target};
