//! What a group has to say.

use crate::{Code, clock};
use change::Timestamp;
use std::fmt;

/// One thing that a group says in its report and in the event log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// When.
    pub time: Timestamp,
    /// What kind of thing; it also gives the level.
    pub code: Code,
    /// The text. It may have several lines.
    pub text: String,
}

/// Writes `YYYY-MM-DD HH:MM:SS  LEVEL   DRV-nnnnn  text`; further lines are indented.
impl fmt::Display for Message {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = clock::to_second(self.time);
        let text = self.text.replace('\n', "\n                     ");
        write!(formatter, "{time}  {:<7} {}  {text}", self.code.level(), self.code)
    }
}
