//! Checkpoint rows for tests.

use change::{Commit, Csn, Timestamp, TransactionId};
use database::{CheckpointRow, CheckpointSet};

/// Row `number` of a group with the key 1024, 0 for the group itself: where reading goes on, what is complete and what is
/// applied at most, and the transactions listed between.
pub(crate) fn row(number: u32, rba: u64, low: Option<&str>, high: Option<&str>, listed: &[&str]) -> CheckpointRow {
    CheckpointRow {
        group_name: "R1".to_owned(),
        group_key: CheckpointRow::applier_key(1024, number),
        sequence: 0,
        rba,
        audit_time: None,
        created: Timestamp::default(),
        updated: Timestamp::default(),
        directory: String::new(),
        log_bsn: None,
        log_csn: high.map(str::to_owned),
        log_complete_csn: low.map(str::to_owned),
        log_complete_transactions: listed.iter().map(|name| (*name).to_owned()).collect(),
        version: CheckpointRow::VERSION,
    }
}

/// The rows of a group, under a hash of its MAP statements that reads `rules`.
pub(crate) fn set(group: CheckpointRow, appliers: Vec<CheckpointRow>) -> CheckpointSet {
    let appliers_wanted = appliers.len() as u32;
    CheckpointSet { group, appliers, appliers_wanted, map_hash: Some("rules".to_owned()) }
}

/// A transaction.
pub(crate) fn commit(csn: &str, transaction: &str) -> Commit {
    Commit { csn: Csn::new(csn), transaction: TransactionId::new(transaction), time: Timestamp::default() }
}
