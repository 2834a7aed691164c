//! One criterion of a filter.

use super::parse::wildcard_matches;
use crate::environment::{Item, RecordEnvironment};
use crate::hex::{self, Characters};
use change::Timestamp;
use std::cmp::Ordering;
use std::fmt::Write;
use std::ops::RangeInclusive;
use trail::format::bytes::from_julian_micros;
use trail::format::{token, user_token};

/// How a value of a record is compared with the one that was given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Comparison {
    /// `=`, `==`, `EQ`, or nothing.
    #[default]
    Equal,
    /// `<>`, `!=`, `NE`.
    NotEqual,
    /// `<`, `LT`.
    Less,
    /// `>`, `GT`.
    Greater,
    /// `<=`, `LE`.
    LessOrEqual,
    /// `>=`, `GE`.
    GreaterOrEqual,
}

impl Comparison {
    /// Whether a value that stands like this to the given one fits.
    pub fn fits(self, ordering: Ordering) -> bool {
        match self {
            Comparison::Equal => ordering.is_eq(),
            Comparison::NotEqual => ordering.is_ne(),
            Comparison::Less => ordering.is_lt(),
            Comparison::Greater => ordering.is_gt(),
            Comparison::LessOrEqual => ordering.is_le(),
            Comparison::GreaterOrEqual => ordering.is_ge(),
        }
    }

    /// The sign.
    pub fn sign(self) -> &'static str {
        match self {
            Comparison::Equal => "=",
            Comparison::NotEqual => "<>",
            Comparison::Less => "<",
            Comparison::Greater => ">",
            Comparison::LessOrEqual => "<=",
            Comparison::GreaterOrEqual => ">=",
        }
    }
}

/// A number of the record header that is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Number {
    /// SYSKEY: the number that stands before the data of a NonStop record.
    SystemKey,
    /// SYSKEYLEN.
    SystemKeyLength,
    /// TRANSIND.
    Transaction,
    /// UNDOFLAG.
    Undo,
    /// RECLEN.
    DataLength,
    /// RBA.
    Rba,
    /// AUDITRBA.
    AuditRba,
}

impl Number {
    /// The keyword of FILTER.
    pub fn name(self) -> &'static str {
        match self {
            Number::SystemKey => "SYSKEY",
            Number::SystemKeyLength => "SYSKEYLEN",
            Number::Transaction => "TRANSIND",
            Number::Undo => "UNDOFLAG",
            Number::DataLength => "RECLEN",
            Number::Rba => "RBA",
            Number::AuditRba => "AUDITRBA",
        }
    }

    fn of(self, record: &RecordEnvironment<'_>) -> Option<u64> {
        let header = &record.view.header;
        Some(match self {
            Number::SystemKey => match record.data?.get(..usize::from(header.system_key_length))? {
                [] => return None,
                key => key.iter().fold(0, |number: u64, byte| number << 8 | u64::from(*byte)),
            },
            Number::SystemKeyLength => header.system_key_length.into(),
            Number::Transaction => header.transaction.into(),
            Number::Undo => header.undo.into(),
            Number::DataLength => header.data_length.into(),
            Number::Rba => record.rba,
            Number::AuditRba => header.audit_offset.into(),
        })
    }
}

/// What a criterion looks at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// RECTYPE: one of these operations.
    Operation(Vec<u8>),
    /// STRING, HEX, INT16, INT32, INT64: one of these runs of bytes, starting in a part of the data if one is named.
    Bytes {
        /// The keyword.
        label: &'static str,
        /// What is searched; any of them.
        needles: Vec<Vec<u8>>,
        /// First and last byte of the data that are looked at.
        columns: Option<RangeInclusive<usize>>,
    },
    /// FILENAME and ANSINAME: a table whose name fits one of these.
    Table {
        /// The keyword.
        label: &'static str,
        /// Names with wildcards.
        names: Vec<String>,
    },
    /// PROCESS: the group that wrote the file.
    Process(String),
    /// TRANSID.
    TransactionId(String),
    /// CSN or LOGCSN.
    Csn(String),
    /// A number of the header.
    Number(Number, u64),
    /// STARTTIME and ENDTIME.
    Time {
        /// The keyword.
        label: &'static str,
        /// The instant.
        instant: Timestamp,
    },
    /// GGSTOKEN: a token by this name, with this value if one is given.
    Token(String, Option<String>),
    /// USERTOKEN: as GGSTOKEN.
    UserToken(String, Option<String>),
    /// `@GETENV ("…", "…")`.
    Environment(Item, String),
}

/// A criterion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Criterion {
    /// What it looks at.
    pub wanted: Wanted,
    /// How it compares.
    pub comparison: Comparison,
}

