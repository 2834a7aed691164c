//! Trail files in pieces that can be changed and put together again, with every length, checksum and tag right.

use super::change;
use super::decode::Keys;
use trail::Damage;
use trail::cipher::{FileKey, NONCE_BYTES, TAG_BYTES};
use trail::format::bytes::Order;
use trail::format::header::{self, FileHeader};
use trail::format::record::{self, HEADER_BYTES, RECORD_BYTES_MAX, RecordView};
use trail::format::token::{self, PREFIX_BYTES};

/// A file as a list of records.
#[derive(Clone)]
pub(super) struct TrailFile {
    pub(super) order: Order,
    pub(super) records: Vec<Record>,
    pub(super) has_key: bool,
}

/// A record as a list of tokens between its two frame tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    id: u8,
    info: u8,
    tokens: Vec<Token>,
    /// Whether `D` and `U` stand here in clear and are to be encrypted.
    is_sealed: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Token {
    id: u8,
    info: u8,
    payload: Vec<u8>,
}

impl TrailFile {
    /// Takes a whole file apart.
    pub(super) fn read(bytes: &[u8]) -> Result<TrailFile, Damage> {
        let (header, order, _) = header::read_file_start(bytes)?;
        let key = header.key.as_ref().and_then(|wrapped| FileKey::unwrap(wrapped, &Keys).ok());
        let mut records = Vec::new();
        let mut at = 0;
        while at < bytes.len() {
            let record = record::frame(&bytes[at..], order)?;
            at += record.len();
            records.push(Record::read(record, order, key.as_ref())?);
        }
        Ok(TrailFile { order, records, has_key: key.is_some() })
    }

    /// Changes some of the file's records or their order. `donors` are other files.
    pub(super) fn change(&mut self, donors: &[&TrailFile], random: &mut fastrand::Rng) {
        for _ in 0..1 + random.usize(..3) {
            if self.records.is_empty() {
                return;
            }
            let at = random.usize(..self.records.len());
            let other = random.usize(..self.records.len());
            match random.u8(..16) {
                0 => drop(self.records.remove(at)),
                1 => {
                    let record = self.records[at].clone();
                    self.records.splice(other..other, std::iter::repeat_n(record, random.usize(1..6)));
                }
                2 => self.records.swap(at, other),
                3 | 4 => {
                    let Some(donor) = random.choice(donors) else { continue };
                    if let Some(record) = random.choice(&donor.records) {
                        self.records.insert(at, record.clone());
                    }
                }
                _ => self.records[at].change(self.order, random),
            }
        }
    }

    /// The bytes of the file.
    pub(super) fn write(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut key = None;
        for (index, record) in self.records.iter().enumerate() {
            let written = record.write(self.order, key.as_ref());
            if index == 0 && self.has_key {
                let header = FileHeader::read(&written, self.order).ok();
                key = header.and_then(|header| header.key).and_then(|wrapped| FileKey::unwrap(&wrapped, &Keys).ok());
            }
            bytes.extend_from_slice(&written);
        }
        bytes
    }
}

/// Where the tag of the place stands in a `T` that has one.
fn place_of(tokens: &[u8]) -> Option<usize> {
    let prefix = tokens.len().checked_sub(PREFIX_BYTES + 4 + TAG_BYTES + PREFIX_BYTES)?;
    (tokens[prefix] == token::PLACE).then_some(prefix + PREFIX_BYTES)
}

impl Record {
    fn read(record: &[u8], order: Order, key: Option<&FileKey>) -> Result<Record, Damage> {
        let inner = record.get(PREFIX_BYTES..record.len().saturating_sub(PREFIX_BYTES)).unwrap_or_default();
        let (id, info) = (record.first().copied().unwrap_or(0), record.get(1).copied().unwrap_or(0));
        let mut read = Record { id, info, tokens: read_tokens(inner, order)?, is_sealed: false };
        if let Some(key) = key.filter(|_| id == token::RECORD)
            && let Some(number) = RecordView::read(record, order)?.encrypted
        {
            let about = read.about();
            for (part, id) in [(0, token::DATA), (1, token::USER)] {
                if let Some(token) = read.tokens.iter_mut().find(|token| token.id == id) {
                    let length = key.open(nonce(part, number), &about, &mut token.payload);
                    token.payload.truncate(length.ok_or(Damage::Content("the corpus can't be decrypted"))?);
                }
            }
            read.is_sealed = true;
        }
        Ok(read)
    }

