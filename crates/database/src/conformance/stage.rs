//! What cases stand on: a fresh database with a few tables, rows from plain words, streams that check their own grammar.

use super::{Instance, Kind, Subject};
use crate::{
    CheckpointRow, Database, ErrorClass, ForeignKeyPolicy, LogEvent, LogSource, Session, SessionRequest, SourceRequest,
    TableSelection, TriggerPolicy,
};
use change::{
    CaseRule, Change, Commit, LogPosition, Operation, RecordAddress, Row, TableDefinition, TableName, Timestamp, Value,
};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// A value in words that every database understands.
#[derive(Clone, Copy, Debug)]
pub(super) enum Given<'a> {
    Integer(i64),
    Text(&'a str),
    Binary(&'a [u8]),
    Null,
    Unchanged,
}

/// Which tables a case captures.
#[derive(Clone, Default)]
pub(super) struct Choice {
    /// Only these, and the mark table; `None` for every table.
    pub(super) only: Option<Vec<TableName>>,
    pub(super) required: Vec<TableName>,
    pub(super) key_columns: BTreeMap<TableName, Vec<String>>,
}

impl Choice {
    pub(super) fn everything() -> Choice {
        Choice::default()
    }

    pub(super) fn only(tables: &[&TableDefinition]) -> Choice {
        Choice { only: Some(tables.iter().map(|table| table.name.clone()).collect()), ..Choice::default() }
    }

    pub(super) fn requiring(table: &TableName) -> Choice {
        Choice { required: vec![table.clone()], ..Choice::default() }
    }

    pub(super) fn with_key(mut self, table: &TableDefinition, columns: &[&str]) -> Choice {
        let columns = columns.iter().map(|column| (*column).to_owned()).collect();
        self.key_columns.insert(table.name.clone(), columns);
        self
    }
}

impl TableSelection for Choice {
    fn selects(&self, table: &TableName) -> bool {
        table.table == MARK || self.only.as_ref().is_none_or(|only| only.contains(table))
    }

    fn required(&self) -> Vec<TableName> {
        self.required.clone()
    }

    fn key_columns(&self, table: &TableName) -> Option<Vec<String>> {
        self.key_columns.get(table).cloned()
    }
}

/// The table whose rows tell a case that everything before them has arrived.
const MARK: &str = "mark_of_the_case";

/// One database of one case.
pub(super) struct Stage {
    pub(super) instance: Box<dyn Instance>,
    pub(super) database: Arc<dyn Database>,
    schema: String,
    marks: Cell<i64>,
}

impl Stage {
    pub(super) fn new(subject: &dyn Subject) -> Stage {
        let instance = subject.create();
        let database = instance.database();
        let schema = database.default_schema();
        let stage = Stage { instance, database, schema, marks: Cell::new(0) };
        stage.table(MARK, &[("number", Kind::Integer)], &["number"]);
        stage
    }

    pub(super) fn name(&self, table: &str) -> TableName {
        TableName::new(&self.schema, table)
    }

    /// The table of most cases: `item (id key, name, data)`.
    pub(super) fn item(&self) -> Arc<TableDefinition> {
        self.table("item", &[("id", Kind::Integer), ("name", Kind::Text), ("data", Kind::Binary)], &["id"])
    }

    /// Creates a table in the default schema; `key` lists key columns in key order.
    pub(super) fn table(&self, name: &str, columns: &[(&str, Kind)], key: &[&str]) -> Arc<TableDefinition> {
        self.create(self.definition(self.name(name), columns, key), &[])
    }

    pub(super) fn create(&self, table: TableDefinition, unique: &[Vec<usize>]) -> Arc<TableDefinition> {
        self.instance.create_table(&table, unique);
        Arc::new(table)
    }

    /// A definition that has not become a table; key columns take no NULL.
    pub(super) fn definition(&self, name: TableName, columns: &[(&str, Kind)], key: &[&str]) -> TableDefinition {
        let column = |(name, kind): &(&str, Kind)| {
            let mut column = self.instance.column(name, *kind);
            if let Some(place) = key.iter().position(|part| part == name) {
                column.nullable = false;
                column.key = Some(place as u16);
            }
            column
        };
        TableDefinition { name, columns: columns.iter().map(column).collect() }
    }

    pub(super) fn row(&self, values: &[Given<'_>]) -> Row {
        let canonical: Vec<Result<Vec<u8>, Value<'static>>> = values
            .iter()
            .map(|value| match value {
                Given::Integer(value) => Ok(self.instance.integer(*value)),
                Given::Text(value) => Ok(self.instance.text(value)),
                Given::Binary(value) => Ok(self.instance.binary(value)),
                Given::Null => Err(Value::Null),
                Given::Unchanged => Err(Value::Unchanged),
            })
            .collect();
        Row::from_values(canonical.iter().map(|value| value.as_ref().map_or_else(|plain| *plain, |b| Value::Bytes(b))))
    }

    pub(super) fn insert(&self, values: &[Given<'_>]) -> Operation {
        Operation::Insert { new: self.row(values) }
    }

    pub(super) fn update(&self, old: &[Given<'_>], new: &[Given<'_>]) -> Operation {
        Operation::Update { old: Some(self.row(old)), new: self.row(new) }
    }

    pub(super) fn delete(&self, old: &[Given<'_>]) -> Operation {
        Operation::Delete { old: self.row(old) }
    }

    /// One transaction of a user on one table.
    pub(super) fn write(&self, table: &TableDefinition, operations: &[Operation]) {
        let operations: Vec<_> = operations.iter().map(|operation| (table.name.clone(), operation.clone())).collect();
        self.instance.write(&operations);
    }

    /// All rows of a table, in the order of their bytes.
    pub(super) fn rows(&self, table: &TableDefinition) -> Vec<Row> {
        sorted(self.instance.rows(&table.name))
    }

    #[track_caller]
    pub(super) fn assert_rows(&self, table: &TableDefinition, expected: &[&[Given<'_>]]) {
        let expected = sorted(expected.iter().map(|values| self.row(values)).collect());
        assert_eq!(self.rows(table), expected, "rows of {}", table.name);
    }

    pub(super) fn register(&self, group: &str) -> LogPosition {
        self.database.register_capture(group, &Choice::everything()).expect("the group can be registered")
    }

    pub(super) fn open(&self, group: &str, start: &LogPosition) -> Stream {
        self.open_with(group, start, Choice::everything())
    }

    pub(super) fn open_with(&self, group: &str, start: &LogPosition, choice: Choice) -> Stream {
        let source = self.database.open_source(request(group, start, choice)).expect("the source opens");
        Stream { source, transactions: Vec::new(), open: None, last: start.clone() }
    }

    /// The class with which opening is refused, and the words.
    pub(super) fn refusal(&self, group: &str, start: &LogPosition, choice: Choice) -> (ErrorClass, String) {
        match self.database.open_source(request(group, start, choice)) {
            Ok(_) => panic!("the source opens at {start} but should be refused"),
            Err(error) => (error.class(), error.to_string()),
        }
    }

    /// Everything that `stream` tells of what is committed so far, without the marks.
    pub(super) fn told(&self, stream: &mut Stream) -> Vec<Told> {
        let number = self.marks.get() + 1;
        self.marks.set(number);
        let mark = (self.name(MARK), self.insert(&[Given::Integer(number)]));
        let bytes = self.row(&[Given::Integer(number)]);
        self.instance.write(&[mark]);
        stream.until(|operation| matches!(operation, Operation::Insert { new } if *new == bytes));
        let mut told = std::mem::take(&mut stream.transactions);
        told.iter_mut().for_each(|transaction| transaction.changes.retain(|change| change.table.name.table != MARK));
        told.retain(|transaction| !transaction.changes.is_empty());
        told
    }

    /// A session of Replicat `group` whose checkpoint table exists and holds the group's row.
    pub(super) fn replicat(&self, group: &str) -> Box<dyn Session> {
        let table = self.checkpoint_table();
        if !self.database.has_checkpoint_table(&table).expect("the database can be asked") {
            self.database.create_checkpoint_table(&table).expect("the checkpoint table can be created");
        }
        self.database.insert_checkpoint(&table, &checkpoint(group, 1)).expect("the checkpoint row can be inserted");
        self.session(group)
    }

    pub(super) fn checkpoint_table(&self) -> TableName {
        self.name("replicat_checkpoint")
    }

    /// The group's row as it is for everybody.
    pub(super) fn committed_checkpoint(&self, group: &str) -> CheckpointRow {
        let rows = self.database.checkpoints(&self.checkpoint_table(), group).expect("the rows can be listed");
        rows.into_iter().next().expect("the group has a row")
    }

    pub(super) fn session(&self, group: &str) -> Box<dyn Session> {
        self.session_with(self.session_request(group))
    }

    pub(super) fn session_with(&self, request: SessionRequest) -> Box<dyn Session> {
        self.database.open_session(request).expect("the session opens")
    }

    pub(super) fn session_request(&self, group: &str) -> SessionRequest {
        SessionRequest {
            group: group.to_owned(),
            group_key: 1,
            checkpoint_table: self.checkpoint_table(),
            triggers: TriggerPolicy::Suppress,
            foreign_keys: ForeignKeyPolicy::Ignore,
        }
    }

    /// `name` as somebody might write it who relies on the case rule; `None` where another case is another name.
    pub(super) fn in_other_case(&self, name: &TableName) -> Option<TableName> {
        let upper = || TableName::new(&name.schema, name.table.to_uppercase());
        (self.database.case_rule() == CaseRule::Insensitive).then(upper)
    }
}

fn request(group: &str, start: &LogPosition, choice: Choice) -> SourceRequest {
    SourceRequest { group: group.to_owned(), start: start.clone(), tables: Arc::new(choice) }
}

pub(super) fn checkpoint(group: &str, group_key: i64) -> CheckpointRow {
    CheckpointRow {
        group_name: group.to_owned(),
        group_key,
        sequence: 0,
        rba: 0,
        audit_time: None,
        created: Timestamp::from_unix_micros(1_767_225_600_000_000),
        updated: Timestamp::from_unix_micros(1_767_225_600_000_001),
        directory: "home".to_owned(),
        log_bsn: None,
        log_csn: None,
        log_complete_csn: None,
        log_complete_transactions: Vec::new(),
        version: CheckpointRow::VERSION,
    }
}

pub(super) fn sorted(mut rows: Vec<Row>) -> Vec<Row> {
    rows.sort_by_key(|row| row.values().map(|value| value.bytes().map(<[u8]>::to_vec)).collect::<Vec<_>>());
    rows
}

/// A transaction that a stream has told.
#[derive(Clone, Debug)]
pub(super) struct Told {
    pub(super) commit: Commit,
    pub(super) changes: Vec<Change>,
    pub(super) next: LogPosition,
}

impl Told {
    pub(super) fn operations(&self) -> Vec<(TableName, Operation)> {
        self.changes.iter().map(|change| (change.table.name.clone(), change.operation.clone())).collect()
    }
}

/// A log source whose every event is checked against the grammar that [`LogSource`] promises.
pub(super) struct Stream {
    source: Box<dyn LogSource>,
    pub(super) transactions: Vec<Told>,
    open: Option<(Commit, Vec<Change>)>,
    last: LogPosition,
}

/// How often a read that finds nothing is repeated before a case fails: 30 s of waiting altogether.
const EMPTY_READS_MAX: usize = 600;
const WAIT: Duration = Duration::from_millis(50);

impl Stream {
    /// Reads once and returns how many events came.
    pub(super) fn read(&mut self) -> usize {
        let mut events = Vec::new();
        self.source.read(&mut events, WAIT).expect("the source can be read");
        let count = events.len();
        events.into_iter().for_each(|event| self.take(event));
        count
    }

    /// Reads until something comes.
    pub(super) fn read_some(&mut self) {
        let found = (0..EMPTY_READS_MAX).any(|_| self.read() > 0);
        assert!(found, "a committed change does not arrive");
    }

    /// The class with which reading fails, after whatever comes before.
    pub(super) fn failure(&mut self) -> ErrorClass {
        for _ in 0..EMPTY_READS_MAX {
            let mut events = Vec::new();
            if let Err(error) = self.source.read(&mut events, WAIT) {
                return error.class();
            }
        }
        panic!("the source goes on but should fail");
    }

    pub(super) fn release(&mut self, position: &LogPosition) {
        self.source.release(position).expect("the position can be released");
    }

    /// Reads until a transaction is complete that holds an operation of the mark table which `wanted` takes.
    fn until(&mut self, wanted: impl Fn(&Operation) -> bool) {
        let mut empty = 0;
        let mut seen = 0;
        loop {
            let found = self.transactions[seen..].iter().any(|transaction| {
                transaction.changes.iter().any(|change| change.table.name.table == MARK && wanted(&change.operation))
            });
            if found {
                return;
            }
            seen = self.transactions.len();
            empty = if self.read() == 0 { empty + 1 } else { 0 };
            assert!(empty < EMPTY_READS_MAX, "a committed change does not arrive");
        }
    }

    fn take(&mut self, event: LogEvent) {
        match event {
            LogEvent::Begin(commit) => {
                assert!(self.open.is_none(), "a transaction begins inside another one");
                if let Some(before) = self.transactions.last() {
                    let (earlier, later) = (before.commit.csn.as_str(), commit.csn.as_str());
                    assert!(earlier < later, "commit {later} comes after {earlier}");
                    assert_eq!(earlier.len(), later.len(), "CSNs are of fixed width");
                    assert_ne!(before.commit.transaction, commit.transaction, "transactions have names of their own");
                }
                self.open = Some((commit, Vec::new()));
            }
            LogEvent::Change(change) => {
                let (_, changes) = self.open.as_mut().expect("a change comes inside a transaction");
                let before = changes.last().map_or(RecordAddress::default(), |before: &Change| before.address);
                assert!(before <= change.address, "addresses grow inside a transaction");
                check_width(&change);
                changes.push(change);
            }
            LogEvent::Commit { next } => {
                let (commit, changes) = self.open.take().expect("a commit ends a transaction");
                assert!(!changes.is_empty(), "a transaction without changes is not told");
                self.moved(&next);
                self.transactions.push(Told { commit, changes, next });
            }
            LogEvent::Idle { next } => {
                assert!(self.open.is_none(), "a source is not idle inside a transaction");
                self.moved(&next);
            }
            LogEvent::Object(object) => panic!("nobody has asked for {object:?}"),
            LogEvent::Notice(_) => {}
        }
    }

    fn moved(&mut self, next: &LogPosition) {
        let before = std::mem::replace(&mut self.last, next.clone());
        assert_eq!(before.as_str().len(), next.as_str().len(), "positions are of fixed width");
        assert!(before <= *next, "position {next} comes after {before}");
    }
}

fn check_width(change: &Change) {
    let columns = change.table.columns.len();
    let fits = |row: &Row| assert_eq!(row.len(), columns, "a row has a value per column of {}", change.table.name);
    match &change.operation {
        Operation::Insert { new } => {
            fits(new);
            assert!(new.is_complete(), "an insert tells every value");
        }
        Operation::Update { old, new } => {
            old.iter().for_each(fits);
            fits(new);
        }
        Operation::Delete { old } => fits(old),
        Operation::Truncate(_) => {}
    }
}
