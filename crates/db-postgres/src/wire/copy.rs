//! COPY in both directions.

use super::connection::affected;
use super::{Connection, Error};
use bytes::{BufMut, Bytes, BytesMut};
use postgres_protocol::message::frontend;

/// Bytes that are sent in one message.
const CHUNK_BYTES: usize = 64 * 1024;

/// Rows on their way out of the server, in the format that the statement named.
///
/// Dropping it before its end gives the connection up: use a connection of its own for copies that may be broken off.
pub struct CopyOut<'c> {
    connection: &'c mut Connection,
    done: bool,
}

/// Rows on their way into the server, in the format that the statement named.
///
/// Dropping it without [`finish`](CopyIn::finish) makes the server drop the rows.
pub struct CopyIn<'c> {
    connection: &'c mut Connection,
    chunk: BytesMut,
    /// Rows that the server has told of.
    rows: u64,
    /// Whether the server knows of the copy.
    sent: bool,
    done: bool,
}

impl Connection {
    /// Runs a `COPY … TO STDOUT`.
    ///
    /// # Errors
    /// Whatever the server says.
    pub fn copy_out(&mut self, sql: &str) -> Result<CopyOut<'_>, Error> {
        self.queue_query(sql)?;
        self.flush()?;
        let frame = self.next_frame()?;
        match frame.tag {
            b'H' => Ok(CopyOut { connection: self, done: false }),
            b'E' => {
                let error = self.failure(&frame);
                self.drain()?;
                Err(error)
            }
            _ => Err(self.confused()),
        }
    }

    /// Runs a `COPY … FROM STDIN`; statements without a result may stand before it. Rows follow without waiting for the
    /// server: one that refuses the copy drops them.
    ///
    /// # Errors
    /// What makes the connection unusable; a refusal shows later.
    pub fn copy_in(&mut self, sql: &str) -> Result<CopyIn<'_>, Error> {
        self.queue_query(sql)?;
        Ok(CopyIn { connection: self, chunk: BytesMut::new(), rows: 0, sent: false, done: false })
    }

    fn queue_query(&mut self, sql: &str) -> Result<(), Error> {
        self.check()?;
        frontend::query(sql, &mut self.outgoing).map_err(|_| Error::Protocol("a statement holds a zero byte"))
    }

    /// Reads on until the server waits for us again.
    fn drain(&mut self) -> Result<(), Error> {
        while self.next_frame()?.tag != b'Z' {}
        Ok(())
    }
}

impl CopyOut<'_> {
    /// The next chunk, a row in most formats; `None` at the end.
    ///
    /// # Errors
    /// Whatever the server says.
    pub fn next_chunk(&mut self) -> Result<Option<Bytes>, Error> {
        while !self.done {
            let frame = self.connection.next_frame()?;
            match frame.tag {
                b'd' => return Ok(Some(frame.body)),
                b'c' | b'C' => {}
                b'Z' => self.done = true,
                b'E' => {
                    let error = self.connection.failure(&frame);
                    self.done = true;
                    self.connection.drain()?;
                    return Err(error);
                }
                _ => return Err(self.connection.confused()),
            }
        }
        Ok(None)
    }
}

impl Drop for CopyOut<'_> {
    fn drop(&mut self) {
        if !self.done {
            self.connection.give_up();
        }
    }
}

impl CopyIn<'_> {
    /// Appends bytes; rows may be cut anywhere.
    ///
    /// # Errors
    /// What the server says, as soon as it is noticed.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        if bytes.len() >= CHUNK_BYTES {
            self.send_chunk()?;
            for piece in bytes.chunks(CHUNK_BYTES) {
                self.chunk.put_slice(piece);
                self.send_chunk()?;
            }
            return Ok(());
        }
        self.chunk.put_slice(bytes);
        if self.chunk.len() >= CHUNK_BYTES { self.send_chunk() } else { Ok(()) }
    }

    fn send_chunk(&mut self) -> Result<(), Error> {
        if self.chunk.is_empty() {
            return Ok(());
        }
        let too_long = |_| Error::Protocol("a chunk is too long");
        let chunk = self.chunk.split();
        frontend::CopyData::new(chunk).map_err(too_long)?.write(&mut self.connection.outgoing);
        self.sent = true;
        self.connection.flush()?;
        while let Some(frame) = self.connection.next_frame_arrived()? {
            match frame.tag {
                b'C' | b'G' => {}
                // A server that has refused the copy reads on and drops everything: no use in sending more.
                b'E' => {
                    self.done = true;
                    let error = self.connection.failure(&frame);
                    self.connection.drain()?;
                    return Err(error);
                }
                _ => {
                    self.done = true;
                    return Err(self.connection.confused());
                }
            }
        }
        Ok(())
    }

    /// Whether the server knows of the copy, and of what stands before it.
    pub fn is_sent(&self) -> bool {
        self.sent
    }

    /// Ends the copy and returns the number of rows.
    ///
    /// # Errors
    /// Whatever the server says.
    pub fn finish(self) -> Result<u64, Error> {
        self.finish_and(None)
    }

    /// Ends the copy, runs the statement `next`, which has no result, without waiting in between, and returns the number of
    /// rows.
    ///
    /// # Errors
    /// Whatever the server says first.
    pub fn finish_and(mut self, next: Option<&str>) -> Result<u64, Error> {
        self.send_chunk()?;
        self.done = true;
        frontend::copy_done(&mut self.connection.outgoing);
        if let Some(next) = next {
            self.connection.queue_query(next)?;
        }
        self.end(if next.is_some() { 2 } else { 1 })
    }

    /// Reads on until the server has answered so many queries.
    fn end(&mut self, mut queries: usize) -> Result<u64, Error> {
        self.connection.flush()?;
        let mut failure = None;
        while queries > 0 {
            let frame = self.connection.next_frame()?;
            match frame.tag {
                // Of all statements only the copy tells a number.
                b'C' => self.rows += affected(&frame),
                b'G' => {}
                // What comes after a failure fails because of it.
                b'E' => _ = failure.get_or_insert(self.connection.failure(&frame)),
                b'Z' => queries -= 1,
                _ => return Err(self.connection.confused()),
            }
        }
        match failure {
            Some(error) => Err(error),
            None => self.connection.check_settings().map(|()| self.rows),
        }
    }
}

impl Drop for CopyIn<'_> {
    fn drop(&mut self) {
        if self.done {
            return;
        }
        self.connection.outgoing.clear();
        if !self.sent {
            return;
        }
        let told = frontend::copy_fail("given up", &mut self.connection.outgoing).is_ok();
        // The server's answer is the error that we asked for; a real one shows in the next call.
        if !told || matches!(self.end(1), Err(Error::Lost(_) | Error::Protocol(_))) {
            self.connection.give_up();
        }
    }
}
