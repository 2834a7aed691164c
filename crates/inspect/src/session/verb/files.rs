//! Opening files and going to places in them.

use super::{at_end, unknown};
use crate::error::Error;
use crate::open_file::{OpenFile, Piece};
use crate::session::{Direction, Done, Flow, OpenTrail, Pulse, Request, Session};
use std::sync::Arc;
use trail::TrailName;
use trail::definitions_file;
use trail::format::bytes::from_julian_micros;

/// OPEN.
pub fn open(session: &mut Session, request: &mut Request<'_, '_>) -> Done {
    let file = request.words.take_rest().trim_matches(['"', '\'']).to_owned();
    if file.is_empty() {
        let path = session.opened()?.path();
        request.output.line(format_args!("Current LogTrail is {}", path.display()));
        return Ok(Flow::Go);
    }
    let (directory, name) = session.place(&file)?;
    session.open(directory, &name, request)
}

impl Session {
    fn open(&mut self, directory: std::path::PathBuf, name: &str, request: &mut Request<'_, '_>) -> Done {
        let directory = self.hands.absolute(&directory);
        let storage = self.hands.directory(&directory);
        let trail = OpenTrail::open(storage, &directory, name, &self.given)?;
        request.output.line(format_args!("Current LogTrail is {}", trail.path().display()));
        self.trail = Some(trail);
        Ok(Flow::Go)
    }

    /// Opens the file again with what was given meanwhile, and stands where it stood.
    fn reopen(&mut self) -> Result<(), Error> {
        let Some(trail) = &mut self.trail else { return Ok(()) };
        let opened = trail.storage.open_read(&trail.name).and_then(|file| OpenFile::open(file, &self.given));
        trail.file = opened.map_err(|source| trail.failed(source))?;
        Ok(())
    }
}

/// NEXTTRAIL.
pub fn next_trail(session: &mut Session, request: &mut Request<'_, '_>) -> Done {
    at_end(request)?;
    let trail = session.opened()?;
    let (directory, name) = (trail.directory.clone(), trail.name.clone());
    let next = following(&name).ok_or_else(|| Error::refused(format!("{name} is no file of a trail with numbers")))?;
    let names = trail.storage.list().map_err(|source| Error::file("list", directory.display().to_string(), source))?;
    if !names.contains(&next) {
        return Err(Error::refused(format!("{next} does not exist: {name} is the trail's last file")));
    }
    session.open(directory, &next, request)
}

/// The name of the file that follows one of a trail.
pub(super) fn following(name: &str) -> Option<String> {
    let trail = TrailName::parse(name.get(..2)?).ok()?;
    let find = |trail: TrailName| {
        let sequence = trail.sequence_of(name)?;
        (sequence < trail.sequence_max()).then(|| trail.file(sequence + 1))
    };
    find(trail).or_else(|| find(trail.with_six_digits()))
}

/// POSITION.
pub fn position(session: &mut Session, request: &mut Request<'_, '_>) -> Done {
    let word = request.words.next_word();
    let trail = session.opened()?;
    let length = trail.length()?;
    let Some(word) = word else {
        let current = trail.current.map_or("-".to_owned(), |rba| rba.to_string());
        request.output.line(format_args!("Current position set to RBA {}, shown last {current}", trail.next));
        return Ok(Flow::Go);
    };
    let target = match word.to_ascii_uppercase().as_str() {
        "FIRST" => Some(0),
        "EOF" => Some(length),
        "LAST" => Some(last_record(trail, length)?),
        "FORWARD" | "FWD" => None,
        upper if upper.starts_with("REV") => {
            trail.direction = Direction::Reverse;
            request.output.line(format_args!("Reading in reverse from RBA {}", trail.next));
            return at_end(request);
        }
        _ => match word.parse::<u64>() {
            Ok(rba) if rba <= length => Some(rba),
            Ok(rba) => {
                return Err(Error::refused(format!(
                    "RBA {rba} is behind the end of the file, which has {length} bytes"
                )));
            }
            Err(_) => return Err(unknown(request, &word)),
        },
    };
    trail.direction = Direction::Forward;
    if let Some(rba) = target {
        trail.next = rba;
        trail.current = None;
    }
    request.output.line(format_args!("Reading forward from RBA {}", trail.next));
    at_end(request)
}

fn last_record(trail: &mut OpenTrail, length: u64) -> Result<u64, Error> {
    if let Ok(Some(last)) = trail.file.walker().before(length) {
        return Ok(last);
    }
    // The tail is torn, or the file is damaged there.
    let last = trail.file.walker().last_before(length, &mut |_| false);
    Ok(last.map_err(|source| trail.failed(source))?.unwrap_or(0))
}

