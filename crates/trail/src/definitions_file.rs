//! Definitions files: how tables look, for trails that do not say it.
//!
//! The layout is that of the files that DEFGEN writes, as published in samples: remarks behind `*`, a few lines about the
//! database, then for each table a line per column with 24 fields, and remarks as the 25th. Every value of our trails has the
//! VARCHAR form, so every column has data type 64; what a column is beyond that stands in its remarks, which begin with
//! `drover=1`. Files of other writers have no such remarks: their columns are understood by data type and sub type.
//!
//! Fields are separated by blanks. A part in double quotes may hold blanks; inside, `""` stands for one quote.

use change::{CaseRule, Column, Generation, LogicalType, TableDefinition, TableName, Timestamp};
use std::fmt::Write;

/// What the first line of a file starts with.
const SIGNATURE: &str = "*+- Defgen version ";
/// The version of the layout that has all 25 fields.
const VERSION: &str = "11.0";
/// What our remarks begin with.
const OURS: &str = "drover=1";
/// A key column whose place in the key is not told.
const KEY_PLACE_UNTOLD: u16 = u16::MAX;
/// External length of a column whose type has none.
const LENGTH_UNKNOWN: u32 = 32_767;

const FIELDS: [&str; 25] = [
    "Name",
    "Data Type",
    "External Length",
    "Fetch Offset",
    "Scale",
    "Level",
    "Null",
    "Bump if Odd",
    "Internal Length",
    "Binary Length",
    "Table Length",
    "Most Significant DT",
    "Least Significant DT",
    "High Precision",
    "Low Precision",
    "Elementary Item",
    "Occurs",
    "Key Column",
    "Sub Data Type",
    "Native Data Type",
    "Character Set",
    "Character Length",
    "LOB Type",
    "Partial Type",
    "Remarks",
];

/// Places of fields that are read, from 0.
mod field {
    pub(super) const NAME: usize = 0;
    pub(super) const DATA_TYPE: usize = 1;
    pub(super) const EXTERNAL_LENGTH: usize = 2;
    pub(super) const SCALE: usize = 4;
    pub(super) const KEY: usize = 17;
    pub(super) const SUB_TYPE: usize = 18;
    /// The first one that files of older versions may lack.
    pub(super) const NATIVE_TYPE: usize = 19;
    pub(super) const REMARKS: usize = 24;
}

/// Names of logical types, as remarks have them.
const LOGICAL: [(LogicalType, &str); 17] = [
    (LogicalType::Boolean, "boolean"),
    (LogicalType::Integer, "integer"),
    (LogicalType::Decimal, "decimal"),
    (LogicalType::Float, "float"),
    (LogicalType::Text, "text"),
    (LogicalType::Binary, "binary"),
    (LogicalType::Date, "date"),
    (LogicalType::Time, "time"),
    (LogicalType::Timestamp, "timestamp"),
    (LogicalType::TimestampWithZone, "timestamp-with-zone"),
    (LogicalType::Interval, "interval"),
    (LogicalType::Uuid, "uuid"),
    (LogicalType::Json, "json"),
    (LogicalType::Bits, "bits"),
    (LogicalType::Enumeration, "enumeration"),
    (LogicalType::Dynamic, "dynamic"),
    (LogicalType::Other, "other"),
];

/// Names of the ways in which a database makes values, as remarks have them.
const GENERATION: [(Generation, &str); 4] = [
    (Generation::IdentityByDefault, "identity-by-default"),
    (Generation::IdentityAlways, "identity-always"),
    (Generation::Stored, "stored"),
    (Generation::Virtual, "virtual"),
];

/// What is wrong with a definitions file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct DefinitionsFileError {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub what: String,
}

/// A table that a definitions file can't hold: a control character in one of its names would break a line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a definitions file can't hold table {table}: a name or type in it has a control character")]
pub struct UnwritableDefinition {
    /// The table.
    pub table: TableName,
}

