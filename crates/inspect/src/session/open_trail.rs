//! The file of a trail that a session looks at, and where it stands in it.

use super::{Hands, Progress};
use crate::error::Error;
use crate::open_file::{Given, OpenFile, Piece};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use trail::storage::Storage;

/// Bytes between two questions whether to go on: a few milliseconds of reading.
const QUESTION_BYTES: u64 = 8 * 1024 * 1024;

/// In which direction NEXT reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Direction {
    /// To the end.
    #[default]
    Forward,
    /// To the start.
    Reverse,
}

/// An open file and a place in it.
pub struct OpenTrail {
    /// Its directory.
    pub storage: Arc<dyn Storage>,
    /// Path of its directory.
    pub directory: PathBuf,
    /// Its name.
    pub name: String,
    /// Its content.
    pub file: OpenFile,
    /// The record that was shown last.
    pub current: Option<u64>,
    /// Where the next one is looked for.
    pub next: u64,
    /// In which direction.
    pub direction: Direction,
}

impl OpenTrail {
    /// Opens a file; it stands at its start.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn open(storage: Arc<dyn Storage>, directory: &Path, name: &str, given: &Given) -> Result<OpenTrail, Error> {
        let shown = || directory.join(name).display().to_string();
        let opened = storage.open_read(name).and_then(|file| OpenFile::open(file, given));
        let file = opened.map_err(|source| Error::file("open", shown(), source))?;
        Ok(OpenTrail {
            storage,
            directory: directory.to_owned(),
            name: name.to_owned(),
            file,
            current: None,
            next: 0,
            direction: Direction::Forward,
        })
    }

    /// Its whole name.
    pub fn path(&self) -> PathBuf {
        self.directory.join(&self.name)
    }

    /// Its length now: somebody may be writing it.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn length(&mut self) -> Result<u64, Error> {
        let path = self.path();
        self.file.walker().refresh().map_err(|source| Error::file("read", path.display().to_string(), source))
    }

    /// The error of a read that failed.
    pub fn failed(&self, source: std::io::Error) -> Error {
        Error::file("read", self.path().display().to_string(), source)
    }

    /// What comes at byte `rba`.
    ///
    /// # Errors
    /// [`Error::File`]; [`Error::Interrupted`].
    pub fn piece(&mut self, rba: u64, hands: &dyn Hands) -> Result<Piece, Error> {
        let mut is_interrupted = false;
        let piece = self.file.piece(rba, &mut |_| {
            is_interrupted = hands.is_interrupted();
            is_interrupted
        });
        if is_interrupted {
            return Err(Error::Interrupted);
        }
        piece.map_err(|source| self.failed(source))
    }
}

/// Signs of life of a long search, and the question whether to go on.
pub struct Pulse {
    records: u64,
    notify: u64,
    shows: bool,
    asked_at: u64,
}

impl Pulse {
    /// With a sign every `notify` records, if signs are wanted.
    pub fn new(notify: u64, shows: bool) -> Pulse {
        Pulse { records: 0, notify: notify.max(1), shows, asked_at: 0 }
    }

    /// Takes note of a record at byte `rba`.
    ///
    /// # Errors
    /// [`Error::Interrupted`].
    #[inline]
    pub fn beat(&mut self, hands: &dyn Hands, rba: u64, length: u64) -> Result<(), Error> {
        self.records += 1;
        if rba.abs_diff(self.asked_at) >= QUESTION_BYTES {
            self.asked_at = rba;
            if hands.is_interrupted() {
                return Err(Error::Interrupted);
            }
        }
        if self.shows && self.records.is_multiple_of(self.notify) {
            hands.progress(Progress { records: self.records, rba, length, is_over: false });
        }
        Ok(())
    }

    /// The search is over.
    pub fn end(&self, hands: &dyn Hands, rba: u64, length: u64) {
        if self.shows && self.records >= self.notify {
            hands.progress(Progress { records: self.records, rba, length, is_over: true });
        }
    }
}
