//! The initial copy over a source and a target that fail at any call, and the stream that joins it.

use change::{Csn, TableDefinition, TableName, Timestamp};
use database::snapshot::{
    CapturedTable, CopyDestination, CopyError, CopyRequest, CopyRow, CopySource, CopyTarget, CopyWriter, Fill,
    Snapshot, SnapshotReader, TakeBytes,
};
use database::{Error, ErrorClass};
use reconcile::{CopyJob, CopyOutcome, CopyProgress, CopySetup, copy};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// Rows of a table: key and value.
type Rows = BTreeMap<u32, u32>;

/// A commit: table, key, and the new value or nothing.
type Change = (usize, u32, Option<u32>);

#[derive(Default)]
struct World {
    /// Every commit has one change; its place in the list is its CSN.
    log: Vec<Change>,
    target: BTreeMap<TableName, Vec<(u32, u32)>>,
    copies: BTreeMap<TableName, CopyRow>,
    random: fastrand::Rng,
    /// Calls until the next one fails.
    calls: Option<u32>,
}

impl World {
    /// The rows of all tables after the first `count` commits.
    fn rows(&self, table: usize, count: usize) -> Rows {
        let mut rows = Rows::new();
        for (_, key, value) in self.log[..count].iter().filter(|(other, _, _)| *other == table) {
            match value {
                Some(value) => _ = rows.insert(*key, *value),
                None => _ = rows.remove(key),
            }
        }
        rows
    }

    /// The source's users go on.
    fn change(&mut self, tables: usize) {
        for _ in 0..self.random.usize(0..8) {
            let change = (self.random.usize(0..tables), self.random.u32(0..30), Some(self.random.u32(..)));
            let change = if self.random.u32(0..4) == 0 { (change.0, change.1, None) } else { change };
            self.log.push(change);
        }
    }

    fn call(&mut self) -> Result<(), Error> {
        match &mut self.calls {
            Some(0) => {
                self.calls = None;
                Err(Error::new(ErrorClass::ConnectionLost, "the connection is lost"))
            }
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }
}

#[derive(Clone)]
struct Shared(Arc<Mutex<World>>, usize);

fn name(table: usize) -> TableName {
    TableName::new("s", format!("t{table}"))
}

fn number(table: &TableName) -> usize {
    table.table[1..].parse().expect("a number")
}

impl Shared {
    fn with<T>(&self, work: impl FnOnce(&mut World) -> T) -> T {
        work(&mut self.0.lock().expect("no panic before"))
    }
}

impl CopySource for Shared {
    fn copy_notation(&self) -> &str {
        "pairs"
    }

    fn captured_tables(&self, _group: &str) -> Result<Vec<CapturedTable>, Error> {
        let table = |table| CapturedTable {
            definition: TableDefinition { name: name(table), columns: Vec::new().into() },
            rows: 0,
            bytes: 0,
        };
        Ok((0..self.1).map(table).collect())
    }

    fn open_snapshot(&self, readers: usize) -> Result<Snapshot, Error> {
        self.with(|world| {
            world.call()?;
            let count = world.log.len();
            let reader = |_| Box::new(Reader { world: self.clone(), count }) as Box<dyn SnapshotReader>;
            Ok(Snapshot { csn: csn(count), readers: (0..readers).map(reader).collect() })
        })
    }
}

/// The CSN of the snapshot that has the first `count` commits.
fn csn(count: usize) -> Csn {
    Csn::new(format!("{count:08}"))
}

struct Reader {
    world: Shared,
    count: usize,
}

impl SnapshotReader for Reader {
    fn read(&mut self, table: &TableName, _columns: &[String], take: &mut TakeBytes<'_>) -> Result<(), Error> {
        for (key, value) in self.world.with(|world| world.rows(number(table), self.count)) {
            // Users go on while we read.
            self.world.with(|world| {
                world.change(self.world.1);
                world.call()
            })?;
            if take(&[key.to_be_bytes(), value.to_be_bytes()].concat()) == ControlFlow::Break(()) {
                break;
            }
        }
        Ok(())
    }
}

impl CopyTarget for Shared {
    fn copy_notation(&self) -> &str {
        "pairs"
    }

