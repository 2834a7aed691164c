//! What the target took, in the order in which it was committed.

use change::{Operation, TableName};
use database::{ApplyError, CheckpointRow, CheckpointSet, Error, Session, Write};
use std::collections::BTreeMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use trail::Position;

/// One operation on one table, as a number that no other operation is likely to have.
pub(super) fn fingerprint(table: &TableName, operation: &Operation) -> u64 {
    let mut hasher = DefaultHasher::new();
    table.hash(&mut hasher);
    (operation.kind() as u8).hash(&mut hasher);
    let mut image = |row: &change::Row| row.values().for_each(|value| value.hash(&mut hasher));
    match operation {
        Operation::Insert { new } => image(new),
        Operation::Update { old, new } => {
            old.iter().for_each(&mut image);
            image(new);
        }
        Operation::Delete { old } => image(old),
        Operation::Truncate(_) => {}
    }
    hasher.finish()
}

/// A target transaction that was committed, or whose commit failed without an answer.
#[derive(Clone, Debug)]
pub(super) struct Taken {
    /// The position that was saved with it, if one was.
    pub(super) position: Option<Position>,
    /// The checkpoint rows that were saved with it.
    saved: Saved,
    pub(super) operations: Vec<u64>,
}

/// Checkpoint rows that a transaction saves.
#[derive(Clone, Debug, Default)]
enum Saved {
    #[default]
    Nothing,
    Row(CheckpointRow),
    All(CheckpointSet),
}

/// The record of all target transactions; clones share it.
#[derive(Clone, Default)]
pub(super) struct Recorder {
    taken: Arc<Mutex<Vec<Taken>>>,
}

impl Recorder {
    pub(super) fn record(&self, session: Box<dyn Session>) -> Box<dyn Session> {
        Box::new(RecordedSession { session, recorder: self.clone(), open: None })
    }

    pub(super) fn taken(&self) -> Vec<Taken> {
        self.lock().clone()
    }

    /// The checkpoint row says what the target holds: transactions behind it were lost, or never made.
    fn believe(&self, row: &CheckpointRow) {
        let position = Position { sequence: row.sequence, rba: row.rba };
        self.lock().retain(|taken| taken.position.is_none_or(|saved| saved <= position));
    }

    /// All rows of a group with several appliers say what the target holds: the transactions up to those that left them so.
    fn believe_all(&self, found: &CheckpointSet) {
        let mut taken = self.lock();
        let rows = |set: &CheckpointSet| -> BTreeMap<i64, CheckpointRow> {
            set.rows().map(|row| (row.group_key, row.clone())).collect()
        };
        let found = rows(found);
        let mut known: Option<BTreeMap<i64, CheckpointRow>> = None;
        let mut believed = 0;
        for (place, transaction) in taken.iter().enumerate() {
            match &transaction.saved {
                Saved::Nothing => {}
                Saved::Row(row) => _ = known.as_mut().map(|known| known.insert(row.group_key, row.clone())),
                Saved::All(set) => known = Some(rows(set)),
            }
            if known.as_ref() == Some(&found) {
                believed = place + 1;
            }
        }
        taken.truncate(believed);
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Taken>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct RecordedSession {
    session: Box<dyn Session>,
    recorder: Recorder,
    open: Option<Taken>,
}

impl Session for RecordedSession {
    fn table(&mut self, name: &TableName) -> Result<Option<change::TableDefinition>, Error> {
        self.session.table(name)
    }

    fn order(&mut self, name: &TableName) -> Result<database::TableOrder, Error> {
        self.session.order(name)
    }

    fn begin(&mut self) -> Result<(), Error> {
        self.session.begin()?;
        self.open = Some(Taken { position: None, saved: Saved::Nothing, operations: Vec::new() });
        Ok(())
    }

    fn apply(&mut self, writes: &[Write<'_>]) -> Result<(), ApplyError> {
        let result = self.session.apply(writes);
        // Of a call that failed the caller must not keep anything; when it does, that is recorded too.
        if let Some(open) = &mut self.open {
            let fingerprints = writes.iter().map(|write| fingerprint(&write.plan.source.name, write.operation));
            open.operations.extend(fingerprints);
        }
        result
    }

    fn attempt(&mut self, write: &Write<'_>) -> Result<(), ApplyError> {
        let result = self.session.attempt(write);
        if let (Some(open), Ok(())) = (&mut self.open, &result) {
            open.operations.push(fingerprint(&write.plan.source.name, write.operation));
        }
        result
    }

    fn find(
        &mut self,
        plan: &std::sync::Arc<database::TablePlan>,
        image: &change::Row,
    ) -> Result<Option<change::Row>, Error> {
        self.session.find(plan, image)
    }

    fn load_checkpoint(&mut self) -> Result<Option<CheckpointRow>, Error> {
        let row = self.session.load_checkpoint()?;
        row.iter().for_each(|row| self.recorder.believe(row));
        Ok(row)
    }

    fn load_checkpoints(&mut self) -> Result<Option<CheckpointSet>, Error> {
        let set = self.session.load_checkpoints()?;
        set.iter().for_each(|set| self.recorder.believe_all(set));
        Ok(set)
    }

    fn replace_checkpoints(&mut self, set: &CheckpointSet) -> Result<(), Error> {
        self.session.replace_checkpoints(set)?;
        if let Some(open) = &mut self.open {
            open.saved = Saved::All(set.clone());
        }
        Ok(())
    }

    fn save_checkpoint(&mut self, row: &CheckpointRow) -> Result<(), Error> {
        self.session.save_checkpoint(row)?;
        if let Some(open) = &mut self.open {
            open.position = Some(Position { sequence: row.sequence, rba: row.rba });
            open.saved = Saved::Row(row.clone());
        }
        Ok(())
    }

    fn commit(&mut self) -> Result<(), ApplyError> {
        let result = self.session.commit();
        // After a lost connection the commit may have happened: the checkpoint row will tell.
        if let Some(open) = self.open.take()
            && !matches!(result, Err(ApplyError::Rejected(_)))
        {
            self.recorder.lock().push(open);
        }
        result
    }

    fn rollback(&mut self) -> Result<(), Error> {
        self.open = None;
        self.session.rollback()
    }
}
