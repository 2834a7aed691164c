//! The loop that moves transactions from a trail into a target by several sessions at once.
//!
//! The thread that steps a [`ParallelReplicat`] reads the trail, maps, and hands whole transactions to the schedule; with the first
//! applier's session it lends a hand whenever it has nothing to read or no room for more, so that a quiet trail
//! is applied without waking anybody. The other appliers have threads of their own, which take groups from the shared board.
//!
//! A transaction that is too large to keep in memory is written while it is read, when everything before it is
//! committed, by one applier, and committed when its end is there. Nothing else is applied meanwhile.
//!
//! In a coordinated group ([`ParallelSetup::threads`]) the MAPs say which thread applies a change, in place of write sets: a source
//! transaction falls into a part for each thread, and each thread has a row that speaks for itself. Schedule, appliers and
//! everything else are the same.
//!
//! There is one way back from a lost connection: all sessions are given up, and new ones read the checkpoint rows.

mod alone;
mod applier;
mod at_work;
mod board;
mod by_rules;
mod connect;
mod coordinate;
mod intake;
mod progress;
mod setup;
mod side_by_side;
mod split;
mod standing;
mod stream;
mod work;

pub use at_work::AtWork;
pub use setup::{ConnectApplier, Crew, ParallelSetup};
pub use side_by_side::SideBySide;

use crate::conflict::ConflictKind;
use crate::conflict_counts::{ConflictCount, ConflictNotice, Conflicts, MethodCounts};
use crate::error::Error;
use crate::handling::Discard;
use crate::heartbeat::{HeartbeatTarget, Heartbeats};
use crate::judge::{Attempts, DiscardFile, ParkedNotice};
use crate::plans::Plans;
use crate::replicat::{Progress, Step};
use crate::schedule::{Lane, Supply, WriteSet};
use crate::start::Start as Skip;
use crate::{LagHistogram, StartOptions, Watermarks};
use alone::Alone;
use board::Board;
use change::{Commit, TableName, Timestamp};
use connect::Team;
use coordinate::Coordination;
use parameter::DefinitionPlan;
use process::{Checkpoint, CheckpointBody, FilterReason, Statistics, StopStatus};
use std::collections::BTreeMap;
use std::time::Duration;
use stream::Streaming;
use trail::{Entry, Position, Reader, Record};
use work::{Buffered, Counted, Retrial, Transaction};

/// Records that one step reads at most, so that a caller gets its turn.
const RECORDS_PER_STEP: usize = 4096;
/// Transactions, and changes in them, that are handed to the schedule at once: a lock and a wake-up for each would cost more
/// than applying them.
const BATCH_TRANSACTIONS: usize = 64;
const BATCH_CHANGES: usize = 512;
/// Who applies heartbeats in a coordinated group: its first thread, so that those of one way keep their order.
const HEARTBEAT_LANE: Lane = Lane::Thread(1);
/// How long the reader waits for appliers before it looks again whether the trail goes on.
const GLANCE: Duration = Duration::from_millis(2);

/// Trouble inside a step, sorted by the way out.
enum Trouble {
    Stop(Error),
    /// All sessions are given up, and what is not committed is read again.
    Again(database::Error),
    /// The same again after a while.
    Pause(database::Error),
    /// What is not committed is read again, and nothing is wrong.
    Anew,
}

/// The last transactions that were read, so that one that the trail holds twice is seen.
#[derive(Default)]
struct Seen {
    /// The highest CSN, and the transactions that share it.
    last: Option<Commit>,
    shared: Vec<change::TransactionId>,
}

impl Seen {
    fn covers(&self, commit: &Commit) -> bool {
        self.last.as_ref().is_some_and(|last| {
            commit.csn < last.csn || (commit.csn == last.csn && self.shared.contains(&commit.transaction))
        })
    }

    fn note(&mut self, commit: &Commit) {
        if self.last.as_ref().is_none_or(|last| last.csn < commit.csn) {
            self.shared.clear();
        }
        self.shared.push(commit.transaction.clone());
        self.last = Some(commit.clone());
    }
}

