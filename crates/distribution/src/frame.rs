//! What sender and receiver say to each other: one WebSocket binary message each.
//!
//! `docs/formats/distribution.md` has the bytes, and why they are so.

use crate::Error;
use bytes::{Buf, BufMut, Bytes, BytesMut};
use change::{Commit, Csn, Timestamp, TransactionId};
use serde::{Deserialize, Serialize};
use trail::Position;
use trail::copy::{Boundary, CopyBatch, CopyContent};

/// Version of the protocol.
pub const VERSION: u32 = 1;

/// Longest message that is taken: a batch, the definitions of a file with many tables, and what stands around them.
pub const FRAME_BYTES_MAX: usize = 260 * 1024 * 1024;

/// Longest batch once it is unpacked.
const UNPACKED_BYTES_MAX: usize = 257 * 1024 * 1024;

/// zstd's fastest regular level, as trails have it.
const LEVEL: i32 = 1;

mod kind {
    pub const HELLO: u8 = 1;
    pub const WELCOME: u8 = 2;
    pub const BATCH: u8 = 3;
    pub const DURABLE: u8 = 4;
    pub const REFUSED: u8 = 5;
}

/// One message.
#[derive(Clone, Debug, PartialEq)]
pub enum Frame {
    /// The side that connects says what it wants.
    Hello(Hello),
    /// The receiver tells what the target trail holds; batches may come.
    Welcome(Welcome),
    /// Records.
    Batch {
        /// Its number in this session, from 1.
        number: u64,
        /// What it holds.
        batch: CopyBatch,
    },
    /// Everything up to a batch is durable.
    Durable {
        /// The batch's number.
        number: u64,
        /// End of the target trail.
        position: Position,
        /// Its last complete transaction.
        last: Option<Commit>,
    },
    /// The other side will not go on.
    Refused(Refused),
}

/// What the side that connects wants.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// Version of the protocol.
    pub version: u32,
    /// Who connects: host, home and name. A target trail belongs to one of them.
    pub who: String,
    /// Of a sender: its source trail. Of a receiver: the trail that it asks for.
    pub source: String,
    /// The target trail, as the operator wrote it.
    pub target: String,
    /// Size of the target's files.
    pub megabytes: u32,
}

/// What the target trail holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Welcome {
    /// Version of the protocol.
    pub version: u32,
    /// Its last complete transaction.
    pub last: Option<CommitText>,
    /// Its end.
    pub position: String,
}

/// Why the other side does not go on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    /// Code of the message, such as `DRV-00783`.
    pub code: String,
    /// What it says.
    pub what: String,
    /// What can be done about it.
    pub next_step: String,
    /// It may pass.
    pub is_passing: bool,
}

/// A transaction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommitText {
    csn: String,
    transaction: String,
    time: i64,
}

impl From<&Commit> for CommitText {
    fn from(commit: &Commit) -> CommitText {
        let (csn, transaction) = (commit.csn.to_string(), commit.transaction.to_string());
        CommitText { csn, transaction, time: commit.time.unix_micros }
    }
}

impl From<&CommitText> for Commit {
    fn from(text: &CommitText) -> Commit {
        Commit {
            csn: Csn::new(text.csn.as_str()),
            transaction: TransactionId::new(text.transaction.as_str()),
            time: Timestamp::from_unix_micros(text.time),
        }
    }
}

impl Frame {
    /// The message's bytes; so many bytes of records and more are compressed, if they get shorter by it.
    pub fn encode(&self, compress_from: Option<u32>) -> Bytes {
        match self {
            Frame::Hello(hello) => json(kind::HELLO, hello),
            Frame::Welcome(welcome) => json(kind::WELCOME, welcome),
            Frame::Refused(refused) => json(kind::REFUSED, refused),
            Frame::Durable { number, position, last } => {
                let mut bytes = BytesMut::with_capacity(128);
                bytes.put_u8(kind::DURABLE);
                bytes.put_u64_le(*number);
                put_position(&mut bytes, *position);
                put_commit(&mut bytes, last.as_ref());
                bytes.freeze()
            }
            Frame::Batch { number, batch } => encode_batch(*number, batch, compress_from),
        }
    }

