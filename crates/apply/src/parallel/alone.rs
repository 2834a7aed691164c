//! A transaction that holds a statement that defines objects.
//!
//! It is written while it is read, when everything before it is committed, by the reader's own applier: the session in which the
//! statement has run is the only one that sees what tables look like now. Nothing else is applied meanwhile. Afterwards all
//! sessions forget what they know of tables.

use super::applier::{Setback, refused};
use super::work::{Counted, Finished, Mark, Retrial};
use super::{ParallelReplicat, Trouble};
use crate::definition::{Defining, Obstacle, Way, comes_with_a_statement, not_made_yet, passed_over, way};
use crate::error::Error;
use crate::judge;
use change::{Commit, DefinitionStatement, SequenceState};
use database::{ErrorClass, Session};
use std::time::Duration;
use trail::{Position, TransactionPlace};

/// How far such a transaction is.
pub(super) struct Alone {
    commit: Commit,
    position: Position,
    read: Counted,
    /// The statement that comes behind the changes that wait.
    defining: Option<Defining>,
    /// Whether the target transaction was begun.
    pub(super) is_begun: bool,
    /// The end of the transaction, when it is there.
    pub(super) end: Option<Mark>,
    /// There is something to do.
    pub(super) is_due: bool,
}

impl Alone {
    fn of(commit: Commit, position: Position) -> Alone {
        Alone { commit, position, read: Counted::default(), defining: None, is_begun: false, end: None, is_due: false }
    }
}

impl ParallelReplicat {
    /// Takes a statement from the trail.
    pub(super) fn statement(
        &mut self,
        place: TransactionPlace,
        commit: Commit,
        statement: Box<DefinitionStatement>,
        (position, next): (Position, Position),
    ) -> Result<(), Trouble> {
        if !self.enters(place, &commit, position) {
            return Ok(());
        }
        let Some(rules) = &self.definitions else {
            self.ending = Some(Error::Inapplicable { what: "statement that defines objects", position });
            return Ok(());
        };
        if self.left_out.is_none() {
            match way(&statement, rules, &self.setup.common.rules) {
                Way::PassedOver => (self.setup.common.notice)(&passed_over(&statement)),
                // Threads and pieces have rows of their own, which can't speak for a statement that is for all of them.
                Way::Run(_) if self.coordination.is_some() || self.setup.split.is_some() => {
                    let what = "statement that defines objects, by coordinated threads or with SPLIT_TRANS_RECS,";
                    self.ending = Some(Error::Inapplicable { what, position });
                    return Ok(());
                }
                Way::Run(targets) => {
                    if self.streaming.take().is_some_and(|streaming| streaming.has_begun()) {
                        // Another session has a part of it already: it is read again, for this one.
                        self.wanted_alone = Some((commit.csn, commit.transaction));
                        return Err(Trouble::Anew);
                    }
                    let alone = self.alone.get_or_insert_with(|| Alone::of(commit.clone(), position));
                    let is_first = place.starts();
                    alone.defining = Some(Defining { statement, commit: commit.clone(), targets, position, is_first });
                    alone.is_due = true;
                }
            }
        }
        if place.ends() {
            self.end(&commit, next);
        }
        Ok(())
    }

    /// Takes where a sequence stands.
    pub(super) fn sequence(
        &mut self,
        place: TransactionPlace,
        commit: &Commit,
        sequence: &SequenceState,
        (position, next): (Position, Position),
    ) -> Result<(), Trouble> {
        if !self.enters(place, commit, position) {
            return Ok(());
        }
        if self.left_out.is_none() {
            // Being ahead of the rows does no harm; being behind them would.
            for target in self.setup.common.rules.targets(&sequence.name) {
                let moved = self.looking_session().advance_sequence(sequence, &target.target);
                match moved {
                    Ok(()) => {}
                    Err(source) if matches!(source.class(), ErrorClass::Transient | ErrorClass::ConnectionLost) => {
                        return Err(Trouble::Again(source));
                    }
                    Err(source) if comes_with_a_statement(self.definitions.as_ref(), &source) => {
                        (self.setup.common.notice)(&not_made_yet(sequence, position));
                    }
                    Err(source) => {
                        self.ending = Some(Error::Sequence { position, source });
                        return Ok(());
                    }
                }
            }
        }
        if place.ends() {
            self.end(commit, next);
        }
        Ok(())
    }

