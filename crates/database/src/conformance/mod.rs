//! What every database plug must do, as one list of named cases.
//!
//! A plug describes itself as a [`Subject`], which makes [`Instance`]s: fresh databases that belong to one case alone. An
//! instance speaks for the *users* of that database: what it writes and reads, it writes and reads by the product's own
//! SQL, never through our doors, so that expected values come from the product. [`conformance_tests!`](crate::conformance_tests)
//! turns the list into tests:
//!
//! `database::conformance_tests!(Sqlite);`
//!
//! A case may need a [`Capability`]. It is skipped only for a subject that declares, with a reason, that it lacks it, and
//! the reason is printed.
//!
//! Cases wait for conditions, never for time: to know that everything has arrived, a case commits a mark of its own and
//! reads until the mark comes.

mod applier;
mod apply;
mod catalog;
mod checkpoint;
mod expectation;
mod hostile;
mod image;
mod list;
mod plan;
mod stage;
mod stream;
mod together;

use crate::Database;
use change::{Column, Operation, Row, TableDefinition, TableName};
use std::sync::Arc;

/// The kinds of columns that every database has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Whole numbers of 64 bits.
    Integer,
    /// Characters of any number.
    Text,
    /// Bytes of any number.
    Binary,
}

/// Something that not every database can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Capability {
    /// Each transaction of a user arrives as a transaction of its own. Without it, neighbouring ones may arrive as one.
    TransactionBoundaries,
    /// Updates and deletes tell the whole old row.
    WholeOldRow,
    /// A truncation arrives as [`Operation::Truncate`]. Without it, it arrives as a deletion of each row.
    TruncateIsTold,
    /// A column of a table's key may hold NULL.
    NullInKey,
    /// There are schemas beside the default one; [`Instance::create_table`] creates those that it needs.
    Schemas,
    /// [`Instance::create_reference`] works.
    ForeignKeys,
    /// [`Instance::backup`] and [`Instance::restore`] work.
    Backup,
    /// [`Instance::crash`] works.
    Crash,
}

/// A database product, under one configuration.
pub trait Subject {
    /// For messages.
    fn name(&self) -> String;

    /// What it can't do, each with the reason.
    fn lacks(&self) -> Vec<(Capability, &'static str)>;

    /// A fresh, empty database. No two of them take each other's positions.
    fn create(&self) -> Box<dyn Instance>;
}

/// One database, seen by its users. Methods panic when the database refuses: no case lets a user do what is forbidden.
pub trait Instance {
    /// The doors under test. Each call may return a new handle of the same database.
    fn database(&self) -> Arc<dyn Database>;

    /// A nullable column outside the key, of the kind's plainest type, as the catalog of this database describes it.
    fn column(&self, name: &str, kind: Kind) -> Column;

    /// The canonical form of a whole number in a column of [`Kind::Integer`].
    fn integer(&self, value: i64) -> Vec<u8>;

    /// The canonical form of characters in a column of [`Kind::Text`].
    fn text(&self, value: &str) -> Vec<u8>;

    /// The canonical form of bytes in a column of [`Kind::Binary`].
    fn binary(&self, value: &[u8]) -> Vec<u8>;

    /// Further types with values in canonical form, the odd ones above all; a value that is `None` is NULL. They must come
    /// out of a stream, go into a table by a session, and be read by a user byte for byte equal.
    fn samples(&self) -> Vec<(Column, Vec<Option<Vec<u8>>>)> {
        Vec::new()
    }

    /// Creates a table whose columns came from [`column`](Instance::column) or [`samples`](Instance::samples), some of
    /// them marked as key. `unique` lists the columns of further unique keys.
    fn create_table(&self, table: &TableDefinition, unique: &[Vec<usize>]);

    /// Creates a foreign key from `columns` of `table` to the key of `parent`. Deletions do not cascade.
    fn create_reference(&self, table: &TableName, columns: &[usize], parent: &TableName) {
        let _ = (table, columns, parent);
        unimplemented_capability(Capability::ForeignKeys)
    }

    /// Makes one committed transaction as a user. Rows hold values in canonical form. An update without an old row finds
    /// its row by the key of the new one; a value of a new row that is [`Value::Unchanged`](change::Value::Unchanged) is
    /// not assigned.
    fn write(&self, operations: &[(TableName, Operation)]);

    /// All rows that a user sees, in any order, values in canonical form.
    fn rows(&self, table: &TableName) -> Vec<Row>;

    /// Lets the database crash and start again.
    fn crash(&self) {
        unimplemented_capability(Capability::Crash)
    }

    /// Remembers the database as it is now.
    fn backup(&self) {
        unimplemented_capability(Capability::Backup)
    }

    /// Puts the database back to what [`backup`](Instance::backup) remembered, by the product's usual way of doing so.
    fn restore(&self) {
        unimplemented_capability(Capability::Backup)
    }
}

fn unimplemented_capability(capability: Capability) {
    panic!("the subject must implement or lack {capability:?}");
}

/// One thing that every database must do.
pub struct Case {
    /// What it must do, in words joined by underscores.
    pub name: &'static str,
    /// What it needs that not every database has.
    pub needs: &'static [Capability],
    body: fn(&dyn Subject),
}

/// How a case ended that did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It was run.
    Passed,
    /// It was not run.
    Skipped {
        /// What the subject lacks.
        lacks: Capability,
        /// Why it lacks that.
        reason: &'static str,
    },
}

impl Case {
    /// Runs the case on a fresh database of `subject`.
    ///
    /// # Panics
    /// When the subject does not do what the case asks for.
    pub fn run(&self, subject: &dyn Subject) -> Verdict {
        match subject.lacks().into_iter().find(|(lacks, _)| self.needs.contains(lacks)) {
            Some((lacks, reason)) => Verdict::Skipped { lacks, reason },
            None => {
                (self.body)(subject);
                Verdict::Passed
            }
        }
    }
}

/// All cases.
pub fn cases() -> &'static [Case] {
    crate::conformance_list! { conformance_table () }
}

/// Runs the case called `name` and prints why when it is skipped.
///
/// # Panics
/// When there is no such case, or when the subject does not do what it asks for.
pub fn run(subject: &dyn Subject, name: &str) -> Verdict {
    let case = cases().iter().find(|case| case.name == name).expect("a case of this name exists");
    let verdict = case.run(subject);
    if let Verdict::Skipped { lacks, reason } = verdict {
        println!("{name} is skipped for {}: it lacks {lacks:?}: {reason}", subject.name());
    }
    verdict
}
