//! Cases: order, restart and release.

use super::expectation::{assert_told, can};
use super::stage::Given::{Integer, Null, Text};
use super::stage::{Choice, Stage, Told};
use super::{Capability, Kind, Subject};
use crate::ErrorClass;
use change::{LogPosition, Operation, TableDefinition, TableName};
use std::sync::Arc;

type Done = Vec<Vec<(TableName, Operation)>>;

/// A little history over two tables: `count` transactions of one to three changes, to be written.
fn planned(stage: &Stage, tables: &[Arc<TableDefinition>; 2], count: i64) -> Done {
    (0..count)
        .map(|number| {
            let row = |id: i64, name| [Integer(id), Text(name), Null];
            let here = tables[(number % 2) as usize].name.clone();
            let there = tables[((number + 1) % 2) as usize].name.clone();
            match number % 3 {
                0 => vec![(here, stage.insert(&row(number, "new")))],
                1 => vec![
                    (there, stage.update(&row(number - 1, "new"), &row(number - 1, "changed"))),
                    (here.clone(), stage.insert(&row(number, "passing"))),
                    (here, stage.delete(&row(number, "passing"))),
                ],
                _ => vec![
                    (here.clone(), stage.insert(&row(number, "one"))),
                    (there, stage.insert(&row(number, "other"))),
                ],
            }
        })
        .collect()
}

/// The same, written at once.
fn history(stage: &Stage, tables: &[Arc<TableDefinition>; 2], count: i64) -> Done {
    let done = planned(stage, tables, count);
    done.iter().for_each(|transaction| stage.instance.write(transaction));
    done
}

/// The same, each transaction read before the next one is written, so that a source which may merge neighbours has none.
fn read_history(stage: &Stage, start: &LogPosition, tables: &[Arc<TableDefinition>; 2], count: i64) -> Vec<Told> {
    let mut stream = stage.open("E1", start);
    let mut told = Vec::new();
    for transaction in planned(stage, tables, count) {
        stage.instance.write(&transaction);
        told.extend(stage.told(&mut stream));
    }
    told
}

fn two_tables(stage: &Stage) -> [Arc<TableDefinition>; 2] {
    let columns = [("id", Kind::Integer), ("name", Kind::Text), ("data", Kind::Binary)];
    ["left", "right"].map(|name| stage.table(name, &columns, &["id"]))
}

pub(super) fn registration_divides_earlier_from_later_changes(subject: &dyn Subject) {
    let stage = Stage::new(subject);
    let item = stage.item();
    let row = |id| [Integer(id), Text("x"), Null];
    stage.write(&item, &[stage.insert(&row(1))]);
    let start = stage.register("E1");
    let done = [stage.insert(&row(2)), stage.delete(&row(1))];
    stage.write(&item, &done);
    let told = stage.told(&mut stage.open("E1", &start));
    assert_told(subject, &told, &[done.map(|operation| (item.name.clone(), operation)).to_vec()]);
}

pub(super) fn changes_come_in_commit_order_each_exactly_once(subject: &dyn Subject) {
    let stage = Stage::new(subject);
    let tables = two_tables(&stage);
    let start = stage.register("E1");
    let done = history(&stage, &tables, 60);
    let told = stage.told(&mut stage.open("E1", &start));
    assert_told(subject, &told, &done);
}

pub(super) fn changes_come_while_the_source_is_open(subject: &dyn Subject) {
    let stage = Stage::new(subject);
    let item = stage.item();
    let start = stage.register("E1");
    let mut stream = stage.open("E1", &start);
    assert!(stage.told(&mut stream).is_empty());
    for id in 0..10 {
        let done = stage.insert(&[Integer(id), Text("x"), Null]);
        stage.write(&item, std::slice::from_ref(&done));
        assert_told(subject, &stage.told(&mut stream), &[vec![(item.name.clone(), done)]]);
    }
}

pub(super) fn nothing_new_is_no_error(subject: &dyn Subject) {
    let stage = Stage::new(subject);
    stage.item();
    let start = stage.register("E1");
    let mut stream = stage.open("E1", &start);
    (0..3).for_each(|_| {
        stream.read();
    });
    assert!(stream.transactions.is_empty());
}

pub(super) fn a_transaction_larger_than_a_batch_arrives_whole(subject: &dyn Subject) {
    let stage = Stage::new(subject);
    let item = stage.item();
    let start = stage.register("E1");
    let many: Vec<_> = (0..5000).map(|id| stage.insert(&[Integer(id), Text("x"), Null])).collect();
    let few = stage.delete(&[Integer(1), Text("x"), Null]);
    stage.write(&item, &many);
    stage.write(&item, std::slice::from_ref(&few));
    let named = |operation| (item.name.clone(), operation);
    let done = [many.into_iter().map(named).collect(), vec![named(few)]];
    let told = stage.told(&mut stage.open("E1", &start));
    assert_told(subject, &told, &done);
}

