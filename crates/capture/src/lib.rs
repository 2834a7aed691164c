//! Which committed transactions go into the trail.

mod filter;
mod restart;
mod selection;

pub use filter::Filter;
pub use restart::{Gap, Restart, Verdict};
pub use selection::Selection;
