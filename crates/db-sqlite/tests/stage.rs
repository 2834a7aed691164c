//! A source database, its users, and a target that follows it.

use change::{Commit, LogPosition, Operation, OperationKind, Row, TableDefinition, TableName, Value};
use database::{
    CheckpointRow, ColumnPair, Database, ForeignKeyPolicy, LogEvent, LogSource, Session, SessionRequest, SourceRequest,
    TablePlan, TableSelection, TriggerPolicy, Write,
};
use rusqlite::Connection;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

pub const GROUP: &str = "E1";

/// Every table but those named.
#[derive(Clone, Default)]
pub struct Choice {
    pub only: Option<Vec<String>>,
    pub except: Vec<String>,
    pub required: Vec<String>,
    pub key_columns: HashMap<String, Vec<String>>,
}

impl Choice {
    pub fn all() -> Arc<Choice> {
        Arc::new(Choice::default())
    }

    pub fn requiring(table: &str) -> Arc<Choice> {
        Arc::new(Choice { required: vec![table.to_owned()], ..Choice::default() })
    }

    pub fn except(table: &str) -> Arc<Choice> {
        Arc::new(Choice { except: vec![table.to_owned()], ..Choice::default() })
    }

    pub fn with_key(table: &str, columns: &[&str]) -> Arc<Choice> {
        let columns = columns.iter().map(|column| (*column).to_owned()).collect();
        Arc::new(Choice { key_columns: HashMap::from([(table.to_owned(), columns)]), ..Choice::default() })
    }
}

impl TableSelection for Choice {
    fn selects(&self, table: &TableName) -> bool {
        let excepted = self.except.iter().any(|name| name.eq_ignore_ascii_case(&table.table));
        !excepted && self.only.as_ref().is_none_or(|only| only.contains(&table.table))
    }

    fn required(&self) -> Vec<TableName> {
        self.required.iter().map(|table| TableName::new("main", table)).collect()
    }

    fn key_columns(&self, table: &TableName) -> Option<Vec<String>> {
        self.key_columns.get(&table.table).cloned()
    }
}

/// A database file in a directory of its own.
pub struct File {
    pub directory: tempfile::TempDir,
    pub path: PathBuf,
}

impl File {
    pub fn create(schema: &str) -> File {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("data.db");
        let connection = Connection::open(&path).expect("a new database");
        let mode: String = connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0)).expect("WAL mode");
        assert_eq!(mode, "wal");
        connection.execute_batch(schema).expect("the schema");
        File { directory, path }
    }

    pub fn database(&self) -> Arc<dyn Database> {
        db_sqlite::open(&format!("sqlite:{}", self.path.display())).expect("the database")
    }

    /// A connection as a user makes it.
    pub fn user(&self) -> Connection {
        connect(&self.path)
    }
}

pub fn connect(path: &Path) -> Connection {
    let connection = Connection::open(path).expect("the database");
    connection.busy_timeout(Duration::from_secs(30)).expect("a time-out");
    connection.pragma_update(None, "synchronous", "OFF").expect("a pragma");
    connection
}

/// A stream that checks its own grammar.
pub struct Stream {
    pub source: Box<dyn LogSource>,
    /// Inside a transaction.
    open: Option<Commit>,
    pub next: Option<LogPosition>,
    pub notices: Vec<String>,
    last: Option<Commit>,
}

impl Stream {
    pub fn open(database: &dyn Database, start: &LogPosition, tables: Arc<dyn TableSelection>) -> Stream {
        Stream::over(database.open_source(request(start, tables)).expect("a source"))
    }

    pub fn over(source: Box<dyn LogSource>) -> Stream {
        Stream { source, open: None, next: None, notices: Vec::new(), last: None }
    }

    /// Reads until nothing more comes, and returns all changes.
    pub fn drain(&mut self) -> Vec<change::Change> {
        self.try_drain().expect("reading")
    }

