//! Reading REPERROR, exceptions mappings, COMPARECOLS, RESOLVECONFLICT and DISCARDFILE.

use crate::cursor::{Cursor, Written};
use crate::diagnostic::Diagnostic;
use crate::file::Raw;
use crate::handling::{
    Compare, ConflictClause, ConflictMethod, ConflictPart, ConflictType, DiscardFile, ErrorKind, ErrorResponse,
    ErrorSelector, ExceptionValue, ExceptionsRule, HandlingRule, RETRIES_DEFAULT,
};
use crate::suggestion::nearest;
use crate::table::ColumnName;
use crate::thread::{self, ThreadRule};
use std::ops::Range;
use std::time::Duration;

const RESPONSES: [&str; 9] = [
    "ABEND",
    "DISCARD",
    "IGNORE",
    "EXCEPTION",
    "RETRYOP",
    "TRANSABORT",
    "TRANSDISCARD",
    "TRANSEXCEPTION",
    "TRANSQUEUE",
];

/// Options of a MAP statement besides KEYCOLS.
pub(crate) const MAP_OPTIONS: [&str; 14] = [
    "KEYCOLS",
    "REPERROR",
    "HANDLECOLLISIONS",
    "NOHANDLECOLLISIONS",
    "INSERTALLRECORDS",
    "MAPEXCEPTION",
    "EXCEPTIONSONLY",
    "COLMAP",
    "COMPARECOLS",
    "RESOLVECONFLICT",
    "VERSIONCOLS",
    "THREAD",
    "THREADRANGE",
    "COORDINATED",
];

/// What a MAP statement says besides its names and KEYCOLS.
#[derive(Default)]
pub(crate) struct MapOptions {
    pub(crate) handling: HandlingRule,
    pub(crate) threads: ThreadRule,
    /// Where EXCEPTIONSONLY stands.
    pub(crate) exceptions_only: Option<Range<usize>>,
    /// COLMAP of an exceptions statement, and where it stands.
    pub(crate) column_map: Option<Written<Vec<(ColumnName, ExceptionValue)>>>,
    /// Where REPERROR of its own asks for exceptions.
    pub(crate) asks_for_exceptions: Option<Range<usize>>,
}

/// REPERROR on a line of its own.
pub(crate) fn read_error_rule(cursor: &mut Cursor<'_>, raw: &mut Raw, place: Range<usize>) -> Result<(), Diagnostic> {
    if cursor.peek_word().is_some_and(|word| word.value.eq_ignore_ascii_case("RESET")) {
        cursor.word();
        raw.handling.errors.0.clear();
        return Ok(());
    }
    let rule = error_rule(cursor, place)?;
    raw.handling.errors.0.push(rule);
    Ok(())
}

/// Reads `(selector, response [option …])`.
pub(crate) fn error_rule(
    cursor: &mut Cursor<'_>,
    place: Range<usize>,
) -> Result<(ErrorSelector, ErrorResponse), Diagnostic> {
    let usage = "write REPERROR (DEFAULT | DEFAULT2 | kind | code, response)";
    cursor.open(place, "REPERROR", usage)?;
    let selector = error_selector(cursor)?;
    if !cursor.take(',') {
        return Err(cursor.error(cursor.end_place(), "`,` is missing before the response", usage));
    }
    let word = need_word(cursor, "the response", &RESPONSES)?;
    let response = match word.value.to_ascii_uppercase().as_str() {
        "ABEND" => ErrorResponse::Abend,
        "DISCARD" => ErrorResponse::Discard,
        "IGNORE" => ErrorResponse::Ignore,
        "EXCEPTION" => ErrorResponse::Exception,
        "RETRYOP" => ErrorResponse::RetryOp { retries: retries(cursor)? },
        "TRANSABORT" => {
            let retries = retries(cursor)?;
            ErrorResponse::TransAbort { retries, delay: delay(cursor)? }
        }
        "TRANSDISCARD" => ErrorResponse::TransDiscard,
        "TRANSEXCEPTION" => ErrorResponse::TransException,
        "TRANSQUEUE" => {
            let hold = cursor.peek_word().is_some_and(|word| word.value.eq_ignore_ascii_case("HOLD"));
            if hold {
                cursor.word();
            }
            ErrorResponse::TransQueue { hold }
        }
        _ => return Err(unknown(cursor, &word, "response", &RESPONSES)),
    };
    cursor.close(usage)?;
    Ok((selector, response))
}

