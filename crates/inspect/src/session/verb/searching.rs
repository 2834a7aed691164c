//! Looking for records.

use super::{at_end, number_or, unknown};
use crate::environment::RecordEnvironment;
use crate::error::Error;
use crate::filter::{operations, wildcard_matches};
use crate::open_file::Piece;
use crate::session::{Direction, Done, Flow, Pulse, Request, Session};
use trail::format::bytes::from_julian_micros;
use trail::format::record::{metadata_kind, operation, transaction};

impl Session {
    /// Goes forward from byte `from` to the first record that fits, and stands behind it. Returns where it starts.
    fn search(
        &mut self,
        from: u64,
        fits: &mut dyn FnMut(&RecordEnvironment<'_>) -> bool,
    ) -> Result<Option<u64>, Error> {
        let hands = &*self.hands;
        let mut pulse = Pulse::new(self.settings.notify, self.settings.scrolling);
        let trail = self.trail.as_mut().ok_or_else(|| Error::refused("no file is open: OPEN file"))?;
        let length = trail.length()?;
        let mut rba = from;
        loop {
            pulse.beat(hands, rba, length)?;
            match trail.piece(rba, hands)? {
                Piece::End => {
                    pulse.end(hands, rba, length);
                    return Ok(None);
                }
                Piece::Damaged { bytes, .. } => rba += bytes,
                Piece::Record(bytes) => {
                    let known = trail.file.know_names(rba);
                    let fitted = known.and_then(|()| trail.file.look(rba, false, |record, _, _| fits(record)));
                    if fitted.map_err(|source| trail.failed(source))? == Some(true) {
                        pulse.end(hands, rba, length);
                        (trail.current, trail.next, trail.direction) = (Some(rba), rba + bytes, Direction::Forward);
                        return Ok(Some(rba));
                    }
                    rba += bytes;
                }
            }
        }
    }

    fn search_and_show(
        &mut self,
        from: u64,
        request: &mut Request<'_, '_>,
        what: &str,
        fits: &mut dyn FnMut(&RecordEnvironment<'_>) -> bool,
    ) -> Done {
        match self.search(from, fits)? {
            Some(rba) => self.show_at(rba, request.output).map(|()| Flow::Go),
            None => Err(Error::refused(format!("{what} does not come any more in this file"))),
        }
    }
}

/// SCANFORHEADER.
pub fn scan_for_header(session: &mut Session, request: &mut Request<'_, '_>) -> Done {
    let is_back = match request.words.next_word() {
        None => false,
        Some(word) if word.to_ascii_uppercase().starts_with("PREV") => true,
        Some(word) => return Err(unknown(request, &word)),
    };
    at_end(request)?;
    let hands = &*session.hands;
    let trail = session.trail.as_mut().ok_or_else(|| Error::refused("no file is open: OPEN file"))?;
    trail.length()?;
    let from = if is_back { trail.current.unwrap_or(trail.next) } else { trail.next };
    let mut stop = |_| hands.is_interrupted();
    let found = match is_back {
        // Neighbouring records are found by their trailers, so that what looks like a record inside one is not taken for one.
        true => match trail.file.walker().before(from) {
            Ok(start) => Ok(start),
            Err(_) => trail.file.walker().last_before(from, &mut stop),
        },
        false => match trail.file.walker().record(from) {
            Ok(_) => Ok(Some(from)),
            Err(_) => trail.file.walker().first_from(from, &mut stop),
        },
    };
    if hands.is_interrupted() {
        return Err(Error::Interrupted);
    }
    let Some(rba) = found.map_err(|source| trail.failed(source))? else {
        let side = if is_back { "before" } else { "from" };
        return Err(Error::refused(format!("no record starts {side} RBA {from}")));
    };
    let length = match trail.piece(rba, hands)? {
        Piece::Record(bytes) => bytes,
        _ => 0,
    };
    (trail.current, trail.next, trail.direction) = (Some(rba), rba + length, Direction::Forward);
    session.show_at(rba, request.output)?;
    Ok(Flow::Go)
}

/// The wildcard behind the comma of a search, if there is one.
fn table(request: &mut Request<'_, '_>) -> Result<Option<String>, Error> {
    let table = request.words.next_word();
    at_end(request)?;
    Ok(table)
}

fn fits_table(record: &RecordEnvironment<'_>, table: Option<&str>) -> bool {
    table.is_none_or(|table| wildcard_matches(table, &record.table_name()))
}

/// SCANFORTYPE.
pub fn scan_for_type(session: &mut Session, request: &mut Request<'_, '_>) -> Done {
    let word = request.words.next_word().ok_or_else(|| Error::refused("SCANFORTYPE needs a type: SHOW RECTYPE"))?;
    let numbers = operations(std::slice::from_ref(&word)).map_err(Error::Refused)?;
    let table = table(request)?;
    let from = session.opened()?.next;
    let mut fits = |record: &RecordEnvironment<'_>| {
        numbers.contains(&record.view.header.operation) && fits_table(record, table.as_deref())
    };
    session.search_and_show(from, request, &word, &mut fits)
}

/// SCANFORRBA.
pub fn scan_for_rba(session: &mut Session, request: &mut Request<'_, '_>) -> Done {
    if request.words.is_empty() {
        return Err(Error::refused("SCANFORRBA needs an AuditRBA"));
    }
    let rba = number_or(request, 0)?;
    let table = table(request)?;
    let from = session.opened()?.next;
    let mut fits = |record: &RecordEnvironment<'_>| {
        let header = &record.view.header;
        let is_numbered = header.operation != operation::METADATA;
        is_numbered && u64::from(header.audit_offset) == rba && fits_table(record, table.as_deref())
    };
    session.search_and_show(from, request, &format!("AuditRBA {rba}"), &mut fits)
}

