//! From SQLite's result codes to the reaction that they ask for.

use database::{Error, ErrorClass, Outcome, Rejection};
use rusqlite::ErrorCode;
use rusqlite::ffi;

/// An error of a call that could not do `what`.
pub(crate) fn failed(what: impl Into<String>, cause: rusqlite::Error) -> Error {
    let class = class(&cause);
    let error = Error::new(class, what).with_cause(cause);
    match class {
        ErrorClass::Denied => {
            error.with_next_step("give this user the right to read and write the file and its directory")
        }
        ErrorClass::Full => error.with_next_step("make room on the database's disk"),
        ErrorClass::Corrupt => error.with_next_step("run PRAGMA integrity_check; restore the database from a backup"),
        _ => error,
    }
}

/// The reaction that a result code asks for.
pub(crate) fn class(cause: &rusqlite::Error) -> ErrorClass {
    match cause.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::SchemaChanged) => ErrorClass::Transient,
        Some(ErrorCode::DiskFull) => ErrorClass::Full,
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => ErrorClass::Corrupt,
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied | ErrorCode::AuthorizationForStatementDenied) => {
            ErrorClass::Denied
        }
        Some(ErrorCode::CannotOpen) => ErrorClass::Missing,
        _ => ErrorClass::Permanent,
    }
}

/// Whether the call failed only because somebody else holds a lock.
pub(crate) fn is_busy(cause: &rusqlite::Error) -> bool {
    matches!(cause.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

/// What a failed write says about the data, or `None` when it is a failure of another kind.
///
/// The detail names constraints and columns. SQLite's own texts hold no values, but the text of a trigger's RAISE may, so
/// that one is left out.
pub(crate) fn rejection(cause: &rusqlite::Error, index: usize) -> Option<Rejection> {
    let rusqlite::Error::SqliteFailure(code, message) = cause else { return None };
    let outcome = match code.extended_code {
        ffi::SQLITE_CONSTRAINT_UNIQUE | ffi::SQLITE_CONSTRAINT_PRIMARYKEY | ffi::SQLITE_CONSTRAINT_ROWID => {
            Outcome::Duplicate
        }
        ffi::SQLITE_CONSTRAINT_FOREIGNKEY => Outcome::ForeignKey,
        ffi::SQLITE_CONSTRAINT_DATATYPE => Outcome::Value,
        _ if code.code == ErrorCode::ConstraintViolation => Outcome::Constraint,
        _ if matches!(code.code, ErrorCode::TypeMismatch | ErrorCode::TooBig) => Outcome::Value,
        _ => return None,
    };
    let detail = match message {
        Some(_) if code.extended_code == ffi::SQLITE_CONSTRAINT_TRIGGER => "a trigger refused the row".to_owned(),
        Some(message) => message.clone(),
        None => ffi::code_to_str(code.extended_code).to_owned(),
    };
    Some(Rejection { index, outcome, detail, code: code.extended_code.to_string() })
}
