//! START

use crate::console::parse::Command;
use crate::console::{Console, Failure};
use process::{GroupKind, GroupLock, LockError};
use std::fs;
use std::os::unix::process::CommandExt;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// How long a new process may take to hold its group's lock, or to end.
const START_LIMIT: Duration = Duration::from_secs(30);
/// How often it is looked at.
const START_LOOK: Duration = Duration::from_millis(20);
/// Words of START that hold for one run.
const OPTIONS: [&str; 6] =
    ["ATCSN", "AFTERCSN", "SKIPTRANSACTION", "FILTERDUPTRANSACTIONS", "NOFILTERDUPTRANSACTIONS", "BRRESET"];

/// Starts an Extract as a process of its own.
pub fn extract(console: &mut Console<'_>, command: &Command) -> Result<(), Failure> {
    start(console, GroupKind::Extract, command)
}

/// Starts a Replicat as a process of its own.
pub fn replicat(console: &mut Console<'_>, command: &Command) -> Result<(), Failure> {
    start(console, GroupKind::Replicat, command)
}

fn start(console: &mut Console<'_>, kind: GroupKind, command: &Command) -> Result<(), Failure> {
    let group = console.group(command.argument())?;
    // Refuses a group that is not there, and one that runs, before anything is started.
    drop(console.checkpoint_file(kind, &group)?);
    if let Some(holder) = GroupLock::holder(&console.home, &group)? {
        return Err(LockError::GroupRunning { group, holder }.into());
    }
    if command.has("BR") != command.has("BRRESET") {
        return Err(Failure::new("BR is followed by BRRESET, and stands before it")
            .with_next_step("START EXTRACT e1, BR BRRESET"));
    }
    let given = OPTIONS.iter().filter(|word| command.has(word));
    let options: Vec<&str> = given.flat_map(|word| std::iter::once(*word).chain(command.option(word))).collect();
    let part = kind.name().to_ascii_lowercase();
    let refused =
        |what: &str, error: &std::io::Error| Failure::new(format!("could not {what} of {kind} {group}: {error}"));
    let path = console.home.output_file(&group);
    let output = path.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::File::create(&path));
    let output = output.map_err(|error| refused("open the output file", &error))?;
    let errors = output.try_clone().map_err(|error| refused("open the output file", &error))?;
    let program = std::env::current_exe().map_err(|error| refused("find the program", &error))?;
    let mut process = std::process::Command::new(program);
    process.args([part.as_str(), group.as_str(), "--detached", "--home"]).arg(console.home.path()).args(options);
    process.stdin(Stdio::null()).stdout(output).stderr(errors).process_group(0);
    let mut process = process.spawn().map_err(|error| refused("start the process", &error))?;
    let begun = Instant::now();
    loop {
        let holder = GroupLock::holder(&console.home, &group)?;
        if holder.and_then(|holder| holder.process_id) == Some(process.id()) {
            writeln!(console.output, "{kind} {group} started, process id {}.", process.id())?;
            return Ok(());
        }
        let ended = process.try_wait().map_err(|error| refused("look at the process", &error))?;
        if ended.is_some() {
            let told = fs::read_to_string(&path).unwrap_or_default();
            return Err(Failure::new(format!("{kind} {group} did not start: {}", told.trim())));
        }
        if begun.elapsed() >= START_LIMIT {
            let what =
                format!("{kind} {group} has not started in {} s, process id {}", START_LIMIT.as_secs(), process.id());
            return Err(Failure::new(what).with_next_step("look at the event log, and at INFO ALL"));
        }
        std::thread::sleep(START_LOOK);
    }
}
