//! Lags, hop by hop and day by day.

use super::record::Direction;
use change::Timestamp;
use std::collections::BTreeMap;

/// A part of the way of a heartbeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Hop {
    /// From the stamp to the Extract.
    Extract,
    /// From the Extract to the last of all Pumps and paths.
    Routing,
    /// From there to the Replicat that reads it.
    Read,
    /// From there until the target has it.
    Apply,
}

impl Hop {
    /// All hops, in the order of the way.
    pub const ALL: [Hop; 4] = [Hop::Extract, Hop::Routing, Hop::Read, Hop::Apply];

    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Hop::Extract => "extract",
            Hop::Routing => "routing",
            Hop::Read => "read",
            Hop::Apply => "apply",
        }
    }
}

/// How long a heartbeat took, in microseconds; `None` where it was not told. Clocks that disagree make negative ones, which
/// are shown as they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lags {
    /// From the stamp until the target had it.
    pub total: Option<i64>,
    /// Per [`Hop`], in the order of [`Hop::ALL`].
    pub hops: [Option<i64>; 4],
}

/// Clocks that disagree: something arrived before it was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockSkew {
    /// The hop that shows it; `None` when only the whole way does.
    pub hop: Option<Hop>,
    /// By how much at least, in microseconds.
    pub micros: i64,
}

impl Lags {
    /// Of a heartbeat that came in by `incoming` and that the target had at `received`.
    ///
    /// Without Pump the hop from Extract to Replicat is all reading.
    pub fn of(incoming: &Direction, received: Option<Timestamp>) -> Lags {
        let between = |from: Option<Timestamp>, to: Option<Timestamp>| Some(to?.micros_since(from?));
        let routed = incoming.routing_time.or(incoming.extract_time);
        Lags {
            total: between(incoming.heartbeat_time, received),
            hops: [
                between(incoming.heartbeat_time, incoming.extract_time),
                between(incoming.extract_time, incoming.routing_time),
                between(routed, incoming.replicat_time),
                between(incoming.replicat_time, received),
            ],
        }
    }

    /// The lag of one hop.
    pub fn hop(&self, hop: Hop) -> Option<i64> {
        self.hops[hop as usize]
    }

    /// The hop at which clocks disagree most, if they do.
    pub fn clock_skew(&self) -> Option<ClockSkew> {
        let hops = Hop::ALL.into_iter().filter_map(|hop| Some((Some(hop), self.hop(hop)?)));
        let all = hops.chain(self.total.map(|total| (None, total)));
        let worst = all.filter(|(_, micros)| *micros < 0).min_by_key(|(_, micros)| *micros);
        worst.map(|(hop, micros)| ClockSkew { hop, micros: -micros })
    }
}

/// Lags of one day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DayOfLags {
    /// The day's first instant, UTC.
    pub day: Timestamp,
    /// Heartbeats received.
    pub count: u64,
    /// Least lag, in microseconds.
    pub least: i64,
    /// Average lag, in microseconds.
    pub average: i64,
    /// Greatest lag, in microseconds.
    pub greatest: i64,
}

/// Lags by day, oldest day first, from pairs of the instant of arrival and the lag in microseconds.
pub fn days_of(lags: impl IntoIterator<Item = (Timestamp, i64)>) -> Vec<DayOfLags> {
    const DAY: i64 = 86_400_000_000;
    let mut days: BTreeMap<i64, (u64, i64, i128, i64)> = BTreeMap::new();
    for (received, lag) in lags {
        let day = days.entry(received.unix_micros.div_euclid(DAY)).or_insert((0, i64::MAX, 0, i64::MIN));
        *day = (day.0 + 1, day.1.min(lag), day.2 + i128::from(lag), day.3.max(lag));
    }
    let shown = |(number, (count, least, sum, greatest)): (i64, (u64, i64, i128, i64))| DayOfLags {
        day: Timestamp::from_unix_micros(number * DAY),
        count,
        least,
        average: (sum / i128::from(count)) as i64,
        greatest,
    };
    days.into_iter().map(shown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Option<Timestamp> {
        Some(Timestamp::from_unix_micros(seconds * 1_000_000))
    }

    fn direction(times: [Option<Timestamp>; 4]) -> Direction {
        let [heartbeat_time, extract_time, routing_time, replicat_time] = times;
        Direction { heartbeat_time, extract_time, routing_time, replicat_time, ..Direction::default() }
    }

    #[test]
    fn hops_add_up_to_the_whole() {
        let lags = Lags::of(&direction([at(10), at(12), at(15), at(19)]), at(24));
        assert_eq!(lags.total, Some(14_000_000));
        assert_eq!(lags.hops, [Some(2_000_000), Some(3_000_000), Some(4_000_000), Some(5_000_000)]);
        let without_pump = Lags::of(&direction([at(10), at(12), None, at(19)]), at(24));
        assert_eq!(without_pump.hops, [Some(2_000_000), None, Some(7_000_000), Some(5_000_000)]);
        assert_eq!(without_pump.hops.iter().flatten().sum::<i64>(), 14_000_000);
        assert_eq!(lags.clock_skew(), None);
    }

    #[test]
    fn what_arrives_before_it_is_sent_shows_that_clocks_disagree() {
        let lags = Lags::of(&direction([at(100), at(101), None, at(98)]), at(99));
        assert_eq!(lags.total, Some(-1_000_000));
        assert_eq!(lags.clock_skew(), Some(ClockSkew { hop: Some(Hop::Read), micros: 3_000_000 }));
        let whole = Lags { total: Some(-5), hops: [None; 4] };
        assert_eq!(whole.clock_skew(), Some(ClockSkew { hop: None, micros: 5 }));
    }

    #[test]
    fn days_begin_at_midnight_utc() {
        let day = 86_400;
        let lag = |seconds: i64, lag| (Timestamp::from_unix_micros(seconds * 1_000_000), lag);
        let days = days_of([lag(day, 5), lag(day - 1, 1), lag(2 * day - 1, 7), lag(day + 5, -3)]);
        let shown: Vec<_> = days.iter().map(|day| (day.count, day.least, day.average, day.greatest)).collect();
        assert_eq!(shown, [(1, 1, 1, 1), (3, -3, 3, 7)]);
        assert_eq!(days[1].day.to_string(), "1970-01-02 00:00:00.000000");
    }
}
