//! PURGEOLDEXTRACTS.

use crate::cursor::{Cursor, Written};
use crate::define::{check_trail, unknown_option};
use crate::diagnostic::Diagnostic;
use crate::file::Raw;
use std::ops::Range;

/// Which files of its trail a group removes, and how often it looks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PurgeParameters {
    /// The trail, where it was written. It must be the group's own.
    pub trail: Option<String>,
    /// USECHECKPOINTS (the default): only files that all readers have left behind.
    pub use_checkpoints: bool,
    /// MINKEEPFILES, MINKEEPHOURS or MINKEEPDAYS; one file without any of them.
    pub keep: KeepParameter,
    /// FREQUENCYMINUTES or FREQUENCYHOURS, in minutes.
    pub every_minutes: u32,
}

/// What is kept although nobody needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeepParameter {
    /// So many files, the one that is written included.
    Files(u32),
    /// Files that are not older than this.
    Hours(u32),
}

/// Minutes between two looks when no FREQUENCY is given: the field's CHECKMINUTES.
const EVERY_MINUTES_DEFAULT: u32 = 10;

/// Greatest number that an option takes.
const NUMBER_MAX: u32 = 100_000;

const OPTIONS: [&str; 7] = [
    "USECHECKPOINTS",
    "NOUSECHECKPOINTS",
    "MINKEEPHOURS",
    "MINKEEPDAYS",
    "MINKEEPFILES",
    "FREQUENCYMINUTES",
    "FREQUENCYHOURS",
];

/// The text of the reference page.
pub(crate) const HELP: &str = "\
The group looks when it starts, after its trail went on to another file, when it stops, and every FREQUENCY (10 minutes). It \
removes files from the oldest on, and stops at the first one that must stay. Without options a file goes when nobody needs it \
any more; each removal is told in the report. The trail may be named; it must be the group's own.\n\n\
What always stays: the file that is written; the file with the end of the trail's last complete transaction, where the writer \
goes on after a crash; and every file behind one that stays.\n\n\
- `USECHECKPOINTS` (the default): a file stays until every Replicat of this home that reads the trail has left it behind. Their \
positions come from their checkpoint files, which name only what is durable in the target; one that does not run holds its \
files. A trail that no Replicat of this home reads is not touched.\n\
- `NOUSECHECKPOINTS`: readers do not count, only the options below. A reader that is cut off is named in a warning, and will \
have to be positioned anew. Use it for a trail whose readers are known to follow by other means.\n\
- `MINKEEPHOURS`, `MINKEEPDAYS`: a file also stays until so much time has passed since the writer went on to the next one. Where \
both are given, the last one counts.\n\
- `MINKEEPFILES`: so many files stay in any case, the one that is written included; 1 by default. It is ignored beside \
MINKEEPHOURS or MINKEEPDAYS.\n\n\
Readers of other homes are not seen. Where two homes share a trail's directory, let only the home with the slowest reader purge, \
with MINKEEPDAYS above the longest time that the other home may stand still; or let neither purge by itself.";

