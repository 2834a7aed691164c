//! Bodies of definition records (IOType 170).
//!
//! How such records are framed and numbered is public, what their data looks like is not. Ours starts with a magic and a
//! version, so that neither product mistakes the other's. Strings are 16-bit length and UTF-8.
//!
//! Database (DDR): `DVDD`, version u16, product, product version, name.
//!
//! Table (TDR): `DVTD`, version u16, schema, table, number of columns u16, then per column: u16 length of the rest of the
//! entry, name, logical type u8, native type, flags u8 (1 length, 2 precision, 4 scale, 8 nullable, 16 key), length u32,
//! precision u16, scale i16, place in the key u16, generation u8. A number whose flag is off is 0. A longer entry is of a
//! later version; what follows the known fields is skipped.

use super::bytes::{Cursor, Order, STRING_BYTES_MAX, put_string};
use crate::Damage;
use crate::writer::SourceIdentity;
use change::{Column, Generation, LogicalType, TableDefinition, TableName};

/// What the data of our table definitions starts with.
pub const TABLE_MAGIC: [u8; 4] = *b"DVTD";
/// What the data of our database definitions starts with.
pub const DATABASE_MAGIC: [u8; 4] = *b"DVDD";
const VERSION: u16 = 1;

const HAS_LENGTH: u8 = 1;
const HAS_PRECISION: u8 = 2;
const HAS_SCALE: u8 = 4;
const NULLABLE: u8 = 8;
const KEY: u8 = 16;

/// Why a table definition can't be written, if it can't.
pub fn refusal(table: &TableDefinition) -> Option<&'static str> {
    // Half of what a string can hold, so that an entry's own 16-bit length is enough.
    let long = |text: &str| text.len() > STRING_BYTES_MAX / 4;
    if table.columns.len() > super::column::COLUMNS_MAX {
        Some("it has more than 65535 columns")
    } else if long(&table.name.schema) || long(&table.name.table) {
        Some("its name is longer than 16383 bytes")
    } else if table.columns.iter().any(|column| long(&column.name) || long(&column.native)) {
        Some("the name or type of one of its columns is longer than 16383 bytes")
    } else {
        None
    }
}

/// The data of a table definition record. It may be longer than one record; see [`fragment`](super::fragment).
pub fn table_body(table: &TableDefinition, order: Order) -> Vec<u8> {
    let mut body = Vec::with_capacity(64);
    body.extend_from_slice(&TABLE_MAGIC);
    body.extend_from_slice(&order.of_u16(VERSION));
    put_string(&mut body, order, &table.name.schema);
    put_string(&mut body, order, &table.name.table);
    body.extend_from_slice(&columns_body(table, order));
    body
}

/// The part of a table definition that tells of its columns.
pub fn columns_body(table: &TableDefinition, order: Order) -> Vec<u8> {
    let mut body = Vec::with_capacity(64);
    body.extend_from_slice(&order.of_u16(u16::try_from(table.columns.len()).unwrap_or(u16::MAX)));
    let mut entry = Vec::new();
    for column in table.columns.iter() {
        entry.clear();
        put_column(&mut entry, order, column);
        body.extend_from_slice(&order.of_u16(u16::try_from(entry.len()).unwrap_or(u16::MAX)));
        body.extend_from_slice(&entry);
    }
    body
}

fn put_column(entry: &mut Vec<u8>, order: Order, column: &Column) {
    let flag = |on: bool, flag: u8| if on { flag } else { 0 };
    put_string(entry, order, &column.name);
    entry.push(column.logical as u8);
    put_string(entry, order, &column.native);
    entry.push(
        flag(column.length.is_some(), HAS_LENGTH)
            | flag(column.precision.is_some(), HAS_PRECISION)
            | flag(column.scale.is_some(), HAS_SCALE)
            | flag(column.nullable, NULLABLE)
            | flag(column.key.is_some(), KEY),
    );
    entry.extend_from_slice(&order.of_u32(column.length.unwrap_or(0)));
    entry.extend_from_slice(&order.of_u16(column.precision.unwrap_or(0)));
    entry.extend_from_slice(&order.of_u16(column.scale.unwrap_or(0).cast_unsigned()));
    entry.extend_from_slice(&order.of_u16(column.key.unwrap_or(0)));
    entry.push(column.generation as u8);
}

/// Whether `data` is a table definition of ours, of whatever version.
pub fn is_table_body(data: &[u8]) -> bool {
    data.starts_with(&TABLE_MAGIC)
}

