//! An in-memory directory that loses in a crash what was not synced.

use super::{File, Lock, Storage, Watch, Worker};
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

mod disk;
mod worker;

use disk::{Content, Disk, Fate, Incarnation, Process, crashed};
use worker::Later;

/// An in-memory directory that loses in a crash what was not synced.
///
/// Clones are handles of one process; [`another_process`](Forgetful::another_process) gives a handle to the same files
/// that fails and is killed on its own. Everything is decided by the seed and by the order of the calls.
///
/// What a [`crash`](Forgetful::crash) does
/// - Each write, cut or lengthening since the file's last sync survives whole, in part or not at all, independently of
///   the others: a disk may write them in any order.
/// - Each name leads to the file that it led to at the last [`sync_directory`](Storage::sync_directory), or to any that it
///   has led to since.
/// - Handles that were open fail from then on, and locks are free.
#[derive(Clone)]
pub struct Forgetful {
    shared: Arc<Shared>,
    process: u64,
}

struct Shared {
    disk: Mutex<Disk>,
    changed: Condvar,
}

impl Forgetful {
    /// An empty directory; `seed` decides what a crash leaves.
    pub fn new(seed: u64) -> Forgetful {
        Forgetful {
            shared: Arc::new(Shared { disk: Mutex::new(Disk::new(seed)), changed: Condvar::new() }),
            process: 0,
        }
    }

    /// The same directory for another process.
    pub fn another_process(&self) -> Forgetful {
        let mut disk = self.disk();
        disk.processes.push(Process::default());
        Forgetful { shared: Arc::clone(&self.shared), process: disk.processes.len() as u64 - 1 }
    }

    /// Power loss: loses what was not synced. Handles of all processes fail from now on; new ones work.
    pub fn crash(&self) {
        self.disk().crash();
        self.shared.changed.notify_all();
    }

    /// Ends this process only: its handles fail from now on and its locks are free, but everything it wrote stays.
    pub fn kill(&self) {
        let mut disk = self.disk();
        if let Some(process) = disk.processes.get_mut(self.process as usize) {
            process.kills += 1;
            process.fail_at = None;
        }
        let dead = self.process;
        disk.locks.retain(|_, holder| holder.process != dead);
    }

    /// Lets `calls` more calls of this process succeed; the next one breaks in the middle, and it and all later ones fail
    /// until [`crash`](Forgetful::crash) or [`kill`](Forgetful::kill).
    pub fn fail_after(&self, calls: u64) {
        if let Some(process) = self.disk().processes.get_mut(self.process as usize) {
            process.fail_at = Some(process.calls + calls);
        }
    }

    /// Lets the next `syncs` syncs of files by this process fail, as those of a disk that had a bad moment: what they were to
    /// write is still read by everybody, but no later sync writes it, and a crash shows that it is not there.
    pub fn fail_syncs(&self, syncs: u64) {
        if let Some(process) = self.disk().processes.get_mut(self.process as usize) {
            process.syncs_to_fail = syncs;
        }
    }

    /// Whether calls of this process fail because [`fail_after`](Forgetful::fail_after) has run out.
    pub fn has_failed(&self) -> bool {
        let disk = self.disk();
        disk.processes
            .get(self.process as usize)
            .is_some_and(|process| process.fail_at.is_some_and(|fail_at| process.calls > fail_at))
    }

    /// Number of I/O calls of this process so far.
    pub fn calls(&self) -> u64 {
        self.disk().processes.get(self.process as usize).map_or(0, |process| process.calls)
    }

    /// Lets the files hold at most `bytes` together, as a full disk does; `None` for no limit.
    pub fn full_after(&self, bytes: Option<u64>) {
        self.disk().bytes_max = bytes;
    }

    /// Lets work beside the caller be done as soon as it is started, for tests that set the pace themselves.
    pub fn work_at_once(&self) {
        self.disk().works_at_once = true;
    }

    /// Bytes of all files together.
    pub fn bytes(&self) -> u64 {
        self.disk().bytes()
    }

