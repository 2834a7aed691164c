//! Random tables and rows, through a trail and back.

mod world;

use change::{
    Change, Column, Generation, LogicalType, Operation, RecordAddress, Row, TableDefinition, TableName,
    TruncateOptions, Value,
};
use proptest::prelude::*;
use std::sync::Arc;
use trail::format::bytes::Order;
use trail::format::metadata;
use trail::storage::Forgetful;
use world::{append, commit, open_writer, read_transactions};

#[derive(Clone, Debug)]
enum Cell {
    Null,
    Unchanged,
    Bytes(Vec<u8>),
}

fn cell() -> impl Strategy<Value = Cell> {
    prop_oneof![
        2 => Just(Cell::Null),
        2 => Just(Cell::Unchanged),
        8 => prop::collection::vec(any::<u8>(), 0..30).prop_map(Cell::Bytes),
        // Around and over what one record can hold.
        1 => (65_000..66_000_usize, any::<u8>()).prop_map(|(length, byte)| Cell::Bytes(vec![byte; length])),
        1 => (0..200_000_usize, any::<u8>()).prop_map(|(length, byte)| Cell::Bytes(vec![byte; length])),
    ]
}

fn row(columns: usize) -> impl Strategy<Value = Row> {
    prop::collection::vec(cell(), columns).prop_map(|cells| {
        Row::from_values(cells.iter().map(|cell| match cell {
            Cell::Null => Value::Null,
            Cell::Unchanged => Value::Unchanged,
            Cell::Bytes(bytes) => Value::Bytes(bytes),
        }))
    })
}

fn operation(columns: usize) -> impl Strategy<Value = Operation> {
    prop_oneof![
        4 => row(columns).prop_map(|new| Operation::Insert { new }),
        4 => (prop::option::of(row(columns)), row(columns)).prop_map(|(old, new)| Operation::Update { old, new }),
        4 => row(columns).prop_map(|old| Operation::Delete { old }),
        1 => (any::<bool>(), any::<bool>()).prop_map(|(cascade, restart_identity)| {
            Operation::Truncate(TruncateOptions { cascade, restart_identity })
        }),
    ]
}

fn column() -> impl Strategy<Value = Column> {
    let logical = (1..=17_u8).prop_map(|code| LogicalType::from_code(code).expect("is a type"));
    let generation = (0..=4_u8).prop_map(|code| Generation::from_code(code).expect("is a generation"));
    let numbers = (any::<Option<u32>>(), any::<Option<u16>>(), any::<Option<i16>>(), any::<Option<u16>>());
    (".{0,12}", logical, ".{0,12}", numbers, any::<bool>(), generation).prop_map(
        |(name, logical, native, (length, precision, scale, key), nullable, generation)| Column {
            name,
            logical,
            native,
            length,
            precision,
            scale,
            nullable,
            key,
            generation,
        },
    )
}

fn table() -> impl Strategy<Value = TableDefinition> {
    (".{0,12}", ".{0,12}", prop::collection::vec(column(), 0..6)).prop_map(|(schema, table, columns)| TableDefinition {
        name: TableName { schema, table },
        columns: columns.into(),
    })
}

fn change() -> impl Strategy<Value = Change> {
    table().prop_flat_map(|table| {
        let columns = table.columns.len();
        let table = Arc::new(table);
        (operation(columns), any::<u64>(), any::<u32>()).prop_map(move |(operation, position, offset)| Change {
            table: Arc::clone(&table),
            operation,
            address: RecordAddress { position, offset },
        })
    })
}

fn transactions() -> impl Strategy<Value = Vec<world::Transaction>> {
    prop::collection::vec((prop::collection::vec(change(), 0..6), any::<i64>()), 1..6).prop_map(|all| {
        let transaction = |(number, (changes, time)): (u64, (Vec<Change>, i64))| {
            let mut commit = commit(number);
            commit.time.unix_micros = time;
            world::Transaction { commit, changes }
        };
        (0..).zip(all).map(transaction).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn whatever_goes_in_comes_out(transactions in transactions(), file_bytes_max in 1_000..200_000_u64, is_closed in any::<bool>()) {
        let storage = Forgetful::new(1);
        let mut writer = open_writer(&storage, file_bytes_max).expect("opens");
        for transaction in &transactions {
            append(&mut writer, transaction).expect("appends");
        }
        if is_closed {
            writer.close().expect("closes");
        } else {
            writer.sync().expect("syncs");
        }
        let mut expected = transactions;
        expected.retain(|transaction| !transaction.changes.is_empty());
        prop_assert_eq!(read_transactions(&storage).expect("reads"), expected);
    }

    #[test]
    fn definitions_come_back_in_both_byte_orders(table in table()) {
        for order in [Order::Little, Order::Big] {
            let body = metadata::table_body(&table, order);
            prop_assert_eq!(metadata::read_table_body(&body, order), Ok(table.clone()));
        }
    }

    #[test]
    fn decoders_take_any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        use trail::format::bytes::Cursor;
        use trail::format::column::{self, Width};
        use trail::format::{fragment::Fragment, header, record::RecordView};
        let shared = bytes::Bytes::from(bytes.clone());
        for order in [Order::Little, Order::Big] {
            let _ = metadata::read_table_body(&bytes, order);
            let _ = metadata::read_database_body(&bytes, order);
            let _ = Fragment::read(&bytes, order);
            let _ = RecordView::read(&bytes, order).map(|view| view.verify());
            let _ = header::FileHeader::read(&bytes, order);
            for width in [Width::Narrow, Width::Wide] {
                let _ = column::read_row(&shared, 0..shared.len(), 3, order, width);
                let mut cursor = Cursor::new(&bytes, order);
                while let Ok(Some(_)) = column::next(&mut cursor, width) {}
            }
        }
        let _ = header::read_file_start(&bytes);
    }
}
