//! Making sure that the database itself keeps what we are about to tell.

use crate::file_identity::file_number;
pub(super) use crate::file_identity::identity_of;
use database::{Error, ErrorClass};
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant, SystemTime};

/// A file that has shown the same time of change for so long can't have changed again under it: file systems tick in
/// steps of a few milliseconds.
const CLOCK_STEP: Duration = Duration::from_millis(100);

/// Syncs the files in which a committed transaction may rest.
pub(super) struct Durable {
    path: PathBuf,
    database: Arc<File>,
    directory: File,
    changed: Option<Changed>,
    /// The WAL whose directory entry is known to be on disk.
    entered: Option<u128>,
}

/// When the database's file was changed last.
struct Changed {
    at: SystemTime,
    first_seen: Instant,
    /// Whether a sync has covered everything up to then.
    synced: bool,
}

impl Durable {
    pub(super) fn open(path: &Path) -> Result<Durable, Error> {
        let open = || -> io::Result<Durable> {
            let path = path.canonicalize()?;
            let directory = File::open(path.parent().unwrap_or(Path::new("/")))?;
            Ok(Durable { database: kept_open(&path)?, directory, path, changed: None, entered: None })
        };
        open().map_err(|cause| {
            Error::new(ErrorClass::Permanent, format!("could not open {} to sync it", path.display())).with_cause(cause)
        })
    }

    /// Makes everything that has been committed so far survive a power loss.
    pub(super) fn sync(&mut self) -> Result<(), Error> {
        if change::sabotage::is_on("skip-source-sync") {
            return Ok(());
        }
        self.sync_files().map_err(|cause| {
            let full = cause.kind() == io::ErrorKind::StorageFull;
            let class = if full { ErrorClass::Full } else { ErrorClass::Permanent };
            Error::new(class, format!("could not sync the log of {}", self.path.display())).with_cause(cause)
        })
    }

    /// In the order of SQLite's own writes: the journal or WAL, then the database, then the directory, in which the
    /// disappearance of a journal is the commit.
    fn sync_files(&mut self) -> io::Result<()> {
        let wal = self.sync_beside("-wal")?;
        self.sync_beside("-journal")?;
        self.sync_database()?;
        if wal.is_none() || wal != self.entered {
            self.directory.sync_all()?;
            self.entered = wal;
        }
        Ok(())
    }

    /// Somebody may have copied the WAL into the database without syncing either. In WAL mode that is rare, so it is looked
    /// at before it is synced.
    fn sync_database(&mut self) -> io::Result<()> {
        let at = self.database.metadata()?.modified()?;
        let known = self.changed.take().filter(|changed| changed.at == at);
        let mut changed = known.unwrap_or(Changed { at, first_seen: Instant::now(), synced: false });
        if !changed.synced {
            let settled = changed.first_seen.elapsed() > CLOCK_STEP;
            self.database.sync_data()?;
            changed.synced = settled;
        }
        self.changed = Some(changed);
        Ok(())
    }

    /// Syncs a file beside the database, if it is there, and returns its number.
    fn sync_beside(&self, suffix: &str) -> io::Result<Option<u128>> {
        let mut name = self.path.clone().into_os_string();
        name.push(suffix);
        let synced = File::open(&name).and_then(|file| file.sync_data()).and_then(|()| file_number(Path::new(&name)));
        match synced {
            Ok(number) => Ok(Some(number)),
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(cause) => Err(cause),
        }
    }
}

/// Opens the file once and for the life of the process.
///
/// POSIX locks belong to process and file: closing *any* descriptor of the database's file would drop the locks that SQLite
/// holds on it in this process (SQLite, *How To Corrupt An SQLite Database File*, 2.2). So this one is never closed.
fn kept_open(path: &Path) -> io::Result<Arc<File>> {
    type Kept = HashMap<(PathBuf, u128), Arc<File>>;
    static OPEN: OnceLock<Mutex<Kept>> = OnceLock::new();
    let mut open = OPEN.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
    let key = (path.to_path_buf(), file_number(path)?);
    if let Some(file) = open.get(&key) {
        return Ok(Arc::clone(file));
    }
    let file = Arc::new(File::open(path)?);
    open.insert(key, Arc::clone(&file));
    Ok(file)
}
