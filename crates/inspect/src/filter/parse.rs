//! From the words of FILTER to a criterion.

use super::criterion::{Comparison, Criterion, Number, Wanted};
use crate::environment::Item;
use crate::hex;
use crate::time::{LocalOffset, Zone};
use crate::words::Words;
use change::Timestamp;
use std::ops::RangeInclusive;
use trail::format::operation;

/// What times are read with.
pub struct Clock<'a> {
    /// TIMEOFFSET.
    pub zone: Zone,
    /// The time now.
    pub now: Timestamp,
    /// Local time.
    pub local: LocalOffset<'a>,
}

/// Reads an option of FILTER with its comparison and value.
///
/// # Errors
/// What is wrong, in words.
pub fn criterion(words: &mut Words<'_>, clock: &Clock<'_>) -> Result<Criterion, String> {
    let is_environment =
        words.rest().starts_with('@') || words.rest().get(..4).is_some_and(|head| head.eq_ignore_ascii_case("GGS_"));
    if is_environment {
        return environment(words);
    }
    let option = words.next_word().ok_or("FILTER INCLUDE and EXCLUDE need an option, see HELP FILTER")?;
    let upper = option.to_ascii_uppercase();
    let comparison = comparison(words);
    let wanted = match upper.as_str() {
        "RECTYPE" | "IOTYPE" => Wanted::Operation(operations(&words.list())?),
        "STRING" => string(words)?,
        "HEX" => {
            let text = words.next_word().ok_or("HEX needs bytes, such as \"0a0b\"")?;
            let needle = hex::parse(&text).ok_or_else(|| format!("{text:?} is no run of bytes in hexadecimal"))?;
            Wanted::Bytes { label: "HEX", needles: vec![needle], columns: columns(words)? }
        }
        "INT16" => integer::<i16>(words, "INT16", |number| number.to_be_bytes().to_vec())?,
        "INT32" => integer::<i32>(words, "INT32", |number| number.to_be_bytes().to_vec())?,
        "INT64" => integer::<i64>(words, "INT64", |number| number.to_be_bytes().to_vec())?,
        "FILENAME" => Wanted::Table { label: "Filename", names: names(words, "FILENAME")? },
        "ANSINAME" => Wanted::Table { label: "Ansiname", names: names(words, "ANSINAME")? },
        "PROCESS" => Wanted::Process(value(words, "PROCESS")?),
        "TRANSID" => Wanted::TransactionId(value(words, "TRANSID")?),
        "CSN" | "LOGCSN" => Wanted::Csn(value(words, "CSN")?),
        "STARTTIME" => Wanted::Time { label: "Starttime", instant: instant(words, clock, "STARTTIME")? },
        "ENDTIME" => Wanted::Time { label: "Endtime", instant: instant(words, clock, "ENDTIME")? },
        "SYSKEY" => Wanted::Number(Number::SystemKey, number(words, "SYSKEY")?),
        "SYSKEYLEN" => Wanted::Number(Number::SystemKeyLength, number(words, "SYSKEYLEN")?),
        "TRANSIND" => Wanted::Number(Number::Transaction, transaction(&value(words, "TRANSIND")?)?),
        "UNDOFLAG" => Wanted::Number(Number::Undo, number(words, "UNDOFLAG")?),
        "RECLEN" => Wanted::Number(Number::DataLength, number(words, "RECLEN")?),
        "RBA" => Wanted::Number(Number::Rba, number(words, "RBA")?),
        "AUDITRBA" => Wanted::Number(Number::AuditRba, number(words, "AUDITRBA")?),
        "GGSTOKEN" | "USERTOKEN" => {
            let name = value(words, &upper)?;
            let comparison = self::comparison(words).or(comparison).unwrap_or_default();
            let value = words.next_word();
            let wanted = if upper == "GGSTOKEN" { Wanted::Token(name, value) } else { Wanted::UserToken(name, value) };
            return at_end(words, Criterion { wanted, comparison });
        }
        _ => {
            let hint = parameter::nearest(&upper, OPTIONS.iter().copied());
            let hint = hint.map(|option| format!(", did you mean {option}?")).unwrap_or_default();
            return Err(format!("{option} is no option of FILTER{hint}"));
        }
    };
    // Without a sign, STARTTIME and ENDTIME are the ends of a span.
    let comparison = match (comparison, &wanted) {
        (None, Wanted::Time { label: "Starttime", .. }) => Comparison::GreaterOrEqual,
        (None, Wanted::Time { .. }) => Comparison::LessOrEqual,
        (comparison, _) => comparison.unwrap_or_default(),
    };
    at_end(words, Criterion { wanted, comparison })
}

