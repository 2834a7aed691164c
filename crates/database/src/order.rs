//! What a target table demands of the order of writes.

use change::TableName;

/// How much of the order of writes to a table can be told from the values of its rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OrderScope {
    /// Writes that share no value of a unique key may change places.
    Rows,
    /// Writes to the table keep their order: it has a constraint that the values of its columns don't show, such as a unique
    /// index over an expression, or values that are equal and read differently.
    Table,
    /// Writes to the table keep their order with all other writes: they write elsewhere as well, by triggers that run
    /// whatever the session asks for.
    Database,
}

/// A unique key over plain columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UniqueKey {
    /// Columns, as indexes into the table's definition.
    pub columns: Vec<usize>,
    /// Whether two rows with NULL meet.
    pub nulls_meet: bool,
}

/// A foreign key of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignKey {
    /// Its columns, as indexes into the table's definition.
    pub columns: Vec<usize>,
    /// The table that is referred to.
    pub parent: TableName,
    /// Names of the columns that are referred to, in the order of `columns`.
    pub parent_columns: Vec<String>,
}

/// What decides which writes to a table must keep their order when several sessions write at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableOrder {
    /// How much the keys show.
    pub scope: OrderScope,
    /// All unique keys over plain columns. A key that holds for some rows only counts as one that holds for all.
    pub unique: Vec<UniqueKey>,
    /// Foreign keys that leave the table.
    pub references: Vec<ForeignKey>,
}

impl TableOrder {
    /// Nothing may change places.
    pub fn strict() -> TableOrder {
        TableOrder { scope: OrderScope::Database, unique: Vec::new(), references: Vec::new() }
    }
}
