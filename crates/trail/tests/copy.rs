//! Copies of trails: the same records in the same order, in the format of the input, whatever the files are like.

mod world;

use bytes::Bytes;
use change::{Operation, Row, TableDefinition, Value};
use std::sync::Arc;
use trail::cipher::Algorithm;
use trail::copy::{
    CopiedRecord, CopyBatch, CopyContent, CopyEverything, CopyOptions, CopyReader, CopyRules, CopyWriter, Signed,
};
use trail::format::bytes::Order;
use trail::format::header::FileHeader;
use trail::format::operation;
use trail::storage::{Forgetful, Storage};
use trail::{
    ChangeDetails, Cover, Error, Format, PartitionName, Producer, Reader, Record, Start, TrailName, UpdateImages,
    UserToken, Writer, WriterOptions,
};
use world::{Assembler, Keys, Transaction, append, change, options, row, table, trail_name, transaction};

const TRANSACTIONS: u64 = 30;

fn target_name() -> TrailName {
    TrailName::parse("bb").expect("two letters")
}

fn target_options(file_bytes_max: u64) -> CopyOptions {
    CopyOptions {
        trail: target_name(),
        display_name: "./dirdat/bb".to_owned(),
        file_bytes_max,
        producer: Producer { group: "P1".to_owned(), host: "elsewhere".to_owned(), ..Producer::default() },
        clock: Arc::new(|| change::Timestamp::from_unix_micros(1_700_000_000_000_000)),
        expected: None,
    }
}

/// Small and large transactions over two tables, rows that travel in parts, updates with both images.
fn history(tables: &[Arc<TableDefinition>; 2]) -> Vec<Transaction> {
    (1..=TRANSACTIONS)
        .map(|number| {
            let mut transaction = transaction(&tables[(number % 2) as usize], number, number % 4 + 1);
            let other = &tables[(number / 2 % 2) as usize];
            let (old, new) = (row(&["k", "u", "v"]), row(&["k", "w", "v"]));
            transaction.changes.push(change(other, number, Operation::Update { old: Some(old.clone()), new }));
            if number % 9 == 4 {
                let new = row(&["k", &"x".repeat(150_000), "v"]);
                transaction.changes.insert(1, change(other, number, Operation::Insert { new: new.clone() }));
                transaction.changes.insert(2, change(other, number, Operation::Update { old: Some(old.clone()), new }));
            }
            if number % 5 == 0 {
                transaction.changes.push(change(other, number, Operation::Delete { old }));
            }
            transaction
        })
        .collect()
}

/// Writes the history, with a writer that starts anew twice, once inside a transaction, and details on some changes.
fn write(storage: &Forgetful, history: &[Transaction], (format, cover): (Format, Cover), file_bytes_max: u64) {
    let options = || WriterOptions { format, cover: cover.clone(), ..options(file_bytes_max) };
    let mut writer = Writer::open(Arc::new(storage.clone()), options()).expect("opens");
    let partition = Arc::new(PartitionName { name: "P1".to_owned(), id: 7, flags: 1 });
    let has_definitions = format.layout(None).expect("is possible").has_definitions;
    for (index, transaction) in history.iter().enumerate() {
        if index == 10 {
            writer.close().expect("closes");
            writer = Writer::open(Arc::new(storage.clone()), options()).expect("opens");
        }
        if index == 20 {
            writer.begin(&transaction.commit).expect("begins");
            for change in &transaction.changes {
                writer.append(change).expect("appends");
            }
            writer.sync().expect("syncs");
            drop(writer);
            writer = Writer::open(Arc::new(storage.clone()), options()).expect("opens");
        }
        if index % 6 == 5 {
            let details = ChangeDetails {
                partition: has_definitions.then(|| Arc::clone(&partition)),
                user_tokens: vec![UserToken { name: "who".to_owned(), value: "me".to_owned() }],
                is_fetched: false,
            };
            writer.begin(&transaction.commit).expect("begins");
            for change in &transaction.changes {
                writer.append_with(change, Some(&details)).expect("appends");
            }
            writer.commit().expect("commits");
        } else {
            append(&mut writer, transaction).expect("appends");
        }
    }
    writer.close().expect("closes");
}

