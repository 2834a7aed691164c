//! Values for people.

use change::{Column, LogicalType, Value};
use std::fmt::Write;

/// Characters of a value that are shown unless all are wanted.
const SHOWN_MAX: usize = 60;

/// What a value is, whatever its column's type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Plain<'a> {
    /// It did not travel.
    Unchanged,
    /// NULL.
    Null,
    /// A number, as text.
    Number(&'a str),
    /// `t` or `f`.
    Boolean(bool),
    /// Characters.
    Text(&'a str),
    /// Bytes, or text that is not UTF-8.
    Bytes(&'a [u8]),
}

/// A value without what its type adds to it.
pub(super) fn plain<'a>(column: Option<&Column>, value: Value<'a>) -> Plain<'a> {
    let bytes = match value {
        Value::Unchanged => return Plain::Unchanged,
        Value::Null => return Plain::Null,
        Value::Bytes(bytes) => bytes,
    };
    let text = |bytes: &'a [u8]| std::str::from_utf8(bytes).map_or(Plain::Bytes(bytes), Plain::Text);
    let number = |bytes: &'a [u8]| std::str::from_utf8(bytes).map_or(Plain::Bytes(bytes), Plain::Number);
    match column.map_or(LogicalType::Other, |column| column.logical) {
        LogicalType::Dynamic => match bytes {
            [b'i' | b'r', rest @ ..] => number(rest),
            [b't', rest @ ..] => text(rest),
            [_, rest @ ..] => Plain::Bytes(rest),
            [] => Plain::Text(""),
        },
        LogicalType::Integer | LogicalType::Decimal | LogicalType::Float => number(bytes),
        LogicalType::Binary => Plain::Bytes(bytes),
        LogicalType::Boolean if bytes == b"t" => Plain::Boolean(true),
        LogicalType::Boolean if bytes == b"f" => Plain::Boolean(false),
        _ => text(bytes),
    }
}

impl Plain<'_> {
    /// The value as a person compares it: texts without quotes, bytes in hexadecimal.
    pub(super) fn bare(&self) -> String {
        match self {
            Plain::Unchanged => String::new(),
            Plain::Null => "NULL".to_owned(),
            Plain::Number(text) | Plain::Text(text) => (*text).to_owned(),
            Plain::Boolean(value) => value.to_string(),
            Plain::Bytes(bytes) => hexadecimal(bytes),
        }
    }

    /// The value as it is shown: texts in quotes, cut unless all of it is wanted.
    pub(super) fn shown(&self, is_whole: bool) -> String {
        match self {
            Plain::Unchanged => "(unchanged)".to_owned(),
            Plain::Text(text) => {
                let mut shown = String::from("'");
                let mut characters = text.chars();
                let max = if is_whole { usize::MAX } else { SHOWN_MAX };
                for character in characters.by_ref().take(max) {
                    match character {
                        '\'' => shown.push_str("''"),
                        '\n' => shown.push_str("\\n"),
                        '\r' => shown.push_str("\\r"),
                        '\t' => shown.push_str("\\t"),
                        // A terminal must not act on what stands in a row.
                        character if character.is_control() => shown.extend(character.escape_unicode()),
                        character => shown.push(character),
                    }
                }
                let rest = characters.count();
                shown.push('\'');
                if rest > 0 {
                    // Writing to a string can't fail.
                    _ = write!(shown, "… and {rest} characters more");
                }
                shown
            }
            Plain::Bytes(bytes) => {
                let max = if is_whole { bytes.len() } else { SHOWN_MAX / 2 };
                let mut shown = format!("x'{}'", hexadecimal(bytes.get(..max).unwrap_or(bytes)));
                if bytes.len() > max {
                    _ = write!(shown, "… and {} bytes more", bytes.len() - max);
                }
                shown
            }
            other => other.bare(),
        }
    }
}

/// Bytes in hexadecimal.
pub(super) fn hexadecimal(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        _ = write!(text, "{byte:02x}");
    }
    text
}
