//! The note that ADD and DELETE leave while they are under way.
//!
//! Both change a database and create or remove the group's checkpoint file. When one is interrupted between the two, either
//! the database or the home holds things of a group that the other one does not know. The note tells this from a group
//! whose checkpoint file was lost, and from a login to the wrong database.

use process::{GroupKind, GroupName, Home};
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::PathBuf;

/// A command that has begun.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unfinished {
    /// Whether it is a DELETE. What an ADD put into a database was never used, so it may be taken away and made anew.
    pub deleting: bool,
    /// Checkpoint table of a Replicat that is being added.
    pub checkpoint_table: Option<String>,
    /// The Replicat's key in that table.
    pub group_key: Option<i64>,
}

impl Unfinished {
    /// The note that an interrupted command left, if there is one. A note that was torn says only that an ADD had begun.
    pub fn find(home: &Home, kind: GroupKind, group: &GroupName) -> io::Result<Option<Unfinished>> {
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
    home.dirchk().join(format!("{group}.{}-unfinished", kind.checkpoint_extension()))
}
