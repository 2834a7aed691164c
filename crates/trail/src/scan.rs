//! Walking over the records of one file, in both directions.

use crate::cipher::{KeyError, WrappedKey};
use crate::cover::Stuck;
use crate::format::bytes::{Order, from_julian_micros};
use crate::format::header::{self, FileHeader, Span};
use crate::format::record::{self, RECORD_BYTES_MAX, RecordView, operation, transaction};
use crate::format::token::PREFIX_BYTES;
use crate::storage::{File, Storage};
use crate::{Damage, Error};
use bytes::Bytes;
use change::{Commit, Csn, TransactionId};
use std::io;
use std::ops::Range;

/// Bytes read at once. Rows are slices of such blocks, so this is also what one row that is kept keeps alive: a Replicat that
/// gathers a thousand rows of a table that is seldom changed must not need a gigabyte.
pub(crate) const BLOCK_BYTES: usize = 64 * 1024;

/// What can be wrong with a file while it is walked.
#[derive(Debug)]
pub(crate) enum Trouble {
    Io(io::Error),
    Damage(Damage),
    Foreign(String),
    /// The table by this name has no definition.
    Undefined(String),
    /// The data of a record can't be decrypted.
    Key(Option<WrappedKey>, KeyError),
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Trouble {
        Trouble::Io(error)
    }
}

impl From<Stuck> for Trouble {
    fn from(stuck: Stuck) -> Trouble {
        match stuck {
            Stuck::Damage(damage) => Trouble::Damage(damage),
            Stuck::Key(wrapped, error) => Trouble::Key(wrapped, error),
        }
    }
}

impl From<Damage> for Trouble {
    fn from(damage: Damage) -> Trouble {
        Trouble::Damage(damage)
    }
}

impl Trouble {
    /// The error of this trouble with record `rba` of file `name`.
    pub(crate) fn at(self, storage: &dyn Storage, name: &str, rba: u64) -> Error {
        match self {
            Trouble::Io(source) => Error::io("read", storage, name, source),
            Trouble::Damage(source) => Error::Damaged { file: name.to_owned(), rba, source },
            Trouble::Foreign(reason) => Error::Foreign { file: name.to_owned(), reason },
            Trouble::Key(wrapped, source) => {
                let key = wrapped.map_or("?".to_owned(), |key| format!("{} version {}", key.name, key.version));
                Error::Key { file: name.to_owned(), key, source }
            }
            Trouble::Undefined(table) => Error::Undefined { file: name.to_owned(), table },
        }
    }
}

/// A file that is read from its start to its end in large blocks.
pub(crate) struct Forward {
    file: Box<dyn File>,
    order: Order,
    block: Bytes,
    /// Start of the next record in the block.
    next: usize,
    /// Byte of the file at which the next record starts.
    rba: u64,
    block_bytes: usize,
}

impl Forward {
    /// Starts at the first byte. The byte order is taken from the first record, which must end before byte `limit`.
    pub(crate) fn open(file: Box<dyn File>, limit: u64) -> Result<Forward, Trouble> {
        let mut start = vec![0; usize::try_from(limit).unwrap_or(usize::MAX).min(RECORD_BYTES_MAX)];
        let length = file.read_at(&mut start, 0)?;
        start.truncate(length);
        let order = record::detect_order(&start)?;
        Ok(Forward { file, order, block: Bytes::from(start), next: 0, rba: 0, block_bytes: BLOCK_BYTES })
    }

    /// Reads so many bytes at once from now on, for a reader that keeps no rows.
    pub(crate) fn with_blocks(self, block_bytes: usize) -> Forward {
        Forward { block_bytes, ..self }
    }

    pub(crate) fn order(&self) -> Order {
        self.order
    }

    /// Where the next record starts.
    pub(crate) fn rba(&self) -> u64 {
        self.rba
    }

    /// The block that ranges of [`next`](Forward::next) belong to.
    pub(crate) fn block(&self) -> &Bytes {
        &self.block
    }

