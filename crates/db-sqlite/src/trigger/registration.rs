//! Registering and removing groups.

use super::object::{self, Kind};
use super::{reconcile, registry};
use crate::catalog;
use crate::error::failed;
use crate::source::Place;
use database::{Error, ErrorClass, TableSelection};
use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};

/// Installs what is missing and adds the group; returns the place of this moment.
pub(crate) fn register(connection: &mut Connection, group: &str, tables: &dyn TableSelection) -> Result<Place, Error> {
    let what = |cause| failed(format!("could not register capture of group {group}"), cause);
    // The position that we return must not be taken back by a power loss.
    connection.pragma_update(None, "synchronous", "EXTRA").map_err(what)?;
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(what)?;
    let before = catalog::schema_version(&transaction)?;
    object::install(&transaction)?;
    if is_registered(&transaction, group)? {
        return Err(Error::new(ErrorClass::Permanent, format!("group {group} is registered in this database already"))
            .with_next_step("delete the Extract that has this name, or choose another name"));
    }
    // Groups that are not running now must be told of tables that join or are put in order here.
    let since: Option<i64> =
        transaction.query_row("SELECT min(released) FROM drover_group", [], |row| row.get(0)).map_err(what)?;
    let found = reconcile::compare(&transaction, tables, None)?;
    reconcile::repair(&transaction, found.findings, since)?;
    let seq = object::append(&transaction, Kind::Start, None, true)?;
    object::note_own_change(&transaction, before)?;
    let version = catalog::schema_version(&transaction)?;
    transaction.execute("INSERT INTO drover_group VALUES (?1, ?2, ?3)", params![group, seq, version]).map_err(what)?;
    let place = Place::of(&transaction, seq)?;
    transaction.commit().map_err(what)?;
    Ok(place)
}

/// Whether the group is registered.
pub(crate) fn is_registered(connection: &Connection, group: &str) -> Result<bool, Error> {
    if !object::is_installed(connection)? {
        return Ok(false);
    }
    let known = connection
        .query_row("SELECT 1 FROM drover_group WHERE name = ?1", [group], |_| Ok(()))
        .optional()
        .map_err(|cause| failed(format!("could not look up capture of group {group}"), cause))?;
    Ok(known.is_some())
}

/// Removes the group, and with the last one everything that was installed.
pub(crate) fn unregister(connection: &mut Connection, group: &str) -> Result<(), Error> {
    let what = |cause| failed(format!("could not remove capture of group {group}"), cause);
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(what)?;
    if !object::is_installed(&transaction)? {
        return Ok(());
    }
    let removed = transaction.execute("DELETE FROM drover_group WHERE name = ?1", [group]).map_err(what)?;
    let left: i64 = transaction.query_row("SELECT count(*) FROM drover_group", [], |row| row.get(0)).map_err(what)?;
    if removed > 0 && left == 0 {
        for table in registry::registered_tables(&transaction)? {
            reconcile::drop_triggers(&transaction, table.id)?;
        }
        object::uninstall(&transaction)?;
    }
    transaction.commit().map_err(what)
}
