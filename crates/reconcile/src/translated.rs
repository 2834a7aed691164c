//! Sides that are compared by what their values say, because they hash rows each in a notation of its own.
//!
//! Each side reads its rows, in the notation in which changes carry them, and they are hashed here. That costs what reading all
//! rows costs; memory does not grow with the table while rows are equal.

use crate::Error;
use change::{CaseRule, Column, LogicalType, Row, TableDefinition, TableName, Value};
use database::compare::{
    BucketSummary, BucketSums, ComparedTable, ComparisonSide, LeftOut, LiteralRow, LiteralWriter, Mending, RowDigest,
    RowHasher, RowMark, TakeMark, ValueForm, bucket_of,
};
use std::collections::{BTreeMap, HashSet};
use std::ops::ControlFlow;

/// Most rows of buckets that differ which are put in order in memory.
const MARKS_MAX: usize = 4_000_000;

/// Whole numbers below this are the same as a float and as a whole number.
const EXACT_FLOAT: f64 = 9_007_199_254_740_992.0;

/// Makes two sides comparable by values.
///
/// # Errors
/// [`Error::Refused`] when one of them can't tell values.
pub fn translated(
    source: Box<dyn ComparisonSide>,
    target: Box<dyn ComparisonSide>,
) -> Result<[Box<dyn ComparisonSide>; 2], Error> {
    let writer = |side: &dyn ComparisonSide| {
        side.literal_writer().ok_or_else(|| {
            let what = format!("the values of {} can't be told", side.name());
            Error::refused(what, "compare databases of the same product")
        })
    };
    let to_target = writer(&*target)?;
    // Both give literals to the target, which is the one that is mended.
    Ok([Box::new(Translated::new(source, to_target, None)), Box::new(Translated::new(target, to_target, None))])
}

/// A side, compared by values.
pub(crate) struct Translated {
    inner: Box<dyn ComparisonSide>,
    literal: LiteralWriter,
    filter: Option<String>,
}

impl Translated {
    /// `literal` writes values for whom they are mended at; only rows that meet `filter` are seen.
    pub(crate) fn new(inner: Box<dyn ComparisonSide>, literal: LiteralWriter, filter: Option<String>) -> Translated {
        Translated { inner, literal, filter }
    }

    /// The types of the compared columns.
    fn kinds(&mut self, table: &ComparedTable) -> Result<Vec<LogicalType>, database::Error> {
        let definitions = self.inner.tables()?;
        let found = definitions.iter().find(|definition| definition.name == table.name);
        let missing = |what: String| database::Error::new(database::ErrorClass::Missing, what);
        let definition = found.ok_or_else(|| missing(format!("table {} does not exist", table.name)))?;
        let kind = |name: &String| {
            let place = definition.column(name);
            place.map(|place| definition.columns[place].logical).ok_or_else(|| missing(format!("{name} is no column")))
        };
        table.columns.iter().map(kind).collect()
    }

    /// The rows with these identities, by identity.
    pub(crate) fn pick(
        &mut self,
        table: &ComparedTable,
        identities: &HashSet<Vec<u8>>,
    ) -> Result<BTreeMap<Vec<u8>, Row>, database::Error> {
        let reading = Reading { kinds: self.kinds(table)?, table };
        let mut found = BTreeMap::new();
        if identities.is_empty() {
            return Ok(found);
        }
        self.inner.scan(table, self.filter.as_deref(), &mut |row| {
            let identity = reading.identity(row);
            if identities.contains(&identity) {
                found.insert(identity, row.clone());
            }
            ControlFlow::Continue(())
        })?;
        Ok(found)
    }
}

/// How the rows of a table are read.
pub(crate) struct Reading<'a> {
    pub(crate) kinds: Vec<LogicalType>,
    pub(crate) table: &'a ComparedTable,
}

