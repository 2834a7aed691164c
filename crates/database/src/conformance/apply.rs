//! Cases: rows that a session writes.

use super::plan::{accepted, apply, plan, plan_between, rejected, transact};
use super::stage::Given::{Binary, Integer, Null, Text, Unchanged};
use super::stage::{Choice, Stage, checkpoint};
use super::{Kind, Subject};
use crate::{ForeignKeyPolicy, Outcome, SessionRequest, TriggerPolicy, Write};
use change::{Operation, Row, TableDefinition, Value};
use std::sync::Arc;

pub(super) fn inserts_updates_and_deletes_are_applied_in_order(subject: &dyn Subject) {
    let stage = Stage::new(subject);
    let item = stage.item();
    let mut session = stage.replicat("R1");
    let plan = plan(&mut *session, &item);
    let row = |id, name, data| [Integer(id), Text(name), data];
    let operations = [
        stage.insert(&row(1, "a", Binary(b"\0\xff"))),
        stage.insert(&row(2, "b", Null)),
        stage.insert(&row(3, "", Binary(b""))),
        stage.update(&row(1, "a", Binary(b"\0\xff")), &row(1, "c", Null)),
        stage.update(&row(2, "b", Null), &row(4, "b", Binary(b"key moved"))),
        stage.delete(&row(3, "", Binary(b""))),
        stage.insert(&row(2, "again", Null)),
        stage.delete(&row(2, "again", Null)),
        stage.insert(&row(2, "and again", Null)),
    ];
    transact(&mut *session, &plan, &operations);
    let expected = [row(1, "c", Null), row(4, "b", Binary(b"key moved")), row(2, "and again", Null)];
    stage.assert_rows(&item, &expected.each_ref().map(|row| &row[..]));
}

pub(super) fn several_calls_make_one_transaction(subject: &dyn Subject) {
    let stage = Stage::new(subject);
    let item = stage.item();
    let mut session = stage.replicat("R1");
    let plan = plan(&mut *session, &item);
    session.begin().expect("a transaction starts");
    for batch in 0..4_i64 {
        let insert = |id| stage.insert(&[Integer(batch * 100 + id), Text("x"), Null]);
        accepted(apply(&mut *session, &plan, &(0..100).map(insert).collect::<Vec<_>>()));
        accepted(apply(&mut *session, &plan, &[]));
        stage.assert_rows(&item, &[]);
    }
    accepted(session.commit());
    assert_eq!(stage.rows(&item).len(), 400);
}

pub(super) fn one_call_may_write_to_several_tables(subject: &dyn Subject) {
    let stage = Stage::new(subject);
    let [left, right] = ["left", "right"].map(|name| stage.table(name, &[("id", Kind::Integer)], &["id"]));
    let mut session = stage.replicat("R1");
    let plans = [plan(&mut *session, &left), plan(&mut *session, &right)];
    let operations: Vec<_> = (0..20).map(|id| stage.insert(&[Integer(id)])).collect();
    let writes: Vec<_> = operations
        .iter()
        .enumerate()
        .map(|(place, operation)| Write { plan: &plans[place % 3 % 2], operation })
        .collect();
    session.begin().expect("a transaction starts");
    accepted(session.apply(&writes));
    accepted(session.commit());
    assert_eq!(stage.rows(&left).len(), 13);
    assert_eq!(stage.rows(&right).len(), 7);
}

