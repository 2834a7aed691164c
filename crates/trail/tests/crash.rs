//! Crashes at every step: what was synced is there, no half transaction is delivered, and nothing comes twice.

mod world;

use change::{Operation, TableDefinition};
use std::sync::Arc;
use trail::cipher::{Algorithm, MasterKeys};
use trail::format::header::read_file_start;
use trail::format::record::{self, RecordView};
use trail::storage::{Forgetful, Storage};
use trail::{Cover, Error, Format, Reader, Start, UpdateImages, Writer, WriterOptions};
use world::{Assembler, Keys, Transaction, append, change, open_writer, options, row, table, trail_name, transaction};

const FILE_BYTES_MAX: u64 = 3_000;
const TRANSACTIONS: u64 = 24;

/// The source's history, the same in every run: small and large transactions, rows that travel in parts.
fn history(tables: &[Arc<TableDefinition>; 2]) -> Vec<Transaction> {
    (0..TRANSACTIONS)
        .map(|number| {
            let table = &tables[(number % 2) as usize];
            let mut transaction = transaction(table, number, number % 5 + 1);
            if number % 9 == 4 {
                let long = "x".repeat(150_000);
                let new = row(&["k", &long, "v"]);
                transaction.changes.insert(1, change(table, number, Operation::Insert { new: new.clone() }));
                let old = row(&["j", "u", "v"]);
                transaction.changes.insert(2, change(table, number, Operation::Update { old: Some(old), new }));
            }
            transaction
        })
        .collect()
}

/// The master keys that writers and readers share.
fn keys() -> Arc<dyn MasterKeys> {
    Keys::of(7, 1)
}

/// A reader in a process of its own, which keeps what a Replicat keeps: its position and its last transaction.
struct Follower {
    storage: Forgetful,
    start: Start,
    applied: Vec<Transaction>,
}

impl Follower {
    fn new(storage: &Forgetful) -> Follower {
        Follower { storage: storage.another_process(), start: Start::Beginning, applied: Vec::new() }
    }

    /// Opens the trail where it stopped, and applies all complete transactions that are published.
    fn follow(&mut self, context: &str) {
        let given = [table("a", 3), table("b", 3)];
        let mut reader =
            Reader::open_with(Arc::new(self.storage.clone()), trail_name(), self.start.clone(), &given, Some(keys()))
                .unwrap_or_else(|error| panic!("{context}: could not open: {error}"));
        let mut assembler = Assembler::default();
        loop {
            let entry = reader.next().unwrap_or_else(|error| panic!("{context}: could not read: {error:?}"));
            let Some(entry) = entry else { return };
            assembler.add(entry.record);
            if let Some(transaction) = assembler.complete.pop() {
                let commit = &transaction.commit;
                let after = Some((commit.csn.clone(), commit.transaction.clone()));
                self.start = Start::At { position: entry.next, after };
                self.applied.push(transaction);
            }
        }
    }
}

/// Appends what the trail does not hold yet, as capture does, and syncs now and then. Tells `synced` how many transactions
/// are safe.
fn capture(
    storage: &Forgetful,
    history: &[Transaction],
    (format, cover): (Format, &Cover),
    synced: &mut usize,
    follow: &mut dyn FnMut(),
) -> Result<(), Error> {
    let options = WriterOptions { format, cover: cover.clone(), ..options(FILE_BYTES_MAX) };
    let mut writer = Writer::open(Arc::new(storage.clone()), options)?;
    let held = writer.last_commit().map_or(0, |last| {
        1 + history.iter().position(|transaction| transaction.commit == *last).expect("is one of the source's")
    });
    assert!(held >= *synced, "the trail holds {held} transactions, {synced} were synced");
    for (index, transaction) in history.iter().enumerate().skip(held) {
        append(&mut writer, transaction)?;
        if index % 3 == 1 {
            writer.sync()?;
            *synced = index + 1;
            follow();
        }
    }
    writer.close()?;
    *synced = history.len();
    Ok(())
}

/// One run: the writer breaks at its `steps`-th call (and, restarted, again a few calls later), then finishes in peace.
fn run(seed: u64, steps: u64, is_power_loss: bool, cover: &Cover, history: &[Transaction]) -> bool {
    let plain = Format::default();
    let format = match seed / 1000 % 3 {
        0 => plain,
        1 => Format { updates: Some(UpdateImages::Separate), ..plain },
        _ => Format { level: Some(4), ..plain },
    };
    let (is_encrypted, is_compressed) = (cover.encryption.is_some(), cover.is_compressed);
    let context = format!(
        "seed {seed}, step {steps}, power loss {is_power_loss}, encrypted {is_encrypted}, compressed {is_compressed}, {format:?}"
    );
    let storage = Forgetful::new(seed);
    let mut follower = Follower::new(&storage);
    let mut synced = 0;
    let mut broke = false;
    for breaks_after in [Some(steps), Some(seed % 40), None] {
        if let Some(calls) = breaks_after {
            storage.fail_after(calls);
        }
        let result = capture(&storage, history, (format, cover), &mut synced, &mut || follower.follow(&context));
        let has_failed = storage.has_failed();
        assert_eq!(result.is_err(), has_failed, "{context}: {result:?}");
        broke |= has_failed;
        if is_power_loss {
            storage.crash()
        } else {
            storage.kill()
        }
        follower.follow(&context);
    }
    let csns = |all: &[Transaction]| all.iter().map(|t| t.commit.csn.to_string()).collect::<Vec<_>>();
    assert_eq!(csns(&follower.applied), csns(history), "{context}");
    assert!(follower.applied == history, "{context}: {} of {}", follower.applied.len(), history.len());
    broke
}

