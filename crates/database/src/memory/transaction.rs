//! Changing rows, so that it can be taken back.

use super::state::{Shared, State, Undo};
use super::table::{KeyValues, Refusal, RowId, key_values, overlay};
use crate::{ApplyError, Error, ErrorClass, Outcome, Rejection};
use change::{Operation, Row, TableName, Value};
use std::sync::Arc;

/// A transaction that a user of the database makes; see [`MemoryDatabase::write`](super::MemoryDatabase::write).
///
/// Each call is one statement on one row. Its rejections count the statements from 0.
pub struct MemoryTransaction {
    pub(super) shared: Arc<Shared>,
    pub(super) owner: u64,
}

impl MemoryTransaction {
    /// Adds a row: a value per column of the table.
    ///
    /// # Errors
    /// Rejected when a constraint forbids it; failed when the table is missing or the transaction is lost.
    pub fn insert(&mut self, table: &TableName, new: Row) -> Result<(), ApplyError> {
        self.with(|state| insert(state, table, new))
    }

    /// Changes the row that has the key of `old`, or all values of `old` where the table has no key. Values of `new` that
    /// are [`Value::Unchanged`] stay as they are.
    ///
    /// # Errors
    /// As [`insert`](MemoryTransaction::insert); rejected also when the row is missing.
    pub fn update(&mut self, table: &TableName, old: &Row, new: &Row) -> Result<(), ApplyError> {
        self.with(|state| {
            let (columns, values) = sought(state, table, old)?;
            width(state, table, new)?;
            update(state, table, &columns, &values, new.values().enumerate())
        })
    }

    /// Removes the row that has the key of `old`, or all values of `old` where the table has no key.
    ///
    /// # Errors
    /// As [`update`](MemoryTransaction::update).
    pub fn delete(&mut self, table: &TableName, old: &Row) -> Result<(), ApplyError> {
        self.with(|state| {
            let (columns, values) = sought(state, table, old)?;
            delete(state, table, &columns, &values)
        })
    }

    /// Removes all rows at once.
    ///
    /// # Errors
    /// Failed when the table is missing or the transaction is lost.
    pub fn truncate(&mut self, table: &TableName) -> Result<(), ApplyError> {
        self.with(|state| truncate(state, table))
    }

    /// Makes `operation` as a user would. An update without an old row finds its row by the new one.
    ///
    /// # Errors
    /// Those of the operation's own method.
    pub fn perform(&mut self, table: &TableName, operation: &Operation) -> Result<(), ApplyError> {
        match operation {
            Operation::Insert { new } => self.insert(table, new.clone()),
            Operation::Update { old, new } => self.update(table, old.as_ref().unwrap_or(new), new),
            Operation::Delete { old } => self.delete(table, old),
            Operation::Truncate(_) => self.truncate(table),
        }
    }

    fn with<T>(&mut self, step: impl FnOnce(&mut State) -> Result<T, ApplyError>) -> Result<T, ApplyError> {
        let mut state = self.shared.lock();
        state.owned_by(self.owner)?;
        step(&mut state)
    }
}

/// Dropping a transaction that has not been committed rolls it back.
impl Drop for MemoryTransaction {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        if state.owned_by(self.owner).is_ok() {
            state.rollback();
        }
        drop(state);
        self.shared.signal();
    }
}

impl State {
    /// Refuses when `owner`'s transaction is not the open one: a crash has ended it.
    pub(super) fn owned_by(&self, owner: u64) -> Result<(), Error> {
        self.alive(None)?;
        if self.open.as_ref().is_some_and(|open| open.owner == owner) {
            Ok(())
        } else {
            let what = "the transaction is gone: the memory database was restarted";
            Err(Error::new(ErrorClass::ConnectionLost, what))
        }
    }

    fn done(&mut self, table: &TableName, operation: Operation, undo: Undo) {
        let definition = Arc::clone(self.content.tables[table].definition());
        let watched = !self.content.released.is_empty();
        let open = self.open.as_mut().expect("a step is made inside a transaction");
        open.writes += 1;
        open.undo.push(undo);
        if watched && !open.applied {
            open.changes.push((definition, operation));
        }
    }

