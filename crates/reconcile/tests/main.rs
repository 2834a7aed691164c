//! Comparisons and copies over databases in memory.

mod copy;
mod memory;
