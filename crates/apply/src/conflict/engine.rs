//! Updates, deletes, and inserts whose key exists.

use super::entry::{ConflictEntry, ConflictKind, Resolution};
use super::method::{Chosen, Surroundings, Verdict};
use super::rules::{Chain, ConflictRules, Detection, Groups, Scope, StampColumns, UpdateMethod};
use super::value::{is_same, order};
use change::{Operation, Row, TableDefinition, Value};
use std::cmp::Ordering;
use std::collections::BTreeSet;

/// A version stamp: hybrid logical time, then site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// The time, in the notation of its column.
    pub time: Vec<u8>,
    /// The site.
    pub site: Vec<u8>,
}

impl Stamp {
    /// The stamp in a row, when the row tells both of its parts.
    pub(super) fn of(row: &Row, columns: StampColumns) -> Option<Stamp> {
        let part = |column| row.value(column).bytes().map(<[u8]>::to_vec);
        Some(Stamp { time: part(columns.time)?, site: part(columns.site)? })
    }
}

/// What to do with a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ruling {
    /// Write this, in the shape of the change's table.
    Write(Operation),
    /// Write nothing: the target stays as it is.
    Keep,
    /// A function edited what the change looks for: look the row up again, once.
    Again(Operation),
    /// The call fails, and its transaction with it.
    Unresolved,
}

/// A ruling, and what is to be told about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settlement {
    /// What to do.
    pub ruling: Ruling,
    /// Whether the change, or a part of it, goes to the discard file.
    pub discard: bool,
    /// The conflicts that there were; empty without one.
    pub entries: Vec<ConflictEntry>,
}

impl Settlement {
    pub(super) fn quiet(ruling: Ruling) -> Settlement {
        Settlement { ruling, discard: false, entries: Vec::new() }
    }
}

/// Settles the conflicts of one table. Rows have the shape of `table`, in one notation.
pub struct Engine<'a> {
    pub(super) table: &'a TableDefinition,
    pub(super) rules: &'a ConflictRules,
    pub(super) surroundings: &'a mut dyn Surroundings,
}

/// A change and the row that it meets.
#[derive(Clone, Copy)]
pub(super) struct Meeting<'r> {
    pub(super) old: Option<&'r Row>,
    pub(super) new: Option<&'r Row>,
    pub(super) current: Option<&'r Row>,
}

impl<'r> Meeting<'r> {
    /// What the change says of a column before: nothing, NULL or a value.
    pub(super) fn old(&self, column: usize) -> Value<'r> {
        self.old.map_or(Value::Unchanged, |row| row.value(column))
    }

    /// The column as the change's site has it: the new value where the change tells it, else the old one.
    pub(super) fn incoming(&self, column: usize) -> Value<'r> {
        match self.new.map_or(Value::Unchanged, |row| row.value(column)) {
            Value::Unchanged => self.old(column),
            value => value,
        }
    }

    pub(super) fn current(&self, column: usize) -> Value<'r> {
        self.current.map_or(Value::Unchanged, |row| row.value(column))
    }

    pub(super) fn entry(&self, kind: ConflictKind, reference: &str) -> ConflictEntry {
        ConflictEntry {
            kind,
            reference: reference.to_owned(),
            tried: Vec::new(),
            resolution: Resolution::Unresolved,
            failure: None,
            old: self.old.cloned(),
            new: self.new.cloned(),
            current: self.current.cloned(),
        }
    }
}

/// Columns that are settled together.
struct Part<'r> {
    name: &'r str,
    columns: BTreeSet<usize>,
    chain: &'r Chain<UpdateMethod>,
}

