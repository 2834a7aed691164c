//! Table names and definitions.

use crate::Column;
use std::fmt;
use std::sync::Arc;

/// Why a text is not a table name.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{text:?} is not a table name of the form schema.table")]
pub struct TableNameError {
    /// The text that was given.
    pub text: String,
}

/// A table's name: schema and table, exactly as the database stores them.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TableName {
    /// Schema, or database in MariaDB/MySQL; `main` in SQLite.
    pub schema: String,
    /// Table.
    pub table: String,
}

impl TableName {
    /// A name from its two parts.
    pub fn new(schema: impl Into<String>, table: impl Into<String>) -> TableName {
        TableName { schema: schema.into(), table: table.into() }
    }

    /// Reads the form that [`Display`](fmt::Display) writes.
    ///
    /// # Errors
    /// [`TableNameError`] when `text` does not have exactly two parts.
    pub fn parse(text: &str) -> Result<TableName, TableNameError> {
        let refuse = || TableNameError { text: text.to_owned() };
        let (schema, rest) = take_part(text).ok_or_else(refuse)?;
        let (table, rest) = rest.strip_prefix('.').and_then(take_part).ok_or_else(refuse)?;
        if rest.is_empty() { Ok(TableName { schema, table }) } else { Err(refuse()) }
    }
}

fn take_part(text: &str) -> Option<(String, &str)> {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find('.').unwrap_or(text.len());
        return (end > 0).then(|| (text[..end].to_owned(), &text[end..]));
    };
    let mut part = String::new();
    let mut characters = quoted.char_indices().peekable();
    while let Some((place, character)) = characters.next() {
        if character != '"' {
            part.push(character);
        } else if matches!(characters.peek(), Some((_, '"'))) {
            characters.next();
            part.push('"');
        } else {
            return Some((part, &quoted[place + 1..]));
        }
    }
    None
}

/// Writes `schema.table`; a part that is empty or holds a dot, a quote or a control character stands in double quotes.
impl fmt::Display for TableName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_part(formatter, &self.schema)?;
        formatter.write_str(".")?;
        write_part(formatter, &self.table)
    }
}

fn write_part(formatter: &mut fmt::Formatter<'_>, part: &str) -> fmt::Result {
    if part.is_empty() || part.chars().any(|character| character == '.' || character == '"' || character.is_control()) {
        write!(formatter, "\"{}\"", part.replace('"', "\"\""))
    } else {
        formatter.write_str(part)
    }
}

/// How a database compares names that were written without quotes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CaseRule {
    /// `T` and `t` are one table (SQLite; MariaDB/MySQL with lower-case table names).
    #[default]
    Insensitive,
    /// Unquoted names are folded to lower case, then compared exactly (PostgreSQL).
    FoldToLower,
    /// Names are compared exactly (MariaDB/MySQL on Linux).
    Sensitive,
}

/// The shape of a table at one moment of the source's history.
///
/// A definition never changes; a table that is altered gets a new definition, and each change points at the one it was
/// written under.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableDefinition {
    /// The table's name.
    pub name: TableName,
    /// Columns in order.
    pub columns: Arc<[Column]>,
}

impl TableDefinition {
    /// Indexes of the key columns, in key order; empty when the table has no key.
    pub fn key(&self) -> Vec<usize> {
        let mut places: Vec<(u16, usize)> =
            self.columns.iter().enumerate().filter_map(|(index, column)| Some((column.key?, index))).collect();
        places.sort_unstable();
        places.into_iter().map(|(_, index)| index).collect()
    }

    /// Index of the column called `name`, exactly.
    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LogicalType;

    #[test]
    fn hostile_names_survive_text_and_back() {
        for (schema, table) in
            [("main", "t"), ("Weird.Schema", "a\"b"), ("s", "x\"; DROP TABLE y; --"), ("", "\n"), ("ключ", "select")]
        {
            let name = TableName::new(schema, table);
            assert_eq!(TableName::parse(&name.to_string()), Ok(name));
        }
    }

    #[test]
    fn a_name_without_two_parts_is_refused() {
        for text in ["", "t", "a.b.c", ".t", "\"a.b", "\"a\"b.c"] {
            assert!(TableName::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_key_is_in_key_order() {
        let column = |name: &str| Column::new(name, LogicalType::Text, "text");
        let columns = vec![column("a").with_key(1), column("b"), column("c").with_key(0)];
        assert_eq!(TableDefinition { name: TableName::new("s", "t"), columns: columns.into() }.key(), [2, 0]);
    }
}
