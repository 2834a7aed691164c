//! A Replicat alone, from a trail that is there: how many appliers are at work at once, and what a hot row costs them.

use super::capture;
use super::contender::{self, Applying, Contender, Stage};
use super::median_of;
use super::report::Findings;
use super::run::{Bench, CatchUp};
use super::workload::Workload;
use crate::bench::page;
use crate::program::Outcome;

/// Applies the trail that the last Extract has left into a fresh target.
pub fn apply_alone(
    bench: &Bench<'_>,
    workload: &Workload,
    stage: Stage<'_>,
    wanted: &str,
    applying: Applying,
) -> Result<CatchUp, String> {
    bench.fresh_target(workload)?;
    contender::prepare_replicat(stage, applying)?;
    bench.timed(workload, "Replicat alone", stage, wanted, || contender::start_replicat(stage))
}

/// How much a Replicat with four appliers has them do at once with keys that have nothing to do with each other.
pub fn at_work(
    bench: &Bench<'_>,
    workload: &Workload,
    stage: Stage<'_>,
    wanted: &str,
    findings: &mut Findings,
) -> Outcome {
    let mut at_work = Vec::new();
    for _ in 0..bench.extent.rounds {
        let run = apply_alone(bench, workload, stage, wanted, Applying::Four)?;
        at_work.push((run, of_report(&contender::replicat_report(stage)?)?));
    }
    let (mean, waited) = (median_of(&at_work, |(_, told)| told.0), median_of(&at_work, |(_, told)| told.1));
    let rate = median_of(&at_work, |(run, _)| run.seconds);
    println!("4 appliers: {mean:.2} at work, {waited:.2} % waited, {rate:.2} s");
    findings.bar(
        "independent keys: mean number of 4 appliers at work",
        format!("{mean:.2}"),
        ">= 2.5".to_owned(),
        mean >= 2.5,
    );
    findings.appliers.push(vec!["independent keys".to_owned(), format!("{mean:.2}"), format!("{waited:.2} %")]);
    Ok(())
}

/// Mean number of appliers at work, and the share of transactions that waited for another one, in percent.
fn of_report(report: &str) -> Result<(f64, f64), String> {
    let number = |text: &str| text.split_whitespace().next_back().and_then(|number| number.parse::<f64>().ok());
    let figures = report.lines().find_map(|line| {
        let (before, after) = line.split_once(" appliers at work on average, ")?;
        Some((number(before)?, number(after.split_once(" % of ")?.0)?))
    });
    figures.ok_or_else(|| format!("the Replicat reports nothing of its appliers:\n{report}"))
}

/// One row that all transactions update: several appliers beside one session.
pub fn measure(bench: &Bench<'_>, findings: &mut Findings) -> Outcome {
    let workload = Workload::hot(bench.extent.quick);
    let stage = bench.create(&workload)?;
    let rows = workload.write(bench.source, stage.from, bench.folder)? as f64;
    let end = bench.source.run(stage.from, "SELECT pg_current_wal_insert_lsn()")?;
    let wanted = workload.checksum(bench.source, stage.from)?;
    let drover = Contender::Drover(Applying::Grouped);
    drover.prepare_capture(stage)?;
    capture::measure(drover, stage, &end)?;
    let modes = [Applying::Classic, Applying::Grouped];
    let mut runs: [Vec<CatchUp>; 2] = Default::default();
    let mut told = (0.0, 0.0);
    for round in 1..=bench.extent.rounds {
        for (applying, runs) in modes.into_iter().zip(&mut runs) {
            let run = apply_alone(bench, &workload, stage, &wanted, applying)?;
            println!("round {round}: {applying:?} {:>7.0} rows/s, {:?}", rows / run.seconds, run.usage);
            if applying == Applying::Grouped {
                told = of_report(&contender::replicat_report(stage)?)?;
            }
            runs.push(run);
        }
    }
    bench.remove(stage)?;
    let [classic, parallel] = runs.each_ref().map(|runs| rows / median_of(runs, |run| run.seconds));
    let ratio = parallel / classic;
    findings.bar("a hot row: parallel to classic", format!("{ratio:.2}"), ">= 1".to_owned(), ratio >= 1.0);
    findings.appliers.push(vec![
        format!("a hot row, {} updates/s, classic {}", page::grouped(parallel), page::grouped(classic)),
        format!("{:.2}", told.0),
        format!("{:.2} %", told.1),
    ]);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_figures_of_appliers_are_read_from_the_report() {
        let report = "a\n2026-01-01 INFO 12 target transactions, 2.75 appliers at work on average, 0.50 % of 400 transactions waited for another one\n";
        assert_eq!(of_report(report), Ok((2.75, 0.5)));
        assert!(of_report("nothing").is_err());
    }
}
