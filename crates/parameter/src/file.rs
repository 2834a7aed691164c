//! From the text of a parameter file to complete parameters.

use crate::cover::EncryptParameter;
use crate::cursor::{Cursor, Written};
use crate::define::{
    self, CONFLICT_SITES_DEFAULT, Ending, GROUP_TRANSACTIONS_DEFAULT, Occurrence, PARAMETERS, Parameter, Reader,
};
use crate::definition::{self, DefinitionRules};
use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::handling::{DiscardFile, HandlingRule};
use crate::log_kept::LogKeptLevels;
use crate::map::{MapRule, MapRules};
use crate::open::{BoundedParameters, CacheParameters, LongParameters};
use crate::partition::PartitionRules;
use crate::pattern::NamePattern;
use crate::purge::PurgeParameters;
use crate::remote::RemoteHost;
use crate::secret::DatabaseUrl;
use crate::suggestion::nearest;
use crate::table::{TableRule, TableRules};
use crate::trail_format::TrailFormat;

/// The parameters of an Extract.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExtractParameters {
    /// EXTRACT: the group's name, in upper case. Whether it is a name that a group may have is for the reader to check.
    pub group: String,
    /// SOURCEDB.
    pub source: DatabaseUrl,
    /// EXTTRAIL or EXTFILE: the trails that are written, as the operator wrote them, such as `./dirdat/aa`. Exactly one so far.
    pub trails: Vec<String>,
    /// How the trail looks and is recovered.
    pub format: TrailFormat,
    /// PARTITION and PARTITIONEXCLUDE.
    pub partitions: PartitionRules,
    /// TABLE and TABLEEXCLUDE.
    pub tables: TableRules,
    /// DDL; `None` without it.
    pub definitions: Option<DefinitionRules>,
    /// SEQUENCE: sequences that are carried, as tables are named.
    pub sequences: TableRules,
    /// PURGEOLDEXTRACTS.
    pub purge: Option<PurgeParameters>,
    /// CACHEMGR.
    pub cache: CacheParameters,
    /// BR.
    pub bounded: BoundedParameters,
    /// WARNLONGTRANS.
    pub long: LongParameters,
    /// ENCRYPTTRAIL.
    pub encrypt: Option<EncryptParameter>,
    /// COMPRESSTRAIL.
    pub compress: bool,
    /// WARNLOGKEPT.
    pub log_kept: LogKeptLevels,
    /// TRANLOGOPTIONS TWOPHASE: prepared transactions are read when they are prepared.
    pub two_phase: bool,
}

/// The parameters of a Replicat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicatParameters {
    /// REPLICAT: the group's name, in upper case. Whether it is a name that a group may have is for the reader to check.
    pub group: String,
    /// TARGETDB.
    pub target: DatabaseUrl,
    /// MAP and MAPEXCLUDE.
    pub map: MapRules,
    /// DDL, DDLOPTIONS and DDLERROR.
    pub definitions: DefinitionRules,
    /// SOURCEDEFS: files with definitions of the source's tables, as the operator wrote them.
    pub source_definitions: Vec<String>,
    /// DISCARDFILE: where rows go that are dropped, so that nothing is lost silently.
    pub discard_file: DiscardFile,
    /// CONFLICTSITES: how many sites write the tables for which there are rules for conflicts, this one included; at least 1.
    pub conflict_sites: u32,
    /// CONFLICTHOOK: a command with its arguments that is told of conflicts; empty when there is none.
    pub conflict_hook: Vec<String>,
    /// GROUPTRANSOPS: how many operations make a target transaction large enough to commit; at least 1.
    pub group_transactions: u32,
    /// How the work is shared.
    pub apply: ApplyParameters,
    /// DBOPTIONS: whether the target's triggers run.
    pub fire_triggers: bool,
    /// DBOPTIONS: whether the target's foreign keys are checked.
    pub check_foreign_keys: bool,
    /// PURGEOLDEXTRACTS.
    pub purge: Option<PurgeParameters>,
    /// DECRYPTTRAIL: the group does not start without a wallet.
    pub decrypt: bool,
}

