//! `drover copy`: the initial copy for a Replicat.
//!
//! Puts the parts together, tries again after what may pass, and shows the progress. What is copied and how is decided by
//! [`reconcile::copy`].

use crate::{failure, wire};
use change::{CaseRule, TableDefinition};
use clap::Args;
use database::snapshot::{CapturedTable, CopyDestination, CopyError, CopyRequest, CopySource, CopyTarget};
use database::{Database, ErrorClass, ForeignKeyPolicy, Session, SessionRequest, TablePlan, TriggerPolicy};
use parameter::{DatabaseUrl, ExtractParameters, MapPlan, ReplicatParameters};
use process::{
    Action, CheckpointFile, Code, EventLog, Failure, GroupKind, GroupLock, GroupName, Home, Message,
    ReplicatCheckpoint, Retry, Shutdown, clock,
};
use reconcile::{CopyJob, CopyOutcome, CopyProgress, CopySetup, ProgressReport};
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};
use trail::storage::Directory;

/// Time between two lines of progress.
const PROGRESS_PACE: Duration = Duration::from_secs(5);

/// How often a pause between two attempts looks whether it should end.
const PAUSE_TICK: Duration = Duration::from_millis(20);

/// Options of an initial copy.
#[derive(Args, Debug)]
pub struct Copy {
    /// The Replicat that the rows are for; it must not run
    #[arg(value_name = "REPLICAT")]
    pub replicat: String,

    /// The Extract that captures the changes of the tables
    #[arg(long, value_name = "GROUP")]
    pub extract: String,

    /// Tables to copy at once
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub parallel: u16,
}

/// What a copy came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Every table is copied.
    Complete,
    /// The operator ended it before.
    Stopped,
}

/// Copies until everything is copied, the operator ends it, or it can't go on.
///
/// # Errors
/// The failure that ended it. It is in the event log already, unless that can't be written.
pub fn run(options: &Copy, home: &Path, shutdown: &Shutdown) -> Result<Ending, Box<Failure>> {
    let home = Home::open(home).map_err(|error| Failure::from(&error))?;
    let replicat = GroupName::parse(&options.replicat).map_err(|error| Failure::from(&error))?;
    let extract = GroupName::parse(&options.extract).map_err(|error| Failure::from(&error))?;
    // Nobody may apply changes before the copy is complete.
    let _lock = GroupLock::acquire(&home, &replicat).map_err(|error| Failure::from(&error))?;
    let event_log = EventLog::open(&home, "Drover Copy", None)
        .map_err(|error| Failure::new(Code::HomeRefused, "could not open the event log").with_cause(&error))?;
    let mut copy = Running { home, replicat, extract, event_log };
    let result = copy.prepare().and_then(|prepared| copy.until_done(&prepared, options.parallel, shutdown));
    if let Err(failure) = &result {
        copy.log(failure.message(clock::now()));
    }
    result
}

struct Running {
    home: Home,
    replicat: GroupName,
    extract: GroupName,
    event_log: EventLog,
}

struct Prepared {
    source: Arc<dyn CopySource>,
    target: Arc<dyn CopyTarget>,
    request: CopyRequest,
    jobs: Vec<CopyJob>,
}

