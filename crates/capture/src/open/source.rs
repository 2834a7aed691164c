//! Committed transactions out of a log that tells uncommitted work.

use super::committed::{CommittedTransaction, Done};
use super::error::Error;
use super::position::Place;
use super::prepared::PreparedFiles;
use super::store::{OpenTransaction, Store};
use crate::bounded::{Bounded, Restored};
use change::{Commit, Csn, LogPosition, Timestamp, TransactionId};
use database::{ErrorClass, LogEvent, LogSource, OpenEvent, OpenLogSource, Replay};
use process::BoundedCheckpoint;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use trail::storage::Storage;

/// Events that one read returns at most, about.
const BATCH_EVENTS: usize = 2000;

/// What a [`CommittedSource`] is made of.
pub struct CommittedSourceSetup {
    /// Where to read on, as an earlier event named it.
    pub start: LogPosition,
    /// Where open transactions are kept. Empty.
    pub store: Store,
    /// Bounded Recovery, where it is on.
    pub bounded: Option<Bounded>,
    /// Transactions that are left out when they commit.
    pub left_out: Vec<TransactionId>,
    /// Where prepared transactions are kept, with the group's name, for a source that tells them once.
    pub prepared: Option<(Arc<dyn Storage>, String)>,
    /// The time now.
    pub clock: Arc<dyn Fn() -> Timestamp + Send + Sync>,
}

/// The transaction whose changes come now.
enum Current {
    /// Its changes are kept.
    Kept(TransactionId),
    /// Its changes are known already, or will be skipped at its commit.
    Ignored,
}

/// A transaction that is being handed out.
struct Handing {
    commit: Commit,
    changes: CommittedTransaction,
    next: LogPosition,
    is_begun: bool,
    /// Whether it is told although it holds no change: who reads wants to know that it has ended.
    is_told_empty: bool,
}

/// Reads a log that tells uncommitted work, and tells committed transactions.
///
/// # Positions
/// Over a log that replays [from a position](Replay::FromPosition), positions are [`Place`]s: transactions that committed before
/// the current one are not told again, although reading starts at the recovery one. Over a log that replays
/// [whole transactions](Replay::WholeTransactions), positions are the log's own.
pub struct CommittedSource {
    source: Box<dyn OpenLogSource>,
    replay: Replay,
    store: Store,
    bounded: Option<Bounded>,
    prepared: Option<PreparedFiles>,
    clock: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    events: Vec<OpenEvent>,
    waiting: VecDeque<OpenEvent>,
    current: Option<Current>,
    handing: Option<Handing>,
    notices: Vec<String>,
    /// Where reading goes on by what was told last.
    told: LogPosition,
    /// The current position that was released last.
    released: Option<LogPosition>,
    /// What committed before here is in the trail.
    done: LogPosition,
    /// Everything before here was told to us.
    reached: LogPosition,
    /// Transactions that came from persisted objects, and where these were taken: what the log tells of them before is in
    /// the objects.
    restored: HashSet<TransactionId>,
    restored_at: Option<LogPosition>,
    /// Transactions that are left out, with the number of their changes once they have committed.
    left_out: HashMap<TransactionId, u64>,
}

