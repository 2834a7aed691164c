//! From relations and tuples to definitions and rows.

use crate::catalog::{CatalogTable, Kinds, Scope, read_tables};
use crate::pgoutput::{Cell, OldImage, Relation, ReplicaIdentity, Tuple};
use crate::wire::{Connection, Error as WireError};
use bytes::BufMut;
use change::{Column, Operation, Row, RowBuilder, TableDefinition, TableName, Value};
use database::{Error, ErrorClass, TableSelection};
use std::collections::HashMap;
use std::sync::Arc;

/// How the changes of one relation are read.
#[derive(Clone)]
pub(super) struct Shape {
    pub(super) definition: Arc<TableDefinition>,
    /// Which columns an old key tells.
    told: Vec<bool>,
    /// Whether an old image that claims to be whole is: those of partitions may not be.
    whole: bool,
    /// Columns that arrive as hexadecimal text and travel as bytes.
    binary: Vec<bool>,
    has_binary: bool,
}

/// What a relation message inside an open transaction says.
pub(super) struct Learned {
    /// The shape, `None` for a relation that is not selected, or why it can't be captured.
    pub(super) shape: Result<Option<Shape>, Error>,
    name: Option<TableName>,
    notice: Option<String>,
}

/// The relations that the stream has named so far.
pub(super) struct Shapes {
    kinds: Kinds,
    /// Tables as the catalog had them when they were last looked at.
    catalog: HashMap<u32, CatalogTable>,
    relations: HashMap<u32, Option<Shape>>,
    names: HashMap<u32, TableName>,
}

impl Shapes {
    /// No relation is known yet; `catalog` saves looking at each table again.
    pub(super) fn new(kinds: Kinds, catalog: Vec<CatalogTable>) -> Shapes {
        let catalog = catalog.into_iter().map(|table| (table.oid, table)).collect();
        Shapes { kinds, catalog, relations: HashMap::new(), names: HashMap::new() }
    }

    /// The shape of the relation; `None` when it is not selected.
    ///
    /// # Errors
    /// When the server did not name the relation first.
    pub(super) fn get(&self, relation: u32) -> Result<Option<&Shape>, WireError> {
        match self.relations.get(&relation) {
            Some(shape) => Ok(shape.as_ref()),
            None => Err(WireError::Protocol("a change is of a relation that was not described")),
        }
    }

    /// Takes a relation message; returns what the operator should know.
    ///
    /// # Errors
    /// When the table can't be captured in its new shape.
    pub(super) fn learn(
        &mut self,
        relation: &Relation<'_>,
        connection: &mut Connection,
        selection: &dyn TableSelection,
    ) -> Result<Option<String>, Error> {
        let schema = if relation.schema.is_empty() { "pg_catalog" } else { relation.schema };
        let name = TableName::new(schema, relation.name);
        let selected = selection.selects(&name);
        let before = self.names.insert(relation.oid, name.clone());
        let notice = match before {
            Some(before) if before != name && !selected && selection.selects(&before) => {
                Some(format!("table {before} was renamed to {name}, which is not selected: it is captured no more"))
            }
            Some(before) if before != name => Some(format!("table {before} was renamed to {name}")),
            _ => None,
        };
        if !selected {
            self.relations.insert(relation.oid, None);
            return Ok(notice);
        }
        let failed = |error: WireError| error.during(format!("can't look at table {name}"));
        if !self.catalog.get(&relation.oid).is_some_and(|table| fits(table, relation)) {
            let found = read_tables(connection, &mut self.kinds, Scope::Numbered(relation.oid)).map_err(failed)?;
            match found.into_iter().next() {
                Some(table) => self.catalog.insert(relation.oid, table),
                None => self.catalog.remove(&relation.oid),
            };
        }
        self.kinds.load(connection, relation.columns.iter().map(|column| column.type_oid)).map_err(failed)?;
        let shape = self.shape(relation, &name, connection, selection)?;
        self.relations.insert(relation.oid, Some(shape));
        Ok(notice)
    }

