//! Which tables and columns of two databases belong together.

use crate::Error;
use crate::selection::{Names, Selection};
use change::{CaseRule, TableDefinition, TableName};
use database::compare::{ComparedTable, ValueForm};
use std::collections::BTreeMap;

/// Tables of both sides, sorted.
#[derive(Debug)]
pub(crate) struct Pairing {
    /// In the order of the source's names.
    pub(crate) pairs: Vec<TablePair>,
    /// Source tables without a partner, and the names that their partners would have.
    pub(crate) missing: Vec<(TableName, TableName)>,
    /// Target tables without a partner.
    pub(crate) extra: Vec<TableName>,
}

/// A source table and the target table that it is compared with.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TablePair {
    pub(crate) source: ComparedTable,
    pub(crate) target: ComparedTable,
    /// Columns that only the source has.
    pub(crate) columns_missing: Vec<String>,
    /// Columns that only the target has.
    pub(crate) columns_extra: Vec<String>,
}

/// What one side has.
#[derive(Debug)]
pub(crate) struct Tables {
    pub(crate) names: Names,
    pub(crate) definitions: Vec<TableDefinition>,
}

impl Tables {
    fn find(&self, name: &TableName) -> Option<&TableDefinition> {
        let case = self.names.case;
        let exact = self.definitions.iter().find(|definition| definition.name == *name);
        exact.or_else(|| {
            self.definitions.iter().find(|definition| {
                same(case, &definition.name.schema, &name.schema) && same(case, &definition.name.table, &name.table)
            })
        })
    }
}

/// Sorts the tables of both sides.
///
/// # Errors
/// [`Error::Refused`] when there is nothing to compare, when an option speaks of no table, and when a target table has two
/// partners.
pub(crate) fn pair(source: &Tables, target: &Tables, selection: &Selection) -> Result<Pairing, Error> {
    let plan = selection.plan(&source.names, &target.names);
    let backward: Vec<(TableName, Vec<TableName>)> =
        target.definitions.iter().map(|definition| (definition.name.clone(), plan.sources(&definition.name))).collect();
    let spoken_of = source.definitions.iter().map(|definition| &definition.name);
    let spoken_of = spoken_of.chain(backward.iter().flat_map(|(_, sources)| sources));
    if let Some(option) = plan.without_effect(spoken_of).first() {
        return Err(Error::refused(
            format!("{option}: no table of that name exists at either side"),
            "check the spelling; a name without a schema belongs to the default schema, and double quotes keep its case",
        ));
    }

    let mut pairing = Pairing { pairs: Vec::new(), missing: Vec::new(), extra: Vec::new() };
    let mut partners: BTreeMap<&TableName, &TableName> = BTreeMap::new();
    for definition in source.definitions.iter().filter(|definition| plan.selects(&definition.name)) {
        for name in plan.targets(&definition.name) {
            // What one product keeps in its default schema, another one keeps in its own.
            let of_default = || {
                let is_default = definition.name.schema == source.names.default_schema && name == definition.name;
                let schema = target.names.default_schema.clone();
                is_default.then(|| TableName { schema, table: name.table.clone() })
            };
            let partner = target.find(&name).or_else(|| target.find(&of_default()?));
            let Some(partner) = partner else {
                pairing.missing.push((definition.name.clone(), name));
                continue;
            };
            if let Some(other) = partners.insert(&partner.name, &definition.name) {
                return Err(Error::refused(
                    format!("{other} and {} are both to be compared with {}", definition.name, partner.name),
                    "write --map so that each target table has one source table",
                ));
            }
            pairing.pairs.push(pair_columns(definition, partner, source.names.case, target.names.case));
        }
    }
    for (name, sources) in &backward {
        if !partners.contains_key(name) && sources.iter().any(|source| plan.selects(source)) {
            pairing.extra.push(name.clone());
        }
    }
    if pairing.pairs.is_empty() && pairing.missing.is_empty() && pairing.extra.is_empty() {
        return Err(Error::refused(
            "there is no table to compare",
            "check that the urls name the right databases, and the options the right tables",
        ));
    }
    Ok(pairing)
}

