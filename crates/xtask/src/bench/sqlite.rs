//! `cargo x bench sqlite`: rows from source commit to target commit, beside the raw write rate of the same workload with
//! and without capture.

use super::pipeline::{Pipeline, Usage, writer};
use super::{ROUNDS, machine, median, page};
use crate::program::{self, Outcome, cargo};
use serde_json::Value;

/// One workload.
struct Case {
    operation: &'static str,
    rows_per_transaction: u64,
    rows: u64,
    /// What typed trigger tables kept of the uncaptured rate in the experiments that this design rests on.
    goal: f64,
}

const fn case(operation: &'static str, rows_per_transaction: u64, rows: u64, goal: f64) -> Case {
    Case { operation, rows_per_transaction, rows, goal }
}

const CASES: &[Case] = &[
    case("insert", 1, 20_000, 28.0 / 36.0),
    case("insert", 10, 200_000, 66.0 / 78.0),
    case("insert", 1000, 500_000, 279.0 / 516.0),
    case("update", 1, 20_000, 44.0 / 67.0),
    case("update", 10, 200_000, 193.0 / 437.0),
    case("update", 1000, 500_000, 278.0 / 786.0),
    case("delete", 1, 20_000, 28.0 / 34.0),
    case("delete", 10, 200_000, 74.0 / 71.0),
    case("delete", 1000, 500_000, 315.0 / 755.0),
];

/// Steady loads at which lag is measured: rows per transaction, transactions a second.
const LOADS: &[(u64, u64)] = &[(1, 100), (1, 1000), (10, 1000)];

/// How long each steady load lasts.
const LOAD_SECONDS: u64 = 10;

/// What one round measured of one case.
struct Round {
    raw: f64,
    bare: f64,
    captured: f64,
    whole: Whole,
}

/// A run from source to target.
struct Whole {
    rows_a_second: f64,
    writer_rows_a_second: f64,
    writer_cpu_seconds: f64,
    extract: Usage,
    replicat: Usage,
}

/// Measures and writes the results down.
pub fn run() -> Outcome {
    program::run(&mut cargo(&["build", "--release", "--package", "drover"]))?;
    program::run(&mut cargo(&["build", "--release", "--package", "db-sqlite", "--example", "writer"]))?;
    let mut rounds: Vec<Vec<Round>> = CASES.iter().map(|_| Vec::new()).collect();
    let mut lags: Vec<Vec<Value>> = LOADS.iter().map(|_| Vec::new()).collect();
    // Rounds outside, cases inside: a drift of the machine then falls on all cases alike.
    for round in 1..=ROUNDS {
        for (case, measured) in CASES.iter().zip(&mut rounds) {
            let result = Round { raw: raw(case)?, bare: bare(case)?, captured: captured(case)?, whole: whole(case)? };
            println!(
                "round {round}: {} x {:<4} raw {:>9} bare triggers {:>9} captured {:>9} to the target {:>9} rows/s",
                case.operation,
                case.rows_per_transaction,
                page::grouped(result.raw),
                page::grouped(result.bare),
                page::grouped(result.captured),
                page::grouped(result.whole.rows_a_second),
            );
            measured.push(result);
        }
        for (&load, measured) in LOADS.iter().zip(&mut lags) {
            let lag = lag(load)?;
            println!("round {round}: {} rows x {} transactions/s: {lag}", load.0, load.1);
            measured.push(lag);
        }
    }
    page::write("sqlite", &report(&rounds, &lags)?)
}

/// Rows a second of the workload on a database that nobody captures.
fn raw(case: &Case) -> Result<f64, String> {
    let pipeline = Pipeline::prepare(case.rows_before())?;
    rate(&pipeline.write(case.operation, case.rows, case.rows_per_transaction)?)
}

/// The same with the barest typed trigger table that could be made by hand.
fn bare(case: &Case) -> Result<f64, String> {
    let pipeline = Pipeline::prepare(case.rows_before())?;
    program::output(&mut writer(&["shadow", &pipeline.source()]))?;
    rate(&pipeline.write(case.operation, case.rows, case.rows_per_transaction)?)
}

/// The same with capture installed and nobody reading what it gathers.
fn captured(case: &Case) -> Result<f64, String> {
    let mut pipeline = Pipeline::prepare(case.rows_before())?;
    pipeline.start()?;
    pipeline.stop()?;
    rate(&pipeline.write(case.operation, case.rows, case.rows_per_transaction)?)
}

