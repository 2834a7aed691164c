//! The checkpoint table: what it holds of one group.
//!
//! # Two watermarks
//! A transaction with a CSN below LOG_CMPLT_CSN is applied, one with a CSN above LOG_CSN is not, and one between them, both
//! included, is applied when LOG_CMPLT_XIDS lists it. Where several transactions share a CSN the list tells them apart. A
//! Replicat that applies one transaction at a time has both watermarks at the last one.
//!
//! # One row per applier
//! A parallel Replicat has a row for the group, and one more for each applier, which that applier replaces in the
//! transaction that holds its rows of data, so that appliers do not wait for each other. They have the group's name and
//! the keys that [`CheckpointRow::applier_key`] gives; threads of a coordinated group have names of their own, which
//! [`CheckpointRow::thread_name`] gives, and rows that speak for the thread alone. Each row speaks for itself: what it lists is applied, and everything
//! below its LOG_CMPLT_CSN is applied, by whichever applier, when its SEQNO and RBA are those of that low watermark. What
//! the group has applied is the union of its rows.
//!
//! # What the specification's columns have no place for
//! How many appliers' rows belong to a group, and the hash of the MAP rules that they were applied under, stand in a table
//! of ours beside the two of the specification, with one row per group. It changes when the set of rows changes, not with
//! each transaction.

use change::Timestamp;
use std::collections::BTreeMap;

/// One row of a checkpoint table: a group's or an applier's, with the columns of the specification (seed 001, *Detalhes Adicionais das Tabelas de
/// Checkpoint*).
///
/// Primary key: group name and group key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckpointRow {
    /// GROUP_NAME.
    pub group_name: String,
    /// GROUP_KEY: random number, fixed when the group is added; lets several homes share a table.
    pub group_key: i64,
    /// SEQNO: trail file being read.
    pub sequence: u32,
    /// RBA: byte offset in that file of the first record that may not be applied: all transactions that end before it are
    /// below the low watermark or listed.
    pub rba: u64,
    /// AUDIT_TS: commit time of the last applied source transaction.
    pub audit_time: Option<Timestamp>,
    /// CREATE_TS.
    pub created: Timestamp,
    /// LAST_UPDATE_TS.
    pub updated: Timestamp,
    /// CURRENT_DIR: home directory of the writer.
    pub directory: String,
    /// LOG_BSN: where the Extract would have to start again to produce everything that is not applied.
    pub log_bsn: Option<String>,
    /// LOG_CSN: high watermark; nothing above it has been applied.
    pub log_csn: Option<String>,
    /// LOG_CMPLT_CSN: low watermark; everything below it has been applied.
    pub log_complete_csn: Option<String>,
    /// LOG_CMPLT_XIDS: transactions between the two that have been applied.
    pub log_complete_transactions: Vec<String>,
    /// VERSION of the row's layout.
    pub version: i32,
}

impl CheckpointRow {
    /// The layout that this version writes. Version 1 knew no rows of appliers, and reads as a group without them.
    pub const VERSION: i32 = 2;

    /// Appliers that a group may have at most.
    pub const APPLIERS_MAX: u32 = 500;

    /// Number, as if it were an applier, of the session that executes what stands in the error queue: it works beside the group.
    pub const EXECUTOR: u32 = 1000;

    /// Group keys are multiples of this, so that the keys of a group's appliers are free.
    pub const KEY_STEP: i64 = 1024;

    /// GROUP_KEY of the row of applier `number`, counted from 1, of the group with key `group_key`.
    pub fn applier_key(group_key: i64, number: u32) -> i64 {
        group_key.wrapping_add(i64::from(number))
    }

    /// GROUP_NAME of the row of thread `number` of a coordinated group: `FIN` has `FIN001`, `FIN002`, …
    pub fn thread_name(group: &str, number: u32) -> String {
        format!("{group}{number:03}")
    }
}

/// Everything that a checkpoint table holds of one group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckpointSet {
    /// The group's row.
    pub group: CheckpointRow,
    /// Rows of appliers, in the order of their numbers.
    pub appliers: Vec<CheckpointRow>,
    /// How many appliers the group has rows of. More than there are in `appliers`: somebody removed one.
    pub appliers_wanted: u32,
    /// The MAP rules under which the rows' transactions were applied; `None` where nobody noted them.
    pub map_hash: Option<String>,
}

impl CheckpointSet {
    /// A group without appliers.
    pub fn alone(group: CheckpointRow) -> CheckpointSet {
        CheckpointSet { group, appliers: Vec::new(), appliers_wanted: 0, map_hash: None }
    }

    /// Puts the rows of a table together, which come in the order of names and keys, by its notes: group, its key, number of
    /// appliers, hash of the MAP rules.
    pub fn assemble(
        rows: Vec<CheckpointRow>,
        notes: impl IntoIterator<Item = (String, i64, u32, Option<String>)>,
    ) -> Vec<CheckpointSet> {
        let notes: BTreeMap<_, _> =
            notes.into_iter().map(|(group, key, appliers, hash)| ((group, key), (appliers, hash))).collect();
        let mut sets: Vec<CheckpointSet> = Vec::new();
        for row in rows {
            // Between a group's row and those of its threads, names of other groups may stand.
            if let Some(set) = sets.iter_mut().rev().find(|set| set.takes(&row)) {
                set.appliers.push(row);
                continue;
            }
            let note = notes.get(&(row.group_name.clone(), row.group_key));
            let (appliers_wanted, map_hash) = note.cloned().unwrap_or_default();
            sets.push(CheckpointSet { appliers_wanted, map_hash, ..CheckpointSet::alone(row) });
        }
        sets
    }

    /// Whether `row` is one of its appliers'.
    fn takes(&self, row: &CheckpointRow) -> bool {
        let CheckpointRow { group_name, group_key, .. } = &self.group;
        let number = row.group_key.checked_sub(*group_key).and_then(|number| u32::try_from(number).ok());
        let Some(number) = number.filter(|number| (1..=self.appliers_wanted).contains(number)) else { return false };
        row.group_name == *group_name || row.group_name == CheckpointRow::thread_name(group_name, number)
    }

    /// All rows, the group's first.
    pub fn rows(&self) -> impl Iterator<Item = &CheckpointRow> {
        std::iter::once(&self.group).chain(&self.appliers)
    }

    /// The first applier whose row is not there, though the group has one.
    pub fn missing_applier(&self) -> Option<u32> {
        (1..=self.appliers_wanted).find(|number| {
            let key = CheckpointRow::applier_key(self.group.group_key, *number);
            self.appliers.iter().all(|row| row.group_key != key)
        })
    }
}
