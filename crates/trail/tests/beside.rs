//! A sync that runs beside the appending.

mod world;

use std::sync::Arc;
use trail::storage::{Directory, Forgetful};
use trail::{Error, Start, Writer};
use world::{append, open_reader, open_writer, options, table, transaction};

const FILE_BYTES_MAX: u64 = 3_000;

/// Transactions that a reader of the trail gets.
fn published(storage: &Forgetful) -> usize {
    let mut reader = open_reader(&storage.another_process(), Start::Beginning).expect("opens");
    let mut assembler = world::Assembler::default();
    while let Some(entry) = reader.next().expect("reads") {
        assembler.add(entry.record);
    }
    assembler.complete.len()
}

#[test]
fn what_is_appended_meanwhile_is_not_part_of_the_sync() {
    let table = table("a", 3);
    let mut lost = 0;
    for seed in 0..60 {
        let storage = Forgetful::new(seed);
        let mut writer = open_writer(&storage, 1 << 20).expect("opens");
        append(&mut writer, &transaction(&table, 0, 2)).expect("appends");
        let started = writer.start_sync().expect("starts");
        append(&mut writer, &transaction(&table, 1, 2)).expect("appends");
        assert!(writer.is_syncing());
        let synced = loop {
            if let Some(synced) = writer.finished_sync().expect("syncs") {
                break synced.position;
            }
        };
        assert_eq!(synced, started);
        assert!(!writer.is_syncing() && writer.position() > synced);
        assert_eq!(published(&storage), 1, "seed {seed}");
        drop(writer);
        storage.crash();
        let last = open_writer(&storage, 1 << 20).expect("opens").last_commit().cloned().expect("one is there");
        lost += usize::from(last == transaction(&table, 0, 2).commit);
    }
    assert!(lost > 0, "no sync, no promise");
}

#[test]
fn a_sync_that_fails_poisons_the_writer_before_a_file_is_left_behind() {
    let table = table("a", 3);
    for seed in 0..60 {
        let storage = Forgetful::new(seed);
        let mut writer = open_writer(&storage, FILE_BYTES_MAX).expect("opens");
        append(&mut writer, &transaction(&table, 0, 2)).expect("appends");
        storage.fail_syncs(1);
        let file = writer.start_sync().expect("starts").sequence;
        let mut failed = None;
        for number in 1..200 {
            if let Err(error) = append(&mut writer, &transaction(&table, number, 2)) {
                failed = Some(error);
                break;
            }
        }
        assert!(matches!(failed, Some(Error::Io { action: "sync", .. })), "seed {seed}: {failed:?}");
        assert_eq!(writer.position().sequence, file);
        assert!(matches!(writer.start_sync(), Err(Error::Poisoned { .. })));
        assert_eq!(published(&storage), 0);
    }
}

#[test]
fn the_end_of_a_sync_is_heard_of_even_when_a_new_file_had_to_wait_for_it() {
    let table = table("a", 3);
    let storage = Forgetful::new(3);
    let mut writer = open_writer(&storage, FILE_BYTES_MAX).expect("opens");
    append(&mut writer, &transaction(&table, 0, 2)).expect("appends");
    let started = writer.start_sync().expect("starts");
    let mut number = 0;
    while writer.position().sequence == started.sequence {
        number += 1;
        append(&mut writer, &transaction(&table, number, 2)).expect("appends");
    }
    assert!(writer.is_syncing());
    assert_eq!(writer.finished_sync().expect("has ended").map(|synced| synced.position), Some(started));
    assert!(!writer.is_syncing() && writer.finished_sync().expect("none runs").is_none());
}

#[test]
fn a_thread_syncs_real_files() {
    let directory = tempfile::tempdir().expect("a directory");
    let storage = Arc::new(Directory::new(directory.path()));
    let mut writer = Writer::open(storage.clone(), options(FILE_BYTES_MAX)).expect("opens");
    let table = table("a", 3);
    for number in 0..50 {
        append(&mut writer, &transaction(&table, number, 2)).expect("appends");
        let started = writer.start_sync().expect("starts");
        // The next sync, or the end, waits for it.
        assert_eq!(started, writer.position());
    }
    let end = writer.position();
    assert_eq!(writer.sync().expect("syncs"), end);
    drop(writer);
    let mut reader = trail::Reader::open(storage, world::trail_name(), Start::Beginning).expect("opens");
    while reader.next().expect("reads").is_some() {}
    assert_eq!(reader.position(), end);
}
