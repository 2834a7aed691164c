//! Writing a trail that is a copy.

use super::reader::commit_of;
use crate::format::bytes::Order;
use crate::format::header::{self, Completion, FileHeader};
use crate::format::layout::RecoveryMode;
use crate::format::record::{self, RecordView, operation};
use crate::reader::known_in;
use crate::recovery::{self, LastFile};
use crate::safe::{self, SafePosition};
use crate::scan::{Forward, Trouble, extend_span};
use crate::storage::{File, Lock, Storage};
use crate::writer::{Syncer, file_uri, put_marker, write_error};
use crate::{Damage, Error, Position, Producer, Synced, TrailName, scan};
use change::{Commit, Timestamp};
use std::io;
use std::sync::Arc;

/// Appended bytes are handed to the operating system in pieces of about this size.
const FLUSH_BYTES: usize = 256 * 1024;

/// Most bytes of the definitions of one file: a sender that was taken over must not fill the memory.
const DEFINITIONS_BYTES_MAX: usize = 256 * 1024 * 1024;

/// What a [`CopyWriter`] needs to know.
#[derive(Clone)]
pub struct CopyOptions {
    /// The trail.
    pub trail: TrailName,
    /// The trail's name as the operator wrote it, such as `./dirdat/bb`.
    pub display_name: String,
    /// A file that would grow over this many bytes is followed by a new one.
    pub file_bytes_max: u64,
    /// Who writes.
    pub producer: Producer,
    /// The time now, for file headers and markers.
    pub clock: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    /// The write checkpoint: the trail must hold at least this much.
    pub expected: Option<Position>,
}

/// The one process that appends records of another trail to a trail.
///
/// # Guarantees
/// As [`Writer`](crate::Writer): what [`sync`](CopyWriter::sync) has returned survives a crash, readers see nothing else, and
/// after a crash the next [`open`](CopyWriter::open) leaves whole records, with a marker behind a transaction without its end.
///
/// # Errors
/// After any error every call returns [`Error::Poisoned`]: open the trail anew.
pub struct CopyWriter {
    storage: Arc<dyn Storage>,
    options: CopyOptions,
    syncer: Syncer,
    /// Where the trail ends, as long as no file is written; `None` when it has no file.
    end: Option<Position>,
    /// The marker that the next file starts with.
    owed_marker: Option<u8>,
    /// The file of the input that records are of.
    input: Option<Input>,
    file: Option<OpenFile>,
    /// A single file that is there already and was not appended to yet.
    single: Option<LastFile>,
    buffer: Vec<u8>,
    /// Whether the last record leaves a transaction open.
    is_open: bool,
    /// The next record must stand in the same file as the last one.
    is_bound: bool,
    last_commit: Option<Commit>,
    synced: Position,
    unheard: Option<Synced>,
    is_poisoned: bool,
    _lock: Box<dyn Lock>,
}

/// A file of the input.
struct Input {
    header: Vec<u8>,
    order: Order,
    /// All of its definitions that were seen.
    definitions: Vec<u8>,
    /// How many bytes of them the sender has told of: what it repeats is known already.
    told: usize,
}

struct OpenFile {
    name: String,
    sequence: u32,
    file: Box<dyn File>,
    flushed: u64,
    header: Vec<u8>,
    order: Order,
    is_encrypted: bool,
    span: Option<header::Span>,
}

impl CopyWriter {
    /// Opens a trail, or starts a new one: takes its lock and repairs its tail. A new file is made with the first record.
    ///
    /// # Errors
    /// As [`Writer::open`](crate::Writer::open).
    pub fn open(storage: Arc<dyn Storage>, mut options: CopyOptions) -> Result<CopyWriter, Error> {
        let names = storage.list();
        let names = names.map_err(|source| Error::io("list", &*storage, &options.trail.to_string(), source))?;
        options.trail = options.trail.found_among(&names);
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
        let synced = recovered.end.unwrap_or_default();
        safe.publish(synced)
            .and_then(|()| safe.sync())
            .and_then(|()| disk.sync_directory())
            .map_err(|source| write_error(disk, &trail.safe_file(), 0, source))?;
        Ok(CopyWriter {
            syncer: Syncer::new(&storage, trail, safe),
            options,
            input: None,
            file: None,
            single: recovered.last.filter(|_| trail.is_single()),
            buffer: Vec::with_capacity(2 * FLUSH_BYTES),
            end: recovered.end,
            owed_marker: recovered.end.map(|_| match recovered.is_open {
                true => operation::RESTART_ABEND,
                false => operation::RESTART_OK,
            }),
            is_open: false,
            is_bound: false,
            last_commit: recovered.last_commit,
            synced,
            unheard: None,
            is_poisoned: false,
            _lock: lock,
            storage,
        })
    }

