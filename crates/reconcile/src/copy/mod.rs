//! The initial copy: every table of a Replicat, from snapshots of the source, several at a time.
//!
//! [`copy`] makes one attempt. What it has copied is committed, table by table; whatever stops it, the next attempt opens a
//! new snapshot and copies what is not done. It never tries again by itself: its caller decides that.

mod progress;

pub use progress::{CopyProgress, ProgressReport};

use change::{Csn, TableName, Timestamp};
use database::snapshot::{
    CopyDestination, CopyError, CopyRequest, CopyRow, CopySource, CopyTarget, CopyWriter, Snapshot, SnapshotReader,
    TakeBytes,
};
use database::{Error, ErrorClass};
use std::collections::{HashSet, VecDeque};
use std::ops::ControlFlow;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

/// One source table and where its rows go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyJob {
    /// Source table, as changes name it.
    pub source: TableName,
    /// Target tables, each with the source columns whose values it takes.
    pub destinations: Vec<(Vec<String>, CopyDestination)>,
    /// About how many bytes the source table takes.
    pub bytes: u64,
}

/// What an attempt works with.
pub struct CopySetup<'a> {
    /// Where rows come from.
    pub source: &'a dyn CopySource,
    /// Where they go.
    pub target: &'a dyn CopyTarget,
    /// Which Replicat they are for.
    pub request: &'a CopyRequest,
    /// All tables, those that are done included.
    pub jobs: &'a [CopyJob],
    /// Tables that are copied at once, at least 1.
    pub workers_max: usize,
    /// The time now.
    pub clock: &'a (dyn Fn() -> Timestamp + Sync),
    /// Whether the operator wants the copy to end.
    pub is_stopped: &'a (dyn Fn() -> bool + Sync),
    /// Is told of everything that moves.
    pub progress: &'a CopyProgress,
}

/// What an attempt came to.
#[derive(Debug)]
pub enum CopyOutcome {
    /// Every table is copied.
    Done,
    /// The operator ended it.
    Stopped,
    /// Something failed; what was copied stays.
    Failed {
        /// The table that was being copied, if it was about one.
        table: Option<TableName>,
        /// Why.
        cause: CopyError,
    },
}

/// Copies every table that is not copied yet.
///
/// Does nothing to a source or target of unlike notation but refuse it.
pub fn copy(setup: &CopySetup<'_>) -> CopyOutcome {
    match attempt(setup) {
        Ok(outcome) => outcome,
        Err(cause) => CopyOutcome::Failed { table: None, cause },
    }
}

fn attempt(setup: &CopySetup<'_>) -> Result<CopyOutcome, CopyError> {
    let (from, to) = (setup.source.copy_notation(), setup.target.copy_notation());
    if from != to {
        let what = format!("rows in the notation {from:?} can't be copied to a target that reads {to:?}");
        let error = Error::new(ErrorClass::Unsupported, what);
        return Err(CopyError::Target(error.with_next_step("copy between databases of the same product")));
    }
    let sources: Vec<TableName> = setup.jobs.iter().map(|job| job.source.clone()).collect();
    let known = setup.target.register_copies(setup.request, &sources).map_err(CopyError::Target)?;
    let done: HashSet<&TableName> = known.iter().filter(|row| row.csn.is_some()).map(|row| &row.source).collect();
    let mut waiting: Vec<&CopyJob> = setup.jobs.iter().filter(|job| !done.contains(&job.source)).collect();
    setup.progress.begin(setup.jobs, &done, (setup.clock)());
    if waiting.is_empty() {
        return Ok(CopyOutcome::Done);
    }
    // Large tables first: the last worker to end should not be one that has just begun a large one.
    waiting.sort_by_key(|job| std::cmp::Reverse(job.bytes));
    let workers = setup.workers_max.clamp(1, waiting.len());
    let Snapshot { csn, readers } = setup.source.open_snapshot(workers).map_err(CopyError::Source)?;
    let room = Room { setup, waiting: Mutex::new(waiting.into()), failure: Mutex::new(None) };
    thread::scope(|scope| {
        for reader in readers {
            let (room, csn) = (&room, &csn);
            scope.spawn(move || {
                if let Err(failure) = room.work(reader, csn) {
                    room.fail(failure);
                }
            });
        }
    });
    let failure = room.failure.into_inner().unwrap_or_else(PoisonError::into_inner);
    let is_left = failure.is_some() || !lock(&room.waiting).is_empty();
    Ok(match failure {
        _ if is_left && (setup.is_stopped)() => CopyOutcome::Stopped,
        Some(failure) => CopyOutcome::Failed { table: failure.0, cause: failure.1 },
        None => CopyOutcome::Done,
    })
}

