//! ADD, INFO and DELETE ERRORQUEUE; INFO, EXECUTE, ALTER and DELETE of ERROR and ERRORS

use crate::console::parse::Command;
use crate::console::verb::delete::confirmed;
use crate::console::{Console, Failure};
use crate::run::source_names::SourceNames;
use apply::error_queue::{ExecuteError, ExecuteOutcome, Executor, ParkedTransaction, QueueReader};
use change::TableName;
use database::{CheckpointRow, ForeignKeyPolicy, Session, SessionRequest, TriggerPolicy};
use parameter::{MapPlan, ReplicatParameters};
use process::{CheckpointFile, GroupKind, GroupName, HomeLock, clock};
use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write as _;
use std::sync::Arc;
use trail::storage::Directory;

/// Calls that INFO ERROR shows.
const CALLS_SHOWN: u32 = 1000;

/// ADD ERRORQUEUE
pub fn add(console: &mut Console<'_>, _: &Command) -> Result<(), Failure> {
    let database = console.login()?;
    let _home = HomeLock::acquire(&console.home)?;
    let mut session = console.reading_session()?;
    if QueueReader::open(&mut *session)?.is_some() {
        return Err(Failure::new("the error queue exists already")
            .with_next_step("use it: one error queue serves all Replicats that apply to this database"));
    }
    drop(session);
    database.create_error_queue()?;
    writeln!(console.output, "ERRORQUEUE created, with the conflict log.")?;
    Ok(())
}

/// INFO ERRORQUEUE
pub fn info(console: &mut Console<'_>, _: &Command) -> Result<(), Failure> {
    let mut session = console.reading_session()?;
    let Some(queue) = QueueReader::open(&mut *session)? else {
        writeln!(console.output, "There is no error queue in this database.")?;
        return Ok(());
    };
    let mut counts: BTreeMap<String, (u64, u64, String)> = BTreeMap::new();
    for transaction in queue.transactions(&mut *session, None)? {
        let (parked, held, oldest) = counts.entry(transaction.group).or_insert((0, 0, transaction.parked));
        *parked += 1;
        *held += u64::from(transaction.held_behind.is_some());
        _ = oldest;
    }
    if counts.is_empty() {
        writeln!(console.output, "The error queue is empty.")?;
        return Ok(());
    }
    writeln!(console.output, "{:<10} {:>12} {:>12}  Parked First", "Replicat", "Transactions", "Held Back")?;
    for (group, (parked, held, oldest)) in counts {
        writeln!(console.output, "{group:<10} {parked:>12} {held:>12}  {oldest}")?;
    }
    Ok(())
}

/// DELETE ERRORQUEUE
pub fn delete(console: &mut Console<'_>, command: &Command) -> Result<(), Failure> {
    let database = console.login()?;
    let _home = HomeLock::acquire(&console.home)?;
    let mut session = console.reading_session()?;
    let queue = console.queue(&mut *session)?;
    let parked = queue.transactions(&mut *session, None)?.len();
    drop(session);
    if parked > 0 && !command.force {
        return Err(Failure::new(format!("the error queue holds {parked} transactions"))
            .with_next_step("execute or delete them first; DELETE ERRORQUEUE ! drops them with the queue"));
    }
    if !command.force && !confirmed("Drop the error queue and the conflict log? [y/N] ")? {
        return Err(Failure::new("the error queue is not dropped without being asked twice")
            .with_next_step("DELETE ERRORQUEUE ! drops it without asking"));
    }
    database.drop_error_queue()?;
    writeln!(console.output, "ERRORQUEUE dropped, with the conflict log.")?;
    Ok(())
}

/// INFO ERRORS
pub fn info_errors(console: &mut Console<'_>, command: &Command) -> Result<(), Failure> {
    let mut session = console.reading_session()?;
    let transactions = console.queue(&mut *session)?.transactions(&mut *session, command.option("REPLICAT"))?;
    if transactions.is_empty() {
        writeln!(console.output, "No transaction is in the error queue.")?;
        return Ok(());
    }
    writeln!(console.output, "{:<24} {:<26} {:<12} {:<8} Message", "Transaction", "Committed", "CSN", "Error")?;
    for transaction in &transactions {
        let ParkedTransaction { id, committed, csn, error_number, error_message, .. } = transaction;
        writeln!(console.output, "{id:<24} {committed:<26} {csn:<12} {error_number:<8} {error_message}")?;
    }
    writeln!(console.output, "{} transactions.", transactions.len())?;
    Ok(())
}

