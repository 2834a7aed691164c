//! One change after another into its tables, or where else its rules send it.

use super::{Attempts, Case, Destination, Doomed, Fate, Judge, Setback, Stance};
use crate::error::{Error, RejectedChange};
use crate::error_queue::ConflictNote;
use crate::handling::{CallFailed, LastError, Misfit, Refused, RowWriter, Tried, Verdict, discard_text, kind};
use crate::plans::written_for;
use change::{Commit, Csn, Operation, TransactionId};
use database::{ApplyError, ColumnPair, Rejection, Session, TablePlan, Write};
use parameter::ErrorResponse;
use process::FilterReason;
use std::sync::Arc;
use trail::Position;

impl From<CallFailed> for Setback {
    fn from(CallFailed { action, source }: CallFailed) -> Setback {
        Setback::Failed { action, source }
    }
}

impl Judge {
    /// Writes one change to all its targets. It counts as written when one of them took it.
    pub(crate) fn write(&mut self, session: &mut dyn Session, case: &Case<'_>) -> Result<Fate, Setback> {
        if case.is_heartbeat {
            return self.write_heartbeat(session, case);
        }
        let mut fate = None;
        for (place, (plan, misfit)) in case.written.targets.iter().zip(case.written.misfits.iter()).enumerate() {
            let Some(operation) = written_for(&case.change.operation, case.converted, place) else {
                fate.get_or_insert(Fate::Filtered(FilterReason::NothingToSet));
                continue;
            };
            match self.write_one(session, case, (plan, misfit), operation)? {
                Fate::Written => fate = Some(Fate::Written),
                filtered => _ = fate.get_or_insert(filtered),
            }
        }
        Ok(fate.unwrap_or(Fate::Written))
    }

    /// Writes a heartbeat, whatever becomes of the rows around it.
    fn write_heartbeat(&mut self, session: &mut dyn Session, case: &Case<'_>) -> Result<Fate, Setback> {
        for plan in case.written.targets.iter() {
            if let Err(rejection) = attempt(session, plan, &case.change.operation)? {
                if self.stance == Stance::Early {
                    return Err(Setback::Anew);
                }
                return Err(Setback::Stop(Error::Rejected(Box::new(rejected_change(case, plan, &rejection)))));
            }
        }
        Ok(Fate::Written)
    }

    fn write_one(
        &mut self,
        session: &mut dyn Session,
        case: &Case<'_>,
        (plan, misfit): (&Arc<TablePlan>, &Misfit),
        operation: &Operation,
    ) -> Result<Fate, Setback> {
        if let Some(doomed) = &mut self.doomed
            && case.commit.is_some_and(|commit| doomed.is(commit))
        {
            self.conflicts.append(&mut doomed.unsettled);
            let error = doomed.error.clone();
            return match doomed.destination {
                Destination::ExceptionsTables => self.write_exception(session, case, (plan, misfit), &error),
                Destination::DiscardFile => Ok(self.discard(case, plan, &error)),
                Destination::ErrorQueue { .. } => self.park_call(session, case, (plan, misfit), operation),
            };
        }
        self.let_pass(session, case)?;
        if self.stance == Stance::Early {
            return self.try_early(session, case, (plan, misfit), operation);
        }
        let mut tries = 0;
        loop {
            let refused = match self.try_one(session, case, (plan, misfit), operation)? {
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
                ErrorResponse::Discard => return Ok(self.discard(case, plan, &error)),
                ErrorResponse::Exception if misfit.exceptions.is_some() => {
                    return self.write_exception(session, case, (plan, misfit), &error);
                }
                ErrorResponse::RetryOp { retries } if tries < retries => tries += 1,
                _ => {
                    let rejected = rejected_change(case, plan, &rejection);
                    return Err(self.of_transaction(Some(case.position), response, error, rejected, case.commit));
                }
            }
        }
    }

    /// Writes what fits, and nothing else.
    fn try_early(
        &mut self,
        session: &mut dyn Session,
        case: &Case<'_>,
        (plan, misfit): (&Arc<TablePlan>, &Misfit),
        operation: &Operation,
    ) -> Result<Fate, Setback> {
        if misfit.conflicts.is_none() {
            return match attempt(session, plan, operation)? {
                Ok(()) => Ok(Fate::Written),
                Err(_) => Err(Setback::Anew),
            };
        }
        let tried = self.try_one(session, case, (plan, misfit), operation)?;
        let is_settled = !self.conflicts.is_empty();
        match tried {
            Ok(fate @ (Fate::Written | Fate::Filtered(FilterReason::NothingToSet))) if !is_settled => Ok(fate),
            _ => Err(Setback::Anew),
        }
    }

