//! A file of a trail that is open for looking at.

use crate::definitions::Definitions;
use crate::environment::{CarriedCommit, RecordEnvironment};
use crate::walk::{Trouble, Walker};
use change::TableDefinition;
use std::io;
use std::sync::Arc;
use trail::cipher::MasterKeys;
use trail::format::bytes::Order;
use trail::format::header::FileHeader;
use trail::format::record::{Object, RecordView, operation};
use trail::format::token;
use trail::storage::File;
use trail::{Damage, Stuck, Uncovered, Uncoverer};

/// What an operator gave for reading files.
#[derive(Clone, Default)]
pub struct Given {
    /// Definitions of tables (SOURCEDEFS).
    pub definitions: Vec<Arc<TableDefinition>>,
    /// Master keys (DECRYPT ON).
    pub keys: Option<Arc<dyn MasterKeys>>,
}

/// An open file.
pub struct OpenFile {
    walker: Walker,
    header: Option<FileHeader>,
    definitions: Definitions,
    /// Up to here definitions are known.
    defined_to: u64,
    carried: CarriedCommit,
    /// The record behind the one that the carried commit belongs to.
    carried_to: u64,
    uncover: Uncover,
}

/// What comes at a place of a file.
pub enum Piece {
    /// A record of so many bytes.
    Record(u64),
    /// So many bytes that are no record, up to the next one or the end.
    Damaged {
        /// Their number.
        bytes: u64,
        /// What is wrong with the first.
        damage: Damage,
    },
    /// Nothing: the end of the file.
    End,
}

struct Uncover {
    uncoverer: Uncoverer,
    has_keys: bool,
    last_number: Option<u64>,
}

impl Uncover {
    /// The data and user tokens of a record in clear; `Ok(None)` when nothing lies over them.
    fn clear(
        &mut self,
        view: &RecordView<'_>,
        bytes: &[u8],
        order: Order,
        header: Option<&FileHeader>,
    ) -> Result<Option<Uncovered>, String> {
        if !view.is_covered() {
            return Ok(None);
        }
        if view.encrypted.is_some() && !self.has_keys {
            return Err("DECRYPT ON shows it, with the wallet of the home".to_owned());
        }
        // Numbers ascend as long as a file is read forward.
        if view.encrypted.is_some_and(|number| self.last_number.is_some_and(|last| number <= last))
            && let Some(header) = header
        {
            self.uncoverer.set_key(header);
        }
        self.last_number = view.encrypted.or(self.last_number);
        match self.uncoverer.uncover(view, bytes, order) {
            Ok(uncovered) => Ok(Some(uncovered)),
            Err(Stuck::Damage(damage)) => Err(damage.to_string()),
            Err(Stuck::Key(_, error)) => Err(error.to_string()),
        }
    }
}

impl OpenFile {
    /// Opens a file.
    ///
    /// # Errors
    /// When it can't be read.
    pub fn open(file: Box<dyn File>, given: &Given) -> io::Result<OpenFile> {
        let mut walker = Walker::open(file)?;
        let order = walker.order();
        let header = match walker.record(0) {
            Ok(record) if record.first() == Some(&token::FILE_HEADER) => FileHeader::read(record, order).ok(),
            Ok(_) | Err(Trouble::Damage(_)) => None,
            Err(Trouble::Io(error)) => return Err(error),
        };
        let mut uncoverer = Uncoverer::new(given.keys.clone());
        if let Some(header) = &header {
            uncoverer.set_key(header);
        }
        Ok(OpenFile {
            walker,
            header,
            definitions: Definitions::new(&given.definitions),
            defined_to: 0,
            carried: CarriedCommit::default(),
            carried_to: 0,
            uncover: Uncover { uncoverer, has_keys: given.keys.is_some(), last_number: None },
        })
    }

    /// The file's walker.
    pub fn walker(&mut self) -> &mut Walker {
        &mut self.walker
    }

    /// What the file's first record says, where it can be read.
    pub fn header(&self) -> Option<&FileHeader> {
        self.header.as_ref()
    }

    /// What the file has defined, as far as it was looked at.
    pub fn definitions(&self) -> &Definitions {
        &self.definitions
    }

    /// The file's byte order.
    pub fn order(&self) -> Order {
        self.walker.order()
    }

    /// What comes at byte `rba`. Over damage it looks for the next record; `stop` is asked now and then whether to go on.
    ///
    /// # Errors
    /// When the file can't be read.
    pub fn piece(&mut self, rba: u64, stop: &mut dyn FnMut(u64) -> bool) -> io::Result<Piece> {
        if rba >= self.walker.length() {
            return Ok(Piece::End);
        }
        match self.walker.record(rba) {
            Ok(record) => Ok(Piece::Record(record.len() as u64)),
            Err(Trouble::Io(error)) => Err(error),
            Err(Trouble::Damage(damage)) => {
                let next = self.walker.first_from(rba + 1, stop)?.unwrap_or(self.walker.length());
                Ok(Piece::Damaged { bytes: next - rba, damage })
            }
        }
    }

