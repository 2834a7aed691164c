//! A log in memory that tells transactions while they are open: the model of a log reader that sees uncommitted work.

use crate::{Error, ErrorClass, OpenEvent, OpenLogSource, Replay};
use change::{Change, Commit, Csn, LogPosition, Operation, RecordAddress, TableDefinition, Timestamp, TransactionId};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A log of interleaved transactions, with savepoints, rollbacks and preparation. Clones are handles of the same log.
///
/// Positions count records. What must come out of it is kept beside it, in the plainest way: a list of changes for each
/// transaction, cut back where a savepoint is rolled back.
#[derive(Clone)]
pub struct MemoryLog {
    state: Arc<Mutex<State>>,
}

struct Entry {
    transaction: u64,
    time: Timestamp,
    record: Record,
}

enum Record {
    Start,
    Change { part: u32, change: Change },
    AbortPart { part: u32 },
    Prepare { name: String },
    Abort,
    Commit(Commit),
}

#[derive(Default)]
struct Open {
    changes: Vec<Change>,
    /// Savepoints that can be rolled back to: the part that began there, and how many changes stood before it.
    savepoints: Vec<(u32, usize)>,
    /// Parts that were opened and not rolled back.
    parts: Vec<u32>,
    next_part: u32,
    current: Vec<u32>,
}

struct State {
    entries: VecDeque<Entry>,
    /// Records that were removed from the front.
    removed: u64,
    released: u64,
    now: Timestamp,
    next_transaction: u64,
    open: BTreeMap<u64, Open>,
    committed: Vec<(Commit, Vec<Change>)>,
    batch_events: usize,
    reads_left: Option<u64>,
    /// Where the last reader started.
    last_start: u64,
}

impl MemoryLog {
    /// An empty log that tells about `batch_events` records in one read.
    pub fn new(batch_events: usize) -> MemoryLog {
        let state = State {
            entries: VecDeque::new(),
            removed: 0,
            released: 0,
            now: Timestamp::default(),
            next_transaction: 1,
            open: BTreeMap::new(),
            committed: Vec::new(),
            batch_events,
            reads_left: None,
            last_start: 0,
        };
        MemoryLog { state: Arc::new(Mutex::new(state)) }
    }

    /// Sets the time that the records from now on carry.
    pub fn set_time(&self, now: Timestamp) {
        self.lock().now = now;
    }

    /// Starts a transaction and returns its number.
    pub fn begin(&self) -> u64 {
        let mut state = self.lock();
        let transaction = state.next_transaction;
        state.next_transaction += 1;
        state.open.insert(transaction, Open { next_part: 1, ..Open::default() });
        state.push(transaction, Record::Start);
        transaction
    }

    /// Makes a change in an open transaction. Does nothing for one that is not open.
    pub fn change(&self, transaction: u64, table: &Arc<TableDefinition>, operation: Operation) {
        let mut state = self.lock();
        let address = RecordAddress { position: state.end(), offset: 0 };
        let Some(open) = state.open.get_mut(&transaction) else { return };
        let change = Change { table: Arc::clone(table), operation, address };
        open.changes.push(change.clone());
        let part = open.current.last().copied().unwrap_or(0);
        state.push(transaction, Record::Change { part, change });
    }

    /// Sets a savepoint.
    pub fn savepoint(&self, transaction: u64) {
        let mut state = self.lock();
        let Some(open) = state.open.get_mut(&transaction) else { return };
        let part = open.next_part;
        open.next_part += 1;
        open.savepoints.push((part, open.changes.len()));
        open.parts.push(part);
        open.current.push(part);
    }

    /// Rolls back to the last savepoint, which goes with it. Every part that was opened since is told as rolled back, the
    /// inner ones first.
    pub fn rollback_to_savepoint(&self, transaction: u64) {
        let mut state = self.lock();
        let Some(open) = state.open.get_mut(&transaction) else { return };
        let Some((part, changes)) = open.savepoints.pop() else { return };
        open.changes.truncate(changes);
        open.current.retain(|other| *other < part);
        let mut gone: Vec<u32> = open.parts.extract_if(.., |other| *other >= part).collect();
        gone.reverse();
        for part in gone {
            state.push(transaction, Record::AbortPart { part });
        }
    }

    /// Releases the last savepoint: its changes now share the fate of what is around it.
    pub fn release_savepoint(&self, transaction: u64) {
        let mut state = self.lock();
        let Some(open) = state.open.get_mut(&transaction) else { return };
        if open.savepoints.pop().is_some() {
            open.current.pop();
        }
    }

    /// Prepares a transaction for two-phase commit.
    pub fn prepare(&self, transaction: u64, name: &str) {
        let mut state = self.lock();
        if state.open.contains_key(&transaction) {
            state.push(transaction, Record::Prepare { name: name.to_owned() });
        }
    }

    /// Commits a transaction.
    pub fn commit(&self, transaction: u64) {
        let mut state = self.lock();
        let Some(open) = state.open.remove(&transaction) else { return };
        let commit =
            Commit { csn: Csn::new(format!("{:020}", state.end())), transaction: name(transaction), time: state.now };
        if !open.changes.is_empty() {
            state.committed.push((commit.clone(), open.changes));
        }
        state.push(transaction, Record::Commit(commit));
    }

    /// Rolls a transaction back.
    pub fn abort(&self, transaction: u64) {
        let mut state = self.lock();
        if state.open.remove(&transaction).is_some() {
            state.push(transaction, Record::Abort);
        }
    }

    /// Numbers of the open transactions, oldest first.
    pub fn open_transactions(&self) -> Vec<u64> {
        self.lock().open.keys().copied().collect()
    }

