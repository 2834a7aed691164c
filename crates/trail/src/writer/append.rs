//! Appending the records of a change: definitions before their first use, parts where a record is too long.

use super::definitions::{NAME_BYTES_MAX, header_name};
use super::file::{DATABASE_INDEX, key_error, put_covered};
use super::plan::{Plan, PlannedRecord};
use super::{ChangeDetails, FLUSH_BYTES, Writer};
use crate::Error;
use crate::cipher::KeyError;
use crate::cover::COVER_BYTES_MAX;
use crate::format::bytes::{Order, julian_micros};
use crate::format::header::Span;
use crate::format::partition::PartitionName;
use crate::format::record::{
    self, Envelope, Object, RECORD_BYTES_MAX, RecordHeader, metadata_kind, operation, partition, transaction,
};
use crate::format::{fragment, metadata, user_token};
use crate::scan::extend_span;
use change::{Change, TableDefinition, TableName};
use std::sync::Arc;

/// What a change's records are about.
struct Target {
    definition: u16,
    partition: Option<u16>,
    /// The table's name, in files without definitions.
    name: Option<Arc<[u8]>>,
}

impl Target {
    #[inline]
    fn object(&self) -> Object<'_> {
        match &self.name {
            None => Object::Index { definition: self.definition, partition: self.partition },
            Some(name) => Object::Name(name),
        }
    }
}

/// Where appending stood, to go back there.
struct Mark {
    flushed: u64,
    buffer: Vec<u8>,
    held: Option<usize>,
    held_user: usize,
    span: Option<Span>,
    records: u64,
}

/// Hands out the data of a long record, piece by piece.
type Pieces<'a> = &'a dyn Fn(&mut dyn FnMut(&[u8]) -> Result<(), Error>) -> Result<(), Error>;

impl Writer {
    pub(super) fn append_planned(
        &mut self,
        change: &Change,
        plan: &Plan<'_>,
        details: Option<&ChangeDetails>,
    ) -> Result<(), Error> {
        if self.held.unwrap_or(self.buffer.len()) >= FLUSH_BYTES {
            self.flush(self.held.unwrap_or(self.buffer.len()))?;
        }
        let mut user = Vec::new();
        if let Some(details) = details {
            self.check_details(&change.table.name, details)?;
            user_token::put(&mut user, &details.user_tokens);
        }
        let partition = details.and_then(|details| details.partition.as_ref());
        let record_bytes_max = self.record_bytes_max();
        let around = self.bytes_around(&change.table, partition.is_some(), &user);
        let fits = |record: &PlannedRecord<'_>| record.narrow.filter(|data| around + data <= record_bytes_max);
        let bytes = plan.records().map(|record| fits(record).map_or(record.wide, |data| (around + data) as u64)).sum();
        let target = self.target(change, partition, bytes)?;
        if plan.records().all(|record| fits(record).is_some()) {
            for record in plan.records() {
                let header = self.change_header(change, record, &target, details);
                self.put_whole(&header, target.object(), &user, record)?;
            }
            return Ok(());
        }
        self.all_or_nothing(|writer| {
            for record in plan.records() {
                let header = writer.change_header(change, record, &target, details);
                if fits(record).is_some() {
                    writer.put_whole(&header, target.object(), &user, record)?;
                } else {
                    let header = RecordHeader { operation: record.wide_operation(), ..header };
                    let order = writer.layout.order;
                    let pieces = |take: &mut dyn FnMut(&[u8]) -> Result<(), Error>| record.put_wide(order, take);
                    writer.put_parts(&header, target.object(), &user, record.wide, &pieces)?;
                }
            }
            Ok(())
        })
    }

    fn check_details(&self, table: &TableName, details: &ChangeDetails) -> Result<(), Error> {
        let refuse = |reason: String| Err(Error::Refused { table: table.clone(), reason });
        if let Some(reason) = user_token::refusal(&details.user_tokens) {
            return refuse(reason);
        }
        let Some(partition) = &details.partition else { return Ok(()) };
        if !self.layout.has_definitions {
            return refuse("a file without definitions can't name a partition".to_owned());
        }
        if partition.name.len() > crate::format::partition::NAME_BYTES_MAX || partition.name.contains('\0') {
            return refuse("the name of its partition is longer than 1000 bytes, or holds a zero character".to_owned());
        }
        Ok(())
    }

