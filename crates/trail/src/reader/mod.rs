//! Reading transactions from a trail.

use crate::cipher::MasterKeys;
use crate::cover::Uncoverer;
use crate::format::column::Width;
use crate::format::header::FileHeader;
use crate::format::partition::PartitionName;
use crate::format::record::{RecordView, operation};
use crate::recovery;
use crate::safe;
use crate::scan::{BLOCK_BYTES, Forward, Trouble};
use crate::storage::{Storage, Watch};
use crate::writer::ChangeDetails;
use crate::{Damage, Error, Position, TrailName};
use change::{Change, Commit, Csn, DefinitionStatement, SequenceState, TableDefinition, TransactionId};
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

mod assembly;
mod decode;
mod file;
mod start;

use assembly::Assembly;
pub(crate) use decode::read_operation;
use decode::{Decoded, Decoder, GivenDefinitions};
pub use file::FileReader;

/// Where a [`Reader`] starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Start {
    /// At the first file that there is.
    Beginning,
    /// Where an earlier reader stopped.
    At {
        /// The position it had reached.
        position: Position,
        /// The last transaction it had dealt with, which must be the one that the trail holds before `position`.
        after: Option<(Csn, TransactionId)>,
    },
}

/// Where a change stands in its transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TransactionPlace {
    /// More changes follow.
    First,
    /// Changes came before and more follow.
    Middle,
    /// The transaction is complete.
    Last,
    /// The only change of its transaction.
    Only,
}

impl TransactionPlace {
    fn of(starts: bool, ends: bool) -> TransactionPlace {
        match (starts, ends) {
            (true, true) => TransactionPlace::Only,
            (true, false) => TransactionPlace::First,
            (false, true) => TransactionPlace::Last,
            (false, false) => TransactionPlace::Middle,
        }
    }

    /// Whether a transaction starts here.
    pub fn starts(self) -> bool {
        matches!(self, TransactionPlace::First | TransactionPlace::Only)
    }

    /// Whether the transaction is complete after this change.
    pub fn ends(self) -> bool {
        matches!(self, TransactionPlace::Last | TransactionPlace::Only)
    }
}

/// One record and its place.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Where it starts.
    pub position: Position,
    /// Where it ends, and the next one in the file starts.
    pub next: Position,
    /// What it says.
    pub record: Record,
}

/// What a record says.
#[derive(Clone, Debug, PartialEq)]
pub enum Record {
    /// A file starts.
    Header(Arc<FileHeader>),
    /// The shape of a table, before its first use in a file.
    Definition(Arc<TableDefinition>),
    /// A partition of a table, before its first use in a file.
    Partition(Arc<PartitionName>),
    /// A change of a committed transaction.
    Change {
        /// Where it stands in the transaction.
        place: TransactionPlace,
        /// The transaction.
        commit: Commit,
        /// The change.
        change: Change,
        /// What travels with it, if anything does.
        details: Option<Box<ChangeDetails>>,
    },
    /// A statement of a committed transaction that defines objects.
    Statement {
        /// Where it stands in the transaction.
        place: TransactionPlace,
        /// The transaction.
        commit: Commit,
        /// The statement.
        statement: Box<DefinitionStatement>,
    },
    /// Where a sequence stands after a committed transaction.
    Sequence {
        /// Where it stands in the transaction.
        place: TransactionPlace,
        /// The transaction.
        commit: Commit,
        /// The sequence.
        sequence: Box<SequenceState>,
    },
    /// The writer started again.
    Restart {
        /// A transaction was left open: what was read of it must be dropped, it comes again from its first change.
        abend: bool,
    },
    /// A remark of whoever made the file.
    Comment(String),
    /// A record that says nothing about rows.
    Other {
        /// Its operation number.
        operation: u8,
    },
}

/// One reader of a trail.
///
/// # Guarantees
/// - It returns nothing behind the published safe position, each record once, and only records whose checksum fits.
/// - Between the first and the last change of a transaction come only changes of that transaction, definitions and file
///   headers; or a restart marker, and then the transaction will start anew or never come.
/// - It may be opened before the trail exists, and lives through restarts of the writer.
pub struct Reader {
    storage: Arc<dyn Storage>,
    trail: TrailName,
    given: Arc<GivenDefinitions>,
    /// Furthest published position seen so far.
    safe: Position,
    /// Where the record after the last one that was returned starts.
    position: Position,
    /// The first file is whichever there is.
    is_at_beginning: bool,
    file: Option<OpenFile>,
    progress: Progress,
    /// What the file before is called inside, without its number: a file of another trail may have been put in its place.
    stem: Option<String>,
    /// The file before ended inside a change: a marker must say that the rest never comes.
    is_cut_short: bool,
    watch: Option<Box<dyn Watch>>,
}