/// BEGIN.
pub fn begin(session: &mut Session, request: &mut Request<'_, '_>) -> Done {
    let instant = session.instant(request.words.take_rest())?;
    let hands = &*session.hands;
    let mut pulse = Pulse::new(session.settings.notify, session.settings.scrolling);
    let trail = session.trail.as_mut().ok_or_else(|| Error::refused("no file is open: OPEN file"))?;
    let length = trail.length()?;
    let mut rba = 0;
    loop {
        pulse.beat(hands, rba, length)?;
        match trail.piece(rba, hands)? {
            Piece::End => break,
            Piece::Damaged { bytes, .. } => rba += bytes,
            Piece::Record(bytes) => {
                let time = trail.file.look(rba, false, |record, _, _| record.view.header.time);
                let time = time.map_err(|source| trail.failed(source))?;
                if time.is_some_and(|time| from_julian_micros(time) >= instant) {
                    pulse.end(hands, rba, length);
                    (trail.next, trail.current, trail.direction) = (rba, None, Direction::Forward);
                    request.output.line(format_args!("Reading forward from RBA {rba}"));
                    return Ok(Flow::Go);
                }
                rba += bytes;
            }
        }
    }
    pulse.end(hands, rba, length);
    Err(Error::refused(format!("the file has no record from {instant} UTC on")))
}

/// CD and VOLUME.
pub fn volume(session: &mut Session, request: &mut Request<'_, '_>) -> Done {
    let directory = request.words.take_rest().trim_matches(['"', '\'']);
    if !directory.is_empty() {
        let path = session.hands.absolute(&session.directory.join(directory));
        let listed = session.hands.directory(&path).list();
        listed.map_err(|source| Error::file("list", path.display().to_string(), source))?;
        session.directory = path;
    }
    let path = session.hands.absolute(&session.directory);
    request.output.line(format_args!("Current Volume is {}", path.display()));
    Ok(Flow::Go)
}

/// FILES.
pub fn files(session: &mut Session, request: &mut Request<'_, '_>) -> Done {
    let directory = request.words.take_rest().trim_matches(['"', '\'']);
    let path = session.hands.absolute(&session.directory.join(directory));
    let storage = session.hands.directory(&path);
    let listed = storage.list();
    let mut names = listed.map_err(|source| Error::file("list", path.display().to_string(), source))?;
    names.sort();
    for name in names {
        match storage.open_read(&name).and_then(|file| file.len()) {
            Ok(length) => request.output.line(format_args!("{name:<32} {length:>14}")),
            // A directory, or one that may not be read.
            Err(_) => request.output.line(&name),
        }
    }
    Ok(Flow::Go)
}

/// SOURCEDEFS.
pub fn source_definitions(session: &mut Session, request: &mut Request<'_, '_>) -> Done {
    let file = request.words.take_rest().trim_matches(['"', '\'']).to_owned();
    if file.is_empty() {
        return Err(Error::refused("SOURCEDEFS needs a file"));
    }
    let (directory, name) = session.place(&file)?;
    let bytes = session.hands.directory(&directory).read_whole(&name);
    let bytes = bytes.map_err(|source| Error::file("read", file.clone(), source))?;
    let text = String::from_utf8(bytes).map_err(|_| Error::refused(format!("{file} is not UTF-8")))?;
    let tables = definitions_file::read(&text).map_err(|error| Error::refused(format!("{file}: {error}")))?;
    request.output.line(format_args!("Definitions of {} tables read from {file}", tables.len()));
    session.given.definitions.extend(tables.into_iter().map(Arc::new));
    session.reopen()?;
    Ok(Flow::Go)
}

/// DECRYPT.
pub fn decrypt(session: &mut Session, request: &mut Request<'_, '_>) -> Done {
    match request.words.next_word() {
        None => {
            let state = if session.settings.decrypts { "ON" } else { "OFF" };
            request.output.line(format_args!("Decryption is {state}"));
            return Ok(Flow::Go);
        }
        Some(word) if word.eq_ignore_ascii_case("OFF") => {
            session.given.keys = None;
            session.settings.decrypts = false;
        }
        Some(word) if word.eq_ignore_ascii_case("ON") => {
            if request.words.take_keyword("KEYNAME") {
                let name = request.words.next_word().ok_or_else(|| Error::refused("KEYNAME needs a name"))?;
                let key = session.trail.as_ref().and_then(|trail| trail.file.header()?.key.clone());
                if let Some(key) = key.filter(|key| key.name != name) {
                    return Err(Error::refused(format!("the file names the master key {}, not {name}", key.name)));
                }
            }
            session.given.keys = Some(session.hands.keys().map_err(Error::Refused)?);
            session.settings.decrypts = true;
        }
        Some(word) => return Err(unknown(request, &word)),
    }
    session.reopen()?;
    at_end(request)
}
