//! How a source table's columns meet a target table's columns.
//!
//! Columns meet by name: first names that are equal, then names that differ in case only, where that leaves no doubt.
//! What has no place is refused by name before the first row; nothing is left out silently.

use change::{Operation, Row, TableDefinition, TableName};
use database::{ColumnPair, TablePlan};
use std::sync::Arc;

/// Why changes of a source table can't be written to a target table.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum MappingError {
    /// The target table is not there.
    #[error("cannot map {source_table} to {target}: there is no such table at the target")]
    NoTarget {
        /// Table whose changes arrive.
        source_table: TableName,
        /// Table that MAP names.
        target: TableName,
    },
    /// Source columns that no target column takes.
    #[error("cannot map {source_table} to {target}: the target has no column {}", columns.join(", "))]
    NoColumn {
        /// Table whose changes arrive.
        source_table: TableName,
        /// Table that MAP names.
        target: TableName,
        /// Columns of the source, in source order.
        columns: Vec<String>,
    },
    /// Columns whose names differ in case only, so that it is not clear which one is meant.
    #[error("cannot map {source_table} to {target}: column {column} fits more than one column when case is ignored")]
    Ambiguous {
        /// Table whose changes arrive.
        source_table: TableName,
        /// Table that MAP names.
        target: TableName,
        /// Column of the source.
        column: String,
    },
    /// KEYCOLS names a column that does not exist on both sides.
    #[error("cannot map {source_table} to {target}: KEYCOLS names {column}, which is not a column of both tables")]
    KeyColumn {
        /// Table whose changes arrive.
        source_table: TableName,
        /// Table that MAP names.
        target: TableName,
        /// The name in KEYCOLS.
        column: String,
    },
    /// THREADRANGE names a column that does not exist on both sides.
    #[error("cannot map {source_table} to {target}: THREADRANGE names {column}, which is not a column of both tables")]
    ThreadColumn {
        /// Table whose changes arrive.
        source_table: TableName,
        /// Table that MAP names.
        target: TableName,
        /// The name in THREADRANGE.
        column: String,
    },
    /// A change does not tell the value that its row is found by.
    #[error(
        "cannot apply a change of {source_table} to {target}: rows are found by {column}, and the source does not tell it of \
         a row before its change"
    )]
    KeyNotTold {
        /// Table whose changes arrive.
        source_table: TableName,
        /// Table that MAP names.
        target: TableName,
        /// Column of the source.
        column: String,
    },
    /// Nothing identifies a row.
    #[error("cannot map {source_table} to {target}: no key identifies a row on both sides")]
    NoKey {
        /// Table whose changes arrive.
        source_table: TableName,
        /// Table that MAP names.
        target: TableName,
    },
}

impl MappingError {
    /// The table that MAP names.
    pub fn target(&self) -> &TableName {
        match self {
            MappingError::NoTarget { target, .. }
            | MappingError::NoColumn { target, .. }
            | MappingError::Ambiguous { target, .. }
            | MappingError::KeyColumn { target, .. }
            | MappingError::ThreadColumn { target, .. }
            | MappingError::KeyNotTold { target, .. }
            | MappingError::NoKey { target, .. } => target,
        }
    }

    /// What the operator can do about it.
    pub fn next_step(&self) -> &'static str {
        match self {
            MappingError::NoTarget { .. } => {
                "create the table at the target, or leave the source table out with MAPEXCLUDE, then start the group again"
            }
            MappingError::NoColumn { .. } => "add the columns to the target table, then start the group again",
            MappingError::Ambiguous { .. } => {
                "give the target's columns the exact names of the source's columns, then start the group again"
            }
            MappingError::KeyNotTold { .. } => {
                "name columns of the source table's own key with KEYCOLS, or let the source log whole rows and capture the \
                 change again"
            }
            MappingError::ThreadColumn { .. } => "correct THREADRANGE in the MAP statement, then start the group again",
            MappingError::KeyColumn { .. } => "correct KEYCOLS in the MAP statement, then start the group again",
            MappingError::NoKey { .. } => {
                "give the table a primary key, or name columns that identify a row with KEYCOLS in the MAP statement"
            }
        }
    }
}

