//! SAVE: an excerpt of a trail as a file of its own.

use super::reading::{Step, advance};
use super::{at_end, unknown};
use crate::error::Error;
use crate::open_file::Piece;
use crate::session::{Direction, Done, Flow, OpenTrail, Pulse, Request, Session};
use change::Timestamp;
use trail::format::bytes::julian_micros;
use trail::format::header;
use trail::format::record::{self, Envelope, Object, RecordHeader, RecordView, operation, transaction};
use trail::format::token::{self, PREFIX_BYTES};
use trail::storage::File;

/// Bytes that are written at once.
const WRITE_BYTES: usize = 256 * 1024;

/// What SAVE was asked for.
struct Wish {
    file: String,
    replaces: bool,
    records: Option<u64>,
    bytes: Option<u64>,
    comments: bool,
    transaction: Option<u8>,
}

/// SAVE.
pub fn save(session: &mut Session, request: &mut Request<'_, '_>) -> Done {
    let wish = wish(session, request)?;
    let (directory, name) = session.place(&wish.file)?;
    let directory = session.hands.absolute(&directory);
    let target = session.hands.directory(&directory);
    let open = session.opened()?.path();
    if session.hands.is_same(&open, &directory.join(&name)) {
        return Err(Error::refused("a file can't be saved into itself"));
    }
    let shown = directory.join(&name).display().to_string();
    let failed = |action: &'static str| {
        let shown = shown.clone();
        move |source| Error::file(action, shown.clone(), source)
    };
    if wish.replaces
        && let Err(error) = target.remove(&name)
        && error.kind() != std::io::ErrorKind::NotFound
    {
        return Err(failed("replace")(error));
    }
    let file = target.create(&name).map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => Error::refused(format!("{shown} exists: SAVE file ! replaces it")),
        _ => failed("create")(error),
    })?;
    let mut saver = Saver { file, shown: shown.clone(), buffer: Vec::new(), written: 0 };
    let records = session.save_records(&wish, &mut saver)?;
    saver.finish()?;
    target.sync_directory().map_err(failed("sync"))?;
    request.output.line(format_args!("Saved {records} records, {} bytes, to {shown}", saver.written));
    Ok(Flow::Go)
}

fn wish(session: &Session, request: &mut Request<'_, '_>) -> Result<Wish, Error> {
    let file = request.words.next_word().ok_or_else(|| Error::refused("SAVE needs a file"))?;
    let (file, mut replaces) = file.strip_suffix('!').map_or((file.clone(), false), |file| (file.to_owned(), true));
    let comments = session.settings.save_comment;
    let mut wish = Wish { file, replaces: false, records: None, bytes: None, comments, transaction: None };
    while let Some(word) = request.words.next_word() {
        match word.to_ascii_uppercase().as_str() {
            "!" | "TRUNCATE" => replaces = true,
            "COMMENT" => wish.comments = true,
            "NOCOMMENT" => wish.comments = false,
            "NEWFORMAT" => {}
            "TRANSIND" => {
                let place = request.words.next_word().unwrap_or_default();
                wish.transaction = Some(match place.to_ascii_uppercase().as_str() {
                    "FIRST" => transaction::FIRST,
                    "MIDDLE" => transaction::MIDDLE,
                    "END" => transaction::LAST,
                    "ONLY" => transaction::ONLY,
                    _ => return Err(Error::refused("TRANSIND is FIRST, MIDDLE, END or ONLY")),
                });
            }
            "OLDFORMAT" => return Err(Error::refused("files from before release 6.0 are not written")),
            "EXT" | "MEGABYTES" => return Err(Error::refused(format!("{word} is for files of NonStop"))),
            "COMMITTS" => return Err(Error::refused("COMMITTS is not done: a commit keeps the time that it had")),
            _ => {
                let number: u64 = word.replace(',', "").parse().map_err(|_| unknown(request, &word))?;
                match request.words.next_word().map(|word| word.to_ascii_uppercase()).as_deref() {
                    Some("RECORDS" | "RECORD" | "RECS") => wish.records = Some(number),
                    Some("BYTES") => wish.bytes = Some(number),
                    _ => return Err(Error::refused(format!("{number} what: RECORDS or BYTES?"))),
                }
            }
        }
    }
    if wish.records.is_none() && wish.bytes.is_none() {
        return Err(Error::refused("SAVE needs to know how much: n RECORDS, or n BYTES"));
    }
    wish.replaces = replaces;
    Ok(wish)
}

