//! What a group with appliers has applied, as all its rows of the checkpoint table tell it.
//!
//! A brain over [`CheckpointSet`], for the restart of a Replicat that applies in parallel: the trail is read again from the
//! low watermark, and what the rows list above it is skipped.

use crate::RowError;
use change::{Commit, Csn, Timestamp, TransactionId};
use database::{CheckpointRow, CheckpointSet};
use std::collections::{HashMap, HashSet};
use std::ops::Range;
use trail::Position;

/// Stands between the name of a transaction and the numbers of its first and last operation, where SPLIT_TRANS_RECS made pieces of
/// it.
const PIECE: char = '#';

/// The name by which LOG_CMPLT_XIDS lists a piece of a transaction: its operations of these numbers, counted from 0.
pub(crate) fn piece_name(transaction: &TransactionId, operations: &Range<u64>) -> TransactionId {
    TransactionId::new(format!("{transaction}{PIECE}{}-{}", operations.start, operations.end.saturating_sub(1)))
}

/// The transaction and the operations that such a name says.
fn piece(name: &str) -> Option<(TransactionId, Range<u64>)> {
    let (transaction, numbers) = name.rsplit_once(PIECE)?;
    let (first, last) = numbers.split_once('-')?;
    let last: u64 = last.parse().ok()?;
    Some((TransactionId::new(transaction), first.parse().ok()?..last.checked_add(1)?))
}

/// The union of a group's rows.
#[derive(Clone, Debug)]
pub struct Watermarks {
    position: Position,
    low: Option<Csn>,
    high: Option<Csn>,
    last: Option<TransactionId>,
    listed: HashSet<TransactionId>,
    /// Operations of transactions that are applied in part, as ranges of their numbers.
    pieces: HashMap<TransactionId, Vec<Range<u64>>>,
    last_time: Option<Timestamp>,
}

impl Watermarks {
    /// Takes all that the table holds of a group. `map_hash` is that of the MAP rules under which it goes on.
    ///
    /// # Errors
    /// [`RowError`] when a row has a layout of the future, when an applier's row is gone, and when transactions above the low
    /// watermark were applied under other rules: what these would have done to them is not known.
    pub fn of(set: &CheckpointSet, map_hash: &str) -> Result<Watermarks, RowError> {
        let group = || set.group.group_name.clone();
        if let Some(row) = set.rows().find(|row| row.version > CheckpointRow::VERSION) {
            return Err(RowError::Version { group: group(), found: row.version, known: CheckpointRow::VERSION });
        }
        if let Some(number) = set.missing_applier() {
            return Err(RowError::ApplierGone { group: group(), number, appliers: set.appliers_wanted });
        }
        let lowest = set.rows().max_by_key(|row| (row.log_complete_csn.as_deref(), row.sequence, row.rba));
        let lowest = lowest.unwrap_or(&set.group);
        let highest = set.rows().max_by_key(|row| row.log_csn.as_deref());
        let highest = highest.unwrap_or(&set.group);
        let (low, high) = (lowest.log_complete_csn.as_deref(), highest.log_csn.as_deref());
        if high > low && set.map_hash.as_deref() != Some(map_hash) && !change::sabotage::is_on("trust-changed-rules") {
            let text = |csn: Option<&str>| csn.unwrap_or("the beginning").to_owned();
            return Err(RowError::RulesChanged { group: group(), low: text(low), high: text(high) });
        }
        // A row that tells of nothing above the low watermark lists nothing that is still asked for.
        let listed = set.rows().filter(|row| row.log_csn.as_deref() >= low);
        let listed = listed.flat_map(|row| &row.log_complete_transactions);
        Ok(Watermarks {
            position: Position::new(lowest.sequence, lowest.rba),
            low: low.map(Csn::new),
            high: high.map(Csn::new),
            last: lowest.log_complete_transactions.last().map(|name| TransactionId::new(name.as_str())),
            pieces: pieces(set.rows()),
            listed: listed.map(|transaction| TransactionId::new(transaction.as_str())).collect(),
            last_time: set.rows().filter_map(|row| row.audit_time).max(),
        })
    }

    /// Of a group whose threads stand between these rows, each of which has applied all that is below its own.
    pub(crate) fn between(slowest: &CheckpointRow, fastest: &CheckpointRow) -> Watermarks {
        let names = slowest.log_complete_transactions.iter().map(|name| TransactionId::new(name.as_str()));
        Watermarks {
            position: Position::new(slowest.sequence, slowest.rba),
            low: slowest.log_complete_csn.as_deref().map(Csn::new),
            high: fastest.log_csn.as_deref().map(Csn::new),
            last: names.clone().next_back(),
            listed: names.collect(),
            pieces: HashMap::new(),
            last_time: slowest.audit_time,
        }
    }

    /// Whether the operation with this number, from 0, of a transaction that is not covered is applied already: the transaction
    /// was split.
    pub fn covers_operation(&self, commit: &Commit, number: u64) -> bool {
        let Some(pieces) = self.pieces.get(&commit.transaction) else { return false };
        Some(&commit.csn) <= self.high.as_ref() && pieces.iter().any(|piece| piece.contains(&number))
    }

    /// Where in the trail reading goes on: before it everything is applied.
    pub fn position(&self) -> Position {
        self.position
    }

    /// The last transaction below that position, if there is one.
    pub fn last(&self) -> Option<(Csn, TransactionId)> {
        self.low.clone().zip(self.last.clone())
    }

