//! Which table definitions and partitions a file holds already.

use crate::format::bytes::{Order, clip};
use crate::format::metadata;
use crate::format::partition::PartitionName;
use change::{TableDefinition, TableName};
use std::collections::HashMap;
use std::sync::Arc;

/// Most addresses remembered: a source that makes a new copy of a definition for each batch must not fill the memory.
const ADDRESSES_MAX: usize = 4096;

/// Longest table name in a record header; the definition's body has the whole name.
pub(super) const NAME_BYTES_MAX: usize = 1000;

/// The definitions of one file with their numbers, from 1 in order of appearance.
#[derive(Default)]
pub(super) struct Definitions {
    all: Vec<Known>,
    by_name: HashMap<TableName, Vec<u16>>,
    /// By CRC-32 of what says how the columns are.
    by_columns: HashMap<u32, u16>,
    /// By address. The value keeps the definition alive, so that no other can get its address.
    by_address: HashMap<usize, (u16, Arc<TableDefinition>)>,
    last: Option<(u16, Arc<TableDefinition>)>,
    partitions: HashMap<(u16, PartitionName), u16>,
    /// The last partition that was found, by address.
    last_partition: Option<(u16, u16, Arc<PartitionName>)>,
}

struct Known {
    table: Arc<TableDefinition>,
    /// Its name as record headers have it.
    name: Arc<[u8]>,
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
                let equal = |index: &&u16| self.at(**index).is_some_and(|known| known.table == *table);
                let index = *self.by_name.get(&table.name)?.iter().find(equal)?;
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

    fn at(&self, index: u16) -> Option<&Known> {
        self.all.get(usize::from(index).checked_sub(1)?)
    }

    /// The number that the next new definition gets.
    pub(super) fn next_index(&self) -> u16 {
        self.all.len() as u16 + 1
    }

    /// Whether there is no number left for a definition or a partition.
    pub(super) fn is_full(&self) -> bool {
        self.all.len() == usize::from(u16::MAX) || self.partitions.len() == usize::from(u16::MAX)
    }

    /// The number of a definition of other name whose columns are the same, if a reference to it can stand for this one.
    pub(super) fn find_reference(&self, table: &TableDefinition) -> Option<u16> {
        let index = *self.by_columns.get(&columns_checksum(table))?;
        let known = self.at(index)?;
        let fits = table.name.to_string().len() <= NAME_BYTES_MAX;
        (fits && known.table.columns == table.columns).then_some(index)
    }

    /// Adds a definition that has no equal.
    pub(super) fn add(&mut self, table: &Arc<TableDefinition>) {
        let name = header_name(table).into_bytes().into();
        self.all.push(Known { table: Arc::clone(table), name });
        let index = self.all.len() as u16;
        self.by_name.entry(table.name.clone()).or_default().push(index);
        self.by_columns.entry(columns_checksum(table)).or_insert(index);
        self.remember(index, table);
        self.last = Some((index, Arc::clone(table)));
    }

    /// The table's name as record headers have it.
    pub(super) fn name(&self, index: u16) -> Arc<[u8]> {
        self.at(index).map(|known| Arc::clone(&known.name)).unwrap_or_default()
    }

    /// The number of a partition of the table with number `definition`.
    pub(super) fn find_partition(&mut self, definition: u16, partition: &Arc<PartitionName>) -> Option<u16> {
        match &self.last_partition {
            Some((table, index, last)) if *table == definition && Arc::ptr_eq(last, partition) => return Some(*index),
            _ => {}
        }
        // A lookup by parts would need a borrowed form of the key; partitions change seldom.
        let index = *self.partitions.get(&(definition, PartitionName::clone(partition)))?;
        self.last_partition = Some((definition, index, Arc::clone(partition)));
        Some(index)
    }

    /// Adds a partition that has no equal, and returns its number.
    pub(super) fn add_partition(&mut self, definition: u16, partition: &PartitionName) -> u16 {
        let index = self.partitions.len() as u16 + 1;
        self.partitions.insert((definition, partition.clone()), index);
        index
    }
}

/// The table's name as record headers have it; the definition's body has all of it.
pub(super) fn header_name(table: &TableDefinition) -> String {
    let name = table.name.to_string();
    clip(&name, NAME_BYTES_MAX).to_owned()
}

fn columns_checksum(table: &TableDefinition) -> u32 {
    crc32fast::hash(&metadata::columns_body(table, Order::Little))
}
