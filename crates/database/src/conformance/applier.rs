//! Cases: rows of a group's appliers in the checkpoint table.

use super::Subject;
use super::plan::{accepted, apply, plan};
use super::stage::Given::{Integer, Null, Text};
use super::stage::{Stage, checkpoint};
use crate::{CheckpointRow, CheckpointSet, ErrorClass, Session, SessionRequest};

const KEY: i64 = 7 * CheckpointRow::KEY_STEP;
const ANOTHER_KEY: i64 = 8 * CheckpointRow::KEY_STEP;

/// A stage whose checkpoint table has a row of R1 for two homes.
fn stage(subject: &dyn Subject) -> Stage {
    let stage = Stage::new(subject);
    let table = stage.checkpoint_table();
    stage.database.create_checkpoint_table(&table).expect("created");
    for key in [KEY, ANOTHER_KEY] {
        stage.database.insert_checkpoint(&table, &checkpoint("R1", key)).expect("inserted");
    }
    stage
}

fn session(stage: &Stage, group_key: i64) -> Box<dyn Session> {
    stage.session_with(SessionRequest { group_key, ..stage.session_request("R1") })
}

fn load(stage: &Stage, key: i64) -> CheckpointSet {
    session(stage, key).load_checkpoints().expect("loaded").expect("the group has a row")
}

fn replace(stage: &Stage, set: &CheckpointSet) {
    let mut session = session(stage, set.group.group_key);
    session.begin().expect("a transaction starts");
    session.replace_checkpoints(set).expect("replaced");
    accepted(session.commit());
}

/// The row of an applier between low watermark 100 and high watermark 900, with `transactions` names in its list.
fn applier(key: i64, number: u32, transactions: u32) -> CheckpointRow {
    let names = (0..transactions).map(|transaction| format!("{number}.{transaction:08}"));
    CheckpointRow {
        sequence: 3,
        rba: 4096,
        log_csn: Some("0000000900".to_owned()),
        log_complete_csn: Some("0000000100".to_owned()),
        log_complete_transactions: names.collect(),
        ..checkpoint("R1", CheckpointRow::applier_key(key, number))
    }
}

fn set(key: i64, appliers: u32) -> CheckpointSet {
    CheckpointSet {
        group: CheckpointRow { sequence: 2, rba: 77, ..checkpoint("R1", key) },
        appliers: (1..=appliers).map(|number| applier(key, number, number * 150)).collect(),
        appliers_wanted: appliers,
        map_hash: Some("0123456789abcdef".repeat(4)),
    }
}

pub(super) fn a_group_and_its_appliers_are_loaded_as_they_were_saved(subject: &dyn Subject) {
    let stage = stage(subject);
    assert_eq!(load(&stage, KEY), CheckpointSet::alone(checkpoint("R1", KEY)));
    for appliers in [4, 1, 0, 12] {
        replace(&stage, &set(KEY, appliers));
        assert_eq!(load(&stage, KEY), set(KEY, appliers), "{appliers} appliers");
        let group = session(&stage, KEY).load_checkpoint().expect("loaded");
        assert_eq!(group, Some(set(KEY, appliers).group), "the group's own row");
    }
    let unknown = CheckpointSet { map_hash: None, ..set(KEY, 2) };
    replace(&stage, &unknown);
    assert_eq!(load(&stage, KEY), unknown);
}

pub(super) fn appliers_of_two_homes_are_apart(subject: &dyn Subject) {
    let stage = stage(subject);
    let table = stage.checkpoint_table();
    replace(&stage, &set(KEY, 3));
    replace(&stage, &set(ANOTHER_KEY, 2));
    assert_eq!((load(&stage, KEY), load(&stage, ANOTHER_KEY)), (set(KEY, 3), set(ANOTHER_KEY, 2)));
    replace(&stage, &set(KEY, 1));
    assert_eq!(load(&stage, ANOTHER_KEY), set(ANOTHER_KEY, 2));
    stage.database.delete_checkpoint(&table, "R1", KEY).expect("deleted");
    assert_eq!(session(&stage, KEY).load_checkpoints().expect("loaded"), None);
    assert_eq!(load(&stage, ANOTHER_KEY), set(ANOTHER_KEY, 2));
    stage.database.insert_checkpoint(&table, &checkpoint("R1", KEY)).expect("inserted");
    assert_eq!(load(&stage, KEY), CheckpointSet::alone(checkpoint("R1", KEY)), "nothing of the appliers was left");
}

