//! Which files of a trail may go.
//!
//! [`plan`] is a pure decision over a [`Situation`]; [`survey`] finds out about the files, and [`remove`] carries the
//! decision out. Whoever calls them knows the readers, the rules and the time.
//!
//! # What is never removed
//! - the file that is written, and any behind it;
//! - a file that the next start of the writer reads: the one that holds the end of the trail's last complete transaction;
//! - a file that a reader has not left behind, by the position in its *durable* checkpoint, which names only what its target
//!   has flushed (unless the rules say that checkpoints do not count);
//! - a file in front of which an earlier one stays: a trail has no holes.

use crate::format::token;
use crate::recovery;
use crate::safe;
use crate::scan::{Backward, Bearing, Forward, Trouble, bearing};
use crate::storage::Storage;
use crate::{Error, Position, TrailName};
use change::Timestamp;
use std::io;
use std::time::Duration;

/// What the operator asked for: the options of PURGEOLDEXTRACTS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PurgeRules {
    /// USECHECKPOINTS: only what every reader has left behind. Without it, checkpoints of readers do not count.
    pub use_checkpoints: bool,
    /// What is kept in any case.
    pub keep: Keep,
}

/// USECHECKPOINTS and MINKEEPFILES 1.
impl Default for PurgeRules {
    fn default() -> PurgeRules {
        PurgeRules { use_checkpoints: true, keep: Keep::Files(1) }
    }
}

/// How much is kept although nobody needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// MINKEEPFILES: so many files, the one that is written included.
    Files(u32),
    /// MINKEEPHOURS or MINKEEPDAYS: files to which something was appended within this time.
    Time(Duration),
}

/// A file of the trail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrailFile {
    /// Its number.
    pub sequence: u32,
    /// Its length.
    pub bytes: u64,
    /// When the writer went on to the next file; `None` when nobody knows.
    pub settled: Option<Timestamp>,
}

/// A reader of the trail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReaderPlace {
    /// Its name, for messages: `REPLICAT R1`.
    pub name: String,
    /// Where it would go on after a crash of everything: from its durable checkpoint, never from its memory.
    pub position: Position,
}

impl ReaderPlace {
    /// The first file that it needs. At the start of a file the one before is needed, too: the reader verifies its position
    /// by the last change in front of it.
    fn needs(&self) -> u32 {
        match self.position {
            Position { sequence, rba: 0 } => sequence.saturating_sub(1),
            Position { sequence, .. } => sequence,
        }
    }
}

/// What is known of a trail.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Survey {
    /// Its files, by number.
    pub files: Vec<TrailFile>,
    /// The file that is written, or was last.
    pub written: u32,
    /// The file that holds the end of the last complete transaction, which the writer looks for when it starts.
    pub resumed: u32,
}

/// Everything that the decision rests on.
#[derive(Clone, Copy, Debug)]
pub struct Situation<'a> {
    /// The trail.
    pub survey: &'a Survey,
    /// Its readers, as far as they are known.
    pub readers: &'a [ReaderPlace],
    /// The time now.
    pub now: Timestamp,
}

/// What to do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PurgePlan {
    /// Numbers of the files to remove, in the order in which they must go.
    pub remove: Vec<u32>,
    /// Why the next file stays; `None` when the trail has no files.
    pub stays: Option<(u32, Reason)>,
    /// Readers that need a file that is removed: possible only where checkpoints do not count.
    pub cut_off: Vec<String>,
}

/// Why a file stays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// It is written.
    Written,
    /// The writer reads it when it starts.
    Resumed,
    /// A reader has not left it behind.
    Reader(String),
    /// No reader is known, so nobody can tell who still needs it.
    NoReader,
    /// The rules keep so many files.
    Count,
    /// The rules keep it for some time yet.
    Age,
    /// When it was settled is not known.
    AgeUnknown,
}

/// Decides which files go.
pub fn plan(rules: &PurgeRules, situation: &Situation<'_>) -> PurgePlan {
    let Situation { survey, readers, now } = *situation;
    let mut plan = PurgePlan::default();
    for (index, file) in survey.files.iter().enumerate() {
        let left = survey.files.len() - index;
        if let Some(reason) = reason_to_stay(rules, survey, readers, now, file, left) {
            plan.stays = Some((file.sequence, reason));
            break;
        }
        plan.remove.push(file.sequence);
    }
    if let Some(last) = plan.remove.last() {
        plan.cut_off =
            readers.iter().filter(|reader| reader.needs() <= *last).map(|reader| reader.name.clone()).collect();
    }
    plan
}

fn reason_to_stay(
    rules: &PurgeRules,
    survey: &Survey,
    readers: &[ReaderPlace],
    now: Timestamp,
    file: &TrailFile,
    left: usize,
) -> Option<Reason> {
    if file.sequence >= survey.written {
        return Some(Reason::Written);
    }
    if file.sequence >= survey.resumed {
        return Some(Reason::Resumed);
    }
    if rules.use_checkpoints && !change::sabotage::is_on("purge-unread-files") {
        if readers.is_empty() {
            return Some(Reason::NoReader);
        }
        if let Some(reader) =
            readers.iter().filter(|reader| reader.needs() <= file.sequence).min_by_key(|reader| reader.needs())
        {
            return Some(Reason::Reader(reader.name.clone()));
        }
    }
    match rules.keep {
        Keep::Files(count) if left <= count.max(1) as usize => Some(Reason::Count),
        Keep::Files(_) => None,
        Keep::Time(time) => match file.settled {
            None => Some(Reason::AgeUnknown),
            // A clock that was set back makes files young, never old.
            Some(settled) => match u64::try_from(now.micros_since(settled)).map(Duration::from_micros) {
                Ok(age) if age >= time => None,
                _ => Some(Reason::Age),
            },
        },
    }
}

