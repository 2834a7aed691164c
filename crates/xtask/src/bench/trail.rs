//! `cargo x bench trail`: how fast rows become trail bytes and come back, on one core.

use super::{ROUNDS, machine, median, page};
use crate::program::{self, Outcome, cargo};
use serde_json::Value;

/// Runs the trail crate's own throughput example and writes the medians down.
pub fn run() -> Outcome {
    let words = ["run", "--quiet", "--release", "--package", "trail", "--example", "throughput"];
    let mut rounds = Vec::new();
    for round in 1..=ROUNDS {
        let text = program::output(&mut cargo(&words))?;
        println!("round {round} of {ROUNDS}: {}", text.trim());
        rounds.push(serde_json::from_str(&text).map_err(|cause| format!("the example wrote no JSON: {cause}"))?);
    }
    page::write("trail", &report(&rounds)?)
}

fn report(rounds: &[Value]) -> Result<String, String> {
    let of = |name: &str| {
        let figures = rounds.iter().map(|round| round[name].as_f64());
        let figures: Option<Vec<f64>> = figures.collect();
        figures.map(median).ok_or_else(|| format!("the example reported no {name}"))
    };
    let row = |name: &str, rate: f64, bytes: f64| vec![name.to_owned(), page::grouped(rate), format!("{bytes:.2}")];
    let rows = [
        row("encode", of("encode_rows_s")?, of("encode_gb_s")?),
        row("decode", of("decode_rows_s")?, of("decode_gb_s")?),
    ];
    Ok(format!(
        "Made by `cargo x bench trail`; median of {ROUNDS} rounds.\n{}. {:.0} bytes of trail a row.\n\n{}",
        machine::description(),
        of("bytes")? / of("rows")?,
        page::table(&["one core", "rows/s", "GB/s"], &rows),
    ))
}
