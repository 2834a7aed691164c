//! The checkpoint file of a group.

use super::ring::{self, Header, HeaderFault, Slot};
use super::{Checkpoint, CheckpointError, payload};
use crate::{GroupKind, GroupName};
use std::io;
use std::sync::Arc;
use trail::storage::{File, Storage};

/// The checkpoint file of a group, `dirchk/E1.cpe` or `dirchk/R1.cpr`: the last 100 checkpoints, in slots that are
/// overwritten in turn.
///
/// # Guarantees
/// - What [`save`](CheckpointFile::save) returned for survives a crash. A crash during the call leaves the checkpoint that
///   it was given or the one before.
/// - After a failed call the file is not written again until it is opened anew: nobody knows what reached the disk.
///
/// One process at a time may write; the caller holds the group's [`GroupLock`](crate::GroupLock). Anybody may
/// [read](CheckpointFile::read).
pub struct CheckpointFile {
    storage: Arc<dyn Storage>,
    name: String,
    handle: Box<dyn File>,
    sequence: u64,
    latest: Checkpoint,
    damaged_slots: usize,
    is_poisoned: bool,
}

/// A checkpoint with its place in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckpointRecord {
    /// Its number, counted from 1.
    pub number: u64,
    /// The byte of the file at which its slot begins.
    pub offset: u64,
    /// What it says.
    pub checkpoint: Checkpoint,
}

impl CheckpointFile {
    /// Bytes of the header and of each slot.
    pub const BLOCK_BYTES: usize = ring::BLOCK_BYTES;

    /// Slots that are written in turn.
    pub const SLOTS: u64 = ring::SLOTS;

    /// Makes the file of a group that is being added, with its first checkpoint. `storage` is the home's `dirchk`.
    ///
    /// # Errors
    /// [`CheckpointError::Exists`] when the group exists.
    pub fn create(
        storage: Arc<dyn Storage>,
        kind: GroupKind,
        group: &GroupName,
        first: &Checkpoint,
    ) -> Result<CheckpointFile, CheckpointError> {
        assert_eq!(first.kind(), kind, "a checkpoint is of its group's kind");
        let place = FilePlace { storage: &*storage, kind, group };
        let mut bytes = Header { kind, group: group.clone() }.encode();
        bytes.resize(ring::FILE_BYTES, 0);
        let sequence = 1;
        let slot = place.slot(sequence, first)?;
        let offset = ring::slot_offset(sequence) as usize;
        bytes[offset..offset + slot.len()].copy_from_slice(&slot);
        let handle = storage.create(&place.name()).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => {
                CheckpointError::Exists { kind, group: group.clone(), file: place.name(), place: storage.place() }
            }
            _ => place.refused("create", error),
        })?;
        let made = handle.write_at(&bytes, 0).and_then(|()| handle.sync()).and_then(|()| storage.sync_directory());
        if let Err(error) = made {
            // A file without a whole checkpoint would make the name of the group unusable.
            let _ = storage.remove(&place.name());
            return Err(place.refused("create", error));
        }
        let (name, latest) = (place.name(), first.clone());
        Ok(CheckpointFile { storage, name, handle, sequence, latest, damaged_slots: 0, is_poisoned: false })
    }

    /// Opens the file of a group that starts. Never makes one.
    ///
    /// # Errors
    /// [`CheckpointError::Lost`] when there is none, [`CheckpointError::Damaged`] when no checkpoint in it can be trusted,
    /// [`CheckpointError::Foreign`] when it is another group's.
    pub fn open(
        storage: Arc<dyn Storage>,
        kind: GroupKind,
        group: &GroupName,
    ) -> Result<CheckpointFile, CheckpointError> {
        let place = FilePlace { storage: &*storage, kind, group };
        let handle = storage.open(&place.name()).map_err(|error| place.not_opened(error))?;
        let content = place.content(&*handle)?;
        let name = place.name();
        let (sequence, latest) = content.latest;
        let damaged_slots = content.damaged_slots;
        Ok(CheckpointFile { storage, name, handle, sequence, latest, damaged_slots, is_poisoned: false })
    }

    /// The last `count` checkpoints of a group, newest first, at least one. Needs no lock and changes nothing.
    ///
    /// # Errors
    /// As [`open`](CheckpointFile::open).
    pub fn read(
        storage: &dyn Storage,
        kind: GroupKind,
        group: &GroupName,
        count: usize,
    ) -> Result<Vec<Checkpoint>, CheckpointError> {
        let records = CheckpointFile::records(storage, kind, group, count)?;
        Ok(records.into_iter().map(|record| record.checkpoint).collect())
    }

    /// The same with their places in the file.
    ///
    /// # Errors
    /// As [`open`](CheckpointFile::open).
    pub fn records(
        storage: &dyn Storage,
        kind: GroupKind,
        group: &GroupName,
        count: usize,
    ) -> Result<Vec<CheckpointRecord>, CheckpointError> {
        let place = FilePlace { storage, kind, group };
        let handle = storage.open_read(&place.name()).map_err(|error| place.not_opened(error))?;
        let content = place.content(&*handle)?;
        let record = |(number, checkpoint)| CheckpointRecord { number, offset: ring::slot_offset(number), checkpoint };
        Ok(std::iter::once(content.latest).chain(content.older).take(count.max(1)).map(record).collect())
    }

    /// Removes the file of a group that is being deleted. Does nothing when there is none.
    ///
    /// # Errors
    /// [`CheckpointError::Io`].
    pub fn delete(storage: &dyn Storage, kind: GroupKind, group: &GroupName) -> Result<(), CheckpointError> {
        let place = FilePlace { storage, kind, group };
        match storage.remove(&place.name()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            result => result.and_then(|()| storage.sync_directory()).map_err(|error| place.refused("remove", error)),
        }
    }

    /// The last checkpoint that was saved.
    pub fn latest(&self) -> &Checkpoint {
        &self.latest
    }

    /// Slots that could not be trusted when the file was opened. A crash during a write leaves one.
    pub fn damaged_slots(&self) -> usize {
        self.damaged_slots
    }

    /// Saves the next checkpoint: it is durable when the call returns.
    ///
    /// # Errors
    /// Any but those of opening. After one the file is not written any further.
    pub fn save(&mut self, checkpoint: &Checkpoint) -> Result<(), CheckpointError> {
        assert_eq!(checkpoint.kind(), self.latest.kind(), "a checkpoint is of its group's kind");
        if self.is_poisoned {
            return Err(CheckpointError::Poisoned { file: self.name.clone() });
        }
        let sequence = self.sequence + 1;
        let slot = slot(&self.name, sequence, checkpoint)?;
        self.is_poisoned = true;
        let refused = |action, error| refused(&*self.storage, &self.name, action, error);
        self.handle.write_at(&slot, ring::slot_offset(sequence)).map_err(|error| refused("write", error))?;
        if !change::sabotage::is_on("checkpoint-without-sync") {
            self.handle.sync().map_err(|error| refused("sync", error))?;
        }
        self.is_poisoned = false;
        self.sequence = sequence;
        self.latest = checkpoint.clone();
        Ok(())
    }
}

