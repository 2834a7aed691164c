//! Which table definitions a file holds already.

use change::{TableDefinition, TableName};
use std::collections::HashMap;
use std::sync::Arc;

/// Most addresses remembered: a source that makes a new copy of a definition for each batch must not fill the memory.
const ADDRESSES_MAX: usize = 4096;

/// The definitions of one file with their numbers, from 1 in order of appearance.
#[derive(Default)]
pub(super) struct Definitions {
    count: u16,
    by_name: HashMap<TableName, Vec<(u16, Arc<TableDefinition>)>>,
    /// By address. The value keeps the definition alive, so that no other can get its address.
    by_address: HashMap<usize, (u16, Arc<TableDefinition>)>,
    last: Option<(u16, Arc<TableDefinition>)>,
}

impl Definitions {
    /// The number of an equal definition. Costs nothing for the one that was asked last.
    #[inline]
    pub(super) fn find(&mut self, table: &Arc<TableDefinition>) -> Option<u16> {
        match &self.last {
            Some((index, last)) if Arc::ptr_eq(last, table) => Some(*index),
            _ => self.find_other(table),
        }
    }

    fn find_other(&mut self, table: &Arc<TableDefinition>) -> Option<u16> {
        let address = Arc::as_ptr(table).addr();
        let index = match self.by_address.get(&address) {
            Some((index, _)) => *index,
            None => {
                let index = self.by_name.get(&table.name)?.iter().find(|(_, known)| known == table)?.0;
                self.remember(index, table);
                index
            }
        };
        self.last = Some((index, Arc::clone(table)));
        Some(index)
    }

    fn remember(&mut self, index: u16, table: &Arc<TableDefinition>) {
        if self.by_address.len() == ADDRESSES_MAX {
            self.by_address.clear();
        }
        self.by_address.insert(Arc::as_ptr(table).addr(), (index, Arc::clone(table)));
    }

    /// The number that the next new definition gets.
    pub(super) fn next_index(&self) -> u16 {
        self.count + 1
    }

    /// Whether there is no number left.
    pub(super) fn is_full(&self) -> bool {
        self.count == u16::MAX
    }

    /// Adds a definition that has no equal.
    pub(super) fn add(&mut self, table: &Arc<TableDefinition>) {
        self.count += 1;
        self.by_name.entry(table.name.clone()).or_default().push((self.count, Arc::clone(table)));
        self.remember(self.count, table);
        self.last = Some((self.count, Arc::clone(table)));
    }
}
