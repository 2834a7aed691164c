//! The line editor: history that outlives the session, completion, and the keys that people are used to.

use inspect::grammar;
use rustyline::completion::{Completer, Pair};
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::{FileHistory, History, SearchDirection};
use rustyline::validate::Validator;
use rustyline::{CompletionType, Config, Context, Helper};
use std::path::PathBuf;

/// Lines that the history file keeps.
const HISTORY_MAX: usize = 1000;

/// Reads lines from a terminal.
pub struct Editor {
    editor: rustyline::Editor<Commands, FileHistory>,
    history: Option<PathBuf>,
}

impl Editor {
    /// With the history of the sessions before.
    ///
    /// # Errors
    /// When the terminal can't be used.
    pub fn open() -> rustyline::Result<Editor> {
        let config = Config::builder().completion_type(CompletionType::List).max_history_size(HISTORY_MAX)?.build();
        let mut editor = rustyline::Editor::with_config(config)?;
        editor.set_helper(Some(Commands));
        let history = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".drover_logdump_history"));
        if let Some(history) = &history {
            // The first session has none yet.
            _ = editor.load_history(history);
        }
        Ok(Editor { editor, history })
    }

    /// The lines of the sessions before, the oldest first.
    pub fn lines(&self) -> Vec<String> {
        let history = self.editor.history();
        let line = |place| history.get(place, SearchDirection::Forward).ok().flatten();
        (0..history.len()).filter_map(line).map(|found| found.entry.into_owned()).collect()
    }

    /// The next line; `None` at the end of the conversation.
    ///
    /// # Errors
    /// When the terminal can't be read.
    pub fn read(&mut self, prompt: &str) -> rustyline::Result<Option<String>> {
        loop {
            match self.editor.readline(prompt) {
                Ok(line) => {
                    self.editor.add_history_entry(&line)?;
                    if let Some(history) = &self.history {
                        // A directory that takes no file must not keep a person from working.
                        _ = self.editor.append_history(history);
                    }
                    return Ok(Some(line));
                }
                // Ctrl-C gives the line up, and nothing else.
                Err(ReadlineError::Interrupted) => {}
                Err(ReadlineError::Eof) => return Ok(None),
                Err(error) => return Err(error),
            }
        }
    }
}

/// What the editor knows of the commands.
struct Commands;

impl Completer for Commands {
    type Candidate = Pair;

    fn complete(&self, line: &str, place: usize, _context: &Context<'_>) -> rustyline::Result<(usize, Vec<Pair>)> {
        let (start, words) = grammar::complete(line.get(..place).unwrap_or(line));
        let pair = |word: &str| Pair { display: word.to_owned(), replacement: format!("{word} ") };
        Ok((start, words.into_iter().map(pair).collect()))
    }
}

impl Hinter for Commands {
    type Hint = String;
}

impl Highlighter for Commands {}
impl Validator for Commands {}
impl Helper for Commands {}
