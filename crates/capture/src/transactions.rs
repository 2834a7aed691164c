//! Transactions that are open at the source: what we keep of them, merged with what the database itself shows (SHOWTRANS).

use crate::long::age;
use crate::open::OpenTransaction;
use change::{LogPosition, TableName, Timestamp, TransactionId};
use database::OpenWork;
use process::channel::OpenTransactionsRequest;
use std::collections::HashMap;
use std::time::Duration;

/// Where a transaction stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenState {
    /// It is open.
    Running,
    /// It is prepared for two-phase commit.
    Prepared,
    /// It is open, and is left out when it commits.
    LeftOut,
    /// It is open no more at the database, and we have not read its end.
    EndNotRead,
}

impl OpenState {
    /// The word that is shown.
    pub fn name(self) -> &'static str {
        match self {
            OpenState::Running => "Running",
            OpenState::Prepared => "Prepared",
            OpenState::LeftOut => "Skipped",
            OpenState::EndNotRead => "End not read",
        }
    }
}

/// A transaction that is open at the source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownTransaction {
    /// The source's name for it.
    pub transaction: TransactionId,
    /// Where it stands.
    pub state: OpenState,
    /// When it started, by the source's clock where that tells, else when we first heard of it.
    pub started: Option<Timestamp>,
    /// What we keep of it; `None` when nothing of it was told to us.
    pub kept: Option<OpenTransaction>,
    /// What the database shows; `None` when it shows nothing.
    pub work: Option<OpenWork>,
    /// Tables that it has written into, as far as anybody knows.
    pub tables: Vec<TableName>,
}

impl ShownTransaction {
    /// Changes that are kept.
    pub fn items(&self) -> u64 {
        self.kept.as_ref().map_or(0, |kept| kept.records)
    }

    /// Where the log starts to tell of it.
    pub fn start(&self) -> Option<&LogPosition> {
        self.kept.as_ref().map(|kept| &kept.start)
    }

    /// How long it is open at `now`.
    pub fn age(&self, now: Timestamp) -> Duration {
        self.started.map_or(Duration::ZERO, |started| age(now, started))
    }
}

/// Merges what we keep with what the database shows (`None` where it can't tell), the oldest first: in the order of the
/// database, and behind those it shows in the order of their starts in the log.
pub fn merge(
    kept: Vec<OpenTransaction>,
    work: Option<Vec<OpenWork>>,
    left_out: &[TransactionId],
) -> Vec<ShownTransaction> {
    let can_tell = work.is_some();
    let mut ours: HashMap<TransactionId, OpenTransaction> = HashMap::new();
    let mut order = Vec::new();
    for open in kept {
        order.push(open.transaction.clone());
        ours.insert(open.transaction.clone(), open);
    }
    let state = |transaction: &TransactionId, is_prepared: bool, is_shown: bool| match () {
        () if left_out.contains(transaction) => OpenState::LeftOut,
        () if !is_shown => OpenState::EndNotRead,
        () if is_prepared => OpenState::Prepared,
        () => OpenState::Running,
    };
    // Those that the database does not know any more are older than those it knows, or it could not tell at all.
    let shown: Vec<&TransactionId> = work.iter().flatten().map(|work| &work.transaction).collect();
    let gone: Vec<TransactionId> = order.into_iter().filter(|transaction| !shown.contains(&transaction)).collect();
    let mut merged: Vec<ShownTransaction> = gone
        .into_iter()
        .filter_map(|transaction| {
            let kept = ours.remove(&transaction)?;
            Some(ShownTransaction {
                state: state(&transaction, kept.prepared.is_some(), !can_tell),
                started: kept.started,
                tables: kept.tables.clone(),
                transaction,
                kept: Some(kept),
                work: None,
            })
        })
        .collect();
    for work in work.into_iter().flatten() {
        let kept = ours.remove(&work.transaction);
        let mut tables = kept.as_ref().map(|kept| kept.tables.clone()).unwrap_or_default();
        tables.extend(work.tables.iter().filter(|table| !tables.contains(table)).cloned().collect::<Vec<_>>());
        merged.push(ShownTransaction {
            transaction: work.transaction.clone(),
            state: state(&work.transaction, work.prepared.is_some(), true),
            started: work.started.or(kept.as_ref().and_then(|kept| kept.started)),
            tables,
            kept,
            work: Some(work),
        });
    }
    merged
}

