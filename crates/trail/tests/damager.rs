//! A seeded damager over whole trails: torn, holed, zeroed, flipped, truncated, swapped and lost files are found, named by file
//! and byte, and never read as rows that were not written.

mod world;

use change::{Operation, Row, Value};
use std::collections::BTreeMap;
use std::sync::Arc;
use trail::format::bytes::Order;
use trail::format::header::read_file_start;
use trail::format::record;
use trail::storage::{Forgetful, Storage};
use trail::{Error, Format, Reader, Start, UpdateImages, Writer, WriterOptions};
use world::{Assembler, Transaction, append, change, commit, options, table, trail_name, transaction};

const PAGE: usize = 4096;

/// A whole trail and what is known of it.
struct Model {
    written: Vec<Transaction>,
    files: BTreeMap<String, Vec<u8>>,
    /// Starts of the records of each file.
    starts: BTreeMap<String, Vec<usize>>,
    format: Format,
}

/// A few dozen transactions over several files, with rows in parts, keys that change, and a restart.
fn model(format: Format, is_closed: bool) -> Model {
    let storage = Forgetful::new(1);
    let (first, second) = (table("t", 3), table("u", 3));
    let long = Value::Bytes(&[b'x'; 70_000]);
    let image = |values: [Value<'_>; 3]| Row::from_values(values);
    let mut written: Vec<Transaction> = (1..=40).map(|number| transaction(&first, number, number % 4 + 1)).collect();
    for number in [7, 20, 33] {
        let old = image([Value::Bytes(b"a"), Value::Bytes(b"b"), Value::Null]);
        let new = image([Value::Bytes(b"c"), long, Value::Unchanged]);
        written[number].changes.push(change(&second, 1, Operation::Update { old: Some(old.clone()), new }));
        written[number].changes.push(change(&second, 2, Operation::Delete { old }));
    }
    let open = || {
        let options = WriterOptions { format, ..options(12_000) };
        Writer::open(Arc::new(storage.clone()), options).expect("opens")
    };
    let mut writer = open();
    for (number, transaction) in written.iter().enumerate() {
        if number == 15 {
            writer.close().expect("closes");
            writer = open();
        }
        append(&mut writer, transaction).expect("appends");
    }
    writer.sync().expect("syncs");
    if is_closed {
        writer.close().expect("closes");
    }
    let mut names = storage.list().expect("lists");
    names.retain(|name| !name.ends_with(".lock"));
    let files: BTreeMap<String, Vec<u8>> =
        names.into_iter().map(|name| (name.clone(), storage.read_whole(&name).expect("reads"))).collect();
    let starts = files.iter().filter(|(name, _)| !name.ends_with(".safe"));
    let starts = starts.map(|(name, bytes)| (name.clone(), record_starts(bytes))).collect();
    Model { written, files, starts, format }
}

fn record_starts(bytes: &[u8]) -> Vec<usize> {
    let (_, order, _) = read_file_start(bytes).expect("starts with a header");
    let mut starts = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        starts.push(at);
        at += record::frame(&bytes[at..], order).expect("is whole").len();
    }
    starts
}

/// Does something to the files; returns what, for messages.
fn damage(model: &Model, files: &mut BTreeMap<String, Vec<u8>>, random: &mut fastrand::Rng) -> String {
    let names: Vec<&String> = model.starts.keys().collect();
    let name = names[random.usize(..names.len())].clone();
    let other = names[random.usize(..names.len())].clone();
    let length = files[&name].len();
    let place = random.usize(..length);
    let bytes = files.get_mut(&name).expect("is there");
    match random.u8(..8) {
        0 | 1 => {
            bytes[place] ^= 1 << random.u8(..8);
            format!("a bit of byte {place} of {name}")
        }
        2 => {
            let page = place / PAGE * PAGE;
            let end = (page + PAGE).min(length);
            bytes[page..end].fill(0);
            format!("the page at {page} of {name} is zeros")
        }
        3 => {
            bytes[place..].fill(0);
            format!("zeros from {place} of {name} on")
        }
        4 => {
            bytes.truncate(place);
            format!("{name} is cut to {place} bytes")
        }
        5 => {
            let count = random.usize(1..300).min(length - place);
            bytes.drain(place..place + count);
            format!("{count} bytes are missing at {place} of {name}")
        }
        6 => {
            let (one, two) = (files[&name].clone(), files[&other].clone());
            files.insert(name.clone(), two);
            files.insert(other.clone(), one);
            format!("{name} and {other} are swapped")
        }
        _ => {
            files.remove(&name);
            format!("{name} is gone")
        }
    }
}

