//! A database in memory, with its own commit log: the model that every other plug is held against.
//!
//! It keeps the promises of [`Database`] in the plainest way that can be thought of, so that a simulation can
//! run thousands of histories with it, and stages can be tested without a server. One transaction is open at a time, so
//! commit order needs no thought; each transaction has a number, which is its CSN, its position and its log address.
//! The database does what its seed says: nothing in it asks a clock or a random device.
//!
//! # Failing
//! [`MemoryDatabase::fail_after`] lets the database go down at a chosen call, [`MemoryDatabase::restart`] brings it back,
//! [`MemoryDatabase::crash`] does both at once. What was open dies with [`ErrorClass::ConnectionLost`]; an open
//! transaction is rolled back; what was committed stays, unless [`Durability::Relaxed`] was asked for. Then a crash may
//! lose the last transactions that have not yet been read by a [`LogSource`](crate::LogSource) or followed by a change
//! of structure.
//!
//! # What it is not
//! It does not run triggers, computes no columns and has no types: a value is its bytes.

mod compare;
mod engine;
mod log;
mod reference;
mod session;
mod source;
mod state;
mod table;
mod transaction;

pub use log::MemoryLog;
pub use reference::Reference;
pub use transaction::MemoryTransaction;

use crate::{ApplyError, Error, ErrorClass, ForeignKeyPolicy, Outcome, Rejection};
use change::{CaseRule, Column, Csn, Row, TableDefinition, TableName, Timestamp};
use state::{Content, Shared};
use std::sync::Arc;
use std::time::Duration;
use table::Table;

#[expect(unused_imports, reason = "named in the documentation")]
use crate::Database;

/// Whether a crash may lose committed transactions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// A commit is durable.
    #[default]
    Strict,
    /// A crash may lose some of the last transactions, always the newest ones.
    Relaxed,
}

/// What the log tells of a row before its change, and of values that did not change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OldImage {
    /// Updates and deletes carry the whole old row, updates the whole new row.
    #[default]
    Row,
    /// Deletes and updates of the key carry the old key, other updates no old row; updates leave out what did not change.
    Key,
}

/// How a memory database behaves.
#[derive(Clone)]
pub struct MemoryOptions {
    /// Its name. Databases with different names do not take each other's positions.
    pub name: String,
    /// Whether a crash may lose committed transactions.
    pub durability: Durability,
    /// What the log tells of old rows.
    pub old_image: OldImage,
    /// How names without quotes are compared.
    pub case_rule: CaseRule,
    /// About how many events one read delivers at most.
    pub batch_events: usize,
    /// How long a transaction waits for another one to end before it is refused as [`ErrorClass::Transient`].
    pub lock_wait: Duration,
    /// What decides about the things that a crash leaves open.
    pub seed: u64,
    /// The time of the transaction with the given number.
    pub clock: Arc<dyn Fn(u64) -> Timestamp + Send + Sync>,
}

impl MemoryOptions {
    /// Strict durability, whole old rows, exact names, 1000 events, a lock wait of 2 s, and a clock that starts in 2026
    /// and ticks a millisecond with each transaction.
    pub fn new(name: impl Into<String>) -> MemoryOptions {
        MemoryOptions {
            name: name.into(),
            durability: Durability::Strict,
            old_image: OldImage::Row,
            case_rule: CaseRule::Sensitive,
            batch_events: 1000,
            lock_wait: Duration::from_secs(2),
            seed: 0,
            clock: Arc::new(|number| Timestamp::from_unix_micros(1_767_225_600_000_000 + number as i64 * 1000)),
        }
    }
}

/// A copy of everything that a database held at one moment; see [`MemoryDatabase::backup`].
#[derive(Clone)]
pub struct Backup(Content);

/// A database in memory. Clones are handles of the same database.
#[derive(Clone)]
pub struct MemoryDatabase {
    shared: Arc<Shared>,
}

impl MemoryDatabase {
    /// An empty database.
    pub fn new(options: MemoryOptions) -> MemoryDatabase {
        MemoryDatabase { shared: Arc::new(Shared::new(options)) }
    }

    /// Creates a table with the key that its definition marks, and extra unique keys as lists of column indexes.
    ///
    /// # Errors
    /// [`ErrorClass::Permanent`] when a table of that name exists.
    pub fn create_table(&self, definition: TableDefinition, unique: &[Vec<usize>]) -> Result<(), Error> {
        let mut state = self.shared.lock();
        state.alive(None)?;
        let name = definition.name.clone();
        if state.resolve(&name).is_some() || state.content.checkpoints.contains_key(&name) {
            return Err(Error::new(ErrorClass::Permanent, format!("table {name} exists already")));
        }
        state.make_durable();
        state.content.tables.insert(name, Table::new(definition, unique));
        Ok(())
    }

    /// Drops a table, without a word in the log.
    ///
    /// # Errors
    /// [`ErrorClass::Missing`] when it does not exist; [`ErrorClass::Transient`] while a transaction is open.
    pub fn drop_table(&self, name: &TableName) -> Result<(), Error> {
        let mut state = self.shared.lock();
        state.alive(None)?;
        state.nothing_open(name)?;
        state.make_durable();
        state.content.tables.remove(name).map(|_| ()).ok_or_else(|| transaction::missing_table(name))
    }

