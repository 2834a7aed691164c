//! Applying changes to a memory database.

use super::state::{Call, Shared};
use super::table::{KeyValues, key_values};
use super::transaction::{self, MemoryTransaction};
use crate::{
    ApplyError, CheckpointRow, CheckpointSet, ColumnPair, Error, ErrorClass, ForeignKey, OnDuplicate, OrderScope,
    Outcome, Rejection, Session, SessionRequest, TableOrder, TablePlan, Write,
};
use change::{Operation, Row, TableDefinition, TableName, Value};
use std::sync::Arc;

pub(super) struct MemorySession {
    pub(super) shared: Arc<Shared>,
    pub(super) epoch: u64,
    pub(super) request: SessionRequest,
    pub(super) transaction: Option<MemoryTransaction>,
}

impl MemorySession {
    fn no_transaction(&self) -> Error {
        Error::new(ErrorClass::Permanent, format!("Replicat {} has no open transaction", self.request.group))
    }

    fn write(&self, write: &Write<'_>) -> Result<(), ApplyError> {
        let mut state = self.shared.lock();
        let owner = self.transaction.as_ref().ok_or_else(|| self.no_transaction())?.owner;
        state.owned_by(owner)?;
        let plan = &**write.plan;
        let name = &plan.target.name;
        let columns = state.content.tables.get(name).map(|table| table.definition().columns.len());
        match columns {
            None => return Err(transaction::missing_table(name).into()),
            Some(columns) if columns != plan.target.columns.len() => {
                let what = format!("table {name} has changed its shape since it was looked at");
                let error = Error::new(ErrorClass::Permanent, what).with_next_step("start the Replicat again");
                return Err(error.into());
            }
            Some(_) => {}
        }
        let targets = || plan.key.iter().map(|pair| pair.target).collect::<Vec<_>>();
        let sources = || plan.key.iter().map(|pair| pair.source).collect::<Vec<_>>();
        match write.operation {
            Operation::Insert { new } => {
                if plan.on_duplicate == OnDuplicate::Replace {
                    let values = key_values(new, &sources());
                    let set = plan.columns.iter().map(|pair| (pair.target, new.value(pair.source)));
                    match transaction::update(&mut state, name, &targets(), &values, set) {
                        Err(ApplyError::Rejected(refused)) if refused.outcome == Outcome::Missing => {}
                        other => return other,
                    }
                }
                let row = mapped(&plan.columns, plan.target.columns.len(), new);
                transaction::insert(&mut state, name, row)
            }
            Operation::Update { old, new } => {
                let values = key_before(&plan.key, old.as_ref(), new);
                let new = plan.columns.iter().map(|pair| (pair.target, new.value(pair.source)));
                transaction::update(&mut state, name, &targets(), &values, new)
            }
            Operation::Delete { old } => {
                transaction::delete(&mut state, name, &targets(), &key_values(old, &sources()))
            }
            Operation::Truncate(_) => transaction::truncate(&mut state, name),
        }
    }
}

fn no_row(table: &TableName, group: &str) -> Error {
    Error::new(ErrorClass::Missing, format!("checkpoint table {table} has no row of group {group} with its key"))
        .with_next_step("find out who removed the row before the group is added anew")
}

/// The target's row for a source row; columns that nothing maps to are NULL.
fn mapped(columns: &[ColumnPair], width: usize, new: &Row) -> Row {
    let mut values = vec![Value::Null; width];
    for pair in columns {
        values[pair.target] = new.value(pair.source);
    }
    Row::from_values(values)
}

/// The key by which an update finds its row: the old one, where the source told it.
fn key_before(key: &[ColumnPair], old: Option<&Row>, new: &Row) -> KeyValues {
    key.iter()
        .map(|pair| {
            let told = old.map(|old| old.value(pair.source)).filter(|value| value.is_present());
            told.unwrap_or_else(|| new.value(pair.source)).bytes().map(<[u8]>::to_vec)
        })
        .collect()
}

impl Session for MemorySession {
    fn table(&mut self, name: &TableName) -> Result<Option<TableDefinition>, Error> {
        let mut state = self.shared.lock();
        state.enter(Some(self.epoch))?;
        Ok(state.resolve(name).map(|table| (**table.definition()).clone()))
    }

    fn order(&mut self, name: &TableName) -> Result<TableOrder, Error> {
        let mut state = self.shared.lock();
        state.enter(Some(self.epoch))?;
        let table = state.resolve(name).ok_or_else(|| transaction::missing_table(name))?;
        let name = &table.definition().name;
        let references = state.content.references.iter().filter(|reference| reference.table == *name);
        let references = references.filter_map(|reference| {
            let parent = state.content.tables.get(&reference.parent)?.definition();
            Some(ForeignKey {
                columns: reference.columns.clone(),
                parent: reference.parent.clone(),
                parent_columns: reference.parent_columns.iter().map(|at| parent.columns[*at].name.clone()).collect(),
            })
        });
        Ok(TableOrder { scope: OrderScope::Rows, unique: table.unique_keys(), references: references.collect() })
    }

    fn begin(&mut self) -> Result<(), Error> {
        let mut state = self.shared.lock();
        state.enter(Some(self.epoch))?;
        if self.transaction.is_some() {
            let what = format!("Replicat {} has a transaction open already", self.request.group);
            return Err(Error::new(ErrorClass::Permanent, what));
        }
        drop(state);
        self.transaction = Some(self.shared.begin(true, Some(self.epoch))?);
        Ok(())
    }

