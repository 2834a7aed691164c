//! Values of every built-in type, rendered by the server, on every path into the target, under hostile settings.
//!
//! The oracle is the server's own text of what the target holds.

use super::stage::{Stage, shared};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Types without input: no column of a user's table can hold a value.
const WITHOUT_INPUT: &[&str] = &[
    "pg_node_tree",
    "pg_ndistinct",
    "pg_dependencies",
    "pg_mcv_list",
    "pg_brin_bloom_summary",
    "pg_brin_minmax_multi_summary",
    "gtsvector",
];

/// Edge values per type, and an expression that makes a random one out of `g`.
type Kind = (&'static str, &'static [&'static str], &'static str);

/// Every type of `pg_type` that has input, by its name there.
const BUILT_IN: &[Kind] = &[
    ("bool", &["'t'", "'f'"], "random() < 0.5"),
    (
        "bytea",
        &["''", r"'\x00'", r"'\xDEADBEEF'", r"'\x5c5c785c6e0a0d00ff'", "decode(repeat('00ff5c0a', 30000), 'hex')"],
        "decode(repeat(md5(random()::text), 1 + g % 40), 'hex')",
    ),
    ("char", &["'a'", "''", r"E'\n'", r"'\\'", "'\"'", r"'\377'"], "chr(33 + g % 90)"),
    ("name", &["''", "'Ä\"b'", r"E'\\N'", "repeat('é', 31)"], "'n' || g"),
    (
        "int8",
        &["9007199254740993", "-9223372036854775808", "9223372036854775807", "0"],
        "(random() * 9e18 * CASE WHEN g % 2 = 0 THEN 1 ELSE -1 END)::int8",
    ),
    ("int2", &["-32768", "32767", "0"], "(random() * 65535 - 32768)::int2"),
    ("int4", &["-2147483648", "2147483647", "0"], "(random() * 4e9 - 2e9)::int4"),
    ("regproc", &["'now'", "0"], "'pg_catalog.pi'"),
    (
        "text",
        &[
            "''",
            "' '",
            r"E'a\nb\r\tc'",
            r"E'\\'",
            r"E'\\.'",
            r"E'\\N'",
            "'NULL'",
            "''''",
            "'$$'",
            r"E'\u0001\u007f'",
            "'🐘 \u{10FFFF} ä'",
            "repeat('''\"\\,{}()', 130000)",
            "repeat(' ', 5)",
        ],
        "(SELECT string_agg(chr((CASE WHEN random() < 0.7 THEN 1 + random() * 126 ELSE 160 + random() * 50000 END)::int), '') FROM generate_series(1, 1 + g % 60))",
    ),
    ("oid", &["0", "4294967295"], "(random() * 4e9)::int8::oid"),
    ("tid", &["'(0,0)'", "'(4294967295,65535)'"], "format('(%s,%s)', g, g)::tid"),
    ("xid", &["'0'", "'4294967295'"], "g::text::xid"),
    ("cid", &["'0'", "'4294967295'"], "g::text::cid"),
    (
        "json",
        &["'null'", r#"' { "a" : 1, "a":2 }'"#, r#"'"\u00e4\\"'"#, "'1e400'", "'0.10'", r#"'[]'"#],
        "json_build_object('k', g, 'r', random())",
    ),
    (
        "xml",
        &["'<a/>'", "'<a></a>'", "'text &amp; <b x=\"''\">ä</b>'", "''", "'<?xml version=\"1.0\"?><a/>'"],
        "xmlelement(name e, g)",
    ),
    ("point", &["'(0,0)'", "'(-0,1e-300)'", "'(NaN,Infinity)'"], "point(random(), random() * 1e10)"),
    ("lseg", &["'[(0,0),(1,1)]'", "'[(1,1),(0,-0)]'"], "lseg(point(g, random()), point(random(), g))"),
    ("path", &["'((0,0),(1,1),(2,0))'", "'[(0,0),(1,1)]'"], "format('[(0,%s),(%s,1)]', random(), g)::path"),
    ("box", &["'(1,1),(0,0)'"], "box(point(g, random()), point(random(), g))"),
    ("polygon", &["'((0,0),(1,1),(2,0))'", "'((0,0))'"], "polygon(circle(point(random(), g), g))"),
    ("line", &["'{1,2,3}'", "'{-1,0,0}'"], "line(point(g, random()), point(random(), g + 1))"),
    ("cidr", &["'192.168.0.0/24'", "'0.0.0.0/0'", "'2001:db8::/32'"], "('10.' || g % 255 || '.0.0/16')::cidr"),
    (
        "float4",
        &["'NaN'", "'Infinity'", "'-Infinity'", "'-0'", "0", "'1e-45'", "'3.4028235e38'", "0.1"],
        "(random() * power(10, g % 30))::float4",
    ),
    (
        "float8",
        &[
            "'NaN'",
            "'Infinity'",
            "'-Infinity'",
            "'-0'",
            "0",
            "'5e-324'",
            "'1.7976931348623157e308'",
            "0.1",
            "0.30000000000000004",
            "9007199254740993",
        ],
        "random() * power(10::float8, (random() * 500 - 250)::int)",
    ),
    ("circle", &["'<(0,0),1>'", "'<(-0,0),0>'"], "circle(point(random(), g), random())"),
    (
        "macaddr8",
        &["'00:00:00:00:00:00:00:00'", "'ff:ff:ff:ff:ff:ff:ff:ff'"],
        "macaddr8_set7bit(('08:00:2b:01:02:03:04:' || lpad(to_hex(g % 256), 2, '0'))::macaddr8)",
    ),
    (
        "money",
        &["'-92233720368547758.08'", "'92233720368547758.07'", "0", "'0.01'"],
        "(random() * 1e9)::numeric::money",
    ),
    (
        "macaddr",
        &["'00:00:00:00:00:00'", "'ff:ff:ff:ff:ff:ff'"],
        "('08:00:2b:01:02:' || lpad(to_hex(g % 256), 2, '0'))::macaddr",
    ),
    ("inet", &["'1.2.3.4'", "'1.2.3.4/31'", "'::'", "'::ffff:1.2.3.4/96'", "'2001:db8::1/64'"], "'10.0.0.0'::inet + g"),
    ("aclitem", &["'postgres=r/postgres'", "'=UC/postgres'"], "makeaclitem(10, 10, 'SELECT', g % 2 = 0)"),
    ("bpchar", &["''", "'a  '", "'é'"], "repeat('x', g % 9) || '  '"),
    ("varchar", &["''", "'a  '", "'🐘'"], "md5(random()::text)"),
    (
        "date",
        &["'infinity'", "'-infinity'", "'0044-03-15 BC'", "'5874897-12-31'", "'4713-01-01 BC'", "'1999-12-31'"],
        "date '2000-01-01' + (random() * 5000000 - 2400000)::int",
    ),
    (
        "time",
        &["'00:00'", "'24:00'", "'23:59:59.999999'", "'00:00:00.000001'"],
        "time '00:00' + random() * interval '24 hours'",
    ),
    (
        "timestamp",
        &[
            "'infinity'",
            "'-infinity'",
            "'0044-03-15 12:00 BC'",
            "'294276-12-31 23:59:59.999999'",
            "'4713-01-01 00:00 BC'",
            "'10000-01-01'",
            "'1969-12-31 23:59:59.999999'",
        ],
        "timestamp '2000-01-01' + (random() - 0.5) * interval '4000 years'",
    ),
    (
        "timestamptz",
        &[
            "'infinity'",
            "'-infinity'",
            "'0044-03-15 12:00+05:30 BC'",
            "'294276-12-31 23:59:59.999999+00'",
            "'2026-03-29 02:30+01'",
            "'2026-11-01 01:30-04'",
        ],
        "timestamptz '2000-01-01' + (random() - 0.5) * interval '4000 years'",
    ),
    (
        "interval",
        &[
            "'0'",
            "'1 day'",
            "'24 hours'",
            "'-1 year 2 months -3 days 04:05:06.000007'",
            "'178000000 years'",
            "'-2562047788:00:54.775807'",
            "'1 mon -1 day'",
        ],
        "make_interval(g % 9 - 4, g % 25 - 12, 0, g - 50, 0, 0, random() * 1e5)",
    ),
    (
        "timetz",
        &["'24:00+05'", "'00:00-15:59'", "'12:00:00.5+05:30:15'"],
        "timetz '00:00+03' + random() * interval '24 hours'",
    ),
    ("bit", &["B''", "B'1'"], "B'1'"),
    ("varbit", &["B''", "B'0'", "B'00'", "repeat('10', 2500)::varbit"], "(g * 7919)::bit(20)::varbit"),
    (
        "numeric",
        &[
            "'NaN'",
            "'Infinity'",
            "'-Infinity'",
            "0",
            "0.00",
            "1.0",
            "1.00",
            "1e-16383",
            "repeat('9', 1000)::numeric",
            "('0.' || repeat('123', 300))::numeric",
            "1e1000",
            "-0.000000000000000000001",
            "2129020",
            "21290300",
        ],
        "(random() * 1e15)::numeric(30, 10) * (10::numeric ^ (g % 40 - 20))",
    ),
    ("refcursor", &["''", "'a\"b'"], "'c' || g"),
    ("regprocedure", &["'now()'", "0"], "'pi()'"),
    ("regoper", &["'pg_catalog.||/'", "0"], "0::regoper"),
    ("regoperator", &["'pg_catalog.+(integer,integer)'", "0"], "0::regoperator"),
    ("regclass", &["'pg_class'", "'public.signal'", "0"], "'public.signal'"),
    ("regtype", &["'int4'", "'public.mood'", "'timestamptz[]'", "0"], "'int8'"),
    (
        "uuid",
        &["'00000000-0000-0000-0000-000000000000'", "'ffffffff-ffff-ffff-ffff-ffffffffffff'"],
        "gen_random_uuid()",
    ),
    ("txid_snapshot", &["'1:1:'", "'10:20:10,14,15'"], "txid_current_snapshot()"),
    ("pg_lsn", &["'0/0'", "'FFFFFFFF/FFFFFFFF'"], "('0/' || to_hex(g))::pg_lsn"),
    (
        "tsvector",
        &["''", r"'''it''''s'':1 ''a b'':2 c:3A,4B'", r"'''\\'':1'"],
        "to_tsvector('simple', md5(random()::text) || ' ' || g)",
    ),
    ("tsquery", &["''", "'a & !(b | ''c d'':*A) <2> e'"], "to_tsquery('simple', 'x' || g)"),
    ("regconfig", &["'english'", "0"], "'simple'"),
    ("regdictionary", &["'simple'", "0"], "'simple'"),
    (
        "jsonb",
        &[
            "'null'",
            r#"'"x"'"#,
            "'1234567890123456789012345678901234567890'",
            "'1e400'",
            "'0.10'",
            r#"'{"b": [1, {"ä\"": null}], "a": ""}'"#,
            "jsonb_build_object('big', repeat('json ', 600000))",
            "'{}'",
        ],
        "jsonb_build_object('k', g, 'r', random())",
    ),
    ("jsonpath", &["'$'", r#"'$."a b"[*] ? (@ > 1.0)'"#], "('$.k' || g)::jsonpath"),
    ("regnamespace", &["'pg_catalog'", "'public'", "0"], "'public'"),
    ("regrole", &["'postgres'", "0"], "'pg_monitor'"),
    ("regcollation", &["'pg_catalog.\"C\"'", "0"], "'pg_catalog.\"POSIX\"'"),
    ("pg_snapshot", &["'1:1:'", "'10:20:10,14,15'"], "pg_current_snapshot()"),
    ("xid8", &["'0'", "'18446744073709551615'"], "g::text::xid8"),
];

/// Types with modifiers, and types that users make.
const DECLARED: &[Kind] = &[
    ("numeric(10,2)", &["'NaN'", "99999999.99", "-0.01", "0"], "(random() * 1e6)::numeric(10,2)"),
    ("numeric(5,-3)", &["12345000", "-99999000"], "(random() * 1e6)::numeric(5,-3)"),
    ("char(5)", &["'a'", "''", "'äöüß€'"], "'c' || g % 9"),
    ("varchar(7)", &["'a'", "''", "'a b  '"], "'v' || g % 9"),
    ("bit(1)", &["B'0'", "B'1'"], "(g % 2)::bit(1)"),
    ("bit(9)", &["B'000000001'", "B'111111111'"], "g::bit(9)"),
    ("bit(64)", &["repeat('1', 64)::bit(64)", "(-2)::bit(64)"], "g::bit(64)"),
    ("bit(5000)", &["repeat('10', 2500)::bit(5000)"], "repeat('01', 2500)::bit(5000)"),
    ("bit varying(100)", &["B''", "repeat('1', 100)::varbit"], "g::bit(20)::varbit"),
    (
        "timestamp(3)",
        &["'2000-01-01 00:00:00.0006'", "'infinity'"],
        "timestamp '2000-01-01' + random() * interval '9 years'",
    ),
    ("time(0)", &["'23:59:59.6'"], "time '00:00' + random() * interval '23 hours'"),
    ("interval day to second(2)", &["'1 day 02:03:04.567'"], "random() * interval '9 days'"),
    ("interval year", &["'3 years'"], "make_interval(g)"),
    (
        "int[]",
        &["'{}'", "'{1,NULL,-3}'", "'{{1,2},{3,4}}'", "'[0:1]={5,6}'", "'[-1:0][2:3]={{1,2},{3,4}}'"],
        "ARRAY[g, NULL, g]",
    ),
    ("text[]", &[r#"'{"",NULL,"NULL","a\"b","c\\d"," ","{,}","\n"}'"#, "'{}'"], "ARRAY[md5(g::text), ',']"),
    ("public.mood", &["'sad'", "'it''s, ok'", "'ÄÖ\"'"], "'sad'"),
    ("other.mood", &["'ok'"], "'ok'"),
    ("public.mood[]", &["'{sad,\"it''s, ok\"}'", "'{}'"], "ARRAY['sad', NULL]::public.mood[]"),
    ("public.percent", &["0", "100"], "g % 100"),
    ("public.half[]", &["'{1,2,NULL}'"], "ARRAY[g % 50]"),
    ("public.pair", &["'(1,)'", r#"'(2,"a ""quoted"", (b) \\\\ c")'"#, "'(,)'"], "ROW(g, md5(g::text))"),
    ("public.pair[]", &[r#"'{"(1,a)","(2,\"x,y\")",NULL}'"#], "ARRAY[ROW(g, 'x')::public.pair]"),
    ("public.nest", &[r#"'("(1,""a b"")","{3,4}",sad)'"#, "'(,,)'"], "ROW(ROW(g, 'y'), ARRAY[g], 'sad')"),
    ("public.floats", &["'[0.1,0.30000000000000004)'", "'empty'"], "public.floats(g, g + random())"),
    ("hstore", &[r#"'a=>"1", "b c"=>"x\"\\y", d=>NULL'"#, "''"], "hstore('k', g::text)"),
    ("citext", &["'Abc'", "''"], "'C' || g"),
    ("ltree", &["'Top.Science'", "''"], "('n.' || g)::ltree"),
    ("cube", &["'(1,2),(3,4)'", "'(0)'"], "cube(g, random())"),
    ("text COLLATE public.nocase", &["'A'", "'b'"], "'Z' || g"),
];

const PRELUDE: &str = "
    CREATE EXTENSION hstore; CREATE EXTENSION citext; CREATE EXTENSION ltree; CREATE EXTENSION cube;
    CREATE SCHEMA other;
    CREATE TYPE public.mood AS ENUM ('sad', 'it''s, ok', 'ÄÖ\"'); CREATE TYPE other.mood AS ENUM ('ok', 'sad');
    CREATE DOMAIN public.half AS int CHECK (VALUE < 50); CREATE DOMAIN public.percent AS int CHECK (VALUE BETWEEN 0 AND 100);
    CREATE TYPE public.pair AS (a int, b text); CREATE TYPE public.nest AS (p public.pair, q int[], m public.mood);
    CREATE TYPE public.floats AS RANGE (subtype = float8);
    CREATE COLLATION public.nocase (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
";

/// Settings of the database that would change values on their way, or end us.
const HOSTILE: &[(&str, &str, &str)] = &[
    ("datestyle", "'SQL, DMY'", "'German'"),
    ("intervalstyle", "sql_standard", "iso_8601"),
    ("bytea_output", "escape", "escape"),
    ("extra_float_digits", "-3", "-15"),
    ("timezone", "'Asia/Kolkata'", "'America/New_York'"),
    ("search_path", "other", "pg_temp"),
    ("client_encoding", "latin1", "sql_ascii"),
    ("standard_conforming_strings", "off", "off"),
    ("backslash_quote", "off", "on"),
    ("xmloption", "document", "document"),
    ("array_nulls", "off", "off"),
    ("transform_null_equals", "on", "on"),
    ("quote_all_identifiers", "on", "on"),
    ("statement_timeout", "'200ms'", "'200ms'"),
    ("lock_timeout", "'1ms'", "'1ms'"),
    ("idle_in_transaction_session_timeout", "'1ms'", "'1ms'"),
    ("idle_session_timeout", "'1ms'", "'1ms'"),
    ("default_transaction_read_only", "on", "on"),
    ("default_transaction_isolation", "serializable", "'repeatable read'"),
    ("synchronous_commit", "off", "off"),
    ("row_security", "off", "off"),
    ("enable_indexscan", "off", "off"),
];

/// A locale that writes amounts of money in its own way; where the machine has none, one that is at least another.
fn monetary_locale() -> String {
    let known = std::process::Command::new("locale").arg("-a").output().map(|output| output.stdout).unwrap_or_default();
    let known = String::from_utf8_lossy(&known).into_owned();
    let foreign = known.lines().find(|name| ["de_DE.", "fr_FR.", "ja_JP."].iter().any(|start| name.starts_with(start)));
    foreign.unwrap_or("C.UTF-8").to_owned()
}

/// A type with a name for its tables.
struct Case {
    table: String,
    declared: String,
    /// Without modifier and collation, for casts.
    cast: String,
    edges: Vec<String>,
    random: String,
    is_comparable: bool,
}

fn cases() -> Vec<Case> {
    let ask = |sql: &str| shared().source.psql("postgres", sql);
    let known: BTreeMap<&str, &Kind> = BUILT_IN.iter().map(|kind| (kind.0, kind)).collect();
    let comparable = "EXISTS (SELECT FROM pg_opclass o JOIN pg_am a ON a.oid = o.opcmethod WHERE a.amname = 'btree' AND \
                      o.opcdefault AND o.opcintype = CASE WHEN t.typname = 'varchar' THEN 'text'::regtype ELSE t.oid END)";
    let types = ask(&format!(
        "SELECT typname, {comparable} FROM pg_type t WHERE typnamespace = 'pg_catalog'::regnamespace AND typtype = 'b' \
         AND typcategory <> 'A' AND typisdefined ORDER BY oid"
    ));
    let mut cases = Vec::new();
    for line in types.lines() {
        let (name, is_comparable) = line.split_once('|').expect("two columns");
        if WITHOUT_INPUT.contains(&name) {
            continue;
        }
        let (_, edges, random) =
            known.get(name).unwrap_or_else(|| panic!("type {name} of this server is not known here"));
        let quoted = format!("pg_catalog.\"{name}\"");
        cases.push(Case {
            table: format!("b_{name}"),
            declared: quoted.clone(),
            cast: quoted,
            edges: edges.iter().map(|edge| (*edge).to_owned()).collect(),
            random: (*random).to_owned(),
            is_comparable: is_comparable == "t",
        });
    }
    for (place, (declared, edges, random)) in DECLARED.iter().enumerate() {
        let plain = declared.split(" COLLATE").next().expect("a name");
        cases.push(Case {
            table: format!("d_{place}"),
            declared: (*declared).to_owned(),
            cast: plain.to_owned(),
            edges: edges.iter().map(|edge| (*edge).to_owned()).collect(),
            random: (*random).to_owned(),
            is_comparable: false,
        });
    }
    // Ranges and multiranges, over two random values of the type below.
    for line in ask(
        "SELECT r.rngtypid::regtype, m.typname, s.typname FROM pg_range r JOIN pg_type m ON m.oid = r.rngmultitypid \
                     JOIN pg_type s ON s.oid = r.rngsubtype WHERE r.rngtypid < 16384 ORDER BY r.rngtypid",
    )
    .lines()
    {
        let fields: Vec<&str> = line.split('|').collect();
        let (range, multirange) = (fields[0], fields[1]);
        let (_, edges, random) = known[fields[2]];
        let between = |one: &str, other: &str| {
            let kind = fields[2];
            format!(
                "(SELECT {range}(least(a, b), greatest(a, b), '[]') FROM (SELECT ({one})::{kind} AS a, ({other})::{kind} AS b OFFSET 0) AS s)"
            )
        };
        let mut found: Vec<String> = ["'empty'", "'(,)'"].map(str::to_owned).to_vec();
        found.push(format!("{range}(NULL, {})", edges[0]));
        // The last value of a discrete type has no successor.
        let finite: Vec<&str> = edges.iter().copied().filter(|edge| !edge.contains("58748")).collect();
        found.extend(finite.windows(2).map(|pair| {
            let last = ["9223372036854775807", "2147483647"];
            if pair.iter().any(|value| last.contains(value)) { "'empty'".to_owned() } else { between(pair[0], pair[1]) }
        }));
        cases.push(Case {
            table: format!("r_{range}"),
            declared: range.to_owned(),
            cast: range.to_owned(),
            edges: found.clone(),
            random: between(random, random),
            is_comparable: true,
        });
        cases.push(Case {
            table: format!("m_{multirange}"),
            declared: multirange.to_owned(),
            cast: multirange.to_owned(),
            edges: vec!["'{}'".to_owned(), format!("{multirange}({}::{range})", found.last().expect("a range"))],
            random: format!("{multirange}({})", between(random, random)),
            is_comparable: true,
        });
    }
    cases
}

#[test]
fn every_built_in_type_arrives_as_the_server_writes_it_on_every_path_under_hostile_settings() {
    let cases = cases();
    let mut schema = PRELUDE.to_owned();
    for Case { table, declared, is_comparable, .. } in &cases {
        write!(
            schema,
            "CREATE TABLE \"{table}\" (id int PRIMARY KEY, v {declared});
             CREATE TABLE \"{table} keyless\" (v {declared}, n int); ALTER TABLE \"{table} keyless\" REPLICA IDENTITY FULL;"
        )
        .expect("a string can be written to");
        let is_array = declared.contains("[]");
        if !is_array && !declared.contains("COLLATE") && !declared.starts_with("interval ") {
            write!(schema, "CREATE TABLE \"{table} array\" (id int PRIMARY KEY, v {declared}[]);")
                .expect("a string can be written to");
        }
        if *is_comparable {
            write!(schema, "CREATE TABLE \"{table} key\" (v {declared} PRIMARY KEY, n int);")
                .expect("a string can be written to");
        }
    }
    let stage = Stage::bare(&schema);
    for (side, at_source) in [(&stage.source, true), (&stage.target, false)] {
        let mut sql = String::new();
        for (name, source, target) in HOSTILE {
            let value = if at_source { source } else { target };
            write!(sql, "ALTER DATABASE {} SET {name} = {value};", side.database).expect("a string can be written to");
        }
        write!(sql, "ALTER DATABASE {} SET lc_monetary = '{}';", side.database, monetary_locale())
            .expect("a string can be written to");
        side.cluster.psql("postgres", &sql);
    }
    // One source transaction in each of the target's, so that the sizes below are those of the paths.
    stage.replicat_parameters("GROUPTRANSOPS 1\nMAP *.*, TARGET *.*;");
    stage.add_groups();
    let (extract, replicat) = (stage.extract(), stage.replicat());

    let mut script = "SELECT setseed(0.5);\n".to_owned();
    for Case { table, declared, cast, edges, random, is_comparable } in &cases {
        let mut line = |sql: String| writeln!(script, "{sql};").expect("a string can be written to");
        // One by one.
        line(format!("INSERT INTO \"{table}\" VALUES (0, NULL)"));
        for (id, edge) in edges.iter().enumerate() {
            line(format!("INSERT INTO \"{table}\" VALUES ({}, ({edge})::{cast})", id + 1));
        }
        // As arrays.
        line(format!("INSERT INTO \"{table}\" SELECT 100 + g, ({random})::{cast} FROM generate_series(1, 30) AS g"));
        line(format!(
            "UPDATE \"{table}\" AS t SET v = o.v FROM \"{table}\" AS o WHERE o.id = (t.id - 100) % {} AND t.id BETWEEN 101 AND 115",
            edges.len() + 1
        ));
        line(format!("UPDATE \"{table}\" AS t SET v = o.v FROM \"{table}\" AS o WHERE t.id = 120 AND o.id = 1"));
        line(format!("UPDATE \"{table}\" SET v = NULL WHERE id = 121"));
        // By COPY; the longest values need not come so often.
        line(format!(
            "INSERT INTO \"{table}\" SELECT 1000 + row_number() OVER (), v FROM \"{table}\", generate_series(1, 40) AS g WHERE length(v::text) < 9000 OR v IS NULL"
        ));
        let short = "v IS NOT NULL AND length(v::text) < 1500";
        // Without a key each row is found by its text, or by the type's own equality.
        line(format!("INSERT INTO \"{table} keyless\" SELECT v, id FROM \"{table}\" WHERE id < 140 AND {short}"));
        line(format!("UPDATE \"{table} keyless\" SET n = n + 1000 WHERE n % 3 = 0"));
        line(format!("DELETE FROM \"{table} keyless\" WHERE n % 3 = 1"));
        if !declared.contains("[]") && !declared.contains("COLLATE") && !declared.starts_with("interval ") {
            line(format!("INSERT INTO \"{table} array\" VALUES (0, '{{}}'), (1, NULL), (2, '{{NULL}}')"));
            line(format!(
                "INSERT INTO \"{table} array\" SELECT 10 + id % 20, array_agg(v ORDER BY id) FROM \"{table}\" WHERE id < 140 GROUP BY 1"
            ));
            line(format!(
                "INSERT INTO \"{table} array\" SELECT 50, ARRAY[ARRAY[v, NULL], ARRAY[v, v]] FROM \"{table}\" WHERE id = 1"
            ));
            line(format!("UPDATE \"{table} array\" SET v[3:4] = ARRAY[v[1], NULL] WHERE id BETWEEN 10 AND 12"));
        }
        if *is_comparable {
            line(format!("INSERT INTO \"{table} key\" SELECT v, 0 FROM \"{table}\" WHERE {short} GROUP BY v"));
            line(format!("UPDATE \"{table} key\" SET n = n + 1"));
            line(format!(
                "UPDATE \"{table} key\" SET n = 7 WHERE v = (SELECT min(v::text)::{cast} FROM \"{table}\" WHERE {short})"
            ));
            line(format!(
                "DELETE FROM \"{table} key\" WHERE v = (SELECT max(v::text)::{cast} FROM \"{table}\" WHERE {short})"
            ));
            line(format!(
                "DELETE FROM \"{table} key\" WHERE v IN (SELECT v FROM \"{table}\" WHERE id BETWEEN 101 AND 112)"
            ));
        }
    }
    stage.source.script(&script);
    stage.wait_for_signal(&[&extract, &replicat]);
    extract.stop();
    replicat.stop();
    let rows = stage.assert_equal();
    assert!(rows > 50_000, "{rows}");
}
