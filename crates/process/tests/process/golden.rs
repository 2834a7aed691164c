//! What operators read. With `DROVER_BLESS=1` in the environment the expected files are rewritten.

use crate::sample::{group, time};
use change::{OperationKind, TableName};
use process::{
    CheckpointError, Code, EventLog, Failure, FilterReason, GroupKind, GroupName, Holder, Home, HomeError, Journal,
    LockError, Report, ReportHeader, Statistics,
};
use std::fs;
use std::io;
use std::path::Path;
use trail::Position;

fn check(name: &str, actual: &str) {
    check_file(&Path::new(env!("CARGO_MANIFEST_DIR")).join("testscripts").join(name), actual);
}

fn check_file(file: &Path, actual: &str) {
    if std::env::var_os("DROVER_BLESS").is_some_and(|value| value == "1") {
        fs::write(file, actual).expect("a writable file");
    }
    let expected = fs::read_to_string(file).unwrap_or_default();
    assert!(actual == expected, "{} differs, DROVER_BLESS=1 rewrites it\n{actual}", file.display());
}

fn count(statistics: &mut Statistics, table: &TableName, kind: OperationKind, read: u64, written: u64) {
    let place = statistics.table(table);
    let counts = statistics.counts_mut(place, kind);
    counts.read += read;
    counts.written += written;
}

#[test]
fn golden_report_of_a_run() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let home = Home::create(directory.path()).expect("a home");
    let header = ReportHeader {
        program: "Drover Replicat for SQLite".to_owned(),
        version: "0.1.0".to_owned(),
        started: time(1_700_000_000_000_000),
        kind: GroupKind::Replicat,
        group: group("r1"),
        home: "/srv/drover".to_owned(),
        host: "db1".to_owned(),
        process_id: 4711,
        parameter_file: "r1.prm".to_owned(),
        parameters: "REPLICAT r1\nTARGETDB postgres://scott:***@db2/shop\nMAP main.*, TARGET shop.*;\n".to_owned(),
    };
    let report = Report::open(&home, &header).expect("opens");
    let log = EventLog::open(&home, "Drover Replicat for SQLite", Some("r1.prm")).expect("opens");
    let mut journal = Journal::new(report, log);
    let start = 1_700_000_000_000_000;
    journal.say(time(start), Code::GroupStarted, "REPLICAT R1 started at 000000003:1234");
    let mut statistics = Statistics::new(time(start));
    journal.statistics(time(start + 1_000_000), &statistics);

    let (orders, weird) = (TableName::new("main", "orders"), TableName::new("main", "a\"b"));
    count(&mut statistics, &orders, OperationKind::Insert, 1_234_567, 1_234_567);
    count(&mut statistics, &orders, OperationKind::Delete, 5, 3);
    count(&mut statistics, &weird, OperationKind::Update, 10, 0);
    let place = statistics.table(&weird);
    statistics.counts_mut(place, OperationKind::Update).filter(FilterReason::Excluded, 9);
    statistics.counts_mut(place, OperationKind::Update).filter(FilterReason::AlreadyDone, 1);
    assert!(!statistics.balanced());
    journal.statistics(time(start + 2_000_000), &statistics);
    let place = statistics.table(&orders);
    statistics.counts_mut(place, OperationKind::Delete).filter(FilterReason::Abandoned, 2);
    assert!(statistics.balanced());
    assert_eq!(statistics.counts(&orders, OperationKind::Delete).filtered(FilterReason::Abandoned), 2);

    let failure = Failure::new(Code::RowDuplicate, "the target did not take an insert into main.orders")
        .with_object("main.orders")
        .with_position(Position::new(3, 999).to_string())
        .with_cause(&io::Error::other("UNIQUE constraint failed: orders.number"));
    journal.fail(time(start + 3_000_000), &failure);
    journal.statistics(time(start + 3_000_000), &statistics);
    check("report.txt", &fs::read_to_string(home.report_file(&header.group)).expect("reads"));
    check("event_log.txt", &fs::read_to_string(home.event_log()).expect("reads"));
}