/// How a Replicat shares its work between sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ApplyParameters {
    /// APPLY_PARALLELISM CLASSIC: one target transaction after another through one session.
    pub classic: bool,
    /// MIN_APPLY_PARALLELISM, or APPLY_PARALLELISM.
    pub least_appliers: u32,
    /// MAX_APPLY_PARALLELISM, or APPLY_PARALLELISM; at least as many.
    pub most_appliers: u32,
    /// LOOK_AHEAD_TRANSACTIONS.
    pub look_ahead: u32,
    /// COMMIT_SERIALIZATION.
    pub commit_serialization: bool,
    /// SPLIT_TRANS_RECS.
    pub split_operations: Option<u32>,
    /// The first of these parameters that the file has, if it has any.
    pub said: Option<&'static str>,
}

impl ApplyParameters {
    /// Appliers when nothing is said of them.
    const APPLIERS_DEFAULT: u32 = 4;
    /// LOOK_AHEAD_TRANSACTIONS when it is absent.
    const LOOK_AHEAD_DEFAULT: u32 = 10_000;

    fn of(raw: &Raw) -> ApplyParameters {
        let fixed = raw.appliers.unwrap_or(Some(Self::APPLIERS_DEFAULT)).unwrap_or(1);
        let (least, most) = match (raw.least_appliers, raw.most_appliers) {
            (None, None) => (fixed, fixed),
            (Some(least), None) => (least, least.max(Self::APPLIERS_DEFAULT)),
            (None, Some(most)) => (1, most),
            (Some(least), Some(most)) => (least, most),
        };
        ApplyParameters {
            classic: raw.appliers == Some(None),
            least_appliers: least,
            most_appliers: most,
            look_ahead: raw.look_ahead.unwrap_or(Self::LOOK_AHEAD_DEFAULT),
            commit_serialization: raw.commit_serialization,
            split_operations: raw.split_operations,
            said: [
                ("APPLY_PARALLELISM", raw.appliers.is_some()),
                ("MIN_APPLY_PARALLELISM", raw.least_appliers.is_some()),
                ("MAX_APPLY_PARALLELISM", raw.most_appliers.is_some()),
                ("LOOK_AHEAD_TRANSACTIONS", raw.look_ahead.is_some()),
                ("COMMIT_SERIALIZATION", raw.commit_serialization),
                ("SPLIT_TRANS_RECS", raw.split_operations.is_some()),
            ]
            .into_iter()
            .find_map(|(name, is_said)| is_said.then_some(name)),
        }
    }
}

/// The parameters of DEFGEN.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefinitionsParameters {
    /// DEFSFILE: the file to write, as the operator wrote it.
    pub file: String,
    /// Whether a file that is there is replaced.
    pub replaces: bool,
    /// SOURCEDB.
    pub source: DatabaseUrl,
    /// TABLE and TABLEEXCLUDE.
    pub tables: TableRules,
}

