//! MAP and MAPEXCLUDE: which source tables a Replicat applies, and to which target tables.

use crate::handling::{Handling, HandlingRule};
use crate::pattern::{NameMatcher, NamePattern, Taken};
use crate::table::{ColumnName, column_names};
use crate::thread::{MapThreads, ThreadRule};
use change::{CaseRule, TableName};
use std::sync::Arc;

/// One MAP statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MapRule {
    pub(crate) source: NamePattern,
    pub(crate) target: NamePattern,
    pub(crate) key_columns: Option<Vec<ColumnName>>,
    pub(crate) handling: HandlingRule,
    pub(crate) threads: ThreadRule,
}

/// The MAP and MAPEXCLUDE statements of a Replicat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapRules {
    pub(crate) maps: Vec<MapRule>,
    pub(crate) excluded: Vec<NamePattern>,
}

impl MapRules {
    /// A number that other rules are not likely to have: FNV-1a over how they read.
    pub fn fingerprint(&self) -> String {
        let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        let hash = format!("{self:?}").bytes().fold(0xcbf2_9ce4_8422_2325, step);
        format!("{hash:016x}")
    }

    /// Whether nothing is said about rows that do not fit.
    pub fn is_plain(&self) -> bool {
        self.maps.iter().all(|map| map.handling == HandlingRule::default())
    }

    /// The first word about threads, such as THREADRANGE, if there is one.
    pub fn thread_word(&self) -> Option<&'static str> {
        self.maps.iter().find_map(|map| match &map.threads {
            ThreadRule { threads: Some((first, last)), .. } if first == last => Some("THREAD"),
            ThreadRule { threads: Some(_), .. } => Some("THREADRANGE"),
            ThreadRule { is_coordinated: true, .. } => Some("COORDINATED"),
            _ => None,
        })
    }

    /// The highest thread that a statement names; 1 where none does.
    pub fn highest_thread(&self) -> u32 {
        self.maps.iter().filter_map(|map| map.threads.threads).map(|(_, last)| last).max().unwrap_or(1)
    }

    /// Whether a rule of REPERROR parks transactions in the error queue, and whether one holds later ones back behind them.
    pub fn queues(&self) -> (bool, bool) {
        let of = |map: &MapRule| map.handling.errors.queues();
        self.maps.iter().map(of).fold((false, false), |one, other| (one.0 || other.0, one.1 || other.1))
    }

    /// Whether a rule of REPERROR concerns whole source transactions.
    pub fn judges_transactions(&self) -> bool {
        self.maps.iter().any(|map| map.handling.errors.judges_transactions())
    }

    /// Whether rows of some table are looked at before they are written.
    pub fn looks_first(&self) -> bool {
        let looks = |rule: &HandlingRule| {
            rule.compare_update.is_some()
                || rule.compare_delete.is_some()
                || !rule.conflicts.is_empty()
                || rule.version.is_some()
        };
        self.maps.iter().any(|map| looks(&map.handling))
    }

    /// The rules as the two databases read them. Names that were written without a schema belong to the default schema
    /// of their side.
    ///
    /// KEYCOLS names target columns.
    pub fn plan(
        &self,
        source_case: CaseRule,
        source_schema: &str,
        target_case: CaseRule,
        target_schema: &str,
    ) -> MapPlan {
        let rules =
            self.maps
                .iter()
                .map(|rule| PlannedMap {
                    matcher: rule.source.matcher(source_case, source_schema),
                    is_exact: !rule.source.has_wildcard(),
                    target: rule.target.clone(),
                    key_columns: rule.key_columns.as_ref().map(|columns| column_names(columns, target_case)),
                    threads: rule.threads.plan(target_case),
                    handling: Arc::new(rule.handling.plan(target_case, |exceptions| {
                        exceptions.fill(target_case, target_schema, &Taken::default())
                    })),
                })
                .collect();
        let excluded = self.excluded.iter().map(|pattern| pattern.matcher(source_case, source_schema)).collect();
        // Where the source does not tell `T` from `t`, the case that a name happens to be stored in means nothing, and
        // in a target that folds names it would only miss the table.
        let fold_taken = source_case == CaseRule::Insensitive && target_case == CaseRule::FoldToLower;
        MapPlan { rules, excluded, target_case, target_schema: target_schema.to_owned(), fold_taken }
    }
}

