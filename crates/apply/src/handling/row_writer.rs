//! One write with everything that comes before REPERROR: collisions and conflicts.

use super::{Collision, LastError, Misfit, collision};
use crate::conflict::{
    ConflictEntry, ConflictKind, Detection, Engine, FunctionAnswer, FunctionCall, Ruling, Settlement, Stamp,
    StampColumns, Surroundings,
};
use crate::error_queue::{QueueWriter, key_of};
use change::{LogicalType, Operation, Row, Timestamp, Value};
use database::{ApplyError, Outcome, Rejection, Session, TablePlan, Write};
use process::FilterReason;
use std::sync::Arc;

/// A site without functions and sequences: RESOLVECONFLICT has no methods that need them.
struct NoSurroundings;

impl Surroundings for NoSurroundings {
    fn origin_site(&self) -> &str {
        ""
    }

    fn next_sequence(&mut self) -> Option<u64> {
        None
    }

    fn call(&mut self, _: &FunctionCall<'_>) -> Result<FunctionAnswer, String> {
        Err("this group calls no functions".to_owned())
    }
}

/// A write that was refused, and could not be put right by the rules that come before REPERROR.
pub(crate) struct Refused {
    pub(crate) rejection: Rejection,
    /// The conflict that stayed unresolved, if it is one.
    pub(crate) conflict: Option<ConflictKind>,
}

/// What came of a write.
pub(crate) enum Verdict {
    /// The target took it, in this form or another.
    Written,
    /// Nothing was written.
    Filtered(FilterReason),
    /// A conflict sends it to the discard file; a part of it may have been written.
    Discard(LastError),
    /// REPERROR must say.
    Refused(Refused),
}

/// A write, and the conflicts that it met.
pub(crate) struct Tried {
    pub(crate) verdict: Verdict,
    pub(crate) conflicts: Vec<ConflictEntry>,
}

/// A call to the target that failed.
pub(crate) struct CallFailed {
    pub(crate) action: &'static str,
    pub(crate) source: database::Error,
}

/// Writes rows by the rules of one MAP.
pub(crate) struct RowWriter<'a> {
    pub(crate) session: &'a mut dyn Session,
    pub(crate) plan: &'a Arc<TablePlan>,
    pub(crate) misfit: &'a Misfit,
    /// Where the versions of deleted rows are, and the time now.
    pub(crate) graves: Option<(&'a QueueWriter, Timestamp)>,
}

