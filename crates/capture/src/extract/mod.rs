//! The loop that moves committed transactions from a source into a trail.
//!
//! [`Extract::step`] does one bounded piece of work. The order of what makes things durable is fixed: append, sync the
//! trail, save the checkpoint, and only then tell the source what it may forget. The sync runs beside the reading: what is
//! appended meanwhile waits for the next one, and checkpoint and release follow what is synced.

mod asked;
mod content;
mod durable;

use crate::error::Error;
use crate::heartbeat::Heartbeats;
use crate::left_out::LeftOut;
use crate::open::CommittedSource;
use crate::partition::Placing;
use crate::restart::{Restart, Verdict};
use crate::{Filter, PartitionedTables, Reading, describe};
use change::{Commit, Csn, LogPosition, SequenceState, TableDefinition, Timestamp};
use database::{ErrorClass, LogEvent, LogSource, TableSelection};
use parameter::DefinitionPlan;
use process::{
    Checkpoint, CheckpointBody, CheckpointFile, ExtractCheckpoint, FilterReason, Statistics, StopStatus,
    WriteCheckpoint,
};
use std::sync::Arc;
use std::time::Duration;
use trail::{Position, Writer};

/// How often an Extract does what costs a sync.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// The trail is synced when so many bytes wait, ...
    pub sync_bytes: u64,
    /// ... when the oldest of them has waited so long, or when the source has nothing more for now.
    pub sync_delay: Duration,
    /// Between two syncs at least so many times as long as a sync takes, unless one of the two before demands it: a source
    /// that sends one transaction after another would else keep the disk busy with each of them.
    pub sync_rest: u32,
    /// Time between two checkpoints, each followed by the release of the source's log. Readers do not wait for it; a
    /// restart replays what came after the last one.
    pub checkpoint: Duration,
}

/// A sync of 1 MB takes about four times as long as one of 8 kB, so small ones are put together: up to 1 MB or 5 ms, where
/// a reader does not yet notice the wait.
impl Default for Pace {
    fn default() -> Pace {
        Pace {
            sync_bytes: 1 << 20,
            sync_delay: Duration::from_millis(5),
            sync_rest: 3,
            checkpoint: Duration::from_millis(100),
        }
    }
}

/// Time between two looks at a sync that takes longer than the last one.
const SYNC_LOOK: Duration = Duration::from_micros(200);

/// How often an Extract that has caught up says so in its checkpoint, so that its lag is not taken for the age of the last
/// transaction (CHECKPOINTSECS).
const CAUGHT_UP_EVERY: Duration = Duration::from_secs(10);

/// Everything an Extract works with.
pub struct ExtractSetup {
    /// The source, opened at the recovery position of the checkpoint.
    pub source: Reading,
    /// Which tables are captured.
    pub tables: Arc<dyn TableSelection>,
    /// Definitions of the source's tables at the start, for the report.
    pub definitions: Vec<TableDefinition>,
    /// The trail, opened with the write position of the checkpoint.
    pub writer: Writer,
    /// The group's checkpoint file.
    pub checkpoint: CheckpointFile,
    /// The time now.
    pub clock: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    /// Takes lines for the report.
    pub notice: Box<dyn FnMut(&str) + Send>,
    /// How often things are made durable.
    pub pace: Pace,
}

/// What a step did.
#[derive(Debug)]
pub enum Step {
    /// There was work, and there may be more.
    Worked,
    /// The source has nothing more for now.
    Idle,
    /// The source failed in a way that may pass. Nothing is lost; the next step tries again. Wait before it as
    /// [`process::Retry`] decides.
    Retry {
        /// The source's answer.
        cause: database::Error,
    },
}

/// What a running Extract has come to.
#[derive(Clone, Debug)]
pub struct Progress {
    /// Where reading goes on.
    pub position: LogPosition,
    /// The last transaction that was written.
    pub written: Option<Commit>,
    /// The end of the trail.
    pub trail: Position,
    /// Source transactions written since the start.
    pub transactions: u64,
    /// The most events that were in memory at once.
    pub events_peak: usize,
    /// Whether the source had nothing more when it was last asked, and all that it had told is in the trail.
    pub is_at_end: bool,
}

