//! What a change touches, by the plan that writes it.

use super::{ItemHasher, WriteSet};
use change::{LogicalType, Operation, Row, Value};
use database::{OrderScope, TableOrder, TablePlan};
use std::hash::Hasher;

/// A key of the target table whose values tell which changes meet.
#[derive(Debug)]
struct Key {
    /// Hash of the table and the columns' names.
    seed: u64,
    /// Columns of the source definition, in the order of the target columns' names.
    columns: Vec<usize>,
    /// Whether rows with NULL meet.
    nulls_meet: bool,
    /// Whether rows are found by it, so that the row before a change is always told.
    finds: bool,
}

/// How the changes of one plan become entries of a [`WriteSet`].
#[derive(Debug)]
pub struct Footprint {
    scope: OrderScope,
    table: u64,
    keys: Vec<Key>,
    /// Foreign keys: hash of the parent table, and a key of the parent table with columns of this one.
    references: Vec<(u64, Key)>,
}

impl Footprint {
    /// For changes that `plan` writes to a table that demands `order`.
    pub fn new(plan: &TablePlan, order: &TableOrder) -> Footprint {
        let definition = &plan.target;
        let table = named(0, [&definition.name.schema, &definition.name.table]);
        let mut scope = order.scope;
        let source = |target: usize| {
            let pairs = plan.columns.iter().chain(&plan.key);
            let pair = pairs.into_iter().find(|pair| pair.target == target)?;
            is_alike(plan, pair.source, pair.target).then_some(pair.source)
        };
        let mut keys: Vec<Key> = Vec::new();
        let found_by: Vec<usize> = plan.key.iter().map(|pair| pair.target).collect();
        let unique = order.unique.iter().map(|key| (key.columns.as_slice(), key.nulls_meet, false));
        for (columns, nulls_meet, finds) in std::iter::once((found_by.as_slice(), true, true)).chain(unique) {
            let mut columns = columns.to_vec();
            columns.sort_by_key(|column| &definition.columns[*column].name);
            let names = columns.iter().map(|column| &definition.columns[*column].name);
            let seed = named(table, names);
            match columns.into_iter().map(source).collect::<Option<Vec<_>>>() {
                Some(_) if keys.iter().any(|key| key.seed == seed) => {}
                Some(columns) => keys.push(Key { seed, columns, nulls_meet, finds }),
                // The target makes the value, or makes another one of it.
                None => scope = scope.max(OrderScope::Table),
            }
        }
        if plan.key.is_empty() {
            scope = scope.max(OrderScope::Table);
        }
        let references = order.references.iter().filter_map(|reference| {
            let parent = named(0, [&reference.parent.schema, &reference.parent.table]);
            let mut pairs: Vec<(&String, usize)> =
                reference.parent_columns.iter().zip(reference.columns.iter().copied()).collect();
            pairs.sort_unstable();
            let seed = named(parent, pairs.iter().map(|(name, _)| *name));
            let columns = pairs.into_iter().map(|(_, column)| source(column)).collect::<Option<Vec<_>>>()?;
            Some((parent, Key { seed, columns, nulls_meet: false, finds: false }))
        });
        let references = references.collect();
        Footprint { scope, table, keys, references }
    }

    /// Adds what `operation` touches.
    pub fn touch(&self, operation: &Operation, set: &mut WriteSet) {
        let (old, new) = match operation {
            Operation::Insert { new } => (None, Some(new)),
            Operation::Update { old, new } => (old.as_ref(), Some(new)),
            Operation::Delete { old } => (Some(old), None),
            Operation::Truncate(_) => return set.barrier(),
        };
        match self.scope {
            OrderScope::Database => return set.barrier(),
            OrderScope::Table => set.write(self.table),
            OrderScope::Rows => {}
        }
        for key in &self.keys {
            match before(key, old, new) {
                Ok(Some(hash)) => set.write(hash),
                Ok(None) => {}
                Err(Untold) => return set.barrier(),
            }
            match new.map(|new| after(key, old, new)) {
                Some(Ok(Some(hash))) => set.write(hash),
                Some(Ok(None)) | None => {}
                Some(Err(Untold)) => return set.barrier(),
            }
        }
        for (parent, key) in &self.references {
            let told = [before(key, old, None), new.map_or(Ok(None), |new| after(key, old, new))];
            for hash in told {
                match hash {
                    Ok(Some(hash)) => {
                        set.read(hash);
                        set.read(*parent);
                    }
                    Ok(None) => {}
                    Err(Untold) => return set.barrier(),
                }
            }
        }
    }
}

