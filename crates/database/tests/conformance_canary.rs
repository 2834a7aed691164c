//! The conformance suite can tell good from bad: engines that break one promise each must fail it.

use change::{CaseRule, Change, Column, LogPosition, Operation, Row, TableDefinition, TableName, Value};
use database::conformance::{Capability, Instance, Kind, Subject, Verdict, cases};
use database::memory::{MemoryDatabase, MemoryOptions};
use database::{
    ApplyError, CheckpointRow, CheckpointSet, CheckpointTableState, Database, Error, Identity, LogEvent, LogSource,
    Outcome, Rejection, Session, SessionRequest, SourceRequest, TableSelection, Write,
};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// A promise to break.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flaw {
    None,
    /// The stream drops every 20th change.
    DropsChanges,
    /// The stream tells every 20th change twice.
    RepeatsChanges,
    /// The stream ends a transaction in the middle.
    SplitsTransactions,
    /// Two neighbouring changes of a transaction change places.
    SwapsChanges,
    /// The position of a commit is that before its transaction.
    PositionIsTooEarly,
    /// Reading starts where it should, whatever was released.
    ForgetsReleases,
    /// An empty value becomes NULL.
    EmptyIsNull,
    /// Long values are cut.
    CutsLongValues,
    /// The old key of a key update is not told.
    HidesOldKeys,
    /// Unchanged values are written as NULL.
    UnchangedIsNull,
    /// A row that is missing is passed over.
    IgnoresMissingRows,
    /// The index of a rejection is counted from 1.
    CountsFromOne,
    /// Rolling back commits.
    RollbackCommits,
    /// A checkpoint row that is missing is made anew.
    SavesWithoutRow,
    /// Tables without a key are captured.
    CapturesKeylessTables,
    /// Similar names are taken for one another.
    SelectsByPrefix,
}

const FLAWS: [Flaw; 16] = [
    Flaw::DropsChanges,
    Flaw::RepeatsChanges,
    Flaw::SplitsTransactions,
    Flaw::SwapsChanges,
    Flaw::PositionIsTooEarly,
    Flaw::ForgetsReleases,
    Flaw::EmptyIsNull,
    Flaw::CutsLongValues,
    Flaw::HidesOldKeys,
    Flaw::UnchangedIsNull,
    Flaw::IgnoresMissingRows,
    Flaw::CountsFromOne,
    Flaw::RollbackCommits,
    Flaw::SavesWithoutRow,
    Flaw::CapturesKeylessTables,
    Flaw::SelectsByPrefix,
];

#[test]
fn every_flaw_is_found_by_some_case() {
    let quiet = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let missed: Vec<_> = FLAWS.into_iter().filter(|flaw| failures(*flaw).is_empty()).collect();
    let sound = failures(Flaw::None);
    std::panic::set_hook(quiet);
    assert_eq!(sound, [""; 0], "without a flaw the wrapped engine passes");
    assert_eq!(missed, [], "flaws that no case has found");
}

fn failures(flaw: Flaw) -> Vec<&'static str> {
    let fails = |case: &&database::conformance::Case| {
        !matches!(catch_unwind(AssertUnwindSafe(|| case.run(&Flawed(flaw)))), Ok(Verdict::Passed))
    };
    let relevant = cases().iter().filter(|case| case.needs.iter().all(|need| *need == Capability::WholeOldRow));
    relevant.filter(fails).map(|case| case.name).collect()
}

struct Flawed(Flaw);

impl Subject for Flawed {
    fn name(&self) -> String {
        format!("{:?}", self.0)
    }

    fn lacks(&self) -> Vec<(Capability, &'static str)> {
        Vec::new()
    }

    fn create(&self) -> Box<dyn Instance> {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let name = format!("flawed {}", NUMBER.fetch_add(1, Ordering::Relaxed));
        Box::new(FlawedInstance { flaw: self.0, sound: MemoryDatabase::new(MemoryOptions::new(name)) })
    }
}

struct FlawedInstance {
    flaw: Flaw,
    sound: MemoryDatabase,
}

