//! THREAD, THREADRANGE and COORDINATED of MAP: which thread of a coordinated Replicat applies a change.

use crate::cursor::{Cursor, Written};
use crate::diagnostic::Diagnostic;
use crate::table::{ColumnName, column_names};
use change::CaseRule;

/// Threads that a coordinated Replicat may have at most (MAXTHREADS).
pub const THREADS_MAX: u32 = 500;

/// What a MAP says of threads, as it was written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ThreadRule {
    /// THREAD or THREADRANGE: first and last thread.
    pub(crate) threads: Option<(u32, u32)>,
    /// THREADRANGE: columns whose hash decides, in place of the key.
    pub(crate) columns: Vec<ColumnName>,
    /// COORDINATED.
    pub(crate) is_coordinated: bool,
}

impl ThreadRule {
    pub(crate) fn plan(&self, case: CaseRule) -> MapThreads {
        let columns = (!self.columns.is_empty()).then(|| column_names(&self.columns, case));
        let (first, last) = self.threads.unwrap_or((1, 1));
        MapThreads { first, last, columns, is_coordinated: self.is_coordinated }
    }
}

/// Which thread of a coordinated Replicat applies the changes of a MAP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapThreads {
    /// The first thread that may; without THREAD and THREADRANGE thread 1 does.
    pub first: u32,
    /// The last one. Among several a hash decides.
    pub last: u32,
    /// Columns of the target that are hashed, in place of those that find a row.
    pub columns: Option<Vec<String>>,
    /// COORDINATED: transactions with such a change are applied as a whole, while no thread applies anything else.
    pub is_coordinated: bool,
}

impl Default for MapThreads {
    fn default() -> MapThreads {
        ThreadRule::default().plan(CaseRule::Sensitive)
    }
}

const THREAD_USAGE: &str = "write THREAD (number)";
const RANGE_USAGE: &str = "write THREADRANGE (first-last [, column …])";

/// Reads what stands behind `word`, which is one of the three.
pub(crate) fn read(cursor: &mut Cursor<'_>, rule: &mut ThreadRule, word: &Written<&str>) -> Result<(), Diagnostic> {
    let place = word.place.clone();
    let name = word.value.to_ascii_uppercase();
    if name == "COORDINATED" {
        rule.is_coordinated = true;
        return Ok(());
    }
    if rule.threads.is_some() {
        let message = format!("{name} comes after another word about the thread");
        return Err(cursor.error(place, message, "keep one of them"));
    }
    if name == "THREAD" {
        cursor.open(place, "THREAD", THREAD_USAGE)?;
        let number = number(cursor, THREAD_USAGE)?;
        rule.threads = Some((number, number));
        return cursor.close(THREAD_USAGE);
    }
    cursor.open(place, "THREADRANGE", RANGE_USAGE)?;
    rule.threads = Some(range(cursor)?);
    while cursor.take(',') {
        let columns = cursor.peek_word().is_some_and(|word| word.value.eq_ignore_ascii_case("COLS"));
        if columns {
            let place = cursor.word().map_or(cursor.end_place(), |word| word.place);
            cursor.open(place, "COLS", RANGE_USAGE)?;
            column(cursor, &mut rule.columns)?;
            while cursor.take(',') {
                column(cursor, &mut rule.columns)?;
            }
            cursor.close(RANGE_USAGE)?;
        } else {
            column(cursor, &mut rule.columns)?;
        }
    }
    cursor.close(RANGE_USAGE)
}