fn copy_reader(storage: &Forgetful, start: Start, rules: Box<dyn CopyRules>) -> CopyReader {
    CopyReader::open(Arc::new(storage.clone()), trail_name(), start, rules, Some(Keys::of(7, 1))).expect("opens")
}

fn put(writer: &mut CopyWriter, batch: &CopyBatch) -> Result<(), Error> {
    match &batch.content {
        CopyContent::File { header, definitions } => writer.begin_file(header, definitions),
        CopyContent::Records(records) => records.iter().try_for_each(|records| writer.append(records)),
    }
}

fn copy(from: &Forgetful, to: &Forgetful, rules: Box<dyn CopyRules>, file_bytes_max: u64) {
    let mut reader = copy_reader(from, Start::Beginning, rules);
    let mut writer = CopyWriter::open(Arc::new(to.clone()), target_options(file_bytes_max)).expect("opens");
    while let Some(batch) = reader.next().expect("reads") {
        put(&mut writer, &batch).expect("appends");
    }
    writer.close().expect("closes");
}

/// What a trail says about rows and restarts; without the marker of the copy's own writer there is none besides the input's.
fn said(storage: &Forgetful, trail: TrailName) -> Vec<Record> {
    let given = [table("a", 3), table("b", 3)];
    let reader = Reader::open_with(Arc::new(storage.clone()), trail, Start::Beginning, &given, Some(Keys::of(7, 1)));
    let mut reader = reader.expect("opens");
    let mut records = Vec::new();
    while let Some(entry) = reader.next().expect("reads") {
        match entry.record {
            Record::Header(_) | Record::Definition(_) | Record::Partition(_) | Record::Other { .. } => {}
            record => records.push(record),
        }
    }
    records
}

fn headers(storage: &Forgetful, trail: TrailName) -> Vec<FileHeader> {
    let mut reader = Reader::open(Arc::new(storage.clone()), trail, Start::Beginning).expect("opens");
    let mut headers = Vec::new();
    while let Ok(Some(entry)) = reader.next() {
        if let Record::Header(header) = entry.record {
            headers.push((*header).clone());
        }
    }
    headers
}

/// Formats and covers, each of which looks different on disk.
fn looks() -> Vec<(Format, Cover)> {
    let encryption = || Some((Algorithm::Aes256, Keys::of(7, 1)));
    let plain = Cover::default();
    let old = Format { level: Some(3), ..Format::default() };
    let separate =
        Format { level: Some(6), order: Some(Order::Big), updates: Some(UpdateImages::Separate), ..Format::default() };
    vec![
        (Format::default(), plain.clone()),
        (old, plain.clone()),
        (separate, plain),
        (Format::default(), Cover { encryption: None, is_compressed: true }),
        (Format::default(), Cover { encryption: encryption(), is_compressed: false }),
        (separate, Cover { encryption: encryption(), is_compressed: true }),
    ]
}

#[test]
fn a_copy_says_what_its_input_says_in_the_same_format() {
    let tables = [table("a", 3), table("b", 3)];
    let history = history(&tables);
    for (number, (format, cover)) in looks().into_iter().enumerate() {
        let source = Forgetful::new(1);
        write(&source, &history, (format, cover), 3_000);
        let expected = said(&source, trail_name());
        for file_bytes_max in [900, 5_000, 1 << 20] {
            let target = Forgetful::new(2);
            copy(&source, &target, Box::new(CopyEverything), file_bytes_max);
            assert!(said(&target, target_name()) == expected, "look {number}, files of {file_bytes_max} bytes");
            let (from, to) = (&headers(&source, trail_name())[0], &headers(&target, target_name())[0]);
            assert_eq!((to.level, to.has_definitions, &to.source), (from.level, from.has_definitions, &from.source));
            assert_eq!(to.uri_history, vec![from.uri.clone()]);
            assert_eq!((&*to.producer.group, &*to.file_name), ("P1", "./dirdat/bb000000000"));
        }
    }
}

