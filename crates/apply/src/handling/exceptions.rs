//! Exceptions tables: a row of the source with the error that it met.

use super::discard::LastError;
use crate::mapping::{self, MappingError};
use change::{Column, Commit, LogicalType, Operation, Row, TableDefinition, Timestamp, Value};
use database::TablePlan;
use parameter::{ExceptionValue, Exceptions};
use std::sync::Arc;

/// How rows go into one exceptions table.
pub(crate) struct ExceptionsPlan {
    pub(crate) plan: Arc<TablePlan>,
    /// What the columns behind those of the source hold.
    values: Vec<ExceptionValue>,
}

impl ExceptionsPlan {
    /// Plans the rows of `source` into `table`: its columns by name, and those that COLMAP sets.
    ///
    /// # Errors
    /// A column that the exceptions table does not have.
    pub(crate) fn new(
        source: &TableDefinition,
        table: TableDefinition,
        exceptions: &Exceptions,
    ) -> Result<ExceptionsPlan, MappingError> {
        let mut columns = source.columns.to_vec();
        // What COLMAP sets is not taken from the row.
        let is_set =
            |column: &Column| exceptions.columns.iter().any(|(name, _)| name.eq_ignore_ascii_case(&column.name));
        for (place, column) in columns.iter_mut().enumerate().filter(|(_, column)| is_set(column)) {
            column.name = format!("\u{0}{place}");
            column.generation = change::Generation::Virtual;
        }
        for (name, _) in &exceptions.columns {
            columns.push(Column::new(name.clone(), LogicalType::Text, "text"));
        }
        let shape = TableDefinition { name: source.name.clone(), columns: columns.into() };
        let mut columns = mapping::pair_columns(&shape, &table)?;
        columns.retain(|pair| !table.columns[pair.target].generation.is_computed());
        columns.sort_unstable_by_key(|pair| pair.target);
        let plan = TablePlan {
            source: Arc::new(shape),
            target: table,
            columns,
            key: Vec::new(),
            on_duplicate: database::OnDuplicate::Refuse,
        };
        let values = exceptions.columns.iter().map(|(_, value)| value.clone()).collect();
        Ok(ExceptionsPlan { plan: Arc::new(plan), values })
    }

    /// The row to insert for a change; `None` for a truncation, which has no row.
    pub(crate) fn row(
        &self,
        operation: &Operation,
        commit: Option<&Commit>,
        error: &LastError,
        now: Timestamp,
    ) -> Option<Operation> {
        let image = match operation {
            Operation::Insert { new } => new.clone(),
            Operation::Update { old, new } => super::convert::completed(new, old.as_ref()),
            Operation::Delete { old } => old.clone(),
            Operation::Truncate(_) => return None,
        };
        let extra: Vec<String> = self
            .values
            .iter()
            .map(|value| match value {
                ExceptionValue::Now => now.to_string(),
                ExceptionValue::ErrorCode => error.number().to_owned(),
                ExceptionValue::ErrorText => error.detail.clone(),
                ExceptionValue::OperationType => operation.kind().to_string().to_uppercase(),
                ExceptionValue::ErrorType => "DB".to_owned(),
                ExceptionValue::Csn => commit.map(|commit| commit.csn.to_string()).unwrap_or_default(),
                ExceptionValue::TransactionId => {
                    commit.map(|commit| commit.transaction.to_string()).unwrap_or_default()
                }
                ExceptionValue::Literal(text) => text.clone(),
            })
            .collect();
        let extra = extra.iter().map(|text| Value::Bytes(text.as_bytes()));
        Some(Operation::Insert { new: Row::from_values(image.values().chain(extra)) })
    }
}
