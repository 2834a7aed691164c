//! SQLite does what every database must do, in both journal modes and for both kinds of tables.

use change::{Column, LogicalType, Operation, Row, RowBuilder, TableDefinition, TableName, Value};
use database::Database;
use database::conformance::{Capability, Instance, Kind, Subject};
use rusqlite::Connection;
use rusqlite::types::{ToSqlOutput, ValueRef};
use std::cell::{Ref, RefCell};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

struct Sqlite {
    journal: &'static str,
    strict: bool,
}

type Tables = HashMap<TableName, (TableDefinition, Vec<Vec<usize>>)>;

struct SqliteInstance {
    directory: tempfile::TempDir,
    journal: &'static str,
    strict: bool,
    user: RefCell<Option<Connection>>,
    /// Definitions with their unique keys.
    tables: RefCell<Tables>,
}

impl Subject for Sqlite {
    fn name(&self) -> String {
        let tables = if self.strict { "STRICT tables" } else { "ordinary tables" };
        format!("SQLite in {} mode with {tables}", self.journal)
    }

    fn lacks(&self) -> Vec<(Capability, &'static str)> {
        let mut lacks = vec![
            (Capability::TransactionBoundaries, "triggers do not see where a transaction ends"),
            (Capability::TruncateIsTold, "SQLite has no TRUNCATE; DELETE without WHERE fires triggers row by row"),
            (Capability::Schemas, "a SQLite database has one schema"),
            (Capability::Crash, "there is no server that could crash"),
        ];
        if self.strict {
            lacks.push((Capability::NullInKey, "a key of a STRICT table takes no NULL"));
        }
        lacks
    }

    fn create(&self) -> Box<dyn Instance> {
        let directory = tempfile::tempdir().expect("a directory");
        let instance = SqliteInstance {
            directory,
            journal: self.journal,
            strict: self.strict,
            user: RefCell::new(None),
            tables: RefCell::default(),
        };
        instance.connect();
        Box::new(instance)
    }
}

impl SqliteInstance {
    fn path(&self) -> PathBuf {
        self.directory.path().join("data.db")
    }

    fn backup_path(&self) -> PathBuf {
        self.directory.path().join("backup")
    }

    fn connect(&self) {
        let user = Connection::open(self.path()).expect("the database");
        user.busy_timeout(Duration::from_secs(30)).expect("a time-out");
        user.query_row(&format!("PRAGMA journal_mode = {}", self.journal), [], |_| Ok(())).expect("a journal mode");
        user.pragma_update(None, "synchronous", "OFF").expect("a pragma");
        user.execute_batch("CREATE TABLE vacant (id INTEGER PRIMARY KEY); DROP TABLE vacant").expect("a file");
        *self.user.borrow_mut() = Some(user);
    }

