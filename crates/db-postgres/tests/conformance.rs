//! PostgreSQL does what every database must do, with both kinds of replica identity.

use crate::server::{Cluster, ClusterOptions};
use change::{Column, LogicalType, Operation, Row, RowBuilder, TableDefinition, TableName, Value};
use database::Database;
use database::conformance::{Capability, Instance, Kind, Subject};
use db_postgres::wire::{Config, Connection};
use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt::Write;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

#[derive(Clone, Copy)]
enum Where {
    /// A database of its own on a server that all cases share.
    Shared,
    /// A server of its own, which may be stopped.
    Own,
}

struct Postgres {
    place: Where,
    /// Whether tables with a key log whole old rows.
    full: bool,
}

impl Subject for Postgres {
    fn name(&self) -> String {
        format!("PostgreSQL with replica identity {}", if self.full { "FULL" } else { "DEFAULT" })
    }

    fn lacks(&self) -> Vec<(Capability, &'static str)> {
        let mut lacks = vec![(Capability::NullInKey, "a primary key takes no NULL")];
        if !self.full {
            lacks.push((Capability::WholeOldRow, "the log tells the key of an old row, without REPLICA IDENTITY FULL"));
        }
        if let Where::Shared = self.place {
            lacks.push((Capability::Crash, "the server is shared; cases of their own stop a server"));
            lacks.push((Capability::Backup, "the server is shared; cases of their own restore a server"));
        }
        lacks
    }

    fn create(&self) -> Box<dyn Instance> {
        let cluster = match self.place {
            Where::Shared => None,
            Where::Own => Some(Cluster::start(&ClusterOptions::default())),
        };
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let database = format!("case_{}", NUMBER.fetch_add(1, Ordering::Relaxed));
        let url = cluster.as_ref().unwrap_or_else(|| shared()).url(&database);
        let postgres = cluster.as_ref().unwrap_or_else(|| shared()).url("postgres");
        connect(&postgres).run(&format!("CREATE DATABASE {database}")).expect("a database");
        let instance = PostgresInstance {
            database,
            url,
            full: self.full,
            user: RefCell::new(None),
            tables: RefCell::default(),
            cluster,
        };
        instance.run(TYPES);
        Box::new(instance)
    }
}

fn shared() -> &'static Cluster {
    static CLUSTER: OnceLock<Cluster> = OnceLock::new();
    CLUSTER.get_or_init(|| {
        // Nobody pulls the plug on this server, and it makes and drops a database for each case.
        let settings = [
            ("max_connections", "300"),
            ("max_replication_slots", "200"),
            ("max_wal_senders", "100"),
            ("fsync", "off"),
        ];
        Cluster::start(&ClusterOptions {
            settings: settings.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec(),
            ..ClusterOptions::default()
        })
    })
}

fn connect(url: &str) -> Connection {
    Connection::connect(&Config::parse(url).expect("a URL")).expect("the server lets us in")
}

struct PostgresInstance {
    database: String,
    url: String,
    full: bool,
    /// The user's session.
    user: RefCell<Option<Connection>>,
    tables: RefCell<HashMap<TableName, TableDefinition>>,
    cluster: Option<Cluster>,
}

