//! `drover compare`: whether two databases hold the same rows.

mod repair;

use clap::Args;
use database::compare::ComparisonSide;
use database::{Error, ErrorClass};
use reconcile::{CompareOptions, Comparison, Selection, SelectionRequest};
use std::error::Error as StdError;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

/// Exit status of a comparison that found a difference.
const DIFFERENT: u8 = 1;

/// Exit status of a comparison that came to no verdict.
const FAILED: u8 = 2;

/// Schemes that are known, with an example of each.
const SCHEMES: &str = "sqlite:PATH, postgres://user@host:port/database";

/// Options of a comparison.
#[derive(Args, Debug)]
pub struct Compare {
    /// The database that is right by definition, such as sqlite:shop.db
    #[arg(value_name = "SOURCE_URL")]
    pub source: String,

    /// The database that should be equal to it
    #[arg(value_name = "TARGET_URL")]
    pub target: String,

    /// Compare only these source tables, such as sales.orders or sales.*; may be repeated
    #[arg(long, value_name = "PATTERN")]
    pub tables: Vec<String>,

    /// Leave these source tables out; may be repeated
    #[arg(long, value_name = "PATTERN")]
    pub exclude: Vec<String>,

    /// Compare source tables with target tables of other names, such as --map 'hr.*' 'copy.*'; may be repeated, and then
    /// only mapped tables are compared
    #[arg(long, num_args = 2, value_names = ["SOURCE", "TARGET"])]
    pub map: Vec<String>,

    /// Rows to name in each table that differs; all are counted
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub rows: usize,

    /// Write SQL for the target that makes its rows those of the source into this file, to be read and then run
    #[arg(long, value_name = "FILE")]
    pub repair: Option<PathBuf>,

    /// Mend the rows of this side, so that they are those of the other one; then compare again. What is written is marked, so that no
    /// Extract captures it
    #[arg(long, value_name = "SIDE", value_parser = ["target", "source"], conflicts_with_all = ["repair", "json"])]
    pub apply: Option<String>,

    /// With --apply: how long changes may be on their way. Only rows that differ in the same way after this time are mended
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    pub settle: u64,

    /// Print one JSON object and nothing else
    #[arg(long)]
    pub json: bool,
}

/// Compares and prints.
pub fn run(options: &Compare) -> ExitCode {
    let compared = if options.apply.is_some() { repair::apply(options) } else { compare(options) };
    ended(compared.map(|comparison| comparison.equal))
}

/// The exit status of what was compared, an error being told.
pub(crate) fn ended(result: Result<bool, Failure>) -> ExitCode {
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(DIFFERENT),
        Err(Failure { error, next_step }) => {
            eprint!("{error}");
            let mut cause = error.source();
            while let Some(error) = cause {
                eprint!(": {error}");
                cause = error.source();
            }
            eprintln!();
            if let Some(next_step) = next_step {
                eprintln!("next step: {next_step}");
            }
            ExitCode::from(FAILED)
        }
    }
}

/// Why there is no verdict.
pub(crate) struct Failure {
    error: Box<dyn StdError>,
    next_step: Option<String>,
}

impl From<reconcile::Error> for Failure {
    fn from(error: reconcile::Error) -> Failure {
        Failure { next_step: error.next_step().map(str::to_owned), error: Box::new(error) }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure { next_step: error.next_step().map(str::to_owned), error: Box::new(error) }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure { error: Box::new(error), next_step: None }
    }
}

fn selection(options: &Compare) -> Result<Selection, Failure> {
    let maps = options.map.chunks_exact(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect();
    let request = SelectionRequest { tables: options.tables.clone(), excluded: options.exclude.clone(), maps };
    Ok(Selection::parse(&request)?)
}

fn compare(options: &Compare) -> Result<Comparison, Failure> {
    let selection = selection(options)?;
    let [mut source, mut target] = open_both(&options.source, &options.target)?;
    let mut output = io::stdout().lock();
    let mut printed = Ok(());
    if !options.json {
        writeln!(output, "source {}\ntarget {}\n", source.name(), target.name())?;
    }
    let compare_options = CompareOptions { selection, rows_named_max: options.rows, repair: options.repair.is_some() };
    let comparison = reconcile::compare(&mut *source, &mut *target, &compare_options, &mut |table| {
        if !options.json && printed.is_ok() {
            printed = writeln!(output, "{}", table.text());
        }
    })?;
    printed?;
    if let Some(file) = &options.repair {
        std::fs::write(file, plan(&comparison))?;
    }
    let closing = if options.json { comparison.json() } else { format!("\n{}", comparison.closing_text()) };
    writeln!(output, "{closing}")?;
    Ok(comparison)
}

/// The statements of all tables as one transaction, with what they do in front of them.
fn plan(comparison: &Comparison) -> String {
    let Comparison { source, target, tables, .. } = comparison;
    let mut text = format!("-- Makes the rows of {target} those of {source}.\n-- Read it before it is run.\nBEGIN;\n");
    for table in tables {
        match table.verdict {
            reconcile::TableVerdict::Equal => {}
            reconcile::TableVerdict::MissingAtTarget => {
                text.push_str(&format!("-- {}: the target has no such table\n", table.target));
            }
            reconcile::TableVerdict::ExtraAtTarget => {
                text.push_str(&format!("-- {}: the source has no such table\n", table.target));
            }
            reconcile::TableVerdict::Different => {
                let (extra, different, missing) = (table.extra, table.different, table.missing);
                text.push_str(&format!(
                    "-- {}: {extra} deleted, {different} updated, {missing} inserted\n",
                    table.target
                ));
                for column in table.columns_missing.iter().chain(&table.columns_extra) {
                    text.push_str(&format!("-- column {column} is on one side only and is left alone\n"));
                }
                table.repair.iter().for_each(|statement| {
                    text.push_str(statement);
                    text.push('\n');
                });
            }
        }
    }
    text.push_str("COMMIT;\n");
    text
}

/// Both sides, made comparable by their values where they hash rows each in a notation of its own.
fn open_both(source: &str, target: &str) -> Result<[Box<dyn ComparisonSide>; 2], Failure> {
    let (source, target) = (open(source)?, open(target)?);
    match source.notation() == target.notation() {
        true => Ok([source, target]),
        false => Ok(reconcile::translated(source, target)?),
    }
}

/// One side of the comparison, by the product that the url names.
pub(crate) fn open(url: &str) -> Result<Box<dyn ComparisonSide>, Error> {
    match url.split_once(':') {
        Some((scheme, path)) if scheme.eq_ignore_ascii_case("sqlite") => {
            db_sqlite::open_comparison(&format!("sqlite:{path}"))
        }
        Some((scheme, _)) if ["postgres", "postgresql"].contains(&scheme) => db_postgres::open_comparison(url),
        // What is no scheme may hold a password.
        _ => Err(Error::new(ErrorClass::Unsupported, "the url names no database product that can be compared")
            .with_next_step(format!("write one of: {SCHEMES}"))),
    }
}