    /// Bytes of a record of the open transaction around its data.
    #[inline]
    fn bytes_around(&mut self, table: &Arc<TableDefinition>, has_partition: bool, user: &[u8]) -> usize {
        let tokens = self.open_transaction().tokens.len();
        let partition = has_partition.then_some(0);
        let envelope = Envelope { user, ..Envelope::new(Object::Index { definition: 0, partition }, &[]) };
        // A record with data has the prefix of it as well.
        let mut bytes = envelope.length(1) - 1 + tokens;
        if !self.layout.has_definitions {
            let index = self.file.definitions.find(table);
            let name = index.map_or_else(|| header_name(table).len(), |index| self.file.definitions.name(index).len());
            bytes += name + 1 - 2;
        }
        bytes
    }

    /// Whether the file should not take `bytes` more. One that holds no change takes anything, and so does a single file.
    pub(super) fn is_over(&self, bytes: u64) -> bool {
        self.file.span.is_some()
            && !self.options.trail.is_single()
            && self.position().rba + bytes > self.options.file_bytes_max
    }

    fn target(&mut self, change: &Change, partition: Option<&Arc<PartitionName>>, bytes: u64) -> Result<Target, Error> {
        let mut definition = match self.file.definitions.find(&change.table) {
            Some(index) if !self.is_over(bytes) => index,
            _ => self.define(&change.table, bytes)?,
        };
        let partition = match partition {
            None => None,
            Some(partition) => match self.file.definitions.find_partition(definition, partition) {
                Some(index) => Some(index),
                None => {
                    if self.file.definitions.is_full() {
                        self.roll()?;
                        definition = self.define(&change.table, bytes)?;
                    }
                    Some(self.put_partition(change, definition, partition)?)
                }
            },
        };
        let name = (!self.layout.has_definitions).then(|| self.file.definitions.name(definition));
        Ok(Target { definition, partition, name })
    }

    /// Makes sure that the file, or a new one if `bytes` more would be too much for it, holds the table's definition.
    fn define(&mut self, table: &Arc<TableDefinition>, bytes: u64) -> Result<u16, Error> {
        let refuse = |reason: &str| Err(Error::Refused { table: table.name.clone(), reason: reason.to_owned() });
        if let Some(reason) = metadata::refusal(table) {
            return refuse(reason);
        }
        let has_definitions = self.layout.has_definitions;
        if !has_definitions && table.name.to_string().len() > NAME_BYTES_MAX {
            return refuse("its name is longer than 1000 bytes, and the file has no definitions");
        }
        let body = if has_definitions { metadata::table_body(table, self.layout.order) } else { Vec::new() };
        if self.is_over(bytes + body.len() as u64) || self.file.definitions.is_full() {
            self.roll()?;
        }
        if let Some(index) = self.file.definitions.find(table) {
            return Ok(index);
        }
        if has_definitions {
            // The change that follows is part of the same transaction, so the one that is held back is not its last.
            self.seal_held(false);
            match self.file.definitions.find_reference(table) {
                Some(known) => self.put_reference(table, known)?,
                None => self.put_definition(table, &body)?,
            }
        }
        self.file.definitions.add(table);
        // The bytes in front may go out, but the held record stays where `held` says.
        Ok(self.file.definitions.next_index() - 1)
    }

    fn put_definition(&mut self, table: &TableDefinition, body: &[u8]) -> Result<(), Error> {
        let order = self.layout.order;
        let time = julian_micros((self.options.clock)());
        let mut header = RecordHeader::new(operation::METADATA, metadata_kind::TABLE, time);
        header = header.with_indexes(order, DATABASE_INDEX, self.file.definitions.next_index());
        let name = header_name(table);
        let object = Object::Name(name.as_bytes());
        let envelope = Envelope::new(object, &[]);
        if envelope.length(body.len()) <= self.record_bytes_max() {
            header.data_length = body.len() as u16;
            return self.put_outside(&header, object, |buffer| buffer.extend_from_slice(body));
        }
        let parts = body.chunks(part_bytes_max(self.record_bytes_max(), &envelope));
        let count = parts.len();
        for (number, part) in parts.enumerate() {
            let fragment = fragment::Fragment {
                operation: operation::METADATA,
                number: number as u32,
                total: body.len() as u64,
                part,
            };
            let header = part_header(&header, fragment.number, part.len(), number + 1 < count);
            self.put_outside(&header, object, |buffer| fragment.put(buffer, order))?;
        }
        Ok(())
    }

    /// Appends a record with data that belongs to no transaction.
    pub(super) fn put_outside(
        &mut self,
        header: &RecordHeader,
        object: Object<'_>,
        write_data: impl FnOnce(&mut Vec<u8>),
    ) -> Result<(), Error> {
        let coverer = self.file.coverer.as_mut();
        let put = put_covered(&mut self.buffer, self.layout.order, header, object, coverer, write_data);
        put.map_err(|source| self.uncovered(source))
    }

