//! The session itself: settings, log, history, help.

use super::display::zone_name;
use super::{at_end, number_or, unknown};
use crate::error::Error;
use crate::grammar;
use crate::session::output::Log;
use crate::session::{Done, Flow, Request, Session};
use std::io;
use trail::format::bytes::Order;
use trail::format::operation;
use trail::format::record::{RECORD_BYTES_MAX, detect_order};
use trail::storage::File;

/// SHOW.
pub fn show(session: &mut Session, request: &mut Request<'_, '_>) -> Done {
    let word = request.words.next_word().unwrap_or_else(|| "ENV".to_owned());
    match word.to_ascii_uppercase().as_str() {
        "ENV" => show_environment(session, request),
        "TIME" => show_time(session, request),
        "FILTER" => {
            request.output.text.push_str(&session.filters.text());
            at_end(request)
        }
        "OPEN" => {
            let path = session.opened()?.path();
            request.output.line(format_args!("Current LogTrail is {}", path.display()));
            at_end(request)
        }
        "RECTYPE" => {
            for operation in operation::ALL {
                request.output.line(format_args!("{} - {}", operation.number, operation.name));
            }
            at_end(request)
        }
        _ => Err(unknown(request, &word)),
    }
}

/// ENV.
pub fn show_environment(session: &mut Session, request: &mut Request<'_, '_>) -> Done {
    at_end(request)?;
    let on = |is_on: bool| if is_on { "On" } else { "Off" };
    let volume = session.hands.absolute(&session.directory).display().to_string();
    let mut lines = vec![("Current Volume", volume)];
    let mut data = "-".to_owned();
    match &mut session.trail {
        None => lines.push(("LogTrail", "*Not Open*".to_owned())),
        Some(trail) => {
            let length = trail.length()?;
            let path = trail.path();
            let modified = session.hands.modified(&path);
            let (next, current) = (trail.next, trail.current.unwrap_or(trail.next));
            data = match trail.file.order() {
                Order::Little => "Little Endian/ASCII".to_owned(),
                Order::Big => "Big Endian/ASCII".to_owned(),
            };
            lines.push(("LogTrail", path.display().to_string()));
            lines.push(("Trail Format", "New".to_owned()));
            lines.push(("End of File", length.to_string()));
            lines.push(("Current Position", current.to_string()));
            lines.push(("Next Position", next.to_string()));
            let modified = modified.map_or("-".to_owned(), |instant| session.time_text(instant));
            lines.push(("Last Modtime", modified));
        }
    }
    let (display, limits) = (&session.display, &session.settings.transactions);
    lines.push(("Display RecLen", display.data_bytes_max.to_string()));
    lines.push(("Logtrail Filter", on(session.filters.are_on()).to_owned()));
    lines.push(("Show Ghdr", on(display.header).to_owned()));
    lines.push(("Detail", on(display.columns != crate::layout::Depth::Off).to_owned()));
    let history = format!("{} Transactions, Records {}, Bytes {}", limits.count, limits.records, limits.bytes);
    lines.push(("Trans History", history));
    lines.push(("LargeBlock I/O", "On, Blocksize 524288".to_owned()));
    let local = if cfg!(target_endian = "little") { "Little Endian" } else { "Big Endian" };
    lines.push(("Local System", local.to_owned()));
    lines.push(("Logtrail Data", data));
    lines.push(("Logtrail Headers", characters(display.header_characters)));
    lines.push(("Dump", characters(display.dump_characters)));
    lines.push(("Timeoffset", zone_name(display.zone)));
    let scrolling = on(session.settings.scrolling);
    lines.push(("Scan Notify Interval", format!("{} records, Scrolling {scrolling}", session.settings.notify)));
    if let Some(log) = request.output.log_name() {
        lines.push(("Log File", log.to_owned()));
    }
    for (label, value) in lines {
        request.output.line(format_args!("{label:<24}: {value}"));
    }
    Ok(Flow::Go)
}

fn characters(characters: crate::hex::Characters) -> String {
    match characters {
        crate::hex::Characters::Ascii => "ASCII".to_owned(),
        crate::hex::Characters::Ebcdic => "EBCDIC".to_owned(),
    }
}

/// TIME.
pub fn show_time(session: &mut Session, request: &mut Request<'_, '_>) -> Done {
    at_end(request)?;
    let text = session.time_text(session.hands.now());
    request.output.line(format_args!("Current Time is {text}"));
    Ok(Flow::Go)
}

