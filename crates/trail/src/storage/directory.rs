//! Real files.

use super::worker::Thread;
use super::{File, Lock, Storage, Watch, Worker};
use notify::event::EventKind;
use notify::{RecursiveMode, Watcher};
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// A directory of the operating system.
#[derive(Clone, Debug)]
pub struct Directory {
    path: PathBuf,
}

impl Directory {
    /// The directory at `path`, which should exist.
    pub fn new(path: impl Into<PathBuf>) -> Directory {
        Directory { path: path.into() }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn options() -> fs::OpenOptions {
        let mut options = fs::OpenOptions::new();
        options.read(true).write(true);
        options
    }
}

impl Storage for Directory {
    fn create(&self, name: &str) -> io::Result<Box<dyn File>> {
        Ok(Box::new(Directory::options().create_new(true).open(self.path.join(name))?))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn File>> {
        Ok(Box::new(Directory::options().open(self.path.join(name))?))
    }

    fn open_read(&self, name: &str) -> io::Result<Box<dyn File>> {
        Ok(Box::new(fs::File::open(self.path.join(name))?))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.path)? {
            // A name that is not UTF-8 is none of ours.
            names.extend(entry?.file_name().into_string().ok());
        }
        Ok(names)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.path.join(name))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.path.join(from), self.path.join(to))
    }

    fn sync_directory(&self) -> io::Result<()> {
        fs::File::open(&self.path)?.sync_all()
    }

    fn watch(&self, name: &str) -> io::Result<Box<dyn Watch>> {
        let bell = Arc::new(Bell::default());
        let (ringer, wanted) = (Arc::clone(&bell), name.to_owned());
        let mut watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            // An error may hide a change, so it wakes as well.
            if event.map_or(true, |event| is_change(&event, OsStr::new(&wanted))) {
                ringer.ring();
            }
        })
        .map_err(watch_error)?;
        watcher.watch(&self.path, RecursiveMode::NonRecursive).map_err(watch_error)?;
        Ok(Box::new(DirectoryWatch { bell, _watcher: watcher }))
    }

    fn replace(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let new = self.path.join(format!("{name}.new"));
        fs::write(&new, bytes)?;
        fs::rename(&new, self.path.join(name))
    }

    fn read_whole(&self, name: &str) -> io::Result<Vec<u8>> {
        fs::read(self.path.join(name))
    }

    fn lock(&self, name: &str) -> io::Result<Option<Box<dyn Lock>>> {
        let file = Directory::options().create(true).truncate(false).open(self.path.join(name))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Box::new(FileLock { _file: file }))),
            Err(fs::TryLockError::WouldBlock) => Ok(None),
            Err(fs::TryLockError::Error(error)) => Err(error),
        }
    }

    fn worker(&self) -> Box<dyn Worker> {
        Box::new(Thread::default())
    }

    fn place(&self) -> String {
        self.path.display().to_string()
    }
}

impl File for fs::File {
    fn len(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            match FileExt::read_at(self, &mut buffer[filled..], offset + filled as u64) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(filled)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.write_all_at(bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        fs::File::set_len(self, length)
    }

    fn duplicate(&self) -> io::Result<Box<dyn File>> {
        Ok(Box::new(self.try_clone()?))
    }
}

struct FileLock {
    _file: fs::File,
}

impl Lock for FileLock {}

/// Only changes count: that somebody opened or read the file must not wake a reader, who would then wake itself.
fn is_change(event: &notify::Event, wanted: &OsStr) -> bool {
    !matches!(event.kind, EventKind::Access(_))
        && (event.need_rescan()
            || event.paths.is_empty()
            || event.paths.iter().any(|path| path.file_name() == Some(wanted)))
}

fn watch_error(error: notify::Error) -> io::Error {
    match error.kind {
        notify::ErrorKind::Io(error) => error,
        _ => io::Error::other(error),
    }
}

/// A flag that a thread can sleep on. Rings that come together count once.
#[derive(Default)]
struct Bell {
    rung: Mutex<bool>,
    condition: Condvar,
}

impl Bell {
    fn ring(&self) {
        *self.rung.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.condition.notify_one();
    }
}

struct DirectoryWatch {
    bell: Arc<Bell>,
    _watcher: notify::RecommendedWatcher,
}

impl Watch for DirectoryWatch {
    fn wait(&mut self, timeout: Duration) -> io::Result<bool> {
        let rung = self.bell.rung.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut rung, _) = self
            .bell
            .condition
            .wait_timeout_while(rung, timeout, |rung| !*rung)
            .unwrap_or_else(PoisonError::into_inner);
        Ok(std::mem::take(&mut *rung))
    }
}
