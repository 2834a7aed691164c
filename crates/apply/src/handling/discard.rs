//! The discard file: rows that are dropped, in a form that people read and can put right.

use change::{Change, Commit, Operation, Row, Value};
use database::TablePlan;
use parameter::ErrorKind;
use std::fmt::Write;
use std::io;
use trail::Position;

/// Takes what is dropped.
pub trait Discard: Send {
    /// Appends a text; durable when it returns.
    ///
    /// # Errors
    /// When it can't be written, or there is no room for it: then nothing may be dropped.
    fn append(&mut self, text: &str) -> io::Result<()>;
}

/// The error that a row met, for the discard file and for exceptions tables.
#[derive(Clone, Debug)]
pub(crate) struct LastError {
    pub(crate) kind: ErrorKind,
    pub(crate) code: String,
    pub(crate) detail: String,
}

impl LastError {
    /// The database's code, or the kind of error where it has none.
    pub(crate) fn number(&self) -> &str {
        if self.code.is_empty() { self.kind.word() } else { &self.code }
    }
}

/// The entry of one change.
pub(crate) fn discard_text(
    change: &Change,
    plan: &TablePlan,
    commit: Option<&Commit>,
    position: Position,
    error: &LastError,
) -> String {
    let mut text = String::new();
    let kind = change.operation.kind();
    _ = write!(text, "{kind} of {} to {} at trail position {position}", change.table.name, plan.target.name);
    if let Some(commit) = commit {
        _ = write!(text, ", CSN {}, transaction {}, committed {}", commit.csn, commit.transaction, commit.time);
    }
    _ = writeln!(text, "\n  error {}: {}", error.number(), error.detail);
    let mut image = |title: &str, row: &Row| {
        _ = writeln!(text, "  {title}");
        for pair in &plan.columns {
            let name = &plan.target.columns[pair.target].name;
            match row.value(pair.source) {
                Value::Unchanged => {}
                Value::Null => _ = writeln!(text, "    {name} = NULL"),
                Value::Bytes(bytes) => _ = writeln!(text, "    {name} = {}", shown(bytes)),
            }
        }
    };
    match &change.operation {
        Operation::Insert { new } => image("new", new),
        Operation::Update { old, new } => {
            if let Some(old) = old {
                image("old", old);
            }
            image("new", new);
        }
        Operation::Delete { old } => image("old", old),
        Operation::Truncate(_) => {}
    }
    text.push('\n');
    text
}

/// Text in quotes with what would break the line escaped; bytes that are no text in hexadecimal digits.
fn shown(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => {
            let quoted = text.replace('\\', "\\\\").replace('\'', "''");
            let escaped: String = quoted
                .chars()
                .flat_map(|character| match character {
                    '\n' => "\\n".chars().collect::<Vec<_>>(),
                    '\r' => "\\r".chars().collect(),
                    control if control.is_control() => control.escape_unicode().collect(),
                    other => vec![other],
                })
                .collect();
            format!("'{escaped}'")
        }
        Err(_) => bytes.iter().fold("0x".to_owned(), |text, byte| format!("{text}{byte:02x}")),
    }
}
