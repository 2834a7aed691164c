//! The sessions of a parallel Replicat: opened together, given up together.

use super::applier::Applier;
use super::board::{Alarm, Board, Shared};
use super::coordinate::Coordination;
use super::setup::Crew;
use super::standing::Standings;
use super::work::{Job, Mark};
use super::{ParallelReplicat, Seen, Trouble};
use crate::copies::Copies;
use crate::error::Error;
use crate::error_queue::QueueWriter;
use crate::judge::{self, Judge};
use crate::plans::{Asked, Plans};
use crate::schedule::{Schedule, Supply};
use crate::thread_marks::ThreadMarks;
use crate::{Applied, Watermarks};
use change::{Commit, Csn, Timestamp, TransactionId};
use database::{ApplyError, CheckpointRow, CheckpointSet, ErrorClass, Session};
use std::sync::Arc;
use std::thread::JoinHandle;
use trail::{Position, Reader, Start};

/// The sessions, and who works with them.
pub(super) struct Team {
    /// Looks up tables, unites rows, and keeps other processes of the group away. In a coordinated group it is applier 0, which
    /// applies what all threads wait for.
    group: (Applier, Option<Job>),
    is_coordinated: bool,
    pub(super) shared: Arc<Shared>,
    /// Appliers that the reader's thread runs, with what each has taken and not applied.
    appliers: Vec<(Applier, Option<Job>)>,
    threads: Vec<JoinHandle<()>>,
    /// Picks whose turn it is.
    turns: bool,
    pick: Box<dyn FnMut(usize) -> usize + Send>,
}

impl Team {
    /// Does a piece of work, if there is one for the appliers of this thread.
    pub(super) fn help(&mut self) -> bool {
        let group = self.is_coordinated.then_some(&mut self.group);
        if !self.turns {
            return self.appliers.iter_mut().chain(group).any(|(applier, _)| applier.work(&self.shared));
        }
        // Somebody takes a group, or somebody who has one applies it: so groups are open at the same time, and are
        // committed in any order.
        let mut all: Vec<_> = self.appliers.iter_mut().chain(group).collect();
        let first = (self.pick)(all.len());
        for place in 0..all.len() {
            let at = (first + place) % all.len();
            let (applier, held) = &mut *all[at];
            match held.take() {
                Some(job) => {
                    applier.perform(job, &self.shared);
                    return true;
                }
                None => *held = self.shared.lock().take(applier.number, &*applier.clock),
            }
            if held.is_some() {
                return true;
            }
        }
        false
    }

    /// Tells as many others as there are groups waiting.
    pub(super) fn offer(&self, groups: usize) {
        match groups {
            _ if self.threads.is_empty() => {}
            0 => {}
            1 if !self.is_coordinated => self.shared.offer_work(),
            _ => self.shared.call_all(),
        }
    }

    /// The applier that writes transactions that are read meanwhile: with threads, one that has a thread.
    fn stream_applier(&self) -> usize {
        match self.is_coordinated {
            true => 0,
            false if self.threads.is_empty() => 1,
            false => 2,
        }
    }

    /// The session of the group itself.
    pub(super) fn group(&mut self) -> &mut dyn Session {
        &mut *self.group.0.session
    }

    /// The reader's own applier, in a group that is not coordinated.
    pub(super) fn first(&mut self) -> &mut Applier {
        &mut self.appliers[0].0
    }

    /// Does the parts of such a transaction, if they are this thread's to do.
    pub(super) fn help_stream(&mut self) {
        let applier = match self.stream_applier() {
            0 => &mut self.group.0,
            1 => &mut self.appliers[0].0,
            _ => return,
        };
        loop {
            let part = self.shared.lock().take_part(applier.number);
            let Some(part) = part else { return };
            applier.perform_part(part, &self.shared);
        }
    }

    /// Who saves the position behind transactions for which nothing is written.
    fn saver(&mut self) -> &mut Applier {
        if self.is_coordinated { &mut self.group.0 } else { &mut self.appliers[0].0 }
    }

    /// What waits is to be given out, however little: those whom it is assigned to must know.
    pub(super) fn pause(&self) {
        let mut board = self.shared.lock();
        board.supply = Supply::Pauses;
        let is_for_others = self.is_coordinated && board.schedule.groups_waiting() > 0;
        drop(board);
        if is_for_others && !self.threads.is_empty() {
            self.shared.call_all();
        }
    }

    /// Ends all threads. Those at work commit what they have.
    fn disband(self) {
        self.shared.lock().is_over = true;
        self.shared.call_all();
        for thread in self.threads {
            // A thread that panicked has said so; its session is gone with it.
            let _ = thread.join();
        }
    }
}

