//! The parameter file of a Pump: an Extract whose source is a trail.

use crate::cursor::Cursor;
use crate::define::Reader;
use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::file::{Raw, Statements, diagnostics, refuse_excluded, values};
use crate::purge::PurgeParameters;
use crate::remote::RemoteHost;
use crate::table::TableRules;
use std::ops::Range;

/// The parameters of a Pump.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PumpParameters {
    /// EXTRACT: the group's name, in upper case.
    pub group: String,
    /// Where the records go.
    pub output: PumpOutput,
    /// The tables whose changes go along; `None` for all records as they are.
    pub tables: Option<TableRules>,
    /// PURGEOLDEXTRACTS, about the trail that is read.
    pub purge: Option<PurgeParameters>,
}

/// Where a Pump's records go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PumpOutput {
    /// EXTTRAIL: a trail of this home, as the operator wrote it.
    Local(String),
    /// RMTHOST with RMTTRAIL or RMTFILE: a trail or a single file of another home.
    Remote(RemoteHost, String),
}

impl PumpOutput {
    /// The trail or file, as the operator wrote it.
    pub fn name(&self) -> &str {
        match self {
            PumpOutput::Local(name) | PumpOutput::Remote(_, name) => name,
        }
    }
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
    let output = match (raw.trail, raw.remote_host, raw.remote_trail) {
        (Some(trail), None, None) => Some(PumpOutput::Local(trail)),
        (None, Some(host), Some(trail)) => Some(PumpOutput::Remote(host.value, trail)),
        (Some(_), Some(host), None) => {
            let message = "RMTHOST has no effect beside EXTTRAIL, which is a trail of this home";
            errors.push(Diagnostic::new(
                text,
                host.place,
                message,
                "remove it, or write RMTTRAIL in place of EXTTRAIL",
            ));
            None
        }
        _ => None,
    };
    match (raw.group, output) {
        (Some(group), Some(output)) if errors.is_empty() => {
            let tables = values(raw.tables);
            let tables = (!tables.is_empty()).then(|| TableRules { tables, excluded: values(exclusions) });
            Ok(PumpParameters { group, output, tables, purge: raw.purge })
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
        assert_eq!((all.output, all.tables), (PumpOutput::Local("./dirdat/bb".to_owned()), None));
        let some =
            read("EXTRACT p1\nEXTTRAIL ./dirdat/bb\nTABLE main.*;\nTABLEEXCLUDE main.tmp_*;\nPURGEOLDEXTRACTS\n");
        assert!(some.tables.is_some() && some.purge.is_some());
    }

    #[test]
    fn a_pump_sends_to_another_home() {
        let read = |text: &str| parse_pump(text, "p1.prm").unwrap_or_else(|wrong| panic!("{wrong}")).output;
        let all = "EXTRACT p1\nRMTHOST shop2.example, MGRPORT 7900, CERTIFICATE p1, COMPRESS, COMPRESSTHRESHOLD 2000, \
                   BANDWIDTH 2M, TIMEOUT 60\nRMTTRAIL ./dirdat/bb\nPASSTHRU\n";
        let host = RemoteHost {
            host: "shop2.example".to_owned(),
            port: 7900,
            certificate: Some("p1".to_owned()),
            compress_from: Some(2000),
            bandwidth: Some(2 << 20),
            silence: Some(60),
        };
        assert_eq!(read(all), PumpOutput::Remote(host, "./dirdat/bb".to_owned()));
        let PumpOutput::Remote(host, file) =
            read("EXTRACT p1\nRMTHOST 10.0.0.7:99\nRMTFILE ./dirdat/x.ext\nPASSTHRU\n")
        else {
            panic!("it goes to another home")
        };
        assert_eq!((&*host.host, host.port, host.compress_from, &*file), ("10.0.0.7", 99, None, "./dirdat/x.ext"));
        for (written, name, port) in
            [("[::1]:99", "::1", 99), ("[::1]", "::1", 7820), ("::1", "::1", 7820), ("b", "b", 7820)]
        {
            let text = format!("EXTRACT p1\nRMTHOST {written}, COMPRESS\nRMTTRAIL bb\nPASSTHRU\n");
            let PumpOutput::Remote(host, _) = read(&text) else { panic!("it goes to another home") };
            assert_eq!((&*host.host, host.port, host.compress_from), (name, port, Some(1000)), "{written}");
        }
    }
}
