//! INFO ..., SHOWCH: the layout of GoldenGate, line by line, and every number against the bytes that it speaks of.
//! PostgreSQL's numbers stand in `postgres::showch`.

use crate::stage::{Stage, number};
use std::path::Path;

const SCHEMA: &str = "CREATE TABLE t (id INTEGER PRIMARY KEY, a TEXT)";

/// The lines of INFO REPLICAT, SHOWCH as published, with `*` for what differs from system to system and white space at both
/// ends left out.
const REPLICAT: &str = "\
REPLICAT R1 Last Started * Status *
Checkpoint Lag * (updated * ago)
Log Read Checkpoint File ./dirdat/aa*
* RBA *
Current Checkpoint Detail:
Read Checkpoint #1
GGS Log Trail
Startup Checkpoint (starting position in data source):
Sequence #: *
RBA: *
Timestamp: *
Extract Trail: ./dirdat/aa
Current Checkpoint (position of last record read in the data source):
Sequence #: *
RBA: *
Timestamp: *
Extract Trail: ./dirdat/aa
CSN state information:
Latest CSN: *
Latest TXN: *
Header:
Version = 2
Record Source = A
Type = 1
# Input Checkpoints = 1
# Output Checkpoints = 0
File Information:
Block Size = 2048
Max Blocks = 100
Record Length = 2048
Current Offset = *
Configuration:
Data Source = 0
Transaction Integrity = -1
Task Type = 0
Status:
Start Time = *
Last Update Time = *
Stop Status = *
Last Result = 400";

/// The same of INFO EXTRACT, with `PLACE` where lines about the source's log stand.
const EXTRACT: &str = "\
EXTRACT E1 Last Started * Status *
Checkpoint Lag * (updated * ago)
Log Read Checkpoint *
*
Current Checkpoint Detail:
Read Checkpoint #1
*
Startup Checkpoint (starting position in data source):
PLACE
Timestamp: *
Recovery Checkpoint (position of oldest unprocessed transaction in data source):
PLACE
Timestamp: *
Current Checkpoint (position of last record read in the data source):
PLACE
Timestamp: *
Write Checkpoint #1
GGS Log Trail
Current Checkpoint (current write position):
Sequence #: *
RBA: *
Timestamp: *
Extract Trail: ./dirdat/aa
CSN state information:
Latest CSN: *
Latest TXN: *
Header:
Version = 2
Record Source = A
Type = 6
# Input Checkpoints = 1
# Output Checkpoints = 1
File Information:
Block Size = 2048
Max Blocks = 100
Record Length = 2048
Current Offset = *
Configuration:
Data Source = 3
Transaction Integrity = 1
Task Type = 0
Status:
Start Time = *
Last Update Time = *
Stop Status = *
Last Result = 400";

/// Lines without the white space that layouts differ in, empty ones left out.
fn lines(text: &str) -> Vec<String> {
    let lines = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
    lines.filter(|line| !line.is_empty() && !line.starts_with("Process ID")).collect()
}

fn fits(line: &str, pattern: &str) -> bool {
    let mut rest = line;
    let parts: Vec<&str> = pattern.split('*').collect();
    parts.iter().enumerate().all(|(place, part)| {
        let found = match place {
            0 => rest.starts_with(part).then_some(0),
            place if place + 1 == parts.len() => rest.len().checked_sub(part.len()).filter(|_| rest.ends_with(part)),
            _ => rest.find(part),
        };
        found.map(|at| rest = &rest[at + part.len()..]).is_some()
    })
}

/// Asserts the layout; `place` are the patterns of lines about the source's log.
#[track_caller]
pub fn assert_layout(shown: &str, layout: &str, place: &str) {
    let wanted = lines(&layout.replace("PLACE", place));
    let found = lines(shown);
    for (line, pattern) in found.iter().zip(&wanted) {
        assert!(fits(line, pattern), "{line:?} is not {pattern:?} in\n{shown}");
    }
    assert_eq!(found.len(), wanted.len(), "{shown}");
}

#[track_caller]
pub fn assert_replicat_layout(shown: &str) {
    assert_layout(shown, REPLICAT, "");
}

