//! Where open transactions wait for their end.

use super::block::Block;
use super::committed::CommittedTransaction;
use super::error::Error;
use change::{Change, LogPosition, ObjectChange, TableDefinition, TableName, Timestamp, TransactionId};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use trail::storage::{File, Storage};

/// How a store works.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// What names of spill files start with: the group's name.
    pub name: String,
    /// Bytes of memory that open transactions may take together (CACHEMGR CACHESIZE). One block, one row and 512 bytes
    /// for each open transaction may come on top.
    pub memory_max: usize,
}

/// What an open transaction costs besides its changes, about.
const TRANSACTION_BYTES: usize = 512;
/// What a table shape costs in a transaction, about.
const TABLE_BYTES: usize = 48;
/// What a rolled-back part costs in a transaction, about, when changes of it were spilled.
const PART_BYTES: usize = 12;
/// End of the names of spill files.
const SPILL_EXTENSION: &str = ".spill";

/// The spilled part of a transaction. Its blocks come before those in memory.
#[derive(Default)]
pub(crate) struct Spilled {
    pub(crate) bytes: u64,
    pub(crate) blocks: u32,
}

/// An open transaction.
pub(crate) struct Transaction {
    /// Its number in the store, which names its file.
    pub(crate) number: u32,
    pub(crate) start: LogPosition,
    pub(crate) started: Option<Timestamp>,
    pub(crate) prepared: Option<String>,
    pub(crate) tables: Vec<Arc<TableDefinition>>,
    /// Places in `tables` by address; `tables` keeps what has the address alive.
    indexes: HashMap<usize, u32>,
    pub(crate) blocks: Vec<Block>,
    blocks_weight: usize,
    pub(crate) spilled: Spilled,
    pub(crate) aborted: HashSet<u32>,
    /// The highest part that has changed something. Sources number parts upwards as a rule, which tells that a part is new.
    pub(crate) highest_part: Option<u32>,
    pub(crate) records: u64,
    record_bytes: u64,
    /// Grows with everything that is told of the transaction.
    pub(crate) version: u64,
    /// It is left out when it commits: its changes are counted, and not kept.
    is_left_out: bool,
}

impl Transaction {
    fn new(number: u32, start: LogPosition, started: Option<Timestamp>) -> Transaction {
        Transaction {
            number,
            start,
            started,
            prepared: None,
            tables: Vec::new(),
            indexes: HashMap::new(),
            blocks: Vec::new(),
            blocks_weight: 0,
            spilled: Spilled::default(),
            aborted: HashSet::new(),
            highest_part: None,
            records: 0,
            record_bytes: 0,
            version: 0,
            is_left_out: false,
        }
    }

    fn weight(&self) -> usize {
        TRANSACTION_BYTES + self.blocks_weight + self.tables.len() * TABLE_BYTES + self.aborted.len() * PART_BYTES
    }

    fn table(&mut self, table: &Arc<TableDefinition>) -> u32 {
        if let Some(last) = self.tables.last()
            && Arc::ptr_eq(last, table)
        {
            return self.tables.len() as u32 - 1;
        }
        let tables = &mut self.tables;
        *self.indexes.entry(Arc::as_ptr(table).addr()).or_insert_with(|| {
            tables.push(Arc::clone(table));
            tables.len() as u32 - 1
        })
    }

    fn put(&mut self, part: u32, change: &Change) {
        if self.is_left_out {
            self.records += 1;
            return;
        }
        let table = self.table(&change.table);
        self.put_with(part, |block, is_first| {
            block.put(part, is_first, table, &change.operation, change.address);
        });
    }

    fn put_with(&mut self, part: u32, put: impl FnOnce(&mut Block, bool)) {
        let is_first = self.highest_part.is_none_or(|highest| part > highest);
        self.highest_part = self.highest_part.max(Some(part));
        if self.blocks.last().is_none_or(Block::is_full) {
            self.blocks.push(Block::new());
            self.blocks_weight += self.blocks.last().map_or(0, Block::weight);
        }
        let Some(block) = self.blocks.last_mut() else { return };
        let (weight, bytes) = (block.weight(), block.record_bytes());
        put(block, is_first);
        self.blocks_weight += block.weight() - weight;
        self.record_bytes += (block.record_bytes() - bytes) as u64;
        self.records += 1;
    }

    fn abort_part(&mut self, part: u32) {
        if self.highest_part.is_none_or(|highest| part > highest) {
            return;
        }
        self.aborted.insert(part);
        // What was rolled back is usually what came last.
        while let Some(block) = self.blocks.last_mut() {
            let bytes = block.record_bytes();
            let weight = block.weight();
            self.records -= block.cut(&mut self.aborted);
            self.record_bytes -= (bytes - block.record_bytes()) as u64;
            self.blocks_weight -= weight - block.weight();
            if !block.is_empty() {
                break;
            }
            self.blocks_weight -= block.weight();
            self.blocks.pop();
        }
    }
}

