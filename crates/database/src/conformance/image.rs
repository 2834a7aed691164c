//! Cases: what a change tells of its row.

use super::expectation::{Copy, assert_told};
use super::stage::Given::{self, Binary, Integer, Null, Text, Unchanged};
use super::stage::{Stage, sorted};
use super::{Kind, Subject};
use change::{Operation, OperationKind, Row, TableDefinition, Value};
use std::sync::Arc;

/// Writes `done` as one transaction and fails unless exactly that is told.
fn assert_travels(subject: &dyn Subject, stage: &Stage, table: &TableDefinition, done: &[Operation]) {
    let start = stage.register("E1");
    stage.write(table, done);
    let told = stage.told(&mut stage.open("E1", &start));
    let done = done.iter().map(|operation| (table.name.clone(), operation.clone())).collect();
    assert_told(subject, &told, &[done]);
}

pub(super) fn null_and_empty_are_different(subject: &dyn Subject) {
    let stage = Stage::new(subject);
    let item = stage.item();
    let (null, empty) = ([Integer(1), Null, Null], [Integer(1), Text(""), Binary(b"")]);
    let done = [
        stage.insert(&null),
        stage.insert(&[Integer(2), Text(""), Binary(b"")]),
        stage.update(&null, &empty),
        stage.update(&empty, &null),
        stage.delete(&null),
    ];
    assert_travels(subject, &stage, &item, &done);
    stage.assert_rows(&item, &[&[Integer(2), Text(""), Binary(b"")]]);
}

pub(super) fn every_byte_travels(subject: &dyn Subject) {
    let stage = Stage::new(subject);
    let item = stage.item();
    let all: Vec<u8> = (0..=255).chain((0..=255).rev()).collect();
    let parts: [&[u8]; 6] = [&all, b"\0", b"\0\0\0", b"\xff\xfe", b"\\x41", b"'\"\\"];
    let insert = |(id, bytes): (usize, &&[u8])| stage.insert(&[Integer(id as i64), Null, Binary(bytes)]);
    let done: Vec<_> = parts.iter().enumerate().map(insert).collect();
    assert_travels(subject, &stage, &item, &done);
}

/// Text that has met careless software before.
const TEXTS: [&str; 14] = [
    " ",
    "'",
    "\"",
    "\\",
    "\\N",
    "NULL",
    "a\tb\r\nc\n",
    "'; DROP TABLE item; --",
    "%s $1 ?1 :x {} \u{1}\u{7f}",
    "naïve – “quoted”",
    "漢字かな",
    "\u{1f980}\u{1f468}\u{200d}\u{1f469}",
    "e\u{301} is not \u{e9}",
    "\u{feff}\u{202e}\u{ffff}",
];

pub(super) fn odd_text_travels(subject: &dyn Subject) {
    let stage = Stage::new(subject);
    let item = stage.item();
    let insert = |(id, text): (usize, &&str)| stage.insert(&[Integer(id as i64), Text(text), Null]);
    let done: Vec<_> = TEXTS.iter().enumerate().map(insert).collect();
    assert_travels(subject, &stage, &item, &done);
}

pub(super) fn whole_numbers_at_the_edges_travel(subject: &dyn Subject) {
    let stage = Stage::new(subject);
    let table = stage.table("number", &[("id", Kind::Integer), ("value", Kind::Integer)], &["id"]);
    let edges = [0, 1, -1, i64::from(i32::MAX) + 1, 1 << 53, (1 << 53) + 1, i64::MAX, i64::MIN];
    let done: Vec<_> = edges.iter().map(|edge| stage.insert(&[Integer(*edge), Integer(*edge)])).collect();
    assert_travels(subject, &stage, &table, &done);
}

pub(super) fn long_values_travel(subject: &dyn Subject) {
    let stage = Stage::new(subject);
    let item = stage.item();
    let text: String =
        (0u32..200_000).map(|at| char::from(b'a' + (at % 1000 * at % 26) as u8)).collect::<String>() + "é漢";
    let text = text.repeat(5);
    let bytes: Vec<u8> = (0u32..1_000_000).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let (long, short) = ([Integer(1), Text(&text), Binary(&bytes)], [Integer(1), Text("s"), Binary(b"s")]);
    let done = [stage.insert(&long), stage.update(&long, &short), stage.update(&short, &long), stage.delete(&long)];
    assert_travels(subject, &stage, &item, &done);
}

pub(super) fn a_long_value_that_does_not_change_is_told_or_left_out(subject: &dyn Subject) {
    let stage = Stage::new(subject);
    let item = stage.item();
    let bytes: Vec<u8> = (0u32..100_000).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let (before, after) = ([Integer(1), Text("a"), Binary(&bytes)], [Integer(1), Text("b"), Binary(&bytes)]);
    let start = stage.register("E1");
    stage.write(&item, &[stage.insert(&before)]);
    // A user who names only the column that changes.
    let new = stage.row(&[Integer(1), Text("b"), Unchanged]);
    stage.write(&item, &[Operation::Update { old: Some(stage.row(&before)), new }]);
    stage.assert_rows(&item, &[&after]);
    let done = [stage.insert(&before), stage.update(&before, &after)];
    let done = done.map(|operation| vec![(item.name.clone(), operation)]);
    assert_told(subject, &stage.told(&mut stage.open("E1", &start)), &done);
}

