//! `cargo x bench postgres`: Drover beside native logical replication, on two clusters that it starts.
//!
//! Contenders take turns within a workload and start from copies of one slot, so that both replicate the very same log into
//! copies of the very same database. After each run all rows of both ends are hashed; a run whose ends differ is an error.

mod capture;
mod cluster;
mod contender;
mod latency;
mod report;
mod usage;
mod workload;

use super::ROUNDS;
use crate::program::{self, Outcome, cargo};
use capture::Capture;
use cluster::{Cluster, Folder};
use contender::{Contender, Stage};
use latency::Latency;
use std::path::Path;
use std::process::Command;
use std::time::Instant;
use usage::{Before, Usage};
use workload::Workload;

/// In the order in which they run.
const CONTENDERS: [Contender; 2] = [Contender::Native, Contender::Drover];

/// How much is measured.
struct Extent {
    quick: bool,
    rounds: usize,
    seconds: u64,
    /// Parts by name, from `DROVER_BENCH_PARTS`; all when empty.
    parts: Vec<String>,
}

impl Extent {
    fn has(&self, part: &str) -> bool {
        self.parts.is_empty() || self.parts.iter().any(|wanted| wanted == part)
    }
}

/// One drain of a backlog.
struct CatchUp {
    seconds: f64,
    usage: Usage,
}

/// Everything that was measured of a workload, per contender and round.
struct Measured {
    workload: Workload,
    rows: u64,
    catch_ups: [Vec<CatchUp>; 2],
    captures: [Vec<Capture>; 2],
    /// Share of a core that an Extract uses that has caught up, in percent.
    idle: f64,
}

/// Measures and writes the results down. With `DROVER_BENCH_PARTS=a,c,latency` only those parts run, and the page stays as it is.
pub fn run() -> Outcome {
    let parts = std::env::var("DROVER_BENCH_PARTS").unwrap_or_default();
    let parts: Vec<String> = parts.split(',').filter(|part| !part.is_empty()).map(str::to_owned).collect();
    measure(&Extent { quick: false, rounds: ROUNDS, seconds: 10, parts })
}

/// Runs all of it once with small workloads, to see that it works. The page stays as it is.
pub fn quick() -> Outcome {
    measure(&Extent { quick: true, rounds: 1, seconds: 3, parts: Vec::new() })
}

fn measure(extent: &Extent) -> Outcome {
    let begun = Instant::now();
    program::run(&mut cargo(&["build", "--release", "--package", "drover"]))?;
    let folder = Folder::create()?;
    let source = Cluster::start(&folder, "source")?;
    let target = Cluster::start(&folder, "target")?;
    let mut measured = Vec::new();
    for workload in workload::all(extent.quick) {
        if extent.has(workload.name) {
            measured.push(drain(workload, extent, &source, &target, folder.path())?);
        }
    }
    let mut latencies: [Vec<Latency>; 2] = Default::default();
    if extent.has("latency") {
        steady(extent, &source, &target, folder.path(), &mut latencies)?;
    }
    let report = report::text(&measured, &latencies, &source)?;
    println!("\n{report}\n{:.0} s in all", begun.elapsed().as_secs_f64());
    if extent.quick || !extent.parts.is_empty() {
        return Ok(());
    }
    super::page::write("postgres", &report)
}

