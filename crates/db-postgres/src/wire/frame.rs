//! Messages as slices of one receive buffer.

use super::Error;
use bytes::{Bytes, BytesMut};

/// Longest message that is believed: the server's own limit on a value is 1 GiB, and a row of several such values can't
/// be sent by it either.
const MESSAGE_BYTES_MAX: usize = (1 << 30) + (1 << 20);
/// Space that each read from the socket finds at least.
const SPARE_BYTES_MIN: usize = 16 * 1024;

/// One message of the server.
pub(crate) struct Frame {
    pub(crate) tag: u8,
    pub(crate) body: Bytes,
}

/// What has arrived and was not taken yet.
///
/// Invariants
/// - `filled` is at most the length of `buffer`;
/// - `whole` holds complete messages that came before everything in `buffer`.
pub(crate) struct Incoming {
    whole: Bytes,
    buffer: BytesMut,
    filled: usize,
    capacity: usize,
}

impl Incoming {
    /// An empty buffer that grows in steps of `capacity` bytes.
    pub(crate) fn new(capacity: usize) -> Incoming {
        Incoming { whole: Bytes::new(), buffer: BytesMut::new(), filled: 0, capacity }
    }

    /// Space to read into. Say how much was used with [`Incoming::advance`].
    pub(crate) fn spare(&mut self) -> &mut [u8] {
        if self.buffer.len() - self.filled < SPARE_BYTES_MIN {
            // Doubling keeps the copying of a large message linear, without believing its announced length.
            let wanted = self.capacity.max(self.filled * 2);
            self.buffer.truncate(self.filled);
            self.buffer.resize(wanted.max(self.filled + SPARE_BYTES_MIN), 0);
        }
        &mut self.buffer[self.filled..]
    }

    /// Marks `count` bytes of the spare space as arrived.
    pub(crate) fn advance(&mut self, count: usize) {
        self.filled += count;
        assert!(self.filled <= self.buffer.len(), "only spare space can be filled");
    }

    /// Bytes that arrived and were not taken.
    pub(crate) fn len(&self) -> usize {
        self.whole.len() + self.filled
    }

    /// The next complete message, if it has arrived.
    pub(crate) fn next(&mut self) -> Result<Option<Frame>, Error> {
        if self.whole.is_empty() {
            let mut end = 0;
            while let Some(length) = frame_length(&self.buffer[end..self.filled])? {
                if length > self.filled - end {
                    break;
                }
                end += length;
            }
            if end == 0 {
                return Ok(None);
            }
            self.whole = self.buffer.split_to(end).freeze();
            self.filled -= end;
        }
        let length = frame_length(&self.whole)?.ok_or(Error::Protocol("a message is cut"))?;
        let mut message = self.whole.split_to(length);
        let tag = message[0];
        Ok(Some(Frame { tag, body: message.split_off(5) }))
    }
}

/// Length of the message at the start of `bytes` with its tag, once its header is there.
fn frame_length(bytes: &[u8]) -> Result<Option<usize>, Error> {
    let Some(header) = bytes.first_chunk::<5>() else { return Ok(None) };
    let length = u32::from_be_bytes([header[1], header[2], header[3], header[4]]) as usize;
    if !(4..=MESSAGE_BYTES_MAX).contains(&length) {
        return Err(Error::Protocol("a message has an impossible length"));
    }
    Ok(Some(length + 1))
}

/// Reads fields of a message's body; every read checks that the field is there.
pub(crate) struct Fields<'a>(pub(crate) &'a [u8]);

impl<'a> Fields<'a> {
    pub(crate) fn u8(&mut self) -> Result<u8, Error> {
        Ok(self.array::<1>()?[0])
    }

    pub(crate) fn u16(&mut self) -> Result<u16, Error> {
        self.array().map(u16::from_be_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Error> {
        self.array().map(u32::from_be_bytes)
    }

    pub(crate) fn i32(&mut self) -> Result<i32, Error> {
        self.array().map(i32::from_be_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Error> {
        self.array().map(u64::from_be_bytes)
    }

    pub(crate) fn bytes(&mut self, count: usize) -> Result<&'a [u8], Error> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(Error::Protocol("a message is cut"))?;
        self.0 = rest;
        Ok(taken)
    }

    pub(crate) fn text(&mut self) -> Result<&'a str, Error> {
        let end = self.0.iter().position(|byte| *byte == 0).ok_or(Error::Protocol("a text has no end"))?;
        let text = self.bytes(end)?;
        self.bytes(1)?;
        std::str::from_utf8(text).map_err(|_| Error::Protocol("a text is not UTF-8"))
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        let (taken, rest) = self.0.split_first_chunk::<N>().ok_or(Error::Protocol("a message is cut"))?;
        self.0 = rest;
        Ok(*taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn feed(incoming: &mut Incoming, mut bytes: &[u8], step: usize) -> Vec<(u8, Bytes)> {
        let mut frames = Vec::new();
        while !bytes.is_empty() {
            let spare = incoming.spare();
            let count = step.min(bytes.len()).min(spare.len());
            spare[..count].copy_from_slice(&bytes[..count]);
            incoming.advance(count);
            bytes = &bytes[count..];
            while let Some(frame) = incoming.next().unwrap() {
                frames.push((frame.tag, frame.body));
            }
        }
        frames
    }

    #[test]
    fn messages_arrive_whole_however_they_are_cut() {
        let long = vec![7_u8; 100_000];
        let mut bytes = vec![b'A', 0, 0, 0, 4, b'B', 0, 0, 0, 6, 1, 2];
        bytes.push(b'C');
        bytes.extend_from_slice(&(u32::try_from(long.len()).unwrap() + 4).to_be_bytes());
        bytes.extend_from_slice(&long);
        bytes.extend_from_slice(&[b'D', 0, 0, 0, 5, 9]);
        for step in [1, 3, 7, 4096, 1 << 20] {
            let mut incoming = Incoming::new(1024);
            let frames = feed(&mut incoming, &bytes, step);
            let expected: Vec<(u8, Bytes)> = vec![
                (b'A', Bytes::new()),
                (b'B', Bytes::from_static(&[1, 2])),
                (b'C', Bytes::from(long.clone())),
                (b'D', Bytes::from_static(&[9])),
            ];
            assert_eq!(frames, expected, "step {step}");
            assert_eq!(incoming.len(), 0);
        }
    }

    #[test]
    fn an_impossible_length_is_an_error() {
        for length in [0_u32, 3, u32::MAX, 0x8000_0000] {
            let mut incoming = Incoming::new(1024);
            incoming.spare()[..5].copy_from_slice(&[[b'A'].as_slice(), &length.to_be_bytes()].concat());
            incoming.advance(5);
            assert!(incoming.next().is_err(), "{length}");
        }
    }
}
