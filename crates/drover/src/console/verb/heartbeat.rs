//! ADD, ALTER, UPGRADE, INFO and DELETE HEARTBEATTABLE, and DELETE HEARTBEATENTRY

use crate::console::parse::Command;
use crate::console::verb::delete::confirmed;
use crate::console::{Console, Failure};
use change::Timestamp;
use database::{HEARTBEAT_OBJECTS, HeartbeatJob, HeartbeatOptions, HeartbeatState, Heartbeats, JobState};
use process::{HomeLock, clock};

/// How long a job may be due before nobody seems to run it, in microseconds: processes look twice a second.
const OVERDUE_MICROS: i64 = 10_000_000;

/// Creates the heartbeat tables.
pub fn add(console: &mut Console<'_>, command: &Command) -> Result<(), Failure> {
    let mut heartbeats = heartbeats(console)?;
    let options = chosen(command, HeartbeatOptions::default())?;
    let least = heartbeats.frequency_least();
    if !options.target_only && options.frequency == 0 && least > 1 {
        return Err(
            too_often(0, least).with_next_step("add them, then pause them with ALTER HEARTBEATTABLE, FREQUENCY 0")
        );
    }
    check_frequency(&options, &*heartbeats)?;
    let _home = HomeLock::acquire(&console.home)?;
    for line in heartbeats.create(&options)? {
        writeln!(console.output, "HEARTBEATTABLE: {line}.")?;
    }
    writeln!(console.output, "HEARTBEATTABLE added. Restart the groups of this database.")?;
    Ok(())
}

/// Changes what was chosen.
pub fn alter(console: &mut Console<'_>, command: &Command) -> Result<(), Failure> {
    if command.has("UPGRADE") {
        if command.options.len() > 1 {
            return Err(Failure::new("UPGRADE stands by itself").with_next_step(
                "ALTER HEARTBEATTABLE, UPGRADE first, then the other options in a command of their own",
            ));
        }
        return upgrade(console, command);
    }
    if command.options.is_empty() {
        return Err(Failure::new("ALTER HEARTBEATTABLE says nothing to alter")
            .with_next_step("HELP ALTER HEARTBEATTABLE lists its options"));
    }
    let mut heartbeats = heartbeats(console)?;
    let state = existing(&mut *heartbeats)?;
    let options = chosen(command, state.options)?;
    check_frequency(&options, &*heartbeats)?;
    let _home = HomeLock::acquire(&console.home)?;
    heartbeats.alter(&options)?;
    writeln!(console.output, "HEARTBEATTABLE altered.")?;
    say_options(console, &options)
}

/// Adds what is missing.
pub fn upgrade(console: &mut Console<'_>, _: &Command) -> Result<(), Failure> {
    let mut heartbeats = heartbeats(console)?;
    existing(&mut *heartbeats)?;
    let _home = HomeLock::acquire(&console.home)?;
    let made = heartbeats.upgrade()?;
    if made.is_empty() {
        writeln!(console.output, "HEARTBEATTABLE is of this version already.")?;
    }
    for line in made {
        writeln!(console.output, "HEARTBEATTABLE upgraded: {line}.")?;
    }
    Ok(())
}

/// Shows what there is, and what is wrong with it.
pub fn info(console: &mut Console<'_>, _: &Command) -> Result<(), Failure> {
    let mut heartbeats = heartbeats(console)?;
    let Some(state) = heartbeats.inspect()? else {
        writeln!(console.output, "HEARTBEAT tables do not exist in this database.")?;
        return Ok(());
    };
    for name in HEARTBEAT_OBJECTS {
        let is_missing = state.missing.iter().any(|missing| missing == name);
        let kind = if name.starts_with("GG_LAG") { "view" } else { "table" };
        let exists = if is_missing { "does not exist" } else { "exists" };
        writeln!(console.output, "HEARTBEAT {kind} {}.{name} {exists}.", state.schema)?;
    }
    for column in state.missing.iter().filter(|missing| missing.contains('.')) {
        writeln!(console.output, "Column {column} is missing.")?;
    }
    if !state.missing.is_empty() {
        writeln!(console.output, "UPGRADE HEARTBEATTABLE adds what is missing.")?;
    }
    writeln!(console.output, "HEARTBEAT database name: {}", state.database)?;
    say_options(console, &state.options)?;
    if state.jobs.is_empty() {
        return Ok(());
    }
    writeln!(
        console.output,
        "\n{:<20}  {:<19}  {:<19}  {:<19}  {:>7}",
        "JOB_NAME", "START_DATE", "LAST_START_DATE", "NEXT_RUN_DATE", "WORKERS"
    )?;
    let shown = |time: Option<Timestamp>| time.map_or_else(|| "-".to_owned(), clock::to_second);
    for job in &state.jobs {
        writeln!(
            console.output,
            "{:<20}  {:<19}  {:<19}  {:<19}  {:>7}",
            job.job.name(),
            shown(job.start),
            shown(job.last),
            shown(job.next),
            job.workers_max
        )?;
    }
    for job in &state.jobs {
        if let Some(fault) = fault(job, &state) {
            writeln!(console.output, "{fault}")?;
        }
    }
    Ok(())
}

