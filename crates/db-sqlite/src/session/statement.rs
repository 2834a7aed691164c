//! Statements of one plan.

use super::missing_row;
use crate::catalog::{Identity, Table};
use crate::error::{failed, rejection};
use crate::name::{literal, quoted};
use crate::value;
use change::{Operation, Row, RowBuilder, Value};
use database::{ApplyError, ColumnPair, Error, ErrorClass, OnDuplicate, Outcome, Rejection, TablePlan};
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{CachedStatement, Connection};
use std::sync::Arc;

/// SQL texts of one plan. Prepared statements live in the connection's cache.
///
/// `OR ABORT` everywhere: a conflict clause in the table's own definition (`UNIQUE ON CONFLICT REPLACE`) would remove or
/// skip rows silently. What such a clause removed at the source arrives as deletions of its own.
pub(super) struct PlanStatements {
    plan: Arc<TablePlan>,
    table: String,
    insert: String,
    /// All columns outside the key; empty when there are none.
    update_rest: String,
    update_all: String,
    delete: String,
    truncate: String,
    /// Lets AUTOINCREMENT start anew, where the table has it.
    restart: Option<String>,
    /// Target column names in quotes, one per pair of the plan.
    columns: Vec<String>,
    /// Indexes into the plan's columns of those outside the key.
    rest: Vec<usize>,
    by_key: String,
    /// Whether the key, without NULL in it, names at most one row.
    key_is_unique: bool,
    /// Names of a row's identity, for a statement that must touch one of several rows alike.
    identity: Option<String>,
    /// Per pair of the plan: whether equal values of different classes can be stored in the target column.
    keeps_class: Vec<bool>,
}

impl PlanStatements {
    pub(super) fn new(plan: Arc<TablePlan>, target: &Table) -> Result<PlanStatements, Error> {
        let name = |index: usize| -> Result<String, Error> {
            let column = plan.target.columns.get(index).filter(|column| target.column(&column.name).is_some());
            column.map(|column| quoted(&column.name)).ok_or_else(|| {
                Error::new(ErrorClass::Missing, format!("target table {} lacks a column of its plan", plan.target.name))
                    .with_next_step("the table was altered: restart the group")
            })
        };
        let columns = plan.columns.iter().map(|pair| name(pair.target)).collect::<Result<Vec<_>, _>>()?;
        let key = plan.key.iter().map(|pair| name(pair.target)).collect::<Result<Vec<_>, _>>()?;
        let in_key = |pair: &ColumnPair| plan.key.iter().any(|part| part.target == pair.target);
        let rest: Vec<usize> = (0..columns.len()).filter(|index| !in_key(&plan.columns[*index])).collect();
        let key_places: Vec<usize> =
            plan.key.iter().filter_map(|pair| target.column(&plan.target.columns.get(pair.target)?.name)).collect();
        let keeps_class = plan
            .columns
            .iter()
            .map(|pair| plan.target.columns.get(pair.target).is_some_and(|column| has_no_affinity(&column.native)))
            .collect();

        let table = format!("main.{}", quoted(&target.name));
        let by_key = key.iter().map(|column| format!("{column} IS ?")).collect::<Vec<_>>().join(" AND ");
        let all: Vec<usize> = (0..columns.len()).collect();
        Ok(PlanStatements {
            insert: insert_text(&table, &columns, &all),
            update_rest: update_text(&table, &columns, &rest, &by_key),
            update_all: update_text(&table, &columns, &all, &by_key),
            delete: format!("DELETE FROM {table} WHERE {by_key}"),
            truncate: format!("DELETE FROM {table}"),
            restart: target.autoincrement.then(|| {
                format!("DELETE FROM main.sqlite_sequence WHERE name = {} COLLATE NOCASE", literal(&target.name))
            }),
            key_is_unique: target.is_unique(&key_places),
            identity: target.identity().map(|identity| match identity {
                Identity::Rowid(name) => name,
                Identity::PrimaryKey(parts) => {
                    parts.iter().map(|part| quoted(&target.columns[*part].name)).collect::<Vec<_>>().join(", ")
                }
            }),
            table,
            columns,
            rest,
            by_key,
            keeps_class,
            plan,
        })
    }

