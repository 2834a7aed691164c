//! Writing one row at a time, where rows may not fit and somebody has said what to do then.

use super::{Buffered, Fate, Replicat, Trouble};
use crate::conflict::{
    ConflictEntry, ConflictKind, Engine, FunctionAnswer, FunctionCall, Resolution, Ruling, Settlement, Surroundings,
};
use crate::error::{Error, RejectedChange};
use crate::handling::{Collision, Converted, LastError, Misfit, collision, discard_text, kind};
use change::{Commit, Csn, Operation, Row, TransactionId, Value};
use database::{ApplyError, ColumnPair, Outcome, Rejection, TablePlan, Write};
use parameter::ErrorResponse;
use process::FilterReason;
use std::sync::Arc;

/// A source transaction all of whose rows go another way than into their tables.
pub(super) struct Doomed {
    csn: Csn,
    transaction: TransactionId,
    error: LastError,
    to_exceptions: bool,
}

/// A source transaction that is tried again.
pub(super) struct Attempts {
    csn: Csn,
    transaction: TransactionId,
    count: u32,
}

/// A site without functions and sequences: RESOLVECONFLICT has no methods that need them.
struct NoSurroundings;

impl Surroundings for NoSurroundings {
    fn origin_site(&self) -> &str {
        ""
    }

    fn next_sequence(&mut self) -> Option<u64> {
        None
    }

    fn call(&mut self, _: &FunctionCall<'_>) -> Result<FunctionAnswer, String> {
        Err("this group calls no functions".to_owned())
    }
}

/// A write that was refused, and could not be put right by the rules that come before REPERROR.
struct Refused {
    rejection: Rejection,
    /// The conflict that stayed unresolved, if it is one.
    conflict: Option<ConflictKind>,
}

impl Replicat {
    /// Whether rows must be written one by one now.
    pub(super) fn is_single(&self) -> bool {
        self.singly_until.is_some()
    }

    /// Whether somebody has said what to do about rows that do not fit.
    pub(super) fn handles_misfits(&self) -> bool {
        self.plans.misfits().any(|misfit| !misfit.is_plain)
    }

    /// Whether one of the oldest `count` changes must be looked at before it is written.
    pub(super) fn looks_first(&self, count: usize) -> bool {
        let conflicts = |plan: usize| self.plans.get(plan).misfits.iter().any(|misfit| misfit.conflicts.is_some());
        self.buffer[..count].iter().any(|buffered| conflicts(buffered.plan))
    }

    /// Sends the oldest `count` buffered changes one by one.
    pub(super) fn write_singly(&mut self, count: usize) -> Result<(), Trouble> {
        let buffer = std::mem::take(&mut self.buffer);
        let mut outcome = Ok(());
        for buffered in &buffer[..count] {
            match self.write_change(buffered) {
                Ok(fate) => self.count(buffered, fate),
                Err(trouble) => {
                    outcome = Err(trouble);
                    break;
                }
            }
        }
        self.buffer = buffer;
        outcome?;
        self.buffered_bytes -= self.buffer.drain(..count).map(|written| written.bytes).sum::<usize>();
        Ok(())
    }

    /// Counts what became of a change.
    pub(super) fn count(&mut self, buffered: &Buffered, fate: Fate) {
        let counts = self.written_tally.counts(buffered.plan, buffered.change.operation.kind());
        match fate {
            Fate::Written => counts.written += 1,
            Fate::Filtered(reason) => counts.filter(reason, 1),
        }
    }

    /// Writes one change to all its targets. It counts as written when one of them took it.
    fn write_change(&mut self, buffered: &Buffered) -> Result<Fate, Trouble> {
        let targets: Vec<Arc<TablePlan>> = self.plans.get(buffered.plan).targets.to_vec();
        let misfits: Vec<Arc<Misfit>> = self.plans.get(buffered.plan).misfits.clone();
        let mut fate = None;
        for (place, (plan, misfit)) in targets.iter().zip(&misfits).enumerate() {
            let operation = match buffered.converted.get(place) {
                None | Some(Converted::Same) => &buffered.change.operation,
                Some(Converted::Other(operation)) => operation,
                Some(Converted::Nothing) => {
                    fate.get_or_insert(Fate::Filtered(FilterReason::NothingToSet));
                    continue;
                }
            };
            match self.write_one(buffered, plan, misfit, operation)? {
                Fate::Written => fate = Some(Fate::Written),
                filtered => _ = fate.get_or_insert(filtered),
            }
        }
        Ok(fate.unwrap_or(Fate::Written))
    }

