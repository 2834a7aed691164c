//! Asking a running group.
//!
//! A group listens at a socket in the home, `dirtmp/E1.sock`, which only its own user may open. Who asks writes one line, a
//! [`Request`] in JSON, and gets one line, an [`Answer`]. The group's loop answers between two steps, so that what is told
//! is what holds there; nothing is answered from another thread while the loop works.
//!
//! # What holds
//! - The socket is worth nothing by itself: whether a group runs is told by its [`GroupLock`](crate::GroupLock).
//! - A client that is slow or silent holds the loop up for `WRITE_LIMIT` at most, and other clients for `READ_LIMIT`.
//! - Every request gets an answer, if only that the group has ended.

mod address;
mod client;
mod listener;
mod request;

pub use client::{ChannelError, ask};
pub use listener::{CommandChannel, Pending};
pub use request::{Answer, BoundedRequest, OpenTransactionsRequest, Request, StatisticsPart, StatisticsRequest};

use std::time::Duration;

/// Longest line that is taken in, in bytes: no request comes near it.
const REQUEST_BYTES_MAX: u64 = 64 * 1024;
/// Longest answer that is taken in, in bytes.
const ANSWER_BYTES_MAX: u64 = 64 << 20;
/// How long a client may take to send its line.
const READ_LIMIT: Duration = Duration::from_secs(2);
/// How long it may take to receive its answer.
const WRITE_LIMIT: Duration = Duration::from_secs(2);
/// Requests that may wait for the loop. A person asks one at a time.
const WAITING_MAX: usize = 16;
