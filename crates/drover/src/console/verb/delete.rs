//! DELETE

use crate::console::parse::Command;
use crate::console::registered::Registered;
use crate::console::unfinished::Unfinished;
use crate::console::{Console, Failure};
use change::TableName;
use process::{CheckpointBody, CheckpointError, CheckpointFile, GroupKind, GroupLock, GroupName, HomeLock};
use std::io::{self, IsTerminal, Write};
use std::path::Path;

/// Unregisters capture and removes the checkpoint file.
pub fn extract(console: &mut Console<'_>, command: &Command) -> Result<(), Failure> {
    let group = console.group(command.argument())?;
    let _home = HomeLock::acquire(&console.home)?;
    let _lock = GroupLock::acquire(&console.home, &group)?;
    let unfinished = console.deletable(GroupKind::Extract, &group, command.force)?;
    if console.is_pump(&group) {
        console.forget(GroupKind::Extract, &group)?;
        writeln!(console.output, "EXTRACT {group} deleted; its trail files and reports stay.")?;
        return Ok(());
    }
    match unregister(console, &group, unfinished.is_some() || command.force) {
        Err(failure) if command.force => writeln!(
            console.output,
            "The source database keeps what captures for {group}: {failure}\nTo take it away later: DBLOGIN to the source, then \
             DELETE EXTRACT {group} !"
        )?,
        result => result?,
    }
    console.forget(GroupKind::Extract, &group)?;
    writeln!(console.output, "EXTRACT {group} deleted; its trail files and reports stay.")?;
    Ok(())
}

/// Takes away what captures for the group. A database that captures nothing for it is probably another one than its
/// source, unless an earlier DELETE came so far.
fn unregister(console: &Console<'_>, group: &GroupName, may_be_gone: bool) -> Result<(), Failure> {
    let database = console.login()?;
    if !may_be_gone && !database.has_capture(group.as_str())? {
        return Err(Failure::new(format!("the database that is logged in to captures nothing for {group}"))
            .with_next_step(format!("DBLOGIN to the source of {group}, or DELETE EXTRACT {group} !")));
    }
    console.begin(GroupKind::Extract, group, &Unfinished { deleting: true, ..Unfinished::default() })?;
    Ok(database.unregister_capture(group.as_str())?)
}

/// Removes a Replicat's row and checkpoint file.
pub fn replicat(console: &mut Console<'_>, command: &Command) -> Result<(), Failure> {
    let group = console.group(command.argument())?;
    let _home = HomeLock::acquire(&console.home)?;
    let _lock = GroupLock::acquire(&console.home, &group)?;
    let unfinished = console.deletable(GroupKind::Replicat, &group, command.force)?;
    match remove_row(console, command, &group, unfinished) {
        Err(failure) if command.force => {
            writeln!(console.output, "The target database keeps the checkpoint row of {group}: {failure}")?;
        }
        result => result?,
    }
    console.forget(GroupKind::Replicat, &group)?;
    writeln!(console.output, "REPLICAT {group} deleted; its reports stay.")?;
    Ok(())
}

fn remove_row(
    console: &Console<'_>,
    command: &Command,
    group: &GroupName,
    unfinished: Option<Unfinished>,
) -> Result<(), Failure> {
    let database = console.login()?;
    let Some((table, key)) = row_of(console, command, group, unfinished.as_ref())? else { return Ok(()) };
    if !database.has_checkpoint_table(&table)? {
        // An interrupted ADD may have come before the table, an interrupted DELETE after it.
        if unfinished.is_some() || command.force {
            return Ok(());
        }
        return Err(Failure::new(format!("the database that is logged in to has no checkpoint table {table}"))
            .with_next_step(format!("DBLOGIN to the target of {group}, or DELETE REPLICAT {group} !")));
    }
    let deleting = Unfinished { deleting: true, checkpoint_table: Some(table.to_string()), group_key: Some(key) };
    console.begin(GroupKind::Replicat, group, &deleting)?;
    Ok(database.delete_checkpoint(&table, group.as_str(), key)?)
}

/// The table and key of a Replicat's row: from its checkpoint file, from the note of an interrupted command, or, when the
/// command names the table, from the table itself.
fn row_of(
    console: &Console<'_>,
    command: &Command,
    group: &GroupName,
    unfinished: Option<&Unfinished>,
) -> Result<Option<(TableName, i64)>, Failure> {
    match CheckpointFile::read(&*console.checkpoint_storage(), GroupKind::Replicat, group, 1) {
        Ok(checkpoints) => {
            let body = checkpoints.first().and_then(|checkpoint| checkpoint.replicat());
            return Ok(body.map(|body| (body.checkpoint_table.clone(), body.group_key)));
        }
        Err(CheckpointError::Lost { .. }) => {}
        Err(_) if command.force || unfinished.is_some() => {}
        Err(error) => return Err(error.into()),
    }
    if let Some(Unfinished { checkpoint_table: Some(table), group_key: Some(key), .. }) = unfinished {
        let table = TableName::parse(table).map_err(|error| Failure::new(error.to_string()))?;
        return Ok(Some((table, *key)));
    }
    let Some(table) = command.option("CHECKPOINTTABLE") else { return Ok(None) };
    let table = console.table(table)?;
    // The others belong to groups of this name in other homes.
    let rows = console.login()?.checkpoints(&table, group.as_str())?;
    let own = rows.iter().find(|row| Path::new(&row.directory) == console.home.path());
    Ok(own.map(|row| (table, row.group_key)))
}

