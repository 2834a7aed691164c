//! What goes into a trail comes out of it.

mod world;

use change::{Operation, Row, TruncateOptions, Value};
use std::slice;
use std::sync::Arc;
use std::time::Duration;
use trail::storage::{Directory, Forgetful, Storage};
use trail::{Error, Position, Record, Start, TransactionPlace};
use world::{
    Assembler, append, change, commit, insert, open_reader, open_writer, options, places, read_entries,
    read_transactions, row, table, trail_name, transaction,
};

const MEGABYTE: u64 = 1 << 20;

#[test]
fn a_real_directory_holds_transactions_over_restarts_and_files() {
    let directory = tempfile::tempdir().expect("a directory");
    let storage = Directory::new(directory.path());
    let table = table("t", 3);
    let mut written = Vec::new();
    for round in 0..3 {
        let mut writer = open_writer(&storage, 10_000).expect("opens");
        assert_eq!(writer.last_commit(), written.last().map(|last: &world::Transaction| &last.commit));
        for number in 0..100 {
            let transaction = transaction(&table, round * 100 + number, number % 4 + 1);
            append(&mut writer, &transaction).expect("appends");
            written.push(transaction);
            if number % 7 == 0 {
                writer.sync().expect("syncs");
            }
        }
        writer.close().expect("closes");
    }
    assert!(storage.list().expect("lists").len() > 10, "there are many files");
    assert_eq!(read_transactions(&storage).expect("reads"), written);
}

