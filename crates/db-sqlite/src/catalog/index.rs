//! Unique indexes.
//!
//! Pragmas tell an index's columns and collations, but neither its expressions nor, for a partial one, its condition:
//! those are cut out of the index's CREATE statement.

use crate::error::failed;
use crate::token::{Token, tokens};
use database::{Error, ErrorClass};
use rusqlite::Connection;

/// One part of an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct IndexColumn {
    /// The column, or `None` for an expression.
    pub(crate) column: Option<String>,
    /// SQL text of the expression; empty for a column.
    pub(crate) expression: String,
    /// The collation by which values are compared.
    pub(crate) collation: String,
}

/// An index that takes no two rows with the same values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UniqueIndex {
    pub(crate) name: String,
    pub(crate) is_primary_key: bool,
    pub(crate) columns: Vec<IndexColumn>,
    /// SQL text of the condition of a partial index.
    pub(crate) predicate: Option<String>,
}

impl UniqueIndex {
    pub(super) fn read_all(connection: &Connection, table: &str) -> Result<Vec<UniqueIndex>, Error> {
        let read = || -> rusqlite::Result<Vec<(String, String, Option<String>)>> {
            let mut statement = connection.prepare_cached(
                "SELECT list.name, list.origin, object.sql FROM pragma_index_list(?1, 'main') AS list \
                 LEFT JOIN sqlite_schema AS object ON object.type = 'index' AND object.name = list.name \
                 WHERE list.\"unique\" ORDER BY list.name",
            )?;
            statement.query_map([table], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?.collect()
        };
        let found = read().map_err(|cause| failed(format!("could not read the indexes of main.{table}"), cause))?;
        found.into_iter().map(|(name, origin, sql)| UniqueIndex::read(connection, name, &origin, sql)).collect()
    }

    fn read(connection: &Connection, name: String, origin: &str, sql: Option<String>) -> Result<UniqueIndex, Error> {
        let read = || -> rusqlite::Result<Vec<(Option<String>, String)>> {
            let mut statement = connection
                .prepare_cached("SELECT name, coll FROM pragma_index_xinfo(?1, 'main') WHERE key ORDER BY seqno")?;
            statement.query_map([&name], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
        };
        let parts = read().map_err(|cause| failed(format!("could not read index {name}"), cause))?;
        // Indexes that constraints made have no text; they are over plain columns.
        let text = sql.as_deref().map(|sql| IndexText::cut(sql).ok_or_else(|| unreadable(&name))).transpose()?;
        let predicate = text.as_ref().and_then(|text| text.predicate.clone());
        let mut columns = Vec::with_capacity(parts.len());
        for (place, (column, collation)) in parts.into_iter().enumerate() {
            let expression = match (&column, &text) {
                (Some(_), _) => String::new(),
                (None, Some(text)) => text.parts.get(place).cloned().ok_or_else(|| unreadable(&name))?,
                (None, None) => return Err(unreadable(&name)),
            };
            columns.push(IndexColumn { column, expression, collation });
        }
        Ok(UniqueIndex { name, is_primary_key: origin == "pk", columns, predicate })
    }
}

fn unreadable(index: &str) -> Error {
    Error::new(ErrorClass::Unsupported, format!("could not read the expressions of unique index {index}"))
        .with_next_step("exclude its table, or write the index over plain columns")
}

/// The parts of a CREATE INDEX statement.
#[derive(Debug, PartialEq, Eq)]
struct IndexText {
    /// Expressions without collation and direction.
    parts: Vec<String>,
    predicate: Option<String>,
}

impl IndexText {
    /// `CREATE [UNIQUE] INDEX [IF NOT EXISTS] name ON table ( part, … ) [WHERE condition]`
    fn cut(sql: &str) -> Option<IndexText> {
        let words = tokens(sql);
        let on = words.iter().position(|word| word.is_word("ON"))?;
        let list = on + 2;
        words.get(list).filter(|word| word.is_sign("("))?;
        let mut parts = Vec::new();
        let mut depth = 0;
        let mut first = list + 1;
        for (place, word) in words.iter().enumerate().skip(list) {
            let top = depth == 1;
            depth += i32::from(word.is_sign("(")) - i32::from(word.is_sign(")"));
            if depth == 0 || top && word.is_sign(",") {
                parts.push(expression(sql, words.get(first..place)?)?);
                first = place + 1;
            }
            if depth == 0 {
                let predicate = match words.get(place + 1) {
                    Some(word) if word.is_word("WHERE") => Some(sql[word.end()..].trim().to_owned()),
                    Some(_) => return None,
                    None => None,
                };
                // A comment at the end would swallow what we write behind the condition.
                let last = words.last()?.end();
                let predicate = predicate.map(|_| sql[words[place + 1].end()..last].trim().to_owned());
                return Some(IndexText { parts, predicate });
            }
        }
        None
    }
}

/// The words' text without a trailing direction and collation.
fn expression(sql: &str, mut words: &[Token<'_>]) -> Option<String> {
    if let [rest @ .., last] = words
        && (last.is_word("ASC") || last.is_word("DESC"))
    {
        words = rest;
    }
    if let [rest @ .., collate, _] = words
        && collate.is_word("COLLATE")
    {
        words = rest;
    }
    Some(sql[words.first()?.start..words.last()?.end()].to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(sql: &str) -> Option<(Vec<String>, Option<String>)> {
        IndexText::cut(sql).map(|text| (text.parts, text.predicate))
    }

    #[test]
    fn expressions_and_conditions_are_cut_out_whole() {
        let text = |parts: &[&str], predicate: Option<&str>| {
            Some((parts.iter().map(|part| (*part).to_owned()).collect(), predicate.map(str::to_owned)))
        };
        assert_eq!(cut("CREATE UNIQUE INDEX i ON t(a, b DESC)"), text(&["a", "b"], None));
        assert_eq!(
            cut(
                "CREATE UNIQUE INDEX IF NOT EXISTS \"on (\" ON \"t,(\" (coalesce(a, ')'), lower(b) COLLATE nocase ASC) WHERE c > 0 -- x"
            ),
            text(&["coalesce(a, ')')", "lower(b)"], Some("c > 0"))
        );
        assert_eq!(cut("CREATE UNIQUE INDEX i ON t(a) where b IN (1,2)"), text(&["a"], Some("b IN (1,2)")));
    }

    #[test]
    fn another_text_is_refused() {
        for sql in ["", "CREATE INDEX i", "CREATE INDEX i ON t(", "CREATE INDEX i ON t()", "CREATE INDEX i ON t(a) b"] {
            assert_eq!(cut(sql), None, "{sql}");
        }
    }
}
