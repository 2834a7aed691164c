//! Comparing what is installed with what should be, and putting it in order.
//!
//! # When rows are sent again
//! Where changes may have been missed (triggers gone or altered, the table made anew, altered or renamed, a new table that
//! the group selects), the triggers are installed under a new number in one short write transaction, together with a
//! [`Kind::Reload`] row. A reader that comes to that row sends the whole table as of the moment it reads, in place of all
//! changes of the table that it has not sent yet, so that the target equals the source whatever was missed.
//!
//! Where only the *order* of triggers or the list of unique indexes changed, something can have gone wrong only together
//! with a recorded change of the same table: without one since the last look, the triggers are just installed anew.
//!
//! # What has come and gone
//! A unique index or a trigger may be created, have its effect, and be dropped again before anybody looks. Every statement
//! that changes the schema adds one to its version, so one step is what can be seen, and more than one may hide
//! something. Then tables that were written to in between are sent again. That changes no schema, so two readers
//! do not take each other's repairs for a reason.

use super::object::{self, Kind};
use super::registry::{self, Registered};
use super::text::{self, Nesting, Trigger};
use crate::catalog::{self, Entry, Table};
use crate::error::failed;
use crate::name::{folded, quoted, same};
use crate::token::tokens;
use change::TableName;
use database::{Error, ErrorClass, TableSelection};
use rusqlite::Connection;
use std::collections::{HashMap, HashSet};

/// What a reader knows: up to change `since` everything was in order, under this schema version.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known {
    pub(crate) since: i64,
    pub(crate) schema_version: i64,
}

/// What is not as it should be.
#[derive(Debug)]
pub(crate) enum Finding {
    /// Changes of the table may have been missed, or it is new.
    Install { table: Table, nesting: Nesting, reason: String },
    /// The triggers must be made anew; nothing was missed unless the table was written to since the last look.
    Renew { id: i64, table: Table, nesting: Nesting, reason: String },
    /// The table was written to while the schema changed in ways that can't be seen any more.
    Doubt { id: i64, reason: String },
    /// The table is gone, or no longer one of those that can be captured.
    Retire { id: i64, name: String },
}

/// The result of a comparison.
#[derive(Debug, Default)]
pub(crate) struct Reconciliation {
    pub(crate) findings: Vec<Finding>,
    /// What wildcards select but capture leaves out, with the reason.
    pub(crate) skipped: Vec<String>,
}

/// Compares, within one read or write transaction. Without a reader that knows something, nothing is in doubt.
///
/// # Errors
/// [`ErrorClass::Missing`] and [`ErrorClass::Unsupported`], by name, for a table that must be captured and can't be.
pub(crate) fn compare(
    connection: &Connection,
    tables: &dyn TableSelection,
    known: Option<Known>,
) -> Result<Reconciliation, Error> {
    let entries = catalog::entries(connection)?;
    let required = check_required(&entries, tables)?;
    let triggers = StoredTriggers::read(connection)?;
    let parents = referenced_tables(connection)?;
    let registered = registry::registered_tables(connection)?;
    let mut active: HashMap<String, Registered> =
        registered.into_iter().filter(|table| table.active).map(|table| (folded(&table.name), table)).collect();

    let doubted = match known {
        Some(known) if may_hide_something(connection, known)? => Some(known.since),
        _ => None,
    };
    let mut result = Reconciliation::default();
    for entry in &entries {
        let name = TableName::new(catalog::SCHEMA, &entry.name);
        let is_required = required.contains(&folded(&entry.name));
        if !is_required && !tables.selects(&name) {
            continue;
        }
        if let Some(reason) = uncapturable(entry.kind) {
            if is_required {
                return Err(refused(&name, reason));
            }
            if entry.kind != catalog::Kind::Shadow {
                result.skipped.push(format!("table {name} is not captured: {reason}"));
            }
            continue;
        }
        let table = catalog::table(connection, entry)?;
        check_key(&table, &name, tables)?;
        let nesting = triggers.nesting(&entry.name, parents.contains(&folded(&entry.name)));
        let registered = active.remove(&folded(&entry.name));
        let found = compare_table(connection, table, nesting, registered.clone(), &triggers)?;
        let doubt = match (&found, doubted, registered) {
            (None, Some(since), Some(table)) => doubt(connection, &table, since)?,
            _ => None,
        };
        result.findings.extend(found.or(doubt));
    }
    // What is left was captured and is not there any more, or belongs to other groups. Theirs are for them to look after,
    // except that a repair here would destroy the proof that one was made anew: then it joins again when they look.
    let mut gone: Vec<Registered> = active
        .into_values()
        .filter(|table| {
            let name = TableName::new(catalog::SCHEMA, &table.name);
            tables.selects(&name) || triggers.is_younger_than_pending(&table.name)
        })
        .collect();
    gone.sort_by_key(|table| table.id);
    result.findings.extend(gone.into_iter().map(|table| Finding::Retire { id: table.id, name: table.name }));
    Ok(result)
}

