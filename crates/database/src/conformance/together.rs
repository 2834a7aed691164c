//! Cases: transactions that are handed over with their checkpoint row and their commit.

use super::plan::{accepted, apply, plan, rejected, transact};
use super::stage::Given::{Integer, Null, Text};
use super::stage::{Stage, checkpoint};
use super::{Kind, Subject};
use crate::{
    ApplyError, CheckpointRow, CommitFailure, CommitStep, ErrorClass, ForeignKeyPolicy, Outcome, Session,
    SessionRequest, TablePlan, Write,
};
use change::{Operation, TableDefinition};
use std::sync::Arc;

/// Sizes of transactions that plugs may send in different ways.
const SIZES: [i64; 3] = [3, 100, 1500];

fn moved(rba: u64) -> CheckpointRow {
    CheckpointRow { rba, log_csn: Some(format!("{rba:020}")), ..checkpoint("R1", 1) }
}

/// Makes one transaction of operations of one plan.
fn hand_over(
    session: &mut dyn Session,
    plan: &Arc<TablePlan>,
    operations: &[Operation],
    rba: u64,
) -> Result<(), CommitFailure> {
    let writes: Vec<_> = operations.iter().map(|operation| Write { plan, operation }).collect();
    session.commit_with(&writes, &moved(rba))
}

#[track_caller]
fn taken(result: Result<(), CommitFailure>) {
    accepted(result.map_err(|failure| failure.error));
}

/// Which write was refused, and why.
#[track_caller]
fn refused(result: Result<(), CommitFailure>, wanted: CommitStep) -> (usize, Outcome) {
    let failure = result.expect_err("a write is taken that must be rejected");
    assert_eq!(failure.step, wanted);
    rejected(Err(failure.error))
}

fn numbers(stage: &Stage, name: &str) -> Arc<TableDefinition> {
    stage.table(name, &[("id", Kind::Integer), ("value", Kind::Integer)], &["id"])
}

pub(super) fn rows_and_checkpoint_are_handed_over_with_the_commit(subject: &dyn Subject) {
    let stage = Stage::new(subject);
    let item = stage.item();
    let mut session = stage.replicat("R1");
    let plan = plan(&mut *session, &item);
    let row = |id, name| [Integer(id), Text(name), Null];
    let mut rba = 0;
    let mut next = || {
        rba += 1;
        rba
    };
    for size in SIZES {
        let from = size * 10;
        let change = |id: i64| match id % 3 {
            0 => vec![stage.insert(&row(from + id, "a")), stage.delete(&row(from + id, "a"))],
            _ => vec![stage.insert(&row(from + id, "a")), stage.update(&row(from + id, "a"), &row(from + id, "b"))],
        };
        session.begin().expect("a transaction starts");
        let at = next();
        taken(hand_over(&mut *session, &plan, &(0..size).flat_map(change).collect::<Vec<_>>(), at));
        assert_eq!(stage.committed_checkpoint("R1"), moved(at));
        session.begin().expect("a transaction starts");
        let at = next();
        let updates =
            (0..size).filter(|id| id % 3 != 0).map(|id| stage.update(&row(from + id, "b"), &row(from + id, "c")));
        taken(hand_over(&mut *session, &plan, &updates.collect::<Vec<_>>(), at));
        assert_eq!(stage.committed_checkpoint("R1"), moved(at));
        // The position alone.
        session.begin().expect("a transaction starts");
        let at = next();
        taken(hand_over(&mut *session, &plan, &[], at));
        assert_eq!(stage.committed_checkpoint("R1"), moved(at));
    }
    let expected: Vec<_> = SIZES
        .iter()
        .flat_map(|size| (0..*size).filter(|id| id % 3 != 0).map(move |id| [Integer(size * 10 + id), Text("c"), Null]))
        .collect();
    stage.assert_rows(&item, &expected.iter().map(|row| &row[..]).collect::<Vec<_>>());
}

pub(super) fn what_is_refused_of_a_whole_transaction_is_named_and_leaves_nothing(subject: &dyn Subject) {
    let stage = Stage::new(subject);
    let item = stage.item();
    let mut session = stage.replicat("R1");
    let plan = plan(&mut *session, &item);
    let row = |id, name| [Integer(id), Text(name), Null];
    stage.write(&item, &[stage.insert(&row(-1, "here"))]);
    for size in SIZES {
        let bad = [
            (stage.insert(&row(-1, "again")), Outcome::Duplicate),
            (stage.update(&row(-2, "x"), &row(-2, "y")), Outcome::Missing),
            (stage.delete(&row(-2, "x")), Outcome::Missing),
        ];
        for (operation, outcome) in bad {
            let mut operations: Vec<_> = (0..size).map(|id| stage.insert(&row(id, "new"))).collect();
            let place = operations.len() / 2;
            operations.insert(place, operation);
            session.begin().expect("a transaction starts");
            let found = refused(hand_over(&mut *session, &plan, &operations, 1), CommitStep::Write);
            assert_eq!(found, (place, outcome), "of {size}");
            session.rollback().expect("rolled back");
            assert_eq!(stage.committed_checkpoint("R1"), checkpoint("R1", 1));
            stage.assert_rows(&item, &[&row(-1, "here")]);
        }
    }
    session.begin().expect("a transaction starts");
    taken(hand_over(&mut *session, &plan, &[stage.delete(&row(-1, "here"))], 2));
    stage.assert_rows(&item, &[]);
}

