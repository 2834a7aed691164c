//! What can go wrong with a trail, sorted by what the caller should do.

use crate::Position;
use crate::cipher::KeyError;
use crate::storage::Storage;
use change::TableName;
use std::io;

/// A trail operation that failed. [`next_step`](Error::next_step) says what the operator can do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused. Stop; start again when the cause is gone.
    #[error("could not {action} {file} in {place}")]
    Io {
        /// What was tried, such as `write`.
        action: &'static str,
        /// The file.
        file: String,
        /// The directory.
        place: String,
        /// The operating system's answer.
        source: io::Error,
    },
    /// No room. The file ends with its last whole record, and the same call may be repeated once there is room.
    #[error("no room to write {file} in {place} at byte {rba}")]
    Full {
        /// The file.
        file: String,
        /// The directory.
        place: String,
        /// Where the file ends.
        rba: u64,
        /// The operating system's answer.
        source: io::Error,
    },
    /// An earlier write or sync failed, so that nobody knows what is on disk. Open the trail anew.
    #[error("trail {trail} is not written any further after an earlier failure")]
    Poisoned {
        /// The trail.
        trail: String,
    },
    /// Bytes that were safe once are not what was written.
    #[error("{file} is damaged at byte {rba}")]
    Damaged {
        /// The file.
        file: String,
        /// Where the record that can't be read starts.
        rba: u64,
        /// What is wrong with it.
        source: Damage,
    },
    /// A whole file that this version can't read: another product's, or of a later version.
    #[error("{file} can't be read by this version: {reason}")]
    Foreign {
        /// The file.
        file: String,
        /// Why not.
        reason: String,
    },
    /// The trail does not hold the position that a checkpoint speaks of.
    #[error("trail {trail} does not agree with position {position}: {reason}")]
    Mismatch {
        /// The trail.
        trail: String,
        /// The position asked for.
        position: Position,
        /// What the trail holds instead.
        reason: String,
    },
    /// A file in the middle of the trail is gone.
    #[error("{file} is missing from the trail although later files exist")]
    Missing {
        /// The file.
        file: String,
    },
    /// The data of a file is encrypted, and its key is not at hand; or a new file can't be encrypted.
    #[error("could not open the encryption of {file} with master key {key}")]
    Key {
        /// The file.
        file: String,
        /// Name and version of the master key.
        key: String,
        /// Why not.
        source: KeyError,
    },
    /// Another process writes this trail.
    #[error("trail {trail} in {place} is being written by another process")]
    Locked {
        /// The trail.
        trail: String,
        /// The directory.
        place: String,
    },
    /// A change that the trail can't hold.
    #[error("a change of {table} can't be written to the trail: {reason}")]
    Refused {
        /// The table.
        table: TableName,
        /// Which limit it breaks.
        reason: String,
    },
    /// A commit's identity that the trail can't hold.
    #[error("a transaction can't be written to the trail: {reason}")]
    RefusedCommit {
        /// Which limit it breaks.
        reason: String,
    },
    /// What is asked for can't be written into this trail.
    #[error("trail {trail} can't be written as asked for: {reason}")]
    Format {
        /// The trail.
        trail: String,
        /// Which two things contradict each other.
        reason: String,
    },
    /// A file names a table without saying how it looks, and nobody else did.
    #[error("{file} holds no definition of {table}, and none was given for it")]
    Undefined {
        /// The file.
        file: String,
        /// The table, as the file names it.
        table: String,
    },
    /// A text that is not a trail name.
    #[error("{text:?} is not a trail name")]
    Name {
        /// The text.
        text: String,
    },
}

impl Error {
    pub(crate) fn io(action: &'static str, storage: &dyn Storage, file: &str, source: io::Error) -> Error {
        Error::Io { action, file: file.to_owned(), place: storage.place(), source }
    }

    /// What the operator can do about it.
    pub fn next_step(&self) -> &'static str {
        match self {
            Error::Io { .. } => "look at the cause, mend it, and start the group again",
            Error::Full { .. } => {
                "make room on the disk, then start the group again: nothing is lost, it goes on where it was"
            }
            Error::Poisoned { .. } => {
                "start the group again: the end of the trail is verified and repaired at the start"
            }
            Error::Damaged { .. } => {
                "restore the file from a copy; if there is none, reposition the group behind the damage and compare the tables"
            }
            Error::Foreign { .. } => "read the file with the product and version that wrote it",
            Error::Mismatch { .. } => {
                "restore the trail's files, or alter the group to a position that the trail holds, then compare the tables"
            }
            Error::Missing { .. } => {
                "restore the file, or alter the group to start at a later file and compare the tables"
            }
            Error::Key { source: KeyError::Missing | KeyError::NoKeys, .. } => {
                "bring the wallet of the home that wrote the file into this home: its file is dirwlt/drover.wallet"
            }
            Error::Key { source: KeyError::Wrong, .. } => {
                "use the wallet of the home that wrote the file; two homes that share a trail share one wallet"
            }
            Error::Key { .. } => "look at the cause, mend it, and start the group again",
            Error::Locked { .. } => "stop the other process first, or give this group a trail of its own",
            Error::Refused { .. } | Error::RefusedCommit { .. } => {
                "leave the table out, or make the value smaller at the source"
            }
            Error::Format { .. } => "change the format in the parameter file, or give the group a new trail",
            Error::Undefined { .. } => {
                "write the definitions of the source's tables with drover defgen and name the file with SOURCEDEFS, or let the \
                 trail be written with OBJECTDEFS"
            }
            Error::Name { .. } => "use two letters or digits, a letter first, such as aa",
        }
    }
}

/// What is wrong with a record.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Damage {
    /// The bytes end before the record does.
    #[error("the record ends early: {what} needs {needed} bytes, {left} are left")]
    Short {
        /// The part that is not whole.
        what: &'static str,
        /// Bytes it needs.
        needed: u64,
        /// Bytes that are left.
        left: u64,
    },
    /// The length at the end is not the length at the start, or there is no record at all.
    #[error("no record starts here: its first or last bytes are not those of a record")]
    Frame,
    /// The checksum does not fit the bytes.
    #[error("the checksum is {found:08x}, the bytes have {computed:08x}")]
    Checksum {
        /// The stored one.
        found: u32,
        /// The one of the bytes.
        computed: u32,
    },
    /// A part has a content that it can't have.
    #[error("{0}")]
    Content(&'static str),
    /// A change of a kind that this version can't turn into rows. The file may well be whole.
    #[error("a transaction holds operation {0}, which this version can't turn into a change")]
    Operation(u8),
}
