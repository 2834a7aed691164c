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
    /// The schemas that names without one were looked for in, as the source writes such a list; empty where the statement
    /// needs none.
    pub search_path: String,
    /// The table that the object belongs to, such as that of an index or a trigger.
    pub base: Option<TableName>,
    /// Columns that the statement added, with the value that it gave to the rows that were there. The target may have come to
    /// another one, as with the time of day.
    pub filled: Vec<FilledColumn>,
    /// Why the text is not known, though the statement was seen; empty when it is known. Such a statement is never written to
    /// a trail.
    pub untold: String,
}

impl DefinitionStatement {
    /// The object's name in messages.
    pub fn name(&self) -> String {
        match (self.owner.as_str(), self.object.as_str()) {
            ("", "") => "an object without name".to_owned(),
            ("", object) => object.to_owned(),
            (owner, object) => TableName::new(owner, object).to_string(),
        }
    }

    /// What it is called in messages, such as `ALTER TABLE public.t`.
    pub fn title(&self) -> String {
        format!("{} {} {}", self.verb, self.object_type, self.name())
    }
}

/// A value that a new column has in all rows that were there before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FilledColumn {
    /// The column.
    pub column: String,
    /// The value, as the source writes it.
    pub value: String,
}

/// What a transaction did to an object of the database rather than to a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ObjectChange {
    /// It defined, altered or removed one.
    Definition(DefinitionStatement),
    /// It left a sequence there.
    Sequence(SequenceState),
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