#[test]
fn the_history_of_a_copy_of_a_copy_names_both_hops() {
    let source = Forgetful::new(1);
    let tables = [table("a", 3), table("b", 3)];
    write(&source, &history(&tables), (Format::default(), Cover::default()), 1 << 20);
    let middle = Forgetful::new(2);
    copy(&source, &middle, Box::new(CopyEverything), 1 << 20);
    let end = Forgetful::new(3);
    let reader =
        CopyReader::open(Arc::new(middle.clone()), target_name(), Start::Beginning, Box::new(CopyEverything), None);
    let mut reader = reader.expect("opens");
    let cc = TrailName::parse("cc").expect("two letters");
    let options = CopyOptions { trail: cc, display_name: "./dirdat/cc".to_owned(), ..target_options(1 << 20) };
    let mut writer = CopyWriter::open(Arc::new(end.clone()), options).expect("opens");
    while let Some(batch) = reader.next().expect("reads") {
        put(&mut writer, &batch).expect("appends");
    }
    writer.close().expect("closes");
    let hops = [headers(&middle, target_name())[0].uri.clone(), headers(&source, trail_name())[0].uri.clone()];
    assert_eq!(headers(&end, cc)[0].uri_history, hops);
    assert!(said(&end, cc) == said(&source, trail_name()));
}