impl Progress {
    /// How far the trail is behind the source at `now`: nothing at the end of the source's log, else the time since the
    /// commit of the last transaction that was written. `None` before the first one.
    pub fn lag(&self, now: Timestamp) -> Option<Duration> {
        if self.is_at_end {
            return Some(Duration::ZERO);
        }
        self.written.as_ref().map(|commit| now.elapsed_since(commit.time))
    }
}

/// How far an Extract has come since its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It reads again what it had read at its last Current Checkpoint: `In recovery[1]`.
    Rereading,
    /// It leaves out what the trail holds: `In recovery[2]`.
    Skipping,
    /// It writes what is new.
    Complete,
}

/// What became of a wish to leave a transaction out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaveOut {
    /// It will be left out, whatever happens to this process.
    Noted,
    /// It was asked for before.
    NotedBefore,
    /// The transaction has committed, and is being written.
    Committed,
    /// As many are noted as a checkpoint has room for.
    NoRoom,
}

/// What became of a wish to write an open transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Force {
    /// It is in the trail, durably, under this CSN.
    Written {
        /// Its place in commit order.
        csn: Csn,
        /// Its changes, those that are not captured left out.
        changes: u64,
    },
    /// Nothing is kept of it.
    NotKept,
    /// There is no place for it now: a transaction is being written, or the trail is being met after a start.
    Busy,
    /// As many transactions are to be left out as a checkpoint has room for.
    NoRoom,
}

/// Where the events stand.
enum Inside {
    Nothing,
    Writing {
        commit: Commit,
        /// Whether something of it went into the trail.
        appended: bool,
    },
    /// The transaction is not passed on, for this reason.
    Skipping {
        commit: Commit,
        reason: FilterReason,
        changes: u64,
    },
}

/// What counts when all that counts is what is synced. A checkpoint holds all of one mark and never parts of two.
#[derive(Clone)]
struct Mark {
    /// Where reading goes on.
    position: LogPosition,
    /// The last transaction written before.
    written: Option<Commit>,
    /// The end of the trail.
    trail: Position,
}

/// A running Extract.
pub struct Extract {
    source: Reading,
    filter: Filter,
    /// Partitions that are told by name.
    placing: Option<Placing>,
    heartbeats: Option<Heartbeats>,
    writer: Writer,
    file: CheckpointFile,
    checkpoint: Checkpoint,
    clock: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    notice: Box<dyn FnMut(&str) + Send>,
    pace: Pace,
    restart: Restart,
    /// The trail's last transaction at the start, until reading has come past it. Before that the checkpoint must not name
    /// it: its position is still in front of it.
    behind: Option<Commit>,
    inside: Inside,
    left_out: LeftOut,
    statistics: Statistics,
    /// Which statements that define objects go into the trail.
    definitions: DefinitionPlan,
    /// Where sequences stand by transactions that were left out.
    owed: Vec<SequenceState>,
    events: Vec<LogEvent>,
    progress: Progress,
    /// What is synced.
    safe: Mark,
    /// What will be when the sync ends that runs beside reading, and when that started.
    syncing: Option<(Mark, Timestamp)>,
    /// Whether something was appended or completed after the last sync. The last record of an open transaction is held back
    /// by the writer, so the end of the trail does not tell.
    is_waiting: bool,
    /// When that was first seen.
    waiting_since: Option<Timestamp>,
    /// When the last sync ended, and how long the disk then rests.
    rest: (Timestamp, Duration),
    /// How long that sync took.
    sync_took: Duration,
    saved_at: Timestamp,
    /// When the source last had nothing more, and all that it had told was synced.
    caught_up: Option<Timestamp>,
    /// A position that is in the checkpoint and that the source has not taken yet.
    unreleased: Option<LogPosition>,
}

