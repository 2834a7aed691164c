//! Whether a group runs.

use crate::{Checkpoint, StopStatus};
use std::fmt;

/// The state of a group, in the field's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GroupStatus {
    /// A process holds the group's lock.
    Running,
    /// It was never started, or it ended as it was told to.
    Stopped,
    /// It ended in another way.
    Abended,
}

impl fmt::Display for GroupStatus {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(match self {
            GroupStatus::Running => "RUNNING",
            GroupStatus::Stopped => "STOPPED",
            GroupStatus::Abended => "ABENDED",
        })
    }
}

/// The state of a group whose lock is held or free, and whose last checkpoint is `checkpoint`.
pub fn status(is_locked: bool, checkpoint: &Checkpoint) -> GroupStatus {
    match checkpoint.stop_status {
        _ if is_locked => GroupStatus::Running,
        StopStatus::Active if checkpoint.started.is_some() => GroupStatus::Abended,
        StopStatus::Active | StopStatus::Graceful => GroupStatus::Stopped,
    }
}
