//! Records: frame, 34-byte header, checksum.

use super::bytes::{Cursor, Order};
use super::token::{self, PREFIX_BYTES};
use crate::Damage;

/// Most bytes that a record can have: its length is a 16-bit number.
pub const RECORD_BYTES_MAX: usize = 65_535;

/// Bytes of the fixed part of the record header.
pub const HEADER_BYTES: usize = 34;

/// Where the TransInd byte stands in a record: after `G`, the prefix of `H`, and 28 bytes of header.
const TRANSACTION_OFFSET: usize = 2 * PREFIX_BYTES + 28;

/// Bytes of the checksum token.
const CHECKSUM_BYTES: usize = PREFIX_BYTES + 4;

/// Bytes from the checksum's payload to the end of a record that we wrote: payload and trailer.
const CHECKSUM_FROM_END: usize = 4 + PREFIX_BYTES;

pub use super::operation;

/// TransInd: where a record stands in its transaction.
pub mod transaction {
    /// Others follow.
    pub const FIRST: u8 = 0;
    /// Others came before and follow.
    pub const MIDDLE: u8 = 1;
    /// Others came before.
    pub const LAST: u8 = 2;
    /// It is the only one, or belongs to no transaction.
    pub const ONLY: u8 = 3;
}

/// Flags of the Partition byte.
pub mod partition {
    /// Data is a list of columns.
    pub const COLUMNS: u8 = 0x04;
    /// The table is named by the index of its definition.
    pub const INDEXED: u8 = 0x08;
    /// The table is a partition: its index follows that of the table. Also on the record that names a partition.
    pub const PARTITION_INDEXED: u8 = 0x80;
}

/// Subtypes of [`operation::METADATA`], in the OrigNode byte.
pub mod metadata_kind {
    /// The database (DDR).
    pub const DATABASE: u8 = 1;
    /// A table (TDR).
    pub const TABLE: u8 = 2;
    /// A table whose definition equals an earlier one.
    pub const TABLE_REFERENCE: u8 = 3;
    /// A partition (PNR).
    pub const PARTITION: u8 = 4;
}

/// The fixed part of the record header.
///
/// Offset and size in the payload of `H`: 0/1 `E`, 1/1 partition, 2/1 undo, 3/1 before or after, 4/2 data length,
/// 6/1 operation, 7/1 origin, 8/8 time, 16/8 audit position, 24/4 audit offset, 28/1 transaction, 29/1 format,
/// 30/1 system key length, 31/1 incomplete, 32/1 continued, 33/1 count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordHeader {
    /// Partition flags.
    pub partition: u8,
    /// UndoFlag.
    pub undo: u8,
    /// `B` for an image before, `A` for everything else.
    pub before_after: u8,
    /// RecLength: bytes of data.
    pub data_length: u16,
    /// IOType.
    pub operation: u8,
    /// OrigNode: 255 on changes, the subtype on definitions, 0 on markers.
    pub origin: u8,
    /// IO Time in Julian microseconds.
    pub time: u64,
    /// AuditPos.
    pub audit_position: u64,
    /// AuditRBA; on definitions two 16-bit indexes.
    pub audit_offset: u32,
    /// TransInd.
    pub transaction: u8,
    /// FormatType: `R` from a log, `F` fetched.
    pub format: u8,
    /// SyskeyLen.
    pub system_key_length: u8,
    /// Incomplete.
    pub incomplete: u8,
    /// Continued: not 0 when another part follows.
    pub continued: u8,
    /// RecCount.
    pub count: u8,
}

impl RecordHeader {
    /// The header of a record outside transactions, all other fields as most records have them.
    pub fn new(operation: u8, origin: u8, time: u64) -> RecordHeader {
        RecordHeader {
            partition: 0,
            undo: 0,
            before_after: b'A',
            data_length: 0,
            operation,
            origin,
            time,
            audit_position: 0,
            audit_offset: 0,
            transaction: transaction::ONLY,
            format: b'R',
            system_key_length: 0,
            incomplete: 0,
            continued: 0,
            count: 1,
        }
    }