impl<'a> Engine<'a> {
    /// An engine for one table.
    pub fn new(
        table: &'a TableDefinition,
        rules: &'a ConflictRules,
        surroundings: &'a mut dyn Surroundings,
    ) -> Engine<'a> {
        Engine { table, rules, surroundings }
    }

    /// Settles an update. `old` is what the change tells of the row before, `current` the row that has the old key, and
    /// `tombstone` what is left of it when it was deleted.
    pub fn update(
        &mut self,
        old: Option<&Row>,
        new: &Row,
        current: Option<&Row>,
        tombstone: Option<&Stamp>,
    ) -> Settlement {
        let meeting = Meeting { old, new: Some(new), current };
        let Some(current) = current else { return self.update_missing(meeting, tombstone) };
        let mut values: Vec<Value<'_>> = vec![Value::Unchanged; self.table.columns.len()];
        let key = self.table.key();
        let changes_key = key.iter().any(|column| self.changes(&meeting, *column));
        key.iter().filter(|column| self.changes(&meeting, **column)).for_each(|column| {
            values[*column] = new.value(*column);
        });
        let rules = self.rules;
        let parts = self.parts(&rules.update);
        let row_differs = match rules.scope {
            Scope::Row => (0..self.table.columns.len()).any(|column| self.differs(&meeting, column)),
            Scope::Group => false,
        } || self.stamp_differs(&meeting);
        let mut edited = Edited::default();
        let mut settlement = Settlement::quiet(Ruling::Keep);
        for part in parts {
            let is_touched = part.columns.iter().any(|column| self.changes(&meeting, *column));
            let differs = row_differs
                || (rules.detection == Detection::OldValues
                    && rules.scope == Scope::Group
                    && part.columns.iter().any(|column| self.differs(&meeting, *column)));
            if !(is_touched || (rules.scope == Scope::Row && row_differs)) {
                continue;
            }
            if !differs || change::sabotage::is_on("overlook-conflicts") {
                part.columns.iter().filter(|column| self.changes(&meeting, **column)).for_each(|column| {
                    values[*column] = new.value(*column);
                });
                continue;
            }
            let chosen = self.run(ConflictKind::UpdateRowExists, &meeting, &part, changes_key, &mut settlement);
            match chosen {
                Some(chosen) => self.take(chosen, &meeting, &part.columns, &mut values, &mut edited),
                None => return Settlement { ruling: Ruling::Unresolved, ..settlement },
            }
        }
        if let Some(row) = self.row(&meeting, &values, &edited) {
            settlement.ruling = Ruling::Write(Operation::Update { old: Some(current.clone()), new: row });
        }
        settlement
    }

    /// Settles an insert that found a row with its key.
    ///
    /// Without methods for it the conflict is that of the key's constraint: see [`Engine::unique`].
    pub fn insert_exists(&mut self, new: &Row, current: &Row) -> Settlement {
        let meeting = Meeting { old: None, new: Some(new), current: Some(current) };
        let rules = self.rules;
        let Some(groups) = &rules.insert else {
            let entry = meeting.entry(ConflictKind::InsertRowExists, "");
            return Settlement { entries: vec![entry], ..Settlement::quiet(Ruling::Unresolved) };
        };
        let mut values: Vec<Value<'_>> = vec![Value::Unchanged; self.table.columns.len()];
        let mut edited = Edited::default();
        let mut settlement = Settlement::quiet(Ruling::Keep);
        for part in self.parts(groups) {
            match self.run(ConflictKind::InsertRowExists, &meeting, &part, false, &mut settlement) {
                Some(chosen) => self.take(chosen, &meeting, &part.columns, &mut values, &mut edited),
                None => return Settlement { ruling: Ruling::Unresolved, ..settlement },
            }
        }
        if let Some(row) = self.row(&meeting, &values, &edited) {
            settlement.ruling = Ruling::Write(Operation::Update { old: Some(current.clone()), new: row });
        }
        settlement
    }

    /// The column groups with the rest as the last one.
    fn parts<'g>(&self, groups: &'g Groups) -> Vec<Part<'g>> {
        let is_free = |column: &usize| groups.groups.iter().all(|group| !group.columns.contains(column));
        let can_be_settled = |column: &usize| {
            let column = &self.table.columns[*column];
            column.key.is_none() && !column.generation.is_computed()
        };
        let rest: BTreeSet<usize> = (0..self.table.columns.len()).filter(can_be_settled).filter(is_free).collect();
        let mut parts: Vec<Part<'g>> = groups
            .groups
            .iter()
            .map(|group| Part {
                name: &group.name,
                columns: group.columns.iter().copied().filter(can_be_settled).collect(),
                chain: &group.chain,
            })
            .collect();
        let name = if self.rules.scope == Scope::Row { "DEFAULT" } else { "SHADOW" };
        parts.push(Part { name, columns: rest, chain: &groups.rest });
        parts.retain(|part| !part.columns.is_empty());
        parts
    }

    /// Whether the change gives the column another value, as far as it tells.
    fn changes(&self, meeting: &Meeting<'_>, column: usize) -> bool {
        let new = meeting.new.map_or(Value::Unchanged, |row| row.value(column));
        match (new, meeting.old(column)) {
            (Value::Unchanged, _) => false,
            // The row was found by this key, so it is the one that the change left.
            (new, Value::Unchanged) if self.table.columns[column].key.is_some() => {
                meeting.current.is_some() && !self.same(column, new, meeting.current(column))
            }
            (_, Value::Unchanged) => true,
            (new, old) => !self.same(column, new, old),
        }
    }

    /// Whether the column's old value is compared and is not what stands in the row.
    pub(super) fn differs(&self, meeting: &Meeting<'_>, column: usize) -> bool {
        let definition = &self.table.columns[column];
        let not_compared = &self.rules.not_compared[usize::from(meeting.new.is_none())];
        if self.rules.detection != Detection::OldValues
            || definition.key.is_some()
            || definition.generation.is_computed()
            || not_compared.contains(&column)
        {
            return false;
        }
        match meeting.old(column) {
            Value::Unchanged => false,
            old => !self.same(column, old, meeting.current(column)),
        }
    }

    /// Whether the stamp that the change overwrote is not the row's.
    pub(super) fn stamp_differs(&self, meeting: &Meeting<'_>) -> bool {
        let (Detection::Stamps(columns), Some(current)) = (&self.rules.detection, meeting.current) else {
            return false;
        };
        let StampColumns { time, site } = *columns;
        let is_told = [time, site].iter().all(|column| meeting.old(*column).is_present());
        if is_told {
            return [time, site].iter().any(|column| !self.same(*column, meeting.old(*column), current.value(*column)));
        }
        // Its own site's next version follows; anything else can't be told from a conflict.
        let is_own = self.same(site, meeting.incoming(site), current.value(site));
        let is_later = match (meeting.incoming(time), current.value(time)) {
            (Value::Bytes(new), Value::Bytes(current)) => {
                order(self.table.columns[time].logical, new, current) == Some(Ordering::Greater)
            }
            _ => false,
        };
        !(is_own && is_later)
    }

    pub(super) fn same(&self, column: usize, left: Value<'_>, right: Value<'_>) -> bool {
        is_same(self.table.columns[column].logical, left, right)
    }

    /// Runs the methods of a group; `None` when none decides.
    fn run(
        &mut self,
        kind: ConflictKind,
        meeting: &Meeting<'_>,
        part: &Part<'_>,
        changes_key: bool,
        settlement: &mut Settlement,
    ) -> Option<Chosen> {
        let mut entry = meeting.entry(kind, part.name);
        let mut chosen = None;
        for step in part.chain.steps() {
            entry.tried.push((step.sequence, step.method.name()));
            let is_function = matches!(step.method, UpdateMethod::UserFunction(_));
            // A method made for values can't know which of two keys is right.
            let verdict = match changes_key && self.rules.scope == Scope::Group && !is_function {
                true => Verdict::Undecided,
                false => self.ask(kind, &step.method, meeting, &part.columns),
            };
            match verdict {
                Verdict::Decided(decided) => {
                    chosen = Some(decided).filter(|decided| self.can_take(decided, meeting, &part.columns));
                }
                Verdict::Undecided => {}
                Verdict::Failed(failure) => {
                    entry.failure = Some(failure);
                    break;
                }
            }
            if chosen.is_some() {
                break;
            }
        }
        if let Some(chosen) = &chosen {
            entry.resolution = chosen.resolution();
            settlement.discard |= entry.resolution == Resolution::Discarded;
        }
        settlement.entries.push(entry);
        chosen
    }

    /// Whether the change tells every value of a group that is taken as a whole. Half a group would be a row that no site
    /// ever had. With RESOLVECONFLICT what the record does not hold is not set.
    fn can_take(&self, chosen: &Chosen, meeting: &Meeting<'_>, columns: &BTreeSet<usize>) -> bool {
        let takes = matches!(chosen, Chosen::Take | Chosen::Edit { take_rest: true, .. });
        let tells_all = || columns.iter().all(|column| meeting.incoming(*column).is_present());
        self.rules.scope == Scope::Row || !takes || tells_all()
    }

    fn take<'r>(
        &self,
        chosen: Chosen,
        meeting: &Meeting<'r>,
        columns: &BTreeSet<usize>,
        values: &mut [Value<'r>],
        edited: &mut Edited,
    ) {
        let mut take_all = || {
            for column in columns {
                let incoming = meeting.incoming(*column);
                // Equal numbers may be written differently, and the winner's way of writing is part of what it wrote.
                values[*column] = if incoming == meeting.current(*column) { Value::Unchanged } else { incoming };
            }
        };
        match chosen {
            Chosen::Take => take_all(),
            Chosen::Keep | Chosen::Discard => {}
            Chosen::Edit { values: edits, take_rest } => {
                if take_rest {
                    take_all();
                }
                edited.0.extend(edits);
            }
        }
    }

    /// The row to write, if anything is to be written.
    fn row(&self, meeting: &Meeting<'_>, values: &[Value<'_>], edited: &Edited) -> Option<Row> {
        let value = |column: usize| match edited.0.iter().rev().find(|(place, _)| *place == column) {
            Some((_, edit)) => {
                let edit = edit.as_deref().map_or(Value::Null, Value::Bytes);
                if edit == meeting.current(column) { Value::Unchanged } else { edit }
            }
            None => values[column],
        };
        let row = Row::from_values((0..values.len()).map(value));
        let says_something = row.values().any(Value::is_present);
        says_something.then_some(row)
    }
}

/// Values that are neither the change's nor the row's.
#[derive(Default)]
struct Edited(Vec<(usize, Option<Vec<u8>>)>);
