//! Rows and tables as JSON, for people who look into the error queue and for programs that execute what it holds.
//!
//! A row is an object with its columns in order. A value is a string; NULL is `null`; a column whose value the source did not tell is
//! left out. What is no text, or holds a zero, is `{"hex": "00ff"}`. A value of a column without a type (SQLite) carries its class where
//! it is no text: `{"integer": "12"}`, `{"real": "1.5"}`, `{"hex": "00ff"}`.

use change::{Column, Generation, LogicalType, Row, TableDefinition, TableName, Value};
use serde_json::Value as Json;
use std::fmt::Write;

/// A text that is not what was written.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("could not read {what}")]
pub struct ImageError {
    /// What can't be read.
    pub what: String,
}

fn wrong(what: impl Into<String>) -> ImageError {
    ImageError { what: what.into() }
}

fn quoted(text: &str) -> String {
    Json::from(text).to_string()
}

/// The row as an object.
pub fn row_text(table: &TableDefinition, row: &Row) -> String {
    let mut text = "{".to_owned();
    for (column, value) in table.columns.iter().zip(row.values()) {
        let value = match value {
            Value::Unchanged => continue,
            Value::Null => "null".to_owned(),
            Value::Bytes(bytes) => value_text(column.logical, bytes),
        };
        let comma = if text.len() > 1 { ", " } else { "" };
        _ = write!(text, "{comma}{}: {value}", quoted(&column.name));
    }
    text.push('}');
    text
}

fn value_text(logical: LogicalType, bytes: &[u8]) -> String {
    match (logical, bytes.split_first()) {
        (LogicalType::Dynamic, Some((b'i', rest))) => of_class("integer", rest),
        (LogicalType::Dynamic, Some((b'r', rest))) => of_class("real", rest),
        (LogicalType::Dynamic, Some((b't', rest))) => text_or_hex(rest, false),
        (LogicalType::Dynamic, Some((_, rest))) => text_or_hex(rest, true),
        (LogicalType::Binary, _) => text_or_hex(bytes, true),
        _ => text_or_hex(bytes, false),
    }
}

fn of_class(class: &str, bytes: &[u8]) -> String {
    format!("{{\"{class}\": {}}}", quoted(&String::from_utf8_lossy(bytes)))
}

fn text_or_hex(bytes: &[u8], is_binary: bool) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) if !is_binary && !text.contains('\0') => quoted(text),
        _ => {
            let mut hex = "{\"hex\": \"".to_owned();
            bytes.iter().for_each(|byte| _ = write!(hex, "{byte:02x}"));
            hex.push_str("\"}");
            hex
        }
    }
}

/// The row that an object stands for.
///
/// # Errors
/// [`ImageError`]; names of columns that the table does not have are among them.
pub fn row_of(table: &TableDefinition, text: &str) -> Result<Row, ImageError> {
    let json: Json = serde_json::from_str(text).map_err(|_| wrong("a row of the error queue"))?;
    let Json::Object(object) = json else { return Err(wrong("a row of the error queue")) };
    let unknown = |name: &&String| !table.columns.iter().any(|column| column.name == **name);
    if let Some(name) = object.keys().find(unknown) {
        return Err(wrong(format!("a row of {}, which has no column {name}", table.name)));
    }
    let values: Vec<Option<Option<Vec<u8>>>> = table
        .columns
        .iter()
        .map(|column| object.get(&column.name).map(|value| value_of(column, value)).transpose())
        .collect::<Result<_, _>>()?;
    Ok(Row::from_values(values.iter().map(|value| match value {
        None => Value::Unchanged,
        Some(None) => Value::Null,
        Some(Some(bytes)) => Value::Bytes(bytes),
    })))
}

fn value_of(column: &Column, value: &Json) -> Result<Option<Vec<u8>>, ImageError> {
    let unreadable = || wrong(format!("the value of column {}", column.name));
    let marked = |mark: u8, bytes: &[u8]| match column.logical {
        LogicalType::Dynamic => std::iter::once(mark).chain(bytes.iter().copied()).collect(),
        _ => bytes.to_vec(),
    };
    match value {
        Json::Null => Ok(None),
        Json::String(text) => Ok(Some(marked(b't', text.as_bytes()))),
        Json::Number(number) => Ok(Some(marked(b'i', number.to_string().as_bytes()))),
        Json::Bool(truth) => Ok(Some(marked(b't', if *truth { b"t" } else { b"f" }))),
        Json::Object(object) if object.len() == 1 => {
            let (class, content) = object.iter().next().ok_or_else(unreadable)?;
            let content = content.as_str().ok_or_else(unreadable)?;
            let bytes = match class.as_str() {
                "integer" => marked(b'i', content.as_bytes()),
                "real" => marked(b'r', content.as_bytes()),
                "hex" => marked(
                    if column.logical == LogicalType::Dynamic { b'b' } else { 0 },
                    &unhex(content).ok_or_else(unreadable)?,
                ),
                _ => return Err(unreadable()),
            };
            Ok(Some(bytes))
        }
        _ => Err(unreadable()),
    }
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(2) || !text.is_ascii() {
        return None;
    }
    (0..text.len()).step_by(2).map(|place| u8::from_str_radix(&text[place..place + 2], 16).ok()).collect()
}

