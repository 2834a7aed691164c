//! What replicates: native logical replication, pglogical, and Drover.
//!
//! A backlog is written once. Slots are made that stand in front of it, and every run gets a copy of one; Drover also gets
//! a copy of its home as it was when its groups had been added.

use super::cluster::Cluster;
use crate::program::{self, Outcome, command};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// What pglogical's nodes and its subscription are called.
const PGLOGICAL: &str = "bench";
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

    /// Waits until nobody uses a slot.
    pub fn free_slot(&self, slot: &str) -> Outcome {
        let started = Instant::now();
        while self.has_slot(&format!("slot_name = '{slot}' AND active"))? {
            if started.elapsed() > FREE_LIMIT {
                return Err(format!("slot {slot} stays in use"));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Drops a slot as soon as nobody uses it, if it is there.
    pub fn drop_slot(&self, slot: &str) -> Outcome {
        self.free_slot(slot)?;
        let sql =
            format!("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = '{slot}'");
        self.source.run("postgres", &sql).map(drop)
    }

    /// Makes what has to be there before the backlog is written. The target's database is the one that runs get copies of.
    pub fn register(self) -> Outcome {
        if self.source.has_pglogical() {
            self.source.run_each(
                self.from,
                &[
                    "CREATE EXTENSION pglogical",
                    &format!("SELECT pglogical.create_node('provider', '{}')", self.source.connection(self.from)),
                    "SELECT pglogical.replication_set_add_all_tables('default', ARRAY['public'])",
                ],
            )?;
        }
        self.source.run_each(
            self.from,
            &[
                &format!("CREATE PUBLICATION {NAME} FOR TABLES IN SCHEMA public"),
                &format!("SELECT pg_create_logical_replication_slot('{NAME}', 'pgoutput')"),
            ],
        )?;
        let home = template(self.folder);
        fresh(&home)?;
        program::output(drover().arg("init").arg(&home))?;
        write_parameters(&home, self, Applying::Grouped)?;
        let (source, target) = (self.source.url(self.from), self.target.url(self.to));
        let commands = format!(
            "DBLOGIN SOURCEDB '{source}'; ADD EXTRACT e1, TRANLOG, BEGIN NOW; ADD EXTTRAIL ./dirdat/aa, EXTRACT e1; \
             DBLOGIN SOURCEDB '{target}'; ADD CHECKPOINTTABLE public.checkpoint; \
             ADD REPLICAT r1, EXTTRAIL ./dirdat/aa, CHECKPOINTTABLE public.checkpoint"
        );
        program::output(drover().arg("--home").arg(&home).args(["-c", &commands]))?;
        self.copy_slot(&slot(self)?, "drover_bench")
    }

    /// Removes what [`register`](Stage::register) made at the source, beside the database.
    pub fn forget(self) -> Outcome {
        for slot in [NAME.to_owned(), "drover_bench".to_owned(), slot(self)?] {
            self.drop_slot(&slot)?;
        }
        Ok(())
    }
}

/// How Drover's Replicat applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applying {
    /// As it does by default: small transactions share a target transaction.
    Grouped,
    /// Each transaction by itself, by eight appliers.
    Singly,
    /// As by default, with four appliers.
    Four,
    /// By one session, one target transaction after another.
    Classic,
}

impl Applying {
    /// Lines of the parameter file.
    fn parameters(self) -> &'static str {
        match self {
            Applying::Grouped => "",
            Applying::Singly => "GROUPTRANSOPS 1\nAPPLY_PARALLELISM 8\n",
            Applying::Four => "APPLY_PARALLELISM 4\n",
            Applying::Classic => "APPLY_PARALLELISM CLASSIC\n",
        }
    }
}

/// The ways to the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contender {
    /// A subscription as it is by default: its commits do not wait for the disk.
    Native,
    /// A subscription with `synchronous_commit = on`.
    NativeDurable,
    /// A subscription with `streaming = on`: large transactions are sent before they commit.
    NativeStreaming,
    /// A subscription of pglogical, as it is by default.
    Pglogical,
    /// Extract and Replicat.
    Drover(Applying),
}

