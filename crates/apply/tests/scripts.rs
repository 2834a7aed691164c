//! Golden scripts of the brains in this crate.

use apply::{Command as Action, GroupLimits, Grouping};
use std::path::Path;
use testkit::script::{Command, Script, assert_no_forgotten_folder, run_folder};
use trail::TransactionPlace;

fn scripts() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/testscripts"))
}

#[test]
fn every_folder_of_scripts_is_run() {
    assert_no_forgotten_folder(scripts(), &["conflict", "grouping"]);
}

#[test]
fn grouping() {
    run_folder(&scripts().join("grouping"), || {
        let limits = GroupLimits { operations: 1000, chunk_operations: 1000, chunk_bytes: 1 << 20 };
        Box::new(GroupingScript { grouping: Grouping::new(limits) })
    });
}

/// Commands: `limits`, `set-operations N`, `transaction N [bytes=B]`, `repeat N [bytes=B]`
/// (transactions of one change), `first|middle|last|only [bytes=B | unmapped]`,
/// `define-first|define-middle|define-last|define-only`, `caught-up [position-only]`, `restart`, `reset`.
struct GroupingScript {
    grouping: Grouping,
}

impl GroupingScript {
    fn change(&mut self, place: TransactionPlace, bytes: Option<usize>) -> String {
        let mut actions = Vec::new();
        match self.grouping.change(place, bytes, &mut actions) {
            Ok(()) => render(&actions),
            Err(refused) => format!("refused: {:?} is out of place", refused.place),
        }
    }
}

impl GroupingScript {
    fn statement(&mut self, place: TransactionPlace) -> String {
        let mut actions = Vec::new();
        match self.grouping.statement(place, &mut actions) {
            Ok(()) => render(&actions),
            Err(refused) => format!("refused: {:?} is out of place", refused.place),
        }
    }
}

impl Script for GroupingScript {
    fn execute(&mut self, command: &Command<'_>) -> Result<String, String> {
        let bytes = match command.words.contains(&"unmapped") {
            true => None,
            false => Some(command.number("bytes", 10)? as usize),
        };
        let mut actions = Vec::new();
        match command.name {
            "limits" => {
                let usual = GroupLimits::with_operations(command.number("operations", 1000)? as u32);
                self.grouping = Grouping::new(GroupLimits {
                    chunk_operations: command.number("chunk", 1000)? as usize,
                    chunk_bytes: command.number("chunk-bytes", 1 << 20)? as usize,
                    ..usual
                });
            }
            "set-operations" => self.grouping.set_operations(command.word(0)?.parse().map_err(|_| "not a number")?),
            "transaction" => {
                let length: usize = command.word(0)?.parse().map_err(|_| "not a number")?;
                let mut lines = Vec::new();
                for index in 0..length {
                    let place = match (index == 0, index + 1 == length) {
                        (true, true) => TransactionPlace::Only,
                        (true, false) => TransactionPlace::First,
                        (false, true) => TransactionPlace::Last,
                        (false, false) => TransactionPlace::Middle,
                    };
                    lines.push(self.change(place, bytes));
                }
                lines.retain(|line| !line.is_empty());
                return Ok(lines.join("\n"));
            }
            "repeat" => {
                let times: usize = command.word(0)?.parse().map_err(|_| "not a number")?;
                let mut lines: Vec<String> = (0..times).map(|_| self.change(TransactionPlace::Only, bytes)).collect();
                lines.retain(|line| !line.is_empty());
                return Ok(lines.join("\n"));
            }
            "first" => return Ok(self.change(TransactionPlace::First, bytes)),
            "middle" => return Ok(self.change(TransactionPlace::Middle, bytes)),
            "last" => return Ok(self.change(TransactionPlace::Last, bytes)),
            "only" => return Ok(self.change(TransactionPlace::Only, bytes)),
            "define-first" => return Ok(self.statement(TransactionPlace::First)),
            "define-middle" => return Ok(self.statement(TransactionPlace::Middle)),
            "define-last" => return Ok(self.statement(TransactionPlace::Last)),
            "define-only" => return Ok(self.statement(TransactionPlace::Only)),
            "caught-up" => self.grouping.caught_up(command.words.contains(&"position-only"), &mut actions),
            "restart" => self.grouping.restart(&mut actions),
            "reset" => self.grouping.reset(),
            other => return Err(format!("no command {other}")),
        }
        Ok(render(&actions))
    }
}

fn render(actions: &[Action]) -> String {
    let words = actions.iter().map(|action| match action {
        Action::Begin => "begin".to_owned(),
        Action::Write(number) => format!("write {number}"),
        Action::Define => "define".to_owned(),
        Action::Commit => "commit".to_owned(),
        Action::Drop(number) => format!("drop {number}"),
        Action::Rollback => "rollback".to_owned(),
    });
    words.collect::<Vec<_>>().join(", ")
}
