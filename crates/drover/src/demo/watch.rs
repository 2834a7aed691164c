//! Watching the demo from outside: how much each database shows, and how late the target shows it.

use rusqlite::Connection;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// How often the databases are asked whether somebody has committed. Bounds the error of the lag.
const POLL: Duration = Duration::from_millis(2);

/// Numbers that the watching thread keeps up to date.
#[derive(Default)]
pub struct Seen {
    /// Row changes that the source shows as committed.
    pub source_rows: AtomicU64,
    /// Newest `writer_log` entry in the source.
    pub source_entry: AtomicI64,
    /// Row changes that the target shows.
    pub target_rows: AtomicU64,
    /// Newest `writer_log` entry in the target.
    pub target_entry: AtomicI64,
    /// Microseconds from a commit at the source until the target showed it, latest.
    pub lag_micros: AtomicU64,
    lags: Mutex<Vec<u64>>,
    failure: Mutex<Option<String>>,
}

impl Seen {
    /// Microseconds of lag that `percent` of the transactions did not exceed; `None` before the first one.
    pub fn lag_percentile(&self, percent: f64) -> Option<u64> {
        let mut lags = self.lags.lock().unwrap_or_else(PoisonError::into_inner).clone();
        lags.sort_unstable();
        let rank = (percent / 100.0 * lags.len() as f64).ceil() as usize;
        lags.get(rank.saturating_sub(1)).copied()
    }

    /// Transactions whose lag was measured.
    pub fn transactions(&self) -> usize {
        self.lags.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Why watching ended early, if it did.
    pub fn failure(&self) -> Option<String> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The watching thread.
pub struct Watch {
    /// What it has seen.
    pub seen: Arc<Seen>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    /// Starts watching two databases of the workload.
    pub fn start(source: &Path, target: &Path) -> rusqlite::Result<Watch> {
        let (mut source, mut target) = (Follower::open(source)?, Follower::open(target)?);
        let seen = Arc::new(Seen::default());
        let stop = Arc::new(AtomicBool::new(false));
        let (shared, stopping) = (Arc::clone(&seen), Arc::clone(&stop));
        let thread = std::thread::spawn(move || {
            while !stopping.load(Ordering::Relaxed) {
                if let Err(error) = look(&mut source, &mut target, &shared) {
                    *shared.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(error.to_string());
                    return;
                }
                std::thread::sleep(POLL);
            }
        });
        Ok(Watch { seen, stop, thread: Some(thread) })
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been printed, and its numbers are no longer needed.
            let _ = thread.join();
        }
    }
}

fn look(source: &mut Follower, target: &mut Follower, seen: &Seen) -> rusqlite::Result<()> {
    let fresh = target.fresh()?;
    if !fresh.is_empty() {
        let now = process::clock::now().unix_micros;
        let mut lags = seen.lags.lock().unwrap_or_else(PoisonError::into_inner);
        lags.extend(fresh.iter().map(|committed| u64::try_from(now - committed).unwrap_or(0)));
        seen.lag_micros.store(lags.last().copied().unwrap_or(0), Ordering::Relaxed);
    }
    source.fresh()?;
    seen.source_rows.store(source.rows, Ordering::Relaxed);
    seen.source_entry.store(source.entry, Ordering::Relaxed);
    seen.target_rows.store(target.rows, Ordering::Relaxed);
    seen.target_entry.store(target.entry, Ordering::Relaxed);
    Ok(())
}

/// Follows `writer_log` of one database.
struct Follower {
    connection: Connection,
    version: i64,
    entry: i64,
    rows: u64,
}

impl Follower {
    fn open(path: &Path) -> rusqlite::Result<Follower> {
        let connection = Connection::open(path)?;
        connection.busy_timeout(Duration::from_secs(60))?;
        Ok(Follower { connection, version: -1, entry: 0, rows: 0 })
    }

    /// Commit times of the entries that came since the last call.
    fn fresh(&mut self) -> rusqlite::Result<Vec<i64>> {
        let version = self.connection.query_row("PRAGMA data_version", [], |row| row.get(0))?;
        if version == self.version {
            return Ok(Vec::new());
        }
        self.version = version;
        let sql = "SELECT entry, changes, committed FROM writer_log WHERE entry > ?1 ORDER BY entry";
        let mut statement = self.connection.prepare_cached(sql)?;
        let mut rows = statement.query([self.entry])?;
        let mut fresh = Vec::new();
        while let Some(row) = rows.next()? {
            self.entry = row.get(0)?;
            self.rows += u64::try_from(row.get::<_, i64>(1)?).unwrap_or(0);
            fresh.push(row.get(2)?);
        }
        Ok(fresh)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_occurred() {
        let seen = Seen::default();
        assert_eq!(seen.lag_percentile(50.0), None);
        *seen.lags.lock().expect("lock") = (1..=200).rev().collect();
        assert_eq!(
            [50.0, 95.0, 99.0, 100.0].map(|percent| seen.lag_percentile(percent)),
            [Some(100), Some(190), Some(198), Some(200)]
        );
    }
}
