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
    let width = |column: usize| rows.iter().map(|row| row[column].len()).chain([head[column].len()]).max().unwrap_or(0);
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
    fn large_numbers_are_grouped() {
        assert_eq!(
            ["7", "123", "1,234", "12,345,678"],
            [7.0, 123.4, 1234.0, 12_345_678.0].map(grouped).each_ref().map(|text| text.as_str())
        );
    }
}