/// What was written, before anything is known to be complete.
#[derive(Default)]
pub(crate) struct Raw {
    pub(crate) group: Option<String>,
    pub(crate) source: Option<DatabaseUrl>,
    pub(crate) target: Option<DatabaseUrl>,
    pub(crate) trail: Option<String>,
    /// EXTFILE names it.
    pub(crate) is_single_file: bool,
    /// RMTHOST.
    pub(crate) remote_host: Option<Written<RemoteHost>>,
    /// RMTTRAIL or RMTFILE.
    pub(crate) remote_trail: Option<String>,
    /// Statements that mean nothing to a single file.
    pub(crate) of_numbered_files: Vec<(&'static str, std::ops::Range<usize>)>,
    pub(crate) passes_through: bool,
    /// Where EXTTRAIL says how the trail looks.
    pub(crate) trail_options: Option<std::ops::Range<usize>>,
    pub(crate) definitions_file: Option<String>,
    pub(crate) replaces_definitions: bool,
    pub(crate) source_definitions: Vec<String>,
    pub(crate) trail_format: TrailFormat,
    pub(crate) partitions: PartitionRules,
    pub(crate) log_kept: Option<LogKeptLevels>,
    pub(crate) two_phase: Option<bool>,
    pub(crate) tables: Vec<Written<TableRule>>,
    pub(crate) table_exclusions: Vec<Written<NamePattern>>,
    pub(crate) definitions: Option<DefinitionRules>,
    pub(crate) definition_options: Option<(bool, std::ops::Range<usize>)>,
    pub(crate) definition_errors: Vec<crate::definition::ErrorRule>,
    pub(crate) sequences: Vec<Written<NamePattern>>,
    pub(crate) cache: Option<CacheParameters>,
    pub(crate) bounded: Option<BoundedParameters>,
    pub(crate) long: Option<LongParameters>,
    pub(crate) maps: Vec<Written<MapRule>>,
    pub(crate) map_exclusions: Vec<Written<NamePattern>>,
    /// What holds for the MAP statements that follow.
    pub(crate) handling: HandlingRule,
    /// Toggles behind the last MAP.
    pub(crate) toggles: Vec<(&'static str, std::ops::Range<usize>)>,
    /// Where a MAP asks for exceptions that it has no mapping for.
    pub(crate) exceptions_wanted: Vec<(usize, std::ops::Range<usize>)>,
    pub(crate) discard_file: Option<DiscardFile>,
    pub(crate) conflict_sites: Option<u32>,
    pub(crate) conflict_hook: Vec<String>,
    pub(crate) group_transactions: Option<u32>,
    /// A number, or CLASSIC.
    pub(crate) appliers: Option<Option<u32>>,
    pub(crate) least_appliers: Option<u32>,
    pub(crate) most_appliers: Option<u32>,
    pub(crate) look_ahead: Option<u32>,
    pub(crate) commit_serialization: bool,
    pub(crate) split_operations: Option<u32>,
    pub(crate) fire_triggers: Option<bool>,
    pub(crate) check_foreign_keys: Option<bool>,
    pub(crate) purge: Option<PurgeParameters>,
    pub(crate) encrypt: Option<EncryptParameter>,
    pub(crate) compress: bool,
    pub(crate) decrypt: bool,
}

/// Reads the parameter file of an Extract. `file` is what messages call it.
///
/// # Errors
/// [`Diagnostics`] with everything that is wrong, not only the first thing.
pub fn parse_extract(text: &str, file: &str) -> Result<ExtractParameters, Diagnostics> {
    let (mut raw, mut errors) = Statements::read(text, Reader::Extract);
    let exclusions = std::mem::take(&mut raw.table_exclusions);
    for table in &raw.tables {
        refuse_excluded(text, &table.value.pattern, &exclusions, "TABLE", &mut errors);
    }
    for (name, place) in raw.of_numbered_files.iter().filter(|_| raw.is_single_file) {
        let message = format!("{name} has no effect with EXTFILE, which writes one file without a number");
        errors.push(Diagnostic::new(text, place.clone(), message, "remove it, or write a trail with EXTTRAIL"));
    }
    if let (None, Some((_, place))) = (&raw.definitions, &raw.definition_options) {
        let message = "DDLOPTIONS has no effect without DDL";
        errors.push(Diagnostic::new(text, place.clone(), message, "add DDL, or remove DDLOPTIONS"));
    }
    let definitions = definition::rules_of(&mut raw);
    let sequences = values(std::mem::take(&mut raw.sequences)).into_iter();
    let sequences = sequences.map(|pattern| TableRule { pattern, key_columns: None }).collect();
    match (raw.group, raw.source, raw.trail) {
        (Some(group), Some(source), Some(trail)) if errors.is_empty() => Ok(ExtractParameters {
            group,
            source,
            trails: vec![trail],
            format: raw.trail_format,
            partitions: raw.partitions,
            tables: TableRules { tables: values(raw.tables), excluded: values(exclusions) },
            definitions,
            sequences: TableRules { tables: sequences, excluded: Vec::new() },
            purge: raw.purge,
            cache: raw.cache.unwrap_or_default(),
            bounded: raw.bounded.unwrap_or_default(),
            long: raw.long.unwrap_or_default(),
            encrypt: raw.encrypt,
            compress: raw.compress,
            log_kept: raw.log_kept.unwrap_or_default(),
            two_phase: raw.two_phase.unwrap_or_default(),
        }),
        _ => Err(diagnostics(file, errors)),
    }
}

/// Reads the parameter file of DEFGEN. `file` is what messages call it.
///
/// # Errors
/// [`Diagnostics`] with everything that is wrong, not only the first thing.
pub fn parse_definitions(text: &str, file: &str) -> Result<DefinitionsParameters, Diagnostics> {
    let (mut raw, mut errors) = Statements::read(text, Reader::Definitions);
    let exclusions = std::mem::take(&mut raw.table_exclusions);
    for table in &raw.tables {
        refuse_excluded(text, &table.value.pattern, &exclusions, "TABLE", &mut errors);
    }
    match (raw.definitions_file, raw.source) {
        (Some(definitions), Some(source)) if errors.is_empty() => Ok(DefinitionsParameters {
            file: definitions,
            replaces: raw.replaces_definitions,
            source,
            tables: TableRules { tables: values(raw.tables), excluded: values(exclusions) },
        }),
        _ => Err(diagnostics(file, errors)),
    }
}

/// Reads the parameter file of a Replicat. `file` is what messages call it.
///
/// # Errors
/// [`Diagnostics`] with everything that is wrong, not only the first thing.
pub fn parse_replicat(text: &str, file: &str) -> Result<ReplicatParameters, Diagnostics> {
    let (mut raw, mut errors) = Statements::read(text, Reader::Replicat);
    let exclusions = std::mem::take(&mut raw.map_exclusions);
    for map in &raw.maps {
        refuse_excluded(text, &map.value.source, &exclusions, "MAP", &mut errors);
    }
    for (name, place) in &raw.toggles {
        let message = format!("{name} stands behind the last MAP, so it has no effect");
        errors.push(Diagnostic::new(text, place.clone(), message, "put it before the MAP statements that it is for"));
    }
    for (map, place) in &raw.exceptions_wanted {
        if raw.maps.get(*map).is_some_and(|map| map.value.handling.exceptions.is_none()) {
            let message = "EXCEPTION has nowhere to go: the MAP has no exceptions mapping";
            let next_step =
                "add MAPEXCEPTION (TARGET table, INSERTALLRECORDS) to it, or a MAP with EXCEPTIONSONLY behind it";
            errors.push(Diagnostic::new(text, place.clone(), message, next_step));
        }
    }
    let apply = ApplyParameters::of(&raw);
    raw.definitions.get_or_insert_with(DefinitionRules::mapped);
    let definitions = definition::rules_of(&mut raw).unwrap_or_else(DefinitionRules::mapped);
    match (raw.group, raw.target) {
        (Some(group), Some(target)) if errors.is_empty() => Ok(ReplicatParameters {
            apply,
            group,
            target,
            map: MapRules { maps: values(raw.maps), excluded: values(exclusions) },
            definitions,
            source_definitions: raw.source_definitions,
            discard_file: raw.discard_file.unwrap_or_default(),
            conflict_sites: raw.conflict_sites.unwrap_or(CONFLICT_SITES_DEFAULT),
            conflict_hook: raw.conflict_hook,
            group_transactions: raw.group_transactions.unwrap_or(GROUP_TRANSACTIONS_DEFAULT),
            fire_triggers: raw.fire_triggers.unwrap_or(false),
            check_foreign_keys: raw.check_foreign_keys.unwrap_or(false),
            purge: raw.purge,
            decrypt: raw.decrypt,
        }),
        _ => Err(diagnostics(file, errors)),
    }
}

pub(crate) fn values<T>(written: Vec<Written<T>>) -> Vec<T> {
    written.into_iter().map(|written| written.value).collect()
}

pub(crate) fn diagnostics(file: &str, mut list: Vec<Diagnostic>) -> Diagnostics {
    list.sort_by_key(|diagnostic| (diagnostic.line, diagnostic.column));
    Diagnostics { file: file.to_owned(), list }
}

/// A statement whose own name is excluded would have no effect.
pub(crate) fn refuse_excluded(
    text: &str,
    pattern: &NamePattern,
    exclusions: &[Written<NamePattern>],
    name: &str,
    errors: &mut Vec<Diagnostic>,
) {
    for exclusion in exclusions.iter().filter(|exclusion| exclusion.value == *pattern) {
        let message = format!("this exclusion takes away all that a {name} statement with the same name selects");
        let next_step = format!("remove the {name} statement or the exclusion");
        errors.push(Diagnostic::new(text, exclusion.place.clone(), message, next_step));
    }
}

/// The statements of a file, read one after another.
pub(crate) struct Statements<'text> {
    cursor: Cursor<'text>,
    reader: Reader,
    raw: Raw,
    /// Parameters that stood in the file so far.
    seen: Vec<&'static str>,
    /// The file starts by naming a group of the other process: nothing more needs to be said about it.
    is_of_other_process: bool,
    errors: Vec<Diagnostic>,
}

impl<'text> Statements<'text> {
    pub(crate) fn read(text: &'text str, reader: Reader) -> (Raw, Vec<Diagnostic>) {
        let cursor = Cursor::new(text);
        let mut statements = Statements {
            cursor,
            reader,
            raw: Raw::default(),
            seen: Vec::new(),
            is_of_other_process: false,
            errors: Vec::new(),
        };
        loop {
            statements.cursor.set_across_lines(true);
            if statements.cursor.peek().is_none() {
                break;
            }
            if let Err(error) = statements.statement() {
                statements.errors.push(error);
                if statements.is_of_other_process {
                    break;
                }
                statements.cursor.recover(|word| define::find(word).is_some());
            }
        }
        statements.demand_mandatory();
        (statements.raw, statements.errors)
    }

