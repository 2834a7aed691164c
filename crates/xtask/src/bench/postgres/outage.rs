//! Lost connections and killed processes: when the next change is visible.

use super::contender::{Applying, Contender, Stage};
use super::median_of;
use super::report::Findings;
use super::run::Bench;
use super::workload::{self, Workload};
use crate::program::Outcome;
use std::process::Stdio;
use std::time::{Duration, Instant};

const DROVER: Contender = Contender::Drover(Applying::Grouped);
/// Transactions a second of the load under which processes are killed.
const RATE: u64 = 2000;

/// What is cut.
#[derive(Clone, Copy)]
enum Cut {
    /// The session that applies.
    Target,
    /// The walsender.
    Source,
}

impl Cut {
    fn title(self) -> &'static str {
        match self {
            Cut::Target => "the session at the target is terminated",
            Cut::Source => "the walsender is terminated",
        }
    }

    fn perform(self, stage: Stage<'_>, contender: Contender) -> Outcome {
        let (cluster, database, wanted) = match (self, contender) {
            (Cut::Source, _) => (stage.source, stage.from, "backend_type = 'walsender'"),
            (Cut::Target, Contender::Drover(_)) => (stage.target, stage.to, "application_name = 'drover'"),
            (Cut::Target, _) => (stage.target, stage.to, "backend_type = 'logical replication worker'"),
        };
        let sql = format!(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE {wanted} AND datname = '{database}'"
        );
        match cluster.run(database, &sql)?.as_str() {
            "0" => Err(format!("{}: there is none", self.title())),
            _ => Ok(()),
        }
    }
}

/// Native is given its own pause between two starts of a worker, five seconds, which the other parts shorten.
pub fn measure(bench: &Bench<'_>, findings: &mut Findings) -> Outcome {
    pause_of_workers(bench, "5s")?;
    let measured = cuts(bench, findings);
    pause_of_workers(bench, "100ms")?;
    measured
}

fn pause_of_workers(bench: &Bench<'_>, pause: &str) -> Outcome {
    bench.target.run("postgres", &format!("ALTER SYSTEM SET wal_retrieve_retry_interval = '{pause}'"))?;
    bench.target.run("postgres", "SELECT pg_reload_conf()").map(drop)
}

fn cuts(bench: &Bench<'_>, findings: &mut Findings) -> Outcome {
    let workload = Workload::open(true);
    let mut outages = vec![Vec::new(); 2];
    let mut killed = Vec::new();
    for contender in [Contender::Native, DROVER] {
        let stage = bench.create(&workload)?;
        bench.fresh_target(&workload)?;
        contender.prepare(stage)?;
        let mut running = contender.start(stage)?;
        workload::mark(stage.source, stage.from, 1)?;
        stage.await_marker(1)?;
        let mut number = 1;
        for (cut, outages) in [Cut::Target, Cut::Source].into_iter().zip(&mut outages) {
            let mut seconds = Vec::new();
            for _ in 0..bench.extent.rounds {
                // Long enough for a pause between starts to be over.
                std::thread::sleep(Duration::from_millis(if bench.extent.quick { 300 } else { 6000 }));
                number += 1;
                let marker = stage.look_for(number)?;
                cut.perform(stage, contender)?;
                let begun = Instant::now();
                workload::mark(stage.source, stage.from, number)?;
                marker.wait()?;
                seconds.push(begun.elapsed().as_secs_f64());
            }
            println!("{}: {}: {seconds:.2?} s", contender.title(), cut.title());
            outages.push(median_of(&seconds, |seconds| *seconds));
        }
        if contender == DROVER {
            killed = kills(bench, stage, &mut running, number)?;
            println!("killed under load: {killed:.2?} s");
        }
        running.stop()?;
        let wanted = workload.checksum(stage.source, stage.from)?;
        bench.prove(&workload, contender.title(), stage, &wanted)?;
        stage.target.drop_database("bench_run")?;
        bench.remove(stage)?;
    }
    for (cut, outages) in [Cut::Target, Cut::Source].into_iter().zip(&outages) {
        let [native, drover] = [outages[0], outages[1]];
        let title = cut.title();
        findings.outages.push(vec![title.to_owned(), format!("{native:.2}"), format!("{drover:.2}")]);
        let what = format!("{title}: seconds to the next row");
        findings.bar(&what, format!("{drover:.2}"), "<= 1".to_owned(), drover <= 1.0);
    }
    let seconds = median_of(&killed, |seconds| *seconds);
    let title = "both processes are killed under load and started again";
    findings.outages.push(vec![title.to_owned(), String::new(), format!("{seconds:.2}")]);
    let what = format!("{title}: seconds to the next row");
    findings.bar(&what, format!("{seconds:.2}"), "<= 2".to_owned(), seconds <= 2.0);
    Ok(())
}

/// Seconds from the restart of killed processes until a row is visible that was committed after they were gone.
fn kills(
    bench: &Bench<'_>,
    stage: Stage<'_>,
    running: &mut super::contender::Running<'_>,
    mut number: u64,
) -> Result<Vec<f64>, String> {
    let mut killed = Vec::new();
    let seconds = 4 * bench.extent.rounds;
    let mut load = stage.source.client("pgbench", stage.from);
    load.args(["-n", "-M", "prepared", "-c", "4", "-R", &RATE.to_string(), "-T", &seconds.to_string()]);
    let mut load = load.stdout(Stdio::null()).spawn().map_err(|cause| format!("could not start pgbench: {cause}"))?;
    for _ in 0..bench.extent.rounds {
        std::thread::sleep(Duration::from_millis(1500));
        number += 1;
        let marker = stage.look_for(number)?;
        let begun = Instant::now();
        running.kill_and_resume()?;
        workload::mark(stage.source, stage.from, number)?;
        marker.wait()?;
        killed.push(begun.elapsed().as_secs_f64());
    }
    load.wait().map_err(|cause| format!("the load was lost: {cause}"))?;
    workload::mark(stage.source, stage.from, number + 1)?;
    stage.await_marker(number + 1)?;
    Ok(killed)
}
