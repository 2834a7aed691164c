//! One transaction of millions of rows, replicated while it is made.

use super::contender::{Applying, Contender};
use super::report::Findings;
use super::run::Bench;
use super::usage::Before;
use super::workload::{self, Workload};
use crate::bench::page;
use crate::program::Outcome;
use std::time::Instant;

const CONTENDERS: [Contender; 2] = [Contender::NativeStreaming, Contender::Drover(Applying::Grouped)];
/// Most memory that a process of ours may hold, in MiB.
const MEMORY_MAX: f64 = 128.0;

/// From the return of COMMIT until the last row is visible. It takes minutes, so each contender has one run.
pub fn measure(bench: &Bench<'_>, findings: &mut Findings) -> Outcome {
    let rows = if bench.extent.quick { 200_000 } else { 10_000_000 };
    let workload = Workload::large();
    let mut delays = Vec::new();
    for contender in CONTENDERS {
        let stage = bench.create(&workload)?;
        bench.fresh_target(&workload)?;
        contender.prepare(stage)?;
        let clusters = [stage.source, stage.target];
        let before = Before::of(clusters);
        let running = contender.start(stage)?;
        let marker = stage.look_for(1)?;
        let begun = Instant::now();
        let sql = format!("{}; INSERT INTO bench_marker VALUES (1)", workload::fill_large(rows));
        bench.source.run(stage.from, &sql)?;
        let committed = Instant::now();
        marker.wait()?;
        let (delay, made) = (committed.elapsed().as_secs_f64(), (committed - begun).as_secs_f64());
        let usage = before.until_now(clusters, running.extract.as_ref(), running.replicat.as_ref());
        running.stop()?;
        println!("{}: made in {made:.1} s, visible after {delay:.1} s, {usage:?}", contender.title());
        let wanted = workload.checksum(stage.source, stage.from)?;
        bench.prove(&workload, contender.title(), stage, &wanted)?;
        let peak = |most: f64| if most == 0.0 { String::new() } else { format!("{most:.0}") };
        findings.large.push(vec![
            format!("{}, {} rows", contender.title(), page::grouped(rows as f64)),
            format!("{made:.1}"),
            format!("{delay:.1}"),
            peak(usage.extract_peak),
            peak(usage.replicat_peak),
        ]);
        if contender != Contender::NativeStreaming {
            let most = usage.extract_peak.max(usage.replicat_peak);
            let what = "a large transaction: MiB of Extract or Replicat at most";
            findings.bar(what, format!("{most:.0}"), format!("< {MEMORY_MAX:.0}"), most < MEMORY_MAX);
        }
        stage.target.drop_database("bench_run")?;
        bench.remove(stage)?;
        delays.push(delay);
    }
    let ratio = delays[1] / delays[0];
    let what = "a large transaction: commit to visible, to native with streaming";
    findings.bar(what, format!("{ratio:.2}"), "<= 1".to_owned(), ratio <= 1.0);
    Ok(())
}