    /// Applies one operation; `index` names it in a rejection.
    pub(super) fn apply(&self, open: &mut Open<'_>, operation: &Operation, index: usize) -> Result<(), ApplyError> {
        match operation {
            Operation::Insert { new } => self.insert(open, new, index),
            Operation::Update { old, new } => self.update(open, old.as_ref(), new, index),
            Operation::Delete { old } => self.delete(open, old, index),
            Operation::Truncate(options) => {
                self.execute(open, &self.truncate, index, |_| Ok(()))?;
                match &self.restart {
                    Some(restart) if options.restart_identity => {
                        self.execute(open, restart, index, |_| Ok(())).map(|_| ())
                    }
                    _ => Ok(()),
                }
            }
        }
    }

    fn insert(&self, open: &mut Open<'_>, new: &Row, index: usize) -> Result<(), ApplyError> {
        let present = self.present(new);
        let built;
        let sql = if self.plan.on_duplicate == OnDuplicate::Replace {
            built = format!("{}{}", insert_text(&self.table, &self.columns, &present), self.replacement(&present));
            &built
        } else if present.len() == self.columns.len() {
            &self.insert
        } else {
            built = insert_text(&self.table, &self.columns, &present);
            &built
        };
        let written = self.execute(open, sql, index, |binding| binding.columns(new, &present))?;
        if written == 1 {
            return Ok(());
        }
        // Only a trigger of the target that ignores the row leaves it out without an error.
        let detail = format!("a trigger of {} left the row out", self.plan.target.name);
        Err(ApplyError::Rejected(Rejection { index, outcome: Outcome::Constraint, detail, code: String::new() }))
    }

    /// What an insert says of a row that has the same key.
    fn replacement(&self, present: &[usize]) -> String {
        let name = |pair: &ColumnPair| quoted(&self.plan.target.columns[pair.target].name);
        let key = self.plan.key.iter().map(name).collect::<Vec<_>>().join(", ");
        let set = present.iter().filter(|column| self.rest.contains(column));
        let set: Vec<String> = set.map(|column| format!("{0} = excluded.{0}", self.columns[*column])).collect();
        let action = if set.is_empty() { "NOTHING".to_owned() } else { format!("UPDATE SET {}", set.join(", ")) };
        format!(" ON CONFLICT ({key}) DO {action}")
    }

    fn update(&self, open: &mut Open<'_>, old: Option<&Row>, new: &Row, index: usize) -> Result<(), ApplyError> {
        let before = old.unwrap_or(new);
        let key_moved = old.is_some_and(|old| {
            self.plan.key.iter().any(|pair| {
                let value = new.value(pair.source);
                value.is_present() && value != old.value(pair.source)
            })
        });
        let mut assigned = self.present(new);
        if !key_moved {
            assigned.retain(|column| self.rest.contains(column));
        }
        let found = self.find(before);
        let built;
        let sql = match &found {
            Find::Key if !key_moved && assigned.len() == self.rest.len() && !assigned.is_empty() => &self.update_rest,
            Find::Key if key_moved && assigned.len() == self.columns.len() => &self.update_all,
            Find::Key => {
                built = update_text(&self.table, &self.columns, &assigned, &self.by_key);
                &built
            }
            Find::One { condition, .. } => {
                built = update_text(&self.table, &self.columns, &assigned, condition);
                &built
            }
            Find::Impossible => return Err(self.cannot_find().into()),
        };
        let written = self.execute(open, sql, index, |binding| {
            binding.columns(new, &assigned)?;
            binding.find(before, &found)
        })?;
        if written == 0 { Err(missing_row(&self.plan.target.name, index)) } else { Ok(()) }
    }

    fn delete(&self, open: &mut Open<'_>, old: &Row, index: usize) -> Result<(), ApplyError> {
        let found = self.find(old);
        let built;
        let sql = match &found {
            Find::Key => &self.delete,
            Find::One { condition, .. } => {
                built = format!("DELETE FROM {} WHERE {condition}", self.table);
                &built
            }
            Find::Impossible => return Err(self.cannot_find().into()),
        };
        let written = self.execute(open, sql, index, |binding| binding.find(old, &found))?;
        if written == 0 { Err(missing_row(&self.plan.target.name, index)) } else { Ok(()) }
    }

