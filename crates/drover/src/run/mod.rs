//! Running a group in the foreground.
//!
//! What is the same for every group happens here: the lock, the report, trying again, the clean stop and the failure.
//! [`extract`] and [`replicat`] put the parts of their kind together and step them until they are told to stop.

mod commands;
mod conflicts;
mod discard_file;
mod extract;
mod extract_commands;
pub(crate) mod heartbeat;
pub(crate) mod log_kept;
mod mode;
mod open_source;
mod pump;
mod purge;
mod remote_pump;
mod replicat;
mod replicat_commands;
mod source_definitions;
pub(crate) mod source_names;
mod start_options;
mod transaction_lines;

pub(crate) use conflicts::divergence_lines;
pub(crate) use extract::of_partitions;
pub use start_options::{Start, parse as start_options};

use crate::failure;
use apply::StartOptions;
use capture::LongTransactions;
use change::{LogPosition, Timestamp, TransactionId};
use commands::Commands;
use process::{
    Action, CheckpointFile, Code, EventLog, Failure, GroupKind, GroupLock, GroupName, Home, Journal, Report,
    ReportHeader, Retry, Shutdown, Statistics, StopStatus, clock,
};
use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use trail::storage::{Directory, Storage};

/// How long a step may wait for work. Bounds the time that a stop takes.
const STEP_WAIT: Duration = Duration::from_millis(100);

/// How often a pause between two attempts looks whether it should end.
const PAUSE_TICK: Duration = Duration::from_millis(20);

/// How often the source is asked whether transactions to leave out are open still. Their names come again after four billion
/// others.
const LEFT_OUT_LOOK: Duration = Duration::from_secs(3600);

/// Delay from which on a step's retry is worth a message.
const TOLD_FROM: Duration = Duration::from_secs(1);

/// A group that this process runs.
struct Run {
    home: Home,
    kind: GroupKind,
    group: GroupName,
    /// Name of the parameter file, for messages.
    parameter_file: String,
    parameters: String,
    journal: SharedJournal,
    shutdown: Shutdown,
    retry: Retry,
    /// What happened to a connection with another home.
    network: Option<distribution::NetworkRetry>,
    /// What is to be done about the failure that comes next, where somebody knows better than `retry`.
    decided: Option<Action>,
    purge: Option<purge::Purger>,
    /// What START REPLICAT says, for the next attempt.
    start: StartOptions,
    /// BRRESET, for the first attempt.
    resets_bounded: bool,
    /// SYNCHRONIZE REPLICAT: the run ends when nothing is applied ahead of anything.
    synchronizes: bool,
    commands: Commands,
    /// Looks for transactions that are open for long.
    long: Option<LongTransactions>,
    /// Bytes of a file of the source's log, as the last start has heard.
    log_file_bytes: Option<u64>,
    /// When the source was last asked whether transactions to leave out are open still.
    left_out_looked: Option<Timestamp>,
    /// Those that were not, when that was, and the end of the log then.
    left_out_ended: Option<(LogPosition, Timestamp, Vec<TransactionId>)>,
}

/// The journal, which the parts of a group write to through their notices.
#[derive(Clone)]
struct SharedJournal(Arc<Mutex<Journal>>);

impl SharedJournal {
    fn lock(&self) -> MutexGuard<'_, Journal> {
        // A message that was cut short by a panic does no harm to the next one.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn say(&self, code: Code, text: impl Into<String>) {
        self.lock().say(clock::now(), code, text);
    }

    fn notice(&self) -> Box<dyn FnMut(&str) + Send> {
        let journal = self.clone();
        Box::new(move |text| {
            // A notice may name its code.
            let coded = text.split_once(": ").filter(|(code, _)| code.starts_with("DRV-"));
            match coded.and_then(|(code, text)| Some((Code::parse(code)?, text))) {
                Some((code, text)) => journal.say(code, text),
                None => journal.say(Code::Notice, text),
            }
        })
    }

    fn statistics(&self, statistics: &Statistics) {
        self.lock().statistics(clock::now(), statistics);
    }
}

/// Runs a group until `shutdown` or until it can't go on.
///
/// # Errors
/// The failure that ended it. It is in the report and in the event log already, unless these can't be written.
pub fn run(kind: GroupKind, name: &str, home: &Path, start: Start, shutdown: Shutdown) -> Result<(), Box<Failure>> {
    run_for(kind, name, home, (start, false), shutdown)
}

/// Brings all appliers of a Replicat to one place, and stops: SYNCHRONIZE REPLICAT.
///
/// # Errors
/// As [`run`].
pub fn synchronize(name: &str, home: &Path, shutdown: Shutdown) -> Result<(), Box<Failure>> {
    run_for(GroupKind::Replicat, name, home, (Start::default(), true), shutdown)
}

