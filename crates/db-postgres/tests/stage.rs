//! What tests of capture and apply stand on: databases on a shared server, streams, plans.

use crate::server::{Cluster, ClusterOptions};
use change::{Change, Commit, LogPosition, Operation, Row, TableDefinition, TableName, Timestamp, Value};
use database::{
    ApplyError, CheckpointRow, ColumnPair, Database, Error, ForeignKeyPolicy, LogEvent, LogSource, Session,
    SessionRequest, SourceRequest, TablePlan, TableSelection, TriggerPolicy, Write,
};
use db_postgres::wire::{Config, Connection, TextRow};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Which tables a test captures.
#[derive(Clone, Default)]
pub struct Choice {
    /// Only these tables of schema `public`, and the mark; all tables when empty.
    pub only: Vec<&'static str>,
    pub required: Vec<&'static str>,
    pub key: Vec<(&'static str, Vec<&'static str>)>,
}

impl TableSelection for Choice {
    fn selects(&self, table: &TableName) -> bool {
        let name = table.table.as_str();
        self.only.is_empty() || name == MARK || self.only.contains(&name)
    }

    fn required(&self) -> Vec<TableName> {
        self.required.iter().map(|table| TableName::new("public", *table)).collect()
    }

    fn key_columns(&self, table: &TableName) -> Option<Vec<String>> {
        let (_, columns) = self.key.iter().find(|(name, _)| *name == table.table)?;
        Some(columns.iter().map(|column| (*column).to_owned()).collect())
    }
}

pub const MARK: &str = "drover_mark";

/// A server that tests share which do not stop it.
pub fn shared() -> &'static Cluster {
    static CLUSTER: OnceLock<Cluster> = OnceLock::new();
    CLUSTER.get_or_init(|| {
        let settings = [
            ("max_connections", "200"),
            ("max_replication_slots", "60"),
            ("max_wal_senders", "60"),
            ("fsync", "off"),
            ("max_prepared_transactions", "5"),
        ];
        Cluster::start(&ClusterOptions {
            settings: settings.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec(),
            ..ClusterOptions::default()
        })
    })
}

/// A database on a server.
pub struct Stage {
    pub cluster: &'static Cluster,
    pub name: String,
    pub user: Connection,
    marks: u32,
}

impl Stage {
    /// A fresh database with the tables that `sql` makes.
    pub fn new(sql: &str) -> Stage {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = format!("stage_{}", NUMBER.fetch_add(1, Ordering::Relaxed));
        connect(&shared().url("postgres")).run(&format!("CREATE DATABASE {name}")).unwrap();
        let user = connect(&shared().url(&name));
        let mut stage = Stage { cluster: shared(), name, user, marks: 0 };
        stage.run(&format!("CREATE TABLE {MARK} (number int PRIMARY KEY)"));
        stage.run(sql);
        stage
    }

    pub fn url(&self) -> String {
        self.cluster.url(&self.name)
    }

    pub fn database(&self) -> Arc<dyn Database> {
        db_postgres::open(&self.url()).unwrap()
    }

    /// Runs statements as a user.
    #[track_caller]
    pub fn run(&mut self, sql: &str) -> u64 {
        self.user.run(&format!("SET search_path = public, pg_catalog; {sql}")).unwrap()
    }

    /// The result of a query, as text with columns joined by bars.
    #[track_caller]
    pub fn ask(&mut self, sql: &str) -> Vec<String> {
        let results = self.user.simple_query(&format!("SET search_path = public, pg_catalog; {sql}")).unwrap();
        let text = |row: &TextRow| {
            (0..row.len()).map(|at| row.text(at).unwrap_or("NULL").to_owned()).collect::<Vec<_>>().join("|")
        };
        results.last().unwrap().rows.iter().map(text).collect()
    }

    pub fn register(&self, choice: &Choice) -> LogPosition {
        self.database().register_capture("E1", choice).unwrap()
    }

    pub fn open(&self, start: &LogPosition, choice: &Choice) -> Stream {
        Stream::new(self.try_open(start, choice).unwrap())
    }

    pub fn try_open(&self, start: &LogPosition, choice: &Choice) -> Result<Box<dyn LogSource>, Error> {
        self.database().open_source(SourceRequest {
            group: "E1".to_owned(),
            start: start.clone(),
            tables: Arc::new(choice.clone()),
        })
    }

    /// Everything that is committed so far, without the marks.
    #[track_caller]
    pub fn told(&mut self, stream: &mut Stream) -> Vec<Change> {
        self.try_told(stream).unwrap()
    }

    pub fn try_told(&mut self, stream: &mut Stream) -> Result<Vec<Change>, Error> {
        self.marks += 1;
        let number = self.marks.to_string();
        self.run(&format!("INSERT INTO {MARK} VALUES ({number})"));
        let mut told = Vec::new();
        let mut found = false;
        while !found {
            stream.read()?;
            for change in stream.changes.drain(..) {
                if change.table.name.table != MARK {
                    told.push(change);
                } else if let Operation::Insert { new } = &change.operation {
                    found |= new.value(0) == Value::Bytes(number.as_bytes());
                }
            }
        }
        Ok(told)
    }

    pub fn session(&self) -> Box<dyn Session> {
        self.session_with(TriggerPolicy::Suppress, ForeignKeyPolicy::Ignore)
    }

