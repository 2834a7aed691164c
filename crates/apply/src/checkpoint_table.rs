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
    /// Somebody altered it.
    #[error("the checkpoint row of group {group} was altered: {fault}")]
    Altered {
        /// The group.
        group: String,
        /// What contradicts what.
        fault: String,
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
    /// Whether a transaction that the row shows as applied is left out when the trail holds it again.
    filters: bool,
}

/// Trail files are numbered with nine digits.
const SEQUENCE_MAX: u32 = 999_999_999;

/// What in a row contradicts the rest of it.
fn fault(row: &CheckpointRow) -> Option<String> {
    let CheckpointRow { sequence, rba, log_csn: high, log_complete_csn: low, .. } = row;
    if *sequence > SEQUENCE_MAX || i64::try_from(*rba).is_err() {
        return Some("SEQNO or RBA is no place in a trail".to_owned());
    }
    match (high, low) {
        // An applier may be ahead before the first transaction of all is applied.
        (Some(_), None) if !row.log_complete_transactions.is_empty() => None,
        (None, Some(_)) | (Some(_), None) => Some("of LOG_CSN and LOG_CMPLT_CSN one is NULL".to_owned()),
        (Some(high), Some(low)) if high < low => {
            Some(format!("the high watermark LOG_CSN {high} is below the low one, LOG_CMPLT_CSN {low}"))
        }
        _ => None,
    }
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
        if let Some(fault) = fault(&row) {
            return Err(RowError::Altered { group: row.group_name, fault });
        }
        Ok(Applied { row, filters: true })
    }

    /// With NOFILTERDUPTRANSACTIONS nothing is left out, and the watermark follows what is applied, backwards too.
    pub fn without_filter(self) -> Applied {
        Applied { filters: false, ..self }
    }

    /// Refuses a row that stands where the checkpoint file stands, or further, and has applied less.
    ///
    /// # Errors
    /// [`RowError::Altered`].
    pub fn check_against(&self, noted: Position, applied: Option<&Commit>) -> Result<(), RowError> {
        let Some(applied) = applied.filter(|_| self.position() >= noted) else { return Ok(()) };
        let found = self.row.log_csn.as_deref();
        if found >= Some(applied.csn.as_str()) {
            return Ok(());
        }
        let fault = format!(
            "it stands at {} with LOG_CSN {}, and the checkpoint file has CSN {} before {noted}",
            self.position(),
            found.unwrap_or("NULL"),
            applied.csn
        );
        Err(RowError::Altered { group: self.row.group_name.clone(), fault })
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
        let csn = Csn::new(self.row.log_complete_csn.as_deref()?);
        let transaction = TransactionId::new(self.row.log_complete_transactions.last()?.as_str());
        Some((csn, transaction))
    }

    /// Whether the row shows the transaction as applied: its CSN is below the low watermark, or not above the high one and the
    /// transaction is listed.
    pub fn covers(&self, commit: &Commit) -> bool {
        if !self.filters {
            return false;
        }
        let csn = Some(commit.csn.as_str());
        csn < self.row.log_complete_csn.as_deref() || (csn <= self.row.log_csn.as_deref() && self.lists(commit))
    }

    fn lists(&self, commit: &Commit) -> bool {
        self.row.log_complete_transactions.iter().any(|applied| applied == commit.transaction.as_str())
    }

    /// Notes that everything up to `next` is applied, `commit` being the last transaction.
    pub fn note(&mut self, commit: &Commit, next: Position) {
        self.row.sequence = next.sequence;
        self.row.rba = next.rba;
        let csn = commit.csn.as_str();
        let is_known = self.covers(commit);
        let (low, high) = (self.row.log_complete_csn.as_deref(), self.row.log_csn.as_deref());
        if is_known && (low > Some(csn) || (low == Some(csn) && low == high)) {
            return;
        }
        if self.filters && low < high && high > Some(csn) {
            // Appliers had gone ahead: what they did stays listed until the low watermark has come that far.
            self.row.log_complete_csn = Some(csn.to_owned());
        } else if low != Some(csn) || high != Some(csn) {
            self.row.log_csn = Some(csn.to_owned());
            self.row.log_complete_csn.clone_from(&self.row.log_csn);
            if !is_known {
                self.row.log_complete_transactions.clear();
            }
        } else if self.row.log_complete_transactions.len() == SHARED_CSN_MAX {
            self.row.log_complete_transactions.remove(0);
        }
        if is_known {
            // The last of the list tells where reading goes on.
            self.row.log_complete_transactions.retain(|listed| listed != commit.transaction.as_str());
        }
        self.row.log_complete_transactions.push(commit.transaction.as_str().to_owned());
        self.row.audit_time = Some(commit.time);
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
    fn transactions_that_appliers_did_ahead_stay_listed_until_the_watermarks_meet() {
        let ahead = CheckpointRow {
            log_csn: Some("09".to_owned()),
            log_complete_csn: Some("05".to_owned()),
            log_complete_transactions: ["e", "g", "i"].map(str::to_owned).to_vec(),
            ..row()
        };
        let mut applied = Applied::from_row(ahead).unwrap();
        let all = [("05", "e"), ("06", "f"), ("07", "g"), ("08", "h"), ("09", "i"), ("10", "j")];
        for (place, (csn, transaction)) in all.into_iter().enumerate() {
            let ahead: Vec<bool> = all.iter().map(|(csn, name)| applied.covers(&commit(csn, name))).collect();
            let expected: Vec<bool> =
                all.iter().enumerate().map(|(at, (_, name))| at < place || ["e", "g", "i"].contains(name)).collect();
            assert_eq!(ahead, expected, "before {csn}");
            applied.note(&commit(csn, transaction), at(place as u64 * 100));
            assert!(applied.row().log_csn >= applied.row().log_complete_csn);
            assert_eq!(applied.last(), Some((applied_csn(&applied), TransactionId::new(transaction))));
        }
        assert_eq!(applied.row().log_complete_transactions, ["j"]);
    }

    fn applied_csn(applied: &Applied) -> Csn {
        Csn::new(applied.row().log_complete_csn.as_deref().unwrap())
    }

    #[test]
    fn without_the_filter_the_watermark_follows_what_is_applied() {
        let mut applied = Applied::from_row(row()).unwrap();
        applied.note(&commit("05", "a"), at(100));
        let mut applied = applied.without_filter();
        assert!(!applied.covers(&commit("03", "z")));
        applied.note(&commit("03", "z"), at(200));
        let applied = Applied::from_row(applied.row().clone()).unwrap();
        assert!(applied.covers(&commit("03", "z")) && !applied.covers(&commit("05", "a")));
    }

    #[test]
    fn rows_that_contradict_themselves_or_the_file_are_refused() {
        let watermarks = |high: Option<&str>, low: Option<&str>| CheckpointRow {
            log_csn: high.map(str::to_owned),
            log_complete_csn: low.map(str::to_owned),
            ..row()
        };
        for altered in [
            watermarks(Some("04"), Some("05")),
            watermarks(None, Some("05")),
            watermarks(Some("05"), None),
            CheckpointRow { sequence: u32::MAX, ..row() },
            CheckpointRow { rba: u64::MAX, ..row() },
        ] {
            assert!(matches!(Applied::from_row(altered), Err(RowError::Altered { .. })));
        }
        let applied = Applied::from_row(CheckpointRow { rba: 50, ..watermarks(Some("05"), Some("05")) }).unwrap();
        assert!(applied.check_against(at(50), Some(&commit("06", "f"))).is_err());
        assert!(applied.check_against(at(51), Some(&commit("06", "f"))).is_ok(), "the target was put back");
        assert!(applied.check_against(at(50), Some(&commit("05", "e"))).is_ok());
        assert!(applied.check_against(at(50), Some(&commit("04", "repeated"))).is_ok());
        assert!(applied.check_against(at(50), None).is_ok());
    }

    #[test]
    fn rows_of_the_future_are_refused() {
        let future = CheckpointRow { version: CheckpointRow::VERSION + 1, ..row() };
        assert!(matches!(Applied::from_row(future), Err(RowError::Version { .. })));
    }
}
