//! Why open transactions can't be kept.

use std::io;
use trail::storage::Storage;

/// A failure of the open-transaction store or of Bounded Recovery. Nothing is lost, but for [`Error::PreparedLost`]: the source
/// was told to forget only what trail and checkpoint hold, and tells again what was open.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No room for a file.
    #[error("no room to write {file} in {place} for open transactions")]
    Full {
        /// The file.
        file: String,
        /// The directory.
        place: String,
        /// The operating system's answer.
        source: io::Error,
    },
    /// A file does not hold what was written into it.
    #[error("{file} in {place}, which holds open transactions, is damaged at byte {offset}: {reason}")]
    Damaged {
        /// The file.
        file: String,
        /// The directory.
        place: String,
        /// Where what can't be read starts.
        offset: u64,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The operating system refused.
    #[error("could not {action} {file} in {place}, which holds open transactions")]
    Io {
        /// What was tried, such as `read`.
        action: &'static str,
        /// The file.
        file: String,
        /// The directory.
        place: String,
        /// The operating system's answer.
        source: io::Error,
    },
    /// A file that holds a prepared transaction can't be read.
    #[error(
        "can't read {file} in {place}, which holds prepared transaction {transaction}, and the source does not tell it again"
    )]
    PreparedLost {
        /// The transaction.
        transaction: change::TransactionId,
        /// The file.
        file: String,
        /// The directory.
        place: String,
        /// What is wrong with it.
        source: Box<Error>,
    },
    /// A prepared transaction was committed of which nothing is kept.
    #[error(
        "prepared transaction {transaction} was committed, nothing is kept of it here, and the source does not tell it again"
    )]
    PreparedMissing {
        /// The transaction.
        transaction: change::TransactionId,
    },
    /// The source told something of a transaction that it had not started.
    #[error("the source told {what} of transaction {transaction}, which it had not started")]
    Unknown {
        /// What came.
        what: &'static str,
        /// The transaction.
        transaction: change::TransactionId,
    },
}

impl Error {
    pub(crate) fn io(action: &'static str, storage: &dyn Storage, file: &str, source: io::Error) -> Error {
        let (file, place) = (file.to_owned(), storage.place());
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Error::Full { file, place, source },
            _ => Error::Io { action, file, place, source },
        }
    }

    pub(crate) fn damaged(storage: &dyn Storage, file: &str, offset: u64, reason: &'static str) -> Error {
        Error::Damaged { file: file.to_owned(), place: storage.place(), offset, reason }
    }

    /// What the operator can do about it.
    pub fn next_step(&self) -> &'static str {
        match self {
            Error::Full { .. } => {
                "make room on the disk of dirtmp, or raise CACHEMGR CACHESIZE, then start the group again: the source tells again \
                 what was open"
            }
            Error::Damaged { .. } => {
                "look at the disk, then start the group again: the source tells again what was open, and nothing is lost"
            }
            Error::PreparedLost { .. } => {
                "restore the file from a copy; with none, remove it, start the group, leave the transaction out with SKIPTRANS while \
                 it is prepared, and compare the tables once it has ended"
            }
            Error::PreparedMissing { .. } => {
                "put back the files of prepared transactions in dirbr; with none, DELETE EXTRACT, add the group anew, and copy the tables"
            }
            Error::Io { .. } => "look at the cause, mend it, and start the group again",
            Error::Unknown { .. } => "report this as a bug, and compare the tables",
        }
    }

    /// The code that reports show.
    pub fn code(&self) -> process::Code {
        match self {
            Error::Full { .. } => process::Code::OpenTransactionsFull,
            Error::Damaged { .. } => process::Code::OpenTransactionsDamaged,
            Error::PreparedLost { .. } | Error::PreparedMissing { .. } => process::Code::PreparedLost,
            Error::Io { .. } => process::Code::OpenTransactionsRefused,
            Error::Unknown { .. } => process::Code::Internal,
        }
    }
}
