//! Counting changes between the trail and the target.
//!
//! A change is counted as read when it leaves the trail, and again as written or filtered when that is what became of it.
//! Counts wait here until the target transaction is committed: a rollback takes them back, and a change that got lost in
//! between shows as counts that do not balance.

use change::OperationKind;
use process::{Counts, FilterReason, Statistics, TableIndex};

/// Counts of changes that are not committed yet, by the number of their plan.
///
/// Work per transaction grows with the tables in it, not with the tables that there are.
#[derive(Default)]
pub(crate) struct Tally {
    plans: Vec<Option<[Counts; OperationKind::ALL.len()]>>,
    touched: Vec<usize>,
}

impl Tally {
    /// The counts of changes of `kind` under the plan with number `plan`.
    pub(crate) fn counts(&mut self, plan: usize, kind: OperationKind) -> &mut Counts {
        if plan >= self.plans.len() {
            self.plans.resize(plan + 1, None);
        }
        let touched = &mut self.touched;
        let kinds = self.plans[plan].get_or_insert_with(|| {
            touched.push(plan);
            Default::default()
        });
        &mut kinds[kind as usize]
    }

    /// The plans whose changes are counted.
    pub(crate) fn plans(&self) -> &[usize] {
        &self.touched
    }

    /// Moves all counts of `other` here.
    pub(crate) fn take_in(&mut self, other: &mut Tally) {
        other.drain(|plan, kind, counts| self.counts(plan, kind).add(&counts));
    }

    /// Forgets all counts: what they counted will be read again.
    pub(crate) fn clear(&mut self) {
        self.drain(|_, _, _| {});
    }

    /// Moves all counts into the totals; `table` tells where a plan's changes are counted. Returns the first counts that do
    /// not balance.
    pub(crate) fn settle(
        &mut self,
        statistics: &mut Statistics,
        table: impl Fn(usize) -> TableIndex,
    ) -> Result<(), Box<Counts>> {
        let mut wrong = None;
        self.drain(|plan, kind, counts| {
            if !counts.is_balanced() {
                wrong.get_or_insert_with(|| Box::new(counts));
            }
            statistics.counts_mut(table(plan), kind).add(&counts);
        });
        wrong.map_or(Ok(()), Err)
    }

    /// Moves all counts into the totals as changes of a transaction that the writer of the trail abandoned.
    pub(crate) fn settle_abandoned(&mut self, statistics: &mut Statistics, table: impl Fn(usize) -> TableIndex) {
        self.drain(|plan, kind, counts| {
            let total = statistics.counts_mut(table(plan), kind);
            total.read += counts.read;
            total.filter(FilterReason::Abandoned, counts.read);
        });
    }

    fn drain(&mut self, mut take: impl FnMut(usize, OperationKind, Counts)) {
        for plan in self.touched.drain(..) {
            let kinds = self.plans[plan].take().unwrap_or_default();
            let kinds = OperationKind::ALL.into_iter().zip(kinds).filter(|(_, counts)| *counts != Counts::default());
            kinds.for_each(|(kind, counts)| take(plan, kind, counts));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use change::{TableName, Timestamp};

    #[test]
    fn counts_enter_the_totals_once_and_only_what_balances_is_right() {
        let mut statistics = Statistics::new(Timestamp::default());
        let table = statistics.table(&TableName::new("main", "t"));
        let (mut open, mut group) = (Tally::default(), Tally::default());
        open.counts(3, OperationKind::Insert).read += 2;
        open.counts(3, OperationKind::Insert).written += 1;
        open.counts(3, OperationKind::Insert).filter(FilterReason::NotMapped, 1);
        group.take_in(&mut open);
        group.take_in(&mut open);
        assert_eq!(group.settle(&mut statistics, |_| table), Ok(()));
        assert_eq!((statistics.total().read, statistics.total().written), (2, 1));

        group.counts(0, OperationKind::Delete).read += 1;
        group.clear();
        assert_eq!(group.settle(&mut statistics, |_| table), Ok(()));
        assert_eq!(statistics.total().read, 2);

        group.counts(0, OperationKind::Delete).read += 1;
        assert!(group.settle(&mut statistics, |_| table).is_err_and(|counts| counts.read == 1));
    }
}
