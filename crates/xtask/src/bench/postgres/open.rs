//! Transactions that are open for long: what an Extract puts aside, savepoints, and a restart.

use super::capture;
use super::contender::{self, Applying, Contender, Stage};
use super::median_of;
use super::report::Findings;
use super::run::Bench;
use super::workload::{self, Workload};
use crate::bench::{machine, page};
use crate::program::Outcome;
use std::io::Write;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const DROVER: Contender = Contender::Drover(Applying::Grouped);
/// Time between two looks at what lies on the disk.
const LOOK: Duration = Duration::from_millis(20);
/// Most memory that an Extract may hold, in MiB.
const MEMORY_MAX: f64 = 128.0;

/// A transaction that an Extract has to put aside until it commits.
pub fn spill(bench: &Bench<'_>, findings: &mut Findings) -> Outcome {
    let rows = if bench.extent.quick { 300_000 } else { 5_000_000 };
    let workload = Workload::large();
    let stage = bench.create(&workload)?;
    DROVER.prepare_capture(stage)?;
    let running = contender::start_extract(stage)?;
    let process = running.extract.as_ref().map_or(0, Child::id);
    let is_over = AtomicBool::new(false);
    let (spilled, captured) = std::thread::scope(|scope| {
        let watch = scope.spawn(|| {
            let mut most = 0;
            while !is_over.load(Ordering::Relaxed) {
                most = most.max(contender::spilled_bytes(stage));
                std::thread::sleep(LOOK);
            }
            most
        });
        let captured = (|| {
            bench.source.run(stage.from, &workload::fill_large(rows))?;
            let end = bench.source.run(stage.from, "SELECT pg_current_wal_insert_lsn()")?;
            let begun = Instant::now();
            await_confirmed(stage, &end)?;
            Ok::<_, String>((end, begun.elapsed().as_secs_f64()))
        })();
        is_over.store(true, Ordering::Relaxed);
        (watch.join().unwrap_or(0), captured)
    });
    let (end, seconds) = captured?;
    let memory = machine::peak_mebibytes(process)?;
    running.stop()?;
    Contender::Native.prepare_capture(stage)?;
    let bytes = capture::receive(stage, &end)?.bytes;
    bench.remove(stage)?;
    let ratio = spilled as f64 / bytes as f64;
    let what = "an open transaction: MiB of an Extract at most";
    findings.bar(what, format!("{memory:.0}"), format!("< {MEMORY_MAX:.0}"), memory < MEMORY_MAX);
    let what = "an open transaction: bytes put aside to pgoutput's";
    findings.bar(what, format!("{ratio:.2}"), "<= 1.4".to_owned(), ratio <= 1.4);
    findings.open.push(vec![
        format!("a transaction of {} rows", page::grouped(rows as f64)),
        format!("{seconds:.1} s from commit to a trail that is safe"),
        format!("{memory:.0} MiB"),
        format!("{:.0} MB put aside of {:.0} MB sent", spilled as f64 / 1e6, bytes as f64 / 1e6),
    ]);
    Ok(())
}

fn await_confirmed(stage: Stage<'_>, end: &str) -> Outcome {
    let sql = format!(
        "DO $$ BEGIN
             WHILE (SELECT confirmed_flush_lsn < '{end}' FROM pg_replication_slots WHERE slot_name = '{}') LOOP
                 COMMIT;
                 PERFORM pg_sleep(0.01);
             END LOOP;
         END $$",
        contender::slot(stage)?
    );
    stage.source.run(stage.from, &sql).map(drop)
}

/// One transaction of many subtransactions, half of them rolled back.
pub fn savepoints(bench: &Bench<'_>, findings: &mut Findings) -> Outcome {
    let workload = Workload::savepoints(bench.extent.quick);
    let stage = bench.create(&workload)?;
    let subtransactions = workload.write(bench.source, stage.from, bench.folder)? as f64;
    let wanted = workload.checksum(bench.source, stage.from)?;
    let (mut native, mut drover) = (Vec::new(), Vec::new());
    for _ in 0..bench.extent.rounds {
        native.push(bench.catch_up(&workload, Contender::Native, stage, &wanted)?);
        drover.push(bench.catch_up(&workload, DROVER, stage, &wanted)?);
    }
    bench.remove(stage)?;
    let seconds = |runs: &[super::run::CatchUp]| median_of(runs, |run| run.seconds);
    let memory = drover.iter().map(|run| run.usage.extract_peak).fold(0.0, f64::max);
    findings.open.push(vec![
        format!("{} savepoints, half rolled back", page::grouped(subtransactions)),
        format!("{:.2} s to the target, native {:.2} s", seconds(&drover), seconds(&native)),
        format!("{memory:.0} MiB"),
        String::new(),
    ]);
    let what = "savepoints: MiB of an Extract at most";
    findings.bar(what, format!("{memory:.0}"), format!("< {MEMORY_MAX:.0}"), memory < MEMORY_MAX);
    Ok(())
}

