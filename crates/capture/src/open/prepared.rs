//! Prepared transactions of a source that tells them once.
//!
//! Such a source tells the changes of a transaction when it is prepared, and at its end only that it has ended. What it told
//! must therefore be durable here before the source hears that it may forget anything behind the preparation. Each
//! prepared transaction lies in a file of its own until a restart can't be told of its end any more:
//!
//! - `E1-XID-BYTES-CHECKSUM.prepared` while it is prepared; it is whole, else it would not have this name.
//! - `E1-XID-BYTES-CHECKSUM-END.ended` once its end was told, with the place behind that. A start before that place needs it, a
//!   start there or later does not.

use super::error::Error;
use super::store::Store;
use crate::bounded::object::{self, Object};
use change::{LogPosition, TransactionId};
use std::io;
use std::sync::Arc;
use trail::storage::Storage;

const PREPARED: &str = ".prepared";
const ENDED: &str = ".ended";
const UNREADY: &str = ".prepared-new";

/// The files of prepared transactions of one Extract.
pub(crate) struct PreparedFiles {
    storage: Arc<dyn Storage>,
    group: String,
    files: Vec<Kept>,
}

struct Kept {
    object: Object,
    /// The place behind its end.
    ended: Option<LogPosition>,
}

impl PreparedFiles {
    /// The files that an earlier run has left; those that a start at `start` can't be told of any more are removed.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub(crate) fn open(storage: Arc<dyn Storage>, group: &str, start: &LogPosition) -> Result<PreparedFiles, Error> {
        let names = storage.list().map_err(|error| Error::io("list", &*storage, "the files", error))?;
        let prefix = format!("{group}-");
        let mut prepared = PreparedFiles { storage, group: group.to_owned(), files: Vec::new() };
        for name in names.iter().filter(|name| name.starts_with(&prefix)) {
            match prepared.read_name(name) {
                Some(kept) => prepared.files.push(kept),
                None if name.ends_with(UNREADY) => prepared.remove(name)?,
                None => {}
            }
        }
        prepared.forget_before(start)?;
        Ok(prepared)
    }

    /// Whether nothing is kept.
    pub(crate) fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Puts what is kept into the store. What starts at a position that the source does not know was told in another life of
    /// it, and is removed.
    ///
    /// # Errors
    /// [`Error::PreparedLost`] for a file that can't be read; [`Error::Full`], [`Error::Io`].
    pub(crate) fn restore(&mut self, store: &mut Store, knows: impl Fn(&LogPosition) -> bool) -> Result<(), Error> {
        for kept in &self.files {
            object::restore(&*self.storage, &kept.object, store).map_err(|error| match error {
                full @ Error::Full { .. } => full,
                error => Error::PreparedLost {
                    transaction: kept.object.transaction.clone(),
                    file: kept.object.file.clone(),
                    place: self.storage.place(),
                    source: Box::new(error),
                },
            })?;
        }
        let is_void = |kept: &Kept| store.transaction(&kept.object.transaction).is_some_and(|open| !knows(&open.start));
        let (void, files): (Vec<Kept>, Vec<Kept>) = std::mem::take(&mut self.files).into_iter().partition(is_void);
        self.files = files;
        for kept in void {
            store.abort(&kept.object.transaction);
            self.remove(&kept.object.file)?;
        }
        Ok(())
    }

    /// Keeps a transaction that is prepared, durably.
    ///
    /// # Errors
    /// [`Error::Full`], [`Error::Io`].
    pub(crate) fn keep(&mut self, transaction: &TransactionId, store: &mut Store) -> Result<(), Error> {
        if change::sabotage::is_on("forget-prepared") {
            return Ok(());
        }
        let storage = Arc::clone(&self.storage);
        let unready = format!("{}-{transaction}{UNREADY}", self.group);
        self.remove(&unready)?;
        let Some(written) = object::write(&*storage, &unready, transaction, store)? else { return Ok(()) };
        let object::Written { bytes, checksum } = written;
        let file = format!("{}-{transaction}-{bytes}-{checksum:08x}{PREPARED}", self.group);
        self.rename(&unready, &file)?;
        // One that an earlier run has left is void: the source has told everything again.
        for stale in self.take(transaction).into_iter().filter(|stale| stale.object.file != file) {
            self.remove(&stale.object.file)?;
        }
        let object = Object { transaction: transaction.clone(), file, bytes, checksum };
        self.files.push(Kept { object, ended: None });
        Ok(())
    }

    /// The transaction has ended, and the log goes on at `next`.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub(crate) fn end(&mut self, transaction: &TransactionId, next: &LogPosition) -> Result<(), Error> {
        for mut kept in self.take(transaction) {
            let Object { bytes, checksum, .. } = &kept.object;
            let place = next.as_str().replace('/', "_");
            let file = format!("{}-{transaction}-{bytes}-{checksum:08x}-{place}{ENDED}", self.group);
            if kept.object.file != file {
                self.rename(&kept.object.file, &file)?;
            }
            kept.object.file = file;
            kept.ended = Some(next.clone());
            self.files.push(kept);
        }
        Ok(())
    }

    /// A restart begins at `position` or later: what ended before is not told again. Returns those transactions.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub(crate) fn forget_before(&mut self, position: &LogPosition) -> Result<Vec<TransactionId>, Error> {
        let is_over = |kept: &Kept| kept.ended.as_ref().is_some_and(|ended| ended <= position);
        if !self.files.iter().any(is_over) {
            return Ok(Vec::new());
        }
        let (over, rest): (Vec<Kept>, Vec<Kept>) = std::mem::take(&mut self.files).into_iter().partition(is_over);
        self.files = rest;
        over.into_iter().map(|kept| self.remove(&kept.object.file).map(|()| kept.object.transaction)).collect()
    }

    fn take(&mut self, transaction: &TransactionId) -> Vec<Kept> {
        let (taken, rest) =
            std::mem::take(&mut self.files).into_iter().partition(|kept| kept.object.transaction == *transaction);
        self.files = rest;
        taken
    }

    fn read_name(&self, name: &str) -> Option<Kept> {
        let (rest, is_ended) = match (name.strip_suffix(PREPARED), name.strip_suffix(ENDED)) {
            (Some(rest), _) => (rest, false),
            (None, rest) => (rest?, true),
        };
        let mut parts = rest.strip_prefix(&self.group)?.strip_prefix('-')?.splitn(4, '-');
        let transaction = TransactionId::new(parts.next()?);
        let bytes = parts.next()?.parse().ok()?;
        let checksum = u32::from_str_radix(parts.next()?, 16).ok()?;
        let ended = parts.next().map(|place| LogPosition::new(place.replace('_', "/")));
        let object = Object { transaction, file: name.to_owned(), bytes, checksum };
        (ended.is_some() == is_ended).then_some(Kept { object, ended })
    }

    /// Gives a file another name, durably.
    fn rename(&self, from: &str, to: &str) -> Result<(), Error> {
        let storage = &*self.storage;
        storage
            .rename(from, to)
            .and_then(|()| storage.sync_directory())
            .map_err(|error| Error::io("rename", storage, from, error))
    }

    fn remove(&self, name: &str) -> Result<(), Error> {
        match self.storage.remove(name) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(Error::io("remove", &*self.storage, name, error))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]

    use super::*;
    use crate::open::StoreOptions;
    use change::{Change, Column, LogicalType, Operation, RecordAddress, Row, TableDefinition, TableName, Value};
    use trail::storage::Forgetful;

    fn store(disk: &Forgetful) -> Store {
        let options = StoreOptions { name: "E1".to_owned(), memory_max: 1 << 20 };
        Store::open(Arc::new(disk.clone()), options).unwrap()
    }

    fn insert(number: u8) -> Change {
        let columns = vec![Column::new("id", LogicalType::Text, "text").with_key(0)];
        Change {
            table: Arc::new(TableDefinition { name: TableName::new("main", "t"), columns: columns.into() }),
            operation: Operation::Insert { new: Row::from_values([Value::Bytes(&[number])]) },
            address: RecordAddress { position: u64::from(number), offset: 0 },
        }
    }

    #[test]
    fn a_prepared_transaction_outlives_power_loss_until_no_restart_can_ask_for_it() {
        let disk = Forgetful::new(7);
        let (seven, eight) = (TransactionId::new("7"), TransactionId::new("8"));
        let position = |number: u32| LogPosition::new(format!("{number:08X}/00000000-1-2"));
        let open = |start| PreparedFiles::open(Arc::new(disk.clone()), "E1", &position(start)).unwrap();
        let mut kept = store(&disk);
        let mut files = open(1);
        for (transaction, number) in [(&seven, 1), (&eight, 2)] {
            kept.start(transaction, position(1), None);
            kept.append(transaction, 0, &insert(number)).unwrap();
            kept.prepare(transaction, "gid").unwrap();
            files.keep(transaction, &mut kept).unwrap();
        }
        // Told again: one file, and it holds what was told last.
        kept.append(&seven, 0, &insert(3)).unwrap();
        files.keep(&seven, &mut kept).unwrap();
        let restored = |start| {
            disk.crash();
            let (mut files, mut kept) = (open(start), store(&disk));
            files.restore(&mut kept, |_| true).unwrap();
            let shown: Vec<_> = kept.list().iter().map(|open| (open.transaction.to_string(), open.records)).collect();
            (files, shown)
        };
        let (mut files, shown) = restored(1);
        assert_eq!(shown, [("7".to_owned(), 2), ("8".to_owned(), 1)]);
        files.end(&seven, &position(20)).unwrap();
        let (_, shown) = restored(19);
        assert_eq!(shown.len(), 2, "its end is told again");
        let (mut files, shown) = restored(20);
        assert_eq!(shown, [("8".to_owned(), 1)]);
        files.end(&eight, &position(30)).unwrap();
        assert!(files.forget_before(&position(29)).unwrap().is_empty());
        assert_eq!(files.forget_before(&position(30)).unwrap(), [eight]);
        let (files, shown) = restored(30);
        assert!(files.is_empty() && shown.is_empty());
    }
}
