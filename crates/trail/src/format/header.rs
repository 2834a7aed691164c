//! The first record of a file.
//!
//! Groups `0` to `4` are the public ones. Group `#` is ours: the version of our forms (token `0`), the checksum of
//! everything that never changes (token `1`), and the checksum of the five tokens that are filled in when the file is
//! complete (token `2`). Completing a file overwrites the record in place with a record of the same length; if power fails
//! in the middle, the second checksum does not fit, and the file simply counts as not completed.

use super::bytes::{Cursor, Order, clip, from_julian_micros, julian_micros, put_string};
use super::charset;
use super::layout::{Format, RecoveryMode};
use super::record;
use super::token::{self, PREFIX_BYTES, Token};
use crate::Damage;
use crate::cipher::{Algorithm, FILE_ID_BYTES, NONCE_BYTES, WrappedKey};
use crate::writer::{Machine, Producer, SourceIdentity};
use change::{CaseRule, Csn, Timestamp};
use std::ops::Range;

pub use super::layout::LEVEL;

/// Version of our own forms (definition bodies, fragments, checksums). Form 1 had no reference definitions, partitions, pairs of
/// update records, sequences, statements and user tokens.
pub const FORM: u16 = 2;

/// Form of files whose data is compressed or encrypted: older readers must not take it for rows.
pub const FORM_COVERED: u16 = 3;

/// Form of encrypted files, since each of their records is authenticated with its place in the transaction.
pub const FORM_PLACED: u16 = 4;

/// Longest text in a header; longer ones are cut.
pub const TEXT_BYTES_MAX: usize = 255;

/// Longest commit sequence number that a header can show: a length byte and a buffer of this size.
pub const CSN_BYTES_MAX: usize = 128;

const SIGNATURE: [u8; 8] = *b"GG\r\nTL\n\r";
/// Flag of a token that is filled in later.
const OPEN: u8 = 0xFF;

mod group {
    pub const TRAIL: u8 = b'0';
    pub const MACHINE: u8 = b'1';
    pub const DATABASE: u8 = b'2';
    pub const PRODUCER: u8 = b'3';
    pub const CONTINUITY: u8 = b'4';
    pub const OURS: u8 = b'#';
}

mod trail_token {
    pub const SIGNATURE: u8 = 0x30;
    pub const COMPATIBILITY: u8 = 0x31;
    pub const CHARSET: u8 = 0x32;
    pub const CREATION_TIME: u8 = 0x33;
    pub const URI: u8 = 0x34;
    pub const URI_HISTORY: u8 = 0x35;
    pub const FILE_NAME: u8 = 0x36;
    pub const MULTI_PART: u8 = 0x37;
    pub const SEQUENCE: u8 = 0x38;
    pub const FILE_SIZE: u8 = 0x39;
    pub const FIRST_CSN: u8 = 0x3A;
    pub const LAST_CSN: u8 = 0x3B;
    pub const FIRST_TIME: u8 = 0x3C;
    pub const LAST_TIME: u8 = 0x3D;
    pub const LOG_BSN: u8 = 0x3E;
}

mod machine_token {
    pub const SYSTEM: u8 = 0x30;
    pub const NODE: u8 = 0x31;
    pub const RELEASE: u8 = 0x32;
    pub const VERSION: u8 = 0x33;
    pub const HARDWARE: u8 = 0x34;
}

mod database_token {
    pub const VENDOR: u8 = 0x30;
    pub const NAME: u8 = 0x31;
    pub const INSTANCE: u8 = 0x32;
    pub const CHARSET: u8 = 0x33;
    pub const MAJOR_VERSION: u8 = 0x34;
    pub const MINOR_VERSION: u8 = 0x35;
    pub const VERSION: u8 = 0x36;
    pub const CLIENT_CHARSET: u8 = 0x37;
    pub const CLIENT_VERSION: u8 = 0x38;
    pub const CLIENT_NATIONAL_CHARSET: u8 = 0x39;
    pub const LOCALE: u8 = 0x3A;
    pub const NATIONAL_CHARSET: u8 = 0x3B;
    pub const OBJECT_METADATA: u8 = 0x3C;
    pub const TIME_ZONE: u8 = 0x3D;
    pub const UNIQUE_NAME: u8 = 0x3E;
}

mod producer_token {
    pub const NAME: u8 = 0x30;
    pub const DATA_SOURCE: u8 = 0x31;
    pub const MAJOR_VERSION: u8 = 0x32;
    pub const MINOR_VERSION: u8 = 0x33;
    pub const MAINTENANCE_LEVEL: u8 = 0x34;
    pub const BUG_FIX_LEVEL: u8 = 0x35;
    pub const BUILD_NUMBER: u8 = 0x36;
    pub const VERSION: u8 = 0x37;
}

mod continuity_token {
    pub const RECOVERY_MODE: u8 = 0x30;
}

/// Classes of objects, each with a byte of case rules.
pub const OBJECT_CLASSES: usize = 16;

/// How names are compared: the low half for names without quotes, the high half for those with. 1: case counts; 2: they are
/// stored in lower case; 0: they are stored as written and compared without case.
pub fn case_byte(rule: CaseRule) -> u8 {
    match rule {
        CaseRule::Insensitive => 0x00,
        CaseRule::Sensitive => 0x11,
        CaseRule::FoldToLower => 0x12,
    }
}

fn case_rule(byte: u8) -> CaseRule {
    match byte & 0x0F {
        1 => CaseRule::Sensitive,
        2 => CaseRule::FoldToLower,
        _ => CaseRule::Insensitive,
    }
}

