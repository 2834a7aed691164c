//! WARNLOGKEPT: from how much kept log on the operator is told.

use crate::cursor::{Cursor, Written};
use crate::diagnostic::Diagnostic;
use crate::file::Raw;
use std::ops::Range;

/// From how many bytes on that a database keeps for an Extract somebody should look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogKeptLevels {
    /// Worth a warning.
    pub warning: u64,
    /// Worth waking somebody.
    pub critical: u64,
}

/// A server that is written to at 10 MB/s comes to the first after seven minutes without an Extract, to the second after half
/// an hour.
impl Default for LogKeptLevels {
    fn default() -> LogKeptLevels {
        LogKeptLevels { warning: 4 << 30, critical: 16 << 30 }
    }
}

const NEXT_STEP: &str = "write WARNLOGKEPT size, CRITICAL size, with sizes such as 500M or 4G";

pub(crate) fn read(cursor: &mut Cursor<'_>, raw: &mut Raw, place: Range<usize>) -> Result<(), Diagnostic> {
    let warning = size(cursor)?;
    cursor.take(',');
    match cursor.word() {
        Some(word) if word.value.eq_ignore_ascii_case("CRITICAL") => {}
        Some(word) => return Err(cursor.error(word.place, format!("unexpected `{}`", word.value), NEXT_STEP)),
        None => return Err(cursor.error(cursor.end_place(), "the CRITICAL size is missing", NEXT_STEP)),
    }
    let critical = size(cursor)?;
    if critical <= warning {
        return Err(cursor.error(place, "the CRITICAL size is not above the first one", NEXT_STEP));
    }
    raw.log_kept = Some(LogKeptLevels { warning, critical });
    Ok(())
}

/// A number of bytes with an optional K, M, G or T, each 1024 times the one before.
fn size(cursor: &mut Cursor<'_>) -> Result<u64, Diagnostic> {
    let Written { value, place } = cursor.list_value("the size")?;
    let wrong = || cursor.error(place.clone(), format!("`{value}` is not a size"), NEXT_STEP);
    let digits = value.trim_end_matches(|character: char| character.is_ascii_alphabetic());
    let unit = match value[digits.len()..].to_ascii_uppercase().as_str() {
        "" => 0,
        "K" | "KB" => 10,
        "M" | "MB" => 20,
        "G" | "GB" => 30,
        "T" | "TB" => 40,
        _ => return Err(wrong()),
    };
    let number: u64 = digits.parse().map_err(|_| wrong())?;
    number.checked_mul(1 << unit).filter(|bytes| *bytes > 0).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse_extract;

    fn levels(line: &str) -> Result<LogKeptLevels, String> {
        let text = format!("EXTRACT e1\nSOURCEDB sqlite:s.db\n{line}\nEXTTRAIL ./dirdat/aa\nTABLE main.*;\n");
        parse_extract(&text, "e1.prm").map(|read| read.log_kept).map_err(|wrong| wrong.to_string())
    }

    #[test]
    fn sizes_have_units_and_the_second_is_above_the_first() {
        assert_eq!(levels(""), Ok(LogKeptLevels::default()));
        assert_eq!(
            levels("WARNLOGKEPT 500M, CRITICAL 2g"),
            Ok(LogKeptLevels { warning: 500 << 20, critical: 2 << 30 })
        );
        assert_eq!(levels("warnlogkept 10 critical 11"), Ok(LogKeptLevels { warning: 10, critical: 11 }));
        for (line, words) in [
            ("WARNLOGKEPT 4X, CRITICAL 5G", "`4X` is not a size"),
            ("WARNLOGKEPT 4G", "CRITICAL size is missing"),
            ("WARNLOGKEPT 4G, FATAL 5G", "unexpected `FATAL`"),
            ("WARNLOGKEPT 4G, CRITICAL 4096M", "not above"),
            ("WARNLOGKEPT 0, CRITICAL 1", "`0` is not a size"),
            ("WARNLOGKEPT 99999999T, CRITICAL 1", "is not a size"),
        ] {
            assert!(levels(line).is_err_and(|wrong| wrong.contains(words)), "{line}");
        }
    }
}