fn error_selector(cursor: &mut Cursor<'_>) -> Result<ErrorSelector, Diagnostic> {
    let mut known = vec!["DEFAULT", "DEFAULT2", "SQLSTATE"];
    known.extend(ErrorKind::ALL.map(ErrorKind::word));
    let word = need_word(cursor, "the error", &known)?;
    let upper = word.value.to_ascii_uppercase();
    match upper.as_str() {
        "DEFAULT" => return Ok(ErrorSelector::Default),
        "DEFAULT2" => return Ok(ErrorSelector::Default2),
        "SQLSTATE" => {
            let code = need_word(cursor, "the code", &[])?;
            return Ok(ErrorSelector::Code(code.value.trim_matches('\'').to_owned()));
        }
        _ => {}
    }
    if let Some(kind) = ErrorKind::ALL.into_iter().find(|kind| kind.word() == upper) {
        return Ok(ErrorSelector::Kind(kind));
    }
    // Codes of all databases hold a digit.
    if upper.chars().all(|character| character.is_ascii_alphanumeric()) && upper.chars().any(|c| c.is_ascii_digit()) {
        return Ok(ErrorSelector::Code(upper));
    }
    Err(unknown(cursor, &word, "error", &known))
}

fn retries(cursor: &mut Cursor<'_>) -> Result<u32, Diagnostic> {
    match cursor.peek_word() {
        Some(word) if word.value.eq_ignore_ascii_case("MAXRETRIES") => {
            cursor.word();
            number(cursor, "the number of retries", 1, 1_000_000)
        }
        _ => Ok(RETRIES_DEFAULT),
    }
}

fn delay(cursor: &mut Cursor<'_>) -> Result<Duration, Diagnostic> {
    let Some(word) = cursor.peek_word() else { return Ok(Duration::ZERO) };
    let milliseconds = match word.value.to_ascii_uppercase().as_str() {
        "DELAYSECS" => 1000,
        "DELAYCSECS" => 10,
        _ => return Ok(Duration::ZERO),
    };
    cursor.word();
    Ok(Duration::from_millis(u64::from(number(cursor, "the delay", 0, 86_400)?) * milliseconds))
}

/// Reads one option of MAP whose name `word` was read already.
pub(crate) fn map_option(
    cursor: &mut Cursor<'_>,
    options: &mut MapOptions,
    word: &Written<&str>,
) -> Result<(), Diagnostic> {
    let place = word.place.clone();
    let conversions = &mut options.handling.conversions;
    match word.value.to_ascii_uppercase().as_str() {
        "REPERROR" => {
            let rule = error_rule(cursor, place.clone())?;
            if matches!(rule.1, ErrorResponse::Exception | ErrorResponse::TransException) {
                options.asks_for_exceptions = Some(place);
            }
            options.handling.errors.0.push(rule);
        }
        "HANDLECOLLISIONS" => conversions.handle_collisions = true,
        "NOHANDLECOLLISIONS" => conversions.handle_collisions = false,
        "INSERTALLRECORDS" => conversions.insert_all_records = true,
        "MAPEXCEPTION" => {
            let rule = exceptions(cursor, place.clone())?;
            if options.handling.exceptions.replace(rule).is_some() {
                return Err(cursor.error(place, "MAPEXCEPTION is given more than once", "keep one of them"));
            }
        }
        "EXCEPTIONSONLY" => options.exceptions_only = Some(place),
        "COLMAP" => options.column_map = Some(Written { value: column_map(cursor, place.clone())?, place }),
        "COMPARECOLS" => compare_columns(cursor, &mut options.handling, place)?,
        "RESOLVECONFLICT" => {
            let clause = conflict(cursor, place.clone())?;
            if options.handling.conflicts.iter().any(|known| known.kind == clause.kind) {
                let message = format!("{} is settled by an earlier clause", clause.kind.word());
                return Err(cursor.error(place, message, "keep one of them"));
            }
            options.handling.conflicts.push(clause);
        }
        "VERSIONCOLS" => {
            let columns = column_list(cursor, place.clone(), "VERSIONCOLS")?;
            if columns.is_empty() || columns.len() > 2 {
                let message =
                    "VERSIONCOLS names the column of the version, and the one of its site where that is another";
                return Err(cursor.error(place, message, "name one column or two"));
            }
            options.handling.version = Some(columns);
        }
        "THREAD" | "THREADRANGE" | "COORDINATED" => thread::read(cursor, &mut options.threads, word)?,
        _ => return Err(unknown(cursor, word, "option", &MAP_OPTIONS)),
    }
    Ok(())
}

