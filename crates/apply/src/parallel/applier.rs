//! One session that applies groups, and the thread that it may have.

use super::board::{Halt, Shared, Targets};
use super::work::{Buffered, Finished, Job, Mark, Part, Transaction};
use crate::error::{Error, RejectedChange};
use crate::schedule::Verdict;
use change::{Csn, Timestamp, TransactionId};
use database::{
    ApplyError, CheckpointRow, ColumnPair, CommitFailure, CommitStep, Error as DatabaseError, ErrorClass, Rejection,
    Session, TablePlan, Write,
};
use std::sync::Arc;

/// One of the appliers of a group.
pub(super) struct Applier {
    /// From 1; 1 is the reader's own.
    pub(super) number: usize,
    pub(super) session: Box<dyn Session>,
    pub(super) clock: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    pub(super) directory: Arc<str>,
    /// Statements that defined objects, when the session last forgot what it knew of tables.
    pub(super) definitions: u64,
}

/// Why a group was not committed.
pub(super) enum Setback {
    Rejected(Rejection),
    Failed { action: &'static str, source: DatabaseError },
}

impl Setback {
    /// The failure of a step in which no row can be refused.
    pub(super) fn failed(self) -> (&'static str, DatabaseError) {
        match self {
            Setback::Failed { action, source } => (action, source),
            Setback::Rejected(rejection) => {
                let what = format!("the target refused what it was asked for: {}", rejection.detail);
                ("work in the target", DatabaseError::new(ErrorClass::Permanent, what))
            }
        }
    }

    fn of(step: CommitStep, error: ApplyError) -> Setback {
        let action = match step {
            CommitStep::Write => "write rows to the target",
            CommitStep::Save => "save the checkpoint row",
            CommitStep::Commit => "commit in the target",
        };
        match error {
            ApplyError::Rejected(rejection) => Setback::Rejected(rejection),
            ApplyError::Failed(source) => Setback::Failed { action, source },
        }
    }
}

impl Applier {
    /// Takes a group and applies it, if there is one. Returns whether there was.
    pub(super) fn work(&mut self, shared: &Shared) -> bool {
        let Some(job) = shared.lock().take(self.number, &*self.clock) else { return false };
        self.perform(job, shared);
        true
    }

    /// Works until the board is over.
    pub(super) fn work_until_over(&mut self, shared: &Shared) {
        let mut board = shared.lock();
        while !board.is_over {
            if let Some(part) = board.take_part(self.number) {
                drop(board);
                self.perform_part(part, shared);
                board = shared.lock();
            } else if let Some(job) = board.take(self.number, &*self.clock) {
                drop(board);
                self.perform(job, shared);
                board = shared.lock();
            } else {
                board = shared.await_work(board);
            }
        }
    }

    /// Applies a group and tells what became of it.
    pub(super) fn perform(&mut self, job: Job, shared: &Shared) {
        let Job { group, mut transactions, mut row, low, targets, definitions } = job;
        self.forget_tables_before(definitions);
        let changes = transactions.iter_mut().flat_map(|transaction| &mut transaction.changes);
        changes.for_each(|buffered| buffered.receive(&*self.clock));
        let result = self.apply(&transactions, &targets, &mut row);
        let Err(setback) = result else {
            let at = (self.clock)();
            let finished = Finished::committed(&transactions, at);
            let mut board = shared.lock();
            board.committed(self.number, &group, low, finished, at);
            let (waiting, is_assigned) = (board.schedule.groups_waiting(), board.schedule.is_assigned());
            drop(board);
            if is_assigned && waiting > 0 {
                // What waited for this group waits for certain appliers.
                shared.call_all();
            } else if waiting > 1 {
                // What waited for this group may be more than one applier can do.
                shared.offer_work();
            }
            shared.tell_done();
            // The rows are freed after the news is out.
            drop(transactions);
            return;
        };
        let rolled_back = self.session.rollback();
        let told = match (&setback, transactions.last()) {
            (Setback::Rejected(rejection), Some(last)) => {
                let changes = transactions
                    .iter()
                    .flat_map(|transaction| transaction.changes.iter().map(|buffered| (buffered, &transaction.mark)));
                Some(refused(rejection, changes, &targets, &last.mark))
            }
            _ => None,
        };
        let at = (self.clock)();
        let mut board = shared.lock();
        let verdict = board.rolled_back(&group, transactions, at);
        let halt = match (setback, rolled_back) {
            (_, Err(source)) => Some(Halt::Reconnect(source)),
            (Setback::Failed { source, .. }, Ok(())) if source.class() == ErrorClass::ConnectionLost => {
                Some(Halt::Reconnect(source))
            }
            _ if verdict == Verdict::Again => None,
            (Setback::Failed { source, .. }, Ok(())) if source.class() == ErrorClass::Transient => {
                Some(Halt::Pause(source))
            }
            (Setback::Failed { action, source }, Ok(())) => {
                let position = board.durable.next;
                Some(Halt::Stop(Box::new(Error::Target { action, position, source })))
            }
            (Setback::Rejected(_), Ok(())) => told.map(|told| Halt::Stop(Box::new(told))),
        };
        // The first trouble counts; a lost connection is worse than what can be tried again.
        if let Some(halt) = halt
            && !matches!(board.halt, Some(Halt::Stop(_) | Halt::Reconnect(_)))
        {
            board.halt = Some(halt);
        }
        drop(board);
        shared.call_all();
    }

