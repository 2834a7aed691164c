//! A whole pipeline in one thread, in memory, ruled by a seed: model database, Extract, trail on a disk that forgets, Replicat,
//! model database.
//!
//! Users write into the source, both processes take steps, and anything may die at any call: a process, the disk's power, a
//! database. In the end everything is started again and left in peace, and then:
//! - the target holds the rows that the source holds;
//! - the target took each committed operation once, in commit order, and no source transaction in two commits;
//! - the trail holds each committed transaction once, in commit order;
//! - no process ever stopped for a reason that the world had not given it;
//! - no process ever held more than its bounds allow.
//!
//! The same seed gives the same history.

mod groups;
mod history;
mod recorder;
mod workload;

use apply::{AnyReplicat, GroupLimits};
use capture::{Extract, Selection};
use change::{CaseRule, Column, LogPosition, LogicalType, Row, Value};
use database::memory::{Durability, MemoryDatabase, MemoryOptions, OldImage};
use database::{Database, TableSelection};
use fastrand::Rng;
use groups::{Ended, Plan, SimulatedClock};
use parameter::MapPlan;
use recorder::Recorder;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;
use trail::storage::Forgetful;
use workload::Workload;

/// Steps after which a world that is left in peace must have come to rest.
const PEACE_STEPS_MAX: usize = 20_000;

/// What a run came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Source transactions that the Extract had to capture.
    pub transactions: usize,
    /// Target transactions.
    pub commits: usize,
    /// Times that something died.
    pub deaths: usize,
}

/// A promise that was broken in the run of one seed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// The seed.
    pub seed: u64,
    /// What was found.
    pub what: String,
    /// The last lines that the groups wrote into their reports.
    pub notices: Vec<String>,
}

impl std::fmt::Display for Broken {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "seed {}: {}", self.seed, self.what)?;
        self.notices.iter().try_for_each(|notice| write!(formatter, "\n  report: {notice}"))
    }
}

/// Runs the world of `seed` to its end.
///
/// # Errors
/// [`Broken`] when a promise was not kept.
pub fn run(seed: u64) -> Result<Outcome, Broken> {
    run_world(seed, World::new(seed))
}

/// The same with a Replicat that applies in parallel, its appliers taking turns.
///
/// # Errors
/// [`Broken`] when a promise was not kept.
pub fn run_parallel(seed: u64) -> Result<Outcome, Broken> {
    let mut world = World::new(seed);
    world.plan.turns = Some(world.random.fork());
    run_world(seed, world)
}

/// The same with a Replicat that splits large transactions.
///
/// # Errors
/// [`Broken`] when a promise was not kept.
pub fn run_split(seed: u64) -> Result<Outcome, Broken> {
    let mut world = World::new(seed);
    world.plan.turns = Some(world.random.fork());
    world.plan.splits = true;
    run_world(seed, world)
}

/// The same with a coordinated Replicat, whose MAPs say which of its threads applies what.
///
/// # Errors
/// [`Broken`] when a promise was not kept.
pub fn run_coordinated(seed: u64) -> Result<Outcome, Broken> {
    let mut world = World::new(seed);
    world.plan.turns = Some(world.random.fork());
    world.plan.threads = Some(4);
    world.plan.rules = COORDINATED.clone();
    run_world(seed, world)
}

/// MAP statements of a coordinated Replicat: rows whose unique values move stay on one thread.
static COORDINATED: LazyLock<MapPlan> = LazyLock::new(|| {
    let text = "REPLICAT r1\nTARGETDB memory:target\nMAP main.item, TARGET main.item, THREADRANGE (1-3);\n\
                MAP main.line, TARGET main.line, THREADRANGE (1-4, item);\nMAP main.seat, TARGET main.seat, THREAD (2);\n\
                MAP main.journal, TARGET main.journal, THREADRANGE (2-4);\n";
    let parameters = parameter::parse_replicat(text, "r1.prm").unwrap_or_else(|wrong| panic!("{wrong}"));
    parameters.map.plan(CaseRule::Sensitive, "main", CaseRule::Sensitive, "main")
});

