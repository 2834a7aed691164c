//! What the server's refusals mean.

use crate::wire::Error as WireError;
use database::{ApplyError, ErrorClass, Outcome, Rejection};

/// The error for write number `index`: a fact about data, or a failure of which `what` says what could not be done.
pub(super) fn of(error: WireError, index: usize, what: impl FnOnce() -> String) -> ApplyError {
    let refused = error.server().filter(|server| server.class() == ErrorClass::Permanent);
    match refused.and_then(|server| Some((kind(server.code())?, server.to_string(), server.code().to_owned()))) {
        Some((outcome, detail, code)) => ApplyError::Rejected(Rejection { index, outcome, detail, code }),
        None => ApplyError::Failed(error.during(what())),
    }
}

/// The fact about data that an error code stands for.
fn kind(code: &str) -> Option<Outcome> {
    match code {
        "23505" => Some(Outcome::Duplicate),
        "23503" | "23001" => Some(Outcome::ForeignKey),
        // A check option, and what a trigger of the user's raises.
        "44000" | "P0001" => Some(Outcome::Constraint),
        // An expression of the wrong type.
        "42804" => Some(Outcome::Value),
        code if code.starts_with("23") => Some(Outcome::Constraint),
        code if code.starts_with("22") => Some(Outcome::Value),
        _ => None,
    }
}
