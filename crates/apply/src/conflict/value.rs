//! When two values are equal, and which of two is greater.
//!
//! Values are the canonical text of their column's type. Equal bytes are equal values; some types have several texts for
//! one value (`1.50` and `1.5`), and those must not look like a conflict.

use super::decimal::Decimal;
use change::{LogicalType, Value};
use std::cmp::Ordering;

/// Whether `old` is what stands in the row: NULL equals NULL, and nothing else.
pub(crate) fn is_same(kind: LogicalType, left: Value<'_>, right: Value<'_>) -> bool {
    match (left, right) {
        (Value::Bytes(left), Value::Bytes(right)) => {
            left == right || (has_several_texts(kind) && order(kind, left, right) == Some(Ordering::Equal))
        }
        (left, right) => left == right,
    }
}

fn has_several_texts(kind: LogicalType) -> bool {
    use LogicalType::{Decimal, Float, Integer, Timestamp, TimestampWithZone};
    matches!(kind, Integer | Decimal | Float | Timestamp | TimestampWithZone)
}

/// Which of two values of one column is greater; `None` where that has no meaning or a value can't be read.
pub(crate) fn order(kind: LogicalType, left: &[u8], right: &[u8]) -> Option<Ordering> {
    match kind {
        LogicalType::Integer | LogicalType::Decimal | LogicalType::Float => order_numbers(left, right),
        LogicalType::Timestamp | LogicalType::TimestampWithZone | LogicalType::Date => {
            Some(instant(left)?.cmp(&instant(right)?))
        }
        LogicalType::Dynamic => order_dynamic(left, right),
        LogicalType::Boolean | LogicalType::Text | LogicalType::Time | LogicalType::Bits | LogicalType::Binary => {
            Some(left.cmp(right))
        }
        LogicalType::Uuid => Some(left.to_ascii_lowercase().cmp(&right.to_ascii_lowercase())),
        LogicalType::Interval | LogicalType::Json | LogicalType::Enumeration | LogicalType::Other => None,
    }
}

/// As [`order`], for columns that hold moments: also texts of moments in columns whose values have a class of their own.
pub(crate) fn order_moments(kind: LogicalType, left: &[u8], right: &[u8]) -> Option<Ordering> {
    match (kind, left.split_first(), right.split_first()) {
        (LogicalType::Dynamic, Some((b't', left)), Some((b't', right))) => Some(instant(left)?.cmp(&instant(right)?)),
        _ => order(kind, left, right),
    }
}

/// The number in a value, if it holds a finite one.
pub(crate) fn number(kind: LogicalType, value: Value<'_>) -> Option<Decimal> {
    let bytes = value.bytes()?;
    match (kind, bytes.split_first()) {
        (LogicalType::Integer | LogicalType::Decimal | LogicalType::Float, _) => Decimal::parse(bytes),
        (LogicalType::Dynamic, Some((b'i' | b'r', digits))) => Decimal::parse(digits),
        _ => None,
    }
}

fn order_numbers(left: &[u8], right: &[u8]) -> Option<Ordering> {
    // As databases order them: minus infinity, numbers, infinity, NaN.
    let rank = |text: &[u8]| match text {
        b"-Infinity" => Some(-1),
        b"Infinity" => Some(1),
        b"NaN" => Some(2),
        _ => None,
    };
    match (rank(left), rank(right)) {
        (None, None) => Some(Decimal::parse(left)?.order(&Decimal::parse(right)?)),
        (left, right) => Some(left.unwrap_or(0).cmp(&right.unwrap_or(0))),
    }
}

/// Numbers before text before blobs, as SQLite sorts them.
fn order_dynamic(left: &[u8], right: &[u8]) -> Option<Ordering> {
    let ((left_class, left), (right_class, right)) = (left.split_first()?, right.split_first()?);
    let rank = |class: &u8| match class {
        b'i' | b'r' => 0,
        b't' => 1,
        _ => 2,
    };
    match rank(left_class).cmp(&rank(right_class)) {
        Ordering::Equal if rank(left_class) == 0 => order_numbers(left, right),
        Ordering::Equal => Some(left.cmp(right)),
        different => Some(different),
    }
}

