//! INFO ..., SHOWCH: the checkpoints of a group, in the layout that operators know from GoldenGate.
//!
//! What stands there in threads and redo files stands here in WAL files and LSNs for PostgreSQL, and in change numbers for
//! SQLite.

use change::{Commit, LogPosition, Timestamp};
use process::{CheckpointFile, CheckpointRecord, ExtractCheckpoint, ReadCheckpoint, ReplicatCheckpoint, clock};
use std::io::{self, Write};
use trail::Position;

/// Bytes of a WAL file, unless the cluster was made with `--wal-segsize`.
const SEGMENT_BYTES: u64 = 16 << 20;

/// Prints the newest checkpoint and those before it, newest first.
pub fn write(output: &mut dyn Write, records: &[CheckpointRecord]) -> io::Result<()> {
    for (number, record) in records.iter().enumerate() {
        match number {
            0 => writeln!(output, "\nCurrent Checkpoint Detail:\n")?,
            number => writeln!(output, "\nPrevious Checkpoint #{number} Detail:\n")?,
        }
        match (record.checkpoint.extract(), record.checkpoint.replicat()) {
            (Some(body), _) => extract(output, record, body)?,
            (_, Some(body)) => replicat(output, record, body)?,
            _ => {}
        }
    }
    Ok(())
}

/// The place of a source's log in the words of its product: the log's name, and lines for SHOWCH.
pub struct Place {
    /// What kind of log it is.
    pub log: &'static str,
    /// Label and value of each line, but for the time.
    pub lines: Vec<(&'static str, String)>,
}

impl Place {
    /// What a position says. One of a product that is not known is shown as it is.
    pub fn of(position: &LogPosition) -> Place {
        let parts: Vec<&str> = position.as_str().split('-').collect();
        let hex = |text: &str| u64::from_str_radix(text, 16).ok();
        if let [lsn, _, timeline, _] = parts[..]
            && let Some((high, low)) = lsn.split_once('/').and_then(|(high, low)| Some((hex(high)?, hex(low)?)))
            && let Some(timeline) = hex(timeline)
        {
            let byte = high << 32 | low;
            let segment = byte / SEGMENT_BYTES;
            let per_high = (1 << 32) / SEGMENT_BYTES;
            return Place {
                log: "PostgreSQL WAL",
                lines: vec![
                    ("Timeline #", timeline.to_string()),
                    ("Sequence #", segment.to_string()),
                    ("RBA", (byte % SEGMENT_BYTES).to_string()),
                    ("LSN", format!("{high:X}/{low:X}")),
                    ("WAL File", format!("{timeline:08X}{:08X}{:08X}", segment / per_high, segment % per_high)),
                ],
            };
        }
        if let [number, incarnation, part] = parts[..]
            && let Ok(number) = number.parse::<u64>()
        {
            return Place {
                log: "SQLite Change Table",
                lines: vec![("Change #", number.to_string()), ("Incarnation", format!("{incarnation}-{part}"))],
            };
        }
        Place { log: "Source Log", lines: vec![("Position", position.to_string())] }
    }

