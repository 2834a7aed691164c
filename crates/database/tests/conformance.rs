//! The in-memory engine does what every database must do.

use change::{Column, LogicalType, Operation, Row, TableDefinition, TableName};
use database::conformance::{Capability, Instance, Kind, Subject};
use database::memory::{Backup, MemoryDatabase, MemoryOptions, OldImage, Reference};
use database::{ApplyError, Database};
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

struct Memory {
    old_image: OldImage,
    batch_events: usize,
}

struct MemoryInstance {
    database: MemoryDatabase,
    backup: RefCell<Option<Backup>>,
}

impl Subject for Memory {
    fn name(&self) -> String {
        format!("the in-memory engine, old image {:?}", self.old_image)
    }

    fn lacks(&self) -> Vec<(Capability, &'static str)> {
        match self.old_image {
            OldImage::Row => Vec::new(),
            OldImage::Key => vec![(Capability::WholeOldRow, "it was told to log old keys only")],
        }
    }

    fn create(&self) -> Box<dyn Instance> {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let name = format!("memory {}", NUMBER.fetch_add(1, Ordering::Relaxed));
        let options =
            MemoryOptions { old_image: self.old_image, batch_events: self.batch_events, ..MemoryOptions::new(name) };
        Box::new(MemoryInstance { database: MemoryDatabase::new(options), backup: RefCell::default() })
    }
}

#[track_caller]
fn succeed<T>(result: Result<T, ApplyError>) -> T {
    result.unwrap_or_else(|error| panic!("a user's write is refused: {error:?}"))
}

impl Instance for MemoryInstance {
    fn database(&self) -> Arc<dyn Database> {
        Arc::new(self.database.clone())
    }

    fn column(&self, name: &str, kind: Kind) -> Column {
        let (logical, native) = match kind {
            Kind::Integer => (LogicalType::Integer, "integer"),
            Kind::Text => (LogicalType::Text, "text"),
            Kind::Binary => (LogicalType::Binary, "binary"),
        };
        Column::new(name, logical, native)
    }

    fn integer(&self, value: i64) -> Vec<u8> {
        value.to_string().into_bytes()
    }

    fn text(&self, value: &str) -> Vec<u8> {
        value.into()
    }

    fn binary(&self, value: &[u8]) -> Vec<u8> {
        value.into()
    }

    fn samples(&self) -> Vec<(Column, Vec<Option<Vec<u8>>>)> {
        let sample = |name, logical, values: &[&str]| {
            let values = values.iter().map(|value| Some(value.as_bytes().to_vec())).chain([None]).collect();
            (Column::new(name, logical, name), values)
        };
        vec![
            sample("float", LogicalType::Float, &["0", "-0", "1e-320", "NaN", "Infinity"]),
            sample("dynamic", LogicalType::Dynamic, &["i1", "r1.0", "t1", "b1", "t", "b"]),
        ]
    }

    fn create_table(&self, table: &TableDefinition, unique: &[Vec<usize>]) {
        self.database.create_table(table.clone(), unique).expect("the table can be created");
    }

    fn create_reference(&self, table: &TableName, columns: &[usize], parent: &TableName) {
        let parents = self.database.tables().expect("tables are listed");
        let parent_columns = parents.iter().find(|table| table.name == *parent).expect("the parent is there").key();
        let columns = columns.to_vec();
        let reference = Reference { table: table.clone(), columns, parent: parent.clone(), parent_columns };
        self.database.create_reference(reference);
    }

    fn write(&self, operations: &[(TableName, Operation)]) {
        succeed(self.database.write(|transaction| {
            operations.iter().try_for_each(|(table, operation)| transaction.perform(table, operation))
        }));
    }

    fn rows(&self, table: &TableName) -> Vec<Row> {
        self.database.rows(table)
    }

    fn crash(&self) {
        self.database.crash();
    }

    fn backup(&self) {
        *self.backup.borrow_mut() = Some(self.database.backup().expect("no transaction is open"));
    }

    fn restore(&self) {
        self.database.restore(self.backup.borrow().as_ref().expect("a backup was made"));
    }
}

mod with_whole_old_rows {
    use super::{Memory, OldImage};

    database::conformance_tests!(Memory { old_image: OldImage::Row, batch_events: 1000 });
}

mod with_old_keys_and_tiny_batches {
    use super::{Memory, OldImage};

    database::conformance_tests!(Memory { old_image: OldImage::Key, batch_events: 1 });
}
