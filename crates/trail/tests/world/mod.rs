//! What the tests of this crate share: tables, transactions, and a way to read a trail whole.

#![allow(dead_code, reason = "each test file uses a part")]

use change::{
    Change, Column, Commit, Csn, LogicalType, Operation, RecordAddress, Row, TableDefinition, TableName, Timestamp,
    TransactionId, Value,
};
use std::sync::Arc;
use trail::cipher::{KeyError, MasterKey, MasterKeys};
use trail::storage::Storage;
use trail::{
    Entry, Error, Position, Producer, Reader, Record, SourceIdentity, Start, TrailName, TransactionPlace, Writer,
    WriterOptions,
};

/// One master key, `KEY`, whose bytes are all equal.
pub struct Keys(MasterKey);

impl Keys {
    pub fn of(secret: u8, version: u32) -> Arc<dyn MasterKeys> {
        let secret = zeroize::Zeroizing::new([secret; trail::cipher::MASTER_KEY_BYTES]);
        Arc::new(Keys(MasterKey { name: "KEY".to_owned(), version, secret }))
    }
}

impl MasterKeys for Keys {
    fn current(&self) -> Result<MasterKey, KeyError> {
        Ok(self.0.clone())
    }

    fn find(&self, name: &str, version: u32) -> Result<MasterKey, KeyError> {
        if (name, version) == (&*self.0.name, self.0.version) { Ok(self.0.clone()) } else { Err(KeyError::Missing) }
    }
}

pub fn trail_name() -> TrailName {
    TrailName::parse("aa").expect("two letters")
}

pub fn options(file_bytes_max: u64) -> WriterOptions {
    WriterOptions {
        producer: Producer {
            group: "E1".to_owned(),
            host: "host.domain".to_owned(),
            version: "0.1.0".to_owned(),
            ..Producer::default()
        },
        source: SourceIdentity {
            product: "Model".to_owned(),
            version: "1".to_owned(),
            name: "world".to_owned(),
            ..SourceIdentity::default()
        },
        ..WriterOptions::new(
            trail_name(),
            file_bytes_max,
            Arc::new(|| Timestamp::from_unix_micros(1_700_000_000_000_000)),
        )
    }
}

pub fn open_writer(storage: &(impl Storage + Clone + 'static), file_bytes_max: u64) -> Result<Writer, Error> {
    Writer::open(Arc::new(storage.clone()), options(file_bytes_max))
}

pub fn open_reader(storage: &(impl Storage + Clone + 'static), start: Start) -> Result<Reader, Error> {
    Reader::open(Arc::new(storage.clone()), trail_name(), start)
}

/// A table of `columns` columns of which the first is the key.
pub fn table(name: &str, columns: u16) -> Arc<TableDefinition> {
    let columns = (0..columns)
        .map(|index| {
            let column = Column::new(format!("c{index}"), LogicalType::Text, "TEXT");
            if index == 0 { column.with_key(0) } else { column }
        })
        .collect();
    Arc::new(TableDefinition { name: TableName::new("main", name), columns })
}

/// Transaction `number` of the source; numbers sort as their CSNs.
pub fn commit(number: u64) -> Commit {
    Commit {
        csn: Csn::new(format!("{number:020}")),
        transaction: TransactionId::new(format!("{number}.1")),
        time: Timestamp::from_unix_micros(1_600_000_000_000_000 + number as i64),
    }
}

pub fn row(values: &[&str]) -> Row {
    Row::from_values(values.iter().map(|value| Value::Bytes(value.as_bytes())))
}

pub fn change(table: &Arc<TableDefinition>, number: u64, operation: Operation) -> Change {
    let address = RecordAddress { position: number, offset: number as u32 };
    Change { table: Arc::clone(table), operation, address }
}

/// An insert of a row whose values tell its number.
pub fn insert(table: &Arc<TableDefinition>, number: u64) -> Change {
    let values: Vec<String> = (0..table.columns.len()).map(|column| format!("{number}/{column}")).collect();
    let new = row(&values.iter().map(String::as_str).collect::<Vec<_>>());
    change(table, number, Operation::Insert { new })
}

/// A committed transaction.
#[derive(Clone, Debug, PartialEq)]
pub struct Transaction {
    pub commit: Commit,
    pub changes: Vec<Change>,
}

/// Transaction `number` with `changes` inserts into `table`.
pub fn transaction(table: &Arc<TableDefinition>, number: u64, changes: u64) -> Transaction {
    let changes = (0..changes).map(|index| insert(table, number * 1000 + index)).collect();
    Transaction { commit: commit(number), changes }
}

pub fn append(writer: &mut Writer, transaction: &Transaction) -> Result<Position, Error> {
    writer.begin(&transaction.commit)?;
    for change in &transaction.changes {
        writer.append(change)?;
    }
    writer.commit()
}

/// Puts transactions together from records, as apply does, and complains about any half one.
#[derive(Default)]
pub struct Assembler {
    open: Option<Transaction>,
    pub complete: Vec<Transaction>,
    pub abends: usize,
}

impl Assembler {
    pub fn add(&mut self, record: Record) {
        match record {
            Record::Change { place, commit, change, .. } => {
                if place.starts() {
                    assert!(self.open.is_none(), "a transaction starts before the end of another");
                    self.open = Some(Transaction { commit: commit.clone(), changes: Vec::new() });
                }
                let open = self.open.as_mut().expect("a change comes after the start of its transaction");
                assert_eq!(open.commit, commit, "a change belongs to the open transaction");
                open.changes.push(change);
                if place.ends() {
                    self.complete.extend(self.open.take());
                }
            }
            Record::Restart { abend } => {
                let open = self.open.take();
                assert!(abend || open.is_none(), "a clean restart leaves nothing open");
                self.abends += usize::from(abend);
            }
            Record::Statement { .. } | Record::Sequence { .. } => panic!("this trail holds rows only"),
            Record::Header(_)
            | Record::Definition(_)
            | Record::Partition(_)
            | Record::Comment(_)
            | Record::Other { .. } => {}
        }
    }

    pub fn is_open(&self) -> bool {
        self.open.is_some()
    }
}

/// All records that are published.
pub fn read_entries(reader: &mut Reader) -> Result<Vec<Entry>, Error> {
    let mut entries = Vec::new();
    while let Some(entry) = reader.next()? {
        entries.push(entry);
    }
    Ok(entries)
}

/// All complete transactions that are published, from the beginning.
pub fn read_transactions(storage: &(impl Storage + Clone + 'static)) -> Result<Vec<Transaction>, Error> {
    let mut reader = open_reader(storage, Start::Beginning)?;
    let mut assembler = Assembler::default();
    for entry in read_entries(&mut reader)? {
        assembler.add(entry.record);
    }
    Ok(assembler.complete)
}

pub fn places(entries: &[Entry]) -> Vec<TransactionPlace> {
    let place = |entry: &Entry| if let Record::Change { place, .. } = &entry.record { Some(*place) } else { None };
    entries.iter().filter_map(place).collect()
}