impl<'a> Reading<'a> {
    /// For rows under a definition that has the compared columns.
    pub(crate) fn of(table: &'a ComparedTable, columns: &[Column]) -> Reading<'a> {
        let kind = |name: &String| columns.iter().find(|column| column.name == *name).map(|column| column.logical);
        Reading { kinds: table.columns.iter().map(|name| kind(name).unwrap_or(LogicalType::Other)).collect(), table }
    }

    fn write(&self, row: &Row, place: usize, write: &mut dyn FnMut(&[u8])) {
        let form = self.table.forms.get(place).copied().unwrap_or_default();
        match row.value(place) {
            Value::Null | Value::Unchanged => write(b"n"),
            Value::Bytes(bytes) => {
                let canonical = canonical(form, self.kinds[place], bytes);
                write(b"v");
                write(&(canonical.len() as u64).to_be_bytes());
                write(&canonical);
            }
        }
    }

    /// What tells the row from others, the same for both sides.
    pub(crate) fn identity(&self, row: &Row) -> Vec<u8> {
        let mut identity = Vec::new();
        for place in self.table.identity() {
            self.write(row, place, &mut |part| identity.extend_from_slice(part));
        }
        identity
    }

    /// What the row says in these columns, the same for both sides.
    pub(crate) fn says(&self, row: &Row, columns: &[usize]) -> Vec<u8> {
        let mut says = Vec::new();
        for place in columns {
            self.write(row, *place, &mut |part| says.extend_from_slice(part));
        }
        says
    }

    fn digest(&self, row: &Row) -> RowDigest {
        let mut hasher = RowHasher::default();
        for place in 0..self.table.columns.len() {
            self.write(row, place, &mut |part| hasher.write(part));
        }
        hasher.finish()
    }

    fn mark(&self, row: &Row) -> RowMark {
        RowMark { identity: self.identity(row), digest: self.digest(row) }
    }
}

/// A value in the form in which both sides have it.
fn canonical(form: ValueForm, kind: LogicalType, bytes: &[u8]) -> Vec<u8> {
    let plain = match kind {
        LogicalType::Dynamic if form != ValueForm::Own => bytes.get(1..).unwrap_or_default(),
        _ => bytes,
    };
    match (form, kind) {
        (ValueForm::Number, LogicalType::Boolean) => match plain {
            b"t" => b"1".to_vec(),
            b"f" => b"0".to_vec(),
            other => other.to_vec(),
        },
        (ValueForm::Number, _) => number(plain).unwrap_or_else(|| plain.to_vec()),
        (ValueForm::Own | ValueForm::Text, _) => plain.to_vec(),
    }
}

/// A number as both products could keep it: whole when it fits 64 bits, else the nearest float.
fn number(text: &[u8]) -> Option<Vec<u8>> {
    let text = std::str::from_utf8(text).ok()?;
    if let Ok(whole) = text.parse::<i64>() {
        return Some(whole.to_string().into_bytes());
    }
    let starts_as_number = text.starts_with(|first: char| first.is_ascii_digit() || "+-.".contains(first));
    let float: f64 = text.parse().ok().filter(|_| starts_as_number || text == "Infinity")?;
    let is_whole = float.fract() == 0.0 && float.abs() < EXACT_FLOAT;
    Some(if is_whole { (float as i64).to_string() } else { format!("{float:?}") }.into_bytes())
}

impl ComparisonSide for Translated {
    fn name(&self) -> String {
        self.inner.name()
    }

    fn notation(&self) -> &str {
        "values"
    }

    fn case_rule(&self) -> CaseRule {
        self.inner.case_rule()
    }

    fn default_schema(&self) -> String {
        self.inner.default_schema()
    }

    fn tables(&mut self) -> Result<Vec<TableDefinition>, database::Error> {
        self.inner.tables()
    }

    fn left_out(&mut self) -> Result<Vec<LeftOut>, database::Error> {
        self.inner.left_out()
    }

    fn estimate_rows(&mut self, table: &TableName) -> Result<u64, database::Error> {
        self.inner.estimate_rows(table)
    }

    fn summarize(&mut self, table: &ComparedTable, buckets: u32) -> Result<Vec<BucketSummary>, database::Error> {
        let reading = Reading { kinds: self.kinds(table)?, table };
        let mut sums = BucketSums::new(buckets);
        self.inner.scan(table, self.filter.as_deref(), &mut |row| {
            let RowMark { identity, digest } = reading.mark(row);
            sums.add(&identity, digest);
            ControlFlow::Continue(())
        })?;
        Ok(sums.finish())
    }

