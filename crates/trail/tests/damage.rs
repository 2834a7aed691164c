//! Files that are not what was written: an error that names file, byte, cause and next step, and never a wrong row.

mod world;

use proptest::prelude::*;
use std::error::Error as _;
use std::sync::Arc;
use trail::storage::{Forgetful, Storage};
use trail::{Error, FileReader, Start};
use world::{
    Transaction, append, change, open_reader, open_writer, read_entries, read_transactions, row, table, transaction,
};

const FILE: &str = "aa000000000";

fn sample() -> Vec<Transaction> {
    let table = table("t", 3);
    let mut transactions: Vec<_> = (1..=6).map(|number| transaction(&table, number, number % 3 + 1)).collect();
    let new = row(&["key", &"x".repeat(70_000), "v"]);
    transactions[4].changes.push(change(&table, 5, change::Operation::Insert { new }));
    transactions
}

/// A trail of one file, closed cleanly or left as after a kill.
fn written(is_closed: bool) -> Forgetful {
    let storage = Forgetful::new(1);
    let mut writer = open_writer(&storage, 1 << 20).expect("opens");
    for transaction in sample() {
        append(&mut writer, &transaction).expect("appends");
    }
    writer.sync().expect("syncs");
    if is_closed {
        writer.close().expect("closes");
    }
    storage
}

fn overwrite(storage: &Forgetful, bytes: &[u8]) {
    let file = storage.open(FILE).expect("opens");
    file.set_len(0).expect("empties");
    file.write_at(bytes, 0).expect("writes");
}

/// Reads, opens for writing, and reads the file by itself; every answer but a panic or a wrong row is fine.
fn survive(storage: &Forgetful) -> Result<(), TestCaseError> {
    let sample = sample();
    let mut read = Vec::new();
    let mut assembler = world::Assembler::default();
    if let Ok(mut reader) = open_reader(storage, Start::Beginning) {
        while let Ok(Some(entry)) = reader.next() {
            assembler.add(entry.record);
        }
        read.append(&mut assembler.complete);
    }
    prop_assert!(sample.starts_with(&read), "read {} transactions, not the first ones", read.len());
    let whole = read.len() == sample.len();
    if let Ok(mut file) = FileReader::open(Arc::new(storage.clone()), FILE, None, &[], None) {
        while let Ok(Some(_)) = file.next() {}
    }
    match open_writer(storage, 1 << 20) {
        Ok(writer) => {
            prop_assert!(whole, "a writer went on after {:?}, although more was synced", writer.last_commit())
        }
        Err(error) => prop_assert!(!error.next_step().is_empty() && !error.to_string().is_empty()),
    }
    Ok(())
}

#[test]
fn a_flipped_bit_anywhere_never_makes_a_wrong_row() {
    for is_closed in [true, false] {
        let storage = written(is_closed);
        let bytes = storage.read_whole(FILE).expect("reads");
        // Of the long row only some bytes, they are all alike.
        for place in (0..bytes.len()).filter(|place| *place < 3_500 || place % 997 == 0 || *place > 71_500) {
            let mut flipped = bytes.clone();
            flipped[place] ^= 1 << (place % 8);
            let storage = written(is_closed);
            overwrite(&storage, &flipped);
            survive(&storage).unwrap_or_else(|error| panic!("byte {place}: {error}"));
        }
    }
}

#[test]
fn a_file_cut_anywhere_is_told_by_reader_and_writer() {
    let bytes = written(true).read_whole(FILE).expect("reads");
    for length in (0..bytes.len()).filter(|length| *length < 3_500 || length % 997 == 0 || *length > 71_500) {
        let storage = written(true);
        overwrite(&storage, &bytes[..length]);
        let read = read_transactions(&storage);
        let error = read.expect_err("the file is shorter than what is published");
        assert!(matches!(error, Error::Damaged { .. }), "length {length}: {error}");
        let error = open_writer(&storage, 1 << 20).err().expect("more was synced once");
        assert!(matches!(error, Error::Damaged { .. } | Error::Mismatch { .. }), "length {length}: {error}");
    }
}