/// Writes the backlog of a workload and lets each contender drain it.
fn drain(
    workload: Workload,
    extent: &Extent,
    source: &Cluster<'_>,
    target: &Cluster<'_>,
    folder: &Path,
) -> Result<Measured, String> {
    println!("\n{}", workload.title);
    let (from, base) = ("bench_source", "bench_base");
    workload.create(source, from)?;
    workload.create(target, base)?;
    let registered = Stage { source, target, from, to: base, folder };
    CONTENDERS.iter().try_for_each(|contender| contender.register(registered))?;
    let rows = workload.write(source, from, folder)?;
    source.run("postgres", "CHECKPOINT")?;
    let end = source.run(from, "SELECT pg_current_wal_insert_lsn()")?;
    let wanted = workload.checksum(source, from)?;
    let mut measured =
        Measured { workload, rows, catch_ups: Default::default(), captures: Default::default(), idle: 0.0 };
    let stage = Stage { to: "bench_run", ..registered };
    for round in 1..=extent.rounds {
        for (place, contender) in CONTENDERS.into_iter().enumerate() {
            target.run("postgres", "CREATE DATABASE bench_run TEMPLATE bench_base STRATEGY file_copy")?;
            measured.workload.warm(target, stage.to)?;
            contender.prepare(stage)?;
            let caught_up = catch_up(contender, stage)?;
            if measured.workload.checksum(target, stage.to)? != wanted {
                return Err(format!("{}: source and target differ", contender.title()));
            }
            target.run("postgres", "DROP DATABASE bench_run WITH (FORCE)")?;
            contender.prepare_capture(stage)?;
            let capture = capture::measure(contender, stage, &end)?;
            println!(
                "round {round}: {:<6} {:>7.0} rows/s, capture alone {:>7.0} rows/s, {:?}",
                contender.title(),
                rows as f64 / caught_up.seconds,
                rows as f64 / capture.seconds,
                caught_up.usage,
            );
            measured.catch_ups[place].push(caught_up);
            measured.captures[place].push(capture);
        }
    }
    // The last round has left an Extract that has caught up.
    measured.idle = capture::idle(stage, extent.seconds)?;
    CONTENDERS.iter().try_for_each(|contender| contender.forget(registered))?;
    source.run("postgres", &format!("DROP DATABASE {from} WITH (FORCE)"))?;
    target.run("postgres", &format!("DROP DATABASE {base} WITH (FORCE)"))?;
    Ok(measured)
}

/// Lets a contender drain the backlog that it was prepared for.
fn catch_up(contender: Contender, stage: Stage<'_>) -> Result<CatchUp, String> {
    let clusters = [stage.source, stage.target];
    let mut marker = await_marker(stage.target, stage.to);
    let mut marker = marker.spawn().map_err(|cause| format!("could not start psql: {cause}"))?;
    let before = Before::of(clusters);
    let begun = Instant::now();
    let running = contender.start(stage)?;
    let status = marker.wait().map_err(|cause| format!("the observer was lost: {cause}"))?;
    let seconds = begun.elapsed().as_secs_f64();
    let usage = before.until_now(clusters, running.extract.as_ref(), running.replicat.as_ref());
    let stopped = running.stop();
    if !status.success() {
        return Err(format!("{}: the marker did not arrive: {stopped:?}", contender.title()));
    }
    stopped?;
    Ok(CatchUp { seconds, usage })
}

/// A psql that ends when the marker is visible, or fails after five minutes.
fn await_marker(cluster: &Cluster<'_>, database: &str) -> Command {
    // Each look is a transaction of its own: an old snapshot would keep the target from cleaning up.
    let sql = "DO $$ BEGIN
            FOR look IN 1..60000 LOOP
                IF EXISTS (SELECT FROM bench_marker) THEN RETURN; END IF;
                COMMIT;
                PERFORM pg_sleep(0.005);
            END LOOP;
            RAISE 'it took too long';
        END $$";
    cluster.psql(database, sql)
}

/// Measures latency under the steady load.
fn steady(
    extent: &Extent,
    source: &Cluster<'_>,
    target: &Cluster<'_>,
    folder: &Path,
    latencies: &mut [Vec<Latency>; 2],
) -> Outcome {
    println!("\nsteady load");
    let steady = workload::steady();
    for cluster in [source, target] {
        steady.create(cluster, "bench_base")?;
    }
    let stage = Stage { source, target, from: "bench_run", to: "bench_run", folder };
    for round in 1..=extent.rounds {
        for (place, contender) in CONTENDERS.into_iter().enumerate() {
            for cluster in [source, target] {
                cluster.run("postgres", "CREATE DATABASE bench_run TEMPLATE bench_base STRATEGY file_copy")?;
                steady.warm(cluster, "bench_run")?;
            }
            contender.register(stage)?;
            contender.prepare(stage)?;
            let latency = latency::measure(stage, contender, extent.seconds)?;
            println!("round {round}: {:<6} {latency:?}", contender.title());
            latencies[place].push(latency);
            contender.forget(stage)?;
            for cluster in [source, target] {
                cluster.run("postgres", "DROP DATABASE bench_run WITH (FORCE)")?;
            }
        }
    }
    Ok(())
}
