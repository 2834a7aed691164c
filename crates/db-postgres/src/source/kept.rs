//! What the server keeps of its log for a group, and a registration that has not been read.

use super::choice::choose;
use super::position::{History, Place};
use super::publication;
use crate::catalog::{Kinds, Scope, read_tables};
use crate::name;
use crate::wire::{Config, Connection, Error as WireError, Lsn};
use change::LogPosition;
use database::{Error, ErrorClass, LogKept, LogState, TableSelection};

/// The limit is in megabytes, -1 for none. A slot that was invalidated has no place any more.
const KEPT: &str = "\
    SELECT s.active, s.wal_status, greatest(pg_wal_lsn_diff(pg_current_wal_lsn(), s.restart_lsn), 0)::bigint, \
      nullif(current_setting_of.megabytes, -1) * 1048576, greatest(s.safe_wal_size, 0), s.restart_lsn \
    FROM pg_replication_slots s, \
      (SELECT setting::bigint FROM pg_settings WHERE name = 'max_slot_wal_keep_size') AS current_setting_of (megabytes) \
    WHERE s.slot_name::text = $1 AND s.database = current_database()";

/// What the slot of `group` keeps.
pub(crate) fn log_kept(config: &Config, group: &str) -> Result<LogKept, Error> {
    let failed = |error: WireError| error.during(format!("can't ask {config} what it keeps for group {group}"));
    let mut connection = Connection::connect(config)?;
    let holder = name::slot(group, name::database_number(&mut connection).map_err(failed)?);
    let row = connection.query_one(KEPT, &[Some(&holder)]).map_err(failed)?.ok_or_else(|| {
        Error::new(ErrorClass::Missing, format!("slot {holder} of group {group} does not exist"))
            .with_next_step("DBLOGIN to the source of the group; if it is that one, the slot was dropped")
    })?;
    let number = |index: usize| row.text(index).and_then(|text| text.parse::<u64>().ok());
    let state_name = row.text(1).unwrap_or("lost").to_owned();
    let state = match state_name.as_str() {
        "reserved" => LogState::Reserved,
        "extended" => LogState::Extended,
        "unreserved" => LogState::Unreserved,
        _ => LogState::Lost,
    };
    let (bytes, limit, left) = (number(2).unwrap_or(0), number(3), number(4));
    let from = row.text(5).and_then(Lsn::parse).map(|lsn| lsn.to_string());
    Ok(LogKept { from, is_active: row.flag(0), bytes, state, state_name, limit, left, holder })
}

/// Bytes of a WAL file of the cluster.
pub(crate) fn log_file_bytes(config: &Config) -> Result<u64, Error> {
    let failed = |error: WireError| error.during(format!("can't ask {config} how large a file of its log is"));
    let mut connection = Connection::connect(config)?;
    let row = connection
        .query_one("SELECT setting FROM pg_settings WHERE name = 'wal_segment_size'", &[])
        .map_err(failed)?
        .ok_or_else(|| failed(WireError::Protocol("a query for one row gave none")))?;
    row.parse(0).map_err(failed)
}

/// Lets a registration that nobody has read begin at this moment.
///
/// The slot has seen every transaction that is open now from its first change on, so that those are told in full when they
/// commit.
pub(crate) fn begin(config: &Config, group: &str, selection: &dyn TableSelection) -> Result<LogPosition, Error> {
    let failed = |error: WireError| error.during(format!("can't begin the capture of group {group} at {config}"));
    let mut connection = Connection::connect(config)?;
    publication::check_server(&mut connection)?;
    let slot = name::slot(group, name::database_number(&mut connection).map_err(failed)?);
    let publication = publication::find(&mut connection, group).map_err(failed)?;
    let Some(publication) = publication.filter(|found| found.note.registration != 0) else {
        return Err(Error::new(ErrorClass::Missing, format!("group {group} is not registered for capture"))
            .with_next_step(format!("REGISTER EXTRACT {group}, or ADD EXTRACT {group} after UNREGISTER EXTRACT")));
    };
    // What can't be captured is refused now, not at the first start.
    let tables = read_tables(&mut connection, &mut Kinds::default(), Scope::Users).map_err(failed)?;
    choose(&tables, selection)?;
    let row = connection
        .query_one("SELECT end_lsn FROM pg_replication_slot_advance($1, pg_current_wal_lsn())", &[Some(&slot)])
        .map_err(failed)?;
    let lsn = row.and_then(|row| row.text(0).and_then(Lsn::parse));
    let lsn = lsn.ok_or_else(|| failed(WireError::Protocol("a slot that was moved has no place")))?;
    let mut replication = Connection::connect_for_replication(config)?;
    let (system, timeline) = publication::identify(&mut replication).map_err(failed)?;
    let history = History { system, timeline, registration: publication.note.registration };
    Ok(Place { lsn, history }.position())
}