    /// Changes one of the tokens, or which there are.
    fn change(&mut self, order: Order, random: &mut fastrand::Rng) {
        let Some(at) = (!self.tokens.is_empty()).then(|| random.usize(..self.tokens.len())) else { return };
        match random.u8(..24) {
            0 => drop(self.tokens.remove(at)),
            1 => {
                let copy = self.tokens[at].clone();
                self.tokens.insert(random.usize(..=self.tokens.len()), copy);
            }
            2 => {
                let other = random.usize(..self.tokens.len());
                self.tokens.swap(at, other);
            }
            3 => self.tokens[at].id = random.u8(..),
            4..8 if self.id == token::RECORD => self.change_header(random),
            _ => {
                let is_list = self.id == token::FILE_HEADER || self.tokens[at].id == token::TOKENS;
                change_payload(&mut self.tokens[at].payload, is_list, order, random);
            }
        }
    }

    /// Gives the record another operation, place in its transaction or layout.
    fn change_header(&mut self, random: &mut fastrand::Rng) {
        const OPERATIONS: [u8; 20] =
            [0, 1, 2, 3, 5, 10, 15, 100, 115, 116, 117, 132, 134, 135, 150, 151, 160, 161, 170, 205];
        /// Partition, before or after, operation, origin, TransInd, format, incomplete, continued.
        const PLACES: [usize; 8] = [1, 3, 6, 7, 28, 29, 31, 32];
        let Some(header) = self.tokens.iter_mut().find(|token| token.id == token::HEADER) else { return };
        if header.payload.len() < HEADER_BYTES {
            return;
        }
        if random.bool() {
            header.payload[6] = OPERATIONS[random.usize(..OPERATIONS.len())];
        } else {
            let value = if random.bool() { random.u8(..5) } else { random.u8(..) };
            header.payload[PLACES[random.usize(..PLACES.len())]] = value;
        }
    }

    /// The bytes of the record; what does not fit a frame is cut off.
    fn write(&self, order: Order, key: Option<&FileKey>) -> Vec<u8> {
        let mut tokens = self.tokens.clone();
        if let Some(key) = key.filter(|_| self.is_sealed) {
            self.seal(&mut tokens, key, order);
        }
        let data = tokens.iter().rfind(|token| token.id == token::DATA).map(|token| token.payload.len());
        let header = tokens.iter_mut().find(|token| token.id == token::HEADER);
        if let Some(length) =
            header.and_then(|header| header.payload.get_mut(4..6)).filter(|_| self.id == token::RECORD)
        {
            length.copy_from_slice(&order.of_u16(data.unwrap_or(0).min(RECORD_BYTES_MAX) as u16));
        }
        let mut record = Vec::new();
        token::put_prefix(&mut record, order, self.id, self.info, 0);
        put_tokens(&mut record, &tokens, order);
        record.truncate(RECORD_BYTES_MAX - PREFIX_BYTES);
        let length = (record.len() + PREFIX_BYTES) as u16;
        record[2..4].copy_from_slice(&order.of_u16(length));
        token::put_prefix(&mut record, order, token::TRAILER, self.info, length);
        self.correct_checksum(&mut record, order);
        record
    }

    /// Decoders tell the right checksum themselves, in the error about a wrong one.
    fn correct_checksum(&self, record: &mut [u8], order: Order) {
        if self.id == token::FILE_HEADER {
            let Err(Damage::Checksum { computed, .. }) = FileHeader::read(record, order) else { return };
            let mut place = None;
            let _ = header::walk(record, order, |group, token, at| {
                // Ours is group `#`, its first checksum token 1.
                if (group, token.id) == (b'#', 0x31) {
                    place = Some(at);
                }
                Ok(())
            });
            put_checksum(record, place, computed, order);
        } else {
            let Ok(view) = RecordView::read(record, order) else { return };
            let Err(Damage::Checksum { computed, .. }) = view.verify() else { return };
            // It stands at the end of the last `T`.
            let (end, length) = (view.tokens.as_ptr_range().end, record.len());
            let place = length.checked_sub(record.as_ptr_range().end.addr() - end.addr());
            let place = place.and_then(|end| Some(end.checked_sub(4)?..end));
            put_checksum(record, place, computed, order);
        }
    }

