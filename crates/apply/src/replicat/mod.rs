//! The loop that moves transactions from a trail into a target.
//!
//! [`Replicat::step`] does one bounded piece of work: it reads records, lets [`Grouping`] decide what belongs together, and
//! carries out its commands on the session. There is one way back from any failure: roll back, read the checkpoint
//! row, and read the trail again from there.

mod define;
mod setup;
mod singly;
mod target;

pub use setup::{Pace, Progress, ReplicatSetup, Step};

use crate::conflict::ConflictKind;
use crate::conflict_counts::{ConflictCount, ConflictNotice, Conflicts, MethodCounts};
use crate::copies::Copies;
use crate::error::Error;
use crate::error_queue::QueueWriter;
use crate::handling::{Converted, Discard};
use crate::heartbeat::{self, HeartbeatTarget, Heartbeats};
use crate::judge::{DiscardFile, Judge, ParkedNotice};
use crate::plans::{Asked, PlanError, Plans};
use crate::start::Start as Skip;
use crate::statistics::Tally;
use crate::{Applied, Command, Grouping, LagHistogram, StartOptions, mapping};
use change::{Change, Commit, TableName, Timestamp};
use database::{CheckpointRow, Session};
use parameter::DefinitionPlan;
use process::heartbeat::{Arrival, is_heartbeat};
use process::{Checkpoint, CheckpointBody, FilterReason, Statistics, StopStatus};
use std::collections::BTreeMap;
use std::iter::Peekable;
use std::sync::Arc;
use std::time::Duration;
use trail::{Entry, Position, Reader, Record, Start};

/// Records that one step reads at most, so that a caller gets its turn.
const RECORDS_PER_STEP: usize = 4096;

struct Buffered {
    change: Change,
    /// What it becomes, per target; empty where it is written as it is.
    converted: Vec<Converted>,
    /// Its transaction, where somebody may have to be told.
    commit: Option<Commit>,
    plan: usize,
    bytes: usize,
    position: Position,
    /// The heartbeat that it brings.
    arrival: Option<Box<Arrival>>,
}

/// Trouble inside a step, sorted by the way out.
enum Trouble {
    Stop(Error),
    /// Roll back and go on from the checkpoint row, with the same session if it still lives.
    Again {
        reconnect: bool,
        cause: database::Error,
    },
    /// Roll back, and apply what was read one source transaction at a time.
    Apart,
    /// Roll back, and apply what was read one row at a time.
    Singly,
}

/// A running Replicat.
pub struct Replicat {
    setup: ReplicatSetup,
    /// What is left out before the first transaction that is applied.
    start: Skip,
    checkpoint: Checkpoint,
    session: Option<Box<dyn Session>>,
    reader: Option<Reader>,
    /// A reader at the end of a trail that does not go on inside a source transaction. Nothing of that is applied before
    /// it does.
    parked: Option<Reader>,
    /// Since when a target transaction has been waiting for the trail to go on.
    paused_since: Option<Timestamp>,
    /// What is applied once the open group is committed.
    applied: Applied,
    /// What is committed.
    durable: CheckpointRow,
    /// The position that a commit would have saved that failed without an answer.
    in_doubt: Option<Position>,
    grouping: Grouping,
    commands: Vec<Command>,
    buffer: Vec<Buffered>,
    buffered_bytes: usize,
    heartbeats: Heartbeats,
    plans: Plans,
    /// The source transaction that started last.
    current: Option<Commit>,
    /// Why none of it is applied, if it was applied before or is left out on request.
    left_out: Option<FilterReason>,
    /// Commits of the group's source transactions that are complete.
    group: Vec<Commit>,
    /// Counts of the open source transaction, of the group's complete ones, and of what the target transaction took.
    open_tally: Tally,
    group_tally: Tally,
    written_tally: Tally,
    statistics: Statistics,
    lag: LagHistogram,
    progress: Progress,
    /// How far the trail was read.
    read_to: Position,
    /// How far it was read when a group was refused: up to there source transactions are applied one by one.
    apart_until: Option<Position>,
    /// How far rows are written one by one, because one of them was refused.
    singly_until: Option<Position>,
    /// When the next attempt may be made.
    not_before: Option<Timestamp>,
    /// The rules for statements that define objects; without them the group stops at one.
    definitions: Option<DefinitionPlan>,
    /// The statement that runs next, and where it stands.
    defining: Option<crate::definition::Defining>,
    /// Whether a statement has run in the open target transaction.
    has_defined: bool,
    /// Who writes rows one by one.
    judge: Judge,
    discard_file: DiscardFile,
    /// Conflicts, and transactions that were parked, of all that is committed.
    conflicts: Conflicts,
    parked_transactions: Vec<ParkedNotice>,
    position_saved: Timestamp,
    file_saved: Timestamp,
}

