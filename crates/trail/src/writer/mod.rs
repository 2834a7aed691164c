//! Appending transactions to a trail.

use crate::format::bytes::{Order, julian_micros};
use crate::format::header::{self, Completion};
use crate::format::record::{self, Object, RECORD_BYTES_MAX, RecordHeader, operation, transaction};
use crate::format::{fragment, metadata, token};
use crate::recovery;
use crate::safe::{self, SafePosition};
use crate::scan::extend_span;
use crate::storage::{Lock, Storage};
use crate::{Error, Position, TrailName};
use change::{Change, Commit, Operation, TableDefinition, Timestamp, TruncateOptions};
use std::io;
use std::sync::Arc;

mod definitions;
mod file;
mod plan;
mod sync;

use file::{DATABASE_INDEX, OpenFile, is_full, marker, put_marker, put_sealed, write_error};
use plan::Plan;
pub use sync::Synced;
use sync::Syncer;

/// The byte order of what we write, on every machine.
pub(crate) const ORDER: Order = Order::Little;

/// Appended bytes are handed to the operating system in pieces of about this size, so that a system call costs nothing per
/// record and memory stays bounded.
const FLUSH_BYTES: usize = 256 * 1024;

/// Longest transaction identifier. Far above what any source uses; keeps records that hold only a few columns whole.
const TRANSACTION_ID_BYTES_MAX: usize = 1024;

/// The process that writes a trail, for the header of each file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Producer {
    /// Group name, such as `E1`.
    pub group: String,
    /// Host name.
    pub host: String,
    /// Version of the program.
    pub version: String,
}

/// The database that the changes come from, for the header of each file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceIdentity {
    /// Product name, such as `SQLite`.
    pub product: String,
    /// Product version.
    pub version: String,
    /// Name of the database.
    pub name: String,
}

/// What a [`Writer`] needs to know.
#[derive(Clone)]
pub struct WriterOptions {
    /// The trail.
    pub trail: TrailName,
    /// The trail's name as the operator wrote it, such as `./dirdat/aa`.
    pub display_name: String,
    /// A file that would grow over this many bytes is followed by a new one. A single row may exceed it.
    pub file_bytes_max: u64,
    /// Who writes.
    pub producer: Producer,
    /// What is replicated.
    pub source: SourceIdentity,
    /// The time now, for file headers and records that belong to no transaction.
    pub clock: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    /// The write checkpoint: the trail must hold at least this much.
    pub expected: Option<Position>,
}

/// The one process that appends to a trail.
///
/// Appended records stay in memory until enough have come together or [`sync`](Writer::sync) is called. The last record of
/// an open transaction is always held back, because its header tells whether more follow.
///
/// # Guarantees
/// - What [`sync`](Writer::sync) has returned survives a crash, and readers see nothing else.
/// - After a crash at any point the next [`open`](Writer::open) leaves a trail of whole records, in which a transaction
///   without its end is followed by a restart marker.
/// - Memory does not grow with the size of a transaction.
///
/// # Errors
/// After [`Error::Full`] the file ends with its last whole record, and the same call may be repeated. After any other error
/// of the operating system every call returns [`Error::Poisoned`].
pub struct Writer {
    storage: Arc<dyn Storage>,
    options: WriterOptions,
    syncer: Syncer,
    file: OpenFile,
    /// What comes after the bytes that the operating system has.
    buffer: Vec<u8>,
    /// Start in `buffer` of the record that is held back.
    held: Option<usize>,
    transaction: Option<Transaction>,
    synced: Position,
    /// A sync whose end was waited for before the caller asked.
    unheard: Option<Synced>,
    last_commit: Option<Commit>,
    poisoned: bool,
    _lock: Box<dyn Lock>,
}

struct Transaction {
    commit: Commit,
    /// The tokens that all its records share.
    tokens: Vec<u8>,
    time: u64,
    /// Records so far, held one included.
    records: u64,
    /// The last append failed and has not been repeated.
    is_broken: bool,
}

