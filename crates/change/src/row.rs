//! Row images: column values as slices of a shared buffer.
//!
//! The hot path moves hundreds of thousands of rows a second, so a value is not an allocation: a [`Row`] keeps one
//! reference-counted buffer and, per column, a range in it. A source that reads a batch into one buffer hands out rows
//! that all share it.

use bytes::{BufMut, Bytes, BytesMut};
use std::fmt;

/// The value of one column in a row image.
///
/// Bytes are canonical UTF-8 text of the column's [`LogicalType`](crate::LogicalType) under pinned settings; binary
/// types are raw bytes; [`LogicalType::Dynamic`](crate::LogicalType::Dynamic) carries a class mark first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Value<'a> {
    /// SQL NULL.
    Null,
    /// The source did not send this value: it did not change, or the image holds the key only.
    Unchanged,
    /// A value, possibly empty.
    Bytes(&'a [u8]),
}

impl<'a> Value<'a> {
    /// The bytes, or `None` for NULL and unchanged.
    pub fn bytes(self) -> Option<&'a [u8]> {
        match self {
            Value::Bytes(bytes) => Some(bytes),
            Value::Null | Value::Unchanged => None,
        }
    }

    /// Whether the image says anything of this column.
    pub fn is_present(self) -> bool {
        self != Value::Unchanged
    }
}

#[derive(Clone, Copy)]
enum Cell {
    Null,
    Unchanged,
    Bytes { start: u32, length: u32 },
}

/// One image of a row: a value per column of its table definition, in definition order.
///
/// Invariants
/// - every range lies inside the buffer;
/// - the buffer is at most 4 GiB (values above 400 MB are refused long before).
#[derive(Clone)]
pub struct Row {
    buffer: Bytes,
    cells: Vec<Cell>,
}

impl Row {
    /// Builds a row by copying `values` into a buffer of its own.
    pub fn from_values<'a>(values: impl IntoIterator<Item = Value<'a>>) -> Row {
        let mut builder = RowBuilder::new();
        values.into_iter().for_each(|value| builder.push(value));
        builder.finish()
    }

    /// Number of columns.
    pub fn len(&self) -> usize {
        self.cells.len()
    }

    /// Whether the row has no columns at all.
    pub fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }

    /// The value of column `index`.
    ///
    /// # Panics
    /// If `index` is not below [`len`](Row::len): a row always has exactly the columns of its definition.
    pub fn value(&self, index: usize) -> Value<'_> {
        match self.cells[index] {
            Cell::Null => Value::Null,
            Cell::Unchanged => Value::Unchanged,
            Cell::Bytes { start, length } => Value::Bytes(&self.buffer[start as usize..(start + length) as usize]),
        }
    }

    /// All values in column order.
    pub fn values(&self) -> impl ExactSizeIterator<Item = Value<'_>> {
        (0..self.cells.len()).map(|index| self.value(index))
    }

    /// Whether no value is [`Value::Unchanged`].
    pub fn is_complete(&self) -> bool {
        !self.cells.iter().any(|cell| matches!(cell, Cell::Unchanged))
    }

    /// Bytes of all values together.
    pub fn value_bytes(&self) -> usize {
        self.cells.iter().map(|cell| if let Cell::Bytes { length, .. } = cell { *length as usize } else { 0 }).sum()
    }
}

impl PartialEq for Row {
    fn eq(&self, other: &Row) -> bool {
        self.len() == other.len() && self.values().eq(other.values())
    }
}

impl Eq for Row {}

impl fmt::Debug for Row {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut list = formatter.debug_list();
        for value in self.values() {
            match value {
                Value::Null => list.entry(&format_args!("NULL")),
                Value::Unchanged => list.entry(&format_args!("~")),
                Value::Bytes(bytes) => list.entry(&format_args!("{:?}", String::from_utf8_lossy(bytes))),
            };
        }
        list.finish()
    }
}

