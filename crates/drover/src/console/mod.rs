//! The console: commands that add, show and delete groups.
//!
//! [`grammar`] is the table from which everything else comes; [`verb`] does what a command says.

pub mod grammar;
mod lexer;
mod parse;
mod plot;
mod registered;
mod suggest;
mod unfinished;
mod verb;

use crate::{failure, wire};
use change::TableName;
use database::Database;
use parse::{Command, SyntaxError};
use process::{
    CheckpointFile, Code, EventLog, GroupKind, GroupName, Home, Message, TrailPlace, WriteCheckpoint, clock,
};
use std::fmt;
use std::io::{self, BufRead, IsTerminal, Write};
use std::path::Path;
use std::sync::Arc;
use trail::storage::{Directory, Storage};
use unfinished::Unfinished;

/// A command that could not be done.
#[derive(Debug)]
pub struct Failure {
    text: String,
}

impl Failure {
    /// A failure with its cause in the text.
    pub fn new(what: impl Into<String>) -> Failure {
        Failure { text: what.into() }
    }

    /// Adds what the operator can do about it.
    pub fn with_next_step(self, next_step: impl fmt::Display) -> Failure {
        Failure { text: format!("{}\n  next step: {next_step}", self.text) }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

impl std::error::Error for Failure {}

impl From<process::Failure> for Failure {
    fn from(failure: process::Failure) -> Failure {
        Failure { text: failure.render() }
    }
}

impl From<database::Error> for Failure {
    fn from(error: database::Error) -> Failure {
        failure::of_database(&error).into()
    }
}

impl From<process::CheckpointError> for Failure {
    fn from(error: process::CheckpointError) -> Failure {
        process::Failure::from(&error).into()
    }
}

impl From<process::LockError> for Failure {
    fn from(error: process::LockError) -> Failure {
        process::Failure::from(&error).into()
    }
}

impl From<process::WalletError> for Failure {
    fn from(error: process::WalletError) -> Failure {
        process::Failure::from(&error).into()
    }
}

impl From<process::HomeError> for Failure {
    fn from(error: process::HomeError) -> Failure {
        process::Failure::from(&error).into()
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure::new(format!("could not print: {error}"))
    }
}

/// Why running commands stopped.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The text is not a command; nothing was done.
    #[error("{0}\nno command was run")]
    Syntax(#[from] SyntaxError),
    /// The home can't be used; nothing was done.
    #[error("{0}")]
    Home(Failure),
    /// A command failed; those before it were done.
    #[error("{command}: {failure}{rest}")]
    Failed {
        /// The command.
        command: String,
        /// Why.
        failure: Failure,
        /// What was done and what was not.
        rest: String,
    },
}

/// What commands work on.
pub struct Console<'a> {
    home: Home,
    event_log: EventLog,
    /// The database that DBLOGIN chose.
    login: Option<Arc<dyn Database>>,
    output: &'a mut dyn Write,
}

impl Console<'_> {
    fn login(&self) -> Result<Arc<dyn Database>, Failure> {
        self.login.clone().ok_or_else(|| {
            Failure::new("no database is logged in to").with_next_step("give DBLOGIN SOURCEDB url before this command")
        })
    }

    fn execute(&mut self, command: &Command) -> Result<(), Failure> {
        self.log(&parameter::mask_secrets(&command.text));
        let done = (command.form.run)(self, command);
        if let Err(failure) = &done {
            self.log(&format!("{}: failed: {failure}", parameter::mask_secrets(&command.text)));
        }
        done
    }

    fn log(&mut self, text: &str) {
        // A log on a full disk must not keep a command from being given.
        let _ = self.event_log.append(&Message { time: clock::now(), code: Code::Command, text: text.to_owned() });
    }
}

fn note(error: &io::Error) -> Failure {
    Failure::new(format!("could not note in dirchk that a command is under way: {error}"))
}

/// Runs all commands of `text`; stops at the first one that fails.
///
/// # Errors
/// [`Error`]; its text says what was done and what was not.
pub fn run(home: &Path, text: &str, output: &mut dyn Write) -> Result<(), Error> {
    let commands = parse::parse(text)?;
    let mut console = open(home, output)?;
    for (done, command) in commands.iter().enumerate() {
        if let Err(failure) = console.execute(command) {
            let rest = match (done, commands.len() - done - 1) {
                (0, 0) => String::new(),
                (done, 0) => format!("\n{done} of {} commands were done before", commands.len()),
                (done, rest) => {
                    format!("\n{done} of {} commands were done before, {rest} were not run", commands.len())
                }
            };
            return Err(Error::Failed { command: parameter::mask_secrets(&command.text), failure, rest });
        }
    }
    Ok(())
}