/// Lowest level at which DbUniqueName is written.
const LEVEL_OF_UNIQUE_NAME: u16 = 8;

/// Longest unique name of a database, in characters.
const UNIQUE_NAME_CHARACTERS_MAX: usize = 30;

mod our_token {
    pub const FORM: u8 = 0x30;
    /// Bit 0: records name tables by name, the file holds no definitions.
    pub const LAYOUT: u8 = 0x33;
    /// The key of an encrypted file: bits u16, version u32, name, file id, nonce, and the wrapped key to the end.
    pub const KEY: u8 = 0x34;
    pub const CHECKSUM: u8 = 0x31;
    pub const COMPLETION_CHECKSUM: u8 = 0x32;
}

/// What the first record of a file says about it. Missing tokens leave their field at its default.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileHeader {
    /// Compatibility level.
    pub level: u16,
    /// Character set by number.
    pub charset: u32,
    /// When the file was made.
    pub created: Timestamp,
    /// Where it was made: `uri:host::directory:GROUP`.
    pub uri: String,
    /// The same of earlier processes that the records went through.
    pub uri_history: Vec<String>,
    /// The file's name as its writer knew it.
    pub file_name: String,
    /// Whether the file is one of a trail, not a single file.
    pub multi_part: bool,
    /// Number of the file.
    pub sequence: u32,
    /// The process that wrote it.
    pub producer: Producer,
    /// The database that its records come from.
    pub source: SourceIdentity,
    /// How the trail is recovered.
    pub recovery: RecoveryMode,
    /// Whether the file holds definitions, and its records name tables by their index.
    pub has_definitions: bool,
    /// Version of our own forms; `None` in files of other products.
    pub form: Option<u16>,
    /// The wrapped key of an encrypted file.
    pub key: Option<WrappedKey>,
    /// What is known once nothing is appended any more.
    pub completion: Option<Completion>,
}

impl Default for FileHeader {
    /// What holds for tokens that a file does not have.
    fn default() -> FileHeader {
        FileHeader {
            level: 0,
            charset: charset::UNKNOWN,
            created: Timestamp::default(),
            uri: String::new(),
            uri_history: Vec::new(),
            file_name: String::new(),
            multi_part: true,
            sequence: 0,
            producer: Producer::default(),
            source: SourceIdentity::default(),
            recovery: RecoveryMode::Append,
            has_definitions: true,
            form: None,
            key: None,
            completion: None,
        }
    }
}

/// What is known of a file once nothing is appended any more.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Completion {
    /// Its length.
    pub file_size: u64,
    /// The first and the last transaction in it, if it holds any.
    pub span: Option<Span>,
}

/// First and last transaction of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// Commit sequence number of the first change.
    pub first_csn: Csn,
    /// Commit sequence number of the last change.
    pub last_csn: Csn,
    /// Commit time of the first change.
    pub first_time: Timestamp,
    /// Commit time of the last change.
    pub last_time: Timestamp,
}

impl FileHeader {
    /// The file header record, not completed, with our checksums.
    pub fn record(&self, order: Order) -> Vec<u8> {
        let info = if order == Order::Little { token::LITTLE_ENDIAN } else { 0 };
        let mut bytes = Vec::with_capacity(2048);
        token::put_prefix(&mut bytes, order, token::FILE_HEADER, info, 0);
        self.put_groups(&mut bytes, order);
        let total = u16::try_from(bytes.len().saturating_add(PREFIX_BYTES)).unwrap_or(u16::MAX);
        token::put_prefix(&mut bytes, order, token::TRAILER, info, total);
        if let Some(place) = bytes.get_mut(2..4) {
            place.copy_from_slice(&order.of_u16(total));
        }
        if let Ok(places) = Places::find(&bytes, order) {
            let checksum = places.checksum(&bytes);
            put_at(&mut bytes, &places.checksum, &order.of_u32(checksum));
        }
        bytes
    }

    fn put_groups(&self, bytes: &mut Vec<u8>, order: Order) {
        token::put(bytes, order, group::TRAIL, 0, |bytes| self.put_trail_tokens(bytes, order));
        token::put(bytes, order, group::MACHINE, 0, |bytes| self.put_machine_tokens(bytes, order));
        token::put(bytes, order, group::DATABASE, 0, |bytes| self.put_database_tokens(bytes, order));
        token::put(bytes, order, group::PRODUCER, 0, |bytes| self.put_producer_tokens(bytes, order));
        token::put(bytes, order, group::CONTINUITY, 0, |bytes| {
            let mode = u16::from(self.recovery == RecoveryMode::Append);
            put_number(bytes, order, continuity_token::RECOVERY_MODE, mode);
        });
        token::put(bytes, order, group::OURS, 0, |bytes| {
            put_number(bytes, order, our_token::FORM, self.form.unwrap_or(FORM));
            put_number(bytes, order, our_token::LAYOUT, u16::from(!self.has_definitions));
            if let Some(key) = &self.key {
                token::put(bytes, order, our_token::KEY, 0, |bytes| put_key(bytes, order, key));
            }
            token::put(bytes, order, our_token::CHECKSUM, 0, |bytes| bytes.extend_from_slice(&[0; 4]));
            token::put(bytes, order, our_token::COMPLETION_CHECKSUM, OPEN, |bytes| bytes.extend_from_slice(&[0; 4]));
        });
    }

