//! Message codes in the code and pages in docs/messages are the same set.

use crate::tree;
use std::collections::BTreeSet;

/// All `DRV-nnnnn` in `text`, as their five digits.
fn codes(text: &str) -> impl Iterator<Item = String> {
    text.match_indices("DRV-").filter_map(|(place, prefix)| {
        let digits = text.get(place + prefix.len()..place + prefix.len() + 5)?;
        digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.to_owned())
    })
}

#[test]
fn every_message_code_has_a_page_and_every_page_a_code() {
    let in_code: BTreeSet<String> = tree::rust_files()
        .iter()
        .filter(|path| path.split('/').nth(2) == Some("src"))
        .flat_map(|path| codes(tree::without_tests(&tree::text(path))).collect::<Vec<_>>())
        .collect();
    let pages: BTreeSet<String> = tree::files("docs/messages")
        .iter()
        .filter_map(|path| Some(path.strip_prefix("docs/messages/")?.strip_suffix(".md")?.to_owned()))
        .filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()))
        .collect();
    let mut complaints: Vec<String> =
        in_code.difference(&pages).map(|code| format!("DRV-{code} has no page docs/messages/{code}.md")).collect();
    complaints.extend(pages.difference(&in_code).map(|code| format!("docs/messages/{code}.md: no such code")));
    tree::expect_none(complaints);
}
