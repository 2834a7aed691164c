//! What a trail makes of a disk, as one line of JSON: walking a long trail with all checksums compared, and writing with group
//! syncs beside a plain writer that appends and syncs as many bytes at the same points.
//!
//! The trail that is walked was just written, so it comes from the page cache.
//!
//! `cargo run --release -p trail --example disk [WALKED_MB [WRITTEN_MB [DIRECTORY]]]`

mod load;

use std::error::Error;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use trail::format::record::{self, RecordView};
use trail::format::token;
use trail::storage::{Directory, Storage};
use trail::{Cover, Position, Writer};

/// Bytes that are read at once: what a reader of a trail reads.
const BLOCK_BYTES: usize = 64 * 1024;

/// Rows between two syncs: a transaction, what a busy source commits in a few milliseconds, and a large group.
const ROWS_PER_SYNC: [u64; 3] = [10, 1000, 20_000];

/// Bytes of trail that a row takes, about.
const ROW_BYTES: u64 = 225;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let walked: u64 = arguments.next().map_or(Ok(2000), |text| text.parse())?;
    let written: u64 = arguments.next().map_or(Ok(500), |text| text.parse())?;
    let parent = arguments.next().map_or_else(std::env::temp_dir, Into::into);
    let (records, bytes, time) = walk(&parent, walked * 1_000_000 / ROW_BYTES)?;
    let lines: Result<Vec<String>, Box<dyn Error>> =
        ROWS_PER_SYNC.iter().map(|rows| write(&parent, written * 1_000_000, *rows)).collect();
    println!(
        "{{\"walked_bytes\":{bytes},\"walked_records\":{records},\"walked_gb_s\":{:.3},\"written\":[{}]}}",
        bytes as f64 / 1e9 / time.as_secs_f64(),
        lines?.join(",")
    );
    Ok(())
}

/// Writes a trail of so many rows, and walks it. Returns records, bytes and the time of walking.
fn walk(parent: &Path, rows: u64) -> Result<(u64, u64, Duration), Box<dyn Error>> {
    let folder = tempfile::tempdir_in(parent)?;
    let storage = Arc::new(Directory::new(folder.path()));
    let mut writer = Writer::open(Arc::clone(&storage) as Arc<dyn Storage>, load::options(Cover::default()))?;
    load::write(&mut writer, &load::changes(load::SHORT_NOTE), rows, |_, _| Ok(()))?;
    let end = writer.close()?;
    let start = Instant::now();
    let (mut records, mut bytes) = (0, 0);
    for sequence in 0..=end.sequence {
        let (file_records, file_bytes) = walk_file(&*storage, &load::trail_name().file(sequence))?;
        records += file_records;
        bytes += file_bytes;
    }
    Ok((records, bytes, start.elapsed()))
}

/// Walks one file; returns its records and bytes.
fn walk_file(storage: &dyn Storage, name: &str) -> Result<(u64, u64), Box<dyn Error>> {
    let file = storage.open_read(name)?;
    let (length, mut records, mut at) = (file.len()?, 0, 0);
    let mut block = vec![0; BLOCK_BYTES];
    let mut order = None;
    while at < length {
        let read = file.read_at(&mut block, at)?;
        let mut rest = &block[..read];
        let order = match order {
            Some(order) => order,
            None => *order.insert(record::detect_order(rest)?),
        };
        let before = at;
        // What does not end in this block starts the next one.
        while let Ok(record) = record::frame(rest, order) {
            if record.first() != Some(&token::FILE_HEADER) {
                RecordView::read(record, order)?.verify()?;
            }
            rest = &rest[record.len()..];
            at += record.len() as u64;
            records += 1;
        }
        if at == before {
            return Err(format!("{name} is damaged at byte {at}").into());
        }
    }
    Ok((records, length))
}

/// Writes about `bytes` bytes of trail with a sync after so many rows, then the same bytes plainly.
fn write(parent: &Path, bytes: u64, rows_per_sync: u64) -> Result<String, Box<dyn Error>> {
    // A sync takes a millisecond or so: small groups are measured over fewer bytes.
    let syncs = (bytes / ROW_BYTES / rows_per_sync).clamp(1, 2000);
    let rows = syncs * rows_per_sync;
    let folder = tempfile::tempdir_in(parent)?;
    let changes = load::changes(load::SHORT_NOTE);
    let mut lengths = Vec::new();
    let storage = Arc::new(Directory::new(folder.path()));
    let mut writer = Writer::open(storage, load::options(Cover::default()))?;
    let mut last = Position::default();
    let start = Instant::now();
    load::write(&mut writer, &changes, rows, |writer, so_far| {
        if so_far % rows_per_sync == 0 {
            let safe = writer.sync()?;
            lengths.push(if safe.sequence == last.sequence { safe.rba - last.rba } else { safe.rba });
            last = safe;
        }
        Ok(())
    })?;
    let time = start.elapsed();
    drop(writer);
    let total: u64 = lengths.iter().sum();

    let mut file = File::create_new(folder.path().join("plain"))?;
    let most = usize::try_from(lengths.iter().copied().max().unwrap_or(0))?;
    let content: Vec<u8> = (0..most).map(|at| at as u8).collect();
    let start = Instant::now();
    for length in &lengths {
        file.write_all(&content[..usize::try_from(*length)?])?;
        file.sync_data()?;
    }
    let plain = start.elapsed();
    let rate = |time: Duration| total as f64 / 1e6 / time.as_secs_f64();
    Ok(format!(
        "{{\"rows_per_sync\":{rows_per_sync},\"bytes\":{total},\"syncs\":{},\"rows_s\":{:.0},\"mb_s\":{:.1},\"plain_mb_s\":{:.1},\"ratio\":{:.3}}}",
        lengths.len(),
        rows as f64 / time.as_secs_f64(),
        rate(time),
        rate(plain),
        plain.as_secs_f64() / time.as_secs_f64(),
    ))
}