impl Running {
    /// Looks at both databases and decides what goes where.
    fn prepare(&self) -> Result<Prepared, Box<Failure>> {
        let extract = parameter::parse_extract(&self.parameters(&self.extract)?, &file_name(&self.extract))
            .map_err(|error| Failure::new(Code::ParameterWrong, error.to_string()))?;
        let replicat = parameter::parse_replicat(&self.parameters(&self.replicat)?, &file_name(&self.replicat))
            .map_err(|error| Failure::new(Code::ParameterWrong, error.to_string()))?;
        let checkpoint = self.checkpoint()?;
        let at_source = |error: database::Error| of_side(&error, &extract.source);
        let at_target = |error: database::Error| of_side(&error, &replicat.target);
        let source = copy_source(&extract.source).map_err(at_source)?;
        let target = copy_target(&replicat.target).map_err(at_target)?;
        let captured = source.captured_tables(self.extract.as_str()).map_err(at_source)?;
        let source_database = wire::open(self.home.path(), extract.source.reveal()).map_err(at_source)?;
        self.check_captured(&extract, &captured, &*source_database)?;
        let target_database = wire::open(self.home.path(), replicat.target.reveal()).map_err(at_target)?;
        let table = &checkpoint.checkpoint_table;
        if !target_database.has_checkpoint_table(table).map_err(at_target)? {
            let what = format!("the target has no checkpoint table {table}");
            return Err(Failure::new(Code::CheckpointTableMissing, what)
                .with_object(replicat.target.to_string())
                .into());
        }
        let request = CopyRequest {
            group: self.replicat.to_string(),
            group_key: checkpoint.group_key,
            checkpoint_table: table.clone(),
        };
        let mut session = target_database.open_session(session_request(&request)).map_err(at_target)?;
        let rules = rules(&replicat, &*target_database);
        let mut jobs = Vec::new();
        for table in captured {
            jobs.extend(job(&table, &rules, &mut *session, &replicat.target)?);
        }
        Ok(Prepared { source, target, request, jobs })
    }

    fn parameters(&self, group: &GroupName) -> Result<String, Box<Failure>> {
        let path = self.home.parameter_file(group);
        std::fs::read_to_string(&path).map_err(|error| {
            let what = format!("could not read the parameter file of {group}");
            let failure = Failure::new(Code::ParameterFileMissing, what).with_object(path.display().to_string());
            Box::new(failure.with_cause(&error))
        })
    }

    fn checkpoint(&self) -> Result<ReplicatCheckpoint, Box<Failure>> {
        let storage = Arc::new(Directory::new(self.home.dirchk()));
        let file = CheckpointFile::open(storage, GroupKind::Replicat, &self.replicat).map_err(|error| {
            Failure::from(&error).with_next_step(format!("ADD REPLICAT {} before its tables are copied", self.replicat))
        })?;
        Ok(file.latest().replicat().expect("the file is a Replicat's").clone())
    }

    /// Refuses when the Extract's parameters select a table whose changes are not captured yet: copied now, it would lose
    /// those that come before they are.
    fn check_captured(
        &self,
        extract: &ExtractParameters,
        captured: &[CapturedTable],
        source: &dyn Database,
    ) -> Result<(), Box<Failure>> {
        let plan = extract.tables.plan(source.case_rule(), &source.default_schema());
        let tables = source.tables().map_err(|error| of_side(&error, &extract.source))?;
        let is_captured =
            |table: &TableDefinition| captured.iter().any(|captured| captured.definition.name == table.name);
        match tables.iter().find(|table| plan.selects(&table.name) && !is_captured(table)) {
            None => Ok(()),
            Some(table) => {
                let what = format!("table {} can't be copied: its changes are not captured yet", table.name);
                Err(Failure::new(Code::DatabaseFailed, what)
                    .with_object(extract.source.to_string())
                    .with_next_step(format!(
                        "start {} once, so that the table joins its capture; or leave it out with TABLEEXCLUDE",
                        self.extract
                    ))
                    .into())
            }
        }
    }

    fn until_done(&mut self, prepared: &Prepared, parallel: u16, shutdown: &Shutdown) -> Result<Ending, Box<Failure>> {
        let group = self.replicat.clone();
        self.say(Code::Notice, &format!("initial copy for REPLICAT {group} started, tables: {}", prepared.jobs.len()));
        let progress = CopyProgress::new();
        let mut retry = Retry::new();
        let mut done_before = 0;
        loop {
            let outcome = watched(&progress, || {
                reconcile::copy(&CopySetup {
                    source: &*prepared.source,
                    target: &*prepared.target,
                    request: &prepared.request,
                    jobs: &prepared.jobs,
                    workers_max: usize::from(parallel),
                    clock: &clock::now,
                    is_stopped: &|| shutdown.is_requested(),
                    progress: &progress,
                })
            });
            let report = progress.report(clock::now());
            let (table, cause) = match outcome {
                CopyOutcome::Done => {
                    self.say(
                        Code::Notice,
                        &format!("initial copy for REPLICAT {group} complete: {}", summary(&report)),
                    );
                    return Ok(Ending::Complete);
                }
                CopyOutcome::Stopped => {
                    self.say(Code::Notice, &format!("initial copy for REPLICAT {group} stopped: {}", summary(&report)));
                    return Ok(Ending::Stopped);
                }
                CopyOutcome::Failed { table, cause } => (table, cause),
            };
            let failure = of_copy(&cause);
            let failure = match table {
                Some(table) => failure.with_object(table.to_string()),
                None => failure,
            };
            if report.tables_done > done_before {
                retry.succeeded();
                done_before = report.tables_done;
            }
            match retry.decide(&failure) {
                Action::Abend => return Err(failure.into()),
                Action::RetryAfter(delay) => {
                    self.log(failure.message(clock::now()));
                    print(&failure.render());
                    self.say(Code::Retrying, &format!("trying again in {} ms", delay.as_millis()));
                    pause(delay, shutdown);
                }
            }
        }
    }

