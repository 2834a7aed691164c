//! ADD, INFO, CLEANUP, UPGRADE and DELETE CHECKPOINTTABLE

use crate::console::parse::Command;
use crate::console::verb::delete::confirmed;
use crate::console::{Console, Failure};
use change::TableName;
use database::{CheckpointSet, CheckpointTableState, Database};
use process::{CheckpointFile, Code, GroupKind, GroupName, HomeLock, clock};
use std::path::Path;
use trail::Position;

/// Creates a checkpoint table.
pub fn add(console: &mut Console<'_>, command: &Command) -> Result<(), Failure> {
    let database = console.login()?;
    let table = console.checkpoint_table(command.argument.as_deref())?;
    let _home = HomeLock::acquire(&console.home)?;
    if database.has_checkpoint_table(&table)? {
        return Err(Failure::new(format!("checkpoint table {table} exists already"))
            .with_next_step("use it: one checkpoint table serves any number of Replicats"));
    }
    database.create_checkpoint_table(&table)?;
    writeln!(console.output, "CHECKPOINTTABLE {table} created.")?;
    Ok(())
}

/// Says whether a checkpoint table exists, when it was created, and which groups have rows in it.
pub fn info(console: &mut Console<'_>, command: &Command) -> Result<(), Failure> {
    let table = console.checkpoint_table(command.argument.as_deref())?;
    let database = console.login()?;
    let Some(state) = database.inspect_checkpoint_table(&table)? else {
        writeln!(console.output, "Checkpoint table {table} does not exist.")?;
        return Ok(());
    };
    let created = state.created.map_or_else(String::new, |time| format!(" (created {})", clock::to_second(time)));
    writeln!(console.output, "Checkpoint table {table} exists{created}.")?;
    for missing in &state.missing {
        writeln!(console.output, "Table {missing} is missing beside it: UPGRADE CHECKPOINTTABLE {table} adds it.")?;
    }
    if !state.faults.is_empty() {
        writeln!(console.output, "It was changed, and no group can use it: {}.", state.faults.join("; "))?;
        return Ok(());
    }
    let sets = database.checkpoint_sets(&table)?;
    if sets.is_empty() {
        return Ok(());
    }
    writeln!(
        console.output,
        "\n{:<10} {:>20} {:>9} {:>12} {:>8}  {:<19}  Home",
        "Group", "Key", "Seqno", "RBA", "Appliers", "Updated"
    )?;
    for CheckpointSet { group, appliers_wanted, .. } in &sets {
        writeln!(
            console.output,
            "{:<10} {:>20} {:>9} {:>12} {:>8}  {:<19}  {}",
            group.group_name,
            group.group_key,
            group.sequence,
            group.rba,
            appliers_wanted,
            clock::to_second(group.updated),
            group.directory
        )?;
    }
    Ok(())
}

/// Adds what a checkpoint table of an earlier version lacks.
pub fn upgrade(console: &mut Console<'_>, command: &Command) -> Result<(), Failure> {
    let database = console.login()?;
    let table = console.checkpoint_table(command.argument.as_deref())?;
    let _home = HomeLock::acquire(&console.home)?;
    existing(&*database, &table)?;
    let added = database.upgrade_checkpoint_table(&table)?;
    if added.is_empty() {
        writeln!(console.output, "CHECKPOINTTABLE {table} is of this version already.")?;
    }
    for added in added {
        writeln!(console.output, "CHECKPOINTTABLE {table} upgraded: table {added} created.")?;
    }
    Ok(())
}

/// Removes rows that this home wrote for Replicats which it no longer has.
pub fn cleanup(console: &mut Console<'_>, command: &Command) -> Result<(), Failure> {
    let database = console.login()?;
    let table = console.checkpoint_table(command.argument.as_deref())?;
    let _home = HomeLock::acquire(&console.home)?;
    existing(&*database, &table)?;
    let (mut removed, mut others) = (0, 0);
    for set in database.checkpoint_sets(&table)? {
        let row = &set.group;
        if Path::new(&row.directory) != console.home.path() {
            others += 1;
            continue;
        }
        if console.keeps(&row.group_name, row.group_key)? {
            continue;
        }
        database.delete_checkpoint(&table, &row.group_name, row.group_key)?;
        removed += 1;
        let position = Position::new(row.sequence, row.rba);
        writeln!(
            console.output,
            "Row of {} with key {} removed; it stood at {position}.",
            row.group_name, row.group_key
        )?;
    }
    let kept = if others == 0 { String::new() } else { format!("; {others} groups of other homes are left alone") };
    writeln!(console.output, "CHECKPOINTTABLE {table} cleaned up: {removed} groups removed{kept}.")?;
    Ok(())
}