/// The columns that two tables have in common, by name.
pub(crate) fn pair_columns(
    source: &TableDefinition,
    target: &TableDefinition,
    source_case: CaseRule,
    target_case: CaseRule,
) -> TablePair {
    let insensitive = source_case == CaseRule::Insensitive && target_case == CaseRule::Insensitive;
    let case = if insensitive { CaseRule::Insensitive } else { CaseRule::Sensitive };
    let mut common: Vec<(usize, usize)> = Vec::new();
    let mut columns_missing = Vec::new();
    for (index, column) in source.columns.iter().enumerate() {
        let partner = target.column(&column.name);
        let partner = partner.or_else(|| target.columns.iter().position(|other| same(case, &other.name, &column.name)));
        match partner {
            Some(partner) => common.push((index, partner)),
            None => columns_missing.push(column.name.clone()),
        }
    }
    let has_partner = |index: usize| common.iter().any(|(_, partner)| *partner == index);
    let extra = target.columns.iter().enumerate().filter(|(index, _)| !has_partner(*index));
    let columns_extra = extra.map(|(_, column)| column.name.clone()).collect();
    let key = common_key(source, &common, |(index, _)| *index)
        .or_else(|| common_key(target, &common, |(_, partner)| *partner));
    let names = |definition: &TableDefinition, side: fn(&(usize, usize)) -> usize| {
        common.iter().map(|pair| definition.columns[side(pair)].name.clone()).collect()
    };
    let form = |pair: &(usize, usize)| ValueForm::of(&[&source.columns[pair.0], &target.columns[pair.1]]);
    let forms: Vec<ValueForm> = common.iter().map(form).collect();
    let side = |definition: &TableDefinition, columns: Vec<String>| ComparedTable {
        name: definition.name.clone(),
        columns,
        key: key.clone(),
        forms: forms.clone(),
    };
    TablePair {
        source: side(source, names(source, |pair| pair.0)),
        target: side(target, names(target, |pair| pair.1)),
        columns_missing,
        columns_extra,
    }
}

/// The key of one side as indexes into the common columns; `None` when it has none or the other side lacks a part of it.
fn common_key(
    definition: &TableDefinition,
    common: &[(usize, usize)],
    side: impl Fn(&(usize, usize)) -> usize,
) -> Option<Vec<usize>> {
    let key = definition.key();
    let places = key.iter().map(|column| common.iter().position(|pair| side(pair) == *column));
    places.collect::<Option<Vec<usize>>>().filter(|key| !key.is_empty())
}

