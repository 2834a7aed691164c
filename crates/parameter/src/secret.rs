//! Secrets that stand in parameter files, and how they are kept out of everything that is shown.

use std::fmt;
use std::ops::Range;

/// What is shown in place of a secret.
const MASK: &str = "***";

/// Words after which a secret stands in the parameter files of the field.
const SECRET_WORD: &str = "password";

/// Settings whose value is a secret, in connection URLs and in `name=value` connection strings.
const SECRET_SETTINGS: [&str; 4] = ["sslpassword=", "password=", "passwd=", "pwd="];

/// Where a database is reached, such as `sqlite:PATH` or `postgres://user:password@host/database`.
///
/// Both `Display` and `Debug` hide passwords; only [`reveal`](DatabaseUrl::reveal) gives the text to connect with.
#[derive(Clone, PartialEq, Eq)]
pub struct DatabaseUrl(String);

impl DatabaseUrl {
    /// A URL as the operator wrote it.
    pub fn new(text: impl Into<String>) -> DatabaseUrl {
        DatabaseUrl(text.into())
    }

    /// The whole text, secrets included. For opening connections only.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// The part before the first colon, which names the database product: `sqlite`, `postgres`, …
    pub fn scheme(&self) -> &str {
        self.0.split_once(':').map_or("", |(scheme, _)| scheme)
    }

    /// The part after the first colon: for SQLite the path of the file.
    ///
    /// It may hold a secret, like [`reveal`](DatabaseUrl::reveal).
    pub fn reveal_after_scheme(&self) -> &str {
        self.0.split_once(':').map_or("", |(_, rest)| rest)
    }
}

impl fmt::Display for DatabaseUrl {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(&mask_secrets(&self.0))
    }
}

impl fmt::Debug for DatabaseUrl {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "DatabaseUrl({:?})", mask_secrets(&self.0))
    }
}

/// The text of a parameter file as it may be shown: passwords are replaced by `***`.
///
/// Where it is not clear how far a password reaches, more is hidden rather than less.
pub fn mask_secrets(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let mut end = 0;
        for secret in secret_ranges(line) {
            shown.push_str(&line[end..secret.start]);
            shown.push_str(MASK);
            end = secret.end;
        }
        shown.push_str(&line[end..]);
    }
    shown
}

/// Ranges of `line` that hold secrets, in order and apart from each other.
pub(crate) fn secret_ranges(line: &str) -> Vec<Range<usize>> {
    let mut found: Vec<Range<usize>> = url_passwords(line).chain(settings(line)).chain(keywords(line)).collect();
    found.sort_by_key(|range| range.start);
    let mut apart: Vec<Range<usize>> = Vec::new();
    for range in found {
        match apart.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => apart.push(range),
        }
    }
    apart
}

/// Passwords of `scheme://user:password@host`. A password may hold an unescaped `@`, `/` or blank by mistake, so it is taken
/// to reach to the last `@` of the word, or of the line when the word has none.
fn url_passwords(line: &str) -> impl Iterator<Item = Range<usize>> + '_ {
    line.match_indices("://").filter_map(move |(place, mark)| {
        let start = place + mark.len();
        let end = value_end(line, start, |character| character.is_whitespace());
        let at = line[start..end].rfind('@').or_else(|| line[start..].rfind('@'))?;
        let colon = line[start..start + at].find(':')?;
        Some(start + colon + 1..start + at)
    })
}

fn settings(line: &str) -> impl Iterator<Item = Range<usize>> + '_ {
    let lower = line.to_ascii_lowercase();
    SECRET_SETTINGS.into_iter().flat_map(move |name| {
        let places: Vec<usize> = lower.match_indices(name).map(|(place, _)| place + name.len()).collect();
        places
            .into_iter()
            .map(move |start| start..value_end(line, start, |character| character.is_whitespace() || character == '&'))
    })
}

fn keywords(line: &str) -> impl Iterator<Item = Range<usize>> + '_ {
    let lower = line.to_ascii_lowercase();
    let places: Vec<usize> = lower
        .match_indices(SECRET_WORD)
        .filter(|(place, _)| {
            line[..*place].chars().next_back().is_none_or(|before| before.is_whitespace() || before == ',')
        })
        .map(|(place, word)| place + word.len())
        .collect();
    places.into_iter().filter_map(move |place| {
        let rest = &line[place..];
        let value = rest.trim_start();
        let start = place + rest.len() - value.len();
        let end = value_end(line, start, |character| character.is_whitespace() || character == ',');
        (start > place && end > start).then_some(start..end)
    })
}

/// End of the value that starts at `start`: the first character that `stops` it. Inside a literal in single quotes
/// blanks are part of the value, so there it reaches to the end of the line.
fn value_end(line: &str, start: usize, stops: impl Fn(char) -> bool) -> usize {
    let inside_literal = line[..start].matches('\'').count() % 2 == 1;
    let begins_literal = line[start..].starts_with('\'');
    let rest = &line[start..];
    let line_end = rest.trim_end_matches(['\n', '\r']).len();
    let end = if inside_literal || begins_literal {
        rest[..line_end].rfind('\'').filter(|end| *end > 0).unwrap_or(line_end)
    } else {
        rest.find(stops).unwrap_or(line_end)
    };
    start + end.min(line_end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_password_is_shown_wherever_it_stands() {
        for text in [
            "postgres://scott:TIGER@host:5432/sales",
            "SOURCEDB postgres://scott:TIGER@host/sales?sslmode=require",
            "SOURCEDB 'postgres://scott:TIGER TIGER@host/sales'",
            "postgres://scott:TI@TIGER/TIGER@host/sales",
            "postgres://host/sales?user=scott&password=TIGER&sslmode=require",
            "SOURCEDB 'host=h PassWord=TIGER TIGER dbname=d'",
            "postgres://host/sales?sslpassword=TIGER",
            "DBLOGIN SOURCEDB x, USERID scott, PASSWORD TIGER",
            "dblogin userid scott password 'TIGER TIGER'",
            "mysql://:TIGER@host",
            "SOURCEDB postgres://scott:TI TIGER@host/sales",
        ] {
            let shown = mask_secrets(text);
            assert!(!shown.contains("TIGER"), "{shown}");
            assert!(shown.contains(MASK), "{shown}");
            let url = DatabaseUrl::new(text);
            assert!(!format!("{url} {url:?}").contains("TIGER"));
            assert_eq!(url.reveal(), text);
        }
    }

    #[test]
    fn what_is_no_secret_is_shown_as_it_is() {
        for text in [
            "EXTRACT e1\nSOURCEDB sqlite:/data/a@b.db\nEXTTRAIL ./dirdat/aa\nTABLE main.*;\n",
            "postgres://scott@host:5432/sales",
            "TABLE main.password;",
            "-- it's a comment",
        ] {
            assert_eq!(mask_secrets(text), text);
        }
    }

    #[test]
    fn a_masked_url_still_says_where_it_leads() {
        let url = DatabaseUrl::new("postgres://scott:tiger@host:5432/sales?password=x&sslmode=require");
        assert_eq!(url.to_string(), "postgres://scott:***@host:5432/sales?password=***&sslmode=require");
        assert_eq!(url.scheme(), "postgres");
    }
}
