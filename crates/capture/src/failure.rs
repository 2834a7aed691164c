//! What the operator is told when an Extract stops.

use crate::{Error, open};
use database::ErrorClass;
use process::{Code, Failure};

impl From<&Error> for Failure {
    fn from(error: &Error) -> Failure {
        let failure = match error {
            Error::Source { source, .. } => {
                let code = open_transactions(error).map_or_else(|| source_code(source.class()), open::Error::code);
                Failure::of(code, error)
            }
            Error::Trail { source, .. } => Failure::of(Failure::from(&**source).code(), error),
            Error::Checkpoint { source, .. } => Failure::of(Failure::from(&**source).code(), error),
            Error::TrailBehind { .. } => Failure::of(Code::TrailMismatch, error),
            Error::Gap { .. } => Failure::of(Code::SourceMismatch, error),
            Error::PartitionTruncated { .. } => Failure::of(Code::PartitionTruncated, error),
            Error::Unusable { .. } => Failure::of(Code::CheckpointForeign, error),
            Error::Untold { .. } => Failure::of(Code::DefinitionUntold, error),
            Error::OutOfOrder { .. } | Error::Unbalanced { .. } => Failure::of(Code::Internal, error),
        };
        let failure = failure.with_next_step(error.next_step());
        match error {
            Error::Checkpoint { position, source } => {
                failure.with_position(position.to_string()).with_object_of(&Failure::from(&**source))
            }
            Error::PartitionTruncated { position, table, .. } => {
                failure.with_object(table.to_string()).with_position(position.to_string())
            }
            Error::Untold { position, title, .. } => {
                failure.with_object(title.clone()).with_position(position.to_string())
            }
            Error::Source { position, .. }
            | Error::OutOfOrder { position, .. }
            | Error::Unbalanced { position, .. } => failure.with_position(position.to_string()),
            Error::Trail { trail, position, .. } => failure.with_object(trail).with_position(position.to_string()),
            Error::TrailBehind { trail, csn, .. } => failure.with_object(trail).with_position(format!("CSN {csn}")),
            Error::Gap { trail, position, .. } => failure.with_object(trail).with_position(position.to_string()),
            Error::Unusable { .. } => failure,
        }
    }
}

/// The failure of the open-transaction store that is behind one of the source.
fn open_transactions(error: &Error) -> Option<&open::Error> {
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        cause = error.source();
    }
    None
}

fn source_code(class: ErrorClass) -> Code {
    match class {
        ErrorClass::Transient => Code::DatabaseBusy,
        ErrorClass::ConnectionLost => Code::DatabaseUnreachable,
        ErrorClass::Denied => Code::DatabaseDenied,
        ErrorClass::Unsupported => Code::TableUncapturable,
        ErrorClass::Missing => Code::TableMissing,
        ErrorClass::Mismatch => Code::SourceMismatch,
        ErrorClass::Full => Code::DatabaseDiskFull,
        ErrorClass::Corrupt => Code::DatabaseDamaged,
        ErrorClass::Permanent => Code::DatabaseFailed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use change::LogPosition;
    use process::CheckpointError;
    use std::io;

    #[test]
    fn a_full_disk_under_open_transactions_has_its_own_code() {
        let full = open::Error::Full {
            file: "E1-0000000001.spill".to_owned(),
            place: "/gg/dirtmp".to_owned(),
            source: io::ErrorKind::StorageFull.into(),
        };
        let what = "can't keep the transactions that are open at the source";
        let source =
            database::Error::new(ErrorClass::Permanent, what).with_next_step(full.next_step()).with_cause(full);
        let failure = Failure::from(&Error::Source { action: "read", position: LogPosition::new("42"), source });
        assert_eq!(failure.code(), Code::OpenTransactionsFull);
        let shown = failure.render();
        assert!(shown.contains("/gg/dirtmp") && shown.contains("CACHESIZE"), "{shown}");
    }

    #[test]
    fn a_full_disk_under_the_checkpoint_names_the_file_and_what_to_do() {
        let full = CheckpointError::Full {
            file: "E1.cpe".to_owned(),
            place: "/gg/dirchk".to_owned(),
            source: io::ErrorKind::StorageFull.into(),
        };
        let position = LogPosition::new("42");
        let failure = Failure::from(&Error::Checkpoint { position, source: Box::new(full) });
        assert_eq!((failure.code(), failure.object()), (Code::CheckpointDiskFull, Some("/gg/dirchk/E1.cpe")));
        assert_eq!(failure.position(), Some("42"));
        assert!(failure.next_step().contains("make room"), "{}", failure.render());
    }
}
