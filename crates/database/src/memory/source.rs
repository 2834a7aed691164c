//! Reading a memory database's log.

use super::OldImage;
use super::state::{Shared, State};
use crate::{Error, ErrorClass, LogEvent, LogSource, TableSelection};
use change::{
    Change, Commit, Csn, LogPosition, Operation, RecordAddress, Row, TableDefinition, TableName, TransactionId, Value,
};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

pub(super) struct MemorySource {
    pub(super) shared: Arc<Shared>,
    pub(super) epoch: u64,
    pub(super) group: String,
    pub(super) tables: Arc<dyn TableSelection>,
    /// The last transaction that has been told in full.
    pub(super) told: u64,
    /// How many changes of the next one have been looked at.
    pub(super) looked_at: usize,
    /// Whether the next one's begin has been told.
    pub(super) begun: bool,
    /// What a table's definition in the log becomes in our stream; `None` for a table that is not selected.
    pub(super) shapes: HashMap<TableName, (Arc<TableDefinition>, Option<Arc<TableDefinition>>)>,
}

impl LogSource for MemorySource {
    fn read(&mut self, events: &mut Vec<LogEvent>, wait: Duration) -> Result<(), Error> {
        let shared = Arc::clone(&self.shared);
        let mut state = shared.lock();
        state.enter(Some(self.epoch))?;
        let (told, epoch) = (self.told, self.epoch);
        state = shared.wait_while(state, wait, |state| state.content.last == told && state.alive(Some(epoch)).is_ok());
        state.alive(Some(self.epoch))?;
        self.still_there(&state)?;
        // What a crash may still take back must not leave the database: it would be in the target and not here.
        if self.told < state.content.last {
            state.make_durable();
        }
        let batch = state.options.batch_events.max(1);
        let first = events.len();
        let mut skipped = None;
        while self.told < state.content.last && events.len() - first < batch {
            let complete = self.tell(&state, events, first + batch)?;
            if !complete {
                break;
            }
            self.told += 1;
            self.looked_at = 0;
            let next = state.position(self.told);
            if std::mem::take(&mut self.begun) {
                events.push(LogEvent::Commit { next });
                skipped = None;
            } else {
                skipped = Some(next);
            }
        }
        if let Some(next) = skipped.filter(|_| !self.begun) {
            events.push(LogEvent::Idle { next });
        }
        Ok(())
    }

    fn release(&mut self, position: &LogPosition) -> Result<(), Error> {
        let mut state = self.shared.lock();
        state.enter(Some(self.epoch))?;
        let number = state.number(position).filter(|number| *number <= state.content.last);
        let Some(number) = number else { return Err(mismatch(&self.group, position)) };
        let released = state.content.released.get_mut(&self.group).ok_or_else(|| unregistered(&self.group))?;
        *released = number.max(*released);
        state.forget();
        Ok(())
    }
}

impl MemorySource {
    fn still_there(&self, state: &State) -> Result<(), Error> {
        let released = state.content.released.get(&self.group).ok_or_else(|| unregistered(&self.group))?;
        let (forgotten, last) = (state.content.forgotten, state.content.last);
        if (*released).max(forgotten) <= self.told && self.told <= last {
            Ok(())
        } else {
            Err(mismatch(&self.group, &state.position(self.told)))
        }
    }

    /// Tells changes of the next transaction until `events` holds `full`; whether the transaction is complete.
    fn tell(&mut self, state: &State, events: &mut Vec<LogEvent>, full: usize) -> Result<bool, Error> {
        let number = self.told + 1;
        let transaction = &state.content.log[(self.told - state.content.forgotten) as usize];
        while let Some((definition, operation)) = transaction.changes.get(self.looked_at) {
            if events.len() >= full {
                return Ok(false);
            }
            if let Some(table) = self.shape(definition)? {
                if !self.begun {
                    self.begun = true;
                    events.push(LogEvent::Begin(Commit {
                        csn: Csn::new(format!("{number:020}")),
                        transaction: TransactionId::new(format!("memory-{number}")),
                        time: transaction.time,
                    }));
                }
                let operation = image(operation, &table, state.options.old_image);
                let address = RecordAddress { position: number, offset: self.looked_at as u32 };
                events.push(LogEvent::Change(Change { table, operation, address }));
            }
            self.looked_at += 1;
        }
        Ok(true)
    }

    /// The definition under which the stream tells changes of a table, or `None` when the table is not selected.
    fn shape(&mut self, definition: &Arc<TableDefinition>) -> Result<Option<Arc<TableDefinition>>, Error> {
        if let Some((known, shape)) = self.shapes.get(&definition.name)
            && Arc::ptr_eq(known, definition)
        {
            return Ok(shape.clone());
        }
        let shape = captured_shape(definition, &*self.tables)?;
        self.shapes.insert(definition.name.clone(), (Arc::clone(definition), shape.clone()));
        Ok(shape)
    }
}

/// How a table is captured: `None` when it is not selected, else its definition with the key that capture uses.
pub(super) fn captured_shape(
    definition: &Arc<TableDefinition>,
    tables: &dyn TableSelection,
) -> Result<Option<Arc<TableDefinition>>, Error> {
    let name = &definition.name;
    if !tables.selects(name) {
        return Ok(None);
    }
    let Some(key_columns) = tables.key_columns(name) else {
        return if definition.key().is_empty() {
            let what = format!("table {name} has no key, so its rows can't be told apart");
            Err(Error::new(ErrorClass::Unsupported, what).with_next_step("give it a key, or name columns with KEYCOLS"))
        } else {
            Ok(Some(Arc::clone(definition)))
        };
    };
    let mut shape = (**definition).clone();
    Arc::make_mut(&mut shape.columns).iter_mut().for_each(|column| column.key = None);
    for (place, column) in key_columns.iter().enumerate() {
        let Some(index) = shape.column(column) else {
            let what = format!("table {name} has no column {column:?}, which KEYCOLS names");
            return Err(Error::new(ErrorClass::Missing, what).with_next_step("correct the KEYCOLS clause"));
        };
        Arc::make_mut(&mut shape.columns)[index].key = Some(place as u16);
    }
    Ok(Some(Arc::new(shape)))
}

/// What the stream tells of an operation.
fn image(operation: &Operation, table: &TableDefinition, old_image: OldImage) -> Operation {
    if old_image == OldImage::Row {
        return operation.clone();
    }
    let in_key = |column: usize| table.columns[column].key.is_some();
    let only = |row: &Row, wanted: &dyn Fn(usize) -> bool| {
        let told = |(column, value)| if wanted(column) { value } else { Value::Unchanged };
        Row::from_values(row.values().enumerate().map(told))
    };
    match operation {
        Operation::Update { old: Some(old), new } => {
            let differs = |column: usize| old.value(column) != new.value(column);
            let key_moved = (0..old.len()).any(|column| in_key(column) && differs(column));
            Operation::Update {
                old: key_moved.then(|| only(old, &in_key)),
                new: only(new, &|column| in_key(column) || differs(column)),
            }
        }
        Operation::Delete { old } => Operation::Delete { old: only(old, &in_key) },
        other => other.clone(),
    }
}

pub(super) fn mismatch(group: &str, position: &LogPosition) -> Error {
    let what = format!("Extract {group} can't read from position {position}: this database does not hold that history");
    Error::new(ErrorClass::Mismatch, what)
        .with_next_step("check that this is the right database and that it was not restored from a backup")
}

pub(super) fn unregistered(group: &str) -> Error {
    Error::new(ErrorClass::Missing, format!("Extract {group} is not registered with this database"))
        .with_next_step("add the Extract anew")
}
