//! Golden scripts: text files of commands and the output that they must give.
//!
//! ```text
//! # A comment belongs to the block that follows.
//! limit operations=2
//! change only
//! ---
//! buffered 1
//!
//! caught-up
//! ---
//! begin, write 1, commit
//! ```
//!
//! A block is a run of command lines, a line `---`, and the expected output; an empty line ends it. All blocks of one file
//! talk to one [`Script`]. With `DROVER_BLESS=1` in the environment the files are rewritten with the output that came.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

/// What executes the commands of one script file.
pub trait Script {
    /// Executes one command and returns its output, without a final line end; empty when it has none.
    ///
    /// # Errors
    /// What is wrong with the command itself; the script fails.
    fn execute(&mut self, command: &Command<'_>) -> Result<String, String>;
}

/// A command line: a name and arguments, some of the form `key=value`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command<'a> {
    /// The first word.
    pub name: &'a str,
    /// The words without an equals sign.
    pub words: Vec<&'a str>,
    /// The words with one.
    pub settings: Vec<(&'a str, &'a str)>,
}

impl<'a> Command<'a> {
    /// Reads a line; `None` when it holds no word.
    pub fn parse(line: &'a str) -> Option<Command<'a>> {
        let mut parts = line.split_whitespace();
        let name = parts.next()?;
        let mut command = Command { name, words: Vec::new(), settings: Vec::new() };
        for part in parts {
            match part.split_once('=') {
                Some(setting) => command.settings.push(setting),
                None => command.words.push(part),
            }
        }
        Some(command)
    }

    /// Word `index` after the name.
    ///
    /// # Errors
    /// That it is missing.
    pub fn word(&self, index: usize) -> Result<&'a str, String> {
        self.words.get(index).copied().ok_or_else(|| format!("{} needs a word at place {index}", self.name))
    }

    /// The value of `key`, if it is given.
    pub fn setting(&self, key: &str) -> Option<&'a str> {
        self.settings.iter().find(|(name, _)| *name == key).map(|(_, value)| *value)
    }

    /// The value of `key` as a number, or `default`.
    ///
    /// # Errors
    /// That it is not a number.
    pub fn number(&self, key: &str, default: u64) -> Result<u64, String> {
        let Some(text) = self.setting(key) else { return Ok(default) };
        text.parse().map_err(|_| format!("{key}={text} is not a number"))
    }
}

/// Runs every script file below `folder`, each with a new [`Script`] from `make`.
///
/// # Panics
/// When the output of a script differs from the file, when a command is wrong, and when there is no file at all.
pub fn run_folder(folder: &Path, mut make: impl FnMut() -> Box<dyn Script>) {
    let files = files_below(folder);
    assert!(!files.is_empty(), "no script below {}", folder.display());
    let bless = std::env::var_os("DROVER_BLESS").is_some_and(|value| value == "1");
    let mut failures = String::new();
    for file in files {
        let expected = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let actual = replay(&expected, &mut *make()).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        if actual == expected {
            continue;
        }
        if bless {
            fs::write(&file, actual).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        } else {
            let _ = writeln!(failures, "{}:\n{}", file.display(), difference(&expected, &actual));
        }
    }
    assert!(failures.is_empty(), "scripts differ (DROVER_BLESS=1 rewrites them)\n{failures}");
}

/// Checks that the folders right below `root` are exactly `known`, so that no script is forgotten.
///
/// # Panics
/// When they are not.
pub fn assert_no_forgotten_folder(root: &Path, known: &[&str]) {
    let entries = fs::read_dir(root).unwrap_or_else(|error| panic!("{}: {error}", root.display()));
    let mut found: Vec<String> =
        entries.map(|entry| entry.expect("a readable folder").file_name().to_string_lossy().into_owned()).collect();
    found.sort();
    let mut known: Vec<&str> = known.to_vec();
    known.sort_unstable();
    assert_eq!(found, known, "folders of scripts below {} and tests that run them", root.display());
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        for entry in entries {
            let path = entry.expect("a readable folder").path();
            if path.is_dir() { folders.push(path) } else { files.push(path) }
        }
    }
    files.sort();
    files
}

/// The script's text with the output that its commands give now.
fn replay(text: &str, script: &mut dyn Script) -> Result<String, String> {
    let mut result = String::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        if line.trim().is_empty() {
            result.push('\n');
            continue;
        }
        let mut output = String::new();
        let mut current = Some(line);
        while let Some(line) = current.filter(|line| *line != "---") {
            result.push_str(line);
            result.push('\n');
            let command = line.trim_start();
            if !command.starts_with('#')
                && let Some(command) = Command::parse(command)
            {
                let answer = script.execute(&command).map_err(|error| format!("{line}: {error}"))?;
                if !answer.is_empty() {
                    output.push_str(&answer);
                    output.push('\n');
                }
            }
            current = lines.next_if(|line| !line.trim().is_empty());
        }
        if current.is_none() && output.is_empty() {
            continue;
        }
        result.push_str("---\n");
        result.push_str(&output);
        while lines.next_if(|line| !line.trim().is_empty()).is_some() {}
    }
    Ok(result)
}

fn difference(expected: &str, actual: &str) -> String {
    let mut text = String::new();
    let (expected, actual): (Vec<&str>, Vec<&str>) = (expected.lines().collect(), actual.lines().collect());
    let same = expected.iter().zip(&actual).take_while(|(left, right)| left == right).count();
    for line in expected.iter().skip(same.saturating_sub(3)).take(12) {
        let _ = writeln!(text, "  expected | {line}");
    }
    for line in actual.iter().skip(same.saturating_sub(3)).take(12) {
        let _ = writeln!(text, "  actual   | {line}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Adder(u64);

    impl Script for Adder {
        fn execute(&mut self, command: &Command<'_>) -> Result<String, String> {
            match command.name {
                "add" => self.0 += command.number("n", 1)?,
                "show" => return Ok(self.0.to_string()),
                other => return Err(format!("no command {other}")),
            }
            Ok(String::new())
        }
    }

    #[test]
    fn a_script_that_is_right_replays_to_itself() {
        let text = "# Two blocks share one state.\nadd n=2\nadd\nshow\n---\n3\n\n\nadd\n\nshow\nshow\n---\n4\n4\n";
        assert_eq!(replay(text, &mut Adder(0)).unwrap(), text);
    }

    #[test]
    fn wrong_or_missing_output_is_replaced() {
        assert_eq!(replay("show\n---\n7\n8\n\nadd\n---\n", &mut Adder(0)).unwrap(), "show\n---\n0\n\nadd\n---\n");
        assert_eq!(replay("show", &mut Adder(0)).unwrap(), "show\n---\n0\n");
    }

    #[test]
    fn an_unknown_command_fails_the_script() {
        assert_eq!(replay("jump\n---\n", &mut Adder(0)).unwrap_err(), "jump: no command jump");
    }
}