/// INFO ERROR
pub fn info_error(console: &mut Console<'_>, command: &Command) -> Result<(), Failure> {
    let mut session = console.reading_session()?;
    let queue = console.queue(&mut *session)?;
    let transaction = parked(&queue, &mut *session, command.argument())?;
    let calls = queue.calls(&mut *session, &transaction, None, CALLS_SHOWN)?;
    let mut text = String::new();
    let ParkedTransaction { id, group, place, origin, csn, transaction: source, committed, parked, .. } = &transaction;
    let mut line = |label: &str, value: &str| _ = writeln!(text, "{label:<21} {value}");
    line("Transaction", id);
    line("Replicat", group);
    line("Trail position", &format!("{:09}:{}", place.0, place.1));
    line("Origin", origin.as_deref().unwrap_or("Not Available"));
    line("Source transaction", &format!("{source}, CSN {csn}, committed {committed}"));
    line("Parked", parked);
    line("Error", &format!("{}: {}", transaction.error_number, transaction.error_message));
    if let Some(call) = transaction.failed_call {
        line("Failed call", &call.to_string());
    }
    if let Some(ahead) = &transaction.held_behind {
        line("Held back behind", ahead);
    }
    for call in &calls {
        let failed = if transaction.failed_call == Some(call.number) { "   <- refused" } else { "" };
        _ = writeln!(text, "\nCall {} {} {}{failed}", call.number, call.procedure, call.target);
        for (label, image) in [("old", &call.old), ("new", &call.new), ("current", &call.current)] {
            if let Some(image) = image {
                _ = writeln!(text, "  {label:<8} {image}");
            }
        }
    }
    if calls.len() == CALLS_SHOWN as usize {
        _ = writeln!(text, "\nMore calls stand in the view DEFCALL.");
    }
    write!(console.output, "{text}")?;
    Ok(())
}

/// ALTER ERROR
pub fn alter(console: &mut Console<'_>, command: &Command) -> Result<(), Failure> {
    let value = match (command.option("VALUE"), command.has("NULL"), command.has("UNTOLD")) {
        (Some(value), false, false) => Some(serde_json::Value::from(value).to_string()),
        (None, true, false) => Some("null".to_owned()),
        (None, false, true) => None,
        _ => {
            return Err(
                Failure::new("ALTER ERROR sets one value").with_next_step("give one of VALUE 'text', NULL and UNTOLD")
            );
        }
    };
    let call: i64 = command.required("CALL").parse().unwrap_or_default();
    let mut reading = console.reading_session()?;
    let transaction = parked(&console.queue(&mut *reading)?, &mut *reading, command.argument())?;
    drop(reading);
    let work = console.work(&transaction)?;
    let mut session = work.session;
    let queue = console.queue(&mut *session)?;
    let mut executor = Executor::new(queue, &mut *session, work.rules.as_ref(), clock::now());
    let column = command.required("COLUMN");
    executor
        .edit(&transaction, call, column, value.as_deref(), command.has("OLD"))
        .map_err(|error| of_execute(&error))?;
    writeln!(console.output, "ERROR {} altered: call {call}, column {column}.", transaction.id)?;
    Ok(())
}

/// EXECUTE ERROR
pub fn execute(console: &mut Console<'_>, command: &Command) -> Result<(), Failure> {
    let mut reading = console.reading_session()?;
    let queue = console.queue(&mut *reading)?;
    let transaction = parked(&queue, &mut *reading, command.argument())?;
    let others = queue.transactions(&mut *reading, Some(&transaction.group))?;
    drop(reading);
    let work = console.work(&transaction)?;
    let mut session = work.session;
    let queue = console.queue(&mut *session)?;
    let mut executor = Executor::new(queue, &mut *session, work.rules.as_ref(), clock::now());
    if !command.force {
        let blocker = executor.blocker(&transaction, &others).map_err(|error| of_execute(&error))?;
        if let Some(blocker) = blocker {
            return Err(Failure::new(format!(
                "transaction {} touches what the older transaction {} touches",
                transaction.id, blocker.id
            ))
            .with_next_step(format!(
                "execute or delete {} first, give EXECUTE ERRORS for all, or EXECUTE ERROR {} ! to execute it all the same",
                blocker.id, transaction.id
            )));
        }
    }
    let is_trial = command.has("TRIAL");
    let execution = executor.execute(&transaction, is_trial).map_err(|error| of_execute(&error))?;
    for call in &execution.calls {
        writeln!(console.output, "Call {} {} {}", call.number, call.procedure, call.table)?;
        writeln!(console.output, "  {:<8} {}", "before", call.before.as_deref().unwrap_or("no row"))?;
        writeln!(console.output, "  {:<8} {}", "after", call.after.as_deref().unwrap_or("no row"))?;
    }
    let (id, written, dropped) = (&transaction.id, execution.written, execution.dropped);
    let what = if is_trial { "could be executed; nothing was changed" } else { "executed" };
    writeln!(console.output, "ERROR {id} {what}: {written} calls written, {dropped} dropped by rules.")?;
    Ok(())
}

