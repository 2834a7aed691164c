//! Violated unique constraints.

use super::engine::{Engine, Meeting, Ruling, Settlement};
use super::entry::{ConflictKind, Resolution};
use super::rules::UniqueMethod;
use change::{LogicalType, Operation, Row, Value};

impl Engine<'_> {
    /// Settles the violation of `constraint` by an insert or an update. `current` is the row that is in the way, where it is
    /// known. When what this made of the write violates the constraint again, `after` is the number of the method that was
    /// used, and the chain goes on behind it.
    pub fn unique(
        &mut self,
        constraint: &str,
        operation: &Operation,
        current: Option<&Row>,
        after: Option<i32>,
    ) -> Settlement {
        let (old, new) = match operation {
            Operation::Insert { new } => (None, new),
            Operation::Update { old, new } => (old.as_ref(), new),
            Operation::Delete { .. } | Operation::Truncate(_) => return Settlement::quiet(Ruling::Unresolved),
        };
        let rules = self.rules;
        let meeting = Meeting { old, new: Some(new), current };
        let mut entry = meeting.entry(ConflictKind::Uniqueness, constraint);
        let mut ruling = Ruling::Unresolved;
        let chain = rules.unique.iter().find(|(name, _)| name == constraint).map(|(_, chain)| chain.steps());
        let steps = chain.unwrap_or_default().iter();
        for step in steps.filter(|step| after.is_none_or(|after| step.sequence > after)) {
            entry.tried.push((step.sequence, step.method.name()));
            let decided = match &step.method {
                UniqueMethod::Discard => Some((Ruling::Keep, Resolution::Kept)),
                UniqueMethod::AppendSiteName(column) => {
                    let site = self.surroundings.origin_site().split('.').next().unwrap_or_default().to_owned();
                    self.append(operation, &meeting, *column, &site)
                }
                UniqueMethod::AppendSequence(column) => {
                    let number = self.surroundings.next_sequence().map(|number| number.to_string());
                    number.and_then(|number| self.append(operation, &meeting, *column, &number))
                }
                UniqueMethod::UserFunction(function) => {
                    let function = function.clone();
                    match self.answer(ConflictKind::Uniqueness, &function, &meeting) {
                        Err(failure) => {
                            entry.failure = Some(failure);
                            break;
                        }
                        Ok(answer) if !answer.resolved => None,
                        Ok(answer) if answer.discard => Some((Ruling::Keep, Resolution::Kept)),
                        Ok(answer) => {
                            let edits = function.columns.iter().copied().zip(answer.values).collect::<Vec<_>>();
                            Some((Ruling::Write(with_new(operation, &edits)), Resolution::Merged))
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
        Settlement { ruling, discard: false, entries: vec![entry] }
    }

    /// The operation with `suffix` at the end of a character column, whose own text is cut where there is no room for both.
    /// `None` when the suffix alone does not fit, or there is no text.
    fn append(
        &self,
        operation: &Operation,
        meeting: &Meeting<'_>,
        column: usize,
        suffix: &str,
    ) -> Option<(Ruling, Resolution)> {
        let definition = &self.table.columns[column];
        let bytes = meeting.incoming(column).bytes()?;
        let (mark, text) = match definition.logical {
            LogicalType::Dynamic => (bytes.get(..1).filter(|mark| *mark == b"t")?, bytes.get(1..)?),
            _ => (&bytes[..0], bytes),
        };
        let text = std::str::from_utf8(text).ok()?;
        let taken = suffix.chars().count();
        let room = match definition.length {
            Some(length) => (length as usize).checked_sub(taken)?,
            None => usize::MAX,
        };
        let kept: String = text.chars().take(room).collect();
        let value = [mark, kept.as_bytes(), suffix.as_bytes()].concat();
        Some((Ruling::Write(with_new(operation, &[(column, Some(value))])), Resolution::Merged))
    }
}

/// The operation with some of its new values replaced.
fn with_new(operation: &Operation, edits: &[(usize, Option<Vec<u8>>)]) -> Operation {
    let edited = |new: &Row| {
        Row::from_values(new.values().enumerate().map(|(column, value)| {
            match edits.iter().find(|(place, _)| *place == column) {
                Some((_, edit)) => edit.as_deref().map_or(Value::Null, Value::Bytes),
                None => value,
            }
        }))
    };
    match operation {
        Operation::Insert { new } => Operation::Insert { new: edited(new) },
        Operation::Update { old, new } => Operation::Update { old: old.clone(), new: edited(new) },
        unchanged => unchanged.clone(),
    }
}