impl Contender {
    /// For the page.
    pub fn title(self) -> &'static str {
        match self {
            Contender::Native => "native",
            Contender::NativeDurable => "native, durable",
            Contender::NativeStreaming => "native, streaming",
            Contender::Pglogical => "pglogical",
            Contender::Drover(Applying::Grouped) => "Drover",
            Contender::Drover(Applying::Singly) => "Drover, one to one",
            Contender::Drover(Applying::Four) => "Drover, 4 appliers",
            Contender::Drover(Applying::Classic) => "Drover, classic",
        }
    }

    /// Sets everything back to the start of the backlog. Nothing moves before [`start`](Contender::start).
    pub fn prepare(self, stage: Stage<'_>) -> Outcome {
        let options = match self {
            Contender::Native => "",
            Contender::NativeDurable => ", synchronous_commit = on",
            Contender::NativeStreaming => ", streaming = on",
            Contender::Pglogical => return prepare_pglogical(stage),
            Contender::Drover(applying) => return prepare_drover(stage, applying),
        };
        stage.copy_slot(NAME, "bench_run")?;
        let sql = format!(
            "CREATE SUBSCRIPTION {NAME} CONNECTION '{}' PUBLICATION {NAME} \
             WITH (create_slot = false, slot_name = 'bench_run', copy_data = false, enabled = false{options})",
            stage.source.connection(stage.from)
        );
        stage.target.run(stage.to, &sql).map(drop)
    }

    /// Lets it run.
    pub fn start(self, stage: Stage<'_>) -> Result<Running<'_>, String> {
        let mut running = Running { contender: self, stage, extract: None, replicat: None };
        running.resume()?;
        Ok(running)
    }
}

