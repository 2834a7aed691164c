//! BR checkpoints on a disk.

use super::manifest::{Manifest, Object};
use super::object;
use super::schedule::{Plan, Schedule, Seen};
use crate::long::clock_text;
use crate::open::{Error, Place, Store};
use change::{LogPosition, Timestamp, TransactionId};
use process::{BoundedCheckpoint, ReadCheckpoint};
use std::collections::{BTreeMap, HashSet};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use trail::storage::Storage;

/// The shortest BRINTERVAL.
pub const INTERVAL_MIN: Duration = Duration::from_secs(20 * 60);
/// The longest BRINTERVAL.
pub const INTERVAL_MAX: Duration = Duration::from_secs(96 * 60 * 60);
/// BRINTERVAL when it is not given.
pub const INTERVAL_DEFAULT: Duration = Duration::from_secs(4 * 60 * 60);

/// How Bounded Recovery works.
#[derive(Clone, Debug)]
pub struct BoundedOptions {
    /// The group, with which file names start.
    pub group: String,
    /// BRINTERVAL.
    pub interval: Duration,
    /// BRKEEPSTALEFILES: files that are needed no more stay.
    pub keep_stale_files: bool,
    /// BROFFONFAILURE: after a failure no further BR checkpoints are taken.
    pub off_on_failure: bool,
    /// BRRESET: what was persisted is not used at this start.
    pub reset: bool,
    /// A checksum of the TABLE statements: what was persisted under others is not used.
    pub tables: u32,
}

/// Bounded Recovery of one Extract.
pub struct Bounded {
    storage: Arc<dyn Storage>,
    options: BoundedOptions,
    schedule: Schedule,
    /// Files of the checkpoint that counts.
    objects: BTreeMap<TransactionId, Object>,
    /// Files of the one that waits.
    written: Vec<Object>,
    is_off: bool,
    /// The operator said so (BRSTOP).
    is_stopped: bool,
    /// When the operator wants one.
    wanted: Option<Timestamp>,
    done: Done,
    /// The one that counts, and the begin of the one before.
    counts: Option<Plan>,
    previous: Option<ReadCheckpoint>,
    warned_of_short_log: bool,
}

/// What was done since the start.
#[derive(Default)]
struct Done {
    taken: u64,
    failed: u64,
    objects: u64,
    bytes: u64,
    kept: u64,
}

/// What a start finds.
#[derive(Default)]
pub(crate) struct Restored {
    /// Where reading starts, when it is not the recovery position.
    pub(crate) begin: Option<LogPosition>,
    /// Where the objects were taken.
    pub(crate) end: Option<LogPosition>,
    pub(crate) transactions: HashSet<TransactionId>,
    pub(crate) notice: Vec<String>,
}

/// The BR checkpoint that counts, for INFO … SHOWCH.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoundedStatus {
    /// Number of the checkpoint.
    pub number: u64,
    /// When it was taken.
    pub time: Timestamp,
    /// BR Begin Recovery Checkpoint.
    pub begin: LogPosition,
    /// BR End Recovery Checkpoint.
    pub end: LogPosition,
    /// Transactions that it holds.
    pub transactions: Vec<TransactionId>,
}

/// The BR checkpoint of `group` that counts, if there is one that can be read. Changes nothing.
pub fn status(storage: &dyn Storage, group: &str) -> Option<BoundedStatus> {
    let manifest = Manifest::decode(&storage.read_whole(&manifest_name(group)).ok()?).ok()?;
    let Manifest { number, time, begin, end, objects, .. } = manifest;
    let transactions = objects.into_iter().map(|object| object.transaction).collect();
    Some(BoundedStatus { number, time, begin, end, transactions })
}

/// What [`BoundedOptions::tables`] is for these TABLE statements.
pub fn mark_of(statements: &str) -> u32 {
    crc32fast::hash(statements.as_bytes())
}

impl Bounded {
    /// Bounded Recovery with its files in `storage`.
    pub fn new(storage: Arc<dyn Storage>, options: BoundedOptions) -> Bounded {
        let schedule = Schedule::new(options.interval, Timestamp::default(), 0, []);
        Bounded {
            storage,
            options,
            schedule,
            objects: BTreeMap::new(),
            written: Vec::new(),
            is_off: false,
            is_stopped: false,
            wanted: None,
            done: Done::default(),
            counts: None,
            previous: None,
            warned_of_short_log: false,
        }
    }

