//! An Extract between a source in memory and a trail.

use capture::{Error, Extract, ExtractSetup, Pace, Phase, Selection, Step};
use change::{
    CaseRule, Change, Column, Commit, Csn, LogPosition, LogicalType, Operation, RecordAddress, Row, TableDefinition,
    TableName, Timestamp, TransactionId, Value,
};
use database::memory::{MemoryDatabase, MemoryOptions};
use database::{Database, LogEvent, LogSource, SourceRequest};
use process::{
    Checkpoint, CheckpointBody, CheckpointFile, ExtractCheckpoint, FilterReason, GroupKind, GroupName, ReadCheckpoint,
    StopStatus, WriteCheckpoint,
};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use trail::storage::{Forgetful, Storage};
use trail::{Reader, Record, Start, TrailName, Writer, WriterOptions};

fn name(table: &str) -> TableName {
    TableName::new("main", table)
}

fn definition(table: &str) -> TableDefinition {
    let column = |name: &str| Column::new(name, LogicalType::Text, "text");
    TableDefinition { name: name(table), columns: [column("id").with_key(0), column("value")].into() }
}

fn group() -> GroupName {
    GroupName::parse("E1").unwrap()
}

fn trail() -> TrailName {
    TrailName::parse("aa").unwrap()
}

struct Stage {
    disk: Forgetful,
    source: MemoryDatabase,
    clock: Arc<AtomicI64>,
    notices: Arc<Mutex<Vec<String>>>,
}

impl Stage {
    /// A source with tables `t` and `private`, and an added Extract that captures `t`.
    fn new() -> Stage {
        let stage = Stage::with_seed(1);
        stage.disk.work_at_once();
        stage
    }

    /// The same, on a disk that syncs when its seed likes.
    fn with_seed(seed: u64) -> Stage {
        let source = MemoryDatabase::new(MemoryOptions::new("source"));
        source.create_table(definition("t"), &[]).unwrap();
        source.create_table(definition("private"), &[]).unwrap();
        let stage = Stage {
            disk: Forgetful::new(seed),
            source,
            clock: Arc::new(AtomicI64::new(0)),
            notices: Arc::new(Mutex::new(Vec::new())),
        };
        let position = stage.source.register_capture("E1", &*stage.tables("main.*")).unwrap();
        let start = ReadCheckpoint { position, time: None };
        let body = CheckpointBody::Extract(ExtractCheckpoint {
            startup: start.clone(),
            recovery: start.clone(),
            current: start,
            written: None,
            trails: vec![WriteCheckpoint {
                name: "./dirdat/aa".to_owned(),
                megabytes: 1,
                position: None,
                is_remote: false,
            }],
            log_file_bytes: None,
            input: None,
            streams: Vec::new(),
            bounded: None,
            left_out: Vec::new(),
        });
        let time = Timestamp::default();
        let first = Checkpoint { created: time, started: None, updated: time, stop_status: StopStatus::Graceful, body };
        CheckpointFile::create(stage.storage(), GroupKind::Extract, &group(), &first).unwrap();
        stage
    }

    fn storage(&self) -> Arc<dyn Storage> {
        Arc::new(self.disk.clone())
    }

    fn tables(&self, table: &str) -> Arc<Selection> {
        let text = format!("EXTRACT e1\nSOURCEDB memory:s\nEXTTRAIL ./dirdat/aa\nTABLE {table};\n");
        let parameters = parameter::parse_extract(&text, "e1.prm").unwrap_or_else(|wrong| panic!("{wrong}"));
        Arc::new(Selection::new(&parameters.tables, CaseRule::Sensitive, "main"))
    }

