//! The largest value that a trail takes: through and back, in memory that does not grow with it. Alone in this file, since it
//! measures the memory of its process.

mod world;

use change::{Operation, Row, RowBuilder, Value};
use std::fs;
use std::sync::Arc;
use trail::storage::Directory;
use trail::{Format, Record, Start, UpdateImages, Writer, WriterOptions};
use world::{append, change, commit, open_reader, options, read_entries, table};

const LARGEST: usize = 400 * 1024 * 1024;

/// Most memory that the process has had, in bytes.
fn peak() -> usize {
    let status = fs::read_to_string("/proc/self/status").expect("is Linux");
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).expect("tells the peak");
    line.split_whitespace().nth(1).and_then(|number| number.parse::<usize>().ok()).expect("a number") * 1024
}

#[test]
fn a_value_of_400_megabytes_passes_in_little_memory() {
    let folder = tempfile::tempdir().expect("a directory");
    let storage = Directory::new(folder.path());
    let table = table("t", 3);
    // Zeros that nobody has touched take no memory, so that what is measured is the trail's.
    let zeros = bytes::Bytes::from(vec![0; LARGEST]);
    let new = RowBuilder::over(&zeros, [Ok(0..1), Ok(1..LARGEST), Err(Value::Unchanged)]);
    let long = change(&table, 1, Operation::Insert { new });
    let old = Row::from_values([Value::Bytes(b"k"), Value::Null, Value::Unchanged]);
    let short = change(&table, 2, Operation::Delete { old });

    let before = peak();
    let format = Format { updates: Some(UpdateImages::Separate), ..Format::default() };
    let options = WriterOptions { format, ..options(100 << 20) };
    let mut writer = Writer::open(Arc::new(storage.clone()), options).expect("opens");
    let written = world::Transaction { commit: commit(1), changes: vec![long, short] };
    append(&mut writer, &written).expect("appends");
    writer.close().expect("closes");
    let grown = peak() - before;
    assert!(grown < 8 << 20, "the writer took {grown} bytes");

    let before = peak();
    let mut reader = open_reader(&storage, Start::Beginning).expect("opens");
    let entries = read_entries(&mut reader).expect("reads");
    let grown = peak() - before;
    assert!(grown < LARGEST + (16 << 20), "the reader took {grown} bytes");
    let changes: Vec<_> = entries
        .into_iter()
        .filter_map(|entry| if let Record::Change { change, .. } = entry.record { Some(change) } else { None })
        .collect();
    assert!(changes == written.changes, "the same values came back");
}
