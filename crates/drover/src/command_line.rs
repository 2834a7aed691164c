//! What stands on the command line.

use crate::compare::Compare;
use crate::copy::Copy;
use crate::rectify::{Differences, Rectify};
use crate::trail_tools::TrailTool;
use clap::{Args, Parser, Subcommand};
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  drover demo                                   watch replication survive kill -9, with proof; needs nothing
  drover init gg                                make a home directory for groups
  drover --home gg -c 'DBLOGIN SOURCEDB sqlite:../shop.db; ADD EXTRACT e1, TRANLOG, BEGIN NOW'
  drover --home gg -c 'ADD EXTTRAIL ./dirdat/aa, EXTRACT e1; INFO ALL'
  drover extract e1 --home gg                   run Extract E1 until SIGTERM or Ctrl-C
  drover replicat r1 --home gg SKIPTRANSACTION  leave out the next transaction, then go on
  drover receiver --home gg                     receive trails of other homes
  drover trail show gg/dirdat/aa                print the changes that a trail holds
  echo 'OPEN gg/dirdat/aa000000000; N 9' | drover logdump    the same record by record
  drover --home gg -c 'HELP'                    list the console's commands

Exit status: 0 success, 1 failure or difference, 2 wrong usage, or no verdict.";

/// Replicates committed changes between databases.
#[derive(Debug, Parser)]
#[command(name = "drover", version, after_help = EXAMPLES, subcommand_negates_reqs = true)]
pub struct CommandLine {
    /// Home directory of the groups, as made by `drover init`
    #[arg(long, env = "DROVER_HOME", global = true, value_name = "HOME")]
    pub home: Option<PathBuf>,

    /// Run console commands, separated by `;`, and exit; without it and without a subcommand, commands are read from
    /// standard input
    #[arg(short = 'c', value_name = "COMMANDS")]
    pub commands: Option<String>,

    /// What to run in place of the console
    #[command(subcommand)]
    pub part: Option<Part>,
}

/// The parts of the binary.
#[derive(Debug, Subcommand)]
pub enum Part {
    /// Make a home directory
    ///
    /// Creates HOME with its folders: dirprm (parameter files), dirdat (trails), dirchk (checkpoint files), dirrpt
    /// (reports), dirtmp, dirbr, dircrd, and the event log. Folders that exist stay as they are.
    Init {
        /// The directory to make
        home: PathBuf,
    },
    /// Run an Extract in the foreground: capture changes from a database into a trail, or, as a Pump, copy a trail into another
    ///
    /// Reads HOME/dirprm/GROUP.prm. The group must have been added with the console command ADD EXTRACT. Stops cleanly
    /// on SIGTERM or Ctrl-C; after kill -9 the next start goes on where it has to.
    ///
    /// Behind the group's name may stand BRRESET: Bounded Recovery is not used at this start.
    Extract(Extract),
    /// Run a Replicat in the foreground: apply changes from a trail to a database
    ///
    /// Reads HOME/dirprm/GROUP.prm. The group must have been added with the console command ADD REPLICAT. Stops cleanly
    /// on SIGTERM or Ctrl-C; after kill -9 the next start goes on where it has to.
    ///
    /// Behind the group's name may stand the options of START REPLICAT, which hold for this run only:
    /// ATCSN csn starts with the first transaction that has this CSN or a later one, AFTERCSN csn with the first one that has
    /// a later CSN, SKIPTRANSACTION leaves out exactly the next transaction. NOFILTERDUPTRANSACTIONS applies again what the
    /// checkpoint table shows as applied, when the trail holds it again; FILTERDUPTRANSACTIONS, the default, does not.
    Replicat(Replicat),
    /// Receive trails of other homes over the network
    ///
    /// Listens for Pumps whose RMTHOST names this host, and writes their records into trails in HOME/dirdat. Connections are
    /// encrypted by TLS 1.3, and both sides show a certificate: this one that in HOME/dircrd/drover.crt with its key in
    /// HOME/dircrd/drover.key (console: ADD CERTIFICATE); senders must show one that this home believes (ADD PEER, or an authority in
    /// HOME/dircrd/ca.crt). Stops cleanly on SIGTERM or Ctrl-C; what a sender was not answered for comes again.
    Receiver(crate::receiver::Receiver),
    /// Look into trail files record by record, with Logdump's commands
    ///
    /// Reads commands from the terminal, or from standard input: drover logdump < script. Then the exit status is 1 when a
    /// command failed. HELP lists the commands; for a quick look use drover trail show.
    Logdump,
    /// Show, count, search, export and verify what trails hold, and reverse transactions
    #[command(subcommand)]
    Trail(TrailTool),
    /// Write how the tables of a source look, for readers of trails that do not say it
    ///
    /// Trails in the format of release 12.1 or older, and those written with NO_OBJECTDEFS, hold no definitions of their
    /// tables. This writes them into a file in the layout of DEFGEN, which the Replicat reads with the parameter SOURCEDEFS.
    /// The parameter file has DEFSFILE, SOURCEDB and the same TABLE statements as the Extract's; relative paths in it count
    /// from the home. Write the file anew whenever a table was altered.
    Defgen {
        /// The parameter file, such as HOME/dirprm/defgen.prm
        #[arg(value_name = "PARAMETER_FILE")]
        parameters: PathBuf,
    },
    /// Copy the rows that are there before replication begins
    ///
    /// Give it after ADD EXTRACT and ADD REPLICAT, and before the Replicat's first start. Copies every table that the
    /// Extract captures and the Replicat maps, while the source is written; the Replicat then goes on from each table's
    /// snapshot. Given again after a stop, a failure or kill -9, it copies what is not done. Exit status: 0 complete, 1 not.
    Copy(Copy),
    /// Compare the tables of two databases, row by row where hashes differ
    ///
    /// Each database hashes its own rows, so that equal tables cost a scan and almost no traffic. Each side is read in one
    /// transaction: writers go on, and what they do meanwhile is not seen. Exit status: 0 equal, 1 different, 2 no verdict.
    Compare(Compare),
    /// Write the rows that only one of two sites has into two tables, for RECTIFY
    ///
    /// Any two of PostgreSQL and SQLite. A row that both have with other values is written twice. Make the two tables yourself: one
    /// with the compared columns, one with r_id, present and absent. Exit status: 0 no row, 1 some, 2 no verdict.
    Differences(Differences),
    /// Make the comparison site equal to the reference, as the tables that DIFFERENCES has filled say
    ///
    /// Rows that have changed since, at either site, are left alone. No Extract captures what is written, and neither triggers nor
    /// foreign keys run. Repeat it after whatever broke it off. Exit status: 0 nothing differs any more, 1 something does, 2 failed.
    Rectify(Rectify),
    /// Watch replication at work, with processes killed while busy and both databases compared at the end
    ///
    /// Makes a temporary home and two SQLite databases, runs writers, an Extract and a Replicat as processes of their own,
    /// kills each with SIGKILL several times, then compares both databases row by row in plain SQL. Exit status 1 on any
    /// difference. Uses no network and no server.
    Demo(Demo),
    /// One writer of the demo's workload
    #[command(hide = true)]
    DemoWriter(DemoWriter),
}

