//! Names that mean harm.

use super::stage::Stage;

/// 63 bytes of letters with two bytes each, and one.
fn long() -> String {
    format!("{}x", "ж".repeat(31))
}

#[test]
fn names_that_look_like_statements_wildcards_or_each_other_arrive_as_they_are() {
    let long = long();
    let tables = [
        r#""Weird.Schema"."a""b""#.to_owned(),
        r#""Weird.Schema"."x""; DROP TABLE y; --""#.to_owned(),
        "public.y".to_owned(),
        r#"public."select""#.to_owned(),
        r#"public."Select""#.to_owned(),
        "public.t_1".to_owned(),
        "public.ta1".to_owned(),
        r#"public."t%1""#.to_owned(),
        r#"public."back`tick'quote""#.to_owned(),
        r#"public." ""#.to_owned(),
        r#"public."$1""#.to_owned(),
        format!(r#""{long}"."{long}""#),
        r#"public."a.b""#.to_owned(),
        r#"public."🐘""#.to_owned(),
        r#"public.""""#.to_owned() + r#"""#,
    ];
    let columns = format!(
        r#""Id" int, "id" int, "p:k" text, "col`1" text, "col\3" text, "ключ" int, "a""b" text, "x""; DROP TABLE y; --" text,
           "select" int, "$1" text, " " text, "ctid " text, "t" text, "d" text, "v1" text, "{long}" text"#
    );
    let mut schema = format!(r#"CREATE SCHEMA "Weird.Schema"; CREATE SCHEMA "{long}";"#);
    for table in &tables {
        schema.push_str(&format!(r#"CREATE TABLE {table} ({columns}, PRIMARY KEY ("p:k", "id"));"#));
    }
    schema.push_str(r#"ALTER TABLE public."select" REPLICA IDENTITY FULL;"#);
    let stage = Stage::new(&schema);
    for (number, table) in tables.iter().enumerate() {
        stage.source.run(&format!(
            r#"INSERT INTO {table} SELECT g, -g, 'k' || g, 'a', 'b', g, 'c', 'd', g, 'e', 'f', 'g', 'h', 'i', 'j', '{number}' FROM generate_series(1, 20) AS g"#
        ));
        stage
            .source
            .run(&format!(r#"UPDATE {table} SET "Id" = "id", "id" = "Id", " " = '{number}' WHERE "ключ" % 2 = 0"#));
        stage.source.run(&format!(
            r#"UPDATE {table} SET "{long}" = 'one' WHERE "p:k" = 'k1'; DELETE FROM {table} WHERE "p:k" = 'k3'"#
        ));
        stage
            .source
            .run(&format!(r#"UPDATE {table} SET "x""; DROP TABLE y; --" = 'x'; DELETE FROM {table} WHERE "id" < -15"#));
    }
    stage.source.run(r#"TRUNCATE "Weird.Schema"."x""; DROP TABLE y; --""#);
    stage.replicate();
    stage.assert_equal();
    let report = stage.console("INFO ALL");
    assert!(report.contains("E1") && report.contains("R1"), "{report}");
}

#[test]
fn parameter_files_choose_hostile_names_letter_for_letter() {
    let stage = Stage::bare(
        r#"CREATE TABLE t_1 (id int PRIMARY KEY); CREATE TABLE ta1 (id int PRIMARY KEY); CREATE TABLE "T_1" (id int PRIMARY KEY);
           CREATE SCHEMA "Weird.Schema"; CREATE TABLE "Weird.Schema"."a""b" (id int PRIMARY KEY, "K" int);
           CREATE TABLE "Weird.Schema"."a*" (id int PRIMARY KEY)"#,
    );
    stage.extract_parameters(
        "TABLE public.signal;\nTABLE PUBLIC.T_1;\nTABLE \"Weird.Schema\".\"a\"\"b\", KEYCOLS (\"K\");\nTABLE \"Weird.Schema\".\"a*\";",
    );
    stage.replicat_parameters("MAP *.*, TARGET *.*;");
    stage.add_groups();
    for table in ["t_1", "ta1", "\"T_1\"", "\"Weird.Schema\".\"a*\""] {
        stage.source.run(&format!("INSERT INTO {table} VALUES (1), (2); DELETE FROM {table} WHERE id = 1"));
    }
    stage.source.run(r#"INSERT INTO "Weird.Schema"."a""b" VALUES (1, 10), (2, 20); UPDATE "Weird.Schema"."a""b" SET id = 3 WHERE "K" = 10"#);
    stage.replicate();
    assert_eq!(stage.target.run("SELECT * FROM t_1"), "2");
    assert_eq!(stage.target.run("SELECT (SELECT count(*) FROM ta1), (SELECT count(*) FROM \"T_1\")"), "0|0");
    assert_eq!(stage.target.run("SELECT * FROM \"Weird.Schema\".\"a*\""), "2");
    assert_eq!(stage.target.run("SELECT * FROM \"Weird.Schema\".\"a\"\"b\" ORDER BY id"), "2|20\n3|10");
}
