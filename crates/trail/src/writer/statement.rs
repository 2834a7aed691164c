//! Appending what is not about rows: statements, sequences, remarks.

use super::{FLUSH_BYTES, Writer};
use crate::format::bytes::{clip, julian_micros};
use crate::format::record::{Envelope, Object, RecordHeader, operation};
use crate::format::{sequence, statement, token};
use crate::{Error, Position};
use change::{DefinitionStatement, SequenceState, TableName};

/// Longest remark.
const COMMENT_BYTES_MAX: usize = 60_000;

impl Writer {
    /// Appends a statement that defines objects to the open transaction.
    ///
    /// # Errors
    /// As [`append`](Writer::append).
    ///
    /// # Panics
    /// If no transaction is open.
    pub fn append_statement(&mut self, statement: &DefinitionStatement) -> Result<(), Error> {
        self.check()?;
        let transaction = self.open_transaction();
        let name = TableName::new(&*statement.owner, &*statement.object);
        if let Some(reason) = statement::refusal(statement) {
            return Err(Error::Refused { table: name, reason: reason.to_owned() });
        }
        let body = statement::body(statement, transaction.commit.transaction.as_str());
        let order = self.layout.order;
        let header = RecordHeader::new(operation::DDL, 0, self.open_transaction().time);
        // The token of what it is about belongs to this record only.
        let tokens = &mut self.open_transaction().tokens;
        let shared = tokens.len();
        token::put(tokens, order, token::DDL, 0, |buffer| buffer.extend_from_slice(&statement::token(statement)));
        let result = self.append_body(&header, &body);
        let transaction = self.open_transaction();
        transaction.tokens.truncate(shared);
        transaction.is_broken = result.is_err();
        result
    }

    /// Appends where a sequence stands to the open transaction.
    ///
    /// # Errors
    /// As [`append`](Writer::append).
    ///
    /// # Panics
    /// If no transaction is open.
    pub fn append_sequence(&mut self, sequence: &SequenceState) -> Result<(), Error> {
        self.check()?;
        if let Some(reason) = sequence::refusal(sequence) {
            return Err(Error::Refused { table: sequence.name.clone(), reason: reason.to_owned() });
        }
        let body = sequence::body(sequence, self.layout.order);
        let header = RecordHeader::new(operation::SEQUENCE, 255, self.open_transaction().time);
        let result = self.append_body(&header, &body);
        self.open_transaction().is_broken = result.is_err();
        result
    }

    /// Appends a remark, outside of any transaction; what is over 60 000 bytes is cut off. Returns the position after it.
    ///
    /// # Errors
    /// [`Error::Poisoned`].
    ///
    /// # Panics
    /// If a transaction is open.
    pub fn comment(&mut self, text: &str) -> Result<Position, Error> {
        self.check()?;
        assert!(self.transaction.is_none(), "a remark belongs to no transaction");
        let text = clip(text, COMMENT_BYTES_MAX);
        let mut header = RecordHeader::new(operation::COMMENT, 0, julian_micros((self.options.clock)()));
        header.data_length = text.len() as u16;
        self.put_outside(&header, Object::Name(b""), |buffer| buffer.extend_from_slice(text.as_bytes()))?;
        Ok(self.position())
    }

    /// Appends a record without name to the open transaction, in parts if its body is too long for one.
    fn append_body(&mut self, header: &RecordHeader, body: &[u8]) -> Result<(), Error> {
        if self.held.unwrap_or(self.buffer.len()) >= FLUSH_BYTES {
            self.flush(self.held.unwrap_or(self.buffer.len()))?;
        }
        if self.is_over(body.len() as u64) {
            self.roll()?;
        }
        let object = Object::Name(b"");
        let length = Envelope::new(object, &[]).length(body.len()) + self.open_transaction().tokens.len();
        if length <= self.record_bytes_max() {
            let order = self.layout.order;
            return self.put_held(order, header, object, &[], body.len(), |buffer| buffer.extend_from_slice(body));
        }
        self.all_or_nothing(|writer| writer.put_parts(header, object, &[], body.len() as u64, &|take| take(body)))
    }
}
