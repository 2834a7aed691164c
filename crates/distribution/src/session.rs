//! One connection at the receiver: batches come in, answers go out.

use crate::frame::{Frame, VERSION, Welcome};
use crate::line::Line;
use crate::{Answer, Error, Intake, Step};
use std::sync::Arc;
use std::time::Duration;
use trail::copy::CopyWriter;

/// Takes what a sender sends into a target trail, and answers how far that is durable.
///
/// What an earlier connection brought counts for the sender only when it is durable: the first thing that a session tells is
/// what the trail holds after a sync.
pub struct Session {
    line: Arc<dyn Line>,
    intake: Intake,
}

impl Session {
    /// Syncs, and tells the sender what the trail holds.
    ///
    /// # Errors
    /// [`Error::Target`]; [`Error::Network`].
    pub fn begin(line: Arc<dyn Line>, mut intake: Intake) -> Result<Session, Error> {
        intake.settle()?;
        let welcome =
            Welcome { version: VERSION, last: intake.last().map(Into::into), position: intake.position().to_string() };
        line.send(Frame::Welcome(welcome).encode(None))?;
        Ok(Session { line, intake })
    }

    /// Takes what has come, and answers; waits for some at most `wait`.
    ///
    /// # Errors
    /// [`Error`]: the session is over.
    pub fn step(&mut self, wait: Duration) -> Result<Step, Error> {
        let wait = if self.intake.is_owing() { Duration::ZERO } else { wait };
        match self.line.receive(wait)? {
            Some(Frame::Batch { number, batch }) => {
                self.intake.take(number, &batch)?;
                if let Some(answer) = self.intake.answer(false)? {
                    self.tell(answer)?;
                }
                Ok(Step::Worked)
            }
            Some(_) => Err(Error::Protocol("a sender sent something else than records".to_owned())),
            None if self.intake.is_owing() => self.settle().map(|()| Step::Worked),
            None => Ok(Step::Idle),
        }
    }

    /// Makes everything durable that came, and answers for it.
    ///
    /// # Errors
    /// [`Error`].
    pub fn settle(&mut self) -> Result<(), Error> {
        let answer = self.intake.settle()?;
        self.tell(answer)
    }

    /// Gives the writer back, for the next session.
    pub fn into_writer(self) -> CopyWriter {
        self.intake.into_writer()
    }

    fn tell(&self, answer: Answer) -> Result<(), Error> {
        let Answer { number, position, last } = answer;
        self.line.send(Frame::Durable { number, position, last }.encode(None))
    }
}
