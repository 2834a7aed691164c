//! `cargo x bench distribution`: what a path between two homes carries, beside what the same TLS library moves bare.

use super::{ROUNDS, machine, median, page};
use crate::program::{self, Outcome, cargo};
use serde_json::Value;

/// Least share of the bare library's rate, most milliseconds of a hop, and least share of the near rate that a far path has.
const BARS: [f64; 3] = [0.7, 2.0, 0.5];

/// Runs the distribution crate's own example and writes the medians down.
pub fn run() -> Outcome {
    page::write("distribution", &measured(ROUNDS, "400")?)
}

/// The same over little data, once; only shows that it works.
pub fn quick() -> Outcome {
    println!("\n{}", measured(1, "20")?);
    Ok(())
}

fn measured(rounds: usize, megabytes: &str) -> Result<String, String> {
    let words = ["run", "--quiet", "--release", "--package", "distribution", "--example", "path", "--", megabytes];
    let mut found: Vec<Value> = Vec::new();
    for round in 1..=rounds {
        let text = program::output(&mut cargo(&words))?;
        println!("round {round}: {}", text.trim());
        found.push(serde_json::from_str(&text).map_err(|cause| format!("the example wrote no JSON: {cause}"))?);
    }
    let of = |name: &str| {
        let figures: Option<Vec<f64>> = found.iter().map(|round| round[name].as_f64()).collect();
        figures.map(median).ok_or_else(|| format!("the example reported no {name}"))
    };
    let (bare, near, far) = (of("bare_mb_s")?, of("path_mb_s")?, of("far_mb_s")?);
    let row = |what: &str, figure: String, bar: String, holds: bool| {
        vec![what.to_owned(), figure, bar, if holds { "yes" } else { "no" }.to_owned()]
    };
    let none = String::new;
    let ([share, most, far_share], hop) = (BARS, of("hop_p50_ms")?);
    let mut rows = vec![
        row("bytes through TLS alone, MB/s", format!("{bare:.0}"), none(), true),
        row("a trail through a path, synced at the target, MB/s", format!("{near:.0}"), none(), true),
        row("the same with a round trip of 50 ms, MB/s", format!("{far:.0}"), none(), true),
        row("one hop, 99th percentile, ms", format!("{:.2}", of("hop_p99_ms")?), none(), true),
    ];
    rows.iter_mut().for_each(|row| row[3].clear());
    rows.push(row("path to bare TLS", format!("{:.2}", near / bare), format!(">= {share}"), near / bare >= share));
    rows.push(row("one hop, median, ms", format!("{hop:.2}"), format!("< {most}"), hop < most));
    rows.push(row("far to near", format!("{:.2}", far / near), format!(">= {far_share}"), far / near >= far_share));
    Ok(format!(
        "Made by `cargo x bench distribution`; median of {rounds} rounds.\n{}.\n\n{}",
        machine::description(),
        page::table(&["a path over loopback", "measured", "bar", "holds"], &rows)
    ))
}