    /// What to do about a refusal that concerns the whole source transaction.
    fn of_transaction(
        &mut self,
        refused_at: Option<Position>,
        response: ErrorResponse,
        error: LastError,
        rejected: RejectedChange,
        commit: Option<&Commit>,
    ) -> Setback {
        if self.stance != Stance::Single {
            // Whole transactions before this one are applied first.
            return Setback::Anew;
        }
        let stop = |rejected| Setback::Stop(Error::Rejected(Box::new(rejected)));
        let (csn, transaction) = match commit {
            Some(Commit { csn, transaction, .. }) => (csn.clone(), transaction.clone()),
            None => (Csn::new(""), TransactionId::new("")),
        };
        if self.doomed.as_ref().is_some_and(|doomed| commit.is_some_and(|commit| doomed.is(commit))) {
            // Its rows went another way already, and that was refused.
            return stop(rejected);
        }
        let destination = match response {
            ErrorResponse::TransDiscard => Destination::DiscardFile,
            ErrorResponse::TransException => Destination::ExceptionsTables,
            ErrorResponse::TransQueue { .. } => Destination::ErrorQueue { held_behind: None },
            ErrorResponse::TransAbort { retries, delay } => {
                let known = self.attempts.take().filter(|known| known.csn == csn && known.transaction == transaction);
                let count = known.map_or(0, |known| known.count) + 1;
                if count > retries {
                    return stop(rejected);
                }
                let what =
                    format!("transaction {transaction} was refused ({}), attempt {count} of {retries}", error.detail);
                self.attempts = Some(Attempts { csn, transaction, count });
                let until = (self.clock)().after(delay);
                return Setback::Wait { until, cause: database::Error::new(database::ErrorClass::Transient, what) };
            }
            _ => return stop(rejected),
        };
        let unsettled = self.take_unsettled();
        self.doomed = Some(Doomed { csn, transaction, error, refused_at, destination, unsettled });
        Setback::Anew
    }

