//! `drover trail stat`: what a trail holds, in numbers.

use super::files::{TrailFiles, Work};
use super::graph::bar;
use crate::environment::is_change;
use crate::error::Error;
use crate::open_file::{OpenFile, Piece};
use crate::session::{Progress, TransactionLimits};
use crate::statistics::{Count, Question, Tally};
use change::Timestamp;
use std::fmt::Write;
use trail::format::operation;

/// Bytes between two signs of life.
const NOTIFY_BYTES: u64 = 64 * 1024 * 1024;

/// Characters of the longest bar.
const BAR_WIDTH: u64 = 40;

/// Bars of the chart, at most, unless the operator says how long a span is.
const BARS_MAX: i64 = 40;

/// Spans of time that a chart may have, in seconds.
const SPANS: [i64; 14] = [1, 5, 10, 30, 60, 300, 600, 1800, 3600, 7200, 21_600, 43_200, 86_400, 604_800];

/// What is asked for.
#[derive(Clone, Debug, Default)]
pub struct StatWish {
    /// Tables, with wildcards.
    pub table: Option<String>,
    /// Commits from here on.
    pub from: Option<Timestamp>,
    /// Commits up to here.
    pub to: Option<Timestamp>,
    /// Length of a span of the chart in seconds.
    pub span: Option<i64>,
    /// How many of the largest transactions are listed.
    pub transactions: usize,
}

/// Prints the statistics.
///
/// # Errors
/// [`Error`].
pub fn stat(files: &TrailFiles, wish: &StatWish, work: &mut Work<'_>) -> Result<(), Error> {
    let span_micros = wish.span.unwrap_or(1) * 1_000_000;
    let mut count = Count::new(Question {
        by_table: true,
        start: wish.from,
        end: wish.to,
        interval: Some(span_micros),
        table: wish.table.clone(),
        limits: TransactionLimits { count: wish.transactions, records: 1, bytes: 0 },
    });
    let mut bytes = 0;
    for (name, sequence) in &files.files {
        bytes += count_file(files, name, *sequence, &mut count, work)?;
    }
    let text = text(&count, files.files.len(), bytes, wish.span);
    work.print(&text)
}

fn count_file(
    files: &TrailFiles,
    name: &str,
    sequence: u32,
    count: &mut Count,
    work: &mut Work<'_>,
) -> Result<u64, Error> {
    let failed = |source| Error::file("read", name, source);
    let length = files.length(name, sequence)?;
    let opened = files.storage.open_read(name).and_then(|file| OpenFile::open(file, work.given));
    let mut file = opened.map_err(failed)?;
    let (mut rba, mut told, mut records) = (0, 0, 0);
    count.start_file();
    while rba < length {
        if rba - told >= NOTIFY_BYTES {
            told = rba;
            (work.progress)(Progress { records, rba, length, is_over: false });
        }
        match file.piece(rba, &mut |_| false).map_err(failed)? {
            Piece::End => break,
            Piece::Damaged { bytes, damage } => {
                count.damage(rba, damage.to_string());
                rba += bytes;
            }
            Piece::Record(bytes) => {
                let looked = file.look(rba, false, |record, _, _| match record.view.verify() {
                    Err(damage) if record.view.has_checksum() => count.damage(rba, damage.to_string()),
                    // Definitions and markers say nothing of what the source did.
                    _ if is_change(record.view) => count.add(record, sequence),
                    _ => {}
                });
                looked.map_err(failed)?;
                records += 1;
                rba += bytes;
            }
        }
    }
    if told > 0 {
        (work.progress)(Progress { records, rba, length, is_over: true });
    }
    Ok(length)
}

/// Records of changes that are no more than the image before of an update.
fn updates(tally: &Tally) -> u64 {
    [operation::UPDATE, operation::FULL_UPDATE, operation::KEY_UPDATE, operation::KEY_UPDATE_WIDE]
        .into_iter()
        .chain([operation::UNIFIED_UPDATE, operation::UNIFIED_KEY_UPDATE])
        .map(|number| tally.of(number))
        .sum()
}

fn text(count: &Count, files: usize, bytes: u64, span: Option<i64>) -> String {
    let total = count.total();
    let mut text = format!(
        "{files} files, {bytes} bytes, {} records, {} transactions, {} bytes of data\n",
        total.records,
        count.transactions(),
        total.bytes
    );
    let tables = count.tables();
    let width = tables.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(5).max(5);
    // Writing to a string can't fail, here and below.
    _ = writeln!(
        text,
        "\n{:<width$} {:>12} {:>12} {:>12} {:>10} {:>10} {:>16}",
        "table", "inserts", "updates", "deletes", "truncates", "parts", "bytes"
    );
    for (name, tally) in &tables {
        _ = writeln!(
            text,
            "{name:<width$} {:>12} {:>12} {:>12} {:>10} {:>10} {:>16}",
            tally.of(operation::INSERT),
            updates(tally),
            tally.of(operation::DELETE),
            tally.of(operation::TRUNCATE),
            tally.of(operation::FRAGMENT),
            tally.bytes
        );
    }
    if !count.large().is_empty() {
        _ = writeln!(text, "\n{:<26}  {:>20} {:>12} {:>14}", "largest transactions", "position", "records", "bytes");
        for large in count.large() {
            let position = trail::Position::new(large.sequence, large.rba).to_string();
            _ = writeln!(
                text,
                "{:<26}  {position:>20} {:>12} {:>14}",
                large.time.to_string(),
                large.records,
                large.bytes
            );
        }
    }
    chart(&mut text, count, span);
    text + &count.damage_text()
}

/// Records over time. Seconds are put together until there are few enough bars.
fn chart(text: &mut String, count: &Count, span: Option<i64>) {
    // Records that belong to no transaction may carry no time.
    let seconds: Vec<(i64, u64)> = count
        .intervals()
        .iter()
        .map(|(start, tally)| (*start, tally.records))
        .filter(|(start, _)| *start > 0)
        .collect();
    let (Some((first, _)), Some((last, _))) = (seconds.first(), seconds.last()) else { return };
    let length = (last - first) / 1_000_000 + 1;
    let span = span
        .unwrap_or_else(|| SPANS.into_iter().find(|span| length / span < BARS_MAX).unwrap_or(length / BARS_MAX + 1));
    let micros = span * 1_000_000;
    let mut bars: std::collections::BTreeMap<i64, u64> = std::collections::BTreeMap::new();
    for (start, records) in &seconds {
        *bars.entry(start.div_euclid(micros) * micros).or_default() += records;
    }
    let max = bars.values().copied().max().unwrap_or(0);
    _ = writeln!(text, "\nrecords in {span} s each");
    let mut before: Option<i64> = None;
    for (start, records) in &bars {
        if before.is_some_and(|before| *start - before > micros) {
            text.push_str("  …\n");
        }
        before = Some(*start);
        let time = Timestamp::from_unix_micros(*start).to_string();
        let time = time.get(..19).unwrap_or(&time);
        _ = writeln!(text, "{time} {records:>12} {}", bar(*records, max, BAR_WIDTH));
    }
}
