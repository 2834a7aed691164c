//! Two SQLite databases with a real Extract and a real Replicat between them, in a folder of its own beside the programs.

use super::machine;
use crate::program::{self, Outcome, command};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A source, a target and a home; the groups run between [`start`](Pipeline::start) and [`stop`](Pipeline::stop).
pub struct Pipeline {
    folder: PathBuf,
    groups: Vec<Child>,
}

/// What a process has used.
#[derive(Clone, Copy)]
pub struct Usage {
    pub cpu_seconds: f64,
    pub peak_mebibytes: f64,
}

impl Usage {
    fn of(process: &Child) -> Result<Usage, String> {
        let number = process.id();
        Ok(Usage { cpu_seconds: machine::cpu_seconds(number)?, peak_mebibytes: machine::peak_mebibytes(number)? })
    }

    /// What was used after `earlier`; a peak stays a peak.
    pub fn since(self, earlier: Usage) -> Usage {
        Usage { cpu_seconds: self.cpu_seconds - earlier.cpu_seconds, ..self }
    }
}

/// The workload program with `words`.
pub fn writer(words: &[&str]) -> Command {
    let mut writer = command(program::release().join("examples/writer"));
    writer.args(words);
    writer
}

fn writer_json(words: &[&str]) -> Result<Value, String> {
    let text = program::output(&mut writer(words))?;
    serde_json::from_str(&text).map_err(|cause| format!("the writer wrote no JSON: {cause}"))
}

impl Pipeline {
    /// Makes both databases, with the same `rows` in each, and a home in which nothing is added yet.
    pub fn prepare(rows: u64) -> Result<Pipeline, String> {
        let folder = program::release().join("bench-sqlite");
        let refuse = |cause| format!("could not prepare {}: {cause}", folder.display());
        if folder.exists() {
            std::fs::remove_dir_all(&folder).map_err(refuse)?;
        }
        std::fs::create_dir_all(&folder).map_err(refuse)?;
        let pipeline = Pipeline { folder, groups: Vec::new() };
        for database in [pipeline.source(), pipeline.target()] {
            program::output(&mut writer(&["prepare", &database, &rows.to_string()]))?;
        }
        Ok(pipeline)
    }

    /// The source database's file.
    pub fn source(&self) -> String {
        self.path("source.db")
    }

    /// The target database's file.
    pub fn target(&self) -> String {
        self.path("target.db")
    }

    fn path(&self, name: &str) -> String {
        self.folder.join(name).to_string_lossy().into_owned()
    }

    /// Adds the groups, starts them, and returns when a row has gone all the way.
    pub fn start(&mut self) -> Outcome {
        let (source, target, home) = (self.source(), self.target(), self.path("home"));
        program::output(drover().args(["init", &home]))?;
        let extract = format!("EXTRACT e1\nSOURCEDB sqlite:{source}\nEXTTRAIL ./dirdat/aa\nTABLE main.item;\n");
        let replicat = format!("REPLICAT r1\nTARGETDB sqlite:{target}\nMAP main.item, TARGET main.item;\n");
        for (group, text) in [("e1", extract), ("r1", replicat)] {
            let path = Path::new(&home).join("dirprm").join(format!("{group}.prm"));
            std::fs::write(&path, text).map_err(|cause| format!("could not write {}: {cause}", path.display()))?;
        }
        let commands = format!(
            "DBLOGIN SOURCEDB sqlite:{source}; ADD EXTRACT e1, TRANLOG, BEGIN NOW; ADD EXTTRAIL ./dirdat/aa, EXTRACT e1; \
             DBLOGIN SOURCEDB sqlite:{target}; ADD CHECKPOINTTABLE main.checkpoint; \
             ADD REPLICAT r1, EXTTRAIL ./dirdat/aa, CHECKPOINTTABLE main.checkpoint"
        );
        program::output(drover().args(["--home", &home, "-c", &commands]))?;
        for [kind, name] in [["extract", "e1"], ["replicat", "r1"]] {
            let mut group = drover();
            group.args([kind, name, "--home", &home]).stdin(Stdio::null()).stdout(Stdio::null());
            self.groups.push(group.spawn().map_err(|cause| format!("could not start {kind} {name}: {cause}"))?);
        }
        program::output(&mut writer(&["warm", &source, &target])).map(drop)
    }

    /// CPU and memory of Extract and Replicat so far.
    pub fn usage(&self) -> Result<(Usage, Usage), String> {
        let [extract, replicat] = self.groups.as_slice() else { return Err("the groups do not run".to_owned()) };
        Ok((Usage::of(extract)?, Usage::of(replicat)?))
    }

    /// Asks the groups to stop and waits until they have.
    pub fn stop(&mut self) -> Outcome {
        for mut group in self.groups.drain(..) {
            program::output(command("kill").args(["-TERM", &group.id().to_string()]))?;
            let status = group.wait().map_err(|cause| format!("lost a group: {cause}"))?;
            if !status.success() {
                return Err(format!("a group ended with {status}; see {}", self.folder.join("home/dirrpt").display()));
            }
        }
        Ok(())
    }

    /// Runs the workload against the source.
    pub fn write(&self, operation: &str, rows: u64, rows_per_transaction: u64) -> Result<Value, String> {
        writer_json(&["write", &self.source(), operation, &rows.to_string(), &rows_per_transaction.to_string()])
    }

    /// Runs a steady load: rows per transaction, transactions a second, seconds.
    pub fn pace(&self, words: &[String; 3]) -> Result<Value, String> {
        let [rows_per_transaction, rate, seconds] = words;
        writer_json(&["pace", &self.source(), &self.target(), rows_per_transaction, rate, seconds])
    }

    /// Fails unless both databases hold the same rows.
    pub fn compare(&self) -> Outcome {
        writer_json(&["compare", &self.source(), &self.target()]).map(drop)
    }
}

impl Drop for Pipeline {
    fn drop(&mut self) {
        for group in &mut self.groups {
            // Only after a failure; it may have ended by itself.
            let _ = group.kill();
            let _ = group.wait();
        }
    }
}

fn drover() -> Command {
    command(program::release().join("drover"))
}