/// A restart while a large transaction is open and small ones have passed it.
pub fn restart(bench: &Bench<'_>, findings: &mut Findings) -> Outcome {
    let (rows, small) = if bench.extent.quick { (100_000, 1_600) } else { (2_000_000, 50_000) };
    let workload = Workload::open(bench.extent.quick);
    let mut medians = Vec::new();
    for contender in [Contender::Native, DROVER] {
        let stage = bench.create(&workload)?;
        bench.fresh_target(&workload)?;
        contender.prepare(stage)?;
        let mut running = contender.start(stage)?;
        let open = open_transaction(stage, rows)?;
        workload::run_small(stage.source, stage.from, small)?;
        workload::mark(stage.source, stage.from, 1)?;
        stage.await_marker(1)?;
        let slot = if contender == DROVER { contender::slot(stage)? } else { "bench_run".to_owned() };
        let mut runs = Vec::new();
        for number in 2..2 + bench.extent.rounds as u64 {
            running.pause()?;
            workload::mark(stage.source, stage.from, number)?;
            let again = format!(
                "SELECT pg_current_wal_insert_lsn() - restart_lsn FROM pg_replication_slots WHERE slot_name = '{slot}'"
            );
            let again: f64 = stage.source.run(stage.from, &again)?.parse().unwrap_or(0.0);
            let spilled = spilled(stage, &slot)?;
            let marker = stage.look_for(number)?;
            let begun = Instant::now();
            running.resume()?;
            marker.wait()?;
            let seconds = begun.elapsed().as_secs_f64();
            let written = match &running.extract {
                Some(extract) => machine::written_bytes(extract.id())?,
                None => (self::spilled(stage, &slot)? - spilled).max(0.0),
            };
            println!("{}: {seconds:.2} s, {again:.0} bytes of log again, {written:.0} written", contender.title());
            runs.push((seconds, again, written));
        }
        drop(open);
        running.stop()?;
        let wanted = workload.checksum(stage.source, stage.from)?;
        bench.prove(&workload, contender.title(), stage, &wanted)?;
        stage.target.drop_database("bench_run")?;
        bench.remove(stage)?;
        let seconds = median_of(&runs, |run| run.0);
        findings.open.push(vec![
            format!(
                "restart with {} rows open and {} transactions behind, {}",
                page::grouped(rows as f64),
                page::grouped(small as f64),
                contender.title()
            ),
            format!("{seconds:.2} s to the next row"),
            String::new(),
            format!(
                "{:.0} MB of log read again, {:.0} MB written",
                median_of(&runs, |run| run.1) / 1e6,
                median_of(&runs, |run| run.2) / 1e6
            ),
        ]);
        medians.push(seconds);
    }
    let ratio = medians[1] / medians[0];
    let what = "restart with an open transaction: to native";
    findings.bar(what, format!("{ratio:.2}"), "<= 1.15".to_owned(), ratio <= 1.15);
    Ok(())
}

/// Bytes that walsenders have put aside for a slot.
fn spilled(stage: Stage<'_>, slot: &str) -> Result<f64, String> {
    let sql = format!("SELECT coalesce(sum(spill_bytes), 0) FROM pg_stat_replication_slots WHERE slot_name = '{slot}'");
    Ok(stage.source.run(stage.from, &sql)?.parse().unwrap_or(0.0))
}

/// A session with a transaction that has written so many rows, open until this is dropped.
struct OpenTransaction(Child);

fn open_transaction(stage: Stage<'_>, rows: u64) -> Result<OpenTransaction, String> {
    let mut psql = stage.source.client("psql", stage.from);
    psql.args(["-X", "-q", "-v", "ON_ERROR_STOP=1"]).stdin(Stdio::piped());
    let child = psql.spawn().map_err(|cause| format!("could not start psql: {cause}"))?;
    let mut open = OpenTransaction(child);
    let text = format!("BEGIN;\n{};\nSELECT pg_advisory_lock(4711) \\g /dev/null\n", workload::fill_large(rows));
    let input = open.0.stdin.as_mut().ok_or("psql has no input")?;
    input.write_all(text.as_bytes()).map_err(|cause| format!("psql does not listen: {cause}"))?;
    let begun = Instant::now();
    let is_there = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = 4711";
    while stage.source.run(stage.from, is_there)? == "0" {
        if begun.elapsed() > Duration::from_secs(120) {
            return Err("the open transaction does not get on".to_owned());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(open)
}

impl Drop for OpenTransaction {
    fn drop(&mut self) {
        // Without input psql ends, and the transaction with it.
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}