/// Where changes of a source table go, under the case rules of both databases.
#[derive(Clone, Debug)]
pub struct MapPlan {
    rules: Vec<PlannedMap>,
    excluded: Vec<NameMatcher>,
    target_case: CaseRule,
    target_schema: String,
    fold_taken: bool,
}

#[derive(Clone, Debug)]
struct PlannedMap {
    matcher: NameMatcher,
    is_exact: bool,
    target: NamePattern,
    key_columns: Option<Vec<String>>,
    handling: Arc<Handling>,
    threads: MapThreads,
}

/// A target table of a source table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapTarget {
    /// The target table.
    pub target: TableName,
    /// KEYCOLS: columns of the target to find rows by, in place of its own key.
    pub key_columns: Option<Vec<String>>,
    /// What is done with rows that do not fit.
    pub handling: Arc<Handling>,
    /// Which thread of a coordinated Replicat applies.
    pub threads: MapThreads,
}

impl MapPlan {
    /// Targets of the source table, in file order; empty when no MAP matches it or a MAPEXCLUDE does.
    ///
    /// A table may match several MAP statements, and each applies it; a target that several of them name is used once.
    /// For its KEYCOLS a statement that names the source table has the word before one that catches it by a wildcard.
    pub fn targets(&self, source: &TableName) -> Vec<MapTarget> {
        if self.is_excluded(source) {
            return Vec::new();
        }
        let mut targets: Vec<(bool, MapTarget)> = Vec::new();
        for rule in &self.rules {
            let Some(taken) = rule.matcher.take(source) else { continue };
            let target = rule.target.fill(self.target_case, &self.target_schema, &self.folded(taken));
            let key_columns = rule.key_columns.clone();
            match targets.iter_mut().find(|(_, known)| self.is_same(&known.target, &target)) {
                None => {
                    let handling = Arc::clone(&rule.handling);
                    let threads = rule.threads.clone();
                    targets.push((rule.is_exact, MapTarget { target, key_columns, handling, threads }));
                }
                Some((is_exact, known)) => {
                    if rule.is_exact && !*is_exact {
                        known.handling = Arc::clone(&rule.handling);
                        known.threads = rule.threads.clone();
                    }
                    let has_the_word = known.key_columns.is_none() || (rule.is_exact && !*is_exact);
                    if has_the_word && key_columns.is_some() {
                        known.key_columns = key_columns;
                        *is_exact = rule.is_exact;
                    }
                }
            }
        }
        targets.into_iter().map(|(_, target)| target).collect()
    }

    /// MAP statements that settle conflicts: their target, with its wildcards, and what they say.
    pub fn resolutions(&self) -> Vec<(TableName, Arc<Handling>)> {
        let any = || vec!["*".to_owned(); 8];
        let settles = self.rules.iter().filter(|rule| !rule.handling.conflicts.is_empty());
        settles
            .map(|rule| {
                let taken = Taken { schema: any(), table: any() };
                (rule.target.fill(self.target_case, &self.target_schema, &taken), Arc::clone(&rule.handling))
            })
            .collect()
    }

    /// As [`MapRules::queues`].
    pub fn queues(&self) -> (bool, bool) {
        let of = |map: &PlannedMap| map.handling.errors.queues();
        self.rules.iter().map(of).fold((false, false), |one, other| (one.0 || other.0, one.1 || other.1))
    }

    /// Whether versions of deleted rows are kept for some table.
    pub fn keeps_versions(&self) -> bool {
        self.rules.iter().any(|map| map.handling.version.is_some())
    }

    /// Whether a MAPEXCLUDE matches the source table.
    pub fn is_excluded(&self, source: &TableName) -> bool {
        self.excluded.iter().any(|matcher| matcher.matches(source))
    }

    fn folded(&self, mut taken: Taken) -> Taken {
        if self.fold_taken {
            taken.schema.iter_mut().chain(&mut taken.table).for_each(|text| text.make_ascii_lowercase());
        }
        taken
    }