fn run_for(
    kind: GroupKind,
    name: &str,
    home: &Path,
    (start, synchronizes): (Start, bool),
    shutdown: Shutdown,
) -> Result<(), Box<Failure>> {
    let home = Home::open(home).map_err(|error| Failure::from(&error))?;
    let group = GroupName::parse(name).map_err(|error| Failure::from(&error))?;
    let program = format!("Drover {}", kind.name());
    let path = home.parameter_file(&group);
    let parameter_file = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let refused = |what: &str| {
        let what = format!("could not open the {what} of {kind} {group}");
        move |error: std::io::Error| Failure::new(Code::HomeRefused, what).with_cause(&error)
    };
    let mut event_log = EventLog::open(&home, &program, Some(&parameter_file)).map_err(refused("event log"))?;
    let lock = GroupLock::acquire(&home, &group).map_err(|error| {
        let failure = Failure::from(&error);
        // The report belongs to the process that runs; a log that can't be written must not hide the failure.
        let _ = event_log.append(&failure.message(clock::now()));
        failure
    })?;
    let text = std::fs::read_to_string(&path);
    let header = ReportHeader {
        program,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        started: clock::now(),
        kind,
        group: group.clone(),
        home: home.path().display().to_string(),
        host: host(),
        process_id: std::process::id(),
        parameter_file: path.display().to_string(),
        parameters: text.as_deref().map(parameter::mask_secrets).unwrap_or_default(),
    };
    let report = Report::open(&home, &header).map_err(refused("report"))?;
    let journal = SharedJournal(Arc::new(Mutex::new(Journal::new(report, event_log))));
    let (parameters, retry) = (String::new(), Retry::new());
    let commands = Commands::listen(&home, &group, &journal);
    let mut run = Run {
        parameters,
        retry,
        network: None,
        decided: None,
        purge: None,
        home,
        kind,
        group,
        parameter_file,
        journal,
        shutdown,
        start: start.replicat,
        resets_bounded: start.resets_bounded,
        synchronizes,
        commands,
        long: None,
        log_file_bytes: None,
        left_out_looked: None,
        left_out_ended: None,
    };
    let result = match text {
        Ok(text) => {
            run.parameters = text;
            run.until_stopped()
        }
        Err(error) => {
            let what = format!("could not read the parameter file of {kind} {}", run.group);
            let mut failure = Failure::new(Code::ParameterFileMissing, what).with_object(path.display().to_string());
            if error.kind() == std::io::ErrorKind::InvalidData {
                failure = failure.with_next_step("save the file as UTF-8 text, and start the group again");
            }
            Err(Box::new(failure.with_cause(&error)))
        }
    };
    let result = result.map_err(|failure| Box::new(run.explained(*failure)));
    if let Err(failure) = &result {
        run.abend(failure);
    }
    // Before the lock: whoever takes that next makes a socket of its own.
    drop(run);
    drop(lock);
    result
}

impl Run {
    fn until_stopped(&mut self) -> Result<(), Box<Failure>> {
        let (kind, group) = (self.kind, self.group.clone());
        self.journal.say(Code::GroupStarted, format!("{kind} {group} started"));
        if !self.synchronizes {
            print(&format!("{kind} {group} started, process id {}", std::process::id()));
        }
        loop {
            let attempt = match kind {
                GroupKind::Extract if self.is_pump() => self.pump(),
                GroupKind::Extract => self.extract(),
                GroupKind::Replicat => self.replicat(),
            };
            match attempt {
                Ok(()) => {
                    self.journal.say(Code::GroupStopped, format!("{kind} {group} stopped"));
                    if !self.synchronizes {
                        print(&format!("{kind} {group} stopped"));
                    }
                    return Ok(());
                }
                Err(failure) => match self.decided.take().unwrap_or_else(|| self.retry.decide(&failure)) {
                    Action::Abend => return Err(failure),
                    Action::RetryAfter(delay) => {
                        self.journal.lock().fail(clock::now(), &failure);
                        self.journal.say(Code::Retrying, format!("trying again in {} ms", delay.as_millis()));
                        self.pause(delay, &failure);
                    }
                },
            }
            if self.shutdown.is_requested() {
                // Nothing is open between two attempts: the checkpoint says where to go on.
                self.journal.say(Code::GroupStopped, format!("{kind} {group} stopped while trying again"));
                self.note_end(StopStatus::Graceful);
                return Ok(());
            }
        }
    }