/// A running Replicat that applies in parallel.
pub struct ParallelReplicat {
    setup: ParallelSetup,
    checkpoint: Checkpoint,
    team: Option<Team>,
    /// The sessions were never opened.
    is_new: bool,
    /// Nothing more is read.
    is_finished: bool,
    reader: Option<Reader>,
    /// A reader at the end of a trail that does not go on inside a transaction that was being written.
    parked: Option<Reader>,
    paused_since: Option<Timestamp>,
    /// What is left out before the first transaction that is applied.
    start: Skip,
    /// What was applied when the sessions were opened.
    marks: Option<Watermarks>,
    seen: Seen,
    plans: Plans,
    heartbeats: Heartbeats,
    /// The open source transaction: whether there is one, its changes and what they touch.
    current: Option<Commit>,
    is_inside: bool,
    /// Why none of it is applied, if it was applied before or is left out on request.
    left_out: Option<FilterReason>,
    open: Vec<Buffered>,
    open_bytes: usize,
    open_read: Counted,
    touches: WriteSet,
    /// Of a coordinated group: who applies what of it.
    coordination: Option<Coordination>,
    /// Operations of it that were read, those that pieces do not hold from `piece_start` on, and pieces that were made.
    inside: u64,
    piece_start: u64,
    given: Option<split::Given>,
    /// What was to be applied at most is read, and then applied.
    is_reached: bool,
    is_synchronized: bool,
    last_kept: Option<Position>,
    /// A transaction that is written while it is read.
    streaming: Option<Streaming>,
    /// A transaction with a statement that defines objects.
    alone: Option<Alone>,
    /// One that turned out to hold such a statement when a part of it was written already.
    wanted_alone: Option<(change::Csn, change::TransactionId)>,
    /// The rules for such statements; without them the group stops at one.
    definitions: Option<DefinitionPlan>,
    /// A transaction that was being written while it was read, and comes again to be judged.
    retrial: Option<Box<Retrial>>,
    /// How often the oldest transaction was tried again, while there is no board to keep it.
    attempts: Option<Attempts>,
    /// When it may be tried again.
    not_before: Option<Timestamp>,
    discard_file: DiscardFile,
    /// Conflicts, and transactions that were parked, of all that is committed.
    conflicts: Conflicts,
    parked_transactions: Vec<ParkedNotice>,
    /// Whole transactions on their way to the schedule.
    batch: Vec<(Transaction, Option<WriteSet>)>,
    batch_changes: usize,
    /// What stops the group when everything before it is applied.
    ending: Option<Error>,
    statistics: Statistics,
    /// Of sessions that were given up.
    side_by_side: SideBySide,
    lag: LagHistogram,
    progress: Progress,
    read_to: Position,
    position_saved: Timestamp,
    /// When it was last looked at whether the group's row of a coordinated group is behind.
    group_moved: Timestamp,
    file_saved: Timestamp,
}

