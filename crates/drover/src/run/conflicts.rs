//! Conflicts and parked transactions of a running Replicat: counted, told, and handed to a command of the operator's.

use super::{Run, SharedJournal};
use apply::AnyReplicat;
use apply::conflict::divergences_of;
use parameter::MapPlan;
use process::{Code, Failure};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::time::{Duration, Instant};

/// Events that wait for the command: more come only when it is slower than the conflicts for long.
const EVENTS_WAITING: usize = 1000;

/// How long the command may take for one event.
const HOOK_WAIT: Duration = Duration::from_secs(10);

/// How long what is waiting may take once the group ends: a stop is not to be held up.
const CLOSING_WAIT: Duration = Duration::from_secs(2);

/// Time between two looks whether the command has ended.
const LOOK: Duration = Duration::from_millis(10);

/// Methods that may leave so many sites different, one line each.
pub(crate) fn divergence_lines(rules: &MapPlan, sites: u32) -> Vec<String> {
    let mut lines = Vec::new();
    if sites < 2 {
        return lines;
    }
    for (target, handling) in rules.resolutions() {
        let found = divergences_of(&handling.conflicts, sites as usize);
        lines.extend(found.iter().map(|divergence| format!("MAP to {target}: where all sites write, {divergence}")));
    }
    lines
}

/// What a Replicat has met since its start, and who is told.
pub(super) struct ConflictDesk {
    hook: Option<Hook>,
    parked: u64,
}

impl ConflictDesk {
    /// Nothing was met yet.
    pub(super) fn open(command: &[String], home: &Path, journal: &SharedJournal) -> ConflictDesk {
        ConflictDesk { hook: Hook::start(command, home, journal.clone()), parked: 0 }
    }

    fn tell(&mut self, event: &serde_json::Value) {
        if let Some(hook) = &mut self.hook {
            hook.tell(event.to_string());
        }
    }

    /// Lines about conflicts and parked transactions, for STATUS, STATS and INFO; none where there were none.
    pub(super) fn lines(&self, replicat: &AnyReplicat) -> Vec<String> {
        let mut lines = Vec::new();
        for ((table, kind), count) in replicat.conflicts() {
            let methods = replicat.methods_text(&table, kind);
            lines.push(format!(
                "Conflicts: {kind} of {table}: {} resolved, {} failed{methods}",
                count.resolved, count.failed
            ));
        }
        if self.parked > 0 {
            lines.push(format!("Error queue: {} transactions parked since the start", self.parked));
        }
        lines
    }
}

impl Run {
    /// Says, counts and hands on what has come up since the last step.
    pub(super) fn take_conflicts(&self, replicat: &mut AnyReplicat, desk: &mut ConflictDesk) {
        for parked in replicat.take_parked() {
            let line = format!("transaction {} is parked in the error queue: {}", parked.id, parked.error);
            self.journal.say(Code::TransactionParked, line);
            desk.parked += 1;
            desk.tell(&serde_json::json!({
                "event": "parked", "group": self.group.to_string(), "deferred_tran_id": parked.id, "error": parked.error,
            }));
        }
        for conflict in replicat.take_conflicts() {
            let methods: Vec<serde_json::Value> = conflict
                .methods
                .iter()
                .map(|(method, resolution)| serde_json::json!({ "method": method, "resolution": resolution }))
                .collect();
            desk.tell(&serde_json::json!({
                "event": "conflict", "group": self.group.to_string(), "table": conflict.table.to_string(),
                "conflict_type": conflict.kind.to_string(), "settled": conflict.is_settled, "methods": methods,
                "transaction": conflict.transaction, "csn": conflict.csn,
            }));
        }
    }

    /// Hands on that the group stops, and why.
    pub(super) fn tell_stop(&self, desk: &mut ConflictDesk, failure: &Failure) {
        desk.tell(&serde_json::json!({
            "event": "stopped", "group": self.group.to_string(), "code": failure.code().to_string(), "error": failure.what(),
        }));
    }
}

