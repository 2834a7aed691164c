//! Which thread of a coordinated Replicat applies a change.
//!
//! The rule is the whole guarantee: changes that it gives to one thread keep their order, and others do not. It depends on
//! the change and the MAP alone, so that every start finds the same thread for the same change.

use super::ItemHasher;
use change::{Operation, Row, Value};
use database::TablePlan;
use parameter::MapThreads;
use std::hash::Hasher;

/// What the hash of a key starts from. Another hash would send rows to other threads while they stand at different places:
/// [`MapRules`](parameter::MapRules)' fingerprint tells these rules apart, and the group's rows note it.
const SEED: u64 = 1;

/// Who applies a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// This thread, from 1.
    Thread(u32),
    /// Its whole transaction is applied by itself, while all threads wait.
    Barrier,
}

/// The rule for the changes that one plan writes.
#[derive(Debug)]
pub struct ThreadPlan {
    first: u32,
    /// Threads from there on.
    count: u32,
    /// Columns of the source definition that are hashed; empty for a table without a key, which stays on one thread.
    columns: Vec<usize>,
    /// Whether rows are found by them, so that the row before a change is always told.
    finds: bool,
    is_barrier: bool,
}

impl ThreadPlan {
    /// The rule of `threads` for what `plan` writes.
    ///
    /// # Errors
    /// The column of THREADRANGE that both tables do not have.
    pub fn new(plan: &TablePlan, threads: &MapThreads) -> Result<ThreadPlan, String> {
        let source = |name: &String| {
            let pairs = plan.columns.iter().chain(&plan.key);
            let pair = pairs.into_iter().find(|pair| plan.target.columns[pair.target].name == *name);
            pair.map(|pair| pair.source).ok_or_else(|| name.clone())
        };
        let (columns, finds) = match &threads.columns {
            Some(names) => (names.iter().map(source).collect::<Result<Vec<_>, _>>()?, false),
            None => (plan.key.iter().map(|pair| pair.source).collect(), true),
        };
        let count = threads.last - threads.first + 1;
        Ok(ThreadPlan { first: threads.first, count, columns, finds, is_barrier: threads.is_coordinated })
    }

    /// Who applies `operation`.
    pub fn lane(&self, operation: &Operation) -> Lane {
        let (old, new) = match operation {
            Operation::Insert { new } => (None, Some(new)),
            Operation::Update { old, new } => (old.as_ref(), Some(new)),
            Operation::Delete { old } => (Some(old), None),
            Operation::Truncate(_) => return Lane::Barrier,
        };
        if self.is_barrier {
            return Lane::Barrier;
        }
        if self.count == 1 || self.columns.is_empty() {
            return Lane::Thread(self.first);
        }
        let is_update = matches!(operation, Operation::Update { .. });
        // A source that tells nothing of the old key says that it did not change; of other columns it may just not say.
        let before = |column: usize| {
            let told = old.and_then(|row| present(row, column));
            if self.finds { told.or_else(|| present(new?, column)) } else { told }
        };
        let after = |column: usize| new.and_then(|row| present(row, column)).or_else(|| present(old?, column));
        let threads =
            [(is_update || new.is_none()).then(|| self.thread(before)), new.is_some().then(|| self.thread(after))];
        let mut found = threads.into_iter().flatten();
        match (found.next(), found.next()) {
            (Some(Some(one)), None) => Lane::Thread(one),
            (Some(Some(one)), Some(Some(other))) if one == other => Lane::Thread(one),
            _ => Lane::Barrier,
        }
    }

    /// The thread that the values lead to; `None` when one of them is not told.
    fn thread<'r>(&self, value: impl Fn(usize) -> Option<Option<&'r [u8]>>) -> Option<u32> {
        let mut hasher = ItemHasher::of(SEED);
        for column in &self.columns {
            hasher.value(value(*column)?);
        }
        Some(self.first + (hasher.finish() % u64::from(self.count)) as u32)
    }
}