impl Replicat {
    /// Connects, reads the group's row from the checkpoint table, and notes the start in the checkpoint file.
    ///
    /// # Errors
    /// [`Error::NoRow`] when the row is lost, [`Error::Row`] when it is of a later version; errors of target and checkpoint
    /// file.
    pub fn new(mut setup: ReplicatSetup) -> Result<Replicat, Error> {
        let mut checkpoint = setup.checkpoint.latest().clone();
        let now = (setup.clock)();
        checkpoint.started = Some(now);
        let CheckpointBody::Replicat(body) = &mut checkpoint.body else {
            return Err(Error::Unusable { reason: "it belongs to an Extract".to_owned() });
        };
        let (group_key, noted) = (body.group_key, body.current);
        let failed = |action, source| Error::Target { action, position: noted, source };
        let mut session = (setup.connect)().map_err(|source| failed("connect to the target", source))?;
        let row = session.load_checkpoint().map_err(|source| failed("read the checkpoint row", source))?;
        let row = row.ok_or_else(|| Error::NoRow { group: setup.group.clone(), group_key })?;
        let applied = setup.applied(row)?;
        let copies = session.load_copies().map_err(|source| failed("read which tables were copied", source))?;
        let copies = Copies::of(copies).map_err(|table| Error::CopyUnfinished { table })?;
        let queue = QueueWriter::open(&mut *session).map_err(|source| failed("look for the error queue", source))?;
        if (setup.rules.queues().0 || setup.rules.keeps_versions()) && queue.is_none() {
            return Err(Error::NoErrorQueue);
        }
        let position = applied.position();
        applied.check_against(noted, body.applied.as_ref())?;
        if position < noted {
            (setup.notice)(&format!(
                "the checkpoint row stands at {position}, the checkpoint file at {noted}: the target was put back, and \
                 goes on from the row"
            ));
        }
        body.startup = position;
        let limits = setup.limits;
        let start = Skip::new(setup.start.from.clone());
        let progress = Progress {
            position,
            last: applied.last(),
            last_commit_time: applied.row().audit_time,
            caught_up: false,
            transactions: 0,
            commits: 0,
            buffered_changes_peak: 0,
            buffered_bytes_peak: 0,
        };
        let plans = plans(&setup.rules, copies);
        let discard_file = DiscardFile::default();
        let author = (setup.group.clone(), group_key);
        let (clock, file) = (Arc::clone(&setup.clock), Arc::clone(&discard_file));
        let judge = Judge::new(author, clock, file, queue.map(Arc::new), setup.rules.queues().1);
        let mut replicat = Replicat {
            judge,
            discard_file,
            parked_transactions: Vec::new(),
            setup,
            start,
            checkpoint,
            session: Some(session),
            reader: None,
            parked: None,
            paused_since: None,
            durable: applied.row().clone(),
            applied,
            in_doubt: None,
            grouping: Grouping::new(limits),
            commands: Vec::new(),
            buffer: Vec::new(),
            buffered_bytes: 0,
            heartbeats: Heartbeats::default(),
            plans,
            current: None,
            left_out: None,
            group: Vec::new(),
            open_tally: Tally::default(),
            group_tally: Tally::default(),
            written_tally: Tally::default(),
            statistics: Statistics::new(now),
            lag: LagHistogram::default(),
            progress,
            read_to: position,
            apart_until: None,
            singly_until: None,
            not_before: None,
            definitions: None,
            defining: None,
            has_defined: false,
            conflicts: Conflicts::default(),
            position_saved: now,
            file_saved: now,
        };
        if let Err(Trouble::Stop(error)) = replicat.load_held() {
            return Err(error);
        }
        replicat.save_file(now, StopStatus::Active)?;
        Ok(replicat)
    }

