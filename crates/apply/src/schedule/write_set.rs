//! What a transaction touches, as numbers that can be compared.
//!
//! Two transactions must keep their order when one of them writes what the other reads or writes. What is written is the
//! value of a unique key before and after a change; what is read is the row that a foreign key refers to. Each is an
//! [`Item`]: a hash of table, columns and values. Two different things may share a hash, which costs a needless wait and
//! nothing else.

use std::hash::Hasher;

/// A thing that a transaction touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Item {
    /// Hash of what is touched.
    pub hash: u64,
    /// Whether it is written. Transactions that only read it need no order among each other.
    pub is_written: bool,
}

/// What a transaction touches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriteSet {
    items: Vec<Item>,
    is_barrier: bool,
    applier: Option<u32>,
}

/// Items that a transaction keeps apart; one with more is a barrier: it is large enough to be applied by itself, and its set
/// would fill memory.
const ITEMS_MAX: usize = 100_000;

impl WriteSet {
    /// Nothing touched so far.
    pub fn new() -> WriteSet {
        WriteSet::default()
    }

    /// Adds a thing that is written.
    pub fn write(&mut self, hash: u64) {
        self.add(Item { hash, is_written: true });
    }

    /// Adds a thing that must be there.
    pub fn read(&mut self, hash: u64) {
        self.add(Item { hash, is_written: false });
    }

    /// The transaction touches what can't be told: it keeps its order with all others.
    pub fn barrier(&mut self) {
        self.is_barrier = true;
        self.items.clear();
    }

    /// Whether the transaction keeps its order with all others.
    pub fn is_barrier(&self) -> bool {
        self.is_barrier
    }

    /// What is touched, with repetitions.
    pub fn items(&self) -> &[Item] {
        &self.items
    }

    /// Only the applier with this number may apply the transaction, as the rule of a coordinated group says.
    pub fn assign(&mut self, applier: u32) {
        self.applier = Some(applier);
    }

    /// Who alone may apply the transaction; `None` when anybody may.
    pub fn applier(&self) -> Option<u32> {
        self.applier
    }

    /// Forgets everything and keeps the room.
    pub fn clear(&mut self) {
        self.applier = None;
        self.items.clear();
        self.is_barrier = false;
    }

    fn add(&mut self, item: Item) {
        if self.is_barrier || self.items.last() == Some(&item) {
            return;
        }
        if self.items.len() >= ITEMS_MAX {
            return self.barrier();
        }
        self.items.push(item);
    }
}

/// Hashes table, columns and values: a multiplication folded onto itself for each eight bytes.
///
/// Not keyed: whoever makes rows that meet on purpose makes them wait for each other, and no more.
#[derive(Clone, Copy)]
pub(crate) struct ItemHasher(u64);

const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;

impl ItemHasher {
    /// Starts from the hash of what the values belong to.
    pub(crate) fn of(seed: u64) -> ItemHasher {
        ItemHasher(seed)
    }

    /// Adds a value, or that there is none.
    pub(crate) fn value(&mut self, value: Option<&[u8]>) {
        match value {
            None => self.word(u64::MAX),
            Some(bytes) => {
                self.word(bytes.len() as u64);
                self.write(bytes);
            }
        }
    }

    fn word(&mut self, word: u64) {
        let product = u128::from(self.0 ^ word ^ FACTOR) * u128::from(FACTOR | 1);
        self.0 = (product as u64) ^ ((product >> 64) as u64);
    }
}

impl Hasher for ItemHasher {
    fn write(&mut self, bytes: &[u8]) {
        let mut chunks = bytes.chunks_exact(8);
        for chunk in &mut chunks {
            self.word(u64::from_le_bytes(chunk.try_into().expect("eight bytes")));
        }
        let rest = chunks.remainder();
        if !rest.is_empty() {
            let mut last = [0; 8];
            last[..rest.len()].copy_from_slice(rest);
            self.word(u64::from_le_bytes(last));
        }
    }

    fn finish(&self) -> u64 {
        let mut last = *self;
        last.word(FACTOR);
        last.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(values: &[Option<&[u8]>]) -> u64 {
        let mut hasher = ItemHasher::of(7);
        values.iter().for_each(|value| hasher.value(*value));
        hasher.finish()
    }

    #[test]
    fn values_that_differ_in_any_way_have_other_hashes() {
        let values: &[&[Option<&[u8]>]] = &[
            &[Some(b"")],
            &[None],
            &[Some(b"\0")],
            &[Some(b"12345678")],
            &[Some(b"12345678\0")],
            &[Some(b"1"), Some(b"2")],
            &[Some(b"12"), Some(b"")],
            &[Some(b""), Some(b"12")],
            &[Some(b"2"), Some(b"1")],
        ];
        let mut hashes: Vec<u64> = values.iter().map(|values| hash(values)).collect();
        hashes.sort_unstable();
        hashes.dedup();
        assert_eq!(hashes.len(), values.len());
        let mut numbers: Vec<u64> =
            (0..200_000_u32).map(|number| hash(&[Some(number.to_string().as_bytes())])).collect();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), 200_000);
    }

    #[test]
    fn a_set_that_grows_without_end_becomes_a_barrier() {
        let mut set = WriteSet::new();
        (0..=ITEMS_MAX as u64).for_each(|hash| set.write(hash));
        assert!(set.is_barrier() && set.items().is_empty());
        set.clear();
        set.read(1);
        set.read(1);
        assert_eq!(set.items(), [Item { hash: 1, is_written: false }]);
    }
}
