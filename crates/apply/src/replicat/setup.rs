//! What a Replicat is made of, and what it tells.

use crate::{Applied, GroupLimits, RowError, StartOptions};
use change::{Csn, TableDefinition, Timestamp, TransactionId};
use database::{CheckpointRow, Session};
use parameter::MapPlan;
use process::CheckpointFile;
use std::sync::Arc;
use std::time::Duration;
use trail::cipher::MasterKeys;
use trail::storage::Storage;
use trail::{Position, TrailName};

/// How often a Replicat writes down what costs a sync.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Time between two saves of the checkpoint file (CHECKPOINTSECS); the checkpoint table's row moves with every commit.
    pub checkpoint_file: Duration,
    /// Time between two commits that move the position over transactions without anything to write.
    pub position: Duration,
    /// How long a target transaction stays open for the rest of a source transaction that the trail does not hold yet. Then
    /// it is rolled back, because its locks hold up everybody else, and made anew once the trail goes on.
    pub patience: Duration,
}

impl Default for Pace {
    fn default() -> Pace {
        Pace {
            checkpoint_file: Duration::from_secs(10),
            position: Duration::from_secs(1),
            patience: Duration::from_secs(10),
        }
    }
}

/// Everything a Replicat works with.
pub struct ReplicatSetup {
    /// The group's name.
    pub group: String,
    /// Where the trail lies.
    pub storage: Arc<dyn Storage>,
    /// The trail.
    pub trail: TrailName,
    /// Where the keys of encrypted trail files are.
    pub keys: Option<Arc<dyn MasterKeys>>,
    /// How the source's tables look, for trail files that do not say it.
    pub definitions: Vec<Arc<TableDefinition>>,
    /// Opens a session with the target; called at the start and again whenever the connection is lost.
    pub connect: Box<dyn FnMut() -> Result<Box<dyn Session>, database::Error> + Send>,
    /// MAP statements under the case rules of source and target.
    pub rules: MapPlan,
    /// What is applied together.
    pub limits: GroupLimits,
    /// The group's checkpoint file; holds the group key that the row must have.
    pub checkpoint: CheckpointFile,
    /// The home directory, for the row's CURRENT_DIR.
    pub directory: String,
    /// The time now.
    pub clock: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    /// Takes lines for the report.
    pub notice: Box<dyn FnMut(&str) + Send>,
    /// How often things are written down.
    pub pace: Pace,
    /// Where to start, when not where the checkpoint row stands.
    pub start: StartOptions,
}

impl ReplicatSetup {
    /// What `row` shows as applied, to a run with these options.
    pub(super) fn applied(&self, row: CheckpointRow) -> Result<Applied, RowError> {
        let applied = Applied::from_row(row)?;
        Ok(if self.start.filter_duplicates { applied } else { applied.without_filter() })
    }
}

/// What a step did.
#[derive(Debug)]
pub enum Step {
    /// There was work, and there may be more.
    Worked,
    /// The trail has nothing more for now.
    Idle,
    /// The target failed in a way that may pass. Nothing is lost; the next step tries again. Wait before it as
    /// [`process::Retry`] decides.
    Retry {
        /// The target's answer.
        cause: database::Error,
    },
}

/// What a running Replicat has come to.
#[derive(Clone, Debug)]
pub struct Progress {
    /// Where in the trail the first record stands that is not applied.
    pub position: Position,
    /// The last applied transaction.
    pub last: Option<(Csn, TransactionId)>,
    /// Commit time of the last applied transaction, by the source's clock.
    pub last_commit_time: Option<Timestamp>,
    /// Whether everything that the trail has published is applied, but for a transaction that is not complete.
    pub caught_up: bool,
    /// Source transactions applied since the start.
    pub transactions: u64,
    /// Target transactions committed since the start.
    pub commits: u64,
    /// The most changes that were in memory at once.
    pub buffered_changes_peak: usize,
    /// The most bytes that changes kept in memory at once.
    pub buffered_bytes_peak: usize,
}

impl Progress {
    /// How far the target is behind the source at `now`: nothing when it has caught up, else the time since the commit of
    /// the last applied transaction. `None` before the first one.
    pub fn lag(&self, now: Timestamp) -> Option<Duration> {
        if self.caught_up {
            return Some(Duration::ZERO);
        }
        let micros = now.micros_since(self.last_commit_time?);
        Some(Duration::from_micros(u64::try_from(micros).unwrap_or(0)))
    }
}