    /// Starts the Extract. The source itself selects tables as `asked`, the Extract as `table`.
    fn start(
        &self,
        asked: &str,
        table: &str,
        wrap: impl FnOnce(Box<dyn LogSource>, &Stage) -> Box<dyn LogSource>,
    ) -> Result<Extract, Error> {
        let checkpoint = CheckpointFile::open(self.storage(), GroupKind::Extract, &group()).unwrap();
        let body = checkpoint.latest().extract().unwrap();
        let start = body.recovery.position.clone();
        let request = SourceRequest { group: "E1".to_owned(), start: start.clone(), tables: self.tables(asked) };
        let failed = |source| Error::Source { action: "open", position: start, source };
        let source = wrap(self.source.open_source(request).map_err(failed)?, self);
        let options = WriterOptions::new(trail(), 1 << 20, Arc::new(Timestamp::default));
        let (clock, notices) = (Arc::clone(&self.clock), Arc::clone(&self.notices));
        Extract::new(ExtractSetup {
            source: source.into(),
            tables: self.tables(table),
            definitions: self.source.tables().unwrap(),
            writer: Writer::open(self.storage(), options).unwrap(),
            checkpoint,
            clock: Arc::new(move || Timestamp::from_unix_micros(clock.load(Ordering::Relaxed))),
            notice: Box::new(move |line| notices.lock().unwrap().push(line.to_owned())),
            pace: Pace::default(),
        })
    }

    fn start_usual(&self) -> Result<Extract, Error> {
        self.start("main.t", "main.t", |source, _| source)
    }

    fn insert(&self, table: &str, id: &str) {
        let row = Row::from_values([Value::Bytes(id.as_bytes()), Value::Null]);
        self.source.write(|transaction| transaction.insert(&name(table), row.clone())).unwrap();
    }

    fn advance(&self, time: Duration) {
        self.clock.fetch_add(time.as_micros() as i64, Ordering::Relaxed);
    }

    fn saved(&self) -> ExtractCheckpoint {
        let saved = CheckpointFile::read(&self.disk, GroupKind::Extract, &group(), 1).unwrap();
        saved[0].extract().unwrap().clone()
    }

    /// Transactions that a reader of the trail gets.
    fn published(&self) -> Vec<Commit> {
        let mut reader = Reader::open(self.storage(), trail(), Start::Beginning).unwrap();
        let mut commits = Vec::new();
        while let Some(entry) = reader.next().unwrap() {
            match entry.record {
                Record::Change { place, commit, .. } if place.ends() => commits.push(commit),
                _ => {}
            }
        }
        commits
    }
}

/// Steps until there is nothing to do.
fn drain(extract: &mut Extract) -> Result<(), Error> {
    while !matches!(extract.step(Duration::ZERO)?, Step::Idle) {}
    Ok(())
}

/// A source that holds every release against what is durable.
struct Suspicious {
    source: Box<dyn LogSource>,
    disk: Forgetful,
}

impl LogSource for Suspicious {
    fn read(&mut self, events: &mut Vec<LogEvent>, wait: Duration) -> Result<(), database::Error> {
        self.source.read(events, wait)
    }

    fn release(&mut self, position: &LogPosition) -> Result<(), database::Error> {
        let saved = CheckpointFile::read(&self.disk, GroupKind::Extract, &group(), 1).unwrap();
        let saved = saved[0].extract().unwrap();
        assert!(*position <= saved.recovery.position, "{position} is not in the checkpoint");
        let mut reader = Reader::open(Arc::new(self.disk.clone()), trail(), Start::Beginning).unwrap();
        let mut published = vec![None];
        while let Some(entry) = reader.next().unwrap() {
            if let Record::Change { commit, .. } = entry.record {
                published.push(Some(commit));
            }
        }
        assert!(published.contains(&saved.written), "what the checkpoint names as written is published in the trail");
        self.source.release(position)
    }
}

#[test]
fn the_source_may_forget_only_what_trail_and_checkpoint_hold() {
    for seed in 0..20 {
        let stage = Stage::with_seed(seed);
        let suspicious = |source, stage: &Stage| Box::new(Suspicious { source, disk: stage.disk.clone() }) as _;
        let mut extract = stage.start("main.t", "main.t", suspicious).unwrap();
        for id in 0..50 {
            stage.insert("t", &format!("{id:02}"));
            stage.advance(Duration::from_millis(7));
            extract.step(Duration::ZERO).unwrap();
        }
        drain(&mut extract).unwrap();
        stage.advance(Duration::from_secs(1));
        drain(&mut extract).unwrap();
        assert_eq!(stage.source.log_transactions(), 0, "everything is released");
        assert_eq!(stage.published().len(), 50);
        extract.stop().unwrap();
    }
}