/// Keeps one table, and of it everything but deletes where `deletes` is off.
struct Only(&'static str, bool);

impl CopyRules for Only {
    fn depends_on_operation(&self) -> bool {
        !self.1
    }

    fn keeps(&self, record: &CopiedRecord<'_>) -> bool {
        record.table == self.0 && (self.1 || record.operation != operation::DELETE)
    }
}

#[test]
fn what_rules_leave_is_whole_transactions_also_where_files_end_inside_them() {
    let tables = [table("a", 3), table("b", 3)];
    let history = history(&tables);
    for (number, (format, cover)) in looks().into_iter().enumerate() {
        for source_bytes_max in [600, 3_000, 1 << 20] {
            let source = Forgetful::new(1);
            write(&source, &history, (format, cover.clone()), source_bytes_max);
            for (name, deletes) in [("main.a", true), ("main.b", false), ("main.none", true)] {
                let target = Forgetful::new(2);
                copy(&source, &target, Box::new(Only(name, deletes)), 3_000);
                let kept = |change: &change::Change| {
                    change.table.name.to_string() == name
                        && (deletes || !matches!(change.operation, Operation::Delete { .. }))
                };
                let expected: Vec<Transaction> = history
                    .iter()
                    .map(|transaction| Transaction {
                        commit: transaction.commit.clone(),
                        changes: transaction.changes.iter().filter(|change| kept(change)).cloned().collect(),
                    })
                    .filter(|transaction| !transaction.changes.is_empty())
                    .collect();
                let mut assembler = Assembler::default();
                said(&target, target_name()).into_iter().for_each(|record| assembler.add(record));
                let found: Vec<Transaction> = assembler.complete;
                let commits = |list: &[Transaction]| -> Vec<String> {
                    list.iter().map(|each| each.commit.transaction.to_string()).collect()
                };
                assert_eq!(commits(&found), commits(&expected), "look {number}, {source_bytes_max}, {name}");
                let counts = |list: &[Transaction]| list.iter().map(|each| each.changes.len()).collect::<Vec<_>>();
                assert_eq!(counts(&found), counts(&expected), "look {number}, {source_bytes_max}, {name}");
            }
        }
    }
}

/// Keeps everything, signs inserts of one table, and drops some of them.
struct Sign(&'static str);

/// What becomes of a change of the table that is signed.
fn signed(change: &change::Change) -> Option<Row> {
    let Operation::Insert { new } = &change.operation else { return None };
    let mut values: Vec<Vec<u8>> = new.values().map(|value| value.bytes().unwrap_or_default().to_vec()).collect();
    values[1] = [b"signed ".to_vec(), values[1].clone()].concat();
    Some(Row::from_values(values.iter().map(|value| Value::Bytes(value))))
}

fn is_dropped(change: &change::Change) -> bool {
    change.address.position % 3 == 1 && matches!(change.operation, Operation::Insert { .. })
}

impl CopyRules for Sign {
    fn keeps_all(&self) -> bool {
        true
    }

    fn keeps(&self, _: &CopiedRecord<'_>) -> bool {
        true
    }

    fn signs_any(&self) -> bool {
        true
    }

    fn signs(&self, table: &str) -> bool {
        table == self.0
    }

    fn sign(&self, change: &change::Change) -> Signed {
        match signed(change) {
            _ if is_dropped(change) => Signed::Dropped,
            Some(row) => Signed::With(row),
            None => Signed::AsItIs,
        }
    }
}

#[test]
fn records_of_signed_tables_are_written_anew_and_all_others_stay_the_bytes_that_they_are() {
    let tables = [table("a", 3), table("b", 3)];
    let history = history(&tables);
    for (number, (format, cover)) in looks().into_iter().enumerate() {
        // What names no definition, or is encrypted, can't be signed here.
        let signs = format.layout(None).expect("is possible").has_definitions && cover.encryption.is_none();
        for source_bytes_max in [600, 3_000, 1 << 20] {
            let source = Forgetful::new(1);
            write(&source, &history, (format, cover.clone()), source_bytes_max);
            for name in ["main.b", "main.none"] {
                let target = Forgetful::new(2);
                copy(&source, &target, Box::new(Sign(name)), 3_000);
                let become_of = |change: &change::Change| -> Option<change::Change> {
                    let is_long = matches!(&change.operation, Operation::Insert { new } if new.value_bytes() > 60_000);
                    if !signs || is_long || change.table.name.to_string() != name {
                        return Some(change.clone());
                    }
                    let new = signed(change);
                    (!is_dropped(change)).then(|| match new {
                        Some(new) => change::Change { operation: Operation::Insert { new }, ..change.clone() },
                        None => change.clone(),
                    })
                };
                let mut assembler = Assembler::default();
                said(&source, trail_name()).into_iter().for_each(|record| assembler.add(record));
                let mut expected: Vec<Transaction> = assembler.complete;
                expected.iter_mut().for_each(|transaction| {
                    transaction.changes = transaction.changes.iter().filter_map(become_of).collect();
                });
                expected.retain(|transaction| !transaction.changes.is_empty());
                let mut assembler = Assembler::default();
                said(&target, target_name()).into_iter().for_each(|record| assembler.add(record));
                assert!(assembler.complete == expected, "look {number}, {source_bytes_max}, {name}");
                if name == "main.none" {
                    assert!(said(&target, target_name()) == said(&source, trail_name()), "look {number}");
                }
            }
        }
    }
}

#[test]
fn every_operation_is_counted_once_by_table_and_kind() {
    let tables = [table("a", 3), table("b", 3)];
    let history = history(&tables);
    for (format, cover) in looks() {
        let source = Forgetful::new(1);
        // Without restarts, so that nothing is there twice.
        let options = WriterOptions { format, cover, ..options(3_000) };
        let mut writer = Writer::open(Arc::new(source.clone()), options).expect("opens");
        for transaction in &history {
            append(&mut writer, transaction).expect("appends");
        }
        writer.close().expect("closes");
        let mut reader = copy_reader(&source, Start::Beginning, Box::new(Only("main.a", true)));
        while reader.next().expect("reads").is_some() {}
        for (name, tally) in reader.tally().tables() {
            let of = |kind: change::OperationKind| {
                let all = history.iter().flat_map(|transaction| &transaction.changes);
                all.filter(|change| change.table.name.to_string() == *name && change.operation.kind() == kind).count()
                    as u64
            };
            let expected = change::OperationKind::ALL.map(of);
            assert_eq!(tally.read, expected, "{name}");
            assert_eq!(tally.kept, if name == "main.a" { expected } else { [0; 4] }, "{name}");
        }
    }
}

#[test]
fn a_sender_that_begins_anew_repeats_nothing_in_the_same_file() {
    let tables = [table("a", 3), table("b", 3)];
    let source = Forgetful::new(1);
    let history: Vec<Transaction> =
        (1..=6).map(|number| transaction(&tables[(number % 2) as usize], number, 3)).collect();
    let mut writer = Writer::open(Arc::new(source.clone()), options(1 << 20)).expect("opens");
    append(&mut writer, &history[0]).expect("appends");
    writer.sync().expect("syncs");
    let target = Forgetful::new(2);
    let mut copy = CopyWriter::open(Arc::new(target.clone()), target_options(1 << 20)).expect("opens");
    let mut reader = copy_reader(&source, Start::Beginning, Box::new(CopyEverything));
    let mut boundary = None;
    while let Some(batch) = reader.next().expect("reads") {
        put(&mut copy, &batch).expect("appends");
        boundary = batch.boundary.or(boundary);
    }
    let boundary = boundary.expect("a transaction ended");
    // Half of the second transaction arrives, its definition included; then the sender begins again behind the first.
    writer.begin(&history[1].commit).expect("begins");
    history[1].changes.iter().for_each(|change| writer.append(change).expect("appends"));
    writer.sync().expect("syncs");
    while let Some(batch) = reader.next().expect("reads") {
        put(&mut copy, &batch).expect("appends");
    }
    assert!(copy.is_open());
    writer.commit().expect("commits");
    for transaction in &history[2..] {
        append(&mut writer, transaction).expect("appends");
    }
    writer.close().expect("closes");
    copy.abandon().expect("abandons");
    let after = Some((boundary.commit.csn.clone(), boundary.commit.transaction.clone()));
    let start = Start::At { position: boundary.position, after };
    let mut reader = copy_reader(&source, start, Box::new(CopyEverything));
    while let Some(batch) = reader.next().expect("reads") {
        put(&mut copy, &batch).expect("appends");
    }
    assert_eq!(copy.last_commit().map(|commit| commit.transaction.to_string()), Some("6.1".to_owned()));
    copy.close().expect("closes");
    let mut assembler = Assembler::default();
    said(&target, target_name()).into_iter().for_each(|record| assembler.add(record));
    assert_eq!(assembler.complete, history);
    assert_eq!(assembler.abends, 1);
    assert_eq!(
        target.list().expect("lists").iter().filter(|name| target_name().sequence_of(name).is_some()).count(),
        1
    );
}

#[test]
fn records_that_are_not_whole_or_out_of_place_are_refused() {
    let tables = [table("a", 3), table("b", 3)];
    let source = Forgetful::new(1);
    write(&source, &[transaction(&tables[0], 1, 3)], (Format::default(), Cover::default()), 1 << 20);
    let mut reader = copy_reader(&source, Start::Beginning, Box::new(CopyEverything));
    let mut batches = Vec::new();
    while let Some(batch) = reader.next().expect("reads") {
        batches.push(batch);
    }
    let [
        CopyBatch { content: CopyContent::File { header, .. }, .. },
        CopyBatch { content: CopyContent::Records(records), .. },
    ] = &batches[..]
    else {
        panic!("a file and its records: {batches:?}")
    };
    let whole = Bytes::from(records.concat());
    let appended = |header: &[u8], records: &[u8]| {
        let target = Forgetful::new(2);
        let mut copy = CopyWriter::open(Arc::new(target), target_options(1 << 20)).expect("opens");
        copy.begin_file(header, &[]).and_then(|()| copy.append(records))
    };
    assert!(appended(header, &whole).is_ok());
    for length in 1..whole.len().min(200) {
        if length % 7 == 0 {
            assert!(appended(header, &whole[..whole.len() - length]).is_err(), "without its last {length} bytes");
        }
    }
    for place in (0..whole.len()).step_by(5) {
        let mut damaged = whole.to_vec();
        damaged[place] ^= 0x10;
        assert!(appended(header, &damaged).is_err(), "byte {place}");
    }
    let twice = [&whole[..], &whole[whole.len() - 200..]].concat();
    assert!(appended(header, &twice).is_err());
    assert!(appended(&header[..header.len() - 1], &whole).is_err());
}
