//! Appending transactions to a trail.

use crate::format::bytes::{Order, julian_micros};
use crate::format::header::{self, Completion};
use crate::format::layout::{Format, Layout, RecoveryMode};
use crate::format::partition::PartitionName;
use crate::format::record::{RECORD_BYTES_MAX, operation};
use crate::format::token;
use crate::format::user_token::UserToken;
use crate::recovery;
use crate::safe::{self, SafePosition};
use crate::storage::{Lock, Storage};
use crate::{Cover, Error, Position, TrailName};
use change::{CaseRule, Change, Commit, Operation, Timestamp, TruncateOptions};
use std::io;
use std::sync::Arc;

mod append;
mod definitions;
mod file;
mod plan;
mod reopen;
mod statement;
mod sync;

use file::{OpenFile, is_full};
pub(crate) use file::{put_marker, uri as file_uri, write_error};
use plan::Plan;
pub use sync::Synced;
pub(crate) use sync::Syncer;

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
    /// The machine it runs on.
    pub machine: Machine,
}

/// A machine, as its operating system describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    /// Operating system, such as `Linux`.
    pub system: String,
    /// Its release.
    pub release: String,
    /// Its version.
    pub version: String,
    /// Kind of the hardware, such as `x86_64`.
    pub hardware: String,
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
    /// Name of the instance that holds it; empty where there is no such thing.
    pub instance: String,
    /// A name that no other database of the operator has (DB_UNIQUE_NAME); empty when none was given.
    pub unique_name: String,
    /// Its locale, if known.
    pub locale: String,
    /// The time zone in which it tells times with a zone, if it has such a thing.
    pub time_zone: String,
    /// Its character set, by the number that [`charset::number_of`](crate::format::charset::number_of) gives it.
    pub charset: u32,
    /// How it compares names.
    pub case_rule: CaseRule,
    /// Version of what talks to it; empty where nobody does.
    pub client_version: String,
}

/// What travels with a change besides the row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangeDetails {
    /// The partition of the table that holds the row.
    pub partition: Option<Arc<PartitionName>>,
    /// Tokens of the user.
    pub user_tokens: Vec<UserToken>,
    /// The row was fetched from the database, not read from its log (FormatType F).
    pub is_fetched: bool,
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
    /// How files look and how the trail is recovered.
    pub format: Format,
    /// The processes that the records went through before, the nearest first: for a copy of another trail, the
    /// [`lineage`](header::FileHeader::lineage) of its files.
    pub history: Vec<String>,
    /// What is laid over the data of records.
    pub cover: Cover,
}

