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

    /// Whether a table that is captured from now on may hold rows already, which are not told, although it is not
    /// [required](TableSelection::required). Of an ordinary table nobody would know that they are missing.
    fn may_join_filled(&self, table: &TableName) -> bool {
        let _ = table;
        false
    }

    /// The same rules as patterns of names, for a database that can go by them while nobody of us runs; `None` when they
    /// can't be told so.
    fn patterns(&self) -> Option<Vec<TablePattern>> {
        None
    }

    /// Whether statements that define objects are to be told. All of them are: which ones count is decided later.
    fn tells_definitions(&self) -> bool {
        false
    }

    /// Whether it is to be told where sequences stand.
    fn tells_sequences(&self) -> bool {
        false
    }

    /// Whether it is to be told where this sequence stands.
    fn selects_sequence(&self, sequence: &TableName) -> bool {
        let _ = sequence;
        false
    }
}

/// One pattern of tables' names, compared letter for letter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TablePattern {
    /// Texts of the schema's name, with anything between them; one text is the whole name.
    pub schema: Vec<String>,
    /// The same of the table's name.
    pub table: Vec<String>,
    /// What it says of tables that match.
    pub rule: PatternRule,
}

/// What a [`TablePattern`] says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatternRule {
    /// They are captured, unless they are excluded.
    Selected,
    /// Their key is another one, by KEYCOLS. Another pattern selects them.
    OtherKey,
    /// They are not captured.
    Excluded,
}
