//! Putting the parts of a long record together.

use crate::Damage;
use crate::format::bytes::Order;
use crate::format::fragment::Fragment;
use crate::format::record::RecordView;
use crate::scan;
use bytes::Bytes;

/// Most bytes of a record that comes in parts: two images of 400 MiB, with all that stands around their values.
const BYTES_MAX: u64 = 2 * (400 * 1024 * 1024 + 8 * 65_536) + 4;

/// Parts that have come so far.
#[derive(Default)]
pub(super) struct Assembly {
    parts: Option<Parts>,
}

struct Parts {
    start: u64,
    operation: u8,
    starts: bool,
    total: u64,
    count: u32,
    data: Vec<u8>,
    user: Vec<u8>,
}

/// A record whose parts are together.
pub(super) struct Whole {
    /// Where its first part starts.
    pub(super) start: u64,
    /// Its operation.
    pub(super) operation: u8,
    /// Whether its first part starts a transaction.
    pub(super) starts: bool,
    /// Its data, in wide entries.
    pub(super) data: Bytes,
    /// Content of `U`, which travels with its first part.
    pub(super) user: Vec<u8>,
}

impl Assembly {
    /// Adds the part at byte `rba`; returns the record when it was the last one. `left` bytes of the file may be read behind
    /// the part.
    pub(super) fn add(
        &mut self,
        view: &RecordView<'_>,
        rba: u64,
        order: Order,
        left: u64,
    ) -> Result<Option<Whole>, Damage> {
        let fragment = Fragment::read(view.data, order)?;
        let (starts, _) = scan::place(view.header.transaction)?;
        let mut parts = match self.parts.take() {
            Some(parts) => parts,
            None => {
                if fragment.total > BYTES_MAX {
                    return Err(Damage::Content("a record in parts is longer than any can be"));
                }
                let Fragment { operation, total, .. } = fragment;
                let mut data = Vec::new();
                // All at once where the rest is there: growing step by step would need half as much again. Never more than
                // the file can hold, whatever it claims.
                let is_there = total <= left.saturating_add(fragment.part.len() as u64);
                if is_there || change::sabotage::is_on("reserve-what-is-declared") {
                    data.reserve_exact(usize::try_from(total).unwrap_or(0));
                }
                Parts { start: rba, operation, starts, total, count: 0, data, user: view.user_tokens.to_vec() }
            }
        };
        if (fragment.number, fragment.operation, fragment.total) != (parts.count, parts.operation, parts.total) {
            return Err(Damage::Content("a part of a long record is not the one that comes next"));
        }
        parts.count += 1;
        parts.data.extend_from_slice(fragment.part);
        let (so_far, is_continued) = (parts.data.len() as u64, view.header.continued != 0);
        if so_far > parts.total || (so_far == parts.total) == is_continued {
            return Err(Damage::Content("the parts of a long record do not add up to its length"));
        }
        if is_continued {
            self.parts = Some(parts);
            return Ok(None);
        }
        let Parts { start, operation, starts, data, user, .. } = parts;
        Ok(Some(Whole { start, operation, starts, data: Bytes::from(data), user }))
    }

    /// # Errors
    /// [`Damage`] when parts of a record are missing.
    #[inline]
    pub(super) fn check_closed(&self) -> Result<(), Damage> {
        match self.parts {
            None => Ok(()),
            Some(_) => Err(Damage::Content("another record stands between the parts of a long one")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::record::{self, Envelope, Object, RecordHeader, operation};

    /// The first part of a record of `total` bytes.
    fn first_part(total: u64) -> Vec<u8> {
        let order = Order::Little;
        let mut data = Vec::new();
        Fragment { operation: operation::INSERT, number: 0, total, part: &[b'x'; 100] }.put(&mut data, order);
        let header = RecordHeader {
            data_length: data.len() as u16,
            continued: 1,
            ..RecordHeader::new(operation::FRAGMENT, 255, 0)
        };
        let envelope = Envelope::new(Object::Index { definition: 1, partition: None }, &[]);
        let mut bytes = Vec::new();
        record::put(&mut bytes, order, &header, &envelope, |buffer| buffer.extend_from_slice(&data));
        bytes
    }

    /// Bytes that are held after the first part of a record that declares `total`, when `left` bytes follow it in the file.
    fn held(total: u64, left: u64) -> usize {
        let bytes = first_part(total);
        let view = RecordView::read(&bytes, Order::Little).expect("a record");
        let mut assembly = Assembly::default();
        assert!(assembly.add(&view, 0, Order::Little, left).expect("a first part").is_none());
        assembly.parts.expect("more parts are awaited").data.capacity()
    }

    #[test]
    fn a_declared_length_takes_no_memory_that_the_file_could_not_fill() {
        assert!(held(BYTES_MAX, 65_535) < 1024, "declared, and not there");
        assert!(held(BYTES_MAX, BYTES_MAX - 101) < 1024, "one byte is missing");
        assert_eq!(held(10_000_000, 9_999_900), 10_000_000, "all at once where all of it is there");
        let bytes = first_part(BYTES_MAX + 1);
        let view = RecordView::read(&bytes, Order::Little).expect("a record");
        assert!(Assembly::default().add(&view, 0, Order::Little, u64::MAX).is_err(), "more than any record has");
    }
}
