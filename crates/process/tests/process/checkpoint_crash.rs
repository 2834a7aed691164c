//! Power is lost, or the process killed, at every step of writing checkpoints.

use crate::sample::{extract, group, number};
use process::{CheckpointError, CheckpointFile, GroupKind};
use std::sync::Arc;
use trail::storage::{Forgetful, Storage};

fn open(storage: &Forgetful) -> Result<CheckpointFile, CheckpointError> {
    CheckpointFile::open(Arc::new(storage.clone()), GroupKind::Extract, &group("e1"))
}

fn create(storage: &Forgetful) -> Result<CheckpointFile, CheckpointError> {
    CheckpointFile::create(Arc::new(storage.clone()), GroupKind::Extract, &group("e1"), &extract(1))
}

/// Saves checkpoints up to `last`; returns the number of the last one that is durable by the promise of the call.
fn save_until(file: &mut CheckpointFile, last: u64) -> u64 {
    let mut durable = number(file.latest());
    while durable < last && file.save(&extract(durable + 1)).is_ok() {
        durable += 1;
    }
    durable
}

#[test]
fn a_crash_at_any_step_of_saving_leaves_the_last_checkpoint_or_the_one_in_flight() {
    // Past the end of the ring, so that slots are overwritten.
    const BEFORE: u64 = 120;
    const SAVES: u64 = 4;
    let mut torn = 0;
    for seed in 0..40 {
        for calls in 0..=2 * SAVES {
            let storage = Forgetful::new(seed);
            save_until(&mut create(&storage).expect("a new group"), BEFORE);
            let mut file = open(&storage).expect("a file");
            storage.fail_after(calls);
            let durable = save_until(&mut file, BEFORE + SAVES);
            storage.crash();
            let file = open(&storage).unwrap_or_else(|error| panic!("seed {seed}, {calls} calls: {error}"));
            let found = number(file.latest());
            assert!(found == durable || found == durable + 1, "seed {seed}, {calls} calls: {found} after {durable}");
            assert_eq!(*file.latest(), extract(found), "seed {seed}, {calls} calls");
            torn += file.damaged_slots();
        }
    }
    assert!(torn > 10, "some of the crashes tear a slot: {torn}");
}

#[test]
fn a_killed_process_leaves_what_it_saved_and_the_next_goes_on() {
    let storage = Forgetful::new(1);
    save_until(&mut create(&storage).expect("a new group"), 7);
    for kill in 0..30 {
        let mut file = open(&storage).expect("a file");
        storage.fail_after(kill);
        let durable = save_until(&mut file, 1000);
        storage.kill();
        let found = number(open(&storage).expect("a file").latest());
        assert!(found == durable || found == durable + 1, "kill {kill}: {found} after {durable}");
    }
}

#[test]
fn a_crash_while_a_group_is_added_leaves_it_added_or_to_be_added_again() {
    for seed in 0..60 {
        for calls in 0..=3 {
            let storage = Forgetful::new(seed);
            storage.fail_after(calls);
            let added = create(&storage).is_ok();
            storage.crash();
            match open(&storage) {
                Ok(file) => assert_eq!(*file.latest(), extract(1)),
                Err(CheckpointError::Lost { .. } | CheckpointError::Damaged { .. }) if !added => {}
                Err(error) => panic!("seed {seed}, {calls} calls: {error}"),
            }
            CheckpointFile::delete(&storage, GroupKind::Extract, &group("e1")).expect("deletes");
            create(&storage).expect("adds again");
        }
    }
}

#[test]
fn after_a_failed_save_nothing_is_written_until_the_file_is_opened_anew() {
    let storage = Forgetful::new(1);
    let mut file = create(&storage).expect("a new group");
    storage.fail_after(1);
    assert!(matches!(file.save(&extract(2)), Err(CheckpointError::Io { action: "sync", .. })));
    let calls = storage.calls();
    assert!(matches!(file.save(&extract(3)), Err(CheckpointError::Poisoned { .. })));
    assert_eq!(storage.calls(), calls, "the disk was not touched");
    assert_eq!(*file.latest(), extract(1));
}

#[test]
fn a_full_disk_refuses_a_new_group_and_lets_an_old_one_go_on() {
    let storage = Forgetful::new(1);
    storage.full_after(Some(100_000));
    assert!(matches!(create(&storage), Err(CheckpointError::Full { .. })));
    assert!(storage.list().expect("lists").is_empty(), "nothing half made is left");
    storage.full_after(None);
    let mut file = create(&storage).expect("a new group");
    storage.full_after(Some(storage.bytes()));
    assert_eq!(save_until(&mut file, 300), 300);
}
