//! The files of a trail, from the writer's side: how one starts.

use super::definitions::Definitions;
use super::{Producer, WriterOptions};
use crate::Error;
use crate::cipher::KeyError;
use crate::cover::Coverer;
use crate::format::bytes::{Order, julian_micros};
use crate::format::header::{self, FileHeader, Span};
use crate::format::layout::Layout;
use crate::format::metadata;
use crate::format::record::{self, Envelope, Object, RecordHeader, operation, transaction};
use crate::recovery::Recovered;
use crate::storage::{File, Storage};
use change::Timestamp;
use std::io;

/// Number of the database definition, the only one of a file.
pub(super) const DATABASE_INDEX: u16 = 1;

/// The file that is appended to.
pub(super) struct OpenFile {
    pub(super) name: String,
    pub(super) sequence: u32,
    pub(super) file: Box<dyn File>,
    /// Bytes that the operating system has.
    pub(super) flushed: u64,
    /// The header record, to be completed in place.
    pub(super) header: Vec<u8>,
    pub(super) span: Option<Span>,
    pub(super) definitions: Definitions,
    /// What is laid over its records.
    pub(super) coverer: Option<Coverer>,
}

impl OpenFile {
    /// Makes a file with header, database definition and `first` in it.
    ///
    /// It gets its name only when all of that is synced: a file of the trail has a whole header, whatever happens.
    pub(super) fn create(
        storage: &dyn Storage,
        options: &WriterOptions,
        layout: Layout,
        sequence: u32,
        marker: Option<u8>,
    ) -> Result<OpenFile, Error> {
        let name = options.trail.file(sequence);
        if sequence > options.trail.sequence_max() {
            let reason = format!("the numbers of its files end at {}", options.trail.sequence_max());
            let source = io::Error::other(reason);
            return Err(Error::io("create", storage, &name, source));
        }
        let covered = Coverer::new(&options.cover);
        let (mut coverer, key) = covered.map_err(|source| key_error(&name, source))?;
        let mut header = file_header(storage, options, layout, sequence);
        if coverer.is_some() {
            header.form = Some(if key.is_some() { header::FORM_PLACED } else { header::FORM_COVERED });
        }
        header.key = key;
        let header = header.record(layout.order);
        let mut bytes = header.clone();
        if layout.has_definitions {
            put_database(&mut bytes, options, layout.order, coverer.as_mut())
                .map_err(|source| key_error(&name, source))?;
        }
        if let Some(operation) = marker {
            put_marker(&mut bytes, layout.order, operation, (options.clock)(), coverer.as_mut())
                .map_err(|source| key_error(&name, source))?;
        }
        let unnamed = format!("{name}.new");
        let make = || -> io::Result<Box<dyn File>> {
            match storage.remove(&unnamed) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            let file = storage.create(&unnamed)?;
            file.write_at(&bytes, 0)?;
            file.sync()?;
            storage.rename(&unnamed, &name)?;
            storage.sync_directory()?;
            Ok(file)
        };
        let file = make().map_err(|source| write_error(storage, &name, 0, source))?;
        let flushed = bytes.len() as u64;
        let definitions = Definitions::default();
        Ok(OpenFile { name, sequence, file, flushed, header, span: None, definitions, coverer })
    }
}

/// Where a file was made, as its header shows it: `uri:host:parts::directory:GROUP`.
pub(crate) fn uri(storage: &dyn Storage, producer: &Producer) -> String {
    let host = producer.host.replace('.', ":");
    let directory = storage.place().trim_start_matches('/').replace('/', ":");
    format!("uri:{host}::{directory}:{}", producer.group)
}

pub(super) fn file_header(storage: &dyn Storage, options: &WriterOptions, layout: Layout, sequence: u32) -> FileHeader {
    FileHeader {
        level: layout.level,
        created: (options.clock)(),
        uri: uri(storage, &options.producer),
        uri_history: options.history.clone(),
        file_name: options.trail.numbered(&options.display_name, sequence),
        multi_part: !options.trail.is_single(),
        sequence,
        producer: options.producer.clone(),
        source: options.source.clone(),
        recovery: options.format.recovery(),
        has_definitions: layout.has_definitions,
        form: Some(header::FORM),
        completion: None,
        ..FileHeader::default()
    }
}

fn put_database(
    bytes: &mut Vec<u8>,
    options: &WriterOptions,
    order: Order,
    coverer: Option<&mut Coverer>,
) -> Result<(), KeyError> {
    let body = metadata::database_body(&options.source, order);
    let time = julian_micros((options.clock)());
    let mut header = RecordHeader::new(operation::METADATA, record::metadata_kind::DATABASE, time);
    header.data_length = body.len() as u16;
    header = header.with_indexes(order, DATABASE_INDEX, 0);
    put_covered(bytes, order, &header, Object::Name(b""), coverer, |buffer| buffer.extend_from_slice(&body))
}

/// The operation of the restart marker that tells how the trail ended; `None` for a new trail.
pub(super) fn marker(recovered: &Recovered) -> Option<u8> {
    let operation = if recovered.is_open { operation::RESTART_ABEND } else { operation::RESTART_OK };
    recovered.end.is_some().then_some(operation)
}

pub(crate) fn put_marker(
    buffer: &mut Vec<u8>,
    order: Order,
    operation: u8,
    time: Timestamp,
    coverer: Option<&mut Coverer>,
) -> Result<(), KeyError> {
    let header = RecordHeader { count: 0, ..RecordHeader::new(operation, 0, julian_micros(time)) };
    put_covered(buffer, order, &header, Object::Name(b""), coverer, |_| {})
}

/// Appends a record with data that belongs to no transaction.
pub(super) fn put_covered(
    buffer: &mut Vec<u8>,
    order: Order,
    header: &RecordHeader,
    object: Object<'_>,
    coverer: Option<&mut Coverer>,
    write_data: impl FnOnce(&mut Vec<u8>),
) -> Result<(), KeyError> {
    let start = buffer.len();
    record::put(buffer, order, header, &Envelope::new(object, &[]), write_data);
    if let Some(coverer) = coverer {
        coverer.cover(buffer, start, order)?;
        coverer.place(&mut buffer[start..], order, transaction::ONLY, 0)?;
    }
    record::seal(&mut buffer[start..], order, transaction::ONLY, 0);
    Ok(())
}

pub(super) fn key_error(file: &str, source: KeyError) -> Error {
    Error::Key { file: file.to_owned(), key: "of new files".to_owned(), source }
}

pub(super) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

pub(crate) fn write_error(storage: &dyn Storage, name: &str, rba: u64, source: io::Error) -> Error {
    if is_full(&source) {
        Error::Full { file: name.to_owned(), place: storage.place(), rba, source }
    } else {
        Error::io("write", storage, name, source)
    }
}
