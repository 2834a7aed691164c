//! Purging: what may go, what stays and why; and crashes in the middle of it.

mod world;

use change::Timestamp;
use std::sync::Arc;
use std::time::Duration;
use trail::purge::{self, Keep, PurgeRules, ReaderPlace, Reason, Situation, Survey, TrailFile};
use trail::storage::{Forgetful, Storage};
use trail::{Error, Position, Reader, Start};
use world::{append, open_reader, open_writer, read_entries, table, trail_name, transaction};

const HOUR: i64 = 3_600_000_000;

fn at_hour(hour: i64) -> Timestamp {
    Timestamp::from_unix_micros(1_700_000_000_000_000 + hour * HOUR)
}

/// Files `first..=last`; file n was settled at hour n.
fn trail(first: u32, last: u32, resumed: u32) -> Survey {
    let file = |sequence| TrailFile {
        sequence,
        bytes: 1000,
        settled: (sequence < last).then_some(at_hour(i64::from(sequence))),
    };
    Survey { files: (first..=last).map(file).collect(), written: last, resumed }
}

fn readers(positions: &[(u32, u64)]) -> Vec<ReaderPlace> {
    let place = |(index, &(sequence, rba)): (usize, &(u32, u64))| ReaderPlace {
        name: format!("R{}", index + 1),
        position: Position::new(sequence, rba),
    };
    positions.iter().enumerate().map(place).collect()
}

const USE: bool = true;
const NO_USE: bool = false;

fn hours(hours: u64) -> Keep {
    Keep::Time(Duration::from_secs(hours * 3600))
}

/// The decision about files 3 to 9 at hour 10, as text: `3-5, then 6 stays: why`.
fn decide(use_checkpoints: bool, keep: Keep, positions: &[(u32, u64)], resumed: u32) -> String {
    let survey = trail(3, 9, resumed);
    let readers = readers(positions);
    let situation = Situation { survey: &survey, readers: &readers, now: at_hour(10) };
    let plan = purge::plan(&PurgeRules { use_checkpoints, keep }, &situation);
    let gone = match (plan.remove.first(), plan.remove.last()) {
        (Some(first), Some(last)) => {
            assert_eq!(plan.remove, (*first..=*last).collect::<Vec<_>>(), "ascending and without a hole");
            format!("{first}-{last}")
        }
        _ => "none".to_owned(),
    };
    let (file, reason) = plan.stays.expect("the file that is written stays");
    let cut_off =
        if plan.cut_off.is_empty() { String::new() } else { format!("; cut off: {}", plan.cut_off.join(", ")) };
    format!("{gone}, then {file} stays: {reason:?}{cut_off}")
}

