//! An Extract over a log that tells uncommitted work, under seeds: transactions interleave, are rolled back in parts or whole,
//! stay open for hours, and anything may die at any call.
//!
//! `DROVER_SIM_SECONDS` sets the time (5 s by default), `DROVER_SIM_SEED` replays one seed.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may panic")]

use capture::bounded::{self, Bounded, BoundedOptions};
use capture::open::{CommittedSource, CommittedSourceSetup, Place, Store, StoreOptions};
use capture::{Error, Extract, ExtractSetup, Force, LeaveOut, Pace, Phase, Selection, Step};
use change::{
    CaseRule, Change, Column, Commit, Csn, LogPosition, LogicalType, Operation, Row, TableDefinition, TableName,
    Timestamp, TransactionId, Value,
};
use database::ErrorClass;
use database::memory::MemoryLog;
use fastrand::Rng;
use process::{
    Checkpoint, CheckpointBody, CheckpointFile, ExtractCheckpoint, GroupKind, GroupName, ReadCheckpoint, StopStatus,
    WriteCheckpoint,
};
use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use trail::storage::{Forgetful, Storage};
use trail::{Reader, Record, Start, TrailName, Writer, WriterOptions};

const INTERVAL: Duration = bounded::INTERVAL_MIN;

fn group() -> GroupName {
    GroupName::parse("E1").unwrap()
}

fn trail() -> TrailName {
    TrailName::parse("aa").unwrap()
}

fn definition(columns: usize) -> Arc<TableDefinition> {
    let column = |number: usize| Column::new(format!("c{number}"), LogicalType::Text, "text");
    let mut columns: Vec<Column> = (0..columns).map(column).collect();
    columns[0].key = Some(0);
    Arc::new(TableDefinition { name: TableName::new("main", "t"), columns: columns.into() })
}

/// Why the Extract is not running.
#[derive(Debug)]
enum Ended {
    /// Of something that the world did to it.
    Killed(String),
    /// Of something that must not happen.
    Wrong(String),
}

struct World {
    random: Rng,
    log: MemoryLog,
    /// The machine, and the Extract's view of it.
    machine: Forgetful,
    disk: Forgetful,
    clock: Arc<AtomicI64>,
    tables: Arc<Selection>,
    shapes: [Arc<TableDefinition>; 2],
    extract: Option<Extract>,
    notices: Arc<Mutex<Vec<String>>>,
    memory_max: usize,
    /// Whether log is removed that Bounded Recovery makes needless.
    is_log_short: bool,
    deaths: usize,
    restores: usize,
    /// Transactions that an operator has skipped.
    left_out: Vec<TransactionId>,
    /// Those for which he got no answer.
    maybe_left_out: Vec<TransactionId>,
    /// What an operator has forced, with its place, and what may have been forced when the process died.
    forced: Vec<(Commit, Vec<Change>)>,
    maybe_forced: HashMap<TransactionId, Vec<Change>>,
}

impl World {
    fn new(seed: u64) -> World {
        let mut random = Rng::with_seed(seed);
        let log = MemoryLog::new(*random.choice([1, 3, 50].iter()).unwrap());
        let machine = Forgetful::new(random.u64(..));
        let text = "EXTRACT e1\nSOURCEDB memory:s\nEXTTRAIL ./dirdat/aa\nTABLE main.*;\n";
        let parameters = parameter::parse_extract(text, "e1.prm").unwrap_or_else(|wrong| panic!("{wrong}"));
        let start = ReadCheckpoint { position: log.end(), time: None };
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
        CheckpointFile::create(Arc::new(machine.clone()), GroupKind::Extract, &group(), &first).unwrap();
        World {
            log,
            disk: machine.another_process(),
            machine,
            clock: Arc::new(AtomicI64::new(0)),
            tables: Arc::new(Selection::new(&parameters.tables, CaseRule::Sensitive, "main")),
            shapes: [definition(2), definition(3)],
            extract: None,
            notices: Arc::default(),
            memory_max: *random.choice([0, 3_000, 1 << 20].iter()).unwrap(),
            is_log_short: random.bool(),
            deaths: 0,
            restores: 0,
            left_out: Vec::new(),
            maybe_left_out: Vec::new(),
            forced: Vec::new(),
            maybe_forced: HashMap::new(),
            random,
        }
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_unix_micros(self.clock.load(Ordering::Relaxed))
    }

