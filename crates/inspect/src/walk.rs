//! Walking over the records of a file in both directions, over damage as well.

use std::io;
use trail::Damage;
use trail::format::bytes::Order;
use trail::format::header;
use trail::format::record::{self, RECORD_BYTES_MAX, RecordView};
use trail::format::token::{self, PREFIX_BYTES};
use trail::storage::File;

/// Bytes read at once: large enough that a system call costs nothing per record, small enough to stay in the processor's cache.
const BLOCK_BYTES: usize = 512 * 1024;

/// Why there is no record at a place.
#[derive(Debug)]
pub enum Trouble {
    /// The operating system refused.
    Io(io::Error),
    /// The bytes are those of no record.
    Damage(Damage),
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Trouble {
        Trouble::Io(error)
    }
}

impl From<Damage> for Trouble {
    fn from(damage: Damage) -> Trouble {
        Trouble::Damage(damage)
    }
}

/// A file that is walked from any place in any direction, whoever wrote it.
pub struct Walker {
    file: Box<dyn File>,
    length: u64,
    order: Order,
    block: Vec<u8>,
    /// Byte of the file at which the block starts.
    start: u64,
}

impl Walker {
    /// Opens a file. Its byte order is that of its first record; where that is damaged, that of the first record that is not.
    ///
    /// # Errors
    /// When it can't be read.
    pub fn open(file: Box<dyn File>) -> io::Result<Walker> {
        let length = file.len()?;
        let mut walker = Walker { file, length, order: Order::Little, block: Vec::new(), start: 0 };
        walker.read_block(0, RECORD_BYTES_MAX)?;
        match record::detect_order(&walker.block) {
            Ok(order) => walker.order = order,
            Err(_) => {
                let found = |walker: &mut Walker, order: Order| -> io::Result<Option<u64>> {
                    walker.order = order;
                    walker.first_from(0, &mut |_| false)
                };
                let (little, big) = (found(&mut walker, Order::Little)?, found(&mut walker, Order::Big)?);
                let is_little = big.is_none_or(|big| little.is_some_and(|little| little <= big));
                walker.order = if is_little { Order::Little } else { Order::Big };
            }
        }
        Ok(walker)
    }

    /// Order of the bytes of lengths and header numbers.
    pub fn order(&self) -> Order {
        self.order
    }

    /// Bytes of the file, when it was last asked for.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Asks how long the file is now.
    ///
    /// # Errors
    /// When the operating system does not say.
    pub fn refresh(&mut self) -> io::Result<u64> {
        let length = self.file.len()?;
        if length != self.length {
            // What is in the block may have been cut off or written anew.
            self.block.clear();
            self.length = length;
        }
        Ok(length)
    }

    /// The record at byte `rba`.
    ///
    /// # Errors
    /// [`Trouble`]: no whole record stands there.
    #[inline]
    pub fn record(&mut self, rba: u64) -> Result<&[u8], Trouble> {
        let have = self.bytes_at(rba, PREFIX_BYTES)?;
        let prefix = have.first_chunk().copied().ok_or(Damage::Short {
            what: "record",
            needed: PREFIX_BYTES as u64,
            left: have.len() as u64,
        })?;
        let length = record::claimed_length(prefix, self.order)?;
        let order = self.order;
        Ok(record::frame(self.bytes_at(rba, length)?, order)?)
    }

    /// Where the record starts that ends at byte `end`; `None` at the start of the file.
    ///
    /// # Errors
    /// [`Trouble`]: no whole record ends there.
    pub fn before(&mut self, end: u64) -> Result<Option<u64>, Trouble> {
        if end == 0 {
            return Ok(None);
        }
        let trailer_at = end.checked_sub(PREFIX_BYTES as u64).ok_or(Damage::Frame)?;
        let order = self.order;
        if trailer_at < self.start || end > self.start + self.block.len() as u64 {
            let start = end.saturating_sub(BLOCK_BYTES as u64);
            self.read_block(start, BLOCK_BYTES)?;
        }
        let trailer = self.bytes_at(trailer_at, PREFIX_BYTES)?;
        let Some([token::TRAILER, _, first, second]) = trailer.first_chunk() else { return Err(Damage::Frame.into()) };
        let start = end.checked_sub(u64::from(order.u16([*first, *second]))).ok_or(Damage::Frame)?;
        let length = self.record(start)?.len() as u64;
        if length == end - start { Ok(Some(start)) } else { Err(Damage::Frame.into()) }
    }