    fn put_machine_tokens(&self, bytes: &mut Vec<u8>, order: Order) {
        use machine_token as id;
        let Machine { system, release, version, hardware } = &self.producer.machine;
        put_texts(bytes, order, &[(id::SYSTEM, system), (id::NODE, &self.producer.host), (id::RELEASE, release)]);
        put_texts(bytes, order, &[(id::VERSION, version), (id::HARDWARE, hardware)]);
    }

    fn put_database_tokens(&self, bytes: &mut Vec<u8>, order: Order) {
        use database_token as id;
        let source = &self.source;
        let [major, minor, ..] = version_numbers(&source.version);
        let set = |bytes: &mut Vec<u8>, id: u8, number: u32| {
            token::put(bytes, order, id, 0, |bytes| bytes.extend_from_slice(&order.of_u32(number)));
        };
        // The numbers that other products give to vendors are not publicly known.
        put_number(bytes, order, id::VENDOR, 0);
        put_texts(bytes, order, &[(id::NAME, &source.name), (id::INSTANCE, &source.instance)]);
        set(bytes, id::CHARSET, source.charset);
        put_number(bytes, order, id::MAJOR_VERSION, major);
        put_number(bytes, order, id::MINOR_VERSION, minor);
        put_texts(bytes, order, &[(id::VERSION, &format!("{} {}", source.product, source.version))]);
        // Whatever the database has: we ask it for UTF-8.
        set(bytes, id::CLIENT_CHARSET, charset::UTF_8);
        put_texts(bytes, order, &[(id::CLIENT_VERSION, &source.client_version)]);
        set(bytes, id::CLIENT_NATIONAL_CHARSET, charset::UTF_8);
        put_texts(bytes, order, &[(id::LOCALE, &source.locale)]);
        set(bytes, id::NATIONAL_CHARSET, source.charset);
        let rules = [case_byte(source.case_rule); OBJECT_CLASSES];
        token::put(bytes, order, id::OBJECT_METADATA, 0, |bytes| bytes.extend_from_slice(&rules));
        put_texts(bytes, order, &[(id::TIME_ZONE, &source.time_zone)]);
        if self.level >= LEVEL_OF_UNIQUE_NAME {
            let unique: String = source.unique_name.chars().take(UNIQUE_NAME_CHARACTERS_MAX).collect();
            put_texts(bytes, order, &[(id::UNIQUE_NAME, &unique)]);
        }
    }

    fn put_producer_tokens(&self, bytes: &mut Vec<u8>, order: Order) {
        use producer_token as id;
        let [major, minor, maintenance, bug_fix, build] = version_numbers(&self.producer.version);
        put_texts(bytes, order, &[(id::NAME, &self.producer.group)]);
        let numbers = [
            // As with vendors.
            (id::DATA_SOURCE, 0),
            (id::MAJOR_VERSION, major),
            (id::MINOR_VERSION, minor),
            (id::MAINTENANCE_LEVEL, maintenance),
            (id::BUG_FIX_LEVEL, bug_fix),
            (id::BUILD_NUMBER, build),
        ];
        numbers.into_iter().for_each(|(id, number)| put_number(bytes, order, id, number));
        put_texts(bytes, order, &[(id::VERSION, &self.producer.version)]);
    }

    fn put_trail_tokens(&self, bytes: &mut Vec<u8>, order: Order) {
        use trail_token as id;
        let time = order.of_u64(julian_micros(self.created));
        token::put(bytes, order, id::SIGNATURE, 0, |bytes| bytes.extend_from_slice(&SIGNATURE));
        put_number(bytes, order, id::COMPATIBILITY, self.level);
        token::put(bytes, order, id::CHARSET, 0, |bytes| bytes.extend_from_slice(&order.of_u32(self.charset)));
        token::put(bytes, order, id::CREATION_TIME, 0, |bytes| bytes.extend_from_slice(&time));
        token::put(bytes, order, id::URI, 0, |bytes| put_text(bytes, order, &self.uri));
        token::put(bytes, order, id::URI_HISTORY, 0, |bytes| {
            for uri in &self.uri_history {
                token::put(bytes, order, id::URI_HISTORY, 0, |bytes| put_text(bytes, order, uri));
            }
        });
        token::put(bytes, order, id::FILE_NAME, 0, |bytes| put_text(bytes, order, &self.file_name));
        token::put(bytes, order, id::MULTI_PART, 0, |bytes| bytes.push(u8::from(self.multi_part)));
        let sequence = order.of_u32(self.sequence);
        token::put(bytes, order, id::SEQUENCE, 0, |bytes| bytes.extend_from_slice(&sequence));
        let open = |bytes: &mut Vec<u8>, id: u8, length: usize| {
            token::put(bytes, order, id, OPEN, |bytes| bytes.extend(std::iter::repeat_n(0, length)));
        };
        open(bytes, id::FILE_SIZE, 8);
        open(bytes, id::FIRST_CSN, 1 + CSN_BYTES_MAX);
        open(bytes, id::LAST_CSN, 1 + CSN_BYTES_MAX);
        open(bytes, id::FIRST_TIME, 8);
        open(bytes, id::LAST_TIME, 8);
        // Files of level 3 and below end here.
        if self.level > 3 {
            open(bytes, id::LOG_BSN, 1 + CSN_BYTES_MAX);
        }
    }

