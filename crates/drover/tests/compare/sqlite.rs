//! SQLite files with random damage, compared by Drover and by EXCEPT in both directions.

use super::{comparison, rows_seen};
use rusqlite::Connection;
use rusqlite::types::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// A table whose rows are made at random.
struct Shape {
    table: &'static str,
    sql: &'static str,
    /// Columns that are compared, with whether values of any storage class may be put into them.
    columns: &'static [(&'static str, Content)],
    key: &'static [&'static str],
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Content {
    Any,
    Integer,
    Text,
    Computed,
}
use Content::*;

const SHAPES: &[Shape] = &[
    Shape {
        table: "plain",
        sql: "CREATE TABLE plain(id INTEGER PRIMARY KEY, a, b TEXT, c REAL, d BLOB, e NUMERIC)",
        columns: &[("id", Integer), ("a", Any), ("b", Any), ("c", Any), ("d", Any), ("e", Any)],
        key: &["id"],
    },
    Shape {
        table: "named",
        sql: "CREATE TABLE named(name TEXT COLLATE NOCASE, part, v, PRIMARY KEY (name, part)) WITHOUT ROWID",
        columns: &[("name", Text), ("part", Integer), ("v", Any)],
        key: &["name", "part"],
    },
    Shape {
        table: "loose",
        sql: "CREATE TABLE loose(k PRIMARY KEY, v)",
        columns: &[("k", Any), ("v", Any)],
        key: &["k"],
    },
    Shape { table: "bag", sql: "CREATE TABLE bag(a, b)", columns: &[("a", Any), ("b", Integer)], key: &[] },
    Shape {
        table: "strict",
        sql: "CREATE TABLE strict(id INTEGER PRIMARY KEY, a ANY, b TEXT) STRICT",
        columns: &[("id", Integer), ("a", Any), ("b", Text)],
        key: &["id"],
    },
    Shape {
        table: "computed",
        sql: "CREATE TABLE computed(id INTEGER PRIMARY KEY, a, b AS (typeof(a)), c AS (id * 2) STORED)",
        columns: &[("id", Integer), ("a", Any), ("b", Computed), ("c", Computed)],
        key: &["id"],
    },
    Shape {
        table: "x\"; DROP TABLE plain; --.é",
        sql: "CREATE TABLE \"x\"\"; DROP TABLE plain; --.é\"(\"se lect\" TEXT PRIMARY KEY, \"a\"\"b\", rowid, oid)",
        columns: &[("se lect", Text), ("a\"b", Any), ("rowid", Any), ("oid", Any)],
        key: &["se lect"],
    },
];

