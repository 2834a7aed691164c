//! Open transactions from a logical replication slot, as the server streams them.
//!
//! A server that decodes a large transaction does not keep it until its commit: it sends what it has, in blocks between the
//! transactions that commit meanwhile. A block's changes name the subtransaction that made them; what is rolled back is told
//! afterwards.
//!
//! # What keeps it honest
//! - The shape of a relation inside a block is that of its transaction: it counts for others from the commit on, and is
//!   forgotten with the abort. A shape that can't be captured stops the group when it commits, not before.
//! - The server does not know the origin of a transaction before it commits. What our own apply made is known by the message that
//!   it starts with.
//! - After a restart the server streams every open transaction again from its start.

use super::position::Place;
use super::shape::{Learned, Shape};
use super::{BATCH_BYTES, BATCH_EVENTS, IDLE_INTERVAL, MARK, NAP, REPORT_INTERVAL, Source, State, TABLES_INTERVAL};
use crate::definition;
use crate::name;
use crate::pgoutput::{Message, OldImage, Prepared, Relation, decode};
use crate::wire::{Config, Error as WireError, Lsn, ReplicationMessage};
use bytes::Bytes;
use change::{Change, Commit, Csn, LogPosition, Operation, RecordAddress, RowBuilder, Timestamp, TransactionId};
use database::{Error, ErrorClass, LogEvent, LogSource, OpenEvent, OpenLogSource, Replay, SourceRequest};
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// The stream of a group's slot, open transactions included.
pub(crate) struct StreamedSource {
    source: Source,
    open: HashMap<u32, Streamed>,
    /// The transaction whose block is being sent.
    inside: Option<Block>,
    /// Grows with every relation message, and says which of two is newer.
    learned: u64,
    /// The newest message of each relation that counts for everybody.
    counts: HashMap<u32, u64>,
    committed: Vec<LogEvent>,
}

/// A block of changes of one transaction.
#[derive(Clone, Copy)]
struct Block {
    top: u32,
    /// Whether each message names its transaction: a transaction that was not streamed and is prepared comes in a block
    /// that looks like a committed one.
    is_streamed: bool,
}

/// A transaction that the server has started to stream.
struct Streamed {
    transaction: TransactionId,
    /// Its relations, each with the number of its message.
    relations: HashMap<u32, (u64, Learned)>,
    /// Changes that can't be captured, by the subtransaction that made them.
    failures: Vec<(u32, Error)>,
    /// We applied it ourselves.
    is_left_out: bool,
}

impl Streamed {
    fn new(top: u32) -> Streamed {
        Streamed {
            transaction: TransactionId::new(top.to_string()),
            relations: HashMap::new(),
            failures: Vec::new(),
            is_left_out: false,
        }
    }
}

impl StreamedSource {
    /// Opens the slot as [`Source::open`] does.
    pub(crate) fn open(config: &Config, request: SourceRequest, prepared: bool) -> Result<StreamedSource, Error> {
        let mut source = Source::open(config, request)?;
        source.streams_open_transactions = true;
        if source.tells_prepared && !prepared {
            let text =
                "prepared transactions are told when they are prepared, as the slot was read before: this stays so";
            source.notices.push(text.to_owned());
        }
        source.tells_prepared |= prepared;
        Ok(StreamedSource {
            source,
            open: HashMap::new(),
            inside: None,
            learned: 0,
            counts: HashMap::new(),
            committed: Vec::new(),
        })
    }

    fn protocol(&self, what: &'static str) -> Error {
        self.source.failure(WireError::Protocol(what))
    }

