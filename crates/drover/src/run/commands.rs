//! Requests to the running group, answered between two steps.

use super::{Run, SharedJournal};
use process::channel::{Answer, CommandChannel, Pending, Request};
use process::{Code, Failure, GroupName, Home, Statistics, StatisticsParts, clock};
use std::time::Duration;

/// Where requests come from, and what is remembered between them.
pub(super) struct Commands {
    channel: Option<CommandChannel>,
    pub(super) parts: StatisticsParts,
    /// Told to end without finishing what can be done again.
    pub(super) is_at_once: bool,
}

impl Commands {
    /// Listens for the group. One that can't be asked works all the same.
    pub(super) fn listen(home: &Home, group: &GroupName, journal: &SharedJournal) -> Commands {
        let channel = CommandChannel::open(home, group)
            .inspect_err(|error| {
                journal.say(Code::CommandsUnheard, format!("the group can't be asked anything while it runs: {error}"));
            })
            .ok();
        Commands { channel, parts: StatisticsParts::default(), is_at_once: false }
    }

    /// The next request, if one has come.
    pub(super) fn next(&self) -> Option<Pending> {
        self.channel.as_ref()?.next()
    }

    /// Waits for `wait`, or until a request comes.
    pub(super) fn wait(&self, wait: Duration) -> Option<Pending> {
        match &self.channel {
            Some(channel) => channel.wait(wait),
            None => {
                std::thread::sleep(wait);
                None
            }
        }
    }
}

impl Run {
    /// What both kinds of group answer alike; `None` for what only the kind can answer. `heading` tells what the group
    /// writes to.
    pub(super) fn answer_of_group(
        &mut self,
        request: &Request,
        statistics: &Statistics,
        heading: &str,
    ) -> Option<Answer> {
        let now = clock::now();
        match request {
            Request::Stop { at_once } => {
                self.commands.is_at_once |= at_once;
                self.shutdown.request();
                Some(Answer::processed())
            }
            Request::Report => {
                self.journal.statistics(statistics);
                Some(Answer::processed())
            }
            Request::Statistics(request) => {
                let parts = &mut self.commands.parts;
                if request.reset {
                    parts.reset(now, statistics);
                    return Some(Answer::processed());
                }
                Some(Answer::told(parts.describe(self.kind, heading, request, statistics, now)))
            }
            _ => None,
        }
    }

    /// Answers while nothing can be asked of the group but whether it lives: before it has opened what it works with, and
    /// while it waits to try again.
    pub(super) fn answer_while_waiting(&mut self, pending: Pending, failure: &Failure) {
        let what = failure.what();
        let answer = match pending.request() {
            Request::Stop { .. } => {
                self.shutdown.request();
                Answer::processed()
            }
            Request::Status => Answer::told([
                self.title(),
                format!("  Current status: Waiting to try again: {} {what}", failure.code()),
            ]),
            _ => Answer::refused(format!("{} {} waits to try again: {what}", self.kind, self.group)),
        };
        pending.answer(&answer);
    }

    /// The first line of STATUS.
    pub(super) fn title(&self) -> String {
        format!("{} {} (PID {})", self.kind, self.group, std::process::id())
    }

    /// What GETLAG tells.
    pub(super) fn lag(&self, lag: Option<Duration>, is_at_end: bool) -> Answer {
        let first = match lag {
            Some(lag) => format!("Last record lag {} seconds.", lag.as_secs()),
            None => "Lag unknown: nothing was processed yet.".to_owned(),
        };
        let end = is_at_end.then(|| "At EOF, no more records to process.".to_owned());
        Answer::told(std::iter::once(first).chain(end))
    }

    /// The answer to what a group of this kind can't do.
    pub(super) fn unfit(&self) -> Answer {
        Answer::refused(format!("{} {} can't do that: it is for the other kind of group", self.kind, self.group))
    }
}
