//! `drover trail export`: changes for other programs.

use super::files::{TrailFiles, Work};
use super::json;
use super::pick::pick;
use super::select::Selection;
use super::sql::{self, Dialect};
use super::value::plain;
use crate::error::Error;
use change::{Change, Commit, Operation, OperationKind, Row, TableDefinition, Value};
use std::sync::Arc;
use trail::{Entry, Record, TransactionPlace};

/// In which form changes are exported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportFormat {
    /// One JSON object a line.
    JsonLines,
    /// One line a change of one table, with a header line.
    Csv,
    /// Statements that do the changes again, in the dialect of the source unless another is given.
    Sql(Option<Dialect>),
}

/// Exports the changes that are asked for; returns how many.
///
/// # Errors
/// [`Error`]; [`Error::Refused`] when CSV meets a second table, or SQL a change that it can't tell, or the end of the files in the
/// middle of a transaction.
pub fn export(
    files: &TrailFiles,
    selection: &mut Selection,
    format: ExportFormat,
    work: &mut Work<'_>,
) -> Result<u64, Error> {
    let mut count = 0;
    let mut exporter = Exporter { format, dialect: None, table: None, is_open: false };
    pick(files, selection, work, &mut |work, entry| {
        let text = exporter.text(entry)?;
        count += u64::from(!matches!(entry.record, Record::Header(_) | Record::Restart { .. }));
        work.print(&text)
    })?;
    if exporter.is_open && selection.is_inside() {
        work.print("ROLLBACK;\n")?;
        return Err(Error::refused(
            "the files end inside of a transaction, whose part is rolled back: export the file that goes on with it as well",
        ));
    }
    if exporter.is_open {
        work.print("COMMIT;\n")?;
    }
    Ok(count)
}

struct Exporter {
    format: ExportFormat,
    dialect: Option<Dialect>,
    /// The table of CSV.
    table: Option<Arc<TableDefinition>>,
    /// Whether a transaction of SQL is open.
    is_open: bool,
}

impl Exporter {
    fn text(&mut self, entry: &Entry) -> Result<String, Error> {
        if let Record::Header(header) = &entry.record {
            self.dialect = Dialect::of_product(&header.source.product);
        }
        match self.format {
            ExportFormat::JsonLines => Ok(json_line(entry)),
            ExportFormat::Csv => self.csv(entry),
            ExportFormat::Sql(given) => self.sql(entry, given),
        }
    }

    fn csv(&mut self, entry: &Entry) -> Result<String, Error> {
        let (commit, change) = match &entry.record {
            Record::Change { commit, change, .. } => (commit, change),
            Record::Statement { .. } | Record::Sequence { .. } => {
                return Err(Error::refused("CSV holds rows only: choose --operation insert,update,delete"));
            }
            _ => return Ok(String::new()),
        };
        let mut text = String::new();
        match &self.table {
            Some(table) if table.name != change.table.name || table.columns != change.table.columns => {
                return Err(Error::refused(format!(
                    "CSV holds one table of one shape: {} comes after {}; name one with --table, or split by --from and --to",
                    change.table.name, table.name
                )));
            }
            Some(_) => {}
            None => {
                let fixed = ["position", "csn", "transaction", "time", "operation"].map(str::to_owned);
                let columns = change.table.columns.iter().map(|column| field(&column.name));
                text = fixed.into_iter().chain(columns).collect::<Vec<_>>().join(",") + "\n";
                self.table = Some(Arc::clone(&change.table));
            }
        }
        let nothing = Row::from_values(change.table.columns.iter().map(|_| Value::Unchanged));
        let row = match &change.operation {
            Operation::Insert { new } | Operation::Update { new, .. } => new,
            Operation::Delete { old } => old,
            Operation::Truncate(_) => &nothing,
        };
        let mut fields = vec![
            entry.position.to_string(),
            field(commit.csn.as_str()),
            field(commit.transaction.as_str()),
            commit.time.to_string(),
            change.operation.kind().to_string(),
        ];
        fields.extend(row.values().enumerate().map(|(index, value)| match value {
            // Nothing at all, which is not the empty text.
            Value::Unchanged | Value::Null => String::new(),
            value => field(&plain(change.table.columns.get(index), value).bare()),
        }));
        Ok(text + &fields.join(",") + "\n")
    }

