//! What the reader of the trail and the appliers share: the schedule, the transactions that wait, and what became of the others.
//!
//! One lock guards all of it. It is taken once for a batch of transactions that arrive and once for a group that is
//! applied, and nothing is done under it that waits. An applier that has committed a group takes its next one itself, so no
//! other thread has to wake up in between.

use super::at_work::AtWork;
use super::standing::Standings;
use super::work::{Counted, Finished, Job, Mark, Part, Retrial, Share, Transaction};
use crate::error::Error;
use crate::error_queue::Held;
use crate::judge::{Attempts, Told};
use crate::plans::Written;
use crate::schedule::{Arrival, Group, Schedule, Supply, Verdict, WriteSet};
use change::Timestamp;
use database::CheckpointRow;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use trail::Position;

/// Where the changes of each source table go, by number.
pub(super) type Targets = Arc<Vec<Written>>;

/// Why nothing more is given out.
pub(super) enum Halt {
    /// The target does not take a transaction, or can't go on.
    Stop(Box<Error>),
    /// Everything is read again from the checkpoint rows, by new sessions.
    Reconnect(database::Error),
    /// Everything is read again from the checkpoint rows, by the same sessions.
    Again(database::Error),
    /// The oldest transaction is tried again after a while.
    Pause(database::Error),
    /// It is tried again at this time.
    Wait { until: Timestamp, cause: database::Error },
    /// The transaction that is written while it is read is read again, to be judged: at this time, if one is told.
    Retry { retrial: Option<Box<Retrial>>, wait: Option<(Timestamp, database::Error)> },
}

/// A transaction that is written before its end is known, one part after another.
#[derive(Default)]
pub(super) struct Stream {
    /// The applier that writes it.
    pub(super) applier: usize,
    /// Parts that wait.
    pub(super) parts: VecDeque<Part>,
    pub(super) parts_taken: u64,
    pub(super) parts_done: u64,
    /// What became of its changes.
    pub(super) counted: Counted,
    pub(super) told: Told,
}

struct Entry {
    mark: Mark,
    share: Share,
    /// Taken out while an applier has it, and gone when it is committed.
    transaction: Option<Transaction>,
}

impl Entry {
    /// The low watermark when this and everything before is applied; `None` inside a transaction.
    fn low(&self) -> Option<&Mark> {
        match &self.share {
            Share::Whole => Some(&self.mark),
            Share::Inside => None,
            Share::End(mark) => Some(mark),
        }
    }
}

/// The state that is shared.
pub(super) struct Board {
    pub(super) schedule: Schedule,
    /// Transactions from the schedule's base on.
    entries: VecDeque<Entry>,
    /// The last transaction below the low watermark.
    low: Mark,
    /// The first number that is not below it.
    low_number: u64,
    /// Where the threads of a coordinated group stand.
    standings: Option<Standings>,
    /// Where reading would go on after a crash.
    pub(super) durable: Mark,
    /// Per applier, from number 1 on, what it has committed and what its row may have to list.
    completed: Vec<VecDeque<(u64, Mark)>>,
    /// The row of the group, which appliers' rows are made after.
    row: CheckpointRow,
    pub(super) targets: Targets,
    /// What parked transactions touch, where later ones are held back behind them.
    pub(super) held: Arc<Held>,
    /// How often the oldest transaction was tried again.
    pub(super) attempts: Option<Attempts>,
    /// The database that the trail comes from, where that is known.
    pub(super) origin: Option<String>,
    /// Statements that defined objects, since the sessions were opened.
    pub(super) definitions: u64,
    pub(super) finished: Vec<Finished>,
    pub(super) halt: Option<Halt>,
    /// Nothing is given out before.
    pub(super) not_before: Option<Timestamp>,
    pub(super) supply: Supply,
    pub(super) at_work: AtWork,
    pub(super) stream: Stream,
    /// No applier takes anything more: they go.
    pub(super) is_over: bool,
    /// A thread of an applier has panicked: what it had will never be done.
    pub(super) is_broken: bool,
}

