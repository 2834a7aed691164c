//! One session that applies groups, and the thread that it may have.

use super::board::{Halt, Shared, Targets};
use super::by_rules::follow_rules;
use super::work::{Buffered, Finished, Job, Mark, Transaction};
use crate::error::{Error, RejectedChange};
use crate::judge::{Clock, Judge};
use crate::plans::{Written, written_for};
use crate::schedule::Verdict;
use change::{Csn, TransactionId};
use database::{
    ApplyError, CheckpointRow, ColumnPair, CommitFailure, CommitStep, Error as DatabaseError, ErrorClass, Rejection,
    Session, TablePlan, Write,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// One of the appliers of a group.
pub(super) struct Applier {
    /// From 1; 1 is the reader's own.
    pub(super) number: usize,
    pub(super) session: Box<dyn Session>,
    pub(super) clock: Clock,
    pub(super) directory: Arc<str>,
    /// Statements that defined objects, when the session last forgot what it knew of tables.
    pub(super) definitions: u64,
    /// Who writes rows one by one.
    pub(super) judge: Judge,
    /// The tables of the transaction that is written while it is read.
    pub(super) part_tables: BTreeMap<usize, Written>,
}

/// Why a group was not committed.
pub(super) enum Setback {
    Rejected(Rejection),
    Failed {
        action: &'static str,
        source: DatabaseError,
    },
    /// The judge does not let it pass.
    Judged(crate::judge::Setback),
}

impl From<crate::judge::Setback> for Setback {
    fn from(setback: crate::judge::Setback) -> Setback {
        match setback {
            crate::judge::Setback::Failed { action, source } => Setback::Failed { action, source },
            other => Setback::Judged(other),
        }
    }
}

impl Setback {
    /// The failure of a step in which no row can be refused.
    pub(super) fn failed(self) -> (&'static str, DatabaseError) {
        let detail = match self {
            Setback::Failed { action, source } => return (action, source),
            Setback::Rejected(rejection) => rejection.detail,
            Setback::Judged(_) => "a rule for rows that do not fit".to_owned(),
        };
        let what = format!("the target refused what it was asked for: {detail}");
        ("work in the target", DatabaseError::new(ErrorClass::Permanent, what))
    }

    pub(super) fn of(step: CommitStep, error: ApplyError) -> Setback {
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
        let Job { group, mut transactions, mut row, low, targets, definitions, is_oldest, may_be_held } = job;
        self.forget_tables_before(definitions);
        let changes = transactions.iter_mut().flat_map(|transaction| &mut transaction.changes);
        changes.for_each(|buffered| buffered.receive(&*self.clock));
        let follows_rules = may_be_held || follow_rules(&transactions, &targets);
        if follows_rules {
            self.brief_judge(shared);
        }
        let result = match follows_rules {
            true => self.apply_by_rules(&transactions, &targets, &mut row, is_oldest),
            false => self.apply(&transactions, &targets, &mut row).map(|()| Vec::new()),
        };
        let setback = match result {
            Ok(fates) => {
                let told = self.judge.committed();
                let has_parked = !told.parked.is_empty();
                let loaded = if has_parked { self.judge.load_held(&mut *self.session) } else { Ok(()) };
                let at = (self.clock)();
                let finished = Finished::committed(&transactions, &fates, told, at);
                let mut board = shared.lock();
                if follows_rules && is_oldest {
                    board.held = Arc::clone(&self.judge.held);
                    board.attempts = None;
                }
                if loaded.is_err() {
                    let what = "could not read the error queue behind a transaction that was parked";
                    board.halt.get_or_insert(Halt::Reconnect(DatabaseError::new(ErrorClass::ConnectionLost, what)));
                }
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
            }
            Err(setback) => setback,
        };
        let unsettled = self.judge.take_unsettled();
        self.judge.forget_open();
        let rolled_back = self.session.rollback();
        if matches!((&setback, &rolled_back), (Setback::Judged(crate::judge::Setback::Stop(_)), Ok(()))) {
            self.judge.log_unsettled(&mut *self.session, &unsettled);
        }
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
        // By rules, nothing is judged but what was given out as the oldest.
        let comes_again = verdict == Verdict::Again || (follows_rules && !is_oldest);
        let halt = match (setback, rolled_back) {
            (_, Err(source)) => Some(Halt::Reconnect(source)),
            (Setback::Failed { source, .. }, Ok(())) if source.class() == ErrorClass::ConnectionLost => {
                Some(Halt::Reconnect(source))
            }
            (Setback::Failed { source, .. }, Ok(()))
                if verdict != Verdict::Again && source.class() == ErrorClass::Transient =>
            {
                Some(Halt::Pause(source))
            }
            _ if comes_again => None,
            (Setback::Failed { action, source }, Ok(())) => {
                let position = board.durable.next;
                Some(Halt::Stop(Box::new(Error::Target { action, position, source })))
            }
            (Setback::Rejected(_), Ok(())) => told.map(|told| Halt::Stop(Box::new(told))),
            (Setback::Judged(crate::judge::Setback::Stop(error)), Ok(())) => Some(Halt::Stop(Box::new(error))),
            (Setback::Judged(crate::judge::Setback::Wait { until, cause }), Ok(())) => {
                board.attempts.clone_from(&self.judge.attempts);
                Some(Halt::Wait { until, cause })
            }
            (Setback::Judged(_), Ok(())) => None,
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
    pub(super) fn forget_tables_before(&mut self, definitions: u64) {
        if self.definitions != definitions {
            self.definitions = definitions;
            self.session.forget_tables();
        }
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

    pub(super) fn write(&mut self, writes: &[Write<'_>]) -> Result<(), Setback> {
        match self.session.apply(writes) {
            Ok(()) => Ok(()),
            Err(ApplyError::Rejected(_)) if change::sabotage::is_on("swallow-rejections") => Ok(()),
            Err(error) => Err(Setback::of(CommitStep::Write, error)),
        }
    }

    /// Writes what is left to write, saves `row` and commits.
    pub(super) fn commit_with(&mut self, mut writes: &[Write<'_>], row: &mut CheckpointRow) -> Result<(), Setback> {
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
        // Whether the transaction still lives is the caller's to find out.
        self.begin().and_then(|()| self.commit_with(&[], row)).map_err(Setback::failed)
    }
}

/// What is written for changes, target by target.
pub(super) fn writes<'w>(
    changes: impl Iterator<Item = &'w Buffered> + Clone,
    targets: &'w [Written],
) -> Vec<Write<'w>> {
    let mut writes = Vec::with_capacity(changes.clone().count());
    for buffered in changes {
        writes.extend(writes_of(buffered, targets).map(|(plan, operation)| Write { plan, operation }));
    }
    if change::sabotage::is_on("reorder-changes") {
        writes.reverse();
    }
    writes
}

fn writes_of<'w>(
    buffered: &'w Buffered,
    targets: &'w [Written],
) -> impl Iterator<Item = (&'w Arc<TablePlan>, &'w change::Operation)> {
    let plans = targets[buffered.plan].targets.iter().enumerate();
    plans.filter_map(|(place, plan)| Some((plan, written_for(&buffered.change.operation, &buffered.converted, place)?)))
}

/// What the operator is told of a refusal: the change, or `last` where the target refused at commit and names none.
pub(super) fn refused<'c>(
    rejection: &Rejection,
    changes: impl Iterator<Item = (&'c Buffered, &'c Mark)>,
    targets: &[Written],
    last: &Mark,
) -> Error {
    let mut index = rejection.index;
    let mut found = None;
    for (buffered, mark) in changes {
        let plans: Vec<&Arc<TablePlan>> = writes_of(buffered, targets).map(|(plan, _)| plan).collect();
        if let Some(plan) = plans.get(index) {
            found = Some((buffered, mark, *plan));
            break;
        }
        index -= plans.len();
    }
    Error::Rejected(Box::new(rejected(rejection, found, last)))
}

/// The same, of a change that is known.
pub(super) fn rejected(
    rejection: &Rejection,
    found: Option<(&Buffered, &Mark, &Arc<TablePlan>)>,
    last: &Mark,
) -> RejectedChange {
    let commit = found.map_or(last, |(_, mark, _)| mark).commit.as_ref();
    let name = |plan: &TablePlan, pair: &ColumnPair| plan.target.columns[pair.target].name.clone();
    RejectedChange {
        operation: found.map(|(buffered, ..)| buffered.change.operation.kind()),
        source_table: found.map(|(buffered, ..)| buffered.change.table.name.clone()),
        target: found.map(|(.., plan)| plan.target.name.clone()),
        key_columns: found.map(|(.., plan)| plan.key.iter().map(|pair| name(plan, pair)).collect()).unwrap_or_default(),
        outcome: rejection.outcome,
        detail: rejection.detail.clone(),
        position: found.map_or(last.next, |(buffered, ..)| buffered.position),
        csn: commit.map_or_else(|| Csn::new(""), |commit| commit.csn.clone()),
        transaction: commit.map_or_else(|| TransactionId::new(""), |commit| commit.transaction.clone()),
    }
}
