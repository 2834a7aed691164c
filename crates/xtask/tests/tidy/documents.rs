//! Documents name only what exists.

use crate::tree;

/// The pages that guide a newcomer.
const PAGES: &[&str] = &["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "docs/glossary.md", "CHANGELOG.md"];

/// Folders that a path in a document may start with; anything else in backticks is not a path of this repository.
const ROOMS: &[&str] = &["crates/", "docs/", ".ci/", ".cargo/", ".config/"];

fn pages() -> Vec<String> {
    let decisions = tree::files("docs/decisions");
    PAGES.iter().map(|page| (*page).to_owned()).chain(decisions).collect()
}

/// What stands between single backticks in `text`, outside fenced blocks, with its line number.
fn quoted(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut is_fenced = false;
    for (number, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            is_fenced = !is_fenced;
        } else if !is_fenced {
            found.extend(line.split('`').skip(1).step_by(2).map(|piece| (number + 1, piece)));
        }
    }
    found
}

#[test]
fn every_path_that_a_page_names_exists() {
    let mut complaints = Vec::new();
    for page in pages() {
        let text = tree::text(&page);
        for (line, piece) in quoted(&text) {
            let is_path = ROOMS.iter().any(|room| piece.starts_with(room)) && !piece.contains(['*', ' ', '<', '…']);
            if is_path && !tree::root().join(piece).exists() {
                complaints.push(format!("{page}:{line}: there is no {piece}"));
            }
        }
        for (line, target) in links(&text) {
            let folder = page.rsplit_once('/').map_or("", |(folder, _)| folder);
            let path = target.split('#').next().unwrap_or(target);
            if !path.contains("://") && !path.is_empty() && !tree::root().join(folder).join(path).exists() {
                complaints.push(format!("{page}:{line}: the link to {target} leads nowhere"));
            }
        }
    }
    tree::expect_none(complaints);
}

/// Targets of `[text](target)` links, with their line numbers.
fn links(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let targets = line.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
        found.extend(targets.map(|(target, _)| (number + 1, target)));
    }
    found
}

#[test]
fn every_item_that_a_page_names_exists_in_its_crate() {
    let files = tree::rust_files();
    let mut complaints = Vec::new();
    for page in pages() {
        for (line, piece) in quoted(&tree::text(&page)) {
            let piece = piece.trim_end_matches("()");
            let parts: Vec<&str> = piece.split("::").collect();
            let is_item = parts.len() > 1
                && parts.iter().all(|part| !part.is_empty() && part.chars().all(|c| c.is_alphanumeric() || c == '_'));
            let folder = format!("crates/{}/src/", parts[0].replace('_', "-"));
            if !is_item || !files.iter().any(|path| path.starts_with(&folder)) {
                continue;
            }
            for part in &parts[1..] {
                let is_there = files.iter().filter(|path| path.starts_with(&folder)).any(|path| {
                    path.ends_with(&format!("/{part}.rs")) || path.contains(&format!("/{part}/")) || {
                        let text = tree::text(path);
                        text.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == *part)
                    }
                });
                if !is_there {
                    complaints.push(format!("{page}:{line}: {piece}: {} has no {part}", parts[0]));
                }
            }
        }
    }
    tree::expect_none(complaints);
}
