//! A transaction that is handed to the server as a whole: its start, its rows, the checkpoint row and its commit with one
//! Sync, so that it costs one round trip.
//!
//! The server commits before we see how many rows each statement found. So the statements are written in a form that fails
//! when they do not find what they must: the rows of updates and deletes, and the checkpoint row as it was left. After a
//! failure the server skips the rest, the commit too. Which row it was is found out by sending them again one by one.

use super::batch::Batch;
use super::target::Target;
use super::{ARRAY_ROWS_MIN, ApplySession, Open, Setback, is_copied, like_inserts, outcome};
use crate::checkpoint;
use crate::wire::{Error as WireError, Parameter, Pipeline};
use bytes::BytesMut;
use change::{Operation, OperationKind};
use database::{ApplyError, CheckpointRow, CommitFailure, CommitStep, Error, ErrorClass, Session, Write};

/// SQLSTATE of statements that did not find what they must find: "division by zero".
const NOT_FOUND: &str = "22012";

/// A form of an UPDATE, DELETE or SELECT that fails with [`NOT_FOUND`] when it finds no row; with `rows`, when the number of
/// rows is not that.
pub(crate) fn must_find(sql: &str, rows: Option<&str>) -> String {
    let count = rows.map_or("count(*)".to_owned(), |rows| format!("(count(*) = {rows})::int"));
    if sql.starts_with("SELECT ") {
        format!("SELECT 1 / {count} FROM ({sql}) AS found")
    } else {
        format!("WITH found AS ({sql} RETURNING 1) SELECT 1 / {count} FROM found")
    }
}

/// The rows of a transaction, as they are handed over.
enum Rows {
    /// None that are not sent yet.
    Sent,
    /// In their own order; the number of each one's target.
    Single(Vec<usize>),
    /// In batches.
    Batches(Vec<Batch>),
}

/// Where a transaction stopped that was handed over.
enum Halt {
    /// Before the server was asked.
    Unsent(Error),
    /// At a statement of this step; of the checkpoint row's, the first one finds the row.
    At { step: CommitStep, is_first: bool, error: WireError },
}

