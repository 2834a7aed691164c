//! One window: whole transactions that are told as one, over as many calls as it takes.

use super::Place;
use super::change_row::{Assembly, unix_micros};
use super::place::replaced;
use super::reload::Reload;
use super::shape::Shapes;
use crate::catalog;
use crate::error::failed;
use crate::name::{folded, same};
use crate::trigger::{self, Kind, Registered, WIDTH_MAX};
use change::{Change, Commit, Csn, Operation, RecordAddress, Timestamp, TransactionId};
use database::{Error, ErrorClass, LogEvent};
use rusqlite::Connection;
use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

/// Rows of the change table, or of a table that is sent again, in one batch.
const BATCH_ROWS: usize = 1_000;

/// Bytes of values after which a batch ends early; one row may be larger than that.
const BATCH_BYTES: usize = 1 << 20;

/// Everything between one place and a later one.
pub(super) struct Window {
    commit: Commit,
    end: Place,
    select_changes: String,
    /// The last row that has been read.
    read: i64,
    begun: bool,
    /// Inside a transaction of our own apply.
    own: bool,
    assembly: Option<Assembly>,
    /// Tables that are sent as a whole, by folded name; their changes are left out.
    reloaded: HashSet<String>,
    reloads: VecDeque<Reload>,
    /// Changes told of tables that are sent as a whole. They stand behind all others, so their addresses go on from the
    /// last row of the window.
    reload_changes: u32,
}

impl Window {
    /// The window from `start` to the newest row of the open read transaction, or `None` when there is nothing new.
    pub(super) fn open(connection: &Connection, shapes: &mut Shapes, start: &Place) -> Result<Option<Window>, Error> {
        let (last, at): (i64, Option<f64>) = connection
            .prepare_cached("SELECT seq, at FROM drover_change ORDER BY seq DESC LIMIT 1")
            .and_then(|mut statement| statement.query_row([], |row| Ok((row.get(0)?, row.get(1)?))))
            .map_err(|cause| failed("could not read the newest change", cause))?;
        if last <= start.seq {
            return Ok(None);
        }
        let columns = trigger::change_columns(connection)?.min(WIDTH_MAX);
        let columns: Vec<String> = (0..columns).map(|place| format!("c{place}")).collect();
        let mut window = Window {
            commit: Commit {
                csn: Csn::new(format!("{last:020}")),
                transaction: TransactionId::new((start.seq + 1).to_string()),
                time: Timestamp::from_unix_micros(at.map_or(0, unix_micros)),
            },
            end: Place::of(connection, last)?,
            select_changes: format!(
                "SELECT seq, table_id, kind, at, {} FROM drover_change WHERE seq > ?1 AND seq <= ?2 ORDER BY seq LIMIT ?3",
                columns.join(", ")
            ),
            read: start.seq,
            begun: false,
            own: false,
            assembly: None,
            reloaded: HashSet::new(),
            reloads: VecDeque::new(),
            reload_changes: 0,
        };
        if trigger::is_reload_wanted(connection, start.seq)? {
            window.plan_reloads(connection, shapes, start.seq)?;
        }
        Ok(Some(window))
    }

    /// Finds the tables that are to be sent as a whole within this window.
    fn plan_reloads(&mut self, connection: &Connection, shapes: &mut Shapes, start: i64) -> Result<(), Error> {
        let registered = trigger::registered_tables(connection)?;
        let within = |table: &&Registered| {
            let asked = table.reload.is_some_and(|place| place > start && place <= self.end.seq);
            asked && shapes.selects(&table.name)
        };
        let asked: Vec<&Registered> = registered.iter().filter(within).collect();
        // The newest request for a table counts, and the shape that it has now.
        for table in asked.iter().rev() {
            if !self.reloaded.insert(folded(&table.name)) {
                continue;
            }
            let current = registered.iter().rfind(|other| other.active && same(&other.name, &table.name));
            let entry = catalog::entry(connection, &table.name)?;
            let (Some(current), Some(entry)) = (current, entry) else { continue };
            let Some(definition) = shapes.of(connection, current)? else { continue };
            let reason = table.reason.clone().unwrap_or_default();
            self.reloads.extend(Reload::new(&catalog::table(connection, &entry)?, definition, reason));
        }
        Ok(())
    }

    /// Whether the read transaction in which the window was opened must last until it is told.
    pub(super) fn needs_snapshot(&self) -> bool {
        !self.reloads.is_empty()
    }

    pub(super) fn is_told(&self) -> bool {
        self.read >= self.end.seq && self.reloads.is_empty()
    }

    /// The last event, and the place behind the window.
    pub(super) fn finish(self) -> (LogEvent, Place) {
        let next = self.end.position();
        (if self.begun { LogEvent::Commit { next } } else { LogEvent::Idle { next } }, self.end)
    }

