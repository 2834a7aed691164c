//! The open-transaction store, against a model and on a bad disk.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may panic")]

use capture::open::{CommittedTransaction, Done, Error, Store, StoreOptions};
use change::{
    Change, Column, LogPosition, LogicalType, Operation, RecordAddress, Row, TableDefinition, TableName, TransactionId,
    Value,
};
use proptest::prelude::*;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use trail::storage::{Forgetful, Storage};

fn table(columns: usize) -> Arc<TableDefinition> {
    let column = |number: usize| Column::new(format!("c{number}"), LogicalType::Text, "text");
    Arc::new(TableDefinition { name: TableName::new("main", "t"), columns: (0..columns).map(column).collect() })
}

fn insert(table: &Arc<TableDefinition>, number: u64, value: &[u8]) -> Change {
    let text = number.to_string();
    let first = [Value::Bytes(text.as_bytes()), Value::Bytes(value)];
    let rest = std::iter::repeat_n(Value::Null, table.columns.len() - 2);
    let new = Row::from_values(first.into_iter().chain(rest));
    let address = RecordAddress { position: number, offset: 7 };
    Change { table: Arc::clone(table), operation: Operation::Insert { new }, address }
}

fn id(name: impl std::fmt::Display) -> TransactionId {
    TransactionId::new(name.to_string())
}

fn position(number: u64) -> LogPosition {
    LogPosition::new(format!("{number:020}"))
}

fn open(disk: &Forgetful, memory_max: usize) -> Store {
    Store::open(Arc::new(disk.clone()), StoreOptions { name: "E1".to_owned(), memory_max }).unwrap()
}

fn drain(mut committed: CommittedTransaction) -> Result<Vec<Change>, Error> {
    let mut changes = Vec::new();
    while let Some(done) = committed.next()? {
        let Done::Change(change) = done else { panic!("nothing was done to objects") };
        changes.push(change);
    }
    Ok(changes)
}

/// One thing that a log tells.
#[derive(Clone, Debug)]
enum Step {
    Start,
    Change { bytes: usize },
    Savepoint,
    RollbackTo,
    Commit,
    Abort,
    Prepare,
    StartAgain,
}

fn step() -> impl Strategy<Value = (u8, Step)> {
    let step = prop_oneof![
        2 => Just(Step::Start),
        12 => (0..3000_usize).prop_map(|bytes| Step::Change { bytes }),
        4 => Just(Step::Savepoint),
        3 => Just(Step::RollbackTo),
        1 => Just(Step::Commit),
        1 => Just(Step::Abort),
        1 => Just(Step::Prepare),
        1 => Just(Step::StartAgain),
    ];
    (0..5_u8, step)
}

/// The plainest way to keep open transactions.
#[derive(Default)]
struct Model {
    changes: Vec<Change>,
    /// Open savepoints: the part, and how many changes there were before it.
    savepoints: Vec<(u32, usize)>,
    /// Parts that were opened, each with the number of changes before it.
    opened: Vec<(u32, usize)>,
    next_part: u32,
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn what_commits_comes_out_as_a_plain_model_keeps_it(
        steps in proptest::collection::vec(step(), 1..200),
        memory_max in prop_oneof![Just(0_usize), 1_000..40_000_usize, Just(usize::MAX)],
    ) {
        let disk = Forgetful::new(1);
        let mut store = open(&disk, memory_max);
        let mut model: BTreeMap<u8, Model> = BTreeMap::new();
        let shapes = [table(2), table(3)];
        let mut aborted: HashSet<(u8, u32)> = HashSet::new();
        for (number, (name, step)) in (0_u64..).zip(steps) {
            let transaction = id(name);
            let known = model.contains_key(&name);
            match step {
                Step::Start if !known => {
                    store.start(&transaction, position(number), None);
                    model.insert(name, Model { next_part: 1, ..Model::default() });
                }
                Step::StartAgain if known => {
                    store.start(&transaction, position(number), None);
                    model.insert(name, Model { next_part: 1, ..Model::default() });
                    aborted.retain(|(other, _)| *other != name);
                }
                Step::Change { bytes } if known => {
                    let open = model.get_mut(&name).unwrap();
                    let change = insert(&shapes[bytes % 2], number, &vec![name; bytes]);
                    let part = open.savepoints.last().map_or(0, |(part, _)| *part);
                    store.append(&transaction, part, &change).unwrap();
                    open.changes.push(change);
                }
                Step::Savepoint if known => {
                    let open = model.get_mut(&name).unwrap();
                    let part = open.next_part;
                    open.next_part += 1;
                    open.savepoints.push((part, open.changes.len()));
                    open.opened.push((part, open.changes.len()));
                }
                Step::RollbackTo if known => {
                    let open = model.get_mut(&name).unwrap();
                    let Some((part, before)) = open.savepoints.pop() else { continue };
                    open.changes.truncate(before);
                    // Every part that was opened since goes, the outer ones last, as servers tell it.
                    for (inner, _) in open.opened.iter().rev().filter(|(other, _)| *other >= part) {
                        if aborted.insert((name, *inner)) {
                            store.abort_part(&transaction, *inner).unwrap();
                        }
                    }
                }
                Step::Commit => {
                    let expected = model.remove(&name).map(|open| open.changes).unwrap_or_default();
                    aborted.retain(|(other, _)| *other != name);
                    let found = drain(store.commit(&transaction).unwrap()).unwrap();
                    prop_assert_eq!(found, expected);
                }
                Step::Abort => {
                    model.remove(&name);
                    aborted.retain(|(other, _)| *other != name);
                    store.abort(&transaction);
                }
                Step::Prepare if known => store.prepare(&transaction, "p").unwrap(),
                _ => {}
            }
            prop_assert_eq!(store.list().len(), model.len());
            if memory_max < 50_000 {
                prop_assert!(store.memory() <= memory_max + 4_000 + 5 * 800, "{} of {}", store.memory(), memory_max);
            }
        }
        for (name, open) in model {
            prop_assert_eq!(drain(store.commit(&id(name)).unwrap()).unwrap(), open.changes);
        }
        prop_assert!(disk.list().unwrap().is_empty(), "spill files go with their transactions");
        prop_assert_eq!(store.memory(), 0);
        prop_assert_eq!(store.oldest(), None);
    }
}

