//! What a comparison found.

use crate::Side;
use serde::Serialize;
use std::fmt::Write as _;

/// What comparing two databases found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Comparison {
    /// The source, without a password.
    pub source: String,
    /// The target, without a password.
    pub target: String,
    /// Whether every table is equal.
    pub equal: bool,
    /// In the order of their names at the source, then those that only the target has.
    pub tables: Vec<TableComparison>,
    /// What was not compared, as `side name (what it is)`.
    pub left_out: Vec<String>,
}

/// What comparing one table found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TableComparison {
    /// Name at the source; for a table that only the target has, `None`.
    pub source: Option<String>,
    /// Name at the target, also where the table is missing there.
    pub target: String,
    /// The verdict.
    pub verdict: TableVerdict,
    /// Rows at the source; `None` where there was nothing to compare them with.
    pub source_rows: Option<u64>,
    /// Rows at the target.
    pub target_rows: Option<u64>,
    /// Columns that only the source has.
    pub columns_missing: Vec<String>,
    /// Columns that only the target has.
    pub columns_extra: Vec<String>,
    /// Columns by which rows were told apart; without a key, `None`, and whole rows were compared.
    pub key: Option<Vec<String>>,
    /// Rows that only the source has.
    pub missing: u64,
    /// Rows that only the target has.
    pub extra: u64,
    /// Rows that both have under one key, with other values.
    pub different: u64,
    /// As many of these rows as were asked for.
    pub rows: Vec<RowDifference>,
    /// Statements for the target that make its rows those of the source, where they were asked for.
    #[serde(skip)]
    pub repair: Vec<String>,
}

/// Whether a table is the same on both sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum TableVerdict {
    /// Columns and rows are.
    Equal,
    /// Some columns or rows are not.
    Different,
    /// The target has no such table.
    MissingAtTarget,
    /// The source has no such table.
    ExtraAtTarget,
}

/// What is wrong with a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RowVerdict {
    /// The target lacks it.
    MissingAtTarget,
    /// The source lacks it.
    ExtraAtTarget,
    /// Both have it, with other values.
    Different,
}

/// A row that is not the same on both sides.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RowDifference {
    /// What is wrong with it.
    pub verdict: RowVerdict,
    /// Which row it is: its key, or all its values where there is no key.
    pub key: Vec<KeyValue>,
}

/// A column's value in a row's key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct KeyValue {
    /// Column, by the source's name.
    pub column: String,
    /// Value as the database prints it; `None` is NULL.
    pub value: Option<String>,
}

/// Longest value that a line shows whole.
const SHOWN_CHARACTERS_MAX: usize = 80;

impl TableComparison {
    /// A table that only one side has.
    pub(crate) fn of_one_side(side: Side, source: Option<String>, target: String) -> TableComparison {
        TableComparison {
            source,
            target,
            verdict: match side {
                Side::Source => TableVerdict::MissingAtTarget,
                Side::Target | Side::Missing => TableVerdict::ExtraAtTarget,
            },
            source_rows: None,
            target_rows: None,
            columns_missing: Vec::new(),
            columns_extra: Vec::new(),
            key: None,
            missing: 0,
            extra: 0,
            different: 0,
            rows: Vec::new(),
            repair: Vec::new(),
        }
    }

    /// The table in a few lines for people.
    pub fn text(&self) -> String {
        let mut text = match &self.source {
            Some(source) if *source != self.target => format!("{source} -> {}", self.target),
            _ => self.target.clone(),
        };
        text.push_str(": ");
        text.push_str(&self.summary());
        for row in &self.rows {
            let verdict = match row.verdict {
                RowVerdict::MissingAtTarget => "missing at target",
                RowVerdict::ExtraAtTarget => "extra at target",
                RowVerdict::Different => "different",
            };
            let key: Vec<String> = row.key.iter().map(KeyValue::text).collect();
            let key = if key.is_empty() { "a row without columns".to_owned() } else { key.join(", ") };
            _ = write!(text, "\n  {verdict:<18} {key}");
        }
        let unnamed = (self.missing + self.extra + self.different).saturating_sub(self.rows.len() as u64);
        if unnamed > 0 {
            _ = write!(text, "\n  and {} more", counted(unnamed, "row"));
        }
        text
    }