    fn say(&mut self, code: Code, text: &str) {
        print(text);
        self.log(Message { time: clock::now(), code, text: text.to_owned() });
    }

    fn log(&mut self, message: Message) {
        // A log that can't be written must not end a copy of hours.
        let _ = self.event_log.append(&message);
    }
}

/// Runs `work` and prints progress meanwhile.
fn watched<T>(progress: &CopyProgress, work: impl FnOnce() -> T) -> T {
    std::thread::scope(|scope| {
        let (end, is_over) = channel::<()>();
        scope.spawn(move || {
            while is_over.recv_timeout(PROGRESS_PACE) == Err(RecvTimeoutError::Timeout) {
                print(&line(&progress.report(clock::now())));
            }
        });
        let result = work();
        drop(end);
        result
    })
}

fn pause(delay: Duration, shutdown: &Shutdown) {
    let start = Instant::now();
    while start.elapsed() < delay && !shutdown.is_requested() {
        std::thread::sleep(PAUSE_TICK.min(delay));
    }
}

/// One line of progress.
fn line(report: &ProgressReport) -> String {
    let left = report.left.map_or_else(String::new, |left| format!(", about {} left", time(left)));
    let running: Vec<String> =
        report.running.iter().map(|(table, bytes)| format!("{table} {}", megabytes(*bytes))).collect();
    let running = if running.is_empty() { String::new() } else { format!("; copying {}", running.join(", ")) };
    format!(
        "{:3.0} %  {} of {} tables, {} rows, {} at {}/s{left}{running}",
        report.share * 100.0,
        report.tables_done,
        report.tables,
        report.rows,
        megabytes(report.bytes),
        megabytes(report.bytes_per_second),
    )
}

fn summary(report: &ProgressReport) -> String {
    let ProgressReport { tables, tables_done, rows, bytes, .. } = report;
    format!("{tables_done} of {tables} tables; {rows} rows, {} by this run", megabytes(*bytes))
}

fn megabytes(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}

/// `2:03:04`, or `3:04` below an hour.
fn time(span: Duration) -> String {
    let seconds = span.as_secs();
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    if hours > 0 { format!("{hours}:{minutes:02}:{seconds:02}") } else { format!("{minutes}:{seconds:02}") }
}

fn rules(replicat: &ReplicatParameters, target: &dyn Database) -> MapPlan {
    // The source's rules are taken from the target: both are of one product, or nothing is copied.
    let (case, schema): (CaseRule, String) = (target.case_rule(), target.default_schema());
    replicat.map.plan(case, &schema, case, &schema)
}

fn session_request(request: &CopyRequest) -> SessionRequest {
    // Neither triggers nor foreign keys run for a copy, whatever becomes of them later.
    SessionRequest {
        group: request.group.clone(),
        group_key: request.group_key,
        checkpoint_table: request.checkpoint_table.clone(),
        triggers: TriggerPolicy::Suppress,
        foreign_keys: ForeignKeyPolicy::Ignore,
    }
}

