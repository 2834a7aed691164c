//! Writing rows into a target, with the checkpoint row in the same transaction.

use crate::error_queue::ErrorQueueTables;
use crate::snapshot::CopyRow;
use crate::{CheckpointRow, CheckpointSet, DefinitionWrite, Error, ErrorClass, TableOrder};
use change::{DefinitionStatement, Operation, Row, SequenceState, TableDefinition, TableName};
use std::fmt;
use std::sync::Arc;

/// Whether the target's own triggers run for rows that we apply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TriggerPolicy {
    /// They do not run: what they did at the source arrives as changes of its own.
    #[default]
    Suppress,
    /// They run.
    Fire,
}

/// Whether the target checks foreign keys and runs their actions for rows that we apply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ForeignKeyPolicy {
    /// Neither: the source has checked them, and the rows its actions touched arrive as changes of their own.
    #[default]
    Ignore,
    /// They are checked when the transaction commits.
    Check,
}

/// What a session is opened for.
#[derive(Clone, Debug)]
pub struct SessionRequest {
    /// The Replicat's name; also the origin that its transactions are marked with.
    pub group: String,
    /// GROUP_KEY of the group's row: several homes may have a group of one name in one checkpoint table.
    pub group_key: i64,
    /// The checkpoint table that holds the group's row.
    pub checkpoint_table: TableName,
    /// What becomes of the target's triggers.
    pub triggers: TriggerPolicy,
    /// What becomes of the target's foreign keys.
    pub foreign_keys: ForeignKeyPolicy,
}

/// A source column and the target column that takes its values, as indexes into the two definitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ColumnPair {
    /// Index in the source definition.
    pub source: usize,
    /// Index in the target definition.
    pub target: usize,
}

/// How changes of one source definition become writes to one target table. Made once, used for many rows.
#[derive(Debug)]
pub struct TablePlan {
    /// The shape in which changes arrive.
    pub source: Arc<TableDefinition>,
    /// The shape of the target table.
    pub target: TableDefinition,
    /// Columns that are written, in target order. Columns that the target computes are not among them.
    pub columns: Vec<ColumnPair>,
    /// Columns that find a row, in key order; they may be absent from `columns` when the target computes them.
    pub key: Vec<ColumnPair>,
    /// What an insert does to a row that has the same key.
    pub on_duplicate: OnDuplicate,
}

/// What an insert does when a row with the same key is there already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OnDuplicate {
    /// It is refused, as [`Outcome::Duplicate`].
    #[default]
    Refuse,
    /// The columns that it writes take the place of that row's. The key must be a unique key of the target without NULL.
    Replace,
}

/// One operation to apply.
#[derive(Clone, Copy)]
pub struct Write<'a> {
    /// How its columns map. Sessions cache statements by this pointer's identity.
    pub plan: &'a Arc<TablePlan>,
    /// The operation, in the source's shape.
    pub operation: &'a Operation,
}

/// Which rows [`Session::own_rows`] is to read.
#[derive(Clone, Copy, Debug)]
pub struct OwnRows<'a> {
    /// The table.
    pub table: &'a TableDefinition,
    /// Columns by number, with the value that they must have.
    pub equal: &'a [(usize, &'a str)],
    /// Columns by number that rows are ordered by.
    pub order: &'a [usize],
    /// The first column of `order`, a number, must be greater.
    pub after: Option<i64>,
    /// How many rows at most.
    pub limit: u32,
}

/// Why a target did not take a row as it was: a fact about data, not a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The row to update or delete is not there.
    Missing,
    /// A row with the same unique value is already there.
    Duplicate,
    /// A foreign key was violated.
    ForeignKey,
    /// Another constraint was violated.
    Constraint,
    /// A value does not fit its column.
    Value,
}

impl fmt::Display for Outcome {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(match self {
            Outcome::Missing => "the row is missing",
            Outcome::Duplicate => "a row with the same unique value exists",
            Outcome::ForeignKey => "a foreign key is violated",
            Outcome::Constraint => "a constraint is violated",
            Outcome::Value => "a value does not fit its column",
        })
    }
}

/// A write that the target did not take.
#[derive(Debug)]
pub struct Rejection {
    /// Which of the writes, counted from 0; for a check made at commit, the number of writes.
    pub index: usize,
    /// What kind of refusal.
    pub outcome: Outcome,
    /// The database's words about the constraint or column, without row values.
    pub detail: String,
    /// The database's own code, such as SQLSTATE `23505` or SQLite's `2067`; empty where it gave none.
    pub code: String,
}

/// Why applying did not succeed.
#[derive(Debug)]
pub enum ApplyError {
    /// A row did not fit. The transaction must be rolled back.
    Rejected(Rejection),
    /// The call failed. The transaction must be rolled back, if the connection still lives.
    Failed(Error),
}

