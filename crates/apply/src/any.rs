//! A Replicat of either mode, for those who run it and need not know which.

use crate::HeartbeatTarget;
use crate::conflict::ConflictKind;
use crate::{ConflictCount, Error, LagHistogram, ParallelReplicat, Progress, Replicat, SideBySide, StartOptions, Step};
use change::TableName;
use process::Statistics;
use std::collections::BTreeMap;
use std::time::Duration;

/// A running Replicat.
pub enum AnyReplicat {
    /// One session, one target transaction after another.
    Classic(Box<Replicat>),
    /// Several sessions.
    Parallel(Box<ParallelReplicat>),
}

impl AnyReplicat {
    /// See [`Replicat::step`] and [`ParallelReplicat::step`].
    ///
    /// # Errors
    /// Those of the mode.
    pub fn step(&mut self, wait: Duration) -> Result<Step, Error> {
        match self {
            AnyReplicat::Classic(replicat) => replicat.step(wait),
            AnyReplicat::Parallel(replicat) => replicat.step(wait),
        }
    }

    /// Gives the group its rules for statements that define objects.
    pub fn set_definitions(&mut self, definitions: parameter::DefinitionPlan) {
        match self {
            AnyReplicat::Classic(replicat) => replicat.set_definitions(definitions),
            AnyReplicat::Parallel(replicat) => replicat.set_definitions(definitions),
        }
    }

    /// Gives the group its discard file. Without one, a row that must go there stops the group.
    pub fn set_discard_file(&mut self, file: Box<dyn crate::Discard>) {
        match self {
            AnyReplicat::Classic(replicat) => replicat.set_discard_file(file),
            AnyReplicat::Parallel(replicat) => replicat.set_discard_file(file),
        }
    }

    /// Lets the group apply heartbeats.
    pub fn set_heartbeats(&mut self, target: HeartbeatTarget) {
        match self {
            AnyReplicat::Classic(replicat) => replicat.set_heartbeats(target),
            AnyReplicat::Parallel(replicat) => replicat.set_heartbeats(target),
        }
    }

    /// Applies what is read, where that is not left for the next start: see [`ParallelReplicat::finish`].
    pub fn finish(&mut self) {
        if let AnyReplicat::Parallel(replicat) = self {
            replicat.finish();
        }
    }

    /// Whether all that SYNCHRONIZE REPLICAT asks for is done; one session alone is never at two places.
    pub fn is_synchronized(&self) -> bool {
        match self {
            AnyReplicat::Classic(_) => true,
            AnyReplicat::Parallel(replicat) => replicat.is_synchronized(),
        }
    }

    /// Conflicts since the start.
    pub fn conflicts(&self) -> BTreeMap<(TableName, ConflictKind), ConflictCount> {
        match self {
            AnyReplicat::Classic(replicat) => replicat.conflicts().clone(),
            AnyReplicat::Parallel(replicat) => replicat.conflicts().clone(),
        }
    }

    /// Which methods have decided conflicts of a table and kind since the start, as people read it: ` (USEMAX 2)`, or nothing.
    pub fn methods_text(&self, table: &TableName, kind: ConflictKind) -> String {
        let methods = match self {
            AnyReplicat::Classic(replicat) => replicat.conflict_methods(),
            AnyReplicat::Parallel(replicat) => replicat.conflict_methods(),
        };
        let counts = methods.get(&(table.clone(), kind)).into_iter().flatten();
        let texts: Vec<String> = counts.map(|(method, times)| format!("{method} {times}")).collect();
        if texts.is_empty() { String::new() } else { format!(" ({})", texts.join(", ")) }
    }

    /// Conflicts since this was asked last, the last thousand of them.
    pub fn take_conflicts(&mut self) -> Vec<crate::ConflictNotice> {
        match self {
            AnyReplicat::Classic(replicat) => replicat.take_conflicts(),
            AnyReplicat::Parallel(replicat) => replicat.take_conflicts(),
        }
    }

    /// Transactions that went into the error queue since this was asked last.
    pub fn take_parked(&mut self) -> Vec<crate::ParkedNotice> {
        match self {
            AnyReplicat::Classic(replicat) => replicat.take_parked(),
            AnyReplicat::Parallel(replicat) => replicat.take_parked(),
        }
    }

    /// How much was applied side by side since the start; one session applies nothing so.
    pub fn side_by_side(&self) -> Option<SideBySide> {
        match self {
            AnyReplicat::Classic(_) => None,
            AnyReplicat::Parallel(replicat) => Some(replicat.side_by_side()),
        }
    }

    /// See [`Replicat::stop`] and [`ParallelReplicat::stop`].
    ///
    /// # Errors
    /// Those of the mode.
    pub fn stop(self) -> Result<Progress, Error> {
        match self {
            AnyReplicat::Classic(replicat) => replicat.stop(),
            AnyReplicat::Parallel(replicat) => replicat.stop(),
        }
    }

    /// Rolls back what is not complete at once, and notes the clean stop.
    ///
    /// # Errors
    /// Those of the mode.
    pub fn stop_at_once(self) -> Result<Progress, Error> {
        match self {
            AnyReplicat::Classic(replicat) => replicat.stop(),
            AnyReplicat::Parallel(replicat) => replicat.stop_at_once(),
        }
    }

    /// What START REPLICAT would have to say so that another attempt does what this one was asked for.
    pub fn start_options(&self) -> StartOptions {
        match self {
            AnyReplicat::Classic(replicat) => replicat.start_options(),
            AnyReplicat::Parallel(replicat) => replicat.start_options(),
        }
    }

    /// What the Replicat has come to.
    pub fn progress(&self) -> &Progress {
        match self {
            AnyReplicat::Classic(replicat) => replicat.progress(),
            AnyReplicat::Parallel(replicat) => replicat.progress(),
        }
    }

    /// What was read and what became of it since the start.
    pub fn statistics(&self) -> &Statistics {
        match self {
            AnyReplicat::Classic(replicat) => replicat.statistics(),
            AnyReplicat::Parallel(replicat) => replicat.statistics(),
        }
    }

    /// How long the source transactions applied since the start took from commit to commit.
    pub fn lag(&self) -> &LagHistogram {
        match self {
            AnyReplicat::Classic(replicat) => replicat.lag(),
            AnyReplicat::Parallel(replicat) => replicat.lag(),
        }
    }
}
