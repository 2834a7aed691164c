//! `cargo x test`: the whole gate, in the order in which it fails cheapest.

use crate::need;
use crate::program::{self, Outcome, cargo};
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

/// Crates whose tests share a database server, which lives in the process that started it. nextest gives each test a process
/// of its own, and so would start hundreds.
const SHARE_A_SERVER: &[&str] = &["db-postgres"];

/// Runs format check, lints, documentation, documentation tests and all tests of the workspace.
pub fn run() -> Outcome {
    need::provide()?;
    program::run(&mut cargo(&["fmt", "--all", "--check"]))?;
    program::run(&mut cargo(&["clippy", "--locked", "--workspace", "--all-targets", "--", "--deny", "warnings"]))?;
    program::run(cargo(&["doc", "--locked", "--workspace", "--no-deps"]).env("RUSTDOCFLAGS", "--deny warnings"))?;
    program::run(&mut cargo(&["test", "--locked", "--workspace", "--doc"]))?;
    if !program::has_nextest() {
        return run_counted(&mut cargo(&["test", "--locked", "--workspace", "--tests", "--no-fail-fast"]));
    }
    let mut rest = cargo(&["nextest", "run", "--locked", "--workspace", "--no-tests", "fail"]);
    for package in SHARE_A_SERVER {
        run_counted(&mut cargo(&["test", "--locked", "--package", package, "--tests", "--no-fail-fast"]))?;
        rest.args(["--exclude", package]);
    }
    // Last, so that the test runner's own closing lines end the output.
    program::run(&mut rest)
}

/// Runs `cargo test`, which calls a run without a single test a success, and does not.
fn run_counted(command: &mut Command) -> Outcome {
    let shown = program::shown(command);
    println!("\n$ {shown}");
    let refuse = |cause: std::io::Error| format!("could not run `{shown}`: {cause}");
    let mut child = command.stdout(Stdio::piped()).spawn().map_err(refuse)?;
    let output = child.stdout.take().expect("standard output is a pipe");
    let mut passed = 0;
    for line in BufReader::new(output).lines() {
        let line = line.map_err(refuse)?;
        passed += tests_passed(&line).unwrap_or(0);
        writeln!(std::io::stdout(), "{line}").map_err(refuse)?;
    }
    let status = child.wait().map_err(refuse)?;
    if !status.success() {
        return Err(format!("`{shown}` ended with {status}"));
    }
    println!("{passed} tests passed in all");
    if passed == 0 { Err("no test was run".to_owned()) } else { Ok(()) }
}

/// The number in `test result: ok. 12 passed; …`.
fn tests_passed(line: &str) -> Option<u64> {
    let rest = line.strip_prefix("test result: ")?;
    let (_, counts) = rest.split_once(". ")?;
    counts.split(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::tests_passed;

    #[test]
    fn the_count_of_passed_tests_is_read_from_the_closing_line() {
        let line = "test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.01s";
        assert_eq!(tests_passed(line), Some(12));
        assert_eq!(tests_passed("test result: FAILED. 3 passed; 1 failed; 0 ignored"), Some(3));
        assert_eq!(tests_passed("test tests::test_result ... ok"), None);
    }
}