/// The text of a definitions file. `product` is the source's, `case` how it compares names, `now` the time of writing.
///
/// # Errors
/// [`UnwritableDefinition`].
pub fn print(
    tables: &[TableDefinition],
    product: &str,
    case: CaseRule,
    now: Timestamp,
) -> Result<String, UnwritableDefinition> {
    let mut text = format!("{SIGNATURE}{VERSION}, Encoding UTF-8\n*\n");
    _ = writeln!(text, "* Definitions created/modified  {}", &now.to_string()[.."YYYY-MM-DD HH:MM".len()]);
    text.push_str("*\n*  Field descriptions for each column entry:\n*\n");
    for (place, name) in FIELDS.iter().enumerate() {
        _ = writeln!(text, "*{:>6}    {name}", place + 1);
    }
    // The low digit is for names without quotes, the high one for those with: 1 case matters, 2 stored in lower case.
    let sensitivity = match case {
        CaseRule::Insensitive => "00",
        CaseRule::FoldToLower => "12",
        CaseRule::Sensitive => "11",
    };
    _ = write!(
        text,
        "*\nDatabase type: {}\nCharacter set ID: UTF-8\nNational character set ID: UTF-8\nLocale: neutral\n\
         Case sensitivity: {}\nTimeZone: GMT\n*\n",
        product.to_uppercase(),
        [sensitivity; 16].join(" ")
    );
    for table in tables {
        let breaks_line = |name: &str| name.chars().any(char::is_control);
        let columns = table.columns.iter().any(|column| breaks_line(&column.name) || breaks_line(&column.native));
        if columns || breaks_line(&table.name.schema) || breaks_line(&table.name.table) {
            return Err(UnwritableDefinition { table: table.name.clone() });
        }
        print_table(&mut text, table);
    }
    Ok(text)
}

/// The lines about a table: how long its record is, the number of its columns, and a line for each.
pub struct TableLines {
    /// The last column's end.
    pub record_length: u64,
    /// One line per column, without an end of line.
    pub columns: Vec<String>,
}

/// What a definitions file says of a table. Names with control characters break its lines; [`print()`] refuses them.
pub fn table_lines(table: &TableDefinition) -> TableLines {
    let length = |column: &Column| u64::from(column.length.unwrap_or(LENGTH_UNKNOWN));
    // A null indicator, a length and a closing NUL, then an even place.
    let step = |column: &Column| (length(column) + 5).next_multiple_of(2);
    let record_length: u64 = table.columns.iter().map(step).sum();
    let mut columns = Vec::with_capacity(table.columns.len());
    let width = table.columns.iter().map(|column| quoted(&column.name).chars().count()).max().unwrap_or(0);
    let mut offset = 0;
    for column in table.columns.iter() {
        let sub_type = match column.logical {
            LogicalType::Float => 2,
            LogicalType::Integer | LogicalType::Decimal => 3,
            LogicalType::Binary => 4,
            LogicalType::Uuid => 8,
            _ => 0,
        };
        let (bytes, key) = (length(column), u8::from(column.key.is_some()));
        columns.push(format!(
            "{:<width$}  64 {bytes:>6} {offset:>8} {:>2}  0 1 0 {bytes:>6} {bytes:>6} {bytes:>6} 0 0 0 0 1    0 {key} \
             {sub_type:>3}    0       -1      0 0 0 {}",
            quoted(&column.name),
            column.scale.unwrap_or(0),
            remarks(column)
        ));
        offset += step(column);
    }
    TableLines { record_length, columns }
}

fn print_table(text: &mut String, table: &TableDefinition) {
    let lines = table_lines(table);
    _ = write!(
        text,
        "Definition for table {}\nRecord length: {}\nSyskey: 0\nColumns: {}\n",
        table.name,
        lines.record_length,
        table.columns.len()
    );
    for line in lines.columns {
        text.push_str(&line);
        text.push('\n');
    }
    text.push_str("End of definition\n*\n");
}

fn remarks(column: &Column) -> String {
    let logical = LOGICAL.iter().find(|(known, _)| *known == column.logical).map_or("other", |(_, name)| *name);
    let mut text = format!("{OURS} type={logical} native={}", quoted(&column.native));
    let numbers = [
        ("length", column.length.map(i64::from)),
        ("precision", column.precision.map(i64::from)),
        ("scale", column.scale.map(i64::from)),
        ("key", column.key.map(i64::from)),
    ];
    for (name, number) in numbers {
        if let Some(number) = number {
            _ = write!(text, " {name}={number}");
        }
    }
    if let Some((_, name)) = GENERATION.iter().find(|(known, _)| *known == column.generation) {
        _ = write!(text, " generated={name}");
    }
    text.push_str(if column.nullable { " nullable=yes" } else { " nullable=no" });
    text
}

/// A text as one part of a line.
fn quoted(text: &str) -> String {
    let is_plain =
        !text.is_empty() && !text.starts_with('*') && !text.contains(|c: char| c.is_whitespace() || c == '"');
    if is_plain { text.to_owned() } else { format!("\"{}\"", text.replace('"', "\"\"")) }
}

