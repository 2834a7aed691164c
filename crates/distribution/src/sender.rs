//! A sender: from a trail over a connection to a receiver.

use crate::frame::{Frame, Hello, VERSION};
use crate::line::{Line, expect};
use crate::pump::statistics;
use crate::standing::open_source;
use crate::{Error, Ledger, Outlet, Step};
use change::{Commit, Timestamp};
use process::Statistics;
use std::sync::Arc;
use std::time::{Duration, Instant};
use trail::cipher::MasterKeys;
use trail::copy::{CopyReader, CopyRules};
use trail::storage::Storage;
use trail::{Position, TrailName};

/// How long the other side may take to open its trail.
const WELCOME_TIMEOUT: Duration = Duration::from_secs(60);

/// How long a stop waits for what is under way.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

/// While something is under way, answers are looked for this often: the checkpoint follows them, and nobody waits for that
/// longer than for the disk.
const ANSWER_TICK: Duration = Duration::from_micros(500);

/// What a sender needs besides a connection.
pub struct SenderSetup {
    /// The disk of the source trail.
    pub source: Arc<dyn Storage>,
    /// The source trail.
    pub trail: TrailName,
    /// Which records it sends on.
    pub rules: Box<dyn CopyRules>,
    /// Master keys, for rules that look into encrypted records.
    pub keys: Option<Arc<dyn MasterKeys>>,
    /// Where the sender's standing rests.
    pub ledger: Box<dyn Ledger>,
    /// Batches of so many bytes and more are compressed on the way.
    pub compress_from: Option<u32>,
    /// Most bytes a second.
    pub bandwidth: Option<u64>,
    /// For the operator.
    pub notice: Box<dyn FnMut(&str) + Send>,
    /// When counting started.
    pub since: Timestamp,
}

/// Sends a trail to a receiver, over any [`Line`].
pub struct RemoteSender {
    line: Box<dyn Line>,
    reader: CopyReader,
    outlet: Outlet,
    ledger: Box<dyn Ledger>,
    compress_from: Option<u32>,
    pace: Pace,
    since: Timestamp,
}

impl RemoteSender {
    /// Says what is to be sent where, hears what the target trail holds, and opens the source trail where sending goes on.
    ///
    /// # Errors
    /// [`Error`].
    pub fn open(line: Box<dyn Line>, hello: Hello, setup: SenderSetup) -> Result<RemoteSender, Error> {
        line.send(Frame::Hello(Hello { version: VERSION, ..hello }).encode(None))?;
        let Frame::Welcome(welcome) = expect(&*line, WELCOME_TIMEOUT)? else {
            return Err(Error::Protocol("the receiver did not say what its trail holds".to_owned()));
        };
        RemoteSender::go_on(line, welcome.last.as_ref().map(Commit::from).as_ref(), setup)
    }

    /// Opens the source trail where sending goes on to a target trail that ends with the transaction `last`.
    ///
    /// # Errors
    /// [`Error`].
    pub fn go_on(line: Box<dyn Line>, last: Option<&Commit>, setup: SenderSetup) -> Result<RemoteSender, Error> {
        let SenderSetup { source, trail, rules, keys, mut ledger, compress_from, bandwidth, mut notice, since } = setup;
        let opened = open_source(source, trail, &mut *ledger, last, rules, keys)?;
        if let Some(text) = opened.notice {
            notice(&format!("{}: {text}", process::Code::TargetTrailShort));
        }
        let outlet = Outlet::new(ledger.standing(), last);
        let pace = Pace { bandwidth, free: Instant::now() };
        Ok(RemoteSender { line, reader: opened.reader, outlet, ledger, compress_from, pace, since })
    }

    /// Does one bounded piece of work; waits for some at most `wait`.
    ///
    /// # Errors
    /// [`Error`]. Connect anew to go on.
    pub fn step(&mut self, wait: Duration) -> Result<Step, Error> {
        let mut step = Step::Idle;
        while let Some(frame) = self.line.receive(Duration::ZERO)? {
            self.heard(frame)?;
            step = Step::Answered;
        }
        if step == Step::Answered {
            return Ok(step);
        }
        let delay = self.pace.delay();
        if !delay.is_zero() || !self.outlet.admits() {
            let wait = if delay.is_zero() { wait } else { wait.min(delay) };
            if let Some(frame) = self.line.receive(wait)? {
                self.heard(frame)?;
            }
            return Ok(Step::Worked);
        }
        if let Some(batch) = self.reader.next().map_err(Error::source)? {
            let (number, early) = self.outlet.leave(&batch);
            if let Some(standing) = early {
                self.ledger.save(&standing)?;
            }
            let message = Frame::Batch { number, batch }.encode(self.compress_from);
            self.pace.spend(message.len());
            self.line.send(message)?;
            return Ok(Step::Worked);
        }
        let wait = if self.outlet.is_empty() { wait } else { wait.min(ANSWER_TICK) };
        self.reader.wait(wait).map_err(Error::source)?;
        Ok(Step::Idle)
    }

    fn heard(&mut self, frame: Frame) -> Result<(), Error> {
        match frame {
            Frame::Durable { number, position, last } => {
                if let Some(standing) = self.outlet.arrived(number, position, last)? {
                    self.ledger.save(&standing)?;
                }
                Ok(())
            }
            Frame::Refused(refused) => Err(Error::Refused { peer: self.line.peer().to_owned(), refused }),
            _ => Err(Error::Protocol("a receiver sent something else than an answer".to_owned())),
        }
    }

    /// Where the source trail is read.
    pub fn position(&self) -> Position {
        self.reader.position()
    }

    /// Whether all that was read is durable at the target.
    pub fn is_settled(&self) -> bool {
        self.outlet.is_empty()
    }

    /// Whether all that is published of the source trail was read.
    ///
    /// # Errors
    /// [`Error::Source`].
    pub fn is_at_end(&mut self) -> Result<bool, Error> {
        Ok(!self.reader.has_more().map_err(Error::source)?)
    }

    /// What was read and sent on.
    pub fn statistics(&self) -> Statistics {
        statistics(self.reader.tally(), self.since)
    }

    /// Ends cleanly: waits a while for the answers to what is under way.
    ///
    /// # Errors
    /// [`Error`].
    pub fn stop(mut self) -> Result<(), Error> {
        let start = Instant::now();
        while !self.outlet.is_empty() && start.elapsed() < STOP_TIMEOUT {
            if let Some(frame) = self.line.receive(Duration::from_millis(100))? {
                self.heard(frame)?;
            }
        }
        Ok(())
    }
}

/// Keeps to a bandwidth.
struct Pace {
    bandwidth: Option<u64>,
    /// When the line is free again.
    free: Instant,
}

impl Pace {
    fn delay(&self) -> Duration {
        self.bandwidth.map_or(Duration::ZERO, |_| self.free.saturating_duration_since(Instant::now()))
    }

    fn spend(&mut self, bytes: usize) {
        if let Some(bandwidth) = self.bandwidth {
            let took = Duration::from_secs_f64(bytes as f64 / bandwidth as f64);
            self.free = self.free.max(Instant::now()) + took;
        }
    }
}