pub(super) fn columns_are_found_by_the_plan(subject: &dyn Subject) {
    let stage = Stage::new(subject);
    let columns = [("extra", Kind::Text), ("b", Kind::Text), ("id", Kind::Integer), ("a", Kind::Text)];
    let target = stage.table("target", &columns, &["id"]);
    let columns = [("id", Kind::Integer), ("a", Kind::Text), ("gone", Kind::Binary), ("b", Kind::Text)];
    let source = stage.definition(stage.name("source"), &columns, &["id"]);
    let mut session = stage.replicat("R1");
    let plan = plan_between(&source, session.table(&target.name).expect("asked").expect("there"));
    let row = |id, a, b| [Integer(id), Text(a), Binary(b"not mapped"), Text(b)];
    stage.write(&target, &[stage.insert(&[Text("theirs"), Text("b"), Integer(7), Text("a")])]);
    let operations = [
        stage.insert(&row(1, "a1", "b1")),
        stage.insert(&row(2, "a2", "b2")),
        stage.update(&row(1, "a1", "b1"), &row(3, "a3", "b3")),
        stage.update(&row(7, "a", "b"), &row(7, "a7", "b7")),
        stage.delete(&row(2, "a2", "b2")),
    ];
    transact(&mut *session, &plan, &operations);
    let expected = [[Null, Text("b3"), Integer(3), Text("a3")], [Text("theirs"), Text("b7"), Integer(7), Text("a7")]];
    stage.assert_rows(&target, &expected.each_ref().map(|row| &row[..]));
    transact(&mut *session, &plan, &[Operation::truncate()]);
    stage.assert_rows(&target, &[]);
}

pub(super) fn unchanged_leaves_a_value_alone(subject: &dyn Subject) {
    let stage = Stage::new(subject);
    let item = stage.item();
    stage.write(&item, &[stage.insert(&[Integer(1), Text("kept"), Binary(b"kept")])]);
    let mut session = stage.replicat("R1");
    let plan = plan(&mut *session, &item);
    let update = |old: Option<Row>, new: Row| Operation::Update { old, new };
    let operations = [
        update(None, stage.row(&[Integer(1), Unchanged, Binary(b"new")])),
        update(Some(stage.row(&[Integer(1), Unchanged, Unchanged])), stage.row(&[Integer(2), Unchanged, Unchanged])),
        update(None, stage.row(&[Integer(2), Unchanged, Unchanged])),
    ];
    transact(&mut *session, &plan, &operations[..1]);
    stage.assert_rows(&item, &[&[Integer(1), Text("kept"), Binary(b"new")]]);
    transact(&mut *session, &plan, &operations[1..]);
    stage.assert_rows(&item, &[&[Integer(2), Text("kept"), Binary(b"new")]]);
}

pub(super) fn a_key_is_enough_to_find_a_row(subject: &dyn Subject) {
    let stage = Stage::new(subject);
    let item = stage.item();
    let row = |id, name| [Integer(id), Text(name), Null];
    stage.write(&item, &[stage.insert(&row(1, "a")), stage.insert(&row(2, "b"))]);
    let mut session = stage.replicat("R1");
    let plan = plan(&mut *session, &item);
    let operations = [
        Operation::Update { old: None, new: stage.row(&row(1, "c")) },
        Operation::Delete { old: stage.row(&[Integer(2), Unchanged, Unchanged]) },
    ];
    transact(&mut *session, &plan, &operations);
    stage.assert_rows(&item, &[&row(1, "c")]);
}

pub(super) fn other_values_of_an_old_row_do_not_matter(subject: &dyn Subject) {
    let stage = Stage::new(subject);
    let item = stage.item();
    let row = |id, name| [Integer(id), Text(name), Null];
    stage.write(&item, &[stage.insert(&row(1, "drifted")), stage.insert(&row(2, "drifted"))]);
    let mut session = stage.replicat("R1");
    let plan = plan(&mut *session, &item);
    let operations = [stage.update(&row(1, "told"), &row(1, "new")), stage.delete(&row(2, "told"))];
    transact(&mut *session, &plan, &operations);
    stage.assert_rows(&item, &[&row(1, "new")]);
}

