//! What is wrong with a parameter file, shown at the place.

use crate::secret::secret_ranges;
use std::fmt;
use std::ops::Range;

/// One thing that is wrong with a parameter file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// What is wrong, in lower case and without a full stop.
    pub message: String,
    /// What the operator can do about it.
    pub next_step: String,
    /// Line, from 1.
    pub line: usize,
    /// Column of the first character that is meant, from 1.
    pub column: usize,
    /// How many characters are meant.
    pub length: usize,
    /// The line, with secrets hidden.
    pub source: String,
    /// Blanks and carets that belong under the line.
    carets: String,
}

impl Diagnostic {
    /// A diagnostic about the bytes `place` of `text`.
    pub(crate) fn new(
        text: &str,
        place: Range<usize>,
        message: impl Into<String>,
        next_step: impl Into<String>,
    ) -> Diagnostic {
        let start = place.start.min(text.len());
        let line_start = text[..start].rfind('\n').map_or(0, |newline| newline + 1);
        let line_end = text[start..].find('\n').map_or(text.len(), |newline| start + newline);
        let end = place.end.clamp(start, line_end.max(start));
        let line = text[line_start..line_end].trim_end();
        let (source, carets) = show(line, start - line_start..end - line_start);
        Diagnostic {
            message: printable(&message.into()),
            next_step: printable(&next_step.into()),
            line: text[..line_start].matches('\n').count() + 1,
            column: text[line_start..start].chars().count() + 1,
            length: text[start..end].chars().count().max(1),
            source,
            carets,
        }
    }
}

/// The line with secrets hidden, and carets that fit under what stands at `meant`.
fn show(line: &str, meant: Range<usize>) -> (String, String) {
    let secrets = secret_ranges(line);
    let (mut source, mut carets) = (String::new(), String::new());
    for (offset, character) in line.char_indices() {
        let secret = secrets.iter().find(|range| range.contains(&offset));
        let shown = match secret {
            Some(range) if range.start == offset => "***".to_owned(),
            Some(_) => continue,
            // A tab would shift the carets by an amount that only the terminal knows.
            None if character == '\t' => " ".to_owned(),
            None if character.is_control() => character.escape_unicode().to_string(),
            None => character.to_string(),
        };
        let mark = if offset == meant.start || meant.contains(&offset) { '^' } else { ' ' };
        carets.extend(shown.chars().map(|_| mark));
        source.push_str(&shown);
    }
    if !carets.contains('^') {
        // The place is the end of the line, or lies inside a secret.
        carets.push('^');
    }
    cut(&source, carets.trim_end())
}

/// Characters of a line that are shown at most, and of those before the place that is meant.
const SHOWN_MAX: usize = 200;
const SHOWN_BEFORE: usize = 60;

/// The part of a long line around the place that is meant, so that it is found on a screen.
fn cut(source: &str, carets: &str) -> (String, String) {
    let length = source.chars().count();
    if length <= SHOWN_MAX {
        return (source.to_owned(), carets.to_owned());
    }
    let first = carets.find('^').unwrap_or(0);
    let from = first.saturating_sub(SHOWN_BEFORE);
    let window = |text: &str| text.chars().skip(from).take(SHOWN_MAX).collect::<String>();
    let before = if from > 0 { "…" } else { "" };
    let after = if from + SHOWN_MAX < length { "…" } else { "" };
    let margin = if from > 0 { " " } else { "" };
    (format!("{before}{}{after}", window(source)), format!("{margin}{}", window(carets)))
}

/// A message that fits a screen and does nothing to a terminal, whatever names stand in it.
fn printable(message: &str) -> String {
    let mut shown = String::new();
    for (count, character) in message.chars().enumerate() {
        if count == 4 * SHOWN_MAX {
            shown.push('…');
            break;
        }
        if character.is_control() && character != '\n' {
            shown.extend(character.escape_unicode());
        } else {
            shown.push(character);
        }
    }
    shown
}

/// All that is wrong with a parameter file, in file order.
///
/// Rendered as `file:line:column: message`, the line itself, carets under the words that are meant, and the next step.
/// Passwords in the shown lines are hidden.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostics {
    /// Name of the file, as given to the parser.
    pub file: String,
    /// At least one.
    pub list: Vec<Diagnostic>,
}

impl fmt::Display for Diagnostics {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, diagnostic) in self.list.iter().enumerate() {
            let number = diagnostic.line.to_string();
            let margin = " ".repeat(number.len());
            if index > 0 {
                formatter.write_str("\n\n")?;
            }
            let Diagnostic { message, next_step, column, source, carets, .. } = diagnostic;
            write!(formatter, "{}:{number}:{column}: {message}", self.file)?;
            write!(formatter, "\n  {number} | {source}\n  {margin} | {carets}\n  {margin} = {next_step}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Diagnostics {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hostile_line_is_shown_in_a_form_that_fits_a_screen() {
        let long = "x".repeat(100_000);
        let text = format!("TABLE \u{0}\u{1b}[2J{long};");
        let diagnostic = Diagnostic::new(&text, 6..7, format!("\u{1b}{long} is no table"), "name one");
        let Diagnostic { source, message, carets, .. } = &diagnostic;
        assert!(source.starts_with("TABLE \\u{0}\\u{1b}[2Jxxx") && source.chars().count() < 210, "{source}");
        assert_eq!(*carets, format!("{}{}", " ".repeat(6), "^".repeat(5)));
        assert!(message.starts_with("\\u{1b}xxx") && message.chars().count() < 810, "{message}");
        let end = Diagnostic::new(&text, text.len() - 1..text.len(), "the end", "none");
        assert!(end.source.starts_with('…') && end.source.ends_with(';'), "{}", end.source);
        assert_eq!(end.source.chars().position(|c| c == ';'), end.carets.find('^'));
    }
}
