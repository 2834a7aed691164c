//! What a Logdump session knows and does: commands in, text out.

mod open_trail;
mod output;
mod settings;
pub mod verb;

pub use open_trail::{Direction, OpenTrail, Pulse};
pub use output::Output;
pub use settings::{Settings, TransactionLimits};

use crate::error::Error;
use crate::filter::Filters;
use crate::grammar::{self, Form};
use crate::layout::{Display, Style};
use crate::open_file::Given;
use crate::words::{self, Words};
use change::Timestamp;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use trail::cipher::MasterKeys;
use trail::storage::Storage;

/// Everything that a session needs of the world.
pub trait Hands {
    /// The directory at a path.
    fn directory(&self, path: &Path) -> Arc<dyn Storage>;
    /// The whole path of a relative one.
    fn absolute(&self, path: &Path) -> PathBuf;
    /// Whether two paths are of one file, whatever links lead there.
    fn is_same(&self, one: &Path, other: &Path) -> bool;
    /// The time now.
    fn now(&self) -> Timestamp;
    /// How far local time is ahead of UTC at an instant, in seconds.
    fn local_offset(&self, instant: Timestamp) -> i32;
    /// When a file was changed last.
    fn modified(&self, path: &Path) -> Option<Timestamp>;
    /// The master keys of the home, or why they can't be had.
    fn keys(&self) -> Result<Arc<dyn MasterKeys>, String>;
    /// Runs a program of the operating system, which shows what it has to say by itself.
    fn run_program(&self, command: &str) -> Result<(), String>;
    /// Whether the operator wants what is being done to stop.
    fn is_interrupted(&self) -> bool;
    /// Shows how far a long search is.
    fn progress(&self, progress: Progress);
}

/// How far a long search is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Records so far.
    pub records: u64,
    /// Byte of the file that was reached.
    pub rba: u64,
    /// Bytes of the file.
    pub length: u64,
    /// Whether the search is over.
    pub is_over: bool,
}

/// Whether a session goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// It does.
    Go,
    /// The operator wants to leave.
    Exit,
}

/// What became of a command.
pub type Done = Result<Flow, Error>;

/// A command with its arguments.
pub struct Request<'a, 'b> {
    /// The command.
    pub form: &'static Form,
    /// What follows its name.
    pub words: Words<'a>,
    /// Where its text goes.
    pub output: &'a mut Output<'b>,
}

/// Commands of OBEY files inside one another: enough for any use, and an end to a file that runs itself.
const DEPTH_MAX: usize = 16;

/// Commands that are kept for HISTORY and FC.
const HISTORY_MAX: usize = 1000;

/// One session.
pub struct Session {
    pub(crate) hands: Box<dyn Hands>,
    pub(crate) directory: PathBuf,
    pub(crate) given: Given,
    pub(crate) trail: Option<OpenTrail>,
    pub(crate) display: Display,
    pub(crate) filters: Filters,
    pub(crate) settings: Settings,
    pub(crate) log: Option<output::Log>,
    pub(crate) history: Vec<String>,
    depth: usize,
}

impl Session {
    /// A session without an open file. File names count from `directory`.
    pub fn new(hands: Box<dyn Hands>, directory: PathBuf) -> Session {
        Session {
            hands,
            directory,
            given: Given::default(),
            trail: None,
            display: Display::default(),
            filters: Filters::default(),
            settings: Settings::default(),
            log: None,
            history: Vec::new(),
            depth: 0,
        }
    }

    /// Gives commands of sessions before, for HISTORY, FC and the number of the prompt.
    pub fn remember(&mut self, history: impl IntoIterator<Item = String>) {
        self.history.extend(history);
        let over = self.history.len().saturating_sub(HISTORY_MAX);
        self.history.drain(..over);
    }

    /// What stands in front of the next command.
    pub fn prompt(&self) -> String {
        format!("Logdump {} >", self.history.len() + 1)
    }

    /// Runs the commands of a line, up to the first that fails.
    ///
    /// # Errors
    /// [`Error`]; what was done before stays done.
    pub fn execute(&mut self, line: &str, sink: &mut dyn Write) -> Done {
        let line = line.trim();
        if line.is_empty() || line.starts_with("--") {
            return Ok(Flow::Go);
        }
        let mut output = Output::new(sink, self.log.take());
        let done = self.run_line(line, &mut output, true);
        let flushed = output.flush();
        // LOG may have put another one in its place.
        self.log = output.into_log();
        done.and_then(|flow| flushed.map(|()| flow))
    }

