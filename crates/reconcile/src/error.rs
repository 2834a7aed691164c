//! Why a comparison could not be made.

use std::fmt;

/// One of the databases of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The one that is right by definition.
    Source,
    /// The one that should be equal to it.
    Target,
    /// The one that keeps the rows that only one of the two has.
    Missing,
}

impl fmt::Display for Side {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(match self {
            Side::Source => "source",
            Side::Target => "target",
            Side::Missing => "site of the missing rows",
        })
    }
}

/// A comparison that came to no verdict.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// What was asked for can't be meant: the words have to change.
    #[error("{what}")]
    Refused {
        /// What is wrong.
        what: String,
        /// What the operator can do about it.
        next_step: String,
    },
    /// A database did not answer.
    #[error("could not work with the {side}")]
    Database {
        /// Which one.
        side: Side,
        /// Why.
        #[source]
        cause: database::Error,
    },
    /// A database contradicted itself, so nothing that it said counts.
    #[error("the {side} contradicts itself: {what}")]
    Contradiction {
        /// Which one.
        side: Side,
        /// How.
        what: String,
    },
}

impl Error {
    pub(crate) fn refused(what: impl Into<String>, next_step: impl Into<String>) -> Error {
        Error::Refused { what: what.into(), next_step: next_step.into() }
    }

    /// A failure of the site that keeps missing rows.
    pub(crate) fn of_missing(cause: database::Error) -> Error {
        Error::Database { side: Side::Missing, cause }
    }

    /// What the operator can do about it.
    pub fn next_step(&self) -> Option<&str> {
        match self {
            Error::Refused { next_step, .. } => Some(next_step),
            Error::Database { cause, .. } => cause.next_step(),
            Error::Contradiction { .. } => {
                Some("check that nothing changes the structure of the tables, and compare again")
            }
        }
    }
}
