//! Golden scripts of the brains in this crate.

mod bounded_script;

use bounded_script::BoundedScript;
use capture::{Restart, Verdict};
use change::{Commit, Csn, Timestamp, TransactionId};
use std::path::Path;
use testkit::script::{Command, Script, assert_no_forgotten_folder, run_folder};

fn scripts() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/testscripts"))
}

#[test]
fn every_folder_of_scripts_is_run() {
    assert_no_forgotten_folder(scripts(), &["bounded", "restart"]);
}

#[test]
fn restart() {
    run_folder(&scripts().join("restart"), || Box::new(RestartScript { restart: Restart::after(None) }));
}

#[test]
fn bounded() {
    run_folder(&scripts().join("bounded"), || Box::new(BoundedScript::new()));
}

/// Commands: `trail-ends-with CSN:XID`, `replay CSN:XID…`.
struct RestartScript {
    restart: Restart,
}

impl Script for RestartScript {
    fn execute(&mut self, command: &Command<'_>) -> Result<String, String> {
        let commits: Vec<Commit> = command.words.iter().map(|word| commit(word)).collect::<Result<_, _>>()?;
        match command.name {
            "trail-ends-with" => {
                self.restart = Restart::after(commits.into_iter().next());
                Ok(String::new())
            }
            "replay" => {
                let verdicts = commits.iter().map(|commit| match self.restart.decide(commit) {
                    Ok(Verdict::Write) => format!("{}: write", commit.transaction),
                    Ok(Verdict::Skip) => format!("{}: skip", commit.transaction),
                    Err(gap) => format!("refused: {gap}"),
                });
                Ok(verdicts.collect::<Vec<_>>().join("\n"))
            }
            other => Err(format!("no command {other}")),
        }
    }
}

fn commit(word: &str) -> Result<Commit, String> {
    let (csn, transaction) = word.split_once(':').ok_or_else(|| format!("{word} is not CSN:XID"))?;
    Ok(Commit { csn: Csn::new(csn), transaction: TransactionId::new(transaction), time: Timestamp::default() })
}