    fn user(&self) -> Ref<'_, Connection> {
        Ref::map(self.user.borrow(), |user| user.as_ref().expect("a connection"))
    }

    fn create_with(&self, table: &TableDefinition, unique: &[Vec<usize>], reference: &str) {
        let names = |columns: &[usize]| {
            columns.iter().map(|column| quoted(&table.columns[*column].name)).collect::<Vec<_>>().join(", ")
        };
        let mut parts: Vec<String> = table
            .columns
            .iter()
            .map(|column| {
                let not_null = if column.nullable { "" } else { " NOT NULL" };
                format!("{} {}{not_null}", quoted(&column.name), column.native)
            })
            .collect();
        if !table.key().is_empty() {
            parts.push(format!("PRIMARY KEY ({})", names(&table.key())));
        }
        parts.extend(unique.iter().map(|columns| format!("UNIQUE ({})", names(columns))));
        parts.extend((!reference.is_empty()).then(|| reference.to_owned()));
        let strict = if self.strict { " STRICT" } else { "" };
        let sql = format!("CREATE TABLE {} ({}){strict}", quoted(&table.name.table), parts.join(", "));
        self.user().execute_batch(&sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    }

    fn definition(&self, table: &TableName) -> TableDefinition {
        self.tables.borrow()[table].0.clone()
    }

    fn run(&self, sql: &str, table: &TableDefinition, values: &[(usize, Value<'_>)]) -> usize {
        let user = self.user();
        let mut statement = user.prepare(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
        for (place, (column, value)) in values.iter().enumerate() {
            let stored = stored(table.columns[*column].logical, *value);
            statement.raw_bind_parameter(place + 1, ToSqlOutput::Borrowed(stored)).expect("a parameter");
        }
        statement.raw_execute().unwrap_or_else(|error| panic!("{sql}: {error}"))
    }

    fn perform(&self, name: &TableName, operation: &Operation) {
        let table = self.definition(name);
        let target = quoted(&name.table);
        let present = |row: &Row| (0..row.len()).filter(|column| row.value(*column).is_present()).collect::<Vec<_>>();
        // Without a key, everything that is known of the row finds it.
        let key = if table.key().is_empty() { (0..table.columns.len()).collect() } else { table.key() };
        let condition = key.iter().map(|column| format!("{} IS ?", quoted(&table.columns[*column].name)));
        let condition = condition.collect::<Vec<_>>().join(" AND ");
        let values = |row: &Row, columns: &[usize]| -> Vec<(usize, Vec<u8>, bool)> {
            let value = |column: &usize| {
                let bytes = row.value(*column).bytes();
                (*column, bytes.unwrap_or_default().to_vec(), bytes.is_none())
            };
            columns.iter().map(value).collect()
        };
        let (sql, values) = match operation {
            Operation::Insert { new } => {
                let columns = present(new);
                let names: Vec<String> = columns.iter().map(|column| quoted(&table.columns[*column].name)).collect();
                let places = vec!["?"; columns.len()].join(", ");
                (format!("INSERT INTO {target} ({}) VALUES ({places})", names.join(", ")), values(new, &columns))
            }
            Operation::Update { old, new } => {
                let columns = present(new);
                let sets: Vec<String> =
                    columns.iter().map(|column| format!("{} = ?", quoted(&table.columns[*column].name))).collect();
                let mut all = values(new, &columns);
                all.extend(values(old.as_ref().unwrap_or(new), &key));
                (format!("UPDATE {target} SET {} WHERE {condition}", sets.join(", ")), all)
            }
            Operation::Delete { old } => (format!("DELETE FROM {target} WHERE {condition}"), values(old, &key)),
            Operation::Truncate(_) => (format!("DELETE FROM {target}"), Vec::new()),
        };
        let bound: Vec<(usize, Value<'_>)> = values
            .iter()
            .map(|(column, bytes, null)| (*column, if *null { Value::Null } else { Value::Bytes(bytes) }))
            .collect();
        let written = self.run(&sql, &table, &bound);
        assert!(matches!(operation, Operation::Truncate(_)) || written == 1, "{sql} wrote {written} rows");
    }
}

impl Instance for SqliteInstance {
    fn database(&self) -> Arc<dyn Database> {
        db_sqlite::open(&format!("sqlite:{}", self.path().display())).expect("the database")
    }

    fn column(&self, name: &str, kind: Kind) -> Column {
        let (logical, native) = match kind {
            Kind::Integer => (LogicalType::Integer, "INTEGER"),
            Kind::Text => (LogicalType::Text, "TEXT"),
            Kind::Binary => (LogicalType::Binary, "BLOB"),
        };
        Column::new(name, if self.strict { logical } else { LogicalType::Dynamic }, native)
    }

    fn integer(&self, value: i64) -> Vec<u8> {
        self.marked(b'i', value.to_string().as_bytes())
    }

    fn text(&self, value: &str) -> Vec<u8> {
        self.marked(b't', value.as_bytes())
    }

    fn binary(&self, value: &[u8]) -> Vec<u8> {
        self.marked(b'b', value)
    }

    fn samples(&self) -> Vec<(Column, Vec<Option<Vec<u8>>>)> {
        let sample = |name: &str, logical, native: &str, values: &[&[u8]]| {
            let values = values.iter().map(|value| Some(value.to_vec())).chain([None]).collect();
            (Column::new(name, logical, native), values)
        };
        let dynamic: [&[u8]; 16] = [
            b"i0",
            b"i-9223372036854775808",
            b"i9007199254740993",
            b"r0.0",
            b"r-0.0",
            b"r0.1",
            b"r5e-324",
            b"r1.7976931348623157e308",
            b"rInfinity",
            b"r-Infinity",
            b"t",
            b"t1",
            b"ta\0b\xff\xfe",
            b"b",
            b"b\0\xff",
            b"bi1",
        ];
        if self.strict {
            return vec![
                sample("anything", LogicalType::Dynamic, "ANY", &dynamic),
                sample("number", LogicalType::Float, "REAL", &[b"0.0", b"0.1", b"1e300", b"-Infinity", b"3.0"]),
                sample("whole", LogicalType::Integer, "INT", &[b"0", b"-1", b"9223372036854775807"]),
            ];
        }
        vec![
            sample("free", LogicalType::Dynamic, "", &dynamic),
            sample("real", LogicalType::Dynamic, "REAL", &[b"r0.0", b"r3.0", b"r-1e300", b"tx", b"b\x01"]),
            sample("whole", LogicalType::Dynamic, "INTEGER", &[b"i3", b"r0.5", b"t1x", b"b\x01"]),
            sample("decimal", LogicalType::Dynamic, "DECIMAL(10,5)", &[b"i3", b"r0.5", b"rInfinity", b"tabc", b"b3"]),
            sample("text", LogicalType::Dynamic, "VARCHAR(10)", &[b"t3", b"t0.5", b"b3"]),
            sample("date", LogicalType::Dynamic, "DATE", &[b"t2024-02-30", b"i20240230", b"r2460000.5"]),
        ]
    }

    fn create_table(&self, table: &TableDefinition, unique: &[Vec<usize>]) {
        self.create_with(table, unique, "");
        self.tables.borrow_mut().insert(table.name.clone(), (table.clone(), unique.to_vec()));
    }

    fn create_reference(&self, table: &TableName, columns: &[usize], parent: &TableName) {
        let (definition, unique) = self.tables.borrow()[table].clone();
        let parent = self.definition(parent);
        let names = |table: &TableDefinition, columns: &[usize]| {
            columns.iter().map(|column| quoted(&table.columns[*column].name)).collect::<Vec<_>>().join(", ")
        };
        let reference = format!(
            "FOREIGN KEY ({}) REFERENCES {} ({})",
            names(&definition, columns),
            quoted(&parent.name.table),
            names(&parent, &parent.key())
        );
        assert!(self.rows(table).is_empty(), "a table with a new reference is made anew");
        self.user().execute_batch(&format!("DROP TABLE {}", quoted(&table.table))).expect("the table is dropped");
        self.create_with(&definition, &unique, &reference);
    }

    fn write(&self, operations: &[(TableName, Operation)]) {
        self.user().execute_batch("BEGIN IMMEDIATE").expect("a transaction");
        operations.iter().for_each(|(table, operation)| self.perform(table, operation));
        self.user().execute_batch("COMMIT").expect("a commit");
    }

    fn rows(&self, table: &TableName) -> Vec<Row> {
        let definition = self.definition(table);
        let user = self.user();
        let mut statement = user.prepare(&format!("SELECT * FROM {}", quoted(&table.table))).expect("the table");
        let rows = statement.query_map([], |row| {
            let mut builder = RowBuilder::new();
            for (index, column) in definition.columns.iter().enumerate() {
                push(&mut builder, column.logical, row.get_ref(index)?);
            }
            Ok(builder.finish())
        });
        rows.expect("a query").map(|row| row.expect("a row")).collect()
    }

    fn backup(&self) {
        let into = self.backup_path().display().to_string();
        self.user().execute("VACUUM INTO ?1", [into]).expect("a backup");
    }

    fn restore(&self) {
        *self.user.borrow_mut() = None;
        let path = self.path();
        for suffix in ["-wal", "-shm", "-journal"] {
            let _ = std::fs::remove_file(format!("{}{suffix}", path.display()));
        }
        std::fs::rename(self.backup_path(), path).expect("the backup takes the database's place");
        self.connect();
    }
}

impl SqliteInstance {
    fn marked(&self, class: u8, value: &[u8]) -> Vec<u8> {
        if self.strict { value.to_vec() } else { [&[class], value].concat() }
    }
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// The form that documents of crate `change` ask for, written down a second time: from SQLite.
fn push(row: &mut RowBuilder, logical: LogicalType, value: ValueRef<'_>) {
    let (class, bytes) = match value {
        ValueRef::Null => return row.push(Value::Null),
        ValueRef::Integer(number) => (b'i', number.to_string().into_bytes()),
        ValueRef::Real(number) if number.is_infinite() => {
            (b'r', if number > 0.0 { "Infinity" } else { "-Infinity" }.into())
        }
        ValueRef::Real(number) => (b'r', format!("{number:?}").into_bytes()),
        ValueRef::Text(bytes) => (b't', bytes.to_vec()),
        ValueRef::Blob(bytes) => (b'b', bytes.to_vec()),
    };
    let marked = if logical == LogicalType::Dynamic { [&[class], &bytes[..]].concat() } else { bytes };
    row.push(Value::Bytes(&marked));
}

/// The same, to SQLite.
fn stored(logical: LogicalType, value: Value<'_>) -> ValueRef<'_> {
    let Some(bytes) = value.bytes() else { return ValueRef::Null };
    let (class, rest) = match logical {
        LogicalType::Integer => (b'i', bytes),
        LogicalType::Float => (b'r', bytes),
        LogicalType::Text => (b't', bytes),
        LogicalType::Binary => (b'b', bytes),
        _ => (bytes[0], &bytes[1..]),
    };
    let text = || std::str::from_utf8(rest).expect("a number's text");
    match class {
        b'i' => ValueRef::Integer(text().parse().expect("a whole number")),
        b'r' => ValueRef::Real(text().parse().expect("a number")),
        b't' => ValueRef::Text(rest),
        _ => ValueRef::Blob(rest),
    }
}

mod ordinary_tables_in_wal_mode {
    use super::Sqlite;

    database::conformance_tests!(Sqlite { journal: "WAL", strict: false });
}

mod strict_tables_in_wal_mode {
    use super::Sqlite;

    database::conformance_tests!(Sqlite { journal: "WAL", strict: true });
}

mod ordinary_tables_in_rollback_mode {
    use super::Sqlite;

    database::conformance_tests!(Sqlite { journal: "DELETE", strict: false });
}
