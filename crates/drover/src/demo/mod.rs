//! `drover demo`: replication between two SQLite databases while its processes are killed, and the proof that both ends
//! are equal.
//!
//! Everything runs as it would for a user: the commands go through the console, the groups are processes of their own.
//! What the demo claims is measured from outside: by looking into both databases with plain SQL.

mod child;
mod compare;
mod progress;
mod summary;
mod watch;
mod workload;

use crate::command_line::{Demo, DemoWriter};
use child::Restartable;
use process::Shutdown;
use progress::Progress;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
pub use summary::Summary;
use watch::Watch;

/// Writer processes.
const WRITERS: u32 = 3;

/// Times that each of Extract and Replicat is killed.
const KILLS: u32 = 4;

/// Times that a writer is killed.
const WRITER_KILLS: u32 = 2;

/// Least time that the writers take, so that a small demo has room for all its kills, too.
const WRITING_SECONDS_MIN: u64 = 4;

/// How long the target may stand still before the demo gives up.
const STALL_LIMIT: Duration = Duration::from_secs(60);

/// How often the demo looks at its processes and shows numbers.
const TICK: Duration = Duration::from_millis(50);

/// Why a demo could not be finished.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file or folder, or starting a process.
    #[error("can't {what}")]
    Files {
        /// What could not be done.
        what: &'static str,
        /// Why.
        #[source]
        cause: std::io::Error,
    },
    /// One of the two databases.
    #[error("can't work on the demo's databases")]
    Database(#[from] rusqlite::Error),
    /// A console command.
    #[error("console commands of the demo failed:\n{0}")]
    Console(String),
    /// A process that ended when it should not have.
    #[error("{name} ended with {status}; it printed:\n{output}")]
    Ended {
        /// Which one.
        name: String,
        /// How.
        status: ExitStatus,
        /// What it printed.
        output: String,
    },
    /// The target did not catch up.
    #[error("the target stood still for {} s at {applied} of {written} changes", STALL_LIMIT.as_secs())]
    Stalled {
        /// Changes in the source.
        written: u64,
        /// Changes in the target.
        applied: u64,
    },
    /// Ctrl-C or SIGTERM.
    #[error("interrupted; all processes of the demo have been stopped")]
    Interrupted,
}

fn files(what: &'static str) -> impl FnOnce(std::io::Error) -> Error {
    move |cause| Error::Files { what, cause }
}

/// Runs the demo.
///
/// # Errors
/// [`Error`] when it could not be finished. A difference between the databases is no error but part of the summary.
pub fn run(options: &Demo, shutdown: &Shutdown) -> Result<Summary, Error> {
    let seed = options.seed.unwrap_or_else(|| fastrand::u64(..1_000_000));
    let folder = tempfile::Builder::new().prefix("drover-demo-").tempdir().map_err(files("make a temporary folder"))?;
    let stage = Stage::prepare(folder.path())?;
    let mut progress = Progress::new(options.rows, options.json);
    progress.event(&format!("folder {}, seed {seed}", folder.path().display()));
    let result = play(options, &stage, seed, &mut progress, shutdown);
    progress.finish();
    let mut summary = match result {
        Ok(summary) => summary,
        Err(error) => {
            if options.keep {
                eprintln!("the folder is kept: {}", folder.keep().display());
            }
            return Err(error);
        }
    };
    // A difference is worth looking into, whatever was asked.
    if options.keep || !summary.is_equal() {
        summary.folder = Some(folder.keep());
    }
    Ok(summary)
}

/// Runs one writer of the workload.
///
/// # Errors
/// Whatever SQLite says.
pub fn write(options: &DemoWriter) -> rusqlite::Result<()> {
    workload::Writer::open(&options.database, options.writer, options.seed)?.run(options.rows, options.pace)
}

/// Ends this process when standard input closes, as it does when the demo ends in any way.
pub fn end_with_stdin() {
    std::thread::spawn(|| {
        // An input that can't be read is as good as closed.
        let _ = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
        std::process::exit(1);
    });
}

/// Where everything of one demo lies.
struct Stage {
    source: PathBuf,
    target: PathBuf,
    home: PathBuf,
}