    fn sql(&mut self, entry: &Entry, given: Option<Dialect>) -> Result<String, Error> {
        let (place, commit) = match &entry.record {
            Record::Change { place, commit, .. } | Record::Statement { place, commit, .. } => (*place, commit),
            Record::Restart { abend: true } if self.is_open => {
                self.is_open = false;
                return Ok("ROLLBACK;\n".to_owned());
            }
            Record::Sequence { sequence, .. } => {
                return Ok(format!(
                    "-- sequence {} stands at {}\n",
                    one_line(&sequence.name.to_string()),
                    sequence.value
                ));
            }
            _ => return Ok(String::new()),
        };
        let dialect = given.or(self.dialect).ok_or_else(|| {
            Error::refused("the trail does not say whose SQL it needs: name it with --dialect sqlite or postgresql")
        })?;
        let mut text = String::new();
        // Changes that were not asked for may have been the first or the last of their transaction.
        if self.is_open && place.starts() {
            text.push_str("COMMIT;\n");
            self.is_open = false;
        }
        if !self.is_open {
            text += &format!(
                "-- transaction {}, csn {}\nBEGIN;\n",
                one_line(commit.transaction.as_str()),
                one_line(commit.csn.as_str())
            );
            self.is_open = true;
        }
        match &entry.record {
            Record::Change { change, .. } => text.extend(sql::redo(dialect, change)?.map(|line| line + "\n")),
            Record::Statement { statement, .. } => {
                text += &format!("{};\n", statement.text.trim_end().trim_end_matches(';'));
            }
            _ => {}
        }
        if place.ends() {
            text.push_str("COMMIT;\n");
            self.is_open = false;
        }
        Ok(text)
    }
}

/// A text without what would end a remark.
pub(super) fn one_line(text: &str) -> String {
    text.chars().map(|character| if character.is_control() { ' ' } else { character }).collect()
}

/// A field of CSV: in quotes where it must be, and where it is the empty text, so that it differs from NULL.
fn field(text: &str) -> String {
    if text.is_empty() || text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

fn json_line(entry: &Entry) -> String {
    let mut json = String::from("{\"position\":");
    json::string(&mut json, &entry.position.to_string());
    match &entry.record {
        Record::Change { place, commit, change, details } => {
            commit_members(&mut json, commit, *place);
            change_members(&mut json, change);
            for details in details.iter() {
                for partition in details.partition.iter() {
                    json::member(&mut json, "partition", &partition.name);
                }
                if !details.user_tokens.is_empty() {
                    json.push_str(",\"tokens\":{");
                    for (place, token) in details.user_tokens.iter().enumerate() {
                        if place > 0 {
                            json.push(',');
                        }
                        json::string(&mut json, &token.name);
                        json.push(':');
                        json::string(&mut json, &token.value);
                    }
                    json.push('}');
                }
            }
        }
        Record::Statement { place, commit, statement } => {
            commit_members(&mut json, commit, *place);
            json::member(&mut json, "operation", "ddl");
            json::member(&mut json, "object", &statement.name());
            json::member(&mut json, "statement", &statement.text);
        }
        Record::Sequence { place, commit, sequence } => {
            commit_members(&mut json, commit, *place);
            json::member(&mut json, "operation", "sequence");
            json::member(&mut json, "sequence", &sequence.name.to_string());
            json::member(&mut json, "value", &sequence.value.to_string());
        }
        _ => return String::new(),
    }
    json + "}\n"
}

fn commit_members(json: &mut String, commit: &Commit, place: TransactionPlace) {
    json::member(json, "csn", commit.csn.as_str());
    json::member(json, "transaction", commit.transaction.as_str());
    json::member(json, "time", &commit.time.to_string());
    let place = match place {
        TransactionPlace::First => "first",
        TransactionPlace::Middle => "middle",
        TransactionPlace::Last => "last",
        TransactionPlace::Only => "only",
    };
    json::member(json, "place", place);
}

fn change_members(json: &mut String, change: &Change) {
    json::member(json, "operation", &change.operation.kind().to_string());
    json::member(json, "table", &change.table.name.to_string());
    let mut image = |name: &str, row: &Row| {
        json.push_str(&format!(",\"{name}\":"));
        json::row(json, &change.table, row);
    };
    match &change.operation {
        Operation::Insert { new } => image("after", new),
        Operation::Delete { old } => image("before", old),
        Operation::Update { old, new } => {
            if let Some(old) = old {
                image("before", old);
            }
            image("after", new);
        }
        Operation::Truncate(_) => debug_assert_eq!(change.operation.kind(), OperationKind::Truncate),
    }
}