impl Instance for FlawedInstance {
    fn database(&self) -> Arc<dyn Database> {
        Arc::new(FlawedDatabase { flaw: self.flaw, sound: self.sound.clone() })
    }

    fn column(&self, name: &str, kind: Kind) -> Column {
        let logical = match kind {
            Kind::Integer => change::LogicalType::Integer,
            Kind::Text => change::LogicalType::Text,
            Kind::Binary => change::LogicalType::Binary,
        };
        Column::new(name, logical, "any")
    }

    fn integer(&self, value: i64) -> Vec<u8> {
        value.to_string().into_bytes()
    }

    fn text(&self, value: &str) -> Vec<u8> {
        value.into()
    }

    fn binary(&self, value: &[u8]) -> Vec<u8> {
        value.into()
    }

    fn create_table(&self, table: &TableDefinition, unique: &[Vec<usize>]) {
        self.sound.create_table(table.clone(), unique).expect("created");
    }

    fn write(&self, operations: &[(TableName, Operation)]) {
        self.sound
            .write(|transaction| operations.iter().try_for_each(|(table, made)| transaction.perform(table, made)))
            .expect("a user's write is taken");
    }

    fn rows(&self, table: &TableName) -> Vec<Row> {
        self.sound.rows(table)
    }
}

struct FlawedDatabase {
    flaw: Flaw,
    sound: MemoryDatabase,
}

/// Gives every table a key, or takes names for one another.
struct FlawedSelection<'a> {
    flaw: Flaw,
    sound: &'a dyn TableSelection,
}

struct OwnedSelection {
    flaw: Flaw,
    sound: Arc<dyn TableSelection>,
}

impl OwnedSelection {
    fn borrowed(&self) -> FlawedSelection<'_> {
        FlawedSelection { flaw: self.flaw, sound: &*self.sound }
    }
}

impl TableSelection for FlawedSelection<'_> {
    fn selects(&self, table: &TableName) -> bool {
        match self.flaw {
            Flaw::SelectsByPrefix => {
                let any = |end: &str| self.sound.selects(&TableName::new(&table.schema, format!("a{end}")));
                self.sound.selects(table) || (table.table.starts_with('a') && (any("_b") || any(".b")))
            }
            Flaw::CapturesKeylessTables => table.table != "heap" && self.sound.selects(table),
            _ => self.sound.selects(table),
        }
    }

    fn required(&self) -> Vec<TableName> {
        self.sound.required()
    }

    fn key_columns(&self, table: &TableName) -> Option<Vec<String>> {
        self.sound.key_columns(table)
    }
}

impl TableSelection for OwnedSelection {
    fn selects(&self, table: &TableName) -> bool {
        self.borrowed().selects(table)
    }

    fn required(&self) -> Vec<TableName> {
        self.borrowed().required()
    }

    fn key_columns(&self, table: &TableName) -> Option<Vec<String>> {
        self.borrowed().key_columns(table)
    }
}

impl Database for FlawedDatabase {
    fn identity(&self) -> Result<Identity, Error> {
        self.sound.identity()
    }

    fn case_rule(&self) -> CaseRule {
        self.sound.case_rule()
    }

    fn default_schema(&self) -> String {
        self.sound.default_schema()
    }

    fn tables(&self) -> Result<Vec<TableDefinition>, Error> {
        self.sound.tables()
    }

    fn register_capture(&self, group: &str, tables: &dyn TableSelection) -> Result<LogPosition, Error> {
        self.sound.register_capture(group, &FlawedSelection { flaw: self.flaw, sound: tables })
    }

    fn has_capture(&self, group: &str) -> Result<bool, Error> {
        self.sound.has_capture(group)
    }

    fn unregister_capture(&self, group: &str) -> Result<(), Error> {
        self.sound.unregister_capture(group)
    }

    fn open_source(&self, request: SourceRequest) -> Result<Box<dyn LogSource>, Error> {
        let before = request.start.clone();
        let tables = Arc::new(OwnedSelection { flaw: self.flaw, sound: request.tables });
        let sound = self.sound.open_source(SourceRequest { tables, ..request })?;
        Ok(Box::new(FlawedSource { flaw: self.flaw, sound, count: 0, before }))
    }

