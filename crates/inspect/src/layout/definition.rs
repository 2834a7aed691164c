//! Metadata records: databases, tables, partitions.

use super::Style;
use super::record::Shown;
use change::{Column, TableDefinition};
use std::fmt::Write;
use trail::definitions_file::table_lines;
use trail::format::record::{Object, metadata_kind};
use trail::format::{header, metadata};
use trail::{PartitionName, SourceIdentity};

/// How table definitions are shown (METADATA).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MetadataFormat {
    /// Everything, with the legend of the columns' fields.
    #[default]
    Detail,
    /// As in a file of DEFGEN.
    Defgen,
    /// As a table of names and types.
    Sql,
    /// As a CREATE TABLE statement.
    Ddl,
}

impl MetadataFormat {
    /// The keyword of METADATA.
    pub fn name(self) -> &'static str {
        match self {
            MetadataFormat::Detail => "DETAIL",
            MetadataFormat::Defgen => "DEFGENFORMAT",
            MetadataFormat::Sql => "SQLFORMAT",
            MetadataFormat::Ddl => "DDLFORMAT",
        }
    }
}

const LEGEND: &str = "\
 1)Name          2)Data Type        3)External Length  4)Fetch Offset      5)Scale         6)Level
 7)Null          8)Bump if Odd      9)Internal Length 10)Binary Length    11)Table Length 12)Most Sig DT
13)Least Sig DT 14)High Precision  15)Low Precision   16)Elementary Item  17)Occurs       18)Key Column
19)Sub DataType 20)Native DataType 21)Character Set   22)Character Length 23)LOB Type     24)Partial Type
25)Remarks
";

/// The version of definitions that is shown, that of the published ones with as many fields.
const TDR_VERSION: u16 = 11;

/// Appends what a metadata record defines.
pub(super) fn metadata(text: &mut String, shown: &Shown<'_>, style: Style<'_>) {
    let (_, index) = shown.view.header.indexes(shown.order);
    let name = shown.definitions.name_of(&shown.view.object);
    // Writing to a string can't fail.
    _ = match shown.view.header.origin {
        metadata_kind::DATABASE => database(text, shown),
        metadata_kind::TABLE => {
            let read = |data: &[u8]| metadata::read_table_body(data, shown.order).ok();
            match shown.data.as_ref().ok().and_then(|data| read(data)) {
                Some(table) => self::table(text, &table, style.display.metadata),
                None => foreign_table(text, shown, &name, style),
            }
        }
        metadata_kind::TABLE_REFERENCE => writeln!(text, "Table Name: {name} (Ref TDR Index: {index})"),
        metadata_kind::PARTITION => match shown.view.object {
            Object::Partition(bytes) => match PartitionName::read(bytes, shown.order) {
                Ok(PartitionName { name, id, flags }) => {
                    writeln!(text, "Partition Name: {name} Partition ID: {} Flags: x{flags:08x}", grouped(id))
                }
                Err(damage) => writeln!(text, "Partition not understood: {damage}"),
            },
            _ => Ok(()),
        },
        other => writeln!(text, "Metadata of unknown kind {other}, {} bytes", shown.view.data.len()),
    };
}

/// A table whose definition another product wrote, or that is encrypted.
fn foreign_table(text: &mut String, shown: &Shown<'_>, name: &str, style: Style<'_>) -> std::fmt::Result {
    let Ok(data) = shown.data else { return writeln!(text, "Table Name: {name}") };
    let whose = if metadata::is_table_body(data) { "of a later version" } else { "another product's" };
    writeln!(text, "Table Name: {name}\nTDR body not understood, {} bytes: it is {whose}", data.len())?;
    match shown.definitions.given(name) {
        None => writeln!(text, "Give the table's definition with SOURCEDEFS file"),
        Some(given) => {
            writeln!(text, "Shown by the definition that SOURCEDEFS gave:")?;
            self::table(text, given, style.display.metadata)
        }
    }
}

