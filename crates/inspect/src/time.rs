//! Instants as Logdump prints and reads them.

use change::Timestamp;
use trail::format::bytes::from_julian_micros;

/// How far local time is ahead of UTC at an instant, in seconds.
pub type LocalOffset<'a> = &'a dyn Fn(Timestamp) -> i32;

/// In which time zone instants are shown and read (TIMEOFFSET).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Zone {
    /// That of the machine.
    #[default]
    Local,
    /// So many seconds ahead of UTC.
    Fixed(i32),
}

impl Zone {
    /// Seconds that clocks of the zone are ahead of UTC at `instant`.
    pub fn offset(self, instant: Timestamp, local: LocalOffset<'_>) -> i32 {
        match self {
            Zone::Local => local(instant),
            Zone::Fixed(seconds) => seconds,
        }
    }

    /// The zone that `LOCAL`, `GMT` or `GMT +/-hh[:mm]` names.
    pub fn parse(text: &str) -> Option<Zone> {
        let upper = text.trim().to_ascii_uppercase();
        if upper == "LOCAL" {
            return Some(Zone::Local);
        }
        let rest = upper.strip_prefix("GMT").or(upper.strip_prefix("UTC"))?.trim();
        if rest.is_empty() {
            return Some(Zone::Fixed(0));
        }
        let (sign, digits) = match rest.strip_prefix('-') {
            Some(digits) => (-1, digits),
            None => (1, rest.strip_prefix('+')?),
        };
        let (hours, minutes) = digits.trim().split_once(':').unwrap_or((digits.trim(), "0"));
        let (hours, minutes): (i32, i32) = (hours.parse().ok()?, minutes.parse().ok()?);
        let is_zone = (0..=14).contains(&hours) && (0..60).contains(&minutes);
        is_zone.then_some(Zone::Fixed(sign * (hours * 3600 + minutes * 60)))
    }

    /// The instant of Julian microseconds as `YYYY/MM/DD HH:MM:SS.mmm.uuu`.
    pub fn julian_text(self, julian: u64, local: LocalOffset<'_>) -> String {
        let text = self.text(from_julian_micros(julian), local).replace('-', "/");
        match text.split_at_checked(text.len().saturating_sub(3)) {
            Some((millis, micros)) => format!("{millis}.{micros}"),
            None => text,
        }
    }

    /// The instant as `YYYY-MM-DD HH:MM:SS.ffffff`.
    pub fn text(self, instant: Timestamp, local: LocalOffset<'_>) -> String {
        let micros = i64::from(self.offset(instant, local)) * 1_000_000;
        Timestamp::from_unix_micros(instant.unix_micros.saturating_add(micros)).to_string()
    }

    /// The instant that `[[yy]yy-mm-dd] [hh[:mm][:ss[.ffffff]]]` names. Without a date it is of the day of `now`; slashes may
    /// stand in place of dashes, and the fraction may have a dot in its middle, as it is printed.
    pub fn parse_instant(self, text: &str, now: Timestamp, local: LocalOffset<'_>) -> Option<Timestamp> {
        let today = self.text(now, local);
        let text = text.trim().replace('/', "-").replace('T', " ");
        let (date, time) = match text.split_once(' ') {
            Some((date, time)) => (date.trim().to_owned(), time.trim().to_owned()),
            None if text.contains('-') => (text, "0".to_owned()),
            None => (today.get(..10)?.to_owned(), text),
        };
        let civil = days_of(&date)?.checked_mul(86_400_000_000)?.checked_add(micros_of_day(&time)?)?;
        // The offset is that of the instant, which is not known yet: the first guess is at most a day off, the second right
        // but for the hour that a change of the clocks repeats.
        let guess = Timestamp::from_unix_micros(civil);
        let once = civil.checked_sub(i64::from(self.offset(guess, local)) * 1_000_000)?;
        let offset = self.offset(Timestamp::from_unix_micros(once), local);
        Some(Timestamp::from_unix_micros(civil.checked_sub(i64::from(offset) * 1_000_000)?))
    }
}

