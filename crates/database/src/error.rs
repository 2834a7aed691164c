//! What can go wrong with a database, sorted by what the caller should do.

use std::error::Error as StdError;
use std::fmt;

/// The reaction that an [`Error`] asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorClass {
    /// The same call may succeed later: a lock was held, a deadlock was broken. Roll back and repeat.
    Transient,
    /// The connection is gone: reconnect, read the checkpoint, go on from there.
    ConnectionLost,
    /// A right is missing.
    Denied,
    /// Something that the database or the table can't do.
    Unsupported,
    /// A table, column or object that must exist does not.
    Missing,
    /// The database is not the one, or not at the place, that our position speaks of (restored from a backup, replaced).
    Mismatch,
    /// No room on the database's disk.
    Full,
    /// The database says that it is damaged.
    Corrupt,
    /// Anything else that repeating would not cure.
    Permanent,
}

/// A database call that failed.
///
/// The text says what could not be done to what and never holds a row value or a secret; the cause stands in
/// [`source`](StdError::source).
#[derive(Debug)]
pub struct Error {
    class: ErrorClass,
    what: String,
    next_step: Option<String>,
    cause: Option<Box<dyn StdError + Send + Sync>>,
}

impl Error {
    /// An error of `class`; `what` says what could not be done to what, in lower case and without a full stop.
    pub fn new(class: ErrorClass, what: impl Into<String>) -> Error {
        Error { class, what: what.into(), next_step: None, cause: None }
    }

    /// Adds what the operator can do about it.
    pub fn with_next_step(self, next_step: impl Into<String>) -> Error {
        Error { next_step: Some(next_step.into()), ..self }
    }

    /// Adds the cause.
    pub fn with_cause(self, cause: impl Into<Box<dyn StdError + Send + Sync>>) -> Error {
        Error { cause: Some(cause.into()), ..self }
    }

    /// The reaction that this error asks for.
    pub fn class(&self) -> ErrorClass {
        self.class
    }

    /// What the operator can do about it.
    pub fn next_step(&self) -> Option<&str> {
        self.next_step.as_deref()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.what)
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.cause.as_ref().map(|cause| &**cause as &(dyn StdError + 'static))
    }
}
