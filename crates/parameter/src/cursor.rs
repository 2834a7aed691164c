//! Reading words, names and literals from the text of a parameter file.
//!
//! Statements end with their line unless `&` stands at its end; TABLE, MAP and the like run over lines up to `;`. A
//! cursor is told which of the two it is in, and never looks past the end of the statement.

use crate::diagnostic::Diagnostic;
use crate::pattern::{NamePattern, Part, Piece};
use crate::secret::secret_ranges;
use std::ops::Range;

/// Characters that end a word when they stand outside quotes.
const PUNCTUATION: &str = ",;()";

/// A place in the text, and the rules by which to go on from there.
pub(crate) struct Cursor<'text> {
    text: &'text str,
    offset: usize,
    /// End of what was read last, blanks after it not included.
    end: usize,
    /// Whether a new line is a blank like any other.
    across_lines: bool,
}

/// What was read, and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Written<T> {
    pub(crate) value: T,
    pub(crate) place: Range<usize>,
}

impl<'text> Cursor<'text> {
    pub(crate) fn new(text: &'text str) -> Cursor<'text> {
        // Editors on some systems put a byte order mark in front of a text file.
        let offset = if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
        Cursor { text, offset, end: offset, across_lines: true }
    }

    pub(crate) fn text(&self) -> &'text str {
        self.text
    }

    /// The place that is read next, as a byte offset.
    pub(crate) fn offset(&self) -> usize {
        self.offset
    }

    /// Sets whether the statement runs over lines, up to `;`.
    pub(crate) fn set_across_lines(&mut self, across_lines: bool) {
        self.across_lines = across_lines;
    }

    /// The place just after what was read last.
    pub(crate) fn end_place(&self) -> Range<usize> {
        self.end..self.end
    }

    pub(crate) fn error(
        &self,
        place: Range<usize>,
        message: impl Into<String>,
        next_step: impl Into<String>,
    ) -> Diagnostic {
        Diagnostic::new(self.text, place, message, next_step)
    }

    /// A word as a message may quote it. One that may belong to a secret is not shown.
    pub(crate) fn quote(&self, word: &Written<&str>) -> String {
        let line_start = self.text[..word.place.start].rfind('\n').map_or(0, |newline| newline + 1);
        let line = self.text[line_start..].lines().next().unwrap_or_default();
        let place = word.place.start - line_start..word.place.end - line_start;
        let is_secret = secret_ranges(line).iter().any(|range| range.start < place.end && place.start < range.end);
        if is_secret { "text".to_owned() } else { format!("`{}`", word.value) }
    }

    /// Passes blanks, comments and continued line ends, and says whether the text or the statement goes on.
    pub(crate) fn skip_blanks(&mut self) -> bool {
        loop {
            let rest = self.rest();
            let Some(character) = rest.chars().next() else { return false };
            if character == '\n' && !self.across_lines {
                return false;
            } else if character.is_whitespace() {
                self.offset += character.len_utf8();
            } else if rest.starts_with("--") {
                self.skip_line();
            } else if character == '&' && continues_line(&rest[1..]) {
                self.offset += 1;
                self.skip_line();
                self.offset += self.rest().chars().next().map_or(0, char::len_utf8);
            } else {
                return true;
            }
        }
    }

    /// Goes to the end of the line.
    pub(crate) fn skip_line(&mut self) {
        self.offset += self.rest().find('\n').unwrap_or(self.rest().len());
    }

    /// The next character of the statement.
    pub(crate) fn peek(&mut self) -> Option<char> {
        if self.skip_blanks() { self.rest().chars().next() } else { None }
    }

    /// Reads `mark` if it comes next.
    pub(crate) fn take(&mut self, mark: char) -> bool {
        let found = self.peek() == Some(mark);
        if found {
            self.offset += mark.len_utf8();
            self.end = self.offset;
        }
        found
    }

    /// Takes the `(` behind `owner`, which stands at `place`.
    pub(crate) fn open(&mut self, place: Range<usize>, owner: &str, usage: &str) -> Result<(), Diagnostic> {
        if self.take('(') { Ok(()) } else { Err(self.error(place, format!("`(` is missing behind {owner}"), usage)) }
    }

    /// Takes a `)`.
    pub(crate) fn close(&mut self, usage: &str) -> Result<(), Diagnostic> {
        if self.take(')') {
            return Ok(());
        }
        let place = self.peek_word().map_or(self.end_place(), |word| word.place);
        Err(self.error(place, "`)` is missing", usage))
    }

