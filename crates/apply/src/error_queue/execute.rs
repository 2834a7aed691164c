//! Executing what is parked.

use super::image::ImageError;
use super::parked::{ParkedCall, ParkedTransaction, QueueReader, Touched};
use super::writer::{KEYS_TABLE, QueueWriter};
use crate::handling::{Misfit, RowWriter, Verdict};
use crate::schedule::{Footprint, WriteSet};
use crate::{MappingError, mapping};
use change::{Operation, Row, Timestamp, Value};
use database::error_queue::{CALLS, TRANSACTIONS};
use database::{ApplyError, ErrorClass, OrderScope, Session, TablePlan};
use parameter::{Handling, MapPlan};
use std::sync::Arc;

/// Calls that are read and executed at once.
const CALLS_AT_ONCE: u32 = 500;

/// Rows that a trial tells.
const SHOWN_MAX: usize = 1000;

/// Why a transaction was not executed. It stays in the queue, and the target is as it was.
#[derive(Debug, thiserror::Error)]
pub enum ExecuteError {
    /// The database failed.
    #[error("could not {action}")]
    Database {
        /// What was tried.
        action: &'static str,
        /// The database's answer.
        source: database::Error,
    },
    /// The target did not take a call.
    #[error("call {call} on {table} of transaction {id} was refused: {detail}")]
    Refused {
        /// The transaction.
        id: String,
        /// The call; its number is that of CALLNO.
        call: i64,
        /// The target table.
        table: change::TableName,
        /// The refusal, in words.
        detail: String,
    },
    /// The target refused at commit.
    #[error("transaction {id} was refused at commit: {detail}")]
    RefusedAtCommit {
        /// The transaction.
        id: String,
        /// The refusal, in words.
        detail: String,
    },
    /// The tables do not fit any more.
    #[error("could not map call {call} of transaction {id}")]
    Mapping {
        /// The transaction.
        id: String,
        /// The call.
        call: i64,
        /// Why not.
        source: Box<MappingError>,
    },
    /// Options of the MAP do not fit.
    #[error("could not use the options of a MAP for call {call} of transaction {id}")]
    Handling {
        /// The transaction.
        id: String,
        /// The call.
        call: i64,
        /// Why not.
        source: Box<crate::HandlingError>,
    },
    /// An image can't be read: somebody changed it by hand.
    #[error("could not read call {call} of transaction {id}")]
    Image {
        /// The transaction.
        id: String,
        /// The call.
        call: i64,
        /// Why not.
        source: ImageError,
    },
    /// There is no such call or column to edit.
    #[error("{0}")]
    Absent(String),
}

/// What was done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Execution {
    /// Calls that changed something.
    pub written: u64,
    /// Calls that a rule dropped: a collision, a conflict that the row won, nothing to set.
    pub dropped: u64,
    /// What a trial found, for its first calls.
    pub calls: Vec<ExecutedCall>,
}

/// A call of a trial.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecutedCall {
    /// CALLNO.
    pub number: i64,
    /// The target table.
    pub table: change::TableName,
    /// The operation.
    pub procedure: String,
    /// The row before, as an object.
    pub before: Option<String>,
    /// The row after it.
    pub after: Option<String>,
}

/// Executes and edits what is parked in one target.
pub struct Executor<'a> {
    queue: QueueReader,
    session: &'a mut dyn Session,
    /// The MAP statements of the Replicat, where it has any: what they say of collisions and conflicts holds here too.
    rules: Option<&'a MapPlan>,
    now: Timestamp,
}