pub(super) fn a_table_without_key_is_written_by_the_plans_key(subject: &dyn Subject) {
    let stage = Stage::new(subject);
    let target = stage.table("heap", &[("a", Kind::Integer), ("b", Kind::Text)], &[]);
    let source = stage.definition(target.name.clone(), &[("a", Kind::Integer), ("b", Kind::Text)], &["a"]);
    let mut session = stage.replicat("R1");
    let plan = plan(&mut *session, &source);
    let row = |a, b| [Integer(a), Text(b)];
    let operations = [
        stage.insert(&row(1, "x")),
        stage.insert(&row(2, "x")),
        stage.insert(&row(3, "x")),
        stage.update(&row(2, "x"), &row(2, "y")),
        stage.delete(&row(1, "x")),
    ];
    transact(&mut *session, &plan, &operations);
    stage.assert_rows(&target, &[&row(2, "y"), &row(3, "x")]);
}

pub(super) fn a_row_may_be_nothing_but_its_key_when_applied(subject: &dyn Subject) {
    let stage = Stage::new(subject);
    let bare = stage.table("bare", &[("id", Kind::Integer)], &["id"]);
    let mut session = stage.replicat("R1");
    let plan = plan(&mut *session, &bare);
    let operations = [
        stage.insert(&[Integer(1)]),
        stage.update(&[Integer(1)], &[Integer(2)]),
        Operation::Update { old: None, new: stage.row(&[Integer(2)]) },
        stage.insert(&[Integer(1)]),
        stage.delete(&[Integer(2)]),
    ];
    transact(&mut *session, &plan, &operations);
    stage.assert_rows(&bare, &[&[Integer(1)]]);
}

pub(super) fn a_key_that_holds_null_is_found(subject: &dyn Subject) {
    let stage = Stage::new(subject);
    let mut definition = stage.definition(
        stage.name("halfkey"),
        &[("a", Kind::Text), ("b", Kind::Text), ("c", Kind::Text)],
        &["a", "b"],
    );
    Arc::make_mut(&mut definition.columns).iter_mut().for_each(|column| column.nullable = true);
    let table = stage.create(definition, &[]);
    let mut session = stage.replicat("R1");
    let plan = plan(&mut *session, &table);
    let row = |b, c| [Text("a"), b, Text(c)];
    let operations = [
        stage.insert(&row(Null, "1")),
        stage.insert(&row(Text(""), "2")),
        stage.insert(&row(Text("NULL"), "3")),
        stage.update(&row(Null, "1"), &row(Null, "4")),
        stage.update(&row(Text(""), "2"), &row(Text("b"), "5")),
        stage.update(&row(Null, "4"), &row(Text(""), "4")),
        stage.update(&row(Text("b"), "5"), &row(Null, "5")),
        stage.delete(&row(Null, "5")),
    ];
    transact(&mut *session, &plan, &operations);
    stage.assert_rows(&table, &[&row(Text(""), "4"), &row(Text("NULL"), "3")]);
}

pub(super) fn unique_values_are_swapped_through_a_third(subject: &dyn Subject) {
    let stage = Stage::new(subject);
    let definition = stage.definition(stage.name("seat"), &[("id", Kind::Integer), ("place", Kind::Text)], &["id"]);
    let seat = stage.create(definition, &[vec![1]]);
    let row = |id, place| [Integer(id), Text(place)];
    stage.write(&seat, &[stage.insert(&row(1, "a")), stage.insert(&row(2, "b"))]);
    let mut session = stage.replicat("R1");
    let plan = plan(&mut *session, &seat);
    let operations = [
        stage.update(&row(1, "a"), &row(1, "third")),
        stage.update(&row(2, "b"), &row(2, "a")),
        stage.update(&row(1, "third"), &row(1, "b")),
    ];
    transact(&mut *session, &plan, &operations);
    stage.assert_rows(&seat, &[&row(1, "b"), &row(2, "a")]);
}

