//! Parameter files and what is said about them.
//!
//! Each file below `testscripts` holds a parameter file, a line `---`, and the messages that it must give, or `accepted`. With
//! `DROVER_BLESS=1` in the environment the expected part is rewritten, and so is the reference page.

use std::fs;
use std::path::{Path, PathBuf};

fn crate_folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn is_blessing() -> bool {
    std::env::var_os("DROVER_BLESS").is_some_and(|value| value == "1")
}

fn check_folder(folder: &str, read: impl Fn(&str) -> Result<(), parameter::Diagnostics>) {
    let folder = crate_folder().join("testscripts").join(folder);
    let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("a readable folder").path()).collect();
    files.sort();
    assert!(!files.is_empty(), "no script in {}", folder.display());
    let mut different = Vec::new();
    for file in files {
        let script = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let (input, expected) = script.split_once("---\n").unwrap_or_else(|| panic!("{} has no ---", file.display()));
        let mut actual = match read(input) {
            Ok(()) => "accepted".to_owned(),
            Err(diagnostics) => diagnostics.to_string(),
        };
        actual.push('\n');
        if actual == expected {
            continue;
        } else if is_blessing() {
            fs::write(&file, format!("{input}---\n{actual}")).expect("a writable script");
        } else {
            different.push(format!("{}\n--- expected\n{expected}--- actual\n{actual}", file.display()));
        }
    }
    assert!(different.is_empty(), "DROVER_BLESS=1 rewrites what is expected\n{}", different.join("\n"));
}

#[test]
fn golden_messages_about_extract_files() {
    check_folder("extract", |text| parameter::parse_extract(text, "dirprm/e1.prm").map(drop));
}

#[test]
fn golden_messages_about_pump_files() {
    check_folder("pump", |text| parameter::parse_pump(text, "dirprm/p1.prm").map(drop));
}

#[test]
fn golden_messages_about_replicat_files() {
    check_folder("replicat", |text| parameter::parse_replicat(text, "dirprm/r1.prm").map(drop));
}

#[test]
fn golden_messages_about_definitions_files() {
    check_folder("definitions", |text| parameter::parse_definitions(text, "dirprm/defgen.prm").map(drop));
}

#[test]
fn the_reference_page_is_the_table_of_parameters() {
    let page = crate_folder().join("../../docs/reference/parameters.md");
    let reference = parameter::reference();
    if is_blessing() {
        fs::create_dir_all(page.parent().expect("a folder of pages")).expect("a writable folder");
        fs::write(&page, &reference).expect("a writable page");
    }
    let written = fs::read_to_string(&page).unwrap_or_default();
    assert!(written == reference, "{} is not up to date: DROVER_BLESS=1 rewrites it", page.display());
}

#[test]
fn no_text_makes_the_parser_panic_or_stand_still() {
    let whole = "\u{feff}EXTRACT e1\nSOURCEDB 'sqlite:a b' -- x\nEXTTRAIL ./dirdat/aa &\n\nTABLE \"a\"\"b\".t*, KEYCOLS (\"c\", d);\nTABLEEXCLUDE é.*;";
    let characters: Vec<char> = whole.chars().collect();
    let marks = ['\'', '"', ';', '(', ',', '*', '.', '&', '\n', '\u{0}', 'é', '-', ')'];
    for place in 0..characters.len() {
        let cut: String = characters[..place].iter().collect();
        let _ = parameter::parse_extract(&cut, "f");
        for mark in marks {
            let mut changed = characters.clone();
            changed[place] = mark;
            let changed: String = changed.into_iter().collect();
            let told = [parameter::parse_extract(&changed, "f").err(), parameter::parse_replicat(&changed, "f").err()];
            told.into_iter().flatten().for_each(|diagnostics| assert!(!diagnostics.to_string().is_empty()));
        }
    }
}