impl<'a> Executor<'a> {
    /// Over a session that was opened for [`CheckpointRow::EXECUTOR`](database::CheckpointRow::EXECUTOR).
    pub fn new(
        queue: QueueReader,
        session: &'a mut dyn Session,
        rules: Option<&'a MapPlan>,
        now: Timestamp,
    ) -> Executor<'a> {
        Executor { queue, session, rules, now }
    }

    /// Executes a transaction and takes it out of the queue, in one target transaction; a trial takes all of that back.
    ///
    /// # Errors
    /// [`ExecuteError`]; the transaction stays in the queue then.
    pub fn execute(&mut self, transaction: &ParkedTransaction, is_trial: bool) -> Result<Execution, ExecuteError> {
        self.session.begin().map_err(|source| ExecuteError::Database { action: "start a transaction", source })?;
        let done = self
            .run(transaction, is_trial)
            .and_then(|execution| if is_trial { Ok(execution) } else { self.remove(transaction).map(|()| execution) });
        match done {
            Ok(execution) if !is_trial => self.commit(&transaction.id).map(|()| execution),
            other => {
                // The first error is the one to tell.
                let _ = self.session.rollback();
                other
            }
        }
    }

    /// Takes a transaction out of the queue without executing it.
    ///
    /// # Errors
    /// Those of the database.
    pub fn delete(&mut self, transaction: &ParkedTransaction) -> Result<(), ExecuteError> {
        self.session.begin().map_err(|source| ExecuteError::Database { action: "start a transaction", source })?;
        match self.remove(transaction) {
            Ok(()) => self.commit(&transaction.id),
            Err(error) => {
                let _ = self.session.rollback();
                Err(error)
            }
        }
    }

    /// The first of `others` that must be executed before `transaction`: it is older and touches what this one touches.
    ///
    /// # Errors
    /// Those of the database.
    pub fn blocker<'t>(
        &mut self,
        transaction: &ParkedTransaction,
        others: &'t [ParkedTransaction],
    ) -> Result<Option<&'t ParkedTransaction>, ExecuteError> {
        let own = self.touched(transaction)?;
        for other in others {
            let is_older = other.group_key == transaction.group_key && other.place < transaction.place;
            if is_older && self.touched(other)?.meets(&own) {
                return Ok(Some(other));
            }
        }
        Ok(None)
    }

    /// Executes transactions in the order of their trails, each in a target transaction of its own. One that depends on one that
    /// failed is left alone. `tell` hears of each.
    ///
    /// # Errors
    /// Those of the database; a transaction that is refused is told, and the others go on.
    pub fn execute_all(
        &mut self,
        transactions: &[ParkedTransaction],
        tell: &mut dyn FnMut(&ParkedTransaction, Outcome<'_>),
    ) -> Result<(), ExecuteError> {
        let mut failed: Vec<(i64, String, Touched)> = Vec::new();
        for transaction in transactions {
            let touched = self.touched(transaction)?;
            let ahead = failed.iter().find(|(key, _, other)| *key == transaction.group_key && other.meets(&touched));
            if let Some((_, id, _)) = ahead
                && !change::sabotage::is_on("overtake-parked-transactions")
            {
                tell(transaction, Outcome::Behind(id));
                failed.push((transaction.group_key, transaction.id.clone(), touched));
                continue;
            }
            match self.execute(transaction, false) {
                Ok(execution) => tell(transaction, Outcome::Done(&execution)),
                Err(ExecuteError::Database { action, source })
                    if source.class() != ErrorClass::Unsupported && source.class() != ErrorClass::Permanent =>
                {
                    return Err(ExecuteError::Database { action, source });
                }
                Err(error) => {
                    tell(transaction, Outcome::Failed(&error));
                    failed.push((transaction.group_key, transaction.id.clone(), touched));
                }
            }
        }
        Ok(())
    }

    /// Changes a value of a call: of its new row, or with `is_old` of its old one. `value` is JSON as in the images; `None` takes
    /// the column out, as if the source had not told it.
    ///
    /// # Errors
    /// [`ExecuteError::Absent`] for a call, image or column that is not there; a value that can't be one of the column.
    pub fn edit(
        &mut self,
        transaction: &ParkedTransaction,
        call: i64,
        column: &str,
        value: Option<&str>,
        is_old: bool,
    ) -> Result<(), ExecuteError> {
        let calls = self.calls(transaction, call.checked_sub(1), 1)?;
        let absent = |what: String| ExecuteError::Absent(what);
        let Some(mut parked) = calls.into_iter().find(|found| found.number == call) else {
            return Err(absent(format!("transaction {} has no call {call}", transaction.id)));
        };
        let (image, which) = if is_old { (&mut parked.old, "old_values") } else { (&mut parked.new, "new_values") };
        let Some(text) = image else {
            return Err(absent(format!("call {call} of transaction {} has no {which}", transaction.id)));
        };
        let known = parked.source.columns.iter();
        let mut known = known.filter(|known| known.name == column || known.name.eq_ignore_ascii_case(column));
        let Some(known) = known.next() else {
            return Err(absent(format!("{} has no column {column}", parked.source.name)));
        };
        let unreadable = |source| ExecuteError::Image { id: transaction.id.clone(), call, source };
        let wrong = || unreadable(ImageError { what: format!("the value of column {}", known.name) });
        let mut object: serde_json::Map<String, serde_json::Value> = serde_json::from_str(text).map_err(|_| wrong())?;
        match value {
            None => _ = object.remove(&known.name),
            Some(value) => {
                let value: serde_json::Value =
                    serde_json::from_str(value).unwrap_or_else(|_| serde_json::Value::from(value));
                // A number is meant as its digits, which numbers of JSON do not keep.
                let value = if value.is_number() || value.is_boolean() {
                    serde_json::Value::from(value.to_string())
                } else {
                    value
                };
                object.insert(known.name.clone(), value);
            }
        }
        let row =
            super::image::row_of(&parked.source, &serde_json::Value::from(object).to_string()).map_err(unreadable)?;
        *image = Some(super::image::row_text(&parked.source, &row));
        let text = image.clone();
        let touched = self.touches(transaction, &parked)?;
        self.session.begin().map_err(|source| ExecuteError::Database { action: "start a transaction", source })?;
        let written = self.store(transaction, call, which, text.as_deref(), &touched);
        match written {
            Ok(()) => self.commit(&transaction.id),
            Err(error) => {
                let _ = self.session.rollback();
                Err(error)
            }
        }
    }

    fn store(
        &mut self,
        transaction: &ParkedTransaction,
        call: i64,
        which: &str,
        text: Option<&str>,
        touched: &WriteSet,
    ) -> Result<(), ExecuteError> {
        let writer = &self.queue.writer;
        let (key, number) = (transaction.group_key.to_string(), call.to_string());
        let identity = [
            ("group_key", Some(key.as_str())),
            ("deferred_tran_id", Some(transaction.id.as_str())),
            ("callno", Some(number.as_str())),
        ];
        let new: Vec<(&str, Option<&str>)> = identity.into_iter().chain([(which, text)]).collect();
        let update = Operation::Update { old: None, new: writer.image(CALLS, &new) };
        let failed = |error| refused_write(&transaction.id, error);
        writer.write(self.session, CALLS, &[update]).map_err(failed)?;
        // What it touched stays noted: others may stand behind it because of that.
        let known = self.queue.touched(self.session, transaction);
        let known = known.map_err(|source| ExecuteError::Database { action: "read the error queue", source })?;
        let more = QueueWriter::items(touched);
        let more: Vec<(i64, bool)> = more.into_iter().filter(|(item, _)| !known.has(*item)).collect();
        writer.add_items(self.session, transaction.group_key, &transaction.id, &more).map_err(failed)
    }

    /// What an edited call touches.
    fn touches(&mut self, transaction: &ParkedTransaction, call: &ParkedCall) -> Result<WriteSet, ExecuteError> {
        let mut touched = WriteSet::new();
        let (plan, _) = self.plan(transaction, call)?;
        let order = self.session.order(&plan.target.name);
        let mut order = order.map_err(|source| ExecuteError::Database { action: "look up a table", source })?;
        if order.scope == OrderScope::Database {
            order.scope = OrderScope::Rows;
        }
        let operation = call.operation().map_err(|source| unreadable(transaction, call, source))?;
        Footprint::new(&plan, &order).touch(&operation, &mut touched);
        Ok(touched)
    }

    fn touched(&mut self, transaction: &ParkedTransaction) -> Result<Touched, ExecuteError> {
        let touched = self.queue.touched(self.session, transaction);
        touched.map_err(|source| ExecuteError::Database { action: "read the error queue", source })
    }

    fn calls(
        &mut self,
        transaction: &ParkedTransaction,
        after: Option<i64>,
        limit: u32,
    ) -> Result<Vec<ParkedCall>, ExecuteError> {
        let calls = self.queue.calls(self.session, transaction, after, limit);
        calls.map_err(|source| ExecuteError::Database { action: "read the error queue", source })
    }

    fn run(&mut self, transaction: &ParkedTransaction, is_trial: bool) -> Result<Execution, ExecuteError> {
        let mut execution = Execution::default();
        let mut after = None;
        let mut planned: Option<(ParkedCall, Arc<TablePlan>, Misfit)> = None;
        loop {
            let calls = self.calls(transaction, after, CALLS_AT_ONCE)?;
            let Some(last) = calls.last() else { break };
            after = Some(last.number);
            for call in calls {
                let is_known = planned.as_ref().is_some_and(|(known, ..)| {
                    known.target == call.target
                        && known.key_columns == call.key_columns
                        && Arc::ptr_eq(&known.source, &call.source)
                });
                if !is_known {
                    let (plan, misfit) = self.plan(transaction, &call)?;
                    planned = Some((call.clone(), plan, misfit));
                }
                let Some((_, plan, misfit)) = &planned else { continue };
                let shows = is_trial && execution.calls.len() < SHOWN_MAX;
                let operation = call.operation().map_err(|source| unreadable(transaction, &call, source))?;
                let graves = Some((&self.queue.writer, self.now));
                let mut writer = RowWriter { session: self.session, plan, misfit, graves };
                let failed = |failed: crate::handling::CallFailed| ExecuteError::Database {
                    action: failed.action,
                    source: failed.source,
                };
                let before = if shows { writer.current(&operation).map_err(failed)? } else { None };
                let tried = writer.write(&operation).map_err(failed)?;
                match tried.verdict {
                    Verdict::Written => execution.written += 1,
                    Verdict::Filtered(_) => execution.dropped += 1,
                    Verdict::Discard(error) => {
                        return Err(refused(transaction, &call, error.detail));
                    }
                    Verdict::Refused(refusal) => {
                        let detail = format!("{} ({})", refusal.rejection.outcome, refusal.rejection.detail);
                        return Err(refused(transaction, &call, detail));
                    }
                }
                if shows {
                    let after = writer.current(&after_image(&operation)).map_err(failed)?;
                    let text = |row: &Row| super::image::row_text(&plan.source, row);
                    execution.calls.push(ExecutedCall {
                        number: call.number,
                        table: plan.target.name.clone(),
                        procedure: call.procedure.clone(),
                        before: before.as_ref().map(text),
                        after: after.as_ref().map(text),
                    });
                }
            }
        }
        Ok(execution)
    }

    fn plan(
        &mut self,
        transaction: &ParkedTransaction,
        call: &ParkedCall,
    ) -> Result<(Arc<TablePlan>, Misfit), ExecuteError> {
        let of_mapping =
            |source| ExecuteError::Mapping { id: transaction.id.clone(), call: call.number, source: Box::new(source) };
        let found = self.session.table(&call.target);
        let found = found.map_err(|source| ExecuteError::Database { action: "look up a table", source })?;
        let definition = found.ok_or_else(|| {
            of_mapping(MappingError::NoTarget { source_table: call.source.name.clone(), target: call.target.clone() })
        })?;
        let keys = Some(call.key_columns.as_slice()).filter(|keys| !keys.is_empty());
        let plan = mapping::plan(&call.source, definition, keys).map_err(of_mapping)?;
        let rules = self.rules.map(|rules| rules.targets(&call.source.name)).unwrap_or_default();
        let handling = rules.into_iter().find(|rule| rule.target == call.target).map(|rule| rule.handling);
        let handling = handling.unwrap_or_else(|| Arc::new(Handling::default()));
        let misfit = Misfit::new(&plan, handling, None).map_err(|source| ExecuteError::Handling {
            id: transaction.id.clone(),
            call: call.number,
            source: Box::new(source),
        })?;
        Ok((Arc::new(plan), misfit))
    }

    /// Takes calls, keys and the transaction itself out of the queue.
    fn remove(&mut self, transaction: &ParkedTransaction) -> Result<(), ExecuteError> {
        let key = transaction.group_key.to_string();
        let failed = |error| refused_write(&transaction.id, error);
        let identity = [("group_key", Some(key.as_str())), ("deferred_tran_id", Some(transaction.id.as_str()))];
        let mut after = None;
        loop {
            let numbers: Vec<i64> =
                self.calls(transaction, after, CALLS_AT_ONCE)?.into_iter().map(|call| call.number).collect();
            let Some(last) = numbers.last() else { break };
            after = Some(*last);
            let writer = &self.queue.writer;
            let deletes: Vec<Operation> = numbers
                .iter()
                .map(|number| {
                    let number = number.to_string();
                    let values: Vec<(&str, Option<&str>)> =
                        identity.into_iter().chain([("callno", Some(number.as_str()))]).collect();
                    Operation::Delete { old: writer.image(CALLS, &values) }
                })
                .collect();
            writer.write(self.session, CALLS, &deletes).map_err(failed)?;
        }
        let items = self.touched(transaction)?;
        let writer = &self.queue.writer;
        let deletes: Vec<Operation> = items
            .items()
            .map(|item| {
                let item = item.to_string();
                let values: Vec<(&str, Option<&str>)> =
                    identity.into_iter().chain([("item", Some(item.as_str()))]).collect();
                Operation::Delete { old: writer.image(KEYS_TABLE, &values) }
            })
            .collect();
        if !deletes.is_empty() {
            writer.write(self.session, KEYS_TABLE, &deletes).map_err(failed)?;
        }
        // Last, and it must be there: of two who execute the same transaction one finds it gone.
        let delete = Operation::Delete { old: writer.image(TRANSACTIONS, &identity) };
        writer.write(self.session, TRANSACTIONS, &[delete]).map_err(failed)
    }

    fn commit(&mut self, id: &str) -> Result<(), ExecuteError> {
        self.session.commit().map_err(|error| {
            let _ = self.session.rollback();
            match error {
                ApplyError::Rejected(rejection) => ExecuteError::RefusedAtCommit {
                    id: id.to_owned(),
                    detail: format!("{} ({})", rejection.outcome, rejection.detail),
                },
                ApplyError::Failed(source) => ExecuteError::Database { action: "commit", source },
            }
        })
    }
}

