//! What the examples write: transactions of ten inserts into a table of six columns, about 100 bytes of values each,
//! or longer notes.

use change::{
    Change, Column, Commit, Csn, LogicalType, Operation, RecordAddress, RowBuilder, TableDefinition, TableName,
    Timestamp, TransactionId, Value,
};
use std::sync::Arc;
use trail::{Cover, Error, TrailName, Writer, WriterOptions};

/// Rows of each transaction.
pub const ROWS_PER_TRANSACTION: u64 = 10;

fn table() -> TableDefinition {
    let column = |name: &str, logical| Column::new(name, logical, "native");
    let columns = vec![
        column("id", LogicalType::Integer).with_key(0),
        column("name", LogicalType::Text),
        column("amount", LogicalType::Decimal),
        column("changed", LogicalType::Timestamp),
        column("state", LogicalType::Text),
        column("note", LogicalType::Text),
    ];
    TableDefinition { name: TableName::new("main", "account"), columns: columns.into() }
}

/// Changes made beforehand, so that only the trail's work is measured; every other row has a note of about `note` bytes, such as
/// applications write: the same names in each, values that differ.
pub fn changes(note: usize) -> Vec<Change> {
    let table = Arc::new(table());
    let mut builder = RowBuilder::new();
    (0..1000_u64)
        .map(|number| {
            let (id, amount) = ((1_000_000 + number).to_string(), format!("{number}.25"));
            let values = [&*id, "a name of some length", &*amount, "2026-01-02 03:04:05.678901", "active"];
            values.iter().for_each(|value| builder.push(Value::Bytes(value.as_bytes())));
            let entry =
                |at: u64| format!("\"field_{at}\": \"{:x}\", ", (number * 100 + at).wrapping_mul(0x9E37_79B9_7F4A));
            let text: String = (0..)
                .map(entry)
                .scan(0, |length, entry| {
                    *length += entry.len();
                    (*length < note + entry.len()).then_some(entry)
                })
                .collect();
            builder.push(if number % 2 == 0 {
                Value::Null
            } else {
                Value::Bytes(&text.as_bytes()[..note.min(text.len())])
            });
            let address = RecordAddress { position: number, offset: 0 };
            Change { table: Arc::clone(&table), operation: Operation::Insert { new: builder.finish() }, address }
        })
        .collect()
}

/// Bytes of the note of a row of about 100 bytes.
pub const SHORT_NOTE: usize = 30;

/// The trail's name.
pub fn trail_name() -> TrailName {
    TrailName::parse("aa").expect("two letters")
}

/// A writer of files of 500 MiB.
pub fn options(cover: Cover) -> WriterOptions {
    WriterOptions { cover, ..WriterOptions::new(trail_name(), 500 << 20, Arc::new(Timestamp::default)) }
}

/// Writes transactions of so many rows in all; `after_each` is told after each how many rows there are.
pub fn write(
    writer: &mut Writer,
    changes: &[Change],
    rows: u64,
    mut after_each: impl FnMut(&mut Writer, u64) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut changes = changes.iter().cycle();
    for number in 0..rows / ROWS_PER_TRANSACTION {
        writer.begin(&Commit {
            csn: Csn::new(format!("{number:020}")),
            transaction: TransactionId::new(number.to_string()),
            time: Timestamp::from_unix_micros(1_700_000_000_000_000 + number as i64),
        })?;
        for change in changes.by_ref().take(ROWS_PER_TRANSACTION as usize) {
            writer.append(change)?;
        }
        writer.commit()?;
        after_each(writer, (number + 1) * ROWS_PER_TRANSACTION)?;
    }
    Ok(())
}
