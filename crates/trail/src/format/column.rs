//! Lists of columns: the data of most records.
//!
//! An entry of the public layout is a 16-bit column index, a 16-bit length of what follows, and a value: a 16-bit null
//! indicator (0, or FFFF for NULL with nothing after it), then for every type a 16-bit length and so many bytes. An
//! *unchanged* value has no entry. Inside fragmented records entries are wide: the length has 32 bits, and the value's own
//! length is left out.

use super::bytes::{Cursor, Order};
use crate::Damage;
use bytes::Bytes;
use change::{Row, RowBuilder, Value};
use std::ops::Range;

/// Longest value that fits an entry of the public layout: its length must count two more numbers.
const NARROW_VALUE_BYTES_MAX: usize = 65_535 - 4;

/// Most columns that a table can have: their indexes are 16-bit numbers.
pub const COLUMNS_MAX: usize = 65_535;

const NULL: u16 = 0xFFFF;

/// Which of the two entry forms a list is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    /// 16-bit lengths, as the public layout has it.
    Narrow,
    /// 32-bit lengths, in fragmented records.
    Wide,
}

/// Bytes of `row` as a list of narrow entries, or `None` when a value is too long for them.
#[inline]
pub fn narrow_length(row: &Row) -> Option<usize> {
    let mut total: usize = 0;
    for value in row.values() {
        total = total.saturating_add(match value {
            Value::Unchanged => 0,
            Value::Null => 6,
            Value::Bytes(bytes) if bytes.len() <= NARROW_VALUE_BYTES_MAX => bytes.len().saturating_add(8),
            Value::Bytes(_) => return None,
        });
    }
    Some(total)
}

/// Appends `row` as narrow entries. The caller has asked [`narrow_length`].
#[inline]
pub fn put_narrow(buffer: &mut Vec<u8>, order: Order, row: &Row) {
    for (index, value) in (0_u16..).zip(row.values()) {
        let [a, b] = order.of_u16(index);
        match value {
            Value::Unchanged => {}
            Value::Null => {
                let [c, d] = order.of_u16(2);
                buffer.extend_from_slice(&[a, b, c, d, 0xFF, 0xFF]);
            }
            Value::Bytes(bytes) => {
                let length = u16::try_from(bytes.len()).unwrap_or(u16::MAX);
                let ([c, d], [e, f]) = (order.of_u16(length.saturating_add(4)), order.of_u16(length));
                buffer.extend_from_slice(&[a, b, c, d, 0, 0, e, f]);
                buffer.extend_from_slice(bytes);
            }
        }
    }
}

/// Bytes of `row` as a list of wide entries.
pub fn wide_length(row: &Row) -> u64 {
    let length = |value: Value<'_>| match value {
        Value::Unchanged => 0,
        Value::Null => 8,
        Value::Bytes(bytes) => (bytes.len() as u64).saturating_add(8),
    };
    row.values().map(length).fold(0, u64::saturating_add)
}

/// Hands `row` as wide entries to `take`, piece by piece, without copying values.
///
/// # Errors
/// Those of `take`.
pub fn put_wide<E>(row: &Row, order: Order, mut take: impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
    for (index, value) in (0_u16..).zip(row.values()) {
        let (indicator, bytes) = match value {
            Value::Unchanged => continue,
            Value::Null => (NULL, &[][..]),
            Value::Bytes(bytes) => (0, bytes),
        };
        let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX).saturating_add(2);
        let ([a, b], [c, d, e, f], [g, h]) = (order.of_u16(index), order.of_u32(length), order.of_u16(indicator));
        take(&[a, b, c, d, e, f, g, h])?;
        take(bytes)?;
    }
    Ok(())
}

/// One entry of a list, whatever the type of its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnEntry<'a> {
    /// Index of the column.
    pub index: u16,
    /// Everything after the entry's length: null indicator and value.
    pub raw: &'a [u8],
    /// Where the value's own bytes stand in the list; `None` for NULL.
    pub value: Option<Range<usize>>,
}

/// The next entry of a list, or `None` at its end.
///
/// # Errors
/// [`Damage`].
#[inline]
pub fn next<'a>(cursor: &mut Cursor<'a>, width: Width) -> Result<Option<ColumnEntry<'a>>, Damage> {
    const WHAT: &str = "column";
    if cursor.is_empty() {
        return Ok(None);
    }
    let index = cursor.u16(WHAT)?;
    let length = match width {
        Width::Narrow => usize::from(cursor.u16(WHAT)?),
        Width::Wide => usize::try_from(cursor.u32(WHAT)?).unwrap_or(usize::MAX),
    };
    let raw = cursor.take(length, WHAT)?;
    let end = cursor.position();
    let mut content = Cursor::new(raw, cursor.order());
    if content.u16(WHAT)? == NULL {
        return Ok(Some(ColumnEntry { index, raw, value: None }));
    }
    let start = end.saturating_sub(content.rest().len());
    Ok(Some(ColumnEntry { index, raw, value: Some(start..end) }))
}