    /// Appends the next batch to `events`. After an error the window stands behind what was told.
    pub(super) fn tell(
        &mut self,
        connection: &Connection,
        shapes: &mut Shapes,
        events: &mut Vec<LogEvent>,
    ) -> Result<(), Error> {
        if self.read < self.end.seq {
            return match self.tell_changes(connection, shapes, events)? {
                Some(unknown) => shapes.learn(connection, unknown),
                None => Ok(()),
            };
        }
        if let Some(mut reload) = self.reloads.pop_front() {
            self.begin(events);
            let complete = self.tell_reload(connection, &mut reload, events);
            if !matches!(complete, Ok(true)) {
                self.reloads.push_front(reload);
            }
            complete?;
        }
        Ok(())
    }

    /// Tells a batch of changes. Stops early at a change of a table whose shape has yet to be learned, and returns its
    /// number.
    fn tell_changes(
        &mut self,
        connection: &Connection,
        shapes: &Shapes,
        events: &mut Vec<LogEvent>,
    ) -> Result<Option<i64>, Error> {
        let what = |cause| failed("could not read changes", cause);
        let mut statement = connection.prepare_cached(&self.select_changes).map_err(what)?;
        let mut rows = statement.query([self.read, self.end.seq, BATCH_ROWS as i64]).map_err(what)?;
        let (mut bytes, mut found) = (0, false);
        while bytes < BATCH_BYTES {
            let Some(row) = rows.next().map_err(what)? else { break };
            found = true;
            if let Some(unknown) = self.take_row(row, shapes, events, &mut bytes)? {
                return Ok(Some(unknown));
            }
        }
        if found { Ok(None) } else { Err(replaced(self.read + 1)) }
    }

    /// Takes one row of the change table, or returns the number of its table when its shape has yet to be learned.
    fn take_row(
        &mut self,
        row: &rusqlite::Row<'_>,
        shapes: &Shapes,
        events: &mut Vec<LogEvent>,
        bytes: &mut usize,
    ) -> Result<Option<i64>, Error> {
        let what = |cause| failed("could not read a change", cause);
        let seq: i64 = row.get(0).map_err(what)?;
        if seq != self.read + 1 {
            return Err(replaced(self.read + 1));
        }
        let code: i64 = row.get(2).map_err(what)?;
        let kind = Kind::from_code(code).ok_or_else(|| {
            Error::new(ErrorClass::Unsupported, format!("change {seq} is of a kind that this version does not know"))
                .with_next_step("use the version of Drover that registered the group, or a later one")
        })?;
        match kind {
            Kind::OwnBegin => self.own = true,
            Kind::OwnEnd => self.own = false,
            Kind::Start | Kind::Reload | Kind::More => {}
            Kind::Insert | Kind::Update | Kind::Delete if self.own => self.assembly = None,
            Kind::Insert | Kind::Update | Kind::Delete => {
                let id: i64 = row.get(1).map_err(what)?;
                let Some(shape) = shapes.known(id) else { return Ok(Some(id)) };
                let told = shape.filter(|table| !self.is_reloaded(&table.name.table));
                self.assembly = told.map(|table| Assembly::new(Arc::clone(table), kind, seq));
            }
        }
        self.read = seq;
        if let Some(assembly) = &mut self.assembly
            && let Some(change) = assembly.take(row).map_err(what)?
        {
            *bytes += change.operation.value_bytes();
            self.assembly = None;
            self.begin(events);
            events.push(LogEvent::Change(change));
        }
        Ok(None)
    }

    fn is_reloaded(&self, table: &str) -> bool {
        !self.reloaded.is_empty() && self.reloaded.contains(&folded(table))
    }

    fn begin(&mut self, events: &mut Vec<LogEvent>) {
        if !std::mem::replace(&mut self.begun, true) {
            events.push(LogEvent::Begin(self.commit.clone()));
        }
    }

    /// Tells the next rows of a table as insertions; whether it is complete.
    fn tell_reload(
        &mut self,
        connection: &Connection,
        reload: &mut Reload,
        events: &mut Vec<LogEvent>,
    ) -> Result<bool, Error> {
        let position = self.end.seq.unsigned_abs();
        let count = &mut self.reload_changes;
        let table = Arc::clone(&reload.definition);
        let mut change = |operation| {
            *count = count.saturating_add(1);
            let address = RecordAddress { position, offset: *count };
            LogEvent::Change(Change { table: Arc::clone(&table), operation, address })
        };
        if !std::mem::replace(&mut reload.truncated, true) {
            events.push(LogEvent::Notice(format!("{}; it is sent again as a whole", reload.reason)));
            events.push(change(Operation::truncate()));
        }
        let mut bytes = 0;
        reload.read(connection, BATCH_ROWS, |new| {
            bytes += new.value_bytes();
            events.push(change(Operation::Insert { new }));
            bytes < BATCH_BYTES
        })
    }
}