#[test]
fn damage_is_told_with_file_byte_cause_and_next_step() {
    let storage = written(true);
    let mut reader = open_reader(&storage, Start::Beginning).expect("opens");
    let entries = read_entries(&mut reader).expect("reads");
    let victim = &entries[5];
    storage.open(FILE).expect("opens").write_at(&[0xFF], victim.position.rba + 60).expect("damages");
    let error = read_transactions(&storage).expect_err("is damaged");
    let Error::Damaged { file, rba, .. } = &error else { panic!("{error}") };
    assert_eq!((file.as_str(), *rba), (FILE, victim.position.rba));
    let cause = error.source().expect("has a cause").to_string();
    assert!(cause.contains("checksum"), "{cause}");
    assert!(error.next_step().contains("restore"));

    // A file by itself is read up to there.
    let mut file = FileReader::open(Arc::new(storage.clone()), FILE, None, &[], None).expect("opens");
    let mut read = 0;
    let error = loop {
        match file.next() {
            Ok(Some(_)) => read += 1,
            Ok(None) => panic!("it is damaged"),
            Err(error) => break error,
        }
    };
    assert!(matches!(&error, Error::Damaged { rba, .. } if *rba == victim.position.rba), "{error}");
    assert_eq!(read, 5);
}

#[test]
fn another_products_file_is_refused() {
    let storage = written(true);
    // A header as published articles show it, with the tokens that a reader needs at least.
    let mut header =
        b"\x46\x00\x00\x00\x30\x00\x00\x12\x30\x00\x00\x08GG\r\nTL\n\r\x31\x00\x00\x02\x00\x06\x5a\x00\x00\x00"
            .to_vec();
    let length = header.len();
    (header[3], header[length - 1]) = (length as u8, length as u8);
    overwrite(&storage, &header);
    assert!(matches!(read_transactions(&storage), Err(Error::Foreign { .. })));
    assert!(matches!(open_writer(&storage, 1 << 20), Err(Error::Foreign { .. })));
    survive(&storage).expect("is survived");
}

#[test]
fn a_file_with_another_files_content_is_refused() {
    let storage = Forgetful::new(1);
    for number in 1..=3 {
        let mut writer = open_writer(&storage, 1 << 20).expect("opens");
        append(&mut writer, &transaction(&table("t", 3), number, 1)).expect("appends");
        writer.close().expect("closes");
    }
    storage.rename("aa000000002", "aa000000001").expect("renames");
    assert!(matches!(read_transactions(&storage), Err(Error::Damaged { file, .. }) if file == "aa000000001"));
}

#[test]
fn a_file_of_another_trail_with_the_same_number_is_refused() {
    let storage = Forgetful::new(1);
    for (trail, first) in [("aa", 1), ("ab", 100)] {
        for number in first..first + 3 {
            let options = trail::WriterOptions {
                trail: trail::TrailName::parse(trail).expect("a name"),
                display_name: format!("./dirdat/{trail}"),
                ..world::options(1 << 20)
            };
            let mut writer = trail::Writer::open(std::sync::Arc::new(storage.clone()), options).expect("opens");
            append(&mut writer, &transaction(&table("t", 3), number, 1)).expect("appends");
            writer.close().expect("closes");
        }
    }
    storage.rename("ab000000001", "aa000000001").expect("renames");
    let error = read_transactions(&storage).expect_err("another trail's rows");
    let text = error.to_string();
    assert!(matches!(error, Error::Mismatch { .. }), "{text}");
    assert!(text.contains("aa000000001") && text.contains("ab000000001"), "{text}");
}

#[test]
fn a_file_that_ends_inside_a_change_needs_a_marker_behind_it() {
    let table = table("t", 3);
    let storage = Forgetful::new(1);
    let mut writer = open_writer(&storage, 1 << 20).expect("opens");
    writer.begin(&world::commit(1)).expect("begins");
    let new = row(&["key", &"x".repeat(150_000), "v"]);
    writer.append(&change(&table, 1, change::Operation::Insert { new })).expect("appends");
    // All parts but the last, which is held back.
    writer.sync().expect("syncs");
    drop(writer);
    open_writer(&storage, 1 << 20).expect("opens");
    assert_eq!(read_transactions(&storage).expect("the marker says why"), []);

    // Further files as a writer makes them that goes on without a restart, published as it did.
    let other = Forgetful::new(1);
    let mut writer = open_writer(&other, 3_000).expect("opens");
    for number in 1..60 {
        append(&mut writer, &transaction(&table, number, 1)).expect("appends");
    }
    writer.close().expect("closes");
    for name in other.list().expect("lists").iter().filter(|name| *name != FILE) {
        storage.replace(name, &other.read_whole(name).expect("reads")).expect("replaces");
    }
    let error = read_transactions(&storage).expect_err("nothing says what became of the change");
    assert!(matches!(&error, Error::Damaged { file, .. } if file == "aa000000001"), "{error:?}");
}

