//! The file that says which BR checkpoint counts; see `docs/formats/bounded-recovery.md`.

use super::bytes::{Fields, put_number, put_text};
use change::{LogPosition, Timestamp, TransactionId};

const MAGIC: &[u8; 4] = b"DVBR";
const VERSION: u32 = 1;

/// One persisted object of a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Object {
    pub(crate) transaction: TransactionId,
    pub(crate) file: String,
    pub(crate) bytes: u64,
    pub(crate) checksum: u32,
}

/// A BR checkpoint as it is on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Manifest {
    pub(super) number: u64,
    pub(super) time: Timestamp,
    pub(super) begin: LogPosition,
    pub(super) end: LogPosition,
    /// Of the TABLE statements under which it was taken.
    pub(super) tables: u32,
    pub(super) objects: Vec<Object>,
}

impl Manifest {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        put_number(&mut bytes, self.number);
        put_number(&mut bytes, self.time.unix_micros.cast_unsigned());
        put_text(&mut bytes, self.begin.as_str());
        put_text(&mut bytes, self.end.as_str());
        bytes.extend_from_slice(&self.tables.to_le_bytes());
        bytes.extend_from_slice(&(self.objects.len() as u32).to_le_bytes());
        for object in &self.objects {
            put_text(&mut bytes, object.transaction.as_str());
            put_text(&mut bytes, &object.file);
            put_number(&mut bytes, object.bytes);
            bytes.extend_from_slice(&object.checksum.to_le_bytes());
        }
        let checksum = crc32fast::hash(&bytes);
        bytes.extend_from_slice(&checksum.to_le_bytes());
        bytes
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Manifest, &'static str> {
        let (content, checksum) = bytes.split_last_chunk().ok_or("it is cut")?;
        if crc32fast::hash(content) != u32::from_le_bytes(*checksum) {
            return Err("its checksum is wrong");
        }
        let mut fields = Fields(content);
        if fields.take(4)? != MAGIC {
            return Err("it is of another kind");
        }
        if fields.short()? != VERSION {
            return Err("it is of another version");
        }
        let number = fields.number()?;
        let time = Timestamp::from_unix_micros(fields.number()?.cast_signed());
        let begin = LogPosition::new(fields.text()?);
        let end = LogPosition::new(fields.text()?);
        let tables = fields.short()?;
        let mut objects = Vec::new();
        for _ in 0..fields.short()? {
            let transaction = TransactionId::new(fields.text()?);
            let file = fields.text()?.to_owned();
            objects.push(Object { transaction, file, bytes: fields.number()?, checksum: fields.short()? });
        }
        Ok(Manifest { number, time, begin, end, tables, objects })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may panic")]

    use super::*;

    #[test]
    fn a_manifest_comes_back_and_a_damaged_one_does_not() {
        let manifest = Manifest {
            number: 7,
            time: Timestamp::from_unix_micros(-5),
            begin: LogPosition::new("003"),
            end: LogPosition::new("009"),
            tables: 42,
            objects: vec![Object {
                transaction: TransactionId::new("x1"),
                file: "E1-00000007-00001.bro".to_owned(),
                bytes: 99,
                checksum: 3,
            }],
        };
        let bytes = manifest.encode();
        assert_eq!(Manifest::decode(&bytes), Ok(manifest));
        for at in 0..bytes.len() {
            assert!(Manifest::decode(&bytes[..at]).is_err(), "{at}");
            let mut flipped = bytes.clone();
            flipped[at] ^= 0x10;
            assert!(Manifest::decode(&flipped).is_err(), "{at}");
        }
    }
}
