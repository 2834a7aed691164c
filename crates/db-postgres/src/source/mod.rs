//! Committed changes from a logical replication slot.
//!
//! # How it works
//! [`register`] makes a publication and, after it, a slot. [`Source`] streams from the slot with pgoutput: the server sends
//! each transaction when it commits, in commit order, and rows become slices of the receive buffer. What is durable in
//! our trail is reported back, and only that.
//!
//! # What keeps it honest
//! The server starts silently at what was confirmed when it is asked to start earlier. So a start is refused when the
//! slot is past our position, and also when cluster, timeline or registration are not those that the position names.
//!
//! A server that was put back to a copy of its files bears all those names. But its slot is put back with it, and what
//! follows the slot's place the server tells again. So reading starts with the transaction that the trail ends with, which
//! must come first; when the slot is past it already, the server knew it, and reading starts at the slot's place. What comes
//! before our position then has come in another life of the server, and is told. Nothing is confirmed before it was read.

mod choice;
mod joining;
mod kept;
mod position;
mod publication;
mod register;
mod sequences;
mod shape;
mod start;
mod statements;
mod streamed;

pub(crate) use kept::{begin, log_file_bytes, log_kept};
pub(crate) use register::{is_registered, register, unregister};
pub(crate) use streamed::StreamedSource;

use crate::definition;
use crate::name;
use crate::pgoutput::{Message, OldImage, decode};
use crate::wire::{Config, Connection, Error as WireError, Lsn, ReplicationMessage, ReplicationStream};
use bytes::Bytes;
use change::{Change, Commit, Csn, LogPosition, ObjectChange, Operation, RecordAddress, RowBuilder, TransactionId};
use database::{Error, ErrorClass, LogEvent, LogSource, SourceRequest};
use position::{History, Place};
use publication::Publication;
use sequences::Sequences;
use shape::Shapes;
use std::time::{Duration, Instant};

/// Prefix of the logical message that marks a transaction as ours where origins are not allowed.
pub(crate) const MARK: &str = "drover.origin";

/// Events that one read returns at most, about.
const BATCH_EVENTS: usize = 2000;
/// Bytes of messages that one read takes in at most, about: rows keep the receive buffer alive.
const BATCH_BYTES: usize = 1 << 20;
/// A server that sends one message after another is let alone for so long before we look again: it would else wake us for
/// each of them, which costs it more than the message.
const NAP: Duration = Duration::from_micros(200);
/// Time between two reports to the server. It gives a silent client up after a minute.
const REPORT_INTERVAL: Duration = Duration::from_secs(10);
/// Time between two idle positions: each may cost the reader a write to disk.
const IDLE_INTERVAL: Duration = Duration::from_secs(1);
/// Time between two looks for tables that are new.
const TABLES_INTERVAL: Duration = Duration::from_secs(30);

/// The stream of a group's slot.
pub(crate) struct Source {
    slot: String,
    config: Config,
    request: SourceRequest,
    history: History,
    /// For questions to the catalog while the stream runs.
    catalog: Connection,
    publication: Publication,
    state: State,
    shapes: Shapes,
    builder: RowBuilder,
    open: Option<Open>,
    sequences: Sequences,
    /// Marks the messages of our event triggers.
    token: String,
    /// The transaction that must come first, because the trail ends with it.
    expected: Option<Commit>,
    /// Whether the server sends large transactions before they commit.
    streams_open_transactions: bool,
    /// Whether the server sends prepared transactions when they are prepared.
    tells_prepared: bool,
    notices: Vec<String>,
    /// Whether the last read found something.
    is_busy: bool,
    /// Where reading goes on after a restart, as far as it was told.
    told: Lsn,
    /// How far the log was read.
    idle: Lsn,
    /// How far we have been told to release it.
    released: Lsn,
    received: Lsn,
    reported_at: Instant,
    idle_at: Instant,
    tables_at: Instant,
    /// What the catalog was like at the last look for tables.
    tables_mark: String,
}

enum State {
    /// Connected; [`LogSource::resume_after`] may still move the start.
    Ready {
        replication: Connection,
        start: Lsn,
        /// What the slot is confirmed up to. What committed before is not told again.
        confirmed: Lsn,
    },
    Streaming(ReplicationStream),
    /// After an error.
    Broken,
}

/// The transaction whose changes come now.
struct Open {
    commit: Lsn,
    event: Commit,
    is_told: bool,
    /// We applied it ourselves, or the trail holds it.
    is_left_out: bool,
}

