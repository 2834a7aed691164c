//! DELETE

use crate::console::adding::Adding;
use crate::console::parse::Command;
use crate::console::{Console, Failure};
use change::TableName;
use process::{CheckpointBody, CheckpointError, CheckpointFile, GroupKind, GroupLock, GroupName, HomeLock};
use std::io::{self, IsTerminal, Write};

/// Unregisters capture and removes the checkpoint file, in this order: an interrupted DELETE can be given again.
pub fn extract(console: &mut Console<'_>, command: &Command) -> Result<(), Failure> {
    let group = console.group(command.argument())?;
    let _home = HomeLock::acquire(&console.home)?;
    let _lock = GroupLock::acquire(&console.home, &group)?;
    console.known(GroupKind::Extract, &group, command.force)?;
    match console.login() {
        Ok(database) => match database.unregister_capture(group.as_str()) {
            Ok(()) => {}
            Err(error) if command.force => {
                writeln!(console.output, "The source database keeps what captures for {group}: {error}.")?;
            }
            Err(error) => return Err(error.into()),
        },
        Err(_) if command.force => {
            writeln!(
                console.output,
                "The source database keeps what captures for {group}; to take it away: DBLOGIN to it, then DELETE EXTRACT \
                 {group} !"
            )?;
        }
        Err(failure) => return Err(failure),
    }
    console.forget(GroupKind::Extract, &group)?;
    writeln!(console.output, "EXTRACT {group} deleted; its trail files and reports stay.")?;
    Ok(())
}

/// Removes a Replicat's row and checkpoint file.
pub fn replicat(console: &mut Console<'_>, command: &Command) -> Result<(), Failure> {
    let group = console.group(command.argument())?;
    let _home = HomeLock::acquire(&console.home)?;
    let _lock = GroupLock::acquire(&console.home, &group)?;
    console.known(GroupKind::Replicat, &group, command.force)?;
    let row = match console.login() {
        Ok(database) => {
            let done = row_of(console, command, &group)
                .and_then(|row| row.map_or(Ok(()), |(table, key)| remove_row(&*database, &table, &group, key)));
            match done {
                Err(failure) if command.force => Some(failure.to_string()),
                result => {
                    result?;
                    None
                }
            }
        }
        Err(_) if command.force => Some("no database is logged in to".to_owned()),
        Err(failure) => return Err(failure),
    };
    if let Some(reason) = row {
        writeln!(console.output, "The target database keeps the checkpoint row of {group}: {reason}.")?;
    }
    console.forget(GroupKind::Replicat, &group)?;
    writeln!(console.output, "REPLICAT {group} deleted; its reports stay.")?;
    Ok(())
}

/// The table and key of a Replicat's row: from its checkpoint file, from the note of an interrupted ADD, or, when the
/// command names the table, from the table itself.
fn row_of(console: &Console<'_>, command: &Command, group: &GroupName) -> Result<Option<(TableName, i64)>, Failure> {
    match CheckpointFile::read(&*console.checkpoint_storage(), GroupKind::Replicat, group, 1) {
        Ok(checkpoints) => {
            let body = checkpoints.first().and_then(|checkpoint| checkpoint.replicat());
            return Ok(body.map(|body| (body.checkpoint_table.clone(), body.group_key)));
        }
        Err(error) if !command.force => match error {
            CheckpointError::Lost { .. } => {}
            error => return Err(error.into()),
        },
        Err(_) => {}
    }
    let adding = Adding::find(&console.home, GroupKind::Replicat, group)
        .map_err(|error| Failure::new(format!("could not read dirchk: {error}")))?;
    if let Some(Adding { checkpoint_table: Some(table), group_key: Some(key) }) = adding {
        let table = TableName::parse(&table).map_err(|error| Failure::new(error.to_string()))?;
        return Ok(Some((table, key)));
    }
    let Some(table) = command.option("CHECKPOINTTABLE") else { return Ok(None) };
    let table = console.table(table)?;
    let mut session = console.login()?.open_session(crate::wire::session(group, &table))?;
    Ok(session.load_checkpoint(group.as_str())?.map(|row| (table, row.group_key)))
}

fn remove_row(
    database: &dyn database::Database,
    table: &TableName,
    group: &GroupName,
    key: i64,
) -> Result<(), Failure> {
    // Somebody who dropped the table has removed the row.
    if database.has_checkpoint_table(table)? {
        database.delete_checkpoint(table, group.as_str(), key)?;
    }
    Ok(())
}

/// Drops a checkpoint table that no Replicat of this home uses.
pub fn checkpoint_table(console: &mut Console<'_>, command: &Command) -> Result<(), Failure> {
    let database = console.login()?;
    let table = console.table(command.argument())?;
    let _home = HomeLock::acquire(&console.home)?;
    for (kind, group) in console.home.groups()? {
        let checkpoints = CheckpointFile::read(&*console.checkpoint_storage(), kind, &group, 1)?;
        let body = checkpoints.first().and_then(|checkpoint| checkpoint.replicat());
        if body.is_some_and(|body| body.checkpoint_table == table) {
            return Err(Failure::new(format!("checkpoint table {table} is used by REPLICAT {group}"))
                .with_next_step(format!("DELETE REPLICAT {group} first")));
        }
    }
    if !database.has_checkpoint_table(&table)? {
        return Err(Failure::new(format!("there is no checkpoint table {table}")));
    }
    if !command.force && !confirmed(&format!("Drop checkpoint table {table} and its auxiliary table? [y/N] "))? {
        return Err(Failure::new(format!("checkpoint table {table} is not dropped without being asked twice"))
            .with_next_step(format!("DELETE CHECKPOINTTABLE {table} ! drops it without asking")));
    }
    database.drop_checkpoint_table(&table)?;
    writeln!(console.output, "CHECKPOINTTABLE {table} dropped.")?;
    Ok(())
}

/// Asks at a terminal; anywhere else the answer is no.
fn confirmed(question: &str) -> io::Result<bool> {
    if !io::stdin().is_terminal() {
        return Ok(false);
    }
    eprint!("{question}");
    io::stderr().flush()?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
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
        Failure::new(format!("no Extract of this home writes trail {name}")).with_next_step("INFO EXTRACT shows trails")
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
    writeln!(console.output, "EXTTRAIL {name} deleted from EXTRACT {group}; its files stay.")?;
    Ok(())
}

impl Console<'_> {
    /// Refuses a group that was never added and that no interrupted ADD speaks of, unless the operator insists.
    fn known(&self, kind: GroupKind, group: &GroupName, force: bool) -> Result<(), Failure> {
        match CheckpointFile::read(&*self.checkpoint_storage(), kind, group, 1) {
            Err(error @ CheckpointError::Lost { .. }) => {
                let adding = Adding::find(&self.home, kind, group)
                    .map_err(|error| Failure::new(format!("could not read dirchk: {error}")))?;
                if force || adding.is_some() {
                    return Ok(());
                }
                Err(Failure::new(error.to_string()).with_next_step(format!(
                    "DELETE {kind} {group} ! takes away what a lost group left in the database that is logged in to"
                )))
            }
            // A damaged file is reason enough to delete the group.
            _ => Ok(()),
        }
    }

    fn forget(&self, kind: GroupKind, group: &GroupName) -> Result<(), Failure> {
        CheckpointFile::delete(&*self.checkpoint_storage(), kind, group)?;
        Adding::remove(&self.home, kind, group)
            .map_err(|error| Failure::new(format!("could not remove a note from dirchk: {error}")))
    }
}
