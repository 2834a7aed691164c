//! From the trail into transactions, and from there to the board.

use super::stream::Streaming;
use super::work::{Buffered, Mark, Share, Transaction};
use super::{HEARTBEAT_LANE, ParallelReplicat, Trouble};
use crate::error::Error;
use crate::heartbeat;
use crate::mapping;
use crate::plans::PlanError;
use change::{Change, Commit};
use process::FilterReason;
use process::heartbeat::is_heartbeat;
use std::sync::Arc;
use trail::{Position, Reader, TransactionPlace};

impl ParallelReplicat {
    pub(super) fn change(
        &mut self,
        place: TransactionPlace,
        commit: Commit,
        change: Change,
        (position, next): (Position, Position),
    ) -> Result<(), Trouble> {
        if place.starts() == self.is_inside {
            self.ending = Some(Error::OutOfPlace { position, place });
            return Ok(());
        }
        if place.starts() {
            if self.setup.synchronizes && self.is_beyond_high(&commit) {
                self.is_reached = true;
                return Ok(());
            }
            self.inside = 0;
            self.piece_start = self.operations_given(&commit);
            self.left_out = self.leaves_out(&commit, position);
            if self.ending.is_some() {
                return Ok(());
            }
            self.current = Some(commit.clone());
            self.begin_alone_if_wanted(&commit, position);
        }
        self.is_inside = !place.ends();
        self.buffer(change, &commit, position)?;
        if self.ending.is_some() {
            return Ok(());
        }
        if place.ends() {
            self.end(&commit, next);
        } else if self.is_piece() {
            self.end_piece(&commit, next);
        } else if self.open.len() >= self.setup.common.limits.chunk_operations
            || self.open_bytes >= self.setup.common.limits.chunk_bytes
        {
            if let Some(alone) = &mut self.alone {
                alone.is_due = true;
                return Ok(());
            }
            self.streaming.get_or_insert_with(|| Streaming::of(commit, position)).is_due = true;
        }
        Ok(())
    }

    /// Why the transaction that starts at `position` is left out, if it is.
    pub(super) fn leaves_out(&mut self, commit: &Commit, position: Position) -> Option<FilterReason> {
        let is_applied = self.marks.as_ref().is_some_and(|marks| marks.covers(commit)) || self.seen.covers(commit);
        if is_applied && !change::sabotage::is_on("skip-duplicate-filter") {
            return Some(FilterReason::AlreadyDone);
        }
        match self.start.leaves_out(commit) {
            Err(wrong) => {
                self.ending = Some(wrong.into());
                None
            }
            Ok((leaves_out, skipped)) => {
                if let Some(skipped) = skipped {
                    let Commit { csn, transaction, .. } = commit;
                    (self.setup.common.notice)(&format!(
                        "applying starts at {position}, CSN {csn}, transaction {transaction}; transactions left out before it, \
                         as asked for: {skipped}"
                    ));
                }
                leaves_out.then_some(FilterReason::Skipped)
            }
        }
    }

    /// The open transaction is complete.
    pub(super) fn end(&mut self, commit: &Commit, next: Position) {
        if !self.seen.covers(commit) {
            self.seen.note(commit);
        }
        let mark = Mark { commit: self.seen.last.clone(), next };
        self.left_out = None;
        if let Some(alone) = &mut self.alone {
            alone.end = Some(mark);
            alone.is_due = true;
            return;
        }
        if let Some(streaming) = &mut self.streaming {
            streaming.end = Some(mark);
            streaming.is_due = true;
            return;
        }
        if self.coordination.is_some() {
            return self.end_in_parts(mark);
        }
        if self.piece_start > 0 {
            return self.end_pieces(commit, mark);
        }
        self.hand_over(mark, Share::Whole);
    }

