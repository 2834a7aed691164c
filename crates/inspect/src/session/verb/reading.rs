//! Showing records.

use super::{at_end, number_or};
use crate::error::Error;
use crate::filter::Filters;
use crate::hex;
use crate::layout::{self, Display, Shown};
use crate::open_file::Piece;
use crate::session::{Direction, Done, Flow, Hands, OpenTrail, Output, Pulse, Request, Session, style_of};
use trail::format::token;

/// Most bytes that DUMP shows at once.
const DUMP_BYTES_MAX: u64 = 1024 * 1024;

/// NEXT.
pub fn next(session: &mut Session, request: &mut Request<'_, '_>) -> Done {
    let count = number_or(request, 1)?;
    at_end(request)?;
    session.opened()?.length()?;
    for _ in 0..count {
        if !session.show_next(request.output)? {
            break;
        }
        request.output.flush_if_long()?;
        if session.hands.is_interrupted() {
            return Err(Error::Interrupted);
        }
    }
    Ok(Flow::Go)
}

/// RECORD.
pub fn record(session: &mut Session, request: &mut Request<'_, '_>) -> Done {
    at_end(request)?;
    let current = session.opened()?.current;
    let current = current.ok_or_else(|| Error::refused("no record was shown yet: NEXT"))?;
    session.show_at(current, request.output)?;
    Ok(Flow::Go)
}

/// SKIP.
pub fn skip(session: &mut Session, request: &mut Request<'_, '_>) -> Done {
    let only_filtered = request.words.take_keyword("FILTER");
    let count = number_or(request, 1)?;
    let only_filtered = only_filtered || request.words.take_keyword("FILTER");
    at_end(request)?;
    let everything = Filters::default();
    let filters = if only_filtered { &session.filters } else { &everything };
    let hands = &*session.hands;
    let trail = session.trail.as_mut().ok_or_else(|| Error::refused("no file is open: OPEN file"))?;
    trail.length()?;
    let mut skipped = 0;
    while skipped < count {
        match advance(trail, hands, filters, &mut Pulse::new(session.settings.notify, session.settings.scrolling))? {
            Step::Record => skipped += 1,
            Step::Damaged { .. } => {}
            Step::End => break,
        }
    }
    request.output.line(format_args!("Skipped {skipped} records, RBA {}", trail.next));
    Ok(Flow::Go)
}

/// DUMP.
pub fn dump(session: &mut Session, request: &mut Request<'_, '_>) -> Done {
    let count = number_or(request, 0)?.min(DUMP_BYTES_MAX);
    if count == 0 {
        return Err(Error::refused("DUMP needs a number of bytes"));
    }
    at_end(request)?;
    let characters = session.display.dump_characters;
    let trail = session.opened()?;
    trail.length()?;
    let at = trail.next;
    let read = trail.file.walker().bytes(at, count as usize).map(<[u8]>::to_vec);
    let bytes = read.map_err(|source| trail.failed(source))?;
    request.output.line(format_args!("Dump of {} bytes at RBA {at}", bytes.len()));
    hex::dump(&mut request.output.text, &bytes, characters);
    trail.next += bytes.len() as u64;
    Ok(Flow::Go)
}

/// What a step through the file came upon.
pub(super) enum Step {
    /// A record that passes; the trail's `current` names it.
    Record,
    /// Bytes that are no records.
    Damaged { rba: u64, bytes: u64, what: String },
    /// The end of the file, or its start.
    End,
}

/// Goes on to the next record that passes the filters, in the direction that is set, or over damage.
pub(super) fn advance(
    trail: &mut OpenTrail,
    hands: &dyn Hands,
    filters: &Filters,
    pulse: &mut Pulse,
) -> Result<Step, Error> {
    loop {
        let length = trail.file.walker().length();
        let rba = match trail.direction {
            Direction::Forward => match trail.piece(trail.next, hands)? {
                Piece::End => {
                    pulse.end(hands, trail.next, length);
                    return Ok(Step::End);
                }
                Piece::Damaged { bytes, damage } => {
                    let rba = trail.next;
                    trail.next += bytes;
                    return Ok(Step::Damaged { rba, bytes, what: damage.to_string() });
                }
                Piece::Record(bytes) => {
                    let rba = trail.next;
                    trail.next += bytes;
                    rba
                }
            },
            Direction::Reverse => match trail.file.walker().before(trail.next) {
                Ok(None) => {
                    pulse.end(hands, 0, length);
                    return Ok(Step::End);
                }
                Ok(Some(rba)) => {
                    trail.next = rba;
                    rba
                }
                Err(_) => {
                    let end = trail.next;
                    let found = trail.file.walker().last_before(end, &mut |_| hands.is_interrupted());
                    let start = found.map_err(|source| trail.failed(source))?;
                    if hands.is_interrupted() {
                        return Err(Error::Interrupted);
                    }
                    // The record that was found is the next one; what lies behind its end is damage.
                    let behind = match start {
                        None => 0,
                        Some(start) => match trail.piece(start, hands)? {
                            Piece::Record(bytes) => start + bytes,
                            _ => start,
                        },
                    };
                    if behind > end {
                        // The position was inside that record.
                        trail.next = start.unwrap_or(0);
                        let (rba, bytes) = (trail.next, end - trail.next);
                        let what = "the position is not the end of a record".to_owned();
                        return Ok(Step::Damaged { rba, bytes, what });
                    }
                    trail.next = behind;
                    let what = "no record ends here".to_owned();
                    return Ok(Step::Damaged { rba: behind, bytes: end - behind, what });
                }
            },
        };
        pulse.beat(hands, rba, length)?;
        if passes(trail, rba, filters)? {
            pulse.end(hands, rba, length);
            trail.current = Some(rba);
            return Ok(Step::Record);
        }
    }
}