    fn is_same(&self, one: &TableName, other: &TableName) -> bool {
        match self.target_case {
            CaseRule::Insensitive => {
                one.schema.eq_ignore_ascii_case(&other.schema) && one.table.eq_ignore_ascii_case(&other.table)
            }
            CaseRule::FoldToLower | CaseRule::Sensitive => one == other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{MapPlan, MapTarget};
    use crate::parse_replicat;
    use change::{CaseRule, TableName};

    fn plan(statements: &str, source: CaseRule, target: CaseRule) -> MapPlan {
        let text = format!("REPLICAT r1\nTARGETDB sqlite:t.db\n{statements}");
        parse_replicat(&text, "r1.prm").expect("a valid file").map.plan(source, "main", target, "public")
    }

    fn targets(plan: &MapPlan, source: &str) -> Vec<String> {
        let source = TableName::parse(source).expect("a table name");
        plan.targets(&source).into_iter().map(|target| target.target.to_string()).collect()
    }

    #[test]
    fn a_target_wildcard_takes_the_text_of_its_part() {
        let statements = "MAP sales*.*_old, TARGET copy*.new_*; MAP a.x*y*z, TARGET b.\"Q\"*-*; MAP t*, TARGET u*;";
        let plan = plan(statements, CaseRule::Sensitive, CaseRule::Sensitive);
        assert_eq!(targets(&plan, "sales_eu.items_old"), ["copy_eu.new_items"]);
        assert_eq!(targets(&plan, "sales._old"), ["copy.new_"]);
        assert_eq!(targets(&plan, "a.x1y2z"), ["b.Q1-2"]);
        assert_eq!(targets(&plan, "a.xyyz"), ["b.Q-y"], "the left one takes as little as it can");
        assert_eq!(targets(&plan, "main.t1"), ["public.u1"]);
        assert!(targets(&plan, "a.xy").is_empty() && targets(&plan, "other.t1").is_empty());
    }

    #[test]
    fn every_matching_statement_applies_the_table_and_the_same_target_once() {
        let statements =
            "MAP a.*, TARGET b.*; MAP a.t, TARGET c.t; MAP a.T, TARGET B.T, KEYCOLS (k); MAP a.t*, TARGET d.t*;";
        let plan = plan(statements, CaseRule::Insensitive, CaseRule::Insensitive);
        assert_eq!(targets(&plan, "a.t"), ["b.t", "c.t", "d.t"]);
        assert_eq!(targets(&plan, "a.u"), ["b.u"]);
        let key = plan.targets(&TableName::new("a", "t"))[0].key_columns.clone();
        assert_eq!(key, Some(vec!["k".to_owned()]), "the statement that names the table has the word");
    }

    #[test]
    fn exclusions_take_a_source_table_away_from_every_statement() {
        let statements = "MAP a.*, TARGET b.*; MAP a.t, TARGET c.t; MAPEXCLUDE a.t*;";
        let plan = plan(statements, CaseRule::FoldToLower, CaseRule::FoldToLower);
        assert!(targets(&plan, "a.t").is_empty());
        assert!(plan.is_excluded(&TableName::new("a", "t")) && !plan.is_excluded(&TableName::new("a", "u")));
        assert_eq!(targets(&plan, "a.T"), ["b.T"], "a quoted name of PostgreSQL is another table and keeps its case");
    }

    #[test]
    fn case_means_nothing_when_it_comes_from_a_database_that_does_not_know_it() {
        let statements = "MAP *, TARGET Shop.*; MAP x.\"Y\", TARGET \"X\".\"Y\", KEYCOLS (K, \"L\");";
        let folding = plan(statements, CaseRule::Insensitive, CaseRule::FoldToLower);
        assert_eq!(targets(&folding, "main.Orders"), ["shop.orders"]);
        let exact = plan(statements, CaseRule::Sensitive, CaseRule::Sensitive);
        assert_eq!(targets(&exact, "main.Orders"), ["Shop.Orders"]);
        let target = MapTarget {
            target: TableName::new("X", "Y"),
            key_columns: Some(vec!["k".to_owned(), "L".to_owned()]),
            handling: Default::default(),
            threads: Default::default(),
        };
        assert_eq!(folding.targets(&TableName::new("x", "y")), [target]);
    }
}