#[test]
fn the_rules_of_purgeoldextracts() {
    let reader = |name: &str| Reason::Reader(name.to_owned());
    let told = |gone: &str, file: u32, reason: Reason| format!("{gone}, then {file} stays: {reason:?}");
    for (rules, positions, resumed, expected) in [
        // Readers hold files back, the slowest decides, and the file that a reader stands in is needed.
        ((USE, Keep::Files(1)), &[(6, 500)][..], 9, told("3-5", 6, reader("R1"))),
        ((USE, Keep::Files(1)), &[(8, 500), (4, 500)], 9, told("3-3", 4, reader("R2"))),
        ((USE, Keep::Files(1)), &[(3, 500)], 9, told("none", 3, reader("R1"))),
        ((USE, Keep::Files(1)), &[(0, 0)], 9, told("none", 3, reader("R1"))),
        // At the start of a file the change in front of it is read.
        ((USE, Keep::Files(1)), &[(6, 0)], 9, told("3-4", 5, reader("R1"))),
        // All readers are at the end: the file that is written stays.
        ((USE, Keep::Files(1)), &[(9, 500), (9, 700)], 9, told("3-8", 9, Reason::Written)),
        // A reader that is ahead of the trail, as after a restored copy, lets nothing more go.
        ((USE, Keep::Files(1)), &[(12, 1)], 9, told("3-8", 9, Reason::Written)),
        // Nobody is known to read it.
        ((USE, Keep::Files(1)), &[], 9, told("none", 3, Reason::NoReader)),
        ((USE, hours(1)), &[], 9, told("none", 3, Reason::NoReader)),
        // MINKEEPFILES counts the file that is written; 0 is as good as 1.
        ((USE, Keep::Files(3)), &[(9, 500)], 9, told("3-6", 7, Reason::Count)),
        ((USE, Keep::Files(7)), &[(9, 500)], 9, told("none", 3, Reason::Count)),
        ((USE, Keep::Files(100)), &[(9, 500)], 9, told("none", 3, Reason::Count)),
        ((USE, Keep::Files(0)), &[(9, 500)], 9, told("3-8", 9, Reason::Written)),
        // MINKEEPHOURS: at hour 10, file 6 is four hours old.
        ((USE, hours(4)), &[(9, 500)], 9, told("3-6", 7, Reason::Age)),
        ((USE, hours(8)), &[(9, 500)], 9, told("none", 3, Reason::Age)),
        // Readers and rules both count.
        ((USE, hours(4)), &[(5, 500)], 9, told("3-4", 5, reader("R1"))),
        ((USE, Keep::Files(2)), &[(5, 500)], 9, told("3-4", 5, reader("R1"))),
        // What the writer reads at its next start stays under any rule.
        ((USE, Keep::Files(1)), &[(9, 500)], 5, told("3-4", 5, Reason::Resumed)),
        ((NO_USE, Keep::Files(1)), &[], 5, told("3-4", 5, Reason::Resumed)),
        // NOUSECHECKPOINTS: only the rules count.
        ((NO_USE, Keep::Files(2)), &[], 9, told("3-7", 8, Reason::Count)),
        ((NO_USE, hours(4)), &[(9, 500)], 9, told("3-6", 7, Reason::Age)),
        ((NO_USE, hours(4)), &[(5, 500)], 9, format!("{}; cut off: R1", told("3-6", 7, Reason::Age))),
    ] {
        assert_eq!(decide(rules.0, rules.1, positions, resumed), expected, "{rules:?} {positions:?} resumed {resumed}");
    }
}

#[test]
fn an_unknown_age_and_a_clock_that_was_set_back_keep_files() {
    let rules = PurgeRules { use_checkpoints: false, keep: hours(1) };
    let mut survey = trail(0, 4, 4);
    let plan = |survey: &Survey, now| purge::plan(&rules, &Situation { survey, readers: &[], now });
    assert_eq!(plan(&survey, at_hour(-5)).stays, Some((0, Reason::Age)));
    assert_eq!(plan(&survey, at_hour(100)).remove, [0, 1, 2, 3]);
    survey.files[1].settled = None;
    assert_eq!(plan(&survey, at_hour(100)).stays, Some((1, Reason::AgeUnknown)));
}

#[test]
fn a_trail_without_files_asks_for_nothing() {
    let survey = Survey::default();
    let plan = purge::plan(&PurgeRules::default(), &Situation { survey: &survey, readers: &[], now: at_hour(0) });
    assert_eq!(plan, purge::PurgePlan::default());
}

/// A trail of many small files, its last ones without a complete transaction.
fn written(seed: u64) -> Forgetful {
    let storage = Forgetful::new(seed);
    let table = table("a", 3);
    let mut writer = open_writer(&storage, 3_000).expect("opens");
    for number in 0..30 {
        append(&mut writer, &transaction(&table, number, 5)).expect("appends");
    }
    writer.sync().expect("syncs");
    // A transaction that runs over several files and never ends.
    writer.begin(&world::commit(100)).expect("begins");
    for number in 0..40 {
        writer.append(&world::insert(&table, number)).expect("appends");
    }
    writer.sync().expect("syncs");
    storage
}