#[test]
fn while_a_sync_is_under_way_reading_goes_on() {
    let (mut read_meanwhile, mut published_meanwhile) = (0, 0);
    for seed in 0..20 {
        let stage = Stage::with_seed(seed);
        let mut extract = stage.start_usual().unwrap();
        for id in 0..20 {
            stage.insert("t", &id.to_string());
            stage.advance(Duration::from_millis(6));
            extract.step(Duration::ZERO).unwrap();
            let (read, published) = (extract.progress().transactions, stage.published().len() as u64);
            assert!(published <= read && read == id + 1);
            read_meanwhile += u64::from(published < read);
            published_meanwhile += u64::from(published > 0 && published < read);
        }
        extract.stop().unwrap();
        assert_eq!(stage.published().len(), 20);
    }
    assert!(read_meanwhile > 100 && published_meanwhile > 100, "{read_meanwhile}, {published_meanwhile}");
}

#[test]
fn an_idle_source_is_synced_at_once_and_a_busy_one_together() {
    let stage = Stage::new();
    let mut extract = stage.start_usual().unwrap();
    stage.insert("t", "1");
    assert!(matches!(extract.step(Duration::ZERO).unwrap(), Step::Worked));
    assert_eq!(stage.published().len(), 0);
    // Nothing more came.
    assert!(matches!(extract.step(Duration::ZERO).unwrap(), Step::Idle));
    assert_eq!(stage.published().len(), 1);
    // More comes all the time.
    for id in 2..5 {
        stage.insert("t", &id.to_string());
        extract.step(Duration::ZERO).unwrap();
    }
    assert_eq!(stage.published().len(), 1);
    stage.insert("t", "5");
    stage.advance(Duration::from_millis(6));
    extract.step(Duration::ZERO).unwrap();
    assert_eq!(stage.published().len(), 5);
}

/// A source that tells what it was given, batch by batch, and remembers how long it was allowed to wait.
struct Told {
    batches: Vec<Vec<LogEvent>>,
    waits: Arc<Mutex<Vec<Duration>>>,
}

impl LogSource for Told {
    fn read(&mut self, events: &mut Vec<LogEvent>, wait: Duration) -> Result<(), database::Error> {
        self.waits.lock().unwrap().push(wait);
        if !self.batches.is_empty() {
            events.append(&mut self.batches.remove(0));
        }
        Ok(())
    }

    fn release(&mut self, _position: &LogPosition) -> Result<(), database::Error> {
        Ok(())
    }
}

fn commit(number: u32) -> Commit {
    Commit {
        csn: Csn::new(format!("{number:020}")),
        transaction: TransactionId::new(format!("t{number}")),
        time: Timestamp::default(),
    }
}

fn change(id: &str) -> LogEvent {
    let new = Row::from_values([Value::Bytes(id.as_bytes()), Value::Null]);
    let address = RecordAddress::default();
    LogEvent::Change(Change { table: Arc::new(definition("t")), operation: Operation::Insert { new }, address })
}

#[test]
fn a_source_that_pauses_inside_a_transaction_is_waited_for() {
    let stage = Stage::new();
    let wait = Duration::from_millis(100);
    let waits = Arc::new(Mutex::new(Vec::new()));
    let end = || LogEvent::Commit { next: LogPosition::new("2") };
    let batches = vec![vec![LogEvent::Begin(commit(1)), change("1"), change("2")], vec![], vec![], vec![end()]];
    let source = Told { batches, waits: Arc::clone(&waits) };
    let mut extract = stage.start("main.t", "main.t", |_, _| Box::new(source)).unwrap();
    let mut step = || {
        extract.step(wait).unwrap();
        (waits.lock().unwrap().pop().unwrap(), stage.published().len())
    };
    assert_eq!(step(), (wait, 0));
    assert_eq!(step(), (Duration::ZERO, 0), "what was read waits for its sync");
    assert_eq!(step(), (wait, 0), "all but the record that is held back is synced");
    assert_eq!(step(), (wait, 0));
    assert_eq!(step(), (Duration::ZERO, 1), "and so is the end of the transaction");
    assert_eq!(step(), (wait, 1));
}

