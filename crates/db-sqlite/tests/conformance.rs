//! SQLite does what every database must do, with each kind of table that it has.

use change::{Column, LogicalType, Operation, Row, TableDefinition, TableName, Value};
use database::Database;
use database::conformance::{Capability, Instance, Kind, Subject};
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, Statement};
use std::cell::RefCell;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

/// The kinds of tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tables {
    /// Columns hold values of any class.
    Plain,
    /// Tables whose rows lie in the primary key, where they have one; columns hold values of any class.
    WithoutRowid,
    /// Columns hold values of their declared class.
    Strict,
}

struct Sqlite {
    tables: Tables,
    /// `delete` or `wal`.
    journal: &'static str,
}

impl Subject for Sqlite {
    fn name(&self) -> String {
        format!("SQLite with {:?} tables and journal mode {}", self.tables, self.journal)
    }

    fn lacks(&self) -> Vec<(Capability, &'static str)> {
        let mut lacks = vec![
            (Capability::TransactionBoundaries, "triggers see changes, not where a transaction ends"),
            (Capability::TruncateIsTold, "SQLite has no TRUNCATE: a DELETE without WHERE deletes each row"),
            (Capability::Schemas, "a database file has one schema, main"),
            (Capability::Crash, "there is no server that could crash; a killed process is tested with the groups"),
        ];
        if self.tables != Tables::Plain {
            lacks.push((Capability::NullInKey, "the key of a STRICT or WITHOUT ROWID table takes no NULL"));
        }
        lacks
    }

    fn create(&self) -> Box<dyn Instance> {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let path = folder.path().join("database.sqlite");
        let connection = Connection::open(&path).expect("a database can be made");
        connection.pragma_update(None, "journal_mode", self.journal).expect("the journal mode can be set");
        Box::new(SqliteInstance { tables: self.tables, folder, path, created: RefCell::default() })
    }
}

struct SqliteInstance {
    tables: Tables,
    folder: TempDir,
    path: PathBuf,
    created: RefCell<HashMap<TableName, TableDefinition>>,
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn list(names: impl IntoIterator<Item = String>) -> String {
    names.into_iter().collect::<Vec<_>>().join(", ")
}

/// The value that canonical bytes of a column stand for.
fn stored<'a>(column: &Column, value: Value<'a>) -> ValueRef<'a> {
    let Some(bytes) = value.bytes() else { return ValueRef::Null };
    let (class, rest) = match column.logical {
        LogicalType::Dynamic => (bytes[0], &bytes[1..]),
        LogicalType::Integer => (b'i', bytes),
        LogicalType::Float => (b'r', bytes),
        LogicalType::Text => (b't', bytes),
        LogicalType::Binary => (b'b', bytes),
        other => panic!("no case makes a column of {other:?}"),
    };
    let number = || std::str::from_utf8(rest).expect("numbers are text");
    match class {
        b'i' => ValueRef::Integer(number().parse().expect("a whole number")),
        b'r' => ValueRef::Real(number().parse().expect("a number")),
        b't' => ValueRef::Text(rest),
        b'b' => ValueRef::Blob(rest),
        other => panic!("no class is marked {other}"),
    }
}

fn canonical(column: &Column, value: ValueRef<'_>) -> Option<Vec<u8>> {
    let (class, bytes) = match value {
        ValueRef::Null => return None,
        ValueRef::Integer(number) => (b'i', number.to_string().into_bytes()),
        ValueRef::Real(number) if number.is_infinite() => {
            (b'r', if number > 0.0 { "Infinity" } else { "-Infinity" }.into())
        }
        ValueRef::Real(number) => (b'r', format!("{number:?}").into_bytes()),
        ValueRef::Text(bytes) => (b't', bytes.to_vec()),
        ValueRef::Blob(bytes) => (b'b', bytes.to_vec()),
    };
    let marked = column.logical == LogicalType::Dynamic;
    Some(if marked { [vec![class], bytes].concat() } else { bytes })
}

impl SqliteInstance {
    /// A connection such as a user's program has.
    fn connect(&self) -> Connection {
        let connection = Connection::open(&self.path).expect("the database opens");
        connection.busy_timeout(Duration::from_secs(10)).expect("a timeout can be set");
        connection
    }

    fn definition(&self, table: &TableName) -> TableDefinition {
        self.created.borrow()[table].clone()
    }

    fn create_sql(&self, table: &TableDefinition, unique: &[Vec<usize>], reference: &str) -> String {
        let names = |columns: &[usize]| list(columns.iter().map(|column| quoted(&table.columns[*column].name)));
        let mut parts: Vec<String> = table
            .columns
            .iter()
            .map(|column| {
                let null = if column.nullable { "" } else { " NOT NULL" };
                format!("{} {}{null}", quoted(&column.name), column.native)
            })
            .collect();
        let key = table.key();
        if !key.is_empty() {
            parts.push(format!("PRIMARY KEY ({})", names(&key)));
        }
        parts.extend(unique.iter().map(|columns| format!("UNIQUE ({})", names(columns))));
        if !reference.is_empty() {
            parts.push(reference.to_owned());
        }
        let options = match self.tables {
            Tables::Strict => " STRICT",
            Tables::WithoutRowid if !key.is_empty() => " WITHOUT ROWID",
            Tables::WithoutRowid | Tables::Plain => "",
        };
        format!("CREATE TABLE {} ({}){options}", quoted(&table.name.table), list(parts))
    }

