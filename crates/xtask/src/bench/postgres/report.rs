//! What goes to the page.

use super::cluster::Cluster;
use super::latency::{Latency, RATE};
use super::usage::Usage;
use super::{CONTENDERS, CatchUp, Measured};
use crate::bench::{machine, median, page};

/// All tables of the section.
pub fn text(measured: &[Measured], latencies: &[Vec<Latency>; 2], source: &Cluster<'_>) -> Result<String, String> {
    let version = source.run("postgres", "SELECT current_setting('server_version')")?;
    let rounds = measured.first().map_or(latencies[0].len(), |measured| measured.catch_ups[0].len());
    let [native, drover] = [0, 1];
    let seconds = |measured: &Measured, who: usize| median_of(&measured.catch_ups[who], |run| run.seconds);
    let rate = |measured: &Measured, who: usize| measured.rows as f64 / seconds(measured, who);
    let capture =
        |measured: &Measured, who: usize| measured.rows as f64 / median_of(&measured.captures[who], |run| run.seconds);
    let rates = measured.iter().map(|measured| {
        vec![
            measured.workload.title.to_owned(),
            page::grouped(measured.rows as f64),
            page::grouped(rate(measured, native)),
            page::grouped(rate(measured, drover)),
            format!("{:.2}", rate(measured, drover) / rate(measured, native)),
            format!("{:.1}", measured.workload.bar),
            page::grouped(capture(measured, native)),
            page::grouped(capture(measured, drover)),
            format!("{:.2}", capture(measured, drover) / capture(measured, native)),
        ]
    });
    let costs = measured.iter().flat_map(|measured| {
        CONTENDERS.iter().enumerate().map(|(who, contender)| {
            let of = |figure: fn(&Usage) -> f64| {
                let seconds = median_of(&measured.catch_ups[who], |run: &CatchUp| figure(&run.usage));
                format!("{:.1}", seconds * 1e6 / measured.rows as f64)
            };
            let alone = |figure: fn(&Usage) -> f64| {
                let seconds = median_of(&measured.captures[who], |run| figure(&run.usage));
                format!("{:.1}", seconds * 1e6 / measured.rows as f64)
            };
            let peak = |figure: fn(&Usage) -> f64| {
                let most = measured.catch_ups[who].iter().map(|run| figure(&run.usage)).fold(0.0, f64::max);
                if most == 0.0 { String::new() } else { format!("{most:.0}") }
            };
            vec![
                format!("{}, {}", measured.workload.title, contender.title()),
                of(|usage| usage.walsender),
                of(|usage| usage.extract),
                of(|usage| usage.replicat),
                of(|usage| usage.applying),
                of(|usage| usage.target_rest),
                of(|usage| usage.walsender + usage.extract + usage.replicat + usage.applying + usage.target_rest),
                peak(|usage| usage.extract_peak),
                peak(|usage| usage.replicat_peak),
                alone(|usage| usage.walsender),
                alone(|usage| usage.extract),
            ]
        })
    });
    let reading = measured.iter().map(|measured| {
        let bytes = |who: usize| median_of(&measured.captures[who], |run| run.bytes as f64) / measured.rows as f64;
        let cpu = median_of(&measured.captures[drover], |run| run.usage.extract) * 1e6 / measured.rows as f64;
        vec![
            measured.workload.title.to_owned(),
            format!("{cpu:.2}"),
            format!("{:.0}", bytes(native)),
            format!("{:.0}", bytes(drover)),
            format!("{:.2}", bytes(drover) / bytes(native)),
            format!("{:.2} %", measured.idle),
        ]
    });
    let delays =
        CONTENDERS.iter().zip(latencies).filter(|(_, measured)| !measured.is_empty()).map(|(contender, measured)| {
            let of = |figure: fn(&Latency) -> f64| median_of(measured, figure);
            let delay = |figure| format!("{:.1}", of(figure));
            vec![
                contender.title().to_owned(),
                delay(|latency| latency.p50),
                delay(|latency| latency.p95),
                delay(|latency| latency.p99),
                delay(|latency| latency.max),
                page::grouped(of(|latency| latency.rate)),
            ]
        });
    Ok(format!(
        "Made by `cargo x bench postgres`; median of {rounds} rounds.\n{}; PostgreSQL {version}.\n\n\
         Rows a second, draining a backlog, and by capture alone:\n\n{}\n\
         CPU seconds per million rows while draining, peak memory of Drover's processes, and CPU seconds of capture alone:\n\n{}\n\
         An Extract by itself: CPU microseconds a row, bytes a row of pgoutput's messages and of the trail, and the share of \
         one core that it uses when it has caught up:\n\n{}\n\
         Milliseconds from the return of COMMIT at the source until the row is visible at the target, at {} transactions a \
         second:\n\n{}",
        machine::description(),
        page::table(
            &["workload", "rows", "native", "Drover", "ratio", "bar", "pg_recvlogical", "Extract", "ratio"],
            &rates.collect::<Vec<_>>(),
        ),
        page::table(
            &[
                "workload",
                "walsender",
                "Extract",
                "Replicat",
                "applying session",
                "rest of target",
                "all",
                "Extract MiB",
                "Replicat MiB",
                "alone: walsender",
                "alone: reader",
            ],
            &costs.collect::<Vec<_>>(),
        ),
        page::table(
            &["workload", "CPU µs", "pgoutput bytes", "trail bytes", "ratio", "idle"],
            &reading.collect::<Vec<_>>(),
        ),
        page::grouped(RATE as f64),
        page::table(&["contender", "p50", "p95", "p99", "max", "load"], &delays.collect::<Vec<_>>()),
    ))
}

fn median_of<T>(runs: &[T], figure: impl Fn(&T) -> f64) -> f64 {
    median(runs.iter().map(figure).collect())
}
