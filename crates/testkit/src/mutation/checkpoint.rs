//! Checkpoint files: made, changed, and put right again as `docs/formats/checkpoint.md` says.

use super::change;
use ::change::{Commit, Csn, LogPosition, TableName, Timestamp, TransactionId};
use process::{
    BoundedCheckpoint, Checkpoint, CheckpointBody, CheckpointFile, ExtractCheckpoint, GroupKind, GroupName,
    LeftOutTransaction, ReadCheckpoint, ReplicatCheckpoint, StopStatus, StreamCheckpoint, WriteCheckpoint,
};
use std::sync::Arc;
use trail::Position;
use trail::storage::{Forgetful, Storage};

const BLOCK: usize = CheckpointFile::BLOCK_BYTES;
/// Bytes of the file header in front of its checksum.
const HEADER_BYTES: usize = 28;
/// Bytes of a slot's header in front of its checksum; the payload follows the checksum.
const SLOT_HEADER_BYTES: usize = 16;
const PAYLOAD_START: usize = SLOT_HEADER_BYTES + 4;

/// The group whose file an input of this kind claims to be.
pub(super) fn group(kind: GroupKind) -> GroupName {
    let name = if kind == GroupKind::Extract { "E1" } else { "R1" };
    GroupName::parse(name).expect("a group name")
}

/// A file with three checkpoints.
pub(super) fn sample(kind: GroupKind) -> Vec<u8> {
    let storage = Forgetful::new(1);
    let shared: Arc<dyn Storage> = Arc::new(storage.clone());
    let first = checkpoint(kind, 1);
    let mut file = CheckpointFile::create(shared, kind, &group(kind), &first).expect("is made");
    (2..4).for_each(|number| file.save(&checkpoint(kind, number)).expect("is saved"));
    storage.read_whole(&format!("{}.{}", group(kind), kind.checkpoint_extension())).expect("is there")
}

fn checkpoint(kind: GroupKind, number: u64) -> Checkpoint {
    let time = |micros: u64| Timestamp::from_unix_micros(1_700_000_000_000_000 + micros as i64);
    let place =
        |number: u64| ReadCheckpoint { position: LogPosition::new(format!("{number:020}")), time: Some(time(number)) };
    let commit = |number: u64| Commit {
        csn: Csn::new(format!("{number:020}")),
        transaction: TransactionId::new(format!("{number}.1")),
        time: time(number),
    };
    let body = match kind {
        GroupKind::Extract => CheckpointBody::Extract(ExtractCheckpoint {
            startup: place(0),
            recovery: place(number),
            current: place(number + 1),
            written: Some(commit(number)),
            trails: vec![WriteCheckpoint {
                name: "./dirdat/aa".to_owned(),
                megabytes: 500,
                position: Some(Position::new(3, number)),
                is_remote: number % 2 == 1,
            }],
            streams: vec![StreamCheckpoint { startup: place(1), recovery: place(number), current: place(number + 2) }],
            bounded: Some(BoundedCheckpoint {
                number,
                previous: Some(place(1)),
                begin: place(number),
                end: place(number + 1),
            }),
            left_out: vec![LeftOutTransaction {
                transaction: TransactionId::new(format!("x{number}")),
                asked: Timestamp::default(),
            }],
            log_file_bytes: None,
            input: None,
        }),
        GroupKind::Replicat => CheckpointBody::Replicat(ReplicatCheckpoint {
            trail: "./dirdat/aa".to_owned(),
            checkpoint_table: TableName::new("main", "checkpoint"),
            group_key: 42,
            startup: Position::default(),
            current: Position::new(3, number),
            applied: Some(commit(number)),
            mode: Default::default(),
        }),
    };
    Checkpoint {
        created: time(0),
        started: Some(time(1)),
        updated: time(number),
        stop_status: StopStatus::Active,
        body,
    }
}

/// Changes the header or a slot that is in use.
pub(super) fn change(file: &mut [u8], random: &mut fastrand::Rng) {
    let block = random.usize(..4);
    // The first checkpoint stands in the second slot, because slots are counted from 0 and checkpoints from 1.
    let start = if block == 0 { 0 } else { (block + 1) * BLOCK };
    let block = &mut file[start..start + BLOCK];
    if start == 0 {
        let mut header = block[..HEADER_BYTES].to_vec();
        change::bytes(&mut header, random);
        header.resize(HEADER_BYTES, 0);
        block[..HEADER_BYTES].copy_from_slice(&header);
        if random.u8(..8) > 0 {
            let checksum = crc32fast::hash(&block[..HEADER_BYTES]);
            block[HEADER_BYTES..HEADER_BYTES + 4].copy_from_slice(&checksum.to_be_bytes());
        }
        return;
    }
    let length = block[4..8].first_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes)) as usize;
    let mut payload = block[PAYLOAD_START..PAYLOAD_START + length].to_vec();
    for _ in 0..1 + random.usize(..3) {
        match random.u8(..6) {
            0 => text(&mut payload, random),
            1 => change::bytes(&mut payload, random),
            _ => number(&mut payload, random),
        }
    }
    payload.truncate(BLOCK - PAYLOAD_START);
    let mut header = block[..SLOT_HEADER_BYTES].to_vec();
    header[4..8].copy_from_slice(&(payload.len() as u32).to_be_bytes());
    if random.u8(..6) == 0 {
        change::bytes(&mut header, random);
        header.resize(SLOT_HEADER_BYTES, 0);
    }
    block[..SLOT_HEADER_BYTES].copy_from_slice(&header);
    block[PAYLOAD_START..].fill(0);
    block[PAYLOAD_START..PAYLOAD_START + payload.len()].copy_from_slice(&payload);
    if random.u8(..8) > 0 {
        let checksum = crc32fast::hash(&[&header[..], &payload].concat());
        block[SLOT_HEADER_BYTES..PAYLOAD_START].copy_from_slice(&checksum.to_be_bytes());
    }
}

/// Puts a piece of JSON somewhere into the payload.
fn text(payload: &mut Vec<u8>, random: &mut fastrand::Rng) {
    const PIECES: [&str; 10] = ["null", "{}", "[]", "\"\"", ",", "true", "1e999", "\\u0000", "\"\\ud800\"", "-"];
    let at = random.usize(..=payload.len());
    let piece = match random.u8(..4) {
        0 => "[".repeat(random.usize(1..1500)),
        _ => PIECES[random.usize(..PIECES.len())].to_owned(),
    };
    payload.splice(at..at, piece.bytes());
}

/// Puts another number in the place of one of the payload's.
fn number(payload: &mut Vec<u8>, random: &mut fastrand::Rng) {
    const NUMBERS: [&str; 9] = [
        "0",
        "-1",
        "4294967295",
        "4294967296",
        "9223372036854775807",
        "9223372036854775808",
        "18446744073709551616",
        "-9223372036854775808",
        "0.5",
    ];
    let starts: Vec<usize> =
        (1..payload.len()).filter(|at| payload[*at].is_ascii_digit() && !payload[*at - 1].is_ascii_digit()).collect();
    let Some(start) = random.choice(&starts).copied() else { return };
    let digits = payload[start..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    payload.splice(start..start + digits, NUMBERS[random.usize(..NUMBERS.len())].bytes());
}
