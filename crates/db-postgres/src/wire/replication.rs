//! A stream of changes from a walsender.

use super::frame::{Fields, Frame};
use super::{Connection, Error, Lsn};
use bytes::{BufMut, Bytes};
use postgres_protocol::message::frontend;
use std::time::{Duration, Instant};

/// What a walsender sends.
#[derive(Debug)]
pub enum ReplicationMessage {
    /// One message of the output plugin.
    Data {
        /// Where its log record starts; 0 for messages without one.
        start: Lsn,
        /// The message, a slice of the receive buffer.
        body: Bytes,
    },
    /// The server has decoded everything up to `end`, and sent all that was ours.
    KeepAlive {
        /// End of the log as the server has decoded it.
        end: Lsn,
        /// Whether the server wants a status at once, or it closes the connection.
        reply: bool,
    },
}

/// A stream of changes from a walsender, over a connection of its own.
///
/// Dropping it ends the stream in good order if that is quick, so that the slot is free at once.
pub struct ReplicationStream {
    connection: Connection,
    is_live: bool,
}

/// How long the end of a stream is waited for: a server in the middle of a large transaction may not hear us.
const END_LIMIT: Duration = Duration::from_secs(2);

impl Connection {
    /// Runs a `START_REPLICATION`.
    ///
    /// # Errors
    /// Whatever the server says.
    pub fn start_replication(mut self, command: &str) -> Result<ReplicationStream, Error> {
        self.check()?;
        frontend::query(command, &mut self.outgoing).map_err(|_| Error::Protocol("a command holds a zero byte"))?;
        self.flush()?;
        let frame = self.next_frame()?;
        match frame.tag {
            // CopyBothResponse.
            b'W' => Ok(ReplicationStream { connection: self, is_live: true }),
            b'E' => Err(self.failure(&frame)),
            _ => Err(self.confused()),
        }
    }
}

impl ReplicationStream {
    /// The next message; `None` when none came within `wait`.
    ///
    /// # Errors
    /// Whatever the server says; the end of the stream counts as a lost connection.
    pub fn receive(&mut self, wait: Duration) -> Result<Option<ReplicationMessage>, Error> {
        let result = self.next(wait);
        self.is_live &= result.is_ok();
        result
    }

    fn next(&mut self, wait: Duration) -> Result<Option<ReplicationMessage>, Error> {
        let frame = match self.connection.next_frame_arrived()? {
            Some(frame) => Some(frame),
            None if wait.is_zero() => None,
            None => self.connection.next_frame_until(Some(Instant::now() + wait))?,
        };
        frame.map(|frame| self.read(frame)).transpose()
    }

    fn read(&mut self, frame: Frame) -> Result<ReplicationMessage, Error> {
        match frame.tag {
            b'd' => {}
            b'E' => return Err(self.connection.failure(&frame)),
            // CopyDone: the server shuts down or ends the stream.
            b'c' => {
                self.connection.give_up();
                return Err(Error::Lost(std::io::ErrorKind::UnexpectedEof.into()));
            }
            _ => return Err(self.connection.confused()),
        }
        let mut fields = Fields(&frame.body);
        match fields.u8()? {
            // XLogData: start, end, the server's clock.
            b'w' => {
                let start = Lsn(fields.u64()?);
                fields.bytes(16)?;
                let body = frame.body.slice(frame.body.len() - fields.0.len()..);
                Ok(ReplicationMessage::Data { start, body })
            }
            b'k' => {
                let end = Lsn(fields.u64()?);
                fields.u64()?;
                Ok(ReplicationMessage::KeepAlive { end, reply: fields.u8()? != 0 })
            }
            _ => Err(self.connection.confused()),
        }
    }

    /// Tells the server that the log may be forgotten up to `flushed`, which must be durable on our side.
    ///
    /// `written` is what has arrived. With `reply` the server answers with a keep-alive at once.
    ///
    /// # Errors
    /// When the connection is lost.
    pub fn report(&mut self, written: Lsn, flushed: Lsn, reply: bool) -> Result<(), Error> {
        let mut status = Vec::with_capacity(34);
        status.put_u8(b'r');
        status.put_u64(written.0);
        status.put_u64(flushed.0);
        status.put_u64(flushed.0);
        // Our clock: the server shows it and uses it for nothing.
        status.put_u64(0);
        status.put_u8(u8::from(reply));
        let message =
            frontend::CopyData::new(status.as_slice()).map_err(|_| Error::Protocol("a status is too long"))?;
        message.write(&mut self.connection.outgoing);
        self.connection.flush()
    }

    /// Ends the stream; `true` when the server has confirmed that in time.
    fn end(&mut self) -> Result<bool, Error> {
        let deadline = Some(Instant::now() + END_LIMIT);
        frontend::copy_done(&mut self.connection.outgoing);
        self.connection.flush()?;
        while let Some(frame) = self.connection.next_frame_until(deadline)? {
            match frame.tag {
                b'd' | b'c' | b'C' => {}
                b'Z' => return Ok(true),
                b'E' => return Err(self.connection.failure(&frame)),
                _ => return Err(self.connection.confused()),
            }
        }
        Ok(false)
    }
}

impl Drop for ReplicationStream {
    fn drop(&mut self) {
        // A stream that can't be ended in good order is cut, which the server notices.
        if self.is_live && !matches!(self.end(), Ok(true)) {
            self.connection.give_up();
        }
    }
}
