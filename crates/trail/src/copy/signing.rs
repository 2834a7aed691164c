//! Records of tables that the rules sign: read, and written anew.

use super::reader::OpenFile;
use super::rules::{CopyRules, Signed};
use crate::Damage;
use crate::cover::Uncoverer;
use crate::format::bytes::{Cursor, Order};
use crate::format::column::{self, Width};
use crate::format::record::{self, Envelope, Object, RecordHeader, RecordView, metadata_kind, operation};
use crate::format::{metadata, token};
use crate::reader::read_operation;
use crate::scan::Trouble;
use bytes::Bytes;
use change::{Change, Operation, RecordAddress, Row, TableDefinition, TableName};
use std::collections::HashMap;
use std::sync::Arc;

/// Tables of one file by the number of their definition, as far as records of them were met.
#[derive(Default)]
pub(super) struct SignedTables {
    by_index: HashMap<u16, SignedTable>,
}

/// A table, as far as signing is concerned.
#[derive(Clone)]
enum SignedTable {
    Other,
    /// It is signed, but what its columns are can't be told here.
    Unreadable,
    Known(Arc<TableDefinition>),
}

/// What became of a record.
pub(super) enum Outcome {
    AsItIs,
    /// Another one stands for it, with so many bytes of the user's tokens; its place and checksum are not set.
    Anew(Vec<u8>, usize),
    Dropped,
}

impl SignedTables {
    /// Whether the record is of a table that the rules sign.
    pub(super) fn has(&mut self, file: &OpenFile, view: &RecordView<'_>, rules: &dyn CopyRules) -> bool {
        !matches!(self.table(file, view, rules), SignedTable::Other)
    }

    /// What becomes of a record that [`has`](SignedTables::has) knows.
    pub(super) fn sign(
        &mut self,
        file: &OpenFile,
        view: &RecordView<'_>,
        bytes: &[u8],
        rules: &dyn CopyRules,
    ) -> Result<Outcome, Trouble> {
        let SignedTable::Known(table) = self.table(file, view, rules) else { return Ok(Outcome::AsItIs) };
        // An encrypted record would need another number, and those behind it, too.
        if view.encrypted.is_some() || view.header.operation == operation::FRAGMENT || view.header.continued != 0 {
            return Ok(Outcome::AsItIs);
        }
        let order = file.order();
        let data = uncovered(view, bytes, order)?;
        let length = data.len();
        let operation = read_operation(&table, view, view.header.operation, &data, 0..length, order, Width::Narrow)?;
        let (Operation::Update { old: None, .. } | Operation::Insert { .. }) = &operation else {
            return Ok(Outcome::AsItIs);
        };
        let address = RecordAddress { position: view.header.audit_position, offset: view.header.audit_offset };
        let change = Change { table, operation, address };
        Ok(match rules.sign(&change) {
            Signed::AsItIs => Outcome::AsItIs,
            Signed::Dropped => Outcome::Dropped,
            Signed::With(row) => match anew(view, order, &row)? {
                Some((bytes, user)) => Outcome::Anew(bytes, user),
                None => Outcome::AsItIs,
            },
        })
    }

    fn table(&mut self, file: &OpenFile, view: &RecordView<'_>, rules: &dyn CopyRules) -> SignedTable {
        // Trails that name tables in each record have no definitions, and what can't be read can't be signed.
        let Object::Index { definition, .. } = view.object else { return SignedTable::Other };
        self.by_index
            .entry(definition)
            .or_insert_with(|| {
                let name = file.names(definition, None).0;
                match rules.signs(name) {
                    false => SignedTable::Other,
                    true => read_definition(file, definition).map_or(SignedTable::Unreadable, SignedTable::Known),
                }
            })
            .clone()
    }
}

/// The definition with this number; `None` where it is encrypted, in parts, or not one of ours.
fn read_definition(file: &OpenFile, index: u16) -> Option<Arc<TableDefinition>> {
    let record = file.definition(index)?;
    let order = file.order();
    let view = RecordView::read(record, order).ok()?;
    if view.encrypted.is_some() || view.header.operation != operation::METADATA {
        return None;
    }
    match view.header.origin {
        metadata_kind::TABLE_REFERENCE => {
            let (_, known) = view.header.indexes(order);
            // A reference is to a definition before it, so this ends.
            let known = (known < index).then(|| read_definition(file, known))??;
            let Object::Name(name) = view.object else { return None };
            let name = TableName::parse(std::str::from_utf8(name).ok()?).ok()?;
            Some(Arc::new(TableDefinition { name, columns: known.columns.clone() }))
        }
        metadata_kind::TABLE => {
            let data = uncovered(&view, record, order).ok()?;
            metadata::read_table_body(&data, order).ok().map(Arc::new)
        }
        _ => None,
    }
}

/// The data of a record that is not encrypted.
fn uncovered(view: &RecordView<'_>, bytes: &[u8], order: Order) -> Result<Bytes, Trouble> {
    if !view.is_covered() {
        return Ok(Bytes::copy_from_slice(view.data));
    }
    Ok(Uncoverer::default().uncover(view, bytes, order)?.data)
}

/// The record with another row after the change, and the bytes of the user's tokens in it; `None` where it fits no record.
fn anew(view: &RecordView<'_>, order: Order, row: &Row) -> Result<Option<(Vec<u8>, usize)>, Damage> {
    let mut tokens = Vec::with_capacity(view.tokens.len());
    let mut cursor = Cursor::new(view.tokens, order);
    while let Some(found) = token::next(&mut cursor)? {
        // It is written in clear; a reader takes what is compressed and what is not.
        if found.id != token::CHECKSUM && found.id != token::COMPRESSED {
            token::put(&mut tokens, order, found.id, found.info, |bytes| bytes.extend_from_slice(found.payload));
        }
    }
    let envelope = Envelope { user: view.user_tokens, ..Envelope::new(view.object, &tokens) };
    let Some(length) = column::narrow_length(row) else { return Ok(None) };
    let Ok(data_length) = u16::try_from(length) else { return Ok(None) };
    if envelope.length(length) > record::RECORD_BYTES_MAX {
        return Ok(None);
    }
    let header = RecordHeader { data_length, ..view.header };
    let mut bytes = Vec::with_capacity(envelope.length(length));
    record::put(&mut bytes, order, &header, &envelope, |buffer| column::put_narrow(buffer, order, row));
    Ok(Some((bytes, envelope.user_length())))
}
