//! Bytes into messages.

use super::{Message, OldImage, Prepared, Relation, RelationColumn, ReplicaIdentity, Tuple};
use crate::wire::Lsn;
use bytes::Bytes;
use change::{Timestamp, TruncateOptions};

/// Microseconds from 1970-01-01 to 2000-01-01, from which PostgreSQL counts.
const EPOCH_MICROS: i64 = 946_684_800_000_000;

/// Why bytes are not a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The message ends too early.
    #[error("a message of the output plugin is cut")]
    Cut,
    /// The message goes on after its end.
    #[error("a message of the output plugin is longer than its kind")]
    TooLong,
    /// A kind that this version does not know.
    #[error("the output plugin sent a {what} of unknown kind {kind:#04x}")]
    Kind {
        /// What has kinds.
        what: &'static str,
        /// The kind.
        kind: u8,
    },
    /// A name is not UTF-8.
    #[error("the output plugin sent a name that is not UTF-8")]
    Name,
}

/// Decodes one message; `streaming` says whether it stands inside a streamed block.
///
/// # Errors
/// [`Error`]; nothing that follows can be trusted then.
pub fn decode(message: &Bytes, streaming: bool) -> Result<Message<'_>, Error> {
    let mut fields = Fields::new(message);
    let decoded = read(message, &mut fields, streaming)?;
    if fields.rest().is_empty() { Ok(decoded) } else { Err(Error::TooLong) }
}

fn read<'a>(message: &'a Bytes, fields: &mut Fields<'a>, streaming: bool) -> Result<Message<'a>, Error> {
    let kind = fields.u8()?;
    Ok(match kind {
        b'B' => Message::Begin { commit: fields.lsn()?, time: fields.time()?, transaction: fields.u32()? },
        b'C' => {
            fields.u8()?;
            Message::Commit { commit: fields.lsn()?, end: fields.lsn()?, time: fields.time()? }
        }
        b'O' => Message::Origin { commit: fields.lsn()?, name: fields.text()? },
        b'R' => Message::Relation(relation(fields, streaming)?),
        b'Y' => Message::Type {
            transaction: fields.transaction(streaming)?,
            oid: fields.u32()?,
            schema: fields.text()?,
            name: fields.text()?,
        },
        b'I' => {
            let (transaction, relation) = (fields.transaction(streaming)?, fields.u32()?);
            fields.expect(b'N')?;
            Message::Insert { transaction, relation, new: Tuple::take(message, fields)? }
        }
        b'U' => {
            let (transaction, relation) = (fields.transaction(streaming)?, fields.u32()?);
            let old = match fields.u8()? {
                b'N' => OldImage::None,
                mark => {
                    let old = old_image(mark, message, fields)?;
                    fields.expect(b'N')?;
                    old
                }
            };
            Message::Update { transaction, relation, old, new: Tuple::take(message, fields)? }
        }
        b'D' => {
            let (transaction, relation) = (fields.transaction(streaming)?, fields.u32()?);
            let mark = fields.u8()?;
            Message::Delete { transaction, relation, old: old_image(mark, message, fields)? }
        }
        b'T' => {
            let (transaction, count) = (fields.transaction(streaming)?, fields.u32()?);
            let flags = fields.u8()?;
            let options = TruncateOptions { cascade: flags & 1 != 0, restart_identity: flags & 2 != 0 };
            // The count is believed only as far as the bytes reach.
            let relations = (0..count).map(|_| fields.u32()).collect::<Result<_, _>>()?;
            Message::Truncate { transaction, relations, options }
        }
        b'M' => {
            let transaction = fields.transaction(streaming)?;
            let transactional = fields.u8()? & 1 != 0;
            let (lsn, prefix) = (fields.lsn()?, fields.text()?);
            let length = usize::try_from(fields.u32()?).map_err(|_| Error::Cut)?;
            Message::Logical { transaction, transactional, lsn, prefix, content: fields.bytes(length)? }
        }
        b'S' => Message::StreamStart { transaction: fields.u32()?, is_first: fields.u8()? == 1 },
        b'E' => Message::StreamStop,
        b'c' => {
            let transaction = fields.u32()?;
            fields.u8()?;
            Message::StreamCommit { transaction, commit: fields.lsn()?, end: fields.lsn()?, time: fields.time()? }
        }
        b'A' => {
            let (transaction, subtransaction) = (fields.u32()?, fields.u32()?);
            // Version 4 with parallel streaming adds place and time of the abort.
            if !fields.rest().is_empty() {
                fields.lsn()?;
                fields.time()?;
            }
            Message::StreamAbort { transaction, subtransaction }
        }
        b'b' => Message::BeginPrepare(fields.prepared()?),
        b'P' | b'K' | b'p' => {
            fields.u8()?;
            let prepared = fields.prepared()?;
            match kind {
                b'P' => Message::Prepare(prepared),
                b'K' => Message::CommitPrepared(prepared),
                _ => Message::StreamPrepare(prepared),
            }
        }
        b'r' => {
            fields.u8()?;
            let (lsn, end, time) = (fields.lsn()?, fields.lsn()?, fields.time()?);
            fields.time()?;
            let (transaction, name) = (fields.u32()?, fields.text()?);
            Message::RollbackPrepared(Prepared { lsn, end, time, transaction, name })
        }
        _ => return Err(Error::Kind { what: "message", kind }),
    })
}

