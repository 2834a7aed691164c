//! What goes to the page.

use super::cluster::Cluster;
use super::latency::RATE;
use crate::bench::machine;
use crate::bench::page::{self, Table};

/// Rows of the tables, from the parts that were measured.
#[derive(Default)]
pub struct Findings {
    bars: Vec<Vec<String>>,
    pub rates: Vec<Vec<String>>,
    pub costs: Vec<Vec<String>>,
    pub reading: Vec<Vec<String>>,
    pub pglogical: Vec<Vec<String>>,
    pub durable: Vec<Vec<String>>,
    pub appliers: Vec<Vec<String>>,
    pub large: Vec<Vec<String>>,
    pub open: Vec<Vec<String>>,
    pub outages: Vec<Vec<String>>,
    pub latencies: Vec<Vec<String>>,
}

impl Findings {
    /// A figure beside what is asked of it.
    pub fn bar(&mut self, what: &str, figure: String, asked: String, is_met: bool) {
        self.bars.push(vec![what.to_owned(), figure, asked, if is_met { "yes" } else { "no" }.to_owned()]);
    }
}

/// How it was measured.
pub fn introduction(rounds: usize, source: &Cluster<'_>) -> Result<String, String> {
    let version = source.run("postgres", "SELECT current_setting('server_version')")?;
    Ok(format!(
        "Made by `cargo x bench postgres`, in parts; median of {rounds} rounds.\n{}; PostgreSQL {version}.",
        machine::description()
    ))
}

/// All tables of the section, in their order.
pub fn tables(findings: Findings) -> Vec<Table> {
    let table = |title: &str, head: &'static [&'static str], rows| Table { title: title.to_owned(), head, rows };
    let latency = format!(
        "Milliseconds from the return of COMMIT at the source until the row is visible at the target, at {} transactions a second",
        page::grouped(RATE as f64)
    );
    vec![
        table("What is asked, and how it stands", &["bar", "figure", "asked", "met"], findings.bars),
        table(
            "Rows a second: draining a backlog, capture alone, and a Replicat alone from a trail that is there",
            &["workload", "rows", "native", "Drover", "ratio", "pg_recvlogical", "Extract", "ratio", "Replicat alone"],
            findings.rates,
        ),
        table(
            "CPU seconds per million rows while draining, peak memory of Drover's processes, and CPU seconds of capture alone",
            &[
                "workload",
                "walsender",
                "Extract",
                "Replicat",
                "applying session",
                "rest of target",
                "all",
                "Extract MiB",
                "Replicat MiB",
                "alone: walsender",
                "alone: reader",
            ],
            findings.costs,
        ),
        table(
            "An Extract by itself: CPU microseconds a row, bytes a row of pgoutput's messages and of the trail, and the share of \
             one core that it uses when it has caught up",
            &["workload", "CPU µs", "pgoutput bytes", "trail bytes", "ratio", "idle"],
            findings.reading,
        ),
        table(
            "Draining the backlogs beside pglogical, rows a second",
            &["workload", "pglogical", "Drover", "ratio"],
            findings.pglogical,
        ),
        table(
            "Small transactions where every commit is durable, rows a second",
            &["contender", "rows/s", "ratio"],
            findings.durable,
        ),
        table(
            "Four appliers, by a Replicat's own report",
            &["workload", "at work on average", "waited"],
            findings.appliers,
        ),
        table(
            "One large transaction, replicated while it is made: seconds that it takes at the source, seconds from its commit \
             until its last row is visible, peak memory",
            &["contender", "made", "commit to visible", "Extract MiB", "Replicat MiB"],
            findings.large,
        ),
        table("Open transactions", &["what", "time", "Extract's memory", "bytes"], findings.open),
        table(
            "Seconds until the next change is visible, counted from the moment when",
            &["moment", "native", "Drover"],
            findings.outages,
        ),
        table(&latency, &["contender", "p50", "p95", "p99", "max", "load"], findings.latencies),
    ]
}
