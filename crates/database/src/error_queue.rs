//! The error queue and the conflict log: tables in the target that keep what could not be applied, and what was settled.
//!
//! They are Drover's own, one set per database, and serve all groups that apply to it. Their columns are the same in every
//! product, so one reader and one writer serve all; a product only makes them and says what they are called. Views with the names that
//! DBAs know (DEFERROR, DEFCALL, DEFERRCOUNT, REPRESOLUTION_STATISTICS) stand over them.

use change::TableDefinition;

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueColumn {
    /// Characters.
    Text,
    /// A whole number of 64 bits.
    Integer,
    /// A moment, `YYYY-MM-DD HH:MI:SS.ffffff`, UTC.
    Moment,
    /// JSON.
    Json,
}

/// One of the tables.
#[derive(Clone, Copy, Debug)]
pub struct QueueTable {
    /// Its name without schema or prefix.
    pub name: &'static str,
    /// What it is, for its comment.
    pub about: &'static str,
    /// Columns with what they hold and whether they refuse NULL.
    pub columns: &'static [(&'static str, QueueColumn, bool)],
    /// Columns of the primary key.
    pub key: &'static [&'static str],
}

/// Place of the table of parked transactions in [`TABLES`].
pub const TRANSACTIONS: usize = 0;
/// Place of the table of their calls.
pub const CALLS: usize = 1;
/// Place of the table of what they touch.
pub const KEYS: usize = 2;
/// Place of the conflict log.
pub const CONFLICTS: usize = 3;
/// Place of the versions of deleted rows.
pub const TOMBSTONES: usize = 4;

use QueueColumn::{Integer, Json, Moment, Text};

/// All tables.
pub const TABLES: [QueueTable; 5] = [
    QueueTable {
        name: "error_transaction",
        about: "error queue, transactions",
        columns: &[
            ("group_key", Integer, true),
            ("deferred_tran_id", Text, true),
            ("group_name", Text, true),
            ("seqno", Integer, true),
            ("rba", Integer, true),
            ("origin_tran_db", Text, false),
            ("origin_tran_id", Text, true),
            ("csn", Text, true),
            ("commit_time", Moment, true),
            ("start_time", Moment, true),
            ("callno", Integer, false),
            ("error_number", Text, true),
            ("error_msg", Text, true),
            ("held_behind", Text, false),
        ],
        key: &["group_key", "deferred_tran_id"],
    },
    QueueTable {
        name: "error_call",
        about: "error queue, calls",
        columns: &[
            ("group_key", Integer, true),
            ("deferred_tran_id", Text, true),
            ("callno", Integer, true),
            ("schemaname", Text, true),
            ("packagename", Text, true),
            ("procname", Text, true),
            ("source_table", Json, true),
            ("key_columns", Json, false),
            ("old_values", Json, false),
            ("new_values", Json, false),
            ("current_values", Json, false),
        ],
        key: &["group_key", "deferred_tran_id", "callno"],
    },
    QueueTable {
        name: "error_key",
        about: "error queue, what its transactions touch",
        columns: &[
            ("group_key", Integer, true),
            ("deferred_tran_id", Text, true),
            ("item", Integer, true),
            ("is_written", Integer, true),
        ],
        key: &["group_key", "deferred_tran_id", "item"],
    },
    QueueTable {
        name: "conflict",
        about: "conflict log",
        columns: &[
            ("group_key", Integer, true),
            ("conflict_id", Text, true),
            ("group_name", Text, true),
            ("resolved_date", Moment, true),
            ("sname", Text, true),
            ("oname", Text, true),
            ("conflict_type", Text, true),
            ("reference_name", Text, true),
            ("sequence_no", Integer, false),
            ("method_name", Text, false),
            ("resolution", Text, true),
            ("failure", Text, false),
            ("primary_key_value", Text, false),
            ("origin_tran_db", Text, false),
            ("origin_tran_id", Text, true),
            ("csn", Text, true),
            ("old_values", Json, false),
            ("new_values", Json, false),
            ("current_values", Json, false),
        ],
        key: &["group_key", "conflict_id"],
    },
    QueueTable {
        name: "tombstone",
        about: "versions of deleted rows",
        columns: &[
            ("sname", Text, true),
            ("oname", Text, true),
            // Values of the key in the order of its columns, with U+001F between them.
            ("key_values", Text, true),
            ("version", Text, true),
            ("site", Text, false),
            ("deleted_date", Moment, true),
        ],
        key: &["sname", "oname", "key_values"],
    },
];

/// Views over the tables: name and query, in which `@` stands before the name of a table of [`TABLES`].
pub const VIEWS: [(&str, &str); 4] = [
    (
        "deferror",
        "SELECT deferred_tran_id, origin_tran_db, origin_tran_id, callno, group_name AS destination, start_time, error_number, \
         error_msg, group_name AS receiver, csn, commit_time, held_behind, seqno, rba, group_key FROM @error_transaction",
    ),
    (
        "defcall",
        "SELECT callno, deferred_tran_id, schemaname, packagename, procname, \
         CASE WHEN old_values IS NULL THEN 0 ELSE 1 END + CASE WHEN new_values IS NULL THEN 0 ELSE 1 END AS argcount, \
         old_values, new_values, current_values, group_key FROM @error_call",
    ),
    (
        "deferrcount",
        "SELECT count(*) AS errcount, group_name AS destination FROM @error_transaction GROUP BY group_name",
    ),
    (
        "represolution_statistics",
        "SELECT sname, oname, conflict_type, reference_name, method_name, resolution, resolved_date, primary_key_value, \
         group_name FROM @conflict WHERE method_name IS NOT NULL",
    ),
];

/// The tables as a database has them, in the order of [`TABLES`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorQueueTables {
    /// Their definitions.
    pub tables: Vec<TableDefinition>,
}
