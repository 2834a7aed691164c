//! Trails of every form that this product ever wrote, kept as files: each is read for ever.
//!
//! A folder of `fixtures` holds one trail. It is written once, by the version that introduced its form, with
//! `DROVER_BLESS=1`; a folder that exists is never written again.

mod world;

use change::{DefinitionStatement, Operation, Row, SequenceState, TableName, Value};
use std::path::Path;
use std::sync::Arc;
use std::{env, fs};
use trail::cipher::{Algorithm, MasterKeys};
use trail::format::bytes::Order;
use trail::storage::{Directory, Forgetful, Storage};
use trail::{
    ChangeDetails, Cover, Format, PartitionName, Reader, Record, Start, TransactionPlace, UpdateImages, UserToken,
    Writer, WriterOptions,
};
use world::{
    Assembler, Keys, Transaction, append, change, commit, insert, options, read_entries, row, table, trail_name,
};

/// What every fixture holds: all operations, NULL and unchanged values, a value that fits no record, two tables, and one that
/// is called `altered`: with the name of the first, it is that one after it was altered.
fn history(altered: &str) -> Vec<Transaction> {
    let (narrow, wide) = (table("narrow", 1), table("wide", 4));
    let altered = table(altered, 2);
    let image = |values: [Value<'_>; 4]| Row::from_values(values);
    let full = image([Value::Bytes(b"k"), Value::Bytes(b"a"), Value::Null, Value::Bytes(b"")]);
    let key = image([Value::Bytes(b"k"), Value::Unchanged, Value::Unchanged, Value::Unchanged]);
    let moved = image([Value::Bytes(b"l"), Value::Bytes("ключ".as_bytes()), Value::Unchanged, Value::Null]);
    let long = image([Value::Bytes(b"long"), Value::Bytes(&[b'x'; 66_000]), Value::Null, Value::Unchanged]);
    let operations = [
        Operation::Insert { new: full.clone() },
        Operation::Update { old: None, new: full.clone() },
        Operation::Update { old: Some(key.clone()), new: moved.clone() },
        Operation::Update { old: Some(full.clone()), new: full.clone() },
        Operation::Insert { new: long.clone() },
        Operation::Update { old: Some(long.clone()), new: moved },
        Operation::Delete { old: key },
        Operation::truncate(),
    ];
    let changes = (0..).zip(operations).map(|(number, operation)| change(&wide, number, operation)).collect();
    vec![
        Transaction { commit: commit(1), changes: vec![insert(&narrow, 1)] },
        Transaction { commit: commit(2), changes },
        Transaction { commit: commit(3), changes: vec![insert(&narrow, 2), insert(&wide, 3), insert(&altered, 4)] },
        Transaction {
            commit: commit(4),
            changes: vec![change(&altered, 5, Operation::Delete { old: row(&["4/0", "4/1"]) })],
        },
    ]
}

/// Writes the history with a clean restart in it, one after a kill inside a transaction, and an abandoned transaction.
fn write(history: &[Transaction], open: impl Fn() -> Writer) {
    let lost = table("lost", 2);
    let mut writer = open();
    append(&mut writer, &history[0]).expect("appends");
    writer.close().expect("closes");
    let mut writer = open();
    append(&mut writer, &history[1]).expect("appends");
    writer.begin(&commit(90)).expect("begins");
    (0..3).for_each(|number| writer.append(&insert(&lost, number)).expect("appends"));
    writer.sync().expect("syncs");
    drop(writer);
    let mut writer = open();
    append(&mut writer, &history[2]).expect("appends");
    writer.begin(&commit(91)).expect("begins");
    (0..3).for_each(|number| writer.append(&insert(&lost, number)).expect("appends"));
    writer.abandon().expect("abandons");
    append(&mut writer, &history[3]).expect("appends");
    writer.close().expect("closes");
}

/// The folder of a fixture; lets `make` make it when asked to, if it is not there.
fn fixture(name: &str, make: impl Fn(Arc<dyn Storage>)) -> Directory {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name);
    if !folder.exists() && env::var_os("DROVER_BLESS").is_some() {
        // Made in memory, so that no file names the place where it was made.
        let storage = Forgetful::new(1);
        make(Arc::new(storage.clone()));
        fs::create_dir_all(&folder).expect("makes a directory");
        for name in storage.list().expect("lists").into_iter().filter(|name| !name.ends_with(".lock")) {
            fs::write(folder.join(&name), storage.read_whole(&name).expect("reads")).expect("writes");
        }
    }
    Directory::new(folder)
}