    pub(crate) fn length(&self) -> io::Result<u64> {
        self.file.len()
    }

    /// The next record's place in the block, or `None` when byte `limit` is reached. A record over the limit is damage.
    #[inline]
    pub(crate) fn next(&mut self, limit: u64) -> Result<Option<Range<usize>>, Trouble> {
        if self.rba >= limit {
            return Ok(None);
        }
        self.fill(PREFIX_BYTES, limit)?;
        let prefix = self.block[self.next..].first_chunk().copied().unwrap_or_default();
        let length = record::claimed_length(prefix, self.order)?;
        self.fill(length, limit)?;
        record::frame(&self.block[self.next..], self.order)?;
        let place = self.next..self.next + length;
        self.next += length;
        self.rba += length as u64;
        Ok(Some(place))
    }

    /// Makes sure that `needed` bytes of the next record are in the block, none of them behind `limit`.
    #[inline]
    fn fill(&mut self, needed: usize, limit: u64) -> Result<(), Trouble> {
        let left = limit - self.rba;
        if needed as u64 > left {
            return Err(Damage::Short { what: "record", needed: needed as u64, left }.into());
        }
        if self.block.len() - self.next >= needed {
            return Ok(());
        }
        self.refill(needed, left)
    }

    #[cold]
    fn refill(&mut self, needed: usize, left: u64) -> Result<(), Trouble> {
        let length = usize::try_from(left).unwrap_or(usize::MAX).min(self.block_bytes.max(needed));
        let mut block = vec![0; length];
        let read = self.file.read_at(&mut block, self.rba)?;
        if read < needed {
            return Err(Damage::Short { what: "record", needed: needed as u64, left: read as u64 }.into());
        }
        block.truncate(read);
        self.block = Bytes::from(block);
        self.next = 0;
        Ok(())
    }

    /// Reads the header record, which must be ours.
    pub(crate) fn header(&mut self, sequence: u32, limit: u64) -> Result<(FileHeader, Range<usize>), Trouble> {
        let place = self.next(limit)?.ok_or(Damage::Short { what: "file header", needed: 8, left: 0 })?;
        let header = FileHeader::read(&self.block[place.clone()], self.order)?;
        match header.form {
            _ if header.level > header::LEVEL => {
                let newest = header::LEVEL;
                Err(Trouble::Foreign(format!(
                    "its compatibility level is {}, the highest known is {newest}",
                    header.level
                )))
            }
            None => Err(Trouble::Foreign("another product wrote it".to_owned())),
            Some(form) if form > header::FORM_PLACED => {
                Err(Trouble::Foreign(format!("it is in form {form}, the highest known is {}", header::FORM_PLACED)))
            }
            Some(_) if header.sequence != sequence => Err(Damage::Content("the file has another number inside").into()),
            Some(_) => Ok((header, place)),
        }
    }

    /// Reads the header record again, wherever reading stands: it changes when the file is completed.
    pub(crate) fn reread_header(&self) -> Result<FileHeader, Trouble> {
        Ok(FileHeader::read(&self.header_record()?, self.order)?)
    }

    /// The bytes of the header record, wherever reading stands.
    pub(crate) fn header_record(&self) -> Result<Vec<u8>, Trouble> {
        let mut start = vec![0; RECORD_BYTES_MAX];
        let length = self.file.read_at(&mut start, 0)?;
        let length = record::frame(&start[..length], self.order)?.len();
        start.truncate(length);
        Ok(start)
    }
}

/// A file that is read from some place back to its start.
pub(crate) struct Backward {
    file: Box<dyn File>,
    order: Order,
    block: Vec<u8>,
    /// Byte of the file at which the block starts.
    start: u64,
    /// End of the record that comes next; a byte of the file.
    end: u64,
}

impl Backward {
    /// Starts with the record that ends at byte `end`.
    pub(crate) fn open(file: Box<dyn File>, order: Order, end: u64) -> Backward {
        Backward { file, order, block: Vec::new(), start: end, end }
    }