#[test]
fn a_transaction_far_larger_than_memory_costs_little_more_disk_than_its_bytes() {
    let disk = Forgetful::new(1);
    let limit = 1 << 20;
    let mut store = open(&disk, limit);
    let (shape, transaction) = (table(2), id("large"));
    store.start(&transaction, position(1), None);
    let (rows, mut bytes) = (200_000_u64, 0);
    for number in 0..rows {
        let change = insert(&shape, number, b"a value of some bytes");
        bytes += change.operation.value_bytes() as u64;
        store.append(&transaction, 0, &change).unwrap();
    }
    assert!(store.memory_peak() < limit + (600 << 10), "{} bytes in memory", store.memory_peak());
    // What a row costs in the server's stream: 9 bytes, and 5 for each column.
    let streamed = bytes + rows * (9 + 2 * 5);
    let spilled = store.spilled_bytes_total();
    assert!(spilled > 0 && spilled * 10 <= streamed * 14, "{spilled} bytes spilled for {streamed}");
    let mut committed = store.commit(&transaction).unwrap();
    let mut number = 0;
    while let Some(done) = committed.next().unwrap() {
        let Done::Change(change) = done else { panic!("nothing was done to objects") };
        assert_eq!(change.address.position, number);
        number += 1;
    }
    assert_eq!(number, rows);
}

#[test]
fn savepoints_that_are_rolled_back_leave_no_change_behind() {
    let disk = Forgetful::new(1);
    let mut store = open(&disk, 8 << 20);
    let (shape, transaction) = (table(2), id("t"));
    store.start(&transaction, position(1), None);
    for part in 0..50_000_u32 {
        store.append(&transaction, part, &insert(&shape, u64::from(part), b"value")).unwrap();
        if part % 2 == 1 {
            store.abort_part(&transaction, part).unwrap();
        }
    }
    assert_eq!(store.list()[0].records, 25_000, "what was rolled back at once is not even kept");
    let changes = drain(store.commit(&transaction).unwrap()).unwrap();
    assert_eq!(changes.len(), 25_000);
    assert!(changes.iter().all(|change| change.address.position % 2 == 0));
}

#[test]
fn the_shape_of_a_table_is_that_of_its_own_transaction() {
    let disk = Forgetful::new(1);
    let mut store = open(&disk, 0);
    let (before, after) = (table(2), table(3));
    let (keeps, gives_up) = (id("keeps"), id("gives up"));
    for transaction in [&keeps, &gives_up] {
        store.start(transaction, position(1), None);
        store.append(transaction, 0, &insert(&before, 1, b"")).unwrap();
        store.append(transaction, 1, &insert(&after, 2, b"")).unwrap();
    }
    store.abort_part(&gives_up, 1).unwrap();
    let columns = |changes: Vec<Change>| changes.iter().map(|change| change.table.columns.len()).collect::<Vec<_>>();
    assert_eq!(columns(drain(store.commit(&gives_up).unwrap()).unwrap()), [2]);
    assert_eq!(columns(drain(store.commit(&keeps).unwrap()).unwrap()), [2, 3]);
}