    fn summary(&self) -> String {
        match self.verdict {
            TableVerdict::MissingAtTarget => return "missing at target".to_owned(),
            TableVerdict::ExtraAtTarget => return "extra at target".to_owned(),
            TableVerdict::Equal => return format!("equal, {}", counted(self.source_rows.unwrap_or(0), "row")),
            TableVerdict::Different => {}
        }
        let mut parts = Vec::new();
        let mut columns = |what: &str, names: &[String]| {
            if !names.is_empty() {
                parts.push(format!("columns {what}: {}", names.join(", ")));
            }
        };
        columns("missing at target", &self.columns_missing);
        columns("extra at target", &self.columns_extra);
        for (count, what) in
            [(self.missing, "missing at target"), (self.extra, "extra at target"), (self.different, "different")]
        {
            if count > 0 {
                parts.push(format!("{} {what}", counted(count, "row")));
            }
        }
        let rows = match (self.source_rows, self.target_rows) {
            (Some(source), Some(target)) if source != target => {
                format!(" ({} at source, {} at target)", counted(source, "row"), counted(target, "row"))
            }
            (Some(rows), _) => format!(" (of {})", counted(rows, "row")),
            _ => String::new(),
        };
        format!("DIFFERENT, {}{rows}", parts.join("; "))
    }
}

impl KeyValue {
    fn text(&self) -> String {
        let Some(value) = &self.value else { return format!("{} is NULL", self.column) };
        let shown: String = value.chars().take(SHOWN_CHARACTERS_MAX).flat_map(printable).collect();
        let rest = if value.chars().nth(SHOWN_CHARACTERS_MAX).is_some() { "…" } else { "" };
        format!("{} = {shown}{rest}", self.column)
    }
}

/// The character, or an escape where a terminal would take it for a command.
fn printable(character: char) -> Vec<char> {
    if character.is_control() { character.escape_default().collect() } else { vec![character] }
}

impl Comparison {
    /// The closing lines for people: what was left out, and the verdict.
    pub fn closing_text(&self) -> String {
        let mut text = String::new();
        for left_out in &self.left_out {
            _ = writeln!(text, "not compared: {left_out}");
        }
        let equal = self.tables.iter().filter(|table| table.verdict == TableVerdict::Equal).count();
        let tables = counted(self.tables.len() as u64, "table");
        if self.equal {
            _ = write!(text, "equal: {tables}");
        } else {
            let differing = self.tables.len() - equal;
            _ = write!(text, "DIFFERENT: {differing} of {tables}");
        }
        text
    }

    /// The whole comparison as one JSON object.
    pub fn json(&self) -> String {
        serde_json::to_string_pretty(self).expect("a comparison is plain data")
    }
}

/// `1 row`, `1,234 rows`.
fn counted(count: u64, what: &str) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    let plural = if count == 1 { "" } else { "s" };
    format!("{text} {what}{plural}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> TableComparison {
        let value =
            |column: &str, value: Option<&str>| KeyValue { column: column.to_owned(), value: value.map(str::to_owned) };
        TableComparison {
            verdict: TableVerdict::Different,
            source_rows: Some(1_234_567),
            target_rows: Some(1_234_566),
            columns_extra: vec!["note".to_owned()],
            key: Some(vec!["id".to_owned(), "part".to_owned()]),
            missing: 2,
            extra: 1,
            different: 12,
            rows: vec![
                RowDifference {
                    verdict: RowVerdict::MissingAtTarget,
                    key: vec![value("id", Some("1")), value("part", None)],
                },
                RowDifference { verdict: RowVerdict::Different, key: vec![value("id", Some("a\u{1b}[31m\n"))] },
            ],
            ..TableComparison::of_one_side(Side::Source, Some("s.t".to_owned()), "copy.t".to_owned())
        }
    }

    #[test]
    fn a_table_reads_as_a_sentence_and_its_rows() {
        assert_eq!(
            table().text(),
            "s.t -> copy.t: DIFFERENT, columns extra at target: note; 2 rows missing at target; 1 row extra at target; \
             12 rows different (1,234,567 rows at source, 1,234,566 rows at target)\n  \
             missing at target  id = 1, part is NULL\n  \
             different          id = a\\u{1b}[31m\\n\n  \
             and 13 rows more"
        );
    }

    #[test]
    fn the_last_line_is_the_verdict() {
        let equal = TableComparison {
            verdict: TableVerdict::Equal,
            source_rows: Some(1),
            ..TableComparison::of_one_side(Side::Source, Some("s.u".to_owned()), "s.u".to_owned())
        };
        assert_eq!(equal.text(), "s.u: equal, 1 row");
        let mut comparison = Comparison {
            source: "a".to_owned(),
            target: "b".to_owned(),
            equal: true,
            tables: vec![equal],
            left_out: vec!["source s.v (a virtual table)".to_owned()],
        };
        assert_eq!(comparison.closing_text(), "not compared: source s.v (a virtual table)\nequal: 1 table");
        comparison.tables.push(table());
        comparison.equal = false;
        assert!(comparison.closing_text().ends_with("\nDIFFERENT: 1 of 2 tables"));
    }
}