/// An open transaction as an operator sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenTransaction {
    /// The source's name for it.
    pub transaction: TransactionId,
    /// Where the source's log starts to tell of it.
    pub start: LogPosition,
    /// When it started, by the source's clock, where the source tells.
    pub started: Option<Timestamp>,
    /// Changes that are kept. Changes of parts that were rolled back after they were spilled are counted still.
    pub records: u64,
    /// Bytes of these changes.
    pub bytes: u64,
    /// Bytes of them that lie in a spill file.
    pub spilled_bytes: u64,
    /// The name under which it is prepared, if it is.
    pub prepared: Option<String>,
    /// Tables that it has changed, in the order of their first change.
    pub tables: Vec<TableName>,
    /// It is left out when it commits (SKIPTRANS).
    pub is_left_out: bool,
    /// Grows with everything that is told of the transaction.
    pub version: u64,
}

/// A transaction that a persisted object holds.
pub(crate) struct RestoredTransaction {
    pub(crate) start: LogPosition,
    pub(crate) started: Option<Timestamp>,
    pub(crate) prepared: Option<String>,
    pub(crate) tables: Vec<Arc<TableDefinition>>,
    pub(crate) aborted: HashSet<u32>,
    pub(crate) highest_part: Option<u32>,
    pub(crate) records: u64,
}

/// Open transactions, in memory as far as the limit allows and else in spill files, one for each.
///
/// After an error of a file the store must be opened anew, and so must its source.
pub struct Store {
    storage: Arc<dyn Storage>,
    options: StoreOptions,
    transactions: HashMap<TransactionId, Transaction>,
    /// Starts of all of them.
    starts: BTreeSet<(LogPosition, u32)>,
    next_number: u32,
    memory: usize,
    memory_peak: usize,
    spilled_bytes_total: u64,
}