/// A value that decides is not told.
struct Untold;

/// Hash of the key before a change. Of another key than the one that rows are found by, a source may tell nothing: whoever takes
/// the value next comes too early then, is refused, and comes again.
fn before(key: &Key, old: Option<&Row>, new: Option<&Row>) -> Result<Option<u64>, Untold> {
    let other = new.filter(|_| key.finds);
    let told =
        |column: usize| old.and_then(|row| present(row, column)).or_else(|| other.and_then(|row| present(row, column)));
    if old.is_none() && !key.finds {
        return Ok(None);
    }
    match hash(key, told) {
        Err(Untold) if !key.finds => Ok(None),
        told => told,
    }
}

/// Hash of the key after a change, if the change touches it.
fn after(key: &Key, old: Option<&Row>, new: &Row) -> Result<Option<u64>, Untold> {
    if key.columns.iter().all(|column| !new.value(*column).is_present()) {
        return Ok(None);
    }
    hash(key, |column| present(new, column).or_else(|| present(old?, column)))
}

fn present(row: &Row, column: usize) -> Option<Option<&[u8]>> {
    match row.value(column) {
        Value::Unchanged => None,
        value => Some(value.bytes()),
    }
}

/// Hash of a key's values, or none when one is NULL and meets no other.
fn hash<'r>(key: &Key, value: impl Fn(usize) -> Option<Option<&'r [u8]>>) -> Result<Option<u64>, Untold> {
    let mut hasher = ItemHasher::of(key.seed);
    for column in &key.columns {
        let value = value(*column).ok_or(Untold)?;
        if value.is_none() && !key.nulls_meet {
            return Ok(None);
        }
        hasher.value(value);
    }
    Ok(Some(hasher.finish()))
}

fn named<'n>(seed: u64, names: impl IntoIterator<Item = &'n String>) -> u64 {
    let mut hasher = ItemHasher::of(seed);
    names.into_iter().for_each(|name| hasher.value(Some(name.as_bytes())));
    hasher.finish()
}

/// Whether values that differ at the source also differ at the target.
fn is_alike(plan: &TablePlan, source: usize, target: usize) -> bool {
    use LogicalType::{Binary, Boolean, Date, Integer, Uuid};
    let (source, target) = (&plan.source.columns[source], &plan.target.columns[target]);
    let is_plain = matches!(source.logical, Binary | Boolean | Date | Integer | Uuid);
    source.logical == target.logical && (is_plain || source.native == target.native)
}

#[cfg(test)]
mod tests {
    use super::*;
    use change::{Column, TableDefinition, TableName};
    use database::{ForeignKey, UniqueKey};
    use std::sync::Arc;

    fn table(name: &str, columns: &[(&str, LogicalType, &str)], key: usize) -> TableDefinition {
        let column = |(place, (name, logical, native)): (usize, &(&str, LogicalType, &str))| {
            let column = Column::new(*name, *logical, *native);
            if place < key { column.with_key(place as u16) } else { column }
        };
        TableDefinition { name: TableName::new("s", name), columns: columns.iter().enumerate().map(column).collect() }
    }

    const INTEGER: (LogicalType, &str) = (LogicalType::Integer, "integer");

    fn item() -> TableDefinition {
        let (logical, native) = INTEGER;
        table("item", &[("id", logical, native), ("code", logical, native), ("parent", logical, native)], 1)
    }

    fn footprint(order: &TableOrder) -> Footprint {
        Footprint::new(&crate::plan(&Arc::new(item()), item(), None).unwrap(), order)
    }

    fn order() -> TableOrder {
        let key = |columns: &[usize]| UniqueKey { columns: columns.to_vec(), nulls_meet: false };
        let reference =
            ForeignKey { columns: vec![2], parent: TableName::new("s", "item"), parent_columns: vec!["id".to_owned()] };
        TableOrder { scope: OrderScope::Rows, unique: vec![key(&[0]), key(&[1])], references: vec![reference] }
    }