/// Runs commands from standard input, line by line. A person at a terminal may go on after a mistake; anything else stops.
///
/// # Errors
/// [`Error`] of the first command that failed, when standard input is not a terminal.
pub fn converse(home: &Path, output: &mut dyn Write) -> Result<(), Error> {
    let input = io::stdin().lock();
    if !input.is_terminal() {
        let text = io::read_to_string(input)
            .map_err(|error| Error::Home(Failure::new(format!("could not read standard input: {error}"))))?;
        return run(home, &text, output);
    }
    let mut console = open(home, output)?;
    let mut lines = input.lines();
    loop {
        // A terminal that is gone ends the conversation, as the end of its input does.
        if write!(console.output, "drover> ").and_then(|()| console.output.flush()).is_err() {
            return Ok(());
        }
        let Some(Ok(line)) = lines.next() else { return Ok(()) };
        if matches!(line.trim().to_ascii_uppercase().as_str(), "EXIT" | "QUIT") {
            return Ok(());
        }
        match parse::parse(&line) {
            Err(error) => eprintln!("{error}"),
            Ok(commands) => {
                for command in &commands {
                    if let Err(failure) = console.execute(command) {
                        eprintln!("{failure}");
                        break;
                    }
                }
            }
        }
    }
}

fn open<'a>(home: &Path, output: &'a mut dyn Write) -> Result<Console<'a>, Error> {
    let home = Home::open(home).map_err(|error| Error::Home(error.into()))?;
    let event_log = EventLog::open(&home, "Drover Console", None)
        .map_err(|error| Error::Home(Failure::new(format!("could not open the event log: {error}"))))?;
    Ok(Console { home, event_log, login: None, output })
}

impl Console<'_> {
    fn group(&self, text: &str) -> Result<GroupName, Failure> {
        GroupName::parse(text).map_err(|error| process::Failure::from(&error).into())
    }

    /// The table that `text` names in the database that is logged in to.
    fn table(&self, text: &str) -> Result<TableName, Failure> {
        wire::table(&*self.login()?, text).map_err(|error| {
            Failure::new(error.to_string()).with_next_step("write schema.table, or table for the default schema")
        })
    }

    /// The checkpoint table that a command names, or else GLOBALS.
    fn checkpoint_table(&self, given: Option<&str>) -> Result<TableName, Failure> {
        if let Some(given) = given {
            return self.table(given);
        }
        let path = self.home.globals();
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(Failure::new(format!("could not read {}: {error}", path.display()))),
        };
        let globals = parameter::parse_globals(&text, "GLOBALS").map_err(|error| Failure::new(error.to_string()))?;
        match globals.checkpoint_table {
            Some(table) => self.table(&table),
            None => Err(Failure::new("no checkpoint table is named")
                .with_next_step("name it, or write CHECKPOINTTABLE schema.table into the file GLOBALS of the home")),
        }
    }

    fn trail_place(&self, text: &str) -> Result<TrailPlace, Failure> {
        TrailPlace::parse(self.home.path(), text).map_err(|error| process::Failure::from(&error).into())
    }

    fn unfinished(&self, kind: GroupKind, group: &GroupName) -> Result<Option<Unfinished>, Failure> {
        Unfinished::find(&self.home, kind, group).map_err(|error| note(&error))
    }

    fn begin(&self, kind: GroupKind, group: &GroupName, unfinished: &Unfinished) -> Result<(), Failure> {
        unfinished.leave(&self.home, kind, group).map_err(|error| note(&error))
    }

    fn finish(&self, kind: GroupKind, group: &GroupName) -> Result<(), Failure> {
        Unfinished::remove(&self.home, kind, group).map_err(|error| note(&error))
    }

    fn checkpoint_storage(&self) -> Arc<dyn Storage> {
        Arc::new(Directory::new(self.home.dirchk()))
    }

    fn checkpoint_file(&self, kind: GroupKind, group: &GroupName) -> Result<CheckpointFile, Failure> {
        Ok(CheckpointFile::open(self.checkpoint_storage(), kind, group)?)
    }

    /// All trails of this home that its Extracts write.
    fn trails(&self) -> Result<Vec<(GroupName, WriteCheckpoint)>, Failure> {
        let mut trails = Vec::new();
        for (kind, group) in self.home.groups()? {
            let checkpoints = CheckpointFile::read(&*self.checkpoint_storage(), kind, &group, 1)?;
            let body = checkpoints.first().and_then(|checkpoint| checkpoint.extract());
            for trail in body.into_iter().flat_map(|body| &body.trails).filter(|trail| !trail.is_remote) {
                trails.push((group.clone(), trail.clone()));
            }
        }
        Ok(trails)
    }

    fn open_database(&self, url: &str) -> Result<Arc<dyn Database>, Failure> {
        Ok(wire::open(self.home.path(), url)?)
    }
}
