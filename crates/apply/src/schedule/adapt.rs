//! How many appliers are at work at most: APPLY_PARALLELISM, or a range that is tried out.

/// Groups after which the number is looked at again: enough that one slow commit does not count.
const LOOK_EVERY: u32 = 64;

/// The number of appliers that may be at work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parallelism {
    minimum: usize,
    maximum: usize,
    now: usize,
    groups: u32,
    /// Times that there was work for one more.
    wanted: u32,
    /// Times that one had nothing to do.
    idle: u32,
}

impl Parallelism {
    /// Always `appliers`, at least one (APPLY_PARALLELISM).
    pub fn fixed(appliers: usize) -> Parallelism {
        Parallelism::between(appliers, appliers)
    }

    /// From `minimum` to `maximum` (MIN_APPLY_PARALLELISM, MAX_APPLY_PARALLELISM), starting in the middle.
    pub fn between(minimum: usize, maximum: usize) -> Parallelism {
        let minimum = minimum.max(1);
        let maximum = maximum.max(minimum);
        Parallelism { minimum, maximum, now: minimum.midpoint(maximum), groups: 0, wanted: 0, idle: 0 }
    }

    /// The most there will ever be.
    pub fn maximum(&self) -> usize {
        self.maximum
    }

    /// How many may be at work now.
    pub fn now(&self) -> usize {
        self.now
    }

    /// There was work for one more than may be.
    pub(super) fn wanted(&mut self) {
        self.wanted += 1;
    }

    /// One of those that may be at work found nothing.
    pub(super) fn idle(&mut self) {
        self.idle += 1;
    }

    /// A group was committed. One more applier joins when work waited for it in a quarter of the groups, and one goes when
    /// they looked for work in vain more often than they found it.
    pub(super) fn committed(&mut self) {
        self.groups += 1;
        if self.groups < LOOK_EVERY || self.minimum == self.maximum {
            return;
        }
        if self.wanted >= LOOK_EVERY / 4 {
            self.now = (self.now + 1).min(self.maximum);
        } else if self.idle >= 2 * LOOK_EVERY {
            self.now = (self.now - 1).max(self.minimum);
        }
        (self.groups, self.wanted, self.idle) = (0, 0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_starts_in_the_middle_and_follows_the_work_inside_its_bounds() {
        let mut parallelism = Parallelism::between(2, 6);
        assert_eq!((parallelism.now(), parallelism.maximum()), (4, 6));
        for expected in [5, 6, 6] {
            (0..LOOK_EVERY).for_each(|_| {
                parallelism.wanted();
                parallelism.committed();
            });
            assert_eq!(parallelism.now(), expected);
        }
        for expected in [5, 4, 3, 2, 2] {
            (0..LOOK_EVERY).for_each(|_| {
                (0..3).for_each(|_| parallelism.idle());
                parallelism.committed();
            });
            assert_eq!(parallelism.now(), expected);
        }
        let mut fixed = Parallelism::fixed(0);
        (0..LOOK_EVERY).for_each(|_| {
            fixed.wanted();
            fixed.committed();
        });
        assert_eq!((fixed.now(), fixed.maximum()), (1, 1));
    }
}
