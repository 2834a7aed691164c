//! Reading the change table.
//!
//! # Windows
//! Triggers see statements but not transaction boundaries. A reader sees whole transactions only, so everything between the
//! last look and this one, a *window*, is whole transactions too, neighbouring ones merged: it is told as one. Its rows
//! never change once they are committed, so they are read in short read transactions and nobody is kept waiting; only where
//! a table is sent again does one snapshot stay open.
//!
//! # After a restart
//! Where the boundaries were is not written down anywhere but in our own trail, so a replay may merge otherwise than the
//! first time. That is why [`resume_after`](database::LogSource::resume_after) goes on right behind the trail's last
//! transaction.
//!
//! # Checks
//! Before anything is told, the row at the last position must still be the same, rows must follow each other without a gap,
//! and the database's own log is synced: with `synchronous=NORMAL` a committed transaction may vanish in a power loss.

mod change_row;
mod durable;
mod place;
mod release;
mod reload;
mod shape;
mod stream;
mod wake;
mod window;

pub(crate) use place::Place;
pub(crate) use stream::SqliteSource;
