//! Transactions on their way through a parallel Replicat.

use super::board::Targets;
use crate::handling::Converted;
use crate::heartbeat;
use crate::judge::{Case, Doomed, Fate, Told};
use crate::plans::Written;
use crate::schedule::Group;
use change::{Change, Commit, OperationKind, Timestamp};
use database::CheckpointRow;
use process::heartbeat::Arrival;
use process::{Counts, FilterReason};
use trail::Position;

/// A transaction and where the trail goes on behind it.
#[derive(Clone, Debug)]
pub(super) struct Mark {
    /// `None` before the first transaction.
    pub(super) commit: Option<Commit>,
    pub(super) next: Position,
}

/// A change that waits to be written.
#[derive(Debug)]
pub(super) struct Buffered {
    pub(super) change: Change,
    /// What it becomes, per target; empty where it is written as it is.
    pub(super) converted: Vec<Converted>,
    /// The number of its plans.
    pub(super) plan: usize,
    /// Bytes that it keeps in memory.
    pub(super) bytes: usize,
    pub(super) position: Position,
    /// The heartbeat that it brings; nobody counts it.
    pub(super) arrival: Option<Box<Arrival>>,
}

impl Buffered {
    /// Notes, where it is a heartbeat, that the target is about to have it.
    pub(super) fn receive(&mut self, clock: &dyn Fn() -> Timestamp) {
        if let Some(arrival) = &self.arrival {
            self.change.operation = heartbeat::operation(arrival, clock());
        }
    }

    /// As a judge sees it.
    pub(super) fn case<'a>(&'a self, targets: &'a [Written], commit: Option<&'a Commit>) -> Case<'a> {
        Case {
            change: &self.change,
            converted: &self.converted,
            position: self.position,
            commit,
            written: &targets[self.plan],
            is_heartbeat: self.arrival.is_some(),
        }
    }

    /// What becomes of it when its targets take it.
    pub(super) fn fate(&self) -> Fate {
        let is_nothing = |converted: &Converted| matches!(converted, Converted::Nothing);
        match !self.converted.is_empty() && self.converted.iter().all(is_nothing) {
            true => Fate::Filtered(FilterReason::NothingToSet),
            false => Fate::Written,
        }
    }
}

/// Counts of a few plans and kinds of operations.
#[derive(Clone, Debug, Default)]
pub(super) struct Counted(Vec<(usize, OperationKind, Counts)>);

impl Counted {
    /// The counts of changes of `kind` under the plan with number `plan`.
    pub(super) fn counts(&mut self, plan: usize, kind: OperationKind) -> &mut Counts {
        let found = self.0.iter().rposition(|(known, known_kind, _)| (*known, *known_kind) == (plan, kind));
        let place = found.unwrap_or_else(|| {
            self.0.push((plan, kind, Counts::default()));
            self.0.len() - 1
        });
        &mut self.0[place].2
    }

    /// Counts what became of a change that was read.
    pub(super) fn note(&mut self, buffered: &Buffered, fate: Fate) {
        if buffered.arrival.is_some() {
            return;
        }
        let counts = self.counts(buffered.plan, buffered.change.operation.kind());
        match fate {
            Fate::Written => counts.written += 1,
            Fate::Filtered(reason) => counts.filter(reason, 1),
        }
    }

    /// Adds all counts of `other`.
    pub(super) fn take_in(&mut self, other: &Counted) {
        other.iter().for_each(|(plan, kind, counts)| self.counts(plan, kind).add(counts));
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (usize, OperationKind, &Counts)> {
        self.0.iter().map(|(plan, kind, counts)| (*plan, *kind, counts))
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

/// How much of a source transaction is applied as one.
#[derive(Clone, Debug)]
pub(super) enum Share {
    /// All of it, or its last part: when it is applied, so is everything up to its mark.
    Whole,
    /// A part before the last one: the low watermark stays before the transaction.
    Inside,
    /// The last piece of one that was split, which has a name of its own; the transaction's mark.
    End(Mark),
}

/// A source transaction, or a share of one.
#[derive(Debug)]
pub(super) struct Transaction {
    pub(super) mark: Mark,
    pub(super) share: Share,
    /// What is to be written.
    pub(super) changes: Vec<Buffered>,
    /// What was read, and filtered.
    pub(super) read: Counted,
}

impl Transaction {
    /// When it was committed at the source, if it is the last share of its transaction.
    fn time(&self) -> Option<Timestamp> {
        match self.share {
            Share::Inside => None,
            Share::Whole | Share::End(_) => self.mark.commit.as_ref().map(|commit| commit.time),
        }
    }
}

/// A group in the hands of an applier.
pub(super) struct Job {
    pub(super) group: Group,
    pub(super) transactions: Vec<Transaction>,
    /// What the applier saves with it.
    pub(super) row: CheckpointRow,
    /// The low watermark in the row.
    pub(super) low: Mark,
    pub(super) targets: Targets,
    /// As the board has it.
    pub(super) definitions: u64,
    /// Everything before it is committed, and it is one transaction: what does not fit now will not fit later.
    pub(super) is_oldest: bool,
    /// Something is parked that transactions may have to be held back behind.
    pub(super) may_be_held: bool,
}

/// A transaction that is written while it is read, and must be read again so that its rows are judged one by one.
pub(super) struct Retrial {
    pub(super) commit: Commit,
    /// Where its rows go, when that is decided.
    pub(super) doomed: Option<Box<Doomed>>,
}

/// A part of a transaction that is written before its end is known.
pub(super) enum Part {
    /// The next changes; the first ones open the target transaction.
    Write {
        changes: Vec<Buffered>,
        targets: Targets,
        mark: Mark,
        is_first: bool,
        /// Rows are written one by one: one of them was refused before.
        is_judged: bool,
        /// Where they go, when that is decided.
        doomed: Option<Box<Doomed>>,
    },
    /// The end.
    Commit { row: Box<CheckpointRow>, mark: Mark },
    /// It was abandoned, or does not go on.
    Rollback,
}

/// What is told of transactions that are dealt with.
#[derive(Debug)]
pub(super) struct Finished {
    pub(super) counted: Counted,
    /// Commit times at the source, of each transaction once.
    pub(super) times: Vec<Timestamp>,
    /// When the target had committed them; `None` when there was nothing to commit.
    pub(super) at: Option<Timestamp>,
    pub(super) told: Told,
}

impl Finished {
    /// Of a transaction for which nothing is written.
    pub(super) fn without_rows(transaction: &Transaction) -> Finished {
        let times = transaction.time().into_iter().collect();
        Finished { counted: transaction.read.clone(), times, at: None, told: Told::default() }
    }

    /// Of transactions that were committed at `at`; `fates` are those of all their changes, where they were written one by one.
    pub(super) fn committed(transactions: &[Transaction], fates: &[Fate], told: Told, at: Timestamp) -> Finished {
        let mut counted = Counted::default();
        let mut fates = fates.iter();
        for transaction in transactions {
            counted.take_in(&transaction.read);
            for buffered in &transaction.changes {
                let fate = fates.next().copied().unwrap_or_else(|| buffered.fate());
                counted.note(buffered, fate);
            }
        }
        let times = transactions.iter().filter_map(Transaction::time);
        Finished { counted, times: times.collect(), at: Some(at), told }
    }
}
