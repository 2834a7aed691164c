//! What each command does.

mod counting;
mod display;
mod files;
mod filtering;
mod numbers;
mod reading;
mod saving;
mod searching;
mod talking;

pub use counting::{count, transaction_bytes, transaction_history, transaction_records};
pub use display::{
    ascii_data, ascii_dump, ascii_header, column_data, detail, ebcdic_data, ebcdic_dump, ebcdic_header, file_header,
    ggs_token, ghdr, header_token, metadata, record_length, time_offset, user_token,
};
pub use files::{begin, decrypt, files, next_trail, open, position, source_definitions, volume};
pub use filtering::filter;
pub use numbers::{c_time, compute_time_stamp, float, interpret_interval, interpret_time_stamp};
pub use reading::{dump, next, record, skip};
pub use saving::{save, save_file_comment};
pub use searching::{
    notify, scan_for_end, scan_for_header, scan_for_metadata, scan_for_next_transaction, scan_for_rba, scan_for_time,
    scan_for_type, scan_scrolling,
};
pub use talking::{
    again, exit, help, history, log, obey, refuse, run_program, show, show_environment, show_time, write_log,
};

use super::{Flow, Request, Session};
use crate::error::Error;
use crate::session::OpenTrail;

/// The number that comes next, or `default` at the end of the command.
fn number_or(request: &mut Request<'_, '_>, default: u64) -> Result<u64, Error> {
    match request.words.next_word() {
        None => Ok(default),
        Some(word) => {
            let wrong = || Error::refused(format!("{} needs a number, {word} is none", request.form.name));
            word.replace(',', "").parse().map_err(|_| wrong())
        }
    }
}

fn at_end(request: &mut Request<'_, '_>) -> Result<Flow, Error> {
    match request.words.next_word() {
        None => Ok(Flow::Go),
        Some(word) => Err(Error::refused(format!(
            "{} does not know {word}: {} {}",
            request.form.name, request.form.name, request.form.usage
        ))),
    }
}

fn unknown(request: &Request<'_, '_>, word: &str) -> Error {
    let hint = parameter::nearest(word, request.form.words.iter().copied());
    let hint = hint.map(|hint| format!(", did you mean {hint}?")).unwrap_or_default();
    let form = request.form;
    Error::refused(format!("{} does not know {word}{hint}: {} {}", form.name, form.name, form.usage))
}

impl Session {
    fn opened(&mut self) -> Result<&mut OpenTrail, Error> {
        self.trail.as_mut().ok_or_else(|| Error::refused("no file is open: OPEN file"))
    }
}