fn same(case: CaseRule, one: &str, other: &str) -> bool {
    one == other || case == CaseRule::Insensitive && one.eq_ignore_ascii_case(other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SelectionRequest;
    use change::{Column, LogicalType};

    /// Tables as `name(column, *key)`.
    fn tables(case: CaseRule, texts: &[&str]) -> Tables {
        let definition = |text: &&str| {
            let (name, columns) = text.split_once('(').expect("columns");
            let columns = columns.trim_end_matches(')').split(',').filter(|column| !column.is_empty());
            let columns = columns.enumerate().map(|(place, column)| match column.strip_prefix('*') {
                Some(key) => Column::new(key, LogicalType::Text, "text").with_key(place as u16),
                None => Column::new(column, LogicalType::Text, "text"),
            });
            TableDefinition { name: TableName::parse(name).expect("a name"), columns: columns.collect() }
        };
        let names = Names { case, default_schema: "main".to_owned() };
        Tables { names, definitions: texts.iter().map(definition).collect() }
    }

    fn paired(case: CaseRule, source: &[&str], target: &[&str], request: SelectionRequest) -> Result<Pairing, Error> {
        pair(&tables(case, source), &tables(case, target), &Selection::parse(&request).expect("a selection"))
    }

    #[test]
    fn tables_of_one_side_are_missing_or_extra() {
        let all = SelectionRequest::default();
        let pairing =
            paired(CaseRule::Sensitive, &["s.a(*k)", "s.b(*k)"], &["s.A(*k)", "s.b(*k)"], all).expect("pairs");
        assert_eq!(pairing.pairs.len(), 1);
        assert_eq!(pairing.missing, [(TableName::new("s", "a"), TableName::new("s", "a"))]);
        assert_eq!(pairing.extra, [TableName::new("s", "A")]);
    }

    #[test]
    fn where_case_means_nothing_names_meet_without_it() {
        let all = SelectionRequest::default();
        let pairing = paired(CaseRule::Insensitive, &["main.T(*Key,v)"], &["main.t(*kEY,V)"], all).expect("pairs");
        let pair = &pairing.pairs[0];
        assert_eq!(
            (&pair.source.columns[..], &pair.target.columns[..]),
            (&["Key".into(), "v".into()][..], &["kEY".into(), "V".into()][..])
        );
        assert!(pair.columns_missing.is_empty() && pair.columns_extra.is_empty());
    }

    #[test]
    fn columns_meet_by_name_whatever_their_order() {
        let all = SelectionRequest::default();
        let pairing = paired(CaseRule::Sensitive, &["s.t(*a,b,c)"], &["s.t(d,c,*a)"], all).expect("pairs");
        let expected = TablePair {
            source: ComparedTable {
                name: TableName::new("s", "t"),
                columns: vec!["a".into(), "c".into()],
                key: Some(vec![0]),
                forms: vec![ValueForm::Own; 2],
            },
            target: ComparedTable {
                name: TableName::new("s", "t"),
                columns: vec!["a".into(), "c".into()],
                key: Some(vec![0]),
                forms: vec![ValueForm::Own; 2],
            },
            columns_missing: vec!["b".into()],
            columns_extra: vec!["d".into()],
        };
        assert_eq!(pairing.pairs, [expected]);
    }

    #[test]
    fn the_key_is_the_sources_else_the_targets_else_the_row() {
        for (source, target, key) in [
            ("s.t(a,*k)", "s.t(*a,k)", Some(vec![1])),
            ("s.t(a,k)", "s.t(*a,k)", Some(vec![0])),
            ("s.t(a,*gone)", "s.t(*a)", Some(vec![0])),
            ("s.t(a,*gone)", "s.t(a)", None),
        ] {
            let pairing =
                paired(CaseRule::Sensitive, &[source], &[target], SelectionRequest::default()).expect("pairs");
            assert_eq!(pairing.pairs[0].source.key, key, "{source} {target}");
        }
    }

    #[test]
    fn only_selected_tables_are_missing_or_extra() {
        let request = SelectionRequest {
            tables: vec!["hr.*".into()],
            excluded: vec!["hr.tmp*".into()],
            maps: vec![("hr.*".into(), "copy.*".into())],
        };
        let source = ["hr.a(k)", "hr.b(k)", "hr.tmp1(k)", "sales.c(k)"];
        let target = ["copy.a(k)", "copy.tmp2(k)", "copy.new(k)", "hr.b(k)", "other.x(k)"];
        let pairing = paired(CaseRule::Sensitive, &source, &target, request).expect("pairs");
        assert_eq!(pairing.pairs.len(), 1);
        assert_eq!(pairing.missing, [(TableName::new("hr", "b"), TableName::new("copy", "b"))]);
        assert_eq!(pairing.extra, [TableName::new("copy", "new")]);
    }

    #[test]
    fn what_has_no_effect_or_no_single_meaning_is_refused() {
        let refused = |source: &[&str], target: &[&str], request: SelectionRequest| {
            paired(CaseRule::Sensitive, source, target, request).expect_err("a refusal").to_string()
        };
        let request = SelectionRequest { tables: vec!["s.x".into()], ..SelectionRequest::default() };
        assert_eq!(
            refused(&["s.a(k)"], &["s.a(k)"], request),
            "--tables s.x: no table of that name exists at either side"
        );
        let maps = vec![("s.a".into(), "t.x".into()), ("s.b".into(), "t.x".into())];
        let request = SelectionRequest { maps, ..SelectionRequest::default() };
        let told = refused(&["s.a(k)", "s.b(k)"], &["t.x(k)"], request);
        assert_eq!(told, "s.a and s.b are both to be compared with t.x");
        assert_eq!(refused(&[], &[], SelectionRequest::default()), "there is no table to compare");
    }
}
