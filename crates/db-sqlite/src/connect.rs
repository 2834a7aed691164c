//! Opening connections.

use crate::error::failed;
use database::Error;
use rusqlite::{Connection, OpenFlags};
use std::path::Path;
use std::time::Duration;

/// How long a command that an operator waits for is patient with another writer.
pub(crate) const COMMAND_PATIENCE: Duration = Duration::from_secs(120);

/// How long a call of a running group waits for another writer before it comes back, so that the process can stop.
pub(crate) const CALL_PATIENCE: Duration = Duration::from_secs(1);

/// How long housekeeping waits for another writer. Nobody waits for it.
pub(crate) const HOUSEKEEPING_PATIENCE: Duration = Duration::from_millis(5);

/// Opens a connection that waits up to `patience` for locks. Never creates the file.
///
/// Opened for writing even where it only reads: a reader in WAL mode takes part in the shared-memory index and, when it
/// is the first to come after a crash, recovers it.
pub(crate) fn connect(path: &Path, patience: Duration) -> Result<Connection, Error> {
    let open = || -> rusqlite::Result<Connection> {
        let connection =
            Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
        connection.busy_timeout(patience)?;
        connection.set_prepared_statement_cache_capacity(STATEMENTS_CACHED_MAX);
        // A file that is no database is noticed here and not in the middle of something.
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))?;
        Ok(connection)
    };
    open().map_err(|cause| failed(format!("could not open database {}", path.display()), cause))
}

/// Prepared statements kept per connection: three for each of a few hundred tables in use at once; more are prepared
/// again.
const STATEMENTS_CACHED_MAX: usize = 1024;
