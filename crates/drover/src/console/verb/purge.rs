//! PURGE

use crate::console::parse::Command;
use crate::console::{Console, Failure};
use process::{GroupLock, HomeLock};
use trail::storage::Directory;

/// Removes all files of a trail.
pub fn trail(console: &mut Console<'_>, command: &Command) -> Result<(), Failure> {
    let name = command.argument();
    let place = console.trail_place(name)?;
    let (keyword, described) = (place.keyword(), place.described(name));
    let _home = HomeLock::acquire(&console.home)?;
    let mut locks = Vec::new();
    for (group, trail) in console.trails()? {
        if !console.trail_place(&trail.name)?.is_same(&place) {
            continue;
        }
        if !command.force {
            return Err(Failure::new(format!("{described} is used by EXTRACT {group}")).with_next_step(format!(
                "DELETE {keyword} {} first; or PURGE {keyword} {name} ! removes the files all the same, and {group} will not \
                 start before it is deleted and added again",
                trail.name
            )));
        }
        locks.push(GroupLock::acquire(&console.home, &group)?);
    }
    let readers = process::trail_reader_groups(&console.home, &place).map_err(|failure| Failure::from(*failure))?;
    for (group, reader) in readers {
        if !command.force {
            return Err(Failure::new(format!(
                "{described} is read by {}, which stands at {}",
                reader.name, reader.position
            ))
            .with_next_step(format!("DELETE {} first; or PURGE {keyword} {name} !", reader.name)));
        }
        // One that runs would go on with files that have no name any more, and never notice.
        locks.push(GroupLock::acquire(&console.home, &group)?);
    }
    let removed = trail::purge::remove_all(&Directory::new(&place.directory), place.name)
        .map_err(|error| Failure::from(process::Failure::from(&error)))?;
    drop(locks);
    writeln!(console.output, "{keyword} {name} purged: {removed} files removed.")?;
    Ok(())
}
