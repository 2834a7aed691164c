//! The parameter file's TABLE statements, as the source asks for them.

use change::{CaseRule, TableName};
use database::{HEARTBEAT_OBJECTS, PatternRule, TablePattern, TableSelection, is_heartbeat_object, is_stamped_table};
use parameter::{PlannedPattern, PlannedRule, TablePlan, TableRules};

/// TABLE statements under the names and case rule of one source.
///
/// No TABLE statement speaks of heartbeat tables: they are captured when the group captures heartbeats, and else never.
pub struct Selection {
    plan: TablePlan,
    sequences: Option<TablePlan>,
    tells_definitions: bool,
    schema: String,
    captures_heartbeats: bool,
}

impl Selection {
    /// Adapts `rules` to a source whose unquoted names compare by `case` and whose tables without a schema are in
    /// `default_schema`.
    pub fn new(rules: &TableRules, case: CaseRule, default_schema: &str) -> Selection {
        Selection {
            plan: rules.plan(case, default_schema),
            sequences: None,
            tells_definitions: false,
            schema: default_schema.to_owned(),
            captures_heartbeats: false,
        }
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

    /// The same with the tables that a heartbeat installation stamps.
    pub fn with_heartbeats(self, captures_heartbeats: bool) -> Selection {
        Selection { captures_heartbeats, ..self }
    }

    fn is_heartbeat(&self, table: &TableName) -> bool {
        table.schema.eq_ignore_ascii_case(&self.schema) && is_heartbeat_object(table)
    }

    fn captures_stamps_of(&self, table: &TableName) -> bool {
        self.captures_heartbeats && is_stamped_table(table)
    }
}

impl TableSelection for Selection {
    fn selects(&self, table: &TableName) -> bool {
        if self.is_heartbeat(table) { self.captures_stamps_of(table) } else { self.plan.selects(table) }
    }

    fn required(&self) -> Vec<TableName> {
        self.plan.required()
    }

    fn key_columns(&self, table: &TableName) -> Option<Vec<String>> {
        if self.is_heartbeat(table) { None } else { self.plan.key_columns(table) }
    }

    fn may_join_filled(&self, table: &TableName) -> bool {
        // Stamps that were made before are of no use to anybody.
        self.is_heartbeat(table)
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
        // They join at a start, when it is known that they are heartbeat tables.
        let heartbeats = HEARTBEAT_OBJECTS.iter().map(|name| TablePattern {
            schema: vec![self.schema.clone()],
            table: vec![name.to_lowercase()],
            rule: PatternRule::Excluded,
        });
        Some(patterns.chain(heartbeats).collect())
    }
}