/// Plans how changes of `source` are written to `target`. `key_columns` are the names of KEYCOLS.
///
/// The key is, in this order: KEYCOLS; the target's key, when the source's key holds all of it, since then every image
/// that a source sends has its values; the source's key; for a source table without key, whose images are whole rows, the
/// target's key.
///
/// Columns that only the target has are left to its defaults.
///
/// # Errors
/// [`MappingError`], each case naming tables and columns.
pub fn plan(
    source: &Arc<TableDefinition>,
    target: TableDefinition,
    key_columns: Option<&[String]>,
) -> Result<TablePlan, MappingError> {
    let pairs = pair_columns(source, &target)?;
    let key = match key_columns {
        Some(names) => key_by_name(source, &target, &pairs, names)?,
        None => natural_key(source, &target, &pairs)
            .ok_or_else(|| MappingError::NoKey { source_table: source.name.clone(), target: target.name.clone() })?,
    };
    let mut columns: Vec<ColumnPair> =
        pairs.into_iter().filter(|pair| !target.columns[pair.target].generation.is_computed()).collect();
    columns.sort_unstable_by_key(|pair| pair.target);
    Ok(TablePlan { source: Arc::clone(source), target, columns, key, on_duplicate: database::OnDuplicate::Refuse })
}

/// The column by which `operation` would find its row and whose value before it does not tell, if there is one.
///
/// Sources may tell nothing of an old row but its own key, and nothing at all where that did not change: then the new row
/// tells the key, but of any other column only what became of it.
pub(crate) fn untold_key(plan: &TablePlan, operation: &Operation) -> Option<MappingError> {
    let tells = |row: &Row, pair: &ColumnPair| row.value(pair.source).is_present();
    let untold = match operation {
        Operation::Insert { .. } | Operation::Truncate(_) => None,
        Operation::Delete { old } => plan.key.iter().find(|pair| !tells(old, pair)),
        Operation::Update { old: Some(old), .. } => plan.key.iter().find(|pair| !tells(old, pair)),
        Operation::Update { old: None, new } => {
            let is_key = |pair: &ColumnPair| plan.source.columns[pair.source].key.is_some();
            plan.key.iter().find(|pair| !(is_key(pair) && tells(new, pair)))
        }
    };
    untold.map(|pair| MappingError::KeyNotTold {
        source_table: plan.source.name.clone(),
        target: plan.target.name.clone(),
        column: plan.source.columns[pair.source].name.clone(),
    })
}

pub(crate) fn pair_columns(
    source: &TableDefinition,
    target: &TableDefinition,
) -> Result<Vec<ColumnPair>, MappingError> {
    let mut taken = vec![false; target.columns.len()];
    let mut pairs = Vec::with_capacity(source.columns.len());
    let mut left = Vec::new();
    for (index, column) in source.columns.iter().enumerate() {
        match target.column(&column.name) {
            Some(place) => {
                taken[place] = true;
                pairs.push(ColumnPair { source: index, target: place });
            }
            None => left.push(index),
        }
    }
    let mut missing = Vec::new();
    for &index in &left {
        let name = &source.columns[index].name;
        let folded = name.to_lowercase();
        let mut fits = (0..target.columns.len())
            .filter(|place| !taken[*place] && target.columns[*place].name.to_lowercase() == folded);
        let first = fits.next();
        let rivals = left.iter().filter(|other| source.columns[**other].name.to_lowercase() == folded).count();
        match first {
            Some(place) if fits.next().is_none() && rivals == 1 => {
                pairs.push(ColumnPair { source: index, target: place })
            }
            Some(_) => {
                return Err(MappingError::Ambiguous {
                    source_table: source.name.clone(),
                    target: target.name.clone(),
                    column: name.clone(),
                });
            }
            // What the source computes it also computes from columns that do travel; the target may do without.
            None if source.columns[index].generation.is_computed() => {}
            None => missing.push(name.clone()),
        }
    }
    if missing.is_empty() {
        Ok(pairs)
    } else {
        Err(MappingError::NoColumn { source_table: source.name.clone(), target: target.name.clone(), columns: missing })
    }
}

