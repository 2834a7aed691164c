//! The doors of a memory database.

use super::MemoryDatabase;
use super::session::MemorySession;
use super::source::{MemorySource, captured_shape, mismatch, unregistered};
use super::state::State;
use super::table::Table;
use super::transaction::missing_table;
use crate::{
    CheckpointRow, CheckpointSet, CheckpointTableState, Database, Error, ErrorClass, Identity, LogSource, Session,
    SessionRequest, SourceRequest, TableSelection,
};
use change::{CaseRule, LogPosition, TableDefinition, TableName};
use std::collections::HashMap;
use std::sync::Arc;

impl State {
    /// The table of this name by the case rule.
    pub(super) fn resolve(&self, name: &TableName) -> Option<&Table> {
        self.content.tables.get(name).or_else(|| {
            let alike = |other: &TableName| {
                self.options.case_rule == CaseRule::Insensitive
                    && other.schema.eq_ignore_ascii_case(&name.schema)
                    && other.table.eq_ignore_ascii_case(&name.table)
            };
            self.content.tables.iter().find(|(other, _)| alike(other)).map(|(_, table)| table)
        })
    }

    /// Refuses when a required table is missing or a selected one can't be captured.
    fn check_selection(&self, tables: &dyn TableSelection) -> Result<(), Error> {
        for name in tables.required() {
            self.resolve(&name).ok_or_else(|| missing_table(&name))?;
        }
        self.content.tables.values().try_for_each(|table| captured_shape(table.definition(), tables).map(|_| ()))
    }

    fn existing_checkpoint_rows(&mut self, table: &TableName) -> Result<&mut super::state::CheckpointRows, Error> {
        self.content.checkpoints.get_mut(table).ok_or_else(|| {
            Error::new(ErrorClass::Missing, format!("checkpoint table {table} does not exist"))
                .with_next_step("add the checkpoint table first")
        })
    }
}

/// A checkpoint table and the tables beside it.
fn family(name: &TableName) -> [TableName; 3] {
    ["", "_lox", "_grp"].map(|end| TableName::new(&name.schema, format!("{}{end}", name.table)))
}

impl Database for MemoryDatabase {
    fn identity(&self) -> Result<Identity, Error> {
        let mut state = self.shared.lock();
        state.enter(None)?;
        Ok(Identity {
            product: "memory".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            name: state.options.name.clone(),
        })
    }

    fn case_rule(&self) -> CaseRule {
        self.shared.lock().options.case_rule
    }

    fn default_schema(&self) -> String {
        "main".to_owned()
    }

    fn tables(&self) -> Result<Vec<TableDefinition>, Error> {
        let mut state = self.shared.lock();
        state.enter(None)?;
        Ok(state.content.tables.values().map(|table| (**table.definition()).clone()).collect())
    }

    fn register_capture(&self, group: &str, tables: &dyn TableSelection) -> Result<LogPosition, Error> {
        let mut state = self.shared.lock();
        state.enter(None)?;
        if state.content.released.contains_key(group) {
            let what = format!("Extract {group} is registered with this database already");
            return Err(Error::new(ErrorClass::Permanent, what).with_next_step("delete the old Extract first"));
        }
        state.check_selection(tables)?;
        state.make_durable();
        let last = state.content.last;
        state.content.released.insert(group.to_owned(), last);
        state.forget();
        Ok(state.position(last))
    }

    fn has_capture(&self, group: &str) -> Result<bool, Error> {
        let mut state = self.shared.lock();
        state.enter(None)?;
        Ok(state.content.released.contains_key(group))
    }

    fn unregister_capture(&self, group: &str) -> Result<(), Error> {
        let mut state = self.shared.lock();
        state.enter(None)?;
        state.content.released.remove(group);
        state.forget();
        Ok(())
    }

    fn open_source(&self, request: SourceRequest) -> Result<Box<dyn LogSource>, Error> {
        let mut state = self.shared.lock();
        state.enter(None)?;
        let SourceRequest { group, start, tables } = request;
        let released = *state.content.released.get(&group).ok_or_else(|| unregistered(&group))?;
        let first = released.max(state.content.forgotten);
        let known = first..=state.content.last;
        let told = state.number(&start).filter(|number| known.contains(number));
        let told = told.ok_or_else(|| mismatch(&group, &start))?;
        state.check_selection(&*tables)?;
        let epoch = state.epoch;
        let shared = Arc::clone(&self.shared);
        Ok(Box::new(MemorySource {
            shared,
            epoch,
            group,
            tables,
            told,
            looked_at: 0,
            begun: false,
            shapes: HashMap::new(),
        }))
    }

