//! Cases: what a database says of itself, and what it refuses to capture.

use super::Subject;
use super::stage::Given::{Integer, Null, Text};
use super::stage::{Choice, Stage};
use super::{Kind, expectation::assert_told};
use crate::ErrorClass;
use change::{Column, TableDefinition};

pub(super) fn identity_names_product_version_and_database(subject: &dyn Subject) {
    let stage = Stage::new(subject);
    let identity = stage.database.identity().expect("a database knows itself");
    assert!(!identity.product.is_empty() && !identity.version.is_empty() && !identity.name.is_empty(), "{identity:?}");
    assert_eq!(identity, stage.database.identity().expect("a database knows itself"), "an identity stays");
}

pub(super) fn tables_are_listed_with_columns_and_keys_in_name_order(subject: &dyn Subject) {
    let stage = Stage::new(subject);
    let second = stage.table("b", &[("x", Kind::Text), ("y", Kind::Integer), ("z", Kind::Binary)], &["y", "x"]);
    let first = stage.table("a", &[("only", Kind::Integer)], &["only"]);
    let keyless = stage.table("c", &[("free", Kind::Text)], &[]);
    let listed = stage.database.tables().expect("tables are listed");
    let names: Vec<_> = listed.iter().map(|table| &table.name).collect();
    assert!(names.is_sorted(), "{names:?}");
    for expected in [&*first, &*second, &*keyless] {
        let found = listed.iter().find(|table| table.name == expected.name).expect("a user's table is listed");
        assert_eq!(shape(found), shape(expected), "{}", expected.name);
        assert_eq!(found.key(), expected.key(), "key of {}", expected.name);
    }
    assert_eq!(listed.len(), 4, "three tables and the mark: {names:?}");
}

fn shape(table: &TableDefinition) -> Vec<(&str, change::LogicalType)> {
    table.columns.iter().map(|Column { name, logical, .. }| (name.as_str(), *logical)).collect()
}

pub(super) fn objects_of_our_own_are_not_listed(subject: &dyn Subject) {
    let stage = Stage::new(subject);
    stage.item();
    let names = || stage.database.tables().expect("listed").into_iter().map(|table| table.name).collect::<Vec<_>>();
    let before = names();
    stage.register("E1");
    let _session = stage.replicat("R1");
    assert_eq!(names(), before);
}

pub(super) fn a_session_finds_tables_by_the_case_rule(subject: &dyn Subject) {
    let stage = Stage::new(subject);
    let item = stage.item();
    let mut session = stage.replicat("R1");
    let listed = stage.database.tables().expect("listed").into_iter().find(|table| table.name == item.name);
    assert_eq!(session.table(&item.name).expect("asked"), listed);
    assert_eq!(session.table(&stage.name("nobody")).expect("asked"), None);
    if let Some(other) = stage.in_other_case(&item.name) {
        assert_eq!(session.table(&other).expect("asked"), listed, "by another case, under its own name");
    }
}

pub(super) fn registering_twice_is_refused_by_name(subject: &dyn Subject) {
    let stage = Stage::new(subject);
    stage.item();
    let start = stage.register("E1");
    let error = stage.database.register_capture("E1", &Choice::everything()).expect_err("refused");
    assert!(error.to_string().contains("E1"), "{error}");
    // The refusal leaves the first registration alone.
    let told = stage.told(&mut stage.open("E1", &start));
    assert!(told.is_empty());
}

pub(super) fn a_group_that_was_unregistered_can_start_afresh(subject: &dyn Subject) {
    let stage = Stage::new(subject);
    let item = stage.item();
    let old = stage.register("E1");
    stage.write(&item, &[stage.insert(&[Integer(1), Text("before"), Null])]);
    stage.database.unregister_capture("E1").expect("unregistered");
    assert_eq!(stage.refusal("E1", &old, Choice::everything()).0, ErrorClass::Missing);
    let start = stage.register("E1");
    let done = stage.insert(&[Integer(2), Text("after"), Null]);
    stage.write(&item, std::slice::from_ref(&done));
    let told = stage.told(&mut stage.open("E1", &start));
    assert_told(subject, &told, &[vec![(item.name.clone(), done)]]);
}

pub(super) fn unregistering_an_unknown_group_does_nothing(subject: &dyn Subject) {
    let stage = Stage::new(subject);
    let is_known = |group| stage.database.has_capture(group).expect("an answer");
    stage.database.unregister_capture("E1").expect("nothing to do");
    assert!(!is_known("E1"));
    stage.register("E1");
    stage.database.unregister_capture("E2").expect("nothing to do");
    assert!(is_known("E1") && !is_known("E2"));
    stage.database.unregister_capture("E1").expect("unregistered");
    assert!(!is_known("E1"));
    stage.database.unregister_capture("E1").expect("nothing to do");
}

pub(super) fn users_go_on_after_a_group_is_unregistered(subject: &dyn Subject) {
    let stage = Stage::new(subject);
    let item = stage.item();
    stage.register("E1");
    stage.database.unregister_capture("E1").expect("unregistered");
    let row = [Integer(1), Text("a"), Null];
    stage.write(&item, &[stage.insert(&row)]);
    stage.assert_rows(&item, &[&row]);
}