    /// Takes one message of the output plugin.
    fn take(&mut self, start: Lsn, body: &Bytes, events: &mut Vec<OpenEvent>) -> Result<(), Error> {
        let Some(Block { top, is_streamed }) = self.inside else {
            return match body.first() {
                Some(b'S' | b'c' | b'A' | b'b' | b'p' | b'K' | b'r') => {
                    let message = self.decode(start, body, false)?;
                    self.control(start, message, events)
                }
                first => {
                    if first == Some(&b'R')
                        && let Message::Relation(relation) = self.decode(start, body, false)?
                    {
                        self.learned += 1;
                        self.counts.insert(relation.oid, self.learned);
                    }
                    self.source.take(start, body, &mut self.committed)
                }
            };
        };
        match self.decode(start, body, is_streamed)? {
            Message::StreamStop if is_streamed => {
                self.inside = None;
                Ok(())
            }
            Message::Prepare(prepared) if !is_streamed => {
                self.inside = None;
                self.prepare(prepared, events)
            }
            Message::Relation(relation) if is_streamed => self.relation(top, &relation),
            Message::Relation(relation) => {
                // The server tells it to nobody again: what it holds locks keep from everybody until the transaction ends.
                self.learned += 1;
                self.counts.insert(relation.oid, self.learned);
                let Source { shapes, catalog, request, notices, .. } = &mut self.source;
                notices.extend(shapes.learn(&relation, catalog, &*request.tables)?);
                Ok(())
            }
            Message::Type { .. } => Ok(()),
            Message::Origin { name: origin, .. } => {
                self.leave_out(top, origin.starts_with(name::PREFIX), start, events);
                Ok(())
            }
            Message::Logical { transaction, transactional: true, prefix, content, .. }
                if prefix == definition::PREFIX =>
            {
                let objects = self.source.definitions(content)?;
                if self.open.get(&top).is_some_and(|streamed| !streamed.is_left_out) {
                    let part = transaction.unwrap_or(top);
                    events.extend(objects.into_iter().map(Box::new).map(|object| OpenEvent::Object { part, object }));
                }
                Ok(())
            }
            Message::Logical { transactional, prefix, .. } => {
                self.leave_out(top, transactional && prefix == MARK, start, events);
                Ok(())
            }
            Message::Insert { transaction, relation, new } => {
                self.change((top, transaction), start, relation, events, |shape, builder| shape.insert(builder, &new))
            }
            Message::Update { transaction, relation, old, new } => {
                self.change((top, transaction), start, relation, events, |shape, builder| {
                    shape.update(builder, &old, &new)
                })
            }
            Message::Delete { transaction, relation, old } if old != OldImage::None => {
                self.change((top, transaction), start, relation, events, |shape, builder| shape.delete(builder, &old))
            }
            Message::Truncate { transaction, relations, options } => relations.into_iter().try_for_each(|relation| {
                let truncate = |_: &Shape, _: &mut RowBuilder| Ok(Operation::Truncate(options));
                self.change((top, transaction), start, relation, events, truncate)
            }),
            _ => Err(self.protocol("the output plugin sent into a block what does not belong there")),
        }
    }