impl Stage {
    /// Makes both databases, the home, the parameter files and the groups.
    fn prepare(folder: &Path) -> Result<Stage, Error> {
        let stage =
            Stage { source: folder.join("source.db"), target: folder.join("target.db"), home: folder.join("home") };
        workload::create(&stage.source)?;
        workload::create(&stage.target)?;
        let home = process::Home::create(&stage.home)
            .map_err(|error| Error::Files { what: "make a home directory", cause: std::io::Error::other(error) })?;
        let parameters = [
            ("e1.prm", "EXTRACT e1\nSOURCEDB sqlite:../source.db\nEXTTRAIL ./dirdat/aa\nTABLE main.*;\n"),
            ("r1.prm", "REPLICAT r1\nTARGETDB sqlite:../target.db\nMAP main.*, TARGET main.*;\n"),
        ];
        for (name, text) in parameters {
            std::fs::write(home.dirprm().join(name), text).map_err(files("write a parameter file"))?;
        }
        let mut printed = Vec::new();
        crate::console::run(&stage.home, summary::COMMANDS, &mut printed)
            .map_err(|error| Error::Console(format!("{}{error}", String::from_utf8_lossy(&printed))))?;
        Ok(stage)
    }

    fn group(&self, part: &str, group: &str) -> Result<Restartable, Error> {
        let home = self.home.to_string_lossy().into_owned();
        let arguments = [part, group, "--stop-with-stdin", "--home"].map(str::to_owned);
        let output = self.home.join(format!("dirtmp/{group}.out"));
        Restartable::start(arguments.into_iter().chain([home]).collect(), &output).map_err(files("start a group"))
    }

    fn writer(&self, number: u32, rows: u64, pace: u64, seed: u64) -> Result<Restartable, Error> {
        let arguments = ["demo-writer".to_owned(), format!("--database={}", self.source.display())]
            .into_iter()
            .chain([format!("--writer={number}"), format!("--rows={rows}"), format!("--pace={pace}")])
            .chain([format!("--seed={seed}")])
            .collect();
        let output = self.home.join(format!("dirtmp/writer{number}.out"));
        Restartable::start(arguments, &output).map_err(files("start a writer"))
    }

    /// Bytes of all files of the trail.
    fn trail_bytes(&self) -> u64 {
        let Ok(entries) = std::fs::read_dir(self.home.join("dirdat")) else { return 0 };
        entries.flatten().filter_map(|entry| entry.metadata().ok()).map(|file| file.len()).sum()
    }
}

/// Who is killed next, and from which number of written changes on.
struct Kill {
    victim: Victim,
    at: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Victim {
    Extract,
    Replicat,
    Writer(u32),
}

impl Victim {
    fn has_worked(self, since_start: &Work, now: &Work) -> bool {
        match self {
            Victim::Extract => now.trail > since_start.trail,
            Victim::Replicat => now.target > since_start.target,
            Victim::Writer(_) => true,
        }
    }
}

/// What Extract and Replicat have done.
#[derive(Default)]
struct Work {
    /// Bytes in the trail.
    trail: u64,
    /// Newest entry in the target.
    target: i64,
}

/// Spreads the kills at random over the time in which the writers write.
fn plan_kills(rows: u64, seed: u64) -> Vec<Kill> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut victims: Vec<Victim> = (0..KILLS).flat_map(|_| [Victim::Extract, Victim::Replicat]).collect();
    victims.extend((0..WRITER_KILLS).map(|writer| Victim::Writer(writer % WRITERS)));
    random.shuffle(&mut victims);
    let step = rows * 8 / 10 / victims.len() as u64;
    let at = |place: usize| rows / 20 + step * place as u64;
    victims
        .into_iter()
        .enumerate()
        .map(|(place, victim)| Kill { victim, at: at(place) + random.u64(0..=step / 2) })
        .rev()
        .collect()
}