    fn perform(&self, connection: &Connection, name: &TableName, operation: &Operation) {
        let table = self.definition(name);
        let quoted_table = quoted(&name.table);
        let told = |row: &Row| (0..row.len()).filter(|at| row.value(*at).is_present()).collect::<Vec<_>>();
        let named = |columns: &[usize], suffix: &str, between: &str| {
            let name = |column: &usize| format!("{}{suffix}", quoted(&table.columns[*column].name));
            columns.iter().map(name).collect::<Vec<_>>().join(between)
        };
        let mut key = table.key();
        let run = |sql: &str, parts: &[(&Row, &[usize])], rows: Option<usize>| {
            let mut statement = connection.prepare_cached(sql).expect("a user's statement is right");
            let mut place = 0;
            for (row, columns) in parts {
                for column in *columns {
                    place += 1;
                    bind(&mut statement, place, stored(&table.columns[*column], row.value(*column)));
                }
            }
            let written = statement.raw_execute().expect("a user's statement is taken");
            assert!(rows.is_none_or(|rows| rows == written), "a user's statement meets its row: {sql}");
        };
        match operation {
            Operation::Insert { new } => {
                let columns = told(new);
                let places = list(columns.iter().map(|_| "?".to_owned()));
                let names = named(&columns, "", ", ");
                run(&format!("INSERT INTO {quoted_table} ({names}) VALUES ({places})"), &[(new, &columns)], Some(1));
            }
            Operation::Update { old, new } => {
                let old = old.as_ref().unwrap_or(new);
                if key.is_empty() {
                    key = told(old);
                }
                // A user names what he changes.
                let columns = told(new);
                let (assigned, sought) = (named(&columns, " = ?", ", "), named(&key, " IS ?", " AND "));
                let sql = format!("UPDATE {quoted_table} SET {assigned} WHERE {sought}");
                run(&sql, &[(new, &columns), (old, &key)], Some(1));
            }
            Operation::Delete { old } => {
                if key.is_empty() {
                    key = told(old);
                }
                let sought = named(&key, " IS ?", " AND ");
                run(&format!("DELETE FROM {quoted_table} WHERE {sought}"), &[(old, &key)], Some(1));
            }
            Operation::Truncate => run(&format!("DELETE FROM {quoted_table}"), &[], None),
        }
    }

    fn backup_path(&self) -> PathBuf {
        self.folder.path().join("backup.sqlite")
    }
}

fn bind(statement: &mut Statement<'_>, place: usize, value: ValueRef<'_>) {
    statement.raw_bind_parameter(place, ToSqlOutput::Borrowed(value)).expect("a value can be bound");
}

impl Instance for SqliteInstance {
    fn database(&self) -> Arc<dyn Database> {
        db_sqlite::open(&format!("sqlite:{}", self.path.display())).expect("the database opens")
    }

    fn column(&self, name: &str, kind: Kind) -> Column {
        let (typed, native) = match kind {
            Kind::Integer => (LogicalType::Integer, "INTEGER"),
            Kind::Text => (LogicalType::Text, "TEXT"),
            Kind::Binary => (LogicalType::Binary, "BLOB"),
        };
        let logical = if self.tables == Tables::Strict { typed } else { LogicalType::Dynamic };
        Column::new(name, logical, native)
    }

    fn integer(&self, value: i64) -> Vec<u8> {
        canonical(&self.column("", Kind::Integer), ValueRef::Integer(value)).expect("not NULL")
    }

    fn text(&self, value: &str) -> Vec<u8> {
        canonical(&self.column("", Kind::Text), ValueRef::Text(value.as_bytes())).expect("not NULL")
    }

    fn binary(&self, value: &[u8]) -> Vec<u8> {
        canonical(&self.column("", Kind::Binary), ValueRef::Blob(value)).expect("not NULL")
    }

