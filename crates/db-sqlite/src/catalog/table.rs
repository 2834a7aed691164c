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
    /// Whether a generated column computes with the rowid's column.
    pub(crate) generates_from_rowid: bool,
    /// Foreign keys to this very table whose columns follow the key when it changes: (column, key column) pairs.
    pub(crate) followed_by_itself: Vec<Vec<(usize, usize)>>,
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
            generates_from_rowid: false,
            followed_by_itself: Vec::new(),
            unique,
        };
        table.rowid_column = table.find_rowid_column();
        table.followed_by_itself = table.find_followed_by_itself(connection)?;
        let rowid = table.rowid_column.map(|column| &table.columns[column].name);
        table.generates_from_rowid = rowid.is_some_and(|rowid| generates_from(&sql, rowid));
        Ok(table)
    }

    /// An INTEGER PRIMARY KEY is the rowid, except where an old quirk (`DESC` behind it) gave it an index of its own.
    fn find_rowid_column(&self) -> Option<usize> {
        let key = self.primary_key();
        let [only] = key[..] else { return None };
        let has_index = self.unique.iter().any(|index| index.is_primary_key);
        (!self.without_rowid && !has_index && same(&self.columns[only].native, "INTEGER")).then_some(only)
    }

    fn find_followed_by_itself(&self, connection: &Connection) -> Result<Vec<Vec<(usize, usize)>>, Error> {
        let read = || -> rusqlite::Result<Vec<(i64, String, Option<String>)>> {
            let mut statement = connection.prepare_cached(
                "SELECT id, \"from\", \"to\" FROM pragma_foreign_key_list(?1, 'main') \
                 WHERE \"table\" = ?1 COLLATE NOCASE AND on_update NOT IN ('NO ACTION', 'RESTRICT') ORDER BY id, seq",
            )?;
            statement.query_map([&self.name], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?.collect()
        };
        let parts =
            read().map_err(|cause| failed(format!("could not read the foreign keys of main.{}", self.name), cause))?;
        let mut found: Vec<(i64, Vec<(usize, usize)>)> = Vec::new();
        for (id, from, to) in parts {
            if found.last().is_none_or(|(last, _)| *last != id) {
                found.push((id, Vec::new()));
            }
            let Some((_, pairs)) = found.last_mut() else { continue };
            // Without a name it is the PRIMARY KEY.
            let to = match to {
                Some(to) => self.column(&to),
                None => self.primary_key().get(pairs.len()).copied(),
            };
            pairs.extend(self.column(&from).zip(to));
        }
        Ok(found.into_iter().map(|(_, pairs)| pairs).filter(|pairs| !pairs.is_empty()).collect())
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

    /// A unique index over something computed from the rowid's column: before an insert that leaves the rowid to SQLite
    /// nobody can tell what it will hold.
    pub(crate) fn index_computed_from_rowid(&self) -> Option<&UniqueIndex> {
        let rowid = &self.columns[self.rowid_column?].name;
        let mentions = |text: &str| tokens(text).iter().any(|word| word.is_name(rowid));
        self.unique.iter().find(|index| {
            index.predicate.as_deref().is_some_and(mentions)
                || index.columns.iter().any(|part| match &part.column {
                    Some(name) => {
                        let column = self.column(name).map(|column| &self.columns[column]);
                        self.generates_from_rowid && column.is_some_and(|column| column.generation.is_computed())
                    }
                    None => mentions(&part.expression),
                })
        })
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

/// Whether an expression behind AS in a CREATE TABLE statement mentions a column.
fn generates_from(sql: &str, column: &str) -> bool {
    let words = tokens(sql);
    words.windows(2).enumerate().any(|(place, pair)| {
        let starts = pair[0].is_word("AS") && pair[1].is_sign("(");
        let mut depth = 0;
        starts
            && words[place + 1..]
                .iter()
                .take_while(|word| {
                    depth += i32::from(word.is_sign("(")) - i32::from(word.is_sign(")"));
                    depth > 0
                })
                .any(|word| word.is_name(column))
    })
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
