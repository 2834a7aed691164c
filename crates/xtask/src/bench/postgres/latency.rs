//! From the return of COMMIT at the source until the row is visible at the target, under a steady load.

use super::cluster::Cluster;
use super::contender::{Applying, Contender, Stage};
use super::report::Findings;
use super::run::Bench;
use super::{median_of, workload};
use crate::bench::page;
use crate::program::{self, Outcome};
use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

/// Transactions a second of the load.
pub const RATE: u64 = 2000;
/// Heartbeats a second, each a transaction of its own.
const HEARTBEATS: u64 = 50;

/// Milliseconds.
#[derive(Clone, Copy, Debug)]
struct Latency {
    p50: f64,
    p95: f64,
    p99: f64,
    max: f64,
    /// Transactions a second that the load came to.
    rate: f64,
}

/// Measures both contenders, in turns.
pub fn steady(bench: &Bench<'_>, findings: &mut Findings) -> Outcome {
    let steady = workload::steady();
    for cluster in [bench.source, bench.target] {
        steady.create(cluster, "bench_base")?;
    }
    let contenders = [Contender::Native, Contender::Drover(Applying::Grouped)];
    let mut latencies: [Vec<Latency>; 2] = Default::default();
    let (source, target, folder) = (bench.source, bench.target, bench.folder);
    let stage = Stage { source, target, from: "bench_run", to: "bench_run", folder };
    for round in 1..=bench.extent.rounds {
        for (contender, latencies) in contenders.into_iter().zip(&mut latencies) {
            for cluster in [source, target] {
                cluster.run("postgres", "CREATE DATABASE bench_run TEMPLATE bench_base STRATEGY file_copy")?;
                steady.warm(cluster, "bench_run")?;
            }
            stage.register()?;
            contender.prepare(stage)?;
            let latency = measure(stage, contender, bench.extent.seconds)?;
            println!("round {round}: {:<6} {latency:?}", contender.title());
            latencies.push(latency);
            stage.forget()?;
            for cluster in [source, target] {
                cluster.drop_database("bench_run")?;
            }
        }
    }
    for cluster in [source, target] {
        cluster.drop_database("bench_base")?;
    }
    for (contender, measured) in contenders.into_iter().zip(&latencies) {
        let of = |figure: fn(&Latency) -> f64| median_of(measured, figure);
        let delay = |figure| format!("{:.1}", of(figure));
        findings.latencies.push(vec![
            contender.title().to_owned(),
            delay(|latency| latency.p50),
            delay(|latency| latency.p95),
            delay(|latency| latency.p99),
            delay(|latency| latency.max),
            page::grouped(of(|latency| latency.rate)),
        ]);
    }
    let of = |figure: fn(&Latency) -> f64| median_of(&latencies[1], figure);
    for (what, figure, most) in [
        ("latency at 2,000 transactions a second: p50 in ms", of(|latency| latency.p50), 2.5),
        ("latency at 2,000 transactions a second: p99 in ms", of(|latency| latency.p99), 8.0),
    ] {
        findings.bar(what, format!("{figure:.1}"), format!("<= {most}"), figure <= most);
    }
    Ok(())
}

/// Runs the load for `seconds`. The contender must run already and is equal to the source afterwards, or this fails.
fn measure(stage: Stage<'_>, contender: Contender, seconds: u64) -> Result<Latency, String> {
    let steady = workload::steady();
    let running = contender.start(stage)?;
    // The load outlasts the heartbeats at both ends.
    let mut load = stage.source.client("pgbench", stage.from);
    load.args(["-n", "-M", "prepared", "-c", "4", "-R", &RATE.to_string(), "-T", &(seconds + 3).to_string()]);
    let load = load.stdout(Stdio::piped()).spawn().map_err(|cause| format!("could not start pgbench: {cause}"))?;
    std::thread::sleep(Duration::from_secs(2));
    let watch = watch(stage.target, stage.to, seconds * HEARTBEATS)?;
    let sent = heartbeats(stage, seconds)?;
    let seen = watch.wait_with_output().map_err(|cause| format!("the observer was lost: {cause}"))?;
    let seen = arrivals(&String::from_utf8_lossy(&seen.stderr));
    let load = load.wait_with_output().map_err(|cause| format!("the load was lost: {cause}"))?;
    workload::mark(stage.source, stage.from, 1)?;
    stage.await_marker(1)?;
    running.stop()?;
    if steady.checksum(stage.source, stage.from)? != steady.checksum(stage.target, stage.to)? {
        return Err(format!("{}: source and target differ", contender.title()));
    }
    let rate = rate(&String::from_utf8_lossy(&load.stdout)).ok_or("pgbench told no rate")?;
    let mut delays: Vec<f64> = Vec::new();
    for (id, committed) in &sent {
        let arrived = seen.get(id).ok_or_else(|| format!("heartbeat {id} was not seen at the target"))?;
        delays.push((arrived - committed) * 1000.0);
    }
    delays.sort_by(f64::total_cmp);
    let part = |share: f64| delays[((delays.len() as f64 * share) as usize).min(delays.len() - 1)];
    Ok(Latency { p50: part(0.5), p95: part(0.95), p99: part(0.99), max: part(1.0), rate })
}

