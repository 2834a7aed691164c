//! Cases: the checkpoint table.

use super::Subject;
use super::plan::{accepted, apply, plan, transact};
use super::stage::Given::{Integer, Null, Text};
use super::stage::{Stage, checkpoint};
use crate::{CheckpointRow, ErrorClass, SessionRequest};
use change::{TableName, Timestamp};

pub(super) fn a_checkpoint_table_is_created_once_and_dropped(subject: &dyn Subject) {
    let stage = Stage::new(subject);
    let name = stage.checkpoint_table();
    let exists = || stage.database.has_checkpoint_table(&name).expect("asked");
    assert!(!exists());
    stage.database.create_checkpoint_table(&name).expect("created");
    assert!(exists());
    let error = stage.database.create_checkpoint_table(&name).expect_err("refused");
    assert!(error.to_string().contains(&name.table), "{error}");
    assert!(exists());
    stage.database.drop_checkpoint_table(&name).expect("dropped");
    assert!(!exists());
    stage.database.create_checkpoint_table(&name).expect("created again: nothing of it was left");
}

pub(super) fn a_checkpoint_table_does_not_take_a_users_name(subject: &dyn Subject) {
    let stage = Stage::new(subject);
    let item = stage.item();
    let row = [Integer(1), Text("mine"), Null];
    stage.write(&item, &[stage.insert(&row)]);
    stage.database.create_checkpoint_table(&item.name).expect_err("refused");
    stage.assert_rows(&item, &[&row]);
    assert!(!stage.database.has_checkpoint_table(&item.name).expect("asked"), "a user's table is none of ours");
}

pub(super) fn a_users_table_is_not_dropped_as_a_checkpoint_table(subject: &dyn Subject) {
    let stage = Stage::new(subject);
    let item = stage.item();
    let row = [Integer(1), Text("mine"), Null];
    stage.write(&item, &[stage.insert(&row)]);
    let error = stage.database.drop_checkpoint_table(&item.name).expect_err("refused");
    assert!(error.to_string().contains(&item.name.table), "{error}");
    stage.assert_rows(&item, &[&row]);
}

pub(super) fn a_checkpoint_row_is_inserted_once_and_deleted(subject: &dyn Subject) {
    let stage = Stage::new(subject);
    let table = stage.checkpoint_table();
    stage.database.create_checkpoint_table(&table).expect("created");
    let insert = |group, key| stage.database.insert_checkpoint(&table, &checkpoint(group, key));
    insert("R1", 1).expect("inserted");
    let error = insert("R1", 1).expect_err("refused");
    assert!(error.to_string().contains("R1"), "{error}");
    insert("R2", 1).expect("another group");
    let delete = |group, key| stage.database.delete_checkpoint(&table, group, key).expect("deleted");
    delete("R1", 2);
    insert("R1", 1).expect_err("a row with another key was deleted, not this one");
    delete("R1", 1);
    delete("R1", 1);
    assert_eq!(stage.session("R1").load_checkpoint().expect("loaded"), None);
    assert_eq!(stage.session("R2").load_checkpoint().expect("loaded"), Some(checkpoint("R2", 1)));
    insert("R1", 1).expect("inserted again");
}

pub(super) fn rows_of_several_homes_share_a_checkpoint_table(subject: &dyn Subject) {
    let stage = Stage::new(subject);
    let table = stage.checkpoint_table();
    stage.database.create_checkpoint_table(&table).expect("created");
    let rows = |group| stage.database.checkpoints(&table, group).expect("listed");
    let keys = [i64::MIN, 0, i64::MAX];
    for key in keys {
        stage.database.insert_checkpoint(&table, &checkpoint("R1", key)).expect("inserted");
    }
    stage.database.insert_checkpoint(&table, &checkpoint("R2", 0)).expect("inserted");
    assert_eq!(rows("R1"), keys.map(|key| checkpoint("R1", key)));
    assert_eq!((rows("R2"), rows("R3")), (vec![checkpoint("R2", 0)], vec![]));
    let session = |group_key| stage.session_with(SessionRequest { group_key, ..stage.session_request("R1") });
    for key in keys {
        let mut session = session(key);
        assert_eq!(session.load_checkpoint().expect("loaded"), Some(checkpoint("R1", key)));
        session.begin().expect("a transaction starts");
        session.save_checkpoint(&CheckpointRow { group_key: key, ..busy_row() }).expect("saved");
        accepted(session.commit());
    }
    for key in keys {
        let row = Some(CheckpointRow { group_key: key, ..busy_row() });
        assert_eq!(session(key).load_checkpoint().expect("loaded"), row);
    }
    stage.database.delete_checkpoint(&table, "R1", 0).expect("deleted");
    assert_eq!(session(0).load_checkpoint().expect("loaded"), None, "the other rows are other homes'");
    assert_eq!(rows("R1").iter().map(|row| row.group_key).collect::<Vec<_>>(), [i64::MIN, i64::MAX]);
}