#[test]
fn a_clock_that_was_set_back_holds_nothing_up() {
    let stage = Stage::new();
    stage.advance(Duration::from_secs(7200));
    let mut extract = stage.start_usual().unwrap();
    stage.insert("t", "1");
    extract.step(Duration::ZERO).unwrap();
    stage.clock.fetch_sub(3_600_000_000, Ordering::Relaxed);
    // The source is busy all the time, so nothing is synced for lack of work.
    stage.insert("t", "2");
    extract.step(Duration::ZERO).unwrap();
    assert_eq!(stage.published().len(), 2);
    assert_eq!(stage.saved().written, stage.published().pop());
    assert_eq!(stage.source.log_transactions(), 0, "everything is released");
}

#[test]
fn a_quiet_source_is_not_taken_for_a_lag() {
    let stage = Stage::new();
    let mut extract = stage.start_usual().unwrap();
    stage.insert("t", "1");
    drain(&mut extract).unwrap();
    stage.advance(Duration::from_secs(1));
    drain(&mut extract).unwrap();
    let committed = stage.saved().recovery.time.unwrap();
    // A day after the only transaction, by the Extract's clock.
    let now = committed.unix_micros + 86_400_000_000;
    stage.clock.store(now, Ordering::Relaxed);
    drain(&mut extract).unwrap();
    assert_eq!(stage.saved().current.time, Some(Timestamp::from_unix_micros(now)), "everything up to now was read");
    assert_eq!(stage.saved().recovery.time, Some(committed), "the last transaction is as old as it is");
    stage.advance(Duration::from_secs(3600));
    extract.stop().unwrap();
    assert_eq!(stage.saved().current.time, Some(Timestamp::from_unix_micros(now)), "nobody looked since");
}

#[test]
fn transactions_of_other_tables_move_the_checkpoint_and_leave_the_trail_alone() {
    let stage = Stage::new();
    // A source that selects, and one that leaves selecting to the Extract.
    for asked in ["main.t", "main.*"] {
        let mut extract = stage.start(asked, "main.t", |source, _| source).unwrap();
        let trail = extract.progress().trail;
        let position = stage.saved().recovery.position;
        stage.insert("private", asked);
        drain(&mut extract).unwrap();
        stage.advance(Duration::from_secs(1));
        drain(&mut extract).unwrap();
        assert_eq!(extract.progress().trail, trail);
        assert!(stage.saved().recovery.position > position);
        assert_eq!(stage.source.log_transactions(), 0);
        let total = extract.statistics().total();
        assert_eq!((total.read, total.written), (total.filtered(FilterReason::NotMapped), 0));
        extract.stop().unwrap();
    }
}

#[test]
fn what_the_trail_holds_is_not_written_again() {
    let stage = Stage::new();
    let mut extract = stage.start_usual().unwrap();
    for id in 0..5 {
        stage.insert("t", &id.to_string());
    }
    drain(&mut extract).unwrap();
    // The process dies between the trail's sync and the next checkpoint.
    stage.disk.kill();
    drop(extract);
    assert_eq!(stage.saved().written, None);
    let mut extract = stage.start_usual().unwrap();
    assert_eq!(extract.phase(), Phase::Skipping);
    stage.insert("t", "5");
    drain(&mut extract).unwrap();
    assert_eq!(extract.phase(), Phase::Complete);
    let published = stage.published();
    assert_eq!(published.len(), 6);
    assert!(published.is_sorted_by(|before, after| before.csn < after.csn));
    let total = extract.statistics().total();
    assert_eq!((total.read, total.written, total.filtered(FilterReason::AlreadyDone)), (6, 1, 5));
    extract.stop().unwrap();
    assert_eq!(stage.saved().written, published.last().cloned());
}

#[test]
fn a_trail_that_lost_what_the_checkpoint_names_is_refused() {
    let stage = Stage::new();
    let mut extract = stage.start_usual().unwrap();
    stage.insert("t", "1");
    drain(&mut extract).unwrap();
    extract.stop().unwrap();
    for file in stage.disk.list().unwrap().iter().filter(|file| file.starts_with("aa")) {
        stage.disk.remove(file).unwrap();
    }
    let refused = stage.start_usual().err().expect("a refusal");
    assert!(matches!(refused, Error::TrailBehind { .. }), "{refused}");
    assert!(refused.to_string().contains("./dirdat/aa"), "{refused}");
}

