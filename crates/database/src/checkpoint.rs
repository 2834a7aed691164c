//! The checkpoint table's row.

use change::Timestamp;

/// One row of a checkpoint table, with the columns of the specification (seed 001, *Detalhes Adicionais das Tabelas de
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
    /// RBA: byte offset in that file of the first record that is not applied.
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
    /// The layout that this version writes.
    pub const VERSION: i32 = 1;
}
