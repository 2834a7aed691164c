//! The few things that a trail needs of a disk.
//!
//! Everything that Drover promises about crashes rests on the difference between *written* and *synced*. The trait makes
//! that difference visible, and its in-memory twin [`Forgetful`] acts on it: a crash there loses what was not synced,
//! wholly or in part. [`Directory`] is the real thing.
//!
//! Names are plain file names without a path.

mod directory;
mod forgetful;
mod worker;

pub use directory::Directory;
pub use forgetful::Forgetful;
pub use worker::{Done, Work, Worker};

use std::io;
use std::time::Duration;

/// A directory of files.
///
/// # Guarantees
/// What was written is seen by every other handle at once; it survives a crash only after [`File::sync`]. That a name
/// exists, does not exist, or leads to another file survives a crash only after
/// [`sync_directory`](Storage::sync_directory).
pub trait Storage: Send + Sync {
    /// Creates an empty file for reading and writing. Refuses with `AlreadyExists` when the name is taken.
    fn create(&self, name: &str) -> io::Result<Box<dyn File>>;

    /// Opens a file for reading and writing. Refuses with `NotFound`.
    fn open(&self, name: &str) -> io::Result<Box<dyn File>>;

    /// Opens a file for reading. Refuses with `NotFound`.
    fn open_read(&self, name: &str) -> io::Result<Box<dyn File>>;

    /// Names of all files, in no particular order.
    fn list(&self) -> io::Result<Vec<String>>;

    /// Removes a name.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Lets the file called `from` be called `to`, in the place of whatever `to` was. After a crash either may hold.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Makes all names as they are now survive a crash.
    fn sync_directory(&self) -> io::Result<()>;

    /// A wake-up call for changes of the file called `name`, which need not exist yet.
    fn watch(&self, name: &str) -> io::Result<Box<dyn Watch>>;

    /// Puts a small file in the place of whatever `name` was. Readers see the old or the new content, never a mixture; but
    /// nothing is synced, so after a crash the old content, the new one, or a part of the new one may be there.
    fn replace(&self, name: &str, bytes: &[u8]) -> io::Result<()>;

    /// The whole content of a small file. Refuses with `NotFound`.
    fn read_whole(&self, name: &str) -> io::Result<Vec<u8>>;

    /// Takes the lock called `name`, or returns `None` when somebody alive holds it. It ends with the returned value, or
    /// with the process.
    fn lock(&self, name: &str) -> io::Result<Option<Box<dyn Lock>>>;

    /// Somebody who does things beside the caller. Without a better one, work is done at once and the caller waits for it.
    fn worker(&self) -> Box<dyn Worker> {
        Box::new(worker::Inline::default())
    }

    /// The directory, for messages.
    fn place(&self) -> String;
}

/// An open file.
pub trait File: Send {
    /// Its length in bytes.
    fn len(&self) -> io::Result<u64>;

    /// Whether it holds no byte.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Reads at `offset` until `buffer` is full or the file ends; returns the number of bytes read.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Writes all of `bytes` at `offset`. After an error any part of it may be there.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Makes the content survive a crash.
    fn sync(&self) -> io::Result<()>;

    /// Cuts or lengthens the file.
    fn set_len(&self, length: u64) -> io::Result<()>;

    /// Another handle, for a sync beside the writing: that sync makes at least that survive which was written before the
    /// handle was made.
    fn duplicate(&self) -> io::Result<Box<dyn File>>;
}

/// A wake-up call.
pub trait Watch: Send {
    /// Returns `true` within a millisecond after the file changed, or at once when it has changed since the last call;
    /// `false` when nothing happened within `timeout`.
    fn wait(&mut self, timeout: Duration) -> io::Result<bool>;
}

/// A lock that is held as long as the value lives.
pub trait Lock: Send {}
