//! Encrypted and compressed trails: what is read is what was written, nothing stands in clear, and no step may be wrong.

mod world;

use change::{Operation, Value};
use std::sync::Arc;
use trail::cipher::{Algorithm, KeyError};
use trail::format::bytes::Order;
use trail::format::record;
use trail::storage::{Forgetful, Storage};
use trail::{Cover, Damage, Error, Reader, Record, Start, Writer, WriterOptions};
use world::{Assembler, Keys, Transaction, append, change, read_entries, row, table, trail_name, transaction};

const FILE_BYTES_MAX: u64 = 40_000;

fn covers() -> Vec<(&'static str, Cover)> {
    let encryption = |algorithm| Some((algorithm, Keys::of(7, 1)));
    vec![
        ("AES128", Cover { encryption: encryption(Algorithm::Aes128), is_compressed: false }),
        ("AES192", Cover { encryption: encryption(Algorithm::Aes192), is_compressed: true }),
        ("AES256", Cover { encryption: encryption(Algorithm::Aes256), is_compressed: false }),
        ("AES256 and zstd", Cover { encryption: encryption(Algorithm::Aes256), is_compressed: true }),
        ("zstd", Cover { encryption: None, is_compressed: true }),
    ]
}

fn open(storage: &Forgetful, cover: &Cover) -> Result<Writer, Error> {
    Writer::open(Arc::new(storage.clone()), WriterOptions { cover: cover.clone(), ..world::options(FILE_BYTES_MAX) })
}

fn reader(storage: &Forgetful, start: Start, secret: u8) -> Result<Reader, Error> {
    Reader::open_with(Arc::new(storage.clone()), trail_name(), start, &[], Some(Keys::of(secret, 1)))
}

/// Rows of all sizes, one of them in parts, with a value that is easy to find, compressible and not.
fn history() -> Vec<Transaction> {
    let tables = [table("a", 3), table("b", 3)];
    let noise: String =
        (0..90_000u32).map(|n| char::from(33 + (n.wrapping_mul(2_654_435_761) >> 24) as u8 % 90)).collect();
    let mut history: Vec<Transaction> =
        (0..12).map(|number| transaction(&tables[number as usize % 2], number, number % 5 + 1)).collect();
    for (number, value) in
        [(3, "KNOWNVALUE".repeat(30)), (5, "KNOWNVALUE".repeat(20_000)), (7, noise), (9, "KNOWNVALUE".into())]
    {
        let new = row(&["k", &value, ""]);
        history[number].changes.push(change(&tables[0], number as u64, Operation::Insert { new }));
    }
    let (old, new) = (row(&["k", "KNOWNVALUE", "x"]), row(&["k", "y", "x"]));
    let update = Operation::Update { old: Some(old), new };
    history[2].changes.push(change(&tables[0], 2, update));
    history
}

fn whole_file(storage: &Forgetful, sequence: u32) -> Vec<u8> {
    storage.read_whole(&trail_name().file(sequence)).expect("the file is there")
}

fn files(storage: &Forgetful) -> Vec<Vec<u8>> {
    let names = storage.list().expect("is listed");
    let count = names.iter().filter(|name| trail_name().sequence_of(name).is_some()).count() as u32;
    (0..count).map(|sequence| whole_file(storage, sequence)).collect()
}

