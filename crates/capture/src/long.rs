//! Warnings of transactions that stay open for long (WARNLONGTRANS).

use crate::transactions::{OpenState, ShownTransaction};
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

    /// Whether the next look is due at `now`.
    pub fn is_due(&self, now: Timestamp) -> bool {
        self.looked.is_none_or(|looked| now.elapsed_since(looked) >= self.every)
    }

    /// The warning that is due at `now`: of the oldest transaction, once in every interval of `after`. One that is to be left
    /// out, and one that has ended, is none to be warned of.
    pub fn look(&mut self, now: Timestamp, open: Vec<ShownTransaction>) -> Option<String> {
        self.looked = Some(now);
        let is_meant = |shown: &ShownTransaction| matches!(shown.state, OpenState::Running | OpenState::Prepared);
        let oldest = open.into_iter().filter(is_meant).max_by_key(|shown| shown.age(now))?;
        let open_for = oldest.age(now);
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
        let kept = match oldest.start() {
            Some(start) => format!("since position {start}: {} changes are kept for it", oldest.items()),
            None => "and the source has told nothing of it yet".to_owned(),
        };
        let process = oldest.work.as_ref().and_then(|work| work.process_id);
        let process = process.map_or_else(String::new, |process| format!(" in the server's process {process}"));
        let (transaction, open_for) = (&oldest.transaction, clock_text(open_for));
        Some(format!("transaction {transaction} is open for {open_for}{process}, {kept}"))
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
    use crate::open::OpenTransaction;
    use change::LogPosition;

    fn open(name: &str, started: i64) -> ShownTransaction {
        let kept = OpenTransaction {
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
        };
        ShownTransaction {
            transaction: kept.transaction.clone(),
            state: OpenState::Running,
            started: kept.started,
            kept: Some(kept),
            work: None,
            tables: Vec::new(),
        }
    }

    fn seconds(seconds: i64) -> Timestamp {
        Timestamp::from_unix_micros(seconds * 1_000_000)
    }

    #[test]
    fn the_oldest_transaction_is_told_once_in_each_time_that_it_is_too_long() {
        let mut long = LongTransactions::new(Duration::from_secs(3600), Duration::from_secs(300));
        let mut look = |now| {
            let now = seconds(now);
            long.is_due(now).then(|| long.look(now, vec![open("young", 3000), open("old", 0)])).flatten()
        };
        assert_eq!(look(3599), None);
        assert_eq!(look(3700), None, "the next look is not due");
        let told = look(3900).expect("a warning");
        assert_eq!(told, "transaction old is open for 1h05m00s, since position 0: 3 changes are kept for it");
        assert_eq!(look(4200), None);
        assert!(look(7500).is_some());
    }

    #[test]
    fn a_start_in_the_future_is_no_age() {
        let mut long = LongTransactions::new(Duration::from_secs(3600), Duration::from_secs(300));
        assert_eq!(long.look(seconds(100), vec![open("ahead", 9000)]), None);
    }

    #[test]
    fn what_an_operator_has_left_out_and_what_has_ended_is_no_reason_to_warn() {
        let mut long = LongTransactions::new(Duration::from_secs(3600), Duration::from_secs(300));
        for state in [OpenState::LeftOut, OpenState::EndNotRead] {
            assert_eq!(long.look(seconds(9000), vec![ShownTransaction { state, ..open("old", 0) }]), None);
        }
    }
}