    /// The place on one line.
    pub fn line(&self) -> String {
        let lines: Vec<String> = self.lines.iter().map(|(label, value)| format!("{label} {value}")).collect();
        lines.join(", ")
    }
}

fn extract(output: &mut dyn Write, record: &CheckpointRecord, body: &ExtractCheckpoint) -> io::Result<()> {
    writeln!(output, "Read Checkpoint #1\n")?;
    writeln!(output, "  {}\n", Place::of(&body.current.position).log)?;
    for (title, place) in [
        ("Startup Checkpoint (starting position in data source)", &body.startup),
        ("Recovery Checkpoint (position of oldest unprocessed transaction in data source)", &body.recovery),
        ("Current Checkpoint (position of last record read in the data source)", &body.current),
    ] {
        read(output, title, place)?;
    }
    for (number, trail) in body.trails.iter().enumerate() {
        writeln!(output, "Write Checkpoint #{}\n", number + 1)?;
        writeln!(output, "  GGS Log Trail\n")?;
        let updated = trail.position.map(|_| record.checkpoint.updated);
        trail_place(output, "Current Checkpoint (current write position)", trail.position, updated, &trail.name)?;
    }
    csn_state(output, body.written.as_ref())?;
    trailer(output, record, &Kind { number: 6, inputs: 1, outputs: body.trails.len(), source: 3, integrity: 1 })
}

fn replicat(output: &mut dyn Write, record: &CheckpointRecord, body: &ReplicatCheckpoint) -> io::Result<()> {
    writeln!(output, "Read Checkpoint #1\n")?;
    writeln!(output, "  GGS Log Trail\n")?;
    let startup = "Startup Checkpoint (starting position in data source)";
    trail_place(output, startup, Some(body.startup), None, &body.trail)?;
    let current = "Current Checkpoint (position of last record read in the data source)";
    let time = body.applied.as_ref().map(|commit| commit.time);
    trail_place(output, current, Some(body.current), time, &body.trail)?;
    csn_state(output, body.applied.as_ref())?;
    trailer(output, record, &Kind { number: 1, inputs: 1, outputs: 0, source: 0, integrity: -1 })
}

fn read(output: &mut dyn Write, title: &str, place: &ReadCheckpoint) -> io::Result<()> {
    writeln!(output, "  {title}:")?;
    for (label, value) in Place::of(&place.position).lines {
        writeln!(output, "    {label}: {value}")?;
    }
    writeln!(output, "    Timestamp: {}\n", time(place.time))
}

fn trail_place(
    output: &mut dyn Write,
    title: &str,
    position: Option<Position>,
    at: Option<Timestamp>,
    trail: &str,
) -> io::Result<()> {
    let position = position.unwrap_or_default();
    writeln!(output, "  {title}:")?;
    writeln!(output, "    Sequence #: {}", position.sequence)?;
    writeln!(output, "    RBA: {}", position.rba)?;
    writeln!(output, "    Timestamp: {}", time(at))?;
    writeln!(output, "    Extract Trail: {trail}\n")
}

fn csn_state(output: &mut dyn Write, commit: Option<&Commit>) -> io::Result<()> {
    let Some(commit) = commit else { return Ok(()) };
    writeln!(output, "CSN state information:")?;
    writeln!(output, "  Latest CSN: {}", commit.csn)?;
    writeln!(output, "  Latest TXN: {}\n", commit.transaction)
}

/// What tells the kinds of group apart in the last part.
struct Kind {
    number: u32,
    inputs: usize,
    outputs: usize,
    source: u32,
    integrity: i32,
}

fn trailer(output: &mut dyn Write, record: &CheckpointRecord, kind: &Kind) -> io::Result<()> {
    let Kind { number, inputs, outputs, source, integrity } = kind;
    writeln!(
        output,
        "Header:\n  Version = 2\n  Record Source = A\n  Type = {number}\n  # Input Checkpoints = {inputs}\n  \
         # Output Checkpoints = {outputs}\n"
    )?;
    let (block, slots) = (CheckpointFile::BLOCK_BYTES, CheckpointFile::SLOTS);
    writeln!(
        output,
        "File Information:\n  Block Size = {block}\n  Max Blocks = {slots}\n  Record Length = {block}\n  \
         Current Offset = {}\n",
        record.offset
    )?;
    writeln!(
        output,
        "Configuration:\n  Data Source = {source}\n  Transaction Integrity = {integrity}\n  Task Type = 0\n"
    )?;
    let checkpoint = &record.checkpoint;
    let started = checkpoint.started.map_or_else(|| "Not Available".to_owned(), clock::to_second);
    writeln!(
        output,
        "Status:\n  Start Time = {started}\n  Last Update Time = {}\n  Stop Status = {}\n  Last Result = 400",
        clock::to_second(checkpoint.updated),
        checkpoint.stop_status.letter()
    )
}

fn time(time: Option<Timestamp>) -> String {
    time.map_or_else(|| "Not Available".to_owned(), |time| time.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_shown_in_the_words_of_their_product() {
        let place = Place::of(&LogPosition::new("00000001/0A0000F8-65F0C0FFEE000001-00000003-0123456789ABCDEF"));
        assert_eq!(place.log, "PostgreSQL WAL");
        // pg_walfile_name('1/A0000F8') on timeline 3 is this one.
        let expected = "Timeline # 3, Sequence # 266, RBA 248, LSN 1/A0000F8, WAL File 00000003000000010000000A";
        assert_eq!(place.line(), expected);
        let place = Place::of(&LogPosition::new("00000000000000000042-7bc34c8d2ce6d408-ae5bd61b"));
        assert_eq!(place.line(), "Change # 42, Incarnation 7bc34c8d2ce6d408-ae5bd61b");
        assert_eq!(Place::of(&LogPosition::new("x-y")).line(), "Position x-y");
    }
}
