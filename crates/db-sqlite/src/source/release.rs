//! Forgetting what has been delivered.

use crate::connect::{HOUSEKEEPING_PATIENCE, connect};
use crate::error::{failed, is_busy};
use database::{Error, ErrorClass};
use rusqlite::{Connection, TransactionBehavior, params};
use std::path::Path;
use std::time::{Duration, Instant};

/// Rows removed in one write transaction: a few milliseconds during which others can't write.
const CHUNK_ROWS: i64 = 4_000;

/// Rows that may wait before they are removed at once.
const WAITING_ROWS: i64 = 20_000;

/// How often less than that is removed.
const INTERVAL: Duration = Duration::from_secs(1);

/// Remembers what may be forgotten and removes it when nobody minds.
pub(super) struct Release {
    connection: Connection,
    group: String,
    /// What the caller has released.
    wanted: i64,
    /// The schema version under which everything was in order up to there.
    schema_version: i64,
    /// What the database knows of it.
    written: i64,
    /// Whether delivered rows were left over by the last chunk.
    more: bool,
    last: Instant,
}

impl Release {
    /// # Errors
    /// [`ErrorClass::Missing`] when the group is not registered.
    pub(super) fn open(path: &Path, group: &str, schema_version: i64) -> Result<Release, Error> {
        let connection = connect(path, HOUSEKEEPING_PATIENCE)?;
        connection
            .pragma_update(None, "synchronous", "NORMAL")
            .map_err(|cause| failed("could not set up housekeeping", cause))?;
        Ok(Release {
            connection,
            group: group.to_owned(),
            wanted: 0,
            schema_version,
            written: 0,
            more: true,
            last: Instant::now(),
        })
    }

    pub(super) fn want(&mut self, seq: i64, schema_version: i64) {
        self.wanted = self.wanted.max(seq);
        self.schema_version = schema_version;
    }

    /// Tells the database what is released and removes a chunk of it, if it is time. A busy database is asked again by a
    /// later call.
    pub(super) fn tidy(&mut self) -> Result<(), Error> {
        let waiting = self.wanted - self.written;
        let nothing_new = waiting <= 0 && (!self.more || self.wanted == 0);
        let is_time = waiting >= WAITING_ROWS || self.last.elapsed() >= INTERVAL || self.more && waiting > 0;
        if nothing_new || !is_time {
            return Ok(());
        }
        self.last = Instant::now();
        match self.remove_chunk() {
            Ok(true) => Ok(()),
            Ok(false) => Err(Error::new(
                ErrorClass::Missing,
                format!("group {} is not registered in the database any more", self.group),
            )
            .with_next_step("delete and add the Extract")),
            Err(cause) if is_busy(&cause) => Ok(()),
            Err(cause) => Err(failed(format!("could not remove delivered changes of group {}", self.group), cause)),
        }
    }

    fn remove_chunk(&mut self) -> rusqlite::Result<bool> {
        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let updated = transaction.execute(
            "UPDATE drover_group SET released = max(released, ?2), schema_version = ?3 WHERE name = ?1",
            params![self.group, self.wanted, self.schema_version],
        )?;
        // The row at the released position stays: a restart must know it again.
        let (low, first): (i64, i64) = transaction.query_row(
            "SELECT (SELECT min(released) FROM drover_group), (SELECT min(seq) FROM drover_change)",
            [],
            |row| Ok((row.get::<_, Option<i64>>(0)?.unwrap_or(0), row.get::<_, Option<i64>>(1)?.unwrap_or(0))),
        )?;
        let end = low.min(first + CHUNK_ROWS);
        transaction.prepare_cached("DELETE FROM drover_change WHERE seq < ?1")?.execute([end])?;
        transaction.commit()?;
        self.written = self.wanted;
        self.more = end < low;
        Ok(updated == 1)
    }
}
