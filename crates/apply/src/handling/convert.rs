//! INSERTALLRECORDS, INSERTUPDATES, INSERTDELETES, UPDATEINSERTS, UPDATEDELETES, ALLOWNOOPUPDATES.

use change::{Operation, Row, Value};
use database::TablePlan;
use parameter::Conversions;

/// What an operation becomes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Converted {
    /// Itself.
    Same,
    /// Another one.
    Other(Operation),
    /// Nothing: there is no form for it in a table that keeps every operation, or it sets nothing.
    Nothing,
}

/// Turns an operation into what the table's settings ask for.
pub(crate) fn convert(conversions: &Conversions, plan: &TablePlan, operation: &Operation) -> Converted {
    let Conversions { insert_all_records, insert_updates, insert_deletes, update_inserts, update_deletes, .. } =
        *conversions;
    match operation {
        Operation::Insert { new } if update_inserts && !insert_all_records => {
            Converted::Other(Operation::Update { old: None, new: new.clone() })
        }
        Operation::Update { old, new } if insert_all_records || insert_updates => {
            Converted::Other(Operation::Insert { new: completed(new, old.as_ref()) })
        }
        Operation::Update { old, new } if conversions.allow_no_op_updates && sets_nothing(plan, old.as_ref(), new) => {
            Converted::Nothing
        }
        Operation::Delete { old } if insert_all_records || insert_deletes => {
            Converted::Other(Operation::Insert { new: old.clone() })
        }
        Operation::Delete { old } if update_deletes => {
            Converted::Other(Operation::Update { old: Some(old.clone()), new: old.clone() })
        }
        // The rows of a table that keeps history, or keeps what is deleted, stay.
        Operation::Truncate(_) if insert_all_records || insert_deletes || update_deletes => Converted::Nothing,
        _ => Converted::Same,
    }
}

/// `new` with the values of `old` where it tells none.
pub(crate) fn completed(new: &Row, old: Option<&Row>) -> Row {
    let told = |column: usize| match (new.value(column), old) {
        (Value::Unchanged, Some(old)) => old.value(column),
        (value, _) => value,
    };
    Row::from_values((0..new.len()).map(told))
}

/// Whether an update tells no value that differs from the old one, as far as the target's columns are concerned.
fn sets_nothing(plan: &TablePlan, old: Option<&Row>, new: &Row) -> bool {
    plan.columns.iter().all(|pair| {
        let value = new.value(pair.source);
        let is_key = || plan.key.iter().any(|key| key.target == pair.target);
        match old.map_or(Value::Unchanged, |old| old.value(pair.source)) {
            Value::Unchanged => !value.is_present() || is_key(),
            before => !value.is_present() || value == before,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use change::{Column, LogicalType, TableDefinition, TableName, TruncateOptions};
    use std::sync::Arc;

    fn row(values: [&'static str; 2]) -> Row {
        Row::from_values(values.map(|text| if text == "~" { Value::Unchanged } else { Value::Bytes(text.as_bytes()) }))
    }

    fn converted(conversions: Conversions, operation: &Operation) -> Converted {
        let columns = vec![
            Column::new("id", LogicalType::Integer, "integer").with_key(0),
            Column::new("v", LogicalType::Text, "text"),
        ];
        let table = TableDefinition { name: TableName::new("main", "t"), columns: columns.into() };
        let plan = crate::plan(&Arc::new(table.clone()), table, None).unwrap();
        convert(&conversions, &plan, operation)
    }

    #[test]
    fn operations_become_what_the_settings_ask_for() {
        let none = Conversions::default();
        let insert = Operation::Insert { new: row(["1", "a"]) };
        let update = Operation::Update { old: Some(row(["1", "a"])), new: row(["1", "b"]) };
        let delete = Operation::Delete { old: row(["1", "a"]) };
        let truncate = Operation::Truncate(TruncateOptions::default());
        let inserted = |values| Converted::Other(Operation::Insert { new: row(values) });
        for operation in [&insert, &update, &delete, &truncate] {
            assert_eq!(converted(none, operation), Converted::Same);
        }
        let all = Conversions { insert_all_records: true, ..none };
        assert_eq!(converted(all, &insert), Converted::Same);
        assert_eq!(converted(all, &update), inserted(["1", "b"]));
        assert_eq!(converted(all, &delete), inserted(["1", "a"]));
        assert_eq!(converted(all, &truncate), Converted::Nothing);
        assert_eq!(converted(Conversions { insert_updates: true, ..none }, &update), inserted(["1", "b"]));
        assert_eq!(converted(Conversions { insert_deletes: true, ..none }, &delete), inserted(["1", "a"]));
        let updated = |old: Option<Row>, values| Converted::Other(Operation::Update { old, new: row(values) });
        assert_eq!(converted(Conversions { update_inserts: true, ..none }, &insert), updated(None, ["1", "a"]));
        let deletes = Conversions { update_deletes: true, ..none };
        assert_eq!(converted(deletes, &delete), updated(Some(row(["1", "a"])), ["1", "a"]));
        assert_eq!(converted(deletes, &truncate), Converted::Nothing);
    }

    #[test]
    fn an_insert_made_of_an_update_takes_from_the_old_row_what_the_new_one_does_not_tell() {
        let update = Operation::Update { old: Some(row(["1", "a"])), new: row(["2", "~"]) };
        let conversions = Conversions { insert_updates: true, ..Conversions::default() };
        assert_eq!(converted(conversions, &update), Converted::Other(Operation::Insert { new: row(["2", "a"]) }));
    }

    #[test]
    fn an_update_that_sets_nothing_is_passed_over_when_allowed() {
        let allow = Conversions { allow_no_op_updates: true, ..Conversions::default() };
        let update = |old: Option<Row>, new| Operation::Update { old, new: row(new) };
        assert_eq!(converted(allow, &update(Some(row(["1", "a"])), ["1", "a"])), Converted::Nothing);
        assert_eq!(converted(allow, &update(None, ["1", "~"])), Converted::Nothing);
        assert_eq!(converted(allow, &update(None, ["1", "a"])), Converted::Same, "what it was is not told");
        assert_eq!(converted(allow, &update(Some(row(["1", "a"])), ["2", "a"])), Converted::Same);
    }
}
