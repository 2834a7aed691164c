//! Identity of transactions.

use crate::Timestamp;
use std::fmt;
use std::sync::Arc;

/// Commit sequence number: the place of a commit in the source's commit order.
///
/// Fixed-width text, so that comparing texts compares commits.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Csn(Arc<str>);

impl Csn {
    /// A number from its text.
    pub fn new(text: impl Into<Arc<str>>) -> Csn {
        Csn(text.into())
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Csn {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(&self.0)
    }
}

/// The source's name for a transaction. With the [`Csn`] it is unique even where several transactions share a CSN.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TransactionId(Arc<str>);

impl TransactionId {
    /// An identifier from its text.
    pub fn new(text: impl Into<Arc<str>>) -> TransactionId {
        TransactionId(text.into())
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name under which an operator lets be written what there is of this transaction before it ends. No source gives such
    /// a name.
    pub fn forced(&self) -> TransactionId {
        TransactionId::new(format!("{}{FORCED}", self.0))
    }

    /// The transaction of which this is the [forced](TransactionId::forced) part.
    pub fn forced_of(&self) -> Option<TransactionId> {
        self.0.strip_suffix(FORCED).map(TransactionId::new)
    }
}

const FORCED: &str = "-forced";

impl fmt::Display for TransactionId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(&self.0)
    }
}

/// The identity of a committed transaction.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Commit {
    /// Place in commit order.
    pub csn: Csn,
    /// The source's name for it.
    pub transaction: TransactionId,
    /// When the source committed it, by the source's clock. Never used for order.
    pub time: Timestamp,
}