/// Days from 1970-01-01 to `[yy]yy-mm-dd`.
fn days_of(date: &str) -> Option<i64> {
    let mut parts = date.split('-');
    let (year, month, day) = (parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() {
        return None;
    }
    let short = year.len() == 2;
    let (year, month, day): (i64, i64, i64) = (year.parse().ok()?, month.parse().ok()?, day.parse().ok()?);
    let year = if short { 2000 + year } else { year };
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let length = match month {
        2 if is_leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    if !(1..=9999).contains(&year) || !(1..=length).contains(&day) {
        return None;
    }
    // Years that begin on 1 March, so that the leap day is the last one.
    let shifted = if month <= 2 { year - 1 } else { year };
    let (era, year_of_era) = (shifted.div_euclid(400), shifted.rem_euclid(400));
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    Some(era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468)
}

fn micros_of_day(time: &str) -> Option<i64> {
    let (clock, fraction) = time.split_once('.').unwrap_or((time, ""));
    let mut parts = clock.split(':').map(|part| part.parse::<i64>().ok().filter(|number| *number >= 0));
    let hours = parts.next()??;
    let minutes = parts.next().unwrap_or(Some(0))?;
    let seconds = parts.next().unwrap_or(Some(0))?;
    let fraction: String = fraction.chars().filter(|character| *character != '.').collect();
    if parts.next().is_some() || hours > 23 || minutes > 59 || seconds > 59 || fraction.len() > 6 {
        return None;
    }
    let micros: i64 = if fraction.is_empty() { 0 } else { format!("{fraction:0<6}").parse().ok()? };
    Some(((hours * 60 + minutes) * 60 + seconds) * 1_000_000 + micros)
}

/// A length of time as `HH:MM:SS.ffffff`.
pub fn duration_text(micros: i64) -> String {
    let (sign, micros) = (if micros < 0 { "-" } else { "" }, micros.unsigned_abs());
    let seconds = micros / 1_000_000;
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    format!("{sign}{hours:02}:{minutes:02}:{:02}.{:06}", seconds % 60, micros % 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    const INDIA: Zone = Zone::Fixed(5 * 3600 + 1800);

    /// Published samples: 2018-10-05 14:06:58.451814 UTC was shown as 19:36:58.451.814 in a session at +05:30.
    #[test]
    fn instants_are_shown_as_published() {
        let local = |_| 0;
        assert_eq!(Zone::parse("gmt +05:30"), Some(INDIA));
        assert_eq!(INDIA.julian_text(0x02F2_9DAF_3D9E_3966, &local), "2018/10/05 19:36:58.451.814");
        assert_eq!(Zone::Fixed(0).julian_text(0x02F2_16D3_2953_57E1, &local), "2014/01/23 09:17:07.072.993");
    }

    #[test]
    fn what_is_shown_can_be_given() {
        let local = |_| 3600;
        let now = Timestamp::from_unix_micros(1_700_000_000_000_000);
        for zone in [Zone::Local, INDIA, Zone::Fixed(-9 * 3600)] {
            for micros in [0, 951_782_400_000_000, 1_700_000_000_123_456, 4_107_542_399_000_000] {
                let instant = Timestamp::from_unix_micros(micros);
                let text = zone.text(instant, &local);
                assert_eq!(zone.parse_instant(&text, now, &local), Some(instant), "{text}");
            }
        }
        let read = |text: &str| Zone::Fixed(0).parse_instant(text, now, &local).map(|instant| instant.to_string());
        assert_eq!(read("22-12-26 15:03"), Some("2022-12-26 15:03:00.000000".into()));
        assert_eq!(read("2022/12/26 15:03:44.000.001"), Some("2022-12-26 15:03:44.000001".into()));
        assert_eq!(read("2022-12-26"), Some("2022-12-26 00:00:00.000000".into()));
        assert_eq!(read("9"), Some("2023-11-14 09:00:00.000000".into()));
        for wrong in ["", "x", "2022-13-01", "2022-02-30", "24:00", "1:2:3:4", "12:61"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
        assert_eq!([Zone::parse("GMT+"), Zone::parse("CET"), Zone::parse("GMT +25")], [None; 3]);
        assert_eq!(duration_text(3_661_000_002), "01:01:01.000002");
    }
}