    fn statement(&mut self) -> Result<(), Diagnostic> {
        let cursor = &mut self.cursor;
        let Some(word) = cursor.word() else {
            // Only punctuation starts a statement without being a word. It is passed so that reading goes on.
            let next = cursor.peek().unwrap_or(';');
            cursor.take(next);
            let end = cursor.end_place().end;
            let next_step = "remove it; each statement starts with the name of a parameter";
            return Err(cursor.error(end - next.len_utf8()..end, format!("unexpected `{next}`"), next_step));
        };
        if word.value.eq_ignore_ascii_case("COMMENT") {
            cursor.skip_line();
            return Ok(());
        }
        cursor.set_across_lines(false);
        let parameter = find(cursor, &word)?;
        cursor.set_across_lines(parameter.ending == Ending::Semicolon);
        self.check_place(parameter, &word)?;
        self.seen.push(parameter.name);
        (parameter.read)(&mut self.cursor, &mut self.raw, word.place)?;
        self.end(parameter)
    }

    /// Refuses a parameter of the other process, one that is there already, and one before the group is named.
    fn check_place(&mut self, parameter: &Parameter, word: &Written<&str>) -> Result<(), Diagnostic> {
        let name = parameter.name;
        let text = self.cursor.text();
        let refuse =
            |message: String, next_step: String| Err(Diagnostic::new(text, word.place.clone(), message, next_step));
        let own_name = group_parameter(self.reader);
        if self.seen.is_empty() && self.errors.is_empty() && name != own_name.name {
            let message = format!("the file of {} starts with {}", self.reader.name(), own_name.name);
            self.is_of_other_process = PROCESSES.iter().any(|process| group_parameter(*process).name == name);
            let next_step = match (self.is_of_other_process, parameter.reader) {
                (true, Reader::Definitions) => "this is the file of DEFGEN: give it to drover defgen".to_owned(),
                (true, reader) => format!("this is the file of {}: use it for such a group", reader.name()),
                (false, _) => format!("make `{} {}` the first line", own_name.name, own_name.grammar),
            };
            return refuse(message, next_step);
        }
        if !parameter.reader.includes(self.reader) {
            let message = format!("{name} is a parameter of {}", parameter.reader.name());
            return refuse(message, format!("remove it from this file, which is that of {}", self.reader.name()));
        }
        if let Some([before, ..]) = parameter.follows.filter(|names| names.iter().all(|name| self.misses(name))) {
            return refuse(format!("{name} stands before {before}"), format!("put the {before} line before it"));
        }
        if let Occurrence::OneOf(names) = parameter.occurrence
            && let Some(other) = self.seen.iter().find(|seen| **seen != name && names.contains(seen))
        {
            return refuse(format!("{name} and {other} exclude each other"), "keep one of them".to_owned());
        }
        let once = matches!(parameter.occurrence, Occurrence::Once | Occurrence::Optional | Occurrence::OneOf(_));
        if once && self.seen.contains(&name) {
            return refuse(format!("{name} is given more than once"), "keep one of them".to_owned());
        }
        Ok(())
    }

