//! Instants as heartbeat columns hold them: UTC, without a zone.

use change::Timestamp;

/// Reads `YYYY-MM-DD HH:MM:SS`, with or without a fraction of up to six digits, as UTC. Databases leave out zeros at the end.
pub fn parse_instant(text: &str) -> Option<Timestamp> {
    let (date, time) = text.split_once([' ', 'T'])?;
    let mut date = date.splitn(3, '-').map(digits);
    let (year, month, day) = (date.next()??, date.next()??, date.next()??);
    let (time, fraction) = time.split_once('.').unwrap_or((time, ""));
    let mut time = time.splitn(3, ':').map(digits);
    let (hour, minute, second) = (time.next()??, time.next()??, time.next()??);
    let is_time = hour < 24 && minute < 60 && second < 61;
    if !is_time || !(1..=12).contains(&month) || !(1..=31).contains(&day) || fraction.len() > 6 {
        return None;
    }
    let micros = match fraction {
        "" => 0,
        fraction => digits(fraction)? * 10_i64.pow(6 - fraction.len() as u32),
    };
    let seconds = days(year, month, day) * 86_400 + hour * 3_600 + minute * 60 + second;
    Some(Timestamp::from_unix_micros(seconds * 1_000_000 + micros))
}

fn digits(text: &str) -> Option<i64> {
    let is_number = (1..=6).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    if is_number { text.parse().ok() } else { None }
}

/// Days from 1970-01-01 to a date of the Gregorian calendar. Years are counted from March, so that the leap day is a year's
/// last day.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_a_timestamp_writes_is_read_back(micros in -62_000_000_000_000_000_i64..250_000_000_000_000_000) {
            let instant = Timestamp::from_unix_micros(micros);
            prop_assert_eq!(parse_instant(&instant.to_string()), Some(instant));
        }

        #[test]
        fn any_text_is_read_or_refused(text in ".*") {
            let _ = parse_instant(&text);
        }
    }

    #[test]
    fn fractions_may_be_short_or_missing() {
        let micros = |text| parse_instant(text).map(|instant| instant.unix_micros);
        assert_eq!(micros("1970-01-01 00:00:00"), Some(0));
        assert_eq!(micros("1970-01-01 00:00:00.5"), Some(500_000));
        assert_eq!(micros("1970-01-02T00:00:00.000001"), Some(86_400_000_001));
        for wrong in
            ["", "1970-01-01", "1970-13-01 00:00:00", "1970-01-01 24:00:00", "1970-01-01 00:00:00.0000001", "x"]
        {
            assert_eq!(micros(wrong), None, "{wrong}");
        }
    }
}
