//! What can be asked, and what is answered.

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// What somebody wants of a running group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "snake_case")]
pub enum Request {
    /// What the group is doing, and where it stands.
    Status,
    /// To end in good order.
    Stop {
        /// Without finishing what can be done again after the next start (FORCESTOP).
        at_once: bool,
    },
    /// The statistics so far, into the report.
    Report,
    /// To go on in a new trail file.
    RollOver,
    /// Whether everything that there is was processed.
    LogEnd,
    /// How far the group is behind.
    Lag,
    /// The statistics so far.
    Statistics(StatisticsRequest),
    /// Transactions that are open at the source.
    OpenTransactions(OpenTransactionsRequest),
    /// To leave a transaction out.
    SkipTransaction {
        /// The source's name for it.
        transaction: String,
    },
    /// To write what is there of a transaction as if it had committed.
    ForceTransaction {
        /// The source's name for it.
        transaction: String,
    },
    /// Something about Bounded Recovery.
    BoundedRecovery(BoundedRequest),
}

/// Since when statistics are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StatisticsPart {
    /// Since the start of the process.
    Total,
    /// Since midnight.
    Daily,
    /// Since the full hour.
    Hourly,
    /// Since the last reset.
    Latest,
}

/// Which statistics.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatisticsRequest {
    /// All parts when empty.
    pub parts: Vec<StatisticsPart>,
    /// Only tables whose name matches, with `*` for any characters.
    pub table: Option<String>,
    /// One sum for all of these tables.
    pub totals_only: bool,
    /// Latest begins anew.
    pub reset: bool,
}

/// Which open transactions, and how.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenTransactionsRequest {
    /// This one only.
    pub transaction: Option<String>,
    /// So many at most, the oldest first.
    pub count: Option<u32>,
    /// Those only that are open for so many seconds at least.
    pub seconds: Option<u64>,
    /// Those only with so many operations at least.
    pub items: Option<u64>,
    /// One line for each.
    pub tabular: bool,
    /// With what the server tells of the session and its tables.
    pub detail: bool,
}

/// What is asked of Bounded Recovery.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BoundedRequest {
    /// How it stands.
    Status,
    /// What it has done since the start.
    Statistics,
    /// A checkpoint now.
    Checkpoint,
    /// A checkpoint after some time.
    CheckpointIn {
        /// The time.
        seconds: u64,
    },
    /// A checkpoint at a time.
    CheckpointAt {
        /// Microseconds since 1970.
        unix_micros: i64,
    },
    /// To take checkpoints again.
    Start,
    /// To take no more.
    Stop,
    /// Another time between two checkpoints.
    Interval {
        /// The time.
        seconds: u64,
    },
}

impl BoundedRequest {
    /// A time between two checkpoints.
    pub fn interval(interval: Duration) -> BoundedRequest {
        BoundedRequest::Interval { seconds: interval.as_secs() }
    }
}

/// What a group answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// It was done, or is told here, line by line.
    Done {
        /// Lines to show.
        lines: Vec<String>,
    },
    /// It was not done.
    Refused {
        /// What could not be done, and why.
        what: String,
        /// What the operator can do about it.
        next_step: Option<String>,
    },
}

impl Answer {
    /// Something was done about which there is nothing more to say.
    pub fn processed() -> Answer {
        Answer::Done { lines: vec!["Request processed.".to_owned()] }
    }

    /// Lines to show.
    pub fn told(lines: impl IntoIterator<Item = impl Into<String>>) -> Answer {
        Answer::Done { lines: lines.into_iter().map(Into::into).collect() }
    }

    /// Something can't be done.
    pub fn refused(what: impl Into<String>) -> Answer {
        Answer::Refused { what: what.into(), next_step: None }
    }

    /// Something can't be done, and there is something else to do.
    pub fn refused_but(what: impl Into<String>, next_step: impl Into<String>) -> Answer {
        Answer::Refused { what: what.into(), next_step: Some(next_step.into()) }
    }
}