impl RowWriter<'_> {
    /// Writes one operation; what was refused has left nothing.
    pub(crate) fn write(&mut self, operation: &Operation) -> Result<Tried, CallFailed> {
        if self.misfit.conflicts.is_some() {
            return self.settle(operation);
        }
        let quiet = |verdict| Ok(Tried { verdict, conflicts: Vec::new() });
        let rejection = match self.attempt(operation)? {
            Ok(()) => return quiet(Verdict::Written),
            Err(rejection) => rejection,
        };
        let plain = |rejection| quiet(Verdict::Refused(Refused { rejection, conflict: None }));
        match collision(&self.misfit.handling.conversions, self.plan, operation, rejection.outcome) {
            None => plain(rejection),
            Some(Collision::Drop) => quiet(Verdict::Filtered(FilterReason::Collision)),
            Some(Collision::Instead(operations)) => {
                for operation in &operations {
                    match self.attempt(operation)? {
                        Ok(()) => {}
                        // The old row of an update of the key may be missing as well.
                        Err(missing)
                            if missing.outcome == Outcome::Missing && matches!(operation, Operation::Delete { .. }) => {
                        }
                        // The row in the way has another key: the first refusal is the one to tell.
                        Err(missing) if missing.outcome == Outcome::Missing => return plain(rejection),
                        Err(other) => return plain(other),
                    }
                }
                quiet(Verdict::Written)
            }
        }
    }

    fn attempt(&mut self, operation: &Operation) -> Result<Result<(), Rejection>, CallFailed> {
        match self.session.attempt(&Write { plan: self.plan, operation }) {
            Ok(()) => Ok(Ok(())),
            Err(ApplyError::Rejected(rejection)) => Ok(Err(rejection)),
            Err(ApplyError::Failed(source)) => Err(CallFailed { action: "write a row to the target", source }),
        }
    }

    fn find(&mut self, image: &Row) -> Result<Option<Row>, CallFailed> {
        let found = self.session.find(self.plan, image);
        found.map_err(|source| CallFailed { action: "read a row of the target", source })
    }

    /// The row that has the key of an operation's row now, where rows can be told.
    pub(crate) fn current(&mut self, operation: &Operation) -> Result<Option<Row>, CallFailed> {
        let image = match operation {
            Operation::Insert { new } => new.clone(),
            Operation::Update { old, new } => key_image(self.plan, old.as_ref(), new),
            Operation::Delete { old } => old.clone(),
            Operation::Truncate(_) => return Ok(None),
        };
        let is_told = self.plan.key.iter().all(|pair| image.value(pair.source).is_present());
        if self.plan.key.is_empty() || !is_told {
            return Ok(None);
        }
        match self.find(&image) {
            Err(CallFailed { source, .. }) if source.class() == database::ErrorClass::Unsupported => Ok(None),
            found => found,
        }
    }

    /// The columns of the version, with the marks that values of one without a type carry.
    fn stamps(&self) -> Option<(StampColumns, [bool; 2])> {
        let (table, rules) = self.misfit.conflicts.as_ref()?;
        let Detection::Stamps(stamps) = rules.detection else { return None };
        let is_marked = |column: usize| table.columns[column].logical == LogicalType::Dynamic;
        Some((stamps, [is_marked(stamps.time), is_marked(stamps.site)]))
    }

    fn stamp_of(&self, row: &Row) -> Option<Stamp> {
        let (stamps, _) = self.stamps()?;
        let part = |column: usize| row.value(column).bytes().map(<[u8]>::to_vec);
        Some(Stamp { time: part(stamps.time)?, site: part(stamps.site)? })
    }

    /// The version that the row with this key had when it was deleted, as far as that is known.
    fn tombstone(&mut self, image: &Row) -> Result<Option<Stamp>, CallFailed> {
        let (Some((_, [time, site])), Some((graves, _))) = (self.stamps(), self.graves) else { return Ok(None) };
        let Some(key) = key_of(self.plan, image) else { return Ok(None) };
        let found = graves.tombstone(self.session, &self.plan.target.name, &key);
        let found = found.map_err(|source| CallFailed { action: "read the versions of deleted rows", source })?;
        let marked =
            |is_marked: bool, bytes: Vec<u8>| if is_marked { [b"i", bytes.as_slice()].concat() } else { bytes };
        Ok(found.map(|stamp| Stamp { time: marked(time, stamp.time), site: marked(site, stamp.site) }))
    }

    /// Writes what was decided, and keeps the version of a row that it deletes.
    fn write_and_bury(
        &mut self,
        operation: &Operation,
        write: &Operation,
    ) -> Result<Result<(), Rejection>, CallFailed> {
        let written = self.attempt(write)?;
        let (Operation::Delete { old }, Operation::Delete { old: found }, Ok(())) = (operation, write, &written) else {
            return Ok(written);
        };
        let (Some((_, [time, site])), Some((graves, now))) = (self.stamps(), self.graves) else { return Ok(written) };
        let Some((stamp, key)) = self.stamp_of(old).or_else(|| self.stamp_of(found)).zip(key_of(self.plan, old)) else {
            return Ok(written);
        };
        let name = &self.plan.target.name;
        let plain = |is_marked: bool, bytes: Vec<u8>| bytes[usize::from(is_marked)..].to_vec();
        let stamp = Stamp { time: plain(time, stamp.time), site: plain(site, stamp.site) };
        let failed = |source| CallFailed { action: "read the versions of deleted rows", source };
        let known = graves.tombstone(self.session, name, &key).map_err(failed)?;
        match graves.bury(self.session, name, &key, (&stamp, now), known.as_ref()) {
            Ok(()) => Ok(written),
            Err(ApplyError::Failed(source)) => {
                Err(CallFailed { action: "keep the version of a row that is deleted", source })
            }
            Err(ApplyError::Rejected(rejection)) => Ok(Err(rejection)),
        }
    }

    /// Looks the row up and lets the conflict engine settle what it finds.
    fn settle(&mut self, operation: &Operation) -> Result<Tried, CallFailed> {
        let misfit = self.misfit;
        let (table, rules) = misfit.conflicts.as_ref().expect("the table has rules");
        let mut world = NoSurroundings;
        let quiet = |verdict| Ok(Tried { verdict, conflicts: Vec::new() });
        let tombstone = match operation {
            Operation::Insert { new } => self.tombstone(new)?,
            _ => None,
        };
        let late = match (operation, &tombstone) {
            (Operation::Insert { new }, Some(tombstone)) => {
                Some(Engine::new(table, rules, &mut world).insert_after_delete(new, tombstone))
            }
            _ => None,
        };
        let settlement = match operation {
            Operation::Insert { .. } if late.as_ref().is_some_and(|late| !matches!(late.ruling, Ruling::Write(_))) => {
                late.unwrap_or_else(|| unreachable!("it was just looked at"))
            }
            Operation::Truncate(_) => Engine::new(table, rules, &mut world).truncate(operation),
            Operation::Insert { new } => match self.attempt(operation)? {
                Ok(()) => return quiet(Verdict::Written),
                Err(rejection) if rejection.outcome != Outcome::Duplicate || rules.insert.is_none() => {
                    let conflict = (rejection.outcome == Outcome::Duplicate).then_some(ConflictKind::InsertRowExists);
                    return quiet(Verdict::Refused(Refused { rejection, conflict }));
                }
                Err(rejection) => match self.find(new)? {
                    Some(current) => Engine::new(table, rules, &mut world).insert_exists(new, &current),
                    // Another unique constraint.
                    None => return quiet(Verdict::Refused(Refused { rejection, conflict: None })),
                },
            },
            Operation::Update { old, new } => {
                let image = key_image(self.plan, old.as_ref(), new);
                let current = self.find(&image)?;
                let tombstone = if current.is_none() { self.tombstone(&image)? } else { None };
                Engine::new(table, rules, &mut world).update(old.as_ref(), new, current.as_ref(), tombstone.as_ref())
            }
            Operation::Delete { old } => {
                let current = self.find(old)?;
                let tombstone = if current.is_none() { self.tombstone(old)? } else { None };
                let stamp = self.stamp_of(old);
                let (current, tombstone) = (current.as_ref(), tombstone.as_ref());
                Engine::new(table, rules, &mut world).delete(old, current, stamp.as_ref(), tombstone)
            }
        };
        let Settlement { ruling, discard, entries } = settlement;
        let told = entries.last().map(|entry| entry.kind);
        let verdict = match ruling {
            Ruling::Write(write) => match self.write_and_bury(operation, &write)? {
                Ok(()) if discard => Verdict::Discard(settled(told)),
                Ok(()) => Verdict::Written,
                Err(rejection) => Verdict::Refused(Refused { rejection, conflict: None }),
            },
            Ruling::Keep if discard => Verdict::Discard(settled(told)),
            Ruling::Keep if told.is_some() => Verdict::Filtered(FilterReason::Conflict),
            Ruling::Keep => Verdict::Filtered(FilterReason::NothingToSet),
            Ruling::Again(_) | Ruling::Unresolved => {
                let conflict = told.unwrap_or(ConflictKind::UpdateRowExists);
                let outcome = match conflict {
                    ConflictKind::InsertRowExists | ConflictKind::Uniqueness => Outcome::Duplicate,
                    ConflictKind::Truncate => Outcome::Constraint,
                    // A row with other values is not the row that was looked for.
                    _ => Outcome::Missing,
                };
                let detail = match conflict {
                    ConflictKind::Truncate => {
                        "it would remove rows that its site may not have seen, and no RESOLVECONFLICT (TRUNCATE, …) allows it"
                    }
                    _ => "the conflict is not settled by any method",
                };
                let detail = detail.to_owned();
                let rejection = Rejection { index: 0, outcome, detail, code: String::new() };
                Verdict::Refused(Refused { rejection, conflict: Some(conflict) })
            }
        };
        Ok(Tried { verdict, conflicts: entries })
    }
}

fn settled(told: Option<ConflictKind>) -> LastError {
    let kind = told.unwrap_or(ConflictKind::UpdateRowExists);
    let is_duplicate = kind == ConflictKind::InsertRowExists;
    LastError {
        kind: if is_duplicate { parameter::ErrorKind::Duplicate } else { parameter::ErrorKind::Missing },
        code: String::new(),
        detail: format!("{kind}, settled by DISCARD"),
    }
}

/// The key by which an update finds its row: the old one, where the source told it.
fn key_image(plan: &TablePlan, old: Option<&Row>, new: &Row) -> Row {
    let is_key = |column: usize| plan.key.iter().any(|pair| pair.source == column);
    Row::from_values((0..new.len()).map(|column| {
        let before = old.map_or(Value::Unchanged, |old| old.value(column));
        match (is_key(column), before) {
            (false, _) => Value::Unchanged,
            (true, Value::Unchanged) => new.value(column),
            (true, before) => before,
        }
    }))
}