impl Source {
    fn stream(&mut self) -> Result<&mut ReplicationStream, Error> {
        if let State::Ready { .. } = self.state {
            let State::Ready { replication, start, .. } = std::mem::replace(&mut self.state, State::Broken) else {
                unreachable!("it was ready");
            };
            let command = format!(
                "START_REPLICATION SLOT {} LOGICAL {start} ({}, publication_names '{}', messages 'true')",
                name::quote(&self.slot),
                match (self.streams_open_transactions, self.tells_prepared) {
                    (true, true) => "proto_version '3', streaming 'on', two_phase 'on'",
                    (true, false) => "proto_version '2', streaming 'on'",
                    (false, _) => "proto_version '1'",
                },
                // The name is of lower-case letters, digits and underscores.
                self.publication.name,
            );
            let stream = replication.start_replication(&command).map_err(|error| self.failure(error))?;
            self.state = State::Streaming(stream);
        }
        match &mut self.state {
            State::Streaming(stream) => Ok(stream),
            State::Ready { .. } | State::Broken => Err(Error::new(
                ErrorClass::ConnectionLost,
                format!("the stream of slot {} has failed before", self.slot),
            )),
        }
    }

    fn failure(&self, error: WireError) -> Error {
        let what = format!("can't read changes from slot {} of {}", self.slot, self.config);
        match error.code() {
            // The server has thrown away what we still need, or can't decode it.
            Some("55000" | "58P01") => Error::new(ErrorClass::Mismatch, what)
                .with_next_step("find out why the slot lost its log, then copy the tables anew with a new registration")
                .with_cause(error),
            _ => error.during(what),
        }
    }

    fn place(&self, lsn: Lsn) -> LogPosition {
        Place { lsn, history: self.history }.position()
    }

    fn report(&mut self, reply: bool) -> Result<(), Error> {
        self.reported_at = Instant::now();
        // A start verifies what lies before its position. Until that is read, it must be told again.
        let (received, released) = (self.received, self.released.min(self.idle));
        let State::Streaming(stream) = &mut self.state else { return Ok(()) };
        stream.report(received, released, reply).map_err(|error| self.failure(error))
    }

    /// Takes one message of the output plugin.
    fn take(&mut self, start: Lsn, body: &Bytes, events: &mut Vec<LogEvent>) -> Result<(), Error> {
        let message = decode(body, false).map_err(|error| {
            Error::new(ErrorClass::Permanent, format!("can't decode changes from slot {} at {start}", self.slot))
                .with_cause(error)
        })?;
        match message {
            Message::Begin { commit, time, transaction } => self.begin(commit, time, transaction),
            Message::Commit { end, .. } => self.commit(end, events),
            Message::Origin { name: origin, .. } => {
                self.leave_out(origin.starts_with(name::PREFIX));
                Ok(())
            }
            Message::Logical { transactional: true, prefix, content, .. } if prefix == definition::PREFIX => {
                self.sequences.tell_anew();
                for object in self.definitions(content)? {
                    self.tell(LogEvent::Object(Box::new(object)), events)?;
                }
                Ok(())
            }
            Message::Logical { transactional, prefix, .. } => {
                self.leave_out(transactional && prefix == MARK);
                Ok(())
            }
            Message::Relation(relation) => {
                let notice = self.shapes.learn(&relation, &mut self.catalog, &*self.request.tables)?;
                self.notices.extend(notice);
                Ok(())
            }
            Message::Type { .. } => Ok(()),
            Message::Insert { relation, new, .. } => {
                self.change(start, relation, events, |shape, builder| shape.insert(builder, &new))
            }
            Message::Update { relation, old, new, .. } => {
                self.change(start, relation, events, |shape, builder| shape.update(builder, &old, &new))
            }
            Message::Delete { relation, old, .. } if old != OldImage::None => {
                self.change(start, relation, events, |shape, builder| shape.delete(builder, &old))
            }
            Message::Truncate { relations, options, .. } => relations
                .into_iter()
                .try_for_each(|relation| self.change(start, relation, events, |_, _| Ok(Operation::Truncate(options)))),
            _ => Err(self.failure(WireError::Protocol("the output plugin sent what was not asked for"))),
        }
    }

    /// What a message of our event triggers tells.
    fn definitions(&mut self, content: &[u8]) -> Result<Vec<ObjectChange>, Error> {
        if !self.request.tables.tells_definitions() {
            return Ok(Vec::new());
        }
        let Some(read) = definition::read(content, &self.publication.name, &self.token) else {
            let what = "a message that looks like one of our event triggers, and is not, was passed over";
            self.notices.push(what.to_owned());
            return Ok(Vec::new());
        };
        Ok(read.into_iter().map(ObjectChange::Definition).collect())
    }

