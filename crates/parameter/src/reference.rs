//! The reference page of all parameters.

use crate::define::{Ending, Occurrence, PARAMETERS, Reader};
use std::fmt::Write;

const INTRODUCTION: &str = "\
# Parameters

An Extract reads `dirprm/<group>.prm` of its home, and so do a Pump and a Replicat; `drover defgen` reads the file that it is given.
This page is generated from the table that the parser itself works with.

- A line is a statement, unless `&` stands at its end: then the next line belongs to it. TABLE, MAP and their exclusions end
  with `;` and may run over lines.
- `--` starts a comment wherever a word could start; so does `COMMENT` at the start of a statement.
- Names of parameters may be written in any case. EXTRACT, REPLICAT or DEFSFILE stands first.
- Values that hold blanks stand in single quotes; inside, `''` stands for one quote.
- Table names are `table` or `schema.table`. `*` stands for any run of characters, in each part; every other character stands
  for itself, `_`, `%` and `?` too.
- Names follow the case rule of their database: SQLite does not tell `T` from `t`; PostgreSQL folds names without quotes to
  lower case. What stands in double quotes is literal and, where the database knows case, exact; a part may mix both:
  `\"Order\"*` matches `Orders`.
- Nothing that is not understood is passed over. The group does not start, and each message shows the place.
";

/// The text of `docs/reference/parameters.md`.
pub fn reference() -> String {
    let mut page = INTRODUCTION.to_owned();
    let readers = [
        (Reader::Extract, "Extract"),
        (Reader::Pump, "Pump"),
        (Reader::Replicat, "Replicat"),
        (Reader::Definitions, "DEFGEN"),
    ];
    for (reader, title) in readers {
        _ = writeln!(page, "\n## {title}");
        for parameter in PARAMETERS.iter().filter(|parameter| parameter.reader.includes(reader)) {
            let occurrence = match parameter.occurrence {
                Occurrence::Once => "Exactly once.".to_owned(),
                Occurrence::Optional => "At most once.".to_owned(),
                Occurrence::OneOrMore => "At least once.".to_owned(),
                Occurrence::OneOf(names) => format!("One of {}, once.", listed(names)),
                Occurrence::Any => "Any number of times.".to_owned(),
            };
            let ending = match parameter.ending {
                Ending::Line => "Ends with its line.",
                Ending::Semicolon => "Ends with `;`.",
                Ending::LineOrSemicolon => "Ends with its line, or at `;`.",
            };
            let default = parameter.default.map(|default| format!(" Default: `{default}`.")).unwrap_or_default();
            let (name, grammar, summary, help, example) =
                (parameter.name, parameter.grammar, parameter.summary, parameter.help, parameter.example);
            let usage = format!("{name} {grammar}");
            let usage = usage.trim_end();
            _ = write!(
                page,
                "\n### {name}\n\n{summary}\n\n```\n{usage}\n```\n\n{occurrence} {ending}{default}\n\n{help}\n\n\
                 Example:\n\n```\n{example}\n```\n"
            );
        }
    }
    page
}

/// `A, B and C`.
fn listed(names: &[&str]) -> String {
    match names {
        [first @ .., last] if !first.is_empty() => format!("{} and {last}", first.join(", ")),
        _ => names.concat(),
    }
}
