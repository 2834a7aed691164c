//! What the loop does to the target: connect, begin, write, commit, and what follows from the target's answers.

use super::{Buffered, Replicat, Trouble};
use crate::copies::Copies;
use crate::error::{Error, RejectedChange};
use crate::handling::Converted;
use crate::plans::{Plans, written_for};
use change::{Commit, Csn, Timestamp, TransactionId};
use database::{ApplyError, ColumnPair, CommitFailure, CommitStep, ErrorClass, Rejection, Session, Write};
use process::FilterReason;
use std::cmp::Ordering;
use trail::Position;

/// What is written for a change, target by target.
fn writes_of<'w>(buffered: &'w Buffered, plans: &'w Plans) -> impl Iterator<Item = Write<'w>> {
    let targets = plans.get(buffered.plan).written.targets.iter().enumerate();
    targets.filter_map(|(place, plan)| {
        let operation = written_for(&buffered.change.operation, &buffered.converted, place)?;
        Some(Write { plan, operation })
    })
}

fn writes_of_all<'w>(buffer: &'w [Buffered], plans: &'w Plans) -> Vec<Write<'w>> {
    let mut writes = Vec::with_capacity(buffer.len());
    for buffered in buffer {
        writes.extend(writes_of(buffered, plans));
    }
    if change::sabotage::is_on("reorder-changes") {
        writes.reverse();
    }
    writes
}

impl Replicat {
    /// Opens a session when there is none, and goes back to what its checkpoint row says.
    pub(super) fn connect(&mut self) -> Result<(), Trouble> {
        if self.session.is_some() {
            return Ok(());
        }
        let connected = (self.setup.connect)();
        let mut session = connected.map_err(|source| self.target_trouble("connect to the target", source))?;
        let row = session.load_checkpoint();
        let row = row.map_err(|source| self.target_trouble("read the checkpoint row", source))?;
        let row = row.ok_or_else(|| self.no_row())?;
        self.applied = self.setup.applied(row).map_err(|error| Trouble::Stop(error.into()))?;
        let copies = session.load_copies();
        let copies = copies.map_err(|source| self.target_trouble("read which tables were copied", source))?;
        let copies = Copies::of(copies).map_err(|table| Trouble::Stop(Error::CopyUnfinished { table }))?;
        // Only now: what was applied is not known before the row is read.
        self.session = Some(session);
        if self.in_doubt.take() == Some(self.applied.position()) {
            // The commit that failed without an answer was made.
            self.committed((self.setup.clock)())?;
        } else {
            self.tell_if_moved();
        }
        self.judge.forget_open();
        self.forget_uncommitted();
        self.durable.clone_from(self.applied.row());
        self.plans = super::plans(&self.setup.rules, copies);
        self.load_held()
    }

    /// Tells of a checkpoint row that somebody else moved while there was no session.
    fn tell_if_moved(&mut self) {
        let (left, found) = (self.durable_position(), self.applied.position());
        let who = match found.cmp(&left) {
            Ordering::Equal => return,
            Ordering::Less => "the target was put back, and goes on from the row",
            Ordering::Greater => "another Replicat moves it; give each home a checkpoint row of its own",
        };
        (self.setup.notice)(&format!("the checkpoint row stands at {found}, it was left at {left}: {who}"));
    }

    fn durable_position(&self) -> Position {
        Position { sequence: self.durable.sequence, rba: self.durable.rba }
    }

    pub(super) fn session(&mut self) -> &mut dyn Session {
        self.session.as_deref_mut().expect("the session was opened")
    }

    pub(super) fn begin(&mut self) -> Result<(), Trouble> {
        if change::sabotage::is_on("checkpoint-before-rows") {
            self.save_row_alone()?;
        }
        self.session().begin().map_err(|source| self.target_trouble("start a transaction in the target", source))
    }

    /// Sends the oldest `count` buffered changes.
    pub(super) fn write(&mut self, count: usize) -> Result<(), Trouble> {
        self.receive_heartbeats(count);
        if self.is_single() || self.looks_first(count) {
            return self.write_singly(count);
        }
        self.let_pass(count)?;
        let session = self.session.as_deref_mut().expect("the session was opened");
        let writes = writes_of_all(&self.buffer[..count], &self.plans);
        match session.apply(&writes) {
            Ok(()) => {}
            Err(ApplyError::Rejected(_)) if change::sabotage::is_on("swallow-rejections") => {}
            Err(ApplyError::Rejected(rejection)) => return Err(self.rejected(count, rejection)),
            Err(ApplyError::Failed(source)) => return Err(self.target_trouble("write rows to the target", source)),
        }
        self.wrote(count);
        Ok(())
    }