impl Writer {
    /// Opens a trail, or starts a new one.
    ///
    /// Takes the trail's lock, cuts a torn tail, completes the last file, and starts a new file; its first record after
    /// the definitions of the file itself is a restart marker, unless the trail had no file.
    ///
    /// # Errors
    /// [`Error::Locked`]; [`Error::Mismatch`] when the trail holds less than [`WriterOptions::expected`] or less than was
    /// published; [`Error::Damaged`] when a record before those is bad; [`Error::Foreign`]; [`Error::Full`]; [`Error::Io`].
    pub fn open(storage: Arc<dyn Storage>, options: WriterOptions) -> Result<Writer, Error> {
        let trail = options.trail;
        let disk = &*storage;
        let io = |action, name: &str, source| Error::io(action, disk, name, source);
        let lock = disk.lock(&trail.lock_file()).map_err(|source| io("lock", &trail.lock_file(), source))?;
        let Some(lock) = lock else {
            return Err(Error::Locked { trail: trail.to_string(), place: disk.place() });
        };
        let published = safe::published(disk, trail).map_err(|source| io("read", &trail.safe_file(), source))?;
        let recovered = recovery::recover(disk, trail, published.max(options.expected))?;
        let mut safe = SafePosition::open(disk, trail).map_err(|source| io("open", &trail.safe_file(), source))?;
        let marker = marker(&recovered, &options);
        let file = OpenFile::create(disk, &options, recovered.next_sequence(), &marker)?;
        let synced = Position::new(file.sequence, file.flushed);
        // Synced this once, so that the file's name and length are settled and later publishing is one small write.
        safe.publish(synced)
            .and_then(|()| safe.sync())
            .and_then(|()| disk.sync_directory())
            .map_err(|source| write_error(disk, &trail.safe_file(), 0, source))?;
        Ok(Writer {
            syncer: Syncer::new(&storage, trail, safe),
            options,
            file,
            buffer: Vec::with_capacity(FLUSH_BYTES + RECORD_BYTES_MAX),
            held: None,
            transaction: None,
            synced,
            unheard: None,
            last_commit: recovered.last_commit,
            poisoned: false,
            _lock: lock,
            storage,
        })
    }

    /// Identity of the last complete transaction that the trail holds.
    ///
    /// A source that is read from an earlier place repeats transactions; those up to this one must not be appended again.
    pub fn last_commit(&self) -> Option<&Commit> {
        self.last_commit.as_ref()
    }

    /// Starts a transaction.
    ///
    /// # Errors
    /// [`Error::RefusedCommit`] when its identity is too long; [`Error::Poisoned`].
    ///
    /// # Panics
    /// If a transaction is open.
    pub fn begin(&mut self, commit: &Commit) -> Result<(), Error> {
        self.check()?;
        assert!(self.transaction.is_none(), "transactions in a trail come one after another");
        let (csn, transaction_id) = (commit.csn.as_str(), commit.transaction.as_str());
        for (what, text, max) in [
            ("commit sequence number", csn, header::CSN_BYTES_MAX),
            ("identifier", transaction_id, TRANSACTION_ID_BYTES_MAX),
        ] {
            if text.len() > max {
                return Err(Error::RefusedCommit { reason: format!("its {what} is longer than {max} bytes") });
            }
        }
        let mut tokens = Vec::with_capacity(64);
        token::put(&mut tokens, ORDER, token::LOG_CSN, 0, |buffer| buffer.extend_from_slice(csn.as_bytes()));
        token::put(&mut tokens, ORDER, token::TRANSACTION_ID, 0, |buffer| {
            buffer.extend_from_slice(transaction_id.as_bytes());
        });
        let time = julian_micros(commit.time);
        self.transaction = Some(Transaction { commit: commit.clone(), tokens, time, records: 0, is_broken: false });
        Ok(())
    }

    /// Appends a change to the open transaction.
    ///
    /// # Errors
    /// [`Error::Refused`] for a row that the trail can't hold; [`Error::Full`], after which the call may be repeated;
    /// [`Error::Io`]; [`Error::Poisoned`].
    ///
    /// # Panics
    /// If no transaction is open.
    pub fn append(&mut self, change: &Change) -> Result<(), Error> {
        self.check()?;
        let tokens = &mut self.open_transaction().tokens;
        let shared = tokens.len();
        if let Operation::Truncate(options) = &change.operation {
            put_truncation(tokens, *options);
        }
        let result = Plan::new(change).and_then(|plan| self.append_planned(change, &plan));
        let transaction = self.open_transaction();
        transaction.tokens.truncate(shared);
        transaction.is_broken = result.is_err();
        result
    }