/// Reads a definitions file.
///
/// # Errors
/// [`DefinitionsFileError`] with the first line that is not understood; also for a table that is defined twice.
pub fn read(text: &str) -> Result<Vec<TableDefinition>, DefinitionsFileError> {
    let mut tables: Vec<TableDefinition> = Vec::new();
    let mut open: Option<(TableName, Vec<Column>, Option<usize>)> = None;
    let mut last = 0;
    for (index, line) in text.lines().enumerate() {
        last = index + 1;
        let refuse = |what: String| DefinitionsFileError { line: index + 1, what };
        let line = line.trim_end();
        if index == 0 && !line.trim_start_matches('\u{feff}').starts_with(SIGNATURE) {
            return Err(refuse("this is no definitions file: it does not start with its signature".to_owned()));
        }
        let Some((name, columns, count)) = &mut open else {
            if let Some(name) = line.strip_prefix("Definition for table ") {
                let name = TableName::parse(name.trim()).map_err(|error| refuse(error.to_string()))?;
                if tables.iter().any(|known| known.name == name) {
                    return Err(refuse(format!("table {name} is defined for the second time")));
                }
                open = Some((name, Vec::new(), None));
            }
            // Other lines are about the database as a whole, which the trail's own header tells.
            continue;
        };
        if line == "End of definition" {
            let told = count.unwrap_or(columns.len());
            if told != columns.len() {
                return Err(refuse(format!("table {name} has {} columns in place of {told}", columns.len())));
            }
            number_key(columns);
            let definition = |(name, columns, _): (_, Vec<_>, _)| TableDefinition { name, columns: columns.into() };
            tables.extend(open.take().map(definition));
        } else if let Some(number) = line.strip_prefix("Columns: ") {
            let number = number.trim().parse();
            *count = Some(number.map_err(|_| refuse("the number of columns is no number".to_owned()))?);
        } else if !line.starts_with("Record length: ") && !line.starts_with("Syskey: ") {
            columns.push(column(line).map_err(refuse)?);
        }
    }
    match open {
        None => Ok(tables),
        Some((name, ..)) => {
            let what = format!("the definition of table {name} does not end");
            Err(DefinitionsFileError { line: last, what })
        }
    }
}

/// Gives key columns without a place the order of the table, which is all that a file without our remarks tells.
fn number_key(columns: &mut [Column]) {
    let untold = columns.iter_mut().filter(|column| column.key == Some(KEY_PLACE_UNTOLD));
    for (place, column) in untold.enumerate() {
        column.key = u16::try_from(place).ok();
    }
}

fn column(line: &str) -> Result<Column, String> {
    let fields = fields(line)?;
    if fields.len() < field::NATIVE_TYPE {
        return Err(format!("a column has {} fields where at least {} belong", fields.len(), field::NATIVE_TYPE));
    }
    let number = |place: usize| {
        fields[place].parse::<i64>().map_err(|_| format!("field {} ({}) is no number", place + 1, FIELDS[place]))
    };
    let (data_type, sub_type) = (number(field::DATA_TYPE)?, number(field::SUB_TYPE)?);
    let scale = i16::try_from(number(field::SCALE)?).map_err(|_| "the scale is out of range".to_owned())?;
    let is_key = number(field::KEY)? != 0;
    let mut column = Column::new(&fields[field::NAME], logical(data_type, sub_type, scale), String::new());
    let remarks = fields.get(field::REMARKS..).unwrap_or_default();
    if remarks.first().is_some_and(|first| first == OURS) {
        read_remarks(&mut column, &remarks[1..])?;
        if is_key != column.key.is_some() {
            return Err("the field for the key says something else than the remarks".to_owned());
        }
    } else {
        column.length = u32::try_from(number(field::EXTERNAL_LENGTH)?).ok();
        column.scale = (scale != 0).then_some(scale);
        column.key = is_key.then_some(KEY_PLACE_UNTOLD);
    }
    Ok(column)
}

fn read_remarks(column: &mut Column, remarks: &[String]) -> Result<(), String> {
    let mut is_typed = false;
    for remark in remarks {
        let (name, value) = remark.split_once('=').ok_or("a remark has no `=`")?;
        let wrong = || format!("the remark {name} is not understood");
        match name {
            "type" => {
                let found = LOGICAL.iter().find(|(_, known)| *known == value);
                (column.logical, is_typed) = (found.ok_or_else(wrong)?.0, true);
            }
            "native" => column.native = value.to_owned(),
            "length" => column.length = Some(value.parse().map_err(|_| wrong())?),
            "precision" => column.precision = Some(value.parse().map_err(|_| wrong())?),
            "scale" => column.scale = Some(value.parse().map_err(|_| wrong())?),
            "key" => column.key = Some(value.parse().map_err(|_| wrong())?),
            "generated" => {
                let found = GENERATION.iter().find(|(_, known)| *known == value);
                column.generation = found.ok_or_else(wrong)?.0;
            }
            "nullable" if matches!(value, "yes" | "no") => column.nullable = value == "yes",
            _ => return Err(wrong()),
        }
    }
    if is_typed { Ok(()) } else { Err("the remarks do not tell the type".to_owned()) }
}

