//! Changes as bytes, as blocks hold them; see `docs/formats/open-transactions.md`.
//!
//! A record is: length of what follows u32, then part, table, kind u8, log position, log offset, the options of a truncation u8 (1
//! CASCADE, 2 RESTART IDENTITY), and the row images that the kind has. What was done to an object of the database has kind 5 or 6, zeros
//! for table, position and offset, and the body of its record in a trail; in front of a statement's, the length of the reason why it
//! is not told, and the reason. Numbers without a width are of 7 bits a byte, lowest first, the high bit saying that more follow. An image is the number of
//! columns and per column 0 for NULL, 1 for unchanged, or the length of the value plus 2 and the value.

use bytes::Bytes;
use change::{ObjectChange, Operation, RecordAddress, Row, RowBuilder, TruncateOptions, Value};
use std::ops::Range;
use trail::format::bytes::Order;
use trail::format::{sequence, statement};

const INSERT: u8 = 0;
const UPDATE: u8 = 1;
const UPDATE_WITH_OLD: u8 = 2;
const DELETE: u8 = 3;
const TRUNCATE: u8 = 4;
const DEFINITION: u8 = 5;
const SEQUENCE: u8 = 6;

const NULL: u64 = 0;
const UNCHANGED: u64 = 1;
const VALUE: u64 = 2;

/// Appends a record.
pub(super) fn put(bytes: &mut Vec<u8>, part: u32, table: u32, operation: &Operation, address: RecordAddress) {
    let start = bytes.len();
    bytes.extend_from_slice(&[0; 4]);
    put_number(bytes, u64::from(part));
    put_number(bytes, u64::from(table));
    let (kind, images): (u8, [Option<&Row>; 2]) = match operation {
        Operation::Insert { new } => (INSERT, [Some(new), None]),
        Operation::Update { old: None, new } => (UPDATE, [Some(new), None]),
        Operation::Update { old: Some(old), new } => (UPDATE_WITH_OLD, [Some(old), Some(new)]),
        Operation::Delete { old } => (DELETE, [Some(old), None]),
        Operation::Truncate(_) => (TRUNCATE, [None, None]),
    };
    bytes.push(kind);
    put_number(bytes, address.position);
    put_number(bytes, u64::from(address.offset));
    if let Operation::Truncate(options) = operation {
        bytes.push(u8::from(options.cascade) | u8::from(options.restart_identity) << 1);
    }
    for row in images.into_iter().flatten() {
        put_row(bytes, row);
    }
    close(bytes, start);
}

/// Appends a record of something that was done to an object.
pub(super) fn put_object(bytes: &mut Vec<u8>, part: u32, object: &ObjectChange) {
    let start = bytes.len();
    bytes.extend_from_slice(&[0; 4]);
    put_number(bytes, u64::from(part));
    put_number(bytes, 0);
    bytes.push(match object {
        ObjectChange::Definition(_) => DEFINITION,
        ObjectChange::Sequence(_) => SEQUENCE,
    });
    put_number(bytes, 0);
    put_number(bytes, 0);
    match object {
        ObjectChange::Definition(definition) => {
            put_number(bytes, definition.untold.len() as u64);
            bytes.extend_from_slice(definition.untold.as_bytes());
            bytes.extend_from_slice(&statement::body(definition, ""));
        }
        ObjectChange::Sequence(state) => bytes.extend_from_slice(&sequence::body(state, Order::Little)),
    }
    close(bytes, start);
}

/// Gives the record that starts at `start` its length.
fn close(bytes: &mut [u8], start: usize) {
    // A row is below 4 GiB by its own rule, and the source refuses far smaller ones.
    let length = u32::try_from(bytes.len() - start - 4).expect("two images of a row are below 4 GiB");
    bytes[start..start + 4].copy_from_slice(&length.to_le_bytes());
}

fn put_row(bytes: &mut Vec<u8>, row: &Row) {
    put_number(bytes, row.len() as u64);
    for value in row.values() {
        match value {
            Value::Null => put_number(bytes, NULL),
            Value::Unchanged => put_number(bytes, UNCHANGED),
            Value::Bytes(value) => {
                put_number(bytes, value.len() as u64 + VALUE);
                bytes.extend_from_slice(value);
            }
        }
    }
}

