//! Values in the binary form of their type, where that is cheaper for the server than to read text again.
//!
//! Only texts in the notation that the server itself writes under the pinned settings are taken; whatever reads otherwise stays
//! text, and the server decides about it. So both ways give the same value, or the same refusal.

use bytes::{BufMut, BytesMut};

/// How values of a column are sent in arrays, and in copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Element {
    /// As text that the server casts.
    Cast,
    /// As text, which is the binary form of the column's type as well.
    Text,
    /// Raw bytes.
    Bytea,
    Int2,
    Int4,
    Int8,
    Boolean,
    Date,
    Timestamp,
    TimestampTz,
    Numeric,
}

/// Longest number that is taken apart here.
const NUMERIC_BYTES_MAX: usize = 1000;
/// Microseconds of a day.
const DAY_MICROS: i64 = 86_400_000_000;
/// Days from 1970-01-01 to 2000-01-01, from which the server counts.
const EPOCH_DAYS: i64 = 10_957;

impl Element {
    /// For a column whose type has this one below all domains.
    pub(super) fn of(base: u32) -> Element {
        match base {
            16 => Element::Boolean,
            17 => Element::Bytea,
            20 => Element::Int8,
            21 => Element::Int2,
            23 => Element::Int4,
            25 => Element::Text,
            1082 => Element::Date,
            1114 => Element::Timestamp,
            1184 => Element::TimestampTz,
            1700 => Element::Numeric,
            _ => Element::Cast,
        }
    }

    /// For a binary copy into a column whose type has this one below all domains; `None` where only text will do.
    pub(super) fn in_copy(base: u32) -> Option<Element> {
        match (base, Element::of(base)) {
            // character, character varying, json: their binary form is their text.
            (114 | 1042 | 1043, _) => Some(Element::Text),
            (_, Element::Cast) => None,
            (_, element) => Some(element),
        }
    }

    /// The same where values are sent as text.
    pub(super) fn as_text(self) -> Element {
        match self {
            Element::Bytea | Element::Text => self,
            _ => Element::Cast,
        }
    }

    /// Name of the array's type, its OID, and that of its elements.
    pub(super) fn array_type(self) -> (&'static str, u32, u32) {
        match self {
            Element::Cast | Element::Text => ("text[]", 1009, 25),
            Element::Bytea => ("bytea[]", 1001, 17),
            Element::Int2 => ("smallint[]", 1005, 21),
            Element::Int4 => ("integer[]", 1007, 23),
            Element::Int8 => ("bigint[]", 1016, 20),
            Element::Boolean => ("boolean[]", 1000, 16),
            Element::Date => ("date[]", 1182, 1082),
            Element::Timestamp => ("timestamp[]", 1115, 1114),
            Element::TimestampTz => ("timestamptz[]", 1185, 1184),
            Element::Numeric => ("numeric[]", 1231, 1700),
        }
    }

    /// Appends a value's length and its binary form; `None` when its text is not in the server's own notation.
    pub(super) fn put(self, bytes: &[u8], out: &mut BytesMut) -> Option<()> {
        match self {
            Element::Cast | Element::Text | Element::Bytea => {
                // A batch is cut long before its bytes reach 2 GiB.
                out.put_u32(u32::try_from(bytes.len()).expect("a value is below 1 GiB"));
                out.put_slice(bytes);
            }
            Element::Int2 => {
                let number = i16::try_from(integer(bytes)?).ok()?;
                out.put_u32(2);
                out.put_i16(number);
            }
            Element::Int4 => {
                let number = i32::try_from(integer(bytes)?).ok()?;
                out.put_u32(4);
                out.put_i32(number);
            }
            Element::Int8 => {
                let number = integer(bytes)?;
                out.put_u32(8);
                out.put_i64(number);
            }
            Element::Boolean => {
                let flag = match bytes {
                    b"t" => 1,
                    b"f" => 0,
                    _ => return None,
                };
                out.put_u32(1);
                out.put_u8(flag);
            }
            Element::Date => {
                let day = i32::try_from(day(bytes)?).ok()?;
                out.put_u32(4);
                out.put_i32(day);
            }
            Element::Timestamp => {
                let micros = micros(bytes)?;
                out.put_u32(8);
                out.put_i64(micros);
            }
            Element::TimestampTz => {
                let micros = micros(bytes.strip_suffix(b"+00")?)?;
                out.put_u32(8);
                out.put_i64(micros);
            }
            Element::Numeric => return numeric(bytes, out),
        }
        Some(())
    }
}

