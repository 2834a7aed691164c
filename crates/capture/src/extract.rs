//! The loop that moves committed transactions from a source into a trail.
//!
//! [`Extract::step`] does one bounded piece of work. The order of what makes things durable is fixed: append, sync the
//! trail, save the checkpoint, and only then tell the source what it may forget. The sync runs beside the reading: what is
//! appended meanwhile waits for the next one, and checkpoint and release follow what is synced.

use crate::error::Error;
use crate::heartbeat::Heartbeats;
use crate::left_out::LeftOut;
use crate::open::CommittedSource;
use crate::partition::{Place, Placing};
use crate::restart::{Restart, Verdict};
use crate::{Filter, PartitionedTables, Reading, describe};
use change::{
    Change, Commit, LogPosition, ObjectChange, Operation, OperationKind, SequenceState, TableDefinition, TableName,
    Timestamp, TransactionId,
};
use database::{ErrorClass, LogEvent, LogSource, TableSelection, is_heartbeat_object};
use parameter::DefinitionPlan;
use process::heartbeat::ExtractNotes;
use process::{
    Checkpoint, CheckpointBody, CheckpointFile, Code, ExtractCheckpoint, FilterReason, Statistics, StopStatus,
    WriteCheckpoint,
};
use std::sync::Arc;
use std::time::Duration;
use trail::{ChangeDetails, Position, Synced, Writer};

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

    /// How far it has come since its start.
    pub fn phase(&self) -> Phase {
        match self.source.open() {
            Some(open) if open.is_recovering() => Phase::Rereading,
            _ if self.restart.is_skipping() => Phase::Skipping,
            _ => Phase::Complete,
        }
    }

    /// Leaves `transaction` out when it commits. That is durable when this returns.
    ///
    /// # Errors
    /// Errors of the checkpoint file.
    pub fn leave_out(&mut self, transaction: &TransactionId) -> Result<LeaveOut, Error> {
        if self.left_out.contains(transaction) {
            return Ok(LeaveOut::NotedBefore);
        }
        let is_inside = matches!(&self.inside, Inside::Writing { commit, .. } if commit.transaction == *transaction);
        if is_inside || self.source.open().is_some_and(|open| open.is_handing_out(transaction)) {
            return Ok(LeaveOut::Committed);
        }
        if self.left_out.is_full() {
            return Ok(LeaveOut::NoRoom);
        }
        let now = (self.clock)();
        self.left_out.insert(transaction, now);
        self.save(now, StopStatus::Active)?;
        if let Some(open) = self.source.open_mut() {
            open.leave_out(transaction);
        }
        Ok(LeaveOut::Noted)
    }

    /// Forgets those of the transactions to leave out that were asked for before `asked` and that `is_open` does not know:
    /// they were rolled back, and their names may come again.
    pub fn forget_ended(&mut self, asked: Timestamp, is_open: impl Fn(&TransactionId) -> bool) {
        let position = self.progress.position.clone();
        let ended: Vec<TransactionId> = self
            .left_out
            .open()
            .filter(|told| told.asked < asked && !is_open(&told.transaction))
            .map(|told| told.transaction.clone())
            .collect();
        for transaction in ended {
            self.left_out.end(&transaction, &position);
            if let Some(open) = self.source.open_mut() {
                open.forget_left_out(&transaction);
            }
        }
    }

    /// The transactions to leave out that have not ended.
    pub fn left_out(&self) -> Vec<TransactionId> {
        self.left_out.open().map(|told| told.transaction.clone()).collect()
    }

    /// Goes on in a new trail file, and returns where that begins. `None` inside a transaction: it may be tried again after
    /// the next step.
    ///
    /// # Errors
    /// Errors of the trail.
    pub fn roll_over(&mut self) -> Result<Option<Position>, Error> {
        if !matches!(self.inside, Inside::Nothing) {
            return Ok(None);
        }
        let rolled = self.writer.roll_over().map_err(|source| self.trail_error("start a new file of", source))?;
        self.is_waiting = true;
        self.progress.trail = rolled;
        Ok(Some(rolled))
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

    fn change(&mut self, change: &Change) -> Result<(), Error> {
        let skipping = match &mut self.inside {
            Inside::Nothing => return Err(self.out_of_order("a change outside a transaction")),
            Inside::Skipping { reason, changes, .. } => {
                *changes += 1;
                Some(*reason)
            }
            Inside::Writing { .. } => None,
        };
        if self.heartbeats.as_ref().is_some_and(|heartbeats| heartbeats.knows(&change.table)) {
            return if skipping.is_some() { Ok(()) } else { self.heartbeat(change) };
        }
        let place = match &mut self.placing {
            None => None,
            Some(placing) => placing.find(&change.table).map_err(|cause| self.source_error("look at", cause))?,
        };
        if let Some(place) = place {
            return self.change_of_partition(&place, change, skipping);
        }
        let (selected, table) = self.filter.find(&change.table, &mut self.statistics);
        let kind = change.operation.kind();
        self.statistics.counts_mut(table, kind).read += 1;
        if skipping.is_some() || !selected {
            let reason = skipping.unwrap_or(FilterReason::NotMapped);
            if !change::sabotage::is_on("uncounted-filter") {
                self.statistics.counts_mut(table, kind).filter(reason, 1);
            }
            return Ok(());
        }
        self.append(change, None)?;
        self.statistics.counts_mut(table, kind).written += 1;
        Ok(())
    }

    fn append(&mut self, change: &Change, details: Option<&ChangeDetails>) -> Result<(), Error> {
        self.writer.append_with(change, details).map_err(|source| self.trail_error("append to", source))?;
        self.is_waiting = true;
        if let Inside::Writing { appended, .. } = &mut self.inside {
            *appended = true;
        }
        Ok(())
    }

    /// Takes a change of a partition that statements are about.
    fn change_of_partition(
        &mut self,
        place: &Place,
        change: &Change,
        skipping: Option<FilterReason>,
    ) -> Result<(), Error> {
        let (selected, table) = self.filter.find(&place.table, &mut self.statistics);
        let kind = change.operation.kind();
        let reason = match (skipping, selected, place.is_excluded) {
            (Some(reason), _, _) => Some(reason),
            (_, false, _) => Some(FilterReason::NotMapped),
            (_, _, true) => Some(FilterReason::Excluded),
            _ => None,
        };
        match (reason, &change.operation) {
            (Some(reason), _) => {
                let counts = self.statistics.counts_mut(table, kind);
                counts.read += 1;
                counts.filter(reason, 1);
                Ok(())
            }
            // It counts once all its partitions are known.
            (None, Operation::Truncate(options)) => {
                if let Some(placing) = &mut self.placing {
                    placing.truncate(place, change, *options);
                }
                Ok(())
            }
            (None, _) => {
                self.statistics.counts_mut(table, kind).read += 1;
                self.append(&place.change(change), place.details.as_ref())?;
                self.statistics.counts_mut(table, kind).written += 1;
                Ok(())
            }
        }
    }

    /// Writes a truncation that was told partition by partition, once `event` shows that it is told to its end.
    fn look_at_truncation(&mut self, event: &LogEvent) -> Result<(), Error> {
        let change = match event {
            LogEvent::Notice(_) => return Ok(()),
            LogEvent::Change(change) => Some(change),
            _ => None,
        };
        let Some(placing) = &mut self.placing else { return Ok(()) };
        let failure = placing.failure();
        let ends = match failure {
            Some(failure) => Err(failure),
            None => placing.ends_truncation(change),
        };
        let told = match ends {
            Ok(true) => placing.end_truncation(),
            Ok(false) => None,
            Err(cause) => return Err(self.source_error("look at", cause)),
        };
        let Some((truncation, left)) = told else { return Ok(()) };
        if let Some(left) = left {
            return Err(Error::PartitionTruncated {
                position: self.progress.position.clone(),
                partition: truncation.partition().into(),
                table: truncation.table.name.clone().into(),
                left: left.into(),
            });
        }
        let (_, table) = self.filter.find(&truncation.table, &mut self.statistics);
        self.statistics.counts_mut(table, OperationKind::Truncate).read += 1;
        let operation = Operation::Truncate(truncation.options);
        let change = Change { table: Arc::clone(&truncation.table), operation, address: truncation.address };
        self.append(&change, None)?;
        self.statistics.counts_mut(table, OperationKind::Truncate).written += 1;
        Ok(())
    }

    /// Takes what the transaction did to an object of the database.
    fn object(&mut self, object: ObjectChange) -> Result<(), Error> {
        match self.inside {
            Inside::Nothing => return Err(self.out_of_order("a statement outside a transaction")),
            Inside::Skipping { reason, .. } => {
                // Where a sequence stands is told once, and counts for later transactions too.
                if let (FilterReason::LeftOut, ObjectChange::Sequence(sequence)) = (reason, object) {
                    self.owed.push(sequence);
                }
                return Ok(());
            }
            Inside::Writing { .. } => {}
        }
        match object {
            ObjectChange::Definition(statement) => {
                let own = TableName::new(&*statement.owner, &*statement.object);
                // Each site has heartbeat tables of its own, and makes and mends them itself.
                if is_heartbeat_object(&own) || statement.base.as_ref().is_some_and(is_heartbeat_object) {
                    return Ok(());
                }
                let is_mapped =
                    self.filter.selects(&own) || statement.base.as_ref().is_some_and(|base| self.filter.selects(base));
                if !self.definitions.includes(&statement, is_mapped) {
                    let code = Code::DefinitionPassedOver;
                    (self.notice)(&format!("{code}: {} is not carried: the DDL rules leave it out", statement.title()));
                    return Ok(());
                }
                if !statement.untold.is_empty() {
                    let (position, title) = (self.progress.position.clone(), statement.title());
                    return Err(Error::Untold { position, title, reason: statement.untold });
                }
                if self.definitions.reports {
                    (self.notice)(&format!("{}: {} is carried", Code::DefinitionCarried, statement.title()));
                }
                let appended = self.writer.append_statement(&statement);
                appended.map_err(|source| self.trail_error("append to", source))?;
            }
            ObjectChange::Sequence(sequence) => {
                let appended = self.writer.append_sequence(&sequence);
                appended.map_err(|source| self.trail_error("append to", source))?;
            }
        }
        self.is_waiting = true;
        if let Inside::Writing { appended, .. } = &mut self.inside {
            *appended = true;
        }
        Ok(())
    }

    /// Passes a heartbeat on. It is no row of a user's, and not counted.
    fn heartbeat(&mut self, change: &Change) -> Result<(), Error> {
        let Inside::Writing { commit, appended } = &mut self.inside else { return Ok(()) };
        let body = self.checkpoint.extract();
        let notes = ExtractNotes {
            now: (self.clock)(),
            csn: Some(commit.csn.as_str().to_owned()),
            restart: body.map(|body| body.recovery.position.as_str().to_owned()),
            restart_time: body.and_then(|body| body.current.time),
        };
        let Some(heartbeats) = &mut self.heartbeats else { return Ok(()) };
        let passed = match heartbeats.pass(change, notes) {
            Ok(Some(passed)) => passed,
            Ok(None) => return Ok(()),
            Err(unreadable) => {
                (self.notice)(&format!("a row of {} is dropped: {unreadable}", change.table.name));
                return Ok(());
            }
        };
        *appended = true;
        self.is_waiting = true;
        self.writer.append(&passed).map_err(|source| self.trail_error("append to", source))
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

    /// Makes durable what is due.
    fn settle(&mut self, idle: bool) -> Result<(), Error> {
        self.hear_of_sync()?;
        let now = (self.clock)();
        if !self.is_waiting {
            self.note_read();
        } else {
            if change::sabotage::is_on("checkpoint-before-sync") {
                self.safe = self.mark(self.safe.trail);
                self.save(now, StopStatus::Active)?;
            }
            let since = *self.waiting_since.get_or_insert(now);
            let (end, synced) = (self.writer.position(), self.safe.trail);
            // A file that was finished since the last sync counts as enough.
            let waiting = if end.sequence == synced.sequence { end.rba - synced.rba } else { u64::MAX };
            let is_due = idle || waiting >= self.pace.sync_bytes || now.elapsed_since(since) >= self.pace.sync_delay;
            if is_due && self.syncing.is_none() {
                self.start_sync(now)?;
                self.hear_of_sync()?;
            }
        }
        if idle && !self.is_waiting && self.syncing.is_none() && matches!(self.inside, Inside::Nothing) {
            self.caught_up = Some(now);
        }
        if now.elapsed_since(self.saved_at) >= self.pace.checkpoint {
            if !self.is_saved() || self.is_checkpoint_old() || self.is_bounded_new() {
                self.save(now, StopStatus::Active)?;
            }
            self.release()?;
        }
        Ok(())
    }

    /// Syncs everything, and waits for it.
    fn sync(&mut self) -> Result<(), Error> {
        let end = self.writer.sync().map_err(|source| self.trail_error("sync", source))?;
        self.syncing = None;
        self.is_waiting = false;
        self.waiting_since = None;
        self.safe = self.mark(end);
        self.progress.trail = end;
        Ok(())
    }

    /// Starts a sync of everything so far. What is read meanwhile waits for the next one.
    fn start_sync(&mut self, now: Timestamp) -> Result<(), Error> {
        let end = self.writer.start_sync().map_err(|source| self.trail_error("sync", source))?;
        self.is_waiting = false;
        self.waiting_since = None;
        self.progress.trail = end;
        let mark = self.mark(end);
        if !self.writer.is_syncing() || change::sabotage::is_on("believe-started-sync") {
            self.safe = mark.clone();
        }
        self.syncing = self.writer.is_syncing().then_some((mark, now));
        Ok(())
    }

    /// Takes note of a sync that has ended.
    fn hear_of_sync(&mut self) -> Result<(), Error> {
        let finished = self.writer.finished_sync().map_err(|source| self.trail_error("sync", source))?;
        let Some(Synced { took, .. }) = finished else { return Ok(()) };
        if let Some((mark, started)) = self.syncing.take() {
            let rest = took.saturating_mul(self.pace.sync_rest).min(self.pace.sync_delay);
            let micros = started.unix_micros.saturating_add(i64::try_from(took.as_micros()).unwrap_or(i64::MAX));
            self.rest = (Timestamp::from_unix_micros(micros), rest);
            self.sync_took = took;
            self.safe = mark;
        }
        Ok(())
    }

    /// Everything that was read and written so far, as it is when the trail is synced up to `trail`.
    fn mark(&self, trail: Position) -> Mark {
        Mark { position: self.progress.position.clone(), written: self.progress.written.clone(), trail }
    }

    /// Nothing was written since the last sync was started: what was read since is safe with it.
    fn note_read(&mut self) {
        let safe = self.syncing.as_mut().map_or(&mut self.safe, |(mark, _)| mark);
        safe.position.clone_from(&self.progress.position);
        safe.written.clone_from(&self.progress.written);
    }

    fn is_saved(&self) -> bool {
        self.checkpoint.extract().is_some_and(|body| body.recovery.position == self.safe.position)
    }

    /// Whether Bounded Recovery has come to a checkpoint that ours does not tell of.
    fn is_bounded_new(&self) -> bool {
        let told = self.checkpoint.extract().and_then(|body| body.bounded.as_ref());
        let counts = self.source.open().and_then(|open| open.bounded_checkpoint());
        counts.map(|bounded| bounded.number) != told.map(|bounded| bounded.number)
    }

    /// Whether the checkpoint tells of a time long before the one at which we had caught up.
    fn is_checkpoint_old(&self) -> bool {
        let (Some(body), Some(caught_up)) = (self.checkpoint.extract(), self.caught_up) else { return false };
        body.current.time.is_none_or(|time| caught_up.micros_since(time) >= CAUGHT_UP_EVERY.as_micros() as i64)
    }

    /// Saves the checkpoint with the safe position. What it says must be synced.
    fn save(&mut self, now: Timestamp, stop_status: StopStatus) -> Result<(), Error> {
        if matches!(self.inside, Inside::Nothing) && !self.statistics.balanced() {
            let total = self.statistics.total();
            let (read, written, filtered) = (total.read, total.written, total.filtered_total());
            let detail = format!("{read} read, {written} written, {filtered} filtered");
            return Err(Error::Unbalanced { position: self.progress.position.clone(), detail });
        }
        self.checkpoint.updated = now;
        self.checkpoint.stop_status = stop_status;
        let safe = &self.safe;
        let body = body_of(&mut self.checkpoint)?;
        body.recovery.position.clone_from(&safe.position);
        body.recovery.time = safe.written.as_ref().map(|commit| commit.time);
        body.current.clone_from(&body.recovery);
        // A source that is quiet is not behind: everything up to that moment was read.
        body.current.time = body.recovery.time.max(self.caught_up);
        body.written.clone_from(&safe.written);
        body.bounded = self.source.open().and_then(|open| open.bounded_checkpoint());
        if !change::sabotage::is_on("forget-left-out") {
            body.left_out = self.left_out.at(&safe.position);
        }
        for trail in &mut body.trails {
            trail.position = Some(safe.trail);
        }
        let saved = self.file.save(&self.checkpoint);
        saved
            .map_err(|source| Error::Checkpoint { position: self.progress.position.clone(), source: source.into() })?;
        self.saved_at = now;
        self.unreleased = Some(self.safe.position.clone());
        Ok(())
    }

    /// Tells the source what it may forget. A source that is busy is asked again after the next checkpoint.
    fn release(&mut self) -> Result<(), Error> {
        let Some(position) = &self.unreleased else { return Ok(()) };
        match self.source.release(position) {
            Ok(()) => self.unreleased = None,
            Err(cause) if cause.class() == ErrorClass::Transient => {}
            Err(cause) => return Err(self.source_error("release the log of", cause)),
        }
        Ok(())
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
