//! Two databases compared row by row, in plain SQL and without any part of Drover.

use rusqlite::Connection;
use serde::Serialize;
use std::path::Path;

/// What comparing one table found.
#[derive(Debug, Serialize)]
pub struct TableComparison {
    /// Table.
    pub table: String,
    /// Rows in the source.
    pub source_rows: i64,
    /// Rows in the target.
    pub target_rows: i64,
    /// Rows of the source that the target does not have, value for value and storage class for storage class.
    pub only_in_source: i64,
    /// The reverse.
    pub only_in_target: i64,
}

impl TableComparison {
    /// Whether both sides hold the same rows.
    pub fn is_equal(&self) -> bool {
        self.source_rows == self.target_rows && self.only_in_source == 0 && self.only_in_target == 0
    }
}

/// Compares `tables` of two database files.
pub fn compare(source: &Path, target: &Path, tables: &[&str]) -> rusqlite::Result<Vec<TableComparison>> {
    let connection = Connection::open(source)?;
    connection.busy_timeout(std::time::Duration::from_secs(10))?;
    connection.execute("ATTACH ?1 AS target", [target.to_string_lossy()])?;
    tables.iter().map(|table| compare_table(&connection, table)).collect()
}

fn compare_table(connection: &Connection, table: &str) -> rusqlite::Result<TableComparison> {
    let name = quote(table);
    let columns = connection
        .prepare("SELECT name FROM pragma_table_xinfo(?1, 'main')")?
        .query_map([table], |row| row.get(0))?
        .collect::<rusqlite::Result<Vec<String>>>()?;
    // EXCEPT takes 1 and 1.0 for equal and compares texts by the column's collation, unless told otherwise.
    let values: Vec<String> =
        columns.iter().map(|column| format!("typeof({0}), {0} COLLATE BINARY", quote(column))).collect();
    let values = values.join(", ");
    let count = |sql: String| connection.query_row(&sql, [], |row| row.get::<_, i64>(0));
    let missing = |from: &str, other: &str| {
        count(format!(
            "SELECT count(*) FROM (SELECT {values} FROM {from}.{name} EXCEPT SELECT {values} FROM {other}.{name})"
        ))
    };
    Ok(TableComparison {
        table: table.to_owned(),
        source_rows: count(format!("SELECT count(*) FROM main.{name}"))?,
        target_rows: count(format!("SELECT count(*) FROM target.{name}"))?,
        only_in_source: missing("main", "target")?,
        only_in_target: missing("target", "main")?,
    })
}

fn quote(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