/// What became of one of many transactions.
#[derive(Debug)]
pub enum Outcome<'a> {
    /// It was executed.
    Done(&'a Execution),
    /// It was not, and stays in the queue.
    Failed(&'a ExecuteError),
    /// It was not tried: it stands behind this one, which stays in the queue.
    Behind(&'a str),
}

fn refused(transaction: &ParkedTransaction, call: &ParkedCall, detail: String) -> ExecuteError {
    ExecuteError::Refused { id: transaction.id.clone(), call: call.number, table: call.target.clone(), detail }
}

fn unreadable(transaction: &ParkedTransaction, call: &ParkedCall, source: ImageError) -> ExecuteError {
    ExecuteError::Image { id: transaction.id.clone(), call: call.number, source }
}

fn refused_write(id: &str, error: ApplyError) -> ExecuteError {
    match error {
        ApplyError::Rejected(rejection) if rejection.outcome != database::Outcome::Missing => {
            let what = format!("the error queue refused a row of transaction {id}: {}", rejection.detail);
            ExecuteError::Absent(what)
        }
        ApplyError::Rejected(_) => ExecuteError::Absent(format!(
            "transaction {id} is not in the error queue any more: somebody else has dealt with it"
        )),
        ApplyError::Failed(source) => ExecuteError::Database { action: "write to the error queue", source },
    }
}

/// An operation whose row is the one that another leaves, so that it can be looked up.
fn after_image(operation: &Operation) -> Operation {
    match operation {
        Operation::Update { old, new } => {
            let told = |column: usize| match (new.value(column), old.as_ref()) {
                (Value::Unchanged, Some(old)) => old.value(column),
                (value, _) => value,
            };
            Operation::Insert { new: Row::from_values((0..new.len()).map(told)) }
        }
        other => other.clone(),
    }
}
