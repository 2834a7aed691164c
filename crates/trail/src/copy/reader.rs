//! Reading a trail for a copy.

use super::rules::Answers;
use super::signing::{Outcome, SignedTables};
use super::{Boundary, CopyBatch, CopyContent, CopyRules, Tally};
use crate::cipher::MasterKeys;
use crate::cover::{Stuck, Uncoverer};
use crate::format::bytes::{Order, from_julian_micros};
use crate::format::fragment;
use crate::format::header::FileHeader;
use crate::format::partition::PartitionName;
use crate::format::record::{self, Object, RecordView, metadata_kind, operation, transaction};
use crate::format::token::PREFIX_BYTES;
use crate::scan::{self, Forward, Trouble};
use crate::storage::{Storage, Watch};
use crate::{Damage, Error, Position, Reader, Start, TrailName, recovery, safe};
use bytes::Bytes;
use change::{Commit, Csn, TransactionId};
use std::cmp::Ordering;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// Most bytes of the records of a batch, and bytes that are read at once.
const BATCH_BYTES: usize = 256 * 1024;

/// Where a [`CopyReader`] starts.
pub type CopyStart = Start;

/// One reader of a trail that hands out records as they are.
///
/// # Guarantees
/// As [`Reader`], for whole records: nothing behind the published safe position, each record once, only records whose
/// checksum fits. Records that the rules leave out are taken away so that what is left are whole transactions; one of which
/// nothing is left vanishes.
pub struct CopyReader {
    storage: Arc<dyn Storage>,
    trail: TrailName,
    rules: Box<dyn CopyRules>,
    keys: Option<Arc<dyn MasterKeys>>,
    safe: Position,
    position: Position,
    is_at_beginning: bool,
    file: Option<OpenFile>,
    /// The file that is read was handed out.
    is_announced: bool,
    progress: Progress,
    answers: Answers,
    signed: SignedTables,
    /// The last record of the open transaction that was kept: its place is known only when the next one comes.
    held: Option<Held>,
    /// Records of the open transaction that were handed out.
    passed_on: u64,
    /// What comes next.
    pending: Option<CopyBatch>,
    /// What comes next depends on records that are not published yet.
    is_undecided: bool,
    tally: Tally,
    watch: Option<Box<dyn Watch>>,
}

/// A record that is held back.
struct Held {
    record: Piece,
    /// Its place in the transaction as it stands in the record; `None` for a record that was written anew.
    place: Option<u8>,
    /// Bytes of the user's tokens at its end.
    user: usize,
    /// What came behind it and belongs to no transaction: it must not stand between the parts of a long record.
    behind: Vec<Piece>,
}

/// Bytes that go on: as they were read, or written here.
enum Piece {
    Read(Bytes, Range<usize>),
    Written(Vec<u8>),
}

/// Whether a transaction has started and not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    /// Nothing was read yet.
    Unknown,
    Between,
    Inside,
}

/// The file that is read.
pub(super) struct OpenFile {
    name: String,
    sequence: u32,
    records: Forward,
    header: Bytes,
    /// All definitions so far.
    definitions: Vec<u8>,
    /// The last record of each of them, in `definitions`.
    defined: Vec<Range<usize>>,
    tables: Vec<String>,
    partitions: Vec<String>,
    uncoverer: Uncoverer,
    final_length: Option<u64>,
    /// The last record is followed by another part.
    is_in_parts: bool,
}

/// What one record means for the copy.
enum Kind {
    Definition,
    Marker,
    /// Of a transaction: whether it starts and ends there.
    Change(bool, bool),
    Other,
}

