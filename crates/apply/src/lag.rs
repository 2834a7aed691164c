//! How long commits take from source to target.

use change::Timestamp;

/// Buckets per doubling: a figure read from the histogram is at most 1/16 too high.
const STEPS: usize = 16;
/// Doublings above the linear part: up to 2^40 microseconds, about 12 days; longer lags count as that.
const DOUBLINGS: usize = 36;

/// A histogram of commit-to-commit lags, of fixed size.
///
/// Up to 16 microseconds each has a bucket of its own; above, each doubling is divided into 16 equal buckets.
#[derive(Clone, Debug)]
pub struct LagHistogram {
    buckets: Vec<u64>,
    count: u64,
    largest: u64,
}

impl Default for LagHistogram {
    fn default() -> LagHistogram {
        LagHistogram { buckets: vec![0; STEPS * (DOUBLINGS + 1)], count: 0, largest: 0 }
    }
}

impl LagHistogram {
    /// Counts a source transaction that was committed at the source at `from` and at the target at `to`. A lag below zero,
    /// as clocks that differ show it, counts as zero.
    pub fn record(&mut self, from: Timestamp, to: Timestamp) {
        let micros = u64::try_from(to.micros_since(from)).unwrap_or(0);
        self.buckets[bucket(micros)] += 1;
        self.count += 1;
        self.largest = self.largest.max(micros);
    }

    /// How many transactions were counted.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The longest lag, in microseconds.
    pub fn largest(&self) -> u64 {
        self.largest
    }

    /// The lag in microseconds that `share` (0.0 to 1.0) of the transactions did not exceed, rounded up to the end of its
    /// bucket; `None` when nothing was counted.
    pub fn percentile(&self, share: f64) -> Option<u64> {
        if self.count == 0 {
            return None;
        }
        let rank = ((share.clamp(0.0, 1.0) * self.count as f64).ceil() as u64).max(1);
        let mut seen = 0;
        for (index, number) in self.buckets.iter().enumerate() {
            seen += number;
            if seen >= rank {
                return Some(upper_end(index).min(self.largest));
            }
        }
        Some(self.largest)
    }

    /// Upper end in microseconds and count of each bucket that is not empty, in order.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let filled = self.buckets.iter().enumerate().filter(|(_, number)| **number > 0);
        filled.map(|(index, number)| (upper_end(index), *number))
    }
}

fn bucket(micros: u64) -> usize {
    if micros < STEPS as u64 {
        return micros as usize;
    }
    let doubling = micros.ilog2() as usize - STEPS.ilog2() as usize;
    let step = (micros >> doubling) as usize - STEPS;
    (STEPS * (doubling + 1) + step).min(STEPS * (DOUBLINGS + 1) - 1)
}

fn upper_end(bucket: usize) -> u64 {
    if bucket < STEPS {
        return bucket as u64;
    }
    let doubling = bucket / STEPS - 1;
    let step = (bucket % STEPS + STEPS) as u64;
    ((step + 1) << doubling) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn histogram(micros: impl IntoIterator<Item = i64>) -> LagHistogram {
        let mut histogram = LagHistogram::default();
        for lag in micros {
            histogram.record(Timestamp::from_unix_micros(0), Timestamp::from_unix_micros(lag));
        }
        histogram
    }

    #[test]
    fn percentiles_are_at_most_a_sixteenth_too_high_and_never_too_low() {
        let histogram = histogram(1..=100_000);
        for (share, exact) in [(0.5, 50_000), (0.95, 95_000), (0.99, 99_000), (1.0, 100_000)] {
            let read = histogram.percentile(share).unwrap();
            assert!(read >= exact && read <= exact + exact / 16, "{share}: {read}");
        }
        assert_eq!(histogram.largest(), 100_000);
    }

    #[test]
    fn every_lag_falls_into_a_bucket_that_ends_at_or_above_it() {
        for power in 0..39 {
            for lag in [(1u64 << power) - 1, 1 << power, (1 << power) + 1] {
                assert!(upper_end(bucket(lag)) >= lag, "{lag}");
                assert!(bucket(lag) == 0 || upper_end(bucket(lag) - 1) < lag, "{lag}");
            }
        }
        assert!(histogram([i64::MAX]).percentile(1.0).is_some());
    }

    #[test]
    fn nothing_counted_has_no_percentile_and_a_negative_lag_counts_as_none() {
        assert_eq!(histogram([]).percentile(0.5), None);
        assert_eq!(histogram([-5]).percentile(0.5), Some(0));
    }
}