fn busy_row() -> CheckpointRow {
    CheckpointRow {
        group_name: "R1".to_owned(),
        group_key: 1,
        sequence: u32::MAX,
        rba: (1 << 53) + 1,
        audit_time: Some(Timestamp::from_unix_micros(1_767_225_600_123_456)),
        created: Timestamp::from_unix_micros(-1),
        updated: Timestamp::from_unix_micros(4_102_444_799_999_999),
        directory: "/srv/naïve 'quoted' \"x\"\\漢".to_owned(),
        log_bsn: Some("00000000000000000001".to_owned()),
        log_csn: Some(String::new()),
        log_complete_csn: Some("9".repeat(120)),
        log_complete_transactions: (0..500).map(|number| format!("transaction.{number}")).collect(),
        version: CheckpointRow::VERSION,
    }
}

pub(super) fn a_saved_row_is_loaded_as_it_was(subject: &dyn Subject) {
    let stage = Stage::new(subject);
    let mut session = stage.replicat("R1");
    assert_eq!(session.load_checkpoint().expect("loaded"), Some(checkpoint("R1", 1)), "as it was inserted");
    for row in [busy_row(), checkpoint("R1", 1), busy_row()] {
        session.begin().expect("a transaction starts");
        session.save_checkpoint(&row).expect("saved");
        accepted(session.commit());
        assert_eq!(session.load_checkpoint().expect("loaded"), Some(row.clone()));
        assert_eq!(stage.committed_checkpoint("R1"), row, "by another session");
    }
    drop(session);
    assert_eq!(stage.session("R1").load_checkpoint().expect("loaded"), Some(busy_row()), "by a later session");
}

pub(super) fn rows_and_checkpoint_are_committed_together(subject: &dyn Subject) {
    let stage = Stage::new(subject);
    let item = stage.item();
    let mut session = stage.replicat("R1");
    let plan = plan(&mut *session, &item);
    let row = |id| [Integer(id), Text("x"), Null];
    session.begin().expect("a transaction starts");
    accepted(apply(&mut *session, &plan, &[stage.insert(&row(1))]));
    session.save_checkpoint(&busy_row()).expect("saved");
    accepted(apply(&mut *session, &plan, &[stage.insert(&row(2))]));
    assert_eq!(stage.committed_checkpoint("R1"), checkpoint("R1", 1), "not yet committed");
    stage.assert_rows(&item, &[]);
    accepted(session.commit());
    assert_eq!(stage.committed_checkpoint("R1"), busy_row());
    stage.assert_rows(&item, &[&row(1), &row(2)]);
}

pub(super) fn rollback_drops_rows_and_checkpoint(subject: &dyn Subject) {
    let stage = Stage::new(subject);
    let item = stage.item();
    let mut session = stage.replicat("R1");
    let plan = plan(&mut *session, &item);
    session.begin().expect("a transaction starts");
    accepted(apply(&mut *session, &plan, &[stage.insert(&[Integer(1), Text("x"), Null])]));
    session.save_checkpoint(&busy_row()).expect("saved");
    session.rollback().expect("rolled back");
    assert_eq!(session.load_checkpoint().expect("loaded"), Some(checkpoint("R1", 1)));
    stage.assert_rows(&item, &[]);

    session.begin().expect("a transaction starts");
    session.save_checkpoint(&busy_row()).expect("saved");
    drop(session);
    assert_eq!(stage.session("R1").load_checkpoint().expect("loaded"), Some(checkpoint("R1", 1)));
}