pub(super) fn a_whole_transaction_without_a_checkpoint_row_leaves_nothing(subject: &dyn Subject) {
    let stage = Stage::new(subject);
    let item = stage.item();
    let mut session = stage.replicat("R1");
    let plan = plan(&mut *session, &item);
    session.load_checkpoint().expect("loaded");
    stage.database.delete_checkpoint(&stage.checkpoint_table(), "R1", 1).expect("deleted");
    for size in [0, 1, 100] {
        let operations: Vec<_> = (0..size).map(|id| stage.insert(&[Integer(id), Text("x"), Null])).collect();
        session.begin().expect("a transaction starts");
        let failure = hand_over(&mut *session, &plan, &operations, 1).expect_err("refused");
        assert_eq!(failure.step, CommitStep::Save);
        match failure.error {
            ApplyError::Failed(error) => {
                assert_eq!(error.class(), ErrorClass::Missing);
                assert!(error.to_string().contains("R1"), "{error}");
            }
            ApplyError::Rejected(rejection) => panic!("no row is at fault: {rejection:?}"),
        }
        session.rollback().expect("rolled back");
        stage.assert_rows(&item, &[]);
        assert_eq!(session.load_checkpoint().expect("loaded"), None, "the row was not made anew");
    }
}

pub(super) fn the_last_part_of_a_transaction_is_handed_over_with_the_commit(subject: &dyn Subject) {
    let stage = Stage::new(subject);
    let item = stage.item();
    let mut session = stage.replicat("R1");
    let plan = plan(&mut *session, &item);
    let row = |id, name| [Integer(id), Text(name), Null];
    session.begin().expect("a transaction starts");
    accepted(apply(&mut *session, &plan, &[stage.insert(&row(1, "a"))]));
    let found = refused(hand_over(&mut *session, &plan, &[stage.insert(&row(1, "b"))], 1), CommitStep::Write);
    assert_eq!(found, (0, Outcome::Duplicate));
    session.rollback().expect("rolled back");
    stage.assert_rows(&item, &[]);
    session.begin().expect("a transaction starts");
    accepted(apply(&mut *session, &plan, &[stage.insert(&row(1, "a"))]));
    taken(hand_over(&mut *session, &plan, &[stage.update(&row(1, "a"), &row(1, "b"))], 2));
    session.begin().expect("a transaction starts");
    accepted(apply(&mut *session, &plan, &[stage.insert(&row(2, "a"))]));
    taken(hand_over(&mut *session, &plan, &[], 3));
    stage.assert_rows(&item, &[&row(1, "b"), &row(2, "a")]);
    assert_eq!(stage.committed_checkpoint("R1"), moved(3));
}

pub(super) fn foreign_keys_of_a_whole_transaction_are_checked_at_commit_when_asked(subject: &dyn Subject) {
    let stage = Stage::new(subject);
    let (parent, child) = (numbers(&stage, "parent"), numbers(&stage, "child"));
    stage.instance.create_reference(&child.name, &[1], &parent.name);
    drop(stage.replicat("R1"));
    let request = SessionRequest { foreign_keys: ForeignKeyPolicy::Check, ..stage.session_request("R1") };
    let mut session = stage.session_with(request);
    let (parent_plan, child_plan) = (plan(&mut *session, &parent), plan(&mut *session, &child));
    transact(&mut *session, &parent_plan, &[stage.insert(&[Integer(1), Integer(0)])]);
    session.begin().expect("a transaction starts");
    let orphans = [stage.insert(&[Integer(1), Integer(1)]), stage.insert(&[Integer(2), Integer(9)])];
    let found = refused(hand_over(&mut *session, &child_plan, &orphans, 1), CommitStep::Commit);
    assert_eq!(found, (2, Outcome::ForeignKey), "the index of a check at commit is the number of writes");
    session.rollback().expect("rolled back");
    stage.assert_rows(&child, &[]);
    session.begin().expect("a transaction starts");
    taken(hand_over(&mut *session, &child_plan, &orphans[..1], 2));
    stage.assert_rows(&child, &[&[Integer(1), Integer(1)]]);
}
