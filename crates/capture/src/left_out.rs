//! Transactions that an operator wants left out (SKIPTRANS).

use change::{LogPosition, Timestamp, TransactionId};
use process::{ExtractCheckpoint, LeftOutTransaction};

/// The transactions that are left out when they commit, each until a restart can't be told of it any more.
#[derive(Debug, Default)]
pub(crate) struct LeftOut {
    transactions: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    told: LeftOutTransaction,
    /// Where reading went on behind its end.
    ended: Option<LogPosition>,
}

impl LeftOut {
    /// Goes on with what a checkpoint says.
    pub(crate) fn of(checkpoint: &ExtractCheckpoint) -> LeftOut {
        let entry = |told: &LeftOutTransaction| Entry { told: told.clone(), ended: None };
        LeftOut { transactions: checkpoint.left_out.iter().map(entry).collect() }
    }

    /// Whether `transaction` is one of them that has not ended.
    pub(crate) fn contains(&self, transaction: &TransactionId) -> bool {
        self.transactions.iter().any(|entry| entry.told.transaction == *transaction && entry.ended.is_none())
    }

    /// Whether there is room for one more.
    pub(crate) fn is_full(&self) -> bool {
        self.transactions.len() >= ExtractCheckpoint::LEFT_OUT_MAX
    }

    pub(crate) fn insert(&mut self, transaction: &TransactionId, asked: Timestamp) {
        let told = LeftOutTransaction { transaction: transaction.clone(), asked };
        self.transactions.push(Entry { told, ended: None });
    }

    /// The transaction has ended, and reading goes on at `next`.
    pub(crate) fn end(&mut self, transaction: &TransactionId, next: &LogPosition) {
        for entry in self.transactions.iter_mut().filter(|entry| entry.told.transaction == *transaction) {
            entry.ended.get_or_insert_with(|| next.clone());
        }
    }

    /// What a checkpoint that stands at `position` says. Those whose end lies before it are not told again.
    pub(crate) fn at(&mut self, position: &LogPosition) -> Vec<LeftOutTransaction> {
        self.transactions.retain(|entry| entry.ended.as_ref().is_none_or(|ended| ended > position));
        self.transactions.iter().map(|entry| entry.told.clone()).collect()
    }

    /// Those that have not ended.
    pub(crate) fn open(&self) -> impl Iterator<Item = &LeftOutTransaction> {
        self.transactions.iter().filter(|entry| entry.ended.is_none()).map(|entry| &entry.told)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transaction_is_left_out_until_a_restart_can_not_be_told_of_it() {
        let mut left_out = LeftOut::default();
        let transaction = TransactionId::new("7");
        left_out.insert(&transaction, Timestamp::default());
        assert!(left_out.contains(&transaction));
        assert_eq!(left_out.at(&LogPosition::new("5")).len(), 1);
        left_out.end(&transaction, &LogPosition::new("8"));
        assert!(!left_out.contains(&transaction), "another one may have its name from now on");
        assert_eq!(left_out.at(&LogPosition::new("6")).len(), 1, "it is told again after a crash now");
        assert_eq!(left_out.at(&LogPosition::new("8")), []);
    }
}