    /// Ends the open transaction and returns the position after it. A transaction without a change writes nothing.
    ///
    /// # Errors
    /// [`Error::Poisoned`].
    ///
    /// # Panics
    /// If no transaction is open, or if its last append failed and was not repeated.
    pub fn commit(&mut self) -> Result<Position, Error> {
        self.check()?;
        let transaction = self.open_transaction();
        assert!(!transaction.is_broken, "a transaction is complete only with all its changes");
        if transaction.records > 0 {
            self.seal_held(true);
            self.held = None;
            self.last_commit = self.transaction.take().map(|transaction| transaction.commit);
        }
        self.transaction = None;
        Ok(self.position())
    }

    /// Gives the open transaction up: readers drop what they have seen of it.
    ///
    /// # Errors
    /// [`Error::Poisoned`].
    ///
    /// # Panics
    /// If no transaction is open.
    pub fn abandon(&mut self) -> Result<(), Error> {
        self.check()?;
        let records = self.open_transaction().records;
        let held = self.held.take();
        if let Some(start) = held {
            // Definitions behind it stay: the file counts them as known.
            let end = start + self.record_length(start);
            self.buffer.drain(start..end);
        }
        if records > u64::from(held.is_some()) {
            put_marker(&mut self.buffer, operation::RESTART_ABEND, (self.options.clock)());
        }
        self.transaction = None;
        Ok(())
    }

    /// Makes everything up to the last whole record durable, then lets readers go there. Returns that position.
    ///
    /// Of an open transaction the last change so far is still held back.
    ///
    /// # Errors
    /// [`Error::Full`], after which the call may be repeated; [`Error::Io`] and [`Error::Poisoned`], after which nobody
    /// knows what is durable.
    pub fn sync(&mut self) -> Result<Position, Error> {
        self.check()?;
        self.take_finished(true)?;
        self.unheard = None;
        self.flush(self.held.unwrap_or(self.buffer.len()))?;
        let position = Position::new(self.file.sequence, self.file.flushed);
        if position == self.synced {
            return Ok(position);
        }
        if !change::sabotage::is_on("publish-before-sync") {
            self.sync_file()?;
        }
        if let Err(source) = self.syncer.publish(position) {
            return Err(self.failed("write", &self.options.trail.safe_file(), source));
        }
        self.synced = position;
        Ok(position)
    }

    /// Starts what [`sync`](Writer::sync) does, beside whatever is appended next, and returns the position that will be
    /// durable. Waits for the one that was started before.
    ///
    /// Readers go on as soon as it is done; the caller hears of it from [`finished_sync`](Writer::finished_sync).
    ///
    /// # Errors
    /// As [`sync`](Writer::sync).
    pub fn start_sync(&mut self) -> Result<Position, Error> {
        self.check()?;
        self.take_finished(true)?;
        self.unheard = None;
        self.flush(self.held.unwrap_or(self.buffer.len()))?;
        let position = Position::new(self.file.sequence, self.file.flushed);
        if position != self.synced
            && let Err(source) = self.syncer.start(&*self.file.file, &self.file.name, position)
        {
            self.poisoned = true;
            return Err(Error::io("sync", &*self.storage, &self.file.name, source));
        }
        Ok(position)
    }

    /// Whether a sync was started whose end was not heard of.
    pub fn is_syncing(&self) -> bool {
        self.syncer.is_busy() || self.unheard.is_some()
    }

    /// The sync that was started, once it is done.
    ///
    /// # Errors
    /// As [`sync`](Writer::sync).
    pub fn finished_sync(&mut self) -> Result<Option<Synced>, Error> {
        self.check()?;
        match self.unheard.take() {
            Some(synced) => Ok(Some(synced)),
            None => self.take_finished(false),
        }
    }