pub(super) fn updates_and_deletes_tell_which_row(subject: &dyn Subject) {
    let stage = Stage::new(subject);
    let item = stage.item();
    let first = [Integer(1), Text("a"), Binary(b"x")];
    let second = [Integer(1), Text("b"), Binary(b"x")];
    let third = [Integer(1), Text("b"), Null];
    let done =
        [stage.insert(&first), stage.update(&first, &second), stage.update(&second, &third), stage.delete(&third)];
    assert_travels(subject, &stage, &item, &done);
}

pub(super) fn old_rows_are_whole(subject: &dyn Subject) {
    let stage = Stage::new(subject);
    let item = stage.item();
    let (before, after) = ([Integer(1), Text("a"), Binary(b"x")], [Integer(1), Text("b"), Null]);
    let start = stage.register("E1");
    let done = [stage.insert(&before), stage.update(&before, &after), stage.delete(&after)];
    stage.write(&item, &done);
    let told: Vec<_> =
        stage.told(&mut stage.open("E1", &start)).into_iter().flat_map(|transaction| transaction.changes).collect();
    let whole = |row: &Row| assert!(row.is_complete(), "an old row is whole");
    for change in &told {
        match &change.operation {
            Operation::Update { old, .. } => whole(old.as_ref().expect("an update tells its old row")),
            Operation::Delete { old } => whole(old),
            Operation::Insert { .. } | Operation::Truncate(_) => {}
        }
    }
    assert_eq!(told.len(), done.len());
}

pub(super) fn a_key_that_changes_tells_old_and_new(subject: &dyn Subject) {
    let stage = Stage::new(subject);
    let item = stage.item();
    let row = |id| [Integer(id), Text("a"), Binary(b"x")];
    let done = [
        stage.insert(&row(1)),
        stage.update(&row(1), &row(2)),
        stage.update(&row(2), &row(-3)),
        stage.delete(&row(-3)),
        stage.insert(&row(1)),
    ];
    assert_travels(subject, &stage, &item, &done);
    stage.assert_rows(&item, &[&row(1)]);
}

pub(super) fn a_key_of_several_columns_keeps_its_order(subject: &dyn Subject) {
    let stage = Stage::new(subject);
    let columns = [("x", Kind::Text), ("value", Kind::Integer), ("y", Kind::Integer), ("z", Kind::Text)];
    let table = stage.table("compound", &columns, &["z", "x", "y"]);
    assert_eq!(table.key(), [3, 0, 2]);
    let row = |x, value, y, z| [Text(x), Integer(value), Integer(y), Text(z)];
    let start = stage.register("E1");
    let done = [
        stage.insert(&row("a", 1, 1, "b")),
        stage.insert(&row("b", 2, 1, "a")),
        stage.update(&row("a", 1, 1, "b"), &row("a", 1, 2, "b")),
        stage.delete(&row("b", 2, 1, "a")),
    ];
    stage.write(&table, &done);
    let told = stage.told(&mut stage.open("E1", &start));
    assert!(told.iter().flat_map(|told| &told.changes).all(|change| change.table.key() == [3, 0, 2]));
    assert_told(subject, &told, &[done.map(|operation| (table.name.clone(), operation)).to_vec()]);
}

pub(super) fn a_row_may_be_nothing_but_its_key(subject: &dyn Subject) {
    let stage = Stage::new(subject);
    let table = stage.table("bare", &[("id", Kind::Integer)], &["id"]);
    let done = [
        stage.insert(&[Integer(1)]),
        stage.update(&[Integer(1)], &[Integer(2)]),
        stage.insert(&[Integer(1)]),
        stage.delete(&[Integer(2)]),
    ];
    assert_travels(subject, &stage, &table, &done);
    stage.assert_rows(&table, &[&[Integer(1)]]);
}

pub(super) fn a_key_may_hold_null(subject: &dyn Subject) {
    let stage = Stage::new(subject);
    let mut definition = stage.definition(
        stage.name("halfkey"),
        &[("a", Kind::Text), ("b", Kind::Text), ("c", Kind::Text)],
        &["a", "b"],
    );
    Arc::make_mut(&mut definition.columns).iter_mut().for_each(|column| column.nullable = true);
    let table = stage.create(definition, &[]);
    let row = |b, c| [Text("a"), b, Text(c)];
    let done = [
        stage.insert(&row(Null, "1")),
        stage.insert(&row(Text(""), "2")),
        stage.update(&row(Null, "1"), &row(Null, "3")),
        stage.update(&row(Null, "3"), &row(Text("b"), "3")),
        stage.update(&row(Text(""), "2"), &row(Null, "2")),
    ];
    assert_travels(subject, &stage, &table, &done);
    stage.assert_rows(&table, &[&row(Text("b"), "3"), &row(Null, "2")]);
}

