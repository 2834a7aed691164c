//! Opening a source, with every reason to refuse.

use super::choice::{Chosen, choose};
use super::joining;
use super::position::{History, Place};
use super::publication::{self, AddError, Publication, Slot};
use super::sequences::Sequences;
use super::shape::Shapes;
use super::statements;
use super::{Source, State};
use crate::catalog::{CatalogTable, Kinds, Scope, read_mark, read_tables};
use crate::name;
use crate::wire::{Config, Connection, Error as WireError, Lsn};
use change::{RowBuilder, TableName};
use database::{Error, ErrorClass, SourceRequest, TableSelection};
use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

/// How long a slot that is still in use is waited for: a walsender notices within this time that its client has gone,
/// as long as the network works.
const BUSY_LIMIT: Duration = Duration::from_secs(15);
/// Pause between two looks at a busy slot.
const BUSY_PAUSE: Duration = Duration::from_millis(20);

impl Source {
    /// Connects and checks that the slot can go on at the position of `request`.
    pub(crate) fn open(config: &Config, request: SourceRequest) -> Result<Source, Error> {
        let failed = |error: WireError| error.during(format!("can't open the source of group {}", request.group));
        let mut catalog = Connection::connect(config)?;
        let database = name::database_number(&mut catalog).map_err(failed)?;
        let slot_name = name::slot(&request.group, database);
        let publication = publication::find(&mut catalog, &request.group).map_err(failed)?;
        let slot = publication::find_slot(&mut catalog, &slot_name).map_err(failed)?;
        publication::check_server(&mut catalog)?;
        if let (Some(publication), None, Some(place)) = (&publication, &slot, Place::parse(&request.start)) {
            // Slots do not follow to a standby: that the server is another one by now says more than that its slot is gone.
            let mut replication = Connection::connect_for_replication(config)?;
            let (system, timeline) = publication::identify(&mut replication).map_err(failed)?;
            check_history(place.history, History { system, timeline, registration: publication.note.registration })?;
        }
        let (mut publication, slot) = both(&request.group, publication, slot, &slot_name)?;

        let place = Place::parse(&request.start).ok_or_else(|| {
            let what = format!("position {:?} is none of PostgreSQL", request.start.as_str());
            Error::new(ErrorClass::Mismatch, what).with_next_step("check which database the group was added for")
        })?;
        if slot.is_active {
            wait_until_free(&mut catalog, &slot_name, &request.group)?;
        }
        let slot = publication::find_slot(&mut catalog, &slot_name).map_err(failed)?.unwrap_or(slot);
        let mut replication = Connection::connect_for_replication(config)?;
        let (system, timeline) = publication::identify(&mut replication).map_err(failed)?;
        let history = History { system, timeline, registration: publication.note.registration };
        check_history(place.history, history)?;
        let end = catalog.query_one("SELECT pg_current_wal_flush_lsn()", &[]).map_err(failed)?;
        let end = end.and_then(|row| row.text(0).and_then(Lsn::parse)).unwrap_or_default();
        check_slot(&slot, &slot_name, place.lsn, end)?;

        // Before the look at the tables: what is made afterwards joins by the rules of now.
        joining::refresh(&mut catalog, &request.group, &*request.tables).map_err(failed)?;
        let told = statements::refresh(&mut catalog, &publication.name, &*request.tables).map_err(failed)?;
        let token = match told && request.tables.tells_definitions() {
            true => statements::token(&mut catalog, &publication.name).map_err(failed)?,
            false => String::new(),
        };
        let mut kinds = Kinds::default();
        // Before the tables: what changes in between is looked at again.
        let tables_mark = read_mark(&mut catalog, &publication.name).map_err(failed)?;
        let tables = read_tables(&mut catalog, &mut kinds, Scope::Users).map_err(failed)?;
        let chosen = choose(&tables, &*request.tables)?;
        publication.members = publication::members(&mut catalog, &publication.name).map_err(failed)?;
        check_families(&tables, &chosen, &publication, &request.group)?;
        let mut notices = bring_in(&mut catalog, &mut publication, &chosen, &*request.tables)?;
        if !told {
            let what = "DRV-00755: the source has no event trigger that tells of statements, which only a superuser makes: no statement is \
                        carried, and shapes of tables are followed from their changes";
            notices.push(what.to_owned());
        }
        let shapes = Shapes::new(kinds, tables);
        let now = Instant::now();
        Ok(Source {
            slot: slot_name,
            config: config.clone(),
            history,
            catalog,
            publication,
            state: State::Ready { replication, start: place.lsn, confirmed: slot.confirmed.unwrap_or(place.lsn) },
            shapes,
            builder: RowBuilder::new(),
            open: None,
            sequences: Sequences::default(),
            token,
            expected: None,
            streams_open_transactions: false,
            // Once it did, it does not tell again at their end what was prepared before.
            tells_prepared: slot.is_two_phase,
            notices,
            is_busy: false,
            told: place.lsn,
            idle: place.lsn,
            released: slot.confirmed.unwrap_or_default(),
            received: place.lsn,
            reported_at: now,
            idle_at: now,
            tables_at: now,
            tables_mark,
            request,
        })
    }

