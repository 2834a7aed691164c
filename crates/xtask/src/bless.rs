//! `cargo x bless`: rewrites what tests compare with, to be read in the diff before it is committed.

use crate::program::{self, Outcome, cargo};

/// Runs the tests that own generated files with `DROVER_BLESS=1`: golden scripts and reference pages.
pub fn run() -> Outcome {
    // All of them go through tests whose names hold one of these words.
    let owners = ["golden", "reference"];
    program::run(cargo(&["test", "--workspace", "--all-targets", "--"]).args(owners).env("DROVER_BLESS", "1"))?;
    program::run(program::command("git").args(["status", "--short"]))
}
