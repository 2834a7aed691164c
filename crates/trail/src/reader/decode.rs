//! From the data of a record to what it says.

use super::{Record, TransactionPlace};
use crate::Damage;
use crate::format::bytes::{Cursor, Order, from_julian_micros};
use crate::format::column::{self, Width};
use crate::format::metadata;
use crate::format::record::{Object, RecordView, metadata_kind, operation};
use crate::format::token;
use crate::scan;
use bytes::Bytes;
use change::{Change, Commit, Csn, Operation, RecordAddress, TableDefinition, TransactionId, TruncateOptions};
use std::ops::Range;
use std::sync::Arc;

/// What is known of one file: its table definitions so far.
#[derive(Default)]
pub(super) struct Decoder {
    definitions: Vec<Arc<TableDefinition>>,
    /// The transaction of the last change: the next one mostly belongs to it as well.
    commit: Option<Commit>,
}

impl Decoder {
    /// What a record says. `operation`, `data` (a part of `shared`) and `width` are those of the whole record when `view`
    /// is the last of its parts.
    #[inline]
    pub(super) fn record(
        &mut self,
        view: &RecordView<'_>,
        operation: u8,
        shared: &Bytes,
        data: Range<usize>,
        order: Order,
        width: Width,
    ) -> Result<Option<Record>, Damage> {
        match operation {
            operation::METADATA => self.define(view, &shared[data], order).map(Some),
            operation::RESTART_ABEND | operation::RESTART_OK => {
                let abend = operation == operation::RESTART_ABEND;
                let is_hidden = change::sabotage::is_on("ignore-restart-marker");
                Ok((!is_hidden).then_some(Record::Restart { abend }))
            }
            _ if view.csn.is_none() => Ok(Some(Record::Other { operation })),
            _ => {
                let table = self.table(&view.object)?;
                let operation = match operation {
                    operation::TRUNCATE => Operation::Truncate(read_truncation(view.truncation)),
                    _ => read_operation(&table, operation, shared, data, order, width)?,
                };
                let (starts, ends) = scan::place(view.header.transaction)?;
                let place = TransactionPlace::of(starts, ends);
                let address = RecordAddress { position: view.header.audit_position, offset: view.header.audit_offset };
                let change = Change { table, operation, address };
                Ok(Some(Record::Change { place, commit: self.commit(view)?, change }))
            }
        }
    }

    fn define(&mut self, view: &RecordView<'_>, data: &[u8], order: Order) -> Result<Record, Damage> {
        if view.header.origin != metadata_kind::TABLE {
            return Ok(Record::Other { operation: operation::METADATA });
        }
        let (_, index) = view.header.indexes(order);
        if usize::from(index) != self.definitions.len() + 1 {
            return Err(Damage::Content("a table definition has a number out of turn"));
        }
        let definition = Arc::new(metadata::read_table_body(data, order)?);
        self.definitions.push(Arc::clone(&definition));
        Ok(Record::Definition(definition))
    }

    #[inline]
    fn table(&self, object: &Object<'_>) -> Result<Arc<TableDefinition>, Damage> {
        let Object::Index { definition, .. } = object else {
            return Err(Damage::Content("a change names no table definition"));
        };
        let table = usize::from(*definition).checked_sub(1).and_then(|index| self.definitions.get(index));
        table.cloned().ok_or(Damage::Content("a change names a table definition that the file does not hold"))
    }

    #[inline]
    fn commit(&mut self, view: &RecordView<'_>) -> Result<Commit, Damage> {
        let (Some(csn), Some(transaction)) = (view.csn, view.transaction_id) else {
            return Err(Damage::Content("a change names no transaction"));
        };
        let time = from_julian_micros(view.header.time);
        if let Some(commit) = &self.commit
            && commit.csn.as_str().as_bytes() == csn
            && commit.transaction.as_str().as_bytes() == transaction
            && commit.time == time
        {
            return Ok(commit.clone());
        }
        let text = |bytes| std::str::from_utf8(bytes).map_err(|_| Damage::Content("a transaction's name is not UTF-8"));
        let commit = Commit { csn: Csn::new(text(csn)?), transaction: TransactionId::new(text(transaction)?), time };
        Ok(self.commit.insert(commit).clone())
    }
}

/// What the flags of a truncation stand for. A flag of a later version is none that the rows depend on.
fn read_truncation(flags: u8) -> TruncateOptions {
    TruncateOptions {
        cascade: flags & token::truncation::CASCADE != 0,
        restart_identity: flags & token::truncation::RESTART_IDENTITY != 0,
    }
}

#[inline]
fn read_operation(
    table: &TableDefinition,
    operation: u8,
    shared: &Bytes,
    data: Range<usize>,
    order: Order,
    width: Width,
) -> Result<Operation, Damage> {
    let row = |place| column::read_row(shared, place, table.columns.len(), order, width);
    match operation {
        operation::INSERT => Ok(Operation::Insert { new: row(data)? }),
        operation::DELETE => Ok(Operation::Delete { old: row(data)? }),
        operation::UPDATE => Ok(Operation::Update { old: None, new: row(data)? }),
        operation::UNIFIED_UPDATE | operation::UNIFIED_KEY_UPDATE => {
            let (old, new) = split(shared, data, order)?;
            Ok(Operation::Update { old: Some(row(old)?), new: row(new)? })
        }
        _ => Err(Damage::Content("the operation is none that this version knows")),
    }
}

/// The places of the two images of an update.
fn split(shared: &Bytes, data: Range<usize>, order: Order) -> Result<(Range<usize>, Range<usize>), Damage> {
    const WHAT: &str = "image before";
    let mut cursor = Cursor::new(&shared[data.clone()], order);
    let length = usize::try_from(cursor.u32(WHAT)?).unwrap_or(usize::MAX);
    cursor.take(length, WHAT)?;
    let middle = data.start + cursor.position();
    Ok((middle - length..middle, middle..data.end))
}

#[cfg(test)]
mod tests {
    use super::*;
    use change::{Column, LogicalType, Row, TableName, Value};

    #[test]
    fn an_update_without_image_before_differs_from_one_with_an_empty_one() {
        let columns = vec![Column::new("a", LogicalType::Text, "TEXT")];
        let table = TableDefinition { name: TableName::new("s", "t"), columns };
        let read = |operation, data: &'static [u8]| {
            let shared = Bytes::from_static(data);
            read_operation(&table, operation, &shared, 0..data.len(), Order::Big, Width::Narrow)
        };
        let nothing = || Row::from_values([Value::Unchanged]);
        assert_eq!(read(operation::UPDATE, b""), Ok(Operation::Update { old: None, new: nothing() }));
        let expected = Operation::Update { old: Some(nothing()), new: nothing() };
        assert_eq!(read(operation::UNIFIED_UPDATE, b"\0\0\0\0"), Ok(expected));
        assert!(read(operation::UNIFIED_UPDATE, b"\0\0\0\x01").is_err(), "the length runs over the end");
        assert!(read(operation::UNIFIED_UPDATE, b"\0\0\0").is_err());
        assert!(read(99, b"").is_err());
    }
}
