//! What tables there are and what they look like.

mod index;
mod table;

pub(crate) use index::UniqueIndex;
pub(crate) use table::{Identity, Table};

use crate::error::failed;
use crate::name::same;
use database::{Error, ErrorClass};
use rusqlite::Connection;

/// The schema that we speak of; databases that a connection attaches are databases of their own.
pub(crate) const SCHEMA: &str = "main";

/// Tables that we install in a database.
pub(crate) const INSTALLED: [&str; 6] =
    ["drover_change", "drover_column", "drover_group", "drover_installation", "drover_pending", "drover_table"];

/// What kind of thing a table name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A table with rows of its own.
    Ordinary,
    /// A view.
    View,
    /// A virtual table: its rows belong to a module.
    Virtual,
    /// A table in which a virtual table keeps its content.
    Shadow,
}

/// A name of the catalog.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) without_rowid: bool,
    pub(crate) strict: bool,
}

impl Entry {
    /// Whether it belongs to a heartbeat installation.
    pub(crate) fn is_heartbeat(&self) -> bool {
        database::is_heartbeat_object(&change::TableName::new(SCHEMA, &self.name))
    }
}

/// Every name of the catalog that rows can be asked of.
fn all(connection: &Connection) -> Result<Vec<Entry>, Error> {
    let read = || -> rusqlite::Result<Vec<Entry>> {
        let mut statement = connection.prepare_cached(
            "SELECT name, type, wr, strict FROM pragma_table_list WHERE schema = 'main' ORDER BY name",
        )?;
        let rows = statement.query_map([], |row| {
            let kind = match row.get::<_, String>(1)?.as_str() {
                "view" => Kind::View,
                "virtual" => Kind::Virtual,
                "shadow" => Kind::Shadow,
                _ => Kind::Ordinary,
            };
            Ok(Entry { name: row.get(0)?, kind, without_rowid: row.get(2)?, strict: row.get(3)? })
        })?;
        rows.collect()
    };
    read().map_err(|cause| failed("could not read the list of tables", cause))
}

/// The entry of a table that Drover installed, by SQLite's case rule.
pub(crate) fn entry_of_ours(connection: &Connection, name: &str) -> Result<Option<Entry>, Error> {
    Ok(all(connection)?.into_iter().find(|entry| same(&entry.name, name)))
}

/// Everything that users may call a table, in name order; neither SQLite's own tables nor what Drover installs, except
/// for heartbeat tables, whose stamps are captured.
pub(crate) fn entries(connection: &Connection) -> Result<Vec<Entry>, Error> {
    let entries = all(connection)?;
    let mut users = Vec::with_capacity(entries.len());
    for entry in entries {
        let internal = entry.name.get(..7).is_some_and(|start| same(start, "sqlite_"));
        let installed = INSTALLED.iter().chain(&crate::remote::OBJECTS).any(|name| same(name, &entry.name))
            || crate::error_queue::is_ours(&entry.name);
        if !internal && !installed && !is_checkpoint_table(connection, &entry)? {
            users.push(entry);
        }
    }
    Ok(users)
}

/// The number that every change of the schema increases.
pub(crate) fn schema_version(connection: &Connection) -> Result<i64, Error> {
    connection
        .query_row("PRAGMA main.schema_version", [], |row| row.get(0))
        .map_err(|cause| failed("could not read the schema version", cause))
}

/// The entry called `name`, by SQLite's case rule.
pub(crate) fn entry(connection: &Connection, name: &str) -> Result<Option<Entry>, Error> {
    Ok(entries(connection)?.into_iter().find(|entry| same(&entry.name, name)))
}

/// A table's description.
///
/// # Errors
/// [`ErrorClass::Transient`] when the table went away between the list and here.
pub(crate) fn table(connection: &Connection, entry: &Entry) -> Result<Table, Error> {
    let table = Table::read(connection, entry)?;
    if table.columns.is_empty() {
        return Err(Error::new(
            ErrorClass::Transient,
            format!("table main.{} went away while it was read", entry.name),
        ));
    }
    Ok(table)
}

/// Whether the table is one of our checkpoint tables, whichever home made it.
fn is_checkpoint_table(connection: &Connection, entry: &Entry) -> Result<bool, Error> {
    Ok(entry.kind == Kind::Ordinary && crate::checkpoint::is_ours(connection, &entry.name)?)
}

/// Names of a table's columns, in order; none when there is no such table.
pub(crate) fn column_names(connection: &Connection, table: &str) -> Result<Vec<String>, Error> {
    let read = || -> rusqlite::Result<Vec<String>> {
        let mut statement = connection.prepare_cached("SELECT name FROM pragma_table_info(?1, 'main') ORDER BY cid")?;
        statement.query_map([table], |row| row.get(0))?.collect()
    };
    read().map_err(|cause| failed(format!("could not read the columns of main.{table}"), cause))
}