    /// The first byte from `from` on at which a whole record stands. `stop` is asked now and then, with the byte that was
    /// reached.
    ///
    /// # Errors
    /// When the file can't be read.
    pub fn first_from(&mut self, from: u64, stop: &mut dyn FnMut(u64) -> bool) -> io::Result<Option<u64>> {
        let mut at = from;
        while at < self.length {
            if stop(at) {
                return Ok(None);
            }
            self.read_block(at, BLOCK_BYTES)?;
            if self.block.is_empty() {
                break;
            }
            let block = std::mem::take(&mut self.block);
            // What starts near the end of the block may end behind it, and is looked at in the next one.
            let is_last = self.start + block.len() as u64 >= self.length;
            let safe = if is_last { block.len() } else { block.len().saturating_sub(RECORD_BYTES_MAX) };
            let found = memchr::memchr2_iter(token::RECORD, token::FILE_HEADER, &block[..safe])
                .find(|place| is_record(&block[*place..], self.order));
            self.block = block;
            match found {
                Some(place) => return Ok(Some(at + place as u64)),
                None => at += safe.max(1) as u64,
            }
        }
        Ok(None)
    }

    /// The last byte before `from` at which a whole record stands. `stop` is asked now and then, with the byte that was reached.
    ///
    /// # Errors
    /// When the file can't be read.
    pub fn last_before(&mut self, from: u64, stop: &mut dyn FnMut(u64) -> bool) -> io::Result<Option<u64>> {
        let mut end = from.min(self.length);
        while end > 0 {
            if stop(end) {
                return Ok(None);
            }
            let start = end.saturating_sub(BLOCK_BYTES as u64);
            // Records that start before `end` and end behind it.
            self.read_block(start, (end - start) as usize + RECORD_BYTES_MAX)?;
            let block = std::mem::take(&mut self.block);
            let head = block.len().min((end - start) as usize);
            let found = memchr::memrchr2_iter(token::RECORD, token::FILE_HEADER, &block[..head])
                .find(|place| is_record(&block[*place..], self.order));
            self.block = block;
            if let Some(place) = found {
                return Ok(Some(start + place as u64));
            }
            end = start;
        }
        Ok(None)
    }

    /// At most `count` bytes from byte `at` on.
    ///
    /// # Errors
    /// When the file can't be read.
    pub fn bytes(&mut self, at: u64, count: usize) -> io::Result<&[u8]> {
        let have = self.bytes_at(at, count)?;
        Ok(have.get(..count).unwrap_or(have))
    }

    /// What the block holds from byte `at` on: at least `needed` bytes, unless the file ends before.
    #[inline]
    fn bytes_at(&mut self, at: u64, needed: usize) -> io::Result<&[u8]> {
        let is_there = at >= self.start && at + needed as u64 <= self.start + self.block.len() as u64;
        if !is_there {
            self.read_block(at, BLOCK_BYTES.max(needed))?;
        }
        Ok(self.block.get((at - self.start) as usize..).unwrap_or_default())
    }

    #[cold]
    fn read_block(&mut self, start: u64, wanted: usize) -> io::Result<()> {
        let length = usize::try_from(self.length.saturating_sub(start)).unwrap_or(usize::MAX).min(wanted);
        // Filled with zeros only where it grows.
        self.block.resize(length, 0);
        self.start = start;
        let read = self.file.read_at(&mut self.block, start)?;
        self.block.truncate(read);
        Ok(())
    }
}

/// Whether a whole record with a readable header starts here: a frame alone is a coincidence in four bytes.
fn is_record(bytes: &[u8], order: Order) -> bool {
    let Ok(frame) = record::frame(bytes, order) else { return false };
    match frame.first() {
        Some(&token::FILE_HEADER) => header::walk(frame, order, |_, _, _| Ok(())).is_ok(),
        _ => RecordView::read(frame, order).is_ok(),
    }
}