    fn open_session(&self, request: SessionRequest) -> Result<Box<dyn Session>, Error> {
        let mut state = self.shared.lock();
        state.enter(None)?;
        let epoch = state.epoch;
        Ok(Box::new(MemorySession { shared: Arc::clone(&self.shared), epoch, request, transaction: None }))
    }

    fn create_checkpoint_table(&self, name: &TableName) -> Result<(), Error> {
        let mut state = self.shared.lock();
        state.enter(None)?;
        for name in family(name) {
            let taken = state.content.checkpoints.keys().any(|other| family(other).contains(&name));
            if taken || state.content.tables.contains_key(&name) {
                let what = format!("table {name} exists already");
                return Err(Error::new(ErrorClass::Permanent, what).with_next_step("choose another name"));
            }
        }
        state.make_durable();
        state.content.checkpoints.insert(name.clone(), Default::default());
        Ok(())
    }

    fn has_checkpoint_table(&self, name: &TableName) -> Result<bool, Error> {
        let mut state = self.shared.lock();
        state.enter(None)?;
        Ok(state.content.checkpoints.contains_key(name))
    }

    fn inspect_checkpoint_table(&self, name: &TableName) -> Result<Option<CheckpointTableState>, Error> {
        Ok(self.has_checkpoint_table(name)?.then(CheckpointTableState::default))
    }

    fn upgrade_checkpoint_table(&self, name: &TableName) -> Result<Vec<TableName>, Error> {
        let mut state = self.shared.lock();
        state.enter(None)?;
        state.existing_checkpoint_rows(name).map(|_| Vec::new())
    }

    fn checkpoint_sets(&self, table: &TableName) -> Result<Vec<CheckpointSet>, Error> {
        let mut state = self.shared.lock();
        state.enter(None)?;
        let rows = state.checkpoint_rows(table, None).unwrap_or_default();
        let notes = state.checkpoint_notes(table, None);
        let notes = notes.into_iter().map(|((group, key), (appliers, hash))| (group, key, appliers, hash));
        Ok(CheckpointSet::assemble(rows.into_values().collect(), notes))
    }

    fn drop_checkpoint_table(&self, name: &TableName) -> Result<(), Error> {
        let mut state = self.shared.lock();
        state.enter(None)?;
        state.existing_checkpoint_rows(name)?;
        state.make_durable();
        state.content.checkpoints.remove(name);
        state.content.checkpoint_notes.remove(name);
        Ok(())
    }

    fn checkpoints(&self, table: &TableName, group: &str) -> Result<Vec<CheckpointRow>, Error> {
        let mut state = self.shared.lock();
        state.enter(None)?;
        let rows = state.checkpoint_rows(table, None).unwrap_or_default();
        Ok(rows.into_values().filter(|row| row.group_name == group).collect())
    }

    fn insert_checkpoint(&self, table: &TableName, row: &CheckpointRow) -> Result<(), Error> {
        let mut state = self.shared.lock();
        state.enter(None)?;
        let rows = state.existing_checkpoint_rows(table)?;
        let key = (row.group_name.clone(), row.group_key);
        if rows.contains_key(&key) {
            let what = format!("checkpoint table {table} has a row of group {} with this key", row.group_name);
            return Err(Error::new(ErrorClass::Permanent, what).with_next_step("delete the old Replicat first"));
        }
        rows.insert(key, row.clone());
        state.make_durable();
        Ok(())
    }

    fn delete_checkpoint(&self, table: &TableName, group: &str, group_key: i64) -> Result<(), Error> {
        let mut state = self.shared.lock();
        state.enter(None)?;
        let key = (group.to_owned(), group_key);
        state.existing_checkpoint_rows(table)?;
        let note = state.content.checkpoint_notes.get_mut(table).and_then(|notes| notes.remove(&key));
        let rows = state.existing_checkpoint_rows(table)?;
        rows.remove(&key);
        for number in 1..=note.map_or(0, |(appliers, _)| appliers) {
            let key = CheckpointRow::applier_key(group_key, number);
            rows.remove(&(group.to_owned(), key));
            rows.remove(&(CheckpointRow::thread_name(group, number), key));
        }
        state.make_durable();
        Ok(())
    }
}