/// Values that are easily taken for one another.
fn value(random: &mut fastrand::Rng, content: Content) -> Value {
    match content {
        Integer => Value::Integer(random.i64(0..60)),
        Text => Value::Text(
            ["a", "A", "ä", "", " ", "a ", "'", "x\u{1F}y", "0"][random.usize(0..9)].to_owned()
                + &random.u32(0..9).to_string(),
        ),
        Computed => Value::Null,
        Any => match random.u32(0..14) {
            0 => Value::Null,
            1 => Value::Integer(0),
            2 => Value::Integer(1),
            3 => Value::Real(1.0),
            4 => Value::Real(0.0),
            5 => Value::Real(-1.5),
            6 => Value::Text(String::new()),
            7 => Value::Text("1".to_owned()),
            8 => Value::Text("a\0b".to_owned()),
            9 => Value::Blob(Vec::new()),
            10 => Value::Blob(b"1".to_vec()),
            11 => Value::Integer(i64::MIN),
            12 => Value::Real(f64::INFINITY),
            _ => Value::Real(0.1 + 0.2),
        },
    }
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn insert(connection: &Connection, shape: &Shape, random: &mut fastrand::Rng) {
    let columns: Vec<_> = shape.columns.iter().filter(|(_, content)| *content != Computed).collect();
    let names: Vec<_> = columns.iter().map(|(name, _)| quoted(name)).collect();
    let marks = vec!["?"; columns.len()].join(", ");
    let sql = format!("INSERT OR IGNORE INTO {} ({}) VALUES ({marks})", quoted(shape.table), names.join(", "));
    let values: Vec<Value> = columns.iter().map(|(_, content)| value(random, *content)).collect();
    connection.execute(&sql, rusqlite::params_from_iter(values)).expect("a row");
}

fn fill(path: &Path, random: &mut fastrand::Rng, rows: usize) {
    let connection = Connection::open(path).expect("a file");
    connection.execute_batch("BEGIN").expect("a transaction");
    for shape in SHAPES {
        connection.execute_batch(shape.sql).expect("a table");
        for _ in 0..random.usize(0..=rows) {
            insert(&connection, shape, random);
        }
    }
    connection.execute_batch("COMMIT").expect("a commit");
}

/// Changes some rows of some tables.
fn damage(path: &Path, random: &mut fastrand::Rng) {
    let connection = Connection::open(path).expect("a file");
    for shape in SHAPES {
        if random.bool() {
            continue;
        }
        let table = quoted(shape.table);
        // The hostile table calls ordinary columns rowid and oid; one name of the rowid is left.
        let rowid = if shape.table == "named" { "name, part" } else { "_rowid_" };
        for _ in 0..random.usize(0..6) {
            let place = random.u32(..);
            let some = format!(
                "({rowid}) = (SELECT {rowid} FROM {table} ORDER BY {rowid} LIMIT 1 \
                 OFFSET (SELECT {place} % max(1, count(*)) FROM {table}))"
            );
            match random.u32(0..4) {
                0 => _ = connection.execute(&format!("DELETE FROM {table} WHERE {some}"), []).expect("a delete"),
                1 => insert(&connection, shape, random),
                _ => {
                    let (column, content) = shape.columns[random.usize(0..shape.columns.len())];
                    if content != Computed {
                        let sql = format!("UPDATE OR IGNORE {table} SET {} = ? WHERE {some}", quoted(column));
                        connection.execute(&sql, [value(random, content)]).expect("an update");
                    }
                }
            }
        }
    }
}

/// Missing, extra and different rows by their keys, from SQL that knows nothing of Drover.
type Verdict = (BTreeMap<String, i64>, BTreeMap<String, i64>, BTreeMap<String, i64>);

/// Storage class and value of an expression as text, so that EXCEPT neither folds case nor takes 1 for 1.0. No SQL
/// of SQLite's tells 0.0 from -0.0; another test does.
fn exact(value: &str) -> String {
    format!(
        "(typeof({value}) || CASE typeof({value}) WHEN 'null' THEN '' WHEN 'integer' THEN {value} \
         WHEN 'real' THEN format('%!.17g', {value}) ELSE hex({value}) END)"
    )
}

fn by_except(source: &Path, target: &Path, shape: &Shape) -> Verdict {
    let connection = Connection::open(source).expect("a file");
    connection.execute("ATTACH ?1 AS target", [target.to_str().expect("UTF-8")]).expect("the target");
    let whole: Vec<String> = shape.columns.iter().map(|(name, _)| exact(&quoted(name))).collect();
    let whole = whole.join("||'|'||");
    let key_columns: Vec<&str> =
        if shape.key.is_empty() { shape.columns.iter().map(|(name, _)| *name).collect() } else { shape.key.to_vec() };
    let key = key_columns.iter().map(|name| exact(&quoted(name))).collect::<Vec<_>>().join("||'|'||");
    // Rows that are alike are numbered, since EXCEPT removes duplicates.
    let numbered = |schema: &str| {
        let table = quoted(shape.table);
        format!("SELECT {key} AS k, {whole} AS w, row_number() OVER (PARTITION BY {whole}) FROM {schema}.{table}")
    };
    let only = |one: &str, other: &str| {
        format!("SELECT k, count(*) AS n FROM ({} EXCEPT {}) GROUP BY k", numbered(one), numbered(other))
    };
    let sql = format!(
        "SELECT k, coalesce(s.n, 0), coalesce(t.n, 0) FROM ({}) AS s FULL JOIN ({}) AS t USING (k)",
        only("main", "target"),
        only("target", "main")
    );
    let mut verdict = Verdict::default();
    let mut statement = connection.prepare(&sql).expect("a query");
    let mut rows = statement.query([]).expect("rows");
    while let Some(row) = rows.next().expect("a row") {
        let (key, source, target): (String, i64, i64) =
            (row.get(0).expect("a key"), row.get(1).expect("a count"), row.get(2).expect("a count"));
        let both = source.min(target);
        for (counts, count) in
            [(&mut verdict.0, source - both), (&mut verdict.1, target - both), (&mut verdict.2, both)]
        {
            if count > 0 {
                counts.insert(key.clone(), count);
            }
        }
    }
    verdict
}

/// What Drover found, its keys turned into the notation of [`by_except`] by SQLite itself.
fn by_drover(table: &serde_json::Value) -> Verdict {
    let connection = Connection::open_in_memory().expect("a database");
    let mut verdict = Verdict::default();
    for row in table["rows"].as_array().expect("rows") {
        let parts: Vec<String> = row["key"]
            .as_array()
            .expect("a key")
            .iter()
            .map(|part| {
                // A text with a NUL cannot be written as a literal: SQLite reads SQL up to it.
                let literal = part["value"].as_str().unwrap_or("NULL").replace('\0', "' || char(0) || '");
                let sql = format!("SELECT {} FROM (SELECT {literal} AS v)", exact("v"));
                connection.query_row(&sql, [], |row| row.get(0)).expect("a literal")
            })
            .collect();
        let counts = match row["verdict"].as_str().expect("a verdict") {
            "missing-at-target" => &mut verdict.0,
            "extra-at-target" => &mut verdict.1,
            "different" => &mut verdict.2,
            other => panic!("{other}"),
        };
        *counts.entry(parts.join("|")).or_default() += 1;
    }
    verdict
}

#[test]
fn random_damage_is_found_as_except_finds_it() {
    let seed =
        std::env::var("DROVER_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or_else(|| fastrand::u64(..));
    let mut random = fastrand::Rng::with_seed(seed);
    let mut different = 0;
    for round in 0..25 {
        let folder = tempfile::tempdir().expect("a folder");
        let (source, target) = (folder.path().join("source"), folder.path().join("target"));
        fill(&source, &mut random, [4, 100, 2500][round % 3]);
        std::fs::copy(&source, &target).expect("a copy");
        damage(&target, &mut random);
        let url = |path: &Path| format!("sqlite:{}", path.display());
        let (comparison, status) = comparison(&[&url(&source), &url(&target), "--rows", "1000000"]);
        let tables = comparison["tables"].as_array().expect("tables");
        assert_eq!(tables.len(), SHAPES.len());
        let mut all_equal = true;
        for shape in SHAPES {
            let expected = by_except(&source, &target, shape);
            let name = change::TableName::new("main", shape.table).to_string();
            let found = tables.iter().find(|table| table["target"] == *name).expect("the table");
            assert_eq!(by_drover(found), expected, "seed {seed}, round {round}, table {name}: {found}");
            let sum = |counts: &BTreeMap<String, i64>| counts.values().sum::<i64>();
            let counts = (sum(&expected.0), sum(&expected.1), sum(&expected.2));
            let told = |field: &str| found[field].as_i64().expect("a count");
            assert_eq!((told("missing"), told("extra"), told("different")), counts, "seed {seed}, round {round}");
            let equal = counts == (0, 0, 0);
            assert_eq!(found["verdict"] == "equal", equal);
            all_equal &= equal;
        }
        assert_eq!(status, i32::from(!all_equal));
        different += usize::from(!all_equal);
    }
    assert!(different > 10, "most rounds do damage; seed {seed}");
}

#[test]
fn values_that_look_alike_are_different() {
    let folder = tempfile::tempdir().expect("a folder");
    let alike = ["1", "1.0", "'1'", "X'31'", "NULL", "''", "X''", "0", "0.0", "-0.0", "'a'", "'A'", "'a '", "'NULL'"];
    let write = |side: &str, literals: Vec<&str>| {
        let path = folder.path().join(side);
        let connection = Connection::open(&path).expect("a file");
        let rows: Vec<String> = literals.iter().map(|literal| format!("({literal})")).collect();
        let sql = format!(
            "CREATE TABLE t(id INTEGER PRIMARY KEY, v COLLATE NOCASE); INSERT INTO t(v) VALUES {}",
            rows.join(", ")
        );
        connection.execute_batch(&sql).expect("rows");
        format!("sqlite:{}", path.display())
    };
    // Every value meets every other: row i * n + j holds value i here and value j there.
    let count = alike.len();
    let source = write("a", (0..count * count).map(|row| alike[row / count]).collect());
    let target = write("b", (0..count * count).map(|row| alike[row % count]).collect());
    let (comparison, _) = comparison(&[&source, &target, "--rows", "1000"]);
    let rows = comparison["tables"][0]["rows"].as_array().expect("rows");
    let number = |row: &serde_json::Value| row["key"][0]["value"].as_str().expect("a key").parse().expect("a number");
    let mut found: Vec<usize> = rows.iter().map(number).collect();
    found.sort_unstable();
    let expected: Vec<usize> = (0..count * count).filter(|row| row / count != row % count).map(|row| row + 1).collect();
    assert_eq!(found, expected);
}

#[test]
fn a_table_of_many_columns_without_a_key_is_compared_and_its_rows_are_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let columns: Vec<String> = (0..1500).map(|index| format!("c{index}")).collect();
    let write = |side: &str, last: u32| {
        let path = folder.path().join(side);
        let connection = Connection::open(&path).expect("a file");
        connection.execute_batch(&format!("CREATE TABLE wide({})", columns.join(", "))).expect("a table");
        let values: Vec<String> = (0..1499).map(|index| index.to_string()).collect();
        connection.execute_batch(&format!("INSERT INTO wide VALUES ({}, {last})", values.join(", "))).expect("a row");
        format!("sqlite:{}", path.display())
    };
    let (comparison, _) = comparison(&[&write("a", 1), &write("b", 2)]);
    let table = &comparison["tables"][0];
    assert_eq!((&table["missing"], &table["extra"], &table["key"]), (&1.into(), &1.into(), &serde_json::Value::Null));
    let key = table["rows"][0]["key"].as_array().expect("a key");
    assert_eq!(key.len(), 1500);
    assert_eq!((&key[1499]["column"], &key[1499]["value"]), (&"c1499".into(), &"1".into()));
    assert_eq!(key[123]["value"], "123");
}

#[test]
fn a_side_is_read_as_it_stood_when_it_was_opened() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a");
    let connection = Connection::open(&path).expect("a file");
    connection
        .execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE t(id INTEGER PRIMARY KEY); INSERT INTO t VALUES (1);")
        .expect("a row");
    let url = format!("sqlite:{}", path.display());
    let mut side = db_sqlite::open_comparison(&url).expect("a side");
    connection.execute_batch("INSERT INTO t VALUES (2); CREATE TABLE u(id);").expect("another");
    assert_eq!(rows_seen(&mut *side), [1]);
    let mut side = db_sqlite::open_comparison(&url).expect("a side");
    assert_eq!(rows_seen(&mut *side), [2, 0]);
}
