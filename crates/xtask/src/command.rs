//! The table of commands: the dispatcher and the help are both made from it.

use crate::program::Outcome;
use crate::{bench, bless, fuzz, sabotage, test};

/// One command of `cargo x`.
pub struct Command {
    /// The words that call it.
    words: &'static [&'static str],
    /// What it does, in one line.
    help: &'static str,
    run: fn() -> Outcome,
}

/// All commands, in the order in which the help lists them.
pub const COMMANDS: &[Command] = &[
    Command {
        words: &["test"],
        help: "format, lints, documentation and every test; what .ci/run calls",
        run: test::run,
    },
    Command {
        words: &["bless"],
        help: "rewrite the expected output of golden scripts and the generated reference pages",
        run: bless::run,
    },
    Command {
        words: &["sabotage"],
        help: "break each promise on purpose and expect its tests to fail",
        run: sabotage::run,
    },
    Command {
        words: &["fuzz"],
        help: "[SECONDS [SEED]]: changes trail and checkpoint files at random, for all decoders",
        run: || fuzz::run(&[]),
    },
    Command {
        words: &["bench", "sqlite"],
        help: "rows a second from source commit to target commit, SQLite to SQLite; writes docs/benchmarks.md",
        run: bench::sqlite::run,
    },
    Command {
        words: &["bench", "postgres"],
        help: "Drover beside native logical replication and pglogical; writes docs/benchmarks.md; parts by DROVER_BENCH_PARTS",
        run: bench::postgres::run,
    },
    Command {
        words: &["bench", "postgres", "--quick"],
        help: "the same with small workloads, once: only shows that it works",
        run: bench::postgres::quick,
    },
    Command {
        words: &["bench", "trail"],
        help: "trail encode and decode, walking, and writing beside the plain disk; writes docs/benchmarks.md",
        run: bench::trail::run,
    },
    Command {
        words: &["bench", "trail", "--quick"],
        help: "the same over little data, once: only shows that it works",
        run: bench::trail::quick,
    },
    Command {
        words: &["bench", "distribution"],
        help: "what a path between homes carries, beside bare TLS; writes docs/benchmarks.md",
        run: bench::distribution::run,
    },
    Command {
        words: &["bench", "distribution", "--quick"],
        help: "the same over little data, once: only shows that it works",
        run: bench::distribution::quick,
    },
    Command { words: &["help"], help: "this list", run: help },
];

/// Runs the command that `words` name.
pub fn run(words: &[&str]) -> Outcome {
    // The only command that takes more than its words.
    if let ["fuzz", numbers @ ..] = words {
        return fuzz::run(numbers);
    }
    match COMMANDS.iter().find(|command| command.words == words) {
        Some(command) => (command.run)(),
        None if words.is_empty() => help(),
        None => {
            help()?;
            Err(format!("there is no command {:?}", words.join(" ")))
        }
    }
}

fn help() -> Outcome {
    println!("cargo x COMMAND\n");
    for command in COMMANDS {
        println!("  {:<24} {}", command.words.join(" "), command.help);
    }
    Ok(())
}