impl Board {
    /// An empty board above what `low` stands for, for so many appliers; `standings` are those of a coordinated group.
    pub(super) fn new(
        schedule: Schedule,
        low: Mark,
        row: CheckpointRow,
        appliers: usize,
        standings: Option<Standings>,
    ) -> Board {
        Board {
            schedule,
            entries: VecDeque::new(),
            durable: low.clone(),
            low,
            low_number: 0,
            standings,
            completed: vec![VecDeque::new(); appliers],
            row,
            targets: Targets::default(),
            held: Arc::default(),
            attempts: None,
            origin: None,
            definitions: 0,
            finished: Vec::new(),
            halt: None,
            not_before: None,
            supply: Supply::Flows,
            at_work: AtWork::default(),
            stream: Stream::default(),
            is_over: false,
            is_broken: false,
        }
    }

    /// The last transaction below the low watermark, which a crash may set back to what is durable.
    pub(super) fn low(&self) -> &Mark {
        &self.low
    }

    /// Takes the next transaction of the trail; `touches` is `None` when there is nothing to write for it.
    pub(super) fn arrive(&mut self, transaction: Transaction, touches: Option<&WriteSet>) {
        let operations = u32::try_from(transaction.changes.len()).unwrap_or(u32::MAX);
        let bytes = transaction.changes.iter().map(|buffered| buffered.bytes).sum();
        let (mark, share) = (transaction.mark.clone(), transaction.share.clone());
        if touches.is_none() {
            self.finished.push(Finished::without_rows(&transaction));
            self.entries.push_back(Entry { mark, share, transaction: None });
        } else {
            self.entries.push_back(Entry { mark, share, transaction: Some(transaction) });
        }
        self.schedule.arrive(&Arrival { touches, operations, bytes });
        self.follow();
    }

    /// Work for applier `number`, from 1.
    pub(super) fn take(&mut self, number: usize, clock: impl Fn() -> Timestamp) -> Option<Job> {
        if self.halt.is_some() || self.is_over || self.not_before.is_some() {
            return None;
        }
        let group = self.schedule.take(self.supply, number as u32)?;
        let is_oldest = group.transactions == [self.schedule.base()];
        self.at_work.note(clock(), self.schedule.busy());
        let base = self.schedule.base();
        let transactions = group
            .transactions
            .iter()
            .map(|number| {
                let entry = &mut self.entries[(number - base) as usize];
                entry.transaction.take().expect("what waits is there")
            })
            .collect();
        let (row, low) = self.row(number, &group);
        let may_be_held = !self.held.is_empty();
        let (targets, definitions) = (Arc::clone(&self.targets), self.definitions);
        Some(Job { group, transactions, row, low, targets, definitions, is_oldest, may_be_held })
    }

    /// The next part of a transaction that applier `number` writes, when the one before is written.
    pub(super) fn take_part(&mut self, number: usize) -> Option<Part> {
        if self.halt.is_some() || self.stream.applier != number || self.stream.parts_taken > self.stream.parts_done {
            return None;
        }
        let part = self.stream.parts.pop_front()?;
        self.stream.parts_taken += 1;
        Some(part)
    }

    /// The row that applier `number` saves when everything up to `mark` is applied.
    pub(super) fn row_at(&self, number: u32, mark: &Mark) -> CheckpointRow {
        let mut row = self.row.clone();
        row.group_key = CheckpointRow::applier_key(row.group_key, number);
        match &self.standings {
            None => mark.tell(&mut row, std::iter::empty()),
            Some(standings) => standings.tell_all(mark, number, &mut row),
        }
        row
    }

    /// The row that applier `number` saves with a piece of a transaction that is written while it is read.
    pub(super) fn row_inside(&self, number: usize, piece: &Mark) -> CheckpointRow {
        let mut row = self.row.clone();
        row.group_key = CheckpointRow::applier_key(row.group_key, number as u32);
        let own = self.completed[number - 1].iter().filter(|(number, _)| *number >= self.low_number);
        self.low.tell(&mut row, own.map(|(_, mark)| mark).chain([piece]));
        row
    }

    /// Whether nothing is applied above the low watermark.
    pub(super) fn is_level(&self) -> bool {
        self.low_number == self.schedule.base()
    }