    fn rows(
        &mut self,
        table: &ComparedTable,
        buckets: u32,
        chosen: &[u32],
        rows_max: Option<u64>,
        take: &mut TakeMark<'_>,
    ) -> Result<(), database::Error> {
        let reading = Reading { kinds: self.kinds(table)?, table };
        let mut is_chosen = vec![false; buckets as usize];
        chosen.iter().for_each(|bucket| is_chosen[*bucket as usize] = true);
        let mut marks: Vec<RowMark> = Vec::new();
        self.inner.scan(table, self.filter.as_deref(), &mut |row| {
            let mark = reading.mark(row);
            if is_chosen[bucket_of(&mark.identity, buckets) as usize] {
                marks.push(mark);
            }
            if marks.len() > MARKS_MAX { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        if marks.len() > MARKS_MAX {
            let what = format!("too many rows of {} differ to be put in order", table.name);
            return Err(database::Error::new(database::ErrorClass::Unsupported, what)
                .with_next_step("copy the table anew, or leave it out"));
        }
        marks.sort_unstable();
        let limit = rows_max.map_or(usize::MAX, |rows| usize::try_from(rows).unwrap_or(usize::MAX));
        for mark in marks.into_iter().take(limit) {
            if take(mark).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn literals(&mut self, table: &ComparedTable, identities: &[Vec<u8>]) -> Result<Vec<LiteralRow>, database::Error> {
        let kinds = self.kinds(table)?;
        let wanted: HashSet<Vec<u8>> = identities.iter().cloned().collect();
        let literal = self.literal;
        let refused = |place: usize| {
            let what =
                format!("a value of column {} of {} can't be kept by the other side", table.columns[place], table.name);
            database::Error::new(database::ErrorClass::Permanent, what)
        };
        let literals = |(identity, row): (Vec<u8>, Row)| {
            let values = row.values().zip(&kinds).enumerate();
            let values = values
                .map(|(place, (value, kind))| literal(*kind, value).ok_or_else(|| refused(place)))
                .collect::<Result<_, _>>()?;
            Ok((identity, values))
        };
        let found = Translated::pick(self, table, &wanted)?;
        found.into_iter().map(literals).collect()
    }

    fn mending(&self, table: &ComparedTable, mending: Mending, row: &[String], computed: &[usize]) -> String {
        self.inner.mending(table, mending, row, computed)
    }

    fn identity_values(&self, table: &ComparedTable, identity: &[u8]) -> Vec<Option<String>> {
        let mut rest = identity;
        let mut values = Vec::new();
        for _ in table.identity() {
            let Some((mark, after)) = rest.split_first() else { break };
            let length = match (mark, after.first_chunk::<8>()) {
                (b'v', Some(length)) => usize::try_from(u64::from_be_bytes(*length)).unwrap_or(usize::MAX),
                _ => {
                    values.push(None);
                    rest = after;
                    continue;
                }
            };
            let (_, after) = after.split_at(8);
            let (value, after) = after.split_at(length.min(after.len()));
            values.push(Some(String::from_utf8_lossy(value).into_owned()));
            rest = after;
        }
        values
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(form: ValueForm, kind: LogicalType, bytes: &str) -> String {
        String::from_utf8(canonical(form, kind, bytes.as_bytes())).expect("text")
    }

    #[test]
    fn what_two_products_keep_of_one_value_says_the_same() {
        let number = |kind, bytes| said(ValueForm::Number, kind, bytes);
        for (postgres, kind, sqlite) in [
            ("t", LogicalType::Boolean, "i1"),
            ("42", LogicalType::Integer, "i42"),
            ("9223372036854775807", LogicalType::Integer, "i9223372036854775807"),
            ("1.50", LogicalType::Decimal, "r1.5"),
            ("5.00", LogicalType::Decimal, "i5"),
            ("1e+20", LogicalType::Float, "r1e20"),
            ("-Infinity", LogicalType::Float, "r-Infinity"),
        ] {
            assert_eq!(number(kind, postgres), number(LogicalType::Dynamic, sqlite), "{postgres} {sqlite}");
        }
        assert_ne!(number(LogicalType::Decimal, "1.5"), number(LogicalType::Dynamic, "r1.25"));
        assert_eq!(number(LogicalType::Dynamic, "tnan"), "nan", "a text that is no number stays a text");
        let text = |kind, bytes| said(ValueForm::Text, kind, bytes);
        assert_eq!(text(LogicalType::Text, "007"), text(LogicalType::Dynamic, "t007"));
        assert_ne!(text(LogicalType::Text, "007"), text(LogicalType::Dynamic, "i7"));
        let own = |bytes| said(ValueForm::Own, LogicalType::Dynamic, bytes);
        assert_ne!(own("i1"), own("t1"), "between two of one product the class counts");
    }

    #[test]
    fn columns_meet_as_numbers_where_one_side_keeps_numbers() {
        let column = |logical, native: &str| Column::new("c", logical, native);
        let form = |one, other| ValueForm::of(&[&one, &other]);
        let dynamic = |native| column(LogicalType::Dynamic, native);
        assert_eq!(form(column(LogicalType::Decimal, "numeric(9,2)"), dynamic("NUMERIC")), ValueForm::Number);
        assert_eq!(form(column(LogicalType::Decimal, "numeric(9,2)"), dynamic("TEXT")), ValueForm::Text);
        assert_eq!(form(column(LogicalType::Integer, "integer"), dynamic("")), ValueForm::Number);
        assert_eq!(form(column(LogicalType::Text, "text"), dynamic("TEXT")), ValueForm::Text);
        assert_eq!(form(dynamic("TEXT"), dynamic("TEXT")), ValueForm::Own);
    }
}
