//! The parameter file of a Pump: an Extract whose source is a trail.

use crate::cursor::Cursor;
use crate::define::Reader;
use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::file::{Raw, Statements, diagnostics, refuse_excluded, values};
use crate::purge::PurgeParameters;
use crate::table::TableRules;
use std::ops::Range;

/// The parameters of a Pump.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PumpParameters {
    /// EXTRACT: the group's name, in upper case.
    pub group: String,
    /// EXTTRAIL: the trail that is written, as the operator wrote it.
    pub trail: String,
    /// The tables whose changes go along; `None` for all records as they are.
    pub tables: Option<TableRules>,
    /// PURGEOLDEXTRACTS, about the trail that is read.
    pub purge: Option<PurgeParameters>,
}

pub(crate) fn read_pass_through(_: &mut Cursor<'_>, raw: &mut Raw, _: Range<usize>) -> Result<(), Diagnostic> {
    raw.passes_through = true;
    Ok(())
}

/// Reads the parameter file of a Pump. `file` is what messages call it.
///
/// # Errors
/// [`Diagnostics`] with everything that is wrong, not only the first thing.
pub fn parse_pump(text: &str, file: &str) -> Result<PumpParameters, Diagnostics> {
    let (mut raw, mut errors) = Statements::read(text, Reader::Pump);
    let exclusions = std::mem::take(&mut raw.table_exclusions);
    for table in &raw.tables {
        refuse_excluded(text, &table.value.pattern, &exclusions, "TABLE", &mut errors);
        if table.value.key_columns.is_some() {
            let message = "a Pump sends rows as they are, so KEYCOLS has no effect";
            errors.push(Diagnostic::new(text, table.place.clone(), message, "give it to the Extract or the Replicat"));
        }
    }
    if raw.tables.is_empty() {
        for exclusion in &exclusions {
            let message = "TABLEEXCLUDE takes something away from TABLE statements, and there is none";
            errors.push(Diagnostic::new(text, exclusion.place.clone(), message, "add a line such as `TABLE main.*;`"));
        }
        if !raw.passes_through && errors.is_empty() {
            let message = "neither PASSTHRU nor TABLE says what is sent";
            let next_step = "add a line `PASSTHRU` for all records, or one such as `TABLE main.*;`";
            errors.push(Diagnostic::new(text, text.len()..text.len(), message, next_step));
        }
    }
    if let Some(place) = raw.trail_options {
        let message = "a copy has the format of the trail that is read, so this has no effect";
        errors.push(Diagnostic::new(text, place, message, "give it to the Extract that writes that trail"));
    }
    match (raw.group, raw.trail) {
        (Some(group), Some(trail)) if errors.is_empty() => {
            let tables = values(raw.tables);
            let tables = (!tables.is_empty()).then(|| TableRules { tables, excluded: values(exclusions) });
            Ok(PumpParameters { group, trail, tables, purge: raw.purge })
        }
        _ => Err(diagnostics(file, errors)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pump_sends_everything_or_what_tables_select() {
        let read = |text: &str| parse_pump(text, "p1.prm").unwrap_or_else(|wrong| panic!("{wrong}"));
        let all = read("EXTRACT p1\nPASSTHRU\nEXTTRAIL ./dirdat/bb\n");
        assert_eq!((&*all.trail, all.tables), ("./dirdat/bb", None));
        let some =
            read("EXTRACT p1\nEXTTRAIL ./dirdat/bb\nTABLE main.*;\nTABLEEXCLUDE main.tmp_*;\nPURGEOLDEXTRACTS\n");
        assert!(some.tables.is_some() && some.purge.is_some());
    }
}
