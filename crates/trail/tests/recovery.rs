//! What a writer does with the end of the trail that it finds.

mod world;

use std::sync::Arc;
use trail::storage::{Forgetful, Storage};
use trail::{Error, Format, Position, Reader, Record, RecoveryMode, Start, TrailName, Writer, WriterOptions};
use world::{
    Assembler, Transaction, append, commit, insert, open_reader, open_writer, options, read_entries, read_transactions,
    table, transaction,
};

fn files(storage: &Forgetful) -> Vec<String> {
    let mut names = storage.list().expect("lists");
    names.retain(|name| !name.contains('.'));
    names.sort();
    names
}

fn overwriting(expected: Option<Position>) -> WriterOptions {
    let format = Format { recovery: Some(RecoveryMode::Overwrite), ..Format::default() };
    WriterOptions { format, expected, ..options(3_000) }
}

#[test]
fn a_last_file_without_changes_goes_on_and_one_with_changes_does_not() {
    let storage = Forgetful::new(1);
    for _ in 0..3 {
        open_writer(&storage, 100_000).expect("opens").close().expect("closes");
        assert_eq!(files(&storage), ["aa000000000"]);
    }
    let mut expected = Vec::new();
    for number in 1..=3 {
        let mut writer = open_writer(&storage, 100_000).expect("opens");
        expected.push(transaction(&table("t", 3), number, 2));
        append(&mut writer, expected.last().expect("one")).expect("appends");
        writer.close().expect("closes");
        assert_eq!(read_transactions(&storage).expect("reads"), expected);
    }
    assert_eq!(files(&storage), ["aa000000000", "aa000000001", "aa000000002"]);
}

#[test]
fn another_format_or_group_gets_a_file_of_its_own_even_behind_an_empty_one() {
    let storage = Forgetful::new(1);
    open_writer(&storage, 100_000).expect("opens").close().expect("closes");
    let mut other = options(100_000);
    other.producer.group = "E2".to_owned();
    Writer::open(Arc::new(storage.clone()), other).expect("opens").close().expect("closes");
    assert_eq!(files(&storage).len(), 2);
    let format = Format { level: Some(7), ..Format::default() };
    Writer::open(Arc::new(storage.clone()), WriterOptions { format, ..options(100_000) }).expect("opens");
    assert_eq!(files(&storage).len(), 3);
}

#[test]
fn overwriting_leaves_no_trace_of_what_came_behind_the_write_checkpoint() {
    let table = table("t", 3);
    let open = |storage: &Forgetful, expected| Writer::open(Arc::new(storage.clone()), overwriting(expected));
    for is_open in [false, true] {
        for checkpoint_at in 0..20 {
            let storage = Forgetful::new(checkpoint_at);
            let history: Vec<Transaction> =
                (1..=20).map(|number| transaction(&table, number, number % 4 + 1)).collect();
            let mut writer = open(&storage, None).expect("opens");
            let mut checkpoint = writer.position();
            for (number, transaction) in (1..).zip(&history) {
                append(&mut writer, transaction).expect("appends");
                if number == checkpoint_at {
                    checkpoint = writer.sync().expect("syncs");
                }
            }
            if is_open {
                writer.begin(&commit(21)).expect("begins");
                (0..40).for_each(|number| writer.append(&insert(&table, number)).expect("appends"));
            }
            writer.sync().expect("syncs");
            drop(writer);
            let mut writer = open(&storage, Some(checkpoint)).expect("opens");
            let kept = &history[..checkpoint_at as usize];
            assert_eq!(writer.last_commit(), kept.last().map(|last| &last.commit));
            assert_eq!(
                read_transactions(&storage).expect("reads"),
                kept,
                "readers see no more, even before anything new"
            );
            let again: Vec<Transaction> = (50..70).map(|number| transaction(&table, number, 3)).collect();
            again.iter().for_each(|transaction| _ = append(&mut writer, transaction).expect("appends"));
            writer.close().expect("closes");
            let expected: Vec<Transaction> = kept.iter().chain(&again).cloned().collect();
            let mut reader = open_reader(&storage, Start::Beginning).expect("opens");
            let mut assembler = Assembler::default();
            for entry in read_entries(&mut reader).expect("reads") {
                assert!(!matches!(entry.record, Record::Restart { .. }), "there is no marker");
                assembler.add(entry.record);
            }
            assert_eq!(assembler.complete, expected);
        }
    }
}

#[test]
fn overwriting_from_the_middle_of_a_transaction_begins_with_its_first_change() {
    let storage = Forgetful::new(1);
    let table = table("t", 3);
    let open = |expected| Writer::open(Arc::new(storage.clone()), overwriting(expected)).expect("opens");
    let mut writer = open(None);
    let first = transaction(&table, 1, 2);
    append(&mut writer, &first).expect("appends");
    writer.begin(&commit(2)).expect("begins");
    (0..100).for_each(|number| writer.append(&insert(&table, number)).expect("appends"));
    // The transaction runs over several files, and the checkpoint stands in one of them.
    let checkpoint = writer.sync().expect("syncs");
    assert!(checkpoint.sequence > 2);
    (0..100).for_each(|number| writer.append(&insert(&table, number)).expect("appends"));
    writer.sync().expect("syncs");
    drop(writer);
    let mut writer = open(Some(checkpoint));
    assert_eq!(writer.last_commit(), Some(&first.commit));
    let second = transaction(&table, 2, 100);
    append(&mut writer, &second).expect("appends");
    writer.close().expect("closes");
    assert_eq!(read_transactions(&storage).expect("reads"), [first, second]);
}