    fn advance(&self, time: Duration) {
        self.clock.fetch_add(time.as_micros() as i64, Ordering::Relaxed);
        self.log.set_time(self.now());
    }

    fn start(&mut self) -> Result<Extract, Ended> {
        let storage: Arc<dyn Storage> = Arc::new(self.disk.clone());
        let checkpoint = CheckpointFile::open(Arc::clone(&storage), GroupKind::Extract, &group())
            .map_err(|error| Ended::Killed(error.to_string()))?;
        let body = checkpoint.latest().extract().unwrap();
        let reader = self.clock.clone();
        let clock: Arc<dyn Fn() -> Timestamp + Send + Sync> =
            Arc::new(move || Timestamp::from_unix_micros(reader.load(Ordering::Relaxed)));
        let options = StoreOptions { name: "E1".to_owned(), memory_max: self.memory_max };
        let store = Store::open(Arc::clone(&storage), options).map_err(|error| Ended::Killed(error.to_string()))?;
        let options = BoundedOptions {
            group: "E1".to_owned(),
            interval: INTERVAL,
            keep_stale_files: false,
            off_on_failure: false,
            reset: false,
            tables: 1,
        };
        let setup = CommittedSourceSetup {
            start: body.recovery.position.clone(),
            store,
            bounded: Some(Bounded::new(Arc::clone(&storage), options)),
            left_out: body.left_out.iter().map(|told| told.transaction.clone()).collect(),
            prepared: None,
            clock: Arc::clone(&clock),
        };
        let place = Place::parse(&setup.start);
        let source = CommittedSource::open(setup, |start| self.log.open(start).map(Some))
            .map_err(|error| {
                let full = std::error::Error::source(&error).and_then(|cause| cause.downcast_ref());
                let is_full = matches!(full, Some(capture::open::Error::Full { .. }));
                // Objects that could not be read make the log be asked for more than it holds.
                if is_full || self.disk.has_failed() {
                    Ended::Killed(error.to_string())
                } else {
                    Ended::Wrong(error.to_string())
                }
            })?
            .unwrap();
        self.restores += usize::from(self.log.last_start() > place.recovery);
        let options = WriterOptions {
            expected: body.trails[0].position,
            ..WriterOptions::new(trail(), 20_000, Arc::new(Timestamp::default))
        };
        let writer = Writer::open(storage, options).map_err(|error| Ended::Killed(error.to_string()))?;
        let notices = Arc::clone(&self.notices);
        let setup = ExtractSetup {
            source: source.into(),
            tables: self.tables.clone(),
            definitions: Vec::new(),
            writer,
            checkpoint,
            clock,
            notice: Box::new(move |line| notices.lock().unwrap().push(line.to_owned())),
            pace: Pace::default(),
        };
        Extract::new(setup).map_err(|error| ended(&error))
    }

    /// Lets the Extract do something; whether there was anything to do.
    fn step(&mut self) -> Result<bool, Ended> {
        let Some(extract) = &mut self.extract else {
            self.extract = Some(self.start()?);
            return Ok(true);
        };
        match extract.step(Duration::ZERO) {
            Ok(step) => Ok(!matches!(step, Step::Idle)),
            Err(error) => Err(ended(&error)),
        }
    }

    fn kill(&mut self) {
        self.deaths += 1;
        self.disk.kill();
        self.extract = None;
    }

