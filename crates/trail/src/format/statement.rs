//! Body of a record for a statement that defines objects (IOType 160).
//!
//! Public: the data is text, a run of `,KEY='value',`, and `T` has a token of what the statement is about. Known keys: C5
//! transaction, B2 sequence, B3 owner, B4 object, B5 kind of object, B6 verb, B8 user. Ours: D1 is the path that names were
//! looked for on, D2 and D3 schema and name of the table that the object belongs to, D4 and D5 a column that was filled and its
//! value, as often as there are any; the statement itself is the last, under the key C1. A quote inside a value is doubled.

use crate::Damage;
use change::{DefinitionStatement, FilledColumn, TableName};

/// Longest text of each name in a statement.
const NAME_BYTES_MAX: usize = 16_000;

/// Longest statement.
pub const STATEMENT_BYTES_MAX: usize = 400 * 1024 * 1024;

/// Why a statement can't be written, if it can't.
pub fn refusal(statement: &DefinitionStatement) -> Option<&'static str> {
    let DefinitionStatement { owner, object, object_type, verb, user, text, search_path, .. } = statement;
    let names = [owner, object, object_type, verb, user, search_path];
    if names.iter().any(|name| name.len() > NAME_BYTES_MAX || name.contains('\0')) {
        Some("one of its names is longer than 16000 bytes or holds a zero character")
    } else if statement.filled.iter().fold(text.len(), |sum, filled| sum.saturating_add(filled.value.len()))
        > STATEMENT_BYTES_MAX / 2
    {
        Some("it is longer than 200 MB")
    } else {
        None
    }
}

/// The data of the record.
pub fn body(statement: &DefinitionStatement, transaction: &str) -> Vec<u8> {
    let DefinitionStatement { owner, object, object_type, verb, user, text, search_path, .. } = statement;
    let mut body = Vec::with_capacity(text.len().saturating_add(256));
    let mut pairs = vec![
        ("C5", transaction),
        ("B2", "0"),
        ("B3", owner),
        ("B4", object),
        ("B5", object_type),
        ("B6", verb),
        ("B8", user),
    ];
    if !search_path.is_empty() {
        pairs.push(("D1", search_path));
    }
    if let Some(base) = &statement.base {
        pairs.extend([("D2", base.schema.as_str()), ("D3", base.table.as_str())]);
    }
    for filled in &statement.filled {
        pairs.extend([("D4", filled.column.as_str()), ("D5", filled.value.as_str())]);
    }
    pairs.push(("C1", text));
    for (key, value) in pairs {
        body.extend_from_slice(format!(",{key}='").as_bytes());
        for (number, part) in value.split('\'').enumerate() {
            if number > 0 {
                body.extend_from_slice(b"''");
            }
            body.extend_from_slice(part.as_bytes());
        }
        body.extend_from_slice(b"',");
    }
    body
}

/// The content of the token that tells what a statement is about: owner, object, two texts of versions, and a flag.
pub fn token(statement: &DefinitionStatement) -> Vec<u8> {
    let DefinitionStatement { owner, object, .. } = statement;
    format!("{owner}\0{object}\0UNKNOWNVERSION\0UNKNOWNVERSIONCOMPAT\0N").into_bytes()
}

/// Reads the data of the record. Keys that are not known are passed over, missing ones are empty.
///
/// # Errors
/// [`Damage`] when it is no run of keys and values.
pub fn read_body(data: &[u8]) -> Result<DefinitionStatement, Damage> {
    const BAD: Damage = Damage::Content("the statement is no list of keys and values");
    let text = std::str::from_utf8(data).map_err(|_| Damage::Content("the statement is not UTF-8"))?;
    let mut statement = DefinitionStatement::default();
    let mut rest = text;
    while !rest.is_empty() {
        let (key, quoted) = rest.strip_prefix(',').and_then(|rest| rest.split_once("='")).ok_or(BAD)?;
        let (value, after) = take_value(quoted).ok_or(BAD)?;
        rest = after;
        match key {
            "B3" => statement.owner = value,
            "B4" => statement.object = value,
            "B5" => statement.object_type = value,
            "B6" => statement.verb = value,
            "B8" => statement.user = value,
            "C1" => statement.text = value,
            "D1" => statement.search_path = value,
            "D2" => statement.base = Some(TableName::new(value, "")),
            "D3" => {
                if let Some(base) = &mut statement.base {
                    base.table = value;
                }
            }
            "D4" => statement.filled.push(FilledColumn { column: value, value: String::new() }),
            "D5" => {
                if let Some(filled) = statement.filled.last_mut() {
                    filled.value = value;
                }
            }
            _ => {}
        }
    }
    Ok(statement)
}

/// A value up to the quote and comma that end it, and what follows.
fn take_value(quoted: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut rest = quoted;
    loop {
        let (part, after) = rest.split_once('\'')?;
        value.push_str(part);
        if let Some(after) = after.strip_prefix('\'') {
            value.push('\'');
            rest = after;
        } else {
            return Some((value, after.strip_prefix(',')?));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_comes_back_whatever_it_says() {
        for text in ["create table t (a text default ',C1=''x'',')", "'", "''',B3='y',", "", "ключ"] {
            let statement = DefinitionStatement {
                owner: "s".to_owned(),
                object: "it's".to_owned(),
                object_type: "TABLE".to_owned(),
                verb: "CREATE".to_owned(),
                user: "u".to_owned(),
                text: text.to_owned(),
                search_path: "\"a\", \"it's\"".to_owned(),
                base: Some(TableName::new("b", "t'")),
                filled: vec![FilledColumn { column: "c".to_owned(), value: text.to_owned() }, FilledColumn::default()],
                untold: String::new(),
            };
            assert_eq!(read_body(&body(&statement, "7.1")), Ok(statement));
        }
        assert!(read_body(b",B3='x").is_err() && read_body(b"x").is_err() && read_body(b",B3=x,").is_err());
    }

    /// The published token of a DDL record.
    #[test]
    fn the_token_is_the_published_one() {
        let statement =
            DefinitionStatement { owner: "test".into(), object: "ogg_test".into(), ..DefinitionStatement::default() };
        assert_eq!(token(&statement), b"test\0ogg_test\0UNKNOWNVERSION\0UNKNOWNVERSIONCOMPAT\0N");
    }
}
