//! Persisted objects: one open transaction in a file; see `docs/formats/bounded-recovery.md`.

pub(crate) use super::manifest::Object;

use super::bytes::{Fields, put_bytes, put_number, put_optional_number, put_optional_text, put_text};
use crate::open::{BLOCK_HEADER_BYTES, Error, RestoredTransaction, Store, Transaction, check_block};
use change::{LogPosition, Timestamp, TransactionId};
use std::sync::Arc;
use trail::format::bytes::Order;
use trail::format::metadata::{read_table_body, table_body};
use trail::storage::{File, Storage};

const MAGIC: &[u8; 4] = b"DVBO";
const VERSION: u32 = 1;

/// Length and checksum of a file that was written.
pub(crate) struct Written {
    pub(crate) bytes: u64,
    pub(crate) checksum: u32,
}

/// Writes a transaction into a new file, durably but for the file's name.
pub(crate) fn write(
    storage: &dyn Storage,
    file: &str,
    transaction: &TransactionId,
    store: &mut Store,
) -> Result<Option<Written>, Error> {
    let Some(open) = store.transaction(transaction) else { return Ok(None) };
    let mut head = MAGIC.to_vec();
    head.extend_from_slice(&VERSION.to_le_bytes());
    put_bytes(&mut head, &descriptor(transaction, open));
    let mut output = Output {
        storage,
        name: file,
        file: storage.create(file).map_err(|error| Error::io("create", storage, file, error))?,
        bytes: 0,
        checksum: crc32fast::Hasher::new(),
    };
    output.put(&head)?;
    store.blocks(transaction, |block| output.put(block))?;
    output.file.sync().map_err(|error| Error::io("sync", storage, file, error))?;
    Ok(Some(Written { bytes: output.bytes, checksum: output.checksum.finalize() }))
}

struct Output<'a> {
    storage: &'a dyn Storage,
    name: &'a str,
    file: Box<dyn File>,
    bytes: u64,
    checksum: crc32fast::Hasher,
}

impl Output<'_> {
    fn put(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let written = self.file.write_at(bytes, self.bytes);
        written.map_err(|error| Error::io("write", self.storage, self.name, error))?;
        self.bytes += bytes.len() as u64;
        self.checksum.update(bytes);
        Ok(())
    }
}

fn descriptor(transaction: &TransactionId, open: &Transaction) -> Vec<u8> {
    let mut bytes = Vec::new();
    put_text(&mut bytes, transaction.as_str());
    put_text(&mut bytes, open.start.as_str());
    put_optional_number(&mut bytes, open.started.map(|started| started.unix_micros.cast_unsigned()));
    put_optional_text(&mut bytes, open.prepared.as_deref());
    put_optional_number(&mut bytes, open.highest_part.map(u64::from));
    put_number(&mut bytes, open.records);
    put_number(&mut bytes, u64::from(open.number));
    put_number(&mut bytes, u64::from(open.spilled.blocks) + open.blocks.len() as u64);
    put_number(&mut bytes, open.tables.len() as u64);
    for table in &open.tables {
        put_bytes(&mut bytes, &table_body(table, Order::Little));
    }
    let mut aborted: Vec<u32> = open.aborted.iter().copied().collect();
    aborted.sort_unstable();
    put_number(&mut bytes, aborted.len() as u64);
    for part in aborted {
        bytes.extend_from_slice(&part.to_le_bytes());
    }
    bytes
}

/// Puts the transaction of a file back into the store.
///
/// # Errors
/// Why the file can't be used: [`Error::Damaged`], [`Error::Io`].
pub(crate) fn restore(storage: &dyn Storage, object: &Object, store: &mut Store) -> Result<(), Error> {
    let name = &object.file;
    let damaged = |offset: u64, reason| Error::damaged(storage, name, offset, reason);
    let file = storage.open_read(name).map_err(|error| Error::io("open", storage, name, error))?;
    if file.len().map_err(|error| Error::io("read", storage, name, error))? != object.bytes {
        return Err(damaged(0, "its length is not the one that was written"));
    }
    let mut input = Input { storage, name, file, offset: 0, bytes: object.bytes, checksum: crc32fast::Hasher::new() };
    let head = input.take(12)?;
    let mut fields = Fields(&head);
    let is_ours = fields.take(4) == Ok(MAGIC) && fields.short() == Ok(VERSION);
    if !is_ours {
        return Err(damaged(0, "it is of another kind or version"));
    }
    let length = fields.short().map_err(|reason| damaged(8, reason))?;
    let descriptor = input.take(u64::from(length))?;
    let (transaction, restored, number, blocks) = read_descriptor(&descriptor).map_err(|reason| damaged(12, reason))?;
    if transaction != object.transaction {
        return Err(damaged(12, "it holds another transaction"));
    }
    store.restore(&transaction, restored);
    for place in 0..blocks {
        let offset = input.offset;
        let mut block = input.take(BLOCK_HEADER_BYTES as u64)?;
        let length = Fields(&block).short().map_err(|reason| damaged(offset, reason))?;
        block.extend_from_slice(&input.take(u64::from(length))?);
        if let Some(reason) = check_block(&block, number, place) {
            return Err(damaged(offset, reason));
        }
        store.restore_block(&transaction, block)?;
    }
    if input.offset != object.bytes || input.checksum.finalize() != object.checksum {
        return Err(damaged(0, "its checksum is wrong"));
    }
    Ok(())
}

struct Input<'a> {
    storage: &'a dyn Storage,
    name: &'a str,
    file: Box<dyn File>,
    offset: u64,
    bytes: u64,
    checksum: crc32fast::Hasher,
}

impl Input<'_> {
    fn take(&mut self, length: u64) -> Result<Vec<u8>, Error> {
        let cut = || Error::damaged(self.storage, self.name, self.offset, super::bytes::CUT);
        // A damaged length must not make us ask for memory that the file can't fill.
        if length > self.bytes - self.offset {
            return Err(cut());
        }
        let mut bytes = vec![0; length as usize];
        let read = self.file.read_at(&mut bytes, self.offset);
        let read = read.map_err(|error| Error::io("read", self.storage, self.name, error))?;
        if read < bytes.len() {
            return Err(cut());
        }
        self.offset += length;
        self.checksum.update(&bytes);
        Ok(bytes)
    }
}

type Descriptor = (TransactionId, RestoredTransaction, u32, u32);

fn read_descriptor(bytes: &[u8]) -> Result<Descriptor, &'static str> {
    const LARGE: &str = "a number in it is too large";
    let mut fields = Fields(bytes);
    let transaction = TransactionId::new(fields.text()?);
    let start = LogPosition::new(fields.text()?);
    let started = fields.optional_number()?.map(|micros| Timestamp::from_unix_micros(micros.cast_signed()));
    let prepared = fields.optional_text()?.map(str::to_owned);
    let highest_part = fields.optional_number()?.map(u32::try_from).transpose().map_err(|_| LARGE)?;
    let records = fields.number()?;
    let number = u32::try_from(fields.number()?).map_err(|_| LARGE)?;
    let blocks = u32::try_from(fields.number()?).map_err(|_| LARGE)?;
    let mut tables = Vec::new();
    for _ in 0..fields.number()? {
        let table = read_table_body(fields.bytes()?, Order::Little).map_err(|_| "a table's shape can't be read")?;
        tables.push(Arc::new(table));
    }
    let parts = fields.number()?;
    let aborted = (0..parts).map(|_| fields.short()).collect::<Result<_, _>>()?;
    let restored = RestoredTransaction { start, started, prepared, tables, aborted, highest_part, records };
    Ok((transaction, restored, number, blocks))
}
