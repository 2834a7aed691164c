//! What replicates: native logical replication, and Drover.
//!
//! A backlog is written once. Each contender has a slot that stands in front of it, and every run gets a copy of that slot;
//! Drover also gets a copy of its home as it was when its groups had been added.

use super::cluster::Cluster;
use crate::program::{self, Outcome, command};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Name of the subscription and of native's publication.
const NAME: &str = "bench";
/// How long a slot that is being let go is waited for.
const FREE_LIMIT: Duration = Duration::from_secs(60);

/// Both clusters, and the databases of a workload.
#[derive(Clone, Copy)]
pub struct Stage<'s> {
    pub source: &'s Cluster<'s>,
    pub target: &'s Cluster<'s>,
    /// The database at the source.
    pub from: &'s str,
    /// The database at the target that rows are applied to.
    pub to: &'s str,
    pub folder: &'s Path,
}

impl Stage<'_> {
    fn has_slot(&self, condition: &str) -> Result<bool, String> {
        let sql = format!("SELECT count(*) > 0 FROM pg_replication_slots WHERE {condition}");
        Ok(self.source.run("postgres", &sql)? == "t")
    }

    fn copy_slot(&self, from: &str, to: &str) -> Outcome {
        let sql = format!("SELECT pg_copy_logical_replication_slot('{from}', '{to}')");
        self.source.run(self.from, &sql).map(drop)
    }

    /// Drops a slot as soon as nobody uses it.
    pub fn drop_slot(&self, slot: &str) -> Outcome {
        let started = Instant::now();
        while self.has_slot(&format!("slot_name = '{slot}' AND active"))? {
            if started.elapsed() > FREE_LIMIT {
                return Err(format!("slot {slot} stays in use"));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        self.source.run("postgres", &format!("SELECT pg_drop_replication_slot('{slot}')")).map(drop)
    }
}

/// The two ways to the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contender {
    Native,
    Drover,
}

impl Contender {
    /// For the page.
    pub fn title(self) -> &'static str {
        match self {
            Contender::Native => "native",
            Contender::Drover => "Drover",
        }
    }

    /// Makes what has to be there before the backlog is written. The target's database is the one that runs get copies of.
    pub fn register(self, stage: Stage<'_>) -> Outcome {
        match self {
            Contender::Native => stage.source.run_each(
                stage.from,
                &[
                    &format!("CREATE PUBLICATION {NAME} FOR ALL TABLES"),
                    &format!("SELECT pg_create_logical_replication_slot('{NAME}', 'pgoutput')"),
                ],
            ),
            Contender::Drover => {
                let home = template(stage.folder);
                fresh(&home)?;
                program::output(drover().arg("init").arg(&home))?;
                write_parameters(&home, stage)?;
                let (source, target) = (stage.source.url(stage.from), stage.target.url(stage.to));
                let commands = format!(
                    "DBLOGIN SOURCEDB '{source}'; ADD EXTRACT e1, TRANLOG, BEGIN NOW; ADD EXTTRAIL ./dirdat/aa, EXTRACT e1; \
                     DBLOGIN SOURCEDB '{target}'; ADD CHECKPOINTTABLE public.checkpoint; \
                     ADD REPLICAT r1, EXTTRAIL ./dirdat/aa, CHECKPOINTTABLE public.checkpoint"
                );
                program::output(drover().arg("--home").arg(&home).args(["-c", &commands]))?;
                stage.copy_slot(&slot(stage)?, "drover_bench")
            }
        }
    }

    /// Sets everything back to the start of the backlog. Nothing moves before [`start`](Contender::start).
    pub fn prepare(self, stage: Stage<'_>) -> Outcome {
        match self {
            Contender::Native => {
                stage.copy_slot(NAME, "bench_run")?;
                let sql = format!(
                    "CREATE SUBSCRIPTION {NAME} CONNECTION '{}' PUBLICATION {NAME} \
                     WITH (create_slot = false, slot_name = 'bench_run', copy_data = false, enabled = false)",
                    stage.source.connection(stage.from)
                );
                stage.target.run(stage.to, &sql).map(drop)
            }
            Contender::Drover => {
                let slot = slot(stage)?;
                if stage.has_slot(&format!("slot_name = '{slot}'"))? {
                    stage.drop_slot(&slot)?;
                }
                stage.copy_slot("drover_bench", &slot)?;
                let home = home(stage.folder);
                fresh(&home)?;
                program::output(command("cp").arg("-r").arg(template(stage.folder)).arg(&home))?;
                write_parameters(&home, stage)
            }
        }
    }

    /// Lets it run.
    pub fn start(self, stage: Stage<'_>) -> Result<Running<'_>, String> {
        let mut running = Running { contender: self, stage, extract: None, replicat: None };
        match self {
            Contender::Native => {
                stage.target.run(stage.to, &format!("ALTER SUBSCRIPTION {NAME} ENABLE"))?;
            }
            Contender::Drover => {
                running.extract = Some(group(&home(stage.folder), "extract", "e1")?);
                running.replicat = Some(group(&home(stage.folder), "replicat", "r1")?);
            }
        }
        Ok(running)
    }

    /// Removes what [`register`](Contender::register) made at the source.
    pub fn forget(self, stage: Stage<'_>) -> Outcome {
        match self {
            Contender::Native => stage.drop_slot(NAME),
            Contender::Drover => {
                stage.drop_slot("drover_bench")?;
                stage.drop_slot(&slot(stage)?)
            }
        }
    }
}

