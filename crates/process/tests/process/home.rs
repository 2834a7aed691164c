//! Homes, locks, reports and the event log in real directories.

use crate::sample::{extract, group, home, time};
use process::{
    CheckpointFile, Code, EventLog, GroupKind, GroupLock, GroupStatus, Home, HomeError, HomeLock, Journal, LockError,
    Message, Report, ReportHeader, Statistics, StopStatus, status,
};
use std::fs;
use std::sync::Arc;
use trail::storage::Directory;

#[test]
fn a_home_is_made_once_and_again_without_harm() {
    let (_directory, home) = home();
    fs::write(home.dirprm().join("e1.prm"), "EXTRACT e1").expect("writes");
    fs::remove_dir(home.dirtmp()).expect("removes");
    let again = Home::create(home.path()).expect("is a home already");
    assert_eq!(again, home);
    assert!(home.dirtmp().is_dir(), "what is missing is made");
    assert_eq!(fs::read_to_string(home.dirprm().join("e1.prm")).expect("reads"), "EXTRACT e1");
    assert_eq!(Home::open(home.path()).expect("opens"), home);
}

#[test]
fn a_directory_with_something_else_in_it_does_not_become_a_home() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    fs::write(directory.path().join("thesis.txt"), "precious").expect("writes");
    assert!(matches!(Home::create(directory.path()), Err(HomeError::Occupied { entry, .. }) if entry == "thesis.txt"));
    let names: Vec<_> = fs::read_dir(directory.path()).expect("reads").collect();
    assert_eq!(names.len(), 1, "nothing was made in it");
}

#[test]
fn a_home_whose_making_was_killed_is_made_by_the_next_try() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    fs::write(directory.path().join("drover-home.new"), "Drover ho").expect("writes");
    assert!(matches!(Home::open(directory.path()), Err(HomeError::NotAHome { .. })));
    let home = Home::create(directory.path()).expect("goes on");
    assert_eq!(Home::open(directory.path()).expect("is a home"), home);
}

#[test]
fn what_is_no_home_is_not_opened_and_nothing_is_made() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    assert!(matches!(Home::open(directory.path()), Err(HomeError::NotAHome { .. })));
    assert!(matches!(Home::open(directory.path().join("none")), Err(HomeError::NotAHome { .. })));
    assert!(!directory.path().join("none").exists());
    let home = Home::create(directory.path()).expect("an empty directory");
    fs::remove_dir(home.dirdat()).expect("removes");
    assert!(matches!(Home::open(directory.path()), Err(HomeError::NotAHome { .. })), "the trails are gone");
    assert!(!home.dirdat().exists());
}

#[test]
fn a_home_of_another_layout_is_refused() {
    let (_directory, home) = home();
    fs::write(home.path().join("drover-home"), "Drover home, layout 99\n").expect("writes");
    for result in [Home::open(home.path()), Home::create(home.path())] {
        assert!(matches!(result, Err(HomeError::Version { found, .. }) if found == "99"));
    }
}

#[test]
fn the_groups_of_a_home_are_those_with_a_checkpoint_file() {
    let (_directory, home) = home();
    for name in ["R1.cpr", "E10.cpe", "E1.cpe", "E1.lock", "home.lock", "e2.cpe", "E3.cpe.new", "TOOLONGNAME.cpe"] {
        fs::write(home.dirchk().join(name), "").expect("writes");
    }
    let expected =
        [(GroupKind::Extract, group("E1")), (GroupKind::Extract, group("E10")), (GroupKind::Replicat, group("R1"))];
    assert_eq!(home.groups().expect("reads"), expected);
}

#[test]
fn one_process_at_a_time_runs_a_group() {
    let (_directory, home) = home();
    let e1 = group("e1");
    assert_eq!(GroupLock::holder(&home, &e1).expect("asks"), None);
    assert!(!home.dirchk().join("E1.lock").exists(), "asking makes nothing");
    let lock = GroupLock::acquire(&home, &e1).expect("free");
    let holder = GroupLock::holder(&home, &e1).expect("asks").expect("held");
    assert_eq!(holder.process_id, Some(std::process::id()));
    let refused = GroupLock::acquire(&home, &e1).expect_err("held");
    assert!(
        matches!(&refused, LockError::GroupRunning { holder, .. } if holder.process_id == Some(std::process::id()))
    );
    assert!(refused.to_string().contains(&std::process::id().to_string()));
    let _other = GroupLock::acquire(&home, &group("e2")).expect("another group is free");
    drop(lock);
    assert_eq!(GroupLock::holder(&home, &e1).expect("asks"), None);
    GroupLock::acquire(&home, &e1).expect("free again");
}

