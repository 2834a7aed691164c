//! PURGE

use crate::console::parse::Command;
use crate::console::{Console, Failure};
use process::{GroupLock, HomeLock};
use trail::storage::Directory;

/// Removes all files of a trail.
pub fn trail(console: &mut Console<'_>, command: &Command) -> Result<(), Failure> {
    let name = command.argument();
    let place = console.trail_place(name)?;
    let _home = HomeLock::acquire(&console.home)?;
    for (group, trail) in console.trails()? {
        if !console.trail_place(&trail.name)?.is_same(&place) {
            continue;
        }
        if !command.force {
            return Err(Failure::new(format!("trail {name} is used by EXTRACT {group}")).with_next_step(format!(
                "DELETE EXTTRAIL {} first; or PURGE EXTTRAIL {name} ! removes the files all the same, and {group} will not \
                 start before it is deleted and added again",
                trail.name
            )));
        }
        let _lock = GroupLock::acquire(&console.home, &group)?;
    }
    for reader in process::trail_readers(&console.home, &place).map_err(|failure| Failure::from(*failure))? {
        if !command.force {
            return Err(Failure::new(format!(
                "trail {name} is read by {}, which stands at {}",
                reader.name, reader.position
            ))
            .with_next_step(format!("DELETE {} first; or PURGE EXTTRAIL {name} !", reader.name)));
        }
    }
    let removed = trail::purge::remove_all(&Directory::new(&place.directory), place.name)
        .map_err(|error| Failure::from(process::Failure::from(&error)))?;
    writeln!(console.output, "EXTTRAIL {name} purged: {removed} files removed.")?;
    Ok(())
}
