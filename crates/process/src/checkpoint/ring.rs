//! The bytes of a checkpoint file: a header block and a ring of slots, each of them on its own to be trusted or not.
//!
//! Written down in `docs/formats/checkpoint.md`. Numbers are big-endian, as in trails.

use crate::{GroupKind, GroupName};

/// Bytes of the header and of each slot: a torn write of one never touches another.
pub(crate) const BLOCK_BYTES: usize = 2048;

/// Slots that are written in turn.
pub(crate) const SLOTS: u64 = 100;

/// Bytes of a whole file. All of it is written when the file is made, so that a full disk can't stop a later checkpoint.
pub(crate) const FILE_BYTES: usize = BLOCK_BYTES * (SLOTS as usize + 1);

/// Bytes of a slot in front of its payload.
const SLOT_HEADER_BYTES: usize = 20;

/// Longest payload in bytes.
pub(crate) const PAYLOAD_BYTES_MAX: usize = BLOCK_BYTES - SLOT_HEADER_BYTES;

const FILE_MAGIC: &[u8; 8] = b"DRVCHKPT";
const SLOT_MAGIC: &[u8; 4] = b"DCKP";
const VERSION: u16 = 1;
/// Bytes of the header that its checksum covers.
const HEADER_BYTES: usize = 28;

/// Whose file it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) kind: GroupKind,
    pub(crate) group: GroupName,
}

/// Why a header can't be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum HeaderFault {
    Damaged(&'static str),
    /// Whole, but written by a later version.
    Version(u16),
}

impl Header {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let name = self.group.as_str().as_bytes();
        let mut block = Vec::with_capacity(BLOCK_BYTES);
        block.extend_from_slice(FILE_MAGIC);
        block.extend_from_slice(&VERSION.to_be_bytes());
        block.push(kind_letter(self.kind));
        block.push(name.len() as u8);
        block.extend_from_slice(name);
        block.resize(20, 0);
        block.extend_from_slice(&(BLOCK_BYTES as u32).to_be_bytes());
        block.extend_from_slice(&(SLOTS as u32).to_be_bytes());
        let checksum = crc32fast::hash(&block);
        block.extend_from_slice(&checksum.to_be_bytes());
        block.resize(BLOCK_BYTES, 0);
        block
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Header, HeaderFault> {
        let (header, rest) = bytes.split_at_checked(HEADER_BYTES).ok_or(HeaderFault::Damaged("it is too short"))?;
        if !header.starts_with(FILE_MAGIC) {
            return Err(HeaderFault::Damaged("its first bytes are not those of a checkpoint file"));
        }
        if read_u32(rest, 0) != Some(crc32fast::hash(header)) {
            return Err(HeaderFault::Damaged("the checksum of its header is wrong"));
        }
        let damaged = || HeaderFault::Damaged("its header makes no sense");
        let version = header.get(8..10).and_then(|bytes| bytes.try_into().ok()).map(u16::from_be_bytes);
        match version {
            Some(VERSION) => {}
            Some(other) => return Err(HeaderFault::Version(other)),
            None => return Err(damaged()),
        }
        let kind = header.get(10).copied().and_then(kind_of_letter).ok_or_else(damaged)?;
        let length = usize::from(header.get(11).copied().unwrap_or(0));
        let name = header.get(12..20).and_then(|name| name.get(..length)).ok_or_else(damaged)?;
        let name = std::str::from_utf8(name).ok().and_then(|name| GroupName::parse(name).ok());
        let sizes = (read_u32(header, 20), read_u32(header, 24));
        match name {
            Some(group) if sizes == (Some(BLOCK_BYTES as u32), Some(SLOTS as u32)) => Ok(Header { kind, group }),
            _ => Err(damaged()),
        }
    }
}

fn kind_letter(kind: GroupKind) -> u8 {
    match kind {
        GroupKind::Extract => b'E',
        GroupKind::Replicat => b'R',
    }
}

fn kind_of_letter(letter: u8) -> Option<GroupKind> {
    [GroupKind::Extract, GroupKind::Replicat].into_iter().find(|kind| kind_letter(*kind) == letter)
}

/// Where the slot of checkpoint number `sequence` starts in the file.
pub(crate) fn slot_offset(sequence: u64) -> u64 {
    let slot = if change::sabotage::is_on("checkpoint-in-one-slot") { 0 } else { sequence % SLOTS };
    (slot + 1) * BLOCK_BYTES as u64
}

/// A slot that holds `payload` as checkpoint number `sequence`, or `None` when the payload is too long.
pub(crate) fn encode_slot(sequence: u64, payload: &[u8]) -> Option<Vec<u8>> {
    if payload.len() > PAYLOAD_BYTES_MAX {
        return None;
    }
    let mut slot = Vec::with_capacity(BLOCK_BYTES);
    slot.extend_from_slice(SLOT_MAGIC);
    slot.extend_from_slice(&(payload.len() as u32).to_be_bytes());
    slot.extend_from_slice(&sequence.to_be_bytes());
    slot.extend_from_slice(&slot_checksum(&slot, payload).to_be_bytes());
    slot.extend_from_slice(payload);
    slot.resize(BLOCK_BYTES, 0);
    Some(slot)
}

/// What a slot holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Slot<'a> {
    /// Never written.
    Empty,
    /// Torn or damaged.
    Damaged,
    /// Checkpoint number `sequence`.
    Full { sequence: u64, payload: &'a [u8] },
}

/// The slots of a file whose whole content is `bytes`.
pub(crate) fn slots(bytes: &[u8]) -> impl Iterator<Item = Slot<'_>> {
    bytes.chunks(BLOCK_BYTES).skip(1).take(SLOTS as usize).map(decode_slot)
}

fn decode_slot(slot: &[u8]) -> Slot<'_> {
    if slot.iter().all(|byte| *byte == 0) {
        return Slot::Empty;
    }
    let decoded = || {
        let (header, payload) = slot.split_at_checked(SLOT_HEADER_BYTES)?;
        let payload = payload.get(..usize::try_from(read_u32(header, 4)?).ok()?)?;
        let sequence = u64::from_be_bytes(header.get(8..16)?.try_into().ok()?);
        let is_whole =
            header.starts_with(SLOT_MAGIC) && read_u32(header, 16)? == slot_checksum(header.get(..16)?, payload);
        is_whole.then_some(Slot::Full { sequence, payload })
    };
    decoded().unwrap_or(Slot::Damaged)
}

fn slot_checksum(header: &[u8], payload: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(header);
    hasher.update(payload);
    hasher.finalize()
}

fn read_u32(bytes: &[u8], offset: usize) -> Option<u32> {
    let bytes = bytes.get(offset..offset.checked_add(4)?)?;
    bytes.try_into().ok().map(u32::from_be_bytes)
}
