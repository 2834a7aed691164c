//! `cargo x bench postgres`: Drover beside native logical replication and pglogical, on two clusters that it starts.
//!
//! Contenders take turns within a workload and start from copies of one slot, so that both replicate the very same log into
//! copies of the very same database. After each run all rows of both ends are hashed; a run whose ends differ is an error.

mod capture;
mod cluster;
mod contender;
mod drain;
mod durable;
mod hot;
mod large;
mod latency;
mod marker;
mod open;
mod outage;
mod pglogical;
mod report;
mod run;
mod usage;
mod workload;

use super::{ROUNDS, median};
use crate::program::{self, Outcome, cargo};
use cluster::{Cluster, Folder};
use report::Findings;
use run::Bench;
use std::time::Instant;

/// How much is measured.
struct Extent {
    quick: bool,
    rounds: usize,
    seconds: u64,
    /// Parts by name; all when empty.
    parts: Vec<String>,
}

impl Extent {
    fn has(&self, part: &str) -> bool {
        self.parts.is_empty() || self.parts.iter().any(|wanted| wanted == part)
    }
}

type Part = fn(&Bench<'_>, &mut Findings) -> Outcome;

/// The parts beside the backlogs, by name.
const PARTS: [(&str, Part); 9] = [
    ("durable", durable::measure),
    ("pglogical", pglogical::measure),
    ("hot", hot::measure),
    ("large", large::measure),
    ("spill", open::spill),
    ("savepoints", open::savepoints),
    ("restart", open::restart),
    ("latency", latency::steady),
    ("outage", outage::measure),
];

/// Measures and writes the results down. With `DROVER_BENCH_PARTS=a,c,latency` only those parts run, and the page keeps the rows of the
/// others; with `DROVER_BENCH_ROUNDS=1` a part is measured once, and the page stays as it is.
pub fn run() -> Outcome {
    let parts = parts()?;
    let rounds = std::env::var("DROVER_BENCH_ROUNDS").ok().map(|rounds| rounds.parse::<usize>());
    match rounds {
        None => measure(&Extent { quick: false, rounds: ROUNDS, seconds: 10, parts }, true),
        Some(Ok(rounds)) if rounds % 2 == 1 => measure(&Extent { quick: false, rounds, seconds: 10, parts }, false),
        Some(_) => Err("DROVER_BENCH_ROUNDS is an odd number".to_owned()),
    }
}

/// Runs all of it, or the parts that are named, once with small workloads, to see that it works. The page stays as it is.
pub fn quick() -> Outcome {
    measure(&Extent { quick: true, rounds: 1, seconds: 3, parts: parts()? }, false)
}

/// What `DROVER_BENCH_PARTS` names.
fn parts() -> Result<Vec<String>, String> {
    let parts = std::env::var("DROVER_BENCH_PARTS").unwrap_or_default();
    let parts: Vec<String> = parts.split(',').filter(|part| !part.is_empty()).map(str::to_owned).collect();
    let workloads = workload::all(true);
    let known: Vec<&str> =
        workloads.iter().map(|workload| workload.name).chain(PARTS.iter().map(|(name, _)| *name)).collect();
    match parts.iter().find(|part| !known.contains(&part.as_str())) {
        Some(wrong) => Err(format!("there is no part {wrong}, only {}", known.join(", "))),
        None => Ok(parts),
    }
}

fn measure(extent: &Extent, is_kept: bool) -> Outcome {
    let begun = Instant::now();
    program::run(&mut cargo(&["build", "--release", "--package", "drover"]))?;
    let folder = Folder::create()?;
    let source = Cluster::start(&folder, "source")?;
    let target = Cluster::start(&folder, "target")?;
    let mut findings = Findings::default();
    let bench = Bench { extent, source: &source, target: &target, folder: folder.path() };
    for workload in workload::all(extent.quick) {
        if extent.has(workload.name) {
            drain::measure(&bench, workload, &mut findings)?;
        }
    }
    for (name, part) in PARTS {
        if extent.has(name) {
            println!("\n{name}");
            part(&bench, &mut findings)?;
        }
    }
    let introduction = report::introduction(extent.rounds, &source)?;
    let tables = report::tables(findings);
    println!("\n{introduction}\n\n{}\n{:.0} s in all", super::page::text(&tables), begun.elapsed().as_secs_f64());
    if is_kept { super::page::merge("postgres", &introduction, &tables) } else { Ok(()) }
}

fn median_of<T>(runs: &[T], figure: impl Fn(&T) -> f64) -> f64 {
    median(runs.iter().map(figure).collect())
}