struct OpenFile {
    name: String,
    sequence: u32,
    records: Forward,
    decoder: Decoder,
    assembly: Assembly,
    uncoverer: Uncoverer,
    /// Its length, once nothing is appended any more.
    final_length: Option<u64>,
}

/// Whether a transaction has started and not ended.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Progress {
    /// Nothing was read yet: the first change must start a transaction.
    Unknown,
    Between,
    Inside(Commit),
}

impl Reader {
    /// Most bytes of the trail that a row keeps in memory as long as it lives, besides its own: values are slices of what was
    /// read at once.
    pub const KEPT_BYTES_MAX: u64 = BLOCK_BYTES as u64;

    /// Opens the trail for reading.
    ///
    /// Where an earlier reader stopped, the record that ends at the position must belong to the transaction it names. If
    /// it does not, because the trail was written anew, the place after that transaction is searched.
    ///
    /// # Errors
    /// [`Error::Mismatch`] when the trail holds neither the position nor the transaction; [`Error::Damaged`];
    /// [`Error::Foreign`]; [`Error::Io`].
    pub fn open(storage: Arc<dyn Storage>, trail: TrailName, start: Start) -> Result<Reader, Error> {
        Reader::open_with(storage, trail, start, &[], None)
    }

    /// Opens the trail for reading, as [`open`](Reader::open) does. Files without definitions are read by those that are given,
    /// encrypted ones with the keys; without keys, [`Error::Key`] says at the first encrypted record what is missing.
    ///
    /// # Errors
    /// As [`open`](Reader::open).
    pub fn open_with(
        storage: Arc<dyn Storage>,
        trail: TrailName,
        start: Start,
        definitions: &[Arc<TableDefinition>],
        keys: Option<Arc<dyn MasterKeys>>,
    ) -> Result<Reader, Error> {
        let mut reader = Reader {
            storage,
            trail,
            given: Arc::new(GivenDefinitions::new(definitions, keys)),
            safe: Position::default(),
            position: Position::default(),
            is_at_beginning: false,
            file: None,
            progress: Progress::Unknown,
            stem: None,
            is_cut_short: false,
            watch: None,
        };
        reader.find_digits()?;
        match start {
            Start::Beginning => reader.is_at_beginning = true,
            Start::At { position, after } => reader.start_at(position, after)?,
        }
        Ok(reader)
    }

    /// The next record, or `None` when the reader has caught up with the published safe position.
    ///
    /// # Errors
    /// [`Error::Damaged`], [`Error::Foreign`], [`Error::Missing`], [`Error::Io`];
    /// [`Error::Mismatch`] when the first change read is in the middle of its transaction.
    #[expect(clippy::should_implement_trait, reason = "an error and the end of what is published are different things")]
    pub fn next(&mut self) -> Result<Option<Entry>, Error> {
        loop {
            if self.file.is_none() && !self.open_file()? {
                return Ok(None);
            }
            let Some(limit) = self.limit()? else { return Ok(None) };
            if let Some(entry) = self.read(limit)? {
                self.position = entry.next;
                return Ok(Some(entry));
            }
        }
    }