    /// The way out when the target refused at commit, where it names no row: only what concerns the whole source transaction can be
    /// done, and where MAP statements of the transaction's tables differ, the strictest of their answers counts.
    pub(crate) fn refused_at_commit<'m>(
        &mut self,
        misfits: impl Iterator<Item = &'m Arc<Misfit>>,
        rejection: &Rejection,
        rejected: RejectedChange,
        commit: Option<&Commit>,
    ) -> Setback {
        let error =
            LastError { kind: kind(rejection.outcome), code: rejection.code.clone(), detail: rejection.detail.clone() };
        let strictness = |response: &ErrorResponse| match response {
            ErrorResponse::TransAbort { .. } => 1,
            ErrorResponse::TransQueue { .. } => 2,
            ErrorResponse::TransException => 3,
            ErrorResponse::TransDiscard => 4,
            _ => 0,
        };
        let answers =
            misfits.map(|misfit| misfit.handling.errors.respond(error.kind, &error.code, misfit.exceptions.is_some()));
        let response = answers.min_by_key(strictness).unwrap_or(ErrorResponse::Abend);
        self.of_transaction(None, response, error, rejected, commit)
    }

    /// One write with everything that comes before REPERROR.
    fn try_one(
        &mut self,
        session: &mut dyn Session,
        case: &Case<'_>,
        (plan, misfit): (&Arc<TablePlan>, &Misfit),
        operation: &Operation,
    ) -> Result<Result<Fate, Refused>, Setback> {
        let graves = self.queue.clone();
        let graves = graves.as_deref().map(|queue| (queue, (self.clock)()));
        let Tried { verdict, conflicts } = RowWriter { session, plan, misfit, graves }.write(operation)?;
        let table = case.change.table.name.clone();
        self.conflicts.extend(ConflictNote::new(table, plan, conflicts, case.position, case.commit.cloned()));
        match verdict {
            Verdict::Written => Ok(Ok(Fate::Written)),
            Verdict::Filtered(reason) => Ok(Ok(Fate::Filtered(reason))),
            Verdict::Discard(error) => Ok(Ok(self.discard(case, plan, &error))),
            Verdict::Refused(refused) => Ok(Err(refused)),
        }
    }

    /// Makes sure that a change does not stand behind a parked transaction.
    pub(crate) fn let_pass(&mut self, session: &mut dyn Session, case: &Case<'_>) -> Result<(), Setback> {
        if self.held.is_empty() || case.is_heartbeat {
            return Ok(());
        }
        let mut touched = crate::schedule::WriteSet::new();
        case.written.touch(&case.change.operation, case.converted, &mut touched);
        if self.held.ahead_of(&touched).is_none() {
            return Ok(());
        }
        if self.stance == Stance::Early {
            return Err(Setback::Anew);
        }
        // Somebody may have executed or deleted it meanwhile.
        self.load_held(session)?;
        let Some(id) = self.held.ahead_of(&touched).map(str::to_owned) else { return Ok(()) };
        if let Some(Commit { csn, transaction, .. }) = case.commit.cloned() {
            let detail = format!("held back behind {id}");
            let error = LastError { kind: parameter::ErrorKind::Constraint, code: "HELD".to_owned(), detail };
            let destination = Destination::ErrorQueue { held_behind: Some(id) };
            self.doomed =
                Some(Doomed { csn, transaction, error, refused_at: None, destination, unsettled: Vec::new() });
        }
        Err(Setback::Anew)
    }

    /// Where the change met the error that doomed its transaction.
    pub(super) fn is_refused_at(&self, position: Position) -> bool {
        self.doomed.as_ref().is_some_and(|doomed| doomed.refused_at == Some(position))
    }

    /// Puts a change into the discard file, before the transaction commits.
    fn discard(&mut self, case: &Case<'_>, plan: &TablePlan, error: &LastError) -> Fate {
        self.discards.push_str(&discard_text(case.change, plan, case.commit, case.position, error));
        Fate::Filtered(FilterReason::Discarded)
    }

    fn write_exception(
        &mut self,
        session: &mut dyn Session,
        case: &Case<'_>,
        (plan, misfit): (&Arc<TablePlan>, &Misfit),
        error: &LastError,
    ) -> Result<Fate, Setback> {
        let Some(exceptions) = &misfit.exceptions else {
            // A table of the transaction without an exceptions mapping: what it would lose is kept in the discard file.
            return Ok(self.discard(case, plan, error));
        };
        let now = (self.clock)();
        let Some(insert) = exceptions.row(&case.change.operation, case.commit, error, now) else {
            return Ok(self.discard(case, plan, error));
        };
        match attempt(session, &exceptions.plan, &insert)? {
            Ok(()) => Ok(Fate::Filtered(FilterReason::Exception)),
            Err(rejection) => {
                let rejected = rejected_change(case, &exceptions.plan, &rejection);
                Err(Setback::Stop(Error::Rejected(Box::new(rejected))))
            }
        }
    }
}

fn attempt(
    session: &mut dyn Session,
    plan: &Arc<TablePlan>,
    operation: &Operation,
) -> Result<Result<(), Rejection>, Setback> {
    match session.attempt(&Write { plan, operation }) {
        Ok(()) => Ok(Ok(())),
        Err(ApplyError::Rejected(rejection)) => Ok(Err(rejection)),
        Err(ApplyError::Failed(source)) => Err(Setback::Failed { action: "write a row to the target", source }),
    }
}

fn rejected_change(case: &Case<'_>, plan: &TablePlan, rejection: &Rejection) -> RejectedChange {
    let name = |pair: &ColumnPair| plan.target.columns[pair.target].name.clone();
    RejectedChange {
        operation: Some(case.change.operation.kind()),
        source_table: Some(case.change.table.name.clone()),
        target: Some(plan.target.name.clone()),
        key_columns: plan.key.iter().map(name).collect(),
        outcome: rejection.outcome,
        detail: rejection.detail.clone(),
        position: case.position,
        csn: case.commit.map_or_else(|| Csn::new(""), |commit| commit.csn.clone()),
        transaction: case.commit.map_or_else(|| TransactionId::new(""), |commit| commit.transaction.clone()),
    }
}
