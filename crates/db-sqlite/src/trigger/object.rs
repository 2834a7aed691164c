//! The tables that capture needs in the user's database.

use crate::error::failed;
use database::{Error, ErrorClass};
use rusqlite::{Connection, OptionalExtension, params};

/// Value columns of the change table at most. A row of a wide table takes several rows of it, so that one wide table does
/// not make every change of all others longer.
pub(crate) const WIDTH_MAX: usize = 64;

/// What a row of `drover_change` says. The numbers are stored and never change meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// More values of the row before.
    More = 0,
    /// A row was inserted: its values.
    Insert = 1,
    /// A row was updated: its old values, then its new ones.
    Update = 2,
    /// A row was deleted, or replaced: its values.
    Delete = 3,
    /// A group was registered here: random bytes, so that no other history has the same row at this place.
    Start = 4,
    /// The table is to be sent again as a whole.
    Reload = 5,
    /// An apply session of ours begins: what follows comes from another database.
    OwnBegin = 6,
    /// That session's transaction ends.
    OwnEnd = 7,
}

impl Kind {
    pub(crate) fn from_code(code: i64) -> Option<Kind> {
        use Kind::*;
        [More, Insert, Update, Delete, Start, Reload, OwnBegin, OwnEnd].into_iter().find(|kind| *kind as i64 == code)
    }
}

/// Creates what is missing of the installed tables, inside the open transaction.
pub(super) fn install(connection: &Connection) -> Result<(), Error> {
    let create = || -> rusqlite::Result<()> {
        connection.execute_batch(
            "CREATE TABLE IF NOT EXISTS drover_installation (
                incarnation TEXT NOT NULL, repaired_from INTEGER, repaired_to INTEGER
             );
             CREATE TABLE IF NOT EXISTS drover_group (
                name TEXT PRIMARY KEY NOT NULL, released INTEGER NOT NULL, schema_version INTEGER NOT NULL
             ) WITHOUT ROWID;
             CREATE TABLE IF NOT EXISTS drover_table (
                id INTEGER PRIMARY KEY, name TEXT NOT NULL, active INTEGER NOT NULL, triggers INTEGER NOT NULL,
                reload INTEGER, reason TEXT
             );
             CREATE INDEX IF NOT EXISTS drover_table_reload ON drover_table (reload);
             CREATE TABLE IF NOT EXISTS drover_column (
                table_id INTEGER NOT NULL, place INTEGER NOT NULL, name TEXT NOT NULL, logical INTEGER NOT NULL,
                native TEXT NOT NULL, nullable INTEGER NOT NULL, key INTEGER, generation INTEGER NOT NULL,
                PRIMARY KEY (table_id, place)
             ) WITHOUT ROWID;
             CREATE TABLE IF NOT EXISTS drover_change (seq INTEGER PRIMARY KEY, table_id, kind, at, c0);",
        )?;
        let known = connection.query_row("SELECT 1 FROM drover_installation", [], |_| Ok(())).optional()?;
        if known.is_none() {
            connection
                .execute("INSERT INTO drover_installation (incarnation) VALUES (lower(hex(randomblob(8))))", [])?;
        }
        Ok(())
    };
    create().map_err(|cause| failed("could not create the capture tables", cause))
}

/// Drops all installed tables, inside the open transaction.
pub(super) fn uninstall(connection: &Connection) -> Result<(), Error> {
    crate::catalog::INSTALLED.iter().try_for_each(|table| {
        connection
            .execute_batch(&format!("DROP TABLE IF EXISTS main.{table}"))
            .map_err(|cause| failed(format!("could not drop capture table {table}"), cause))
    })
}

/// Whether capture is installed in this database.
pub(crate) fn is_installed(connection: &Connection) -> Result<bool, Error> {
    connection
        .query_row(
            "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name IN ('drover_change', 'drover_group')",
            [],
            |row| row.get::<_, i64>(0),
        )
        .map(|count| count == 2)
        .map_err(|cause| failed("could not look for the capture tables", cause))
}

/// The installation's random name.
///
/// # Errors
/// [`ErrorClass::Missing`] without one.
pub(crate) fn incarnation(connection: &Connection) -> Result<String, Error> {
    let found: Option<String> = connection
        .query_row("SELECT incarnation FROM drover_installation", [], |row| row.get(0))
        .optional()
        .map_err(|cause| failed("could not read the installation's name", cause))?;
    found.ok_or_else(|| {
        Error::new(ErrorClass::Missing, "table drover_installation is empty")
            .with_next_step("the capture tables were damaged: delete and add the Extract, and load the target anew")
    })
}

/// Notes a change of the schema that we made since version `from`, inside the open transaction, so that readers do not take
/// it for somebody else's. Does nothing where nobody captures.
pub(crate) fn note_own_change(connection: &Connection, from: i64) -> Result<(), Error> {
    let to = crate::catalog::schema_version(connection)?;
    if from == to || !is_installed(connection)? {
        return Ok(());
    }
    connection
        .execute(
            // Changes of ours in a row are one.
            "UPDATE drover_installation SET repaired_to = ?2, \
             repaired_from = CASE WHEN repaired_to = ?1 THEN repaired_from ELSE ?1 END",
            [from, to],
        )
        .map(|_| ())
        .map_err(|cause| failed("could not note a change of the schema", cause))
}

