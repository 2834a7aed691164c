//! TRANLOGOPTIONS: how the source's log is read.

use crate::cursor::Cursor;
use crate::diagnostic::Diagnostic;
use crate::file::Raw;
use std::ops::Range;

const NEXT_STEP: &str = "write TRANLOGOPTIONS TWOPHASE or TRANLOGOPTIONS NOTWOPHASE";

pub(crate) fn read(cursor: &mut Cursor<'_>, raw: &mut Raw, _: Range<usize>) -> Result<(), Diagnostic> {
    let Some(word) = cursor.word() else {
        return Err(cursor.error(cursor.end_place(), "the option is missing", NEXT_STEP));
    };
    raw.two_phase = match word.value.to_ascii_uppercase().as_str() {
        "TWOPHASE" => Some(true),
        "NOTWOPHASE" => Some(false),
        _ => return Err(cursor.error(word.place, format!("unexpected `{}`", word.value), NEXT_STEP)),
    };
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::parse_extract;

    #[test]
    fn prepared_transactions_are_read_early_only_when_the_operator_says_so() {
        let read = |line: &str| {
            let text = format!("EXTRACT e1\nSOURCEDB sqlite:s.db\nEXTTRAIL ./dirdat/aa\n{line}\nTABLE *;\n");
            parse_extract(&text, "e1.prm").map(|read| read.two_phase).map_err(|wrong| wrong.to_string())
        };
        assert_eq!(read(""), Ok(false));
        assert_eq!(read("TRANLOGOPTIONS TWOPHASE"), Ok(true));
        assert_eq!(read("tranlogoptions notwophase"), Ok(false));
        assert!(read("TRANLOGOPTIONS TWICE").is_err_and(|wrong| wrong.contains("TWICE")));
        assert!(read("TRANLOGOPTIONS").is_err());
    }
}
