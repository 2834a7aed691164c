//! What a BR checkpoint writes, keeps and forgets.

use crate::long::age;
use change::{LogPosition, Timestamp, TransactionId};
use std::collections::BTreeMap;
use std::time::Duration;

/// An open transaction as a BR checkpoint sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The source's name for it.
    pub transaction: TransactionId,
    /// Where the log starts to tell of it.
    pub start: LogPosition,
    /// When it started.
    pub started: Timestamp,
    /// Grows with everything that is told of it.
    pub version: u64,
}

/// What a BR checkpoint consists of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Its number, from 1.
    pub number: u64,
    /// When it is taken.
    pub time: Timestamp,
    /// BR Begin: where reading starts after a restart. The start of the oldest open transaction that is not persisted, else
    /// the place of the checkpoint.
    pub begin: LogPosition,
    /// When that transaction started, else the time of the checkpoint; `None` where it is not known any more.
    pub begin_time: Option<Timestamp>,
    /// BR End: the place of the checkpoint in the log.
    pub end: LogPosition,
    /// Transactions that are written: long-running ones that have no file yet, or have changed since they were written.
    pub write: Vec<Seen>,
    /// Long-running transactions whose files are as they are still.
    pub keep: Vec<TransactionId>,
}

/// When BR checkpoints are taken, and what belongs to them.
#[derive(Debug)]
pub struct Schedule {
    interval: Duration,
    last: Timestamp,
    number: u64,
    /// Transactions of the last checkpoint that counts, with the version that their files hold.
    persisted: BTreeMap<TransactionId, u64>,
    /// A checkpoint whose files are written and that waits for the trail.
    waiting: Option<Plan>,
}

impl Schedule {
    /// Goes on from the last checkpoint that counts: its time, its number and its transactions. Without one the time is that
    /// of the start.
    pub fn new(
        interval: Duration,
        last: Timestamp,
        number: u64,
        persisted: impl IntoIterator<Item = (TransactionId, u64)>,
    ) -> Schedule {
        Schedule { interval, last, number, persisted: persisted.into_iter().collect(), waiting: None }
    }

    /// Whether the next checkpoint is due.
    pub fn is_due(&self, now: Timestamp) -> bool {
        self.waiting.is_none() && now.elapsed_since(self.last) >= self.interval
    }

    /// The checkpoint at `now`, with the log read up to `end` and `open` the transactions that are open there.
    ///
    /// A transaction is long-running when it is older than one interval *at* a checkpoint, and not before the next
    /// one when it is not.
    pub fn plan(&mut self, now: Timestamp, end: &LogPosition, open: &[Seen]) -> Plan {
        self.last = now;
        self.number += 1;
        let is_long = |seen: &&Seen| age(now, seen.started) > self.interval;
        let oldest = open.iter().filter(|seen| !is_long(seen)).min_by_key(|seen| &seen.start);
        let (begin, begin_time) = oldest.map_or((end, now), |seen| (&seen.start, seen.started));
        let begin = begin.clone();
        let long: Vec<&Seen> = open.iter().filter(is_long).collect();
        let is_unchanged = |seen: &Seen| self.persisted.get(&seen.transaction) == Some(&seen.version);
        Plan {
            number: self.number,
            time: now,
            begin,
            begin_time: Some(begin_time),
            end: end.clone(),
            write: long.iter().filter(|seen| !is_unchanged(seen)).map(|seen| (*seen).clone()).collect(),
            keep: long.iter().filter(|seen| is_unchanged(seen)).map(|seen| seen.transaction.clone()).collect(),
        }
    }

    /// The files of `plan` are durable; it counts as soon as the trail holds everything that committed before it.
    pub fn written(&mut self, plan: Plan) {
        self.waiting = Some(plan);
    }

    /// The trail and the checkpoint hold everything that committed before `current`. Returns the checkpoint that counts now,
    /// once its manifest is durable.
    pub fn reached(&mut self, current: &LogPosition) -> Option<Plan> {
        self.waiting.take_if(|plan| plan.end <= *current)
    }

    /// The manifest of `plan` is durable. Returns the transactions whose files are needed no more.
    pub fn counts(&mut self, plan: &Plan) -> Vec<TransactionId> {
        let mut before = std::mem::take(&mut self.persisted);
        for transaction in &plan.keep {
            if let Some(version) = before.remove(transaction) {
                self.persisted.insert(transaction.clone(), version);
            }
        }
        self.persisted.extend(plan.write.iter().map(|seen| (seen.transaction.clone(), seen.version)));
        before.into_keys().collect()
    }

    /// Whether a checkpoint waits for the trail.
    pub fn is_waiting(&self) -> bool {
        self.waiting.is_some()
    }

    /// Time until the next one is due.
    pub fn until_due(&self, now: Timestamp) -> Duration {
        self.interval.saturating_sub(now.elapsed_since(self.last))
    }

    /// Another time between two checkpoints, counted from the last one.
    pub fn set_interval(&mut self, interval: Duration) {
        self.interval = interval;
    }

    /// Time between two checkpoints.
    pub fn interval(&self) -> Duration {
        self.interval
    }
}
