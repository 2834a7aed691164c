//! `cargo x fuzz`: inputs that nobody wrote, for all decoders of trail and checkpoint files.

use crate::program::{self, Outcome, cargo};

/// Runs the harness of `testkit` for so many seconds, a minute without a number, with a seed if one is given. Not the release
/// build: this one notices sums that do not fit their type.
pub fn run(words: &[&str]) -> Outcome {
    if words.len() > 2 || words.iter().any(|word| word.parse::<u64>().is_err()) {
        return Err(format!("fuzz takes SECONDS and a SEED, not {:?}", words.join(" ")));
    }
    let harness = ["run", "--quiet", "--package", "testkit", "--example", "fuzz", "--"];
    program::run(cargo(&harness).args(words))
}
