//! STOP and STATUS

use crate::console::parse::Command;
use crate::console::{Console, Failure};
use process::channel::Request;
use process::{Code, GroupKind, GroupLock, status};
use std::time::{Duration, Instant};

/// How long the end of a group is waited for. A Replicat first ends its target transaction.
const END_WAIT: Duration = Duration::from_secs(60);

/// Time between two looks at its lock.
const LOOK: Duration = Duration::from_millis(20);

/// STOP EXTRACT
pub fn extract(console: &mut Console<'_>, command: &Command) -> Result<(), Failure> {
    stop(console, GroupKind::Extract, command)
}

/// STOP REPLICAT
pub fn replicat(console: &mut Console<'_>, command: &Command) -> Result<(), Failure> {
    stop(console, GroupKind::Replicat, command)
}

/// STATUS EXTRACT
pub fn status_extract(console: &mut Console<'_>, command: &Command) -> Result<(), Failure> {
    show_status(console, GroupKind::Extract, command)
}

/// STATUS REPLICAT
pub fn status_replicat(console: &mut Console<'_>, command: &Command) -> Result<(), Failure> {
    show_status(console, GroupKind::Replicat, command)
}

fn stop(console: &mut Console<'_>, kind: GroupKind, command: &Command) -> Result<(), Failure> {
    let group = console.group(command.argument())?;
    console.checkpoint_file(kind, &group)?;
    if GroupLock::holder(&console.home, &group)?.is_none() {
        writeln!(console.output, "{kind} {group} is already stopped.")?;
        return Ok(());
    }
    let word = if command.force { "FORCESTOP" } else { "STOP" };
    writeln!(console.output, "Sending {word} request to {kind} {group} ...")?;
    for line in console.ask(kind, &group, &Request::Stop { at_once: command.force })? {
        writeln!(console.output, "{line}")?;
    }
    let asked = Instant::now();
    while let Some(holder) = GroupLock::holder(&console.home, &group)? {
        if asked.elapsed() > END_WAIT {
            let id = holder.process_id.map(|id| format!(", process id {id},")).unwrap_or_default();
            let what = format!("{kind} {group}{id} has not ended after {} seconds", END_WAIT.as_secs());
            return Err(process::Failure::new(Code::GroupSilent, what).into());
        }
        std::thread::sleep(LOOK);
    }
    writeln!(console.output, "{kind} {group} stopped.")?;
    Ok(())
}

fn show_status(console: &mut Console<'_>, kind: GroupKind, command: &Command) -> Result<(), Failure> {
    let group = console.group(command.argument())?;
    let file = console.checkpoint_file(kind, &group)?;
    let is_running = GroupLock::holder(&console.home, &group)?.is_some();
    writeln!(console.output, "{kind} {group}: {}", status(is_running, file.latest()))?;
    Ok(())
}
