//! Why records can't be sent or taken.

use change::{Csn, TransactionId};
use process::{CheckpointError, Code, Failure};
use trail::Position;

/// A copy that can't go on. Nothing is lost: the sender's standing names what is durable at the target.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The source trail failed.
    #[error("could not read the source trail")]
    Source(#[source] Box<trail::Error>),
    /// The target trail failed.
    #[error("could not write the target trail")]
    Target(#[source] Box<trail::Error>),
    /// The sender's checkpoint failed.
    #[error("could not save how far the sender has come")]
    Checkpoint(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The target trail holds nothing any more.
    #[error(
        "the target trail is lost: it held everything up to transaction {transaction} (CSN {csn}) at {position}, and is empty now"
    )]
    TargetLost {
        /// CSN of the last transaction that it held.
        csn: Csn,
        /// That transaction.
        transaction: TransactionId,
        /// Its end then.
        position: Position,
    },
    /// The target trail holds something else.
    #[error("the target trail ends with transaction {transaction} (CSN {csn}), which the source trail does not hold")]
    TargetUnlike {
        /// CSN of its last transaction.
        csn: Csn,
        /// That transaction.
        transaction: TransactionId,
    },
    /// The network failed, or the process at its other end.
    #[error("the connection with {peer} failed")]
    Network {
        /// The other end.
        peer: String,
        /// What happened.
        source: std::io::Error,
    },
    /// Certificates or keys are not what they must be.
    #[error("{what}")]
    Certificate {
        /// What can't be used, or who is not trusted.
        what: String,
        /// Why.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The other side does not go on.
    #[error("{peer} refuses: {}", refused.what)]
    Refused {
        /// The other end.
        peer: String,
        /// What it says.
        refused: crate::Refused,
    },
    /// Sender and receiver do not understand each other.
    #[error("the other side broke the protocol: {0}")]
    Protocol(String),
}

impl Error {
    pub(crate) fn source(error: trail::Error) -> Error {
        Error::Source(Box::new(error))
    }

    pub(crate) fn target(error: trail::Error) -> Error {
        Error::Target(Box::new(error))
    }
}

impl From<&Error> for Failure {
    fn from(error: &Error) -> Failure {
        match error {
            // The trail's own failure says more than where it lies.
            Error::Source(source) | Error::Target(source) => {
                let failure = Failure::from(&**source);
                Failure::new(failure.code(), error.to_string())
                    .with_object_of(&failure)
                    .with_position_of(&failure)
                    .with_cause(&**source)
                    .with_next_step(failure.next_step())
            }
            Error::Checkpoint(source) => match source.downcast_ref::<CheckpointError>() {
                Some(source) => Failure::from(source),
                None => Failure::of(Code::CheckpointRefused, error),
            },
            Error::TargetLost { position, .. } => {
                Failure::of(Code::TargetTrailLost, error).with_position(position.to_string())
            }
            Error::TargetUnlike { .. } => Failure::of(Code::TargetTrailUnlike, error),
            Error::Network { peer, .. } => Failure::of(Code::PathUnreachable, error).with_object(peer),
            Error::Certificate { .. } => Failure::of(Code::PathCertificate, error),
            Error::Refused { refused, .. } => {
                let code = match refused.is_passing {
                    true => Code::TargetRefusesNow,
                    false => Code::parse(&refused.code).filter(|code| !code.is_passing()).unwrap_or(Code::PathRefused),
                };
                let failure = Failure::of(code, error);
                match refused.next_step.is_empty() {
                    true => failure,
                    false => failure.with_next_step(refused.next_step.as_str()),
                }
            }
            Error::Protocol(_) => Failure::of(Code::PathProtocol, error),
        }
    }
}