    /// What is open goes into the batch.
    pub(super) fn hand_over(&mut self, mark: Mark, share: Share) {
        let changes = std::mem::take(&mut self.open);
        self.open_bytes = 0;
        self.batch_changes += changes.len();
        let touches = std::mem::take(&mut self.touches);
        let touches = (!changes.is_empty()).then_some(touches);
        let read = std::mem::take(&mut self.open_read);
        self.batch.push((Transaction { mark, share, changes, read }, touches));
    }

    /// Counts a change and keeps it, unless there is nothing to write for it.
    pub(super) fn buffer(&mut self, change: Change, commit: &Commit, position: Position) -> Result<(), Trouble> {
        if is_heartbeat(&change.table) {
            return self.buffer_heartbeat(&change, commit, position);
        }
        let kind = change.operation.kind();
        let Some(plan) = self.plan(&change, position)? else { return Ok(()) };
        let number = self.inside;
        self.inside += 1;
        let mapped = self.plans.get(plan);
        let filtered = self.left_out.or_else(|| mapped.filter(commit));
        let filtered =
            filtered.or_else(|| self.is_piece_of_another(commit, number).then_some(FilterReason::AlreadyDone));
        let lane = self.coordination.as_ref().map(|_| mapped.lane(&change.operation));
        let is_done = self.coordination.as_ref().zip(lane).is_some_and(|(threads, lane)| threads.covers(lane, commit));
        let filtered = filtered.or(is_done.then_some(FilterReason::AlreadyDone));
        if let (Some(threads), Some(lane), None) = (&mut self.coordination, lane, filtered) {
            // Counted with its part.
            threads.lanes.push(lane);
        } else {
            self.open_read.counts(plan, kind).read += 1;
        }
        if let Some(reason) = filtered {
            self.open_read.counts(plan, kind).filter(reason, 1);
            return Ok(());
        }
        if let Some(untold) =
            mapped.written.targets.iter().find_map(|plan| mapping::untold_key(plan, &change.operation))
        {
            self.ending = Some(Error::Mapping { position, source: Box::new(untold) });
            return Ok(());
        }
        let converted = mapped.convert(&change);
        self.keep(Buffered { change, converted, plan, bytes: 0, position, arrival: None });
        Ok(())
    }

    /// Keeps what a heartbeat becomes. It is no row of anybody's, and not counted.
    pub(super) fn buffer_heartbeat(
        &mut self,
        change: &Change,
        commit: &Commit,
        position: Position,
    ) -> Result<(), Trouble> {
        if self.left_out.is_some()
            || self.coordination.as_ref().is_some_and(|threads| threads.covers(HEARTBEAT_LANE, commit))
        {
            return Ok(());
        }
        let now = (self.setup.common.clock)();
        let low = self.progress.last.as_ref().map(|(csn, _)| csn);
        let taken = self.heartbeats.take(change, now, low, &mut self.setup.common.notice);
        let arrival = match taken {
            Ok(heartbeat::Fate::Arrives(arrival)) => arrival,
            Ok(heartbeat::Fate::Dropped) => return Ok(()),
            Err(unreadable) => {
                (self.setup.common.notice)(&format!("the heartbeat at {position} is dropped: {unreadable}"));
                return Ok(());
            }
        };
        let team = self.team.as_mut().expect("the sessions were opened");
        let known = self.plans.len();
        // What a statement has done to a table is seen in its own session only.
        let is_alone = self.alone.as_ref().is_some_and(|alone| alone.is_begun);
        let session: &mut dyn database::Session = if is_alone { &mut *team.first().session } else { team.group() };
        let plan = match self.plans.heartbeats(&self.heartbeats, session, position) {
            Ok(plan) => plan,
            Err(PlanError::Stop(error)) => {
                self.ending = Some(error);
                return Ok(());
            }
            Err(PlanError::Session(source)) => {
                return Err(self.target_trouble("look up the heartbeat tables of the target", source));
            }
        };
        if self.plans.len() > known {
            let targets = self.plans.written();
            team.shared.lock().targets = Arc::new(targets);
        }
        if let Some(threads) = &mut self.coordination {
            threads.lanes.push(HEARTBEAT_LANE);
        }
        let change = self.heartbeats.change(&arrival, now, change);
        self.keep(Buffered { change, converted: Vec::new(), plan, bytes: 0, position, arrival: Some(arrival) });
        Ok(())
    }

