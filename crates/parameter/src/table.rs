//! TABLE and TABLEEXCLUDE: which tables an Extract captures.

use crate::cursor::Cursor;
use crate::diagnostic::Diagnostic;
use crate::name_index::NameIndex;
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
    /// Whether nothing is selected.
    pub fn is_empty(&self) -> bool {
        self.tables.is_empty()
    }

    /// The rules where no database is asked: letters of either case are alike, and a name without a schema means any schema.
    pub fn plan_anywhere(&self) -> TablePlan {
        let case = CaseRule::Insensitive;
        let rule = |rule: &TableRule| PlannedTable {
            matcher: rule.pattern.matcher_in_any_schema(case),
            name: None,
            key_columns: None,
        };
        let rules: Vec<PlannedTable> = self.tables.iter().map(rule).collect();
        let excluded: Vec<NameMatcher> =
            self.excluded.iter().map(|pattern| pattern.matcher_in_any_schema(case)).collect();
        let index = NameIndex::new(rules.iter().map(|rule| &rule.matcher));
        let excluded_index = NameIndex::new(excluded.iter());
        TablePlan { rules, index, excluded, excluded_index }
    }

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
        let excluded: Vec<NameMatcher> =
            self.excluded.iter().map(|pattern| pattern.matcher(case, default_schema)).collect();
        let index = NameIndex::new(rules.iter().map(|rule| &rule.matcher));
        let excluded_index = NameIndex::new(excluded.iter());
        TablePlan { rules, index, excluded, excluded_index }
    }
}

/// One rule of [`TablePlan::patterns`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedPattern {
    /// Texts of the schema's name, with anything between them; one text is the whole name.
    pub schema: Vec<String>,
    /// The same of the table's name.
    pub table: Vec<String>,
    /// What it says of tables that match.
    pub rule: PlannedRule,
}

/// What a [`PlannedPattern`] says of the tables that it matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlannedRule {
    /// They are captured, unless they are excluded.
    Selected,
    /// KEYCOLS gives them another key.
    OtherKey,
    /// They are not captured.
    Excluded,
}

/// The tables that one name stands for, as commands take it: wildcards and quotes as in a TABLE statement.
///
/// # Errors
/// [`Diagnostic`] when `text` is not such a name and nothing else.
pub fn tables_named(text: &str) -> Result<TableRules, Diagnostic> {
    let mut cursor = Cursor::new(text);
    let pattern = cursor.name_pattern("a table name")?.value;
    if cursor.peek().is_some() {
        return Err(cursor.error(cursor.offset()..text.len(), "this does not belong to a table name", "remove it"));
    }
    Ok(TableRules { tables: vec![TableRule { pattern, key_columns: None }], excluded: Vec::new() })
}

/// Which tables an Extract captures, under the case rule of its database.
#[derive(Clone, Debug)]
pub struct TablePlan {
    rules: Vec<PlannedTable>,
    index: NameIndex,
    excluded: Vec<NameMatcher>,
    excluded_index: NameIndex,
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
        !self.is_excluded(table) && self.matching(table).next().is_some()
    }

    /// Tables that were named without a wildcard and are not excluded, in file order. Each must exist.
    pub fn required(&self) -> Vec<TableName> {
        let names = self.rules.iter().filter_map(|rule| rule.name.clone());
        names.filter(|name| !self.is_excluded(name)).collect()
    }

    /// KEYCOLS for the table. A statement that names the table has the word before one that catches it by a wildcard;
    /// among equals the first in the file has it.
    pub fn key_columns(&self, table: &TableName) -> Option<Vec<String>> {
        self.matching(table).find_map(|rule| rule.key_columns.clone())
    }

    /// The rules as texts around wildcards; `None` where letters of either case are alike.
    pub fn patterns(&self) -> Option<Vec<PlannedPattern>> {
        let selected = self.rules.iter().map(|rule| (&rule.matcher, PlannedRule::Selected));
        let keyed = self.rules.iter().filter(|rule| rule.key_columns.is_some());
        let keyed = keyed.map(|rule| (&rule.matcher, PlannedRule::OtherKey));
        let excluded = self.excluded.iter().map(|matcher| (matcher, PlannedRule::Excluded));
        let pattern = |(matcher, rule): (&NameMatcher, PlannedRule)| {
            let (schema, table) = matcher.texts()?;
            Some(PlannedPattern { schema, table, rule })
        };
        selected.chain(keyed).chain(excluded).map(pattern).collect()
    }

    fn is_excluded(&self, table: &TableName) -> bool {
        self.excluded_index.candidates(table).any(|place| self.excluded[place].matches(table))
    }

    /// The rules that match, in their order: those that name the table stand before those with a wildcard.
    fn matching<'a>(&'a self, table: &'a TableName) -> impl Iterator<Item = &'a PlannedTable> {
        let rules = self.index.candidates(table).map(|place| &self.rules[place]);
        rules.filter(|rule| rule.matcher.matches(table))
    }
}

pub(crate) fn column_names(columns: &[ColumnName], case: CaseRule) -> Vec<String> {
    columns.iter().map(|column| written(&column.name, column.quoted, case)).collect()
}

#[cfg(test)]
mod tests {
    use crate::parse_extract;
    use change::{CaseRule, TableName};

    fn plan(statements: &str, case: CaseRule) -> super::TablePlan {
        let text = format!("EXTRACT e1\nSOURCEDB sqlite:s.db\nEXTTRAIL ./dirdat/aa\n{statements}");
        parse_extract(&text, "e1.prm").expect("a valid file").tables.plan(case, "main")
    }

    fn name(text: &str) -> TableName {
        TableName::parse(text).expect("a table name")
    }