    /// Waits until there is more to read, at most `timeout`. Returns whether there is; may return `false` early.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn wait(&mut self, timeout: Duration) -> Result<bool, Error> {
        if self.has_more()? {
            return Ok(true);
        }
        if self.watch.is_none() {
            let watch = self.storage.watch(&self.trail.safe_file());
            self.watch = Some(watch.map_err(|source| self.safe_error("watch", source))?);
            // What was published before the watch began would not wake it.
            if self.has_more()? {
                return Ok(true);
            }
        }
        if let Some(watch) = &mut self.watch {
            let woken = watch.wait(timeout);
            woken.map_err(|source| self.safe_error("watch", source))?;
        }
        self.has_more()
    }

    /// Where the record after the last one that was returned starts: from here an equal reader would go on.
    pub fn position(&self) -> Position {
        self.position
    }

    /// Takes over how many digits the numbers of the trail's files have, once there are any.
    fn find_digits(&mut self) -> Result<(), Error> {
        let trail = self.trail.to_string();
        let names = self.storage.list().map_err(|source| Error::io("list", &*self.storage, &trail, source))?;
        self.trail = self.trail.found_among(&names);
        Ok(())
    }

    fn safe_error(&self, action: &'static str, source: io::Error) -> Error {
        Error::io(action, &*self.storage, &self.trail.safe_file(), source)
    }

    fn has_more(&mut self) -> Result<bool, Error> {
        if self.safe <= reached(self.file.as_ref(), self.position) {
            self.safe = self.safe.max(published(&*self.storage, self.trail)?);
        }
        Ok(self.safe > reached(self.file.as_ref(), self.position))
    }

    /// Opens the file that comes next, if something of it is published.
    fn open_file(&mut self) -> Result<bool, Error> {
        if !self.has_more()? {
            return Ok(false);
        }
        self.find_digits()?;
        if self.is_at_beginning {
            let sequences = recovery::sequences(&*self.storage, self.trail)?;
            let first = sequences.first().copied();
            let sequence = first.ok_or_else(|| Error::Missing { file: self.trail.file(0) })?;
            self.position = Position::new(sequence, 0);
            self.is_at_beginning = false;
        }
        let file = OpenFile::open(&*self.storage, self.trail, self.position.sequence, self.safe, &self.given)?;
        self.file = Some(file);
        Ok(true)
    }

    /// How far the open file may be read; moves on to the next file at its end. `None` when nothing more is published.
    fn limit(&mut self) -> Result<Option<u64>, Error> {
        loop {
            let Some(file) = &mut self.file else { return Ok(None) };
            let limit =
                file.limit(self.safe).map_err(|source| Error::io("read", &*self.storage, &file.name, source))?;
            if file.records.rba() < limit {
                return Ok(Some(limit));
            }
            if self.safe.sequence > file.sequence {
                let is_same = file
                    .check_end(&*self.storage, limit)
                    .map_err(|trouble| trouble.at(&*self.storage, &file.name, limit))?;
                if !is_same {
                    let reason = format!("another file is called {} now: the trail was replaced", file.name);
                    let position = Position::new(file.sequence, limit);
                    return Err(Error::Mismatch { trail: self.trail.to_string(), position, reason });
                }
                self.is_cut_short = file.assembly.check_closed().and(file.decoder.check_closed()).is_err();
                let next = OpenFile::open(&*self.storage, self.trail, file.sequence + 1, self.safe, &self.given)?;
                self.file = Some(next);
            } else if !self.has_more()? {
                return Ok(None);
            }
        }
    }

    /// Reads one record of the open file. A part of a longer one gives `None`.
    fn read(&mut self, limit: u64) -> Result<Option<Entry>, Error> {
        let Some(file) = &mut self.file else { return Ok(None) };
        let rba = file.records.rba();
        let result = file.read(limit);
        let (start, record) = match result {
            Ok(Some(found)) => found,
            Ok(None) => return Ok(None),
            Err(trouble) => return Err(trouble.at(&*self.storage, &file.name, rba)),
        };
        let position = Position::new(file.sequence, start);
        let next = Position::new(file.sequence, file.records.rba());
        if let Record::Header(header) = &record {
            let stem = stem(&header.file_name, &file.name, self.trail);
            if self.stem.as_ref().is_some_and(|before| *before != stem) {
                let reason =
                    format!("file {} is one of another trail: inside it is called {}", file.name, header.file_name);
                return Err(Error::Mismatch { trail: self.trail.to_string(), position, reason });
            }
            self.stem = Some(stem);
        }
        if std::mem::take(&mut self.is_cut_short) && !change::sabotage::is_on("pass-over-cut-change") {
            match record {
                Record::Restart { abend: true } => {}
                Record::Change { .. } | Record::Statement { .. } | Record::Sequence { .. } | Record::Restart { .. } => {
                    let source = Damage::Content("the file before ends inside a change, and nothing says why");
                    return Err(Error::Damaged { file: file.name.clone(), rba: start, source });
                }
                _ => self.is_cut_short = true,
            }
        }
        let step = match &record {
            Record::Change { place, commit, .. }
            | Record::Statement { place, commit, .. }
            | Record::Sequence { place, commit, .. } => self.progress.change(*place, commit),
            Record::Restart { abend } => self.progress.restart(*abend),
            Record::Header(_)
            | Record::Definition(_)
            | Record::Partition(_)
            | Record::Comment(_)
            | Record::Other { .. } => Ok(()),
        };
        match step {
            Ok(()) => Ok(Some(Entry { position, next, record })),
            Err(Some(source)) => Err(Error::Damaged { file: file.name.clone(), rba: start, source }),
            Err(None) => Err(Error::Mismatch {
                trail: self.trail.to_string(),
                position,
                reason: "this is the middle of a transaction that started before".to_owned(),
            }),
        }
    }
}