/// The file that is written.
struct Saver {
    file: Box<dyn File>,
    shown: String,
    buffer: Vec<u8>,
    written: u64,
}

impl Saver {
    fn put(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= WRITE_BYTES { self.write() } else { Ok(()) }
    }

    fn write(&mut self) -> Result<(), Error> {
        let written = self.file.write_at(&self.buffer, self.written);
        written.map_err(|source| Error::file("write", self.shown.clone(), source))?;
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    fn finish(&mut self) -> Result<(), Error> {
        self.write()?;
        self.file.sync().map_err(|source| Error::file("sync", self.shown.clone(), source))
    }
}

impl Session {
    /// Saves from the position on; returns how many records.
    fn save_records(&mut self, wish: &Wish, saver: &mut Saver) -> Result<u64, Error> {
        let now = self.hands.now();
        let hands = &*self.hands;
        let filters = &self.filters;
        let mut pulse = Pulse::new(self.settings.notify, self.settings.scrolling);
        let trail = self.trail.as_mut().ok_or_else(|| Error::refused("no file is open: OPEN file"))?;
        trail.length()?;
        let comments = wish.comments && trail.file.header().is_none_or(|header| header.key.is_none());
        // Definitions in front of the position come along by themselves.
        let start = trail.next;
        trail.direction = Direction::Forward;
        copy_head(trail, hands, start, saver)?;
        if comments {
            let text = format!("Saved from {} at RBA {start}", trail.name);
            saver.put(&comment(trail, now, &text))?;
        }
        let (mut records, mut bytes, mut defined) = (0, 0, start);
        while wish.records.is_none_or(|max| records < max) && wish.bytes.is_none_or(|max| bytes < max) {
            match advance(trail, hands, filters, &mut pulse)? {
                Step::End => break,
                Step::Damaged { .. } => {}
                Step::Record => {
                    let rba = trail.current.unwrap_or(0);
                    // Definitions that do not pass the filters are needed all the same.
                    copy_definitions(trail, hands, defined, rba, saver)?;
                    defined = trail.next;
                    if rba == 0 && trail.file.header().is_some() {
                        continue;
                    }
                    let record = with_place(trail, rba, wish.transaction)?;
                    bytes += record.len() as u64;
                    saver.put(&record)?;
                    records += 1;
                }
            }
        }
        if comments {
            let text = format!("{records} records saved from {}", trail.name);
            saver.put(&comment(trail, now, &text))?;
        }
        Ok(records)
    }
}

/// The file header and the definitions in front of byte `end`.
fn copy_head(
    trail: &mut OpenTrail,
    hands: &dyn crate::session::Hands,
    end: u64,
    saver: &mut Saver,
) -> Result<(), Error> {
    if trail.file.header().is_some() {
        let order = trail.file.order();
        let mut record = copy_of(trail, 0)?;
        // What is known of the whole file is not true of a part; another product's header is left as it is.
        _ = header::reopen(&mut record, order);
        saver.put(&record)?;
    }
    copy_definitions(trail, hands, 0, end, saver)
}

fn copy_definitions(
    trail: &mut OpenTrail,
    hands: &dyn crate::session::Hands,
    from: u64,
    end: u64,
    saver: &mut Saver,
) -> Result<(), Error> {
    let mut rba = from;
    while rba < end {
        match trail.piece(rba, hands)? {
            Piece::End => break,
            Piece::Damaged { bytes, .. } => rba += bytes,
            Piece::Record(bytes) => {
                let is_definition =
                    trail.file.look(rba, false, |record, _, _| crate::definitions::Definitions::concern(record.view));
                if is_definition.map_err(|source| trail.failed(source))? == Some(true) {
                    let record = copy_of(trail, rba)?;
                    saver.put(&record)?;
                }
                rba += bytes;
            }
        }
    }
    Ok(())
}

fn copy_of(trail: &mut OpenTrail, rba: u64) -> Result<Vec<u8>, Error> {
    match trail.file.walker().record(rba) {
        Ok(record) => Ok(record.to_vec()),
        Err(crate::walk::Trouble::Io(source)) => Err(trail.failed(source)),
        Err(crate::walk::Trouble::Damage(damage)) => Err(Error::refused(format!("RBA {rba}: {damage}"))),
    }
}

/// The record, in another place of its transaction if one is given.
fn with_place(trail: &mut OpenTrail, rba: u64, place: Option<u8>) -> Result<Vec<u8>, Error> {
    let order = trail.file.order();
    let bytes = copy_of(trail, rba)?;
    let Some(place) = place else { return Ok(bytes) };
    let Ok(view) = RecordView::read(&bytes, order) else { return Ok(bytes) };
    if view.place.is_some() {
        return Err(Error::refused(
            "a record of an encrypted file is authenticated with its place: TRANSIND can't be set",
        ));
    }
    let has_checksum = view.has_checksum();
    let tokens = match has_checksum {
        true => view.tokens.get(..view.tokens.len().saturating_sub(PREFIX_BYTES + 4)).unwrap_or_default(),
        false => view.tokens,
    };
    let envelope = Envelope { object: view.object, tokens, user: view.user_tokens, has_checksum };
    let header = RecordHeader { transaction: place, ..view.header };
    let mut record = Vec::with_capacity(bytes.len());
    record::put(&mut record, order, &header, &envelope, |buffer| buffer.extend_from_slice(view.data));
    if has_checksum {
        record::seal(&mut record, order, place, envelope.user_length());
    }
    keep_flags(&mut record, &bytes);
    Ok(record)
}

/// A remark in the file's byte order, with a checksum where the file's other records have one.
fn comment(trail: &OpenTrail, now: Timestamp, text: &str) -> Vec<u8> {
    let order = trail.file.order();
    let is_ours = trail.file.header().is_some_and(|header| header.form.is_some());
    let mut header = RecordHeader::new(operation::COMMENT, 0, julian_micros(now));
    header.data_length = u16::try_from(text.len()).unwrap_or(0);
    let envelope = Envelope { object: Object::Name(b""), tokens: &[], user: &[], has_checksum: is_ours };
    let mut record = Vec::new();
    record::put(&mut record, order, &header, &envelope, |buffer| buffer.extend_from_slice(text.as_bytes()));
    if is_ours {
        record::seal(&mut record, order, transaction::ONLY, 0);
    }
    record
}

/// Old files are little-endian without saying so: their records keep the flags that they had.
fn keep_flags(record: &mut [u8], original: &[u8]) {
    let flag = original.get(1).copied().unwrap_or(token::LITTLE_ENDIAN);
    let trailer = record.len().saturating_sub(3);
    for place in [1, trailer] {
        if let Some(byte) = record.get_mut(place) {
            *byte = flag;
        }
    }
}

/// SAVEFILECOMMENT.
pub fn save_file_comment(session: &mut Session, request: &mut Request<'_, '_>) -> Done {
    match request.words.next_word() {
        None => {}
        Some(word) if word.eq_ignore_ascii_case("ON") => session.settings.save_comment = true,
        Some(word) if word.eq_ignore_ascii_case("OFF") => session.settings.save_comment = false,
        Some(word) => return Err(unknown(request, &word)),
    }
    at_end(request)?;
    let state = if session.settings.save_comment { "ON" } else { "OFF" };
    request.output.line(format_args!("SAVEFILECOMMENT is {state}"));
    Ok(Flow::Go)
}
