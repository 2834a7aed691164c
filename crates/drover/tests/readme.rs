//! The README's example, run as it is written.

use crate::stage::DEADLINE;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What a fenced block of the page is.
#[derive(Debug, PartialEq)]
enum Block<'a> {
    /// Commands for a shell.
    Commands(&'a str),
    /// What the commands before it print.
    Output(&'a str),
}

/// The `sh` and `text` blocks of a page.
fn blocks(page: &str) -> Vec<Block<'_>> {
    let mut found = Vec::new();
    let mut rest = page;
    while let Some((_, block)) = rest.split_once("\n```") {
        let (kind, block) = block.split_once('\n').expect("a fence ends its line");
        let (inside, after) = block.split_once("\n```").expect("every block is closed");
        match kind {
            "sh" => found.push(Block::Commands(inside)),
            "text" => found.push(Block::Output(inside)),
            _ => {}
        }
        rest = after;
    }
    found
}

/// One shell script: the commands one after another; where the page shows their output, they are repeated until they print
/// it, for apply comes "a moment later".
fn script(blocks: &[Block<'_>]) -> String {
    let mut script = String::from("set -eu\ntrap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n");
    for (index, block) in blocks.iter().enumerate() {
        let Block::Commands(commands) = block else { continue };
        let written = match blocks.get(index + 1) {
            Some(Block::Output(expected)) => {
                let expected = expected.replace('\'', "'\\''");
                let tries = DEADLINE.as_millis() / 50;
                write!(
                    script,
                    "expected='{expected}'; tries=0\nwhile found=$({commands}); [ \"$found\" != \"$expected\" ]; do\n\
                     tries=$((tries + 1)); [ $tries -lt {tries} ] || {{ echo \"expected: $expected\nfound: $found\"; exit 1; }}\n\
                     sleep 0.05; done\n"
                )
            }
            _ => writeln!(script, "{commands}"),
        };
        written.expect("a string can be written to");
    }
    script
}

/// Runs the blocks of a part of a page, one after another in an empty folder, which is also the user's own.
///
/// # Panics
/// When a command fails, or does not print what the page shows.
pub fn run(part: &str) {
    let blocks = blocks(part);
    assert!(blocks.iter().any(|block| matches!(block, Block::Output(_))), "the page shows what comes out");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut path = PathBuf::from(env!("CARGO_BIN_EXE_drover")).parent().expect("a folder").as_os_str().to_owned();
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap_or_default());
    let mut shell = Command::new("bash");
    shell.args(["-c", &script(&blocks)]).current_dir(&folder).env("PATH", path).env("HOME", folder.path());
    shell.env_remove("DROVER_HOME").env_remove("PGPASSWORD").env_remove("PGPASSFILE");
    let output = shell.output().expect("bash runs");
    assert!(
        output.status.success(),
        "{}\n{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn the_steps_of_the_readme_work_as_written() {
    let readme = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md");
    let readme = std::fs::read_to_string(readme).expect("the README");
    let (_, by_hand) = readme.split_once("\n## By hand\n").expect("the README has a part on doing it by hand");
    let (by_hand, _) = by_hand.split_once("\n## ").expect("another part follows");
    run(by_hand);
}
