//! Statements that define objects, on their way into a target.

use change::{Csn, DefinitionStatement, TableName, TransactionId};

/// One statement for one target.
#[derive(Clone, Copy)]
pub struct DefinitionWrite<'a> {
    /// The statement, as the source tells it.
    pub statement: &'a DefinitionStatement,
    /// What its object, or the table that the object belongs to, is called at the target; `None` when it is called as at the
    /// source.
    pub target: Option<&'a TableName>,
    /// The source transaction, so that one that was tried before is known again.
    pub csn: &'a Csn,
    /// Its name.
    pub transaction: &'a TransactionId,
}