/// Drops a checkpoint table that no Replicat uses.
pub fn delete(console: &mut Console<'_>, command: &Command) -> Result<(), Failure> {
    let database = console.login()?;
    let table = console.checkpoint_table(command.argument.as_deref())?;
    let _home = HomeLock::acquire(&console.home)?;
    for (kind, group) in console.home.groups()? {
        let checkpoints = CheckpointFile::read(&*console.checkpoint_storage(), kind, &group, 1)?;
        let body = checkpoints.first().and_then(|checkpoint| checkpoint.replicat());
        if body.is_some_and(|body| body.checkpoint_table == table) {
            return Err(Failure::new(format!("checkpoint table {table} is used by REPLICAT {group}"))
                .with_next_step(format!("DELETE REPLICAT {group} first")));
        }
    }
    let Some(state) = database.inspect_checkpoint_table(&table)? else {
        return Err(Failure::new(format!("there is no checkpoint table {table}")));
    };
    // The rows of a table that was changed can't be read, and no group can go on with it.
    let sets = if state.faults.is_empty() { database.checkpoint_sets(&table)? } else { Vec::new() };
    let other = sets.iter().map(|set| &set.group).find(|row| Path::new(&row.directory) != console.home.path());
    if let Some(row) = other {
        return Err(Failure::new(format!(
            "checkpoint table {table} is used by REPLICAT {} of the home {}",
            row.group_name, row.directory
        ))
        .with_next_step(format!(
            "DELETE REPLICAT {} there first; if that home is gone for good, delete its rows with SQL",
            row.group_name
        )));
    }
    if !command.force && !confirmed(&format!("Drop checkpoint table {table} and its auxiliary tables? [y/N] "))? {
        return Err(Failure::new(format!("checkpoint table {table} is not dropped without being asked twice"))
            .with_next_step(format!("DELETE CHECKPOINTTABLE {table} ! drops it without asking")));
    }
    database.drop_checkpoint_table(&table)?;
    writeln!(console.output, "CHECKPOINTTABLE {table} dropped.")?;
    Ok(())
}

/// Refuses a checkpoint table that is not there, or that somebody changed.
pub fn existing(database: &dyn Database, table: &TableName) -> Result<CheckpointTableState, Failure> {
    let Some(state) = database.inspect_checkpoint_table(table)? else {
        return Err(Failure::new(format!("there is no checkpoint table {table}"))
            .with_next_step(format!("ADD CHECKPOINTTABLE {table}")));
    };
    if state.faults.is_empty() {
        return Ok(state);
    }
    let what = format!("checkpoint table {table} was changed: {}", state.faults.join("; "));
    Err(process::Failure::new(Code::CheckpointTableAltered, what).with_object(table.to_string()).into())
}

impl Console<'_> {
    /// Whether this home has the Replicat that a row belongs to, or a command that speaks of it is under way.
    fn keeps(&self, name: &str, group_key: i64) -> Result<bool, Failure> {
        // A row of a thread has the group's name with three digits behind it.
        let names = [Some(name), name.len().checked_sub(3).and_then(|end| name.get(..end))];
        for group in names.into_iter().flatten().filter_map(|name| GroupName::parse(name).ok()) {
            if self.unfinished(GroupKind::Replicat, &group)?.is_some_and(|note| note.group_key == Some(group_key)) {
                return Ok(true);
            }
            let known = self.home.groups()?.contains(&(GroupKind::Replicat, group.clone()));
            if !known {
                continue;
            }
            let checkpoints = CheckpointFile::read(&*self.checkpoint_storage(), GroupKind::Replicat, &group, 1)?;
            let body = checkpoints.first().and_then(|checkpoint| checkpoint.replicat());
            if body.is_some_and(|body| body.group_key == group_key) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
