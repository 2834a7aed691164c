//! The backlogs: capture, trail and apply at once, capture alone, and a Replicat alone.

use super::capture::{self, Capture};
use super::contender::{Applying, Contender};
use super::report::Findings;
use super::run::{Bench, CatchUp};
use super::usage::Usage;
use super::workload::Workload;
use super::{hot, median_of};
use crate::bench::page;
use crate::program::Outcome;

const DROVER: Contender = Contender::Drover(Applying::Grouped);

/// Everything that was measured of a workload.
struct Drained {
    workload: Workload,
    rows: f64,
    native: Vec<CatchUp>,
    drover: Vec<CatchUp>,
    received: Vec<Capture>,
    captured: Vec<Capture>,
    /// A Replicat by itself.
    applied: Vec<CatchUp>,
    /// Share of a core that an Extract uses that has caught up, in percent.
    idle: f64,
}

/// Writes the backlog of a workload and lets each contender drain it.
pub fn measure(bench: &Bench<'_>, workload: Workload, findings: &mut Findings) -> Outcome {
    println!("\n{}", workload.title);
    let stage = bench.create(&workload)?;
    let rows = workload.write(bench.source, stage.from, bench.folder)? as f64;
    bench.source.run("postgres", "CHECKPOINT")?;
    let end = bench.source.run(stage.from, "SELECT pg_current_wal_insert_lsn()")?;
    let wanted = workload.checksum(bench.source, stage.from)?;
    let (native, drover) = (Vec::new(), Vec::new());
    let (received, captured, applied) = (Vec::new(), Vec::new(), Vec::new());
    let mut drained = Drained { workload, rows, native, drover, received, captured, applied, idle: 0.0 };
    for round in 1..=bench.extent.rounds {
        let say = |who: &str, run: &CatchUp| {
            println!("round {round}: {who:<14} {:>7.0} rows/s, {:?}", rows / run.seconds, run.usage);
        };
        for contender in [Contender::Native, DROVER] {
            let run = bench.catch_up(&drained.workload, contender, stage, &wanted)?;
            say(contender.title(), &run);
            if contender == DROVER { &mut drained.drover } else { &mut drained.native }.push(run);
        }
        for contender in [Contender::Native, DROVER] {
            contender.prepare_capture(stage)?;
            let capture = capture::measure(contender, stage, &end)?;
            println!("round {round}: {:<14} {:>7.0} rows/s captured", contender.title(), rows / capture.seconds);
            if contender == DROVER { &mut drained.captured } else { &mut drained.received }.push(capture);
        }
        let run = hot::apply_alone(bench, &drained.workload, stage, &wanted, Applying::Grouped)?;
        say("Replicat alone", &run);
        drained.applied.push(run);
    }
    if drained.workload.name == "c" {
        hot::at_work(bench, &drained.workload, stage, &wanted, findings)?;
    }
    drained.idle = capture::idle(stage, bench.extent.seconds)?;
    bench.remove(stage)?;
    drained.tell(findings);
    Ok(())
}

impl Drained {
    fn tell(&self, findings: &mut Findings) {
        let Drained { workload, rows, .. } = self;
        let (title, bars) = (workload.title, workload.bars);
        let rate = |runs: &[CatchUp]| rows / median_of(runs, |run| run.seconds);
        let captured = |runs: &[Capture]| rows / median_of(runs, |run| run.seconds);
        let (native, drover, alone) = (rate(&self.native), rate(&self.drover), rate(&self.applied));
        let (received, extracted) = (captured(&self.received), captured(&self.captured));
        let ratio = drover / native;
        let asked = format!(">= {:.2}", bars.catch_up);
        findings.bar(
            &format!("{title}: capture, trail and apply to native"),
            format!("{ratio:.2}"),
            asked,
            ratio >= bars.catch_up,
        );
        let ratio = extracted / received;
        let what = format!("{title}: capture to pg_recvlogical");
        findings.bar(&what, format!("{ratio:.2}"), ">= 0.95".to_owned(), ratio >= 0.95);
        if let Some(least) = bars.alone {
            let (figure, asked) = (page::grouped(alone), format!(">= {}", page::grouped(least)));
            findings.bar(&format!("{title}: rows/s of a Replicat alone"), figure, asked, alone >= least);
        }
        let bytes = |runs: &[Capture]| median_of(runs, |run| run.bytes as f64) / rows;
        let ratio = bytes(&self.captured) / bytes(&self.received);
        let what = format!("{title}: bytes of the trail to pgoutput's");
        findings.bar(&what, format!("{ratio:.2}"), "<= 1.4".to_owned(), ratio <= 1.4);
        let cpu = median_of(&self.captured, |run| run.usage.extract) * 1e6 / rows;
        if let Some(most) = bars.cpu {
            let what = format!("{title}: CPU µs a row of an Extract");
            findings.bar(&what, format!("{cpu:.2}"), format!("<= {most:.1}"), cpu <= most);
        }
        findings.rates.push(vec![
            title.to_owned(),
            page::grouped(*rows),
            page::grouped(native),
            page::grouped(drover),
            format!("{:.2}", drover / native),
            page::grouped(received),
            page::grouped(extracted),
            format!("{:.2}", extracted / received),
            page::grouped(alone),
        ]);
        findings.reading.push(vec![
            title.to_owned(),
            format!("{cpu:.2}"),
            format!("{:.0}", bytes(&self.received)),
            format!("{:.0}", bytes(&self.captured)),
            format!("{ratio:.2}"),
            format!("{:.2} %", self.idle),
        ]);
        self.tell_costs(findings);
    }

    fn tell_costs(&self, findings: &mut Findings) {
        let alone = [&self.received, &self.captured].map(|captures| {
            let of = |figure: fn(&Usage) -> f64| median_of(captures, |run| figure(&run.usage)) * 1e6 / self.rows;
            [of(|usage| usage.walsender), of(|usage| usage.extract)].map(|seconds| format!("{seconds:.1}"))
        });
        let who = [("native", &self.native), ("Drover", &self.drover)];
        for ((contender, runs), captured) in who.into_iter().zip(alone) {
            let of = |figure: fn(&Usage) -> f64| {
                format!("{:.1}", median_of(runs, |run| figure(&run.usage)) * 1e6 / self.rows)
            };
            let peak = |figure: fn(&Usage) -> f64| {
                let most = runs.iter().map(|run| figure(&run.usage)).fold(0.0, f64::max);
                if most == 0.0 { String::new() } else { format!("{most:.0}") }
            };
            let mut row = vec![
                format!("{}, {contender}", self.workload.title),
                of(|usage| usage.walsender),
                of(|usage| usage.extract),
                of(|usage| usage.replicat),
                of(|usage| usage.applying),
                of(|usage| usage.target_rest),
                of(|usage| usage.walsender + usage.extract + usage.replicat + usage.applying + usage.target_rest),
                peak(|usage| usage.extract_peak),
                peak(|usage| usage.replicat_peak),
            ];
            row.extend(captured);
            findings.costs.push(row);
        }
    }
}