/// pglogical makes its subscription at the end of the log; a copy of the slot in front of the backlog takes the place of
/// its own.
fn prepare_pglogical(stage: Stage<'_>) -> Outcome {
    let Stage { source, target, from, to, .. } = stage;
    target.run_each(
        to,
        &[
            "CREATE EXTENSION pglogical",
            &format!("SELECT pglogical.create_node('subscriber', '{}')", target.connection(to)),
            &format!(
                "SELECT pglogical.create_subscription('{PGLOGICAL}', '{}', ARRAY['default'], false, false)",
                source.connection(from)
            ),
        ],
    )?;
    let status = "SELECT status || ' ' || slot_name FROM pglogical.show_subscription_status()";
    let started = Instant::now();
    let slot = loop {
        if let Some(slot) = target.run(to, status)?.strip_prefix("replicating ") {
            break slot.to_owned();
        }
        if started.elapsed() > FREE_LIMIT {
            return Err("pglogical's subscription does not start".to_owned());
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    target.run(to, &format!("SELECT pglogical.alter_subscription_disable('{PGLOGICAL}', true)"))?;
    stage.drop_slot(&slot)?;
    let copy = format!("SELECT pg_copy_logical_replication_slot('{NAME}', '{slot}', false, 'pglogical_output')");
    source.run(from, &copy)?;
    let position = format!("SELECT confirmed_flush_lsn FROM pg_replication_slots WHERE slot_name = '{slot}'");
    let position = source.run(from, &position)?;
    target.run(to, &format!("SELECT pg_replication_origin_advance('{slot}', '{position}')")).map(drop)
}

fn prepare_drover(stage: Stage<'_>, applying: Applying) -> Outcome {
    let slot = slot(stage)?;
    stage.drop_slot(&slot)?;
    stage.copy_slot("drover_bench", &slot)?;
    let home = home(stage.folder);
    fresh(&home)?;
    program::output(command("cp").arg("-r").arg(template(stage.folder)).arg(&home))?;
    write_parameters(&home, stage, applying)
}

/// Sets the Replicat back to the start of the trail that an Extract has left in the home.
pub fn prepare_replicat(stage: Stage<'_>, applying: Applying) -> Outcome {
    let (template, home) = (template(stage.folder), home(stage.folder));
    let file = "dirchk/R1.cpr";
    fs::copy(template.join(file), home.join(file)).map_err(|cause| format!("could not set R1 back: {cause}"))?;
    write_parameters(&home, stage, applying)
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
    /// Lets it run again.
    pub fn resume(&mut self) -> Outcome {
        let stage = self.stage;
        let sql = match self.contender {
            Contender::Drover(_) => {
                self.extract = Some(group(&home(stage.folder), "extract", "e1")?);
                self.replicat = Some(group(&home(stage.folder), "replicat", "r1")?);
                return Ok(());
            }
            Contender::Pglogical => format!("SELECT pglogical.alter_subscription_enable('{PGLOGICAL}', true)"),
            _ => format!("ALTER SUBSCRIPTION {NAME} ENABLE"),
        };
        stage.target.run(stage.to, &sql).map(drop)
    }

    /// Lets it rest, in good order, until nobody uses its slot.
    pub fn pause(&mut self) -> Outcome {
        let stage = self.stage;
        let sql = match self.contender {
            Contender::Drover(_) => {
                let groups = [self.extract.take(), self.replicat.take()];
                return groups.into_iter().flatten().try_for_each(|group| stop_group(group, stage.folder));
            }
            Contender::Pglogical => format!("SELECT pglogical.alter_subscription_disable('{PGLOGICAL}', true)"),
            _ => format!("ALTER SUBSCRIPTION {NAME} DISABLE"),
        };
        stage.target.run(stage.to, &sql)?;
        if self.contender == Contender::Pglogical { Ok(()) } else { stage.free_slot("bench_run") }
    }

    /// Ends it in good order.
    pub fn stop(mut self) -> Outcome {
        self.pause()?;
        let Stage { target, to, .. } = self.stage;
        match self.contender {
            Contender::Drover(_) => Ok(()),
            Contender::Pglogical => {
                // It drops its slot, too.
                let drop = format!("SELECT pglogical.drop_subscription('{PGLOGICAL}')");
                target.run_each(to, &[&drop, "SELECT pglogical.drop_node('subscriber')"])
            }
            _ => {
                let detach = format!("ALTER SUBSCRIPTION {NAME} SET (slot_name = NONE)");
                target.run_each(to, &[&detach, &format!("DROP SUBSCRIPTION {NAME}")])?;
                self.stage.drop_slot("bench_run")
            }
        }
    }

    /// Kills Drover's processes and starts them again.
    pub fn kill_and_resume(&mut self) -> Outcome {
        for group in [&mut self.extract, &mut self.replicat].into_iter().flatten() {
            let killed = group.kill().and_then(|()| group.wait());
            killed.map_err(|cause| format!("could not kill a group: {cause}"))?;
        }
        self.resume()
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
    let contender = Contender::Drover(Applying::Grouped);
    Ok(Running { contender, stage, extract: Some(extract), replicat: None })
}

/// Starts the Replicat alone.
pub fn start_replicat(stage: Stage<'_>) -> Result<Running<'_>, String> {
    let replicat = group(&home(stage.folder), "replicat", "r1")?;
    let contender = Contender::Drover(Applying::Grouped);
    Ok(Running { contender, stage, extract: None, replicat: Some(replicat) })
}

/// What the Replicat has reported of its last run.
pub fn replicat_report(stage: Stage<'_>) -> Result<String, String> {
    let path = home(stage.folder).join("dirrpt/R1.rpt");
    fs::read_to_string(&path).map_err(|cause| format!("could not read {}: {cause}", path.display()))
}

/// Bytes of the rows that an Extract has put aside, of transactions that are still open.
pub fn spilled_bytes(stage: Stage<'_>) -> u64 {
    folder_bytes(&home(stage.folder).join("dirtmp"))
}

/// Bytes of all files below a folder; what vanishes meanwhile does not count.
fn folder_bytes(folder: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    let bytes = entries.flatten().map(|entry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => folder_bytes(&entry.path()),
        Ok(metadata) => metadata.len(),
        Err(_) => 0,
    });
    bytes.sum()
}

/// The file by which the trail's writer tells how far the trail is synced.
pub fn safe_file(stage: Stage<'_>) -> PathBuf {
    home(stage.folder).join("dirdat/aa.safe")
}

/// Bytes of all files of the trail.
pub fn trail_bytes(stage: Stage<'_>) -> Result<u64, String> {
    let folder = home(stage.folder).join("dirdat");
    if folder.exists() { Ok(folder_bytes(&folder)) } else { Err(format!("there is no {}", folder.display())) }
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

fn write_parameters(home: &Path, stage: Stage<'_>, applying: Applying) -> Outcome {
    let (source, target) = (stage.source.url(stage.from), stage.target.url(stage.to));
    let extract = format!("EXTRACT e1\nSOURCEDB {source}\nEXTTRAIL ./dirdat/aa\nTABLE public.*;\n");
    let applying = applying.parameters();
    let replicat = format!("REPLICAT r1\nTARGETDB {target}\n{applying}MAP public.*, TARGET public.*;\n");
    for (group, text) in [("e1", extract), ("r1", replicat)] {
        let path = home.join("dirprm").join(format!("{group}.prm"));
        fs::write(&path, text).map_err(|cause| format!("could not write {}: {cause}", path.display()))?;
    }
    Ok(())
}

fn drover() -> Command {
    command(program::release().join("drover"))
}