/// EXECUTE ERRORS
pub fn execute_all(console: &mut Console<'_>, command: &Command) -> Result<(), Failure> {
    let mut reading = console.reading_session()?;
    let transactions = console.queue(&mut *reading)?.transactions(&mut *reading, command.option("REPLICAT"))?;
    drop(reading);
    let mut groups: BTreeMap<(String, i64), Vec<ParkedTransaction>> = BTreeMap::new();
    for transaction in transactions {
        groups.entry((transaction.group.clone(), transaction.group_key)).or_default().push(transaction);
    }
    let (mut done, mut left) = (0, 0);
    for transactions in groups.values() {
        let Some(first) = transactions.first() else { continue };
        let work = console.work(first)?;
        let mut session = work.session;
        let queue = console.queue(&mut *session)?;
        let mut executor = Executor::new(queue, &mut *session, work.rules.as_ref(), clock::now());
        let mut lines = Vec::new();
        let executed = executor.execute_all(transactions, &mut |transaction, outcome| {
            let id = &transaction.id;
            lines.push(match outcome {
                ExecuteOutcome::Done(execution) => {
                    done += 1;
                    format!(
                        "{id} executed: {} calls written, {} dropped by rules",
                        execution.written, execution.dropped
                    )
                }
                ExecuteOutcome::Failed(error) => {
                    left += 1;
                    format!("{id} left: {}", chain(error))
                }
                ExecuteOutcome::Behind(ahead) => {
                    left += 1;
                    format!("{id} left: it stands behind {ahead}")
                }
            });
        });
        for line in lines {
            writeln!(console.output, "{line}")?;
        }
        executed.map_err(|error| of_execute(&error))?;
    }
    writeln!(console.output, "ERRORS executed: {done}, left: {left}.")?;
    match left {
        0 => Ok(()),
        left => Err(Failure::new(format!("{left} transactions are still in the error queue"))
            .with_next_step("put right what the lines above name, then give EXECUTE ERRORS again")),
    }
}

/// DELETE ERROR
pub fn delete_error(console: &mut Console<'_>, command: &Command) -> Result<(), Failure> {
    let mut reading = console.reading_session()?;
    let transaction = parked(&console.queue(&mut *reading)?, &mut *reading, command.argument())?;
    drop(reading);
    console.drop_parked(&[transaction])
}

/// DELETE ERRORS
pub fn delete_errors(console: &mut Console<'_>, command: &Command) -> Result<(), Failure> {
    let mut reading = console.reading_session()?;
    let transactions = console.queue(&mut *reading)?.transactions(&mut *reading, command.option("REPLICAT"))?;
    drop(reading);
    let count = transactions.len();
    if count > 0 && !command.force && !confirmed(&format!("Delete {count} transactions for good? [y/N] "))? {
        return Err(Failure::new(format!("{count} transactions are not deleted without being asked twice"))
            .with_next_step("DELETE ERRORS ! deletes them without asking"));
    }
    console.drop_parked(&transactions)
}

/// What a transaction is executed with.
struct Work {
    session: Box<dyn Session>,
    rules: Option<MapPlan>,
}

fn parked(queue: &QueueReader, session: &mut dyn Session, id: &str) -> Result<ParkedTransaction, Failure> {
    let all = queue.transactions(session, None)?;
    let mut found = all.into_iter().filter(|known| known.id.eq_ignore_ascii_case(id));
    match (found.next(), found.next()) {
        (Some(transaction), None) => Ok(transaction),
        (Some(one), Some(_)) => {
            Err(Failure::new(format!("several Replicats called {} have parked a transaction {id}", one.group))
                .with_next_step("look at GROUP_KEY in the view DEFERROR, and deal with it by SQL"))
        }
        (None, _) => Err(Failure::new(format!("no transaction {id} is in the error queue"))
            .with_next_step("INFO ERRORS lists those that are")),
    }
}

fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        _ = write!(text, ": {error}");
        cause = error.source();
    }
    text
}

