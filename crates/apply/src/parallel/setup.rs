//! What a parallel Replicat is made of.

use crate::replicat::ReplicatSetup;
use crate::schedule::{Parallelism, ScheduleLimits};
use database::{CheckpointRow, Session};

/// Bytes of transactions that wait or are being applied, beside one that is larger.
const BYTES_MAX: usize = 24 << 20;
/// Bytes of changes in one target transaction, about.
const GROUP_BYTES: usize = 4 << 20;
/// Source transactions in one target transaction, whose names may have to be listed in the applier's row.
const GROUP_TRANSACTIONS: usize = 2000;

/// Opens the session of the applier with this number, from 1.
pub type ConnectApplier = Box<dyn FnMut(u32) -> Result<Box<dyn Session>, database::Error> + Send>;

/// Who runs the appliers.
pub enum Crew {
    /// The first one is run by the reader of the trail, and each other one by a thread of its own.
    Threads,
    /// All by the caller's thread, in the turns that a function decides which picks one of so many: simulations replay them.
    Turns(Box<dyn FnMut(usize) -> usize + Send>),
}

/// Everything a parallel Replicat works with.
pub struct ParallelSetup {
    /// What it has in common with any other; its `connect` opens the session of the group itself.
    pub common: ReplicatSetup,
    /// Opens the session of the applier with this number, from 1, under its own key: see
    /// [`CheckpointRow::applier_key`](database::CheckpointRow::applier_key).
    pub connect_applier: ConnectApplier,
    /// How many appliers.
    pub parallelism: Parallelism,
    /// LOOK_AHEAD_TRANSACTIONS.
    pub look_ahead: usize,
    /// COMMIT_SERIALIZATION: target transactions are committed in the order of the trail.
    pub serial: bool,
    /// SPLIT_TRANS_RECS: source transactions with more operations are applied in pieces of about so many.
    pub split: Option<u64>,
    /// The threads of a coordinated group, whose MAPs say which of them applies what. There are as many appliers, which have
    /// [names](database::CheckpointRow::thread_name) of their own.
    pub threads: Option<u32>,
    /// SYNCHRONIZE REPLICAT: nothing is applied beyond the high watermark.
    pub synchronizes: bool,
    /// Tells whether the MAP rules are those of the last run.
    pub map_hash: String,
    /// Who runs the appliers.
    pub crew: Crew,
}

impl ParallelSetup {
    /// Keeps to what a checkpoint table has room for.
    pub(super) fn limit(&mut self) {
        let most = CheckpointRow::APPLIERS_MAX as usize;
        if self.parallelism.maximum() > most {
            self.parallelism = Parallelism::fixed(most);
        }
        if let Some(threads) = self.threads {
            self.parallelism = Parallelism::fixed(threads as usize);
        }
    }

    pub(super) fn schedule_limits(&self) -> ScheduleLimits {
        ScheduleLimits {
            group_operations: self.common.limits.operations,
            group_transactions: GROUP_TRANSACTIONS,
            group_bytes: GROUP_BYTES.min(self.common.limits.chunk_bytes),
            look_ahead: self.look_ahead.max(1),
            bytes: BYTES_MAX,
            serial: self.serial,
        }
    }
}