    fn write_one(
        &mut self,
        buffered: &Buffered,
        plan: &Arc<TablePlan>,
        misfit: &Misfit,
        operation: &Operation,
    ) -> Result<Fate, Trouble> {
        let commit = self.commit_of(buffered);
        if let Some(doomed) = &self.doomed
            && commit.as_ref().is_some_and(|c| c.csn == doomed.csn && c.transaction == doomed.transaction)
        {
            let (error, to_exceptions) = (doomed.error.clone(), doomed.to_exceptions);
            return match to_exceptions {
                true => self.write_exception(buffered, plan, misfit, &error, commit.as_ref()),
                false => self.discard(buffered, plan, &error, commit.as_ref()),
            };
        }
        let mut tries = 0;
        loop {
            let refused = match self.try_one(buffered, plan, misfit, operation)? {
                Ok(fate) => return Ok(fate),
                Err(refused) => refused,
            };
            let Refused { rejection, conflict } = refused;
            let error = LastError {
                kind: kind(rejection.outcome),
                code: rejection.code.clone(),
                detail: match conflict {
                    Some(conflict) => format!("{conflict}: {}", rejection.detail),
                    None => rejection.detail.clone(),
                },
            };
            let response = misfit.handling.errors.respond(error.kind, &error.code, misfit.exceptions.is_some());
            match response {
                ErrorResponse::Ignore => return Ok(Fate::Filtered(FilterReason::Ignored)),
                ErrorResponse::Discard => return self.discard(buffered, plan, &error, commit.as_ref()),
                ErrorResponse::Exception if misfit.exceptions.is_some() => {
                    return self.write_exception(buffered, plan, misfit, &error, commit.as_ref());
                }
                ErrorResponse::RetryOp { retries } if tries < retries => tries += 1,
                _ => return Err(self.of_transaction(buffered, plan, response, error, rejection, commit)),
            }
        }
    }

    /// What to do about a refusal that concerns the whole source transaction.
    fn of_transaction(
        &mut self,
        buffered: &Buffered,
        plan: &TablePlan,
        response: ErrorResponse,
        error: LastError,
        rejection: Rejection,
        commit: Option<Commit>,
    ) -> Trouble {
        if !self.is_single() {
            // Whole transactions before this one are applied first.
            return Trouble::Singly;
        }
        let (csn, transaction) = match commit {
            Some(Commit { csn, transaction, .. }) => (csn, transaction),
            None => (Csn::new(""), TransactionId::new("")),
        };
        match response {
            ErrorResponse::TransDiscard | ErrorResponse::TransException => {
                let to_exceptions = response == ErrorResponse::TransException;
                self.doomed = Some(Doomed { csn, transaction, error, to_exceptions });
                Trouble::Singly
            }
            ErrorResponse::TransAbort { retries, delay } => {
                let known = self.attempts.take().filter(|known| known.csn == csn && known.transaction == transaction);
                let count = known.map_or(0, |known| known.count) + 1;
                if count > retries {
                    return self.stop_at(buffered, plan, rejection, csn, transaction);
                }
                let what =
                    format!("transaction {transaction} was refused ({}), attempt {count} of {retries}", error.detail);
                self.attempts = Some(Attempts { csn, transaction, count });
                self.not_before = Some((self.setup.clock)().after(delay));
                let cause = database::Error::new(database::ErrorClass::Transient, what);
                Trouble::Again { reconnect: false, cause }
            }
            _ => self.stop_at(buffered, plan, rejection, csn, transaction),
        }
    }

    fn stop_at(
        &self,
        buffered: &Buffered,
        plan: &TablePlan,
        rejection: Rejection,
        csn: Csn,
        transaction: TransactionId,
    ) -> Trouble {
        let name = |pair: &ColumnPair| plan.target.columns[pair.target].name.clone();
        Trouble::Stop(Error::Rejected(Box::new(RejectedChange {
            operation: Some(buffered.change.operation.kind()),
            source_table: Some(buffered.change.table.name.clone()),
            target: Some(plan.target.name.clone()),
            key_columns: plan.key.iter().map(name).collect(),
            outcome: rejection.outcome,
            detail: rejection.detail,
            position: buffered.position,
            csn,
            transaction,
        })))
    }

