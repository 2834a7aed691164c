//! Under which definitions changes are told.

use crate::catalog;
use crate::name::same;
use crate::trigger::{self, Registered};
use change::{TableDefinition, TableName};
use database::{Error, ErrorClass, TableSelection};
use rusqlite::Connection;
use std::collections::HashMap;
use std::sync::Arc;

/// Definitions by the number that triggers write, with the group's choice of tables and keys.
pub(super) struct Shapes {
    tables: Arc<dyn TableSelection>,
    /// `None` for a table that the group does not capture.
    known: HashMap<i64, Option<Arc<TableDefinition>>>,
}

impl Shapes {
    pub(super) fn new(tables: Arc<dyn TableSelection>) -> Shapes {
        Shapes { tables, known: HashMap::new() }
    }

    pub(super) fn selection(&self) -> &dyn TableSelection {
        &*self.tables
    }

    pub(super) fn selects(&self, table: &str) -> bool {
        let name = TableName::new(catalog::SCHEMA, table);
        let required = |other: &TableName| same(&other.schema, &name.schema) && same(&other.table, &name.table);
        self.tables.selects(&name) || self.tables.required().iter().any(required)
    }

    /// What is known of table number `id`; the outer `None` asks for [`learn`](Shapes::learn).
    pub(super) fn known(&self, id: i64) -> Option<Option<&Arc<TableDefinition>>> {
        self.known.get(&id).map(Option::as_ref)
    }

    pub(super) fn learn(&mut self, connection: &Connection, id: i64) -> Result<(), Error> {
        let registered = trigger::registered_tables(connection)?;
        let table = registered.iter().find(|table| table.id == id).ok_or_else(|| {
            Error::new(ErrorClass::Corrupt, format!("drover_table does not know table number {id} of a change"))
                .with_next_step("the capture tables were damaged: delete and add the Extract, and load the target anew")
        })?;
        self.of(connection, table).map(|_| ())
    }

    pub(super) fn of(
        &mut self,
        connection: &Connection,
        table: &Registered,
    ) -> Result<Option<Arc<TableDefinition>>, Error> {
        if let Some(known) = self.known.get(&table.id) {
            return Ok(known.clone());
        }
        let shape = if self.selects(&table.name) {
            let mut definition = table.definition(connection)?;
            if let Some(key) = self.tables.key_columns(&definition.name) {
                for column in Arc::make_mut(&mut definition.columns) {
                    column.key = key.iter().position(|part| same(part, &column.name)).map(|place| place as u16);
                }
            }
            Some(Arc::new(definition))
        } else {
            None
        };
        self.known.insert(table.id, shape.clone());
        Ok(shape)
    }
}
