//! Changes as SQL.

use super::value::hexadecimal;
use crate::error::Error;
use change::{Change, Column, Generation, LogicalType, Operation, Row, TableDefinition, Value};

/// Whose SQL is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// SQLite.
    Sqlite,
    /// PostgreSQL.
    Postgresql,
}

impl Dialect {
    /// The dialect of the product that a file header names, or that the operator does.
    pub fn of_product(product: &str) -> Option<Dialect> {
        match product.to_ascii_lowercase().as_str() {
            "sqlite" => Some(Dialect::Sqlite),
            "postgresql" | "postgres" => Some(Dialect::Postgresql),
            _ => None,
        }
    }

    fn literal(self, column: &Column, value: Value<'_>) -> String {
        let Value::Bytes(bytes) = value else { return "NULL".to_owned() };
        match self {
            Dialect::Sqlite => sqlite_literal(column.logical, bytes),
            // An untyped literal takes the type of the column that it stands beside.
            Dialect::Postgresql => match std::str::from_utf8(bytes) {
                Ok(text) if column.logical != LogicalType::Binary => quoted(text),
                _ => format!("'\\x{}'", hexadecimal(bytes)),
            },
        }
    }

    /// `column IS value` in a way that is true for NULL as well.
    fn is(self, column: &Column, value: Value<'_>) -> String {
        let (name, literal) = (identifier(&column.name), self.literal(column, value));
        match self {
            Dialect::Sqlite => format!("{name} IS {literal}"),
            // Some types, such as json and point, know no equality.
            Dialect::Postgresql if matches!(column.logical, LogicalType::Json | LogicalType::Other) => {
                format!("{name}::text IS NOT DISTINCT FROM {literal}")
            }
            Dialect::Postgresql if value == Value::Null => format!("{name} IS NULL"),
            Dialect::Postgresql => format!("{name} = {literal}"),
        }
    }

    /// What identifies a row in a table without a key.
    fn row_identifier(self) -> &'static str {
        match self {
            Dialect::Sqlite => "rowid",
            Dialect::Postgresql => "ctid",
        }
    }
}

fn sqlite_literal(logical: LogicalType, bytes: &[u8]) -> String {
    let blob = |bytes: &[u8]| format!("X'{}'", hexadecimal(bytes));
    let text = |bytes: &[u8]| match std::str::from_utf8(bytes) {
        // The shell and the parser end a statement at a NUL.
        Ok(text) if !text.contains('\0') => quoted(text),
        _ => format!("CAST({} AS TEXT)", blob(bytes)),
    };
    let number = |bytes: &[u8]| match std::str::from_utf8(bytes) {
        Ok("Infinity" | "Inf" | "inf") => "9e999".to_owned(),
        Ok("-Infinity" | "-Inf" | "-inf") => "-9e999".to_owned(),
        Ok(text) if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte)) => {
            text.to_owned()
        }
        _ => text(bytes),
    };
    match (logical, bytes) {
        (LogicalType::Dynamic, [b'i' | b'r', rest @ ..]) => number(rest),
        (LogicalType::Dynamic, [b't', rest @ ..]) => text(rest),
        (LogicalType::Dynamic, [_, rest @ ..]) => blob(rest),
        (LogicalType::Integer | LogicalType::Decimal | LogicalType::Float, _) => number(bytes),
        (LogicalType::Binary, _) => blob(bytes),
        _ => text(bytes),
    }
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

fn identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn table_name(table: &TableDefinition) -> String {
    format!("{}.{}", identifier(&table.name.schema), identifier(&table.name.table))
}

fn refuse(table: &TableDefinition, what: &str) -> Error {
    Error::refused(format!(
        "table {}: {what}; let the source tell whole rows (ADD TRANDATA with ALLCOLS, in PostgreSQL REPLICA IDENTITY FULL)",
        table.name
    ))
}

/// Columns that a statement may write, with their places.
fn written(table: &TableDefinition) -> impl Iterator<Item = (usize, &Column)> {
    table.columns.iter().enumerate().filter(|(_, column)| !column.generation.is_computed())
}

/// The row that a change makes, or made away with, as an INSERT.
fn insert(dialect: Dialect, table: &TableDefinition, row: &Row) -> Result<String, Error> {
    let mut names = Vec::new();
    let mut values = Vec::new();
    let mut overriding = "";
    for (index, column) in written(table) {
        let value = row.value(index);
        if value == Value::Unchanged {
            return Err(refuse(table, &format!("the value of column {} is not in the trail", column.name)));
        }
        if column.generation == Generation::IdentityAlways && dialect == Dialect::Postgresql {
            overriding = " OVERRIDING SYSTEM VALUE";
        }
        names.push(identifier(&column.name));
        values.push(dialect.literal(column, value));
    }
    let (into, names, values) = (table_name(table), names.join(", "), values.join(", "));
    Ok(format!("INSERT INTO {into} ({names}){overriding} VALUES ({values});"))
}