/// Reads the data of a table definition record.
///
/// # Errors
/// [`Damage`].
pub fn read_table_body(data: &[u8], order: Order) -> Result<TableDefinition, Damage> {
    const WHAT: &str = "table definition";
    let mut cursor = open_body(data, order, TABLE_MAGIC)?;
    let schema = cursor.string(WHAT)?;
    let table = cursor.string(WHAT)?;
    let count = cursor.u16(WHAT)?;
    let mut columns = Vec::new();
    for _ in 0..count {
        let length = usize::from(cursor.u16(WHAT)?);
        columns.push(read_column(Cursor::new(cursor.take(length, WHAT)?, order))?);
    }
    Ok(TableDefinition { name: TableName { schema, table }, columns: columns.into() })
}

fn read_column(mut entry: Cursor<'_>) -> Result<Column, Damage> {
    const WHAT: &str = "column definition";
    let name = entry.string(WHAT)?;
    let logical = LogicalType::from_code(entry.u8(WHAT)?);
    let native = entry.string(WHAT)?;
    let flags = entry.u8(WHAT)?;
    let length = entry.u32(WHAT)?;
    let precision = entry.u16(WHAT)?;
    let scale = entry.u16(WHAT)?.cast_signed();
    let key = entry.u16(WHAT)?;
    let generation = Generation::from_code(entry.u8(WHAT)?);
    Ok(Column {
        name,
        logical: logical.ok_or(Damage::Content("a column is of a type that this version does not know"))?,
        native,
        length: (flags & HAS_LENGTH != 0).then_some(length),
        precision: (flags & HAS_PRECISION != 0).then_some(precision),
        scale: (flags & HAS_SCALE != 0).then_some(scale),
        nullable: flags & NULLABLE != 0,
        key: (flags & KEY != 0).then_some(key),
        generation: generation.ok_or(Damage::Content("a column is made in a way that this version does not know"))?,
    })
}

/// The data of a database definition record.
pub fn database_body(source: &SourceIdentity, order: Order) -> Vec<u8> {
    let mut body = Vec::with_capacity(64);
    body.extend_from_slice(&DATABASE_MAGIC);
    body.extend_from_slice(&order.of_u16(VERSION));
    for text in [&source.product, &source.version, &source.name] {
        put_string(&mut body, order, super::bytes::clip(text, super::header::TEXT_BYTES_MAX));
    }
    body
}

/// Reads the data of a database definition record.
///
/// # Errors
/// [`Damage`].
pub fn read_database_body(data: &[u8], order: Order) -> Result<SourceIdentity, Damage> {
    const WHAT: &str = "database definition";
    let mut cursor = open_body(data, order, DATABASE_MAGIC)?;
    let (product, version, name) = (cursor.string(WHAT)?, cursor.string(WHAT)?, cursor.string(WHAT)?);
    Ok(SourceIdentity { product, version, name, ..SourceIdentity::default() })
}

fn open_body(data: &[u8], order: Order, magic: [u8; 4]) -> Result<Cursor<'_>, Damage> {
    let mut cursor = Cursor::new(data, order);
    if cursor.take(magic.len(), "definition")? != magic {
        return Err(Damage::Content("the definition is not in this product's form"));
    }
    if cursor.u16("definition")? != VERSION {
        return Err(Damage::Content("the definition is of a later version"));
    }
    Ok(cursor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_definition_keeps_everything_that_is_known_of_a_column() {
        let plain = Column::new("a \"b\".c", LogicalType::Integer, "INTEGER").with_key(1);
        let full = Column {
            length: Some(u32::MAX),
            precision: Some(0),
            scale: Some(-84),
            nullable: false,
            generation: Generation::Virtual,
            ..Column::new("", LogicalType::Other, "ключ")
        };
        let table = TableDefinition { name: TableName::new("Main.x", "t\n"), columns: [plain, full].into() };
        for order in [Order::Little, Order::Big] {
            let body = table_body(&table, order);
            assert_eq!(read_table_body(&body, order), Ok(table.clone()));
            for length in 0..body.len() {
                assert!(read_table_body(&body[..length], order).is_err(), "cut to {length} bytes");
            }
        }
    }

    #[test]
    fn another_products_definition_is_told_from_ours() {
        assert!(!is_table_body(&[0; 138]));
        assert_eq!(
            read_table_body(&[0; 138], Order::Little),
            Err(Damage::Content("the definition is not in this product's form"))
        );
    }
}