impl CommittedSource {
    /// Restores what Bounded Recovery has persisted and opens the log, with `open`, where reading must start. `None` when
    /// `open` says that the database tells committed work only.
    ///
    /// # Errors
    /// Errors of the log. What was persisted and can't be used is no error: reading starts earlier then.
    pub fn open(
        setup: CommittedSourceSetup,
        open: impl FnOnce(&LogPosition) -> Result<Option<Box<dyn OpenLogSource>>, database::Error>,
    ) -> Result<Option<CommittedSource>, database::Error> {
        let CommittedSourceSetup { start, mut store, mut bounded, left_out, prepared, clock } = setup;
        let place = Place::parse(&start);
        let now = clock();
        let mut notices = Vec::new();
        let Restored { begin, end, transactions, notice } = match &mut bounded {
            Some(bounded) => bounded.restore(now, &place, &mut store).map_err(stop)?,
            None => Restored::default(),
        };
        let prepared = prepared.map(|(storage, group)| PreparedFiles::open(storage, &group, &start)).transpose();
        let mut prepared = prepared.map_err(stop)?;
        let from = begin.unwrap_or(place.recovery);
        let Some(source) = open(&from).map_err(|error| with_notice(error, &notice))? else { return Ok(None) };
        notices.extend(notice);
        if let Some(prepared) = &mut prepared {
            prepared.restore(&mut store, |start| source.knows(start)).map_err(stop)?;
        }
        left_out.iter().for_each(|transaction| store.leave_out(transaction));
        if !source.tells_prepared_once() {
            if prepared.as_ref().is_some_and(|prepared| !prepared.is_empty()) {
                let what =
                    "prepared transactions are kept that this source would have to end, and it does not tell of them";
                return Err(database::Error::new(ErrorClass::Mismatch, what).with_next_step(
                    "put TRANLOGOPTIONS TWOPHASE back, and take it away when no transaction is prepared",
                ));
            }
            prepared = None;
        }
        let replay = source.replay();
        if replay == Replay::WholeTransactions
            && let Some(bounded) = &mut bounded
        {
            bounded.rest();
        }
        let mut opened = CommittedSource {
            replay,
            source,
            prepared,
            store,
            bounded,
            clock,
            events: Vec::new(),
            waiting: VecDeque::new(),
            current: None,
            handing: None,
            notices,
            told: start,
            released: None,
            done: place.current,
            reached: from,
            restored: transactions,
            restored_at: end,
            left_out: left_out.into_iter().map(|transaction| (transaction, 0)).collect(),
        };
        opened.warn_of_short_log(now);
        Ok(Some(opened))
    }

    /// The transactions that are open, as far as the log has told them, oldest first.
    pub fn open_transactions(&self) -> Vec<OpenTransaction> {
        self.store.list()
    }

    /// What is kept for them: bytes of memory, the most it ever was, and bytes that were spilled so far.
    pub fn kept(&self) -> (usize, usize, u64) {
        (self.store.memory(), self.store.memory_peak(), self.store.spilled_bytes_total())
    }

    /// Whether reading has not come to the Current Checkpoint yet: what committed before it is passed over.
    pub fn is_recovering(&self) -> bool {
        self.replay == Replay::FromPosition && self.reached < self.done
    }

    /// Leaves `transaction` out when it commits, whether it was told already or not. What was kept of it goes.
    pub fn leave_out(&mut self, transaction: &TransactionId) {
        self.store.leave_out(transaction);
        self.left_out.insert(transaction.clone(), 0);
    }

    /// Whether `transaction` has committed and is being handed out.
    pub fn is_handing_out(&self, transaction: &TransactionId) -> bool {
        self.handing.as_ref().is_some_and(|handing| handing.commit.transaction == *transaction)
    }

    /// Hands out next what is kept of an open transaction, as though it had committed behind `written`, and leaves out what it
    /// does later. Returns the commit; `None` when there is no place for it in commit order now.
    ///
    /// # Errors
    /// Errors of the transaction's spill file.
    pub(crate) fn force(
        &mut self,
        transaction: &TransactionId,
        written: Option<&Csn>,
    ) -> Result<Option<Commit>, database::Error> {
        // What was told and not handed out yet comes first.
        if self.handing.is_some() || !self.waiting.is_empty() || self.is_recovering() {
            return Ok(None);
        }
        let Some(csn) = self.source.place_between(written) else { return Ok(None) };
        let changes = self.store.commit(transaction).map_err(stop)?;
        self.left_out.insert(transaction.clone(), 0);
        if matches!(&self.current, Some(Current::Kept(current)) if current == transaction) {
            self.current = Some(Current::Ignored);
        }
        let commit = Commit { csn, transaction: transaction.forced(), time: (self.clock)() };
        let next = self.told.clone();
        self.handing = Some(Handing { commit: commit.clone(), changes, next, is_begun: false, is_told_empty: true });
        Ok(Some(commit))
    }