impl ApplySession {
    /// See [`Session::commit_with`].
    pub(super) fn hand_over(&mut self, writes: &[Write<'_>], row: &CheckpointRow) -> Result<(), CommitFailure> {
        let failed = |error: Error| CommitFailure::new(CommitStep::Write, error);
        let refused = |error: ApplyError| CommitFailure::new(CommitStep::Write, error);
        let is_started = self.require_open().map_err(failed)?.is_started;
        if change::sabotage::is_on("checkpoint-in-another-transaction") || row.group_key != self.request.group_key {
            self.apply(writes).map_err(refused)?;
            self.save_checkpoint(row).map_err(|error| CommitFailure::new(CommitStep::Save, error))?;
            return self.commit().map_err(|error| CommitFailure::new(CommitStep::Commit, error));
        }
        let rows = if is_started { None } else { self.whole_rows(writes).map_err(failed)? };
        let Some(rows) = rows else {
            self.apply(writes).map_err(refused)?;
            return self.finish(row);
        };
        let (step, error) = match self.send_whole(&rows, writes, row) {
            Ok(()) => return Ok(()),
            Err(Halt::Unsent(error)) => return Err(failed(error)),
            Err(Halt::At { step, error, .. }) => (step, error),
        };
        match self.setback(error) {
            // Nobody knows how far the server came.
            Setback::Failed(error) if error.class() == ErrorClass::ConnectionLost => {
                Err(CommitFailure::new(CommitStep::Commit, error))
            }
            Setback::Failed(error) => Err(CommitFailure::new(step, error)),
            Setback::OneByOne => {
                self.start_again().map_err(failed)?;
                self.verify().map_err(failed)?;
                let targets = self.targets_of(writes).map_err(failed)?;
                self.one_by_one(writes, &targets, 0).map_err(refused)?;
                if let Some(open) = &mut self.open {
                    open.writes += writes.len();
                }
                self.finish(row)
            }
        }
    }

    /// The rows in the form in which they are handed over with all the rest, if they can be.
    fn whole_rows(&mut self, writes: &[Write<'_>]) -> Result<Option<Rows>, Error> {
        // Where triggers may run, what they did to our session is looked at before the commit.
        let truncates = |write: &Write<'_>| matches!(write.operation, Operation::Truncate(_));
        if writes.is_empty() || !self.is_replica || writes.iter().any(truncates) {
            return Ok(None);
        }
        let targets = self.targets_of(writes)?;
        if writes.len() < ARRAY_ROWS_MIN {
            return Ok(Some(Rows::Single(targets)));
        }
        if is_copied(&writes[..like_inserts(writes, &targets)]) {
            return Ok(None);
        }
        let batches = self.batches(writes, &targets)?;
        Ok(if batches.iter().any(Batch::is_copied) { None } else { Some(Rows::Batches(batches)) })
    }

    /// Saves the row and commits, when all rows are sent.
    fn finish(&mut self, row: &CheckpointRow) -> Result<(), CommitFailure> {
        let writes = self.open.as_ref().map_or(0, |open| open.writes);
        let (step, is_first, error) = match self.send_whole(&Rows::Sent, &[], row) {
            Ok(()) => return Ok(()),
            Err(Halt::Unsent(error)) => return Err(CommitFailure::new(CommitStep::Save, error)),
            Err(Halt::At { step, is_first, error }) => (step, is_first, error),
        };
        let table = &self.request.checkpoint_table;
        match step {
            CommitStep::Commit => {
                self.open = None;
                let what = || format!("can't commit to {} for group {}", self.config, self.request.group);
                Err(CommitFailure::new(step, outcome::of(error, writes, what)))
            }
            CommitStep::Save if is_first && error.code() == Some(NOT_FOUND) => {
                let no_row = checkpoint::no_row(table, &row.group_name);
                let told = self.start_again().and_then(|()| self.verify()).and(Err(no_row));
                told.map_err(|error| CommitFailure::new(step, error))
            }
            // In one go with the commit, whose answer is lost too.
            CommitStep::Save | CommitStep::Write if error.class() == ErrorClass::ConnectionLost => {
                Err(CommitFailure::new(CommitStep::Commit, self.failed(error)))
            }
            CommitStep::Save | CommitStep::Write => {
                let what = format!("can't write to checkpoint table {table}");
                Err(CommitFailure::new(CommitStep::Save, error.during(what)))
            }
        }
    }

    /// Gives up what the server has of the transaction, which starts anew.
    fn start_again(&mut self) -> Result<(), Error> {
        if self.connection.is_in_transaction() {
            self.connection.run("ROLLBACK").map_err(|error| self.failed(error))?;
        }
        self.open = Some(Open::default());
        Ok(())
    }

    /// Sends all that is left of the transaction: its start, if the server does not know of it, rows, checkpoint row and
    /// commit.
    fn send_whole(&mut self, rows: &Rows, writes: &[Write<'_>], row: &CheckpointRow) -> Result<(), Halt> {
        if self.connection.is_transaction_failed() {
            let what = "the transaction has failed and can't be committed";
            return Err(Halt::Unsent(Error::new(ErrorClass::Permanent, what)));
        }
        let begin = self.preamble().to_vec();
        let mut pipeline = self.connection.pipeline();
        begin.iter().for_each(|statement| pipeline.execute(statement, []));
        let queued = match rows {
            Rows::Sent => Ok(()),
            Rows::Single(targets) => queue_single(&mut pipeline, &mut self.targets, targets, writes),
            Rows::Batches(batches) => queue_batches(&mut pipeline, &mut self.targets, batches, writes, true, |_, _| {}),
        };
        queued.map_err(Halt::Unsent)?;
        let saves = pipeline.len();
        self.checkpoint.queue(&mut pipeline, row, &self.left.expected());
        let commits = pipeline.len();
        pipeline.execute(&self.commit, []);
        let result = pipeline.run();
        let Err(failed) = result else {
            self.open = None;
            self.left.saved(row);
            self.left.committed();
            return Ok(());
        };
        self.checkpoint.rolled_back();
        let at = failed.counts.len();
        let step = match at {
            at if at >= commits => CommitStep::Commit,
            at if at >= saves => CommitStep::Save,
            _ => CommitStep::Write,
        };
        Err(Halt::At { step, is_first: at == saves, error: failed.error })
    }
}

/// Adds writes in their own order, in the form that must find its row.
fn queue_single(
    pipeline: &mut Pipeline<'_>,
    targets: &mut [Target],
    numbers: &[usize],
    writes: &[Write<'_>],
) -> Result<(), Error> {
    for (write, number) in writes.iter().zip(numbers) {
        let target = &mut targets[*number];
        let mut form = target.shape(write.operation)?.form;
        form.must_find = form.kind != OperationKind::Insert;
        let values = target.parameters(&form, write.operation)?;
        pipeline.execute(&target.statement(&form), values);
    }
    Ok(())
}

/// Adds batches, on request in the form that must find its rows. Tells the kind of each statement and how many rows it is
/// for.
pub(super) fn queue_batches(
    pipeline: &mut Pipeline<'_>,
    targets: &mut [Target],
    batches: &[Batch],
    writes: &[Write<'_>],
    must_find: bool,
    mut tell: impl FnMut(OperationKind, usize),
) -> Result<(), Error> {
    let mut buffer = BytesMut::new();
    for batch in batches {
        let target = &mut targets[batch.target];
        let mut form = batch.form.clone();
        form.must_find = must_find && form.kind != OperationKind::Insert;
        form.is_array = batch.joins && batch.writes.len() >= ARRAY_ROWS_MIN;
        if form.is_array {
            let operations: Vec<&Operation> = batch.writes.iter().map(|write| writes[*write].operation).collect();
            let ends = loop {
                buffer.clear();
                match target.arrays(&form, &operations, &mut buffer)? {
                    Some(ends) => break ends,
                    None => form.is_text = true,
                }
            };
            let statement = target.statement(&form);
            let starts = std::iter::once(0).chain(ends.iter().copied());
            let arrays = starts.zip(&ends).map(|(start, end)| Parameter::Binary(&buffer[start..*end]));
            pipeline.execute(&statement, arrays);
            tell(form.kind, operations.len());
        } else {
            let statement = target.statement(&form);
            for write in &batch.writes {
                let values = target.parameters(&form, writes[*write].operation)?;
                pipeline.execute(&statement, values);
                tell(form.kind, 1);
            }
        }
    }
    Ok(())
}