    fn open_session(&self, request: SessionRequest) -> Result<Box<dyn Session>, Error> {
        let table = request.checkpoint_table.clone();
        let sound = self.sound.open_session(request)?;
        Ok(Box::new(FlawedSession { flaw: self.flaw, sound, table, database: self.sound.clone() }))
    }

    fn create_checkpoint_table(&self, name: &TableName) -> Result<(), Error> {
        self.sound.create_checkpoint_table(name)
    }

    fn has_checkpoint_table(&self, name: &TableName) -> Result<bool, Error> {
        self.sound.has_checkpoint_table(name)
    }

    fn drop_checkpoint_table(&self, name: &TableName) -> Result<(), Error> {
        self.sound.drop_checkpoint_table(name)
    }

    fn inspect_checkpoint_table(&self, name: &TableName) -> Result<Option<CheckpointTableState>, Error> {
        self.sound.inspect_checkpoint_table(name)
    }

    fn upgrade_checkpoint_table(&self, name: &TableName) -> Result<Vec<TableName>, Error> {
        self.sound.upgrade_checkpoint_table(name)
    }

    fn checkpoint_sets(&self, table: &TableName) -> Result<Vec<CheckpointSet>, Error> {
        self.sound.checkpoint_sets(table)
    }

    fn checkpoints(&self, table: &TableName, group: &str) -> Result<Vec<CheckpointRow>, Error> {
        self.sound.checkpoints(table, group)
    }

    fn insert_checkpoint(&self, table: &TableName, row: &CheckpointRow) -> Result<(), Error> {
        self.sound.insert_checkpoint(table, row)
    }

    fn delete_checkpoint(&self, table: &TableName, group: &str, group_key: i64) -> Result<(), Error> {
        self.sound.delete_checkpoint(table, group, group_key)
    }
}

struct FlawedSource {
    flaw: Flaw,
    sound: Box<dyn LogSource>,
    count: usize,
    before: LogPosition,
}

fn values(row: &Row, flaw: Flaw) -> Row {
    Row::from_values(row.values().map(|value| match (flaw, value) {
        (Flaw::EmptyIsNull, Value::Bytes(b"")) => Value::Null,
        (Flaw::CutsLongValues, Value::Bytes(bytes)) => Value::Bytes(&bytes[..bytes.len().min(65_535)]),
        (_, value) => value,
    }))
}

fn flawed(change: Change, flaw: Flaw) -> Change {
    let operation = match change.operation {
        Operation::Insert { new } => Operation::Insert { new: values(&new, flaw) },
        Operation::Update { old, new } => {
            let old = old.filter(|_| flaw != Flaw::HidesOldKeys).map(|old| values(&old, flaw));
            Operation::Update { old, new: values(&new, flaw) }
        }
        Operation::Delete { old } => Operation::Delete { old: values(&old, flaw) },
        Operation::Truncate(options) => Operation::Truncate(options),
    };
    Change { operation, ..change }
}

impl LogSource for FlawedSource {
    fn read(&mut self, events: &mut Vec<LogEvent>, wait: Duration) -> Result<(), Error> {
        let mut sound = Vec::new();
        self.sound.read(&mut sound, wait)?;
        let mut begun = None;
        for event in sound {
            match event {
                LogEvent::Begin(commit) => {
                    begun = Some(commit.clone());
                    events.push(LogEvent::Begin(commit));
                }
                LogEvent::Change(change) => {
                    self.count += 1;
                    let chosen = self.count.is_multiple_of(20);
                    let change = flawed(change, self.flaw);
                    match self.flaw {
                        Flaw::DropsChanges if chosen => {}
                        Flaw::RepeatsChanges if chosen => {
                            events.push(LogEvent::Change(change.clone()));
                            events.push(LogEvent::Change(change));
                        }
                        Flaw::SplitsTransactions if chosen && begun.is_some() => {
                            events.push(LogEvent::Change(change));
                            events.push(LogEvent::Commit { next: self.before.clone() });
                            let commit = begun.clone().expect("it has begun");
                            let csn = change::Csn::new(format!("{}0", &commit.csn.as_str()[1..]));
                            events.push(LogEvent::Begin(change::Commit { csn, ..commit }));
                        }
                        Flaw::SwapsChanges => {
                            let previous = events.pop();
                            match previous {
                                Some(LogEvent::Change(previous)) => {
                                    let (first, second) = (previous.address, change.address);
                                    events.push(LogEvent::Change(Change { address: first, ..change }));
                                    events.push(LogEvent::Change(Change { address: second, ..previous }));
                                }
                                other => {
                                    events.extend(other);
                                    events.push(LogEvent::Change(change));
                                }
                            }
                        }
                        _ => events.push(LogEvent::Change(change)),
                    }
                }
                LogEvent::Commit { next } => {
                    let before = std::mem::replace(&mut self.before, next.clone());
                    let next = if self.flaw == Flaw::PositionIsTooEarly { before } else { next };
                    events.push(LogEvent::Commit { next });
                }
                other => events.push(other),
            }
        }
        Ok(())
    }

