//! Trails of ours, made by the writer: what a test put in is what is shown.

use change::{
    Change, Column, Commit, Csn, DefinitionStatement, LogicalType, Operation, RecordAddress, Row, SequenceState,
    TableDefinition, TableName, Timestamp, TransactionId, Value,
};
use std::sync::Arc;
use trail::cipher::{Algorithm, KeyError, MASTER_KEY_BYTES, MasterKey, MasterKeys};
use trail::format::bytes::Order;
use trail::format::operation;
use trail::format::record::{self, Envelope, Object, RecordHeader};
use trail::storage::{Forgetful, Storage};
use trail::{
    ChangeDetails, Cover, Format, PartitionName, Producer, SourceIdentity, TrailName, UserToken, Writer, WriterOptions,
};

use crate::stage::Stage;

/// Master keys of a test.
pub struct Keys;

impl MasterKeys for Keys {
    fn current(&self) -> Result<MasterKey, KeyError> {
        self.find("KEY", 1)
    }

    fn find(&self, name: &str, version: u32) -> Result<MasterKey, KeyError> {
        let secret = zeroize::Zeroizing::new([7; MASTER_KEY_BYTES]);
        Ok(MasterKey { name: name.to_owned(), version, secret })
    }
}

/// A table of SQLite with the key `id` and two further columns.
pub fn table(name: &str) -> Arc<TableDefinition> {
    let column = |name: &str| Column::new(name, LogicalType::Dynamic, "ANY");
    let columns = vec![column("id").with_key(0), column("a"), column("b")];
    Arc::new(TableDefinition { name: TableName::new("main", name), columns: columns.into() })
}

pub fn commit(number: u64) -> Commit {
    Commit {
        csn: Csn::new(format!("{number:06}")),
        transaction: TransactionId::new(format!("x{number}")),
        // A minute apart from 2023-11-14 22:13:20 on.
        time: Timestamp::from_unix_micros(1_700_000_000_000_000 + number as i64 * 60_000_000),
    }
}

/// A row of three values; `?` stands for unchanged, `-` for NULL.
pub fn row(values: [&str; 3]) -> Row {
    Row::from_values(values.map(|value| match value {
        "?" => Value::Unchanged,
        "-" => Value::Null,
        value => Value::Bytes(value.as_bytes()),
    }))
}

pub fn change(table: &Arc<TableDefinition>, operation: Operation) -> Change {
    Change { table: Arc::clone(table), operation, address: RecordAddress { position: 7, offset: 9 } }
}

pub fn insert(table: &Arc<TableDefinition>, values: [&str; 3]) -> Change {
    change(table, Operation::Insert { new: row(values) })
}

pub fn update(table: &Arc<TableDefinition>, old: [&str; 3], new: [&str; 3]) -> Change {
    change(table, Operation::Update { old: Some(row(old)), new: row(new) })
}

pub fn delete(table: &Arc<TableDefinition>, values: [&str; 3]) -> Change {
    change(table, Operation::Delete { old: row(values) })
}

pub fn writer(storage: &Arc<Forgetful>, file_bytes_max: u64, cover: Cover, format: Format) -> Writer {
    let storage: Arc<dyn Storage> = Arc::clone(storage) as Arc<dyn Storage>;
    let options = WriterOptions {
        producer: Producer {
            group: "E1".to_owned(),
            host: "host".to_owned(),
            version: "0.1.0".to_owned(),
            ..Producer::default()
        },
        source: SourceIdentity {
            product: "SQLite".to_owned(),
            version: "3.45".to_owned(),
            ..SourceIdentity::default()
        },
        format,
        cover,
        ..WriterOptions::new(
            TrailName::parse("aa").expect("two letters"),
            file_bytes_max,
            Arc::new(|| Timestamp::from_unix_micros(1_700_000_000_000_000)),
        )
    };
    Writer::open(storage, options).expect("opens")
}

/// Writes transactions, each with a number of its own from 1 on.
pub fn write(storage: &Arc<Forgetful>, transactions: &[Vec<Change>]) {
    let mut writer = writer(storage, 1 << 20, Cover::default(), Format::default());
    append(&mut writer, transactions, 1);
    writer.close().expect("closes");
}

pub fn append(writer: &mut Writer, transactions: &[Vec<Change>], first: u64) {
    for (number, changes) in (first..).zip(transactions) {
        writer.begin(&commit(number)).expect("begins");
        changes.iter().for_each(|change| writer.append(change).expect("appends"));
        writer.commit().expect("commits");
    }
}

