//! What trigger bodies can ask: does a Replicat write this row?
//!
//! SQLite runs no function of ours in somebody else's connection. So a view asks whether a table has a row, and a session whose
//! triggers fire has one there while its transaction is open: it is inserted first and deleted last, so nobody else ever sees
//! it.
//!
//! ```sql
//! CREATE TRIGGER audit AFTER INSERT ON t WHEN NOT (SELECT from_remote FROM drover_from_remote) BEGIN ... END;
//! ```

use crate::error::failed;
use database::Error;
use rusqlite::Connection;

/// The table and the view. They go with the last checkpoint table, unless a trigger or view still asks.
pub(crate) const OBJECTS: [&str; 2] = ["drover_remote", "drover_from_remote"];

/// Statements that make both, where they are not there.
pub(crate) const CREATE: &str = "\
CREATE TABLE IF NOT EXISTS main.drover_remote (ORIGIN TEXT NOT NULL);
CREATE VIEW IF NOT EXISTS main.drover_from_remote AS SELECT EXISTS (SELECT 1 FROM drover_remote) AS from_remote;
";

/// Drops both when no checkpoint table is left and nothing asks.
pub(crate) fn forget(connection: &Connection) -> rusqlite::Result<()> {
    let needed = "SELECT EXISTS (SELECT 1 FROM main.sqlite_schema WHERE name NOT IN ('drover_remote', 'drover_from_remote') \
                  AND (instr(sql, '/* Drover checkpoint table') > 0 OR instr(lower(sql), 'drover_from_remote') > 0))";
    if connection.query_row(needed, [], |row| row.get::<_, bool>(0))? {
        return Ok(());
    }
    connection.execute_batch("DROP VIEW IF EXISTS main.drover_from_remote; DROP TABLE IF EXISTS main.drover_remote;")
}

/// Makes the open transaction known as a Replicat's. Does nothing where the view was never made.
pub(crate) fn enter(connection: &Connection, group: &str) -> Result<bool, Error> {
    let failed = |cause| failed("could not mark the transaction for triggers", cause);
    let exists = "SELECT EXISTS (SELECT 1 FROM main.sqlite_schema WHERE type = 'table' AND name = 'drover_remote')";
    if !connection.prepare_cached(exists).and_then(|mut ask| ask.query_row([], |row| row.get(0))).map_err(failed)? {
        return Ok(false);
    }
    let insert = "INSERT INTO main.drover_remote (ORIGIN) VALUES (?1)";
    connection.prepare_cached(insert).and_then(|mut insert| insert.execute([group])).map_err(failed)?;
    Ok(true)
}

/// Takes the mark away, before the transaction is committed.
pub(crate) fn leave(connection: &Connection) -> Result<(), Error> {
    let delete = "DELETE FROM main.drover_remote";
    let deleted = connection.prepare_cached(delete).and_then(|mut delete| delete.execute([]));
    deleted.map(drop).map_err(|cause| failed("could not take the mark for triggers away", cause))
}
