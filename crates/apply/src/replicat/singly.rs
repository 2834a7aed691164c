//! Writing one row at a time, where rows may not fit and somebody has said what to do then.

use super::{Buffered, Fate, Replicat, Trouble};
use crate::error::{Error, RejectedChange};
use crate::error_queue::{Author, Call, ConflictNote, Held, Parking};
use crate::handling::{
    CallFailed, Converted, LastError, Misfit, Refused, RowWriter, Tried, Verdict, discard_text, kind,
};
use crate::schedule::WriteSet;
use change::{Commit, Csn, Operation, TransactionId};
use database::{ApplyError, ColumnPair, Rejection, TablePlan, Write};
use parameter::ErrorResponse;
use process::FilterReason;
use std::sync::Arc;
use trail::Position;

/// Where the rows of a source transaction go that are not written to their tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Destination {
    DiscardFile,
    ExceptionsTables,
    /// The error queue; behind a parked transaction on which this one depends, if it is held back.
    ErrorQueue {
        held_behind: Option<String>,
    },
}

/// A source transaction all of whose rows go another way than into their tables.
pub(super) struct Doomed {
    csn: Csn,
    transaction: TransactionId,
    error: LastError,
    /// The change that met the error.
    refused_at: Option<Position>,
    destination: Destination,
    /// A conflict that stayed unresolved, for the log.
    unsettled: Vec<ConflictNote>,
}

/// A transaction that went into the error queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParkedNotice {
    /// Its DEFERRED_TRAN_ID.
    pub id: String,
    /// The code and the words of its error.
    pub error: String,
}

/// A source transaction that is tried again.
pub(super) struct Attempts {
    csn: Csn,
    transaction: TransactionId,
    count: u32,
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
        if buffered.arrival.is_some() {
            return;
        }
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
        if buffered.arrival.is_some() {
            return self.write_heartbeat(buffered, &targets);
        }
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

    /// Writes a heartbeat, whatever becomes of the rows around it.
    fn write_heartbeat(&mut self, buffered: &Buffered, targets: &[Arc<TablePlan>]) -> Result<Fate, Trouble> {
        for plan in targets {
            if let Err(rejection) = self.attempt(plan, &buffered.change.operation)? {
                let commit = self.commit_of(buffered);
                let rejected = self.rejected_change(buffered, plan, &rejection, commit.as_ref());
                return Err(Trouble::Stop(Error::Rejected(Box::new(rejected))));
            }
        }
        Ok(Fate::Written)
    }

