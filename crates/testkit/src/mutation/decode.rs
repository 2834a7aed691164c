//! Giving an input to everything that reads such files.

use super::{Input, InputKind, checkpoint};
use change::{Column, LogicalType, TableDefinition, TableName};
use process::{CheckpointFile, GroupKind};
use std::io::{self, Write};
use std::sync::Arc;
use trail::cipher::{KeyError, MASTER_KEY_BYTES, MasterKey, MasterKeys};
use trail::format::bytes::{Cursor, Order};
use trail::format::column::{self, Width};
use trail::format::fragment::Fragment;
use trail::format::record::{self, RecordView};
use trail::format::{header, metadata, sequence, statement, token, user_token};
use trail::storage::{Forgetful, Storage};
use trail::{
    Cover, Format, PartitionName, Position, Producer, Reader, SourceIdentity, Start, TrailName, Writer, WriterOptions,
    dump_with,
};

/// What decoding came to.
pub(super) struct Decoded {
    /// Records that a reader told of.
    pub(super) records: u64,
    /// Whether reading met no error.
    pub(super) is_whole: bool,
}

/// The master key of the fixtures.
pub(super) struct Keys;

impl MasterKeys for Keys {
    fn current(&self) -> Result<MasterKey, KeyError> {
        self.find("KEY", 1)
    }

    fn find(&self, name: &str, version: u32) -> Result<MasterKey, KeyError> {
        match (name, version) {
            ("KEY", 1) => Ok(MasterKey {
                name: "KEY".to_owned(),
                version: 1,
                secret: zeroize::Zeroizing::new([7; MASTER_KEY_BYTES]),
            }),
            _ => Err(KeyError::Missing),
        }
    }
}

fn trail_name() -> TrailName {
    TrailName::parse("aa").expect("two letters")
}

fn kind_of(input: &Input) -> GroupKind {
    if input.kind == InputKind::Extract { GroupKind::Extract } else { GroupKind::Replicat }
}

/// A directory that holds the input, all of it published.
pub(super) fn put(input: &Input) -> Forgetful {
    let storage = Forgetful::new(1);
    let put = |name: &str, bytes: &[u8]| {
        storage.create(name).and_then(|file| file.write_at(bytes, 0)).expect("memory takes it");
    };
    match input.kind {
        InputKind::Trail(sequence) => {
            put(&trail_name().file(sequence), &input.bytes);
            put(&trail_name().safe_file(), &safe_slot(Position::new(sequence, input.bytes.len() as u64)));
        }
        InputKind::Extract | InputKind::Replicat => {
            let kind = kind_of(input);
            put(&format!("{}.{}", checkpoint::group(kind), kind.checkpoint_extension()), &input.bytes);
        }
    }
    storage
}

/// The file that publishes a position, as section 9 of `docs/formats/trail.md` has it.
fn safe_slot(position: Position) -> Vec<u8> {
    let mut slot = b"DVSP\x01\0\0\0".to_vec();
    slot.extend_from_slice(&1_u64.to_le_bytes());
    slot.extend_from_slice(&position.rba.to_le_bytes());
    slot.extend_from_slice(&position.sequence.to_le_bytes());
    slot.extend_from_slice(&crc32fast::hash(&slot).to_le_bytes());
    slot
}

/// Gives the input to every decoder.
pub(super) fn all(storage: &Forgetful, input: &Input) -> Decoded {
    match input.kind {
        InputKind::Trail(sequence) => {
            pieces(&input.bytes);
            let _ = dump_with(storage, &trail_name().file(sequence), &mut Nowhere, Some(Arc::new(Keys)));
            let decoded = read(storage);
            // Last, because it repairs.
            let _ = Writer::open(Arc::new(storage.clone()), options()).map(|writer| writer.last_commit().cloned());
            decoded
        }
        InputKind::Extract | InputKind::Replicat => {
            let kind = kind_of(input);
            let group = checkpoint::group(kind);
            let records = CheckpointFile::records(storage, kind, &group, CheckpointFile::SLOTS as usize);
            let _ = CheckpointFile::open(Arc::new(storage.clone()), kind, &group).map(|file| file.latest().clone());
            let records = records.map(|records| records.len() as u64);
            Decoded { records: *records.as_ref().unwrap_or(&0), is_whole: records.is_ok() }
        }
    }
}

fn read(storage: &Forgetful) -> Decoded {
    let given = [table("narrow", 1), table("wide", 4), table("other", 2), table("t1", 2), table("t2", 2)];
    let keys: Arc<dyn MasterKeys> = Arc::new(Keys);
    let mut decoded = Decoded { records: 0, is_whole: false };
    let opened = Reader::open_with(Arc::new(storage.clone()), trail_name(), Start::Beginning, &given, Some(keys));
    let Ok(mut reader) = opened else { return decoded };
    loop {
        match reader.next() {
            Ok(Some(_)) => decoded.records += 1,
            Ok(None) => {
                decoded.is_whole = true;
                return decoded;
            }
            Err(_) => return decoded,
        }
    }
}

/// Gives each record's data, whatever the record says it is, to the decoders of all kinds of data.
fn pieces(bytes: &[u8]) {
    let _ = header::read_file_start(bytes);
    let Ok(order) = record::detect_order(bytes) else { return };
    let mut at = 0;
    while let Ok(record) = record::frame(&bytes[at..], order) {
        at += record.len();
        let Ok(view) = RecordView::read(record, order) else { continue };
        let _ = view.verify();
        for data in [view.data, view.tokens, view.user_tokens] {
            if data.len() < 4096 {
                data_of_any_kind(data, order);
            }
        }
    }
}

fn data_of_any_kind(data: &[u8], order: Order) {
    let mut cursor = Cursor::new(data, order);
    while let Ok(Some(_)) = token::next(&mut cursor) {}
    let _ = metadata::read_table_body(data, order);
    let _ = metadata::read_database_body(data, order);
    let _ = Fragment::read(data, order);
    let _ = PartitionName::read(data, order);
    let _ = sequence::read_body(data, order);
    let _ = statement::read_body(data);
    let _ = user_token::read(data);
    let shared = bytes::Bytes::copy_from_slice(data);
    for width in [Width::Narrow, Width::Wide] {
        let _ = column::read_row(&shared, 0..shared.len(), 4, order, width);
    }
}

/// A table of the fixtures.
fn table(name: &str, columns: u16) -> Arc<TableDefinition> {
    let columns = (0..columns)
        .map(|index| {
            let column = Column::new(format!("c{index}"), LogicalType::Text, "TEXT");
            if index == 0 { column.with_key(0) } else { column }
        })
        .collect();
    Arc::new(TableDefinition { name: TableName::new("main", name), columns })
}

fn options() -> WriterOptions {
    WriterOptions {
        trail: trail_name(),
        display_name: "./dirdat/aa".to_owned(),
        file_bytes_max: 1 << 20,
        producer: Producer::default(),
        source: SourceIdentity::default(),
        clock: Arc::new(change::Timestamp::default),
        expected: None,
        format: Format::default(),
        history: Vec::new(),
        cover: Cover::default(),
    }
}

/// Takes what is printed, and keeps nothing of it.
struct Nowhere;

impl Write for Nowhere {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