    /// Whether anything is kept of `transaction`, and is to be written when it commits.
    pub fn keeps(&self, transaction: &TransactionId) -> bool {
        self.store.is_open(transaction) && !self.left_out.contains_key(transaction)
    }

    /// Takes that back for a transaction of which nothing was told.
    pub fn forget_left_out(&mut self, transaction: &TransactionId) {
        self.left_out.remove(transaction);
    }

    /// Changes of a transaction that was left out and has committed: those that nobody was told of.
    pub fn changes_left_out(&self, transaction: &TransactionId) -> u64 {
        self.left_out.get(transaction).copied().unwrap_or_default()
    }

    /// Bounded Recovery, where it has something to do.
    pub(crate) fn bounded(&mut self) -> Option<&mut Bounded> {
        let can_be_bounded = self.can_be_bounded();
        self.bounded.as_mut().filter(|_| can_be_bounded)
    }

    /// The BR checkpoint that counts.
    pub(crate) fn bounded_checkpoint(&self) -> Option<BoundedCheckpoint> {
        self.bounded.as_ref().filter(|_| self.can_be_bounded())?.checkpoint()
    }

    /// Whether Bounded Recovery has something to do over this log.
    pub fn can_be_bounded(&self) -> bool {
        self.replay == Replay::FromPosition
    }

    fn take(&mut self, event: OpenEvent, events: &mut Vec<LogEvent>) -> Result<(), Error> {
        match event {
            OpenEvent::Start { transaction, position, time } => {
                if self.is_restored(&transaction, &position) {
                    self.current = Some(Current::Ignored);
                } else {
                    let time = time.or_else(|| Some((self.clock)()));
                    self.store.start(&transaction, position, time);
                    if self.left_out.contains_key(&transaction) {
                        self.store.leave_out(&transaction);
                    }
                    self.current = Some(Current::Kept(transaction));
                }
            }
            OpenEvent::Chunk { transaction, .. }
                if self.prepared.is_some()
                    && !self.store.is_open(&transaction)
                    && !self.left_out.contains_key(&transaction) =>
            {
                if !change::sabotage::is_on("pass-missing-prepared") {
                    return Err(Error::PreparedMissing { transaction });
                }
                self.current = Some(Current::Ignored);
            }
            OpenEvent::Chunk { transaction, position } => {
                self.current = Some(if self.is_known(&transaction, &position, "changes")? {
                    Current::Kept(transaction)
                } else {
                    Current::Ignored
                });
            }
            OpenEvent::Change { part, change } => match &self.current {
                Some(Current::Kept(transaction)) => self.store.append(transaction, part, &change)?,
                Some(Current::Ignored) => {}
                None => {
                    let transaction = TransactionId::new("of no name");
                    return Err(Error::Unknown { what: "a change", transaction });
                }
            },
            OpenEvent::Object { part, object } => match &self.current {
                Some(Current::Kept(transaction)) => self.store.append_object(transaction, part, &object)?,
                Some(Current::Ignored) => {}
                None => {
                    let transaction = TransactionId::new("of no name");
                    return Err(Error::Unknown { what: "a statement", transaction });
                }
            },
            OpenEvent::AbortPart { transaction, part, position } => {
                if self.is_known(&transaction, &position, "the end of a part")? {
                    self.store.abort_part(&transaction, part)?;
                }
            }
            OpenEvent::Prepare { transaction, name, position } => {
                if self.is_known(&transaction, &position, "the preparation")? {
                    self.store.prepare(&transaction, &name)?;
                    if let Some(prepared) = &mut self.prepared {
                        prepared.keep(&transaction, &mut self.store)?;
                    }
                }
            }
            OpenEvent::Abort { transaction, position } => {
                if !self.is_restored(&transaction, &position) {
                    self.store.abort(&transaction);
                    if let Some(prepared) = &mut self.prepared {
                        prepared.end(&transaction, &position)?;
                    }
                }
            }
            OpenEvent::Commit { commit, position, next } => {
                if !self.is_restored(&commit.transaction, &position) {
                    self.commit(commit, next)?;
                }
            }
            OpenEvent::Reached { next } => {
                self.reached.clone_from(&next);
                if self.replay == Replay::WholeTransactions {
                    events.push(LogEvent::Idle { next });
                } else if self.reached >= self.done {
                    events.push(LogEvent::Idle { next: self.place() });
                }
            }
            OpenEvent::Committed(event) => events.push(event),
        }
        Ok(())
    }