/// The table's definition as an object.
pub fn table_text(table: &TableDefinition) -> String {
    let columns: Vec<String> = table
        .columns
        .iter()
        .map(|column| {
            let mut text = format!(
                "{{\"name\": {}, \"type\": {}, \"native\": {}",
                quoted(&column.name),
                column.logical as u8,
                quoted(&column.native)
            );
            let mut number = |name: &str, value: Option<i64>| {
                if let Some(value) = value {
                    _ = write!(text, ", \"{name}\": {value}");
                }
            };
            number("length", column.length.map(i64::from));
            number("precision", column.precision.map(i64::from));
            number("scale", column.scale.map(i64::from));
            number("key", column.key.map(i64::from));
            number("generation", (column.generation != Generation::None).then_some(column.generation as i64));
            number("required", (!column.nullable).then_some(1));
            text.push('}');
            text
        })
        .collect();
    format!(
        "{{\"schema\": {}, \"table\": {}, \"columns\": [{}]}}",
        quoted(&table.name.schema),
        quoted(&table.name.table),
        columns.join(", ")
    )
}

/// The definition that an object stands for.
///
/// # Errors
/// [`ImageError`].
pub fn table_of(text: &str) -> Result<TableDefinition, ImageError> {
    let json: Json = serde_json::from_str(text).map_err(|_| wrong("a table of the error queue"))?;
    let read = || -> Option<TableDefinition> {
        let columns = json.get("columns")?.as_array()?.iter().map(column_of).collect::<Option<Vec<_>>>()?;
        let name = |part: &str| json.get(part)?.as_str().map(str::to_owned);
        Some(TableDefinition { name: TableName::new(name("schema")?, name("table")?), columns: columns.into() })
    };
    read().ok_or_else(|| wrong("a table of the error queue"))
}

fn column_of(json: &Json) -> Option<Column> {
    let number = |name: &str| json.get(name).and_then(Json::as_i64);
    let logical = LogicalType::from_code(u8::try_from(number("type")?).ok()?)?;
    let mut column = Column::new(json.get("name")?.as_str()?, logical, json.get("native")?.as_str()?);
    column.length = number("length").and_then(|length| u32::try_from(length).ok());
    column.precision = number("precision").and_then(|precision| u16::try_from(precision).ok());
    column.scale = number("scale").and_then(|scale| i16::try_from(scale).ok());
    column.key = number("key").and_then(|key| u16::try_from(key).ok());
    column.nullable = number("required") != Some(1);
    if let Some(code) = number("generation") {
        column.generation = Generation::from_code(u8::try_from(code).ok()?)?;
    }
    Some(column)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> TableDefinition {
        let columns = vec![
            Column { nullable: false, ..Column::new("id", LogicalType::Integer, "integer").with_key(0) },
            Column { length: Some(5), ..Column::new("a \"b\"", LogicalType::Text, "varchar(5)") },
            Column::new("raw", LogicalType::Binary, "bytea"),
            Column { generation: Generation::Stored, ..Column::new("any", LogicalType::Dynamic, "") },
        ];
        TableDefinition { name: TableName::new("s", "t"), columns: columns.into() }
    }

    #[test]
    fn a_table_is_read_as_it_was_written() {
        assert_eq!(table_of(&table_text(&table())), Ok(table()));
        assert!(table_of("{}").is_err() && table_of("[").is_err());
    }

    #[test]
    fn a_row_is_read_as_it_was_written() {
        for values in [
            [
                Value::Bytes(b"1"),
                Value::Bytes("it's \"\u{e9}\"\n".as_bytes()),
                Value::Bytes(b"\x00\xff"),
                Value::Bytes(b"i7"),
            ],
            [Value::Bytes(b"-9223372036854775808"), Value::Null, Value::Unchanged, Value::Bytes(b"r1.5")],
            [Value::Unchanged, Value::Bytes(b""), Value::Bytes(b""), Value::Bytes(b"b\x01")],
            [Value::Unchanged, Value::Bytes(b"a\0b"), Value::Null, Value::Bytes(b"ttext")],
            [Value::Unchanged, Value::Bytes(b"\xff"), Value::Bytes(b"text"), Value::Bytes(b"t\xff")],
        ] {
            let row = Row::from_values(values);
            let text = row_text(&table(), &row);
            // Bytes that are no text keep their class only where the column has one; text of a column without a type may not be UTF-8.
            let read = row_of(&table(), &text).unwrap();
            let last = |row: &Row| row.value(3).bytes().map(<[u8]>::to_vec);
            if last(&row) == Some(b"t\xff".to_vec()) {
                assert_eq!(last(&read), Some(b"b\xff".to_vec()));
                continue;
            }
            assert_eq!(read, row, "{text}");
        }
    }

    #[test]
    fn what_is_no_row_of_the_table_is_refused() {
        for text in
            ["", "[]", "{\"no\": \"1\"}", "{\"raw\": {\"hex\": \"0\"}}", "{\"raw\": {\"hex\": \"é\"}}", "{\"id\": []}"]
        {
            assert!(row_of(&table(), text).is_err(), "{text}");
        }
        assert_eq!(row_text(&table(), &Row::from_values([Value::Unchanged; 4])), "{}");
    }
}