#[test]
fn a_source_put_back_to_a_backup_is_refused() {
    let stage = Stage::new();
    let backup = stage.source.backup().unwrap();
    let mut extract = stage.start_usual().unwrap();
    stage.insert("t", "1");
    drain(&mut extract).unwrap();
    extract.stop().unwrap();
    stage.source.restore(&backup);
    let refused = stage.start_usual().err().expect("a refusal");
    assert!(
        matches!(&refused, Error::Source { source, .. } if source.class() == database::ErrorClass::Mismatch),
        "{refused}"
    );
}

#[test]
fn the_report_names_each_captured_table_with_its_key() {
    let stage = Stage::new();
    stage.start_usual().unwrap();
    assert_eq!(*stage.notices.lock().unwrap(), ["table main.t: key id"]);
}

#[test]
fn a_clean_stop_is_noted_and_a_dead_process_is_not() {
    let stage = Stage::new();
    let status = || CheckpointFile::read(&stage.disk, GroupKind::Extract, &group(), 1).unwrap()[0].stop_status;
    let extract = stage.start_usual().unwrap();
    assert_eq!(status(), StopStatus::Active);
    extract.stop().unwrap();
    assert_eq!(status(), StopStatus::Graceful);
}

/// Most bytes of values in a row that a trail takes.
const LARGEST: usize = 400 * 1024 * 1024;

/// A source with one transaction: a small row, and one that is too long for a trail.
struct TooLong {
    events: Vec<LogEvent>,
}

impl LogSource for TooLong {
    fn read(&mut self, events: &mut Vec<LogEvent>, _: Duration) -> Result<(), database::Error> {
        events.append(&mut self.events);
        Ok(())
    }

    fn release(&mut self, _: &LogPosition) -> Result<(), database::Error> {
        Ok(())
    }
}

#[test]
fn a_row_that_is_too_long_for_a_trail_stops_the_group_and_leaves_nothing_of_its_transaction() {
    let stage = Stage::new();
    stage.insert("t", "before");
    let mut extract = stage.start_usual().unwrap();
    drain(&mut extract).unwrap();
    extract.stop().unwrap();
    let written = stage.published();
    assert_eq!(written.len(), 1);

    let table = Arc::new(definition("t"));
    // Zeros that nobody has touched take no memory.
    let zeros = bytes::Bytes::from(vec![0; LARGEST + 1]);
    let long = change::RowBuilder::over(&zeros, [Ok(0..1), Ok(1..LARGEST + 1)]);
    let small = Row::from_values([Value::Bytes(b"small"), Value::Null]);
    let insert = |new: Row, position| {
        let address = RecordAddress { position, offset: 0 };
        LogEvent::Change(Change { table: Arc::clone(&table), operation: Operation::Insert { new }, address })
    };
    for round in 0..2 {
        let (long, small) = (long.clone(), small.clone());
        let commit = Commit { csn: Csn::new("9"), transaction: TransactionId::new("9"), time: Timestamp::default() };
        let events = vec![LogEvent::Begin(commit), insert(small, 1), insert(long, 2)];
        let mut extract = stage.start("main.t", "main.t", |_, _| Box::new(TooLong { events })).unwrap();
        let error = extract.step(Duration::ZERO).unwrap_err();
        let failure = process::Failure::from(&error);
        assert_eq!(failure.code(), process::Code::ChangeRefused);
        let told = failure.message(Timestamp::default()).text;
        for words in ["main.t", "key id", "of them in value", "at most 419430400"] {
            assert!(told.contains(words), "{words} is not in {told}");
        }
        drop(extract);
        // Nothing of it is read, and a restart finds nothing that it would have to complete.
        assert_eq!(stage.published(), written, "round {round}");
        assert_eq!(stage.saved().written.as_ref(), written.last());
    }
    stage.insert("t", "after");
    let mut extract = stage.start_usual().unwrap();
    drain(&mut extract).unwrap();
    extract.stop().unwrap();
    assert_eq!(stage.published().len(), 2);
}