/// Whether the schema took more steps than what is there now can account for.
fn may_hide_something(connection: &Connection, known: Known) -> Result<bool, Error> {
    let version = catalog::schema_version(connection)?;
    let steps = version - known.schema_version - object::own_steps(connection, known.schema_version, version)?;
    Ok(!(0..=1).contains(&steps))
}

fn doubt(connection: &Connection, table: &Registered, since: i64) -> Result<Option<Finding>, Error> {
    let is_sent_anyway = table.reload.is_some_and(|place| place > since);
    if is_sent_anyway || !was_written(connection, table.id, since)? {
        return Ok(None);
    }
    let reason = format!("table main.{} was written to while the schema changed several times", table.name);
    Ok(Some(Finding::Doubt { id: table.id, reason }))
}

fn compare_table(
    connection: &Connection,
    table: Table,
    nesting: Nesting,
    known: Option<Registered>,
    stored: &StoredTriggers,
) -> Result<Option<Finding>, Error> {
    let name = table.name.clone();
    let install = |table: Table, why: &str| {
        // Refuse now what would be refused when the triggers are made.
        text::triggers(&table, 0, nesting)?;
        Ok(Some(Finding::Install { table, nesting, reason: format!("table main.{name} {why}") }))
    };
    let Some(known) = known else { return install(table, "joined capture") };
    if known.definition(connection)?.columns != table.definition().columns {
        return install(table, "was altered");
    }
    let wanted = text::triggers(&table, known.id, nesting)?;
    let found = stored.of(known.id, &table.name);
    if checksum(found.iter().copied()) != known.triggers {
        return install(table, "was made anew or lost its triggers");
    }
    if stored.is_younger_than_pending(&table.name) {
        return install(table, "was made anew");
    }
    let why = if found.iter().map(|trigger| &trigger.sql).ne(wanted.iter().map(|trigger| &trigger.sql)) {
        "has other unique keys or triggers than before"
    } else if !stored.are_newest(known.id, &table.name) {
        "has triggers that are newer than ours"
    } else {
        return Ok(None);
    };
    Ok(Some(Finding::Renew { id: known.id, table, nesting, reason: format!("table main.{name} {why}") }))
}

/// Puts things in order, inside the open write transaction. `since` is the last change that was read while everything was
/// in order; `None` when there is no reader yet, and so nobody to send a table to again.
pub(crate) fn repair(connection: &Connection, findings: Vec<Finding>, since: Option<i64>) -> Result<(), Error> {
    let before = catalog::schema_version(connection)?;
    let mut installed = false;
    for finding in findings {
        match finding {
            Finding::Install { table, nesting, reason } => {
                installed = true;
                install(connection, &table, nesting, since.map(|_| reason.as_str()))?;
            }
            Finding::Renew { id, table, nesting, reason } => {
                if was_written(connection, id, since.unwrap_or(i64::MAX))? {
                    installed = true;
                    install(connection, &table, nesting, Some(&reason))?;
                } else {
                    create_triggers(connection, &table, id, nesting)?;
                }
            }
            Finding::Doubt { id, reason } => ask_for_reload(connection, id, &reason)?,
            Finding::Retire { id, .. } => {
                drop_triggers(connection, id)?;
                registry::retire(connection, id)?;
            }
        }
    }
    // Without a new table, notes are forgotten all the same: they hold rowids, which a VACUUM may have given to other rows.
    if installed || !object::has_pending(connection)? {
        object::renew_pending(connection)?;
    } else {
        object::forget_pending(connection)?;
    }
    object::note_own_change(connection, before)
}

fn ask_for_reload(connection: &Connection, id: i64, reason: &str) -> Result<(), Error> {
    let place = object::append(connection, Kind::Reload, Some(id), false)?;
    registry::set_reload(connection, id, place, reason)
}

/// Installs the table's triggers under a new number; with a `reason`, readers send the table again.
fn install(connection: &Connection, table: &Table, nesting: Nesting, reason: Option<&str>) -> Result<(), Error> {
    let others = registry::registered_tables(connection)?;
    for other in others.iter().filter(|other| other.active && same(&other.name, &table.name)) {
        drop_triggers(connection, other.id)?;
        registry::retire(connection, other.id)?;
    }
    object::widen(connection, table.columns.len())?;
    let id = registry::add(connection, table)?;
    create_triggers(connection, table, id, nesting)?;
    reason.map_or(Ok(()), |reason| ask_for_reload(connection, id, reason))
}