impl ParallelReplicat {
    /// Opens all sessions when there are none, and goes back to what the checkpoint rows say.
    pub(super) fn connect(&mut self) -> Result<(), Trouble> {
        if self.team.is_some() {
            return Ok(());
        }
        let group_session = (self.setup.common.connect)();
        let mut group = group_session.map_err(|source| self.target_trouble("connect to the target", source))?;
        let known = self.load(&mut *group)?.appliers_wanted;
        let wanted = self.setup.parallelism.maximum() as u32;
        let mut sessions = Vec::new();
        // Also those that are not needed any more: what an old session of theirs was sent may still be on its way.
        for number in 1..=wanted.max(known) {
            let session = (self.setup.connect_applier)(number);
            sessions.push(session.map_err(|source| self.target_trouble("open the session of an applier", source))?);
        }
        sessions.truncate(wanted as usize);
        let set = self.load(&mut *group)?;
        let stop = |error: crate::RowError| Trouble::Stop(error.into());
        let threads = self.setup.threads.map(|threads| ThreadMarks::of(&set, threads, &self.setup.map_hash));
        let threads = threads.transpose().map_err(stop)?;
        let marks = match &threads {
            Some(threads) => threads.united.clone(),
            None => Watermarks::of(&set, &self.setup.map_hash).map_err(stop)?,
        };
        let copies = group.load_copies();
        let copies = copies.map_err(|source| self.target_trouble("read which tables were copied", source))?;
        let copies = Copies::of(copies).map_err(|table| Trouble::Stop(Error::CopyUnfinished { table }))?;
        let united = marks.row(&set.group);
        for row in set.rows() {
            Applied::from_row(row.clone()).map_err(|error| Trouble::Stop(error.into()))?;
        }
        if let Some(noted) = self.checkpoint.replicat()
            && self.is_new
        {
            let mut row = united.clone();
            if threads.is_some() {
                row.log_csn.clone_from(&row.log_complete_csn);
            }
            let applied = Applied::from_row(row).map_err(|error| Trouble::Stop(error.into()))?;
            let checked = applied.check_against(noted.current, noted.applied.as_ref());
            checked.map_err(|error| Trouble::Stop(error.into()))?;
            self.is_new = false;
        }
        let low = Mark {
            commit: marks.last().map(|(csn, transaction)| Commit {
                csn,
                transaction,
                time: marks.last_time().unwrap_or_default(),
            }),
            next: marks.position(),
        };
        let schedule = Schedule::new(self.setup.schedule_limits(), self.setup.parallelism);
        let standings = threads.as_ref().map(|threads| Standings::of(&set.group, threads.rows(), &low, mark_of));
        let is_coordinated = standings.is_some();
        let mut board = Board::new(schedule, low.clone(), set.group.clone(), wanted as usize, standings);
        let is_known = set.appliers_wanted == wanted && set.map_hash.as_deref() == Some(&self.setup.map_hash);
        // Threads go on where each of them stands.
        let is_as_wanted = is_known && (is_coordinated || (set.group == united && !marks.are_apart()));
        if !is_as_wanted {
            let rows = (1..=wanted).map(|number| board.row_at(number, &low)).collect();
            let united = CheckpointSet {
                group: united,
                appliers: rows,
                appliers_wanted: wanted,
                map_hash: Some(self.setup.map_hash.clone()),
            };
            self.replace(&mut *group, united)?;
        }
        let queue = QueueWriter::open(&mut *group);
        let queue = queue.map_err(|source| self.target_trouble("look for the error queue", source))?.map(Arc::new);
        let common = &self.setup.common;
        let (parks, holds) = common.rules.queues();
        if (parks || common.rules.keeps_versions()) && queue.is_none() {
            return Err(Trouble::Stop(Error::NoErrorQueue));
        }
        let judge = || {
            let (clock, discard_file) = (Arc::clone(&common.clock), Arc::clone(&self.discard_file));
            Judge::new((common.group.clone(), set.group.group_key), clock, discard_file, queue.clone(), holds)
        };
        let mut reader = judge();
        match reader.load_held(&mut *group) {
            Ok(()) => {}
            Err(judge::Setback::Failed { action, source }) => return Err(self.target_trouble(action, source)),
            Err(_) => unreachable!("nothing is judged yet"),
        }
        board.held = reader.held;
        board.attempts = self.attempts.take();
        let applier = |session, number| Applier {
            number,
            session,
            clock: Arc::clone(&common.clock),
            definitions: 0,
            directory: common.directory.as_str().into(),
            judge: judge(),
            part_tables: Default::default(),
        };
        let group = (applier(group, 0), None);
        let appliers = sessions.into_iter().zip(1..).map(|(session, number)| applier(session, number));
        let shared = Shared::new(board);
        let mut team = Team {
            group,
            is_coordinated,
            shared: Arc::clone(&shared),
            appliers: appliers.map(|applier| (applier, None)).collect(),
            threads: Vec::new(),
            turns: false,
            pick: Box::new(|_| 0),
        };
        match &mut self.setup.crew {
            Crew::Turns(pick) => {
                team.turns = true;
                team.pick = std::mem::replace(pick, Box::new(|_| 0));
            }
            Crew::Threads => {
                for (mut applier, _) in team.appliers.drain(1..) {
                    let shared = Arc::clone(&shared);
                    let thread = std::thread::Builder::new().name(format!("applier {}", applier.number));
                    let run = move || {
                        let alarm = Alarm(shared);
                        applier.work_until_over(&alarm.0);
                    };
                    let thread = thread.spawn(run).map_err(|cause| {
                        let what = "could not start the thread of an applier";
                        let source = database::Error::new(ErrorClass::Transient, what).with_cause(cause);
                        Trouble::Again(source)
                    })?;
                    team.threads.push(thread);
                }
            }
        }
        let applier = team.stream_applier();
        team.shared.lock().stream.applier = applier;
        self.team = Some(team);
        let asked = if is_coordinated { Asked::Threads } else { Asked::Touches };
        self.plans = Plans::asked_over(copies, asked, parks);
        self.coordination = threads.map(Coordination::of);
        self.seen = Seen::default();
        self.seen.last.clone_from(&low.commit);
        self.seen.shared.extend(low.commit.iter().map(|commit| commit.transaction.clone()));
        self.marks = Some(marks);
        self.is_reached |= self.setup.synchronizes && !self.are_apart();
        self.tell_if_moved(&low);
        self.note_durable(&low);
        Ok(())
    }