    /// Reads a file header record that [`record::frame`] returned, and verifies the checksum if it has one.
    ///
    /// # Errors
    /// [`Damage`].
    pub fn read(record: &[u8], order: Order) -> Result<FileHeader, Damage> {
        let places = Places::find(record, order)?;
        let mut header = FileHeader::default();
        let mut signed = false;
        walk(record, order, |group, token, _| {
            let mut content = Cursor::new(token.payload, order);
            match (group, token.id) {
                (group::TRAIL, trail_token::SIGNATURE) => signed = token.payload == SIGNATURE,
                (group::TRAIL, id) => header.read_trail_token(id, &mut content)?,
                (group::MACHINE, id) => header.read_machine_token(id, &mut content)?,
                (group::DATABASE, id) => header.read_database_token(id, &mut content)?,
                (group::PRODUCER, producer_token::NAME) => header.producer.group = content.string(WHAT)?,
                (group::PRODUCER, producer_token::VERSION) => header.producer.version = content.string(WHAT)?,
                (group::CONTINUITY, continuity_token::RECOVERY_MODE) if content.u16(WHAT)? == 0 => {
                    header.recovery = RecoveryMode::Overwrite;
                }
                (group::OURS, our_token::FORM) => header.form = Some(content.u16(WHAT)?),
                (group::OURS, our_token::KEY) => header.key = Some(read_key(&mut content)?),
                (group::OURS, our_token::LAYOUT) => header.has_definitions = content.u16(WHAT)? & 1 == 0,
                // A token of a later version, or one that tells nothing that is used.
                _ => {}
            }
            Ok(())
        })?;
        if !signed {
            return Err(Damage::Content("the file header has no signature"));
        }
        if header.form.is_some() && !change::sabotage::is_on("accept-torn-record") {
            places.verify(record, order)?;
        }
        header.completion = places.completion(record, order);
        Ok(header)
    }

    fn read_trail_token(&mut self, id: u8, content: &mut Cursor<'_>) -> Result<(), Damage> {
        match id {
            trail_token::COMPATIBILITY => self.level = content.u16(WHAT)?,
            trail_token::CHARSET => self.charset = content.u32(WHAT)?,
            trail_token::CREATION_TIME => self.created = from_julian_micros(content.u64(WHAT)?),
            trail_token::URI => self.uri = content.string(WHAT)?,
            trail_token::URI_HISTORY => {
                while let Some(entry) = token::next(content)? {
                    self.uri_history.push(Cursor::new(entry.payload, content.order()).string(WHAT)?);
                }
            }
            trail_token::FILE_NAME => self.file_name = content.string(WHAT)?,
            trail_token::MULTI_PART => self.multi_part = content.u8(WHAT)? != 0,
            trail_token::SEQUENCE => self.sequence = content.u32(WHAT)?,
            _ => {}
        }
        Ok(())
    }

    fn read_machine_token(&mut self, id: u8, content: &mut Cursor<'_>) -> Result<(), Damage> {
        let machine = &mut self.producer.machine;
        match id {
            machine_token::SYSTEM => machine.system = content.string(WHAT)?,
            machine_token::NODE => self.producer.host = content.string(WHAT)?,
            machine_token::RELEASE => machine.release = content.string(WHAT)?,
            machine_token::VERSION => machine.version = content.string(WHAT)?,
            machine_token::HARDWARE => machine.hardware = content.string(WHAT)?,
            _ => {}
        }
        Ok(())
    }

    fn read_database_token(&mut self, id: u8, content: &mut Cursor<'_>) -> Result<(), Damage> {
        let source = &mut self.source;
        match id {
            database_token::CHARSET => source.charset = content.u32(WHAT)?,
            database_token::CLIENT_VERSION => source.client_version = content.string(WHAT)?,
            database_token::OBJECT_METADATA => source.case_rule = case_rule(content.u8(WHAT)?),
            database_token::NAME => source.name = content.string(WHAT)?,
            database_token::INSTANCE => source.instance = content.string(WHAT)?,
            database_token::VERSION => {
                let text = content.string(WHAT)?;
                let (product, version) = text.rsplit_once(' ').unwrap_or((&text, ""));
                source.product = product.to_owned();
                source.version = version.to_owned();
            }
            database_token::LOCALE => source.locale = content.string(WHAT)?,
            database_token::TIME_ZONE => source.time_zone = content.string(WHAT)?,
            database_token::UNIQUE_NAME => source.unique_name = content.string(WHAT)?,
            _ => {}
        }
        Ok(())
    }

    /// The URIs of all processes that the records went through, oldest last, for the history of a copy of this file.
    pub fn lineage(&self) -> Vec<String> {
        let own = Some(self.uri.clone()).filter(|uri| !uri.is_empty());
        own.into_iter().chain(self.uri_history.iter().cloned()).take(HISTORY_MAX).collect()
    }

    /// The format of a copy of this file, which is in `order`: it has the level of its input.
    pub fn format(&self, order: Order) -> Format {
        Format {
            level: Some(self.level),
            order: Some(order),
            has_definitions: Some(self.has_definitions),
            updates: None,
            recovery: None,
        }
    }
}

/// Most URIs of a history: a header must fit a record, and records that go round in a ring must not stop it.
const HISTORY_MAX: usize = 100;

/// The first five numbers in a text such as `19.1.0`; zeros where there are none.
fn version_numbers(text: &str) -> [u16; 5] {
    let mut numbers = text.split(|character: char| !character.is_ascii_digit()).filter(|digits| !digits.is_empty());
    std::array::from_fn(|_| numbers.next().and_then(|digits| digits.parse().ok()).unwrap_or(0))
}

const WHAT: &str = "file header";

fn put_key(bytes: &mut Vec<u8>, order: Order, key: &WrappedKey) {
    bytes.extend_from_slice(&order.of_u16(key.algorithm.bits()));
    bytes.extend_from_slice(&order.of_u32(key.version));
    put_text(bytes, order, &key.name);
    bytes.extend_from_slice(&key.file_id);
    bytes.extend_from_slice(&key.nonce);
    bytes.extend_from_slice(&key.wrapped);
}

