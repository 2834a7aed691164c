//! Where sequences stand when a transaction commits.
//!
//! The log does not tell of sequences in a form that the server decodes, and a sequence is not rolled back: it is read, when a
//! transaction's commit comes out of the log. A number that one of its rows holds was handed out before the transaction committed, so
//! what is read afterwards is at least that number. One look serves all transactions that had committed before it.

use crate::name;
use crate::wire::{Connection, Error as WireError, Lsn};
use change::{SequenceState, TableName};
use database::TableSelection;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Time between two looks for sequences that are new.
const LIST_INTERVAL: Duration = Duration::from_secs(30);

/// The sequences of a group.
#[derive(Default)]
pub(super) struct Sequences {
    known: Vec<(TableName, i64)>,
    listed_at: Option<Instant>,
    /// Where each stood when it was told last.
    told: HashMap<TableName, (i128, bool)>,
    /// What had committed before here is covered by what was told.
    covered: Lsn,
}

impl Sequences {
    /// What a transaction that committed at `commit` has to tell: sequences that have moved since the last look, if that was
    /// before.
    pub(super) fn moved(
        &mut self,
        connection: &mut Connection,
        selection: &dyn TableSelection,
        commit: Lsn,
    ) -> Result<Vec<SequenceState>, WireError> {
        if !selection.tells_sequences() || commit < self.covered {
            return Ok(Vec::new());
        }
        if self.listed_at.is_none_or(|at| at.elapsed() >= LIST_INTERVAL) {
            self.list(connection, selection)?;
        }
        let moved = match self.look(connection) {
            // One of them was dropped.
            Err(error) if error.code() == Some("42P01") => {
                self.list(connection, selection)?;
                self.look(connection)?
            }
            other => other?,
        };
        Ok(moved)
    }

    /// Lets the next transaction tell all sequences: one that a statement makes is told behind it, whatever was told of it before.
    pub(super) fn tell_anew(&mut self) {
        *self = Sequences::default();
    }

    fn list(&mut self, connection: &mut Connection, selection: &dyn TableSelection) -> Result<(), WireError> {
        let rows = connection.query(
            "SELECT n.nspname, c.relname, s.seqincrement FROM pg_sequence s JOIN pg_class c ON c.oid = s.seqrelid \
             JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.relpersistence <> 't' ORDER BY 1, 2",
            &[],
        )?;
        self.known.clear();
        for row in rows {
            let name = TableName::new(row.required(0)?, row.required(1)?);
            if selection.selects_sequence(&name) {
                self.known.push((name, row.parse(2)?));
            }
        }
        self.listed_at = Some(Instant::now());
        Ok(())
    }

    fn look(&mut self, connection: &mut Connection) -> Result<Vec<SequenceState>, WireError> {
        // First the place in the log, then the values: the other way round, one could be handed out in between.
        let place = connection.query_one("SELECT pg_current_wal_insert_lsn()", &[])?;
        let place = place.and_then(|row| row.text(0).and_then(Lsn::parse)).unwrap_or_default();
        let mut moved = Vec::new();
        if !self.known.is_empty() {
            let looks = self.known.iter().enumerate().map(|(number, (name, _))| {
                format!("SELECT {number} AS number, last_value, is_called FROM {}", name::table(name))
            });
            let sql = looks.collect::<Vec<_>>().join(" UNION ALL ");
            for row in connection.query(&sql, &[])? {
                let (number, value, is_called): (usize, i128, bool) = (row.parse(0)?, row.parse(1)?, row.flag(2));
                let Some((name, increment)) = self.known.get(number) else { continue };
                if self.told.insert(name.clone(), (value, is_called)) != Some((value, is_called)) {
                    moved.push(SequenceState { name: name.clone(), value, increment: *increment, is_called });
                }
            }
        }
        self.covered = place;
        Ok(moved)
    }
}