    /// The row that applier `number` saves with `group`, and the low watermark that it tells.
    fn row(&self, number: usize, group: &Group) -> (CheckpointRow, Mark) {
        let base = self.schedule.base();
        if let Some(standings) = &self.standings {
            let marks = group.transactions.iter().map(|number| &self.entries[(number - base) as usize].mark);
            return standings.row(number, marks, &self.row);
        }
        let passed = (self.schedule.base_after(group) - base) as usize;
        let ends = self.entries.iter().take(passed).enumerate().rev();
        let low = ends.filter_map(|(place, entry)| Some((place, entry.low()?))).next();
        let (after, low) = low.map_or((self.low_number, &self.low), |(place, low)| (base + place as u64 + 1, low));
        let mut row = self.row.clone();
        row.group_key = CheckpointRow::applier_key(row.group_key, number as u32);
        let own = self.completed[number - 1].iter().filter(|(number, _)| *number >= after).map(|(_, mark)| mark);
        let new = group.transactions.iter().filter(|number| **number >= after);
        let new = new.map(|number| &self.entries[(number - base) as usize].mark);
        let is_forgotten = change::sabotage::is_on("forget-completed-transactions");
        let listed = own.chain(new).filter(|_| !is_forgotten);
        low.tell(&mut row, listed);
        (row, low.clone())
    }

    /// A group that applier `number` had is committed.
    pub(super) fn committed(&mut self, number: usize, group: &Group, low: Mark, finished: Finished, at: Timestamp) {
        let base = self.schedule.base();
        let marks = group.transactions.iter().map(|number| {
            let mark = self.entries[(number - base) as usize].mark.clone();
            (*number, mark)
        });
        if let Some(standings) = &mut self.standings {
            standings.stand(number, marks.map(|(_, mark)| mark));
            self.schedule.committed(group);
            self.follow();
            self.stand();
        } else {
            self.completed[number - 1].extend(marks);
            self.schedule.committed(group);
            self.follow();
            // The transaction at the low watermark stays listed: its own row must show it when another row's watermark is this.
            let base = self.low_number;
            self.completed[number - 1].retain(|(number, _)| number + 1 >= base);
            self.saved(low);
        }
        self.at_work.note(at, self.schedule.busy());
        self.finished.push(finished);
    }

    /// A piece of a transaction was committed by applier `number` while there was nothing else.
    pub(super) fn passed_inside(&mut self, number: usize, piece: Mark, finished: Finished) {
        self.completed[number - 1].push_back((self.schedule.next(), piece.clone()));
        self.entries.push_back(Entry { mark: piece, share: Share::Inside, transaction: None });
        self.schedule.arrive(&Arrival::default());
        self.follow();
        self.finished.push(finished);
    }

    /// The group's row of a coordinated group was saved at this low watermark.
    pub(super) fn saved_for_all(&mut self, low: Mark) {
        if let Some(standings) = &mut self.standings {
            standings.stand_all(low);
            self.stand();
        }
    }

    /// Takes over how far all threads are.
    fn stand(&mut self) {
        if let Some(standings) = &self.standings {
            self.durable = standings.slowest().clone();
        }
    }

    /// A row was saved that tells of this low watermark.
    pub(super) fn saved(&mut self, low: Mark) {
        if low.next > self.durable.next {
            self.durable = low;
        }
    }

    /// A transaction was committed while there was no other.
    pub(super) fn passed(&mut self, mark: Mark, finished: Finished) {
        self.completed.iter_mut().for_each(VecDeque::clear);
        self.low = mark.clone();
        self.low_number = self.schedule.base();
        match &mut self.standings {
            None => self.saved(mark),
            Some(standings) => {
                standings.pass(&mark);
                self.saved_for_all(mark);
            }
        }
        self.finished.push(finished);
    }

    /// A group was rolled back; its transactions wait again.
    pub(super) fn rolled_back(&mut self, group: &Group, transactions: Vec<Transaction>, at: Timestamp) -> Verdict {
        let base = self.schedule.base();
        for (number, transaction) in group.transactions.iter().zip(transactions) {
            self.entries[(number - base) as usize].transaction = Some(transaction);
        }
        let verdict = self.schedule.rolled_back(group);
        self.at_work.note(at, self.schedule.busy());
        verdict
    }

