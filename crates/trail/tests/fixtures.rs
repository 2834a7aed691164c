//! Trails of every form that this product ever wrote, kept as files: each is read for ever.
//!
//! A folder of `fixtures` holds one trail. It is written once, by the version that introduced its form, with
//! `DROVER_BLESS=1`; a folder that exists is never written again.

mod world;

use change::{Operation, Row, Value};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{env, fs};
use trail::storage::{Directory, Forgetful, Storage};
use trail::{Start, Writer};
use world::{Assembler, Transaction, append, change, commit, insert, open_reader, options, read_entries, row, table};

fn place(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

/// What every fixture holds: all operations, NULL and unchanged values, a value that fits no record, two tables, and a
/// table that is altered.
fn history() -> Vec<Transaction> {
    let (narrow, wide) = (table("narrow", 1), table("wide", 4));
    let altered = table("narrow", 2);
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
fn write(storage: Arc<dyn Storage>, open: impl Fn(Arc<dyn Storage>) -> Writer) {
    let history = history();
    let lost = table("lost", 2);
    let mut writer = open(Arc::clone(&storage));
    append(&mut writer, &history[0]).expect("appends");
    writer.close().expect("closes");
    let mut writer = open(Arc::clone(&storage));
    append(&mut writer, &history[1]).expect("appends");
    writer.begin(&commit(90)).expect("begins");
    (0..3).for_each(|number| writer.append(&insert(&lost, number)).expect("appends"));
    writer.sync().expect("syncs");
    drop(writer);
    let mut writer = open(storage);
    append(&mut writer, &history[2]).expect("appends");
    writer.begin(&commit(91)).expect("begins");
    (0..3).for_each(|number| writer.append(&insert(&lost, number)).expect("appends"));
    writer.abandon().expect("abandons");
    append(&mut writer, &history[3]).expect("appends");
    writer.close().expect("closes");
}

/// The folder of a fixture; makes it when asked to, if it is not there.
fn fixture(name: &str, open: impl Fn(Arc<dyn Storage>) -> Writer) -> PathBuf {
    let folder = place(name);
    if !folder.exists() && env::var_os("DROVER_BLESS").is_some() {
        fs::create_dir_all(&folder).expect("makes a directory");
        // Made in memory, so that no file names the place where it was made.
        let storage = Forgetful::new(1);
        write(Arc::new(storage.clone()), open);
        for name in storage.list().expect("lists").into_iter().filter(|name| !name.ends_with(".lock")) {
            fs::write(folder.join(&name), storage.read_whole(&name).expect("reads")).expect("writes");
        }
    }
    folder
}

fn check(folder: &Path) {
    let storage = Directory::new(folder);
    let mut reader = open_reader(&storage, Start::Beginning).expect("opens");
    let mut assembler = Assembler::default();
    for entry in read_entries(&mut reader).expect("reads") {
        assembler.add(entry.record);
    }
    assert_eq!((assembler.complete, assembler.abends), (history(), 2));
}

/// A writer of today goes on behind files of the past.
fn check_appending(folder: &Path) {
    let copy = tempfile::tempdir().expect("makes a directory");
    for entry in fs::read_dir(folder).expect("lists") {
        let entry = entry.expect("lists");
        fs::copy(entry.path(), copy.path().join(entry.file_name())).expect("copies");
    }
    let storage = Directory::new(copy.path());
    let mut expected = history();
    let mut writer = Writer::open(Arc::new(storage.clone()), options(10_000)).expect("opens");
    assert_eq!(writer.last_commit(), Some(&expected[3].commit));
    expected.push(world::transaction(&table("t", 3), 5, 2));
    append(&mut writer, &expected[4]).expect("appends");
    writer.close().expect("closes");
    assert_eq!(world::read_transactions(&storage).expect("reads"), expected);
}

/// Form 1: the first one, level 8, little-endian, table definitions, unified updates.
#[test]
fn a_trail_of_form_1_is_read_and_continued() {
    let today = |storage| Writer::open(storage, options(10_000)).expect("opens");
    let folder = fixture("form-1", today);
    check(&folder);
    check_appending(&folder);
}
