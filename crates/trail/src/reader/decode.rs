//! From the data of a record to what it says.

use super::{Record, TransactionPlace};
use crate::Damage;
use crate::cipher::MasterKeys;
use crate::format::bytes::{Cursor, Order, from_julian_micros};
use crate::format::column::{self, Width};
use crate::format::partition::PartitionName;
use crate::format::record::{Object, RecordView, metadata_kind, operation, partition, transaction};
use crate::format::{metadata, sequence, statement, token, user_token};
use crate::scan::Trouble;
use crate::writer::ChangeDetails;
use bytes::Bytes;
use change::{
    Change, Commit, Csn, Operation, RecordAddress, Row, TableDefinition, TableName, TransactionId, TruncateOptions,
};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

/// Definitions of tables for files that hold none.
pub(super) struct GivenDefinitions {
    by_name: HashMap<Vec<u8>, Arc<TableDefinition>>,
    /// Where the keys of encrypted files are.
    pub(super) keys: Option<Arc<dyn MasterKeys>>,
}

impl GivenDefinitions {
    pub(super) fn new(definitions: &[Arc<TableDefinition>], keys: Option<Arc<dyn MasterKeys>>) -> GivenDefinitions {
        let by_name = definitions.iter().map(|table| (table.name.to_string().into_bytes(), Arc::clone(table)));
        GivenDefinitions { by_name: by_name.collect(), keys }
    }
}

/// Partitions in order of their numbers, each with the number of its table.
pub(super) type NumberedPartitions = Vec<(u16, Arc<PartitionName>)>;

/// What is known of one file: its definitions so far.
pub(super) struct Decoder {
    definitions: Vec<Arc<TableDefinition>>,
    partitions: NumberedPartitions,
    given: Arc<GivenDefinitions>,
    /// The transaction of the last change: the next one mostly belongs to it as well.
    commit: Option<Commit>,
    /// The image before of an update, whose image after must come next.
    before: Option<Before>,
}

struct Before {
    rba: u64,
    starts: bool,
    table: Arc<TableDefinition>,
    row: Row,
}

/// A whole record: a frame, or parts put together.
pub(super) struct Decoded<'a> {
    /// Where it starts.
    pub(super) rba: u64,
    /// Its operation.
    pub(super) operation: u8,
    /// Whether its transaction starts with it.
    pub(super) starts: bool,
    /// Whether its transaction ends with it.
    pub(super) ends: bool,
    /// What its data is a part of.
    pub(super) shared: &'a Bytes,
    /// Its data.
    pub(super) data: Range<usize>,
    /// The form of its columns.
    pub(super) width: Width,
    /// Content of `U`.
    pub(super) user: &'a [u8],
}

impl Decoder {
    pub(super) fn new(given: Arc<GivenDefinitions>) -> Decoder {
        Decoder { definitions: Vec::new(), partitions: Vec::new(), given, commit: None, before: None }
    }

    /// What a record says, and where it starts. `view` is that of its last part. An image before gives nothing yet.
    #[inline]
    pub(super) fn record(
        &mut self,
        view: &RecordView<'_>,
        what: Decoded<'_>,
        order: Order,
    ) -> Result<Option<(u64, Record)>, Trouble> {
        let rba = what.rba;
        if view.csn.is_some() {
            return self.in_transaction(view, what, order);
        }
        self.check_closed()?;
        let record = match what.operation {
            operation::METADATA => self.define(view, &what.shared[what.data], order)?,
            operation::RESTART_ABEND | operation::RESTART_OK => {
                if change::sabotage::is_on("ignore-restart-marker") {
                    return Ok(None);
                }
                Record::Restart { abend: what.operation == operation::RESTART_ABEND }
            }
            operation::COMMENT => Record::Comment(String::from_utf8_lossy(&what.shared[what.data]).into_owned()),
            operation => Record::Other { operation },
        };
        Ok(Some((rba, record)))
    }

    #[inline]
    fn in_transaction(
        &mut self,
        view: &RecordView<'_>,
        what: Decoded<'_>,
        order: Order,
    ) -> Result<Option<(u64, Record)>, Trouble> {
        match what.operation {
            operation::DDL | operation::SEQUENCE => {
                self.check_closed()?;
                let (place, commit) = (TransactionPlace::of(what.starts, what.ends), self.commit(view)?);
                let data = &what.shared[what.data];
                let record = match what.operation {
                    operation::DDL => {
                        Record::Statement { place, commit, statement: Box::new(statement::read_body(data)?) }
                    }
                    _ => Record::Sequence { place, commit, sequence: Box::new(sequence::read_body(data, order)?) },
                };
                return Ok(Some((what.rba, record)));
            }
            _ => {}
        }
        let table = self.table(&view.object)?;
        let is_before = view.header.before_after == b'B' && what.operation != operation::DELETE;
        if is_before || self.before.is_some() {
            return self.half_of_pair(view, table, what, order);
        }
        let operation = read_operation(&table, view, what.operation, what.shared, what.data, order, what.width)?;
        let place = TransactionPlace::of(what.starts, what.ends);
        self.change(view, table, operation, place, what.user).map(|record| Some((what.rba, record)))
    }