fn holds(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

fn write(storage: &Forgetful, cover: &Cover, history: &[Transaction]) {
    let mut writer = open(storage, cover).expect("opens");
    history.iter().for_each(|transaction| _ = append(&mut writer, transaction).expect("appends"));
    writer.close().expect("closes");
}

#[test]
fn what_is_read_is_what_was_written_and_no_value_stands_in_clear() {
    let history = history();
    let mut lengths = Vec::new();
    for (name, cover) in covers() {
        let storage = Forgetful::new(1);
        write(&storage, &cover, &history);
        let mut reader = reader(&storage, Start::Beginning, 7).expect("opens");
        let mut assembler = Assembler::default();
        read_entries(&mut reader).expect("reads").into_iter().for_each(|entry| assembler.add(entry.record));
        assert!(assembler.complete == history, "{name}");
        let files = files(&storage);
        lengths.push((name, files.iter().map(Vec::len).sum::<usize>()));
        if cover.encryption.is_some() {
            for (sequence, bytes) in files.iter().enumerate() {
                for text in ["KNOWNVALUE", "KNOWN", "TEXT", "4001/1"] {
                    assert!(!holds(bytes, text), "{name}: {text} in file {sequence}");
                }
            }
        }
    }
    let length = |wanted: &str| lengths.iter().find(|(name, _)| *name == wanted).expect("was written").1;
    assert!(length("AES256 and zstd") + 150_000 < length("AES256"), "{lengths:?}");
}

#[test]
fn without_the_right_key_the_file_the_key_and_its_version_are_named() {
    let storage = Forgetful::new(2);
    let (_, cover) = covers().remove(2);
    write(&storage, &cover, &history());
    for (keys, expected) in
        [(None, KeyError::NoKeys), (Some(Keys::of(8, 1)), KeyError::Wrong), (Some(Keys::of(7, 2)), KeyError::Missing)]
    {
        let mut reader =
            Reader::open_with(Arc::new(storage.clone()), trail_name(), Start::Beginning, &[], keys).expect("opens");
        let first = reader.next().expect("the header is in clear").expect("is there");
        assert!(matches!(first.record, Record::Header(_)));
        let error = read_entries(&mut reader).expect_err("can't be decrypted");
        assert_eq!(error.to_string(), "could not open the encryption of aa000000000 with master key KEY version 1");
        assert!(matches!(&error, Error::Key { source, .. } if *source == expected), "{error:?}");
    }
}

#[test]
fn positions_and_recovery_need_no_key() {
    let storage = Forgetful::new(3);
    let (_, cover) = covers().remove(3);
    let history = history();
    let mut writer = open(&storage, &cover).expect("opens");
    for transaction in &history[..6] {
        append(&mut writer, transaction).expect("appends");
    }
    writer.sync().expect("syncs");
    storage.crash();
    // Plain from here on: the writer that repairs knows no key.
    let plain = Cover::default();
    let mut writer = open(&storage, &plain).expect("repairs");
    assert_eq!(writer.last_commit(), Some(&history[5].commit));
    append(&mut writer, &history[6]).expect("appends");
    writer.close().expect("closes");
    let mut reader = reader(&storage, Start::Beginning, 7).expect("opens");
    let mut assembler = Assembler::default();
    read_entries(&mut reader).expect("reads").into_iter().for_each(|entry| assembler.add(entry.record));
    assert!(assembler.complete == history[..7]);
}

/// Places and lengths of a file's records.
fn records(bytes: &[u8]) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let length = record::frame(&bytes[at..], Order::Little).expect("a record").len();
        found.push((at, length));
        at += length;
    }
    found
}

/// The records of a file.
fn records_of(bytes: &[u8]) -> Vec<&[u8]> {
    records(bytes).into_iter().map(|(at, length)| &bytes[at..at + length]).collect()
}

/// Gives a record the checksum that fits its bytes.
fn reseal(record: &mut [u8]) {
    let at = record.len() - 8;
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&record[..at]);
    hasher.update(&record[at + 4..]);
    record[at..at + 4].copy_from_slice(&hasher.finalize().to_le_bytes());
}