pub(super) fn each_applier_saves_its_own_row_with_its_rows(subject: &dyn Subject) {
    let stage = stage(subject);
    let item = stage.item();
    replace(&stage, &set(KEY, 3));
    let row = |id| [Integer(id), Text("x"), Null];
    for number in [3, 1, 3] {
        let mut session = session(&stage, CheckpointRow::applier_key(KEY, number));
        let plan = plan(&mut *session, &item);
        let before = stage.rows(&item).len() as i64;
        let saved = applier(KEY, number, 200 + number);
        session.begin().expect("a transaction starts");
        accepted(apply(&mut *session, &plan, &[stage.insert(&row(before))]));
        session.save_checkpoint(&saved).expect("saved");
        accepted(session.commit());
        assert_eq!(session.load_checkpoint().expect("loaded"), Some(saved));
        session.begin().expect("a transaction starts");
        accepted(apply(&mut *session, &plan, &[stage.insert(&row(1000))]));
        session.save_checkpoint(&applier(KEY, number, 0)).expect("saved");
        session.rollback().expect("rolled back");
    }
    stage.assert_rows(&item, &[&row(0), &row(1), &row(2)]);
    let appliers = vec![applier(KEY, 1, 201), applier(KEY, 2, 300), applier(KEY, 3, 203)];
    assert_eq!(load(&stage, KEY), CheckpointSet { appliers, ..set(KEY, 3) });
}

pub(super) fn rollback_drops_a_replaced_set(subject: &dyn Subject) {
    let stage = stage(subject);
    replace(&stage, &set(KEY, 3));
    let mut session = session(&stage, KEY);
    for appliers in [0, 5] {
        session.begin().expect("a transaction starts");
        session.replace_checkpoints(&set(KEY, appliers)).expect("replaced");
        session.rollback().expect("rolled back");
        assert_eq!(session.load_checkpoints().expect("loaded"), Some(set(KEY, 3)));
    }
}

pub(super) fn a_row_of_an_applier_that_is_gone_is_told(subject: &dyn Subject) {
    let stage = stage(subject);
    replace(&stage, &set(KEY, 3));
    let gone = CheckpointRow::applier_key(KEY, 2);
    stage.database.delete_checkpoint(&stage.checkpoint_table(), "R1", gone).expect("deleted");
    let found = load(&stage, KEY);
    assert_eq!((found.missing_applier(), found.appliers.len()), (Some(2), 2));
    let mut session = session(&stage, gone);
    session.begin().expect("a transaction starts");
    let error = session.save_checkpoint(&applier(KEY, 2, 1)).expect_err("refused");
    assert_eq!(error.class(), ErrorClass::Missing);
    session.rollback().expect("rolled back");
    replace(&stage, &set(KEY, 3));
    assert_eq!(load(&stage, KEY).missing_applier(), None);
}

pub(super) fn replacing_a_set_without_the_groups_row_is_refused(subject: &dyn Subject) {
    let stage = stage(subject);
    let table = stage.checkpoint_table();
    let mut session = session(&stage, KEY);
    stage.database.delete_checkpoint(&table, "R1", KEY).expect("deleted");
    session.begin().expect("a transaction starts");
    let error = session.replace_checkpoints(&set(KEY, 2)).expect_err("refused");
    assert_eq!(error.class(), ErrorClass::Missing);
    assert!(error.to_string().contains("R1"), "{error}");
    session.rollback().expect("rolled back");
    let keys: Vec<i64> =
        stage.database.checkpoints(&table, "R1").expect("listed").iter().map(|row| row.group_key).collect();
    assert_eq!(keys, [ANOTHER_KEY]);
}
