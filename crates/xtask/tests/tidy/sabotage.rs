//! The list of sabotage switches and the places that ask for them are the same set.

use crate::tree;
use std::collections::BTreeSet;

/// The list that `cargo x sabotage` works through.
const LIST: &str = "crates/testkit/src/sabotage.rs";

/// The quoted words that follow `call` in `text`.
fn arguments<'a>(text: &'a str, call: &'a str) -> impl Iterator<Item = String> + 'a {
    text.split(call)
        .skip(1)
        .filter_map(|rest| rest.trim_start().strip_prefix('"')?.split('"').next())
        .map(str::to_owned)
}

#[test]
fn every_sabotage_switch_is_listed_and_every_listed_one_is_asked_for() {
    let listed: BTreeSet<String> = arguments(&tree::text(LIST), "switch(").collect();
    assert!(!listed.is_empty(), "{LIST} lists no switches");
    let is_code = |path: &&String| path.split('/').nth(2) == Some("src");
    let asked: BTreeSet<String> = tree::rust_files()
        .iter()
        .filter(is_code)
        .flat_map(|path| arguments(&tree::text(path), "sabotage::is_on(").collect::<Vec<_>>())
        .collect();
    let unlisted = asked.difference(&listed).map(|name| format!("{name} is asked for but not in {LIST}"));
    let idle = listed.difference(&asked).map(|name| format!("{name} is in {LIST} but nothing asks for it"));
    tree::expect_none(unlisted.chain(idle).collect());
}

#[test]
fn every_listed_sabotage_switch_names_tests_that_exist() {
    let text = tree::text(LIST);
    // The list may name a constant in place of the words; then the constant's text is what must exist.
    let words: BTreeSet<&str> = text.split('"').skip(1).step_by(2).filter(|word| word.contains('_')).collect();
    let sources: Vec<String> =
        tree::rust_files().iter().filter(|path| *path != LIST).map(|path| tree::text(path)).collect();
    let complaints = words
        .into_iter()
        .filter(|word| {
            !sources
                .iter()
                .any(|source| source.contains(&format!("fn {word}")) || source.contains(&format!("mod {word}")))
        })
        .map(|word| format!("{LIST} names {word}, and no test is called so"))
        .collect();
    tree::expect_none(complaints);
}
