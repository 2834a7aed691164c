//! How a change becomes the data of a record.

use super::ORDER;
use crate::Error;
use crate::format::column;
use crate::format::record::operation;
use change::{Change, Operation, Row, TableDefinition};

/// Most bytes of the values of one row image.
const ROW_BYTES_MAX: usize = 400 * 1024 * 1024;

/// The operation and data of the record for one change.
///
/// Data is an optional image before and an optional image after. An update with an image before has a 32-bit length of
/// the former in front (operations 134 and 135); one without has the image after only (operation 15), and so the two
/// can be told apart even if the image before is empty.
pub(super) struct Plan<'a> {
    pub(super) operation: u8,
    pub(super) before_after: u8,
    before: Option<&'a Row>,
    after: Option<&'a Row>,
    /// Bytes of the data in narrow entries, unless a value is too long for them.
    pub(super) narrow: Option<usize>,
    /// Bytes of the data in wide entries.
    pub(super) wide: u64,
}

impl<'a> Plan<'a> {
    /// # Errors
    /// [`Error::Refused`] for a row that the trail can't hold.
    #[inline]
    pub(super) fn new(change: &'a Change) -> Result<Plan<'a>, Error> {
        let (operation, before_after, before, after) = match &change.operation {
            Operation::Insert { new } => (operation::INSERT, b'A', None, Some(new)),
            Operation::Delete { old } => (operation::DELETE, b'B', Some(old), None),
            Operation::Update { old: None, new } => (operation::UPDATE, b'A', None, Some(new)),
            Operation::Update { old: Some(old), new } => (operation::UNIFIED_UPDATE, b'A', Some(old), Some(new)),
            Operation::Truncate(_) => (operation::TRUNCATE, b'A', None, None),
        };
        for row in [before, after].into_iter().flatten() {
            check(&change.table, row)?;
        }
        let operation = match (operation, before, after) {
            (operation::UNIFIED_UPDATE, Some(old), Some(new)) if is_key_changed(&change.table, old, new) => {
                operation::UNIFIED_KEY_UPDATE
            }
            _ => operation,
        };
        let is_pair = before.is_some() && after.is_some();
        let narrow = [before, after].into_iter().flatten().map(column::narrow_length).sum::<Option<usize>>();
        let mut plan = Plan {
            operation,
            before_after,
            before,
            after,
            narrow: narrow.map(|bytes| bytes + prefix(is_pair)),
            wide: 0,
        };
        if plan.narrow.is_none_or(|bytes| bytes > usize::from(u16::MAX) / 2) {
            let wide: u64 = [before, after].into_iter().flatten().map(column::wide_length).sum();
            plan.wide = wide + prefix(is_pair) as u64;
        }
        Ok(plan)
    }

    /// Appends the data in narrow entries.
    #[inline]
    pub(super) fn put_narrow(&self, buffer: &mut Vec<u8>) {
        if let (Some(before), Some(_)) = (self.before, self.after) {
            let length = column::narrow_length(before).unwrap_or(0);
            buffer.extend_from_slice(&ORDER.of_u32(length as u32));
        }
        for row in [self.before, self.after].into_iter().flatten() {
            column::put_narrow(buffer, ORDER, row);
        }
    }

    /// Hands the data in wide entries to `take`, piece by piece.
    pub(super) fn put_wide(&self, mut take: impl FnMut(&[u8]) -> Result<(), Error>) -> Result<(), Error> {
        if let (Some(before), Some(_)) = (self.before, self.after) {
            take(&ORDER.of_u32(column::wide_length(before) as u32))?;
        }
        for row in [self.before, self.after].into_iter().flatten() {
            column::put_wide(row, ORDER, &mut take)?;
        }
        Ok(())
    }
}

/// Bytes in front of two images.
fn prefix(is_pair: bool) -> usize {
    if is_pair { 4 } else { 0 }
}

#[inline]
fn check(table: &TableDefinition, row: &Row) -> Result<(), Error> {
    let refuse = |reason: String| Err(Error::Refused { table: table.name.clone(), reason });
    if row.len() != table.columns.len() {
        return refuse(format!("the row has {} values, the table has {} columns", row.len(), table.columns.len()));
    }
    let bytes = row.value_bytes();
    if bytes > ROW_BYTES_MAX {
        return refuse(format!("the row has {bytes} bytes, a trail takes at most {ROW_BYTES_MAX}"));
    }
    Ok(())
}

fn is_key_changed(table: &TableDefinition, old: &Row, new: &Row) -> bool {
    table.columns.iter().enumerate().filter(|(_, column)| column.key.is_some()).any(|(index, _)| {
        let (old, new) = (old.value(index), new.value(index));
        old.is_present() && new.is_present() && old != new
    })
}
