//! Transactions whose rows may not fit, and of which somebody has said what to do then.
//!
//! What does not fit is judged only when everything before it is committed: an earlier transaction may be the cause. Until then a
//! group is written as if there were no rules, rows with rules for conflicts after a look at them; and when one does not fit,
//! everything is taken back. Its transactions come again, each as the oldest one and by itself.

use super::applier::{Applier, Setback, rejected, writes};
use super::board::{Halt, Shared, Targets};
use super::work::{Buffered, Counted, Mark, Part, Retrial, Transaction};
use crate::error::Error;
use crate::judge::{self, Fate, Stance};
use crate::plans::Written;
use change::Commit;
use database::{CheckpointRow, ErrorClass};
use std::sync::Arc;

/// Whether rules have a say about these transactions.
pub(super) fn follow_rules(transactions: &[Transaction], targets: &Targets) -> bool {
    let mut changes = transactions.iter().flat_map(|transaction| &transaction.changes);
    changes.any(|buffered| !targets[buffered.plan].is_plain())
}

impl Applier {
    /// Tells the judge what the board knows.
    pub(super) fn brief_judge(&mut self, shared: &Shared) {
        let board = shared.lock();
        let judge = &mut self.judge;
        judge.held = Arc::clone(&board.held);
        judge.position = board.durable.next;
        judge.attempts.clone_from(&board.attempts);
        judge.origin.clone_from(&board.origin);
        judge.doomed = None;
    }

    /// Applies transactions, and judges what does not fit if they are one, and the oldest. Returns what became of each change
    /// where that is not plain.
    pub(super) fn apply_by_rules(
        &mut self,
        transactions: &[Transaction],
        targets: &Targets,
        row: &mut CheckpointRow,
        is_oldest: bool,
    ) -> Result<Vec<Fate>, Setback> {
        let mut changes = transactions.iter().flat_map(|transaction| &transaction.changes);
        let looks_first = changes.any(|buffered| targets[buffered.plan].looks_first());
        let is_early = !is_oldest && !change::sabotage::is_on("judge-rows-early");
        if is_early || !looks_first {
            self.judge.stance = Stance::Early;
            match self.apply_what_fits(transactions, targets, row, looks_first) {
                Ok(fates) => return Ok(fates),
                Err(Setback::Rejected(_) | Setback::Judged(judge::Setback::Anew)) if !is_early => self.take_back()?,
                Err(Setback::Rejected(_)) => return Err(Setback::Judged(judge::Setback::Anew)),
                Err(setback) => return Err(setback),
            }
        }
        self.judge.stance = Stance::Single;
        loop {
            match self.judge_all(transactions, targets, row) {
                Err(Setback::Judged(judge::Setback::Anew)) => self.take_back()?,
                judged => return judged,
            }
        }
    }

    fn take_back(&mut self) -> Result<(), Setback> {
        self.judge.forget_open();
        self.session.rollback().map_err(|source| Setback::Failed { action: "roll back", source })
    }

    fn apply_what_fits(
        &mut self,
        transactions: &[Transaction],
        targets: &Targets,
        row: &mut CheckpointRow,
        looks_first: bool,
    ) -> Result<Vec<Fate>, Setback> {
        self.begin()?;
        if looks_first {
            let fates = self.show_all(transactions, targets)?;
            self.commit_with(&[], row)?;
            return Ok(fates);
        }
        for transaction in transactions {
            for buffered in &transaction.changes {
                let case = buffered.case(targets, transaction.mark.commit.as_ref());
                self.judge.let_pass(&mut *self.session, &case)?;
            }
        }
        let changes = transactions.iter().flat_map(|transaction| &transaction.changes);
        self.commit_with(&writes(changes, targets), row)?;
        Ok(Vec::new())
    }