    fn take_finished(&mut self, wait: bool) -> Result<Option<Synced>, Error> {
        let finished = self.syncer.finished(wait);
        match &finished {
            Ok(Some(synced)) => self.synced = synced.position,
            Ok(None) | Err(Error::Full { .. }) => {}
            Err(_) => self.poisoned = true,
        }
        finished
    }

    /// End of what was appended, held record included.
    pub fn position(&self) -> Position {
        Position::new(self.file.sequence, self.file.flushed + self.buffer.len() as u64)
    }

    /// Ends the trail cleanly: gives an open transaction up, syncs, completes the file's header, and lets go of the lock.
    ///
    /// # Errors
    /// As [`sync`](Writer::sync).
    pub fn close(mut self) -> Result<Position, Error> {
        self.check()?;
        if self.transaction.is_some() {
            self.abandon()?;
        }
        let position = self.sync()?;
        self.complete_file()?;
        // There may be no next start for long, and readers should find the end even after a power failure.
        if let Err(source) = self.syncer.sync_published() {
            return Err(self.failed("sync", &self.options.trail.safe_file(), source));
        }
        Ok(position)
    }

    fn check(&self) -> Result<(), Error> {
        if self.poisoned { Err(Error::Poisoned { trail: self.options.trail.to_string() }) } else { Ok(()) }
    }

    fn open_transaction(&mut self) -> &mut Transaction {
        self.transaction.as_mut().expect("changes belong to a transaction, which begin starts")
    }

    fn append_planned(&mut self, change: &Change, plan: &Plan<'_>) -> Result<(), Error> {
        if self.held.unwrap_or(self.buffer.len()) >= FLUSH_BYTES {
            self.flush(self.held.unwrap_or(self.buffer.len()))?;
        }
        let tokens = self.open_transaction().tokens.len();
        let whole =
            plan.narrow.map(|data| record::length(&Object::Index { definition: 0, partition: None }, data, tokens));
        let whole = whole.filter(|length| *length <= RECORD_BYTES_MAX);
        let bytes = whole.map_or(plan.wide, |length| length as u64);
        let index = match self.file.definitions.find(&change.table) {
            Some(index) if !self.is_over(bytes) => index,
            _ => self.define(&change.table, bytes)?,
        };
        let header = self.change_header(change, plan);
        let object = Object::Index { definition: index, partition: None };
        if whole.is_some() {
            self.put_change(&header, &object, plan.narrow.unwrap_or(0), |buffer| plan.put_narrow(buffer));
            Ok(())
        } else {
            self.put_parts(&header, &object, plan)
        }
    }

    /// Whether the file should not take `bytes` more. One that holds no change takes anything.
    fn is_over(&self, bytes: u64) -> bool {
        self.file.span.is_some() && self.position().rba + bytes > self.options.file_bytes_max
    }

    /// Makes sure that the file, or a new one if `bytes` more would be too much for it, holds the table's definition.
    fn define(&mut self, table: &Arc<TableDefinition>, bytes: u64) -> Result<u16, Error> {
        if let Some(reason) = metadata::refusal(table) {
            return Err(Error::Refused { table: table.name.clone(), reason: reason.to_owned() });
        }
        let body = metadata::table_body(table, ORDER);
        if self.is_over(bytes + body.len() as u64) || self.file.definitions.is_full() {
            self.roll()?;
        }
        if let Some(index) = self.file.definitions.find(table) {
            return Ok(index);
        }
        // The change that follows is part of the same transaction, so the one that is held back is not its last.
        self.seal_held(false);
        let index = self.file.definitions.next_index();
        self.put_definition(table, index, &body);
        self.file.definitions.add(table);
        // The bytes in front may go out, but the held record stays where `held` says.
        Ok(index)
    }

