//! Foreign keys.

use super::state::{State, Undo};
use super::table::{KeyValues, key_values};
use crate::ForeignKeyPolicy;
use change::{Row, TableName};

/// Values of `columns` in `table`, unless one of them is NULL, must stand in `parent_columns` of a row of `parent`.
/// Checked when a transaction commits; nothing cascades.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// The table that refers.
    pub table: TableName,
    /// Its columns, as indexes into its definition.
    pub columns: Vec<usize>,
    /// The table that is referred to.
    pub parent: TableName,
    /// The columns that must hold the values, in the order of `columns`.
    pub parent_columns: Vec<usize>,
}

impl State {
    /// The first foreign key that the open transaction would leave violated: its number of writes and what is wrong.
    ///
    /// Looks only at rows that the transaction touched: rows that came under [`ForeignKeyPolicy::Ignore`] are nobody's
    /// business here.
    pub(super) fn broken_reference(&self, policy: ForeignKeyPolicy) -> Option<(usize, String)> {
        let open = self.open.as_ref()?;
        if policy == ForeignKeyPolicy::Ignore {
            return None;
        }
        let broken = self.content.references.iter().find(|reference| {
            open.undo.iter().any(|step| match step {
                Undo::Row { table, id, before } => {
                    let after = self.content.tables.get(table).and_then(|table| table.row(*id));
                    let orphan = *table == reference.table && after.is_some_and(|row| self.dangles(reference, row));
                    let left = *table == reference.parent
                        && before.as_ref().is_some_and(|before| {
                            self.referred(reference, &key_values(before, &reference.parent_columns))
                        });
                    orphan || left
                }
                Undo::Table { table, .. } => {
                    let children = self.content.tables.get(&reference.table);
                    *table == reference.parent
                        && children.is_some_and(|table| table.rows().iter().any(|row| self.dangles(reference, row)))
                }
                Undo::Checkpoint { .. } | Undo::CheckpointNote { .. } => false,
            })
        })?;
        Some((open.writes, format!("foreign key of table {} to table {}", broken.table, broken.parent)))
    }

    /// Whether a row refers to nothing.
    fn dangles(&self, reference: &Reference, row: &Row) -> bool {
        let values = key_values(row, &reference.columns);
        values.iter().all(Option::is_some) && !self.holds(&reference.parent, &reference.parent_columns, &values)
    }

    /// Whether a row refers to parent values that are not there (any more).
    fn referred(&self, reference: &Reference, values: &KeyValues) -> bool {
        values.iter().all(Option::is_some)
            && !self.holds(&reference.parent, &reference.parent_columns, values)
            && self.holds(&reference.table, &reference.columns, values)
    }

    fn holds(&self, table: &TableName, columns: &[usize], values: &KeyValues) -> bool {
        self.content.tables.get(table).is_some_and(|table| table.find(columns, values).is_some())
    }
}