#[test]
fn what_a_failed_sync_left_in_the_cache_is_not_taken_for_durable() {
    let table = table("a", 3);
    for seed in 0..20 {
        let storage = Forgetful::new(seed);
        let written: Vec<_> = (0..30).map(|number| transaction(&table, number, seed % 4 + 1)).collect();
        let mut writer = open_writer(&storage, FILE_BYTES_MAX).expect("opens");
        written[..20].iter().for_each(|transaction| _ = append(&mut writer, transaction).expect("appends"));
        writer.sync().expect("syncs");
        let failed = written[20..].iter().enumerate().find_map(|(index, transaction)| {
            append(&mut writer, transaction).expect("appends");
            storage.fail_syncs(u64::from(index as u64 == seed % 10));
            writer.sync().err()
        });
        assert!(matches!(failed, Some(Error::Io { action: "sync", .. })), "{failed:?}");
        drop(writer);
        // The process is started again, and believes what it reads.
        let writer = open_writer(&storage, FILE_BYTES_MAX).expect("opens");
        let last = writer.last_commit().cloned();
        drop(writer);
        storage.crash();
        let writer = open_writer(&storage, FILE_BYTES_MAX).expect("opens");
        assert_eq!(writer.last_commit(), last.as_ref(), "seed {seed}");
    }
}

/// Breaks runs of these seeds at every step there is, by both ways to break.
fn break_everywhere(seeds: std::ops::Range<u64>, cover: &Cover) {
    let tables = [table("a", 3), table("b", 3)];
    let history = history(&tables);
    for seed in seeds {
        for is_power_loss in [true, false] {
            let mut steps = 0;
            while run(seed * 1000 + steps, steps, is_power_loss, cover, &history) {
                steps += 1;
                assert!(steps < 2000, "the run ends when nothing breaks any more");
            }
            assert!(steps > 50, "there are many steps: {steps}");
        }
    }
}

#[test]
fn every_step_may_be_the_last() {
    break_everywhere(0..20, &Cover::default());
}

#[test]
fn every_step_may_be_the_last_in_an_encrypted_trail() {
    break_everywhere(0..6, &Cover { encryption: Some((Algorithm::Aes256, keys())), is_compressed: false });
}

#[test]
fn every_step_may_be_the_last_in_a_compressed_trail() {
    break_everywhere(0..6, &Cover { encryption: None, is_compressed: true });
}

#[test]
fn every_step_may_be_the_last_in_a_trail_that_is_both() {
    break_everywhere(0..6, &Cover { encryption: Some((Algorithm::Aes128, keys())), is_compressed: true });
}

/// A file goes on being readable and secret whatever broke: no row's value stands in clear, and no two records of a file were
/// encrypted under one number.
#[test]
fn a_crash_leaves_no_value_in_clear_and_no_number_twice() {
    let tables = [table("a", 3), table("b", 3)];
    let mut history = history(&tables);
    for (number, transaction) in history.iter_mut().enumerate() {
        let new = row(&["k", "KNOWNVALUE", "v"]);
        transaction.changes.push(change(&tables[0], number as u64, Operation::Insert { new }));
    }
    let cover = Cover { encryption: Some((Algorithm::Aes256, keys())), is_compressed: false };
    for seed in 0..150 {
        let storage = Forgetful::new(seed);
        let mut synced = 0;
        for calls in [Some(seed), Some(seed % 23), None] {
            if let Some(calls) = calls {
                storage.fail_after(calls);
            }
            let _ = capture(&storage, &history, (Format::default(), &cover), &mut synced, &mut || {});
            storage.crash();
        }
        let mut file_keys = Vec::new();
        for name in storage.list().expect("lists").iter().filter(|name| trail_name().sequence_of(name).is_some()) {
            let bytes = storage.read_whole(name).expect("reads");
            assert!(!bytes.windows(10).any(|window| window == b"KNOWNVALUE"), "seed {seed}: {name} holds it in clear");
            let (header, order, start) = read_file_start(&bytes).expect("starts with a header");
            file_keys.push(header.key.expect("names its key").wrapped);
            let mut numbers = Vec::new();
            let mut at = start;
            while let Ok(record) = record::frame(&bytes[at..], order) {
                numbers.extend(RecordView::read(record, order).expect("is whole").encrypted);
                at += record.len();
            }
            assert!(numbers.is_sorted_by(|one, two| one < two), "seed {seed}: {name} has a number twice: {numbers:?}");
        }
        let count = file_keys.len();
        file_keys.sort();
        file_keys.dedup();
        assert_eq!(file_keys.len(), count, "seed {seed}: two files have one key");
    }
}
