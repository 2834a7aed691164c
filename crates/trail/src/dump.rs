//! A trail file as text.
//!
//! The lines for a record follow those of Logdump with GHDR ON, DETAIL DATA and GGSTOKEN DETAIL; below each column of a
//! table whose definition the file holds stands its value. Files of other products are walked as well: frames, headers,
//! columns and tokens are public, definitions are not.

use crate::cipher::MasterKeys;
use crate::cover::Uncoverer;
use crate::format::bytes::{Cursor, Order, from_julian_micros};
use crate::format::column::{self, Width};
use crate::format::fragment::Fragment;
use crate::format::header::{self, FileHeader};
use crate::format::partition::PartitionName;
use crate::format::record::{self, Object, RecordView, metadata_kind, operation, transaction};
use crate::format::{metadata, sequence, statement, token, user_token};
use crate::scan::{Forward, Trouble};
use crate::storage::Storage;
use crate::{Damage, Error};
use change::{Column, DefinitionStatement, LogicalType, TableDefinition};
use std::collections::HashMap;
use std::io::{self, Write};
use std::sync::Arc;

/// Bytes of a value that are printed in hexadecimal.
const HEX_BYTES_MAX: usize = 1024;

const LINE: &str = "___________________________________________________________________";

/// What [`dump`] saw.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DumpSummary {
    /// Whole records.
    pub records: u64,
    /// Where and why it stopped before the end of the file.
    pub damage: Option<(u64, Damage)>,
}

/// Prints every record of the file called `name` readably, up to its end or to the first damage, which is printed too.
///
/// # Errors
/// [`Error::Io`] when the file can't be read or `output` takes no more.
pub fn dump(storage: &dyn Storage, name: &str, output: &mut dyn Write) -> Result<DumpSummary, Error> {
    dump_with(storage, name, output, None)
}

/// Prints every record as [`dump`] does, encrypted ones in clear by the keys that are given. Without keys an encrypted record is
/// shown as such.
///
/// # Errors
/// As [`dump`]; [`Error::Key`] when the keys do not have that of the file.
pub fn dump_with(
    storage: &dyn Storage,
    name: &str,
    output: &mut dyn Write,
    keys: Option<Arc<dyn MasterKeys>>,
) -> Result<DumpSummary, Error> {
    let mut summary = DumpSummary { records: 0, damage: None };
    let mut rba = 0;
    let read = |source| Error::io("read", storage, name, source);
    let file = storage.open_read(name).map_err(read)?;
    let length = file.len().map_err(read)?;
    let mut printer = Printer {
        output,
        definitions: HashMap::new(),
        partitions: HashMap::new(),
        has_keys: keys.is_some(),
        uncoverer: Uncoverer::new(keys),
    };
    match print_all(&mut printer, file, length, &mut summary.records, &mut rba) {
        Ok(()) => {}
        Err(Stop::Print(source)) => return Err(Error::io("print", storage, name, source)),
        Err(Stop::Trouble(Trouble::Damage(damage))) => {
            let next_step = "everything before this byte is whole";
            let told = writeln!(printer.output, "{LINE}\nDamaged at RBA {rba} of {length}: {damage}; {next_step}");
            told.map_err(|source| Error::io("print", storage, name, source))?;
            summary.damage = Some((rba, damage));
        }
        Err(Stop::Trouble(trouble)) => return Err(trouble.at(storage, name, rba)),
    }
    Ok(summary)
}

/// Why printing ends early.
enum Stop {
    Print(io::Error),
    Trouble(Trouble),
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Stop {
        Stop::Print(error)
    }
}

impl From<Damage> for Stop {
    fn from(damage: Damage) -> Stop {
        Stop::Trouble(Trouble::Damage(damage))
    }
}

