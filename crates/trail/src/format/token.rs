//! Tokens: a letter, a flag byte, a length, a payload.

use super::bytes::{Cursor, Order};
use crate::Damage;

/// Starts a data record. Its length counts the whole record.
pub const RECORD: u8 = b'G';
/// Starts the file header record. Its length counts the whole record.
pub const FILE_HEADER: u8 = b'F';
/// The record header.
pub const HEADER: u8 = b'H';
/// The data of a record.
pub const DATA: u8 = b'D';
/// Tokens about the record.
pub const TOKENS: u8 = b'T';
/// Tokens of the user.
pub const USER: u8 = b'U';
/// Ends a record and repeats its length.
pub const TRAILER: u8 = b'Z';

/// In `T`: commit sequence number of the transaction, as text.
pub const LOG_CSN: u8 = b'L';
/// In `T`: identifier of the transaction, as text.
pub const TRANSACTION_ID: u8 = b'6';
/// In `T`: row identifier of an Oracle source.
pub const ORACLE_ROWID: u8 = b'R';
/// In `T`: what a DDL record is about.
pub const DDL: u8 = b'D';
/// In `T`: tag of an Oracle transaction.
pub const ORACLE_TAG: u8 = b't';
/// In `T`: redo thread of an Oracle source.
pub const ORACLE_THREAD: u8 = b'i';
/// In `T`, ours: CRC-32 of the record, the last token of `T`. Neither letter nor digit, so that it can't be one of theirs.
pub const CHECKSUM: u8 = b'#';

/// In `T`, ours, on truncations that have options: one byte of [`truncation`] flags. Neither letter nor digit, as
/// [`CHECKSUM`].
pub const TRUNCATION: u8 = b'!';

/// Flags of [`TRUNCATION`].
pub mod truncation {
    /// CASCADE.
    pub const CASCADE: u8 = 1;
    /// RESTART IDENTITY.
    pub const RESTART_IDENTITY: u8 = 2;
}

/// In `T`, ours: `D` is compressed; the payload is the length of the data in 4 bytes. See [`cover`](crate::Cover).
pub const COMPRESSED: u8 = b'%';
/// In `T`, ours: `D` and `U` are encrypted; the payload is the record's number in 8 bytes.
pub const ENCRYPTED: u8 = b'$';
/// Ours: in encrypted files, a tag over the record's header, its place in the transaction included, and its tokens.
pub const PLACE: u8 = b'&';

/// Bytes of a token before its payload.
pub const PREFIX_BYTES: usize = 4;

/// Flag of `F`, `G` and `Z`: lengths and header numbers are little-endian.
pub const LITTLE_ENDIAN: u8 = 1;

/// One token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token<'a> {
    /// Its letter.
    pub id: u8,
    /// Its flag byte.
    pub info: u8,
    /// Its content.
    pub payload: &'a [u8],
}

/// The next token, or `None` at the end.
///
/// # Errors
/// [`Damage::Short`].
#[inline]
pub fn next<'a>(cursor: &mut Cursor<'a>) -> Result<Option<Token<'a>>, Damage> {
    if cursor.is_empty() {
        return Ok(None);
    }
    let id = cursor.u8("token")?;
    let info = cursor.u8("token")?;
    let length = cursor.u16("token")?;
    let payload = cursor.take(usize::from(length), "token")?;
    Ok(Some(Token { id, info, payload }))
}

/// Appends what stands before a payload of `length` bytes.
#[inline]
pub fn put_prefix(buffer: &mut Vec<u8>, order: Order, id: u8, info: u8, length: u16) {
    let [first, second] = order.of_u16(length);
    buffer.extend_from_slice(&[id, info, first, second]);
}

/// Appends a whole token whose payload `write` appends. Payloads are below 64 KiB.
pub fn put(buffer: &mut Vec<u8>, order: Order, id: u8, info: u8, write: impl FnOnce(&mut Vec<u8>)) {
    put_prefix(buffer, order, id, info, 0);
    let start = buffer.len();
    write(buffer);
    let length = u16::try_from(buffer.len().saturating_sub(start)).unwrap_or(u16::MAX);
    if let Some(place) = buffer.get_mut(start.saturating_sub(2)..start) {
        place.copy_from_slice(&order.of_u16(length));
    }
}

/// The name of a token inside a record, as Logdump prints it.
pub fn name(id: u8) -> &'static str {
    match id {
        RECORD => "Record Header",
        FILE_HEADER => "File Header",
        HEADER => "GHDR",
        DATA => "Data",
        TOKENS => "GGS Tokens",
        USER => "User Tokens",
        TRAILER => "Record Trailer",
        _ => "Unknown",
    }
}

/// The name of a token inside `T`, as Logdump prints it.
pub fn record_token_name(id: u8) -> &'static str {
    match id {
        LOG_CSN => "LOGCSN",
        TRANSACTION_ID => "TRANID",
        ORACLE_ROWID => "ORAROWID",
        DDL => "DDL",
        ORACLE_TAG => "ORATAG",
        ORACLE_THREAD => "ORATHREADID",
        CHECKSUM => "CHECKSUM",
        COMPRESSED => "ZSTD",
        ENCRYPTED => "CIPHER",
        TRUNCATION => "TRUNCATION",
        _ => "Unknown",
    }
}