/// Commits heartbeats 1, 2, … and returns when each commit returned, in seconds of the system's clock.
fn heartbeats(stage: Stage<'_>, seconds: u64) -> Result<Vec<(u64, f64)>, String> {
    let script = stage.folder.join("heartbeat.sql");
    let text = "INSERT INTO bench_heartbeat VALUES (nextval('bench_heartbeats'), clock_timestamp());\n";
    fs::write(&script, text).map_err(|cause| format!("could not write {}: {cause}", script.display()))?;
    stage.source.run(stage.from, "CREATE SEQUENCE bench_heartbeats")?;
    let prefix = stage.folder.join("heartbeat");
    let mut pgbench = stage.source.client("pgbench", stage.from);
    pgbench.args(["-n", "-M", "prepared", "-c", "1", "-R", &HEARTBEATS.to_string()]);
    pgbench.args(["-t", &(seconds * HEARTBEATS).to_string(), "-l", "--log-prefix"]).arg(&prefix).arg("-f").arg(&script);
    program::output(&mut pgbench)?;
    let log = take_log(stage.folder)?;
    // Client, number of the transaction, duration, script, then the time of its end in seconds and microseconds.
    let end = |line: &str| {
        let mut fields = line.split(' ').skip(4).map(|field| field.parse::<f64>().ok());
        Some(fields.next()?? + fields.next()?? / 1e6)
    };
    let ends: Option<Vec<f64>> = log.lines().map(end).collect();
    let ends = ends.filter(|ends| !ends.is_empty()).ok_or("pgbench's log is not as expected")?;
    Ok((1..).zip(ends).collect())
}

/// Reads and removes the log of heartbeats.
fn take_log(folder: &Path) -> Result<String, String> {
    let refuse = |cause| format!("could not read pgbench's log: {cause}");
    for entry in fs::read_dir(folder).map_err(refuse)? {
        let entry = entry.map_err(refuse)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with("heartbeat.") && name != "heartbeat.sql" {
            let text = fs::read_to_string(entry.path()).map_err(refuse)?;
            fs::remove_file(entry.path()).map_err(refuse)?;
            return Ok(text);
        }
    }
    Err("pgbench wrote no log".to_owned())
}

/// Looks at the target every millisecond until heartbeat `last` is there, and tells when each was first seen.
fn watch(target: &Cluster<'_>, database: &str, last: u64) -> Result<std::process::Child, String> {
    // Each look is a transaction of its own: an old snapshot would keep the target from cleaning up.
    let sql = format!(
        "DO $$ DECLARE known bigint := 0; found bigint; BEGIN
             FOR look IN 1..600000 LOOP
                 SELECT coalesce(max(id), 0) INTO found FROM bench_heartbeat;
                 IF found > known THEN
                     RAISE INFO 'seen % % %', known + 1, found, extract(epoch FROM clock_timestamp());
                     known := found;
                 END IF;
                 COMMIT;
                 EXIT WHEN known >= {last};
                 PERFORM pg_sleep(0.001);
             END LOOP;
         END $$"
    );
    let mut psql = target.psql(database, &sql);
    psql.stderr(Stdio::piped()).spawn().map_err(|cause| format!("could not start psql: {cause}"))
}

fn arrivals(text: &str) -> HashMap<u64, f64> {
    let mut arrivals = HashMap::new();
    for line in text.lines() {
        let Some((_, rest)) = line.split_once("seen ") else { continue };
        let mut fields = rest.split(' ');
        let mut number = || fields.next().and_then(|field| field.parse::<f64>().ok());
        if let (Some(first), Some(last), Some(time)) = (number(), number(), number()) {
            arrivals.extend((first as u64..=last as u64).map(|id| (id, time)));
        }
    }
    arrivals
}

fn rate(text: &str) -> Option<f64> {
    text.lines().find_map(|line| line.strip_prefix("tps = ")?.split(' ').next()?.parse().ok())
}
