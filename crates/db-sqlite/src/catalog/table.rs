//! One table.

use super::{Entry, SCHEMA, UniqueIndex};
use crate::error::failed;
use crate::name::{quoted, same};
use crate::token::tokens;
use change::{Column, Generation, LogicalType, TableDefinition, TableName};
use database::Error;
use rusqlite::Connection;

/// A column as the catalog tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TableColumn {
    pub(crate) name: String,
    pub(crate) native: String,
    pub(crate) not_null: bool,
    /// SQL text of the default.
    pub(crate) default: Option<String>,
    /// Place in the PRIMARY KEY, from 0.
    pub(crate) primary_key: Option<u16>,
    pub(crate) generation: Generation,
}

/// What tells a row apart from all others of its table, for as long as the row lives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Identity {
    /// The rowid, under this name: its column's, or a name that no column has taken.
    Rowid(String),
    /// The PRIMARY KEY of a WITHOUT ROWID table, as indexes of columns.
    PrimaryKey(Vec<usize>),
}

/// A table with rows of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Table {
    pub(crate) name: String,
    pub(crate) strict: bool,
    pub(crate) without_rowid: bool,
    pub(crate) autoincrement: bool,
    pub(crate) columns: Vec<TableColumn>,
    /// The column that is the rowid, if one is.
    pub(crate) rowid_column: Option<usize>,
    /// All unique indexes, those of constraints included, the rowid not included.
    pub(crate) unique: Vec<UniqueIndex>,
}

impl Table {
    pub(super) fn read(connection: &Connection, entry: &Entry) -> Result<Table, Error> {
        let columns = read_columns(connection, &entry.name)
            .map_err(|cause| failed(format!("could not read the columns of main.{}", entry.name), cause))?;
        let unique = UniqueIndex::read_all(connection, &entry.name)?;
        let sql: String = connection
            .query_row("SELECT sql FROM sqlite_schema WHERE type = 'table' AND name = ?1", [&entry.name], |row| {
                row.get(0)
            })
            .map_err(|cause| failed(format!("could not read the definition of main.{}", entry.name), cause))?;
        let mut table = Table {
            name: entry.name.clone(),
            strict: entry.strict,
            without_rowid: entry.without_rowid,
            autoincrement: tokens(&sql).iter().any(|token| token.is_word("AUTOINCREMENT")),
            columns,
            rowid_column: None,
            unique,
        };
        table.rowid_column = table.find_rowid_column();
        Ok(table)
    }

    /// An INTEGER PRIMARY KEY is the rowid, except where an old quirk (`DESC` behind it) gave it an index of its own.
    fn find_rowid_column(&self) -> Option<usize> {
        let key = self.primary_key();
        let [only] = key[..] else { return None };
        let has_index = self.unique.iter().any(|index| index.is_primary_key);
        (!self.without_rowid && !has_index && same(&self.columns[only].native, "INTEGER")).then_some(only)
    }

    /// Columns of the PRIMARY KEY, in key order.
    fn primary_key(&self) -> Vec<usize> {
        let mut places: Vec<(u16, usize)> =
            self.columns.iter().enumerate().filter_map(|(index, column)| Some((column.primary_key?, index))).collect();
        places.sort_unstable();
        places.into_iter().map(|(_, index)| index).collect()
    }

    /// The row's key: the PRIMARY KEY, else the smallest unique index over columns that take no NULL; empty without one.
    pub(crate) fn key(&self) -> Vec<usize> {
        let primary = self.primary_key();
        if !primary.is_empty() {
            return primary;
        }
        let mut candidates: Vec<Vec<usize>> = self
            .unique
            .iter()
            .filter(|index| index.predicate.is_none())
            .filter_map(|index| self.plain_columns(index))
            .filter(|columns| columns.iter().all(|column| !self.nullable(*column)))
            .collect();
        candidates.sort_by_key(|columns| (columns.len(), columns.clone()));
        candidates.into_iter().next().unwrap_or_default()
    }

    /// The index's columns, or `None` when it is over expressions.
    pub(crate) fn plain_columns(&self, index: &UniqueIndex) -> Option<Vec<usize>> {
        index.columns.iter().map(|part| self.column(part.column.as_deref()?)).collect()
    }

    /// Whether at most one row can have given values, NULL not among them, in `columns`.
    pub(crate) fn is_unique(&self, columns: &[usize]) -> bool {
        let within = |index: &[usize]| index.iter().all(|column| columns.contains(column));
        self.rowid_column.is_some_and(|column| columns.contains(&column))
            || self
                .unique
                .iter()
                .filter(|index| index.predicate.is_none())
                .filter_map(|index| self.plain_columns(index))
                .any(|index| within(&index))
    }

    pub(crate) fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| same(&column.name, name))
    }

    pub(crate) fn nullable(&self, column: usize) -> bool {
        let facts = &self.columns[column];
        // Ordinary tables take NULL in a PRIMARY KEY, by an old mistake that SQLite keeps.
        let strict_key = facts.primary_key.is_some() && (self.without_rowid || self.strict);
        !facts.not_null && !strict_key && self.rowid_column != Some(column)
    }

    /// What tells rows apart, or `None` when three columns have taken all names of the rowid.
    pub(crate) fn identity(&self) -> Option<Identity> {
        if self.without_rowid {
            return Some(Identity::PrimaryKey(self.primary_key()));
        }
        if let Some(column) = self.rowid_column {
            return Some(Identity::Rowid(quoted(&self.columns[column].name)));
        }
        let free = ["rowid", "_rowid_", "oid"].into_iter().find(|name| self.column(name).is_none())?;
        Some(Identity::Rowid(free.to_owned()))
    }

    /// The table in words that all databases share.
    pub(crate) fn definition(&self) -> TableDefinition {
        let key = self.key();
        let column = |(index, facts): (usize, &TableColumn)| {
            let place = key.iter().position(|part| *part == index);
            Column {
                nullable: self.nullable(index),
                key: place.map(|place| place as u16),
                generation: facts.generation,
                ..Column::new(&facts.name, self.logical(facts), &facts.native)
            }
        };
        TableDefinition {
            name: TableName::new(SCHEMA, &self.name),
            columns: self.columns.iter().enumerate().map(column).collect(),
        }
    }

    /// Outside STRICT tables any column may hold any class; in them, each but ANY holds one.
    fn logical(&self, column: &TableColumn) -> LogicalType {
        let typed = |name: &str| self.strict && same(&column.native, name);
        if typed("INTEGER") || typed("INT") {
            LogicalType::Integer
        } else if typed("REAL") {
            LogicalType::Float
        } else if typed("TEXT") {
            LogicalType::Text
        } else if typed("BLOB") {
            LogicalType::Binary
        } else {
            LogicalType::Dynamic
        }
    }
}

fn read_columns(connection: &Connection, table: &str) -> rusqlite::Result<Vec<TableColumn>> {
    let mut statement = connection.prepare_cached(
        "SELECT name, type, \"notnull\", dflt_value, pk, hidden FROM pragma_table_xinfo(?1, 'main') ORDER BY cid",
    )?;
    let rows = statement.query_map([table], |row| {
        let place: u16 = row.get(4)?;
        let generation = match row.get::<_, i64>(5)? {
            2 => Generation::Virtual,
            3 => Generation::Stored,
            _ => Generation::None,
        };
        Ok(TableColumn {
            name: row.get(0)?,
            native: row.get(1)?,
            not_null: row.get(2)?,
            default: row.get(3)?,
            primary_key: place.checked_sub(1),
            generation,
        })
    })?;
    rows.collect()
}