    /// Waits before a step is tried again that failed in a way that may pass.
    ///
    /// # Errors
    /// The failure, when it has lasted for too long.
    fn before_retry(&mut self, cause: &database::Error) -> Result<(), Box<Failure>> {
        let failure = failure::of_database(cause);
        match self.retry.decide(&failure) {
            Action::Abend => Err(failure.into()),
            Action::RetryAfter(delay) => {
                // A lock that somebody holds for a moment is no news; one that lasts is.
                if delay >= TOLD_FROM {
                    self.journal.lock().fail(clock::now(), &failure);
                }
                self.pause(delay, &failure);
                Ok(())
            }
        }
    }

    /// Waits for `delay` after `failure`, or until the group is told to stop.
    fn pause(&mut self, delay: Duration, failure: &Failure) {
        let start = Instant::now();
        while start.elapsed() < delay && !self.shutdown.is_requested() {
            if let Some(pending) = self.commands.wait(PAUSE_TICK.min(delay)) {
                self.answer_while_waiting(pending, failure);
            }
        }
    }

    /// The failure with what only this place knows of it.
    fn explained(&self, failure: Failure) -> Failure {
        let Run { kind, group, .. } = self;
        match failure.code() {
            Code::CheckpointLost => failure.with_next_step(format!(
                "if {group} is new, ADD {kind} {group}; if it ran before, put its checkpoint file back from a copy, and do not \
                 add it again before you know what it has processed"
            )),
            _ => failure,
        }
    }

    /// Tells of the failure that ends the group, and makes INFO show it.
    fn abend(&self, failure: &Failure) {
        let mut journal = self.journal.lock();
        journal.fail(clock::now(), failure);
        journal.say(clock::now(), Code::GroupAbended, format!("{} {} abended", self.kind, self.group));
        drop(journal);
        self.note_end(StopStatus::Active);
    }

    /// Notes for INFO how a run ended that did not come so far as to note it itself.
    fn note_end(&self, stop_status: StopStatus) {
        let Ok(mut file) = CheckpointFile::open(self.checkpoint_storage(), self.kind, &self.group) else { return };
        let mut checkpoint = file.latest().clone();
        checkpoint.started.get_or_insert_with(clock::now);
        checkpoint.stop_status = stop_status;
        // What matters has been told; that INFO shows it, too, is not worth another failure.
        let _ = file.save(&checkpoint);
    }

    /// Whether the group reads a trail in place of a database.
    fn is_pump(&self) -> bool {
        let read = CheckpointFile::read(&*self.checkpoint_storage(), self.kind, &self.group, 1).unwrap_or_default();
        read.iter().filter_map(|checkpoint| checkpoint.extract()).any(|body| body.input.is_some())
    }

    fn checkpoint_storage(&self) -> Arc<dyn Storage> {
        Arc::new(Directory::new(self.home.dirchk()))
    }

    fn checkpoint_file(&self) -> Result<CheckpointFile, Box<Failure>> {
        let file = CheckpointFile::open(self.checkpoint_storage(), self.kind, &self.group)
            .map_err(|error| Failure::from(&error))?;
        if file.damaged_slots() > 0 {
            let text =
                format!("the checkpoint file has {} torn slots; an earlier checkpoint counts", file.damaged_slots());
            self.journal.say(Code::Notice, text);
        }
        Ok(file)
    }

    /// Refuses a parameter file that is another group's.
    fn check_group(&self, named: &str) -> Result<(), Box<Failure>> {
        if named == self.group.as_str() {
            return Ok(());
        }
        let what = format!("the parameter file of {} {} is written for group {named}", self.kind, self.group);
        Err(Failure::new(Code::ParameterWrong, what).with_object(self.parameter_file.clone()).into())
    }
}

/// Stops the group when standard input closes, as it does when the program at its other end ends in any way.
pub fn stop_with_stdin(shutdown: &Shutdown) {
    let shutdown = shutdown.clone();
    std::thread::spawn(move || {
        // An input that can't be read is as good as closed.
        let _ = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
        shutdown.request();
    });
}

/// Tells whoever looks; a terminal that is gone does not stop a group.
pub fn print(text: &str) {
    let _ = writeln!(std::io::stdout(), "{text}");
}

/// The machine as its operating system describes it, for trail headers.
pub fn machine() -> trail::Machine {
    let told = |name: &str| {
        let text = std::fs::read_to_string(format!("/proc/sys/kernel/{name}"));
        text.map_or_else(|_| String::new(), |text| text.trim().to_owned())
    };
    trail::Machine {
        system: told("ostype"),
        release: told("osrelease"),
        version: told("version"),
        hardware: std::env::consts::ARCH.to_owned(),
    }
}

/// The machine's name, for reports and trail headers.
pub fn host() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname")
        .map_or_else(|_| "unknown".to_owned(), |name| name.trim().to_owned())
}