    fn apply(&mut self, writes: &[Write<'_>]) -> Result<(), ApplyError> {
        self.shared.lock().enter(Some(self.epoch))?;
        for (index, write) in writes.iter().enumerate() {
            self.write(write).map_err(|error| match error {
                ApplyError::Rejected(rejection) => ApplyError::Rejected(Rejection { index, ..rejection }),
                failed => failed,
            })?;
        }
        Ok(())
    }

    fn attempt(&mut self, write: &Write<'_>) -> Result<(), ApplyError> {
        // A write either happens or leaves nothing.
        self.apply(std::slice::from_ref(write))
    }

    fn find(&mut self, plan: &Arc<TablePlan>, image: &Row) -> Result<Option<Row>, Error> {
        let mut state = self.shared.lock();
        state.enter(Some(self.epoch))?;
        state.owned_by(self.transaction.as_ref().ok_or_else(|| self.no_transaction())?.owner)?;
        let name = &plan.target.name;
        let table = state.content.tables.get(name).ok_or_else(|| transaction::missing_table(name))?;
        let targets: Vec<usize> = plan.key.iter().map(|pair| pair.target).collect();
        let sources: Vec<usize> = plan.key.iter().map(|pair| pair.source).collect();
        let id = table.find(&targets, &key_values(image, &sources));
        Ok(id.and_then(|id| table.row(id)).map(|row| {
            let mut values = vec![Value::Unchanged; plan.source.columns.len()];
            plan.columns.iter().for_each(|pair| values[pair.source] = row.value(pair.target));
            Row::from_values(values)
        }))
    }

    fn load_checkpoint(&mut self) -> Result<Option<CheckpointRow>, Error> {
        let mut state = self.shared.lock();
        state.enter(Some(self.epoch))?;
        let reader = self.transaction.as_ref().map(|transaction| transaction.owner);
        let rows = state.checkpoint_rows(&self.request.checkpoint_table, reader);
        let key = (self.request.group.clone(), self.request.group_key);
        Ok(rows.and_then(|mut rows| rows.remove(&key)))
    }

    fn save_checkpoint(&mut self, row: &CheckpointRow) -> Result<(), Error> {
        let mut state = self.shared.lock();
        state.enter(Some(self.epoch))?;
        state.owned_by(self.transaction.as_ref().ok_or_else(|| self.no_transaction())?.owner)?;
        let table = &self.request.checkpoint_table;
        let key = (row.group_name.clone(), row.group_key);
        if state.content.checkpoints.get(table).is_none_or(|rows| !rows.contains_key(&key)) {
            return Err(no_row(table, &row.group_name));
        }
        state.put_checkpoint(table, key, Some(row.clone()));
        Ok(())
    }

    fn load_checkpoints(&mut self) -> Result<Option<CheckpointSet>, Error> {
        let mut state = self.shared.lock();
        state.enter(Some(self.epoch))?;
        let reader = self.transaction.as_ref().map(|transaction| transaction.owner);
        let SessionRequest { group, group_key, checkpoint_table: table, .. } = &self.request;
        let Some(mut rows) = state.checkpoint_rows(table, reader) else { return Ok(None) };
        let Some(row) = rows.remove(&(group.clone(), *group_key)) else { return Ok(None) };
        let note = state.checkpoint_notes(table, reader).remove(&(group.clone(), *group_key));
        let (appliers_wanted, map_hash) = note.unwrap_or_default();
        let appliers = (1..=appliers_wanted).filter_map(|number| {
            let key = CheckpointRow::applier_key(*group_key, number);
            let names = [group.clone(), CheckpointRow::thread_name(group, number)];
            names.into_iter().find_map(|name| rows.remove(&(name, key)))
        });
        let appliers = appliers.collect();
        Ok(Some(CheckpointSet { group: row, appliers, appliers_wanted, map_hash }))
    }

    fn replace_checkpoints(&mut self, set: &CheckpointSet) -> Result<(), Error> {
        self.save_checkpoint(&set.group)?;
        let mut state = self.shared.lock();
        let table = &self.request.checkpoint_table;
        let (group, group_key) = (&set.group.group_name, set.group.group_key);
        let key = (group.clone(), group_key);
        let owner = self.transaction.as_ref().map(|transaction| transaction.owner);
        let before = state.checkpoint_notes(table, owner).remove(&key).map_or(0, |(appliers, _)| appliers);
        for number in 1..=before {
            for name in [group.clone(), CheckpointRow::thread_name(group, number)] {
                state.put_checkpoint(table, (name, CheckpointRow::applier_key(group_key, number)), None);
            }
        }
        for row in &set.appliers {
            state.put_checkpoint(table, (row.group_name.clone(), row.group_key), Some(row.clone()));
        }
        state.put_note(table, key, Some((set.appliers_wanted, set.map_hash.clone())));
        Ok(())
    }

    fn commit(&mut self) -> Result<(), ApplyError> {
        let mut state = self.shared.lock();
        let call = state.call(Some(self.epoch))?;
        let transaction = self.transaction.take().ok_or_else(|| self.no_transaction())?;
        let result = match (state.owned_by(transaction.owner), call) {
            (Err(error), _) => Err(error.into()),
            (Ok(()), Call::Runs) => {
                let broken = state.broken_reference(self.request.foreign_keys);
                match broken {
                    None => {
                        state.commit();
                        Ok(())
                    }
                    Some((index, detail)) => {
                        let rejection = Rejection { index, outcome: Outcome::ForeignKey, detail, code: String::new() };
                        Err(ApplyError::Rejected(rejection))
                    }
                }
            }
            (Ok(()), Call::Breaks) => {
                if state.coin() {
                    state.commit();
                }
                Err(state.go_down().into())
            }
        };
        drop(state);
        drop(transaction);
        self.shared.signal();
        result
    }

    fn rollback(&mut self) -> Result<(), Error> {
        self.shared.lock().enter(Some(self.epoch))?;
        self.transaction = None;
        Ok(())
    }
}