/// Where a captured table's rows go, by the same rules as its changes; `None` for one that is not mapped.
fn job(
    table: &CapturedTable,
    rules: &MapPlan,
    session: &mut dyn Session,
    target: &DatabaseUrl,
) -> Result<Option<CopyJob>, Box<Failure>> {
    let definition = Arc::new(table.definition.clone());
    let mut destinations = Vec::new();
    for mapped in rules.targets(&definition.name) {
        let found = session.table(&mapped.target).map_err(|error| of_side(&error, target))?;
        let planned = match found {
            Some(found) => apply::plan(&definition, found, mapped.key_columns.as_deref()),
            None => Err(apply::MappingError::NoTarget {
                source_table: definition.name.clone(),
                target: mapped.target.clone(),
            }),
        };
        let plan = planned.map_err(|error| of_mapping(&error))?;
        destinations.push(destination(&plan));
    }
    let source = definition.name.clone();
    Ok((!destinations.is_empty()).then_some(CopyJob { source, destinations, bytes: table.bytes }))
}

/// Columns that are read and columns that are written, in one order.
fn destination(plan: &TablePlan) -> (Vec<String>, CopyDestination) {
    let read = plan.columns.iter().map(|pair| plan.source.columns[pair.source].name.clone()).collect();
    let written = plan.columns.iter().map(|pair| plan.target.columns[pair.target].name.clone()).collect();
    (read, CopyDestination { table: plan.target.name.clone(), columns: written })
}

fn of_mapping(error: &apply::MappingError) -> Box<Failure> {
    let code = match error {
        apply::MappingError::NoTarget { .. } => Code::TargetTableMissing,
        apply::MappingError::NoKey { .. }
        | apply::MappingError::KeyColumn { .. }
        | apply::MappingError::KeyNotTold { .. } => Code::TargetKeyMissing,
        apply::MappingError::ThreadColumn { .. } => Code::HandlingUnfit,
        apply::MappingError::NoColumn { .. } | apply::MappingError::Ambiguous { .. } => Code::TableUnlike,
    };
    Box::new(Failure::of(code, error).with_object(error.target().to_string()).with_next_step(error.next_step()))
}

fn of_side(error: &database::Error, url: &DatabaseUrl) -> Box<Failure> {
    Box::new(failure::of_database(error).with_object(url.to_string()))
}

fn of_copy(cause: &CopyError) -> Failure {
    let (CopyError::Source(error) | CopyError::Target(error)) = cause;
    failure::of_database(error)
}

fn file_name(group: &GroupName) -> String {
    format!("{}.prm", group.to_lower())
}

fn copy_source(url: &DatabaseUrl) -> Result<Arc<dyn CopySource>, database::Error> {
    match url.scheme() {
        "postgres" | "postgresql" => db_postgres::open_copy_source(url.reveal()),
        scheme => Err(unsupported(scheme)),
    }
}

fn copy_target(url: &DatabaseUrl) -> Result<Arc<dyn CopyTarget>, database::Error> {
    match url.scheme() {
        "postgres" | "postgresql" => db_postgres::open_copy_target(url.reveal()),
        scheme => Err(unsupported(scheme)),
    }
}

fn unsupported(scheme: &str) -> database::Error {
    let what = format!("there is no initial copy for databases of the scheme {scheme} yet");
    database::Error::new(ErrorClass::Unsupported, what)
        .with_next_step("copy the database by its own means, before ADD EXTRACT and while nobody writes")
}

/// Tells whoever looks; a terminal that is gone does not stop a copy.
fn print(text: &str) {
    let _ = writeln!(std::io::stdout(), "{text}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use change::TableName;

    #[test]
    fn progress_reads_as_one_line() {
        let mut report = ProgressReport {
            tables: 12,
            tables_done: 3,
            running: vec![(TableName::new("s", "t"), 1_500_000)],
            rows: 42,
            bytes: 2_500_000_000,
            bytes_per_second: 40_000_000,
            share: 0.254,
            left: Some(Duration::from_secs(7384)),
        };
        assert_eq!(
            line(&report),
            " 25 %  3 of 12 tables, 42 rows, 2500.0 MB at 40.0 MB/s, about 2:03:04 left; copying s.t 1.5 MB"
        );
        report.left = Some(Duration::from_secs(184));
        report.running.clear();
        assert!(line(&report).ends_with(", about 3:04 left"), "{}", line(&report));
    }
}
