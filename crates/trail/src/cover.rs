//! What is laid over the data of records: compression, then encryption.
//!
//! Frames, record headers and the tokens of `T` stay as they are, so that files can be walked, verified and repaired without
//! a key. Over `D` and `U` lies what two tokens of ours in `T` announce:
//!
//! | token | payload | meaning |
//! |---|---|---|
//! | `%` | 4 bytes: length | `D` is a zstd frame of data of this length |
//! | `$` | 8 bytes: number | `D` and `U` are encrypted, each with a tag of 16 bytes at its end |
//! | `&` | 16 bytes: tag | what authenticates the header with TransInd; in encrypted files every record has it |
//!
//! The nonce is one byte, 0 for `D` and 1 for `U`, three zero bytes, and the record's number in 8 bytes, highest first. What is
//! authenticated with it is the payload of `H` with 0 in place of TransInd, and the tokens of `T` in front of the checksum.
//! The checksum covers what stands in the file.

use crate::Damage;
use crate::cipher::{Algorithm, FileKey, KeyError, MasterKeys, NONCE_BYTES, TAG_BYTES, WrappedKey};
use crate::format::bytes::Order;
use crate::format::header::{self, FileHeader};
use crate::format::record::{HEADER_BYTES, RECORD_BYTES_MAX, RecordView};
use crate::format::token::{self, PREFIX_BYTES};
use bytes::{Bytes, BytesMut};
use std::sync::Arc;

/// Most bytes that a cover makes a record longer: three tokens and three tags.
pub(crate) const COVER_BYTES_MAX: usize = 3 * PREFIX_BYTES + 4 + 8 + 3 * TAG_BYTES;

/// Bytes of the token with the tag of the place.
const PLACE_BYTES: usize = PREFIX_BYTES + TAG_BYTES;

/// First byte of the nonce of a place's tag, to which TransInd is added: the tags of two places never share a nonce.
const PLACE_PART: u8 = 2;

/// Data shorter than this hardly ever gets smaller, and trying costs several times what writing it does.
const COMPRESSED_FROM: usize = 256;

/// zstd's fastest regular level: the trail is written once and read a few times.
const LEVEL: i32 = 1;

/// Bytes that a reader decrypts into at once.
const ARENA_BYTES: usize = 64 * 1024;

/// What an operator wants laid over the data of a trail.
#[derive(Clone, Default)]
pub struct Cover {
    /// ENCRYPTTRAIL: how, and by whose keys.
    pub encryption: Option<(Algorithm, Arc<dyn MasterKeys>)>,
    /// COMPRESS.
    pub is_compressed: bool,
}

impl Cover {
    /// Whether nothing is laid over the data.
    pub fn is_plain(&self) -> bool {
        self.encryption.is_none() && !self.is_compressed
    }
}

/// Lays covers over the records of one file.
pub(crate) struct Coverer {
    key: Option<FileKey>,
    compressor: Option<zstd::bulk::Compressor<'static>>,
    number: u64,
    scratch: Vec<u8>,
}

impl Coverer {
    /// For a new file: `None` when nothing is laid over it. The wrapped key belongs into its header.
    pub(crate) fn new(cover: &Cover) -> Result<(Option<Coverer>, Option<WrappedKey>), KeyError> {
        let (key, wrapped) = match &cover.encryption {
            None => (None, None),
            Some((algorithm, keys)) => {
                let (key, wrapped) = FileKey::generate(*algorithm, &**keys)?;
                (Some(key), Some(wrapped))
            }
        };
        let compressor = match cover.is_compressed {
            false => None,
            true => Some(zstd::bulk::Compressor::new(LEVEL).map_err(|_| KeyError::Library)?),
        };
        let is_needed = key.is_some() || compressor.is_some();
        let coverer = is_needed.then(|| Coverer { key, compressor, number: 0, scratch: Vec::new() });
        Ok((coverer, wrapped))
    }