    fn row(values: [&'static str; 3]) -> Row {
        Row::from_values(values.map(|value| match value {
            "null" => Value::Null,
            "~" => Value::Unchanged,
            value => Value::Bytes(value.as_bytes()),
        }))
    }

    fn touched(order: &TableOrder, operation: Operation) -> WriteSet {
        let mut set = WriteSet::new();
        footprint(order).touch(&operation, &mut set);
        set
    }

    fn insert(values: [&'static str; 3]) -> WriteSet {
        touched(&order(), Operation::Insert { new: row(values) })
    }

    fn meet(one: &WriteSet, other: &WriteSet) -> bool {
        one.is_barrier()
            || other.is_barrier()
            || one.items().iter().any(|item| {
                other.items().iter().any(|other| item.hash == other.hash && (item.is_written || other.is_written))
            })
    }

    #[test]
    fn changes_meet_by_their_row_by_unique_values_and_by_references() {
        let first = insert(["1", "10", "null"]);
        assert!(!meet(&first, &insert(["2", "11", "null"])));
        assert!(meet(&first, &insert(["2", "10", "null"])), "one code");
        assert!(meet(&first, &insert(["2", "11", "1"])), "a child of the row");
        assert!(!meet(&insert(["2", "11", "1"]), &insert(["3", "12", "1"])), "two children");
        assert!(!meet(&insert(["2", "null", "null"]), &insert(["3", "null", "null"])), "NULL is unique always");
        let update = |old, new| touched(&order(), Operation::Update { old, new: row(new) });
        assert!(meet(&first, &update(None, ["1", "12", "null"])));
        assert!(meet(&first, &update(Some(row(["5", "10", "null"])), ["5", "12", "null"])), "the old code");
        assert!(meet(&first, &update(Some(row(["1", "~", "~"])), ["7", "12", "null"])), "the old key");
        assert!(!meet(&first, &update(Some(row(["5", "~", "~"])), ["7", "12", "null"])));
        assert!(meet(&first, &touched(&order(), Operation::Delete { old: row(["1", "~", "~"]) })));
        assert!(!meet(&first, &update(None, ["2", "~", "~"])), "what is not told did not change");
        assert!(touched(&order(), Operation::truncate()).is_barrier());
    }

    #[test]
    fn what_values_do_not_show_keeps_the_order_of_the_table_or_of_all() {
        let within = |scope| TableOrder { scope, ..order() };
        let other = |order: &TableOrder| touched(order, Operation::Insert { new: row(["2", "20", "null"]) });
        let table = within(OrderScope::Table);
        assert!(meet(&touched(&table, Operation::Insert { new: row(["1", "10", "null"]) }), &other(&table)));
        assert!(other(&within(OrderScope::Database)).is_barrier());
        let two = TableOrder {
            unique: vec![UniqueKey { columns: vec![1, 2], nulls_meet: false }],
            references: Vec::new(),
            ..order()
        };
        let half = touched(&two, Operation::Update { old: None, new: row(["1", "10", "~"]) });
        assert!(half.is_barrier(), "half of a key is told");
        let whole = touched(&two, Operation::Update { old: Some(row(["1", "9", "4"])), new: row(["1", "10", "~"]) });
        assert!(!whole.is_barrier());
    }

    #[test]
    fn a_key_whose_values_become_others_at_the_target_keeps_the_order_of_the_table() {
        let source = table("item", &[("id", LogicalType::Text, "text")], 1);
        let same = |target: (LogicalType, &str)| {
            let target = table("item", &[("id", target.0, target.1)], 1);
            let plan = crate::plan(&Arc::new(source.clone()), target, None).unwrap();
            let order = TableOrder { scope: OrderScope::Rows, unique: Vec::new(), references: Vec::new() };
            let footprint = Footprint::new(&plan, &order);
            let touch = |id: &'static str| {
                let mut set = WriteSet::new();
                let new = Row::from_values([Value::Bytes(id.as_bytes())]);
                footprint.touch(&Operation::Insert { new }, &mut set);
                set
            };
            meet(&touch("01"), &touch("1"))
        };
        assert!(!same((LogicalType::Text, "text")));
        assert!(same(INTEGER) && same((LogicalType::Text, "character(5)")));
        assert!(footprint(&TableOrder::strict()).scope == OrderScope::Database);
    }
}