pub(super) fn a_missing_row_is_rejected_with_its_index(subject: &dyn Subject) {
    let stage = Stage::new(subject);
    let item = stage.item();
    let row = |id| [Integer(id), Text("x"), Null];
    stage.write(&item, &[stage.insert(&row(1))]);
    let mut session = stage.replicat("R1");
    let plan = plan(&mut *session, &item);
    let missing = [
        stage.update(&row(9), &row(9)),
        stage.update(&row(9), &row(10)),
        stage.delete(&row(9)),
        Operation::Update { old: None, new: stage.row(&row(9)) },
    ];
    for (place, operation) in missing.into_iter().enumerate() {
        session.begin().expect("a transaction starts");
        accepted(apply(&mut *session, &plan, &[stage.insert(&row(2))]));
        let mut operations: Vec<_> = (3..3 + place as i64).map(|id| stage.insert(&row(id))).collect();
        operations.push(operation);
        operations.push(stage.delete(&row(1)));
        let outcome = rejected(apply(&mut *session, &plan, &operations));
        assert_eq!(outcome, (place, Outcome::Missing), "the index counts within the call");
        session.rollback().expect("rolled back");
        stage.assert_rows(&item, &[&row(1)]);
    }
}

pub(super) fn a_duplicate_is_rejected_with_its_index(subject: &dyn Subject) {
    let stage = Stage::new(subject);
    let definition = stage.definition(stage.name("seat"), &[("id", Kind::Integer), ("place", Kind::Text)], &["id"]);
    let seat = stage.create(definition, &[vec![1]]);
    let row = |id, place| [Integer(id), Text(place)];
    stage.write(&seat, &[stage.insert(&row(1, "a")), stage.insert(&row(2, "b"))]);
    let mut session = stage.replicat("R1");
    let plan = plan(&mut *session, &seat);
    let duplicates = [
        stage.insert(&row(1, "new")),
        stage.insert(&row(9, "a")),
        stage.update(&row(2, "b"), &row(1, "b")),
        stage.update(&row(2, "b"), &row(2, "a")),
    ];
    for (place, operation) in duplicates.into_iter().enumerate() {
        session.begin().expect("a transaction starts");
        let mut operations: Vec<_> =
            (0..place).map(|at| stage.insert(&row(at as i64 + 20, ["p", "q", "r"][at]))).collect();
        operations.push(operation);
        assert_eq!(rejected(apply(&mut *session, &plan, &operations)), (place, Outcome::Duplicate));
        session.rollback().expect("rolled back");
        stage.assert_rows(&seat, &[&row(1, "a"), &row(2, "b")]);
    }
}

pub(super) fn null_may_repeat_in_a_unique_key(subject: &dyn Subject) {
    let stage = Stage::new(subject);
    let definition = stage.definition(stage.name("seat"), &[("id", Kind::Integer), ("place", Kind::Text)], &["id"]);
    let seat = stage.create(definition, &[vec![1]]);
    let mut session = stage.replicat("R1");
    let plan = plan(&mut *session, &seat);
    let rows = [[Integer(1), Null], [Integer(2), Null]];
    transact(&mut *session, &plan, &rows.each_ref().map(|row| stage.insert(row)));
    stage.assert_rows(&seat, &rows.each_ref().map(|row| &row[..]));
}

pub(super) fn a_null_that_is_not_allowed_is_rejected(subject: &dyn Subject) {
    let stage = Stage::new(subject);
    let columns = [("id", Kind::Integer), ("must", Kind::Text)];
    let mut definition = stage.definition(stage.name("strict"), &columns, &["id"]);
    Arc::make_mut(&mut definition.columns)[1].nullable = false;
    let table = stage.create(definition, &[]);
    let mut session = stage.replicat("R1");
    let plan = plan(&mut *session, &table);
    session.begin().expect("a transaction starts");
    let operations = [stage.insert(&[Integer(1), Text("x")]), stage.insert(&[Integer(2), Null])];
    assert_eq!(rejected(apply(&mut *session, &plan, &operations)), (1, Outcome::Constraint));
    session.rollback().expect("rolled back");
    stage.assert_rows(&table, &[]);
}

