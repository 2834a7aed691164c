//! The sync that runs beside the writing.

use super::file::write_error;
use crate::safe::SafePosition;
use crate::storage::{Done, File, Storage, Worker};
use crate::{Error, Position, TrailName};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A sync that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Synced {
    /// What is durable and published.
    pub position: Position,
    /// How long it took.
    pub took: Duration,
}

/// Syncs the trail and publishes its safe position, at the caller's side or beside him.
pub(crate) struct Syncer {
    storage: Arc<dyn Storage>,
    trail: TrailName,
    worker: Box<dyn Worker>,
    publisher: Arc<Mutex<Publisher>>,
    in_flight: Option<InFlight>,
}

struct InFlight {
    position: Position,
    file: String,
}

/// Tells readers how far they may go. Positions come in their order, because one sync ends before the next one starts.
struct Publisher {
    safe: SafePosition,
    /// The last attempt failed: the trail itself was synced.
    has_failed: bool,
}

impl Publisher {
    fn publish(&mut self, storage: &dyn Storage, trail: TrailName, position: Position) -> io::Result<()> {
        let result = self.try_publish(storage, trail, position);
        self.has_failed = result.is_err();
        result
    }

    fn try_publish(&mut self, storage: &dyn Storage, trail: TrailName, position: Position) -> io::Result<()> {
        // Somebody may have tidied up: readers would wait for ever for what goes into a file that only we have open.
        let name = trail.safe_file();
        if storage.open_read(&name).is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
            self.safe = SafePosition::open(storage, trail)?;
        }
        self.safe.publish(position)
    }
}

impl Syncer {
    pub(crate) fn new(storage: &Arc<dyn Storage>, trail: TrailName, safe: SafePosition) -> Syncer {
        Syncer {
            storage: Arc::clone(storage),
            trail,
            worker: storage.worker(),
            publisher: Arc::new(Mutex::new(Publisher { safe, has_failed: false })),
            in_flight: None,
        }
    }

    /// Whether a sync was started whose end was not taken.
    pub(crate) fn is_busy(&self) -> bool {
        self.in_flight.is_some()
    }

    /// Starts to sync `file`, called `name`, and to publish `position` after it. No other sync may be in flight.
    ///
    /// # Errors
    /// When it could not be started; nobody knows then what will be durable.
    pub(crate) fn start(&mut self, file: &dyn File, name: &str, position: Position) -> io::Result<()> {
        let duplicate = file.duplicate()?;
        let (storage, trail) = (Arc::clone(&self.storage), self.trail);
        let publisher = Arc::clone(&self.publisher);
        self.worker.start(Box::new(move || {
            if !change::sabotage::is_on("publish-before-sync") {
                duplicate.sync()?;
            }
            lock(&publisher).publish(&*storage, trail, position)
        }))?;
        self.in_flight = Some(InFlight { position, file: name.to_owned() });
        Ok(())
    }

    /// The end of the sync that is in flight; `None` when there is none, or when it is not done and `wait` is not asked for.
    ///
    /// # Errors
    /// [`Error::Full`] when only the publishing failed, for lack of room; [`Error::Io`], after which nobody knows what is
    /// durable.
    pub(crate) fn finished(&mut self, wait: bool) -> Result<Option<Synced>, Error> {
        let Some(Done { result, took }) = self.worker.result(wait) else { return Ok(None) };
        let Some(InFlight { position, file }) = self.in_flight.take() else { return Ok(None) };
        match result {
            Ok(()) => Ok(Some(Synced { position, took })),
            Err(source) if lock(&self.publisher).has_failed => {
                Err(write_error(&*self.storage, &self.trail.safe_file(), 0, source))
            }
            // Even a full disk: after a failed sync the system may have dropped what was written.
            Err(source) => Err(Error::io("sync", &*self.storage, &file, source)),
        }
    }

    /// Lets readers go up to `position`, which is synced. No sync may be in flight.
    pub(crate) fn publish(&self, position: Position) -> io::Result<()> {
        lock(&self.publisher).publish(&*self.storage, self.trail, position)
    }

    /// Makes what is published survive a crash.
    pub(crate) fn sync_published(&self) -> io::Result<()> {
        lock(&self.publisher).safe.sync()
    }
}

fn lock(publisher: &Mutex<Publisher>) -> MutexGuard<'_, Publisher> {
    publisher.lock().unwrap_or_else(PoisonError::into_inner)
}
