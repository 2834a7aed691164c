//! FILTER.

use super::{at_end, unknown};
use crate::error::Error;
use crate::filter::{self, Match};
use crate::session::{Done, Flow, Request, Session};

/// FILTER.
pub fn filter(session: &mut Session, request: &mut Request<'_, '_>) -> Done {
    let words = &mut request.words;
    if words.is_empty() {
        return show(session, request);
    }
    let take_any =
        |words: &mut crate::words::Words<'_>, names: &[&str]| names.iter().any(|name| words.take_keyword(name));
    let is_included = take_any(words, &["INCLUDE", "INC", "INCL"]);
    let excludes = !is_included && take_any(words, &["EXCLUDE", "EXC", "EXCL"]);
    if words.take_keyword("MATCH") {
        let how = match words.next_word().map(|word| word.to_ascii_uppercase()).as_deref() {
            Some("ANY") => Match::Any,
            Some("ALL") => Match::All,
            _ => return Err(Error::refused("MATCH needs ANY or ALL")),
        };
        session.filters.set_match(excludes, how);
        return at_end(request);
    }
    if !is_included && !excludes {
        if take_any(words, &["ON", "ENABLE"]) {
            session.filters.switch(true);
            return at_end(request);
        }
        if take_any(words, &["OFF", "DISABLE"]) {
            session.filters.switch(false);
            return at_end(request);
        }
        if words.take_keyword("SHOW") {
            return show(session, request);
        }
        if words.take_keyword("CLEAR") {
            let word = words.next_word().unwrap_or_else(|| "ALL".to_owned());
            let number = match word.parse() {
                Ok(number) => Some(number),
                Err(_) if word.eq_ignore_ascii_case("ALL") => None,
                Err(_) => return Err(unknown(request, &word)),
            };
            if !session.filters.clear(number) {
                return Err(Error::refused(format!("there is no filter {word}: FILTER SHOW")));
            }
            return at_end(request);
        }
    }
    let hands = &*session.hands;
    let local = |instant| hands.local_offset(instant);
    let clock = filter::Clock { zone: session.display.zone, now: hands.now(), local: &local };
    let criterion = filter::criterion(words, &clock).map_err(Error::Refused)?;
    session.filters.add(excludes, criterion);
    Ok(Flow::Go)
}

fn show(session: &mut Session, request: &mut Request<'_, '_>) -> Done {
    at_end(request)?;
    request.output.text.push_str(&session.filters.text());
    Ok(Flow::Go)
}