    /// Reads records until a target transaction is committed, a bound is reached or the trail has nothing more; then waits
    /// for more at most `wait`.
    ///
    /// # Errors
    /// After an error everything before it is applied and durable, and the Replicat must be made anew.
    pub fn step(&mut self, wait: Duration) -> Result<Step, Error> {
        match self.work(wait) {
            Ok(step) => Ok(step),
            Err(Trouble::Stop(error)) => {
                let unsettled = self.judge.take_unsettled();
                self.fall_back(false);
                if let Some(session) = self.session.as_deref_mut()
                    && !self.judge.log_unsettled(session, &unsettled)
                {
                    (self.setup.notice)("the conflict could not be added to the conflict log");
                }
                Err(error)
            }
            Err(Trouble::Apart) => {
                self.apart_until = Some(self.read_to);
                self.fall_back(false);
                self.grouping.set_operations(1);
                let line = "a group can't be applied as a whole: its source transactions are applied one by one";
                (self.setup.notice)(&format!("{line}, from {} to {}", self.applied.position(), self.read_to));
                Ok(Step::Worked)
            }
            Err(Trouble::Singly) => {
                let said = self.singly_until.is_some();
                self.singly_until = Some(self.read_to.max(self.singly_until.unwrap_or_default()));
                self.apart_until = self.apart_until.max(self.singly_until);
                self.fall_back(false);
                self.grouping.set_operations(1);
                if !said {
                    let line = "a row was refused: rows are applied one by one";
                    (self.setup.notice)(&format!("{line}, from {} to {}", self.applied.position(), self.read_to));
                }
                Ok(Step::Worked)
            }
            Err(Trouble::Again { reconnect, cause }) => {
                self.fall_back(reconnect);
                Ok(Step::Retry { cause })
            }
        }
    }

    /// Rolls back what is not complete, and notes the clean stop.
    ///
    /// # Errors
    /// [`Error::CheckpointFile`]; the checkpoint row is right in any case.
    pub fn stop(mut self) -> Result<Progress, Error> {
        self.fall_back(false);
        self.save_file((self.setup.clock)(), StopStatus::Graceful)?;
        Ok(self.progress)
    }

    /// What the Replicat has come to.
    pub fn progress(&self) -> &Progress {
        &self.progress
    }

    /// What was read and what became of it since the start.
    pub fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    /// Lets the group apply heartbeats.
    pub fn set_heartbeats(&mut self, target: HeartbeatTarget) {
        self.heartbeats.set(target);
    }

    /// Gives the group its discard file. Without one, a row that must go there stops the group.
    pub fn set_discard_file(&mut self, file: Box<dyn Discard>) {
        *self.discard_file.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(file);
    }

    /// Gives the group its rules for statements that define objects.
    pub fn set_definitions(&mut self, definitions: DefinitionPlan) {
        self.definitions = Some(definitions);
    }

    /// Conflicts since the start, by source table and kind.
    pub fn conflicts(&self) -> &BTreeMap<(TableName, ConflictKind), ConflictCount> {
        self.conflicts.counts()
    }

    /// Which methods have decided conflicts since the start.
    pub fn conflict_methods(&self) -> &BTreeMap<(TableName, ConflictKind), MethodCounts> {
        self.conflicts.methods()
    }