    fn show_all(&mut self, transactions: &[Transaction], targets: &Targets) -> Result<Vec<Fate>, Setback> {
        let mut fates = Vec::new();
        for transaction in transactions {
            for buffered in &transaction.changes {
                let case = buffered.case(targets, transaction.mark.commit.as_ref());
                fates.push(self.judge.write(&mut *self.session, &case)?);
            }
        }
        Ok(fates)
    }

    fn judge_all(
        &mut self,
        transactions: &[Transaction],
        targets: &Targets,
        row: &mut CheckpointRow,
    ) -> Result<Vec<Fate>, Setback> {
        let last = transactions.last().expect("a group has a transaction");
        self.begin()?;
        let fates = self.show_all(transactions, targets)?;
        let plans = transactions.iter().flat_map(|transaction| &transaction.changes).map(|buffered| buffered.plan);
        let tables: Vec<&Written> = plans.map(|plan| &targets[plan]).collect();
        self.commit_judged(&tables, row, &last.mark).map(|()| fates)
    }

    /// Saves what the judge has kept of the open transaction, and commits it.
    fn commit_judged(&mut self, tables: &[&Written], row: &mut CheckpointRow, mark: &Mark) -> Result<(), Setback> {
        self.judge.save_discards()?;
        self.judge.save_queue(&mut *self.session)?;
        match self.commit_with(&[], row) {
            Err(Setback::Rejected(rejection)) => {
                let told = rejected(&rejection, None, mark);
                let misfits = tables.iter().flat_map(|written| written.misfits.iter());
                Err(self.judge.refused_at_commit(misfits, &rejection, told, mark.commit.as_ref()).into())
            }
            committed => committed,
        }
    }

    /// Writes changes of a transaction that is written while it is read, everything before it being committed; `is_judged`: one
    /// by one, because one was refused before. Tells what became of them.
    pub(super) fn write_part(
        &mut self,
        changes: &[Buffered],
        targets: &Targets,
        commit: Option<&Commit>,
        is_judged: bool,
    ) -> Result<Counted, Setback> {
        let mut counted = Counted::default();
        for buffered in changes {
            self.part_tables.entry(buffered.plan).or_insert_with(|| targets[buffered.plan].clone());
        }
        let looks_first = changes.iter().any(|buffered| targets[buffered.plan].looks_first());
        self.judge.stance = if is_judged { Stance::Single } else { Stance::Together };
        if is_judged || looks_first {
            for buffered in changes {
                let fate = self.judge.write(&mut *self.session, &buffered.case(targets, commit))?;
                counted.note(buffered, fate);
            }
            return Ok(counted);
        }
        for buffered in changes {
            self.judge.let_pass(&mut *self.session, &buffered.case(targets, commit))?;
        }
        match self.write(&writes(changes.iter(), targets)) {
            Err(Setback::Rejected(_)) if changes.iter().any(|buffered| !targets[buffered.plan].is_plain()) => {
                return Err(Setback::Judged(judge::Setback::Anew));
            }
            written => written?,
        }
        changes.iter().for_each(|buffered| counted.note(buffered, buffered.fate()));
        Ok(counted)
    }

    /// Commits such a transaction.
    pub(super) fn commit_parts(&mut self, row: &mut CheckpointRow, mark: &Mark) -> Result<(), Setback> {
        let tables = std::mem::take(&mut self.part_tables);
        if tables.values().all(Written::is_plain) && self.judge.doomed.is_none() {
            return self.commit_with(&[], row);
        }
        self.commit_judged(&tables.values().collect::<Vec<_>>(), row, mark)
    }