    /// Sends the oldest `count` buffered changes, saves the position and commits.
    pub(super) fn write_and_commit(&mut self, count: usize) -> Result<(), Trouble> {
        let apart = ["checkpoint-after-rows", "swallow-rejections"].into_iter().any(change::sabotage::is_on);
        if apart || self.is_single() || self.looks_first(count) {
            self.write(count)?;
            return self.commit();
        }
        self.receive_heartbeats(count);
        self.let_pass(count)?;
        self.save_judged()?;
        let row = self.applied.stamp((self.setup.clock)(), &self.setup.directory);
        let session = self.session.as_deref_mut().expect("the session was opened");
        let committed = session.commit_with(&writes_of_all(&self.buffer[..count], &self.plans), row);
        match committed {
            Ok(()) => {
                self.wrote(count);
                self.committed((self.setup.clock)())
            }
            Err(CommitFailure { step, error }) => {
                if step == CommitStep::Commit {
                    // They count once it is known that the commit was made.
                    self.wrote(count);
                }
                Err(self.not_committed(count, step, error))
            }
        }
    }

    /// The way out when `count` changes were being written, or the position saved, or all of it committed.
    fn not_committed(&mut self, count: usize, step: CommitStep, error: ApplyError) -> Trouble {
        match (step, error) {
            (CommitStep::Write, ApplyError::Rejected(rejection)) => self.rejected(count, rejection),
            (_, ApplyError::Rejected(rejection)) => self.rejected(0, rejection),
            (CommitStep::Write, ApplyError::Failed(source)) => self.target_trouble("write rows to the target", source),
            (CommitStep::Save, ApplyError::Failed(source)) => match source.class() {
                ErrorClass::Missing => self.no_row(),
                _ => self.target_trouble("save the checkpoint row", source),
            },
            (CommitStep::Commit, ApplyError::Failed(source)) => {
                if source.class() == ErrorClass::ConnectionLost {
                    self.in_doubt = Some(self.applied.position());
                }
                self.target_trouble("commit in the target", source)
            }
        }
    }

    /// Counts the oldest `count` buffered changes as written and forgets them.
    fn wrote(&mut self, count: usize) {
        for written in self.buffer.drain(..count) {
            self.buffered_bytes -= written.bytes;
            if written.arrival.is_some() {
                continue;
            }
            let is_nothing = |converted: &Converted| matches!(converted, Converted::Nothing);
            let nothing = !written.converted.is_empty() && written.converted.iter().all(is_nothing);
            let counts = self.written_tally.counts(written.plan, written.change.operation.kind());
            match nothing {
                true => counts.filter(FilterReason::NothingToSet, 1),
                false => counts.written += 1,
            }
        }
    }

    /// Saves the position and commits.
    pub(super) fn commit(&mut self) -> Result<(), Trouble> {
        let after_rows = change::sabotage::is_on("checkpoint-after-rows");
        self.save_judged()?;
        if !after_rows {
            self.save_row()?;
        }
        match self.session().commit() {
            Ok(()) => {}
            Err(error) => return Err(self.not_committed(0, CommitStep::Commit, error)),
        }
        if after_rows {
            self.save_row_alone()?;
        }
        self.committed((self.setup.clock)())
    }

    fn save_row(&mut self) -> Result<(), Trouble> {
        let row = self.applied.stamp((self.setup.clock)(), &self.setup.directory);
        let saved = self.session.as_deref_mut().expect("the session was opened").save_checkpoint(row);
        saved.map_err(|source| self.not_committed(0, CommitStep::Save, source.into()))
    }

    /// What must never be done: the position in a transaction of its own. Only sabotage switches come here.
    fn save_row_alone(&mut self) -> Result<(), Trouble> {
        self.session().begin().map_err(|source| self.target_trouble("start a transaction in the target", source))?;
        self.save_row()?;
        match self.session().commit() {
            Err(ApplyError::Failed(source)) => Err(self.target_trouble("commit in the target", source)),
            _ => Ok(()),
        }
    }