fn put_number(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// A record as it was put.
#[derive(Debug, PartialEq)]
pub(super) enum Stored {
    Change { table: u32, operation: Operation, address: RecordAddress },
    Object(Box<ObjectChange>),
}

/// Reads records of a block one after another. Rows are slices of the block.
pub(super) struct Records {
    block: Bytes,
    at: usize,
}

/// What is wrong with bytes that are not records.
const CUT: &str = "a change is cut";
const KIND: &str = "a change is of an unknown kind";

impl Records {
    /// The records of `block` from byte `at` on.
    pub(super) fn new(block: Bytes, at: usize) -> Records {
        Records { block, at }
    }

    /// The place in the block, for messages.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// The next record of a part that `keeps` accepts, or `None` at the end of the block.
    ///
    /// # Errors
    /// What is wrong with the bytes.
    pub(super) fn next(&mut self, keeps: impl Fn(u32) -> bool) -> Result<Option<Stored>, &'static str> {
        loop {
            let rest = self.block.get(self.at..).unwrap_or_default();
            if rest.is_empty() {
                return Ok(None);
            }
            let length = rest.first_chunk().map(|bytes| u32::from_le_bytes(*bytes) as usize).ok_or(CUT)?;
            let start = self.at + 4;
            let end = start.checked_add(length).filter(|end| *end <= self.block.len()).ok_or(CUT)?;
            let mut fields = Fields { bytes: &self.block, at: start, end };
            let part = u32::try_from(fields.number()?).map_err(|_| CUT)?;
            if keeps(part) {
                let stored = fields.stored(&self.block)?;
                self.at = end;
                return Ok(Some(stored));
            }
            self.at = end;
        }
    }
}

struct Fields<'a> {
    bytes: &'a [u8],
    at: usize,
    end: usize,
}

