//! The log of a home, in which all groups and commands write.

use crate::{Home, Message, clock};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};

/// One writer of the event log.
///
/// Each message is one line, appended by one call, so that lines of several processes do not mix.
#[derive(Debug)]
pub struct EventLog {
    file: File,
    program: String,
    parameter_file: Option<String>,
}

impl EventLog {
    /// Opens the log of `home`. `program` is the writer, such as `Drover Extract for SQLite`; a group also names its
    /// parameter file.
    ///
    /// # Errors
    /// When the file can't be opened or created.
    pub fn open(home: &Home, program: &str, parameter_file: Option<&str>) -> io::Result<EventLog> {
        let file = OpenOptions::new().create(true).append(true).open(home.event_log())?;
        Ok(EventLog { file, program: program.to_owned(), parameter_file: parameter_file.map(str::to_owned) })
    }

    /// Appends a message.
    ///
    /// # Errors
    /// When it can't be written.
    pub fn append(&mut self, message: &Message) -> io::Result<()> {
        let line = line(message, &self.program, self.parameter_file.as_deref());
        self.file.write_all(format!("{line}\n").as_bytes())
    }
}

/// `YYYY-MM-DD HH:MM:SS  LEVEL   DRV-nnnnn  Program, file:  text.` (goldengate.md 4.7)
fn line(message: &Message, program: &str, parameter_file: Option<&str>) -> String {
    let time = clock::to_second(message.time);
    let file = parameter_file.map(|file| format!(", {file}")).unwrap_or_default();
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let lines: Vec<String> = message.text.lines().map(words).filter(|line| !line.is_empty()).collect();
    let text = lines.join("; ");
    let stop = if text.ends_with(['.', '!', '?']) { "" } else { "." };
    format!("{time}  {:<7} {}  {program}{file}:  {text}{stop}", message.code.level(), message.code)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Code;
    use change::Timestamp;

    #[test]
    fn a_message_is_one_line_with_the_labels_that_are_searched_for() {
        let time = Timestamp::from_unix_micros(951_782_400_999_999);
        let message = |code, text: &str| Message { time, code, text: text.to_owned() };
        assert_eq!(
            line(&message(Code::GroupStarted, "EXTRACT E1 started"), "Drover Extract for SQLite", Some("e1.prm")),
            "2000-02-29 00:00:00  INFO    DRV-00001  Drover Extract for SQLite, e1.prm:  EXTRACT E1 started."
        );
        assert_eq!(
            line(&message(Code::Internal, "one\n  two.\n"), "Drover Console", None),
            "2000-02-29 00:00:00  ERROR   DRV-00099  Drover Console:  one; two."
        );
    }
}
