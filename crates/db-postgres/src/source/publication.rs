//! What capture installs: a publication, and after it a slot.
//!
//! The publication's comment keeps a random number by which positions know their registration, and the replica
//! identities that were changed, so that they can be put back.

use super::choice::Chosen;
use super::joining;
use super::position::{History, Place};
use super::statements;
use crate::catalog::Identity;
use crate::name;
use crate::wire::Error as WireError;
use crate::wire::{Connection, Lsn};
use database::{Error, ErrorClass, TableSelection};
use std::collections::HashSet;
use std::fmt;

/// Who waits for a lock on a table makes everybody wait who comes after: better to try again.
const LOCK_LIMIT: &str = "SET LOCAL lock_timeout = '5s';";

/// A group's publication as the catalog has it.
pub(super) struct Publication {
    pub(super) name: String,
    pub(super) note: Note,
    pub(super) members: HashSet<u32>,
}

/// What the comment of a publication of ours says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Note {
    pub(super) registration: u64,
    /// Tables whose replica identity was changed to FULL, each with what it was: `d`, `n`, or `i` and the index's number.
    pub(super) changed: Vec<(u32, String)>,
}

impl fmt::Display for Note {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Drover capture, registration {:016X}", self.registration)?;
        self.changed.iter().try_for_each(|(table, before)| write!(formatter, " {table}={before}"))
    }
}

impl Note {
    fn parse(text: &str) -> Option<Note> {
        let mut words = text.strip_prefix("Drover capture, registration ")?.split(' ');
        let registration = u64::from_str_radix(words.next()?, 16).ok()?;
        let changed = words
            .map(|word| {
                let (table, before) = word.split_once('=')?;
                Some((table.parse().ok()?, before.to_owned()))
            })
            .collect::<Option<_>>()?;
        Some(Note { registration, changed })
    }
}

/// The publication of `group`, if there is one of ours.
pub(super) fn find(connection: &mut Connection, group: &str) -> Result<Option<Publication>, WireError> {
    let name = name::publication(group);
    let row = connection.query_one(
        "SELECT oid, obj_description(oid, 'pg_publication') FROM pg_publication WHERE pubname::text = $1",
        &[Some(&name)],
    )?;
    let Some(row) = row else { return Ok(None) };
    // A publication without our note is one that somebody made anew: its registration is none of ours.
    let note = row.text(1).and_then(Note::parse).unwrap_or_default();
    let members = members(connection, &name)?;
    Ok(Some(Publication { name, note, members }))
}

/// The numbers of the tables in the publication called `name`.
pub(super) fn members(connection: &mut Connection, name: &str) -> Result<HashSet<u32>, WireError> {
    let sql = "SELECT r.prrelid FROM pg_publication_rel r JOIN pg_publication p ON p.oid = r.prpubid WHERE p.pubname::text = $1";
    connection.query(sql, &[Some(name)])?.iter().map(|row| row.parse(0)).collect()
}

/// A slot as the server shows it.
pub(super) struct Slot {
    pub(super) plugin: String,
    pub(super) confirmed: Option<Lsn>,
    pub(super) is_lost: bool,
    pub(super) is_active: bool,
    /// Whether it was ever read with prepared transactions told when they are prepared.
    pub(super) is_two_phase: bool,
}

/// The slot called `name`, if it is there.
pub(super) fn find_slot(connection: &mut Connection, name: &str) -> Result<Option<Slot>, WireError> {
    let row = connection.query_one(
        "SELECT plugin, confirmed_flush_lsn, wal_status = 'lost', active, (to_jsonb(s)->>'two_phase')::boolean FROM pg_replication_slots s \
         WHERE slot_name::text = $1 AND database = current_database()",
        &[Some(name)],
    )?;
    Ok(row.map(|row| Slot {
        plugin: row.text(0).unwrap_or_default().to_owned(),
        confirmed: row.text(1).and_then(Lsn::parse),
        is_lost: row.flag(2),
        is_active: row.flag(3),
        is_two_phase: row.flag(4),
    }))
}

