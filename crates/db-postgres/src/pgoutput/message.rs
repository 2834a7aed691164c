//! What pgoutput says.

use super::Tuple;
use crate::wire::Lsn;
use change::{Timestamp, TruncateOptions};

/// How the rows of a relation are identified in updates and deletes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplicaIdentity {
    /// By primary key.
    Default,
    /// Not at all.
    Nothing,
    /// By the whole row.
    Full,
    /// By a chosen unique index.
    Index,
}

/// The shape of a relation. Sent before its first use in a session, and again after it changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Relation<'a> {
    /// Top-level or subtransaction, inside a streamed block.
    pub transaction: Option<u32>,
    /// Number of the relation.
    pub oid: u32,
    /// Schema; empty for `pg_catalog`.
    pub schema: &'a str,
    /// Name.
    pub name: &'a str,
    /// How rows are identified.
    pub identity: ReplicaIdentity,
    /// Published columns in order.
    pub columns: Vec<RelationColumn<'a>>,
}

/// One column of a [`Relation`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelationColumn<'a> {
    /// Whether it is part of what identifies a row.
    pub is_key: bool,
    /// Name.
    pub name: &'a str,
    /// Number of the type.
    pub type_oid: u32,
    /// Modifier of the type, -1 for none.
    pub modifier: i32,
}

/// What an update or delete says of the row before.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum OldImage<'a> {
    /// Nothing: the key did not change.
    None,
    /// The columns that identify the row; the others are NULL.
    Key(Tuple<'a>),
    /// The whole row.
    Full(Tuple<'a>),
}

/// A transaction that is prepared for two-phase commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prepared<'a> {
    /// Start of the log record.
    pub lsn: Lsn,
    /// End of the log record.
    pub end: Lsn,
    /// When.
    pub time: Timestamp,
    /// Its number.
    pub transaction: u32,
    /// The user's name for it.
    pub name: &'a str,
}

/// One message. `transaction` is given inside a streamed block only.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the fields are those of the server's documentation")]
pub enum Message<'a> {
    /// A committed transaction starts; `commit` is where its commit record starts.
    Begin { commit: Lsn, time: Timestamp, transaction: u32 },
    /// It is complete; `end` is the end of its commit record.
    Commit { commit: Lsn, end: Lsn, time: Timestamp },
    /// The transaction came from elsewhere.
    Origin { commit: Lsn, name: &'a str },
    /// See [`Relation`].
    Relation(Relation<'a>),
    /// The name of a type that is not built in.
    Type { transaction: Option<u32>, oid: u32, schema: &'a str, name: &'a str },
    /// A new row.
    Insert { transaction: Option<u32>, relation: u32, new: Tuple<'a> },
    /// A changed row.
    Update { transaction: Option<u32>, relation: u32, old: OldImage<'a>, new: Tuple<'a> },
    /// A row that went away; never [`OldImage::None`].
    Delete { transaction: Option<u32>, relation: u32, old: OldImage<'a> },
    /// All rows of some tables went away; those that CASCADE reached are among them.
    Truncate { transaction: Option<u32>, relations: Vec<u32>, options: TruncateOptions },
    /// `pg_logical_emit_message`.
    Logical { transaction: Option<u32>, transactional: bool, lsn: Lsn, prefix: &'a str, content: &'a [u8] },
    /// A block of changes of a transaction in progress starts.
    StreamStart { transaction: u32, is_first: bool },
    /// It ends.
    StreamStop,
    /// A streamed transaction is committed.
    StreamCommit { transaction: u32, commit: Lsn, end: Lsn, time: Timestamp },
    /// A streamed transaction, or one of its subtransactions, is given up.
    StreamAbort { transaction: u32, subtransaction: u32 },
    /// A prepared transaction starts.
    BeginPrepare(Prepared<'a>),
    /// It is complete.
    Prepare(Prepared<'a>),
    /// It is committed.
    CommitPrepared(Prepared<'a>),
    /// It is rolled back; `lsn` and `time` are those of the PREPARE, `end` of the rollback.
    RollbackPrepared(Prepared<'a>),
    /// A streamed transaction is prepared.
    StreamPrepare(Prepared<'a>),
}