fn run_world(seed: u64, mut world: World) -> Result<Outcome, Broken> {
    let result = world.live().and_then(|()| world.come_to_rest()).and_then(|()| world.judge());
    result.map_err(|what| {
        let notices = world.plan.notices.lock().expect("nobody panics with it");
        let notices = notices.iter().rev().take(8).rev().cloned().collect();
        Broken { seed, what, notices }
    })
}

/// Parameter texts are the same in every run, and are read once.
static PARAMETERS: LazyLock<(Arc<Selection>, MapPlan)> = LazyLock::new(|| {
    let extract =
        "EXTRACT e1\nSOURCEDB memory:source\nEXTTRAIL ./dirdat/aa\nTABLE main.*;\nTABLEEXCLUDE main.private;\n";
    let extract = parameter::parse_extract(extract, "e1.prm").unwrap_or_else(|wrong| panic!("{wrong}"));
    let replicat = "REPLICAT r1\nTARGETDB memory:target\nMAP main.*, TARGET main.*;\nMAPEXCLUDE main.unmapped;\n";
    let replicat = parameter::parse_replicat(replicat, "r1.prm").unwrap_or_else(|wrong| panic!("{wrong}"));
    let selection = Selection::new(&extract.tables, CaseRule::Sensitive, "main");
    (Arc::new(selection), replicat.map.plan(CaseRule::Sensitive, "main", CaseRule::Sensitive, "main"))
});

struct World {
    random: Rng,
    plan: Plan,
    workload: Workload,
    disk: Forgetful,
    extract_disk: Forgetful,
    replicat_disk: Forgetful,
    extract: Option<Extract>,
    replicat: Option<AnyReplicat>,
    /// Where the judge starts to read the source's log.
    start: LogPosition,
    batch_events: usize,
    /// Columns that were added to `item` at the target so far.
    target_added: usize,
    /// The target was altered while the Replicat had a plan for it.
    altered: bool,
    /// Whether anything may still die.
    peace: bool,
    deaths: usize,
}

impl World {
    fn new(seed: u64) -> World {
        let mut random = Rng::with_seed(seed);
        let clock = SimulatedClock::new();
        let batch_events = *random.choice([1, 3, 10, 200].iter()).expect("a choice");
        let mut database = |name: &str| {
            let options = MemoryOptions {
                durability: if random.bool() { Durability::Strict } else { Durability::Relaxed },
                old_image: if random.bool() { OldImage::Row } else { OldImage::Key },
                batch_events,
                lock_wait: Duration::ZERO,
                seed: random.u64(..),
                ..MemoryOptions::new(name)
            };
            MemoryDatabase::new(options)
        };
        let (source, target) = (database("source"), database("target"));
        let (tables, rules) = &*PARAMETERS;
        let workload = Workload::new();
        for table in &workload.tables {
            source.create_table(table.source.clone(), &table.unique).expect("a new table");
            if let Some(definition) = &table.target {
                target.create_table(definition.clone(), &table.unique).expect("a new table");
            }
        }
        let tables: Arc<dyn TableSelection> = tables.clone();
        let start = source.register_capture("JUDGE", &*tables).expect("a source that can be captured");
        let disk = Forgetful::new(random.u64(..));
        let plan = Plan {
            source,
            target,
            tables,
            rules: rules.clone(),
            limits: GroupLimits {
                operations: *random.choice([1, 3, 20, 1000].iter()).expect("a choice"),
                chunk_operations: *random.choice([2, 7, 40, 1000].iter()).expect("a choice"),
                chunk_bytes: *random.choice([300, 5_000, 1 << 20].iter()).expect("a choice"),
            },
            file_bytes_max: *random.choice([4_000, 20_000, 500_000].iter()).expect("a choice"),
            clock,
            recorder: Recorder::default(),
            notices: Arc::new(Mutex::new(Vec::new())),
            turns: None,
            threads: None,
            splits: false,
        };
        plan.add_groups(&disk);
        World {
            random,
            plan,
            workload,
            extract_disk: disk.another_process(),
            replicat_disk: disk.another_process(),
            disk,
            extract: None,
            replicat: None,
            start,
            batch_events,
            target_added: 0,
            altered: false,
            peace: false,
            deaths: 0,
        }
    }

