//! Writing rows, with the checkpoint row in the same transaction.
//!
//! # Locks
//! SQLite has one writer. [`begin`](Session::begin) takes the write lock at once, so that no later statement can find it
//! taken, and waits for it in slices: after each the caller gets a transient error and may stop or ask again.
//!
//! # A target that is put back
//! A backup that is restored while a session is open takes rows away together with the checkpoint row, whatever the way: over
//! the open file, through SQLite, or as another file of the same name. So each transaction first makes sure that the file
//! and the row are those that the one before left, and else calls the connection lost: the caller comes back and goes on
//! from what the row says now. That also keeps two Replicats apart which share a row because a home was copied.
//!
//! # Triggers
//! SQLite has no session_replication_role. Where the target's triggers are to be suppressed they are turned off on our
//! connection alone; that includes those by which Drover captures the same database, so nothing of ours is captured.
//! Where they fire, capture sees our rows, and two marks in its change table enclose them: a writer is alone, so everything
//! between the marks is ours.

mod statement;

use crate::catalog::{self, Table};
use crate::checkpoint::{CheckpointTable, Place};
use crate::connect::{CALL_PATIENCE, connect};
use crate::error::{failed, rejection};
use crate::error_queue;
use crate::file_identity;
use crate::name::same;
use crate::remote;
use crate::trigger;
use change::{Row, TableDefinition, TableName};
use database::error_queue::ErrorQueueTables;
use database::{
    ApplyError, CheckpointRow, CheckpointSet, Error, ErrorClass, ForeignKeyPolicy, Outcome, OwnRows, Rejection,
    Session, SessionRequest, TablePlan, TriggerPolicy, Write,
};
use rusqlite::Connection;
use rusqlite::config::DbConfig;
use statement::{Open, PlanStatements};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Plans whose statements are kept; beyond it all are built anew, so that a caller that makes plans without end costs
/// time and not memory.
const PLANS_MAX: usize = 4096;

pub(crate) struct SqliteSession {
    connection: Connection,
    path: PathBuf,
    /// Tells the open file from another one of its name.
    file: u128,
    group: String,
    group_key: i64,
    checkpoint: CheckpointTable,
    /// Where the checkpoint row was left, as soon as that is known.
    left: Option<Place>,
    /// Where the open transaction leaves it.
    saved: Option<Place>,
    triggers: TriggerPolicy,
    foreign_keys: ForeignKeyPolicy,
    /// Statements by the address of their plan, which they keep alive.
    plans: HashMap<usize, PlanStatements>,
    /// The target's schema version that `plans` and `capture` were made under.
    schema_version: Option<i64>,
    /// Whether the target is captured too.
    captured: bool,
    /// Whether the open transaction began with our mark.
    marked: bool,
    /// Whether triggers of the open transaction can tell that it is ours.
    told: bool,
    /// Writes of the open transaction.
    writes: usize,
}