    #[inline]
    fn change(
        &mut self,
        view: &RecordView<'_>,
        table: Arc<TableDefinition>,
        operation: Operation,
        place: TransactionPlace,
        user: &[u8],
    ) -> Result<Record, Trouble> {
        let header = &view.header;
        let address = RecordAddress { position: header.audit_position, offset: header.audit_offset };
        let partition = match view.object {
            Object::Index { partition: Some(index), .. } => Some(index),
            _ => None,
        };
        let details = match (partition, user, header.format) {
            (None, [], b'R') => None,
            _ => Some(self.details(partition, user, header.format)?),
        };
        let change = Change { table, operation, address };
        Ok(Record::Change { place, commit: self.commit(view)?, change, details })
    }

    #[cold]
    fn details(&self, partition: Option<u16>, user: &[u8], format: u8) -> Result<Box<ChangeDetails>, Damage> {
        let partition = match partition {
            None => None,
            Some(index) => {
                let found = usize::from(index).checked_sub(1).and_then(|index| self.partitions.get(index));
                let (_, name) =
                    found.ok_or(Damage::Content("a change names a partition that the file does not hold"))?;
                Some(Arc::clone(name))
            }
        };
        Ok(Box::new(ChangeDetails { partition, user_tokens: user_token::read(user)?, is_fetched: format == b'F' }))
    }

    /// Keeps the image before of an update, or puts it together with the image after.
    fn half_of_pair(
        &mut self,
        view: &RecordView<'_>,
        table: Arc<TableDefinition>,
        what: Decoded<'_>,
        order: Order,
    ) -> Result<Option<(u64, Record)>, Trouble> {
        let is_before = view.header.before_after == b'B' && what.operation == operation::UPDATE;
        let after = read_operation(&table, view, what.operation, what.shared, what.data, order, what.width)?;
        match (self.before.take(), after) {
            (None, Operation::Update { old: None, new: row }) if is_before => {
                self.before = Some(Before { rba: what.rba, starts: what.starts, table, row });
                Ok(None)
            }
            (Some(before), Operation::Update { new, .. }) if !is_before && *before.table == *table && !what.starts => {
                let place = TransactionPlace::of(before.starts, what.ends);
                let operation = Operation::Update { old: Some(before.row), new };
                let record = self.change(view, table, operation, place, what.user)?;
                Ok(Some((before.rba, record)))
            }
            _ => Err(Damage::Content("an image before is not followed by the image after").into()),
        }
    }

    /// Takes note of the transaction of a change that is not decoded.
    #[inline]
    pub(super) fn pass_over(&mut self, view: &RecordView<'_>) -> Result<(), Damage> {
        if view.csn.is_some() && view.header.transaction == transaction::FIRST {
            self.commit(view)?;
        }
        Ok(())
    }

    /// Forgets an image before whose transaction was given up.
    pub(super) fn give_up(&mut self) {
        self.before = None;
    }

    /// # Errors
    /// [`Damage`] when an image before waits for the image after.
    #[inline]
    pub(super) fn check_closed(&self) -> Result<(), Damage> {
        match self.before {
            None => Ok(()),
            Some(_) => Err(Damage::Content("an image before is not followed by the image after")),
        }
    }

    /// Definitions, and partitions with the numbers of their tables, in order of their numbers.
    pub(super) fn into_known(self) -> (Vec<Arc<TableDefinition>>, NumberedPartitions) {
        (self.definitions, self.partitions)
    }

    fn define(&mut self, view: &RecordView<'_>, data: &[u8], order: Order) -> Result<Record, Damage> {
        let (first, index) = view.header.indexes(order);
        let definition = match view.header.origin {
            metadata_kind::TABLE => {
                if usize::from(index) != self.definitions.len() + 1 {
                    return Err(Damage::Content("a table definition has a number out of turn"));
                }
                Arc::new(metadata::read_table_body(data, order)?)
            }
            metadata_kind::TABLE_REFERENCE => {
                let known = usize::from(index).checked_sub(1).and_then(|index| self.definitions.get(index));
                let known =
                    known.ok_or(Damage::Content("a table refers to a definition that the file does not hold"))?;
                Arc::new(TableDefinition { name: table_name(&view.object)?, columns: known.columns.clone() })
            }
            metadata_kind::PARTITION => {
                if usize::from(index) != self.partitions.len() + 1 {
                    return Err(Damage::Content("a partition has a number out of turn"));
                }
                if first == 0 || usize::from(first) > self.definitions.len() {
                    return Err(Damage::Content("a partition belongs to a table that the file does not hold"));
                }
                let Object::Partition(bytes) = view.object else {
                    return Err(Damage::Content("a partition has no name"));
                };
                let partition = Arc::new(PartitionName::read(bytes, order)?);
                self.partitions.push((first, Arc::clone(&partition)));
                return Ok(Record::Partition(partition));
            }
            _ => return Ok(Record::Other { operation: operation::METADATA }),
        };
        self.definitions.push(Arc::clone(&definition));
        Ok(Record::Definition(definition))
    }