    /// Conflicts since this was asked last.
    pub fn take_conflicts(&mut self) -> Vec<ConflictNotice> {
        self.conflicts.take_recent()
    }

    /// Transactions that went into the error queue since this was asked last.
    pub fn take_parked(&mut self) -> Vec<ParkedNotice> {
        std::mem::take(&mut self.parked_transactions)
    }

    /// How long the source transactions applied since the start took from commit to commit.
    pub fn lag(&self) -> &LagHistogram {
        &self.lag
    }

    fn work(&mut self, wait: Duration) -> Result<Step, Trouble> {
        if let Some(time) = self.not_before {
            let left = time.micros_since((self.setup.clock)());
            let left = Duration::from_micros(u64::try_from(left).unwrap_or(0));
            if !left.is_zero() {
                std::thread::sleep(left.min(wait));
                return Ok(Step::Idle);
            }
            self.not_before = None;
        }
        if let Some(reader) = &mut self.parked {
            if !reader.wait(wait).map_err(|source| Trouble::Stop(self.trail_error(source)))? {
                self.save_file_if_due()?;
                return Ok(Step::Idle);
            }
            self.parked = None;
        }
        self.connect()?;
        self.open_reader()?;
        let commits = self.progress.commits;
        for _ in 0..RECORDS_PER_STEP {
            let reader = self.reader.as_mut().expect("the reader was opened");
            let entry = reader.next().map_err(|source| self.stop_after_group(self.trail_error(source)))?;
            let Some(entry) = entry else { return self.caught_up(wait) };
            self.take(entry)?;
            if self.progress.commits != commits {
                break;
            }
        }
        self.save_file_if_due()?;
        Ok(Step::Worked)
    }

    fn caught_up(&mut self, wait: Duration) -> Result<Step, Trouble> {
        let now = (self.setup.clock)();
        let waited = now.elapsed_since(self.position_saved);
        self.grouping.caught_up(waited >= self.setup.pace.position, &mut self.commands);
        let worked = !self.commands.is_empty();
        self.run()?;
        self.progress.caught_up = true;
        self.save_file_if_due()?;
        if worked {
            return Ok(Step::Worked);
        }
        let mut wait = wait;
        if self.grouping.has_whole() {
            wait = wait.min(self.setup.pace.position.saturating_sub(waited));
        } else if self.grouping.is_streaming() {
            let paused = now.elapsed_since(*self.paused_since.get_or_insert(now));
            if paused >= self.setup.pace.patience {
                self.park();
                return Ok(Step::Idle);
            }
            wait = wait.min(self.setup.pace.patience - paused);
        }
        let reader = self.reader.as_mut().expect("the reader was opened");
        match reader.wait(wait) {
            Ok(true) => Ok(Step::Worked),
            Ok(false) => Ok(Step::Idle),
            Err(source) => Err(Trouble::Stop(self.trail_error(source))),
        }
    }

    fn take(&mut self, entry: Entry) -> Result<(), Trouble> {
        self.read_to = entry.next;
        self.progress.caught_up = false;
        self.paused_since = None;
        match entry.record {
            Record::Change { place, commit, change, .. } => {
                if place.starts() {
                    self.left_out = self.leaves_out(&commit, entry.position)?;
                    self.current = Some(commit.clone());
                }
                let bytes = self.buffer(change, &commit, entry.position)?;
                let refused = self.grouping.change(place, bytes, &mut self.commands);
                refused.map_err(|refused| {
                    self.stop_after_group(Error::OutOfPlace { position: entry.position, place: refused.place })
                })?;
                if place.ends() {
                    self.applied.note(&commit, entry.next);
                    self.group_tally.take_in(&mut self.open_tally);
                    self.group.push(commit);
                }
            }
            Record::Restart { .. } => self.writer_restarted(entry.position),
            Record::Statement { place, commit, statement } => {
                self.statement(place, commit, statement, (entry.position, entry.next))?;
            }
            Record::Sequence { place, commit, sequence } => {
                self.sequence(place, commit, &sequence, (entry.position, entry.next))?;
            }
            Record::Header(header) => {
                self.judge.origin = Some(header.source.name.clone()).filter(|name| !name.is_empty());
            }
            Record::Definition(_) | Record::Partition(_) | Record::Comment(_) | Record::Other { .. } => {}
        }
        if self.commands.is_empty() { Ok(()) } else { self.run() }
    }

