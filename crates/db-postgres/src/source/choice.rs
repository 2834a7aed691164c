//! Which tables a group captures, and why a table can't be captured.

use super::publication::letter;
use crate::catalog::{CatalogTable, Identity};
use crate::wire::{Connection, Error as WireError};
use change::TableName;
use database::{Error, ErrorClass, TableSelection};
use std::collections::{HashMap, HashSet};

/// A table that a group captures.
pub(super) struct Chosen<'a> {
    pub(super) table: &'a CatalogTable,
    /// Whether its replica identity must become FULL: columns of the chosen key are not told otherwise.
    pub(super) needs_full: bool,
    /// The table and its partitions.
    pub(super) members: Vec<TableName>,
    numbers: Vec<u32>,
}

impl Chosen<'_> {
    /// What must be kept to give the members their replica identity back.
    pub(super) fn before(&self, connection: &mut Connection) -> Result<Vec<(u32, String)>, WireError> {
        let mut before = Vec::new();
        for number in &self.numbers {
            let row = connection.query_one(
                "SELECT c.relreplident, (SELECT i.indexrelid FROM pg_index i \
                 WHERE i.indrelid = c.oid AND i.indisreplident) FROM pg_class c WHERE c.oid = $1::oid",
                &[Some(&number.to_string())],
            )?;
            let Some(row) = row else { continue };
            match (row.required(0)?, row.text(1)) {
                ("f", _) => {}
                ("i", Some(index)) => before.push((*number, format!("i{index}"))),
                (identity, _) => before.push((*number, identity.to_owned())),
            }
        }
        Ok(before)
    }
}

/// The tables among `tables`, all of the database, that `selection` asks for.
///
/// A partition is told under the name of its topmost ancestor that is selected, and on its own when there is none.
///
/// # Errors
/// `Missing` for a required table that is not there, `Unsupported` for a table that can't be captured.
pub(super) fn choose<'a>(tables: &'a [CatalogTable], selection: &dyn TableSelection) -> Result<Vec<Chosen<'a>>, Error> {
    let names: HashSet<&TableName> = tables.iter().map(|table| &table.definition.name).collect();
    for required in selection.required() {
        if !names.contains(&required) {
            return Err(Error::new(ErrorClass::Missing, format!("table {required} does not exist"))
                .with_next_step("check the name in the TABLE statement; names without quotes are lower case"));
        }
    }
    let numbered: HashMap<u32, &CatalogTable> = tables.iter().map(|table| (table.oid, table)).collect();
    let ancestors = |table: &CatalogTable| {
        let parent = |table: &&'a CatalogTable| numbered.get(&table.parent?).copied();
        std::iter::successors(table.parent.and_then(|parent| numbered.get(&parent).copied()), parent)
    };
    let is_chosen = |table: &CatalogTable| {
        selection.selects(&table.definition.name)
            && !ancestors(table).any(|ancestor| selection.selects(&ancestor.definition.name))
    };
    let mut partitions: HashMap<u32, Vec<&CatalogTable>> = HashMap::new();
    for table in tables {
        ancestors(table).for_each(|ancestor| partitions.entry(ancestor.oid).or_default().push(table));
    }
    tables
        .iter()
        .filter(|table| is_chosen(table))
        .map(|table| {
            let partitions = partitions.get(&table.oid).into_iter().flatten().copied();
            let family: Vec<&CatalogTable> = std::iter::once(table).chain(partitions).collect();
            let key = selection.key_columns(&table.definition.name);
            let needs_full = check(table, &family, key.as_deref())?;
            Ok(Chosen {
                table,
                needs_full,
                members: family.iter().map(|member| member.definition.name.clone()).collect(),
                numbers: family.iter().map(|member| member.oid).collect(),
            })
        })
        .collect()
}

/// Refuses a table that can't be captured; says whether its replica identity must become FULL.
fn check(table: &CatalogTable, family: &[&CatalogTable], key: Option<&[String]>) -> Result<bool, Error> {
    let name = &table.definition.name;
    let refuse = |why: String, step: String| {
        Err(Error::new(ErrorClass::Unsupported, format!("can't capture table {name}: {why}")).with_next_step(step))
    };
    if let Some(member) = family.iter().find(|member| !member.is_logged) {
        let why = format!("{} is unlogged", member.definition.name);
        return refuse(why, format!("exclude the table, or ALTER TABLE {name} SET LOGGED"));
    }
    match key {
        Some(key) => {
            let mut columns = Vec::with_capacity(key.len());
            for column in key {
                match table.definition.column(column) {
                    Some(place) if table.definition.columns[place].generation.is_computed() => {
                        let why = format!("column {column} of its KEYCOLS is generated, and such columns are not told");
                        return refuse(why, "choose other columns in KEYCOLS".to_owned());
                    }
                    Some(place) => columns.push(place),
                    None => {
                        let why = format!("column {column} of its KEYCOLS does not exist");
                        return refuse(why, "check the column's name in KEYCOLS".to_owned());
                    }
                }
            }
            let is_told = |member: &&CatalogTable| {
                member.identity == Identity::Full
                    || (member.oid == table.oid && family.len() == 1)
                        && columns.iter().all(|column| member.identity_columns.contains(column))
            };
            Ok(!family.iter().all(is_told))
        }
        None if table.identity == Identity::Nothing => {
            let why = "its replica identity is NOTHING".to_owned();
            refuse(why, format!("ALTER TABLE {name} REPLICA IDENTITY DEFAULT or FULL"))
        }
        None if table.identity == Identity::Full => {
            match family.iter().find(|member| member.identity != Identity::Full && table.definition.key().is_empty()) {
                None => Ok(false),
                Some(member) => {
                    let why = format!(
                        "its partition {} has replica identity {}, not FULL",
                        member.definition.name,
                        letter(member.identity)
                    );
                    refuse(why, format!("ALTER TABLE {} REPLICA IDENTITY FULL", member.definition.name))
                }
            }
        }
        None if table.identity_columns.is_empty() => {
            let why = "it has no primary key that could identify a row".to_owned();
            let step = format!(
                "add a primary key, or ALTER TABLE {name} REPLICA IDENTITY FULL, or give KEYCOLS, or exclude the table"
            );
            refuse(why, step)
        }
        None => Ok(false),
    }
}