    /// Lays the cover over the record that starts at `start` of the buffer and ends with it. The record is one of ours whose
    /// checksum is not computed yet; with it, [`COVER_BYTES_MAX`] more bytes fit a frame. Returns the bytes of its `U`, prefix
    /// included.
    pub(crate) fn cover(&mut self, buffer: &mut Vec<u8>, start: usize, order: Order) -> Result<usize, KeyError> {
        let record = buffer.split_off(start);
        let view = RecordView::read(&record, order).map_err(|_| KeyError::Library)?;
        let user_length = |user: usize| if user == 0 { 0 } else { PREFIX_BYTES + user };
        let compressed = self.compress(view.data);
        if compressed.is_none() && self.key.is_none() {
            let user = user_length(view.user_tokens.len());
            buffer.extend_from_slice(&record);
            return Ok(user);
        }
        let tag = |length: usize| if self.key.is_some() && length > 0 { TAG_BYTES } else { 0 };
        let data = compressed.unwrap_or(view.data.len());
        let data_length = data + tag(data);
        let user = view.user_tokens.len() + tag(view.user_tokens.len());

        // G, H and its length.
        let header_length = usize::from(order.u16([record[PREFIX_BYTES + 2], record[PREFIX_BYTES + 3]]));
        let header_end = 2 * PREFIX_BYTES + header_length;
        buffer.extend_from_slice(&record[..header_end]);
        let length_at = start + 2 * PREFIX_BYTES + 4;
        buffer[length_at..length_at + 2].copy_from_slice(&order.of_u16(data_length as u16));
        // T comes into being first, because it is authenticated with what stands before it.
        let shared = view.tokens.get(..view.tokens.len() - (PREFIX_BYTES + 4)).unwrap_or_default();
        let mut tokens = Vec::with_capacity(shared.len() + 32);
        tokens.extend_from_slice(shared);
        if compressed.is_some() {
            token::put(&mut tokens, order, token::COMPRESSED, 0, |bytes| {
                bytes.extend_from_slice(&order.of_u32(view.data.len() as u32));
            });
        }
        let number = self.number;
        if self.key.is_some() {
            token::put(&mut tokens, order, token::ENCRYPTED, 0, |bytes| bytes.extend_from_slice(&order.of_u64(number)));
            self.number += 1;
        }
        let about = about(&buffer[start + 2 * PREFIX_BYTES..start + header_end], &tokens);
        if data > 0 {
            token::put_prefix(buffer, order, token::DATA, 0, data_length as u16);
            let clear = if compressed.is_some() { &self.scratch[..data] } else { view.data };
            self.put_encrypted(buffer, nonce(0, number), &about, clear)?;
        }
        let place = if self.key.is_some() { PLACE_BYTES } else { 0 };
        token::put_prefix(buffer, order, token::TOKENS, 0, (tokens.len() + place + PREFIX_BYTES + 4) as u16);
        buffer.extend_from_slice(&tokens);
        if place > 0 {
            token::put_prefix(buffer, order, token::PLACE, 0, TAG_BYTES as u16);
            buffer.extend_from_slice(&[0; TAG_BYTES]);
        }
        token::put_prefix(buffer, order, token::CHECKSUM, 0, 4);
        buffer.extend_from_slice(&[0; 4]);
        if user > 0 {
            token::put_prefix(buffer, order, token::USER, 0, user as u16);
            self.put_encrypted(buffer, nonce(1, number), &about, view.user_tokens)?;
        }
        let total = buffer.len() - start + PREFIX_BYTES;
        debug_assert!(total <= RECORD_BYTES_MAX, "the caller has left room");
        buffer[start + 2..start + 4].copy_from_slice(&order.of_u16(total as u16));
        token::put_prefix(buffer, order, token::TRAILER, record[1], total as u16);
        Ok(user_length(user))
    }

    /// Authenticates the header of a record that [`cover`](Coverer::cover) has written, with its place in the transaction, which
    /// is `transaction`. Behind the checksum stand `user` bytes and the trailer. May be repeated, also with another place.
    pub(crate) fn place(&self, record: &mut [u8], order: Order, transaction: u8, user: usize) -> Result<(), KeyError> {
        match &self.key {
            None => Ok(()),
            Some(key) => put_place(key, record, order, transaction, user),
        }
    }

    /// Compresses into the scratch buffer; `None` when that would not make the record shorter.
    fn compress(&mut self, data: &[u8]) -> Option<usize> {
        let compressor = self.compressor.as_mut().filter(|_| data.len() >= COMPRESSED_FROM)?;
        // What takes more than this is no gain, and the library says so instead of writing it.
        self.scratch.resize(data.len() - (PREFIX_BYTES + 4), 0);
        compressor.compress_to_buffer(data, &mut self.scratch[..]).ok().filter(|length| *length > 0)
    }

