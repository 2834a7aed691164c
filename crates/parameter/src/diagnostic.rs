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
    /// The line as it stands in the file. It may hold a secret; rendering hides it.
    source: String,
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
        Diagnostic {
            message: message.into(),
            next_step: next_step.into(),
            line: text[..line_start].matches('\n').count() + 1,
            column: text[line_start..start].chars().count() + 1,
            length: text[start..end].chars().count().max(1),
            source: text[line_start..line_end].trim_end_matches('\r').to_owned(),
        }
    }

    /// Writes the line with secrets hidden, and returns the caret line that belongs under it.
    fn shown(&self) -> (String, String) {
        let secrets = secret_ranges(&self.source);
        let (mut line, mut carets) = (String::new(), String::new());
        for (place, (offset, character)) in self.source.char_indices().enumerate() {
            let meant = (self.column..self.column + self.length).contains(&(place + 1));
            let secret = secrets.iter().find(|range| range.contains(&offset));
            let shown = match secret {
                Some(range) if range.start == offset => "***".to_owned(),
                Some(_) => continue,
                // A tab would shift the carets by an amount that only the terminal knows.
                None if character == '\t' => " ".to_owned(),
                None => character.to_string(),
            };
            carets.extend(shown.chars().map(|_| if meant { '^' } else { ' ' }));
            line.push_str(&shown);
        }
        if !carets.contains('^') {
            // The place is the end of the line, or a part of a secret.
            carets.push('^');
        }
        (line.trim_end().to_owned(), carets.trim_end().to_owned())
    }
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
            let (line, carets) = diagnostic.shown();
            let number = diagnostic.line.to_string();
            let margin = " ".repeat(number.len());
            if index > 0 {
                formatter.write_str("\n\n")?;
            }
            let Diagnostic { message, next_step, column, .. } = diagnostic;
            write!(formatter, "{}:{number}:{column}: {message}", self.file)?;
            write!(formatter, "\n  {number} | {line}\n  {margin} | {carets}\n  {margin} = {next_step}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Diagnostics {}