/// Removes everything.
pub fn delete(console: &mut Console<'_>, command: &Command) -> Result<(), Failure> {
    let mut heartbeats = heartbeats(console)?;
    if let Some(name) = &command.argument {
        let table = name.rsplit('.').next().unwrap_or(name).trim_matches('"');
        if !table.eq_ignore_ascii_case(HEARTBEAT_OBJECTS[1]) {
            return Err(Failure::new(format!("there are no heartbeat tables called {name}"))
                .with_next_step("their name is GG_HEARTBEAT: DELETE HEARTBEATTABLE"));
        }
    }
    existing(&mut *heartbeats)?;
    let _home = HomeLock::acquire(&console.home)?;
    if !command.force && !confirmed("Delete the heartbeat tables of this database with their history? [y/N] ")? {
        return Err(Failure::new("heartbeat tables are not deleted without being asked twice")
            .with_next_step("DELETE HEARTBEATTABLE ! deletes them without asking"));
    }
    for line in heartbeats.remove()? {
        writeln!(console.output, "HEARTBEATTABLE: {line}.")?;
    }
    writeln!(console.output, "HEARTBEATTABLE deleted.")?;
    Ok(())
}

/// Removes rows of a group that is gone.
pub fn delete_entry(console: &mut Console<'_>, command: &Command) -> Result<(), Failure> {
    let mut heartbeats = heartbeats(console)?;
    existing(&mut *heartbeats)?;
    let _home = HomeLock::acquire(&console.home)?;
    let count = heartbeats.remove_entries(command.argument())?;
    writeln!(console.output, "HEARTBEATENTRY {}: {count} rows deleted.", command.argument())?;
    Ok(())
}

/// The heartbeat tables of the database that is logged in to.
pub fn heartbeats(console: &Console<'_>) -> Result<Box<dyn Heartbeats>, Failure> {
    let heartbeats = console.login()?.heartbeats()?;
    heartbeats.ok_or_else(|| Failure::new("this database has no place for heartbeat tables"))
}

fn existing(heartbeats: &mut dyn Heartbeats) -> Result<HeartbeatState, Failure> {
    let state = heartbeats.inspect()?;
    state.ok_or_else(|| {
        Failure::new("there are no heartbeat tables in this database").with_next_step("ADD HEARTBEATTABLE")
    })
}

/// What a command chooses, over what was chosen before.
fn chosen(command: &Command, before: HeartbeatOptions) -> Result<HeartbeatOptions, Failure> {
    for (one, other) in [("TARGETONLY", "NOTARGETONLY"), ("PARTITIONED", "NOPARTITIONED")] {
        if command.has(one) && command.has(other) {
            return Err(
                Failure::new(format!("{one} and {other} exclude each other")).with_next_step("give one of them")
            );
        }
    }
    if command.has("PARTITIONED") {
        return Err(Failure::new("the history of heartbeats can't be partitioned in this database")
            .with_next_step("leave PARTITIONED out; RETENTION_TIME keeps the history small"));
    }
    let number = |keyword, before| command.option(keyword).and_then(|text| text.parse().ok()).unwrap_or(before);
    Ok(HeartbeatOptions {
        frequency: number("FREQUENCY", before.frequency),
        retention: number("RETENTION_TIME", before.retention),
        purge_frequency: number("PURGE_FREQUENCY", before.purge_frequency),
        target_only: match (command.has("TARGETONLY"), command.has("NOTARGETONLY")) {
            (true, _) => true,
            (_, true) => false,
            _ => before.target_only,
        },
    })
}

fn check_frequency(options: &HeartbeatOptions, heartbeats: &dyn Heartbeats) -> Result<(), Failure> {
    let least = heartbeats.frequency_least();
    if options.frequency > 0 && options.frequency < least {
        let step = format!("give a FREQUENCY of {least} to 7999 seconds");
        return Err(too_often(options.frequency, least).with_next_step(step));
    }
    Ok(())
}

fn too_often(frequency: u32, least: u32) -> Failure {
    Failure::new(format!("FREQUENCY {frequency} is below {least} seconds, the least of this database"))
}

fn say_options(console: &mut Console<'_>, options: &HeartbeatOptions) -> Result<(), Failure> {
    let frequency = match (options.target_only, options.frequency) {
        (true, _) => "none (TARGETONLY)".to_owned(),
        (false, 0) => "0 seconds (paused)".to_owned(),
        (false, seconds) => format!("{seconds} seconds"),
    };
    writeln!(console.output, "HEARTBEAT frequency: {frequency}")?;
    writeln!(console.output, "HEARTBEAT purge frequency: {} days", options.purge_frequency)?;
    writeln!(console.output, "HEARTBEAT retention time: {} days", options.retention)?;
    Ok(())
}

/// Why a job does not run, and what to do about it.
fn fault(job: &JobState, state: &HeartbeatState) -> Option<String> {
    let name = job.job.name();
    if job.workers_max == 0 {
        return Some(format!(
            "{name} does not run: JOB_QUEUE_PROCESSES is 0, so no process may run it. Set it to 1 in its row of \
             {}.GG_HEARTBEAT_JOB.",
            state.schema
        ));
    }
    let overdue = state.now.micros_since(job.next?);
    let who = match job.job {
        HeartbeatJob::Stamp => "an Extract of this database",
        HeartbeatJob::Purge => "an Extract or a Replicat of this database",
    };
    (overdue > OVERDUE_MICROS).then(|| {
        format!(
            "{name} does not run: its NEXT_RUN_DATE is {} s in the past. Start {who}, or restart it if it was started before \
             ADD HEARTBEATTABLE.",
            overdue / 1_000_000
        )
    })
}