    /// A life in which anything may die.
    fn live(&mut self) -> Result<(), String> {
        let actions = self.random.usize(50..300);
        let danger = self.random.u8(1..30);
        for _ in 0..actions {
            match self.random.u8(0..100) {
                0..=29 => self.workload.write(&self.plan.source, &mut self.random),
                30..=59 => _ = self.extract_step()?,
                60..=89 => _ = self.replicat_step()?,
                _ => self.plan.clock.advance(self.random.i64(0..300_000)),
            }
            if self.random.u8(..) < danger {
                self.harm()?;
            }
        }
        Ok(())
    }

    fn harm(&mut self) -> Result<(), String> {
        self.deaths += 1;
        let soon = self.random.u64(1..40);
        match self.random.u8(0..16) {
            0 => self.extract_disk.fail_after(soon),
            1 => self.replicat_disk.fail_after(soon),
            2 => self.kill_extract(),
            3 => self.kill_replicat(),
            4 => {
                self.disk.crash();
                self.kill_extract();
                self.kill_replicat();
            }
            5 => self.plan.source.fail_after(soon / 2 + 1, self.random.u64(..)),
            6 => self.plan.target.fail_after(soon / 2 + 1, self.random.u64(..)),
            7 => self.plan.source.crash(),
            8 => self.plan.target.crash(),
            9 => self.disk.full_after(Some(self.disk.bytes() + self.random.u64(0..5_000))),
            10 => self.replicat_step_in_a_locked_target()?,
            11 => self.stop_extract()?,
            12 => self.stop_replicat()?,
            13 => self.extract_disk.fail_syncs(1),
            14 => self.replicat_disk.fail_syncs(1),
            _ => self.alter(),
        }
        Ok(())
    }

    /// The Extract is told to stop, wherever it stands.
    fn stop_extract(&mut self) -> Result<(), String> {
        let Some(extract) = self.extract.take() else { return Ok(()) };
        match extract.stop() {
            Ok(_) => Ok(()),
            Err(error) => self.extract_ended(groups::extract_ended(&error)).map(|_| ()),
        }
    }

    /// The Replicat is told to stop, wherever it stands.
    fn stop_replicat(&mut self) -> Result<(), String> {
        let Some(replicat) = self.replicat.take() else { return Ok(()) };
        match replicat.stop() {
            Ok(_) => Ok(()),
            Err(error) => self.replicat_ended(groups::replicat_ended(&error)).map(|_| ()),
        }
    }

    /// Somebody else has a transaction open at the target.
    fn replicat_step_in_a_locked_target(&mut self) -> Result<(), String> {
        let mut stepped = Ok(true);
        let target = self.plan.target.clone();
        // Fails when the target is down, or goes down in between.
        let _ = target.write(|_| {
            stepped = self.replicat_step();
            Ok(())
        });
        stepped.map(|_| ())
    }

    /// A column is added, first at the target. A database that is down or busy is altered another time.
    fn alter(&mut self) {
        let name = workload::name("item");
        let column = |number: usize| Column::new(format!("added_{number}"), LogicalType::Text, "text");
        if self.target_added == self.workload.added && self.target_added < 3 {
            let added = self.plan.target.add_column(&name, column(self.target_added));
            self.target_added += usize::from(added.is_ok());
            self.altered |= added.is_ok();
        }
        if self.target_added > self.workload.added {
            let added = self.plan.source.add_column(&name, column(self.workload.added));
            self.workload.added += usize::from(added.is_ok());
        }
    }

