//! An in-memory directory that loses in a crash what was not synced.

use super::{File, Lock, Storage, Watch};
use std::io;

/// An in-memory directory that loses in a crash what was not synced. Clones share the content.
#[derive(Clone)]
pub struct Forgetful {}

impl Forgetful {
    /// An empty directory; `seed` decides what a crash leaves.
    pub fn new(seed: u64) -> Forgetful {
        let _ = seed;
        unimplemented!()
    }

    /// Loses what was not synced. Handles opened before fail from now on; I/O works again for new ones.
    pub fn crash(&self) {
        unimplemented!()
    }

    /// Lets the call after `calls` successful ones, and all later ones, fail until [`crash`](Forgetful::crash).
    pub fn fail_after(&self, calls: u64) {
        let _ = calls;
        unimplemented!()
    }

    /// Number of I/O calls so far.
    pub fn calls(&self) -> u64 {
        unimplemented!()
    }

    /// Lets the files hold at most `bytes` together, as a full disk does; `None` for no limit.
    pub fn full_after(&self, bytes: Option<u64>) {
        let _ = bytes;
        unimplemented!()
    }
}

impl Storage for Forgetful {
    fn create(&self, _name: &str) -> io::Result<Box<dyn File>> {
        unimplemented!()
    }
    fn open(&self, _name: &str) -> io::Result<Box<dyn File>> {
        unimplemented!()
    }
    fn open_read(&self, _name: &str) -> io::Result<Box<dyn File>> {
        unimplemented!()
    }
    fn list(&self) -> io::Result<Vec<String>> {
        unimplemented!()
    }
    fn remove(&self, _name: &str) -> io::Result<()> {
        unimplemented!()
    }
    fn sync_directory(&self) -> io::Result<()> {
        unimplemented!()
    }
    fn watch(&self, _name: &str) -> io::Result<Box<dyn Watch>> {
        unimplemented!()
    }
    fn replace(&self, _name: &str, _bytes: &[u8]) -> io::Result<()> {
        unimplemented!()
    }
    fn read_whole(&self, _name: &str) -> io::Result<Vec<u8>> {
        unimplemented!()
    }
    fn lock(&self, _name: &str) -> io::Result<Option<Box<dyn Lock>>> {
        unimplemented!()
    }
    fn place(&self) -> String {
        unimplemented!()
    }
}