    /// Notes that the target has everything up to the applied position.
    fn committed(&mut self, now: Timestamp) -> Result<(), Trouble> {
        self.has_defined = false;
        self.durable.clone_from(self.applied.row());
        self.group_tally.take_in(&mut self.written_tally);
        let settled = self.group_tally.settle(&mut self.statistics, |plan| self.plans.get(plan).counted_as);
        settled.map_err(|counts| {
            let (read, written, filtered) = (counts.read, counts.written, counts.filtered_total());
            let detail = format!("{read} read, {written} applied, {filtered} filtered");
            Trouble::Stop(Error::Unbalanced { position: self.applied.position(), detail })
        })?;
        let progress = &mut self.progress;
        progress.position = self.applied.position();
        progress.last = self.applied.last();
        progress.last_commit_time = self.applied.row().audit_time;
        progress.transactions += self.group.len() as u64;
        progress.commits += 1;
        self.group.iter().for_each(|commit| self.lag.record(commit.time, now));
        self.group.clear();
        self.position_saved = now;
        if self.apart_until.is_some_and(|end| progress.position >= end) {
            self.apart_until = None;
            self.grouping.set_operations(self.setup.limits.operations);
        }
        if self.singly_until.is_some_and(|end| progress.position >= end) {
            self.singly_until = None;
            self.judge.acquit();
        }
        let mut told = self.judge.committed();
        self.conflicts.add(told.conflicts);
        if !told.parked.is_empty() {
            self.parked_transactions.append(&mut told.parked);
            self.load_held()?;
        }
        Ok(())
    }

    /// What to do about a row that the target did not take. `count` changes were being written; 0 at commit.
    fn rejected(&mut self, count: usize, rejection: Rejection) -> Trouble {
        if !self.is_single() && self.handles_misfits() {
            return Trouble::Singly;
        }
        if self.group.len() > 1 {
            return Trouble::Apart;
        }
        if count == 0 && self.is_single() {
            let rejected = self.rejected_at_commit(&rejection);
            self.brief_judge();
            let plans = self.written_tally.plans().iter();
            let misfits = plans.flat_map(|plan| self.plans.get(*plan).written.misfits.iter());
            let commit = self.group.last().or(self.current.as_ref());
            let setback = self.judge.refused_at_commit(misfits, &rejection, rejected, commit);
            return self.way_back(setback);
        }
        // What is refused belongs to the only transaction of the group, or to the one that is being streamed.
        let to_blame = self.group.pop().or(self.current.take());
        let (csn, transaction) = to_blame.map_or_else(
            || (Csn::new(""), TransactionId::new("")),
            |Commit { csn, transaction, .. }| (csn, transaction),
        );
        let Rejection { mut index, outcome, detail, .. } = rejection;
        for buffered in &self.buffer[..count] {
            let writes: Vec<Write<'_>> = writes_of(buffered, &self.plans).collect();
            let Some(Write { plan, .. }) = writes.get(index) else {
                index -= writes.len();
                continue;
            };
            let name = |pair: &ColumnPair| plan.target.columns[pair.target].name.clone();
            return Trouble::Stop(Error::Rejected(Box::new(RejectedChange {
                operation: Some(buffered.change.operation.kind()),
                source_table: Some(buffered.change.table.name.clone()),
                target: Some(plan.target.name.clone()),
                key_columns: plan.key.iter().map(name).collect(),
                outcome,
                detail,
                position: buffered.position,
                csn,
                transaction,
            })));
        }
        // The target refused at commit, and names no row.
        Trouble::Stop(Error::Rejected(Box::new(RejectedChange {
            operation: None,
            source_table: None,
            target: None,
            key_columns: Vec::new(),
            outcome,
            detail,
            position: self.read_to,
            csn,
            transaction,
        })))
    }

    /// What is told of a transaction that the target refused at commit.
    fn rejected_at_commit(&self, rejection: &Rejection) -> RejectedChange {
        let commit = self.group.last().or(self.current.as_ref());
        RejectedChange {
            operation: None,
            source_table: None,
            target: None,
            key_columns: Vec::new(),
            outcome: rejection.outcome,
            detail: rejection.detail.clone(),
            position: self.read_to,
            csn: commit.map_or_else(|| Csn::new(""), |commit| commit.csn.clone()),
            transaction: commit.map_or_else(|| TransactionId::new(""), |commit| commit.transaction.clone()),
        }
    }

    pub(super) fn target_trouble(&self, action: &'static str, source: database::Error) -> Trouble {
        match source.class() {
            ErrorClass::Transient => Trouble::Again { reconnect: false, cause: source },
            ErrorClass::ConnectionLost => Trouble::Again { reconnect: true, cause: source },
            _ => Trouble::Stop(Error::Target { action, position: self.progress.position, source }),
        }
    }

    fn no_row(&self) -> Trouble {
        Trouble::Stop(Error::NoRow { group: self.setup.group.clone(), group_key: self.durable.group_key })
    }
}