/// Reads `(TARGET table [, INSERTALLRECORDS] [, COLMAP (…)])`.
fn exceptions(cursor: &mut Cursor<'_>, place: Range<usize>) -> Result<ExceptionsRule, Diagnostic> {
    let usage = "write MAPEXCEPTION (TARGET table, INSERTALLRECORDS, COLMAP (USEDEFAULTS, column = @DATENOW()))";
    cursor.open(place, "MAPEXCEPTION", usage)?;
    let word = need_word(cursor, "TARGET", &["TARGET"])?;
    if !word.value.eq_ignore_ascii_case("TARGET") {
        return Err(cursor.error(word.place, "MAPEXCEPTION has no TARGET", usage));
    }
    let target = cursor.name_pattern("an exceptions table name")?;
    if target.value.has_wildcard() {
        let message = "an exceptions table is named without wildcards";
        return Err(cursor.error(target.place, message, "name one table that takes the rows of all"));
    }
    let mut columns = Vec::new();
    while cursor.take(',') {
        let word = need_word(cursor, "an option", &["INSERTALLRECORDS", "COLMAP"])?;
        match word.value.to_ascii_uppercase().as_str() {
            "INSERTALLRECORDS" => {}
            "COLMAP" => columns = column_map(cursor, word.place)?,
            _ => return Err(unknown(cursor, &word, "option", &["INSERTALLRECORDS", "COLMAP"])),
        }
    }
    cursor.close(usage)?;
    Ok(ExceptionsRule { target: target.value, columns })
}

/// Reads `(USEDEFAULTS {, column = expression})`.
fn column_map(cursor: &mut Cursor<'_>, place: Range<usize>) -> Result<Vec<(ColumnName, ExceptionValue)>, Diagnostic> {
    let usage = "write COLMAP (USEDEFAULTS, column = expression, …)";
    cursor.open(place, "COLMAP", usage)?;
    let word = need_word(cursor, "USEDEFAULTS", &["USEDEFAULTS"])?;
    if !word.value.eq_ignore_ascii_case("USEDEFAULTS") {
        return Err(cursor.error(word.place, "COLMAP of an exceptions mapping starts with USEDEFAULTS", usage));
    }
    let mut columns = Vec::new();
    while cursor.take(',') {
        let column = cursor.column_name()?;
        // `a=1` is one word.
        let (name, quoted) = column.value;
        let (name, rest) = match name.split_once('=').filter(|_| !quoted) {
            Some((name, rest)) => (name.to_owned(), Some(rest.to_owned())),
            None => (name, None),
        };
        let column = ColumnName { name, quoted };
        let start = column.name.len();
        let expression = match rest {
            Some(rest) if !rest.is_empty() => rest,
            Some(_) => need_expression(cursor, usage)?,
            None => {
                let sign = need_expression(cursor, usage)?;
                match sign.strip_prefix('=') {
                    Some("") => need_expression(cursor, usage)?,
                    Some(rest) => rest.to_owned(),
                    None => {
                        let message = format!("`=` is missing behind column {}", column.name);
                        return Err(cursor.error(cursor.end_place(), message, usage));
                    }
                }
            }
        };
        debug_assert!(start > 0 || column.quoted);
        let value = expression_value(cursor, &expression)?;
        columns.push((column, value));
    }
    cursor.close(usage)?;
    Ok(columns)
}