/// SCANFORTIME.
pub fn scan_for_time(session: &mut Session, request: &mut Request<'_, '_>) -> Done {
    let text = request.words.take_rest();
    let (time, table) = text.split_once(',').map_or((text, None), |(time, table)| (time, Some(table.trim())));
    let instant = session.instant(time)?;
    let from = session.opened()?.next;
    let mut fits = |record: &RecordEnvironment<'_>| {
        from_julian_micros(record.view.header.time) >= instant && fits_table(record, table)
    };
    session.search_and_show(from, request, &format!("a record from {instant} UTC on"), &mut fits)
}

/// SCANFORENDTRANS.
pub fn scan_for_end(session: &mut Session, request: &mut Request<'_, '_>) -> Done {
    at_end(request)?;
    let from = session.opened()?.next;
    let mut fits = |record: &RecordEnvironment<'_>| {
        let ends = matches!(record.view.header.transaction, transaction::LAST | transaction::ONLY);
        ends && record.view.header.operation != operation::METADATA
    };
    let Some(rba) = session.search(from, &mut fits)? else {
        return Err(Error::refused("the transaction does not end in this file: NEXTTRAIL"));
    };
    let next = session.opened()?.next;
    request.output.line(format_args!("End of Transaction found at RBA {rba}, the next record stands at RBA {next}"));
    Ok(Flow::Go)
}

/// SCANFORNEXTTRANS.
pub fn scan_for_next_transaction(session: &mut Session, request: &mut Request<'_, '_>) -> Done {
    at_end(request)?;
    let from = session.opened()?.next;
    let mut fits = |record: &RecordEnvironment<'_>| {
        let starts = matches!(record.view.header.transaction, transaction::FIRST | transaction::ONLY);
        starts && record.view.header.operation != operation::METADATA
    };
    session.search_and_show(from, request, "the start of a transaction", &mut fits)
}

/// SCANFORMETADATA.
pub fn scan_for_metadata(session: &mut Session, request: &mut Request<'_, '_>) -> Done {
    let kind = match (request.words.take_keyword("DDR"), request.words.take_keyword("TDR")) {
        (true, _) => Some(metadata_kind::DATABASE),
        (_, true) => Some(metadata_kind::TABLE),
        _ => None,
    };
    let index = match request.words.next_word() {
        None => None,
        Some(word) if word.eq_ignore_ascii_case("NEXT") => None,
        Some(word) => Some(word.parse::<u16>().map_err(|_| unknown(request, &word))?),
    };
    at_end(request)?;
    let is_kind = |origin: u8| match kind {
        None => true,
        Some(metadata_kind::DATABASE) => origin == metadata_kind::DATABASE,
        Some(_) => matches!(origin, metadata_kind::TABLE | metadata_kind::TABLE_REFERENCE),
    };
    let mut last_table = 0;
    let mut fits = |record: &RecordEnvironment<'_>| {
        let header = &record.view.header;
        if header.operation != operation::METADATA {
            return false;
        }
        let (first, second) = header.indexes(record.order);
        // A reference names the table that it is like; its own number is the next one.
        let number = match header.origin {
            metadata_kind::DATABASE => first,
            metadata_kind::TABLE => {
                last_table = second;
                second
            }
            metadata_kind::TABLE_REFERENCE => {
                last_table += 1;
                last_table
            }
            _ => second,
        };
        is_kind(header.origin) && index.is_none_or(|index| index == number)
    };
    let from = if index.is_some() { 0 } else { session.opened()?.next };
    session.search_and_show(from, request, "such a definition", &mut fits)
}

/// SCANSCROLLING.
pub fn scan_scrolling(session: &mut Session, request: &mut Request<'_, '_>) -> Done {
    match request.words.next_word() {
        None => {}
        Some(word) if word.eq_ignore_ascii_case("ON") => session.settings.scrolling = true,
        Some(word) if word.eq_ignore_ascii_case("OFF") => session.settings.scrolling = false,
        Some(word) => return Err(unknown(request, &word)),
    }
    at_end(request)?;
    request.output.line(format_args!("SCANSCROLLING is {}", if session.settings.scrolling { "ON" } else { "OFF" }));
    Ok(Flow::Go)
}

/// NOTIFY.
pub fn notify(session: &mut Session, request: &mut Request<'_, '_>) -> Done {
    session.settings.notify = number_or(request, session.settings.notify)?.max(1);
    at_end(request)?;
    request.output.line(format_args!("Scan Notify Interval is {} records", session.settings.notify));
    Ok(Flow::Go)
}
