//! What a writer does first: find out what the trail holds, and cut off what a crash left half-written.
//!
//! Only the last file can have a torn tail, because a file is synced before the next one is made. Everything up to the
//! published safe position, and up to the write checkpoint, was synced once: if a record there is bad, that is damage, and
//! cutting it off would lose changes that readers may have seen; so it is an error instead.

use crate::format::bytes::Order;
use crate::format::header::{self, Completion, FileHeader, Span};
use crate::scan::{Backward, Bearing, Forward, Trouble, bearing, extend_span};
use crate::storage::{File, Storage};
use crate::{Damage, Error, Position, TrailName};
use change::Commit;
use std::io;

/// Bytes that are written again at once.
const REWRITE_BYTES: usize = 256 * 1024;

/// What a trail holds.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Recovered {
    /// Where it ends; `None` when it has no file.
    pub(crate) end: Option<Position>,
    /// The last complete transaction.
    pub(crate) last_commit: Option<Commit>,
    /// Whether a transaction that is not complete comes after it.
    pub(crate) is_open: bool,
    /// Its last file.
    pub(crate) last: Option<LastFile>,
}

/// The last file of a trail.
#[derive(Debug, PartialEq)]
pub(crate) struct LastFile {
    pub(crate) header: FileHeader,
    pub(crate) order: Order,
    /// First and last transaction in it; `None` when it holds no change.
    pub(crate) span: Option<Span>,
}

impl Recovered {
    /// Number of the file to make next.
    pub(crate) fn next_sequence(&self) -> u32 {
        self.end.map_or(0, |end| end.sequence.saturating_add(1))
    }
}

/// Numbers of the trail's files, ascending.
pub(crate) fn sequences(storage: &dyn Storage, trail: TrailName) -> Result<Vec<u32>, Error> {
    let names = storage.list().map_err(|source| Error::io("list", storage, &format!("{trail}*"), source))?;
    let mut sequences: Vec<u32> = names.iter().filter_map(|name| trail.sequence_of(name)).collect();
    sequences.sort_unstable();
    Ok(sequences)
}

/// Repairs the tail of the trail and tells what it holds. The caller holds the writer's lock.
///
/// # Errors
/// [`Error::Mismatch`] when the trail ends before `floor`, the furthest position that was synced for sure;
/// [`Error::Damaged`] when it does not end but is damaged before `floor`.
pub(crate) fn recover(storage: &dyn Storage, trail: TrailName, floor: Option<Position>) -> Result<Recovered, Error> {
    let mut sequences = sequences(storage, trail)?;
    let mut recovered = Recovered::default();
    let mut history = History::default();
    if let Some(last) = sequences.pop() {
        let synced = match floor {
            Some(floor) if floor.sequence > last => u64::MAX,
            Some(floor) if floor.sequence == last => floor.rba,
            _ => 0,
        };
        let (length, file) = repair_file(storage, &trail.file(last), last, synced, &mut history)?;
        recovered.end = Some(Position::new(last, length));
        recovered.last = Some(file);
    }
    let end = recovered.end.unwrap_or_default();
    if let Some(floor) = floor.filter(|floor| *floor > end) {
        let reason = match recovered.end {
            Some(end) => format!("this much was synced once, but the trail ends at {end}"),
            None => "this much was synced once, but the trail has no files".to_owned(),
        };
        return Err(Error::Mismatch { trail: trail.to_string(), position: floor, reason });
    }
    while let Some(earlier) = sequences.pop().filter(|_| !history.is_complete()) {
        read_back(storage, &trail.file(earlier), earlier, &mut history)?;
    }
    recovered.last_commit = history.last_commit;
    recovered.is_open = history.is_open == Some(true);
    Ok(recovered)
}