fn print_all(
    printer: &mut Printer<'_>,
    file: Box<dyn crate::storage::File>,
    length: u64,
    records: &mut u64,
    rba: &mut u64,
) -> Result<(), Stop> {
    let mut forward = Forward::open(file, length).map_err(Stop::Trouble)?;
    let order = forward.order();
    while let Some(place) = forward.next(length).map_err(Stop::Trouble)? {
        printer.record(&forward.block()[place], order, *rba)?;
        *records += 1;
        *rba = forward.rba();
    }
    Ok(())
}

struct Printer<'a> {
    output: &'a mut dyn Write,
    /// Names, and definitions of ours, by number.
    definitions: HashMap<u16, (String, Option<TableDefinition>)>,
    /// Names of partitions by number.
    partitions: HashMap<u16, String>,
    has_keys: bool,
    uncoverer: Uncoverer,
}

impl Printer<'_> {
    /// Prints one record, which has a whole frame.
    fn record(&mut self, record: &[u8], order: Order, rba: u64) -> Result<(), Stop> {
        writeln!(self.output, "{LINE}")?;
        if record.first() == Some(&token::FILE_HEADER) {
            return self.file_header(record, order, rba);
        }
        let uncovered;
        let mut view = RecordView::read(record, order)?;
        if view.has_checksum() {
            view.verify()?;
        }
        self.header_fields(&view, order)?;
        let header = &view.header;
        let (time, name) = (time_text(header.time), operation::name(header.operation));
        writeln!(self.output, "\n{time} {name:<20} Len {:>5} RBA {rba}", header.data_length)?;
        if view.is_covered() || self.uncoverer.is_needed() {
            let length = view.data.len();
            if (view.encrypted.is_some() || self.uncoverer.is_needed()) && !self.has_keys {
                writeln!(self.output, "Encrypted, {length} bytes")?;
                return self.tokens(&view, order);
            }
            uncovered = self.uncoverer.uncover(&view, record, order).map_err(|stuck| Stop::Trouble(stuck.into()))?;
            (view.data, view.user_tokens) = (&uncovered.data, &uncovered.user);
            let what = if view.encrypted.is_some() { "Decrypted" } else { "Decompressed" };
            writeln!(self.output, "{what}, {length} bytes in the file, {} here", view.data.len())?;
        }
        if header.operation == operation::METADATA {
            self.metadata(&view, order)?;
        } else {
            self.change(&view, order)?;
        }
        self.tokens(&view, order)?;
        self.user_tokens(&view)
    }

    fn header_fields(&mut self, view: &RecordView<'_>, order: Order) -> Result<(), Stop> {
        let header = &view.header;
        let output = &mut *self.output;
        let sign = |byte: u8| if byte.is_ascii_graphic() { char::from(byte) } else { '.' };
        let yes = |byte: u8| if byte == 0 { 'N' } else { 'Y' };
        let (partition, before_after) = (header.partition, header.before_after);
        writeln!(output, "Hdr-Ind    :     E  (x45)     Partition  : {:>5}  (x{partition:02x})", sign(partition))?;
        write!(output, "UndoFlag   : {:>5}  (x{:02x})     ", sign(header.undo), header.undo)?;
        writeln!(output, "BeforeAfter: {:>5}  (x{before_after:02x})", sign(before_after))?;
        write!(output, "RecLength  : {:>5}  (x{:04x})   ", header.data_length, header.data_length)?;
        writeln!(output, "IO Time    : {}", time_text(header.time))?;
        write!(output, "IOType     : {:>5}  (x{:02x})     ", header.operation, header.operation)?;
        writeln!(output, "OrigNode   : {:>5}  (x{:02x})", header.origin, header.origin)?;
        write!(output, "TransInd   : {:>5}  (x{:02x})     ", '.', header.transaction)?;
        writeln!(output, "FormatType : {:>5}  (x{:02x})", sign(header.format), header.format)?;
        write!(output, "SyskeyLen  : {:>5}  (x{:02x})     ", header.system_key_length, header.system_key_length)?;
        writeln!(output, "Incomplete : {:>5}  (x{:02x})", '.', header.incomplete)?;
        if header.operation == operation::METADATA {
            let (first, second) = header.indexes(order);
            let label = if header.origin == metadata_kind::PARTITION { "TDR/PNR idx: " } else { "DDR/TDR index: " };
            writeln!(output, "{label}  ({first:03}, {second:03})     AuditPos   : {}", header.audit_position)?;
        } else {
            writeln!(output, "AuditRBA   : {:>10}       AuditPos   : {}", header.audit_offset, header.audit_position)?;
        }
        write!(output, "Continued  : {:>5}  (x{:02x})     ", yes(header.continued), header.continued)?;
        writeln!(output, "RecCount   : {:>5}  (x{:02x})", header.count, header.count)?;
        Ok(())
    }

    fn metadata(&mut self, view: &RecordView<'_>, order: Order) -> Result<(), Stop> {
        let (_, index) = view.header.indexes(order);
        let name = object_name(&view.object);
        match view.header.origin {
            metadata_kind::DATABASE => match metadata::read_database_body(view.data, order) {
                Ok(source) => writeln!(
                    self.output,
                    "Database Name: {}\nDatabase type: {}\nDatabase version: {}",
                    source.name, source.product, source.version
                )?,
                Err(_) => writeln!(self.output, "DDR body not understood, {} bytes", view.data.len())?,
            },
            metadata_kind::TABLE => {
                if metadata::is_table_body(view.data) {
                    let table = metadata::read_table_body(view.data, order)?;
                    self.table_definition(&table)?;
                    self.definitions.insert(index, (table.name.to_string(), Some(table)));
                } else {
                    let bytes = view.data.len();
                    writeln!(self.output, "Table Name: {name}\nTDR body not understood, {bytes} bytes")?;
                    self.definitions.insert(index, (name, None));
                }
            }
            metadata_kind::TABLE_REFERENCE => {
                writeln!(self.output, "Table Name: {name} (Ref TDR Index: {index})")?;
                // The new table takes the next number.
                let known = self.definitions.get(&index).and_then(|(_, table)| table.clone());
                let next = self.definitions.keys().max().map_or(1, |last| last.saturating_add(1));
                self.definitions.insert(next, (name, known));
            }
            metadata_kind::PARTITION => {
                let Object::Partition(bytes) = view.object else { return Ok(()) };
                let PartitionName { name, id, flags } = PartitionName::read(bytes, order)?;
                writeln!(self.output, "Partition Name: {name} Partition ID: {} Flags: x{flags:08x}", grouped(id))?;
                self.partitions.insert(index, name);
            }
            other => writeln!(self.output, "Metadata of unknown kind {other}, {} bytes", view.data.len())?,
        }
        Ok(())
    }

    fn table_definition(&mut self, table: &TableDefinition) -> Result<(), Stop> {
        writeln!(self.output, "Table Name: {}\nColumns: {}", table.name, table.columns.len())?;
        for (index, column) in table.columns.iter().enumerate() {
            let number =
                |label: &str, value: Option<i64>| value.map_or(String::new(), |value| format!(" {label} {value}"));
            writeln!(
                self.output,
                "  {index:>4} {:<30} {:?} ({}){}{}{}{}{}{}",
                column.name,
                column.logical,
                column.native,
                number("length", column.length.map(i64::from)),
                number("precision", column.precision.map(i64::from)),
                number("scale", column.scale.map(i64::from)),
                if column.nullable { "" } else { " not null" },
                number("key", column.key.map(i64::from)),
                if column.generation.is_computed() { " computed" } else { "" },
            )?;
        }
        writeln!(self.output, "End of definition")?;
        Ok(())
    }

    fn change(&mut self, view: &RecordView<'_>, order: Order) -> Result<(), Stop> {
        let header = &view.header;
        let (name, index) = match &view.object {
            Object::Name(_) | Object::Partition(_) => (object_name(&view.object), None),
            Object::Index { definition, partition } => {
                let name = self.definitions.get(definition).map_or("?", |(name, _)| name);
                let text = match partition {
                    None => format!("{name}  (TDR Index: {definition})"),
                    Some(index) => {
                        let partition = self.partitions.get(index).map_or("?", String::as_str);
                        format!("{name} (PARTITION: {partition}, TDR/PNR INDEX: {definition}/{index})")
                    }
                };
                (text, Some(*definition))
            }
        };
        if !name.is_empty() {
            writeln!(self.output, "Name: {name}")?;
        }
        match header.operation {
            operation::RESTART_ABEND | operation::RESTART_OK => return Ok(()),
            operation::COMMENT => return Ok(writeln!(self.output, "{}", String::from_utf8_lossy(view.data))?),
            operation::DDL if statement::read_body(view.data).is_ok() => return self.statement(view.data),
            operation::SEQUENCE if sequence::read_body(view.data, order).is_ok() => {
                let sequence = sequence::read_body(view.data, order)?;
                let called = if sequence.is_called { "handed out" } else { "comes next" };
                let (name, value, increment) = (sequence.name, sequence.value, sequence.increment);
                return Ok(writeln!(self.output, "Sequence {name}: {value} {called}, increment {increment}")?);
            }
            _ => {}
        }
        let image = if header.before_after == b'B' { "Before Image:" } else { "After  Image:" };
        let letter = match header.transaction {
            transaction::FIRST => 'b',
            transaction::MIDDLE => 'm',
            transaction::LAST => 'e',
            _ => 's',
        };
        writeln!(self.output, "{image:<57} Partition x{:02x}   G  {letter}", header.partition)?;
        let table = index.and_then(|index| self.definitions.get(&index)).and_then(|(_, table)| table.clone());
        let columns = table.as_ref().map(|table| &*table.columns);
        match self.data(view, order, columns) {
            // The frame is whole, so another product writes such data in another way.
            Err(Stop::Trouble(Trouble::Damage(_))) => {
                writeln!(self.output, "data not understood, {} bytes", view.data.len())?;
                Ok(hex(self.output, view.data)?)
            }
            other => other,
        }
    }

    fn data(&mut self, view: &RecordView<'_>, order: Order, columns: Option<&[Column]>) -> Result<(), Stop> {
        let header = &view.header;
        match header.operation {
            operation::DELETE | operation::INSERT | operation::UPDATE => self.columns(view.data, order, columns),
            operation::FULL_UPDATE if header.partition & record::partition::COLUMNS != 0 => {
                self.columns(view.data, order, columns)
            }
            operation::KEY_UPDATE | operation::KEY_UPDATE_WIDE => {
                let mut cursor = Cursor::new(view.data, order);
                let (length, prefix) = match header.operation {
                    operation::KEY_UPDATE => (u32::from(cursor.u16("key")?), 2),
                    _ => (cursor.u32("key")?, 4),
                };
                let printed = length.saturating_add(prefix);
                writeln!(self.output, "Before Image          Len {printed:>5} (x{printed:08x})")?;
                let key = cursor.take(usize::try_from(length).unwrap_or(usize::MAX), "key")?;
                self.columns(key, order, columns)?;
                let after = cursor.rest();
                writeln!(self.output, "\nAfter Image           Len {:>5} (x{:08x})", after.len(), after.len())?;
                self.columns(after, order, columns)
            }
            operation::UNIFIED_UPDATE | operation::UNIFIED_KEY_UPDATE => {
                let mut cursor = Cursor::new(view.data, order);
                let length = cursor.u32("image before")?;
                writeln!(self.output, "Before Image          Len {length:>5} (x{length:08x})")?;
                let before = cursor.take(usize::try_from(length).unwrap_or(usize::MAX), "image before")?;
                self.columns(before, order, columns)?;
                let after = cursor.rest();
                writeln!(self.output, "\nAfter Image           Len {:>5} (x{:08x})", after.len(), after.len())?;
                self.columns(after, order, columns)
            }
            operation::FRAGMENT => {
                match Fragment::read(view.data, order) {
                    Ok(fragment) => writeln!(
                        self.output,
                        "Part {} of a {} of {} bytes, {} bytes here",
                        fragment.number,
                        operation::name(fragment.operation),
                        fragment.total,
                        fragment.part.len()
                    )?,
                    Err(_) => writeln!(self.output, "fragment not understood, {} bytes", view.data.len())?,
                }
                Ok(())
            }
            _ => Ok(hex(self.output, view.data)?),
        }
    }

    fn columns(&mut self, list: &[u8], order: Order, columns: Option<&[Column]>) -> Result<(), Stop> {
        let mut cursor = Cursor::new(list, order);
        while let Some(entry) = column::next(&mut cursor, Width::Narrow)? {
            let (index, length) = (entry.index, entry.raw.len());
            write!(self.output, "Column {index} (0x{index:04x}), Length {length} (0x{length:04x}).")?;
            let Some(column) = columns.and_then(|columns| columns.get(usize::from(index))) else {
                // The type is not known, so all there is are the bytes.
                writeln!(self.output)?;
                hex(self.output, entry.raw)?;
                continue;
            };
            writeln!(self.output, "  {}", column.name)?;
            match entry.value {
                None => writeln!(self.output, " NULL")?,
                Some(_) => value(self.output, column.logical, entry.raw.get(4..).unwrap_or_default())?,
            }
        }
        Ok(())
    }

    fn tokens(&mut self, view: &RecordView<'_>, order: Order) -> Result<(), Stop> {
        let mut cursor = Cursor::new(view.tokens, order);
        let mut is_first = true;
        while let Some(token) = token::next(&mut cursor)? {
            if std::mem::take(&mut is_first) {
                writeln!(self.output, "\nGGS tokens:")?;
            }
            let name = token::record_token_name(token.id);
            let letter = char::from(token.id);
            let (info, length) = (token.info, token.payload.len());
            writeln!(
                self.output,
                "TokenID x{:02x} '{letter}' {name:<16} Info x{info:02x}  Length {length:>4}",
                token.id
            )?;
            hex(self.output, token.payload)?;
        }
        Ok(())
    }

    fn user_tokens(&mut self, view: &RecordView<'_>) -> Result<(), Stop> {
        if view.user_tokens.is_empty() {
            return Ok(());
        }
        writeln!(self.output, "\nUser tokens:")?;
        match user_token::read(view.user_tokens) {
            Ok(tokens) => {
                for token in tokens {
                    writeln!(self.output, "{:<20} : {}", token.name, token.value)?;
                }
                Ok(())
            }
            // Another product may write them in another way.
            Err(_) => Ok(hex(self.output, view.user_tokens)?),
        }
    }

    fn statement(&mut self, data: &[u8]) -> Result<(), Stop> {
        let statement = statement::read_body(data)?;
        let DefinitionStatement { user, text, search_path, base, filled, .. } = &statement;
        write!(self.output, "{} by {user}", statement.title())?;
        if let Some(base) = base {
            write!(self.output, ", on {base}")?;
        }
        if !search_path.is_empty() {
            write!(self.output, ", search path {search_path}")?;
        }
        for filled in filled {
            write!(self.output, ", fills {}", filled.column)?;
        }
        writeln!(self.output)?;
        Ok(writeln!(self.output, "{text}")?)
    }

    fn file_header(&mut self, record: &[u8], order: Order, rba: u64) -> Result<(), Stop> {
        let header = FileHeader::read(record, order)?;
        self.uncoverer.set_key(&header);
        let time = header.created;
        writeln!(self.output, "{time} FileHeader           Len {:>5} RBA {rba}", record.len() - 8)?;
        writeln!(self.output, "Name: *FileHeader*")?;
        let mut group = None;
        header::walk(record, order, |id, token, _| {
            let mut line = || -> io::Result<()> {
                if group.replace(id) != Some(id) {
                    writeln!(self.output, "\nGroupID x{id:02x} '{}' {}", char::from(id), header::group_name(id))?;
                }
                let name = header::token_name(id, token.id);
                let letter = char::from(token.id);
                let (info, length) = (token.info, token.payload.len());
                writeln!(
                    self.output,
                    "TokenID x{:02x} '{letter}' {name:<16} Info x{info:02x}  Length {length:>4}",
                    token.id
                )?;
                hex(self.output, token.payload)
            };
            line().map_err(|_| Damage::Content("the header could not be printed"))
        })?;
        let order = if order == Order::Little { "little-endian" } else { "big-endian" };
        let form = header.form.map_or("another product's".to_owned(), |form| format!("{form}"));
        writeln!(
            self.output,
            "\nFile {} of {}, level {}, {order}, form {form}",
            header.sequence, header.file_name, header.level
        )?;
        if let Some(key) = &header.key {
            writeln!(self.output, "Encrypted by {}, master key {} version {}", key.algorithm, key.name, key.version)?;
        }
        if let Some(completion) = header.completion {
            writeln!(self.output, "Complete with {} bytes", completion.file_size)?;
            if let Some(span) = completion.span {
                writeln!(self.output, "First CSN {} at {}", span.first_csn, span.first_time)?;
                writeln!(self.output, "Last CSN {} at {}", span.last_csn, span.last_time)?;
            }
        }
        Ok(())
    }
}

