//! What the disk holds, what of it is synced, and what a crash makes of the rest.

use std::collections::{BTreeMap, HashMap};
use std::io;

pub(super) struct Disk {
    pub(super) random: fastrand::Rng,
    pub(super) names: BTreeMap<String, u64>,
    /// Per name that changed since the directory was synced: the files it led to, the durable one first.
    pub(super) name_history: BTreeMap<String, Vec<Option<u64>>>,
    pub(super) files: HashMap<u64, Content>,
    pub(super) files_made: u64,
    pub(super) locks: HashMap<String, Incarnation>,
    pub(super) processes: Vec<Process>,
    pub(super) crashes: u64,
    pub(super) bytes_max: Option<u64>,
    /// Work beside the caller takes no time.
    pub(super) works_at_once: bool,
    /// Counts changes per name, for watches.
    pub(super) versions: HashMap<String, u64>,
}

#[derive(Default)]
pub(super) struct Process {
    pub(super) kills: u64,
    pub(super) calls: u64,
    pub(super) fail_at: Option<u64>,
    pub(super) syncs_to_fail: u64,
}

/// One life of one process; handles and locks belong to it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Incarnation {
    pub(super) process: u64,
    pub(super) kills: u64,
    pub(super) crashes: u64,
}

#[derive(Default)]
pub(super) struct Content {
    /// What everybody sees.
    pub(super) bytes: Vec<u8>,
    /// What is on the disk for sure.
    durable: Vec<u8>,
    /// What was done since the last sync.
    unsynced: Vec<Step>,
    /// How much was done before that.
    settled: u64,
}

/// One change of a file's content.
enum Step {
    Write { offset: usize, new: Vec<u8> },
    Length { length: usize },
}

/// What becomes of one I/O call.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Works,
    /// The process dies in the middle of it.
    Breaks,
}

impl Disk {
    pub(super) fn new(seed: u64) -> Disk {
        Disk {
            random: fastrand::Rng::with_seed(seed),
            names: BTreeMap::new(),
            name_history: BTreeMap::new(),
            files: HashMap::new(),
            files_made: 0,
            locks: HashMap::new(),
            processes: vec![Process::default()],
            crashes: 0,
            bytes_max: None,
            works_at_once: false,
            versions: HashMap::new(),
        }
    }

    /// Counts a call and tells what becomes of it.
    pub(super) fn count(&mut self, incarnation: Incarnation) -> io::Result<Fate> {
        let crashes = self.crashes;
        let process = self.processes.get_mut(incarnation.process as usize).ok_or_else(crashed)?;
        if process.kills != incarnation.kills || crashes != incarnation.crashes {
            return Err(crashed());
        }
        process.calls += 1;
        match process.fail_at {
            Some(fail_at) if process.calls == fail_at + 1 => Ok(Fate::Breaks),
            Some(fail_at) if process.calls > fail_at => Err(crashed()),
            _ => Ok(Fate::Works),
        }
    }

    /// Whether the disk loses what the next sync of a process is to write.
    pub(super) fn fails_sync(&mut self, incarnation: Incarnation) -> bool {
        let Some(process) = self.processes.get_mut(incarnation.process as usize) else { return false };
        let fails = process.syncs_to_fail > 0;
        process.syncs_to_fail -= u64::from(fails);
        fails
    }