/// LOG.
pub fn log(session: &mut Session, request: &mut Request<'_, '_>) -> Done {
    let Some(word) = request.words.next_word() else {
        let state =
            request.output.log_name().map_or("no log is written".to_owned(), |name| format!("Log file is {name}"));
        request.output.line(state);
        return Ok(Flow::Go);
    };
    request.output.flush()?;
    if word.eq_ignore_ascii_case("STOP") {
        if request.output.log_name().is_none() {
            return Err(Error::refused("no log is written"));
        }
        request.output.set_log(None);
        request.words.take_keyword("OUT");
        return at_end(request);
    }
    let file = if word.eq_ignore_ascii_case("TO") { request.words.next_word().unwrap_or_default() } else { word };
    at_end(request)?;
    let (directory, name) = session.place(&file)?;
    let storage = session.hands.directory(&directory);
    let opened = match storage.open(&name) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => storage.create(&name),
        other => other,
    };
    if opened.as_ref().is_ok_and(|opened| is_trail(&**opened)) {
        return Err(Error::refused(format!("{file} is a file of a trail: a log is not written into it")));
    }
    let log = opened.and_then(|opened| Log::new(opened, file.clone()));
    request.output.set_log(Some(log.map_err(|source| Error::file("open", file.clone(), source))?));
    request.output.line(format_args!("Log file is {file}"));
    Ok(Flow::Go)
}

/// Whether a file begins with a whole record, as files of trails do.
fn is_trail(file: &dyn File) -> bool {
    let mut head = vec![0; RECORD_BYTES_MAX];
    file.read_at(&mut head, 0).is_ok_and(|length| detect_order(&head[..length]).is_ok())
}

/// WRITELOG.
pub fn write_log(_session: &mut Session, request: &mut Request<'_, '_>) -> Done {
    let text = format!("{}\n", request.words.take_rest());
    if request.output.write_log(&text)? { Ok(Flow::Go) } else { Err(Error::refused("no log is written: LOG file")) }
}

/// OBEY.
pub fn obey(session: &mut Session, request: &mut Request<'_, '_>) -> Done {
    let file = request.words.take_rest().trim_matches(['"', '\'']).to_owned();
    if file.is_empty() {
        return Err(Error::refused("OBEY needs a file"));
    }
    let (directory, name) = session.place(&file)?;
    let bytes = session.hands.directory(&directory).read_whole(&name);
    let bytes = bytes.map_err(|source| Error::file("read", file.clone(), source))?;
    let text = String::from_utf8(bytes).map_err(|_| Error::refused(format!("{file} is not UTF-8")))?;
    session.obey(&text, request.output)
}

/// HISTORY.
pub fn history(session: &mut Session, request: &mut Request<'_, '_>) -> Done {
    let count = number_or(request, 10)?;
    at_end(request)?;
    let all = session.history.len();
    let first = all.saturating_sub(usize::try_from(count).unwrap_or(usize::MAX));
    for (place, line) in session.history.iter().enumerate().skip(first) {
        request.output.line(format_args!("{:>5}: {line}", place + 1));
    }
    Ok(Flow::Go)
}

/// FC.
pub fn again(session: &mut Session, request: &mut Request<'_, '_>) -> Done {
    let text = request.words.take_rest();
    let history = &session.history;
    let back = |count: usize| history.len().checked_sub(count).and_then(|place| history.get(place));
    let found = match text.parse::<i64>() {
        _ if text.is_empty() => back(1),
        Ok(number) if number < 0 => back(usize::try_from(number.unsigned_abs()).unwrap_or(usize::MAX)),
        Ok(number) => usize::try_from(number).ok().and_then(|number| history.get(number.checked_sub(1)?)),
        Err(_) => {
            let begins = |line: &&String| line.get(..text.len()).is_some_and(|head| head.eq_ignore_ascii_case(text));
            history.iter().rev().find(begins)
        }
    };
    let line = found.cloned().ok_or_else(|| Error::refused("the history has no such command: HISTORY"))?;
    request.output.line(format_args!("> {line}"));
    session.run_again(&line, request.output)
}

/// X.
pub fn run_program(session: &mut Session, request: &mut Request<'_, '_>) -> Done {
    let command = request.words.take_rest();
    if command.is_empty() {
        return Err(Error::refused("X needs a program"));
    }
    request.output.flush()?;
    session.hands.run_program(command).map_err(Error::Refused)?;
    Ok(Flow::Go)
}

/// HELP.
pub fn help(_session: &mut Session, request: &mut Request<'_, '_>) -> Done {
    let about = request.words.next_word();
    let text = grammar::help(about.as_deref()).map_err(Error::Refused)?;
    request.output.text.push_str(&text);
    Ok(Flow::Go)
}

/// EXIT.
pub fn exit(_session: &mut Session, _request: &mut Request<'_, '_>) -> Done {
    Ok(Flow::Exit)
}

/// Commands that are known and not done.
pub fn refuse(_session: &mut Session, request: &mut Request<'_, '_>) -> Done {
    let form = request.form;
    Err(Error::refused(format!("{} is not done here: {}", form.name, form.summary)))
}
