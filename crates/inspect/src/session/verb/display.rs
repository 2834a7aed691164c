//! Settings of what is shown.

use super::{at_end, unknown};
use crate::error::Error;
use crate::hex::Characters;
use crate::layout::{Depth, MetadataFormat};
use crate::session::{Done, Flow, Request, Session};
use crate::time::Zone;

/// Sets or shows a setting of two or three values.
fn set_depth(request: &mut Request<'_, '_>, depth: &mut Depth, what: &str, deepest: Option<&str>) -> Done {
    match request.words.next_word().map(|word| word.to_ascii_uppercase()).as_deref() {
        None => {}
        Some("ON") => *depth = Depth::On,
        Some("OFF") => *depth = Depth::Off,
        Some(word) if Some(word) == deepest => *depth = Depth::Detail,
        Some(word) => return Err(unknown(request, word)),
    }
    let name = if *depth == Depth::Detail { deepest.unwrap_or("DETAIL") } else { depth.name() };
    at_end(request)?;
    request.output.line(format_args!("{what} is {name}"));
    Ok(Flow::Go)
}

/// GHDR.
pub fn ghdr(session: &mut Session, request: &mut Request<'_, '_>) -> Done {
    let mut depth = if session.display.header { Depth::On } else { Depth::Off };
    let done = set_depth(request, &mut depth, "GHDR", None);
    session.display.header = depth != Depth::Off;
    done
}

/// DETAIL.
pub fn detail(session: &mut Session, request: &mut Request<'_, '_>) -> Done {
    set_depth(request, &mut session.display.columns, "DETAIL", Some("DATA"))
}

/// COLUMNDATA.
pub fn column_data(session: &mut Session, request: &mut Request<'_, '_>) -> Done {
    let mut depth = if session.display.columns == Depth::Detail { Depth::On } else { Depth::Off };
    let done = set_depth(request, &mut depth, "COLUMNDATA", None);
    if done.is_ok() {
        session.display.columns = match (depth, session.display.columns) {
            (Depth::Off, Depth::Detail) => Depth::On,
            (Depth::Off, columns) => columns,
            _ => Depth::Detail,
        };
    }
    done
}

/// FILEHEADER.
pub fn file_header(session: &mut Session, request: &mut Request<'_, '_>) -> Done {
    set_depth(request, &mut session.display.file_header, "FILEHEADER", Some("DETAIL"))
}

/// HEADERTOKEN.
pub fn header_token(session: &mut Session, request: &mut Request<'_, '_>) -> Done {
    set_depth(request, &mut session.display.header_tokens, "HEADERTOKEN", Some("DETAIL"))
}

/// GGSTOKEN.
pub fn ggs_token(session: &mut Session, request: &mut Request<'_, '_>) -> Done {
    set_depth(request, &mut session.display.tokens, "GGSTOKEN", Some("DETAIL"))
}

/// USERTOKEN.
pub fn user_token(session: &mut Session, request: &mut Request<'_, '_>) -> Done {
    set_depth(request, &mut session.display.user_tokens, "USERTOKEN", Some("DETAIL"))
}

/// METADATA.
pub fn metadata(session: &mut Session, request: &mut Request<'_, '_>) -> Done {
    use MetadataFormat::{Ddl, Defgen, Detail, Sql};
    if let Some(word) = request.words.next_word() {
        let upper = word.to_ascii_uppercase();
        let found = [Detail, Defgen, Sql, Ddl].into_iter().find(|format| format.name() == upper);
        session.display.metadata = found.ok_or_else(|| unknown(request, &word))?;
    }
    at_end(request)?;
    request.output.line(format_args!("METADATA is {}", session.display.metadata.name()));
    Ok(Flow::Go)
}

/// RECLEN.
pub fn record_length(session: &mut Session, request: &mut Request<'_, '_>) -> Done {
    if let Some(word) = request.words.next_word() {
        let number = word.replace(',', "").parse();
        session.display.data_bytes_max = number.map_err(|_| Error::refused(format!("{word} is no number of bytes")))?;
    }
    at_end(request)?;
    request.output.line(format_args!("Reclen set to {}", session.display.data_bytes_max));
    Ok(Flow::Go)
}

/// TIMEOFFSET.
pub fn time_offset(session: &mut Session, request: &mut Request<'_, '_>) -> Done {
    let text = request.words.take_rest();
    if !text.is_empty() {
        let zone = Zone::parse(text);
        session.display.zone =
            zone.ok_or_else(|| Error::refused(format!("{text:?} is no time zone: LOCAL, GMT, or GMT +/-hh[:mm]")))?;
    }
    request.output.line(format_args!("Time offset set to {}", zone_name(session.display.zone)));
    Ok(Flow::Go)
}

/// The zone as TIMEOFFSET takes it.
pub(super) fn zone_name(zone: Zone) -> String {
    match zone {
        Zone::Local => "LOCAL".to_owned(),
        Zone::Fixed(0) => "GMT".to_owned(),
        Zone::Fixed(seconds) => {
            let sign = if seconds < 0 { '-' } else { '+' };
            let minutes = seconds.abs() / 60;
            format!("GMT {sign}{:02}:{:02}", minutes / 60, minutes % 60)
        }
    }
}

fn set(request: &mut Request<'_, '_>, characters: &mut Characters, value: Characters) -> Done {
    *characters = value;
    at_end(request)
}

/// ASCIIDATA.
pub fn ascii_data(session: &mut Session, request: &mut Request<'_, '_>) -> Done {
    set(request, &mut session.display.data_characters, Characters::Ascii)
}

/// EBCDICDATA.
pub fn ebcdic_data(session: &mut Session, request: &mut Request<'_, '_>) -> Done {
    set(request, &mut session.display.data_characters, Characters::Ebcdic)
}

/// ASCIIHEADER.
pub fn ascii_header(session: &mut Session, request: &mut Request<'_, '_>) -> Done {
    set(request, &mut session.display.header_characters, Characters::Ascii)
}

/// EBCDICHEADER.
pub fn ebcdic_header(session: &mut Session, request: &mut Request<'_, '_>) -> Done {
    set(request, &mut session.display.header_characters, Characters::Ebcdic)
}

/// ASCIIDUMP.
pub fn ascii_dump(session: &mut Session, request: &mut Request<'_, '_>) -> Done {
    set(request, &mut session.display.dump_characters, Characters::Ascii)
}

/// EBCDICDUMP.
pub fn ebcdic_dump(session: &mut Session, request: &mut Request<'_, '_>) -> Done {
    set(request, &mut session.display.dump_characters, Characters::Ebcdic)
}