    /// The error for a record whose cover failed. Nothing is written any more: it might go out in clear.
    #[cold]
    pub(super) fn uncovered(&mut self, source: KeyError) -> Error {
        self.poisoned = true;
        key_error(&self.file.name, source)
    }

    /// Longest record that can be appended, before anything is laid over it.
    #[inline]
    pub(super) fn record_bytes_max(&self) -> usize {
        RECORD_BYTES_MAX - if self.file.coverer.is_some() { COVER_BYTES_MAX } else { 0 }
    }

    /// Appends the definition of a table whose columns are those of the definition `known`.
    fn put_reference(&mut self, table: &TableDefinition, known: u16) -> Result<(), Error> {
        let order = self.layout.order;
        let time = julian_micros((self.options.clock)());
        let header = RecordHeader::new(operation::METADATA, metadata_kind::TABLE_REFERENCE, time);
        let header = header.with_indexes(order, DATABASE_INDEX, known);
        self.put_outside(&header, Object::Name(header_name(table).as_bytes()), |_| {})
    }

    /// Appends the name of a partition and returns its number.
    fn put_partition(&mut self, change: &Change, definition: u16, name: &Arc<PartitionName>) -> Result<u16, Error> {
        self.seal_held(false);
        let order = self.layout.order;
        let index = self.file.definitions.add_partition(definition, name);
        let time = julian_micros((self.options.clock)());
        let header = RecordHeader {
            partition: partition::PARTITION_INDEXED,
            audit_position: change.address.position,
            ..RecordHeader::new(operation::METADATA, metadata_kind::PARTITION, time)
        };
        let header = header.with_indexes(order, definition, index);
        let mut object = Vec::new();
        name.put(&mut object, order);
        self.put_outside(&header, Object::Partition(&object), |_| {})?;
        Ok(index)
    }

    #[inline]
    fn change_header(
        &self,
        change: &Change,
        record: &PlannedRecord<'_>,
        target: &Target,
        details: Option<&ChangeDetails>,
    ) -> RecordHeader {
        let time = self.transaction.as_ref().map_or(0, |transaction| transaction.time);
        let flag = |is_on: bool, flag: u8| if is_on { flag } else { 0 };
        RecordHeader {
            partition: partition::COLUMNS
                | flag(target.name.is_none(), partition::INDEXED)
                | flag(target.partition.is_some(), partition::PARTITION_INDEXED),
            before_after: record.before_after,
            audit_position: change.address.position,
            audit_offset: change.address.offset,
            transaction: transaction::FIRST,
            format: if details.is_some_and(|details| details.is_fetched) { b'F' } else { b'R' },
            ..RecordHeader::new(record.operation(), 255, time)
        }
    }

    /// Appends a record that fits one frame. The two orders are apart, so that none is asked for with each number.
    #[inline]
    fn put_whole(
        &mut self,
        header: &RecordHeader,
        object: Object<'_>,
        user: &[u8],
        record: &PlannedRecord<'_>,
    ) -> Result<(), Error> {
        let data = record.narrow.unwrap_or(0);
        match self.layout.order {
            Order::Little => self.put_held(Order::Little, header, object, user, data, |buffer| {
                record.put_narrow(buffer, Order::Little);
            }),
            Order::Big => self.put_held(Order::Big, header, object, user, data, |buffer| {
                record.put_narrow(buffer, Order::Big);
            }),
        }
    }

    /// Appends a record of the open transaction and holds it back.
    #[inline(always)]
    pub(super) fn put_held(
        &mut self,
        order: Order,
        header: &RecordHeader,
        object: Object<'_>,
        user: &[u8],
        data: usize,
        write_data: impl FnOnce(&mut Vec<u8>),
    ) -> Result<(), Error> {
        self.seal_held(false);
        let Some(transaction) = &mut self.transaction else { return Ok(()) };
        let header = RecordHeader { data_length: data as u16, ..*header };
        let start = self.buffer.len();
        let envelope = Envelope { user, ..Envelope::new(object, &transaction.tokens) };
        record::put(&mut self.buffer, order, &header, &envelope, write_data);
        let user_length = match &mut self.file.coverer {
            None => envelope.user_length(),
            Some(coverer) => match coverer.cover(&mut self.buffer, start, order) {
                Ok(length) => length,
                Err(source) => return Err(self.uncovered(source)),
            },
        };
        transaction.records += 1;
        if transaction.records == 1 || self.file.span.is_none() {
            extend_span(&mut self.file.span, &transaction.commit);
        }
        self.held = Some(start);
        self.held_user = user_length;
        Ok(())
    }

