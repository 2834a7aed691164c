//! The parameter file's TABLE statements, as the source asks for them.

use change::{CaseRule, TableName};
use database::{PatternRule, TablePattern, TableSelection};
use parameter::{PlannedPattern, PlannedRule, TablePlan, TableRules};

/// TABLE statements under the names and case rule of one source.
pub struct Selection {
    plan: TablePlan,
}

impl Selection {
    /// Adapts `rules` to a source whose unquoted names compare by `case` and whose tables without a schema are in
    /// `default_schema`.
    pub fn new(rules: &TableRules, case: CaseRule, default_schema: &str) -> Selection {
        Selection { plan: rules.plan(case, default_schema) }
    }
}

impl TableSelection for Selection {
    fn selects(&self, table: &TableName) -> bool {
        self.plan.selects(table)
    }

    fn required(&self) -> Vec<TableName> {
        self.plan.required()
    }

    fn key_columns(&self, table: &TableName) -> Option<Vec<String>> {
        self.plan.key_columns(table)
    }

    fn patterns(&self) -> Option<Vec<TablePattern>> {
        let patterns = self.plan.patterns()?.into_iter().map(|PlannedPattern { schema, table, rule }| {
            let rule = match rule {
                PlannedRule::Selected => PatternRule::Selected,
                PlannedRule::OtherKey => PatternRule::OtherKey,
                PlannedRule::Excluded => PatternRule::Excluded,
            };
            TablePattern { schema, table, rule }
        });
        Some(patterns.collect())
    }
}
