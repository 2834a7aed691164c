//! Words to commands, by the table of [`COMMANDS`].

use super::grammar::{COMMANDS, Clause, Form, Shape, Value};
use super::lexer::{self, Token, TokenKind};
use super::suggest;
use std::fmt;
use std::ops::Range;

/// A command that obeys the grammar.
pub struct Command {
    /// Its entry in the table.
    pub form: &'static Form,
    /// The word or words after verb and object.
    pub argument: Option<String>,
    /// The options that were given, with their values.
    pub options: Vec<(&'static str, Option<String>)>,
    /// Whether `!` stands at the end.
    pub force: bool,
    /// As it was typed.
    pub text: String,
}

impl Command {
    /// The argument of a form that requires one.
    pub fn argument(&self) -> &str {
        self.argument.as_deref().expect("the grammar requires the argument")
    }

    /// The value of option `keyword`, if it was given.
    pub fn option(&self, keyword: &str) -> Option<&str> {
        self.options.iter().find(|(name, _)| *name == keyword).and_then(|(_, value)| value.as_deref())
    }

    /// Whether option `keyword` was given.
    pub fn has(&self, keyword: &str) -> bool {
        self.options.iter().any(|(name, _)| *name == keyword)
    }

    /// The value of an option that the grammar requires.
    pub fn required(&self, keyword: &str) -> &str {
        self.option(keyword).expect("the grammar requires the option")
    }
}

/// A text that is not a command. Displays the line, a caret under the wrong word, and what may stand there.
#[derive(Debug)]
pub struct SyntaxError {
    what: String,
    hint: String,
    line: String,
    /// Characters before the wrong word, and its length.
    caret: (usize, usize),
}

impl std::error::Error for SyntaxError {}

impl fmt::Display for SyntaxError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "{}", self.what)?;
        writeln!(formatter, "  {}", self.line)?;
        writeln!(formatter, "  {}{}", " ".repeat(self.caret.0), "^".repeat(self.caret.1.max(1)))?;
        write!(formatter, "  {}", self.hint)
    }
}

/// Reads all commands of `text`, so that a mistake in the last one is found before the first one runs.
///
/// # Errors
/// [`SyntaxError`] for the first mistake.
pub fn parse(text: &str) -> Result<Vec<Command>, SyntaxError> {
    let commands = lexer::split(text).map_err(|quote| {
        error(text, quote.span, "the quote is not closed".to_owned(), "close it with the same character".to_owned())
    })?;
    commands.into_iter().map(|tokens| Words { text, tokens, next: 0 }.command()).collect()
}

struct Words<'a> {
    text: &'a str,
    tokens: Vec<Token>,
    next: usize,
}