fn need_expression(cursor: &mut Cursor<'_>, usage: &str) -> Result<String, Diagnostic> {
    if cursor.peek() == Some('\'') {
        return cursor.value("a literal").map(|literal| format!("'{}", literal.value));
    }
    match cursor.word() {
        Some(word) => Ok(word.value.to_owned()),
        None => Err(cursor.error(cursor.end_place(), "an expression is missing", usage)),
    }
}

/// The value that a word, read already, starts.
fn expression_value(cursor: &mut Cursor<'_>, word: &str) -> Result<ExceptionValue, Diagnostic> {
    const KNOWN: &str = "an exceptions table knows @DATENOW (), @GETENV ('LASTERR', 'DBERRNUM' | 'DBERRMSG' | 'OPTYPE' | \
                         'ERRTYPE'), @GETENV ('TRANSACTION', 'CSN' | 'XID'), numbers and 'literals'";
    let end = cursor.end_place().end;
    let place = end.saturating_sub(word.len())..end;
    if let Some(literal) = word.strip_prefix('\'') {
        return Ok(ExceptionValue::Literal(literal.trim_end_matches('\'').to_owned()));
    }
    if word.parse::<f64>().is_ok() {
        return Ok(ExceptionValue::Literal(word.to_owned()));
    }
    let mut arguments = Vec::new();
    if word.starts_with('@') && cursor.take('(') {
        while !cursor.take(')') {
            let Some(argument) = cursor.word() else {
                return Err(cursor.error(cursor.end_place(), "`)` is missing", KNOWN));
            };
            arguments.push(argument.value.trim_matches('\'').to_ascii_uppercase());
            cursor.take(',');
        }
    }
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match (word.to_ascii_uppercase().as_str(), &arguments[..]) {
        ("@DATENOW", []) => Ok(ExceptionValue::Now),
        ("@GETENV", ["LASTERR", "DBERRNUM"]) => Ok(ExceptionValue::ErrorCode),
        ("@GETENV", ["LASTERR", "DBERRMSG"]) => Ok(ExceptionValue::ErrorText),
        ("@GETENV", ["LASTERR", "OPTYPE"]) => Ok(ExceptionValue::OperationType),
        ("@GETENV", ["LASTERR", "ERRTYPE"]) => Ok(ExceptionValue::ErrorType),
        ("@GETENV", ["TRANSACTION", "CSN"]) => Ok(ExceptionValue::Csn),
        ("@GETENV", ["TRANSACTION", "XID" | "TRANSACTIONID"]) => Ok(ExceptionValue::TransactionId),
        _ => Err(cursor.error(place, format!("unknown expression `{word}`"), KNOWN)),
    }
}

/// Reads `(ON UPDATE spec [, ON DELETE spec])`.
fn compare_columns(
    cursor: &mut Cursor<'_>,
    handling: &mut HandlingRule,
    place: Range<usize>,
) -> Result<(), Diagnostic> {
    let usage =
        "write COMPARECOLS (ON UPDATE ALL | KEY | KEYINCLUDING (columns) | ALLEXCLUDING (columns), ON DELETE …)";
    cursor.open(place, "COMPARECOLS", usage)?;
    loop {
        let word = need_word(cursor, "ON", &["ON"])?;
        if !word.value.eq_ignore_ascii_case("ON") {
            return Err(cursor.error(word.place, "ON is missing", usage));
        }
        let operation = need_word(cursor, "the operation", &["UPDATE", "DELETE"])?;
        let slot = match operation.value.to_ascii_uppercase().as_str() {
            "UPDATE" => &mut handling.compare_update,
            "DELETE" => &mut handling.compare_delete,
            _ => return Err(unknown(cursor, &operation, "operation", &["UPDATE", "DELETE"])),
        };
        const SPECS: [&str; 4] = ["ALL", "KEY", "KEYINCLUDING", "ALLEXCLUDING"];
        let word = need_word(cursor, "the columns", &SPECS)?;
        let compare = match word.value.to_ascii_uppercase().as_str() {
            "ALL" => Compare::All,
            "KEY" => Compare::Key,
            "KEYINCLUDING" => Compare::Including(column_list(cursor, word.place, "KEYINCLUDING")?),
            "ALLEXCLUDING" => Compare::Excluding(column_list(cursor, word.place, "ALLEXCLUDING")?),
            _ => return Err(unknown(cursor, &word, "choice of columns", &SPECS)),
        };
        if slot.replace(compare).is_some() {
            let message = format!("ON {} is given more than once", operation.value.to_ascii_uppercase());
            return Err(cursor.error(operation.place, message, "keep one of them"));
        }
        if !cursor.take(',') {
            return cursor.close(usage);
        }
    }
}

