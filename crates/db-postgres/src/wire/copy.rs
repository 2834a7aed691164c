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
    done: bool,
}

impl Connection {
    /// Runs a `COPY … TO STDOUT`.
    ///
    /// # Errors
    /// Whatever the server says.
    pub fn copy_out(&mut self, sql: &str) -> Result<CopyOut<'_>, Error> {
        self.start_copy(sql, b'H')?;
        Ok(CopyOut { connection: self, done: false })
    }

    /// Runs a `COPY … FROM STDIN`.
    ///
    /// # Errors
    /// Whatever the server says.
    pub fn copy_in(&mut self, sql: &str) -> Result<CopyIn<'_>, Error> {
        self.start_copy(sql, b'G')?;
        Ok(CopyIn { connection: self, chunk: BytesMut::new(), done: false })
    }

    fn start_copy(&mut self, sql: &str, tag: u8) -> Result<(), Error> {
        self.check()?;
        frontend::query(sql, &mut self.outgoing).map_err(|_| Error::Protocol("a statement holds a zero byte"))?;
        self.flush()?;
        let frame = self.next_frame()?;
        match frame.tag {
            expected if expected == tag => Ok(()),
            b'E' => {
                let error = self.failure(&frame);
                self.drain()?;
                Err(error)
            }
            _ => Err(self.confused()),
        }
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
        self.connection.flush()?;
        // A server that has refused the copy reads on and drops everything: no use in sending more.
        let Some(frame) = self.connection.next_frame_arrived()? else { return Ok(()) };
        self.done = true;
        if frame.tag != b'E' {
            return Err(self.connection.confused());
        }
        let error = self.connection.failure(&frame);
        self.connection.drain()?;
        Err(error)
    }

    /// Ends the copy and returns the number of rows.
    ///
    /// # Errors
    /// Whatever the server says.
    pub fn finish(mut self) -> Result<u64, Error> {
        self.send_chunk()?;
        self.done = true;
        frontend::copy_done(&mut self.connection.outgoing);
        self.end()
    }

    fn end(&mut self) -> Result<u64, Error> {
        self.connection.flush()?;
        let mut rows = 0;
        let mut failure = None;
        loop {
            let frame = self.connection.next_frame()?;
            match frame.tag {
                b'C' => rows = affected(&frame),
                b'E' => failure = Some(self.connection.failure(&frame)),
                b'Z' => break,
                _ => return Err(self.connection.confused()),
            }
        }
        match failure {
            Some(error) => Err(error),
            None => self.connection.check_settings().map(|()| rows),
        }
    }
}

impl Drop for CopyIn<'_> {
    fn drop(&mut self) {
        if self.done {
            return;
        }
        self.connection.outgoing.clear();
        let told = frontend::copy_fail("given up", &mut self.connection.outgoing).is_ok();
        // The server's answer is the error that we asked for; a real one shows in the next call.
        if !told || matches!(self.end(), Err(Error::Lost(_) | Error::Protocol(_))) {
            self.connection.give_up();
        }
    }
}
