//! What stands on the command line of `drover trail`.

use clap::{Args, Subcommand, ValueEnum};
use std::path::PathBuf;

const FROM: &str = "Only commits from this time on: [[yy]yy-mm-dd] [hh[:mm][:ss]], in UTC";

/// The tools.
#[derive(Debug, Subcommand)]
pub enum TrailTool {
    /// Show changes, readably, transaction by transaction
    Show(Show),
    /// Count records by table and operation, list the largest transactions, and draw how many came when
    Stat(Stat),
    /// Find changes by key, value, transaction, table or time
    Grep(Grep),
    /// Write changes as JSON Lines, CSV or SQL
    Export(Export),
    /// Make sure that files are whole: checksums, structure, transactions, no file missing
    ///
    /// Exit status: 0 whole, 1 not.
    Verify(Verify),
    /// Print the SQL that reverses a transaction, from its images before
    ///
    /// Prints nothing, and says why, when the trail does not hold what was there before: updates and deletes whose rows did not
    /// travel whole, truncations, statements that define objects.
    Undo(Undo),
}

/// What every tool is told.
#[derive(Args, Debug)]
pub struct Source {
    /// A trail, such as HOME/dirdat/aa, or one of its files
    pub path: PathBuf,

    /// Definitions of tables, for trails that hold none
    #[arg(long, value_name = "FILE")]
    pub sourcedefs: Option<PathBuf>,

    /// Read encrypted records, by the keys in the wallet of --home
    #[arg(long)]
    pub decrypt: bool,
}

/// Which changes.
#[derive(Args, Debug)]
pub struct Picking {
    /// Only this table; * and ? stand for other characters. May be given several times
    #[arg(long, value_name = "SCHEMA.TABLE")]
    pub table: Vec<String>,

    /// Only these operations: insert, update, delete, truncate, ddl, sequence
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub operation: Vec<String>,

    /// Only this transaction, by its identifier or its CSN
    #[arg(long, value_name = "ID")]
    pub transaction: Option<String>,

    #[arg(long, value_name = "TIME", help = FROM)]
    pub from: Option<String>,

    /// Only commits up to this time
    #[arg(long, value_name = "TIME")]
    pub to: Option<String>,

    /// Only rows with this value in a column, before or after. May be given several times
    #[arg(long, value_name = "NAME=VALUE")]
    pub column: Vec<String>,

    /// Only rows with this key; values of several columns with commas between them
    #[arg(long, value_name = "VALUES")]
    pub key: Option<String>,

    /// Only rows in which this text stands somewhere
    #[arg(long, value_name = "TEXT")]
    pub value: Vec<String>,

    /// Only records of which this holds, such as '@GETENV ("GGHEADER", "OPTYPE") = INSERT'
    #[arg(long = "where", value_name = "TEST")]
    pub tests: Vec<String>,
}

/// When to use colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Colours {
    /// On a terminal.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// Options of show.
#[derive(Args, Debug)]
pub struct Show {
    /// Where from
    #[command(flatten)]
    pub source: Source,
    /// Which
    #[command(flatten)]
    pub picking: Picking,

    /// Go on with what is written from now on, until Ctrl-C; with --all after what is there already
    #[arg(long, short)]
    pub follow: bool,

    /// With --follow, begin with what is there already
    #[arg(long, requires = "follow")]
    pub all: bool,

    /// Show long values in their whole length
    #[arg(long)]
    pub full: bool,

    /// Colours
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub color: Colours,
}

/// Options of grep.
#[derive(Args, Debug)]
pub struct Grep {
    /// Where from
    #[command(flatten)]
    pub source: Source,
    /// Which
    #[command(flatten)]
    pub picking: Picking,

    /// Show long values in their whole length
    #[arg(long)]
    pub full: bool,

    /// Print only how many there are
    #[arg(long)]
    pub count: bool,

    /// Colours
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub color: Colours,
}

/// Options of stat.
#[derive(Args, Debug)]
pub struct Stat {
    /// Where from
    #[command(flatten)]
    pub source: Source,

    /// Only this table; * and ? stand for other characters
    #[arg(long, value_name = "SCHEMA.TABLE")]
    pub table: Option<String>,

    #[arg(long, value_name = "TIME", help = FROM)]
    pub from: Option<String>,

    /// Only commits up to this time
    #[arg(long, value_name = "TIME")]
    pub to: Option<String>,

    /// Seconds of each bar of the chart; chosen by itself without it
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(i64).range(1..=31_536_000))]
    pub interval: Option<i64>,

    /// How many of the largest transactions to list
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub largest: usize,
}

/// In which form to export.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// One JSON object a line.
    Json,
    /// One table, with a header line.
    Csv,
    /// Statements that do the changes again.
    Sql,
}

/// Whose SQL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Sql {
    /// SQLite.
    Sqlite,
    /// PostgreSQL.
    Postgresql,
}

/// Options of export.
#[derive(Args, Debug)]
pub struct Export {
    /// Where from
    #[command(flatten)]
    pub source: Source,
    /// Which
    #[command(flatten)]
    pub picking: Picking,

    /// The form
    #[arg(long, value_name = "FORM")]
    pub format: Form,

    /// Whose SQL; the source's without it
    #[arg(long, value_name = "PRODUCT")]
    pub dialect: Option<Sql>,
}

/// Options of verify.
#[derive(Args, Debug)]
pub struct Verify {
    /// Where from
    #[command(flatten)]
    pub source: Source,
}

/// Options of undo.
#[derive(Args, Debug)]
pub struct Undo {
    /// Where from
    #[command(flatten)]
    pub source: Source,

    /// The transaction, by its identifier or its CSN
    #[arg(long, value_name = "ID")]
    pub transaction: String,

    /// Whose SQL; the source's without it
    #[arg(long, value_name = "PRODUCT")]
    pub dialect: Option<Sql>,
}
