//! Reading checkpoint files: of every layout there was, damaged ones, and those of others.

use crate::sample::{commit, extract, group, number, replicat, time};
use change::TableName;
use process::{CheckpointError, CheckpointFile, GroupKind, StopStatus};
use proptest::prelude::*;
use std::path::Path;
use std::sync::Arc;
use trail::Position;
use trail::storage::{Directory, Forgetful, Storage};

const BLOCK: usize = 2048;

fn storage() -> Arc<Forgetful> {
    Arc::new(Forgetful::new(1))
}

/// A file of an Extract with checkpoints 1 to `last`.
fn file_with(last: u64) -> (Arc<Forgetful>, Vec<u8>) {
    let storage = storage();
    let mut file = CheckpointFile::create(storage.clone(), GroupKind::Extract, &group("e1"), &extract(1)).expect("new");
    (2..=last).for_each(|number| file.save(&extract(number)).expect("saves"));
    let bytes = storage.read_whole("E1.cpe").expect("a file");
    (storage, bytes)
}

fn open(storage: &Arc<Forgetful>, bytes: &[u8]) -> Result<CheckpointFile, CheckpointError> {
    storage.replace("E1.cpe", bytes).expect("a file");
    CheckpointFile::open(storage.clone(), GroupKind::Extract, &group("e1"))
}

/// The files in `fixtures` were written by a program that knows docs/formats/checkpoint.md only.
#[test]
fn files_of_layout_1_are_read_for_ever() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/checkpoint-1");
    let storage = Directory::new(folder);
    let history = CheckpointFile::read(&storage, GroupKind::Extract, &group("e1"), 1000).expect("an Extract's file");
    assert_eq!(history.len(), 100, "the ring keeps so many");
    let latest = &history[0];
    assert_eq!((latest.created, latest.started), (time(1_700_000_000_000_000), Some(time(1_700_000_001_000_000))));
    assert_eq!((latest.updated, latest.stop_status), (time(1_700_000_000_000_151), StopStatus::Active));
    let body = latest.extract().expect("an Extract");
    assert_eq!(body.startup.position.as_str(), "00000000000000000001");
    assert_eq!(
        (body.recovery.position.as_str(), body.recovery.time),
        ("00000000000000000151", Some(time(1_700_000_000_500_000)))
    );
    assert_eq!(body.current.position.as_str(), "00000000000000000152");
    assert_eq!(body.written, Some(commit("00000000000000000151", "t151", 1_700_000_000_400_000)));
    assert_eq!((body.trails[0].name.as_str(), body.trails[0].megabytes), ("./dirdat/aa", 500));
    assert_eq!(body.trails[0].position, Some(Position::new(3, 1510)));

    let history =
        CheckpointFile::read(&storage, GroupKind::Replicat, &group("r_long$9"), 0).expect("a Replicat's file");
    assert_eq!((history[0].created, history[0].started), (time(-1), None));
    assert_eq!(history[0].stop_status, StopStatus::Graceful);
    let body = history[0].replicat().expect("a Replicat");
    assert_eq!(body.trail, "./dirdat/ключ/aa");
    assert_eq!(body.checkpoint_table, TableName::new("my.schema", "check\"point"));
    assert_eq!(body.group_key, i64::MIN);
    assert_eq!((body.startup, body.current), (Position::new(0, 0), Position::new(999_999_999, u64::MAX)));
    assert_eq!(body.applied, Some(commit("00", "", -5)));
}

#[test]
fn what_is_saved_is_read_by_others_newest_first() {
    let (storage, _) = file_with(130);
    let numbers = |count| -> Vec<u64> {
        let history = CheckpointFile::read(&*storage, GroupKind::Extract, &group("e1"), count).expect("a file");
        history.iter().map(number).collect()
    };
    assert_eq!(numbers(3), [130, 129, 128]);
    assert_eq!(numbers(0), [130], "the latest is always there");
    assert_eq!(numbers(1000), (31..=130).rev().collect::<Vec<_>>());
}

#[test]
fn slots_that_are_damaged_are_passed_over() {
    let (storage, whole) = file_with(3);
    for number_damaged in 1..=3 {
        let mut bytes = whole.clone();
        bytes[(number_damaged + 1) * BLOCK + 25] ^= 1;
        let file = open(&storage, &bytes).expect("two whole checkpoints are left");
        assert_eq!(number(file.latest()), if number_damaged == 3 { 2 } else { 3 });
        assert_eq!(file.damaged_slots(), 1);
    }
}

