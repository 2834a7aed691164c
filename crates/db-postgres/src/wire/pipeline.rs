//! Many statements with one Sync.
//!
//! The server runs Parse, Bind and Execute messages as they come and answers in order; after an error it skips
//! everything up to the Sync. So the number of answers says which statement failed.

use super::connection::affected;
use super::{Connection, Error};
use bytes::{BufMut, BytesMut};
use postgres_protocol::message::frontend;
use std::collections::HashMap;
use std::sync::Arc;

/// Encoded bytes that are handed to the socket at once.
const SEND_BYTES: usize = 64 * 1024;
/// Prepared statements that a session keeps: shapes of writes are few, but column sets of wide tables may be many.
const STATEMENTS_MAX: usize = 500;

/// The text of a statement that is run often.
#[derive(Clone, Debug)]
pub struct Statement {
    sql: Arc<str>,
    types: Arc<[u32]>,
}

impl Statement {
    /// A statement whose parameters have the types with these OIDs; 0 or none lets the server decide.
    pub fn new(sql: impl Into<Arc<str>>, types: impl Into<Arc<[u32]>>) -> Statement {
        Statement { sql: sql.into(), types: types.into() }
    }

    /// The text.
    pub fn sql(&self) -> &str {
        &self.sql
    }
}

/// A value for a statement's parameter.
#[derive(Clone, Copy, Debug)]
pub enum Parameter<'a> {
    /// NULL.
    Null,
    /// In the type's text form.
    Text(&'a [u8]),
    /// In the type's binary form.
    Binary(&'a [u8]),
}

/// Which statements the session has prepared, with the time of their last use.
#[derive(Default)]
pub(super) struct Statements {
    prepared: HashMap<Arc<str>, Prepared>,
    names: u64,
    clock: u64,
}

struct Prepared {
    name: String,
    used: u64,
}

impl Statements {
    /// Forgets a statement whose Parse the server did not confirm.
    fn forget(&mut self, sql: &str) {
        self.prepared.remove(sql);
    }

    fn name(&mut self, sql: &str) -> Option<&str> {
        self.clock += 1;
        let prepared = self.prepared.get_mut(sql)?;
        prepared.used = self.clock;
        Some(&prepared.name)
    }

    /// Gives a new statement a name; also the name of one to close, when there are too many.
    fn add(&mut self, sql: &Arc<str>) -> (String, Option<String>) {
        let mut closed = None;
        if self.prepared.len() >= STATEMENTS_MAX {
            let oldest = self.prepared.iter().min_by_key(|(_, prepared)| prepared.used).map(|(sql, _)| Arc::clone(sql));
            closed = oldest.and_then(|oldest| self.prepared.remove(&oldest)).map(|prepared| prepared.name);
        }
        self.names += 1;
        self.clock += 1;
        let name = format!("d{}", self.names);
        self.prepared.insert(Arc::clone(sql), Prepared { name: name.clone(), used: self.clock });
        (name, closed)
    }
}

/// Why a pipeline did not run to its end.
#[derive(Debug)]
pub struct Failed {
    /// Rows of each statement that had succeeded; so their number is the index of the one that failed.
    pub counts: Vec<u64>,
    /// What went wrong.
    pub error: Error,
}

/// Statements that are sent together.
///
/// Dropping it without [`run`](Pipeline::run) forgets what was not sent and gives the connection up otherwise.
pub struct Pipeline<'c> {
    connection: &'c mut Connection,
    parsed: Vec<Arc<str>>,
    executed: usize,
    sent: bool,
    failure: Option<Error>,
    done: bool,
}

impl Connection {
    /// Starts a pipeline.
    pub fn pipeline(&mut self) -> Pipeline<'_> {
        let failure = self.check().err();
        Pipeline { connection: self, parsed: Vec::new(), executed: 0, sent: false, failure, done: false }
    }
}

