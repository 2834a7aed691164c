//! TABLE and TABLEEXCLUDE: which tables an Extract captures.

use crate::pattern::{NameMatcher, NamePattern, written};
use change::{CaseRule, TableName};

/// A column name of KEYCOLS, as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ColumnName {
    pub(crate) name: String,
    pub(crate) quoted: bool,
}

/// One TABLE statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TableRule {
    pub(crate) pattern: NamePattern,
    pub(crate) key_columns: Option<Vec<ColumnName>>,
}

/// The TABLE and TABLEEXCLUDE statements of an Extract.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableRules {
    pub(crate) tables: Vec<TableRule>,
    pub(crate) excluded: Vec<NamePattern>,
}

impl TableRules {
    /// The rules as the source database reads them: `case` is its case rule, and names that were written without a
    /// schema belong to `default_schema`.
    pub fn plan(&self, case: CaseRule, default_schema: &str) -> TablePlan {
        let mut rules: Vec<PlannedTable> = self
            .tables
            .iter()
            .map(|rule| PlannedTable {
                matcher: rule.pattern.matcher(case, default_schema),
                name: rule.pattern.name(case, default_schema),
                key_columns: rule.key_columns.as_ref().map(|columns| column_names(columns, case)),
            })
            .collect();
        // A table's own statement has the word before one that catches it by a wildcard. The sort is stable.
        rules.sort_by_key(|rule| rule.name.is_none());
        let excluded = self.excluded.iter().map(|pattern| pattern.matcher(case, default_schema)).collect();
        TablePlan { rules, excluded }
    }
}

/// Which tables an Extract captures, under the case rule of its database.
#[derive(Clone, Debug)]
pub struct TablePlan {
    rules: Vec<PlannedTable>,
    excluded: Vec<NameMatcher>,
}

#[derive(Clone, Debug)]
struct PlannedTable {
    matcher: NameMatcher,
    /// The table, when it was named without a wildcard.
    name: Option<TableName>,
    key_columns: Option<Vec<String>>,
}

impl TablePlan {
    /// Whether the table is captured: some TABLE statement matches it and no TABLEEXCLUDE does.
    pub fn selects(&self, table: &TableName) -> bool {
        !self.is_excluded(table) && self.rules.iter().any(|rule| rule.matcher.matches(table))
    }

    /// Tables that were named without a wildcard and are not excluded, in file order. Each must exist.
    pub fn required(&self) -> Vec<TableName> {
        let names = self.rules.iter().filter_map(|rule| rule.name.clone());
        names.filter(|name| !self.is_excluded(name)).collect()
    }

    /// KEYCOLS for the table. A statement that names the table has the word before one that catches it by a wildcard;
    /// among equals the first in the file has it.
    pub fn key_columns(&self, table: &TableName) -> Option<Vec<String>> {
        let matching = self.rules.iter().filter(|rule| rule.matcher.matches(table));
        matching.filter_map(|rule| rule.key_columns.clone()).next()
    }

    fn is_excluded(&self, table: &TableName) -> bool {
        self.excluded.iter().any(|matcher| matcher.matches(table))
    }
}

pub(crate) fn column_names(columns: &[ColumnName], case: CaseRule) -> Vec<String> {
    columns.iter().map(|column| written(&column.name, column.quoted, case)).collect()
}
