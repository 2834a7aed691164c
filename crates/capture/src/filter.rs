//! Which changes go into the trail.

use change::{TableDefinition, TableName};
use database::TableSelection;
use process::{Statistics, TableIndex};
use std::collections::HashMap;
use std::sync::Arc;

/// Definitions remembered. A table that is altered over and over makes a new one each time; the answer is cheap to find
/// again.
const REMEMBERED_MAX: usize = 4096;

/// The TABLE statements, asked once per table definition.
///
/// Sources select tables themselves; a source that can't, or that sends more, is held to the operator's choice here.
pub struct Filter {
    tables: Arc<dyn TableSelection>,
    latest: Option<Known>,
    remembered: HashMap<*const TableDefinition, Known>,
}

#[derive(Clone)]
struct Known {
    definition: Arc<TableDefinition>,
    selected: bool,
    counted_as: TableIndex,
}

impl Filter {
    /// A filter by `tables`.
    pub fn new(tables: Arc<dyn TableSelection>) -> Filter {
        Filter { tables, latest: None, remembered: HashMap::new() }
    }

    /// Whether a table of this name is captured.
    pub fn selects(&self, table: &TableName) -> bool {
        self.tables.selects(table)
    }

    /// Whether changes of `table` are written, and where `statistics` counts them.
    pub fn find(&mut self, table: &Arc<TableDefinition>, statistics: &mut Statistics) -> (bool, TableIndex) {
        if let Some(latest) = &self.latest
            && Arc::ptr_eq(&latest.definition, table)
        {
            return (latest.selected, latest.counted_as);
        }
        if self.remembered.len() >= REMEMBERED_MAX {
            self.remembered.clear();
        }
        // The map keeps each definition alive, so an address stands for one definition as long as it is a key.
        let known = self.remembered.entry(Arc::as_ptr(table)).or_insert_with(|| Known {
            definition: Arc::clone(table),
            selected: self.tables.selects(&table.name),
            counted_as: statistics.table(&table.name),
        });
        let found = (known.selected, known.counted_as);
        self.latest = Some(known.clone());
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use change::Timestamp;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[derive(Default)]
    struct OnlyA(AtomicUsize);

    impl TableSelection for OnlyA {
        fn selects(&self, table: &TableName) -> bool {
            self.0.fetch_add(1, Ordering::Relaxed);
            table.table == "a"
        }

        fn required(&self) -> Vec<TableName> {
            Vec::new()
        }

        fn key_columns(&self, _table: &TableName) -> Option<Vec<String>> {
            None
        }
    }

    fn definition(name: &str) -> Arc<TableDefinition> {
        Arc::new(TableDefinition { name: TableName::new("main", name), columns: Vec::new().into() })
    }

    #[test]
    fn the_choice_is_asked_once_per_definition() {
        let selection = Arc::new(OnlyA::default());
        let mut filter = Filter::new(selection.clone());
        let mut statistics = Statistics::new(Timestamp::default());
        let (a, b) = (definition("a"), definition("b"));
        for _ in 0..10 {
            assert!(filter.find(&a, &mut statistics).0);
            assert!(!filter.find(&b, &mut statistics).0);
        }
        assert_eq!(selection.0.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn definitions_that_came_and_went_are_not_mixed_up() {
        let mut filter = Filter::new(Arc::new(OnlyA::default()));
        let mut statistics = Statistics::new(Timestamp::default());
        for round in 0..3 * REMEMBERED_MAX {
            let name = if round % 2 == 0 { "a" } else { "b" };
            assert_eq!(filter.find(&definition(name), &mut statistics).0, name == "a");
        }
        assert!(filter.remembered.len() <= REMEMBERED_MAX);
    }
}