    /// Whether what stands at `position` may be taken.
    fn enters(&mut self, place: TransactionPlace, commit: &Commit, position: Position) -> bool {
        if place.starts() == self.is_inside {
            self.ending = Some(Error::OutOfPlace { position, place });
            return false;
        }
        if place.starts() {
            if self.setup.synchronizes && self.is_beyond_high(commit) {
                self.is_reached = true;
                return false;
            }
            self.inside = 0;
            self.piece_start = self.operations_given(commit);
            self.left_out = self.leaves_out(commit, position);
            self.current = Some(commit.clone());
            self.begin_alone_if_wanted(commit, position);
        }
        self.is_inside = !place.ends();
        self.ending.is_none()
    }

    /// Goes on with a transaction that has to be written by this thread's applier.
    pub(super) fn begin_alone_if_wanted(&mut self, commit: &Commit, position: Position) {
        let is_it = |(csn, transaction): &(change::Csn, change::TransactionId)| {
            *csn == commit.csn && *transaction == commit.transaction
        };
        if self.wanted_alone.as_ref().is_some_and(is_it) {
            self.alone = Some(Alone::of(commit.clone(), position));
        }
    }

    /// The session that sees tables as the next change finds them.
    pub(super) fn looking_session(&mut self) -> &mut dyn Session {
        let team = self.team.as_mut().expect("the sessions were opened");
        if self.alone.as_ref().is_some_and(|alone| alone.is_begun) { &mut *team.first().session } else { team.group() }
    }

