//! The mark by which our own capture leaves out what we apply.

use crate::name;
use crate::source::MARK;
use crate::wire::{Connection, Error as WireError, Statement};
use database::{CheckpointRow, Error, ErrorClass};
use std::time::{Duration, Instant};

/// How long an origin that is still in use is waited for: a session of ours that has just gone away frees it soon.
const BUSY_LIMIT: Duration = Duration::from_secs(15);
/// Pause between two attempts.
const BUSY_PAUSE: Duration = Duration::from_millis(20);

/// How transactions are marked.
pub(super) enum Mark {
    /// By a replication origin of the session, and by a message.
    Origin,
    /// By a message only: our role may not use origins.
    Message,
    /// Not at all.
    Nothing,
}

impl Mark {
    /// What each transaction must start with: a logical message. A server that streams a transaction before its commit does
    /// not tell its origin.
    pub(super) fn statement(&self, group: &str) -> Option<Statement> {
        match self {
            Mark::Nothing => None,
            Mark::Origin | Mark::Message => {
                let message = name::literal(&name::publication(group));
                Some(Statement::new(format!("SELECT pg_logical_emit_message(true, '{MARK}', {message})"), []))
            }
        }
    }
}

/// Takes the origin of the group with this name and key, which is made at first use.
pub(super) fn take(connection: &mut Connection, group: &str, key: i64) -> Result<Mark, Error> {
    let failed = |error: WireError| error.during(format!("can't set up the replication origin of group {group}"));
    if change::sabotage::is_on("keep-own-transactions") {
        return Ok(Mark::Nothing);
    }
    let database = name::database_number(connection).map_err(failed)?;
    let origin = name::origin(group, key, database);
    let started = Instant::now();
    loop {
        let error = match set_up(connection, &origin) {
            Ok(()) => return Ok(Mark::Origin),
            Err(error) => error,
        };
        match error.code() {
            // No right, or no more room for origins at work: `max_replication_slots`.
            Some("42501" | "53400") => return Ok(Mark::Message),
            Some("55006") if started.elapsed() < BUSY_LIMIT => std::thread::sleep(BUSY_PAUSE),
            Some("55006") => {
                let what = format!("replication origin {origin} of group {group} is in use by another session");
                return Err(Error::new(ErrorClass::Transient, what)
                    .with_next_step("stop the other Replicat of this name")
                    .with_cause(error));
            }
            // Somebody made it at the same moment.
            Some("23505") => {}
            _ => return Err(failed(error)),
        }
    }
}

/// Removes the origins of a group that is no more and of its appliers, if they are there, our role may and no session uses it still.
pub(crate) fn forget(connection: &mut Connection, group: &str, key: i64) -> Result<(), Error> {
    let failed = |error: WireError| error.during(format!("can't drop the replication origin of group {group}"));
    let database = name::database_number(connection).map_err(failed)?;
    let origins = names(group, key, database);
    let sql = "SELECT pg_replication_origin_drop(roname) FROM pg_replication_origin WHERE roname = ANY ($1::text[])";
    match connection.query(sql, &[Some(&origins)]) {
        Ok(_) => Ok(()),
        // Without the right it was never made; one that is left over does no harm.
        Err(error) if matches!(error.code(), Some("42501" | "55006")) => Ok(()),
        Err(error) => Err(failed(error)),
    }
}

/// Names of all origins that a group may have, as an array of PostgreSQL. They are of letters, digits and underscores.
fn names(group: &str, key: i64, database: u32) -> String {
    let origins = (0..=CheckpointRow::APPLIERS_MAX).chain([CheckpointRow::EXECUTOR]).flat_map(|number| {
        let key = CheckpointRow::applier_key(key, number);
        let thread = CheckpointRow::thread_name(group, number);
        [name::origin(group, key, database), name::origin(&thread, key, database)]
    });
    let origins: Vec<String> = origins.collect();
    format!("{{{}}}", origins.join(","))
}

/// What keeps a group with so many appliers from an origin for each session, if anything does: rights of our role, or room in the
/// server. An origin takes room from when it is made until it is dropped.
pub(crate) fn missing(
    connection: &mut Connection,
    group: &str,
    key: i64,
    appliers: u32,
) -> Result<Option<String>, Error> {
    let failed = |error: WireError| error.during(format!("can't look at the replication origins of group {group}"));
    let database = name::database_number(connection).map_err(failed)?;
    let sql = "SELECT has_function_privilege('pg_replication_origin_create(text)', 'EXECUTE') \
               AND has_function_privilege('pg_replication_origin_session_setup(text)', 'EXECUTE'), \
               current_setting('max_replication_slots'), \
               (SELECT count(*) FROM pg_replication_origin WHERE roname <> ALL ($1::text[]))";
    let row = connection.query_one(sql, &[Some(&names(group, key, database))]).map_err(failed)?;
    let Some(row) = row else { return Ok(None) };
    if !row.flag(0) {
        let what = "the role may not execute pg_replication_origin_create and pg_replication_origin_session_setup";
        return Ok(Some(what.to_owned()));
    }
    let room: i64 = row.parse(1).map_err(failed)?;
    let taken: i64 = row.parse(2).map_err(failed)?;
    let wanted = i64::from(appliers) + 1;
    Ok((room - taken < wanted).then(|| {
        format!(
            "max_replication_slots is {room}, others have {taken} replication origins, and this group wants {wanted}"
        )
    }))
}

fn set_up(connection: &mut Connection, origin: &str) -> Result<(), WireError> {
    let name = [Some(origin)];
    connection.query(
        "SELECT pg_replication_origin_create($1) WHERE NOT EXISTS \
         (SELECT FROM pg_replication_origin WHERE roname = $1)",
        &name,
    )?;
    connection.query("SELECT pg_replication_origin_session_setup($1)", &name).map(drop)
}
