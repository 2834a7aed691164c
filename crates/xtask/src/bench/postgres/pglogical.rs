//! The backlogs by pglogical, in servers of its own: it has to be loaded when they start.

use super::cluster::{Cluster, Folder};
use super::contender::{Applying, Contender};
use super::report::Findings;
use super::run::{Bench, CatchUp};
use super::{median_of, workload};
use crate::bench::page;
use crate::program::Outcome;

const CONTENDERS: [Contender; 2] = [Contender::Pglogical, Contender::Drover(Applying::Grouped)];

/// Drains each backlog by pglogical and by Drover.
pub fn measure(bench: &Bench<'_>, findings: &mut Findings) -> Outcome {
    let Some(folder) = Folder::create_with_pglogical()? else {
        println!("pglogical is not installed");
        return Ok(());
    };
    let source = Cluster::start(&folder, "source")?;
    let target = Cluster::start(&folder, "target")?;
    let bench = Bench { extent: bench.extent, source: &source, target: &target, folder: folder.path() };
    for workload in workload::all(bench.extent.quick) {
        println!("\n{}", workload.title);
        let stage = bench.create(&workload)?;
        let rows = workload.write(bench.source, stage.from, bench.folder)? as f64;
        bench.source.run("postgres", "CHECKPOINT")?;
        let wanted = workload.checksum(bench.source, stage.from)?;
        let mut runs: [Vec<CatchUp>; 2] = Default::default();
        for round in 1..=bench.extent.rounds {
            for (contender, runs) in CONTENDERS.into_iter().zip(&mut runs) {
                let run = bench.catch_up(&workload, contender, stage, &wanted)?;
                println!("round {round}: {:<9} {:>7.0} rows/s, {:?}", contender.title(), rows / run.seconds, run.usage);
                runs.push(run);
            }
        }
        bench.remove(stage)?;
        let [pglogical, drover] = runs.each_ref().map(|runs| rows / median_of(runs, |run| run.seconds));
        let (title, ratio) = (workload.title, drover / pglogical);
        findings.bar(&format!("{title}: to pglogical"), format!("{ratio:.2}"), ">= 1".to_owned(), ratio >= 1.0);
        let row = [title.to_owned(), page::grouped(pglogical), page::grouped(drover), format!("{ratio:.2}")];
        findings.pglogical.push(row.to_vec());
    }
    Ok(())
}