    /// Lets the Extract do something; whether there was anything to do.
    fn extract_step(&mut self) -> Result<bool, String> {
        let Some(extract) = &mut self.extract else {
            return match self.plan.start_extract(&self.extract_disk) {
                Ok(extract) => {
                    self.extract = Some(extract);
                    Ok(true)
                }
                Err(ended) => self.extract_ended(ended),
            };
        };
        match extract.step(Duration::ZERO) {
            Ok(step) => {
                let peak = extract.progress().events_peak;
                // A batch holds the events asked for, and what closes its last transaction.
                if peak > self.batch_events + 3 {
                    return Err(format!("the Extract held {peak} events at once"));
                }
                Ok(!matches!(step, capture::Step::Idle))
            }
            Err(error) => self.extract_ended(groups::extract_ended(&error)),
        }
    }

    fn extract_ended(&mut self, ended: Ended) -> Result<bool, String> {
        self.kill_extract();
        match ended {
            Ended::Wrong(why) => Err(format!("the Extract stopped: {why}")),
            Ended::Killed(why) if self.peace => Err(format!("the Extract died in peace: {why}")),
            Ended::Killed(_) => {
                self.mend();
                Ok(true)
            }
        }
    }

    /// Lets the Replicat do something; whether there was anything to do.
    fn replicat_step(&mut self) -> Result<bool, String> {
        let Some(replicat) = &mut self.replicat else {
            return match self.plan.start_replicat(&self.replicat_disk) {
                Ok(replicat) => {
                    self.replicat = Some(replicat);
                    self.altered = false;
                    Ok(true)
                }
                Err(ended) => self.replicat_ended(ended),
            };
        };
        match replicat.step(Duration::ZERO) {
            Ok(apply::Step::Retry { cause }) if self.peace => Err(format!("the target fails in peace: {cause}")),
            Ok(apply::Step::Retry { .. }) => {
                self.mend();
                Ok(true)
            }
            Ok(step) => {
                let peak = replicat.progress().buffered_changes_peak;
                let bound = 2 * self.plan.limits.chunk_operations;
                if peak > bound {
                    return Err(format!("the Replicat held {peak} changes at once, {bound} are allowed"));
                }
                Ok(!matches!(step, apply::Step::Idle))
            }
            Err(error) => self.replicat_ended(groups::replicat_ended(&error)),
        }
    }

    fn replicat_ended(&mut self, ended: Ended) -> Result<bool, String> {
        self.kill_replicat();
        match ended {
            // A table that changes its shape under a running Replicat stops it; the next start looks at the table again.
            Ended::Wrong(why) if self.altered && why.contains("changed its shape") => {
                self.altered = false;
                Ok(true)
            }
            Ended::Wrong(why) => Err(format!("the Replicat stopped: {why}")),
            Ended::Killed(why) if self.peace => Err(format!("the Replicat died in peace: {why}")),
            Ended::Killed(_) => {
                self.mend();
                Ok(true)
            }
        }
    }

    /// Somebody notices that something is down.
    fn mend(&mut self) {
        if self.random.bool() {
            self.plan.source.restart();
        }
        if self.random.bool() {
            self.plan.target.restart();
        }
        if self.random.bool() {
            self.disk.full_after(None);
        }
    }

    fn kill_extract(&mut self) {
        self.extract_disk.kill();
        self.extract = None;
    }

    fn kill_replicat(&mut self) {
        self.replicat_disk.kill();
        self.replicat = None;
    }