pub(super) fn saving_without_a_row_is_refused(subject: &dyn Subject) {
    let stage = Stage::new(subject);
    let item = stage.item();
    let mut session = stage.replicat("R1");
    let plan = plan(&mut *session, &item);
    let table = stage.checkpoint_table();
    session.begin().expect("a transaction starts");
    let another_key = CheckpointRow { group_key: 2, ..busy_row() };
    assert_eq!(session.save_checkpoint(&another_key).expect_err("refused").class(), ErrorClass::Missing);
    session.rollback().expect("rolled back");
    stage.database.delete_checkpoint(&table, "R1", 1).expect("deleted");
    session.begin().expect("a transaction starts");
    accepted(apply(&mut *session, &plan, &[stage.insert(&[Integer(1), Text("x"), Null])]));
    let error = session.save_checkpoint(&busy_row()).expect_err("refused");
    assert_eq!(error.class(), ErrorClass::Missing);
    assert!(error.to_string().contains("R1"), "{error}");
    session.rollback().expect("rolled back");
    stage.assert_rows(&item, &[]);
    assert_eq!(session.load_checkpoint().expect("loaded"), None, "the row was not made anew");
}

pub(super) fn without_row_or_table_nothing_is_loaded(subject: &dyn Subject) {
    let stage = Stage::new(subject);
    assert_eq!(stage.session("R1").load_checkpoint().expect("loaded"), None, "no table");
    assert_eq!(stage.database.checkpoints(&stage.checkpoint_table(), "R1").expect("listed"), [], "no table");
    stage.replicat("R1");
    assert_eq!(stage.session("R2").load_checkpoint().expect("loaded"), None, "no row");
}

pub(super) fn a_checkpoint_table_may_have_any_name(subject: &dyn Subject) {
    let stage = Stage::new(subject);
    for name in ["Odd \"name\"", "select", "a.b", "naïve'; DROP TABLE x; --"] {
        let name: TableName = stage.name(name);
        stage.database.create_checkpoint_table(&name).expect("created");
        stage.database.insert_checkpoint(&name, &checkpoint("R1", 1)).expect("inserted");
        let request = SessionRequest { checkpoint_table: name.clone(), ..stage.session_request("R1") };
        let mut session = stage.session_with(request);
        session.begin().expect("a transaction starts");
        session.save_checkpoint(&busy_row()).expect("saved");
        accepted(session.commit());
        assert_eq!(session.load_checkpoint().expect("loaded"), Some(busy_row()));
        drop(session);
        stage.database.delete_checkpoint(&name, "R1", 1).expect("deleted");
        stage.database.drop_checkpoint_table(&name).expect("dropped");
        assert!(!stage.database.has_checkpoint_table(&name).expect("asked"));
    }
}

pub(super) fn a_crash_drops_what_is_open_and_keeps_what_is_committed(subject: &dyn Subject) {
    let stage = Stage::new(subject);
    let item = stage.item();
    let mut session = stage.replicat("R1");
    let plan = plan(&mut *session, &item);
    let row = |id| [Integer(id), Text("x"), Null];
    session.begin().expect("a transaction starts");
    accepted(apply(&mut *session, &plan, &[stage.insert(&row(1))]));
    session.save_checkpoint(&busy_row()).expect("saved");
    accepted(session.commit());
    session.begin().expect("a transaction starts");
    accepted(apply(&mut *session, &plan, &[stage.insert(&row(2))]));
    session.save_checkpoint(&checkpoint("R1", 1)).expect("saved");
    stage.instance.crash();
    let error = session.load_checkpoint().expect_err("an open session dies with its database");
    assert_eq!(error.class(), ErrorClass::ConnectionLost);
    drop(session);
    let mut session = stage.session("R1");
    assert_eq!(session.load_checkpoint().expect("loaded"), Some(busy_row()));
    stage.assert_rows(&item, &[&row(1)]);
    transact(&mut *session, &plan, &[stage.insert(&row(2))]);
    stage.assert_rows(&item, &[&row(1), &row(2)]);
}
