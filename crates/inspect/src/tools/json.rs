//! JSON text.

use super::value::{Plain, hexadecimal, plain};
use change::{Row, TableDefinition, Value};
use std::fmt::Write;

/// Appends a text in quotes.
pub(super) fn string(json: &mut String, text: &str) {
    json.push('"');
    for character in text.chars() {
        match character {
            '"' => json.push_str("\\\""),
            '\\' => json.push_str("\\\\"),
            '\n' => json.push_str("\\n"),
            '\r' => json.push_str("\\r"),
            '\t' => json.push_str("\\t"),
            // Writing to a string can't fail.
            '\0'..' ' => _ = write!(json, "\\u{:04x}", u32::from(character)),
            character => json.push(character),
        }
    }
    json.push('"');
}

/// Appends a member of an object whose value is a text, with the comma in front of it.
pub(super) fn member(json: &mut String, name: &str, text: &str) {
    json.push(',');
    string(json, name);
    json.push(':');
    string(json, text);
}

/// Appends the columns of a row that travelled, as an object: numbers as numbers, bytes as `{"hex":"…"}`.
pub(super) fn row(json: &mut String, table: &TableDefinition, row: &Row) {
    json.push('{');
    let mut is_first = true;
    for (index, value) in row.values().enumerate().filter(|(_, value)| *value != Value::Unchanged) {
        if !std::mem::take(&mut is_first) {
            json.push(',');
        }
        let column = table.columns.get(index);
        string(json, column.map_or("?", |column| column.name.as_str()));
        json.push(':');
        match plain(column, value) {
            Plain::Unchanged | Plain::Null => json.push_str("null"),
            Plain::Number(text) if is_number(text) => json.push_str(text),
            Plain::Number(text) | Plain::Text(text) => string(json, text),
            Plain::Boolean(value) => json.push_str(if value { "true" } else { "false" }),
            Plain::Bytes(bytes) => {
                json.push_str("{\"hex\":");
                string(json, &hexadecimal(bytes));
                json.push('}');
            }
        }
    }
    json.push('}');
}

/// Whether a number has the form that JSON gives to numbers: no NaN, no leading zero, no lonely dot.
fn is_number(text: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|digit| digit.is_ascii_digit());
    let text = text.strip_prefix('-').unwrap_or(text);
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (text, None),
    };
    let (whole, fraction) = match mantissa.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (mantissa, None),
    };
    let is_whole = digits(whole) && (whole.len() == 1 || !whole.starts_with('0'));
    let has_exponent = |exponent: &str| digits(exponent.strip_prefix(['+', '-']).unwrap_or(exponent));
    is_whole && fraction.is_none_or(digits) && exponent.is_none_or(has_exponent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_json_takes_for_a_number_is_one() {
        for number in ["0", "-1", "10", "0.5", "-12.25", "1e10", "1.5E-3", "123456789012345678901234567890"] {
            assert!(is_number(number), "{number}");
        }
        for text in ["", "-", "01", "1.", ".5", "NaN", "Infinity", "1e", "+1", "0x1", "1 "] {
            assert!(!is_number(text), "{text}");
        }
    }

    #[test]
    fn every_character_can_stand_in_a_text() {
        let mut json = String::new();
        string(&mut json, "a\"b\\c\n\u{1}é");
        assert_eq!(json, "\"a\\\"b\\\\c\\n\\u0001é\"");
    }
}