impl CopyReader {
    /// Opens the trail for reading. `start` is verified as [`Reader::open`] does; the trail may not exist yet.
    ///
    /// # Errors
    /// As [`Reader::open`].
    pub fn open(
        storage: Arc<dyn Storage>,
        trail: TrailName,
        start: CopyStart,
        rules: Box<dyn CopyRules>,
        keys: Option<Arc<dyn MasterKeys>>,
    ) -> Result<CopyReader, Error> {
        let is_at_beginning = start == Start::Beginning;
        let verified = Reader::open(Arc::clone(&storage), trail, start)?;
        Ok(CopyReader {
            storage,
            trail,
            rules,
            keys,
            safe: Position::default(),
            position: verified.position(),
            is_at_beginning,
            file: None,
            is_announced: false,
            progress: Progress::Unknown,
            answers: Answers::default(),
            signed: SignedTables::default(),
            held: None,
            passed_on: 0,
            pending: None,
            is_undecided: false,
            tally: Tally::default(),
            watch: None,
        })
    }

    /// Where the record after the last one that was handed out starts.
    pub fn position(&self) -> Position {
        self.position
    }

    /// What was read and kept so far.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// The next records, or `None` when the reader has caught up with the published safe position.
    ///
    /// # Errors
    /// [`Error::Damaged`], [`Error::Foreign`], [`Error::Missing`], [`Error::Io`]; [`Error::Key`] when rules need what is
    /// encrypted; [`Error::Mismatch`] when the first change read is in the middle of its transaction.
    #[expect(clippy::should_implement_trait, reason = "an error and the end of what is published are different things")]
    pub fn next(&mut self) -> Result<Option<CopyBatch>, Error> {
        if self.file.is_none() && !self.open_file()? {
            return Ok(None);
        }
        let Some(limit) = self.limit()? else { return Ok(None) };
        if let Some(batch) = self.pending.take() {
            return Ok(Some(batch));
        }
        let rba = self.file.as_ref().map_or(0, |file| file.records.rba());
        let result = self.batch(limit);
        result.map(Some).map_err(|failed| match failed {
            Failed::Trouble(trouble) => {
                let name = self.trail.file(self.position.sequence);
                let rba = self.file.as_ref().map_or(rba, |file| file.records.rba());
                trouble.at(&*self.storage, &name, rba)
            }
            Failed::MiddleOfTransaction => Error::Mismatch {
                trail: self.trail.to_string(),
                position: self.position,
                reason: "this is the middle of a transaction that started before".to_owned(),
            },
        })
    }

