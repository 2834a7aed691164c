//! SQL of the triggers on one table.
//!
//! They run inside the user's own process, under whatever version of SQLite that has, so the text keeps to what has been
//! there since WITHOUT ROWID tables (3.8.2).
//!
//! # How a replaced row is told
//! `BEFORE INSERT`, and `BEFORE UPDATE` of columns that unique indexes look at, run only when another row holds a unique
//! value of the new row. They note those rows in `drover_pending`, whole. What then happens depends on the statement: OR
//! IGNORE leaves the rows and fires nothing more, an UPSERT turns into an update of one of them, OR REPLACE removes them, in
//! silence or, with recursive_triggers on, through the delete trigger. So the trigger *after* the write asks the table itself:
//! a noted row that is not there any more, or whose identity is now the new row's, was replaced.
//!
//! A note of a statement that came to nothing must not be taken for one of a later statement. Usually nothing is recorded
//! between a write's BEFORE and its AFTER trigger, so a note counts only while the newest change is the one that it was
//! made behind; and the next note takes the place of all older ones. With recursive_triggers on, the deletion that was
//! recorded in between makes the note worthless, as it should.
//!
//! Only where a statement can run inside another one's, between its BEFORE and its AFTER trigger (the user has triggers on
//! the table, or foreign keys point at it), must notes outlive what the inner one records. There the last few are kept,
//! updates refresh them, deletions drop them, and the newest note of a row counts. A
//! foreign key's actions run when the row has gone or moved already but its own AFTER trigger has not fired, so there a row
//! that is about to move is marked, and the note of one that is about to be deleted is dropped, beforehand.
//!
//! # When a table is sent again
//! A row that refers to itself by a foreign key with ON UPDATE CASCADE is changed twice when its key changes, and the second
//! change is recorded before the first. The trigger then asks for the whole table.

use super::object::{Kind, WIDTH_MAX};
use crate::catalog::{Identity, Table, UniqueIndex};
use crate::name::{literal, quoted};
use change::Generation;
use database::{Error, ErrorClass};

/// Whether a statement on a table can run inside another one's, between its BEFORE and its AFTER trigger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Nesting {
    /// No: the table has no triggers of the user's, and no foreign key points at it.
    None,
    /// Yes.
    Possible,
    /// Yes, and triggers of the user's may write rows after ours has noted those that are in the way: rows that are written
    /// are noted as well.
    BeforeTriggers,
}

/// Notes kept for statements inside statements: more than any table has unique indexes times levels that make sense.
const NOTES_KEPT: usize = 32;

/// Columns at most: notes need one table column for each, and SQLite's default limit is 2000.
const COLUMNS_MAX: usize = 1900;

/// A trigger to create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Trigger {
    pub(super) name: String,
    pub(super) sql: String,
}

/// Names that triggers of table `id` may have, of this and any earlier version.
pub(super) fn names(id: i64) -> [String; 10] {
    [
        "insert",
        "update",
        "delete",
        "insert_before",
        "update_before",
        "insert_replaced",
        "update_replaced",
        "update_moving",
        "delete_before",
        "update_itself",
    ]
    .map(|part| format!("drover_{id}_{part}"))
}

/// The triggers for `table` under registry number `id`, in the order in which they are to be created.
///
/// # Errors
/// [`ErrorClass::Unsupported`] for a table that can't be captured.
pub(super) fn triggers(table: &Table, id: i64, nesting: Nesting) -> Result<Vec<Trigger>, Error> {
    let refuse = |why: &str| {
        Error::new(ErrorClass::Unsupported, format!("table main.{} can't be captured: {why}", table.name))
            .with_next_step("exclude it")
    };
    if table.columns.len() > COLUMNS_MAX {
        return Err(refuse("it has too many columns"));
    }
    if let Some(index) = table.index_computed_from_rowid() {
        return Err(refuse(&format!("its unique index {} computes with the rowid", index.name)));
    }
    let identity = table.identity().ok_or_else(|| refuse("its columns are called rowid, _rowid_ and oid"))?;
    Ok(Writer { table, id, nesting, identity, name: quoted(&table.name) }.all())
}

struct Writer<'a> {
    table: &'a Table,
    id: i64,
    nesting: Nesting,
    identity: Identity,
    name: String,
}

