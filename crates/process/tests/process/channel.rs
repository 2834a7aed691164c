//! Asking a running group.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use process::channel::{Answer, ChannelError, CommandChannel, Request, ask};
use process::{GroupLock, GroupName, Home};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

const WAIT: Duration = Duration::from_secs(30);

fn home(folder: &Path) -> (Home, GroupName) {
    (Home::create(folder).unwrap(), GroupName::parse("E1").unwrap())
}

/// A group that answers one request with what it was asked.
fn answer_one(channel: &CommandChannel) {
    let pending = channel.wait(WAIT).expect("a request");
    let text = format!("{:?}", pending.request());
    pending.answer(&Answer::told([text]));
}

#[test]
fn a_request_is_answered_by_the_loop_that_takes_it() {
    let folder = tempfile::tempdir().unwrap();
    let (home, group) = home(folder.path());
    let _lock = GroupLock::acquire(&home, &group).unwrap();
    let channel = CommandChannel::open(&home, &group).unwrap();
    let request = Request::SkipTransaction { transaction: "742".to_owned() };
    std::thread::scope(|scope| {
        let asked = scope.spawn(|| ask(&home, &group, &request, WAIT));
        answer_one(&channel);
        let answer = asked.join().unwrap().unwrap();
        assert_eq!(answer, Answer::told([format!("{request:?}")]));
    });
    let socket = home.dirtmp().join("E1.sock");
    assert_eq!(std::fs::metadata(&socket).unwrap().permissions().mode() & 0o777, 0o600);
    drop(channel);
    assert!(!socket.exists(), "the socket goes with the channel");
}

#[test]
fn a_home_may_lie_deeper_than_a_sockets_path_may_be_long() {
    let folder = tempfile::tempdir().unwrap();
    let deep = folder.path().join("a".repeat(90)).join("b".repeat(90));
    std::fs::create_dir_all(&deep).unwrap();
    let (home, group) = home(&deep);
    let _lock = GroupLock::acquire(&home, &group).unwrap();
    let channel = CommandChannel::open(&home, &group).unwrap();
    std::thread::scope(|scope| {
        let asked = scope.spawn(|| ask(&home, &group, &Request::Status, WAIT));
        answer_one(&channel);
        assert_eq!(asked.join().unwrap().unwrap(), Answer::told(["Status"]));
    });
}

#[test]
fn a_group_that_does_not_run_is_told_from_one_that_does_not_answer() {
    let folder = tempfile::tempdir().unwrap();
    let (home, group) = home(folder.path());
    let answer = ask(&home, &group, &Request::Status, WAIT);
    assert!(matches!(answer, Err(ChannelError::NotRunning { .. })), "{answer:?}");
    // What a killed process leaves.
    let lock = GroupLock::acquire(&home, &group).unwrap();
    std::mem::forget(CommandChannel::open(&home, &group).unwrap());
    drop(lock);
    let answer = ask(&home, &group, &Request::Status, WAIT);
    assert!(matches!(answer, Err(ChannelError::NotRunning { .. })), "{answer:?}");
    // One that hangs.
    let _lock = GroupLock::acquire(&home, &group).unwrap();
    let channel = CommandChannel::open(&home, &group).unwrap();
    let answer = ask(&home, &group, &Request::Status, Duration::from_millis(50));
    let id = std::process::id();
    assert!(matches!(answer, Err(ChannelError::Silent { process_id: Some(it), .. }) if it == id), "{answer:?}");
    drop(channel);
    // One without a socket.
    let answer = ask(&home, &group, &Request::Status, WAIT);
    assert!(matches!(answer, Err(ChannelError::Silent { .. })), "{answer:?}");
}

#[test]
fn who_waits_hears_that_the_group_has_ended() {
    let folder = tempfile::tempdir().unwrap();
    let (home, group) = home(folder.path());
    let _lock = GroupLock::acquire(&home, &group).unwrap();
    let channel = CommandChannel::open(&home, &group).unwrap();
    std::thread::scope(|scope| {
        let asked = scope.spawn(|| ask(&home, &group, &Request::Status, WAIT));
        drop(channel.wait(WAIT).expect("a request"));
        let answer = asked.join().unwrap().unwrap();
        assert!(matches!(&answer, Answer::Refused { what, .. } if what.contains("ended")), "{answer:?}");
    });
}

#[test]
fn nonsense_is_refused_and_holds_nobody_up() {
    let folder = tempfile::tempdir().unwrap();
    let (home, group) = home(folder.path());
    let _lock = GroupLock::acquire(&home, &group).unwrap();
    let channel = CommandChannel::open(&home, &group).unwrap();
    let socket = home.dirtmp().join("E1.sock");
    for nonsense in [&b"{\"request\":\"dance\"}\n"[..], b"\n", b"\xff\xfe\n", b"{}\n"] {
        let mut stream = UnixStream::connect(&socket).unwrap();
        stream.write_all(nonsense).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.is_empty() || answer.contains("refused"), "{answer}");
    }
    // One that goes away in the middle.
    UnixStream::connect(&socket).unwrap().write_all(b"{\"requ").unwrap();
    std::thread::scope(|scope| {
        let asked = scope.spawn(|| ask(&home, &group, &Request::LogEnd, WAIT));
        answer_one(&channel);
        assert_eq!(asked.join().unwrap().unwrap(), Answer::told(["LogEnd"]));
    });
    assert!(channel.next().is_none());
}