    fn release(&mut self, position: &LogPosition) -> Result<(), Error> {
        if self.flaw == Flaw::ForgetsReleases { Ok(()) } else { self.sound.release(position) }
    }
}

struct FlawedSession {
    flaw: Flaw,
    sound: Box<dyn Session>,
    table: TableName,
    database: MemoryDatabase,
}

impl Session for FlawedSession {
    fn table(&mut self, name: &TableName) -> Result<Option<TableDefinition>, Error> {
        self.sound.table(name)
    }

    fn begin(&mut self) -> Result<(), Error> {
        self.sound.begin()
    }

    fn apply(&mut self, writes: &[Write<'_>]) -> Result<(), ApplyError> {
        let null = |row: &Row| {
            let known = |value: Value<'_>| value.is_present();
            Row::from_values(row.values().map(|value| if known(value) { value } else { Value::Null }))
        };
        for (index, write) in writes.iter().enumerate() {
            let operation = match write.operation {
                Operation::Update { old, new } if self.flaw == Flaw::UnchangedIsNull => {
                    &Operation::Update { old: old.clone(), new: null(new) }
                }
                operation => operation,
            };
            match self.sound.apply(&[Write { plan: write.plan, operation }]) {
                Err(ApplyError::Rejected(rejection))
                    if self.flaw == Flaw::IgnoresMissingRows && rejection.outcome == Outcome::Missing => {}
                Err(ApplyError::Rejected(rejection)) => {
                    let index = if self.flaw == Flaw::CountsFromOne { index + 1 } else { index };
                    return Err(ApplyError::Rejected(Rejection { index, ..rejection }));
                }
                other => other?,
            }
        }
        Ok(())
    }

    fn attempt(&mut self, write: &Write<'_>) -> Result<(), ApplyError> {
        self.apply(std::slice::from_ref(write))
    }

    fn find(&mut self, plan: &Arc<database::TablePlan>, image: &Row) -> Result<Option<Row>, Error> {
        self.sound.find(plan, image)
    }

    fn load_checkpoint(&mut self) -> Result<Option<CheckpointRow>, Error> {
        self.sound.load_checkpoint()
    }

    fn load_checkpoints(&mut self) -> Result<Option<CheckpointSet>, Error> {
        self.sound.load_checkpoints()
    }

    fn replace_checkpoints(&mut self, set: &CheckpointSet) -> Result<(), Error> {
        self.sound.replace_checkpoints(set)
    }

    fn save_checkpoint(&mut self, row: &CheckpointRow) -> Result<(), Error> {
        if self.flaw == Flaw::SavesWithoutRow {
            // Refused when the row is there.
            let _ = self.database.insert_checkpoint(&self.table, row);
        }
        self.sound.save_checkpoint(row)
    }

    fn commit(&mut self) -> Result<(), ApplyError> {
        self.sound.commit()
    }

    fn rollback(&mut self) -> Result<(), Error> {
        if self.flaw == Flaw::RollbackCommits {
            let _ = self.sound.commit();
        }
        self.sound.rollback()
    }
}