    /// Takes a relation message that counts for one open transaction only.
    ///
    /// # Errors
    /// When the server can't be asked.
    pub(super) fn learn_apart(
        &mut self,
        relation: &Relation<'_>,
        connection: &mut Connection,
        selection: &dyn TableSelection,
    ) -> Result<Learned, Error> {
        let oid = relation.oid;
        let before = (self.relations.get(&oid).cloned(), self.names.get(&oid).cloned());
        let told = self.learn(relation, connection, selection);
        let shape = self.relations.remove(&oid).flatten();
        let name = self.names.remove(&oid);
        self.relations.extend(before.0.map(|shape| (oid, shape)));
        self.names.extend(before.1.map(|name| (oid, name)));
        match told {
            Ok(notice) => Ok(Learned { shape: Ok(shape), name, notice }),
            Err(refused) if refused.class() == ErrorClass::Unsupported => {
                Ok(Learned { shape: Err(refused), name, notice: None })
            }
            Err(error) => Err(error),
        }
    }

    /// The transaction of a [`learn_apart`](Shapes::learn_apart) has committed: its shape counts for everybody. Returns what
    /// the operator should know.
    pub(super) fn adopt(&mut self, oid: u32, learned: Learned) -> Option<String> {
        if let Ok(shape) = learned.shape {
            self.relations.insert(oid, shape);
        }
        self.names.extend(learned.name.map(|name| (oid, name)));
        learned.notice
    }

    fn shape(
        &self,
        relation: &Relation<'_>,
        name: &TableName,
        connection: &mut Connection,
        selection: &dyn TableSelection,
    ) -> Result<Shape, Error> {
        let table = self.catalog.get(&relation.oid);
        let mut columns = Vec::with_capacity(relation.columns.len());
        for column in &relation.columns {
            columns.push(
                self.column(column, table, connection)
                    .map_err(|error| error.during(format!("can't look at column {} of table {name}", column.name)))?,
            );
        }
        let key = key(relation, name, table, selection)?;
        for (place, column) in (0_u16..).zip(key) {
            columns[column].key = Some(place);
        }
        let binary: Vec<bool> = columns.iter().map(|column| column.logical == change::LogicalType::Binary).collect();
        let mut definition = Arc::new(TableDefinition { name: name.clone(), columns: columns.into() });
        // The server describes relations again after many a command that changes nothing we see.
        if let Some(Some(before)) = self.relations.get(&relation.oid)
            && before.definition == definition
        {
            definition = Arc::clone(&before.definition);
        }
        Ok(Shape {
            definition,
            told: relation.columns.iter().map(|column| column.is_key).collect(),
            whole: !table.is_some_and(|table| table.is_partitioned && !table.definition.key().is_empty())
                || selection.key_columns(name).is_some(),
            has_binary: binary.contains(&true),
            binary,
        })
    }

    fn column(
        &self,
        column: &crate::pgoutput::RelationColumn<'_>,
        table: Option<&CatalogTable>,
        connection: &mut Connection,
    ) -> Result<Column, WireError> {
        let kind = self.kinds.kind(column.type_oid);
        let modifier = if column.modifier == -1 { kind.base_modifier } else { column.modifier };
        let measures = crate::catalog::measures(kind.base, modifier);
        let known = table.and_then(|table| {
            let place = table.definition.column(column.name)?;
            let known = &table.definition.columns[place];
            let same = table.columns[place].kind == kind && (known.length, known.precision, known.scale) == measures;
            same.then(|| known.clone())
        });
        let mut described = match known {
            Some(known) => Column { key: None, ..known },
            // The table has changed since; what the log does not tell of the column is gone.
            None => {
                let row = connection.query_one(
                    "SELECT format_type($1::oid, $2::int)",
                    &[Some(&column.type_oid.to_string()), Some(&column.modifier.to_string())],
                )?;
                let native = row.as_ref().and_then(|row| row.text(0)).unwrap_or("unknown").to_owned();
                let mut described = Column::new(column.name, kind.logical, native);
                described.nullable = !column.is_key;
                described
            }
        };
        (described.length, described.precision, described.scale) = measures;
        Ok(described)
    }
}