impl SqliteSession {
    pub(crate) fn open(path: &Path, request: &SessionRequest) -> Result<SqliteSession, Error> {
        let file = file_identity::identity_of(path)?;
        let connection = connect(path, CALL_PATIENCE)?;
        let pin = || -> rusqlite::Result<()> {
            // EXTRA is FULL and, in rollback-journal mode, syncs the directory too: else a power loss just after the
            // commit could bring the journal back and take the transaction away.
            connection.pragma_update(None, "synchronous", "EXTRA")?;
            connection.pragma_update(None, "foreign_keys", request.foreign_keys == ForeignKeyPolicy::Check)?;
            connection.pragma_update(None, "recursive_triggers", false)?;
            let fire = request.triggers == TriggerPolicy::Fire || change::sabotage::is_on("keep-own-transactions");
            connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, fire)?;
            Ok(())
        };
        pin().map_err(|cause| failed(format!("could not set up a session on {}", path.display()), cause))?;
        Ok(SqliteSession {
            connection,
            path: path.to_path_buf(),
            file,
            group: request.group.clone(),
            group_key: request.group_key,
            checkpoint: CheckpointTable::new(&request.checkpoint_table)?,
            left: None,
            saved: None,
            triggers: request.triggers,
            foreign_keys: request.foreign_keys,
            plans: HashMap::new(),
            schema_version: None,
            captured: false,
            marked: false,
            told: false,
            writes: 0,
        })
    }

    /// Forgets what was learned about the target's tables when they have changed.
    fn notice_schema_change(&mut self) -> Result<(), Error> {
        let version = catalog::schema_version(&self.connection)?;
        if self.schema_version != Some(version) {
            self.plans.clear();
            self.captured = trigger::is_installed(&self.connection)?;
            self.schema_version = Some(version);
        }
        Ok(())
    }

    /// Makes sure that nobody put the target back, or moved the group's row, since the last transaction.
    fn verify_target(&self) -> Result<(), Error> {
        if change::sabotage::is_on("trust-the-target") {
            return Ok(());
        }
        file_identity::verify(&self.path, self.file)?;
        let Some(left) = &self.left else { return Ok(()) };
        // A row that is gone is told when it is to be written.
        match self.checkpoint.place(&self.connection, &self.group, self.group_key)? {
            Some(found) if found != *left => Err(Error::new(
                ErrorClass::ConnectionLost,
                format!(
                    "the checkpoint row of group {} is not as it was left: the target was restored, or another Replicat \
                     uses the row",
                    self.group
                ),
            )),
            _ => Ok(()),
        }
    }

    fn mark_own(&mut self) -> Result<(), Error> {
        self.marked = false;
        if !self.captured || change::sabotage::is_on("keep-own-transactions") {
            return Ok(());
        }
        match self.triggers {
            TriggerPolicy::Suppress => trigger::forget_pending(&self.connection),
            TriggerPolicy::Fire => {
                self.marked = true;
                trigger::mark(&self.connection, trigger::Kind::OwnBegin)
            }
        }
    }

    fn statements(&mut self, plan: &Arc<TablePlan>) -> Result<(), Error> {
        let address = Arc::as_ptr(plan) as usize;
        if self.plans.contains_key(&address) {
            return Ok(());
        }
        if self.plans.len() >= PLANS_MAX {
            self.plans.clear();
        }
        let target = find(&self.connection, &plan.target.name)?.ok_or_else(|| missing_table(&plan.target.name))?;
        self.plans.insert(address, PlanStatements::new(Arc::clone(plan), &target)?);
        Ok(())
    }

    fn ensure_transaction(&self) -> Result<(), Error> {
        if self.connection.is_autocommit() {
            // SQLite gives a transaction up by itself when the disk is full or fails.
            return Err(Error::new(ErrorClass::Transient, "the transaction was given up by the database"));
        }
        Ok(())
    }
}

impl Session for SqliteSession {
    fn table(&mut self, name: &TableName) -> Result<Option<TableDefinition>, Error> {
        Ok(find(&self.connection, name)?.map(|table| table.definition()))
    }

    fn begin(&mut self) -> Result<(), Error> {
        if !self.connection.is_autocommit() {
            return Err(Error::new(ErrorClass::Permanent, "could not start a transaction inside another one"));
        }
        self.connection
            .execute_batch("BEGIN IMMEDIATE")
            .map_err(|cause| failed("could not start a transaction at the target", cause))?;
        self.writes = 0;
        self.saved = None;
        let prepare = |session: &mut SqliteSession| -> Result<(), Error> {
            session.verify_target()?;
            session.notice_schema_change()?;
            if session.foreign_keys == ForeignKeyPolicy::Check {
                session
                    .connection
                    .execute_batch("PRAGMA defer_foreign_keys = ON")
                    .map_err(|cause| failed("could not defer the check of foreign keys", cause))?;
            }
            session.mark_own()?;
            session.told =
                session.triggers == TriggerPolicy::Fire && remote::enter(&session.connection, &session.group)?;
            Ok(())
        };
        prepare(self).inspect_err(|_| {
            // The first error is the one to tell.
            let _ = self.rollback();
        })
    }