/// A whole number without any ornament.
fn integer(bytes: &[u8]) -> Option<i64> {
    let digits = bytes.strip_prefix(b"-").unwrap_or(bytes);
    let is_plain = matches!(digits, [b'0'] | [b'1'..=b'9', ..]) && bytes != b"-0";
    if !is_plain || digits.len() > 19 {
        return None;
    }
    let mut number: i64 = 0;
    let is_negative = digits.len() != bytes.len();
    for digit in digits {
        let value = i64::from(digit.checked_sub(b'0').filter(|value| *value < 10)?);
        // The least number has no positive counterpart.
        let signed = if is_negative { -value } else { value };
        number = number.checked_mul(10)?.checked_add(signed)?;
    }
    Some(number)
}

/// A number of so many digits.
fn digits<const N: usize>(bytes: &[u8]) -> Option<i64> {
    let digits: &[u8; N] = bytes.try_into().ok()?;
    digits.iter().try_fold(0, |number, digit| {
        let value = digit.checked_sub(b'0').filter(|value| *value < 10)?;
        Some(number * 10 + i64::from(value))
    })
}

/// Days since 2000-01-01 of `2026-01-31`.
fn day(bytes: &[u8]) -> Option<i64> {
    let [y1, y2, y3, y4, b'-', m1, m2, b'-', d1, d2] = bytes else { return None };
    let (year, month, day) =
        (digits::<4>(&[*y1, *y2, *y3, *y4])?, digits::<2>(&[*m1, *m2])?, digits::<2>(&[*d1, *d2])?);
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        4 | 6 | 9 | 11 => 30,
        2 if is_leap => 29,
        2 => 28,
        _ => return None,
    };
    if year == 0 || !(1..=days).contains(&day) {
        return None;
    }
    // Years that begin in March, so that the leap day is the last one.
    let year = if month > 2 { year } else { year - 1 };
    let month = (month + 9) % 12;
    let day_of_year = (153 * month + 2) / 5 + day - 1;
    let before = year * 365 + year / 4 - year / 100 + year / 400;
    // 719,468 days from the first of March of year 0 to 1970-01-01.
    Some(before + day_of_year - 719_468 - EPOCH_DAYS)
}

/// Microseconds since 2000-01-01 of `2026-01-31 23:59:59.123456`, whose fraction may be shorter or missing.
fn micros(bytes: &[u8]) -> Option<i64> {
    let (date, rest) = bytes.split_at_checked(10)?;
    let [b' ', h1, h2, b':', m1, m2, b':', s1, s2, fraction @ ..] = rest else { return None };
    let (hour, minute, second) = (digits::<2>(&[*h1, *h2])?, digits::<2>(&[*m1, *m2])?, digits::<2>(&[*s1, *s2])?);
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let fraction = match fraction {
        [] => 0,
        [b'.', given @ ..] if (1..=6).contains(&given.len()) => {
            let mut padded = [b'0'; 6];
            padded[..given.len()].copy_from_slice(given);
            digits::<6>(&padded)?
        }
        _ => return None,
    };
    Some(day(date)? * DAY_MICROS + ((hour * 60 + minute) * 60 + second) * 1_000_000 + fraction)
}