pub(crate) fn read(cursor: &mut Cursor<'_>, raw: &mut Raw, place: Range<usize>) -> Result<(), Diagnostic> {
    let mut purge = PurgeParameters {
        trail: None,
        use_checkpoints: true,
        keep: KeepParameter::Files(1),
        every_minutes: EVERY_MINUTES_DEFAULT,
    };
    let mut checkpoints_decided = false;
    let mut frequency_decided = false;
    let mut is_first = true;
    cursor.take(',');
    while let Some(word) = cursor.word() {
        let option = word.value.to_ascii_uppercase();
        match option.as_str() {
            "USECHECKPOINTS" | "NOUSECHECKPOINTS" => {
                purge.use_checkpoints = option == "USECHECKPOINTS";
                once(cursor, &mut checkpoints_decided, &word)?;
            }
            "MINKEEPHOURS" => purge.keep = KeepParameter::Hours(number(cursor, &option)?),
            "MINKEEPDAYS" => purge.keep = KeepParameter::Hours(number(cursor, &option)?.saturating_mul(24)),
            "MINKEEPFILES" => {
                let files = number(cursor, &option)?;
                if let KeepParameter::Files(_) = purge.keep {
                    purge.keep = KeepParameter::Files(files);
                }
            }
            "FREQUENCYMINUTES" | "FREQUENCYHOURS" => {
                let unit = if option == "FREQUENCYHOURS" { 60 } else { 1 };
                purge.every_minutes = number(cursor, &option)?.saturating_mul(unit);
                once(cursor, &mut frequency_decided, &word)?;
            }
            _ if is_first && word.value.contains('/') => {
                check_trail(cursor, word.value, word.place)?;
                purge.trail = Some(word.value.to_owned());
            }
            _ => return Err(unknown_option(cursor, word, "PURGEOLDEXTRACTS", &OPTIONS)),
        }
        is_first = false;
        cursor.take(',');
    }
    raw.purge = Some(purge);
    raw.of_numbered_files.push(("PURGEOLDEXTRACTS", place));
    Ok(())
}

fn once(cursor: &Cursor<'_>, decided: &mut bool, word: &Written<&str>) -> Result<(), Diagnostic> {
    if std::mem::replace(decided, true) {
        let message = format!("{} decides what an earlier option decided", word.value.to_ascii_uppercase());
        return Err(cursor.error(word.place.clone(), message, "keep one of the two options"));
    }
    Ok(())
}

fn number(cursor: &mut Cursor<'_>, option: &str) -> Result<u32, Diagnostic> {
    let next_step = format!("write a whole number from 1 to {NUMBER_MAX} behind {option}");
    let Some(word) = cursor.word() else {
        return Err(cursor.error(cursor.end_place(), format!("{option} has no number"), next_step));
    };
    match word.value.parse::<u32>() {
        Ok(number) if (1..=NUMBER_MAX).contains(&number) => Ok(number),
        _ => Err(cursor.error(word.place, format!("`{}` is not a number for {option}", word.value), next_step)),
    }
}

#[cfg(test)]
mod tests {
    use crate::{KeepParameter, PurgeParameters, parse_replicat};

    fn read(options: &str) -> PurgeParameters {
        let text = format!("REPLICAT r1\nTARGETDB sqlite:a\nPURGEOLDEXTRACTS{options}\nMAP a.*, TARGET b.*;\n");
        parse_replicat(&text, "r1.prm").unwrap_or_else(|error| panic!("{error}")).purge.expect("it was given")
    }

    #[test]
    fn of_several_minkeep_options_the_fields_rule_says_which_counts() {
        for (options, expected) in [
            ("", KeepParameter::Files(1)),
            (" MINKEEPFILES 5", KeepParameter::Files(5)),
            (" MINKEEPHOURS 5", KeepParameter::Hours(5)),
            (" MINKEEPDAYS 2", KeepParameter::Hours(48)),
            // Hours and days together: the last one.
            (" MINKEEPHOURS 5, MINKEEPDAYS 2", KeepParameter::Hours(48)),
            (" MINKEEPDAYS 2, MINKEEPHOURS 5", KeepParameter::Hours(5)),
            // Files beside either: ignored, wherever they stand.
            (" MINKEEPFILES 9, MINKEEPHOURS 5", KeepParameter::Hours(5)),
            (" MINKEEPHOURS 5, MINKEEPFILES 9", KeepParameter::Hours(5)),
        ] {
            assert_eq!(read(options).keep, expected, "{options}");
        }
    }

    #[test]
    fn defaults_are_those_of_the_manager() {
        let purge = read("");
        assert_eq!((purge.trail, purge.use_checkpoints, purge.every_minutes), (None, true, 10));
        let purge = read(" ./dirdat/aa, nousecheckpoints, frequencyhours 2");
        assert_eq!(
            (purge.trail.as_deref(), purge.use_checkpoints, purge.every_minutes),
            (Some("./dirdat/aa"), false, 120)
        );
    }
}
