//! Giving an input to everything that reads such files.

use super::{Input, InputKind, checkpoint};
use change::{Column, LogicalType, TableDefinition, TableName, Timestamp};
use inspect::tools::{self, Dialect, ExportFormat, Selection, SelectionWish, StatWish, TrailFiles, Work};
use inspect::{Given, Progress, Session};
use process::{CheckpointFile, GroupKind};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use trail::cipher::{KeyError, MASTER_KEY_BYTES, MasterKey, MasterKeys};
use trail::format::bytes::{Cursor, Order};
use trail::format::column::{self, Width};
use trail::format::fragment::Fragment;
use trail::format::record::{self, RecordView};
use trail::format::{header, metadata, sequence, statement, token, user_token};
use trail::storage::{Forgetful, Storage};
use trail::{PartitionName, Position, Reader, Start, TrailName, Writer, WriterOptions};

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
            walk(storage, &trail_name().file(sequence));
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

/// Gives the input to Logdump and to the tools, which walk over what is no record, and print whatever there is.
fn walk(storage: &Forgetful, file: &str) {
    let hands = Hands { storage: storage.clone() };
    let mut session = Session::new(Box::new(hands), PathBuf::from("."));
    for line in [
        "DECRYPT ON",
        &format!("OPEN {file}"),
        "GHDR ON; DETAIL DATA; GGSTOKEN DETAIL; USERTOKEN DETAIL; FILEHEADER DETAIL; HEADERTOKEN DETAIL; N 100000",
        "POS EOF; POS REVERSE; N 100000",
        "TRANSHIST 5; POS 0; COUNT, DETAIL, INTERVAL 1",
        "FILTER INC USERTOKEN x; FILTER INC FILENAME *; FILTER MATCH ANY; N 100000",
        "FILTER CLEAR ALL; SFMD TDR 2; SFET; SFNT; POS 7; SFH; SFH PREV",
    ] {
        let _ = session.execute(line, &mut Nowhere);
    }
    let given = Given { definitions: given().to_vec(), keys: Some(Arc::new(Keys)) };
    let mut sink = Nowhere;
    let mut work = Work { output: &mut sink, given: &given, progress: &|_| {} };
    let Ok(files) = TrailFiles::find(Arc::new(storage.clone()), file) else { return };
    let _ = tools::verify(&files, &mut work);
    let _ = tools::stat(&files, &StatWish { transactions: 3, ..StatWish::default() }, &mut work);
    if let Ok(mut selection) = Selection::new(SelectionWish::default()) {
        let _ = tools::export(&files, &mut selection, ExportFormat::JsonLines, &mut work);
    }
    let _ = tools::undo(&files, "1", Some(Dialect::Postgresql), &mut work);
}

/// A machine with nothing but the files.
struct Hands {
    storage: Forgetful,
}

impl inspect::Hands for Hands {
    fn directory(&self, _path: &Path) -> Arc<dyn Storage> {
        Arc::new(self.storage.clone())
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
        Ok(Arc::new(Keys))
    }

    fn run_program(&self, _command: &str) -> Result<(), String> {
        Ok(())
    }

    fn is_interrupted(&self) -> bool {
        false
    }

    fn progress(&self, _progress: Progress) {}
}

/// Definitions for files that hold none.
fn given() -> [Arc<TableDefinition>; 5] {
    [table("narrow", 1), table("wide", 4), table("other", 2), table("t1", 2), table("t2", 2)]
}

fn read(storage: &Forgetful) -> Decoded {
    let given = given();
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
    WriterOptions::new(trail_name(), 1 << 20, Arc::new(change::Timestamp::default))
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