    /// The message that `bytes` are.
    ///
    /// # Errors
    /// [`Error::Protocol`].
    pub fn decode(mut bytes: Bytes) -> Result<Frame, Error> {
        let wrong = || Error::Protocol("a message can't be read".to_owned());
        let kind = bytes.try_get_u8().map_err(|_| wrong())?;
        match kind {
            kind::HELLO => Ok(Frame::Hello(read_json(&bytes)?)),
            kind::WELCOME => Ok(Frame::Welcome(read_json(&bytes)?)),
            kind::REFUSED => Ok(Frame::Refused(read_json(&bytes)?)),
            kind::DURABLE => {
                let number = bytes.try_get_u64_le().map_err(|_| wrong())?;
                let position = get_position(&mut bytes).ok_or_else(wrong)?;
                let last = get_commit(&mut bytes).ok_or_else(wrong)?;
                Ok(Frame::Durable { number, position, last })
            }
            kind::BATCH => decode_batch(bytes).ok_or_else(wrong),
            kind => Err(Error::Protocol(format!("message {kind} is not known"))),
        }
    }
}

fn json<T: Serialize>(kind: u8, value: &T) -> Bytes {
    let mut bytes = vec![kind];
    serde_json::to_writer(&mut bytes, value).expect("plain texts and numbers can be written as JSON");
    Bytes::from(bytes)
}

fn read_json<T: for<'a> Deserialize<'a>>(bytes: &[u8]) -> Result<T, Error> {
    serde_json::from_slice(bytes).map_err(|error| Error::Protocol(format!("a message can't be read: {error}")))
}

fn encode_batch(number: u64, batch: &CopyBatch, compress_from: Option<u32>) -> Bytes {
    let (first, rest): (&[u8], Vec<&Bytes>) = match &batch.content {
        CopyContent::File { header, definitions } => (header, vec![definitions]),
        CopyContent::Records(records) => (&[], records.iter().collect()),
    };
    let length: usize = rest.iter().map(|bytes| bytes.len()).sum();
    let mut bytes = BytesMut::with_capacity(first.len() + length + 256);
    bytes.put_u8(kind::BATCH);
    let flags_at = bytes.len();
    bytes.put_u8(u8::from(matches!(batch.content, CopyContent::File { .. })));
    bytes.put_u64_le(number);
    put_position(&mut bytes, batch.start);
    put_position(&mut bytes, batch.end);
    bytes.put_u64_le(batch.changes);
    put_position(&mut bytes, batch.boundary.as_ref().map_or(Position::default(), |boundary| boundary.position));
    put_commit(&mut bytes, batch.boundary.as_ref().map(|boundary| &boundary.commit));
    bytes.put_u32_le(first.len() as u32);
    bytes.put_slice(first);
    bytes.put_u32_le(length as u32);
    if compress_from.is_some_and(|from| length >= from as usize) {
        let whole: Vec<u8> = rest.iter().flat_map(|bytes| bytes.iter().copied()).collect();
        if let Ok(packed) = zstd::bulk::compress(&whole, LEVEL)
            && packed.len() < length
        {
            bytes[flags_at] |= COMPRESSED;
            bytes.put_slice(&packed);
            return bytes.freeze();
        }
    }
    rest.iter().for_each(|records| bytes.put_slice(records));
    bytes.freeze()
}

/// Flag of a batch whose records are compressed.
const COMPRESSED: u8 = 2;

fn decode_batch(mut bytes: Bytes) -> Option<Frame> {
    let flags = bytes.try_get_u8().ok()?;
    let number = bytes.try_get_u64_le().ok()?;
    let (start, end) = (get_position(&mut bytes)?, get_position(&mut bytes)?);
    let changes = bytes.try_get_u64_le().ok()?;
    let position = get_position(&mut bytes)?;
    let boundary = get_commit(&mut bytes)?.map(|commit| Boundary { position, commit });
    let first = bytes.try_get_u32_le().ok()? as usize;
    if bytes.len() < first {
        return None;
    }
    let header = bytes.split_to(first);
    let length = bytes.try_get_u32_le().ok()? as usize;
    let records = match flags & COMPRESSED {
        0 => bytes,
        _ if length > UNPACKED_BYTES_MAX => return None,
        _ => Bytes::from(zstd::bulk::decompress(&bytes, length).ok()?),
    };
    if records.len() != length {
        return None;
    }
    let content = match flags & 1 {
        0 if records.is_empty() => CopyContent::Records(Vec::new()),
        0 => CopyContent::Records(vec![records]),
        _ => CopyContent::File { header, definitions: records },
    };
    Some(Frame::Batch { number, batch: CopyBatch { start, end, content, boundary, changes } })
}

fn put_position(bytes: &mut BytesMut, position: Position) {
    bytes.put_u32_le(position.sequence);
    bytes.put_u64_le(position.rba);
}

