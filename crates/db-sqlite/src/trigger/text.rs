//! SQL of the triggers on one table.
//!
//! They run inside the user's own process, under whatever version of SQLite that has, so the text keeps to what has been
//! there since WITHOUT ROWID tables (3.8.2). What they do about rows that a statement replaces is told in [`note`](super::note).
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

/// Columns at most: notes need one table column for each, and SQLite's default limit is 2000.
const COLUMNS_MAX: usize = 1900;

/// A trigger to create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Trigger {
    pub(super) name: String,
    pub(super) sql: String,
}

/// Names that triggers of table `id` may have, of this and any earlier version.
pub(super) fn names(id: i64) -> [String; 11] {
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
        "delete_replaced",
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

/// Writes the triggers of one table.
pub(super) struct Writer<'a> {
    pub(super) table: &'a Table,
    pub(super) id: i64,
    pub(super) nesting: Nesting,
    pub(super) identity: Identity,
    /// The table's name in quotes.
    pub(super) name: String,
}

impl Writer<'_> {
    /// The newest fires first, so what is to run first comes last: replaced rows are recorded before the row that
    /// replaced them.
    fn all(&self) -> Vec<Trigger> {
        let new = self.values("NEW.");
        let old = self.values("OLD.");
        let both: Vec<String> = old.iter().chain(&new).cloned().collect();
        let with_note = |record: String| std::iter::once(record).chain(self.note_written()).collect();
        let mut triggers = vec![
            self.trigger("insert", "AFTER INSERT", None, with_note(self.record(Kind::Insert, &new))),
            self.trigger("update", "AFTER UPDATE", None, with_note(self.record(Kind::Update, &both))),
            self.trigger("delete", "AFTER DELETE", None, vec![self.record(Kind::Delete, &old)]),
        ];
        if !change::sabotage::is_on("forget-replaced-rows") {
            triggers.extend(self.replacement_triggers());
        }
        triggers.extend(self.changed_by_itself());
        triggers
    }

    pub(super) fn trigger(&self, part: &str, event: &str, when: Option<String>, body: Vec<String>) -> Trigger {
        let name = format!("drover_{}_{part}", self.id);
        let when = when.map(|condition| format!(" WHEN {condition}")).unwrap_or_default();
        let sql = format!(
            "CREATE TRIGGER {name} {event} ON {}{when} BEGIN {} END",
            self.name,
            body.iter().map(|statement| format!("{statement};")).collect::<Vec<_>>().join(" ")
        );
        Trigger { name, sql }
    }

    pub(super) fn values(&self, prefix: &str) -> Vec<String> {
        self.table.columns.iter().map(|column| format!("{prefix}{}", quoted(&column.name))).collect()
    }

    /// Writes a change as one row of the change table, or as several for a wide table.
    fn record(&self, kind: Kind, values: &[String]) -> String {
        let rows: Vec<String> = values
            .chunks(WIDTH_MAX)
            .enumerate()
            .map(|(place, chunk)| {
                let kind = if place == 0 { kind } else { Kind::More } as i64;
                let (columns, values) = (value_columns(chunk.len()), chunk.join(", "));
                format!(
                    "INSERT INTO drover_change (table_id, kind, at, {columns}) VALUES ({}, {kind}, julianday(), {values})",
                    self.id
                )
            })
            .collect();
        rows.join("; ")
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

    /// One condition per unique key, on rows of the table, that the new row is in conflict with them.
    pub(super) fn conflicts(&self, updating: bool) -> Vec<String> {
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
    pub(super) fn watched_columns(&self) -> String {
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

/// The first `count` value columns of the change table or of the notes.
pub(super) fn value_columns(count: usize) -> String {
    (0..count).map(|place| format!("c{place}")).collect::<Vec<_>>().join(", ")
}

/// Always written out: the column's own collation, which counts otherwise, may be another one than the index's.
pub(super) fn collate(collation: &str) -> String {
    format!(" COLLATE {}", quoted(collation))
}
