//! Capture alone: the backlog from the slot to a file that is safe on disk.

use super::contender::{self, Contender, Stage};
use super::usage::{Before, Usage};
use crate::bench::machine;
use crate::program::{self, Outcome};
use std::process::Stdio;
use std::time::{Duration, Instant};

/// How long the end is waited for.
const LIMIT: Duration = Duration::from_secs(300);
/// Time between two looks at how far the trail is.
const LOOK: Duration = Duration::from_millis(2);

/// One run over the backlog.
pub struct Capture {
    pub seconds: f64,
    pub usage: Usage,
    /// Bytes of the file, or of the trail.
    pub bytes: u64,
}

/// Name of the slot that pg_recvlogical reads.
const SLOT: &str = "bench_capture";

impl Contender {
    /// Sets everything back to the start of the backlog.
    pub fn prepare_capture(self, stage: Stage<'_>) -> Outcome {
        match self {
            Contender::Drover(_) => self.prepare(stage),
            _ => {
                let sql = format!("SELECT pg_copy_logical_replication_slot('bench', '{SLOT}')");
                stage.source.run(stage.from, &sql).map(drop)
            }
        }
    }
}

/// Captures what is in front of `end`, a place in the source's log: native's side by pg_recvlogical, with the plugin that a
/// subscription uses too.
pub fn measure(contender: Contender, stage: Stage<'_>, end: &str) -> Result<Capture, String> {
    match contender {
        Contender::Drover(_) => extract(stage, end),
        _ => receive(stage, end),
    }
}

/// By pg_recvlogical.
pub fn receive(stage: Stage<'_>, end: &str) -> Result<Capture, String> {
    let clusters = [stage.source, stage.target];
    let before = Before::of(clusters);
    let file = stage.folder.join("source/received");
    let mut receive = stage.source.client("pg_recvlogical", stage.from);
    receive.args(["-d", stage.from, "--start", "--no-loop", "-F", "1", "--slot", SLOT, "--endpos", end]);
    receive.args(["-o", "proto_version=1", "-o", "publication_names=bench", "-f"]).arg(&file);
    let begun = Instant::now();
    let mut child = receive.spawn().map_err(|cause| format!("could not start pg_recvlogical: {cause}"))?;
    // Its figures go away with it: the last ones before its end count.
    let mut usage = Usage::default();
    let status = loop {
        if let Some(status) = child.try_wait().map_err(|cause| format!("pg_recvlogical was lost: {cause}"))? {
            break status;
        }
        let now = before.until_now(clusters, Some(&child), None);
        if now.walsender > 0.0 {
            usage = now;
        }
        if begun.elapsed() > LIMIT {
            let _ = child.kill();
        }
        std::thread::sleep(LOOK);
    };
    let seconds = begun.elapsed().as_secs_f64();
    stage.drop_slot(SLOT)?;
    let bytes = std::fs::metadata(&file).map_or(0, |metadata| metadata.len());
    std::fs::remove_file(&file).map_err(|cause| format!("pg_recvlogical wrote nothing: {cause}"))?;
    if !status.success() {
        return Err(format!("`{}` ended with {status}", program::shown(&receive)));
    }
    Ok(Capture { seconds, usage, bytes })
}

fn extract(stage: Stage<'_>, end: &str) -> Result<Capture, String> {
    let clusters = [stage.source, stage.target];
    let safe = contender::safe_file(stage);
    let sql = format!(
        "DO $$ BEGIN
             WHILE (SELECT confirmed_flush_lsn < '{end}' FROM pg_replication_slots WHERE slot_name = '{}') LOOP
                 COMMIT;
                 PERFORM pg_sleep(0.01);
             END LOOP;
         END $$",
        contender::slot(stage)?
    );
    let mut confirmed = stage.source.psql(stage.from, &sql);
    confirmed.stdout(Stdio::null());
    let mut confirmed = confirmed.spawn().map_err(|cause| format!("could not start psql: {cause}"))?;
    let before = Before::of(clusters);
    let begun = Instant::now();
    let running = contender::start_extract(stage)?;
    // The trail is safe up to the end when its safe position moves for the last time before the slot is confirmed.
    let (mut known, mut seconds) = (Vec::new(), 0.0);
    while confirmed.try_wait().map_err(|cause| format!("psql was lost: {cause}"))?.is_none() {
        let content = std::fs::read(&safe).unwrap_or_default();
        if content != known {
            known = content;
            seconds = begun.elapsed().as_secs_f64();
        }
        if begun.elapsed() > LIMIT {
            let _ = confirmed.kill();
        }
        std::thread::sleep(LOOK);
    }
    let usage = before.until_now(clusters, running.extract.as_ref(), None);
    let in_time = begun.elapsed() <= LIMIT;
    running.stop()?;
    let bytes = contender::trail_bytes(stage)?;
    if in_time { Ok(Capture { seconds, usage, bytes }) } else { Err("the Extract did not come to the end".to_owned()) }
}

/// The share of one core, in percent, that an Extract uses whose source has nothing to tell for `seconds`.
pub fn idle(stage: Stage<'_>, seconds: u64) -> Result<f64, String> {
    let running = contender::start_extract(stage)?;
    let process = running.extract.as_ref().map_or(0, std::process::Child::id);
    // What the start costs is over when the server has confirmed what there was.
    std::thread::sleep(Duration::from_secs(3));
    let before = machine::cpu_seconds(process).map_err(|cause| format!("the Extract was lost: {cause}"))?;
    std::thread::sleep(Duration::from_secs(seconds));
    let after = machine::cpu_seconds(process).map_err(|cause| format!("the Extract was lost: {cause}"))?;
    running.stop()?;
    Ok((after - before) / seconds as f64 * 100.0)
}