    #[inline]
    fn table(&self, object: &Object<'_>) -> Result<Arc<TableDefinition>, Trouble> {
        match object {
            Object::Index { definition, .. } => {
                let table = usize::from(*definition).checked_sub(1).and_then(|index| self.definitions.get(index));
                let missing = Damage::Content("a change names a table definition that the file does not hold");
                table.cloned().ok_or(missing.into())
            }
            Object::Name(name) => {
                let undefined = || Trouble::Undefined(String::from_utf8_lossy(name).into_owned());
                self.given.by_name.get(*name).cloned().ok_or_else(undefined)
            }
            Object::Partition(_) => Err(Damage::Content("a change is about a partition only").into()),
        }
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

fn table_name(object: &Object<'_>) -> Result<TableName, Damage> {
    let Object::Name(name) = object else { return Err(Damage::Content("a table definition has no name")) };
    let name = std::str::from_utf8(name).ok().and_then(|name| TableName::parse(name).ok());
    name.ok_or(Damage::Content("a table definition has a name that is none"))
}

/// What the flags of a truncation stand for. A flag of a later version is none that the rows depend on.
fn read_truncation(flags: u8) -> TruncateOptions {
    TruncateOptions {
        cascade: flags & token::truncation::CASCADE != 0,
        restart_identity: flags & token::truncation::RESTART_IDENTITY != 0,
    }
}

/// What the data of a record says of a row.
#[inline]
pub(crate) fn read_operation(
    table: &TableDefinition,
    view: &RecordView<'_>,
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
        operation::FULL_UPDATE if view.header.partition & partition::COLUMNS != 0 => {
            Ok(Operation::Update { old: None, new: row(data)? })
        }
        operation::KEY_UPDATE
        | operation::KEY_UPDATE_WIDE
        | operation::UNIFIED_UPDATE
        | operation::UNIFIED_KEY_UPDATE => {
            let (old, new) = split(shared, data, order, operation == operation::KEY_UPDATE)?;
            Ok(Operation::Update { old: Some(row(old)?), new: row(new)? })
        }
        operation::TRUNCATE => Ok(Operation::Truncate(read_truncation(view.truncation))),
        other => Err(Damage::Operation(other)),
    }
}

/// The places of the two images of an update.
fn split(
    shared: &Bytes,
    data: Range<usize>,
    order: Order,
    is_short: bool,
) -> Result<(Range<usize>, Range<usize>), Damage> {
    const WHAT: &str = "image before";
    let mut cursor = Cursor::new(&shared[data.clone()], order);
    let length = match is_short {
        true => usize::from(cursor.u16(WHAT)?),
        false => usize::try_from(cursor.u32(WHAT)?).unwrap_or(usize::MAX),
    };
    cursor.take(length, WHAT)?;
    let middle = data.start + cursor.position();
    Ok((middle - length..middle, middle..data.end))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::record::{self, Envelope, RecordHeader};
    use change::{Column, LogicalType, Row, TableName, Value};

    #[test]
    fn an_update_without_image_before_differs_from_one_with_an_empty_one() {
        let columns = vec![Column::new("a", LogicalType::Text, "TEXT")];
        let table = TableDefinition { name: TableName::new("s", "t"), columns: columns.into() };
        let mut record = Vec::new();
        let header = RecordHeader::new(operation::UPDATE, 255, 0);
        let envelope = Envelope::new(Object::Name(b""), &[]);
        record::put(&mut record, Order::Big, &header, &envelope, |_| {});
        let view = RecordView::read(&record, Order::Big).expect("is a record");
        let read = |operation, data: &'static [u8]| {
            let shared = Bytes::from_static(data);
            read_operation(&table, &view, operation, &shared, 0..data.len(), Order::Big, Width::Narrow)
        };
        let nothing = || Row::from_values([Value::Unchanged]);
        assert_eq!(read(operation::UPDATE, b""), Ok(Operation::Update { old: None, new: nothing() }));
        let expected = Operation::Update { old: Some(nothing()), new: nothing() };
        assert_eq!(read(operation::UNIFIED_UPDATE, b"\0\0\0\0"), Ok(expected));
        assert!(read(operation::UNIFIED_UPDATE, b"\0\0\0\x01").is_err(), "the length runs over the end");
        assert!(read(operation::UNIFIED_UPDATE, b"\0\0\0").is_err());
        let by_key = Operation::Update { old: Some(nothing()), new: nothing() };
        assert_eq!((read(115, b"\0\0"), read(117, b"\0\0\0\0")), (Ok(by_key.clone()), Ok(by_key)));
        // Without the flag for columns it is a full image, which only NonStop has.
        assert_eq!((read(10, b""), read(140, b"")), (Err(Damage::Operation(10)), Err(Damage::Operation(140))));
    }
}
