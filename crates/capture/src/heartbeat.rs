//! Heartbeats of the source, on their way into the trail.

use change::{Change, Operation, TableDefinition};
use process::heartbeat::{ExtractNotes, Heartbeat, HeartbeatError, definition, is_heartbeat, pass_extract};
use std::sync::Arc;

/// What an Extract knows of heartbeats.
pub(crate) struct Heartbeats {
    group: String,
    seed: Arc<TableDefinition>,
    arrived: Arc<TableDefinition>,
    /// How many were written, and how many are other Extracts'.
    pub(crate) written: u64,
    pub(crate) dropped: u64,
}

impl Heartbeats {
    /// Those of the Extract called `group`, from tables in `schema`.
    pub(crate) fn new(group: &str, schema: &str) -> Heartbeats {
        Heartbeats {
            group: group.to_owned(),
            seed: definition(schema, true),
            arrived: definition(schema, false),
            written: 0,
            dropped: 0,
        }
    }

    /// Whether a change of `table` is one of them.
    pub(crate) fn knows(&self, table: &TableDefinition) -> bool {
        is_heartbeat(table)
    }

    /// The record that goes into the trail for `change`; `None` when nothing does.
    ///
    /// Only an update is a stamp. A row that is told as a whole, because its table has joined, was stamped some time ago.
    pub(crate) fn pass(&mut self, change: &Change, notes: ExtractNotes) -> Result<Option<Change>, HeartbeatError> {
        if !matches!(change.operation, Operation::Update { .. }) {
            return Ok(None);
        }
        let Some(heartbeat) = Heartbeat::of(change)? else { return Ok(None) };
        let Some(passed) = pass_extract(&heartbeat, &self.group, notes) else {
            self.dropped += 1;
            return Ok(None);
        };
        self.written += 1;
        let table = if passed.remote_database.is_none() { &self.seed } else { &self.arrived };
        Ok(Some(passed.change(table, change.address)))
    }
}
