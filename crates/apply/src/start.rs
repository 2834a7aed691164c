//! Where a Replicat starts when its operator asks for another place than the next transaction.
//!
//! A brain: which transactions of the trail are left out before the first one is applied.

use change::{Commit, Csn, TransactionId};

/// What START REPLICAT says about the first transaction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum StartFrom {
    /// The first one that is not applied.
    #[default]
    Checkpoint,
    /// ATCSN: the first one with this CSN or a later one.
    AtCsn(Csn),
    /// AFTERCSN: the first one with a later CSN.
    AfterCsn(Csn),
    /// SKIPTRANSACTION: the one after the first one that is not applied. Once that is known it is kept, so that a new attempt
    /// leaves out the same one.
    SkipTransaction(Option<(Csn, TransactionId)>),
}

/// What START REPLICAT says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartOptions {
    /// Where to start.
    pub from: StartFrom,
    /// FILTERDUPTRANSACTIONS: leave out what the checkpoint row shows as applied.
    pub filter_duplicates: bool,
}

impl Default for StartOptions {
    fn default() -> StartOptions {
        StartOptions { from: StartFrom::Checkpoint, filter_duplicates: true }
    }
}

/// A CSN that can't be one of the trail's.
#[derive(Debug, PartialEq, Eq)]
pub struct WrongCsn {
    /// What was asked for.
    pub given: Csn,
    /// One of the trail's.
    pub example: Csn,
}

/// Decides about each transaction in turn.
#[derive(Clone, Debug)]
pub(crate) struct Start {
    from: StartFrom,
    is_over: bool,
    skipped: u64,
}

impl Start {
    pub(crate) fn new(from: StartFrom) -> Start {
        Start { is_over: from == StartFrom::Checkpoint, from, skipped: 0 }
    }

    /// What would start another attempt at the same place.
    pub(crate) fn from(&self) -> &StartFrom {
        &self.from
    }

    /// Reading goes back: transactions that were left out may come again.
    pub(crate) fn go_back(&mut self) {
        self.is_over = self.from == StartFrom::Checkpoint;
        self.skipped = 0;
    }

    /// Whether the transaction, which is not applied, is left out. The number of those that were, with the first that is not.
    pub(crate) fn leaves_out(&mut self, commit: &Commit) -> Result<(bool, Option<u64>), WrongCsn> {
        if self.is_over {
            return Ok((false, None));
        }
        let leaves_out = match &mut self.from {
            StartFrom::Checkpoint => false,
            StartFrom::AtCsn(given) | StartFrom::AfterCsn(given)
                if given.as_str().len() != commit.csn.as_str().len() =>
            {
                return Err(WrongCsn { given: given.clone(), example: commit.csn.clone() });
            }
            StartFrom::AtCsn(given) => commit.csn < *given,
            StartFrom::AfterCsn(given) => commit.csn <= *given,
            StartFrom::SkipTransaction(skipped) => {
                let this = (commit.csn.clone(), commit.transaction.clone());
                *skipped.get_or_insert_with(|| this.clone()) == this
            }
        };
        if leaves_out {
            self.skipped += 1;
            return Ok((true, None));
        }
        self.is_over = true;
        Ok((false, Some(self.skipped)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use change::Timestamp;

    fn commit(csn: &str, transaction: &str) -> Commit {
        Commit { csn: Csn::new(csn), transaction: TransactionId::new(transaction), time: Timestamp::default() }
    }

    const ALL: [(&str, &str); 5] = [("01", "a"), ("02", "b"), ("02", "c"), ("03", "d"), ("05", "e")];

    fn applied(start: &mut Start) -> (String, Vec<u64>) {
        let (mut names, mut told) = (String::new(), Vec::new());
        for (csn, transaction) in ALL {
            let (leaves_out, skipped) = start.leaves_out(&commit(csn, transaction)).expect("a CSN of this width");
            told.extend(skipped);
            if !leaves_out {
                names.push_str(transaction);
            }
        }
        (names, told)
    }

    #[test]
    fn at_and_after_differ_in_the_csn_itself() {
        let from = |from| applied(&mut Start::new(from));
        assert_eq!(from(StartFrom::Checkpoint), ("abcde".to_owned(), vec![]));
        assert_eq!(from(StartFrom::AtCsn(Csn::new("02"))), ("bcde".to_owned(), vec![1]));
        assert_eq!(from(StartFrom::AfterCsn(Csn::new("02"))), ("de".to_owned(), vec![3]));
        assert_eq!(from(StartFrom::AtCsn(Csn::new("04"))), ("e".to_owned(), vec![4]));
        assert_eq!(from(StartFrom::AfterCsn(Csn::new("09"))), (String::new(), vec![]));
    }

    #[test]
    fn exactly_one_transaction_is_skipped_and_the_same_one_again() {
        let mut start = Start::new(StartFrom::SkipTransaction(None));
        assert_eq!(applied(&mut start), ("bcde".to_owned(), vec![1]));
        start.go_back();
        assert_eq!(applied(&mut start), ("bcde".to_owned(), vec![1]));
        // Another attempt that goes on behind it skips nothing more.
        let mut again = Start::new(start.from().clone());
        assert_eq!(again.leaves_out(&commit("02", "b")), Ok((false, Some(0))));
    }

    #[test]
    fn a_csn_of_another_width_is_refused() {
        let mut start = Start::new(StartFrom::AtCsn(Csn::new("2")));
        let wrong = WrongCsn { given: Csn::new("2"), example: Csn::new("01") };
        assert_eq!(start.leaves_out(&commit("01", "a")), Err(wrong));
    }
}
