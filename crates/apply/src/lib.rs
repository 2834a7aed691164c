//! How transactions become rows in the target, in a safe order.

mod checkpoint_table;
mod grouping;
mod lag;
mod mapping;

pub use checkpoint_table::{Applied, RowError};
pub use grouping::{Command, GroupLimits, Grouping, OutOfPlace};
pub use lag::LagHistogram;
pub use mapping::{MappingError, plan};