/// The same with Extract and Replicat at work, until the last row is visible at the target.
fn whole(case: &Case) -> Result<Whole, String> {
    let mut pipeline = Pipeline::prepare(case.rows_before())?;
    pipeline.start()?;
    let (extract, replicat) = pipeline.usage()?;
    let last = if case.operation == "insert" { format!("insert={}", case.rows) } else { case.operation.to_owned() };
    let observer = writer(&["await", &pipeline.target(), &last])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .map_err(|cause| format!("could not start the observer: {cause}"))?;
    let written = pipeline.write(case.operation, case.rows, case.rows_per_transaction)?;
    let output = observer.wait_with_output().map_err(|cause| format!("the observer was lost: {cause}"))?;
    let seen: Value =
        serde_json::from_slice(&output.stdout).map_err(|cause| format!("the observer failed: {cause}"))?;
    let (extract_after, replicat_after) = pipeline.usage()?;
    pipeline.stop()?;
    pipeline.compare()?;
    let seconds = number(&seen, "seen_unix_seconds")? - number(&written, "begun_unix_seconds")?;
    Ok(Whole {
        rows_a_second: case.rows as f64 / seconds,
        writer_rows_a_second: rate(&written)?,
        writer_cpu_seconds: number(&written, "cpu_seconds")?,
        extract: extract_after.since(extract),
        replicat: replicat_after.since(replicat),
    })
}

/// Percentiles from the return of a commit at the source to its sight at the target, under a steady load.
fn lag((rows_per_transaction, rate): (u64, u64)) -> Result<Value, String> {
    let mut pipeline = Pipeline::prepare(0)?;
    pipeline.start()?;
    let words = [rows_per_transaction, rate, LOAD_SECONDS].map(|number| number.to_string());
    let measured = pipeline.pace(&words)?;
    pipeline.stop()?;
    pipeline.compare()?;
    Ok(measured)
}

impl Case {
    fn rows_before(&self) -> u64 {
        if self.operation == "insert" { 0 } else { self.rows }
    }
}

fn rate(written: &Value) -> Result<f64, String> {
    Ok(number(written, "rows")? / number(written, "seconds")?)
}

fn number(object: &Value, name: &str) -> Result<f64, String> {
    object[name].as_f64().ok_or_else(|| format!("the writer reported no {name}: {object}"))
}

fn report(rounds: &[Vec<Round>], lags: &[Vec<Value>]) -> Result<String, String> {
    let of = |case: usize, figure: fn(&Round) -> f64| median(rounds[case].iter().map(figure).collect());
    let name = |case: &Case| format!("{}, {} a transaction", case.operation, case.rows_per_transaction);
    let rates = CASES.iter().enumerate().map(|(index, case)| {
        let kept = |figure: fn(&Round) -> f64| format!("{:.2}", of(index, figure));
        vec![
            name(case),
            page::grouped(of(index, |round| round.raw)),
            page::grouped(of(index, |round| round.bare)),
            page::grouped(of(index, |round| round.captured)),
            kept(|round| round.bare / round.raw),
            kept(|round| round.captured / round.raw),
            format!("{:.2}", case.goal),
            page::grouped(of(index, |round| round.whole.writer_rows_a_second)),
            page::grouped(of(index, |round| round.whole.rows_a_second)),
        ]
    });
    let costs = CASES.iter().enumerate().map(|(index, case)| {
        let a_million = |seconds: f64| format!("{:.1}", seconds * 1e6 / case.rows as f64);
        vec![
            name(case),
            a_million(of(index, |round| round.whole.writer_cpu_seconds)),
            a_million(of(index, |round| round.whole.extract.cpu_seconds)),
            a_million(of(index, |round| round.whole.replicat.cpu_seconds)),
            format!("{:.0}", of(index, |round| round.whole.extract.peak_mebibytes)),
            format!("{:.0}", of(index, |round| round.whole.replicat.peak_mebibytes)),
        ]
    });
    let mut delays = Vec::new();
    for ((rows_per_transaction, rate), measured) in LOADS.iter().zip(lags) {
        let mut row = vec![format!("{rate} transactions/s of {rows_per_transaction}")];
        for percentile in ["p50_ms", "p95_ms", "p99_ms", "max_ms"] {
            let figures: Result<Vec<f64>, String> = measured.iter().map(|lag| number(lag, percentile)).collect();
            row.push(format!("{:.1}", median(figures?)));
        }
        delays.push(row);
    }
    let version: Value = serde_json::from_str(&program::output(&mut writer(&["version"]))?).unwrap_or_default();
    Ok(format!(
        "Made by `cargo x bench sqlite`; median of {ROUNDS} rounds.\n{}; SQLite {}.\n\n\
         Rows a second:\n\n{}\nCPU seconds per million rows and peak memory, on the way to the target:\n\n{}\n\
         Milliseconds from the return of COMMIT at the source until the row is visible at the target:\n\n{}",
        machine::description(),
        version["version"].as_str().unwrap_or_default(),
        page::table(
            &[
                "workload",
                "no capture",
                "bare triggers",
                "captured",
                "bare kept",
                "kept",
                "goal",
                "writer, Drover running",
                "source to target",
            ],
            &rates.collect::<Vec<_>>(),
        ),
        page::table(
            &["workload", "writer s", "Extract s", "Replicat s", "Extract MiB", "Replicat MiB"],
            &costs.collect::<Vec<_>>(),
        ),
        page::table(&["steady load", "p50", "p95", "p99", "max"], &delays),
    ))
}