impl WriterOptions {
    /// For a trail of one's own in `./dirdat`, with files of so many bytes: nothing is known of writer and source, the format is
    /// the current one, and nothing is laid over the records.
    pub fn new(
        trail: TrailName,
        file_bytes_max: u64,
        clock: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    ) -> WriterOptions {
        WriterOptions {
            display_name: format!("./dirdat/{trail}"),
            trail,
            file_bytes_max,
            producer: Producer::default(),
            source: SourceIdentity::default(),
            clock,
            expected: None,
            format: Format::default(),
            history: Vec::new(),
            cover: Cover::default(),
        }
    }
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
    /// Bytes of the user's tokens at the end of that record.
    held_user: usize,
    layout: Layout,
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
    /// the definitions of the file itself is a restart marker, unless the trail had no file. A last file without any change goes
    /// on instead, if it looks as a new one would; and so does a single file.
    ///
    /// In overwrite mode the trail is cut to the write checkpoint, or without one to the end of its last whole transaction, and
    /// goes on there without a marker. Readers that were further must be started again.
    ///
    /// # Errors
    /// [`Error::Locked`]; [`Error::Mismatch`] when the trail holds less than [`WriterOptions::expected`] or less than was
    /// published; [`Error::Damaged`] when a record before those is bad; [`Error::Foreign`]; [`Error::Format`];
    /// [`Error::Full`]; [`Error::Io`].
    pub fn open(storage: Arc<dyn Storage>, mut options: WriterOptions) -> Result<Writer, Error> {
        let names =
            storage.list().map_err(|source| Error::io("list", &*storage, &options.trail.to_string(), source))?;
        // A trail keeps the width of its numbers.
        options.trail = options.trail.found_among(&names);
        let trail = options.trail;
        let disk = &*storage;
        let io = |action, name: &str, source| Error::io(action, disk, name, source);
        let lock = disk.lock(&trail.lock_file()).map_err(|source| io("lock", &trail.lock_file(), source))?;
        let Some(lock) = lock else {
            return Err(Error::Locked { trail: trail.to_string(), place: disk.place() });
        };
        let published = safe::published(disk, trail).map_err(|source| io("read", &trail.safe_file(), source))?;
        let mut recovered = recovery::recover(disk, trail, published.max(options.expected))?;
        let existing = recovered.last.as_ref().map(|last| last.header.level);
        let layout =
            options.format.layout(existing).map_err(|reason| Error::Format { trail: trail.to_string(), reason })?;
        let mut safe = SafePosition::open(disk, trail).map_err(|source| io("open", &trail.safe_file(), source))?;
        let mut publish = |position: Position| {
            // Synced this once, so that the file's name and length are settled and later publishing is one small write.
            safe.publish(position)
                .and_then(|()| safe.sync())
                .and_then(|()| disk.sync_directory())
                .map_err(|source| write_error(disk, &trail.safe_file(), 0, source))
        };
        if options.format.recovery() == RecoveryMode::Overwrite {
            let end = recovery::overwrite_end(disk, trail, &recovered, options.expected)?;
            // Readers must not go where something else will stand.
            if !change::sabotage::is_on("overwrite-under-readers") {
                publish(end.unwrap_or_default())?;
            }
            recovered = recovery::cut(disk, trail, end)?;
        }
        let file = OpenFile::go_on(disk, &options, layout, &recovered)?;
        let synced = Position::new(file.sequence, file.flushed);
        publish(synced)?;
        Ok(Writer {
            syncer: Syncer::new(&storage, trail, safe),
            options,
            file,
            buffer: Vec::with_capacity(FLUSH_BYTES + RECORD_BYTES_MAX),
            held: None,
            held_user: 0,
            layout,
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
        let order = self.layout.order;
        let mut tokens = Vec::with_capacity(64);
        token::put(&mut tokens, order, token::LOG_CSN, 0, |buffer| buffer.extend_from_slice(csn.as_bytes()));
        token::put(&mut tokens, order, token::TRANSACTION_ID, 0, |buffer| {
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
        self.append_with(change, None)
    }

    /// Appends a change, and what travels with it, to the open transaction.
    ///
    /// # Errors
    /// As [`append`](Writer::append). A file without definitions takes no partition.
    ///
    /// # Panics
    /// If no transaction is open.
    pub fn append_with(&mut self, change: &Change, details: Option<&ChangeDetails>) -> Result<(), Error> {
        self.check()?;
        let order = self.layout.order;
        let tokens = &mut self.open_transaction().tokens;
        let shared = tokens.len();
        if let Operation::Truncate(options) = &change.operation {
            put_truncation(tokens, order, *options);
        }
        let result =
            Plan::new(change, self.layout.updates).and_then(|plan| self.append_planned(change, &plan, details));
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
            let (order, time) = (self.layout.order, (self.options.clock)());
            let coverer = self.file.coverer.as_mut();
            if let Err(source) = put_marker(&mut self.buffer, order, operation::RESTART_ABEND, time, coverer) {
                return Err(self.uncovered(source));
            }
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

    /// Goes on in a new file, and returns where that begins.
    ///
    /// # Errors
    /// As [`sync`](Writer::sync).
    ///
    /// # Panics
    /// If a transaction is open.
    pub fn roll_over(&mut self) -> Result<Position, Error> {
        self.check()?;
        assert!(self.transaction.is_none(), "a file ends between two transactions when somebody wants it to");
        self.roll()?;
        Ok(self.position())
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
        match OpenFile::create(&*self.storage, &self.options, self.layout, sequence, None) {
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
        header::complete(&mut header, self.layout.order, &completion).map_err(|source| Error::Damaged {
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

/// Appends what a truncation was told, if anything.
fn put_truncation(tokens: &mut Vec<u8>, order: Order, options: TruncateOptions) {
    let mut flags = 0;
    if options.cascade {
        flags |= token::truncation::CASCADE;
    }
    if options.restart_identity {
        flags |= token::truncation::RESTART_IDENTITY;
    }
    if flags != 0 {
        token::put(tokens, order, token::TRUNCATION, 0, |buffer| buffer.push(flags));
    }
}