    fn inapplicable(&mut self, what: &'static str, position: Position) -> Trouble {
        self.stop_after_group(Error::Inapplicable { what, position })
    }

    /// Why the transaction that starts at `position` is left out, if it is.
    fn leaves_out(&mut self, commit: &Commit, position: Position) -> Result<Option<FilterReason>, Trouble> {
        if self.applied.covers(commit) && !change::sabotage::is_on("skip-duplicate-filter") {
            return Ok(Some(FilterReason::AlreadyDone));
        }
        let (leaves_out, skipped) = self.start.leaves_out(commit).map_err(|wrong| Trouble::Stop(wrong.into()))?;
        if let Some(skipped) = skipped {
            let Commit { csn, transaction, .. } = commit;
            (self.setup.notice)(&format!(
                "applying starts at {position}, CSN {csn}, transaction {transaction}; transactions left out before it, as asked \
                 for: {skipped}"
            ));
        }
        Ok(leaves_out.then_some(FilterReason::Skipped))
    }

    /// What START REPLICAT would have to say so that another attempt does what this one was asked for.
    pub fn start_options(&self) -> StartOptions {
        StartOptions { from: self.start.from().clone(), ..self.setup.start.clone() }
    }

    /// Counts a change and puts it into the buffer, unless there is nothing to write for it. Returns the bytes that it keeps
    /// when it was put there.
    fn buffer(&mut self, change: Change, commit: &Commit, position: Position) -> Result<Option<usize>, Trouble> {
        if is_heartbeat(&change.table) {
            return self.buffer_heartbeat(&change, position);
        }
        let kind = change.operation.kind();
        let plan = self.plan(&change, position)?;
        let counts = self.open_tally.counts(plan, kind);
        counts.read += 1;
        let filtered = self.left_out.or_else(|| self.plans.get(plan).filter(commit));
        if let Some(reason) = filtered {
            counts.filter(reason, 1);
            return Ok(None);
        }
        let targets = &self.plans.get(plan).written.targets;
        if let Some(untold) = targets.iter().find_map(|plan| mapping::untold_key(plan, &change.operation)) {
            return Err(self.stop_after_group(Error::Mapping { position, source: Box::new(untold) }));
        }
        let bytes = self.kept_bytes(&change, position);
        self.buffered_bytes += bytes;
        let mapped = self.plans.get(plan);
        let converted = mapped.convert(&change);
        let commit = (!mapped.written.is_plain()).then(|| commit.clone());
        self.buffer.push(Buffered { change, converted, commit, plan, bytes, position, arrival: None });
        let progress = &mut self.progress;
        progress.buffered_changes_peak = progress.buffered_changes_peak.max(self.buffer.len());
        progress.buffered_bytes_peak = progress.buffered_bytes_peak.max(self.buffered_bytes);
        Ok(Some(bytes))
    }