fn read_key(content: &mut Cursor<'_>) -> Result<WrappedKey, Damage> {
    const UNKNOWN: Damage = Damage::Content("the file is encrypted in a way that this version does not know");
    let algorithm = Algorithm::of_bits(content.u16(WHAT)?).ok_or(UNKNOWN)?;
    let version = content.u32(WHAT)?;
    let name = content.string(WHAT)?;
    let file_id = content.take(FILE_ID_BYTES, WHAT)?.first_chunk().copied().ok_or(UNKNOWN)?;
    let nonce = content.take(NONCE_BYTES, WHAT)?.first_chunk().copied().ok_or(UNKNOWN)?;
    Ok(WrappedKey { algorithm, name, version, file_id, nonce, wrapped: content.rest().to_vec() })
}

/// Fills in the tokens of a file header record of ours that are known once nothing is appended any more.
///
/// # Errors
/// [`Damage`] when the record is not one of ours.
pub fn complete(record: &mut [u8], order: Order, completion: &Completion) -> Result<(), Damage> {
    let places = Places::find(record, order)?;
    if places.checksum.is_empty() {
        return Err(Damage::Content("the file header is not in this product's form"));
    }
    let mut fill = |place: &Range<usize>, content: &[u8]| {
        put_at(record, place, content);
        // The flag stands three bytes before the payload.
        if let Some(info) = record.get_mut(place.start.saturating_sub(3)) {
            *info = 0;
        }
    };
    fill(&places.file_size, &order.of_u64(completion.file_size));
    if let Some(span) = &completion.span {
        fill(&places.first_csn, &csn_buffer(&span.first_csn));
        fill(&places.last_csn, &csn_buffer(&span.last_csn));
        fill(&places.first_time, &order.of_u64(julian_micros(span.first_time)));
        fill(&places.last_time, &order.of_u64(julian_micros(span.last_time)));
    }
    let checksum = places.completion_checksum(record);
    let place = places.completion_checksum.clone();
    put_at(record, &place, &order.of_u32(checksum));
    if let Some(info) = record.get_mut(place.start.saturating_sub(3)) {
        *info = 0;
    }
    Ok(())
}

/// Takes back what [`complete`] filled in, because the file is appended to again.
///
/// # Errors
/// [`Damage`] when the record is not one of ours.
pub fn reopen(record: &mut [u8], order: Order) -> Result<(), Damage> {
    let places = Places::find(record, order)?;
    if places.checksum.is_empty() {
        return Err(Damage::Content("the file header is not in this product's form"));
    }
    let Places { file_size, first_csn, last_csn, first_time, last_time, completion_checksum, .. } = &places;
    for place in [file_size, first_csn, last_csn, first_time, last_time, completion_checksum] {
        record.get_mut(place.clone()).unwrap_or_default().fill(0);
        if let Some(info) = record.get_mut(place.start.saturating_sub(3)) {
            *info = OPEN;
        }
    }
    Ok(())
}

fn put_at(record: &mut [u8], place: &Range<usize>, content: &[u8]) {
    if let Some(target) = record.get_mut(place.clone())
        && let Some(target) = target.get_mut(..content.len())
    {
        target.copy_from_slice(content);
    }
}

fn csn_buffer(csn: &Csn) -> [u8; 1 + CSN_BYTES_MAX] {
    let mut buffer = [0; 1 + CSN_BYTES_MAX];
    let text = clip(csn.as_str(), CSN_BYTES_MAX);
    let [length, rest @ ..] = &mut buffer;
    *length = u8::try_from(text.len()).unwrap_or(0);
    rest.iter_mut().zip(text.bytes()).for_each(|(place, byte)| *place = byte);
    buffer
}

fn put_text(bytes: &mut Vec<u8>, order: Order, text: &str) {
    put_string(bytes, order, clip(text, TEXT_BYTES_MAX));
}

fn put_texts(bytes: &mut Vec<u8>, order: Order, texts: &[(u8, &str)]) {
    for (id, text) in texts {
        token::put(bytes, order, *id, 0, |bytes| put_text(bytes, order, text));
    }
}

fn put_number(bytes: &mut Vec<u8>, order: Order, id: u8, number: u16) {
    token::put(bytes, order, id, 0, |bytes| bytes.extend_from_slice(&order.of_u16(number)));
}

/// Shows every token of every group with its group and the place of its payload in the record.
pub fn walk<'a>(
    record: &'a [u8],
    order: Order,
    mut see: impl FnMut(u8, Token<'a>, Range<usize>) -> Result<(), Damage>,
) -> Result<(), Damage> {
    let inner_end = record.len().saturating_sub(PREFIX_BYTES);
    let mut groups = Cursor::new(record.get(..inner_end).unwrap_or_default(), order);
    if groups.take(PREFIX_BYTES, WHAT)?.first() != Some(&token::FILE_HEADER) {
        return Err(Damage::Content("the file does not start with a file header"));
    }
    while let Some(group) = token::next(&mut groups)? {
        let base = groups.position().saturating_sub(group.payload.len());
        let mut tokens = Cursor::new(group.payload, order);
        while let Some(token) = token::next(&mut tokens)? {
            let end = base.saturating_add(tokens.position());
            see(group.id, token, end.saturating_sub(token.payload.len())..end)?;
        }
    }
    Ok(())
}

