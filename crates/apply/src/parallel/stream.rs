//! A transaction that is written while it is read.

use super::work::{Counted, Finished, Mark, Part, Retrial};
use super::{ParallelReplicat, Trouble};
use change::Commit;
use std::time::Duration;
use trail::Position;

/// Parts that wait for their applier: one more than it works at, so that it never waits for the reader.
const PARTS_MAX: usize = 2;

/// How far such a transaction is.
pub(super) struct Streaming {
    commit: Commit,
    position: Position,
    pub(super) read: Counted,
    /// Parts that were handed over.
    parts: u64,
    /// The end of the transaction, when it is there.
    pub(super) end: Option<Mark>,
    is_committing: bool,
    /// What ends is a piece: the transaction goes on.
    pub(super) is_piece: bool,
    /// There is a part to hand over.
    pub(super) is_due: bool,
}

impl Streaming {
    pub(super) fn of(commit: Commit, position: Position) -> Streaming {
        Streaming {
            commit,
            position,
            read: Counted::default(),
            parts: 0,
            end: None,
            is_committing: false,
            is_piece: false,
            is_due: true,
        }
    }
}

impl Retrial {
    /// Whether it is this transaction's.
    pub(super) fn is_of(&self, commit: &Commit) -> bool {
        self.commit.csn == commit.csn && self.commit.transaction == commit.transaction
    }
}

impl Streaming {
    /// Whether a part of it was handed over.
    pub(super) fn has_begun(&self) -> bool {
        self.parts > 0
    }
}

impl ParallelReplicat {
    /// Hands over what is due of a transaction that is written while it is read. Returns whether reading may go on.
    pub(super) fn stream_is_served(&mut self, wait: Duration) -> Result<bool, Trouble> {
        let Some(mut streaming) = self.streaming.take_if(|streaming| streaming.is_due) else { return Ok(true) };
        // Nothing else is applied meanwhile.
        if streaming.parts == 0 && !self.drain(wait)? {
            self.streaming = Some(streaming);
            return Ok(false);
        }
        let team = self.team.as_mut().expect("the sessions were opened");
        let has_room = |board: &mut super::Board| board.stream.parts.len() < PARTS_MAX || board.halt.is_some();
        if !team.shared.await_done(wait, has_room) {
            self.streaming = Some(streaming);
            return Ok(false);
        }
        let mut board = team.shared.lock();
        if !self.open.is_empty() {
            if self.coordination.is_some() {
                // Counted with their parts.
                for buffered in self.open.iter().filter(|buffered| buffered.arrival.is_none()) {
                    self.open_read.counts(buffered.plan, buffered.change.operation.kind()).read += 1;
                }
            }
            let changes = std::mem::take(&mut self.open);
            self.coordination.iter_mut().for_each(|threads| threads.lanes.clear());
            self.open_bytes = 0;
            let mark = Mark { commit: Some(streaming.commit.clone()), next: streaming.position };
            let targets = board.targets.clone();
            let is_first = streaming.parts == 0;
            let retrial = self.retrial.as_mut().filter(|retrial| retrial.is_of(&streaming.commit));
            let (is_judged, doomed) =
                retrial.map_or((false, None), |retrial| (true, retrial.doomed.take_if(|_| is_first)));
            board.stream.parts.push_back(Part::Write { changes, targets, mark, is_first, is_judged, doomed });
            streaming.parts += 1;
        }
        streaming.read.take_in(&std::mem::take(&mut self.open_read));
        if let Some(mark) = streaming.end.clone()
            && !streaming.is_committing
        {
            let applier = board.stream.applier;
            let row = match streaming.is_piece {
                true => board.row_inside(applier, &mark),
                false => board.row_at(applier as u32, &mark),
            };
            let row = Box::new(row);
            board.stream.parts.push_back(Part::Commit { row, mark });
            streaming.is_committing = true;
        }
        drop(board);
        team.shared.call_all();
        team.help_stream();
        if !streaming.is_committing {
            streaming.is_due = false;
            self.streaming = Some(streaming);
            self.look_at_board()?;
            return Ok(true);
        }
        let is_written = team.shared.await_done(wait, |board| {
            board.halt.is_some()
                || (board.stream.parts.is_empty() && board.stream.parts_done == board.stream.parts_taken)
        });
        let team = self.team.as_ref().expect("the sessions were opened");
        let mut board = team.shared.lock();
        if board.halt.is_some() || !is_written {
            drop(board);
            self.streaming = Some(streaming);
            self.look_at_board()?;
            return Ok(false);
        }
        let mark = streaming.end.expect("it is being committed");
        let times = if streaming.is_piece { Vec::new() } else { vec![streaming.commit.time] };
        let mut counted = streaming.read;
        counted.take_in(&std::mem::take(&mut board.stream.counted));
        let told = std::mem::take(&mut board.stream.told);
        let finished = Finished { counted, times, at: Some((self.setup.common.clock)()), told };
        self.retrial = self.retrial.take().filter(|retrial| !retrial.is_of(&streaming.commit));
        match streaming.is_piece {
            true => {
                let applier = board.stream.applier;
                board.passed_inside(applier, mark, finished);
            }
            false => board.passed(mark, finished),
        }
        drop(board);
        self.touches.clear();
        self.look_at_board()?;
        Ok(true)
    }

    /// The transaction was abandoned by the writer of the trail.
    pub(super) fn give_up_stream(&mut self, streaming: &Streaming) {
        if streaming.parts == 0 {
            return;
        }
        let team = self.team.as_mut().expect("the sessions were opened");
        team.shared.lock().stream.parts.push_back(Part::Rollback);
        team.shared.call_all();
        team.help_stream();
    }
}