    pub fn try_drain(&mut self) -> Result<Vec<change::Change>, database::Error> {
        let mut changes = Vec::new();
        loop {
            let mut events = Vec::new();
            self.source.read(&mut events, Duration::ZERO)?;
            if events.is_empty() {
                assert!(self.open.is_none(), "a stream does not stop inside a transaction");
                return Ok(changes);
            }
            events.into_iter().for_each(|event| changes.extend(self.take(event)));
        }
    }

    fn take(&mut self, event: LogEvent) -> Option<change::Change> {
        match event {
            LogEvent::Begin(commit) => {
                assert!(self.open.is_none(), "transactions do not overlap");
                assert!(self.last.as_ref().is_none_or(|last| last.csn < commit.csn), "commit order");
                self.open = Some(commit);
            }
            LogEvent::Change(change) => {
                assert!(self.open.is_some(), "changes stand in transactions");
                return Some(change);
            }
            LogEvent::Commit { next } => {
                self.last = self.open.take();
                assert!(self.last.is_some(), "a commit has a begin");
                assert!(self.next.as_ref().is_none_or(|before| *before < next), "positions grow");
                self.next = Some(next);
            }
            LogEvent::Idle { next } => {
                assert!(self.open.is_none(), "idle stands between transactions");
                self.next = Some(next);
            }
            LogEvent::Object(object) => panic!("nobody has asked for {object:?}"),
            LogEvent::Notice(text) => self.notices.push(text),
        }
        None
    }

    pub fn last(&self) -> &Commit {
        self.last.as_ref().expect("a transaction")
    }

    /// What came, in short words.
    pub fn told(&mut self) -> Vec<String> {
        self.drain().iter().map(describe).collect()
    }
}

pub fn request(start: &LogPosition, tables: Arc<dyn TableSelection>) -> SourceRequest {
    SourceRequest { group: GROUP.to_owned(), start: start.clone(), tables }
}

/// `insert item [i1 ta NULL]`
pub fn describe(change: &change::Change) -> String {
    let table = &change.table.name.table;
    match &change.operation {
        Operation::Insert { new } => format!("insert {table} {}", image(new)),
        Operation::Update { old: Some(old), new } => format!("update {table} {} -> {}", image(old), image(new)),
        Operation::Update { old: None, new } => format!("update {table} -> {}", image(new)),
        Operation::Delete { old } => format!("delete {table} {}", image(old)),
        Operation::Truncate(_) => format!("truncate {table}"),
    }
}

fn image(row: &Row) -> String {
    let values: Vec<String> = row
        .values()
        .map(|value| match value {
            Value::Null => "NULL".to_owned(),
            Value::Unchanged => "~".to_owned(),
            Value::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        })
        .collect();
    format!("[{}]", values.join(" "))
}

/// A registered source.
pub struct Stage {
    pub file: File,
    pub database: Arc<dyn Database>,
    pub user: Connection,
    pub start: LogPosition,
    pub tables: Arc<dyn TableSelection>,
}

impl Stage {
    pub fn new(schema: &str) -> Stage {
        Stage::choosing(schema, Choice::all())
    }

    pub fn choosing(schema: &str, tables: Arc<dyn TableSelection>) -> Stage {
        let file = File::create(schema);
        let database = file.database();
        let start = database.register_capture(GROUP, &*tables).expect("capture");
        Stage { user: file.user(), database, start, tables, file }
    }

    pub fn write(&self, sql: &str) {
        self.user.execute_batch(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    }

    pub fn stream(&self) -> Stream {
        Stream::open(&*self.database, &self.start, Arc::clone(&self.tables))
    }
}

/// A target that follows a stream.
pub struct Follower {
    pub file: File,
    session: Box<dyn Session>,
    plans: HashMap<*const TableDefinition, Arc<TablePlan>>,
}

pub fn session_request(triggers: TriggerPolicy, foreign_keys: ForeignKeyPolicy) -> SessionRequest {
    SessionRequest {
        group: "R1".to_owned(),
        group_key: 7_331,
        checkpoint_table: TableName::new("main", "checkpoint"),
        triggers,
        foreign_keys,
    }
}

impl Follower {
    pub fn new(schema: &str) -> Follower {
        Follower::on(File::create(schema), TriggerPolicy::Suppress, ForeignKeyPolicy::Ignore)
    }