    /// What an open transaction has changed so far and not taken back.
    pub fn open_changes(&self, transaction: u64) -> Vec<Change> {
        self.lock().open.get(&transaction).map(|open| open.changes.clone()).unwrap_or_default()
    }

    /// The committed transactions that changed something, in commit order.
    pub fn committed(&self) -> Vec<(Commit, Vec<Change>)> {
        self.lock().committed.clone()
    }

    /// The position behind the last record.
    pub fn end(&self) -> LogPosition {
        position(self.lock().end())
    }

    /// Up to where the reader has released the log.
    pub fn released(&self) -> LogPosition {
        position(self.lock().released)
    }

    /// Where the last reader started.
    pub fn last_start(&self) -> LogPosition {
        position(self.lock().last_start)
    }

    /// Removes what is older than `time`, as an administrator does who needs the room.
    pub fn remove_before(&self, time: Timestamp) {
        let mut state = self.lock();
        while state.entries.front().is_some_and(|entry| entry.time < time) {
            state.entries.pop_front();
            state.removed += 1;
        }
    }

    /// Removes everything before `position`.
    pub fn remove_up_to(&self, position: &LogPosition) {
        let mut state = self.lock();
        let until: u64 = position.as_str().parse().unwrap_or_default();
        while state.removed < until && state.entries.pop_front().is_some() {
            state.removed += 1;
        }
    }

    /// Lets the `reads`-th read from now on (from 1) and all later ones of the present reader fail.
    pub fn fail_after(&self, reads: u64) {
        self.lock().reads_left = Some(reads);
    }

    /// A reader from `start` on.
    ///
    /// # Errors
    /// [`ErrorClass::Mismatch`] when the log does not hold that position any more, or not yet.
    pub fn open(&self, start: &LogPosition) -> Result<Box<dyn OpenLogSource>, Error> {
        let mut state = self.lock();
        let known = state.removed..=state.end();
        let place: Option<u64> = start.as_str().parse().ok().filter(|place| known.contains(place));
        let Some(next) = place else {
            let what = format!("the log does not hold position {start}: it goes from {:020} on", state.removed);
            return Err(Error::new(ErrorClass::Mismatch, what)
                .with_next_step("restore the removed log, or copy the tables anew with a new registration"));
        };
        state.reads_left = None;
        state.last_start = next;
        Ok(Box::new(MemoryLogReader { log: self.clone(), next }))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn end(&self) -> u64 {
        self.removed + self.entries.len() as u64
    }

    fn push(&mut self, transaction: u64, record: Record) {
        let time = self.now;
        self.entries.push_back(Entry { transaction, time, record });
    }
}

fn position(number: u64) -> LogPosition {
    LogPosition::new(format!("{number:020}"))
}

fn name(transaction: u64) -> TransactionId {
    TransactionId::new(format!("x{transaction}"))
}

struct MemoryLogReader {
    log: MemoryLog,
    next: u64,
}

impl OpenLogSource for MemoryLogReader {
    fn replay(&self) -> Replay {
        Replay::FromPosition
    }

    fn read(&mut self, events: &mut Vec<OpenEvent>, _wait: Duration) -> Result<(), Error> {
        let mut state = self.log.lock();
        if let Some(left) = &mut state.reads_left {
            *left = left.saturating_sub(1);
            if *left == 0 {
                return Err(Error::new(ErrorClass::ConnectionLost, "the connection to the memory log is lost"));
            }
        }
        if self.next < state.removed {
            let what = format!("the log does not hold position {} any more", position(self.next));
            return Err(Error::new(ErrorClass::Mismatch, what));
        }
        let first = self.next;
        let skipped = (first - state.removed) as usize;
        for entry in state.entries.iter().skip(skipped).take(state.batch_events) {
            tell(entry, self.next, events);
            self.next += 1;
        }
        if self.next > first {
            events.push(OpenEvent::Reached { next: position(self.next) });
        }
        Ok(())
    }

    fn release(&mut self, released: &LogPosition) -> Result<(), Error> {
        let mut state = self.log.lock();
        let Some(number) = released.as_str().parse().ok().filter(|number| *number <= state.end()) else {
            return Err(Error::new(ErrorClass::Mismatch, format!("position {released} is none of this log")));
        };
        state.released = state.released.max(number);
        Ok(())
    }

    fn place_between(&self, written: Option<&Csn>) -> Option<Csn> {
        // Commits are numbered by their records: what was told has a smaller number, and what will be a greater one.
        let least = format!("{:020}~", self.next.checked_sub(1)?);
        Some(match written.filter(|written| written.as_str() >= least.as_str()) {
            Some(written) => Csn::new(format!("{written}~")),
            None => Csn::new(least),
        })
    }

    fn kept_since(&self) -> Option<Timestamp> {
        let state = self.log.lock();
        if state.removed == 0 { None } else { Some(state.entries.front().map_or(state.now, |entry| entry.time)) }
    }
}

fn tell(entry: &Entry, place: u64, events: &mut Vec<OpenEvent>) {
    let (transaction, position) = (name(entry.transaction), position(place));
    match &entry.record {
        Record::Start => events.push(OpenEvent::Start { transaction, position, time: Some(entry.time) }),
        Record::Change { part, change } => {
            events.push(OpenEvent::Chunk { transaction, position });
            events.push(OpenEvent::Change { part: *part, change: change.clone() });
        }
        Record::AbortPart { part } => events.push(OpenEvent::AbortPart { transaction, part: *part, position }),
        Record::Prepare { name } => events.push(OpenEvent::Prepare { transaction, name: name.clone(), position }),
        Record::Abort => events.push(OpenEvent::Abort { transaction, position }),
        Record::Commit(commit) => {
            let next = self::position(place + 1);
            events.push(OpenEvent::Commit { commit: commit.clone(), position, next });
        }
    }
}
