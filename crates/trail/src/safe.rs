//! The published safe position.
//!
//! A small file beside the trail (`aa.safe`) tells readers how far the trail is synced. It has two slots that are
//! overwritten in turn, each with a counter and a checksum: a reader that meets a half-written slot finds the position
//! before it in the other one. Nothing depends on the file surviving a crash, because each start of a writer publishes anew;
//! so it is written, not synced, after every sync of the trail.
//!
//! Slot, little-endian: 0/4 `DVSP`, 4/2 version 1, 6/2 0, 8/8 counter, 16/8 rba, 24/4 sequence, 28/4 CRC-32 of the 28 bytes
//! before. Slots start at bytes 0 and 64.

use crate::format::bytes::{Cursor, Order};
use crate::storage::{File, Storage};
use crate::{Position, TrailName};
use std::io;

const MAGIC: [u8; 4] = *b"DVSP";
const VERSION: u16 = 1;
const SLOT_BYTES: usize = 32;
const SLOT_DISTANCE: usize = 64;

/// The writer's side.
pub(crate) struct SafePosition {
    file: Box<dyn File>,
    counter: u64,
}

impl SafePosition {
    /// Opens or creates the file.
    pub(crate) fn open(storage: &dyn Storage, trail: TrailName) -> io::Result<SafePosition> {
        let name = trail.safe_file();
        let file = match storage.open(&name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => storage.create(&name)?,
            other => other?,
        };
        let mut content = [0; 2 * SLOT_DISTANCE];
        let length = file.read_at(&mut content, 0)?;
        let counter = latest(&content[..length]).map_or(0, |(counter, _)| counter);
        Ok(SafePosition { file, counter })
    }

    /// Lets readers go up to `position`.
    pub(crate) fn publish(&mut self, position: Position) -> io::Result<()> {
        let counter = self.counter + 1;
        let mut slot = Vec::with_capacity(SLOT_BYTES);
        slot.extend_from_slice(&MAGIC);
        slot.extend_from_slice(&VERSION.to_le_bytes());
        slot.extend_from_slice(&[0, 0]);
        slot.extend_from_slice(&counter.to_le_bytes());
        slot.extend_from_slice(&position.rba.to_le_bytes());
        slot.extend_from_slice(&position.sequence.to_le_bytes());
        slot.extend_from_slice(&crc32fast::hash(&slot).to_le_bytes());
        self.file.write_at(&slot, (counter % 2) * SLOT_DISTANCE as u64)?;
        self.counter = counter;
        Ok(())
    }

    /// Makes what is published survive a crash.
    pub(crate) fn sync(&self) -> io::Result<()> {
        self.file.sync()
    }
}

/// The position that the trail's writer has published, or `None` when there is none.
///
/// # Errors
/// When the operating system does not let the file beside the trail be read.
pub fn published(storage: &dyn Storage, trail: TrailName) -> io::Result<Option<Position>> {
    match storage.read_whole(&trail.safe_file()) {
        Ok(content) => Ok(latest(&content).map(|(_, position)| position)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Counter and position of the newest whole slot.
fn latest(content: &[u8]) -> Option<(u64, Position)> {
    let slot = |start: usize| read_slot(content.get(start..start + SLOT_BYTES)?);
    [slot(0), slot(SLOT_DISTANCE)].into_iter().flatten().max_by_key(|(counter, _)| *counter)
}

fn read_slot(slot: &[u8]) -> Option<(u64, Position)> {
    let mut cursor = Cursor::new(slot, Order::Little);
    let whole = cursor.take(4, "slot").ok()? == MAGIC && cursor.u16("slot").ok()? == VERSION;
    cursor.u16("slot").ok()?;
    let counter = cursor.u64("slot").ok()?;
    let rba = cursor.u64("slot").ok()?;
    let sequence = cursor.u32("slot").ok()?;
    let checksum = cursor.u32("slot").ok()?;
    let whole = whole && checksum == crc32fast::hash(slot.get(..SLOT_BYTES - 4)?);
    whole.then_some((counter, Position { sequence, rba }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::Forgetful;

    fn setup() -> (Forgetful, TrailName, SafePosition) {
        let storage = Forgetful::new(1);
        let trail = TrailName::parse("aa").expect("a name");
        let safe = SafePosition::open(&storage, trail).expect("creates");
        (storage, trail, safe)
    }

    #[test]
    fn the_last_position_counts_and_outlives_its_writer() {
        let (storage, trail, mut safe) = setup();
        assert_eq!(published(&storage, trail).expect("reads"), None);
        for rba in 1..5 {
            safe.publish(Position::new(1, rba)).expect("publishes");
            assert_eq!(published(&storage, trail).expect("reads"), Some(Position::new(1, rba)));
        }
        // A restarted writer may publish a position that sorts lower, and it counts.
        let mut safe = SafePosition::open(&storage, trail).expect("opens");
        safe.publish(Position::new(1, 2)).expect("publishes");
        assert_eq!(published(&storage, trail).expect("reads"), Some(Position::new(1, 2)));
    }

    #[test]
    fn a_half_written_slot_leaves_the_position_before() {
        let (storage, trail, mut safe) = setup();
        safe.publish(Position::new(1, 10)).expect("publishes");
        safe.publish(Position::new(1, 20)).expect("publishes");
        let file = storage.open(&trail.safe_file()).expect("opens");
        file.write_at(&[0xAA; 9], 12).expect("damages the newer slot, at byte 0");
        assert_eq!(published(&storage, trail).expect("reads"), Some(Position::new(1, 10)));
        file.set_len(70).expect("cuts");
        assert_eq!(published(&storage, trail).expect("reads"), None);
    }
}
