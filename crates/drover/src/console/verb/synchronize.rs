//! SYNCHRONIZE

use crate::console::parse::Command;
use crate::console::{Console, Failure};
use crate::run;
use process::{GroupKind, ReplicatMode, Shutdown};

/// Brings all appliers or threads of a Replicat to one place.
pub fn replicat(console: &mut Console<'_>, command: &Command) -> Result<(), Failure> {
    let group = console.group(command.argument())?;
    // Refuses a group that is not there before anything runs.
    let file = console.checkpoint_file(GroupKind::Replicat, &group)?;
    let body = file.latest().replicat().expect("the file is a Replicat's");
    let whose = if matches!(body.mode, ReplicatMode::Coordinated { .. }) { "threads" } else { "appliers" };
    drop(file);
    let shutdown =
        Shutdown::install().map_err(|error| Failure::new(format!("could not listen to signals: {error}")))?;
    run::synchronize(group.as_str(), console.home.path(), shutdown.clone())
        .map_err(|failure| Failure::from(*failure))?;
    if shutdown.is_requested() {
        return Err(Failure::new(format!("REPLICAT {group} was told to stop before its {whose} were at one place"))
            .with_next_step("give the command again"));
    }
    let file = console.checkpoint_file(GroupKind::Replicat, &group)?;
    let body = file.latest().replicat().expect("the file is a Replicat's");
    let csn = body.applied.as_ref().map_or_else(String::new, |commit| format!(", CSN {}", commit.csn));
    writeln!(
        console.output,
        "REPLICAT {group} synchronized: all {whose} are at trail position {}{csn}.",
        body.current
    )?;
    Ok(())
}