    /// Puts what a heartbeat becomes into the buffer. It is no row of anybody's, and not counted.
    fn buffer_heartbeat(&mut self, change: &Change, position: Position) -> Result<Option<usize>, Trouble> {
        if self.left_out.is_some() {
            return Ok(None);
        }
        let now = (self.setup.clock)();
        let low = self.progress.last.as_ref().map(|(csn, _)| csn);
        let taken = self.heartbeats.take(change, now, low, &mut self.setup.notice);
        let arrival = match taken {
            Ok(heartbeat::Fate::Arrives(arrival)) => arrival,
            Ok(heartbeat::Fate::Dropped) => return Ok(None),
            Err(unreadable) => {
                (self.setup.notice)(&format!("the heartbeat at {position} is dropped: {unreadable}"));
                return Ok(None);
            }
        };
        let session = self.session.as_deref_mut().expect("the session was opened");
        let found = self.plans.heartbeats(&self.heartbeats, session, position);
        let plan = found.map_err(|error| match error {
            PlanError::Stop(error) => self.stop_after_group(error),
            PlanError::Session(source) => self.target_trouble("look up the heartbeat tables of the target", source),
        })?;
        let change = self.heartbeats.change(&arrival, now, change);
        let bytes = self.kept_bytes(&change, position);
        self.buffered_bytes += bytes;
        let arrival = Some(arrival);
        self.buffer.push(Buffered { change, converted: Vec::new(), commit: None, plan, bytes, position, arrival });
        Ok(Some(bytes))
    }

    /// Notes in the oldest `count` buffered changes, where they are heartbeats, that the target is about to have them.
    fn receive_heartbeats(&mut self, count: usize) {
        let mut received = None;
        for buffered in &mut self.buffer[..count] {
            if let Some(arrival) = &buffered.arrival {
                let received = *received.get_or_insert_with(|| (self.setup.clock)());
                buffered.change.operation = heartbeat::operation(arrival, received);
            }
        }
    }

    /// Bytes that a change keeps in memory: those of its values, or what was read with them since the last change that is kept.
    fn kept_bytes(&self, change: &Change, position: Position) -> usize {
        let read = match self.buffer.last() {
            Some(last) if last.position.sequence == position.sequence => position.rba.saturating_sub(last.position.rba),
            _ => Reader::KEPT_BYTES_MAX,
        };
        change.operation.value_bytes().max(read.min(Reader::KEPT_BYTES_MAX) as usize)
    }

    fn writer_restarted(&mut self, position: Position) {
        if self.grouping.is_inside() {
            self.open_tally.settle_abandoned(&mut self.statistics, |plan| self.plans.get(plan).counted_as);
            (self.setup.notice)(&format!(
                "the writer of the trail was restarted: a transaction that it left open before {position} is dropped, and \
                 comes again"
            ));
        }
        self.grouping.restart(&mut self.commands);
        self.left_out = None;
    }

    fn plan(&mut self, change: &Change, position: Position) -> Result<usize, Trouble> {
        let session = self.session.as_deref_mut().expect("the session was opened");
        let found = self.plans.find(&change.table, &self.setup.rules, session, &mut self.statistics, position);
        found.map_err(|error| match error {
            PlanError::Stop(error) => self.stop_after_group(error),
            PlanError::Session(source) => self.target_trouble("look up the table of a change in the target", source),
        })
    }

    /// The way out of something that stands behind the whole transactions of the group: they are applied first, so that they
    /// do not wait for the operator.
    fn stop_after_group(&self, error: Error) -> Trouble {
        let is_apart = self.group.is_empty() || self.apart_until.is_some();
        if is_apart { Trouble::Stop(error) } else { Trouble::Apart }
    }

    /// Carries out the commands that the grouping gave.
    fn run(&mut self) -> Result<(), Trouble> {
        let mut commands = std::mem::take(&mut self.commands);
        let result = self.carry_out(&mut commands.drain(..).peekable());
        self.commands = commands;
        result
    }

    fn carry_out(&mut self, commands: &mut Peekable<impl Iterator<Item = Command>>) -> Result<(), Trouble> {
        while let Some(command) = commands.next() {
            match command {
                Command::Begin => self.begin()?,
                Command::Write(count) if commands.next_if_eq(&Command::Commit).is_some() => {
                    self.write_and_commit(count)?;
                }
                Command::Define => self.define()?,
                Command::Write(count) => self.write(count)?,
                Command::Commit => self.write_and_commit(0)?,
                Command::Drop(count) => {
                    let kept = self.buffer.len() - count;
                    self.buffered_bytes -= self.buffer.drain(kept..).map(|dropped| dropped.bytes).sum::<usize>();
                }
                Command::Rollback => {
                    self.written_tally.clear();
                    self.judge.forget_open();
                    self.session().rollback().map_err(|source| self.target_trouble("roll back", source))?;
                    self.forget_tables_if_defined();
                }
            }
        }
        Ok(())
    }