/// Whether the catalog shows the relation as the log does. Columns that the log leaves out are computed ones.
fn fits(table: &CatalogTable, relation: &Relation<'_>) -> bool {
    let told = table.definition.columns.iter().filter(|column| !column.generation.is_computed());
    table.definition.name.table == relation.name
        && told.map(|column| column.name.as_str()).eq(relation.columns.iter().map(|column| column.name))
}

/// The columns of the key, in key order.
fn key(
    relation: &Relation<'_>,
    name: &TableName,
    table: Option<&CatalogTable>,
    selection: &dyn TableSelection,
) -> Result<Vec<usize>, Error> {
    let place = |column: &str| relation.columns.iter().position(|known| known.name == column);
    let refuse = |why: String, step: String| {
        let what = format!("can't capture table {name} any more: {why}");
        Err(Error::new(ErrorClass::Unsupported, what).with_next_step(step))
    };
    let full = format!("ALTER TABLE {name} REPLICA IDENTITY FULL, and copy the table anew");
    if let Some(chosen) = selection.key_columns(name) {
        let mut key = Vec::with_capacity(chosen.len());
        for column in &chosen {
            match place(column) {
                Some(place) if relation.columns[place].is_key => key.push(place),
                Some(_) => {
                    return refuse(format!("its replica identity does not tell column {column} of KEYCOLS"), full);
                }
                None => return refuse(format!("column {column} of its KEYCOLS is gone"), "correct KEYCOLS".to_owned()),
            }
        }
        return Ok(key);
    }
    let told: Vec<usize> = (0..relation.columns.len()).filter(|column| relation.columns[*column].is_key).collect();
    if told.is_empty() || relation.identity == ReplicaIdentity::Nothing {
        return refuse("it has no key that identifies its rows".to_owned(), full);
    }
    let listed: Option<Vec<usize>> = table.and_then(|table| {
        let key = table.definition.key();
        let found: Vec<usize> =
            key.iter().filter_map(|column| place(&table.definition.columns[*column].name)).collect();
        (found.len() == key.len() && !key.is_empty()).then_some(found)
    });
    Ok(match listed {
        Some(listed) if relation.identity == ReplicaIdentity::Full => listed,
        // What the log tells is what counts; the catalog gives the order.
        Some(listed) if listed.len() == told.len() && listed.iter().all(|column| told.contains(column)) => listed,
        // Without a key of its own, a row is found by all that it holds.
        _ => told,
    })
}

impl Shape {
    /// The operation of an insert.
    pub(super) fn insert(&self, builder: &mut RowBuilder, new: &Tuple<'_>) -> Result<Operation, WireError> {
        Ok(Operation::Insert { new: self.row(builder, new, None, false)? })
    }

    /// The operation of an update.
    pub(super) fn update(
        &self,
        builder: &mut RowBuilder,
        old: &OldImage<'_>,
        new: &Tuple<'_>,
    ) -> Result<Operation, WireError> {
        // A value that did not change and is not sent stands in the old row, where that is whole.
        let fill = if let OldImage::Full(old) = old
            && self.whole
        {
            Some(old)
        } else {
            None
        };
        let new = self.row(builder, new, fill, false)?;
        Ok(Operation::Update { old: self.old(builder, old)?, new })
    }

    /// The operation of a delete.
    pub(super) fn delete(&self, builder: &mut RowBuilder, old: &OldImage<'_>) -> Result<Operation, WireError> {
        let old = self.old(builder, old)?.ok_or(WireError::Protocol("a deletion does not tell its row"))?;
        Ok(Operation::Delete { old })
    }

