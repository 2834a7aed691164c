//! The columns of a change (DETAIL).

use super::record::Shown;
use super::{Depth, Style};
use crate::hex;
use std::fmt::Write;
use trail::Damage;
use trail::format::bytes::Cursor;
use trail::format::column::{self, Width};
use trail::format::fragment::Fragment;
use trail::format::record::{operation, partition};
use trail::format::sequence;

/// Appends the columns of a record's data, or what else it holds.
///
/// # Errors
/// [`Damage`] when the data is nothing that can be taken apart: the frame is whole, so another product writes it otherwise.
pub(super) fn data(text: &mut String, shown: &Shown<'_>, data: &[u8], style: Style<'_>) -> Result<(), Damage> {
    let header = &shown.view.header;
    let mut cursor = Cursor::new(data, shown.order);
    match header.operation {
        operation::DELETE | operation::INSERT | operation::UPDATE => columns(text, cursor, shown, style),
        operation::FULL_UPDATE if header.partition & partition::COLUMNS != 0 => columns(text, cursor, shown, style),
        operation::KEY_UPDATE | operation::KEY_UPDATE_WIDE => {
            let (length, prefix) = match header.operation {
                operation::KEY_UPDATE => (u32::from(cursor.u16("key")?), 2),
                _ => (cursor.u32("key")?, 4),
            };
            let key = cursor.take(usize::try_from(length).unwrap_or(usize::MAX), "key")?;
            image(text, "Before Image", u64::from(length) + prefix);
            _ = writeln!(text, "KeyLen {length:>5} (x{length:08x})");
            old_columns(text, Cursor::new(key, shown.order), "KeyCol", style)?;
            text.push('\n');
            image(text, "After Image", cursor.rest().len() as u64);
            old_columns(text, Cursor::new(cursor.rest(), shown.order), "Column", style)
        }
        operation::UNIFIED_UPDATE | operation::UNIFIED_KEY_UPDATE => {
            let length = cursor.u32("image before")?;
            let before = cursor.take(usize::try_from(length).unwrap_or(usize::MAX), "image before")?;
            image(text, "Before Image", u64::from(length) + 4);
            _ = writeln!(text, "BeforeColumnLen {length:>5} (x{length:08x})");
            columns(text, Cursor::new(before, shown.order), shown, style)?;
            text.push('\n');
            image(text, "After Image", cursor.rest().len() as u64);
            columns(text, Cursor::new(cursor.rest(), shown.order), shown, style)
        }
        operation::FRAGMENT => {
            let fragment = Fragment::read(data, shown.order)?;
            let whole = operation::name(fragment.operation);
            let (number, total, here) = (fragment.number, fragment.total, fragment.part.len());
            _ = writeln!(text, "Part {number} of a {whole} of {total} bytes, {here} bytes here");
            Ok(())
        }
        operation::SEQUENCE => {
            let sequence = sequence::read_body(data, shown.order)?;
            let called = if sequence.is_called { "handed out" } else { "comes next" };
            let (name, value, increment) = (sequence.name, sequence.value, sequence.increment);
            _ = writeln!(text, "Sequence {name}: {value} {called}, increment {increment}");
            Ok(())
        }
        operation::COMMENT => {
            _ = writeln!(text, "{}", String::from_utf8_lossy(data));
            Ok(())
        }
        _ => Ok(()),
    }
}

fn image(text: &mut String, label: &str, length: u64) {
    _ = writeln!(text, "{label:<21} Len {length:>5} (x{length:08x})");
}

/// The lines of columns, as release 21 prints them or as those before did.
fn columns(text: &mut String, mut cursor: Cursor<'_>, shown: &Shown<'_>, style: Style<'_>) -> Result<(), Damage> {
    while let Some(entry) = column::next(&mut cursor, Width::Narrow)? {
        let (index, length) = (entry.index, entry.raw.len());
        _ = match shown.has_old_columns() {
            true => writeln!(text, "Column {index:>5} (x{index:04x}), Len {length:>5} (x{length:04x})  "),
            false => writeln!(text, "Column {index} (0x{index:04x}), Length {length} (0x{length:04x})."),
        };
        bytes(text, entry.raw, style);
    }
    Ok(())
}

/// The lines of columns of a key update, which kept the older form.
fn old_columns(text: &mut String, mut cursor: Cursor<'_>, label: &str, style: Style<'_>) -> Result<(), Damage> {
    while let Some(entry) = column::next(&mut cursor, Width::Narrow)? {
        let (index, length) = (entry.index, entry.raw.len());
        _ = writeln!(text, "{label} {index:>5} (x{index:04x}), Len {length:>5} (x{length:04x})");
        bytes(text, entry.raw, style);
    }
    Ok(())
}

fn bytes(text: &mut String, raw: &[u8], style: Style<'_>) {
    if style.display.columns == Depth::Detail {
        hex::dump(text, raw, style.display.data_characters);
    }
}
