//! Values into the forms in which they are sent.

use super::element::Element;
use bytes::{BufMut, BytesMut};
use change::{LogicalType, Value};

/// The bytes of a value as a parameter takes them; `None` for NULL.
///
/// A value of a source whose columns have no class of their own starts with a mark of its class, which is left out.
pub(super) fn plain(value: Value<'_>, logical: LogicalType) -> Option<&[u8]> {
    let bytes = value.bytes()?;
    Some(if logical == LogicalType::Dynamic { bytes.get(1..).unwrap_or_default() } else { bytes })
}

/// Appends an array in binary form; `None` when a value's text is not in the notation that its element needs.
pub(super) fn array<'a>(
    out: &mut BytesMut,
    element: Element,
    values: impl ExactSizeIterator<Item = Option<&'a [u8]>>,
) -> Option<()> {
    let (_, _, element_type) = element.array_type();
    out.put_i32(1);
    let has_null_at = out.len();
    out.put_i32(0);
    out.put_u32(element_type);
    out.put_u32(u32::try_from(values.len()).expect("a batch has few rows"));
    out.put_i32(1);
    let mut has_null = false;
    for value in values {
        match value {
            None => {
                has_null = true;
                out.put_i32(-1);
            }
            Some(bytes) => element.put(bytes, out)?,
        }
    }
    out[has_null_at..has_null_at + 4].copy_from_slice(&i32::from(has_null).to_be_bytes());
    Some(())
}

/// Appends a value as a field of COPY's text format.
pub(super) fn copy_field(out: &mut BytesMut, value: Option<&[u8]>, is_bytea: bool) {
    let Some(bytes) = value else {
        out.put_slice(b"\\N");
        return;
    };
    if is_bytea {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        out.reserve(3 + 2 * bytes.len());
        out.put_slice(b"\\\\x");
        for byte in bytes {
            out.put_u8(DIGITS[usize::from(byte >> 4)]);
            out.put_u8(DIGITS[usize::from(byte & 15)]);
        }
        return;
    }
    let mut rest = bytes;
    while let Some(place) = rest.iter().position(|byte| matches!(byte, b'\\' | b'\n' | b'\r' | b'\t')) {
        out.put_slice(&rest[..place]);
        out.put_u8(b'\\');
        out.put_u8(match rest[place] {
            b'\n' => b'n',
            b'\r' => b'r',
            b'\t' => b't',
            other => other,
        });
        rest = &rest[place + 1..];
    }
    out.put_slice(rest);
}
