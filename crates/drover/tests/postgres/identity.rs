//! How rows are found: replica identities, long values that are not sent, tables without keys, keys that change.

use super::stage::Stage;

/// A value that goes to TOAST uncompressed.
const LONG: &str = "string_agg(md5(n::text), '') FROM generate_series(1, 700) AS n";

#[test]
fn long_values_that_an_update_leaves_alone_stay_at_the_target_under_every_identity() {
    let mut schema = String::new();
    for name in ["usual", "whole", "indexed"] {
        schema.push_str(&format!(
            "CREATE TABLE {name} (id int PRIMARY KEY, code text NOT NULL UNIQUE, a int, long text, other bytea);
             ALTER TABLE {name} ALTER long SET STORAGE EXTERNAL, ALTER other SET STORAGE EXTERNAL;"
        ));
    }
    schema.push_str(
        "ALTER TABLE whole REPLICA IDENTITY FULL; ALTER TABLE indexed REPLICA IDENTITY USING INDEX indexed_code_key;
         CREATE TABLE keyless (a int, long text); ALTER TABLE keyless REPLICA IDENTITY FULL;
         ALTER TABLE keyless ALTER long SET STORAGE EXTERNAL;",
    );
    let stage = Stage::new(&schema);
    for table in ["usual", "whole", "indexed"] {
        stage.source.run(&format!(
            "INSERT INTO {table} SELECT g, 'c' || g, 0, (SELECT {LONG}), convert_to((SELECT {LONG}), 'UTF8') FROM generate_series(1, 30) AS g"
        ));
        // Few and many in one transaction; the key and the index's column too; some of the long values change.
        stage.source.run(&format!("UPDATE {table} SET a = 1 WHERE id < 4"));
        stage.source.run(&format!("UPDATE {table} SET a = 2"));
        stage.source.run(&format!("UPDATE {table} SET id = id + 100 WHERE id BETWEEN 5 AND 9"));
        stage.source.run(&format!("UPDATE {table} SET code = code || 'x' WHERE id % 2 = 0"));
        stage.source.run(&format!(
            "UPDATE {table} SET long = reverse(long) WHERE id % 5 = 0; UPDATE {table} SET a = 3 WHERE id % 5 = 0"
        ));
        stage.source.run(&format!(
            "UPDATE {table} SET long = NULL, other = '' WHERE id = 12; DELETE FROM {table} WHERE id = 13"
        ));
    }
    stage.source.run(&format!("INSERT INTO keyless SELECT g, (SELECT {LONG}) FROM generate_series(1, 20) AS g"));
    stage.source.run("UPDATE keyless SET a = a + 100 WHERE a < 3");
    stage.source.run("UPDATE keyless SET a = a + 200 WHERE a > 5");
    stage.source.run("DELETE FROM keyless WHERE a = 4");
    stage.replicate();
    stage.assert_equal();
    assert_eq!(stage.target.run("SELECT min(length(long)) > 20000 FROM whole"), "t");
}

#[test]
fn rows_without_a_key_are_found_with_their_nulls_and_one_at_a_time() {
    let stage = Stage::new(
        "CREATE TABLE bag (a int, b text, c numeric, d json, e point); ALTER TABLE bag REPLICA IDENTITY FULL;
         CREATE TABLE alike (v float8, n numeric, d interval); ALTER TABLE alike REPLICA IDENTITY FULL;
         CREATE TABLE loose (code int UNIQUE, a text); ALTER TABLE loose REPLICA IDENTITY FULL",
    );
    stage.source.run("INSERT INTO bag VALUES (1, 'x', 1.0, '{}', '(0,0)'), (1, 'x', 1.0, '{}', '(0,0)'), (1, 'x', 1.00, '{ }', '(0,-0)')");
    stage.source.run("INSERT INTO bag VALUES (NULL, NULL, NULL, NULL, NULL), (NULL, NULL, NULL, NULL, NULL), (NULL, '', NULL, NULL, NULL)");
    stage.source.run("UPDATE bag SET b = 'one of two' WHERE ctid = (SELECT min(ctid) FROM bag WHERE a = 1)");
    stage.source.run("DELETE FROM bag WHERE ctid = (SELECT min(ctid) FROM bag WHERE b IS NULL)");
    // Nothing changes, yet the row is told.
    stage.source.run("UPDATE bag SET a = a");
    stage.source.run("UPDATE bag SET a = 7 WHERE c::text = '1.00'; DELETE FROM bag WHERE b = ''");
    // Equal to the operator, and yet not the same.
    stage.source.run("INSERT INTO alike VALUES (0, 1.0, '1 day'), ('-0', 1.00, '24 hours'), ('-0', 1.0, '1 day'), (0, 1.00, '1 day')");
    stage.source.run("UPDATE alike SET d = interval '7' WHERE v::text = '-0' AND n::text = '1.0'");
    stage.source.run("DELETE FROM alike WHERE v::text = '0' AND n::text = '1.00'");
    stage.source.run("INSERT INTO alike SELECT CASE WHEN g % 2 = 0 THEN '0' ELSE '-0' END::float8, 5, '1 mon' FROM generate_series(1, 40) AS g");
    stage.source.run("UPDATE alike SET d = '30 days' WHERE v::text = '-0' AND n = 5");
    stage.source.run("DELETE FROM alike WHERE v::text = '0' AND n = 5");
    // NULLs in a unique column do not make rows the same.
    stage.source.run("INSERT INTO loose VALUES (NULL, 'a'), (NULL, 'b'), (NULL, 'c'), (1, 'd')");
    stage.source.run("UPDATE loose SET a = 'B' WHERE a = 'b'; UPDATE loose SET code = 5 WHERE a = 'c'; DELETE FROM loose WHERE a = 'a'");
    stage.source.run("INSERT INTO loose SELECT NULL, n::text FROM generate_series(1, 50) AS n");
    stage.source.run("UPDATE loose SET a = a || '!' WHERE code IS NULL; DELETE FROM loose WHERE a LIKE '%3!'");
    stage.replicate();
    stage.assert_equal();
    assert_eq!(stage.target.run("SELECT count(*), count(DISTINCT a) FROM loose"), "48|48");
}