#[test]
fn one_command_at_a_time_changes_a_home() {
    let (_directory, home) = home();
    let lock = HomeLock::acquire(&home).expect("free");
    assert!(matches!(HomeLock::acquire(&home), Err(LockError::HomeInUse { .. })));
    drop(lock);
    HomeLock::acquire(&home).expect("free again");
}

#[test]
fn the_status_follows_lock_and_checkpoint() {
    let (_directory, home) = home();
    let storage = Arc::new(Directory::new(home.dirchk()));
    let mut checkpoint = extract(1);
    checkpoint.started = None;
    let e1 = group("e1");
    let mut file = CheckpointFile::create(storage, GroupKind::Extract, &e1, &checkpoint).expect("a new group");
    let current = |file: &CheckpointFile| {
        let is_locked = GroupLock::holder(&home, &e1).expect("asks").is_some();
        status(is_locked, file.latest())
    };
    assert_eq!(current(&file), GroupStatus::Stopped, "never started");
    let lock = GroupLock::acquire(&home, &e1).expect("free");
    file.save(&extract(2)).expect("saves");
    assert_eq!(current(&file), GroupStatus::Running);
    drop(lock);
    assert_eq!(current(&file), GroupStatus::Abended, "ended without saying so");
    let mut stopped = extract(3);
    stopped.stop_status = StopStatus::Graceful;
    file.save(&stopped).expect("saves");
    assert_eq!(current(&file), GroupStatus::Stopped);
}

fn header(home: &Home, name: &str, started: i64) -> ReportHeader {
    ReportHeader {
        program: "Drover Extract for SQLite".to_owned(),
        version: "1".to_owned(),
        started: time(started),
        kind: GroupKind::Extract,
        group: group(name),
        home: home.path().display().to_string(),
        host: "h".to_owned(),
        process_id: 1,
        parameter_file: "e1.prm".to_owned(),
        parameters: format!("run {started}"),
    }
}

#[test]
fn reports_age_and_ten_earlier_ones_are_kept() {
    let (_directory, home) = home();
    Report::open(&home, &header(&home, "e10", 777)).expect("opens");
    for run in 1..=13 {
        Report::open(&home, &header(&home, "e1", run)).expect("opens");
    }
    let report = |name: &str| fs::read_to_string(home.dirrpt().join(name)).unwrap_or_default();
    assert!(report("E1.rpt").contains("run 13\n"));
    assert!(report("E1-0.rpt").contains("run 12\n"));
    assert!(report("E1-9.rpt").contains("run 3\n"));
    assert!(report("E10.rpt").contains("run 777\n"), "another group's report is left alone");
    assert_eq!(fs::read_dir(home.dirrpt()).expect("reads").count(), 12);
}

#[test]
fn a_journal_writes_to_report_and_event_log() {
    let (_directory, home) = home();
    let report = Report::open(&home, &header(&home, "e1", 1)).expect("opens");
    let log = EventLog::open(&home, "Drover Extract for SQLite", Some("e1.prm")).expect("opens");
    let mut journal = Journal::new(report, log);
    journal.say(time(0), Code::GroupStarted, "EXTRACT E1 started");
    journal.statistics(time(60_000_000), &Statistics::new(time(0)));
    let mut console = EventLog::open(&home, "Drover Console", None).expect("opens");
    console
        .append(&Message { time: time(1_000_000), code: Code::Command, text: "INFO ALL".to_owned() })
        .expect("writes");
    let report = fs::read_to_string(home.report_file(&group("e1"))).expect("reads");
    assert!(report.contains("1970-01-01 00:00:00  INFO    DRV-00001  EXTRACT E1 started\n"));
    assert!(report.contains("Report at 1970-01-01 00:01:00 (activity since 1970-01-01 00:00:00)"));
    let log = fs::read_to_string(home.event_log()).expect("reads");
    assert_eq!(
        log,
        "1970-01-01 00:00:00  INFO    DRV-00001  Drover Extract for SQLite, e1.prm:  EXTRACT E1 started.\n\
         1970-01-01 00:00:01  INFO    DRV-00004  Drover Console:  INFO ALL.\n"
    );
}
