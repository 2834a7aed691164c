//! What a memory database holds, and what becomes of it when it fails.

use super::reference::Reference;
use super::table::{RowId, Table};
use super::{Durability, MemoryOptions};
use crate::{CheckpointRow, Error, ErrorClass};
use change::{LogPosition, Operation, Row, TableDefinition, TableName, Timestamp};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Rows of one checkpoint table by group name and key.
pub(super) type CheckpointRows = BTreeMap<(String, i64), CheckpointRow>;

/// How many appliers a group has rows of, and under which MAP rules.
pub(super) type CheckpointNote = (u32, Option<String>);

/// Notes of one checkpoint table by group name and key.
pub(super) type CheckpointNotes = BTreeMap<(String, i64), CheckpointNote>;

/// One committed transaction. Its number is its place in the log.
#[derive(Clone)]
pub(super) struct Logged {
    pub(super) time: Timestamp,
    /// Empty for a transaction that a session of ours made: it is told to nobody.
    pub(super) changes: Vec<(Arc<TableDefinition>, Operation)>,
}

/// How to take back one step of a transaction.
#[derive(Clone)]
pub(super) enum Undo {
    Row { table: TableName, id: RowId, before: Option<Row> },
    Table { table: TableName, before: Box<Table> },
    Checkpoint { table: TableName, key: (String, i64), before: Option<Box<CheckpointRow>> },
    CheckpointNote { table: TableName, key: (String, i64), before: Option<CheckpointNote> },
}

/// The one transaction that may be open at a time.
pub(super) struct Open {
    pub(super) owner: u64,
    pub(super) applied: bool,
    pub(super) undo: Vec<Undo>,
    pub(super) changes: Vec<(Arc<TableDefinition>, Operation)>,
    pub(super) writes: usize,
}

/// Everything that a backup holds.
#[derive(Clone, Default)]
pub(super) struct Content {
    pub(super) tables: BTreeMap<TableName, Table>,
    pub(super) checkpoints: BTreeMap<TableName, CheckpointRows>,
    pub(super) checkpoint_notes: BTreeMap<TableName, CheckpointNotes>,
    pub(super) references: Vec<Reference>,
    /// Per group the number of the last transaction that it needs no more.
    pub(super) released: BTreeMap<String, u64>,
    /// Committed transactions `forgotten + 1 ..= last`.
    pub(super) log: VecDeque<Logged>,
    pub(super) forgotten: u64,
    pub(super) last: u64,
}

pub(super) struct State {
    pub(super) options: MemoryOptions,
    pub(super) content: Content,
    pub(super) open: Option<Open>,
    /// Grows with every crash: what was opened before is dead.
    pub(super) epoch: u64,
    next_owner: u64,
    /// How to take back the last transactions, oldest first, for as long as a crash may lose them.
    volatile: VecDeque<Vec<Undo>>,
    calls_left: Option<u64>,
    down: bool,
    random: fastrand::Rng,
}

/// How many transactions a crash may lose: a real database syncs its log every few moments.
const VOLATILE_TRANSACTIONS_MAX: usize = 1000;

/// What a call finds.
pub(super) enum Call {
    /// The database works.
    Runs,
    /// The database goes down in the middle of this call.
    Breaks,
}

pub(super) struct Shared {
    state: Mutex<State>,
    /// Signalled when a transaction ends and when the database fails.
    moved: Condvar,
}

impl Shared {
    pub(super) fn new(options: MemoryOptions) -> Shared {
        let random = fastrand::Rng::with_seed(options.seed);
        let state = State {
            options,
            content: Content::default(),
            open: None,
            epoch: 0,
            next_owner: 0,
            volatile: VecDeque::new(),
            calls_left: None,
            down: false,
            random,
        };
        Shared { state: Mutex::new(state), moved: Condvar::new() }
    }

    /// The state, whatever a panicking test thread left: every method leaves it whole between its own steps.
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets others run until `done` or until `wait` is over.
    pub(super) fn wait_while<'a>(
        &'a self,
        state: MutexGuard<'a, State>,
        wait: Duration,
        waiting: impl FnMut(&mut State) -> bool,
    ) -> MutexGuard<'a, State> {
        self.moved.wait_timeout_while(state, wait, waiting).unwrap_or_else(PoisonError::into_inner).0
    }

    pub(super) fn signal(&self) {
        self.moved.notify_all();
    }
}