    /// Runs `append`; after an error that may pass, nothing of what it appended is left.
    pub(super) fn all_or_nothing(
        &mut self,
        append: impl FnOnce(&mut Writer) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.flush(self.held.unwrap_or(self.buffer.len()))?;
        let mark = Mark {
            flushed: self.file.flushed,
            buffer: self.buffer.clone(),
            held: self.held,
            held_user: self.held_user,
            span: self.file.span.clone(),
            records: self.open_transaction().records,
        };
        let result = append(self);
        if result.is_err() && !self.poisoned {
            let Mark { flushed, buffer, held, held_user, span, records } = mark;
            if let Err(source) = self.file.file.set_len(flushed) {
                return Err(self.failed("cut", &self.file.name.clone(), source));
            }
            (self.file.flushed, self.buffer, self.held, self.file.span) = (flushed, buffer, held, span);
            self.held_user = held_user;
            self.open_transaction().records = records;
        }
        result
    }

    /// Appends a record of `total` bytes of data that is too long for one frame as several. The user's tokens travel with the
    /// first one.
    pub(super) fn put_parts(
        &mut self,
        header: &RecordHeader,
        object: Object<'_>,
        user: &[u8],
        total: u64,
        pieces: Pieces<'_>,
    ) -> Result<(), Error> {
        let order = self.layout.order;
        let tokens = self.open_transaction().tokens.len();
        let part_max =
            part_bytes_max(self.record_bytes_max(), &Envelope { user, ..Envelope::new(object, &[]) }) - tokens;
        let mut part: Vec<u8> = Vec::with_capacity(part_max);
        let mut number = 0;
        let mut written: u64 = 0;
        pieces(&mut |mut piece| {
            while !piece.is_empty() {
                let (taken, rest) = piece.split_at(piece.len().min(part_max - part.len()));
                part.extend_from_slice(taken);
                piece = rest;
                written += taken.len() as u64;
                if part.len() == part_max || written == total {
                    let fragment = fragment::Fragment { operation: header.operation, number, total, part: &part };
                    let header = part_header(header, number, part.len(), written < total);
                    let user = if number == 0 { user } else { &[] };
                    self.put_held(order, &header, object, user, usize::from(header.data_length), |buffer| {
                        fragment.put(buffer, order);
                    })?;
                    number += 1;
                    part.clear();
                    if self.held.unwrap_or(0) >= FLUSH_BYTES {
                        self.flush(self.held.unwrap_or(0))?;
                    }
                }
            }
            Ok(())
        })
    }

    /// Gives the held record its place in the transaction and its checksum. It stays held, so that this can be repeated.
    #[inline]
    pub(super) fn seal_held(&mut self, is_last: bool) {
        let (Some(start), Some(transaction)) = (self.held, &self.transaction) else { return };
        let place = match (transaction.records == 1, is_last) {
            (true, false) => transaction::FIRST,
            (false, false) => transaction::MIDDLE,
            (false, true) => transaction::LAST,
            (true, true) => transaction::ONLY,
        };
        // Definitions may stand behind the held record.
        let end = start + self.record_length(start);
        let (record, order) = (&mut self.buffer[start..end], self.layout.order);
        if let Some(coverer) = &self.file.coverer
            && coverer.place(record, order, place, self.held_user).is_err()
        {
            // Without its tag no reader takes the record: nothing of it must go out.
            self.poisoned = true;
        }
        record::seal(record, order, place, self.held_user);
    }

    /// Length of the record that starts at `start` in the buffer.
    #[inline]
    pub(super) fn record_length(&self, start: usize) -> usize {
        let [_, _, first, second] = self.buffer[start..].first_chunk().copied().unwrap_or_default();
        usize::from(self.layout.order.u16([first, second]))
    }
}

/// Most bytes of a part, so that its record has at most `record_bytes_max`.
fn part_bytes_max(record_bytes_max: usize, envelope: &Envelope<'_>) -> usize {
    record_bytes_max - envelope.length(fragment::PREFIX_BYTES)
}

/// The header of part `number` of a record whose header would be `whole`.
fn part_header(whole: &RecordHeader, number: u32, part: usize, is_continued: bool) -> RecordHeader {
    RecordHeader {
        operation: operation::FRAGMENT,
        data_length: (fragment::PREFIX_BYTES + part) as u16,
        continued: u8::from(is_continued),
        // The field has one byte; the number in the body counts on.
        count: (number % 255 + 1) as u8,
        ..*whole
    }
}