    /// Makes sure that the definitions of everything in front of byte `end` are known, or those of one object if it is given.
    ///
    /// # Errors
    /// When the file can't be read.
    pub fn define(&mut self, end: u64, object: Option<&Object<'_>>) -> io::Result<()> {
        while self.defined_to < end && object.is_none_or(|object| !self.definitions.know(object)) {
            let order = self.walker.order();
            match self.walker.record(self.defined_to) {
                Ok(record) => {
                    self.defined_to += record.len() as u64;
                    take_definition(&mut self.definitions, &mut self.uncover, record, order, self.header.as_ref());
                }
                Err(Trouble::Io(error)) => return Err(error),
                Err(Trouble::Damage(_)) => {
                    let next = self.walker.first_from(self.defined_to + 1, &mut |_| false)?;
                    self.defined_to = next.unwrap_or(u64::MAX);
                }
            }
        }
        Ok(())
    }

    /// Makes sure that the names are known that the record at byte `rba` needs, as far as the file in front of it tells them.
    ///
    /// # Errors
    /// When the file can't be read.
    pub fn know_names(&mut self, rba: u64) -> io::Result<()> {
        if self.defined_to >= rba {
            return Ok(());
        }
        let order = self.walker.order();
        let object = match self.walker.record(rba) {
            Err(Trouble::Io(error)) => return Err(error),
            Err(Trouble::Damage(_)) => return Ok(()),
            Ok(bytes) => match RecordView::read(bytes, order).map(|view| (view.header.operation, view.object)) {
                Ok((_, Object::Index { definition, partition })) => Some(Object::Index { definition, partition }),
                // A reference names a table that stands further in front.
                Ok((operation::METADATA, _)) => None,
                _ => return Ok(()),
            },
        };
        self.define(rba, object.as_ref())
    }

    /// Shows the record at byte `rba` to `see`, with what is known of it; `None` when none that can be taken apart stands there.
    /// Table names are known as far as [`define`](OpenFile::define) was called.
    ///
    /// # Errors
    /// When the file can't be read.
    pub fn look<R>(
        &mut self,
        rba: u64,
        needs_data: bool,
        see: impl FnOnce(&RecordEnvironment<'_>, &Result<(), String>, &[u8]) -> R,
    ) -> io::Result<Option<R>> {
        let order = self.walker.order();
        let OpenFile { walker, header, definitions, defined_to, carried, carried_to, uncover } = self;
        let bytes = match walker.record(rba) {
            Ok(bytes) => bytes,
            Err(Trouble::Io(error)) => return Err(error),
            Err(Trouble::Damage(_)) => return Ok(None),
        };
        let end = rba + bytes.len() as u64;
        let Ok(view) = RecordView::read(bytes, order) else {
            if *defined_to == rba {
                *defined_to = end;
            }
            return Ok(None);
        };
        // In a run of neighbouring records the transaction is carried on.
        if *carried_to != rba {
            carried.forget();
        }
        carried.see(&view);
        *carried_to = end;
        if *defined_to == rba {
            take_definition(definitions, uncover, bytes, order, header.as_ref());
            *defined_to = end;
        }
        let uncovered;
        let (mut data, mut user, mut told) = (Some(view.data), view.user_tokens, Ok(()));
        if needs_data && view.is_covered() {
            match uncover.clear(&view, bytes, order, header.as_ref()) {
                Ok(Some(clear)) => {
                    uncovered = clear;
                    (data, user) = (Some(&*uncovered.data), &*uncovered.user);
                }
                Ok(None) => {}
                Err(reason) => (data, user, told) = (None, &[], Err(reason)),
            }
        } else if view.is_covered() {
            (data, user) = (None, &[]);
        }
        let (csn, transaction_id) = carried.of(&view);
        let environment = RecordEnvironment {
            view: &view,
            rba,
            order,
            data,
            user,
            csn,
            transaction_id,
            header: header.as_ref(),
            definitions,
        };
        Ok(Some(see(&environment, &told, bytes)))
    }
}

fn take_definition(
    definitions: &mut Definitions,
    uncover: &mut Uncover,
    bytes: &[u8],
    order: Order,
    header: Option<&FileHeader>,
) {
    let Ok(view) = RecordView::read(bytes, order) else { return };
    if !Definitions::concern(&view) {
        return;
    }
    match uncover.clear(&view, bytes, order, header) {
        Ok(None) => definitions.take(&view, Some(view.data), order),
        Ok(Some(clear)) => definitions.take(&view, Some(&clear.data), order),
        Err(_) => definitions.take(&view, None, order),
    }
}
