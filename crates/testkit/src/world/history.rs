//! What must have happened, and whether it did.

use super::recorder::{Taken, fingerprint};
use change::{Csn, LogPosition, TableName};
use database::memory::MemoryDatabase;
use database::{Database, LogEvent, SourceRequest, TableSelection};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use trail::storage::Storage;
use trail::{Reader, Record, Start, TrailName};

/// A source transaction, as far as it concerns somebody.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Transaction {
    pub(super) csn: Csn,
    pub(super) operations: Vec<(TableName, u64)>,
}

/// Everything that was committed at the source since `start` to the chosen tables, by the source's own log.
pub(super) fn committed(
    source: &MemoryDatabase,
    group: &str,
    start: &LogPosition,
    tables: Arc<dyn TableSelection>,
) -> Result<Vec<Transaction>, String> {
    let request = SourceRequest { group: group.to_owned(), start: start.clone(), tables };
    let mut log = source.open_source(request).map_err(|error| format!("the source's log is not whole: {error}"))?;
    let mut transactions: Vec<Transaction> = Vec::new();
    let mut events = Vec::new();
    loop {
        log.read(&mut events, Duration::ZERO).map_err(|error| format!("the source's log is not whole: {error}"))?;
        if events.is_empty() {
            return Ok(transactions);
        }
        for event in events.drain(..) {
            match event {
                LogEvent::Begin(commit) => {
                    transactions.push(Transaction { csn: commit.csn, operations: Vec::new() });
                }
                LogEvent::Change(change) => {
                    let operation = (change.table.name.clone(), fingerprint(&change.table.name, &change.operation));
                    transactions.last_mut().ok_or("a change outside a transaction")?.operations.push(operation);
                }
                LogEvent::Commit { .. } | LogEvent::Idle { .. } | LogEvent::Object(_) | LogEvent::Notice(_) => {}
            }
        }
    }
}

/// The whole transactions that the trail holds, in its order.
pub(super) fn trailed(storage: Arc<dyn Storage>, trail: TrailName) -> Result<Vec<Transaction>, String> {
    let damaged = |error: trail::Error| format!("the trail can't be read to its end: {error}");
    let mut reader = Reader::open(storage, trail, Start::Beginning).map_err(damaged)?;
    let mut transactions = Vec::new();
    let mut open: Option<Transaction> = None;
    while let Some(entry) = reader.next().map_err(damaged)? {
        match entry.record {
            Record::Change { place, commit, change, .. } => {
                if place.starts() {
                    open = Some(Transaction { csn: commit.csn, operations: Vec::new() });
                }
                let operation = (change.table.name.clone(), fingerprint(&change.table.name, &change.operation));
                let current = open.as_mut().ok_or_else(|| format!("{} is outside a transaction", entry.position))?;
                current.operations.push(operation);
                if place.ends() {
                    transactions.extend(open.take());
                }
            }
            Record::Restart { .. } => open = None,
            Record::Statement { .. } | Record::Sequence { .. } => {
                return Err(format!("{} is no change of a row", entry.position));
            }
            Record::Header(_)
            | Record::Definition(_)
            | Record::Partition(_)
            | Record::Comment(_)
            | Record::Other { .. } => {}
        }
    }
    Ok(transactions)
}

/// Checks that the trail holds each committed transaction once, in commit order, and nothing else.
pub(super) fn check_trail(committed: &[Transaction], trailed: &[Transaction]) -> Result<(), String> {
    for (index, expected) in committed.iter().enumerate() {
        let Some(found) = trailed.get(index) else {
            return Err(format!("the trail ends before transaction {}", expected.csn));
        };
        if found != expected {
            let what = if found.csn == expected.csn { "has other changes" } else { "was expected" };
            return Err(format!("the trail holds transaction {} where {} {what}", found.csn, expected.csn));
        }
    }
    match trailed.get(committed.len()) {
        None => Ok(()),
        Some(extra) => Err(format!("the trail holds transaction {} once more than the source", extra.csn)),
    }
}