/// Those that `request` asks for at `now`.
pub fn asked_for(
    mut transactions: Vec<ShownTransaction>,
    request: &OpenTransactionsRequest,
    now: Timestamp,
) -> Vec<ShownTransaction> {
    let least = Duration::from_secs(request.seconds.unwrap_or(0));
    transactions.retain(|shown| {
        request.transaction.as_deref().is_none_or(|wanted| shown.transaction.as_str() == wanted)
            && shown.age(now) >= least
            && shown.items() >= request.items.unwrap_or(0)
    });
    transactions.truncate(request.count.map_or(usize::MAX, |count| count as usize));
    transactions
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]

    use super::*;

    fn seconds(seconds: i64) -> Timestamp {
        Timestamp::from_unix_micros(seconds * 1_000_000)
    }

    fn kept(name: &str, started: i64, records: u64) -> OpenTransaction {
        OpenTransaction {
            transaction: TransactionId::new(name),
            start: LogPosition::new(format!("{started:03}")),
            started: Some(seconds(started)),
            records,
            bytes: records * 10,
            spilled_bytes: 0,
            prepared: None,
            tables: vec![TableName::new("s", "kept")],
            is_left_out: false,
            version: 0,
        }
    }

    fn work(name: &str, started: i64, state: &str) -> OpenWork {
        OpenWork {
            transaction: TransactionId::new(name),
            started: Some(seconds(started)),
            state: state.to_owned(),
            prepared: (state == "prepared").then(|| "gid".to_owned()),
            user: None,
            program: None,
            process_id: None,
            tables: vec![TableName::new("s", "kept"), TableName::new("s", "locked")],
        }
    }

    #[test]
    fn what_the_database_shows_is_merged_with_what_is_kept_oldest_first() {
        let ours = vec![kept("9", 50, 7), kept("5", 60, 2)];
        let theirs = vec![work("6", 10, "active"), work("7", 20, "prepared"), work("9", 30, "idle in transaction")];
        let merged = merge(ours, Some(theirs), &[TransactionId::new("6")]);
        let shown: Vec<_> =
            merged.iter().map(|one| (one.transaction.as_str(), one.state.name(), one.items())).collect();
        let expected = [("5", "End not read", 2), ("6", "Skipped", 0), ("7", "Prepared", 0), ("9", "Running", 7)];
        assert_eq!(shown, expected);
        assert_eq!(merged[3].started, Some(seconds(30)), "the server knows better when it started");
        assert_eq!(merged[3].tables.len(), 2);
    }

    #[test]
    fn what_the_database_can_not_tell_is_running() {
        let merged = merge(vec![kept("5", 60, 2)], None, &[]);
        assert_eq!(merged[0].state, OpenState::Running);
    }

    #[test]
    fn the_list_is_cut_as_the_request_says() {
        let all = merge(vec![kept("1", 10, 5), kept("2", 20, 900), kept("3", 90, 900)], None, &[]);
        let names = |request: OpenTransactionsRequest| -> Vec<String> {
            let shown = asked_for(all.clone(), &request, seconds(100));
            shown.iter().map(|one| one.transaction.to_string()).collect()
        };
        let request = OpenTransactionsRequest::default;
        assert_eq!(names(request()), ["1", "2", "3"]);
        assert_eq!(names(OpenTransactionsRequest { transaction: Some("2".to_owned()), ..request() }), ["2"]);
        assert_eq!(names(OpenTransactionsRequest { count: Some(1), ..request() }), ["1"]);
        assert_eq!(names(OpenTransactionsRequest { seconds: Some(80), ..request() }), ["1", "2"]);
        assert_eq!(names(OpenTransactionsRequest { items: Some(6), ..request() }), ["2", "3"]);
    }
}