pub(super) fn opening_without_registration_is_refused(subject: &dyn Subject) {
    let stage = Stage::new(subject);
    stage.item();
    let start = stage.register("E1");
    let (class, words) = stage.refusal("E2", &start, Choice::everything());
    assert_eq!(class, ErrorClass::Missing);
    assert!(words.contains("E2"), "{words}");
}

pub(super) fn a_required_table_that_is_missing_is_refused_by_name(subject: &dyn Subject) {
    let stage = Stage::new(subject);
    let missing = stage.name("nobody");
    let choice = Choice::requiring(&missing);
    let error = stage.database.register_capture("E1", &choice).expect_err("refused");
    assert!(error.to_string().contains("nobody"), "{error}");
    let start = stage.register("E1");
    let (class, words) = stage.refusal("E1", &start, choice);
    assert_eq!(class, ErrorClass::Missing);
    assert!(words.contains("nobody"), "{words}");
}

pub(super) fn a_table_without_key_is_refused_by_name(subject: &dyn Subject) {
    let stage = Stage::new(subject);
    let keyed = stage.item();
    let keyless = stage.table("heap", &[("a", Kind::Integer), ("b", Kind::Text)], &[]);
    let error = stage.database.register_capture("E1", &Choice::everything()).expect_err("refused");
    assert_eq!(error.class(), ErrorClass::Unsupported, "{error}");
    assert!(error.to_string().contains("heap"), "{error}");
    // Nobody asks for it here.
    let choice = Choice::only(&[&keyed]);
    let start = stage.database.register_capture("E1", &choice).expect("registered");
    let (class, words) = stage.refusal("E1", &start, Choice::only(&[&keyed, &keyless]));
    assert_eq!(class, ErrorClass::Unsupported, "{words}");
    assert!(words.contains("heap"), "{words}");
}

pub(super) fn chosen_columns_stand_in_for_a_missing_key(subject: &dyn Subject) {
    let stage = Stage::new(subject);
    let heap = stage.table("heap", &[("a", Kind::Integer), ("b", Kind::Text), ("c", Kind::Text)], &[]);
    let choice = Choice::everything().with_key(&heap, &["b", "a"]);
    let start = stage.database.register_capture("E1", &choice).expect("registered");
    let first = [Integer(1), Text("one"), Text("x")];
    let second = [Integer(1), Text("two"), Text("x")];
    let changed = [Integer(1), Text("two"), Text("y")];
    let done = [stage.insert(&first), stage.insert(&second), stage.update(&second, &changed), stage.delete(&first)];
    stage.write(&heap, &done);
    let told = stage.told(&mut stage.open_with("E1", &start, choice));
    assert!(told.iter().flat_map(|told| &told.changes).all(|change| change.table.key() == [1, 0]));
    let done = done.into_iter().map(|operation| (heap.name.clone(), operation)).collect();
    assert_told(subject, &told, &[done]);
}

pub(super) fn chosen_columns_replace_a_key(subject: &dyn Subject) {
    let stage = Stage::new(subject);
    let item = stage.item();
    let choice = Choice::everything().with_key(&item, &["name"]);
    let start = stage.database.register_capture("E1", &choice).expect("registered");
    let old = [Integer(1), Text("a"), Null];
    let new = [Integer(1), Text("b"), Null];
    let done = vec![stage.insert(&old), stage.update(&old, &new), stage.delete(&new)];
    stage.write(&item, &done);
    let told = stage.told(&mut stage.open_with("E1", &start, choice));
    assert!(told.iter().flat_map(|told| &told.changes).all(|change| change.table.key() == [1]));
    assert_told(subject, &told, &[done.into_iter().map(|operation| (item.name.clone(), operation)).collect()]);
}

pub(super) fn a_chosen_column_that_is_missing_is_refused_by_name(subject: &dyn Subject) {
    let stage = Stage::new(subject);
    let heap = stage.table("heap", &[("a", Kind::Integer)], &[]);
    let choice = Choice::everything().with_key(&heap, &["nowhere"]);
    let error = stage.database.register_capture("E1", &choice).expect_err("refused");
    assert!(error.to_string().contains("nowhere") && error.to_string().contains("heap"), "{error}");
}

pub(super) fn tables_that_are_not_selected_are_not_told(subject: &dyn Subject) {
    let stage = Stage::new(subject);
    let (wanted, other) = (
        stage.table("wanted", &[("id", Kind::Integer)], &["id"]),
        stage.table("other", &[("id", Kind::Integer)], &["id"]),
    );
    let choice = Choice::only(&[&wanted]);
    let start = stage.database.register_capture("E1", &choice).expect("registered");
    let insert = |table: &TableDefinition, id| (table.name.clone(), stage.insert(&[Integer(id)]));
    stage.instance.write(&[insert(&other, 1)]);
    stage.instance.write(&[insert(&other, 2), insert(&wanted, 1), insert(&other, 3)]);
    stage.instance.write(&[insert(&wanted, 2)]);
    stage.instance.write(&[insert(&other, 4)]);
    let told = stage.told(&mut stage.open_with("E1", &start, choice));
    assert_told(subject, &told, &[vec![insert(&wanted, 1)], vec![insert(&wanted, 2)]]);
}
