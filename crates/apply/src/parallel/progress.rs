//! What the appliers have finished: counts, positions, the checkpoint file.

use super::board::Halt;
use super::work::{Mark, Retrial};
use super::{ParallelReplicat, Trouble, work};
use crate::error::Error;
use change::{Commit, Timestamp};
use process::{CheckpointBody, StopStatus};

impl ParallelReplicat {
    /// Takes what the appliers told: what is committed, and trouble.
    pub(super) fn look_at_board(&mut self) -> Result<(), Trouble> {
        let team = self.team.as_ref().expect("the sessions were opened");
        let mut board = team.shared.lock();
        let finished = std::mem::take(&mut board.finished);
        let durable = (!finished.is_empty()).then(|| board.durable.clone());
        // Those who are at work come to their end first: a lost connection of one must not hide what another has committed.
        let is_still = board.schedule.busy() == 0 || board.is_broken;
        let halt = if is_still { board.halt.take() } else { None };
        // What was halted must not be taken up again by another applier before this one has acted.
        match &halt {
            None | Some(Halt::Pause(_)) => {}
            Some(Halt::Wait { until, .. }) => board.not_before = Some(*until),
            Some(Halt::Stop(_) | Halt::Reconnect(_) | Halt::Again(_) | Halt::Retry { .. }) => board.is_over = true,
        }
        drop(board);
        for finished in finished {
            self.settle(finished)?;
        }
        if let Some(durable) = durable {
            self.note_durable(&durable);
        }
        match halt {
            None => Ok(()),
            Some(Halt::Stop(error)) => Err(Trouble::Stop(*error)),
            Some(Halt::Reconnect(source) | Halt::Again(source)) => Err(Trouble::Again(source)),
            Some(Halt::Pause(source)) => Err(Trouble::Pause(source)),
            Some(Halt::Wait { until, cause }) => {
                self.not_before = Some(until);
                Err(Trouble::Pause(cause))
            }
            Some(Halt::Retry { retrial, wait }) => Err(self.again(retrial, wait)),
        }
    }

    /// Everything that is not committed is read again, so that a transaction is judged: at this time, if one is told.
    pub(super) fn again(
        &mut self,
        retrial: Option<Box<Retrial>>,
        wait: Option<(Timestamp, database::Error)>,
    ) -> Trouble {
        self.retrial = retrial;
        match wait {
            None => Trouble::Anew,
            Some((until, cause)) => {
                self.not_before = Some(until);
                Trouble::Again(cause)
            }
        }
    }

    pub(super) fn note_durable(&mut self, durable: &Mark) {
        let progress = &mut self.progress;
        progress.position = durable.next;
        // A target that was put back to its beginning has no last one.
        let last = durable.commit.as_ref();
        progress.last = last.map(|commit| (commit.csn.clone(), commit.transaction.clone()));
        progress.last_commit_time = last.map(|commit| commit.time);
    }

    /// Counts transactions that are dealt with.
    pub(super) fn settle(&mut self, finished: work::Finished) -> Result<(), Trouble> {
        let mut wrong = None;
        for (plan, kind, counts) in finished.counted.iter() {
            if !counts.is_balanced() {
                wrong = Some(*counts);
            }
            self.statistics.counts_mut(self.plans.get(plan).counted_as, kind).add(counts);
        }
        if let Some(counts) = wrong {
            let (read, written, filtered) = (counts.read, counts.written, counts.filtered_total());
            let detail = format!("{read} read, {written} applied, {filtered} filtered");
            return Err(Trouble::Stop(Error::Unbalanced { position: self.progress.position, detail }));
        }
        self.conflicts.add(finished.told.conflicts);
        self.parked_transactions.extend(finished.told.parked);
        self.progress.transactions += finished.times.len() as u64;
        if let Some(at) = finished.at {
            self.progress.commits += 1;
            self.position_saved = at;
            finished.times.iter().for_each(|time| self.lag.record(*time, at));
        }
        Ok(())
    }

    pub(super) fn save_file_if_due(&mut self) -> Result<(), Trouble> {
        let now = (self.setup.common.clock)();
        if now.elapsed_since(self.file_saved) >= self.setup.common.pace.checkpoint_file {
            self.save_file(now, StopStatus::Active).map_err(Trouble::Stop)?;
        }
        Ok(())
    }

    pub(super) fn save_file(&mut self, now: Timestamp, stop_status: StopStatus) -> Result<(), Error> {
        self.checkpoint.updated = now;
        self.checkpoint.stop_status = stop_status;
        if let CheckpointBody::Replicat(body) = &mut self.checkpoint.body {
            body.current = self.progress.position;
            let progress = &self.progress;
            let last = progress.last.clone().zip(progress.last_commit_time);
            body.applied = last.map(|((csn, transaction), time)| Commit { csn, transaction, time });
        }
        let saved = self.setup.common.checkpoint.save(&self.checkpoint);
        saved.map_err(|source| Error::CheckpointFile(source.into()))?;
        self.file_saved = now;
        Ok(())
    }
}
