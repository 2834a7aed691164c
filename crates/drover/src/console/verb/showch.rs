//! INFO ..., SHOWCH: the checkpoints of a group, in the layout that operators know from GoldenGate.
//!
//! What stands there in threads and redo files stands here in WAL files and LSNs for PostgreSQL, and in change numbers for
//! SQLite.

use crate::place::Place;
use change::{Commit, Timestamp};
use process::{
    CheckpointFile, CheckpointRecord, ExtractCheckpoint, ReadCheckpoint, ReplicatCheckpoint, StreamCheckpoint,
    TrailInput, clock,
};
use std::io::{self, Write};
use trail::Position;

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

fn extract(output: &mut dyn Write, record: &CheckpointRecord, body: &ExtractCheckpoint) -> io::Result<()> {
    if let Some(input) = &body.input {
        return pump(output, record, body, input);
    }
    let first = StreamCheckpoint {
        startup: body.startup.clone(),
        recovery: body.recovery.clone(),
        current: body.current.clone(),
    };
    for (number, stream) in std::iter::once(&first).chain(&body.streams).enumerate() {
        writeln!(output, "Read Checkpoint #{}\n", number + 1)?;
        writeln!(output, "  {}\n", Place::of(&stream.current.position, None).log)?;
        for (title, place) in [
            ("Startup Checkpoint (starting position in data source)", &stream.startup),
            ("Recovery Checkpoint (position of oldest unprocessed transaction in data source)", &stream.recovery),
            ("Current Checkpoint (position of last record read in the data source)", &stream.current),
        ] {
            read(output, title, place, body.log_file_bytes)?;
        }
        // Bounded Recovery speaks of the log as a whole.
        if let Some(bounded) = body.bounded.as_ref().filter(|_| number == 0) {
            let previous = bounded.previous.as_ref().map(|place| ("BR Previous Recovery Checkpoint", place));
            let counts =
                [("BR Begin Recovery Checkpoint", &bounded.begin), ("BR End Recovery Checkpoint", &bounded.end)];
            previous
                .into_iter()
                .chain(counts)
                .try_for_each(|(title, place)| read(output, title, place, body.log_file_bytes))?;
        }
    }
    writes(output, record, body)?;
    csn_state(output, body.written.as_ref())?;
    // The numbers that GoldenGate shows with and without Bounded Recovery.
    let number = if body.bounded.is_some() { 10 } else { 6 };
    let (inputs, outputs) = (1 + body.streams.len(), body.trails.len());
    trailer(output, record, &Kind { number, inputs, outputs, source: 3, integrity: 1 })
}

/// An Extract that reads a trail has places of a trail on both sides.
fn pump(
    output: &mut dyn Write,
    record: &CheckpointRecord,
    body: &ExtractCheckpoint,
    input: &TrailInput,
) -> io::Result<()> {
    writeln!(output, "Read Checkpoint #1\n")?;
    writeln!(output, "  GGS Log Trail\n")?;
    for (title, place) in [
        ("Startup Checkpoint (starting position in data source)", &body.startup),
        ("Current Checkpoint (position of last record read in the data source)", &body.current),
    ] {
        trail_place(output, title, Position::parse(place.position.as_str()), place.time, &input.trail)?;
    }
    writes(output, record, body)?;
    csn_state(output, body.written.as_ref())?;
    trailer(output, record, &Kind { number: 6, inputs: 1, outputs: body.trails.len(), source: 0, integrity: 1 })
}

fn writes(output: &mut dyn Write, record: &CheckpointRecord, body: &ExtractCheckpoint) -> io::Result<()> {
    for (number, trail) in body.trails.iter().enumerate() {
        writeln!(output, "Write Checkpoint #{}\n", number + 1)?;
        writeln!(output, "  GGS Log Trail\n")?;
        let updated = trail.position.map(|_| record.checkpoint.updated);
        trail_place(output, "Current Checkpoint (current write position)", trail.position, updated, &trail.name)?;
    }
    Ok(())
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

fn read(output: &mut dyn Write, title: &str, place: &ReadCheckpoint, log_file_bytes: Option<u64>) -> io::Result<()> {
    writeln!(output, "  {title}:")?;
    for (label, value) in Place::of(&place.position, log_file_bytes).lines {
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
    use change::LogPosition;
    use process::{BoundedCheckpoint, Checkpoint, CheckpointBody, StopStatus, WriteCheckpoint};

    /// What is published of an Extract that reads two log threads and writes two trails, with the blocks of Bounded Recovery: titles
    /// and the numbers behind them, white space left out.
    const LAYOUT: &str = "\
Current Checkpoint Detail:
Read Checkpoint #1
Startup Checkpoint (starting position in data source): 1
Recovery Checkpoint (position of oldest unprocessed transaction in data source): 2
Current Checkpoint (position of last record read in the data source): 3
BR Previous Recovery Checkpoint: 4
BR Begin Recovery Checkpoint: 5
BR End Recovery Checkpoint: 6
Read Checkpoint #2
Startup Checkpoint (starting position in data source): 7
Recovery Checkpoint (position of oldest unprocessed transaction in data source): 8
Current Checkpoint (position of last record read in the data source): 9
Write Checkpoint #1
Current Checkpoint (current write position): 0
Write Checkpoint #2
Current Checkpoint (current write position): 0
# Input Checkpoints = 2
# Output Checkpoints = 2
Stop Status = G";

    #[test]
    fn each_stream_and_each_trail_has_its_block_and_bounded_recovery_stands_behind_the_first() {
        let place = |number: u64| ReadCheckpoint {
            position: LogPosition::new(format!("{number:020}-7bc34c8d2ce6d408-ae5bd61b")),
            time: None,
        };
        let trail =
            |name: &str| WriteCheckpoint { name: name.to_owned(), megabytes: 5, position: None, is_remote: false };
        let body = ExtractCheckpoint {
            startup: place(1),
            recovery: place(2),
            current: place(3),
            written: None,
            trails: vec![trail("./dirdat/aa"), trail("./dirdat/bb")],
            streams: vec![StreamCheckpoint { startup: place(7), recovery: place(8), current: place(9) }],
            bounded: Some(BoundedCheckpoint { number: 2, previous: Some(place(4)), begin: place(5), end: place(6) }),
            left_out: Vec::new(),
            log_file_bytes: None,
            input: None,
        };
        let checkpoint = Checkpoint {
            created: Timestamp::default(),
            started: None,
            updated: Timestamp::default(),
            stop_status: StopStatus::Graceful,
            body: CheckpointBody::Extract(body),
        };
        let mut output = Vec::new();
        write(&mut output, &[CheckpointRecord { number: 1, offset: 2048, checkpoint }]).expect("it can be written");
        let text = String::from_utf8(output).expect("UTF-8");
        let mut found: Vec<String> = Vec::new();
        for line in text.lines().map(str::trim) {
            match line.strip_prefix("Change #: ").or(line.strip_prefix("Sequence #: ")) {
                Some(number) => found.last_mut().expect("a title").push_str(&format!(" {number}")),
                None if ["Checkpoint", "Stop Status"].iter().any(|word| line.contains(word)) => {
                    found.push(line.to_owned())
                }
                None => {}
            }
        }
        assert_eq!(found.join("\n"), LAYOUT);
        assert!(text.contains("Type = 10"), "{text}");
    }
}