    /// Keeps a change of the open transaction, and notes what it touches.
    pub(super) fn keep(&mut self, buffered: Buffered) {
        let Buffered { change, converted, plan, position, .. } = &buffered;
        if self.streaming.is_none() && self.alone.is_none() && self.coordination.is_none() {
            if self.setup.parallelism.maximum() == 1 {
                // One applier: everything keeps its order.
                self.touches.write(0);
            } else {
                self.plans.get(*plan).touch(change, converted, &mut self.touches);
            }
        }
        let bytes = self.kept_bytes(change, *position);
        self.last_kept = Some(*position);
        self.open_bytes += bytes;
        self.open.push(Buffered { bytes, ..buffered });
        let progress = &mut self.progress;
        progress.buffered_changes_peak = progress.buffered_changes_peak.max(self.open.len());
        progress.buffered_bytes_peak = progress.buffered_bytes_peak.max(self.open_bytes);
    }

    /// Bytes that a change keeps in memory: those of its values, or what was read with them since the last change that is kept.
    pub(super) fn kept_bytes(&self, change: &Change, position: Position) -> usize {
        let read = match self.last_kept {
            Some(last) if last.sequence == position.sequence => position.rba.saturating_sub(last.rba),
            _ => Reader::KEPT_BYTES_MAX,
        };
        change.operation.value_bytes().max(read.min(Reader::KEPT_BYTES_MAX) as usize)
    }

    /// The number of the change's plans; `None` when the group ends before it.
    pub(super) fn plan(&mut self, change: &Change, position: Position) -> Result<Option<usize>, Trouble> {
        let team = self.team.as_mut().expect("the sessions were opened");
        let (rules, statistics) = (&self.setup.common.rules, &mut self.statistics);
        let known = self.plans.len();
        // What a statement has done to a table is seen in its own session only.
        let is_alone = self.alone.as_ref().is_some_and(|alone| alone.is_begun);
        let session: &mut dyn database::Session = if is_alone { &mut *team.first().session } else { team.group() };
        match self.plans.find(&change.table, rules, session, statistics, position) {
            Ok(plan) => {
                if self.plans.len() > known {
                    let targets = self.plans.written();
                    team.shared.lock().targets = Arc::new(targets);
                }
                Ok(Some(plan))
            }
            Err(PlanError::Stop(error)) => {
                self.ending = Some(error);
                Ok(None)
            }
            Err(PlanError::Session(source)) => {
                Err(self.target_trouble("look up the table of a change in the target", source))
            }
        }
    }

    pub(super) fn writer_restarted(&mut self, position: Position) -> Result<(), Trouble> {
        if !std::mem::take(&mut self.is_inside) {
            return Ok(());
        }
        let mut dropped = std::mem::take(&mut self.open_read);
        dropped.take_in(&self.give_up_alone()?);
        if let Some(streaming) = self.streaming.take() {
            dropped.take_in(&streaming.read);
            self.give_up_stream(&streaming);
        }
        for (plan, kind, counts) in dropped.iter() {
            let total = self.statistics.counts_mut(self.plans.get(plan).counted_as, kind);
            total.read += counts.read;
            total.filter(FilterReason::Abandoned, counts.read);
        }
        self.open.clear();
        self.open_bytes = 0;
        self.touches.clear();
        self.coordination.iter_mut().for_each(|threads| threads.lanes.clear());
        self.left_out = None;
        (self.setup.common.notice)(&format!(
            "the writer of the trail was restarted: a transaction that it left open before {position} is dropped, and comes again"
        ));
        Ok(())
    }
}
