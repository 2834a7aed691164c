//! The messages of the output plugin pgoutput, protocol versions 1 to 4.
//!
//! Layouts are those of the server's documentation, chapter *Logical Replication Message Formats*. Nothing is copied: a
//! [`Tuple`] is a view of the receive buffer, from which a [`Row`](change::Row) takes its values as slices.
//!
//! The decoder never panics, whatever the bytes: it returns [`Error`].
//!
//! Start reading at [`Message`].
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::arithmetic_side_effects)]

mod decode;
mod message;
mod tuple;

pub use decode::{Error, decode};
pub use message::{Message, OldImage, Prepared, Relation, RelationColumn, ReplicaIdentity};
pub use tuple::{Cell, Tuple};
