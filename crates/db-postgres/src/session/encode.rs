//! Values into the forms in which they are sent.

use bytes::{BufMut, BytesMut};
use change::{LogicalType, Value};

/// OID of `text[]`.
pub(super) const TEXT_ARRAY: u32 = 1009;
/// OID of `bytea[]`.
pub(super) const BYTEA_ARRAY: u32 = 1001;
const TEXT: u32 = 25;
const BYTEA: u32 = 17;

/// The bytes of a value as a parameter takes them; `None` for NULL.
///
/// A value of a source whose columns have no class of their own starts with a mark of its class, which is left out.
pub(super) fn plain(value: Value<'_>, logical: LogicalType) -> Option<&[u8]> {
    let bytes = value.bytes()?;
    Some(if logical == LogicalType::Dynamic { bytes.get(1..).unwrap_or_default() } else { bytes })
}

/// Appends an array in binary form; `values` are elements of `text`, or of `bytea`.
pub(super) fn array<'a>(
    out: &mut BytesMut,
    is_bytea: bool,
    values: impl ExactSizeIterator<Item = Option<&'a [u8]>> + Clone,
) {
    out.put_i32(1);
    out.put_i32(i32::from(values.clone().any(|value| value.is_none())));
    out.put_u32(if is_bytea { BYTEA } else { TEXT });
    out.put_u32(u32::try_from(values.len()).expect("a batch has few rows"));
    out.put_i32(1);
    for value in values {
        match value {
            None => out.put_i32(-1),
            Some(bytes) => {
                // A batch is cut long before its bytes reach 2 GiB.
                out.put_u32(u32::try_from(bytes.len()).expect("a value is below 1 GiB"));
                out.put_slice(bytes);
            }
        }
    }
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
