//! What becomes of an error: a code, an explanation for the operator, and a decision.

use crate::{CheckpointError, Code, GroupNameError, HomeError, LockError, Message, WalletError};
use change::Timestamp;
use std::error::Error;
use std::fmt::Write;
use std::time::Duration;

/// What a group does about a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Tries again after this time, from its last checkpoint.
    RetryAfter(Duration),
    /// Stops, with an exit code that is not zero.
    Abend,
}

/// A failure as the operator sees it.
///
/// It never holds a row value or a secret: neither do the errors that it is made from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    code: Code,
    what: String,
    object: Option<String>,
    position: Option<String>,
    causes: Vec<String>,
    next_step: String,
    action: Action,
}

impl Failure {
    /// A failure of a kind; `what` says what could not be done to what. Next step and action are those of the code.
    pub fn new(code: Code, what: impl Into<String>) -> Failure {
        let action = if code.is_passing() { Action::RetryAfter(Duration::ZERO) } else { Action::Abend };
        Failure {
            code,
            what: what.into(),
            object: None,
            position: None,
            causes: Vec::new(),
            next_step: code.next_step().to_owned(),
            action,
        }
    }

    /// A failure of a kind, told by `error` and the chain of its causes.
    pub fn of(code: Code, error: &dyn Error) -> Failure {
        let failure = Failure::new(code, error.to_string());
        match error.source() {
            Some(cause) => failure.with_cause(cause),
            None => failure,
        }
    }

    /// Names the table, file or other object that the failure is about.
    pub fn with_object(self, object: impl Into<String>) -> Failure {
        Failure { object: Some(object.into()), ..self }
    }

    /// Names what `part`, the failure of a part of the group, is about, if it says so.
    pub fn with_object_of(self, part: &Failure) -> Failure {
        Failure { object: part.object.clone().or(self.object), ..self }
    }

    /// Names the place that `part`, the failure of a part of the group, names, if it does.
    pub fn with_position_of(self, part: &Failure) -> Failure {
        Failure { position: part.position.clone().or(self.position), ..self }
    }

    /// Names the place in the trail or in the source's log.
    pub fn with_position(self, position: impl Into<String>) -> Failure {
        Failure { position: Some(position.into()), ..self }
    }

    /// Adds an error and the chain of its causes.
    pub fn with_cause(mut self, cause: &dyn Error) -> Failure {
        let mut next = Some(cause);
        while let Some(error) = next {
            let text = error.to_string();
            // Some libraries print the cause's text in their own.
            if self.causes.last() != Some(&text) {
                self.causes.push(text);
            }
            next = error.source();
        }
        self
    }

    /// Replaces the next step by one that knows more than the code does.
    pub fn with_next_step(self, next_step: impl Into<String>) -> Failure {
        Failure { next_step: next_step.into(), ..self }
    }

    /// The kind of failure.
    pub fn code(&self) -> Code {
        self.code
    }

    /// What could not be done to what.
    pub fn what(&self) -> &str {
        &self.what
    }

    /// The table, file or other object that it is about.
    pub fn object(&self) -> Option<&str> {
        self.object.as_deref()
    }

    /// The place in the trail or in the source's log.
    pub fn position(&self) -> Option<&str> {
        self.position.as_deref()
    }

    /// The causes, the nearest first.
    pub fn causes(&self) -> &[String] {
        &self.causes
    }

    /// What the operator can do about it.
    pub fn next_step(&self) -> &str {
        &self.next_step
    }

    /// What the group does about it, as far as the kind of failure tells. [`Retry`](crate::Retry) sets the delay and gives
    /// up in the end.
    pub fn action(&self) -> Action {
        self.action
    }

    /// The failure as a report or terminal shows it: what, object, position, causes and next step, a line each.
    pub fn render(&self) -> String {
        format!("{} {}: {}", self.code.level(), self.code, self.lines())
    }

    /// The failure as a message.
    pub fn message(&self, time: Timestamp) -> Message {
        Message { time, code: self.code, text: self.lines() }
    }