fn present(row: &Row, column: usize) -> Option<Option<&[u8]>> {
    match row.value(column) {
        Value::Unchanged => None,
        value => Some(value.bytes()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use change::{Column, LogicalType, TableDefinition, TableName};
    use std::collections::BTreeSet;
    use std::sync::Arc;

    fn plan(columns: Option<&[&str]>, last: u32) -> Result<ThreadPlan, String> {
        let column = |name: &str| Column::new(name, LogicalType::Integer, "integer");
        let columns_of = vec![column("id").with_key(0), column("region"), column("n")];
        let item = TableDefinition { name: TableName::new("s", "item"), columns: columns_of.into() };
        let plan = crate::plan(&Arc::new(item.clone()), item, None).unwrap();
        let columns = columns.map(|columns| columns.iter().map(|name| (*name).to_owned()).collect());
        ThreadPlan::new(&plan, &MapThreads { first: 3, last, columns, is_coordinated: false })
    }

    fn row(values: [&'static str; 3]) -> Row {
        Row::from_values(values.map(|value| match value {
            "~" => Value::Unchanged,
            value => Value::Bytes(value.as_bytes()),
        }))
    }

    const NAMES: [&str; 20] =
        ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15", "16", "17", "18", "19"];

    #[test]
    fn a_row_stays_on_one_thread_of_its_range_whatever_happens_to_it() {
        let plan = plan(None, 6).unwrap();
        let mut threads = BTreeSet::new();
        for id in NAMES {
            let lane = plan.lane(&Operation::Insert { new: row([id, "1", "1"]) });
            let Lane::Thread(thread) = lane else { panic!("an insert is no barrier") };
            threads.insert(thread);
            assert_eq!(plan.lane(&Operation::Update { old: None, new: row([id, "2", "~"]) }), lane);
            assert_eq!(
                plan.lane(&Operation::Update { old: Some(row([id, "1", "1"])), new: row([id, "2", "1"]) }),
                lane
            );
            assert_eq!(plan.lane(&Operation::Delete { old: row([id, "~", "~"]) }), lane);
        }
        assert_eq!(threads, BTreeSet::from([3, 4, 5, 6]), "all threads have work");
        assert_eq!(plan.lane(&Operation::truncate()), Lane::Barrier);
    }

    #[test]
    fn a_key_that_moves_to_another_thread_is_a_barrier() {
        let plan = plan(None, 6).unwrap();
        let of = |id| plan.lane(&Operation::Insert { new: row([id, "1", "1"]) });
        let (mut stay, mut go) = (0, 0);
        for id in NAMES {
            let moved = plan.lane(&Operation::Update { old: Some(row(["0", "~", "~"])), new: row([id, "1", "1"]) });
            let expected = if of(id) == of("0") { of("0") } else { Lane::Barrier };
            assert_eq!(moved, expected, "{id}");
            if moved == Lane::Barrier { go += 1 } else { stay += 1 }
        }
        assert!(stay > 0 && go > 0);
    }

    #[test]
    fn chosen_columns_decide_and_what_is_not_told_of_them_makes_a_barrier() {
        let plan = plan(Some(&["region"]), 6).unwrap();
        let of = |operation: &Operation| plan.lane(operation);
        let lane = of(&Operation::Insert { new: row(["1", "7", "1"]) });
        assert_eq!(of(&Operation::Insert { new: row(["2", "7", "1"]) }), lane);
        assert_eq!(of(&Operation::Update { old: Some(row(["1", "7", "1"])), new: row(["1", "7", "2"]) }), lane);
        assert_eq!(of(&Operation::Update { old: None, new: row(["1", "7", "2"]) }), Lane::Barrier);
        assert_eq!(of(&Operation::Delete { old: row(["1", "~", "~"]) }), Lane::Barrier);
        assert_eq!(super::tests::plan(Some(&["colour"]), 6).unwrap_err(), "colour");
    }
}