/// Looks at the files of a trail. Changes nothing, and may run beside the writer.
///
/// # Errors
/// [`Error::Io`]; [`Error::Damaged`] when the end of the trail can't be read.
pub fn survey(storage: &dyn Storage, trail: TrailName) -> Result<Survey, Error> {
    let published =
        safe::published(storage, trail).map_err(|source| Error::io("read", storage, &trail.safe_file(), source))?;
    let sequences = recovery::sequences(storage, trail)?;
    // Each file was settled when the next one was made, so ages are known from the last file backwards.
    let mut files: Vec<TrailFile> = Vec::new();
    let mut settled = None;
    for &sequence in sequences.iter().rev() {
        let name = trail.file(sequence);
        let Some((bytes, created)) = look_at(storage, &name).map_err(|trouble| trouble.at(storage, &name, 0))? else {
            // Somebody else purges, too.
            break;
        };
        files.push(TrailFile { sequence, bytes, settled });
        settled = created;
    }
    files.reverse();
    let (written, resumed) = match published {
        None => (0, 0),
        Some(end) => (end.sequence, resumed(storage, trail, &files, end)?),
    };
    Ok(Survey { files, written, resumed })
}

/// Length of a file and when it was made, if its header can be read; `None` when it is gone.
fn look_at(storage: &dyn Storage, name: &str) -> Result<Option<(u64, Option<Timestamp>)>, Trouble> {
    let file = match storage.open_read(name) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let bytes = file.len()?;
    let created = Forward::open(file, bytes).and_then(|records| records.reread_header()).map(|header| header.created);
    match created {
        Ok(created) => Ok(Some((bytes, Some(created)))),
        Err(Trouble::Io(error)) => Err(error.into()),
        // A damaged file is its readers' trouble; here it only has no age.
        Err(_) => Ok(Some((bytes, None))),
    }
}

/// Number of the file that holds the end of the last complete transaction before `end`; that of the first file when there
/// is none.
fn resumed(storage: &dyn Storage, trail: TrailName, files: &[TrailFile], end: Position) -> Result<u32, Error> {
    for file in files.iter().rev().filter(|file| file.sequence <= end.sequence) {
        let name = trail.file(file.sequence);
        let length = if file.sequence == end.sequence { end.rba } else { file.bytes };
        let open = || -> Result<Backward, Trouble> {
            let order = Forward::open(storage.open_read(&name)?, length)?.order();
            Ok(Backward::open(storage.open_read(&name)?, order, length))
        };
        let mut backward = open().map_err(|trouble| trouble.at(storage, &name, 0))?;
        loop {
            let (rba, order) = (backward.end(), backward.order());
            let bearing = match backward.previous() {
                Ok(Some(record)) if record.first() == Some(&token::RECORD) => {
                    bearing(record, order).map_err(Trouble::from)
                }
                Ok(_) => break,
                Err(trouble) => Err(trouble),
            };
            if let Bearing::Change { ends: true, .. } = bearing.map_err(|trouble| trouble.at(storage, &name, rba))? {
                return Ok(file.sequence);
            }
        }
    }
    Ok(files.first().map_or(0, |file| file.sequence))
}

/// Removes files in the order given, and makes each removal durable before the next one: a crash in between leaves a trail
/// without holes. A file that is gone already is none of ours. Returns how many were removed.
///
/// # Errors
/// [`Error::Io`]; the files before are gone, the rest is there.
pub fn remove(storage: &dyn Storage, trail: TrailName, sequences: &[u32]) -> Result<usize, Error> {
    let mut removed = 0;
    for &sequence in sequences {
        let name = trail.file(sequence);
        match storage.remove(&name) {
            Ok(()) => removed += 1,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(source) => return Err(Error::io("remove", storage, &name, source)),
        }
        if !change::sabotage::is_on("purge-without-order") {
            storage.sync_directory().map_err(|source| Error::io("remove", storage, &name, source))?;
        }
    }
    Ok(removed)
}

/// Removes all files of a trail, published position included. The lock file stays. Returns how many trail files there were.
///
/// May be repeated after a crash: the published position goes first, so that readers see nothing of what is left.
///
/// # Errors
/// [`Error::Locked`] when a writer is at work; [`Error::Io`].
pub fn remove_all(storage: &dyn Storage, trail: TrailName) -> Result<usize, Error> {
    let io = |name: &str, source| Error::io("remove", storage, name, source);
    let lock_file = trail.lock_file();
    let lock = storage.lock(&lock_file).map_err(|source| Error::io("lock", storage, &lock_file, source))?;
    let Some(_lock) = lock else {
        return Err(Error::Locked { trail: trail.to_string(), place: storage.place() });
    };
    let gone = |name: &str| match storage.remove(name) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(io(name, error)),
        _ => Ok(()),
    };
    gone(&trail.safe_file())?;
    storage.sync_directory().map_err(|source| io(&trail.safe_file(), source))?;
    let names = storage.list().map_err(|source| Error::io("list", storage, &format!("{trail}*"), source))?;
    for unnamed in
        names.iter().filter(|name| name.strip_suffix(".new").is_some_and(|name| trail.sequence_of(name).is_some()))
    {
        gone(unnamed)?;
    }
    remove(storage, trail, &recovery::sequences(storage, trail)?)
}