    fn load(&mut self, session: &mut dyn Session) -> Result<CheckpointSet, Trouble> {
        let set = session.load_checkpoints();
        let set = set.map_err(|source| self.target_trouble("read the checkpoint rows", source))?;
        set.ok_or_else(|| {
            let group_key = self.checkpoint.replicat().map_or(0, |body| body.group_key);
            Trouble::Stop(Error::NoRow { group: self.setup.common.group.clone(), group_key })
        })
    }

    fn replace(&mut self, session: &mut dyn Session, set: CheckpointSet) -> Result<(), Trouble> {
        let now: Timestamp = (self.setup.common.clock)();
        let stamped = |row: CheckpointRow| CheckpointRow {
            updated: now,
            directory: self.setup.common.directory.clone(),
            version: CheckpointRow::VERSION,
            ..row
        };
        let CheckpointSet { group, appliers, appliers_wanted, map_hash } = set;
        let appliers = appliers.into_iter().map(stamped).collect();
        let set = CheckpointSet { group: stamped(group), appliers, appliers_wanted, map_hash };
        let begun = session.begin();
        begun.map_err(|source| self.target_trouble("start a transaction in the target", source))?;
        let replaced = session.replace_checkpoints(&set);
        replaced.map_err(|source| self.target_trouble("unite the checkpoint rows", source))?;
        match session.commit() {
            Ok(()) => Ok(()),
            Err(ApplyError::Failed(source)) => Err(self.target_trouble("commit in the target", source)),
            Err(ApplyError::Rejected(rejection)) => {
                let what = format!("the target refused the checkpoint rows: {}", rejection.detail);
                Err(self.target_trouble("commit in the target", database::Error::new(ErrorClass::Permanent, what)))
            }
        }
    }

    /// Tells of checkpoint rows that somebody else moved while there was no session.
    fn tell_if_moved(&mut self, low: &Mark) {
        let left = self.progress.position;
        if self.progress.commits > 0 && low.next < left {
            (self.setup.common.notice)(&format!(
                "the checkpoint rows stand at {}, they were left at {left}: the target was put back, and goes on from the rows",
                low.next
            ));
        }
    }

