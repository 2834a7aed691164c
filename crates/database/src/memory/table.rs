//! One table: rows, found through unique keys.

use crate::Outcome;
use change::{LogicalType, Row, TableDefinition, Value};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The values of some columns of one row, `None` for NULL.
pub(super) type KeyValues = Vec<Option<Vec<u8>>>;

/// A row's place in its table, for its whole life: a change of key keeps it.
pub(super) type RowId = u64;

/// Why a table does not take a row.
#[derive(Debug)]
pub(super) struct Refusal {
    pub(super) outcome: Outcome,
    pub(super) detail: String,
}

#[derive(Clone)]
struct UniqueKey {
    columns: Vec<usize>,
    /// The table's own key holds one row per value, NULL included; extra unique keys let NULLs repeat, as SQL does.
    primary: bool,
    index: BTreeMap<KeyValues, RowId>,
}

impl UniqueKey {
    fn covers(&self, values: &KeyValues) -> bool {
        self.primary || values.iter().all(Option::is_some)
    }
}

/// All rows of one table.
///
/// Invariants
/// - each unique key's index holds exactly the rows that it covers;
/// - the table's own key, where there is one, comes first among the unique keys.
#[derive(Clone)]
pub(super) struct Table {
    definition: Arc<TableDefinition>,
    unique: Vec<UniqueKey>,
    rows: BTreeMap<RowId, Row>,
    next_id: RowId,
}

impl Table {
    pub(super) fn new(definition: TableDefinition, unique: &[Vec<usize>]) -> Table {
        let own = Some(definition.key()).filter(|key| !key.is_empty());
        let key = |columns: Vec<usize>, primary| UniqueKey { columns, primary, index: BTreeMap::new() };
        let unique = own
            .map(|columns| key(columns, true))
            .into_iter()
            .chain(unique.iter().map(|columns| key(columns.clone(), false)))
            .collect();
        Table { definition: Arc::new(definition), unique, rows: BTreeMap::new(), next_id: 0 }
    }

    pub(super) fn definition(&self) -> &Arc<TableDefinition> {
        &self.definition
    }

    /// Its unique keys.
    pub(super) fn unique_keys(&self) -> Vec<crate::UniqueKey> {
        let key = |key: &UniqueKey| crate::UniqueKey { columns: key.columns.clone(), nulls_meet: key.primary };
        self.unique.iter().map(key).collect()
    }

    /// All rows: in the order of the table's own key, by the bytes of its values, or as they came when it has no key.
    pub(super) fn rows(&self) -> Vec<Row> {
        match self.unique.first().filter(|key| key.primary) {
            Some(key) => key.index.values().map(|id| self.rows[id].clone()).collect(),
            None => self.rows.values().cloned().collect(),
        }
    }

    pub(super) fn row(&self, id: RowId) -> Option<&Row> {
        self.rows.get(&id)
    }

    /// The first row whose `columns` hold `values`; NULL equals NULL here.
    pub(super) fn find(&self, columns: &[usize], values: &KeyValues) -> Option<RowId> {
        let own = self.unique.first().filter(|key| key.primary && key.columns.len() == columns.len());
        let ordered = own.and_then(|key| {
            let place = |column| columns.iter().position(|other| other == column);
            let places = key.columns.iter().map(place).collect::<Option<Vec<_>>>()?;
            Some((key, places.into_iter().map(|place| values[place].clone()).collect::<KeyValues>()))
        });
        match ordered {
            Some((key, values)) => key.index.get(&values).copied(),
            None => self.rows.iter().find(|(_, row)| key_values(row, columns) == *values).map(|(id, _)| *id),
        }
    }

    /// Adds a row.
    pub(super) fn insert(&mut self, row: Row) -> Result<RowId, Refusal> {
        let id = self.next_id;
        self.check(&row, id)?;
        self.next_id += 1;
        self.set(id, Some(row));
        Ok(id)
    }

