//! From rows of the change table to changes.

use crate::trigger::Kind;
use crate::trigger::WIDTH_MAX;
use crate::value;
use change::{Change, Operation, RecordAddress, Row, RowBuilder, TableDefinition};
use std::sync::Arc;

/// First value column in a row of the change table: `seq, table_id, kind, at` come before.
pub(super) const FIRST_VALUE: usize = 4;

/// A change whose values are being collected, over as many rows as it takes.
pub(super) struct Assembly {
    table: Arc<TableDefinition>,
    kind: Kind,
    address: RecordAddress,
    /// Values collected of the row that is being built.
    collected: usize,
    builder: RowBuilder,
    old: Option<Row>,
}

impl Assembly {
    /// Starts with the change that row `seq` is about; `kind` is insert, update or delete.
    pub(super) fn new(table: Arc<TableDefinition>, kind: Kind, seq: i64) -> Assembly {
        let address = RecordAddress { position: seq.unsigned_abs(), offset: 0 };
        Assembly { table, kind, address, collected: 0, builder: RowBuilder::new(), old: None }
    }

    /// Takes the values of the next row of the change table and returns the change when it is complete.
    pub(super) fn take(&mut self, row: &rusqlite::Row<'_>) -> rusqlite::Result<Option<Change>> {
        let columns = self.table.columns.len();
        for place in FIRST_VALUE..FIRST_VALUE + WIDTH_MAX {
            value::push(&mut self.builder, self.table.columns[self.collected].logical, row.get_ref(place)?);
            self.collected += 1;
            if self.collected < columns {
                continue;
            }
            self.collected = 0;
            let image = self.builder.finish();
            if self.kind == Kind::Update && self.old.is_none() {
                self.old = Some(image);
                continue;
            }
            return Ok(Some(self.change(image)));
        }
        Ok(None)
    }

    fn change(&mut self, image: Row) -> Change {
        let operation = match self.kind {
            Kind::Insert => Operation::Insert { new: image },
            Kind::Update => Operation::Update { old: self.old.take(), new: image },
            _ => Operation::Delete { old: image },
        };
        Change { table: Arc::clone(&self.table), operation, address: self.address }
    }
}

/// Unix time in microseconds of a Julian day. SQLite's clock ticks in milliseconds.
pub(super) fn unix_micros(julian_day: f64) -> i64 {
    ((julian_day - 2_440_587.5) * 86_400_000.0).round() as i64 * 1_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn julian_days_are_told_to_the_millisecond() {
        let connection = rusqlite::Connection::open_in_memory().expect("memory");
        let day: f64 = connection
            .query_row("SELECT julianday('2024-02-29 12:34:56.789')", [], |row| row.get(0))
            .expect("a date of SQLite's");
        assert_eq!(unix_micros(day), 1_709_210_096_789_000);
    }
}
