//! What a row costs each stage alone: from a source in memory into a trail on disk (Extract), and from that trail into a
//! target that only counts (Replicat). One line of JSON for each stage and kind of load.
//!
//! `cpu_ns_per_row` is time on the processor of the stage's own thread; `core_at_100k` is the share of a core that it takes
//! to move 100,000 rows a second. Rows have six columns and about 60 bytes of values.
//!
//! First each stage moves all rows as fast as it can. Then both run at once while the source tells 100,000 rows a second,
//! a few at a time; `core` is the share of a core that each thread took, `process` what all of them took.
//!
//! `cargo run --release -p testkit --example stages [ROWS [DIRECTORY]]`

use apply::{GroupLimits, Replicat, ReplicatSetup};
use capture::{Extract, ExtractSetup, Selection};
use change::{
    CaseRule, Change, Column, Commit, Csn, LogPosition, LogicalType, Operation, RecordAddress, RowBuilder,
    TableDefinition, TableName, Timestamp, TransactionId, Value,
};
use database::{ApplyError, CheckpointRow, CheckpointSet, Error, LogEvent, LogSource, Session, Write};
use process::{
    Checkpoint, CheckpointBody, CheckpointFile, ExtractCheckpoint, GroupName, ReadCheckpoint, ReplicatCheckpoint,
    StopStatus, WriteCheckpoint, clock,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use trail::storage::{Directory, Storage};
use trail::{Position, TrailName, Writer, WriterOptions};

/// Events that the source tells at once.
const BATCH_EVENTS: usize = 2000;

/// How long a step may wait for work.
const WAIT: Duration = Duration::from_millis(100);

/// How long the source lets a reader wait that has taken everything.
const PAUSE: Duration = Duration::from_micros(100);

fn main() {
    let rows: u64 = std::env::args().nth(1).map_or(500_000, |text| text.parse().expect("a number of rows"));
    let parent = std::env::args().nth(2).map_or_else(std::env::temp_dir, Into::into);
    for (rows_per_transaction, tables) in [(1, 1), (10, 1), (10, 4), (1000, 1), (1000, 4)] {
        let folder = tempfile::tempdir_in(&parent).expect("a directory");
        let storage: Arc<dyn Storage> = Arc::new(Directory::new(folder.path()));
        let load = Load { rows, rows_per_transaction, tables, rows_per_second: None };
        load.measure("extract", &mut extract(&storage, &load));
        load.measure("replicat", &mut replicat(&storage));
    }
    for rows_per_transaction in [1, 10, 1000] {
        let folder = tempfile::tempdir_in(&parent).expect("a directory");
        let storage: Arc<dyn Storage> = Arc::new(Directory::new(folder.path()));
        Load { rows, rows_per_transaction, tables: 4, rows_per_second: Some(100_000) }.measure_both(&storage);
    }
}

/// What is moved.
struct Load {
    rows: u64,
    rows_per_transaction: u64,
    tables: usize,
    /// `None`: as many as are taken.
    rows_per_second: Option<u64>,
}

impl Load {
    /// Runs `step` until it says that there is nothing left, and prints what it took.
    fn measure(&self, stage: &str, step: &mut dyn FnMut() -> bool) {
        let (start, cpu) = (Instant::now(), thread_nanos());
        while step() {}
        let (wall, cpu) = (start.elapsed().as_secs_f64(), thread_nanos() - cpu);
        let Load { rows, rows_per_transaction, tables, .. } = self;
        let nanos = cpu as f64 / *rows as f64;
        println!(
            "{{\"stage\":\"{stage}\",\"rows_per_transaction\":{rows_per_transaction},\"tables\":{tables},\
             \"rows_s\":{:.0},\"cpu_ns_per_row\":{nanos:.0},\"core_at_100k\":{:.3}}}",
            *rows as f64 / wall,
            nanos / 1e4,
        );
    }
}

impl Load {
    /// Runs both stages at once, each on a thread of its own.
    fn measure_both(&self, storage: &Arc<dyn Storage>) {
        let is_written = AtomicBool::new(false);
        let start = Instant::now();
        let process = process_nanos();
        let run = |step: &mut dyn FnMut() -> bool, is_last: &dyn Fn() -> bool| {
            let cpu = thread_nanos();
            while step() || !is_last() {}
            (thread_nanos() - cpu) as f64
        };
        let (extract, replicat) = std::thread::scope(|scope| {
            let extract = scope.spawn(|| {
                let nanos = run(&mut extract(storage, self), &|| true);
                is_written.store(true, Ordering::Release);
                nanos
            });
            let replicat = run(&mut replicat(storage), &|| is_written.load(Ordering::Acquire));
            (extract.join().expect("the Extract ends"), replicat)
        });
        let wall = start.elapsed();
        let core = |nanos: f64| nanos / wall.as_nanos() as f64;
        println!(
            "{{\"stage\":\"both\",\"rows_per_transaction\":{},\"tables\":{},\"rows_s\":{:.0},\"extract_core\":{:.3},\
             \"replicat_core\":{:.3},\"process_core\":{:.3}}}",
            self.rows_per_transaction,
            self.tables,
            self.rows as f64 / wall.as_secs_f64(),
            core(extract),
            core(replicat),
            core((process_nanos() - process) as f64),
        );
    }
}

/// Nanoseconds that this process has been on a processor, to the hundredth of a second.
fn process_nanos() -> u64 {
    let text = std::fs::read_to_string("/proc/self/stat").expect("a Linux kernel");
    let ticks = text.rsplit(')').next().unwrap_or_default().split_whitespace().skip(11).take(2);
    ticks.map(|ticks| ticks.parse::<u64>().expect("a number of ticks")).sum::<u64>() * 10_000_000
}

/// Nanoseconds that this thread has been on a processor.
fn thread_nanos() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("a Linux kernel that counts");
    text.split(' ').next().and_then(|nanos| nanos.parse().ok()).expect("a number comes first")
}