fn object_name(object: &Object<'_>) -> String {
    match object {
        Object::Name(name) => String::from_utf8_lossy(name).into_owned(),
        Object::Index { .. } | Object::Partition(_) => String::new(),
    }
}

/// A number in groups of three digits.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let groups: Vec<&[u8]> = digits.as_bytes().rchunks(3).rev().collect();
    groups.iter().map(|group| String::from_utf8_lossy(group)).collect::<Vec<_>>().join(",")
}

/// Prints a value: text as text if it is printable, anything else in hexadecimal.
fn value(output: &mut dyn Write, logical: LogicalType, bytes: &[u8]) -> io::Result<()> {
    let (class, bytes) = match (logical, bytes) {
        (LogicalType::Dynamic, [class, rest @ ..]) => (Some(*class), rest),
        _ => (None, bytes),
    };
    let is_binary = logical == LogicalType::Binary || class == Some(b'b');
    match std::str::from_utf8(bytes) {
        Ok(text) if !is_binary && !text.chars().any(char::is_control) => writeln!(output, " {text}"),
        _ => hex(output, bytes),
    }
}

/// Prints bytes as Logdump does: ten groups of two bytes, then the characters.
fn hex(output: &mut dyn Write, bytes: &[u8]) -> io::Result<()> {
    for line in bytes.get(..HEX_BYTES_MAX).unwrap_or(bytes).chunks(20) {
        let groups: Vec<String> =
            line.chunks(2).map(|pair| pair.iter().map(|byte| format!("{byte:02x}")).collect()).collect();
        let characters: String =
            line.iter().map(|&byte| if matches!(byte, 0x20..0x7F) { char::from(byte) } else { '.' }).collect();
        writeln!(output, " {:<49} | {characters}", groups.join(" "))?;
    }
    if bytes.len() > HEX_BYTES_MAX {
        writeln!(output, " and {} bytes more", bytes.len() - HEX_BYTES_MAX)?;
    }
    Ok(())
}

/// `YYYY/MM/DD HH:MM:SS.mmm.uuu` in UTC.
fn time_text(julian: u64) -> String {
    let text = from_julian_micros(julian).to_string().replace('-', "/");
    match text.split_at_checked(text.len().saturating_sub(3)) {
        Some((millis, micros)) => format!("{millis}.{micros}"),
        None => text,
    }
}