    fn put_definition(&mut self, table: &TableDefinition, index: u16, body: &[u8]) {
        let time = julian_micros((self.options.clock)());
        let mut header = RecordHeader::new(operation::METADATA, record::metadata_kind::TABLE, time);
        header = header.with_indexes(ORDER, DATABASE_INDEX, index);
        let name = table.name.to_string();
        let object = Object::Name(crate::format::bytes::clip(&name, NAME_BYTES_MAX).as_bytes());
        if record::length(&object, body.len(), 0) <= RECORD_BYTES_MAX {
            header.data_length = body.len() as u16;
            put_sealed(&mut self.buffer, &header, &object, |buffer| buffer.extend_from_slice(body));
            return;
        }
        let parts = body.chunks(part_bytes_max(&object, 0));
        let count = parts.len();
        for (number, part) in parts.enumerate() {
            let fragment = fragment::Fragment {
                operation: operation::METADATA,
                number: number as u32,
                total: body.len() as u64,
                part,
            };
            let header = part_header(&header, fragment.number, part.len(), number + 1 < count);
            put_sealed(&mut self.buffer, &header, &object, |buffer| fragment.put(buffer, ORDER));
        }
    }

    fn change_header(&self, change: &Change, plan: &Plan<'_>) -> RecordHeader {
        let time = self.transaction.as_ref().map_or(0, |transaction| transaction.time);
        RecordHeader {
            partition: record::partition::COLUMNS | record::partition::INDEXED,
            before_after: plan.before_after,
            audit_position: change.address.position,
            audit_offset: change.address.offset,
            transaction: transaction::FIRST,
            ..RecordHeader::new(plan.operation, 255, time)
        }
    }

    /// Appends a record of the open transaction and holds it back.
    fn put_change(
        &mut self,
        header: &RecordHeader,
        object: &Object<'_>,
        data: usize,
        write_data: impl FnOnce(&mut Vec<u8>),
    ) {
        self.seal_held(false);
        let Some(transaction) = &mut self.transaction else { return };
        let header = RecordHeader { data_length: data as u16, ..*header };
        let start = self.buffer.len();
        record::put(&mut self.buffer, ORDER, &header, object, &transaction.tokens, write_data);
        transaction.records += 1;
        if transaction.records == 1 || self.file.span.is_none() {
            extend_span(&mut self.file.span, &transaction.commit);
        }
        self.held = Some(start);
    }

    /// Appends a change that is too long for one record as several. Either all of them are appended or none.
    fn put_parts(&mut self, header: &RecordHeader, object: &Object<'_>, plan: &Plan<'_>) -> Result<(), Error> {
        self.flush(self.held.unwrap_or(self.buffer.len()))?;
        let before = (self.file.flushed, self.buffer.clone(), self.held, self.file.span.clone());
        let records = self.open_transaction().records;
        let result = self.put_each_part(header, object, plan);
        if result.is_err() && !self.poisoned {
            let (flushed, buffer, held, span) = before;
            if let Err(source) = self.file.file.set_len(flushed) {
                return Err(self.failed("cut", &self.file.name.clone(), source));
            }
            (self.file.flushed, self.buffer, self.held, self.file.span) = (flushed, buffer, held, span);
            self.open_transaction().records = records;
        }
        result
    }