    fn decode<'a>(&self, start: Lsn, body: &'a Bytes, is_inside: bool) -> Result<Message<'a>, Error> {
        decode(body, is_inside).map_err(|error| {
            let what = format!("can't decode changes from slot {} at {start}", self.source.slot);
            Error::new(ErrorClass::Permanent, what).with_cause(error)
        })
    }

    /// Takes what stands between blocks.
    fn control(&mut self, start: Lsn, message: Message<'_>, events: &mut Vec<OpenEvent>) -> Result<(), Error> {
        match message {
            Message::StreamStart { transaction, is_first } => self.start(start, transaction, is_first, events),
            Message::StreamCommit { transaction, commit, end, time } => {
                self.commit(transaction, (commit, end), time, events)
            }
            Message::BeginPrepare(prepared) => {
                self.begin(start, Block { top: prepared.transaction, is_streamed: false }, events);
                Ok(())
            }
            Message::StreamPrepare(prepared) => self.prepare(prepared, events),
            Message::CommitPrepared(prepared) => {
                let Prepared { transaction, lsn, end, time, .. } = prepared;
                let streamed = self.open.entry(transaction).or_insert_with(|| Streamed::new(transaction));
                if !streamed.is_left_out && self.source.expected.is_none() {
                    // Names it to who keeps it: one that is not kept is missing.
                    let (transaction, position) = (streamed.transaction.clone(), self.source.place(lsn));
                    events.push(OpenEvent::Chunk { transaction, position });
                }
                self.commit(transaction, (lsn, end), time, events)
            }
            Message::RollbackPrepared(prepared) => {
                self.open.remove(&prepared.transaction);
                self.source.idle = self.source.idle.max(prepared.end);
                let transaction = TransactionId::new(prepared.transaction.to_string());
                events.push(OpenEvent::Abort { transaction, position: self.source.place(prepared.end) });
                Ok(())
            }
            Message::StreamAbort { transaction, subtransaction } => {
                self.abort(start, transaction, subtransaction, events);
                Ok(())
            }
            _ => Err(self.protocol("the output plugin sent what was not asked for")),
        }
    }

    fn start(&mut self, start: Lsn, top: u32, is_first: bool, events: &mut Vec<OpenEvent>) -> Result<(), Error> {
        let block = Block { top, is_streamed: true };
        if is_first {
            self.begin(start, block, events);
            return Ok(());
        }
        let position = self.source.place(start);
        self.inside = Some(block);
        match self.open.get(&top) {
            Some(streamed) if streamed.is_left_out => {}
            Some(streamed) => {
                let transaction = streamed.transaction.clone();
                events.push(OpenEvent::Chunk { transaction, position });
            }
            None => return Err(self.protocol("the output plugin goes on with a transaction that it has not started")),
        }
        Ok(())
    }

    /// A transaction begins, with its first block.
    fn begin(&mut self, start: Lsn, block: Block, events: &mut Vec<OpenEvent>) {
        self.inside = Some(block);
        let streamed = Streamed::new(block.top);
        let (transaction, position) = (streamed.transaction.clone(), self.source.place(start));
        self.open.insert(block.top, streamed);
        events.push(OpenEvent::Start { transaction, position, time: None });
    }

    /// A transaction is prepared: nothing of it is told again.
    fn prepare(&mut self, prepared: Prepared<'_>, events: &mut Vec<OpenEvent>) -> Result<(), Error> {
        let Some(streamed) = self.open.get_mut(&prepared.transaction) else {
            return Err(self.protocol("the output plugin prepares a transaction that it has not started"));
        };
        // At its end, maybe after a restart, nobody would know.
        if let Some((_, failure)) = std::mem::take(&mut streamed.failures).into_iter().next() {
            return Err(failure);
        }
        let (transaction, position) = (streamed.transaction.clone(), self.source.place(prepared.lsn));
        if streamed.is_left_out {
            // That it was prepared is remembered: at its end, after a restart, it is one of which nothing need be told.
            let (transaction, position) = (transaction.clone(), position.clone());
            events.push(OpenEvent::Start { transaction, position, time: None });
        }
        events.push(OpenEvent::Prepare { transaction, name: prepared.name.to_owned(), position });
        self.source.idle = self.source.idle.max(prepared.end);
        if self.source.expected.is_none() && prepared.end > self.source.told {
            self.source.told = prepared.end;
            events.push(OpenEvent::Reached { next: self.source.place(prepared.end) });
        }
        Ok(())
    }

    fn relation(&mut self, top: u32, relation: &Relation<'_>) -> Result<(), Error> {
        self.learned += 1;
        let Source { shapes, catalog, request, .. } = &mut self.source;
        let learned = shapes.learn_apart(relation, catalog, &*request.tables)?;
        if let Some(streamed) = self.open.get_mut(&top) {
            streamed.relations.insert(relation.oid, (self.learned, learned));
        }
        Ok(())
    }

    fn leave_out(&mut self, top: u32, is_ours: bool, start: Lsn, events: &mut Vec<OpenEvent>) {
        if let Some(streamed) = self
            .open
            .get_mut(&top)
            .filter(|streamed| is_ours && !streamed.is_left_out && !change::sabotage::is_on("capture-what-was-applied"))
        {
            streamed.is_left_out = true;
            let transaction = streamed.transaction.clone();
            events.push(OpenEvent::Abort { transaction, position: self.source.place(start) });
        }
    }

    fn change(
        &mut self,
        (top, part): (u32, Option<u32>),
        start: Lsn,
        relation: u32,
        events: &mut Vec<OpenEvent>,
        operation: impl FnOnce(&Shape, &mut RowBuilder) -> Result<Operation, WireError>,
    ) -> Result<(), Error> {
        let Some(streamed) = self.open.get_mut(&top) else {
            return Err(self.protocol("a change stands outside of a transaction"));
        };
        if streamed.is_left_out {
            return Ok(());
        }
        let part = part.unwrap_or(top);
        let shape = match streamed.relations.get(&relation) {
            Some((_, learned)) => match &learned.shape {
                Ok(shape) => Ok(shape.as_ref()),
                Err(refused) => {
                    // Told when it commits: it may yet be rolled back.
                    if !streamed.failures.iter().any(|(other, _)| *other == part) {
                        let step = refused.next_step().unwrap_or_default().to_owned();
                        let failure = Error::new(refused.class(), refused.to_string()).with_next_step(step);
                        streamed.failures.push((part, failure));
                    }
                    return Ok(());
                }
            },
            None => self.source.shapes.get(relation),
        };
        let change = match shape {
            Ok(None) => return Ok(()),
            Ok(Some(shape)) => operation(shape, &mut self.source.builder).map(|operation| Change {
                table: shape.definition.clone(),
                operation,
                address: RecordAddress { position: start.0, offset: 0 },
            }),
            Err(error) => Err(error),
        };
        match change {
            Ok(change) => events.push(OpenEvent::Change { part, change }),
            Err(error) => return Err(self.source.failure(error)),
        }
        Ok(())
    }

    fn abort(&mut self, start: Lsn, top: u32, part: u32, events: &mut Vec<OpenEvent>) {
        let position = self.source.place(start);
        let is_whole = top == part;
        let Some(streamed) = self.open.get_mut(&top) else { return };
        if is_whole {
            if !streamed.is_left_out {
                events.push(OpenEvent::Abort { transaction: streamed.transaction.clone(), position });
            }
            self.open.remove(&top);
        } else if !streamed.is_left_out {
            streamed.failures.retain(|(other, _)| *other != part);
            events.push(OpenEvent::AbortPart { transaction: streamed.transaction.clone(), part, position });
        }
    }

    fn commit(
        &mut self,
        top: u32,
        (commit, end): (Lsn, Lsn),
        time: Timestamp,
        events: &mut Vec<OpenEvent>,
    ) -> Result<(), Error> {
        let Some(streamed) = self.open.remove(&top) else {
            return Err(self.protocol("the output plugin commits a transaction that it has not started"));
        };
        let event = Commit { csn: Csn::new(commit.to_string()), transaction: streamed.transaction.clone(), time };
        let is_in_trail = match self.source.expected.take() {
            None => false,
            Some(expected) if expected == event => true,
            Some(expected) => return Err(self.source.unlike(&expected)),
        };
        for (relation, (number, learned)) in streamed.relations {
            // What another transaction was told of later counts.
            if self.counts.get(&relation).is_none_or(|other| *other < number) {
                self.counts.insert(relation, number);
                self.source.notices.extend(self.source.shapes.adopt(relation, learned));
            }
        }
        self.source.idle = self.source.idle.max(end);
        if is_in_trail {
            if !streamed.is_left_out {
                let position = self.source.place(commit);
                events.push(OpenEvent::Abort { transaction: streamed.transaction, position });
            }
            return Ok(());
        }
        if streamed.is_left_out {
            // One that was prepared is kept, with nothing in it.
            let position = self.source.place(end);
            events.push(OpenEvent::Abort { transaction: streamed.transaction, position });
            return Ok(());
        }
        if let Some((_, failure)) = streamed.failures.into_iter().next() {
            return Err(failure);
        }
        // Whether a statement stands in it is not remembered.
        self.source.sequences.tell_anew();
        let sequences = self.source.moved_sequences(commit)?;
        if !sequences.is_empty() {
            let (transaction, position) = (streamed.transaction.clone(), self.source.place(commit));
            events.push(OpenEvent::Chunk { transaction, position });
            events.extend(sequences.into_iter().map(Box::new).map(|object| OpenEvent::Object { part: top, object }));
        }
        self.source.told = self.source.told.max(end);
        let (position, next) = (self.source.place(commit), self.source.place(self.source.told));
        events.push(OpenEvent::Commit { commit: event, position, next });
        Ok(())
    }

    fn read_batch(&mut self, events: &mut Vec<OpenEvent>, wait: Duration) -> Result<(), Error> {
        let mut bytes = 0;
        let until = Instant::now() + wait;
        if std::mem::take(&mut self.source.is_busy) {
            std::thread::sleep(NAP.min(wait));
        }
        loop {
            let left = if events.is_empty() { until.saturating_duration_since(Instant::now()) } else { Duration::ZERO };
            let message = self.source.stream()?.receive(left).map_err(|error| self.source.failure(error))?;
            self.source.is_busy |= message.is_some();
            match message {
                Some(ReplicationMessage::Data { start, body }) => {
                    bytes += body.len();
                    self.source.received = self.source.received.max(start);
                    self.take(start, &body, events)?;
                }
                Some(ReplicationMessage::KeepAlive { reply, .. }) if self.inside.is_some() => {
                    // In the middle of a block the log has not been read as far as the server says.
                    if reply {
                        self.source.report(false)?;
                    }
                }
                Some(ReplicationMessage::KeepAlive { end, reply }) => {
                    self.source.keep_alive(end, reply, &mut self.committed)?;
                }
                None => break,
            }
            events.extend(self.committed.drain(..).map(OpenEvent::Committed));
            if events.len() >= BATCH_EVENTS || bytes >= BATCH_BYTES {
                break;
            }
        }
        Ok(())
    }
}

