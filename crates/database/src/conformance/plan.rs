//! Applying by plan, in as few words as a case needs.

use crate::{ApplyError, ColumnPair, Outcome, Rejection, Session, TablePlan, Write};
use change::{Operation, TableDefinition};
use std::sync::Arc;

/// Pairs columns of equal names; finds rows by the source's key.
pub(super) fn plan(session: &mut dyn Session, source: &TableDefinition) -> Arc<TablePlan> {
    let target = session.table(&source.name).expect("asked").expect("the target table is there");
    plan_between(source, target)
}

/// The same between two definitions that need not have the same name.
pub(super) fn plan_between(source: &TableDefinition, target: TableDefinition) -> Arc<TablePlan> {
    let pair =
        |(at, column): (usize, &change::Column)| Some(ColumnPair { source: source.column(&column.name)?, target: at });
    let columns = target.columns.iter().enumerate().filter_map(pair).collect();
    let key = source.key();
    let key = key
        .into_iter()
        .map(|at| {
            let target = target.column(&source.columns[at].name).expect("the target has the key's columns");
            ColumnPair { source: at, target }
        })
        .collect();
    Arc::new(TablePlan {
        source: Arc::new(source.clone()),
        target,
        columns,
        key,
        on_duplicate: crate::OnDuplicate::Refuse,
    })
}

/// Applies operations of one plan with one call.
pub(super) fn apply(
    session: &mut dyn Session,
    plan: &Arc<TablePlan>,
    operations: &[Operation],
) -> Result<(), ApplyError> {
    let writes: Vec<_> = operations.iter().map(|operation| Write { plan, operation }).collect();
    session.apply(&writes)
}

/// Makes one transaction of operations of one plan.
#[track_caller]
pub(super) fn transact(session: &mut dyn Session, plan: &Arc<TablePlan>, operations: &[Operation]) {
    session.begin().expect("a transaction starts");
    accepted(apply(session, plan, operations));
    accepted(session.commit());
}

/// The result of a call that must succeed.
#[track_caller]
pub(super) fn accepted(result: Result<(), ApplyError>) {
    match result {
        Ok(()) => {}
        Err(ApplyError::Rejected(Rejection { index, outcome, detail, .. })) => {
            panic!("write {index} is rejected: {outcome}: {detail}")
        }
        Err(ApplyError::Failed(error)) => panic!("the call fails: {error}"),
    }
}

/// Which write was rejected, and why.
#[track_caller]
pub(super) fn rejected(result: Result<(), ApplyError>) -> (usize, Outcome) {
    match result {
        Ok(()) => panic!("a write is taken that must be rejected"),
        Err(ApplyError::Rejected(rejection)) => (rejection.index, rejection.outcome),
        Err(ApplyError::Failed(error)) => panic!("the call fails, but the row should be rejected: {error}"),
    }
}
