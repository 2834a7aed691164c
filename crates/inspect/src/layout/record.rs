//! One record.

use super::columns;
use super::definition;
use super::{Depth, Style};
use crate::definitions::Definitions;
use crate::hex;
use std::fmt::Write;
use trail::Damage;
use trail::format::bytes::{Cursor, Order};
use trail::format::header::FileHeader;
use trail::format::record::{Object, RecordHeader, RecordView, metadata_kind, operation, transaction};
use trail::format::{statement, token, user_token};

/// The line over a record.
pub const LINE: &str = "___________________________________________________________________";

/// A record with what is known about it.
pub struct Shown<'a> {
    /// The record, taken apart.
    pub view: RecordView<'a>,
    /// Its bytes, as they stand in the file.
    pub bytes: &'a [u8],
    /// Where it stands.
    pub rba: u64,
    /// The file's byte order.
    pub order: Order,
    /// Its data in clear, or why there is none.
    pub data: Result<&'a [u8], String>,
    /// Its user tokens in clear.
    pub user: &'a [u8],
    /// What the file's first record says, where it can be read.
    pub header: Option<&'a FileHeader>,
    /// What the file has defined.
    pub definitions: &'a Definitions,
}

/// Lowest level of files whose partition flag is shown in hexadecimal: up to release 12 it was shown as a number.
const LEVEL_OF_PARTITION_FLAGS: u16 = 7;

/// Lowest level of files whose columns are shown in the form of release 21.
const LEVEL_OF_COLUMN_FORM: u16 = 8;

impl Shown<'_> {
    /// The level of the file; that of today's files where the file does not say.
    fn level(&self) -> u16 {
        self.header.map_or(LEVEL_OF_COLUMN_FORM, |header| header.level)
    }

    /// Whether columns are shown as they were up to release 18.
    pub(super) fn has_old_columns(&self) -> bool {
        self.level() < LEVEL_OF_COLUMN_FORM
    }
}

/// Appends a record as the settings say.
pub fn record(text: &mut String, shown: &Shown<'_>, style: Style<'_>) {
    let header = &shown.view.header;
    header_tokens(text, shown.bytes, shown.order, style);
    if style.display.header {
        text.push_str(LINE);
        text.push('\n');
        header_fields(text, header, shown.order, style);
        text.push('\n');
    }
    let (time, name) = (style.display.zone.julian_text(header.time, style.local), operation::name(header.operation));
    let length = header.data_length;
    // Writing to a string can't fail, here and below.
    _ = match header.operation {
        operation::METADATA => writeln!(text, "{time} {name:<20} Len {length} RBA {}", shown.rba),
        _ => writeln!(text, "{time} {name:<20} Len {length:>5} RBA {}", shown.rba),
    };
    match &shown.data {
        Ok(data) if shown.view.is_covered() => {
            let what = if shown.view.encrypted.is_some() { "Decrypted" } else { "Decompressed" };
            _ = writeln!(text, "{what}, {length} bytes in the file, {} here", data.len());
        }
        Ok(_) => {}
        Err(reason) => _ = writeln!(text, "Encrypted, {length} bytes: {reason}"),
    }
    if header.operation == operation::METADATA {
        definition::metadata(text, shown, style);
    } else {
        change(text, shown, style);
    }
    ggs_tokens(text, &shown.view, shown.order, style);
    user_tokens(text, shown, style);
}

fn header_fields(text: &mut String, header: &RecordHeader, order: Order, style: Style<'_>) {
    let sign = |byte: u8| if byte.is_ascii_graphic() { char::from(byte) } else { '.' };
    let yes = |byte: u8| if byte == 0 { 'N' } else { 'Y' };
    // The field of the header is shown as a signed number.
    let partition = match header.partition {
        0x80.. => format!("xff{:02x}", header.partition),
        _ => format!("x{:02x}", header.partition),
    };
    let time = style.display.zone.julian_text(header.time, style.local);
    let RecordHeader { undo, before_after, data_length, origin, format, incomplete, continued, count, .. } = *header;
    let mut line = |first: String, second: String| _ = writeln!(text, "{first:<30}{second}");
    line("Hdr-Ind    :     E  (x45)".to_owned(), format!("Partition  : {:>5}  ({partition})", sign(header.partition)));
    line(
        format!("UndoFlag   : {:>5}  (x{undo:02x})", sign(undo)),
        format!("BeforeAfter: {:>5}  (x{before_after:02x})", sign(before_after)),
    );
    line(format!("RecLength  : {data_length:>5}  (x{data_length:04x})"), format!("IO Time    : {time}"));
    line(
        format!("IOType     : {:>5}  (x{:02x})", header.operation, header.operation),
        format!("OrigNode   : {origin:>5}  (x{origin:02x})"),
    );
    line(
        format!("TransInd   : {:>5}  (x{:02x})", sign(header.transaction), header.transaction),
        format!("FormatType : {:>5}  (x{format:02x})", sign(format)),
    );
    line(
        format!("SyskeyLen  : {:>5}  (x{:02x})", header.system_key_length, header.system_key_length),
        format!("Incomplete : {:>5}  (x{incomplete:02x})", sign(incomplete)),
    );
    let position = format!("AuditPos   : {}", header.audit_position);
    let (first, second) = header.indexes(order);
    match (header.operation, header.origin) {
        (operation::METADATA, metadata_kind::PARTITION) => {
            line(format!("TDR/PNR idx: ({first:03}, {second:03})"), position);
        }
        // Two columns further to the right than the others, as published.
        (operation::METADATA, _) => line(format!("DDR/TDR index:   ({first:03}, {second:03})     "), position),
        _ => line(format!("AuditRBA   : {:>10}", header.audit_offset), position),
    }
    line(
        format!("Continued  : {:>5}  (x{continued:02x})", yes(continued)),
        format!("RecCount   : {count:>5}  (x{count:02x})"),
    );
}