impl OpenLogSource for StreamedSource {
    fn replay(&self) -> Replay {
        Replay::WholeTransactions
    }

    fn tells_prepared_once(&self) -> bool {
        self.source.tells_prepared
    }

    fn place_between(&self, written: Option<&Csn>) -> Option<Csn> {
        if self.source.expected.is_some() || !matches!(self.source.state, State::Streaming(_)) {
            return None;
        }
        // The record of a commit is longer than this: nothing that was told starts behind it, and nothing that will be before
        // the end.
        const SHORTER_THAN_A_COMMIT: u64 = 16;
        let end = self.source.idle.0;
        let least = written.and_then(|csn| Lsn::parse(csn.as_str())).map_or(0, |written| written.0 + 1);
        let place = least.max(end.saturating_sub(SHORTER_THAN_A_COMMIT));
        (place < end).then(|| Csn::new(Lsn(place).to_string()))
    }

    fn knows(&self, position: &LogPosition) -> bool {
        Place::parse(position).is_some_and(|place| place.history == self.source.history)
    }

    fn read(&mut self, events: &mut Vec<OpenEvent>, wait: Duration) -> Result<(), Error> {
        if self.source.tables_at.elapsed() >= TABLES_INTERVAL {
            self.source.tables_at = Instant::now();
            self.source.look_for_tables()?;
        }
        let result = self.read_batch(events, wait);
        if result.is_err() {
            self.source.state = State::Broken;
        }
        result?;
        if self.inside.is_none() && self.source.idle_at.elapsed() >= IDLE_INTERVAL {
            self.source.tell_idle(&mut self.committed);
        }
        if self.source.reported_at.elapsed() >= REPORT_INTERVAL {
            self.source.report(false)?;
        }
        self.committed.extend(self.source.notices.drain(..).map(LogEvent::Notice));
        events.extend(self.committed.drain(..).map(OpenEvent::Committed));
        Ok(())
    }

    fn resume_after(&mut self, commit: &Commit) -> Result<bool, Error> {
        self.source.resume_after(commit)
    }

    fn verify_written(&mut self, commit: &Commit) -> Result<(), Error> {
        self.source.verify_written(commit)
    }

    fn release(&mut self, position: &LogPosition) -> Result<(), Error> {
        self.source.release(position)
    }
}
