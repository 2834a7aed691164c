//! From COMPARECOLS and RESOLVECONFLICT to the rules of the conflict engine.

use crate::conflict::{
    Chain, ColumnGroup, ConflictRules, Detection, Groups, MissingMethod, Scope, StampColumns, UpdateMethod,
};
use change::{Generation, LogicalType, TableDefinition, TableName};
use database::TablePlan;
use parameter::{Compare, ConflictClause, ConflictMethod, ConflictType, Handling};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Why the options of a MAP do not fit its tables.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum HandlingError {
    /// A column that the table does not have, or that the source does not send.
    #[error("{option} of the MAP to {target} names {column}, which is not a column of both tables")]
    Column {
        /// COMPARECOLS, VERSIONCOLS or RESOLVECONFLICT.
        option: &'static str,
        /// The target table.
        target: TableName,
        /// The column.
        column: String,
    },
    /// A method that can't work with the type of a column.
    #[error("{method} of the MAP to {target} can't work with the type of column {column}")]
    Type {
        /// The method.
        method: &'static str,
        /// The target table.
        target: TableName,
        /// The column.
        column: String,
    },
}

impl HandlingError {
    /// The target table.
    pub fn target(&self) -> &TableName {
        match self {
            HandlingError::Column { target, .. } | HandlingError::Type { target, .. } => target,
        }
    }
}

/// The shape that the engine works with: the source's, where the key is what finds a row, and columns that are not written
/// take no part.
pub(crate) fn engine_table(plan: &TablePlan) -> TableDefinition {
    let mut table = (*plan.source).clone();
    for (place, column) in Arc::make_mut(&mut table.columns).iter_mut().enumerate() {
        column.key = plan.key.iter().position(|pair| pair.source == place).map(|place| place as u16);
        if !plan.columns.iter().any(|pair| pair.source == place) {
            column.generation = Generation::Virtual;
        }
    }
    table
}

/// The rules of one MAP, or `None` when it has none.
///
/// # Errors
/// [`HandlingError`].
pub(crate) fn row_rules(plan: &TablePlan, handling: &Handling) -> Result<Option<ConflictRules>, HandlingError> {
    if !handling.looks_first() {
        return Ok(None);
    }
    let mut rules = ConflictRules { scope: Scope::Row, ..ConflictRules::default() };
    let stamps = match handling.version.as_deref() {
        None | Some([]) => None,
        Some([time, rest @ ..]) => {
            let time = column_of(plan, "VERSIONCOLS", time)?;
            let site = rest.first().map_or(Ok(time), |site| column_of(plan, "VERSIONCOLS", site))?;
            Some(StampColumns { time, site })
        }
    };
    if let Some(stamps) = stamps {
        check_types(plan, &UpdateMethod::LatestStamp(stamps), &BTreeSet::new())?;
        rules.detection = Detection::Stamps(stamps);
    }
    for (columns, compare) in rules.not_compared.iter_mut().zip([&handling.compare_update, &handling.compare_delete]) {
        let all: BTreeSet<usize> = (0..plan.source.columns.len()).collect();
        *columns = match compare {
            None | Some(Compare::Key) => all,
            Some(Compare::All) => BTreeSet::new(),
            Some(Compare::Including(names)) => {
                let compared = columns_of(plan, "COMPARECOLS", names)?;
                all.difference(&compared).copied().collect()
            }
            Some(Compare::Excluding(names)) => columns_of(plan, "COMPARECOLS", names)?,
        };
    }
    for clause in &handling.conflicts {
        match clause.kind {
            ConflictType::InsertRowExists => rules.insert = Some(groups(plan, clause, stamps)?),
            ConflictType::UpdateRowExists => rules.update = groups(plan, clause, stamps)?,
            ConflictType::UpdateRowMissing => rules.update_missing = missing(clause),
            ConflictType::DeleteRowExists => rules.delete_changed = missing(clause),
            ConflictType::DeleteRowMissing => rules.delete_missing = missing(clause),
            ConflictType::Truncate => rules.truncate = missing(clause),
        }
    }
    Ok(Some(rules))
}

