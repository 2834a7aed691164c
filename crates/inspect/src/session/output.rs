//! Where the text of commands goes: to whoever listens, and into the log file.

use crate::error::Error;
use std::fmt;
use std::io::{self, Write};
use trail::storage::File;

/// Text that is kept back at most: small enough that the first of much text comes at once.
const HELD_BYTES_MAX: usize = 16 * 1024;

/// A log file (LOG).
pub(crate) struct Log {
    file: Box<dyn File>,
    name: String,
    end: u64,
    /// Text goes into the file only.
    is_alone: bool,
}

impl Log {
    pub(crate) fn new(file: Box<dyn File>, name: String) -> io::Result<Log> {
        let end = file.len()?;
        Ok(Log { file, name, end, is_alone: false })
    }

    fn write(&mut self, text: &str) -> Result<(), Error> {
        let written = self.file.write_at(text.as_bytes(), self.end);
        written.map_err(|source| Error::file("write", self.name.clone(), source))?;
        self.end += text.len() as u64;
        Ok(())
    }
}

/// Takes the text of one line of commands.
pub struct Output<'a> {
    sink: &'a mut dyn Write,
    /// Text that is on its way.
    pub text: String,
    log: Option<Log>,
}

impl<'a> Output<'a> {
    pub(crate) fn new(sink: &'a mut dyn Write, log: Option<Log>) -> Output<'a> {
        Output { sink, text: String::new(), log }
    }

    /// Appends a line.
    pub fn line(&mut self, line: impl fmt::Display) {
        // Writing to a string can't fail.
        _ = fmt::Write::write_fmt(&mut self.text, format_args!("{line}\n"));
    }

    /// Hands on what is there.
    ///
    /// # Errors
    /// [`Error::Print`]; [`Error::File`] of the log.
    pub fn flush(&mut self) -> Result<(), Error> {
        if let Some(log) = &mut self.log {
            log.write(&self.text)?;
        }
        let is_alone = self.log.as_ref().is_some_and(|log| log.is_alone);
        let written = if is_alone { Ok(()) } else { self.sink.write_all(self.text.as_bytes()) };
        self.text.clear();
        written.and_then(|()| self.sink.flush()).map_err(Error::Print)
    }

    /// Hands on what is there when it is much.
    ///
    /// # Errors
    /// As [`flush`](Output::flush).
    pub fn flush_if_long(&mut self) -> Result<(), Error> {
        if self.text.len() >= HELD_BYTES_MAX { self.flush() } else { Ok(()) }
    }

    pub(crate) fn set_log(&mut self, log: Option<Log>) {
        self.log = log;
    }

    pub(crate) fn write_log(&mut self, text: &str) -> Result<bool, Error> {
        match &mut self.log {
            None => Ok(false),
            Some(log) => log.write(text).map(|()| true),
        }
    }

    pub(crate) fn log_name(&self) -> Option<&str> {
        self.log.as_ref().map(|log| log.name.as_str())
    }

    pub(crate) fn into_log(self) -> Option<Log> {
        self.log
    }
}
