//! The target holds what the source holds, value for value and storage class for storage class.

use crate::stage::{Stage, number, rows};

const SCHEMA: &str = "
    CREATE TABLE plain (id INTEGER PRIMARY KEY, a, b TEXT, c REAL, d BLOB, e NUMERIC, f INTEGER);
    CREATE TABLE pair (a TEXT, b INTEGER, c, PRIMARY KEY (a, b)) WITHOUT ROWID;
    CREATE TABLE strict (id INTEGER PRIMARY KEY, i INT, r REAL, t TEXT, b BLOB, x ANY) STRICT;
    -- A primary key of several columns may hold NULLs, and then does not tell rows apart.
    CREATE TABLE null_key (a TEXT, b INT, c, PRIMARY KEY (a, b));
    CREATE TABLE computed (id INTEGER PRIMARY KEY, a INT, v INT AS (a + 1) VIRTUAL, s INT AS (a * 2) STORED, z TEXT);
    CREATE TABLE \"select\" (\"a b\" INTEGER PRIMARY KEY, \"it's\" TEXT, \"x\"\"y\" TEXT, ключ TEXT);
";
const TABLES: [&str; 6] = ["plain", "pair", "strict", "null_key", "computed", "\"select\""];

#[test]
fn a_new_user_sees_inserts_updates_and_deletes_arrive() {
    let stage = Stage::new("CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT)");
    let (extract, replicat) = (stage.extract(), stage.replicat());
    let source = stage.source();
    source.execute_batch("INSERT INTO t VALUES (1, 'one'), (2, 'two'), (3, 'three')").expect("inserts");
    stage.wait_until_equal(&["t"], &extract, &replicat);
    source.execute_batch("UPDATE t SET name = 'zwei' WHERE id = 2; DELETE FROM t WHERE id = 3").expect("changes");
    stage.wait_until_equal(&["t"], &extract, &replicat);
    extract.stop();
    replicat.stop();
    assert_eq!(
        rows(&stage.target(), "t"),
        [["integer 1", "text \"one\""].map(str::to_owned), ["integer 2", "text \"zwei\""].map(str::to_owned)]
    );
}

#[test]
fn changes_before_add_extract_are_not_captured_and_changes_before_the_first_start_are() {
    let stage = Stage::bare("CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT)");
    stage.source().execute_batch("INSERT INTO t VALUES (1, 'before')").expect("an insert");
    stage.console(crate::stage::SET_UP);
    stage.source().execute_batch("INSERT INTO t VALUES (2, 'after')").expect("an insert");
    let (extract, replicat) = (stage.extract(), stage.replicat());
    crate::stage::eventually("the row arrives", || {
        (number(&stage.target(), "SELECT count(*) FROM t") == 1).then_some(())
    });
    extract.stop();
    replicat.stop();
    assert_eq!(number(&stage.target(), "SELECT id FROM t"), 2);
}