    fn put_encrypted(
        &self,
        buffer: &mut Vec<u8>,
        nonce: [u8; NONCE_BYTES],
        about: &[u8],
        clear: &[u8],
    ) -> Result<(), KeyError> {
        let at = buffer.len();
        buffer.extend_from_slice(clear);
        if let Some(key) = &self.key {
            if change::sabotage::is_on("write-in-clear") {
                buffer.extend_from_slice(&[0; TAG_BYTES]);
                return Ok(());
            }
            let tag = key.seal(nonce, about, &mut buffer[at..])?;
            buffer.extend_from_slice(&tag);
        }
        Ok(())
    }
}

fn nonce(part: u8, number: u64) -> [u8; NONCE_BYTES] {
    let mut nonce = [0; NONCE_BYTES];
    nonce[0] = part;
    nonce[4..].copy_from_slice(&number.to_be_bytes());
    nonce
}

/// What is authenticated with a record's data: its header, where TransInd does not count because it is set later, and its
/// tokens.
fn about(header: &[u8], tokens: &[u8]) -> Vec<u8> {
    let mut about = Vec::with_capacity(header.len() + tokens.len());
    about.extend_from_slice(header);
    if let Some(place) = about.get_mut(HEADER_BYTES - 6) {
        *place = 0;
    }
    about.extend_from_slice(tokens);
    about
}

/// Authenticates the header of an encrypted record with its place in the transaction.
fn put_place(key: &FileKey, record: &mut [u8], order: Order, transaction: u8, user: usize) -> Result<(), KeyError> {
    // T ends with the number, the tag and the checksum; the trailer has four bytes, as a token's prefix.
    let tokens_end = record.len().checked_sub(PREFIX_BYTES + user).ok_or(KeyError::Library)?;
    let tag_at = tokens_end.checked_sub(PREFIX_BYTES + 4 + TAG_BYTES).ok_or(KeyError::Library)?;
    let view = RecordView::read(record, order).map_err(|_| KeyError::Library)?;
    let (Some(number), Some(_)) = (view.encrypted, view.place) else { return Err(KeyError::Library) };
    let about = about(header_of(record, order), tokens_about(&view));
    let tag = key.seal(nonce(PLACE_PART + (transaction & 3), number), &about, &mut [])?;
    record[tag_at..tag_at + TAG_BYTES].copy_from_slice(&tag);
    Ok(())
}

/// The payload of `H`.
fn header_of(record: &[u8], order: Order) -> &[u8] {
    let length = record.get(2 * PREFIX_BYTES - 2..2 * PREFIX_BYTES).and_then(|bytes| bytes.first_chunk());
    let length = usize::from(order.u16(length.copied().unwrap_or_default()));
    record.get(2 * PREFIX_BYTES..2 * PREFIX_BYTES + length).unwrap_or_default()
}

/// The tokens of `T` that are authenticated: those in front of the tag of the place and the checksum.
fn tokens_about<'a>(view: &RecordView<'a>) -> &'a [u8] {
    let behind = PREFIX_BYTES + 4 + if view.place.is_some() { PLACE_BYTES } else { 0 };
    view.tokens.get(..view.tokens.len().saturating_sub(behind)).unwrap_or_default()
}

/// What a record says once its cover is off.
#[derive(Clone, Debug)]
pub struct Uncovered {
    /// Its data.
    pub data: Bytes,
    /// The content of its `U`.
    pub user: Bytes,
}

/// Takes covers off the records of one file, from its start on or, after [`set_key`](Uncoverer::set_key), from anywhere on.
#[derive(Default)]
pub struct Uncoverer {
    keys: Option<Arc<dyn MasterKeys>>,
    wrapped: Option<WrappedKey>,
    /// Whether each record has to be authenticated with its place.
    needs_place: bool,
    key: Option<FileKey>,
    /// The number that the next encrypted record has at least.
    next: u64,
    /// Made with the first compressed record: making one takes longer than most records do.
    decompressor: Option<zstd::bulk::Decompressor<'static>>,
    arena: BytesMut,
}

/// Why a cover does not come off.
#[derive(Debug)]
pub enum Stuck {
    /// The record is not what was written.
    Damage(Damage),
    /// The key is not at hand: the one that the file's header names, if it names one.
    Key(Option<WrappedKey>, KeyError),
}

impl From<Damage> for Stuck {
    fn from(damage: Damage) -> Stuck {
        Stuck::Damage(damage)
    }
}

impl Uncoverer {
    /// With the keys of encrypted files, if they are at hand.
    pub fn new(keys: Option<Arc<dyn MasterKeys>>) -> Uncoverer {
        Uncoverer { keys, ..Uncoverer::default() }
    }

