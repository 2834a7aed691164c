//! Sending a table again as a whole, from one snapshot.

use crate::catalog::{Identity, Table};
use crate::error::failed;
use crate::name::quoted;
use crate::value;
use change::{Row, RowBuilder, TableDefinition};
use database::Error;
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, ToSql, params_from_iter};
use std::sync::Arc;

/// A table on its way, read in the order of its identity.
pub(super) struct Reload {
    pub(super) definition: Arc<TableDefinition>,
    pub(super) reason: String,
    pub(super) truncated: bool,
    first: String,
    next: String,
    /// Columns of the identity.
    identity: usize,
    last: Vec<Kept>,
}

impl Reload {
    pub(super) fn new(table: &Table, definition: Arc<TableDefinition>, reason: String) -> Option<Reload> {
        let identity: Vec<String> = match table.identity()? {
            Identity::Rowid(name) => vec![name],
            Identity::PrimaryKey(key) => key.iter().map(|part| quoted(&table.columns[*part].name)).collect(),
        };
        let columns: Vec<String> = table.columns.iter().map(|column| quoted(&column.name)).collect();
        let order = identity.join(", ");
        let select = format!("SELECT {order}, {} FROM main.{}", columns.join(", "), quoted(&table.name));
        let places: Vec<String> = (0..identity.len()).map(|place| format!("?{}", place + 2)).collect();
        Some(Reload {
            definition,
            reason,
            truncated: false,
            first: format!("{select} ORDER BY {order} LIMIT ?1"),
            next: format!("{select} WHERE ({order}) > ({}) ORDER BY {order} LIMIT ?1", places.join(", ")),
            identity: identity.len(),
            last: Vec::new(),
        })
    }

    /// Passes the next rows to `take` until it has enough; returns whether the table is complete.
    pub(super) fn read(
        &mut self,
        connection: &Connection,
        rows_max: usize,
        mut take: impl FnMut(Row) -> bool,
    ) -> Result<bool, Error> {
        let name = self.definition.name.clone();
        let mut read = || -> rusqlite::Result<bool> {
            let sql = if self.last.is_empty() { &self.first } else { &self.next };
            let mut statement = connection.prepare_cached(sql)?;
            let limit = rows_max as i64;
            let last = std::mem::take(&mut self.last);
            let parameters = std::iter::once(&limit as &dyn ToSql).chain(last.iter().map(|value| value as &dyn ToSql));
            let mut rows = statement.query(params_from_iter(parameters))?;
            let mut builder = RowBuilder::new();
            let mut count = 0;
            while let Some(row) = rows.next()? {
                count += 1;
                for (place, column) in self.definition.columns.iter().enumerate() {
                    value::push(&mut builder, column.logical, row.get_ref(self.identity + place)?);
                }
                self.last.clear();
                for place in 0..self.identity {
                    self.last.push(Kept::from(row.get_ref(place)?));
                }
                if !take(builder.finish()) {
                    return Ok(false);
                }
            }
            Ok(count < rows_max)
        };
        read().map_err(|cause| failed(format!("could not read the rows of {name}"), cause))
    }
}

/// A value of a row's identity; text as it is stored, valid UTF-8 or not.
enum Kept {
    Integer(i64),
    Real(f64),
    Text(Vec<u8>),
    Blob(Vec<u8>),
    Null,
}

impl From<ValueRef<'_>> for Kept {
    fn from(value: ValueRef<'_>) -> Kept {
        match value {
            ValueRef::Null => Kept::Null,
            ValueRef::Integer(number) => Kept::Integer(number),
            ValueRef::Real(number) => Kept::Real(number),
            ValueRef::Text(bytes) => Kept::Text(bytes.to_vec()),
            ValueRef::Blob(bytes) => Kept::Blob(bytes.to_vec()),
        }
    }
}

impl ToSql for Kept {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Kept::Null => ValueRef::Null,
            Kept::Integer(number) => ValueRef::Integer(*number),
            Kept::Real(number) => ValueRef::Real(*number),
            Kept::Text(bytes) => ValueRef::Text(bytes),
            Kept::Blob(bytes) => ValueRef::Blob(bytes),
        }))
    }
}