    /// Writes a part of a transaction whose end is not known yet. While one is open the applier does nothing else, and no
    /// other applier does anything.
    pub(super) fn perform_part(&mut self, mut part: Part, shared: &Shared) {
        if let Part::Write { changes, is_first, doomed, .. } = &mut part {
            if *is_first {
                let definitions = shared.lock().definitions;
                self.forget_tables_before(definitions);
                self.brief_judge(shared);
                self.judge.doomed = doomed.take().map(|doomed| *doomed);
                self.part_tables.clear();
            }
            changes.iter_mut().for_each(|buffered| buffered.receive(&*self.clock));
        }
        let result = match &part {
            Part::Write { changes, targets, mark, is_first, is_judged, .. } => {
                let begun = if *is_first { self.begin() } else { Ok(()) };
                begun.and_then(|()| self.write_part(changes, targets, mark.commit.as_ref(), *is_judged))
            }
            Part::Commit { row, mark } => self.commit_parts(&mut row.clone(), mark).map(|()| Counted::default()),
            Part::Rollback => self.take_back().map(|()| Counted::default()),
        };
        let is_commit = matches!(part, Part::Commit { .. });
        let result = result.map_err(|setback| self.part_halt(setback, &part, shared));
        let mut loaded = Ok(());
        let told = if is_commit && result.is_ok() { self.judge.committed() } else { Default::default() };
        if !told.parked.is_empty() {
            loaded = self.judge.load_held(&mut *self.session);
        }
        let mut board = shared.lock();
        board.stream.parts_done += 1;
        match result {
            Ok(counted) => {
                if matches!(part, Part::Write { is_first: true, .. }) {
                    board.stream.counted.clear();
                }
                board.stream.counted.take_in(&counted);
                if is_commit {
                    board.held = Arc::clone(&self.judge.held);
                    board.attempts = None;
                    board.stream.told = told;
                }
                if loaded.is_err() {
                    let what = "could not read the error queue behind a transaction that was parked";
                    board.halt = Some(Halt::Reconnect(database::Error::new(ErrorClass::ConnectionLost, what)));
                }
            }
            Err(halt) => {
                board.attempts.clone_from(&self.judge.attempts);
                board.stream.parts.clear();
                board.halt = Some(halt);
            }
        }
        drop(board);
        shared.call_all();
    }

    /// Takes everything back, and says why nothing more is given out.
    fn part_halt(&mut self, setback: Setback, part: &Part, shared: &Shared) -> Halt {
        let unsettled = self.judge.take_unsettled();
        self.judge.forget_open();
        if let Err(source) = self.session.rollback() {
            return Halt::Reconnect(source);
        }
        let (mark, changes, targets) = match part {
            Part::Write { changes, targets, mark, .. } => (Some(mark), changes.as_slice(), Some(targets)),
            Part::Commit { mark, .. } => (Some(mark), &[][..], None),
            Part::Rollback => (None, &[][..], None),
        };
        let commit = mark.and_then(|mark| mark.commit.clone());
        match (setback, mark) {
            (Setback::Failed { source, .. }, _) if source.class() == ErrorClass::ConnectionLost => {
                Halt::Reconnect(source)
            }
            (Setback::Failed { source, .. }, _) if source.class() == ErrorClass::Transient => Halt::Again(source),
            (Setback::Failed { action, source }, _) => {
                let position = shared.lock().durable.next;
                Halt::Stop(Box::new(Error::Target { action, position, source }))
            }
            (Setback::Rejected(rejection), Some(mark)) => {
                let marked = changes.iter().map(|buffered| (buffered, mark));
                let targets = targets.cloned().unwrap_or_default();
                Halt::Stop(Box::new(super::applier::refused(&rejection, marked, &targets, mark)))
            }
            (Setback::Rejected(_), None) => unreachable!("a rollback is never refused"),
            (Setback::Judged(judge::Setback::Stop(error)), _) => {
                self.judge.log_unsettled(&mut *self.session, &unsettled);
                Halt::Stop(Box::new(error))
            }
            (Setback::Judged(judged), _) => {
                let wait = match judged {
                    judge::Setback::Wait { until, cause } => Some((until, cause)),
                    _ => None,
                };
                let doomed = self.judge.doomed.take().map(Box::new);
                Halt::Retry { retrial: commit.map(|commit| Box::new(Retrial { commit, doomed })), wait }
            }
        }
    }
}