    /// Whether a parameter of this process has not been read yet.
    fn misses(&self, name: &str) -> bool {
        define::find(name).is_some_and(|found| found.reader.includes(self.reader)) && !self.seen.contains(&name)
    }

    /// Reads the end of a statement.
    fn end(&mut self, parameter: &Parameter) -> Result<(), Diagnostic> {
        let cursor = &mut self.cursor;
        let name = parameter.name;
        if parameter.ending == Ending::Semicolon {
            if cursor.take(';') {
                return Ok(());
            }
            if cursor.peek().is_none() || cursor.starts_statement(|word| define::find(word).is_some()) {
                let message = format!("the {name} statement does not end");
                return Err(cursor.error(cursor.end_place(), message, "end it with `;`"));
            }
        }
        if parameter.ending == Ending::LineOrSemicolon && cursor.take(';') {
            return Ok(());
        }
        let Some(next) = cursor.peek() else { return Ok(()) };
        let usage = format!("write {name} {}", parameter.grammar).trim_end().to_owned();
        match cursor.peek_word() {
            Some(word) => {
                let message = format!("unexpected {} after {name}", cursor.quote(&word));
                Err(cursor.error(word.place, message, usage))
            }
            None => {
                let start = cursor.offset();
                let message = format!("unexpected `{next}` after {name}");
                Err(cursor.error(start..start + next.len_utf8(), message, usage))
            }
        }
    }