#[track_caller]
pub fn assert_extract_layout(shown: &str, place: &str) {
    assert_layout(shown, EXTRACT, place);
}

/// The value behind `label`, in the block that begins with `title`.
#[track_caller]
pub fn value(shown: &str, title: &str, label: &str) -> String {
    let mut lines = shown.lines().map(str::trim).skip_while(|line| !line.starts_with(title));
    let found = lines.find_map(|line| line.strip_prefix(label)?.trim_start().strip_prefix([':', '=']));
    found.unwrap_or_else(|| panic!("no {label} behind {title} in\n{shown}")).trim().to_owned()
}

/// The newest checkpoint of a ring file, read as its format page says: the byte of its slot, and its JSON.
pub fn newest_slot(path: &Path) -> (usize, serde_json::Value) {
    let bytes = std::fs::read(path).expect("the checkpoint file");
    let newest = (2048..bytes.len())
        .step_by(2048)
        .filter(|at| bytes[*at..].starts_with(b"DCKP"))
        .max_by_key(|at| u64::from_be_bytes(bytes[at + 8..at + 16].try_into().expect("eight bytes")));
    let at = newest.expect("a slot");
    let length = u32::from_be_bytes(bytes[at + 4..at + 8].try_into().expect("four bytes")) as usize;
    (at, serde_json::from_slice(&bytes[at + 20..at + 20 + length]).expect("JSON"))
}

/// Where each record of a trail file ends, and whether it ends a transaction, read as the format page says.
pub fn record_ends(path: &Path) -> Vec<(usize, bool)> {
    let bytes = std::fs::read(path).expect("the trail file");
    let (mut at, mut ends) = (0, Vec::new());
    while at < bytes.len() {
        assert!([b'F', b'G', b'Z'].contains(&bytes[at]), "a record begins at {at}");
        let length: [u8; 2] = bytes[at + 2..at + 4].try_into().expect("two bytes");
        let little = bytes[at + 1] & 1 == 1;
        let length = usize::from(if little { u16::from_le_bytes(length) } else { u16::from_be_bytes(length) });
        // The header begins behind two tokens of four bytes; TransInd 2 and 3 end a transaction.
        let is_end = bytes[at] == b'G' && [2, 3].contains(&bytes[at + 8 + 28]);
        at += length;
        ends.push((at, is_end));
    }
    ends
}