/// Options of FILTER INCLUDE and EXCLUDE.
pub const OPTIONS: [&str; 23] = [
    "RECTYPE",
    "IOTYPE",
    "STRING",
    "HEX",
    "INT16",
    "INT32",
    "INT64",
    "FILENAME",
    "ANSINAME",
    "PROCESS",
    "TRANSID",
    "CSN",
    "LOGCSN",
    "STARTTIME",
    "ENDTIME",
    "SYSKEY",
    "SYSKEYLEN",
    "TRANSIND",
    "UNDOFLAG",
    "RECLEN",
    "RBA",
    "AUDITRBA",
    "GGSTOKEN",
];

fn at_end(words: &mut Words<'_>, criterion: Criterion) -> Result<Criterion, String> {
    match words.next_word() {
        None => Ok(criterion),
        Some(word) => {
            Err(format!("{word} is one word too many: each FILTER has one option, several are joined with `;`"))
        }
    }
}

/// `@GETENV ("GGHEADER", "OPTYPE") = INSERT`, and the transaction's elements by name.
fn environment(words: &mut Words<'_>) -> Result<Criterion, String> {
    let (item, rest) = Item::parse_call(words.take_rest())?;
    let mut rest = Words::new(rest);
    let comparison = comparison(&mut rest).unwrap_or_default();
    let value = rest.next_word().ok_or("@GETENV needs a comparison and a value, such as = INSERT")?;
    at_end(&mut rest, Criterion { wanted: Wanted::Environment(item, value), comparison })
}

/// A comparison, if one comes next.
pub fn comparison(words: &mut Words<'_>) -> Option<Comparison> {
    const SIGNS: [(&str, Comparison); 8] = [
        ("==", Comparison::Equal),
        ("<>", Comparison::NotEqual),
        ("!=", Comparison::NotEqual),
        ("<=", Comparison::LessOrEqual),
        (">=", Comparison::GreaterOrEqual),
        ("=", Comparison::Equal),
        ("<", Comparison::Less),
        (">", Comparison::Greater),
    ];
    const NAMES: [(&str, Comparison); 6] = [
        ("EQ", Comparison::Equal),
        ("NE", Comparison::NotEqual),
        ("LT", Comparison::Less),
        ("GT", Comparison::Greater),
        ("LE", Comparison::LessOrEqual),
        ("GE", Comparison::GreaterOrEqual),
    ];
    if let Some((sign, comparison)) = SIGNS.iter().find(|(sign, _)| words.rest().starts_with(sign)) {
        words.skip_bytes(sign.len());
        return Some(*comparison);
    }
    NAMES.iter().find(|(name, _)| words.take_keyword(name)).map(|(_, comparison)| *comparison)
}

fn value(words: &mut Words<'_>, option: &str) -> Result<String, String> {
    words.next_word().ok_or_else(|| format!("{option} needs a value"))
}

fn number(words: &mut Words<'_>, option: &str) -> Result<u64, String> {
    let text = value(words, option)?;
    text.parse().map_err(|_| format!("{option} needs a number, {text} is none"))
}

fn names(words: &mut Words<'_>, option: &str) -> Result<Vec<String>, String> {
    let names = words.list();
    if names.is_empty() { Err(format!("{option} needs a name")) } else { Ok(names) }
}

fn instant(words: &mut Words<'_>, clock: &Clock<'_>, option: &str) -> Result<Timestamp, String> {
    let text = words.take_rest();
    let found = clock.zone.parse_instant(text.trim().trim_matches(['"', '\'']), clock.now, clock.local);
    found.ok_or_else(|| format!("{option} needs a time [[yy]yy-mm-dd] [hh[:mm][:ss]], {text:?} is none"))
}