    /// What users of the source do.
    fn work(&mut self) {
        let open = self.log.open_transactions();
        if open.is_empty() || (open.len() < 6 && self.random.u8(..) < 60) {
            self.log.begin();
            return;
        }
        let transaction = *self.random.choice(open.iter()).unwrap();
        match self.random.u8(0..100) {
            0..=54 => self.change(transaction),
            55..=66 => self.log.savepoint(transaction),
            67..=74 => self.log.rollback_to_savepoint(transaction),
            75..=79 => self.log.release_savepoint(transaction),
            80..=83 => self.log.prepare(transaction, "gid"),
            // The oldest ones stay for long.
            _ if transaction == open[0] && self.random.u8(..) < 240 => self.change(transaction),
            84..=94 => self.log.commit(transaction),
            _ => self.log.abort(transaction),
        }
    }

    fn change(&mut self, transaction: u64) {
        let shape = &self.shapes[usize::from(self.random.u8(..) < 30)];
        let text = vec![b'v'; self.random.usize(0..400)];
        let key = self.random.u32(..).to_string();
        let values = [Value::Bytes(key.as_bytes()), Value::Bytes(&text), Value::Null];
        let row = Row::from_values(values.into_iter().take(shape.columns.len()));
        let operation = match self.random.u8(0..4) {
            0 | 1 => Operation::Insert { new: row },
            2 => Operation::Update { old: Some(row.clone()), new: row },
            _ => Operation::Delete { old: row },
        };
        self.log.change(transaction, shape, operation);
    }

    fn harm(&mut self) {
        match self.random.u8(0..8) {
            0 | 1 => self.kill(),
            2 => {
                self.machine.crash();
                self.kill();
            }
            3 => self.disk.fail_after(self.random.u64(1..60)),
            4 => self.log.fail_after(self.random.u64(1..10)),
            5 => self.machine.full_after(Some(self.machine.bytes() + self.random.u64(0..8_000))),
            6 => self.disk.fail_syncs(1),
            _ => {
                if let Some(extract) = self.extract.take() {
                    let _ = extract.stop();
                    self.disk.kill();
                }
            }
        }
    }

    /// An administrator removes log that Bounded Recovery makes needless.
    fn remove_log(&mut self) {
        if !self.is_log_short || self.disk.has_failed() || self.extract.is_none() {
            return;
        }
        if let Some(status) = bounded::status(&self.machine, "E1") {
            self.log.remove_up_to(&status.begin);
        }
    }

    /// An operator skips a transaction.
    fn leave_out(&mut self) {
        let open = self.log.open_transactions();
        let (Some(transaction), Some(extract)) = (self.random.choice(open.iter()), &mut self.extract) else { return };
        let name = TransactionId::new(format!("x{transaction}"));
        match extract.leave_out(&name) {
            Ok(LeaveOut::Noted | LeaveOut::NotedBefore) => self.left_out.push(name),
            Ok(LeaveOut::Committed | LeaveOut::NoRoom) => {}
            // Nobody was told that it is noted, and it may be.
            Err(_) => {
                self.maybe_left_out.push(name);
                self.kill();
            }
        }
    }

    /// An operator forces a transaction, when all that it has done was read.
    fn force(&mut self) -> Result<(), String> {
        for _ in 0..200 {
            if self.extract.is_none() {
                return Ok(());
            }
            match self.step() {
                Ok(true) => {}
                Ok(false) => break,
                Err(Ended::Killed(_)) => {
                    self.kill();
                    return Ok(());
                }
                Err(Ended::Wrong(why)) => return Err(why),
            }
        }
        let open = self.log.open_transactions();
        let (Some(transaction), Some(extract)) = (self.random.choice(open.iter()), &mut self.extract) else {
            return Ok(());
        };
        let name = TransactionId::new(format!("x{transaction}"));
        let changes = self.log.open_changes(*transaction);
        if changes.is_empty() || self.maybe_left_out.contains(&name) || self.maybe_forced.contains_key(&name) {
            return Ok(());
        }
        match extract.force(&name) {
            Ok(Force::Written { csn, changes: written }) if written == changes.len() as u64 => {
                self.forced.push((Commit { csn, transaction: name, time: self.now() }, changes));
            }
            Ok(Force::Written { changes: written, .. }) => {
                return Err(format!("{written} changes of {name} are forced, it has made {}", changes.len()));
            }
            Ok(Force::NotKept | Force::Busy | Force::NoRoom) => {}
            // Nobody was told that it is written, and it may be.
            Err(_) => {
                self.maybe_forced.insert(name, changes);
                self.kill();
            }
        }
        Ok(())
    }

