//! When heartbeats stay away, and when clocks disagree.

use super::record::Direction;
use super::{ClockSkew, Hop, Lags};
use change::Timestamp;
use std::collections::HashMap;

/// Age of the last heartbeat from which on it is late, in microseconds, where heartbeats come often.
const LATE_MICROS: i64 = 180_000_000;
/// Heartbeats that come seldom are late when so many have stayed away.
const LATE_BEATS: i64 = 3;
/// Clocks that agree to this are taken to agree, in microseconds: what lies between two clocks of one machine.
const SKEW_MICROS: i64 = 1_000;

/// The last heartbeat of a way.
#[derive(Clone, Debug)]
pub struct Arrived {
    /// Where it was born.
    pub remote: String,
    /// The way that it came.
    pub incoming: Direction,
    /// When the target had it.
    pub received: Option<Timestamp>,
}

/// Something that the operator should know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Alert {
    /// No heartbeat for so long, in microseconds.
    Late {
        /// From where, by which way.
        from: String,
        /// Age of the last one, in microseconds.
        age: i64,
    },
    /// They come again.
    Again {
        /// From where, by which way.
        from: String,
    },
    /// Clocks disagree.
    Skew {
        /// From where, by which way.
        from: String,
        /// Where it shows.
        skew: ClockSkew,
    },
}

#[derive(Default)]
struct Known {
    stamp: Option<Timestamp>,
    gap: i64,
    is_late: bool,
    is_skewed: bool,
}

/// Looks at the heartbeats that one Replicat applies, and says what has changed.
#[derive(Default)]
pub struct HeartbeatWatch {
    known: HashMap<String, Known>,
}

impl HeartbeatWatch {
    /// What to tell at `now`. Each thing is told when it begins, and a late heartbeat when it comes after all.
    pub fn look<'a>(&mut self, now: Timestamp, arrived: impl IntoIterator<Item = &'a Arrived>) -> Vec<Alert> {
        let mut alerts = Vec::new();
        // Rows with different ways out tell the same way in; the newest counts.
        let mut newest: HashMap<String, &Arrived> = HashMap::new();
        for arrived in arrived {
            let from = format!("{} by {}", arrived.remote, arrived.incoming.way().unwrap_or_default());
            let place = newest.entry(from).or_insert(arrived);
            if arrived.incoming.heartbeat_time > place.incoming.heartbeat_time {
                *place = arrived;
            }
        }
        let mut newest: Vec<(String, &Arrived)> = newest.into_iter().collect();
        newest.sort_by(|one, other| one.0.cmp(&other.0));
        for (from, arrived) in newest {
            let Some(stamp) = arrived.incoming.heartbeat_time else { continue };
            let known = self.known.entry(from.clone()).or_default();
            if let Some(before) = known.stamp.filter(|before| *before != stamp) {
                known.gap = stamp.micros_since(before).max(0);
            }
            known.stamp = Some(stamp);
            let age = now.micros_since(stamp);
            let is_late = age > LATE_MICROS.max(known.gap.saturating_mul(LATE_BEATS));
            match (is_late, known.is_late) {
                (true, false) => alerts.push(Alert::Late { from: from.clone(), age }),
                (false, true) => alerts.push(Alert::Again { from: from.clone() }),
                _ => {}
            }
            known.is_late = is_late;
            let skew = Lags::of(&arrived.incoming, arrived.received).clock_skew();
            let skew = skew.filter(|skew| skew.micros > SKEW_MICROS);
            if let Some(skew) = skew.filter(|_| !known.is_skewed) {
                alerts.push(Alert::Skew { from, skew });
            }
            known.is_skewed = skew.is_some();
        }
        alerts
    }
}

impl ClockSkew {
    /// What disagrees, in words.
    pub fn in_words(&self) -> String {
        let where_ = match self.hop {
            Some(Hop::Extract) => "the Extract's clock is behind the source's",
            Some(Hop::Routing) => "the Pump's clock is behind the Extract's",
            Some(Hop::Read) => "the Replicat's clock is behind that of who wrote its trail",
            Some(Hop::Apply) | None => "the target's clock is behind the source's",
        };
        format!("{where_} by at least {}.{:06} s", self.micros / 1_000_000, self.micros % 1_000_000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_unix_micros(seconds * 1_000_000)
    }

    fn arrived(stamp: i64, received: i64) -> Arrived {
        let incoming = Direction {
            extract: Some("E1".to_owned()),
            replicat: Some("R1".to_owned()),
            heartbeat_time: Some(at(stamp)),
            ..Direction::default()
        };
        Arrived { remote: "a".to_owned(), incoming, received: Some(at(received)) }
    }

    fn from() -> String {
        "a by E1 ==> R1".to_owned()
    }

    #[test]
    fn a_heartbeat_that_stays_away_is_told_once_and_again_when_it_comes() {
        let mut watch = HeartbeatWatch::default();
        assert_eq!(watch.look(at(181), &[arrived(1, 2)]), []);
        assert_eq!(watch.look(at(182), &[arrived(1, 2)]), [Alert::Late { from: from(), age: 181_000_000 }]);
        assert_eq!(watch.look(at(500), &[arrived(1, 2)]), []);
        // Of two rows of one way in, the newest counts.
        assert_eq!(watch.look(at(501), &[arrived(500, 501), arrived(1, 2)]), [Alert::Again { from: from() }]);
    }

    #[test]
    fn heartbeats_that_come_seldom_may_stay_away_for_longer() {
        let mut watch = HeartbeatWatch::default();
        watch.look(at(0), &[arrived(0, 0)]);
        watch.look(at(1_000), &[arrived(1_000, 1_000)]);
        assert_eq!(watch.look(at(3_999), &[arrived(1_000, 1_000)]), []);
        assert_eq!(watch.look(at(4_001), &[arrived(1_000, 1_000)]).len(), 1);
    }

    #[test]
    fn clocks_that_disagree_are_told_once() {
        let mut watch = HeartbeatWatch::default();
        let alerts = watch.look(at(50), &[arrived(50, 45)]);
        let [Alert::Skew { skew, .. }] = &alerts[..] else { panic!("{alerts:?}") };
        assert_eq!(skew.in_words(), "the target's clock is behind the source's by at least 5.000000 s");
        assert_eq!(watch.look(at(51), &[arrived(51, 46)]), []);
        assert_eq!(watch.look(at(52), &[arrived(52, 52)]), []);
        assert_eq!(watch.look(at(53), &[arrived(53, 48)]).len(), 1);
    }
}