    fn put_each_part(&mut self, header: &RecordHeader, object: &Object<'_>, plan: &Plan<'_>) -> Result<(), Error> {
        let part_max = part_bytes_max(object, self.open_transaction().tokens.len());
        let mut part: Vec<u8> = Vec::with_capacity(part_max);
        let mut number = 0;
        let mut written: u64 = 0;
        plan.put_wide(|mut piece| {
            while !piece.is_empty() {
                let (taken, rest) = piece.split_at(piece.len().min(part_max - part.len()));
                part.extend_from_slice(taken);
                piece = rest;
                written += taken.len() as u64;
                if part.len() == part_max || written == plan.wide {
                    let fragment =
                        fragment::Fragment { operation: plan.operation, number, total: plan.wide, part: &part };
                    let header = part_header(header, number, part.len(), written < plan.wide);
                    self.put_change(&header, object, usize::from(header.data_length), |buffer| {
                        fragment.put(buffer, ORDER);
                    });
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
    fn seal_held(&mut self, is_last: bool) {
        let (Some(start), Some(transaction)) = (self.held, &self.transaction) else { return };
        let place = match (transaction.records == 1, is_last) {
            (true, false) => transaction::FIRST,
            (false, false) => transaction::MIDDLE,
            (false, true) => transaction::LAST,
            (true, true) => transaction::ONLY,
        };
        // Definitions may stand behind the held record.
        let end = start + self.record_length(start);
        record::seal(&mut self.buffer[start..end], ORDER, place);
    }

    /// Length of the record that starts at `start` in the buffer.
    #[inline]
    fn record_length(&self, start: usize) -> usize {
        let [_, _, first, second] = self.buffer[start..].first_chunk().copied().unwrap_or_default();
        usize::from(ORDER.u16([first, second]))
    }

    /// Hands the first `length` bytes of the buffer to the operating system.
    fn flush(&mut self, length: usize) -> Result<(), Error> {
        if length == 0 {
            return Ok(());
        }
        if let Err(source) = self.file.file.write_at(&self.buffer[..length], self.file.flushed) {
            if is_full(&source)
                && let Err(source) = self.file.file.set_len(self.file.flushed)
            {
                return Err(self.failed("cut", &self.file.name.clone(), source));
            }
            return Err(self.failed("write", &self.file.name.clone(), source));
        }
        self.file.flushed += length as u64;
        self.buffer.drain(..length);
        self.held = self.held.and_then(|start| start.checked_sub(length));
        Ok(())
    }

    fn sync_file(&mut self) -> Result<(), Error> {
        if let Err(source) = self.file.file.sync() {
            // Even a full disk: after a failed sync the system may have dropped what was written.
            self.poisoned = true;
            return Err(Error::io("sync", &*self.storage, &self.file.name, source));
        }
        Ok(())
    }

    /// Goes on in a new file. May be repeated after [`Error::Full`].
    fn roll(&mut self) -> Result<(), Error> {
        // A file must not be left behind of which we do not know that it is durable: repair looks at the last one only.
        self.unheard = self.take_finished(true)?.or(self.unheard);
        self.seal_held(false);
        self.flush(self.buffer.len())?;
        self.complete_file()?;
        let sequence = self.file.sequence + 1;
        match OpenFile::create(&*self.storage, &self.options, sequence, &[]) {
            Ok(file) => self.file = file,
            Err(error) => {
                self.poisoned = !matches!(error, Error::Full { .. });
                return Err(error);
            }
        }
        Ok(())
    }

    /// Writes into the file's header what is known now that nothing is appended any more.
    fn complete_file(&mut self) -> Result<(), Error> {
        let completion = Completion { file_size: self.file.flushed, span: self.file.span.clone() };
        let mut header = self.file.header.clone();
        header::complete(&mut header, ORDER, &completion).map_err(|source| Error::Damaged {
            file: self.file.name.clone(),
            rba: 0,
            source,
        })?;
        if let Err(source) = self.file.file.write_at(&header, 0) {
            return Err(self.failed("complete", &self.file.name.clone(), source));
        }
        self.sync_file()
    }

    /// The error for a write that failed; poisons the writer unless the disk is just full.
    fn failed(&mut self, action: &'static str, name: &str, source: io::Error) -> Error {
        if is_full(&source) && action != "cut" {
            return write_error(&*self.storage, name, self.file.flushed, source);
        }
        self.poisoned = true;
        Error::io(action, &*self.storage, name, source)
    }
}

/// Longest table name in a record header; the definition's body has the whole name.
const NAME_BYTES_MAX: usize = 1000;

/// Appends what a truncation was told, if anything.
fn put_truncation(tokens: &mut Vec<u8>, options: TruncateOptions) {
    let mut flags = 0;
    if options.cascade {
        flags |= token::truncation::CASCADE;
    }
    if options.restart_identity {
        flags |= token::truncation::RESTART_IDENTITY;
    }
    if flags != 0 {
        token::put(tokens, ORDER, token::TRUNCATION, 0, |buffer| buffer.push(flags));
    }
}

/// Most bytes of a part, so that its record has at most [`RECORD_BYTES_MAX`].
fn part_bytes_max(object: &Object<'_>, tokens: usize) -> usize {
    RECORD_BYTES_MAX - record::length(object, fragment::PREFIX_BYTES, tokens)
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
