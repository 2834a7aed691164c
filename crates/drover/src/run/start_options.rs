//! The options of START EXTRACT and START REPLICAT, as words behind the group's name.

use apply::{StartFrom, StartOptions};
use change::Csn;
use process::GroupKind;

/// What START says, for one run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Start {
    /// Of a Replicat: where it begins.
    pub replicat: StartOptions,
    /// Of an Extract: nothing that Bounded Recovery has persisted is used (BRRESET).
    pub resets_bounded: bool,
}

/// Reads the options of a group of `kind`: `[BRRESET]` for an Extract.
///
/// # Errors
/// A sentence about the word that is wrong.
pub fn parse(kind: GroupKind, words: &[String]) -> Result<Start, String> {
    if kind == GroupKind::Replicat {
        return Ok(Start { replicat: of_replicat(words)?, ..Start::default() });
    }
    let words = words.iter().flat_map(|word| word.split([',', ' '])).filter(|word| !word.is_empty());
    let mut start = Start::default();
    for word in words {
        if !word.eq_ignore_ascii_case("BRRESET") {
            return Err(format!("{word} is not BRRESET"));
        }
        start.resets_bounded = true;
    }
    Ok(start)
}

/// Reads `[ATCSN csn | AFTERCSN csn | SKIPTRANSACTION] [FILTERDUPTRANSACTIONS | NOFILTERDUPTRANSACTIONS]`, in any case and
/// order; commas between them may be left out.
///
/// # Errors
/// A sentence about the word that is wrong.
fn of_replicat(words: &[String]) -> Result<StartOptions, String> {
    let words = words.iter().flat_map(|word| word.split([',', ' '])).filter(|word| !word.is_empty());
    let mut words = words.peekable();
    let (mut from, mut filter) = (None, None);
    while let Some(word) = words.next() {
        let upper = word.to_ascii_uppercase();
        let mut csn = || words.next().map(Csn::new).ok_or_else(|| format!("{upper} needs a CSN"));
        let place = match upper.as_str() {
            "ATCSN" => StartFrom::AtCsn(csn()?),
            "AFTERCSN" => StartFrom::AfterCsn(csn()?),
            "SKIPTRANSACTION" => StartFrom::SkipTransaction(None),
            "FILTERDUPTRANSACTIONS" | "NOFILTERDUPTRANSACTIONS" => {
                if filter.replace(upper == "FILTERDUPTRANSACTIONS").is_some() {
                    return Err(format!("{upper} comes after another word about duplicates"));
                }
                continue;
            }
            _ => {
                return Err(format!(
                    "{word} is none of ATCSN csn, AFTERCSN csn, SKIPTRANSACTION, FILTERDUPTRANSACTIONS and \
                     NOFILTERDUPTRANSACTIONS"
                ));
            }
        };
        if from.replace(place).is_some() {
            return Err(format!("{upper} comes after another word about where to start"));
        }
    }
    let defaults = StartOptions::default();
    Ok(StartOptions {
        from: from.unwrap_or(defaults.from),
        filter_duplicates: filter.unwrap_or(defaults.filter_duplicates),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<StartOptions, String> {
        of_replicat(&text.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn words_are_read_in_any_case_and_order() {
        assert_eq!(read(""), Ok(StartOptions::default()));
        let at = StartOptions { from: StartFrom::AtCsn(Csn::new("00012a")), filter_duplicates: false };
        assert_eq!(read("atcsn 00012a, NoFilterDupTransactions"), Ok(at.clone()));
        assert_eq!(read("NOFILTERDUPTRANSACTIONS ATCSN 00012a"), Ok(at));
        let skip = StartOptions { from: StartFrom::SkipTransaction(None), filter_duplicates: true };
        assert_eq!(read("SKIPTRANSACTION FILTERDUPTRANSACTIONS"), Ok(skip));
    }

    #[test]
    fn an_extract_is_told_of_bounded_recovery_only() {
        let read = |text: &str| parse(GroupKind::Extract, &[text.to_owned()]);
        assert_eq!(read("brreset"), Ok(Start { resets_bounded: true, ..Start::default() }));
        assert_eq!(parse(GroupKind::Extract, &[]), Ok(Start::default()));
        assert!(read("ATCSN").is_err_and(|wrong| wrong.contains("ATCSN is not BRRESET")));
    }

    #[test]
    fn what_makes_no_sense_is_refused_by_its_word() {
        for (text, word) in [
            ("ATCSN", "ATCSN needs a CSN"),
            ("ATCSN 1 AFTERCSN 2", "AFTERCSN comes after"),
            ("FILTERDUPTRANSACTIONS NOFILTERDUPTRANSACTIONS", "NOFILTERDUPTRANSACTIONS comes after"),
            ("SKIP", "SKIP is none of"),
        ] {
            let error = read(text).expect_err(text);
            assert!(error.contains(word), "{error}");
        }
    }
}
