//! The tables and partitions that the records of a file name by number.

use change::TableDefinition;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use trail::PartitionName;
use trail::format::bytes::Order;
use trail::format::fragment::Fragment;
use trail::format::metadata;
use trail::format::record::{Object, RecordView, metadata_kind, operation};

/// Longest definition that is put together from parts: far above what the most columns that a table can have need.
const PARTS_BYTES_MAX: usize = 64 * 1024 * 1024;

/// A table of a file.
#[derive(Clone, Debug)]
pub struct KnownTable {
    /// Its name, as the record says.
    pub name: String,
    /// Its definition; `None` where it can't be read, or is another product's.
    pub definition: Option<Arc<TableDefinition>>,
}

/// What a file has defined so far.
#[derive(Default)]
pub struct Definitions {
    tables: BTreeMap<u16, KnownTable>,
    partitions: BTreeMap<u16, PartitionName>,
    /// Definitions of tables that the operator gave (SOURCEDEFS), by name.
    given: HashMap<String, Arc<TableDefinition>>,
    parts: Vec<u8>,
}

impl Definitions {
    /// With definitions for tables that the file does not define, or in another product's form.
    pub fn new(given: &[Arc<TableDefinition>]) -> Definitions {
        let given = given.iter().map(|table| (table.name.to_string(), Arc::clone(table))).collect();
        Definitions { given, ..Definitions::default() }
    }

    /// Whether a record is a definition, or a part of one.
    pub fn concern(view: &RecordView<'_>) -> bool {
        let is_part = || view.header.operation == operation::FRAGMENT && view.csn.is_none();
        view.header.operation == operation::METADATA || is_part()
    }

    /// Takes note of a definition. `data` is the record's data in clear, or `None` when it can't be had.
    pub fn take(&mut self, view: &RecordView<'_>, data: Option<&[u8]>, order: Order) {
        if view.header.operation == operation::FRAGMENT {
            return self.take_part(view, data, order);
        }
        self.define(view, data, order);
    }

    fn take_part(&mut self, view: &RecordView<'_>, data: Option<&[u8]>, order: Order) {
        let fragment = data.and_then(|data| Fragment::read(data, order).ok());
        let Some(fragment) = fragment.filter(|fragment| fragment.operation == operation::METADATA) else { return };
        if fragment.number == 0 {
            self.parts.clear();
        }
        if self.parts.len() + fragment.part.len() > PARTS_BYTES_MAX {
            self.parts.clear();
            return;
        }
        self.parts.extend_from_slice(fragment.part);
        if view.header.continued == 0 {
            let whole = std::mem::take(&mut self.parts);
            self.define(view, Some(&whole), order);
        }
    }

    fn define(&mut self, view: &RecordView<'_>, data: Option<&[u8]>, order: Order) {
        let (_, index) = view.header.indexes(order);
        match (view.header.origin, &view.object) {
            (metadata_kind::TABLE, Object::Name(name)) => {
                let definition = data.and_then(|data| metadata::read_table_body(data, order).ok()).map(Arc::new);
                let name = definition.as_ref().map_or_else(|| text(name), |table| table.name.to_string());
                let definition = definition.or_else(|| self.given.get(&name).cloned());
                self.tables.insert(index, KnownTable { name, definition });
            }
            (metadata_kind::TABLE_REFERENCE, Object::Name(name)) => {
                let name = text(name);
                let known = self.tables.get(&index).and_then(|table| table.definition.as_ref());
                let definition =
                    known.and_then(|known| renamed(known, &name)).or_else(|| self.given.get(&name).cloned());
                self.tables.insert(self.next_index(), KnownTable { name, definition });
            }
            (metadata_kind::PARTITION, Object::Partition(bytes)) => {
                if let Ok(partition) = PartitionName::read(bytes, order) {
                    self.partitions.insert(index, partition);
                }
            }
            _ => {}
        }
    }

    /// The number that the next table has.
    fn next_index(&self) -> u16 {
        self.tables.keys().next_back().map_or(1, |last| last.saturating_add(1))
    }

    /// The table with a number.
    pub fn table(&self, index: u16) -> Option<&KnownTable> {
        self.tables.get(&index)
    }

    /// The definition that was given for a table.
    pub fn given(&self, name: &str) -> Option<&Arc<TableDefinition>> {
        self.given.get(name)
    }

    /// The partition with a number.
    pub fn partition(&self, index: u16) -> Option<&PartitionName> {
        self.partitions.get(&index)
    }

    /// Whether everything that an object names by number is known.
    pub fn know(&self, object: &Object<'_>) -> bool {
        match object {
            Object::Name(_) | Object::Partition(_) => true,
            Object::Index { definition, partition } => {
                self.tables.contains_key(definition)
                    && partition.is_none_or(|partition| self.partitions.contains_key(&partition))
            }
        }
    }

    /// The name of the table that a record is about; empty for a record about none, `?` for a number that is not known.
    pub fn name_of<'a>(&'a self, object: &Object<'a>) -> std::borrow::Cow<'a, str> {
        match object {
            Object::Name(name) => String::from_utf8_lossy(name),
            Object::Partition(_) => "".into(),
            Object::Index { definition, .. } => self.table(*definition).map_or("?", |table| table.name.as_str()).into(),
        }
    }

    /// The definition of the table that a record is about.
    pub fn definition_of(&self, object: &Object<'_>) -> Option<&Arc<TableDefinition>> {
        match object {
            Object::Name(name) => self.given.get(&text(name)),
            Object::Partition(_) => None,
            Object::Index { definition, .. } => self.table(*definition)?.definition.as_ref(),
        }
    }
}

fn text(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}

/// The definition of a table that looks like another one.
fn renamed(known: &TableDefinition, name: &str) -> Option<Arc<TableDefinition>> {
    let name = change::TableName::parse(name).ok()?;
    Some(Arc::new(TableDefinition { name, columns: known.columns.clone() }))
}
