//! Console text to words.

use std::ops::Range;

/// One word of a command, or a mark that stands alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// What it is.
    pub kind: TokenKind,
    /// Byte range in the text that was given to [`split`].
    pub span: Range<usize>,
}

/// The kinds of [`Token`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenKind {
    /// A keyword or a value. Single quotes around a value are taken off; double quotes stay, because they belong to the
    /// table name that they stand in.
    Word(String),
    /// `,`: separates options, and may be left out.
    Comma,
    /// `!` on its own.
    Force,
}

/// A quote that was opened and never closed.
#[derive(Debug, PartialEq, Eq)]
pub struct OpenQuote {
    /// Where the quote stands.
    pub span: Range<usize>,
}

/// Splits `text` into commands. Commands end at `;` or at the end of a line; `&` at the end of a line joins the next one
/// to it, and a line that starts with `--` is a comment.
///
/// # Errors
/// [`OpenQuote`] when a quote is not closed.
pub fn split(text: &str) -> Result<Vec<Vec<Token>>, OpenQuote> {
    let mut commands = Vec::new();
    let mut command: Vec<Token> = Vec::new();
    let mut rest = 0;
    while let Some(first) = text[rest..].chars().next() {
        let next = rest + first.len_utf8();
        match first {
            ';' | '\n' => {
                commands.push(std::mem::take(&mut command));
                rest = next;
            }
            '&' if text[next..].trim_start_matches([' ', '\t', '\r']).starts_with('\n') => {
                rest = next + text[next..].find('\n').map_or(0, |end| end + 1);
            }
            '-' if command.is_empty() && text[rest..].starts_with("--") => {
                rest = text[rest..].find('\n').map_or(text.len(), |end| rest + end);
            }
            ',' => {
                command.push(Token { kind: TokenKind::Comma, span: rest..next });
                rest = next;
            }
            _ if first.is_whitespace() => rest = next,
            _ => {
                let (word, end) = take_word(text, rest)?;
                let kind = if word == "!" { TokenKind::Force } else { TokenKind::Word(word) };
                command.push(Token { kind, span: rest..end });
                rest = end;
            }
        }
    }
    commands.push(command);
    commands.retain(|command| !command.is_empty());
    Ok(commands)
}

fn take_word(text: &str, start: usize) -> Result<(String, usize), OpenQuote> {
    let mut word = String::new();
    let mut characters = text[start..].char_indices();
    while let Some((offset, character)) = characters.next() {
        match character {
            '\'' | '"' => {
                let open = start + offset;
                if character == '"' {
                    word.push(character);
                }
                loop {
                    match characters.next() {
                        None => return Err(OpenQuote { span: open..open + 1 }),
                        Some((_, closing)) if closing == character => break,
                        Some((_, inside)) => word.push(inside),
                    }
                }
                if character == '"' {
                    word.push(character);
                }
            }
            ',' | ';' => return Ok((word, start + offset)),
            _ if character.is_whitespace() => return Ok((word, start + offset)),
            _ => word.push(character),
        }
    }
    Ok((word, text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<Vec<String>> {
        let name = |token: Token| match token.kind {
            TokenKind::Word(word) => word,
            TokenKind::Comma => ",".to_owned(),
            TokenKind::Force => "!".to_owned(),
        };
        split(text).expect("closed quotes").into_iter().map(|command| command.into_iter().map(name).collect()).collect()
    }

    #[test]
    fn commands_end_at_semicolons_and_lines() {
        assert_eq!(
            words("INFO ALL; DELETE EXTRACT e1 !\n -- a remark; more\nADD &\n EXTRACT e1,TRANLOG;;"),
            [vec!["INFO", "ALL"], vec!["DELETE", "EXTRACT", "e1", "!"], vec!["ADD", "EXTRACT", "e1", ",", "TRANLOG"]]
        );
    }

    #[test]
    fn quotes_keep_separators() {
        assert_eq!(
            words("DBLOGIN SOURCEDB 'sqlite:a b;c.db'; ADD CHECKPOINTTABLE main.\"a, b\""),
            [vec!["DBLOGIN", "SOURCEDB", "sqlite:a b;c.db"], vec!["ADD", "CHECKPOINTTABLE", "main.\"a, b\""]]
        );
        assert_eq!(split("INFO 'ALL"), Err(OpenQuote { span: 5..6 }));
    }
}