/// The condition that finds a row of which `image` is known, and where that says nothing of a column, `other`.
fn condition(dialect: Dialect, table: &TableDefinition, image: &Row, other: Option<&Row>) -> Result<String, Error> {
    let value = |index: usize| match (image.value(index), other.map(|other| other.value(index))) {
        (Value::Unchanged, Some(value)) => value,
        (value, _) => value,
    };
    let key = table.key();
    if !key.is_empty() {
        let mut parts = Vec::new();
        for index in key {
            let column = &table.columns[index];
            if value(index) == Value::Unchanged {
                return Err(refuse(table, &format!("the value of key column {} is not in the trail", column.name)));
            }
            parts.push(dialect.is(column, value(index)));
        }
        return Ok(parts.join(" AND "));
    }
    let known = table.columns.iter().enumerate().filter(|(index, _)| value(*index) != Value::Unchanged);
    let parts: Vec<String> = known.map(|(index, column)| dialect.is(column, value(index))).collect();
    if parts.len() < table.columns.len() {
        return Err(refuse(table, "it has no key, and not all of its row is in the trail"));
    }
    // Of rows that are alike, one.
    let (row, table) = (dialect.row_identifier(), table_name(table));
    Ok(format!("{row} = (SELECT {row} FROM {table} WHERE {} LIMIT 1)", parts.join(" AND ")))
}

/// `SET` of an update to the values of `target`, where they differ from `current`. `None` when nothing differs.
fn assignments(
    dialect: Dialect,
    table: &TableDefinition,
    target: &Row,
    current: Option<&Row>,
) -> Result<Option<String>, Error> {
    let mut parts = Vec::new();
    for (index, column) in written(table) {
        let (to, from) = (target.value(index), current.map_or(Value::Unchanged, |row| row.value(index)));
        if to != Value::Unchanged && to != from {
            parts.push(format!("{} = {}", identifier(&column.name), dialect.literal(column, to)));
        }
    }
    Ok((!parts.is_empty()).then(|| parts.join(", ")))
}

/// A change as the statement that does it.
///
/// # Errors
/// [`Error::Refused`] when the trail does not hold enough of the row.
pub(super) fn redo(dialect: Dialect, change: &Change) -> Result<Option<String>, Error> {
    let table = &change.table;
    let name = table_name(table);
    Ok(match &change.operation {
        Operation::Insert { new } => Some(insert(dialect, table, new)?),
        Operation::Delete { old } => {
            Some(format!("DELETE FROM {name} WHERE {};", condition(dialect, table, old, None)?))
        }
        Operation::Update { old, new } => match assignments(dialect, table, new, old.as_ref())? {
            None => None,
            Some(set) => {
                let found = match old {
                    Some(old) => condition(dialect, table, old, Some(new))?,
                    None => condition(dialect, table, new, None)?,
                };
                Some(format!("UPDATE {name} SET {set} WHERE {found};"))
            }
        },
        Operation::Truncate(options) => Some(match dialect {
            Dialect::Sqlite => format!("DELETE FROM {name};"),
            Dialect::Postgresql => {
                let restart = if options.restart_identity { " RESTART IDENTITY" } else { "" };
                let cascade = if options.cascade { " CASCADE" } else { "" };
                format!("TRUNCATE {name}{restart}{cascade};")
            }
        }),
    })
}

/// The statement that reverses a change.
///
/// # Errors
/// [`Error::Refused`] when the trail does not hold what was there before.
pub(super) fn undo(dialect: Dialect, change: &Change) -> Result<Option<String>, Error> {
    let table = &change.table;
    let name = table_name(table);
    Ok(match &change.operation {
        Operation::Insert { new } => {
            Some(format!("DELETE FROM {name} WHERE {};", condition(dialect, table, new, None)?))
        }
        Operation::Delete { old } => Some(insert(dialect, table, old)?),
        Operation::Update { old, new } => {
            let missing = || refuse(table, "an update came without the row before it");
            let old = old.as_ref().ok_or_else(missing)?;
            for (index, column) in written(table) {
                let is_unknown = new.value(index) != Value::Unchanged && old.value(index) == Value::Unchanged;
                if is_unknown && !change::sabotage::is_on("undo-half-images") {
                    let what = format!("what column {} was before an update is not in the trail", column.name);
                    return Err(refuse(table, &what));
                }
            }
            match assignments(dialect, table, old, Some(&filled(table, new, old)))? {
                None => None,
                Some(set) => {
                    let found = condition(dialect, table, new, Some(old))?;
                    Some(format!("UPDATE {name} SET {set} WHERE {found};"))
                }
            }
        }
        Operation::Truncate(_) => {
            return Err(Error::refused(format!("table {} was truncated: its rows are not in the trail", table.name)));
        }
    })
}

/// The image after, with what did not change taken from that before.
fn filled(table: &TableDefinition, new: &Row, old: &Row) -> Row {
    let value = |index: usize| match new.value(index) {
        Value::Unchanged => old.value(index),
        value => value,
    };
    Row::from_values((0..table.columns.len()).map(value))
}
