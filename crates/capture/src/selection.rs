//! The parameter file's TABLE statements, as the source asks for them.

use change::{CaseRule, TableName};
use database::{PatternRule, TablePattern, TableSelection};
use parameter::{PlannedPattern, PlannedRule, TablePlan, TableRules};

/// TABLE statements under the names and case rule of one source.
pub struct Selection {
    plan: TablePlan,
    sequences: Option<TablePlan>,
    tells_definitions: bool,
}

impl Selection {
    /// Adapts `rules` to a source whose unquoted names compare by `case` and whose tables without a schema are in
    /// `default_schema`.
    pub fn new(rules: &TableRules, case: CaseRule, default_schema: &str) -> Selection {
        Selection { plan: rules.plan(case, default_schema), sequences: None, tells_definitions: false }
    }

    /// The same with the sequences of SEQUENCE statements, if there are any.
    pub fn with_sequences(self, rules: &TableRules, case: CaseRule, default_schema: &str) -> Selection {
        let plan = rules.plan(case, default_schema);
        Selection { sequences: (!rules.is_empty()).then_some(plan), ..self }
    }

    /// The same with statements that define objects, if they are asked for.
    pub fn with_definitions(self, tells_definitions: bool) -> Selection {
        Selection { tells_definitions, ..self }
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

    fn tells_definitions(&self) -> bool {
        self.tells_definitions
    }

    fn tells_sequences(&self) -> bool {
        self.sequences.is_some()
    }

    fn selects_sequence(&self, sequence: &TableName) -> bool {
        self.sequences.as_ref().is_some_and(|plan| plan.selects(sequence))
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