    /// The next word, without reading it: letters, digits and other characters up to a blank or punctuation.
    pub(crate) fn peek_word(&mut self) -> Option<Written<&'text str>> {
        self.skip_blanks().then_some(())?;
        let rest = self.rest();
        let length = rest
            .find(|character: char| character.is_whitespace() || PUNCTUATION.contains(character))
            .unwrap_or(rest.len());
        (length > 0).then(|| Written { value: &rest[..length], place: self.offset..self.offset + length })
    }

    /// Reads the next word.
    pub(crate) fn word(&mut self) -> Option<Written<&'text str>> {
        let word = self.peek_word()?;
        self.offset = word.place.end;
        self.end = self.offset;
        Some(word)
    }

    /// Reads a value such as a path or URL: everything up to a blank, or a literal in single quotes in which two quotes
    /// stand for one.
    ///
    /// # Errors
    /// When nothing is there, when the literal does not end, or when `,` or `;` hangs on the value.
    pub(crate) fn value(&mut self, what: &str) -> Result<Written<String>, Diagnostic> {
        if !self.skip_blanks() {
            return Err(self.error(self.end_place(), format!("{what} is missing"), format!("write {what} here")));
        }
        let start = self.offset;
        let rest = self.rest();
        if rest.starts_with('\'') {
            return self.quoted('\'').map(|value| Written { value, place: start..self.offset });
        }
        let length = rest.find(char::is_whitespace).unwrap_or(rest.len());
        let value = &rest[..length];
        if let Some(mark) = value.chars().next_back().filter(|mark| matches!(mark, ',' | ';')) {
            let place = start + length - 1..start + length;
            let next_step = format!("remove it, or write {what} in single quotes if it ends so");
            return Err(self.error(place, format!("unexpected `{mark}` after {what}"), next_step));
        }
        self.offset += length;
        self.end = self.offset;
        Ok(Written { value: value.to_owned(), place: start..self.offset })
    }

    /// Reads a value that a comma may follow: it ends before one.
    ///
    /// # Errors
    /// As [`value`](Cursor::value).
    pub(crate) fn list_value(&mut self, what: &str) -> Result<Written<String>, Diagnostic> {
        if !self.skip_blanks() || self.rest().starts_with('\'') {
            return self.value(what);
        }
        let start = self.offset;
        let rest = self.rest();
        let length = rest.find(|character: char| character.is_whitespace() || character == ',').unwrap_or(rest.len());
        if length == 0 || rest[..length].ends_with(';') {
            return self.value(what);
        }
        self.offset += length;
        self.end = self.offset;
        Ok(Written { value: rest[..length].to_owned(), place: start..self.offset })
    }

    /// Reads a table name with wildcards.
    ///
    /// # Errors
    /// When none is there, when it has an empty part or more than two, or when a quote does not end.
    pub(crate) fn name_pattern(&mut self, what: &str) -> Result<Written<NamePattern>, Diagnostic> {
        let start = self.name_start(what)?;
        let mut parts = vec![self.part()?];
        while self.rest().starts_with('.') {
            self.offset += 1;
            self.end = self.offset;
            parts.push(self.part()?);
        }
        let place = start..self.offset;
        let mut parts = parts.into_iter();
        let pattern = match (parts.next(), parts.next(), parts.next()) {
            (Some(table), None, None) => NamePattern { schema: None, table },
            (Some(schema), Some(table), None) => NamePattern { schema: Some(schema), table },
            _ => {
                let next_step = "write table or schema.table; put a part that holds a dot in double quotes";
                return Err(self.error(place, "a table name has at most two parts", next_step));
            }
        };
        Ok(Written { value: pattern, place })
    }

    /// Reads `[schema.]table.partition` with wildcards.
    ///
    /// # Errors
    /// When none is there, when it has an empty part, less than two parts or more than three, or when a quote does not end.
    pub(crate) fn partition_pattern(&mut self) -> Result<Written<(NamePattern, Part)>, Diagnostic> {
        let start = self.name_start("the partition")?;
        let mut parts = vec![self.part()?];
        while self.rest().starts_with('.') {
            self.offset += 1;
            self.end = self.offset;
            parts.push(self.part()?);
        }
        let place = start..self.offset;
        let mut parts = parts.into_iter();
        let value = match (parts.next(), parts.next(), parts.next(), parts.next()) {
            (Some(table), Some(partition), None, None) => (NamePattern { schema: None, table }, partition),
            (Some(schema), Some(table), Some(partition), None) => {
                (NamePattern { schema: Some(schema), table }, partition)
            }
            _ => {
                let text = &self.text()[place.clone()];
                let next_step = "write table.partition or schema.table.partition";
                return Err(self.error(place, format!("`{text}` names no partition of a table"), next_step));
            }
        };
        Ok(Written { value, place })
    }

    /// Reads a column name: a word, or anything in double quotes. Says whether it was quoted.
    ///
    /// # Errors
    /// When none is there or a quote does not end.
    pub(crate) fn column_name(&mut self) -> Result<Written<(String, bool)>, Diagnostic> {
        let start = self.name_start("a column name")?;
        if self.rest().starts_with('"') {
            let name = self.quoted('"')?;
            return Ok(Written { value: (name, true), place: start..self.offset });
        }
        let word = self.word().map(|word| word.value.to_owned()).unwrap_or_default();
        Ok(Written { value: (word, false), place: start..self.offset })
    }

    /// Passes over the rest of a statement that could not be understood: up to the end of its line, or up to `;` or the
    /// line that starts another statement, which `is_parameter` tells.
    pub(crate) fn recover(&mut self, is_parameter: impl Fn(&str) -> bool) {
        if self.across_lines {
            self.offset = self.end;
        }
        while self.skip_blanks() {
            if self.across_lines && (self.take(';') || self.starts_statement(&is_parameter)) {
                return;
            }
            let word = self.peek_word().map(|word| word.place.end);
            self.offset = word.unwrap_or_else(|| self.offset + self.rest().chars().next().map_or(0, char::len_utf8));
        }
    }

    /// Whether the next word is the first of its line and the name of a parameter.
    pub(crate) fn starts_statement(&mut self, is_parameter: impl Fn(&str) -> bool) -> bool {
        let Some(word) = self.peek_word() else { return false };
        let line_start = self.text[..word.place.start].rfind('\n').map_or(0, |newline| newline + 1);
        self.text[line_start..word.place.start].trim().is_empty() && is_parameter(word.value)
    }

    fn rest(&self) -> &'text str {
        &self.text[self.offset..]
    }

    fn name_start(&mut self, what: &str) -> Result<usize, Diagnostic> {
        let wrong = match self.peek() {
            None => Some((self.end_place(), format!("{what} is missing"))),
            Some(mark) if PUNCTUATION.contains(mark) => {
                let place = self.offset..self.offset + mark.len_utf8();
                Some((place, format!("{what} is missing before `{mark}`")))
            }
            Some('\'') => Some((self.offset..self.offset + 1, format!("{what} can't stand in single quotes"))),
            Some(_) => None,
        };
        match wrong {
            None => Ok(self.offset),
            Some((place, message)) => {
                let next_step = format!("write {what} here; double quotes keep its case and special characters");
                Err(self.error(place, message, next_step))
            }
        }
    }

    fn part(&mut self) -> Result<Part, Diagnostic> {
        let start = self.offset;
        let mut pieces: Vec<Piece> = Vec::new();
        loop {
            let rest = self.rest();
            match rest.chars().next() {
                Some('"') => pieces.push(Piece::Text { text: self.quoted('"')?, quoted: true }),
                Some('*') => {
                    self.offset += 1;
                    // Two wildcards side by side are one.
                    if pieces.last() != Some(&Piece::Wildcard) {
                        pieces.push(Piece::Wildcard);
                    }
                }
                Some(character) if is_plain(character) => {
                    let length = rest.find(|character| !is_plain(character)).unwrap_or(rest.len());
                    pieces.push(Piece::Text { text: rest[..length].to_owned(), quoted: false });
                    self.offset += length;
                }
                _ => break,
            }
        }
        self.end = self.offset;
        if pieces.is_empty() {
            let next_step = "write table or schema.table; put a name that is empty or holds a dot in double quotes";
            return Err(self.error(start..start, "a part of the table name is empty", next_step));
        }
        Ok(Part { pieces })
    }

    /// Reads text in `mark` quotes; two marks stand for one. It may not run over the end of a line.
    fn quoted(&mut self, mark: char) -> Result<String, Diagnostic> {
        let start = self.offset;
        let mut text = String::new();
        let mut characters = self.rest().char_indices().skip(1).peekable();
        while let Some((place, character)) = characters.next() {
            if character == '\n' {
                break;
            } else if character != mark {
                text.push(character);
            } else if characters.next_if(|(_, next)| *next == mark).is_some() {
                text.push(mark);
            } else {
                self.offset = start + place + mark.len_utf8();
                self.end = self.offset;
                return Ok(text);
            }
        }
        let next_step = format!("end it with `{mark}`; inside, write `{mark}{mark}` for one `{mark}`");
        Err(self.error(
            start..start + 1,
            format!("the text that starts with `{mark}` does not end in its line"),
            next_step,
        ))
    }
}

fn is_plain(character: char) -> bool {
    !character.is_whitespace() && !PUNCTUATION.contains(character) && !matches!(character, '.' | '*' | '"' | '\'')
}

/// Whether nothing but blanks and a comment follows in the line, so that `&` before it continues the line.
fn continues_line(rest: &str) -> bool {
    let line = rest.split('\n').next().unwrap_or_default().trim_start();
    line.trim_end().is_empty() || line.starts_with("--")
}
