//! Message codes in the code and pages in docs/messages are the same set.

use crate::tree;
use std::collections::BTreeSet;

/// The table of all codes: each row begins with five digits in quotes.
const TABLE: &str = "crates/process/src/code.rs";

/// The five digits behind each `before` in `text`.
fn numbers(text: &str, before: &str) -> BTreeSet<String> {
    let places = text.match_indices(before).map(|(place, _)| place + before.len());
    let five = places.filter_map(|place| text.get(place..place + 5));
    five.filter(|five| five.bytes().all(|byte| byte.is_ascii_digit())).map(str::to_owned).collect()
}

fn pages() -> BTreeSet<String> {
    let page = |path: &String| Some(path.strip_prefix("docs/messages/DRV-")?.strip_suffix(".md")?.to_owned());
    tree::files("docs/messages").iter().filter_map(page).collect()
}

#[test]
fn every_message_code_has_a_page_and_every_page_a_code() {
    let codes = numbers(tree::without_tests(&tree::text(TABLE)), "\"");
    let pages = pages();
    assert!(!codes.is_empty(), "{TABLE} holds no codes");
    let missing = codes.difference(&pages).map(|code| format!("DRV-{code} has no page"));
    let left_over = pages.difference(&codes).map(|code| format!("docs/messages/DRV-{code}.md explains no code"));
    tree::expect_none(missing.chain(left_over).collect());
}

#[test]
fn every_message_code_that_is_mentioned_anywhere_exists() {
    let pages = pages();
    let mut complaints = Vec::new();
    for path in tree::files("").iter().filter(|path| path.ends_with(".rs") || path.ends_with(".md")) {
        for code in numbers(&tree::text(path), "DRV-").difference(&pages) {
            complaints.push(format!("{path} mentions DRV-{code}, which does not exist"));
        }
    }
    tree::expect_none(complaints);
}

#[test]
fn every_page_says_what_happened_why_and_what_to_do() {
    let mut complaints = Vec::new();
    for code in pages() {
        let path = format!("docs/messages/DRV-{code}.md");
        let text = tree::text(&path);
        if !text.starts_with(&format!("# DRV-{code}: ")) {
            complaints.push(format!("{path} does not begin with its code and title"));
        }
        for heading in ["## What happened", "## Why", "## What to do"] {
            if !text.lines().any(|line| line == heading) {
                complaints.push(format!("{path} has no heading {heading:?}"));
            }
        }
    }
    tree::expect_none(complaints);
}