pub(super) fn one_key_deleted_and_inserted_again_in_one_transaction(subject: &dyn Subject) {
    let stage = Stage::new(subject);
    let item = stage.item();
    let (old, new) = ([Integer(1), Text("old"), Null], [Integer(1), Text("new"), Binary(b"n")]);
    let done = [stage.insert(&old), stage.delete(&old), stage.insert(&new), stage.delete(&new), stage.insert(&old)];
    assert_travels(subject, &stage, &item, &done);
    stage.assert_rows(&item, &[&old]);
}

pub(super) fn unique_values_swapped_through_a_third_arrive_in_order(subject: &dyn Subject) {
    let stage = Stage::new(subject);
    let definition = stage.definition(stage.name("seat"), &[("id", Kind::Integer), ("place", Kind::Text)], &["id"]);
    let seat = stage.create(definition, &[vec![1]]);
    let row = |id, place: Given<'static>| [Integer(id), place];
    let done = [
        stage.insert(&row(1, Text("a"))),
        stage.insert(&row(2, Text("b"))),
        stage.update(&row(1, Text("a")), &row(1, Text("third"))),
        stage.update(&row(2, Text("b")), &row(2, Text("a"))),
        stage.update(&row(1, Text("third")), &row(1, Text("b"))),
    ];
    assert_travels(subject, &stage, &seat, &done);
    stage.assert_rows(&seat, &[&row(1, Text("b")), &row(2, Text("a"))]);
}

pub(super) fn a_truncation_empties_every_copy(subject: &dyn Subject) {
    let stage = Stage::new(subject);
    let item = stage.item();
    let start = stage.register("E1");
    let row = |id, name| [Integer(id), Text(name), Null];
    stage.write(&item, &[stage.insert(&row(1, "a")), stage.insert(&row(2, "b"))]);
    stage.write(&item, &[Operation::truncate()]);
    stage.write(&item, &[stage.insert(&row(1, "again"))]);
    stage.assert_rows(&item, &[&row(1, "again")]);
    let mut copy = Copy::default();
    copy.take(&stage.told(&mut stage.open("E1", &start)));
    assert_eq!(copy.rows(&item.name), stage.rows(&item));
}

pub(super) fn a_truncation_is_told_as_one(subject: &dyn Subject) {
    let stage = Stage::new(subject);
    let item = stage.item();
    let start = stage.register("E1");
    stage.write(&item, &[stage.insert(&[Integer(1), Null, Null]), stage.insert(&[Integer(2), Null, Null])]);
    stage.write(&item, &[Operation::truncate()]);
    let told = stage.told(&mut stage.open("E1", &start));
    let kinds: Vec<_> = told.iter().flat_map(|told| &told.changes).map(|change| change.operation.kind()).collect();
    assert_eq!(kinds, [OperationKind::Insert, OperationKind::Insert, OperationKind::Truncate]);
}

pub(super) fn values_of_every_type_travel(subject: &dyn Subject) {
    let stage = Stage::new(subject);
    let samples = stage.instance.samples();
    let tables: Vec<_> = samples
        .iter()
        .enumerate()
        .map(|(place, (column, _))| {
            let id = stage.instance.column("id", Kind::Integer).with_key(0);
            let id = change::Column { nullable: false, ..id };
            let name = stage.name(&format!("sample_{place}"));
            stage.create(TableDefinition { name, columns: [id, column.clone()].into() }, &[])
        })
        .collect();
    let start = stage.register("E1");
    let mut done = Vec::new();
    for (table, (_, values)) in tables.iter().zip(&samples) {
        for (id, value) in values.iter().enumerate() {
            let key = stage.instance.integer(id as i64);
            let value = value.as_ref().map_or(Value::Null, |value| Value::Bytes(value));
            let new = Row::from_values([Value::Bytes(&key), value]);
            done.push((table.name.clone(), Operation::Insert { new }));
        }
    }
    if done.is_empty() {
        return;
    }
    stage.instance.write(&done);
    let told = stage.told(&mut stage.open("E1", &start));
    for (table, (column, _)) in tables.iter().zip(&samples) {
        let written = done.iter().filter(|(name, _)| *name == table.name);
        let written = sorted(written.filter_map(|(_, operation)| inserted(operation)).collect());
        assert_eq!(stage.rows(table), written, "a user reads what was written as {}", column.native);
    }
    assert_told(subject, &told, &[done]);
}

fn inserted(operation: &Operation) -> Option<Row> {
    if let Operation::Insert { new } = operation { Some(new.clone()) } else { None }
}
