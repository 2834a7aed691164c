//! `cargo x sabotage`: proves that the tests guard the promises.
//!
//! `testkit` lists one switch per promise. Each breaks its promise at the very place where it is kept; the tests that
//! the list names must then fail. A switch under which they stay green is a promise without a guard.

use crate::program::{self, Outcome, cargo};
use serde_json::Value;
use std::process::{Command, Stdio};
use std::time::Instant;

struct Switch {
    name: String,
    promise: String,
    /// Part of the names of the tests that must fail.
    tests: String,
}

/// Runs the control, then every switch, and shows a table.
pub fn run() -> Outcome {
    let switches = switches()?;
    let filters: Vec<&str> = switches.iter().map(|switch| switch.tests.as_str()).collect();
    program::run(tests(&[]).arg("--no-run"))?;

    println!("\ncontrol: the same tests, nothing broken");
    match verdict(&mut tests(&filters))? {
        Verdict::Green => println!("green, as it should be"),
        other => return Err(format!("the control run without a switch is {}; nothing can be learnt", other.word())),
    }

    let mut rows = Vec::new();
    for switch in &switches {
        let begun = Instant::now();
        let verdict = verdict(tests(&[&switch.tests]).env("DROVER_SABOTAGE", &switch.name))?;
        println!("{:<34} {:<9} {:>5.1} s", switch.name, verdict.word(), begun.elapsed().as_secs_f64());
        rows.push((switch, verdict));
    }

    println!("\n{:<34} {:<9} {:<20} must fail", "switch", "tests", "promise");
    for (switch, verdict) in &rows {
        println!("{:<34} {:<9} {:<20} {}", switch.name, verdict.word(), switch.promise, switch.tests);
    }
    let unguarded: Vec<&str> =
        rows.iter().filter(|(_, verdict)| *verdict != Verdict::Red).map(|(switch, _)| switch.name.as_str()).collect();
    if unguarded.is_empty() {
        println!("\nall {} switches turn the tests red", rows.len());
        Ok(())
    } else {
        Err(format!("no test failed under: {}", unguarded.join(", ")))
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Green,
    Red,
    /// The filter named no test.
    NoTests,
}

impl Verdict {
    fn word(self) -> &'static str {
        match self {
            Verdict::Green => "green",
            Verdict::Red => "red",
            Verdict::NoTests => "no tests",
        }
    }
}

/// The list that `testkit` keeps, read from the program that prints it.
fn switches() -> Result<Vec<Switch>, String> {
    let words = ["run", "--quiet", "--package", "testkit", "--example", "sabotage_switches"];
    let text = program::output(&mut cargo(&words))?;
    let list: Value =
        serde_json::from_str(&text).map_err(|cause| format!("the list of switches is no JSON: {cause}"))?;
    let entries = list.as_array().filter(|entries| !entries.is_empty()).ok_or("the list of switches is empty")?;
    let field = |entry: &Value, name: &str| match entry[name].as_str() {
        Some(text) if !text.is_empty() => Ok(text.to_owned()),
        _ => Err(format!("a switch without {name}: {entry}")),
    };
    let read = |entry| {
        Ok(Switch { name: field(entry, "name")?, promise: field(entry, "promise")?, tests: field(entry, "tests")? })
    };
    entries.iter().map(read).collect()
}

/// The tests of the workspace whose names hold one of `filters`, built with the switches.
fn tests(filters: &[&str]) -> Command {
    let mut command =
        if program::has_nextest() { cargo(&["nextest", "run", "--profile", "sabotage"]) } else { cargo(&["test"]) };
    command.args(["--workspace", "--features", "change/sabotage", "--target-dir", "target/sabotage"]);
    if !program::has_nextest() && !filters.is_empty() {
        command.arg("--");
    }
    command.args(filters);
    command
}

/// Runs the tests quietly and tells failed tests from none and from a failed build.
fn verdict(command: &mut Command) -> Result<Verdict, String> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|cause| format!("could not start `{}`: {cause}", program::shown(command)))?;
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    match output.status.code() {
        Some(0) if text.contains("passed") && !only_empty_runs(&text) => Ok(Verdict::Green),
        // 4 is nextest's code for "no tests to run".
        Some(0 | 4) => Ok(Verdict::NoTests),
        // 100 is nextest's code for failed tests, 101 that of `cargo test`, whose build has succeeded before.
        Some(100 | 101) => Ok(Verdict::Red),
        _ => Err(format!("`{}` ended with {}:\n{text}", program::shown(command), output.status)),
    }
}

/// Whether `cargo test` ran binaries but not one test.
fn only_empty_runs(text: &str) -> bool {
    let mut closing = text.lines().filter(|line| line.starts_with("test result: ")).peekable();
    closing.peek().is_some() && closing.all(|line| line.contains(" 0 passed"))
}
