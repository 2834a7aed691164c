//! Where a reader stopped, and whether that is still the same place.

mod world;

use change::{Csn, TransactionId};
use std::time::Duration;
use trail::storage::{Directory, Forgetful, Storage};
use trail::{Entry, Error, Position, Record, Start};
use world::{
    Assembler, Transaction, append, commit, insert, open_reader, open_writer, read_entries, table, transaction,
};

const FILE_BYTES_MAX: u64 = 3_000;

fn identity(transaction: &Transaction) -> Option<(Csn, TransactionId)> {
    Some((transaction.commit.csn.clone(), transaction.commit.transaction.clone()))
}

fn write(storage: &Forgetful, transactions: &[Transaction], file_bytes_max: u64) {
    let mut writer = open_writer(storage, file_bytes_max).expect("opens");
    for transaction in transactions {
        append(&mut writer, transaction).expect("appends");
    }
    writer.close().expect("closes");
}

fn sample(count: u64) -> Vec<Transaction> {
    let table = table("t", 3);
    (1..=count).map(|number| transaction(&table, number, number % 3 + 1)).collect()
}

/// Ends of transactions with what must come after each.
fn ends(storage: &Forgetful) -> Vec<(Position, Vec<Transaction>)> {
    let mut reader = open_reader(storage, Start::Beginning).expect("opens");
    let entries = read_entries(&mut reader).expect("reads");
    let is_end = |entry: &&Entry| matches!(&entry.record, Record::Change { place, .. } if place.ends());
    entries
        .iter()
        .filter(is_end)
        .map(|end| (end.next, assemble(entries.iter().skip_while(|entry| entry.position < end.next))))
        .collect()
}

fn assemble<'a>(entries: impl Iterator<Item = &'a Entry>) -> Vec<Transaction> {
    let mut assembler = Assembler::default();
    entries.for_each(|entry| assembler.add(entry.record.clone()));
    assembler.complete
}