impl Store {
    /// An empty store with spill files in `storage`. What a crash left there is removed.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn open(storage: Arc<dyn Storage>, options: StoreOptions) -> Result<Store, Error> {
        let prefix = format!("{}-", options.name);
        let names = storage.list().map_err(|error| Error::io("list", &*storage, "the files", error))?;
        for name in names.iter().filter(|name| name.starts_with(&prefix) && name.ends_with(SPILL_EXTENSION)) {
            storage.remove(name).map_err(|error| Error::io("remove", &*storage, name, error))?;
        }
        Ok(Store {
            storage,
            options,
            transactions: HashMap::new(),
            starts: BTreeSet::new(),
            next_number: 1,
            memory: 0,
            memory_peak: 0,
            spilled_bytes_total: 0,
        })
    }

    /// Starts a transaction. One of that name that is open is told again from its start: what was kept of it goes.
    pub fn start(&mut self, transaction: &TransactionId, start: LogPosition, started: Option<Timestamp>) {
        self.remove(transaction);
        let number = self.next_number;
        self.next_number = self.next_number.wrapping_add(1);
        let open = Transaction::new(number, start.clone(), started);
        self.memory += open.weight();
        self.starts.insert((start, number));
        self.transactions.insert(transaction.clone(), open);
    }

    /// Whether the transaction is open.
    pub fn is_open(&self, transaction: &TransactionId) -> bool {
        self.transactions.contains_key(transaction)
    }

    /// Keeps a change of part `part` of an open transaction, and spills when the limit is passed.
    ///
    /// # Errors
    /// [`Error::Unknown`] for a transaction that was not started; errors of files.
    pub fn append(&mut self, transaction: &TransactionId, part: u32, change: &Change) -> Result<(), Error> {
        self.with(transaction, "a change", |open| open.put(part, change))?;
        self.spill_if_full()
    }

    /// Keeps what part `part` of an open transaction did to an object, as [`append`](Store::append) does.
    ///
    /// # Errors
    /// As there.
    pub fn append_object(
        &mut self,
        transaction: &TransactionId,
        part: u32,
        object: &ObjectChange,
    ) -> Result<(), Error> {
        self.with(transaction, "a change", |open| {
            open.put_with(part, |block, is_first| block.put_object(part, is_first, object));
        })?;
        self.spill_if_full()
    }

    fn spill_if_full(&mut self) -> Result<(), Error> {
        if self.memory > self.options.memory_max && !change::sabotage::is_on("keep-all-in-memory") {
            self.spill()?;
        }
        Ok(())
    }

    /// Drops what was kept of part `part`. Parts inside it are told on their own.
    ///
    /// # Errors
    /// [`Error::Unknown`] for a transaction that was not started.
    pub fn abort_part(&mut self, transaction: &TransactionId, part: u32) -> Result<(), Error> {
        if change::sabotage::is_on("keep-aborted-part") {
            return Ok(());
        }
        self.with(transaction, "the end of a part", |open| open.abort_part(part))
    }

    /// Notes that the transaction is prepared under `name`. It stays open.
    ///
    /// # Errors
    /// [`Error::Unknown`] for a transaction that was not started.
    pub fn prepare(&mut self, transaction: &TransactionId, name: &str) -> Result<(), Error> {
        self.with(transaction, "the preparation", |open| open.prepared = Some(name.to_owned()))
    }

    /// Drops the changes of a transaction that is left out when it commits; further ones are counted only, and it holds no log
    /// any more. Does nothing for one that is not open.
    pub fn leave_out(&mut self, transaction: &TransactionId) {
        let Some(open) = self.transactions.remove(transaction) else { return };
        self.memory -= open.weight();
        self.starts.remove(&(open.start.clone(), open.number));
        if open.spilled.blocks > 0 {
            // A file that can't be removed now is removed at the next start.
            let _ = self.storage.remove(&self.file_name(open.number));
        }
        let mut left = Transaction::new(open.number, open.start, open.started);
        left.is_left_out = true;
        left.prepared = open.prepared;
        left.records = open.records;
        left.tables = open.tables;
        left.indexes = open.indexes;
        left.version = open.version + 1;
        self.memory += left.weight();
        self.transactions.insert(transaction.clone(), left);
    }

    /// Drops everything of a transaction. Does nothing for one that is not open.
    pub fn abort(&mut self, transaction: &TransactionId) {
        self.remove(transaction);
    }

    /// Takes a transaction out, to be handed out. One that is not open has changed nothing of ours.
    ///
    /// # Errors
    /// Errors of its spill file.
    pub fn commit(&mut self, transaction: &TransactionId) -> Result<CommittedTransaction, Error> {
        let Some(open) = self.transactions.remove(transaction) else {
            return Ok(CommittedTransaction::empty(Arc::clone(&self.storage)));
        };
        self.memory -= open.weight();
        self.starts.remove(&(open.start.clone(), open.number));
        let file = (open.spilled.blocks > 0).then(|| self.file_name(open.number));
        CommittedTransaction::new(Arc::clone(&self.storage), file, open)
    }

    /// Where the log starts to tell of the oldest open transaction.
    pub fn oldest(&self) -> Option<&LogPosition> {
        self.starts.first().map(|(start, _)| start)
    }

    /// All open transactions, oldest first.
    pub fn list(&self) -> Vec<OpenTransaction> {
        let mut list: Vec<_> = self.transactions.iter().collect();
        list.sort_by(|(_, left), (_, right)| (&left.start, left.number).cmp(&(&right.start, right.number)));
        let shown = |(transaction, open): (&TransactionId, &Transaction)| {
            let mut tables: Vec<TableName> = Vec::new();
            for table in &open.tables {
                if !tables.contains(&table.name) {
                    tables.push(table.name.clone());
                }
            }
            OpenTransaction {
                transaction: transaction.clone(),
                start: open.start.clone(),
                started: open.started,
                records: open.records,
                bytes: open.record_bytes,
                spilled_bytes: open.spilled.bytes,
                prepared: open.prepared.clone(),
                tables,
                is_left_out: open.is_left_out,
                version: open.version,
            }
        };
        list.into_iter().map(shown).collect()
    }

    /// Bytes of memory that open transactions take, about.
    pub fn memory(&self) -> usize {
        self.memory
    }

    /// The most that they ever took.
    pub fn memory_peak(&self) -> usize {
        self.memory_peak
    }

    /// Bytes that were written to spill files.
    pub fn spilled_bytes_total(&self) -> u64 {
        self.spilled_bytes_total
    }

    pub(crate) fn transaction(&self, transaction: &TransactionId) -> Option<&Transaction> {
        self.transactions.get(transaction)
    }

    /// Gives the blocks of a transaction to `take`, in order, numbered from 0 and as bytes that were checked.
    pub(crate) fn blocks(
        &mut self,
        transaction: &TransactionId,
        mut take: impl FnMut(&[u8]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let Some(open) = self.transactions.get_mut(transaction) else { return Ok(()) };
        let number = open.number;
        if open.spilled.blocks > 0 {
            let name = spill_name(&self.options.name, number);
            let mut blocks = super::committed::SpilledBlocks::open(&self.storage, name, number, open.spilled.blocks)?;
            while let Some(block) = blocks.next()? {
                take(&block)?;
            }
        }
        let spilled = open.spilled.blocks;
        for (place, block) in open.blocks.iter_mut().enumerate() {
            take(block.seal(number, spilled + place as u32))?;
        }
        Ok(())
    }

    /// Puts a transaction back that a persisted object holds; its blocks follow.
    pub(crate) fn restore(&mut self, transaction: &TransactionId, restored: RestoredTransaction) {
        self.start(transaction, restored.start, restored.started);
        if let Some(open) = self.transactions.get_mut(transaction) {
            let weight = open.weight();
            open.prepared = restored.prepared;
            open.indexes =
                restored.tables.iter().enumerate().map(|(at, table)| (Arc::as_ptr(table).addr(), at as u32)).collect();
            open.tables = restored.tables;
            open.aborted = restored.aborted;
            open.highest_part = restored.highest_part;
            open.records = restored.records;
            self.memory += open.weight() - weight;
        }
    }

    /// Appends a whole block of a restored transaction.
    pub(crate) fn restore_block(&mut self, transaction: &TransactionId, block: Vec<u8>) -> Result<(), Error> {
        self.with(transaction, "a block", |open| {
            let block = Block::whole(block);
            open.blocks_weight += block.weight();
            open.record_bytes += block.record_bytes() as u64;
            open.blocks.push(block);
        })?;
        if self.memory > self.options.memory_max { self.spill() } else { Ok(()) }
    }

    fn with(
        &mut self,
        transaction: &TransactionId,
        what: &'static str,
        step: impl FnOnce(&mut Transaction),
    ) -> Result<(), Error> {
        let unknown = || Error::Unknown { what, transaction: transaction.clone() };
        let open = self.transactions.get_mut(transaction).ok_or_else(unknown)?;
        let weight = open.weight();
        step(open);
        open.version += 1;
        self.memory = self.memory + open.weight() - weight;
        self.memory_peak = self.memory_peak.max(self.memory);
        Ok(())
    }

    /// Writes out the largest transactions until a quarter of the limit is free: looking for them costs a look at each, and
    /// must not be needed for every change.
    fn spill(&mut self) -> Result<(), Error> {
        let mut order: Vec<(usize, &TransactionId)> =
            self.transactions.iter().map(|(transaction, open)| (open.blocks_weight, transaction)).collect();
        order.sort_unstable_by(|left, right| right.cmp(left));
        let goal = self.options.memory_max / 4 * 3;
        // Where it is not changes that take the memory, writing out a few of them at a time would only make tiny blocks.
        let blocks: usize = order.iter().map(|(weight, _)| *weight).sum();
        if blocks < self.options.memory_max / 8 {
            return Ok(());
        }
        let order: Vec<TransactionId> = order.into_iter().map(|(_, transaction)| transaction.clone()).collect();
        for transaction in order {
            if self.memory <= goal {
                break;
            }
            self.spill_one(&transaction)?;
        }
        Ok(())
    }

    fn spill_one(&mut self, transaction: &TransactionId) -> Result<(), Error> {
        let Some(open) = self.transactions.get_mut(transaction).filter(|open| !open.blocks.is_empty()) else {
            return Ok(());
        };
        let name = spill_name(&self.options.name, open.number);
        let storage = &*self.storage;
        let file: Box<dyn File> = if open.spilled.blocks == 0 {
            storage.create(&name).map_err(|error| Error::io("create", storage, &name, error))?
        } else {
            storage.open(&name).map_err(|error| Error::io("open", storage, &name, error))?
        };
        let weight = open.weight();
        let mut written = 0;
        for block in &mut open.blocks {
            let bytes = block.seal(open.number, open.spilled.blocks);
            file.write_at(bytes, open.spilled.bytes).map_err(|error| Error::io("write", storage, &name, error))?;
            open.spilled.bytes += bytes.len() as u64;
            open.spilled.blocks += 1;
            written += bytes.len() as u64;
        }
        open.blocks = Vec::new();
        open.blocks_weight = 0;
        self.memory -= weight - open.weight();
        self.spilled_bytes_total += written;
        Ok(())
    }

    fn remove(&mut self, transaction: &TransactionId) {
        if let Some(open) = self.transactions.remove(transaction) {
            self.memory -= open.weight();
            self.starts.remove(&(open.start.clone(), open.number));
            if open.spilled.blocks > 0 {
                // A file that can't be removed now is removed at the next start.
                let _ = self.storage.remove(&self.file_name(open.number));
            }
        }
    }

    fn file_name(&self, number: u32) -> String {
        spill_name(&self.options.name, number)
    }
}

fn spill_name(group: &str, number: u32) -> String {
    format!("{group}-{number:010}{SPILL_EXTENSION}")
}