/// Reads `(type, (name, method [(column)] [, COLS (columns)]) …)`.
fn conflict(cursor: &mut Cursor<'_>, place: Range<usize>) -> Result<ConflictClause<ColumnName>, Diagnostic> {
    let usage = "write RESOLVECONFLICT (type, (name, method, COLS (columns)), (DEFAULT, method))";
    cursor.open(place.clone(), "RESOLVECONFLICT", usage)?;
    let types = ConflictType::ALL.map(ConflictType::word);
    let word = need_word(cursor, "the type of conflict", &types)?;
    let kind = ConflictType::ALL.into_iter().find(|kind| kind.word().eq_ignore_ascii_case(word.value));
    let kind = kind.ok_or_else(|| unknown(cursor, &word, "type of conflict", &types))?;
    let mut parts: Vec<ConflictPart<ColumnName>> = Vec::new();
    while cursor.take(',') {
        let part = conflict_part(cursor, kind, usage)?;
        if let Some(column) = part.value.columns.iter().find(|c| parts.iter().any(|known| known.columns.contains(c))) {
            let message = format!("column {} is in an earlier group", column.name);
            return Err(cursor.error(part.place, message, "a column is in one group at most"));
        }
        if parts.iter().any(|known| known.name == part.value.name) {
            let message = format!("{} is given more than once", part.value.name);
            return Err(cursor.error(part.place, message, "keep one of them, or give the other another name"));
        }
        parts.push(part.value);
    }
    cursor.close(usage)?;
    if parts.is_empty() {
        return Err(cursor.error(place, "RESOLVECONFLICT has no method", usage));
    }
    Ok(ConflictClause { kind, parts })
}

fn conflict_part(
    cursor: &mut Cursor<'_>,
    kind: ConflictType,
    usage: &str,
) -> Result<Written<ConflictPart<ColumnName>>, Diagnostic> {
    cursor.open(cursor.end_place(), "the method", usage)?;
    let name = need_word(cursor, "the name of the column group", &[])?;
    if !cursor.take(',') {
        return Err(cursor.error(cursor.end_place(), "`,` is missing before the method", usage));
    }
    let methods = kind.methods();
    let word = need_word(cursor, "the method", methods)?;
    let upper = word.value.to_ascii_uppercase();
    if !methods.contains(&upper.as_str()) {
        let owner = format!("method of {}", kind.word());
        return Err(unknown(cursor, &word, &owner, methods));
    }
    let column = |cursor: &mut Cursor<'_>| {
        let mut columns = column_list(cursor, word.place.clone(), &upper)?;
        match (columns.pop(), columns.is_empty()) {
            (Some(column), true) => Ok(column),
            _ => Err(cursor.error(word.place.clone(), format!("{upper} is decided by one column"), "name one column")),
        }
    };
    let method = match upper.as_str() {
        "OVERWRITE" => ConflictMethod::Overwrite,
        "IGNORE" => ConflictMethod::Ignore,
        "DISCARD" => ConflictMethod::Discard,
        "USEDELTA" => ConflictMethod::UseDelta,
        "LATEST" => ConflictMethod::Latest,
        "USEMIN" | "USEMINEQ" => ConflictMethod::UseMinimum { column: column(cursor)?, or_equal: upper == "USEMINEQ" },
        _ => ConflictMethod::UseMaximum { column: column(cursor)?, or_equal: upper == "USEMAXEQ" },
    };
    let is_default = name.value.eq_ignore_ascii_case("DEFAULT");
    let mut columns = Vec::new();
    if cursor.take(',') {
        let word = need_word(cursor, "COLS", &["COLS"])?;
        if !word.value.eq_ignore_ascii_case("COLS") {
            return Err(unknown(cursor, &word, "option", &["COLS"]));
        }
        if is_default {
            return Err(cursor.error(word.place, "DEFAULT has no COLS: it stands for all other columns", usage));
        }
        columns = column_list(cursor, word.place, "COLS")?;
    }
    if columns.is_empty() && !is_default {
        let message = format!("group {} has no COLS", name.value);
        return Err(cursor.error(name.place, message, "name its columns with COLS, or write DEFAULT"));
    }
    let of_rows = !matches!(kind, ConflictType::InsertRowExists | ConflictType::UpdateRowExists);
    if of_rows && !is_default {
        let message = format!("{} is settled for the whole row", kind.word());
        return Err(cursor.error(name.place, message, "write (DEFAULT, method)"));
    }
    cursor.close(usage)?;
    let label = if is_default { "DEFAULT".to_owned() } else { name.value.to_owned() };
    Ok(Written { value: ConflictPart { name: label, method, columns }, place: name.place })
}