/// The name of a group, as Logdump prints it.
pub fn group_name(group: u8) -> &'static str {
    match group {
        group::TRAIL => "TrailInfo",
        group::MACHINE => "MachineInfo",
        group::DATABASE => "DatabaseInfo",
        group::PRODUCER => "ProducerInfo",
        group::CONTINUITY => "ContinuityInfo",
        group::OURS => "Drover",
        _ => "Unknown",
    }
}

/// The name of a token of a group, as Logdump prints it.
pub fn token_name(group: u8, id: u8) -> &'static str {
    match group {
        group::TRAIL => trail_token_name(id),
        group::MACHINE => match id {
            machine_token::SYSTEM => "Sysname",
            machine_token::NODE => "Nodename",
            machine_token::RELEASE => "Release",
            machine_token::VERSION => "Version",
            machine_token::HARDWARE => "Hardware",
            _ => "Unknown",
        },
        group::DATABASE => database_token_name(id),
        group::PRODUCER => match id {
            producer_token::NAME => "Name",
            producer_token::DATA_SOURCE => "DataSource",
            producer_token::MAJOR_VERSION => "MajorVersion",
            producer_token::MINOR_VERSION => "MinorVersion",
            producer_token::MAINTENANCE_LEVEL => "MaintLevel",
            producer_token::BUG_FIX_LEVEL => "BugFixLevel",
            producer_token::BUILD_NUMBER => "BuildNumber",
            producer_token::VERSION => "VerString",
            _ => "Unknown",
        },
        group::CONTINUITY if id == continuity_token::RECOVERY_MODE => "RecoveryMode",
        group::OURS => match id {
            our_token::FORM => "Form",
            our_token::LAYOUT => "Layout",
            our_token::KEY => "Key",
            our_token::CHECKSUM => "Checksum",
            our_token::COMPLETION_CHECKSUM => "Completion",
            _ => "Unknown",
        },
        _ => "Unknown",
    }
}

fn database_token_name(id: u8) -> &'static str {
    match id {
        database_token::VENDOR => "Vendor",
        database_token::NAME => "Name",
        database_token::INSTANCE => "Instance",
        database_token::CHARSET => "Charset",
        database_token::MAJOR_VERSION => "MajorVersion",
        database_token::MINOR_VERSION => "MinorVersion",
        database_token::VERSION => "VerString",
        database_token::CLIENT_CHARSET => "ClientCharset",
        database_token::CLIENT_VERSION => "ClientVerString",
        database_token::CLIENT_NATIONAL_CHARSET => "ClientNCharset",
        database_token::LOCALE => "DbLocale",
        database_token::NATIONAL_CHARSET => "DbNCharset",
        database_token::OBJECT_METADATA => "DbObjMetadata",
        database_token::TIME_ZONE => "DbTimeZone",
        database_token::UNIQUE_NAME => "DbUniqueName",
        _ => "Unknown",
    }
}

fn trail_token_name(id: u8) -> &'static str {
    match id {
        trail_token::SIGNATURE => "Signature",
        trail_token::COMPATIBILITY => "Compatibility",
        trail_token::CHARSET => "Charset",
        trail_token::CREATION_TIME => "CreationTime",
        trail_token::URI => "URI",
        trail_token::URI_HISTORY => "URIHistory",
        trail_token::FILE_NAME => "FileName",
        trail_token::MULTI_PART => "MultiPart",
        trail_token::SEQUENCE => "Seqno",
        trail_token::FILE_SIZE => "FileSize",
        trail_token::FIRST_CSN => "FirstCSN",
        trail_token::LAST_CSN => "LastCSN",
        trail_token::FIRST_TIME => "FirstIOTime",
        trail_token::LAST_TIME => "LastIOTime",
        trail_token::LOG_BSN => "LogBSN",
        _ => "Unknown",
    }
}

/// Where the payloads stand that completing fills in, and our checksums. Empty ranges for tokens that are not there.
#[derive(Default)]
struct Places {
    file_size: Range<usize>,
    first_csn: Range<usize>,
    last_csn: Range<usize>,
    first_time: Range<usize>,
    last_time: Range<usize>,
    checksum: Range<usize>,
    completion_checksum: Range<usize>,
}

impl Places {
    fn find(record: &[u8], order: Order) -> Result<Places, Damage> {
        let mut places = Places::default();
        walk(record, order, |group, token, place| {
            let target = match (group, token.id, token.payload.len()) {
                (group::TRAIL, trail_token::FILE_SIZE, 8) => &mut places.file_size,
                (group::TRAIL, trail_token::FIRST_CSN, 129) => &mut places.first_csn,
                (group::TRAIL, trail_token::LAST_CSN, 129) => &mut places.last_csn,
                (group::TRAIL, trail_token::FIRST_TIME, 8) => &mut places.first_time,
                (group::TRAIL, trail_token::LAST_TIME, 8) => &mut places.last_time,
                (group::OURS, our_token::CHECKSUM, 4) => &mut places.checksum,
                (group::OURS, our_token::COMPLETION_CHECKSUM, 4) => &mut places.completion_checksum,
                _ => return Ok(()),
            };
            *target = place;
            Ok(())
        })?;
        Ok(places)
    }

    /// The five tokens that completing fills in, flags included.
    fn completed(&self) -> Range<usize> {
        self.file_size.start.saturating_sub(PREFIX_BYTES)..self.last_time.end
    }

    /// CRC-32 of everything before the checksum, without the five tokens.
    fn checksum(&self, record: &[u8]) -> u32 {
        let completed = self.completed();
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(record.get(..completed.start).unwrap_or_default());
        hasher.update(record.get(completed.end..self.checksum.start).unwrap_or_default());
        hasher.finalize()
    }

