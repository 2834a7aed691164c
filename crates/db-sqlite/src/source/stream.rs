//! The stream of committed changes.

use super::Place;
use super::durable::{Durable, identity_of};
use super::place::replaced;
use super::release::Release;
use super::shape::Shapes;
use super::wake::Wake;
use super::window::Window;
use crate::catalog;
use crate::connect::{CALL_PATIENCE, connect};
use crate::error::{failed, is_busy};
use crate::trigger::{self, Finding, Known};
use change::{Commit, LogPosition};
use database::{Error, ErrorClass, LogEvent, LogSource, SourceRequest};
use rusqlite::{Connection, OptionalExtension, TransactionBehavior};
use std::collections::{HashSet, VecDeque};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Repairs in a row after which things must be in order: somebody may change the schema again between a repair and the
/// next look, but not for ever.
const REPAIRS_MAX: u32 = 100;

/// Steps that a call makes in a row without an event to show, as in a long transaction of tables that are not captured: about
/// a second of work. Counted and not timed, so that a slow disk does not make a call come back before it has told anything.
const QUIET_STEPS_MAX: usize = 500;

/// After how long the operator is told that somebody keeps readers out.
const KEPT_OUT_TOLD_AFTER: Duration = Duration::from_secs(30);

/// How long a look waits for somebody who keeps readers out. Short, so that the caller's wait holds.
const LOOK_PATIENCE: Duration = Duration::from_millis(20);

pub(crate) struct SqliteSource {
    path: PathBuf,
    file: u128,
    group: String,
    shapes: Shapes,
    /// For reading.
    connection: Connection,
    release: Release,
    durable: Durable,
    wake: Wake,
    /// Behind everything that has been told.
    place: Place,
    window: Option<Window>,
    /// The schema version that this process has looked at and found in order.
    verified: Option<i64>,
    /// The schema version up to which everything is in order or will be sent again; kept over restarts.
    in_order: i64,
    notices: VecDeque<String>,
    noticed: HashSet<String>,
    /// Repairs since everything was in order.
    repairs: u32,
    /// Since when somebody keeps readers out, and whether the operator knows.
    kept_out: Option<(Instant, bool)>,
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
        let connection = connect(path, CALL_PATIENCE)?;
        let place = Place::parse(&start)?;
        if !trigger::is_installed(&connection)? {
            return Err(unregistered(&group));
        }
        let registered: Option<(i64, i64)> = connection
            .query_row("SELECT released, schema_version FROM drover_group WHERE name = ?1", [&group], |row| {
                Ok((row.get(0)?, row.get(1)?))
            })
            .optional()
            .map_err(|cause| failed(format!("could not look for group {group}"), cause))?;
        let (released, in_order) = registered.ok_or_else(|| unregistered(&group))?;
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
        trigger::compare(&connection, &*tables, None)?;
        let release = Release::open(path, &group, in_order)?;
        connection.busy_timeout(LOOK_PATIENCE).map_err(|cause| failed("could not set up reading", cause))?;
        Ok(SqliteSource {
            file,
            group,
            shapes: Shapes::new(tables),
            connection,
            release,
            durable: Durable::open(path)?,
            wake: Wake::watch(path),
            path: path.to_path_buf(),
            place,
            window: None,
            verified: None,
            in_order,
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
        let keep = self.window.as_ref().is_some_and(Window::needs_snapshot);
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
            let found = trigger::compare(&self.connection, self.shapes.selection(), Some(self.known()))?;
            if let Some(finding) = found.findings.first()
                && !change::sabotage::is_on("skip-healing")
            {
                return if self.repairs < REPAIRS_MAX { Ok(Look::OutOfOrder) } else { Err(never_in_order(finding)) };
            }
            self.repairs = 0;
            self.notices.extend(found.skipped.into_iter().filter(|text| self.noticed.insert(text.clone())));
            self.verified = Some(version);
            self.in_order = version;
        }
        self.place.verify(&self.connection)?;
        self.window = Window::open(&self.connection, &mut self.shapes, &self.place)?;
        Ok(if self.window.is_some() { Look::Changes } else { Look::Nothing })
    }

    /// Appends the next part of the window to `events`.
    fn tell(&mut self, mut window: Window, events: &mut Vec<LogEvent>) -> Result<(), Error> {
        let told = window.tell(&self.connection, &mut self.shapes, events);
        if told.is_err() || !window.is_told() {
            self.window = Some(window);
            return told;
        }
        self.end_reading()?;
        let (event, place) = window.finish();
        self.place = place;
        events.push(event);
        Ok(())
    }

    fn known(&self) -> Known {
        Known { since: self.place.seq, schema_version: self.in_order }
    }

    /// Puts the triggers in order in a short write transaction; `false` when the database was busy.
    fn repair(&mut self) -> Result<bool, Error> {
        let known = self.known();
        let mut connection = connect(&self.path, LOOK_PATIENCE)?;
        let transaction = match connection.transaction_with_behavior(TransactionBehavior::Immediate) {
            Ok(transaction) => transaction,
            Err(cause) if is_busy(&cause) => return Ok(false),
            Err(cause) => return Err(failed("could not put capture in order", cause)),
        };
        let found = trigger::compare(&transaction, self.shapes.selection(), Some(known))?;
        for finding in &found.findings {
            if let Finding::Retire { name, .. } = finding
                && self.shapes.selects(name)
            {
                self.notices.push_back(format!("table main.{name} went away; capture goes on without it"));
            }
        }
        trigger::repair(&transaction, found.findings, Some(known.since))?;
        let version = catalog::schema_version(&transaction)?;
        match transaction.commit() {
            Ok(()) => {
                self.in_order = version;
                self.repairs += 1;
                Ok(true)
            }
            Err(cause) if is_busy(&cause) => Ok(false),
            Err(cause) => Err(failed("could not put capture in order", cause)),
        }
    }
}

impl LogSource for SqliteSource {
    fn read(&mut self, events: &mut Vec<LogEvent>, wait: Duration) -> Result<(), Error> {
        let deadline = Instant::now() + wait;
        let before = events.len();
        let mut quiet_steps = 0;
        loop {
            let progress = if let Some(window) = self.window.take() {
                match self.tell(window, events) {
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
            quiet_steps += 1;
            if progress && quiet_steps < QUIET_STEPS_MAX {
                continue;
            }
            self.release.tidy()?;
            if Instant::now() >= deadline {
                return Ok(());
            }
            quiet_steps = 0;
            if !progress {
                self.wake.wait(deadline);
            }
        }
    }

    fn release(&mut self, position: &LogPosition) -> Result<(), Error> {
        let place = Place::parse(position)?;
        if place.incarnation != self.place.incarnation || place.seq > self.place.seq {
            return Err(replaced(place.seq));
        }
        self.release.want(place.seq, self.in_order);
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

fn unregistered(group: &str) -> Error {
    Error::new(ErrorClass::Missing, format!("group {group} is not registered in the database")).with_next_step(
        "add the Extract; if it had been added, capture was removed from the database: load the target anew",
    )
}

fn never_in_order(finding: &Finding) -> Error {
    let what = match finding {
        Finding::Install { reason, .. } | Finding::Renew { reason, .. } | Finding::Doubt { reason, .. } => {
            reason.clone()
        }
        Finding::Retire { name, .. } => format!("table main.{name} went away"),
    };
    Error::new(ErrorClass::Permanent, format!("could not put the capture triggers in order: {what}, again and again"))
        .with_next_step("let one version of Drover capture this database, and nobody else alter its triggers")
}
