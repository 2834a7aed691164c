//! `drover differences` and `drover rectify`: which rows only one of two sites has, and making one site equal to the other.

use crate::compare::{Failure, ended, open};
use change::TableName;
use clap::Args;
use database::compare::ComparisonSide;
use database::{Database, Error, ForeignKeyPolicy, Session, SessionRequest, TriggerPolicy};
use reconcile::{DifferencesOptions, DifferencesSites, RectifySites, SharedTableRequest};
use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

/// The name under which these writes are marked.
const GROUP: &str = "RECTIFY";

/// Rows in one transaction, as in DBMS_RECTIFIER_DIFF.
const COMMIT_ROWS: usize = 500;

/// Which sites and which tables.
#[derive(Args, Debug)]
pub struct SharedTable {
    /// The database that is right by definition, such as sqlite:shop.db
    #[arg(value_name = "REFERENCE_URL")]
    pub reference: String,

    /// The database that is held against it
    #[arg(value_name = "COMPARISON_URL")]
    pub comparison: String,

    /// The table, such as sales.orders
    #[arg(long, value_name = "TABLE")]
    pub table: String,

    /// The table at the comparison site, when it is called otherwise there
    #[arg(long, value_name = "TABLE")]
    pub comparison_table: Option<String>,

    /// Columns that are compared, those of the key among them; all, when none is named. May be repeated, or separated by commas
    #[arg(long, value_name = "COLUMN", value_delimiter = ',')]
    pub columns: Vec<String>,

    /// The table of missing rows: it has the compared columns
    #[arg(long, value_name = "TABLE")]
    pub missing_rows: String,

    /// The table that says where they are: it has the columns r_id, present and absent
    #[arg(long, value_name = "TABLE")]
    pub missing_location: String,

    /// The database that has these two tables; the reference, when none is given
    #[arg(long, value_name = "URL")]
    pub missing_rows_site: Option<String>,

    /// Rows in one transaction
    #[arg(long, value_name = "N", default_value_t = COMMIT_ROWS)]
    pub commit_rows: usize,
}

/// Options of DIFFERENCES.
#[derive(Args, Debug)]
pub struct Differences {
    #[command(flatten)]
    pub shared: SharedTable,

    /// A condition in SQL: other rows are not looked at
    #[arg(long = "where", value_name = "CONDITION")]
    pub filter: Option<String>,

    /// Rows to write at most; all are counted
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    pub max_missing: usize,
}

/// Options of RECTIFY.
#[derive(Args, Debug)]
pub struct Rectify {
    #[command(flatten)]
    pub shared: SharedTable,

    /// How long changes may be on their way. Only rows that are after this time as DIFFERENCES found them are mended
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    pub settle: u64,
}

impl SharedTable {
    fn request(&self) -> SharedTableRequest {
        SharedTableRequest {
            reference_table: self.table.clone(),
            comparison_table: self.comparison_table.clone(),
            columns: self.columns.clone(),
            missing_rows: self.missing_rows.clone(),
            missing_location: self.missing_location.clone(),
        }
    }

    fn missing_site(&self) -> &str {
        self.missing_rows_site.as_deref().unwrap_or(&self.reference)
    }
}

/// Finds, and prints how much.
pub fn run_differences(options: &Differences) -> ExitCode {
    ended(differences(options))
}

/// Mends, and prints how much.
pub fn run_rectify(options: &Rectify) -> ExitCode {
    ended(rectify(options))
}

/// Returns whether no row differs.
fn differences(options: &Differences) -> Result<bool, Failure> {
    let shared = &options.shared;
    let sites = DifferencesSites {
        reference: open(&shared.reference)?,
        comparison: open(&shared.comparison)?,
        missing: open(shared.missing_site())?,
    };
    let differences_options = DifferencesOptions {
        filter: options.filter.clone(),
        rows_max: options.max_missing,
        commit_rows: shared.commit_rows,
    };
    let session = || open_session(shared.missing_site());
    let mut output = io::stdout().lock();
    writeln!(output, "reference  {}\ncomparison {}\n", sites.reference.name(), sites.comparison.name())?;
    let found = reconcile::differences(sites, &session, &shared.request(), &differences_options)?;
    let (only_reference, only_comparison) = (found.only_reference, found.only_comparison);
    writeln!(output, "{} rows at the reference, {only_reference} of them only there", found.reference_rows)?;
    writeln!(output, "{} rows at the comparison site, {only_comparison} of them only there", found.comparison_rows)?;
    let all = only_reference + only_comparison;
    writeln!(output, "{} rows written into {}", found.written, shared.missing_rows)?;
    if found.written < all {
        writeln!(output, "{} rows not written: --max-missing is {}", all - found.written, options.max_missing)?;
    }
    Ok(all == 0)
}

/// Returns whether no row that was to be mended differs.
fn rectify(options: &Rectify) -> Result<bool, Failure> {
    let shared = &options.shared;
    let open_reference = || open(&shared.reference);
    let open_comparison = || open(&shared.comparison);
    let open_missing = || open(shared.missing_site());
    let session = || open_session(&shared.comparison);
    let sites = RectifySites {
        reference: &open_reference as &dyn Fn() -> Result<Box<dyn ComparisonSide>, Error>,
        comparison: &open_comparison,
        missing: &open_missing,
        session: &session,
    };
    let mut wait = || std::thread::sleep(Duration::from_secs(options.settle));
    let done = reconcile::rectify(&sites, &shared.request(), shared.commit_rows, &mut wait)?;
    let mut output = io::stdout().lock();
    writeln!(output, "{} rows deleted, {} updated, {} inserted", done.deleted, done.updated, done.inserted)?;
    writeln!(output, "{} rows were equal by now, {} left alone because they have changed", done.equal, done.changed)?;
    if let Some(refusal) = &done.refusal {
        writeln!(output, "{} rows refused by the comparison site, the first one: {refusal}", done.refused)?;
    }
    writeln!(output, "{} rows still differ", done.differing)?;
    Ok(done.differing == 0)
}

/// A session whose writes no Extract captures, and for which neither triggers nor foreign keys run.
fn open_session(url: &str) -> Result<Box<dyn Session>, Error> {
    let database: Arc<dyn Database> = match url.split_once(':') {
        Some((scheme, path)) if scheme.eq_ignore_ascii_case("sqlite") => db_sqlite::open(&format!("sqlite:{path}"))?,
        _ => db_postgres::open(url)?,
    };
    database.open_session(SessionRequest {
        group: GROUP.to_owned(),
        group_key: 0,
        checkpoint_table: TableName::new(database.default_schema(), "checkpoints"),
        triggers: TriggerPolicy::Suppress,
        foreign_keys: ForeignKeyPolicy::Ignore,
    })
}