    /// The row that has the key of `image`, in the shape and notation of the plan's source.
    pub(super) fn row(&self, connection: &Connection, image: &Row) -> Result<Option<Row>, Error> {
        let what = || format!("could not read a row of {}", self.plan.target.name);
        let names = if self.columns.is_empty() { "1".to_owned() } else { self.columns.join(", ") };
        let condition = if self.by_key.is_empty() { "1" } else { &self.by_key };
        let sql = format!("SELECT {names} FROM {} WHERE {condition} LIMIT 1", self.table);
        let read = || -> Result<Option<Row>, Unfit> {
            let mut statement = connection.prepare_cached(&sql).map_err(Unfit::Call)?;
            let mut binding = Binding { statements: self, statement: &mut statement, place: 0 };
            binding.find(image, &Find::Key)?;
            let mut rows = statement.raw_query();
            let Some(found) = rows.next().map_err(Unfit::Call)? else { return Ok(None) };
            let mut row = RowBuilder::new();
            for (source, column) in self.plan.source.columns.iter().enumerate() {
                match self.plan.columns.iter().position(|pair| pair.source == source) {
                    Some(place) => value::push_as(&mut row, column.logical, found.get_ref(place).map_err(Unfit::Call)?),
                    None => row.push(Value::Unchanged),
                }
            }
            Ok(Some(row.finish()))
        };
        match read() {
            Ok(row) => Ok(row),
            // What the table can't hold it does not hold.
            Err(Unfit::Value { .. }) => Ok(None),
            Err(Unfit::Call(cause)) => Err(failed(what(), cause)),
        }
    }

    fn present(&self, row: &Row) -> Vec<usize> {
        let pairs = self.plan.columns.iter().enumerate();
        pairs.filter(|(_, pair)| row.value(pair.source).is_present()).map(|(index, _)| index).collect()
    }

    /// How to find the row: by its key where that names one row, else one row of those that equal everything we know.
    fn find(&self, before: &Row) -> Find {
        let has_null = self.plan.key.iter().any(|pair| before.value(pair.source) == Value::Null);
        if self.key_is_unique && !has_null {
            return Find::Key;
        }
        let Some(identity) = &self.identity else { return Find::Impossible };
        let mut compared = Vec::new();
        let mut conditions = Vec::new();
        if !self.by_key.is_empty() {
            conditions.push(self.by_key.clone());
        }
        for (index, pair) in self.plan.columns.iter().enumerate() {
            if before.value(pair.source).is_present() {
                compared.push(index);
                let column = &self.columns[index];
                conditions.push(format!("{column} COLLATE BINARY IS ?"));
                if self.keeps_class[index] {
                    conditions.push(format!("typeof({column}) = typeof(?)"));
                }
            }
        }
        if conditions.is_empty() {
            return Find::Impossible;
        }
        let table = &self.table;
        let condition =
            format!("({identity}) = (SELECT {identity} FROM {table} WHERE {} LIMIT 1)", conditions.join(" AND "));
        Find::One { condition, compared }
    }

    fn cannot_find(&self) -> Error {
        Error::new(ErrorClass::Unsupported, format!("could not tell the rows of {} apart", self.plan.target.name))
            .with_next_step("give the table a primary key, or name columns with KEYCOLS")
    }

    fn execute(
        &self,
        open: &mut Open<'_>,
        sql: &str,
        index: usize,
        bind: impl FnOnce(&mut Binding<'_, '_>) -> Result<(), Unfit>,
    ) -> Result<usize, ApplyError> {
        let what = || format!("could not write to {}", self.plan.target.name);
        let statement = open.statement(sql).map_err(|cause| failed(what(), cause))?;
        let mut binding = Binding { statements: self, statement, place: 0 };
        let bound = bind(&mut binding);
        let result = match bound {
            Ok(()) => statement.raw_execute(),
            Err(Unfit::Value { column }) => {
                let detail = format!("a value does not fit column {column} of {}", self.plan.target.name);
                return Err(ApplyError::Rejected(Rejection {
                    index,
                    outcome: Outcome::Value,
                    detail,
                    code: String::new(),
                }));
            }
            Err(Unfit::Call(cause)) => Err(cause),
        };
        result.map_err(|cause| match rejection(&cause, index) {
            Some(refused) => ApplyError::Rejected(refused),
            None => ApplyError::Failed(failed(what(), cause)),
        })
    }
}

