//! Taking what comes into the target trail: the receiver's side.

use crate::Error;
use change::Commit;
use trail::Position;
use trail::copy::{CopyBatch, CopyContent, CopyWriter};

/// While more comes, a sync is worth its time from this many bytes on.
const SYNC_BYTES: u64 = 2 * 1024 * 1024;

/// How far the target trail is durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Everything up to the batch of this number.
    pub number: u64,
    /// The end of the trail.
    pub position: Position,
    /// Its last complete transaction.
    pub last: Option<Commit>,
}

/// Appends batches in the order of their numbers, syncs, and answers.
///
/// # Guarantees
/// What an [`Answer`] covers is durable. A batch that comes again is passed over, one that comes too early is refused.
pub struct Intake {
    writer: CopyWriter,
    /// Number of the last batch that was appended.
    appended: u64,
    /// What the sync that is under way covers.
    syncing: Option<Answer>,
    /// Number of the last batch that was answered for.
    answered: u64,
    /// Bytes since the last sync was started.
    unsynced: u64,
}

impl Intake {
    /// Starts a session: a transaction that the session before left open is given up, and batches have numbers from 1 on.
    ///
    /// # Errors
    /// [`Error::Target`].
    pub fn new(mut writer: CopyWriter) -> Result<Intake, Error> {
        writer.abandon().map_err(Error::target)?;
        Ok(Intake { writer, appended: 0, syncing: None, answered: 0, unsynced: 0 })
    }

    /// The last complete transaction of the trail.
    pub fn last(&self) -> Option<&Commit> {
        self.writer.last_commit()
    }

    /// End of the trail.
    pub fn position(&self) -> Position {
        self.writer.position()
    }

    /// Takes batch `number`.
    ///
    /// # Errors
    /// [`Error::Protocol`] when one before it is missing; [`Error::Target`].
    pub fn take(&mut self, number: u64, batch: &CopyBatch) -> Result<(), Error> {
        if number <= self.appended && !change::sabotage::is_on("take-batches-again") {
            return Ok(());
        }
        if number > self.appended + 1 {
            return Err(Error::Protocol(format!("batch {number} came after {}", self.appended)));
        }
        match &batch.content {
            CopyContent::File { header, definitions } => {
                self.writer.begin_file(header, definitions).map_err(Error::target)?;
            }
            CopyContent::Records(records) => {
                for records in records {
                    self.writer.append(records).map_err(Error::target)?;
                    self.unsynced += records.len() as u64;
                }
            }
        }
        self.appended = number.max(self.appended);
        Ok(())
    }

    /// Starts a sync if there is reason to, and tells how far an earlier one has come. `is_idle`: nothing more is waiting to be
    /// taken.
    ///
    /// # Errors
    /// [`Error::Target`].
    pub fn answer(&mut self, is_idle: bool) -> Result<Option<Answer>, Error> {
        if change::sabotage::is_on("answer-before-sync") && self.answered < self.appended {
            self.answered = self.appended;
            return Ok(Some(self.here()));
        }
        let mut answer = None;
        if self.syncing.is_some() && self.writer.finished_sync().map_err(Error::target)?.is_some() {
            answer = self.syncing.take();
        }
        if self.syncing.is_none() && self.is_owing() && (is_idle || self.unsynced >= SYNC_BYTES) {
            let here = self.here();
            self.writer.start_sync().map_err(Error::target)?;
            self.unsynced = 0;
            match self.writer.is_syncing() {
                true => self.syncing = Some(here),
                // There was nothing to sync, or it was done at once.
                false => answer = Some(here),
            }
        }
        self.answered = answer.as_ref().map_or(self.answered, |answer| answer.number);
        Ok(answer)
    }

    /// Whether something was taken that was not answered for.
    pub fn is_owing(&self) -> bool {
        self.answered < self.appended
    }

    /// Syncs, waits for it, and answers for everything.
    ///
    /// # Errors
    /// [`Error::Target`].
    pub fn settle(&mut self) -> Result<Answer, Error> {
        if !change::sabotage::is_on("answer-before-sync") {
            self.writer.sync().map_err(Error::target)?;
        }
        (self.syncing, self.unsynced, self.answered) = (None, 0, self.appended);
        Ok(self.here())
    }

    /// Gives the writer back, for the next session.
    pub fn into_writer(self) -> CopyWriter {
        self.writer
    }

    fn here(&self) -> Answer {
        Answer { number: self.appended, position: self.writer.position(), last: self.writer.last_commit().cloned() }
    }
}