    /// The two 16-bit numbers that stand in the place of AuditRBA on definitions.
    pub fn indexes(&self, order: Order) -> (u16, u16) {
        let [a, b, c, d] = order.of_u32(self.audit_offset);
        (order.u16([a, b]), order.u16([c, d]))
    }

    /// Lets two 16-bit numbers stand in the place of AuditRBA.
    pub fn with_indexes(self, order: Order, first: u16, second: u16) -> RecordHeader {
        let ([a, b], [c, d]) = (order.of_u16(first), order.of_u16(second));
        let audit_offset = match order {
            Order::Little => u32::from_le_bytes([a, b, c, d]),
            Order::Big => u32::from_be_bytes([a, b, c, d]),
        };
        RecordHeader { audit_offset, ..self }
    }

    /// Reads the fixed part; what is left in the cursor is the object part.
    ///
    /// # Errors
    /// [`Damage`].
    #[inline]
    pub fn read(cursor: &mut Cursor<'_>) -> Result<RecordHeader, Damage> {
        const WHAT: &str = "record header";
        if cursor.u8(WHAT)? != b'E' {
            return Err(Damage::Content("the record header does not start with E"));
        }
        Ok(RecordHeader {
            partition: cursor.u8(WHAT)?,
            undo: cursor.u8(WHAT)?,
            before_after: cursor.u8(WHAT)?,
            data_length: cursor.u16(WHAT)?,
            operation: cursor.u8(WHAT)?,
            origin: cursor.u8(WHAT)?,
            time: cursor.u64(WHAT)?,
            audit_position: cursor.u64(WHAT)?,
            audit_offset: cursor.u32(WHAT)?,
            transaction: cursor.u8(WHAT)?,
            format: cursor.u8(WHAT)?,
            system_key_length: cursor.u8(WHAT)?,
            incomplete: cursor.u8(WHAT)?,
            continued: cursor.u8(WHAT)?,
            count: cursor.u8(WHAT)?,
        })
    }

    #[inline]
    fn put(&self, buffer: &mut Vec<u8>, order: Order) {
        buffer.extend_from_slice(&[b'E', self.partition, self.undo, self.before_after]);
        buffer.extend_from_slice(&order.of_u16(self.data_length));
        buffer.extend_from_slice(&[self.operation, self.origin]);
        buffer.extend_from_slice(&order.of_u64(self.time));
        buffer.extend_from_slice(&order.of_u64(self.audit_position));
        buffer.extend_from_slice(&order.of_u32(self.audit_offset));
        buffer.extend_from_slice(&[
            self.transaction,
            self.format,
            self.system_key_length,
            self.incomplete,
            self.continued,
            self.count,
        ]);
    }
}

/// What a record is about: the part of `H` after the fixed 34 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Object<'a> {
    /// A table by name; empty for records about no table.
    Name(&'a [u8]),
    /// A table by the number of its definition in the file, from 1, and perhaps a partition.
    Index {
        /// Number of the table definition.
        definition: u16,
        /// Number of the partition's record.
        partition: Option<u16>,
    },
    /// The bytes of a partition's record; see [`PartitionName`](super::partition::PartitionName).
    Partition(&'a [u8]),
}

impl Object<'_> {
    fn length(&self) -> usize {
        match self {
            Object::Name(name) => name.len().saturating_add(1),
            Object::Index { partition: None, .. } => 2,
            Object::Index { partition: Some(_), .. } => 4,
            Object::Partition(bytes) => bytes.len(),
        }
    }
}

/// What stands around the data of a record.
#[derive(Clone, Copy, Debug)]
pub struct Envelope<'a> {
    /// What the record is about.
    pub object: Object<'a>,
    /// Whole tokens for `T`, without the checksum.
    pub tokens: &'a [u8],
    /// Content of `U`; there is none when it is empty.
    pub user: &'a [u8],
    /// Whether the checksum is the last token of `T`: not in records of other products.
    pub has_checksum: bool,
}

