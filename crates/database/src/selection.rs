//! Which tables a group is about.

use change::TableName;

/// Which tables an operator chose. Implemented over the parameter file's TABLE statements.
pub trait TableSelection: Send + Sync {
    /// Whether the table is captured.
    fn selects(&self, table: &TableName) -> bool;

    /// Tables that are named without a wildcard: each must exist, or the start is refused by its name.
    fn required(&self) -> Vec<TableName>;

    /// KEYCOLS: the columns to use as the table's key in place of its own.
    fn key_columns(&self, table: &TableName) -> Option<Vec<String>>;
}