/// Statements in use. A run of like operations takes each from the connection's cache once.
pub(super) struct Open<'connection> {
    connection: &'connection Connection,
    statements: Vec<(String, CachedStatement<'connection>)>,
}

/// Statements in use at the same time; a run that mixes more gives them back to the cache.
const OPEN_MAX: usize = 4;

impl<'connection> Open<'connection> {
    pub(super) fn new(connection: &'connection Connection) -> Open<'connection> {
        Open { connection, statements: Vec::new() }
    }

    fn statement(&mut self, sql: &str) -> rusqlite::Result<&mut CachedStatement<'connection>> {
        let place = match self.statements.iter().position(|(text, _)| text == sql) {
            Some(place) => place,
            None => {
                if self.statements.len() >= OPEN_MAX {
                    self.statements.clear();
                }
                self.statements.push((sql.to_owned(), self.connection.prepare_cached(sql)?));
                self.statements.len() - 1
            }
        };
        Ok(&mut self.statements[place].1)
    }
}

enum Find {
    /// By the key.
    Key,
    /// One row for which `condition` holds; it takes the key and then the `compared` columns.
    One {
        condition: String,
        compared: Vec<usize>,
    },
    Impossible,
}

enum Unfit {
    Value { column: String },
    Call(rusqlite::Error),
}

/// Binds values in the order in which the text asks for them.
struct Binding<'statement, 'connection> {
    statements: &'statement PlanStatements,
    statement: &'statement mut rusqlite::Statement<'connection>,
    place: usize,
}

impl Binding<'_, '_> {
    fn columns(&mut self, row: &Row, columns: &[usize]) -> Result<(), Unfit> {
        columns.iter().try_for_each(|column| self.value(row, self.statements.plan.columns[*column]))
    }

    fn find(&mut self, row: &Row, found: &Find) -> Result<(), Unfit> {
        for pair in &self.statements.plan.key {
            self.value(row, *pair)?;
        }
        if let Find::One { compared, .. } = found {
            for column in compared {
                let pair = self.statements.plan.columns[*column];
                self.value(row, pair)?;
                if self.statements.keeps_class[*column] {
                    self.value(row, pair)?;
                }
            }
        }
        Ok(())
    }

    fn value(&mut self, row: &Row, pair: ColumnPair) -> Result<(), Unfit> {
        let logical = self.statements.plan.source.columns[pair.source].logical;
        let stored: ValueRef<'_> = value::stored(logical, row.value(pair.source))
            .ok_or_else(|| Unfit::Value { column: self.statements.plan.target.columns[pair.target].name.clone() })?;
        self.place += 1;
        self.statement.raw_bind_parameter(self.place, ToSqlOutput::Borrowed(stored)).map_err(Unfit::Call)
    }
}

fn insert_text(table: &str, columns: &[String], present: &[usize]) -> String {
    if present.is_empty() {
        return format!("INSERT OR ABORT INTO {table} DEFAULT VALUES");
    }
    let names: Vec<&str> = present.iter().map(|index| columns[*index].as_str()).collect();
    let places = vec!["?"; names.len()];
    format!("INSERT OR ABORT INTO {table} ({}) VALUES ({})", names.join(", "), places.join(", "))
}

/// An update of nothing still tells whether the row is there.
fn update_text(table: &str, columns: &[String], assigned: &[usize], condition: &str) -> String {
    let mut assignments: Vec<String> = assigned.iter().map(|index| format!("{} = ?", columns[*index])).collect();
    if let (true, Some(column)) = (assignments.is_empty(), columns.first()) {
        assignments.push(format!("{column} = {column}"));
    }
    format!("UPDATE OR ABORT {table} SET {} WHERE {condition}", assignments.join(", "))
}

/// Whether a column of this declared type stores values as they come (SQLite, *Determination Of Column Affinity*). In
/// any other, 1 and 1.0 are stored alike.
fn has_no_affinity(native: &str) -> bool {
    let native = native.to_ascii_uppercase();
    let holds = |word: &str| native.contains(word);
    !holds("INT")
        && !holds("CHAR")
        && !holds("CLOB")
        && !holds("TEXT")
        && (native.is_empty() || holds("BLOB") || native == "ANY")
}