/// A trail of the history in a format: as it was written then, and continued by a writer of today.
fn check(name: &str, format: Format, altered: &str) {
    check_covered(name, format, &Cover::default(), altered);
}

/// The same, with something over its data; its continuation is plain.
fn check_covered(name: &str, format: Format, cover: &Cover, altered: &str) {
    let written = history(altered);
    let open = |storage: &Arc<dyn Storage>| {
        let options = WriterOptions { format, cover: cover.clone(), ..options(10_000) };
        Writer::open(Arc::clone(storage), options).expect("opens")
    };
    let storage = fixture(name, |storage| write(&written, || open(&storage)));
    let given = [table("narrow", 1), table("wide", 4), table(altered, 2), table("lost", 2), table("t", 3)];
    let read = |storage: &Directory| {
        let storage = Arc::new(storage.clone());
        let mut reader =
            Reader::open_with(storage, trail_name(), Start::Beginning, &given, Some(keys())).expect("opens");
        let mut assembler = Assembler::default();
        for entry in read_entries(&mut reader).expect("reads") {
            assembler.add(entry.record);
        }
        (assembler.complete, assembler.abends)
    };
    assert_eq!(read(&storage), (written.clone(), 2));

    let copy = tempfile::tempdir().expect("makes a directory");
    for name in storage.list().expect("lists") {
        fs::write(copy.path().join(&name), storage.read_whole(&name).expect("reads")).expect("copies");
    }
    let storage = Directory::new(copy.path());
    let mut expected = written;
    let mut writer = Writer::open(Arc::new(storage.clone()), world::options(10_000)).expect("opens");
    assert_eq!(writer.last_commit(), Some(&expected[3].commit));
    expected.push(world::transaction(&table("t", 3), 5, 2));
    append(&mut writer, &expected[4]).expect("appends");
    writer.close().expect("closes");
    assert_eq!(read(&storage), (expected, 2));
}

/// The master key that encrypted fixtures were written under, for ever.
fn keys() -> Arc<dyn MasterKeys> {
    Keys::of(7, 1)
}

/// Form 1: the first one, level 8, little-endian, table definitions, unified updates.
#[test]
fn a_trail_of_form_1_is_read_and_continued() {
    check("form-1", Format::default(), "narrow");
}

#[test]
fn a_trail_of_form_2_is_read_and_continued() {
    check("form-2", Format::default(), "narrow");
}

#[test]
fn a_trail_with_updates_in_two_records_is_read_and_continued() {
    check("form-2-separate", Format { updates: Some(UpdateImages::Separate), ..Format::default() }, "narrow");
}

#[test]
fn a_big_endian_trail_of_release_12_2_is_read_and_continued() {
    let format = Format { level: Some(5), order: Some(Order::Big), ..Format::default() };
    check("form-2-level-5", format, "narrow");
}

#[test]
fn a_trail_of_release_12_1_is_read_and_continued() {
    check("form-2-level-4", Format { level: Some(4), ..Format::default() }, "other");
}

#[test]
fn a_trail_of_release_11_2_is_read_and_continued() {
    check("form-2-level-3", Format { level: Some(3), ..Format::default() }, "other");
}

#[test]
fn a_trail_without_definitions_is_read_and_continued() {
    check("form-2-no-definitions", Format { has_definitions: Some(false), ..Format::default() }, "other");
}

/// Form 3: data compressed or encrypted.
#[test]
fn a_compressed_trail_is_read_and_continued() {
    check_covered("form-3-compressed", Format::default(), &Cover { encryption: None, is_compressed: true }, "narrow");
}

