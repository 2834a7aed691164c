//! Heartbeats on their way into a target.
//!
//! A heartbeat is no row of a user's: no MAP speaks of it and nobody counts it. It becomes a row of GG_HEARTBEAT, in place of
//! the one of the same way, and a line of its history, in the target transaction of the data around it.

use crate::Error;
use crate::handling::Misfit;
use crate::mapping::MappingError;
use change::{Change, Column, Csn, LogicalType, Operation, Row, TableDefinition, TableName, Timestamp, Value};
use database::{ColumnPair, HeartbeatColumn, HeartbeatKind, OnDuplicate, Session, TablePlan, WAY_COLUMN};
use parameter::Handling;
use process::heartbeat::{Arrival, COLUMNS, Heartbeat, HeartbeatError, ReplicatNotes, arrive};
use std::sync::Arc;
use trail::Position;

/// What a Replicat must know to apply heartbeats.
#[derive(Clone, Debug)]
pub struct HeartbeatTarget {
    /// The group's name, without the number of a thread.
    pub group: String,
    /// How the target calls itself in heartbeats; `None` where it has no heartbeat tables, and heartbeats are dropped.
    pub database: Option<String>,
    /// The table of what has arrived.
    pub heartbeats: TableName,
    /// Its history.
    pub history: TableName,
}

/// The heartbeats of a running Replicat.
pub(crate) struct Heartbeats {
    target: Option<HeartbeatTarget>,
    shape: Arc<TableDefinition>,
    is_told: bool,
    /// How many were read, and how many of them are another Replicat's.
    pub(crate) read: u64,
    pub(crate) dropped: u64,
}

impl Default for Heartbeats {
    fn default() -> Heartbeats {
        Heartbeats { target: None, shape: shape(), is_told: false, read: 0, dropped: 0 }
    }
}

/// What becomes of a heartbeat.
pub(crate) enum Fate {
    /// It is written.
    Arrives(Box<Arrival>),
    /// It is none of this Replicat's, or the target does not want it.
    Dropped,
}

impl Heartbeats {
    pub(crate) fn set(&mut self, target: HeartbeatTarget) {
        self.target = Some(target);
    }

    /// What becomes of a change that [`process::heartbeat::is_heartbeat`] knows. Says once, through `notice`, why heartbeats are
    /// dropped.
    pub(crate) fn take(
        &mut self,
        change: &Change,
        now: Timestamp,
        low: Option<&Csn>,
        notice: &mut dyn FnMut(&str),
    ) -> Result<Fate, HeartbeatError> {
        self.read += 1;
        let database = self.target.as_ref().and_then(|target| Some((target, target.database.as_ref()?)));
        let Some((target, database)) = database else {
            if self.target.is_some() && !std::mem::replace(&mut self.is_told, true) {
                notice(
                    "the trail holds heartbeats, and the target has no place for them: ADD HEARTBEATTABLE makes one",
                );
            }
            self.dropped += 1;
            return Ok(Fate::Dropped);
        };
        let notes = ReplicatNotes { now, low_csn: low.map(|csn| csn.as_str().to_owned()) };
        let heartbeat = Heartbeat::of(change)?;
        let arrival = heartbeat.and_then(|heartbeat| arrive(&heartbeat, &target.group, database, notes));
        Ok(match arrival {
            Some(arrival) => Fate::Arrives(Box::new(arrival)),
            None => {
                self.dropped += 1;
                Fate::Dropped
            }
        })
    }

    /// The change that an arrival is in the target.
    pub(crate) fn change(&self, arrival: &Arrival, received: Timestamp, from: &Change) -> Change {
        Change { table: Arc::clone(&self.shape), operation: operation(arrival, received), address: from.address }
    }

