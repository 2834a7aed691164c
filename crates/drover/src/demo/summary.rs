//! What the demo found, for people and as JSON.

use super::compare::{self, TableComparison};
use super::progress::milliseconds;
use super::watch::Seen;
use super::{Error, Stage, workload};
use serde::Serialize;
use std::fmt::Write;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The console commands that set up the demo's groups.
pub const COMMANDS: &str = "\
DBLOGIN SOURCEDB sqlite:../source.db
ADD EXTRACT e1, TRANLOG, BEGIN NOW
ADD EXTTRAIL ./dirdat/aa, EXTRACT e1, MEGABYTES 20
DBLOGIN SOURCEDB sqlite:../target.db
ADD CHECKPOINTTABLE main.checkpoints
ADD REPLICAT r1, EXTTRAIL ./dirdat/aa, CHECKPOINTTABLE main.checkpoints
";

/// The result of a demo.
#[derive(Debug, Serialize)]
pub struct Summary {
    /// Whether both databases hold the same rows.
    pub equal: bool,
    /// Row changes that the writers made.
    pub changes: u64,
    /// Transactions that they committed.
    pub transactions: i64,
    /// Seconds in which they did it.
    pub writing_seconds: f64,
    /// Seconds until the target had all of it.
    pub seconds: f64,
    /// Row changes per second from source to target, restarts included.
    pub changes_per_second: f64,
    /// Bytes of the trail.
    pub trail_bytes: u64,
    /// Time from a commit at the source until the target showed it.
    pub lag: Lag,
    /// How often processes were killed with SIGKILL and started again.
    pub restarts: Restarts,
    /// The comparison, table by table.
    pub tables: Vec<TableComparison>,
    /// Seed of workload and kills.
    pub seed: u64,
    /// The folder with all files, if it was kept.
    pub folder: Option<PathBuf>,
}

/// Percentiles of lag in milliseconds.
#[derive(Debug, Serialize)]
pub struct Lag {
    /// Half of the transactions.
    pub p50_ms: f64,
    /// 95 of 100.
    pub p95_ms: f64,
    /// 99 of 100.
    pub p99_ms: f64,
    /// All.
    pub max_ms: f64,
    /// Transactions measured.
    pub transactions: usize,
}

/// Kills and restarts.
#[derive(Debug, Serialize)]
pub struct Restarts {
    /// Of the Extract.
    pub extract: u32,
    /// Of the Replicat.
    pub replicat: u32,
    /// Of all writers.
    pub writers: u32,
}

/// Compares the databases and gathers the numbers.
pub(super) fn summarize(
    stage: &Stage,
    seed: u64,
    seen: &Seen,
    writing: Duration,
    all: Duration,
    restarts: Restarts,
) -> Result<Summary, Error> {
    let tables = compare::compare(&stage.source, &stage.target, &workload::TABLES)?;
    let lag = |percent| seen.lag_percentile(percent).unwrap_or(0) as f64 / 1e3;
    let changes = seen.target_rows.load(Ordering::Relaxed);
    Ok(Summary {
        equal: tables.iter().all(TableComparison::is_equal),
        changes,
        transactions: tables.iter().find(|table| table.table == "writer_log").map_or(0, |table| table.source_rows),
        writing_seconds: writing.as_secs_f64(),
        seconds: all.as_secs_f64(),
        changes_per_second: changes as f64 / all.as_secs_f64(),
        trail_bytes: stage.trail_bytes(),
        lag: Lag {
            p50_ms: lag(50.0),
            p95_ms: lag(95.0),
            p99_ms: lag(99.0),
            max_ms: lag(100.0),
            transactions: seen.transactions(),
        },
        restarts,
        tables,
        seed,
        folder: None,
    })
}

impl Summary {
    /// Whether both databases hold the same rows.
    pub fn is_equal(&self) -> bool {
        self.equal
    }

    /// The summary as one JSON object.
    pub fn json(&self) -> String {
        serde_json::to_string_pretty(self).expect("numbers, texts and lists can be written as JSON")
    }

    /// The summary for people.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let mut line = |line: String| {
            text.push_str(&line);
            text.push('\n');
        };
        line(String::new());
        line(format!(
            "{:<16} {:>10} {:>10}  {:>14} {:>14}",
            "table", "source", "target", "only in source", "only in target"
        ));
        for table in &self.tables {
            line(format!(
                "{:<16} {:>10} {:>10}  {:>14} {:>14}",
                table.table, table.source_rows, table.target_rows, table.only_in_source, table.only_in_target
            ));
        }
        line(String::new());
        line(match self.equal {
            true => {
                "EQUAL: every row, value for value, compared in plain SQL (EXCEPT both ways, typeof, counts)".to_owned()
            }
            false => "DIFFERENT: the target does not hold what the source holds".to_owned(),
        });
        line(String::new());
        line(format!("changes       {} in {} transactions", self.changes, self.transactions));
        line(format!(
            "rate          {:.0} changes/s from source to target ({:.1} s, writers took {:.1} s)",
            self.changes_per_second, self.seconds, self.writing_seconds
        ));
        let shown = |value: f64| milliseconds((value * 1e3) as u64);
        line(format!(
            "lag           p50 {}, p95 {}, p99 {}, max {} (restarts included)",
            shown(self.lag.p50_ms),
            shown(self.lag.p95_ms),
            shown(self.lag.p99_ms),
            shown(self.lag.max_ms)
        ));
        line(format!(
            "kill -9       Extract {}, Replicat {}, writers {}",
            self.restarts.extract, self.restarts.replicat, self.restarts.writers
        ));
        line(format!("trail         {:.1} MB", self.trail_bytes as f64 / 1e6));
        line(format!("seed          {}", self.seed));
        match &self.folder {
            Some(folder) => {
                let folder = folder.display();
                line(format!("files         {folder}"));
                line(String::new());
                line("Try next:".to_owned());
                for command in [
                    format!("drover trail show {folder}/home/dirdat/aa | less"),
                    format!("drover --home {folder}/home -c 'INFO ALL; INFO EXTRACT e1; INFO REPLICAT r1'"),
                    format!("less {folder}/home/dirrpt/E1.rpt"),
                    format!("drover extract e1 --home {folder}/home     # and change {folder}/source.db"),
                ] {
                    line(format!("  {command}"));
                }
            }
            None => {
                line("files         removed; --keep keeps them".to_owned());
                line(String::new());
                line("Try next:".to_owned());
                line("  drover demo --keep            # look at the trail, the reports and both databases".to_owned());
                line("  drover --help                 # replicate databases of your own".to_owned());
            }
        }
        line(String::new());
        line("The groups were set up with these console commands:".to_owned());
        let mut commands = String::new();
        for command in COMMANDS.lines() {
            // Writing to a string can't fail.
            let _ = writeln!(commands, "  {command}");
        }
        text + &commands
    }
}