#[test]
fn every_storage_class_arrives_as_it_is_stored() {
    let stage = Stage::new(SCHEMA);
    let source = stage.source();
    source
        .execute_batch(
            "
            INSERT INTO plain VALUES (1, NULL, NULL, NULL, NULL, NULL, NULL);
            INSERT INTO plain VALUES (2, 9223372036854775807, 'text', 1.5, x'00ff', 12, -9223372036854775808);
            INSERT INTO plain VALUES (3, -0.0, '', -0.0, x'', 1e300, 1.5);
            INSERT INTO plain VALUES (4, 9e999, '12', -9e999, 'a text in a blob column', '0x10', 'not a number');
            INSERT INTO plain VALUES (5, '9e999', 'Äpfel 🐂 ключ', 4.9406564584124654e-324, 5, '1e2', x'31');
            INSERT INTO plain VALUES (-9223372036854775808, 0.1, char(0) || 'nul', 0.1 + 0.2, zeroblob(100000), 1.0, 1.0);
            INSERT INTO plain VALUES (7, x'', hex(randomblob(100000)), 1.7976931348623157e308, randomblob(70000), 0.1, NULL);
            INSERT INTO plain VALUES (8, CAST(x'ff00fe' AS TEXT), 'it''s; \"x\", `y` \\ %', 3, 'x', ' 7 ', '7');
            INSERT INTO pair VALUES ('a', 1, 'x'), ('a', 2, NULL), ('', 1, x'00'), ('A', 1, 1.0);
            INSERT INTO strict VALUES (1, 1, 1, 't', x'01', 1), (2, NULL, NULL, NULL, NULL, NULL), (3, 2, 2.5, '', x'', 'any');
            INSERT INTO strict VALUES (4, 3, 3, '3', x'33', 3.0), (5, 3, 3, '3', x'33', x'33'), (6, 3, 3, '3', x'33', '3');
            INSERT INTO null_key VALUES (NULL, 1, 'first'), (NULL, 1, 'second'), ('k', 3, 'third'), (NULL, NULL, x'00');
            INSERT INTO null_key VALUES (NULL, 1, 'twice'), (NULL, 1, 'twice'), ('k', NULL, 1), ('k', NULL, 1.0);
            INSERT INTO computed (id, a, z) VALUES (1, 10, 'z'), (2, NULL, NULL);
            INSERT INTO \"select\" VALUES (1, 'it''s', 'x\"y', 'значение');
            ",
        )
        .expect("inserts");
    stage.replicate(&TABLES);
    source
        .execute_batch(
            "
            UPDATE plain SET a = b, b = CAST(a AS TEXT);
            UPDATE plain SET c = f, d = CAST(e AS BLOB), e = d WHERE id > 2;
            UPDATE pair SET b = b + 10, c = NULL WHERE a = 'a';
            UPDATE pair SET a = 'B' WHERE a = 'A';
            UPDATE strict SET x = t, t = 'changed' WHERE id > 3;
            UPDATE null_key SET c = 'changed' WHERE c = 'second';
            UPDATE null_key SET c = 'one of two' WHERE rowid = (SELECT min(rowid) FROM null_key WHERE c = 'twice');
            UPDATE null_key SET a = NULL WHERE b = 3;
            DELETE FROM null_key WHERE typeof(c) = 'real';
            UPDATE computed SET a = 7 WHERE id = 2;
            UPDATE \"select\" SET \"it's\" = NULL, \"x\"\"y\" = '', ключ = 'ключ';
            DELETE FROM plain WHERE id = 7;
            DELETE FROM pair WHERE a = '';
            DELETE FROM null_key WHERE c = 'first';
            ",
        )
        .expect("changes");
    stage.replicate(&TABLES);
    stage.assert_equal(&TABLES);
}

#[test]
fn a_transaction_that_is_rolled_back_leaves_no_trace() {
    let stage = Stage::new("CREATE TABLE t (id INTEGER PRIMARY KEY, a)");
    let source = stage.source();
    source
        .execute_batch(
            "
            BEGIN; INSERT INTO t VALUES (1, 'gone'); ROLLBACK;
            BEGIN; INSERT INTO t VALUES (2, 'kept'); SAVEPOINT s; INSERT INTO t VALUES (3, 'gone'); UPDATE t SET a = 'gone';
            ROLLBACK TO s; INSERT INTO t VALUES (4, 'kept'); COMMIT;
            ",
        )
        .expect("transactions");
    source.execute_batch("INSERT INTO t VALUES (5, 'kept'), (2, 'a duplicate')").expect_err("a duplicate");
    stage.replicate(&["t"]);
    assert_eq!(number(&stage.target(), "SELECT count(*) FROM t WHERE a <> 'kept'"), 0);
}

#[test]
fn a_large_transaction_arrives_whole() {
    let stage = Stage::new("CREATE TABLE t (id INTEGER PRIMARY KEY, a, b)");
    let source = stage.source();
    source
        .execute_batch(
            "
            WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000)
            INSERT INTO t SELECT i, 'row ' || i, i * 0.1 FROM n;
            UPDATE t SET id = -id;
            ",
        )
        .expect("changes");
    let (extract, replicat) = (stage.extract(), stage.replicat());
    let target = stage.target();
    crate::stage::eventually("all rows arrive, and never a part of a transaction", || {
        extract.assert_running();
        replicat.assert_running();
        let rows = number(&target, "SELECT count(*) FROM t");
        assert!([0, 100_000].contains(&rows), "{rows}");
        (number(&target, "SELECT count(*) FROM t WHERE id < 0") == 100_000).then_some(())
    });
    stage.assert_equal(&["t"]);
}