impl<'a> Envelope<'a> {
    /// The envelope of a record of ours without tokens of the user.
    #[inline]
    pub fn new(object: Object<'a>, tokens: &'a [u8]) -> Envelope<'a> {
        Envelope { object, tokens, user: &[], has_checksum: true }
    }

    /// Bytes of the record with so many bytes of data.
    #[inline]
    pub fn length(&self, data: usize) -> usize {
        let token = |length: usize| if length == 0 { 0 } else { PREFIX_BYTES.saturating_add(length) };
        (3 * PREFIX_BYTES + HEADER_BYTES)
            .saturating_add(self.object.length())
            .saturating_add(token(data))
            .saturating_add(token(self.tokens_length()))
            .saturating_add(token(self.user.len()))
    }

    /// Bytes of `U` with its prefix: what stands between the checksum and the trailer.
    #[inline]
    pub fn user_length(&self) -> usize {
        if self.user.is_empty() { 0 } else { PREFIX_BYTES.saturating_add(self.user.len()) }
    }

    #[inline]
    fn tokens_length(&self) -> usize {
        self.tokens.len().saturating_add(if self.has_checksum { CHECKSUM_BYTES } else { 0 })
    }
}

/// Appends a record whose data, `header.data_length` bytes, `write_data` appends.
///
/// The checksum is written by [`seal`]. The caller has made sure by [`Envelope::length`] that the record is at most
/// [`RECORD_BYTES_MAX`] long.
#[inline]
pub fn put(
    buffer: &mut Vec<u8>,
    order: Order,
    header: &RecordHeader,
    envelope: &Envelope<'_>,
    write_data: impl FnOnce(&mut Vec<u8>),
) {
    let Envelope { object, tokens, user, has_checksum } = envelope;
    let info = if order == Order::Little { token::LITTLE_ENDIAN } else { 0 };
    let total = u16::try_from(envelope.length(usize::from(header.data_length))).unwrap_or(u16::MAX);
    buffer.reserve(usize::from(total));
    token::put_prefix(buffer, order, token::RECORD, info, total);
    let header_length = HEADER_BYTES.saturating_add(object.length());
    token::put_prefix(buffer, order, token::HEADER, 0, u16::try_from(header_length).unwrap_or(u16::MAX));
    header.put(buffer, order);
    match object {
        Object::Name(name) => {
            buffer.extend_from_slice(name);
            buffer.push(0);
        }
        Object::Index { definition, partition } => {
            buffer.extend_from_slice(&order.of_u16(*definition));
            buffer.extend(partition.map(|index| order.of_u16(index)).into_iter().flatten());
        }
        Object::Partition(bytes) => buffer.extend_from_slice(bytes),
    }
    if header.data_length > 0 {
        token::put_prefix(buffer, order, token::DATA, 0, header.data_length);
        write_data(buffer);
    }
    let tokens_length = envelope.tokens_length();
    if tokens_length > 0 {
        token::put_prefix(buffer, order, token::TOKENS, 0, u16::try_from(tokens_length).unwrap_or(u16::MAX));
        buffer.extend_from_slice(tokens);
    }
    if *has_checksum {
        token::put_prefix(buffer, order, token::CHECKSUM, 0, 4);
        buffer.extend_from_slice(&[0; 4]);
    }
    if !user.is_empty() {
        token::put_prefix(buffer, order, token::USER, 0, u16::try_from(user.len()).unwrap_or(u16::MAX));
        buffer.extend_from_slice(user);
    }
    token::put_prefix(buffer, order, token::TRAILER, info, total);
}

/// Sets the TransInd byte of a record of ours that [`put`] wrote, then its checksum, which has
/// [`Envelope::user_length`] bytes and the trailer behind it.
#[inline]
pub fn seal(record: &mut [u8], order: Order, transaction: u8, user_length: usize) {
    if let Some(place) = record.get_mut(TRANSACTION_OFFSET) {
        *place = transaction;
    }
    let at = record.len().saturating_sub(CHECKSUM_FROM_END).saturating_sub(user_length);
    let checksum = checksum(record, at);
    if let Some(place) = record.get_mut(at..at.saturating_add(4)) {
        place.copy_from_slice(&order.of_u32(checksum));
    }
}