    /// Adds a column at the end; it is NULL in the rows that are there. Changes that were logged before keep the shape
    /// they were made under.
    ///
    /// # Errors
    /// [`ErrorClass::Missing`] when the table does not exist; [`ErrorClass::Transient`] while a transaction is open.
    pub fn add_column(&self, name: &TableName, column: Column) -> Result<(), Error> {
        let mut state = self.shared.lock();
        state.alive(None)?;
        state.nothing_open(name)?;
        state.make_durable();
        let table = state.content.tables.get_mut(name).ok_or_else(|| transaction::missing_table(name))?;
        let mut definition = (**table.definition()).clone();
        definition.columns = definition.columns.iter().cloned().chain([column]).collect();
        table.widen(definition);
        Ok(())
    }

    /// Adds a foreign key. Rows that are there already are not checked.
    pub fn create_reference(&self, reference: Reference) {
        self.shared.lock().content.references.push(reference);
    }

    /// Makes one transaction as a user of the database: commits it when `change` succeeds, else rolls it back. Returns its
    /// CSN, or `None` when it changed nothing.
    ///
    /// # Errors
    /// What `change` returns; [`ErrorClass::ConnectionLost`] while the database is down;
    /// [`ErrorClass::Transient`] when another transaction stays open.
    pub fn write(
        &self,
        change: impl FnOnce(&mut MemoryTransaction) -> Result<(), ApplyError>,
    ) -> Result<Option<Csn>, ApplyError> {
        let mut transaction = self.shared.begin(false, None)?;
        change(&mut transaction)?;
        let mut state = self.shared.lock();
        let number = match state.owned_by(transaction.owner) {
            Err(error) => Err(error.into()),
            Ok(()) => match state.broken_reference(ForeignKeyPolicy::Check) {
                Some((index, detail)) => Err(ApplyError::Rejected(Rejection {
                    index,
                    outcome: Outcome::ForeignKey,
                    detail,
                    code: String::new(),
                })),
                None => Ok(state.commit()),
            },
        };
        // The guard goes first: the transaction takes the lock when it is dropped.
        drop(state);
        drop(transaction);
        number.map(|number| number.map(|number| Csn::new(format!("{number:020}"))))
    }

    /// The committed rows of a table, in key order by the bytes of the key's values; of a table without a key, in the
    /// order in which they came. Empty for a table that does not exist.
    pub fn rows(&self, name: &TableName) -> Vec<Row> {
        self.shared.lock().committed_rows(name).unwrap_or_default()
    }

    /// Lets the `calls`-th call from now on (from 1) to the doors of [`Database`], [`LogSource`](crate::LogSource) and
    /// [`Session`](crate::Session), and all later ones, fail with [`ErrorClass::ConnectionLost`], until
    /// [`restart`](MemoryDatabase::restart). Whether a commit that fails this way has happened is decided by `seed`.
    pub fn fail_after(&self, calls: u64, seed: u64) {
        self.shared.lock().fail_after(calls, seed);
    }

    /// Brings the database back after [`fail_after`](MemoryDatabase::fail_after) has let it go down. What was open stays
    /// dead.
    pub fn restart(&self) {
        self.shared.lock().restart();
        self.shared.signal();
    }

    /// Lets the database crash and come back: what is open dies, the open transaction is rolled back, and with
    /// [`Durability::Relaxed`] some of the last transactions may be lost.
    pub fn crash(&self) {
        self.restart();
    }

    /// Makes every committed transaction durable, as a checkpoint of a real database does.
    pub fn make_durable(&self) {
        self.shared.lock().make_durable();
    }

    /// How many transactions the log still holds.
    pub fn log_transactions(&self) -> usize {
        self.shared.lock().content.log.len()
    }

    /// A copy of the database as committed.
    ///
    /// # Errors
    /// [`ErrorClass::Transient`] while a transaction is open.
    pub fn backup(&self) -> Result<Backup, Error> {
        let state = self.shared.lock();
        if state.open.is_some() {
            let what =
                format!("memory database {:?} can't be backed up while a transaction is open", state.options.name);
            return Err(Error::new(ErrorClass::Transient, what));
        }
        Ok(Backup(state.content.clone()))
    }

    /// Puts the database back to what a backup holds. What is open dies.
    pub fn restore(&self, backup: &Backup) {
        let mut state = self.shared.lock();
        state.restart();
        state.content = backup.0.clone();
        drop(state);
        self.shared.signal();
    }
}

impl Shared {
    /// Opens a transaction when no other one is open.
    fn begin(self: &Arc<Shared>, applied: bool, epoch: Option<u64>) -> Result<MemoryTransaction, Error> {
        let state = self.lock();
        state.alive(epoch)?;
        let wait = state.options.lock_wait;
        let mut state = self.wait_while(state, wait, |state| state.open.is_some() && state.alive(epoch).is_ok());
        state.alive(epoch)?;
        if state.open.is_some() {
            let what = format!("memory database {:?} is locked by another transaction", state.options.name);
            return Err(Error::new(ErrorClass::Transient, what));
        }
        let owner = state.begin(applied);
        Ok(MemoryTransaction { shared: Arc::clone(self), owner })
    }
}
