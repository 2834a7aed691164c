//! What an Extract reads from.

use crate::open::CommittedSource;
use change::{Commit, LogPosition};
use database::{Error, LogEvent, LogSource};
use std::time::Duration;

/// A source of committed transactions: as the database gives it, or made of a log that tells uncommitted work.
pub enum Reading {
    /// The database tells committed work only.
    Committed(Box<dyn LogSource>),
    /// Open transactions are kept here.
    Open(Box<CommittedSource>),
}

impl Reading {
    /// Where open transactions are kept.
    pub fn open(&self) -> Option<&CommittedSource> {
        match self {
            Reading::Committed(_) => None,
            Reading::Open(source) => Some(source),
        }
    }

    /// The same, to be told something.
    pub fn open_mut(&mut self) -> Option<&mut CommittedSource> {
        match self {
            Reading::Committed(_) => None,
            Reading::Open(source) => Some(source),
        }
    }

    fn source(&mut self) -> &mut dyn LogSource {
        match self {
            Reading::Committed(source) => &mut **source,
            Reading::Open(source) => &mut **source,
        }
    }
}

impl From<Box<dyn LogSource>> for Reading {
    fn from(source: Box<dyn LogSource>) -> Reading {
        Reading::Committed(source)
    }
}

impl From<CommittedSource> for Reading {
    fn from(source: CommittedSource) -> Reading {
        Reading::Open(Box::new(source))
    }
}

impl LogSource for Reading {
    fn read(&mut self, events: &mut Vec<LogEvent>, wait: Duration) -> Result<(), Error> {
        self.source().read(events, wait)
    }

    fn resume_after(&mut self, commit: &Commit) -> Result<bool, Error> {
        self.source().resume_after(commit)
    }

    fn verify_written(&mut self, commit: &Commit) -> Result<(), Error> {
        self.source().verify_written(commit)
    }

    fn release(&mut self, position: &LogPosition) -> Result<(), Error> {
        self.source().release(position)
    }
}
