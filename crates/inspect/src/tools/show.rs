//! `drover trail show` and `grep`: changes as a person reads them.

use super::files::{TrailFiles, Work};
use super::pick::pick;
use super::select::Selection;
use super::value::{Plain, plain};
use crate::error::Error;
use change::{Change, Commit, Operation, Row, TableDefinition, Value};
use trail::{ChangeDetails, Entry, Record};

/// How changes look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Look {
    /// With colours.
    pub has_colours: bool,
    /// Values in their whole length.
    pub is_whole: bool,
    /// Each change on a line with its transaction, and not under one for the transaction.
    pub is_flat: bool,
}

/// Shows the changes that are asked for.
///
/// # Errors
/// [`Error`].
pub fn show(files: &TrailFiles, selection: &mut Selection, look: Look, work: &mut Work<'_>) -> Result<u64, Error> {
    let mut painter = Painter::new(look);
    let mut count = 0;
    pick(files, selection, work, &mut |work, entry| {
        let text = painter.text(entry);
        count += u64::from(!matches!(entry.record, Record::Header(_) | Record::Restart { .. }));
        work.print(&text)
    })?;
    Ok(count)
}

/// How many changes are asked for.
///
/// # Errors
/// [`Error`].
pub fn count(files: &TrailFiles, selection: &mut Selection, work: &mut Work<'_>) -> Result<u64, Error> {
    let mut count = 0;
    pick(files, selection, work, &mut |_, entry| {
        count += u64::from(!matches!(entry.record, Record::Header(_) | Record::Restart { .. }));
        Ok(())
    })?;
    Ok(count)
}

/// Turns entries into text.
pub(super) struct Painter {
    look: Look,
    /// The transaction whose line was shown last.
    transaction: Option<Commit>,
}

impl Painter {
    pub(super) fn new(look: Look) -> Painter {
        Painter { look, transaction: None }
    }

    fn painted(&self, code: &str, text: &str) -> String {
        if self.look.has_colours { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    /// The lines of an entry.
    pub(super) fn text(&mut self, entry: &Entry) -> String {
        let (commit, text) = match &entry.record {
            Record::Change { commit, change, details, .. } => (commit, self.change(change, details.as_deref())),
            Record::Statement { commit, statement, .. } => {
                let title = self.painted(MAGENTA, &statement.title());
                (commit, format!("{title}  {}", Plain::Text(&statement.text).shown(self.look.is_whole)))
            }
            Record::Sequence { commit, sequence, .. } => {
                let called = if sequence.is_called { "handed out" } else { "comes next" };
                let name = self.painted(BLUE, &sequence.name.to_string());
                (commit, format!("SEQUENCE {name}  {} {called}", sequence.value))
            }
            Record::Restart { abend } => {
                self.transaction = None;
                let what = if *abend { "RestartAbend: the open transaction is void" } else { "RestartOK" };
                return match self.look.is_flat {
                    true => String::new(),
                    false => format!("{}\n", self.painted(DIM, &format!("{}  {what}", entry.position))),
                };
            }
            _ => return String::new(),
        };
        let place = self.painted(DIM, &entry.position.to_string());
        if self.look.is_flat {
            let transaction = format!("{}  csn {}  transaction {}", commit.time, commit.csn, commit.transaction);
            return format!("{place}  {}  {text}\n", self.painted(DIM, &transaction));
        }
        let mut lines = String::new();
        if self.transaction.as_ref() != Some(commit) {
            let title = format!("transaction {}, csn {}, {}", commit.transaction, commit.csn, commit.time);
            lines = format!("{}\n", self.painted(BOLD, &title));
            self.transaction = Some(commit.clone());
        }
        lines + &format!("  {place}  {text}\n")
    }

    fn change(&self, change: &Change, details: Option<&ChangeDetails>) -> String {
        let table = &change.table;
        let name = self.painted(BLUE, &table.name.to_string());
        let mut text = match &change.operation {
            Operation::Insert { new } => format!("{} {name}  {}", self.painted(GREEN, "INSERT"), self.row(table, new)),
            Operation::Delete { old } => format!("{} {name}  {}", self.painted(RED, "DELETE"), self.row(table, old)),
            Operation::Truncate(_) => format!("{} {name}", self.painted(RED, "TRUNCATE")),
            Operation::Update { old, new } => {
                format!("{} {name}  {}", self.painted(YELLOW, "UPDATE"), self.update(table, old.as_ref(), new))
            }
        };
        if let Some(details) = details {
            let partition = details.partition.iter().map(|partition| format!("partition {}", partition.name));
            let tokens = details.user_tokens.iter().map(|token| format!("{}={}", token.name, token.value));
            let fetched = details.is_fetched.then(|| "fetched".to_owned());
            let all: Vec<String> = partition.chain(tokens).chain(fetched).collect();
            text += &self.painted(DIM, &format!("  [{}]", all.join(", ")));
        }
        text
    }

    fn row(&self, table: &TableDefinition, row: &Row) -> String {
        let values = row.values().enumerate().filter(|(_, value)| *value != Value::Unchanged);
        let shown = values.map(|(index, value)| self.column(table, index, value));
        shown.collect::<Vec<_>>().join(", ")
    }

    fn column(&self, table: &TableDefinition, index: usize, value: Value<'_>) -> String {
        let column = table.columns.get(index);
        let name = column.map_or("?", |column| column.name.as_str());
        format!("{name}={}", plain(column, value).shown(self.look.is_whole))
    }

    /// The key, then what became of each column that changed.
    fn update(&self, table: &TableDefinition, old: Option<&Row>, new: &Row) -> String {
        let nothing = Value::Unchanged;
        let key = table.key();
        let mut named = Vec::new();
        let mut changed = Vec::new();
        for index in 0..table.columns.len() {
            let before = old.map_or(nothing, |old| old.value(index));
            let after = new.value(index);
            let is_key = key.contains(&index);
            let column = table.columns.get(index);
            let name = column.map_or("?", |column| column.name.as_str());
            let shown = |value| plain(column, value).shown(self.look.is_whole);
            match (before, after) {
                (Value::Unchanged, Value::Unchanged) => {}
                (before, after) if before == after || after == nothing => {
                    if is_key || key.is_empty() {
                        named.push(self.column(table, index, before));
                    }
                }
                (Value::Unchanged, after) if is_key => named.push(self.column(table, index, after)),
                // What it was before is not told, so it may be the same.
                (Value::Unchanged, after) => changed.push(self.column(table, index, after)),
                (before, after) => changed.push(format!("{name}={} -> {}", shown(before), shown(after))),
            }
        }
        match (named.is_empty(), changed.is_empty()) {
            (false, false) => format!("{}: {}", named.join(", "), changed.join(", ")),
            (false, true) => format!("{}: no column changed", named.join(", ")),
            (true, _) => changed.join(", "),
        }
    }
}

const BOLD: &str = "1";
const DIM: &str = "2";
const RED: &str = "31";
const GREEN: &str = "32";
const YELLOW: &str = "33";
const BLUE: &str = "34";
const MAGENTA: &str = "35";
