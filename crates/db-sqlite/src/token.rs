//! Words of SQL text, as far as the texts in sqlite_schema ask for it.

/// One word, with its place in the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Token<'a> {
    pub(crate) kind: Kind,
    pub(crate) text: &'a str,
    pub(crate) start: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A keyword or a name without quotes.
    Word,
    /// A name or string in quotes of any kind.
    Quoted,
    /// Anything else, one character.
    Sign,
}

impl Token<'_> {
    pub(crate) fn is_word(&self, word: &str) -> bool {
        self.kind == Kind::Word && self.text.eq_ignore_ascii_case(word)
    }

    pub(crate) fn is_sign(&self, sign: &str) -> bool {
        self.kind == Kind::Sign && self.text == sign
    }

    /// Whether the word can stand for the name.
    pub(crate) fn is_name(&self, name: &str) -> bool {
        let text = match self.kind {
            Kind::Word => self.text.to_owned(),
            Kind::Quoted => {
                let quote = self.text.get(..1).unwrap_or_default();
                let inner = self.text.get(1..self.text.len().max(2) - 1).unwrap_or_default();
                inner.replace(&quote.repeat(2), quote)
            }
            Kind::Sign => return false,
        };
        text.eq_ignore_ascii_case(name)
    }

    pub(crate) fn end(&self) -> usize {
        self.start + self.text.len()
    }
}

/// Splits `sql` into words; white space and comments are left out.
pub(crate) fn tokens(sql: &str) -> Vec<Token<'_>> {
    let mut found = Vec::new();
    let mut rest = sql;
    while let Some(first) = rest.chars().next() {
        let start = sql.len() - rest.len();
        let (kind, length) = match first {
            character if character.is_whitespace() => (None, character.len_utf8()),
            '-' if rest.starts_with("--") => (None, rest.find('\n').unwrap_or(rest.len())),
            '/' if rest.starts_with("/*") => (None, rest[2..].find("*/").map_or(rest.len(), |end| end + 4)),
            '\'' | '"' | '`' => (Some(Kind::Quoted), quoted_length(rest, first)),
            '[' => (Some(Kind::Quoted), rest.find(']').map_or(rest.len(), |end| end + 1)),
            character if is_word_part(character) => {
                (Some(Kind::Word), rest.find(|other| !is_word_part(other)).unwrap_or(rest.len()))
            }
            character => (Some(Kind::Sign), character.len_utf8()),
        };
        let (text, after) = rest.split_at(length);
        found.extend(kind.map(|kind| Token { kind, text, start }));
        rest = after;
    }
    found
}

fn is_word_part(character: char) -> bool {
    character.is_ascii_alphanumeric() || character == '_' || character == '$' || !character.is_ascii()
}

/// Length of a quoted word with its quotes; a doubled quote stands for one.
fn quoted_length(text: &str, quote: char) -> usize {
    let mut places = text.char_indices().skip(1).peekable();
    while let Some((place, character)) = places.next() {
        if character == quote && places.next_if(|(_, next)| *next == quote).is_none() {
            return place + 1;
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_and_comments_hide_what_they_hold() {
        let sql = "CREATE -- (x\nTABLE \"a\"\"b(\" /* ( */ ([c)d], 'it''s (', ключ)";
        let words: Vec<&str> = tokens(sql).iter().map(|token| token.text).collect();
        assert_eq!(words, ["CREATE", "TABLE", "\"a\"\"b(\"", "(", "[c)d]", ",", "'it''s ('", ",", "ключ", ")"]);
    }

    #[test]
    fn a_name_is_known_in_any_dress() {
        for dress in ["id", "ID", "\"Id\"", "`id`", "[iD]", "'id'"] {
            assert!(tokens(dress)[0].is_name("id"), "{dress}");
        }
        assert!(tokens("\"a\"\"b\"")[0].is_name("a\"b"));
        assert!(!tokens("\"")[0].is_name("id") && !tokens("(")[0].is_name("("));
    }

    #[test]
    fn unfinished_text_ends_somewhere() {
        for sql in ["'abc", "\"", "/* x", "[", "--", "'a''"] {
            assert!(tokens(sql).len() <= 1, "{sql}");
        }
    }
}
