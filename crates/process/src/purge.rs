//! Removing old files of a trail on behalf of a home: its checkpoint files tell how far each reader has come.

use crate::{CheckpointBody, CheckpointFile, Failure, GroupName, Home, HomeLock, LockError, TrailPlace};
use change::Timestamp;
use std::time::Duration;
use trail::purge::{self, PurgePlan, PurgeRules, ReaderPlace, Reason, Situation};
use trail::storage::Directory;

/// How long after its trail went on to another file a group looks: its own checkpoint has followed by then.
const AFTER_NEW_FILE: Duration = Duration::from_secs(2);

/// A trail of a home and the rules by which its files go.
#[derive(Clone, Debug)]
pub struct Purge {
    /// The trail.
    pub place: TrailPlace,
    /// The rules.
    pub rules: PurgeRules,
}

/// What was removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Purged {
    /// How many files.
    pub files: usize,
    /// Number of the last one.
    pub last: u32,
    /// Their bytes.
    pub bytes: u64,
    /// Why the next file stays.
    pub stays: Option<(u32, Reason)>,
    /// Readers that needed one of them.
    pub cut_off: Vec<String>,
}

impl Purge {
    /// Removes what may go. `None` when nothing did, or when a console command is changing groups right now.
    ///
    /// # Errors
    /// When a reader's checkpoint can't be read, so that nobody knows what it needs, and when the trail can't be looked at or
    /// a file can't be removed. Trying again later is safe.
    pub fn run(&self, home: &Home, now: Timestamp) -> Result<Option<Purged>, Box<Failure>> {
        // No reader may be added between the look at the checkpoints and the removal.
        let _home = match HomeLock::acquire(home) {
            Ok(lock) => lock,
            Err(LockError::HomeInUse { .. }) => return Ok(None),
            Err(error) => return Err(Box::new(Failure::from(&error))),
        };
        let storage = Directory::new(&self.place.directory);
        let trail = self.place.name;
        let of_trail = |error: trail::Error| Box::new(Failure::from(&error));
        let readers = trail_readers(home, &self.place)?;
        let survey = purge::survey(&storage, trail).map_err(of_trail)?;
        let situation = Situation { survey: &survey, readers: &readers, now };
        let PurgePlan { remove, stays, cut_off } = purge::plan(&self.rules, &situation);
        let Some(&last) = remove.last() else { return Ok(None) };
        let files = purge::remove(&storage, trail, &remove).map_err(of_trail)?;
        let bytes = survey.files.iter().filter(|file| file.sequence <= last).map(|file| file.bytes).sum();
        Ok(Some(Purged { files, last, bytes, stays, cut_off }))
    }
}

/// The groups of a home that read a trail, with their durable positions.
///
/// # Errors
/// When one of the home's checkpoint files can't be read: it may be that of a reader.
pub fn trail_readers(home: &Home, place: &TrailPlace) -> Result<Vec<ReaderPlace>, Box<Failure>> {
    Ok(trail_reader_groups(home, place)?.into_iter().map(|(_, reader)| reader).collect())
}

/// The same with the names of the groups.
///
/// # Errors
/// As [`trail_readers`].
pub fn trail_reader_groups(home: &Home, place: &TrailPlace) -> Result<Vec<(GroupName, ReaderPlace)>, Box<Failure>> {
    let storage = Directory::new(home.dirchk());
    let mut readers = Vec::new();
    for (kind, group) in home.groups().map_err(|error| Failure::from(&error))? {
        let checkpoints = CheckpointFile::read(&storage, kind, &group, 1).map_err(|error| Failure::from(&error))?;
        let read = checkpoints.iter().filter_map(|checkpoint| match &checkpoint.body {
            CheckpointBody::Replicat(body) => Some((body.trail.clone(), body.current)),
            CheckpointBody::Extract(body) => {
                let input = body.input.as_ref()?;
                Some((input.trail.clone(), body.trail_position().unwrap_or_default()))
            }
        });
        for (trail, position) in read {
            let read = TrailPlace::parse(home.path(), &trail).map_err(|error| Failure::from(&error))?;
            if read.is_same(place) {
                let reader = ReaderPlace { name: format!("{kind} {group}"), position };
                readers.push((group.clone(), reader));
            }
        }
    }
    Ok(readers)
}

/// When a group looks for files to remove: at its start, shortly after its trail went on to another file, and every so
/// often.
#[derive(Clone, Debug)]
pub struct PurgeSchedule {
    every: Duration,
    looked: Option<Timestamp>,
    file: u32,
    moved: Option<Timestamp>,
}

impl PurgeSchedule {
    /// A schedule that is due at once, and then at least every `every`.
    pub fn new(every: Duration) -> PurgeSchedule {
        PurgeSchedule { every, looked: None, file: 0, moved: None }
    }

    /// Whether to look now, when the group has come to file `file` of its trail. Says so once.
    pub fn is_due(&mut self, file: u32, now: Timestamp) -> bool {
        if file != self.file {
            self.file = file;
            self.moved.get_or_insert(now);
        }
        let has_passed = |since: Option<Timestamp>, time| since.is_some_and(|since| now.elapsed_since(since) >= time);
        let is_due =
            self.looked.is_none() || has_passed(self.looked, self.every) || has_passed(self.moved, AFTER_NEW_FILE);
        if is_due {
            self.looked = Some(now);
            self.moved = None;
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_looks_at_its_start_after_a_new_file_and_every_so_often() {
        let mut schedule = PurgeSchedule::new(Duration::from_secs(600));
        let mut due = |file, second: i64| schedule.is_due(file, Timestamp::from_unix_micros(second * 1_000_000));
        assert!(due(0, 1000));
        assert!(!due(0, 1001) && !due(0, 1599));
        assert!(due(0, 1600));
        // The wait counts from the first new file: a trail that goes on and on is looked after all the same.
        assert!(!due(1, 1700) && !due(2, 1701));
        assert!(due(3, 1702));
        assert!(!due(3, 1703) && !due(3, 1705));
        assert!(due(3, 2302));
        // A clock that was set back holds nothing up.
        assert!(due(3, 5));
    }
}