    /// One write with everything that comes before REPERROR.
    fn try_one(
        &mut self,
        buffered: &Buffered,
        plan: &Arc<TablePlan>,
        misfit: &Misfit,
        operation: &Operation,
    ) -> Result<Result<Fate, Refused>, Trouble> {
        if misfit.conflicts.is_some() {
            return self.settle(buffered, plan, misfit, operation);
        }
        let rejection = match self.attempt(plan, operation)? {
            Ok(()) => return Ok(Ok(Fate::Written)),
            Err(rejection) => rejection,
        };
        let plain = |rejection| Ok(Err(Refused { rejection, conflict: None }));
        match collision(&misfit.handling.conversions, plan, operation, rejection.outcome) {
            None => plain(rejection),
            Some(Collision::Drop) => Ok(Ok(Fate::Filtered(FilterReason::Collision))),
            Some(Collision::Instead(operations)) => {
                for operation in &operations {
                    match self.attempt(plan, operation)? {
                        Ok(()) => {}
                        // The old row of an update of the key may be missing as well.
                        Err(missing)
                            if missing.outcome == Outcome::Missing && matches!(operation, Operation::Delete { .. }) => {
                        }
                        // The row in the way has another key: the first refusal is the one to tell.
                        Err(missing) if missing.outcome == Outcome::Missing => return plain(rejection),
                        Err(other) => return plain(other),
                    }
                }
                Ok(Ok(Fate::Written))
            }
        }
    }

    fn attempt(&mut self, plan: &Arc<TablePlan>, operation: &Operation) -> Result<Result<(), Rejection>, Trouble> {
        match self.session().attempt(&Write { plan, operation }) {
            Ok(()) => Ok(Ok(())),
            Err(ApplyError::Rejected(rejection)) => Ok(Err(rejection)),
            Err(ApplyError::Failed(source)) => Err(self.target_trouble("write a row to the target", source)),
        }
    }

    fn find(&mut self, plan: &Arc<TablePlan>, image: &Row) -> Result<Option<Row>, Trouble> {
        let found = self.session().find(plan, image);
        found.map_err(|source| self.target_trouble("read a row of the target", source))
    }

    /// Looks the row up and lets the conflict engine settle what it finds.
    fn settle(
        &mut self,
        buffered: &Buffered,
        plan: &Arc<TablePlan>,
        misfit: &Misfit,
        operation: &Operation,
    ) -> Result<Result<Fate, Refused>, Trouble> {
        let (table, rules) = misfit.conflicts.as_ref().expect("the table has rules");
        let mut world = NoSurroundings;
        let settlement = match operation {
            Operation::Truncate(_) => {
                Settlement { ruling: Ruling::Write(operation.clone()), discard: false, entries: Vec::new() }
            }
            Operation::Insert { new } => match self.attempt(plan, operation)? {
                Ok(()) => return Ok(Ok(Fate::Written)),
                Err(rejection) if rejection.outcome != Outcome::Duplicate || rules.insert.is_none() => {
                    let conflict = (rejection.outcome == Outcome::Duplicate).then_some(ConflictKind::InsertRowExists);
                    return Ok(Err(Refused { rejection, conflict }));
                }
                Err(rejection) => match self.find(plan, new)? {
                    Some(current) => Engine::new(table, rules, &mut world).insert_exists(new, &current),
                    // Another unique constraint.
                    None => return Ok(Err(Refused { rejection, conflict: None })),
                },
            },
            Operation::Update { old, new } => {
                let image = key_image(plan, old.as_ref(), new);
                let current = self.find(plan, &image)?;
                Engine::new(table, rules, &mut world).update(old.as_ref(), new, current.as_ref(), None)
            }
            Operation::Delete { old } => {
                let current = self.find(plan, old)?;
                Engine::new(table, rules, &mut world).delete(old, current.as_ref(), None, None)
            }
        };
        let Settlement { ruling, discard, entries } = settlement;
        let told = entries.last().map(|entry| (entry.kind, entry.tried.len()));
        self.note_conflicts(buffered, entries);
        match ruling {
            Ruling::Write(write) => match self.attempt(plan, &write)? {
                Ok(()) if discard => {
                    let commit = self.commit_of(buffered);
                    self.discard(buffered, plan, &settled(told), commit.as_ref()).map(|_| Ok(Fate::Written))
                }
                Ok(()) => Ok(Ok(Fate::Written)),
                Err(rejection) => Ok(Err(Refused { rejection, conflict: None })),
            },
            Ruling::Keep if discard => {
                let commit = self.commit_of(buffered);
                self.discard(buffered, plan, &settled(told), commit.as_ref()).map(Ok)
            }
            Ruling::Keep if told.is_some() => Ok(Ok(Fate::Filtered(FilterReason::Conflict))),
            Ruling::Keep => Ok(Ok(Fate::Filtered(FilterReason::NothingToSet))),
            Ruling::Again(_) | Ruling::Unresolved => {
                let conflict = told.map_or(ConflictKind::UpdateRowExists, |(kind, _)| kind);
                let outcome = match conflict {
                    ConflictKind::InsertRowExists | ConflictKind::Uniqueness => Outcome::Duplicate,
                    // A row with other values is not the row that was looked for.
                    _ => Outcome::Missing,
                };
                let detail = "the conflict is not settled by any method".to_owned();
                let rejection = Rejection { index: 0, outcome, detail, code: String::new() };
                Ok(Err(Refused { rejection, conflict: Some(conflict) }))
            }
        }
    }