/// A decimal number, in groups of four digits around the point.
fn numeric(bytes: &[u8], out: &mut BytesMut) -> Option<()> {
    let plain = bytes.strip_prefix(b"-").unwrap_or(bytes);
    let point = plain.iter().position(|byte| *byte == b'.');
    let (whole, fraction) = match point {
        None => (plain, &plain[..0]),
        Some(point) => (&plain[..point], &plain[point + 1..]),
    };
    let is_digits = |digits: &[u8]| digits.iter().all(u8::is_ascii_digit);
    let is_plain = !whole.is_empty() && (point.is_none() || !fraction.is_empty());
    if !is_plain || plain.len() > NUMERIC_BYTES_MAX || !is_digits(whole) || !is_digits(fraction) {
        return None;
    }
    let start = out.len();
    // Length, number of groups, weight of the first one, sign, digits behind the point.
    out.put_slice(&[0; 12]);
    let lead = (4 - whole.len() % 4) % 4;
    let groups_of_whole = (lead + whole.len()) / 4;
    let digit = |place: usize| -> u16 {
        let digit = match place.checked_sub(lead) {
            None => b'0',
            Some(place) if place < whole.len() => whole[place],
            Some(place) => fraction.get(place - whole.len()).copied().unwrap_or(b'0'),
        };
        u16::from(digit - b'0')
    };
    let groups = groups_of_whole + fraction.len().div_ceil(4);
    let group = |number: usize| (0..4).fold(0, |value, place| value * 10 + digit(4 * number + place));
    let first = (0..groups).find(|number| group(*number) != 0);
    let (mut count, mut weight, mut sign) = (0, 0, 0);
    if let Some(first) = first {
        let last = (first..groups).rev().find(|number| group(*number) != 0)?;
        (first..=last).for_each(|number| out.put_u16(group(number)));
        count = u16::try_from(last - first + 1).ok()?;
        weight = i16::try_from(groups_of_whole).ok()? - i16::try_from(first).ok()? - 1;
        sign = if plain.len() == bytes.len() { 0 } else { 0x4000 };
    }
    let length = u32::try_from(out.len() - start - 4).ok()?;
    let scale = u16::try_from(fraction.len()).ok()?;
    let head = &mut out[start..start + 12];
    head[..4].copy_from_slice(&length.to_be_bytes());
    head[4..6].copy_from_slice(&count.to_be_bytes());
    head[6..8].copy_from_slice(&weight.to_be_bytes());
    head[8..10].copy_from_slice(&u16::to_be_bytes(sign));
    head[10..12].copy_from_slice(&scale.to_be_bytes());
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(element: Element, text: &str) -> Option<Vec<u8>> {
        let mut out = BytesMut::new();
        element.put(text.as_bytes(), &mut out).map(|()| out.split_off(4).to_vec())
    }

    #[test]
    fn whole_numbers_at_their_limits() {
        assert_eq!(sent(Element::Int2, "-32768"), Some(vec![0x80, 0]));
        assert_eq!(sent(Element::Int4, "2147483647"), Some(vec![0x7f, 0xff, 0xff, 0xff]));
        assert_eq!(sent(Element::Int8, "-9223372036854775808"), Some(vec![0x80, 0, 0, 0, 0, 0, 0, 0]));
        for text in ["", "-", "+1", "01", "-0", "1.0", " 1", "1 ", "1e3", "0x1", "9223372036854775808"] {
            assert_eq!(sent(Element::Int8, text), None, "{text:?} stays text");
        }
        assert_eq!((sent(Element::Int2, "32768"), sent(Element::Int4, "-2147483649")), (None, None));
    }

    #[test]
    fn days_and_moments_that_the_documentation_of_postgresql_counts_from_its_epoch() {
        let day = |text| sent(Element::Date, text).map(|bytes| i32::from_be_bytes(bytes.try_into().unwrap()));
        assert_eq!((day("2000-01-01"), day("1999-12-31"), day("2000-03-01")), (Some(0), Some(-1), Some(60)));
        // From 0001-01-01 to 2000-01-01, and to the last day that four digits write.
        assert_eq!((day("0001-01-01"), day("9999-12-31")), (Some(-730_119), Some(2_921_939)));
        for text in ["2023-02-29", "1900-02-29", "2026-13-01", "0000-01-01", "10000-01-01", "0044-03-15 BC", "infinity"]
        {
            assert_eq!(day(text), None, "{text} stays text");
        }
        assert!(day("2024-02-29").is_some() && day("2000-02-29").is_some());
        let moment = |text| sent(Element::TimestampTz, text).map(|bytes| i64::from_be_bytes(bytes.try_into().unwrap()));
        assert_eq!(moment("2000-01-02 00:00:01.5+00"), Some(86_401_500_000));
        assert_eq!(moment("1999-12-31 23:59:59.999999+00"), Some(-1));
        for text in
            ["2000-01-01 00:00:00", "2000-01-01 00:00:00+01", "2000-01-01 24:00:00+00", "2000-01-01 00:00:00.+00"]
        {
            assert_eq!(moment(text), None, "{text} stays text");
        }
    }

    #[test]
    fn decimals_in_groups_of_four_digits() {
        // Groups, weight, sign, scale, then the groups.
        let words = |text| {
            let bytes = sent(Element::Numeric, text)?;
            Some(bytes.chunks(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]])).collect::<Vec<_>>())
        };
        assert_eq!(words("0"), Some(vec![0, 0, 0, 0]));
        assert_eq!(words("0.00"), Some(vec![0, 0, 0, 2]));
        assert_eq!(words("12345.678"), Some(vec![3, 1, 0, 3, 1, 2345, 6780]));
        assert_eq!(words("-10000"), Some(vec![1, 1, 0x4000, 0, 1]));
        assert_eq!(words("0.00001"), Some(vec![1, 0xfffe, 0, 5, 1000]));
        for text in ["NaN", "Infinity", "1e5", "+1", ".5", "5.", "", "-", "1.2.3"] {
            assert_eq!(words(text), None, "{text:?} stays text");
        }
    }
}