impl Extract {
    /// Starts where checkpoint and trail stand, and notes the start in the checkpoint.
    ///
    /// # Errors
    /// [`Error::TrailBehind`] when the checkpoint speaks of more than the trail holds; [`Error::Unusable`] when the
    /// checkpoint has no trail; errors of the parts.
    pub fn new(setup: ExtractSetup) -> Result<Extract, Error> {
        let ExtractSetup { mut source, tables, definitions, writer, checkpoint: file, clock, mut notice, pace } = setup;
        let mut checkpoint = file.latest().clone();
        let body = body_of(&mut checkpoint)?;
        let trail = trail_of(body)?.name.clone();
        let position = body.recovery.position.clone();
        let (restart, behind) = meet(&trail, &writer, body.written.as_ref(), &mut source, &position)?;
        for definition in definitions.iter().filter(|definition| tables.selects(&definition.name)) {
            notice(&describe::table(definition, tables.key_columns(&definition.name).as_deref()));
        }
        if restart.is_skipping() {
            notice(&format!(
                "the trail is ahead of the checkpoint: transactions up to its last one are read again from {position} and left out"
            ));
        }
        body.startup = body.recovery.clone();
        let left_out = LeftOut::of(body);
        let progress = Progress {
            position: position.clone(),
            written: body.written.clone(),
            trail: writer.position(),
            transactions: 0,
            events_peak: 0,
            is_at_end: false,
        };
        let safe = Mark { position, written: body.written.clone(), trail: writer.position() };
        let now = clock();
        checkpoint.started = Some(now);
        let mut extract = Extract {
            source,
            filter: Filter::new(tables),
            placing: None,
            heartbeats: None,
            writer,
            file,
            checkpoint,
            clock,
            notice,
            pace,
            restart,
            behind,
            inside: Inside::Nothing,
            left_out,
            statistics: Statistics::new(now),
            definitions: DefinitionPlan::default(),
            owed: Vec::new(),
            events: Vec::new(),
            progress,
            safe,
            syncing: None,
            is_waiting: false,
            waiting_since: None,
            rest: (now, Duration::ZERO),
            sync_took: Duration::ZERO,
            saved_at: now,
            caught_up: None,
            unreleased: None,
        };
        extract.leave_out_forced();
        extract.sync()?;
        extract.save(now, StopStatus::Active)?;
        Ok(extract)
    }

    /// From now on changes of these partitions are written as those of the tables that they belong to.
    pub fn set_partitions(&mut self, tables: Arc<PartitionedTables>) {
        self.placing = Some(Placing::new(tables));
    }

    /// Gives the Extract the rules for statements that define objects. Without them none goes into the trail.
    pub fn set_definitions(&mut self, definitions: DefinitionPlan) {
        self.definitions = definitions;
    }

    /// Lets the group called `group` pass heartbeats on, whose tables are in `schema` of the source.
    pub fn capture_heartbeats(&mut self, group: &str, schema: &str) {
        self.heartbeats = Some(Heartbeats::new(group, schema));
    }

    /// Reads one batch of events, appends it to the trail, and makes durable what is due. Waits for the source at most
    /// `wait`.
    ///
    /// # Errors
    /// After any error the Extract must be made anew, from source to trail: it goes on where the checkpoint stands.
    pub fn step(&mut self, wait: Duration) -> Result<Step, Error> {
        let mut events = std::mem::take(&mut self.events);
        let read = self.source.read(&mut events, self.patience(wait));
        let idle = events.is_empty();
        self.progress.events_peak = self.progress.events_peak.max(events.len());
        let taken = events.drain(..).try_for_each(|event| self.take(event));
        self.events = events;
        taken?;
        match read {
            Ok(()) => {}
            Err(cause) if cause.class() == ErrorClass::Transient => {
                // A source that is busy for long must not keep readers from what was read before.
                self.settle(true)?;
                return Ok(Step::Retry { cause });
            }
            Err(cause) => return Err(self.source_error("read", cause)),
        }
        self.settle(idle)?;
        let is_done = idle && !self.is_waiting && self.syncing.is_none();
        self.progress.is_at_end = is_done;
        Ok(if is_done { Step::Idle } else { Step::Worked })
    }

    /// Makes everything durable that was read, notes the clean stop and closes the trail. A transaction that was not read
    /// to its end is given up and read again at the next start.
    ///
    /// # Errors
    /// Errors of the parts; what was durable before stays so.
    pub fn stop(mut self) -> Result<Progress, Error> {
        if let Inside::Writing { .. } = self.inside {
            self.writer.abandon().map_err(|source| self.trail_error("give up a transaction in", source))?;
        }
        self.sync()?;
        self.save((self.clock)(), StopStatus::Graceful)?;
        self.release()?;
        let trail = self.checkpoint.extract().and_then(|body| body.trails.first()).map(|trail| trail.name.clone());
        let (trail, position) = (trail.unwrap_or_default(), self.safe.trail);
        self.writer.close().map_err(|source| Error::Trail {
            action: "close",
            trail,
            position,
            source: source.into(),
        })?;
        Ok(self.progress)
    }