/// A group to run.
#[derive(Args, Debug)]
pub struct Group {
    /// Name of the group
    pub group: String,

    /// Stop when standard input is closed, so that a group never outlives the program that started it for a test
    #[arg(long, hide = true)]
    pub stop_with_stdin: bool,

    /// Leave the terminal, as START of the console wants it
    #[arg(long, hide = true)]
    pub detached: bool,
}

/// An Extract to run.
#[derive(Args, Debug)]
pub struct Extract {
    /// The group
    #[command(flatten)]
    pub group: Group,

    /// BRRESET: Bounded Recovery starts anew
    #[arg(value_name = "OPTIONS")]
    pub options: Vec<String>,
}

/// A Replicat to run.
#[derive(Args, Debug)]
pub struct Replicat {
    /// The group
    #[command(flatten)]
    pub group: Group,

    /// [ATCSN csn | AFTERCSN csn | SKIPTRANSACTION] [FILTERDUPTRANSACTIONS | NOFILTERDUPTRANSACTIONS]
    #[arg(value_name = "OPTIONS")]
    pub options: Vec<String>,
}

/// Options of the demo.
#[derive(Args, Debug)]
pub struct Demo {
    /// Row changes that the writers make together
    #[arg(long, default_value_t = 400_000, value_name = "N", value_parser = clap::value_parser!(u64).range(1000..=100_000_000))]
    pub rows: u64,

    /// Keep the folder with both databases, the trail, reports and checkpoints
    #[arg(long)]
    pub keep: bool,

    /// Print one JSON object and nothing else
    #[arg(long)]
    pub json: bool,

    /// Seed of the workload and of the kills; chosen at random and printed when it is not given
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
}

/// Options of one demo writer.
#[derive(Args, Debug)]
pub struct DemoWriter {
    /// The source database's file
    #[arg(long)]
    pub database: PathBuf,
    /// Which of the writers this is, from 0
    #[arg(long)]
    pub writer: u32,
    /// Row changes that this writer makes
    #[arg(long)]
    pub rows: i64,
    /// Row changes per second to keep to; 0 for as many as possible
    #[arg(long)]
    pub pace: i64,
    /// Seed of the random choices
    #[arg(long)]
    pub seed: u64,
}