/// A command of the operator's, run by a thread of its own: apply never waits for it.
struct Hook {
    sender: Option<SyncSender<String>>,
    thread: Option<std::thread::JoinHandle<()>>,
    journal: SharedJournal,
    /// Whether the group ends.
    is_closing: Arc<AtomicBool>,
    /// Events that found no place.
    lost: u64,
}

impl Hook {
    fn start(command: &[String], home: &Path, journal: SharedJournal) -> Option<Hook> {
        let (program, arguments) = command.split_first()?;
        let (sender, events) = sync_channel(EVENTS_WAITING);
        let is_closing = Arc::new(AtomicBool::new(false));
        let caller = Caller {
            program: program.clone(),
            arguments: arguments.to_vec(),
            home: home.to_path_buf(),
            journal: journal.clone(),
            is_closing: Arc::clone(&is_closing),
            has_failed: false,
        };
        let thread = std::thread::Builder::new().name("conflict hook".to_owned()).spawn(move || caller.serve(&events));
        Some(Hook { sender: Some(sender), thread: thread.ok(), journal, is_closing, lost: 0 })
    }

    fn tell(&mut self, event: String) {
        let Some(sender) = &self.sender else { return };
        if let Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) = sender.try_send(event) {
            self.lost += 1;
            if self.lost == 1 {
                let line =
                    "CONFLICTHOOK is slower than conflicts come: events are lost; the conflict log has all of them";
                self.journal.say(Code::ConflictHookFailed, line.to_owned());
            }
        }
    }
}

impl Drop for Hook {
    fn drop(&mut self) {
        self.is_closing.store(true, Ordering::Release);
        self.sender = None;
        if let Some(thread) = self.thread.take() {
            // It ends by itself soon after the last event, or after its time.
            let _ = thread.join();
        }
        if self.lost > 0 {
            let line = format!("CONFLICTHOOK: {} events were lost", self.lost);
            self.journal.say(Code::ConflictHookFailed, line);
        }
    }
}

struct Caller {
    program: String,
    arguments: Vec<String>,
    home: PathBuf,
    journal: SharedJournal,
    is_closing: Arc<AtomicBool>,
    has_failed: bool,
}

impl Caller {
    fn serve(mut self, events: &Receiver<String>) {
        let mut closing: Option<Instant> = None;
        loop {
            let event = match events.recv_timeout(Duration::from_millis(100)) {
                Ok(event) => event,
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => return,
            };
            let outcome = self.call(&event, &mut closing);
            match outcome {
                Ok(()) => self.has_failed = false,
                Err(what) if !std::mem::replace(&mut self.has_failed, true) => {
                    let line = format!("CONFLICTHOOK {} {what}; the group goes on", self.program);
                    self.journal.say(Code::ConflictHookFailed, line);
                }
                // Said already, and nothing has changed.
                Err(_) => {}
            }
            if closing.is_some_and(|end| Instant::now() >= end) {
                return;
            }
        }
    }

    /// Runs the command once.
    fn call(&self, event: &str, closing: &mut Option<Instant>) -> Result<(), String> {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).current_dir(&self.home);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().map_err(|error| format!("could not be run: {error}"))?;
        if let Some(mut input) = child.stdin.take() {
            // A line is shorter than a pipe; one that does not listen has closed it.
            let _ = input.write_all(event.as_bytes()).and_then(|()| input.write_all(b"\n"));
        }
        let end = Instant::now() + HOOK_WAIT;
        loop {
            match child.try_wait() {
                Ok(Some(status)) if status.success() => return Ok(()),
                Ok(Some(status)) => return Err(format!("failed: {status}")),
                Ok(None) => {}
                Err(error) => return Err(format!("could not be waited for: {error}")),
            }
            if closing.is_none() && self.is_closing.load(Ordering::Acquire) {
                *closing = Some(Instant::now() + CLOSING_WAIT);
            }
            let now = Instant::now();
            if now >= end || closing.is_some_and(|end| now >= end) {
                // Whether it can be ended or not: it is not waited for.
                let _ = child.kill().and_then(|()| child.wait().map(drop));
                return Err("took too long and was ended".to_owned());
            }
            std::thread::sleep(LOOK);
        }
    }
}
