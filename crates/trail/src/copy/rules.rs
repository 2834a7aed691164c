//! Which records a copy gets.

use crate::copy::reader::OpenFile;
use crate::format::record::{Object, RecordView, operation};
use change::{Change, Row};
use std::collections::HashMap;

/// What rules may decide by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopiedRecord<'a> {
    /// The table, as the trail names it; empty for what is about no table.
    pub table: &'a str,
    /// The partition that holds the row, where the trail tells it.
    pub partition: Option<&'a str>,
    /// IOType of the record, or of the whole of which it is a part. Where the rules do not depend on it, a part of an
    /// encrypted record has that of a part.
    pub operation: u8,
}

/// Which records of transactions a copy gets. Definitions and markers always go along.
pub trait CopyRules: Send {
    /// Whether all records are kept, whatever they are.
    fn keeps_all(&self) -> bool {
        false
    }

    /// Whether the answers depend on the operation, which long records tell only in their data.
    fn depends_on_operation(&self) -> bool {
        false
    }

    /// Whether the record is kept. The answer for equal records is always the same.
    fn keeps(&self, record: &CopiedRecord<'_>) -> bool;

    /// Whether there are tables whose records this copy signs.
    fn signs_any(&self) -> bool {
        false
    }

    /// Whether records of `table`, as the trail names it, go through [`sign`](CopyRules::sign). They are no rows of users, and
    /// nobody counts them.
    fn signs(&self, table: &str) -> bool {
        let _ = table;
        false
    }

    /// What becomes of a record of a table that is signed. Records that travel in parts, and those that are encrypted, are not
    /// asked about and go on as they are.
    fn sign(&self, change: &Change) -> Signed {
        let _ = change;
        Signed::AsItIs
    }
}

/// What becomes of a record that may be signed.
#[derive(Clone, Debug, PartialEq)]
pub enum Signed {
    /// It goes on as it is.
    AsItIs,
    /// It goes on with this as the row after the change.
    With(Row),
    /// It is left out.
    Dropped,
}

/// Keeps all records (PASSTHRU).
#[derive(Clone, Copy, Debug, Default)]
pub struct CopyEverything;

impl CopyRules for CopyEverything {
    fn keeps_all(&self) -> bool {
        true
    }

    fn keeps(&self, _: &CopiedRecord<'_>) -> bool {
        true
    }
}

/// Answers of the rules for one file, so that names are compared once.
#[derive(Default)]
pub(super) struct Answers {
    by_index: HashMap<(u16, u16, u8), bool>,
}

impl Answers {
    /// Whether the record, whose whole has `operation`, is kept.
    pub(super) fn keeps(
        &mut self,
        rules: &dyn CopyRules,
        file: &OpenFile,
        view: &RecordView<'_>,
        operation: u8,
    ) -> bool {
        if matches!(operation, operation::DDL | operation::SEQUENCE) {
            return rules.keeps(&CopiedRecord { table: "", partition: None, operation });
        }
        match view.object {
            Object::Index { definition, partition } => {
                let key = (definition, partition.unwrap_or(0), operation);
                *self.by_index.entry(key).or_insert_with(|| {
                    let (table, partition) = file.names(definition, partition);
                    rules.keeps(&CopiedRecord { table, partition, operation })
                })
            }
            Object::Name(name) => {
                let table = std::str::from_utf8(name).unwrap_or_default();
                rules.keeps(&CopiedRecord { table, partition: None, operation })
            }
            Object::Partition(_) => true,
        }
    }
}