    fn demand_mandatory(&mut self) {
        // What was there but could not be read is reported already, and hides what would follow from it.
        if !self.errors.is_empty() {
            return;
        }
        for parameter in PARAMETERS.iter().filter(|parameter| parameter.reader.includes(self.reader)) {
            let is_missing = match parameter.occurrence {
                // A Pump may send everything.
                Occurrence::OneOrMore if self.reader == Reader::Pump => false,
                Occurrence::Once | Occurrence::OneOrMore => !self.seen.contains(&parameter.name),
                // Said once, about the first of them.
                Occurrence::OneOf(names) => {
                    names.first() == Some(&parameter.name) && !names.iter().any(|name| self.seen.contains(name))
                }
                Occurrence::Optional | Occurrence::Any => false,
            };
            if is_missing {
                let is_remote = parameter.name == "EXTTRAIL" && self.seen.contains(&"RMTHOST");
                let parameter = define::find("RMTTRAIL").filter(|_| is_remote).unwrap_or(parameter);
                let message = format!("{} is missing", parameter.name);
                let next_step = format!("add a line such as `{}`", parameter.example);
                self.errors.push(self.cursor.error(self.cursor.end_place(), message, next_step));
            }
        }
    }
}

/// Readers that each have a file of their own.
const PROCESSES: [Reader; 3] = [Reader::Extract, Reader::Replicat, Reader::Definitions];

/// The parameter that a process's file starts with.
fn group_parameter(reader: Reader) -> &'static Parameter {
    let reader = if matches!(reader, Reader::Extract | Reader::Pump) { Reader::AnyExtract } else { reader };
    let own = PARAMETERS.iter().find(|parameter| parameter.reader == reader);
    own.expect("each process has a parameter that its file starts with")
}

fn find(cursor: &Cursor<'_>, word: &Written<&str>) -> Result<&'static Parameter, Diagnostic> {
    define::find(word.value).ok_or_else(|| {
        let next_step = match nearest(word.value, PARAMETERS.iter().map(|parameter| parameter.name)) {
            Some(meant) => format!("did you mean {meant}?"),
            None => "see docs/reference/parameters.md for all parameters".to_owned(),
        };
        cursor.error(word.place.clone(), format!("unknown parameter `{}`", word.value), next_step)
    })
}