    /// How arrivals are written to the target.
    pub(crate) fn plans(
        &self,
        session: &mut dyn Session,
        position: Position,
    ) -> Result<Vec<PlannedTable>, PlanFailure> {
        let Some(target) = &self.target else { return Ok(Vec::new()) };
        let tables = [(&target.heartbeats, OnDuplicate::Replace), (&target.history, OnDuplicate::Refuse)];
        let mut plans = Vec::new();
        for (name, on_duplicate) in tables {
            let definition = session.table(name).map_err(PlanFailure::Session)?;
            let refused =
                |source: MappingError| PlanFailure::Stop(Error::Mapping { position, source: Box::new(source) });
            let missing = || MappingError::NoTarget { source_table: self.shape.name.clone(), target: name.clone() };
            let definition = definition.ok_or_else(|| refused(missing()))?;
            let plan = plan(&self.shape, definition, on_duplicate).map_err(refused)?;
            plans.push((Arc::new(plan), Arc::new(misfit())));
        }
        Ok(plans)
    }

    /// The shape of arrivals.
    pub(crate) fn shape(&self) -> &Arc<TableDefinition> {
        &self.shape
    }
}

/// How arrivals are written to one table, and what is done with those that do not fit.
pub(crate) type PlannedTable = (Arc<TablePlan>, Arc<Misfit>);

/// Why heartbeats can't be written.
pub(crate) enum PlanFailure {
    /// The session failed.
    Session(database::Error),
    /// The tables are not as they should be.
    Stop(Error),
}

/// The change into the target's row and history, received at `received`.
pub(crate) fn operation(arrival: &Arrival, received: Timestamp) -> Operation {
    let heartbeat = Heartbeat {
        local_database: arrival.local_database.clone(),
        stamp: received,
        remote_database: Some(arrival.remote_database.clone()),
        incoming: arrival.incoming.clone(),
        outgoing: arrival.outgoing.clone(),
    };
    // The stamp's place is taken by when it was received.
    let values = heartbeat.values();
    let way = arrival.way_key();
    let told = values.iter().map(|value| value.as_ref().map_or(Value::Null, |text| Value::Bytes(text.as_bytes())));
    Operation::Insert { new: Row::from_values(told.chain([Value::Bytes(way.as_bytes())])) }
}

/// Columns of a heartbeat as in a trail, with the time of its arrival in place of the stamp, and the key of its way.
fn shape() -> Arc<TableDefinition> {
    let known = database::heartbeat_columns();
    let column = |name: &&str| {
        let name = if *name == COLUMNS[1] { "HEARTBEAT_RECEIVED_TS" } else { name };
        let kind = known.iter().find(|column| column.name == name).map(|column: &HeartbeatColumn| column.kind);
        match kind {
            Some(HeartbeatKind::Instant) => Column::new(name, LogicalType::Timestamp, "timestamp(6)"),
            Some(HeartbeatKind::Text(_)) | None => Column::new(name, LogicalType::Text, "varchar"),
        }
    };
    let mut columns: Vec<Column> = COLUMNS.iter().map(column).collect();
    columns.push(Column::new(WAY_COLUMN, LogicalType::Text, "varchar(64)").with_key(0));
    Arc::new(TableDefinition { name: TableName::new("", process::heartbeat::TABLE), columns: columns.into() })
}

/// Columns meet by name, whatever their case; those that only an arrival has are left out, but for the key.
fn plan(
    source: &Arc<TableDefinition>,
    target: TableDefinition,
    on_duplicate: OnDuplicate,
) -> Result<TablePlan, MappingError> {
    let place = |name: &str| target.columns.iter().position(|column| column.name.eq_ignore_ascii_case(name));
    let pair = |(source, column): (usize, &Column)| Some(ColumnPair { source, target: place(&column.name)? });
    let mut columns: Vec<ColumnPair> = source.columns.iter().enumerate().filter_map(pair).collect();
    columns.sort_unstable_by_key(|pair| pair.target);
    let last = source.columns.len() - 1;
    let key: Vec<ColumnPair> = columns.iter().filter(|pair| pair.source == last).copied().collect();
    if on_duplicate == OnDuplicate::Replace && key.is_empty() {
        let (source_table, target) = (source.name.clone(), target.name.clone());
        return Err(MappingError::NoKey { source_table, target });
    }
    Ok(TablePlan { source: Arc::clone(source), target, columns, key, on_duplicate })
}

fn misfit() -> Misfit {
    Misfit {
        handling: Arc::new(Handling::default()),
        is_plain: true,
        converts: false,
        conflicts: None,
        exceptions: None,
    }
}