fn key_by_name(
    source: &TableDefinition,
    target: &TableDefinition,
    pairs: &[ColumnPair],
    names: &[String],
) -> Result<Vec<ColumnPair>, MappingError> {
    let find = |name: &String| {
        let exact = pairs.iter().find(|pair| target.columns[pair.target].name == *name);
        let folded = name.to_lowercase();
        let mut similar = pairs.iter().filter(|pair| target.columns[pair.target].name.to_lowercase() == folded);
        let only = similar.next().filter(|_| similar.next().is_none());
        exact.or(only).copied().ok_or_else(|| MappingError::KeyColumn {
            source_table: source.name.clone(),
            target: target.name.clone(),
            column: name.clone(),
        })
    };
    names.iter().map(find).collect()
}

fn natural_key(source: &TableDefinition, target: &TableDefinition, pairs: &[ColumnPair]) -> Option<Vec<ColumnPair>> {
    let by_target = |place: &usize| pairs.iter().find(|pair| pair.target == *place).copied();
    let by_source = |place: &usize| pairs.iter().find(|pair| pair.source == *place).copied();
    let source_key = source.key();
    let target_key: Option<Vec<ColumnPair>> = target.key().iter().map(by_target).collect();
    let target_key = target_key.filter(|key| !key.is_empty());
    if let Some(key) = &target_key
        && (source_key.is_empty() || key.iter().all(|pair| source_key.contains(&pair.source)))
    {
        return target_key;
    }
    let key: Option<Vec<ColumnPair>> = source_key.iter().map(by_source).collect();
    key.filter(|key| !key.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use change::{Column, Generation, LogicalType, Value};

    fn table(name: &str, columns: &[&str]) -> TableDefinition {
        // A star marks a key column, an equals sign one that the database computes.
        let mut place = 0;
        let columns = columns
            .iter()
            .map(|text| {
                let mut column = Column::new(text.trim_end_matches(['*', '=']), LogicalType::Integer, "integer");
                if text.ends_with('*') {
                    column.key = Some(place);
                    place += 1;
                }
                if text.ends_with('=') {
                    column.generation = Generation::Stored;
                }
                column
            })
            .collect();
        TableDefinition { name: TableName::new("main", name), columns }
    }

    fn planned(source: &[&str], target: &[&str], keys: Option<&[&str]>) -> Result<(String, String), MappingError> {
        let keys: Option<Vec<String>> = keys.map(|keys| keys.iter().map(|key| (*key).to_owned()).collect());
        let plan = plan(&Arc::new(table("s", source)), table("t", target), keys.as_deref())?;
        let text = |pairs: &[ColumnPair]| {
            let names = pairs.iter().map(|pair| {
                format!("{}>{}", plan.source.columns[pair.source].name, plan.target.columns[pair.target].name)
            });
            names.collect::<Vec<_>>().join(" ")
        };
        Ok((text(&plan.columns), text(&plan.key)))
    }

    fn ok(columns: &str, key: &str) -> Result<(String, String), MappingError> {
        Ok((columns.to_owned(), key.to_owned()))
    }

    #[test]
    fn columns_meet_by_name_whatever_their_order() {
        assert_eq!(planned(&["id*", "a", "b"], &["b", "id*", "a"], None), ok("b>b id>id a>a", "id>id"));
    }

    #[test]
    fn names_that_differ_in_case_only_meet_when_there_is_no_doubt() {
        assert_eq!(planned(&["ID*", "Name"], &["id*", "NAME"], None), ok("ID>id Name>NAME", "ID>id"));
        assert_eq!(planned(&["Id*", "id"], &["id*", "Id"], None), ok("id>id Id>Id", "Id>Id"));
        let doubt = planned(&["id*", "Name"], &["id*", "NAME", "name"], None);
        assert!(matches!(doubt, Err(MappingError::Ambiguous { column, .. }) if column == "Name"));
        let doubt = planned(&["id*", "Name", "naMe"], &["id*", "NAME"], None);
        assert!(matches!(doubt, Err(MappingError::Ambiguous { .. })));
    }

    #[test]
    fn a_source_column_without_a_place_is_refused_by_name_unless_it_is_computed() {
        let refused = planned(&["id*", "a", "b", "c="], &["id*"], None).unwrap_err();
        assert_eq!(refused.to_string(), "cannot map main.s to main.t: the target has no column a, b");
        assert_eq!(planned(&["id*", "c="], &["id*"], None), ok("id>id", "id>id"));
    }

    #[test]
    fn what_the_target_computes_is_not_written() {
        assert_eq!(planned(&["id*", "sum="], &["id*", "sum="], None), ok("id>id", "id>id"));
        assert_eq!(planned(&["id*", "sum="], &["id*", "sum"], None), ok("id>id sum>sum", "id>id"));
    }

    #[test]
    fn columns_that_only_the_target_has_are_left_to_it() {
        assert_eq!(planned(&["id*"], &["id*", "note"], None), ok("id>id", "id>id"));
    }

    #[test]
    fn the_key_is_one_that_every_image_holds() {
        assert_eq!(planned(&["a*", "b*"], &["b*", "a*"], None).unwrap().1, "b>b a>a");
        assert_eq!(planned(&["a*", "b"], &["a", "b*"], None).unwrap().1, "a>a");
        assert_eq!(planned(&["a*", "b"], &["a", "b"], None).unwrap().1, "a>a");
        assert_eq!(planned(&["a", "b"], &["a", "b*"], None).unwrap().1, "b>b");
        assert!(matches!(planned(&["a", "b"], &["a", "b"], None), Err(MappingError::NoKey { .. })));
    }

    #[test]
    fn a_change_that_does_not_tell_the_key_of_its_row_is_refused_by_the_column() {
        let source = Arc::new(table("s", &["id*", "code"]));
        let plan = plan(&source, table("t", &["id", "code*"]), Some(&["code".to_owned()])).unwrap();
        let row = |id: &'static str, code| Row::from_values([Value::Bytes(id.as_bytes()), code]);
        let whole = || row("1", Value::Bytes(b"a"));
        let key_only = || row("1", Value::Unchanged);
        let untold = |operation: Operation| untold_key(&plan, &operation).map(|error| error.to_string());
        assert_eq!(untold(Operation::Insert { new: whole() }), None);
        assert_eq!(untold(Operation::truncate()), None);
        assert_eq!(untold(Operation::Delete { old: whole() }), None);
        assert_eq!(untold(Operation::Update { old: Some(whole()), new: key_only() }), None);
        let refusal = "cannot apply a change of main.s to main.t: rows are found by code, and the source does not tell it of a \
                       row before its change";
        for operation in [
            Operation::Delete { old: key_only() },
            Operation::Update { old: None, new: key_only() },
            Operation::Update { old: None, new: whole() },
            Operation::Update { old: Some(key_only()), new: whole() },
        ] {
            assert_eq!(untold(operation), Some(refusal.to_owned()));
        }
        let by_key = super::plan(&source, table("t", &["id*", "code"]), None).unwrap();
        assert_eq!(untold_key(&by_key, &Operation::Update { old: None, new: key_only() }), None);
        assert_eq!(untold_key(&by_key, &Operation::Delete { old: key_only() }), None);
    }

    #[test]
    fn keycols_wins_and_must_name_columns_of_both_tables() {
        assert_eq!(planned(&["a*", "b"], &["a*", "b"], Some(&["B"])).unwrap().1, "b>b");
        let refused = planned(&["a*", "b"], &["a*", "b", "c"], Some(&["c"]));
        assert!(matches!(refused, Err(MappingError::KeyColumn { column, .. }) if column == "c"));
    }
}