impl Writer<'_> {
    /// The newest fires first, so what is to run first comes last: replaced rows are recorded before the row that
    /// replaced them.
    fn all(&self) -> Vec<Trigger> {
        let new = self.values("NEW.");
        let old = self.values("OLD.");
        let both: Vec<String> = old.iter().chain(&new).cloned().collect();
        let noted = self.notes_exist();
        let with_note = |record: String| {
            let noted = self.nesting == Nesting::BeforeTriggers;
            std::iter::once(record).chain(noted.then(|| self.tidy())).chain(noted.then(|| self.note_new())).collect()
        };
        let mut triggers = vec![
            self.trigger("insert", "AFTER INSERT", None, with_note(self.record(Kind::Insert, &new))),
            self.trigger("update", "AFTER UPDATE", None, with_note(self.record(Kind::Update, &both))),
            self.trigger("delete", "AFTER DELETE", None, vec![self.record(Kind::Delete, &old)]),
        ];
        if change::sabotage::is_on("forget-replaced-rows") {
            return triggers;
        }
        let insert_conflicts = self.conflicts(false);
        if !insert_conflicts.is_empty() {
            triggers.push(self.before("insert_before", "BEFORE INSERT", &insert_conflicts));
            triggers.push(self.trigger("insert_replaced", "AFTER INSERT", Some(noted.clone()), self.settle(false)));
        }
        let update_conflicts = self.conflicts(true);
        if !update_conflicts.is_empty() {
            let watched = self.watched_columns();
            triggers.push(self.before("update_before", &format!("BEFORE UPDATE{watched}"), &update_conflicts));
            // Notes that must be kept in step with their rows are, at every update.
            let watched = if self.nests() { String::new() } else { watched };
            let event = format!("AFTER UPDATE{watched}");
            triggers.push(self.trigger("update_replaced", &event, Some(noted.clone()), self.settle(true)));
        } else if self.nests() {
            triggers.push(self.trigger("update_replaced", "AFTER UPDATE", Some(noted.clone()), self.settle(true)));
        }
        triggers.extend(self.changed_by_itself());
        if self.nests() {
            triggers.extend(self.moving_columns().map(|columns| {
                let event = format!("BEFORE UPDATE OF {columns}");
                self.trigger("update_moving", &event, Some(noted.clone()), vec![self.mark_moving()])
            }));
            triggers.push(self.trigger("delete_before", "BEFORE DELETE", Some(noted), vec![self.drop_note("OLD")]));
        }
        triggers
    }

    fn trigger(&self, part: &str, event: &str, when: Option<String>, body: Vec<String>) -> Trigger {
        let name = format!("drover_{}_{part}", self.id);
        let when = when.map(|condition| format!(" WHEN {condition}")).unwrap_or_default();
        let sql = format!(
            "CREATE TRIGGER {name} {event} ON {}{when} BEGIN {} END",
            self.name,
            body.iter().map(|statement| format!("{statement};")).collect::<Vec<_>>().join(" ")
        );
        Trigger { name, sql }
    }

    fn values(&self, prefix: &str) -> Vec<String> {
        self.table.columns.iter().map(|column| format!("{prefix}{}", quoted(&column.name))).collect()
    }

    /// Writes a change as one row of the change table, or as several for a wide table.
    fn record(&self, kind: Kind, values: &[String]) -> String {
        let rows: Vec<String> = values
            .chunks(WIDTH_MAX)
            .enumerate()
            .map(|(place, chunk)| {
                let kind = if place == 0 { kind } else { Kind::More } as i64;
                let (columns, values) = (change_columns(chunk.len()), chunk.join(", "));
                format!(
                    "INSERT INTO drover_change (table_id, kind, at, {columns}) VALUES ({}, {kind}, julianday(), {values})",
                    self.id
                )
            })
            .collect();
        rows.join("; ")
    }

    fn notes_exist(&self) -> String {
        format!("EXISTS (SELECT 1 FROM drover_pending WHERE table_id = {})", self.id)
    }

    fn nests(&self) -> bool {
        self.nesting > Nesting::None
    }

    /// Drops notes that nobody needs any more.
    fn tidy(&self) -> String {
        let id = self.id;
        let kept = if self.nests() {
            format!(
                " AND n NOT IN (SELECT n FROM drover_pending WHERE table_id = {id} ORDER BY n DESC LIMIT {NOTES_KEPT})"
            )
        } else {
            String::new()
        };
        format!("DELETE FROM drover_pending WHERE table_id = {id}{kept}")
    }

    fn note_new(&self) -> String {
        let columns: Vec<String> = (0..self.table.columns.len()).map(|place| format!("c{place}")).collect();
        let identity = match &self.identity {
            Identity::Rowid(rowid) => format!("NEW.{rowid}"),
            Identity::PrimaryKey(_) => "NULL".to_owned(),
        };
        let (columns, values) = (columns.join(", "), self.values("NEW.").join(", "));
        format!("INSERT INTO drover_pending (table_id, identity, {columns}) VALUES ({}, {identity}, {values})", self.id)
    }

    /// Notes the rows for which one of `conflicts` holds.
    fn before(&self, part: &str, event: &str, conflicts: &[String]) -> Trigger {
        let Writer { id, name, .. } = self;
        let when: Vec<String> =
            conflicts.iter().map(|conflict| format!("EXISTS (SELECT 1 FROM {name} WHERE {conflict})")).collect();
        let width = self.table.columns.len();
        let columns: Vec<String> = (0..width).map(|place| format!("c{place}")).collect();
        let identity = match &self.identity {
            Identity::Rowid(rowid) => format!("{name}.{rowid}"),
            Identity::PrimaryKey(_) => "NULL".to_owned(),
        };
        let any: Vec<String> = conflicts.iter().map(|conflict| format!("({conflict})")).collect();
        let note = format!(
            "INSERT INTO drover_pending (table_id, behind, identity, {}) \
             SELECT {id}, (SELECT max(seq) FROM drover_change), {identity}, {} FROM {name} WHERE {}",
            columns.join(", "),
            self.values(&format!("{name}.")).join(", "),
            any.join(" OR ")
        );
        self.trigger(part, event, Some(when.join(" OR ")), vec![self.tidy(), note])
    }

    /// Records noted rows that are gone, and drops their notes.
    fn settle(&self, updating: bool) -> Vec<String> {
        let Writer { id, name, .. } = self;
        let there = self.same_row(&format!("{name}."), "noted");
        let not_itself =
            if updating { format!(" AND NOT ({})", self.same_row("OLD.", "noted")) } else { String::new() };
        let current =
            if self.nests() { "noted.moving IS NULL" } else { "noted.behind = (SELECT max(seq) FROM drover_change)" };
        let gone = format!(
            "noted.table_id = {id} AND {current}{not_itself} AND ({} OR NOT EXISTS (SELECT 1 FROM {name} WHERE {there}))",
            self.same_row("NEW.", "noted")
        );
        let newest = match (&self.identity, self.nests()) {
            (_, false) => String::new(),
            (Identity::Rowid(_), true) => format!(
                " AND noted.n = (SELECT max(n) FROM drover_pending WHERE table_id = {id} AND identity = noted.identity)"
            ),
            (Identity::PrimaryKey(key), true) => {
                let same: Vec<String> = key.iter().map(|part| format!("newer.c{part} = noted.c{part}")).collect();
                format!(
                    " AND NOT EXISTS (SELECT 1 FROM drover_pending AS newer WHERE newer.table_id = {id} AND newer.n > noted.n AND {})",
                    same.join(" AND ")
                )
            }
        };
        let mut statements = vec![self.record_noted(&format!("{gone}{newest}"))];
        if self.nests() {
            statements.push(format!(
                "DELETE FROM drover_pending WHERE n IN (SELECT n FROM drover_pending AS noted WHERE {gone})"
            ));
            if updating {
                statements.push(self.refresh_notes());
            }
        } else {
            statements.push(format!("DELETE FROM drover_pending WHERE table_id = {id}"));
        }
        statements
    }

    fn record_noted(&self, condition: &str) -> String {
        let values: Vec<String> = (0..self.table.columns.len()).map(|place| format!("noted.c{place}")).collect();
        let chunks: Vec<&[String]> = values.chunks(WIDTH_MAX).collect();
        let width = chunks.first().map_or(0, |chunk| chunk.len());
        let columns = change_columns(width);
        let row = |place: usize, chunk: &[String], order: &str| {
            let kind = if place == 0 { Kind::Delete } else { Kind::More } as i64;
            let filler = vec!["NULL".to_owned(); width - chunk.len()];
            let values: Vec<String> = chunk.iter().cloned().chain(filler).collect();
            format!(
                "SELECT {order}{}, {kind}, julianday(), {} FROM drover_pending AS noted WHERE {condition}",
                self.id,
                values.join(", ")
            )
        };
        let insert = format!("INSERT INTO drover_change (table_id, kind, at, {columns})");
        if let [only] = chunks[..] {
            return format!("{insert} {} ORDER BY noted.n", row(0, only, ""));
        }
        // All rows of one noted row must follow each other.
        let names: Vec<String> = ["table_id", "kind", "at"]
            .into_iter()
            .map(str::to_owned)
            .chain((0..width).map(|place| format!("v{place}")))
            .collect();
        let parts: Vec<String> = chunks
            .iter()
            .enumerate()
            .map(|(place, chunk)| {
                let select = row(place, chunk, &format!("noted.n AS n, {place} AS part, "));
                if place > 0 {
                    return select;
                }
                // The first part names the columns of them all.
                let head = format!(
                    "SELECT noted.n AS n, 0 AS part, {} AS table_id, {} AS kind, julianday() AS at, ",
                    self.id,
                    Kind::Delete as i64
                );
                let named: Vec<String> =
                    chunk.iter().enumerate().map(|(place, value)| format!("{value} AS v{place}")).collect();
                format!("{head}{} FROM drover_pending AS noted WHERE {condition}", named.join(", "))
            })
            .collect();
        format!("{insert} SELECT {} FROM ({}) ORDER BY n, part", names.join(", "), parts.join(" UNION ALL "))
    }

    fn drop_note(&self, row: &str) -> String {
        format!(
            "DELETE FROM drover_pending WHERE n IN (SELECT noted.n FROM drover_pending AS noted WHERE noted.table_id = {} AND {})",
            self.id,
            self.same_row(&format!("{row}."), "noted")
        )
    }

    fn changed_by_itself(&self) -> Option<Trigger> {
        let column = |index: usize| quoted(&self.table.columns[index].name);
        let references: Vec<String> = self
            .table
            .followed_by_itself
            .iter()
            .map(|pairs| {
                let itself = pairs.iter().map(|(from, to)| format!("OLD.{} = OLD.{}", column(*from), column(*to)));
                let moved = pairs.iter().map(|(_, to)| format!("OLD.{0} IS NOT NEW.{0}", column(*to)));
                let (itself, moved): (Vec<_>, Vec<_>) = (itself.collect(), moved.collect());
                format!("({} AND ({}))", itself.join(" AND "), moved.join(" OR "))
            })
            .collect();
        let reload = format!(
            "INSERT INTO drover_change (table_id, kind, at) VALUES ({}, {}, julianday())",
            self.id,
            Kind::Reload as i64
        );
        let reason = literal(&format!("a row of main.{} that refers to itself got another key", self.table.name));
        let register = format!(
            "UPDATE drover_table SET reload = (SELECT max(seq) FROM drover_change), reason = {reason} WHERE id = {}",
            self.id
        );
        (!references.is_empty()).then(|| {
            self.trigger("update_itself", "AFTER UPDATE", Some(references.join(" OR ")), vec![reload, register])
        })
    }

    /// Columns of the identity, where it has columns.
    fn moving_columns(&self) -> Option<String> {
        let column = |index: &usize| quoted(&self.table.columns[*index].name);
        match &self.identity {
            Identity::Rowid(_) => self.table.rowid_column.as_ref().map(column),
            Identity::PrimaryKey(key) => Some(key.iter().map(column).collect::<Vec<_>>().join(", ")),
        }
    }

    fn mark_moving(&self) -> String {
        format!(
            "UPDATE drover_pending SET moving = 1 WHERE n IN (SELECT noted.n FROM drover_pending AS noted \
             WHERE noted.table_id = {} AND {} AND NOT ({}))",
            self.id,
            self.same_row("OLD.", "noted"),
            self.same_row("NEW.", "noted")
        )
    }

    fn refresh_notes(&self) -> String {
        let values = self.values("NEW.").into_iter().enumerate();
        let mut assignments: Vec<String> = values.map(|(place, value)| format!("c{place} = {value}")).collect();
        assignments.push("moving = NULL".to_owned());
        if let Identity::Rowid(rowid) = &self.identity {
            assignments.push(format!("identity = NEW.{rowid}"));
        }
        format!(
            "UPDATE drover_pending SET {} WHERE n IN (SELECT noted.n FROM drover_pending AS noted WHERE noted.table_id = {} AND {})",
            assignments.join(", "),
            self.id,
            self.same_row("OLD.", "noted")
        )
    }

    /// The condition that the row behind `prefix` is the noted one.
    fn same_row(&self, prefix: &str, noted: &str) -> String {
        match &self.identity {
            Identity::Rowid(rowid) => format!("{prefix}{rowid} = {noted}.identity"),
            Identity::PrimaryKey(key) => {
                let parts: Vec<String> = key
                    .iter()
                    .map(|part| {
                        let column = &self.table.columns[*part].name;
                        let collation = self.key_collation(column);
                        format!("{prefix}{} = {noted}.c{part}{collation}", quoted(column))
                    })
                    .collect();
                parts.join(" AND ")
            }
        }
    }

    fn key_collation(&self, column: &str) -> String {
        let key = self.table.unique.iter().find(|index| index.is_primary_key);
        let part = key.and_then(|key| key.columns.iter().find(|part| part.column.as_deref() == Some(column)));
        part.map(|part| collate(&part.collation)).unwrap_or_default()
    }

    /// One condition per unique key, on rows of the table, that the new row is in conflict with them.
    fn conflicts(&self, updating: bool) -> Vec<String> {
        let name = &self.name;
        let other = if updating { format!(" AND NOT ({})", self.same_row_of_table("OLD.")) } else { String::new() };
        let mut conflicts = Vec::new();
        if let Identity::Rowid(rowid) = &self.identity {
            // A rowid without a column can be given by an insert; an update that moves it is not seen.
            if !updating || self.table.rowid_column.is_some() {
                conflicts.push(format!("{name}.{rowid} = NEW.{rowid}{other}"));
            }
        }
        for index in &self.table.unique {
            let mut terms: Vec<String> = index.predicate.iter().map(|predicate| format!("({predicate})")).collect();
            terms.extend(index.columns.iter().map(|part| match &part.column {
                Some(column) => {
                    format!("{name}.{} = {}{}", quoted(column), self.new_value(column), collate(&part.collation))
                }
                None => format!(
                    "({}) = (SELECT {} FROM (SELECT {})){}",
                    part.expression,
                    part.expression,
                    self.new_row(),
                    collate(&part.collation)
                ),
            }));
            conflicts.push(format!("{}{other}", terms.join(" AND ")));
        }
        conflicts
    }

    fn same_row_of_table(&self, prefix: &str) -> String {
        let name = &self.name;
        match &self.identity {
            Identity::Rowid(rowid) => format!("{name}.{rowid} = {prefix}{rowid}"),
            Identity::PrimaryKey(key) => {
                let parts = key.iter().map(|part| quoted(&self.table.columns[*part].name));
                parts.map(|column| format!("{name}.{column} = {prefix}{column}")).collect::<Vec<_>>().join(" AND ")
            }
        }
    }

    /// OR REPLACE puts the default in place of a NULL that a column does not take, after the BEFORE trigger.
    fn new_value(&self, column: &str) -> String {
        let value = format!("NEW.{}", quoted(column));
        let facts = self.table.column(column).map(|index| &self.table.columns[index]);
        match facts.and_then(|facts| facts.default.as_ref().filter(|_| facts.not_null)) {
            Some(default) => format!("coalesce({value}, ({default}))"),
            None => value,
        }
    }

    /// The new row under its columns' names, for expressions that were written over them.
    fn new_row(&self) -> String {
        let columns = self.table.columns.iter().map(|column| quoted(&column.name));
        columns.map(|column| format!("NEW.{column} AS {column}")).collect::<Vec<_>>().join(", ")
    }

    /// ` OF a, b` when an update of other columns can't lead to a conflict.
    fn watched_columns(&self) -> String {
        let plain = |index: &UniqueIndex| {
            let columns = self.table.plain_columns(index).filter(|_| index.predicate.is_none())?;
            columns.iter().all(|column| self.table.columns[*column].generation == Generation::None).then_some(columns)
        };
        let mut watched: Vec<usize> = self.table.rowid_column.into_iter().collect();
        for index in &self.table.unique {
            match plain(index) {
                Some(columns) => watched.extend(columns),
                None => return String::new(),
            }
        }
        watched.sort_unstable();
        watched.dedup();
        let names: Vec<String> = watched.iter().map(|column| quoted(&self.table.columns[*column].name)).collect();
        format!(" OF {}", names.join(", "))
    }
}

fn change_columns(count: usize) -> String {
    (0..count).map(|place| format!("c{place}")).collect::<Vec<_>>().join(", ")
}

/// Always written out: the column's own collation, which counts otherwise, may be another one than the index's.
fn collate(collation: &str) -> String {
    format!(" COLLATE {}", quoted(collation))
}
