//! What a storage promises, asked of both.

use std::io::ErrorKind;
use std::sync::mpsc;
use std::time::Duration;
use trail::storage::{Directory, Forgetful, Storage};

/// Long enough that only a lost wake-up reaches it.
const PATIENCE: Duration = Duration::from_secs(60);

fn conforms(storage: &dyn Storage) {
    let file = storage.create("f").expect("creates");
    assert_eq!(storage.create("f").err().map(|error| error.kind()), Some(ErrorKind::AlreadyExists));
    assert_eq!(storage.open("g").err().map(|error| error.kind()), Some(ErrorKind::NotFound));
    assert_eq!(storage.read_whole("g").err().map(|error| error.kind()), Some(ErrorKind::NotFound));

    file.write_at(b"hello", 0).expect("writes");
    file.write_at(b"y", 4).expect("overwrites");
    let reader = storage.open_read("f").expect("opens");
    let mut buffer = [0; 8];
    assert_eq!(reader.read_at(&mut buffer, 1).expect("reads"), 4);
    assert_eq!(&buffer[..4], b"elly");
    assert_eq!(reader.read_at(&mut buffer, 9).expect("reads past the end"), 0);

    file.set_len(2).expect("cuts");
    assert_eq!(reader.len().expect("has a length"), 2);
    file.sync().expect("syncs");
    storage.sync_directory().expect("syncs names");

    storage.replace("small", b"one").expect("replaces");
    storage.replace("small", b"two").expect("replaces again");
    assert_eq!(storage.read_whole("small").expect("reads"), b"two");
    let mut names = storage.list().expect("lists");
    names.sort();
    assert_eq!(names, ["f", "small"]);
    storage.rename("small", "other").expect("renames");
    assert_eq!(storage.read_whole("other").expect("reads"), b"two");
    assert!(storage.read_whole("small").is_err());
    storage.remove("other").expect("removes");
    assert_eq!(storage.list().expect("lists"), ["f"]);

    let lock = storage.lock("f.lock").expect("locks").expect("is free");
    assert!(storage.lock("f.lock").expect("asks").is_none());
    drop(lock);
    assert!(storage.lock("f.lock").expect("asks").is_some());
}

fn wakes(storage: &(dyn Storage + Sync)) {
    let mut watch = storage.watch("bell").expect("watches a file that does not exist");
    assert!(!watch.wait(Duration::ZERO).expect("asks"));
    storage.create("other").expect("creates").write_at(b"x", 0).expect("writes");
    let bell = storage.create("bell").expect("creates");
    assert!(watch.wait(PATIENCE).expect("wakes"), "a new file wakes");

    let (woken, wakes) = mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for _ in 0..3 {
                woken.send(watch.wait(PATIENCE).expect("waits")).expect("is heard");
            }
        });
        for round in 0..3 {
            bell.write_at(&[round], 0).expect("writes in place");
            assert!(wakes.recv().expect("answers"), "a write in place wakes");
        }
    });
}

#[test]
fn real_files_conform() {
    let directory = tempfile::tempdir().expect("a directory");
    conforms(&Directory::new(directory.path()));
}

#[test]
fn the_twin_conforms() {
    conforms(&Forgetful::new(1));
}

#[test]
fn a_change_of_a_real_file_wakes_its_watcher() {
    let directory = tempfile::tempdir().expect("a directory");
    wakes(&Directory::new(directory.path()));
}

#[test]
fn a_change_in_the_twin_wakes_its_watcher() {
    wakes(&Forgetful::new(1));
}
