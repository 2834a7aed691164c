//! The noun that flows through Drover: a committed change of a row.
//!
//! Everything here is plain data. There is no I/O, no clock, no knowledge of a database product or of a file layout.
//! A source turns its log into these types, the trail stores them, and apply turns them back into rows.
//!
//! Start reading at [`Change`] and [`Row`].

mod column;
mod operation;
mod position;
mod row;
pub mod sabotage;
mod statement;
mod table;
mod time;
mod transaction;

pub use column::{Column, Generation, LogicalType};
pub use operation::{Change, Operation, OperationKind, TruncateOptions};
pub use position::{LogPosition, RecordAddress};
pub use row::{Row, RowBuilder, Value};
pub use statement::{DefinitionStatement, FilledColumn, ObjectChange, SequenceState};
pub use table::{CaseRule, TableDefinition, TableName, TableNameError};
pub use time::Timestamp;
pub use transaction::{Commit, Csn, TransactionId};
