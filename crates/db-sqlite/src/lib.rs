//! How SQLite does it: capture by triggers inside the user's own transaction, apply with the checkpoint row in the same
//! transaction.
//!
//! Start reading at [`open`].

mod engine;

pub use engine::open;