    fn old(&self, builder: &mut RowBuilder, old: &OldImage<'_>) -> Result<Option<Row>, WireError> {
        match old {
            OldImage::None => Ok(None),
            OldImage::Key(tuple) => self.row(builder, tuple, None, true).map(Some),
            OldImage::Full(tuple) => self.row(builder, tuple, None, !self.whole).map(Some),
        }
    }

    fn row(
        &self,
        builder: &mut RowBuilder,
        tuple: &Tuple<'_>,
        fill: Option<&Tuple<'_>>,
        key_only: bool,
    ) -> Result<Row, WireError> {
        if tuple.len() != self.binary.len() {
            return Err(WireError::Protocol("a row has another number of columns than its relation"));
        }
        let message = tuple.message();
        let mut filled = fill.map(Tuple::cells);
        let cells = tuple.cells().enumerate().map(|(column, cell)| {
            let other = filled.as_mut().and_then(Iterator::next);
            let told =
                !key_only || (self.told[column] && (self.whole || self.definition.columns[column].key.is_some()));
            match (cell, other) {
                // The columns outside of an old key are sent as NULL.
                _ if !told => Cell::Unchanged,
                (Cell::Unchanged, Some(other)) => other,
                (cell, _) => cell,
            }
        });
        if !self.has_binary {
            return Ok(RowBuilder::over(
                message,
                cells.map(|cell| match cell {
                    Cell::Null => Err(Value::Null),
                    Cell::Unchanged => Err(Value::Unchanged),
                    Cell::Text(range) | Cell::Binary(range) => Ok(range),
                }),
            ));
        }
        let mut damaged = false;
        for (column, cell) in cells.enumerate() {
            match cell {
                Cell::Null => builder.push(Value::Null),
                Cell::Unchanged => builder.push(Value::Unchanged),
                Cell::Text(range) | Cell::Binary(range) => {
                    let text = message.get(range).unwrap_or_default();
                    if self.binary[column] {
                        builder.push_with(|buffer| damaged |= hexadecimal(text, buffer).is_none());
                    } else {
                        builder.push(Value::Bytes(text));
                    }
                }
            }
        }
        let row = builder.finish();
        if damaged { Err(WireError::Protocol("a value of type bytea is not in hexadecimal")) } else { Ok(row) }
    }
}

/// Appends the bytes that `\x…` stands for.
fn hexadecimal(text: &[u8], buffer: &mut bytes::BytesMut) -> Option<()> {
    let digits = text.strip_prefix(b"\\x")?;
    let (pairs, rest) = digits.as_chunks::<2>();
    buffer.reserve(pairs.len());
    for [high, low] in pairs {
        buffer.put_u8(
            DIGITS[usize::from(*high)].checked_mul(16)? | Some(DIGITS[usize::from(*low)]).filter(|low| *low < 16)?,
        );
    }
    rest.is_empty().then_some(())
}

/// Value of each hexadecimal digit; 16 for what is none.
const DIGITS: [u8; 256] = {
    let mut digits = [16; 256];
    let mut value = 0_u8;
    while value < 10 {
        digits[(b'0' + value) as usize] = value;
        value += 1;
    }
    let mut value = 10_u8;
    while value < 16 {
        digits[(b'a' + value - 10) as usize] = value;
        digits[(b'A' + value - 10) as usize] = value;
        value += 1;
    }
    digits
};

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::BytesMut;

    #[test]
    fn hexadecimal_text_becomes_bytes_or_an_error() {
        let read = |text: &[u8]| {
            let mut buffer = BytesMut::new();
            hexadecimal(text, &mut buffer).map(|()| buffer.to_vec())
        };
        assert_eq!(read(b"\\x"), Some(Vec::new()));
        assert_eq!(read(b"\\x00deadBEEFff"), Some(b"\x00\xde\xad\xbe\xef\xff".to_vec()));
        for text in [&b""[..], b"\\x0", b"\\xg0", b"\\x0g", b"00", b"\\000"] {
            assert_eq!(read(text), None);
        }
    }
}