#[test]
fn every_kind_of_change_comes_back_as_it_was() {
    let storage = Forgetful::new(1);
    let table = table("t", 3);
    let (null, same, a, b) = (Value::Null, Value::Unchanged, Value::Bytes(b"a"), Value::Bytes(b""));
    let image = |values: [Value<'static>; 3]| Row::from_values(values);
    let operations = [
        Operation::Insert { new: image([a, null, b]) },
        Operation::Update { old: None, new: image([a, same, null]) },
        Operation::Update { old: Some(image([b, same, same])), new: image([a, same, same]) },
        Operation::Update { old: Some(image([a, null, b])), new: image([a, b, same]) },
        Operation::Update { old: Some(image([same, same, same])), new: image([same, same, same]) },
        Operation::Update { old: Some(image([null, null, null])), new: image([a, null, null]) },
        Operation::Delete { old: image([a, same, same]) },
        Operation::Delete { old: image([a, b, null]) },
        Operation::truncate(),
        Operation::Truncate(TruncateOptions { cascade: true, restart_identity: false }),
        Operation::Truncate(TruncateOptions { cascade: false, restart_identity: true }),
        Operation::Truncate(TruncateOptions { cascade: true, restart_identity: true }),
        Operation::Delete { old: image([a, same, same]) },
    ];
    let changes = (0..).zip(operations).map(|(number, operation)| change(&table, number, operation)).collect();
    let written = world::Transaction { commit: commit(1), changes };
    let mut writer = open_writer(&storage, MEGABYTE).expect("opens");
    append(&mut writer, &written).expect("appends");
    writer.sync().expect("syncs");
    assert_eq!(read_transactions(&storage).expect("reads"), [written]);
}

#[test]
fn a_change_tells_where_it_stands_in_its_transaction() {
    let storage = Forgetful::new(1);
    let table = table("t", 1);
    let mut writer = open_writer(&storage, MEGABYTE).expect("opens");
    for (number, changes) in [(1, 1), (2, 2), (3, 0), (4, 4)] {
        append(&mut writer, &transaction(&table, number, changes)).expect("appends");
    }
    writer.sync().expect("syncs");
    let mut reader = open_reader(&storage, Start::Beginning).expect("opens");
    let entries = read_entries(&mut reader).expect("reads");
    use TransactionPlace::{First, Last, Middle, Only};
    assert_eq!(places(&entries), [Only, First, Last, First, Middle, Middle, Last]);
    for pair in entries.windows(2) {
        assert_eq!(pair[0].next, pair[1].position, "records follow each other without a gap");
    }
    assert_eq!(reader.position(), writer.position());
}

#[test]
fn nothing_is_seen_before_it_is_synced() {
    let storage = Forgetful::new(1);
    let mut reader = open_reader(&storage, Start::Beginning).expect("opens before the trail exists");
    assert_eq!(reader.next().expect("waits"), None);
    let table = table("t", 1);
    let mut writer = open_writer(&storage, MEGABYTE).expect("opens");
    let start = read_entries(&mut reader).expect("reads");
    assert!(matches!(start[0].record, Record::Header(_)), "{start:?}");

    append(&mut writer, &transaction(&table, 1, 2)).expect("appends");
    assert_eq!(reader.next().expect("waits"), None);
    assert_eq!(writer.sync().expect("syncs"), writer.position());
    assert_eq!(places(&read_entries(&mut reader).expect("reads")).len(), 2);
}

#[test]
fn of_an_open_transaction_the_last_change_is_held_back() {
    let storage = Forgetful::new(1);
    let table = table("t", 1);
    let mut writer = open_writer(&storage, MEGABYTE).expect("opens");
    let mut reader = open_reader(&storage, Start::Beginning).expect("opens");
    writer.begin(&commit(1)).expect("begins");
    writer.append(&insert(&table, 1)).expect("appends");
    writer.append(&insert(&table, 2)).expect("appends");
    assert!(writer.sync().expect("syncs") < writer.position());
    assert_eq!(places(&read_entries(&mut reader).expect("reads")), [TransactionPlace::First]);
    writer.commit().expect("commits");
    writer.sync().expect("syncs");
    assert_eq!(places(&read_entries(&mut reader).expect("reads")), [TransactionPlace::Last]);
}

#[test]
fn a_definition_stands_once_in_each_file_before_its_first_use() {
    let storage = Forgetful::new(1);
    let (old, new) = (table("t", 2), table("t", 3));
    let mut writer = open_writer(&storage, 4_000).expect("opens");
    for number in 0..100 {
        // A fresh copy each time: definitions are known by what they say.
        let table = Arc::new(if number % 2 == 0 { (*old).clone() } else { (*new).clone() });
        append(&mut writer, &transaction(&table, number, 1)).expect("appends");
    }
    writer.sync().expect("syncs");
    let mut reader = open_reader(&storage, Start::Beginning).expect("opens");
    let mut files: Vec<Vec<_>> = Vec::new();
    for entry in read_entries(&mut reader).expect("reads") {
        match entry.record {
            Record::Header(_) => files.push(Vec::new()),
            Record::Definition(definition) => files.last_mut().expect("a file").push(definition),
            Record::Change { change, .. } => {
                assert!(files.last().expect("a file").contains(&change.table), "defined in the same file");
            }
            Record::Restart { .. } | Record::Other { .. } => {}
            other => panic!("{other:?} was not written"),
        }
    }
    assert!(files.len() > 2, "there are several files");
    for definitions in &files {
        assert_eq!(definitions.len(), 2, "{definitions:?}");
    }
}

#[test]
fn a_transaction_may_span_files_but_a_record_does_not() {
    let storage = Forgetful::new(1);
    let table = table("t", 3);
    let mut writer = open_writer(&storage, 4_000).expect("opens");
    let written = transaction(&table, 1, 200);
    append(&mut writer, &written).expect("appends");
    let end = writer.close().expect("closes");
    assert!(end.sequence > 5, "{end}");
    assert_eq!(read_transactions(&storage).expect("reads"), [written]);
}

#[test]
fn a_completed_header_tells_length_and_transactions_of_its_file() {
    let storage = Forgetful::new(1);
    let table = table("t", 3);
    let mut writer = open_writer(&storage, 4_000).expect("opens");
    for number in 1..=100 {
        append(&mut writer, &transaction(&table, number, 1)).expect("appends");
    }
    writer.close().expect("closes");
    let mut reader = open_reader(&storage, Start::Beginning).expect("opens");
    let mut expected = None;
    for entry in read_entries(&mut reader).expect("reads") {
        match entry.record {
            Record::Header(header) => {
                let completion = header.completion.clone().expect("is complete");
                let length = storage.read_whole(&trail_name().file(header.sequence)).expect("reads").len();
                assert_eq!(completion.file_size, length as u64);
                expected = completion.span;
            }
            Record::Change { commit, .. } => {
                let span = expected.as_ref().expect("the file has changes");
                assert!(span.first_csn <= commit.csn && commit.csn <= span.last_csn);
                assert!(span.first_time <= commit.time && commit.time <= span.last_time);
            }
            _ => {}
        }
    }
}

#[test]
fn an_abandoned_transaction_is_never_completed() {
    let storage = Forgetful::new(1);
    let table = table("t", 1);
    let mut writer = open_writer(&storage, MEGABYTE).expect("opens");
    for (number, changes) in [(1, 0), (2, 1), (3, 5)] {
        writer.begin(&commit(number)).expect("begins");
        (0..changes).for_each(|index| writer.append(&insert(&table, index)).expect("appends"));
        writer.abandon().expect("abandons");
    }
    let written = transaction(&table, 4, 2);
    append(&mut writer, &written).expect("appends");
    writer.sync().expect("syncs");
    assert_eq!(read_transactions(&storage).expect("reads"), [written]);
}

#[test]
fn a_transaction_abandoned_inside_a_long_value_leaves_the_trail_readable() {
    let table = table("t", 3);
    let long = |number| {
        let new = row(&["k", &"x".repeat(200_000), "v"]);
        change(&table, number, Operation::Insert { new })
    };
    for (is_synced, changes) in [(false, 0), (false, 3), (true, 0), (true, 3)] {
        let storage = Forgetful::new(1);
        let mut writer = open_writer(&storage, MEGABYTE).expect("opens");
        writer.begin(&commit(1)).expect("begins");
        (0..changes).for_each(|index| writer.append(&insert(&table, index)).expect("appends"));
        writer.append(&long(9)).expect("appends");
        if is_synced {
            writer.sync().expect("syncs");
        }
        writer.abandon().expect("abandons");
        let written = transaction(&table, 2, 2);
        append(&mut writer, &written).expect("appends");
        writer.close().expect("closes");
        assert_eq!(read_transactions(&storage).expect("reads"), slice::from_ref(&written));
        let mut writer = open_writer(&storage, MEGABYTE).expect("opens");
        assert_eq!(writer.last_commit(), Some(&written.commit));
        let next = transaction(&table, 3, 1);
        append(&mut writer, &next).expect("appends");
        writer.sync().expect("syncs");
        assert_eq!(read_transactions(&storage).expect("reads"), [written, next]);
    }
}

#[test]
fn a_definition_outlives_the_transaction_that_brought_it() {
    let storage = Forgetful::new(1);
    let (small, wide) = (table("small", 1), table("wide", 3));
    let mut writer = open_writer(&storage, MEGABYTE).expect("opens");
    writer.begin(&commit(1)).expect("begins");
    writer.append(&insert(&small, 1)).expect("appends");
    // The definition fits, the row does not.
    storage.full_after(Some(storage.bytes()));
    let new = row(&["k", &"x".repeat(200_000), "v"]);
    let refused = writer.append(&change(&wide, 1, Operation::Insert { new })).expect_err("is full");
    assert!(matches!(refused, Error::Full { .. }), "{refused}");
    storage.full_after(None);
    writer.abandon().expect("abandons");
    let written = transaction(&wide, 2, 2);
    append(&mut writer, &written).expect("appends");
    writer.sync().expect("syncs");
    assert_eq!(read_transactions(&storage).expect("reads"), [written]);
}

#[test]
fn values_too_long_for_a_record_travel_in_parts() {
    let storage = Forgetful::new(1);
    let table = table("t", 4);
    let long = |length: usize, seed: u8| -> Vec<u8> { (0..length).map(|index| (index as u8) ^ seed).collect() };
    let mut changes = Vec::new();
    for (number, length) in (0..).zip([65_000, 65_400, 65_531, 65_532, 65_535, 65_536, 131_072, 3_000_000]) {
        let (first, second) = (long(length, 1), long(length, 2));
        let image = |values: [Value<'_>; 4]| Row::from_values(values);
        let key = Value::Bytes(b"key");
        let full = image([key, Value::Bytes(&first), Value::Null, Value::Bytes(b"")]);
        let changed = image([key, Value::Bytes(&second), Value::Unchanged, Value::Null]);
        changes.push(change(&table, number, Operation::Insert { new: full.clone() }));
        changes.push(change(&table, number, Operation::Update { old: None, new: changed.clone() }));
        changes.push(change(&table, number, Operation::Update { old: Some(full), new: changed.clone() }));
        changes.push(change(&table, number, Operation::Delete { old: changed }));
        changes.push(insert(&table, number));
    }
    let written = world::Transaction { commit: commit(1), changes };
    let mut writer = open_writer(&storage, MEGABYTE).expect("opens");
    append(&mut writer, &written).expect("appends");
    let single = world::Transaction { commit: commit(2), changes: written.changes[..1].to_vec() };
    let alone = world::Transaction { commit: commit(3), changes: vec![written.changes[35].clone()] };
    append(&mut writer, &single).expect("appends");
    append(&mut writer, &alone).expect("appends");
    writer.sync().expect("syncs");
    assert_eq!(read_transactions(&storage).expect("reads"), [written, single, alone]);
    let mut reader = open_reader(&storage, Start::Beginning).expect("opens");
    let places = places(&read_entries(&mut reader).expect("reads"));
    assert_eq!(places[places.len() - 2..], [TransactionPlace::Only; 2], "parts count as one change");
}

#[test]
fn a_row_of_many_short_columns_and_its_definition_travel_in_parts() {
    let storage = Forgetful::new(1);
    let wide = table("wide", 30_000);
    let mut writer = open_writer(&storage, MEGABYTE).expect("opens");
    let written = transaction(&wide, 1, 2);
    append(&mut writer, &written).expect("appends");
    writer.sync().expect("syncs");
    assert_eq!(read_transactions(&storage).expect("reads"), std::slice::from_ref(&written));
    // A reader that starts behind the definition finds it as well.
    let position = writer.position();
    let after = (written.commit.csn.clone(), written.commit.transaction.clone());
    append(&mut writer, &transaction(&wide, 2, 1)).expect("appends");
    writer.sync().expect("syncs");
    let mut reader = open_reader(&storage, Start::At { position, after: Some(after) }).expect("opens");
    assert_eq!(places(&read_entries(&mut reader).expect("reads")).len(), 1);
}

#[test]
fn a_row_over_the_limit_is_refused_by_the_name_of_its_table() {
    let storage = Forgetful::new(1);
    let table = table("big", 1);
    let mut writer = open_writer(&storage, MEGABYTE).expect("opens");
    writer.begin(&commit(1)).expect("begins");
    let value = vec![0; 400 * 1024 * 1024 + 1];
    let new = Row::from_values([Value::Bytes(&value)]);
    let error = writer.append(&change(&table, 1, Operation::Insert { new })).expect_err("is too long");
    assert!(matches!(&error, Error::Refused { .. }) && error.to_string().contains("main.big"), "{error}");
    let error = writer.append(&change(&table, 1, Operation::Insert { new: row(&["a", "b"]) })).expect_err("unfit");
    assert!(error.to_string().contains("2 values"), "{error}");
}

#[test]
fn two_writers_never_share_a_trail() {
    let directory = tempfile::tempdir().expect("a directory");
    let storage = Directory::new(directory.path());
    let first = open_writer(&storage, MEGABYTE).expect("opens");
    assert!(matches!(open_writer(&storage, MEGABYTE), Err(Error::Locked { .. })));
    drop(first);
    open_writer(&storage, MEGABYTE).expect("opens once the other is gone");
}

#[test]
fn a_waiting_reader_wakes_when_something_is_published() {
    let directory = tempfile::tempdir().expect("a directory");
    let storage = Directory::new(directory.path());
    let mut reader = open_reader(&storage, Start::Beginning).expect("opens");
    assert!(!reader.wait(Duration::ZERO).expect("asks"));
    let table = table("t", 1);
    let (go, start) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let storage = &storage;
        scope.spawn(move || {
            let mut writer = open_writer(storage, 2_500).expect("opens");
            for number in 0..50 {
                start.recv().expect("is told");
                append(&mut writer, &transaction(&table, number, 2)).expect("appends");
                writer.sync().expect("syncs");
            }
        });
        let mut assembler = Assembler::default();
        for number in 0..50 {
            go.send(()).expect("tells");
            // Each wait is woken by a change, never by its time running out, so the loop is as short as the changes.
            while assembler.complete.len() <= number {
                match reader.next().expect("reads") {
                    Some(entry) => assembler.add(entry.record),
                    None => _ = reader.wait(Duration::from_secs(60)).expect("waits"),
                }
            }
        }
        assert_eq!(assembler.complete.len(), 50);
    });
}

