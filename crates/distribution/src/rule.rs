//! Which records a Pump or a path sends on.

use change::TableName;
use parameter::{TablePlan, TableRules};
use trail::copy::{CopiedRecord, CopyRules};

/// Rules of a Pump: its TABLE and TABLEEXCLUDE statements.
///
/// Names are compared with those in the trail; letters of either case are alike, because no database is asked how it takes them.
pub struct PathRules {
    plan: TablePlan,
}

impl PathRules {
    /// The rules of a parameter file. A name without a schema means any schema.
    pub fn of_tables(rules: &TableRules) -> PathRules {
        PathRules { plan: rules.plan_anywhere() }
    }
}

impl CopyRules for PathRules {
    fn keeps(&self, record: &CopiedRecord<'_>) -> bool {
        // Statements and sequences are about no table that a rule could name.
        record.table.is_empty() || TableName::parse(record.table).is_ok_and(|table| self.plan.selects(&table))
    }
}
