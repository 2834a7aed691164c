//! GLOBALS: what holds for a whole home.

use crate::cursor::Cursor;
use crate::diagnostic::Diagnostics;
use crate::suggestion::nearest;

const PARAMETERS: [&str; 1] = ["CHECKPOINTTABLE"];

/// The parameters of the file GLOBALS in a home.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Globals {
    /// CHECKPOINTTABLE: the table that commands mean which name none, as written.
    pub checkpoint_table: Option<String>,
}

/// Reads the file GLOBALS. `file` is what messages call it.
///
/// # Errors
/// [`Diagnostics`] with everything that is wrong.
pub fn parse_globals(text: &str, file: &str) -> Result<Globals, Diagnostics> {
    let mut cursor = Cursor::new(text);
    let (mut globals, mut errors) = (Globals::default(), Vec::new());
    loop {
        cursor.set_across_lines(true);
        let Some(word) = cursor.word() else { break };
        cursor.set_across_lines(false);
        let name = word.value.to_ascii_uppercase();
        match name.as_str() {
            "COMMENT" => cursor.skip_line(),
            "CHECKPOINTTABLE" if globals.checkpoint_table.is_some() => {
                errors.push(cursor.error(word.place, "CHECKPOINTTABLE is given more than once", "keep one of them"));
                cursor.skip_line();
            }
            "CHECKPOINTTABLE" => match cursor.value("the checkpoint table") {
                Ok(table) => globals.checkpoint_table = Some(table.value),
                Err(error) => errors.push(error),
            },
            _ => {
                let next_step = match nearest(word.value, PARAMETERS) {
                    Some(meant) => format!("did you mean {meant}?"),
                    None => format!("GLOBALS knows {}", PARAMETERS.join(", ")),
                };
                errors.push(cursor.error(word.place, format!("unknown parameter `{}`", word.value), next_step));
                cursor.skip_line();
            }
        }
        if let Some(more) = cursor.peek_word() {
            let message = format!("unexpected {} after {name}", cursor.quote(&more));
            errors.push(cursor.error(more.place, message, "write one parameter a line"));
            cursor.skip_line();
        }
    }
    if errors.is_empty() { Ok(globals) } else { Err(Diagnostics { file: file.to_owned(), list: errors }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_named_and_anything_else_is_refused_under_its_word() {
        assert_eq!(parse_globals("", "GLOBALS"), Ok(Globals::default()));
        let text = "-- of this home\ncheckpointtable drover.checkpoints -- for all Replicats\n";
        let globals = Globals { checkpoint_table: Some("drover.checkpoints".to_owned()) };
        assert_eq!(parse_globals(text, "GLOBALS"), Ok(globals));
        for (text, message) in [
            ("CHECKPOINTTABLE", "the checkpoint table is missing"),
            ("CHECKPOINTTABLE a.b\nCHECKPOINTTABLE c.d", "more than once"),
            ("CHECKPONTTABLE a.b", "did you mean CHECKPOINTTABLE?"),
            ("GGSCHEMA ogg", "unknown parameter `GGSCHEMA`"),
            ("CHECKPOINTTABLE a.b c.d", "unexpected `c.d` after CHECKPOINTTABLE"),
        ] {
            let error = parse_globals(text, "GLOBALS").expect_err(text).to_string();
            assert!(error.contains(message) && error.contains("GLOBALS:"), "{error}");
        }
    }
}