pub(super) fn rollback_leaves_nothing(subject: &dyn Subject) {
    let stage = Stage::new(subject);
    let item = stage.item();
    let row = |id, name| [Integer(id), Text(name), Null];
    stage.write(&item, &[stage.insert(&row(1, "a")), stage.insert(&row(2, "b"))]);
    let mut session = stage.replicat("R1");
    session.rollback().expect("without a transaction it does nothing");
    let plan = plan(&mut *session, &item);
    let operations = [
        stage.insert(&row(3, "c")),
        stage.update(&row(1, "a"), &row(4, "d")),
        stage.delete(&row(2, "b")),
        Operation::truncate(),
        stage.insert(&row(2, "e")),
    ];
    session.begin().expect("a transaction starts");
    accepted(apply(&mut *session, &plan, &operations));
    session.rollback().expect("rolled back");
    session.rollback().expect("nothing is left to roll back");
    stage.assert_rows(&item, &[&row(1, "a"), &row(2, "b")]);
    transact(&mut *session, &plan, &[stage.insert(&row(3, "after"))]);
    stage.assert_rows(&item, &[&row(1, "a"), &row(2, "b"), &row(3, "after")]);
}

pub(super) fn a_session_that_goes_away_leaves_nothing(subject: &dyn Subject) {
    let stage = Stage::new(subject);
    let item = stage.item();
    let row = [Integer(1), Text("a"), Null];
    let mut session = stage.replicat("R1");
    let plan = plan(&mut *session, &item);
    session.begin().expect("a transaction starts");
    accepted(apply(&mut *session, &plan, &[stage.insert(&row)]));
    drop(session);
    stage.assert_rows(&item, &[]);
    let mut session = stage.session("R1");
    transact(&mut *session, &plan, &[stage.insert(&row)]);
    stage.assert_rows(&item, &[&row]);
}

pub(super) fn applied_transactions_are_not_captured(subject: &dyn Subject) {
    assert_left_out(subject, TriggerPolicy::Suppress);
}

pub(super) fn applied_transactions_are_not_captured_where_triggers_fire(subject: &dyn Subject) {
    assert_left_out(subject, TriggerPolicy::Fire);
}

fn assert_left_out(subject: &dyn Subject, triggers: TriggerPolicy) {
    let stage = Stage::new(subject);
    let item = stage.item();
    let start = stage.register("E1");
    let row = |id, name| [Integer(id), Text(name), Null];
    let mut stream = stage.open("E1", &start);
    drop(stage.replicat("R1"));
    let mut session = stage.session_with(SessionRequest { triggers, ..stage.session_request("R1") });
    let plan = plan(&mut *session, &item);
    let ours = [
        stage.insert(&row(1, "ours")),
        stage.insert(&row(2, "ours")),
        stage.update(&row(1, "ours"), &row(3, "ours")),
        stage.delete(&row(2, "ours")),
    ];
    let theirs = |id| stage.insert(&row(id, "theirs"));
    transact(&mut *session, &plan, &ours);
    stage.write(&item, &[theirs(10)]);
    session.begin().expect("a transaction starts");
    accepted(apply(&mut *session, &plan, &[Operation::truncate()]));
    session.save_checkpoint(&checkpoint("R1", 1)).expect("saved");
    accepted(session.commit());
    // A session that rolls back leaves no mark on the user who comes after it.
    session.begin().expect("a transaction starts");
    accepted(apply(&mut *session, &plan, &ours[..1]));
    session.rollback().expect("rolled back");
    stage.write(&item, &[theirs(11)]);
    session.begin().expect("a transaction starts");
    accepted(apply(&mut *session, &plan, &ours[..1]));
    drop(session);
    stage.write(&item, &[theirs(12)]);
    let told = stage.told(&mut stream);
    let operations: Vec<_> = told.into_iter().flat_map(|told| told.changes).map(|change| change.operation).collect();
    assert_eq!(operations, [10, 11, 12].map(theirs));
}