/// Builds rows, one after another, either into a buffer of their own or over a shared one.
#[derive(Default)]
pub struct RowBuilder {
    buffer: BytesMut,
    cells: Vec<Cell>,
}

impl RowBuilder {
    /// An empty builder.
    pub fn new() -> RowBuilder {
        RowBuilder::default()
    }

    /// Appends a value, copying its bytes.
    pub fn push(&mut self, value: Value<'_>) {
        match value {
            Value::Null => self.cells.push(Cell::Null),
            Value::Unchanged => self.cells.push(Cell::Unchanged),
            Value::Bytes(bytes) => self.push_with(|buffer| buffer.put_slice(bytes)),
        }
    }

    /// Appends a value that `write` renders straight into the row's buffer.
    pub fn push_with(&mut self, write: impl FnOnce(&mut BytesMut)) {
        let start = self.buffer.len();
        write(&mut self.buffer);
        assert!(self.buffer.len() >= start, "a value may only be appended");
        let cell = range(start, self.buffer.len() - start);
        self.cells.push(cell);
    }

    /// Finishes the row; the builder is empty again and keeps its spare capacity.
    pub fn finish(&mut self) -> Row {
        let columns = self.cells.len();
        let cells = std::mem::replace(&mut self.cells, Vec::with_capacity(columns));
        Row { buffer: self.buffer.split().freeze(), cells }
    }

    /// Builds a row whose values are slices of `shared`, without copying.
    ///
    /// Each item is a value's range in `shared`, or the plain [`Value`] for NULL and unchanged.
    ///
    /// # Panics
    /// If a range lies outside `shared`.
    pub fn over(
        shared: &Bytes,
        values: impl IntoIterator<Item = Result<std::ops::Range<usize>, Value<'static>>>,
    ) -> Row {
        let cells = values
            .into_iter()
            .map(|item| match item {
                Ok(place) => {
                    assert!(place.start <= place.end && place.end <= shared.len(), "a value lies inside its buffer");
                    range(place.start, place.end - place.start)
                }
                Err(Value::Null) => Cell::Null,
                Err(Value::Unchanged) => Cell::Unchanged,
                Err(Value::Bytes(_)) => unreachable!("bytes are given as a range"),
            })
            .collect();
        Row { buffer: shared.clone(), cells }
    }
}

fn range(start: usize, length: usize) -> Cell {
    let start = u32::try_from(start).expect("a row buffer is below 4 GiB");
    let length = u32::try_from(length).expect("a row buffer is below 4 GiB");
    assert!(start.checked_add(length).is_some(), "a row buffer is below 4 GiB");
    Cell::Bytes { start, length }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_returns_what_was_pushed_and_the_builder_can_go_on() {
        let mut builder = RowBuilder::new();
        builder.push(Value::Bytes(b"one"));
        builder.push(Value::Null);
        let first = builder.finish();
        builder.push(Value::Unchanged);
        builder.push(Value::Bytes(b""));
        let second = builder.finish();
        assert_eq!(first.values().collect::<Vec<_>>(), [Value::Bytes(b"one"), Value::Null]);
        assert_eq!(second.values().collect::<Vec<_>>(), [Value::Unchanged, Value::Bytes(b"")]);
        assert!(first.is_complete() && !second.is_complete());
    }

    #[test]
    fn rows_over_a_shared_buffer_equal_rows_with_their_own() {
        let shared = Bytes::from_static(b"abcdef");
        let row = RowBuilder::over(&shared, [Ok(1..3), Err(Value::Null), Ok(6..6)]);
        assert_eq!(row, Row::from_values([Value::Bytes(b"bc"), Value::Null, Value::Bytes(b"")]));
    }

    #[test]
    #[should_panic(expected = "inside its buffer")]
    fn a_range_outside_the_buffer_is_a_broken_promise() {
        RowBuilder::over(&Bytes::from_static(b"ab"), [Ok(1..3)]);
    }
}