/// `inside`, what a file is called inside, without as many characters as the number of file `name` has.
fn stem(inside: &str, name: &str, trail: TrailName) -> String {
    let digits = name.len() - trail.to_string().len().min(name.len());
    inside.get(..inside.len().saturating_sub(digits)).unwrap_or(inside).to_owned()
}

/// Where reading stands: in the open file, or at its own position before the first file is open.
fn reached(file: Option<&OpenFile>, position: Position) -> Position {
    file.map_or(position, |file| Position::new(file.sequence, file.records.rba()))
}

fn published(storage: &dyn Storage, trail: TrailName) -> Result<Position, Error> {
    safe::published(storage, trail)
        .map(Option::unwrap_or_default)
        .map_err(|source| Error::io("read", storage, &trail.safe_file(), source))
}

impl Progress {
    /// Takes note of a change. `Err(None)` when reading began in the middle of a transaction.
    fn change(&mut self, place: TransactionPlace, commit: &Commit) -> Result<(), Option<Damage>> {
        match (&*self, place.starts()) {
            (Progress::Unknown | Progress::Between, true) => {}
            (Progress::Inside(open), false) if open == commit => {}
            (Progress::Unknown, false) => return Err(None),
            (Progress::Between, false) => {
                return Err(Some(Damage::Content("a change belongs to a transaction that did not start")));
            }
            (Progress::Inside(_), true) => {
                return Err(Some(Damage::Content("a transaction starts inside another one")));
            }
            (Progress::Inside(_), false) => {
                return Err(Some(Damage::Content("a change of one transaction stands inside another one")));
            }
        }
        if place.ends() {
            *self = Progress::Between;
        } else if place.starts() {
            *self = Progress::Inside(commit.clone());
        }
        Ok(())
    }

    fn restart(&mut self, abend: bool) -> Result<(), Option<Damage>> {
        if !abend && matches!(self, Progress::Inside(_)) {
            return Err(Some(Damage::Content("the writer ended cleanly inside a transaction")));
        }
        *self = Progress::Between;
        Ok(())
    }
}

impl OpenFile {
    /// Opens file `sequence`, of which bytes before `limit` may be read.
    fn open(
        storage: &dyn Storage,
        trail: TrailName,
        sequence: u32,
        safe: Position,
        given: &Arc<GivenDefinitions>,
    ) -> Result<OpenFile, Error> {
        let name = trail.file(sequence);
        let open = || -> Result<Forward, Trouble> {
            let file = storage.open_read(&name)?;
            let limit = if safe.sequence == sequence { safe.rba } else { file.len()? };
            Forward::open(file, limit)
        };
        let records = open().map_err(|trouble| match trouble {
            Trouble::Io(error) if error.kind() == io::ErrorKind::NotFound => Error::Missing { file: name.clone() },
            trouble => trouble.at(storage, &name, 0),
        })?;
        let (decoder, assembly) = (Decoder::new(Arc::clone(given)), Assembly::default());
        let uncoverer = Uncoverer::new(given.keys.clone());
        Ok(OpenFile { name, sequence, records, decoder, assembly, uncoverer, final_length: None })
    }

    /// How far this file may be read when `safe` is published.
    fn limit(&mut self, safe: Position) -> io::Result<u64> {
        if safe.sequence <= self.sequence {
            return Ok(if safe.sequence == self.sequence { safe.rba } else { 0 });
        }
        match self.final_length {
            Some(length) => Ok(length),
            // The writer has gone on to a later file, so this one will not change any more.
            None => Ok(*self.final_length.insert(self.records.length()?)),
        }
    }