    /// Identity of the last complete transaction that the trail holds.
    pub fn last_commit(&self) -> Option<&Commit> {
        self.last_commit.as_ref()
    }

    /// Whether the last file still lies where it was written, with all that was handed to the disk. Somebody may have removed
    /// it while nobody wrote.
    pub fn is_in_place(&self) -> bool {
        let (name, length) = match (&self.file, self.end) {
            (Some(file), _) => (file.name.clone(), file.flushed),
            (None, Some(end)) => (self.options.trail.file(end.sequence), end.rba),
            (None, None) => return true,
        };
        self.storage.open_read(&name).and_then(|file| file.len()).is_ok_and(|found| found >= length)
    }

    /// Whether a transaction has begun and not ended.
    pub fn is_open(&self) -> bool {
        self.is_open
    }

    /// Says that the records that follow are of the file of the input with this header record, and that `definitions` stand
    /// in it before them. An open transaction goes on, unless [`abandon`](CopyWriter::abandon) was called.
    ///
    /// # Errors
    /// [`Error::Damaged`] when header or definitions are not what they must be.
    pub fn begin_file(&mut self, header: &[u8], definitions: &[u8]) -> Result<(), Error> {
        self.check()?;
        let result = self.try_begin_file(header, definitions);
        self.guard(result)
    }

    fn try_begin_file(&mut self, header: &[u8], definitions: &[u8]) -> Result<(), Error> {
        if definitions.len() > DEFINITIONS_BYTES_MAX {
            return Err(self.unfit(Damage::Content("a file of the input holds more definitions than any can")));
        }
        let order = record::detect_order(header).map_err(|damage| self.unfit(damage))?;
        FileHeader::read(header, order).map_err(|damage| self.unfit(damage))?;
        let mut rest = definitions;
        while !rest.is_empty() {
            let record = record::frame(rest, order).map_err(|damage| self.unfit(damage))?;
            let view = RecordView::read(record, order).and_then(|view| view.verify().map(|()| view));
            let view = view.map_err(|damage| self.unfit(damage))?;
            if !is_definition(&view) {
                return Err(self.unfit(Damage::Content("a definition is none")));
            }
            rest = &rest[record.len()..];
        }
        if let Some(input) = &mut self.input
            && is_same_file(&input.header, header, order)
            && input.definitions.starts_with(definitions)
        {
            // The same file again, after the connection was lost.
            input.told = definitions.len();
            return Ok(());
        }
        if self.options.trail.is_single() {
            self.check_single(header, order)?;
        }
        self.finish_file()?;
        let told = definitions.len();
        self.input = Some(Input { header: header.to_vec(), order, definitions: definitions.to_vec(), told });
        Ok(())
    }

    /// Refuses what a single file can't hold: it can't be followed by another one.
    fn check_single(&self, header: &[u8], order: Order) -> Result<(), Error> {
        let of_another_file = match (&self.file, &self.single) {
            (Some(_), _) => true,
            (None, Some(last)) => last.order != order || last.header.key.is_some(),
            (None, None) => false,
        };
        let is_encrypted = FileHeader::read(header, order).is_ok_and(|header| header.key.is_some());
        let reason = match (of_another_file, is_encrypted) {
            (true, _) => "the records of another file of the input can't go into a single file",
            (false, true) => "an encrypted file is never appended to again, so it can't be a single file",
            (false, false) => return Ok(()),
        };
        Err(Error::Format { trail: self.options.trail.to_string(), reason: reason.to_owned() })
    }