/// Steps of the schema version between `from` and `to` that were ours, as far as our last changes in a row tell.
pub(super) fn own_steps(connection: &Connection, from: i64, to: i64) -> Result<i64, Error> {
    let read = || -> rusqlite::Result<Option<i64>> {
        let mut statement = connection.prepare_cached(
            "SELECT max(0, min(repaired_to, ?2) - max(repaired_from, ?1)) FROM drover_installation \
             WHERE repaired_from IS NOT NULL",
        )?;
        statement.query_row([from, to], |row| row.get(0)).optional()
    };
    read().map(Option::unwrap_or_default).map_err(|cause| failed("could not read the last change of the schema", cause))
}

/// Value columns that the change table has now.
pub(crate) fn change_columns(connection: &Connection) -> Result<usize, Error> {
    value_columns(connection, "drover_change")
}

fn value_columns(connection: &Connection, table: &str) -> Result<usize, Error> {
    let count = || -> rusqlite::Result<usize> {
        let mut statement = connection
            .prepare_cached("SELECT count(*) FROM pragma_table_info(?1, 'main') WHERE name GLOB 'c[0-9]*'")?;
        statement.query_row([table], |row| row.get::<_, i64>(0)).map(|count| count as usize)
    };
    count().map_err(|cause| failed(format!("could not read the columns of {table}"), cause))
}

/// Makes room for changes of rows of `columns` columns, inside the open transaction.
pub(super) fn widen(connection: &Connection, columns: usize) -> Result<(), Error> {
    for place in change_columns(connection)?..(2 * columns).min(WIDTH_MAX) {
        connection
            .execute_batch(&format!("ALTER TABLE drover_change ADD COLUMN c{place}"))
            .map_err(|cause| failed("could not widen drover_change", cause))?;
    }
    Ok(())
}

/// Whether there is a `drover_pending`: not before the first table or group came.
pub(super) fn has_pending(connection: &Connection) -> Result<bool, Error> {
    connection
        .prepare_cached("SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'drover_pending'")
        .and_then(|mut statement| statement.exists([]))
        .map_err(|cause| failed("could not look for drover_pending", cause))
}

/// Makes `drover_pending` anew, wide enough for every captured table, inside the open transaction.
///
/// That makes it the youngest of all tables. A captured table that is younger was made anew since, even if somebody put
/// our triggers back on it. Nothing else moves a table in the order of sqlite_schema; VACUUM keeps it.
pub(super) fn renew_pending(connection: &Connection) -> Result<(), Error> {
    let renew = || -> rusqlite::Result<()> {
        let width: i64 =
            connection.query_row("SELECT coalesce(max(place), 0) + 1 FROM drover_column", [], |row| row.get(0))?;
        let columns: Vec<String> = (0..width).map(|place| format!("c{place}")).collect();
        connection.execute_batch(&format!(
            "DROP TABLE IF EXISTS main.drover_pending;
             CREATE TABLE main.drover_pending (n INTEGER PRIMARY KEY, table_id, behind, identity, moving, {});
             CREATE INDEX main.drover_pending_table ON drover_pending (table_id);",
            columns.join(", ")
        ))
    };
    renew().map_err(|cause| failed("could not make drover_pending anew", cause))
}

/// Appends a row without values to the change table, inside the open transaction.
pub(crate) fn mark(connection: &Connection, kind: Kind) -> Result<(), Error> {
    connection
        .prepare_cached("INSERT INTO drover_change (kind, at) VALUES (?1, julianday())")
        .and_then(|mut statement| statement.execute([kind as i64]))
        .map(|_| ())
        .map_err(|cause| failed("could not mark our own transaction", cause))
}

/// Appends a row of `kind` that speaks of a table or holds `payload`, and returns its number.
pub(super) fn append(connection: &Connection, kind: Kind, table: Option<i64>, random: bool) -> Result<i64, Error> {
    let payload = if random { "randomblob(16)" } else { "NULL" };
    let sql = format!("INSERT INTO drover_change (table_id, kind, at, c0) VALUES (?1, ?2, julianday(), {payload})");
    connection
        .execute(&sql, params![table, kind as i64])
        .map(|_| connection.last_insert_rowid())
        .map_err(|cause| failed("could not write to the change table", cause))
}

/// Forgets rows that were about to be replaced: with the triggers off, nobody else would notice that they go away.
pub(crate) fn forget_pending(connection: &Connection) -> Result<(), Error> {
    let forget = || -> rusqlite::Result<()> {
        let mut any = connection.prepare_cached("SELECT 1 FROM drover_pending LIMIT 1")?;
        if any.exists([])? {
            connection.execute("DELETE FROM drover_pending", [])?;
        }
        Ok(())
    };
    forget().map_err(|cause| failed("could not clear drover_pending", cause))
}