fn change(text: &mut String, shown: &Shown<'_>, style: Style<'_>) {
    let (header, definitions) = (&shown.view.header, shown.definitions);
    let name = definitions.name_of(&shown.view.object);
    _ = match &shown.view.object {
        Object::Index { definition, partition: None } => writeln!(text, "Name: {name}  (TDR Index: {definition})"),
        Object::Index { definition, partition: Some(index) } => {
            let partition = definitions.partition(*index).map_or("?", |partition| partition.name.as_str());
            writeln!(text, "Name: {name} (PARTITION: {partition}, TDR/PNR INDEX: {definition}/{index})")
        }
        _ => writeln!(text, "Name: {name}"),
    };
    let image = if header.before_after == b'B' { "Before Image:" } else { "After  Image:" };
    let letter = match header.transaction {
        transaction::FIRST => 'b',
        transaction::MIDDLE => 'm',
        transaction::LAST => 'e',
        transaction::ONLY => 's',
        _ => '?',
    };
    let partition = match header.partition {
        trail::format::record::partition::COLUMNS if shown.level() < LEVEL_OF_PARTITION_FLAGS => "4".to_owned(),
        other => format!("x{other:02x}"),
    };
    _ = writeln!(text, "{image:<58}Partition {partition}   G  {letter}");
    let Ok(data) = shown.data else { return };
    let dumped = data.get(..style.display.data_bytes_max).unwrap_or(data);
    hex::dump(text, dumped, style.display.data_characters);
    if style.display.columns == Depth::Off {
        return;
    }
    let start = text.len();
    if columns::data(text, shown, data, style).is_err() {
        text.truncate(start);
        _ = writeln!(text, "data not understood, {} bytes", data.len());
    }
    if header.operation == operation::DDL
        && let Ok(statement) = statement::read_body(data)
    {
        _ = writeln!(text, "{}\n{}", statement.title(), statement.text);
    }
}

/// Appends the tokens that the bytes of a record are made of (HEADERTOKEN).
pub fn header_tokens(text: &mut String, bytes: &[u8], order: Order, style: Style<'_>) {
    if style.display.header_tokens == Depth::Off {
        return;
    }
    if write_header_tokens(text, bytes, order, style).is_err() {
        text.push_str("the tokens do not add up to the record\n");
    }
}

fn write_header_tokens(text: &mut String, bytes: &[u8], order: Order, style: Style<'_>) -> Result<(), Damage> {
    let mut cursor = Cursor::new(bytes, order);
    let line = |text: &mut String, id: u8, info: u8, length: u16| {
        let what = match id {
            // Inside a record `T` is called by what it holds.
            token::TOKENS => "GGS Tokens",
            id => token::name(id),
        };
        token_line(text, id, what, info, usize::from(length));
    };
    while !cursor.is_empty() {
        let (id, info, length) = (cursor.u8("token")?, cursor.u8("token")?, cursor.u16("token")?);
        line(text, id, info, length);
        match id {
            token::RECORD | token::FILE_HEADER | token::TRAILER => {}
            _ => {
                let payload = cursor.take(usize::from(length), "token")?;
                if id == token::HEADER && style.display.header_tokens == Depth::Detail {
                    let mut shown = payload.to_vec();
                    // The name, or the number in its place, is not shown.
                    shown.iter_mut().skip(trail::format::record::HEADER_BYTES).for_each(|byte| *byte = 0);
                    hex::dump(text, &shown, style.display.header_characters);
                }
            }
        }
    }
    Ok(())
}

fn ggs_tokens(text: &mut String, view: &RecordView<'_>, order: Order, style: Style<'_>) {
    if style.display.tokens == Depth::Off || view.tokens.is_empty() {
        return;
    }
    text.push_str("\nGGS tokens:\n");
    if style.display.tokens == Depth::On {
        return hex::dump(text, view.tokens, style.display.header_characters);
    }
    let mut cursor = Cursor::new(view.tokens, order);
    while let Ok(Some(token)) = token::next(&mut cursor) {
        token_line(text, token.id, token::record_token_name(token.id), token.info, token.payload.len());
        hex::dump(text, token.payload, style.display.header_characters);
    }
}

/// `TokenID x4c 'L' LOGCSN           Info x00  Length   17`.
pub(super) fn token_line(text: &mut String, id: u8, name: &str, info: u8, length: usize) {
    let letter = if id.is_ascii_graphic() { char::from(id) } else { '.' };
    _ = writeln!(text, "TokenID x{id:02x} '{letter}' {name:<16} Info x{info:02x}  Length {length:>4}");
}

fn user_tokens(text: &mut String, shown: &Shown<'_>, style: Style<'_>) {
    if style.display.user_tokens == Depth::Off || shown.view.user_tokens.is_empty() || shown.data.is_err() {
        return;
    }
    text.push_str("\nUser tokens:\n");
    match user_token::read(shown.user) {
        // Another product may write them in another way.
        Err(_) => hex::dump(text, shown.user, style.display.data_characters),
        Ok(tokens) => {
            for token in tokens {
                _ = match style.display.user_tokens {
                    Depth::Detail => writeln!(text, "{:<20}: {}", token.name, token.value),
                    _ => writeln!(text, "{:<20}, Length {:>4}", token.name, token.value.len()),
                };
            }
        }
    }
}