/// CRC-32 of a record without the four bytes at `at`.
#[inline]
fn checksum(record: &[u8], at: usize) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(record.get(..at).unwrap_or_default());
    hasher.update(record.get(at.saturating_add(4)..).unwrap_or_default());
    hasher.finalize()
}

/// The length that a record claims in its first four bytes.
///
/// # Errors
/// [`Damage::Frame`] when no record starts here.
#[inline]
pub fn claimed_length(prefix: [u8; PREFIX_BYTES], order: Order) -> Result<usize, Damage> {
    let [id, _, first, second] = prefix;
    let length = usize::from(order.u16([first, second]));
    if matches!(id, token::RECORD | token::FILE_HEADER) && length >= 2 * PREFIX_BYTES {
        Ok(length)
    } else {
        Err(Damage::Frame)
    }
}

/// The bytes of the record at the start of `bytes`, by the test of spec 1.2: the trailer stands where the length says, and
/// says the same.
///
/// # Errors
/// [`Damage::Short`] when `bytes` end before the record; [`Damage::Frame`].
#[inline]
pub fn frame(bytes: &[u8], order: Order) -> Result<&[u8], Damage> {
    let short = |needed: usize| Damage::Short { what: "record", needed: needed as u64, left: bytes.len() as u64 };
    let prefix = bytes.first_chunk().ok_or_else(|| short(PREFIX_BYTES))?;
    let length = claimed_length(*prefix, order)?;
    let record = bytes.get(..length).ok_or_else(|| short(length))?;
    match record.last_chunk::<PREFIX_BYTES>() {
        Some([token::TRAILER, _, first, second]) if usize::from(order.u16([*first, *second])) == length => Ok(record),
        _ => Err(Damage::Frame),
    }
}

/// The byte order of a file that starts with `bytes`: the one that the first record says, else the other, whichever
/// passes the test of [`frame`].
///
/// # Errors
/// The damage under the order that the record says.
pub fn detect_order(bytes: &[u8]) -> Result<Order, Damage> {
    let flagged = match bytes.get(1) {
        Some(info) if info & token::LITTLE_ENDIAN != 0 => Order::Little,
        _ => Order::Big,
    };
    frame(bytes, flagged).map(|_| flagged).or_else(|damage| match frame(bytes, flagged.other()) {
        Ok(_) => Ok(flagged.other()),
        Err(_) => Err(damage),
    })
}

/// A data record, taken apart.
#[derive(Clone, Debug)]
pub struct RecordView<'a> {
    /// The record header.
    pub header: RecordHeader,
    /// What it is about.
    pub object: Object<'a>,
    /// The data; empty when there is none.
    pub data: &'a [u8],
    /// Where the data starts in the record.
    pub data_offset: usize,
    /// Commit sequence number, if the record has one.
    pub csn: Option<&'a [u8]>,
    /// Transaction identifier, if the record has one.
    pub transaction_id: Option<&'a [u8]>,
    /// Flags of a truncation; 0 when the record tells none.
    pub truncation: u8,
    /// The tokens about the record.
    pub tokens: &'a [u8],
    /// The user's tokens.
    pub user_tokens: &'a [u8],
    /// Length of the data, when `data` is compressed.
    pub compressed: Option<u32>,
    /// Number of the record, when `data` and `user_tokens` are encrypted.
    pub encrypted: Option<u64>,
    /// What authenticates the header, if the record has such a tag.
    pub place: Option<&'a [u8]>,
    /// Stored and computed checksum, if the record has one.
    checksum: Option<(u32, usize)>,
    bytes: &'a [u8],
}