    fn run_line(&mut self, line: &str, output: &mut Output<'_>, is_remembered: bool) -> Done {
        if is_remembered && !line.get(..2).is_some_and(|head| head.eq_ignore_ascii_case("FC")) {
            self.remember([line.to_owned()]);
        }
        // The rest of such a line is a text, whatever stands in it.
        let first = line.split([' ', '\t']).next().unwrap_or_default();
        let is_text = grammar::find(first).is_some_and(|form| ["X", "WRITELOG"].contains(&form.name));
        let commands = if is_text { vec![line] } else { words::commands(line) };
        for command in commands {
            if self.run_command(command, output)? == Flow::Exit {
                return Ok(Flow::Exit);
            }
        }
        Ok(Flow::Go)
    }

    fn run_command(&mut self, command: &str, output: &mut Output<'_>) -> Done {
        let end = command.find([' ', '\t', ',']).unwrap_or(command.len());
        let (name, rest) = command.split_at(end);
        let Some(form) = grammar::find(name) else {
            let hint = parameter::nearest(name, grammar::names()).map(|name| format!(", did you mean {name}?"));
            let hint = hint.unwrap_or_else(|| "; HELP lists all".to_owned());
            return Err(Error::refused(format!("there is no command {name}{hint}")));
        };
        let words = Words::new(rest.trim_start_matches([' ', '\t', ',']));
        let done = (form.run)(self, &mut Request { form, words, output });
        done.and_then(|flow| output.flush_if_long().map(|()| flow))
    }

    /// Runs the commands of a file (OBEY).
    pub(crate) fn obey(&mut self, text: &str, output: &mut Output<'_>) -> Done {
        let done = self.deeper(|session| {
            for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("--")) {
                if session.run_line(line, output, false)? == Flow::Exit {
                    break;
                }
            }
            Ok(Flow::Go)
        });
        // EXIT in such a file ends the file only.
        done.map(|_| Flow::Go)
    }

    /// Runs a command of the history again.
    pub(crate) fn run_again(&mut self, line: &str, output: &mut Output<'_>) -> Done {
        self.deeper(|session| session.run_line(line, output, true))
    }

    /// Runs lines out of a line: of a file, or of the history, which may lead to themselves.
    fn deeper(&mut self, run: impl FnOnce(&mut Session) -> Done) -> Done {
        if self.depth == DEPTH_MAX {
            return Err(Error::refused(format!("OBEY and FC are {DEPTH_MAX} deep: one leads to itself")));
        }
        self.depth += 1;
        let done = run(self);
        self.depth -= 1;
        done
    }

    pub(crate) fn style(&self) -> impl Fn(Timestamp) -> i32 + '_ {
        |instant| self.hands.local_offset(instant)
    }

    /// Text of an instant in the zone of TIMEOFFSET, as records show it.
    pub(crate) fn time_text(&self, instant: Timestamp) -> String {
        let julian = trail::format::bytes::julian_micros(instant);
        self.display.zone.julian_text(julian, &self.style())
    }

    /// The instant that a text names.
    pub(crate) fn instant(&self, text: &str) -> Result<Timestamp, Error> {
        let text = text.trim().trim_matches(['"', '\'']);
        let found = self.display.zone.parse_instant(text, self.hands.now(), &self.style());
        found.ok_or_else(|| Error::refused(format!("{text:?} is no time: [[yy]yy-mm-dd] [hh[:mm][:ss]]")))
    }

    /// Directory and name of a file.
    pub(crate) fn place(&self, file: &str) -> Result<(PathBuf, String), Error> {
        let path = self.directory.join(file);
        let name = path.file_name().and_then(|name| name.to_str()).map(str::to_owned);
        let name = name.ok_or_else(|| Error::refused(format!("{file} is no name of a file")))?;
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        Ok((directory.to_owned(), name))
    }
}

/// Display settings and local time, for layouts.
pub(crate) fn style_of<'a>(display: &'a Display, local: &'a dyn Fn(Timestamp) -> i32) -> Style<'a> {
    Style { display, local }
}