    fn apply(&mut self, writes: &[Write<'_>]) -> Result<(), ApplyError> {
        self.ensure_transaction()?;
        let mut index = 0;
        while let Some(first) = writes.get(index) {
            self.statements(first.plan)?;
            let run = writes[index..].iter().take_while(|write| Arc::ptr_eq(write.plan, first.plan)).count();
            let statements = &self.plans[&(Arc::as_ptr(first.plan) as usize)];
            let mut open = Open::new(&self.connection);
            for (offset, write) in writes[index..index + run].iter().enumerate() {
                statements.apply(&mut open, write.operation, index + offset)?;
            }
            index += run;
        }
        self.writes += writes.len();
        Ok(())
    }

    fn attempt(&mut self, write: &Write<'_>) -> Result<(), ApplyError> {
        // A statement that fails leaves nothing, unless a trigger rolled all back: the next call notices that.
        self.apply(std::slice::from_ref(write))
    }

    fn find(&mut self, plan: &Arc<TablePlan>, image: &Row) -> Result<Option<Row>, Error> {
        self.ensure_transaction()?;
        self.statements(plan)?;
        self.plans[&(Arc::as_ptr(plan) as usize)].row(&self.connection, image)
    }

    fn load_checkpoint(&mut self) -> Result<Option<CheckpointRow>, Error> {
        let rows = self.checkpoint.rows(&self.connection, Some(&self.group))?;
        let row = rows.into_iter().find(|row| row.group_key == self.group_key);
        self.left = row.as_ref().map(Place::from);
        Ok(row)
    }

    fn save_checkpoint(&mut self, row: &CheckpointRow) -> Result<(), Error> {
        self.ensure_transaction()?;
        if change::sabotage::is_on("checkpoint-in-another-transaction") {
            self.connection
                .execute_batch("COMMIT; BEGIN IMMEDIATE")
                .map_err(|cause| failed("could not commit the rows before the checkpoint", cause))?;
        }
        self.checkpoint.update(&self.connection, row)?;
        self.saved = Some(Place::from(row));
        Ok(())
    }

    fn load_checkpoints(&mut self) -> Result<Option<CheckpointSet>, Error> {
        let set = self.checkpoint.set(&self.connection, &self.group, self.group_key)?;
        self.left = set.as_ref().map(|set| Place::from(&set.group));
        Ok(set)
    }

    fn replace_checkpoints(&mut self, set: &CheckpointSet) -> Result<(), Error> {
        self.ensure_transaction()?;
        self.checkpoint.replace(&self.connection, set)?;
        self.saved = Some(Place::from(&set.group));
        Ok(())
    }

    fn error_queue(&mut self) -> Result<Option<ErrorQueueTables>, Error> {
        error_queue::find(&self.connection)
    }

    fn mend(&mut self, statements: &[String]) -> Result<(), Error> {
        self.ensure_transaction()?;
        for statement in statements {
            let done = self.connection.execute_batch(statement);
            done.map_err(|cause| failed("could not mend a row of the target", cause))?;
        }
        Ok(())
    }

    fn own_rows(&mut self, query: &OwnRows<'_>) -> Result<Vec<Row>, Error> {
        error_queue::rows(&self.connection, query)
    }

    fn commit(&mut self) -> Result<(), ApplyError> {
        self.ensure_transaction()?;
        if std::mem::take(&mut self.told) {
            remote::leave(&self.connection)?;
        }
        if std::mem::take(&mut self.marked) {
            trigger::mark(&self.connection, trigger::Kind::OwnEnd)?;
        }
        self.connection.execute_batch("COMMIT").map_err(|cause| match rejection(&cause, self.writes) {
            Some(refused) => ApplyError::Rejected(refused),
            None => ApplyError::Failed(failed("could not commit at the target", cause)),
        })?;
        self.left = self.saved.take().or(self.left.take());
        Ok(())
    }

    fn rollback(&mut self) -> Result<(), Error> {
        self.marked = false;
        self.told = false;
        if self.connection.is_autocommit() {
            return Ok(());
        }
        self.connection.execute_batch("ROLLBACK").map_err(|cause| failed("could not roll back at the target", cause))
    }
}

fn find(connection: &Connection, name: &TableName) -> Result<Option<Table>, Error> {
    if !same(&name.schema, catalog::SCHEMA) {
        return Ok(None);
    }
    if error_queue::is_ours(&name.table) {
        return error_queue::table(connection, &name.table);
    }
    let entry = catalog::entry(connection, &name.table)?.filter(|entry| entry.kind == catalog::Kind::Ordinary);
    entry.map(|entry| catalog::table(connection, &entry)).transpose()
}

fn missing_table(name: &TableName) -> Error {
    Error::new(ErrorClass::Missing, format!("target table {name} does not exist"))
        .with_next_step("create it, or leave it out of the MAP statements")
}

fn missing_row(table: &TableName, index: usize) -> ApplyError {
    ApplyError::Rejected(Rejection {
        index,
        outcome: Outcome::Missing,
        detail: format!("no such row in {table}"),
        code: String::new(),
    })
}
