//! Where a group stands, on disk.

mod error;
mod file;
mod payload;
mod ring;

pub use error::CheckpointError;
pub use file::{CheckpointFile, CheckpointRecord};

use crate::GroupKind;
use change::{Commit, LogPosition, TableName, Timestamp, TransactionId};
use trail::Position;

/// Where a group stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// When the group was added.
    pub created: Timestamp,
    /// When its process last started; `None` before the first start.
    pub started: Option<Timestamp>,
    /// When this checkpoint was written.
    pub updated: Timestamp,
    /// How the process ended, or that it did not.
    pub stop_status: StopStatus,
    /// What the two kinds of group remember.
    pub body: CheckpointBody,
}

impl Checkpoint {
    /// Which kind of group it is of.
    pub fn kind(&self) -> GroupKind {
        match self.body {
            CheckpointBody::Extract(_) => GroupKind::Extract,
            CheckpointBody::Replicat(_) => GroupKind::Replicat,
        }
    }

    /// The Extract's part, if it is one's.
    pub fn extract(&self) -> Option<&ExtractCheckpoint> {
        match &self.body {
            CheckpointBody::Extract(body) => Some(body),
            CheckpointBody::Replicat(_) => None,
        }
    }

    /// The Replicat's part, if it is one's.
    pub fn replicat(&self) -> Option<&ReplicatCheckpoint> {
        match &self.body {
            CheckpointBody::Replicat(body) => Some(body),
            CheckpointBody::Extract(_) => None,
        }
    }
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StopStatus {
    /// `A`: it is active, or it ended without being able to say so.
    Active,
    /// `G`: it ended as it was told to.
    Graceful,
}

impl StopStatus {
    /// The letter that INFO shows.
    pub fn letter(self) -> char {
        match self {
            StopStatus::Active => 'A',
            StopStatus::Graceful => 'G',
        }
    }
}

/// What the two kinds of group remember.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CheckpointBody {
    /// Of an Extract.
    Extract(ExtractCheckpoint),
    /// Of a Replicat.
    Replicat(ReplicatCheckpoint),
}

/// A place in the source's log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadCheckpoint {
    /// The place.
    pub position: LogPosition,
    /// Time of the record there, by the source's clock; `None` before the first one.
    pub time: Option<Timestamp>,
}

/// The end of an output trail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteCheckpoint {
    /// The trail, as ADD EXTTRAIL had it, such as `./dirdat/aa`.
    pub name: String,
    /// MEGABYTES of ADD EXTTRAIL: size at which a new file is started.
    pub megabytes: u32,
    /// Everything before is in the trail and synced; `None` before the first write.
    pub position: Option<Position>,
    /// It lies in another home: RMTTRAIL or RMTFILE.
    pub is_remote: bool,
}

/// Where an Extract stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExtractCheckpoint {
    /// Where the process last started to read.
    pub startup: ReadCheckpoint,
    /// Where reading must start again after a crash: before the oldest transaction that is not wholly in the trail.
    pub recovery: ReadCheckpoint,
    /// The last record read.
    pub current: ReadCheckpoint,
    /// The last transaction that was written; `None` before the first one.
    pub written: Option<Commit>,
    /// Output trails. None until ADD EXTTRAIL.
    pub trails: Vec<WriteCheckpoint>,
    /// Further streams, of a source whose log has several that are read side by side.
    pub streams: Vec<StreamCheckpoint>,
    /// The Bounded Recovery checkpoint that counts, where there is one.
    pub bounded: Option<BoundedCheckpoint>,
    /// Transactions that are left out when they commit.
    pub left_out: Vec<LeftOutTransaction>,
    /// Bytes of a file of the source's log, where the product has such files and the last start has asked for it.
    pub log_file_bytes: Option<u64>,
    /// The trail that a Pump reads; `None` for an Extract that reads a database's log.
    pub input: Option<Box<TrailInput>>,
}

/// The trail that a Pump reads. The read checkpoints of such a group are positions in that trail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrailInput {
    /// The trail, as ADD EXTRACT had it, such as `./dirdat/aa`.
    pub trail: String,
    /// The transaction before the recovery checkpoint; `None` at the start of a file.
    pub after: Option<Commit>,
    /// The operator has set the position, and nothing was sent since.
    pub is_repositioned: bool,
}

/// Where an Extract stands in one of several streams of a source's log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamCheckpoint {
    /// Where the process last started to read.
    pub startup: ReadCheckpoint,
    /// Where reading must start again after a crash.
    pub recovery: ReadCheckpoint,
    /// The last record read.
    pub current: ReadCheckpoint,
}

/// What Bounded Recovery makes of a restart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoundedCheckpoint {
    /// Its number, from 1.
    pub number: u64,
    /// Where reading started by the one before, where there was one.
    pub previous: Option<ReadCheckpoint>,
    /// Where reading starts once what was persisted is restored.
    pub begin: ReadCheckpoint,
    /// Where it was taken.
    pub end: ReadCheckpoint,
}

/// A transaction that is left out, by the word of an operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOutTransaction {
    /// The source's name for it.
    pub transaction: TransactionId,
    /// When that was asked for. A source uses names again after a long time, and this tells how long.
    pub asked: Timestamp,
}

impl ExtractCheckpoint {
    /// Most transactions that can be left out at a time: a checkpoint has a fixed size.
    pub const LEFT_OUT_MAX: usize = 16;

    /// Where a Pump goes on; `None` for any other Extract.
    pub fn trail_position(&self) -> Option<Position> {
        self.input.as_ref().and_then(|_| Position::parse(&self.recovery.position.to_string()))
    }
}

/// Where a Replicat stands. What counts after a crash is its row in the checkpoint table, which is written in the same
/// transaction as the rows; this is for people, and to know that the group exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicatCheckpoint {
    /// The trail that is read, as ADD REPLICAT had it, such as `./dirdat/aa`.
    pub trail: String,
    /// The checkpoint table in the target.
    pub checkpoint_table: TableName,
    /// The group's key in that table.
    pub group_key: i64,
    /// Where the process last started to read.
    pub startup: Position,
    /// Everything before is applied.
    pub current: Position,
    /// The last transaction that was applied; `None` before the first one.
    pub applied: Option<Commit>,
    /// How the group shares its work, as ADD REPLICAT had it.
    pub mode: ReplicatMode,
}

/// How a Replicat shares its work between sessions, fixed when the group is added.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReplicatMode {
    /// As the parameter file says.
    #[default]
    AsParametersSay,
    /// PARALLEL: several appliers, whichever finds work.
    Parallel,
    /// COORDINATED: threads, each with what the MAPs assign to it.
    Coordinated {
        /// MAXTHREADS.
        threads: u32,
    },
}

impl ReplicatMode {
    /// MAXTHREADS when it is not given.
    pub const THREADS_DEFAULT: u32 = 25;
}

/// Writes the words of ADD REPLICAT, or nothing.
impl std::fmt::Display for ReplicatMode {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ReplicatMode::AsParametersSay => Ok(()),
            ReplicatMode::Parallel => formatter.write_str("PARALLEL"),
            ReplicatMode::Coordinated { threads } => write!(formatter, "COORDINATED, MAXTHREADS {threads}"),
        }
    }
}
