//! What can go wrong, sorted by what the caller does about it.

use std::io;

/// A command or a tool that could not do what was asked for.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// It was asked for in a wrong way, or can't be had here; the text says why and what can be.
    #[error("{0}")]
    Refused(String),
    /// A file could not be used.
    #[error("could not {action} {file}")]
    File {
        /// What was tried.
        action: &'static str,
        /// The file.
        file: String,
        /// The operating system's answer.
        source: io::Error,
    },
    /// The trail can't be read.
    #[error("{0}")]
    Trail(#[from] trail::Error),
    /// Nobody takes what is shown.
    #[error("could not print")]
    Print(#[source] io::Error),
    /// The operator stopped it.
    #[error("stopped by the operator")]
    Interrupted,
}

impl Error {
    pub(crate) fn refused(text: impl Into<String>) -> Error {
        Error::Refused(text.into())
    }

    pub(crate) fn file(action: &'static str, file: impl Into<String>, source: io::Error) -> Error {
        Error::File { action, file: file.into(), source }
    }
}
