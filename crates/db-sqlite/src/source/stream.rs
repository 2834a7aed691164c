//! The stream of committed changes.

use super::Place;
use super::change_row::{Assembly, unix_micros};
use super::durable::{Durable, identity_of};
use super::place::replaced;
use super::release::Release;
use super::reload::Reload;
use super::wake::Wake;
use crate::catalog;
use crate::connect::connect;
use crate::error::{failed, is_busy};
use crate::name::{folded, same};
use crate::trigger::{self, Finding, Kind, Registered, WIDTH_MAX};
use change::{
    Change, Commit, Csn, LogPosition, Operation, RecordAddress, TableDefinition, TableName, Timestamp, TransactionId,
};
use database::{Error, ErrorClass, LogEvent, LogSource, SourceRequest, TableSelection};
use rusqlite::{Connection, OptionalExtension, TransactionBehavior};
use std::collections::{HashMap, HashSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Rows of the change table, or of a table that is sent again, in one batch.
const BATCH_ROWS: usize = 1_000;

/// Bytes of values after which a batch ends early; one row may be larger than that.
const BATCH_BYTES: usize = 1 << 20;

/// Looks in a row that may find something to put in order: each repair is followed by a look, and somebody may change
/// the schema again in between, but not for ever.
const REPAIRS_MAX: u32 = 100;

/// After how long the operator is told that somebody keeps readers out.
const KEPT_OUT_TOLD_AFTER: Duration = Duration::from_secs(30);

/// How long a look waits for somebody who keeps readers out. Short, so that the caller's wait holds.
const LOOK_PATIENCE: Duration = Duration::from_millis(20);

pub(crate) struct SqliteSource {
    path: PathBuf,
    file: u128,
    group: String,
    tables: Arc<dyn TableSelection>,
    /// For reading.
    connection: Connection,
    release: Release,
    durable: Durable,
    wake: Wake,
    /// Behind everything that has been told.
    place: Place,
    window: Option<Window>,
    /// The schema version under which everything was found in order.
    verified: Option<i64>,
    shapes: HashMap<i64, Option<Arc<TableDefinition>>>,
    select_changes: String,
    notices: VecDeque<String>,
    noticed: HashSet<String>,
    /// Looks in a row that found something to put in order.
    repairs: u32,
    /// Since when somebody keeps readers out, and whether the operator knows.
    kept_out: Option<(Instant, bool)>,
}

/// Whole transactions that are being told as one.
struct Window {
    commit: Commit,
    end: Place,
    /// The last row that has been read.
    read: i64,
    begun: bool,
    /// Inside a transaction of our own apply.
    own: bool,
    assembly: Option<Assembly>,
    /// Tables that are sent as a whole, by folded name; their changes are left out.
    reloaded: HashSet<String>,
    reloads: VecDeque<Reload>,
    /// Whether the connection's read transaction stays open until the end.
    snapshot: bool,
}

/// What a look at the database showed.
enum Look {
    Nothing,
    Busy,
    Changes,
    OutOfOrder,
}

impl SqliteSource {
    pub(crate) fn open(path: &Path, request: SourceRequest) -> Result<SqliteSource, Error> {
        let SourceRequest { group, start, tables } = request;
        let file = identity_of(path)?;
        let connection = connect(path, crate::connect::CALL_PATIENCE)?;
        let place = Place::parse(&start)?;
        if !trigger::is_installed(&connection)? {
            return Err(unregistered(&group));
        }
        let released: Option<i64> = connection
            .query_row("SELECT released FROM drover_group WHERE name = ?1", [&group], |row| row.get(0))
            .optional()
            .map_err(|cause| failed(format!("could not look for group {group}"), cause))?;
        let released = released.ok_or_else(|| unregistered(&group))?;
        if released > place.seq {
            return Err(Error::new(
                ErrorClass::Mismatch,
                format!(
                    "the database may have forgotten changes up to {released}, but group {group} is to start at {}",
                    place.seq
                ),
            )
            .with_next_step(
                "the checkpoint is older than what was released: delete and add the Extract, and load the target anew",
            ));
        }
        place.verify(&connection)?;
        // What can't be captured is refused here and not at the first read.
        trigger::compare(&connection, &*tables)?;
        let release = Release::open(path, &group)?;
        connection.busy_timeout(LOOK_PATIENCE).map_err(|cause| failed("could not set up reading", cause))?;
        Ok(SqliteSource {
            file,
            group,
            tables,
            connection,
            release,
            durable: Durable::open(path)?,
            wake: Wake::watch(path),
            path: path.to_path_buf(),
            place,
            window: None,
            verified: None,
            shapes: HashMap::new(),
            select_changes: String::new(),
            notices: VecDeque::new(),
            noticed: HashSet::new(),
            repairs: 0,
            kept_out: None,
        })
    }

    /// Looks for changes behind our place, in one read transaction.
    fn look(&mut self) -> Result<Look, Error> {
        if identity_of(&self.path)? != self.file {
            return Err(Error::new(
                ErrorClass::ConnectionLost,
                format!("database file {} was replaced by another one", self.path.display()),
            ));
        }
        let begun = self.connection.execute_batch("BEGIN").map_err(|cause| failed("could not start reading", cause));
        let looked = begun.and_then(|()| self.look_inside());
        if looked.is_ok() {
            self.kept_out = None;
        }
        let keep = self.window.as_ref().is_some_and(|window| window.snapshot);
        match looked {
            Err(error) if error.class() == ErrorClass::Transient => {
                self.window = None;
                self.end_reading()?;
                Ok(Look::Busy)
            }
            looked => {
                if !keep || looked.is_err() {
                    self.end_reading()?;
                }
                looked
            }
        }
    }

    fn end_reading(&self) -> Result<(), Error> {
        if self.connection.is_autocommit() {
            return Ok(());
        }
        self.connection.execute_batch("ROLLBACK").map_err(|cause| failed("could not end reading", cause))
    }

    fn tell_kept_out(&mut self) {
        let (since, told) = self.kept_out.get_or_insert((Instant::now(), false));
        if !*told && since.elapsed() >= KEPT_OUT_TOLD_AFTER {
            *told = true;
            let seconds = KEPT_OUT_TOLD_AFTER.as_secs();
            let path = self.path.display();
            self.notices
                .push_back(format!("another process has kept readers out of {path} for {seconds} seconds; waiting"));
        }
    }

    /// Nothing of the window has been told yet: the next look opens it again.
    fn give_up_window(&mut self) {
        self.window = None;
        // A read transaction that can't be ended is noticed by the next one that starts.
        let _ = self.end_reading();
    }

    fn look_inside(&mut self) -> Result<Look, Error> {
        let version = catalog::schema_version(&self.connection)?;
        if self.verified != Some(version) {
            if !trigger::is_installed(&self.connection)? {
                return Err(unregistered(&self.group));
            }
            let found = trigger::compare(&self.connection, &*self.tables)?;
            if let Some(finding) = found.findings.first()
                && !change::sabotage::is_on("skip-healing")
            {
                self.repairs += 1;
                if self.repairs > REPAIRS_MAX {
                    return Err(never_in_order(finding));
                }
                return Ok(Look::OutOfOrder);
            }
            self.repairs = 0;
            self.notices.extend(found.skipped.into_iter().filter(|text| self.noticed.insert(text.clone())));
            let columns: Vec<String> = (0..trigger::change_columns(&self.connection)?.min(WIDTH_MAX))
                .map(|place| format!("c{place}"))
                .collect();
            self.select_changes = format!(
                "SELECT seq, table_id, kind, at, {} FROM drover_change WHERE seq > ?1 AND seq <= ?2 ORDER BY seq LIMIT ?3",
                columns.join(", ")
            );
            self.verified = Some(version);
        }
        self.place.verify(&self.connection)?;
        let (last, at): (i64, Option<f64>) = self
            .connection
            .prepare_cached("SELECT seq, at FROM drover_change ORDER BY seq DESC LIMIT 1")
            .and_then(|mut statement| statement.query_row([], |row| Ok((row.get(0)?, row.get(1)?))))
            .map_err(|cause| failed("could not read the newest change", cause))?;
        if last <= self.place.seq {
            return Ok(Look::Nothing);
        }
        self.open_window(last, at.map_or(0, unix_micros))?;
        Ok(Look::Changes)
    }

    fn open_window(&mut self, last: i64, unix_micros: i64) -> Result<(), Error> {
        let commit = Commit {
            csn: Csn::new(format!("{last:020}")),
            transaction: TransactionId::new((self.place.seq + 1).to_string()),
            time: Timestamp::from_unix_micros(unix_micros),
        };
        let mut window = Window {
            commit,
            end: Place::of(&self.connection, last)?,
            read: self.place.seq,
            begun: false,
            own: false,
            assembly: None,
            reloaded: HashSet::new(),
            reloads: VecDeque::new(),
            snapshot: false,
        };
        self.plan_reloads(&mut window)?;
        window.snapshot = !window.reloads.is_empty();
        self.window = Some(window);
        Ok(())
    }

    /// Finds the tables that are to be sent as a whole within this window.
    fn plan_reloads(&mut self, window: &mut Window) -> Result<(), Error> {
        if !trigger::is_reload_wanted(&self.connection, self.place.seq)? {
            return Ok(());
        }
        let registered = trigger::registered_tables(&self.connection)?;
        let in_window =
            |table: &&Registered| table.reload.is_some_and(|place| place > self.place.seq && place <= window.end.seq);
        let mut asked: Vec<&Registered> = registered.iter().filter(in_window).collect();
        asked.retain(|table| self.selects(&table.name));
        for table in &asked {
            if !window.reloaded.insert(folded(&table.name)) {
                continue;
            }
            let current = registered.iter().rfind(|other| other.active && same(&other.name, &table.name));
            let entry = catalog::entry(&self.connection, &table.name)?;
            let (Some(current), Some(entry)) = (current, entry) else { continue };
            let Some(definition) = self.shape_of(current)? else { continue };
            let newest = asked.iter().rfind(|other| same(&other.name, &table.name)).unwrap_or(table);
            let reason = newest.reason.clone().unwrap_or_default();
            let seq = newest.reload.unwrap_or(window.end.seq);
            let columns = catalog::table(&self.connection, &entry)?;
            window.reloads.extend(Reload::new(&columns, definition, seq, reason));
        }
        Ok(())
    }

    fn selects(&self, table: &str) -> bool {
        let name = TableName::new(catalog::SCHEMA, table);
        let required = |other: &TableName| same(&other.schema, &name.schema) && same(&other.table, &name.table);
        self.tables.selects(&name) || self.tables.required().iter().any(required)
    }

    /// The definition under which changes are told, or `None` when the group does not capture the table.
    fn shape(&mut self, id: i64) -> Result<Option<Arc<TableDefinition>>, Error> {
        if let Some(known) = self.shapes.get(&id) {
            return Ok(known.clone());
        }
        let registered = trigger::registered_tables(&self.connection)?;
        let table = registered.iter().find(|table| table.id == id).ok_or_else(|| {
            Error::new(ErrorClass::Corrupt, format!("drover_table does not know table number {id} of a change"))
                .with_next_step("the capture tables were damaged: delete and add the Extract, and load the target anew")
        })?;
        self.shape_of(table)
    }

    fn shape_of(&mut self, table: &Registered) -> Result<Option<Arc<TableDefinition>>, Error> {
        if let Some(known) = self.shapes.get(&table.id) {
            return Ok(known.clone());
        }
        let shape = if self.selects(&table.name) {
            let mut definition = table.definition(&self.connection)?;
            if let Some(key) = self.tables.key_columns(&definition.name) {
                for column in &mut definition.columns {
                    column.key = key.iter().position(|part| same(part, &column.name)).map(|place| place as u16);
                }
            }
            Some(Arc::new(definition))
        } else {
            None
        };
        self.shapes.insert(table.id, shape.clone());
        Ok(shape)
    }

    /// Appends the next part of the window to `events`. After an error the window stands where it stood, so that what was
    /// told is not told again.
    fn tell(&mut self, events: &mut Vec<LogEvent>) -> Result<(), Error> {
        let Some(mut window) = self.window.take() else { return Ok(()) };
        let told = self.tell_part(&mut window, events);
        if told.is_err() || !window.is_told() {
            self.window = Some(window);
            return told;
        }
        self.end_reading()?;
        self.place = window.end;
        let next = self.place.position();
        events.push(if window.begun { LogEvent::Commit { next } } else { LogEvent::Idle { next } });
        Ok(())
    }

    fn tell_part(&mut self, window: &mut Window, events: &mut Vec<LogEvent>) -> Result<(), Error> {
        if window.read < window.end.seq {
            return self.tell_changes(window, events);
        }
        if let Some(mut reload) = window.reloads.pop_front() {
            let complete = self.tell_reload(window, &mut reload, events);
            if !matches!(complete, Ok(true)) {
                window.reloads.push_front(reload);
            }
            complete?;
        }
        Ok(())
    }

    fn tell_changes(&mut self, window: &mut Window, events: &mut Vec<LogEvent>) -> Result<(), Error> {
        // The window may be told over many calls; each reads on in a transaction of its own.
        let mut first_unknown = None;
        let mut bytes = 0;
        {
            let mut statement = self
                .connection
                .prepare_cached(&self.select_changes)
                .map_err(|cause| failed("could not read changes", cause))?;
            let mut rows = statement
                .query([window.read, window.end.seq, BATCH_ROWS as i64])
                .map_err(|cause| failed("could not read changes", cause))?;
            let mut found = false;
            while bytes < BATCH_BYTES {
                let Some(row) = rows.next().map_err(|cause| failed("could not read changes", cause))? else { break };
                found = true;
                let take = take_row(row, window, &self.shapes, events, &mut bytes)?;
                if let Some(id) = take {
                    first_unknown = Some(id);
                    break;
                }
            }
            if !found {
                return Err(replaced(window.read + 1));
            }
        }
        if let Some(id) = first_unknown {
            self.shape(id)?;
        }
        Ok(())
    }

    /// Tells the next rows of a table as insertions; whether it is complete.
    fn tell_reload(
        &mut self,
        window: &mut Window,
        reload: &mut Reload,
        events: &mut Vec<LogEvent>,
    ) -> Result<bool, Error> {
        window.begin(events);
        let address = RecordAddress { position: reload.seq.unsigned_abs(), offset: 0 };
        let table = Arc::clone(&reload.definition);
        let change = |operation| LogEvent::Change(Change { table: Arc::clone(&table), operation, address });
        if !std::mem::replace(&mut reload.truncated, true) {
            events.push(LogEvent::Notice(format!("{}; it is sent again as a whole", reload.reason)));
            events.push(change(Operation::Truncate));
        }
        let mut bytes = 0;
        reload.read(&self.connection, BATCH_ROWS, |new| {
            bytes += new.value_bytes();
            events.push(change(Operation::Insert { new }));
            bytes < BATCH_BYTES
        })
    }

    /// Puts the triggers in order in a short write transaction; `false` when the database was busy.
    fn repair(&mut self) -> Result<bool, Error> {
        let since = self.place.seq;
        let tables = Arc::clone(&self.tables);
        let mut connection = connect(&self.path, LOOK_PATIENCE)?;
        let transaction = match connection.transaction_with_behavior(TransactionBehavior::Immediate) {
            Ok(transaction) => transaction,
            Err(cause) if is_busy(&cause) => return Ok(false),
            Err(cause) => return Err(failed("could not put capture in order", cause)),
        };
        let found = trigger::compare(&transaction, &*tables)?;
        for finding in &found.findings {
            if let Finding::Retire { name, .. } = finding
                && self.selects(name)
            {
                self.notices.push_back(format!("table main.{name} went away; capture goes on without it"));
            }
        }
        trigger::repair(&transaction, found.findings, Some(since))?;
        match transaction.commit() {
            Ok(()) => Ok(true),
            Err(cause) if is_busy(&cause) => Ok(false),
            Err(cause) => Err(failed("could not put capture in order", cause)),
        }
    }
}

impl LogSource for SqliteSource {
    fn read(&mut self, events: &mut Vec<LogEvent>, wait: Duration) -> Result<(), Error> {
        let deadline = Instant::now() + wait;
        let before = events.len();
        loop {
            let progress = if self.window.is_some() {
                match self.tell(events) {
                    // In rollback-journal mode a writer keeps readers out while it commits.
                    Err(error) if error.class() == ErrorClass::Transient => false,
                    told => told.map(|()| true)?,
                }
            } else {
                match self.look()? {
                    Look::Changes => {
                        self.durable.sync().inspect_err(|_| self.give_up_window())?;
                        true
                    }
                    Look::OutOfOrder => self.repair()?,
                    Look::Nothing => false,
                    Look::Busy => {
                        self.tell_kept_out();
                        false
                    }
                }
            };
            // Between transactions only, so that a notice never stands inside one by chance.
            if self.window.is_none() {
                events.extend(self.notices.drain(..).map(LogEvent::Notice));
            }
            if events.len() > before {
                return Ok(());
            }
            if progress {
                continue;
            }
            self.release.tidy()?;
            if Instant::now() >= deadline {
                return Ok(());
            }
            self.wake.wait(deadline);
        }
    }

    fn release(&mut self, position: &LogPosition) -> Result<(), Error> {
        let place = Place::parse(position)?;
        if place.incarnation != self.place.incarnation || place.seq > self.place.seq {
            return Err(replaced(place.seq));
        }
        self.release.want(place.seq);
        self.release.tidy()
    }

    fn resume_after(&mut self, commit: &Commit) -> Result<bool, Error> {
        let seq: i64 = commit.csn.as_str().parse().map_err(|_| {
            Error::new(
                ErrorClass::Mismatch,
                format!("the trail's last transaction {} is not of a sqlite database", commit.csn),
            )
            .with_next_step("check which trail the group writes to")
        })?;
        if seq > self.place.seq {
            self.place = Place::of(&self.connection, seq)?;
        }
        Ok(true)
    }
}

impl Window {
    fn is_told(&self) -> bool {
        self.read >= self.end.seq && self.reloads.is_empty()
    }

    fn begin(&mut self, events: &mut Vec<LogEvent>) {
        if !std::mem::replace(&mut self.begun, true) {
            events.push(LogEvent::Begin(self.commit.clone()));
        }
    }
}

/// Takes one row of the change table. Returns the number of its table, and takes nothing, when its shape has yet to be
/// looked up.
fn take_row(
    row: &rusqlite::Row<'_>,
    window: &mut Window,
    shapes: &HashMap<i64, Option<Arc<TableDefinition>>>,
    events: &mut Vec<LogEvent>,
    bytes: &mut usize,
) -> Result<Option<i64>, Error> {
    let what = |cause| failed("could not read a change", cause);
    let seq: i64 = row.get(0).map_err(what)?;
    if seq != window.read + 1 {
        return Err(replaced(window.read + 1));
    }
    let kind: i64 = row.get(2).map_err(what)?;
    let kind = Kind::from_code(kind).ok_or_else(|| {
        Error::new(ErrorClass::Unsupported, format!("change {seq} is of a kind that this version does not know"))
            .with_next_step("use the version of Drover that registered the group, or a later one")
    })?;
    match kind {
        Kind::OwnBegin => window.own = true,
        Kind::OwnEnd => window.own = false,
        Kind::Start | Kind::Reload => {}
        Kind::Insert | Kind::Update | Kind::Delete if !window.own => {
            let id: i64 = row.get(1).map_err(what)?;
            let Some(shape) = shapes.get(&id) else { return Ok(Some(id)) };
            window.assembly = shape
                .as_ref()
                .filter(|table| !window.reloaded.contains(&folded(&table.name.table)))
                .map(|table| Assembly::new(Arc::clone(table), kind, seq));
        }
        Kind::Insert | Kind::Update | Kind::Delete => window.assembly = None,
        Kind::More => {}
    }
    window.read = seq;
    if let Some(assembly) = &mut window.assembly
        && let Some(change) = assembly.take(row).map_err(what)?
    {
        *bytes += change.operation.value_bytes();
        window.assembly = None;
        window.begin(events);
        events.push(LogEvent::Change(change));
    }
    Ok(None)
}

fn unregistered(group: &str) -> Error {
    Error::new(ErrorClass::Missing, format!("group {group} is not registered in the database")).with_next_step(
        "add the Extract; if it had been added, capture was removed from the database: load the target anew",
    )
}

fn never_in_order(finding: &Finding) -> Error {
    let what = match finding {
        Finding::Install { reason, .. } | Finding::Renew { reason, .. } => reason.clone(),
        Finding::Retire { name, .. } => format!("table main.{name} went away"),
    };
    Error::new(ErrorClass::Permanent, format!("could not put the capture triggers in order: {what}, again and again"))
        .with_next_step("let one version of Drover capture this database, and nobody else alter its triggers")
}
