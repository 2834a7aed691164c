//! Parked transactions and the conflict log.

use super::{Case, Destination, Fate, Judge, ParkedNotice, Setback};
use crate::error::Error;
use crate::error_queue::{Author, Call, ConflictNote, Held, Parking};
use crate::handling::{Misfit, RowWriter};
use change::Operation;
use database::{ApplyError, Session, TablePlan};
use process::FilterReason;
use std::sync::Arc;

impl Judge {
    /// Reads what is parked, where later transactions are held back behind it.
    pub(crate) fn load_held(&mut self, session: &mut dyn Session) -> Result<(), Setback> {
        self.held = Arc::default();
        let Some(queue) =
            self.queue.clone().filter(|_| self.holds && !change::sabotage::is_on("pass-parked-transactions"))
        else {
            return Ok(());
        };
        let held = Held::load(&queue, session, self.group_key);
        self.held = Arc::new(held.map_err(|source| Setback::Failed { action: "read the error queue", source })?);
        Ok(())
    }

    /// Puts a change into the error queue, in the open transaction.
    pub(super) fn park_call(
        &mut self,
        session: &mut dyn Session,
        case: &Case<'_>,
        (plan, misfit): (&Arc<TablePlan>, &Misfit),
        operation: &Operation,
    ) -> Result<Fate, Setback> {
        let (Some(queue), Some(commit)) = (self.queue.clone(), case.commit) else {
            return Err(Setback::Stop(Error::NoErrorQueue));
        };
        let current = RowWriter { session, plan, misfit, graves: None }.current(operation)?;
        let mut parking = match self.parking.take() {
            Some(parking) => parking,
            None => Parking::new(&self.group, case.position, commit.clone()),
        };
        case.written.touch(&case.change.operation, case.converted, parking.touched());
        let call = Call { plan, operation, current, is_refused: self.is_refused_at(case.position) };
        let author = self.author();
        let parked = queue.park(session, &author, &mut parking, &call);
        self.parking = Some(parking);
        parked.map_err(|error| self.queue_failed(error))?;
        Ok(Fate::Filtered(FilterReason::Parked))
    }

    /// Who writes into the error queue.
    fn author(&self) -> Author {
        Author {
            group: self.group.clone(),
            group_key: self.group_key,
            origin: self.origin.clone(),
            now: (self.clock)(),
        }
    }

    /// Completes what the open transaction parks, and notes its conflicts: all of it becomes durable with the position.
    pub(crate) fn save_queue(&mut self, session: &mut dyn Session) -> Result<(), Setback> {
        let Some(queue) = self.queue.clone() else { return Ok(()) };
        if self.parking.is_none() && self.conflicts.is_empty() {
            return Ok(());
        }
        let author = self.author();
        if let (Some(parking), Some(doomed)) = (self.parking.take(), &self.doomed) {
            let held_behind = match &doomed.destination {
                Destination::ErrorQueue { held_behind } => held_behind.clone(),
                _ => None,
            };
            let error = doomed.error.clone();
            let finished = queue.finish(session, &author, &parking, &error, held_behind.as_deref());
            finished.map_err(|error| self.queue_failed(error))?;
            let payload = serde_json::json!({
                "event": "parked", "group": author.group, "deferred_tran_id": parking.id, "error_number": error.number(),
            });
            tell(session, &payload)?;
            if change::sabotage::is_on("park-without-position") {
                let apart = session.commit().and_then(|()| Ok(session.begin()?));
                apart.map_err(|error| self.queue_failed(error))?;
            }
            let text = format!("{}: {}", error.number(), error.detail);
            self.parked.push(ParkedNotice { id: parking.id, error: text });
        }
        let notes = std::mem::take(&mut self.conflicts);
        let logged = queue.log(session, &author, &notes);
        if notes.iter().any(|note| !note.resolved) {
            tell(session, &serde_json::json!({ "event": "conflict", "group": author.group }))?;
        }
        self.conflicts = notes;
        logged.map_err(|error| self.queue_failed(error))
    }

    fn queue_failed(&self, error: ApplyError) -> Setback {
        match error {
            ApplyError::Failed(source) => Setback::Failed { action: "write to the error queue", source },
            ApplyError::Rejected(rejection) => {
                let what = format!("the error queue did not take a row: {} ({})", rejection.outcome, rejection.detail);
                let source = database::Error::new(database::ErrorClass::Permanent, what)
                    .with_next_step("look whether the transaction is in the queue already: DEFERROR");
                Setback::Stop(Error::ErrorQueue { position: self.position, source })
            }
        }
    }

    /// Notes in the log, after a rollback, what nobody settled before the group stops. Returns whether that is done.
    pub(crate) fn log_unsettled(&mut self, session: &mut dyn Session, notes: &[ConflictNote]) -> bool {
        let Some(queue) = self.queue.clone().filter(|_| !notes.is_empty()) else { return true };
        let author = self.author();
        let logged = session.begin().map_err(ApplyError::from).and_then(|()| {
            queue.log(session, &author, notes)?;
            session.notify(&serde_json::json!({ "event": "conflict", "group": author.group }).to_string())?;
            session.commit()
        });
        if logged.is_err() {
            // The group stops because of something else, which is the error to tell.
            let _ = session.rollback();
        }
        logged.is_ok()
    }
}

fn tell(session: &mut dyn Session, payload: &serde_json::Value) -> Result<(), Setback> {
    let told = session.notify(&payload.to_string());
    told.map_err(|source| Setback::Failed { action: "notify the target's listeners", source })
}
