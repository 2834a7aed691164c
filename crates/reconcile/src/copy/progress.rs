//! How far an initial copy has come, and how long it may still take.

use super::{CopyJob, lock};
use change::{TableName, Timestamp};
use database::snapshot::CopyRow;
use std::collections::{HashMap, HashSet};
use std::sync::Mutex;
use std::time::Duration;

/// Share of a table that is taken for copied at most while it is not done: sizes are estimates.
const RUNNING_SHARE_MAX: f64 = 0.99;

/// The progress of a copy, over all its attempts. Shared by its workers and whoever looks.
#[derive(Default)]
pub struct CopyProgress(Mutex<State>);

#[derive(Default)]
struct State {
    /// Bytes that each table takes at the source.
    sizes: HashMap<TableName, u64>,
    running: HashMap<TableName, u64>,
    done: HashSet<TableName>,
    rows: u64,
    bytes: u64,
    /// When copying began, and the share that was done then.
    begun: Option<(Timestamp, f64)>,
    /// Bytes of rows per byte of their tables at the source, from the tables that this process has copied.
    copied_bytes: u64,
    copied_sizes: u64,
}

/// What [`CopyProgress`] tells.
#[derive(Clone, Debug, PartialEq)]
pub struct ProgressReport {
    /// All tables.
    pub tables: usize,
    /// Tables that are done.
    pub tables_done: usize,
    /// Tables that are being copied, with bytes so far, in name order.
    pub running: Vec<(TableName, u64)>,
    /// Rows copied and committed by this process.
    pub rows: u64,
    /// Bytes copied by this process, what is not committed included.
    pub bytes: u64,
    /// Bytes a second since the copy began.
    pub bytes_per_second: u64,
    /// What is done of the whole, from 0 to 1.
    pub share: f64,
    /// Time left at the pace so far; `None` before there is one.
    pub left: Option<Duration>,
}

impl CopyProgress {
    /// Nothing is known yet.
    pub fn new() -> CopyProgress {
        CopyProgress::default()
    }

    pub(super) fn begin(&self, jobs: &[CopyJob], done: &HashSet<&TableName>, now: Timestamp) {
        let mut state = lock(&self.0);
        // An empty table takes its moment too.
        state.sizes = jobs.iter().map(|job| (job.source.clone(), job.bytes.max(1))).collect();
        state.done = done.iter().map(|name| (*name).clone()).collect();
        state.running.clear();
        if state.begun.is_none() {
            state.begun = Some((now, state.share()));
        }
    }

    pub(super) fn started(&self, table: &TableName) {
        lock(&self.0).running.insert(table.clone(), 0);
    }

    pub(super) fn bytes(&self, table: &TableName, count: u64) {
        let mut state = lock(&self.0);
        state.bytes += count;
        if let Some(bytes) = state.running.get_mut(table) {
            *bytes += count;
        }
    }

    pub(super) fn finished(&self, row: &CopyRow) {
        let mut state = lock(&self.0);
        state.running.remove(&row.source);
        state.done.insert(row.source.clone());
        state.rows += row.rows;
        state.copied_bytes += row.bytes;
        state.copied_sizes += state.sizes.get(&row.source).copied().unwrap_or(0);
    }

    pub(super) fn given_up(&self, table: &TableName) {
        let mut state = lock(&self.0);
        if let Some(bytes) = state.running.remove(table) {
            state.bytes = state.bytes.saturating_sub(bytes);
        }
    }

