//! What carries frames from one side to the other.

use crate::Error;
use crate::frame::Frame;
use bytes::Bytes;
use std::io;
use std::time::Duration;

/// A connection as sender and receiver see it. Frames arrive in the order in which they left, or not at all; a line may end
/// at any moment, and nobody can tell what had arrived until then.
pub trait Line: Send + Sync {
    /// Who is at the other end.
    fn peer(&self) -> &str;

    /// Lets a frame leave. Does not wait for it to arrive.
    ///
    /// # Errors
    /// [`Error::Network`] when the line has ended.
    fn send(&self, frame: Bytes) -> Result<(), Error>;

    /// The next frame, waiting for it at most `timeout`.
    ///
    /// # Errors
    /// Why the line has ended; [`Error::Protocol`] for a frame that can't be read.
    fn receive(&self, timeout: Duration) -> Result<Option<Frame>, Error>;
}

/// The next frame, which must come within `timeout`.
///
/// # Errors
/// As [`Line::receive`]; [`Error::Network`] when none comes; [`Error::Refused`] when the other side refuses.
pub(crate) fn expect(line: &dyn Line, timeout: Duration) -> Result<Frame, Error> {
    match line.receive(timeout)? {
        Some(Frame::Refused(refused)) => Err(Error::Refused { peer: line.peer().to_owned(), refused }),
        Some(frame) => Ok(frame),
        None => Err(Error::Network { peer: line.peer().to_owned(), source: io::ErrorKind::TimedOut.into() }),
    }
}
