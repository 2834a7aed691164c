//! Which operations are sent together.
//!
//! Rows of one table keep their order; rows of different tables need not, because nobody sees a transaction before it
//! commits, and neither triggers nor foreign keys of the target run. So like operations of a table come together although
//! others stand between them. A key is in a batch at most once: a second update of a row takes the place of the first
//! where it writes the same columns, and ends the batch otherwise.

use super::target::{Form, Shaped};
use change::OperationKind;
use foldhash::fast::RandomState;
use hashbrown::HashTable;
use std::collections::HashMap;
use std::hash::BuildHasher;

/// Rows of one statement at most; more bring nothing.
const ROWS_MAX: usize = 5000;
/// Bytes of one statement at most, about: the server holds them several times while it works.
const BYTES_MAX: usize = 8 << 20;

/// Like operations of one target.
pub(super) struct Batch {
    /// Number of the target.
    pub(super) target: usize,
    pub(super) form: Form,
    pub(super) joins: bool,
    /// The writes, by index.
    pub(super) writes: Vec<usize>,
    /// Bytes of their values.
    bytes: usize,
    keys: Keys,
}

impl Batch {
    /// Whether its rows go by COPY.
    pub(super) fn is_copied(&self) -> bool {
        self.form.kind == OperationKind::Insert && super::is_worth_a_copy(self.writes.len(), self.bytes)
    }
}

/// The keys of a batch's writes, by the place of the write. They lie in one buffer: a batch has thousands.
#[derive(Default)]
struct Keys {
    bytes: Vec<u8>,
    /// Where each ends.
    ends: Vec<usize>,
    places: HashTable<usize>,
}

impl Keys {
    fn key<'k>(bytes: &'k [u8], ends: &[usize], place: usize) -> &'k [u8] {
        let start = if place == 0 { 0 } else { ends[place - 1] };
        &bytes[start..ends[place]]
    }

    fn find(&self, key: &[u8], hash: u64) -> Option<usize> {
        self.places.find(hash, |place| Keys::key(&self.bytes, &self.ends, *place) == key).copied()
    }

    fn add(&mut self, key: &[u8], hash: u64, hasher: &RandomState) {
        let place = self.ends.len();
        self.bytes.extend_from_slice(key);
        self.ends.push(self.bytes.len());
        let (bytes, ends) = (&self.bytes, &self.ends);
        self.places.insert_unique(hash, place, |place| hasher.hash_one(Keys::key(bytes, ends, *place)));
    }
}

/// Sorts operations into batches.
#[derive(Default)]
pub(super) struct Batches {
    batches: Vec<Batch>,
    hasher: RandomState,
    /// The last batch of each table, by its place.
    last: HashMap<usize, usize, RandomState>,
}

impl Batches {
    /// Adds write number `write` of `bytes` bytes to `table`, which several targets may share.
    pub(super) fn add(&mut self, write: usize, (table, target): (usize, usize), bytes: usize, shaped: &Shaped) {
        let Shaped { form, joins, key } = shaped;
        let has_key = form.kind != OperationKind::Insert;
        let hash = if has_key { self.hasher.hash_one(&**key) } else { 0 };
        let last = self.last.get(&table).and_then(|last| self.batches.get_mut(*last));
        let fits = |batch: &&mut Batch| batch.target == target && batch.joins && *joins && batch.form == *form;
        if let Some(batch) = last.filter(fits) {
            let room = batch.writes.len() < ROWS_MAX && batch.bytes + bytes <= BYTES_MAX;
            match if has_key { batch.keys.find(key, hash) } else { None } {
                Some(place) if form.kind == OperationKind::Update => {
                    batch.bytes += bytes;
                    batch.writes[place] = write;
                    return;
                }
                None if room => {
                    batch.bytes += bytes;
                    batch.writes.push(write);
                    if has_key {
                        batch.keys.add(key, hash, &self.hasher);
                    }
                    return;
                }
                _ => {}
            }
        }
        let mut keys = Keys::default();
        if has_key {
            keys.add(key, hash, &self.hasher);
        }
        self.last.insert(table, self.batches.len());
        self.batches.push(Batch { target, form: form.clone(), joins: *joins, writes: vec![write], bytes, keys });
    }

    /// The batches, in an order in which they may be sent.
    pub(super) fn finish(self) -> Vec<Batch> {
        self.batches
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shaped(kind: OperationKind, column: u16, key: &str) -> Shaped {
        let (columns, nulls, alike) = (vec![column], Vec::new(), Vec::new());
        let form = Form { kind, is_array: false, is_text: false, must_find: false, columns, nulls, alike };
        Shaped { form, joins: true, key: key.as_bytes().to_vec() }
    }

    fn batches(writes: &[(usize, OperationKind, u16, &str)]) -> Vec<(usize, Vec<usize>)> {
        let mut batches = Batches::default();
        for (number, (target, kind, column, key)) in writes.iter().enumerate() {
            // Targets 0 and 2 are of one table.
            batches.add(number, (*target % 2, *target), 10, &shaped(*kind, *column, key));
        }
        batches.finish().into_iter().map(|batch| (batch.target, batch.writes)).collect()
    }

    #[test]
    fn like_operations_of_a_table_come_together_across_those_of_others() {
        use OperationKind::{Delete, Insert, Update};
        let writes =
            [(0, Insert, 1, ""), (1, Update, 1, "a"), (0, Insert, 1, ""), (1, Update, 1, "b"), (1, Delete, 1, "c")];
        assert_eq!(batches(&writes), [(0, vec![0, 2]), (1, vec![1, 3]), (1, vec![4])]);
    }

    #[test]
    fn rows_of_one_table_keep_their_order_whatever_plan_they_come_by() {
        use OperationKind::Update;
        let writes = [(0, Update, 1, "a"), (2, Update, 1, "a"), (0, Update, 1, "a")];
        assert_eq!(batches(&writes), [(0, vec![0]), (2, vec![1]), (0, vec![2])]);
    }

    #[test]
    fn a_key_is_in_a_batch_once_and_the_last_update_counts() {
        use OperationKind::{Delete, Update};
        let writes =
            [(0, Update, 1, "a"), (0, Update, 1, "b"), (0, Update, 1, "a"), (0, Update, 2, "a"), (0, Update, 1, "a")];
        assert_eq!(batches(&writes), [(0, vec![2, 1]), (0, vec![3]), (0, vec![4])]);
        let writes = [(0, Delete, 1, "a"), (0, Delete, 1, "a")];
        assert_eq!(batches(&writes), [(0, vec![0]), (0, vec![1])]);
    }
}