#[test]
fn the_oldest_open_transaction_is_known_whatever_ends_in_between() {
    let disk = Forgetful::new(1);
    let mut store = open(&disk, 0);
    for number in 1..=4 {
        store.start(&id(number), position(number), None);
    }
    store.prepare(&id(1), "gid").unwrap();
    assert_eq!(store.oldest(), Some(&position(1)));
    store.abort(&id(2));
    assert_eq!(store.list()[0].prepared.as_deref(), Some("gid"));
    store.commit(&id(1)).unwrap();
    assert_eq!(store.oldest(), Some(&position(3)));
}

#[test]
fn leftovers_of_a_crash_are_removed_and_strangers_stay() {
    let disk = Forgetful::new(1);
    let mut store = open(&disk, 0);
    store.start(&id("t"), position(1), None);
    store.append(&id("t"), 0, &insert(&table(2), 1, b"value")).unwrap();
    for stranger in ["E10-0000000001.spill", "E1.note"] {
        disk.create(stranger).unwrap();
    }
    assert_eq!(disk.list().unwrap().len(), 3);
    disk.kill();
    let store = open(&disk, 0);
    assert_eq!(disk.list().unwrap().len(), 2);
    assert!(store.list().is_empty());
}

#[test]
fn a_full_disk_stops_with_its_name() {
    let disk = Forgetful::new(1);
    let mut store = open(&disk, 10_000);
    disk.full_after(Some(20_000));
    store.start(&id("t"), position(1), None);
    let mut append =
        || (0..100).try_for_each(|number| store.append(&id("t"), 0, &insert(&table(2), number, &[7; 1000])));
    let refused = append().unwrap_err();
    assert!(matches!(&refused, Error::Full { file, .. } if file == "E1-0000000001.spill"), "{refused}");
    assert_eq!(refused.code().as_str(), "DRV-00421");
    assert!(refused.next_step().contains("make room"));
}

#[test]
fn a_damaged_spill_file_hands_out_no_wrong_row() {
    for flipped in [0_u64, 5, 9, 13, 20, 700, 1500] {
        let disk = Forgetful::new(1);
        let mut store = open(&disk, 0);
        store.start(&id("t"), position(1), None);
        let changes: Vec<Change> = (0..2).map(|number| insert(&table(2), number, &[7; 1000])).collect();
        for change in &changes {
            store.append(&id("t"), 0, change).unwrap();
        }
        let file = disk.open("E1-0000000001.spill").unwrap();
        let mut byte = [0];
        file.read_at(&mut byte, flipped).unwrap();
        file.write_at(&[byte[0] ^ 4], flipped).unwrap();
        let mut committed = store.commit(&id("t")).unwrap();
        let mut good = Vec::new();
        let refused = loop {
            match committed.next() {
                Ok(Some(Done::Change(change))) => good.push(change),
                Ok(Some(Done::Object(_))) => panic!("nothing was done to objects"),
                Ok(None) => panic!("byte {flipped} was not missed"),
                Err(error) => break error,
            }
        };
        assert_eq!(good, changes[..good.len()]);
        assert!(matches!(&refused, Error::Damaged { file, .. } if file == "E1-0000000001.spill"), "{refused}");
        assert_eq!(refused.code().as_str(), "DRV-00422");
    }
}

#[test]
fn a_file_that_was_swapped_or_cut_is_noticed() {
    let disk = Forgetful::new(1);
    let mut store = open(&disk, 0);
    for name in ["a", "b"] {
        store.start(&id(name), position(1), None);
        store.append(&id(name), 0, &insert(&table(2), 1, name.as_bytes())).unwrap();
    }
    disk.rename("E1-0000000002.spill", "E1-0000000001.spill").unwrap();
    let refused = drain(store.commit(&id("a")).unwrap()).unwrap_err();
    assert!(refused.to_string().contains("damaged"), "{refused}");
    store.start(&id("c"), position(1), None);
    store.append(&id("c"), 0, &insert(&table(2), 1, b"value")).unwrap();
    disk.open("E1-0000000003.spill").unwrap().set_len(20).unwrap();
    let refused = drain(store.commit(&id("c")).unwrap()).unwrap_err();
    assert!(refused.to_string().contains("damaged"), "{refused}");
}
