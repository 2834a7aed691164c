//! Parameters about transactions that are open at the source: CACHEMGR, BR, WARNLONGTRANS.

use crate::cursor::{Cursor, Written};
use crate::diagnostic::Diagnostic;
use crate::file::Raw;
use crate::suggestion::nearest;
use std::ops::Range;
use std::time::Duration;

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;

/// BRINTERVAL may not be shorter.
const BR_INTERVAL_MIN: u64 = 20 * MINUTE;
/// BRINTERVAL may not be longer.
const BR_INTERVAL_MAX: u64 = 96 * HOUR;
/// CHECKINTERVAL may not be shorter, ...
const CHECK_INTERVAL_MIN: u64 = 300;
/// ... or longer.
const CHECK_INTERVAL_MAX: u64 = 20_000_000;
/// Less memory than this would spill every row.
const CACHE_BYTES_MIN: u64 = 1 << 20;

/// CACHEMGR: where open transactions wait for their commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheParameters {
    /// CACHESIZE: bytes of memory for all of them together.
    pub bytes: u64,
    /// CACHEDIRECTORY: where the rest of them lies, in place of the home's `dirtmp`.
    pub directory: Option<String>,
}

impl Default for CacheParameters {
    fn default() -> CacheParameters {
        CacheParameters { bytes: 64 << 20, directory: None }
    }
}

/// BR: Bounded Recovery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoundedParameters {
    /// Whether the file says anything of it.
    pub is_given: bool,
    /// Off with BROFF.
    pub is_on: bool,
    /// BRINTERVAL: time between BR checkpoints.
    pub interval: Duration,
    /// BRDIR: where persisted objects lie, in place of the home's `dirbr`.
    pub directory: Option<String>,
    /// BRKEEPSTALEFILES.
    pub keep_stale_files: bool,
    /// BROFFONFAILURE.
    pub off_on_failure: bool,
}

impl Default for BoundedParameters {
    fn default() -> BoundedParameters {
        BoundedParameters {
            is_given: false,
            is_on: true,
            interval: Duration::from_secs(4 * HOUR),
            directory: None,
            keep_stale_files: false,
            off_on_failure: false,
        }
    }
}

/// WARNLONGTRANS: when a transaction that stays open is worth a warning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LongParameters {
    /// Age from which on it is.
    pub after: Duration,
    /// CHECKINTERVAL: time between two looks.
    pub every: Duration,
}

impl Default for LongParameters {
    fn default() -> LongParameters {
        LongParameters { after: Duration::from_secs(HOUR), every: Duration::from_secs(5 * MINUTE) }
    }
}

pub(crate) fn read_cache(cursor: &mut Cursor<'_>, raw: &mut Raw, place: Range<usize>) -> Result<(), Diagnostic> {
    const OPTIONS: [&str; 2] = ["CACHESIZE", "CACHEDIRECTORY"];
    let mut cache = CacheParameters::default();
    let mut seen = Vec::new();
    while let Some((option, _)) = option(cursor, &mut seen, "CACHEMGR", &OPTIONS)? {
        if option == "CACHESIZE" {
            let written = plain(cursor, "the size")?;
            cache.bytes = read_size(cursor, &written)?;
        } else {
            cache.directory = Some(plain(cursor, "the directory")?.value);
        }
    }
    if seen.is_empty() {
        let next_step = format!("write one of {}", OPTIONS.join(", "));
        return Err(cursor.error(place, "CACHEMGR has no option", next_step));
    }
    raw.cache = Some(cache);
    Ok(())
}

pub(crate) fn read_bounded(cursor: &mut Cursor<'_>, raw: &mut Raw, place: Range<usize>) -> Result<(), Diagnostic> {
    const OPTIONS: [&str; 6] = ["BRINTERVAL", "BRDIR", "BROFF", "BROFFONFAILURE", "BRKEEPSTALEFILES", "BRRESET"];
    let mut bounded = BoundedParameters { is_given: true, ..BoundedParameters::default() };
    let mut seen = Vec::new();
    while let Some((option, option_place)) = option(cursor, &mut seen, "BR", &OPTIONS)? {
        match option {
            "BRINTERVAL" => {
                let written = plain(cursor, "the interval")?;
                let units: [(&str, u64); 2] = [("M", MINUTE), ("H", HOUR)];
                let seconds = read_time(&written.value, &units);
                let allowed = seconds.filter(|seconds| (BR_INTERVAL_MIN..=BR_INTERVAL_MAX).contains(seconds));
                let Some(seconds) = allowed else {
                    let message = format!("`{}` is not an interval of Bounded Recovery", written.value);
                    let next_step = "write minutes or hours from 20M to 96H, such as 4H";
                    return Err(cursor.error(written.place, message, next_step));
                };
                bounded.interval = Duration::from_secs(seconds);
            }
            "BRDIR" => {
                let written = plain(cursor, "the directory")?;
                let lower = written.value.to_ascii_lowercase();
                if lower.contains("tmp") || lower.contains("temp") {
                    let message = "BRDIR names a directory that may be cleared";
                    let next_step = "name a directory without `tmp` or `temp` in its path";
                    return Err(cursor.error(written.place, message, next_step));
                }
                bounded.directory = Some(written.value);
            }
            "BROFF" => bounded.is_on = false,
            "BROFFONFAILURE" => bounded.off_on_failure = true,
            "BRKEEPSTALEFILES" => bounded.keep_stale_files = true,
            _ => {
                let message = "BRRESET is for one start only and would hold for every start here";
                let next_step = "remove it; START EXTRACT e1, BR BRRESET starts once without what was persisted";
                return Err(cursor.error(option_place, message, next_step));
            }
        }
    }
    if seen.is_empty() {
        let next_step = "write BRINTERVAL, BRDIR, BROFF, BROFFONFAILURE or BRKEEPSTALEFILES";
        return Err(cursor.error(place, "BR has no option", next_step));
    }
    if !bounded.is_on && seen.len() > 1 {
        return Err(cursor.error(place, "with BROFF the other options of BR have no effect", "remove them, or BROFF"));
    }
    raw.bounded = Some(bounded);
    Ok(())
}

