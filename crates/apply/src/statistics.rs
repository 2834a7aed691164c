//! Counting changes between the trail and the target.
//!
//! A change is counted as read when it leaves the trail, and again as written or filtered when that is what became of it.
//! Counts wait here until the target transaction is committed: a rollback takes them back, and a change that got lost in
//! between shows as counts that do not balance.

use change::OperationKind;
use process::{FilterReason, Statistics, TableIndex};

const KINDS: [OperationKind; 4] =
    [OperationKind::Insert, OperationKind::Update, OperationKind::Delete, OperationKind::Truncate];

#[derive(Clone, Copy, Default)]
struct Waiting {
    read: u64,
    written: u64,
    not_mapped: u64,
    excluded: u64,
    already_done: u64,
}

/// Counts of changes that are not committed yet, by the number of their plan.
#[derive(Default)]
pub(crate) struct Tally {
    plans: Vec<[Waiting; KINDS.len()]>,
}

impl Tally {
    /// Counts a change that was read.
    pub(crate) fn read(&mut self, plan: usize, kind: OperationKind) {
        self.waiting(plan, kind).read += 1;
    }

    /// Counts a change that the target took.
    pub(crate) fn written(&mut self, plan: usize, kind: OperationKind) {
        self.waiting(plan, kind).written += 1;
    }

    /// Counts a change that is left out.
    pub(crate) fn filtered(&mut self, plan: usize, kind: OperationKind, reason: FilterReason) {
        let waiting = self.waiting(plan, kind);
        match reason {
            FilterReason::NotMapped => waiting.not_mapped += 1,
            FilterReason::Excluded => waiting.excluded += 1,
            _ => waiting.already_done += 1,
        }
    }

    /// Moves all counts of `other` here.
    pub(crate) fn take_in(&mut self, other: &mut Tally) {
        for (plan, kinds) in other.plans.iter_mut().enumerate() {
            for (kind, from) in KINDS.into_iter().zip(kinds) {
                if from.read > 0 || from.written > 0 {
                    let from = std::mem::take(from);
                    let to = self.waiting(plan, kind);
                    to.read += from.read;
                    to.written += from.written;
                    to.not_mapped += from.not_mapped;
                    to.excluded += from.excluded;
                    to.already_done += from.already_done;
                }
            }
        }
    }

    /// Forgets all counts: what they counted will be read again.
    pub(crate) fn clear(&mut self) {
        self.plans.clear();
    }

    /// Moves all counts into the totals; `table` tells where a plan's changes are counted.
    pub(crate) fn settle(&mut self, statistics: &mut Statistics, table: impl Fn(usize) -> TableIndex) {
        for (plan, kinds) in self.plans.iter_mut().enumerate() {
            for (kind, from) in KINDS.into_iter().zip(kinds) {
                if from.read > 0 || from.written > 0 {
                    let from = std::mem::take(from);
                    let counts = statistics.counts_mut(table(plan), kind);
                    counts.read += from.read;
                    counts.written += from.written;
                    counts.filter(FilterReason::NotMapped, from.not_mapped);
                    counts.filter(FilterReason::Excluded, from.excluded);
                    counts.filter(FilterReason::AlreadyDone, from.already_done);
                }
            }
        }
    }

    /// Moves all counts into the totals as changes of a transaction that the writer of the trail abandoned.
    pub(crate) fn settle_abandoned(&mut self, statistics: &mut Statistics, table: impl Fn(usize) -> TableIndex) {
        for (plan, kinds) in self.plans.iter_mut().enumerate() {
            for (kind, from) in KINDS.into_iter().zip(kinds) {
                if from.read > 0 {
                    let from = std::mem::take(from);
                    let counts = statistics.counts_mut(table(plan), kind);
                    counts.read += from.read;
                    counts.filter(FilterReason::Abandoned, from.read);
                }
            }
        }
    }

    fn waiting(&mut self, plan: usize, kind: OperationKind) -> &mut Waiting {
        if plan >= self.plans.len() {
            self.plans.resize(plan + 1, Default::default());
        }
        &mut self.plans[plan][kind as usize]
    }
}