/// A moment that can be compared: a class (minus infinity, finite, infinity) and nanoseconds since year 0 in UTC.
fn instant(text: &[u8]) -> Option<(i8, i128)> {
    let text = std::str::from_utf8(text).ok()?;
    match text {
        "-infinity" => return Some((-1, 0)),
        "infinity" => return Some((1, 0)),
        _ => {}
    }
    let (text, before_christ) = match text.strip_suffix(" BC") {
        Some(text) => (text, true),
        None => (text, false),
    };
    let date_end = text.find([' ', 'T']).unwrap_or(text.len());
    let mut parts = text[..date_end].split('-');
    let (year, month, day) = (parts.next()?, parts.next()?, parts.next()?);
    let (year, month, day): (i128, i128, i128) = (year.parse().ok()?, month.parse().ok()?, day.parse().ok()?);
    if parts.next().is_some() || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let year = if before_christ { 1 - year } else { year };
    let (of_day, offset) = match text.get(date_end + 1..) {
        Some(time) => clock(time)?,
        None => (0, 0),
    };
    Some((0, days(year, month, day) * 86_400_000_000_000 + of_day - offset))
}

/// Days since 0000-03-01 of the calendar that everybody uses, which starts its years in March so that leap days come last.
fn days(year: i128, month: i128, day: i128) -> i128 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    year * 365 + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400) + (month * 153 + 2) / 5 + day - 1
}

/// Time of day and its offset from UTC, in nanoseconds.
fn clock(text: &str) -> Option<(i128, i128)> {
    let text = text.strip_suffix('Z').unwrap_or(text);
    let sign = text.find(['+', '-']);
    let (time, offset) = sign.map_or((text, None), |place| (&text[..place], Some(&text[place..])));
    let parse = |text: &str| -> Option<i128> {
        let mut seconds = 0;
        let mut parts = text.split(':');
        for unit in [3600, 60] {
            seconds += unit * parts.next().map_or(Some(0), |part| part.parse::<i128>().ok())?;
        }
        let (whole, fraction) = parts.next().map_or(("0", ""), |part| part.split_once('.').unwrap_or((part, "")));
        if parts.next().is_some() || fraction.len() > 9 || !fraction.bytes().all(|digit| digit.is_ascii_digit()) {
            return None;
        }
        let fraction: i128 = format!("{fraction:0<9}").parse().ok()?;
        Some((seconds + whole.parse::<i128>().ok()?) * 1_000_000_000 + fraction)
    };
    let offset = match offset {
        Some(offset) => parse(&offset[1..])? * if offset.starts_with('-') { -1 } else { 1 },
        None => 0,
    };
    Some((parse(time)?, offset))
}

#[cfg(test)]
mod tests {
    use super::*;
    use Ordering::{Equal, Greater, Less};

    #[test]
    fn moments_are_ordered_whatever_their_notation() {
        let kind = LogicalType::TimestampWithZone;
        for (left, expected, right) in [
            ("2024-01-01 12:00:00", Less, "2024-01-01 12:00:00.5"),
            ("2024-01-01 12:00:00.5", Equal, "2024-01-01T12:00:00.500000Z"),
            ("2024-01-01 12:00:00+00", Greater, "2024-01-01 12:00:00+01"),
            ("2024-02-29 23:59:59", Less, "2024-03-01 00:00:00"),
            ("10000-01-01 00:00:00", Greater, "9999-12-31 23:59:59"),
            ("0044-03-15 00:00:00 BC", Less, "0001-01-01 00:00:00"),
            ("infinity", Greater, "294276-12-31 00:00:00"),
            ("-infinity", Less, "4713-01-01 00:00:00 BC"),
        ] {
            assert_eq!(order(kind, left.as_bytes(), right.as_bytes()), Some(expected), "{left} {right}");
        }
        assert_eq!(order(kind, b"yesterday", b"2024-01-01"), None);
    }

    #[test]
    fn equality_is_null_safe_and_of_values() {
        let same = |kind, left: Option<&'static str>, right: Option<&'static str>| {
            let value = |text: Option<&'static str>| text.map_or(Value::Null, |text| Value::Bytes(text.as_bytes()));
            is_same(kind, value(left), value(right))
        };
        assert!(same(LogicalType::Text, None, None));
        assert!(!same(LogicalType::Text, None, Some("")));
        assert!(same(LogicalType::Decimal, Some("1.50"), Some("1.5")));
        assert!(!same(LogicalType::Text, Some("1.50"), Some("1.5")));
        assert!(!same(LogicalType::Dynamic, Some("i1"), Some("r1")), "classes are part of a dynamic value");
        assert!(same(LogicalType::Float, Some("NaN"), Some("NaN")));
    }

    #[test]
    fn dynamic_values_are_ordered_as_sqlite_sorts_them() {
        let order = |left: &str, right: &str| order(LogicalType::Dynamic, left.as_bytes(), right.as_bytes());
        assert_eq!(order("i9", "r10.5"), Some(Less));
        assert_eq!(order("i9", "t1"), Some(Less));
        assert_eq!(order("b1", "t2"), Some(Greater));
    }
}
