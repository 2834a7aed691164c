//! Golden scripts of heartbeat routing.

use crate::heartbeat_network::{Database, Network};
use change::Timestamp;
use process::heartbeat::{Direction, ExtractNotes, Heartbeat, Router, pass_extract};
use std::path::Path;
use testkit::script::{Command, Script, run_folder};

fn scripts() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/testscripts"))
}

#[test]
fn heartbeats_travel_as_their_scripts_say() {
    run_folder(&scripts().join("heartbeat"), || Box::new(HeartbeatScript::default()));
}

/// Commands: `database NAME… [offset=SECONDS]`, `extract GROUP DATABASE TRAIL`, `pump GROUP[:path] TRAIL TRAIL`,
/// `replicat GROUP TRAIL DATABASE`, `stamp DATABASE…`, `rows DATABASE`, `history DATABASE`, `forget DATABASE`. Of one record:
/// `record EXTRACT LIST`, each of them `-` for NULL, then `pass GROUP[:path]` or `extracts GROUP` to see what becomes of it.
#[derive(Default)]
struct HeartbeatScript {
    network: Network,
    record: Option<Heartbeat>,
}

fn router(name: &str) -> Router {
    match name.split_once(':') {
        Some((group, path)) => Router::path(group, path),
        None => Router::pump(name),
    }
}

impl HeartbeatScript {
    fn record(&self) -> Result<&Heartbeat, String> {
        self.record.as_ref().ok_or_else(|| "there is no record".to_owned())
    }
}

impl Script for HeartbeatScript {
    fn execute(&mut self, command: &Command<'_>) -> Result<String, String> {
        let word = |index: usize| command.word(index).map(str::to_owned);
        match command.name {
            "database" => {
                let offset = command.setting("offset").map_or(Ok(0), str::parse).map_err(|_| "offset is no number")?;
                for name in &command.words {
                    let database = Database { offset, ..Database::default() };
                    self.network.databases.insert((*name).to_owned(), database);
                }
            }
            "extract" => self.network.extracts.push((word(0)?, word(1)?, word(2)?)),
            "pump" => {
                self.network.routers.push((router(command.word(0)?), word(1)?, word(2)?));
            }
            "replicat" => self.network.replicats.push((word(0)?, word(1)?, word(2)?)),
            "stamp" => command.words.iter().for_each(|name| self.network.stamp(name)),
            "rows" => return Ok(self.network.rows(command.word(0)?)),
            "history" => return Ok(self.network.databases[command.word(0)?].history.len().to_string()),
            "record" => {
                let told = |word: &str| (word != "-").then(|| word.replace('_', " "));
                let (extract, routing_path) = (told(command.word(0)?), told(command.word(1)?));
                self.record = Some(Heartbeat {
                    local_database: "a".to_owned(),
                    stamp: Timestamp::default(),
                    remote_database: None,
                    incoming: Direction::default(),
                    outgoing: Direction { extract, routing_path, ..Direction::default() },
                });
            }
            "pass" => {
                let name = command.word(0)?.replace('_', " ");
                let passed = router(name.trim()).pass(self.record()?, Timestamp::default());
                let list = passed.and_then(|passed| passed.outgoing.routing_path);
                return Ok(format!("{}: {}", name.trim(), list.as_deref().unwrap_or("dropped")));
            }
            "extracts" => {
                let passed = pass_extract(self.record()?, command.word(0)?, ExtractNotes::default());
                let extract = passed.and_then(|passed| passed.outgoing.extract);
                return Ok(format!("{}: {}", command.word(0)?, extract.as_deref().unwrap_or("dropped")));
            }
            "forget" => self.network.databases.get_mut(command.word(0)?).ok_or("no such database")?.rows.clear(),
            other => return Err(format!("no command {other}")),
        }
        Ok(String::new())
    }
}