    /// Forgets what was known of tables before the statements that defined objects so far.
    fn forget_tables_before(&mut self, definitions: u64) {
        if self.definitions != definitions {
            self.definitions = definitions;
            self.session.forget_tables();
        }
    }

    /// Writes changes in the open transaction.
    pub(super) fn write_changes(&mut self, changes: &[Buffered], targets: &Targets) -> Result<(), ApplyError> {
        self.session.apply(&writes(changes.iter(), targets))
    }

    /// Saves `row` and commits.
    pub(super) fn commit_row(&mut self, row: &mut CheckpointRow) -> Result<(), (CommitStep, ApplyError)> {
        row.updated = (self.clock)();
        self.directory.as_ref().clone_into(&mut row.directory);
        self.session.commit_with(&[], row).map_err(|failure| (failure.step, failure.error))
    }

    fn apply(
        &mut self,
        transactions: &[Transaction],
        targets: &Targets,
        row: &mut CheckpointRow,
    ) -> Result<(), Setback> {
        let changes = transactions.iter().flat_map(|transaction| &transaction.changes);
        self.begin()?;
        self.commit_with(&writes(changes, targets), row)
    }

    /// Starts a transaction.
    pub(super) fn begin(&mut self) -> Result<(), Setback> {
        self.session.begin().map_err(|source| Setback::Failed { action: "start a transaction in the target", source })
    }