    /// Puts `row` in the place of row `id` and returns what stood there.
    pub(super) fn replace(&mut self, id: RowId, row: Row) -> Result<Option<Row>, Refusal> {
        self.check(&row, id)?;
        Ok(self.set(id, Some(row)))
    }

    /// Takes row `id` away.
    pub(super) fn remove(&mut self, id: RowId) -> Option<Row> {
        self.set(id, None)
    }

    /// Makes row `id` be `row`, without asking whether it may: rolling back needs this.
    pub(super) fn set(&mut self, id: RowId, row: Option<Row>) -> Option<Row> {
        let before = self.rows.remove(&id);
        for key in &mut self.unique {
            if let Some(before) = &before {
                let values = key_values(before, &key.columns);
                if key.index.get(&values) == Some(&id) {
                    key.index.remove(&values);
                }
            }
            if let Some(row) = &row {
                let values = key_values(row, &key.columns);
                if key.covers(&values) {
                    key.index.insert(values, id);
                }
            }
        }
        if let Some(row) = row {
            self.rows.insert(id, row);
        }
        before
    }

    /// Takes all rows away and returns the table as it was.
    pub(super) fn truncate(&mut self) -> Table {
        let empty = Table {
            definition: Arc::clone(&self.definition),
            unique: self.unique.iter().map(|key| UniqueKey { index: BTreeMap::new(), ..key.clone() }).collect(),
            rows: BTreeMap::new(),
            next_id: self.next_id,
        };
        std::mem::replace(self, empty)
    }

    /// Gives the table a new shape: the old columns first, then new ones, which are NULL in the rows that are there.
    pub(super) fn widen(&mut self, definition: TableDefinition) {
        let columns = definition.columns.len();
        for row in self.rows.values_mut() {
            let missing = columns.saturating_sub(row.len());
            *row = Row::from_values(row.values().chain(std::iter::repeat_n(Value::Null, missing)));
        }
        self.definition = Arc::new(definition);
    }

    fn check(&self, row: &Row, id: RowId) -> Result<(), Refusal> {
        for (column, value) in self.definition.columns.iter().zip(row.values()) {
            let name = &column.name;
            match value.bytes() {
                None if !column.nullable => {
                    let detail = format!("column {name:?} takes no NULL");
                    return Err(Refusal { outcome: Outcome::Constraint, detail });
                }
                Some(bytes) if column.length.is_some_and(|length| exceeds(bytes, column.logical, length)) => {
                    let detail = format!("a value is too long for column {name:?}");
                    return Err(Refusal { outcome: Outcome::Value, detail });
                }
                _ => {}
            }
        }
        for key in &self.unique {
            let values = key_values(row, &key.columns);
            if key.covers(&values) && key.index.get(&values).is_some_and(|other| *other != id) {
                let names: Vec<_> =
                    key.columns.iter().map(|column| self.definition.columns[*column].name.as_str()).collect();
                let detail = format!("unique key of columns {names:?}");
                return Err(Refusal { outcome: Outcome::Duplicate, detail });
            }
        }
        Ok(())
    }
}

fn exceeds(bytes: &[u8], logical: LogicalType, length: u32) -> bool {
    let used = match logical {
        LogicalType::Text => String::from_utf8_lossy(bytes).chars().count(),
        LogicalType::Binary => bytes.len(),
        _ => 0,
    };
    used > length as usize
}

/// The values of `columns` in `row`; a value that did not travel counts as NULL.
pub(super) fn key_values(row: &Row, columns: &[usize]) -> KeyValues {
    columns.iter().map(|column| row.value(*column).bytes().map(<[u8]>::to_vec)).collect()
}

/// `before` with the given columns replaced; a value that did not travel leaves what is there.
pub(super) fn overlay<'a>(before: &Row, values: impl IntoIterator<Item = (usize, Value<'a>)>) -> Row {
    let mut after: Vec<Value<'_>> = before.values().collect();
    for (column, value) in values.into_iter().filter(|(_, value)| value.is_present()) {
        after[column] = value;
    }
    Row::from_values(after)
}