/// Checks that the target took each operation once, in commit order, and no source transaction in two commits.
pub(super) fn check_target(
    committed: &[Transaction],
    taken: &[Taken],
    mapped: impl Fn(&TableName) -> bool,
) -> Result<(), String> {
    let mut ends = vec![0];
    let mut expected = Vec::new();
    for transaction in committed {
        let operations = transaction.operations.iter().filter(|(table, _)| mapped(table));
        expected.extend(operations.map(|(_, operation)| (*operation, &transaction.csn)));
        ends.push(expected.len());
    }
    let mut place = 0;
    for target in taken {
        for operation in &target.operations {
            match expected.get(place) {
                Some((wanted, _)) if wanted == operation => {}
                Some((_, csn)) => {
                    let again = expected[..place].iter().any(|(earlier, _)| earlier == operation);
                    let what = if again { "an operation again" } else { "another operation" };
                    return Err(format!("the target took {what} where one of transaction {csn} was expected"));
                }
                None => return Err("the target took more operations than were committed at the source".to_owned()),
            }
            place += 1;
        }
        if !target.operations.is_empty() && ends.binary_search(&place).is_err() {
            return Err(format!("a target commit ends inside transaction {}", expected[place].1));
        }
    }
    match expected.get(place) {
        None => Ok(()),
        Some((_, csn)) => Err(format!("the target did not take transaction {csn}")),
    }
}

/// Checks that the target took each transaction once and as a whole, several of them in one commit in their order, and nothing
/// else. Each transaction starts with an operation that no other one has.
pub(super) fn check_parallel_target(
    committed: &[Transaction],
    taken: &[Taken],
    mapped: impl Fn(&TableName) -> bool,
) -> Result<(), String> {
    let expected: Vec<(&Csn, Vec<u64>)> = committed
        .iter()
        .map(|transaction| {
            let operations = transaction.operations.iter().filter(|(table, _)| mapped(table));
            (&transaction.csn, operations.map(|(_, operation)| *operation).collect::<Vec<u64>>())
        })
        .filter(|(_, operations)| !operations.is_empty())
        .collect();
    let first: HashMap<u64, usize> =
        expected.iter().enumerate().map(|(place, (_, operations))| (operations[0], place)).collect();
    let mut times = vec![0; expected.len()];
    for target in taken {
        let mut rest = target.operations.as_slice();
        let mut last = None;
        while let Some(operation) = rest.first() {
            let place = *first.get(operation).ok_or("the target took an operation that starts no transaction")?;
            let (csn, operations) = &expected[place];
            rest = rest
                .strip_prefix(operations.as_slice())
                .ok_or_else(|| format!("the target took a part of transaction {csn}"))?;
            if last.replace(place) >= Some(place) {
                return Err(format!("the target took transaction {csn} behind a later one in one commit"));
            }
            times[place] += 1;
        }
    }
    match times.iter().position(|times| *times != 1) {
        None => Ok(()),
        Some(place) => Err(format!("the target took transaction {} {} times", expected[place].0, times[place])),
    }
}

/// Checks that the target took each operation as often as it was committed, however transactions fell into parts.
pub(super) fn check_operations(
    committed: &[Transaction],
    taken: &[Taken],
    mapped: impl Fn(&TableName) -> bool,
) -> Result<(), String> {
    let mut times: HashMap<u64, (i64, &Csn)> = HashMap::new();
    for transaction in committed {
        for (_, operation) in transaction.operations.iter().filter(|(table, _)| mapped(table)) {
            times.entry(*operation).or_insert((0, &transaction.csn)).0 += 1;
        }
    }
    for operation in taken.iter().flat_map(|target| &target.operations) {
        times.get_mut(operation).ok_or("the target took an operation that was never committed")?.0 -= 1;
    }
    match times.values().find(|(times, _)| *times != 0) {
        None => Ok(()),
        Some((times, csn)) => {
            Err(format!("the target took an operation of transaction {csn} {} times too often", -times))
        }
    }
}
