//! What users do in the simulated source.

use change::{Column, LogicalType, Operation, Row, RowBuilder, TableDefinition, TableName, Value};
use database::memory::{MemoryDatabase, MemoryTransaction};
use database::{ApplyError, ErrorClass};
use fastrand::Rng;

/// Keys are few, so that rows meet often.
const KEYS: u64 = 12;

/// A table of the simulated shop.
pub(super) struct Table {
    pub(super) source: TableDefinition,
    /// The same table at the target, `None` when it is not replicated.
    pub(super) target: Option<TableDefinition>,
    /// Extra unique keys, as column indexes, the same on both sides.
    pub(super) unique: Vec<Vec<usize>>,
}

fn column(name: &str) -> Column {
    Column::new(name, LogicalType::Text, "text")
}

fn definition(name: &str, columns: Vec<Column>) -> TableDefinition {
    TableDefinition { name: TableName::new("main", name), columns: columns.into() }
}

/// The tables that a run starts with.
pub(super) fn tables() -> Vec<Table> {
    let key = |name: &str, place| Column { nullable: false, ..column(name).with_key(place) };
    let same = |source: TableDefinition| Table { target: Some(source.clone()), source, unique: Vec::new() };
    vec![
        same(definition("item", vec![key("id", 0), column("name"), column("note")])),
        // A key of two columns, not in column order; at the target the columns stand in another order, with one more.
        Table {
            source: definition("line", vec![key("number", 1), column("amount"), key("item", 0), column("picture")]),
            target: Some(definition(
                "line",
                vec![key("item", 0), column("picture"), column("only_here"), key("number", 1), column("amount")],
            )),
            unique: Vec::new(),
        },
        // A second unique column whose values move between rows: order matters within a transaction.
        Table { unique: vec![vec![1]], ..same(definition("seat", vec![key("id", 0), column("place")])) },
        // One row per transaction, never changed: applied twice it is refused, left out it is missing.
        same(definition("journal", vec![key("entry", 0), column("text")])),
        // Captured, and not mapped.
        Table { target: None, source: definition("unmapped", vec![key("id", 0), column("v")]), unique: Vec::new() },
        // Not captured.
        Table { target: None, source: definition("private", vec![key("id", 0), column("v")]), unique: Vec::new() },
    ]
}

/// Users that write into the source, one transaction at a time.
pub(super) struct Workload {
    pub(super) tables: Vec<Table>,
    entries: u64,
    /// How many columns were added to `item` so far.
    pub(super) added: usize,
}

impl Workload {
    pub(super) fn new() -> Workload {
        Workload { tables: tables(), entries: 0, added: 0 }
    }

    /// Makes a random transaction. A source that is down takes none.
    pub(super) fn write(&mut self, source: &MemoryDatabase, random: &mut Rng) {
        let statements = match random.u8(..) {
            0..=9 => random.usize(30..120),
            10..=40 => random.usize(5..20),
            _ => random.usize(1..5),
        };
        let only = match random.u8(..) {
            // Transactions that the Replicat, or the Extract, has nothing to do with.
            0..=15 => Some("unmapped"),
            16..=31 => Some("private"),
            _ => None,
        };
        let abandon = random.u8(..) < 10;
        let result = source.write(|transaction| {
            if only.is_none() {
                let entry = format!("{:08}", self.entries);
                transaction.insert(&name("journal"), row(&[Some(entry.as_bytes()), Some(b"x")]))?;
            }
            for _ in 0..statements {
                self.statement(source, transaction, only, random)?;
            }
            if abandon {
                let error = database::Error::new(ErrorClass::Permanent, "the user changed his mind");
                return Err(ApplyError::Failed(error));
            }
            Ok(())
        });
        if result.is_ok() && only.is_none() {
            self.entries += 1;
        }
    }

    fn statement(
        &self,
        source: &MemoryDatabase,
        transaction: &mut MemoryTransaction,
        only: Option<&str>,
        random: &mut Rng,
    ) -> Result<(), ApplyError> {
        let _ = source;
        let table = match only {
            Some(only) => only,
            None => *random.choice(["item", "item", "line", "line", "seat", "unmapped", "private"].iter()).unwrap(),
        };
        let table = self.tables.iter().find(|known| known.source.name.table == table).expect("a table of ours");
        let name = &table.source.name;
        let width = table.source.columns.len() + if name.table == "item" { self.added } else { 0 };
        let image = |random: &mut Rng| -> Row {
            let mut builder = RowBuilder::new();
            for index in 0..width {
                match table.source.columns.get(index).and_then(|column| column.key) {
                    Some(_) => builder.push(Value::Bytes(format!("{:02}", random.u64(0..KEYS)).as_bytes())),
                    None if random.u8(..) < 40 => builder.push(Value::Null),
                    None => builder.push(Value::Bytes(&value(random))),
                }
            }
            builder.finish()
        };
        let (old, new) = (image(random), image(random));
        let operation = match random.u8(..) {
            0..=99 => Operation::Insert { new },
            // The same key, or another one.
            100..=159 => Operation::Update { new: keep_key(&table.source, &old, &new), old: Some(old) },
            160..=189 => Operation::Update { old: Some(old), new },
            190..=252 => Operation::Delete { old },
            253.. => Operation::truncate(),
        };
        match transaction.perform(name, &operation) {
            // A user who finds no row, or one too many, goes on with something else.
            Err(ApplyError::Rejected(_)) => Ok(()),
            result => result,
        }
    }
}

pub(super) fn name(table: &str) -> TableName {
    TableName::new("main", table)
}

fn row(values: &[Option<&[u8]>]) -> Row {
    Row::from_values(values.iter().map(|value| value.map_or(Value::Null, Value::Bytes)))
}

/// `new` with the key of `old`, and some values left unchanged.
fn keep_key(definition: &TableDefinition, old: &Row, new: &Row) -> Row {
    let keyed = |index: usize| definition.columns.get(index).is_some_and(|column| column.key.is_some());
    Row::from_values((0..new.len()).map(|index| match keyed(index) {
        true => old.value(index),
        false if index % 2 == 1 && new.value(index) == Value::Null => Value::Unchanged,
        false => new.value(index),
    }))
}

fn value(random: &mut Rng) -> Vec<u8> {
    let length = match random.u16(..) {
        0..=40 => random.usize(65_500..140_000),
        41..=3000 => random.usize(100..3000),
        3001..=5000 => 0,
        _ => random.usize(1..20),
    };
    let first = random.u8(..);
    (0..length).map(|index| first.wrapping_add(index as u8)).collect()
}