    /// Stops at a table that is new and can't join without a gap.
    pub(super) fn look_for_tables(&mut self) -> Result<(), Error> {
        let failed = |error: WireError| error.during("can't look for new tables");
        let mark = read_mark(&mut self.catalog, &self.publication.name).map_err(failed)?;
        if mark == self.tables_mark {
            return Ok(());
        }
        self.tables_mark = mark;
        let tables = read_tables(&mut self.catalog, &mut Kinds::default(), Scope::Users).map_err(failed)?;
        let chosen = choose(&tables, &*self.request.tables)?;
        // After the tables: one that has joined by the event trigger is among the members when it is among the tables.
        self.publication.members = publication::members(&mut self.catalog, &self.publication.name).map_err(failed)?;
        check_families(&tables, &chosen, &self.publication, &self.request.group)?;
        let notices = bring_in(&mut self.catalog, &mut self.publication, &chosen, &*self.request.tables)?;
        self.notices.extend(notices);
        Ok(())
    }
}

/// The publication and the slot, or why the group can't start.
fn both(
    group: &str,
    publication: Option<Publication>,
    slot: Option<Slot>,
    slot_name: &str,
) -> Result<(Publication, Slot), Error> {
    let anew = format!("DELETE EXTRACT {group}, compare source and target, and add the group anew");
    match (publication, slot) {
        (Some(publication), Some(slot)) => Ok((publication, slot)),
        (None, None) => Err(Error::new(ErrorClass::Missing, format!("group {group} is not registered for capture"))
            .with_next_step(format!("ADD EXTRACT {group}"))),
        (Some(_), None) => {
            let what = format!("slot {slot_name} of group {group} is gone, and with it the changes since");
            Err(Error::new(ErrorClass::Mismatch, what).with_next_step(anew))
        }
        (None, Some(_)) => {
            let what = format!("publication {} of group {group} is gone", name::publication(group));
            Err(Error::new(ErrorClass::Mismatch, what).with_next_step(anew))
        }
    }
}

fn check_history(ours: History, theirs: History) -> Result<(), Error> {
    let refuse = |what: &str, step: &str| Err(Error::new(ErrorClass::Mismatch, what).with_next_step(step));
    if ours.system != theirs.system {
        return refuse(
            "the position belongs to another database cluster",
            "connect to the cluster that the group was added for, or add the group anew",
        );
    }
    if ours.registration != theirs.registration {
        return refuse(
            "the position belongs to another registration of the group",
            "the publication was made anew: compare source and target, and add the group anew",
        );
    }
    if ours.timeline != theirs.timeline {
        return refuse(
            "the cluster has changed its timeline since the position was taken: it was promoted or restored",
            "compare source and target, and add the group anew",
        );
    }
    Ok(())
}

fn check_slot(slot: &Slot, name: &str, start: Lsn, end: Lsn) -> Result<(), Error> {
    let refuse = |what: String, step: &str| Err(Error::new(ErrorClass::Mismatch, what).with_next_step(step));
    let anew = "compare source and target, and add the group anew";
    if slot.plugin != "pgoutput" {
        return refuse(format!("slot {name} decodes with {}, not with pgoutput", slot.plugin), anew);
    }
    if slot.is_lost {
        return refuse(
            format!("slot {name} was invalidated by the server, and with it the changes since"),
            "raise max_slot_wal_keep_size, compare source and target, and add the group anew",
        );
    }
    if let Some(confirmed) = slot.confirmed
        && confirmed > start
        && !change::sabotage::is_on("start-behind-what-was-confirmed")
    {
        return refuse(
            format!("slot {name} is confirmed up to {confirmed}, past our position {start}: changes between are lost"),
            anew,
        );
    }
    if start > end {
        return refuse(
            format!(
                "the log ends at {end}, before our position {start}: the database was restored to an earlier state"
            ),
            anew,
        );
    }
    Ok(())
}