#[test]
fn keys_change_in_every_order() {
    let stage = Stage::new(
        "CREATE TABLE swap (id int PRIMARY KEY DEFERRABLE, a text); ALTER TABLE swap REPLICA IDENTITY FULL;
         CREATE TABLE moved (id int PRIMARY KEY, a text);
         CREATE TABLE pair (a int, b int, note text, PRIMARY KEY (b, a));",
    );
    stage.source.run("INSERT INTO swap VALUES (1, 'one'), (2, 'two'), (3, 'three')");
    stage.source.run(
        "SET CONSTRAINTS ALL DEFERRED; UPDATE swap SET id = 2 WHERE a = 'one'; UPDATE swap SET id = 1 WHERE a = 'two'",
    );
    stage.source.run("INSERT INTO swap SELECT n, n::text FROM generate_series(10, 60) AS n");
    stage.source.run("SET CONSTRAINTS ALL DEFERRED; UPDATE swap SET id = 70 - id WHERE id >= 10");
    stage.source.run("UPDATE swap SET id = id + 1");
    stage.source.run("INSERT INTO moved SELECT n, n::text FROM generate_series(1, 40) AS n");
    // The key changes last; then it changes and the row goes; then another row takes its place.
    stage.source.run("UPDATE moved SET a = 'x' WHERE id = 1; UPDATE moved SET id = 101 WHERE id = 1");
    stage.source.run("UPDATE moved SET id = 102 WHERE id = 2; DELETE FROM moved WHERE id = 102");
    stage.source.run("UPDATE moved SET id = 103 WHERE id = 3; INSERT INTO moved VALUES (3, 'new'); UPDATE moved SET id = 1003 WHERE id = 103");
    stage.source.run("UPDATE moved SET id = -4 WHERE id = 4; UPDATE moved SET id = 4 WHERE id = 5; UPDATE moved SET id = 5 WHERE id = -4");
    stage.source.run("UPDATE moved SET id = id + 200, a = a || '!' WHERE id BETWEEN 10 AND 30");
    stage.source.run("DELETE FROM moved WHERE id = 40; INSERT INTO moved VALUES (40, 'again'); UPDATE moved SET a = 'and again' WHERE id = 40");
    stage.source.run("INSERT INTO pair SELECT n / 5, n % 5, 'n' FROM generate_series(0, 24) AS n");
    stage.source.run("UPDATE pair SET a = a + 10 WHERE b = 2; UPDATE pair SET b = b + 10, note = 'm' WHERE a = 3; DELETE FROM pair WHERE a = b");
    stage.replicate();
    stage.assert_equal();
}

#[test]
fn a_publication_of_the_users_for_all_tables_breaks_neither_his_writes_nor_ours() {
    let stage = Stage::bare("CREATE TABLE t (id int PRIMARY KEY, a text)");
    for side in [&stage.source, &stage.target] {
        side.run("CREATE PUBLICATION theirs FOR ALL TABLES");
    }
    stage.add_groups();
    stage.source.run("INSERT INTO t SELECT n, 'a' FROM generate_series(1, 20) AS n");
    stage.replicate();
    stage.source.run("UPDATE t SET a = 'b'; DELETE FROM t WHERE id > 15");
    stage.replicate();
    stage.assert_equal();
    let (source, target) = (stage.source.url(), stage.target.url());
    stage.console(&format!(
        "DBLOGIN SOURCEDB '{target}'; DELETE REPLICAT r1 !; DELETE CHECKPOINTTABLE public.checkpoints !; \
         DBLOGIN SOURCEDB '{source}'; DELETE EXTRACT e1 !"
    ));
}

#[test]
fn a_table_that_can_not_tell_its_rows_is_refused_before_anything_is_installed() {
    for (table, word) in [
        ("CREATE TABLE t (a int)", "no primary key"),
        ("CREATE TABLE t (id int PRIMARY KEY); ALTER TABLE t REPLICA IDENTITY NOTHING", "NOTHING"),
        ("CREATE UNLOGGED TABLE t (id int PRIMARY KEY)", "unlogged"),
        ("CREATE TABLE t (id int PRIMARY KEY DEFERRABLE, a text)", "no primary key that could identify"),
    ] {
        let stage = Stage::bare(table);
        let message = stage.console_refuses(&stage.set_up());
        assert!(message.contains("public.t") && message.contains(word) && message.contains("next step"), "{message}");
        assert_eq!(stage.source.run("SELECT count(*) FROM pg_publication"), "0");
        let database = &stage.source.database;
        assert_eq!(
            stage.source.run(&format!("SELECT count(*) FROM pg_replication_slots WHERE database = '{database}'")),
            "0"
        );
        // Left out, it is in nobody's way.
        stage.extract_parameters("TABLE public.*;\nTABLEEXCLUDE public.t;");
        stage.add_groups();
        stage.replicate();
    }
}
