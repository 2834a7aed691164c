//! Statements that define objects, and sequences: what is in a transaction beside changes of rows.

use super::{Replicat, Trouble};
use crate::definition::{Defining, Obstacle, Way, comes_with_a_statement, not_made_yet, passed_over, way};
use crate::error::Error;
use change::{Commit, DefinitionStatement, SequenceState};
use database::ErrorClass;
use trail::{Position, TransactionPlace};

impl Replicat {
    /// Takes a statement from the trail.
    pub(super) fn statement(
        &mut self,
        place: TransactionPlace,
        commit: Commit,
        statement: Box<DefinitionStatement>,
        (position, next): (Position, Position),
    ) -> Result<(), Trouble> {
        self.starts(place, &commit, position)?;
        let Some(definitions) = &self.definitions else {
            return Err(self.inapplicable("statement that defines objects", position));
        };
        let found = match self.left_out {
            Some(_) => None,
            None => Some(way(&statement, definitions, &self.setup.rules)),
        };
        let placed = match found {
            Some(Way::Run(targets)) => {
                let is_first = place.starts();
                self.defining = Some(Defining { statement, commit: commit.clone(), targets, position, is_first });
                self.grouping.statement(place, &mut self.commands)
            }
            other => {
                if let Some(Way::PassedOver) = other {
                    (self.setup.notice)(&passed_over(&statement));
                }
                self.grouping.change(place, None, &mut self.commands)
            }
        };
        self.placed(place, placed, commit, (position, next))
    }

    /// Takes where a sequence stands.
    pub(super) fn sequence(
        &mut self,
        place: TransactionPlace,
        commit: Commit,
        sequence: &SequenceState,
        (position, next): (Position, Position),
    ) -> Result<(), Trouble> {
        self.starts(place, &commit, position)?;
        if self.left_out.is_none() {
            // Being ahead of the rows does no harm; being behind them would.
            for target in self.setup.rules.targets(&sequence.name) {
                let moved = self.session().advance_sequence(sequence, &target.target);
                if let Err(source) = &moved
                    && comes_with_a_statement(self.definitions.as_ref(), source)
                {
                    (self.setup.notice)(&not_made_yet(sequence, position));
                    continue;
                }
                moved.map_err(|source| match source.class() {
                    ErrorClass::Transient | ErrorClass::ConnectionLost => {
                        self.target_trouble("move a sequence in the target", source)
                    }
                    _ => self.stop_after_group(Error::Sequence { position, source }),
                })?;
            }
        }
        let placed = self.grouping.change(place, None, &mut self.commands);
        self.placed(place, placed, commit, (position, next))
    }

    fn starts(&mut self, place: TransactionPlace, commit: &Commit, position: Position) -> Result<(), Trouble> {
        if place.starts() {
            self.left_out = self.leaves_out(commit, position)?;
            self.current = Some(commit.clone());
        }
        Ok(())
    }

    fn placed(
        &mut self,
        place: TransactionPlace,
        placed: Result<(), crate::OutOfPlace>,
        commit: Commit,
        (position, next): (Position, Position),
    ) -> Result<(), Trouble> {
        placed.map_err(|refused| self.stop_after_group(Error::OutOfPlace { position, place: refused.place }))?;
        if place.ends() {
            self.applied.note(&commit, next);
            self.group_tally.take_in(&mut self.open_tally);
            self.group.push(commit);
        }
        Ok(())
    }

    /// Runs the statement that was taken last, in the target transaction that was begun for its source transaction.
    pub(super) fn define(&mut self) -> Result<(), Trouble> {
        let (Some(defining), Some(rules)) = (self.defining.take(), &self.definitions) else { return Ok(()) };
        let session = self.session.as_deref_mut().expect("the session was opened");
        self.has_defined = true;
        match defining.run(session, rules, &mut self.setup.notice) {
            Ok(()) => {
                self.plans.renew();
                Ok(())
            }
            Err(Obstacle::Refused(error)) => Err(Trouble::Stop(error)),
            Err(Obstacle::Session(source)) => {
                Err(self.target_trouble("run a statement that defines objects in the target", source))
            }
        }
    }

    /// What was planned under a statement that was taken back counts no more.
    pub(super) fn forget_tables_if_defined(&mut self) {
        if std::mem::take(&mut self.has_defined) {
            self.plans.renew();
            if let Some(session) = &mut self.session {
                session.forget_tables();
            }
        }
    }
}
