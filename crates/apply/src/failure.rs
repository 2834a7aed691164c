//! What the operator is told when a Replicat stops.

use crate::{Error, MappingError, RowError};
use database::{ErrorClass, Outcome};
use process::{Code, Failure};

impl From<&Error> for Failure {
    fn from(error: &Error) -> Failure {
        let failure = Failure::of(code(error), error).with_next_step(error.next_step());
        match error {
            Error::Trail { position, source } => {
                failure.with_position(position.to_string()).with_object_of(&Failure::from(&**source))
            }
            Error::Definition { position, title, .. } => {
                failure.with_position(position.to_string()).with_object(title.clone())
            }
            Error::OutOfPlace { position, .. }
            | Error::Sequence { position, .. }
            | Error::Inapplicable { position, .. }
            | Error::Target { position, .. }
            | Error::Unbalanced { position, .. } => failure.with_position(position.to_string()),
            Error::Rejected(rejected) => {
                let failure = failure.with_position(format!("{}, CSN {}", rejected.position, rejected.csn));
                match &rejected.target {
                    Some(target) => failure.with_object(target.to_string()),
                    None => failure,
                }
            }
            Error::Mapping { position, source } => {
                failure.with_position(position.to_string()).with_object(source.target().to_string())
            }
            Error::Handling { position, source } => {
                failure.with_position(position.to_string()).with_object(source.target().to_string())
            }
            Error::Discard { position, .. } | Error::ErrorQueue { position, .. } => {
                failure.with_position(position.to_string())
            }
            Error::CopyUnfinished { table } => failure.with_object(table.to_string()),
            Error::CheckpointFile(source) => failure.with_object_of(&Failure::from(&**source)),
            Error::NoErrorQueue | Error::NoRow { .. } | Error::Row(_) | Error::StartCsn(_) | Error::Unusable { .. } => {
                failure
            }
        }
    }
}

fn code(error: &Error) -> Code {
    match error {
        Error::Trail { source, .. } => Failure::from(&**source).code(),
        Error::OutOfPlace { .. } => Code::TrailDamaged,
        Error::Inapplicable { .. } => Code::RecordInapplicable,
        Error::Definition { .. } => Code::DefinitionRefused,
        Error::Sequence { .. } => Code::SequenceUnusable,
        Error::Target { source, .. } => match source.class() {
            ErrorClass::Transient => Code::DatabaseBusy,
            ErrorClass::ConnectionLost => Code::DatabaseUnreachable,
            ErrorClass::Denied => Code::DatabaseDenied,
            ErrorClass::Unsupported => Code::DatabaseUnsupported,
            ErrorClass::Full => Code::DatabaseDiskFull,
            ErrorClass::Corrupt => Code::DatabaseDamaged,
            ErrorClass::Missing | ErrorClass::Mismatch | ErrorClass::Permanent => Code::DatabaseFailed,
        },
        Error::Rejected(rejected) => match rejected.outcome {
            Outcome::Missing => Code::RowMissing,
            Outcome::Duplicate => Code::RowDuplicate,
            Outcome::ForeignKey => Code::ForeignKeyViolated,
            Outcome::Constraint => Code::ConstraintViolated,
            Outcome::Value => Code::ValueRefused,
        },
        Error::Mapping { source, .. } => match **source {
            MappingError::NoTarget { .. } => Code::TargetTableMissing,
            MappingError::NoKey { .. } | MappingError::KeyColumn { .. } | MappingError::KeyNotTold { .. } => {
                Code::TargetKeyMissing
            }
            MappingError::ThreadColumn { .. } => Code::HandlingUnfit,
            MappingError::NoColumn { .. } | MappingError::Ambiguous { .. } => Code::TableUnlike,
        },
        Error::NoRow { .. } | Error::Row(RowError::ApplierGone { .. }) => Code::CheckpointRowMissing,
        Error::Row(RowError::Altered { .. }) => Code::CheckpointRowAltered,
        Error::Row(RowError::RulesChanged { .. }) => Code::CheckpointRulesChanged,
        Error::Row(RowError::Version { .. }) | Error::Unusable { .. } => Code::CheckpointForeign,
        Error::StartCsn(_) => Code::StartCsnWrong,
        Error::Handling { .. } => Code::HandlingUnfit,
        Error::Discard { .. } => Code::DiscardRefused,
        Error::NoErrorQueue => Code::ErrorQueueMissing,
        Error::ErrorQueue { .. } => Code::ErrorQueueRefused,
        Error::CopyUnfinished { .. } => Code::CopyUnfinished,
        Error::CheckpointFile(source) => Failure::from(&**source).code(),
        Error::Unbalanced { .. } => Code::Internal,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use process::CheckpointError;
    use std::io;
    use trail::Position;

    #[test]
    fn failures_of_parts_keep_their_object_and_their_next_step() {
        let full = CheckpointError::Full {
            file: "R1.cpr".to_owned(),
            place: "/gg/dirchk".to_owned(),
            source: io::ErrorKind::StorageFull.into(),
        };
        let failure = Failure::from(&Error::CheckpointFile(Box::new(full)));
        assert_eq!((failure.code(), failure.object()), (Code::CheckpointDiskFull, Some("/gg/dirchk/R1.cpr")));
        assert!(failure.next_step().contains("make room"), "{}", failure.render());

        let missing = trail::Error::Missing { file: "aa000000003".to_owned() };
        let position = Position::new(2, 99);
        let failure = Failure::from(&Error::Trail { position, source: Box::new(missing) });
        assert_eq!((failure.code(), failure.object()), (Code::TrailFileMissing, Some("aa000000003")));
        assert_eq!(failure.position(), Some("000000002:99"));
        assert!(failure.next_step().contains("restore"), "{}", failure.render());
    }
}