    /// Makes sure that nothing is missing at the end of a file that was read to byte `length`. Returns whether it still has
    /// its name: else the files that follow are another trail's.
    fn check_end(&mut self, storage: &dyn Storage, length: u64) -> Result<bool, Trouble> {
        let header = self.records.reread_header()?;
        if let Some(completion) = &header.completion
            && completion.file_size > length
        {
            return Err(Damage::Short { what: "file", needed: completion.file_size, left: length }.into());
        }
        match storage.open_read(&self.name) {
            Ok(file) => {
                let mut named = Forward::open(file, length)?;
                Ok(named.header(self.sequence, length)?.0 == header)
            }
            // It was purged, and says nothing of those that follow.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
            Err(error) => Err(error.into()),
        }
    }

    /// The next record and where it starts. A part of a longer one gives `None`.
    fn read(&mut self, limit: u64) -> Result<Option<(u64, Record)>, Trouble> {
        let rba = self.records.rba();
        if rba == 0 {
            let (header, _) = self.records.header(self.sequence, limit)?;
            self.uncoverer.set_key(&header);
            return Ok(Some((0, Record::Header(Arc::new(header)))));
        }
        let Some(place) = self.records.next(limit)? else { return Ok(None) };
        self.interpret(place, limit)
    }

    /// What the record at `place` of the block says, as [`read`](OpenFile::read).
    #[inline]
    fn interpret(&mut self, place: Range<usize>, limit: u64) -> Result<Option<(u64, Record)>, Trouble> {
        let rba = self.records.rba() - place.len() as u64;
        let (block, order) = (self.records.block(), self.records.order());
        let uncovered;
        let mut view = RecordView::read(&block[place.clone()], order)?;
        view.verify()?;
        let (shared, start) = if view.is_covered() || self.uncoverer.is_needed() {
            uncovered = self.uncoverer.uncover(&view, &block[place.clone()], order)?;
            (view.data, view.user_tokens) = (&uncovered.data, &uncovered.user);
            (&uncovered.data, 0)
        } else {
            (block, place.start + view.data_offset)
        };
        if view.header.operation != operation::FRAGMENT {
            // The transaction that a long record belonged to may have been given up between its parts.
            if view.header.operation == operation::RESTART_ABEND {
                self.assembly = Assembly::default();
                self.decoder.give_up();
            }
            self.assembly.check_closed()?;
            let data = start..start + view.data.len();
            let (starts, ends) = crate::scan::place(view.header.transaction)?;
            let what = Decoded {
                rba,
                operation: view.header.operation,
                starts,
                ends,
                shared,
                data,
                width: Width::Narrow,
                user: view.user_tokens,
            };
            return self.decoder.record(&view, what, order);
        }
        let left = limit.saturating_sub(self.records.rba());
        let Some(whole) = self.assembly.add(&view, rba, order, left)? else { return Ok(None) };
        let (_, ends) = crate::scan::place(view.header.transaction)?;
        let what = Decoded {
            rba: whole.start,
            operation: whole.operation,
            starts: whole.starts,
            ends,
            shared: &whole.data,
            data: 0..whole.data.len(),
            width: Width::Wide,
            user: &whole.user,
        };
        self.decoder.record(&view, what, order)
    }
}

/// What a file holds besides changes, for a writer that goes on in it.
pub(crate) struct Known {
    /// The header record.
    pub(crate) header: Vec<u8>,
    /// Table definitions in order of their numbers.
    pub(crate) definitions: Vec<Arc<TableDefinition>>,
    /// Partitions in order of their numbers, each with the number of its table.
    pub(crate) partitions: decode::NumberedPartitions,
}

/// Reads what the file that ends at `end` holds besides changes.
///
/// # Errors
/// [`Error::Damaged`]; [`Error::Foreign`]; [`Error::Io`].
pub(crate) fn known_in(storage: &dyn Storage, trail: TrailName, end: Position) -> Result<Known, Error> {
    let given = Arc::new(GivenDefinitions::new(&[], None));
    let mut file = OpenFile::open(storage, trail, end.sequence, end, &given)?;
    file.skim(end.rba).map_err(|(rba, trouble)| trouble.at(storage, &file.name, rba))?;
    let header = file.records.header_record().map_err(|trouble| trouble.at(storage, &file.name, 0))?;
    let (definitions, partitions) = file.decoder.into_known();
    Ok(Known { header, definitions, partitions })
}
