//! Trails of other homes.

use crate::console::parse::Command;
use crate::console::{Console, Failure};
use process::{CheckpointBody, CheckpointFile, GroupKind, HomeLock};

/// Changes the size of a trail's files.
pub fn alter(console: &mut Console<'_>, command: &Command) -> Result<(), Failure> {
    let name = command.argument();
    let megabytes: u32 = command.required("MEGABYTES").parse().map_err(|_| Failure::new("MEGABYTES takes a number"))?;
    let _home = HomeLock::acquire(&console.home)?;
    let (group, _lock, mut file) = super::delete::remote(console, command)?;
    let mut checkpoint = file.latest().clone();
    if let CheckpointBody::Extract(body) = &mut checkpoint.body {
        for trail in body.trails.iter_mut().filter(|trail| trail.is_remote && trail.name == name) {
            trail.megabytes = megabytes;
        }
    }
    file.save(&checkpoint)?;
    writeln!(console.output, "RMTTRAIL {name} of EXTRACT {group} altered: files of {megabytes} MB.")?;
    Ok(())
}

/// Shows trails with how far they are durable in the other home.
pub fn info(console: &mut Console<'_>, command: &Command) -> Result<(), Failure> {
    let name = command.argument();
    let mut shown = 0;
    for (kind, group) in console.home.groups()?.into_iter().filter(|(kind, _)| *kind == GroupKind::Extract) {
        let read = CheckpointFile::read(&*console.checkpoint_storage(), kind, &group, 1)?;
        let body = read.first().and_then(|checkpoint| checkpoint.extract());
        for trail in body.into_iter().flat_map(|body| &body.trails) {
            if !trail.is_remote || (name != "*" && trail.name != name) {
                continue;
            }
            shown += 1;
            let position = trail.position.unwrap_or_default();
            writeln!(
                console.output,
                "{:>18}: {}\n{:>18}: {group}\n{:>18}: {}\n{:>18}: {}\n{:>18}: {}M\n",
                "Remote Trail",
                trail.name,
                "Extract",
                "Seqno",
                position.sequence,
                "RBA",
                position.rba,
                "File Size",
                trail.megabytes
            )?;
        }
    }
    match (shown, name) {
        (0, "*") => writeln!(console.output, "No Pump of this home writes into another one.")?,
        (0, _) => {
            return Err(Failure::new(format!("no Pump of this home writes {name} in another home"))
                .with_next_step("INFO RMTTRAIL * shows all of them"));
        }
        _ => {}
    }
    Ok(())
}