impl Words<'_> {
    fn command(mut self) -> Result<Command, SyntaxError> {
        let form = self.form()?;
        let argument = match &form.argument {
            None => None,
            Some(Value { shape: Shape::Words, .. }) => {
                let words: Vec<&str> = self.tokens[self.next..].iter().filter_map(word).collect();
                let words = words.join(" ");
                self.next = self.tokens.len();
                Some(words).filter(|words| !words.is_empty())
            }
            Some(value) if !value.required && self.tokens.get(self.next).and_then(word).is_none() => None,
            Some(value) => Some(self.value(form, value)?),
        };
        let mut options = Vec::new();
        let mut force = false;
        while let Some(token) = self.tokens.get(self.next) {
            self.next += 1;
            match &token.kind {
                TokenKind::Comma => {}
                TokenKind::Force if form.force.is_some() && self.next == self.tokens.len() => force = true,
                TokenKind::Force => {
                    let what = if form.force.is_some() {
                        "! must be the last word of the command".to_owned()
                    } else {
                        format!("{} does not take !", form.name())
                    };
                    return Err(error(self.text, token.span.clone(), what, format!("usage: {}", form.usage())));
                }
                TokenKind::Word(name) => {
                    let Some(clause) = form.clauses.iter().find(|clause| clause.keyword.eq_ignore_ascii_case(name))
                    else {
                        return Err(self.unknown_option(form, name, token.span.clone()));
                    };
                    if options.iter().any(|(keyword, _)| *keyword == clause.keyword) {
                        let what = format!("{} is given twice", clause.keyword);
                        return Err(error(self.text, token.span.clone(), what, format!("usage: {}", form.usage())));
                    }
                    let next_is_word = self.tokens.get(self.next).is_some_and(|token| word(token).is_some());
                    let value = clause.value.as_ref().filter(|value| value.required || next_is_word);
                    let value = value.map(|value| self.value(form, value)).transpose()?;
                    options.push((clause.keyword, value));
                }
            }
        }
        self.require(form, &options)?;
        let text = self.text[self.tokens[0].span.start..self.end()].to_owned();
        Ok(Command { form, argument, options, force, text })
    }

    /// Finds the command's entry by its first one or two words.
    fn form(&mut self) -> Result<&'static Form, SyntaxError> {
        let verbs = distinct(COMMANDS.iter().map(|form| form.verb));
        let list = || format!("commands start with {}; HELP explains them", join(&verbs, "or"));
        let span = self.tokens[0].span.clone();
        let Some(verb) = word(&self.tokens[0]) else {
            return Err(error(self.text, span, "a command starts with a word".to_owned(), list()));
        };
        let Some(verb) = verbs.iter().find(|known| known.eq_ignore_ascii_case(verb)) else {
            let what = format!("there is no command {}", verb.to_uppercase());
            return Err(error(self.text, span, what, suggest::hint(verb, &verbs).unwrap_or_else(list)));
        };
        self.next = 1;
        let forms: Vec<&'static Form> = COMMANDS.iter().filter(|form| form.verb == *verb).collect();
        if let [form] = forms[..]
            && form.object.is_none()
        {
            return Ok(form);
        }
        let objects = distinct(forms.iter().filter_map(|form| form.object));
        let hint = format!("{verb} is followed by {}", join(&objects, "or"));
        let Some(object) = self.tokens.get(1) else {
            return Err(error(self.text, self.end()..self.end(), format!("{verb} of what?"), hint));
        };
        let name = word(object).unwrap_or(",");
        let named: Vec<&&Form> =
            forms.iter().filter(|form| form.object.is_some_and(|known| known.eq_ignore_ascii_case(name))).collect();
        // Forms with the same words are told apart by an option that only one of them must have.
        let is_meant = |form: &&&&'static Form| {
            let needed = form.clauses.iter().filter(|clause| clause.required).map(|clause| clause.keyword);
            let given =
                |keyword: &str| self.tokens.iter().filter_map(word).any(|word| word.eq_ignore_ascii_case(keyword));
            needed.into_iter().any(given)
        };
        match named.iter().find(is_meant).or(named.first()) {
            Some(form) => {
                self.next = 2;
                Ok(form)
            }
            None => {
                let what = format!("{verb} does not know {}", name.to_uppercase());
                let hint = suggest::hint(name, &objects).unwrap_or(hint);
                Err(error(self.text, object.span.clone(), what, hint))
            }
        }
    }

    fn value(&mut self, form: &Form, value: &Value) -> Result<String, SyntaxError> {
        let usage = || format!("usage: {}", form.usage());
        let token = self.tokens.get(self.next);
        let Some((text, span)) = token.and_then(|token| Some((word(token)?, token.span.clone()))) else {
            let span = token.map_or(self.end()..self.end(), |token| token.span.clone());
            return Err(error(self.text, span, format!("the {} is missing", value.name), usage()));
        };
        if value.shape == Shape::Time {
            return Ok(self.time());
        }
        if value.shape == Shape::Moment {
            return self.moment(form);
        }
        let checked = check(value.shape, text);
        self.next += 1;
        checked.map_err(|what| error(self.text, span, what, usage()))
    }

    /// A number and its unit, which may be a word of its own. A word is there.
    fn time(&mut self) -> String {
        let mut text = self.tokens.get(self.next).and_then(word).unwrap_or_default().to_owned();
        self.next += 1;
        if text.bytes().all(|byte| byte.is_ascii_digit())
            && let Some(unit) = self.tokens.get(self.next).and_then(word)
            && UNITS.iter().any(|known| known.eq_ignore_ascii_case(unit))
        {
            text.push_str(unit);
            self.next += 1;
        }
        text
    }

    /// `IMMEDIATE`, `IN time` or `AT date time`, with single spaces.
    fn moment(&mut self, form: &Form) -> Result<String, SyntaxError> {
        let (first, more) = match self.tokens.get(self.next).and_then(word).map(str::to_ascii_uppercase).as_deref() {
            Some("IMMEDIATE") => ("IMMEDIATE", 0),
            Some("IN") => ("IN", 1),
            Some("AT") => ("AT", 2),
            _ => {
                let span = self.tokens[self.next].span.clone();
                let what = "only IMMEDIATE, IN time or AT date time can stand here".to_owned();
                return Err(error(self.text, span, what, format!("usage: {}", form.usage())));
            }
        };
        self.next += 1;
        let mut text = first.to_owned();
        for _ in 0..more {
            let name = if first == "IN" { "time" } else { "date and time" };
            let part = Value { name, shape: Shape::Text, required: true };
            let part = self.value(form, &part)?;
            text = format!("{text} {part}");
            // A date and its time may also be one word, joined by a T or in quotes.
            if first == "AT" && part.contains(['T', 't', ' ']) {
                break;
            }
        }
        Ok(text)
    }

    fn require(&self, form: &Form, options: &[(&'static str, Option<String>)]) -> Result<(), SyntaxError> {
        let given = |clause: &Clause| options.iter().any(|(keyword, _)| *keyword == clause.keyword);
        match form.clauses.iter().find(|clause| clause.required && !given(clause)) {
            None => Ok(()),
            Some(clause) => {
                let what = format!("{} needs {}: {}", form.name(), clause.keyword, clause.help);
                Err(error(self.text, self.end()..self.end(), what, format!("usage: {}", form.usage())))
            }
        }
    }

    fn unknown_option(&self, form: &Form, name: &str, span: Range<usize>) -> SyntaxError {
        let keywords: Vec<&str> = form.clauses.iter().map(|clause| clause.keyword).collect();
        let what = format!("{} has no option {}", form.name(), name.to_uppercase());
        let hint = suggest::hint(name, &keywords).unwrap_or_else(|| format!("usage: {}", form.usage()));
        error(self.text, span, what, hint)
    }

    /// Where the command's last word ends.
    fn end(&self) -> usize {
        self.tokens.last().map_or(0, |token| token.span.end)
    }
}

fn check(shape: Shape, text: &str) -> Result<String, String> {
    match shape {
        Shape::Group => process::GroupName::parse(text).map(|name| name.to_string()).map_err(|error| error.to_string()),
        Shape::Number { least, greatest } => match text.parse::<u32>() {
            Ok(number) if (least..=greatest).contains(&number) => Ok(number.to_string()),
            _ => Err(format!("{text} is not a whole number from {least} to {greatest}")),
        },
        Shape::Choice(words) => match words.iter().find(|known| known.eq_ignore_ascii_case(text)) {
            Some(word) => Ok((*word).to_owned()),
            None => Err(format!("{text} is not {}", join(words, "or"))),
        },
        Shape::Trail => {
            let name = text.rsplit('/').next().unwrap_or(text);
            match trail::TrailName::parse(name) {
                Ok(_) => Ok(text.to_owned()),
                Err(_) => Err(format!("{text} does not end with a trail name of two letters or digits, such as aa")),
            }
        }
        Shape::File => {
            let name = text.rsplit('/').next().unwrap_or(text);
            match (trail::TrailName::parse(name), trail::TrailName::single(name)) {
                (Err(_), Ok(_)) => Ok(text.to_owned()),
                _ => Err(format!("{text} does not end with the name of a single file, such as orders.ext")),
            }
        }
        Shape::Table | Shape::Url | Shape::Text | Shape::Time | Shape::Moment | Shape::Words => Ok(text.to_owned()),
    }
}

/// Units of times, as words of their own.
const UNITS: [&str; 16] = [
    "S", "SEC", "SECS", "SECOND", "SECONDS", "M", "MIN", "MINS", "MINUTE", "MINUTES", "H", "HOUR", "HOURS", "D", "DAY",
    "DAYS",
];

fn word(token: &Token) -> Option<&str> {
    match &token.kind {
        TokenKind::Word(word) => Some(word),
        TokenKind::Comma | TokenKind::Force => None,
    }
}

fn error(text: &str, span: Range<usize>, what: String, hint: String) -> SyntaxError {
    let start = text[..span.start].rfind('\n').map_or(0, |place| place + 1);
    let end = text[span.start..].find('\n').map_or(text.len(), |place| span.start + place);
    let before = text[start..span.start].chars().count();
    let length = text[span.start..span.end.min(end)].chars().count();
    // A word that is missing is shown one column after the last one.
    let caret = if span.is_empty() { (before + 1, 1) } else { (before, length) };
    SyntaxError { what, hint, line: text[start..end].trim_end().to_owned(), caret }
}

fn distinct<'a>(words: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut distinct = Vec::new();
    for word in words {
        if !distinct.contains(&word) {
            distinct.push(word);
        }
    }
    distinct
}