    pub(crate) fn order(&self) -> Order {
        self.order
    }

    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// The record before, or `None` at the start of the file.
    pub(crate) fn previous(&mut self) -> Result<Option<&[u8]>, Trouble> {
        if self.end == 0 {
            return Ok(None);
        }
        self.fill(PREFIX_BYTES)?;
        let inner = (self.end - self.start) as usize;
        let trailer: [u8; PREFIX_BYTES] = self.block[..inner].last_chunk().copied().ok_or(Damage::Frame)?;
        let length = usize::from(self.order.u16([trailer[2], trailer[3]]));
        if length < 2 * PREFIX_BYTES {
            return Err(Damage::Frame.into());
        }
        self.fill(length)?;
        let inner = (self.end - self.start) as usize;
        let record = record::frame(&self.block[inner - length..inner], self.order)?;
        if record.len() != length {
            return Err(Damage::Frame.into());
        }
        self.end -= length as u64;
        Ok(Some(record))
    }

    /// Makes sure that the `needed` bytes before `end` are in the block.
    fn fill(&mut self, needed: usize) -> Result<(), Trouble> {
        if self.end - self.start >= needed as u64 {
            return Ok(());
        }
        if (needed as u64) > self.end {
            return Err(Damage::Short { what: "record", needed: needed as u64, left: self.end }.into());
        }
        let length = usize::try_from(self.end).unwrap_or(usize::MAX).min(BLOCK_BYTES.max(needed));
        self.block.resize(length, 0);
        self.start = self.end - length as u64;
        let read = self.file.read_at(&mut self.block, self.start)?;
        if read < length {
            return Err(Damage::Short { what: "record", needed: length as u64, left: read as u64 }.into());
        }
        Ok(())
    }
}

/// What a record means for the question which transactions a trail holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Bearing {
    /// Nothing: a definition.
    None,
    /// Any transaction that was open is void.
    Marker,
    /// A change, or a part of one, and whether its transaction ends with it.
    Change { commit: Commit, ends: bool },
}

/// The bearing of a record, after comparing its checksum.
pub(crate) fn bearing(record: &[u8], order: Order) -> Result<Bearing, Damage> {
    let view = RecordView::read(record, order)?;
    view.verify()?;
    if matches!(view.header.operation, operation::RESTART_ABEND | operation::RESTART_OK) {
        return Ok(Bearing::Marker);
    }
    let (Some(csn), Some(transaction_id)) = (view.csn, view.transaction_id) else { return Ok(Bearing::None) };
    let text = |bytes| std::str::from_utf8(bytes).map_err(|_| Damage::Content("a transaction's name is not UTF-8"));
    let commit = Commit {
        csn: Csn::new(text(csn)?),
        transaction: TransactionId::new(text(transaction_id)?),
        time: from_julian_micros(view.header.time),
    };
    let (_, ends) = place(view.header.transaction)?;
    Ok(Bearing::Change { commit, ends })
}

/// Whether a transaction starts and whether it ends with a record of this TransInd.
pub(crate) fn place(indicator: u8) -> Result<(bool, bool), Damage> {
    match indicator {
        transaction::FIRST => Ok((true, false)),
        transaction::MIDDLE => Ok((false, false)),
        transaction::LAST => Ok((false, true)),
        transaction::ONLY => Ok((true, true)),
        _ => Err(Damage::Content("the place in the transaction is none of the four")),
    }
}

/// Adds a change to the first and last transaction of a file.
pub(crate) fn extend_span(span: &mut Option<Span>, commit: &Commit) {
    match span {
        Some(span) => {
            span.last_csn = commit.csn.clone();
            span.last_time = commit.time;
        }
        None => {
            *span = Some(Span {
                first_csn: commit.csn.clone(),
                last_csn: commit.csn.clone(),
                first_time: commit.time,
                last_time: commit.time,
            });
        }
    }
}
