//! What all parts have in common: databases that come and go, and one drain of a backlog.

use super::Extent;
use super::cluster::Cluster;
use super::contender::{Contender, Running, Stage};
use super::usage::{Before, Usage};
use super::workload::Workload;
use crate::program::Outcome;
use std::path::Path;
use std::time::Instant;

/// Where it happens.
pub struct Bench<'b> {
    pub extent: &'b Extent,
    pub source: &'b Cluster<'b>,
    pub target: &'b Cluster<'b>,
    pub folder: &'b Path,
}

/// One drain of a backlog.
pub struct CatchUp {
    pub seconds: f64,
    pub usage: Usage,
}

impl<'b> Bench<'b> {
    /// Makes a workload's databases, and the slots in front of its backlog. The stage is that of `bench_run`, which
    /// [`fresh_target`](Bench::fresh_target) makes.
    pub fn create(&'b self, workload: &Workload) -> Result<Stage<'b>, String> {
        let (from, base) = ("bench_source", "bench_base");
        workload.create(self.source, from)?;
        workload.create(self.target, base)?;
        let stage = Stage { source: self.source, target: self.target, from, to: base, folder: self.folder };
        stage.register()?;
        Ok(Stage { to: "bench_run", ..stage })
    }

    /// Removes the databases and the slots.
    pub fn remove(&self, stage: Stage<'_>) -> Outcome {
        stage.forget()?;
        self.source.drop_database(stage.from)?;
        self.target.drop_database("bench_base")
    }

    /// Makes the database that rows are applied to, as it was before the backlog.
    pub fn fresh_target(&self, workload: &Workload) -> Outcome {
        self.target.run("postgres", "CREATE DATABASE bench_run TEMPLATE bench_base STRATEGY file_copy")?;
        workload.warm(self.target, "bench_run")
    }

    /// Lets a contender drain the backlog into a fresh target and proves that both ends are equal.
    pub fn catch_up(
        &self,
        workload: &Workload,
        contender: Contender,
        stage: Stage<'_>,
        wanted: &str,
    ) -> Result<CatchUp, String> {
        self.fresh_target(workload)?;
        contender.prepare(stage)?;
        self.timed(workload, contender.title(), stage, wanted, || contender.start(stage))
    }

    /// Times what `start` starts until the marker is visible, and removes the target when both ends are proven equal.
    pub fn timed<'s>(
        &self,
        workload: &Workload,
        who: &str,
        stage: Stage<'s>,
        wanted: &str,
        start: impl FnOnce() -> Result<Running<'s>, String>,
    ) -> Result<CatchUp, String> {
        let clusters = [stage.source, stage.target];
        let marker = stage.look_for(1)?;
        let before = Before::of(clusters);
        let begun = Instant::now();
        let running = start()?;
        let arrived = marker.wait();
        let seconds = begun.elapsed().as_secs_f64();
        let usage = before.until_now(clusters, running.extract.as_ref(), running.replicat.as_ref());
        let stopped = running.stop();
        if let Err(reason) = arrived {
            return Err(format!("{who}: {reason}: {stopped:?}"));
        }
        stopped?;
        self.prove(workload, who, stage, wanted)?;
        stage.target.drop_database(stage.to)?;
        Ok(CatchUp { seconds, usage })
    }

    /// Proves that the target holds what the source held when `wanted` was taken of it.
    pub fn prove(&self, workload: &Workload, who: &str, stage: Stage<'_>, wanted: &str) -> Outcome {
        let found = workload.checksum(stage.target, stage.to)?;
        if found == wanted {
            return Ok(());
        }
        Err(format!("{who}: source and target differ:\n{wanted}\n\n{found}"))
    }
}