/// Asks at a terminal; anywhere else the answer is no.
pub fn confirmed(question: &str) -> io::Result<bool> {
    if !io::stdin().is_terminal() {
        return Ok(false);
    }
    eprint!("{question}");
    io::stderr().flush()?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

/// Takes a trail of another home away from its Pump.
pub fn remote_trail(console: &mut Console<'_>, command: &Command) -> Result<(), Failure> {
    let _home = HomeLock::acquire(&console.home)?;
    let name = command.argument();
    let (group, _lock, mut file) = remote(console, command)?;
    let mut checkpoint = file.latest().clone();
    if let CheckpointBody::Extract(body) = &mut checkpoint.body {
        body.trails.retain(|trail| !(trail.is_remote && trail.name == name));
        // Another target holds nothing of what this one holds.
        body.written = None;
    }
    file.save(&checkpoint)?;
    let keyword = super::add::keyword(&console.trail_place(name)?, true);
    writeln!(console.output, "{keyword} {name} deleted from EXTRACT {group}; it stays in the other home.")?;
    Ok(())
}

/// The Pump that writes a trail of another home: the one that the command names, or the only one.
pub(super) fn remote(
    console: &Console<'_>,
    command: &Command,
) -> Result<(GroupName, GroupLock, CheckpointFile), Failure> {
    let name = command.argument();
    let named = command.option("EXTRACT").map(|group| console.group(group)).transpose()?;
    let mut owners = Vec::new();
    for (kind, group) in console.home.groups()?.into_iter().filter(|(kind, _)| *kind == GroupKind::Extract) {
        let read = CheckpointFile::read(&*console.checkpoint_storage(), kind, &group, 1)?;
        let body = read.first().and_then(|checkpoint| checkpoint.extract());
        let is_its = body.is_some_and(|body| body.trails.iter().any(|trail| trail.is_remote && trail.name == name));
        if is_its && named.as_ref().is_none_or(|named| *named == group) {
            owners.push(group);
        }
    }
    let group = match &owners[..] {
        [group] => group.clone(),
        [] => {
            return Err(Failure::new(format!("no Pump of this home writes {name} in another home"))
                .with_next_step("INFO EXTRACT shows trails"));
        }
        _ => {
            let what = format!("{} Pumps of this home write {name}, each in another home", owners.len());
            return Err(Failure::new(what).with_next_step(format!("add EXTRACT {}", owners[0])));
        }
    };
    let lock = GroupLock::acquire(&console.home, &group)?;
    let file = console.checkpoint_file(GroupKind::Extract, &group)?;
    Ok((group, lock, file))
}

/// Takes a trail away from its Extract.
pub fn trail(console: &mut Console<'_>, command: &Command) -> Result<(), Failure> {
    let name = command.argument();
    let place = console.trail_place(name)?;
    let _home = HomeLock::acquire(&console.home)?;
    let mut owner = None;
    for (group, trail) in console.trails()? {
        if console.trail_place(&trail.name)? == place {
            owner = Some(group);
        }
    }
    let group = owner.ok_or_else(|| {
        Failure::new(format!("no Extract of this home writes {}", place.described(name)))
            .with_next_step("INFO EXTRACT shows trails")
    })?;
    let _lock = GroupLock::acquire(&console.home, &group)?;
    let mut file = console.checkpoint_file(GroupKind::Extract, &group)?;
    let mut checkpoint = file.latest().clone();
    let CheckpointBody::Extract(body) = &mut checkpoint.body else { unreachable!("the file is an Extract's") };
    let mut kept = Vec::new();
    for trail in body.trails.drain(..) {
        if console.trail_place(&trail.name)? != place {
            kept.push(trail);
        }
    }
    body.trails = kept;
    file.save(&checkpoint)?;
    let stays = if place.name.is_single() { "it stays" } else { "its files stay" };
    writeln!(console.output, "{} {name} deleted from EXTRACT {group}; {stays}.", place.keyword())?;
    Ok(())
}

impl Console<'_> {
    /// Whether the Extract reads a trail, so that no database knows it.
    fn is_pump(&self, group: &GroupName) -> bool {
        let read = CheckpointFile::read(&*self.checkpoint_storage(), GroupKind::Extract, group, 1);
        let checkpoints = read.unwrap_or_default();
        checkpoints.iter().filter_map(|checkpoint| checkpoint.extract()).any(|body| body.input.is_some())
    }

    /// Refuses a group that was never added and that no interrupted command speaks of, unless the operator insists.
    /// Returns the note of an interrupted command.
    fn deletable(&self, kind: GroupKind, group: &GroupName, force: bool) -> Result<Option<Unfinished>, Failure> {
        let unfinished = self.unfinished(kind, group)?;
        match CheckpointFile::read(&*self.checkpoint_storage(), kind, group, 1) {
            Err(error @ CheckpointError::Lost { .. }) if !force && unfinished.is_none() => {
                Err(Failure::new(error.to_string()).with_next_step(format!(
                    "DELETE {kind} {group} ! takes away what a lost group left in the database that is logged in to"
                )))
            }
            // A damaged file is reason enough to delete the group.
            _ => Ok(unfinished),
        }
    }

    pub(super) fn forget(&self, kind: GroupKind, group: &GroupName) -> Result<(), Failure> {
        CheckpointFile::delete(&*self.checkpoint_storage(), kind, group)?;
        if kind == GroupKind::Extract {
            Registered::remove(&self.home, group)?;
        }
        self.finish(kind, group)
    }
}
