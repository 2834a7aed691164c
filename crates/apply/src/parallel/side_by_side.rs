//! How much was applied side by side, for the report.

use super::AtWork;
use crate::schedule::Tally;
use std::fmt;

/// How much was applied side by side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SideBySide {
    /// What came, and what of it had to wait.
    pub tally: Tally,
    /// Appliers at work at once.
    pub at_work: AtWork,
}

impl SideBySide {
    pub(super) fn take_in(&mut self, tally: Tally, at_work: AtWork) {
        self.tally.take_in(tally);
        self.at_work.take_in(at_work);
    }
}

/// As a line of the report.
impl fmt::Display for SideBySide {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tally { transactions, waited, groups, .. } = self.tally;
        let share = if transactions == 0 { 0.0 } else { 100.0 * waited as f64 / transactions as f64 };
        let mean = self.at_work.mean();
        write!(
            formatter,
            "{groups} target transactions, {mean:.2} appliers at work on average, {share:.2} % of {transactions} transactions \
             waited for another one"
        )
    }
}