    /// Puts into the store what the last checkpoint holds. `place` is where the Extract's own checkpoint stands.
    ///
    /// # Errors
    /// [`Error::Full`]: what is on disk is good, and must not be passed over because the store has no room for it.
    pub(crate) fn restore(&mut self, now: Timestamp, place: &Place, store: &mut Store) -> Result<Restored, Error> {
        let manifest_name = manifest_name(&self.options.group);
        let found = match self.storage.read_whole(&manifest_name) {
            Ok(bytes) => Manifest::decode(&bytes).map_err(|reason| format!("{manifest_name} can't be used: {reason}")),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.start(now, 0, None, store);
                return Ok(Restored::default());
            }
            Err(error) => Err(format!("{manifest_name} can't be read: {error}")),
        };
        let number = found.as_ref().map_or(0, |manifest| manifest.number);
        // Everything that was open there has ended, and the log before the recovery position may be gone.
        if found.as_ref().is_ok_and(|manifest| manifest.begin <= place.recovery && manifest.end <= place.current) {
            let last = found.as_ref().map_or(now, |manifest| manifest.time);
            self.start(last, number, None, store);
            return Ok(Restored::default());
        }
        let found = match found {
            Ok(manifest) => self.restore_all(&manifest, place, store)?.map(|()| manifest),
            Err(reason) => Err(reason),
        };
        Ok(match found {
            Ok(manifest) => {
                let transactions: HashSet<TransactionId> =
                    manifest.objects.iter().map(|object| object.transaction.clone()).collect();
                let notice = format!(
                    "Bounded Recovery: {} transactions restored from the checkpoint of {}; the log is read from {} on, the \
                     oldest open transaction started at {}",
                    transactions.len(),
                    manifest.time,
                    manifest.begin,
                    place.recovery,
                );
                let (begin, end) = (manifest.begin.clone(), manifest.end.clone());
                self.start(now, number, Some(manifest), store);
                if !self.options.keep_stale_files {
                    self.remove_strays();
                }
                Restored { begin: Some(begin), end: Some(end), transactions, notice: vec![notice] }
            }
            Err(reason) => {
                for open in store.list() {
                    store.abort(&open.transaction);
                }
                self.start(now, number, None, store);
                let notice = format!(
                    "DRV-00424: Bounded Recovery is not used at this start: {reason}. Nothing is lost: the log is read from {} \
                     on, where the oldest open transaction starts",
                    place.recovery
                );
                Restored { notice: vec![notice], ..Restored::default() }
            }
        })
    }

    /// Restores all objects of `manifest`, or says why it can't be used.
    fn restore_all(&self, manifest: &Manifest, place: &Place, store: &mut Store) -> Result<Result<(), String>, Error> {
        if self.options.reset {
            return Ok(Err("BRRESET was asked for".to_owned()));
        }
        if manifest.end > place.current {
            return Ok(Err("the Extract was put to an earlier position since".to_owned()));
        }
        if manifest.tables != self.options.tables {
            return Ok(Err("the TABLE statements have changed".to_owned()));
        }
        let forget = change::sabotage::is_on("forget-persisted-transaction");
        for object in manifest.objects.iter().skip(usize::from(forget)) {
            match object::restore(&*self.storage, object, store) {
                Ok(()) => {}
                Err(full @ Error::Full { .. }) => return Err(full),
                Err(error) => return Ok(Err(chain(&error))),
            }
        }
        Ok(Ok(()))
    }

    /// From here on checkpoints are taken; `manifest` is the one that counts.
    fn start(&mut self, now: Timestamp, number: u64, manifest: Option<Manifest>, store: &Store) {
        // The interval goes on: a process that is restarted more often must not put the checkpoint off for ever.
        let last = manifest.as_ref().map_or(now, |manifest| manifest.time);
        self.counts = manifest.as_ref().map(|manifest| Plan {
            number: manifest.number,
            time: manifest.time,
            begin: manifest.begin.clone(),
            begin_time: (manifest.begin == manifest.end).then_some(manifest.time),
            end: manifest.end.clone(),
            write: Vec::new(),
            keep: Vec::new(),
        });
        let objects = manifest.map(|manifest| manifest.objects).unwrap_or_default();
        self.objects = objects.into_iter().map(|object| (object.transaction.clone(), object)).collect();
        let persisted = store.list().into_iter().map(|open| (open.transaction, open.version));
        self.schedule = Schedule::new(self.options.interval, last, number, persisted);
    }

    /// Removes what a crash left over. What could not be used stays: the cause may be mended before the next start.
    fn remove_strays(&self) {
        let prefix = format!("{}-", self.options.group);
        let is_kept = |name: &String| self.objects.values().any(|object| object.file == *name);
        for name in self.storage.list().unwrap_or_default() {
            if name.starts_with(&prefix) && name.ends_with(OBJECT_EXTENSION) && !is_kept(&name) {
                // One that can't be removed now is removed at a later start.
                let _ = self.storage.remove(&name);
            }
        }
    }

    /// Takes no checkpoints: the database tells open transactions again whole.
    pub(crate) fn rest(&mut self) {
        self.is_off = true;
    }

    pub(crate) fn is_due(&self, now: Timestamp) -> bool {
        let is_wanted = self.wanted.is_some_and(|wanted| wanted <= now) && !self.schedule.is_waiting();
        !self.is_off && (is_wanted || !self.is_stopped && self.schedule.is_due(now))
    }

    /// Writes the files of a checkpoint at `end`. A failure is told and not fatal: the checkpoint before counts on.
    ///
    /// # Errors
    /// Errors of the store's own files.
    pub(crate) fn take_checkpoint(
        &mut self,
        now: Timestamp,
        end: &LogPosition,
        store: &mut Store,
    ) -> Result<Vec<String>, Error> {
        let seen: Vec<Seen> = store
            .list()
            .into_iter()
            .filter(|open| !open.is_left_out)
            .map(|open| Seen {
                transaction: open.transaction,
                start: open.start,
                started: open.started.unwrap_or(now),
                version: open.version,
            })
            .collect();
        self.wanted.take_if(|wanted| *wanted <= now);
        let plan = self.schedule.plan(now, end, &seen);
        match self.write(&plan, store) {
            Ok(()) => {
                self.schedule.written(plan);
                Ok(Vec::new())
            }
            Err(error) => Ok(vec![self.failed(&error)]),
        }
    }

    fn write(&mut self, plan: &Plan, store: &mut Store) -> Result<(), Error> {
        self.written.clear();
        for (place, seen) in plan.write.iter().enumerate() {
            let file = format!("{}-{:08}-{place:05}{OBJECT_EXTENSION}", self.options.group, plan.number);
            // A checkpoint of this number that came to nothing may have left one.
            match self.storage.remove(&file) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(Error::io("remove", &*self.storage, &file, error));
                }
                _ => {}
            }
            if let Some(written) = object::write(&*self.storage, &file, &seen.transaction, store)? {
                let object::Written { bytes, checksum } = written;
                self.done.objects += 1;
                self.done.bytes += bytes;
                self.written.push(Object { transaction: seen.transaction.clone(), file, bytes, checksum });
            }
        }
        Ok(())
    }

    fn failed(&mut self, error: &Error) -> String {
        self.done.failed += 1;
        self.is_off = self.options.off_on_failure;
        let then = if self.is_off {
            "no further one is taken (BROFFONFAILURE)"
        } else {
            "the next one is tried when it is due"
        };
        format!("DRV-00425: a Bounded Recovery checkpoint could not be taken, {then}: {}", chain(error))
    }

    /// The trail and the Extract's checkpoint hold everything before `current`: the checkpoint that waits for that counts now.
    pub(crate) fn reached(&mut self, current: &LogPosition) -> Vec<String> {
        let Some(plan) = self.schedule.reached(current) else { return Vec::new() };
        let mut objects: BTreeMap<TransactionId, Object> = BTreeMap::new();
        for transaction in &plan.keep {
            objects.extend(self.objects.get(transaction).map(|object| (transaction.clone(), object.clone())));
        }
        objects.extend(self.written.drain(..).map(|object| (object.transaction.clone(), object)));
        let manifest = Manifest {
            number: plan.number,
            time: plan.time,
            begin: plan.begin.clone(),
            end: plan.end.clone(),
            tables: self.options.tables,
            objects: objects.values().cloned().collect(),
        };
        if let Err(error) = self.publish(&manifest) {
            return vec![self.failed(&error)];
        }
        self.schedule.counts(&plan);
        self.done.taken += 1;
        self.done.kept += plan.keep.len() as u64;
        self.previous = self.counts.take().map(|plan| ReadCheckpoint { position: plan.begin, time: plan.begin_time });
        self.counts = Some(plan.clone());
        let stale = std::mem::replace(&mut self.objects, objects);
        if !self.options.keep_stale_files {
            for object in stale.values().filter(|object| !self.objects.values().any(|kept| kept.file == object.file)) {
                // A file that can't be removed now is removed at the next start.
                let _ = self.storage.remove(&object.file);
            }
        }
        let count = self.objects.len();
        if count == 0 {
            return Vec::new();
        }
        vec![format!(
            "Bounded Recovery checkpoint {}: {count} long-running transactions persisted, begin {}, end {}",
            plan.number, plan.begin, plan.end
        )]
    }

    /// Makes the manifest durable, behind the files that it names.
    fn publish(&self, manifest: &Manifest) -> Result<(), Error> {
        let storage = &*self.storage;
        let name = manifest_name(&self.options.group);
        let new = format!("{name}.new");
        let refused = |action| move |error| (action, error);
        let published = match storage.remove(&new) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(("remove", error)),
            _ => Ok(()),
        };
        let published = published
            // Names of the files that it speaks of come first.
            .and_then(|()| storage.sync_directory().map_err(refused("sync the directory of")))
            .and_then(|()| storage.create(&new).map_err(refused("create")))
            .and_then(|file| {
                file.write_at(&manifest.encode(), 0).map_err(refused("write"))?;
                file.sync().map_err(refused("sync"))
            })
            .and_then(|()| storage.rename(&new, &name).map_err(refused("put in place")))
            .and_then(|()| storage.sync_directory().map_err(refused("sync the directory of")));
        published.map_err(|(action, error)| Error::io(action, storage, &name, error))
    }

    /// What a restart would go by.
    pub(crate) fn checkpoint(&self) -> Option<BoundedCheckpoint> {
        let plan = self.counts.as_ref()?;
        Some(BoundedCheckpoint {
            number: plan.number,
            previous: self.previous.clone(),
            begin: ReadCheckpoint { position: plan.begin.clone(), time: plan.begin_time },
            end: ReadCheckpoint { position: plan.end.clone(), time: Some(plan.time) },
        })
    }

    /// How it stands at `now`, line by line (BRSTATUS).
    pub(crate) fn describe(&self, now: Timestamp) -> Vec<String> {
        let state = match (self.is_off, self.is_stopped) {
            (true, _) => "OFF after a failure (BROFFONFAILURE)",
            (_, true) => "STOPPED (BRSTOP)",
            _ if self.schedule.is_waiting() => "a checkpoint waits for the trail",
            _ => "ON",
        };
        let mut lines = vec![
            format!("Bounded Recovery: {state}"),
            format!("BRINTERVAL: {}", clock_text(self.schedule.interval())),
            format!("BRDIR: {}", self.storage.place()),
        ];
        match &self.counts {
            None => lines.push("Last BR checkpoint: none".to_owned()),
            Some(plan) => {
                lines.push(format!("Last BR checkpoint: {}, number {}", plan.time, plan.number));
                lines.push(format!("BR Begin: {}", plan.begin));
                lines.push(format!("BR End: {}", plan.end));
            }
        }
        if !self.is_off && !self.is_stopped {
            lines.push(format!("Next BR checkpoint: in {}", clock_text(self.schedule.until_due(now))));
        }
        if let Some(wanted) = self.wanted {
            lines.push(format!("BR checkpoint asked for: at {wanted}"));
        }
        lines.push(format!("Transactions persisted: {}", self.objects.len()));
        for object in self.objects.values() {
            lines.push(format!("  XID {}, {}, {} bytes", object.transaction, object.file, object.bytes));
        }
        lines
    }

    /// What was done since the start, line by line (BRSTATS).
    pub(crate) fn statistics(&self) -> Vec<String> {
        let Done { taken, failed, objects, bytes, kept } = self.done;
        vec![
            format!("BR checkpoints taken since the start: {taken}, and {failed} that failed"),
            format!("Object files written: {objects}, {bytes} bytes; left as they were: {kept}"),
        ]
    }

    /// Takes a checkpoint at `at`, as soon as what was read then is handed out (BRCHECKPOINT). The last word counts.
    pub(crate) fn want_checkpoint(&mut self, at: Timestamp) {
        self.wanted = Some(at);
    }

    /// Takes checkpoints when they are due, also after a failure (BRSTART).
    pub(crate) fn go_on(&mut self) {
        (self.is_off, self.is_stopped) = (false, false);
    }

    /// Takes no more by itself (BRSTOP). What is on disk stays, and counts at a restart.
    pub(crate) fn stop(&mut self) {
        self.is_stopped = true;
    }

    /// Another time between two checkpoints, from the last one on (BRINTERVAL).
    pub(crate) fn set_interval(&mut self, interval: Duration) {
        self.options.interval = interval;
        self.schedule.set_interval(interval);
    }

    /// The warning that less log is kept than a restart may need, once.
    pub(crate) fn warn_of_short_log(&mut self, now: Timestamp, kept_since: Timestamp) -> Option<String> {
        let kept = crate::long::age(now, kept_since);
        let needed = self.schedule.interval() * 2;
        if kept >= needed {
            self.warned_of_short_log = false;
            return None;
        }
        if std::mem::replace(&mut self.warned_of_short_log, true) {
            return None;
        }
        Some(format!(
            "DRV-00427: {} of log are kept, which is less than twice the Bounded Recovery interval, {}: a restart may need log that \
             is gone. Keep more of it, or make BRINTERVAL shorter",
            clock_text(kept),
            clock_text(needed)
        ))
    }
}

const OBJECT_EXTENSION: &str = ".bro";

fn manifest_name(group: &str) -> String {
    format!("{group}.brc")
}

/// The error and its causes in one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
