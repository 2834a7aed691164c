//! Transactions of a coordinated group: a part for each thread.

use super::work::{Counted, Mark, Share, Transaction};
use super::{Buffered, ParallelReplicat, Trouble};
use crate::schedule::{ItemHasher, Lane, WriteSet};
use crate::thread_marks::ThreadMarks;
use change::Commit;
use std::collections::BTreeMap;
use std::hash::Hasher;

/// Who applies what.
pub(super) struct Coordination {
    /// Where the threads stood when the sessions were opened.
    marks: ThreadMarks,
    /// Who applies each change of the open transaction.
    pub(super) lanes: Vec<Lane>,
}

impl Coordination {
    pub(super) fn of(marks: ThreadMarks) -> Coordination {
        Coordination { marks, lanes: Vec::new() }
    }

    /// Whether the thread that a change of this commit belongs to has applied it. What all threads wait for, the group's row
    /// tells.
    pub(super) fn covers(&self, lane: Lane, commit: &Commit) -> bool {
        match lane {
            Lane::Barrier => false,
            Lane::Thread(number) => self.marks.covers(number, commit),
        }
    }
}

/// Thread `number` of a group as what its parts have in common, so that they keep their order.
fn touches(number: u32) -> WriteSet {
    let mut set = WriteSet::new();
    let mut hasher = ItemHasher::of(0);
    hasher.write(&number.to_le_bytes());
    set.write(hasher.finish());
    set.assign(number);
    set
}

impl ParallelReplicat {
    /// The open transaction is complete, and falls into parts.
    pub(super) fn end_in_parts(&mut self, mark: Mark) {
        let changes = std::mem::take(&mut self.open);
        let threads = self.coordination.as_mut().expect("the group is coordinated");
        let lanes = std::mem::take(&mut threads.lanes);
        self.open_bytes = 0;
        self.batch_changes += changes.len();
        // What is filtered counts with the last part.
        let rest = std::mem::take(&mut self.open_read);
        if changes.is_empty() {
            self.batch.push((Transaction { mark, share: Share::Whole, changes, read: rest }, None));
            return;
        }
        let is_barrier = lanes.contains(&Lane::Barrier) && !change::sabotage::is_on("coordinate-nothing");
        let mut parts: BTreeMap<u32, Vec<Buffered>> = BTreeMap::new();
        for (buffered, lane) in changes.into_iter().zip(lanes) {
            let number = match lane {
                _ if is_barrier => 0,
                Lane::Thread(number) => number,
                Lane::Barrier => 1,
            };
            parts.entry(number).or_default().push(buffered);
        }
        let last = parts.len() - 1;
        for (place, (number, changes)) in parts.into_iter().enumerate() {
            let mut read = Counted::default();
            let counted = changes.iter().filter(|part| part.arrival.is_none());
            counted.for_each(|part| read.counts(part.plan, part.change.operation.kind()).read += 1);
            if place == last {
                read.take_in(&rest);
            }
            let mut set = touches(number);
            if is_barrier {
                set.barrier();
            }
            let share = if place == last { Share::Whole } else { Share::Inside };
            self.batch.push((Transaction { mark: mark.clone(), share, changes, read }, Some(set)));
        }
    }

    /// Saves how far all threads are, when that has moved and nobody has told for a while: a thread without work would keep the
    /// group behind else.
    pub(super) fn move_group_if_due(&mut self) -> Result<(), Trouble> {
        if self.coordination.is_none() || self.streaming.is_some() {
            return Ok(());
        }
        let now = (self.setup.common.clock)();
        if now.elapsed_since(self.group_moved) < self.setup.common.pace.position {
            return Ok(());
        }
        self.group_moved = now;
        let team = self.team.as_ref().expect("the sessions were opened");
        let board = team.shared.lock();
        let is_due = board.halt.is_none() && board.durable.next < board.low().next;
        drop(board);
        if is_due { self.save_position(now) } else { Ok(()) }
    }

    /// Whether transactions above the low watermark were applied when the sessions were opened.
    pub(super) fn are_apart(&self) -> bool {
        self.marks.as_ref().is_some_and(crate::Watermarks::are_apart)
    }

    /// Whether the transaction comes after all that was applied when the sessions were opened.
    pub(super) fn is_beyond_high(&self, commit: &Commit) -> bool {
        self.marks.as_ref().is_some_and(|marks| Some(&commit.csn) > marks.high())
    }

    /// Whether everything is applied up to what was applied when the sessions were opened.
    pub(super) fn is_at_high(&self) -> bool {
        let team = self.team.as_ref().expect("the sessions were opened");
        let board = team.shared.lock();
        let reached = board.low().commit.as_ref().map(|commit| &commit.csn);
        board.is_idle() && self.marks.as_ref().is_none_or(|marks| marks.high() <= reached)
    }

    /// Whether all that SYNCHRONIZE REPLICAT asks for is done: nothing is applied ahead of anything.
    pub fn is_synchronized(&self) -> bool {
        self.is_synchronized
    }
}
