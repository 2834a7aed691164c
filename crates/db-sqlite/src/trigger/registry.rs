//! Which tables are captured, in which shape, under which number.

use crate::catalog::{SCHEMA, Table};
use crate::error::failed;
use change::{Column, Generation, LogicalType, TableDefinition, TableName};
use database::{Error, ErrorClass};
use rusqlite::{Connection, params};

/// One table in one shape.
#[derive(Clone, Debug)]
pub(crate) struct Registered {
    pub(crate) id: i64,
    /// Name under which its changes are told.
    pub(crate) name: String,
    /// Whether its triggers are installed. The others are history: changes may still wait under their number.
    pub(crate) active: bool,
    /// Checksum of the triggers as they were installed.
    pub(crate) triggers: i64,
    /// Place in the change table at which the table is to be sent again as a whole.
    pub(crate) reload: Option<i64>,
    /// Why.
    pub(crate) reason: Option<String>,
}

/// All tables, the newest last.
pub(crate) fn registered_tables(connection: &Connection) -> Result<Vec<Registered>, Error> {
    let read = || -> rusqlite::Result<Vec<Registered>> {
        let mut statement = connection
            .prepare_cached("SELECT id, name, active, triggers, reload, reason FROM drover_table ORDER BY id")?;
        let rows = statement.query_map([], |row| {
            Ok(Registered {
                id: row.get(0)?,
                name: row.get(1)?,
                active: row.get(2)?,
                triggers: row.get(3)?,
                reload: row.get(4)?,
                reason: row.get(5)?,
            })
        })?;
        rows.collect()
    };
    read().map_err(|cause| failed("could not read the list of captured tables", cause))
}

/// Whether a table is to be sent again as a whole behind change `after`.
pub(crate) fn is_reload_wanted(connection: &Connection, after: i64) -> Result<bool, Error> {
    connection
        .prepare_cached("SELECT 1 FROM drover_table WHERE reload > ?1 LIMIT 1")
        .and_then(|mut statement| statement.exists([after]))
        .map_err(|cause| failed("could not look for tables that are to be sent again", cause))
}

impl Registered {
    /// The shape in which changes under this number were made.
    pub(crate) fn definition(&self, connection: &Connection) -> Result<TableDefinition, Error> {
        let what = || format!("could not read the captured shape of main.{}", self.name);
        let read = || -> rusqlite::Result<Vec<Option<Column>>> {
            let mut statement = connection.prepare_cached(
                "SELECT name, logical, native, nullable, key, generation FROM drover_column WHERE table_id = ?1 ORDER BY place",
            )?;
            let rows = statement.query_map([self.id], |row| {
                let (name, native): (String, String) = (row.get(0)?, row.get(2)?);
                let (nullable, key) = (row.get(3)?, row.get(4)?);
                let kinds = (LogicalType::from_code(row.get(1)?), Generation::from_code(row.get(5)?));
                let (Some(logical), Some(generation)) = kinds else { return Ok(None) };
                Ok(Some(Column { nullable, key, generation, ..Column::new(name, logical, native) }))
            })?;
            rows.collect()
        };
        let columns: Option<Vec<Column>> = read().map_err(|cause| failed(what(), cause))?.into_iter().collect();
        match columns {
            Some(columns) if !columns.is_empty() => {
                Ok(TableDefinition { name: TableName::new(SCHEMA, &self.name), columns: columns.into() })
            }
            _ => Err(Error::new(ErrorClass::Corrupt, what()).with_next_step(
                "the capture tables were damaged: delete and add the Extract, and load the target anew",
            )),
        }
    }
}

/// Adds a table in its shape of now and returns its number, inside the open transaction.
pub(super) fn add(connection: &Connection, table: &Table) -> Result<i64, Error> {
    let definition = table.definition();
    let write = || -> rusqlite::Result<i64> {
        connection.execute("INSERT INTO drover_table (name, active, triggers) VALUES (?1, 1, 0)", [&table.name])?;
        let id = connection.last_insert_rowid();
        let mut statement =
            connection.prepare_cached("INSERT INTO drover_column VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)")?;
        for (place, column) in definition.columns.iter().enumerate() {
            let Column { name, logical, native, nullable, key, generation, .. } = column;
            statement.execute(params![
                id,
                place as i64,
                name,
                *logical as u8,
                native,
                nullable,
                key,
                *generation as u8
            ])?;
        }
        Ok(id)
    };
    write().map_err(|cause| failed(format!("could not register main.{}", table.name), cause))
}

/// Notes the triggers that were installed for a table.
pub(super) fn set_triggers(connection: &Connection, id: i64, checksum: i64) -> Result<(), Error> {
    connection
        .execute("UPDATE drover_table SET active = 1, triggers = ?2 WHERE id = ?1", params![id, checksum])
        .map(|_| ())
        .map_err(|cause| failed("could not register triggers", cause))
}

/// Notes that a table is to be sent again as a whole.
pub(super) fn set_reload(connection: &Connection, id: i64, place: i64, reason: &str) -> Result<(), Error> {
    connection
        .execute("UPDATE drover_table SET reload = ?2, reason = ?3 WHERE id = ?1", params![id, place, reason])
        .map(|_| ())
        .map_err(|cause| failed("could not register a table that is to be sent again", cause))
}

/// Notes that a table is captured no longer under this number.
pub(super) fn retire(connection: &Connection, id: i64) -> Result<(), Error> {
    connection
        .execute("UPDATE drover_table SET active = 0 WHERE id = ?1", [id])
        .map(|_| ())
        .map_err(|cause| failed("could not retire a table from capture", cause))
}
