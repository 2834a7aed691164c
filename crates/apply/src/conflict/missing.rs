//! Rows that an update or a delete does not find, or not as it left them.

use super::engine::{Engine, Meeting, Ruling, Settlement, Stamp};
use super::entry::{ConflictKind, Resolution};
use super::rules::{Chain, Detection, MissingMethod};
use change::{Operation, Row, Value};
use std::cmp::Ordering;

impl Engine<'_> {
    /// Settles a delete. `stamp` is the delete's own version, where it has one; `tombstone` that of an earlier delete of the
    /// row.
    pub fn delete(
        &mut self,
        old: &Row,
        current: Option<&Row>,
        stamp: Option<&Stamp>,
        tombstone: Option<&Stamp>,
    ) -> Settlement {
        let meeting = Meeting { old: Some(old), new: None, current };
        let rules = self.rules;
        let Some(row) = current else {
            return self.settle(ConflictKind::DeleteRowMissing, &rules.delete_missing, meeting, stamp, tombstone);
        };
        let differs = (0..self.table.columns.len()).any(|column| self.differs(&meeting, column));
        if !differs && !self.stamp_of_deleted_differs(&meeting, stamp) {
            return Settlement::quiet(Ruling::Write(Operation::Delete { old: row.clone() }));
        }
        let found = match &rules.detection {
            Detection::Stamps(columns) => Stamp::of(row, *columns),
            Detection::OldValues => None,
        };
        self.settle(ConflictKind::DeleteRowExists, &rules.delete_changed, meeting, stamp, found.as_ref())
    }

    /// Settles an insert of a key whose row was deleted here, so that a late insert does not bring it back.
    pub fn insert_after_delete(&mut self, new: &Row, tombstone: &Stamp) -> Settlement {
        let write = Ruling::Write(Operation::Insert { new: new.clone() });
        let Detection::Stamps(columns) = &self.rules.detection else { return Settlement::quiet(write) };
        let stamp = Stamp::of(new, *columns);
        let order = stamp.as_ref().and_then(|stamp| self.order_stamps(stamp, tombstone));
        if order == Some(Ordering::Greater) {
            return Settlement::quiet(write);
        }
        let meeting = Meeting { old: None, new: Some(new), current: None };
        let mut entry = meeting.entry(ConflictKind::InsertAfterDelete, "");
        if order.is_none() {
            return Settlement { entries: vec![entry], ..Settlement::quiet(Ruling::Unresolved) };
        }
        entry.tried.push((0, "LATEST"));
        entry.resolution = Resolution::Kept;
        Settlement { entries: vec![entry], ..Settlement::quiet(Ruling::Keep) }
    }

    /// Settles a truncation. Which rows its site has seen nobody knows, so it is a conflict always.
    pub fn truncate(&mut self, operation: &Operation) -> Settlement {
        let meeting = Meeting { old: None, new: None, current: None };
        let mut entry = meeting.entry(ConflictKind::Truncate, "");
        let mut ruling = Ruling::Unresolved;
        for step in self.rules.truncate.steps() {
            entry.tried.push((step.sequence, step.method.name()));
            let (decided, resolution) = match step.method {
                MissingMethod::Overwrite => (Ruling::Write(operation.clone()), Resolution::Taken),
                MissingMethod::Ignore => (Ruling::Keep, Resolution::Kept),
                MissingMethod::DiscardRecord => (Ruling::Keep, Resolution::Discarded),
                _ => continue,
            };
            (ruling, entry.resolution) = (decided, resolution);
            break;
        }
        if change::sabotage::is_on("truncate-unseen-rows") {
            ruling = Ruling::Write(operation.clone());
        }
        let discard = entry.resolution == Resolution::Discarded;
        Settlement { ruling, discard, entries: vec![entry] }
    }

    pub(super) fn update_missing(&mut self, meeting: Meeting<'_>, tombstone: Option<&Stamp>) -> Settlement {
        let rules = self.rules;
        let stamp = match &rules.detection {
            Detection::Stamps(columns) => meeting.new.and_then(|new| Stamp::of(new, *columns)),
            Detection::OldValues => None,
        };
        self.settle(ConflictKind::UpdateRowMissing, &rules.update_missing, meeting, stamp.as_ref(), tombstone)
    }

    /// A delete that does not tell the stamp of the row that it removed is compared by its own.
    fn stamp_of_deleted_differs(&self, meeting: &Meeting<'_>, stamp: Option<&Stamp>) -> bool {
        let (Detection::Stamps(columns), Some(current)) = (&self.rules.detection, meeting.current) else {
            return false;
        };
        if meeting.old.is_some_and(|old| Stamp::of(old, *columns).is_some()) {
            return self.stamp_differs(meeting);
        }
        let found = Stamp::of(current, *columns);
        match (stamp, found) {
            (Some(stamp), Some(found)) => self.order_stamps(stamp, &found) != Some(Ordering::Greater),
            _ => true,
        }
    }

    /// Runs a chain. `other` is the stamp that the change's own is compared with.
    fn settle(
        &mut self,
        kind: ConflictKind,
        chain: &Chain<MissingMethod>,
        meeting: Meeting<'_>,
        stamp: Option<&Stamp>,
        other: Option<&Stamp>,
    ) -> Settlement {
        let mut entry = meeting.entry(kind, "");
        let mut ruling = Ruling::Unresolved;
        for step in chain.steps() {
            entry.tried.push((step.sequence, step.method.name()));
            let decided = match &step.method {
                MissingMethod::Overwrite => self.done_anyway(&meeting).map(|ruling| (ruling, Resolution::Taken)),
                MissingMethod::Ignore => Some((Ruling::Keep, Resolution::Kept)),
                MissingMethod::DiscardRecord => Some((Ruling::Keep, Resolution::Discarded)),
                MissingMethod::DeleteWins => match kind {
                    ConflictKind::DeleteRowExists => {
                        self.done_anyway(&meeting).map(|ruling| (ruling, Resolution::Taken))
                    }
                    _ => other.map(|_| (Ruling::Keep, Resolution::Kept)),
                },
                MissingMethod::LatestStamp => {
                    let order = stamp.zip(other).and_then(|(stamp, other)| self.order_stamps(stamp, other));
                    match order {
                        None => None,
                        Some(Ordering::Greater) if kind == ConflictKind::DeleteRowMissing => {
                            Some((Ruling::Keep, Resolution::Taken))
                        }
                        Some(Ordering::Greater) => self.done_anyway(&meeting).map(|ruling| (ruling, Resolution::Taken)),
                        Some(_) => Some((Ruling::Keep, Resolution::Kept)),
                    }
                }
                MissingMethod::UserFunction(function) => {
                    let function = function.clone();
                    match self.answer(kind, &function, &meeting) {
                        Err(failure) => {
                            entry.failure = Some(failure);
                            break;
                        }
                        Ok(answer) if !answer.resolved => None,
                        Ok(answer) if answer.discard => Some((Ruling::Keep, Resolution::Kept)),
                        Ok(answer) => {
                            let again = self.again(&meeting, &function.columns, &answer.values);
                            Some((again, Resolution::Merged))
                        }
                    }
                }
            };
            if let Some((decided, resolution)) = decided {
                ruling = decided;
                entry.resolution = resolution;
                break;
            }
        }
        let discard = entry.resolution == Resolution::Discarded;
        Settlement { ruling, discard, entries: vec![entry] }
    }

    /// A missing row inserted, or a changed one deleted; `None` when the change does not tell the whole row.
    fn done_anyway(&self, meeting: &Meeting<'_>) -> Option<Ruling> {
        if meeting.new.is_none() {
            return meeting.current.map(|current| Ruling::Write(Operation::Delete { old: current.clone() }));
        }
        let is_needed = |column: &usize| !self.table.columns[*column].generation.is_computed();
        let tells = |column: usize| meeting.incoming(column).is_present();
        let tells_all = (0..self.table.columns.len()).filter(is_needed).all(tells);
        tells_all.then(|| {
            let new = Row::from_values((0..self.table.columns.len()).map(|column| meeting.incoming(column)));
            Ruling::Write(Operation::Insert { new })
        })
    }

    /// The change with its old values as a function edited them.
    fn again(&self, meeting: &Meeting<'_>, columns: &[usize], values: &[Option<Vec<u8>>]) -> Ruling {
        let old = Row::from_values((0..self.table.columns.len()).map(|column| {
            match columns.iter().position(|edited| *edited == column) {
                Some(place) => values[place].as_deref().map_or(Value::Null, Value::Bytes),
                None => meeting.old(column),
            }
        }));
        Ruling::Again(match meeting.new {
            Some(new) => Operation::Update { old: Some(old), new: new.clone() },
            None => Operation::Delete { old },
        })
    }
}
