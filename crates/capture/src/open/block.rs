//! Blocks of records: the unit that is spilled, checked and read back.
//!
//! A block starts with 16 bytes: length of the records u32, number of the transaction u32, place of the block in the
//! transaction u32, and a CRC-32 over these three and the records. A block that stands in the wrong place or in another
//! transaction's file is as wrong as one with a flipped bit.

use super::record;
use change::{ObjectChange, Operation, RecordAddress};
use std::collections::HashSet;

/// Bytes in front of a block's records.
pub(crate) const BLOCK_HEADER_BYTES: usize = 16;

/// Records of one block, about: large enough that a disk is used well, small enough that handing one out costs little
/// memory. A larger row makes a larger block.
const BLOCK_BYTES: usize = 256 << 10;

/// Consecutive records of one part.
struct Run {
    part: u32,
    start: u32,
    records: u32,
    /// Whether the part has no record before these.
    is_first: bool,
}

/// A block in memory. Its first bytes are kept free for the header.
pub(crate) struct Block {
    bytes: Vec<u8>,
    runs: Vec<Run>,
}

impl Block {
    pub(super) fn new() -> Block {
        Block { bytes: vec![0; BLOCK_HEADER_BYTES], runs: Vec::new() }
    }

    /// A block that was written before, as it was written.
    pub(super) fn whole(bytes: Vec<u8>) -> Block {
        Block { bytes, runs: Vec::new() }
    }

    /// Whether the next record belongs into a new block. A block that came back whole is not written to: its runs are not
    /// known.
    pub(super) fn is_full(&self) -> bool {
        self.bytes.len() >= BLOCK_BYTES || (self.runs.is_empty() && self.bytes.len() > BLOCK_HEADER_BYTES)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bytes.len() <= BLOCK_HEADER_BYTES
    }

    /// Memory that it takes.
    pub(super) fn weight(&self) -> usize {
        self.bytes.capacity() + self.runs.capacity() * size_of::<Run>()
    }

    /// Bytes of its records.
    pub(super) fn record_bytes(&self) -> usize {
        self.bytes.len() - BLOCK_HEADER_BYTES
    }

    /// Appends a record; `is_first` says that the part has none so far.
    pub(super) fn put(&mut self, part: u32, is_first: bool, table: u32, operation: &Operation, address: RecordAddress) {
        self.count(part, is_first);
        record::put(&mut self.bytes, part, table, operation, address);
    }

    /// Appends a record of something that was done to an object, as [`put`](Block::put) does.
    pub(super) fn put_object(&mut self, part: u32, is_first: bool, object: &ObjectChange) {
        self.count(part, is_first);
        record::put_object(&mut self.bytes, part, object);
    }

    fn count(&mut self, part: u32, is_first: bool) {
        match self.runs.last_mut() {
            Some(run) if run.part == part => run.records += 1,
            // A block grows past 4 GiB with no row that a source lets through.
            _ => self.runs.push(Run { part, start: self.bytes.len() as u32, records: 1, is_first }),
        }
    }

    /// Cuts off the last records, as long as they belong to parts that were rolled back; how many they were. A part of which
    /// nothing is left is forgotten.
    pub(super) fn cut(&mut self, aborted: &mut HashSet<u32>) -> u64 {
        let mut records = 0;
        while let Some(run) = self.runs.pop_if(|run| aborted.contains(&run.part)) {
            self.bytes.truncate(run.start as usize);
            records += u64::from(run.records);
            if run.is_first {
                aborted.remove(&run.part);
            }
        }
        records
    }

    /// The bytes as a file holds them.
    pub(crate) fn seal(&mut self, transaction: u32, place: u32) -> &[u8] {
        let length = self.record_bytes() as u32;
        self.bytes[0..4].copy_from_slice(&length.to_le_bytes());
        self.bytes[4..8].copy_from_slice(&transaction.to_le_bytes());
        self.bytes[8..12].copy_from_slice(&place.to_le_bytes());
        let check = checksum(&self.bytes);
        self.bytes[12..16].copy_from_slice(&check.to_le_bytes());
        &self.bytes
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

fn checksum(block: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&block[..12]);
    hasher.update(&block[BLOCK_HEADER_BYTES..]);
    hasher.finalize()
}

/// The length of the records of the block whose header this is.
pub(crate) fn length(header: &[u8; BLOCK_HEADER_BYTES]) -> usize {
    u32::from_le_bytes([header[0], header[1], header[2], header[3]]) as usize
}

/// Why `block`, header and records, is not block `place` of `transaction`; `None` when it is.
pub(crate) fn check(block: &[u8], transaction: u32, place: u32) -> Option<&'static str> {
    let Some(header) = block.first_chunk::<BLOCK_HEADER_BYTES>() else { return Some("a block is cut") };
    let number = |at: usize| u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
    if length(header) != block.len() - BLOCK_HEADER_BYTES {
        Some("a block is cut")
    } else if number(4) != transaction || number(8) != place {
        Some("a block stands in the wrong place")
    } else if number(12) != checksum(block) {
        Some("the checksum of a block is wrong")
    } else {
        None
    }
}
