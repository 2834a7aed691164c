//! How SQLite does it: capture by triggers inside the user's own transaction, apply with the checkpoint row in the same
//! transaction.
//!
//! Start reading at [`open`], then at the essays of `trigger` and `source`.

mod catalog;
mod checkpoint;
mod compare;
mod connect;
mod engine;
mod error;
mod error_queue;
mod file_identity;
mod heartbeat;
mod name;
mod remote;
mod session;
mod source;
mod token;
mod trigger;
mod value;

pub use checkpoint::checkpoint_script;
pub use compare::open_comparison;
pub use engine::open;