/// Reads a list in our own form, the part `place` of `shared`, as a row of `columns` columns whose values are slices of
/// `shared`.
///
/// # Errors
/// [`Damage`]: entries that are not whole, not in ascending order, or of columns that the table does not have.
#[inline]
pub fn read_row(
    shared: &Bytes,
    place: Range<usize>,
    columns: usize,
    order: Order,
    width: Width,
) -> Result<Row, Damage> {
    let list = shared.get(place.clone()).unwrap_or_default();
    let mut cursor = Cursor::new(list, order);
    let mut damage = None;
    let mut upcoming = advance(&mut cursor, width, place.start, &mut damage);
    let cells = (0..columns).map(|column| match &mut upcoming {
        Some((index, _)) if usize::from(*index) == column => {
            let following = advance(&mut cursor, width, place.start, &mut damage);
            match std::mem::replace(&mut upcoming, following) {
                Some((_, Some(value))) => Ok(value),
                _ => Err(Value::Null),
            }
        }
        _ => Err(Value::Unchanged),
    });
    let row = RowBuilder::over(shared, cells);
    match (damage, upcoming) {
        (Some(damage), _) => Err(damage),
        (None, Some(_)) => Err(Damage::Content("a column is out of order or not one of the table's")),
        (None, None) => Ok(row),
    }
}

/// The next entry's index and place of its value in the buffer that the list is part of.
#[inline]
fn advance(
    cursor: &mut Cursor<'_>,
    width: Width,
    base: usize,
    damage: &mut Option<Damage>,
) -> Option<(u16, Option<Range<usize>>)> {
    let found = next(cursor, width).and_then(|entry| {
        let Some(entry) = entry else { return Ok(None) };
        let Some(value) = entry.value else { return Ok(Some((entry.index, None))) };
        let prefix = match width {
            Width::Narrow => {
                let content = entry.raw.get(2..).unwrap_or_default();
                let length = usize::from(Cursor::new(content, cursor.order()).u16("column value")?);
                if length.saturating_add(2) != content.len() {
                    return Err(Damage::Content("a value's length does not fit its column"));
                }
                2
            }
            Width::Wide => 0,
        };
        let start = base.saturating_add(value.start).saturating_add(prefix);
        Ok(Some((entry.index, Some(start..base.saturating_add(value.end)))))
    });
    found.unwrap_or_else(|cause| {
        *damage = Some(cause);
        None
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: [Value<'static>; 4] = [Value::Bytes(b"one"), Value::Unchanged, Value::Null, Value::Bytes(b"")];

    #[test]
    fn a_row_is_written_as_the_public_layout_says() {
        let row = Row::from_values(SAMPLE);
        let mut bytes = Vec::new();
        put_narrow(&mut bytes, Order::Big, &row);
        let expected = b"\x00\x00\x00\x07\x00\x00\x00\x03one\x00\x02\x00\x02\xff\xff\x00\x03\x00\x04\x00\x00\x00\x00";
        assert_eq!(bytes, expected);
        assert_eq!(narrow_length(&row), Some(expected.len()));
    }

    #[test]
    fn both_forms_come_back_from_the_middle_of_a_buffer() {
        let row = Row::from_values(SAMPLE);
        for order in [Order::Little, Order::Big] {
            let mut narrow = vec![9; 5];
            put_narrow(&mut narrow, order, &row);
            let shared = Bytes::from(narrow);
            assert_eq!(read_row(&shared, 5..shared.len(), 4, order, Width::Narrow), Ok(row.clone()));

            let mut wide = vec![9; 5];
            let pieces: Result<(), ()> = put_wide(&row, order, |piece| {
                wide.extend_from_slice(piece);
                Ok(())
            });
            assert_eq!((pieces, wide.len() as u64), (Ok(()), 5 + wide_length(&row)));
            let shared = Bytes::from(wide);
            assert_eq!(read_row(&shared, 5..shared.len(), 4, order, Width::Wide), Ok(row.clone()));
        }
    }

    #[test]
    fn lists_that_do_not_fit_the_table_are_damage() {
        let read = |list: &'static [u8], columns| {
            read_row(&Bytes::from_static(list), 0..list.len(), columns, Order::Big, Width::Narrow).is_err()
        };
        assert!(read(b"\x00\x03\x00\x02\xff\xff", 3), "no such column");
        assert!(read(b"\x00\x01\x00\x02\xff\xff\x00\x00\x00\x02\xff\xff", 3), "out of order");
        assert!(read(b"\x00\x01\x00\x02\xff\xff\x00\x01\x00\x02\xff\xff", 3), "twice");
        assert!(read(b"\x00\x00\x00\x05\x00\x00\x00\x02a", 3), "length of the value");
        assert!(read(b"\x00\x00\x00\x09\x00\x00\x00\x01a", 3), "cut off");
        assert!(read(b"\x00\x00\x00\x01\x00", 3), "no null indicator");
    }
}
