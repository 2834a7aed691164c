//! Waiting until somebody writes to the database.

use notify::{Event, EventKind, RecursiveMode, Watcher};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long to wait at most before looking without having been woken: file systems that other machines write to tell
/// nothing.
const LOOK_AT_LEAST_EVERY: Duration = Duration::from_millis(100);

/// Wakes when the database's file, its WAL or its journal changes.
pub(super) struct Wake {
    changed: Arc<(Mutex<bool>, Condvar)>,
    /// Watches as long as it lives; `None` where the system has no means.
    _watcher: Option<notify::RecommendedWatcher>,
}

impl Wake {
    pub(super) fn watch(path: &Path) -> Wake {
        let changed = Arc::new((Mutex::new(false), Condvar::new()));
        let watcher = Wake::watcher(path, Arc::clone(&changed)).ok();
        Wake { changed, _watcher: watcher }
    }

    fn watcher(path: &Path, changed: Arc<(Mutex<bool>, Condvar)>) -> notify::Result<notify::RecommendedWatcher> {
        let path = path.canonicalize()?;
        let name = path.file_name().unwrap_or_default().to_owned();
        let directory = path.parent().map_or_else(|| PathBuf::from("."), Path::to_path_buf);
        let mut watcher = notify::recommended_watcher(move |event: notify::Result<Event>| {
            // An event that could not be told may have been ours.
            let concerns_us = event.map_or(true, |event| {
                let written = !matches!(event.kind, EventKind::Access(_));
                let is_ours = |changed: &PathBuf| {
                    let changed = changed.file_name().unwrap_or_default().as_encoded_bytes();
                    changed.starts_with(name.as_encoded_bytes())
                };
                written && (event.need_rescan() || event.paths.iter().any(is_ours))
            });
            if concerns_us {
                *changed.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
                changed.1.notify_one();
            }
        })?;
        watcher.watch(&directory, RecursiveMode::NonRecursive)?;
        Ok(watcher)
    }

    /// Waits until something changed since the last call, or until it is time to look anyway, or until `deadline`.
    pub(super) fn wait(&self, deadline: Instant) {
        let wait = deadline.saturating_duration_since(Instant::now()).min(LOOK_AT_LEAST_EVERY);
        let changed = self.changed.0.lock().unwrap_or_else(PoisonError::into_inner);
        let result = self.changed.1.wait_timeout_while(changed, wait, |changed| !*changed);
        let (mut changed, _) = result.unwrap_or_else(PoisonError::into_inner);
        *changed = false;
    }
}