impl<'a> RecordView<'a> {
    /// Takes apart a record that [`frame`] returned.
    ///
    /// # Errors
    /// [`Damage`].
    #[inline]
    pub fn read(record: &'a [u8], order: Order) -> Result<RecordView<'a>, Damage> {
        let inner_end = record.len().saturating_sub(PREFIX_BYTES);
        let mut cursor = Cursor::new(record.get(..inner_end).unwrap_or_default(), order);
        if cursor.take(PREFIX_BYTES, "record")?.first() != Some(&token::RECORD) {
            return Err(Damage::Content("a file header stands in the middle of the file"));
        }
        let Some(head) = token::next(&mut cursor)?.filter(|token| token.id == token::HEADER) else {
            return Err(Damage::Content("the record has no header"));
        };
        let mut head = Cursor::new(head.payload, order);
        let header = RecordHeader::read(&mut head)?;
        let object = read_object(&header, &mut head)?;
        let mut view = RecordView {
            header,
            object,
            data: &[],
            data_offset: 0,
            csn: None,
            transaction_id: None,
            truncation: 0,
            tokens: &[],
            user_tokens: &[],
            compressed: None,
            encrypted: None,
            place: None,
            checksum: None,
            bytes: record,
        };
        while let Some(part) = token::next(&mut cursor)? {
            let offset = cursor.position().saturating_sub(part.payload.len());
            match part.id {
                token::DATA => (view.data, view.data_offset) = (part.payload, offset),
                token::TOKENS => view.read_tokens(part.payload, offset, order)?,
                token::USER => view.user_tokens = part.payload,
                // A token of a later version.
                _ => {}
            }
        }
        if usize::from(header.data_length) != view.data.len() {
            return Err(Damage::Content("the record header tells another length of the data"));
        }
        Ok(view)
    }

    #[inline]
    fn read_tokens(&mut self, tokens: &'a [u8], offset: usize, order: Order) -> Result<(), Damage> {
        self.tokens = tokens;
        let mut cursor = Cursor::new(tokens, order);
        while let Some(token) = token::next(&mut cursor)? {
            match token.id {
                token::LOG_CSN => self.csn = Some(token.payload),
                token::TRANSACTION_ID => self.transaction_id = Some(token.payload),
                token::TRUNCATION => self.truncation = Cursor::new(token.payload, order).u8("truncation")?,
                token::COMPRESSED => self.compressed = Some(Cursor::new(token.payload, order).u32("compression")?),
                token::ENCRYPTED => self.encrypted = Some(Cursor::new(token.payload, order).u64("encryption")?),
                token::PLACE => self.place = Some(token.payload),
                token::CHECKSUM => {
                    let found = Cursor::new(token.payload, order).u32("checksum")?;
                    let at = offset.saturating_add(cursor.position()).saturating_sub(token.payload.len());
                    self.checksum = Some((found, at));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Compares the checksum.
    ///
    /// # Errors
    /// [`Damage::Checksum`] when it differs, [`Damage::Content`] when there is none.
    #[inline]
    pub fn verify(&self) -> Result<(), Damage> {
        if change::sabotage::is_on("accept-torn-record") {
            return Ok(());
        }
        let Some((found, at)) = self.checksum else {
            return Err(Damage::Content("the record has no checksum"));
        };
        let computed = checksum(self.bytes, at);
        if found == computed { Ok(()) } else { Err(Damage::Checksum { found, computed }) }
    }

    /// Whether something lies over the data; see [`Cover`](crate::Cover).
    pub fn is_covered(&self) -> bool {
        self.compressed.is_some() || self.encrypted.is_some()
    }

    /// Whether the record has a checksum: those of other products have none.
    pub fn has_checksum(&self) -> bool {
        self.checksum.is_some()
    }
}

#[inline]
fn read_object<'a>(header: &RecordHeader, cursor: &mut Cursor<'a>) -> Result<Object<'a>, Damage> {
    if header.operation == operation::METADATA && header.origin == metadata_kind::PARTITION {
        return Ok(Object::Partition(cursor.rest()));
    }
    let indexed = header.partition & partition::INDEXED != 0 && header.operation != operation::METADATA;
    if !indexed {
        let name = cursor.rest();
        return Ok(Object::Name(name.strip_suffix(&[0]).unwrap_or(name)));
    }
    let definition = cursor.u16("table index")?;
    let partition = match header.partition & partition::PARTITION_INDEXED {
        0 => None,
        _ => Some(cursor.u16("partition index")?),
    };
    Ok(Object::Index { definition, partition })
}
