//! How a change becomes the data of one or two records.

use crate::Error;
use crate::format::bytes::Order;
use crate::format::column;
use crate::format::layout::UpdateImages;
use crate::format::record::operation;
use change::{Change, Operation, Row, TableDefinition, Value};
use std::borrow::Cow;

/// Most bytes of the values of one row image.
const ROW_BYTES_MAX: usize = 400 * 1024 * 1024;

/// The records of one change: mostly one; an update with an image before has two where the layout wants them.
pub(super) struct Plan<'a> {
    pub(super) first: PlannedRecord<'a>,
    pub(super) second: Option<PlannedRecord<'a>>,
}

/// The operation and data of one record.
///
/// Data is an optional image before and an optional image after. Two images have the length of the former in front, in 32 bits
/// (operations 134 and 135) or for the key of a row in 16 (115; 117 with 32 in wide entries). So an update without an image
/// before (15) can be told from one whose image before is empty.
pub(super) struct PlannedRecord<'a> {
    operation: u8,
    pub(super) before_after: u8,
    before: Option<Cow<'a, Row>>,
    after: Option<Cow<'a, Row>>,
    /// Bytes of the data in narrow entries, unless a value is too long for them.
    pub(super) narrow: Option<usize>,
    /// Bytes of the data in wide entries.
    pub(super) wide: u64,
}

impl<'a> Plan<'a> {
    /// # Errors
    /// [`Error::Refused`] for a row that the trail can't hold.
    #[inline]
    pub(super) fn new(change: &'a Change, updates: UpdateImages) -> Result<Plan<'a>, Error> {
        let table = &change.table;
        let one = |operation, before_after, before: Option<&'a Row>, after: Option<&'a Row>| {
            let (before, after) = (before.map(Cow::Borrowed), after.map(Cow::Borrowed));
            let first = PlannedRecord::new(operation, before_after, before, after);
            Ok(Plan { first, second: None })
        };
        match &change.operation {
            Operation::Insert { new } => {
                check(table, new)?;
                one(operation::INSERT, b'A', None, Some(new))
            }
            Operation::Delete { old } => {
                check(table, old)?;
                one(operation::DELETE, b'B', Some(old), None)
            }
            Operation::Update { old: None, new } => {
                check(table, new)?;
                one(operation::UPDATE, b'A', None, Some(new))
            }
            Operation::Update { old: Some(old), new } => {
                check(table, old)?;
                check(table, new)?;
                let is_key_changed = is_key_changed(table, old, new);
                let after = match updates {
                    UpdateImages::Separate => return Ok(Plan::pair(table, old, new, is_key_changed)),
                    UpdateImages::Together => Cow::Borrowed(new),
                    UpdateImages::Compact => Cow::Owned(compact(table, old, new)),
                    UpdateImages::Full => Cow::Owned(full(old, new)),
                };
                let operation = match is_key_changed {
                    false => operation::UNIFIED_UPDATE,
                    true => operation::UNIFIED_KEY_UPDATE,
                };
                let first = PlannedRecord::new(operation, b'A', Some(Cow::Borrowed(old)), Some(after));
                Ok(Plan { first, second: None })
            }
            Operation::Truncate(_) => one(operation::TRUNCATE, b'A', None, None),
        }
    }

    /// An update as a record with the row before and one with the row after. Where a key changes, the latter has the key before
    /// as well; and when that is all that is known of the row before, it stands alone.
    fn pair(table: &TableDefinition, old: &'a Row, new: &'a Row, is_key_changed: bool) -> Plan<'a> {
        let before = || PlannedRecord::new(operation::UPDATE, b'B', Some(Cow::Borrowed(old)), None);
        if !is_key_changed {
            let after = PlannedRecord::new(operation::UPDATE, b'A', None, Some(Cow::Borrowed(new)));
            return Plan { first: before(), second: Some(after) };
        }
        let in_key = |(value, column): (Value<'a>, &change::Column)| match column.key {
            Some(_) => value,
            None => Value::Unchanged,
        };
        let key = Row::from_values(old.values().zip(table.columns.iter()).map(in_key));
        let is_whole = key == *old;
        let after = PlannedRecord::new(operation::KEY_UPDATE, b'A', Some(Cow::Owned(key)), Some(Cow::Borrowed(new)));
        match is_whole {
            true => Plan { first: after, second: None },
            false => Plan { first: before(), second: Some(after) },
        }
    }

    /// The records in order.
    pub(super) fn records(&self) -> impl Iterator<Item = &PlannedRecord<'a>> {
        std::iter::once(&self.first).chain(&self.second)
    }
}

