//! Going on where a trail ends: in a new file, or in the last one.

use super::definitions::Definitions;
use super::file::{OpenFile, file_header, key_error, marker, put_marker, write_error};
use super::{WriterOptions, header};
use crate::cover::{Cover, Coverer};
use crate::format::header::FileHeader;
use crate::format::layout::{Layout, RecoveryMode};
use crate::reader::known_in;
use crate::recovery::{LastFile, Recovered};
use crate::storage::Storage;
use crate::{Error, Position};
use change::Timestamp;
use std::io;

impl OpenFile {
    /// The file that is written next, with a marker in it where the trail asks for one. All of it is synced.
    pub(super) fn go_on(
        storage: &dyn Storage,
        options: &WriterOptions,
        layout: Layout,
        recovered: &Recovered,
    ) -> Result<OpenFile, Error> {
        let is_overwritten = options.format.recovery() == RecoveryMode::Overwrite;
        let marker = if is_overwritten { None } else { marker(recovered) };
        let Some((last, end)) = recovered.last.as_ref().zip(recovered.end) else {
            return OpenFile::create(storage, options, layout, recovered.next_sequence(), marker);
        };
        let new = file_header(storage, options, layout, end.sequence);
        let is_alike = match options.trail.is_single() {
            true => is_same_file(last, &new, layout, &options.cover),
            false => is_alike(last, &new, layout),
        };
        // A key belongs to the process that made it, and only that process knows which numbers it has used.
        let is_encrypted = options.cover.encryption.is_some() || last.header.key.is_some();
        let is_compressed = options.cover.is_compressed && !options.trail.is_single();
        let goes_on = is_alike
            && !is_encrypted
            && !is_compressed
            && (last.span.is_none() || is_overwritten || options.trail.is_single());
        if !goes_on && options.trail.is_single() {
            let reason = match is_encrypted {
                true => "an encrypted file is never appended to again",
                false => "the file exists and was written in another form, by another group or from another database",
            };
            let reason = reason.to_owned();
            return Err(Error::Format { trail: options.trail.to_string(), reason });
        }
        match goes_on {
            true => OpenFile::reopen(storage, options, layout, last, end, marker),
            false => OpenFile::create(storage, options, layout, recovered.next_sequence(), marker),
        }
    }

    /// Opens the file that ends at `end` to be appended to, and appends `first`.
    fn reopen(
        storage: &dyn Storage,
        options: &WriterOptions,
        layout: Layout,
        last: &LastFile,
        end: Position,
        marker: Option<u8>,
    ) -> Result<OpenFile, Error> {
        let name = options.trail.file(end.sequence);
        let known = known_in(storage, options.trail, end)?;
        let mut definitions = Definitions::default();
        known.definitions.iter().for_each(|table| definitions.add(table));
        for (definition, partition) in &known.partitions {
            definitions.add_partition(*definition, partition);
        }
        let mut record = known.header;
        let (coverer, _) = Coverer::new(&options.cover).map_err(|source| key_error(&name, source))?;
        let mut first = Vec::new();
        if let Some(operation) = marker {
            // No key lies over a file that goes on.
            put_marker(&mut first, layout.order, operation, (options.clock)(), None)
                .map_err(|source| key_error(&name, source))?;
        }
        let mut make = || {
            let file = storage.open(&name)?;
            // What the header says of a whole file must be gone before the file grows.
            header::reopen(&mut record, layout.order).map_err(io::Error::other)?;
            file.write_at(&record, 0)?;
            file.sync()?;
            file.write_at(&first, end.rba)?;
            file.sync()?;
            Ok(file)
        };
        let file = make().map_err(|source| write_error(storage, &name, end.rba, source))?;
        Ok(OpenFile {
            name,
            sequence: end.sequence,
            file,
            flushed: end.rba + first.len() as u64,
            header: record,
            span: last.span.clone(),
            definitions,
            coverer,
        })
    }
}

/// Whether what a single file holds and what would come behind it are of one kind. Machine and program may have changed: a
/// single file has to outlive an upgrade, and its header tells who began it.
fn is_same_file(last: &LastFile, new: &FileHeader, layout: Layout, cover: &Cover) -> bool {
    let kind = |header: &FileHeader| {
        let source = (header.source.product.clone(), header.source.name.clone(), header.source.unique_name.clone());
        (header.level, header.has_definitions, header.recovery, header.producer.group.clone(), source)
    };
    // The header of a file that begins without compression promises that there is none.
    let form = if cover.is_plain() { header::FORM } else { header::FORM_COVERED };
    last.order == layout.order && kind(&last.header) == kind(new) && last.header.form >= Some(form)
}

/// Whether the last file looks as a new one would: then no reader can tell that there is none.
fn is_alike(last: &LastFile, new: &FileHeader, layout: Layout) -> bool {
    let plain = |header: &FileHeader| FileHeader { created: Timestamp::default(), completion: None, ..header.clone() };
    last.order == layout.order && plain(&last.header) == plain(new)
}
