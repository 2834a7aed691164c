//! Statements of all kinds, from source to target.

use super::{assert_same, stage};

#[test]
fn a_column_with_a_default_arrives_at_its_place_and_what_a_savepoint_took_back_does_not() {
    let stage = stage("CREATE TABLE t (id int PRIMARY KEY, a text, b int)", "DDL");
    let (extract, replicat) = (stage.extract(), stage.replicat());
    stage.source.run("INSERT INTO t VALUES (0, 'before', 0)");
    stage.source.script(
        "BEGIN; INSERT INTO t VALUES (1, 'x', 1); ALTER TABLE t ADD COLUMN d int DEFAULT 7; INSERT INTO t VALUES (2, 'y', 2, 8);
         SAVEPOINT s; ALTER TABLE t DROP COLUMN b; INSERT INTO t VALUES (9, 'undone', 9); ROLLBACK TO s;
         INSERT INTO t VALUES (3, 'z', 3, 9); UPDATE t SET d = d + 1 WHERE id < 2; COMMIT;
         BEGIN; ALTER TABLE t ADD never int; ROLLBACK;",
    );
    // The same in one string: the server tells all of it for each of its statements.
    stage.source.run(
        "BEGIN; INSERT INTO t VALUES (11, 'x', 1); ALTER TABLE t ADD COLUMN e int DEFAULT 7; INSERT INTO t VALUES (12, 'y', 2, 8, 1); \
         SAVEPOINT s; ALTER TABLE t DROP COLUMN b; INSERT INTO t VALUES (19, 'undone', 9); ROLLBACK TO s; \
         INSERT INTO t VALUES (13, 'z', 3, 9); COMMIT",
    );
    stage.source.run("ALTER TABLE t RENAME COLUMN a TO \"A;\"; ALTER TABLE t ALTER d TYPE bigint; ALTER TABLE t DROP e; ALTER TABLE t ADD CHECK (d > 0)");
    stage.source.run("INSERT INTO t VALUES (20, 'new', 3, 4000000000)");
    stage.wait_for_signal(&[&extract, &replicat]);
    extract.stop();
    replicat.stop();
    assert_same(&stage);
    assert_eq!(stage.target.run("SELECT count(*) FROM t"), "8");
}

#[test]
fn objects_of_every_kind_are_made_altered_and_dropped_as_at_the_source() {
    let stage = stage("CREATE TABLE t (id int PRIMARY KEY, a text)", "DDL INCLUDE ALL");
    let (extract, replicat) = (stage.extract(), stage.replicat());
    stage.source.script(
        "CREATE SCHEMA \"We.ird\";
         SET search_path = \"We.ird\", public;
         CREATE TYPE mood AS ENUM ('sad');
         CREATE TABLE made (id serial PRIMARY KEY, m mood, at date DEFAULT '2020-02-01', EXCLUDE (m WITH =));
         INSERT INTO made (m) VALUES ('sad');
         ALTER TYPE mood ADD VALUE 'new' BEFORE 'sad';
         INSERT INTO made (m) VALUES ('new');
         ALTER TYPE mood RENAME VALUE 'sad' TO 'blue';
         ALTER TABLE public.t ADD made int REFERENCES made;
         CREATE DOMAIN small AS int CHECK (VALUE < 10);
         CREATE VIEW v AS SELECT id, a FROM t;
         CREATE FUNCTION twice(int) RETURNS int LANGUAGE sql AS 'SELECT 2 * $1; ';
         CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.a := NEW.a || ';'; RETURN NEW; END $$;
         CREATE TRIGGER note BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION note();
         INSERT INTO t VALUES (1, 'noted', 1);
         CREATE INDEX ON t (a);
         CREATE UNIQUE INDEX CONCURRENTLY \"by;both\" ON t (id, lower(a));
         CREATE INDEX CONCURRENTLY gone ON t (made);
         DROP INDEX CONCURRENTLY gone;
         COMMENT ON TABLE t IS 'a table; with ''quotes''';
         CREATE MATERIALIZED VIEW sums AS SELECT count(*) FROM t;
         CREATE TABLE parted (id int, v text DEFAULT 'x', PRIMARY KEY (id)) PARTITION BY RANGE (id);
         CREATE TABLE parted_1 PARTITION OF parted FOR VALUES FROM (0) TO (10);
         CREATE INDEX ON parted (v);
         INSERT INTO parted VALUES (1, 'a');
         ALTER TABLE parted ADD w int DEFAULT 3;
         CREATE TABLE dropped (id int PRIMARY KEY); INSERT INTO dropped VALUES (1); DROP TABLE dropped;
         CREATE TABLE one (id int PRIMARY KEY); CREATE TABLE other (id int PRIMARY KEY REFERENCES one);
         DROP TABLE one CASCADE;
         DROP TRIGGER note ON t; DROP FUNCTION note();
         CREATE TEMP TABLE passing (id int PRIMARY KEY); ALTER TABLE passing ADD b int; DROP TABLE passing;
         REFRESH MATERIALIZED VIEW sums;
         DROP TABLE IF EXISTS nothing; CREATE TABLE IF NOT EXISTS made (other int);
         ALTER SEQUENCE made_id_seq INCREMENT 5;
         GRANT SELECT ON made TO PUBLIC;
         CREATE TABLE like_it (LIKE made INCLUDING ALL); DROP VIEW v;
         ALTER TABLE other RENAME TO another; ALTER TABLE another SET SCHEMA public; INSERT INTO another VALUES (3);",
    );
    stage.wait_for_signal(&[&extract, &replicat]);
    extract.stop();
    replicat.stop();
    assert_same(&stage);
    // A refresh is no change of the target's, and temporary objects are nobody's.
    assert_eq!(stage.target.run("SELECT count FROM \"We.ird\".sums"), "1");
    assert_eq!(
        stage.target.run("SELECT seqincrement FROM pg_sequence WHERE seqrelid = '\"We.ird\".made_id_seq'::regclass"),
        "5"
    );
    assert_eq!(stage.target.run("SELECT has_table_privilege('pg_monitor', '\"We.ird\".made', 'SELECT')"), "t");
    assert_eq!(stage.target.run("SELECT count(*) FROM public.checkpoints_ddl"), "0");
}