    /// Whether what the log tells here is in the persisted object already.
    fn is_restored(&self, transaction: &TransactionId, position: &LogPosition) -> bool {
        self.restored_at.as_ref().is_some_and(|end| position < end)
            && self.restored.contains(transaction)
            && !change::sabotage::is_on("repeat-persisted-changes")
    }

    /// Whether a transaction is kept of which the log tells something. One that started before our start and ended before
    /// what was done is passed over.
    fn is_known(&self, transaction: &TransactionId, position: &LogPosition, what: &'static str) -> Result<bool, Error> {
        if self.is_restored(transaction, position) {
            return Ok(false);
        }
        if self.store.is_open(transaction) {
            return Ok(true);
        }
        // What is left out holds no log, and its start may lie before ours.
        if self.left_out.contains_key(transaction) {
            return Ok(false);
        }
        if self.replay == Replay::FromPosition && *position < self.done {
            return Ok(false);
        }
        Err(Error::Unknown { what, transaction: transaction.clone() })
    }

    fn commit(&mut self, commit: Commit, next: LogPosition) -> Result<(), Error> {
        self.restored.remove(&commit.transaction);
        if self.replay == Replay::FromPosition {
            self.reached.clone_from(&next);
            if next <= self.done && !change::sabotage::is_on("hand-out-again") {
                self.store.abort(&commit.transaction);
                return Ok(());
            }
        }
        if let Some(prepared) = &mut self.prepared {
            prepared.end(&commit.transaction, &next)?;
        }
        let records = self.store.transaction(&commit.transaction).map_or(0, |open| open.records);
        let left_out = self.left_out.get_mut(&commit.transaction).map(|changes| *changes = records);
        let changes = self.store.commit(&commit.transaction)?;
        let is_told_empty = left_out.is_some();
        self.handing = Some(Handing { commit, changes, next, is_begun: false, is_told_empty });
        Ok(())
    }

    /// Hands out changes of the transaction that has committed, until `events` is full.
    fn hand_out(&mut self, events: &mut Vec<LogEvent>) -> Result<(), Error> {
        while events.len() < BATCH_EVENTS {
            let Some(handing) = &mut self.handing else { return Ok(()) };
            match handing.changes.next()? {
                Some(done) => {
                    if !std::mem::replace(&mut handing.is_begun, true) {
                        events.push(LogEvent::Begin(handing.commit.clone()));
                    }
                    events.push(match done {
                        Done::Change(change) => LogEvent::Change(change),
                        Done::Object(object) => LogEvent::Object(object),
                    });
                }
                None => {
                    if handing.is_told_empty && !std::mem::replace(&mut handing.is_begun, true) {
                        events.push(LogEvent::Begin(handing.commit.clone()));
                    }
                    let (next, is_begun) = (handing.next.clone(), handing.is_begun);
                    self.handing = None;
                    let next = if self.replay == Replay::FromPosition { self.place() } else { next };
                    events.push(if is_begun { LogEvent::Commit { next } } else { LogEvent::Idle { next } });
                }
            }
        }
        Ok(())
    }

    /// Where reading would have to go on now.
    fn place(&self) -> LogPosition {
        let recovery = self.store.oldest().unwrap_or(&self.reached).clone();
        Place { current: self.reached.clone(), recovery }.position()
    }

    /// Takes events that are there and hands out what has committed, until `events` is full or nothing is left.
    fn work_off(&mut self, events: &mut Vec<LogEvent>) -> Result<(), Error> {
        loop {
            self.hand_out(events)?;
            if self.handing.is_some() || events.len() >= BATCH_EVENTS {
                return Ok(());
            }
            let Some(event) = self.waiting.pop_front() else { return Ok(()) };
            self.take(event, events)?;
        }
    }