    fn completion_checksum(&self, record: &[u8]) -> u32 {
        crc32fast::hash(record.get(self.completed()).unwrap_or_default())
    }

    fn verify(&self, record: &[u8], order: Order) -> Result<(), Damage> {
        if [&self.checksum, &self.completion_checksum, &self.file_size, &self.last_time]
            .iter()
            .any(|place| place.is_empty())
        {
            return Err(Damage::Content("the file header lacks a token of its form"));
        }
        let stored = record.get(self.checksum.clone()).unwrap_or_default();
        let found = Cursor::new(stored, order).u32(WHAT)?;
        let computed = self.checksum(record);
        if found == computed { Ok(()) } else { Err(Damage::Checksum { found, computed }) }
    }

    fn completion(&self, record: &[u8], order: Order) -> Option<Completion> {
        let at = |place: &Range<usize>| record.get(place.clone()).map(|bytes| Cursor::new(bytes, order));
        let is_filled = |place: &Range<usize>| record.get(place.start.checked_sub(3)?).map(|info| *info != OPEN);
        if !is_filled(&self.file_size)? {
            return None;
        }
        // A file of another product has no checksum to compare.
        if !self.checksum.is_empty()
            && (!is_filled(&self.completion_checksum)?
                || at(&self.completion_checksum)?.u32(WHAT).ok()? != self.completion_checksum(record))
        {
            return None;
        }
        let csn = |place: &Range<usize>| {
            let mut cursor = at(place)?;
            let length = cursor.u8(WHAT).ok()?;
            let text = cursor.take(usize::from(length), WHAT).ok()?;
            std::str::from_utf8(text).ok().filter(|text| !text.is_empty()).map(Csn::new)
        };
        let time = |place: &Range<usize>| at(place)?.u64(WHAT).ok().map(from_julian_micros);
        let span = || {
            is_filled(&self.last_csn)?.then_some(())?;
            Some(Span {
                first_csn: csn(&self.first_csn)?,
                last_csn: csn(&self.last_csn)?,
                first_time: time(&self.first_time)?,
                last_time: time(&self.last_time)?,
            })
        };
        Some(Completion { file_size: at(&self.file_size)?.u64(WHAT).ok()?, span: span() })
    }
}