    fn live(&mut self) -> Result<(), String> {
        for _ in 0..self.random.usize(100..500) {
            match self.random.u8(0..100) {
                0..=49 => self.work(),
                50..=84 => self.run_step()?,
                85..=95 => {
                    let share = self.random.u32(3..40);
                    self.advance(INTERVAL / share);
                }
                96 => self.remove_log(),
                97 => self.leave_out(),
                98 if self.random.bool() => self.force()?,
                _ => self.harm(),
            }
        }
        Ok(())
    }

    fn run_step(&mut self) -> Result<(), String> {
        match self.step() {
            Ok(_) => Ok(()),
            Err(Ended::Killed(_)) => {
                self.kill();
                if self.random.bool() {
                    self.machine.full_after(None);
                }
                Ok(())
            }
            Err(Ended::Wrong(why)) => Err(why),
        }
    }

    fn come_to_rest(&mut self) -> Result<(), String> {
        self.machine.full_after(None);
        self.disk.fail_syncs(0);
        self.kill();
        for transaction in self.log.open_transactions() {
            if self.random.bool() { self.log.commit(transaction) } else { self.log.abort(transaction) }
        }
        let mut idle = 0;
        while idle < 4 {
            match self.step() {
                Ok(true) => idle = 0,
                Ok(false) => idle += 1,
                Err(Ended::Killed(why) | Ended::Wrong(why)) => return Err(format!("died in peace: {why}")),
            }
            self.advance(Duration::from_secs(1));
        }
        let extract = self.extract.take().unwrap();
        if !extract.statistics().balanced() {
            return Err("the counters do not balance".to_owned());
        }
        extract.stop().map_err(|error| error.to_string())?;
        let spills: Vec<String> =
            self.machine.list().unwrap().into_iter().filter(|name| name.ends_with(".spill")).collect();
        if spills.is_empty() { Ok(()) } else { Err(format!("spill files are left: {spills:?}")) }
    }

    fn judge(&self) -> Result<usize, String> {
        let found = self.trailed()?;
        let is_left_out = |commit: &Commit| {
            let is_found = || found.iter().any(|(found, _)| found.csn == commit.csn);
            self.left_out.contains(&commit.transaction)
                || (self.maybe_left_out.contains(&commit.transaction) && !is_found())
        };
        let mut expected = self.log.committed();
        expected.retain(|(commit, _)| !is_left_out(commit));
        let mut forced = self.forced.clone();
        for (name, changes) in &self.maybe_forced {
            let is_it = |(found, _): &&(Commit, Vec<Change>)| found.transaction == name.forced();
            forced.extend(
                found
                    .iter()
                    .filter(is_it)
                    .take(1)
                    .map(|(found, _)| (Commit { transaction: name.clone(), ..found.clone() }, changes.clone())),
            );
        }
        expected.retain(|(commit, _)| !forced.iter().any(|(forced, _)| forced.transaction == commit.transaction));
        expected.extend(forced);
        expected.sort_by(|(one, _), (other, _)| one.csn.cmp(&other.csn));
        for (index, (commit, changes)) in expected.iter().enumerate() {
            let Some((found_commit, found_changes)) = found.get(index) else {
                return Err(format!("the trail ends before transaction {}", commit.transaction));
            };
            if found_commit.csn != commit.csn {
                return Err(format!("the trail holds {} where {} was expected", found_commit.csn, commit.csn));
            }
            let same = |(left, right): (&Change, &Change)| {
                left.operation == right.operation && left.table == right.table && left.address == right.address
            };
            if found_changes.len() != changes.len() || !found_changes.iter().zip(changes).all(same) {
                let (found, wanted) = (found_changes.len(), changes.len());
                return Err(format!(
                    "transaction {} has {found} changes that are not its {wanted}",
                    commit.transaction
                ));
            }
        }
        match found.get(expected.len()) {
            None => Ok(expected.len()),
            Some((commit, _)) => Err(format!("the trail holds transaction {} once more", commit.csn)),
        }
    }