    /// Remembers where reading goes on behind `events`, so that no later word goes back behind it.
    fn note_told(&mut self, events: &[LogEvent]) {
        if let Some(next) = events.iter().rev().find_map(next_of) {
            self.told.clone_from(next);
        }
    }

    /// What is due at this time, between two batches.
    fn look_at_the_clock(&mut self) -> Result<(), Error> {
        let now = (self.clock)();
        if let Some(bounded) = &mut self.bounded
            && bounded.is_due(now)
            && self.replay == Replay::FromPosition
            && self.reached >= self.done
        {
            self.notices.extend(bounded.take_checkpoint(now, &self.reached, &mut self.store)?);
            // A quiet log may have been released up to here long ago.
            if let Some(released) = &self.released {
                self.notices.extend(bounded.reached(released));
            }
            self.warn_of_short_log(now);
        }
        Ok(())
    }

    fn warn_of_short_log(&mut self, now: Timestamp) {
        if let (Some(bounded), Some(kept)) = (&mut self.bounded, self.source.kept_since())
            && self.replay == Replay::FromPosition
        {
            self.notices.extend(bounded.warn_of_short_log(now, kept));
        }
    }
}

impl LogSource for CommittedSource {
    fn read(&mut self, events: &mut Vec<LogEvent>, wait: Duration) -> Result<(), database::Error> {
        self.work_off(events).map_err(stop)?;
        if events.is_empty() && self.waiting.is_empty() && self.handing.is_none() {
            self.look_at_the_clock().map_err(stop)?;
        }
        events.extend(self.notices.drain(..).map(LogEvent::Notice));
        self.note_told(events);
        if !events.is_empty() {
            return Ok(());
        }
        let read = self.source.read(&mut self.events, wait);
        let is_busy = !self.events.is_empty();
        // What was told before an error counts.
        self.waiting.extend(self.events.drain(..));
        self.work_off(events).map_err(stop)?;
        if is_busy && events.is_empty() && read.is_ok() {
            // Nobody may take a log for quiet that tells a large open transaction.
            events.push(LogEvent::Idle { next: self.told.clone() });
        }
        self.note_told(events);
        read
    }

    fn resume_after(&mut self, commit: &Commit) -> Result<bool, database::Error> {
        self.source.resume_after(commit)
    }

    fn verify_written(&mut self, commit: &Commit) -> Result<(), database::Error> {
        self.source.verify_written(commit)
    }

    fn release(&mut self, position: &LogPosition) -> Result<(), database::Error> {
        if let Some(prepared) = &mut self.prepared {
            // One whose end the source did not tell again, because the trail holds it, may be open here still.
            for transaction in prepared.forget_before(position).map_err(stop)? {
                self.store.abort(&transaction);
            }
        }
        if self.replay == Replay::WholeTransactions {
            return self.source.release(position);
        }
        let place = Place::parse(position);
        if let Some(bounded) = &mut self.bounded {
            self.notices.extend(bounded.reached(&place.current));
        }
        self.released = Some(place.current);
        self.source.release(&place.recovery)
    }
}

/// The error of a log that can't be opened, with what Bounded Recovery had to say: it may be why older log was asked for.
fn with_notice(error: database::Error, notice: &[String]) -> database::Error {
    let Some(notice) = notice.last() else { return error };
    let told = database::Error::new(error.class(), format!("{error}. {notice}"));
    match error.next_step().map(str::to_owned) {
        Some(step) => told.with_next_step(step).with_cause(error),
        None => told.with_cause(error),
    }
}

/// Where reading goes on behind an event.
fn next_of(event: &LogEvent) -> Option<&LogPosition> {
    match event {
        LogEvent::Commit { next } | LogEvent::Idle { next } => Some(next),
        _ => None,
    }
}

/// The error by which an Extract stops.
fn stop(error: Error) -> database::Error {
    let step = error.next_step();
    database::Error::new(ErrorClass::Permanent, "can't keep the transactions that are open at the source")
        .with_next_step(step)
        .with_cause(error)
}