    /// Leaves one row for the group, when nothing is applied before something earlier. When that fails the rows of the appliers
    /// stay, and say the same.
    pub(super) fn unite_rows(&mut self) {
        let Some(mut team) = self.team.take() else { return };
        let board = team.shared.lock();
        // What an earlier run applied ahead stays listed until reading has come past all of it.
        let reached = board.low().commit.as_ref().map(|commit| &commit.csn);
        let is_past = self.marks.as_ref().is_none_or(|marks| marks.high() <= reached);
        let is_settled = is_past && board.is_idle() && board.is_level() && board.halt.is_none();
        let united = is_settled.then(|| board.row_at(0, board.low()));
        // Threads keep their rows, all at one place.
        let threads = self.setup.threads.unwrap_or(0);
        let appliers = (1..=threads).map(|number| board.row_at(number, board.low())).collect();
        drop(board);
        if let Some(group) = united {
            let map_hash = Some(self.setup.map_hash.clone());
            let set = CheckpointSet { group, appliers, appliers_wanted: threads, map_hash };
            let replaced = self.replace(team.group(), set);
            if replaced.is_ok() {
                let low = team.shared.lock().low().clone();
                self.note_durable(&low);
            }
        }
        self.team = Some(team);
    }

    pub(super) fn open_reader(&mut self) -> Result<(), Trouble> {
        if self.reader.is_some() {
            return Ok(());
        }
        let position = self.progress.position;
        let after = self.marks.as_ref().and_then(Watermarks::last);
        let start = Start::At { position, after };
        let storage = Arc::clone(&self.setup.common.storage);
        let common = &self.setup.common;
        let (definitions, keys) = (&common.definitions, common.keys.clone());
        let reader = Reader::open_with(storage, common.trail, start, definitions, keys);
        let reader = reader.map_err(|source| Trouble::Stop(self.trail_error(source)))?;
        self.read_to = reader.position();
        self.reader = Some(reader);
        Ok(())
    }

    /// Saves the position behind transactions for which nothing was written.
    pub(super) fn save_position(&mut self, now: Timestamp) -> Result<(), Trouble> {
        let team = self.team.as_mut().expect("the sessions were opened");
        let board = team.shared.lock();
        let low = board.low().clone();
        let is_coordinated = team.is_coordinated;
        let mut row = board.row_at(if is_coordinated { 0 } else { 1 }, &low);
        drop(board);
        let saved = team.saver().save_position(&mut row);
        saved.map_err(|(action, source)| self.target_trouble(action, source))?;
        let mut board = self.team.as_ref().expect("the sessions were opened").shared.lock();
        if is_coordinated {
            board.saved_for_all(low.clone());
        } else {
            board.saved(low.clone());
        }
        let durable = board.durable.clone();
        drop(board);
        self.note_durable(&durable);
        self.progress.commits += 1;
        self.position_saved = now;
        Ok(())
    }

    /// Gives all sessions up, and what is not committed with them: it will be read again.
    pub(super) fn fall_back(&mut self) {
        if let Some(mut team) = self.team.take() {
            if let Crew::Turns(pick) = &mut self.setup.crew {
                *pick = std::mem::replace(&mut team.pick, Box::new(|_| 0));
            }
            let shared = Arc::clone(&team.shared);
            team.disband();
            // What was committed until now counts, whatever comes of the rest.
            let finished = std::mem::take(&mut shared.lock().finished);
            for finished in finished {
                let _ = self.settle(finished);
            }
            let board = shared.lock();
            self.side_by_side.take_in(board.schedule.tally(), board.at_work);
            self.attempts.clone_from(&board.attempts);
            let durable = board.durable.clone();
            drop(board);
            if durable.next > self.progress.position {
                self.note_durable(&durable);
            }
        }
        self.reader = None;
        self.parked = None;
        self.paused_since = None;
        self.current = None;
        self.is_inside = false;
        self.start.go_back();
        self.left_out = None;
        self.open.clear();
        self.open_bytes = 0;
        self.open_read.clear();
        self.touches.clear();
        self.last_kept = None;
        self.streaming = None;
        self.alone = None;
        self.batch.clear();
        self.batch_changes = 0;
        self.ending = None;
        self.inside = 0;
        self.piece_start = 0;
        self.given = None;
    }
}

/// The place that a row stands for.
fn mark_of(row: &CheckpointRow) -> Mark {
    let last = row.log_complete_csn.as_deref().zip(row.log_complete_transactions.last());
    let commit = last.map(|(csn, transaction)| Commit {
        csn: Csn::new(csn),
        transaction: TransactionId::new(transaction.as_str()),
        time: row.audit_time.unwrap_or_default(),
    });
    Mark { commit, next: Position::new(row.sequence, row.rba) }
}

impl Drop for ParallelReplicat {
    /// No thread stays behind.
    fn drop(&mut self) {
        if let Some(team) = self.team.take() {
            team.shared.lock().supply = Supply::Flows;
            team.disband();
        }
    }
}