fn create_triggers(connection: &Connection, table: &Table, id: i64, nesting: Nesting) -> Result<(), Error> {
    drop_triggers(connection, id)?;
    let wanted = text::triggers(table, id, nesting)?;
    for trigger in &wanted {
        connection.execute_batch(&trigger.sql).map_err(|cause| {
            failed(format!("could not create trigger {} on main.{}", trigger.name, table.name), cause)
        })?;
    }
    registry::set_triggers(connection, id, checksum(&wanted))
}

/// Drops the triggers wherever they are now: a renamed table took them along.
pub(super) fn drop_triggers(connection: &Connection, id: i64) -> Result<(), Error> {
    text::names(id).iter().try_for_each(|name| {
        connection
            .execute_batch(&format!("DROP TRIGGER IF EXISTS main.{}", quoted(name)))
            .map_err(|cause| failed(format!("could not drop trigger {name}"), cause))
    })
}

fn was_written(connection: &Connection, id: i64, since: i64) -> Result<bool, Error> {
    connection
        .prepare_cached("SELECT 1 FROM drover_change WHERE seq > ?1 AND table_id = ?2 LIMIT 1")
        .and_then(|mut statement| statement.exists([since, id]))
        .map_err(|cause| failed("could not look for changes of a table", cause))
}

/// Folded names of the tables that must be there.
fn check_required(entries: &[Entry], tables: &dyn TableSelection) -> Result<HashSet<String>, Error> {
    let mut names = HashSet::new();
    for name in tables.required() {
        let known = same(&name.schema, catalog::SCHEMA) && entries.iter().any(|entry| same(&entry.name, &name.table));
        if !known {
            return Err(Error::new(ErrorClass::Missing, format!("table {name} does not exist"))
                .with_next_step("create it, or remove it from the parameter file"));
        }
        names.insert(folded(&name.table));
    }
    Ok(names)
}

fn uncapturable(kind: catalog::Kind) -> Option<&'static str> {
    match kind {
        catalog::Kind::Ordinary => None,
        catalog::Kind::View => Some("it is a view"),
        catalog::Kind::Virtual => Some("it is a virtual table, whose rows no trigger sees"),
        catalog::Kind::Shadow => Some("it holds the content of a virtual table"),
    }
}

fn refused(name: &TableName, reason: &str) -> Error {
    Error::new(ErrorClass::Unsupported, format!("table {name} can't be captured: {reason}"))
        .with_next_step("remove it from the parameter file, or exclude it")
}

fn check_key(table: &Table, name: &TableName, tables: &dyn TableSelection) -> Result<(), Error> {
    match tables.key_columns(name) {
        Some(columns) => match columns.iter().find(|column| table.column(column).is_none()) {
            Some(column) => Err(Error::new(ErrorClass::Missing, format!("table {name} has no column {column}"))
                .with_next_step("correct KEYCOLS in the parameter file")),
            None if columns.is_empty() => Err(refused(name, "KEYCOLS names no column")),
            None => Ok(()),
        },
        None if table.key().is_empty() => Err(Error::new(ErrorClass::Unsupported, format!("table {name} has no key"))
            .with_next_step("give it a PRIMARY KEY, name columns with KEYCOLS, or exclude it")),
        None => Ok(()),
    }
}

/// Folded names of the tables that foreign keys point at.
fn referenced_tables(connection: &Connection) -> Result<HashSet<String>, Error> {
    let read = || -> rusqlite::Result<HashSet<String>> {
        let mut statement = connection.prepare_cached(
            "SELECT DISTINCT reference.\"table\" FROM sqlite_schema AS child, pragma_foreign_key_list(child.name, 'main') AS reference \
             WHERE child.type = 'table'",
        )?;
        statement.query_map([], |row| row.get::<_, String>(0).map(|name| folded(&name)))?.collect()
    };
    read().map_err(|cause| failed("could not read the foreign keys", cause))
}

fn checksum<'a>(triggers: impl IntoIterator<Item = &'a Trigger>) -> i64 {
    let mut hasher = crc32fast::Hasher::new();
    for trigger in triggers {
        hasher.update(trigger.sql.as_bytes());
        hasher.update(b"\0");
    }
    i64::from(hasher.finalize())
}