impl Fields<'_> {
    fn byte(&mut self) -> Result<u8, &'static str> {
        if self.at >= self.end {
            return Err(CUT);
        }
        let byte = *self.bytes.get(self.at).ok_or(CUT)?;
        self.at += 1;
        Ok(byte)
    }

    fn number(&mut self) -> Result<u64, &'static str> {
        let mut number = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err("a number is too long")
    }

    fn range(&mut self, length: u64) -> Result<Range<usize>, &'static str> {
        let length = usize::try_from(length).map_err(|_| CUT)?;
        let end = self.at.checked_add(length).filter(|end| *end <= self.end).ok_or(CUT)?;
        let range = self.at..end;
        self.at = end;
        Ok(range)
    }

    fn row(&mut self, block: &Bytes) -> Result<Row, &'static str> {
        let columns = self.number()?;
        // Each column takes a byte at least, so a wrong count costs no memory.
        if columns > (self.end - self.at) as u64 {
            return Err(CUT);
        }
        let mut cells = Vec::with_capacity(columns as usize);
        for _ in 0..columns {
            cells.push(match self.number()? {
                NULL => Err(Value::Null),
                UNCHANGED => Err(Value::Unchanged),
                length => Ok(self.range(length - VALUE)?),
            });
        }
        Ok(RowBuilder::over(block, cells))
    }

    fn stored(&mut self, block: &Bytes) -> Result<Stored, &'static str> {
        let table = u32::try_from(self.number()?).map_err(|_| CUT)?;
        let kind = self.byte()?;
        let position = self.number()?;
        let offset = u32::try_from(self.number()?).map_err(|_| CUT)?;
        let operation = match kind {
            INSERT => Operation::Insert { new: self.row(block)? },
            UPDATE => Operation::Update { old: None, new: self.row(block)? },
            UPDATE_WITH_OLD => {
                let old = self.row(block)?;
                Operation::Update { old: Some(old), new: self.row(block)? }
            }
            DELETE => Operation::Delete { old: self.row(block)? },
            TRUNCATE => {
                let flags = self.byte()?;
                Operation::Truncate(TruncateOptions { cascade: flags & 1 != 0, restart_identity: flags & 2 != 0 })
            }
            DEFINITION | SEQUENCE => return self.object(kind).map(|object| Stored::Object(Box::new(object))),
            _ => return Err(KIND),
        };
        if self.at != self.end {
            return Err("a change is longer than its kind");
        }
        Ok(Stored::Change { table, operation, address: RecordAddress { position, offset } })
    }

    fn object(&mut self, kind: u8) -> Result<ObjectChange, &'static str> {
        const DAMAGED: &str = "what was done to an object can't be read";
        let mut untold = String::new();
        if kind == DEFINITION {
            let length = self.number()?;
            let reason = self.range(length)?;
            let reason = self.bytes.get(reason).ok_or(CUT)?;
            untold = String::from_utf8(reason.to_vec()).map_err(|_| DAMAGED)?;
        }
        let body = self.bytes.get(self.at..self.end).ok_or(CUT)?;
        self.at = self.end;
        match kind {
            DEFINITION => {
                let mut definition = statement::read_body(body).map_err(|_| DAMAGED)?;
                definition.untold = untold;
                Ok(ObjectChange::Definition(definition))
            }
            _ => sequence::read_body(body, Order::Little).map(ObjectChange::Sequence).map_err(|_| DAMAGED),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use change::{DefinitionStatement, SequenceState, TableName};
    use proptest::prelude::*;

    fn row() -> impl Strategy<Value = Row> {
        let value = prop_oneof![
            Just(None),
            Just(Some(None)),
            proptest::collection::vec(any::<u8>(), 0..200).prop_map(|bytes| Some(Some(bytes)))
        ];
        proptest::collection::vec(value, 0..6).prop_map(|values| {
            Row::from_values(values.iter().map(|value| match value {
                None => Value::Null,
                Some(None) => Value::Unchanged,
                Some(Some(bytes)) => Value::Bytes(bytes),
            }))
        })
    }

    fn operation() -> impl Strategy<Value = Operation> {
        prop_oneof![
            row().prop_map(|new| Operation::Insert { new }),
            (proptest::option::of(row()), row()).prop_map(|(old, new)| Operation::Update { old, new }),
            row().prop_map(|old| Operation::Delete { old }),
            any::<(bool, bool)>().prop_map(|(cascade, restart_identity)| {
                Operation::Truncate(TruncateOptions { cascade, restart_identity })
            }),
        ]
    }

    proptest! {
        #[test]
        fn changes_come_back_as_they_were_put(
            changes in proptest::collection::vec((0..5_u32, any::<u32>(), operation(), any::<u64>(), any::<u32>()), 0..20),
            dropped in 0..5_u32,
        ) {
            let mut bytes = Vec::new();
            for (part, table, operation, position, offset) in &changes {
                put(&mut bytes, *part, *table, operation, RecordAddress { position: *position, offset: *offset });
            }
            let mut records = Records::new(Bytes::from(bytes), 0);
            for (_, table, operation, position, offset) in changes.into_iter().filter(|change| change.0 != dropped) {
                let stored = records.next(|part| part != dropped).unwrap().unwrap();
                let address = RecordAddress { position, offset };
                prop_assert_eq!(stored, Stored::Change { table, operation, address });
            }
            prop_assert_eq!(records.next(|part| part != dropped), Ok(None));
        }

        #[test]
        fn what_was_done_to_objects_comes_back_too(text in ".{0,60}", untold in ".{0,20}", value in any::<i128>(), part in 0..9_u32) {
            let name = TableName::new("s", text.clone());
            let definition = DefinitionStatement { text, untold, ..DefinitionStatement::default() };
            let objects = [
                ObjectChange::Definition(definition),
                ObjectChange::Sequence(SequenceState { name, value, increment: -3, is_called: value > 0 }),
            ];
            let mut bytes = Vec::new();
            objects.iter().for_each(|object| put_object(&mut bytes, part, object));
            let mut records = Records::new(Bytes::from(bytes), 0);
            for object in objects {
                prop_assert_eq!(records.next(|found| found == part), Ok(Some(Stored::Object(Box::new(object)))));
            }
        }

        #[test]
        fn no_bytes_make_the_reader_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), length in 0..200_u32) {
            let framed = [&length.to_le_bytes()[..], &bytes].concat();
            for bytes in [bytes, framed] {
                let mut records = Records::new(Bytes::from(bytes), 0);
                while let Ok(Some(_)) = records.next(|_| true) {}
            }
        }
    }
}