impl State {
    /// Counts a call of the database's own doors, and fails it when the database is down.
    pub(super) fn call(&mut self, epoch: Option<u64>) -> Result<Call, Error> {
        self.alive(epoch)?;
        match &mut self.calls_left {
            None => Ok(Call::Runs),
            Some(0 | 1) => {
                self.calls_left = None;
                Ok(Call::Breaks)
            }
            Some(left) => {
                *left -= 1;
                Ok(Call::Runs)
            }
        }
    }

    /// Counts a call that either happens wholly before the database goes down or not at all.
    pub(super) fn enter(&mut self, epoch: Option<u64>) -> Result<(), Error> {
        match self.call(epoch)? {
            Call::Runs => Ok(()),
            Call::Breaks => Err(self.go_down()),
        }
    }

    /// Refuses when the database is down, or was since `epoch`.
    pub(super) fn alive(&self, epoch: Option<u64>) -> Result<(), Error> {
        if self.down || epoch.is_some_and(|epoch| epoch != self.epoch) { Err(self.lost()) } else { Ok(()) }
    }

    /// Refuses to change the shape of `table` while a transaction is open, which could not be taken back over the change.
    pub(super) fn nothing_open(&self, table: &TableName) -> Result<(), Error> {
        if self.open.is_none() {
            return Ok(());
        }
        let what = format!("the shape of table {table} can't be changed while a transaction is open");
        Err(Error::new(ErrorClass::Transient, what))
    }

    fn lost(&self) -> Error {
        let what = format!("the connection to memory database {:?} is lost", self.options.name);
        Error::new(ErrorClass::ConnectionLost, what).with_next_step("restart the database and connect again")
    }

    /// Lets the `calls`-th call from now on, and all later ones, fail.
    pub(super) fn fail_after(&mut self, calls: u64, seed: u64) {
        self.calls_left = Some(calls);
        self.random.seed(seed);
    }

    pub(super) fn go_down(&mut self) -> Error {
        self.rollback();
        self.down = true;
        self.lost()
    }

    /// Flips the coin of an uncertain commit.
    pub(super) fn coin(&mut self) -> bool {
        self.random.bool()
    }

    /// Kills everything that is open, loses what may be lost, and starts again.
    pub(super) fn restart(&mut self) {
        self.rollback();
        let lost = self.random.usize(0..=self.volatile.len());
        for _ in 0..lost {
            let undo = self.volatile.pop_back().expect("no more are lost than there are");
            self.take_back(undo);
            self.content.log.pop_back();
            self.content.last -= 1;
        }
        self.make_durable();
        self.down = false;
        self.calls_left = None;
        self.epoch += 1;
    }

    /// From now on no crash loses what has been committed.
    pub(super) fn make_durable(&mut self) {
        self.volatile.clear();
    }

    pub(super) fn begin(&mut self, applied: bool) -> u64 {
        self.next_owner += 1;
        let owner = self.next_owner;
        self.open = Some(Open { owner, applied, undo: Vec::new(), changes: Vec::new(), writes: 0 });
        owner
    }

    /// Commits the open transaction and returns its number, or `None` when it did nothing.
    pub(super) fn commit(&mut self) -> Option<u64> {
        let open = self.open.take()?;
        if open.undo.is_empty() {
            return None;
        }
        let content = &mut self.content;
        content.last += 1;
        let time = (self.options.clock)(content.last);
        content.log.push_back(Logged { time, changes: open.changes });
        if self.options.durability == Durability::Relaxed {
            self.volatile.push_back(open.undo);
            if self.volatile.len() > VOLATILE_TRANSACTIONS_MAX {
                self.volatile.pop_front();
            }
        }
        self.forget();
        Some(self.content.last)
    }

    /// Rolls the open transaction back, if there is one.
    pub(super) fn rollback(&mut self) {
        if let Some(open) = self.open.take() {
            self.take_back(open.undo);
        }
    }

    fn take_back(&mut self, undo: Vec<Undo>) {
        undo.into_iter().rev().for_each(|step| undo_step(&mut self.content, step));
    }

    /// Drops from the log what no registered group needs.
    pub(super) fn forget(&mut self) {
        let content = &mut self.content;
        let needed = content.released.values().copied().min().unwrap_or(content.last);
        // What a crash may take back must still be there to be taken back.
        let durable = content.last - self.volatile.len() as u64;
        while content.forgotten < needed.min(durable) {
            content.log.pop_front();
            content.forgotten += 1;
        }
    }

