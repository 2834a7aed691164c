//! Changes of a database that are not changes of rows.

use crate::TableName;

/// A statement that made, altered or removed an object of the database (DDL).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DefinitionStatement {
    /// Schema of the object; empty where it has none.
    pub owner: String,
    /// The object, exactly as the database stores its name.
    pub object: String,
    /// Kind of the object, such as `TABLE`.
    pub object_type: String,
    /// What became of it, such as `CREATE`, `ALTER` or `DROP`.
    pub verb: String,
    /// The user who ran the statement.
    pub user: String,
    /// The statement as it was run.
    pub text: String,
}

/// Where a sequence stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SequenceState {
    /// The sequence.
    pub name: TableName,
    /// Its last value.
    pub value: i128,
    /// The step to the next one.
    pub increment: i64,
    /// Whether the value was handed out; if not, it is the next one.
    pub is_called: bool,
}