fn of_execute(error: &ExecuteError) -> Failure {
    let failure = Failure::new(chain(error));
    match error {
        ExecuteError::Database { source, .. } => match source.next_step() {
            Some(step) => failure.with_next_step(step),
            None => failure,
        },
        ExecuteError::Refused { .. } | ExecuteError::RefusedAtCommit { .. } => failure.with_next_step(
            "put the cause right in the target or with ALTER ERROR, then execute it again; nothing was changed",
        ),
        ExecuteError::Mapping { source, .. } => failure.with_next_step(source.next_step()),
        ExecuteError::Handling { .. } => failure.with_next_step("correct the option in the Replicat's parameter file"),
        ExecuteError::Image { .. } | ExecuteError::Absent(_) => failure.with_next_step("look at it with INFO ERROR"),
    }
}

impl Console<'_> {
    /// A session that only reads, beside those of all groups.
    fn reading_session(&self) -> Result<Box<dyn Session>, Failure> {
        let database = self.login()?;
        let request = SessionRequest {
            group: "CONSOLE".to_owned(),
            group_key: i64::from(std::process::id()),
            checkpoint_table: TableName::new(database.default_schema(), "checkpoints"),
            triggers: TriggerPolicy::default(),
            foreign_keys: ForeignKeyPolicy::default(),
        };
        Ok(database.open_session(request)?)
    }

    fn queue(&self, session: &mut dyn Session) -> Result<QueueReader, Failure> {
        QueueReader::open(session)?
            .ok_or_else(|| Failure::new("there is no error queue in this database").with_next_step("ADD ERRORQUEUE"))
    }

    /// A session beside the one of the Replicat that has parked `transaction`, with what its parameter file says where this home has
    /// it.
    fn work(&self, transaction: &ParkedTransaction) -> Result<Work, Failure> {
        let database = self.login()?;
        let group = self.group(&transaction.group)?;
        let known = self.home.groups()?.contains(&(GroupKind::Replicat, group.clone()));
        let parameters = if known { self.replicat_parameters(&group)? } else { None };
        let (fires, checks) =
            parameters.as_ref().map_or((false, false), |known| (known.fire_triggers, known.check_foreign_keys));
        let request = SessionRequest {
            group: transaction.group.clone(),
            group_key: CheckpointRow::applier_key(transaction.group_key, CheckpointRow::EXECUTOR),
            checkpoint_table: TableName::new(database.default_schema(), "checkpoints"),
            triggers: if fires { TriggerPolicy::Fire } else { TriggerPolicy::Suppress },
            foreign_keys: if checks { ForeignKeyPolicy::Check } else { ForeignKeyPolicy::Ignore },
        };
        let rules = match parameters {
            None => None,
            Some(parameters) => {
                let names = self.names_of_source(&group)?;
                let (case, schema) = (database.case_rule(), database.default_schema());
                names.map(|names| parameters.map.plan(names.case, names.schema, case, &schema))
            }
        };
        Ok(Work { session: database.open_session(request)?, rules })
    }

    fn replicat_parameters(&self, group: &GroupName) -> Result<Option<ReplicatParameters>, Failure> {
        let path = self.home.parameter_file(group);
        if !path.is_file() {
            return Ok(None);
        }
        let text = std::fs::read_to_string(&path)?;
        let parsed = parameter::parse_replicat(&text, &path.display().to_string());
        parsed.map(Some).map_err(|error| Failure::new(error.to_string()))
    }

    /// How the source of a Replicat's trail compares names; `None` where no file of the trail is left to tell.
    fn names_of_source(&self, group: &GroupName) -> Result<Option<SourceNames>, Failure> {
        let checkpoints = CheckpointFile::read(&*self.checkpoint_storage(), GroupKind::Replicat, group, 1)?;
        let Some(body) = checkpoints.first().and_then(|checkpoint| checkpoint.replicat()) else { return Ok(None) };
        let place = self.trail_place(&body.trail)?;
        let names = SourceNames::of_trail_now(Arc::new(Directory::new(&place.directory)), place.name);
        names.map_err(|failure| (*failure).into())
    }

    fn drop_parked(&mut self, transactions: &[ParkedTransaction]) -> Result<(), Failure> {
        for transaction in transactions {
            let work = self.work(transaction)?;
            let mut session = work.session;
            let queue = self.queue(&mut *session)?;
            let mut executor = Executor::new(queue, &mut *session, None, clock::now());
            executor.delete(transaction).map_err(|error| of_execute(&error))?;
            writeln!(self.output, "ERROR {} deleted.", transaction.id)?;
        }
        Ok(())
    }
}