    /// Everything is started again and nothing dies any more, until there is nothing left to do.
    fn come_to_rest(&mut self) -> Result<(), String> {
        self.peace = true;
        self.disk.full_after(None);
        self.extract_disk.fail_syncs(0);
        self.replicat_disk.fail_syncs(0);
        self.kill_extract();
        self.kill_replicat();
        self.plan.source.restart();
        self.plan.target.restart();
        let mut idle = 0;
        for _ in 0..PEACE_STEPS_MAX {
            let worked = [self.extract_step()?, self.replicat_step()?];
            self.plan.clock.advance(300_000);
            idle = if worked.contains(&true) { 0 } else { idle + 1 };
            // The rows of the last transactions may wait for their commit until a pause of a second is over.
            if idle == 8 {
                return self.stop();
            }
        }
        Err("the pipeline does not come to rest".to_owned())
    }

    /// Both groups stop as they are told to.
    fn stop(&mut self) -> Result<(), String> {
        if let Some(extract) = self.extract.take() {
            let balanced = extract.statistics().balanced();
            extract.stop().map_err(|error| format!("the Extract did not stop cleanly: {error}"))?;
            if !balanced {
                return Err("the Extract's counters do not balance".to_owned());
            }
        }
        if let Some(replicat) = self.replicat.take() {
            let balanced = replicat.statistics().balanced();
            replicat.stop().map_err(|error| format!("the Replicat did not stop cleanly: {error}"))?;
            if !balanced {
                return Err("the Replicat's counters do not balance".to_owned());
            }
        }
        Ok(())
    }

    fn judge(&mut self) -> Result<Outcome, String> {
        let committed = history::committed(&self.plan.source, "JUDGE", &self.start, Arc::clone(&self.plan.tables))?;
        let trailed = history::trailed(Arc::new(self.disk.another_process()), groups::trail_name())?;
        history::check_trail(&committed, &trailed)?;
        let tables = &self.workload.tables;
        let mapped =
            |name: &change::TableName| tables.iter().any(|table| table.source.name == *name && table.target.is_some());
        let taken = self.plan.recorder.taken();
        match &self.plan.turns {
            None => history::check_target(&committed, &taken, mapped)?,
            Some(_) if self.plan.splits || self.plan.threads.is_some() => {
                history::check_operations(&committed, &taken, mapped)?;
            }
            Some(_) => history::check_parallel_target(&committed, &taken, mapped)?,
        }
        for table in tables {
            if table.target.is_some() {
                self.compare(&table.source.name)?;
            }
        }
        Ok(Outcome { transactions: committed.len(), commits: taken.len(), deaths: self.deaths })
    }

    /// Compares a table's rows on both sides, column by column name.
    fn compare(&self, name: &change::TableName) -> Result<(), String> {
        let definition = |database: &MemoryDatabase| {
            let tables = database.tables().map_err(|error| error.to_string())?;
            tables.into_iter().find(|table| table.name == *name).ok_or_else(|| format!("table {name} is gone"))
        };
        let (source, target) = (definition(&self.plan.source)?, definition(&self.plan.target)?);
        let places: Vec<usize> =
            source.columns.iter().map(|column| target.column(&column.name).expect("the same columns")).collect();
        let projected = |row: &Row| -> Vec<Option<Vec<u8>>> {
            places.iter().map(|place| row.value(*place).bytes().map(<[u8]>::to_vec)).collect()
        };
        let mut expected: Vec<Vec<Option<Vec<u8>>>> = self
            .plan
            .source
            .rows(name)
            .iter()
            .map(|row| row.values().map(|value| value.bytes().map(<[u8]>::to_vec)).collect())
            .collect();
        let target_rows = self.plan.target.rows(name);
        let mut found: Vec<_> = target_rows.iter().map(projected).collect();
        expected.sort();
        found.sort();
        if expected != found {
            return Err(format!(
                "table {name} has {} rows at the source and {} others at the target",
                expected.len(),
                found.len()
            ));
        }
        let only_target = |place: &usize| source.column(&target.columns[*place].name).is_none();
        let mut extra = (0..target.columns.len()).filter(only_target);
        if extra.any(|place| target_rows.iter().any(|row| row.value(place) != Value::Null)) {
            return Err(format!("table {name} has values in a column that only the target has"));
        }
        Ok(())
    }
}