#[test]
fn an_empty_file_in_the_trail_is_damage() {
    let storage = written(true);
    storage.create("aa000000001").expect("creates");
    assert!(matches!(open_writer(&storage, 1 << 20), Err(Error::Damaged { file, .. }) if file == "aa000000001"));
}

/// Ways to change a file.
#[derive(Clone, Debug)]
enum Mutation {
    Overwrite(usize, Vec<u8>),
    Insert(usize, Vec<u8>),
    Remove(usize, usize),
    Repeat(usize, usize),
}

fn mutation() -> impl Strategy<Value = Mutation> {
    let bytes = || prop::collection::vec(any::<u8>(), 1..40);
    // Most of the file is one long row; mutations go mostly to its interesting first part.
    let place = || prop_oneof![4 => 0..4_000_usize, 1 => 0..75_000_usize];
    prop_oneof![
        (place(), bytes()).prop_map(|(at, bytes)| Mutation::Overwrite(at, bytes)),
        (place(), bytes()).prop_map(|(at, bytes)| Mutation::Insert(at, bytes)),
        (place(), 1..500_usize).prop_map(|(at, count)| Mutation::Remove(at, count)),
        (place(), 1..500_usize).prop_map(|(at, count)| Mutation::Repeat(at, count)),
    ]
}

fn apply(bytes: &mut Vec<u8>, mutation: &Mutation) {
    let clamp = |at: usize| at.min(bytes.len());
    match mutation {
        Mutation::Overwrite(at, new) => {
            let (start, end) = (clamp(*at), clamp(at + new.len()));
            bytes[start..end].copy_from_slice(&new[..end - start]);
        }
        Mutation::Insert(at, new) => {
            let at = clamp(*at);
            bytes.splice(at..at, new.iter().copied());
        }
        Mutation::Remove(at, count) => {
            let range = clamp(*at)..clamp(at + count);
            bytes.drain(range);
        }
        Mutation::Repeat(at, count) => {
            let range = clamp(*at)..clamp(at + count);
            let again = bytes[range.clone()].to_vec();
            bytes.splice(range.end..range.end, again);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn no_mutation_of_a_file_makes_a_panic_or_a_wrong_row(
        is_closed in any::<bool>(),
        mutations in prop::collection::vec(mutation(), 1..4),
    ) {
        let storage = written(is_closed);
        let mut bytes = storage.read_whole(FILE).expect("reads");
        mutations.iter().for_each(|mutation| apply(&mut bytes, mutation));
        overwrite(&storage, &bytes);
        survive(&storage)?;
    }

    #[test]
    fn random_bytes_are_no_trail(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let storage = written(true);
        overwrite(&storage, &bytes);
        prop_assert!(read_transactions(&storage).is_err());
        survive(&storage)?;
    }

    #[test]
    fn a_mutated_safe_position_never_shows_more_than_was_published(bytes in prop::collection::vec(any::<u8>(), 0..40), at in 0..128_usize) {
        let storage = written(false);
        let file = storage.open("aa.safe").expect("opens");
        file.write_at(&bytes, at as u64).expect("writes");
        let read = read_transactions(&storage).expect("reads what is published");
        prop_assert!(sample().starts_with(&read));
    }
}

#[test]
fn a_safe_position_that_somebody_removes_under_a_writer_comes_back_with_the_next_sync() {
    let storage = Forgetful::new(7);
    let table = table("t", 3);
    let mut writer = open_writer(&storage, 1 << 20).expect("opens");
    let mut reader = open_reader(&storage, Start::Beginning).expect("opens");
    append(&mut writer, &transaction(&table, 1, 1)).expect("appends");
    writer.sync().expect("syncs");
    let seen = read_entries(&mut reader).expect("reads").len();
    assert!(seen > 0);
    storage.remove("aa.safe").expect("removes");
    assert!(read_entries(&mut reader).expect("nothing new is no error").is_empty());
    append(&mut writer, &transaction(&table, 2, 1)).expect("appends");
    writer.sync().expect("syncs");
    assert!(!read_entries(&mut reader).expect("reads").is_empty());
    assert_eq!(read_transactions(&storage).expect("reads").len(), 2);
}
