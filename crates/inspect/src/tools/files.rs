//! The files that a tool reads: one, or all of a trail.

use crate::error::Error;
use crate::open_file::Given;
use crate::session::Progress;
use std::io::Write;
use std::sync::Arc;
use trail::storage::Storage;
use trail::{Position, TrailName};

/// Files in their order.
pub struct TrailFiles {
    /// Their directory.
    pub storage: Arc<dyn Storage>,
    /// Their names with their numbers.
    pub files: Vec<(String, u32)>,
    /// The trail, unless a single file was named.
    pub trail: Option<TrailName>,
    /// How far its writer has published it, where it says so.
    pub published: Option<Position>,
}

/// What a tool works with.
pub struct Work<'a> {
    /// Where its text goes.
    pub output: &'a mut dyn Write,
    /// What the operator gave for reading files.
    pub given: &'a Given,
    /// Shows how far it is.
    pub progress: &'a dyn Fn(Progress),
}

impl Work<'_> {
    pub(super) fn print(&mut self, text: &str) -> Result<(), Error> {
        self.output.write_all(text.as_bytes()).map_err(Error::Print)
    }
}

impl TrailFiles {
    /// The file called `name`, or the files of the trail called so.
    ///
    /// # Errors
    /// [`Error::Refused`] when there is neither; [`Error::File`].
    pub fn find(storage: Arc<dyn Storage>, name: &str) -> Result<TrailFiles, Error> {
        let listed = storage.list();
        let names = listed.map_err(|source| Error::file("list", storage.place(), source))?;
        let published = |trail: TrailName| {
            let read = trail::published(&*storage, trail);
            read.map_err(|source| Error::file("read", trail.safe_file(), source))
        };
        if names.iter().any(|known| known == name) {
            let of_trail = name.get(..2).and_then(|trail| TrailName::parse(trail).ok()).and_then(|trail| {
                let six = trail.with_six_digits();
                [trail, six].into_iter().find_map(|trail| Some((trail, trail.sequence_of(name)?)))
            });
            let sequence = of_trail.map_or(0, |(_, sequence)| sequence);
            let trail = of_trail.map(|(trail, _)| trail).or_else(|| TrailName::single(name).ok());
            let published = trail.map(published).transpose()?.flatten();
            return Ok(TrailFiles { storage, files: vec![(name.to_owned(), sequence)], trail: None, published });
        }
        let missing = || {
            let place = storage.place();
            Error::refused(format!("{place} has neither a file {name} nor files of a trail {name}"))
        };
        let trail = TrailName::parse(name).map_err(|_| missing())?;
        for trail in [trail, trail.with_six_digits()] {
            let numbered = names.iter().filter_map(|name| Some((name.clone(), trail.sequence_of(name)?)));
            let mut files: Vec<(String, u32)> = numbered.collect();
            if !files.is_empty() {
                files.sort_by_key(|(_, sequence)| *sequence);
                let published = published(trail)?;
                return Ok(TrailFiles { storage, files, trail: Some(trail), published });
            }
        }
        Err(missing())
    }

    /// Up to which byte a file may be read; `None` for all of it, `Some(0)` for nothing.
    pub fn limit(&self, sequence: u32) -> Option<u64> {
        let published = self.published?;
        match sequence.cmp(&published.sequence) {
            std::cmp::Ordering::Less => None,
            std::cmp::Ordering::Equal => Some(published.rba),
            std::cmp::Ordering::Greater => Some(0),
        }
    }

    /// The length of a file, as far as it may be read.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn length(&self, name: &str, sequence: u32) -> Result<u64, Error> {
        let length = self.storage.open_read(name).and_then(|file| file.len());
        let length = length.map_err(|source| Error::file("open", name, source))?;
        Ok(self.limit(sequence).map_or(length, |limit| limit.min(length)))
    }
}