fn everything(stage: &mut Stage) -> String {
    stage.run("GHDR ON; DETAIL DATA; GGSTOKEN DETAIL; USERTOKEN DETAIL; FILEHEADER DETAIL; TIMEOFFSET GMT");
    stage.run("OPEN aa000000000; N 10000")
}

#[test]
fn statements_sequences_partitions_and_tokens_are_shown() {
    let mut stage = Stage::new();
    let table = table("t1");
    let mut writer = writer(&stage.storage, 1 << 20, Cover::default(), Format::default());
    writer.begin(&commit(1)).expect("begins");
    let statement = DefinitionStatement {
        owner: "main".to_owned(),
        object: "t".to_owned(),
        object_type: "TABLE".to_owned(),
        verb: "ALTER".to_owned(),
        text: "ALTER TABLE t ADD COLUMN c".to_owned(),
        ..DefinitionStatement::default()
    };
    writer.append_statement(&statement).expect("appends");
    let sequence = SequenceState { name: TableName::new("main", "s"), value: 12, increment: -5, is_called: true };
    writer.append_sequence(&sequence).expect("appends");
    let partition = Arc::new(PartitionName { name: "P1".to_owned(), id: 75_234, flags: 1 });
    let token = UserToken { name: "TKN-HOST".to_owned(), value: "syshq".to_owned() };
    let details = ChangeDetails { partition: Some(partition), user_tokens: vec![token], is_fetched: false };
    writer.append_with(&insert(&table, ["i1", "tone", "-"]), Some(&details)).expect("appends");
    writer.commit().expect("commits");
    writer.close().expect("closes");
    let text = everything(&mut stage);
    for line in [
        " DDLOP  ",
        "ALTER TABLE main.t\nALTER TABLE t ADD COLUMN c\n",
        "Sequence main.s: 12 handed out, increment -5\n",
        "Partition Name: P1 Partition ID: 75,234 Flags: x00000001\n",
        "Name: main.t1 (PARTITION: P1, TDR/PNR INDEX: 1/1)\n",
        "Partition x8c   G  e\n",
        "TKN-HOST            : syshq\n",
        "TDR/PNR idx: (001, 001)       AuditPos   : ",
        "AuditRBA   :          9       AuditPos   : 7\n",
        "Database type: SQLITE\n",
        "Written by uri:host::",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
    assert!(stage.run("USERTOKEN ON; POS LAST; N").contains("TKN-HOST            , Length    5\n"));
}

#[test]
fn definitions_are_shown_in_four_forms_and_references_take_a_number_of_their_own() {
    let mut stage = Stage::new();
    write(&stage.storage, &[vec![insert(&table("t0"), ["i1", "-", "-"]), insert(&table("t1"), ["i1", "-", "-"])]]);
    let text = everything(&mut stage);
    assert_eq!(text.matches("Table Name: main.t1 (Ref TDR Index: 1)\n").count(), 1, "{text}");
    assert!(text.contains("Name: main.t1  (TDR Index: 2)\n"), "{text}");
    let detail = stage.run("POS 0; SFMD TDR 1");
    // The legend of the 25 published fields, in five lines.
    assert_eq!(
        detail.lines().filter(|line| line.contains(')') && line.trim_start().starts_with(char::is_numeric)).count(),
        5
    );
    for line in [
        "Table Name: main.t0\n*\n",
        "TDR version: 11\nDefinition for table main.t0\nRecord Length: ",
        "Columns: 3\n",
        "End of definition\n",
    ] {
        assert!(detail.contains(line), "{line}\n{detail}");
    }
    assert!(stage.run("METADATA DEFGENFORMAT; SFMD TDR 1").contains("Syskey: 0\nColumns: 3\n"));
    assert!(stage.run("METADATA SQLFORMAT; SFMD TDR 1").contains("id  ANY, KEY\n"));
    let ddl = "CREATE TABLE \"main\".\"t0\" (\n  \"id\" ANY,\n  \"a\" ANY,\n  \"b\" ANY,\n  PRIMARY KEY (\"id\")\n);\n";
    assert!(stage.run("METADATA DDLFORMAT; SFMD TDR 1").contains(ddl));
    // A place in the middle of the file needs the names all the same.
    stage.run("OPEN aa000000000");
    assert!(stage.run("POS LAST; N").contains("Name: main.t1  (TDR Index: 2)\n"));
}

#[test]
fn definitions_of_other_products_are_said_to_be_so_and_given_ones_take_their_place() {
    let mut stage = Stage::new();
    let header = RecordHeader::new(operation::METADATA, 2, 0).with_indexes(Order::Big, 1, 1);
    stage.put("foreign", &crate::stage::foreign(Order::Big, header, Object::Name(b"HR.EMP"), &[1; 138]));
    let text = stage.run("OPEN foreign; N");
    assert!(
        text.contains(
            "TDR body not understood, 138 bytes: it is another product's\nGive the table's definition with SOURCEDEFS"
        ),
        "{text}"
    );
    let definitions = "*+- Defgen version 11.0, Encoding UTF-8\n*\nDefinition for table HR.EMP\nRecord length: 54\nSyskey: 0\nColumns: 1\n\
                       EMPNO   64     50        0  0  0 1 0     50     50     50 0 0 0 0 1    0 1   2    2       -1      0 0 0\n\
                       End of definition\n";
    stage.put("hr.def", definitions.as_bytes());
    assert_eq!(stage.run("SOURCEDEFS hr.def"), "Definitions of 1 tables read from hr.def\n");
    let text = stage.run("POS 0; N");
    assert!(text.contains("Shown by the definition that SOURCEDEFS gave:\n") && text.contains("EMPNO"), "{text}");
}

#[test]
fn encrypted_records_are_shown_as_such() {
    let mut stage = Stage::new();
    let cover = Cover { encryption: Some((Algorithm::Aes256, Arc::new(Keys))), is_compressed: false };
    let mut writer = writer(&stage.storage, 1 << 20, cover, Format::default());
    append(&mut writer, &[vec![insert(&table("t1"), ["i1", "tKNOWNVALUE", "-"])]], 1);
    writer.close().expect("closes");
    let text = everything(&mut stage);
    assert!(text.contains("Encrypted by AES256, master key KEY version 1\n"), "{text}");
    assert!(text.contains("Encrypted, ") && text.contains("DECRYPT ON shows it") && !text.contains("KNOWN"), "{text}");
    stage.world.keys.replace(Some(Arc::new(Keys)));
    assert!(stage.refuses("DECRYPT ON KEYNAME OTHER").contains("names the master key KEY"));
    stage.run("DECRYPT ON KEYNAME KEY");
    for _ in 0..2 {
        let text = stage.run("POS 0; N 100");
        assert!(text.contains("KNOWNVALUE") && text.contains("Decrypted, "), "{text}");
        assert!(text.contains("Table Name: main.t1\n"), "{text}");
    }
    assert!(stage.run("POS EOF; POS REVERSE; N 100").contains("KNOWNVALUE"), "backwards as well");
    assert!(stage.run("POS 0; FILTER INC STRING /KNOWNVALUE/; COUNT").contains("has 1 records"));
    stage.run("FILTER CLEAR ALL; POS 0; SAVE part 100 RECORDS");
    let saved = stage.run("OPEN part; N 100");
    assert!(saved.contains("KNOWNVALUE") && !saved.contains("GGSComment"), "{saved}");
    assert!(!stage.run("DECRYPT OFF; OPEN aa000000000; N 100").contains("KNOWNVALUE"));
}

#[test]
fn every_operation_number_is_shown_by_its_name() {
    let header = |number| RecordHeader::new(number, 0, 0);
    for number in 0..=255_u8 {
        let mut bytes = Vec::new();
        record::put(&mut bytes, Order::Little, &header(number), &Envelope::new(Object::Name(b""), &[]), |_| {});
        record::seal(&mut bytes, Order::Little, 3, 0);
        let mut stage = Stage::with(&bytes);
        let text = stage.run("N");
        assert!(text.contains(&format!(" {:<20} Len ", operation::name(number))), "{number}: {text}");
    }
}

#[test]
fn a_saved_part_of_a_trail_is_read_by_the_reader_of_trails() {
    let mut stage = Stage::new();
    let table = table("t1");
    let rows: Vec<Vec<Change>> = (0..20).map(|_| vec![insert(&table, ["i1", "tx", "-"])]).collect();
    write(&stage.storage, &rows);
    stage.run("OPEN aa000000000; SKIP 10; SAVE part 5 RECORDS");
    let mut reader = trail::FileReader::open(stage.storage.clone(), "part", None, &[], None).expect("opens");
    let (mut changes, mut comments) = (0, 0);
    while let Some(entry) = reader.next().expect("every record is whole") {
        match entry.record {
            trail::Record::Change { .. } => changes += 1,
            trail::Record::Comment(_) => comments += 1,
            _ => {}
        }
    }
    assert_eq!((changes, comments), (5, 2));
}
