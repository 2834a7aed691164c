//! What the catalog says of tables and types.

mod kind;
mod mark;
mod order;
mod table;

pub(crate) use kind::{Kinds, measures};
pub(crate) use mark::read_mark;
pub(crate) use order::read_order;
pub(crate) use table::{CatalogColumn, CatalogTable, Identity, OUR_COMMENT, Scope, read_tables};