#[test]
fn statements_of_functions_are_told_with_their_own_texts() {
    let stage = stage("CREATE TABLE t (id int PRIMARY KEY)", "DDL");
    stage.source.script(
        "DO $$ BEGIN FOR n IN 1..3 LOOP EXECUTE format('ALTER TABLE t ADD c%s text DEFAULT %L; COMMENT ON COLUMN t.c%1$s IS ''\"x\"''', n, '\"; DROP'); END LOOP;
           EXECUTE 'ALTER TABLE t ADD once int'; END $$;
         CREATE PROCEDURE grow(name text) LANGUAGE plpgsql AS $$ BEGIN EXECUTE format('ALTER TABLE t ADD %I int', name);
           BEGIN EXECUTE format('ALTER TABLE t DROP %I', name); RAISE division_by_zero; EXCEPTION WHEN division_by_zero THEN NULL; END;
           CREATE TABLE from_inside (id int PRIMARY KEY); END $$;
         CALL grow('grown; ');
         INSERT INTO t VALUES (1); INSERT INTO from_inside VALUES (1);",
    );
    stage.replicate();
    assert_same(&stage);
    // A function of SQL does not tell what it runs: that is said, and nothing is passed over in silence.
    stage.source.script(
        "CREATE FUNCTION hidden() RETURNS void LANGUAGE sql AS 'ALTER TABLE t ADD hidden int'; SELECT hidden();",
    );
    let message = stage.extract().fails();
    for word in ["DRV-00750", "ALTER TABLE public.t", "PL/pgSQL", "EXCLUDE"] {
        assert!(message.contains(word), "{message}");
    }
    stage.extract_parameters("DDL INCLUDE ALL, EXCLUDE OPTYPE ALTER OBJNAME public.t\nTABLE *.*;");
    stage.target.run("ALTER TABLE t ADD hidden int");
    stage.source.run("INSERT INTO t VALUES (2)");
    stage.replicate();
    assert_same(&stage);
    assert!(stage.text("dirrpt/E1.rpt").contains("DRV-00751"), "{}", stage.text("dirrpt/E1.rpt"));
}

#[test]
fn tables_made_of_queries_arrive_with_their_rows() {
    let stage = stage("CREATE TABLE t (id int PRIMARY KEY, a text COLLATE \"C\")", "DDL");
    stage.source.script(
        "INSERT INTO t SELECT n, 'row ' || n FROM generate_series(1, 50) AS n;
         CREATE TABLE made AS SELECT id, a, now() AS at, 1.50::numeric(5,2) AS n FROM t;
         UPDATE made SET a = 'changed' WHERE id = 7;
         BEGIN; SELECT a INTO \"In;To\" FROM t WHERE id < 4; INSERT INTO \"In;To\" VALUES ('more'); COMMIT;
         CREATE TABLE empty_one AS SELECT * FROM t WITH NO DATA; ALTER TABLE empty_one ADD PRIMARY KEY (id); INSERT INTO empty_one VALUES (1);
         CREATE TABLE undone AS SELECT 1 AS a; DROP TABLE undone;",
    );
    stage.replicate();
    stage.assert_equal();
    assert_eq!(stage.target.run("SELECT count(*), count(*) FILTER (WHERE a = 'changed') FROM made"), "50|1");
}

#[test]
fn values_that_the_source_has_given_to_rows_are_the_targets_too() {
    let stage = stage("CREATE TABLE t (id int PRIMARY KEY, a text)", "DDL");
    stage.source.run("INSERT INTO t SELECT n, 'row ' || n FROM generate_series(1, 200) AS n; DELETE FROM t WHERE id % 7 = 0; INSERT INTO t VALUES (7, 'again')");
    let (extract, replicat) = (stage.extract(), stage.replicat());
    stage.wait_for_signal(&[&extract, &replicat]);
    stage.source.script(
        "ALTER TABLE t ADD at timestamptz DEFAULT clock_timestamp(), ADD fixed timestamptz DEFAULT now(), ADD n int DEFAULT 5;
         ALTER TABLE t ADD number uuid DEFAULT gen_random_uuid();
         ALTER TABLE t ADD made int GENERATED ALWAYS AS (id * 2) STORED;
         ALTER TABLE t ADD counted serial;
         INSERT INTO t (id) VALUES (1000);
         ALTER TABLE t ADD list int[] DEFAULT '{1,2}', ADD word text DEFAULT current_user;",
    );
    stage.wait_for_signal(&[&extract, &replicat]);
    extract.stop();
    replicat.stop();
    stage.assert_equal();
}
