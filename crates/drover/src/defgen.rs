//! Writing a definitions file: how the tables of a source look, for those who read a trail that does not say it.

use crate::{failure, wire};
use change::{CaseRule, TableDefinition};
use parameter::TablePlan;
use process::{Code, Failure, clock};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use trail::definitions_file;

/// What was written.
pub struct Written {
    /// The file.
    pub path: PathBuf,
    /// How many tables it defines.
    pub tables: usize,
}

/// Writes the file that `parameter_file` asks for. Relative paths in it count from `home`.
///
/// # Errors
/// When the parameters are wrong, the database refuses, a named table is missing, or the file can't be written.
pub fn run(parameter_file: &Path, home: &Path) -> Result<Written, Box<Failure>> {
    let shown = parameter_file.display().to_string();
    let text = std::fs::read_to_string(parameter_file).map_err(|error| {
        Box::new(Failure::new(Code::ParameterWrong, format!("could not read {shown}")).with_cause(&error))
    })?;
    let parameters = parameter::parse_definitions(&text, &shown)
        .map_err(|error| Box::new(Failure::new(Code::ParameterWrong, error.to_string())))?;
    let refused =
        |error: database::Error| Box::new(failure::of_database(&error).with_object(parameters.source.to_string()));
    let database = wire::open(home, parameters.source.reveal()).map_err(refused)?;
    let case = database.case_rule();
    let plan = parameters.tables.plan(case, &database.default_schema());
    let tables = chosen(database.tables().map_err(refused)?, &plan, case)?;
    let product = database.identity().map_err(refused)?.product;
    let path = home.join(&parameters.file);
    let wrong = |cause: &dyn std::error::Error| {
        let what = format!("could not write the definitions file {}", path.display());
        Box::new(Failure::new(Code::DefinitionsFileWrong, what).with_cause(cause))
    };
    let text = definitions_file::print(&tables, &product, case, clock::now()).map_err(|error| wrong(&error))?;
    write(&path, &text, parameters.replaces).map_err(|error| wrong(&error))?;
    Ok(Written { path, tables: tables.len() })
}

/// The tables that the TABLE statements select, each with the key that KEYCOLS gives it.
fn chosen(
    tables: Vec<TableDefinition>,
    plan: &TablePlan,
    case: CaseRule,
) -> Result<Vec<TableDefinition>, Box<Failure>> {
    let same = |one: &str, other: &str| match case {
        CaseRule::Insensitive => one.eq_ignore_ascii_case(other),
        CaseRule::FoldToLower | CaseRule::Sensitive => one == other,
    };
    for name in plan.required() {
        let is_it =
            |table: &TableDefinition| same(&table.name.schema, &name.schema) && same(&table.name.table, &name.table);
        if !tables.iter().any(is_it) {
            return Err(Box::new(Failure::new(Code::TableMissing, format!("there is no table {name}"))));
        }
    }
    let mut chosen: Vec<TableDefinition> = tables.into_iter().filter(|table| plan.selects(&table.name)).collect();
    for table in &mut chosen {
        let Some(key) = plan.key_columns(&table.name) else { continue };
        for part in &key {
            if !table.columns.iter().any(|column| same(&column.name, part)) {
                let what = format!("table {} has no column {part}, which KEYCOLS names", table.name);
                return Err(Box::new(Failure::new(Code::ParameterWrong, what)));
            }
        }
        for column in Arc::make_mut(&mut table.columns) {
            let place = key.iter().position(|part| same(part, &column.name));
            column.key = place.and_then(|place| u16::try_from(place).ok());
        }
    }
    Ok(chosen)
}

/// Writes the whole file or nothing.
fn write(path: &Path, text: &str, replaces: bool) -> std::io::Result<()> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    std::fs::create_dir_all(directory)?;
    let mut file = tempfile::Builder::new().prefix(".defgen").permissions(permissions()).tempfile_in(directory)?;
    file.write_all(text.as_bytes())?;
    file.as_file().sync_all()?;
    if replaces { file.persist(path) } else { file.persist_noclobber(path) }?;
    Ok(())
}

/// Those of any file that a program makes: the mask of the process applies.
fn permissions() -> std::fs::Permissions {
    std::os::unix::fs::PermissionsExt::from_mode(0o666)
}