fn column_of(plan: &TablePlan, option: &'static str, name: &str) -> Result<usize, HandlingError> {
    let is_named = |target: usize, exact: bool| {
        let known = &plan.target.columns[target].name;
        if exact { known == name } else { known.eq_ignore_ascii_case(name) }
    };
    let find = |exact| plan.columns.iter().find(|pair| is_named(pair.target, exact)).map(|pair| pair.source);
    find(true).or_else(|| find(false)).ok_or_else(|| HandlingError::Column {
        option,
        target: plan.target.name.clone(),
        column: name.to_owned(),
    })
}

fn columns_of(plan: &TablePlan, option: &'static str, names: &[String]) -> Result<BTreeSet<usize>, HandlingError> {
    names.iter().map(|name| column_of(plan, option, name)).collect()
}

fn groups(plan: &TablePlan, clause: &ConflictClause, stamps: Option<StampColumns>) -> Result<Groups, HandlingError> {
    let mut groups = Groups::default();
    for part in &clause.parts {
        let columns = columns_of(plan, "RESOLVECONFLICT", &part.columns)?;
        let decided_by = |name: &String| column_of(plan, "RESOLVECONFLICT", name);
        let method = match &part.method {
            ConflictMethod::Overwrite => UpdateMethod::Overwrite,
            ConflictMethod::Ignore => UpdateMethod::Discard,
            ConflictMethod::Discard => UpdateMethod::DiscardRecord,
            ConflictMethod::UseMinimum { column, or_equal } => {
                UpdateMethod::UseMinimum { column: decided_by(column)?, or_equal: *or_equal }
            }
            ConflictMethod::UseMaximum { column, or_equal } => {
                UpdateMethod::UseMaximum { column: decided_by(column)?, or_equal: *or_equal }
            }
            ConflictMethod::UseDelta => UpdateMethod::UseDelta,
            // The grammar asks for them.
            ConflictMethod::Latest => match stamps {
                Some(stamps) => UpdateMethod::LatestStamp(stamps),
                None => UpdateMethod::Discard,
            },
        };
        check_types(plan, &method, &columns)?;
        let mut chain = Chain::default();
        // The first method of an empty chain.
        let _ = chain.add(1, method);
        if part.columns.is_empty() {
            groups.rest = chain;
        } else {
            groups.groups.push(ColumnGroup { name: part.name.clone(), columns, chain });
        }
    }
    Ok(groups)
}

/// Numbers for USEDELTA; numbers and moments for USEMIN and USEMAX.
fn check_types(plan: &TablePlan, method: &UpdateMethod, columns: &BTreeSet<usize>) -> Result<(), HandlingError> {
    use LogicalType::{Date, Decimal, Dynamic, Float, Integer, Timestamp, TimestampWithZone};
    let is_number = |kind| matches!(kind, Integer | Decimal | Float | Dynamic);
    let is_moment = |kind| matches!(kind, Date | Timestamp | TimestampWithZone);
    let refuse = |column: usize| HandlingError::Type {
        method: method.name(),
        target: plan.target.name.clone(),
        column: plan.source.columns[column].name.clone(),
    };
    let kind = |column: usize| plan.source.columns[column].logical;
    match method {
        UpdateMethod::UseDelta => match columns.iter().find(|column| !is_number(kind(**column))) {
            Some(column) => Err(refuse(*column)),
            None => Ok(()),
        },
        UpdateMethod::UseMaximum { column, .. } | UpdateMethod::UseMinimum { column, .. } => {
            let kind = kind(*column);
            if is_number(kind) || is_moment(kind) { Ok(()) } else { Err(refuse(*column)) }
        }
        UpdateMethod::LatestStamp(StampColumns { time, .. }) => {
            let kind = kind(*time);
            if is_number(kind) || is_moment(kind) { Ok(()) } else { Err(refuse(*time)) }
        }
        _ => Ok(()),
    }
}

fn missing(clause: &ConflictClause) -> Chain<MissingMethod> {
    let mut chain = Chain::default();
    for (number, part) in (1..).zip(&clause.parts) {
        let method = match part.method {
            ConflictMethod::Overwrite => MissingMethod::Overwrite,
            ConflictMethod::Discard => MissingMethod::DiscardRecord,
            ConflictMethod::Latest => MissingMethod::LatestStamp,
            _ => MissingMethod::Ignore,
        };
        // The grammar lets one part through.
        let _ = chain.add(number, method);
    }
    chain
}
