//! A committed transaction on its way into the trail.

use super::block::{self, BLOCK_HEADER_BYTES, Block};
use super::error::Error;
use super::record::{Records, Stored};
use super::store::Transaction;
use bytes::Bytes;
use change::{Change, ObjectChange, TableDefinition};
use std::collections::HashSet;
use std::sync::Arc;
use trail::storage::{File, Storage};

/// Reads a spill file block by block.
pub(super) struct SpilledBlocks {
    storage: Arc<dyn Storage>,
    name: String,
    file: Box<dyn File>,
    transaction: u32,
    offset: u64,
    place: u32,
    blocks: u32,
}

impl SpilledBlocks {
    pub(super) fn open(
        storage: &Arc<dyn Storage>,
        name: String,
        transaction: u32,
        blocks: u32,
    ) -> Result<SpilledBlocks, Error> {
        let file = storage.open_read(&name).map_err(|error| Error::io("open", &**storage, &name, error))?;
        Ok(SpilledBlocks { storage: Arc::clone(storage), name, file, transaction, offset: 0, place: 0, blocks })
    }

    /// The next block, checked.
    pub(super) fn next(&mut self) -> Result<Option<Vec<u8>>, Error> {
        if self.place == self.blocks {
            return Ok(None);
        }
        let mut header = [0; BLOCK_HEADER_BYTES];
        self.fill(&mut header, 0)?;
        // A damaged length must not make us ask for memory that the file can't fill.
        let length = self.file.len().map_err(|error| Error::io("read", &*self.storage, &self.name, error))?;
        let records = block::length(&header);
        let end = self.offset + (BLOCK_HEADER_BYTES + records) as u64;
        if end > length {
            return Err(self.damaged("a block is cut"));
        }
        let mut bytes = vec![0; BLOCK_HEADER_BYTES + records];
        self.fill(&mut bytes, 0)?;
        if let Some(reason) = block::check(&bytes, self.transaction, self.place) {
            return Err(self.damaged(reason));
        }
        self.offset = end;
        self.place += 1;
        Ok(Some(bytes))
    }

    fn fill(&self, bytes: &mut [u8], from: usize) -> Result<(), Error> {
        let read = self.file.read_at(bytes, self.offset + from as u64);
        let read = read.map_err(|error| Error::io("read", &*self.storage, &self.name, error))?;
        if read < bytes.len() { Err(self.damaged("a block is cut")) } else { Ok(()) }
    }

    fn damaged(&self, reason: &'static str) -> Error {
        Error::damaged(&*self.storage, &self.name, self.offset, reason)
    }
}

/// Something that a committed transaction did.
#[derive(Debug, PartialEq)]
pub enum Done {
    /// It changed a row.
    Change(Change),
    /// It did something to an object of the database.
    Object(Box<ObjectChange>),
}

/// A committed transaction, handed out change by change. One block of it is in memory beyond what was there at its commit.
///
/// Dropping it removes its spill file.
pub struct CommittedTransaction {
    storage: Arc<dyn Storage>,
    file: Option<String>,
    spilled: Option<SpilledBlocks>,
    blocks: std::vec::IntoIter<Block>,
    current: Records,
    tables: Vec<Arc<TableDefinition>>,
    aborted: HashSet<u32>,
}

impl CommittedTransaction {
    pub(super) fn empty(storage: Arc<dyn Storage>) -> CommittedTransaction {
        CommittedTransaction {
            storage,
            file: None,
            spilled: None,
            blocks: Vec::new().into_iter(),
            current: Records::new(Bytes::new(), 0),
            tables: Vec::new(),
            aborted: HashSet::new(),
        }
    }

    pub(super) fn new(
        storage: Arc<dyn Storage>,
        file: Option<String>,
        open: Transaction,
    ) -> Result<CommittedTransaction, Error> {
        let mut committed = CommittedTransaction::empty(Arc::clone(&storage));
        committed.file.clone_from(&file);
        if let Some(file) = file {
            committed.spilled = Some(SpilledBlocks::open(&storage, file, open.number, open.spilled.blocks)?);
        }
        committed.blocks = open.blocks.into_iter();
        committed.tables = open.tables;
        committed.aborted = open.aborted;
        Ok(committed)
    }

    /// The next thing that it did, in order, or `None` when all were handed out.
    ///
    /// # Errors
    /// [`Error::Damaged`] when the spill file does not hold what was written into it; [`Error::Io`].
    #[expect(clippy::should_implement_trait, reason = "reading can fail")]
    pub fn next(&mut self) -> Result<Option<Done>, Error> {
        loop {
            let aborted = &self.aborted;
            let stored = self.current.next(|part| aborted.is_empty() || !aborted.contains(&part));
            let stored = stored.map_err(|reason| self.damaged(reason))?;
            match stored {
                Some(Stored::Change { table, operation, address }) => {
                    let table = self.tables.get(table as usize).map(Arc::clone);
                    let table = table.ok_or_else(|| self.damaged("a change is of an unknown table"))?;
                    return Ok(Some(Done::Change(Change { table, operation, address })));
                }
                Some(Stored::Object(object)) => return Ok(Some(Done::Object(object))),
                None => {}
            }
            let Some(block) = self.next_block()? else { return Ok(None) };
            self.current = Records::new(Bytes::from(block), BLOCK_HEADER_BYTES);
        }
    }

    fn next_block(&mut self) -> Result<Option<Vec<u8>>, Error> {
        if let Some(spilled) = &mut self.spilled
            && let Some(block) = spilled.next()?
        {
            return Ok(Some(block));
        }
        self.spilled = None;
        Ok(self.blocks.next().map(Block::into_bytes))
    }

    fn damaged(&self, reason: &'static str) -> Error {
        let file = self.file.as_deref().unwrap_or("a block in memory");
        let offset = self.spilled.as_ref().map_or(0, |spilled| spilled.offset) + self.current.at() as u64;
        Error::damaged(&*self.storage, file, offset, reason)
    }
}

impl Drop for CommittedTransaction {
    fn drop(&mut self) {
        if let Some(file) = &self.file {
            // A file that can't be removed now is removed at the next start.
            let _ = self.storage.remove(file);
        }
    }
}
