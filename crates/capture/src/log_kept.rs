//! When the operator is told how much log the source keeps.

use database::{LogKept, LogState};

/// How much somebody should look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogKeptLevel {
    /// As usual.
    #[default]
    Usual,
    /// Much is kept.
    Warning,
    /// The source's disk is filling, or the source is about to throw away what we still need.
    Critical,
}

/// Bytes from which on each level holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogKeptLimits {
    /// [`LogKeptLevel::Warning`].
    pub warning: u64,
    /// [`LogKeptLevel::Critical`].
    pub critical: u64,
}

/// Tells when the level changes, and tells a critical one again as it gets worse.
#[derive(Debug)]
pub struct LogKeptWatch {
    limits: LogKeptLimits,
    level: LogKeptLevel,
    /// Bytes when it was last told.
    told: u64,
}

impl LogKeptWatch {
    /// A watch that takes everything for usual so far.
    pub fn new(limits: LogKeptLimits) -> LogKeptWatch {
        LogKeptWatch { limits, level: LogKeptLevel::Usual, told: 0 }
    }

    /// Takes a look; returns the level when the operator should hear of it.
    ///
    /// A level that was reached is left only well below its limit, so that a log that swings around it is told once.
    pub fn look(&mut self, kept: &LogKept) -> Option<LogKeptLevel> {
        let found = self.level_of(kept, 1.0);
        let level = if found < self.level { self.level_of(kept, 0.8).min(self.level) } else { found };
        let is_worse = level == LogKeptLevel::Critical && kept.bytes / 2 >= self.told;
        if level == self.level && !(level == LogKeptLevel::Critical && is_worse) {
            return None;
        }
        self.level = level;
        self.told = kept.bytes.max(1);
        Some(level)
    }

    fn level_of(&self, kept: &LogKept, share: f64) -> LogKeptLevel {
        // Where the source has a limit of its own, what it throws away is lost to us: it must not come near.
        let limit = |part: f64, ours: u64| kept.limit.map_or(ours, |limit| ours.min((limit as f64 * part) as u64));
        let reaches = |limit: u64| kept.bytes as f64 >= limit as f64 * share;
        if kept.state >= LogState::Unreserved || reaches(limit(0.8, self.limits.critical)) {
            LogKeptLevel::Critical
        } else if reaches(limit(0.5, self.limits.warning)) {
            LogKeptLevel::Warning
        } else {
            LogKeptLevel::Usual
        }
    }
}

#[cfg(test)]
mod tests {
    use super::LogKeptLevel::{Critical, Usual, Warning};
    use super::*;

    fn kept(bytes: u64, state: LogState, limit: Option<u64>) -> LogKept {
        let (holder, state_name) = ("slot".to_owned(), "reserved".to_owned());
        LogKept { from: None, holder, is_active: true, bytes, state, state_name, limit, left: None }
    }

    fn told(looks: &[u64], limit: Option<u64>) -> Vec<Option<LogKeptLevel>> {
        let mut watch = LogKeptWatch::new(LogKeptLimits { warning: 1000, critical: 5000 });
        looks.iter().map(|bytes| watch.look(&kept(*bytes, LogState::Extended, limit))).collect()
    }

    #[test]
    fn each_level_is_told_once_and_left_well_below_its_limit() {
        assert_eq!(
            told(&[0, 999, 1000, 4000, 900, 1100, 799], None),
            [None, None, Some(Warning), None, None, None, Some(Usual)]
        );
        assert_eq!(told(&[6000, 4500, 3999, 10], None), [Some(Critical), None, Some(Warning), Some(Usual)]);
    }

    #[test]
    fn a_critical_level_is_told_again_when_it_has_doubled() {
        assert_eq!(
            told(&[6000, 7000, 12_000, 13_000, 24_000], None),
            [Some(Critical), None, Some(Critical), None, Some(Critical)]
        );
    }

    #[test]
    fn a_limit_of_the_source_counts_where_it_is_nearer() {
        assert_eq!(told(&[400, 500, 800], Some(1000)), [None, Some(Warning), Some(Critical)]);
        let mut watch = LogKeptWatch::new(LogKeptLimits { warning: 1000, critical: 5000 });
        assert_eq!(watch.look(&kept(1, LogState::Unreserved, None)), Some(Critical));
    }
}
