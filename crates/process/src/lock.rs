//! Locks of the operating system, held by living processes only.

use crate::{GroupName, Home};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Somebody who asks for a status holds a shared lock for some microseconds. A group that starts at that very moment tries
/// again this often, with [`RETRY_DELAY`] between, before it believes that another process holds the lock.
const RETRIES_MAX: u32 = 20;

/// See [`RETRIES_MAX`].
const RETRY_DELAY: Duration = Duration::from_millis(5);

/// Why a lock was not taken.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// The group runs already.
    #[error("group {group} is already running{}", holder.in_words())]
    GroupRunning {
        /// The group.
        group: GroupName,
        /// Who runs it.
        holder: Holder,
    },
    /// Another command is changing the home.
    #[error("the home {} is in use by another process{}", home.display(), holder.in_words())]
    HomeInUse {
        /// The home.
        home: PathBuf,
        /// Who uses it.
        holder: Holder,
    },
    /// The operating system refused.
    #[error("could not lock {}", path.display())]
    Io {
        /// The lock file.
        path: PathBuf,
        /// The operating system's answer.
        source: io::Error,
    },
}

/// The process that holds a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Its process id, when it could be read.
    pub process_id: Option<u32>,
}

impl Holder {
    fn in_words(self) -> String {
        self.process_id.map(|id| format!(", process id {id}")).unwrap_or_default()
    }
}

/// The lock that a group holds while it runs. It ends with the value, and with the process however that ends.
#[derive(Debug)]
pub struct GroupLock {
    _file: File,
}

impl GroupLock {
    /// Takes the lock of `group` for this process.
    ///
    /// # Errors
    /// [`LockError::GroupRunning`] when another process holds it.
    pub fn acquire(home: &Home, group: &GroupName) -> Result<GroupLock, LockError> {
        let path = lock_file(home, group);
        let file = acquire(&path)
            .map_err(|error| error.named(&path, |holder| LockError::GroupRunning { group: group.clone(), holder }))?;
        Ok(GroupLock { _file: file })
    }

    /// The process that runs the group, or `None` when none does. Creates nothing and changes nothing.
    ///
    /// # Errors
    /// [`LockError::Io`].
    pub fn holder(home: &Home, group: &GroupName) -> Result<Option<Holder>, LockError> {
        let path = lock_file(home, group);
        holder(&path).map_err(|source| LockError::Io { path, source })
    }
}

/// The lock that a command holds while it adds, alters or deletes a group.
#[derive(Debug)]
pub struct HomeLock {
    _file: File,
}

impl HomeLock {
    /// Takes the lock of the home for this process.
    ///
    /// # Errors
    /// [`LockError::HomeInUse`] when another process holds it.
    pub fn acquire(home: &Home) -> Result<HomeLock, LockError> {
        let path = home.dirchk().join("home.lock");
        let file = acquire(&path).map_err(|error| {
            error.named(&path, |holder| LockError::HomeInUse { home: home.path().to_owned(), holder })
        })?;
        Ok(HomeLock { _file: file })
    }
}

enum Refusal {
    Held(Holder),
    Io(io::Error),
}

impl Refusal {
    fn named(self, path: &Path, held: impl FnOnce(Holder) -> LockError) -> LockError {
        match self {
            Refusal::Held(holder) => held(holder),
            Refusal::Io(source) => LockError::Io { path: path.to_owned(), source },
        }
    }
}

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Refusal {
        Refusal::Io(error)
    }
}

/// Lock files are made by whoever locks first and are never removed: removing one would let two processes hold locks on
/// two files of the same name.
fn lock_file(home: &Home, group: &GroupName) -> PathBuf {
    home.dirchk().join(format!("{group}.lock"))
}

fn acquire(path: &Path) -> Result<File, Refusal> {
    let mut file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
    let mut retries = 0;
    while let Err(error) = file.try_lock() {
        match error {
            TryLockError::Error(error) => return Err(error.into()),
            TryLockError::WouldBlock if retries == RETRIES_MAX => return Err(Refusal::Held(read_holder(&mut file))),
            TryLockError::WouldBlock => {
                retries += 1;
                std::thread::sleep(RETRY_DELAY);
            }
        }
    }
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "{}", std::process::id())?;
    Ok(file)
}

fn holder(path: &Path) -> io::Result<Option<Holder>> {
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    match file.try_lock_shared() {
        Ok(()) => Ok(None),
        Err(TryLockError::WouldBlock) => Ok(Some(read_holder(&mut file))),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

fn read_holder(file: &mut File) -> Holder {
    let mut text = String::new();
    let read = file.rewind().and_then(|()| file.take(32).read_to_string(&mut text));
    Holder { process_id: read.ok().and_then(|_| text.trim().parse().ok()) }
}