fn put(files: &BTreeMap<String, Vec<u8>>) -> Forgetful {
    let storage = Forgetful::new(2);
    for (name, bytes) in files {
        storage.create(name).expect("creates").write_at(bytes, 0).expect("writes");
    }
    storage
}

/// The transactions that can be read, and why there are no more.
fn read(storage: &Forgetful) -> (Vec<Transaction>, Option<Error>) {
    let given = [table("t", 3), table("u", 3)];
    let mut assembler = Assembler::default();
    let opened = Reader::open_with(Arc::new(storage.clone()), trail_name(), Start::Beginning, &given, None);
    let mut reader = match opened {
        Ok(reader) => reader,
        Err(error) => return (Vec::new(), Some(error)),
    };
    loop {
        match reader.next() {
            Ok(Some(entry)) => assembler.add(entry.record),
            Ok(None) => return (assembler.complete, None),
            Err(error) => return (assembler.complete, Some(error)),
        }
    }
}

/// Where the first byte that is not as it was stands: file and start of its record.
fn first_difference(model: &Model, files: &BTreeMap<String, Vec<u8>>) -> Option<(String, usize)> {
    for (name, starts) in &model.starts {
        let was = &model.files[name];
        let Some(is) = files.get(name) else { return Some((name.clone(), 0)) };
        let same = was.iter().zip(is).take_while(|(was, is)| was == is).count();
        if same < was.len() || same < is.len() {
            return Some((name.clone(), *starts.iter().rev().find(|start| **start <= same).expect("a header")));
        }
    }
    None
}

fn check(model: &Model, seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut files = model.files.clone();
    let mut done = Vec::new();
    for _ in 0..random.u8(1..3) {
        // Most kinds of damage need what the earlier ones may have taken away.
        if model.starts.keys().all(|name| files.get(name).is_some_and(|bytes| bytes == &model.files[name])) {
            done.push(damage(model, &mut files, &mut random));
        }
    }
    let done = format!("seed {seed}: {}", done.join("; "));
    let difference = first_difference(model, &files);
    let storage = put(&files);
    let (complete, error) = read(&storage);
    assert!(model.written.starts_with(&complete), "{done}: {} transactions, not the first ones", complete.len());
    match (&error, difference) {
        (None, _) => assert_eq!(complete.len(), model.written.len(), "{done}: fewer transactions without an error"),
        (Some(error), None) => panic!("{done}: nothing is wrong, but {error}"),
        (Some(Error::Damaged { file, rba, .. }), Some((expected, start))) => {
            // Nothing before the first difference is called damaged. What comes instead of it may be read as something else
            // for a while: the header of the next file, say, or a record that has slipped in.
            let (found, first) = ((file.as_str(), *rba), (expected.as_str(), start as u64));
            assert!(found >= first || *rba == 0 && *file == expected, "{done}: {error:?} before {first:?}");
        }
        (Some(Error::Missing { file }), Some((expected, _))) => assert!(*file >= expected, "{done}: {error:?}"),
        (Some(Error::Mismatch { .. } | Error::Foreign { .. } | Error::Undefined { .. }), Some(_)) => {}
        (Some(error), Some(_)) => panic!("{done}: {error:?}"),
    }
    // A writer may refuse. If it goes on, nothing that was written has changed, and readers still see no wrong row.
    let options = WriterOptions { format: model.format, ..options(12_000) };
    if let Ok(mut writer) = Writer::open(Arc::new(storage.clone()), options) {
        let next = Transaction { commit: commit(1_000), changes: transaction(&table("t", 3), 1_000, 2).changes };
        append(&mut writer, &next).expect("appends");
        writer.close().expect("closes");
        let (complete, error) = read(&storage);
        let mut expected = model.written.clone();
        expected.push(next);
        assert!(expected.starts_with(&complete), "{done}: after a writer {} transactions", complete.len());
        assert!(error.is_some() || complete == expected, "{done}: after a writer transactions are missing");
    }
}

#[test]
fn damage_anywhere_is_found_and_never_applied() {
    let plain = Format::default();
    let formats = [
        plain,
        Format { updates: Some(UpdateImages::Separate), order: Some(Order::Big), ..plain },
        Format { level: Some(4), ..plain },
    ];
    for (number, format) in (0..).zip(formats) {
        for is_closed in [true, false] {
            let model = model(format, is_closed);
            assert!(model.starts.len() > 4, "several files");
            let (complete, error) = read(&put(&model.files));
            assert!(complete == model.written && error.is_none(), "whole before it is damaged");
            for seed in 0..250 {
                check(&model, number * 10_000 + u64::from(is_closed) * 1_000 + seed);
            }
        }
    }
}