    fn write_one(
        &mut self,
        buffered: &Buffered,
        plan: &Arc<TablePlan>,
        misfit: &Misfit,
        operation: &Operation,
    ) -> Result<Fate, Trouble> {
        let commit = self.commit_of(buffered);
        if let Some(doomed) = &mut self.doomed
            && commit.as_ref().is_some_and(|c| c.csn == doomed.csn && c.transaction == doomed.transaction)
        {
            self.conflicts_open.append(&mut doomed.unsettled);
            let error = doomed.error.clone();
            return match doomed.destination {
                Destination::ExceptionsTables => self.write_exception(buffered, plan, misfit, &error, commit.as_ref()),
                Destination::DiscardFile => self.discard(buffered, plan, &error, commit.as_ref()),
                Destination::ErrorQueue { .. } => self.park_call(buffered, plan, misfit, operation, commit.as_ref()),
            };
        }
        if let Some(id) = self.held_behind(buffered)? {
            return Err(self.hold_back(buffered, id));
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
                _ => {
                    let rejected = self.rejected_change(buffered, plan, &rejection, commit.as_ref());
                    return Err(self.of_transaction(Some(buffered.position), response, error, rejected, commit));
                }
            }
        }
    }

    /// What to do about a refusal that concerns the whole source transaction.
    pub(super) fn of_transaction(
        &mut self,
        refused_at: Option<Position>,
        response: ErrorResponse,
        error: LastError,
        rejected: RejectedChange,
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
        let destination = match response {
            ErrorResponse::TransDiscard => Destination::DiscardFile,
            ErrorResponse::TransException => Destination::ExceptionsTables,
            ErrorResponse::TransQueue { .. } => Destination::ErrorQueue { held_behind: None },
            ErrorResponse::TransAbort { retries, delay } => {
                let known = self.attempts.take().filter(|known| known.csn == csn && known.transaction == transaction);
                let count = known.map_or(0, |known| known.count) + 1;
                if count > retries {
                    return Trouble::Stop(Error::Rejected(Box::new(rejected)));
                }
                let what =
                    format!("transaction {transaction} was refused ({}), attempt {count} of {retries}", error.detail);
                self.attempts = Some(Attempts { csn, transaction, count });
                self.not_before = Some((self.setup.clock)().after(delay));
                let cause = database::Error::new(database::ErrorClass::Transient, what);
                return Trouble::Again { reconnect: false, cause };
            }
            _ => return Trouble::Stop(Error::Rejected(Box::new(rejected))),
        };
        let unsettled = self.take_unsettled();
        self.doomed = Some(Doomed { csn, transaction, error, refused_at, destination, unsettled });
        Trouble::Singly
    }

    /// Conflicts of the open transaction that nobody settled; the rest comes again when the transaction does.
    pub(super) fn take_unsettled(&mut self) -> Vec<ConflictNote> {
        std::mem::take(&mut self.conflicts_open).into_iter().filter(|note| !note.resolved).collect()
    }

    pub(super) fn rejected_change(
        &self,
        buffered: &Buffered,
        plan: &TablePlan,
        rejection: &Rejection,
        commit: Option<&Commit>,
    ) -> RejectedChange {
        let name = |pair: &ColumnPair| plan.target.columns[pair.target].name.clone();
        RejectedChange {
            operation: Some(buffered.change.operation.kind()),
            source_table: Some(buffered.change.table.name.clone()),
            target: Some(plan.target.name.clone()),
            key_columns: plan.key.iter().map(name).collect(),
            outcome: rejection.outcome,
            detail: rejection.detail.clone(),
            position: buffered.position,
            csn: commit.map_or_else(|| Csn::new(""), |commit| commit.csn.clone()),
            transaction: commit.map_or_else(|| TransactionId::new(""), |commit| commit.transaction.clone()),
        }
    }

    /// The way out when the target refused at commit, where it names no row: only what concerns the whole source transaction can be
    /// done, and where MAP statements of the transaction's tables differ, the strictest of their answers counts.
    pub(super) fn refused_at_commit(&mut self, rejection: &Rejection, rejected: RejectedChange) -> Trouble {
        let error =
            LastError { kind: kind(rejection.outcome), code: rejection.code.clone(), detail: rejection.detail.clone() };
        let strictness = |response: &ErrorResponse| match response {
            ErrorResponse::TransAbort { .. } => 1,
            ErrorResponse::TransQueue { .. } => 2,
            ErrorResponse::TransException => 3,
            ErrorResponse::TransDiscard => 4,
            _ => 0,
        };
        let plans = self.written_tally.plans().to_vec();
        let misfits = plans.iter().flat_map(|plan| &self.plans.get(*plan).misfits);
        let answers =
            misfits.map(|misfit| misfit.handling.errors.respond(error.kind, &error.code, misfit.exceptions.is_some()));
        let response = answers.min_by_key(strictness).unwrap_or(ErrorResponse::Abend);
        let commit = self.group.last().cloned().or_else(|| self.current.clone());
        self.of_transaction(None, response, error, rejected, commit)
    }

    /// One write with everything that comes before REPERROR.
    fn try_one(
        &mut self,
        buffered: &Buffered,
        plan: &Arc<TablePlan>,
        misfit: &Misfit,
        operation: &Operation,
    ) -> Result<Result<Fate, Refused>, Trouble> {
        let mut writer = RowWriter { session: self.session(), plan, misfit };
        let tried = writer.write(operation);
        let Tried { verdict, conflicts } = tried.map_err(|failed| self.call_failed(failed))?;
        let commit = self.commit_of(buffered);
        let table = buffered.change.table.name.clone();
        self.conflicts_open.extend(ConflictNote::new(table, plan, conflicts, buffered.position, commit.clone()));
        match verdict {
            Verdict::Written => Ok(Ok(Fate::Written)),
            Verdict::Filtered(reason) => Ok(Ok(Fate::Filtered(reason))),
            Verdict::Discard(error) => self.discard(buffered, plan, &error, commit.as_ref()).map(Ok),
            Verdict::Refused(refused) => Ok(Err(refused)),
        }
    }

    fn call_failed(&self, failed: CallFailed) -> Trouble {
        self.target_trouble(failed.action, failed.source)
    }

    fn attempt(&mut self, plan: &Arc<TablePlan>, operation: &Operation) -> Result<Result<(), Rejection>, Trouble> {
        match self.session().attempt(&Write { plan, operation }) {
            Ok(()) => Ok(Ok(())),
            Err(ApplyError::Rejected(rejection)) => Ok(Err(rejection)),
            Err(ApplyError::Failed(source)) => Err(self.target_trouble("write a row to the target", source)),
        }
    }

    /// The parked transaction that a change must wait for, if there is one.
    pub(super) fn held_behind(&mut self, buffered: &Buffered) -> Result<Option<String>, Trouble> {
        if self.held.is_empty() {
            return Ok(None);
        }
        let mut touched = WriteSet::new();
        self.touch(buffered, &mut touched);
        if self.held.ahead_of(&touched).is_none() {
            return Ok(None);
        }
        // Somebody may have executed or deleted it meanwhile.
        self.load_held()?;
        Ok(self.held.ahead_of(&touched).map(str::to_owned))
    }

    fn touch(&self, buffered: &Buffered, touched: &mut WriteSet) {
        let mapped = self.plans.get(buffered.plan);
        for (place, footprint) in mapped.footprints.iter().enumerate() {
            match buffered.converted.get(place) {
                None | Some(Converted::Same) => footprint.touch(&buffered.change.operation, touched),
                Some(Converted::Other(operation)) => footprint.touch(operation, touched),
                Some(Converted::Nothing) => {}
            }
        }
    }

    /// Reads what is parked, where later transactions are held back behind it.
    pub(super) fn load_held(&mut self) -> Result<(), Trouble> {
        self.held = Held::default();
        let (_, holds) = self.setup.rules.queues();
        let Some(queue) = self.queue.clone().filter(|_| holds && !change::sabotage::is_on("pass-parked-transactions"))
        else {
            return Ok(());
        };
        let group_key = self.durable.group_key;
        let held = Held::load(&queue, self.session(), group_key);
        self.held = held.map_err(|source| self.target_trouble("read the error queue", source))?;
        Ok(())
    }

    /// The way out for a transaction that stands behind a parked one: it is parked too.
    pub(super) fn hold_back(&mut self, buffered: &Buffered, id: String) -> Trouble {
        let Some(Commit { csn, transaction, .. }) = self.commit_of(buffered) else { return Trouble::Singly };
        let detail = format!("held back behind {id}");
        let error = LastError { kind: parameter::ErrorKind::Constraint, code: "HELD".to_owned(), detail };
        let destination = Destination::ErrorQueue { held_behind: Some(id) };
        self.doomed = Some(Doomed { csn, transaction, error, refused_at: None, destination, unsettled: Vec::new() });
        Trouble::Singly
    }

    /// Puts a change into the error queue, in the open transaction.
    fn park_call(
        &mut self,
        buffered: &Buffered,
        plan: &Arc<TablePlan>,
        misfit: &Misfit,
        operation: &Operation,
        commit: Option<&Commit>,
    ) -> Result<Fate, Trouble> {
        let (Some(queue), Some(commit)) = (self.queue.clone(), commit) else {
            return Err(Trouble::Stop(Error::NoErrorQueue));
        };
        let refused_at = self.doomed.as_ref().and_then(|doomed| doomed.refused_at);
        let current = RowWriter { session: self.session(), plan, misfit }.current(operation);
        let current = current.map_err(|failed| self.call_failed(failed))?;
        let mut parking = match self.parking.take() {
            Some(parking) => parking,
            None => Parking::new(&self.setup.group, buffered.position, commit.clone()),
        };
        self.touch(buffered, parking.touched());
        let call = Call { plan, operation, current, is_refused: refused_at == Some(buffered.position) };
        let author = self.author();
        let parked = queue.park(self.session(), &author, &mut parking, &call);
        self.parking = Some(parking);
        parked.map_err(|error| self.queue_failed(error))?;
        Ok(Fate::Filtered(FilterReason::Parked))
    }

    /// Who writes into the error queue.
    fn author(&self) -> Author {
        Author {
            group: self.setup.group.clone(),
            group_key: self.durable.group_key,
            origin: self.origin.clone(),
            now: (self.setup.clock)(),
        }
    }

    /// Completes what the open transaction parks, and notes its conflicts: all of it becomes durable with the position.
    pub(super) fn save_queue(&mut self) -> Result<(), Trouble> {
        let Some(queue) = self.queue.clone() else { return Ok(()) };
        if self.parking.is_none() && self.conflicts_open.is_empty() {
            return Ok(());
        }
        let author = self.author();
        if let (Some(parking), Some(doomed)) = (self.parking.take(), &self.doomed) {
            let held_behind = match &doomed.destination {
                Destination::ErrorQueue { held_behind } => held_behind.clone(),
                _ => None,
            };
            let error = doomed.error.clone();
            let finished = queue.finish(self.session(), &author, &parking, &error, held_behind.as_deref());
            finished.map_err(|error| self.queue_failed(error))?;
            let payload = serde_json::json!({
                "event": "parked", "group": author.group, "deferred_tran_id": parking.id, "error_number": error.number(),
            });
            self.tell(&payload)?;
            if change::sabotage::is_on("park-without-position") {
                let apart = self.session().commit().and_then(|()| Ok(self.session().begin()?));
                apart.map_err(|error| self.queue_failed(error))?;
            }
            let text = format!("{}: {}", error.number(), error.detail);
            self.parked_open.push(ParkedNotice { id: parking.id, error: text });
        }
        let notes = std::mem::take(&mut self.conflicts_open);
        let logged = queue.log(self.session(), &author, &notes);
        if notes.iter().any(|note| !note.resolved) {
            self.tell(&serde_json::json!({ "event": "conflict", "group": author.group }))?;
        }
        self.conflicts_open = notes;
        logged.map_err(|error| self.queue_failed(error))
    }

    fn tell(&mut self, payload: &serde_json::Value) -> Result<(), Trouble> {
        let told = self.session().notify(&payload.to_string());
        told.map_err(|source| self.target_trouble("notify the target's listeners", source))
    }

    fn queue_failed(&self, error: ApplyError) -> Trouble {
        match error {
            ApplyError::Failed(source) => self.target_trouble("write to the error queue", source),
            ApplyError::Rejected(rejection) => {
                let what = format!("the error queue did not take a row: {} ({})", rejection.outcome, rejection.detail);
                let source = database::Error::new(database::ErrorClass::Permanent, what)
                    .with_next_step("look whether the transaction is in the queue already: DEFERROR");
                Trouble::Stop(Error::ErrorQueue { position: self.progress.position, source })
            }
        }
    }

    /// Notes in the log, after a rollback, what nobody settled before the group stops.
    pub(super) fn log_unsettled(&mut self, notes: Vec<ConflictNote>) {
        let Some(queue) = self.queue.clone().filter(|_| !notes.is_empty()) else { return };
        let author = self.author();
        let Some(session) = self.session.as_deref_mut() else { return };
        let logged = session.begin().map_err(ApplyError::from).and_then(|()| {
            queue.log(session, &author, &notes)?;
            session.notify(&serde_json::json!({ "event": "conflict", "group": author.group }).to_string())?;
            session.commit()
        });
        if logged.is_err() {
            // The group stops because of something else, which is the error to tell.
            let _ = session.rollback();
            (self.setup.notice)("the conflict could not be added to the conflict log");
        }
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
                let rejected = self.rejected_change(buffered, &exceptions.plan, &rejection, commit);
                Err(Trouble::Stop(Error::Rejected(Box::new(rejected))))
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
