//! Result rows as text.

use super::Error;
use super::frame::Fields;
use bytes::Bytes;

/// One row of a query's result; values are the server's text.
#[derive(Clone, Debug)]
pub struct TextRow {
    body: Bytes,
    cells: Vec<Option<(u32, u32)>>,
}

impl TextRow {
    /// Reads the body of a DataRow message.
    pub(crate) fn decode(body: Bytes) -> Result<TextRow, Error> {
        let mut fields = Fields(&body);
        let count = fields.u16()?;
        let mut cells = Vec::with_capacity(usize::from(count));
        for _ in 0..count {
            let length = fields.i32()?;
            let Ok(length) = u32::try_from(length) else {
                cells.push(None);
                continue;
            };
            let start = body.len() - fields.0.len();
            fields.bytes(length as usize)?;
            let start = u32::try_from(start).map_err(|_| Error::Protocol("a row is too long"))?;
            cells.push(Some((start, length)));
        }
        Ok(TextRow { body, cells })
    }

    /// Number of columns.
    pub fn len(&self) -> usize {
        self.cells.len()
    }

    /// Whether the row has no columns.
    pub fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }

    /// Bytes of column `index`; `None` for NULL and for a column that is not there.
    pub fn bytes(&self, index: usize) -> Option<&[u8]> {
        let (start, length) = (*self.cells.get(index)?)?;
        self.body.get(start as usize..)?.get(..length as usize)
    }

    /// Text of column `index`; `None` for NULL, for a column that is not there and for bytes that are not UTF-8.
    pub fn text(&self, index: usize) -> Option<&str> {
        std::str::from_utf8(self.bytes(index)?).ok()
    }

    /// Text of column `index`, which the query never leaves NULL.
    ///
    /// # Errors
    /// [`Error::Protocol`] when it is NULL.
    pub fn required(&self, index: usize) -> Result<&str, Error> {
        self.text(index).ok_or(Error::Protocol("a result lacks a value that its query always gives"))
    }

    /// Column `index` read as a number or another simple type.
    ///
    /// # Errors
    /// [`Error::Protocol`] when it is NULL or does not read.
    pub fn parse<T: std::str::FromStr>(&self, index: usize) -> Result<T, Error> {
        self.required(index)?.parse().map_err(|_| Error::Protocol("a result has a value of an unexpected form"))
    }

    /// Whether column `index` is `t`.
    pub fn flag(&self, index: usize) -> bool {
        self.bytes(index) == Some(b"t")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn no_bytes_make_rows_or_errors_panic(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            let bytes = Bytes::from(bytes);
            let error = crate::wire::ServerError::decode(&bytes);
            let _ = (error.class(), error.to_string());
            if let Ok(row) = TextRow::decode(bytes) {
                for index in 0..=row.len() {
                    let _ = (row.text(index), row.bytes(index), row.flag(index));
                }
            }
        }
    }
}
