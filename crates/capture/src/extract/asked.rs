//! What a running Extract is asked from outside.

use super::{Extract, Force, Inside, LeaveOut, Phase};
use crate::error::Error;
use change::{Timestamp, TransactionId};
use database::LogSource;
use process::StopStatus;
use std::time::Duration;
use trail::Position;

impl Extract {
    /// How far it has come since its start.
    pub fn phase(&self) -> Phase {
        match self.source.open() {
            Some(open) if open.is_recovering() => Phase::Rereading,
            _ if self.restart.is_skipping() => Phase::Skipping,
            _ => Phase::Complete,
        }
    }

    /// Leaves `transaction` out when it commits. That is durable when this returns.
    ///
    /// # Errors
    /// Errors of the checkpoint file.
    pub fn leave_out(&mut self, transaction: &TransactionId) -> Result<LeaveOut, Error> {
        if self.left_out.contains(transaction) {
            return Ok(LeaveOut::NotedBefore);
        }
        let is_inside = matches!(&self.inside, Inside::Writing { commit, .. } if commit.transaction == *transaction);
        if is_inside || self.source.open().is_some_and(|open| open.is_handing_out(transaction)) {
            return Ok(LeaveOut::Committed);
        }
        if self.left_out.is_full() {
            return Ok(LeaveOut::NoRoom);
        }
        let now = (self.clock)();
        self.left_out.insert(transaction, now);
        self.save(now, StopStatus::Active)?;
        if let Some(open) = self.source.open_mut() {
            open.leave_out(transaction);
        }
        Ok(LeaveOut::Noted)
    }

    /// Writes what is kept of an open transaction as though it had committed now, and leaves out what it does later. All of
    /// that is durable when this returns.
    ///
    /// # Errors
    /// Errors of the parts. After any error the Extract must be made anew.
    pub fn force(&mut self, transaction: &TransactionId) -> Result<Force, Error> {
        if !matches!(self.inside, Inside::Nothing) || self.phase() != Phase::Complete || self.behind.is_some() {
            return Ok(Force::Busy);
        }
        if !self.source.open().is_some_and(|open| open.keeps(transaction)) {
            return Ok(Force::NotKept);
        }
        if self.left_out.is_full() {
            return Ok(Force::NoRoom);
        }
        let written = self.progress.written.as_ref().map(|commit| commit.csn.clone());
        let forced = self.source.open_mut().map(|open| open.force(transaction, written.as_ref())).transpose();
        let forced = forced.map_err(|source| self.source_error("force a transaction of", source))?;
        let Some(commit) = forced.flatten() else { return Ok(Force::Busy) };
        let before = self.statistics.total().written;
        let mut events = Vec::new();
        while self.source.open().is_some_and(|open| open.is_handing_out(&commit.transaction)) {
            let read = self.source.read(&mut events, Duration::ZERO);
            events.drain(..).try_for_each(|event| self.take(event))?;
            read.map_err(|source| self.source_error("force a transaction of", source))?;
        }
        // One sync, and then the checkpoint that leaves the transaction out. Between them the trail's last transaction tells
        // that it must be left out.
        self.sync()?;
        let now = (self.clock)();
        self.left_out.insert(transaction, now);
        self.save(now, StopStatus::Active)?;
        Ok(Force::Written { csn: commit.csn, changes: self.statistics.total().written - before })
    }

    /// Leaves out the transaction of which a forced part ends the trail.
    pub(super) fn leave_out_forced(&mut self) {
        let last = self.writer.last_commit().and_then(|last| last.transaction.forced_of());
        let Some(transaction) = last.filter(|_| !change::sabotage::is_on("repeat-forced")) else { return };
        if !self.left_out.contains(&transaction) && !self.left_out.is_full() {
            self.left_out.insert(&transaction, (self.clock)());
            if let Some(open) = self.source.open_mut() {
                open.leave_out(&transaction);
            }
        }
    }

    /// Forgets those of the transactions to leave out that were asked for before `asked` and that `is_open` does not know:
    /// they were rolled back, and their names may come again.
    pub fn forget_ended(&mut self, asked: Timestamp, is_open: impl Fn(&TransactionId) -> bool) {
        let position = self.progress.position.clone();
        let ended: Vec<TransactionId> = self
            .left_out
            .open()
            .filter(|told| told.asked < asked && !is_open(&told.transaction))
            .map(|told| told.transaction.clone())
            .collect();
        for transaction in ended {
            self.left_out.end(&transaction, &position);
            if let Some(open) = self.source.open_mut() {
                open.forget_left_out(&transaction);
            }
        }
    }

    /// The transactions to leave out that have not ended.
    pub fn left_out(&self) -> Vec<TransactionId> {
        self.left_out.open().map(|told| told.transaction.clone()).collect()
    }

    /// Goes on in a new trail file, and returns where that begins. `None` inside a transaction: it may be tried again after
    /// the next step.
    ///
    /// # Errors
    /// Errors of the trail.
    pub fn roll_over(&mut self) -> Result<Option<Position>, Error> {
        if !matches!(self.inside, Inside::Nothing) {
            return Ok(None);
        }
        let rolled = self.writer.roll_over().map_err(|source| self.trail_error("start a new file of", source))?;
        self.is_waiting = true;
        self.progress.trail = rolled;
        Ok(Some(rolled))
    }
}
