//! Words, names, literals and marks of SQL, as far as statements have to be told apart.

use std::ops::Range;

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A word without quotes: a keyword, or a name that is folded to lower case.
    Word,
    /// A name in double quotes.
    Quoted,
    /// A literal of any kind.
    Literal,
    /// Any other character by itself.
    Mark(char),
}

/// A token and its place in the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) kind: Kind,
    pub(super) place: Range<usize>,
}

impl Token {
    /// Whether it is this keyword, given in upper case.
    pub(super) fn is(&self, text: &str, keyword: &str) -> bool {
        self.kind == Kind::Word && text[self.place.clone()].eq_ignore_ascii_case(keyword)
    }

    /// Whether it is this mark.
    pub(super) fn is_mark(&self, mark: char) -> bool {
        self.kind == Kind::Mark(mark)
    }

    /// The name that it stands for.
    pub(super) fn name(&self, text: &str) -> Option<String> {
        let written = &text[self.place.clone()];
        match self.kind {
            Kind::Word => Some(written.to_ascii_lowercase()),
            Kind::Quoted => {
                let inner = written.strip_prefix('"')?.strip_suffix('"')?;
                Some(inner.replace("\"\"", "\""))
            }
            Kind::Literal | Kind::Mark(_) => None,
        }
    }
}

/// The tokens of `text`. A comment is none. What does not end is a token up to the end.
pub(super) fn tokens(text: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(character) = text[at..].chars().next() {
        let rest = &text[at..];
        let (length, kind) = match character {
            _ if character.is_whitespace() => (character.len_utf8(), None),
            '-' if rest.starts_with("--") => (rest.find('\n').unwrap_or(rest.len()), None),
            '/' if rest.starts_with("/*") => (comment(rest), None),
            '\'' => (quoted(rest, '\'', false), Some(Kind::Literal)),
            '"' => (quoted(rest, '"', false), Some(Kind::Quoted)),
            '$' => match dollar(rest) {
                Some(length) => (length, Some(Kind::Literal)),
                None => (1 + digits(&rest[1..]), Some(Kind::Literal)),
            },
            _ if is_start(character) => {
                let word = word(rest);
                match prefix(&rest[..word], &rest[word..]) {
                    Some((quote, has_escapes)) => {
                        let kind = if quote == '"' { Kind::Quoted } else { Kind::Literal };
                        let mark = word + rest[word..].find(quote).unwrap_or(0);
                        (mark + quoted(&rest[mark..], quote, has_escapes), Some(kind))
                    }
                    None => (word, Some(Kind::Word)),
                }
            }
            _ if character.is_ascii_digit() => (digits(rest), Some(Kind::Literal)),
            _ => (character.len_utf8(), Some(Kind::Mark(character))),
        };
        if let Some(kind) = kind {
            tokens.push(Token { kind, place: at..at + length });
        }
        at += length;
    }
    tokens
}

fn is_start(character: char) -> bool {
    character.is_ascii_alphabetic() || character == '_' || !character.is_ascii()
}

fn word(rest: &str) -> usize {
    rest.find(|character: char| !(is_start(character) || character.is_ascii_digit() || character == '$'))
        .unwrap_or(rest.len())
}

fn digits(rest: &str) -> usize {
    rest.find(|character: char| !(character.is_ascii_alphanumeric() || character == '.' || character == '_'))
        .unwrap_or(rest.len())
}

/// A prefix of a literal or name in quotes: the quote, and whether a backslash takes the next character with it.
fn prefix(word: &str, after: &str) -> Option<(char, bool)> {
    let next = after.chars().next();
    match (word, next) {
        ("e" | "E", Some('\'')) => Some(('\'', true)),
        ("b" | "B" | "x" | "X" | "n" | "N", Some('\'')) => Some(('\'', false)),
        ("u" | "U", Some('&')) => match after[1..].chars().next() {
            Some(quote @ ('\'' | '"')) => Some((quote, false)),
            _ => None,
        },
        _ => None,
    }
}

/// Length of what starts with `quote` here. Two of them inside stand for one.
fn quoted(rest: &str, quote: char, has_escapes: bool) -> usize {
    let mut characters = rest.char_indices().skip(1).peekable();
    while let Some((at, character)) = characters.next() {
        if has_escapes && character == '\\' {
            characters.next();
        } else if character == quote && characters.next_if(|(_, next)| *next == quote).is_none() {
            return at + 1;
        }
    }
    rest.len()
}

/// Length of a literal between dollar signs, if there is one here.
fn dollar(rest: &str) -> Option<usize> {
    let tag = 1 + word(&rest[1..]).min(rest[1..].find('$')?);
    if !rest[tag..].starts_with('$') || rest[1..].starts_with(|character: char| character.is_ascii_digit()) {
        return None;
    }
    let mark = &rest[..=tag];
    Some(rest[tag + 1..].find(mark).map_or(rest.len(), |end| tag + 1 + end + mark.len()))
}

/// Length of a comment, which may hold others.
fn comment(rest: &str) -> usize {
    let mut depth = 0;
    let mut at = 0;
    while at < rest.len() {
        if rest[at..].starts_with("/*") {
            depth += 1;
            at += 2;
        } else if rest[at..].starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += rest[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    rest.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn words(text: &str) -> Vec<&str> {
        tokens(text).into_iter().map(|token| &text[token.place]).collect()
    }

    #[test]
    fn literals_names_and_comments_are_whole() {
        assert_eq!(words("a 'it''s; ' b"), ["a", "'it''s; '", "b"]);
        assert_eq!(words(r"E'a\';b' 'a\' c"), [r"E'a\';b'", r"'a\'", "c"]);
        assert_eq!(words("\"a;\"\"b\".c"), ["\"a;\"\"b\"", ".", "c"]);
        assert_eq!(words("U&\"d;\" u&'x;' x'1F' $1"), ["U&\"d;\"", "u&'x;'", "x'1F'", "$1"]);
        assert_eq!(words("$$a;$x$b$$ $x$ ; $$ ; $x$ c$d"), ["$$a;$x$b$$", "$x$ ; $$ ; $x$", "c$d"]);
        assert_eq!(words("a -- b; '\n/* x /* ; */ ' */ c"), ["a", "c"]);
        assert_eq!(words("ключ.\"Ключ\" 1.5e3;"), ["ключ", ".", "\"Ключ\"", "1.5e3", ";"]);
        assert_eq!(words("'open"), ["'open"]);
    }

    proptest! {
        #[test]
        fn tokens_lie_one_behind_the_other_in_any_text(text in "\\PC{0,80}") {
            let mut at = 0;
            for token in tokens(&text) {
                prop_assert!(token.place.start >= at && token.place.end > token.place.start);
                at = token.place.end;
            }
            prop_assert!(at <= text.len());
        }

        #[test]
        fn marks_of_sql_in_any_order_do_no_harm(text in "[$a1'\"\\-/*;(eEuU&\\\\x\u{e9} \n]{0,40}") {
            tokens(&text);
        }
    }
}