fn rest(
    storage: &(impl Storage + Clone + 'static),
    position: Position,
    after: Option<(Csn, TransactionId)>,
) -> Result<Vec<Transaction>, Error> {
    let mut reader = open_reader(storage, Start::At { position, after })?;
    let entries = read_entries(&mut reader)?;
    Ok(assemble(entries.iter()))
}

#[test]
fn a_reader_goes_on_exactly_where_another_stopped() {
    let storage = Forgetful::new(1);
    let written = sample(60);
    write(&storage, &written, FILE_BYTES_MAX);
    let ends = ends(&storage);
    assert_eq!(ends.len(), written.len());
    for (index, (position, expected)) in ends.iter().enumerate() {
        assert_eq!(expected, &written[index + 1..]);
        assert_eq!(&rest(&storage, *position, identity(&written[index])).expect("reads"), expected);
        assert_eq!(&rest(&storage, *position, None).expect("reads"), expected);
    }
    assert!(ends.last().expect("an end").0.sequence > 3, "the positions are in several files");
}

#[test]
fn in_a_trail_written_anew_the_place_is_found_by_the_transaction() {
    let (old, new) = (Forgetful::new(1), Forgetful::new(2));
    let written = sample(60);
    write(&old, &written, FILE_BYTES_MAX);
    // Another layout, and a start in the middle of the history.
    write(&new, &written[10..], 5_000);
    for (index, (position, expected)) in ends(&old).iter().enumerate() {
        let found = rest(&new, *position, identity(&written[index]));
        if index < 10 {
            let error = found.expect_err("the trail does not hold that transaction");
            assert!(matches!(error, Error::Mismatch { position: told, .. } if told == *position), "{error}");
        } else {
            assert_eq!(&found.expect("is found"), expected);
        }
    }
}

#[test]
fn a_shorter_trail_does_not_agree() {
    let (old, new) = (Forgetful::new(1), Forgetful::new(2));
    let written = sample(30);
    write(&old, &written, FILE_BYTES_MAX);
    write(&new, &written[..10], FILE_BYTES_MAX);
    let ends = ends(&old);
    let error = rest(&new, ends[20].0, identity(&written[20])).expect_err("is shorter");
    assert!(error.to_string().contains(&ends[20].0.to_string()) && !error.next_step().is_empty(), "{error}");
    assert!(rest(&Forgetful::new(3), ends[20].0, identity(&written[20])).is_err(), "there is no trail at all");
    assert!(rest(&Forgetful::new(3), ends[20].0, None).is_err());
}

#[test]
fn another_transaction_at_the_same_place_does_not_agree() {
    let storage = Forgetful::new(1);
    let written = sample(5);
    write(&storage, &written, FILE_BYTES_MAX);
    let (position, _) = ends(&storage)[2];
    let stranger = Some((Csn::new(format!("{:020}", 3)), TransactionId::new("another")));
    let error = rest(&storage, position, stranger).expect_err("is not the transaction");
    assert!(error.to_string().contains("3.1"), "{error}");
}

#[test]
fn a_position_inside_a_record_does_not_agree() {
    let storage = Forgetful::new(1);
    write(&storage, &sample(5), FILE_BYTES_MAX);
    let (position, _) = ends(&storage)[2];
    for rba in [1, 7, position.rba - 1, position.rba + 1] {
        let error = rest(&storage, Position { rba, ..position }, None).expect_err("no record ends there");
        assert!(matches!(error, Error::Mismatch { .. }), "{error}");
    }
}

#[test]
fn reading_never_begins_in_the_middle_of_a_transaction() {
    let storage = Forgetful::new(1);
    let table = table("t", 3);
    write(&storage, &[transaction(&table, 1, 3), transaction(&table, 2, 1)], 100_000);
    let mut reader = open_reader(&storage, Start::Beginning).expect("opens");
    let entries = read_entries(&mut reader).expect("reads");
    let first = entries.iter().find(|entry| matches!(entry.record, Record::Change { .. })).expect("a change");
    let error = rest(&storage, first.next, None).expect_err("is in the middle");
    assert!(matches!(error, Error::Mismatch { .. }) && error.to_string().contains("middle"), "{error}");
}

#[test]
fn the_start_of_a_file_is_a_position_too() {
    let storage = Forgetful::new(1);
    let written = sample(5);
    write(&storage, &written, 100_000);
    assert_eq!(rest(&storage, Position::new(0, 0), None).expect("reads"), written);
    // The last transaction is in the file before.
    write(&storage, &[], 100_000);
    assert_eq!(rest(&storage, Position::new(1, 0), identity(&written[4])).expect("reads"), []);
    // A file that does not exist yet is waited for. The next writer goes on in the one that holds no change.
    let mut reader = open_reader(&storage, Start::At { position: Position::new(2, 0), after: None }).expect("opens");
    assert_eq!(reader.next().expect("waits"), None);
    write(&storage, &sample(6).split_off(5), 100_000);
    assert_eq!(reader.next().expect("waits"), None);
    let next = sample(7).split_off(6);
    write(&storage, &next, 100_000);
    assert_eq!(assemble(read_entries(&mut reader).expect("reads").iter()), next);
}

#[test]
fn a_crash_inside_a_transaction_leaves_a_marker_and_a_clean_end_another() {
    let storage = Forgetful::new(1);
    let table = table("t", 3);
    let markers = |storage: &Forgetful| -> Vec<bool> {
        let mut reader = open_reader(storage, Start::Beginning).expect("opens");
        let entries = read_entries(&mut reader).expect("reads");
        let marker = |entry: &Entry| if let Record::Restart { abend } = entry.record { Some(abend) } else { None };
        entries.iter().filter_map(marker).collect()
    };
    write(&storage, &sample(2), 100_000);
    assert_eq!(markers(&storage), []);
    let mut writer = open_writer(&storage, 100_000).expect("opens");
    assert_eq!(markers(&storage), [false]);
    writer.begin(&commit(3)).expect("begins");
    (0..3).for_each(|number| writer.append(&insert(&table, number)).expect("appends"));
    writer.sync().expect("syncs");
    storage.crash();
    // Two more crashes before anything is written do not hide what happened.
    for _ in 0..2 {
        let writer = open_writer(&storage, 100_000).expect("opens");
        assert_eq!(writer.last_commit(), Some(&commit(2)));
        storage.crash();
    }
    assert_eq!(markers(&storage), [false, true, false]);
}

#[test]
fn the_last_commit_is_found_behind_files_without_one() {
    let storage = Forgetful::new(1);
    let table = table("t", 3);
    let mut writer = open_writer(&storage, FILE_BYTES_MAX).expect("opens");
    append(&mut writer, &transaction(&table, 1, 1)).expect("appends");
    writer.begin(&commit(2)).expect("begins");
    (0..100).for_each(|number| writer.append(&insert(&table, number)).expect("appends"));
    writer.sync().expect("syncs");
    assert!(writer.position().sequence > 4);
    storage.crash();
    let writer = open_writer(&storage, FILE_BYTES_MAX).expect("opens");
    assert_eq!(writer.last_commit(), Some(&commit(1)));
}

#[test]
fn a_file_missing_in_the_middle_stops_the_reader_by_name() {
    let storage = Forgetful::new(1);
    write(&storage, &sample(60), FILE_BYTES_MAX);
    storage.remove("aa000000002").expect("removes");
    let mut reader = open_reader(&storage, Start::Beginning).expect("opens");
    let error = read_entries(&mut reader).expect_err("stops");
    assert!(matches!(&error, Error::Missing { file } if file == "aa000000002"), "{error}");
}

#[test]
fn waiting_costs_no_calls() {
    let storage = Forgetful::new(1);
    write(&storage, &sample(3), FILE_BYTES_MAX);
    let process = storage.another_process();
    let mut reader = open_reader(&process, Start::Beginning).expect("opens");
    read_entries(&mut reader).expect("reads");
    let before = process.calls();
    assert!(!reader.wait(Duration::from_millis(30)).expect("waits"));
    assert!(process.calls() - before <= 4, "looks once before and once after: {}", process.calls() - before);
}

#[test]
fn a_reader_of_the_twin_wakes_too() {
    let storage = Forgetful::new(1);
    let mut reader = open_reader(&storage.another_process(), Start::Beginning).expect("opens");
    std::thread::scope(|scope| {
        scope.spawn(|| write(&storage, &sample(3), FILE_BYTES_MAX));
        let mut assembler = Assembler::default();
        while assembler.complete.len() < 3 {
            match reader.next().expect("reads") {
                Some(entry) => assembler.add(entry.record),
                None => _ = reader.wait(Duration::from_secs(60)).expect("waits"),
            }
        }
    });
}

#[test]
fn a_trail_written_anew_under_a_running_reader_is_told_from_the_old_one() {
    let folder = tempfile::tempdir().expect("makes a directory");
    let storage = Directory::new(folder.path());
    let write = |transactions: &[Transaction]| {
        let mut writer = open_writer(&storage, FILE_BYTES_MAX).expect("opens");
        transactions.iter().for_each(|transaction| _ = append(&mut writer, transaction).expect("appends"));
        writer.close().expect("closes");
    };
    let written = sample(120);
    write(&written[..30]);
    let mut reader = open_reader(&storage, Start::Beginning).expect("opens");
    assert_eq!(assemble(read_entries(&mut reader).expect("reads").iter()), written[..30]);
    for name in storage.list().expect("lists") {
        storage.remove(&name).expect("removes");
    }
    write(&written[30..]);
    let error = read_entries(&mut reader).expect_err("transactions 31 and on are in files with lower numbers");
    assert!(matches!(&error, Error::Mismatch { .. }), "{error}");
    let last = identity(&written[29]);
    let error = rest(&storage, reader.position(), last).expect_err("a new reader does not find the place either");
    assert!(matches!(&error, Error::Mismatch { .. }), "{error}");
}