/// What one database tells, another one takes, and a user of it reads the same bytes.
pub(super) fn captured_rows_apply_byte_for_byte(subject: &dyn Subject) {
    let (source, target) = (Stage::new(subject), Stage::new(subject));
    let samples = source.instance.samples();
    let definition = |stage: &Stage| {
        let columns = [("id", Kind::Integer), ("text", Kind::Text), ("data", Kind::Binary), ("number", Kind::Integer)];
        let mut definition = stage.definition(stage.name("wide"), &columns, &["id"]);
        let samples = stage.instance.samples().into_iter().enumerate();
        let samples = samples.map(|(place, (column, _))| change::Column { name: format!("sample_{place}"), ..column });
        definition.columns = definition.columns.iter().cloned().chain(samples).collect();
        definition
    };
    let table = source.create(definition(&source), &[]);
    target.create(definition(&target), &[]);
    let start = source.register("E1");

    let long = "0123456789abcdef\u{1f980}".repeat(20_000);
    let all: Vec<u8> = (0..=255).collect();
    let texts = ["", " ", "'quoted'", "\\", "line\nline", "漢字", &long];
    let count = samples.iter().map(|(_, values)| values.len()).chain([texts.len()]).max().unwrap_or_default();
    let row = |id: usize, shift: usize| {
        let start = source.row(&[
            Integer(id as i64),
            if (id + shift) % 5 == 4 { Null } else { Text(texts[(id + shift) % texts.len()]) },
            if (id + shift) % 3 == 2 { Null } else { Binary(&all[..(id + shift) * 37 % 257]) },
            Integer(i64::MAX - shift as i64),
        ]);
        let more = samples.iter().map(|(_, values)| {
            let value = values.get((id + shift) % values.len().max(1)).and_then(Option::as_ref);
            value.map_or(Value::Null, |value| Value::Bytes(value))
        });
        Row::from_values(start.values().chain(more))
    };
    let mut operations: Vec<_> = (0..count).map(|id| Operation::Insert { new: row(id, 0) }).collect();
    operations.extend((0..count).step_by(2).map(|id| Operation::Update { old: Some(row(id, 0)), new: row(id, 1) }));
    operations.push(Operation::Delete { old: row(1, 0) });
    source.write(&table, &operations);

    let told = source.told(&mut source.open_with("E1", &start, Choice::everything()));
    let mut session = target.replicat("R1");
    for transaction in &told {
        let changes = &transaction.changes;
        let plans: Vec<_> = changes.iter().map(|change| plan(&mut *session, &change.table)).collect();
        let writes: Vec<_> =
            changes.iter().zip(&plans).map(|(change, plan)| Write { plan, operation: &change.operation }).collect();
        session.begin().expect("a transaction starts");
        accepted(session.apply(&writes));
        accepted(session.commit());
    }
    assert_eq!(source.rows(&table).len(), count - 1);
    assert_eq!(target.rows(&table), source.rows(&table));
}

/// A parent and a child table with a foreign key between them.
fn family(stage: &Stage) -> (Arc<TableDefinition>, Arc<TableDefinition>) {
    let parent = stage.table("parent", &[("id", Kind::Integer)], &["id"]);
    let child = stage.table("child", &[("id", Kind::Integer), ("parent", Kind::Integer)], &["id"]);
    stage.instance.create_reference(&child.name, &[1], &parent.name);
    (parent, child)
}

pub(super) fn foreign_keys_can_be_left_to_the_source(subject: &dyn Subject) {
    let stage = Stage::new(subject);
    let (parent, child) = family(&stage);
    stage.write(&parent, &[stage.insert(&[Integer(1)])]);
    let mut session = stage.replicat("R1");
    let (parent_plan, child_plan) = (plan(&mut *session, &parent), plan(&mut *session, &child));
    transact(&mut *session, &child_plan, &[stage.insert(&[Integer(1), Integer(7)])]);
    transact(&mut *session, &parent_plan, &[stage.delete(&[Integer(1)])]);
    stage.assert_rows(&parent, &[]);
    stage.assert_rows(&child, &[&[Integer(1), Integer(7)]]);
}