    /// Where open transactions are kept, if the source tells them.
    pub fn open(&self) -> Option<&CommittedSource> {
        self.source.open()
    }

    /// The same, to be told something.
    pub fn open_mut(&mut self) -> Option<&mut CommittedSource> {
        self.source.open_mut()
    }

    /// What was read and what became of it since the start.
    pub fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    /// What the Extract has come to.
    pub fn progress(&self) -> &Progress {
        &self.progress
    }

    /// How long a read may wait: while something waits for its sync, only until the one before is over and as long as the
    /// disk then rests, and not past the next checkpoint.
    fn patience(&self, wait: Duration) -> Duration {
        let now = (self.clock)();
        let until_synced = self.syncing.as_ref().map(|(_, started)| {
            // It takes about as long as the last one; when it does not, it is looked at again and again.
            self.sync_took.saturating_sub(now.elapsed_since(*started)).max(SYNC_LOOK).min(wait)
        });
        if self.is_waiting {
            let (end, rest) = self.rest;
            return until_synced.unwrap_or_else(|| match rest {
                Duration::ZERO => rest,
                rest => rest.saturating_sub(now.elapsed_since(end)).min(wait),
            });
        }
        if self.is_saved() && until_synced.is_none() {
            return wait;
        }
        let until_checkpoint = self.pace.checkpoint.saturating_sub(now.elapsed_since(self.saved_at));
        wait.min(until_checkpoint.max(until_synced.unwrap_or_default()))
    }

    fn take(&mut self, event: LogEvent) -> Result<(), Error> {
        if self.placing.is_some() {
            self.look_at_truncation(&event)?;
        }
        match event {
            LogEvent::Begin(commit) => self.begin(commit),
            LogEvent::Change(change) => self.change(&change),
            LogEvent::Object(object) => self.object(*object),
            LogEvent::Commit { next } => self.commit(next),
            LogEvent::Idle { next } => {
                if !matches!(self.inside, Inside::Nothing) {
                    return Err(self.out_of_order("an idle mark inside a transaction"));
                }
                self.reach(next);
                Ok(())
            }
            LogEvent::Notice(text) => {
                (self.notice)(&text);
                Ok(())
            }
        }
    }

    fn begin(&mut self, commit: Commit) -> Result<(), Error> {
        if !matches!(self.inside, Inside::Nothing) {
            return Err(self.out_of_order("a transaction starts inside another"));
        }
        // While the source replays what the trail holds, commit order is the restart filter's business.
        if !self.restart.is_skipping()
            && let Some(written) = &self.progress.written
            && commit.csn < written.csn
            && !change::sabotage::is_on("skip-restart-filter")
        {
            let what = format!("CSN {} comes after CSN {}", commit.csn, written.csn);
            return Err(self.out_of_order(&what));
        }
        let verdict = self.restart.decide(&commit).map_err(|source| Error::Gap {
            trail: self.trail_name(),
            position: self.progress.position.clone(),
            source,
        })?;
        self.inside = match verdict {
            Verdict::Skip => Inside::Skipping { commit, reason: FilterReason::AlreadyDone, changes: 0 },
            Verdict::Write
                if self.left_out.contains(&commit.transaction) && !change::sabotage::is_on("write-left-out") =>
            {
                Inside::Skipping { commit, reason: FilterReason::LeftOut, changes: 0 }
            }
            Verdict::Write => {
                self.writer.begin(&commit).map_err(|source| self.trail_error("start a transaction in", source))?;
                Inside::Writing { commit, appended: false }
            }
        };
        Ok(())
    }