    /// Lets the target go until the trail goes on.
    fn park(&mut self) {
        let reader = self.reader.take();
        self.fall_back(false);
        self.parked = reader;
        let line =
            "the trail does not go on inside a transaction: what the target took of it is rolled back until it does";
        (self.setup.notice)(&format!("{line}, after {}", self.read_to));
    }

    fn open_reader(&mut self) -> Result<(), Trouble> {
        if self.reader.is_some() {
            return Ok(());
        }
        // Where the trail repeats itself the last transaction before a position may be another one than the row's. Reading
        // goes on behind the row's then, and what comes again is filtered; without the filter it must not come again.
        let after = if self.setup.start.filter_duplicates { self.applied.last() } else { None };
        let start = Start::At { position: self.applied.position(), after };
        let (storage, keys) = (Arc::clone(&self.setup.storage), self.setup.keys.clone());
        let reader = Reader::open_with(storage, self.setup.trail, start, &self.setup.definitions, keys);
        let reader = reader.map_err(|source| Trouble::Stop(self.trail_error(source)))?;
        self.read_to = reader.position();
        self.reader = Some(reader);
        Ok(())
    }

    /// Gives up what is not committed: it will be read again from the last committed position.
    fn fall_back(&mut self, reconnect: bool) {
        if reconnect || self.session.as_mut().is_some_and(|session| session.rollback().is_err()) {
            self.session = None;
        }
        self.forget_tables_if_defined();
        self.defining = None;
        self.buffer.clear();
        self.buffered_bytes = 0;
        self.commands.clear();
        self.grouping.reset();
        self.start.go_back();
        self.left_out = None;
        self.reader = None;
        self.parked = None;
        self.paused_since = None;
        if self.in_doubt.is_none() {
            self.judge.forget_open();
            self.forget_uncommitted();
            self.applied = self.setup.applied(self.durable.clone()).expect("the row was accepted before");
        }
    }

    fn forget_uncommitted(&mut self) {
        self.group.clear();
        self.open_tally.clear();
        self.group_tally.clear();
        self.written_tally.clear();
    }

    fn save_file_if_due(&mut self) -> Result<(), Trouble> {
        let now = (self.setup.clock)();
        if now.elapsed_since(self.file_saved) >= self.setup.pace.checkpoint_file {
            self.save_file(now, StopStatus::Active).map_err(Trouble::Stop)?;
        }
        Ok(())
    }

    fn save_file(&mut self, now: Timestamp, stop_status: StopStatus) -> Result<(), Error> {
        self.checkpoint.updated = now;
        self.checkpoint.stop_status = stop_status;
        if let CheckpointBody::Replicat(body) = &mut self.checkpoint.body {
            body.current = self.progress.position;
            // Always the two of one row, so that a row that was altered later shows.
            let progress = &self.progress;
            // Without the filter the watermark may go back before the file is saved again.
            let is_sure = self.setup.start.filter_duplicates || stop_status == StopStatus::Graceful;
            let last = progress.last.clone().zip(progress.last_commit_time).filter(|_| is_sure);
            body.applied = last.map(|((csn, transaction), time)| Commit { csn, transaction, time });
        }
        self.setup.checkpoint.save(&self.checkpoint).map_err(|source| Error::CheckpointFile(source.into()))?;
        self.file_saved = now;
        Ok(())
    }

    fn trail_error(&self, source: trail::Error) -> Error {
        Error::Trail { position: self.read_to, source: source.into() }
    }
}

/// No plans yet, with what changes touch where later transactions may be held back or must be put in order.
fn plans(rules: &parameter::MapPlan, copies: Copies) -> Plans {
    Plans::asked_over(copies, Asked::Nothing, rules.queues().0)
}
