//! Capture by triggers: what is installed in the user's database, and how it is kept in order.
//!
//! # What is installed
//! Triggers on each captured table copy every change, inside the transaction that makes it, into one table of the same
//! database. It vanishes with that transaction, statement or savepoint, whoever the writer is, and since SQLite has one
//! writer, its row numbers are commit order.
//!
//! ```text
//! drover_installation (incarnation, …)          which installation this is; a copy of the database has the same
//! drover_group        (name, released, …)       one row per Extract: it needs nothing before `released`
//! drover_table        (id, name, …)             one row per table and shape; the triggers write the id
//! drover_column       (table_id, place, …)      columns of each shape
//! drover_change       (seq, table_id, kind, at, c0, c1, …)   the changes, see [`Kind`]
//! drover_pending      (n, table_id, behind, identity, moving, c0, …)   rows that a running statement may be about to replace
//! ```
//!
//! The columns `c…` have no declared type, so that every value is stored as it came. An update holds the old row and the
//! new row one behind the other. What does not fit into [`WIDTH_MAX`] columns goes on in the following rows.
//!
//! # Replaced rows
//! `INSERT OR REPLACE` removes rows that are in the way without firing their delete triggers. A trigger *before* the write
//! notes the rows that share a unique value with the new one; the trigger *after* it records as deleted those that are
//! gone. See [`note`].
//!
//! # Order of triggers
//! SQLite fires the newest trigger of a table first. Ours must be the newest: a trigger of the user's that writes rows
//! itself must not be recorded before its cause.

mod note;
mod object;
mod reconcile;
mod registration;
mod registry;
mod text;

pub(crate) use object::{
    Kind, WIDTH_MAX, change_columns, forget_pending, incarnation, is_installed, mark, note_own_change,
};
pub(crate) use reconcile::{Finding, Known, compare, repair};
pub(crate) use registration::{is_registered, register, unregister};
pub(crate) use registry::{Registered, is_reload_wanted, registered_tables};