impl ParallelReplicat {
    /// Connects, unites the group's rows of the checkpoint table, and notes the start in the checkpoint file.
    ///
    /// # Errors
    /// [`Error::NoRow`] when the group's row is lost; [`Error::Row`] when a row is of a later version, an applier's row is gone,
    /// or the MAP rules changed while transactions were partly applied; errors of target and checkpoint file.
    pub fn new(mut setup: ParallelSetup) -> Result<ParallelReplicat, Error> {
        let mut checkpoint = setup.common.checkpoint.latest().clone();
        let now = (setup.common.clock)();
        checkpoint.started = Some(now);
        let CheckpointBody::Replicat(body) = &mut checkpoint.body else {
            return Err(Error::Unusable { reason: "it belongs to an Extract".to_owned() });
        };
        let noted = body.current;
        let progress = Progress {
            position: noted,
            last: None,
            last_commit_time: None,
            caught_up: false,
            transactions: 0,
            commits: 0,
            buffered_changes_peak: 0,
            buffered_bytes_peak: 0,
        };
        setup.limit();
        let start = Skip::new(setup.common.start.from.clone());
        let mut replicat = ParallelReplicat {
            setup,
            checkpoint,
            team: None,
            is_new: true,
            is_finished: false,
            reader: None,
            parked: None,
            paused_since: None,
            start,
            marks: None,
            seen: Seen::default(),
            plans: Plans::default(),
            heartbeats: Heartbeats::default(),
            current: None,
            is_inside: false,
            left_out: None,
            open: Vec::new(),
            open_bytes: 0,
            open_read: Counted::default(),
            touches: WriteSet::new(),
            coordination: None,
            inside: 0,
            piece_start: 0,
            given: None,
            is_reached: false,
            is_synchronized: false,
            last_kept: None,
            streaming: None,
            alone: None,
            wanted_alone: None,
            definitions: None,
            retrial: None,
            attempts: None,
            not_before: None,
            discard_file: DiscardFile::default(),
            conflicts: Conflicts::default(),
            parked_transactions: Vec::new(),
            batch: Vec::new(),
            batch_changes: 0,
            ending: None,
            statistics: Statistics::new(now),
            side_by_side: SideBySide::default(),
            lag: LagHistogram::default(),
            progress,
            read_to: noted,
            position_saved: now,
            group_moved: now,
            file_saved: now,
        };
        replicat.connect().map_err(|trouble| match trouble {
            Trouble::Stop(error) => error,
            Trouble::Again(source) | Trouble::Pause(source) => {
                Error::Target { action: "open the sessions of the appliers", position: noted, source }
            }
            Trouble::Anew => unreachable!("nothing is read yet"),
        })?;
        let position = replicat.progress.position;
        if position < noted {
            (replicat.setup.common.notice)(&format!(
                "the checkpoint rows stand at {position}, the checkpoint file at {noted}: the target was put back, and goes on \
                 from the rows"
            ));
        }
        if let CheckpointBody::Replicat(body) = &mut replicat.checkpoint.body {
            body.startup = position;
        }
        replicat.save_file(now, StopStatus::Active)?;
        Ok(replicat)
    }

    /// Reads records until a bound is reached or the trail has nothing more, and helps to apply; then waits for more at most
    /// `wait`.
    ///
    /// # Errors
    /// After an error everything before it is applied and durable, and what comes later and does not depend on it may be, too.
    /// The Replicat must be made anew.
    pub fn step(&mut self, wait: Duration) -> Result<Step, Error> {
        match self.work(wait) {
            Ok(step) => Ok(step),
            Err(Trouble::Stop(error)) => {
                self.fall_back();
                Err(error)
            }
            Err(Trouble::Again(cause)) => {
                self.fall_back();
                Ok(Step::Retry { cause })
            }
            Err(Trouble::Pause(cause)) => Ok(Step::Retry { cause }),
            Err(Trouble::Anew) => {
                self.fall_back();
                Ok(Step::Worked)
            }
        }
    }

    /// Applies what is read, so that no transaction stays applied before an earlier one. What the target does not take now is
    /// left for the next start.
    pub fn finish(&mut self) {
        if self.is_finished || self.streaming.is_some() || self.alone.is_some() || self.team.is_none() {
            return;
        }
        self.is_finished = true;
        self.flush();
        let begun = (self.setup.common.clock)();
        let is_patient = |replicat: &ParallelReplicat| {
            (replicat.setup.common.clock)().elapsed_since(begun) < replicat.setup.common.pace.patience
        };
        while let Ok(false) = self.drain(Duration::from_millis(100))
            && is_patient(self)
        {}
        self.unite_rows();
    }

    /// [Finishes](ParallelReplicat::finish), and notes the clean stop.
    ///
    /// # Errors
    /// [`Error::CheckpointFile`]; the checkpoint rows are right in any case.
    pub fn stop(mut self) -> Result<Progress, Error> {
        self.finish();
        self.stop_at_once()
    }

