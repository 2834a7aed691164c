//! ADD, INFO and DELETE of TRANDATA and SCHEMATRANDATA

use crate::console::parse::Command;
use crate::console::{Console, Failure};
use change::{CaseRule, TableName};
use database::{Database, RowIdentity, RowLogging};

/// ADD TRANDATA
pub fn add(console: &mut Console<'_>, command: &Command) -> Result<(), Failure> {
    let database = console.login()?;
    let tables = tables(&*database, command.argument())?;
    set(console, &*database, &tables, command.has("ALLCOLS"))
}

/// INFO TRANDATA
pub fn info(console: &mut Console<'_>, command: &Command) -> Result<(), Failure> {
    let database = console.login()?;
    let tables = tables(&*database, command.argument())?;
    show(console, &tables)
}

/// DELETE TRANDATA
pub fn delete(console: &mut Console<'_>, command: &Command) -> Result<(), Failure> {
    let database = console.login()?;
    let tables = tables(&*database, command.argument())?;
    reset(console, &*database, &tables)
}

/// ADD SCHEMATRANDATA
pub fn add_schema(console: &mut Console<'_>, command: &Command) -> Result<(), Failure> {
    let database = console.login()?;
    let tables = tables_of_schema(&*database, command.argument())?;
    set(console, &*database, &tables, command.has("ALLCOLS"))?;
    writeln!(console.output, "Tables that are made later need the command again, or ADD TRANDATA.")?;
    Ok(())
}

/// INFO SCHEMATRANDATA
pub fn info_schema(console: &mut Console<'_>, command: &Command) -> Result<(), Failure> {
    let database = console.login()?;
    let tables = tables_of_schema(&*database, command.argument())?;
    show(console, &tables)
}

/// DELETE SCHEMATRANDATA
pub fn delete_schema(console: &mut Console<'_>, command: &Command) -> Result<(), Failure> {
    let database = console.login()?;
    let tables = tables_of_schema(&*database, command.argument())?;
    reset(console, &*database, &tables)
}

fn set(
    console: &mut Console<'_>,
    database: &dyn Database,
    tables: &[RowLogging],
    all_columns: bool,
) -> Result<(), Failure> {
    for table in tables {
        let told = database.set_row_logging(&table.table, all_columns)?;
        let why = match told.identity {
            RowIdentity::AllColumns if !all_columns => " (it has no key)",
            _ => "",
        };
        writeln!(console.output, "TRANDATA added for {}: the log tells {}{why}.", told.table, told.identity)?;
    }
    Ok(())
}

fn reset(console: &mut Console<'_>, database: &dyn Database, tables: &[RowLogging]) -> Result<(), Failure> {
    for table in tables {
        let told = database.reset_row_logging(&table.table)?;
        writeln!(console.output, "TRANDATA deleted for {}: the log tells {}.", told.table, told.identity)?;
    }
    Ok(())
}

fn show(console: &mut Console<'_>, tables: &[RowLogging]) -> Result<(), Failure> {
    for table in tables {
        let RowLogging { table, identity } = table;
        match identity {
            RowIdentity::Nothing => writeln!(
                console.output,
                "{table}: of old rows the log tells nothing; updates and deletes can't be captured before ADD TRANDATA."
            )?,
            _ => writeln!(console.output, "{table}: of old rows the log tells {identity}.")?,
        }
    }
    Ok(())
}

fn all(database: &dyn Database) -> Result<Vec<RowLogging>, Failure> {
    database.row_logging()?.ok_or_else(|| {
        Failure::new("this database's capture always tells whole rows: there is no TRANDATA to add, show or delete")
    })
}

/// The tables that a name with or without wildcards stands for.
fn tables(database: &dyn Database, text: &str) -> Result<Vec<RowLogging>, Failure> {
    let wrong = |error: parameter::Diagnostic| Failure::new(error.message).with_next_step(error.next_step);
    let plan = parameter::tables_named(text).map_err(wrong)?.plan(database.case_rule(), &database.default_schema());
    let found: Vec<RowLogging> = all(database)?.into_iter().filter(|known| plan.selects(&known.table)).collect();
    if found.is_empty() {
        return Err(Failure::new(format!("no table of this database is called {text}"))
            .with_next_step("check the name; names without quotes are lower case in PostgreSQL"));
    }
    Ok(found)
}

fn tables_of_schema(database: &dyn Database, schema: &str) -> Result<Vec<RowLogging>, Failure> {
    let name = match (schema.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')), database.case_rule()) {
        (Some(quoted), _) => quoted.to_owned(),
        (None, CaseRule::FoldToLower) => schema.to_lowercase(),
        (None, _) => schema.to_owned(),
    };
    let is_of = |table: &TableName| table.schema == name;
    let found: Vec<RowLogging> = all(database)?.into_iter().filter(|known| is_of(&known.table)).collect();
    if found.is_empty() {
        return Err(Failure::new(format!("schema {name} has no table, or does not exist"))
            .with_next_step("check the name; names without quotes are lower case in PostgreSQL"));
    }
    Ok(found)
}
