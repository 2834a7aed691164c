//! Values: SQLite's five storage classes and their canonical bytes.

use change::{LogicalType, RowBuilder, Value};
use rusqlite::types::ValueRef;
use std::fmt::Write as _;

/// Appends a stored value to a row image.
///
/// A column outside STRICT tables is [`LogicalType::Dynamic`]: the class travels with the value. A typed column of a STRICT
/// table holds one class only, so the bytes are the value alone. Text goes through byte for byte, NUL and broken UTF-8
/// included.
pub(crate) fn push(row: &mut RowBuilder, logical: LogicalType, value: ValueRef<'_>) {
    let marked = logical == LogicalType::Dynamic;
    let class = match value {
        ValueRef::Null => return row.push(Value::Null),
        ValueRef::Integer(_) => b'i',
        ValueRef::Real(_) => b'r',
        ValueRef::Text(_) => b't',
        ValueRef::Blob(_) => b'b',
    };
    row.push_with(|buffer| {
        if marked {
            buffer.extend_from_slice(&[class]);
        }
        match value {
            ValueRef::Null => {}
            ValueRef::Integer(number) => write!(buffer, "{number}").expect("a buffer in memory takes text"),
            ValueRef::Real(number) => buffer.extend_from_slice(real_text(number).as_bytes()),
            ValueRef::Text(bytes) | ValueRef::Blob(bytes) => buffer.extend_from_slice(bytes),
        }
    });
}

/// Appends a stored value in the notation of a column of another source: what [`stored`] made of it, read back.
pub(crate) fn push_as(row: &mut RowBuilder, logical: LogicalType, value: ValueRef<'_>) {
    match (logical, value) {
        (LogicalType::Boolean, ValueRef::Integer(0)) => row.push(Value::Bytes(b"f")),
        (LogicalType::Boolean, ValueRef::Integer(1)) => row.push(Value::Bytes(b"t")),
        _ => push(row, logical, value),
    }
}

/// The shortest decimal text that reads back to the same number.
fn real_text(number: f64) -> String {
    match number {
        f64::INFINITY => "Infinity".to_owned(),
        f64::NEG_INFINITY => "-Infinity".to_owned(),
        finite => format!("{finite:?}"),
    }
}

/// What is stored for a value of a column of type `logical`, or `None` when SQLite can't hold it.
///
/// - Dynamic: as its class says.
/// - Integer: INTEGER when it fits 64 bits, else TEXT.
/// - Float: REAL.
/// - Boolean: INTEGER 0 or 1.
/// - Binary: BLOB.
/// - All others: TEXT.
///
/// The column's affinity is applied by SQLite on top, as it was at a SQLite source with the same declared type.
pub(crate) fn stored(logical: LogicalType, value: Value<'_>) -> Option<ValueRef<'_>> {
    let bytes = match value {
        Value::Null | Value::Unchanged => return Some(ValueRef::Null),
        Value::Bytes(bytes) => bytes,
    };
    match logical {
        LogicalType::Dynamic => {
            let (class, rest) = bytes.split_first()?;
            match class {
                b'i' => integer(rest).map(ValueRef::Integer),
                b'r' => real(rest).map(ValueRef::Real),
                b't' => Some(ValueRef::Text(rest)),
                b'b' => Some(ValueRef::Blob(rest)),
                _ => None,
            }
        }
        LogicalType::Integer => Some(integer(bytes).map_or(ValueRef::Text(bytes), ValueRef::Integer)),
        LogicalType::Float => real(bytes).map(ValueRef::Real),
        LogicalType::Boolean => match bytes {
            b"t" => Some(ValueRef::Integer(1)),
            b"f" => Some(ValueRef::Integer(0)),
            _ => None,
        },
        LogicalType::Binary => Some(ValueRef::Blob(bytes)),
        _ => Some(ValueRef::Text(bytes)),
    }
}

fn integer(bytes: &[u8]) -> Option<i64> {
    std::str::from_utf8(bytes).ok()?.parse().ok()
}

/// SQLite turns NaN into NULL, so a NaN is no value that it can hold.
fn real(bytes: &[u8]) -> Option<f64> {
    std::str::from_utf8(bytes).ok()?.parse::<f64>().ok().filter(|number| !number.is_nan())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn canonical(logical: LogicalType, value: ValueRef<'_>) -> Vec<u8> {
        let mut row = RowBuilder::new();
        push(&mut row, logical, value);
        row.finish().value(0).bytes().expect("a value").to_vec()
    }

    #[test]
    fn every_class_keeps_its_mark_and_comes_back() {
        let cases: [(ValueRef<'_>, &[u8]); 10] = [
            (ValueRef::Integer(i64::MIN), b"i-9223372036854775808"),
            (ValueRef::Integer(9_007_199_254_740_993), b"i9007199254740993"),
            (ValueRef::Real(0.1), b"r0.1"),
            (ValueRef::Real(1.0), b"r1.0"),
            (ValueRef::Real(1e300), b"r1e300"),
            (ValueRef::Real(-0.0), b"r-0.0"),
            (ValueRef::Real(f64::NEG_INFINITY), b"r-Infinity"),
            (ValueRef::Text(b"a\0\xff"), b"ta\0\xff"),
            (ValueRef::Text(b""), b"t"),
            (ValueRef::Blob(b"\0\x01"), b"b\0\x01"),
        ];
        for (value, bytes) in cases {
            assert_eq!(canonical(LogicalType::Dynamic, value), bytes);
            assert_eq!(stored(LogicalType::Dynamic, Value::Bytes(bytes)), Some(value));
        }
    }

    #[test]
    fn typed_columns_carry_no_mark() {
        assert_eq!(canonical(LogicalType::Integer, ValueRef::Integer(-7)), b"-7");
        assert_eq!(canonical(LogicalType::Binary, ValueRef::Blob(b"i7")), b"i7");
        assert_eq!(
            stored(LogicalType::Integer, Value::Bytes(b"18446744073709551615")),
            Some(ValueRef::Text(b"18446744073709551615"))
        );
    }

    #[test]
    fn what_sqlite_cannot_hold_is_no_value() {
        assert_eq!(stored(LogicalType::Float, Value::Bytes(b"NaN")), None);
        assert_eq!(stored(LogicalType::Dynamic, Value::Bytes(b"")), None);
        assert_eq!(stored(LogicalType::Dynamic, Value::Bytes(b"ix")), None);
        assert_eq!(stored(LogicalType::Boolean, Value::Bytes(b"yes")), None);
    }
}
