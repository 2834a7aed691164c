//! Open transactions as SHOWTRANS shows them.

use crate::place::Place;
use capture::transactions::ShownTransaction;
use change::Timestamp;
use process::channel::OpenTransactionsRequest;
use process::clock;
use std::time::Duration;

const LINE: &str = "------------------------------------------------------------";

/// The lines for `transactions`, the oldest first.
pub(super) fn lines(
    transactions: &[ShownTransaction],
    request: &OpenTransactionsRequest,
    group: &str,
    (now, log_file_bytes): (Timestamp, Option<u64>),
) -> Vec<String> {
    if transactions.is_empty() {
        return vec!["No transactions found.".to_owned()];
    }
    if request.tabular {
        return table(transactions, group, (now, log_file_bytes));
    }
    let mut lines = vec![format!("Oldest transaction of {group}:")];
    for shown in transactions {
        lines.push(LINE.to_owned());
        let mut put = |label: &str, value: String| lines.push(format!("{:<21} {value}", format!("{label}:")));
        put("XID", shown.transaction.to_string());
        put("Items", shown.items().to_string());
        put("Extract", group.to_owned());
        match shown.start() {
            Some(start) => {
                Place::of(start, log_file_bytes).lines.into_iter().for_each(|(label, value)| put(label, value))
            }
            None => put("LSN", NOT_TOLD.to_owned()),
        }
        put("Start Time", shown.started.map_or_else(|| "Not Available".to_owned(), start_time));
        put("Duration", duration(shown.age(now)));
        put("Status", shown.state.name().to_owned());
        let tables: Vec<String> = shown.tables.iter().map(ToString::to_string).collect();
        put("Tables", if tables.is_empty() { "Not Available".to_owned() } else { tables.join(", ") });
        if request.detail {
            if let Some(kept) = &shown.kept {
                put("Bytes", kept.bytes.to_string());
                put("Bytes spilled", kept.spilled_bytes.to_string());
            }
            if let Some(work) = &shown.work {
                let known = |text: &Option<String>| text.clone().unwrap_or_else(|| "Not Available".to_owned());
                put("Server state", work.state.clone());
                put("User", known(&work.user));
                put("Program", known(&work.program));
                put("Server process", work.process_id.map_or_else(|| "none".to_owned(), |id| id.to_string()));
                if work.prepared.is_some() {
                    put("Prepared as", known(&work.prepared));
                }
            }
        }
    }
    lines.push(LINE.to_owned());
    lines
}

const NOT_TOLD: &str = "Not Available (the source has not told of it yet)";

fn table(
    transactions: &[ShownTransaction],
    group: &str,
    (now, log_file_bytes): (Timestamp, Option<u64>),
) -> Vec<String> {
    let row = |cells: [&str; 7]| {
        let [transaction, items, group, start, duration, place, status] = cells;
        format!("{transaction:<12} {items:>10} {group:<8} {start:<19} {duration:>10} {place:<18} {status}")
    };
    let mut lines = vec![row(["XID", "Items", "Extract", "Start Time", "Duration", "LSN", "Status"])];
    for shown in transactions {
        let place = shown.start().map(|start| Place::of(start, log_file_bytes));
        let place = place.and_then(|place| place.lines.into_iter().find(|(label, _)| *label == "LSN"));
        lines.push(row([
            shown.transaction.as_str(),
            &shown.items().to_string(),
            group,
            &shown.started.map_or_else(|| "Not Available".to_owned(), start_time),
            &duration(shown.age(now)),
            &place.map_or_else(|| "Not Available".to_owned(), |(_, lsn)| lsn),
            shown.state.name(),
        ]));
    }
    lines
}

/// `YYYY-MM-DD:HH:MI:SS`, as operators know it.
fn start_time(time: Timestamp) -> String {
    clock::to_second(time).replacen(' ', ":", 1)
}

fn duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}
