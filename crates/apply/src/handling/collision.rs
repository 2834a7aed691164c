//! HANDLECOLLISIONS, OVERRIDEDUPS, INSERTMISSINGUPDATES.

use super::convert::completed;
use change::{Operation, Row, Value};
use database::{Outcome, TablePlan};
use parameter::Conversions;

/// What takes the place of a write that was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Collision {
    /// Nothing: the change is dropped.
    Drop,
    /// These writes, in order.
    Instead(Vec<Operation>),
}

/// What the settings say about a refused write; `None` when they say nothing about it.
pub(crate) fn collision(
    conversions: &Conversions,
    plan: &TablePlan,
    operation: &Operation,
    outcome: Outcome,
) -> Option<Collision> {
    let handles = conversions.handle_collisions;
    match (operation, outcome) {
        (Operation::Insert { new }, Outcome::Duplicate) if handles || conversions.override_duplicates => {
            Some(Collision::Instead(vec![Operation::Update { old: None, new: new.clone() }]))
        }
        (Operation::Update { old, new }, Outcome::Missing) => {
            let moves = moves_key(plan, old.as_ref(), new);
            let whole = completed(new, old.as_ref());
            let tells_all = plan.columns.iter().all(|pair| whole.value(pair.source).is_present());
            let inserts = conversions.insert_missing_updates || (handles && moves);
            if inserts && tells_all {
                Some(Collision::Instead(vec![Operation::Insert { new: whole }]))
            } else {
                (handles && !moves).then_some(Collision::Drop)
            }
        }
        (Operation::Update { old: Some(old), new }, Outcome::Duplicate)
            if handles && moves_key(plan, Some(old), new) =>
        {
            let update = Operation::Update { old: None, new: completed(new, Some(old)) };
            Some(Collision::Instead(vec![Operation::Delete { old: old.clone() }, update]))
        }
        (Operation::Delete { .. }, Outcome::Missing) if handles => Some(Collision::Drop),
        _ => None,
    }
}

/// Whether an update gives its row another key.
pub(crate) fn moves_key(plan: &TablePlan, old: Option<&Row>, new: &Row) -> bool {
    old.is_some_and(|old| {
        plan.key.iter().any(|pair| match (old.value(pair.source), new.value(pair.source)) {
            (Value::Unchanged, _) | (_, Value::Unchanged) => false,
            (before, after) => before != after,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use change::{Column, LogicalType, TableDefinition, TableName};
    use std::sync::Arc;

    fn row(values: [&'static str; 2]) -> Row {
        Row::from_values(values.map(|text| if text == "~" { Value::Unchanged } else { Value::Bytes(text.as_bytes()) }))
    }

    fn handled(conversions: Conversions, operation: &Operation, outcome: Outcome) -> Option<Collision> {
        let columns = vec![
            Column::new("id", LogicalType::Integer, "integer").with_key(0),
            Column::new("v", LogicalType::Text, "text"),
        ];
        let table = TableDefinition { name: TableName::new("main", "t"), columns: columns.into() };
        let plan = crate::plan(&Arc::new(table.clone()), table, None).unwrap();
        collision(&conversions, &plan, operation, outcome)
    }

    /// The reference's rules of HANDLECOLLISIONS, one by one.
    #[test]
    fn collisions_are_handled_by_the_reference() {
        let handles = Conversions { handle_collisions: true, ..Conversions::default() };
        let insert = Operation::Insert { new: row(["1", "a"]) };
        let update = |old, new| Operation::Update { old: Some(row(old)), new: row(new) };
        let delete = Operation::Delete { old: row(["1", "~"]) };
        let instead = |operations: &[Operation]| Some(Collision::Instead(operations.to_vec()));
        let overwrite = |new| Operation::Update { old: None, new: row(new) };
        // An insert that hits an existing key overwrites the whole row.
        assert_eq!(handled(handles, &insert, Outcome::Duplicate), instead(&[overwrite(["1", "a"])]));
        // An update that leaves the key, or a delete, finds no row: ignored.
        assert_eq!(handled(handles, &update(["1", "a"], ["1", "b"]), Outcome::Missing), Some(Collision::Drop));
        assert_eq!(handled(handles, &delete, Outcome::Missing), Some(Collision::Drop));
        // An update of the key whose old row is missing becomes an insert, and needs all columns for it.
        let inserted = Operation::Insert { new: row(["2", "b"]) };
        assert_eq!(handled(handles, &update(["1", "a"], ["2", "b"]), Outcome::Missing), instead(&[inserted]));
        assert_eq!(handled(handles, &update(["1", "~"], ["2", "~"]), Outcome::Missing), None);
        // One whose new key exists: the old row goes, and the row with the new key is overwritten.
        let expected = [Operation::Delete { old: row(["1", "a"]) }, overwrite(["2", "b"])];
        assert_eq!(handled(handles, &update(["1", "a"], ["2", "b"]), Outcome::Duplicate), instead(&expected));
        // Everything else is an error.
        assert_eq!(handled(handles, &insert, Outcome::Constraint), None);
        assert_eq!(handled(handles, &update(["1", "a"], ["1", "b"]), Outcome::Duplicate), None);
        assert_eq!(handled(Conversions::default(), &insert, Outcome::Duplicate), None);
    }

    #[test]
    fn duplicates_and_missing_updates_have_settings_of_their_own() {
        let insert = Operation::Insert { new: row(["1", "a"]) };
        let update = Operation::Update { old: Some(row(["1", "a"])), new: row(["1", "~"]) };
        let overrides = Conversions { override_duplicates: true, ..Conversions::default() };
        assert!(matches!(handled(overrides, &insert, Outcome::Duplicate), Some(Collision::Instead(_))));
        assert_eq!(handled(overrides, &update, Outcome::Missing), None);
        let inserts = Conversions { insert_missing_updates: true, ..Conversions::default() };
        let inserted = Operation::Insert { new: row(["1", "a"]) };
        assert_eq!(handled(inserts, &update, Outcome::Missing), Some(Collision::Instead(vec![inserted])));
    }
}