impl Criterion {
    /// Whether a record fulfils it.
    pub fn holds(&self, record: &RecordEnvironment<'_>) -> bool {
        let header = &record.view.header;
        let fits = |ordering| self.comparison.fits(ordering);
        // Where there is no order, equal and not equal are all there is.
        let is = |is_equal: bool| fits(if is_equal { Ordering::Equal } else { Ordering::Greater });
        match &self.wanted {
            Wanted::Operation(numbers) => is(numbers.contains(&header.operation)),
            Wanted::Bytes { needles, columns, .. } => is(needles.iter().any(|needle| finds(record, needle, columns))),
            Wanted::Table { names, .. } => {
                let table = record.table_name();
                is(names.iter().any(|name| wildcard_matches(name, &table)))
            }
            Wanted::Process(group) => {
                let producer = record.header.map_or("", |header| header.producer.group.as_str());
                is(producer.eq_ignore_ascii_case(group))
            }
            Wanted::TransactionId(id) => record.transaction_id.is_some_and(|known| is(known == id.as_bytes())),
            Wanted::Csn(csn) => record.csn.is_some_and(|known| fits(compare_numbers(known, csn.as_bytes()))),
            Wanted::Number(number, value) => number.of(record).is_some_and(|known| fits(known.cmp(value))),
            Wanted::Time { instant, .. } => fits(from_julian_micros(header.time).cmp(instant)),
            Wanted::Token(name, value) => {
                let found = record.tokens().find(|(known, _)| known.eq_ignore_ascii_case(name));
                self.value_fits(found.map(|(_, payload)| payload.to_vec()), value.as_deref())
            }
            Wanted::UserToken(name, value) => {
                let tokens = user_token::read(record.user).unwrap_or_default();
                let found = tokens.into_iter().find(|token| token.name.eq_ignore_ascii_case(name));
                self.value_fits(found.map(|token| token.value.into_bytes()), value.as_deref())
            }
            Wanted::Environment(item, value) => {
                let known = record.value(item);
                known.is_some_and(|known| fits(compare_numbers(known.as_bytes(), value.as_bytes())))
            }
        }
    }

    fn value_fits(&self, found: Option<Vec<u8>>, value: Option<&str>) -> bool {
        match (found, value) {
            (None, _) => false,
            (Some(_), None) => true,
            (Some(found), Some(value)) => self.comparison.fits(compare_numbers(&found, value.as_bytes())),
        }
    }

    /// Appends the line of SHOW FILTER for the criterion with this number.
    pub(super) fn show(&self, text: &mut String, number: usize) {
        let sign = match self.comparison {
            Comparison::Equal => String::new(),
            other => format!("{} ", other.sign()),
        };
        let mut line = |label: &str, value: &str| _ = writeln!(text, "{label:<11}: {sign}{value}");
        let numbered = |label: &str| format!("{label}-{number}");
        let with = |name: &String, value: &Option<String>| match value {
            None => name.clone(),
            Some(value) => format!("{name} {value}"),
        };
        match &self.wanted {
            Wanted::Operation(numbers) => {
                let names: Vec<&str> = numbers.iter().map(|number| trail::format::operation::name(*number)).collect();
                line("Rectypes", &names.join(", "));
            }
            Wanted::Bytes { label, needles, columns } => {
                let place = columns.as_ref().map(|columns| format!(", Col {}:{}", columns.start(), columns.end()));
                for needle in needles {
                    line(&numbered(label), &format!("({:>2}){}", needle.len(), place.as_deref().unwrap_or_default()));
                }
                for needle in needles {
                    hex::dump(text, needle, Characters::Ascii);
                }
            }
            Wanted::Table { label, names } => line(&numbered(label), &names.join(", ")),
            Wanted::Process(group) => line(&numbered("Process"), group),
            Wanted::TransactionId(id) => line(&numbered("TransID"), id),
            Wanted::Csn(csn) => line(&numbered("CSN"), csn),
            Wanted::Number(which, value) => line(&numbered(which.name()), &value.to_string()),
            Wanted::Time { label, instant } => line(&numbered(label), &instant.to_string()),
            Wanted::Token(name, value) => line(&numbered("GGSToken"), &with(name, value)),
            Wanted::UserToken(name, value) => line(&numbered("UserToken"), &with(name, value)),
            Wanted::Environment(item, value) => line(&numbered("GETENV"), &format!("{item} {value}")),
        }
    }
}

/// Whether the data holds the bytes, beginning to end inside the columns if there are any.
fn finds(record: &RecordEnvironment<'_>, needle: &[u8], columns: &Option<RangeInclusive<usize>>) -> bool {
    let Some(data) = record.data else { return false };
    let part = match columns {
        None => data,
        Some(columns) => {
            let end = columns.end().saturating_add(1).min(data.len());
            data.get(*columns.start()..end).unwrap_or_default()
        }
    };
    memchr::memmem::find(part, needle).is_some()
}

/// Numbers by their value, other texts by their bytes. Commit sequence numbers of one source have a fixed width, or are numbers.
pub(crate) fn compare_numbers(one: &[u8], other: &[u8]) -> Ordering {
    fn digits(text: &[u8]) -> Option<&[u8]> {
        let is_number = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
        is_number.then(|| &text[text.iter().take_while(|digit| **digit == b'0').count()..])
    }
    match (digits(one), digits(other)) {
        (Some(one), Some(other)) => one.len().cmp(&other.len()).then_with(|| one.cmp(other)),
        _ => one.cmp(other),
    }
}

impl<'a> RecordEnvironment<'a> {
    /// Names and payloads of the tokens in `T`.
    fn tokens(&self) -> impl Iterator<Item = (&'static str, &'a [u8])> {
        let mut cursor = trail::format::bytes::Cursor::new(self.view.tokens, self.order);
        std::iter::from_fn(move || {
            let token = token::next(&mut cursor).ok()??;
            Some((token::record_token_name(token.id), token.payload))
        })
    }
}