/// Creates the publication with `chosen` tables, and gives those that need it REPLICA IDENTITY FULL.
pub(super) fn create(
    connection: &mut Connection,
    group: &str,
    chosen: &[Chosen<'_>],
    selection: &dyn TableSelection,
) -> Result<Note, WireError> {
    let publication_name = name::publication(group);
    let name = name::quote(&publication_name);
    let random = connection
        .query_one("SELECT left(replace(gen_random_uuid()::text, '-', ''), 16)", &[])?
        .ok_or(WireError::Protocol("a query for one row gave none"))?;
    let registration =
        u64::from_str_radix(random.required(0)?, 16).map_err(|_| WireError::Protocol("a UUID is not hexadecimal"))?;
    let mut note = Note { registration, changed: Vec::new() };
    let mut sql = format!(
        "BEGIN; {LOCK_LIMIT} CREATE PUBLICATION {name} WITH (publish = 'insert, update, delete, truncate', \
         publish_via_partition_root = true);"
    );
    for chosen in chosen.iter().filter(|chosen| chosen.needs_full) {
        note.changed.extend(chosen.before(connection)?);
    }
    // With the first of them comes the note, by which the rest is taken back when something fails.
    let mut parts = chosen.chunks(TABLES_AT_ONCE);
    sql.push_str(&join(&name, parts.next().unwrap_or_default()));
    sql.push_str(&format!("COMMENT ON PUBLICATION {name} IS {}", name::literal(&note.to_string())));
    in_transaction(connection, |connection| {
        connection.run(&sql)?;
        joining::install(connection, group, selection)?;
        statements::install(connection, &publication_name, selection)?;
        connection.run("COMMIT")
    })?;
    for part in parts {
        let added = in_transaction(connection, |connection| {
            connection.run(&format!("BEGIN; {LOCK_LIMIT} {} COMMIT", join(&name, part)))
        });
        if let Err(error) = added {
            if let Some(publication) = find(connection, group)? {
                drop(connection, &publication)?;
            }
            return Err(error);
        }
    }
    Ok(note)
}

/// Tables that join in one transaction. Each takes a lock, and a server with its usual settings has room for some 6,000.
const TABLES_AT_ONCE: usize = 1000;

/// Adds `chosen` tables to a publication that exists.
pub(super) fn add(
    connection: &mut Connection,
    publication: &mut Publication,
    chosen: &[Chosen<'_>],
    lock_empty: bool,
) -> Result<(), AddError> {
    let name = name::quote(&publication.name);
    let mut note = publication.note.clone();
    for chosen in chosen.iter().filter(|chosen| chosen.needs_full) {
        note.changed.extend(chosen.before(connection)?);
    }
    let run = |connection: &mut Connection| -> Result<(), AddError> {
        connection.run(&format!("BEGIN; {LOCK_LIMIT}"))?;
        if lock_empty {
            for chosen in chosen {
                // While the lock is held nobody adds a row, so that an empty table joins without a gap.
                let table = name::table(&chosen.table.definition.name);
                connection.run(&format!("LOCK TABLE {table} IN SHARE MODE"))?;
                let filled = connection.run(&format!("SELECT FROM {table} LIMIT 1"))? > 0;
                if filled {
                    return Err(AddError::Filled(chosen.table.definition.name.to_string()));
                }
            }
        }
        connection.run(&join(&name, chosen))?;
        connection.run(&format!("COMMENT ON PUBLICATION {name} IS {}; COMMIT", name::literal(&note.to_string())))?;
        Ok(())
    };
    let result = run(connection);
    if result.is_err() && connection.is_in_transaction() {
        connection.run("ROLLBACK")?;
    }
    result?;
    publication.note = note;
    publication.members.extend(chosen.iter().map(|chosen| chosen.table.oid));
    Ok(())
}

/// Why tables did not join a publication.
pub(super) enum AddError {
    /// This table holds rows that would not be told.
    Filled(String),
    /// The server refused.
    Failed(WireError),
}

impl From<WireError> for AddError {
    fn from(error: WireError) -> AddError {
        AddError::Failed(error)
    }
}

fn join(publication: &str, chosen: &[Chosen<'_>]) -> String {
    let mut sql = String::new();
    for chosen in chosen {
        let table = name::table(&chosen.table.definition.name);
        if chosen.needs_full {
            for member in &chosen.members {
                sql.push_str(&format!("ALTER TABLE {} REPLICA IDENTITY FULL;", name::table(member)));
            }
        }
        // ONLY keeps children by inheritance out: they are tables of their own. Partitions come with their root.
        let only = if chosen.table.is_partitioned { "" } else { "ONLY " };
        sql.push_str(&format!("ALTER PUBLICATION {publication} ADD TABLE {only}{table};"));
    }
    sql
}

/// Runs statements that begin and end a transaction, and ends it when one fails.
fn in_transaction(
    connection: &mut Connection,
    run: impl FnOnce(&mut Connection) -> Result<u64, WireError>,
) -> Result<(), WireError> {
    match run(connection) {
        Ok(_) => Ok(()),
        Err(error) => {
            if connection.is_in_transaction() {
                connection.run("ROLLBACK")?;
            }
            Err(error)
        }
    }
}

/// Drops the publication, and gives its tables back the replica identity that they had.
pub(super) fn drop(connection: &mut Connection, publication: &Publication) -> Result<(), WireError> {
    let mut sql = format!("BEGIN; {LOCK_LIMIT}");
    for (table, before) in &publication.note.changed {
        let row = connection.query_one(
            "SELECT n.nspname, c.relname, i.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
             LEFT JOIN pg_class i ON i.oid = $2::oid WHERE c.oid = $1::oid AND c.relreplident = 'f'",
            &[Some(&table.to_string()), Some(before.strip_prefix('i').unwrap_or("0"))],
        )?;
        // A table that was dropped or that somebody has changed since stays as it is.
        let Some(row) = row else { continue };
        let table = format!("{}.{}", name::quote(row.required(0)?), name::quote(row.required(1)?));
        let identity = match (before.as_str(), row.text(2)) {
            ("d", _) => "DEFAULT".to_owned(),
            ("n", _) => "NOTHING".to_owned(),
            (_, Some(index)) => format!("USING INDEX {}", name::quote(index)),
            (_, None) => continue,
        };
        sql.push_str(&format!("ALTER TABLE {table} REPLICA IDENTITY {identity};"));
    }
    sql.push_str(&joining::removal(connection, &publication.name)?);
    sql.push_str(&format!("DROP PUBLICATION IF EXISTS {}; COMMIT", name::quote(&publication.name)));
    in_transaction(connection, |connection| connection.run(&sql))
}

/// Creates the slot over a replication connection and returns its first place.
///
/// The server waits for all transactions that are open now, and gives up when one of them takes longer than ten
/// seconds.
pub(super) fn create_slot(replication: &mut Connection, slot: &str, registration: u64) -> Result<Place, WireError> {
    let (system, timeline) = identify(replication)?;
    let sql = format!("CREATE_REPLICATION_SLOT {} LOGICAL pgoutput (SNAPSHOT 'nothing')", name::quote(slot));
    replication.run("SET lock_timeout = '10s'")?;
    let results = replication.simple_query(&sql)?;
    let lsn = results.first().and_then(|result| Lsn::parse(result.rows.first()?.text(1)?));
    let lsn = lsn.ok_or(WireError::Protocol("a new slot has no place"))?;
    Ok(Place { lsn, history: History { system, timeline, registration } })
}

/// The server's process whose transaction has been open longest, beside our own.
pub(super) fn oldest_transaction(connection: &mut Connection) -> Result<Option<String>, WireError> {
    let row = connection.query_one(
        "SELECT pid FROM pg_stat_activity WHERE backend_xid IS NOT NULL AND pid <> pg_backend_pid() \
         ORDER BY xact_start LIMIT 1",
        &[],
    )?;
    Ok(row.and_then(|row| row.text(0).map(str::to_owned)))
}

/// System identifier and timeline.
pub(super) fn identify(replication: &mut Connection) -> Result<(u64, u32), WireError> {
    let results = replication.simple_query("IDENTIFY_SYSTEM")?;
    let row = results.first().and_then(|result| result.rows.first());
    let row = row.ok_or(WireError::Protocol("the server does not identify itself"))?;
    Ok((row.parse(0)?, row.parse(1)?))
}

/// Refuses a server that can't be captured from.
pub(super) fn check_server(connection: &mut Connection) -> Result<(), Error> {
    let failed = |error: WireError| error.during("can't ask the server for its settings");
    if connection.version() < 150_000 {
        let what = format!("can't capture from PostgreSQL {}", connection.version() / 10_000);
        return Err(
            Error::new(ErrorClass::Unsupported, what).with_next_step("upgrade the server to version 15 or newer")
        );
    }
    let row = connection
        .query_one("SELECT current_setting('wal_level'), pg_is_in_recovery()", &[])
        .map_err(failed)?
        .ok_or_else(|| failed(WireError::Protocol("a query for one row gave none")))?;
    if row.text(0) != Some("logical") {
        let what = "can't capture from a server whose wal_level is not logical";
        return Err(Error::new(ErrorClass::Unsupported, what)
            .with_next_step("set wal_level = logical on the server and restart it"));
    }
    if row.flag(1) {
        let what = "can't capture from a standby server";
        return Err(Error::new(ErrorClass::Unsupported, what).with_next_step("connect to the primary server"));
    }
    Ok(())
}

/// What the replica identity of `identity` is called in a [`Note`].
pub(super) fn letter(identity: Identity) -> &'static str {
    match identity {
        Identity::Default => "d",
        Identity::Index => "i",
        Identity::Full => "f",
        Identity::Nothing => "n",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_reads_as_it_was_written_and_nothing_else_does() {
        let note = Note { registration: 0xAB, changed: vec![(16384, "d".to_owned()), (5, "i77".to_owned())] };
        assert_eq!(Note::parse(&note.to_string()), Some(note));
        for text in ["", "Drover", "Drover capture, registration x", "Drover capture, registration 1 2"] {
            assert_eq!(Note::parse(text), None, "{text}");
        }
    }
}