#[test]
fn checkpoints_are_shown_line_by_line_and_their_numbers_are_true() {
    let stage = Stage::new(SCHEMA);
    let fresh = stage.console("INFO REPLICAT r1, SHOWCH");
    assert!(fresh.contains("First Record  RBA 0"), "{fresh}");
    assert_eq!(value(&fresh, "Current Checkpoint (", "Timestamp"), "Not Available");
    assert_eq!(value(&fresh, "Status:", "Stop Status"), "A");
    for ids in [1..10, 10..15] {
        for id in ids {
            stage.source().execute("INSERT INTO t VALUES (?1, 'x')", [id]).expect("an insert");
        }
        let (extract, replicat) = (stage.extract(), stage.replicat());
        stage.wait_until_equal(&["t"], &extract, &replicat);
        let running = stage.console("INFO REPLICAT r1, SHOWCH; INFO EXTRACT e1, SHOWCH");
        assert!(running.contains("Stop Status = A") && !running.contains("Stop Status = G"), "{running}");
        assert!(running.contains(&replicat.id().to_string()) && running.contains("Status RUNNING"), "{running}");
        extract.stop();
        replicat.stop();
    }
    let home = stage.home();
    let shown = stage.console("INFO REPLICAT r1, SHOWCH");
    assert_replicat_layout(&shown);
    let (offset, checkpoint) = newest_slot(&home.join("dirchk/R1.cpr"));
    assert_eq!(value(&shown, "File Information", "Current Offset"), offset.to_string());
    assert_eq!(value(&shown, "Status:", "Stop Status"), "G");
    let current = "Current Checkpoint (position";
    let place = |title: &str| {
        let (sequence, rba) = (value(&shown, title, "Sequence #"), value(&shown, title, "RBA"));
        (sequence.parse::<usize>().expect("a number"), rba.parse::<usize>().expect("a number"))
    };
    // Everything is applied: the place is the end of the last transaction of the trail, and a record ends there.
    let (sequence, rba) = place(current);
    let ends = record_ends(&home.join(format!("dirdat/aa{sequence:09}")));
    let last = ends.iter().rev().find(|(_, is_end)| *is_end).expect("a transaction");
    assert_eq!(rba, last.0);
    assert_eq!(checkpoint["replicat"]["current"], format!("{sequence:09}:{rba}"));
    let row = number(&stage.target(), "SELECT SEQNO * 1000000000 + RBA FROM checkpoints");
    assert_eq!(row, sequence as i64 * 1_000_000_000 + rba as i64, "the row of the checkpoint table");
    // The second run started where the first one had stopped.
    let (sequence, rba) = place("Startup Checkpoint");
    let ends = record_ends(&home.join(format!("dirdat/aa{sequence:09}")));
    assert!(ends.iter().any(|(end, _)| *end == rba), "a record ends at {rba}");
    let text = |sql: &str| stage.target().query_row(sql, [], |row| row.get::<_, String>(0)).expect("a text");
    assert_eq!(value(&shown, "CSN state", "Latest CSN"), text("SELECT LOG_CSN FROM checkpoints"));
    let audit = text("SELECT AUDIT_TS FROM checkpoints");
    assert_eq!(value(&shown, current, "Timestamp"), audit[..26], "the commit time of the last transaction");

    let extract = stage.console("INFO EXTRACT e1, SHOWCH");
    assert_extract_layout(&extract, "Change #: *\nIncarnation: *");
    let (offset, checkpoint) = newest_slot(&home.join("dirchk/E1.cpe"));
    assert_eq!(value(&extract, "File Information", "Current Offset"), offset.to_string());
    assert_eq!(value(&extract, "Status:", "Stop Status"), "G");
    let write = "Current Checkpoint (current write";
    let (sequence, rba) = (value(&extract, write, "Sequence #"), value(&extract, write, "RBA"));
    let sequence: u32 = sequence.parse().expect("a number");
    let length = std::fs::metadata(home.join(format!("dirdat/aa{sequence:09}"))).expect("the trail file").len();
    assert_eq!(rba, length.to_string(), "everything that is written");
    let position = checkpoint["extract"]["current"]["position"].as_str().expect("a position").to_owned();
    let change: u64 = value(&extract, "Current Checkpoint (position", "Change #").parse().expect("a number");
    assert!(position.starts_with(&format!("{change:020}")), "{position}");

    // Earlier checkpoints come behind the newest, newest first.
    let history = stage.console("INFO REPLICAT r1, SHOWCH 3");
    let titles: Vec<&str> = history.lines().filter(|line| line.ends_with("Detail:")).collect();
    assert_eq!(
        titles,
        [
            "Current Checkpoint Detail:",
            "Previous Checkpoint #1 Detail:",
            "Previous Checkpoint #2 Detail:",
            "Previous Checkpoint #3 Detail:"
        ]
    );
    let offsets: Vec<usize> = history
        .lines()
        .filter_map(|line| line.trim().strip_prefix("Current Offset = "))
        .map(|offset| offset.parse().expect("a number"))
        .collect();
    assert!(offsets.windows(2).all(|pair| pair[0] == pair[1] + 2048), "{offsets:?}");
    let refused = stage.try_console("INFO REPLICAT r1, SHOWCH 1000");
    assert_eq!(refused.status.code(), Some(2));

    // A process that is killed has not said that it stopped.
    let replicat = stage.replicat();
    crate::stage::eventually("the second run has started", || {
        let shown = stage.console("INFO REPLICAT r1, SHOWCH");
        (value(&shown, "Status:", "Stop Status") == "A").then_some(())
    });
    replicat.kill();
    let killed = stage.console("INFO REPLICAT r1, SHOWCH");
    assert!(killed.contains("Status ABENDED"), "{killed}");
    assert_eq!(value(&killed, "Status:", "Stop Status"), "A");
    let ago = killed.split("(updated ").nth(1).and_then(|rest| rest.split(' ').next()).expect("updated ago");
    assert!(ago.starts_with("00:0"), "{ago}");
}
