//! docs/benchmarks.md: prose by hand, results between markers.

use crate::program::{self, Outcome};

const PAGE: &str = "docs/benchmarks.md";

/// Replaces what stands between the markers of `section`.
pub fn write(section: &str, results: &str) -> Outcome {
    let path = program::root().join(PAGE);
    let page = std::fs::read_to_string(&path).map_err(|cause| format!("could not read {PAGE}: {cause}"))?;
    let page = replaced(&page, section, results).ok_or_else(|| format!("{PAGE} has no markers for {section}"))?;
    std::fs::write(&path, page).map_err(|cause| format!("could not write {PAGE}: {cause}"))?;
    println!("\nwritten to {PAGE}");
    Ok(())
}

/// A table with its title.
pub struct Table {
    /// A sentence without its full stop.
    pub title: String,
    pub head: &'static [&'static str],
    /// A row is known by its first cell.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    fn text(&self) -> String {
        format!("{}:\n\n{}", self.title, table(self.head, &self.rows))
    }

    /// The rows that stand in `page`, with those of this table in the place of rows of the same name.
    fn merged(&self, page: &str) -> Table {
        let title = format!("{}:\n\n", self.title);
        let old = page.split_once(&title).map_or("", |(_, rest)| rest);
        let mut lines = old.lines().take_while(|line| line.starts_with('|')).map(cells);
        let is_alike = lines.next().is_some_and(|head| head == self.head);
        let mut rows: Vec<Vec<String>> = Vec::new();
        if is_alike {
            rows.extend(lines.skip(1).map(|line| line.into_iter().map(str::to_owned).collect()));
        }
        for row in &self.rows {
            match rows.iter_mut().find(|old| old[0] == row[0]) {
                Some(old) => old.clone_from(row),
                None => rows.push(row.clone()),
            }
        }
        Table { title: self.title.clone(), head: self.head, rows }
    }
}

fn cells(line: &str) -> Vec<&str> {
    line.trim_matches('|').split('|').map(str::trim).collect()
}

/// All tables that have rows.
pub fn text(tables: &[Table]) -> String {
    let shown = tables.iter().filter(|table| !table.rows.is_empty());
    shown.map(Table::text).collect::<Vec<_>>().join("\n")
}

/// Replaces in the section the rows that `tables` have, and keeps its other rows. `tables` are all of the section, in their
/// order; those that were not measured have no rows.
pub fn merge(section: &str, introduction: &str, tables: &[Table]) -> Outcome {
    let path = program::root().join(PAGE);
    let page = std::fs::read_to_string(&path).map_err(|cause| format!("could not read {PAGE}: {cause}"))?;
    let old = page.split_once(&format!("<!-- results: {section} -->\n"));
    let old = old.and_then(|(_, rest)| rest.split_once(&format!("<!-- end: {section} -->"))).map_or("", |(old, _)| old);
    let merged: Vec<Table> = tables.iter().map(|table| table.merged(old)).collect();
    write(section, &format!("{introduction}\n\n{}", text(&merged)))
}

fn replaced(page: &str, section: &str, results: &str) -> Option<String> {
    let (begin, end) = (format!("<!-- results: {section} -->\n"), format!("<!-- end: {section} -->"));
    let (before, rest) = page.split_once(&begin)?;
    let (_, after) = rest.split_once(&end)?;
    Some(format!("{before}{begin}\n{}\n\n{end}{after}", results.trim()))
}

/// A whole number with a comma between groups of three digits.
pub fn grouped(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A Markdown table, columns padded so that it also reads well as plain text.
pub fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        rows.iter().map(|row| row[column].chars().count()).chain([head[column].chars().count()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let line = |cells: Vec<&str>| {
        let cells = cells.iter().zip(&widths).enumerate().map(|(column, (cell, width))| {
            if column == 0 { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
        });
        format!("| {} |\n", cells.collect::<Vec<_>>().join(" | "))
    };
    let rules = widths.iter().enumerate().map(|(column, width)| {
        if column == 0 { format!("|{}", "-".repeat(width + 2)) } else { format!("|{}:", "-".repeat(width + 1)) }
    });
    let mut text = line(head.to_vec()) + &rules.collect::<String>() + "|\n";
    text.extend(rows.iter().map(|row| line(row.iter().map(String::as_str).collect())));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_results_of_the_section_are_replaced() {
        let page = "a\n<!-- results: x -->\nold\n<!-- end: x -->\nb\n<!-- results: y -->\nkept\n<!-- end: y -->\n";
        let expected =
            "a\n<!-- results: x -->\n\nnew\n\n<!-- end: x -->\nb\n<!-- results: y -->\nkept\n<!-- end: y -->\n";
        assert_eq!(replaced(page, "x", "new\n").as_deref(), Some(expected));
        assert_eq!(replaced(page, "z", "new"), None);
    }

    #[test]
    fn rows_that_were_not_measured_again_stay() {
        let table = |rows: &[[&str; 2]]| Table {
            title: "Rates".to_owned(),
            head: &["workload", "µs"],
            rows: rows.iter().map(|row| row.map(str::to_owned).to_vec()).collect(),
        };
        let page = format!("by hand\n\n{}\nOther:\n\n| a |\n", table(&[["one", "1"], ["two", "2"]]).text());
        let merged = table(&[["two", "20"], ["three", "3"]]).merged(&page);
        assert_eq!(merged.rows, [["one", "1"], ["two", "20"], ["three", "3"]]);
        let other = Table { head: &["workload", "ms"], ..table(&[["two", "20"]]) };
        assert_eq!(other.merged(&page).rows, [["two", "20"]], "figures in another unit do not stay");
        assert_eq!(table(&[["one", "1"]]).merged("").rows, [["one", "1"]]);
    }

    #[test]
    fn large_numbers_are_grouped() {
        assert_eq!(
            ["7", "123", "1,234", "12,345,678"],
            [7.0, 123.4, 1234.0, 12_345_678.0].map(grouped).each_ref().map(|text| text.as_str())
        );
    }
}
