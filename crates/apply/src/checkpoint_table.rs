//! The position of a Replicat, as the checkpoint table's row tells it.
//!
//! A brain over [`CheckpointRow`]: which transactions the row shows as applied, and what the row says next. The session
//! reads and writes it, in the transaction that holds the rows.

use change::{Commit, Csn, Timestamp, TransactionId};
use database::CheckpointRow;
use trail::Position;

/// Identifiers kept of transactions that share the highest CSN. The list goes into a column of 2000 characters and its
/// overflow table; sources that give one CSN to more transactions than this are not known.
const SHARED_CSN_MAX: usize = 256;

/// Why a checkpoint row can't be used.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum RowError {
    /// Written by a newer version.
    #[error(
        "cannot read the checkpoint row of group {group}: its layout version is {found}, this program knows {known}"
    )]
    Version {
        /// The group.
        group: String,
        /// VERSION of the row.
        found: i32,
        /// What this program writes.
        known: i32,
    },
    /// What an applier has applied is not known.
    #[error("the checkpoint table has no row of applier {number} of group {group}, which has {appliers} of them")]
    ApplierGone {
        /// The group.
        group: String,
        /// The applier's number.
        number: u32,
        /// How many the group has rows of.
        appliers: u32,
    },
    /// Transactions were applied out of order under other rules.
    #[error(
        "the MAP rules of group {group} were changed while transactions between CSN {low} and CSN {high} are partly applied"
    )]
    RulesChanged {
        /// The group.
        group: String,
        /// The low watermark.
        low: String,
        /// The high watermark.
        high: String,
    },
}

/// What has been applied, in the order of the source's commits.
#[derive(Clone, Debug)]
pub struct Applied {
    row: CheckpointRow,
}

impl Applied {
    /// Takes the row that was read from the table.
    ///
    /// # Errors
    /// [`RowError`] when the row has a layout of the future.
    pub fn from_row(row: CheckpointRow) -> Result<Applied, RowError> {
        if row.version > CheckpointRow::VERSION {
            return Err(RowError::Version { group: row.group_name, found: row.version, known: CheckpointRow::VERSION });
        }
        Ok(Applied { row })
    }

    /// The row as it should stand in the table.
    pub fn row(&self) -> &CheckpointRow {
        &self.row
    }

    /// Where in the trail the first record stands that is not applied.
    pub fn position(&self) -> Position {
        Position { sequence: self.row.sequence, rba: self.row.rba }
    }

    /// The last applied transaction, if there was one.
    pub fn last(&self) -> Option<(Csn, TransactionId)> {
        let csn = Csn::new(self.row.log_csn.as_deref()?);
        let transaction = TransactionId::new(self.row.log_complete_transactions.last()?.as_str());
        Some((csn, transaction))
    }

    /// Whether the row shows the transaction as applied: its CSN is below the watermark, or equal to it and the transaction
    /// is listed. One stream applies in commit order, so high and low watermark are the same.
    pub fn covers(&self, commit: &Commit) -> bool {
        let Some(watermark) = self.row.log_complete_csn.as_deref() else {
            return false;
        };
        match commit.csn.as_str().cmp(watermark) {
            std::cmp::Ordering::Less => true,
            std::cmp::Ordering::Equal => {
                self.row.log_complete_transactions.iter().any(|applied| applied == commit.transaction.as_str())
            }
            std::cmp::Ordering::Greater => false,
        }
    }

    /// Notes that everything up to `next` is applied, `commit` being the last transaction.
    pub fn note(&mut self, commit: &Commit, next: Position) {
        if !self.covers(commit) {
            if self.row.log_complete_csn.as_deref() != Some(commit.csn.as_str()) {
                self.row.log_csn = Some(commit.csn.as_str().to_owned());
                self.row.log_complete_csn.clone_from(&self.row.log_csn);
                self.row.log_complete_transactions.clear();
            } else if self.row.log_complete_transactions.len() == SHARED_CSN_MAX {
                self.row.log_complete_transactions.remove(0);
            }
            self.row.log_complete_transactions.push(commit.transaction.as_str().to_owned());
            self.row.audit_time = Some(commit.time);
        }
        self.row.sequence = next.sequence;
        self.row.rba = next.rba;
    }

    /// The row to write at `now` by the home at `directory`.
    pub fn stamp(&mut self, now: Timestamp, directory: &str) -> &CheckpointRow {
        self.row.updated = now;
        if self.row.directory != directory {
            directory.clone_into(&mut self.row.directory);
        }
        &self.row
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row() -> CheckpointRow {
        CheckpointRow {
            group_name: "R1".to_owned(),
            group_key: 7,
            sequence: 0,
            rba: 0,
            audit_time: None,
            created: Timestamp::default(),
            updated: Timestamp::default(),
            directory: String::new(),
            log_bsn: None,
            log_csn: None,
            log_complete_csn: None,
            log_complete_transactions: Vec::new(),
            version: CheckpointRow::VERSION,
        }
    }

    fn commit(csn: &str, transaction: &str) -> Commit {
        Commit { csn: Csn::new(csn), transaction: TransactionId::new(transaction), time: Timestamp::default() }
    }

    fn at(rba: u64) -> Position {
        Position { sequence: 0, rba }
    }

    #[test]
    fn a_new_row_shows_nothing_as_applied() {
        let applied = Applied::from_row(row()).unwrap();
        assert!(!applied.covers(&commit("0", "0")));
        assert_eq!(applied.last(), None);
    }

    #[test]
    fn transactions_up_to_the_watermark_are_applied_and_later_ones_are_not() {
        let mut applied = Applied::from_row(row()).unwrap();
        applied.note(&commit("05", "a"), at(100));
        assert!(applied.covers(&commit("04", "x")) && applied.covers(&commit("05", "a")));
        assert!(!applied.covers(&commit("05", "b")) && !applied.covers(&commit("06", "a")));
        assert_eq!(applied.position(), at(100));
        assert_eq!(applied.last(), Some((Csn::new("05"), TransactionId::new("a"))));
    }

    #[test]
    fn transactions_that_share_a_csn_are_told_apart() {
        let mut applied = Applied::from_row(row()).unwrap();
        applied.note(&commit("05", "a"), at(100));
        applied.note(&commit("05", "b"), at(200));
        assert!(applied.covers(&commit("05", "a")) && applied.covers(&commit("05", "b")));
        assert_eq!(applied.row().log_complete_transactions, ["a", "b"]);
        applied.note(&commit("06", "c"), at(300));
        assert_eq!(applied.row().log_complete_transactions, ["c"]);
    }

    #[test]
    fn a_repeated_transaction_moves_the_position_but_not_the_watermark() {
        let mut applied = Applied::from_row(row()).unwrap();
        applied.note(&commit("05", "a"), at(100));
        applied.note(&commit("03", "z"), at(200));
        assert_eq!(applied.row().log_csn.as_deref(), Some("05"));
        assert_eq!(applied.position(), at(200));
    }

    #[test]
    fn rows_of_the_future_are_refused() {
        let future = CheckpointRow { version: CheckpointRow::VERSION + 1, ..row() };
        assert!(matches!(Applied::from_row(future), Err(RowError::Version { .. })));
    }
}