/// `A, B or C`.
pub fn join(words: &[&str], conjunction: &str) -> String {
    match words {
        [] => String::new(),
        [only] => (*only).to_owned(),
        [first @ .., last] => format!("{} {conjunction} {last}", first.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(text: &str) -> String {
        parse(text).map(|_| ()).expect_err("a mistake").to_string()
    }

    #[test]
    fn keywords_ignore_case_and_options_come_in_any_order_with_or_without_commas() {
        for text in
            ["ADD EXTTRAIL ./dirdat/aa, EXTRACT e1, MEGABYTES 7", "add exttrail ./dirdat/aa megabytes 7 extract E1"]
        {
            let command = parse(text).expect("a command").remove(0);
            assert_eq!(command.argument(), "./dirdat/aa");
            assert_eq!(command.required("EXTRACT"), "E1");
            assert_eq!(command.option("MEGABYTES"), Some("7"));
            assert_eq!(command.text, text);
        }
    }

    #[test]
    fn a_mistake_is_shown_under_the_word_with_a_suggestion() {
        assert_eq!(
            refusal("INFO ALL; ADD EXTRCT e1, TRANLOG, BEGIN NOW"),
            "ADD does not know EXTRCT\n  INFO ALL; ADD EXTRCT e1, TRANLOG, BEGIN NOW\n                ^^^^^^\n  did you mean EXTRACT?"
        );
        assert_eq!(
            refusal("ADD EXTTRAIL ./dirdat/aa, EXTRACT e1, MEGABYTES 2001"),
            "2001 is not a whole number from 1 to 2000\n  ADD EXTTRAIL ./dirdat/aa, EXTRACT e1, MEGABYTES 2001\n  \
             \u{20}                                               ^^^^\n  usage: ADD EXTTRAIL trail, EXTRACT group [, MEGABYTES n]"
        );
        assert_eq!(
            refusal("ADD EXTRACT e1, TRANLOG"),
            "ADD EXTRACT needs BEGIN: the first change to capture: NOW is the moment of this command, not of the first start\n  \
             ADD EXTRACT e1, TRANLOG\n                          ^\n  usage: ADD EXTRACT group, TRANLOG, BEGIN NOW"
        );
        assert!(refusal("DLETE EXTRACT e1").contains("did you mean DELETE?"));
        assert!(refusal("INFO").contains(
            "INFO is followed by DISTPATH, ALL, EXTRACT, REPLICAT, CHECKPOINTTABLE, TRANDATA, SCHEMATRANDATA, \
             RMTTRAIL, CERTIFICATE, PEER, MASTERKEY, ERRORQUEUE, ERRORS, ERROR or HEARTBEATTABLE"
        ));
        assert!(refusal("INFO ALL !").contains("INFO ALL does not take !"));
        assert!(refusal("DELETE EXTRACT ! e1").contains("the group is missing"));
        assert!(refusal("ADD EXTRACT e1, TRANLOG, TRANLOG, BEGIN NOW").contains("TRANLOG is given twice"));
        assert!(refusal("ADD EXTTRAIL ./dirdat/aaa, EXTRACT e1").contains("two letters"));
        assert!(refusal("ADD EXTRACT waytoolongname, TRANLOG, BEGIN NOW").contains("waytoolongname"));
    }

    #[test]
    fn the_line_with_the_mistake_is_shown_alone() {
        let shown = refusal("INFO ALL\nINFO каталог\nINFO ALL");
        assert!(shown.contains("\n  INFO каталог\n       ^^^^^^^\n"), "{shown}");
    }
}