/// `DISCARDFILE file [, APPEND | PURGE] [, MEGABYTES n]`.
pub(crate) fn read_discard_file(cursor: &mut Cursor<'_>, raw: &mut Raw, _: Range<usize>) -> Result<(), Diagnostic> {
    const OPTIONS: [&str; 3] = ["APPEND", "PURGE", "MEGABYTES"];
    let word = need_word(cursor, "the file", &[])?;
    let mut file = DiscardFile { path: Some(word.value.trim_matches('\'').to_owned()), ..DiscardFile::default() };
    loop {
        cursor.take(',');
        let Some(word) = cursor.word() else { break };
        match word.value.to_ascii_uppercase().as_str() {
            "APPEND" => file.purge = false,
            "PURGE" => file.purge = true,
            "MEGABYTES" => file.megabytes = number(cursor, "the number of megabytes", 1, 1_000_000)?,
            _ => return Err(unknown(cursor, &word, "option", &OPTIONS)),
        }
    }
    raw.discard_file = Some(file);
    Ok(())
}

fn column_list(cursor: &mut Cursor<'_>, place: Range<usize>, owner: &str) -> Result<Vec<ColumnName>, Diagnostic> {
    let usage = format!("write {owner} (column, …)");
    cursor.open(place, owner, &usage)?;
    let mut columns: Vec<ColumnName> = Vec::new();
    loop {
        let Written { value: (name, quoted), place } = cursor.column_name()?;
        let column = ColumnName { name, quoted };
        if columns.contains(&column) {
            let message = format!("the column {} stands twice in {owner}", column.name);
            return Err(cursor.error(place, message, "name it once"));
        }
        columns.push(column);
        if !cursor.take(',') {
            cursor.close(&usage)?;
            return Ok(columns);
        }
    }
}

fn number(cursor: &mut Cursor<'_>, what: &str, least: u32, most: u32) -> Result<u32, Diagnostic> {
    let word = need_word(cursor, what, &[])?;
    let number = word.value.parse::<u32>().ok().filter(|number| (least..=most).contains(number));
    number.ok_or_else(|| {
        let message = format!("{} is not {what}", cursor.quote(&word));
        cursor.error(word.place.clone(), message, format!("write a whole number from {least} to {most}"))
    })
}

fn need_word<'text>(cursor: &mut Cursor<'text>, what: &str, known: &[&str]) -> Result<Written<&'text str>, Diagnostic> {
    let end = cursor.end_place();
    cursor.word().ok_or_else(|| {
        let next_step =
            if known.is_empty() { format!("write {what} here") } else { format!("write {}", known.join(", ")) };
        cursor.error(end, format!("{what} is missing"), next_step)
    })
}

fn unknown(cursor: &Cursor<'_>, word: &Written<&str>, what: &str, known: &[&str]) -> Diagnostic {
    let next_step = match nearest(word.value, known.iter().copied()) {
        Some(meant) => format!("did you mean {meant}?"),
        None => format!("write one of {}", known.join(", ")),
    };
    cursor.error(word.place.clone(), format!("unknown {what} {}", cursor.quote(word)), next_step)
}