    fn write(&mut self, writes: &[Write<'_>]) -> Result<(), Setback> {
        match self.session.apply(writes) {
            Ok(()) => Ok(()),
            Err(ApplyError::Rejected(_)) if change::sabotage::is_on("swallow-rejections") => Ok(()),
            Err(error) => Err(Setback::of(CommitStep::Write, error)),
        }
    }

    /// Writes what is left to write, saves `row` and commits.
    fn commit_with(&mut self, mut writes: &[Write<'_>], row: &mut CheckpointRow) -> Result<(), Setback> {
        if change::sabotage::is_on("swallow-rejections") {
            self.write(writes)?;
            writes = &[];
        }
        row.updated = (self.clock)();
        if *row.directory != *self.directory {
            row.directory = self.directory.as_ref().to_owned();
        }
        self.session.commit_with(writes, row).map_err(|CommitFailure { step, error }| Setback::of(step, error))
    }

    /// Saves a row that moves the position over transactions without anything to write.
    pub(super) fn save_position(&mut self, row: &mut CheckpointRow) -> Result<(), (&'static str, DatabaseError)> {
        let saved = self.begin().and_then(|()| self.commit_with(&[], row));
        saved.map_err(|setback| {
            // Whether the transaction still lives is the caller's to find out.
            match setback {
                Setback::Failed { action, source } => (action, source),
                Setback::Rejected(rejection) => {
                    let what = format!("the target refused the checkpoint row: {}", rejection.detail);
                    ("save the checkpoint row", DatabaseError::new(ErrorClass::Permanent, what))
                }
            }
        })
    }

    /// Writes a part of a transaction whose end is not known yet. While one is open the applier does nothing else, and no
    /// other applier does anything.
    pub(super) fn perform_part(&mut self, mut part: Part, shared: &Shared) {
        if let Part::Write { is_first: true, .. } = &part {
            let definitions = shared.lock().definitions;
            self.forget_tables_before(definitions);
        }
        if let Part::Write { changes, .. } = &mut part {
            changes.iter_mut().for_each(|buffered| buffered.receive(&*self.clock));
        }
        let result = match &part {
            Part::Write { changes, targets, is_first, .. } => {
                let begun = if *is_first { self.begin() } else { Ok(()) };
                begun.and_then(|()| self.write(&writes(changes.iter(), targets)))
            }
            Part::Commit { row, .. } => self.commit_with(&[], &mut row.clone()),
            Part::Rollback => self.session.rollback().map_err(|source| Setback::Failed { action: "roll back", source }),
        };
        let halt = result.err().map(|setback| {
            let rolled_back = self.session.rollback();
            match (setback, rolled_back, &part) {
                (_, Err(source), _) => Halt::Reconnect(source),
                (Setback::Failed { source, .. }, ..) if source.class() == ErrorClass::ConnectionLost => {
                    Halt::Reconnect(source)
                }
                (Setback::Failed { source, .. }, ..) if source.class() == ErrorClass::Transient => Halt::Again(source),
                (Setback::Failed { action, source }, ..) => {
                    let position = shared.lock().durable.next;
                    Halt::Stop(Box::new(Error::Target { action, position, source }))
                }
                (Setback::Rejected(rejection), _, Part::Write { changes, targets, mark, .. }) => {
                    let marked = changes.iter().map(|buffered| (buffered, mark));
                    Halt::Stop(Box::new(refused(&rejection, marked, targets, mark)))
                }
                (Setback::Rejected(rejection), _, Part::Commit { mark, .. }) => {
                    Halt::Stop(Box::new(refused(&rejection, std::iter::empty(), &Targets::default(), mark)))
                }
                (Setback::Rejected(_), _, Part::Rollback) => unreachable!("a rollback is never refused"),
            }
        });
        let mut board = shared.lock();
        board.stream.parts_done += 1;
        if let Some(halt) = halt {
            board.stream.parts.clear();
            board.halt = Some(halt);
        }
        drop(board);
        shared.call_all();
    }
}

fn writes<'w>(changes: impl Iterator<Item = &'w Buffered> + Clone, targets: &'w Targets) -> Vec<Write<'w>> {
    let mut writes = Vec::with_capacity(changes.clone().count());
    for Buffered { change, plan, .. } in changes {
        writes.extend(targets[*plan].iter().map(|plan| Write { plan, operation: &change.operation }));
    }
    if change::sabotage::is_on("reorder-changes") {
        writes.reverse();
    }
    writes
}

/// What the operator is told of a refusal: the change, or `last` where the target refused at commit and names none.
pub(super) fn refused<'c>(
    rejection: &Rejection,
    changes: impl Iterator<Item = (&'c Buffered, &'c Mark)>,
    targets: &Targets,
    last: &Mark,
) -> Error {
    let mut index = rejection.index;
    let mut found = None;
    for (buffered, mark) in changes {
        let plans = &targets[buffered.plan];
        if let Some(plan) = plans.get(index) {
            found = Some((buffered, mark, plan));
            break;
        }
        index -= plans.len();
    }
    let commit = found.map_or(last, |(_, mark, _)| mark).commit.as_ref();
    let name = |plan: &TablePlan, pair: &ColumnPair| plan.target.columns[pair.target].name.clone();
    Error::Rejected(Box::new(RejectedChange {
        operation: found.map(|(buffered, ..)| buffered.change.operation.kind()),
        source_table: found.map(|(buffered, ..)| buffered.change.table.name.clone()),
        target: found.map(|(.., plan)| plan.target.name.clone()),
        key_columns: found.map(|(.., plan)| plan.key.iter().map(|pair| name(plan, pair)).collect()).unwrap_or_default(),
        outcome: rejection.outcome,
        detail: rejection.detail.clone(),
        position: found.map_or(last.next, |(buffered, ..)| buffered.position),
        csn: commit.map_or_else(|| Csn::new(""), |commit| commit.csn.clone()),
        transaction: commit.map_or_else(|| TransactionId::new(""), |commit| commit.transaction.clone()),
    }))
}