    /// Does what is due of a transaction that is written by this thread. Returns whether reading may go on.
    pub(super) fn alone_is_served(&mut self, wait: Duration) -> Result<bool, Trouble> {
        let Some(mut alone) = self.alone.take_if(|alone| alone.is_due) else { return Ok(true) };
        if !alone.is_begun {
            if !change::sabotage::is_on("ddl-without-barrier") && !self.drain(wait)? {
                self.alone = Some(alone);
                return Ok(false);
            }
            let team = self.team.as_mut().expect("the sessions were opened");
            let shared = std::sync::Arc::clone(&team.shared);
            let first = team.first();
            first.brief_judge(&shared);
            first.part_tables.clear();
            let retrial = self.retrial.as_mut().filter(|retrial| retrial.is_of(&alone.commit));
            first.judge.doomed = retrial.and_then(|retrial| retrial.doomed.take()).map(|doomed| *doomed);
            let begun = first.begin();
            begun.map_err(|setback| self.target_trouble_of(setback.failed()))?;
            alone.is_begun = true;
        }
        let mut changes = std::mem::take(&mut self.open);
        changes.iter_mut().for_each(|buffered| buffered.receive(&*self.setup.common.clock));
        self.open_bytes = 0;
        alone.read.take_in(&std::mem::take(&mut self.open_read));
        let mark = Mark { commit: Some(alone.commit.clone()), next: alone.position };
        let is_judged = self.retrial.as_ref().is_some_and(|retrial| retrial.is_of(&alone.commit));
        let team = self.team.as_mut().expect("the sessions were opened");
        let targets = team.shared.lock().targets.clone();
        if !changes.is_empty() {
            match team.first().write_part(&changes, &targets, Some(&alone.commit), is_judged) {
                Ok(counted) => alone.read.take_in(&counted),
                Err(Setback::Rejected(rejection)) => {
                    let marked = changes.iter().map(|buffered| (buffered, &mark));
                    return Err(Trouble::Stop(refused(&rejection, marked, &targets, &mark)));
                }
                Err(setback) => return Err(self.alone_again(setback, alone.commit)),
            }
        }
        if let (Some(defining), Some(rules)) = (alone.defining.take(), &self.definitions) {
            let session = &mut *team.first().session;
            match defining.run(session, rules, &mut self.setup.common.notice) {
                Ok(()) => {}
                Err(Obstacle::Refused(error)) => return Err(Trouble::Stop(error)),
                Err(Obstacle::Session(source)) => {
                    return Err(self.target_trouble("run a statement that defines objects in the target", source));
                }
            }
            self.plans.renew();
        }
        alone.is_due = false;
        let Some(mark) = alone.end.take() else {
            self.alone = Some(alone);
            return Ok(true);
        };
        let team = self.team.as_mut().expect("the sessions were opened");
        let mut row = team.shared.lock().row_at(1, &mark);
        match team.first().commit_parts(&mut row, &mark) {
            Ok(()) => {}
            Err(Setback::Rejected(rejection)) => {
                return Err(Trouble::Stop(refused(&rejection, std::iter::empty(), &targets, &mark)));
            }
            Err(setback) => return Err(self.alone_again(setback, alone.commit)),
        }
        let first = team.first();
        let told = first.judge.committed();
        let loaded = if told.parked.is_empty() { Ok(()) } else { first.judge.load_held(&mut *first.session) };
        let held = std::sync::Arc::clone(&first.judge.held);
        self.retrial = self.retrial.take().filter(|retrial| !retrial.is_of(&alone.commit));
        team.group().forget_tables();
        let mut board = team.shared.lock();
        board.definitions += 1;
        board.held = held;
        board.attempts = None;
        let times = vec![alone.commit.time];
        board.passed(mark, Finished { counted: alone.read, times, at: Some((self.setup.common.clock)()), told });
        drop(board);
        self.touches.clear();
        self.wanted_alone = None;
        self.look_at_board()?;
        match loaded {
            Err(judge::Setback::Failed { action, source }) => Err(self.target_trouble(action, source)),
            _ => Ok(true),
        }
    }

    fn target_trouble_of(&self, (action, source): (&'static str, database::Error)) -> Trouble {
        self.target_trouble(action, source)
    }

    /// The way out when the judge did not let a change of such a transaction pass, or the target failed.
    fn alone_again(&mut self, setback: Setback, commit: Commit) -> Trouble {
        let team = self.team.as_mut().expect("the sessions were opened");
        let first = team.first();
        let unsettled = first.judge.take_unsettled();
        first.judge.forget_open();
        let (attempts, doomed) = (first.judge.attempts.clone(), first.judge.doomed.take().map(Box::new));
        let wait = match setback {
            Setback::Judged(judge::Setback::Stop(error)) => {
                if first.session.rollback().is_ok() {
                    first.judge.log_unsettled(&mut *first.session, &unsettled);
                }
                return Trouble::Stop(error);
            }
            Setback::Judged(judge::Setback::Wait { until, cause }) => Some((until, cause)),
            Setback::Judged(_) => None,
            other => return self.target_trouble_of(other.failed()),
        };
        team.shared.lock().attempts = attempts;
        self.wanted_alone = Some((commit.csn.clone(), commit.transaction.clone()));
        self.again(Some(Box::new(Retrial { commit, doomed })), wait)
    }

    /// The transaction was abandoned by the writer of the trail.
    pub(super) fn give_up_alone(&mut self) -> Result<Counted, Trouble> {
        let Some(alone) = self.alone.take() else { return Ok(Counted::default()) };
        if alone.is_begun {
            let first = self.team.as_mut().expect("the sessions were opened").first();
            first.judge.forget_open();
            let session = &mut first.session;
            let rolled_back = session.rollback();
            session.forget_tables();
            rolled_back.map_err(|source| self.target_trouble("roll back", source))?;
            self.plans.renew();
        }
        Ok(alone.read)
    }
}