    fn refused(&self, table: &TableName, refusal: Refusal) -> ApplyError {
        let index = self.open.as_ref().map_or(0, |open| open.writes);
        let detail = format!("{} of table {table}", refusal.detail);
        ApplyError::Rejected(Rejection { index, outcome: refusal.outcome, detail, code: String::new() })
    }
}

pub(super) fn insert(state: &mut State, name: &TableName, new: Row) -> Result<(), ApplyError> {
    width(state, name, &new)?;
    // A value that nobody gave is NULL, and is told as such.
    let new = if new.is_complete() {
        new
    } else {
        Row::from_values(new.values().map(|value| if value.is_present() { value } else { Value::Null }))
    };
    match table(state, name)?.insert(new.clone()) {
        Ok(id) => {
            state.done(name, Operation::Insert { new }, Undo::Row { table: name.clone(), id, before: None });
            Ok(())
        }
        Err(refusal) => Err(state.refused(name, refusal)),
    }
}

pub(super) fn update<'a>(
    state: &mut State,
    name: &TableName,
    columns: &[usize],
    values: &KeyValues,
    new: impl IntoIterator<Item = (usize, Value<'a>)>,
) -> Result<(), ApplyError> {
    let id = find(state, name, columns, values)?;
    let table = table(state, name)?;
    let before = table.row(id).expect("a row that was found is there").clone();
    let new = overlay(&before, new);
    match table.replace(id, new.clone()) {
        Ok(_) => {
            let undo = Undo::Row { table: name.clone(), id, before: Some(before.clone()) };
            state.done(name, Operation::Update { old: Some(before), new }, undo);
            Ok(())
        }
        Err(refusal) => Err(state.refused(name, refusal)),
    }
}

pub(super) fn delete(
    state: &mut State,
    name: &TableName,
    columns: &[usize],
    values: &KeyValues,
) -> Result<(), ApplyError> {
    let id = find(state, name, columns, values)?;
    let old = table(state, name)?.remove(id).expect("a row that was found is there");
    let undo = Undo::Row { table: name.clone(), id, before: Some(old.clone()) };
    state.done(name, Operation::Delete { old }, undo);
    Ok(())
}

pub(super) fn truncate(state: &mut State, name: &TableName) -> Result<(), ApplyError> {
    let before = Box::new(table(state, name)?.truncate());
    state.done(name, Operation::truncate(), Undo::Table { table: name.clone(), before });
    Ok(())
}

fn find(state: &mut State, name: &TableName, columns: &[usize], values: &KeyValues) -> Result<RowId, ApplyError> {
    match table(state, name)?.find(columns, values) {
        Some(id) => Ok(id),
        None => {
            let detail = "no row with this key".to_owned();
            Err(state.refused(name, Refusal { outcome: Outcome::Missing, detail }))
        }
    }
}

fn table<'a>(state: &'a mut State, name: &TableName) -> Result<&'a mut super::table::Table, Error> {
    state.content.tables.get_mut(name).ok_or_else(|| missing_table(name))
}

pub(super) fn missing_table(name: &TableName) -> Error {
    Error::new(ErrorClass::Missing, format!("table {name} does not exist"))
        .with_next_step("create the table or leave it out")
}

/// Refuses a row that does not have a value per column.
pub(super) fn width(state: &mut State, name: &TableName, row: &Row) -> Result<(), Error> {
    let columns = table(state, name)?.definition().columns.len();
    if row.len() == columns {
        return Ok(());
    }
    let what = format!("a row of {} values does not fit table {name}, which has {columns} columns", row.len());
    Err(Error::new(ErrorClass::Permanent, what))
}

/// The columns and values by which a user's statement finds its row.
fn sought(state: &mut State, name: &TableName, old: &Row) -> Result<(Vec<usize>, KeyValues), Error> {
    width(state, name, old)?;
    let key = table(state, name)?.definition().key();
    let columns = if key.is_empty() { (0..old.len()).filter(|at| old.value(*at).is_present()).collect() } else { key };
    let values = key_values(old, &columns);
    Ok((columns, values))
}
