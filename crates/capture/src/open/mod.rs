//! Transactions that are still open at the source.
//!
//! A log reader that sees uncommitted work ([`OpenLogSource`](database::OpenLogSource)) tells chunks of many transactions,
//! some of which will never commit. The [`Store`] keeps them until their end is known; [`CommittedSource`] makes of both
//! what an Extract reads: committed transactions, whole and in commit order.
//!
//! # What holds
//! - Memory is bounded: what goes beyond the limit lies in spill files, 16 bytes larger per 256 KiB than in memory.
//! - A transaction is handed out one block at a time, whatever its size, and holds no other one up.
//! - Parts that were rolled back are dropped, as early as they can be, and never handed out.
//! - The shape of a table counts for the changes that were made under it: it comes with their commit and goes with their
//!   abort.
//! - Spill files are worth nothing after a crash: the source tells again what was open. They are removed at the next start.
//!
//! Start reading at [`Store`].

mod block;
mod committed;
mod error;
mod position;
mod prepared;
mod record;
mod source;
mod store;

pub(crate) use block::{BLOCK_HEADER_BYTES, check as check_block};
pub use committed::{CommittedTransaction, Done};
pub use error::Error;
pub use position::Place;
pub use source::{CommittedSource, CommittedSourceSetup};
pub use store::{OpenTransaction, Store, StoreOptions};
pub(crate) use store::{RestoredTransaction, Transaction};
