//! How long to wait before something is tried again.

use crate::{Action, Failure};
use std::time::Duration;

/// The first delay. A lock is usually free again after a moment.
const FIRST: Duration = Duration::from_millis(100);

/// The longest delay: a database that comes back is noticed within this time.
const LONGEST: Duration = Duration::from_secs(15);

/// Delays since the last success after which the group gives up: an operator who starts a database again, or lets a long
/// transaction end, needs no more, and one who does not notice should see the group ABENDED.
const TOTAL_MAX: Duration = Duration::from_secs(15 * 60);

/// Decides between trying again and giving up. Each delay is twice the one before.
///
/// It counts the delays that it hands out and reads no clock.
#[derive(Clone, Debug)]
pub struct Retry {
    next: Duration,
    total: Duration,
}

impl Default for Retry {
    fn default() -> Retry {
        Retry { next: FIRST, total: Duration::ZERO }
    }
}

impl Retry {
    /// No failure so far.
    pub fn new() -> Retry {
        Retry::default()
    }

    /// What to do about `failure`, the next one since the last success.
    pub fn decide(&mut self, failure: &Failure) -> Action {
        if failure.action() == Action::Abend || self.total >= TOTAL_MAX {
            return Action::Abend;
        }
        let delay = self.next;
        self.total += delay;
        self.next = (delay * 2).min(LONGEST);
        Action::RetryAfter(delay)
    }

    /// Work went on: the next failure is the first again.
    pub fn succeeded(&mut self) {
        *self = Retry::default();
    }
}