#[test]
fn a_file_without_a_whole_checkpoint_is_damaged() {
    let (storage, whole) = file_with(2);
    let mut all_slots = whole.clone();
    all_slots[BLOCK..].fill(0xff);
    let mut header = whole.clone();
    header[13] ^= 1;
    for bytes in [&[][..], &whole[..20], &whole[..BLOCK], &[0; 4096], &all_slots, &header] {
        assert!(matches!(open(&storage, bytes), Err(CheckpointError::Damaged { .. })), "{} bytes", bytes.len());
    }
}

#[test]
fn a_whole_slot_that_makes_no_sense_is_not_passed_over() {
    let (storage, mut bytes) = file_with(2);
    // Checkpoint 2 again, with a payload that is JSON but no checkpoint.
    let mut slot = b"DCKP\0\0\0\x02\0\0\0\0\0\0\0\x02".to_vec();
    let checksum = crc32fast::hash(&[&slot[..], b"{}"].concat());
    slot.extend(checksum.to_be_bytes());
    slot.extend(b"{}");
    bytes[3 * BLOCK..3 * BLOCK + slot.len()].copy_from_slice(&slot);
    assert!(matches!(open(&storage, &bytes), Err(CheckpointError::Damaged { .. })));
}

#[test]
fn a_file_of_another_group_or_version_is_refused() {
    let (storage, whole) = file_with(2);
    storage.replace("E2.cpe", &whole).expect("a file");
    storage.replace("E1.cpr", &whole).expect("a file");
    let open_as = |kind, name| CheckpointFile::open(storage.clone(), kind, &group(name)).err();
    assert!(matches!(open_as(GroupKind::Extract, "e2"), Some(CheckpointError::Foreign { .. })));
    assert!(matches!(open_as(GroupKind::Replicat, "e1"), Some(CheckpointError::Foreign { .. })));
    let mut later = whole;
    later[9] = 2;
    let checksum = crc32fast::hash(&later[..28]);
    later[28..32].copy_from_slice(&checksum.to_be_bytes());
    assert!(matches!(open(&storage, &later), Err(CheckpointError::Foreign { .. })));
}

#[test]
fn a_missing_file_is_never_made() {
    let storage = storage();
    let opened = CheckpointFile::open(storage.clone(), GroupKind::Replicat, &group("r1"));
    assert!(matches!(opened, Err(CheckpointError::Lost { .. })));
    assert!(matches!(
        CheckpointFile::read(&*storage, GroupKind::Replicat, &group("r1"), 1),
        Err(CheckpointError::Lost { .. })
    ));
    assert!(storage.list().expect("lists").is_empty());
}

#[test]
fn a_group_that_exists_is_not_added_again() {
    let storage = storage();
    let add = || CheckpointFile::create(storage.clone(), GroupKind::Replicat, &group("r1"), &replicat());
    add().expect("a new group");
    let before = storage.read_whole("R1.cpr").expect("a file");
    assert!(matches!(add(), Err(CheckpointError::Exists { .. })));
    assert_eq!(storage.read_whole("R1.cpr").expect("a file"), before);
    CheckpointFile::delete(&*storage, GroupKind::Replicat, &group("r1")).expect("deletes");
    CheckpointFile::delete(&*storage, GroupKind::Replicat, &group("r1")).expect("deleting twice is no error");
    add().expect("a new group");
}

#[test]
fn a_checkpoint_that_does_not_fit_is_refused_and_the_file_stays_usable() {
    let (storage, bytes) = file_with(1);
    let mut file = open(&storage, &bytes).expect("a file");
    let mut large = replicat_sized_extract(3000);
    assert!(matches!(file.save(&large), Err(CheckpointError::TooLarge { bytes_max: 2028, .. })));
    large = replicat_sized_extract(1000);
    file.save(&large).expect("a shorter one fits");
    assert_eq!(*file.latest(), large);
}

fn replicat_sized_extract(name_bytes: usize) -> process::Checkpoint {
    let mut checkpoint = extract(2);
    if let process::CheckpointBody::Extract(body) = &mut checkpoint.body {
        body.trails[0].name = "x".repeat(name_bytes);
    }
    checkpoint
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn damage_anywhere_gives_an_older_checkpoint_or_an_error(
        places in prop::collection::vec((0..BLOCK * 6, any::<u8>()), 1..20),
        length in prop::option::of(0..BLOCK * 6),
    ) {
        let (storage, mut bytes) = file_with(4);
        for (place, value) in places {
            bytes[place] = value;
        }
        bytes.truncate(length.unwrap_or(bytes.len()));
        if let Ok(file) = open(&storage, &bytes) {
            prop_assert_eq!(file.latest(), &extract(number(file.latest())));
        }
    }
}