#[test]
fn an_encrypted_trail_is_read_and_continued() {
    let encryption = Some((Algorithm::Aes256, keys()));
    check_covered("form-3-encrypted", Format::default(), &Cover { encryption, is_compressed: false }, "narrow");
}

#[test]
fn a_trail_that_is_compressed_and_encrypted_is_read_and_continued() {
    let encryption = Some((Algorithm::Aes128, keys()));
    let format = Format { updates: Some(UpdateImages::Separate), order: Some(Order::Big), ..Format::default() };
    check_covered("form-3-both", format, &Cover { encryption, is_compressed: true }, "narrow");
}

/// Form 4: encrypted, and each record authenticated with its place in its transaction.
#[test]
fn an_encrypted_trail_with_authenticated_places_is_read_and_continued() {
    let encryption = Some((Algorithm::Aes256, keys()));
    check_covered("form-4-encrypted", Format::default(), &Cover { encryption, is_compressed: false }, "narrow");
}

#[test]
fn an_encrypted_compressed_big_endian_trail_with_authenticated_places_is_read_and_continued() {
    let encryption = Some((Algorithm::Aes192, keys()));
    let format = Format { updates: Some(UpdateImages::Separate), order: Some(Order::Big), ..Format::default() };
    check_covered("form-4-both", format, &Cover { encryption, is_compressed: true }, "narrow");
}

/// Everything that is no plain change of a row.
#[test]
fn records_of_all_other_kinds_are_read() {
    let table = table("t1", 2);
    let statement = DefinitionStatement {
        owner: "main".to_owned(),
        object: "t1".to_owned(),
        object_type: "TABLE".to_owned(),
        verb: "ALTER".to_owned(),
        user: "dba".to_owned(),
        text: "alter table t1 alter c1 set default 'it''s'".to_owned(),
        ..DefinitionStatement::default()
    };
    let name = TableName::new("main", "number");
    let sequence = SequenceState { name, value: -7, increment: 3, is_called: false };
    let details = ChangeDetails {
        partition: Some(Arc::new(PartitionName { name: "P1".to_owned(), id: 75_234, flags: 1 })),
        user_tokens: vec![UserToken { name: "TKN-HOST".to_owned(), value: "syshq".to_owned() }],
        is_fetched: true,
    };
    let storage = fixture("form-2-kinds", |storage| {
        let mut writer = Writer::open(storage, options(1 << 20)).expect("opens");
        writer.comment("a remark").expect("remarks");
        writer.begin(&commit(1)).expect("begins");
        writer.append_statement(&statement).expect("appends");
        writer.append_sequence(&sequence).expect("appends");
        writer.append_with(&insert(&table, 1), Some(&details)).expect("appends");
        writer.append(&insert(&world::table("t2", 2), 2)).expect("appends");
        writer.commit().expect("commits");
        writer.close().expect("closes");
    });
    let mut reader = Reader::open(Arc::new(storage), trail_name(), Start::Beginning).expect("opens");
    let records: Vec<Record> =
        read_entries(&mut reader).expect("reads").into_iter().map(|entry| entry.record).collect();
    let (first, middle, last) = (TransactionPlace::First, TransactionPlace::Middle, TransactionPlace::Last);
    let expected = [
        Record::Other { operation: 170 },
        Record::Comment("a remark".to_owned()),
        Record::Statement { place: first, commit: commit(1), statement: Box::new(statement) },
        Record::Sequence { place: middle, commit: commit(1), sequence: Box::new(sequence) },
        Record::Definition(Arc::clone(&table)),
        Record::Partition(details.partition.clone().expect("one")),
        Record::Change {
            place: middle,
            commit: commit(1),
            change: insert(&table, 1),
            details: Some(Box::new(details)),
        },
        Record::Definition(world::table("t2", 2)),
        Record::Change { place: last, commit: commit(1), change: insert(&world::table("t2", 2), 2), details: None },
    ];
    assert_eq!(records[1..], expected);
}