#[test]
fn the_writer_still_finds_its_last_transaction_after_everything_else_went() {
    let storage = written(1);
    let before = purge::survey(&storage, trail_name()).expect("is surveyed");
    assert!(before.resumed > 3 && before.written > before.resumed + 1, "{before:?}");
    assert_eq!(before.files.len() as u32, before.written + 1);
    let rules = PurgeRules { use_checkpoints: false, keep: Keep::Files(1) };
    let plan = purge::plan(&rules, &Situation { survey: &before, readers: &[], now: at_hour(0) });
    assert_eq!(plan.stays, Some((before.resumed, Reason::Resumed)));
    purge::remove(&storage, trail_name(), &plan.remove).expect("is removed");
    storage.kill();
    let writer = open_writer(&storage, 3_000).expect("opens");
    assert_eq!(writer.last_commit(), Some(&world::commit(29)));
}

#[test]
fn a_reader_goes_on_where_it_was_after_everything_it_does_not_need_went() {
    let storage = written(2);
    let mut reader = open_reader(&storage, Start::Beginning).expect("opens");
    let mut places = Vec::new();
    for entry in read_entries(&mut reader).expect("reads") {
        if let trail::Record::Change { place, commit, .. } = entry.record
            && place.ends()
        {
            places.push((entry.next, commit));
        }
    }
    for (position, commit) in places {
        let survey = purge::survey(&storage, trail_name()).expect("is surveyed");
        let readers = [ReaderPlace { name: "R1".to_owned(), position }];
        let situation = Situation { survey: &survey, readers: &readers, now: at_hour(0) };
        let plan = purge::plan(&PurgeRules::default(), &situation);
        purge::remove(&storage, trail_name(), &plan.remove).expect("is removed");
        let first = survey.files[0].sequence + plan.remove.len() as u32;
        assert!(first <= position.sequence && position.sequence <= first + 1, "{position} and files from {first}");
        let after = Some((commit.csn, commit.transaction));
        let mut reader = open_reader(&storage, Start::At { position, after }).expect("still finds its place");
        read_entries(&mut reader).expect("and reads on");
    }
}

#[test]
fn a_purge_that_ends_anywhere_leaves_a_trail_without_holes() {
    for seed in 0..60 {
        for is_power_loss in [true, false] {
            let storage = written(seed);
            let survey = purge::survey(&storage, trail_name()).expect("is surveyed");
            let doomed: Vec<u32> = (0..survey.resumed).collect();
            let purger = storage.another_process();
            purger.fail_after(seed % (2 * doomed.len() as u64 + 1));
            let result = purge::remove(&purger, trail_name(), &doomed);
            assert_eq!(result.is_err(), purger.has_failed());
            if is_power_loss {
                storage.crash();
            } else {
                purger.kill();
            }
            let left = purge::survey(&storage, trail_name()).expect("is surveyed").files;
            let numbers: Vec<u32> = left.iter().map(|file| file.sequence).collect();
            let first = numbers[0];
            assert_eq!(numbers, (first..=survey.written).collect::<Vec<_>>(), "seed {seed}");
            // The same purge again finishes it.
            purge::remove(&storage, trail_name(), &doomed).expect("is removed");
            let first = purge::survey(&storage, trail_name()).expect("is surveyed").files[0].sequence;
            assert_eq!(first, survey.resumed);
        }
    }
}

#[test]
fn a_whole_trail_goes_only_without_its_writer_and_leaves_nothing_to_read() {
    let storage = written(3);
    let writer_of_it = storage.another_process();
    let writer = open_writer(&writer_of_it, 3_000).expect("opens");
    assert!(matches!(purge::remove_all(&storage, trail_name()), Err(Error::Locked { .. })));
    let files = writer.position().sequence as usize + 1;
    drop(writer);
    assert_eq!(purge::remove_all(&storage, trail_name()).expect("is removed"), files);
    assert!(storage.list().expect("is listed").is_empty());
    let mut reader = Reader::open(Arc::new(storage.clone()), trail_name(), Start::Beginning).expect("opens");
    assert_eq!(read_entries(&mut reader).expect("reads").len(), 0);
    assert_eq!(open_writer(&storage, 3_000).expect("a new trail starts").position().sequence, 0);
}
