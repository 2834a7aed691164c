//! One side of a comparison: a copy of everything that was committed.

use super::MemoryDatabase;
use super::transaction::missing_table;
use crate::compare::{
    BucketSummary, BucketSums, ComparedTable, ComparisonSide, LeftOut, RowDigest, RowHasher, RowMark, TakeMark,
    bucket_of,
};
use crate::{Error, ErrorClass};
use change::{CaseRule, Row, TableDefinition, TableName, Value};
use std::collections::BTreeMap;

struct MemorySide {
    name: String,
    case_rule: CaseRule,
    tables: BTreeMap<TableName, (TableDefinition, Vec<Row>)>,
}

impl MemoryDatabase {
    /// The database as committed now, for a comparison.
    ///
    /// # Errors
    /// [`ErrorClass::ConnectionLost`] while the database is down.
    pub fn open_comparison(&self) -> Result<Box<dyn ComparisonSide>, Error> {
        let mut state = self.shared.lock();
        state.enter(None)?;
        let names: Vec<TableName> = state.content.tables.keys().cloned().collect();
        let content = |name: TableName| {
            let definition = (**state.content.tables.get(&name)?.definition()).clone();
            Some((name.clone(), (definition, state.committed_rows(&name)?)))
        };
        let tables = names.into_iter().filter_map(content).collect();
        Ok(Box::new(MemorySide { name: state.options.name.clone(), case_rule: state.options.case_rule, tables }))
    }
}

impl MemorySide {
    fn marks(&self, table: &ComparedTable) -> Result<Vec<RowMark>, Error> {
        let (definition, rows) = self.tables.get(&table.name).ok_or_else(|| missing_table(&table.name))?;
        let places = table
            .columns
            .iter()
            .map(|column| {
                definition.column(column).ok_or_else(|| {
                    Error::new(ErrorClass::Missing, format!("table {} has no column {column:?}", table.name))
                })
            })
            .collect::<Result<Vec<usize>, Error>>()?;
        let identity: Vec<usize> = table.identity().into_iter().map(|index| places[index]).collect();
        let mark = |row: &Row| RowMark { identity: notation(row, &identity), digest: digest(&notation(row, &places)) };
        Ok(rows.iter().map(mark).collect())
    }
}

impl ComparisonSide for MemorySide {
    fn name(&self) -> String {
        format!("memory:{}", self.name)
    }

    fn notation(&self) -> &str {
        "memory"
    }

    fn case_rule(&self) -> CaseRule {
        self.case_rule
    }

    fn default_schema(&self) -> String {
        "main".to_owned()
    }

    fn tables(&mut self) -> Result<Vec<TableDefinition>, Error> {
        Ok(self.tables.values().map(|(definition, _)| definition.clone()).collect())
    }

    fn left_out(&mut self) -> Result<Vec<LeftOut>, Error> {
        Ok(Vec::new())
    }

    fn estimate_rows(&mut self, table: &TableName) -> Result<u64, Error> {
        let (_, rows) = self.tables.get(table).ok_or_else(|| missing_table(table))?;
        Ok(rows.len() as u64)
    }

    fn summarize(&mut self, table: &ComparedTable, buckets: u32) -> Result<Vec<BucketSummary>, Error> {
        let mut sums = BucketSums::new(buckets);
        for mark in self.marks(table)? {
            sums.add(&mark.identity, mark.digest);
        }
        Ok(sums.finish())
    }

    fn rows(
        &mut self,
        table: &ComparedTable,
        buckets: u32,
        chosen: &[u32],
        rows_max: Option<u64>,
        take: &mut TakeMark<'_>,
    ) -> Result<(), Error> {
        let mut marks = self.marks(table)?;
        marks.retain(|mark| chosen.binary_search(&bucket_of(&mark.identity, buckets)).is_ok());
        marks.sort();
        let rows_max = usize::try_from(rows_max.unwrap_or(u64::MAX)).unwrap_or(usize::MAX);
        for mark in marks.into_iter().take(rows_max) {
            if take(mark).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn identity_values(&self, _table: &ComparedTable, identity: &[u8]) -> Vec<Option<String>> {
        let mut values = Vec::new();
        let mut rest = identity;
        while let Some((&present, after)) = rest.split_first() {
            if present == 0 {
                values.push(None);
                rest = after;
                continue;
            }
            let Some((length, after)) = after.split_first_chunk() else { break };
            let length = (u32::from_be_bytes(*length) as usize).min(after.len());
            values.push(Some(String::from_utf8_lossy(&after[..length]).into_owned()));
            rest = &after[length..];
        }
        values
    }
}

/// The values one after another: 0 for NULL, else 1, the length in 4 bytes and the bytes.
fn notation(row: &Row, places: &[usize]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for place in places {
        match row.value(*place) {
            Value::Bytes(value) => {
                bytes.push(1);
                bytes.extend((value.len() as u32).to_be_bytes());
                bytes.extend(value);
            }
            Value::Null | Value::Unchanged => bytes.push(0),
        }
    }
    bytes
}

fn digest(bytes: &[u8]) -> RowDigest {
    let mut hasher = RowHasher::default();
    hasher.write(bytes);
    hasher.finish()
}