fn play(
    options: &Demo,
    stage: &Stage,
    seed: u64,
    progress: &mut Progress,
    shutdown: &Shutdown,
) -> Result<Summary, Error> {
    let start = Instant::now();
    let mut extract = stage.group("extract", "e1")?;
    let mut replicat = stage.group("replicat", "r1")?;
    let share = options.rows.div_ceil(u64::from(WRITERS));
    let pace = share.div_ceil(WRITING_SECONDS_MIN);
    let mut writers =
        (0..WRITERS).map(|number| stage.writer(number, share, pace, seed)).collect::<Result<Vec<_>, Error>>()?;
    let watch = Watch::start(&stage.source, &stage.target)?;
    let seen = &watch.seen;
    let mut kills = plan_kills(options.rows, seed);
    let mut writing: Option<Duration> = None;
    let mut moved = (Instant::now(), 0);
    let mut since_start = Work::default();
    loop {
        if shutdown.is_requested() {
            return Err(Error::Interrupted);
        }
        check_alive("Extract E1", &mut extract)?;
        check_alive("Replicat R1", &mut replicat)?;
        let mut busy = false;
        for (number, writer) in writers.iter_mut().enumerate() {
            match writer.ended().map_err(files("look at a writer"))? {
                None => busy = true,
                Some(status) if status.success() => {}
                Some(status) => {
                    let name = format!("writer {number}");
                    return Err(Error::Ended { name, status, output: writer.output() });
                }
            }
        }
        if let Some(failure) = seen.failure() {
            return Err(Error::Console(failure));
        }
        let written = seen.source_rows.load(Ordering::Relaxed);
        let work = Work { trail: stage.trail_bytes(), target: seen.target_entry.load(Ordering::Relaxed) };
        // One that has done nothing since its last start is not busy yet.
        let is_due = |kill: &Kill| kill.at <= written && kill.victim.has_worked(&since_start, &work);
        if busy && let Some(kill) = kills.pop_if(|kill| is_due(kill)) {
            let (name, victim) = match kill.victim {
                Victim::Extract => ("Extract E1".to_owned(), &mut extract),
                Victim::Replicat => ("Replicat R1".to_owned(), &mut replicat),
                Victim::Writer(number) => (format!("writer {number}"), &mut writers[number as usize]),
            };
            victim.kill_and_restart().map_err(files("kill and restart a process"))?;
            match kill.victim {
                Victim::Extract => since_start.trail = stage.trail_bytes(),
                Victim::Replicat => since_start.target = seen.target_entry.load(Ordering::Relaxed),
                Victim::Writer(_) => {}
            }
            progress.event(&format!("{name} killed with SIGKILL and started again"));
        }
        progress.update(seen, work.trail);
        let applied = seen.target_entry.load(Ordering::Relaxed);
        if !busy {
            let took = *writing.get_or_insert_with(|| start.elapsed());
            // The watching thread may lag behind the writers' last commits, so the source is asked directly.
            if newest_entry(&stage.source)? == applied {
                let caught_up = start.elapsed();
                stop("Extract E1", &mut extract)?;
                stop("Replicat R1", &mut replicat)?;
                let restarts = summary::Restarts {
                    extract: extract.restarts,
                    replicat: replicat.restarts,
                    writers: writers.iter().map(|writer| writer.restarts).sum(),
                };
                return summary::summarize(stage, seed, seen, took, caught_up, restarts);
            }
        }
        if applied != moved.1 {
            moved = (Instant::now(), applied);
        } else if moved.0.elapsed() > STALL_LIMIT {
            return Err(Error::Stalled { written, applied: seen.target_rows.load(Ordering::Relaxed) });
        }
        std::thread::sleep(TICK);
    }
}

fn newest_entry(database: &Path) -> Result<i64, Error> {
    let connection = workload::open(database)?;
    Ok(connection.query_row("SELECT coalesce(max(entry), 0) FROM writer_log", [], |row| row.get(0))?)
}

fn check_alive(name: &str, child: &mut Restartable) -> Result<(), Error> {
    match child.ended().map_err(files("look at a process"))? {
        None => Ok(()),
        Some(status) => Err(Error::Ended { name: name.to_owned(), status, output: child.output() }),
    }
}

fn stop(name: &str, child: &mut Restartable) -> Result<(), Error> {
    let status = child.stop().map_err(files("stop a process"))?;
    if status.success() { Ok(()) } else { Err(Error::Ended { name: name.to_owned(), status, output: child.output() }) }
}