/// Reads the header record at the start of `bytes`, in whichever byte order it is.
///
/// # Errors
/// [`Damage`].
pub fn read_file_start(bytes: &[u8]) -> Result<(FileHeader, Order, usize), Damage> {
    let order = record::detect_order(bytes)?;
    let record = record::frame(bytes, order)?;
    Ok((FileHeader::read(record, order)?, order, record.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> FileHeader {
        FileHeader {
            level: LEVEL,
            charset: charset::UNKNOWN,
            created: Timestamp::from_unix_micros(1_700_000_000_000_001),
            uri: "uri:host:domain::home:E1".to_owned(),
            uri_history: vec!["uri:elsewhere::x:E0".to_owned()],
            file_name: "./dirdat/aa000000007".to_owned(),
            multi_part: true,
            sequence: 7,
            producer: Producer {
                group: "E1".to_owned(),
                host: "host".to_owned(),
                version: "0.1".to_owned(),
                machine: Machine {
                    system: "Linux".to_owned(),
                    release: "6.1".to_owned(),
                    version: "#1 SMP".to_owned(),
                    hardware: "x86_64".to_owned(),
                },
            },
            source: SourceIdentity {
                product: "SQLite".to_owned(),
                version: "3.5".to_owned(),
                name: "a b.db".to_owned(),
                instance: "main".to_owned(),
                unique_name: "shop_berlin".to_owned(),
                locale: "C.UTF-8".to_owned(),
                time_zone: "UTC".to_owned(),
                charset: 1032,
                case_rule: CaseRule::FoldToLower,
                client_version: "Drover 0.1".to_owned(),
            },
            recovery: RecoveryMode::Overwrite,
            has_definitions: false,
            form: Some(FORM),
            key: None,
            completion: None,
        }
    }

    fn completion() -> Completion {
        let span = Span {
            first_csn: Csn::new("0001"),
            last_csn: Csn::new("9".repeat(128)),
            first_time: Timestamp::from_unix_micros(1),
            last_time: Timestamp::from_unix_micros(2),
        };
        Completion { file_size: u64::MAX, span: Some(span) }
    }

    /// The two published header samples (trail-format.md 6.8): bytes up to the first token that differs in kind, and the
    /// length of group `0` that Logdump printed.
    #[test]
    fn published_header_samples_have_our_bytes_and_lengths() {
        let level_3 = FileHeader {
            level: 3,
            created: from_julian_micros(0x02F2_57BD_DD5E_C9B0),
            uri: "uri:h-7b6g4gqx::data:oggtest".to_owned(),
            uri_history: vec!["uri:h-7b6g4gqx::data:oggtest".to_owned()],
            file_name: "./dirdat/ra000000".to_owned(),
            multi_part: true,
            ..FileHeader::default()
        };
        let expected = b"\x30\x00\x01\xc0\x30\x00\x00\x08GG\r\nTL\n\r\x31\x00\x00\x02\x00\x03\x32\x00\x00\x04\x20\x00\x00\x00\
            \x33\x00\x00\x08\x02\xf2\x57\xbd\xdd\x5e\xc9\xb0\x34\x00\x00\x1e\x00\x1curi:h-7b6g4gqx::data:oggtest\
            \x35\x00\x00\x22\x35\x00\x00\x1e\x00\x1curi:h-7b6g4gqx::data:oggtest\x36\x00\x00\x13\x00\x11./dirdat/ra000000\x37\x00";
        assert_eq!(&level_3.record(Order::Big)[4..4 + expected.len()], expected);

        let level_6 = FileHeader {
            level: 6,
            created: from_julian_micros(0x02F2_9DAF_3D9E_3966),
            uri: "uri:localhost:localdomain::u02:ggate:PUMP2".to_owned(),
            uri_history: vec!["uri:localhost:localdomain::u02:ggate:EXT2".to_owned()],
            file_name: "./dirdat/ba000000001".to_owned(),
            ..FileHeader::default()
        };
        // 823 were printed; 212 bytes of tokens after LogBSN are not publicly known.
        let expected = b"\x30\x00\x02\x63\x30\x00\x00\x08GG\r\nTL\n\r\x31\x00\x00\x02\x00\x06";
        assert_eq!(u16::from_be_bytes([0x02, 0x63]), 823 - 212);
        assert_eq!(&level_6.record(Order::Big)[4..4 + expected.len()], expected);
    }

    #[test]
    fn a_header_comes_back_and_is_completed_in_place() {
        for order in [Order::Little, Order::Big] {
            let mut record = sample().record(order);
            assert_eq!(read_file_start(&record), Ok((sample(), order, record.len())));

            let open = record.clone();
            complete(&mut record, order, &completion()).expect("is ours");
            let completed = FileHeader { completion: Some(completion()), ..sample() };
            assert_eq!(read_file_start(&record), Ok((completed, order, open.len())));

            let mut reopened = record.clone();
            reopen(&mut reopened, order).expect("is ours");
            assert_eq!(reopened, open, "as if it had never been completed");

            let empty = Completion { file_size: 5, span: None };
            let mut record = open;
            complete(&mut record, order, &empty).expect("is ours");
            assert_eq!(read_file_start(&record).map(|(header, ..)| header.completion), Ok(Some(empty)));
        }
    }

    /// Unknown tokens and groups are passed over; what is missing has its default.
    #[test]
    fn a_header_with_strange_and_missing_tokens_is_read() {
        let mut group = Vec::new();
        token::put(&mut group, Order::Big, 0x30, 0, |bytes| bytes.extend_from_slice(&SIGNATURE));
        put_number(&mut group, Order::Big, 0x31, 6);
        token::put(&mut group, Order::Big, 0x7A, 9, |bytes| bytes.extend_from_slice(b"of a later version"));
        let mut record = Vec::new();
        token::put_prefix(&mut record, Order::Big, token::FILE_HEADER, 0, 0);
        token::put(&mut record, Order::Big, group::TRAIL, 0, |bytes| bytes.extend_from_slice(&group));
        token::put(&mut record, Order::Big, b'9', 0, |bytes| put_number(bytes, Order::Big, 0x30, 1));
        let total = u16::try_from(record.len() + 4).expect("is short");
        token::put_prefix(&mut record, Order::Big, token::TRAILER, 0, total);
        record[2..4].copy_from_slice(&total.to_be_bytes());
        let expected = FileHeader { level: 6, ..FileHeader::default() };
        assert_eq!(read_file_start(&record), Ok((expected, Order::Big, record.len())));
    }

    #[test]
    fn a_history_grows_by_the_process_that_wrote_the_file() {
        let header = sample();
        assert_eq!(header.lineage(), ["uri:host:domain::home:E1", "uri:elsewhere::x:E0"]);
        let long = FileHeader { uri_history: vec!["x".repeat(300); 200], ..sample() };
        let record = FileHeader { uri_history: long.lineage(), ..sample() }.record(Order::Big);
        assert!(record::frame(&record, Order::Big).is_ok(), "a header always fits a record");
    }

    #[test]
    fn version_numbers_are_those_of_the_text() {
        assert_eq!(version_numbers("PostgreSQL 15.4 (Debian 15.4-1)"), [15, 4, 15, 4, 1]);
        assert_eq!((version_numbers("0.1"), version_numbers("99999")), ([0, 1, 0, 0, 0], [0; 5]));
    }

    #[test]
    fn a_completion_that_was_torn_counts_as_none() {
        let open = sample().record(Order::Little);
        let mut completed = open.clone();
        complete(&mut completed, Order::Little, &completion()).expect("is ours");
        for torn_at in 0..open.len() {
            let torn: Vec<u8> = completed[..torn_at].iter().chain(&open[torn_at..]).copied().collect();
            let (header, ..) = read_file_start(&torn).expect("what never changes is whole");
            assert!(header.completion.is_none() || torn == completed, "torn at {torn_at}");
        }
    }

    #[test]
    fn any_other_flipped_bit_is_refused() {
        let record = sample().record(Order::Little);
        let completed = Places::find(&record, Order::Little).expect("is ours").completed();
        let checksum = Places::find(&record, Order::Little).expect("is ours").completion_checksum;
        for place in (0..record.len()).filter(|place| !completed.contains(place) && !checksum.contains(place)) {
            for bit in 0..8 {
                let mut flipped = record.clone();
                flipped[place] ^= 1 << bit;
                // Without its group the header is another product's, which readers refuse as well.
                let refused = read_file_start(&flipped).map_or(true, |(header, ..)| header.form.is_none());
                // The flag bytes of the record, of its trailer and of the last token tell nothing.
                let is_flag = [1, record.len() - 3, checksum.start - 3].contains(&place);
                assert!(refused || is_flag, "byte {place}, bit {bit}");
            }
        }
    }
}