    fn trailed(&self) -> Result<Vec<(Commit, Vec<Change>)>, String> {
        let storage: Arc<dyn Storage> = Arc::new(self.machine.another_process());
        let failed = |error: trail::Error| format!("the trail can't be read: {error}");
        let mut reader = Reader::open(storage, trail(), Start::Beginning).map_err(failed)?;
        let mut transactions = Vec::new();
        let mut open: Vec<Change> = Vec::new();
        while let Some(entry) = reader.next().map_err(failed)? {
            match entry.record {
                Record::Change { place, commit, change, .. } => {
                    if place.starts() {
                        open.clear();
                    }
                    open.push(change);
                    if place.ends() {
                        transactions.push((commit, std::mem::take(&mut open)));
                    }
                }
                Record::Restart { .. } => open.clear(),
                _ => {}
            }
        }
        Ok(transactions)
    }
}

fn ended(error: &Error) -> Ended {
    let mut chain = error.to_string();
    let mut cause = std::error::Error::source(error);
    let mut is_ours = false;
    while let Some(error) = cause {
        chain = format!("{chain}: {error}");
        is_ours |= matches!(
            error.downcast_ref::<capture::open::Error>(),
            Some(capture::open::Error::Io { .. } | capture::open::Error::Full { .. })
        );
        cause = error.source();
    }
    let killed = match error {
        Error::Source { source, .. } => is_ours || source.class() == ErrorClass::ConnectionLost,
        Error::Trail { .. } | Error::Checkpoint { .. } => true,
        _ => false,
    };
    if killed { Ended::Killed(chain) } else { Ended::Wrong(chain) }
}

/// What one seed came to: transactions, deaths, starts from persisted objects, and transactions that were forced.
fn run(seed: u64) -> (usize, usize, usize, usize) {
    let mut world = World::new(seed);
    let result = world.live().and_then(|()| world.come_to_rest()).and_then(|()| world.judge());
    let transactions = result.unwrap_or_else(|what| {
        let notices = world.notices.lock().unwrap().join("\n  ");
        panic!("replay with DROVER_SIM_SEED={seed}\nseed {seed}: {what}\n  {notices}")
    });
    (transactions, world.deaths, world.restores, world.forced.len())
}

#[test]
fn open_transactions_come_through_any_crash() {
    let number = |variable: &str| std::env::var(variable).ok().map(|text| text.parse::<u64>().unwrap());
    if let Some(seed) = number("DROVER_SIM_SEED") {
        println!("seed {seed}: {:?}", run(seed));
        return;
    }
    let time = Duration::from_secs(number("DROVER_SIM_SECONDS").unwrap_or(5));
    let started = Instant::now();
    let (mut seeds, mut total) = (0, (0, 0, 0, 0));
    while seeds < 60 || started.elapsed() < time {
        seeds += 1;
        let (transactions, deaths, restores, forced) = run(seeds);
        total = (total.0 + transactions, total.1 + deaths, total.2 + restores, total.3 + forced);
    }
    let (transactions, deaths, restores, forced) = total;
    println!(
        "{seeds} seeds: {transactions} transactions, {deaths} deaths, {restores} starts from persisted objects, {forced} forced"
    );
    assert!(transactions > 0 && deaths > 0 && restores > 0 && forced > 0, "the seeds must do something");
}

