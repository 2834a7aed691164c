//! What a database itself says about transactions that are open.

use change::{LogPosition, TableName, Timestamp, TransactionId};

/// What a database shows at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenWorkView {
    /// The transactions, the oldest first.
    pub transactions: Vec<OpenWork>,
    /// The end of the log at that moment: whatever had ended then, the log tells before it. It sorts among the positions of a
    /// source.
    pub end: LogPosition,
}

/// A transaction that has written something and has not ended, as its database shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenWork {
    /// The name that the log will have for it.
    pub transaction: TransactionId,
    /// When it started, by the database's clock; for a prepared one when it was prepared. `None` where our role may not
    /// see it.
    pub started: Option<Timestamp>,
    /// In the database's words, such as `idle in transaction`.
    pub state: String,
    /// The name under which it is prepared, if it is.
    pub prepared: Option<String>,
    /// Who works in it.
    pub user: Option<String>,
    /// With which program, as that calls itself.
    pub program: Option<String>,
    /// The server's process that serves it.
    pub process_id: Option<u32>,
    /// Tables that it holds locks on as one that writes into them.
    pub tables: Vec<TableName>,
}
