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
    /// Counts changes per name, for watches.
    pub(super) versions: HashMap<String, u64>,
}

#[derive(Default)]
pub(super) struct Process {
    pub(super) kills: u64,
    pub(super) calls: u64,
    pub(super) fail_at: Option<u64>,
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
    pub(super) bytes: Vec<u8>,
    pub(super) unsynced: Vec<Step>,
}

/// One change of a file's content, with what is needed to take it back.
pub(super) enum Step {
    Write { offset: usize, new: Vec<u8>, old: Vec<u8>, old_length: usize },
    Length { new_length: usize, old_length: usize, cut: Vec<u8> },
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

    pub(super) fn find(&self, name: &str) -> io::Result<u64> {
        self.names.get(name).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    pub(super) fn make_file(&mut self, bytes: Vec<u8>) -> u64 {
        self.files_made += 1;
        let step = Step::Write { offset: 0, new: bytes.clone(), old: Vec::new(), old_length: 0 };
        self.files.insert(self.files_made, Content { bytes, unsynced: vec![step] });
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
        }
    }
}

impl Content {
    pub(super) fn write(&mut self, offset: usize, new: &[u8]) {
        let end = offset + new.len();
        let old_length = self.bytes.len();
        let old = self.bytes.get(offset..end.min(old_length)).unwrap_or_default().to_vec();
        self.unsynced.push(Step::Write { offset, new: new.to_vec(), old, old_length });
        self.put(offset, new);
    }

    pub(super) fn set_length(&mut self, new_length: usize) {
        let old_length = self.bytes.len();
        let cut = self.bytes.get(new_length..).unwrap_or_default().to_vec();
        self.unsynced.push(Step::Length { new_length, old_length, cut });
        self.bytes.resize(new_length, 0);
    }

    pub(super) fn put(&mut self, offset: usize, new: &[u8]) {
        let end = offset + new.len();
        if self.bytes.len() < end {
            self.bytes.resize(end, 0);
        }
        self.bytes[offset..end].copy_from_slice(new);
    }

    pub(super) fn undo(&mut self, step: &Step) {
        match step {
            Step::Write { offset, old, old_length, .. } => {
                self.put(*offset, old);
                self.bytes.resize(*old_length, 0);
            }
            Step::Length { old_length, cut, .. } => {
                self.bytes.truncate(*old_length);
                self.bytes.resize(*old_length - cut.len(), 0);
                self.bytes.extend_from_slice(cut);
            }
        }
    }

    pub(super) fn crash(&mut self, random: &mut fastrand::Rng) {
        let steps = std::mem::take(&mut self.unsynced);
        for step in steps.iter().rev() {
            self.undo(step);
        }
        // All or nothing are the commonest outcomes of a real crash, so they get their share.
        let mood = random.u8(..4);
        for step in steps {
            let survives = match mood {
                0 => false,
                1 => true,
                _ => random.bool(),
            };
            match step {
                Step::Write { offset, new, .. } if survives => self.put(offset, &new),
                Step::Write { offset, new, .. } if mood > 1 => self.put_torn(offset, &new, random),
                Step::Length { new_length, .. } if survives => self.bytes.resize(new_length, 0),
                Step::Write { .. } | Step::Length { .. } => {}
            }
        }
    }

    /// Writes a part of `new`: the beginning, or some of its sectors.
    pub(super) fn put_torn(&mut self, offset: usize, new: &[u8], random: &mut fastrand::Rng) {
        if random.bool() {
            self.put(offset, &new[..random.usize(..=new.len())]);
            return;
        }
        for (sector, part) in new.chunks(512).enumerate() {
            if random.bool() {
                self.put(offset + sector * 512, part);
            }
        }
    }
}

pub(super) fn crashed() -> io::Error {
    io::Error::other("crashed")
}
