//! Comparisons of databases in memory.

mod memory;