    /// How far the copy has come at `now`.
    pub fn report(&self, now: Timestamp) -> ProgressReport {
        let state = lock(&self.0);
        let share = state.share();
        let elapsed = state.begun.map(|(begun, _)| now.micros_since(begun).max(0) as f64 / 1e6);
        let left = match (elapsed, state.begun) {
            (Some(elapsed), Some((_, before))) if share > before && elapsed > 0.0 => {
                Duration::try_from_secs_f64(elapsed * (1.0 - share) / (share - before)).ok()
            }
            _ => None,
        };
        let mut running: Vec<(TableName, u64)> =
            state.running.iter().map(|(name, bytes)| (name.clone(), *bytes)).collect();
        running.sort_unstable();
        ProgressReport {
            tables: state.sizes.len(),
            tables_done: state.done.len(),
            running,
            rows: state.rows,
            bytes: state.bytes,
            bytes_per_second: elapsed
                .filter(|elapsed| *elapsed > 0.0)
                .map_or(0, |elapsed| (state.bytes as f64 / elapsed) as u64),
            share,
            left,
        }
    }
}

impl State {
    fn share(&self) -> f64 {
        let total: u64 = self.sizes.values().sum();
        if total == 0 {
            return 1.0;
        }
        let ratio = if self.copied_sizes > 0 { self.copied_bytes as f64 / self.copied_sizes as f64 } else { 1.0 };
        let share_of = |(table, size): (&TableName, &u64)| {
            let size = *size as f64;
            match self.running.get(table) {
                _ if self.done.contains(table) => size,
                Some(bytes) => (*bytes as f64 / ratio.max(f64::MIN_POSITIVE)).min(size * RUNNING_SHARE_MAX),
                None => 0.0,
            }
        };
        self.sizes.iter().map(share_of).sum::<f64>() / total as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use change::Csn;

    fn job(name: &str, bytes: u64) -> CopyJob {
        CopyJob { source: TableName::new("s", name), destinations: Vec::new(), bytes }
    }

    fn second(number: i64) -> Timestamp {
        Timestamp::from_unix_micros(number * 1_000_000)
    }

    fn row(name: &str, rows: u64, bytes: u64) -> CopyRow {
        let csn = Some(Csn::new("1"));
        CopyRow { source: TableName::new("s", name), csn, rows, bytes, finished: None }
    }

    #[test]
    fn time_left_follows_the_pace_of_this_process() {
        let progress = CopyProgress::new();
        let jobs = [job("done", 500), job("large", 400), job("small", 100)];
        let before = TableName::new("s", "done");
        progress.begin(&jobs, &HashSet::from([&before]), second(0));
        assert_eq!((progress.report(second(1)).share, progress.report(second(1)).left), (0.5, None));
        progress.started(&TableName::new("s", "large"));
        progress.bytes(&TableName::new("s", "large"), 200);
        // 20 % of the whole in 10 s; 30 % are left.
        let report = progress.report(second(10));
        assert_eq!((report.tables, report.tables_done, report.bytes, report.bytes_per_second), (3, 1, 200, 20));
        assert_eq!(report.left.map(|left| left.as_secs_f64().round()), Some(15.0));
        assert_eq!(report.running, [(TableName::new("s", "large"), 200)]);
    }

    #[test]
    fn a_table_that_is_given_up_counts_for_nothing_and_one_that_is_done_for_all() {
        let progress = CopyProgress::new();
        let jobs = [job("a", 100), job("b", 100)];
        progress.begin(&jobs, &HashSet::new(), second(0));
        for name in ["a", "b"] {
            progress.started(&TableName::new("s", name));
            // Text may be larger than the table.
            progress.bytes(&TableName::new("s", name), 300);
        }
        assert!(progress.report(second(1)).share < 1.0);
        progress.given_up(&TableName::new("s", "a"));
        progress.finished(&row("b", 7, 300));
        let report = progress.report(second(1));
        assert_eq!((report.rows, report.bytes, report.share), (7, 300, 0.5));
        progress.started(&TableName::new("s", "a"));
        progress.bytes(&TableName::new("s", "a"), 150);
        assert_eq!(progress.report(second(1)).share, 0.75);
    }

    #[test]
    fn nothing_to_copy_is_all_done() {
        let progress = CopyProgress::new();
        progress.begin(&[], &HashSet::new(), second(0));
        assert_eq!(progress.report(second(1)).share, 1.0);
    }
}
