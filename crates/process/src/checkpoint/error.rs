//! What can go wrong with a checkpoint file, sorted by what the operator should do.

use crate::{Code, GroupKind, GroupName};
use std::io;

/// A checkpoint file that can't be used.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// There is no file: the group was never added, or its checkpoint is lost.
    #[error(
        "{kind} {group} has no checkpoint file {file} in {place}: it was never added there, or its checkpoint is lost"
    )]
    Lost {
        /// Kind of the group.
        kind: GroupKind,
        /// The group.
        group: GroupName,
        /// The file that is expected.
        file: String,
        /// Where.
        place: String,
    },
    /// The group exists already.
    #[error("{kind} {group} exists: its checkpoint file {file} is in {place}")]
    Exists {
        /// Kind of the group.
        kind: GroupKind,
        /// The group.
        group: GroupName,
        /// The file.
        file: String,
        /// Where.
        place: String,
    },
    /// No checkpoint in the file can be trusted.
    #[error("checkpoint file {file} in {place} is damaged: {reason}")]
    Damaged {
        /// The file.
        file: String,
        /// Where.
        place: String,
        /// What is wrong.
        reason: String,
    },
    /// The file is whole but not this group's, or of a later version.
    #[error("checkpoint file {file} in {place} can't be used: {reason}")]
    Foreign {
        /// The file.
        file: String,
        /// Where.
        place: String,
        /// Whose it is.
        reason: String,
    },
    /// No room on the disk.
    #[error("no room to write checkpoint file {file} in {place}")]
    Full {
        /// The file.
        file: String,
        /// Where.
        place: String,
        /// The operating system's answer.
        source: io::Error,
    },
    /// The operating system refused.
    #[error("could not {action} checkpoint file {file} in {place}")]
    Io {
        /// What was tried, such as `sync`.
        action: &'static str,
        /// The file.
        file: String,
        /// Where.
        place: String,
        /// The operating system's answer.
        source: io::Error,
    },
    /// An earlier write failed, so that nobody knows what is on disk. Open the file anew.
    #[error("checkpoint file {file} is not written any further after an earlier failure")]
    Poisoned {
        /// The file.
        file: String,
    },
    /// Names in the checkpoint are too long for its slot.
    #[error("a checkpoint of {bytes} bytes does not fit into {file}, which takes {bytes_max}")]
    TooLarge {
        /// The file.
        file: String,
        /// What it needs.
        bytes: usize,
        /// What there is.
        bytes_max: usize,
    },
}

impl CheckpointError {
    /// What the operator can do about it.
    pub fn next_step(&self) -> &'static str {
        match self {
            CheckpointError::Poisoned { .. } => "start the group again: it goes on from its last durable checkpoint",
            CheckpointError::TooLarge { .. } => "give the trail or the checkpoint table a shorter name",
            _ => self.code().next_step(),
        }
    }

    /// The code that reports show.
    pub fn code(&self) -> Code {
        match self {
            CheckpointError::Lost { .. } => Code::CheckpointLost,
            CheckpointError::Exists { .. } => Code::GroupExists,
            CheckpointError::Damaged { .. } => Code::CheckpointDamaged,
            CheckpointError::Foreign { .. } => Code::CheckpointForeign,
            CheckpointError::Full { .. } => Code::CheckpointDiskFull,
            CheckpointError::Io { .. } | CheckpointError::Poisoned { .. } | CheckpointError::TooLarge { .. } => {
                Code::CheckpointRefused
            }
        }
    }
}
