//! Everything that a group says, in all the places where people look for it.

use crate::{Code, EventLog, Failure, Message, Report, Statistics};
use change::Timestamp;
use std::io;

/// The report and the event log of a running group.
///
/// A disk that is too full for a message must not stop replication: messages that can't be written are counted, and the
/// count is told as soon as writing works again.
#[derive(Debug)]
pub struct Journal {
    report: Report,
    event_log: EventLog,
    lost: u64,
}

impl Journal {
    /// A journal over both.
    pub fn new(report: Report, event_log: EventLog) -> Journal {
        Journal { report, event_log, lost: 0 }
    }

    /// Says something.
    pub fn say(&mut self, time: Timestamp, code: Code, text: impl Into<String>) {
        self.append(&Message { time, code, text: text.into() });
    }

    /// Tells of a failure.
    pub fn fail(&mut self, time: Timestamp, failure: &Failure) {
        self.append(&failure.message(time));
    }

    /// Puts the statistics into the report.
    pub fn statistics(&mut self, time: Timestamp, statistics: &Statistics) {
        let result = self.report.append_statistics(statistics, time);
        self.count(result);
    }

    /// The report.
    pub fn report(&self) -> &Report {
        &self.report
    }

    fn append(&mut self, message: &Message) {
        if self.lost > 0 {
            let text = format!("{} messages before this one could not be written", self.lost);
            let told = self.report.append(&Message { time: message.time, code: Code::Notice, text });
            if told.is_ok() {
                self.lost = 0;
            }
        }
        let result = self.report.append(message).and(self.event_log.append(message));
        self.count(result);
    }

    fn count(&mut self, result: io::Result<()>) {
        self.lost += u64::from(result.is_err());
    }
}
