//! What a copy has read and kept, per table and kind of operation.

use crate::copy::reader::OpenFile;
use crate::format::record::{Object, RecordView, operation};
use change::OperationKind;
use std::collections::HashMap;

/// Operations on one table, by [`OperationKind`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableTally {
    /// Read from the input.
    pub read: [u64; OperationKind::ALL.len()],
    /// Handed on.
    pub kept: [u64; OperationKind::ALL.len()],
}

/// Operations by the table's name, as the trail has it.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    tables: Vec<(String, TableTally)>,
    by_name: HashMap<String, usize>,
    /// Place of each definition of the file that is read.
    by_index: Vec<Option<usize>>,
}

impl Tally {
    /// Tables with what was counted of them, in order of their first operation.
    pub fn tables(&self) -> &[(String, TableTally)] {
        &self.tables
    }

    /// Definitions have other numbers from now on.
    pub(super) fn start_file(&mut self) {
        self.by_index.clear();
    }

    /// Counts an operation, if the record is the one that stands for it.
    pub(super) fn count(&mut self, file: &OpenFile, view: &RecordView<'_>, operation: u8, is_kept: bool) {
        let Some(kind) = kind(view, operation) else { return };
        let place = match view.object {
            Object::Index { definition, .. } => {
                let index = usize::from(definition);
                match self.by_index.get(index) {
                    Some(Some(place)) => *place,
                    _ => {
                        let place = self.place(file.names(definition, None).0);
                        self.by_index.resize(self.by_index.len().max(index + 1), None);
                        self.by_index[index] = Some(place);
                        place
                    }
                }
            }
            Object::Name(name) => self.place(&String::from_utf8_lossy(name)),
            Object::Partition(_) => return,
        };
        let (_, table) = &mut self.tables[place];
        table.read[kind as usize] += 1;
        if is_kept {
            table.kept[kind as usize] += 1;
        }
    }

    fn place(&mut self, name: &str) -> usize {
        if let Some(place) = self.by_name.get(name) {
            return *place;
        }
        let place = self.tables.len();
        self.tables.push((name.to_owned(), TableTally::default()));
        self.by_name.insert(name.to_owned(), place);
        place
    }
}

/// The kind of operation that a record stands for; `None` for the first one of a pair, which the second one stands for.
fn kind(view: &RecordView<'_>, operation: u8) -> Option<OperationKind> {
    match operation {
        operation::INSERT => Some(OperationKind::Insert),
        operation::DELETE => Some(OperationKind::Delete),
        operation::TRUNCATE => Some(OperationKind::Truncate),
        _ if view.header.before_after == b'B' => None,
        operation::UPDATE
        | operation::FULL_UPDATE
        | operation::KEY_UPDATE
        | operation::KEY_UPDATE_WIDE
        | operation::UNIFIED_UPDATE
        | operation::UNIFIED_KEY_UPDATE => Some(OperationKind::Update),
        _ => None,
    }
}