    fn register_copies(&self, _request: &CopyRequest, sources: &[TableName]) -> Result<Vec<CopyRow>, Error> {
        self.with(|world| {
            world.call()?;
            for source in sources {
                let row = CopyRow { source: source.clone(), csn: None, rows: 0, bytes: 0, finished: None };
                world.copies.entry(source.clone()).or_insert(row);
            }
            Ok(world.copies.values().cloned().collect())
        })
    }

    fn open_writer(&self, _request: &CopyRequest) -> Result<Box<dyn CopyWriter>, Error> {
        self.with(World::call)?;
        Ok(Box::new(Writer(self.clone())))
    }
}

struct Writer(Shared);

impl CopyWriter for Writer {
    fn copy(
        &mut self,
        _source: &TableName,
        destinations: &[CopyDestination],
        fill: &mut Fill<'_>,
        row: &mut dyn FnMut(u64, u64) -> CopyRow,
    ) -> Result<CopyRow, CopyError> {
        let table = destinations[0].table.clone();
        let mut bytes = Vec::new();
        let mut refused = None;
        fill(0, &mut |piece| match self.0.with(World::call) {
            Ok(()) => {
                bytes.extend_from_slice(piece);
                ControlFlow::Continue(())
            }
            Err(error) => {
                refused = Some(error);
                ControlFlow::Break(())
            }
        })
        .map_err(CopyError::Source)?;
        if let Some(error) = refused {
            return Err(CopyError::Target(error));
        }
        let pair = |pair: &[u8]| {
            let half = |range: std::ops::Range<usize>| u32::from_be_bytes(pair[range].try_into().expect("four bytes"));
            (half(0..4), half(4..8))
        };
        let rows: Vec<(u32, u32)> = bytes.chunks(8).map(pair).collect();
        let row = row(rows.len() as u64, bytes.len() as u64);
        self.0.with(|world| {
            let before = world.call();
            if before.is_err() && world.random.bool() {
                return before.map_err(CopyError::Target);
            }
            assert!(world.target.get(&table).is_none_or(Vec::is_empty), "a table is copied once");
            assert_eq!(world.copies[&row.source].csn, None, "a table is copied once");
            world.target.insert(table, rows);
            world.copies.insert(row.source.clone(), row.clone());
            // The answer to a commit may be lost.
            before.map_err(CopyError::Target)
        })?;
        Ok(row)
    }
}

fn jobs(tables: usize) -> Vec<CopyJob> {
    let job = |table| CopyJob {
        source: name(table),
        destinations: vec![(
            vec!["k".to_owned()],
            CopyDestination { table: name(table), columns: vec!["k".to_owned()] },
        )],
        bytes: table as u64,
    };
    (0..tables).map(job).collect()
}

fn attempt(shared: &Shared, workers_max: usize, stop: &(dyn Fn() -> bool + Sync)) -> CopyOutcome {
    let request = CopyRequest { group: "R1".to_owned(), group_key: 1, checkpoint_table: TableName::new("g", "c") };
    copy(&CopySetup {
        source: shared,
        target: shared,
        request: &request,
        jobs: &jobs(shared.1),
        workers_max,
        clock: &|| Timestamp::from_unix_micros(0),
        is_stopped: stop,
        progress: &CopyProgress::new(),
    })
}

/// Applies the log to the target as a Replicat does: changes up to a table's CSN are in it already.
fn catch_up(world: &mut World) {
    for (place, (table, key, value)) in world.log.iter().enumerate() {
        let table = name(*table);
        let copied = world.copies[&table].csn.clone().expect("the copy is complete");
        if csn(place + 1) <= copied {
            continue;
        }
        let rows = world.target.entry(table).or_default();
        let known = rows.iter().position(|(other, _)| other == key);
        match (value, known) {
            (Some(value), Some(place)) => rows[place].1 = *value,
            (Some(value), None) => rows.push((*key, *value)),
            (None, Some(place)) => _ = rows.remove(place),
            (None, None) => {}
        }
    }
}

#[test]
fn an_initial_copy_that_fails_anywhere_and_the_stream_give_the_source() {
    for seed in 0..300 {
        let mut random = fastrand::Rng::with_seed(seed);
        let tables = random.usize(1..6);
        let mut world = World { random: random.fork(), ..World::default() };
        (0..20).for_each(|_| world.change(tables));
        let shared = Shared(Arc::new(Mutex::new(world)), tables);
        let mut attempts = 0;
        loop {
            attempts += 1;
            let fails = attempts < 30;
            shared.with(|world| world.calls = fails.then(|| random.u32(0..120)));
            let stops_after = random.u32(0..200);
            let calls = std::sync::atomic::AtomicU32::new(0);
            let stop = || fails && stops_after < 60 && calls.fetch_add(1, Ordering::Relaxed) > stops_after;
            match attempt(&shared, random.usize(1..4), &stop) {
                CopyOutcome::Done => break,
                CopyOutcome::Stopped => {}
                CopyOutcome::Failed { cause, .. } => assert_eq!(cause.to_string(), "the connection is lost"),
            }
        }
        shared.with(|world| {
            world.change(tables);
            catch_up(world);
            for table in 0..tables {
                let mut rows = world.target.get(&name(table)).cloned().unwrap_or_default();
                rows.sort_unstable();
                let expected: Vec<(u32, u32)> = world.rows(table, world.log.len()).into_iter().collect();
                assert_eq!(rows, expected, "seed {seed}, table {table}, {attempts} attempts");
            }
        });
    }
}

#[test]
fn a_stopped_copy_commits_no_part_of_a_table() {
    let world = World { log: (0..1000).map(|key| (0, key, Some(key))).collect(), ..World::default() };
    let shared = Shared(Arc::new(Mutex::new(world)), 1);
    let stopped = AtomicBool::new(false);
    let calls = std::sync::atomic::AtomicU32::new(0);
    let stop = || {
        if calls.fetch_add(1, Ordering::Relaxed) > 20 {
            stopped.store(true, Ordering::Relaxed);
        }
        stopped.load(Ordering::Relaxed)
    };
    assert!(matches!(attempt(&shared, 1, &stop), CopyOutcome::Stopped));
    shared.with(|world| {
        assert!(world.target.is_empty());
        assert_eq!(world.copies[&name(0)].csn, None);
    });
    assert!(matches!(attempt(&shared, 1, &|| false), CopyOutcome::Done));
    shared.with(|world| assert_eq!(world.copies[&name(0)].rows, world.target[&name(0)].len() as u64));
    // What is done stays done.
    assert!(matches!(attempt(&shared, 1, &|| false), CopyOutcome::Done));
}

#[test]
fn a_failure_that_does_not_pass_ends_the_others_and_is_named() {
    struct Refusing(Shared);
    impl CopyTarget for Refusing {
        fn copy_notation(&self) -> &str {
            "pairs"
        }
        fn register_copies(&self, request: &CopyRequest, sources: &[TableName]) -> Result<Vec<CopyRow>, Error> {
            self.0.register_copies(request, sources)
        }
        fn open_writer(&self, request: &CopyRequest) -> Result<Box<dyn CopyWriter>, Error> {
            Ok(Box::new(RefusingWriter(self.0.open_writer(request)?)))
        }
    }
    struct RefusingWriter(Box<dyn CopyWriter>);
    impl CopyWriter for RefusingWriter {
        fn copy(
            &mut self,
            source: &TableName,
            destinations: &[CopyDestination],
            fill: &mut Fill<'_>,
            row: &mut dyn FnMut(u64, u64) -> CopyRow,
        ) -> Result<CopyRow, CopyError> {
            if destinations[0].table == name(2) {
                return Err(CopyError::Target(Error::new(ErrorClass::Permanent, "the table is full of rows")));
            }
            self.0.copy(source, destinations, fill, row)
        }
    }
    let shared = Shared(Arc::new(Mutex::new(World::default())), 3);
    let request = CopyRequest { group: "R1".to_owned(), group_key: 1, checkpoint_table: TableName::new("g", "c") };
    let outcome = copy(&CopySetup {
        source: &shared,
        target: &Refusing(shared.clone()),
        request: &request,
        jobs: &jobs(3),
        workers_max: 2,
        clock: &|| Timestamp::from_unix_micros(0),
        is_stopped: &|| false,
        progress: &CopyProgress::new(),
    });
    let CopyOutcome::Failed { table, cause } = outcome else { panic!("{outcome:?}") };
    assert_eq!((table, cause.to_string()), (Some(name(2)), "the table is full of rows".to_owned()));
}