/// Refuses when partitions are to be told by their own names that the publication tells under their root, or the other way round:
/// what was committed in between would be told under the name that nobody asks for.
fn check_families(
    tables: &[CatalogTable],
    chosen: &[Chosen<'_>],
    publication: &Publication,
    group: &str,
) -> Result<(), Error> {
    let numbered: HashMap<u32, &CatalogTable> = tables.iter().map(|table| (table.oid, table)).collect();
    let above = |table: &CatalogTable| table.parent.and_then(|parent| numbered.get(&parent).copied());
    let is_member = |table: &CatalogTable| publication.members.contains(&table.oid);
    let refuse = |part: &CatalogTable, root: &CatalogTable, now: &str| {
        let what = format!(
            "partition {} of {} is published {now}, and the parameter file asks for the other",
            part.definition.name, root.definition.name
        );
        Err(Error::new(ErrorClass::Unsupported, what).with_next_step(format!(
            "put the statements about {} back as they were; or DELETE EXTRACT {group}, compare the table, and add the group anew",
            root.definition.name
        )))
    };
    let is_chosen = |table: &CatalogTable| chosen.iter().any(|chosen| chosen.table.oid == table.oid);
    for table in tables {
        for root in std::iter::successors(above(table), |table| above(table)) {
            if is_chosen(table) && is_member(root) {
                return refuse(table, root, "under the name of that table");
            }
            if is_chosen(root) && !is_member(root) && is_member(table) {
                return refuse(table, root, "by its own name");
            }
        }
    }
    Ok(())
}

/// Lets chosen tables join that are not members yet; returns what the operator should know.
///
/// A table joins when it is empty, or when the operator names it: its rows so far are then not told, and he is told so.
fn bring_in(
    connection: &mut Connection,
    publication: &mut Publication,
    chosen: &[Chosen<'_>],
    selection: &dyn TableSelection,
) -> Result<Vec<String>, Error> {
    let required: HashSet<TableName> = selection.required().into_iter().collect();
    let mut notices = Vec::new();
    for table in chosen {
        let name = &table.table.definition.name;
        let is_member = publication.members.contains(&table.table.oid);
        if is_member && !table.needs_full {
            continue;
        }
        if is_member {
            let what =
                format!("can't capture table {name}: its replica identity no longer tells the columns of its key");
            return Err(Error::new(ErrorClass::Unsupported, what)
                .with_next_step(format!("ALTER TABLE {name} REPLICA IDENTITY FULL, and copy the table anew")));
        }
        let is_named = required.contains(name) || selection.may_join_filled(name);
        match publication::add(connection, publication, std::slice::from_ref(table), !is_named) {
            Ok(()) if is_named => notices.push(format!("table {name} joins: its changes are captured from now on")),
            Ok(()) => notices.push(format!("table {name} is new and empty, and joins")),
            Err(AddError::Filled(name)) => {
                let what = format!("table {name} is new and selected, but it holds rows that were not captured");
                return Err(Error::new(ErrorClass::Unsupported, what).with_next_step(format!(
                    "name {name} in a TABLE statement of its own and copy its rows to the target, or exclude it"
                )));
            }
            Err(AddError::Failed(error)) => return Err(error.during(format!("can't let table {name} join"))),
        }
    }
    Ok(notices)
}

/// Waits until no walsender uses the slot.
pub(super) fn wait_until_free(connection: &mut Connection, slot: &str, group: &str) -> Result<(), Error> {
    let failed = |error: WireError| error.during(format!("can't ask for slot {slot}"));
    let started = Instant::now();
    while publication::find_slot(connection, slot).map_err(failed)?.is_some_and(|slot| slot.is_active) {
        if started.elapsed() > BUSY_LIMIT {
            let what = format!("slot {slot} of group {group} is in use by another connection");
            return Err(Error::new(ErrorClass::Transient, what).with_next_step(
                "stop the other process; pg_replication_slots shows the server's process that serves it",
            ));
        }
        std::thread::sleep(BUSY_PAUSE);
    }
    Ok(())
}
