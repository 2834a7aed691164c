//! Benchmarks whose results are kept in docs/benchmarks.md.

pub mod distribution;
mod machine;
mod page;
mod pipeline;
pub mod postgres;
pub mod sqlite;
pub mod trail;

/// How often each figure is measured; the page shows the median.
const ROUNDS: usize = 3;

/// The median of an odd number of figures.
fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}