    /// Where sequences stand, for a transaction that committed at `commit`.
    fn moved_sequences(&mut self, commit: Lsn) -> Result<Vec<ObjectChange>, Error> {
        let moved = self.sequences.moved(&mut self.catalog, &*self.request.tables, commit);
        let moved = moved.map_err(|error| error.during("can't read where sequences stand"))?;
        Ok(moved.into_iter().map(ObjectChange::Sequence).collect())
    }

    /// Adds an event of the open transaction, unless that is left out.
    fn tell(&mut self, event: LogEvent, events: &mut Vec<LogEvent>) -> Result<(), Error> {
        let Some(open) = &mut self.open else {
            return Err(self.failure(WireError::Protocol("a change stands outside of a transaction")));
        };
        if !open.is_left_out {
            if !std::mem::replace(&mut open.is_told, true) {
                events.push(LogEvent::Begin(open.event.clone()));
            }
            events.push(event);
        }
        Ok(())
    }

    fn begin(&mut self, commit: Lsn, time: change::Timestamp, transaction: u32) -> Result<(), Error> {
        let event = Commit {
            csn: Csn::new(commit.to_string()),
            transaction: TransactionId::new(transaction.to_string()),
            time,
        };
        let is_left_out = match self.expected.take() {
            None => false,
            // The same place and number may come again in another life of the server, but not at the same time.
            Some(expected) if expected == event => true,
            Some(expected) => return Err(self.unlike(&expected)),
        };
        self.open = Some(Open { commit, event, is_told: false, is_left_out });
        Ok(())
    }

    /// The error for a server that does not hold the transaction that our trail ends with.
    fn unlike(&self, expected: &Commit) -> Error {
        let what = format!(
            "the log of {} does not hold transaction {} that committed at {}, with which our trail ends",
            self.config, expected.transaction, expected.csn
        );
        Error::new(ErrorClass::Mismatch, what).with_next_step(
            "the database was restored to an earlier state or replaced: compare source and target, then register anew",
        )
    }

    fn leave_out(&mut self, is_ours: bool) {
        if is_ours
            && !change::sabotage::is_on("capture-what-was-applied")
            && let Some(open) = &mut self.open
        {
            open.is_left_out = true;
        }
    }

    fn change(
        &mut self,
        start: Lsn,
        relation: u32,
        events: &mut Vec<LogEvent>,
        operation: impl FnOnce(&shape::Shape, &mut RowBuilder) -> Result<Operation, WireError>,
    ) -> Result<(), Error> {
        let Some(open) = &mut self.open else {
            return Err(self.failure(WireError::Protocol("a change stands outside of a transaction")));
        };
        if open.is_left_out {
            return Ok(());
        }
        let change = match self.shapes.get(relation) {
            Ok(None) => return Ok(()),
            Ok(Some(shape)) => operation(shape, &mut self.builder).map(|operation| Change {
                table: shape.definition.clone(),
                operation,
                address: RecordAddress { position: start.0, offset: 0 },
            }),
            Err(error) => Err(error),
        };
        match change {
            Ok(change) => {
                if !open.is_told {
                    open.is_told = true;
                    events.push(LogEvent::Begin(open.event.clone()));
                }
                events.push(LogEvent::Change(change));
                Ok(())
            }
            Err(error) => Err(self.failure(error)),
        }
    }

    fn commit(&mut self, end: Lsn, events: &mut Vec<LogEvent>) -> Result<(), Error> {
        let Some(open) = self.open.take() else {
            return Err(self.failure(WireError::Protocol("a commit stands outside of a transaction")));
        };
        debug_assert!(open.commit < end, "a commit record has a length");
        self.idle = self.idle.max(end);
        if open.is_told {
            events.extend(self.moved_sequences(open.commit)?.into_iter().map(Box::new).map(LogEvent::Object));
            self.told = self.told.max(end);
            events.push(LogEvent::Commit { next: self.place(self.told) });
        }
        Ok(())
    }

