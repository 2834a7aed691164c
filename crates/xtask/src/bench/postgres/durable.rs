//! Small transactions where the subscription's commits are durable, too; grouped, and one to one.

use super::contender::{Applying, Contender};
use super::median_of;
use super::report::Findings;
use super::run::{Bench, CatchUp};
use super::workload::Workload;
use crate::bench::page;
use crate::program::Outcome;

const CONTENDERS: [Contender; 3] =
    [Contender::NativeDurable, Contender::Drover(Applying::Grouped), Contender::Drover(Applying::Singly)];

/// Drains one backlog by each of them.
pub fn measure(bench: &Bench<'_>, findings: &mut Findings) -> Outcome {
    let workload = Workload::durable(bench.extent.quick);
    let stage = bench.create(&workload)?;
    let rows = workload.write(bench.source, stage.from, bench.folder)? as f64;
    bench.source.run("postgres", "CHECKPOINT")?;
    let wanted = workload.checksum(bench.source, stage.from)?;
    let mut runs: [Vec<CatchUp>; 3] = Default::default();
    for round in 1..=bench.extent.rounds {
        for (contender, runs) in CONTENDERS.into_iter().zip(&mut runs) {
            let run = bench.catch_up(&workload, contender, stage, &wanted)?;
            println!("round {round}: {:<18} {:>7.0} rows/s, {:?}", contender.title(), rows / run.seconds, run.usage);
            runs.push(run);
        }
    }
    bench.remove(stage)?;
    let rates = runs.each_ref().map(|runs| rows / median_of(runs, |run| run.seconds));
    for (place, (contender, rate)) in CONTENDERS.into_iter().zip(rates).enumerate() {
        let ratio = rate / rates[0];
        findings.durable.push(vec![contender.title().to_owned(), page::grouped(rate), format!("{ratio:.2}")]);
        let (what, asked) = match place {
            0 => continue,
            1 => ("small transactions: to native with durable commits", 6.0),
            _ => ("small transactions one to one: to native with durable commits", 1.8),
        };
        findings.bar(what, format!("{ratio:.2}"), format!(">= {asked:.1}"), ratio >= asked);
    }
    Ok(())
}
