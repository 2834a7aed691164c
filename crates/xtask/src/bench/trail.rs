//! `cargo x bench trail`: how fast rows become trail bytes and come back on one core, how fast a trail is walked, and what is
//! left of the disk's own rate when it is written.

use super::{ROUNDS, machine, median, page};
use crate::program::{self, Outcome, cargo};
use serde_json::Value;

/// Sizes that the examples are called with.
struct Size {
    rounds: usize,
    throughput: &'static [&'static str],
    scan: &'static [&'static str],
    disk: &'static [&'static str],
}

/// Runs the trail crate's own examples and writes the medians down.
pub fn run() -> Outcome {
    let size = Size { rounds: ROUNDS, throughput: &[], scan: &[], disk: &[] };
    page::write("trail", &measured(&size)?)
}

/// The same over little data, once; only shows that it works.
pub fn quick() -> Outcome {
    let size = Size { rounds: 1, throughput: &["100000"], scan: &["20000000"], disk: &["100", "20"] };
    println!("\n{}", measured(&size)?);
    Ok(())
}

fn measured(size: &Size) -> Result<String, String> {
    let (mut throughput, mut disk, mut scan) = (Vec::new(), Vec::new(), Vec::new());
    for round in 1..=size.rounds {
        throughput.push(example("trail", "throughput", size.throughput, round)?);
        disk.push(example("trail", "disk", size.disk, round)?);
        scan.push(example("inspect", "scan", size.scan, round)?);
    }
    report(&throughput, &disk, &scan)
}

fn example(package: &str, name: &str, arguments: &[&str], round: usize) -> Result<Value, String> {
    let words = ["run", "--quiet", "--release", "--package", package, "--example", name, "--"];
    let text = program::output(cargo(&words).args(arguments))?;
    println!("round {round}, {name}: {}", text.trim());
    serde_json::from_str(&text).map_err(|cause| format!("the example {name} wrote no JSON: {cause}"))
}

/// The median over rounds of the number at `pointer`.
fn of(rounds: &[Value], pointer: &str) -> Result<f64, String> {
    let figures: Option<Vec<f64>> = rounds.iter().map(|round| round.pointer(pointer).and_then(Value::as_f64)).collect();
    figures.map(median).ok_or_else(|| format!("the example reported no {pointer}"))
}

/// How many elements the list `name` has.
fn count(rounds: &[Value], name: &str) -> usize {
    rounds.first().and_then(|round| round[name].as_array()).map_or(0, Vec::len)
}

fn report(throughput: &[Value], disk: &[Value], scan: &[Value]) -> Result<String, String> {
    let mut covers = Vec::new();
    for index in 0..count(throughput, "covers") {
        let figure = |name: &str| of(throughput, &format!("/covers/{index}/{name}"));
        covers.push(vec![
            throughput[0]["covers"][index]["name"].as_str().unwrap_or("?").to_owned(),
            format!("{:.0}", figure("bytes")? / figure("rows")?),
            page::grouped(figure("encode_rows_s")?),
            format!("{:.2}", figure("encode_gb_s")?),
            page::grouped(figure("decode_rows_s")?),
            format!("{:.2}", figure("decode_gb_s")?),
        ]);
    }
    let mut written = Vec::new();
    for index in 0..count(disk, "written") {
        let figure = |name: &str| of(disk, &format!("/written/{index}/{name}"));
        written.push(vec![
            page::grouped(figure("rows_per_sync")?),
            page::grouped(figure("rows_s")?),
            format!("{:.1}", figure("mb_s")?),
            format!("{:.1}", figure("plain_mb_s")?),
            format!("{:.2}", figure("ratio")?),
        ]);
    }
    Ok(format!(
        "Made by `cargo x bench trail`; median of {} rounds.\n{}.\n\n{}\n\
         Walking a trail of {:.1} GB, {} records, with every checksum compared, from the page cache on one core: {:.2} GB/s.\n\n\
         A file of {:.1} GB, {} records, every checksum compared, from the page cache on one core: Logdump's COUNT {:.2} GB/s,\n\
         `drover trail grep` for a value {:.2} GB/s. The last record is shown {:.1} ms after OPEN.\n\n\
         Writing to the disk with a sync after so many rows, beside a plain writer that appends and syncs as many bytes at the\n\
         same points (`fdatasync`):\n\n{}",
        throughput.len(),
        machine::description(),
        page::table(
            &["one core", "bytes a row", "encode rows/s", "encode GB/s", "decode rows/s", "decode GB/s"],
            &covers
        ),
        of(disk, "/walked_bytes")? / 1e9,
        page::grouped(of(disk, "/walked_records")?),
        of(disk, "/walked_gb_s")?,
        of(scan, "/bytes")? / 1e9,
        page::grouped(of(scan, "/records")?),
        of(scan, "/count_gb_s")?,
        of(scan, "/grep_gb_s")?,
        of(scan, "/first_ms")?,
        page::table(&["rows between syncs", "rows/s", "MB/s", "plain MB/s", "ratio"], &written),
    ))
}