/// The triggers of the database, oldest first.
struct StoredTriggers {
    /// Folded table, trigger.
    triggers: Vec<(String, Trigger)>,
    /// Folded names of the tables that are younger than `drover_pending`; all of them without it.
    young: HashSet<String>,
}

impl StoredTriggers {
    fn read(connection: &Connection) -> Result<StoredTriggers, Error> {
        let read = || -> rusqlite::Result<Vec<(String, Trigger)>> {
            let mut statement = connection.prepare_cached(
                "SELECT tbl_name, name, sql FROM sqlite_schema WHERE type = 'trigger' ORDER BY rowid",
            )?;
            let rows = statement.query_map([], |row| {
                let table: String = row.get(0)?;
                Ok((folded(&table), Trigger { name: row.get(1)?, sql: row.get(2)? }))
            })?;
            rows.collect()
        };
        let triggers = read().map_err(|cause| failed("could not read the triggers", cause))?;
        let young = || -> rusqlite::Result<HashSet<String>> {
            let mut statement = connection.prepare_cached(
                "SELECT name FROM sqlite_schema WHERE type = 'table' AND rowid > coalesce(\
                 (SELECT rowid FROM sqlite_schema WHERE type = 'table' AND name = 'drover_pending'), 0)",
            )?;
            statement.query_map([], |row| row.get::<_, String>(0).map(|name| folded(&name)))?.collect()
        };
        let young = young().map_err(|cause| failed("could not read the order of tables", cause))?;
        Ok(StoredTriggers { triggers, young })
    }

    fn is_younger_than_pending(&self, table: &str) -> bool {
        self.young.contains(&folded(table))
    }

    fn on(&self, table: &str) -> impl Iterator<Item = &Trigger> {
        let table = folded(table);
        self.triggers.iter().filter(move |(on, _)| *on == table).map(|(_, trigger)| trigger)
    }

    /// Ours on the table under number `id`, oldest first.
    fn of(&self, id: i64, table: &str) -> Vec<&Trigger> {
        let ours = text::names(id);
        self.on(table).filter(|trigger| ours.contains(&trigger.name)).collect()
    }

    fn nesting(&self, table: &str, is_parent: bool) -> Nesting {
        let users = self.on(table).filter(|trigger| !is_ours(&trigger.name));
        let none = if is_parent { Nesting::Possible } else { Nesting::None };
        users.fold(none, |nesting, trigger| {
            let of_trigger = if fires_after(&trigger.sql) { Nesting::Possible } else { Nesting::BeforeTriggers };
            nesting.max(of_trigger)
        })
    }

    fn are_newest(&self, id: i64, table: &str) -> bool {
        let ours = text::names(id);
        self.on(table).skip_while(|trigger| !ours.contains(&trigger.name)).all(|trigger| ours.contains(&trigger.name))
    }
}

/// `CREATE TRIGGER [IF NOT EXISTS] name [BEFORE | AFTER] …`; without either word it is BEFORE.
fn fires_after(sql: &str) -> bool {
    let words = tokens(sql);
    let name = words.iter().position(|word| word.is_word("TRIGGER")).map(|place| place + 1);
    let rest = name.and_then(|name| words.get(name..)).unwrap_or_default();
    let rest =
        if rest.first().is_some_and(|word| word.is_word("IF")) { rest.get(3..).unwrap_or_default() } else { rest };
    let rest = if rest.get(1).is_some_and(|word| word.is_sign(".")) { rest.get(2..).unwrap_or_default() } else { rest };
    rest.get(1).is_some_and(|word| word.is_word("AFTER"))
}

fn is_ours(trigger: &str) -> bool {
    let number = trigger.strip_prefix("drover_").and_then(|rest| rest.split_once('_')).map(|(number, _)| number);
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_a_trigger_is_read_from_its_text() {
        for sql in [
            "CREATE TRIGGER t AFTER INSERT ON x",
            "CREATE TRIGGER IF NOT EXISTS \"a b\" after delete ON x",
            "create trigger main.t AFTER UPDATE",
        ] {
            assert!(fires_after(sql), "{sql}");
        }
        for sql in [
            "CREATE TRIGGER after BEFORE INSERT ON x",
            "CREATE TRIGGER t INSERT ON after",
            "CREATE TRIGGER",
            "",
            "CREATE TRIGGER IF",
        ] {
            assert!(!fires_after(sql), "{sql}");
        }
    }

    #[test]
    fn our_triggers_are_known_by_their_numbers() {
        assert!(is_ours("drover_12_insert"));
        for name in ["drover_insert", "drover__insert", "audit", "drover_x1_insert"] {
            assert!(!is_ours(name), "{name}");
        }
    }
}