    #[test]
    fn a_name_is_read_by_the_case_rule_of_its_database() {
        let statements = "TABLE s.Orders; TABLE s.\"Quoted\"; TABLE s.\"Mixed\"Tail*;";
        for (case, selected, passed_over) in [
            (CaseRule::Insensitive, "s.Orders s.orders S.ORDERS s.quoted s.MIXEDTAIL1", "s.order t.orders"),
            (
                CaseRule::FoldToLower,
                "s.orders s.Quoted s.Mixedtail s.Mixedtail1",
                "s.Orders s.ORDERS S.orders s.quoted s.MixedTail s.mixedtail",
            ),
            (CaseRule::Sensitive, "s.Orders s.Quoted s.MixedTail1", "s.orders s.quoted s.Mixedtail S.Orders"),
        ] {
            let plan = plan(statements, case);
            selected.split(' ').for_each(|text| assert!(plan.selects(&name(text)), "{case:?} selects {text}"));
            passed_over.split(' ').for_each(|text| assert!(!plan.selects(&name(text)), "{case:?} passes over {text}"));
        }
    }

    #[test]
    fn thousands_of_statements_find_what_each_alone_finds() {
        let statements: Vec<String> = (0..5_000)
            .map(|number| match number % 10 {
                0 => format!("TABLE s{}.W{number}_*;", number % 7),
                1 => format!("TABLEEXCLUDE s{}.T{};", number % 7, number - 1),
                _ => format!("TABLE s{}.T{number}, KEYCOLS (k{number});", number % 7),
            })
            .collect();
        for case in [CaseRule::FoldToLower, CaseRule::Insensitive, CaseRule::Sensitive] {
            let all = plan(&statements.join("\n"), case);
            for number in (0..5_000).step_by(97) {
                let one = plan(&format!("TABLE none;{}", statements[number].replace("TABLEEXCLUDE", "TABLE")), case);
                for table in [
                    format!("s{}.t{number}", number % 7),
                    format!("s{}.T{number}", number % 7),
                    format!("s{}.w{number}_x", number % 7),
                ] {
                    let table = name(&table);
                    let is_excluded = statements.get(number + 1).is_some_and(|next| {
                        next.starts_with("TABLEEXCLUDE")
                            && plan(&next.replace("TABLEEXCLUDE", "TABLE"), case).selects(&table)
                    });
                    let expected =
                        one.selects(&table) && !statements[number].starts_with("TABLEEXCLUDE") && !is_excluded;
                    assert_eq!(all.selects(&table), expected, "{case:?} {table}");
                    if expected {
                        assert_eq!(all.key_columns(&table), one.key_columns(&table), "{case:?} {table}");
                    }
                }
            }
        }
    }

    #[test]
    fn tables_without_wildcards_are_required_as_the_database_writes_them() {
        let statements = "TABLE *; TABLE Orders; TABLE S.\"Items\"; TABLE \"a*b\"; TABLE gone; TABLEEXCLUDE g*;";
        let required = |case| plan(statements, case).required();
        let names = |list: [&str; 3]| list.map(name).to_vec();
        assert_eq!(required(CaseRule::FoldToLower), names(["main.orders", "s.Items", "main.a*b"]));
        assert_eq!(required(CaseRule::Sensitive), names(["main.Orders", "S.Items", "main.a*b"]));
    }

    #[test]
    fn exclusions_hold_wherever_they_stand_and_bare_names_belong_to_the_default_schema() {
        let plan = plan("TABLEEXCLUDE tmp_*; TABLE *; TABLE tmp_1; TABLE other.*;", CaseRule::Insensitive);
        assert!(plan.selects(&name("main.t")) && plan.selects(&name("other.tmp_1")));
        assert!(!plan.selects(&name("main.tmp_1")) && !plan.selects(&name("third.t")));
        assert!(plan.selects(&name("main.tmpx1")), "_ is a plain character");
        assert!(plan.required().is_empty());
    }

    #[test]
    fn key_columns_of_the_tables_own_statement_have_the_word() {
        let plan = plan(
            "TABLE *, KEYCOLS (A); TABLE t*, KEYCOLS (B); TABLE t1, KEYCOLS (\"C\", D); TABLE t2;",
            CaseRule::FoldToLower,
        );
        let key = |table: &str| plan.key_columns(&name(table));
        let columns = |list: &[&str]| Some(list.iter().map(|column| (*column).to_owned()).collect::<Vec<_>>());
        assert_eq!(key("main.x"), columns(&["a"]));
        assert_eq!(key("main.t1"), columns(&["C", "d"]));
        assert_eq!(key("main.t2"), columns(&["a"]), "its own statement has none, so the first that has some");
        assert_eq!(key("other.x"), None);
    }

    #[test]
    fn the_rules_are_told_as_texts_around_wildcards() {
        use super::PlannedRule::{Excluded, OtherKey, Selected};
        let texts = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let statements = "TABLE s.A*b*, KEYCOLS (x); TABLE \"a*b\"; TABLEEXCLUDE *.tmp_1;";
        let rule = |schema: &[&str], table: &[&str], rule| super::PlannedPattern {
            schema: texts(schema),
            table: texts(table),
            rule,
        };
        let expected = vec![
            rule(&["main"], &["a*b"], Selected),
            rule(&["s"], &["a", "b", ""], Selected),
            rule(&["s"], &["a", "b", ""], OtherKey),
            rule(&["", ""], &["tmp_1"], Excluded),
        ];
        assert_eq!(plan(statements, CaseRule::FoldToLower).patterns(), Some(expected));
        assert_eq!(plan(statements, CaseRule::Insensitive).patterns(), None);
    }
}