#[test]
fn a_crash_at_any_step_of_overwriting_loses_nothing_before_the_checkpoint() {
    let table = table("t", 3);
    let history: Vec<Transaction> = (1..=12).map(|number| transaction(&table, number, 3)).collect();
    for step in 0..200 {
        let storage = Forgetful::new(step);
        let open = |expected| Writer::open(Arc::new(storage.clone()), overwriting(expected));
        let mut writer = open(None).expect("opens");
        let mut checkpoint = Position::default();
        for (number, transaction) in (1..).zip(&history) {
            append(&mut writer, transaction).expect("appends");
            if number == 5 {
                checkpoint = writer.sync().expect("syncs");
            }
        }
        writer.sync().expect("syncs");
        drop(writer);
        storage.fail_after(step);
        let survived = open(Some(checkpoint)).is_ok();
        storage.crash();
        let writer = open(Some(checkpoint)).expect("opens after the crash");
        assert_eq!(writer.last_commit(), Some(&history[4].commit), "step {step}");
        assert_eq!(read_transactions(&storage).expect("reads"), history[..5], "step {step}");
        if survived {
            return;
        }
    }
    panic!("overwriting takes more steps than were tried");
}

#[test]
fn a_trail_of_six_digits_is_continued_and_read_by_whoever_does_not_know() {
    let storage = Forgetful::new(1);
    let table = table("t", 3);
    let mut six = options(3_000);
    six.trail = six.trail.with_six_digits();
    let mut expected: Vec<Transaction> = (1..=30).map(|number| transaction(&table, number, 2)).collect();
    let mut reader = open_reader(&storage, Start::Beginning).expect("opens before there is a file");
    assert_eq!(reader.next().expect("waits"), None);
    let mut writer = Writer::open(Arc::new(storage.clone()), six).expect("opens");
    expected.iter().for_each(|transaction| _ = append(&mut writer, transaction).expect("appends"));
    writer.close().expect("closes");
    let mut writer = open_writer(&storage, 3_000).expect("opens");
    expected.push(transaction(&table, 31, 2));
    append(&mut writer, &expected[30]).expect("appends");
    writer.close().expect("closes");
    assert!(files(&storage).iter().all(|name| name.len() == 8), "{:?}", files(&storage));
    let mut assembler = Assembler::default();
    read_entries(&mut reader).expect("reads").into_iter().for_each(|entry| assembler.add(entry.record));
    assert_eq!(assembler.complete, expected);
}

#[test]
fn a_single_file_never_rolls_and_goes_on_after_a_restart() {
    let storage = Forgetful::new(1);
    let table = table("t", 3);
    let single = || WriterOptions {
        trail: TrailName::single("load.ext").expect("a name"),
        display_name: "./dirdat/load.ext".to_owned(),
        ..options(2_000)
    };
    let open = |options| Writer::open(Arc::new(storage.clone()), options);
    let mut expected = Vec::new();
    for round in 0..3 {
        let mut writer = open(single()).expect("opens");
        for number in 1..=20 {
            expected.push(transaction(&table, round * 100 + number, 3));
            append(&mut writer, expected.last().expect("one")).expect("appends");
        }
        if round == 1 {
            writer.begin(&commit(199)).expect("begins");
            (0..3).for_each(|number| writer.append(&insert(&table, number)).expect("appends"));
            writer.sync().expect("syncs");
            storage.crash();
        } else {
            writer.close().expect("closes");
        }
    }
    let name = TrailName::single("load.ext").expect("a name");
    let mut reader = Reader::open(Arc::new(storage.clone()), name, Start::Beginning).expect("opens");
    let entries = read_entries(&mut reader).expect("reads");
    let Record::Header(header) = &entries[0].record else { panic!("a file starts with its header") };
    assert!(!header.multi_part && header.file_name == "./dirdat/load.ext", "{header:?}");
    let mut assembler = Assembler::default();
    entries.into_iter().for_each(|entry| assembler.add(entry.record));
    assert_eq!((assembler.complete, assembler.abends), (expected, 1));
    let other = WriterOptions { format: Format { level: Some(4), ..Format::default() }, ..single() };
    assert!(matches!(open(other).err(), Some(Error::Format { .. })), "it can't change its form");
}

#[test]
fn a_copy_keeps_level_and_order_and_tells_where_its_records_have_been() {
    let source = Forgetful::new(1);
    let format = Format { level: Some(6), order: Some(trail::format::bytes::Order::Big), ..Format::default() };
    let mut writer =
        Writer::open(Arc::new(source.clone()), WriterOptions { format, ..options(100_000) }).expect("opens");
    let written = transaction(&table("t", 3), 1, 2);
    append(&mut writer, &written).expect("appends");
    writer.close().expect("closes");
    let (header, order, _) =
        trail::format::header::read_file_start(&source.read_whole("aa000000000").expect("reads")).expect("is a header");

    let target = Forgetful::new(2);
    let mut pump = WriterOptions { format: header.format(order), history: header.lineage(), ..options(100_000) };
    pump.producer.group = "P1".to_owned();
    let mut writer = Writer::open(Arc::new(target.clone()), pump).expect("opens");
    append(&mut writer, &written).expect("appends");
    writer.close().expect("closes");
    let bytes = target.read_whole("aa000000000").expect("reads");
    let (copied, copied_order, _) = trail::format::header::read_file_start(&bytes).expect("is a header");
    assert_eq!((copied.level, copied_order), (6, order));
    assert_eq!(copied.uri_history, ["uri:host:domain::memory:E1"]);
    assert!(copied.uri.ends_with(":P1"), "{}", copied.uri);
    assert_eq!(copied.lineage().len(), 2);
}