#[test]
fn golden_failures_name_object_position_cause_and_next_step() {
    let full = || io::Error::from(io::ErrorKind::StorageFull);
    let (file, place) = (|| "E1.cpe".to_owned(), || "/srv/drover/dirchk".to_owned());
    let e1 = || GroupName::parse("e1").expect("a name");
    let kind = GroupKind::Extract;
    let checkpoints = [
        CheckpointError::Lost { kind, group: e1(), file: file(), place: place() },
        CheckpointError::Exists { kind, group: e1(), file: file(), place: place() },
        CheckpointError::Damaged { file: file(), place: place(), reason: "it holds no whole checkpoint".to_owned() },
        CheckpointError::Foreign { file: file(), place: place(), reason: "it belongs to EXTRACT E2".to_owned() },
        CheckpointError::Full { file: file(), place: place(), source: full() },
        CheckpointError::Io {
            action: "sync",
            file: file(),
            place: place(),
            source: io::Error::other("input/output error"),
        },
        CheckpointError::Poisoned { file: file() },
        CheckpointError::TooLarge { file: file(), bytes: 3000, bytes_max: 2028 },
    ];
    let trail_file = || "aa000000003".to_owned();
    let trails = [
        trail::Error::Damaged { file: trail_file(), rba: 1234, source: trail::Damage::Frame },
        trail::Error::Foreign { file: trail_file(), reason: "it has no file header".to_owned() },
        trail::Error::Mismatch {
            trail: "aa".to_owned(),
            position: Position::new(3, 1234),
            reason: "it ends at 000000002:99".to_owned(),
        },
        trail::Error::Full { file: trail_file(), place: "/srv/drover/dirdat".to_owned(), rba: 1234, source: full() },
        trail::Error::Missing { file: trail_file() },
        trail::Error::Locked { trail: "aa".to_owned(), place: "/srv/drover/dirdat".to_owned() },
        trail::Error::Refused { table: TableName::new("main", "t"), reason: "a value has 500 MB".to_owned() },
        trail::Error::Poisoned { trail: "aa".to_owned() },
    ];
    let locks = [
        LockError::GroupRunning { group: e1(), holder: Holder { process_id: Some(4711) } },
        LockError::HomeInUse { home: "/srv/drover".into(), holder: Holder { process_id: None } },
    ];
    let homes = [
        HomeError::NotAHome { path: "/srv/drover".into(), reason: "it has no file drover-home".to_owned() },
        HomeError::Occupied { path: "/srv/drover".into(), entry: "thesis.txt".to_owned() },
        HomeError::Version { path: "/srv/drover".into(), found: "2".to_owned() },
    ];
    let data = Failure::new(Code::RowMissing, "the target did not take an update of main.orders")
        .with_object("main.orders")
        .with_position("000000003:1234")
        .with_cause(&io::Error::other("the row is missing"));
    let parameters = Failure::new(Code::ParameterWrong, "EXTRACT E1 did not start").with_cause(&io::Error::other(
        "dirprm/e1.prm:4:1: unknown parameter `TABEL`\n  4 | TABEL main.*;\n    | ^^^^^",
    ));
    let busy = Failure::new(Code::DatabaseBusy, "could not begin a transaction in the target");
    let failures = checkpoints.iter().map(Failure::from);
    let failures = failures.chain(trails.iter().map(Failure::from)).chain(locks.iter().map(Failure::from));
    let failures = failures.chain(homes.iter().map(Failure::from)).chain([data, parameters, busy]);
    let rendered: Vec<String> = failures.map(|failure| failure.render()).collect();
    check("failures.txt", &(rendered.join("\n\n") + "\n"));
}

#[test]
fn the_reference_page_of_messages_is_the_table_of_codes() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/messages.md");
    check_file(&page, &process::message_reference());
}