    fn lines(&self) -> String {
        let mut text = self.what.clone();
        let mut line = |label: &str, value: &str| _ = write!(text, "\n  {label:<10} {}", value.replace('\n', "\n  "));
        self.object.iter().for_each(|object| line("object:", object));
        self.position.iter().for_each(|position| line("position:", position));
        self.causes.iter().for_each(|cause| line("cause:", cause));
        if !self.next_step.is_empty() {
            line("next step:", &self.next_step);
        }
        text
    }
}

impl From<&trail::Error> for Failure {
    fn from(error: &trail::Error) -> Failure {
        let code = match error {
            trail::Error::Damaged { .. } => Code::TrailDamaged,
            trail::Error::Foreign { .. } => Code::TrailForeign,
            trail::Error::Format { .. } => Code::TrailFormatWrong,
            trail::Error::Undefined { .. } => Code::DefinitionMissing,
            trail::Error::Mismatch { .. } => Code::TrailMismatch,
            trail::Error::Full { .. } => Code::TrailDiskFull,
            trail::Error::Key { .. } => Code::TrailKey,
            trail::Error::Missing { .. } => Code::TrailFileMissing,
            trail::Error::Locked { .. } => Code::TrailInUse,
            trail::Error::Refused { .. } | trail::Error::RefusedCommit { .. } => Code::ChangeRefused,
            _ => Code::TrailRefused,
        };
        let failure = Failure::of(code, error).with_next_step(error.next_step());
        match error {
            trail::Error::Damaged { file, rba, .. } | trail::Error::Full { file, rba, .. } => {
                failure.with_object(file).with_position(format!("byte {rba}"))
            }
            trail::Error::Mismatch { trail, position, .. } => {
                failure.with_object(trail).with_position(position.to_string())
            }
            trail::Error::Key { file, .. }
            | trail::Error::Io { file, .. }
            | trail::Error::Foreign { file, .. }
            | trail::Error::Undefined { file, .. }
            | trail::Error::Missing { file } => failure.with_object(file),
            trail::Error::Poisoned { trail }
            | trail::Error::Locked { trail, .. }
            | trail::Error::Format { trail, .. } => failure.with_object(trail),
            trail::Error::Refused { table, .. } => failure.with_object(table.to_string()),
            _ => failure,
        }
    }
}

impl From<&CheckpointError> for Failure {
    fn from(error: &CheckpointError) -> Failure {
        let object = match error {
            CheckpointError::Lost { file, place, .. }
            | CheckpointError::Exists { file, place, .. }
            | CheckpointError::Damaged { file, place, .. }
            | CheckpointError::Foreign { file, place, .. }
            | CheckpointError::Full { file, place, .. }
            | CheckpointError::Io { file, place, .. } => format!("{place}/{file}"),
            CheckpointError::Poisoned { file } | CheckpointError::TooLarge { file, .. } => file.clone(),
        };
        Failure::of(error.code(), error).with_next_step(error.next_step()).with_object(object)
    }
}

impl From<&HomeError> for Failure {
    fn from(error: &HomeError) -> Failure {
        match error {
            HomeError::NotAHome { .. } => Failure::of(Code::HomeUnusable, error),
            HomeError::Occupied { .. } => {
                Failure::of(Code::HomeUnusable, error).with_next_step("choose an empty directory, or a new one")
            }
            HomeError::Version { .. } => {
                Failure::of(Code::HomeUnusable, error).with_next_step("use the version of Drover that made the home")
            }
            HomeError::Io { .. } => Failure::of(Code::HomeRefused, error),
        }
    }
}

impl From<&LockError> for Failure {
    fn from(error: &LockError) -> Failure {
        let code = match error {
            LockError::GroupRunning { .. } => Code::GroupRunning,
            LockError::HomeInUse { .. } => Code::HomeInUse,
            LockError::Io { .. } => Code::HomeRefused,
        };
        Failure::of(code, error)
    }
}

impl From<&WalletError> for Failure {
    fn from(error: &WalletError) -> Failure {
        Failure::of(Code::WalletUnusable, error)
    }
}

impl From<&GroupNameError> for Failure {
    fn from(error: &GroupNameError) -> Failure {
        Failure::of(Code::GroupNameWrong, error)
    }
}