    /// Drops the entries that the schedule has done with.
    fn follow(&mut self) {
        let keep = (self.schedule.next() - self.schedule.base()) as usize;
        while self.entries.len() > keep {
            let Some(entry) = self.entries.pop_front() else { return };
            let after = self.schedule.next() - self.entries.len() as u64;
            let low = match entry.share {
                Share::Whole => entry.mark,
                Share::Inside => continue,
                Share::End(mark) => mark,
            };
            self.low = low;
            self.low_number = after;
            if let Some(standings) = &mut self.standings {
                standings.pass(&self.low);
            }
        }
    }

    /// Whether there is nothing left to apply and nobody at work.
    pub(super) fn is_idle(&self) -> bool {
        self.schedule.is_empty()
    }
}

/// The board and those who wait at it.
pub(super) struct Shared {
    board: Mutex<Board>,
    /// Appliers wait here for work.
    work: Condvar,
    /// The reader waits here for room, and for the end of what is at work.
    done: Condvar,
}

impl Shared {
    pub(super) fn new(board: Board) -> Arc<Shared> {
        Arc::new(Shared { board: Mutex::new(board), work: Condvar::new(), done: Condvar::new() })
    }

    /// The board. A thread that panicked with it leaves it whole between its own steps; the run ends for another reason then.
    pub(super) fn lock(&self) -> MutexGuard<'_, Board> {
        self.board.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets an applier wait for work.
    pub(super) fn await_work<'b>(&'b self, board: MutexGuard<'b, Board>) -> MutexGuard<'b, Board> {
        self.work.wait(board).unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets the reader wait until `is_awaited` holds, at most for `wait`. Returns whether it does.
    pub(super) fn await_done(&self, wait: Duration, mut is_awaited: impl FnMut(&mut Board) -> bool) -> bool {
        let board = self.lock();
        let waited = self.done.wait_timeout_while(board, wait, |board| !is_awaited(board));
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }

    /// There is work for one applier more.
    pub(super) fn offer_work(&self) {
        self.work.notify_one();
    }

    /// Something happened that all appliers must look at.
    pub(super) fn call_all(&self) {
        self.work.notify_all();
        self.done.notify_all();
    }

    /// Something was done that the reader may wait for.
    pub(super) fn tell_done(&self) {
        self.done.notify_all();
    }
}

/// Tells the reader when the thread that holds it panics, so that nobody waits for it.
pub(super) struct Alarm(pub(super) Arc<Shared>);

impl Drop for Alarm {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        let mut board = self.0.lock();
        let detail =
            "the thread of an applier has panicked; its own message is in the standard error output".to_owned();
        board.halt = Some(Halt::Stop(Box::new(Error::Unbalanced { position: board.durable.next, detail })));
        board.is_broken = true;
        drop(board);
        self.0.call_all();
    }
}

impl Mark {
    /// Writes this low watermark and what is listed above it into `row`.
    fn tell<'m>(&self, row: &mut CheckpointRow, listed: impl Iterator<Item = &'m Mark>) {
        let Position { sequence, rba } = self.next;
        (row.sequence, row.rba) = (sequence, rba);
        let text = |csn: &change::Csn| csn.as_str().to_owned();
        let low = self.commit.as_ref();
        row.log_complete_csn = low.map(|commit| text(&commit.csn));
        row.log_csn.clone_from(&row.log_complete_csn);
        row.audit_time = low.map(|commit| commit.time);
        row.log_complete_transactions.clear();
        for commit in listed.filter_map(|mark| mark.commit.as_ref()) {
            let name = commit.transaction.as_str();
            if low.is_some_and(|low| low.transaction.as_str() == name) {
                continue;
            }
            row.log_complete_transactions.push(name.to_owned());
            if row.log_csn.as_deref() < Some(commit.csn.as_str()) {
                row.log_csn = Some(text(&commit.csn));
            }
            row.audit_time = row.audit_time.max(Some(commit.time));
        }
        // The last name is that of the transaction that ends at the position.
        row.log_complete_transactions.extend(low.map(|commit| commit.transaction.as_str().to_owned()));
    }
}
