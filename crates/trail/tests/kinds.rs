//! Records of every kind: what goes in comes out, in every layout.

mod world;

use change::{Change, DefinitionStatement, Operation, Row, SequenceState, TableDefinition, TableName, Value};
use std::sync::Arc;
use trail::format::bytes::Order;
use trail::format::header::{self, FORM_PLACED, FileHeader};
use trail::format::layout::{LEVEL, LEVEL_MIN};
use trail::format::record::{self, Envelope, Object, RecordHeader, operation};
use trail::storage::{Forgetful, Storage};
use trail::{
    ChangeDetails, Entry, Error, Format, PartitionName, Reader, Record, Start, TransactionPlace, UpdateImages,
    UserToken, Writer, WriterOptions,
};
use world::{append, change, commit, insert, open_writer, options, read_entries, row, table, trail_name, transaction};

const MEGABYTE: u64 = 1 << 20;

fn open(storage: &Forgetful, format: Format, file_bytes_max: u64) -> Result<Writer, Error> {
    Writer::open(Arc::new(storage.clone()), WriterOptions { format, ..options(file_bytes_max) })
}

fn read(storage: &Forgetful, definitions: &[Arc<TableDefinition>]) -> Result<Vec<Entry>, Error> {
    let mut reader = Reader::open_with(Arc::new(storage.clone()), trail_name(), Start::Beginning, definitions, None)?;
    read_entries(&mut reader)
}

fn changes(entries: &[Entry]) -> Vec<Change> {
    let of =
        |entry: &Entry| if let Record::Change { change, .. } = &entry.record { Some(change.clone()) } else { None };
    entries.iter().filter_map(of).collect()
}

/// All layouts that can be asked for.
fn formats() -> Vec<Format> {
    let mut formats = Vec::new();
    for level in LEVEL_MIN..=LEVEL {
        for order in [None, Some(Order::Little), Some(Order::Big)] {
            for has_definitions in [None, Some(false)] {
                for updates in [None, Some(UpdateImages::Together), Some(UpdateImages::Separate)] {
                    let format = Format { level: Some(level), order, has_definitions, updates, recovery: None };
                    formats.extend(format.layout(None).ok().map(|_| format));
                }
            }
        }
    }
    formats
}