#[test]
fn a_reader_lives_through_the_loss_of_the_published_position() {
    let storage = Forgetful::new(1);
    let table = table("t", 1);
    let mut writer = open_writer(&storage, MEGABYTE).expect("opens");
    append(&mut writer, &transaction(&table, 1, 1)).expect("appends");
    writer.sync().expect("syncs");
    storage.remove("aa.safe").expect("removes");
    let mut reader = open_reader(&storage, Start::Beginning).expect("opens");
    assert_eq!(reader.next().expect("waits"), None);
    drop(writer);
    let mut writer = open_writer(&storage, MEGABYTE).expect("opens");
    assert_eq!(places(&read_entries(&mut reader).expect("reads")).len(), 1);
    append(&mut writer, &transaction(&table, 2, 1)).expect("appends");
    writer.sync().expect("syncs");
    assert_eq!(places(&read_entries(&mut reader).expect("reads")).len(), 1);
}

#[test]
fn a_full_disk_stops_the_writer_until_there_is_room() {
    let storage = Forgetful::new(1);
    let table = table("t", 3);
    let mut writer = open_writer(&storage, 40_000).expect("opens");
    let mut written = Vec::new();
    let mut refusals = 0;
    for number in 0..40 {
        let mut next = transaction(&table, number, 30);
        let long = "x".repeat(if number % 5 == 0 { 300_000 } else { 10 });
        next.changes.push(change(&table, number, Operation::Insert { new: row(&["k", &long, "v"]) }));
        storage.full_after(Some(storage.bytes() + 3_000));
        let mut until_room = |call: &mut dyn FnMut() -> Result<(), Error>| {
            loop {
                match call() {
                    Err(Error::Full { .. }) => {
                        refusals += 1;
                        storage.full_after(Some(storage.bytes() + 50_000 * refusals));
                    }
                    result => return result.expect("works once there is room"),
                }
            }
        };
        writer.begin(&next.commit).expect("begins");
        for change in &next.changes {
            until_room(&mut || writer.append(change));
        }
        writer.commit().expect("commits");
        until_room(&mut || writer.sync().map(drop));
        written.push(next);
    }
    assert!(refusals > 20, "{refusals}");
    drop(writer);
    storage.crash();
    storage.full_after(None);
    open_writer(&storage, 40_000).expect("opens");
    assert_eq!(read_transactions(&storage).expect("reads"), written);
}

#[test]
fn a_trail_that_is_shorter_than_the_write_checkpoint_is_refused() {
    let storage = Forgetful::new(1);
    let table = table("t", 1);
    let mut expected = options(MEGABYTE);
    expected.expected = Some(Position::new(0, 2_000_000));
    let open = |storage: &Forgetful| trail::Writer::open(Arc::new(storage.clone()), expected.clone());
    let error = open(&storage).err().expect("there is no file at all");
    assert!(matches!(&error, Error::Mismatch { .. }) && error.to_string().contains("000000000:2000000"), "{error}");

    let mut writer = open_writer(&storage, MEGABYTE).expect("opens");
    append(&mut writer, &transaction(&table, 1, 1)).expect("appends");
    let end = writer.close().expect("closes");
    let error = open(&storage).err().expect("the file is too short");
    assert!(error.to_string().contains(&end.to_string()), "{error}");

    let mut reached = options(MEGABYTE);
    reached.expected = Some(end);
    trail::Writer::open(Arc::new(storage.clone()), reached).expect("exactly enough");
}