    pub fn on(file: File, triggers: TriggerPolicy, foreign_keys: ForeignKeyPolicy) -> Follower {
        let session = file.database().open_session(session_request(triggers, foreign_keys)).expect("a session");
        Follower { file, session, plans: HashMap::new() }
    }

    /// Applies changes in one transaction.
    pub fn apply(&mut self, changes: &[change::Change]) {
        self.session.begin().expect("a transaction");
        for change in changes {
            let plan = self.plan(&change.table);
            let write = Write { plan: &plan, operation: &change.operation };
            self.session.apply(&[write]).unwrap_or_else(|error| panic!("{}: {error:?}", describe(change)));
        }
        self.session.commit().expect("a commit");
    }

    pub fn plan(&mut self, source: &Arc<TableDefinition>) -> Arc<TablePlan> {
        let session = &mut self.session;
        let plan = self.plans.entry(Arc::as_ptr(source)).or_insert_with(|| plan(&mut **session, source));
        Arc::clone(plan)
    }
}

/// Same names on both sides; the source's key finds the row.
pub fn plan(session: &mut dyn Session, source: &Arc<TableDefinition>) -> Arc<TablePlan> {
    let target = session.table(&source.name).expect("the catalog").expect("the target table");
    let pair = |index: usize| {
        let target =
            target.columns.iter().position(|column| column.name.eq_ignore_ascii_case(&source.columns[index].name));
        target.map(|target| ColumnPair { source: index, target })
    };
    let mut columns: Vec<ColumnPair> = (0..source.columns.len()).filter_map(pair).collect();
    columns.retain(|pair| !target.columns[pair.target].generation.is_computed());
    columns.sort_by_key(|pair| pair.target);
    let key = source.key().into_iter().filter_map(pair).collect();
    Arc::new(TablePlan {
        source: Arc::clone(source),
        target,
        columns,
        key,
        on_duplicate: database::OnDuplicate::Refuse,
    })
}

/// All rows of a table as SQL shows them, typed, in the order of their text.
pub fn rows(connection: &Connection, table: &str) -> Vec<String> {
    let quoted = table.replace('"', "\"\"");
    let mut statement = connection.prepare(&format!("SELECT * FROM \"{quoted}\"")).expect("the table");
    let columns = statement.column_count();
    let mut rows: Vec<String> = statement
        .query_map([], |row| {
            let values: Vec<String> =
                (0..columns).map(|index| format!("{:?}", row.get_ref(index).expect("a value"))).collect();
            Ok(values.join(" "))
        })
        .expect("a query")
        .map(|row| row.expect("a row"))
        .collect();
    rows.sort();
    rows
}

pub fn checkpoint_row(sequence: u32) -> CheckpointRow {
    let time = change::Timestamp::from_unix_micros(1_700_000_000_123_456);
    CheckpointRow {
        group_name: "R1".to_owned(),
        group_key: 7_331,
        sequence,
        rba: 4_711,
        audit_time: Some(time),
        created: time,
        updated: time,
        directory: "/srv/drover".to_owned(),
        log_bsn: None,
        log_csn: Some("00000000000000000009".to_owned()),
        log_complete_csn: Some("00000000000000000009".to_owned()),
        log_complete_transactions: vec!["9".to_owned()],
        version: CheckpointRow::VERSION,
    }
}

pub fn count(changes: &[change::Change], kind: OperationKind) -> usize {
    changes.iter().filter(|change| change.operation.kind() == kind).count()
}