fn database(text: &mut String, shown: &Shown<'_>) -> std::fmt::Result {
    let Ok(data) = shown.data else { return Ok(()) };
    let Ok(source) = metadata::read_database_body(data, shown.order) else {
        return writeln!(text, "DDR body not understood, {} bytes: it is another product's", data.len());
    };
    write!(text, "Database Name: {}\n*\nDDR Version: 1\n", source.name)?;
    writeln!(text, "Database type: {}", source.product.to_uppercase())?;
    // The rest stands in the file's own header.
    if let Some(header) = shown.header {
        let SourceIdentity { charset, locale, case_rule, time_zone, .. } = &header.source;
        let charset = charset_name(*charset);
        writeln!(text, "Character set ID: {charset}\nNational character set ID: {charset}\nLocale: {locale}")?;
        let classes = [header::case_byte(*case_rule); header::OBJECT_CLASSES].map(|byte| format!("{byte:02x}"));
        writeln!(text, "Case sensitivity: {}\nTimeZone: {time_zone}", classes.join(" "))?;
    }
    writeln!(text, "*")
}

/// The name of a character set by its number, or the number where the name is not known here.
fn charset_name(number: u32) -> String {
    match number {
        0 => "UTF-8".to_owned(),
        1 => "UTF-16".to_owned(),
        2 => "UTF-16BE".to_owned(),
        3 => "UTF-16LE".to_owned(),
        1000 => "US-ASCII".to_owned(),
        1001..=1009 => format!("windows-{}", number + 249),
        1032..=1042 => format!("ISO-8859-{}", number - 1031),
        1043..=1045 => format!("ISO-8859-{}", number - 1030),
        other => other.to_string(),
    }
}

/// Appends a table's definition.
pub fn table(text: &mut String, table: &TableDefinition, format: MetadataFormat) -> std::fmt::Result {
    let name = &table.name;
    match format {
        MetadataFormat::Detail => {
            write!(text, "Table Name: {name}\n*\n{LEGEND}*\nTDR version: {TDR_VERSION}\n")?;
            writeln!(text, "Definition for table {name}")?;
            let lines = table_lines(table);
            writeln!(text, "Record Length: {}\nColumns: {}", lines.record_length, table.columns.len())?;
            lines.columns.iter().try_for_each(|line| writeln!(text, "{line}"))?;
            writeln!(text, "End of definition")
        }
        MetadataFormat::Defgen => {
            let lines = table_lines(table);
            write!(text, "Definition for table {name}\nRecord length: {}\n", lines.record_length)?;
            writeln!(text, "Syskey: 0\nColumns: {}", table.columns.len())?;
            lines.columns.iter().try_for_each(|line| writeln!(text, "{line}"))?;
            writeln!(text, "End of definition")
        }
        MetadataFormat::Sql => {
            writeln!(text, "Table Name: {name}")?;
            let width = table.columns.iter().map(|column| column.name.chars().count()).max().unwrap_or(0);
            for column in table.columns.iter() {
                let key = if column.key.is_some() { ", KEY" } else { "" };
                writeln!(text, "{:<width$}  {}{}{key}", column.name, type_of(column), null(column))?;
            }
            Ok(())
        }
        MetadataFormat::Ddl => create_table(text, table),
    }
}

fn create_table(text: &mut String, table: &TableDefinition) -> std::fmt::Result {
    let quoted = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
    writeln!(text, "CREATE TABLE {}.{} (", quoted(&table.name.schema), quoted(&table.name.table))?;
    let mut lines: Vec<String> = table
        .columns
        .iter()
        .map(|column| format!("  {} {}{}", quoted(&column.name), type_of(column), null(column)))
        .collect();
    let key: Vec<String> = table.key().into_iter().map(|index| quoted(&table.columns[index].name)).collect();
    if !key.is_empty() {
        lines.push(format!("  PRIMARY KEY ({})", key.join(", ")));
    }
    writeln!(text, "{}\n);", lines.join(",\n"))
}

fn null(column: &Column) -> &'static str {
    if column.nullable { "" } else { " NOT NULL" }
}

/// The type's name in the source, with the numbers that belong to it unless the name holds them.
fn type_of(column: &Column) -> String {
    let native = &column.native;
    if native.contains('(') {
        return native.clone();
    }
    match (column.length, column.precision, column.scale) {
        (Some(length), _, _) => format!("{native}({length})"),
        (None, Some(precision), Some(scale)) => format!("{native}({precision},{scale})"),
        (None, Some(precision), None) => format!("{native}({precision})"),
        (None, None, _) => native.clone(),
    }
}

/// A number in groups of three digits.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let groups: Vec<&[u8]> = digits.as_bytes().rchunks(3).rev().collect();
    groups.iter().map(|group| String::from_utf8_lossy(group)).collect::<Vec<_>>().join(",")
}
