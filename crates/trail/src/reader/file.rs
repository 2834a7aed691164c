//! Reading one file by itself, from its start to its end.

use super::decode::{Decoder, GivenDefinitions};
use super::{Assembly, Entry, OpenFile, Record};
use crate::cipher::MasterKeys;
use crate::cover::Uncoverer;
use crate::format::bytes::Order;
use crate::format::record::{RecordView, operation};
use crate::scan::{Forward, Trouble};
use crate::storage::Storage;
use crate::{Error, Position};
use change::TableDefinition;
use std::sync::Arc;

/// Bytes read at once: such a reader keeps few rows, and a large block costs less per byte.
const BLOCK_BYTES: usize = 512 * 1024;

/// One file of a trail, read for people: whatever else there is of the trail, and whether or not it is published.
///
/// # Guarantees
/// - Each record once, and only records whose checksum fits.
/// - Nothing is said of whole transactions: the file may begin or end inside one.
pub struct FileReader {
    storage: Arc<dyn Storage>,
    file: OpenFile,
    limit: u64,
}

impl FileReader {
    /// Opens the file called `name`, of which bytes before `limit` are read, all of them without one. A file without definitions
    /// is read by those that are given, an encrypted one with the keys.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::Damaged`]; [`Error::Foreign`] for a file of another product.
    pub fn open(
        storage: Arc<dyn Storage>,
        name: &str,
        limit: Option<u64>,
        definitions: &[Arc<TableDefinition>],
        keys: Option<Arc<dyn MasterKeys>>,
    ) -> Result<FileReader, Error> {
        let given = Arc::new(GivenDefinitions::new(definitions, keys));
        let open = || -> Result<(Forward, u64, u32), Trouble> {
            let file = storage.open_read(name)?;
            let length = file.len()?;
            let limit = limit.unwrap_or(length).min(length);
            let records = Forward::open(file, limit)?.with_blocks(BLOCK_BYTES);
            let sequence = records.reread_header()?.sequence;
            Ok((records, limit, sequence))
        };
        let (records, limit, sequence) = open().map_err(|trouble| trouble.at(&*storage, name, 0))?;
        let file = OpenFile {
            name: name.to_owned(),
            sequence,
            records,
            decoder: Decoder::new(Arc::clone(&given)),
            assembly: Assembly::default(),
            uncoverer: Uncoverer::new(given.keys.clone()),
            final_length: None,
        };
        Ok(FileReader { storage, file, limit })
    }

    /// The next record, or `None` at the end.
    ///
    /// # Errors
    /// [`Error::Damaged`], [`Error::Foreign`], [`Error::Undefined`], [`Error::Key`], [`Error::Io`].
    #[expect(clippy::should_implement_trait, reason = "an error and the end of the file are different things")]
    pub fn next(&mut self) -> Result<Option<Entry>, Error> {
        self.next_where(&mut |_, _, _| true)
    }

    /// The next record that `wanted` asks for, or `None` at the end. The others are passed over after their checksums were
    /// compared, which is several times faster than decoding them.
    ///
    /// `wanted` sees every record but the file header, as it stands in the file, compressed or encrypted if it is. File headers,
    /// definitions, markers, updates in two records and records in parts are returned whatever it says.
    ///
    /// # Errors
    /// As [`next`](FileReader::next).
    pub fn next_where(
        &mut self,
        wanted: &mut dyn FnMut(&RecordView<'_>, Order, u64) -> bool,
    ) -> Result<Option<Entry>, Error> {
        while self.file.records.rba() < self.limit {
            let rba = self.file.records.rba();
            match self.file.read_where(self.limit, wanted) {
                Ok(None) => {}
                Ok(Some((start, record))) => {
                    let position = Position::new(self.file.sequence, start);
                    let next = Position::new(self.file.sequence, self.file.records.rba());
                    return Ok(Some(Entry { position, next, record }));
                }
                Err(trouble) => return Err(trouble.at(&*self.storage, &self.file.name, rba)),
            }
        }
        Ok(None)
    }

    /// Byte of the file at which reading stands.
    pub fn rba(&self) -> u64 {
        self.file.records.rba()
    }

    /// Byte of the file at which it ends.
    pub fn limit(&self) -> u64 {
        self.limit
    }
}

impl OpenFile {
    /// As [`read`](OpenFile::read), leaving out what `wanted` does not ask for.
    fn read_where(
        &mut self,
        limit: u64,
        wanted: &mut dyn FnMut(&RecordView<'_>, Order, u64) -> bool,
    ) -> Result<Option<(u64, Record)>, Trouble> {
        if self.records.rba() == 0 {
            return self.read(limit);
        }
        let rba = self.records.rba();
        let Some(place) = self.records.next(limit)? else { return Ok(None) };
        let order = self.records.order();
        let view = RecordView::read(&self.records.block()[place.clone()], order)?;
        view.verify()?;
        if !wanted(&view, order, rba) && !self.decides_more(&view) {
            self.decoder.pass_over(&view)?;
            return Ok(None);
        }
        self.interpret(place, limit)
    }

    /// Whether what is read later depends on this record, or its meaning on others.
    #[inline]
    fn decides_more(&self, view: &RecordView<'_>) -> bool {
        let is_half = view.header.before_after == b'B' && view.header.operation != operation::DELETE;
        is_half
            || matches!(
                view.header.operation,
                operation::METADATA | operation::FRAGMENT | operation::RESTART_ABEND | operation::RESTART_OK
            )
            || self.decoder.check_closed().is_err()
            || self.assembly.check_closed().is_err()
    }
}