fn relation<'a>(fields: &mut Fields<'a>, streaming: bool) -> Result<Relation<'a>, Error> {
    let (transaction, oid) = (fields.transaction(streaming)?, fields.u32()?);
    let (schema, name) = (fields.text()?, fields.text()?);
    let identity = match fields.u8()? {
        b'd' => ReplicaIdentity::Default,
        b'n' => ReplicaIdentity::Nothing,
        b'f' => ReplicaIdentity::Full,
        b'i' => ReplicaIdentity::Index,
        kind => return Err(Error::Kind { what: "replica identity", kind }),
    };
    let columns = (0..fields.u16()?)
        .map(|_| {
            Ok(RelationColumn {
                is_key: fields.u8()? & 1 != 0,
                name: fields.text()?,
                type_oid: fields.u32()?,
                modifier: fields.i32()?,
            })
        })
        .collect::<Result<_, _>>()?;
    Ok(Relation { transaction, oid, schema, name, identity, columns })
}

fn old_image<'a>(mark: u8, message: &'a Bytes, fields: &mut Fields<'a>) -> Result<OldImage<'a>, Error> {
    match mark {
        b'K' => Tuple::take(message, fields).map(OldImage::Key),
        b'O' => Tuple::take(message, fields).map(OldImage::Full),
        kind => Err(Error::Kind { what: "row image", kind }),
    }
}

/// The bytes that were not read yet.
pub(super) struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Fields<'a> {
        Fields(bytes)
    }

    pub(super) fn rest(&self) -> &'a [u8] {
        self.0
    }

    pub(super) fn u8(&mut self) -> Result<u8, Error> {
        let (first, rest) = self.0.split_first().ok_or(Error::Cut)?;
        self.0 = rest;
        Ok(*first)
    }

    pub(super) fn u16(&mut self) -> Result<u16, Error> {
        self.array().map(u16::from_be_bytes)
    }

    pub(super) fn u32(&mut self) -> Result<u32, Error> {
        self.array().map(u32::from_be_bytes)
    }

    pub(super) fn bytes(&mut self, count: usize) -> Result<&'a [u8], Error> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(Error::Cut)?;
        self.0 = rest;
        Ok(taken)
    }

    fn i32(&mut self) -> Result<i32, Error> {
        self.array().map(i32::from_be_bytes)
    }

    fn lsn(&mut self) -> Result<Lsn, Error> {
        self.array().map(|bytes| Lsn(u64::from_be_bytes(bytes)))
    }

    fn time(&mut self) -> Result<Timestamp, Error> {
        let micros = self.array().map(i64::from_be_bytes)?;
        Ok(Timestamp::from_unix_micros(micros.saturating_add(EPOCH_MICROS)))
    }

    fn transaction(&mut self, streaming: bool) -> Result<Option<u32>, Error> {
        if streaming { self.u32().map(Some) } else { Ok(None) }
    }

    fn expect(&mut self, mark: u8) -> Result<(), Error> {
        match self.u8()? {
            kind if kind == mark => Ok(()),
            kind => Err(Error::Kind { what: "row image", kind }),
        }
    }

    fn text(&mut self) -> Result<&'a str, Error> {
        let end = self.0.iter().position(|byte| *byte == 0).ok_or(Error::Cut)?;
        let text = self.bytes(end)?;
        self.u8()?;
        std::str::from_utf8(text).map_err(|_| Error::Name)
    }

    fn prepared(&mut self) -> Result<Prepared<'a>, Error> {
        Ok(Prepared {
            lsn: self.lsn()?,
            end: self.lsn()?,
            time: self.time()?,
            transaction: self.u32()?,
            name: self.text()?,
        })
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        let (taken, rest) = self.0.split_first_chunk::<N>().ok_or(Error::Cut)?;
        self.0 = rest;
        Ok(*taken)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may panic")]

    use super::*;
    use crate::pgoutput::Cell;
    use proptest::prelude::*;

    /// An update with an old key, laid out by hand after the documentation.
    const UPDATE: &[u8] = b"U\0\0\x40\x01K\0\x02t\0\0\0\x011nN\0\x03t\0\0\0\x022au\x6e";

    #[test]
    fn an_update_reads_as_documented() {
        let bytes = Bytes::from_static(UPDATE);
        let Message::Update { relation, old: OldImage::Key(old), new, transaction: None } =
            decode(&bytes, false).unwrap()
        else {
            panic!("an update with a key");
        };
        assert_eq!(relation, 0x4001);
        assert_eq!(old.cells().collect::<Vec<_>>(), [Cell::Text(13..14), Cell::Null]);
        assert_eq!(new.cells().collect::<Vec<_>>(), [Cell::Text(23..25), Cell::Unchanged, Cell::Null]);
        assert_eq!(&bytes[23..25], b"2a");
    }

    #[test]
    fn a_message_that_is_cut_or_too_long_is_an_error() {
        for length in 0..UPDATE.len() {
            assert_eq!(decode(&Bytes::copy_from_slice(&UPDATE[..length]), false), Err(Error::Cut), "{length}");
        }
        let long = Bytes::from([UPDATE, b"\0"].concat());
        assert_eq!(decode(&long, false), Err(Error::TooLong));
        let unknown = Bytes::from_static(b"z");
        assert_eq!(decode(&unknown, false), Err(Error::Kind { what: "message", kind: b'z' }));
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_decoder_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), streaming: bool) {
            let bytes = Bytes::from(bytes);
            let _ = decode(&bytes, streaming);
        }

        #[test]
        fn no_bytes_after_a_known_kind_make_the_decoder_panic(
            kind in proptest::sample::select(b"BCORYIUDTMSEcAbPKrp".to_vec()),
            bytes in proptest::collection::vec(prop_oneof![Just(0_u8), Just(b'N'), Just(b'K'), Just(b't'), any::<u8>()], 0..80),
            streaming: bool,
        ) {
            let bytes = Bytes::from([&[kind], bytes.as_slice()].concat());
            if let Ok(Message::Insert { new, .. }) = decode(&bytes, streaming) {
                prop_assert_eq!(new.cells().count(), new.len());
            }
        }
    }
}