impl<'a> PlannedRecord<'a> {
    #[inline]
    fn new(
        operation: u8,
        before_after: u8,
        before: Option<Cow<'a, Row>>,
        after: Option<Cow<'a, Row>>,
    ) -> PlannedRecord<'a> {
        let mut record = PlannedRecord { operation, before_after, before, after, narrow: None, wide: 0 };
        record.narrow = record.images().map(column::narrow_length).sum::<Option<usize>>();
        record.narrow = record.narrow.map(|bytes| bytes + record.prefix());
        if record.narrow.is_none_or(|bytes| bytes > usize::from(u16::MAX) / 2) {
            record.wide = record.images().map(column::wide_length).sum::<u64>() + record.wide_prefix();
        }
        record
    }

    fn images(&self) -> impl Iterator<Item = &Row> {
        self.before.as_deref().into_iter().chain(self.after.as_deref())
    }

    /// The operation of the whole record.
    #[inline]
    pub(super) fn operation(&self) -> u8 {
        self.operation
    }

    /// The operation of a record in parts.
    pub(super) fn wide_operation(&self) -> u8 {
        if self.operation == operation::KEY_UPDATE { operation::KEY_UPDATE_WIDE } else { self.operation }
    }

    /// Bytes in front of two images.
    #[inline]
    fn prefix(&self) -> usize {
        match (self.before.is_some() && self.after.is_some(), self.operation) {
            (false, _) => 0,
            (true, operation::KEY_UPDATE) => 2,
            (true, _) => 4,
        }
    }

    fn wide_prefix(&self) -> u64 {
        if self.prefix() == 0 { 0 } else { 4 }
    }

    /// Appends the data in narrow entries.
    #[inline]
    pub(super) fn put_narrow(&self, buffer: &mut Vec<u8>, order: Order) {
        if let (Some(before), Some(_)) = (&self.before, &self.after) {
            let length = column::narrow_length(before).unwrap_or(0);
            match self.operation {
                operation::KEY_UPDATE => buffer.extend_from_slice(&order.of_u16(length as u16)),
                _ => buffer.extend_from_slice(&order.of_u32(length as u32)),
            }
        }
        for row in self.images() {
            column::put_narrow(buffer, order, row);
        }
    }

    /// Hands the data in wide entries to `take`, piece by piece.
    pub(super) fn put_wide(&self, order: Order, mut take: impl FnMut(&[u8]) -> Result<(), Error>) -> Result<(), Error> {
        if let (Some(before), Some(_)) = (&self.before, &self.after) {
            take(&order.of_u32(column::wide_length(before) as u32))?;
        }
        for row in self.images() {
            column::put_wide(row, order, &mut take)?;
        }
        Ok(())
    }
}

#[inline]
fn check(table: &TableDefinition, row: &Row) -> Result<(), Error> {
    let refuse = |reason: String| Err(Error::Refused { table: table.name.clone(), reason });
    if row.len() != table.columns.len() {
        return refuse(format!("the row has {} values, the table has {} columns", row.len(), table.columns.len()));
    }
    let bytes = row.value_bytes();
    if bytes > ROW_BYTES_MAX {
        return refuse(too_long(table, row, bytes));
    }
    Ok(())
}

/// Why a row does not fit, with the columns that find it and the one that makes it long; no values.
#[cold]
fn too_long(table: &TableDefinition, row: &Row, bytes: usize) -> String {
    let mut key: Vec<_> = table.columns.iter().filter_map(|column| Some((column.key?, &*column.name))).collect();
    key.sort_unstable();
    let key = match key.as_slice() {
        [] => "the table has no key".to_owned(),
        columns => {
            let names: Vec<&str> = columns.iter().map(|(_, name)| *name).collect();
            format!("key {}", names.join(", "))
        }
    };
    let lengths = row.values().map(|value| value.bytes().map_or(0, <[u8]>::len));
    let longest = lengths.zip(table.columns.iter()).max_by_key(|(length, _)| *length);
    let longest = longest.map_or(String::new(), |(length, column)| format!(", {length} of them in {}", column.name));
    format!("a row ({key}) has {bytes} bytes{longest}; a trail takes at most {ROW_BYTES_MAX} a row")
}

/// The row after without what is the same as before, but with the key.
fn compact(table: &TableDefinition, old: &Row, new: &Row) -> Row {
    let columns = table.columns.iter().zip(old.values().zip(new.values()));
    Row::from_values(columns.map(|(column, (old, new))| match column.key {
        None if old == new => Value::Unchanged,
        _ => new,
    }))
}

/// The row after with the values of before where it tells none: they have not changed.
fn full(old: &Row, new: &Row) -> Row {
    Row::from_values(old.values().zip(new.values()).map(|(old, new)| if new.is_present() { new } else { old }))
}

fn is_key_changed(table: &TableDefinition, old: &Row, new: &Row) -> bool {
    table.columns.iter().enumerate().filter(|(_, column)| column.key.is_some()).any(|(index, _)| {
        let (old, new) = (old.value(index), new.value(index));
        old.is_present() && new.is_present() && old != new
    })
}
