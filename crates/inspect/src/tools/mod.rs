//! `drover trail`: tools for people who do not know Logdump.

mod export;
mod files;
mod follow;
mod graph;
mod json;
mod pick;
mod select;
mod show;
mod sql;
mod stat;
mod undo;
mod value;
mod verify;

pub use export::{ExportFormat, export};
pub use files::{TrailFiles, Work};
pub use follow::{Follow, follow};
pub use pick::pick;
pub use select::{Selection, SelectionWish, ValueTest};
pub use show::{Look, count, show};
pub use sql::Dialect;
pub use stat::{StatWish, stat};
pub use undo::undo;
pub use verify::{Verdict, verify};
