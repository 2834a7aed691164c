//! How rows are told that a statement replaces.
//!
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
//! that is about to move is marked, and the note of one that is about to be deleted is dropped, beforehand. They may even
//! delete the row that the statement was about to write, which then ends without an AFTER trigger of its own: so a deletion
//! records what is gone, too.

use super::object::{Kind, WIDTH_MAX};
use super::text::{Nesting, Trigger, Writer, collate, value_columns};
use crate::catalog::Identity;
use crate::name::quoted;

/// Notes kept for statements inside statements: more than any table has unique indexes times levels that make sense.
const NOTES_KEPT: usize = 32;

/// After what noted rows are looked at.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Event {
    Insert,
    Update,
    Delete,
}

impl Writer<'_> {
    pub(super) fn replacement_triggers(&self) -> Vec<Trigger> {
        let noted = || Some(format!("EXISTS (SELECT 1 FROM drover_pending WHERE table_id = {})", self.id));
        let settle = |part: &str, time: &str, event| self.trigger(part, time, noted(), self.settle(event));
        let mut triggers = Vec::new();
        let conflicts = self.conflicts(false);
        if !conflicts.is_empty() {
            triggers.push(self.before("insert_before", "BEFORE INSERT", &conflicts));
            triggers.push(settle("insert_replaced", "AFTER INSERT", Event::Insert));
        }
        let conflicts = self.conflicts(true);
        let watched = self.watched_columns();
        if !conflicts.is_empty() {
            triggers.push(self.before("update_before", &format!("BEFORE UPDATE{watched}"), &conflicts));
        }
        if self.nests() {
            // Notes are kept in step with their rows at every update.
            triggers.push(settle("update_replaced", "AFTER UPDATE", Event::Update));
            triggers.push(settle("delete_replaced", "AFTER DELETE", Event::Delete));
            triggers.push(self.trigger("delete_before", "BEFORE DELETE", noted(), vec![self.drop_note()]));
            triggers.extend(self.moving_columns().map(|columns| {
                let event = format!("BEFORE UPDATE OF {columns}");
                self.trigger("update_moving", &event, noted(), vec![self.mark_moving()])
            }));
        } else if !conflicts.is_empty() {
            triggers.push(settle("update_replaced", &format!("AFTER UPDATE{watched}"), Event::Update));
        }
        triggers
    }

    fn nests(&self) -> bool {
        self.nesting > Nesting::None
    }

    /// Notes the rows for which one of `conflicts` holds.
    fn before(&self, part: &str, event: &str, conflicts: &[String]) -> Trigger {
        let Writer { id, name, .. } = self;
        let when: Vec<String> =
            conflicts.iter().map(|conflict| format!("EXISTS (SELECT 1 FROM {name} WHERE {conflict})")).collect();
        let identity = match &self.identity {
            Identity::Rowid(rowid) => format!("{name}.{rowid}"),
            Identity::PrimaryKey(_) => "NULL".to_owned(),
        };
        let any: Vec<String> = conflicts.iter().map(|conflict| format!("({conflict})")).collect();
        let note = format!(
            "INSERT INTO drover_pending (table_id, behind, identity, {}) \
             SELECT {id}, (SELECT max(seq) FROM drover_change), {identity}, {} FROM {name} WHERE {}",
            value_columns(self.table.columns.len()),
            self.values(&format!("{name}.")).join(", "),
            any.join(" OR ")
        );
        self.trigger(part, event, Some(when.join(" OR ")), vec![self.tidy(), note])
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

    /// Notes the row that was written, where triggers of the user's may write rows that an outer statement replaces.
    pub(super) fn note_written(&self) -> Vec<String> {
        if self.nesting != Nesting::BeforeTriggers {
            return Vec::new();
        }
        let identity = match &self.identity {
            Identity::Rowid(rowid) => format!("NEW.{rowid}"),
            Identity::PrimaryKey(_) => "NULL".to_owned(),
        };
        let (columns, values) = (value_columns(self.table.columns.len()), self.values("NEW.").join(", "));
        let id = self.id;
        vec![
            self.tidy(),
            format!("INSERT INTO drover_pending (table_id, identity, {columns}) VALUES ({id}, {identity}, {values})"),
        ]
    }

    /// Records noted rows that are gone, and drops their notes.
    fn settle(&self, event: Event) -> Vec<String> {
        let Writer { id, name, .. } = self;
        let gone = format!("NOT EXISTS (SELECT 1 FROM {name} WHERE {})", self.same_row(&format!("{name}."), "noted"));
        let taken = self.same_row("NEW.", "noted");
        let replaced = match event {
            Event::Insert => format!("({taken} OR {gone})"),
            Event::Update => format!("NOT ({}) AND ({taken} OR {gone})", self.same_row("OLD.", "noted")),
            Event::Delete => gone,
        };
        if !self.nests() {
            let current = "noted.behind = (SELECT max(seq) FROM drover_change)";
            return vec![
                self.record_noted(&format!("noted.table_id = {id} AND {current} AND {replaced}")),
                format!("DELETE FROM drover_pending WHERE table_id = {id}"),
            ];
        }
        let replaced = format!("noted.table_id = {id} AND noted.moving IS NULL AND {replaced}");
        let mut statements = vec![
            self.record_noted(&format!("{replaced} AND {}", self.is_newest_note())),
            format!("DELETE FROM drover_pending WHERE n IN (SELECT n FROM drover_pending AS noted WHERE {replaced})"),
        ];
        statements.extend((event == Event::Update).then(|| self.refresh_notes()));
        statements
    }

    fn is_newest_note(&self) -> String {
        let same = match &self.identity {
            Identity::Rowid(_) => "newer.identity = noted.identity".to_owned(),
            Identity::PrimaryKey(key) => {
                key.iter().map(|part| format!("newer.c{part} = noted.c{part}")).collect::<Vec<_>>().join(" AND ")
            }
        };
        let id = self.id;
        format!(
            "NOT EXISTS (SELECT 1 FROM drover_pending AS newer WHERE newer.table_id = {id} AND newer.n > noted.n AND {same})"
        )
    }

    /// Writes the noted rows for which `condition` holds as deletions, all parts of one row behind each other.
    fn record_noted(&self, condition: &str) -> String {
        let values: Vec<String> = (0..self.table.columns.len()).map(|place| format!("noted.c{place}")).collect();
        let width = values.len().min(WIDTH_MAX);
        let parts: Vec<String> = values
            .chunks(WIDTH_MAX)
            .enumerate()
            .map(|(part, chunk)| {
                let kind = if part == 0 { Kind::Delete } else { Kind::More } as i64;
                let mut values: Vec<&str> = chunk.iter().map(String::as_str).collect();
                values.resize(width, "NULL");
                format!(
                    "SELECT noted.n AS n, {part} AS part, {kind} AS kind, {} FROM drover_pending AS noted WHERE {condition}",
                    values.iter().enumerate().map(|(place, value)| format!("{value} AS v{place}")).collect::<Vec<_>>().join(", ")
                )
            })
            .collect();
        let columns: Vec<String> = (0..width).map(|place| format!("v{place}")).collect();
        format!(
            "INSERT INTO drover_change (table_id, kind, at, {}) SELECT {}, kind, julianday(), {} FROM ({}) ORDER BY n, part",
            value_columns(width),
            self.id,
            columns.join(", "),
            parts.join(" UNION ALL ")
        )
    }

    fn drop_note(&self) -> String {
        format!(
            "DELETE FROM drover_pending WHERE n IN (SELECT noted.n FROM drover_pending AS noted WHERE noted.table_id = {} AND {})",
            self.id,
            self.same_row("OLD.", "noted")
        )
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
}
