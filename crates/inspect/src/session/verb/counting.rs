//! COUNT, and which transactions it lists.

use super::{at_end, number_or, unknown};
use crate::error::Error;
use crate::filter::wildcard_matches;
use crate::open_file::Piece;
use crate::session::{Done, Flow, OpenTrail, Pulse, Request, Session};
use crate::statistics::{Count, Question};

/// Most transactions that are listed.
const TRANSACTIONS_MAX: u64 = 200;

const MINUTE_MICROS: i64 = 60_000_000;

/// COUNT.
pub fn count(session: &mut Session, request: &mut Request<'_, '_>) -> Done {
    let (question, log) = question(session, request)?;
    let mut count = Count::new(question);
    let names = match &log {
        None => {
            let trail = session.opened()?;
            let from = trail.next;
            if from > 0 {
                request.output.line(format_args!("Counting from RBA {from}"));
            }
            session.count_file(from, &mut count)?;
            session.opened()?.path().display().to_string()
        }
        Some(pattern) => {
            session.count_files(pattern, &mut count)?;
            pattern.clone()
        }
    };
    request.output.line(format_args!("LogTrail {names} has {} records", count.total().records));
    let time_text = |instant| session.time_text(instant);
    request.output.text.push_str(&count.text(&time_text));
    Ok(Flow::Go)
}

fn question(session: &Session, request: &mut Request<'_, '_>) -> Result<(Question, Option<String>), Error> {
    let mut question = Question { limits: session.settings.transactions, ..Question::default() };
    let mut log = None;
    // Options stand between commas, because times hold blanks.
    let options = request.words.take_rest();
    for option in options.split(',').map(str::trim).filter(|option| !option.is_empty()) {
        let (keyword, value) = option.split_once([' ', '\t', '=']).unwrap_or((option, ""));
        let value = value.trim().trim_start_matches('=').trim();
        match keyword.to_ascii_uppercase().as_str() {
            "DETAIL" if value.is_empty() => question.by_table = true,
            "START" | "STARTTIME" => question.start = Some(session.instant(value)?),
            "END" | "ENDTIME" => question.end = Some(session.instant(value)?),
            "INT" | "INTERVAL" => {
                let minutes: i64 =
                    value.parse().ok().filter(|minutes| (1..=525_600).contains(minutes)).ok_or_else(|| {
                        Error::refused(format!("INTERVAL needs a number of minutes, {value:?} is none"))
                    })?;
                question.interval = Some(minutes * MINUTE_MICROS);
            }
            "LOG" if !value.is_empty() => log = Some(value.to_owned()),
            "FILE" if !value.is_empty() => question.table = Some(value.to_owned()),
            "DETAIL" => {
                return Err(Error::refused("options of COUNT stand between commas: COUNT, DETAIL, INTERVAL 10"));
            }
            _ => return Err(unknown(request, keyword)),
        }
    }
    Ok((question, log))
}

impl Session {
    /// Counts the open file from byte `from` on.
    fn count_file(&mut self, from: u64, count: &mut Count) -> Result<(), Error> {
        let hands = &*self.hands;
        let filters = &self.filters;
        let needs_data = filters.are_active();
        let needs_names = needs_data || count.needs_names();
        let mut pulse = Pulse::new(self.settings.notify, self.settings.scrolling);
        let trail = self.trail.as_mut().ok_or_else(|| Error::refused("no file is open: OPEN file"))?;
        let length = trail.length()?;
        let sequence = trail.file.header().map_or(0, |header| header.sequence);
        let mut rba = from;
        count.start_file();
        loop {
            pulse.beat(hands, rba, length)?;
            match trail.piece(rba, hands)? {
                Piece::End => break,
                Piece::Damaged { bytes, damage } => {
                    count.damage(rba, damage.to_string());
                    rba += bytes;
                }
                Piece::Record(bytes) => {
                    if needs_names {
                        trail.file.know_names(rba).map_err(|source| trail.failed(source))?;
                    }
                    let looked = trail.file.look(rba, needs_data, |record, _, _| {
                        if record.view.has_checksum()
                            && let Err(damage) = record.view.verify()
                        {
                            count.damage(rba, damage.to_string());
                        } else if filters.pass(record) {
                            count.add(record, sequence);
                        }
                    });
                    looked.map_err(|source| trail.failed(source))?;
                    rba += bytes;
                }
            }
        }
        pulse.end(hands, rba, length);
        Ok(())
    }

    /// Counts all files whose names fit, and leaves the open one open.
    fn count_files(&mut self, pattern: &str, count: &mut Count) -> Result<(), Error> {
        let (directory, pattern) = self.place(pattern)?;
        let directory = self.hands.absolute(&directory);
        let storage = self.hands.directory(&directory);
        let listed = storage.list();
        let mut names = listed.map_err(|source| Error::file("list", directory.display().to_string(), source))?;
        names.retain(|name| wildcard_matches(&pattern, name) && !is_beside(name));
        names.sort();
        if names.is_empty() {
            return Err(Error::refused(format!("no file in {} fits {pattern}", directory.display())));
        }
        let open = self.trail.take();
        let counted = names.iter().try_for_each(|name| {
            self.trail = Some(OpenTrail::open(storage.clone(), &directory, name, &self.given)?);
            self.count_file(0, count)
        });
        self.trail = open;
        counted
    }
}

/// Files beside a trail that are none of its own.
fn is_beside(name: &str) -> bool {
    [".safe", ".lock", ".new"].iter().any(|end| name.ends_with(end))
}

/// TRANSHIST.
pub fn transaction_history(session: &mut Session, request: &mut Request<'_, '_>) -> Done {
    let limits = &mut session.settings.transactions;
    let count = number_or(request, limits.count as u64)?;
    at_end(request)?;
    if count > TRANSACTIONS_MAX {
        return Err(Error::refused(format!("TRANSHIST lists at most {TRANSACTIONS_MAX} transactions")));
    }
    limits.count = count as usize;
    request.output.line(format_args!("Transaction history is {count}"));
    Ok(Flow::Go)
}

/// TRANSRECLIMIT.
pub fn transaction_records(session: &mut Session, request: &mut Request<'_, '_>) -> Done {
    let limits = &mut session.settings.transactions;
    limits.records = number_or(request, limits.records)?;
    at_end(request)?;
    request.output.line(format_args!("Transaction record limit is {}", limits.records));
    Ok(Flow::Go)
}

/// TRANSBYTELIMIT.
pub fn transaction_bytes(session: &mut Session, request: &mut Request<'_, '_>) -> Done {
    let limits = &mut session.settings.transactions;
    limits.bytes = number_or(request, limits.bytes)?;
    at_end(request)?;
    request.output.line(format_args!("Transaction byte limit is {}", limits.bytes));
    Ok(Flow::Go)
}
