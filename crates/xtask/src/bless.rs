//! `cargo x bless`: rewrites what tests compare with, to be read in the diff before it is committed.

use crate::program::{self, Outcome, cargo};
use std::fs;
use std::path::Path;

/// What the tests that own generated files (golden scripts, reference pages) name in their code.
const OWNERS: [&str; 2] = ["DROVER_BLESS", "testkit::script"];

/// Runs the tests of every crate that owns generated files, with `DROVER_BLESS=1`, and shows what has changed.
pub fn run() -> Outcome {
    let mut tests = cargo(&["test"]);
    for package in packages().map_err(|cause| format!("could not read the crates' tests: {cause}"))? {
        tests.args(["--package", &package]);
    }
    // With nothing but `--test '*'`, unit tests and examples stay out: they own no files.
    program::run(tests.args(["--test", "*"]).env("DROVER_BLESS", "1"))?;
    program::run(program::command("git").args(["status", "--short"]))
}

/// Names of the crates with such a test.
fn packages() -> std::io::Result<Vec<String>> {
    let mut packages = Vec::new();
    for folder in fs::read_dir(program::root().join("crates"))? {
        let folder = folder?;
        let name = folder.file_name().to_string_lossy().into_owned();
        if name != "xtask" && owns_files(&folder.path().join("tests"))? {
            packages.push(name);
        }
    }
    packages.sort();
    Ok(packages)
}

fn owns_files(path: &Path) -> std::io::Result<bool> {
    if path.is_dir() {
        for entry in fs::read_dir(path)? {
            if owns_files(&entry?.path())? {
                return Ok(true);
            }
        }
        return Ok(false);
    }
    let is_code = path.extension().is_some_and(|extension| extension == "rs");
    Ok(is_code && fs::read_to_string(path).is_ok_and(|text| OWNERS.iter().any(|owner| text.contains(owner))))
}
