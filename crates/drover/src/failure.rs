//! What an operator is told about errors that no other room turns into a message.

use database::ErrorClass;
use process::{Code, Failure};

/// The failure behind a database's error.
pub fn of_database(error: &database::Error) -> Failure {
    let code = match error.class() {
        ErrorClass::Transient => Code::DatabaseBusy,
        ErrorClass::ConnectionLost => Code::DatabaseUnreachable,
        ErrorClass::Denied => Code::DatabaseDenied,
        ErrorClass::Unsupported => Code::DatabaseUnsupported,
        ErrorClass::Missing => Code::TableMissing,
        ErrorClass::Mismatch => Code::SourceMismatch,
        ErrorClass::Full => Code::DatabaseDiskFull,
        ErrorClass::Corrupt => Code::DatabaseDamaged,
        ErrorClass::Permanent => Code::DatabaseFailed,
    };
    let failure = Failure::of(code, error);
    match error.next_step() {
        Some(next_step) => failure.with_next_step(next_step),
        None => failure,
    }
}