    /// Takes note of what the file's header says. The master key is looked up when the first encrypted record comes.
    pub fn set_key(&mut self, header: &FileHeader) {
        self.wrapped = header.key.clone();
        self.needs_place = header.key.is_some() && header.form >= Some(header::FORM_PLACED);
        self.key = None;
        self.next = 0;
    }

    /// Whether the file's records have to come through [`uncover`](Uncoverer::uncover), whatever they say of themselves.
    pub fn is_needed(&self) -> bool {
        self.needs_place
    }

    /// Authenticates a record of an encrypted file with another place than it has. Behind its checksum stand `user` bytes and the
    /// trailer.
    pub(crate) fn place(&mut self, record: &mut [u8], order: Order, transaction: u8, user: usize) -> Result<(), Stuck> {
        if !self.needs_place {
            return Ok(());
        }
        let wrapped = self.wrapped.clone();
        put_place(self.key()?, record, order, transaction, user).map_err(|error| Stuck::Key(wrapped, error))
    }

    /// What the record says; `record` are the bytes that `view` was made of. Encrypted records are given in the order of the
    /// file.
    ///
    /// # Errors
    /// [`Stuck`].
    pub fn uncover(&mut self, view: &RecordView<'_>, record: &[u8], order: Order) -> Result<Uncovered, Stuck> {
        let mut data = self.copy(view.data);
        let mut user = self.copy(view.user_tokens);
        if self.needs_place && (view.encrypted.is_none() || view.place.is_none()) {
            return Err(Damage::Content("a record of an encrypted file is not authenticated").into());
        }
        if let Some(number) = view.encrypted {
            if number < self.next {
                return Err(Damage::Content("an encrypted record has the number of an earlier one").into());
            }
            self.next = number.saturating_add(1);
            let about = about(header_of(record, order), tokens_about(view));
            let key = self.key()?;
            if let Some(tag) = view.place.filter(|_| !change::sabotage::is_on("ignore-the-place")) {
                let part = PLACE_PART + (view.header.transaction & 3);
                let fits = key.open(nonce(part, number), &about, &mut tag.to_vec());
                if fits != Some(0) || view.header.transaction > 3 {
                    return Err(Damage::Content("the record is not what was encrypted").into());
                }
            }
            for (part, bytes) in [(0, &mut data), (1, &mut user)] {
                if !bytes.is_empty() {
                    let length = key.open(nonce(part, number), &about, bytes);
                    bytes.truncate(length.ok_or(Damage::Content("the record is not what was encrypted"))?);
                }
            }
        }
        if let Some(length) = view.compressed {
            let length = usize::try_from(length).unwrap_or(usize::MAX);
            if length > RECORD_BYTES_MAX {
                return Err(Damage::Content("the compressed data is longer than any can be").into());
            }
            let mut clear = self.room(length);
            clear.resize(length, 0);
            if self.decompressor.is_none() {
                self.decompressor = zstd::bulk::Decompressor::new().ok();
            }
            let decompressor = self.decompressor.as_mut();
            let written = decompressor.and_then(|context| context.decompress_to_buffer(&data, &mut clear[..]).ok());
            if written != Some(length) {
                return Err(Damage::Content("the compressed data can't be read").into());
            }
            data = clear;
        }
        Ok(Uncovered { data: data.freeze(), user: user.freeze() })
    }

    fn key(&mut self) -> Result<&FileKey, Stuck> {
        if self.key.is_none() {
            let Some(wrapped) = &self.wrapped else {
                return Err(Damage::Content("a record is encrypted, and the file's header names no key").into());
            };
            let stuck = |error| Stuck::Key(Some(wrapped.clone()), error);
            let keys = self.keys.as_ref().ok_or_else(|| stuck(KeyError::NoKeys))?;
            self.key = Some(FileKey::unwrap(wrapped, &**keys).map_err(stuck)?);
        }
        self.key.as_ref().ok_or(Stuck::Key(None, KeyError::NoKeys))
    }

    fn copy(&mut self, bytes: &[u8]) -> BytesMut {
        let mut copy = self.room(bytes.len());
        copy.extend_from_slice(bytes);
        copy
    }

    /// An empty buffer with room for `length` bytes. Buffers share one allocation until it is used up.
    fn room(&mut self, length: usize) -> BytesMut {
        if self.arena.capacity() < length {
            self.arena = BytesMut::with_capacity(ARENA_BYTES.max(length));
        }
        let rest = self.arena.split_off(length);
        std::mem::replace(&mut self.arena, rest)
    }
}
