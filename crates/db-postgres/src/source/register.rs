//! Installing and removing what capture needs.

use super::choice::choose;
use super::joining;
use super::publication;
use crate::catalog::{Kinds, Scope, read_tables};
use crate::name;
use crate::wire::{Config, Connection, Error as WireError};
use change::LogPosition;
use database::{Error, ErrorClass, TableSelection};

/// Installs publication and slot of `group` and returns the slot's first place.
pub(crate) fn register(config: &Config, group: &str, selection: &dyn TableSelection) -> Result<LogPosition, Error> {
    let failed = |error: WireError| error.during(format!("can't register capture of group {group} at {config}"));
    let mut connection = Connection::connect(config)?;
    publication::check_server(&mut connection)?;
    let database = name::database_number(&mut connection).map_err(failed)?;
    let slot = name::slot(group, database);
    if is_known(&mut connection, group).map_err(failed)? {
        let what = format!("capture of group {group} is registered already at {config}");
        return Err(Error::new(ErrorClass::Permanent, what).with_next_step(format!("DELETE EXTRACT {group} first")));
    }
    let tables = read_tables(&mut connection, &mut Kinds::default(), Scope::Users).map_err(failed)?;
    let chosen = choose(&tables, selection)?;
    // Before anything is installed: this is where a missing right shows.
    let mut replication = Connection::connect_for_replication(config)?;
    let note = publication::create(&mut connection, group, &chosen, selection).map_err(failed)?;
    // After the publication: the slot's first transaction must already find it.
    match publication::create_slot(&mut replication, &slot, note.registration) {
        Ok(place) => Ok(place.position()),
        Err(error) => {
            let oldest = publication::oldest_transaction(&mut connection).ok().flatten();
            if let Ok(Some(publication)) = publication::find(&mut connection, group) {
                publication::drop(&mut connection, &publication).map_err(failed)?;
            }
            let waited = error.code() == Some("55P03");
            let error = failed(error);
            Err(match oldest.filter(|_| waited) {
                Some(process) => error.with_next_step(format!(
                    "a transaction has been open for long, the oldest in the server's process {process}: wait for its \
                     end or end it, then repeat"
                )),
                None => error,
            })
        }
    }
}

/// Whether anything of what [`register`] installs for `group` is there.
pub(crate) fn is_registered(config: &Config, group: &str) -> Result<bool, Error> {
    let mut connection = Connection::connect(config)?;
    is_known(&mut connection, group)
        .map_err(|error| error.during(format!("can't ask {config} for the capture of group {group}")))
}

fn is_known(connection: &mut Connection, group: &str) -> Result<bool, WireError> {
    let slot = name::slot(group, name::database_number(connection)?);
    Ok(publication::find(connection, group)?.is_some()
        || publication::find_slot(connection, &slot)?.is_some()
        || !joining::removal(connection, &name::publication(group))?.is_empty())
}

/// Removes what [`register`] installed.
pub(crate) fn unregister(config: &Config, group: &str) -> Result<(), Error> {
    let failed = |error: WireError| error.during(format!("can't unregister capture of group {group} at {config}"));
    let mut connection = Connection::connect(config)?;
    let database = name::database_number(&mut connection).map_err(failed)?;
    let slot = name::slot(group, database);
    if publication::find_slot(&mut connection, &slot).map_err(failed)?.is_some() {
        super::start::wait_until_free(&mut connection, &slot, group)?;
        connection.query("SELECT pg_drop_replication_slot($1)", &[Some(&slot)]).map_err(failed)?;
    }
    match publication::find(&mut connection, group).map_err(failed)? {
        Some(publication) => publication::drop(&mut connection, &publication).map_err(failed),
        None => {
            let left = joining::removal(&mut connection, &name::publication(group)).map_err(failed)?;
            if left.is_empty() { Ok(()) } else { connection.run(&left).map(drop).map_err(failed) }
        }
    }
}