/// The operations of the transactions that follow `position`.
fn rest(told: &[Told], position: &LogPosition) -> Vec<(TableName, Operation)> {
    let after = told.iter().position(|transaction| transaction.next == *position).map_or(0, |place| place + 1);
    told[after..].iter().flat_map(Told::operations).collect()
}

pub(super) fn every_position_is_a_place_to_go_on_from(subject: &dyn Subject) {
    let stage = Stage::new(subject);
    let tables = two_tables(&stage);
    let start = stage.register("E1");
    let told = read_history(&stage, &start, &tables, 24);
    let positions = std::iter::once(&start).chain(told.iter().map(|transaction| &transaction.next));
    for position in positions {
        let again = stage.told(&mut stage.open("E1", position));
        let operations: Vec<_> = again.iter().flat_map(Told::operations).collect();
        assert_eq!(operations, rest(&told, position), "after a restart at {position}");
    }
}

pub(super) fn reading_again_tells_the_same_names_and_addresses(subject: &dyn Subject) {
    let stage = Stage::new(subject);
    let tables = two_tables(&stage);
    let start = stage.register("E1");
    let mut stream = stage.open("E1", &start);
    history(&stage, &tables, 6);
    let first = stage.told(&mut stream);
    drop(stream);
    let again = stage.told(&mut stage.open("E1", &start));
    let commits = |told: &[Told]| told.iter().map(|transaction| transaction.commit.clone()).collect::<Vec<_>>();
    let addresses = |told: &[Told]| {
        told.iter().flat_map(|transaction| &transaction.changes).map(|change| change.address).collect::<Vec<_>>()
    };
    assert_eq!(addresses(&first), addresses(&again));
    if can(subject, Capability::TransactionBoundaries) {
        assert_eq!(commits(&first), commits(&again));
    }
}

pub(super) fn a_source_that_dies_inside_a_transaction_tells_it_again_from_its_start(subject: &dyn Subject) {
    let stage = Stage::new(subject);
    let item = stage.item();
    let start = stage.register("E1");
    let done: Vec<_> = (0..5000).map(|id| stage.insert(&[Integer(id), Text("x"), Null])).collect();
    stage.write(&item, &done);
    let mut stream = stage.open("E1", &start);
    stream.read_some();
    drop(stream);
    let told = stage.told(&mut stage.open("E1", &start));
    assert_told(subject, &told, &[done.into_iter().map(|operation| (item.name.clone(), operation)).collect()]);
}

pub(super) fn below_a_released_position_nothing_can_be_read(subject: &dyn Subject) {
    let stage = Stage::new(subject);
    let tables = two_tables(&stage);
    let start = stage.register("E1");
    let mut stream = stage.open("E1", &start);
    history(&stage, &tables, 3);
    let first = stage.told(&mut stream);
    let middle = &first.last().expect("something was told").next;
    let left = &tables[0];
    let done = stage.insert(&[Integer(100), Text("x"), Null]);
    stage.write(left, std::slice::from_ref(&done));
    stage.told(&mut stream);
    stream.release(middle);
    drop(stream);
    let (class, words) = stage.refusal("E1", &start, Choice::everything());
    assert_eq!(class, ErrorClass::Mismatch, "{words}");
    let told = stage.told(&mut stage.open("E1", middle));
    assert_told(subject, &told, &[vec![(left.name.clone(), done)]]);
}

pub(super) fn release_keeps_what_is_not_released(subject: &dyn Subject) {
    let stage = Stage::new(subject);
    let tables = two_tables(&stage);
    let start = stage.register("E1");
    let told = read_history(&stage, &start, &tables, 12);
    let mut position = &start;
    for transaction in &told {
        let mut stream = stage.open("E1", position);
        let operations: Vec<_> = stage.told(&mut stream).iter().flat_map(Told::operations).collect();
        assert_eq!(operations, rest(&told, position), "after a restart at {position}, which was released");
        stream.release(&transaction.next);
        position = &transaction.next;
    }
}

