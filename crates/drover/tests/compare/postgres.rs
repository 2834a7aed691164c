//! PostgreSQL databases with random damage, compared by Drover and by EXCEPT in both directions.

use super::{comparison, drover_compare, rows_seen};
use crate::server::{Cluster, ClusterOptions};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::Write;
use std::process::Stdio;
use std::sync::OnceLock;
use std::thread;

fn cluster() -> &'static Cluster {
    static CLUSTER: OnceLock<Cluster> = OnceLock::new();
    CLUSTER.get_or_init(|| Cluster::start(&ClusterOptions::default()))
}

/// Runs SQL of any length and returns what psql prints.
fn script(database: &str, sql: &str) -> String {
    let mut psql = cluster().command("psql");
    psql.args(["-X", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1", "-1", "-U", "postgres", "-h"])
        .arg(cluster().directory())
        .args(["-p", &cluster().port().to_string(), "-d", database, "-f", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut process = psql.spawn().expect("psql starts");
    let mut input = process.stdin.take().expect("a pipe");
    let output = thread::scope(|scope| {
        scope.spawn(move || input.write_all(sql.as_bytes()).expect("psql reads"));
        process.wait_with_output().expect("psql ends")
    });
    assert!(output.status.success(), "psql failed: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("psql prints UTF-8").trim_end().to_owned()
}

/// A database with this content.
fn database(name: &str, sql: &str) {
    cluster().psql("postgres", &format!("CREATE DATABASE {name}"));
    script(name, sql);
}

/// A table whose rows the server makes from random numbers.
struct Shape {
    table: &'static str,
    sql: &'static str,
    /// An INSERT of one row in which `?` stands for a random number each time.
    insert: &'static str,
    /// An UPDATE without its condition.
    updates: &'static [&'static str],
    columns: &'static [&'static str],
    /// Expressions of the key; empty without one.
    key: &'static [&'static str],
}

const SHAPES: &[Shape] = &[
    Shape {
        table: "public.plain",
        sql: "CREATE TABLE public.plain(id int PRIMARY KEY, a text, b numeric, c double precision, d bytea, e timestamptz, f jsonb)",
        insert: "INSERT INTO public.plain VALUES (? % 90, (ARRAY['', 'a', 'A', E'x\\ty\\n\\\\', NULL, '\"', '(,)'])[? % 7 + 1], \
                 (ARRAY[1, 1.0, 1.00, 'NaN', NULL])[? % 5 + 1], (ARRAY[0.0, '-0', 'NaN', 0.1, 'Infinity'])[? % 5 + 1]::float8, \
                 (ARRAY['', '\\x00', '\\x0000', NULL])[? % 4 + 1]::bytea, \
                 timestamptz '2026-01-01' + ? % 3 * interval '1 microsecond', jsonb_build_object('k', ? % 3)) \
                 ON CONFLICT DO NOTHING",
        updates: &["SET a = a || 'x'", "SET b = b + 0.0", "SET c = 0", "SET d = d || '\\x01'", "SET f = NULL"],
        columns: &["id", "a", "b", "c", "d", "e", "f"],
        key: &["id"],
    },
    Shape {
        table: "\"Weird.Schema\".\"a\"\"b; DROP TABLE plain; --\"",
        sql: "CREATE SCHEMA \"Weird.Schema\"; CREATE TABLE \"Weird.Schema\".\"a\"\"b; DROP TABLE plain; --\"\
              (\"Id\" text, \"id\" bytea, \"col\\3\" int[], PRIMARY KEY (\"id\", \"Id\"))",
        insert: "INSERT INTO \"Weird.Schema\".\"a\"\"b; DROP TABLE plain; --\" VALUES \
                 ((ARRAY['', 'a,b', '\"', '\\', E'\\n\\t', 'ä'])[? % 6 + 1], decode(lpad(to_hex(? % 20), 2, '0'), 'hex'), \
                 ARRAY[? % 2, NULL]) ON CONFLICT DO NOTHING",
        updates: &["SET \"col\\3\" = '{}'", "SET \"col\\3\" = NULL"],
        columns: &["Id", "id", "col\\3"],
        key: &["id", "Id"],
    },
    Shape {
        table: "public.bag",
        sql: "CREATE TABLE public.bag(a text, b bytea, c boolean)",
        insert: "INSERT INTO public.bag VALUES ((ARRAY['x', 'y', NULL])[? % 3 + 1], (ARRAY['\\x', '\\xff', NULL])[? % 3 + 1]::bytea, \
                 (ARRAY[true, false, NULL])[? % 3 + 1])",
        updates: &["SET a = 'z'", "SET b = '\\xfe'", "SET c = NOT c"],
        columns: &["a", "b", "c"],
        key: &[],
    },
    Shape {
        table: "public.parted",
        sql: "CREATE TABLE public.parted(id int, v varchar(20), w int GENERATED ALWAYS AS (id * 2) STORED, PRIMARY KEY (id)) \
              PARTITION BY RANGE (id); \
              CREATE TABLE public.parted_low PARTITION OF public.parted FOR VALUES FROM (MINVALUE) TO (50); \
              CREATE TABLE public.parted_high(w int GENERATED ALWAYS AS (id * 2) STORED, v varchar(20), id int NOT NULL); \
              ALTER TABLE public.parted ATTACH PARTITION public.parted_high FOR VALUES FROM (50) TO (MAXVALUE)",
        insert: "INSERT INTO public.parted(id, v) VALUES (? % 100, ? % 5) ON CONFLICT DO NOTHING",
        updates: &["SET v = v || '!'"],
        columns: &["id", "v", "w"],
        key: &["id"],
    },
];

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A statement with its question marks replaced by random numbers.
fn drawn(sql: &str, random: &mut fastrand::Rng) -> String {
    let mut parts = sql.split('?');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        text.push_str(&random.u32(0..1_000_000).to_string());
        text.push_str(part);
    }
    text
}

fn content(random: &mut fastrand::Rng, rows: usize) -> String {
    let mut sql = String::new();
    for shape in SHAPES {
        sql.push_str(&format!("{};\n", shape.sql));
        for _ in 0..random.usize(0..=rows) {
            sql.push_str(&format!("{};\n", drawn(shape.insert, random)));
        }
    }
    sql
}

fn damage(random: &mut fastrand::Rng) -> String {
    let mut sql = "SELECT 1;\n".to_owned();
    for shape in SHAPES {
        if random.bool() {
            continue;
        }
        let table = shape.table;
        for _ in 0..random.usize(0..6) {
            let place = random.u32(..);
            let some = format!(
                "WHERE (tableoid, ctid) = (SELECT tableoid, ctid FROM {table} AS r ORDER BY r::text COLLATE \"C\" \
                 OFFSET (SELECT {place} % greatest(1, count(*)) FROM {table}) LIMIT 1)"
            );
            sql.push_str(&match random.u32(0..4) {
                0 => format!("DELETE FROM {table} {some};\n"),
                1 => format!("{};\n", drawn(shape.insert, random)),
                _ => format!("UPDATE {table} {} {some};\n", shape.updates[random.usize(0..shape.updates.len())]),
            });
        }
    }
    sql
}

/// Missing, extra and different rows by their keys.
type Verdict = (BTreeMap<String, i64>, BTreeMap<String, i64>, BTreeMap<String, i64>);

/// The verdict of SQL that knows nothing of Drover, over copies of both tables in one database.
fn by_except(name: &str, shape: &Shape) -> Verdict {
    // Every value in its own text: `1.0` and `1.00` are equal to numeric's eye, not to ours.
    let text = |column: &str| format!("coalesce(quote_literal({}::text), 'NULL')", quoted(column));
    let whole: Vec<String> = shape.columns.iter().map(|column| text(column)).collect();
    let key = if shape.key.is_empty() { whole.clone() } else { shape.key.iter().map(|column| text(column)).collect() };
    let hex = |parts: Vec<String>| format!("encode(convert_to({}, 'UTF8'), 'hex')", parts.join("||','||"));
    let (key, whole) = (hex(key), hex(whole));
    let rows = |side: &str| {
        let sql = format!(
            "SELECT format('(%L, %L, %s)', {key}, {whole}, row_number() OVER (PARTITION BY {whole})) FROM {}",
            shape.table
        );
        let list = cluster().psql(&format!("{name}_{side}"), &sql);
        let list: Vec<&str> = list.lines().collect();
        if list.is_empty() {
            "SELECT NULL, NULL, NULL WHERE false".to_owned()
        } else {
            format!("VALUES {}", list.join(","))
        }
    };
    let (source, target) = (rows("a"), rows("b"));
    let only = |one: &str, other: &str| {
        format!("(SELECT k, count(*) AS n FROM (({one}) EXCEPT ({other})) AS r(k, w, n) GROUP BY k)")
    };
    let sql = format!(
        "SELECT k, coalesce(s.n, 0), coalesce(t.n, 0) \
         FROM {} AS s FULL JOIN {} AS t USING (k)",
        only(&source, &target),
        only(&target, &source)
    );
    let mut verdict = Verdict::default();
    for line in script("postgres", &sql).lines() {
        let fields: Vec<&str> = line.split('|').collect();
        let count = |field: usize| fields[field].parse::<i64>().expect("a count");
        let both = count(1).min(count(2));
        for (counts, count) in
            [(&mut verdict.0, count(1) - both), (&mut verdict.1, count(2) - both), (&mut verdict.2, both)]
        {
            if count > 0 {
                counts.insert(fields[0].to_owned(), count);
            }
        }
    }
    verdict
}

/// What Drover found, its keys in the notation of [`by_except`].
fn by_drover(table: &Value) -> Verdict {
    let mut verdict = Verdict::default();
    for row in table["rows"].as_array().expect("rows") {
        let literal = |part: &Value| match part["value"].as_str() {
            None => "NULL".to_owned(),
            // quote_literal() marks texts with backslashes.
            Some(text) => {
                let mark = if text.contains('\\') { "E" } else { "" };
                format!("{mark}'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
            }
        };
        let key: Vec<String> = row["key"].as_array().expect("a key").iter().map(literal).collect();
        let key: String = key.join(",").bytes().map(|byte| format!("{byte:02x}")).collect();
        let counts = match row["verdict"].as_str().expect("a verdict") {
            "missing-at-target" => &mut verdict.0,
            "extra-at-target" => &mut verdict.1,
            "different" => &mut verdict.2,
            other => panic!("{other}"),
        };
        *counts.entry(key).or_default() += 1;
    }
    verdict
}

#[test]
fn random_damage_is_found_as_except_finds_it() {
    let seed =
        std::env::var("DROVER_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or_else(|| fastrand::u64(..));
    let mut random = fastrand::Rng::with_seed(seed);
    let mut different = 0;
    for round in 0..8 {
        let name = format!("damage_{round}");
        let sql = content(&mut random, [3, 80, 400][round % 3]);
        database(&format!("{name}_a"), &sql);
        database(&format!("{name}_b"), &sql);
        script(&format!("{name}_b"), &damage(&mut random));
        let url = |side: &str| cluster().url(&format!("{name}_{side}"));
        let (comparison, status) = comparison(&[&url("a"), &url("b"), "--rows", "1000000"]);
        let tables = comparison["tables"].as_array().expect("tables");
        assert_eq!(tables.len(), SHAPES.len(), "{comparison}");
        let mut all_equal = true;
        for shape in SHAPES {
            let expected = by_except(&name, shape);
            let found = tables.iter().find(|table| table["target"] == shape.table);
            let found = found.unwrap_or_else(|| panic!("{} in {comparison}", shape.table));
            let sum = |counts: &BTreeMap<String, i64>| counts.values().sum::<i64>();
            let counts = (sum(&expected.0), sum(&expected.1), sum(&expected.2));
            let told = |field: &str| found[field].as_i64().expect("a count");
            let place = format!("seed {seed}, round {round}, {}: {found}", shape.table);
            assert_eq!((told("missing"), told("extra"), told("different")), counts, "{place}");
            // Raw bytes of rows without a key are named by their hash.
            if shape.table != "public.bag" {
                assert_eq!(by_drover(found), expected, "{place}");
            }
            assert_eq!(found["verdict"] == "equal", counts == (0, 0, 0), "{place}");
            all_equal &= counts == (0, 0, 0);
        }
        assert_eq!(status, i32::from(!all_equal));
        different += usize::from(!all_equal);
    }
    assert!(different > 2, "most rounds do damage; seed {seed}");
}

#[test]
fn every_built_in_type_is_compared_by_its_text_whatever_the_settings_of_role_and_database() {
    // One row of odd values, and per column another one that an incautious comparison would take for the same.
    let columns = [
        ("boolean", "true", "NULL"),
        ("smallint", "0", "NULL"),
        ("numeric", "1.0", "1.00"),
        ("real", "'-0'", "0"),
        ("double precision", "0.1", "0.10000000000000002"),
        ("money", "1.5", "1.51"),
        ("char(5)", "'a'", "'A'"),
        ("varchar(5)", "'a '", "'a'"),
        ("text", "''", "NULL"),
        ("name", "'a'", "'b'"),
        ("\"char\"", "'a'", "''"),
        ("bytea", "'\\x5c78'", "'\\x5c7800'"),
        ("date", "'infinity'", "'-infinity'"),
        ("time", "'24:00:00'", "'00:00:00'"),
        ("timetz", "'01:00+01'", "'00:00+00'"),
        ("timestamp", "'2000-01-02 03:04:05.000001'", "'2000-01-02 03:04:05.000002'"),
        ("timestamptz", "'0001-01-01 BC'", "'0001-01-01'"),
        ("interval", "'1 day'", "'24 hours'"),
        ("uuid", "'00000000-0000-0000-0000-000000000000'", "'00000000-0000-0000-0000-000000000001'"),
        ("json", "'{\"a\": 1}'", "'{\"a\":1}'"),
        ("jsonb", "'null'", "NULL"),
        ("xml", "'<a/>'", "'<a></a>'"),
        ("bit(3)", "B'001'", "B'010'"),
        ("varbit", "B'0'", "B'00'"),
        ("inet", "'1.2.3.4'", "'1.2.3.4/31'"),
        ("macaddr", "'00:00:00:00:00:01'", "'00:00:00:00:00:02'"),
        ("point", "'(0,0)'", "'(-0,0)'"),
        ("tsvector", "'a:1'", "'a:2'"),
        ("int[]", "'{1}'", "'[0:0]={1}'"),
        ("text[]", "'{NULL}'", "'{\"NULL\"}'"),
        ("int4range", "'empty'", "'[1,2)'"),
        ("regclass", "'pg_class'", "'pg_type'"),
        ("text COLLATE nocase", "'a'", "'A'"),
        ("positive", "1", "2"),
        ("pair", "ROW(1, NULL)", "ROW(NULL, 1)"),
    ];
    let prelude = "CREATE COLLATION public.nocase (provider = icu, locale = 'und-u-ks-level2', deterministic = false); \
                   CREATE DOMAIN public.positive AS int CHECK (VALUE > 0); CREATE TYPE public.pair AS (a int, b int);";
    let names: Vec<String> = (0..columns.len()).map(|index| format!("c{index}")).collect();
    let definitions: Vec<String> =
        names.iter().zip(&columns).map(|(name, (kind, _, _))| format!("{name} {kind}")).collect();
    let values: Vec<&str> = columns.iter().map(|(_, value, _)| *value).collect();
    let row = |id: usize| format!("({id}, {})", values.join(", "));
    // Row n of the target has another value in column n.
    let rows: Vec<String> = (0..=columns.len()).map(row).collect();
    let sql = format!(
        "{prelude} CREATE TABLE public.t(id int PRIMARY KEY, {}); INSERT INTO public.t VALUES {}",
        definitions.join(", "),
        rows.join(", ")
    );
    database("types_a", &sql);
    let changes: Vec<String> = columns
        .iter()
        .enumerate()
        .map(|(index, (_, _, other))| format!("UPDATE public.t SET c{index} = {other} WHERE id = {index}"))
        .collect();
    database("types_b", &format!("{sql}; {}", changes.join("; ")));
    for setting in [
        "datestyle = 'SQL, DMY'",
        "intervalstyle = sql_standard",
        "bytea_output = escape",
        "extra_float_digits = -3",
        "timezone = 'Asia/Kolkata'",
        "search_path = public",
        "client_encoding = latin1",
        "statement_timeout = 1",
        "idle_in_transaction_session_timeout = 1",
    ] {
        cluster().psql("postgres", &format!("ALTER DATABASE types_b SET {setting}"));
    }
    let (source, target) = (cluster().url("types_a"), cluster().url("types_b"));
    let (comparison, _) = comparison(&[&source, &target, "--rows", "1000"]);
    let table = &comparison["tables"][0];
    let found = table["rows"].as_array().expect("rows").iter().map(|row| {
        assert_eq!(row["verdict"], "different");
        row["key"][0]["value"].as_str().expect("a key").parse::<usize>().expect("a number")
    });
    let mut found: Vec<usize> = found.collect();
    found.sort_unstable();
    assert_eq!(found, (0..columns.len()).collect::<Vec<_>>(), "{table}");
}

#[test]
fn a_table_that_the_role_may_not_read_in_full_gives_no_verdict() {
    database("rights_a", "CREATE TABLE public.t(id int PRIMARY KEY); INSERT INTO public.t VALUES (1)");
    database("rights_b", "CREATE TABLE public.t(id int PRIMARY KEY); INSERT INTO public.t VALUES (1)");
    cluster().psql("postgres", "CREATE ROLE reader LOGIN");
    let reader = cluster().url_of("reader", "rights_b");
    let output = drover_compare(&[&cluster().url("rights_a"), &reader]);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2));
    assert!(error.contains("public.t") && error.contains("next step: "), "{error}");
    cluster().psql("rights_b", "GRANT SELECT ON public.t TO reader");
    assert_eq!(comparison(&[&cluster().url("rights_a"), &reader]).1, 0);
    // A policy that would hide rows from the reader must not make tables equal or different.
    cluster().psql("rights_b", "INSERT INTO public.t VALUES (2); ALTER TABLE public.t ENABLE ROW LEVEL SECURITY; CREATE POLICY p ON public.t USING (id = 1)");
    assert_eq!(drover_compare(&[&cluster().url("rights_a"), &reader]).status.code(), Some(2));
}

#[test]
fn a_side_is_read_as_it_stood_when_it_was_opened() {
    database("moment", "CREATE TABLE public.t(id int PRIMARY KEY); INSERT INTO public.t VALUES (1)");
    let mut side = db_postgres::open_comparison(&cluster().url("moment")).expect("a side");
    cluster().psql("moment", "INSERT INTO public.t VALUES (2); CREATE TABLE public.u(id int)");
    assert_eq!(rows_seen(&mut *side), [1]);
    drop(side);
    let mut side = db_postgres::open_comparison(&cluster().url("moment")).expect("a side");
    assert_eq!(rows_seen(&mut *side), [2, 0]);
}

#[test]
fn a_table_that_only_one_of_two_products_has_is_a_difference() {
    database("unlike", "CREATE TABLE public.u(a int)");
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.db");
    rusqlite::Connection::open(&path).expect("a file").execute_batch("CREATE TABLE t(a)").expect("a table");
    let output = drover_compare(&[&format!("sqlite:{}", path.display()), &cluster().url("unlike")]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(told.contains("main.t: missing at target") && told.contains("public.u: extra at target"), "{told}");
}

#[test]
fn a_table_without_columns_and_one_with_inheritance_are_compared() {
    let sql = "CREATE TABLE public.nothing(); INSERT INTO public.nothing DEFAULT VALUES; \
               CREATE TABLE public.parent(id int); CREATE TABLE public.child() INHERITS (public.parent); \
               INSERT INTO public.parent VALUES (1); INSERT INTO public.child VALUES (2);";
    database("odd_a", sql);
    database("odd_b", sql);
    let (source, target) = (cluster().url("odd_a"), cluster().url("odd_b"));
    assert_eq!(comparison(&[&source, &target]).1, 0);
    cluster().psql("odd_b", "INSERT INTO public.nothing DEFAULT VALUES; DELETE FROM public.child");
    let (comparison, _) = comparison(&[&source, &target]);
    let found: BTreeMap<&str, (i64, i64)> = comparison["tables"]
        .as_array()
        .expect("tables")
        .iter()
        .map(|table| {
            let count = |field: &str| table[field].as_i64().expect("a count");
            (table["target"].as_str().expect("a name"), (count("missing"), count("extra")))
        })
        .collect();
    assert_eq!(
        found,
        BTreeMap::from([("public.child", (1, 0)), ("public.nothing", (0, 1)), ("public.parent", (0, 0))])
    );
}