    pub(super) fn find(&self, name: &str) -> io::Result<u64> {
        self.names.get(name).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    pub(super) fn make_file(&mut self, bytes: Vec<u8>) -> u64 {
        self.files_made += 1;
        self.files.insert(self.files_made, Content::of(bytes));
        self.files_made
    }

    /// Lets `name` lead to `file`.
    pub(super) fn point(&mut self, name: &str, file: Option<u64>) {
        let before = self.names.get(name).copied();
        self.name_history.entry(name.to_owned()).or_insert_with(|| vec![before]).push(file);
        match file {
            Some(file) => self.names.insert(name.to_owned(), file),
            None => self.names.remove(name),
        };
        self.touch(name);
    }

    pub(super) fn version(&self, name: &str) -> u64 {
        self.versions.get(name).copied().unwrap_or(0)
    }

    pub(super) fn touch(&mut self, name: &str) {
        *self.versions.entry(name.to_owned()).or_default() += 1;
    }

    pub(super) fn bytes(&self) -> u64 {
        self.names.values().filter_map(|file| self.files.get(file)).map(|content| content.bytes.len() as u64).sum()
    }

    pub(super) fn make_room(&self, bytes: u64) -> io::Result<()> {
        match self.bytes_max {
            Some(max) if self.bytes() + bytes > max => Err(io::ErrorKind::StorageFull.into()),
            _ => Ok(()),
        }
    }

    pub(super) fn drop_unnamed(&mut self) {
        let named: Vec<u64> = self.names.values().copied().collect();
        self.files.retain(|file, _| named.contains(file));
    }

    pub(super) fn crash(&mut self) {
        for (name, history) in std::mem::take(&mut self.name_history) {
            let choice = self.random.usize(..history.len());
            match history.get(choice).copied().flatten() {
                Some(file) => self.names.insert(name, file),
                None => self.names.remove(&name),
            };
        }
        self.drop_unnamed();
        // In a fixed order, so that the seed alone decides.
        let mut files: Vec<u64> = self.files.keys().copied().collect();
        files.sort_unstable();
        for file in files {
            if let Some(content) = self.files.get_mut(&file) {
                content.crash(&mut self.random);
            }
        }
        self.crashes += 1;
        self.locks.clear();
        for process in &mut self.processes {
            process.fail_at = None;
            process.syncs_to_fail = 0;
        }
    }
}

impl Content {
    pub(super) fn of(bytes: Vec<u8>) -> Content {
        let mut content = Content::default();
        content.write(0, &bytes);
        content
    }

    pub(super) fn write(&mut self, offset: usize, new: &[u8]) {
        put(&mut self.bytes, offset, new);
        self.unsynced.push(Step::Write { offset, new: new.to_vec() });
    }

    pub(super) fn set_length(&mut self, length: usize) {
        self.bytes.resize(length, 0);
        self.unsynced.push(Step::Length { length });
    }

    /// How many changes there were so far.
    pub(super) fn steps(&self) -> u64 {
        self.settled + self.unsynced.len() as u64
    }

    /// The changes that a sync takes which stops after the first `steps_max` of all.
    fn take_unsynced(&mut self, steps_max: Option<u64>) -> Vec<Step> {
        let count = steps_max.map_or(usize::MAX, |max| max.saturating_sub(self.settled) as usize);
        let taken: Vec<Step> = self.unsynced.drain(..count.min(self.unsynced.len())).collect();
        self.settled += taken.len() as u64;
        taken
    }

    pub(super) fn sync(&mut self, steps_max: Option<u64>) {
        for step in self.take_unsynced(steps_max) {
            match step {
                Step::Write { offset, new } => put(&mut self.durable, offset, &new),
                Step::Length { length } => self.durable.resize(length, 0),
            }
        }
    }

    /// What a sync was to write stays to be seen, and no later sync writes it.
    pub(super) fn lose_unsynced(&mut self, steps_max: Option<u64>) {
        self.take_unsynced(steps_max);
    }

    fn crash(&mut self, random: &mut fastrand::Rng) {
        self.bytes.clone_from(&self.durable);
        // All or nothing are the commonest outcomes of a real crash, so they get their share.
        let mood = random.u8(..4);
        for step in self.take_unsynced(None) {
            let survives = match mood {
                0 => false,
                1 => true,
                _ => random.bool(),
            };
            match step {
                Step::Write { offset, new } if survives => put(&mut self.bytes, offset, &new),
                Step::Write { offset, new } if mood > 1 => put_torn(&mut self.bytes, offset, &new, random),
                Step::Length { length } if survives => self.bytes.resize(length, 0),
                Step::Write { .. } | Step::Length { .. } => {}
            }
        }
        self.durable.clone_from(&self.bytes);
    }
}

fn put(bytes: &mut Vec<u8>, offset: usize, new: &[u8]) {
    let end = offset + new.len();
    if bytes.len() < end {
        bytes.resize(end, 0);
    }
    bytes[offset..end].copy_from_slice(new);
}

/// Writes a part of `new`: the beginning, or some of its sectors.
fn put_torn(bytes: &mut Vec<u8>, offset: usize, new: &[u8], random: &mut fastrand::Rng) {
    if random.bool() {
        put(bytes, offset, &new[..random.usize(..=new.len())]);
        return;
    }
    for (sector, part) in new.chunks(512).enumerate() {
        if random.bool() {
            put(bytes, offset + sector * 512, part);
        }
    }
}

pub(super) fn crashed() -> io::Error {
    io::Error::other("crashed")
}