    fn samples(&self) -> Vec<(Column, Vec<Option<Vec<u8>>>)> {
        let sample = |native: &str, logical, values: &[&[u8]]| {
            let values = values.iter().map(|value| Some(value.to_vec())).chain([None]).collect();
            (Column::new("sample", logical, native), values)
        };
        let any: [&[u8]; 24] = [
            b"i0",
            b"i-1",
            b"i9223372036854775807",
            b"i-9223372036854775808",
            b"r0.0",
            b"r-0.0",
            b"r1.0",
            b"r0.1",
            b"r9007199254740992.0",
            b"r1e300",
            b"r5e-324",
            b"rInfinity",
            b"r-Infinity",
            b"t",
            b"t0",
            b"t1.0",
            b"t-1",
            b"tNULL",
            b"ta\0b\0",
            b"t\xff\xfe\x80",
            b"b",
            b"b\0",
            b"b1",
            b"b\xff\x00\xfe",
        ];
        // What each affinity leaves as it is: see *Determination Of Column Affinity* of SQLite.
        let numeric: [&[u8]; 6] = [b"i5", b"r0.5", b"tabc", b"t0x10", b"t\xff", b"b5"];
        match self.tables {
            Tables::Strict => vec![
                sample("ANY", LogicalType::Dynamic, &any),
                sample(
                    "REAL",
                    LogicalType::Float,
                    &[b"0.0", b"-0.5", b"1.0", b"0.1", b"1e300", b"Infinity", b"5e-324"],
                ),
                sample("TEXT", LogicalType::Text, &[b"", b"a\0b", b"\xff\xfe", b"1"]),
                sample("BLOB", LogicalType::Binary, &[b"", b"\0", b"i1"]),
            ],
            Tables::Plain | Tables::WithoutRowid => vec![
                sample("", LogicalType::Dynamic, &any),
                sample("BLOB", LogicalType::Dynamic, &any),
                sample("NUMERIC", LogicalType::Dynamic, &numeric),
                sample("INTEGER", LogicalType::Dynamic, &numeric),
                sample("REAL", LogicalType::Dynamic, &[b"r5.0", b"r0.5", b"tabc", b"b5", b"r1e300"]),
                sample("VARCHAR(3)", LogicalType::Dynamic, &[b"t1", b"tlonger than three", b"t", b"b1", b"ta\0b"]),
                sample("BOOLEAN", LogicalType::Dynamic, &[b"i0", b"i1", b"ttrue"]),
                sample("TIMESTAMP", LogicalType::Dynamic, &[b"t2026-01-01 00:00:00", b"i1767225600"]),
            ],
        }
    }

    fn create_table(&self, table: &TableDefinition, unique: &[Vec<usize>]) {
        self.connect().execute_batch(&self.create_sql(table, unique, "")).expect("the table can be created");
        self.created.borrow_mut().insert(table.name.clone(), table.clone());
    }

    fn create_reference(&self, table: &TableName, columns: &[usize], parent: &TableName) {
        let child = self.definition(table);
        let names = |table: &TableDefinition, columns: &[usize]| {
            list(columns.iter().map(|column| quoted(&table.columns[*column].name)))
        };
        let parent = self.definition(parent);
        let reference = format!(
            "FOREIGN KEY ({}) REFERENCES {} ({})",
            names(&child, columns),
            quoted(&parent.name.table),
            names(&parent, &parent.key())
        );
        // SQLite can't add a foreign key to a table; no case has rows in it yet.
        let connection = self.connect();
        connection.execute_batch(&format!("DROP TABLE {}", quoted(&table.table))).expect("dropped");
        connection.execute_batch(&self.create_sql(&child, &[], &reference)).expect("created");
    }

    fn write(&self, operations: &[(TableName, Operation)]) {
        let connection = self.connect();
        connection.execute_batch("BEGIN IMMEDIATE").expect("a user's transaction starts");
        operations.iter().for_each(|(table, operation)| self.perform(&connection, table, operation));
        connection.execute_batch("COMMIT").expect("a user's transaction commits");
    }

    fn rows(&self, name: &TableName) -> Vec<Row> {
        let table = self.definition(name);
        let columns = list(table.columns.iter().map(|column| quoted(&column.name)));
        let connection = self.connect();
        let sql = format!("SELECT {columns} FROM {}", quoted(&name.table));
        let mut statement = connection.prepare(&sql).expect("a user's query is right");
        let mut found = statement.query([]).expect("a user's query runs");
        let mut rows = Vec::new();
        while let Some(row) = found.next().expect("a row can be read") {
            let value = |(at, column)| canonical(column, row.get_ref(at).expect("a column can be read"));
            let values: Vec<_> = table.columns.iter().enumerate().map(value).collect();
            let values = values.iter().map(|value| value.as_ref().map_or(Value::Null, |value| Value::Bytes(value)));
            rows.push(Row::from_values(values));
        }
        rows
    }

    fn backup(&self) {
        let target = self.backup_path();
        self.connect().execute("VACUUM INTO ?1", [target.to_str().expect("the path is text")]).expect("backed up");
    }

    fn restore(&self) {
        for suffix in ["-wal", "-shm", "-journal"] {
            // Whatever of the newer database is there must not be mixed with the backup.
            let _ = std::fs::remove_file(format!("{}{suffix}", self.path.display()));
        }
        std::fs::copy(self.backup_path(), &self.path).expect("restored");
    }
}

mod plain_tables {
    use super::{Sqlite, Tables};

    database::conformance_tests!(Sqlite { tables: Tables::Plain, journal: "wal" });
}

mod plain_tables_with_a_rollback_journal {
    use super::{Sqlite, Tables};

    database::conformance_tests!(Sqlite { tables: Tables::Plain, journal: "delete" });
}

mod tables_without_rowid {
    use super::{Sqlite, Tables};

    database::conformance_tests!(Sqlite { tables: Tables::WithoutRowid, journal: "wal" });
}

mod strict_tables {
    use super::{Sqlite, Tables};

    database::conformance_tests!(Sqlite { tables: Tables::Strict, journal: "wal" });
}