    fn seal(&self, tokens: &mut [Token], key: &FileKey, order: Order) {
        let Some(number) = self.number(order) else { return };
        let about = self.about();
        for (part, id) in [(0, token::DATA), (1, token::USER)] {
            let token = tokens.iter_mut().find(|token| token.id == id);
            let Some(token) = token.filter(|token| !token.payload.is_empty()) else { continue };
            token.payload.truncate(RECORD_BYTES_MAX - TAG_BYTES);
            if let Ok(tag) = key.seal(nonce(part, number), &about, &mut token.payload) {
                let tag: [u8; TAG_BYTES] = tag;
                token.payload.extend_from_slice(&tag);
            }
        }
        // The tag of the place stands in T, right in front of the checksum.
        let place = self.tokens.iter().find(|token| token.id == token::HEADER).and_then(|token| token.payload.get(28));
        let place = place.copied().unwrap_or_default() & 3;
        let tokens = tokens.iter_mut().find(|token| token.id == token::TOKENS).map(|token| &mut token.payload);
        if let Some(tokens) = tokens
            && let Some(at) = place_of(tokens)
            && let Ok(tag) = key.seal(nonce(2 + place, number), &about, &mut [])
        {
            tokens[at..at + TAG_BYTES].copy_from_slice(&tag);
        }
    }

    fn number(&self, order: Order) -> Option<u64> {
        let tokens = self.tokens.iter().find(|token| token.id == token::TOKENS)?;
        let tokens = read_tokens(&tokens.payload, order).ok()?;
        let number: [u8; 8] = *tokens.iter().find(|token| token.id == token::ENCRYPTED)?.payload.first_chunk()?;
        Some(match order {
            Order::Little => u64::from_le_bytes(number),
            Order::Big => u64::from_be_bytes(number),
        })
    }

    /// What is authenticated with the data, by section 12 of `docs/formats/trail.md`.
    fn about(&self) -> Vec<u8> {
        let payload = |id| self.tokens.iter().find(|token| token.id == id).map_or(&[][..], |token| &token.payload);
        let mut about = payload(token::HEADER).to_vec();
        if let Some(place) = about.get_mut(HEADER_BYTES - 6) {
            *place = 0;
        }
        let tokens = payload(token::TOKENS);
        let end = match place_of(tokens) {
            Some(at) => at - PREFIX_BYTES,
            None => tokens.len().saturating_sub(PREFIX_BYTES + 4),
        };
        about.extend_from_slice(&tokens[..end]);
        about
    }
}

fn put_checksum(record: &mut [u8], place: Option<std::ops::Range<usize>>, checksum: u32, order: Order) {
    if let Some(place) = place.and_then(|place| record.get_mut(place)).filter(|place| place.len() == 4) {
        place.copy_from_slice(&order.of_u32(checksum));
    }
}

fn nonce(part: u8, number: u64) -> [u8; NONCE_BYTES] {
    let mut nonce = [0; NONCE_BYTES];
    nonce[0] = part;
    nonce[4..].copy_from_slice(&number.to_be_bytes());
    nonce
}

fn read_tokens(bytes: &[u8], order: Order) -> Result<Vec<Token>, Damage> {
    let mut cursor = trail::format::bytes::Cursor::new(bytes, order);
    let mut tokens = Vec::new();
    while let Some(token) = token::next(&mut cursor)? {
        tokens.push(Token { id: token.id, info: token.info, payload: token.payload.to_vec() });
    }
    Ok(tokens)
}

fn put_tokens(bytes: &mut Vec<u8>, tokens: &[Token], order: Order) {
    for token in tokens {
        let length = token.payload.len().min(RECORD_BYTES_MAX);
        token::put_prefix(bytes, order, token.id, token.info, length as u16);
        bytes.extend_from_slice(&token.payload[..length]);
    }
}

/// Changes a payload, as a list of tokens where it is one.
fn change_payload(payload: &mut Vec<u8>, is_list: bool, order: Order, random: &mut fastrand::Rng) {
    let tokens = if is_list && random.u8(..8) > 0 { read_tokens(payload, order).ok() } else { None };
    let Some(mut tokens) = tokens.filter(|tokens| !tokens.is_empty()) else {
        return change::bytes(payload, random);
    };
    let at = random.usize(..tokens.len());
    match random.u8(..8) {
        0 => drop(tokens.remove(at)),
        1 => {
            let copy = tokens[at].clone();
            tokens.insert(random.usize(..=at), copy);
        }
        2 => tokens[at].id = random.u8(..),
        _ => change::bytes(&mut tokens[at].payload, random),
    }
    payload.clear();
    put_tokens(payload, &tokens, order);
}

#[cfg(test)]
mod tests {
    use crate::mutation::Corpus;

    #[test]
    fn files_that_are_not_changed_come_together_as_they_were() {
        let corpus = Corpus::open().expect("is there");
        assert!(corpus.trails().count() > 20, "there are fixtures");
        for (file, bytes) in corpus.trails() {
            assert!(file.write() == *bytes, "a file of {} bytes comes back", bytes.len());
        }
    }
}
