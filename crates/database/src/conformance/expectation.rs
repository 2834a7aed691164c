//! Comparing what a stream tells with what users did.

use super::Capability;
use super::Subject;
use super::stage::Told;
use change::{Operation, Row, TableDefinition, TableName, Value};
use std::collections::BTreeMap;

/// Whether `subject` is able to do something.
pub(super) fn can(subject: &dyn Subject, capability: Capability) -> bool {
    subject.lacks().iter().all(|(lacking, _)| *lacking != capability)
}

/// Fails unless `told` are exactly the transactions in `done`, each a list of operations with whole old rows.
#[track_caller]
pub(super) fn assert_told(subject: &dyn Subject, told: &[Told], done: &[Vec<(TableName, Operation)>]) {
    let told_changes: Vec<_> = told.iter().flat_map(|transaction| &transaction.changes).collect();
    let done_operations: Vec<_> = done.iter().flatten().collect();
    for (place, (change, (table, operation))) in told_changes.iter().zip(&done_operations).enumerate() {
        assert_eq!(change.table.name, *table, "the table of change {place}");
        assert_operation(&change.table, &change.operation, operation, place);
    }
    assert_eq!(told_changes.len(), done_operations.len(), "number of changes");
    let told_ends = ends(told.iter().map(|transaction| transaction.changes.len()));
    let done_ends = ends(done.iter().map(Vec::len));
    if can(subject, Capability::TransactionBoundaries) {
        assert_eq!(told_ends, done_ends, "number of changes up to each commit");
    } else {
        let whole = told_ends.iter().all(|end| done_ends.contains(end));
        assert!(whole, "no transaction is split: told up to {told_ends:?}, committed up to {done_ends:?}");
    }
}

/// Counts up to the end of each transaction.
fn ends(counts: impl Iterator<Item = usize>) -> Vec<usize> {
    counts
        .scan(0, |sum, count| {
            *sum += count;
            Some(*sum)
        })
        .collect()
}

#[track_caller]
fn assert_operation(table: &TableDefinition, told: &Operation, done: &Operation, place: usize) {
    let key = table.key();
    let key_of = |row: &Row| key.iter().map(|column| owned(row.value(*column))).collect::<Vec<_>>();
    match (told, done) {
        (Operation::Insert { new: told }, Operation::Insert { new: done }) => {
            assert_eq!(told, done, "the row of insert {place}");
        }
        (Operation::Delete { old: told }, Operation::Delete { old: done }) => {
            assert_eq!(key_of(told), key_of(done), "the old key of delete {place}");
            assert_told_values(told, done, |_| true, "the old row of delete", place);
        }
        (Operation::Update { old: told_old, new: told_new }, Operation::Update { old, new }) => {
            let old = old.as_ref().expect("cases give whole old rows");
            match told_old {
                Some(told_old) => {
                    assert_eq!(key_of(told_old), key_of(old), "the old key of update {place}");
                    assert_told_values(told_old, old, |_| true, "the old row of update", place);
                }
                None => assert_eq!(key_of(old), key_of(new), "update {place} moves a key, so it must tell the old one"),
            }
            let kept = |column: usize| !key.contains(&column) && old.value(column) == new.value(column);
            assert_told_values(told_new, new, kept, "the new row of update", place);
        }
        (Operation::Truncate(one), Operation::Truncate(other)) if one == other => {}
        (told, done) => panic!("change {place} is told as {} but was {}", told.kind(), done.kind()),
    }
}

/// Each value is told as it was, or is left out where `may_be_left_out`.
#[track_caller]
fn assert_told_values(told: &Row, done: &Row, may_be_left_out: impl Fn(usize) -> bool, what: &str, place: usize) {
    for (column, (told, done)) in told.values().zip(done.values()).enumerate() {
        if told.is_present() || !may_be_left_out(column) {
            assert!(told == done, "{what} {place}, column {column}: told {told:?}, was {done:?}");
        }
    }
}

type Owned = Option<Vec<u8>>;

fn owned(value: Value<'_>) -> Owned {
    value.bytes().map(<[u8]>::to_vec)
}

/// A copy of tables that is kept by what a stream tells alone.
#[derive(Default)]
pub(super) struct Copy {
    tables: BTreeMap<TableName, BTreeMap<Vec<Owned>, Row>>,
}

impl Copy {
    pub(super) fn take(&mut self, told: &[Told]) {
        for change in told.iter().flat_map(|transaction| &transaction.changes) {
            let key = change.table.key();
            let key_of = |row: &Row| key.iter().map(|column| owned(row.value(*column))).collect::<Vec<_>>();
            let rows = self.tables.entry(change.table.name.clone()).or_default();
            match &change.operation {
                Operation::Insert { new } => {
                    let before = rows.insert(key_of(new), new.clone());
                    assert!(before.is_none(), "an insert finds its key taken");
                }
                Operation::Update { old, new } => {
                    let before = rows.remove(&key_of(old.as_ref().unwrap_or(new)));
                    let before = before.expect("an update finds its row");
                    let fill = |(told, before)| if told == Value::Unchanged { before } else { told };
                    let after = Row::from_values(new.values().zip(before.values()).map(fill));
                    let taken = rows.insert(key_of(&after), after);
                    assert!(taken.is_none(), "an update finds its new key taken");
                }
                Operation::Delete { old } => {
                    rows.remove(&key_of(old)).expect("a deletion finds its row");
                }
                Operation::Truncate(_) => rows.clear(),
            }
        }
    }

    /// All rows of a table, in the order of their bytes.
    pub(super) fn rows(&self, table: &TableName) -> Vec<Row> {
        let rows = self.tables.get(table).map(|rows| rows.values().cloned().collect()).unwrap_or_default();
        super::stage::sorted(rows)
    }
}
