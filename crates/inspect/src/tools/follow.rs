//! `drover trail show --follow`: what is written from now on, as soon as it is safe.

use super::files::{TrailFiles, Work};
use super::select::Selection;
use super::show::{Look, Painter};
use crate::error::Error;
use std::time::Duration;
use trail::{Position, Reader, Record, Start};

/// How long one wait lasts before it is asked whether to go on.
const WAIT: Duration = Duration::from_millis(200);

/// From where on a trail is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Follow {
    /// From its first file.
    FromBeginning,
    /// Only what comes from now on.
    FromEnd,
}

/// Shows changes as they come, until `is_over` says so.
///
/// # Errors
/// [`Error`].
pub fn follow(
    files: &TrailFiles,
    from: Follow,
    selection: &mut Selection,
    look: Look,
    work: &mut Work<'_>,
    is_over: &dyn Fn() -> bool,
) -> Result<(), Error> {
    let trail =
        files.trail.ok_or_else(|| Error::refused("only a whole trail is followed: name it by its two characters"))?;
    if selection.asks_environment() {
        return Err(Error::refused("tests of @GETENV look at records in files: leave --where out, or --follow"));
    }
    let (definitions, keys) = (&work.given.definitions, work.given.keys.clone());
    let mut reader = Reader::open_with(files.storage.clone(), trail, Start::Beginning, definitions, keys)?;
    // What stands in front of the end is read all the same: it defines the tables, and says whether a transaction is open.
    let end = match from {
        Follow::FromBeginning => Position::default(),
        Follow::FromEnd => files.published.unwrap_or_default(),
    };
    let mut painter = Painter::new(look);
    while !is_over() {
        match reader.next()? {
            Some(entry) => {
                if let Record::Header(header) = &entry.record {
                    selection.start_file(header);
                }
                let is_wanted =
                    selection.holds(&entry.record).unwrap_or(matches!(entry.record, Record::Restart { .. }));
                if is_wanted && entry.position >= end {
                    let text = painter.text(&entry);
                    work.print(&text)?;
                }
            }
            None => {
                work.output.flush().map_err(Error::Print)?;
                reader.wait(WAIT)?;
            }
        }
    }
    work.output.flush().map_err(Error::Print)
}