/// What a file holds.
struct Content {
    latest: (u64, Checkpoint),
    /// Newest first.
    older: Vec<(u64, Checkpoint)>,
    damaged_slots: usize,
}

/// Which file, for reading and for messages.
struct FilePlace<'a> {
    storage: &'a dyn Storage,
    kind: GroupKind,
    group: &'a GroupName,
}

impl FilePlace<'_> {
    fn name(&self) -> String {
        format!("{}.{}", self.group, self.kind.checkpoint_extension())
    }

    fn slot(&self, sequence: u64, checkpoint: &Checkpoint) -> Result<Vec<u8>, CheckpointError> {
        slot(&self.name(), sequence, checkpoint)
    }

    fn content(&self, handle: &dyn File) -> Result<Content, CheckpointError> {
        let mut bytes = vec![0; ring::FILE_BYTES];
        let read = handle.read_at(&mut bytes, 0).map_err(|error| self.refused("read", error))?;
        bytes.truncate(read);
        self.check_header(&bytes)?;
        let mut damaged_slots = 0;
        let mut found: Vec<(u64, Checkpoint)> = Vec::new();
        for slot in ring::slots(&bytes) {
            match slot {
                Slot::Empty => {}
                Slot::Damaged => damaged_slots += 1,
                Slot::Full { sequence, payload } => {
                    // A whole slot that can't be understood is no torn write. Passing over it would be going back in
                    // time without a word.
                    let checkpoint = payload::decode(payload).map_err(|reason| self.damaged(reason))?;
                    if checkpoint.kind() != self.kind {
                        return Err(self.damaged("a checkpoint in it is of the other kind of group".to_owned()));
                    }
                    found.push((sequence, checkpoint));
                }
            }
        }
        found.sort_by_key(|(sequence, _)| std::cmp::Reverse(*sequence));
        let mut found = found.into_iter();
        match found.next() {
            Some(latest) => Ok(Content { latest, older: found.collect(), damaged_slots }),
            None => Err(self.damaged("it holds no whole checkpoint".to_owned())),
        }
    }

    fn check_header(&self, bytes: &[u8]) -> Result<(), CheckpointError> {
        match Header::decode(bytes) {
            Ok(header) if header.kind == self.kind && header.group == *self.group => Ok(()),
            Ok(header) => Err(self.foreign(format!("it belongs to {} {}", header.kind, header.group))),
            Err(HeaderFault::Version(version)) => {
                Err(self.foreign(format!("it has layout {version}, of a later version")))
            }
            Err(HeaderFault::Damaged(reason)) => Err(self.damaged(reason.to_owned())),
        }
    }

    fn not_opened(&self, error: io::Error) -> CheckpointError {
        match error.kind() {
            io::ErrorKind::NotFound => CheckpointError::Lost {
                kind: self.kind,
                group: self.group.clone(),
                file: self.name(),
                place: self.storage.place(),
            },
            _ => self.refused("open", error),
        }
    }

    fn damaged(&self, reason: String) -> CheckpointError {
        CheckpointError::Damaged { file: self.name(), place: self.storage.place(), reason }
    }

    fn foreign(&self, reason: String) -> CheckpointError {
        CheckpointError::Foreign { file: self.name(), place: self.storage.place(), reason }
    }

    fn refused(&self, action: &'static str, source: io::Error) -> CheckpointError {
        refused(self.storage, &self.name(), action, source)
    }
}

fn slot(file: &str, sequence: u64, checkpoint: &Checkpoint) -> Result<Vec<u8>, CheckpointError> {
    let payload = payload::encode(checkpoint);
    ring::encode_slot(sequence, &payload).ok_or_else(|| CheckpointError::TooLarge {
        file: file.to_owned(),
        bytes: payload.len(),
        bytes_max: ring::PAYLOAD_BYTES_MAX,
    })
}

fn refused(storage: &dyn Storage, file: &str, action: &'static str, source: io::Error) -> CheckpointError {
    let (file, place) = (file.to_owned(), storage.place());
    match source.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => CheckpointError::Full { file, place, source },
        _ => CheckpointError::Io { action, file, place, source },
    }
}