    /// Appends whole records of the input's file.
    ///
    /// # Errors
    /// [`Error::Damaged`] when they are not whole records; [`Error::Full`]; [`Error::Io`]; [`Error::Poisoned`].
    pub fn append(&mut self, records: &[u8]) -> Result<(), Error> {
        self.check()?;
        let result = self.try_append(records);
        self.guard(result)
    }

    fn try_append(&mut self, records: &[u8]) -> Result<(), Error> {
        let Some(order) = self.input.as_ref().map(|input| input.order) else {
            return Err(self.unfit(Damage::Content("records come before the header of their file")));
        };
        // Neighbouring records are copied at once.
        let mut run = 0..0;
        let mut at = 0;
        while at < records.len() {
            let record = record::frame(&records[at..], order).map_err(|damage| self.unfit(damage))?;
            let end = at + record.len();
            let view = RecordView::read(record, order).and_then(|view| view.verify().map(|()| view));
            let view = view.map_err(|damage| self.unfit(damage))?;
            if is_definition(&view) && self.is_known(record)? {
                self.buffer.extend_from_slice(&records[run]);
                run = end..end;
                at = end;
                continue;
            }
            if self.file.is_none() || self.must_roll(run.len() + record.len()) {
                self.buffer.extend_from_slice(&records[run]);
                run = at..at;
                self.roll()?;
            }
            self.note(&view, record, order)?;
            run.end = end;
            at = end;
            if self.buffer.len() + run.len() >= FLUSH_BYTES {
                self.buffer.extend_from_slice(&records[run]);
                run = at..at;
                self.flush()?;
            }
        }
        self.buffer.extend_from_slice(&records[run]);
        Ok(())
    }

    /// Gives an open transaction up: a marker behind it tells readers to drop it.
    ///
    /// # Errors
    /// [`Error::Poisoned`].
    pub fn abandon(&mut self) -> Result<(), Error> {
        self.check()?;
        if !self.is_open {
            return Ok(());
        }
        let is_encrypted = self.file.as_ref().is_some_and(|file| file.is_encrypted);
        match &self.file {
            Some(file) if !is_encrypted => {
                put_plain_marker(&mut self.buffer, file.order, operation::RESTART_ABEND, (self.options.clock)())
            }
            // A record of an encrypted file must be authenticated, and nobody here has its key.
            _ => {
                let result = self.finish_file();
                self.guard(result)?;
                self.owed_marker = Some(operation::RESTART_ABEND);
            }
        }
        (self.is_open, self.is_bound) = (false, false);
        Ok(())
    }

    /// End of what was appended.
    pub fn position(&self) -> Position {
        match &self.file {
            Some(file) => Position::new(file.sequence, file.flushed + self.buffer.len() as u64),
            None => self.end.unwrap_or_default(),
        }
    }

    /// What is durable and published.
    pub fn synced(&self) -> Position {
        self.synced
    }

    /// Makes everything durable, then lets readers go there. Returns that position.
    ///
    /// # Errors
    /// [`Error::Full`]; [`Error::Io`]; [`Error::Poisoned`].
    pub fn sync(&mut self) -> Result<Position, Error> {
        let position = self.start_sync()?;
        let result = self.take_finished(true);
        self.unheard = None;
        self.guard(result)?;
        Ok(position)
    }

    /// Starts what [`sync`](CopyWriter::sync) does, beside whatever is appended next, and returns the position that will be
    /// durable. Waits for the one that was started before.
    ///
    /// # Errors
    /// As [`sync`](CopyWriter::sync).
    pub fn start_sync(&mut self) -> Result<Position, Error> {
        self.check()?;
        let result = self.try_start_sync();
        self.guard(result)
    }