fn transaction(text: &str) -> Result<u64, String> {
    match text.to_ascii_uppercase().as_str() {
        "FIRST" | "0" => Ok(0),
        "MIDDLE" | "1" => Ok(1),
        "END" | "LAST" | "2" => Ok(2),
        "ONLY" | "WHOLE" | "3" => Ok(3),
        _ => Err(format!("TRANSIND is FIRST, MIDDLE, END or ONLY, or 0 to 3; {text} is none of them")),
    }
}

/// Numbers of operations by number or name.
pub fn operations(list: &[String]) -> Result<Vec<u8>, String> {
    if list.is_empty() {
        return Err("RECTYPE needs a type, see SHOW RECTYPE".to_owned());
    }
    let mut numbers = Vec::new();
    for text in list {
        match text.parse::<u8>() {
            Ok(number) => numbers.push(number),
            Err(_) => {
                let known = operation::ALL.iter().filter(|operation| {
                    let name = operation.name;
                    name.eq_ignore_ascii_case(text)
                        || name.strip_prefix("GGS").is_some_and(|name| name.eq_ignore_ascii_case(text))
                });
                let before = numbers.len();
                numbers.extend(known.map(|operation| operation.number));
                if numbers.len() == before {
                    let names = operation::ALL.iter().map(|operation| operation.name);
                    let hint = parameter::nearest(text, names).map(|name| format!(", did you mean {name}?"));
                    return Err(format!("{text} is no record type{}", hint.unwrap_or_default()));
                }
            }
        }
    }
    Ok(numbers)
}

/// `[BOTH] /text/ [a:b]`, also in quotes.
fn string(words: &mut Words<'_>) -> Result<Wanted, String> {
    let is_both = words.take_keyword("BOTH");
    let text = words.next_text().ok_or("STRING needs a text, such as /text/")?;
    if text.is_empty() {
        return Err("STRING needs a text that is not empty".to_owned());
    }
    let mut needles = vec![text.as_bytes().to_vec()];
    if is_both {
        needles.push(hex::ebcdic(&text).ok_or_else(|| format!("{text:?} has characters that EBCDIC has not"))?);
    }
    Ok(Wanted::Bytes { label: "String", needles, columns: columns(words)? })
}

fn integer<N: std::str::FromStr>(
    words: &mut Words<'_>,
    label: &'static str,
    bytes: impl Fn(N) -> Vec<u8>,
) -> Result<Wanted, String> {
    let text = value(words, label)?;
    let number = text.parse().map_err(|_| format!("{label} needs a number of its size, {text} is none"))?;
    Ok(Wanted::Bytes { label, needles: vec![bytes(number)], columns: columns(words)? })
}

/// `a:b`, the bytes of the data that are looked at.
fn columns(words: &mut Words<'_>) -> Result<Option<RangeInclusive<usize>>, String> {
    let Some(text) = words.next_word() else { return Ok(None) };
    let range = text.split_once(':').and_then(|(first, last)| Some((first.parse().ok()?, last.parse().ok()?)));
    match range {
        Some((first, last)) if first <= last => Ok(Some(first..=last)),
        _ => Err(format!("{text} is no range of bytes first:last")),
    }
}

/// Whether a name fits a pattern in which `*` stands for any characters and `?` for one. Case does not count.
pub fn wildcard_matches(pattern: &str, name: &str) -> bool {
    let pattern: Vec<char> = pattern.to_lowercase().chars().collect();
    let name: Vec<char> = name.to_lowercase().chars().collect();
    let (mut at, mut from) = (0, 0);
    // Where to go on when what follows the last star does not fit.
    let mut again: Option<(usize, usize)> = None;
    while from < name.len() {
        match pattern.get(at) {
            Some('*') => {
                again = Some((at + 1, from));
                at += 1;
            }
            Some(one) if *one == '?' || *one == name[from] => {
                at += 1;
                from += 1;
            }
            _ => match &mut again {
                Some((behind, place)) => {
                    *place += 1;
                    (at, from) = (*behind, *place);
                }
                None => return false,
            },
        }
    }
    pattern[at..].iter().all(|rest| *rest == '*')
}
