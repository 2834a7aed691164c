//! Warnings of transactions that stay open for long (WARNLONGTRANS).

use crate::open::OpenTransaction;
use change::{Timestamp, TransactionId};
use std::time::Duration;

/// Looks for transactions that are open for long.
#[derive(Debug)]
pub struct LongTransactions {
    after: Duration,
    every: Duration,
    looked: Option<Timestamp>,
    told: Option<(TransactionId, Timestamp)>,
}

impl LongTransactions {
    /// Warns of a transaction that is open for longer than `after`, looking `every` so often.
    pub fn new(after: Duration, every: Duration) -> LongTransactions {
        LongTransactions { after, every, looked: None, told: None }
    }

    /// The warning that is due at `now`: of the oldest transaction, once in every interval of `after`.
    pub(crate) fn look(&mut self, now: Timestamp, open: impl FnOnce() -> Vec<OpenTransaction>) -> Option<String> {
        if self.looked.is_some_and(|looked| now.elapsed_since(looked) < self.every) {
            return None;
        }
        self.looked = Some(now);
        let age = |open: &OpenTransaction| open.started.map_or(Duration::ZERO, |started| age(now, started));
        let oldest = open().into_iter().max_by_key(age)?;
        let open_for = age(&oldest);
        if open_for < self.after {
            return None;
        }
        if let Some((transaction, told)) = &self.told
            && *transaction == oldest.transaction
            && now.elapsed_since(*told) < self.after
        {
            return None;
        }
        self.told = Some((oldest.transaction.clone(), now));
        Some(format!(
            "DRV-00426: transaction {} is open for {}, since position {}: {} changes are kept for it",
            oldest.transaction,
            clock_text(open_for),
            oldest.start,
            oldest.records,
        ))
    }
}

/// How long ago `started` is; nothing for what lies ahead by another machine's clock.
pub(crate) fn age(now: Timestamp, started: Timestamp) -> Duration {
    u64::try_from(now.micros_since(started)).map_or(Duration::ZERO, Duration::from_micros)
}

/// Hours, minutes and seconds.
pub(crate) fn clock_text(duration: Duration) -> String {
    let seconds = duration.as_secs();
    format!("{}h{:02}m{:02}s", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::*;
    use change::LogPosition;

    fn open(name: &str, started: i64) -> OpenTransaction {
        OpenTransaction {
            transaction: TransactionId::new(name),
            start: LogPosition::new("0"),
            started: Some(seconds(started)),
            records: 3,
            bytes: 0,
            spilled_bytes: 0,
            prepared: None,
            tables: Vec::new(),
            is_left_out: false,
            version: 0,
        }
    }

    fn seconds(seconds: i64) -> Timestamp {
        Timestamp::from_unix_micros(seconds * 1_000_000)
    }

    #[test]
    fn the_oldest_transaction_is_told_once_in_each_time_that_it_is_too_long() {
        let mut long = LongTransactions::new(Duration::from_secs(3600), Duration::from_secs(300));
        let mut look = |now| long.look(seconds(now), || vec![open("young", 3000), open("old", 0)]);
        assert_eq!(look(3599), None);
        assert_eq!(look(3700), None, "the next look is not due");
        let told = look(3900).expect("a warning");
        assert!(told.starts_with("DRV-00426: transaction old is open for 1h05m00s"), "{told}");
        assert_eq!(look(4200), None);
        assert!(look(7500).is_some());
    }

    #[test]
    fn a_start_in_the_future_is_no_age() {
        let mut long = LongTransactions::new(Duration::from_secs(3600), Duration::from_secs(300));
        assert_eq!(long.look(seconds(100), || vec![open("ahead", 9000)]), None);
    }
}
