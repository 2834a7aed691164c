//! A Pump: from one trail into another, in one process.

use crate::standing::open_source;
use crate::{Error, Intake, Ledger, Outlet};
use change::{OperationKind, TableName, Timestamp};
use process::{FilterReason, Statistics};
use std::sync::Arc;
use std::time::Duration;
use trail::cipher::MasterKeys;
use trail::copy::{CopyOptions, CopyReader, CopyRules, CopyWriter, Tally};
use trail::storage::Storage;
use trail::{Position, TrailName};

/// What a Pump needs.
pub struct PumpSetup {
    /// The disk of the source trail.
    pub source: Arc<dyn Storage>,
    /// The source trail.
    pub source_trail: TrailName,
    /// Which records it sends on.
    pub rules: Box<dyn CopyRules>,
    /// Master keys, for rules that look into encrypted records.
    pub keys: Option<Arc<dyn MasterKeys>>,
    /// The disk of the target trail.
    pub target: Arc<dyn Storage>,
    /// The target trail.
    pub options: CopyOptions,
    /// The Pump's own checkpoint.
    pub ledger: Box<dyn Ledger>,
    /// For the operator.
    pub notice: Box<dyn FnMut(&str) + Send>,
    /// When counting started.
    pub since: Timestamp,
}

/// What a step did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Something.
    Worked,
    /// Something, and more of what was sent is durable at the target.
    Answered,
    /// There was nothing to do.
    Idle,
}

/// Reads a trail and writes another one.
pub struct Pump {
    reader: CopyReader,
    intake: Intake,
    outlet: Outlet,
    ledger: Box<dyn Ledger>,
    since: Timestamp,
}

impl Pump {
    /// Opens both trails, and finds where to go on.
    ///
    /// # Errors
    /// [`Error`].
    pub fn open(setup: PumpSetup) -> Result<Pump, Error> {
        let PumpSetup { source, source_trail, rules, keys, target, options, mut ledger, mut notice, since } = setup;
        let writer = CopyWriter::open(target, options).map_err(Error::target)?;
        let intake = Intake::new(writer)?;
        let opened = open_source(source, source_trail, &mut *ledger, intake.last(), rules, keys)?;
        if let Some(text) = opened.notice {
            notice(&format!("{}: {text}", process::Code::TargetTrailShort));
        }
        let outlet = Outlet::new(ledger.standing(), intake.last());
        Ok(Pump { reader: opened.reader, intake, outlet, ledger, since })
    }

    /// Does one bounded piece of work; waits for some at most `wait`.
    ///
    /// # Errors
    /// [`Error`]. Open the Pump anew to go on.
    pub fn step(&mut self, wait: Duration) -> Result<Step, Error> {
        let next = if self.outlet.admits() { self.reader.next().map_err(Error::source)? } else { None };
        if let Some(batch) = next {
            let (number, early) = self.outlet.leave(&batch);
            if let Some(standing) = early {
                self.ledger.save(&standing)?;
            }
            self.intake.take(number, &batch)?;
            if let Some(answer) = self.intake.answer(false)? {
                self.answered(answer)?;
            }
            return Ok(Step::Worked);
        }
        if self.intake.is_owing() {
            let answer = self.intake.settle()?;
            self.answered(answer)?;
            return Ok(Step::Worked);
        }
        self.reader.wait(wait).map_err(Error::source)?;
        Ok(Step::Idle)
    }

    fn answered(&mut self, answer: crate::Answer) -> Result<(), Error> {
        if let Some(standing) = self.outlet.arrived(answer.number, answer.position, answer.last)? {
            self.ledger.save(&standing)?;
        }
        Ok(())
    }

    /// Where the source trail is read.
    pub fn position(&self) -> Position {
        self.reader.position()
    }

    /// What was read and sent on.
    pub fn statistics(&self) -> Statistics {
        statistics(self.reader.tally(), self.since)
    }

    /// Ends cleanly: makes everything that was read durable, and closes the target trail.
    ///
    /// # Errors
    /// [`Error`].
    pub fn stop(mut self) -> Result<(), Error> {
        let answer = self.intake.settle()?;
        self.answered(answer)?;
        self.intake.into_writer().close().map_err(Error::target)?;
        Ok(())
    }
}

/// A copy's counts as reports show them.
pub fn statistics(tally: &Tally, since: Timestamp) -> Statistics {
    let mut statistics = Statistics::new(since);
    for (name, counts) in tally.tables() {
        let name = TableName::parse(name).unwrap_or_else(|_| TableName::new("", name.as_str()));
        let table = statistics.table(&name);
        for kind in OperationKind::ALL {
            let (read, kept) = (counts.read[kind as usize], counts.kept[kind as usize]);
            let sum = statistics.counts_mut(table, kind);
            (sum.read, sum.written) = (read, kept);
            sum.filter(FilterReason::NotMapped, read - kept);
        }
    }
    statistics
}
