//! The note that REGISTER EXTRACT leaves until the group is added.
//!
//! A source knows a group by its name only, and another home may have one of the same name. The note tells that what is
//! installed there is this home's, and that nobody has read from it.

use super::Failure;
use process::{GroupName, Home};
use std::fs::{self, File};
use std::io;
use std::path::PathBuf;

/// The note of a registered group.
pub struct Registered;

impl Registered {
    /// Whether this home registered the group and has not added it.
    pub fn find(home: &Home, group: &GroupName) -> Result<bool, Failure> {
        path(home, group).try_exists().map_err(|error| failed("read", group, &error))
    }

    /// Leaves the note, durably.
    pub fn leave(home: &Home, group: &GroupName) -> Result<(), Failure> {
        let left = File::create(path(home, group)).and_then(|_| File::open(home.dirchk())?.sync_all());
        left.map_err(|error| failed("make", group, &error))
    }

    /// Takes the note away, if it is there.
    pub fn remove(home: &Home, group: &GroupName) -> Result<(), Failure> {
        match fs::remove_file(path(home, group)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed("remove", group, &error)),
            _ => Ok(()),
        }
    }
}

fn path(home: &Home, group: &GroupName) -> PathBuf {
    home.dirchk().join(format!("{group}.registered"))
}

fn failed(action: &str, group: &GroupName, error: &io::Error) -> Failure {
    Failure::new(format!("could not {action} the note in dirchk that {group} is registered: {error}"))
}
