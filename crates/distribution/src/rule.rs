//! Which records a Pump or a path sends on.

use crate::signing::is_of_heartbeats;
use change::TableName;
use parameter::{TablePlan, TableRules};
use trail::copy::{CopiedRecord, CopyRules};

/// Rules of a Pump: its TABLE and TABLEEXCLUDE statements.
///
/// Heartbeats are nobody's rows, and go along whatever the statements say.
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
        let keeps = |table: TableName| is_of_heartbeats(&table) || self.plan.selects(&table);
        record.table.is_empty() || TableName::parse(record.table).is_ok_and(keeps)
    }
}

#[cfg(test)]
mod tests {
    use super::PathRules;
    use trail::copy::{CopiedRecord, CopyRules};

    #[test]
    fn heartbeats_go_along_whatever_table_statements_say() {
        let parameters = "EXTRACT p1\nEXTTRAIL ./dirdat/bb\nTABLE shop.item;\nTABLEEXCLUDE public.gg_*;\n";
        let parameters = parameter::parse_pump(parameters, "p1.prm").unwrap_or_else(|wrong| panic!("{wrong}"));
        let rules = PathRules::of_tables(&parameters.tables.expect("there are TABLE statements"));
        let keeps = |table: &str| rules.keeps(&CopiedRecord { table, partition: None, operation: 5 });
        assert!(keeps("public.gg_heartbeat_seed") && keeps("main.GG_HEARTBEAT") && keeps("shop.item"));
        assert!(!keeps("public.gg_heartbeat_history") && !keeps("shop.other"));
    }
}