/// Whether the record at byte `rba` passes the filters. A file header passes only when there are none.
fn passes(trail: &mut OpenTrail, rba: u64, filters: &Filters) -> Result<bool, Error> {
    if !filters.are_active() {
        return Ok(true);
    }
    let known = trail.file.know_names(rba);
    let passed = known.and_then(|()| trail.file.look(rba, true, |record, _, _| filters.pass(record)));
    Ok(passed.map_err(|source| trail.failed(source))?.unwrap_or(false))
}

impl Session {
    /// Shows the next record that passes; `false` at the end.
    pub(super) fn show_next(&mut self, output: &mut Output<'_>) -> Result<bool, Error> {
        let mut pulse = Pulse::new(self.settings.notify, self.settings.scrolling);
        loop {
            let trail = self.trail.as_mut().ok_or_else(|| Error::refused("no file is open: OPEN file"))?;
            match advance(trail, &*self.hands, &self.filters, &mut pulse)? {
                Step::End => return Ok(false),
                Step::Damaged { rba, bytes, what } => {
                    output.line(format_args!("Scanned over {bytes} bytes at RBA {rba}: {what}"));
                }
                Step::Record => {
                    let rba = trail.current.unwrap_or(0);
                    self.show_at(rba, output)?;
                    return Ok(true);
                }
            }
        }
    }

    /// Shows the record at byte `rba`.
    pub(super) fn show_at(&mut self, rba: u64, output: &mut Output<'_>) -> Result<(), Error> {
        let (hands, display) = (&*self.hands, &self.display);
        let trail = self.trail.as_mut().ok_or_else(|| Error::refused("no file is open: OPEN file"))?;
        let shown = show(trail, hands, display, rba, &mut output.text);
        shown.map_err(|source| trail.failed(source))?;
        output.text.push('\n');
        Ok(())
    }
}

fn show(
    trail: &mut OpenTrail,
    hands: &dyn Hands,
    display: &Display,
    rba: u64,
    text: &mut String,
) -> std::io::Result<()> {
    let local = |instant| hands.local_offset(instant);
    let style = style_of(display, &local);
    trail.file.know_names(rba)?;
    let seen = trail.file.look(rba, true, |record, told, bytes| {
        let data = match told {
            Ok(()) => Ok(record.data.unwrap_or_default()),
            Err(reason) => Err(reason.clone()),
        };
        let shown = Shown {
            view: record.view.clone(),
            bytes,
            rba,
            order: record.order,
            data,
            user: record.user,
            header: record.header,
            definitions: record.definitions,
        };
        let before = text.len();
        layout::record(text, &shown, style);
        if record.view.has_checksum()
            && let Err(damage) = record.view.verify()
        {
            text.insert_str(before, &format!("Damaged at RBA {rba}: {damage}\n"));
        }
    })?;
    if seen.is_some() {
        return Ok(());
    }
    let order = trail.file.order();
    let bytes = match trail.file.walker().record(rba) {
        Ok(bytes) => bytes.to_vec(),
        Err(_) => Vec::new(),
    };
    if bytes.first() == Some(&token::FILE_HEADER) {
        layout::file_header(text, &bytes, order, rba, style);
        return Ok(());
    }
    // A whole frame with something else in it than a record.
    layout::header_tokens(text, &bytes, order, style);
    text.push_str(&format!("Record of {} bytes at RBA {rba}, not understood\n", bytes.len()));
    hex::dump(text, bytes.get(..display.data_bytes_max).unwrap_or(&bytes), display.data_characters);
    Ok(())
}
