//! Rows as views of the receive buffer.

use super::Error;
use super::decode::Fields;
use bytes::Bytes;
use std::fmt;
use std::ops::Range;

/// One value of a [`Tuple`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cell {
    /// SQL NULL.
    Null,
    /// A TOASTed value that did not change and was not sent.
    Unchanged,
    /// The type's text, as a range of the message.
    Text(Range<usize>),
    /// The type's binary form, as a range of the message.
    Binary(Range<usize>),
}

/// One image of a row. Its values were checked to lie inside the message.
#[derive(Clone, Copy)]
pub struct Tuple<'a> {
    message: &'a Bytes,
    start: usize,
    end: usize,
    columns: u16,
}

impl<'a> Tuple<'a> {
    /// Takes the tuple at the start of `fields`, which must be the rest of `message`.
    pub(super) fn take(message: &'a Bytes, fields: &mut Fields<'a>) -> Result<Tuple<'a>, Error> {
        let columns = fields.u16()?;
        let start = message.len().saturating_sub(fields.rest().len());
        for _ in 0..columns {
            cell(fields, message.len())?;
        }
        let end = message.len().saturating_sub(fields.rest().len());
        Ok(Tuple { message, start, end, columns })
    }

    /// The message that holds the values.
    pub fn message(&self) -> &'a Bytes {
        self.message
    }

    /// Number of columns.
    pub fn len(&self) -> usize {
        usize::from(self.columns)
    }

    /// Whether there are no columns.
    pub fn is_empty(&self) -> bool {
        self.columns == 0
    }

    /// All values in order.
    pub fn cells(&self) -> impl Iterator<Item = Cell> + use<'a> {
        let bytes = self.message.get(self.start..self.end).unwrap_or_default();
        // Offsets count from the start of the message, of which these bytes end at `end`.
        let (mut fields, end) = (Fields::new(bytes), self.end);
        // Every value was checked when the tuple was taken.
        (0..self.columns).map_while(move |_| cell(&mut fields, end).ok())
    }
}

/// The next value; `end` is the place in the message where the bytes of `fields` end.
fn cell(fields: &mut Fields<'_>, end: usize) -> Result<Cell, Error> {
    let kind = fields.u8()?;
    Ok(match kind {
        b'n' => Cell::Null,
        b'u' => Cell::Unchanged,
        b't' | b'b' => {
            let length = usize::try_from(fields.u32()?).map_err(|_| Error::Cut)?;
            let start = end.saturating_sub(fields.rest().len());
            fields.bytes(length)?;
            let range = start..end.saturating_sub(fields.rest().len());
            if kind == b't' { Cell::Text(range) } else { Cell::Binary(range) }
        }
        _ => return Err(Error::Kind { what: "value", kind }),
    })
}

impl PartialEq for Tuple<'_> {
    fn eq(&self, other: &Tuple<'_>) -> bool {
        self.columns == other.columns
            && self.message.get(self.start..self.end) == other.message.get(other.start..other.end)
    }
}

/// Shows the number of columns only: values do not belong into logs.
impl fmt::Debug for Tuple<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Tuple of {} columns", self.columns)
    }
}
