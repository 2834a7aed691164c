//! The two tables that DIFFERENCES fills and RECTIFY reads.
//!
//! Both are the user's own. The first, MISSING_ROWS, has the columns that were compared; a row that differs stands there twice. The
//! second, MISSING_LOCATION, says of each of them where it is and where it is not: R_ID, PRESENT, ABSENT. R_ID is the row's number
//! in the first table as the product gives it: `rowid` in SQLite, `ctid` in PostgreSQL.

use crate::compare::ComparedTable;
use change::{Column, Row, TableName};

/// Columns of the second table.
pub const LOCATION_COLUMNS: [&str; 3] = ["r_id", "present", "absent"];

/// The two tables, as a side has them.
#[derive(Clone, Debug)]
pub struct MissingTables {
    /// The first table, with the columns that were compared.
    pub rows: ComparedTable,
    /// The second table.
    pub location: TableName,
    /// Its columns, in the order of [`LOCATION_COLUMNS`].
    pub location_columns: [Column; 3],
}

/// A row of the second table with the one that it speaks of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingRow {
    /// R_ID.
    pub number: String,
    /// The site that has the row.
    pub present: String,
    /// The site that has not.
    pub absent: String,
    /// The row; `None` when the first table holds none of that number.
    pub row: Option<Row>,
}