    fn commit(&mut self, next: LogPosition) -> Result<(), Error> {
        let inside = std::mem::replace(&mut self.inside, Inside::Nothing);
        if let Inside::Nothing = inside {
            return Err(self.out_of_order("a commit outside a transaction"));
        }
        if let Inside::Skipping { commit, reason: FilterReason::LeftOut, changes } = &inside {
            let unread = self.source.open().map_or(0, |open| open.changes_left_out(&commit.transaction));
            self.left_out.end(&commit.transaction, &next);
            if let Some(open) = self.source.open_mut() {
                open.forget_left_out(&commit.transaction);
            }
            (self.notice)(&format!(
                "DRV-00772: transaction {} with CSN {} has committed and is left out: {} changes",
                commit.transaction,
                commit.csn,
                changes + unread
            ));
        }
        self.reach(next);
        if let Inside::Writing { commit, appended } = inside {
            for sequence in if appended { std::mem::take(&mut self.owed) } else { Vec::new() } {
                let owed = self.writer.append_sequence(&sequence);
                owed.map_err(|source| self.trail_error("append to", source))?;
            }
            self.writer.commit().map_err(|source| self.trail_error("end a transaction in", source))?;
            if appended {
                self.is_waiting = true;
                self.progress.transactions += 1;
                self.progress.written = Some(commit);
            }
        }
        self.progress.trail = self.writer.position();
        if change::sabotage::is_on("release-before-sync") {
            let position = self.progress.position.clone();
            self.source.release(&position).map_err(|cause| self.source_error("release the log of", cause))?;
        }
        Ok(())
    }

    /// Reading goes on at `next`.
    fn reach(&mut self, next: LogPosition) {
        self.progress.position = next;
        if !self.restart.is_skipping()
            && let Some(commit) = self.behind.take()
        {
            self.progress.written = Some(commit);
        }
    }

    fn trail_name(&self) -> String {
        let trail = self.checkpoint.extract().and_then(|body| body.trails.first());
        trail.map(|trail| trail.name.clone()).unwrap_or_default()
    }

    fn source_error(&self, action: &'static str, source: database::Error) -> Error {
        Error::Source { action, position: self.progress.position.clone(), source }
    }

    fn trail_error(&self, action: &'static str, source: trail::Error) -> Error {
        Error::Trail { action, trail: self.trail_name(), position: self.writer.position(), source: source.into() }
    }

    fn out_of_order(&self, what: &str) -> Error {
        Error::OutOfOrder { position: self.progress.position.clone(), what: what.to_owned() }
    }
}

/// Finds out what of the source's replay the trail holds: the filter for it, and the trail's last transaction when the
/// checkpoint does not name it yet.
fn meet(
    trail: &str,
    writer: &Writer,
    written: Option<&Commit>,
    source: &mut dyn LogSource,
    position: &LogPosition,
) -> Result<(Restart, Option<Commit>), Error> {
    let last = writer.last_commit();
    if let Some(written) = written
        && last.is_none_or(|last| last.csn < written.csn)
    {
        return Err(Error::TrailBehind {
            trail: trail.to_owned(),
            csn: written.csn.clone(),
            transaction: written.transaction.clone(),
            found: last.map_or("none".to_owned(), |last| format!("{} (CSN {})", last.transaction, last.csn)),
        });
    }
    let Some(last) = last else { return Ok((Restart::after(None), None)) };
    let same = |written: &Commit| written.csn == last.csn && written.transaction == last.transaction;
    let failed = |source| Error::Source { action: "resume", position: position.clone(), source };
    if let Some(written) = written.filter(|written| same(written)) {
        source.verify_written(written).map_err(failed)?;
        return Ok((Restart::after(None), None));
    }
    let resumed = source.resume_after(last).map_err(failed)?;
    Ok((Restart::after((!resumed).then(|| last.clone())), Some(last.clone())))
}

fn body_of(checkpoint: &mut Checkpoint) -> Result<&mut ExtractCheckpoint, Error> {
    match &mut checkpoint.body {
        CheckpointBody::Extract(body) => Ok(body),
        CheckpointBody::Replicat(_) => Err(Error::Unusable { reason: "it belongs to a Replicat".to_owned() }),
    }
}

fn trail_of(body: &ExtractCheckpoint) -> Result<&WriteCheckpoint, Error> {
    match body.trails.as_slice() {
        [trail] => Ok(trail),
        trails => Err(Error::Unusable { reason: format!("it names {} trails, and one is needed", trails.len()) }),
    }
}