impl Pipeline<'_> {
    /// Number of statements so far.
    pub fn len(&self) -> usize {
        self.executed
    }

    /// Whether there is no statement yet.
    pub fn is_empty(&self) -> bool {
        self.executed == 0
    }

    /// Adds an execution of `statement`. Errors show in [`run`](Pipeline::run).
    pub fn execute<'a>(&mut self, statement: &Statement, parameters: impl IntoIterator<Item = Parameter<'a>>) {
        if self.failure.is_some() {
            return;
        }
        if let Err(error) = self.encode(statement, parameters) {
            self.failure = Some(error);
        }
        self.executed += 1;
    }

    fn encode<'a>(
        &mut self,
        statement: &Statement,
        parameters: impl IntoIterator<Item = Parameter<'a>>,
    ) -> Result<(), Error> {
        let bad = |_| Error::Protocol("a statement can't be encoded");
        let out = &mut self.connection.outgoing;
        let statements = &mut self.connection.statements;
        let name = match statements.name(&statement.sql) {
            Some(name) => name,
            None => {
                let (name, closed) = statements.add(&statement.sql);
                if let Some(closed) = closed {
                    frontend::close(b'S', &closed, out).map_err(bad)?;
                }
                frontend::parse(&name, &statement.sql, statement.types.iter().copied(), out).map_err(bad)?;
                self.parsed.push(Arc::clone(&statement.sql));
                statements.name(&statement.sql).ok_or(Error::Protocol("a statement was not kept"))?
            }
        };
        bind(name, parameters, out)?;
        frontend::execute("", 0, out).map_err(bad)?;
        if out.len() >= SEND_BYTES {
            self.sent = true;
            self.connection.flush()?;
        }
        Ok(())
    }

    /// Ends the pipeline with a Sync and returns, per statement, the number of rows that its command tag names.
    ///
    /// Outside a transaction block the statements are one transaction.
    ///
    /// # Errors
    /// [`Failed`] with the index of the statement that failed; none after it ran.
    pub fn run(mut self) -> Result<Vec<u64>, Failed> {
        self.done = true;
        if self.executed == 0 && self.failure.is_none() {
            return Ok(Vec::new());
        }
        let mut counts = Vec::with_capacity(self.executed);
        let outcome = self.finish(&mut counts);
        match outcome {
            Ok(()) => Ok(counts),
            Err(error) => Err(Failed { counts, error }),
        }
    }

    fn finish(&mut self, counts: &mut Vec<u64>) -> Result<(), Error> {
        if let Some(error) = self.failure.take() {
            // What was encoded may be cut in the middle of a message.
            self.abandon();
            return Err(error);
        }
        frontend::sync(&mut self.connection.outgoing);
        self.connection.flush()?;
        let mut parsed = 0;
        let mut failure = None;
        loop {
            let frame = self.connection.next_frame()?;
            match frame.tag {
                b'1' => parsed += 1,
                b'2' | b'3' | b'D' => {}
                b'C' => counts.push(affected(&frame)),
                b'I' => counts.push(0),
                b'E' => failure = Some(self.connection.failure(&frame)),
                b'Z' => break,
                _ => return Err(self.connection.confused()),
            }
        }
        for sql in self.parsed.iter().skip(parsed) {
            self.connection.statements.forget(sql);
        }
        match failure {
            Some(error) => Err(error),
            None if counts.len() == self.executed => self.connection.check_settings(),
            None => Err(self.connection.confused()),
        }
    }

    fn abandon(&mut self) {
        self.connection.outgoing.clear();
        for sql in self.parsed.drain(..) {
            self.connection.statements.forget(&sql);
        }
        if self.sent {
            self.connection.give_up();
        }
    }
}

impl Drop for Pipeline<'_> {
    fn drop(&mut self) {
        if !self.done {
            self.abandon();
        }
    }
}

/// Encodes a Bind of the unnamed portal; results are asked for as text.
pub(super) fn bind<'a>(
    statement: &str,
    parameters: impl IntoIterator<Item = Parameter<'a>>,
    out: &mut BytesMut,
) -> Result<(), Error> {
    let start = out.len();
    out.put_u8(b'B');
    out.put_u32(0);
    out.put_u8(0);
    out.put_slice(statement.as_bytes());
    out.put_u8(0);
    // The formats stand before the values, so the values are encoded aside until their number is known.
    let parameters = parameters.into_iter();
    let formats_at = out.len();
    let mut values: Vec<Parameter<'a>> = Vec::with_capacity(parameters.size_hint().0);
    values.extend(parameters);
    let count = u16::try_from(values.len()).map_err(|_| {
        out.truncate(start);
        Error::Protocol("a statement has more parameters than the protocol allows")
    })?;
    debug_assert_eq!(formats_at, out.len());
    out.put_u16(count);
    for value in &values {
        out.put_u16(u16::from(matches!(value, Parameter::Binary(_))));
    }
    out.put_u16(count);
    for value in &values {
        match value {
            Parameter::Null => out.put_i32(-1),
            Parameter::Text(bytes) | Parameter::Binary(bytes) => {
                let Ok(length) = i32::try_from(bytes.len()) else {
                    out.truncate(start);
                    return Err(Error::Protocol("a value is longer than the protocol allows"));
                };
                out.put_i32(length);
                out.put_slice(bytes);
            }
        }
    }
    out.put_u16(0);
    let Ok(length) = i32::try_from(out.len() - start - 1) else {
        out.truncate(start);
        return Err(Error::Protocol("a row is longer than the protocol allows"));
    };
    out[start + 1..start + 5].copy_from_slice(&length.to_be_bytes());
    Ok(())
}