/// Runs steadily, with a transaction that is open from the start, and says how old the log is that a restart needs.
#[test]
fn a_restart_reads_at_most_two_intervals_however_long_a_transaction_is_open() {
    let mut world = World::new(1);
    world.is_log_short = false;
    let eternal = world.log.begin();
    world.change(eternal);
    let step = INTERVAL / 10;
    let mut times: Vec<(LogPosition, Timestamp)> = Vec::new();
    for round in 0..200 {
        times.push((world.log.end(), world.now()));
        let short = world.log.begin();
        world.change(short);
        world.change(eternal);
        if round % 7 == 0 {
            world.log.abort(short);
        } else {
            world.log.commit(short);
        }
        // Some stay open for a while.
        let lingering = world.log.begin();
        world.change(lingering);
        if round >= 15 {
            let open = world.log.open_transactions();
            world.log.commit(open[1]);
        }
        for _ in 0..3 {
            world.step().unwrap();
        }
        world.advance(step);
        for _ in 0..3 {
            world.step().unwrap();
        }
        if round % 10 == 9 && round > 30 {
            world.kill();
            world.step().unwrap();
            let start = world.log.last_start();
            let (_, time) = times.iter().rev().find(|(position, _)| *position <= start).unwrap();
            let age = Duration::from_micros(world.now().micros_since(*time) as u64);
            assert!(age <= INTERVAL * 2 + step, "round {round}: {age:?} of log are read again");
        }
    }
    world.come_to_rest().unwrap();
    world.judge().unwrap();
}

fn files(world: &World, extension: &str) -> Vec<String> {
    let mut files: Vec<String> = world.machine.list().unwrap();
    files.retain(|name| name.ends_with(extension));
    files.sort();
    files
}

/// A world with one transaction in a persisted object.
fn persisted() -> (World, u64) {
    let mut world = World::new(3);
    world.is_log_short = false;
    let long = world.log.begin();
    world.log.savepoint(long);
    world.change(long);
    world.log.rollback_to_savepoint(long);
    world.change(long);
    for _ in 0..3 {
        world.step().unwrap();
        world.advance(INTERVAL + Duration::from_secs(1));
        let other = world.log.begin();
        world.change(other);
        world.log.commit(other);
        for _ in 0..6 {
            world.step().unwrap();
            world.advance(Duration::from_secs(1));
        }
    }
    assert_eq!(files(&world, ".bro").len(), 1, "{:?}", world.notices.lock().unwrap());
    (world, long)
}

#[test]
fn damaged_and_missing_files_lose_nothing_and_are_told() {
    for what in ["object", "manifest", "object gone", "manifest gone"] {
        let (mut world, long) = persisted();
        world.kill();
        let name = match what {
            "object" | "object gone" => files(&world, ".bro").remove(0),
            _ => "E1.brc".to_owned(),
        };
        if what.ends_with("gone") {
            world.machine.remove(&name).unwrap();
        } else {
            let file = world.machine.open(&name).unwrap();
            file.write_at(&[0xff; 3], file.len().unwrap() / 2).unwrap();
        }
        world.notices.lock().unwrap().clear();
        world.step().unwrap();
        world.step().unwrap();
        let notices = world.notices.lock().unwrap().join("\n");
        // Without a manifest nothing says that there was one.
        assert_eq!(notices.contains("DRV-00424"), what != "manifest gone", "{what}: {notices}");
        assert_eq!(
            world.log.last_start(),
            LogPosition::new(format!("{:020}", 0)),
            "{what}: the log is read from its start"
        );
        world.log.commit(long);
        world.come_to_rest().unwrap();
        world.judge().unwrap();
    }
}

#[test]
fn unchanged_objects_stay_changed_ones_are_written_anew_and_ended_ones_go() {
    let (mut world, long) = persisted();
    let first = files(&world, ".bro");
    let interval = |world: &mut World| {
        while world.step().unwrap() {}
        world.advance(INTERVAL + Duration::from_secs(1));
        for _ in 0..6 {
            world.step().unwrap();
            world.advance(Duration::from_secs(1));
        }
        files(world, ".bro")
    };
    assert_eq!(interval(&mut world), first, "nothing has changed");
    world.change(long);
    let second = interval(&mut world);
    assert_eq!(second.len(), 1);
    assert_ne!(second, first);
    world.log.commit(long);
    assert_eq!(interval(&mut world), Vec::<String>::new());
    world.come_to_rest().unwrap();
    world.judge().unwrap();
}