pub(crate) fn read_long(cursor: &mut Cursor<'_>, raw: &mut Raw, _: Range<usize>) -> Result<(), Diagnostic> {
    let mut long = LongParameters::default();
    let written = plain(cursor, "the age")?;
    long.after = duration(cursor, &written)?;
    let mut seen = Vec::new();
    while option(cursor, &mut seen, "WARNLONGTRANS", &["CHECKINTERVAL"])?.is_some() {
        let written = plain(cursor, "the interval")?;
        long.every = duration(cursor, &written)?;
        if !(CHECK_INTERVAL_MIN..=CHECK_INTERVAL_MAX).contains(&long.every.as_secs()) {
            let message = format!("`{}` is not an interval at which to look", written.value);
            let next_step = "write a time from 300S to 20000000S, such as 5M";
            return Err(cursor.error(written.place, message, next_step));
        }
    }
    raw.long = Some(long);
    Ok(())
}

/// A value that ends at a comma, or a literal in single quotes.
fn plain(cursor: &mut Cursor<'_>, what: &str) -> Result<Written<String>, Diagnostic> {
    if cursor.peek() == Some('\'') {
        return cursor.value(what);
    }
    match cursor.word() {
        Some(Written { value, place }) => Ok(Written { value: value.to_owned(), place }),
        None => cursor.value(what),
    }
}

/// The next option and its place, behind a comma or not; each may stand once.
fn option<'a>(
    cursor: &mut Cursor<'_>,
    seen: &mut Vec<&'a str>,
    owner: &str,
    options: &[&'a str],
) -> Result<Option<(&'a str, Range<usize>)>, Diagnostic> {
    let comma = cursor.take(',');
    let Some(word) = cursor.word() else {
        if comma {
            let next_step = "remove the comma, or write an option after it";
            return Err(cursor.error(cursor.end_place(), "an option is missing after `,`", next_step));
        }
        return Ok(None);
    };
    let Some(option) = options.iter().find(|option| option.eq_ignore_ascii_case(word.value)) else {
        let next_step = match nearest(word.value, options.iter().copied()) {
            Some(meant) => format!("did you mean {meant}?"),
            None => format!("{owner} knows {}", options.join(", ")),
        };
        return Err(cursor.error(word.place, format!("unknown option `{}`", word.value), next_step));
    };
    if seen.contains(option) {
        return Err(cursor.error(word.place, format!("{option} is given more than once"), "keep one of them"));
    }
    seen.push(option);
    Ok(Some((option, word.place)))
}

/// A number with a unit glued to it, in seconds.
fn read_time(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let end = text.find(|character: char| !character.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let (_, seconds) = units.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit))?;
    number.parse::<u64>().ok()?.checked_mul(*seconds)
}

fn duration(cursor: &Cursor<'_>, written: &Written<String>) -> Result<Duration, Diagnostic> {
    const DAY: u64 = 24 * HOUR;
    let units = [
        ("S", 1),
        ("SEC", 1),
        ("SECS", 1),
        ("SECOND", 1),
        ("SECONDS", 1),
        ("M", MINUTE),
        ("MIN", MINUTE),
        ("MINS", MINUTE),
        ("MINUTE", MINUTE),
        ("MINUTES", MINUTE),
        ("H", HOUR),
        ("HOUR", HOUR),
        ("HOURS", HOUR),
        ("D", DAY),
        ("DAY", DAY),
        ("DAYS", DAY),
    ];
    match read_time(&written.value, &units) {
        Some(seconds) if seconds > 0 => Ok(Duration::from_secs(seconds)),
        _ => {
            let message = format!("`{}` is not a time", written.value);
            Err(cursor.error(
                written.place.clone(),
                message,
                "write a number with its unit, such as 90S, 30M, 2H or 1D",
            ))
        }
    }
}

fn read_size(cursor: &Cursor<'_>, written: &Written<String>) -> Result<u64, Diagnostic> {
    let units =
        [("", 1), ("K", 1 << 10), ("KB", 1 << 10), ("M", 1 << 20), ("MB", 1 << 20), ("G", 1 << 30), ("GB", 1 << 30)];
    // What a machine of this width can address.
    let addressable = |bytes: &u64| usize::try_from(*bytes).is_ok() && *bytes >= CACHE_BYTES_MIN;
    read_time(&written.value, &units).filter(addressable).ok_or_else(|| {
        let message = format!("`{}` is not a size of the cache", written.value);
        cursor.error(written.place.clone(), message, "write at least 1MB, such as 64MB or 2GB")
    })
}