fn definition(number: usize) -> TableDefinition {
    let column = |name: &str, logical| Column::new(name, logical, "native");
    let columns = vec![
        column("id", LogicalType::Integer).with_key(0),
        column("name", LogicalType::Text),
        column("amount", LogicalType::Decimal),
        column("changed", LogicalType::Timestamp),
        column("state", LogicalType::Text),
        column("note", LogicalType::Text),
    ];
    TableDefinition { name: TableName::new("main", format!("account{number}")), columns: columns.into() }
}

/// A source that has everything in memory.
struct Told {
    /// Changes of one batch, which come again and again.
    changes: Vec<Change>,
    told: u64,
    load: Load,
    start: Instant,
    is_told: Arc<AtomicBool>,
}

impl Told {
    fn new(load: &Load) -> Told {
        let tables: Vec<_> = (0..load.tables).map(|number| Arc::new(definition(number))).collect();
        let mut builder = RowBuilder::new();
        let changes = (0..BATCH_EVENTS)
            .map(|number| {
                let id = format!("{number:08}");
                for text in [id.as_str(), "somebody's name", "1234.50", "2026-11-30 13:00:00.123456", "open"] {
                    builder.push(Value::Bytes(text.as_bytes()));
                }
                builder.push(Value::Null);
                let operation = Operation::Insert { new: builder.finish() };
                let table = Arc::clone(&tables[number % tables.len()]);
                Change { table, operation, address: RecordAddress { position: number as u64, offset: 0 } }
            })
            .collect();
        Told { changes, told: 0, load: Load { ..*load }, start: Instant::now(), is_told: Arc::default() }
    }

    /// Rows that may be told by now: whole transactions.
    fn due(&self) -> u64 {
        let Some(rows_per_second) = self.load.rows_per_second else { return self.load.rows };
        let rows = (self.start.elapsed().as_secs_f64() * rows_per_second as f64) as u64;
        (rows - rows % self.load.rows_per_transaction).min(self.load.rows)
    }

    fn position(&self) -> LogPosition {
        LogPosition::new(format!("{:020}", self.told))
    }
}

impl LogSource for Told {
    fn read(&mut self, events: &mut Vec<LogEvent>, wait: Duration) -> Result<(), Error> {
        let mut due = self.due();
        if due <= self.told && self.told < self.load.rows && !wait.is_zero() {
            std::thread::sleep(PAUSE.min(wait));
            due = self.due();
        }
        while events.len() < BATCH_EVENTS && self.told < due {
            if self.told.is_multiple_of(self.load.rows_per_transaction) {
                let number = self.told / self.load.rows_per_transaction + 1;
                events.push(LogEvent::Begin(Commit {
                    csn: Csn::new(format!("{number:020}")),
                    transaction: TransactionId::new(format!("{number}")),
                    time: Timestamp::from_unix_micros(1_796_000_000_000_000 + number as i64),
                }));
            }
            events.push(LogEvent::Change(self.changes[self.told as usize % self.changes.len()].clone()));
            self.told += 1;
            if self.told.is_multiple_of(self.load.rows_per_transaction) || self.told == self.load.rows {
                events.push(LogEvent::Commit { next: self.position() });
            }
        }
        self.is_told.store(self.told == self.load.rows, Ordering::Release);
        Ok(())
    }

    fn release(&mut self, _position: &LogPosition) -> Result<(), Error> {
        Ok(())
    }
}

fn checkpoint(storage: &Arc<dyn Storage>, group: &str, body: CheckpointBody) -> CheckpointFile {
    let now = clock::now();
    let first = Checkpoint { created: now, started: None, updated: now, stop_status: StopStatus::Active, body };
    let group = GroupName::parse(group).expect("a group name");
    CheckpointFile::create(Arc::clone(storage), first.kind(), &group, &first).expect("a checkpoint file")
}

fn trail_name() -> TrailName {
    TrailName::parse("aa").expect("a trail name")
}