fn get_position(bytes: &mut Bytes) -> Option<Position> {
    let sequence = bytes.try_get_u32_le().ok()?;
    Some(Position::new(sequence, bytes.try_get_u64_le().ok()?))
}

fn put_commit(bytes: &mut BytesMut, commit: Option<&Commit>) {
    bytes.put_u8(u8::from(commit.is_some()));
    if let Some(commit) = commit {
        bytes.put_i64_le(commit.time.unix_micros);
        for text in [commit.csn.as_str(), commit.transaction.as_str()] {
            bytes.put_u16_le(text.len() as u16);
            bytes.put_slice(text.as_bytes());
        }
    }
}

fn get_commit(bytes: &mut Bytes) -> Option<Option<Commit>> {
    if bytes.try_get_u8().ok()? == 0 {
        return Some(None);
    }
    let time = Timestamp::from_unix_micros(bytes.try_get_i64_le().ok()?);
    let mut text = || {
        let length = usize::from(bytes.try_get_u16_le().ok()?);
        let text = bytes.get(..length)?.to_vec();
        bytes.advance(length);
        String::from_utf8(text).ok()
    };
    Some(Some(Commit { csn: Csn::new(text()?), transaction: TransactionId::new(text()?), time }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn commit() -> Commit {
        let time = Timestamp::from_unix_micros(1_700_000_000_000_000);
        Commit { csn: Csn::new("00000000000000000042"), transaction: TransactionId::new("7.1"), time }
    }

    fn frames() -> Vec<Frame> {
        let records = |length| CopyContent::Records(vec![Bytes::from(vec![7; length])]);
        let batch = |content, boundary| CopyBatch {
            start: Position::new(1, 2),
            end: Position::new(3, 4),
            content,
            boundary,
            changes: 5,
        };
        let boundary = Boundary { position: Position::new(3, 4), commit: commit() };
        let file = CopyContent::File { header: Bytes::from_static(b"header"), definitions: Bytes::from(vec![1; 900]) };
        vec![
            Frame::Hello(Hello { version: 1, who: "h:/home:P1".to_owned(), ..Hello::default() }),
            Frame::Welcome(Welcome { version: 1, last: Some((&commit()).into()), position: "000000000:9".to_owned() }),
            Frame::Refused(Refused { code: "DRV-00782".to_owned(), ..Refused::default() }),
            Frame::Durable { number: 9, position: Position::new(1, 2), last: Some(commit()) },
            Frame::Durable { number: 9, position: Position::new(1, 2), last: None },
            Frame::Batch { number: 1, batch: batch(file, None) },
            Frame::Batch { number: 2, batch: batch(records(5000), Some(boundary)) },
            Frame::Batch { number: 3, batch: batch(CopyContent::Records(Vec::new()), None) },
        ]
    }

    #[test]
    fn every_message_comes_back_compressed_or_not() {
        for frame in frames() {
            for compress in [None, Some(0), Some(2000)] {
                assert_eq!(Frame::decode(frame.encode(compress)).expect("is whole"), frame);
            }
        }
    }

    #[test]
    fn a_batch_of_fewer_bytes_than_asked_for_is_not_compressed() {
        let content = CopyContent::Records(vec![Bytes::from(vec![7; 1000])]);
        let place = Position::new(1, 2);
        let batch = CopyBatch { start: place, end: place, content, boundary: None, changes: 1 };
        let frame = Frame::Batch { number: 1, batch };
        assert!(frame.encode(Some(1000)).len() < 200 && frame.encode(Some(1001)).len() > 1000);
        assert_eq!(frame.encode(Some(1001)), frame.encode(None));
    }

    #[test]
    fn an_answer_has_the_bytes_that_the_page_of_the_protocol_gives() {
        let page = include_str!("../../../docs/formats/distribution.md");
        let bytes = Frame::Durable { number: 9, position: Position::new(1, 2), last: None }.encode(None);
        let hex: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        assert!(page.contains(&format!("`{}`", hex.join(" "))), "{hex:?}");
    }

    #[test]
    fn no_bytes_make_a_reader_panic_or_take_more_than_they_say() {
        for frame in frames() {
            let bytes = frame.encode(Some(0));
            for length in 0..bytes.len() {
                let _ = Frame::decode(bytes.slice(..length));
            }
            for place in 0..bytes.len().min(400) {
                for bit in 0..8 {
                    let mut damaged = bytes.to_vec();
                    damaged[place] ^= 1 << bit;
                    let _ = Frame::decode(Bytes::from(damaged));
                }
            }
        }
    }
}
