//! Finding the place where an earlier reader stopped, and making sure that it is still that place.

use super::{OpenFile, Progress, Reader};
use crate::format::record::{RecordView, operation};
use crate::format::token;
use crate::scan::{Bearing, Forward, Trouble, bearing, place};
use crate::{Damage, Error, Position, recovery};
use bytes::Bytes;
use change::{Csn, TransactionId};
use std::io;

type Identity = (Csn, TransactionId);

impl Reader {
    /// Sets the reader to `position`, or to the end of the transaction `after` if the trail holds that elsewhere.
    pub(super) fn start_at(&mut self, position: Position, after: Option<Identity>) -> Result<(), Error> {
        if after.is_none() && position.rba == 0 {
            // Such a file may come into being later.
            self.position = position;
            return Ok(());
        }
        let Err(reason) = self.seek(position, after.as_ref())? else { return Ok(()) };
        let found = match &after {
            Some(identity) => self.find(identity)?,
            None => None,
        };
        if let Some(found) = found
            && self.seek(found, after.as_ref())?.is_ok()
        {
            return Ok(());
        }
        Err(Error::Mismatch { trail: self.trail.to_string(), position, reason })
    }

    /// Goes to `position` if a record ends there, and the last change before is the end of transaction `after`. Otherwise
    /// says what is there instead.
    fn seek(&mut self, position: Position, after: Option<&Identity>) -> Result<Result<(), String>, Error> {
        let name = self.trail.file(position.sequence);
        let trouble = |rba: u64, trouble: Trouble| trouble.at(&*self.storage, &name, rba);
        let length = match self.storage.open_read(&name).and_then(|file| file.len()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Err(format!("{name} does not exist"))),
            other => other.map_err(|error| trouble(0, error.into()))?,
        };
        if length < position.rba {
            return Ok(Err(format!("{name} ends at byte {length}")));
        }
        let limit = if position.rba == 0 { length } else { position.rba };
        let whole = Position::new(position.sequence, limit);
        let mut file = match OpenFile::open(&*self.storage, self.trail, position.sequence, whole, &self.given) {
            Err(Error::Damaged { source: Damage::Short { .. }, .. }) => {
                return Ok(Err(format!("no record of {name} ends at byte {}", position.rba)));
            }
            other => other?,
        };
        let last = match file.skim(position.rba) {
            Ok(last) => last,
            Err((_, Trouble::Damage(Damage::Short { .. }))) => {
                return Ok(Err(format!("no record of {name} ends at byte {}", position.rba)));
            }
            Err((rba, problem)) => return Err(trouble(rba, problem)),
        };
        if let Some(after) = after {
            let last = match last {
                Some(record) => {
                    let order = file.records.order();
                    Some(bearing(&record, order).map_err(|damage| trouble(position.rba, damage.into()))?)
                }
                None => self.last_change_before(position.sequence)?,
            };
            match last {
                Some(Bearing::Change { commit, ends: true, .. })
                    if (&commit.csn, &commit.transaction) == (&after.0, &after.1) => {}
                Some(Bearing::Change { commit, .. }) => {
                    let (csn, transaction) = (commit.csn, commit.transaction);
                    return Ok(Err(format!("transaction {transaction} with CSN {csn} stands before it")));
                }
                _ => return Ok(Err("no transaction stands before it".to_owned())),
            }
            self.progress = Progress::Between;
        }
        if position.rba > 0 {
            self.file = Some(file);
        }
        self.position = position;
        Ok(Ok(()))
    }

    /// The last change in the files before `sequence`.
    fn last_change_before(&self, sequence: u32) -> Result<Option<Bearing>, Error> {
        let sequences = recovery::sequences(&*self.storage, self.trail)?;
        for earlier in sequences.into_iter().rev().filter(|earlier| *earlier < sequence) {
            let name = self.trail.file(earlier);
            let (mut backward, _) = recovery::open_back(&*self.storage, &name, earlier)?;
            loop {
                let (rba, order) = (backward.end(), backward.order());
                let bearing = match backward.previous() {
                    Ok(Some(record)) if record.first() == Some(&token::RECORD) => {
                        bearing(record, order).map_err(Trouble::from)
                    }
                    Ok(_) => break,
                    Err(trouble) => Err(trouble),
                };
                let bearing = bearing.map_err(|trouble| trouble.at(&*self.storage, &name, rba))?;
                if matches!(bearing, Bearing::Change { .. }) {
                    return Ok(Some(bearing));
                }
            }
        }
        Ok(None)
    }

    /// The end of a transaction, wherever the trail holds it. Files that cannot be read are passed over: it is not found
    /// in them.
    fn find(&self, (csn, transaction): &Identity) -> Result<Option<Position>, Error> {
        for sequence in recovery::sequences(&*self.storage, self.trail)? {
            let name = self.trail.file(sequence);
            match find_in(self, &name, sequence, csn, transaction) {
                Ok(Some(rba)) => return Ok(Some(Position::new(sequence, rba))),
                Ok(None) | Err(Trouble::Damage(_)) => {}
                Err(trouble) => return Err(trouble.at(&*self.storage, &name, 0)),
            }
        }
        Ok(None)
    }
}

/// The byte after the end of the transaction in one file.
fn find_in(
    reader: &Reader,
    name: &str,
    sequence: u32,
    csn: &Csn,
    transaction: &TransactionId,
) -> Result<Option<u64>, Trouble> {
    let file = reader.storage.open_read(name)?;
    let length = file.len()?;
    let mut records = Forward::open(file, length)?;
    let (header, _) = records.header(sequence, length)?;
    if let Some(span) = header.completion.and_then(|completion| completion.span)
        && (*csn < span.first_csn || *csn > span.last_csn)
    {
        return Ok(None);
    }
    let order = records.order();
    while let Some(range) = records.next(length)? {
        let view = RecordView::read(&records.block()[range], order)?;
        let is_it =
            view.csn == Some(csn.as_str().as_bytes()) && view.transaction_id == Some(transaction.as_str().as_bytes());
        if is_it && place(view.header.transaction)?.1 {
            view.verify()?;
            return Ok(Some(records.rba()));
        }
    }
    Ok(None)
}

impl OpenFile {
    /// Passes over all records before byte `limit`, keeping the definitions. Returns the last change, undecoded.
    pub(super) fn skim(&mut self, limit: u64) -> Result<Option<Bytes>, (u64, Trouble)> {
        let mut last = None;
        while self.records.rba() < limit {
            let rba = self.records.rba();
            if let Some(record) = self.skim_record(limit).map_err(|trouble| (rba, trouble))? {
                last = Some(record);
            }
        }
        Ok(last)
    }

    fn skim_record(&mut self, limit: u64) -> Result<Option<Bytes>, Trouble> {
        if self.records.rba() == 0 {
            self.read(limit)?;
            return Ok(None);
        }
        let Some(range) = self.records.next(limit)? else { return Ok(None) };
        let record = self.records.block().slice(range.clone());
        let view = RecordView::read(&record, self.records.order())?;
        let is_definition = view.header.operation == operation::METADATA
            || view.header.operation == operation::FRAGMENT && view.csn.is_none();
        if is_definition {
            self.interpret(range, limit)?;
        }
        Ok(view.csn.is_some().then_some(record))
    }
}