fn quote(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn qualified(name: &TableName) -> String {
    format!("{}.{}", quote(&name.schema), quote(&name.table))
}

fn literal(column: &Column, value: Value<'_>) -> String {
    match value.bytes() {
        None => "NULL".to_owned(),
        Some(bytes) if column.logical == LogicalType::Binary => {
            let mut text = "'\\x".to_owned();
            bytes.iter().for_each(|byte| write!(text, "{byte:02x}").expect("memory"));
            text + "'"
        }
        Some(bytes) => {
            let text = std::str::from_utf8(bytes).expect("text is UTF-8");
            format!("E'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
        }
    }
}

impl PostgresInstance {
    fn with_user<T>(&self, work: impl FnOnce(&mut Connection) -> T) -> T {
        work(self.user.borrow_mut().get_or_insert_with(|| connect(&self.url)))
    }

    fn run(&self, sql: &str) {
        self.with_user(|user| {
            user.run(&format!("SET search_path = public, pg_catalog; {sql}")).expect("a user may do that");
        });
    }

    fn server(&self) -> &Cluster {
        self.cluster.as_ref().expect("a server of its own")
    }

    fn copy(&self, from: &str, to: &str) {
        let folder = self.server().directory();
        let to = folder.join(to);
        let _ = std::fs::remove_dir_all(&to);
        let status = Command::new("cp").arg("-a").arg(folder.join(from)).arg(&to).status().expect("cp starts");
        assert!(status.success());
    }
}

/// Leaves no slot behind on the shared server, where their number is limited.
impl Drop for PostgresInstance {
    fn drop(&mut self) {
        if self.cluster.is_some() || std::thread::panicking() {
            return;
        }
        *self.user.borrow_mut() = None;
        let mut admin = connect(&shared().url("postgres"));
        let slots = format!("FROM pg_replication_slots WHERE database = '{}'", self.database);
        admin.run(&format!("SELECT pg_terminate_backend(active_pid, 10000) {slots} AND active")).expect("ended");
        admin.run(&format!("SELECT pg_drop_replication_slot(slot_name) {slots}")).expect("dropped");
        admin.run(&format!("DROP DATABASE {} WITH (FORCE)", self.database)).expect("dropped");
    }
}

impl Instance for PostgresInstance {
    fn database(&self) -> Arc<dyn Database> {
        db_postgres::open(&self.url).expect("a URL")
    }

    fn column(&self, name: &str, kind: Kind) -> Column {
        match kind {
            Kind::Integer => Column::new(name, LogicalType::Integer, "bigint"),
            Kind::Text => Column::new(name, LogicalType::Text, "text"),
            Kind::Binary => Column::new(name, LogicalType::Binary, "bytea"),
        }
    }

    fn integer(&self, value: i64) -> Vec<u8> {
        value.to_string().into_bytes()
    }

    fn text(&self, value: &str) -> Vec<u8> {
        value.as_bytes().to_vec()
    }

    fn binary(&self, value: &[u8]) -> Vec<u8> {
        value.to_vec()
    }

    fn samples(&self) -> Vec<(Column, Vec<Option<Vec<u8>>>)> {
        SAMPLES
            .iter()
            .map(|(logical, native, values)| {
                let values = values.iter().map(|value| Some(value.as_bytes().to_vec())).chain([None]);
                (Column::new("sample", *logical, *native), values.collect())
            })
            .collect()
    }

    fn create_table(&self, table: &TableDefinition, unique: &[Vec<usize>]) {
        let name = qualified(&table.name);
        let list = |columns: &[usize]| {
            columns.iter().map(|column| quote(&table.columns[*column].name)).collect::<Vec<_>>().join(", ")
        };
        let columns = table.columns.iter().map(|column| {
            let null = if column.nullable { "" } else { " NOT NULL" };
            format!("{} {}{null}", quote(&column.name), column.native)
        });
        let key = table.key();
        let keys = (!key.is_empty()).then(|| format!("PRIMARY KEY ({})", list(&key)));
        let unique = unique.iter().map(|columns| format!("UNIQUE ({})", list(columns)));
        let parts = columns.chain(keys).chain(unique).collect::<Vec<_>>().join(", ");
        self.run(&format!("CREATE SCHEMA IF NOT EXISTS {}; CREATE TABLE {name} ({parts})", quote(&table.name.schema)));
        if self.full && !key.is_empty() {
            self.run(&format!("ALTER TABLE {name} REPLICA IDENTITY FULL"));
        }
        self.tables.borrow_mut().insert(table.name.clone(), table.clone());
    }

    fn create_reference(&self, table: &TableName, columns: &[usize], parent: &TableName) {
        let tables = self.tables.borrow();
        let columns = columns.iter().map(|column| quote(&tables[table].columns[*column].name)).collect::<Vec<_>>();
        self.run(&format!(
            "ALTER TABLE {} ADD FOREIGN KEY ({}) REFERENCES {} DEFERRABLE",
            qualified(table),
            columns.join(", "),
            qualified(parent)
        ));
    }

    fn write(&self, operations: &[(TableName, Operation)]) {
        let tables = self.tables.borrow();
        let mut sql = "BEGIN;".to_owned();
        for (name, operation) in operations {
            let (definition, table) = (&tables[name], qualified(name));
            let assigned = |row: &Row, with: &str| {
                let told = definition.columns.iter().zip(row.values()).filter(|(_, value)| value.is_present());
                told.map(|(column, value)| format!("{}{with}{}", quote(&column.name), literal(column, value)))
                    .collect::<Vec<_>>()
            };
            let found = |row: &Row| {
                let key = definition.key();
                let columns = if key.is_empty() { (0..definition.columns.len()).collect() } else { key };
                let equal = columns.into_iter().map(|column| {
                    let (name, value) = (&definition.columns[column], row.value(column));
                    format!("{} IS NOT DISTINCT FROM {}", quote(&name.name), literal(name, value))
                });
                equal.collect::<Vec<_>>().join(" AND ")
            };
            match operation {
                Operation::Insert { new } => {
                    let values =
                        definition.columns.iter().zip(new.values()).map(|(column, value)| literal(column, value));
                    write!(sql, "INSERT INTO {table} VALUES ({});", values.collect::<Vec<_>>().join(", "))
                }
                Operation::Update { old, new } => {
                    let set = assigned(new, " = ").join(", ");
                    write!(sql, "UPDATE {table} SET {set} WHERE {};", found(old.as_ref().unwrap_or(new)))
                }
                Operation::Delete { old } => write!(sql, "DELETE FROM {table} WHERE {};", found(old)),
                Operation::Truncate(_) => write!(sql, "TRUNCATE {table};"),
            }
            .expect("memory");
        }
        self.run(&format!("{sql} COMMIT"));
    }

    fn rows(&self, table: &TableName) -> Vec<Row> {
        let definition = self.tables.borrow()[table].clone();
        let columns = definition.columns.iter().map(|column| quote(&column.name)).collect::<Vec<_>>().join(", ");
        let results = self.with_user(|user| user.simple_query(&format!("SELECT {columns} FROM {}", qualified(table))));
        let results = results.expect("a user may read");
        let mut builder = RowBuilder::new();
        let read = |row: &db_postgres::wire::TextRow| {
            for (place, column) in definition.columns.iter().enumerate() {
                match row.bytes(place) {
                    None => builder.push(Value::Null),
                    Some(text) if column.logical == LogicalType::Binary => {
                        let digits = std::str::from_utf8(&text[2..]).expect("hexadecimal");
                        let bytes: Vec<u8> = (0..digits.len())
                            .step_by(2)
                            .map(|at| u8::from_str_radix(&digits[at..at + 2], 16).expect("hexadecimal"))
                            .collect();
                        builder.push(Value::Bytes(&bytes));
                    }
                    Some(text) => builder.push(Value::Bytes(text)),
                }
            }
            builder.finish()
        };
        results[0].rows.iter().map(read).collect()
    }

    fn crash(&self) {
        *self.user.borrow_mut() = None;
        self.server().kill();
        self.server().start_again();
    }

    fn backup(&self) {
        *self.user.borrow_mut() = None;
        self.server().stop("fast");
        self.copy("data", "backup");
        self.server().start_again();
    }

    fn restore(&self) {
        *self.user.borrow_mut() = None;
        self.server().stop("immediate");
        self.copy("backup", "data");
        self.server().start_again();
    }
}

/// The types among [`SAMPLES`] that are not built in.
pub const TYPES: &str = "CREATE TYPE mood AS ENUM ('sad', 'it''s ok', 'a,b'); \
    CREATE DOMAIN short AS varchar(5) CHECK (value <> 'no'); CREATE DOMAIN shorter AS short; \
    CREATE TYPE pair AS (a int, b text, c numeric[])";

/// Odd values of many types, as PostgreSQL itself prints them under the pinned settings.
pub const SAMPLES: &[(LogicalType, &str, &[&str])] = &[
    (LogicalType::Boolean, "boolean", &["t", "f"]),
    (LogicalType::Integer, "smallint", &["-32768", "32767"]),
    (LogicalType::Integer, "integer", &["-2147483648", "2147483647"]),
    (
        LogicalType::Decimal,
        "numeric",
        &[
            "NaN",
            "Infinity",
            "-Infinity",
            "0",
            "1.00",
            "-0.000000000000000000001",
            "12345678901234567890123456789012345678901234567890.5",
        ],
    ),
    (LogicalType::Decimal, "numeric(10,2)", &["NaN", "-99999999.99", "0.00"]),
    (LogicalType::Float, "real", &["NaN", "Infinity", "-0", "1e-45", "3.4028235e+38", "0.1"]),
    (
        LogicalType::Float,
        "double precision",
        &["NaN", "-Infinity", "-0", "5e-324", "1.7976931348623157e+308", "0.30000000000000004"],
    ),
    (LogicalType::Text, "character varying(5)", &["", "12345", "äöüß€"]),
    (LogicalType::Text, "character(4)", &["    ", "a   ", "abcd"]),
    (LogicalType::Text, "bpchar", &["a", ""]),
    (LogicalType::Text, "\"char\"", &["x", "\\200"]),
    (LogicalType::Text, "name", &["", "a name"]),
    (LogicalType::Date, "date", &["infinity", "-infinity", "0044-03-15 BC", "5874897-12-31", "2024-02-29"]),
    (LogicalType::Time, "time without time zone", &["24:00:00", "00:00:00", "23:59:59.999999"]),
    (LogicalType::Time, "time with time zone", &["24:00:00+05", "00:00:00-15:59:59", "12:00:00.5+05:30"]),
    (
        LogicalType::Timestamp,
        "timestamp without time zone",
        &["infinity", "-infinity", "294276-12-31 23:59:59.999999", "4713-01-01 00:00:00 BC"],
    ),
    (
        LogicalType::TimestampWithZone,
        "timestamp with time zone",
        &["infinity", "-infinity", "0001-01-01 00:00:00+00 BC", "2024-03-31 01:30:00.000001+00"],
    ),
    (LogicalType::Interval, "interval", &["1 year 2 mons -3 days +04:05:06.789", "00:00:00", "-178000000 years"]),
    (LogicalType::Uuid, "uuid", &["00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff"]),
    (LogicalType::Json, "json", &["null", "{\"a\": 1,  \"a\":2}", "\"x\\u0041\"", "1e400"]),
    (LogicalType::Json, "jsonb", &["null", "\"x\"", "{\"a\": [1.50, {}]}", "1234567890123456789012345678901234567890"]),
    (LogicalType::Bits, "bit(9)", &["000000000", "101010101"]),
    (LogicalType::Bits, "bit varying(100)", &["", "1", "0000000011111111"]),
    (LogicalType::Enumeration, "mood", &["sad", "it's ok", "a,b"]),
    (LogicalType::Text, "shorter", &["", "12345"]),
    (LogicalType::Other, "pair", &["(1,\"a,\"\"b\\\\\",\"{1.0,NaN,NULL}\")", "(,,)", "(,\"\",{})"]),
    (LogicalType::Other, "mood[]", &["{sad,\"it's ok\",\"a,b\",NULL}", "{}"]),
    (LogicalType::Other, "integer[]", &["{{1,2},{3,NULL}}", "[5:6]={7,8}", "{}"]),
    (LogicalType::Other, "text[]", &["{NULL,\"NULL\",\"\",\"a\\\\b\",\"c\\\"d\",\"e,f\"}"]),
    (LogicalType::Other, "bytea[]", &["{\"\\\\xdead\",\"\\\\x\"}"]),
    (LogicalType::Other, "int4range", &["empty", "[1,5)", "(,)", "[1,)"]),
    (LogicalType::Other, "tstzrange", &["[\"2020-01-01 00:00:00+00\",)", "(,infinity)", "empty"]),
    (LogicalType::Other, "int4multirange", &["{}", "{[1,3),[5,)}"]),
    (LogicalType::Other, "money", &["-$92,233,720,368,547,758.08", "$0.00"]),
    (LogicalType::Other, "inet", &["192.168.0.1/24", "::1", "2001:db8::/32"]),
    (LogicalType::Other, "cidr", &["10.0.0.0/8"]),
    (LogicalType::Other, "macaddr8", &["08:00:2b:01:02:03:04:05"]),
    (LogicalType::Other, "point", &["(1.5,-0)", "(Infinity,NaN)"]),
    (LogicalType::Other, "polygon", &["((0,0),(1,1),(1,0))"]),
    (LogicalType::Other, "box", &["(2,2),(1,1)"]),
    (LogicalType::Other, "circle", &["<(1,2),3>"]),
    (LogicalType::Other, "tsvector", &["'a b':2 'it''s':1", ""]),
    (LogicalType::Other, "tsquery", &["'a' & !'b' <-> 'c'"]),
    (LogicalType::Other, "xml", &["<a>&lt;ä</a>", "text <b/> only"]),
    (LogicalType::Other, "pg_lsn", &["16/B374D848"]),
    (LogicalType::Other, "regclass", &["pg_class", "4294967294"]),
];

mod replica_identity_default {
    use super::{Postgres, Where};
    database::conformance_tests!(Postgres { place: Where::Shared, full: false });
}

mod replica_identity_full {
    use super::{Postgres, Where};
    database::conformance_tests!(Postgres { place: Where::Shared, full: true });
}

/// The cases that stop a server.
mod on_a_server_of_its_own {
    use super::{Postgres, Where};
    use database::conformance::{Capability, Verdict, cases};

    #[test]
    fn what_crashes_and_backups_must_not_break() {
        let own = Postgres { place: Where::Own, full: false };
        let needy = |needs: &[Capability]| needs.contains(&Capability::Crash) || needs.contains(&Capability::Backup);
        let mut run = 0;
        for case in cases().iter().filter(|case| needy(case.needs)) {
            println!("{}", case.name);
            assert_eq!(case.run(&own), Verdict::Passed);
            run += 1;
        }
        assert!(run >= 3, "{run}");
    }
}