impl From<Error> for ApplyError {
    fn from(error: Error) -> ApplyError {
        ApplyError::Failed(error)
    }
}

/// What [`Session::commit_with`] was doing when it did not succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitStep {
    /// Writing the rows.
    Write,
    /// Saving the checkpoint row.
    Save,
    /// Committing. With a lost connection nobody knows whether the transaction was committed: the checkpoint row will tell.
    Commit,
}

/// Why [`Session::commit_with`] did not succeed.
#[derive(Debug)]
pub struct CommitFailure {
    /// How far it had come.
    pub step: CommitStep,
    /// What went wrong. The transaction must be rolled back, if the connection still lives.
    pub error: ApplyError,
}

impl CommitFailure {
    /// A failure in `step`.
    pub fn new(step: CommitStep, error: impl Into<ApplyError>) -> CommitFailure {
        CommitFailure { step, error: error.into() }
    }
}

/// One connection that applies changes.
///
/// # Guarantees
/// Rows and checkpoint row of one transaction become durable together or not at all. The transaction carries a mark by
/// which our own capture of the same database leaves it out.
pub trait Session: Send {
    /// The definition of a table, or `None` when there is none of that name by the database's case rule.
    fn table(&mut self, name: &TableName) -> Result<Option<TableDefinition>, Error>;

    /// What a table demands of the order of writes; asked for a table that [`table`](Session::table) has found. A session that
    /// can't tell lets nothing change places.
    fn order(&mut self, name: &TableName) -> Result<TableOrder, Error> {
        let _ = name;
        Ok(TableOrder::strict())
    }

    /// Starts a transaction.
    fn begin(&mut self) -> Result<(), Error>;