pub(super) fn releasing_again_or_backwards_changes_nothing(subject: &dyn Subject) {
    let stage = Stage::new(subject);
    let item = stage.item();
    let start = stage.register("E1");
    let mut stream = stage.open("E1", &start);
    stage.write(&item, &[stage.insert(&[Integer(1), Text("x"), Null])]);
    let first = stage.told(&mut stream).pop().expect("told").next;
    stage.write(&item, &[stage.insert(&[Integer(2), Text("x"), Null])]);
    let second = stage.told(&mut stream).pop().expect("told").next;
    stream.release(&second);
    stream.release(&second);
    stream.release(&first);
    drop(stream);
    assert_eq!(stage.refusal("E1", &first, Choice::everything()).0, ErrorClass::Mismatch);
    assert!(stage.told(&mut stage.open("E1", &second)).is_empty());
}

pub(super) fn each_group_releases_for_itself(subject: &dyn Subject) {
    let stage = Stage::new(subject);
    let tables = two_tables(&stage);
    let one = stage.register("E1");
    let two = stage.register("E2");
    let mut stream = stage.open("E1", &one);
    let done = history(&stage, &tables, 6);
    let told = stage.told(&mut stream);
    assert_told(subject, &told, &done);
    stream.release(&told.last().expect("told").next);
    drop(stream);
    assert_told(subject, &stage.told(&mut stage.open("E2", &two)), &done);
    stage.database.unregister_capture("E1").expect("unregistered");
    assert_told(subject, &stage.told(&mut stage.open("E2", &two)), &done);
}

pub(super) fn a_group_that_registers_later_reads_later_changes(subject: &dyn Subject) {
    let stage = Stage::new(subject);
    let tables = two_tables(&stage);
    let one = stage.register("E1");
    let done = planned(&stage, &tables, 8);
    done[..4].iter().for_each(|transaction| stage.instance.write(transaction));
    let two = stage.register("E2");
    done[4..].iter().for_each(|transaction| stage.instance.write(transaction));
    assert_told(subject, &stage.told(&mut stage.open("E2", &two)), &done[4..]);
    assert_told(subject, &stage.told(&mut stage.open("E1", &one)), &done);
}

pub(super) fn a_position_of_another_database_is_a_mismatch(subject: &dyn Subject) {
    let (here, there) = (Stage::new(subject), Stage::new(subject));
    here.item();
    there.item();
    let (ours, theirs) = (here.register("E1"), there.register("E1"));
    let (class, words) = here.refusal("E1", &theirs, Choice::everything());
    assert_eq!(class, ErrorClass::Mismatch, "{words}");
    assert!(here.told(&mut here.open("E1", &ours)).is_empty());
}

pub(super) fn a_position_that_is_no_position_is_a_mismatch(subject: &dyn Subject) {
    let stage = Stage::new(subject);
    stage.item();
    stage.register("E1");
    for text in ["", "nonsense", "0", "99999999999999999999999999", "'; DROP TABLE item; --", "\u{0}", "é"] {
        let (class, words) = stage.refusal("E1", &LogPosition::new(text), Choice::everything());
        assert_eq!(class, ErrorClass::Mismatch, "{text:?}: {words}");
    }
}

pub(super) fn a_database_restored_from_a_backup_is_a_mismatch(subject: &dyn Subject) {
    let stage = Stage::new(subject);
    let item = stage.item();
    let start = stage.register("E1");
    stage.write(&item, &[stage.insert(&[Integer(1), Text("kept"), Null])]);
    stage.instance.backup();
    stage.write(&item, &[stage.insert(&[Integer(2), Text("lost"), Null])]);
    let mut stream = stage.open("E1", &start);
    let told = stage.told(&mut stream);
    let future = told.last().expect("told").next.clone();
    drop(stream);
    stage.instance.restore();
    let (class, words) = stage.refusal("E1", &future, Choice::everything());
    assert_eq!(class, ErrorClass::Mismatch, "{words}");
}

pub(super) fn a_crash_keeps_what_is_committed_and_where_reading_was(subject: &dyn Subject) {
    let stage = Stage::new(subject);
    let [left, right] = two_tables(&stage);
    let start = stage.register("E1");
    let mut stream = stage.open("E1", &start);
    let row = |id| [Integer(id), Text("x"), Null];
    stage.write(&left, &[stage.insert(&row(1))]);
    let next = stage.told(&mut stream).pop().expect("told").next;
    let done = stage.insert(&row(2));
    stage.write(&right, std::slice::from_ref(&done));
    stage.instance.crash();
    assert_eq!(stream.failure(), ErrorClass::ConnectionLost, "an open source dies with its database");
    stage.assert_rows(&left, &[&row(1)]);
    stage.assert_rows(&right, &[&row(2)]);
    let told = stage.told(&mut stage.open("E1", &next));
    assert_told(subject, &told, &[vec![(right.name.clone(), done)]]);
}