/// A contender at work.
pub struct Running<'s> {
    contender: Contender,
    stage: Stage<'s>,
    /// Drover's processes.
    pub extract: Option<Child>,
    pub replicat: Option<Child>,
}

impl Running<'_> {
    /// Ends it in good order.
    pub fn stop(mut self) -> Outcome {
        let stage = self.stage;
        if self.contender == Contender::Native {
            let statements = [
                format!("ALTER SUBSCRIPTION {NAME} DISABLE"),
                format!("ALTER SUBSCRIPTION {NAME} SET (slot_name = NONE)"),
                format!("DROP SUBSCRIPTION {NAME}"),
            ];
            stage.target.run_each(stage.to, &statements.each_ref().map(String::as_str))?;
            return stage.drop_slot("bench_run");
        }
        [self.extract.take(), self.replicat.take()]
            .into_iter()
            .flatten()
            .try_for_each(|group| stop_group(group, stage.folder))
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        for group in [&mut self.extract, &mut self.replicat].into_iter().flatten() {
            // Only after a failure; it may have ended by itself.
            let _ = group.kill();
            let _ = group.wait();
        }
    }
}

/// Starts the Extract alone.
pub fn start_extract(stage: Stage<'_>) -> Result<Running<'_>, String> {
    let extract = group(&home(stage.folder), "extract", "e1")?;
    Ok(Running { contender: Contender::Drover, stage, extract: Some(extract), replicat: None })
}

/// The file by which the trail's writer tells how far the trail is synced.
pub fn safe_file(stage: Stage<'_>) -> PathBuf {
    home(stage.folder).join("dirdat/aa.safe")
}

/// Bytes of all files of the trail.
pub fn trail_bytes(stage: Stage<'_>) -> Result<u64, String> {
    let folder = home(stage.folder).join("dirdat");
    let refuse = |cause| format!("could not read {}: {cause}", folder.display());
    let mut bytes = 0;
    for entry in fs::read_dir(&folder).map_err(refuse)? {
        bytes += entry.and_then(|entry| entry.metadata()).map_err(refuse)?.len();
    }
    Ok(bytes)
}

/// The slot of Drover's Extract.
pub fn slot(stage: Stage<'_>) -> Result<String, String> {
    let sql = "SELECT 'drover_e1_' || oid FROM pg_database WHERE datname = current_database()";
    stage.source.run(stage.from, sql)
}

fn group(home: &Path, kind: &str, name: &str) -> Result<Child, String> {
    let mut group = drover();
    // Whatever becomes of us, it ends when its input does.
    group.args([kind, name, "--stop-with-stdin", "--home"]).arg(home).stdin(Stdio::piped()).stdout(Stdio::null());
    group.spawn().map_err(|cause| format!("could not start {kind} {name}: {cause}"))
}

fn stop_group(mut group: Child, folder: &Path) -> Outcome {
    // Its input is closed first, and that is how it is told.
    let status = group.wait().map_err(|cause| format!("lost a group: {cause}"))?;
    if status.success() {
        return Ok(());
    }
    let mut reports = String::new();
    for name in ["E1.rpt", "R1.rpt"] {
        reports += &fs::read_to_string(home(folder).join("dirrpt").join(name)).unwrap_or_default();
    }
    Err(format!("a group ended with {status}; the reports:\n{reports}"))
}

fn template(folder: &Path) -> PathBuf {
    folder.join("template")
}

fn home(folder: &Path) -> PathBuf {
    folder.join("home")
}

fn fresh(path: &Path) -> Outcome {
    if path.exists() {
        fs::remove_dir_all(path).map_err(|cause| format!("could not remove {}: {cause}", path.display()))?;
    }
    Ok(())
}

fn write_parameters(home: &Path, stage: Stage<'_>) -> Outcome {
    let (source, target) = (stage.source.url(stage.from), stage.target.url(stage.to));
    let extract = format!("EXTRACT e1\nSOURCEDB {source}\nEXTTRAIL ./dirdat/aa\nTABLE public.*;\n");
    let replicat = format!("REPLICAT r1\nTARGETDB {target}\nMAP public.*, TARGET public.*;\n");
    for (group, text) in [("e1", extract), ("r1", replicat)] {
        let path = home.join("dirprm").join(format!("{group}.prm"));
        fs::write(&path, text).map_err(|cause| format!("could not write {}: {cause}", path.display()))?;
    }
    Ok(())
}

fn drover() -> Command {
    command(program::release().join("drover"))
}
