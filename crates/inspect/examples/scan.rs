//! How fast a long trail file is counted and searched on one core, and how soon the first record is shown; printed as JSON.
//! Takes the length of the file in bytes.

use change::{
    Change, Column, Commit, Csn, LogicalType, Operation, RecordAddress, Row, TableDefinition, TableName, Timestamp,
    TransactionId, Value,
};
use inspect::tools::{Selection, SelectionWish, TrailFiles, ValueTest, Work, count};
use inspect::{Given, Hands, Progress, Session};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;
use trail::cipher::MasterKeys;
use trail::storage::{Directory, Storage};
use trail::{TrailName, Writer, WriterOptions};

const DEFAULT_BYTES: u64 = 2_000_000_000;
const ROWS_PER_TRANSACTION: u64 = 100;
const NAME: &str = "aa000000000";

struct Machine {
    directory: PathBuf,
}

impl Hands for Machine {
    fn directory(&self, _path: &Path) -> Arc<dyn Storage> {
        Arc::new(Directory::new(&self.directory))
    }

    fn absolute(&self, path: &Path) -> PathBuf {
        path.to_owned()
    }

    fn is_same(&self, one: &Path, other: &Path) -> bool {
        one == other
    }

    fn now(&self) -> Timestamp {
        Timestamp::default()
    }

    fn local_offset(&self, _instant: Timestamp) -> i32 {
        0
    }

    fn modified(&self, _path: &Path) -> Option<Timestamp> {
        None
    }

    fn keys(&self) -> Result<Arc<dyn MasterKeys>, String> {
        Err("there is no wallet".to_owned())
    }

    fn run_program(&self, _command: &str) -> Result<(), String> {
        Ok(())
    }

    fn is_interrupted(&self) -> bool {
        false
    }

    fn progress(&self, _progress: Progress) {}
}

/// Rows of six columns, about as long as those of a shop; the one that is looked for comes last.
fn write(directory: &Path, bytes: u64) -> u64 {
    let column = |name: &str| Column::new(name, LogicalType::Text, "text");
    let columns = ["id", "name", "street", "city", "price", "at"].map(column);
    let [id, rest @ ..] = columns;
    let columns: Vec<Column> = std::iter::once(id.with_key(0)).chain(rest).collect();
    let table = Arc::new(TableDefinition { name: TableName::new("public", "customer"), columns: columns.into() });
    let options =
        WriterOptions::new(TrailName::parse("aa").expect("two letters"), u64::MAX, Arc::new(Timestamp::default));
    let mut writer = Writer::open(Arc::new(Directory::new(directory)), options).expect("opens");
    let (mut number, mut transaction) = (0_u64, 0_u64);
    loop {
        transaction += 1;
        let commit = Commit {
            csn: Csn::new(format!("{transaction:016X}/{transaction:08X}")),
            transaction: TransactionId::new(transaction.to_string()),
            time: Timestamp::from_unix_micros(1_700_000_000_000_000 + transaction.cast_signed() * 1000),
        };
        writer.begin(&commit).expect("begins");
        for _ in 0..ROWS_PER_TRANSACTION {
            number += 1;
            let (id, name) = (number.to_string(), format!("customer number {number}"));
            let values = [
                id.as_str(),
                &name,
                "12 a street of some length",
                "a city",
                "1234.56",
                "2026-11-30 12:34:56.789012+00",
            ];
            let new = Row::from_values(values.map(|value| Value::Bytes(value.as_bytes())));
            let address = RecordAddress { position: number, offset: 0 };
            let change = Change { table: Arc::clone(&table), operation: Operation::Insert { new }, address };
            writer.append(&change).expect("appends");
        }
        let end = writer.commit().expect("commits");
        if end.rba >= bytes {
            writer.close().expect("closes");
            return number;
        }
    }
}

fn main() {
    let bytes = std::env::args().nth(1).map_or(DEFAULT_BYTES, |text| text.parse().expect("a number of bytes"));
    let folder = tempfile::tempdir().expect("a folder");
    let rows = write(folder.path(), bytes);
    let storage: Arc<dyn Storage> = Arc::new(Directory::new(folder.path()));
    let length = storage.open_read(NAME).and_then(|file| file.len()).expect("has a length");
    let session = || Session::new(Box::new(Machine { directory: folder.path().to_owned() }), PathBuf::from("."));
    let run = |session: &mut Session, line: &str| {
        let mut text = Vec::new();
        session.execute(line, &mut text).expect("is done");
        String::from_utf8(text).expect("is text")
    };

    let start = Instant::now();
    let shown = run(&mut session(), &format!("OPEN {NAME}; POS LAST; NEXT"));
    let first = start.elapsed();
    assert!(shown.contains("public.customer"), "{shown}");

    let mut counting = session();
    run(&mut counting, &format!("OPEN {NAME}"));
    let start = Instant::now();
    let counted = run(&mut counting, "COUNT");
    let count_seconds = start.elapsed().as_secs_f64();
    assert!(counted.lines().any(|line| line.split_whitespace().eq(["Insert", &rows.to_string()])), "{counted}");

    let values = vec![ValueTest::Column { name: "name".to_owned(), value: format!("customer number {rows}") }];
    let mut selection = Selection::new(SelectionWish { values, ..SelectionWish::default() }).expect("makes sense");
    let files = TrailFiles::find(storage, NAME).expect("is there");
    let (mut sink, given) = (std::io::sink(), Given::default());
    let mut work = Work { output: &mut sink, given: &given, progress: &|_| {} };
    let start = Instant::now();
    let found = count(&files, &mut selection, &mut work).expect("searches");
    let grep_seconds = start.elapsed().as_secs_f64();
    assert_eq!(found, 1);

    let rate = |seconds: f64| length as f64 / seconds / 1e9;
    println!(
        "{{\"bytes\":{length},\"records\":{rows},\"count_gb_s\":{:.3},\"grep_gb_s\":{:.3},\"first_ms\":{:.2}}}",
        rate(count_seconds),
        rate(grep_seconds),
        first.as_secs_f64() * 1e3
    );
}