#[test]
fn less_log_than_two_intervals_is_warned_of() {
    let (mut world, _) = persisted();
    world.log.remove_up_to(&bounded::status(&world.machine, "E1").unwrap().begin);
    world.kill();
    // The long transaction comes from its object, so that the removed log is not missed.
    world.step().unwrap();
    world.step().unwrap();
    let notices = world.notices.lock().unwrap().join("\n");
    assert!(notices.contains("DRV-00427"), "{notices}");
    assert!(notices.contains("1 transactions restored"), "{notices}");
    world.come_to_rest().unwrap();
    world.judge().unwrap();
}

#[test]
fn csns_of_the_log_order_as_its_commits() {
    let (world, _) = persisted();
    let csns: Vec<Csn> = world.log.committed().into_iter().map(|(commit, _)| commit.csn).collect();
    assert!(csns.is_sorted());
}

#[test]
fn a_start_tells_how_far_its_recovery_has_come_and_the_checkpoint_tells_what_the_next_one_goes_by() {
    let (mut world, long) = persisted();
    let saved = |world: &World| {
        let saved = CheckpointFile::read(&world.machine, GroupKind::Extract, &group(), 1).unwrap();
        saved[0].extract().unwrap().clone()
    };
    let (counts, status) = (saved(&world).bounded.unwrap(), bounded::status(&world.machine, "E1").unwrap());
    assert_eq!(
        (counts.number, &counts.begin.position, &counts.end.position),
        (status.number, &status.begin, &status.end)
    );
    assert_eq!(counts.end.time, Some(status.time));
    // Nothing younger was open there, so that reading starts where the checkpoint was taken.
    assert_eq!((&counts.begin, counts.previous.is_some()), (&counts.end, true));

    world.kill();
    world.step().unwrap();
    assert_eq!(world.log.last_start(), counts.begin.position, "the second run starts where the checkpoint says");
    let phase = |world: &World| world.extract.as_ref().unwrap().phase();
    assert_eq!(phase(&world), Phase::Rereading);
    while world.step().unwrap() {}
    assert_eq!(phase(&world), Phase::Complete);
    world.log.commit(long);
    world.come_to_rest().unwrap();
    world.judge().unwrap();
}

#[test]
fn a_transaction_that_is_left_out_holds_no_log() {
    let (mut world, long) = persisted();
    let recovery = |world: &World| {
        let saved = CheckpointFile::read(&world.machine, GroupKind::Extract, &group(), 1).unwrap();
        Place::parse(&saved[0].extract().unwrap().recovery.position)
    };
    let before = recovery(&world);
    assert!(before.recovery < before.current, "the oldest open transaction holds the log");
    let name = TransactionId::new(format!("x{long}"));
    let extract = world.extract.as_mut().unwrap();
    assert_eq!(extract.leave_out(&name).unwrap(), LeaveOut::Noted);
    assert_eq!(extract.leave_out(&name).unwrap(), LeaveOut::NotedBefore);
    world.left_out.push(name);
    for _ in 0..4 {
        world.change(long);
        let other = world.log.begin();
        world.change(other);
        world.log.commit(other);
        while world.step().unwrap() {}
        world.advance(Duration::from_secs(1));
    }
    while world.step().unwrap() {}
    let after = recovery(&world);
    assert_eq!(after.recovery, after.current);
    world.log.remove_up_to(&before.current);
    world.kill();
    world.change(long);
    world.log.commit(long);
    world.come_to_rest().unwrap();
    world.judge().unwrap();
    assert!(world.notices.lock().unwrap().iter().any(|notice| notice.starts_with("DRV-00772")));
}
