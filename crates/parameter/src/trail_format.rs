//! How an Extract's trail looks: the options of EXTTRAIL and the parameters beside it.

use crate::cursor::{Cursor, Written};
use crate::define::unknown_option;
use crate::diagnostic::Diagnostic;
use crate::file::Raw;
use std::ops::Range;

/// What the operator asks for; `None` leaves a thing to the release, and the release to the trail.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrailFormat {
    /// FORMAT RELEASE: major and minor number.
    pub release: Option<(u16, u16)>,
    /// OBJECTDEFS or NO_OBJECTDEFS.
    pub object_definitions: Option<bool>,
    /// TRAILBYTEORDER.
    pub byte_order: Option<TrailByteOrder>,
    /// UPDATERECORDFORMAT.
    pub updates: Option<UpdateRecordFormat>,
    /// RECOVERYOPTIONS: whether the trail is overwritten behind the write checkpoint.
    pub overwrite: Option<bool>,
    /// TRAIL_SEQLEN_6D.
    pub six_digits: bool,
}

/// TRAILBYTEORDER.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrailByteOrder {
    /// BIGENDIAN.
    Big,
    /// LITTLEENDIAN.
    Little,
    /// NATIVEENDIAN: that of the machine.
    Native,
}

/// UPDATERECORDFORMAT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpdateRecordFormat {
    /// FULL.
    Full,
    /// COMPACT.
    Compact,
}

const OPTIONS: [&str; 3] = ["FORMAT RELEASE", "OBJECTDEFS", "NO_OBJECTDEFS"];

/// Reads the options behind the name of the trail or file that `owner` names.
pub(crate) fn read_options(cursor: &mut Cursor<'_>, format: &mut TrailFormat, owner: &str) -> Result<(), Diagnostic> {
    loop {
        let comma = cursor.take(',');
        let Some(word) = cursor.word() else {
            if comma {
                let next_step = "remove the comma, or write an option after it";
                return Err(cursor.error(cursor.end_place(), "an option is missing after `,`", next_step));
            }
            return Ok(());
        };
        let option = word.value.to_ascii_uppercase();
        let is_repeated = match option.as_str() {
            "FORMAT" => format.release.replace(read_release(cursor, word.place.clone())?).is_some(),
            "OBJECTDEFS" => format.object_definitions.replace(true).is_some(),
            "NO_OBJECTDEFS" => format.object_definitions.replace(false).is_some(),
            "MEGABYTES" => {
                let next_step = match owner {
                    "EXTFILE" => "remove it: a single file is as long as what is written to it",
                    _ => "give it to the command ADD EXTTRAIL, which keeps it with the trail",
                };
                return Err(cursor.error(word.place, "MEGABYTES is no option of this parameter", next_step));
            }
            _ => return Err(unknown_option(cursor, word, owner, &OPTIONS)),
        };
        if is_repeated {
            let message = format!("{option} decides what an earlier option decided");
            return Err(cursor.error(word.place, message, "keep one of the two options"));
        }
    }
}

fn read_release(cursor: &mut Cursor<'_>, place: Range<usize>) -> Result<(u16, u16), Diagnostic> {
    const NEXT_STEP: &str = "write FORMAT RELEASE major.minor, such as FORMAT RELEASE 12.1";
    match cursor.word() {
        Some(word) if word.value.eq_ignore_ascii_case("RELEASE") => {}
        _ => return Err(cursor.error(place, "FORMAT is not followed by RELEASE", NEXT_STEP)),
    }
    let Written { value, place } = cursor.list_value("the release")?;
    let parts = value.split_once('.').and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
    parts.ok_or_else(|| cursor.error(place, format!("`{value}` is not a release"), NEXT_STEP))
}

pub(crate) fn read_byte_order(cursor: &mut Cursor<'_>, raw: &mut Raw, _: Range<usize>) -> Result<(), Diagnostic> {
    let orders = [
        ("BIGENDIAN", TrailByteOrder::Big),
        ("LITTLEENDIAN", TrailByteOrder::Little),
        ("NATIVEENDIAN", TrailByteOrder::Native),
    ];
    raw.trail_format.byte_order = Some(read_choice(cursor, "TRAILBYTEORDER", &orders)?);
    Ok(())
}

pub(crate) fn read_update_format(cursor: &mut Cursor<'_>, raw: &mut Raw, _: Range<usize>) -> Result<(), Diagnostic> {
    let formats = [("COMPACT", UpdateRecordFormat::Compact), ("FULL", UpdateRecordFormat::Full)];
    raw.trail_format.updates = Some(read_choice(cursor, "UPDATERECORDFORMAT", &formats)?);
    Ok(())
}

pub(crate) fn read_recovery(cursor: &mut Cursor<'_>, raw: &mut Raw, _: Range<usize>) -> Result<(), Diagnostic> {
    let modes = [("APPENDMODE", false), ("OVERWRITEMODE", true)];
    raw.trail_format.overwrite = Some(read_choice(cursor, "RECOVERYOPTIONS", &modes)?);
    Ok(())
}

pub(crate) fn read_six_digits(_: &mut Cursor<'_>, raw: &mut Raw, place: Range<usize>) -> Result<(), Diagnostic> {
    raw.trail_format.six_digits = true;
    raw.of_numbered_files.push(("TRAIL_SEQLEN_6D", place));
    Ok(())
}

fn read_choice<T: Copy>(cursor: &mut Cursor<'_>, owner: &str, choices: &[(&str, T)]) -> Result<T, Diagnostic> {
    let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
    let Some(word) = cursor.word() else {
        let next_step = format!("write one of {}", names.join(", "));
        return Err(cursor.error(cursor.end_place(), format!("{owner} has no option"), next_step));
    };
    match choices.iter().find(|(name, _)| word.value.eq_ignore_ascii_case(name)) {
        Some((_, choice)) => Ok(*choice),
        None => Err(unknown_option(cursor, word, owner, &names)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse_extract;

    fn format(lines: &str) -> TrailFormat {
        let text = format!("EXTRACT e1\nSOURCEDB sqlite:s.db\nEXTTRAIL ./dirdat/aa{lines}\nTABLE *;");
        parse_extract(&text, "e1.prm").expect("a valid file").format
    }

    #[test]
    fn options_of_the_trail_are_read_in_any_order_and_all_of_them_may_be_absent() {
        assert_eq!(format(""), TrailFormat::default());
        let asked = format(", no_objectdefs FORMAT RELEASE 12.2\nTRAILBYTEORDER BIGENDIAN\nUPDATERECORDFORMAT COMPACT");
        let expected = TrailFormat {
            release: Some((12, 2)),
            object_definitions: Some(false),
            byte_order: Some(TrailByteOrder::Big),
            updates: Some(UpdateRecordFormat::Compact),
            ..TrailFormat::default()
        };
        assert_eq!(asked, expected);
        let asked = format(", FORMAT RELEASE 11.2, OBJECTDEFS\nRECOVERYOPTIONS OVERWRITEMODE\nTRAIL_SEQLEN_6D");
        assert_eq!((asked.release, asked.object_definitions), (Some((11, 2)), Some(true)));
        assert_eq!((asked.overwrite, asked.six_digits), (Some(true), true));
    }
}