/// Changes whose images differ in all the ways that matter, small and too long for a record.
fn all_changes(table: &Arc<TableDefinition>) -> Vec<Change> {
    let long = "x".repeat(70_000);
    let image = |values: [Value<'_>; 3]| Row::from_values(values);
    let text = |text: &'static str| Value::Bytes(text.as_bytes());
    let big = Value::Bytes(long.as_bytes());
    let (null, same) = (Value::Null, Value::Unchanged);
    let mut operations = vec![Operation::truncate()];
    for filling in [text("b"), big] {
        let new = image([text("a"), filling, null]);
        operations.extend([
            Operation::Insert { new: new.clone() },
            Operation::Update { old: None, new: new.clone() },
            Operation::Update { old: Some(image([same, same, same])), new: new.clone() },
            Operation::Update { old: Some(image([text("a"), same, same])), new: new.clone() },
            Operation::Update { old: Some(image([text("a"), filling, null])), new: new.clone() },
            // The key changes: known is the key, or more.
            Operation::Update { old: Some(image([text("z"), same, same])), new: new.clone() },
            Operation::Update { old: Some(image([text("z"), filling, null])), new: new.clone() },
            Operation::Update { old: Some(image([text("z"), null, same])), new: image([text("a"), same, same]) },
            Operation::Delete { old: new },
        ]);
    }
    (0..).zip(operations).map(|(number, operation)| change(table, number, operation)).collect()
}

#[test]
fn every_change_comes_back_in_every_layout() {
    let formats = formats();
    assert!(formats.len() > 40, "{}", formats.len());
    let table = table("t", 3);
    for format in formats {
        let storage = Forgetful::new(1);
        let mut writer = open(&storage, format, 200_000).expect("opens");
        let written = world::Transaction { commit: commit(1), changes: all_changes(&table) };
        append(&mut writer, &written).expect("appends");
        // Each alone in its transaction: places are those of changes, however many records they have.
        for (number, change) in (2..).zip(&written.changes) {
            let alone = world::Transaction { commit: commit(number), changes: vec![change.clone()] };
            append(&mut writer, &alone).expect("appends");
        }
        writer.close().expect("closes");
        let entries = read(&storage, &[Arc::clone(&table)]).expect("reads");
        let expected: Vec<Change> = written.changes.iter().chain(&written.changes).cloned().collect();
        assert_eq!(changes(&entries), expected, "{format:?}");
        let places = world::places(&entries);
        assert!(places[written.changes.len()..].iter().all(|place| *place == TransactionPlace::Only), "{format:?}");
        let header = entries.iter().find_map(|entry| match &entry.record {
            Record::Header(header) => Some(Arc::clone(header)),
            _ => None,
        });
        assert_eq!(header.map(|header| header.level), format.level);

        // A writer that is asked for nothing keeps the level of the trail.
        let mut writer = open(&storage, Format::default(), 200_000).expect("opens");
        append(&mut writer, &transaction(&table, 90, 1)).expect("appends");
        writer.close().expect("closes");
        let entries = read(&storage, &[Arc::clone(&table)]).expect("reads");
        let levels: Vec<u16> = entries
            .iter()
            .filter_map(|entry| match &entry.record {
                Record::Header(header) => Some(header.level),
                _ => None,
            })
            .collect();
        assert!(levels.iter().all(|level| Some(*level) == format.level), "{levels:?}");
    }
}

#[test]
fn compact_and_full_updates_say_the_same_with_fewer_or_more_columns() {
    let table = table("t", 4);
    let text = |text: &'static str| Value::Bytes(text.as_bytes());
    let (null, same) = (Value::Null, Value::Unchanged);
    let image = |values: [Value<'_>; 4]| Row::from_values(values);
    let old = image([text("k"), text("b"), null, text("d")]);
    let new = image([text("k"), text("b"), text("c"), same]);
    let update = |new| vec![change(&table, 1, Operation::Update { old: Some(old.clone()), new })];
    for (updates, expected) in [
        (UpdateImages::Together, new.clone()),
        (UpdateImages::Separate, new.clone()),
        (UpdateImages::Compact, image([text("k"), same, text("c"), same])),
        (UpdateImages::Full, image([text("k"), text("b"), text("c"), text("d")])),
    ] {
        let storage = Forgetful::new(1);
        let format = Format { updates: Some(updates), ..Format::default() };
        let mut writer = open(&storage, format, MEGABYTE).expect("opens");
        let written = world::Transaction { commit: commit(1), changes: update(new.clone()) };
        append(&mut writer, &written).expect("appends");
        writer.close().expect("closes");
        assert_eq!(changes(&read(&storage, &[]).expect("reads")), update(expected), "{updates:?}");
    }
}

#[test]
fn files_without_definitions_need_them_from_elsewhere() {
    let storage = Forgetful::new(1);
    let written = transaction(&table("t", 3), 1, 2);
    let mut writer = open(&storage, Format { level: Some(4), ..Format::default() }, MEGABYTE).expect("opens");
    append(&mut writer, &written).expect("appends");
    writer.close().expect("closes");
    let error = read(&storage, &[table("other", 3)]).expect_err("nobody knows the table");
    assert!(
        matches!(&error, Error::Undefined { table, file } if table == "main.t" && file == "aa000000000"),
        "{error}"
    );
    assert_eq!(changes(&read(&storage, &[table("t", 3)]).expect("reads")), written.changes);
    // The bytes are those of the compatible layout: big-endian without flag, the name in the record.
    let bytes = storage.read_whole("aa000000000").expect("reads");
    assert_eq!(bytes[..2], *b"F\0");
    let name = bytes.windows(7).position(|window| window == b"main.t\0").expect("the name stands in the record");
    assert_eq!(bytes[name - 33], 0x04, "Partition");
}

#[test]
fn a_release_of_old_writes_what_is_published_of_it() {
    let storage = Forgetful::new(1);
    let table = table("t", 2);
    let mut writer = open(&storage, Format { level: Some(3), ..Format::default() }, MEGABYTE).expect("opens");
    let new = Row::from_values([Value::Bytes(b"10"), Value::Bytes(b"name33")]);
    let written = world::Transaction { commit: commit(1), changes: vec![change(&table, 1, Operation::Insert { new })] };
    append(&mut writer, &written).expect("appends");
    writer.close().expect("closes");
    let bytes = storage.read_whole("aa000000000").expect("reads");
    let data = b"D\0\0\x18\0\0\0\x06\0\0\0\x0210\0\x01\0\x0a\0\0\0\x06name33";
    assert!(bytes.windows(data.len()).any(|window| window == data), "columns as published, big-endian");
}

#[test]
fn statements_and_sequences_travel_in_their_transaction() {
    for format in [Format::default(), Format { level: Some(3), ..Format::default() }] {
        let storage = Forgetful::new(1);
        let table = table("t", 3);
        let mut writer = open(&storage, format, MEGABYTE).expect("opens");
        let statement = |text: String| DefinitionStatement {
            owner: "main".to_owned(),
            object: "t".to_owned(),
            object_type: "TABLE".to_owned(),
            verb: "ALTER".to_owned(),
            user: "dba".to_owned(),
            text,
            search_path: "public".to_owned(),
            base: Some(TableName::new("main", "u")),
            ..DefinitionStatement::default()
        };
        let short = statement("alter table t add c3 text default 'it''s'".to_owned());
        let long = statement(format!("comment on table t is '{}'", "x".repeat(200_000)));
        let sequence = SequenceState {
            name: TableName::new("main", "number"),
            value: i128::from(u64::MAX),
            increment: -5,
            is_called: true,
        };
        writer.begin(&commit(1)).expect("begins");
        writer.append_statement(&short).expect("appends");
        writer.append(&insert(&table, 1)).expect("appends");
        writer.append_statement(&long).expect("appends");
        writer.append_sequence(&sequence).expect("appends");
        writer.commit().expect("commits");
        writer.comment("made by hand").expect("remarks");
        writer.begin(&commit(2)).expect("begins");
        writer.append_sequence(&sequence).expect("appends");
        writer.commit().expect("commits");
        writer.close().expect("closes");

        let mut found = Vec::new();
        for entry in read(&storage, &[Arc::clone(&table)]).expect("reads") {
            match entry.record {
                Record::Statement { place, commit, statement } => found.push((place, commit, format!("{statement:?}"))),
                Record::Sequence { place, commit, sequence } => found.push((place, commit, format!("{sequence:?}"))),
                Record::Change { place, commit, change, .. } => found.push((place, commit, format!("{change:?}"))),
                Record::Comment(text) => assert_eq!(text, "made by hand"),
                _ => {}
            }
        }
        let expected = vec![
            (TransactionPlace::First, commit(1), format!("{short:?}")),
            (TransactionPlace::Middle, commit(1), format!("{:?}", insert(&table, 1))),
            (TransactionPlace::Middle, commit(1), format!("{long:?}")),
            (TransactionPlace::Last, commit(1), format!("{sequence:?}")),
            (TransactionPlace::Only, commit(2), format!("{sequence:?}")),
        ];
        assert_eq!(found, expected);
    }
}

#[test]
fn partitions_and_user_tokens_travel_with_their_rows() {
    let (table, plain) = (table("t1", 2), table("plain", 2));
    let partition = |name: &str, id| Arc::new(PartitionName { name: name.to_owned(), id, flags: 1 });
    let token = |name: &str, value: &str| UserToken { name: name.to_owned(), value: value.to_owned() };
    let details = |partition: Option<&Arc<PartitionName>>, user_tokens: Vec<UserToken>, is_fetched| {
        Some(ChangeDetails { partition: partition.cloned(), user_tokens, is_fetched })
    };
    let (first, second) = (partition("P1", 75_234), partition("P2", 75_235));
    let long = change(&table, 9, Operation::Insert { new: row(&["k", &"x".repeat(100_000)]) });
    let update = Operation::Update { old: Some(row(&["a", "b"])), new: row(&["c", "d"]) };
    for updates in [UpdateImages::Together, UpdateImages::Separate] {
        let storage = Forgetful::new(1);
        let rows = [
            (insert(&table, 1), details(Some(&first), Vec::new(), false)),
            (insert(&plain, 2), None),
            (insert(&table, 3), details(Some(&second), vec![token("TKN-HOST", "syshq")], false)),
            (change(&table, 4, update.clone()), details(Some(&first), vec![token("A", "")], true)),
            (long.clone(), details(Some(&second), vec![token("A", &"y".repeat(10_000))], false)),
            (insert(&table, 5), None),
        ];
        let format = Format { updates: Some(updates), ..Format::default() };
        let mut writer = open(&storage, format, 3_000).expect("opens");
        for number in 0..30 {
            writer.begin(&commit(number)).expect("begins");
            for (change, details) in &rows {
                writer.append_with(change, details.as_ref()).expect("appends");
            }
            writer.commit().expect("commits");
        }
        writer.close().expect("closes");
        let mut found = Vec::new();
        let mut named: Vec<Vec<String>> = Vec::new();
        for entry in read(&storage, &[]).expect("reads") {
            match entry.record {
                Record::Header(_) => named.push(Vec::new()),
                Record::Partition(partition) => named.last_mut().expect("a file").push(partition.name.clone()),
                Record::Change { change, details, .. } => {
                    if let Some(partition) = details.as_ref().and_then(|details| details.partition.as_ref()) {
                        assert!(named.last().expect("a file").contains(&partition.name), "named in the same file");
                    }
                    found.push((change, details.map(|details| *details)));
                }
                _ => {}
            }
        }
        let expected: Vec<_> = (0..30).flat_map(|_| rows.clone()).collect();
        assert_eq!(found, expected);
        assert!(named.len() > 10 && named.iter().all(|names| names.len() <= 2), "once in each file: {named:?}");
    }
}

#[test]
fn what_a_layout_cannot_hold_is_refused_by_the_name_of_the_table() {
    let storage = Forgetful::new(1);
    let table = table("t1", 2);
    let mut writer = open(&storage, Format { level: Some(4), ..Format::default() }, MEGABYTE).expect("opens");
    writer.begin(&commit(1)).expect("begins");
    let partition = Some(Arc::new(PartitionName { name: "P1".to_owned(), id: 1, flags: 1 }));
    let details = ChangeDetails { partition, ..ChangeDetails::default() };
    let error = writer.append_with(&insert(&table, 1), Some(&details)).expect_err("has no place for it");
    assert!(error.to_string().contains("main.t1") && error.to_string().contains("partition"), "{error}");
    let tokens = vec![UserToken { name: "A".to_owned(), value: "x".repeat(20_000) }];
    let details = ChangeDetails { user_tokens: tokens, ..ChangeDetails::default() };
    let error = writer.append_with(&insert(&table, 1), Some(&details)).expect_err("is too long");
    assert!(error.to_string().contains("main.t1") && !error.to_string().contains("xxx"), "{error}");
    let contradiction = Format { level: Some(3), has_definitions: Some(true), ..Format::default() };
    let error = open(&Forgetful::new(1), contradiction, MEGABYTE).err().expect("contradicts itself");
    assert!(matches!(error, Error::Format { .. }), "{error}");
}

#[test]
fn tables_of_one_shape_share_their_definition() {
    let storage = Forgetful::new(1);
    let tables: Vec<_> = (0..5).map(|number| table(&format!("t{number}"), 3)).collect();
    let changes: Vec<Change> = tables.iter().map(|table| insert(table, 1)).collect();
    let mut writer = open_writer(&storage, MEGABYTE).expect("opens");
    append(&mut writer, &world::Transaction { commit: commit(1), changes: changes.clone() }).expect("appends");
    writer.close().expect("closes");
    let told = self::changes(&read(&storage, &[]).expect("reads"));
    assert_eq!(told, changes);
    let shares = |change: &Change| Arc::ptr_eq(&change.table.columns, &told[0].table.columns);
    assert!(told.iter().all(shares), "a reader holds the columns once, however many tables have them");
}

/// A file as another version could write it: a record of each operation number, outside of and inside a transaction.
#[test]
fn operations_that_are_no_changes_are_never_taken_for_one() {
    let put = |storage: &Forgetful, number: u8, tokens: &[u8]| {
        let mut writer = open_writer(storage, MEGABYTE).expect("opens");
        append(&mut writer, &transaction(&table("t", 2), 1, 1)).expect("appends");
        let end = writer.close().expect("closes").rba;
        let mut bytes = Vec::new();
        let object =
            if tokens.is_empty() { Object::Name(b"") } else { Object::Index { definition: 1, partition: None } };
        let partition = if tokens.is_empty() { 0 } else { 8 };
        let header = RecordHeader { partition, ..RecordHeader::new(number, 0, 0) };
        record::put(&mut bytes, Order::Little, &header, &Envelope::new(object, tokens), |_| {});
        record::seal(&mut bytes, Order::Little, 3, 0);
        let file = storage.open("aa000000000").expect("opens");
        file.write_at(&bytes, end).expect("writes");
        // Published as a writer would.
        drop(open_writer(storage, MEGABYTE).expect("opens"));
    };
    for number in 0..=255_u8 {
        let storage = Forgetful::new(1);
        if ![operation::METADATA, operation::FRAGMENT].contains(&number) {
            put(&storage, number, &[]);
            let entries = read(&storage, &[]).expect("is read past");
            assert_eq!(changes(&entries).len(), 1, "{number}");
        }
        let known = [3, 5, 15, 100, 115, 117, 132, 134, 135, 150, 151, 160, 161, 170];
        if known.contains(&number) {
            continue;
        }
        let storage = Forgetful::new(1);
        put(&storage, number, b"L\0\x01\x009\x36\0\x01\x009");
        let error = read(&storage, &[]).expect_err("nobody knows what it means for the rows");
        let cause = std::error::Error::source(&error).expect("has a cause").to_string();
        assert!(cause.contains(&format!("operation {number}")), "{number}: {cause}");
    }
}

#[test]
fn a_newer_level_and_a_newer_form_are_refused_by_number() {
    type Change = fn(&mut FileHeader);
    let newer_level: Change = |header| header.level = LEVEL + 1;
    let newer_form: Change = |header| header.form = Some(FORM_PLACED + 1);
    for (change, told) in [(newer_level, "level is 9"), (newer_form, "in form 5")] {
        let storage = Forgetful::new(1);
        open_writer(&storage, MEGABYTE).expect("opens").close().expect("closes");
        let bytes = storage.read_whole("aa000000000").expect("reads");
        let (mut header, order, length) = header::read_file_start(&bytes).expect("is a header");
        change(&mut header);
        let record = header.record(order);
        assert_eq!(record.len(), length);
        storage.open("aa000000000").expect("opens").write_at(&record, 0).expect("writes");
        for error in [read(&storage, &[]).err(), open_writer(&storage, MEGABYTE).err()] {
            let error = error.expect("is newer");
            assert!(matches!(error, Error::Foreign { .. }) && error.to_string().contains(told), "{error}");
        }
    }
}