    fn disk(&self) -> MutexGuard<'_, Disk> {
        self.shared.disk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn incarnation(&self, disk: &Disk) -> Incarnation {
        let kills = disk.processes.get(self.process as usize).map_or(0, |process| process.kills);
        Incarnation { process: self.process, kills, crashes: disk.crashes }
    }

    /// Runs one call on the directory; `change` is told whether it breaks, and then its effect is a matter of luck.
    fn call<T>(&self, change: impl FnOnce(&mut Disk, Incarnation) -> io::Result<T>) -> io::Result<T> {
        let mut disk = self.disk();
        let incarnation = self.incarnation(&disk);
        let result = match disk.count(incarnation)? {
            Fate::Works => change(&mut disk, incarnation),
            Fate::Breaks => {
                if disk.random.bool() {
                    let _ = change(&mut disk, incarnation);
                }
                Err(crashed())
            }
        };
        drop(disk);
        self.shared.changed.notify_all();
        result
    }

    fn handle(&self, file: u64, incarnation: Incarnation, name: &str) -> Box<dyn File> {
        Box::new(Handle { storage: self.clone(), file, incarnation, name: name.to_owned(), steps_max: None })
    }
}

impl Storage for Forgetful {
    fn create(&self, name: &str) -> io::Result<Box<dyn File>> {
        let (file, incarnation) = self.call(|disk, incarnation| {
            if disk.names.contains_key(name) {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            let file = disk.make_file(Vec::new());
            disk.point(name, Some(file));
            Ok((file, incarnation))
        })?;
        Ok(self.handle(file, incarnation, name))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn File>> {
        let (file, incarnation) = self.call(|disk, incarnation| Ok((disk.find(name)?, incarnation)))?;
        Ok(self.handle(file, incarnation, name))
    }

    fn open_read(&self, name: &str) -> io::Result<Box<dyn File>> {
        self.open(name)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.call(|disk, _| Ok(disk.names.keys().cloned().collect()))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.call(|disk, _| {
            disk.find(name)?;
            disk.point(name, None);
            Ok(())
        })
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.call(|disk, _| {
            let file = disk.find(from)?;
            disk.point(to, Some(file));
            disk.point(from, None);
            Ok(())
        })
    }

    fn sync_directory(&self) -> io::Result<()> {
        self.call(|disk, _| {
            disk.name_history.clear();
            disk.drop_unnamed();
            Ok(())
        })
    }

    fn watch(&self, name: &str) -> io::Result<Box<dyn Watch>> {
        let seen = self.call(|disk, _| Ok(disk.version(name)))?;
        Ok(Box::new(ForgetfulWatch { storage: self.clone(), name: name.to_owned(), seen }))
    }

    fn replace(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        self.call(|disk, _| {
            disk.make_room(bytes.len() as u64)?;
            let file = disk.make_file(bytes.to_vec());
            disk.point(name, Some(file));
            Ok(())
        })
    }

    fn read_whole(&self, name: &str) -> io::Result<Vec<u8>> {
        self.call(|disk, _| {
            let file = disk.find(name)?;
            Ok(disk.files.get(&file).map(|content| content.bytes.clone()).unwrap_or_default())
        })
    }

    fn lock(&self, name: &str) -> io::Result<Option<Box<dyn Lock>>> {
        let taken = self.call(|disk, incarnation| {
            let free = !disk.locks.contains_key(name);
            if free {
                disk.locks.insert(name.to_owned(), incarnation);
            }
            Ok(free.then_some(incarnation))
        })?;
        Ok(taken.map(|incarnation| {
            Box::new(HeldLock { storage: self.clone(), name: name.to_owned(), incarnation }) as Box<dyn Lock>
        }))
    }

    /// Work that is done at once, at the first look at its result, or some looks later, as the seed decides.
    fn worker(&self) -> Box<dyn Worker> {
        Box::new(Later::new(self))
    }

    fn place(&self) -> String {
        "memory".to_owned()
    }
}

struct Handle {
    storage: Forgetful,
    file: u64,
    incarnation: Incarnation,
    name: String,
    /// A sync writes no more than so many of all changes that the content has seen.
    steps_max: Option<u64>,
}

impl Handle {
    fn call<T>(&self, change: impl FnOnce(&mut Disk, Fate) -> io::Result<T>) -> io::Result<T> {
        let mut disk = self.storage.disk();
        let fate = disk.count(self.incarnation)?;
        let result = change(&mut disk, fate);
        if fate == Fate::Breaks { Err(crashed()) } else { result }
    }

    fn changed(&self, disk: &mut Disk) {
        // A file that has lost its name is no longer what watchers of the name look at.
        if disk.names.get(&self.name) == Some(&self.file) {
            disk.touch(&self.name);
        }
        self.storage.shared.changed.notify_all();
    }
}

/// The content that a handle leads to.
fn content(disk: &mut Disk, file: u64) -> io::Result<&mut Content> {
    disk.files.get_mut(&file).ok_or_else(|| io::ErrorKind::NotFound.into())
}

impl File for Handle {
    fn len(&self) -> io::Result<u64> {
        self.call(|disk, _| Ok(content(disk, self.file)?.bytes.len() as u64))
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.call(|disk, _| {
            let bytes = &content(disk, self.file)?.bytes;
            let rest = bytes.get(offset as usize..).unwrap_or_default();
            let count = rest.len().min(buffer.len());
            buffer[..count].copy_from_slice(&rest[..count]);
            Ok(count)
        })
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.call(|disk, fate| {
            let length = content(disk, self.file)?.bytes.len() as u64;
            let growth = (offset + bytes.len() as u64).saturating_sub(length);
            let room = disk.bytes_max.map_or(u64::MAX, |max| max.saturating_sub(disk.bytes()));
            let mut written = bytes.len() - growth.saturating_sub(room).min(bytes.len() as u64) as usize;
            if fate == Fate::Breaks {
                written = disk.random.usize(..=written);
            }
            content(disk, self.file)?.write(offset as usize, &bytes[..written]);
            self.changed(disk);
            if written < bytes.len() { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
        })
    }

    fn sync(&self) -> io::Result<()> {
        self.call(|disk, fate| {
            if disk.fails_sync(self.incarnation) {
                content(disk, self.file)?.lose_unsynced(self.steps_max);
                return Err(io::Error::other("the disk lost what it was to write"));
            }
            if fate == Fate::Works || disk.random.bool() {
                content(disk, self.file)?.sync(self.steps_max);
            }
            Ok(())
        })
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.call(|disk, fate| {
            if fate == Fate::Works || disk.random.bool() {
                content(disk, self.file)?.set_length(length as usize);
                self.changed(disk);
            }
            Ok(())
        })
    }

    fn duplicate(&self) -> io::Result<Box<dyn File>> {
        let steps = self.call(|disk, _| Ok(content(disk, self.file)?.steps()))?;
        let (storage, name) = (self.storage.clone(), self.name.clone());
        Ok(Box::new(Handle { storage, name, file: self.file, incarnation: self.incarnation, steps_max: Some(steps) }))
    }
}

struct HeldLock {
    storage: Forgetful,
    name: String,
    incarnation: Incarnation,
}

impl Lock for HeldLock {}

impl Drop for HeldLock {
    fn drop(&mut self) {
        let mut disk = self.storage.disk();
        // After a crash the name may be held by somebody else.
        if disk.locks.get(&self.name) == Some(&self.incarnation) {
            disk.locks.remove(&self.name);
        }
    }
}

struct ForgetfulWatch {
    storage: Forgetful,
    name: String,
    seen: u64,
}

impl Watch for ForgetfulWatch {
    fn wait(&mut self, timeout: Duration) -> io::Result<bool> {
        let (disk, _) = self
            .storage
            .shared
            .changed
            .wait_timeout_while(self.storage.disk(), timeout, |disk| disk.version(&self.name) == self.seen)
            .unwrap_or_else(PoisonError::into_inner);
        let version = disk.version(&self.name);
        drop(disk);
        Ok(std::mem::replace(&mut self.seen, version) != version)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn synced_bytes_and_names_survive_every_crash_and_others_may_not() {
        let mut lost = 0;
        for seed in 0..200 {
            let storage = Forgetful::new(seed);
            let kept = storage.create("kept").expect("creates");
            kept.write_at(b"synced", 0).expect("writes");
            kept.sync().expect("syncs");
            storage.sync_directory().expect("syncs names");
            kept.write_at(b" and not", 6).expect("writes");
            storage.create("gone").expect("creates");
            storage.crash();
            assert!(kept.len().is_err(), "handles do not outlive a crash");
            let bytes = storage.read_whole("kept").expect("a synced name survives");
            assert!(bytes.starts_with(b"synced"), "seed {seed}");
            lost += usize::from(bytes != b"synced and not") + usize::from(storage.read_whole("gone").is_err());
        }
        assert!(lost > 100, "crashes lose something: {lost}");
    }

    #[test]
    fn what_a_failed_sync_was_to_write_is_lost_unless_it_is_written_again() {
        for is_written_again in [false, true] {
            let storage = Forgetful::new(1);
            let file = storage.create("f").expect("creates");
            storage.sync_directory().expect("syncs names");
            storage.fail_syncs(1);
            file.write_at(b"a", 0).expect("writes");
            assert!(file.sync().is_err());
            assert_eq!(storage.read_whole("f").expect("reads"), b"a");
            if is_written_again {
                file.write_at(b"a", 0).expect("writes");
            }
            file.sync().expect("syncs");
            storage.crash();
            let expected: &[u8] = if is_written_again { b"a" } else { b"" };
            assert_eq!(storage.read_whole("f").expect("reads"), expected);
        }
    }

    #[test]
    fn a_duplicate_syncs_what_was_written_before_it_was_made_and_no_more() {
        let left = |seed| {
            let storage = Forgetful::new(seed);
            let file = storage.create("f").expect("creates");
            storage.sync_directory().expect("syncs names");
            file.write_at(b"a", 0).expect("writes");
            let duplicate = file.duplicate().expect("duplicates");
            file.write_at(b"b", 1).expect("writes");
            duplicate.sync().expect("syncs");
            duplicate.sync().expect("syncs again");
            storage.crash();
            storage.read_whole("f").expect("reads")
        };
        let left: Vec<_> = (0..20).map(left).collect();
        assert!(left.iter().all(|bytes| bytes.starts_with(b"a")), "{left:?}");
        assert!(left.iter().any(|bytes| bytes == b"a"), "{left:?}");
    }

    #[test]
    fn the_same_seed_leaves_the_same_bytes() {
        let run = |seed| {
            let storage = Forgetful::new(seed);
            let file = storage.create("f").expect("creates");
            storage.sync_directory().expect("syncs names");
            (0..20).for_each(|step| file.write_at(&[step; 700], u64::from(step) * 600).expect("writes"));
            storage.crash();
            storage.read_whole("f").expect("reads")
        };
        assert_eq!(run(7), run(7));
    }

    #[test]
    fn calls_fail_from_the_chosen_one_until_the_crash() {
        let storage = Forgetful::new(1);
        let file = storage.create("f").expect("creates");
        storage.fail_after(1);
        file.write_at(b"a", 0).expect("one more works");
        assert!(file.write_at(b"b", 1).is_err() && file.len().is_err() && storage.list().is_err());
        assert!(storage.has_failed());
        storage.crash();
        assert!(!storage.has_failed());
        storage.list().expect("works again");
    }

    #[test]
    fn a_killed_process_keeps_its_bytes_and_frees_its_locks() {
        let first = Forgetful::new(1);
        let second = first.another_process();
        let file = first.create("f").expect("creates");
        file.write_at(b"a", 0).expect("writes");
        let _lock = first.lock("l").expect("locks").expect("is free");
        assert!(second.lock("l").expect("asks").is_none());
        first.kill();
        assert!(file.len().is_err());
        assert!(second.lock("l").expect("asks").is_some());
        assert_eq!(second.read_whole("f").expect("reads"), b"a");
    }
}