    /// Rolls back what is not committed, and notes the clean stop. The rows of the appliers stay apart until the next one.
    ///
    /// # Errors
    /// As [`stop`](ParallelReplicat::stop).
    pub fn stop_at_once(mut self) -> Result<Progress, Error> {
        self.fall_back();
        self.save_file((self.setup.common.clock)(), StopStatus::Graceful)?;
        Ok(self.progress.clone())
    }

    /// Gives the group its rules for statements that define objects.
    pub fn set_definitions(&mut self, definitions: DefinitionPlan) {
        self.definitions = Some(definitions);
    }

    /// Lets the group apply heartbeats.
    pub fn set_heartbeats(&mut self, target: HeartbeatTarget) {
        self.heartbeats.set(target);
    }

    /// Gives the group its discard file. Without one, a row that must go there stops the group.
    pub fn set_discard_file(&mut self, file: Box<dyn Discard>) {
        *self.discard_file.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(file);
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

    /// What the Replicat has come to.
    pub fn progress(&self) -> &Progress {
        &self.progress
    }

    /// What was read and what became of it since the start.
    pub fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    /// How long the source transactions applied since the start took from commit to commit.
    pub fn lag(&self) -> &LagHistogram {
        &self.lag
    }

    /// How much was applied side by side since the start.
    pub fn side_by_side(&self) -> SideBySide {
        let mut side_by_side = self.side_by_side;
        if let Some(team) = &self.team {
            let board = team.shared.lock();
            side_by_side.take_in(board.schedule.tally(), board.at_work);
        }
        side_by_side
    }

    fn work(&mut self, wait: Duration) -> Result<Step, Trouble> {
        if let Some(time) = self.not_before {
            let left = time.micros_since((self.setup.common.clock)());
            let left = Duration::from_micros(u64::try_from(left).unwrap_or(0));
            if !left.is_zero() {
                std::thread::sleep(left.min(wait));
                return Ok(Step::Idle);
            }
            self.not_before = None;
            if let Some(team) = &self.team {
                team.shared.lock().not_before = None;
                team.shared.call_all();
            }
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
        self.look_at_board()?;
        if self.ending.is_some() {
            if !self.drain(wait)? {
                return Ok(Step::Worked);
            }
            return Err(Trouble::Stop(self.ending.take().expect("it is there")));
        }
        if self.is_reached {
            self.is_synchronized = self.drain(wait)?;
            return Ok(Step::Worked);
        }
        for _ in 0..RECORDS_PER_STEP {
            if !self.stream_is_served(wait)? || !self.alone_is_served(wait)? {
                return Ok(Step::Worked);
            }
            let reader = self.reader.as_mut().expect("the reader was opened");
            match reader.next() {
                Ok(Some(entry)) => self.take(entry)?,
                Ok(None) => return self.caught_up(wait),
                Err(source) => self.ending = Some(self.trail_error(source)),
            }
            if self.ending.is_some() || self.is_reached {
                break;
            }
            let is_batch = self.batch.len() >= BATCH_TRANSACTIONS || self.batch_changes >= BATCH_CHANGES;
            if is_batch && self.flush() {
                self.make_room(wait);
                break;
            }
        }
        self.flush();
        self.look_at_board()?;
        self.move_group_if_due()?;
        self.save_file_if_due()?;
        Ok(Step::Worked)
    }

    /// Hands the batch to the schedule. Returns whether that is full now.
    fn flush(&mut self) -> bool {
        let team = self.team.as_ref().expect("the sessions were opened");
        let mut board = team.shared.lock();
        board.supply = Supply::Flows;
        for (transaction, touches) in self.batch.drain(..) {
            board.arrive(transaction, touches.as_ref());
        }
        self.batch_changes = 0;
        let is_full = board.schedule.is_full();
        let groups = board.schedule.groups_waiting();
        drop(board);
        team.offer(groups);
        is_full
    }

    /// Applies until there is room for more, or waits for those who do.
    fn make_room(&mut self, wait: Duration) {
        let team = self.team.as_mut().expect("the sessions were opened");
        if !team.help() {
            team.shared.await_done(wait, |board| board.schedule.is_half_empty() || board.halt.is_some());
        }
    }

    /// Applies everything that was read. Returns whether that is done.
    fn drain(&mut self, wait: Duration) -> Result<bool, Trouble> {
        self.flush();
        let team = self.team.as_mut().expect("the sessions were opened");
        team.pause();
        while team.help() {}
        let is_done = team.shared.await_done(wait.min(GLANCE), |board| board.is_idle() || board.halt.is_some());
        self.look_at_board()?;
        Ok(is_done && self.team.as_ref().is_some_and(|team| team.shared.lock().is_idle()))
    }

    fn caught_up(&mut self, wait: Duration) -> Result<Step, Trouble> {
        self.flush();
        let team = self.team.as_mut().expect("the sessions were opened");
        team.pause();
        let has_worked = team.help();
        self.look_at_board()?;
        self.save_file_if_due()?;
        if has_worked {
            return Ok(Step::Worked);
        }
        let team = self.team.as_mut().expect("the sessions were opened");
        if !team.shared.lock().is_idle() {
            team.shared.await_done(wait.min(GLANCE), |board| !board.finished.is_empty() || board.halt.is_some());
            self.look_at_board()?;
            return Ok(Step::Worked);
        }
        self.progress.caught_up = true;
        self.is_reached |= self.setup.synchronizes && self.is_at_high();
        let team = self.team.as_mut().expect("the sessions were opened");
        let now = (self.setup.common.clock)();
        let mut wait = wait;
        let is_inside = self.streaming.is_some() || self.alone.as_ref().is_some_and(|alone| alone.is_begun);
        if self.progress.position < team.shared.lock().low().next && !is_inside {
            let waited = now.elapsed_since(self.position_saved);
            if waited >= self.setup.common.pace.position {
                self.save_position(now)?;
                return Ok(Step::Worked);
            }
            wait = wait.min(self.setup.common.pace.position - waited);
        } else if is_inside {
            let paused = now.elapsed_since(*self.paused_since.get_or_insert(now));
            if paused >= self.setup.common.pace.patience {
                self.park();
                return Ok(Step::Idle);
            }
            wait = wait.min(self.setup.common.pace.patience - paused);
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
                self.change(place, commit, change, (entry.position, entry.next))
            }
            Record::Restart { .. } => self.writer_restarted(entry.position),
            Record::Statement { place, commit, statement } => {
                self.statement(place, commit, statement, (entry.position, entry.next))
            }
            Record::Sequence { place, commit, sequence } => {
                self.sequence(place, &commit, &sequence, (entry.position, entry.next))
            }
            Record::Header(header) => {
                let origin = Some(header.source.name.clone()).filter(|name| !name.is_empty());
                self.team.as_ref().expect("the sessions were opened").shared.lock().origin = origin;
                Ok(())
            }
            Record::Definition(_) | Record::Partition(_) | Record::Comment(_) | Record::Other { .. } => Ok(()),
        }
    }

    /// What START REPLICAT would have to say so that another attempt does what this one was asked for.
    pub fn start_options(&self) -> StartOptions {
        StartOptions { from: self.start.from().clone(), ..self.setup.common.start.clone() }
    }

    fn target_trouble(&self, action: &'static str, source: database::Error) -> Trouble {
        match source.class() {
            database::ErrorClass::Transient | database::ErrorClass::ConnectionLost => Trouble::Again(source),
            _ => Trouble::Stop(Error::Target { action, position: self.progress.position, source }),
        }
    }

    /// Lets the target go until the trail goes on.
    fn park(&mut self) {
        let reader = self.reader.take();
        self.fall_back();
        self.parked = reader;
        let line =
            "the trail does not go on inside a transaction: what the target took of it is rolled back until it does";
        (self.setup.common.notice)(&format!("{line}, after {}", self.read_to));
    }

    fn trail_error(&self, source: trail::Error) -> Error {
        Error::Trail { position: self.read_to, source: source.into() }
    }
}