    /// The rows of a table as committed, whatever the open transaction has done to it.
    pub(super) fn committed_rows(&self, name: &TableName) -> Option<Vec<Row>> {
        let table = self.content.tables.get(name)?;
        let Some(open) = &self.open else { return Some(table.rows()) };
        let mut table = table.clone();
        for step in open.undo.iter().rev() {
            match step {
                Undo::Row { table: changed, id, before } if changed == name => {
                    table.set(*id, before.clone());
                }
                Undo::Table { table: changed, before } if changed == name => table = (**before).clone(),
                _ => {}
            }
        }
        Some(table.rows())
    }

    /// A checkpoint table's rows as `reader` sees them: as committed, with what its own open transaction has done.
    pub(super) fn checkpoint_rows(&self, table: &TableName, reader: Option<u64>) -> Option<CheckpointRows> {
        let mut rows = self.content.checkpoints.get(table)?.clone();
        if let Some(open) = self.open.as_ref().filter(|open| Some(open.owner) != reader) {
            for step in open.undo.iter().rev() {
                if let Undo::Checkpoint { table: changed, key, before } = step
                    && changed == table
                {
                    put(&mut rows, key, before.as_deref().cloned());
                }
            }
        }
        Some(rows)
    }

    /// A checkpoint table's notes as `reader` sees them.
    pub(super) fn checkpoint_notes(&self, table: &TableName, reader: Option<u64>) -> CheckpointNotes {
        let mut notes = self.content.checkpoint_notes.get(table).cloned().unwrap_or_default();
        if let Some(open) = self.open.as_ref().filter(|open| Some(open.owner) != reader) {
            for step in open.undo.iter().rev() {
                if let Undo::CheckpointNote { table: changed, key, before } = step
                    && changed == table
                {
                    put(&mut notes, key, before.clone());
                }
            }
        }
        notes
    }

    /// Puts or takes away a checkpoint row inside the open transaction.
    pub(super) fn put_checkpoint(&mut self, table: &TableName, key: (String, i64), row: Option<CheckpointRow>) {
        let Some(rows) = self.content.checkpoints.get_mut(table) else { return };
        let before = put(rows, &key, row).map(Box::new);
        self.note_undo(Undo::Checkpoint { table: table.clone(), key, before });
    }

    /// Puts or takes away a note inside the open transaction.
    pub(super) fn put_note(&mut self, table: &TableName, key: (String, i64), note: Option<CheckpointNote>) {
        let before = put(self.content.checkpoint_notes.entry(table.clone()).or_default(), &key, note);
        self.note_undo(Undo::CheckpointNote { table: table.clone(), key, before });
    }

    fn note_undo(&mut self, undo: Undo) {
        // The promise: what is taken back with the rows is taken back here too.
        if !change::sabotage::is_on("checkpoint-in-another-transaction") {
            self.open.as_mut().expect("the transaction is open").undo.push(undo);
        }
    }

    /// The position after transaction `number`.
    pub(super) fn position(&self, number: u64) -> LogPosition {
        LogPosition::new(format!("{:016x}.{number:020}", self.mark()))
    }

    /// The transaction after which a position stands, if it speaks of this database.
    pub(super) fn number(&self, position: &LogPosition) -> Option<u64> {
        let (mark, number) = position.as_str().split_once('.')?;
        (mark == format!("{:016x}", self.mark())).then(|| number.parse().ok())?
    }

    /// Tells databases apart: FNV-1a over the name, so that the same history always has the same positions.
    fn mark(&self) -> u64 {
        let step = |mark: u64, byte: u8| (mark ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        self.options.name.bytes().fold(0xcbf2_9ce4_8422_2325, step)
    }
}

/// Puts `value` at `key`, or takes away what is there; returns what was.
fn put<Value>(map: &mut BTreeMap<(String, i64), Value>, key: &(String, i64), value: Option<Value>) -> Option<Value> {
    match value {
        Some(value) => map.insert(key.clone(), value),
        None => map.remove(key),
    }
}

fn undo_step(content: &mut Content, step: Undo) {
    match step {
        Undo::Row { table, id, before } => {
            if let Some(table) = content.tables.get_mut(&table) {
                table.set(id, before);
            }
        }
        Undo::Table { table, before } => {
            content.tables.insert(table, *before);
        }
        Undo::Checkpoint { table, key, before } => {
            if let Some(rows) = content.checkpoints.get_mut(&table) {
                put(rows, &key, before.map(|row| *row));
            }
        }
        Undo::CheckpointNote { table, key, before } => {
            put(content.checkpoint_notes.entry(table).or_default(), &key, before);
        }
    }
}
