//! The note that an ADD command leaves while it is under way.
//!
//! ADD changes a database and then creates the group's checkpoint file. When it is interrupted between the two, the
//! database holds things of a group that does not exist. The note tells this from a group whose checkpoint file was lost:
//! what a note speaks of was never used, so it may be taken away and made anew.

use process::{GroupKind, GroupName, Home};
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::PathBuf;

/// What an ADD is about to put into a database.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Adding {
    /// Checkpoint table of a Replicat that is being added.
    pub checkpoint_table: Option<String>,
    /// The Replicat's key in that table.
    pub group_key: Option<i64>,
}

impl Adding {
    /// The note that an interrupted ADD of the group left, if there is one. A note that was torn says only that.
    pub fn find(home: &Home, kind: GroupKind, group: &GroupName) -> io::Result<Option<Adding>> {
        match fs::read(path(home, kind, group)) {
            Ok(text) => Ok(Some(serde_json::from_slice(&text).unwrap_or_default())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Leaves the note, durably.
    pub fn leave(&self, home: &Home, kind: GroupKind, group: &GroupName) -> io::Result<()> {
        let mut file = File::create(path(home, kind, group))?;
        file.write_all(&serde_json::to_vec(self)?)?;
        file.sync_all()?;
        File::open(home.dirchk())?.sync_all()
    }

    /// Takes the note away, if it is there.
    pub fn remove(home: &Home, kind: GroupKind, group: &GroupName) -> io::Result<()> {
        match fs::remove_file(path(home, kind, group)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

fn path(home: &Home, kind: GroupKind, group: &GroupName) -> PathBuf {
    home.dirchk().join(format!("{group}.{}-adding", kind.checkpoint_extension()))
}