fn extract(storage: &Arc<dyn Storage>, load: &Load) -> impl FnMut() -> bool {
    let start = ReadCheckpoint { position: LogPosition::new("0"), time: None };
    let body = ExtractCheckpoint {
        startup: start.clone(),
        recovery: start.clone(),
        current: start,
        written: None,
        trails: vec![WriteCheckpoint {
            name: "./dirdat/aa".to_owned(),
            megabytes: 500,
            position: None,
            is_remote: false,
        }],
        log_file_bytes: None,
        input: None,
        streams: Vec::new(),
        bounded: None,
        left_out: Vec::new(),
    };
    let text = "EXTRACT e1\nSOURCEDB memory:s\nEXTTRAIL ./dirdat/aa\nTABLE main.*;\n";
    let parameters = parameter::parse_extract(text, "e1.prm").expect("parameters");
    let options = WriterOptions::new(trail_name(), 500_000_000, Arc::new(clock::now));
    let source = Told::new(load);
    let is_told = Arc::clone(&source.is_told);
    let setup = ExtractSetup {
        source: (Box::new(source) as Box<dyn database::LogSource>).into(),
        tables: Arc::new(Selection::new(&parameters.tables, CaseRule::Sensitive, "main")),
        definitions: Vec::new(),
        writer: Writer::open(Arc::clone(storage), options).expect("a trail"),
        checkpoint: checkpoint(storage, "E1", CheckpointBody::Extract(body)),
        clock: Arc::new(clock::now),
        notice: Box::new(|_| {}),
        pace: capture::Pace::default(),
    };
    let mut extract = Some(Extract::new(setup).expect("an Extract"));
    move || {
        let step = extract.as_mut().expect("not stopped").step(WAIT).expect("a step");
        let is_done = matches!(step, capture::Step::Idle) && is_told.load(Ordering::Acquire);
        if is_done {
            extract.take().map(Extract::stop).transpose().expect("a clean stop");
        }
        !is_done
    }
}

/// A target that takes everything and keeps the checkpoint row.
struct Counting {
    row: CheckpointRow,
    tables: Vec<TableDefinition>,
    writes: u64,
}

impl Session for Counting {
    fn table(&mut self, name: &TableName) -> Result<Option<TableDefinition>, Error> {
        Ok(self.tables.iter().find(|table| table.name == *name).cloned())
    }

    fn begin(&mut self) -> Result<(), Error> {
        Ok(())
    }

    fn apply(&mut self, writes: &[Write<'_>]) -> Result<(), ApplyError> {
        self.writes += std::hint::black_box(writes).len() as u64;
        Ok(())
    }

    fn load_checkpoint(&mut self) -> Result<Option<CheckpointRow>, Error> {
        Ok(Some(self.row.clone()))
    }

    fn load_checkpoints(&mut self) -> Result<Option<CheckpointSet>, Error> {
        Ok(Some(CheckpointSet::alone(self.row.clone())))
    }

    fn replace_checkpoints(&mut self, set: &CheckpointSet) -> Result<(), Error> {
        self.row.clone_from(&set.group);
        Ok(())
    }

    fn save_checkpoint(&mut self, row: &CheckpointRow) -> Result<(), Error> {
        self.row.clone_from(row);
        Ok(())
    }

    fn commit(&mut self) -> Result<(), ApplyError> {
        Ok(())
    }

    fn rollback(&mut self) -> Result<(), Error> {
        Ok(())
    }
}

fn replicat(storage: &Arc<dyn Storage>) -> impl FnMut() -> bool {
    let row = CheckpointRow {
        group_name: "R1".to_owned(),
        group_key: 1,
        sequence: 0,
        rba: 0,
        audit_time: None,
        created: clock::now(),
        updated: clock::now(),
        directory: String::new(),
        log_bsn: None,
        log_csn: None,
        log_complete_csn: None,
        log_complete_transactions: Vec::new(),
        version: CheckpointRow::VERSION,
    };
    let body = ReplicatCheckpoint {
        trail: "./dirdat/aa".to_owned(),
        checkpoint_table: TableName::new("main", "checkpoints"),
        group_key: row.group_key,
        startup: Position::default(),
        current: Position::default(),
        applied: None,
        mode: Default::default(),
    };
    let text = "REPLICAT r1\nTARGETDB memory:t\nMAP main.*, TARGET main.*;\n";
    let parameters = parameter::parse_replicat(text, "r1.prm").expect("parameters");
    let tables: Vec<_> = (0..4).map(definition).collect();
    let setup = ReplicatSetup {
        group: "R1".to_owned(),
        storage: Arc::clone(storage),
        trail: trail_name(),
        keys: None,
        definitions: Vec::new(),
        connect: Box::new(move || {
            Ok(Box::new(Counting { row: row.clone(), tables: tables.clone(), writes: 0 }) as Box<dyn Session>)
        }),
        rules: parameters.map.plan(CaseRule::Sensitive, "main", CaseRule::Sensitive, "main"),
        limits: GroupLimits::with_operations(parameters.group_transactions),
        checkpoint: checkpoint(storage, "R1", CheckpointBody::Replicat(body)),
        directory: "/home".to_owned(),
        clock: Arc::new(clock::now),
        notice: Box::new(|_| {}),
        pace: apply::Pace::default(),
        start: apply::StartOptions::default(),
    };
    let mut replicat = Replicat::new(setup).expect("a Replicat");
    move || !matches!(replicat.step(WAIT).expect("a step"), apply::Step::Idle)
}