pub(super) fn foreign_keys_are_checked_at_commit_when_asked(subject: &dyn Subject) {
    let stage = Stage::new(subject);
    let (parent, child) = family(&stage);
    drop(stage.replicat("R1"));
    let request = SessionRequest { foreign_keys: ForeignKeyPolicy::Check, ..stage.session_request("R1") };
    let mut session = stage.session_with(request);
    let (parent_plan, child_plan) = (plan(&mut *session, &parent), plan(&mut *session, &child));
    // The child comes first: in between, the key is violated.
    session.begin().expect("a transaction starts");
    accepted(apply(&mut *session, &child_plan, &[stage.insert(&[Integer(1), Integer(1)])]));
    accepted(apply(&mut *session, &parent_plan, &[stage.insert(&[Integer(1)])]));
    accepted(session.commit());
    session.begin().expect("a transaction starts");
    accepted(apply(&mut *session, &child_plan, &[stage.insert(&[Integer(2), Integer(9)])]));
    let (index, outcome) = rejected(session.commit());
    assert_eq!((index, outcome), (1, Outcome::ForeignKey), "the index of a check at commit is the number of writes");
    session.rollback().expect("rolled back");
    stage.assert_rows(&child, &[&[Integer(1), Integer(1)]]);
}

pub(super) fn a_write_that_is_attempted_and_rejected_leaves_nothing_and_the_transaction_goes_on(subject: &dyn Subject) {
    let stage = Stage::new(subject);
    let item = stage.item();
    let row = |id, name| [Integer(id), Text(name), Null];
    stage.write(&item, &[stage.insert(&row(1, "a"))]);
    let mut session = stage.replicat("R1");
    let plan = plan(&mut *session, &item);
    session.begin().expect("a transaction starts");
    let mut attempt = |operation: Operation| session.attempt(&Write { plan: &plan, operation: &operation });
    accepted(attempt(stage.insert(&row(2, "b"))));
    assert_eq!(rejected(attempt(stage.insert(&row(1, "again")))), (0, Outcome::Duplicate));
    assert_eq!(rejected(attempt(stage.update(&row(7, "x"), &row(7, "y")))), (0, Outcome::Missing));
    assert_eq!(rejected(attempt(stage.delete(&row(7, "x")))), (0, Outcome::Missing));
    accepted(attempt(stage.update(&row(1, "a"), &row(1, "c"))));
    accepted(apply(&mut *session, &plan, &[stage.insert(&row(3, "d"))]));
    accepted(session.commit());
    stage.assert_rows(&item, &[&row(1, "c"), &row(2, "b"), &row(3, "d")]);
}

pub(super) fn the_row_that_stands_is_told_in_the_notation_of_the_change(subject: &dyn Subject) {
    let stage = Stage::new(subject);
    let item = stage.item();
    let row = |id, name, data| [Integer(id), Text(name), data];
    stage.write(&item, &[stage.insert(&row(1, "a\"'\\", Binary(b"\0\xff"))), stage.insert(&row(2, "", Null))]);
    let mut session = stage.replicat("R1");
    let plan = plan(&mut *session, &item);
    session.begin().expect("a transaction starts");
    for (id, expected) in [(1, Some(row(1, "a\"'\\", Binary(b"\0\xff")))), (2, Some(row(2, "", Null))), (3, None)] {
        let image = stage.row(&[Integer(id), Unchanged, Unchanged]);
        let found = session.find(&plan, &image).expect("the target tells rows");
        assert_eq!(found, expected.map(|values| stage.row(&values)), "row {id}");
    }
    // It sees what the transaction itself has done.
    accepted(apply(&mut *session, &plan, &[stage.insert(&row(3, "new", Null))]));
    let image = stage.row(&[Integer(3), Unchanged, Unchanged]);
    assert!(session.find(&plan, &image).expect("the target tells rows").is_some());
    session.rollback().expect("it can be given up");
}
