//! Which changes go into the trail.

use change::TableDefinition;
use database::TableSelection;
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
    latest: Option<(Arc<TableDefinition>, bool)>,
    remembered: HashMap<*const TableDefinition, (Arc<TableDefinition>, bool)>,
}

impl Filter {
    /// A filter by `tables`.
    pub fn new(tables: Arc<dyn TableSelection>) -> Filter {
        Filter { tables, latest: None, remembered: HashMap::new() }
    }

    /// Whether changes of `table` are written.
    pub fn selects(&mut self, table: &Arc<TableDefinition>) -> bool {
        if let Some((latest, selected)) = &self.latest
            && Arc::ptr_eq(latest, table)
        {
            return *selected;
        }
        if self.remembered.len() >= REMEMBERED_MAX {
            self.remembered.clear();
        }
        // The map keeps each definition alive, so an address stands for one definition as long as it is a key.
        let entry = self.remembered.entry(Arc::as_ptr(table));
        let (_, selected) = entry.or_insert_with(|| (Arc::clone(table), self.tables.selects(&table.name)));
        let selected = *selected;
        self.latest = Some((Arc::clone(table), selected));
        selected
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use change::TableName;
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
        Arc::new(TableDefinition { name: TableName::new("main", name), columns: Vec::new() })
    }

    #[test]
    fn the_choice_is_asked_once_per_definition() {
        let selection = Arc::new(OnlyA::default());
        let mut filter = Filter::new(selection.clone());
        let (a, b) = (definition("a"), definition("b"));
        for _ in 0..10 {
            assert!(filter.selects(&a));
            assert!(!filter.selects(&b));
        }
        assert_eq!(selection.0.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn definitions_that_came_and_went_are_not_mixed_up() {
        let mut filter = Filter::new(Arc::new(OnlyA::default()));
        for round in 0..3 * REMEMBERED_MAX {
            let name = if round % 2 == 0 { "a" } else { "b" };
            assert_eq!(filter.selects(&definition(name)), name == "a");
        }
        assert!(filter.remembered.len() <= REMEMBERED_MAX);
    }
}