    pub fn session_with(&self, triggers: TriggerPolicy, foreign_keys: ForeignKeyPolicy) -> Box<dyn Session> {
        self.database().open_session(request("R1", triggers, foreign_keys)).unwrap()
    }
}

/// Leaves no slot behind on the shared server, where their number is limited.
impl Drop for Stage {
    fn drop(&mut self) {
        let _ = self.database().unregister_capture("E1");
    }
}

pub fn request(group: &str, triggers: TriggerPolicy, foreign_keys: ForeignKeyPolicy) -> SessionRequest {
    let checkpoint_table = TableName::new("public", "drover_checkpoint");
    SessionRequest { group: group.to_owned(), group_key: 1, checkpoint_table, triggers, foreign_keys }
}

pub fn connect(url: &str) -> Connection {
    Connection::connect(&Config::parse(url).unwrap()).unwrap()
}

/// What a source tells.
pub struct Stream {
    pub source: Box<dyn LogSource>,
    pub changes: Vec<Change>,
    pub commits: Vec<(Commit, LogPosition)>,
    pub notices: Vec<String>,
    pub idle: Option<LogPosition>,
    open: Option<Commit>,
}

impl Stream {
    pub fn new(source: Box<dyn LogSource>) -> Stream {
        Stream { source, changes: Vec::new(), commits: Vec::new(), notices: Vec::new(), idle: None, open: None }
    }

    pub fn read(&mut self) -> Result<(), Error> {
        let mut events = Vec::new();
        let result = self.source.read(&mut events, Duration::from_millis(200));
        for event in events {
            match event {
                LogEvent::Begin(commit) => self.open = Some(commit),
                LogEvent::Change(change) => self.changes.push(change),
                LogEvent::Commit { next } => self.commits.push((self.open.take().expect("begun"), next)),
                LogEvent::Idle { next } => self.idle = Some(next),
                LogEvent::Object(object) => panic!("nobody has asked for {object:?}"),
                LogEvent::Notice(text) => self.notices.push(text),
            }
        }
        result
    }
}

/// A change in words: values separated by commas, `~` for what is not told.
pub fn words(change: &Change) -> String {
    let row = |row: &Row| {
        let text = |value: Value<'_>| match value {
            Value::Null => "NULL".to_owned(),
            Value::Unchanged => "~".to_owned(),
            Value::Bytes(bytes) if bytes.len() > 40 => format!("({} bytes)", bytes.len()),
            Value::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        };
        row.values().map(text).collect::<Vec<_>>().join(",")
    };
    let table = &change.table.name.table;
    match &change.operation {
        Operation::Insert { new } => format!("insert {table} {}", row(new)),
        Operation::Update { old: None, new } => format!("update {table} {}", row(new)),
        Operation::Update { old: Some(old), new } => format!("update {table} {} -> {}", row(old), row(new)),
        Operation::Delete { old } => format!("delete {table} {}", row(old)),
        Operation::Truncate(_) => format!("truncate {table}"),
    }
}

pub fn all_words(changes: &[Change]) -> Vec<String> {
    changes.iter().map(words).collect()
}

/// Pairs columns of equal names, without those that the target computes; finds rows by the source's key.
pub fn plan(session: &mut dyn Session, source: &Arc<TableDefinition>) -> Result<Arc<TablePlan>, Error> {
    let target = session.table(&source.name)?.expect("the target has the table");
    let columns = target.columns.iter().enumerate().filter(|(_, column)| !column.generation.is_computed());
    let columns =
        columns.filter_map(|(at, column)| Some(ColumnPair { source: source.column(&column.name)?, target: at }));
    let columns = columns.collect();
    let key = source.key().into_iter().map(|at| {
        let target = target.column(&source.columns[at].name).expect("the target has the key");
        ColumnPair { source: at, target }
    });
    let key = key.collect();
    Ok(Arc::new(TablePlan {
        source: Arc::clone(source),
        target,
        columns,
        key,
        on_duplicate: database::OnDuplicate::Refuse,
    }))
}

/// Applies changes as one call in one transaction.
pub fn apply(session: &mut dyn Session, changes: &[Change]) -> Result<(), ApplyError> {
    session.begin()?;
    apply_more(session, changes)?;
    session.commit()
}

/// Applies changes as one call in the open transaction.
pub fn apply_more(session: &mut dyn Session, changes: &[Change]) -> Result<(), ApplyError> {
    let mut plans: Vec<Arc<TablePlan>> = Vec::new();
    for change in changes {
        if !plans.iter().any(|plan| Arc::ptr_eq(&plan.source, &change.table)) {
            plans.push(plan(session, &change.table)?);
        }
    }
    let of = |change: &Change| plans.iter().find(|plan| Arc::ptr_eq(&plan.source, &change.table)).expect("planned");
    let writes: Vec<Write<'_>> =
        changes.iter().map(|change| Write { plan: of(change), operation: &change.operation }).collect();
    session.apply(&writes)
}

pub fn checkpoint(group: &str) -> CheckpointRow {
    CheckpointRow {
        group_name: group.to_owned(),
        group_key: 1,
        sequence: 1,
        rba: 1000,
        audit_time: None,
        created: Timestamp::from_unix_micros(0),
        updated: Timestamp::from_unix_micros(0),
        directory: "home".to_owned(),
        log_bsn: None,
        log_csn: None,
        log_complete_csn: None,
        log_complete_transactions: Vec::new(),
        version: CheckpointRow::VERSION,
    }
}