    /// One row that tells all that the rows of the group tell, made after the group's `row`.
    pub fn row(&self, row: &CheckpointRow) -> CheckpointRow {
        let text = |csn: &Option<Csn>| csn.as_ref().map(|csn| csn.as_str().to_owned());
        let mut others: Vec<&TransactionId> =
            self.listed.iter().filter(|listed| Some(*listed) != self.last.as_ref()).collect();
        if !self.are_apart() {
            others.clear();
        }
        others.sort_unstable();
        let listed = others.into_iter().chain(&self.last);
        CheckpointRow {
            sequence: self.position.sequence,
            rba: self.position.rba,
            audit_time: self.last_time,
            log_csn: text(&self.high),
            log_complete_csn: text(&self.low),
            log_complete_transactions: listed.map(|name| name.as_str().to_owned()).collect(),
            ..row.clone()
        }
    }

    /// The low watermark: everything below it is applied.
    pub fn low(&self) -> Option<&Csn> {
        self.low.as_ref()
    }

    /// The high watermark: nothing above it is applied.
    pub fn high(&self) -> Option<&Csn> {
        self.high.as_ref()
    }

    /// Whether transactions between the watermarks may be missing.
    pub fn are_apart(&self) -> bool {
        self.high > self.low
    }

    /// Commit time of the newest applied transaction.
    pub fn last_time(&self) -> Option<Timestamp> {
        self.last_time
    }

    /// Whether the rows show the transaction as applied: its CSN is below the low watermark, or not above the high one and
    /// the transaction is listed.
    pub fn covers(&self, commit: &Commit) -> bool {
        let csn = Some(&commit.csn);
        csn < self.low.as_ref() || (csn <= self.high.as_ref() && self.listed.contains(&commit.transaction))
    }
}

/// Pieces of transactions that the rows list.
fn pieces<'r>(rows: impl Iterator<Item = &'r CheckpointRow>) -> HashMap<TransactionId, Vec<Range<u64>>> {
    let mut pieces: HashMap<TransactionId, Vec<Range<u64>>> = HashMap::new();
    for (transaction, operations) in rows.flat_map(|row| &row.log_complete_transactions).filter_map(|name| piece(name))
    {
        pieces.entry(transaction).or_default().push(operations);
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample_rows::{commit, row, set};

    #[test]
    fn pieces_of_a_split_transaction_are_covered_by_their_operations() {
        let name = piece_name(&TransactionId::new("732"), &(0..200));
        assert_eq!(name.as_str(), "732#0-199");
        assert_eq!(piece(name.as_str()), Some((TransactionId::new("732"), 0..200)));
        let rows = vec![
            row(1, 1, Some("5"), Some("7"), &["732#0-199", "a"]),
            row(2, 1, Some("5"), Some("7"), &["732#400-599", "a"]),
        ];
        let marks = Watermarks::of(&set(row(0, 1, Some("5"), Some("5"), &["a"]), rows), "rules").unwrap();
        assert!(!marks.covers(&commit("7", "732")), "not as a whole");
        for (number, is_applied) in [(0, true), (199, true), (200, false), (399, false), (400, true), (600, false)] {
            assert_eq!(marks.covers_operation(&commit("7", "732"), number), is_applied, "{number}");
        }
        assert!(!marks.covers_operation(&commit("8", "732"), 0), "another transaction of this name");
    }

    #[test]
    fn a_group_that_has_applied_nothing_covers_nothing() {
        let marks = Watermarks::of(&set(row(0, 0, None, None, &[]), vec![]), "other rules").unwrap();
        assert!(!marks.covers(&commit("1", "a")) && !marks.are_apart());
        assert_eq!(marks.position(), Position::new(0, 0));
    }

    #[test]
    fn the_union_of_all_rows_is_applied() {
        let group = row(0, 100, Some("10"), Some("10"), &["j"]);
        let appliers = vec![
            row(1, 300, Some("13"), Some("17"), &["m", "q"]),
            row(2, 200, Some("12"), Some("20"), &["l", "t"]),
            row(3, 100, None, None, &[]),
        ];
        let marks = Watermarks::of(&set(group, appliers), "rules").unwrap();
        assert_eq!(marks.position(), Position::new(0, 300), "that of the highest low watermark");
        let bounds = (marks.low().map(Csn::as_str), marks.high().map(Csn::as_str));
        assert_eq!(bounds, (Some("13"), Some("20")));
        for (csn, transaction, applied) in [
            ("11", "unlisted", true),
            ("13", "m", true),
            ("13", "same csn, another transaction", false),
            ("17", "q", true),
            ("18", "r", false),
            ("20", "t", true),
            ("21", "t", false),
        ] {
            assert_eq!(marks.covers(&commit(csn, transaction)), applied, "{csn} {transaction}");
        }
    }

    #[test]
    fn other_rules_are_refused_only_where_the_watermarks_differ() {
        let apart = set(row(0, 1, Some("5"), Some("5"), &["a"]), vec![row(1, 1, Some("5"), Some("9"), &["c"])]);
        assert!(matches!(Watermarks::of(&apart, "others"), Err(RowError::RulesChanged { .. })));
        let unknown = CheckpointSet { map_hash: None, ..apart };
        assert!(matches!(Watermarks::of(&unknown, "rules"), Err(RowError::RulesChanged { .. })));
        let together = set(row(0, 1, Some("5"), Some("5"), &["a"]), vec![row(1, 1, Some("9"), Some("9"), &["c"])]);
        assert!(Watermarks::of(&together, "others").is_ok());
    }

    #[test]
    fn an_appliers_row_that_is_gone_is_named() {
        let mut broken = set(row(0, 1, None, None, &[]), vec![row(1, 1, None, None, &[]), row(3, 1, None, None, &[])]);
        broken.appliers_wanted = 3;
        let error = Watermarks::of(&broken, "rules").unwrap_err();
        assert_eq!(error, RowError::ApplierGone { group: "R1".to_owned(), number: 2, appliers: 3 });
    }
}
