//! The file header record (FILEHEADER).

use super::record::{header_tokens, token_line};
use super::{Depth, LINE, Style};
use crate::hex;
use std::fmt::Write;
use trail::format::bytes::{Order, julian_micros};
use trail::format::header::{self, FileHeader};

/// Bytes of the frame around the groups.
const FRAME_BYTES: usize = 8;

/// Appends a file header record as the settings say.
pub fn file_header(text: &mut String, bytes: &[u8], order: Order, rba: u64, style: Style<'_>) {
    header_tokens(text, bytes.get(..4).unwrap_or_default(), order, style);
    if style.display.header {
        text.push_str(LINE);
        text.push('\n');
    }
    let read = FileHeader::read(bytes, order);
    let julian = read.as_ref().map_or(0, |header| julian_micros(header.created));
    let time = style.display.zone.julian_text(julian, style.local);
    // Writing to a string can't fail, here and below.
    _ = writeln!(text, "{time} {:<20} Len {:>5} RBA {rba}", "FileHeader", bytes.len().saturating_sub(FRAME_BYTES));
    text.push_str("Name: *FileHeader*\n");
    if let Err(damage) = &read {
        _ = writeln!(text, "Damaged: {damage}");
    }
    if style.display.file_header == Depth::Off {
        return;
    }
    let inner = bytes.get(4..bytes.len().saturating_sub(4)).unwrap_or_default();
    hex::dump(text, inner, style.display.header_characters);
    if style.display.file_header != Depth::Detail {
        return;
    }
    let lengths = group_lengths(bytes, order);
    let mut group = None;
    let walked = header::walk(bytes, order, |id, token, _| {
        if group.replace(id) != Some(id) {
            let name = header::group_name(id);
            let length = lengths.iter().find(|(known, _)| *known == id).map_or(0, |(_, length)| *length);
            let letter = if id.is_ascii_graphic() { char::from(id) } else { '.' };
            _ = writeln!(text, "\nGroupID x{id:02x} '{letter}' {name:<16} Info x00  Length {length:>4}");
        }
        token_line(text, token.id, header::token_name(id, token.id), token.info, token.payload.len());
        hex::dump(text, token.payload, style.display.header_characters);
        Ok(())
    });
    if walked.is_err() {
        text.push_str("the tokens do not add up to the record\n");
    }
    if let Ok(read) = &read {
        told_by_drover(text, read, order);
    }
}

/// Groups in their order with the bytes that they hold.
fn group_lengths(bytes: &[u8], order: Order) -> Vec<(u8, usize)> {
    let mut lengths: Vec<(u8, usize)> = Vec::new();
    _ = header::walk(bytes, order, |id, token, _| {
        let length = token.payload.len() + 4;
        match lengths.last_mut() {
            Some((last, sum)) if *last == id => *sum += length,
            _ => lengths.push((id, length)),
        }
        Ok(())
    });
    lengths
}

/// What the tokens say, in words; how a file is encrypted stands in none of the public ones.
fn told_by_drover(text: &mut String, header: &FileHeader, order: Order) {
    let order = if order == Order::Little { "little-endian" } else { "big-endian" };
    let form = header.form.map_or("another product's".to_owned(), |form| form.to_string());
    let FileHeader { sequence, file_name, level, .. } = header;
    _ = writeln!(text, "\nFile {sequence} of {file_name}, level {level}, {order}, form {form}");
    for uri in std::iter::once(&header.uri).chain(&header.uri_history).filter(|uri| !uri.is_empty()) {
        _ = writeln!(text, "Written by {uri}");
    }
    if let Some(key) = &header.key {
        _ = writeln!(text, "Encrypted by {}, master key {} version {}", key.algorithm, key.name, key.version);
    }
    if let Some(completion) = &header.completion {
        _ = writeln!(text, "Complete with {} bytes", completion.file_size);
        for span in completion.span.iter() {
            _ = writeln!(text, "First CSN {} at {}", span.first_csn, span.first_time);
            _ = writeln!(text, "Last CSN {} at {}", span.last_csn, span.last_time);
        }
    }
}