type Failure = Box<(Option<TableName>, CopyError)>;

/// What the workers of an attempt share.
struct Room<'a> {
    setup: &'a CopySetup<'a>,
    waiting: Mutex<VecDeque<&'a CopyJob>>,
    failure: Mutex<Option<Failure>>,
}

impl<'a> Room<'a> {
    /// Copies tables until none waits or something fails.
    fn work(&self, mut reader: Box<dyn SnapshotReader>, csn: &Csn) -> Result<(), Failure> {
        let opened = self.setup.target.open_writer(self.setup.request);
        let mut writer = opened.map_err(|cause| Box::new((None, CopyError::Target(cause))))?;
        while let Some(job) = self.next() {
            let copied = self.copy_table(job, &mut *reader, &mut *writer, csn);
            let row = copied.map_err(|cause| Box::new((Some(job.source.clone()), cause)))?;
            self.setup.progress.finished(&row);
        }
        Ok(())
    }

    /// The next table, unless the attempt is over.
    fn next(&self) -> Option<&'a CopyJob> {
        if self.is_over() { None } else { lock(&self.waiting).pop_front() }
    }

    /// Whether no further row is of use: the operator ended the copy, or something failed that trying again does not cure.
    /// After a failure that may pass the others go on, so that less is left for the next attempt.
    fn is_over(&self) -> bool {
        (self.setup.is_stopped)() || lock(&self.failure).as_ref().is_some_and(|failure| !may_pass(&failure.1))
    }

    /// Keeps the first failure, or the first that does not pass.
    fn fail(&self, failure: Failure) {
        let mut known = lock(&self.failure);
        if known.as_ref().is_none_or(|known| may_pass(&known.1) && !may_pass(&failure.1)) {
            *known = Some(failure);
        }
    }

    fn copy_table(
        &self,
        job: &CopyJob,
        reader: &mut dyn SnapshotReader,
        writer: &mut dyn CopyWriter,
        csn: &Csn,
    ) -> Result<CopyRow, CopyError> {
        let CopySetup { clock, progress, .. } = self.setup;
        progress.started(&job.source);
        let destinations: Vec<CopyDestination> =
            job.destinations.iter().map(|(_, destination)| destination.clone()).collect();
        let mut fill = |destination: usize, take: &mut TakeBytes<'_>| {
            let mut is_cut = false;
            let (columns, _) = &job.destinations[destination];
            reader.read(&job.source, columns, &mut |bytes| {
                if self.is_over() {
                    is_cut = true;
                    return ControlFlow::Break(());
                }
                progress.bytes(&job.source, bytes.len() as u64);
                take(bytes)
            })?;
            // A reading that was broken off is no error of the reader's, but a part of a table must not pass for the whole.
            if is_cut && !change::sabotage::is_on("copy-part-of-a-table") {
                return Err(Error::new(ErrorClass::Transient, format!("the copy of {} was broken off", job.source)));
            }
            Ok(())
        };
        let copied = writer.copy(&job.source, &destinations, &mut fill, &mut |rows, bytes| CopyRow {
            source: job.source.clone(),
            csn: Some(csn.clone()),
            rows,
            bytes,
            finished: Some(clock()),
        });
        copied.inspect_err(|_| progress.given_up(&job.source))
    }
}

/// Whether the same copy may succeed later.
fn may_pass(cause: &CopyError) -> bool {
    let (CopyError::Source(error) | CopyError::Target(error)) = cause;
    matches!(error.class(), ErrorClass::Transient | ErrorClass::ConnectionLost)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Every holder leaves the value whole between its own steps.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