    /// Applies `writes` in order. May be called several times in one transaction, so that a transaction of any size is
    /// applied in bounded memory.
    fn apply(&mut self, writes: &[Write<'_>]) -> Result<(), ApplyError>;

    /// Applies one write so that a rejection leaves the transaction as it was before the call: it may go on.
    ///
    /// # Errors
    /// As [`apply`](Session::apply); [`ErrorClass::Unsupported`](crate::ErrorClass::Unsupported) where the database can't
    /// take back one write.
    fn attempt(&mut self, write: &Write<'_>) -> Result<(), ApplyError> {
        let what =
            format!("could not write to {} by itself: this database can't take back one write", write.plan.target.name);
        Err(Error::new(ErrorClass::Unsupported, what).into())
    }

    /// Runs a statement that defines objects in the open transaction. What is known of tables is forgotten with it.
    ///
    /// # Errors
    /// A [`Rejection`] with the database's code when it refuses the statement; the transaction then is as before the call.
    fn define(&mut self, definition: &DefinitionWrite<'_>) -> Result<(), ApplyError> {
        Err(no_definitions(definition.statement).into())
    }

    /// Whether the database runs the statement only by itself, outside of a transaction.
    fn runs_alone(&self, statement: &DefinitionStatement) -> bool {
        let _ = statement;
        false
    }

    /// Runs such a statement, while no transaction is open. What it is about to do is noted durably before, so that a crash in
    /// its middle is found when the statement comes again: then it is looked whether it had its effect, and only what is missing
    /// is done. The note is taken away by [`settle_definition`](Session::settle_definition).
    ///
    /// # Errors
    /// As [`define`](Session::define).
    fn define_alone(&mut self, definition: &DefinitionWrite<'_>) -> Result<(), ApplyError> {
        Err(no_definitions(definition.statement).into())
    }

    /// Takes the note of [`define_alone`](Session::define_alone) away, inside the open transaction that saves the position.
    ///
    /// # Errors
    /// Any [`Error`].
    fn settle_definition(&mut self) -> Result<(), Error> {
        Ok(())
    }

    /// Forgets what is known of the target's tables: somebody may have altered them.
    fn forget_tables(&mut self) {}

    /// Moves a sequence of the target forward to where the source's stands, never back unless it goes in circles. That needs no
    /// transaction, and none takes it back.
    ///
    /// # Errors
    /// [`ErrorClass::Missing`](crate::ErrorClass::Missing) when there is no such sequence;
    /// [`ErrorClass::Unsupported`](crate::ErrorClass::Unsupported) where the database has none.
    fn advance_sequence(&mut self, sequence: &SequenceState, target: &TableName) -> Result<(), Error> {
        let what =
            format!("can't move sequence {target} to where {} stands: this database has no sequences", sequence.name);
        Err(Error::new(ErrorClass::Unsupported, what))
    }

    /// The row that has the key of `image`, which is in the shape of the plan's source, in that same shape and its notation;
    /// columns that the plan does not write are unchanged. Nobody else changes the row before the transaction ends.
    ///
    /// # Errors
    /// [`ErrorClass::Unsupported`](crate::ErrorClass::Unsupported) where the database can't tell rows.
    fn find(&mut self, plan: &Arc<TablePlan>, image: &Row) -> Result<Option<Row>, Error> {
        let _ = image;
        let what = format!("could not read a row of {}: this database does not tell rows", plan.target.name);
        Err(Error::new(ErrorClass::Unsupported, what))
    }

    /// The checkpoint row of the group and key that the session was opened for, or `None` when there is no such row or no
    /// such table.
    fn load_checkpoint(&mut self) -> Result<Option<CheckpointRow>, Error>;

    /// Replaces the checkpoint row with the same group name and key, inside the open transaction. An applier's session is one
    /// that was opened for the applier's key.
    ///
    /// # Errors
    /// [`ErrorClass::Missing`](crate::ErrorClass::Missing) when the row is not there: somebody removed it, and going on
    /// would lose the position.
    fn save_checkpoint(&mut self, row: &CheckpointRow) -> Result<(), Error>;

    /// Everything that the checkpoint table holds of the group that the session was opened for, its key being the group's own;
    /// `None` without the group's row or the table. Rows of appliers that are gone are left out: see
    /// [`CheckpointSet::missing_applier`].
    fn load_checkpoints(&mut self) -> Result<Option<CheckpointSet>, Error>;

    /// Replaces all that the checkpoint table holds of the group that the session was opened for, inside the open
    /// transaction: the group's row, and rows of appliers and the note on them, of which those that are not in `set` go.
    ///
    /// # Errors
    /// [`ErrorClass::Missing`](crate::ErrorClass::Missing) when the group's row is not there, or when the table was created by
    /// a version that knew no appliers: UPGRADE CHECKPOINTTABLE adds what it lacks.
    fn replace_checkpoints(&mut self, set: &CheckpointSet) -> Result<(), Error>;

    /// The initial copies of the group that the session was opened for; none where none was made, or where the database can't
    /// be copied to.
    fn load_copies(&mut self) -> Result<Vec<CopyRow>, Error> {
        Ok(Vec::new())
    }

    /// The tables of the error queue and the conflict log; `None` where they were not made.
    fn error_queue(&mut self) -> Result<Option<ErrorQueueTables>, Error> {
        Ok(None)
    }

    /// At most `limit` rows of a table of Drover's own in which each column of `equal`, by its number, has that value as text, and
    /// the first column of `order` is greater than `after`, in the order of the columns of `order`. All values as text.
    ///
    /// # Errors
    /// [`ErrorClass::Unsupported`](crate::ErrorClass::Unsupported) where the database has no such tables.
    fn own_rows(&mut self, query: &OwnRows<'_>) -> Result<Vec<Row>, Error> {
        Err(Error::new(ErrorClass::Unsupported, format!("could not read {}", query.table.name)))
    }

    /// Tells whoever listens, once the open transaction is committed. Does nothing where the database has no such thing.
    fn notify(&mut self, payload: &str) -> Result<(), Error> {
        let _ = payload;
        Ok(())
    }

    /// Runs statements that [`ComparisonSide::mending`](crate::compare::ComparisonSide::mending) wrote, in the open transaction, which is
    /// marked like every other one of the session.
    ///
    /// # Errors
    /// [`ErrorClass::Unsupported`](crate::ErrorClass::Unsupported) where the database mends nothing.
    fn mend(&mut self, statements: &[String]) -> Result<(), Error> {
        let _ = statements;
        Err(Error::new(ErrorClass::Unsupported, "could not mend rows: this database does not know how"))
    }

    /// Makes the transaction durable.
    fn commit(&mut self) -> Result<(), ApplyError>;

    /// Applies `writes`, saves `row` and makes the transaction durable, as [`apply`](Session::apply),
    /// [`save_checkpoint`](Session::save_checkpoint) and [`commit`](Session::commit) do one after another. A session may hand
    /// all of it to the database at once, so that it costs one round trip.
    ///
    /// # Errors
    /// [`CommitFailure`]; nothing is committed then, unless a connection was lost in [`CommitStep::Commit`].
    fn commit_with(&mut self, writes: &[Write<'_>], row: &CheckpointRow) -> Result<(), CommitFailure> {
        self.apply(writes).map_err(|error| CommitFailure::new(CommitStep::Write, error))?;
        self.save_checkpoint(row).map_err(|error| CommitFailure::new(CommitStep::Save, error))?;
        self.commit().map_err(|error| CommitFailure::new(CommitStep::Commit, error))
    }

    /// Gives the transaction up. Without one it does nothing.
    fn rollback(&mut self) -> Result<(), Error>;
}

fn no_definitions(statement: &DefinitionStatement) -> Error {
    let what = format!("can't run {}: statements are not carried to this database", statement.title());
    let step = "leave such statements out by the Replicat's DDL parameter, and do at the target what they stand for";
    Error::new(ErrorClass::Unsupported, what).with_next_step(step)
}