    fn try_start_sync(&mut self) -> Result<Position, Error> {
        self.take_finished(true)?;
        self.unheard = None;
        self.flush()?;
        let position = self.position();
        match &self.file {
            _ if position == self.synced => {}
            Some(file) => {
                let started = self.syncer.start(&*file.file, &file.name, position);
                started.map_err(|source| Error::io("sync", &*self.storage, &file.name, source))?;
            }
            // A file that was completed is synced.
            None => {
                let (disk, name) = (&*self.storage, self.options.trail.safe_file());
                self.syncer.publish(position).map_err(|source| write_error(disk, &name, 0, source))?;
                self.synced = position;
            }
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
    /// As [`sync`](CopyWriter::sync).
    pub fn finished_sync(&mut self) -> Result<Option<Synced>, Error> {
        self.check()?;
        if let Some(synced) = self.unheard.take() {
            return Ok(Some(synced));
        }
        let result = self.take_finished(false);
        self.guard(result)
    }

    /// Ends the trail cleanly: gives an open transaction up, syncs, completes the file's header, and lets go of the lock.
    ///
    /// # Errors
    /// As [`sync`](CopyWriter::sync).
    pub fn close(mut self) -> Result<Position, Error> {
        self.abandon()?;
        let position = self.sync()?;
        self.finish_file()?;
        let name = self.options.trail.safe_file();
        self.syncer.sync_published().map_err(|source| Error::io("sync", &*self.storage, &name, source))?;
        Ok(position)
    }

    fn take_finished(&mut self, wait: bool) -> Result<Option<Synced>, Error> {
        let finished = self.syncer.finished(wait)?;
        if let Some(synced) = &finished {
            self.synced = synced.position;
        }
        Ok(finished)
    }

    /// Takes note of what a record means for the state of the trail.
    fn note(&mut self, view: &RecordView<'_>, bytes: &[u8], order: Order) -> Result<(), Error> {
        self.is_bound = false;
        if view.csn.is_none() {
            if matches!(view.header.operation, operation::RESTART_ABEND | operation::RESTART_OK) {
                self.is_open = false;
            } else if is_definition(view) {
                self.is_bound = view.header.continued != 0;
                let input = self.input.as_mut().expect("records come behind the header of their file");
                input.definitions.extend_from_slice(bytes);
                input.told = input.definitions.len();
                if input.definitions.len() > DEFINITIONS_BYTES_MAX {
                    return Err(self.unfit(Damage::Content("a file of the input holds more definitions than any can")));
                }
            }
            return Ok(());
        }
        let (starts, ends) = scan::place(view.header.transaction).map_err(|damage| self.unfit(damage))?;
        if starts == self.is_open {
            let reason = match starts {
                true => "a transaction starts inside another one",
                false => "a change belongs to a transaction that did not start",
            };
            return Err(self.unfit(Damage::Content(reason)));
        }
        // What belongs together: parts of a record, and the images of an update.
        let is_first_of_pair = view.header.before_after == b'B' && view.header.operation != operation::DELETE;
        self.is_bound = view.header.continued != 0 || is_first_of_pair;
        self.is_open = !ends;
        let needs_start = self.file.as_ref().is_some_and(|file| file.span.is_none());
        if ends || needs_start || starts {
            let commit = commit_of(bytes, order).map_err(|damage| self.unfit(damage))?;
            if let Some(file) = &mut self.file {
                extend_span(&mut file.span, &commit);
            }
            if ends {
                self.last_commit = Some(commit);
            }
        }
        Ok(())
    }

    /// Whether the trail's file holds the definition already, because it was sent again.
    fn is_known(&mut self, bytes: &[u8]) -> Result<bool, Error> {
        let input = self.input.as_mut().expect("records come behind the header of their file");
        if input.told == input.definitions.len() {
            return Ok(false);
        }
        if !input.definitions[input.told..].starts_with(bytes) {
            return Err(self.unfit(Damage::Content("a definition that was sent again has changed")));
        }
        input.told += bytes.len();
        Ok(true)
    }

    fn must_roll(&self, more: usize) -> bool {
        let Some(file) = &self.file else { return true };
        let length = file.flushed + (self.buffer.len() + more) as u64;
        let is_full = length > self.options.file_bytes_max && !self.options.trail.is_single();
        is_full && file.span.is_some() && !self.is_bound
    }

    /// Goes on in a new file that starts with the definitions known so far.
    fn roll(&mut self) -> Result<(), Error> {
        self.finish_file()?;
        let Some(input) = &self.input else { return Ok(()) };
        let order = input.order;
        let source = FileHeader::read(&input.header, order).map_err(|damage| self.unfit(damage))?;
        let mut definitions = input.definitions.clone();
        let mut first = Vec::new();
        if let Some(marker) = self.owed_marker {
            put_plain_marker(&mut first, order, marker, (self.options.clock)());
            if source.key.is_some() {
                // A record of an encrypted file must be authenticated, and nobody here has its key: the marker has a file of its
                // own.
                let plain = FileHeader { key: None, form: Some(header::FORM), ..source.clone() };
                self.create(plain, order, &first)?;
                self.finish_file()?;
                first.clear();
            }
        }
        if let (Some(_), Some(end)) = (&self.single, self.end) {
            definitions = self.missing_in_single(end)?;
        }
        first.extend_from_slice(&definitions);
        match (self.single.take(), self.end) {
            (Some(last), Some(end)) => self.reopen(last, end, &first)?,
            _ => self.create(source, order, &first)?,
        }
        self.owed_marker = None;
        Ok(())
    }

    /// The definitions that a single file, which ends at `end`, lacks. Those that it holds and the sender has not told of will
    /// come again, and are known then.
    fn missing_in_single(&mut self, end: Position) -> Result<Vec<u8>, Error> {
        let name = self.options.trail.file(end.sequence);
        let at = |trouble: Trouble| trouble.at(&*self.storage, &name, 0);
        let held = definitions_in(&*self.storage, &name, end).map_err(at)?;
        let Some(input) = &mut self.input else { return Ok(Vec::new()) };
        if let Some(missing) = input.definitions.strip_prefix(&held[..]) {
            return Ok(missing.to_vec());
        }
        if !held.starts_with(&input.definitions) {
            return Err(self.unfit(Damage::Content("the file defines other tables than its input")));
        }
        input.definitions = held;
        Ok(Vec::new())
    }

    /// Goes on in a single file, which ends at `end`, with the records `first`.
    fn reopen(&mut self, last: LastFile, end: Position, first: &[u8]) -> Result<(), Error> {
        let name = self.options.trail.file(end.sequence);
        let mut header = known_in(&*self.storage, self.options.trail, end)?.header;
        let mut make = || {
            let file = self.storage.open(&name)?;
            // What the header says of a whole file must be gone before the file grows.
            header::reopen(&mut header, last.order).map_err(io::Error::other)?;
            file.write_at(&header, 0)?;
            file.sync()?;
            file.write_at(first, end.rba)?;
            file.sync()?;
            Ok(file)
        };
        let file = make().map_err(|source| write_error(&*self.storage, &name, end.rba, source))?;
        let flushed = end.rba + first.len() as u64;
        let (order, span, sequence) = (last.order, last.span, end.sequence);
        self.file = Some(OpenFile { name, sequence, file, flushed, header, order, is_encrypted: false, span });
        Ok(())
    }

    /// Makes the next file, which looks as `source` does and starts with the records `first`.
    fn create(&mut self, source: FileHeader, order: Order, first: &[u8]) -> Result<(), Error> {
        let trail = self.options.trail;
        let sequence = self.end.map_or(0, |end| end.sequence.saturating_add(1));
        let name = trail.file(sequence);
        if sequence > trail.sequence_max() {
            let source = io::Error::other(format!("the numbers of its files end at {}", trail.sequence_max()));
            return Err(Error::io("create", &*self.storage, &name, source));
        }
        let is_encrypted = source.key.is_some();
        let header = FileHeader {
            created: (self.options.clock)(),
            uri: file_uri(&*self.storage, &self.options.producer),
            uri_history: source.lineage(),
            file_name: trail.numbered(&self.options.display_name, sequence),
            multi_part: !trail.is_single(),
            sequence,
            producer: self.options.producer.clone(),
            recovery: RecoveryMode::Append,
            completion: None,
            ..source
        };
        let header = header.record(order);
        let mut bytes = header.clone();
        bytes.extend_from_slice(first);
        let unnamed = format!("{name}.new");
        let make = || -> io::Result<Box<dyn File>> {
            match self.storage.remove(&unnamed) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            let file = self.storage.create(&unnamed)?;
            file.write_at(&bytes, 0)?;
            file.sync()?;
            self.storage.rename(&unnamed, &name)?;
            self.storage.sync_directory()?;
            Ok(file)
        };
        let file = make().map_err(|source| write_error(&*self.storage, &name, 0, source))?;
        let flushed = bytes.len() as u64;
        self.file = Some(OpenFile { name, sequence, file, flushed, header, order, is_encrypted, span: None });
        Ok(())
    }

    /// Completes the file that is written, so that the next one may be made.
    fn finish_file(&mut self) -> Result<(), Error> {
        if self.file.is_none() {
            return Ok(());
        }
        self.unheard = self.take_finished(true)?.or(self.unheard);
        self.flush()?;
        let Some(file) = &mut self.file else { return Ok(()) };
        let completion = Completion { file_size: file.flushed, span: file.span.clone() };
        header::complete(&mut file.header, file.order, &completion).map_err(|source| Error::Damaged {
            file: file.name.clone(),
            rba: 0,
            source,
        })?;
        let written = file.file.write_at(&file.header, 0);
        written.map_err(|source| write_error(&*self.storage, &file.name, 0, source))?;
        file.file.sync().map_err(|source| Error::io("sync", &*self.storage, &file.name, source))?;
        self.end = Some(Position::new(file.sequence, file.flushed));
        self.file = None;
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Error> {
        let Some(file) = &mut self.file else { return Ok(()) };
        if self.buffer.is_empty() {
            return Ok(());
        }
        let written = file.file.write_at(&self.buffer, file.flushed);
        written.map_err(|source| write_error(&*self.storage, &file.name, file.flushed, source))?;
        file.flushed += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    fn check(&self) -> Result<(), Error> {
        match self.is_poisoned {
            true => Err(Error::Poisoned { trail: self.options.trail.to_string() }),
            false => Ok(()),
        }
    }

    fn guard<T>(&mut self, result: Result<T, Error>) -> Result<T, Error> {
        self.is_poisoned |= result.is_err();
        result
    }

    /// The error for records that can't be appended.
    fn unfit(&self, source: Damage) -> Error {
        let position = self.position();
        Error::Damaged { file: self.options.trail.file(position.sequence), rba: position.rba, source }
    }
}

/// Appends a marker to a file that is not encrypted.
fn put_plain_marker(buffer: &mut Vec<u8>, order: Order, marker: u8, time: Timestamp) {
    let put = put_marker(buffer, order, marker, time, None);
    debug_assert!(put.is_ok(), "only a cover can fail");
}

/// All definitions in a file up to `end`.
fn definitions_in(storage: &dyn Storage, name: &str, end: Position) -> Result<Vec<u8>, Trouble> {
    let mut records = Forward::open(storage.open_read(name)?, end.rba)?;
    let _: (FileHeader, _) = records.header(end.sequence, end.rba)?;
    let mut definitions = Vec::new();
    while records.rba() < end.rba {
        let Some(range) = records.next(end.rba)? else { break };
        let record = &records.block()[range];
        if is_definition(&RecordView::read(record, records.order())?) {
            definitions.extend_from_slice(record);
        }
    }
    Ok(definitions)
}

fn is_definition(view: &RecordView<'_>) -> bool {
    view.csn.is_none() && matches!(view.header.operation, operation::METADATA | operation::FRAGMENT)
}

/// Whether two header records are of one file, which may have been completed between them.
fn is_same_file(one: &[u8], other: &[u8], order: Order) -> bool {
    let plain = |record: &[u8]| {
        let header = FileHeader::read(record, order).ok()?;
        Some(FileHeader { completion: None, ..header })
    };
    matches!((plain(one), plain(other)), (Some(one), Some(other)) if one == other)
}
