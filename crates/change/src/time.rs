//! Instants.

use std::fmt;
use std::time::Duration;

/// An instant: microseconds since 1970-01-01 00:00 UTC. Reading the clock is the caller's business.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Timestamp {
    /// Microseconds since the Unix epoch, negative before it.
    pub unix_micros: i64,
}

impl Timestamp {
    /// An instant from microseconds since the Unix epoch.
    pub fn from_unix_micros(unix_micros: i64) -> Timestamp {
        Timestamp { unix_micros }
    }

    /// Microseconds from `earlier` to here; negative when `earlier` is later.
    pub fn micros_since(self, earlier: Timestamp) -> i64 {
        self.unix_micros.saturating_sub(earlier.unix_micros)
    }

    /// Time from `earlier` to here, for what is done every so often. The longest time there is when `earlier` is later: the
    /// clock was set back, and nothing may wait until it has come that far again.
    pub fn elapsed_since(self, earlier: Timestamp) -> Duration {
        u64::try_from(self.micros_since(earlier)).map_or(Duration::MAX, Duration::from_micros)
    }
}

impl Timestamp {
    /// Reads `YYYY-MM-DD HH:MM:SS` in UTC, of years from 1970 to 9999.
    pub fn parse(text: &str) -> Option<Timestamp> {
        let parts: Vec<&str> = text.split(['-', ' ', ':']).collect();
        let is_plain =
            |(part, digits): (&&str, usize)| part.len() == digits && part.bytes().all(|byte| byte.is_ascii_digit());
        if parts.len() != 6 || !parts.iter().zip([4, 2, 2, 2, 2, 2]).all(is_plain) {
            return None;
        }
        let numbers: Vec<i64> = parts.iter().filter_map(|part| part.parse().ok()).collect();
        let [year, month, day, hour, minute, second] = numbers[..] else { return None };
        if !(1970..=9999).contains(&year) || !(1..=12).contains(&month) || hour > 23 || minute > 59 || second > 59 {
            return None;
        }
        let days = day_number(year, month, day);
        let micros = (days * 86_400 + hour * 3600 + minute * 60 + second) * 1_000_000;
        // A day that the month does not have comes back as another one.
        let read = Timestamp { unix_micros: micros };
        (civil_date(days) == (year, month, day) && read.to_string().starts_with(text)).then_some(read)
    }

    /// The instant `wait` later.
    pub fn after(self, wait: Duration) -> Timestamp {
        let micros = i64::try_from(wait.as_micros()).unwrap_or(i64::MAX);
        Timestamp { unix_micros: self.unix_micros.saturating_add(micros) }
    }
}

/// Writes `YYYY-MM-DD HH:MM:SS.ffffff` in UTC.
impl fmt::Display for Timestamp {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.unix_micros.div_euclid(1_000_000);
        let micros = self.unix_micros.rem_euclid(1_000_000);
        let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
        let (year, month, day) = civil_date(days);
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        formatter.pad(&format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}.{micros:06}"))
    }
}

/// Year, month and day of a day number counted from 1970-01-01, proleptic Gregorian calendar.
///
/// Counts in eras of 400 years (146,097 days) that start on 1 March, so that the leap day is the last day of a year.
fn civil_date(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (era * 400 + year_of_era + i64::from(month <= 2), month, day)
}

/// Days from 1970-01-01 to a date: what [`civil_date`] undoes.
fn day_number(year: i64, month: i64, day: i64) -> i64 {
    let year = year - i64::from(month <= 2);
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_year = (153 * (month + if month > 2 { -3 } else { 9 }) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_was_set_back_lets_nothing_wait() {
        let (early, late) = (Timestamp::from_unix_micros(-5), Timestamp::from_unix_micros(7));
        assert_eq!(late.elapsed_since(early), Duration::from_micros(12));
        assert_eq!(early.elapsed_since(early), Duration::ZERO);
        assert_eq!(early.elapsed_since(late), Duration::MAX);
    }

    #[test]
    fn calendar_text_reads_as_the_instant_and_no_other_text_does() {
        // Seconds from `date -u -d TEXT +%s`.
        for (text, seconds) in [
            ("1970-01-01 00:00:00", 0),
            ("2000-02-29 23:59:59", 951_868_799),
            ("2026-12-24 18:30:15", 1_798_137_015),
            ("2100-03-01 00:00:00", 4_107_542_400),
        ] {
            assert_eq!(Timestamp::parse(text), Some(Timestamp::from_unix_micros(seconds * 1_000_000)), "{text}");
        }
        for text in [
            "",
            "2026-12-24",
            "2026-02-29 00:00:00",
            "2026-13-01 00:00:00",
            "2026-1-01 00:00:00",
            "2026-01-01T00:00:00",
            "2026-01-01 24:00:00",
        ] {
            assert_eq!(Timestamp::parse(text), None, "{text}");
        }
    }

    #[test]
    fn instants_read_as_calendar_text() {
        let text = |micros| Timestamp::from_unix_micros(micros).to_string();
        assert_eq!(text(0), "1970-01-01 00:00:00.000000");
        assert_eq!(text(-1), "1969-12-31 23:59:59.999999");
        // 2014-01-23 09:17:07.072993 UTC, a published sample of a trail time stamp.
        assert_eq!(text(0x02F2_16D3_2953_57E1 - 210_866_760_000_000_000), "2014-01-23 09:17:07.072993");
        assert_eq!(text(951_782_400_000_000), "2000-02-29 00:00:00.000000");
        assert_eq!(text(4_107_542_399_000_000), "2100-02-28 23:59:59.000000");
    }
}