/// Where a trail is cut that is overwritten: at `expected`, the write checkpoint, or without one at its end; in both cases no
/// later than the end of the last transaction that is whole there. `None` when there is none.
///
/// # Errors
/// [`Error::Damaged`]; [`Error::Mismatch`] when no record ends at `expected`.
pub(crate) fn overwrite_end(
    storage: &dyn Storage,
    trail: TrailName,
    recovered: &Recovered,
    expected: Option<Position>,
) -> Result<Option<Position>, Error> {
    let Some(end) = recovered.end else { return Ok(None) };
    let limit = expected.unwrap_or(end);
    for sequence in sequences(storage, trail)?.into_iter().rev().filter(|sequence| *sequence <= limit.sequence) {
        let name = trail.file(sequence);
        let at = |trouble: Trouble| trouble.at(storage, &name, 0);
        let file = storage.open_read(&name).map_err(|source| at(source.into()))?;
        let length = file.len().map_err(|source| at(source.into()))?;
        let stop = if sequence == limit.sequence { limit.rba } else { length };
        let mut forward = Forward::open(file, length).map_err(at)?;
        forward.header(sequence, length).map_err(at)?;
        let mut whole = None;
        while forward.rba() < stop {
            let bearing =
                next_bearing(&mut forward, length).map_err(|(rba, trouble)| trouble.at(storage, &name, rba))?;
            match bearing {
                Some(Bearing::Change { ends: true, .. } | Bearing::Marker) => whole = Some(forward.rba()),
                Some(_) => {}
                None => break,
            }
        }
        if forward.rba() != stop {
            let reason = format!("no record of {name} ends there");
            return Err(Error::Mismatch { trail: trail.to_string(), position: limit, reason });
        }
        if let Some(rba) = whole {
            return Ok(Some(Position::new(sequence, rba)));
        }
    }
    Ok(None)
}

/// Removes everything behind `end`, or all files without one, and tells what the trail holds then.
///
/// # Errors
/// As [`recover`].
pub(crate) fn cut(storage: &dyn Storage, trail: TrailName, end: Option<Position>) -> Result<Recovered, Error> {
    let doomed = sequences(storage, trail)?;
    for sequence in doomed.into_iter().rev().filter(|sequence| end.is_none_or(|end| *sequence > end.sequence)) {
        let name = trail.file(sequence);
        storage.remove(&name).map_err(|source| Error::io("remove", storage, &name, source))?;
        // The last one goes first, whatever happens.
        storage.sync_directory().map_err(|source| Error::io("remove", storage, &name, source))?;
    }
    if let Some(end) = end {
        let name = trail.file(end.sequence);
        let cut = || {
            let file = storage.open(&name)?;
            file.set_len(end.rba)?;
            file.sync()
        };
        cut().map_err(|source| Error::io("cut", storage, &name, source))?;
    }
    recover(storage, trail, end)
}

/// What is known of the end of a trail, gathered over files.
#[derive(Default)]
struct History {
    last_commit: Option<Commit>,
    /// Whether the last change or marker leaves a transaction open; `None` when there was neither.
    is_open: Option<bool>,
}

impl History {
    fn is_complete(&self) -> bool {
        self.last_commit.is_some() && self.is_open.is_some()
    }

    /// Adds a record that comes after all others.
    fn extend(&mut self, bearing: Bearing) {
        match bearing {
            Bearing::None => {}
            Bearing::Marker => self.is_open = Some(false),
            Bearing::Change { commit, ends } => {
                self.is_open = Some(!ends);
                if ends {
                    self.last_commit = Some(commit);
                }
            }
        }
    }

    /// Adds a record that comes before all others.
    fn extend_back(&mut self, bearing: Bearing) {
        match bearing {
            Bearing::None => {}
            Bearing::Marker => self.is_open = Some(self.is_open.unwrap_or(false)),
            Bearing::Change { commit, ends } => {
                self.is_open = Some(self.is_open.unwrap_or(!ends));
                if ends && self.last_commit.is_none() {
                    self.last_commit = Some(commit);
                }
            }
        }
    }
}