/// `1-8`, with or without blanks.
fn range(cursor: &mut Cursor<'_>) -> Result<(u32, u32), Diagnostic> {
    let start = cursor.peek_word().map_or(cursor.end_place(), |word| word.place).start;
    let mut text = String::new();
    while cursor.peek().is_some_and(|next| next.is_ascii_digit() || next == '-') {
        let Some(word) = cursor.word() else { break };
        text.push_str(word.value);
    }
    let place = start..cursor.end_place().end.max(start);
    let bound = |text: &str| text.parse::<u32>().ok().filter(|number| (1..=THREADS_MAX).contains(number));
    match text.split_once('-').and_then(|(first, last)| Some((bound(first)?, bound(last)?))) {
        Some((first, last)) if first <= last => Ok((first, last)),
        _ => {
            let message = format!("`{text}` is not a range of threads from 1 to {THREADS_MAX}");
            Err(cursor.error(place, message, RANGE_USAGE))
        }
    }
}

fn number(cursor: &mut Cursor<'_>, usage: &str) -> Result<u32, Diagnostic> {
    let Some(word) = cursor.word() else {
        return Err(cursor.error(cursor.end_place(), "the number of the thread is missing", usage));
    };
    let number = word.value.parse::<u32>().ok().filter(|number| (1..=THREADS_MAX).contains(number));
    number.ok_or_else(|| {
        let message = format!("{} is not a number of a thread from 1 to {THREADS_MAX}", cursor.quote(&word));
        cursor.error(word.place.clone(), message, usage)
    })
}

fn column(cursor: &mut Cursor<'_>, columns: &mut Vec<ColumnName>) -> Result<(), Diagnostic> {
    let Written { value: (name, quoted), place } = cursor.column_name()?;
    let column = ColumnName { name, quoted };
    if columns.contains(&column) {
        let message = format!("the column {} stands twice in THREADRANGE", column.name);
        return Err(cursor.error(place, message, "name it once"));
    }
    columns.push(column);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::MapThreads;
    use crate::parse_replicat;
    use change::{CaseRule, TableName};

    fn threads(options: &str) -> Result<MapThreads, String> {
        let text = format!("REPLICAT r1\nTARGETDB sqlite:t.db\nMAP a.t, TARGET b.t{options};");
        let parameters = parse_replicat(&text, "r1.prm").map_err(|error| error.to_string())?;
        let plan = parameters.map.plan(CaseRule::FoldToLower, "main", CaseRule::FoldToLower, "public");
        Ok(plan.targets(&TableName::new("a", "t")).remove(0).threads)
    }

    #[test]
    fn threads_are_numbers_or_ranges_with_columns() {
        let none = MapThreads { first: 1, last: 1, columns: None, is_coordinated: false };
        assert_eq!(threads(""), Ok(none.clone()));
        assert_eq!(threads(", THREAD (3)"), Ok(MapThreads { first: 3, last: 3, ..none.clone() }));
        let range = MapThreads { first: 2, last: 8, ..none.clone() };
        for text in [", THREADRANGE (2-8)", ", threadrange ( 2 - 8 )"] {
            assert_eq!(threads(text), Ok(range.clone()), "{text}");
        }
        let columns = MapThreads { columns: Some(vec!["a".to_owned(), "B".to_owned()]), ..range };
        for text in [", THREADRANGE (2-8, A, \"B\")", ", THREADRANGE (2-8, COLS (A, \"B\"))"] {
            assert_eq!(threads(text), Ok(columns.clone()), "{text}");
        }
        assert_eq!(threads(", COORDINATED"), Ok(MapThreads { is_coordinated: true, ..none }));
    }

    #[test]
    fn what_is_no_thread_is_refused_under_its_word() {
        for (text, message) in [
            (", THREAD 3", "`(` is missing behind THREAD"),
            (", THREAD (0)", "`0` is not a number of a thread from 1 to 500"),
            (", THREAD (1), THREADRANGE (1-2)", "THREADRANGE comes after another word about the thread"),
            (", THREADRANGE (8-2)", "`8-2` is not a range of threads"),
            (", THREADRANGE (1-501)", "`1-501` is not a range of threads"),
            (", THREADRANGE (1-2, a, a)", "the column a stands twice"),
        ] {
            let error = threads(text).expect_err(text);
            assert!(error.contains(message), "{error}");
        }
    }
}