    fn keep_alive(&mut self, end: Lsn, reply: bool, events: &mut Vec<LogEvent>) -> Result<(), Error> {
        self.received = self.received.max(end);
        if self.open.is_none() {
            if let Some(expected) = &self.expected
                && Lsn::parse(expected.csn.as_str()).is_some_and(|commit| commit < end)
            {
                return Err(self.unlike(&expected.clone()));
            }
            self.idle = self.idle.max(end);
        }
        if reply {
            // A server that shuts down waits until we have confirmed everything: let the reader hear of it at once.
            self.tell_idle(events);
            self.report(false)?;
        }
        Ok(())
    }

    fn tell_idle(&mut self, events: &mut Vec<LogEvent>) {
        if self.open.is_none() && self.expected.is_none() && self.idle > self.told {
            self.idle_at = Instant::now();
            self.told = self.idle;
            events.push(LogEvent::Idle { next: self.place(self.told) });
        }
    }

    fn read_batch(&mut self, events: &mut Vec<LogEvent>, wait: Duration) -> Result<(), Error> {
        let mut bytes = 0;
        let until = Instant::now() + wait;
        if std::mem::take(&mut self.is_busy) {
            std::thread::sleep(NAP.min(wait));
        }
        loop {
            // Once something has come, what else is there is taken, and more is not waited for.
            let left = if events.is_empty() { until.saturating_duration_since(Instant::now()) } else { Duration::ZERO };
            let message = self.stream()?.receive(left).map_err(|error| self.failure(error))?;
            self.is_busy |= message.is_some();
            match message {
                Some(ReplicationMessage::Data { start, body }) => {
                    bytes += body.len();
                    self.received = self.received.max(start);
                    self.take(start, &body, events)?;
                }
                Some(ReplicationMessage::KeepAlive { end, reply }) => self.keep_alive(end, reply, events)?,
                None => break,
            }
            if events.len() >= BATCH_EVENTS || bytes >= BATCH_BYTES {
                break;
            }
        }
        Ok(())
    }
}

impl LogSource for Source {
    fn read(&mut self, events: &mut Vec<LogEvent>, wait: Duration) -> Result<(), Error> {
        if self.tables_at.elapsed() >= TABLES_INTERVAL {
            self.tables_at = Instant::now();
            self.look_for_tables()?;
        }
        let result = self.read_batch(events, wait);
        if result.is_err() {
            self.state = State::Broken;
        }
        result?;
        if self.idle_at.elapsed() >= IDLE_INTERVAL {
            self.tell_idle(events);
        }
        if self.reported_at.elapsed() >= REPORT_INTERVAL {
            self.report(false)?;
        }
        events.extend(self.notices.drain(..).map(LogEvent::Notice));
        Ok(())
    }

    fn resume_after(&mut self, commit: &Commit) -> Result<bool, Error> {
        let lsn = Lsn::parse(commit.csn.as_str()).ok_or_else(|| self.unlike(commit))?;
        let State::Ready { start, .. } = &mut self.state else {
            return Err(Error::new(ErrorClass::Permanent, "a source that reads already can't be told where to go on"));
        };
        // A position behind that commit was told as idle: the log between them holds nothing of ours.
        if lsn >= *start {
            *start = lsn;
            self.expected = expected_of(commit);
        }
        Ok(true)
    }

    fn verify_written(&mut self, commit: &Commit) -> Result<(), Error> {
        let lsn = Lsn::parse(commit.csn.as_str()).ok_or_else(|| self.unlike(commit))?;
        if let State::Ready { start, confirmed, .. } = &mut self.state
            && !change::sabotage::is_on("believe-restored-log")
        {
            *start = lsn.max(*confirmed).min(*start);
            self.idle = *start;
            self.expected = (lsn == *start).then(|| expected_of(commit)).flatten();
        }
        Ok(())
    }

    fn release(&mut self, position: &LogPosition) -> Result<(), Error> {
        let place = Place::parse(position).filter(|place| place.history == self.history).ok_or_else(|| {
            Error::new(ErrorClass::Mismatch, format!("position {position} does not belong to slot {}", self.slot))
        })?;
        if place.lsn > self.released {
            self.released = place.lsn;
            self.received = self.received.max(place.lsn);
            self.report(false)?;
        }
        Ok(())
    }
}

/// The transaction by which the server shows that it holds `commit`. What an operator has forced is in no log.
fn expected_of(commit: &Commit) -> Option<Commit> {
    commit.transaction.forced_of().is_none().then(|| commit.clone())
}

/// Leaves the slot free for the next one, with everything reported.
impl Drop for Source {
    fn drop(&mut self) {
        // The process goes on either way; a slot that stays busy for a moment is waited for by the next start.
        let _ = self.report(false);
    }
}