/// Cuts the last file to its last valid record, makes what is left durable and completes its header. Returns its length and
/// what it is like.
///
/// Files get their name only when their first records are synced, so the header is never torn.
fn repair_file(
    storage: &dyn Storage,
    name: &str,
    sequence: u32,
    synced: u64,
    history: &mut History,
) -> Result<(u64, LastFile), Error> {
    let io = |action| move |source| Error::io(action, storage, name, source);
    let file = storage.open(name).map_err(io("open"))?;
    let length = file.len().map_err(io("read"))?;
    let open = || -> Result<_, Trouble> {
        let mut forward = Forward::open(storage.open_read(name)?, length)?;
        let (header, place) = forward.header(sequence, length)?;
        Ok((header, forward.block()[place].to_vec(), forward))
    };
    let (header, record, mut forward) = open().map_err(|trouble| trouble.at(storage, name, 0))?;
    let mut span = None;
    let valid = loop {
        match next_bearing(&mut forward, length) {
            Ok(None) => break length,
            Ok(Some(bearing)) => {
                if let Bearing::Change { commit, .. } = &bearing {
                    extend_span(&mut span, commit);
                }
                history.extend(bearing);
            }
            Err((rba, Trouble::Damage(_))) if rba >= synced => break rba,
            Err((rba, trouble)) => return Err(trouble.at(storage, name, rba)),
        }
    };
    if valid < length && !change::sabotage::is_on("skip-tail-repair") {
        file.set_len(valid).map_err(io("repair"))?;
    }
    if !change::sabotage::is_on("believe-failed-sync") {
        rewrite(&*file, synced.min(valid), valid).map_err(io("repair"))?;
    }
    let order = forward.order();
    finish(&*file, &header, record, order, valid, span.clone()).map_err(io("repair"))?;
    Ok((valid, LastFile { header, order, span }))
}

/// Writes the bytes from `start` to `end` again, as they are.
///
/// They may be there for readers only: after a sync that failed the operating system keeps what it could not write, takes
/// it for written, and the next sync succeeds.
fn rewrite(file: &dyn File, start: u64, end: u64) -> io::Result<()> {
    let mut block = vec![0; REWRITE_BYTES.min(usize::try_from(end - start).unwrap_or(usize::MAX))];
    let mut rba = start;
    while rba < end {
        let wanted = block.len().min(usize::try_from(end - rba).unwrap_or(usize::MAX));
        let read = file.read_at(&mut block[..wanted], rba)?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        file.write_at(&block[..read], rba)?;
        rba += read as u64;
    }
    Ok(())
}

/// The bearing of the next record, or its place and what is wrong with it.
fn next_bearing(forward: &mut Forward, limit: u64) -> Result<Option<Bearing>, (u64, Trouble)> {
    let rba = forward.rba();
    let place = forward.next(limit).map_err(|trouble| (rba, trouble))?;
    let Some(place) = place else { return Ok(None) };
    let order = forward.order();
    let bearing = bearing(&forward.block()[place], order).map_err(|damage| (rba, damage.into()))?;
    Ok(Some(bearing))
}

/// Writes into the header what is known of a file to which nothing is appended any more, and syncs the file.
fn finish(
    file: &dyn File,
    header: &FileHeader,
    mut record: Vec<u8>,
    order: Order,
    length: u64,
    span: Option<Span>,
) -> io::Result<()> {
    let completion = Completion { file_size: length, span };
    if header.completion.as_ref() != Some(&completion) {
        header::complete(&mut record, order, &completion).map_err(io::Error::other)?;
        file.write_at(&record, 0)?;
    }
    file.sync()
}

/// Reads an earlier file from its end until the history is complete.
fn read_back(storage: &dyn Storage, name: &str, sequence: u32, history: &mut History) -> Result<(), Error> {
    let (mut backward, _) = open_back(storage, name, sequence)?;
    while !history.is_complete() {
        let end = backward.end();
        let order = backward.order();
        let bearing = match backward.previous() {
            Ok(Some(record)) if backward_is_header(record) => return Ok(()),
            Ok(Some(record)) => bearing(record, order).map_err(Trouble::from),
            Ok(None) => return Ok(()),
            Err(trouble) => Err(trouble),
        };
        history.extend_back(bearing.map_err(|trouble| trouble.at(storage, name, end))?);
    }
    Ok(())
}

fn backward_is_header(record: &[u8]) -> bool {
    record.first() == Some(&crate::format::token::FILE_HEADER)
}

/// Opens a finished file to be read from its end, and reads its header.
pub(crate) fn open_back(storage: &dyn Storage, name: &str, sequence: u32) -> Result<(Backward, FileHeader), Error> {
    let open = || -> Result<(Backward, FileHeader), Trouble> {
        let length = storage.open_read(name)?.len()?;
        let mut forward = Forward::open(storage.open_read(name)?, length)?;
        let (header, _) = forward.header(sequence, length)?;
        if header.completion.as_ref().is_some_and(|completion| completion.file_size > length) {
            return Err(Damage::Content("the file is shorter than it was when it was complete").into());
        }
        Ok((Backward::open(storage.open_read(name)?, forward.order(), length), header))
    };
    open().map_err(|trouble| trouble.at(storage, name, 0))
}