#[test]
fn a_record_that_somebody_changed_is_refused_even_when_its_checksum_fits() {
    let storage = Forgetful::new(4);
    let (_, cover) = covers().remove(2);
    let table = table("a", 3);
    let history: Vec<Transaction> = (10..14).map(|number| transaction(&table, number, 2)).collect();
    write(&storage, &cover, &history);
    let bytes = whole_file(&storage, 0);
    let records = records(&bytes);
    let (at, length) = records[4];
    let file = storage.open(&trail_name().file(0)).expect("opens");
    let tried = |changed: &[u8]| {
        file.write_at(changed, 0).expect("writes");
        let mut reader = reader(&storage, Start::Beginning, 7).expect("opens");
        read_entries(&mut reader).map(|entries| entries.len())
    };
    let whole = tried(&bytes).expect("reads");
    assert_eq!(whole, records.len());
    // Offsets in the record: operation, time, position, place in the transaction, index, first and last byte of the data,
    // transaction number, tag of the place.
    for offset in [14, 16, 24, 36, 43, 48, 60, length - 46, length - 20] {
        let mut changed = bytes.clone();
        changed[at + offset] ^= 1;
        reseal(&mut changed[at..at + length]);
        let error = tried(&changed).expect_err(&format!("byte {offset} was changed"));
        let expected = Damage::Content("the record is not what was encrypted");
        assert!(matches!(&error, Error::Damaged { source, .. } if *source == expected), "byte {offset}: {error:?}");
    }
    // Records that nobody has authenticated: a truncation made of a change, a marker that was never written.
    let without = |record: &[u8]| {
        let mut changed = record.to_vec();
        changed[14] = 151;
        changed
    };
    let mut marked = bytes.clone();
    marked[at..at + length].copy_from_slice(&without(&bytes[at..at + length]));
    reseal(&mut marked[at..at + length]);
    assert!(tried(&marked).is_err(), "a marker in the place of a change");
    // A marker as a plain file has it, put behind a transaction.
    let plain = {
        let storage = Forgetful::new(9);
        write(&storage, &Cover::default(), &history[..1]);
        write(&storage, &Cover::default(), &[]);
        storage
    };
    let names = plain.list().expect("lists");
    let last = names.iter().rfind(|name| trail_name().sequence_of(name).is_some()).expect("a file");
    let other = plain.read_whole(last).expect("reads");
    let marker = records_of(&other).into_iter().find(|record| record[14] == 151).expect("a marker").to_vec();
    let mut inserted = bytes.clone();
    let behind = records[4].0 + records[4].1;
    inserted.splice(behind..behind, marker.iter().copied());
    // What is published ends where it did, so the end of the file is cut from sight.
    let error = tried(&inserted).expect_err("nobody wrote this marker");
    assert!(error.to_string().contains("damaged"), "{error}");
    // Two records of equal length change places, and one comes twice.
    let (other, other_length) = records[6];
    assert_eq!(length, other_length);
    let mut swapped = bytes.clone();
    swapped[at..at + length].copy_from_slice(&bytes[other..other + length]);
    swapped[other..other + length].copy_from_slice(&bytes[at..at + length]);
    assert!(tried(&swapped).is_err());
}

#[test]
fn no_number_is_used_twice_in_a_file_whatever_failed_in_between() {
    let (_, cover) = covers().remove(3);
    let history = history();
    for room in (2_000..160_000).step_by(3_011) {
        let storage = Forgetful::new(room);
        let mut writer = open(&storage, &cover).expect("opens");
        storage.full_after(Some(room));
        for transaction in &history {
            writer.begin(&transaction.commit).expect("begins");
            let mut appended = true;
            for change in &transaction.changes {
                while let Err(error) = writer.append(change) {
                    assert!(matches!(error, Error::Full { .. }), "{error:?}");
                    storage.full_after(None);
                    appended = false;
                    if room % 2 == 0 {
                        break;
                    }
                }
            }
            if appended || room % 2 == 1 {
                writer.commit().expect("commits");
            } else {
                // What was refused is given up, and something else comes to stand in its place.
                writer.abandon().expect("is given up");
            }
        }
        storage.full_after(None);
        writer.close().expect("closes");
        let mut reader = reader(&storage, Start::Beginning, 7).expect("opens");
        let entries = read_entries(&mut reader).expect("numbers ascend, and every record opens");
        assert!(entries.iter().any(|entry| matches!(&entry.record, Record::Change { change, .. }
            if matches!(&change.operation, Operation::Insert { new } if matches!(new.value(0), Value::Bytes(_))))));
    }
}