/// What the published numbers of data types and sub types stand for.
fn logical(data_type: i64, sub_type: i64, scale: i16) -> LogicalType {
    match (data_type, sub_type) {
        (0..=2 | 64..=66, 2 | 3 | 27 | 37) => LogicalType::Decimal,
        (0..=2 | 64..=66, 4) => LogicalType::Binary,
        (0..=2 | 64..=66, 8) => LogicalType::Uuid,
        (0..=2 | 64..=66, 0 | 1 | 5..=7) => LogicalType::Text,
        (130..=135 | 150..=156 | 189, _) if scale != 0 => LogicalType::Decimal,
        (130..=135 | 150..=156 | 189, _) => LogicalType::Integer,
        (140..=143, _) => LogicalType::Float,
        (191 | 192, _) => LogicalType::Timestamp,
        (195..=212, _) => LogicalType::Interval,
        _ => LogicalType::Other,
    }
}

/// The parts of a line.
fn fields(line: &str) -> Result<Vec<String>, String> {
    let mut fields = Vec::new();
    let mut part: Option<String> = None;
    let mut is_quoted = false;
    let mut characters = line.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '"' if is_quoted && characters.peek() == Some(&'"') => {
                characters.next();
                part.get_or_insert_default().push('"');
            }
            '"' => {
                is_quoted = !is_quoted;
                part.get_or_insert_default();
            }
            blank if blank.is_whitespace() && !is_quoted => fields.extend(part.take()),
            other => part.get_or_insert_default().push(other),
        }
    }
    if is_quoted {
        return Err("a quote does not end".to_owned());
    }
    fields.extend(part);
    Ok(fields)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines of a published file of DEFGEN version 5.0.
    const PUBLISHED: &str = "\
*+- Defgen version 5.0, Encoding windows-1252
*
* Definitions created/modified  2019-10-03 11:45
*
*     1    Name
*
Database type: ORACLE
Character set ID: we8mswin1252
National character set ID: UTF-16
Locale: neutral
Case sensitivity: 14 14 14 14 14 14 14 14 14 14 14 14 11 14 14 14
TimeZone: GMT
*
Definition for table SCOTT.ACCOUNT
Record length: 220
Syskey: 0
Columns: 5
ID           64     50        0  0  0 1 0     50     50     50 0 0 0 0 1    0 1   2    2       -1      0 0 0
BAN          64     50       56  0  0 1 0     50     50     50 0 0 0 0 1    0 0   2    2       -1      0 0 0
ACCOUNT_ID   64     50      112  0  0 1 0     50     50     50 0 0 0 0 1    0 0   2    2       -1      0 0 0
NAME         64     20      168  0  0 1 0     20     20      0 0 0 0 0 1    0 0   0    1       -1      0 0 0
LAST_NAME    64     20      194  0  0 1 0     20     20      0 0 0 0 0 1    0 0   0    1       -1      0 0 0
End of definition
*
Definition for table SCOTT.EMP
Record length: 112
Syskey: 0
Columns: 3
EMPNO     134      8        0  0  0 1 0      8      8      8 0 0 0 0 1    0 1   3    2       -1      0 0 0
HIREDATE  192     19       54  0  0 1 0     19     19     19 0 5 0 0 1    0 1   0   12       -1      0 0 0
SAL       134      9       76  2  0 1 0      8      8      8 0 0 0 0 1    0 0   3    2       -1      0 0 0
End of definition
";

    #[test]
    fn a_published_file_is_understood() {
        let tables = read(PUBLISHED).expect("a definitions file");
        let told = |table: &TableDefinition| {
            let of = |column: &Column| (column.name.clone(), column.logical, column.key);
            (table.name.to_string(), table.columns.iter().map(of).collect::<Vec<_>>())
        };
        let of = |name: &str, logical, key| (name.to_owned(), logical, key);
        let account = vec![
            of("ID", LogicalType::Decimal, Some(0)),
            of("BAN", LogicalType::Decimal, None),
            of("ACCOUNT_ID", LogicalType::Decimal, None),
            of("NAME", LogicalType::Text, None),
            of("LAST_NAME", LogicalType::Text, None),
        ];
        let employee = vec![
            of("EMPNO", LogicalType::Integer, Some(0)),
            of("HIREDATE", LogicalType::Timestamp, Some(1)),
            of("SAL", LogicalType::Decimal, None),
        ];
        assert_eq!(
            tables.iter().map(told).collect::<Vec<_>>(),
            [("SCOTT.ACCOUNT".to_owned(), account), ("SCOTT.EMP".to_owned(), employee)]
        );
    }

    #[test]
    fn offsets_and_lengths_are_those_of_the_published_file() {
        let column = |name: &str, length| Column { length: Some(length), ..Column::new(name, LogicalType::Text, "t") };
        let columns =
            [("ID", 50), ("BAN", 50), ("ACCOUNT_ID", 50), ("NAME", 20), ("LAST_NAME", 20)].map(|(n, l)| column(n, l));
        let table = TableDefinition { name: TableName::new("SCOTT", "ACCOUNT"), columns: columns.to_vec().into() };
        let now = Timestamp::from_unix_micros(1_570_103_100_000_000);
        let text = print(&[table], "Oracle", CaseRule::Sensitive, now).expect("a text");
        let fields = |text: &str| {
            let lines = text.lines().skip_while(|line| !line.starts_with("Definition for table SCOTT.ACCOUNT")).skip(1);
            let lines = lines.take_while(|line| !line.starts_with("End"));
            // Name, data type, both lengths and the offset; the lines before are compared whole.
            let of = |line: &str| line.split_whitespace().take(4).map(str::to_owned).collect::<Vec<_>>();
            lines.map(of).collect::<Vec<_>>()
        };
        assert_eq!(fields(&text), fields(PUBLISHED));
        let common = ["* Definitions created/modified  2019-10-03 11:45", "Database type: ORACLE", "Syskey: 0"];
        for line in common {
            assert!(text.lines().any(|other| other == line) && PUBLISHED.contains(line), "{line}");
        }
    }

    #[test]
    fn a_definition_comes_back_as_it_was() {
        let columns = vec![
            Column::new("plain", LogicalType::Integer, "INTEGER").with_key(1),
            Column {
                length: Some(7),
                precision: Some(10),
                scale: Some(-2),
                nullable: false,
                generation: Generation::IdentityAlways,
                ..Column::new("* two \"words\"", LogicalType::TimestampWithZone, "timestamp with time zone").with_key(0)
            },
            Column::new("", LogicalType::Dynamic, ""),
        ];
        let table = TableDefinition { name: TableName::new("Odd.schema", "a \"b\""), columns: columns.into() };
        let all = LOGICAL.map(|(logical, name)| Column::new(name, logical, name));
        let other = TableDefinition { name: TableName::new("ключ", "t"), columns: all.to_vec().into() };
        let tables = [table, other];
        let text = print(&tables, "SQLite", CaseRule::Insensitive, Timestamp::default()).expect("a text");
        assert_eq!(read(&text).as_deref(), Ok(tables.as_slice()), "{text}");
    }

    #[test]
    fn what_would_break_a_line_is_refused_by_name() {
        let columns = vec![Column::new("a\nb", LogicalType::Text, "text")];
        let table = TableDefinition { name: TableName::new("main", "t"), columns: columns.into() };
        let error = print(std::slice::from_ref(&table), "SQLite", CaseRule::Insensitive, Timestamp::default());
        assert_eq!(error, Err(UnwritableDefinition { table: table.name }));
    }

    #[test]
    fn damage_is_found_with_its_line() {
        let line = |text: &str| read(text).expect_err("a refusal").line;
        assert_eq!(line("Definition for table a.b"), 1);
        assert_eq!(line(&PUBLISHED.replace("Columns: 5", "Columns: 6")), 23);
        assert_eq!(line(&PUBLISHED.replace("Columns: 5", "Columns: x")), 17);
        assert_eq!(line(&PUBLISHED.replace("SCOTT.EMP", "SCOTT.ACCOUNT")), 25);
        assert_eq!(line(&PUBLISHED.replace("EMPNO     134 ", "EMPNO     x ")), 29);
        assert_eq!(line(&PUBLISHED.replace("EMPNO     134      8        0  0  0 1 0 ", "EMPNO ")), 29);
        assert_eq!(line(&PUBLISHED.replace("EMPNO     134 ", "\"EMPNO   134 ")), 29);
        let cut: Vec<&str> = PUBLISHED.lines().collect();
        assert_eq!(line(&cut[..30].join("\n")), 30);
    }
}