    /// Waits until there is more to read, at most `timeout`. Returns whether there is; may return `false` early.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn wait(&mut self, timeout: Duration) -> Result<bool, Error> {
        if !self.is_undecided && self.has_more()? {
            return Ok(true);
        }
        if self.watch.is_none() {
            let watch = self.storage.watch(&self.trail.safe_file());
            self.watch = Some(watch.map_err(|source| self.safe_error("watch", source))?);
            if !self.is_undecided && self.has_more()? {
                return Ok(true);
            }
        }
        if let Some(watch) = &mut self.watch {
            let woken = watch.wait(timeout);
            woken.map_err(|source| self.safe_error("watch", source))?;
        }
        self.has_more()
    }

    /// Whether more than what was handed out is published.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn has_more(&mut self) -> Result<bool, Error> {
        if self.safe <= self.position {
            let published = safe::published(&*self.storage, self.trail);
            let published = published.map_err(|source| self.safe_error("read", source))?;
            self.safe = self.safe.max(published.unwrap_or_default());
        }
        Ok(self.safe > self.position)
    }

    fn safe_error(&self, action: &'static str, source: io::Error) -> Error {
        Error::io(action, &*self.storage, &self.trail.safe_file(), source)
    }

    /// Opens the file that comes next, if something of it is published.
    fn open_file(&mut self) -> Result<bool, Error> {
        if !self.has_more()? {
            return Ok(false);
        }
        let names = self.storage.list();
        let names = names.map_err(|source| Error::io("list", &*self.storage, &self.trail.to_string(), source))?;
        self.trail = self.trail.found_among(&names);
        if self.is_at_beginning {
            let first = recovery::sequences(&*self.storage, self.trail)?.first().copied();
            let sequence = first.ok_or_else(|| Error::Missing { file: self.trail.file(0) })?;
            self.position = Position::new(sequence, 0);
            self.is_at_beginning = false;
        }
        let position = self.position;
        let mut file = self.open_sequence(position.sequence)?;
        if position.rba > 0 {
            let name = file.name.clone();
            file.skim(position.rba).map_err(|(rba, trouble)| trouble.at(&*self.storage, &name, rba))?;
            self.progress = Progress::Between;
        }
        self.is_announced = false;
        self.file = Some(file);
        Ok(true)
    }

    fn open_sequence(&self, sequence: u32) -> Result<OpenFile, Error> {
        let name = self.trail.file(sequence);
        let open = || -> Result<OpenFile, Trouble> {
            let file = self.storage.open_read(&name)?;
            let limit = if self.safe.sequence == sequence { self.safe.rba } else { file.len()? };
            let records = Forward::open(file, limit)?.with_blocks(BATCH_BYTES);
            Ok(OpenFile {
                name: name.clone(),
                sequence,
                records,
                header: Bytes::new(),
                definitions: Vec::new(),
                defined: Vec::new(),
                tables: Vec::new(),
                partitions: Vec::new(),
                uncoverer: Uncoverer::new(self.keys.clone()),
                final_length: None,
                is_in_parts: false,
            })
        };
        open().map_err(|trouble| match trouble {
            Trouble::Io(error) if error.kind() == io::ErrorKind::NotFound => Error::Missing { file: name.clone() },
            trouble => trouble.at(&*self.storage, &name, 0),
        })
    }

    /// How far the open file may be read; moves on to the next file at its end. `None` when nothing more is published.
    fn limit(&mut self) -> Result<Option<u64>, Error> {
        loop {
            let Some(file) = &mut self.file else { return Ok(None) };
            let (name, sequence) = (file.name.clone(), file.sequence);
            let limit = match (file.final_length, self.safe.sequence.cmp(&sequence)) {
                (Some(length), _) => length,
                (None, Ordering::Equal) => self.safe.rba,
                (None, Ordering::Less) => 0,
                (None, Ordering::Greater) => {
                    let length = file.records.length();
                    let length = length.map_err(|source| Error::io("read", &*self.storage, &name, source))?;
                    *file.final_length.insert(length)
                }
            };
            if file.records.rba() < limit {
                return Ok(Some(limit));
            }
            if self.safe.sequence > sequence {
                if self.held.is_some() {
                    // It refers to definitions of this file, so it can't wait for the next one.
                    let Some(goes_on) = self.keeps_of_rest(sequence + 1)? else {
                        self.is_undecided = true;
                        self.has_newer()?;
                        return Ok(None);
                    };
                    self.is_undecided = false;
                    self.pass_on_held(!goes_on)?;
                    return Ok(Some(limit));
                }
                let is_same = file.check_end(&*self.storage, limit);
                if !is_same.map_err(|trouble| trouble.at(&*self.storage, &name, limit))? {
                    let reason = format!("another file is called {name} now: the trail was replaced");
                    let position = Position::new(sequence, limit);
                    return Err(Error::Mismatch { trail: self.trail.to_string(), position, reason });
                }
                let next = self.open_sequence(sequence + 1)?;
                self.position = Position::new(sequence + 1, 0);
                self.file = Some(next);
                self.is_announced = false;
            } else if !self.has_more()? {
                return Ok(None);
            }
        }
    }

    /// Takes note of what was published meanwhile.
    fn has_newer(&mut self) -> Result<(), Error> {
        let published = safe::published(&*self.storage, self.trail);
        let published = published.map_err(|source| self.safe_error("read", source))?;
        self.safe = self.safe.max(published.unwrap_or_default());
        Ok(())
    }

    /// Lets the record that is held back be the next batch.
    fn pass_on_held(&mut self, is_last: bool) -> Result<(), Error> {
        let (Some(held), Some(file)) = (self.held.take(), &mut self.file) else { return Ok(()) };
        let mut run = Run::default();
        let order = file.records.order();
        let passed = held.pass_on(&mut run, (order, &mut file.uncoverer), &mut self.passed_on, is_last);
        passed.map_err(|trouble| trouble.at(&*self.storage, &file.name, file.records.rba()))?;
        let content = CopyContent::Records(run.chunks());
        let (start, end) = (self.position, self.position);
        self.pending = Some(CopyBatch { start, end, content, boundary: None, changes: 0 });
        Ok(())
    }

    /// Whether the rules keep anything of the rest of the open transaction, which goes on in file `sequence`; `None` when not
    /// enough of it is published.
    fn keeps_of_rest(&self, sequence: u32) -> Result<Option<bool>, Error> {
        for sequence in sequence..=self.safe.sequence {
            let mut file = self.open_sequence(sequence)?;
            let name = file.name.clone();
            let found = self.keeps_in(&mut file);
            if let Some(found) = found.map_err(|trouble| trouble.at(&*self.storage, &name, file.records.rba()))? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    fn keeps_in(&self, file: &mut OpenFile) -> Result<Option<bool>, Trouble> {
        let limit = if file.sequence == self.safe.sequence { self.safe.rba } else { file.records.length()? };
        let (mut answers, mut signed) = (Answers::default(), SignedTables::default());
        if limit > 0 {
            file.read_header(limit)?;
        }
        while let Some(range) = file.records.next(limit)? {
            let block = file.records.block().clone();
            let view = RecordView::read(&block[range.clone()], file.records.order())?;
            view.verify()?;
            match kind_of(&view)? {
                Kind::Definition => file.define(&view, &block[range])?,
                // It was given up, and a record that says that it ends would make a whole of it.
                Kind::Marker => return Ok(Some(true)),
                Kind::Change(_, ends) => {
                    let operation = file.operation(&view, &block[range.clone()], &*self.rules)?;
                    let is_dropped = self.rules.signs_any()
                        && signed.has(file, &view, &*self.rules)
                        && matches!(signed.sign(file, &view, &block[range], &*self.rules)?, Outcome::Dropped);
                    if !is_dropped && answers.keeps(&*self.rules, file, &view, operation) {
                        return Ok(Some(true));
                    }
                    if ends {
                        return Ok(Some(false));
                    }
                }
                Kind::Other => {}
            }
        }
        Ok(None)
    }

    fn batch(&mut self, limit: u64) -> Result<CopyBatch, Failed> {
        let Some(file) = &mut self.file else {
            return Err(Failed::Trouble(Trouble::Io(io::ErrorKind::NotFound.into())));
        };
        let start = self.position;
        if file.records.rba() == 0 {
            file.read_header(limit)?;
            self.position.rba = file.records.rba();
        }
        if !std::mem::replace(&mut self.is_announced, true) {
            (self.answers, self.signed) = (Answers::default(), SignedTables::default());
            self.tally.start_file();
            let content = CopyContent::File {
                header: file.header.clone(),
                definitions: Bytes::copy_from_slice(&file.definitions),
            };
            return Ok(CopyBatch { start, end: self.position, content, boundary: None, changes: 0 });
        }
        let mut run = Run::default();
        let mut last_end = None;
        let mut changes = 0;
        let (keeps_all, signs_any) = (self.rules.keeps_all(), self.rules.signs_any());
        while file.records.rba() < limit && file.records.rba() - start.rba < BATCH_BYTES as u64 {
            let Some(range) = file.records.next(limit)? else { break };
            let block = file.records.block().clone();
            let bytes = &block[range.clone()];
            let order = file.records.order();
            let view = RecordView::read(bytes, order)?;
            view.verify()?;
            let kind = kind_of(&view)?;
            if let Kind::Definition = kind {
                file.define(&view, bytes)?;
            }
            let mut outcome = Outcome::AsItIs;
            if let Kind::Change(starts, ends) = kind {
                self.progress = self.progress.change(starts, ends)?;
                changes += 1;
                let operation = file.operation(&view, bytes, &*self.rules)?;
                let is_kept = keeps_all || self.answers.keeps(&*self.rules, file, &view, operation);
                let is_part = std::mem::replace(&mut file.is_in_parts, view.header.continued != 0);
                if signs_any && self.signed.has(file, &view, &*self.rules) {
                    outcome = self.signed.sign(file, &view, bytes, &*self.rules)?;
                } else if !is_part {
                    self.tally.count(file, &view, operation, is_kept);
                }
                if !is_kept {
                    outcome = Outcome::Dropped;
                }
                if ends {
                    last_end = Some((block.slice(range.clone()), file.records.rba()));
                }
            } else if let Kind::Marker = kind {
                file.is_in_parts = false;
                self.progress = Progress::Between;
            }
            if keeps_all && !signs_any {
                run.add(&block, range);
                continue;
            }
            let cover = (order, &mut file.uncoverer);
            match kind {
                Kind::Change(_, ends) => {
                    if let Some(held) = Held::of(outcome, &view, &block, range)
                        && let Some(before) = self.held.replace(held)
                    {
                        before.pass_on(&mut run, (order, &mut *cover.1), &mut self.passed_on, false)?;
                    }
                    if ends {
                        if let Some(held) = self.held.take() {
                            held.pass_on(&mut run, cover, &mut self.passed_on, true)?;
                        }
                        self.passed_on = 0;
                    }
                }
                Kind::Marker => {
                    // Of a transaction that was given up it does not matter how much is there.
                    if let Some(held) = self.held.take() {
                        match self.passed_on {
                            0 => held.behind.into_iter().for_each(|piece| run.put(piece)),
                            _ => held.pass_on(&mut run, cover, &mut self.passed_on, false)?,
                        }
                    }
                    self.passed_on = 0;
                    run.add(&block, range);
                }
                Kind::Definition | Kind::Other => match &mut self.held {
                    Some(held) => held.behind.push(Piece::Read(block, range)),
                    None => run.add(&block, range),
                },
            }
        }
        self.position.rba = file.records.rba();
        let mut boundary = None;
        if let Some((record, rba)) = last_end {
            let position = Position::new(file.sequence, rba);
            boundary = Some(Boundary { position, commit: commit_of(&record, file.records.order())? });
        }
        let content = CopyContent::Records(run.chunks());
        Ok(CopyBatch { start, end: self.position, content, boundary, changes })
    }
}

/// Why there is no batch.
enum Failed {
    Trouble(Trouble),
    MiddleOfTransaction,
}

impl From<Trouble> for Failed {
    fn from(trouble: Trouble) -> Failed {
        Failed::Trouble(trouble)
    }
}

impl From<Damage> for Failed {
    fn from(damage: Damage) -> Failed {
        Failed::Trouble(damage.into())
    }
}

impl Progress {
    fn change(self, starts: bool, ends: bool) -> Result<Progress, Failed> {
        match (self, starts) {
            (Progress::Unknown, false) => return Err(Failed::MiddleOfTransaction),
            (Progress::Between, false) => {
                return Err(Damage::Content("a change belongs to a transaction that did not start").into());
            }
            (Progress::Inside, true) => {
                return Err(Damage::Content("a transaction starts inside another one").into());
            }
            (Progress::Unknown | Progress::Between, true) | (Progress::Inside, false) => {}
        }
        Ok(if ends { Progress::Between } else { Progress::Inside })
    }
}

impl Held {
    /// What is held back of a record; `None` when it is left out.
    fn of(outcome: Outcome, view: &RecordView<'_>, block: &Bytes, range: Range<usize>) -> Option<Held> {
        let (record, place, user) = match outcome {
            Outcome::Dropped => return None,
            Outcome::Anew(bytes, user) => (Piece::Written(bytes), None, user),
            Outcome::AsItIs => {
                let user = match view.user_tokens.len() {
                    0 => 0,
                    length => PREFIX_BYTES + length,
                };
                (Piece::Read(block.clone(), range), Some(view.header.transaction), user)
            }
        };
        Some(Held { record, place, user, behind: Vec::new() })
    }

    /// Appends the record with its place in the transaction as it is without those that were left out.
    fn pass_on(
        self,
        output: &mut Run,
        (order, uncoverer): (Order, &mut Uncoverer),
        passed_on: &mut u64,
        is_last: bool,
    ) -> Result<(), Trouble> {
        let place = match (*passed_on == 0, is_last) {
            (true, false) => transaction::FIRST,
            (false, false) => transaction::MIDDLE,
            (false, true) => transaction::LAST,
            (true, true) => transaction::ONLY,
        };
        if self.place == Some(place) {
            output.put(self.record);
        } else {
            let mut bytes = match self.record {
                Piece::Read(block, range) => block[range].to_vec(),
                Piece::Written(bytes) => bytes,
            };
            if self.place.is_some() {
                uncoverer.place(&mut bytes, order, place, self.user)?;
            }
            record::seal(&mut bytes, order, place, self.user);
            output.put(Piece::Written(bytes));
        }
        self.behind.into_iter().for_each(|piece| output.put(piece));
        *passed_on += 1;
        Ok(())
    }
}

/// Records one after another. Neighbours stay slices of the blocks that they were read in.
#[derive(Default)]
struct Run {
    done: Vec<Bytes>,
    open: Option<(Bytes, Range<usize>)>,
    /// What comes behind `open`.
    written: Vec<u8>,
}

impl Run {
    fn put(&mut self, piece: Piece) {
        match piece {
            Piece::Read(block, range) => self.add(&block, range),
            Piece::Written(bytes) => {
                self.done.extend(self.open.take().map(|(block, place)| block.slice(place)));
                self.written.extend_from_slice(&bytes);
            }
        }
    }

    fn add(&mut self, block: &Bytes, range: Range<usize>) {
        if !self.written.is_empty() {
            self.done.push(Bytes::from(std::mem::take(&mut self.written)));
        }
        match &mut self.open {
            Some((open, place)) if place.end == range.start && open.as_ptr() == block.as_ptr() => place.end = range.end,
            open => {
                if let Some((block, place)) = open.replace((block.clone(), range)) {
                    self.done.push(block.slice(place));
                }
            }
        }
    }

    fn chunks(mut self) -> Vec<Bytes> {
        self.done.extend(self.open.map(|(block, place)| block.slice(place)));
        if !self.written.is_empty() {
            self.done.push(Bytes::from(self.written));
        }
        self.done
    }
}

fn kind_of(view: &RecordView<'_>) -> Result<Kind, Damage> {
    if view.csn.is_some() {
        let (starts, ends) = scan::place(view.header.transaction)?;
        return Ok(Kind::Change(starts, ends));
    }
    Ok(match view.header.operation {
        operation::METADATA | operation::FRAGMENT => Kind::Definition,
        operation::RESTART_ABEND | operation::RESTART_OK => Kind::Marker,
        _ => Kind::Other,
    })
}

pub(super) fn commit_of(record: &[u8], order: Order) -> Result<Commit, Damage> {
    let view = RecordView::read(record, order)?;
    let text = |bytes: Option<&[u8]>| {
        let bytes = bytes.ok_or(Damage::Content("a change names no transaction"))?;
        let text = std::str::from_utf8(bytes);
        text.map(str::to_owned).map_err(|_| Damage::Content("a transaction's name is not UTF-8"))
    };
    Ok(Commit {
        csn: Csn::new(text(view.csn)?),
        transaction: TransactionId::new(text(view.transaction_id)?),
        time: from_julian_micros(view.header.time),
    })
}

impl OpenFile {
    /// The names of a table and of a partition by their numbers; empty for those that the file does not hold.
    pub(super) fn names(&self, definition: u16, partition: Option<u16>) -> (&str, Option<&str>) {
        let at = |list: &'_ [String], index: u16| usize::from(index).checked_sub(1).filter(|index| *index < list.len());
        let table = at(&self.tables, definition).map_or("", |index| self.tables[index].as_str());
        let partition = partition.and_then(|index| at(&self.partitions, index));
        (table, partition.map(|index| self.partitions[index].as_str()))
    }

    pub(super) fn order(&self) -> Order {
        self.records.order()
    }

    /// The record, or the last part of it, that defines the table with this number.
    pub(super) fn definition(&self, index: u16) -> Option<&[u8]> {
        let place = self.defined.get(usize::from(index).checked_sub(1)?)?;
        self.definitions.get(place.clone())
    }

    fn read_header(&mut self, limit: u64) -> Result<(), Trouble> {
        let (header, place): (FileHeader, _) = self.records.header(self.sequence, limit)?;
        self.header = Bytes::copy_from_slice(&self.records.block()[place]);
        self.uncoverer.set_key(&header);
        Ok(())
    }

    /// Passes over all records before byte `limit`, keeping the definitions.
    fn skim(&mut self, limit: u64) -> Result<(), (u64, Trouble)> {
        while self.records.rba() < limit {
            let rba = self.records.rba();
            self.skim_record(limit).map_err(|trouble| (rba, trouble))?;
        }
        Ok(())
    }

    fn skim_record(&mut self, limit: u64) -> Result<(), Trouble> {
        if self.records.rba() == 0 {
            return self.read_header(limit);
        }
        let Some(range) = self.records.next(limit)? else { return Ok(()) };
        let block = self.records.block().clone();
        let view = RecordView::read(&block[range.clone()], self.records.order())?;
        if let Kind::Definition = kind_of(&view)? {
            view.verify()?;
            self.define(&view, &block[range])?;
        }
        Ok(())
    }

    /// Takes note of a definition, or of a part of one.
    fn define(&mut self, view: &RecordView<'_>, bytes: &[u8]) -> Result<(), Damage> {
        self.definitions.extend_from_slice(bytes);
        let is_last = view.header.operation == operation::METADATA || view.header.continued == 0;
        match (&view.object, view.header.origin) {
            (Object::Name(name), metadata_kind::TABLE | metadata_kind::TABLE_REFERENCE) if is_last => {
                self.tables.push(String::from_utf8_lossy(name).into_owned());
                self.defined.push(self.definitions.len() - bytes.len()..self.definitions.len());
            }
            (Object::Partition(bytes), _) => {
                self.partitions.push(PartitionName::read(bytes, self.records.order())?.name);
            }
            _ => {}
        }
        Ok(())
    }

    /// The operation of a record, or of the whole that it is a part of.
    fn operation(&mut self, view: &RecordView<'_>, bytes: &[u8], rules: &dyn CopyRules) -> Result<u8, Trouble> {
        if view.header.operation != operation::FRAGMENT {
            return Ok(view.header.operation);
        }
        let order = self.records.order();
        if !view.is_covered() {
            return Ok(fragment::Fragment::read(view.data, order)?.operation);
        }
        match self.uncoverer.uncover(view, bytes, order) {
            Ok(uncovered) => Ok(fragment::Fragment::read(&uncovered.data, order)?.operation),
            // A copy needs no key as long as nobody asks what is in it.
            Err(Stuck::Key(..)) if !rules.depends_on_operation() => Ok(operation::FRAGMENT),
            Err(stuck) => Err(stuck.into()),
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
            Ok(file) => Ok(Forward::open(file, length)?.header(self.sequence, length)?.0 == header),
            // It was purged, and says nothing of those that follow.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
            Err(error) => Err(error.into()),
        }
    }
}
