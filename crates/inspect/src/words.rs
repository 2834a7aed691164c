//! The words of a command.

/// What is left of a command.
#[derive(Clone, Debug)]
pub struct Words<'a> {
    rest: &'a str,
}

impl<'a> Words<'a> {
    /// The words of a text.
    pub fn new(text: &'a str) -> Words<'a> {
        Words { rest: text.trim() }
    }

    /// What has not been read.
    pub fn rest(&self) -> &'a str {
        self.rest
    }

    /// Whether everything has been read.
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Everything that is left.
    pub fn take_rest(&mut self) -> &'a str {
        std::mem::take(&mut self.rest)
    }

    /// Goes on behind so many bytes, which the caller has looked at.
    pub fn skip_bytes(&mut self, count: usize) {
        self.rest = self.rest.get(count..).unwrap_or_default().trim_start();
    }

    /// The next word. Blanks and commas end it, but not inside quotes, which are taken off.
    pub fn next_word(&mut self) -> Option<String> {
        self.rest = self.rest.trim_start_matches([' ', '\t', ',']);
        let first = self.rest.chars().next()?;
        if first == '"' || first == '\'' {
            return self.quoted(first);
        }
        let end = self.rest.find([' ', '\t', ',']).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest.trim_start();
        Some(word.to_owned())
    }

    /// The next word; slashes are quotes as well.
    pub fn next_text(&mut self) -> Option<String> {
        if self.rest.starts_with('/') { self.quoted('/') } else { self.next_word() }
    }

    fn quoted(&mut self, mark: char) -> Option<String> {
        let inside = &self.rest[mark.len_utf8()..];
        let (text, rest) = inside.split_once(mark).unwrap_or((inside, ""));
        self.rest = rest.trim_start();
        Some(text.to_owned())
    }

    /// Words that commas separate, up to one that no comma follows.
    pub fn list(&mut self) -> Vec<String> {
        let mut list = Vec::new();
        while let Some(word) = self.next_word() {
            list.push(word);
            if !self.rest.starts_with(',') {
                break;
            }
        }
        list
    }

    /// Goes on behind the keyword if it comes next, in any case.
    pub fn take_keyword(&mut self, keyword: &str) -> bool {
        self.rest = self.rest.trim_start_matches([' ', '\t', ',']);
        let Some(head) = self.rest.get(..keyword.len()) else { return false };
        let behind = &self.rest[keyword.len()..];
        let is_whole = behind.is_empty() || behind.starts_with([' ', '\t', ',', ';']);
        let is_it = head.eq_ignore_ascii_case(keyword) && is_whole;
        if is_it {
            self.rest = behind.trim_start();
        }
        is_it
    }
}

/// The commands of a line: `;` stands between them, but not inside quotes or slashes.
pub fn commands(line: &str) -> Vec<&str> {
    let mut commands = Vec::new();
    let (mut start, mut quote) = (0, None);
    let mut before = ' ';
    for (place, character) in line.char_indices() {
        match quote {
            Some(mark) if character == mark => quote = None,
            Some(_) => {}
            None if character == '"' || character == '\'' => quote = Some(character),
            // A slash inside a word is part of a path.
            None if character == '/' && before.is_whitespace() && opens_text(&line[..place]) => quote = Some('/'),
            None if character == ';' => {
                commands.push(line[start..place].trim());
                start = place + 1;
            }
            None => {}
        }
        before = character;
    }
    commands.push(line[start..].trim());
    commands.retain(|command| !command.is_empty());
    commands
}

/// Whether a slash behind this text opens the text of STRING, not a path.
fn opens_text(before: &str) -> bool {
    let last = before.split_whitespace().next_back().unwrap_or_default().to_ascii_uppercase();
    let last = last.trim_end_matches(['=', '<', '>', '!']);
    matches!(last, "STRING" | "BOTH" | "EQ" | "NE" | "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_end_at_blanks_and_commas_and_quotes_hold_them_together() {
        let mut words = Words::new("include  rectype insert, delete /a b/ 0:3");
        assert!(words.take_keyword("INCLUDE") && !words.take_keyword("REC"));
        assert_eq!(words.next_word().as_deref(), Some("rectype"));
        assert_eq!(words.list(), ["insert", "delete"]);
        assert_eq!(words.next_text().as_deref(), Some("a b"));
        assert_eq!((words.next_word().as_deref(), words.next_word()), (Some("0:3"), None));
        assert_eq!(Words::new("'it, is' x").next_word().as_deref(), Some("it, is"));
    }

    #[test]
    fn a_line_holds_several_commands() {
        let line = "filter inc string /a;b/; open ./x/y ;; n 5";
        assert_eq!(commands(line), ["filter inc string /a;b/", "open ./x/y", "n 5"]);
        assert_eq!(commands("open /data/a; n"), ["open /data/a", "n"]);
        assert!(commands("  ").is_empty());
    }
}
