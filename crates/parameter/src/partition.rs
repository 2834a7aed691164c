//! PARTITION and PARTITIONEXCLUDE: partitions that are told by name, or not at all.

use crate::cursor::{Cursor, Written};
use crate::diagnostic::Diagnostic;
use crate::file::Raw;
use crate::pattern::{NameMatcher, NamePattern, Part};
use change::{CaseRule, TableName};
use std::ops::Range;

/// One statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PartitionRule {
    /// The partition, as written.
    text: String,
    table: NamePattern,
    partition: Part,
    is_exclusion: bool,
}

/// The PARTITION and PARTITIONEXCLUDE statements of an Extract.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartitionRules {
    pub(crate) rules: Vec<PartitionRule>,
}

impl PartitionRules {
    /// Whether there is no statement.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// The partitions that statements name, as the operator wrote them.
    pub fn written(&self) -> impl Iterator<Item = &str> {
        self.rules.iter().map(|rule| rule.text.as_str())
    }

    /// The rules as the source database reads them: `case` is its case rule, and names that were written without a
    /// schema belong to `default_schema`.
    pub fn plan(&self, case: CaseRule, default_schema: &str) -> PartitionPlan {
        let rules = self.rules.iter().map(|rule| PlannedPartition {
            text: rule.text.clone(),
            table: rule.table.matcher(case, default_schema),
            partition: NamePattern { schema: None, table: rule.partition.clone() }.matcher(case, ""),
            is_exclusion: rule.is_exclusion,
        });
        PartitionPlan { rules: rules.collect() }
    }
}

/// What the statements say of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartitionChoice {
    /// Its changes tell its name.
    Named,
    /// Its changes are not captured.
    Excluded,
    /// Its changes are captured as those of its table.
    Untouched,
}

/// The statements under the case rule of their database.
#[derive(Clone, Debug)]
pub struct PartitionPlan {
    rules: Vec<PlannedPartition>,
}

#[derive(Clone, Debug)]
struct PlannedPartition {
    text: String,
    table: NameMatcher,
    partition: NameMatcher,
    is_exclusion: bool,
}

impl PlannedPartition {
    fn matches(&self, table: &TableName, partition: &str) -> bool {
        self.table.matches(table) && self.partition.matches(&TableName::new("", partition))
    }
}

impl PartitionPlan {
    /// Whether a statement is about partitions of `table`.
    pub fn concerns(&self, table: &TableName) -> bool {
        self.rules.iter().any(|rule| rule.table.matches(table))
    }

    /// What holds for a partition of `table`. An exclusion has the word before a PARTITION statement.
    pub fn choice(&self, table: &TableName, partition: &str) -> PartitionChoice {
        let matching = || self.rules.iter().filter(|rule| rule.matches(table, partition));
        match matching().any(|rule| rule.is_exclusion) {
            true => PartitionChoice::Excluded,
            false if matching().next().is_some() => PartitionChoice::Named,
            false => PartitionChoice::Untouched,
        }
    }

    /// A statement, as written, that is about none of these tables.
    pub fn without_table<'a>(&'a self, tables: &[TableName]) -> Option<&'a str> {
        let unfit = |rule: &&PlannedPartition| !tables.iter().any(|table| rule.table.matches(table));
        self.rules.iter().find(unfit).map(|rule| rule.text.as_str())
    }
}

pub(crate) fn read_partition(cursor: &mut Cursor<'_>, raw: &mut Raw, _: Range<usize>) -> Result<(), Diagnostic> {
    read(cursor, raw, false)
}

pub(crate) fn read_exclusion(cursor: &mut Cursor<'_>, raw: &mut Raw, _: Range<usize>) -> Result<(), Diagnostic> {
    read(cursor, raw, true)
}

fn read(cursor: &mut Cursor<'_>, raw: &mut Raw, is_exclusion: bool) -> Result<(), Diagnostic> {
    let Written { value: (table, partition), place } = cursor.partition_pattern()?;
    let text = cursor.text()[place].to_owned();
    raw.partitions.rules.push(PartitionRule { text, table, partition, is_exclusion });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::PartitionChoice::{Excluded, Named, Untouched};
    use crate::parse_extract;
    use change::{CaseRule, TableName};

    #[test]
    fn exclusions_have_the_word_and_what_no_statement_matches_stays_untouched() {
        let statements =
            "PARTITION Sales.P2026*\nPARTITIONEXCLUDE public.sales.p2026_01\nPARTITION other.\"T.x\".\"P\"";
        let text = format!("EXTRACT e1\nSOURCEDB sqlite:s.db\nEXTTRAIL ./dirdat/aa\n{statements}\nTABLE *;");
        let rules = parse_extract(&text, "e1.prm").expect("a valid file").partitions;
        let plan = rules.plan(CaseRule::FoldToLower, "public");
        let sales = TableName::new("public", "sales");
        for (table, partition, choice) in [
            (&sales, "p2026_02", Named),
            (&sales, "p2026_01", Excluded),
            (&sales, "p2025_01", Untouched),
            (&sales, "P2026_02", Untouched),
            (&TableName::new("other", "T.x"), "P", Named),
            (&TableName::new("other", "T.x"), "p", Untouched),
            (&TableName::new("public", "x"), "p2026_01", Untouched),
        ] {
            assert_eq!(plan.choice(table, partition), choice, "{table} {partition}");
        }
        assert!(plan.concerns(&sales) && !plan.concerns(&TableName::new("other", "sales")));
        assert_eq!(plan.without_table(&[sales]), Some("other.\"T.x\".\"P\""));
        assert_eq!(
            rules.written().collect::<Vec<_>>(),
            ["Sales.P2026*", "public.sales.p2026_01", "other.\"T.x\".\"P\""]
        );
    }
}
