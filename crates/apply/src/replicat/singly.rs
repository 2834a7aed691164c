//! Writing one row at a time: the changes that the judge is shown, and the ways back that it names.

use super::{Buffered, Replicat, Trouble};
use crate::judge::{Case, Fate, Setback, Stance};
use change::Commit;

/// A buffered change as the judge sees it.
fn case<'a>(buffered: &'a Buffered, plans: &'a crate::plans::Plans, commit: Option<&'a Commit>) -> Case<'a> {
    Case {
        change: &buffered.change,
        converted: &buffered.converted,
        position: buffered.position,
        commit,
        written: &plans.get(buffered.plan).written,
        is_heartbeat: buffered.arrival.is_some(),
    }
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
        self.buffer[..count].iter().any(|buffered| self.plans.get(buffered.plan).written.looks_first())
    }

    /// How much the judge may decide now, and how far the group is.
    pub(super) fn brief_judge(&mut self) {
        self.judge.stance = if self.is_single() { Stance::Single } else { Stance::Together };
        self.judge.position = self.progress.position;
    }

    /// Sends the oldest `count` buffered changes one by one.
    pub(super) fn write_singly(&mut self, count: usize) -> Result<(), Trouble> {
        self.brief_judge();
        for place in 0..count {
            let buffered = &self.buffer[place];
            let commit = buffered.commit.as_ref().or(self.group.last()).or(self.current.as_ref());
            let session = self.session.as_deref_mut().expect("the session was opened");
            let case = case(buffered, &self.plans, commit);
            match self.judge.write(session, &case) {
                Ok(_) if case.is_heartbeat => {}
                Ok(fate) => {
                    let counts = self.written_tally.counts(buffered.plan, buffered.change.operation.kind());
                    match fate {
                        Fate::Written => counts.written += 1,
                        Fate::Filtered(reason) => counts.filter(reason, 1),
                    }
                }
                Err(setback) => return Err(self.way_back(setback)),
            }
        }
        self.buffered_bytes -= self.buffer.drain(..count).map(|written| written.bytes).sum::<usize>();
        Ok(())
    }

    /// Makes sure that none of the oldest `count` changes stands behind a parked transaction.
    pub(super) fn let_pass(&mut self, count: usize) -> Result<(), Trouble> {
        if self.judge.held.is_empty() {
            return Ok(());
        }
        self.brief_judge();
        for buffered in &self.buffer[..count] {
            let commit = buffered.commit.as_ref().or(self.group.last()).or(self.current.as_ref());
            let session = self.session.as_deref_mut().expect("the session was opened");
            if let Err(setback) = self.judge.let_pass(session, &case(buffered, &self.plans, commit)) {
                return Err(self.way_back(setback));
            }
        }
        Ok(())
    }

    /// The way out that the judge names.
    pub(super) fn way_back(&mut self, setback: Setback) -> Trouble {
        match setback {
            Setback::Failed { action, source } => self.target_trouble(action, source),
            Setback::Stop(error) => Trouble::Stop(error),
            Setback::Anew => Trouble::Singly,
            Setback::Wait { until, cause } => {
                self.not_before = Some(until);
                Trouble::Again { reconnect: false, cause }
            }
        }
    }

    /// Reads what is parked, where later transactions are held back behind it.
    pub(super) fn load_held(&mut self) -> Result<(), Trouble> {
        let session = self.session.as_deref_mut().expect("the session was opened");
        self.judge.load_held(session).map_err(|setback| self.way_back(setback))
    }

    /// Makes durable, or puts into the open transaction, what the judge has kept of it.
    pub(super) fn save_judged(&mut self) -> Result<(), Trouble> {
        self.judge.position = self.progress.position;
        let session = self.session.as_deref_mut().expect("the session was opened");
        let saved = self.judge.save_discards().and_then(|()| self.judge.save_queue(session));
        saved.map_err(|setback| self.way_back(setback))
    }
}
