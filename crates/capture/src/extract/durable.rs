//! What makes things durable, in its order: trail, checkpoint, then the source may forget.

use super::{CAUGHT_UP_EVERY, Extract, Inside, Mark, body_of};
use crate::error::Error;
use change::Timestamp;
use database::{ErrorClass, LogSource};
use process::StopStatus;
use trail::{Position, Synced};

impl Extract {
    /// Makes durable what is due.
    pub(super) fn settle(&mut self, idle: bool) -> Result<(), Error> {
        self.hear_of_sync()?;
        let now = (self.clock)();
        if !self.is_waiting {
            self.note_read();
        } else {
            if change::sabotage::is_on("checkpoint-before-sync") {
                self.safe = self.mark(self.safe.trail);
                self.save(now, StopStatus::Active)?;
            }
            let since = *self.waiting_since.get_or_insert(now);
            let (end, synced) = (self.writer.position(), self.safe.trail);
            // A file that was finished since the last sync counts as enough.
            let waiting = if end.sequence == synced.sequence { end.rba - synced.rba } else { u64::MAX };
            let is_due = idle || waiting >= self.pace.sync_bytes || now.elapsed_since(since) >= self.pace.sync_delay;
            if is_due && self.syncing.is_none() {
                self.start_sync(now)?;
                self.hear_of_sync()?;
            }
        }
        if idle && !self.is_waiting && self.syncing.is_none() && matches!(self.inside, Inside::Nothing) {
            self.caught_up = Some(now);
        }
        if now.elapsed_since(self.saved_at) >= self.pace.checkpoint {
            if !self.is_saved() || self.is_checkpoint_old() || self.is_bounded_new() {
                self.save(now, StopStatus::Active)?;
            }
            self.release()?;
        }
        Ok(())
    }

    /// Syncs everything, and waits for it.
    pub(super) fn sync(&mut self) -> Result<(), Error> {
        let end = self.writer.sync().map_err(|source| self.trail_error("sync", source))?;
        self.syncing = None;
        self.is_waiting = false;
        self.waiting_since = None;
        self.safe = self.mark(end);
        self.progress.trail = end;
        Ok(())
    }

    /// Starts a sync of everything so far. What is read meanwhile waits for the next one.
    pub(super) fn start_sync(&mut self, now: Timestamp) -> Result<(), Error> {
        let end = self.writer.start_sync().map_err(|source| self.trail_error("sync", source))?;
        self.is_waiting = false;
        self.waiting_since = None;
        self.progress.trail = end;
        let mark = self.mark(end);
        if !self.writer.is_syncing() || change::sabotage::is_on("believe-started-sync") {
            self.safe = mark.clone();
        }
        self.syncing = self.writer.is_syncing().then_some((mark, now));
        Ok(())
    }

    /// Takes note of a sync that has ended.
    pub(super) fn hear_of_sync(&mut self) -> Result<(), Error> {
        let finished = self.writer.finished_sync().map_err(|source| self.trail_error("sync", source))?;
        let Some(Synced { took, .. }) = finished else { return Ok(()) };
        if let Some((mark, started)) = self.syncing.take() {
            let rest = took.saturating_mul(self.pace.sync_rest).min(self.pace.sync_delay);
            let micros = started.unix_micros.saturating_add(i64::try_from(took.as_micros()).unwrap_or(i64::MAX));
            self.rest = (Timestamp::from_unix_micros(micros), rest);
            self.sync_took = took;
            self.safe = mark;
        }
        Ok(())
    }

    /// Everything that was read and written so far, as it is when the trail is synced up to `trail`.
    pub(super) fn mark(&self, trail: Position) -> Mark {
        Mark { position: self.progress.position.clone(), written: self.progress.written.clone(), trail }
    }

    /// Nothing was written since the last sync was started: what was read since is safe with it.
    pub(super) fn note_read(&mut self) {
        let safe = self.syncing.as_mut().map_or(&mut self.safe, |(mark, _)| mark);
        safe.position.clone_from(&self.progress.position);
        safe.written.clone_from(&self.progress.written);
    }

    pub(super) fn is_saved(&self) -> bool {
        self.checkpoint.extract().is_some_and(|body| body.recovery.position == self.safe.position)
    }

    /// Whether Bounded Recovery has come to a checkpoint that ours does not tell of.
    pub(super) fn is_bounded_new(&self) -> bool {
        let told = self.checkpoint.extract().and_then(|body| body.bounded.as_ref());
        let counts = self.source.open().and_then(|open| open.bounded_checkpoint());
        counts.map(|bounded| bounded.number) != told.map(|bounded| bounded.number)
    }

    /// Whether the checkpoint tells of a time long before the one at which we had caught up.
    pub(super) fn is_checkpoint_old(&self) -> bool {
        let (Some(body), Some(caught_up)) = (self.checkpoint.extract(), self.caught_up) else { return false };
        body.current.time.is_none_or(|time| caught_up.micros_since(time) >= CAUGHT_UP_EVERY.as_micros() as i64)
    }

    /// Saves the checkpoint with the safe position. What it says must be synced.
    pub(super) fn save(&mut self, now: Timestamp, stop_status: StopStatus) -> Result<(), Error> {
        if matches!(self.inside, Inside::Nothing) && !self.statistics.balanced() {
            let total = self.statistics.total();
            let (read, written, filtered) = (total.read, total.written, total.filtered_total());
            let detail = format!("{read} read, {written} written, {filtered} filtered");
            return Err(Error::Unbalanced { position: self.progress.position.clone(), detail });
        }
        self.checkpoint.updated = now;
        self.checkpoint.stop_status = stop_status;
        let safe = &self.safe;
        let body = body_of(&mut self.checkpoint)?;
        body.recovery.position.clone_from(&safe.position);
        body.recovery.time = safe.written.as_ref().map(|commit| commit.time);
        body.current.clone_from(&body.recovery);
        // A source that is quiet is not behind: everything up to that moment was read.
        body.current.time = body.recovery.time.max(self.caught_up);
        body.written.clone_from(&safe.written);
        body.bounded = self.source.open().and_then(|open| open.bounded_checkpoint());
        if !change::sabotage::is_on("forget-left-out") {
            body.left_out = self.left_out.at(&safe.position);
        }
        for trail in &mut body.trails {
            trail.position = Some(safe.trail);
        }
        let saved = self.file.save(&self.checkpoint);
        saved
            .map_err(|source| Error::Checkpoint { position: self.progress.position.clone(), source: source.into() })?;
        self.saved_at = now;
        self.unreleased = Some(self.safe.position.clone());
        Ok(())
    }

    /// Tells the source what it may forget. A source that is busy is asked again after the next checkpoint.
    pub(super) fn release(&mut self) -> Result<(), Error> {
        let Some(position) = &self.unreleased else { return Ok(()) };
        match self.source.release(position) {
            Ok(()) => self.unreleased = None,
            Err(cause) if cause.class() == ErrorClass::Transient => {}
            Err(cause) => return Err(self.source_error("release the log of", cause)),
        }
        Ok(())
    }
}
