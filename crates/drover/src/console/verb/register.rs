//! REGISTER EXTRACT and UNREGISTER EXTRACT

use super::add::selection;
use crate::console::parse::Command;
use crate::console::registered::Registered;
use crate::console::{Console, Failure};
use process::{CheckpointError, CheckpointFile, GroupKind, GroupLock, GroupName, HomeLock};

/// Installs what capture needs in the source, before the group is added.
pub fn register(console: &mut Console<'_>, command: &Command) -> Result<(), Failure> {
    let group = console.group(command.argument())?;
    let database = console.login()?;
    let _home = HomeLock::acquire(&console.home)?;
    let _lock = GroupLock::acquire(&console.home, &group)?;
    console.refuse_added(&group, "it is registered already")?;
    let selection = selection(console, &group, &database)?;
    let is_known = database.has_capture(group.as_str())?;
    if Registered::find(&console.home, &group)? {
        if is_known {
            return Err(Failure::new(format!("EXTRACT {group} is registered already")).with_next_step(format!(
                "ADD EXTRACT {group}, or take the registration back with UNREGISTER EXTRACT {group}"
            )));
        }
        // An earlier command came no further than its note.
        Registered::remove(&console.home, &group)?;
    } else if is_known {
        return Err(Failure::new(format!(
            "the source captures for EXTRACT {group} already, and this home did not register it"
        ))
        .with_next_step(format!(
            "if another home has a group of this name, choose another one; to take away what a lost group left: \
                 UNREGISTER EXTRACT {group} !"
        )));
    }
    Registered::leave(&console.home, &group)?;
    if let Err(error) = database.register_capture(group.as_str(), &*selection) {
        Registered::remove(&console.home, &group)?;
        return Err(error.into());
    }
    writeln!(console.output, "EXTRACT {group} registered.")?;
    if let Some(kept) = database.log_kept(group.as_str())? {
        writeln!(
            console.output,
            "From now on the source keeps its log for {}, until {group} has read it.",
            kept.holder
        )?;
    }
    Ok(())
}

/// Removes what capture installed.
pub fn unregister(console: &mut Console<'_>, command: &Command) -> Result<(), Failure> {
    let group = console.group(command.argument())?;
    let database = console.login()?;
    let _home = HomeLock::acquire(&console.home)?;
    let _lock = GroupLock::acquire(&console.home, &group)?;
    console.refuse_added(&group, "its registration is taken back with it")?;
    let is_ours = Registered::find(&console.home, &group)?;
    if !database.has_capture(group.as_str())? {
        Registered::remove(&console.home, &group)?;
        writeln!(console.output, "EXTRACT {group} is not registered; there is nothing to take away.")?;
        return Ok(());
    }
    if !is_ours && !command.force {
        return Err(Failure::new(format!(
            "the source captures for EXTRACT {group}, but this home did not register it"
        ))
        .with_next_step(format!(
            "if no other home has a group of this name, UNREGISTER EXTRACT {group} ! takes away what it left"
        )));
    }
    database.unregister_capture(group.as_str())?;
    Registered::remove(&console.home, &group)?;
    writeln!(console.output, "EXTRACT {group} unregistered.")?;
    Ok(())
}

impl Console<'_> {
    fn refuse_added(&self, group: &GroupName, why: &str) -> Result<(), Failure> {
        for kind in [GroupKind::Extract, GroupKind::Replicat] {
            match CheckpointFile::read(&*self.checkpoint_storage(), kind, group, 1) {
                Err(CheckpointError::Lost { .. }) => {}
                Ok(_) if kind == GroupKind::Replicat => {
                    return Err(Failure::new(format!("{group} is a Replicat")).with_next_step("choose another name"));
                }
                Ok(_) => {
                    return Err(Failure::new(format!("EXTRACT {group} exists: {why}"))
                        .with_next_step(format!("DELETE EXTRACT {group} takes group and registration away")));
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}
