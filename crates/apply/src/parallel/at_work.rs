//! How many appliers were at work at once.

use change::Timestamp;

/// Appliers at work, over the time during which any was. Quiet times do not count: they would say how busy the source was.
///
/// Transactions that are written while they are read are not among it: nothing else is applied meanwhile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AtWork {
    now: u64,
    since: Timestamp,
    /// Microseconds of all appliers together.
    work: u64,
    /// Microseconds with at least one of them at work.
    busy: u64,
}

impl AtWork {
    /// From `at` on, `appliers` are at work.
    pub(super) fn note(&mut self, at: Timestamp, appliers: usize) {
        if self.now > 0 {
            let passed = u64::try_from(at.micros_since(self.since)).unwrap_or(0);
            self.work += self.now * passed;
            self.busy += passed;
        }
        (self.now, self.since) = (appliers as u64, at);
    }

    /// Adds what was seen of other sessions, none of which is at work any more.
    pub(super) fn take_in(&mut self, other: AtWork) {
        self.work += other.work;
        self.busy += other.busy;
    }

    /// The mean; 0 when none was ever at work.
    pub fn mean(&self) -> f64 {
        if self.busy == 0 { 0.0 } else { self.work as f64 / self.busy as f64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_counts_for_as_long_as_it_held_and_quiet_times_do_not() {
        let mut at_work = AtWork::default();
        assert_eq!(at_work.mean(), 0.0);
        // One for 10 µs, two for 30 µs, none for 1000 µs, three for 20 µs.
        for (at, appliers) in [(5, 1), (15, 2), (45, 0), (1045, 3), (1065, 0), (2000, 0)] {
            at_work.note(Timestamp::from_unix_micros(at), appliers);
        }
        assert_eq!(at_work.mean(), f64::from(10 + 2 * 30 + 3 * 20) / f64::from(10 + 30 + 20));
        // A clock that is set back takes nothing away.
        at_work.note(Timestamp::from_unix_micros(3000), 1);
        at_work.note(Timestamp::from_unix_micros(2500), 0);
        assert_eq!((at_work.work, at_work.busy), (130, 60));
        let mut all = AtWork::default();
        all.take_in(at_work);
        all.take_in(at_work);
        assert_eq!(all.mean(), at_work.mean());
    }
}