    fn note_conflicts(&mut self, buffered: &Buffered, entries: Vec<ConflictEntry>) {
        // One conflict of a row, however many groups of columns it concerns.
        let Some(kind) = entries.first().map(|entry| entry.kind) else { return };
        let resolved = entries.iter().all(|entry| entry.resolution != Resolution::Unresolved);
        self.conflicts_open.push((buffered.change.table.name.clone(), kind, resolved));
    }

    /// Puts a change into the discard file, before the transaction commits.
    fn discard(
        &mut self,
        buffered: &Buffered,
        plan: &TablePlan,
        error: &LastError,
        commit: Option<&Commit>,
    ) -> Result<Fate, Trouble> {
        self.discards.push_str(&discard_text(&buffered.change, plan, commit, buffered.position, error));
        Ok(Fate::Filtered(FilterReason::Discarded))
    }

    fn write_exception(
        &mut self,
        buffered: &Buffered,
        plan: &TablePlan,
        misfit: &Misfit,
        error: &LastError,
        commit: Option<&Commit>,
    ) -> Result<Fate, Trouble> {
        let Some(exceptions) = &misfit.exceptions else {
            // A table of the transaction without an exceptions mapping: what it would lose is kept in the discard file.
            return self.discard(buffered, plan, error, commit);
        };
        let now = (self.setup.clock)();
        let Some(insert) = exceptions.row(&buffered.change.operation, commit, error, now) else {
            return self.discard(buffered, plan, error, commit);
        };
        match self.attempt(&exceptions.plan, &insert)? {
            Ok(()) => Ok(Fate::Filtered(FilterReason::Exception)),
            Err(rejection) => {
                let (csn, transaction) = match commit.cloned() {
                    Some(Commit { csn, transaction, .. }) => (csn, transaction),
                    None => (Csn::new(""), TransactionId::new("")),
                };
                Err(self.stop_at(buffered, &exceptions.plan, rejection, csn, transaction))
            }
        }
    }

    fn commit_of(&self, buffered: &Buffered) -> Option<Commit> {
        buffered.commit.clone().or_else(|| self.group.last().cloned()).or_else(|| self.current.clone())
    }

    /// Makes durable what the open transaction discards. Before the commit: what is dropped must not get lost by a crash; that
    /// it may be told twice is the price.
    pub(super) fn save_discards(&mut self) -> Result<(), Trouble> {
        if self.discards.is_empty() || change::sabotage::is_on("lose-discards") {
            return Ok(());
        }
        let text = std::mem::take(&mut self.discards);
        let appended = match &mut self.discard_file {
            Some(file) => file.append(&text),
            None => Err(std::io::Error::other("the group has no discard file")),
        };
        appended.map_err(|source| Trouble::Stop(Error::Discard { position: self.progress.position, source }))
    }
}

fn settled(told: Option<(ConflictKind, usize)>) -> LastError {
    let kind = told.map_or(ConflictKind::UpdateRowExists, |(kind, _)| kind);
    let is_duplicate = kind == ConflictKind::InsertRowExists;
    LastError {
        kind: if is_duplicate { parameter::ErrorKind::Duplicate } else { parameter::ErrorKind::Missing },
        code: String::new(),
        detail: format!("{kind}, settled by DISCARD"),
    }
}

/// The key by which an update finds its row: the old one, where the source told it.
fn key_image(plan: &TablePlan, old: Option<&Row>, new: &Row) -> Row {
    let is_key = |column: usize| plan.key.iter().any(|pair| pair.source == column);
    Row::from_values((0..new.len()).map(|column| {
        let before = old.map_or(Value::Unchanged, |old| old.value(column));
        match (is_key(column), before) {
            (false, _) => Value::Unchanged,
            (true, Value::Unchanged) => new.value(column),
            (true, before) => before,
        }
    }))
}
